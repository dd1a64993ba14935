"""What an installation takes does not grow unseen; docs/get-started/install.md has the figures."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAID = dict(
    re.findall(
        r"^\| `gpupools(?:\[(\w+)\])?` \| (\d+) \|",
        (ROOT / "docs" / "get-started" / "install.md").read_text("utf-8"),
        re.M,
    )
)


@pytest.fixture(scope="module")
def install_size() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install_size", ROOT / "benchmarks" / "install_size.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_extra(install_size: ModuleType) -> None:
    assert tuple(SAID) == install_size.EXTRAS


@pytest.mark.parametrize("extra", ["", "aws", "all"])
def test_an_installation_is_about_as_large_as_the_page_says(extra: str, install_size: ModuleType) -> None:
    """A tenth more or less: compiled packages differ from system to system."""
    found = install_size.sizes(extra)

    assert sum(found.values()) / 1e6 == pytest.approx(int(SAID[extra]), rel=0.1, abs=4)
    assert "pulumi" not in found if extra == "" else next(iter(found)).startswith("pulumi-")
