"""What the tests of GKE share: pools on one cluster, planned or declared offline."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pulumi
import pytest
from pulumi.runtime.stack import run_pulumi_func

from gpupools.asked.spec import Cluster
from gpupools.base.errors import Problem, Rejected
from gpupools.environment.stack import parse_cluster, parse_pool
from gpupools.planned.plan import PoolPlan, plan_pool
from gpupools.providers.gcp import CLOUD
from gpupools.providers.gcp.choices import GkeChoices
from gpupools.providers.gcp.resources import create_pool

ADDRESSES: Mapping[str, Any] = {key: value for key, value in CLOUD.example_cluster.items() if key != "cloud"}
ZONES = ["europe-west4-a", "europe-west4-b", "europe-west4-c"]


def gke(**keys: Any) -> Cluster:
    return parse_cluster(("clusters", "lab"), dict(CLOUD.example_cluster) | keys, {"gcp": CLOUD})


def plan(cluster: Cluster | None = None, **keys: Any) -> PoolPlan:
    machine = {} if "instance_type" in keys or "gpu" in keys else {"gpu": "L4"}
    spec = parse_pool(("pools", "train"), {"nodes": {"max": 6}} | machine | keys)
    return plan_pool("train", spec, "lab", cluster or gke(), CLOUD)


def settings(cluster: Cluster | None = None, **keys: Any) -> GkeChoices:
    made = plan(cluster, **keys).choices
    assert isinstance(made, GkeChoices)
    return made


def refusals(cluster: Cluster | None = None, **keys: Any) -> tuple[Problem, ...]:
    with pytest.raises(Rejected) as error:
        plan(cluster, **keys)
    return error.value.problems


class Recorder(pulumi.runtime.Mocks):
    """Answers with the inputs and refuses look-ups."""

    def __init__(self) -> None:
        self.made: list[pulumi.runtime.MockResourceArgs] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.made.append(args)
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            return {"outputs": {}}, None
        raise AssertionError(f"a test asked the cloud for {args.token}")


def run(program: Callable[[], object]) -> list[pulumi.runtime.MockResourceArgs]:
    recorder = Recorder()

    async def main() -> None:
        def declare() -> None:
            program()

        pulumi.runtime.set_mocks(recorder)
        await run_pulumi_func(declare)

    asyncio.run(main())
    return [each for each in recorder.made if each.typ != "pulumi:pulumi:Stack"]


def wire(cluster: Cluster | None = None, **keys: Any) -> dict[str, Any]:
    """Declare a pool and return the inputs that go over the wire."""
    made = plan(cluster, **keys)
    (pool,) = run(lambda: create_pool("lab-train", made, ADDRESSES, pulumi.ResourceOptions()))
    return dict(pool.inputs)


def options(**keys: Any) -> pulumi.ResourceOptions:
    """Declare a pool and return its resource options."""
    made, seen = plan(**keys), []

    def look(args: pulumi.ResourceTransformationArgs) -> None:
        seen.append(args.opts)

    watched = pulumi.ResourceOptions(transformations=[look])
    run(lambda: create_pool("lab-train", made, ADDRESSES, watched))
    (merged,) = seen
    return merged
