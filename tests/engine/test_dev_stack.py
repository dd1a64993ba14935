"""The life of the dev stack: preview, up, up again, up after changes, destroy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.stand_in import AGENT_POOL, LAUNCH_TEMPLATE, NODE_GROUP, NODE_POOL

pytestmark = pytest.mark.engine

POOL_TYPES = {"aws": NODE_GROUP, "azure": AGENT_POOL, "gcp": NODE_POOL}


@dataclass(frozen=True)
class Step:
    """One command, and what it left behind."""

    ran: CommandResult
    has: list[dict[str, Any]]
    """What the clouds have afterwards."""
    did: list[dict[str, Any]]
    """What was done in the clouds meanwhile."""


@dataclass(frozen=True)
class Life:
    stack: Mapping[str, Any]
    """The dev stack's file."""
    preview: Step
    up: Step
    again: Step
    changed: Step
    destroy: Step


@pytest.fixture(scope="module")
def life(engine: Engine) -> Life:
    """Live it once; the tests look at its steps."""

    def step(*arguments: str) -> Step:
        before = len(engine.journal())
        ran = engine.run(*arguments, "--stack", "dev")
        return Step(ran, engine.resources(), engine.journal()[before:])

    file = engine.repository / "stacks" / "Pulumi.dev.yaml"
    stack = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    engine.run("stack", "init", "dev").succeeded()
    preview = step("preview", "--policy-pack", "policies")
    up = step("up", "--yes", "--skip-preview", "--policy-pack", "policies")
    again = step("up", "--yes", "--skip-preview", "--expect-no-changes")
    # `stack init` has written the salt of the passphrase into the file; only the pools may change.
    later = yaml.safe_load(file.read_text(encoding="utf-8"))
    pools = later["config"]["gpupools:pools"]
    pools["a100"]["nodes"]["max"] += 1
    pools["slices"]["disk_gib"] = 300
    pools["shared"]["sharing"]["replicas"] = 2
    file.write_text(yaml.safe_dump(later), encoding="utf-8")
    changed = step("up", "--yes", "--skip-preview")
    return Life(stack, preview, up, again, changed, step("destroy", "--yes", "--skip-preview"))


def wanted(stack: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return type and pool for every pool the file asks for."""
    clusters, pools = stack["gpupools:clusters"], stack["gpupools:pools"]
    return sorted((POOL_TYPES[clusters[key]["cloud"]], name) for name in pools for key in pools[name]["clusters"])


def labels(pool: Mapping[str, Any]) -> Mapping[str, str]:
    inputs = pool["inputs"]
    found: Mapping[str, str] = inputs.get("nodeLabels") or inputs.get("labels") or inputs["nodeConfig"]["labels"]
    return found


def of(step: Step, kind: str, pool: str) -> list[tuple[str, str]]:
    """Return what was done to one pool on one cloud: the operation, and the pool's name in the cloud."""
    return [(e["op"], e["name"]) for e in step.did if e["type"] == kind and pool in (e["name"] or "")]


def test_a_preview_passes_the_policies_and_creates_nothing(life: Life) -> None:
    shown = life.preview.ran.succeeded().output

    assert "gpupools@v" in shown
    assert "[mandatory]" not in shown
    assert (life.preview.has, life.preview.did) == ([], [])


def test_up_creates_every_pool_of_the_file(life: Life) -> None:
    life.up.ran.succeeded()

    pools = [pool for pool in life.up.has if pool["type"] in POOL_TYPES.values()]
    assert sorted((pool["type"], labels(pool)["gpupools/pool"]) for pool in pools) == wanted(life.stack)


def taints(pool: Mapping[str, Any]) -> Any:
    inputs = pool["inputs"]
    return inputs.get("taints") or inputs.get("nodeTaints") or inputs["nodeConfig"]["taints"]


@pytest.mark.parametrize(
    ("kind", "spelling"),
    [
        (NODE_GROUP, {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}),
        (AGENT_POOL, "nvidia.com/gpu=present:NoSchedule"),
        (NODE_POOL, {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}),
    ],
    ids=["eks", "aks", "gke"],
)
def test_what_the_cloud_gets_carries_the_gpu_taint(life: Life, kind: str, spelling: Any) -> None:
    found = [taints(pool) for pool in life.up.has if pool["type"] == kind]

    assert found
    assert all(spelling in each for each in found)


def test_a_second_up_changes_nothing(life: Life) -> None:
    life.again.ran.succeeded()

    assert life.again.did == []


@pytest.mark.parametrize("kind", POOL_TYPES.values(), ids=POOL_TYPES)
def test_another_node_range_updates_the_pool_in_place(life: Life, kind: str) -> None:
    life.changed.ran.succeeded()

    ((operation, _),) = of(life.changed, kind, "a100")
    assert operation == "update"


@pytest.mark.parametrize(
    ("kind", "pool"),
    [
        pytest.param(AGENT_POOL, "slices", id="aks-disk-size"),
        pytest.param(NODE_POOL, "shared", id="gke-replicas"),
    ],
)
def test_what_cannot_change_is_replaced_under_another_name_before_the_old_pool_goes(
    life: Life, kind: str, pool: str
) -> None:
    life.changed.ran.succeeded()

    ((first, new), (last, old)) = of(life.changed, kind, pool)
    assert (first, last) == ("create", "delete")
    assert new != old
    assert [entry["op"] for entry in life.changed.did if entry["op"] == "refused"] == []


def test_a_disk_size_gke_can_change_replaces_no_pool(life: Life) -> None:
    assert [operation for operation, _ in of(life.changed, NODE_POOL, "slices")] == ["update"]


def test_a_change_of_the_range_alone_leaves_the_launch_template_alone(life: Life) -> None:
    assert of(life.changed, LAUNCH_TEMPLATE, "a100") == []


def test_destroy_leaves_nothing(life: Life) -> None:
    life.destroy.ran.succeeded()

    assert life.destroy.has == []
