"""The components' package as the CLI gets it: from a git repository, with an environment that is made once."""

import json
import shutil
import subprocess
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.cli import Engine
from tests.engine.git_server import HOST, git_host
from tests.engine.test_languages import BLOCKS, need

pytestmark = pytest.mark.engine

SOURCE = f"https://{HOST}/team/gpupools.git/components"


@pytest.fixture(scope="module")
def environment(engine: Engine) -> Iterator[dict[str, Any]]:
    """Serve this repository at a git host, without its lock, whose packages the plugin finds beside itself."""
    need("git", "openssl", "pulumi-language-yaml")
    work, served = engine.folder / "work", engine.folder / "served"
    shutil.copytree(engine.repository, work, ignore=shutil.ignore_patterns(".venv", "__pycache__"))
    (work / "requirements.txt").write_text("", encoding="utf-8")
    who = ("-c", "user.name=team", "-c", "user.email=team@example.org")
    for command in (["init", "--quiet"], ["add", "--all"], [*who, "commit", "--quiet", "--message", "Pools"]):
        subprocess.run(["git", *command], cwd=work, check=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", str(work), str(served / "team" / "gpupools.git")], check=True)
    # The toolchain upgrades `wheel` in every environment it makes, from a package index.
    wheels = engine.folder / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "wheel-99-py3-none-any.whl", "w") as wheel:
        wheel.writestr("wheel-99.dist-info/METADATA", "Metadata-Version: 2.1\nName: wheel\nVersion: 99\n")
        wheel.writestr("wheel-99.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("wheel-99.dist-info/RECORD", "")
    with git_host(served, engine.folder) as reached:
        yield {
            **reached,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels),
            "PYTHONPATH": sysconfig.get_path("purelib"),
        }


def test_the_package_comes_from_git_once(engine: Engine, environment: dict[str, Any]) -> None:
    def added(name: str) -> str:
        folder = engine.folder / name
        folder.mkdir()
        (folder / "Pulumi.yaml").write_text(json.dumps({"name": name, "runtime": "yaml"}), encoding="utf-8")
        output = engine.run("package", "add", SOURCE, project=folder, **environment).succeeded().output
        assert SOURCE.removeprefix("https://") in (folder / "Pulumi.yaml").read_text(encoding="utf-8")
        return output

    first, second = added("first"), added("second")

    assert "Creating virtual environment" in first
    assert "Installing" not in second
    assert "environment" not in second


def test_a_program_with_the_package_installs_nothing(engine: Engine, environment: dict[str, Any]) -> None:
    folder = engine.folder / "program"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(BLOCKS["yaml"], encoding="utf-8")
    engine.run("package", "add", SOURCE, project=folder, **environment).succeeded()
    engine.run("stack", "init", "dev", project=folder).succeeded()
    shown = engine.run("preview", "--stack", "dev", project=folder, **environment).succeeded().output

    assert "gcp:container:NodePool inference-nodes create" in shown
    assert "nstalling" not in shown


def test_nothing_the_package_needs_lies_outside_its_repository(engine: Engine, environment: dict[str, Any]) -> None:
    shown = engine.run("package", "get-schema", SOURCE, **environment).succeeded().output
    schema, _ = json.JSONDecoder().raw_decode(shown)  # what it says of installing may follow

    assert sorted(schema["resources"]) == ["gpupools:index:GpuNodePool", "gpupools:index:GpuRuntime"]
    (plugin,) = (each for each in (engine.folder / "home" / "plugins").glob("resource-git*") if each.is_dir())
    assert (plugin / "components" / "PulumiPlugin.yaml").is_file()
    assert Path(plugin / ".venv").is_dir()
