"""Regions that do not exist, and instance types that a region does not offer, as far as dated lists say."""

from typing import Any

import pytest

from gpupools.catalog.places import Places, read_places
from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config
from gpupools.stackfile.stack_validation import parse_cluster

LISTS = {name: read_places(cloud.cluster.places_file) for name, cloud in clouds().items() if cloud.cluster.places_file}
KEY = {"aws": "region", "azure": "location", "gcp": "location"}


def stack(cloud: str, pool: dict[str, Any], **keys: Any) -> dict[str, Any]:
    cluster = {**clouds()[cloud].example_cluster, **keys}
    return {"clusters": {"c": cluster}, "pools": {"a": {"clusters": ["c"], "nodes": {"max": 1}, **pool}}}


def problems(config: dict[str, Any]) -> list[str]:
    try:
        plan_config(config, clouds())
    except Rejected as rejected:
        return [str(each) for each in rejected.problems]
    return []


@pytest.mark.parametrize(
    ("cloud", "given", "fix"),
    [
        ("aws", "us-esat-1", "'us-east-1'"),
        ("aws", "us-east-1a", "write the region us-east-1, not a zone of it"),
        ("aws", "US-EAST-1", "write us-east-1"),
        ("aws", "mars-north-9", "is not a region; did you mean"),
        ("azure", "westeuorpe", "is not a region; did you mean 'westeurope'"),
        ("azure", "WestEurope", "write westeurope"),
        ("gcp", "europe-wset4", "did you mean 'europe-west4'"),
        ("gcp", "us-central9", "is not a region; did you mean 'us-central1'"),
    ],
)
def test_a_region_that_does_not_exist_is_refused_with_the_nearest(cloud: str, given: str, fix: str) -> None:
    with pytest.raises(Rejected) as rejected:
        parse_cluster(("clusters", "c"), {**clouds()[cloud].example_cluster, KEY[cloud]: given}, clouds())

    (problem,) = rejected.value.problems
    assert problem.path == ("clusters", "c", KEY[cloud])
    assert fix in f"{problem.what}; {problem.fix}"


@pytest.mark.parametrize("cloud", KEY)
def test_every_region_of_the_list_is_a_region(cloud: str) -> None:
    for region in LISTS[cloud].regions:
        role = {"stack": "acme/net/prod", "node_role_arn": {"output": "role"}} if cloud == "aws" else {}
        parse_cluster(("clusters", "c"), {**clouds()[cloud].example_cluster, **role, KEY[cloud]: region}, clouds())


@pytest.mark.parametrize(
    ("keys", "pool", "problem"),
    [
        (
            {"location": "us-central1-d"},
            {},
            "'us-central1-d' does not exist; use us-central1-a, us-central1-b, us-central1-c",
        ),
        ({"node_locations": ["europe-west4-d"]}, {}, "'europe-west4-d' does not exist; use europe-west4-a"),
        ({}, {"zones": ["europe-west4-f"]}, "europe-west4-f does not exist; use europe-west4-a"),
    ],
)
def test_a_zone_that_does_not_exist_is_refused(keys: dict[str, Any], pool: dict[str, Any], problem: str) -> None:
    (found,) = problems(stack("gcp", {"gpu": "L4", **pool}, **keys))

    assert problem in found
    assert problems(stack("gcp", {"gpu": "L4", **pool}, places="trust", **keys)) == []


def test_a_zone_of_aws_is_a_letter_up_to_f() -> None:
    def zone(name: str) -> list[str]:
        keys = {"subnet_ids": None, "subnets_by_zone": {name: ["subnet-0a1b2c3d"]}}
        return problems(stack("aws", {"instance_type": "g6.xlarge"}, region="us-east-1", **keys))

    assert zone("us-east-1f") == zone("us-east-1-dfw-2a") == []
    assert "'us-east-1z' is not a zone of us-east-1" in zone("us-east-1z")[0]


def test_a_type_that_a_covered_region_lacks_is_refused_unless_the_file_is_trusted() -> None:
    pool = {"instance_type": "p4d.24xlarge"}
    (problem,) = problems(stack("aws", pool, region="eu-south-2"))

    assert problem.startswith(
        "pools.a.instance_type: p4d.24xlarge is not offered in eu-south-2, according to a list of"
    )
    assert "a cluster in eu-central-1" in problem
    assert problems(stack("aws", pool, region="eu-south-2", places="trust")) == []
    assert problems(stack("aws", pool, region="mars-north-9", places="trust")) == []


def test_a_type_is_looked_up_in_the_zones_of_the_pool() -> None:
    pool = {"instance_type": "a2-ultragpu-1g", "zones": ["europe-west4-b"]}
    (problem,) = problems(stack("gcp", pool))

    assert "a2-ultragpu-1g is not offered in europe-west4-b" in problem
    assert problems(stack("gcp", {**pool, "zones": ["europe-west4-a"]})) == []


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_nothing_that_a_list_offers_is_refused(cloud: str) -> None:
    places = LISTS[cloud]
    for name, there in places.offers.items():
        for each in there:
            region = each if each in places.regions else each.rpartition("-")[0]
            assert places.offered(name, region, [] if each == region else [each]) is True, (name, each)


def test_what_no_list_covers_is_unknown_and_never_not_offered() -> None:
    aws, gcp = LISTS["aws"], LISTS["gcp"]

    assert "p6e-gb200.36xlarge" not in aws.offers
    assert aws.offered("p6e-gb200.36xlarge", "us-east-1") is None
    assert aws.offered("p5.48xlarge", "cn-north-1") is None
    assert gcp.offered("g2-standard-4", "africa-south1") is None
    assert LISTS["azure"].offers == {}
    assert Places().offered("p5.48xlarge", "us-east-1") is None
