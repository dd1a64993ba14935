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
from tests.wheel.build import build_wheel, lay_packages_in_the_way

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
        (("diff", "Pulumi.one.yaml", "Pulumi.one.yaml"), 0, "train/one: no change for the nodes"),
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
