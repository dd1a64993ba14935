"""The inputs of a planned pool on Nimbus. Translates only: every decision is in the plan. Pure."""

from collections.abc import Mapping
from typing import Any

from gpupools.common.json_types import JsonDict
from gpupools.plan.pool_plan import PoolPlan
from gpupools.spec.overrides import apply_overrides, without_none
from tests.fake_cloud.nimbus.pool_plan import NimbusPoolPlan


def declared_inputs(plan: PoolPlan, cluster: Mapping[str, Any]) -> dict[str, JsonDict]:
    """Return the inputs of the node pool of a plan."""
    settings = plan.settings(NimbusPoolPlan)
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
    return {"NodePool": apply_overrides(without_none(inputs), settings.overrides.get("NodePool", {}))}
