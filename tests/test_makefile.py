"""`make` sets itself up again wherever it stands and whatever an earlier set-up left: real make, venv and pip.

The project beside the copied Makefile is a small one that pip installs offline: a command that says which folder's code
it runs.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[1] / "Makefile"
MAKES_OWN = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("make") is None, reason="make is not on PATH"),
]

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "gpupools"
version = "1"
[project.scripts]
gpupools = "gpupools:program"
"""
# What pip asks of a build backend: https://peps.python.org/pep-0660/
BACKEND = """\
import os, pathlib, time, zipfile
NAME = "gpupools-1-py3-none-any.whl"
def build_editable(folder, config_settings=None, metadata_directory=None):
    if "STALL" in os.environ:
        pathlib.Path(os.environ["STALL"]).touch()
        time.sleep(60)
    info = "gpupools-1.dist-info"
    with zipfile.ZipFile(os.path.join(folder, NAME), "w") as wheel:
        wheel.writestr("gpupools.pth", os.getcwd())
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: gpupools\\nVersion: 1\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\\ngpupools = gpupools:program\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return NAME
"""
PROGRAM = "import sys\ndef program():\n    print(sys.argv[2], 'by', __file__)\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout that has set itself up, in a folder with a blank in its name."""
    folder = tmp_path_factory.mktemp("make") / "a checkout"
    folder.mkdir()
    shutil.copy(MAKEFILE, folder)
    for name, text in {
        "pyproject.toml": PROJECT,
        "requirements.txt": "",
        "backend.py": BACKEND,
        "gpupools.py": PROGRAM,
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    assert preview(folder) == said(folder)
    return folder


@pytest.fixture
def checkout(made: Path, tmp_path: Path) -> Path:
    """Return a copy of it, with its environment."""
    return Path(shutil.copytree(made, tmp_path / "copy", symlinks=True))


def environment(**more: str) -> dict[str, str]:
    outside_make = {key: value for key, value in os.environ.items() if key not in MAKES_OWN}
    return {**outside_make, **more}


def preview(folder: Path, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        ["make", "-s", f"PYTHON={sys.executable}", "preview", *arguments],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr.replace("Setting up .venv (once, a minute or two)...\n", "")) == (0, "")
    return done.stdout.strip()


def said(folder: Path, stack: str = "dev") -> str:
    return f"stacks/Pulumi.{stack}.yaml by {folder.resolve() / 'gpupools.py'}"


def test_only_the_command_line_chooses_the_stack(made: Path) -> None:
    assert preview(made, ENV="prod") == said(made)
    assert preview(made, "ENV=prod", ENV="test") == said(made, "prod")


def test_what_is_set_up_stays(made: Path) -> None:
    mark = made / ".venv" / ".ready"
    before = mark.stat().st_mtime_ns

    preview(made)

    assert mark.stat().st_mtime_ns == before


def test_commands_that_start_together_set_up_once(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    command = ["make", "-s", f"PYTHON={sys.executable}", "preview"]
    running = [
        subprocess.Popen(
            command, cwd=checkout, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    ended = [(*each.communicate(timeout=240), each.returncode) for each in running]

    assert [(out.strip(), code) for out, _, code in ended] == [(said(checkout), 0)] * 3
    assert sorted(error.count("Setting up") for _, error, _ in ended) == [0, 0, 1]


def test_a_checkout_behind_a_link_is_the_same_checkout(made: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(made)
    before = (made / ".venv" / ".ready").stat().st_mtime_ns

    assert preview(link) == said(made)
    assert (made / ".venv" / ".ready").stat().st_mtime_ns == before


def test_a_copied_checkout_runs_its_own_code_and_a_moved_one_too(checkout: Path, tmp_path: Path) -> None:
    assert preview(checkout) == said(checkout)
    moved = checkout.rename(tmp_path / "moved")

    assert preview(moved) == said(moved)


def test_a_set_up_that_was_killed_is_begun_anew(checkout: Path, tmp_path: Path) -> None:
    stalled = tmp_path / "stalled"
    setting_up = subprocess.Popen(
        ["make", f"PYTHON={sys.executable}", "preview"],
        cwd=checkout,
        env=environment(STALL=str(stalled)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + 60
    while not stalled.exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(setting_up.pid, signal.SIGKILL)
    setting_up.wait()
    assert stalled.exists()
    left = next((checkout / ".venv").glob("lib/python*/site-packages/pip"))
    shutil.rmtree(left)  # an interrupt a moment earlier leaves an environment without pip

    assert preview(checkout) == said(checkout)


def test_a_changed_lock_is_installed_into_the_environment_that_is_there(made: Path) -> None:
    mark, kept = (made / ".venv" / name for name in (".ready", "kept"))
    kept.touch()
    os.utime(mark, (0, 0))

    assert preview(made) == said(made)
    assert kept.exists()
    assert mark.stat().st_mtime > 0
