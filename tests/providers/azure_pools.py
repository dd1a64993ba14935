"""What the tests of AKS share: pools on one cluster, planned or declared offline."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from gpupools.common.errors import Rejected
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.providers.azure import CLOUD
from gpupools.providers.azure.declared_inputs import declared_inputs
from gpupools.providers.azure.pool_plan import AksPoolPlan
from gpupools.providers.azure.resources import create_pool
from gpupools.spec.models import Cluster
from gpupools.stackfile.stack_validation import parse_cluster, parse_pool
from tests.providers.declaring import run

SUBNET = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/ml/providers/"
    "Microsoft.Network/virtualNetworks/ml/subnets/gpu"
)
GROUP = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/ml/providers/"
    "Microsoft.Compute/proximityPlacementGroups/fabric"
)
TOKEN = "azure-native:containerservice:AgentPool"
ADDRESSES: Mapping[str, pulumi.Input[Any]] = {"name": "serve-dev", "resource_group": "ml-dev"}


def aks(**keys: Any) -> Cluster:
    raw = {"cloud": "azure", "name": "serve-dev", "resource_group": "ml-dev"} | keys
    return parse_cluster(("clusters", "serve"), raw, {"azure": CLOUD})


def plan(cluster: Cluster | None = None, name: str = "train", **keys: Any) -> PoolPlan:
    spec = parse_pool(("pools", name), {"nodes": {"max": 4}} | keys)
    return plan_pool(name, spec, "serve", cluster or aks(), CLOUD)


def settings(made: PoolPlan) -> AksPoolPlan:
    assert isinstance(made.provider_plan, AksPoolPlan)
    return made.provider_plan


def refused(cluster: Cluster | None = None, **keys: Any) -> str:
    with pytest.raises(Rejected) as error:
        plan(cluster, **keys)
    return str(error.value)


def wire(made: PoolPlan, addresses: Mapping[str, pulumi.Input[Any]] = ADDRESSES) -> dict[str, Any]:
    """Return the inputs of a pool."""
    return declared_inputs(made, addresses)["AgentPool"]


def options(made: PoolPlan) -> pulumi.ResourceOptions:
    """Declare a pool and return its resource options."""
    seen: list[pulumi.ResourceOptions] = []

    def look(args: pulumi.ResourceTransformationArgs) -> None:
        seen.append(args.opts)

    watched = pulumi.ResourceOptions(transformations=[look])
    run(lambda: create_pool("serve-train", made, ADDRESSES, watched))
    (merged,) = seen
    return merged
