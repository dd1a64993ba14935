"""Properties of the sums of prices and quotas: they only grow, and what is unknown never counts as nothing."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupools.plan.prices import PoolPrice, Price, total
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config, prices_of, quotas_of

KEYS = {"aws": "region", "azure": "location", "gcp": "location"}
PLACES = {"aws": "us-east-1", "azure": "eastus", "gcp": "us-central1"}
TYPES = {
    "aws": ["p5.48xlarge", "g6.xlarge", "g4dn.xlarge", "g5.48xlarge"],
    "azure": ["Standard_NC24ads_A100_v4", "Standard_NC4as_T4_v3"],
    "gcp": ["a2-highgpu-1g", "g2-standard-4", "n1-standard-4+nvidia-tesla-t4:1"],
}
POOLS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 40), st.sampled_from(["on-demand", "spot"])), min_size=1, max_size=6
)
PRICES = st.lists(
    st.tuples(st.one_of(st.none(), st.decimals("0.01", "100", places=4)), st.integers(0, 5), st.integers(1, 50)),
    max_size=8,
)


def priced(amounts: list[tuple[Decimal | None, int, int]]) -> list[PoolPrice]:
    return [
        PoolPrice(
            f"c/p{number}",
            "on-demand",
            low,
            low + more,
            None if amount is None else Price(amount, "2026-11-01", ""),
            Decimal(1),
            "",
            1,
        )
        for number, (amount, low, more) in enumerate(amounts)
    ]


@given(PRICES, PRICES)
def test_a_pool_never_lowers_a_sum_and_an_unknown_price_is_never_zero(
    some: list[tuple[Decimal | None, int, int]], more: list[tuple[Decimal | None, int, int]]
) -> None:
    before, after = total(priced(some)), total(priced(some + more))
    unknown = sum(amount is None for amount, _, _ in some + more)

    assert after.known >= before.known
    assert after.unpriced == unknown
    assert str(after).startswith("≥ ") == (0 < unknown < after.pools)
    assert (str(after) == "unknown") == (0 < unknown == after.pools)


def needs(cloud: str, pools: list[tuple[int, int, str]]) -> Mapping[tuple[str, str], Any]:
    types = TYPES[cloud]
    made = {
        f"p{number}": {
            "clusters": ["c"],
            "instance_type": types[index % len(types)],
            "nodes": {"max": most},
            "capacity": {"mode": mode},
            "software": "device-plugin" if cloud == "azure" else "cloud-managed",
        }
        for number, (index, most, mode) in enumerate(pools)
    }
    cluster = {**clouds()[cloud].example_cluster, KEYS[cloud]: PLACES[cloud], "kubeconfig": {"path": "~/.kube/x"}}
    plan = plan_config({"clusters": {"c": cluster}, "pools": made}, clouds())
    assert len(prices_of(plan, clouds())) == len(pools)
    return {(each.code, each.region): each for each in quotas_of(plan, clouds())}


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(TYPES)), POOLS)
def test_a_pool_never_lowers_the_need_of_a_quota(cloud: str, pools: list[tuple[int, int, str]]) -> None:
    after, before = needs(cloud, pools), needs(cloud, pools[:-1]) if pools[1:] else {}

    assert before.keys() <= after.keys()
    assert all(after[key].amount >= each.amount for key, each in before.items())
    assert any(pools[-1][1] in [pool.nodes for pool in each.pools] for each in after.values())
