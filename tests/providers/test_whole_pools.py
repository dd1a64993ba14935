"""What is read of resources: every fact of pools that say much (`whole_pools.yaml`), some of others (`read_back.yaml`).

Where other facts are meant, GPUPOOLS_WRITE_GOLDEN=1 writes the second file anew; read the difference.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from gpupools.plan.pool_facts import UNKNOWN, NodeCustomization, PoolFacts, Weakness
from gpupools.providers import clouds
from gpupools.readback.kubernetes_pools import each_kubernetes_pool, read_template
from tests.compact_yaml import compact_yaml
from tests.rows import each_row

POOLS = Path(__file__).with_name("whole_pools.yaml")
ASKED = Path(__file__).with_name("read_back.yaml")


def loaded(file: Path) -> Sequence[Mapping[str, Any]]:
    return tuple(yaml.load(file.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def wire(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: wire(item) for key, item in value.items()}
    return [wire(item) for item in value] if isinstance(value, list) else UNKNOWN if value == "<unknown>" else value


def told(type_token: str, properties: Any) -> list[dict[str, Any]]:
    """Read pools, or else what pools refer to, and write down what differs from the defaults."""
    known = clouds()
    pools = [pool for cloud in known.values() for pool in cloud.readback().read_pools(type_token, properties)]
    pools += each_kubernetes_pool(type_token, properties, known)
    templates = [cloud.readback().read_template(type_token, properties) for cloud in known.values()]
    templates.append(read_template(type_token, properties, known))
    return [_told(pool) for pool in pools or filter(None, templates)]


DEFAULT = PoolFacts(cloud="", instance_types=(), gpus_per_node=Fraction(0), taints=())
OF_A_CLOUD = ("cloud_taint",)
"""The same for all pools of a cloud."""


def _told(pool: PoolFacts) -> dict[str, Any]:
    weaknesses = {"weaknesses": False, "advised": False, "unverified": True}
    found = {
        each.name: _plain(getattr(pool, each.name))
        for each in fields(pool)
        if each.name not in (*weaknesses, *OF_A_CLOUD) and getattr(pool, each.name) != getattr(DEFAULT, each.name)
    }
    for word, late in weaknesses.items():
        listed = [_weakness(one) for one in pool.weaknesses if one.unverified is late and _fits(one, word)]
        found |= {word: listed} if listed else {}
    return found


def _fits(one: Weakness, word: str) -> bool:
    return one.unverified or one.mandatory is (word == "weaknesses")


def _weakness(one: Weakness) -> str:
    late = "" if not one.unverified or one.mandatory else " (advised)"
    return f"{one.name}: {one.property}" + (late if one.unverified else f": {one.found}")


def _plain(value: Any) -> Any:
    """Write a fact with the types of YAML."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, NodeCustomization):
        return f"{value.kind}: {value.property}" + (" (unknown)" if value.unverified else "")
    if type(value).__name__ in ("MissingTaint", "SoftwareHints", "SharingFacts", "Reference"):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value) if getattr(value, each.name)}
    return str(value)


@each_row("case", loaded(POOLS), ids=lambda case: case["id"])
def test_every_fact_of_a_pool_is_read(case: Mapping[str, Any]) -> None:
    assert told(case["type"], wire(case["inputs"])) == case["expected"]


def test_facts_that_are_asked_of_a_resource_are_read() -> None:
    table = loaded(ASKED)
    found = []
    for row in table:
        asked = dict.fromkeys(key for pool in row["pools"] for key in pool)
        pools = [{key: pool.get(key, "-") for key in asked} for pool in told(row["type"], wire(row["of"]))]
        found.append({**row, "pools": pools})
    if os.environ.get("GPUPOOLS_WRITE_GOLDEN"):
        head = "# Facts asked of what is read of resources, `-` for the default; see test_whole_pools.py.\n"
        ASKED.write_text(head + compact_yaml(found), encoding="utf-8")

    assert [new for new, old in zip(found, table, strict=True) if new != old] == []
