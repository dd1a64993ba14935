"""Kubernetes taints in Kubernetes' own syntax.

https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpupools.common.errors import shown


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


KUBERNETES_EFFECTS: Mapping[str, Effect] = {effect.value: effect for effect in Effect}
"""Effects by their Kubernetes name."""

CLOUD_EFFECTS: Mapping[str, Effect] = {effect.name: effect for effect in Effect}
"""Effects by their name in the APIs of EKS and GKE.

https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html,
https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/NodeConfig
"""

HARD_EFFECTS = frozenset({Effect.NO_SCHEDULE, Effect.NO_EXECUTE})
"""Effects that reject pods; `PreferNoSchedule` is only a preference."""


@dataclass(frozen=True, order=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: Effect

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect.value}" if self.value else f"{self.key}:{self.effect.value}"


GPU_TAINT = Taint("nvidia.com/gpu", "present", Effect.NO_SCHEDULE)
"""The taint of all GPU pools.

The key equals the resource that pods request, so the admission controller ExtendedResourceToleration adds the
toleration (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#extendedresourcetoleration).
The value is that of GKE, which cannot be changed
(https://github.com/hashicorp/terraform-provider-google/issues/7928).
"""

STARTUP_TAINT = Taint("startup-taint.cluster-autoscaler.kubernetes.io/gpupools", "gpus-missing", Effect.NO_SCHEDULE)
"""The taint of new nodes until they offer their GPUs.

Cluster Autoscaler ignores taints with this prefix, so that no pod that waits starts a second node
(https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.34.5/cluster-autoscaler/utils/taints/taints.go).
"""

# A qualified name of Kubernetes: optional DNS prefix, then 63 characters at most.
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
QUALIFIED_NAME = re.compile(rf"(?:(?=[^/]{{1,253}}/){_PREFIX}/)?{_NAME}")
LABEL_VALUE = re.compile(rf"(?:{_NAME})?")
_TAINT = re.compile(r"(?P<key>[^=:\s]+)(?:=(?P<value>[^:\s]*))?:(?P<effect>\w+)")


def parse_taint(text: str) -> Taint:
    """Return the taint of `key=value:Effect` or `key:Effect`, the syntax of `kubectl taint`.

    Raises:
        ValueError: The text is invalid. The message is `what; fix`.
    """
    match = _TAINT.fullmatch(text)
    if match is None:
        raise ValueError(f"got {shown(text)}; write a taint as key=value:Effect, e.g. 'team=vision:NoSchedule'")
    effect = next((effect for effect in Effect if effect.value.casefold() == match["effect"].casefold()), None)
    if effect is None or effect.value != match["effect"]:
        raise ValueError(f"got effect {shown(match['effect'])}; use NoSchedule, PreferNoSchedule or NoExecute")
    value = match["value"] or ""
    if not QUALIFIED_NAME.fullmatch(match["key"]):
        raise ValueError(f"got key {shown(match['key'])}; a taint's key is a qualified name such as 'example.com/team'")
    if not LABEL_VALUE.fullmatch(value):
        raise ValueError(f"got value {shown(value)}; a taint's value has at most 63 letters, digits, '-', '_' and '.'")
    return Taint(match["key"], value, effect)


def repels_cpu_pods(taints: Iterable[Taint]) -> bool:
    """Return whether these taints reject pods without tolerations."""
    return any(taint.key and taint.effect in HARD_EFFECTS for taint in taints)
