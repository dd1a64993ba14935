"""Builds and installs the wheel, and the repository of a team that has packages of the names our folders have."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

from tests.source_roots import ROOT

OWN = ("components", "policies", "preview", "providers", "stacks")


def build_wheel(folder: Path) -> Path:
    """Build the wheel as `pip install .` does, and return it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def lay_packages_in_the_way(repository: Path) -> None:
    """Give a repository packages of its own that must not be asked for anything of ours."""
    for name in OWN:
        (repository / name).mkdir()
        text = f"raise RuntimeError('{name} of somebody else')\n"
        (repository / name / "__init__.py").write_text(text, encoding="utf-8")


def lay_environment(folder: Path, wheel: Path) -> None:
    """Make a virtual environment with the wheel beside what this one has installed, and nothing of this checkout."""
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n", encoding="utf-8")
    (folder / "bin").mkdir()
    for name in ("python", "python3"):
        (folder / "bin" / name).symlink_to(Path(sys.executable).resolve())
    command = folder / "bin" / "gpupools"
    program = "from gpupools.cli.main import program\n\nraise SystemExit(program())\n"
    command.write_text(f"#!{folder}/bin/python\n{program}", encoding="utf-8")
    command.chmod(0o755)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # Everything else this environment has; what its own .pth files name is left out, and with it this checkout.
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
