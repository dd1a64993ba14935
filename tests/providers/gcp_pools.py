"""What the tests of GKE share: pools on one cluster, planned or declared offline."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from gpupools.common.errors import Problem, Rejected
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.providers.gcp import CLOUD
from gpupools.providers.gcp.declared_inputs import declared_inputs
from gpupools.providers.gcp.pool_plan import GkePoolPlan
from gpupools.providers.gcp.resources import create_pool
from gpupools.spec.models import Cluster
from gpupools.stackfile.stack_validation import parse_cluster, parse_pool
from tests.providers.declaring import run

ADDRESSES: Mapping[str, Any] = {key: value for key, value in CLOUD.example_cluster.items() if key != "cloud"}
ZONES = ["europe-west4-a", "europe-west4-b", "europe-west4-c"]


def gke(**keys: Any) -> Cluster:
    return parse_cluster(("clusters", "lab"), dict(CLOUD.example_cluster) | {"places": "trust"} | keys, {"gcp": CLOUD})


def plan(cluster: Cluster | None = None, **keys: Any) -> PoolPlan:
    machine = {} if "instance_type" in keys or "gpu" in keys else {"gpu": "L4"}
    spec = parse_pool(("pools", "train"), {"nodes": {"max": 6}} | machine | keys)
    return plan_pool("train", spec, "lab", cluster or gke(), CLOUD)


def settings(cluster: Cluster | None = None, **keys: Any) -> GkePoolPlan:
    made = plan(cluster, **keys).provider_plan
    assert isinstance(made, GkePoolPlan)
    return made


def check_pool(cluster: Cluster | None = None, **keys: Any) -> tuple[Problem, ...]:
    with pytest.raises(Rejected) as error:
        plan(cluster, **keys)
    return error.value.problems


def wire(cluster: Cluster | None = None, **keys: Any) -> dict[str, Any]:
    """Return the inputs of a node pool."""
    return declared_inputs(plan(cluster, **keys), ADDRESSES)["NodePool"]


def options(**keys: Any) -> pulumi.ResourceOptions:
    """Declare a pool and return its resource options."""
    made, seen = plan(**keys), []

    def look(args: pulumi.ResourceTransformationArgs) -> None:
        seen.append(args.opts)

    watched = pulumi.ResourceOptions(transformations=[look])
    run(lambda: create_pool("lab-train", made, ADDRESSES, watched))
    (merged,) = seen
    return merged
