"""Which edits fail a pull request: the scaffold's workflow, the Action and GitLab's job run as they are handed out."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import yaml

from tests.report.test_action import FOLDER, ROOT, STEPS, TEMPLATE
from tests.report.test_command import git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")

STACK = """
config:
  gpupools:production: true
  gpupools:budget: {per_hour: 100}
  gpupools:clusters:
    serve:
      cloud: azure
      name: serve
      resource_group: ml
      location: westeurope
      kubeconfig: {path: ~/.kube/s}
      runtime: {digests: "off"}
    train:
      cloud: aws
      name: train
      region: us-east-1
      subnet_ids: [subnet-0000000a]
      node_role_arn: arn:aws:iam::123456789012:role/gpu-nodes
      kubeconfig: {path: ~/.kube/t}
  gpupools:pools:
    op: {clusters: [serve], instance_type: Standard_NC24ads_A100_v4, nodes: {max: 2}, software: gpu-operator}
    cut:
      clusters: [train]
      gpu: A100-40GB
      gpus_per_node: 8
      nodes: {max: 1}
      software: gpu-operator
      sharing: {mode: mig, profile: 1g.5gb}
"""
OP = "instance_type: Standard_NC24ads_A100_v4, nodes: {max: 2}"
EDITS: dict[str, tuple[str, str, int, str]] = {
    "nodes added": ("nodes: {max: 2}, software", "nodes: {max: 3}, software", 0, "pools.op.nodes.max 2 → 3"),
    "refused": (
        OP,
        "instance_type: Standard_NC48ads_A100_v4, nodes: {max: 2}",
        3,
        "add serve/op to gpupools:allow_destroy",
    ),
    "NoExecute taint": (OP, f'{OP}, taints: ["team=a:NoExecute"]', 3, "add serve/op to gpupools:allow_disruption"),
    "MIG layout": ("profile: 1g.5gb", "profile: 2g.10gb", 3, "add train/cut to gpupools:allow_disruption"),
    "budget": ("per_hour: 100", "per_hour: 4", 1, "budget.per_hour: is $4.00/h, but all nodes cost"),
    "upgrade that evicts": ('digests: "off"', 'kubernetes: "1.34"', 3, "ends pods that have a GPU on"),
}
"""What is edited in the stack file, the exit code of the report, and a part of it."""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "templates" / "project" / "policies", folder / "policies")
    (folder / "stacks").mkdir()
    (folder / "stacks" / "Pulumi.prod.yaml").write_text(STACK, encoding="utf-8")
    monkeypatch.chdir(folder)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    return folder


def scaffold() -> str:
    """Return what the workflow of `gpupools new --project` runs after the installation."""
    (job,) = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))["jobs"].values()
    (*_, report) = [each["run"] for each in job["steps"] if each.get("run", "").startswith("gpupools")]
    return str(report)


def action() -> str:
    return str(STEPS["Report on stack files"]["run"])


def gitlab() -> str:
    lines = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text("utf-8"))["gpupools"]["script"]
    return "\n".join(lines).replace("/tmp/check/bin/python", sys.executable)


# The scripts differ in what they do with an exit code: one edit for each code suffices for two of them.
RUNS = [*product(EDITS, (action,)), *product(("nodes added", "refused", "budget"), (scaffold, gitlab))]


@pytest.mark.parametrize(("edit", "script"), RUNS, ids=[f"{edit}, {script.__name__}" for edit, script in RUNS])
def test_an_edit_that_pulumi_up_would_reject_fails_the_job(
    edit: str, script: Callable[[], str], checkout: Path, tmp_path: Path, forked: Path
) -> None:
    old, new, code, part = EDITS[edit]
    file = checkout / "stacks" / "Pulumi.prod.yaml"
    assert old in STACK
    file.write_text(STACK.replace(old, new), encoding="utf-8")
    git("add", "-A")
    git("commit", "-qm", "y")
    where = {
        "PATH": f"{forked}:{os.environ['PATH']}",
        "GPUPOOLS": str(forked / "gpupools"),
        "GPUPOOLS_POLICIES": "",
        "CONFIG": "",
        "FILES": "stacks/Pulumi.*.yaml",
        "SINCE": "HEAD^",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD^",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_WORKSPACE": str(checkout),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script()],
        env=os.environ | where,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    written = checkout / "plan.html" if script is gitlab else tmp_path / "summary.md"
    assert done.returncode == code, done.stdout + done.stderr
    assert part in written.read_text(encoding="utf-8")
