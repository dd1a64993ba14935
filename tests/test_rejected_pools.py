"""Pools that cannot be: `gpupools check` refuses them all at once, each with both fields named."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.common.errors import Problem, Rejected
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config
from tests.test_settings import CLUSTERS, MACHINES

Keys = Mapping[str, Any]

LONG = "a" * 21


def stack(pools: Mapping[str, Keys]) -> dict[str, Any]:
    named = {key for pool in pools.values() for key in pool["clusters"]}
    return {"clusters": {key: dict(CLUSTERS[key]) for key in CLUSTERS if key in named}, "pools": dict(pools)}


def refused(pools: Mapping[str, Keys]) -> tuple[Problem, ...]:
    with pytest.raises(Rejected) as caught:
        plan_config(stack(pools), clouds())
    return caught.value.problems


@pytest.mark.parametrize("section", ["clusters", "pools"])
def test_a_key_too_long_for_the_names_made_of_it_is_refused(section: str) -> None:
    good = {"clusters": ["aws"], "instance_type": MACHINES["aws"], "nodes": {"max": 1}}
    config = stack({"a": good})
    config[section][LONG] = {"clusters": CLUSTERS["aws"], "pools": good}[section]
    with pytest.raises(Rejected) as caught:
        plan_config(config, clouds())

    assert [problem.key for problem in caught.value.problems] == [f"{section}.{LONG}"]
    assert "1 to 20" in caught.value.problems[0].fix


@pytest.mark.parametrize(
    "keys",
    [{"capacity": {"mode": "cheap"}}, {"instance_type": "big"}, {"sharing": {"mode": "some"}}],
    ids=["unknown-mode", "unknown-machine", "unknown-sharing"],
)
def test_nothing_is_guessed_of_a_pool_that_means_something_else_without_its_mistake(keys: Keys) -> None:
    pool = {"clusters": ["gcp"], "instance_type": "a3-ultragpu-8g", "nodes": {"max": 4}, **keys}
    other = {**pool, "capacity": {"mode": "spot"}} if "sharing" in keys else pool

    assert [problem.path[2] for problem in refused({"a": other})] == list(keys)
