"""Imports point one way: the contracts in pyproject.toml hold, break when an import goes against them, and are told."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import COMMANDS
from tests.rows import each_row
from tests.source_roots import FOLDERS, python_path

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS: list[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]


def copied(folder: Path) -> Path:
    """Copy what the contracts are about into a folder."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of what the contracts are about."""
    return copied(tmp_path)


def lint(folder: Path) -> tuple[int, str]:
    # Not this checkout's own folders, which an editable installation adds to the same namespace.
    program = (
        "import sys; copy, here = (each.split(':') for each in (sys.argv.pop(1), sys.argv.pop(1)))\n"
        "sys.path[:] = copy + [each for each in sys.path if each not in here]\n"
        "from importlinter.cli import lint_imports_command as run; run()"
    )
    command = [sys.executable, "-I", "-c", program, python_path(folder), python_path(ROOT), "--no-cache"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_contracts_hold(copy: Path) -> None:
    code, said = lint(copy)

    assert code == 0, said
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in said


AGAINST_THE_FLOW = (
    ("gpupools/plan/pool_plan.py", "gpupools.policies.rules"),
    ("gpupools/plan/pool_plan.py", "gpupools.preview.format_preview"),
    ("gpupools/plan/pool_plan.py", "gpupools.providers.aws"),
    ("gpupools/plan/pool_plan.py", "gpupools.stackfile.stack"),
    ("gpupools/catalog/gpus.py", "gpupools.spec.models"),
    ("gpupools/common/errors.py", "gpupools.catalog.gpus"),
    ("gpupools/readback/inputs.py", "gpupools.software.owners"),
    ("gpupools/stackfile/stack.py", "gpupools.diff.pool_diff"),
    ("gpupools/diff/guard.py", "gpupools.cli.check"),
    ("gpupools/software/planning.py", "pulumi"),
    ("providers/gpupools/providers/aws/pool_plan.py", "gpupools.policies.rules"),
    ("providers/gpupools/providers/gcp/pool_plan.py", "pulumi_gcp"),
    ("providers/gpupools/providers/aws/readback.py", "pulumi_aws"),
    ("providers/gpupools/providers/aws/edit_effects.py", "gpupools.providers.gcp.edit_effects"),
    ("preview/gpupools/preview/sdk_schema.py", "gpupools.providers.azure.arm"),
    ("components/gpupools/components/clusters.py", "gpupools.providers.aws.resources"),
    ("policies/gpupools/policies/rules/gpu_pool_tainted.py", "gpupools.components.clusters"),
    ("components/gpupools/components/clusters.py", "gpupools.policies.rules"),
    ("policies/gpupools/policies/rules/gpu_pool_tainted.py", "gpupools.preview.format_preview"),
    ("preview/gpupools/preview/format_preview.py", "gpupools.cli.check"),
    ("policies/gpupools/policies/kinds.py", "gpupools.audit.forms"),
    ("gpupools/cli/orphans.py", "gpupools.audit.pulumi_state"),
)


@pytest.fixture(scope="module")
def said_of_all(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what is said of a copy in which every import of `AGAINST_THE_FLOW` stands, which takes one run."""
    folder = copied(tmp_path_factory.mktemp("against"))
    for number, (file, imported) in enumerate(AGAINST_THE_FLOW):
        with (folder / file).open("a", encoding="utf-8") as out:
            out.write(f"\n\ndef _late{number}() -> object:\n    import {imported} as other\n\n    return other\n")
    code, said = lint(folder)
    assert code == 1
    return said


@each_row(("file", "imported"), AGAINST_THE_FLOW)
def test_an_import_against_the_flow_is_refused(file: str, imported: str, said_of_all: str) -> None:
    importer = f"gpupools.{file.removesuffix('.py').rpartition('gpupools/')[2].replace('/', '.')}"

    # Alone: a longer chain that is refused may have links that are not.
    assert re.search(rf"^- +{re.escape(importer)} -> {re.escape(imported)}\s+\(l\.\d+\)\n\n", said_of_all, re.MULTILINE)


def test_an_import_for_the_type_checker_alone_is_refused_too(copy: Path) -> None:
    contract = copy / "gpupools" / "plan" / "cloud.py"
    catalogue = copy / "gpupools" / "catalog" / "instance_types.py"
    circle = (copy / "gpupools" / "plan" / "dra.py", "gpupools.plan.pool_planner")
    for file, imported in ((contract, "gpupools.readback.karpenter"), (catalogue, "pulumi"), circle):
        with file.open("a", encoding="utf-8") as out:
            out.write(f"\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import {imported} as other\n")
    code, said = lint(copy)

    assert code == 1
    assert "gpupools.plan.cloud -> gpupools.readback.karpenter" in said
    assert "gpupools.catalog.instance_types -> pulumi" in said
    assert "No cycles are allowed in gpupools.plan.\nIt could be made acyclic by removing 1 dependency:" in said
    assert "- .dra -> .pool_planner (1 import)" in said


def test_a_folder_without_a_place_among_the_layers_is_refused(copy: Path) -> None:
    (copy / "gpupools" / "elsewhere").mkdir()
    (copy / "gpupools" / "elsewhere" / "__init__.py").touch()
    code, said = lint(copy)

    assert code == 1
    assert "elsewhere" in said


def test_the_page_lists_the_folders_in_the_order_of_the_contract() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    layers = [set(layer.split(" | ")) for layer in CONTRACTS[0]["layers"]][::-1]
    places = {name: place for place, layer in enumerate(layers) for name in layer}

    assert set(listed) == set().union(*layers)
    assert [places[name] for name in listed] == sorted(places[name] for name in listed)


ONE_NAME_FOR_SEVERAL = {
    "__init__.py": "Python's own",
    "__main__.py": "Python's own",
    "serve.py": "gpupools.components.serve and gpupools.policies.serve are what a plugin of one's own imports",
    # What every cloud fills in, each in a file of the name of the one that says what there is to fill in.
    "constraints.py": "gpupools/software checks the software of a cluster, each cloud the settings of a pool",
    "existing_pools.py": "gpupools/plan has the form of pools that exist already, each cloud reads them",
    "karpenter.py": "gpupools/readback reads the objects, each cloud its provider's part of them",
    "node_customization.py": "gpupools/readback has the form of the rows, each cloud its rows",
    "node_software.py": "gpupools/plan has the form, each cloud its rows",
    "pool_plan.py": "gpupools/plan has the plan of a pool, each cloud its own part of it",
}
"""Names of files that may stand more than once, and why a reader can tell them apart."""


def test_no_two_files_have_one_name() -> None:
    clouds = {path.parent for path in ROOT.glob("providers/gpupools/providers/*/resources.py")}
    commands = ROOT / "gpupools" / "cli"  # each named after its command, whatever it shows
    found: dict[str, set[str]] = defaultdict(set)
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        if path.parent != commands or path.stem not in COMMANDS:
            found[path.name].add("a cloud's" if path.parent in clouds else str(path.relative_to(ROOT)))
    twice = {name: sorted(places) for name, places in found.items() if len(places) > 1}

    assert {name: places for name, places in twice.items() if name not in ONE_NAME_FOR_SEVERAL} == {}
    assert not ONE_NAME_FOR_SEVERAL.keys() - twice.keys(), "stands once now; take it out"


DOOR = {"gpupools/ready/live_cluster.py", "gpupools/ready/kubeconfig.py"}
"""The only modules that open a kubeconfig, run its programs or ask a cluster."""
OTHER_REQUESTS = {
    "gpupools/report/post.py": "GitHub's and GitLab's API, in the Action",
    "gpupools/software/startup_gate.py": "a program in the cluster, with its own service account",
}
CLUSTER_ACCESS = re.compile(
    r"(?m)^\s*(?:from|import) kubernetes\b(?!\.utils)"
    r"|\bKUBECONFIG\b|expanduser\(\"~/\.kube|urllib\.request|urllib3|http\.client|\bimport (requests|httpx|socket)\b"
)


def test_one_door_leads_to_a_cluster() -> None:
    found = {
        str(file.relative_to(ROOT))
        for name in FOLDERS
        for file in (ROOT / name).rglob("*.py")
        if CLUSTER_ACCESS.search(file.read_text(encoding="utf-8"))
    }

    assert found == DOOR | set(OTHER_REQUESTS)
