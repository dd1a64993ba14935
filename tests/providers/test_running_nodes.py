"""What keeps an update from moving nodes that an autoscaler owns, when the cloud is asked and when it does not answer.

`tests/engine/test_nodes.py` has the same with Pulumi's engine.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
from pulumi.runtime.stack import run_pulumi_func, wait_for_rpcs

from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers.aws import resources as eks
from gpupools.providers.azure import resources as aks
from tests.providers import aws_pools, azure_pools

GROUP, GET_GROUP = "aws:eks/nodeGroup:NodeGroup", "aws:eks/getNodeGroup:getNodeGroup"
POOL, GET_POOL = azure_pools.TOKEN, "azure-native:containerservice:getAgentPool"
URN = "urn:pulumi:dev::gpupools::gpupools:index:GpuNodePool${}::{}"


class Cloud(pulumi.runtime.Mocks):
    """A cloud in which some nodes run, or one that does not say how many; and what the last update left."""

    def __init__(self, state: Mapping[str, Any], answer: Mapping[str, Any] | str | None = None) -> None:
        self.state = state
        self.answer = answer
        self.asked: list[Mapping[str, Any]] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            return {"outputs": dict(self.state)}, []
        assert args.token in (GET_GROUP, GET_POOL)
        self.asked.append(args.args)
        if self.answer is None or isinstance(self.answer, str):
            return {}, [("", self.answer or "asked for nothing")]
        return dict(self.answer), []


def at(cloud: Cloud, program: Any) -> None:
    """Run a piece of program, or await one."""

    async def main() -> None:
        pulumi.runtime.set_mocks(cloud)
        if not callable(program):
            try:
                await program
            finally:
                await wait_for_rpcs()
        else:
            await run_pulumi_func(lambda: program() and None)

    asyncio.run(main())


def group(made: PoolPlan, opts: pulumi.ResourceOptions) -> object:
    address = {**aws_pools.BY_SUBNET, "name": "train-dev"}
    return eks.create_pool("train-a", made, address, opts)


def pool(made: PoolPlan, opts: pulumi.ResourceOptions) -> object:
    return aks.create_pool("serve-train", made, azure_pools.ADDRESSES, opts)


def before_update(cloud: Cloud, token: str, create: Any, made: PoolPlan) -> Any:
    """Return what is asked before the pool is updated; None where nothing is."""
    seen: list[pulumi.ResourceOptions] = []

    def look(args: pulumi.ResourceTransformationArgs) -> None:
        if args.type_ == token:
            seen.append(args.opts)

    at(cloud, lambda: create(made, pulumi.ResourceOptions(transformations=[look])))
    (options,) = seen
    hooks = options.hooks and options.hooks.before_update
    return hooks[0] if hooks else None


def ends(least: int, most: int, desired: int) -> dict[str, Any]:
    scaling = {"minSize": least, "maxSize": most, "desiredSize": desired}
    return {"clusterName": "train-dev", "nodeGroupName": "made-up", "region": "eu-central-1", "scalingConfig": scaling}


EKS_NODES = {"min": 1, "max": 4}
EKS_LEFT = {URN.format(GROUP, "train-a-nodes"): {"type": GROUP, "outputs": ends(1, 4, 1)}}


def fire(hook: Any, new: Mapping[str, Any], old: Mapping[str, Any], cloud: Cloud) -> str:
    """Return why an update is refused; nothing where it is not."""
    args = pulumi.ResourceHookArgs("urn", "id", "name", "type", new_inputs=dict(new), old_outputs=dict(old))
    try:
        at(cloud, hook.callback(args))
    except pulumi.RunError as error:
        return str(error)
    return ""


SAYS = "{}: has {} nodes, but this update would set {} from Pulumi's outdated state; run pulumi up --refresh"


@pytest.mark.parametrize(
    ("new", "old", "running", "refused"),
    [
        pytest.param(ends(1, 4, 1), ends(1, 4, 2), None, "", id="the ends stay, so no number is sent"),
        pytest.param(ends(1, 6, 1), ends(1, 4, 2), 2, "", id="what is sent runs"),
        pytest.param(ends(1, 6, 1), ends(1, 4, 2), 3, SAYS.format("train-a-nodes", 3, 2), id="another maximum"),
        pytest.param(ends(0, 4, 1), ends(1, 4, 2), 3, SAYS.format("train-a-nodes", 3, 2), id="another minimum"),
        pytest.param(ends(0, 9, 1), ends(1, 9, 2), 9, SAYS.format("train-a-nodes", 4, 2), id="above its most"),
        pytest.param(ends(0, 9, 1), ends(1, 9, 2), 0, SAYS.format("train-a-nodes", 1, 2), id="below its least"),
    ],
)
def test_no_update_of_a_node_group_sends_another_number_than_runs(
    new: dict[str, Any], old: dict[str, Any], running: int | None, refused: str
) -> None:
    hook = before_update(Cloud(EKS_LEFT), GROUP, group, aws_pools.plan(nodes=EKS_NODES))
    cloud = Cloud(EKS_LEFT, None if running is None else {"scalingConfigs": [{"desiredSize": running}]})

    assert fire(hook, new, old, cloud) == refused
    where = {"clusterName": "train-dev", "nodeGroupName": "made-up", "region": "eu-central-1"}
    assert cloud.asked == ([] if running is None else [where])


@pytest.mark.parametrize(("running", "refused"), [(2, ""), (3, SAYS.format("serve-train-pool", 3, 2))])
def test_no_update_of_an_agent_pool_sends_another_number_than_runs(running: int, refused: str) -> None:
    there = {URN.format(POOL, "other-pool"): {"type": POOL, "outputs": {}}}
    hook = before_update(Cloud(there), POOL, pool, azure_pools.plan(gpu="T4"))
    new = {"agentPoolName": "gpu", "resourceGroupName": "ml-dev", "resourceName": "serve-dev", "count": 2}
    cloud = Cloud({}, {"count": running})

    assert fire(hook, new, {}, cloud) == refused
    assert cloud.asked == [{"agentPoolName": "gpu", "resourceGroupName": "ml-dev", "resourceName": "serve-dev"}]


def widened(cloud: Cloud, name: str = "a", **request: Any) -> None:
    """Declare a node group that may have more nodes than the last update left it."""
    made = aws_pools.plan(name=name, nodes={"min": 1, "max": 9}, **request)
    address = {**aws_pools.BY_SUBNET, "name": "train-dev"}
    at(cloud, lambda: eks.create_pool(f"train-{name}", made, address, pulumi.ResourceOptions()))


def test_a_cloud_that_does_not_answer_ends_the_program_with_the_cure() -> None:
    with pytest.raises(pulumi.RunError) as error:
        widened(Cloud(EKS_LEFT, "Forbidden"))

    place = "train-dev, made-up, eu-central-1"
    said = str(error.value)
    assert {*said.partition(": ")[0].split(", ")} == {*place.split(", ")}
    assert said.partition(": ")[2] == (
        "cannot read the number of nodes, aws:eks/getNodeGroup:getNodeGroup failed: Forbidden;"
        " grant read access to the pool, or run pulumi refresh if it was deleted"
    )


@pytest.mark.parametrize(
    ("left", "asked"),
    [
        pytest.param({"train-elder-nodes": "old", "train-now-nodes": "new"}, ["new"], id="its own name first"),
        pytest.param({"train-elder-nodes": "old", "train-other-nodes": "other"}, ["old"], id="its former name"),
        pytest.param({"train-other-nodes": "other"}, [], id="neither"),
    ],
)
def test_a_renamed_pool_is_found_in_the_state_under_either_name(left: dict[str, str], asked: list[str]) -> None:
    state = {
        URN.format(GROUP, name): {"type": GROUP, "outputs": {**ends(1, 4, 1), "nodeGroupName": called}}
        for name, called in left.items()
    }
    cloud = Cloud(state, {"scalingConfigs": [{"desiredSize": 2}]})

    widened(cloud, "now", first_name="elder")

    assert [each["nodeGroupName"] for each in cloud.asked] == asked


def test_a_name_that_two_parents_have_is_asked_for_before_the_update_instead() -> None:
    one = {"type": GROUP, "outputs": ends(1, 4, 1)}
    twice = {f"urn:{parent}::gpupools:index:GpuNodePool${GROUP}::train-a-nodes": one for parent in ("x", "y")}
    cloud = Cloud(twice, {"scalingConfigs": [{"desiredSize": 2}]})

    widened(cloud)

    assert cloud.asked == []
