"""`pulumi install` puts the lock into the environment: each program finds it where Pulumi's toolchain looks."""

import os
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("manifest", ["Pulumi.yaml", "components/PulumiPlugin.yaml", "policies/PulumiPolicy.yaml"])
def test_the_lock_lies_where_pulumi_looks_for_it(manifest: str) -> None:
    file = ROOT / manifest
    keys = yaml.safe_load(file.read_text(encoding="utf-8"))
    # The pip toolchain reads requirements.txt in the program's folder (`main`), not in the manifest's, and installs
    # nothing, without a word, when there is none: pulumi/pulumi sdk/python/toolchain/pip.go, InstallDependencies.
    program = (file.parent / keys.get("main", ".")).resolve()
    lock = program / "requirements.txt"

    assert lock.read_text(encoding="utf-8").split() == ["-r", "../requirements.txt"]
    assert (program.parent / "requirements.txt").resolve() == ROOT / "requirements.txt"
    assert keys["runtime"]["options"]["toolchain"] == "pip"
    assert os.path.normpath(file.parent / keys["runtime"]["options"]["virtualenv"]) == str(ROOT / ".venv")
