"""What the tests of the settings on EKS share: pools on one cluster, planned, refused, or declared strictly."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi
import pulumi.runtime
import pytest
from pulumi.runtime.stack import run_pulumi_func

from gpupools.common.errors import Rejected
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.preview.monitor import DeclaredResource, StrictMonitor
from gpupools.providers.aws import CLOUD
from gpupools.providers.aws.declared_inputs import declared_inputs
from gpupools.providers.aws.pool_plan import EksPoolPlan
from gpupools.providers.aws.resources import create_pool
from gpupools.spec.models import Cluster
from gpupools.stackfile.stack_validation import parse_cluster, parse_pool

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
PLACEMENT_GROUP = "aws:ec2/placementGroup:PlacementGroup"
TAG = "aws:autoscaling/tag:Tag"
AUTOSCALER = "k8s.io/cluster-autoscaler/node-template"

ZONES: Mapping[str, Any] = {
    "eu-central-1a": ["subnet-00000001"],
    "eu-central-1b": ["subnet-00000002", "subnet-00000003"],
}
BY_ZONE: Mapping[str, Any] = {
    "name": "train-dev",
    "region": "eu-central-1",
    "places": "trust",
    "subnets_by_zone": ZONES,
    "node_role_arn": "arn:aws:iam::111122223333:role/nodes",
}
BY_SUBNET: Mapping[str, Any] = {
    **{key: value for key, value in BY_ZONE.items() if key != "subnets_by_zone"},
    "subnet_ids": ["subnet-00000001", "subnet-00000002"],
}
GROUP = "sg-0a1b2c3d4e5f60718"
EFA: Mapping[str, Any] = {"rdma": True, "security_group_ids": [GROUP]}


def eks(address: Mapping[str, Any] = BY_ZONE) -> Cluster:
    return parse_cluster(("clusters", "train"), {"cloud": "aws", **address}, {"aws": CLOUD})


def plan(address: Mapping[str, Any] = BY_ZONE, name: str = "a", **request: Any) -> PoolPlan:
    machine = {} if "instance_type" in request else {"gpu": "L4"}
    pool = parse_pool(("pools", name), {"nodes": {"max": 4}, **machine, **request})
    return plan_pool(name, pool, "train", eks(address), CLOUD)


def settings(address: Mapping[str, Any] = BY_ZONE, **request: Any) -> EksPoolPlan:
    found = plan(address, **request).provider_plan
    assert isinstance(found, EksPoolPlan)
    return found


def refused(address: Mapping[str, Any] = BY_ZONE, **request: Any) -> list[str]:
    with pytest.raises(Rejected) as error:
        plan(address, **request)
    return [str(replace(problem, source="")) for problem in error.value.problems]


def strictly(**request: Any) -> list[DeclaredResource]:
    """Declare a pool under the strict monitor, which must find nothing wrong with it."""
    monitor = StrictMonitor()

    def program() -> None:
        create_pool("train-a", plan(**request), BY_ZONE, pulumi.ResourceOptions())

    async def main() -> None:
        pulumi.runtime.set_mocks(monitor.mocks, preview=True, monitor=monitor)
        await run_pulumi_func(program)

    asyncio.run(main())
    assert [str(problem) for problem in monitor.problems] == []
    return list(monitor.declared.values())


class Pool:
    """What is declared for one pool."""

    def __init__(self, made: PoolPlan, address: Mapping[str, Any], name: str = "train-a") -> None:
        inputs = declared_inputs(made, address, name)
        self.group, self.template = inputs["NodeGroup"], inputs["LaunchTemplate"]
        self.placement = inputs.get("PlacementGroup")
        # without the common beginning of tags for the autoscaler
        self.tags = {key.removeprefix(f"{AUTOSCALER}/"): value for key, value in inputs["Tag"].items()}

    @property
    def user_data(self) -> str:
        return base64.b64decode(self.template["userData"]).decode()


def declared(address: Mapping[str, Any] = BY_ZONE, **request: Any) -> Pool:
    return Pool(plan(address, **request), address)
