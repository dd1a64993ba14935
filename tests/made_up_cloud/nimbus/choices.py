"""What a pool of Nimbus needs beyond the portable plan, and what it cannot share. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupools.base.errors import Problem
from gpupools.planned.cloud import Choices, Verdict, Wish


@dataclass(frozen=True, kw_only=True)
class NimbusChoices(Choices):
    """The part of a node pool that the portable plan does not have."""

    time_slices: int | None = None
    """Containers per GPU, where the cloud's own plugin shares it."""
    image: str = "nimbus-os"
    tags: Mapping[str, str] = field(default_factory=dict)
    protect: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)


def refusals(wish: Wish) -> list[Problem]:
    """Refuse more containers per GPU than the cloud's plugin takes."""
    clients = wish.spec.sharing.clients
    if clients is None or clients.replicas <= 8:
        return []
    where = ("pools", wish.name, "sharing", "replicas")
    return [Problem(where, f"got {clients.replicas}, and Nimbus takes at most 8", "write 8 or fewer")]


def decide(wish: Wish) -> NimbusChoices:
    """Choose what the node pool of a wish needs."""
    clients = wish.spec.sharing.clients
    native = wish.capability.verdict is Verdict.NATIVE
    return NimbusChoices(
        labels={"nimbus.example.com/gpu": wish.instance.gpu_model},
        time_slices=clients.replicas if clients is not None and native else None,
        image=wish.spec.image.family or "nimbus-os",
        tags=wish.spec.tags,
        protect=wish.spec.protect,
        overrides=wish.spec.overrides.get("nimbus", {}).get("NodePool", {}),
    )
