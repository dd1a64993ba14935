"""The page of licences is that of the lock, and what may not be installed is refused."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "tooling" / "licences.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_licences_is_that_of_the_lock() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tooling" / "licences.py", "--check"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("said", "expression", "allowed"),
    [
        ("License-Expression: MIT", "MIT", True),
        ("License-Expression: GPL-2.0-only OR MIT", "GPL-2.0-only OR MIT", True),
        ("License-Expression: MIT AND LGPL-2.1-or-later", "MIT AND LGPL-2.1-or-later", False),
        ("License-Expression: AGPL-3.0-only", "AGPL-3.0-only", False),
        ("License: Apache 2.0", "Apache-2.0", True),
        ("License: GPLv3+", "GPLv3+", False),
        (
            "License: UNKNOWN\nClassifier: License :: OSI Approved :: GNU General Public License v3 or later (GPLv3+)",
            "GNU General Public License v3 or later (GPLv3+)",
            False,
        ),
        ("Classifier: License :: OSI Approved :: ISC License (ISCL)", "ISC", True),
        ("Summary: says nothing", "not named", False),
    ],
)
def test_a_licence_that_is_not_on_the_list_is_refused(
    said: str, expression: str, allowed: bool, licences: ModuleType, tmp_path: Path
) -> None:
    package = tmp_path / "thing-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(f"Metadata-Version: 2.4\nName: Thing\nVersion: 1\n{said}\n", encoding="utf-8")
    found = licences.listed(["thing"], licences.installed([str(tmp_path)]))

    assert found == {"thing": expression}
    assert licences.is_allowed(found["thing"]) is allowed


def test_what_is_locked_and_not_installed_is_told(licences: ModuleType) -> None:
    with pytest.raises(LookupError, match="thing is locked and not installed"):
        licences.listed(["thing"], {})
