"""What a command loads before it does its work: a start that loads everything takes twice as long."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpupools.console.startup import MANY
from tests.one_pool import EKS

CHECK = """
import sys
from gpupools.console.startup import start_lightly
start_lightly()
from gpupools.cli.main import main
code = main(["check", sys.argv[1]])
print(*sorted(sys.modules))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the modules that a check of one pool has loaded at its end."""
    file = tmp_path_factory.mktemp("stack") / "Pulumi.one.yaml"
    file.write_text(EKS, encoding="utf-8")
    return set(run(CHECK, str(file)).splitlines()[-1].split())


def run(program: str, *arguments: str) -> str:
    """Run a program in an interpreter of its own and return what it prints."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(
    "module",
    [
        "pulumi",
        "grpc",
        "gpupools.providers.azure",
        "gpupools.providers.gcp",
        "gpupools.providers.aws.readback",
        "gpupools.providers.aws.resources",
        "gpupools.readback.inputs",
        "gpupools.plan.pool_facts",
        "gpupools.catalog.mig",
        "gpupools.diff.pool_diff",
        "gpupools.policies",
        "gpupools.preview",
        "importlib.metadata._meta",
        "hashlib",
        "tempfile",
        "email",
        "difflib",
    ],
)
def test_a_check_of_one_whole_gpu_pool_does_not_load(module: str, loaded: set[str]) -> None:
    assert "gpupools.plan.pool_plan" in loaded

    assert module not in loaded


@pytest.mark.parametrize(
    "use",
    [
        "import importlib.metadata; print(importlib.metadata.version('pydantic'))",
        "import importlib.metadata as metadata; print(metadata.version('pydantic'))",
        "from importlib.metadata import version; print(version('pydantic'))",
        "from importlib.metadata import entry_points, version; entry_points(group='none'); print(version('pydantic'))",
        "import importlib.metadata as here, pydantic; print(here.distribution('pydantic').version)",
    ],
)
def test_package_metadata_is_there_for_whoever_asks(use: str) -> None:
    import pydantic

    printed = run(f"from gpupools.console.startup import start_lightly\nstart_lightly()\n{use}")

    assert printed.strip() == pydantic.__version__


def test_a_plugin_of_pydantic_the_reader_asked_for_is_not_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYDANTIC_DISABLE_PLUGINS", "some-plugin")

    printed = run(
        "from gpupools.console.startup import start_lightly\nstart_lightly()\n"
        "import os; print(os.environ['PYDANTIC_DISABLE_PLUGINS'])"
    )

    assert printed.strip() == "some-plugin"


def test_garbage_is_still_collected() -> None:
    printed = run(
        "from gpupools.console.startup import start_lightly\nstart_lightly()\n"
        "import gc, weakref\n"
        "class Ring: pass\n"
        "first = Ring(); first.itself = first; gone = weakref.ref(first); del first\n"
        f"kept = [[] for _ in range({MANY * 2})]\n"
        "print(gone() is None)"
    )

    assert printed.strip() == "True"


def test_the_process_ends_with_the_code_and_all_output_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.one.yaml"
    file.write_text(EKS.replace("gpu: L4", "gpu: L5"), encoding="utf-8")
    command = [sys.executable, "-m", "gpupools.cli.main", "check", str(file)]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert "'L5' is not an NVIDIA GPU model" in done.stderr
