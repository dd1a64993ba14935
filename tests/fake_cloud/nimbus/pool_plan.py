"""What a pool of Nimbus needs beyond the portable plan, and what it cannot share. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupools.common.errors import Problem
from gpupools.plan.capability import Verdict
from gpupools.plan.provider_plan import PoolRequest, ProviderPlan


@dataclass(frozen=True, kw_only=True)
class NimbusPoolPlan(ProviderPlan):
    """The part of a node pool that the portable plan does not have."""

    time_slices: int | None = None
    """Containers per GPU, where the cloud's own plugin shares it."""
    image: str = "nimbus-os"
    tags: Mapping[str, str] = field(default_factory=dict)
    protect: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)


def check_pool(request: PoolRequest) -> list[Problem]:
    """Refuse more containers per GPU than the cloud's plugin takes."""
    clients = request.spec.sharing.clients
    if clients is None or clients.replicas <= 8:
        return []
    where = ("pools", request.name, "sharing", "replicas")
    return [Problem(where, f"got {clients.replicas}, and Nimbus takes at most 8", "write 8 or fewer")]


def decide(request: PoolRequest) -> NimbusPoolPlan:
    """Choose what the node pool of a wish needs."""
    clients = request.spec.sharing.clients
    native = request.capability.verdict is Verdict.NATIVE
    return NimbusPoolPlan(
        labels={"nimbus.example.com/gpu": request.instance.gpu_model},
        time_slices=clients.replicas if clients is not None and native else None,
        image=request.spec.image.family or "nimbus-os",
        tags=request.spec.tags,
        protect=request.spec.protect,
        overrides=request.spec.overrides.get("nimbus", {}).get("NodePool", {}),
    )
