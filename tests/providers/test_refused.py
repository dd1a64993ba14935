"""Pools that a cloud rejects, each with every error, its fix and its source.

`refused.yaml` lists clusters, the pools on each (with `NODES` unless they set nodes), the errors that `gpupools check`
prints, and for some pools the keys that fix them. After an intended change, regenerate the file and read the
difference:

    GPUPOOLS_WRITE_GOLDEN=1 python -m pytest tests/providers/test_refused.py
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpupools.common.errors import Rejected
from gpupools.plan.pool_planner import plan_pool
from gpupools.providers import clouds
from gpupools.stackfile.stack_validation import parse_cluster, parse_pool
from tests.compact_yaml import compact_yaml

FILE = Path(__file__).with_name("refused.yaml")
NODES = {"nodes": {"max": 4}}
HEAD = f"# Pools that a cloud rejects, with the errors of each; see {Path(__file__).name}.\n"


def answer(cluster: Mapping[str, Any], pool: Mapping[str, Any]) -> list[str]:
    known = parse_cluster(("clusters", "c"), cluster, clouds())
    try:
        plan_pool("a", parse_pool(("pools", "a"), pool), "c", known, clouds()[known.cloud])
    except Rejected as rejected:
        return [str(problem).removeprefix("pools.a.") for problem in rejected.problems]
    return []


def test_each_is_refused_with_every_reason_its_cure_and_its_source() -> None:
    table = yaml.load(FILE.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    rows = [(table["clusters"][name], row) for name, each in table["pools"].items() for row in each]
    found = [{**row, "refused": answer(cluster, NODES | row["pool"])} for cluster, row in rows]
    if os.environ.get("GPUPOOLS_WRITE_GOLDEN"):
        left = iter(found)
        pools = {name: [next(left) for _ in each] for name, each in table["pools"].items()}
        FILE.write_text(HEAD + compact_yaml({**table, "pools": pools}), encoding="utf-8")

    cured = [answer(cluster, NODES | row["pool"] | row.get("but_not_with", {})) for cluster, row in rows]

    assert [row for row, (_, old) in zip(found, rows, strict=True) if row != old or not row["refused"]] == []
    assert [row for row, after in zip(found, cured, strict=True) if bool(after) is ("but_not_with" in row)] == []
