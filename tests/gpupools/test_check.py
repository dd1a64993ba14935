"""`gpupools check`: files in, problems with file and line out; and the command line around it."""

import io
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import SchemaError

from gpupools.cli import check as command
from gpupools.cli.main import COMMANDS, main
from gpupools.common.errors import Rejected
from gpupools.plan.cloud import Cloud
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.reader import FileRejected
from gpupools.stackfile.stack import plan_config

GOOD = """\
config:
  gpupools:clusters:
    lab: {cloud: fake, name: lab-dev, region: north}
  gpupools:pools:
    a:
      clusters: [lab]
      gpu: L4
      nodes: {max: 4}
"""

WRONG = """\
config:
  gpupools:clusters:
    lab: {cloud: fake, name: lab-dev, regin: north}
    sky: {cloud: fake, name: sky-dev, region: south}
  gpupools:pools:
    a:
      clusters: [lab]
      gpu: L4
      nodes: {max: 4, min: 5}
    b:
      clusters:
        - sky
        - skye
      gpu: A100
      nodes:
        max: 1
      labels:
        fake.example.com/zone: x
"""


@pytest.fixture
def only_fake(fake_clouds: Mapping[str, Cloud], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command know the fake cloud alone."""
    monkeypatch.setattr(command, "clouds", lambda: fake_clouds)


def write(folder: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (folder / f"Pulumi.{name}.yaml").write_text(text, encoding="utf-8")
    return [str(folder / f"Pulumi.{name}.yaml") for name in files]


def test_every_problem_has_its_line(tmp_path: Path, fake_clouds: Mapping[str, Cloud]) -> None:
    (name,) = write(tmp_path, dev=WRONG)

    with pytest.raises(FileRejected) as caught:
        check_stack_file(Path(name), fake_clouds)

    found = locate(Path(name), caught.value)
    assert [(each.line, each.problem.key) for each in found] == [
        (3, "clusters.lab.regin"),
        (9, "pools.a.nodes"),
        (13, "pools.b.clusters[1]"),
        (14, "pools.b.gpu"),
        (18, "pools.b.labels.fake.example.com/zone"),
    ]
    assert str(found[1]) == f"{name}:9: pools.a.nodes: min 5 is above max 4; lower min or raise max"
    assert found[1].as_json() == {
        "file": name,
        "line": 9,
        "key": "pools.a.nodes",
        "what": "min 5 is above max 4",
        "fix": "lower min or raise max",
        "source": "",
    }


def test_the_planner_points_into_a_layout_written_with_numbers(
    tmp_path: Path, fake_clouds: Mapping[str, Cloud]
) -> None:
    layout = "\n      sharing:\n        mode: mig\n        layout:\n          0: [1g.5gb]\n          1: [1g.6gb]\n"
    (name,) = write(tmp_path, dev=GOOD.replace("gpu: L4", "gpu: A100-40GB") + layout.lstrip("\n"))

    with pytest.raises(Rejected) as caught:
        check_stack_file(Path(name), fake_clouds)

    lines = {each.problem.key: each.line for each in locate(Path(name), caught.value)}
    assert lines["pools.a.sharing.layout.1"] == 13


@pytest.mark.usefixtures("only_fake")
def test_right_files_are_said_to_be_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two = GOOD + "    b: {clusters: [lab], gpu: P100, nodes: {max: 1}}\n"
    names = write(tmp_path, dev=GOOD, prod=two)

    assert main(["check", *names]) == 0
    assert capsys.readouterr() == (f"{names[0]}: ok, 1 pool\n{names[1]}: ok, 2 pools\n", "")


@pytest.mark.usefixtures("only_fake")
def test_a_wrong_file_among_right_ones_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = write(tmp_path, dev=GOOD, wrong=WRONG, prod=GOOD)
    missing = str(tmp_path / "Pulumi.none.yaml")

    code = main(["check", names[0], names[1], missing, names[2]])

    out, err = capsys.readouterr()
    assert code == 1
    assert out == f"{names[0]}: ok, 1 pool\n{names[2]}: ok, 1 pool\n"
    assert len(err.splitlines()) == 6
    assert all(line.startswith((f"{names[1]}:", f"{missing}: does not exist")) for line in err.splitlines())


@pytest.mark.usefixtures("only_fake")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", ": the file is empty", id="empty"),
        pytest.param("config: [", ":2:1: is not YAML", id="broken YAML"),
        pytest.param("config: " + "[" * 100_000, ":1:68: holds more than", id="deep"),
        pytest.param("a: 1\n---\nb: 1\n", ":2:1: has a second YAML document", id="two documents"),
        pytest.param("a" * 2_000_000, ": cannot be read: it has more than 1048576 bytes", id="large"),
        pytest.param(GOOD.replace("fake", "fale"), ":3: clusters.lab.cloud: unknown cloud 'fale'", id="cloud"),
        pytest.param(GOOD.replace("L4", "L5"), ":7: pools.a.gpu: 'L5' is not an NVIDIA GPU model", id="a GPU"),
        pytest.param(GOOD.replace("max: 4", "max: 4, min: 5"), ":8: pools.a.nodes: min 5 is above max 4", id="min"),
        pytest.param(GOOD.replace("max: 4", "max: many"), ":8: pools.a.nodes.max: got 'many'", id="a wrong type"),
        pytest.param(GOOD + "    a: {}\n", ":9: pools.a: is set twice, on lines 5 and 9", id="a pool twice"),
        pytest.param(GOOD.replace("nodes", "nods"), ":8: pools.a.nods: unknown key", id="an unknown key"),
        pytest.param(
            GOOD.replace("    a:", '    "\\e[31m\\n":'),
            ':5: pools["\\u001b[31m\\n"]: is not a valid',
            id="escape codes",
        ),
    ],
)
def test_bad_input_is_one_clear_message_each(
    text: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name,) = write(tmp_path, bad=text)

    code = main(["check", name])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert any(line.startswith(f"{name}{found}") for line in err.splitlines())
    assert all(line.startswith(name) and line.isprintable() for line in err.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["chek"], id="an unknown command"),
        pytest.param(["check"], id="no file"),
        pytest.param(["check", "--fast", "x.yaml"], id="an unknown option"),
        pytest.param(["preview", "a.yaml", "b.yaml"], id="a file too many"),
    ],
)
def test_wrong_usage_is_code_2_and_shows_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    out, err = capsys.readouterr()
    assert caught.value.code == 2
    assert out == ""
    assert err.startswith("usage: gpupools")


def test_no_command_is_code_2_and_shows_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert all(f"\n  {command} " in err for command in COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["preview", "--help"]], ids=" ".join)
def test_help_is_code_0_on_standard_output(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    out, err = capsys.readouterr()
    assert (caught.value.code, err) == (0, "")
    assert out.startswith("usage: gpupools")


@pytest.mark.usefixtures("only_fake")
def test_an_interrupt_is_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "check_stack_file", interrupted)

    assert main(["check", "x.yaml"]) == 130


@pytest.mark.usefixtures("only_fake")
def test_an_interrupt_that_pydantic_wraps_is_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise SchemaError("Error building `list` serializer:\n  KeyboardInterrupt: ")

    monkeypatch.setattr(command, "check_stack_file", interrupted)

    assert main(["check", "x.yaml"]) == 130


@pytest.mark.parametrize(
    ("encoding", "errors"), [("ascii", "strict"), ("latin-1", "strict"), ("ascii", "surrogateescape")]
)
def test_characters_that_the_terminal_does_not_know_are_no_traceback(
    encoding: str, errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the locale C without UTF-8, Python's streams have `surrogateescape`."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding, errors=errors))

    code = main(["matrix", "--cloud", "aws"])

    assert code == 0
    assert b"RTX-PRO-4500" in written.getvalue()


# --- in a process of its own ---

STACK = """\
config:
  gpupools:clusters:
    train:
      {cloud: aws, name: a, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d],
      node_role_arn: "arn:aws:iam::123456789012:role/a"}
  gpupools:pools:
    a: {clusters: [train], gpu: L4, nodes: {max: 1}}
"""


def test_check_never_imports_pulumi(tmp_path: Path) -> None:
    (name,) = write(tmp_path, dev=STACK)
    program = (
        "import sys; from gpupools.cli.main import main; code = main(sys.argv[1:]); "
        "print(*sorted(name for name in sys.modules if name.split('.')[0].startswith(('pulumi', 'grpc', 'google'))));"
        "sys.exit(code)"
    )

    done = subprocess.run([sys.executable, "-c", program, "check", name], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name}: ok, 1 pool\n\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param("catalog --gpu L4 >&-", 0, "", id="standard output is closed"),
        pytest.param("catalog --gpu L4 --json >&-", 0, "", id="standard output is closed for JSON"),
        pytest.param("check nope.yaml 2>&-", 1, "", id="standard error is closed"),
        pytest.param("catalog > /dev/full", 1, "gpupools catalog: No space left on device\n", id="the disk is full"),
    ],
)
def test_output_that_cannot_be_written_is_no_traceback(arguments: str, code: int, said: str) -> None:
    command = f"{sys.executable} -m gpupools.cli.main {arguments}"

    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)


@pytest.mark.parametrize("text", [STACK, STACK.replace("L4", "L5")], ids=["a right file", "a wrong file"])
def test_a_reader_that_has_gone_is_no_traceback(text: str, tmp_path: Path) -> None:
    (name,) = write(tmp_path, dev=text)
    program = "import sys; from gpupools.cli.main import main; sys.exit(main(sys.argv[1:]))"
    read_end, write_end = os.pipe()
    os.close(read_end)

    try:
        done = subprocess.run(
            [sys.executable, "-c", program, "check", name], stdout=write_end, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(write_end)

    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr


BOUND_TOGETHER = """\
config:
  gpupools:clusters:
    serve: {cloud: azure, name: serve-dev, resource_group: ml-dev, kubeconfig: {path: ~/.kube/serve}}
  gpupools:pools:
    x: {clusters: [serve], gpu: T4, nodes: {max: 2}, trust: {namespaces: [vision], quota: 2}}
    y: {clusters: [serve], gpu: T4, nodes: {max: 2}, trust: {namespaces: [vision], quota: 3}}
"""


def test_what_is_done_but_hardly_meant_is_a_warning_on_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name,) = write(tmp_path, dev=BOUND_TOGETHER)

    assert main(["check", name]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{name}: ok, 2 pools\n"
    assert shown.err.startswith(f"{name}:6: warning: pools.y.trust.quota: the quotas of x 2, y 3 all count")

    assert main(["check", "--format", "github", name]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"::warning file={name},line=6,title=pools.y.trust.quota::the quotas of x 2, y 3 all")
    assert shown.err == ""


SECRET = "hunter2-" * 10
"""Longer than a line of a message takes, as tokens and keys are."""


def _with_each_leaf(value: Any) -> Iterator[Any]:
    """Yield the value again and again, each time with a secret for one of its parts, or under one more key."""
    yield SECRET
    if isinstance(value, Mapping):
        yield {**value, "hunter": SECRET}
        for key, item in value.items():
            yield from ({**value, key: each} for each in _with_each_leaf(item))
    elif isinstance(value, list):
        yield [*value, SECRET]
        for index, item in enumerate(value):
            yield from ([*value[:index], each, *value[index + 1 :]] for each in _with_each_leaf(item))
    else:
        yield [SECRET]
        yield {"secret": SECRET}


MIME = b64encode(b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="x"\n\n--x--\n').decode()
FULL_POOL = {
    "clusters": ["train"],
    "gpu": "L4",
    "gpus_per_node": 1,
    "nodes": {"min": 0, "max": 2},
    "sharing": {"mode": "time-slicing", "replicas": 2},
    "trust": {"namespaces": ["a"], "quota": 2},
    "software": "device-plugin",
    "disk_gib": 200,
    "labels": {"team": "a"},
    "taints": ["team=a:NoSchedule"],
    "capacity": {"mode": "spot"},
    "zones": ["eu-central-1a"],
    "image": {"family": "al2023"},
    "disk": {"type": "gp3", "encryption_key": "arn:aws:kms:eu-central-1:123456789012:key/x"},
    "network": {"rdma": False, "placement": "compact", "security_group_ids": ["sg-0a1b2c3d"]},
    "security": {"secure_boot": False, "imds_hop_limit": 1},
    "upgrade": {"max_unavailable": 1},
    "tags": {"team": "a"},
    "renamed_from": "b",
    "timeouts": {"create_min": 30},
    "overrides": {"aws": {"LaunchTemplate": {"userData": MIME, "keyName": "x", "tags": {"a": "b"}}}},
}
FULL_CLUSTER = {
    "cloud": "aws",
    "name": "train-dev",
    "region": "eu-central-1",
    "subnets_by_zone": {"eu-central-1a": ["subnet-0a1b2c3d4e5f60718"]},
    "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
    "stack": "acme/net/dev",
    "kubeconfig": {"path": "~/.kube/x", "context": "y"},
    "runtime": {"management": "managed", "metrics": True, "existing": {"dcgm_exporter": {"name": "x"}}},
}


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_no_message_repeats_a_secret_that_stands_under_a_wrong_key(every: int) -> None:
    shown: list[Mapping[str, object]] = []
    for cluster in _with_each_leaf(FULL_CLUSTER):
        shown.append({"clusters": {"train": cluster}, "pools": {"a": FULL_POOL}})
    for pool in _with_each_leaf(FULL_POOL):
        shown.append({"clusters": {"train": FULL_CLUSTER}, "pools": {"a": pool}})
    said = [_refusal(config) for config in shown[::every]]

    assert sum(map(bool, said)) > 100 // every
    assert [each for each in said if "hunter2" in each] == []


def _refusal(config: Mapping[str, object]) -> str:
    try:
        plan_config(config, clouds())
    except Rejected as rejected:
        return str(rejected)
    return ""


# --- one round ---

ROUND = """\
config:
  gpupools:clusters:
    lab: {cloud: gcp, name: lab, project: 007, location: europe-west4, service_account: a@b.iam.gserviceaccount.com}
  gpupools:allow_destroy: [lab/gone, lba]
  gpupools:pools:
    a: {clusters: [lab], gpu: L5, nodes: {max: 010, min: 2}, tags: {until: 2026-12-31}, spot: true}
    b: {clusters: [lba], gpu: L4, nodes: {max: 2}, sharing: {mode: mgi}}
"""


def test_a_value_that_nobody_can_judge_does_not_hide_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.round.yaml"
    file.write_text(ROUND, encoding="utf-8")

    assert main(["check", str(file)]) == 1
    said = [line.removeprefix(f"{file}:") for line in capsys.readouterr().err.splitlines()]
    octal = "starts with 0, which some YAML parsers read as octal and others as decimal; remove the zero, or write"
    gpu = "6: pools.a.gpu: 'L5' is not an NVIDIA GPU model; the nearest of 31: L4, L40S, "
    assert [gpu if line.startswith(gpu) else line for line in said] == [
        f"3: clusters.lab.project: {octal} it in quotes if it is text",
        f"6: pools.a.nodes.max: {octal} it in quotes if it is text",
        "6: pools.a.tags.until: is a date, which Pulumi would convert to other text; write it in quotes",
        "6: pools.a.spot: unknown key; write capacity: {mode: spot}",
        gpu,
        "7: pools.b.sharing.mode: got 'mgi'; use one of none, time-slicing, mps, fractions, mig",
        "7: pools.b.clusters[0]: unknown cluster 'lba'; did you mean 'lab'?",
    ]


def test_a_switch_for_a_pool_the_file_does_not_have_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.switch.yaml"
    sound = ROUND.replace("007", "ml-lab").replace("L5", "L4").replace("010, min: 2", "4").replace(", spot: true", "")
    sound = (
        sound.replace(", tags: {until: 2026-12-31}", "").replace("[lba]", "[lab]").replace(", sharing: {mode: mgi}", "")
    )
    file.write_text(sound, encoding="utf-8")

    assert main(["check", str(file)]) == 0
    where = "it only has an effect in the update that deletes it;"
    near = "did you mean 'lab/b' or 'lab/a'?"
    assert capsys.readouterr().err.splitlines() == [
        f"{file}:4: warning: allow_destroy[0]: 'lab/gone' is not a pool of this file; {where} {near}",
        f"{file}:4: warning: allow_destroy[1]: 'lba' is not a cluster of this file; {where} did you mean 'lab'?",
    ]
