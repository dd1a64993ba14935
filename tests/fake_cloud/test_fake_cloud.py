"""A cloud added by CONTRIBUTING's list alone goes through everything, and a part left out is named in one sentence."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan.cloud import Cloud, NodePools, Readback, ResourceFactory
from gpupools.providers import clouds
from tests.cloud_parts import FILES
from tests.said import joined

pytestmark = pytest.mark.slow

PACKAGE = clouds.__module__
HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
CLOUDS = Path(str(sys.modules[PACKAGE].__file__)).parent

ENTRY = '\n_CLOUDS = ("nimbus", '

ROWS = {
    "machine_kinds.csv": "NimbusMachinePool,nimbus,machine,,taints,,,,,,,,,,,\n",
    "node_labels.csv": "nimbus.example.com/gpu,nvidia\n",
}

FILE: Mapping[str, Any] = {
    "gpupools:clusters": {
        "sky": {
            "cloud": "nimbus",
            "name": "sky",
            "region": "north",
            "endpoint": "https://sky.example.com",
            "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
        }
    },
    "gpupools:pools": {
        "train": {
            "clusters": ["sky"],
            "instance_type": "stratus.8",
            "nodes": {"max": 2},
            "image": {"family": "nimbus-lts"},
        },
        "shared": {
            "clusters": ["sky"],
            "gpu": "L4",
            "nodes": {"max": 4},
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "trust": {"team": "research"},
        },
        "plugin": {"clusters": ["sky"], "gpu": "L4", "nodes": {"max": 4}, "software": "device-plugin"},
    },
}

Folder = Path


def add_cloud(tree: Path) -> Folder:
    """Make a tree of packages with the cloud in it, as CONTRIBUTING has it added; return the cloud's folder."""
    package = tree.joinpath(*PACKAGE.split("."))
    package.mkdir(parents=True)
    for each in CLOUDS.iterdir():
        if each.name != "__init__.py" and not each.name.startswith("__"):
            (package / each.name).symlink_to(each)
    entries = (CLOUDS / "__init__.py").read_text(encoding="utf-8")
    head, table, rest = entries.partition("\n_CLOUDS = (")
    assert table, "where a cloud's entry goes has changed, and so must CONTRIBUTING"
    (package / "__init__.py").write_text(head + ENTRY + rest, encoding="utf-8")
    shutil.copytree(HERE / "nimbus", package / "nimbus", ignore=shutil.ignore_patterns("__pycache__"))
    for file in (package / "nimbus").glob("*.py"):
        text = file.read_text(encoding="utf-8").replace("tests.fake_cloud.nimbus", f"{PACKAGE}.nimbus")
        file.write_text(text, encoding="utf-8")
    _add_kinds(tree / "gpupools" / "audit")
    return package / "nimbus"


def _add_kinds(package: Path) -> None:
    """Add the rows of the cloud's machines in Cluster API, and of its labels of nodes."""
    package.mkdir()
    for each in (REPOSITORY / "gpupools" / "audit").iterdir():
        if not each.name.startswith("__") and each.name not in ROWS:
            (package / each.name).symlink_to(each)
    for name, row in ROWS.items():
        (package / name).write_text((REPOSITORY / "gpupools/audit" / name).read_text(encoding="utf-8") + row)
    shutil.copy(REPOSITORY / "gpupools/audit/__init__.py", package)


def run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the tree before what is installed."""
    path = os.pathsep.join((str(tree), str(REPOSITORY)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, cwd=REPOSITORY, check=False
    )


def gpupools(tree: Path, *arguments: str) -> str:
    done = run(tree, "-c", "import sys; from gpupools.cli.main import main; sys.exit(main())", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write(file: Path, content: Mapping[str, Any]) -> str:
    file.write_text(yaml.safe_dump({"config": dict(content)}, sort_keys=False), encoding="utf-8")
    return str(file)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tree with the whole cloud."""
    base = tmp_path_factory.mktemp("whole")
    add_cloud(base)
    return base


def test_the_list_in_contributing_is_the_list_of_files() -> None:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("### A cloud\n")[2].partition("\n\n`tests/fake_cloud`")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]

    assert sorted(re.findall(r"`([^`]+)`", "".join(rows))) == sorted(["__init__.py", *FILES])


# --- everything ---


def test_check_takes_its_pools_and_says_what_it_refuses(tree: Path, tmp_path: Path) -> None:
    gpupools(tree, "check", write(tmp_path / "Pulumi.sky.yaml", FILE))
    pool = {"clusters": ["sky"], "gpu": "L4", "nodes": {"max": 4}, "tags": {"a": "1", "b": "2", "c": "3"}}
    sharing = {"mode": "time-slicing", "replicas": 9}
    pool |= {"image": {"family": "cos"}}
    pool |= {"sharing": sharing, "trust": {"team": "research"}, "labels": {"nimbus.example.com/x": "y"}}
    refused = write(tmp_path / "Pulumi.bad.yaml", {**FILE, "gpupools:pools": {"a": pool}})

    done = run(tree, "-c", "import sys; from gpupools.cli.main import main; sys.exit(main())", "check", refused)

    assert done.returncode == 1
    assert "pools.a.sharing.replicas: got 9, and Nimbus takes at most 8; write 8 or fewer" in done.stderr
    assert "pools.a.image.family: Nimbus has no image cos; use nimbus-os or nimbus-lts" in done.stderr
    assert "pools.a.tags: got 3, and Nimbus takes 2; drop some" in done.stderr
    assert "pools.a.labels.nimbus.example.com/x: 'nimbus.example.com/x' is the cloud's own" in done.stderr


def test_diff_says_what_an_edit_does(tree: Path, tmp_path: Path) -> None:
    pools = FILE["gpupools:pools"]
    edited = {
        "train": {**pools["train"], "instance_type": "cumulus.4"},
        "shared": {**pools["shared"], "sharing": {"mode": "time-slicing", "replicas": 8}},
        "plugin": {**pools["plugin"], "overrides": {"nimbus": {"NodePool": {"startupScript": "echo"}}}},
    }
    old, new = (tmp_path / f"Pulumi.{name}.yaml" for name in ("old", "new"))
    write(new, {**FILE, "gpupools:pools": edited})

    said = gpupools(tree, "diff", write(old, FILE), str(new))

    assert joined(said.splitlines()) == [
        (
            "sky/train: ends pods on up to 2 nodes at once; "
            "replaces up to 2 nodes × 8 GPUs; creates the new pool before it deletes the old one: "
            "pools.train.instance_type stratus.8 → cumulus.4"
        ),
        (
            "sky/shared: drains 1 node at a time; rolling: "
            "pools.shared.sharing.replicas 4 → 8; Nimbus drains and replaces every node"
        ),
        (
            "sky/plugin: drains 1 node at a time; "
            "rolling: pools.plugin.overrides.nimbus.NodePool.startupScript none → (a text of 4 characters, not shown); "
            "Nimbus drains and replaces every node; "
            "NodePool.startupScript is start-up-script: it runs on every node, as root"
        ),
    ]


def test_preview_declares_it_judges_it_and_says_who_owns_what(tree: Path, tmp_path: Path) -> None:
    said = json.loads(gpupools(tree, "preview", "--json", write(tmp_path / "Pulumi.sky.yaml", FILE)))

    assert said["problems"] == []
    made = [each for each in said["resources"] if each["type"] == "nimbus:index:NodePool"]
    assert [each["inputs"]["machine"] for each in made] == ["stratus.8", "cumulus.1", "cumulus.1"]
    assert made[0]["inputs"]["image"] == "nimbus-lts"
    assert made[1]["inputs"]["timeSlices"] == 4
    (runtime,) = said["runtimes"]
    owners = runtime["owners"]
    assert owners["train"]["driver"] == "Nimbus"
    assert owners["plugin"]["device plugin"] == "chart nvidia-device-plugin"


def test_the_matrix_and_the_catalogue_have_it(tree: Path) -> None:
    cells = json.loads(gpupools(tree, "matrix", "--cloud", "nimbus", "--json"))
    machines = json.loads(gpupools(tree, "catalog", "--cloud", "nimbus", "--json"))

    assert cells
    assert {each["instance_type"] for each in machines["instance_types"]} == {"cumulus.1", "cumulus.4", "stratus.8"}


def test_the_policies_judge_it(tree: Path, tmp_path: Path) -> None:
    resource = {
        "urn": "urn:pulumi:a::b::nimbus:index:NodePool::p",
        "type": "nimbus:index:NodePool",
        "inputs": {"machine": "cumulus.4", "taints": []},
        "custom": True,
    }
    state = {"version": 3, "deployment": {"resources": [resource]}}
    (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")

    done = run(
        *(tree, "-c", "import sys; from gpupools.cli.main import main; sys.exit(main())", "policy"),
        str(tmp_path / "state.json"),
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 NVIDIA GPUs per node (machine cumulus.4), but no permanent taint keeps other pods off" in done.stdout


OBJECTS = {
    "karpenter": (
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "open"},
            "spec": {
                "template": {
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.nimbus.example.com", "kind": "NimbusClass", "name": "a"},
                        "requirements": [
                            {"key": "karpenter.nimbus.example.com/machine-gpu-count", "operator": "Gt", "values": ["0"]}
                        ],
                    }
                }
            },
        },
        "spec.template.spec.requirements[0] karpenter.nimbus.example.com/machine-gpu-count 0",
    ),
    "Cluster API": (
        {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1",
            "kind": "NimbusMachinePool",
            "metadata": {"name": "open"},
            "spec": {"machine": "cumulus.4"},
        },
        "spec.machine cumulus.4",
    ),
    "a running node": (
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "open", "labels": {"nimbus.example.com/gpu": "l4"}},
        },
        "metadata.labels nimbus.example.com/gpu l4",
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_the_policies_judge_its_kubernetes_objects(name: str, tree: Path, tmp_path: Path) -> None:
    manifest, evidence = OBJECTS[name]
    (tmp_path / "open.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")

    done = run(
        *(tree, "-c", "import sys; from gpupools.cli.main import main; sys.exit(main())", "policy"),
        str(tmp_path / "open.yaml"),
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert f"({evidence}), but no permanent taint keeps other pods off" in done.stdout


# --- every part ---


def without_file(name: str) -> Callable[[Folder], None]:
    return lambda folder: (folder / name).unlink()


def without_keyword(file: str, call: str, name: str) -> Callable[[Folder], None]:
    def take(folder: Folder) -> None:
        tree = ast.parse((folder / file).read_text(encoding="utf-8"))
        (made,) = (
            each
            for each in ast.walk(tree)
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == call
        )
        made.keywords = [each for each in made.keywords if each.arg != name]
        (folder / file).write_text(ast.unparse(tree), encoding="utf-8")

    return take


def without_line(file: str, start: str) -> Callable[[Folder], None]:
    def take(folder: Folder) -> None:
        lines = (folder / file).read_text(encoding="utf-8").splitlines(keepends=True)
        left = [line for line in lines if not line.startswith(start)]
        assert len(left) == len(lines) - 1
        (folder / file).write_text("".join(left), encoding="utf-8")

    return take


def without_text(file: str, text: str, instead: str = "") -> Callable[[Folder], None]:
    def take(folder: Folder) -> None:
        before = (folder / file).read_text(encoding="utf-8")
        assert text in before
        (folder / file).write_text(before.replace(text, instead), encoding="utf-8")

    return take


def required(kind: Any) -> Sequence[str]:
    if issubclass(kind, tuple):
        return [name for name in kind._fields if name not in kind._field_defaults]
    return [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]


MADE_IN = {Cloud: "__init__.py", NodePools: "__init__.py", Readback: "readback.py", ResourceFactory: "resources.py"}
PARTS = [
    *(pytest.param(without_file(name), name, id=name) for name in FILES),
    *(
        pytest.param(without_keyword(file, kind.__name__, name), name, id=f"{kind.__name__}.{name}")
        for kind, file in MADE_IN.items()
        for name in required(kind)
    ),
    pytest.param(without_text("../__init__.py", '"nimbus", '), "no entry in providers/__init__.py", id="entry"),
    pytest.param(
        without_text("capabilities.py", "    **_ROWS,\n", "    **dict(list(_ROWS.items())[1:]),\n"),
        "matrix has nothing for cloud-managed × none",
        id="a cell of the matrix",
    ),
    pytest.param(
        without_text("capabilities.py", "dict.fromkeys(SHARING_KINDS,", "dict.fromkeys(SHARING_KINDS[1:],"),
        "default software has nothing for none",
        id="a default software",
    ),
    pytest.param(
        without_text("pool_settings.py", "for name in NAMES", "for name in NAMES[1:]"),
        "settings has nothing for capacity.spot",
        id="a setting",
    ),
    pytest.param(without_text("inputs.csv", ",tags,tags,", ",tags,,"), "inputs.csv has nothing for tags", id="a field"),
    pytest.param(
        without_line("inputs.csv", "NodePool,cluster,"), "inputs.csv has nothing for the input cluster", id="an input"
    ),
    pytest.param(
        without_text("inputs.csv", "NodePool,image,", "NodePool,labels,"),
        "inputs.csv has 2 rows for NodePool.labels",
        id="two rows of an input",
    ),
    pytest.param(
        without_text("cluster.py", ', "region": "north"'), "its example cluster is refused", id="a key of the example"
    ),
]


@pytest.mark.parametrize(("take", "named"), PARTS)
def test_a_part_left_out_is_named(take: Callable[[Folder], None], named: str, tmp_path: Path) -> None:
    take(add_cloud(tmp_path))
    program = "import json; from tests.cloud_parts import missing; print(json.dumps(missing('nimbus')))"

    done = run(tmp_path, "-c", program)

    assert done.returncode == 0, done.stderr
    (sentence,) = json.loads(done.stdout)
    assert sentence.startswith("nimbus")
    assert named in sentence


def test_a_whole_cloud_passes_the_contract(tree: Path) -> None:
    done = run(tree, *CONTRACT)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "take",
    [without_file("constraints.py"), without_keyword("resources.py", "ResourceFactory", "create_pool")],
    ids=["a file", "a function"],
)
def test_a_part_left_out_is_one_failure_of_the_contract(take: Callable[[Folder], None], tmp_path: Path) -> None:
    take(add_cloud(tmp_path))

    done = run(tmp_path, *CONTRACT)

    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout.splitlines()[-1]
    assert "test_every_part_is_there[nimbus]" in done.stdout


CONTRACT = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/test_clouds.py", "-k", "nimbus")
