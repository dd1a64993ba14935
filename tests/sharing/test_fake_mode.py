"""A way of sharing added by CONTRIBUTING's list alone works everywhere, and each place left out is named at once."""

import ast
import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

import gpupools.spec.models
from gpupools.spec.models import SHARED_MODES, SharedFacts, SharedGpu, WayOfSharing
from tests.sharing.places import lacking
from tests.source_roots import FOLDERS, python_path

copies_the_tree = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CLOUDS = ("aws", "azure", "gcp")
SPEC = Path(gpupools.spec.models.__file__)

LANES = '''
class Lanes(SharedGpu):
    """Containers drive side by side."""

    facts: ClassVar[SharedFacts] = SharedFacts(
        called="lanes",
        plugin_block="lanes",
        needs_trust=True,
        control_daemon=True,
        equal_parts=True,
        seen_by_dcgm=True,
        on_part_of_a_gpu=False,
        oldest=OldestGpu((8, 0), "is older than Ampere and has no lanes", "use a newer GPU", "https://example.com/a"),
        most_clients=lambda gpu: 9,
        most_clients_source="https://example.com/b",
        not_claimable="NVIDIA's DRA driver knows no lanes",
    )

    mode: Literal["lanes"]


SharedMode = TimeSlicing | Mps | Lanes
'''

# What stands for each row somebody would write by hand: the row of `mps`, under the new name.
MODEL = {"gpupools/spec/models.py": ("\nSharedMode = TimeSlicing | Mps\n", LANES)}
ROWS = {
    "providers/gpupools/providers/gcp/pool_settings.py": ('"mps": "MPS"}', '"mps": "MPS", "lanes": "LANES"}'),
    "providers/gpupools/providers/aws/bootstrap.py": (
        '        "mps": {},\n',
        '        "mps": {},\n        "lanes": {},\n',
    ),
}

POOL = {"gpu": "L4", "nodes": {"max": 4}, "sharing": {"mode": "lanes", "replicas": 4}}


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Copy the sources twice: with the new model alone, and with everything the list says."""
    base = tmp_path_factory.mktemp("lanes")
    alone, whole = base / "alone", base / "whole"
    for tree in (alone, whole):
        for package in FOLDERS:
            shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    for tree, edits in ((alone, MODEL), (whole, {**MODEL, **ROWS})):
        for path, (old, new) in edits.items():
            text = (tree / path).read_text(encoding="utf-8")
            assert text.count(old) == 1, f"{path} no longer has {old!r}"
            (tree / path).write_text(text.replace(old, new), encoding="utf-8")
    for cloud in CLOUDS:
        table = whole / f"providers/gpupools/providers/{cloud}/capabilities.csv"
        rows = table.read_text(encoding="utf-8").splitlines()
        rows += [re.sub("mps", "lanes", row, count=1) for row in rows if "mps" in row.split(",")[1]]
        table.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return alone, whole


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": python_path(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *arguments], cwd=tree, env=environment, capture_output=True, text=True)


def gpupools_in(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(tree, "-c", "from gpupools.cli.main import program; raise SystemExit(program())", *arguments)


def places(tree: Path, *arguments: str) -> Any:
    shutil.copy(ROOT / "tests/sharing/places.py", tree / "places.py")
    done = python(tree, str(tree / "places.py"), *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def stack_file(tree: Path, **keys: Any) -> str:
    """Write a stack with a pool of lanes on a cluster of each cloud."""
    dev = yaml.safe_load((tree / "stacks/Pulumi.dev.yaml").read_text(encoding="utf-8"))["config"]["gpupools:clusters"]
    pool = {**POOL, **keys}
    pools = {"side": {**pool, "clusters": ["train", "lab"]}, "plug": {**pool, "gpu": "A10", "clusters": ["serve"]}}
    path = tree / "stacks/Pulumi.lanes.yaml"
    path.write_text(yaml.safe_dump({"config": {"gpupools:clusters": dev, "gpupools:pools": pools}}), encoding="utf-8")
    return str(path)


def test_every_way_of_sharing_has_its_words_everywhere() -> None:
    assert lacking() == []


@copies_the_tree
def test_a_model_alone_is_told_every_place_it_lacks_at_once(trees: tuple[Path, Path]) -> None:
    found = places(trees[0])

    assert [each for each in found if not each.startswith("providers/")] == []
    assert {each.partition(":")[0] for each in found if each.startswith("providers/")} == {
        "providers/gpupools/providers/gcp/pool_settings.py SHARING_STRATEGIES",
        "providers/gpupools/providers/aws/bootstrap.py BOTTLEROCKET_SHARING",
        *(f"providers/gpupools/providers/{cloud}/capabilities.csv{of}" for cloud in CLOUDS for of in ("", " default")),
    }
    assert "providers/gpupools/providers/azure/capabilities.csv: device-plugin mig-mixed+lanes" in found


@copies_the_tree
def test_with_its_rows_it_lacks_nothing(trees: tuple[Path, Path]) -> None:
    assert places(trees[1]) == []


@copies_the_tree
@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        pytest.param({}, "lanes shares the memory and the faults of a GPU between containers", id="trust"),
        pytest.param(
            {"sharing": {"mode": "lanes", "replicas": 12}, "trust": {"team": "research"}},
            "got 12; the lanes server of L4 takes 9 clients; use 9 or fewer",
            id="clients",
        ),
        pytest.param(
            {"gpu": "T4", "trust": {"team": "research"}},
            "T4 is older than Ampere and has no lanes; use a newer GPU",
            id="oldest GPU",
        ),
    ],
)
def test_it_is_held_to_what_it_says(trees: tuple[Path, Path], keys: dict[str, Any], problem: str) -> None:
    done = gpupools_in(trees[1], "check", stack_file(trees[1], **keys))

    assert done.returncode != 0
    assert problem in done.stdout + done.stderr


@copies_the_tree
def test_it_is_planned_declared_and_read_back(trees: tuple[Path, Path]) -> None:
    tree = trees[1]
    path = stack_file(tree, trust={"team": "research"})
    done = gpupools_in(tree, "preview", "--json", path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tree / "preview.json").write_text(done.stdout, encoding="utf-8")
    shown = json.loads(done.stdout)

    assert {pool["cloud"]: (pool["sharing_kind"], pool["capacity"]) for pool in shown["pools"]} == {
        "aws": ("lanes", {"nvidia.com/gpu": 4}),
        "azure": ("lanes", {"nvidia.com/gpu": 4}),
        "gcp": ("lanes", {"nvidia.com/gpu": 4}),
    }
    labels = next(pool["labels"] for pool in shown["pools"] if pool["cloud"] == "azure")
    assert labels["nvidia.com/device-plugin.config"] == "lanes-4"
    assert labels["nvidia.com/mps.capable"] == "true"
    inputs = json.dumps([resource["inputs"] for resource in shown["resources"]])
    assert '"gpuSharingStrategy": "LANES"' in inputs
    assert "sharing:\\n  lanes:\\n" in inputs  # the device plugin's ConfigMap
    boot = next(each["inputs"]["userData"] for each in shown["resources"] if "userData" in each["inputs"])
    assert "[settings.kubelet-device-plugins.nvidia.lanes]\nreplicas = 4" in base64.b64decode(boot).decode()
    assert any("each lanes client gets at most" in note for runtime in shown["runtimes"] for note in runtime["notes"])
    assert places(tree, str(tree / "preview.json")) == {"aws": ["lanes", 4], "gcp": ["lanes", 4]}
    assert "lanes × 4" in gpupools_in(tree, "preview", path).stdout


@copies_the_tree
def test_the_matrix_answers_for_it(trees: tuple[Path, Path]) -> None:
    rows = json.loads(gpupools_in(trees[1], "matrix", "--json").stdout)["rows"]
    lanes = {
        (row["cloud"], row["software"], row["gpu_model"]): row["verdict"] for row in rows if row["sharing"] == "lanes"
    }

    assert lanes["aws", "cloud-managed", "L4"] == "native"
    assert lanes["gcp", "cloud-managed", "L4"] == "native"
    assert lanes["azure", "device-plugin", "A10"] == "in-cluster"
    assert lanes["aws", "cloud-managed", "T4"] == "refused"
    assert {row["why"] for row in rows if (row["software"], row["sharing"]) == ("dra-driver", "lanes")} == {
        "NVIDIA's DRA driver knows no lanes"
    }


def test_a_model_that_does_not_say_its_facts_is_none() -> None:
    with pytest.raises(TypeError, match="Silent has no facts"):

        class Silent(SharedGpu):
            mode: Literal["silent"]

    with pytest.raises(TypeError, match=r"'needs_trust'.*'not_claimable'"):
        SharedFacts(called="x", plugin_block="x")  # type: ignore[call-arg]


def test_a_way_that_neither_shares_nor_cuts_has_to_say_so() -> None:
    class Other(WayOfSharing):
        mode: Literal["other"]

    with pytest.raises(TypeError, match=r"clients.*mig"):
        Other.model_validate({"mode": "other"})


def test_nobody_asks_which_way_of_sharing_it_is() -> None:
    bases = {"WayOfSharing", "SharedMode", "SharingMode"}
    for each in ast.parse(SPEC.read_text(encoding="utf-8")).body:
        if isinstance(each, ast.ClassDef) and {ast.unparse(base) for base in each.bases} & bases:
            bases.add(each.name)
    asked = []
    for path in (path for package in FOLDERS for path in sorted((ROOT / package).rglob("*.py"))):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in (*bases, *SHARED_MODES)):
            asked += [f"{path.relative_to(ROOT)}: {one}" for one in questions(ast.parse(text), bases)]

    assert bases >= {"WholeGpu", "SharedGpu", "TimeSlicing", "Mps", "Mig"}
    assert asked == []


def questions(tree: ast.AST, bases: set[str]) -> Iterator[str]:
    """Yield what asks for a model, or compares the name of a mode."""
    for node in ast.walk(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        inside = [*ast.walk(node)] if called or isinstance(node, ast.Compare | ast.MatchClass | ast.MatchValue) else []
        if called in ("isinstance", "issubclass") or isinstance(node, ast.MatchClass):
            names = {each.id for each in inside if isinstance(each, ast.Name)}
            yield from [ast.unparse(node)] * bool(names & bases)
        elif called.endswith((".endswith", ".startswith")) or isinstance(node, ast.Compare | ast.MatchValue):
            values = {each.value for each in inside if isinstance(each, ast.Constant)}
            yield from [ast.unparse(node)] * bool(values & SHARED_MODES.keys())
