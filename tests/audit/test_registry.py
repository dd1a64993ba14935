"""Every reader has its entry, and the core reads its own resources without any of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpupools import audit
from gpupools.audit.cluster_api import machine_kinds
from gpupools.providers import clouds
from gpupools.readback.registry import KubernetesReader, TypeReader, kubernetes_readers, type_readers

FOLDER = Path(str(audit.__file__)).parent


def modules_with(pattern: str) -> set[str]:
    """Return the modules of the package with a line that fits."""
    return {file.stem for file in FOLDER.glob("*.py") if re.search(pattern, file.read_text("utf-8"), re.MULTILINE)}


@pytest.mark.parametrize(
    ("pattern", "entries"),
    [
        (r"^FORM = ", (*audit.FORMS, "cluster_objects", "kubernetes", "terraform_configuration")),
        (r"^READER = reader_of_held", audit.TYPE_READERS),
        (r"^READER = KubernetesReader", audit.KUBERNETES_READERS),
    ],
)
def test_each_reader_has_one_entry(pattern: str, entries: list[str]) -> None:
    assert sorted(modules_with(pattern)) == sorted(entries)


def test_the_core_has_every_registered_reader() -> None:
    assert len(type_readers()) == len(audit.TYPE_READERS)
    assert len(kubernetes_readers()) == len(audit.KUBERNETES_READERS)
    assert all(isinstance(each, TypeReader) for each in type_readers())
    assert all(isinstance(each, KubernetesReader) for each in kubernetes_readers())
    assert {each.cloud for each in machine_kinds().values()} == {*clouds()}


READ = """
import sys
from gpupools.policies.kinds import is_read
{first}
print([name for name in {types!r} if is_read(name)], "gpupools.audit.cluster_api" in sys.modules)
"""
CORE = [
    "aws:eks/nodeGroup:NodeGroup",
    "kubernetes:karpenter.sh/v1:NodePool",
    "kubernetes:cloud.google.com/v1:ComputeClass",
]
OTHERS = ["aws:cloudformation/stack:Stack", "kubernetes:cluster.x-k8s.io/v1beta1:MachineDeployment"]


@pytest.mark.parametrize(
    ("first", "types", "printed"),
    [
        ("", [*CORE, *OTHERS], f"{CORE} False"),
        ("import gpupools.audit", [*CORE, *OTHERS], f"{CORE + OTHERS} True"),
        ("import gpupools.audit", CORE[:1], f"{CORE[:1]} False"),
    ],
)
def test_the_core_reads_its_own_resources_without_the_readers(first: str, types: list[str], printed: str) -> None:
    program = [sys.executable, "-c", READ.format(first=first, types=types)]

    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip() == printed
