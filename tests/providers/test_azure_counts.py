"""How many nodes an update of an AKS pool asks for: what runs, where an autoscaler may have moved the number."""

import asyncio
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.provider_plan import AdoptedPool
from gpupools.providers.azure.resources import create_pool
from tests.providers.azure_pools import ADDRESSES, TOKEN, plan, settings
from tests.providers.declaring import run

GET = "azure-native:containerservice:getAgentPool"
RUNNING = {GET: {"count": 7}}
URN = f"urn:pulumi:dev::gpupools::gpupools:index:GpuNodePool${TOKEN}::%s"


def declare(
    made: PoolPlan, state: dict[str, Any], answers: Any = None, group: Any = lambda: "ml-dev"
) -> tuple[dict[str, Any], pulumi.ResourceOptions]:
    """Return the inputs of the pool and the options that it is declared with."""
    seen: list[pulumi.ResourceOptions] = []

    def look(args: pulumi.ResourceTransformationArgs) -> None:
        seen.append(args.opts)

    watched = pulumi.ResourceOptions(transformations=[look])
    (pool,) = run(
        lambda: create_pool("serve-train", made, {**ADDRESSES, "resource_group": group()}, watched), state, answers
    )
    (options,) = seen
    return dict(pool.inputs), options


def left(**changed: Any) -> dict[str, Any]:
    """Return the state of a pool as it was declared, but for what was changed since."""
    inputs, _ = declare(plan(gpu="T4"), {})
    return {
        URN % "serve-train-pool": {"type": TOKEN, "outputs": {**inputs, "name": inputs["agentPoolName"], **changed}}
    }


def hooked(options: pulumi.ResourceOptions) -> bool:
    return bool(options.hooks and options.hooks.before_update)


def test_a_new_pool_starts_with_what_the_plan_says_and_asks_nobody() -> None:
    inputs, options = declare(plan(gpu="T4", nodes={"min": 2, "max": 4}), {})

    assert inputs["count"] == 2
    assert options.ignore_changes == ["count"]
    assert not hooked(options)


def test_a_pool_that_does_not_change_keeps_its_number_and_is_asked_before_an_update() -> None:
    inputs, options = declare(plan(gpu="T4"), left())

    assert inputs["count"] == 0
    assert options.ignore_changes == ["count"]
    assert hooked(options)


@pytest.mark.parametrize("changed", [{"maxCount": 9}, {"nodeLabels": {}}, {"gpuProfile": {"driver": "None"}}], ids=str)
def test_a_pool_that_changes_is_sent_with_the_number_that_runs(changed: dict[str, Any]) -> None:
    inputs, options = declare(plan(gpu="T4"), left(**changed), RUNNING)

    assert inputs["count"] == 7
    assert not options.ignore_changes
    assert not hooked(options)


def test_where_the_cloud_does_not_say_how_many_run_the_pool_is_asked_before_an_update() -> None:
    inputs, options = declare(plan(gpu="T4"), left(maxCount=9), {GET: {}})

    assert inputs["count"] == 0
    assert options.ignore_changes == ["count"]
    assert hooked(options)


def not_known_yet() -> pulumi.Output[Any]:
    """Return an output of a resource that is not there yet, as in a preview; only while a program runs."""
    known: asyncio.Future[Any] = asyncio.Future()
    known.set_result(None)
    is_known: asyncio.Future[bool] = asyncio.Future()
    is_known.set_result(False)
    return pulumi.Output(set(), known, is_known)


def test_a_pool_whose_cluster_is_not_known_yet_asks_nobody() -> None:
    inputs, options = declare(plan(gpu="T4"), left(maxCount=9), group=not_known_yet)

    assert inputs["count"] == 0
    assert options.ignore_changes == ["count"]
    assert hooked(options)


def test_a_pool_of_a_fixed_size_is_what_the_plan_says() -> None:
    inputs, options = declare(plan(gpu="T4", nodes={"fixed": 3}), left(maxCount=9))

    assert inputs["count"] == 3
    assert not options.ignore_changes


@pytest.mark.parametrize(("answer", "count", "ignored"), [({"count": 7}, 7, False), ({}, 0, True)], ids=str)
def test_a_pool_that_is_taken_over_keeps_the_number_that_runs(
    answer: dict[str, Any], count: int, ignored: bool
) -> None:
    made = plan(gpu="T4")
    provider_plan = replace(settings(made), adopted=AdoptedPool("theirs", "/subscriptions/x/agentPools/theirs", ()))
    inputs, options = declare(made._replace(provider_plan=provider_plan), {}, {GET: answer})

    assert (inputs["count"], "count" in (options.ignore_changes or ())) == (count, ignored)


def test_another_name_is_another_pool_which_starts_anew() -> None:
    inputs, options = declare(plan(gpu="T4"), left(name="other", maxCount=9))

    assert inputs["count"] == 0
    assert not options.ignore_changes
