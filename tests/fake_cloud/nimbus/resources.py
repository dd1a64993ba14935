"""Declares a planned pool on Nimbus. Translates only: every decision is in the plan."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gpupools.plan.cloud import ResourceFactory
from gpupools.plan.pool_plan import PoolPlan
from gpupools.spec.overrides import apply_overrides, without_none
from tests.fake_cloud.nimbus import sdk
from tests.fake_cloud.nimbus.pool_plan import NimbusPoolPlan


def create_provider(
    name: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.ProviderResource:
    """Declare the provider of the cluster's region."""
    return sdk.Provider(name, opts=opts, region=cluster["region"])


def create_pool(
    name: str, plan: PoolPlan, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions
) -> pulumi.Output[str]:
    """Declare the node pool of a plan; return its name."""
    settings = plan.provider_plan
    if not isinstance(settings, NimbusPoolPlan):
        raise TypeError(f"pool {plan.name} was planned for {plan.cloud}, not for nimbus")
    inputs = {
        "cluster": cluster["name"],
        "machine": plan.instance.name,
        "count": {"min": plan.min_nodes, "max": plan.max_nodes},
        "diskGib": plan.disk_gib,
        "labels": dict(plan.labels),
        "taints": [{"key": each.key, "value": each.value, "effect": each.effect.value} for each in plan.taints],
        "image": settings.image,
        "tags": dict(settings.tags) or None,
        "timeSlices": settings.time_slices,
    }
    kept = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=True if settings.protect else None))
    inputs = apply_overrides(without_none(inputs), settings.overrides)
    pool = pulumi.CustomResource("nimbus:index:NodePool", f"{name}-pool", inputs, kept)
    return pool.urn.apply(lambda _: f"{name}-pool")


RESOURCES = ResourceFactory(create_provider=create_provider, create_pool=create_pool)
