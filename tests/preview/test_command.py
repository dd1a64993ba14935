"""`gpupools preview` end to end: the real stack program, the real policy pack, no cloud."""

import ast
import io
import json
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Problem
from gpupools.policies.policy_config import config_of
from gpupools.preview import command
from gpupools.preview.command import PROGRAM, preview_file, run
from gpupools.preview.format_preview import Report
from gpupools.providers import clouds
from gpupools.stackfile.check import CheckedFile, check_stack_file

ROOT = Path(__file__).resolve().parents[2]
DEV = ROOT / "stacks" / "Pulumi.dev.yaml"


def printed(file: Path, *, as_json: bool = False) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(file, as_json)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def dev() -> CheckedFile:
    return check_stack_file(DEV, clouds())


@pytest.fixture(scope="module")
def dev_report(dev: CheckedFile) -> Report:
    return preview_file(dev)


def test_the_dev_stack_is_accepted(dev_report: Report) -> None:
    assert dev_report.preview.problems == []
    assert dev_report.preview.warnings == []
    assert dev_report.exit_code == 0


def test_every_pool_of_the_plan_is_declared_with_the_taint_read_back(dev: CheckedFile, dev_report: Report) -> None:
    read = [
        facts
        for cloud in clouds().values()
        for resource in dev_report.preview.resources
        for facts in cloud.readback().read_pools(resource.type, resource.inputs)
    ]

    assert sorted(facts.instance_types[0].split("+")[0] for facts in read) == sorted(
        plan.instance.name.split("+")[0] for plan in dev.plan.pools
    )
    assert ["nvidia.com/gpu=present:NoSchedule" in map(str, facts.taints) for facts in read] == [True] * len(read)


def test_the_pack_judges_every_rule(dev_report: Report) -> None:
    verdicts = {verdict.policy: verdict for verdict in dev_report.verdicts}

    assert verdicts["gpu-pool-tainted"].level == "mandatory"
    assert verdicts["gpu-pool-tainted"].violations == ()


def test_the_report_is_one_json_document(dev: CheckedFile, dev_report: Report) -> None:
    found: dict[str, Any] = json.loads(json.dumps(dev_report.as_json()))

    assert (found["project"], found["stack"], dev_report.preview.problems) == ("gpupools", "dev", [])
    assert [pool["name"] for pool in found["pools"]] == [plan.name for plan in dev.plan.pools]
    assert {tuple(resource) for resource in found["resources"]} == {
        ("type", "name", "urn", "parent", "custom", "inputs", "options")
    }
    # Two settings of AKS wait for a feature of the subscription, which nobody but its owner knows of.
    assert {verdict["policy"] for verdict in found["policy"] if verdict["verdict"] != "pass"} == {
        "gpu-node-hardening-advised"
    }
    urns = {resource["urn"] for resource in found["resources"]}
    assert {resource["parent"] for resource in found["resources"]} <= urns | {None}


def test_the_text_shows_pools_tree_and_policies(dev: CheckedFile, dev_report: Report) -> None:
    text = dev_report.as_text()

    for plan in dev.plan.pools:
        start = [plan.cluster, f"({plan.cloud})", plan.name, plan.instance.name]
        assert [line for line in text.splitlines() if line.split()[:4] == start]
        assert f"{plan.cluster}-{plan.name}" in text
    assert " +  ├─ pulumi:providers:aws" in text
    assert " policies pass" in text
    assert "gpu-pool-tainted" not in text


def test_in_a_pipe_no_line_is_wider_than_120(dev_report: Report) -> None:
    lines = dev_report.as_text(120, prose=True).splitlines()

    assert [line for line in lines if len(line) > 120] == []
    assert "  nvidia.com/gpu=present:NoSchedule: every pool" in lines


def test_a_pool_that_a_rule_forbids_is_refused(dev: CheckedFile) -> None:
    bounded = {"gpu-pool-bounded": {"enforcementLevel": "mandatory", "maxNodesPerPool": 2}}
    report = preview_file(dev, policy_config=config_of(bounded, date.min))

    assert report.preview.problems == []
    assert [verdict.policy for verdict in report.verdicts if verdict.refuses] == ["gpu-pool-bounded"]
    assert report.exit_code == 1
    assert "  FAIL  gpu-pool-bounded" in report.as_text()
    assert "Rejected: 1 mandatory policy violated." in report.as_text()
    (refused,) = (each for each in report.as_json()["policy"] if each["policy"] == "gpu-pool-bounded")
    assert refused["violations"][0]["urn"].startswith("urn:pulumi:dev::gpupools::gpupools:index:GpuNodePool$")


WRONG_INPUT = """
import pulumi_aws as aws
aws.eks.NodeGroup("a", cluster_name="c", node_role_arn="r", subnet_ids=["s"], instance_types=["p4d.24xlarge"],
    scaling_config={"desired_size": 0, "min_size": 0, "maximum": 4})
"""


def test_a_program_with_a_wrong_input_is_refused(dev: CheckedFile, tmp_path: Path) -> None:
    (tmp_path / "__main__.py").write_text(WRONG_INPUT)
    report = preview_file(dev, tmp_path / "__main__.py")

    assert report.exit_code == 1
    assert "NodeGroup::a.scalingConfig.maximum: " in report.as_text()
    assert "Rejected: 2 problems" in report.as_text()


WRONG = {
    "broken": ("config: [", "is not YAML"),
    "empty": ("", "the file is empty"),
    "types": ("config: {gpupools:clusters: 3, gpupools:pools: [1]}", "clusters: got 3"),
    "cloud": ("config: {gpupools:clusters: {a: {cloud: ows}}, gpupools:pools: {}}", "unknown cloud 'ows'"),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=list(WRONG))
def test_a_refused_file_declares_nothing(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "Pulumi.wrong.yaml"
    file.write_text(text)

    code, out, err = printed(file)
    assert (code, out) == (1, "")
    assert expected in err
    assert err.endswith("rejected; the program did not run\n")
    assert "Traceback" not in err

    code, out, err = printed(file, as_json=True)
    found = json.loads(out)
    assert (code, err) == (1, "")
    assert (found["command"], found["result"]) == ("preview", "refused")
    assert (found["pools"], found["resources"], found["policy"]) == ([], [], [])
    assert any(expected in f"{problem['key']}: {problem['what']}" for problem in found["problems"])


@pytest.mark.parametrize(
    ("problems", "status"), [((), "accepted"), ((Problem(("pools", "a"), "is wrong"),), "refused")]
)
def test_the_answer_says_what_came_of_it(
    dev_report: Report, monkeypatch: pytest.MonkeyPatch, problems: tuple[Problem, ...], status: str
) -> None:
    given = replace(dev_report, preview=replace(dev_report.preview, problems=[*problems]))
    monkeypatch.setattr(command, "preview_file", lambda *_, **__: given)
    code, out, err = printed(DEV, as_json=True)
    found = json.loads(out)

    assert (code, err, found["result"]) == (len(problems), "", status)
    assert [each["what"] for each in found["problems"]] == ["is wrong"] * len(problems)
    assert found["command"] == "preview"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    code, _, err = printed(tmp_path / "Pulumi.none.yaml")

    assert code == 1
    assert "does not exist" in err


def test_a_refused_file_never_imports_pulumi(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.wrong.yaml"
    shutil.copy(DEV, file)
    file.write_text(file.read_text().replace("cloud: aws", "cloud: ows"))
    script = (
        "import sys, pathlib; from gpupools.preview.command import run; code = run(pathlib.Path(sys.argv[1]), False);"
        "print(code, sorted(name for name in sys.modules if name.partition('.')[0] in ('pulumi', 'grpc')))"
    )
    result = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)

    assert result.stdout == "1 []\n"
    assert "did you mean 'aws'?" in result.stderr


def test_the_program_is_the_one_pulumi_runs() -> None:
    programs = (PROGRAM, ROOT / "stacks" / "__main__.py")
    ends = [[ast.unparse(each) for each in ast.parse(path.read_text(encoding="utf-8")).body[-2:]] for path in programs]

    assert [imported for imported, _ in ends] == ["from gpupools.stacks.program import run"] * 2
    assert all(called.startswith("run(") for _, called in ends)


def test_resources_stand_by_cluster_in_the_files_order_after_the_providers(dev_report: Report) -> None:
    resources = dev_report.preview.resources

    assert [each.name for each in resources if each.parent is None] == [
        *("protection", "train", "serve", "serve-kubernetes", "lab", "train-a100", "train-shared", "serve-a100"),
        *("serve-runtime", "serve-slices", "lab-a100", "lab-shared", "lab-slices"),
    ]
    parents = [each.parent.rpartition("::")[2] if each.parent else each.name for each in resources]
    assert parents == sorted(parents, key=parents.index), "children stand with their parent"


def test_the_project_is_that_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text("{name: ml-gpus, runtime: python, stackConfigDir: stacks}")
    file = Path(shutil.copy(DEV, tmp_path / "stacks"))
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "__main__.py").write_text('import pulumi\npulumi.ComponentResource("t:index:Box", "box")\n')
    report = preview_file(check_stack_file(file, clouds()), tmp_path / "program" / "__main__.py")

    assert {each.urn.split("::")[1] for each in report.preview.resources} == {"ml-gpus"}
    assert report.as_json()["project"] == "ml-gpus"
    assert "ml-gpus-dev" in report.as_text()


@pytest.mark.parametrize(
    ("project", "name"),
    [
        (None, "gpupools"),
        ("{name: ml-gpus, stackConfigDir: stacks}", "ml-gpus"),
        ("{name: infra}", "gpupools"),
        ("{name: '${PROJECT}', stackConfigDir: stacks}", "gpupools"),
        ("name: [", "gpupools"),
    ],
    ids=["no project", "reads the file", "reads others", "a template", "broken"],
)
def test_whose_project_reads_a_file(tmp_path: Path, project: str | None, name: str) -> None:
    (tmp_path / ".git").mkdir()
    if project is not None:
        (tmp_path / "Pulumi.yaml").write_text(project)

    assert command.project_of(tmp_path / "stacks" / "Pulumi.dev.yaml") == name


OTHERS = ("Rejected: 1.", " passing d", "  = e", "Not Rejected: 1", "  refuse FAIL f")


def test_a_terminal_shows_verdicts_in_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[tuple[str, str], ...]] = []
    monkeypatch.setattr(
        command, "tell_parts", lambda *parts: said.append(tuple((text, style and style.name) for text, style in parts))
    )
    command._print_report("\n".join(["  pass  a", "  warn  b", "  FAIL  c  mandatory", " +  box", *OTHERS, ""]))

    assert said == [
        (("  ", None), ("pass", "GOOD"), ("  a", None)),
        (("  ", None), ("warn", "WARNING"), ("  b", None)),
        (("  ", None), ("FAIL", "BAD"), ("  c  mandatory", None)),
        ((" ", None), ("+", "GOOD"), ("  box", None)),
        (("Rejected: 1.", "BAD"),),
        ((" passing d", None),),
        (("  = e", None),),
        (("Not Rejected: 1", None),),
        (("  refuse FAIL f", None),),
    ]
