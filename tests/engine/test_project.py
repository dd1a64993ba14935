"""A team's own repository, from an empty folder to a green preview: the wheel, the template, and the real CLI."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.engine.cli import ROOT, Engine, Ran
from tests.engine.stand_in import NODE_GROUP
from tests.gpupools.test_new import EKS
from tests.wheel.build import build_wheel, lay_environment

pytestmark = pytest.mark.engine

PACK = ("--policy-pack", "policies", "--policy-pack-config", "policies/policy-config.json")


@pytest.fixture(scope="module")
def wheel(engine: Engine) -> Path:
    return build_wheel(engine.folder)


def run(folder: Path, environment: Path, *command: str) -> Ran:
    """Run a command as somebody who has activated an environment."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**kept, "PATH": path}, capture_output=True, text=True, check=False, timeout=300
    )
    return Ran(" ".join(command), done.returncode, f"{done.stdout}\n{done.stderr}")


@pytest.mark.parametrize("by", ["gpupools", "pulumi"])
def test_from_an_empty_folder_to_a_green_preview(by: str, engine: Engine, wheel: Path) -> None:
    folder = engine.folder / f"gpus-{by}"
    folder.mkdir()
    engine.cloud.unlink(missing_ok=True)  # a cluster of its own for each
    made_with = engine.folder / f"tools-{by}"
    lay_environment(made_with, wheel)
    if by == "gpupools":
        run(folder, made_with, "gpupools", "new", "--project").well()
    else:
        template = str(ROOT / "templates" / "project")
        engine.run("new", template, "--generate-only", "--yes", "--name", folder.name, project=folder).well()
    lay_environment(folder / ".venv", wheel)  # what its requirements.txt names

    run(folder, folder / ".venv", "gpupools", "new", "dev", *EKS, "--gpu", "L4").well()
    workflow = yaml.safe_load((folder / ".github" / "workflows" / "gpupools.yml").read_text(encoding="utf-8"))
    steps = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    assert steps.pop(0) == "python -m pip install -r requirements.txt"
    said = [run(folder, folder / ".venv", "bash", "-e", "-c", step).well().output for step in steps]
    assert "stacks/Pulumi.dev.yaml: ok, 1 pool" in said[0]
    assert "g6.xlarge" in said[-1]

    engine.run("stack", "init", "dev", project=folder, PYTHONPATH="").well()
    shown = engine.run("preview", "--stack", "dev", *PACK, project=folder, PYTHONPATH="").well().output
    assert "gpupools:index:GpuNodePool" in shown
    assert "Policies:" in shown
    engine.run("up", "--yes", "--skip-preview", "--stack", "dev", *PACK, project=folder, PYTHONPATH="").well()
    assert "g6.xlarge" in [kind for each in engine.resources(NODE_GROUP) for kind in each["inputs"]["instanceTypes"]]


def test_both_ways_write_the_same(engine: Engine, wheel: Path) -> None:
    ours, theirs = engine.folder / "ours" / "same", engine.folder / "theirs" / "same"
    theirs.mkdir(parents=True)
    made_with = engine.folder / "tools-same"
    lay_environment(made_with, wheel)
    run(engine.folder, made_with, "gpupools", "new", "--project", str(ours)).well()
    template = str(ROOT / "templates" / "project")
    engine.run("new", template, "--generate-only", "--yes", "--name", "same", project=theirs).well()

    def texts(folder: Path) -> dict[str, str]:
        files = [each for each in folder.rglob("*") if each.is_file()]
        return {str(each.relative_to(folder)): each.read_text(encoding="utf-8") for each in files}

    written, copied = texts(ours), texts(theirs)
    # Pulumi notes there which template it was.
    project = yaml.safe_load(copied.pop("Pulumi.yaml"))
    project.pop("config")
    assert yaml.safe_load(written.pop("Pulumi.yaml")) == project
    assert written == copied
