"""Pools that cannot be: `gpupools check` refuses them all at once, each with both fields named."""

from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.common.errors import Problem, Rejected
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config

Keys = Mapping[str, Any]

EXISTING = {"device_plugin": {"name": "gpu-resources/plugin", "node_selector": {"gpupools/software": "device-plugin"}}}
WITH_RDMA = {**EXISTING, "rdma_plugin": {"name": "kube-system/rdma"}}
CLUSTERS: Mapping[str, Keys] = {
    "aws": {
        "cloud": "aws",
        "name": "train",
        "region": "us-east-1",
        "subnets_by_zone": {"us-east-1a": ["subnet-0000000a"], "us-east-1b": ["subnet-0000000b"]},
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
        "runtime": {"management": "external", "existing": WITH_RDMA},
    },
    "azure": {
        "cloud": "azure",
        "name": "serve",
        "resource_group": "ml",
        "proximity_placement_group_id": (
            "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/ml/providers/"
            "Microsoft.Compute/proximityPlacementGroups/fabric"
        ),
        "runtime": {"management": "external", "existing": WITH_RDMA},
    },
    "gcp": {
        "cloud": "gcp",
        "name": "lab",
        "project": "ml-lab",
        "location": "europe-west4",
        "service_account": "gpu@ml.iam.gserviceaccount.com",
        "runtime": {"management": "external", "existing": EXISTING},
    },
    # A cluster whose software this tool installs, so that the driver is built on its nodes.
    "managed": {"cloud": "azure", "name": "serve2", "resource_group": "ml", "kubeconfig": {"path": "~/.kube/serve"}},
}
MACHINES = {
    "aws": "g6e.12xlarge",
    "azure": "Standard_NC24ads_A100_v4",
    "gcp": "g2-standard-8",
    "managed": "Standard_NC24ads_A100_v4",
}


def template(**inputs: Any) -> Keys:
    return {"overrides": {"aws": {"LaunchTemplate": inputs}}}


def node_pool(**inputs: Any) -> Keys:
    return {"overrides": {"gcp": {"NodePool": inputs}}}


AWS, AZURE, GCP = ("overrides.aws.LaunchTemplate", "overrides.azure.AgentPool", "overrides.gcp.NodePool")
SPOT = {"mode": "spot"}
BLOCK = "cr-0123456789abcdef0"
TWO = {"aws": ["us-east-1a", "us-east-1b"], "azure": ["1", "2"], "gcp": ["europe-west4-a", "europe-west4-b"]}
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
