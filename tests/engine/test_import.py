"""Pools made by other means, taken over by the real engine: no node goes, and nothing changes that was not said."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.existing_pools import ExistingPool, aks_pool, eks_pool, gke_pool

pytestmark = pytest.mark.engine

MAKERS: Mapping[str, Callable[[Random, int], ExistingPool]] = {
    "aws": eks_pool,
    "azure": aks_pool,
    "gcp": gke_pool,
}
EACH = 10


@dataclass(frozen=True)
class Moved:
    """Ten pools of a cloud and what becomes of them."""

    pools: list[ExistingPool]
    imported: CommandResult
    answer: Mapping[str, Any]
    preview: CommandResult
    up: CommandResult
    did: list[dict[str, Any]]
    had: dict[str, Any]
    has: dict[str, Any]
    again: CommandResult


def pools_of(engine: Engine, kind: str) -> dict[str, Any]:
    """Return what the cloud has of pools, by their names."""
    found = [each["outputs"] for each in engine.resources(kind)]
    return {each.get("nodeGroupName") or each["name"]: each for each in found}


@pytest.fixture(scope="module", params=sorted(MAKERS))
def moved(request: pytest.FixtureRequest, engine: Engine) -> Moved:
    cloud = request.param
    random = Random(20261122)
    pools = [MAKERS[cloud](random, number) for number in range(EACH)]
    files = []
    for pool in pools:
        engine.outside(pool.kind, pool.id, pool.inputs, **pool.outputs)
        files.append(f"{pool.name}.json")
        told = [pool.described] if pool.beside is None else [pool.described, pool.beside]
        (engine.repository / files[-1]).write_text(json.dumps(told), encoding="utf-8")
    out = f"stacks/Pulumi.moved-{cloud}.yaml"
    served = ("--device-plugin", "kube-system/plugin", "--gpu-operator", "gpu-operator/operator", "--team", "vision")
    imported = engine.gpupools("import", *files, "--out", out, *served, "--json")
    answer = json.loads(imported.succeeded().output.partition("\n\n")[0])
    file = engine.repository / out
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.unlink()
    engine.run("stack", "init", f"moved-{cloud}").succeeded()
    salt = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    file.write_text(yaml.safe_dump(salt | written), encoding="utf-8")
    had = pools_of(engine, pools[0].kind)
    before = len(engine.journal())
    preview = engine.run("preview", "--json", "--stack", f"moved-{cloud}")
    assert engine.journal()[before:] == []
    up = engine.up(f"moved-{cloud}")
    did = engine.journal()[before:]
    has = pools_of(engine, pools[0].kind)
    again = engine.run("preview", "--expect-no-changes", "--stack", f"moved-{cloud}")
    return Moved(pools, imported, answer, preview, up, did, had, has, again)


def test_a_preview_imports_every_pool_and_makes_replaces_and_deletes_nothing(moved: Moved) -> None:
    text = moved.preview.succeeded().output
    steps = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]["steps"]
    ops = [(step["op"], step["urn"]) for step in steps if moved.pools[0].kind in step["urn"]]

    assert {op for op, _ in ops} <= {"import", "update", "same"}
    assert sum(op == "import" for op, _ in ops) == EACH


def test_the_update_changes_in_place_what_the_import_said_and_nothing_else(moved: Moved) -> None:
    moved.up.succeeded()
    said = {pool["name"]: {bare(each["input"]) for each in pool["changes"]} for pool in moved.answer["pools"]}

    assert {each["op"] for each in moved.did if each["type"] == moved.pools[0].kind} <= {"update"}
    beside = Counter(each["type"] for each in moved.did if each["op"] != "update")
    assert {each["op"] for each in moved.did} <= {"create", "update"}
    assert beside == sum((Counter(pool["makes"]) for pool in moved.answer["pools"]), Counter())
    for pool in moved.pools:
        (update,) = [each for each in moved.did if each["name"] == pool.name] or [{"paths": []}]
        paths = {path.replace('["', ".").replace('"]', "").partition("[")[0] for path in update["paths"]}
        unsaid = {
            path
            for path in paths
            if not any(f"{one}.".startswith(f"{path}.") or f"{path}.".startswith(f"{one}.") for one in said[pool.name])
        }
        assert unsaid - {"count"} == set(), pool.name


def test_every_pool_keeps_its_name_and_its_nodes(moved: Moved) -> None:
    counts = {name: running(each) for name, each in moved.had.items()}

    assert {name: running(each) for name, each in moved.has.items()} == counts


def running(outputs: Mapping[str, Any]) -> int | None:
    """Return how many nodes a pool has."""
    scaling = outputs.get("scalingConfig", {}).get("desiredSize")
    count: int | None = outputs.get("nodeCount", outputs.get("count", scaling))
    return count


def bare(path: str) -> str:
    """Return an input's name without that of its resource, which EKS has before it."""
    return path.removeprefix("NodeGroup.")


def test_what_is_not_said_stays_with_its_value(moved: Moved) -> None:
    stays = {
        pool["name"]: {bare(each["input"]) for each in pool["stays"] if not each["input"].startswith("LaunchTemplate.")}
        for pool in moved.answer["pools"]
    }
    for pool in moved.pools:
        for path in stays[pool.name]:
            before, after = moved.had[pool.name], moved.has[pool.name]
            for key in path.split("."):
                before, after = ((each or {}).get(key) for each in (before, after))
            assert before == after, (pool.name, path)


def test_a_second_preview_finds_nothing_to_do(moved: Moved) -> None:
    moved.again.succeeded()
