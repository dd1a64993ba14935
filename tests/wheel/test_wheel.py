"""The wheel, installed into a repository that has `components/`, `policies/`, `providers/` and `stacks/` of its own."""

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.source_roots import ROOT
from tests.wheel.build import build_wheel, lay_environment, lay_packages_in_the_way

pytestmark = pytest.mark.slow

LOCK = (ROOT / "requirements-check.txt").read_text(encoding="utf-8")
BASE = re.findall(r"^([a-z][a-z0-9-]*)==", LOCK, re.MULTILINE)
"""What requirements-check.txt installs: no SDK of Pulumi's or a cloud's."""
STACK = """\
config:
  gpupools:clusters:
    train: {cloud: aws, name: t, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes"}
  gpupools:pools:
    one: {clusters: [train], gpu: A100-40GB, gpus_per_node: 8, nodes: {max: 1}}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of packages: the wheel, and what its base needs."""
    packages = tmp_path_factory.mktemp("packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for name in BASE:
        for file in metadata.distribution(name).files or ():
            link = packages / file.parts[0]
            if file.parts[0] != ".." and not link.exists():
                link.symlink_to(Path(str(metadata.distribution(name).locate_file(file.parts[0]))))
    return packages


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository whose own packages must not be asked for anything."""
    lay_packages_in_the_way(tmp_path)
    (tmp_path / "Pulumi.one.yaml").write_text(STACK, encoding="utf-8")
    return tmp_path


def gpupools(installed: Path, repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the wheel, with the repository first on the import path."""
    # -S leaves out this environment's packages, -I would leave out PYTHONPATH.
    program = "from gpupools.cli.main import program; raise SystemExit(program())"
    path = os.pathsep.join([str(repository), str(installed)])
    return subprocess.run(
        [sys.executable, "-S", "-c", program, *arguments],
        cwd=repository,
        env={"PYTHONPATH": path, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_brings_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    assert {name.partition("/")[0] for name in names} == {"gpupools", f"gpupools-{wheel.name.split('-')[1]}.dist-info"}
    assert "gpupools/__init__.py" not in names
    copied = "gpupools/data/project/"  # into other repositories, and imported from nowhere
    packages = {name.split("/")[1] for name in names if name.endswith(".py") and not name.startswith(copied)}
    assert {name.split("/")[1] for name in names if name.endswith("py.typed")} == packages


@pytest.mark.parametrize(
    ("arguments", "code", "shows"),
    [
        (("check", "Pulumi.one.yaml"), 0, "Pulumi.one.yaml: ok, 1 pool"),
        (("diff", "Pulumi.one.yaml", "Pulumi.one.yaml"), 0, "unchanged: train/one"),
        (("catalog", "--cloud", "gcp"), 0, "a2-highgpu-1g"),
        (("mig", "profiles", "--gpu", "A100-40GB"), 0, "3g.20gb"),
        (("matrix", "--cloud", "azure"), 0, "device-plugin"),
        (("policy", "preview.json"), 1, "no permanent taint keeps other pods off"),
        (("policy", "--config-schema"), 0, "gpu-pool-tainted"),
        (("new", "--project", "gpus"), 0, "gpus: wrote 11 files"),
        (("schema",), 0, "Stack file of gpupools"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_the_base_needs_no_sdk(
    arguments: tuple[str, ...], code: int, shows: str, installed: Path, repository: Path
) -> None:
    pool = {"type": "aws:eks/nodeGroup:NodeGroup", "inputs": {"instanceTypes": ["g6.xlarge"], "scalingConfig": {}}}
    state = {"urn": "urn:pulumi:dev::p::aws:eks/nodeGroup:NodeGroup::gpus", "custom": True, **pool}
    steps = {"config": {}, "steps": [{"op": "create", "urn": state["urn"], "newState": state}], "changeSummary": {}}
    (repository / "preview.json").write_text(json.dumps(steps), encoding="utf-8")
    done = gpupools(installed, repository, *arguments)

    assert done.returncode == code, done.stderr
    assert shows in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_needs_more_names_the_extra_in_one_line(installed: Path, repository: Path) -> None:
    done = gpupools(installed, repository, "preview", "Pulumi.one.yaml")

    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "gpupools preview requires the Pulumi SDKs: install gpupools[aws], [azure], [gcp] or [all]"
    ]


def test_the_extras_are_what_the_lock_installs() -> None:
    said = metadata.metadata("gpupools").get_all("Provides-Extra") or []

    assert {"pulumi", "aws", "azure", "gcp", "all"} <= set(said)
    locked = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    for tool in ("pytest", "mypy", "ruff", "import-linter", "botocore"):
        assert f"\n{tool}==" not in locked
        assert f"\n{tool}==" in (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")


def test_an_environment_without_the_checkout_does_a_first_hour(wheel: Path, tmp_path: Path) -> None:
    """`new`, `check`, `preview` and `policy` of the installed command, in a folder of its own."""
    lay_environment(tmp_path / "venv", wheel)
    folder = tmp_path / "team"

    def run(*arguments: str, cwd: Path = folder, output: str = "") -> str:
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(tmp_path)}
        command = [str(tmp_path / "venv" / "bin" / "gpupools"), *arguments]
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
        if output:
            (folder / output).write_text(done.stdout, encoding="utf-8")
        return done.stdout

    assert "team: wrote 11 files" in run("new", "--project", "team", cwd=tmp_path)
    keys = ("region=eu-central-1", "subnet_ids=subnet-0a1b2c3d4e5f60718")
    role = "node_role_arn=arn:aws:iam::123456789012:role/gpu-nodes"
    sets = [word for key in (*keys, role) for word in ("--set", key)]
    run("new", "dev", "--cloud", "aws", "--cluster", "train", *sets, "--gpu", "L4")
    assert "ok, 1 pool" in run("check", "stacks/Pulumi.dev.yaml")
    assert "aws:eks:NodeGroup" in run("preview", "stacks/Pulumi.dev.yaml")
    run("preview", "--json", "stacks/Pulumi.dev.yaml", output="preview.json")
    assert "1 GPU pool: 0 violations" in run("policy", "preview.json")
    assert str(ROOT) not in run("catalog", "--sources")
