"""Which tolerations a DaemonSet needs on a set of pools, and whether it would really run on one."""

from collections.abc import Iterable, Mapping, Sequence

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import HARD_EFFECTS, Taint
from gpupools.plan.pool_plan import PoolPlan

Toleration = JsonObject


def tolerations_for(pools: Iterable[PoolPlan]) -> list[dict[str, str]]:
    """Return what a DaemonSet of the cluster's own must tolerate to run on every node of these pools.

    One entry per key and effect, whatever the value: a value that changes then restarts no daemon. The list stands
    for itself, since a chart's list replaces the default one.
    """
    hard = {
        (taint.key, taint.effect.value) for pool in pools for taint in pool.node_taints if taint.effect in HARD_EFFECTS
    }
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in sorted(hard)]


def kept_taint_note(taint: Taint) -> str:
    """Say which pods stop fitting once an adopted pool gives up the value of the GPU taint that its nodes have."""
    what = f"its nodes keep the taint {taint}; once adopt.gpu_taint is removed, pods that tolerate only the value"
    return f"{what} {taint.value!r} (operator Equal) no longer fit"


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Say whether a pod with these tolerations may run in spite of the taint.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
    """
    return any(_matches(toleration, taint) for toleration in tolerations)


def untolerated(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> list[Taint]:
    """Return the taints that keep a pod with these tolerations off."""
    return [taint for taint in taints if taint.effect in HARD_EFFECTS and not tolerates(tolerations, taint)]


def _matches(toleration: Toleration, taint: Taint) -> bool:
    effect, key = toleration.get("effect") or "", toleration.get("key") or ""
    if effect and effect != taint.effect:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return not key or key == taint.key
    return bool(key == taint.key and (toleration.get("value") or "") == taint.value)


def selects(node_selector: Mapping[str, str], affinity: JsonObject, labels: Mapping[str, str]) -> bool:
    """Say whether a pod's node selector and required node affinity let it onto a node with these labels.

    Knows `matchExpressions`, which is all that the charts' values here use.
    """
    if any(labels.get(key) != value for key, value in node_selector.items()):
        return False
    required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms: list[JsonObject] | None = required.get("nodeSelectorTerms", []) if required else None
    if terms is None:
        return True
    return any(all(holds(each, labels.get(each["key"])) for each in term["matchExpressions"]) for term in terms)


def holds(requirement: JsonObject, value: str | None) -> bool:
    """Say whether a label with this value, None for no label, meets a requirement.

    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#operators
    """
    operator, values = requirement["operator"], requirement.get("values", ())
    if operator in ("In", "NotIn"):
        return bool((value in values) == (operator == "In"))
    if operator in ("Exists", "DoesNotExist"):
        return bool((value is not None) == (operator == "Exists"))
    try:
        found, limit = int(value or ""), int(next(iter(values), ""))
    except ValueError:
        return False
    return found > limit if operator == "Gt" else found < limit if operator == "Lt" else False


def node_affinity(*expressions: JsonObject) -> JsonDict:
    """Write an affinity that requires all these expressions of a node."""
    terms = [{"matchExpressions": [dict(expression) for expression in expressions]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
