"""What resources and manifests of others amount to: no pool, or per pool one of four words.

`cpu` has no GPUs, `kept` has them and keeps pods without GPUs off, `open` does not, and `undecided` may or may not.
`amounts.yaml` has the rows; `<unknown>` stands for a value that is not known yet.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpupools.common.taints import repels_cpu_pods
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.providers import clouds
from gpupools.readback.kubernetes_pools import each_kubernetes_pool
from tests.compact_yaml import compact_yaml

FILE = Path(__file__).with_name("amounts.yaml")
HEAD = f"# What is read of resources (by type) and manifests; see {Path(__file__).name}.\n"


def known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: known(item) for key, item in value.items()}
    return [known(item) for item in value] if isinstance(value, list) else UNKNOWN if value == "<unknown>" else value


def read(row: Mapping[str, Any]) -> tuple[PoolFacts, ...]:
    inputs = known(row["of"])
    if "type" not in row:
        return tuple(each_kubernetes_pool("kubernetes:v1:Object", inputs, clouds()))
    return clouds()["aws"].readback().read_pools(row["type"], inputs)


def amounts(pool: PoolFacts) -> str:
    if pool.gpus_per_node == 0:
        return "cpu"
    if repels_cpu_pods(pool.taints):
        return "kept"
    late = any(name.startswith(pool.where) or pool.where.startswith(name) for name in pool.unknown)
    return "open" if pool.evidence and pool.in_cluster and not pool.unresolved_taints and not late else "undecided"


def test_a_resource_amounts_to() -> None:
    table = yaml.load(FILE.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    found = [{**row, "is": ", ".join(map(amounts, read(row))) or "none"} for row in table]
    if os.environ.get("GPUPOOLS_WRITE_GOLDEN"):
        FILE.write_text(HEAD + compact_yaml(found), encoding="utf-8")

    assert [new for new, old in zip(found, table, strict=True) if new != old] == []
