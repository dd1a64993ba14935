"""The quotas that a stack needs with all its nodes, and the limits that it may not exceed."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.plan.quotas import QuotaNeed
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config, quotas_of, unlisted_offers
from tests.rows import listed

CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "aws": {**clouds()["aws"].example_cluster, "region": "us-east-1", "account": "123456789012"},
    "azure": {**clouds()["azure"].example_cluster, "location": "eastus"},
    "gcp": {**clouds()["gcp"].example_cluster, "project": "acme-lab", "location": "us-central1"},
}


def config(cloud: str, *pools: Mapping[str, Any], **more: object) -> dict[str, object]:
    """Return a stack with one cluster and these pools."""
    named = {f"p{index}": {"clusters": ["lab"], "nodes": {"max": 4}, **pool} for index, pool in enumerate(pools)}
    return {"clusters": {"lab": CLUSTERS[cloud]}, "pools": named, **more}


def needs(cloud: str, *pools: Mapping[str, Any]) -> list[QuotaNeed]:
    """Return the quotas of a stack with one cluster and these pools."""
    return quotas_of(plan_config(config(cloud, *pools), clouds()), clouds())


P5 = {"instance_type": "p5.48xlarge"}
P4 = {"instance_type": "p4d.24xlarge"}
SPOT = {"capacity": {"mode": "spot"}}


@listed(__file__)
def test_needs_are_added_up_per_quota(cloud: str, pools: list[Mapping[str, Any]], lines: list[str]) -> None:
    """Families are added up, spot is apart, and an unknown quota has no amount."""
    found = [str(each).replace(", account 00000000-0000-0000-0000-000000000000", "") for each in needs(cloud, *pools)]

    assert found == lines


def test_a_pool_more_lowers_no_sum() -> None:
    """A sum never falls with another pool, and what is unknown is no zero."""
    pools: list[Mapping[str, Any]] = [
        P5,
        P4,
        P4 | SPOT,
        {"instance_type": "p6-b200.48xlarge"} | SPOT,
        {"instance_type": "g6.xlarge"},
    ]
    before: dict[str, int] = {}
    for count in range(1, len(pools) + 1):
        found = {each.code: each for each in needs("aws", *pools[:count])}
        assert all(found[code].amount >= amount for code, amount in before.items())
        assert all(each.is_complete == bool(code) for code, each in found.items())
        before = {code: each.amount for code, each in found.items()}


def test_a_region_that_is_known_later_is_no_region() -> None:
    """Two clusters without a region are not added up."""
    given = config("azure", {"instance_type": "Standard_NC4as_T4_v3"})
    lab = {key: value for key, value in CLUSTERS["azure"].items() if key != "location"}
    given |= {"clusters": {"lab": lab, "other": {**lab, "name": "other"}}}
    given["pools"]["p0"]["clusters"] = ["lab", "other"]  # type: ignore[index]
    found = quotas_of(plan_config(given, clouds()), clouds())

    assert {(each.region, each.amount) for each in found} == {("the region of lab", 16), ("the region of other", 16)}


@pytest.mark.parametrize(
    ("quotas", "problem"),
    [
        ({"L-417A185B": 767}, "quotas.L-417A185B: is 767, but the pools need more: p5.48xlarge × 4: 768 vCPUs of"),
        ({"L-417A185C": 768}, "quotas.L-417A185C: unknown quota 'L-417A185C'; did you mean 'L-417A185B'?"),
        ({"L-417A185B": -1}, "quotas.L-417A185B: got -1; write the limit as a whole number"),
        ({"L-417A185B": True}, "quotas.L-417A185B: got true; write the limit as a whole number"),
        ({"L-417A185B": "7,68"}, "quotas.L-417A185B: got '7,68'; write the limit as a whole number"),
        ([768], "quotas: got a list of 1; write a map of codes and limits"),
    ],
)
def test_a_limit_is_exceeded_or_invalid(quotas: object, problem: str) -> None:
    """A need above a limit, a quota of no cloud, and a value that is no limit are rejected."""
    with pytest.raises(Rejected) as rejected:
        plan_config(config("aws", P5, quotas=quotas), clouds())

    assert len(rejected.value.problems) == 1
    assert str(rejected.value.problems[0]).startswith(problem)


def test_a_limit_that_is_met_is_accepted() -> None:
    """The limit itself is allowed."""
    assert plan_config(config("aws", P5, quotas={"L-417A185B": 768}), clouds()).stack.quotas == {"L-417A185B": 768}


@pytest.mark.parametrize("cloud", sorted(clouds()))
def test_table_is_complete(cloud: str) -> None:
    """Each row has all columns, and each code one unit and name."""
    file = clouds()[cloud].file("quotas.csv")
    assert file is not None
    with Path(file).open(encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))

    assert all(all(row.values()) for row in rows)
    assert all(row["unit"] in ("vCPU", "GPU") and row["source"].startswith("https://") for row in rows)
    assert len({row["code"] for row in rows}) == len({(row["code"], row["name"], row["unit"]) for row in rows})


def test_an_offer_that_no_list_covers_is_unknown() -> None:
    """AKS has no list of offers; Google's has a2, but no g2."""
    aks = plan_config(config("azure", {"instance_type": "Standard_NC4as_T4_v3"}), clouds())
    gke = plan_config(config("gcp", {"instance_type": "a2-highgpu-1g"}, {"instance_type": "g2-standard-4"}), clouds())

    assert unlisted_offers(aks) == ["Standard_NC4as_T4_v3 in eastus"]
    assert unlisted_offers(gke) == ["g2-standard-4 in us-central1"]
    assert unlisted_offers(plan_config(config("aws", P5), clouds())) == []
