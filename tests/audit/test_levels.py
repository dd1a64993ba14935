"""Three levels of findings: what fails a run, what settles the rest, and what a person sees."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from tests.audit.test_folders import POOL

Run = Callable[..., tuple[int, str, str]]
UNKNOWN_TYPE = POOL.replace("NAME", "late").replace("[l4]", "['{{ .Values.gpu }}']")
GROUP = 'resource "aws_eks_node_group" "gpu" {\n  instance_types = [%s]\n}\nvariable "type" {}\n'
PLAN = {
    "format_version": "1.2",
    "resource_changes": [
        {"address": "aws_eks_node_group.gpu", "type": "aws_eks_node_group", "name": "gpu", "mode": "managed"}
        | {"change": {"actions": ["create"], "before": None, "after": {}, "after_unknown": {"instance_types": True}}}
    ],
}


@pytest.mark.parametrize(
    ("name", "content", "folder", "fail_on", "code"),
    [
        ("main.tf", GROUP % "var.type", True, "", 0),
        ("main.tf", GROUP % "var.type", True, "unverified", 1),
        ("main.tf", GROUP % '"g5.xlarge"', True, "", 1),
        ("main.tf", GROUP % '"g5.xlarge"', True, "never", 0),
        ("plan.json", json.dumps(PLAN), False, "", 1),
        ("plan.json", json.dumps(PLAN), False, "violation", 0),
        ("plan.json", json.dumps(PLAN), True, "", 0),
        ("pool.yaml", UNKNOWN_TYPE, False, "", 0),
        ("pool.yaml", UNKNOWN_TYPE, False, "unverified", 1),
    ],
)
def test_unverified_findings_fail_complete_documents(
    tmp_path: Path, run: Run, name: str, content: str, folder: bool, fail_on: str, code: int
) -> None:
    (tmp_path / name).write_text(content)
    given = tmp_path if folder else tmp_path / name
    options = ["--fail-on", fail_on] if fail_on else []
    ended, out, _ = run("policy", given, *options)

    assert (ended, "violation: " in out or "unverified: " in out) == (code, True), out


def test_manifests_on_standard_input_are_complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(UNKNOWN_TYPE.encode())))

    assert run("policy", "-")[0] == 1


def test_every_report_has_the_levels(tmp_path: Path, run: Run) -> None:
    """An unverified finding that does not fail skips its JUnit case, and says what settles it."""
    (tmp_path / "a.yaml").write_text(f"{POOL.replace('NAME', 'sure')}---\n{UNKNOWN_TYPE}")
    (tmp_path / "main.tf").write_text('module "vpc" { source = "x/y" }\nmodule "logs" { source = "x/z" }\n')

    def report(form: str) -> str:
        return run("policy", tmp_path, "--format", form)[1]

    files = json.loads(report("json"))["files"]
    found = [each for file in files for each in file["findings"]]
    assert {each["level"] for each in found} == {"violation", "unverified", "advice"}
    assert all(each["resource"] and each["settled_by"] for each in found if each["level"] == "unverified")
    (sarif,) = json.loads(report("sarif"))["runs"]
    levels = {each["properties"]["level"]: each["level"] for each in sarif["results"]}
    assert levels == {"violation": "error", "unverified": "warning", "advice": "note"}
    junit = Xml.fromstring(report("junit"))
    assert (len(list(junit.iter("failure"))), len(list(junit.iter("skipped")))) == (1, 3)
    github = report("github")
    assert [github.count(f"::{kind} ") for kind in ("error", "warning", "notice")] == [1, 2, 1]
    assert "2 modules not read: module.logs, module.vpc" in github or "module.vpc, module.logs" in github


def test_gaps_and_modules_are_waived_by_their_addresses(tmp_path: Path, run: Run, write: Any) -> None:
    until = {"reason": "reviewed", "owner": "o", "expires": "2099-01-01"}
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra" / "main.tf").write_text('module "vpc" { source = "x/y" }\nmodule "logs" { source = "x/z" }\n')
    rule = {"waivers": [{"resource": "module.vpc", **until}, {"resource": "incomplete-plan", **until}]}
    config = write({"node-pools-understood": rule}, "config.json")
    plan = write({**PLAN, "resource_changes": [], "complete": False}, "plan.json")

    out = run("policy", tmp_path / "infra", "--config", config)[1]
    assert "1 module not read: module.logs;" in out
    assert run("policy", plan)[0] == 1
    assert run("policy", plan, "--config", config)[0] == 0


def test_a_searched_file_that_cannot_be_read_is_counted(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.yaml").write_text("kind: NodePool\napiVersion: karpenter.sh/v1\nkind: NodePool\n")
    (tmp_path / "b.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    code, out, err = run("policy", tmp_path)

    assert (code, len(err.splitlines())) == (0, 1)
    assert err.startswith(f"1 file not read, the first: {tmp_path / 'a.yaml'}: ")
    assert "0 advice, 1 file not read; " in out
    assert run("policy", tmp_path / "a.yaml")[0] == 1


@pytest.mark.parametrize(("number", "listed"), [(3, 3), (30, 10)])
def test_text_has_the_first_findings_of_each_rule_and_ends_with_the_next_step(
    tmp_path: Path, run: Run, number: int, listed: int
) -> None:
    for each in range(number):
        (tmp_path / f"{each}.yaml").write_text(POOL.replace("NAME", f"p{each}"))
    (tmp_path / "clean.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    _, out, _ = run("policy", tmp_path)
    *lines, last = out.splitlines()

    assert sum(": violation: " in line for line in lines) == listed
    assert sum(": advice: " in line for line in lines) == 1
    assert (f"({number - 10} more with --verbose)" in out) is (number > 10)
    assert last.endswith("s; next: fix the violations, or accept them with --write-baseline FILE")
    assert not any("clean.yaml" in line for line in lines)
    assert run("policy", tmp_path, "--verbose")[1].count(": violation: ") == number


def test_a_cpu_pool_in_another_file_settles_that_an_operator_cannot_start(tmp_path: Path, run: Run) -> None:
    def step(kind: str, name: str, **inputs: Any) -> dict[str, Any]:
        urn = f"urn:pulumi:prod::p::{kind}::{name}"
        references = {"resourceName": [f"urn:pulumi:prod::p::{CLUSTER}::c"]} if kind == POOLS else {}
        state = {"urn": urn, "custom": True, "type": kind, "inputs": inputs, "propertyDependencies": references}
        return {"op": "create", "urn": urn, "newState": state}

    system = {"name": "sys", "mode": "System", "count": 1, "vmSize": "Standard_D4s_v5"}
    taint = {"nodeTaints": ["CriticalAddonsOnly=true:NoSchedule"]}
    gpu = {"resourceName": "c", "vmSize": "Standard_NC24ads_A100_v4", "gpuProfile": {"driver": "None"}}
    gpu["nodeTaints"] = ["nvidia.com/gpu=present:NoSchedule"]
    chart = {"chart": "gpu-operator", "version": "v25.10.1", "values": {"toolkit": {"enabled": False}}}
    steps = [step(CLUSTER, "c", agentPoolProfiles=[{**system, **taint}]), step(POOLS, "pool", **gpu)]
    steps.append(step("kubernetes:helm.sh/v3:Release", "operator", **chart))
    for name, each in {"a.json": steps, "b.json": [step(CLUSTER, "c", agentPoolProfiles=[system])]}.items():
        preview = {"config": {}, "steps": each, "duration": 1, "changeSummary": {"create": len(each)}}
        (tmp_path / name).write_text(json.dumps(preview))

    said = "cannot start on any pool"
    assert said in run("policy", tmp_path / "a.json")[1]
    assert said not in run("policy", tmp_path / "a.json", tmp_path / "b.json")[1]


CLUSTER, POOLS = "azure-native:containerservice:ManagedCluster", "azure-native:containerservice:AgentPool"
