"""Declares a planned pool on Nimbus. Translates only: every decision is in the plan."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gpupools.plan.cloud import ResourceFactory
from gpupools.plan.pool_plan import PoolPlan
from tests.fake_cloud.nimbus import sdk
from tests.fake_cloud.nimbus.declared_inputs import declared_inputs


def create_provider(
    name: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.ProviderResource:
    """Declare the provider of the cluster's region."""
    return sdk.Provider(name, opts=opts, region=cluster["region"])


def create_pool(
    name: str, plan: PoolPlan, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    """Declare the node pool of a plan; return its name."""
    inputs = declared_inputs(plan, cluster)["NodePool"]
    kept = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=plan.provider_plan.protect or None))
    pool = pulumi.CustomResource("nimbus:index:NodePool", f"{name}-pool", inputs, kept)
    return pool.urn.apply(lambda _: f"{name}-pool")


RESOURCES = ResourceFactory(create_provider=create_provider, create_pool=create_pool)
