"""Plans the part of a node pool that only Nimbus has. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupools.plan.capability import Verdict
from gpupools.plan.provider_plan import PoolRequest, ProviderPlan


@dataclass(frozen=True, kw_only=True)
class NimbusPoolPlan(ProviderPlan):
    """The part of a node pool that the portable plan does not have."""

    time_slices: int | None = None
    """Containers per GPU, where the cloud's own plugin shares it."""
    image: str = "nimbus-os"
    tags: Mapping[str, str] = field(default_factory=dict)


def build_provider_plan(request: PoolRequest) -> NimbusPoolPlan:
    """Return the node pool's settings."""
    clients = request.spec.sharing.clients
    native = request.capability.verdict is Verdict.NATIVE
    return NimbusPoolPlan(
        labels={"nimbus.example.com/gpu": request.instance.gpu_model},
        time_slices=clients.replicas if clients is not None and native else None,
        image=request.spec.image.family or "nimbus-os",
        tags=request.spec.tags,
    )
