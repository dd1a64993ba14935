"""Every command's answer as JSON: one shape, whether it accepts, refuses or fails (docs/reference/json.md)."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gpupools.cli.main import COMMANDS, main
from tests.engine.existing_pools import gke_pool

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
OWN = {
    row[1]: re.findall(r"`(\w+)`", row[2]) for row in re.finditer(r"^\| `([a-z ]+)` \| (`.*`) \|$", PAGE, re.MULTILINE)
}
EVERY = ["version", "command", "result", "problems"]
PROBLEM = ["file", "line", "key", "what", "fix", "source"]
CODES = {0: "accepted", 3: "accepted", 1: "refused", 2: "failed"}

STACK = """\
config:
  gpupools:clusters:
    lab: {cloud: gcp, name: lab, project: ml-prod, location: europe-west4,
      service_account: gpu@ml-prod.iam.gserviceaccount.com}
  gpupools:pools:
    a: {clusters: [lab], instance_type: g2-standard-8, nodes: {max: 8}}
"""
FILES = {
    "Pulumi.good.yaml": STACK,
    "Pulumi.spot.yaml": STACK.replace("max: 8}", "max: 8}, capacity: {mode: spot}"),
    "Pulumi.bad.yaml": STACK.replace("g2-standard-8", "g2-standard-9"),
    "Pulumi.yaml": "{name: team, runtime: python}",
    "listed/Pulumi.yaml": "{name: listed, runtime: python}",
    "listed/Pulumi.one.yaml": STACK,
    "work.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: a}]}\n",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n",
    "good.json": "{}",
    "state.json": '{"version": 3, "deployment": {}}',
    "pool.json": json.dumps(gke_pool(Random(1), 0).described),
    "bad.json": '{"gpu-pool-tainted": "disabled"}',
}

RUNS = [
    ("check Pulumi.good.yaml", 0),
    ("check Pulumi.bad.yaml Pulumi.good.yaml", 1),
    ("check Pulumi.none.yaml", 1),
    ("preview Pulumi.good.yaml", 0),
    ("preview Pulumi.bad.yaml", 1),
    ("preview Pulumi.none.yaml", 1),
    ("import pool.json --out Pulumi.moved.yaml --team vision --gpu-operator gpu-operator/operator", 0),
    ("import pool.json --out Pulumi.good.yaml", 1),
    ("orphans state.json pool.json", 0),
    ("orphans pool.json", 1),
    ("diff Pulumi.good.yaml Pulumi.good.yaml", 0),
    ("diff --exit-code Pulumi.good.yaml Pulumi.spot.yaml", 3),
    ("diff Pulumi.good.yaml Pulumi.bad.yaml", 1),
    ("diff Pulumi.bad.yaml Pulumi.bad.yaml", 1),
    ("diff Pulumi.good.yaml", 2),
    ("diff --since HEAD Pulumi.good.yaml", 2),
    ("report --no-policies Pulumi.good.yaml Pulumi.spot.yaml", 0),
    ("report --no-policies -o plan.html Pulumi.good.yaml", 0),
    ("report Pulumi.bad.yaml", 1),
    ("report Pulumi.none.yaml", 1),
    ("report -o good.json Pulumi.good.yaml", 2),
    ("report --since HEAD Pulumi.good.yaml", 2),
    ("stacks", 1),
    ("stacks listed", 0),
    ("stacks none", 1),
    ("stacks --since HEAD listed", 2),
    ("images Pulumi.good.yaml", 0),
    ("images Pulumi.bad.yaml", 1),
    ("images Pulumi.none.yaml", 1),
    ("ready Pulumi.good.yaml", 2),
    ("ready --pool none Pulumi.good.yaml", 2),
    ("ready Pulumi.none.yaml", 2),
    ("fit work.yaml --stack Pulumi.good.yaml", 0),
    ("fit none.yaml --stack Pulumi.good.yaml", 1),
    ("fit pod.yaml --stack Pulumi.bad.yaml", 1),
    ("fit --stack Pulumi.good.yaml", 2),
    ("fit --context none --stack Pulumi.good.yaml", 2),
    ("policy pod.yaml", 0),
    ("policy none.yaml", 1),
    ("policy --config good.json pod.yaml", 0),
    ("policy --config bad.json pod.yaml", 1),
    ("policy --config none.json pod.yaml", 1),
    ("policy --check-config good.json", 0),
    ("policy --check-config good.json bad.json", 1),
    ("catalog --gpu L4", 0),
    ("catalog --gpu L5", 2),
    ("catalog --cloud ows", 2),
    ("mig profiles --gpu A30", 0),
    ("mig profiles --gpu L4", 1),
    ("mig profiles --gpu L5", 2),
    ("mig fit --gpu A30 1g.6gb", 0),
    ("mig fit --gpu A30 4g.24gb 4g.24gb", 1),
    ("mig fit --gpu A30 9g.9gb", 1),
    ("mig fit --gpu A100 1g.6gb", 2),
    ("mig pack --gpu A30 1g.6gb=3", 0),
    ("mig pack --gpu A30 4g.24gb=17", 1),
    ("mig pack --gpu A30 x", 2),
    ("matrix --gpu L4", 0),
    ("matrix --gpu L5", 2),
    ("explain MIG", 0),
    ("explain sharing", 0),
    ("explain xyzzy", 2),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "listed").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_every_command_is_on_the_page_and_tried() -> None:
    # These print a file and nothing around it.
    answering = set(COMMANDS) - {"schema", "completion", "new", "prices", "render"}
    assert {name.split()[0] for name in OWN} == answering
    assert {words.split()[0] for words, _ in RUNS} == answering


def test_the_former_name_of_orphans_still_works(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    answers = []
    for command in ("orphans", "leftovers"):
        assert main([command, "state.json", "pool.json", "--json"]) == 0
        answers.append(json.loads(capfd.readouterr().out))

    assert answers[0] == answers[1]
    assert answers[0]["command"] == "orphans"


@pytest.mark.parametrize(("words", "code"), RUNS, ids=[words for words, _ in RUNS])
def test_an_answer_has_the_keys_of_the_page(
    words: str, code: int, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*words.split(), "--json"]) == code
    printed = capfd.readouterr()
    said: dict[str, Any] = json.loads(printed.out)

    assert printed.err == ""
    command = " ".join(words.split()[: 2 if words.startswith("mig") else 1])
    assert (said["version"], said["command"], said["result"]) == (1, command, CODES[code])
    assert list(said) == [*EVERY, *(key for key in said if key not in EVERY)]
    assert sorted(key for key in said if key not in EVERY) == sorted(OWN[command])
    assert [list(problem) for problem in said["problems"]] == [PROBLEM] * len(said["problems"])
    assert bool(said["problems"]) is (code in (1, 2))


@pytest.mark.parametrize("form", ["sarif", "junit", "github", "json"])
@pytest.mark.parametrize("config", ["bad.json", "none.json"])
def test_a_refused_configuration_is_told_in_every_format(
    form: str, config: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy", "pod.yaml", "--config", config, "--format", form]) == 1
    printed = capsys.readouterr()

    assert printed.err == ""
    assert config in printed.out
    assert "pod.yaml" not in printed.out
    if form == "sarif":
        (invocation,) = json.loads(printed.out)["runs"][0]["invocations"]
        assert invocation["executionSuccessful"] is False
        assert len(invocation["toolExecutionNotifications"]) == 1
    elif form == "junit":
        assert 'errors="1"' in printed.out
    elif form == "github":
        assert printed.out.startswith(f"::error file={config},title=gpupools policy::")
