"""What a pool is called over its life: renamed more than once, its old names used again, its lists turned around."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.stand_in import AGENT_POOL, NODE_GROUP, NODE_POOL
from tests.engine.test_production import KINDS, POOLS, Stack, stack

__all__ = ["stack"]

pytestmark = pytest.mark.engine

FIRST, SECOND, THIRD = "abc", "def", "ghi"
"""The names that three pools, one on each cloud, have one after another."""


def called(names: str, **keys: str) -> dict[str, Any]:
    """Return the three pools under these names; a key has the names it gives to each of them."""
    return {
        name: POOLS[FIRST[index]] | {key: given[index] for key, given in keys.items()}
        for index, name in enumerate(names)
    }


def test_pools_keep_their_nodes_through_two_renames_and_give_their_old_names_back(
    stack: Callable[[str], Stack],
) -> None:
    kept = sorted(("update", kind) for kind in (AGENT_POOL, NODE_GROUP, NODE_POOL))
    shop = stack("names")
    shop.up(production=True, pools=called(FIRST)).succeeded()
    assert shop.up(production=True, pools=called(SECOND, renamed_from=FIRST)).succeeded() == kept

    forgot = shop.up(production=True, pools=called(THIRD, renamed_from=SECOND)).refused()
    assert [(line.partition(":")[0], line.rpartition("; ")[2]) for line in forgot] == [
        ("lab/i", "set first_name: c beside renamed_from: f"),
        ("serve/h", "set first_name: b beside renamed_from: e"),
    ]
    again = called(THIRD, renamed_from=SECOND, first_name=FIRST)
    assert shop.up(production=True, pools=again).succeeded() == kept
    done = called(THIRD, first_name=FIRST)
    assert shop.up(production=True, pools=done).succeeded() == []

    used_again = done | called(FIRST, first_name="xyz") | called(SECOND)
    made = shop.up(production=True, pools=used_again).succeeded()
    assert made == sorted(2 * [("create", kind) for kind in (AGENT_POOL, NODE_GROUP, NODE_POOL)])


def test_zones_in_another_order_are_the_same_pool(stack: Callable[[str], Stack]) -> None:
    zones = {"b": ["1", "2"], "c": ["europe-west4-a", "europe-west4-b"]}
    pools = {name: POOLS[name] | {"zones": each} for name, each in zones.items()}
    turned = {name: POOLS[name] | {"zones": each[::-1]} for name, each in zones.items()}
    shop = stack("zones")
    shop.up(production=True, pools=pools).succeeded()

    assert shop.up(production=True, pools=turned).succeeded() == []


def test_a_pool_made_with_unsorted_zones_keeps_them(stack: Callable[[str], Stack]) -> None:
    shop = stack("unsorted")
    pools, turned = ({"b": POOLS["b"] | {"zones": zones}} for zones in (["2", "1"], ["1", "2"]))
    settings = shop.engine.repository / "providers" / "gpupools" / "providers" / "azure" / "pool_plan.py"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("tuple(sorted(spec.zones))", "tuple(spec.zones)"), encoding="utf-8")
    assert settings.read_text(encoding="utf-8") != text  # as it was before zones were sorted
    shop.up(production=True, pools=pools).succeeded()
    settings.write_text(text, encoding="utf-8")

    for written in (pools, turned, pools):
        assert shop.up(production=True, pools=written).succeeded() == []
    (refused,) = shop.preview(production=True, pools={"b": POOLS["b"] | {"zones": ["1", "3"]}}).refused()
    assert "availability_zones [2, 1] → [1, 3]" in refused


@pytest.mark.parametrize("cloud", ["aws", "azure-native", "gcp"])
def test_a_renaming_that_failed_half_way_ends_with_the_next_update(stack: Callable[[str], Stack], cloud: str) -> None:
    shop = stack(f"half-{cloud}")
    shop.up(production=True, pools=called(FIRST)).succeeded()
    shop.engine.unreachable(cloud)
    renamed = called(SECOND, renamed_from=FIRST)
    shop.up(production=True, pools=renamed).ran.failed()
    shop.engine.unreachable()

    (kind,) = (each for each in KINDS if each.startswith(f"{cloud}:"))
    did = shop.up(production=True, pools=renamed).succeeded()
    assert ("update", kind) in did
    assert {op for op, _ in did} == {"update"}
    assert shop.up(production=True, pools=renamed).succeeded() == []
