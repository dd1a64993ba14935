"""What the software of a cluster is refused for one pool and one setting: a row each of the file beside this one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpupools.common.json_types import JsonDict
from tests.gpupools.software.test_teams import POOLS
from tests.gpupools.software.test_teams import refused as refused_teams
from tests.rows import listed

LIKE: Mapping[str, Mapping[str, Any]] = {
    "plugin": {"gpu": "T4", "software": "device-plugin"},
    "operator": {"gpu": "T4", "software": "gpu-operator"},
    "hami": {"gpu": "T4", "software": "hami", "nodes": {"fixed": 2}, "trust": {"team": "vision"}},
    "dra": {"gpu": "T4", "software": "dra-driver", "nodes": {"min": 1, "max": 4}},
    "shared": {"gpu": "T4", "sharing": {"mode": "time-slicing", "replicas": 4}},
}


@listed(__file__)
def test_one_problem_names_its_key_and_says_what_is_wrong(
    cloud: str,
    pool: Mapping[str, Any],
    runtime: Mapping[str, Any],
    key: str,
    found: str | Sequence[str],
    refused: Callable[..., list[str]],
) -> None:
    keys = {name: value for name, value in pool.items() if name != "like"}
    (problem,) = refused(cloud, {"a": {**LIKE.get(pool.get("like", ""), {}), **keys}}, **runtime)

    where, _, what = problem.partition(": ")
    words = [found] if isinstance(found, str) else found
    assert where == f"{'clusters.c' if key.startswith('runtime') else 'pools.a'}.{key}"
    assert [each for each in words if not (each[1:] in what if each[0] == "…" else what.startswith(each))] == []
    assert not any(password in problem for password in ("hunter2", ":pw@"))


@listed(__file__)
def test_teams_are_refused_what_cannot_be_kept(teams: JsonDict, pools: JsonDict, runtime: JsonDict, said: str) -> None:
    (problem,) = refused_teams(teams, pools or POOLS, runtime)

    assert problem.startswith(said)
