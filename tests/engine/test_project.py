"""A team's own repository, from an empty folder to a green preview: the wheel, the template, and the real CLI."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gpupools.cli.project import make_project
from tests.engine.cli import ROOT, CommandResult, Engine
from tests.engine.stand_in import NODE_GROUP
from tests.gpupools.test_new import EKS
from tests.wheel.build import build_wheel, lay_environment

pytestmark = pytest.mark.engine

CI = ROOT / "examples" / "ci"
PACK = ("--policy-pack", "policies", "--policy-pack-config", "policies/policy-config.json")
WHO = {f"GIT_{role}_{what}": "a@b.example" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture(scope="module")
def wheel(engine: Engine) -> Path:
    return build_wheel(engine.folder)


def run(folder: Path, environment: Path, *command: str) -> CommandResult:
    """Run a command as somebody who has activated an environment."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**kept, "PATH": path}, capture_output=True, text=True, check=False, timeout=300
    )
    return CommandResult(" ".join(command), done.returncode, f"{done.stdout}\n{done.stderr}")


LAID = """
import pathlib, sys
from tests.wheel.build import lay_environment
folder = pathlib.Path(sys.argv[3])
lay_environment(folder, pathlib.Path(sys.argv[4]))
(folder / "bin" / "pip").write_text('#!/bin/sh\\nprintf "%s\\\\n" "$*" >> ' + sys.argv[5] + '\\n')
(folder / "bin" / "pip").chmod(0o755)
"""
"""Stands for `python3 -m venv`: an environment that has the wheel, and a pip that only says what it is asked for."""


def test_the_steps_of_the_page_lead_to_a_pull_request_that_can_be_reviewed(engine: Engine, wheel: Path) -> None:
    page = (ROOT / "docs" / "get-started" / "own-repository.md").read_text(encoding="utf-8")
    steps = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    folder = engine.folder / "walk"
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python3"
    laid = shlex.join(["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", LAID])
    python.write_text(f'#!/bin/sh\nexec {laid} "$@" {wheel} {folder / "asked"}\n', encoding="utf-8")
    python.chmod(0o755)
    tools = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    said = engine.shell("".join(steps), folder, **WHO, PATH=tools, PYTHONPATH="").succeeded().output

    assert (folder / "asked").read_text().splitlines() == [
        "install gpupools @ git+https://HOST/OWNER/gpupools@RELEASE",
        "install --no-compile -r requirements.txt",
    ]
    for line in (
        "stacks/Pulumi.dev.yaml: ok, 1 pool",
        "pulumi:pulumi:Stack gpus-dev create",
        "gpupools:index:GpuNodePool train-l4 create",
        "train/l4: pods stay; in place\n  pools.l4.nodes.max 2 → 4",
        "### GPU pools: 1 changed in place",
        " policies pass.",
    ):
        assert line in said

    project = folder / "gpus"
    workflow = yaml.safe_load((project / ".github" / "workflows" / "gpupools.yml").read_text(encoding="utf-8"))
    commands = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    runner = {
        "PATH": f"{project / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "",
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "RUNNER_TEMP": str(folder),
    }
    for command in commands:
        engine.shell(command, project, **runner).succeeded()
    assert "### GPU pools: 1 changed in place" in (folder / "summary.md").read_text(encoding="utf-8")

    # A refusal is in the summary too, and the job fails for it.
    file = project / "stacks" / "Pulumi.dev.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("gpu: L4", "gpu: nvidia-l4"), encoding="utf-8")
    engine.shell(commands[-1], project, **runner).failed()
    assert "'nvidia-l4' is not an NVIDIA GPU model; write L4" in (folder / "summary.md").read_text(encoding="utf-8")


def test_from_the_template_of_pulumi_to_a_green_update(engine: Engine, wheel: Path) -> None:
    folder = engine.folder / "gpus-pulumi"
    folder.mkdir()
    engine.cloud.unlink(missing_ok=True)  # a cluster of its own
    template = str(ROOT / "templates" / "project")
    engine.run("new", template, "--generate-only", "--yes", "--name", folder.name, project=folder).succeeded()
    lay_environment(folder / ".venv", wheel)  # what its requirements.txt names
    run(folder, folder / ".venv", "gpupools", "new", "dev", *EKS, "--gpu", "L4").succeeded()

    engine.run("stack", "init", "dev", project=folder, PYTHONPATH="").succeeded()
    engine.run("up", "--yes", "--skip-preview", "--stack", "dev", *PACK, project=folder, PYTHONPATH="").succeeded()
    assert "g6.xlarge" in [kind for each in engine.resources(NODE_GROUP) for kind in each["inputs"]["instanceTypes"]]


def test_both_ways_write_the_same(engine: Engine, wheel: Path) -> None:
    ours, theirs = engine.folder / "ours" / "same", engine.folder / "theirs" / "same"
    theirs.mkdir(parents=True)
    made_with = engine.folder / "tools-same"
    lay_environment(made_with, wheel)
    run(engine.folder, made_with, "gpupools", "new", "--project", str(ours)).succeeded()
    template = str(ROOT / "templates" / "project")
    engine.run("new", template, "--generate-only", "--yes", "--name", "same", project=theirs).succeeded()

    def texts(folder: Path) -> dict[str, str]:
        files = [each for each in folder.rglob("*") if each.is_file()]
        return {str(each.relative_to(folder)): each.read_text(encoding="utf-8") for each in files}

    written, copied = texts(ours), texts(theirs)
    # Pulumi notes there which template it was.
    project = yaml.safe_load(copied.pop("Pulumi.yaml"))
    project.pop("config")
    assert yaml.safe_load(written.pop("Pulumi.yaml")) == project
    assert written == copied


def step(host: str, name: str) -> str:
    """Return the line of a workflow that previews or applies."""
    if host == "gitlab":
        (line,) = yaml.safe_load((CI / "gitlab-ci.yml").read_text("utf-8"))[name]["script"]
        return f"export STACK=dev\n{line}"
    steps = yaml.safe_load((CI / f"{name}.yml").read_text("utf-8"))["jobs"][name]["steps"]
    (line,) = (each["run"] for each in steps if "run" in each and "name" in each)
    return f"export ENVIRONMENT=dev\n{line}"


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_workflows_preview_and_apply_by_the_policies_of_the_repository(engine: Engine, host: str) -> None:
    """As their runners do, but for `pulumi install`, which fetches; the environment is there."""
    folder = engine.folder / f"steps-{host}"
    engine.cloud.unlink(missing_ok=True)  # a cluster of its own
    make_project(folder)
    (folder / ".venv").symlink_to(engine.repository / ".venv")
    file = folder / "stacks" / "Pulumi.dev.yaml"
    engine.gpupools("new", "dev", *EKS, "--gpu", "L4", "--max-nodes", "3", "-o", str(file)).succeeded()
    engine.run("stack", "init", "dev", project=folder).succeeded()
    assert "gpupools:index:GpuNodePool: (create)" in engine.shell(step(host, "preview"), folder).succeeded().output
    engine.shell(step(host, "apply"), folder).succeeded()
    assert len(engine.resources(NODE_GROUP)) == 1

    config = folder / "policies" / "policy-config.json"
    config.write_text(config.read_text("utf-8").replace('"maxNodesPerPool": 20', '"maxNodesPerPool": 2'), "utf-8")
    for name in ("preview", "apply"):
        assert "gpu-pool-bounded" in engine.shell(step(host, name), folder).failed().output


THEIRS = """
import pulumi_aws as aws

aws.eks.NodeGroup(
    "theirs",
    cluster_name="train",
    node_role_arn="arn:aws:iam::123456789012:role/gpu-nodes",
    subnet_ids=["subnet-0a1b2c3d4e5f60718"],
    scaling_config={"min_size": 0, "desired_size": 0, "max_size": 2},
    instance_types=["g6.xlarge"],
    taints=[],
)
"""


def test_the_pack_alone_judges_a_program_of_another_team(engine: Engine) -> None:
    """Policy only: of what `gpupools new --project` writes the folder `policies`, in a project that has gpupools."""
    folder = engine.project("another-team", THEIRS, config={"aws:region": {"value": "eu-central-1"}})
    make_project(engine.folder / "only-for-its-policies")
    (engine.folder / "only-for-its-policies" / "policies").rename(folder / "policies")
    (folder / ".venv").symlink_to(engine.repository / ".venv")
    engine.run("stack", "init", "dev", project=folder).succeeded()

    refused = engine.run("preview", "--stack", "dev", "--policy-pack", "policies", project=folder)
    assert refused.code != 0
    assert "gpu-pool-tainted" in refused.output
    (folder / "__main__.py").write_text(
        THEIRS.replace("taints=[]", 'taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]'),
        encoding="utf-8",
    )
    tainted = engine.run("preview", "--stack", "dev", "--policy-pack", "policies", project=folder).output
    assert "gpu-pool-tainted" not in tainted
