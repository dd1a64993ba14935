"""Which pods the policies of `data/trust_policies.yaml` reject: each judges a pod for all nodes of its cluster."""

from collections.abc import Iterator, Mapping, Sequence

from gpupools.common.json_types import JsonObject
from gpupools.common.taints import Effect, Taint
from gpupools.fit.offers import Offer
from gpupools.fit.workloads import Level, Manifests, PodTemplate, Reason, Workload
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.tolerations import tolerates
from gpupools.readback.inputs import at
from gpupools.spec.teams import Team


def namespace_reasons(
    workload: Workload, template: PodTemplate, offer: Offer, manifests: Manifests, teams: Mapping[str, Team]
) -> Iterator[Reason]:
    """Yield what policies have against a pod of a namespace that a pool does not trust, or that none keeps it off."""
    tolerations, space, trust = maps(template.spec.get("tolerations")), workload.namespace, offer.pool.trust
    own = trust.mark(offer.pool.name) if trust is not None else None
    for mark in dict.fromkeys([*offer.trust_policies, *filter(None, [own])]):
        policy, taint = offer.trust_policies.get(mark), Taint(TRUST_LABEL, mark, Effect.NO_SCHEDULE)
        spaces, team = (trust.namespaces or (), trust.team) if trust is not None else ((), None)
        if policy is not None:
            named, *labelled = policy["matchConstraints"]["namespaceSelector"]["matchExpressions"]
            spaces, team = named["values"], labelled[0]["values"][0] if labelled else None
        by_name = tolerates([each for each in tolerations if each.get("key")], taint)
        is_let_in = policy is not None and not by_name and _passes(workload, template, policy)
        if space in spaces or is_let_in or not tolerates(tolerations, taint):
            continue
        inside, text = (
            _is_inside(space, team, manifests, teams),
            f"tolerates the taint {taint}, is in namespace {space}",
        )
        if inside is None:
            level = Level.FITS if policy is None else Level.UNKNOWN
            text += f", which needs the label {TRUST_LABEL}={mark}; give its manifest, too"
            yield Reason("unknown-namespace", level, text)
        elif not inside and policy is None:
            text += ", which the pool does not trust, and nothing enforces that; runtime.trust_policy: true does"
            yield Reason("trust", Level.FITS, text)
        elif not inside:
            yield Reason("admission", Level.UNFIT, f"{text}: an admission policy rejects it on the whole cluster")


def _is_inside(space: str, team: str | None, manifests: Manifests, teams: Mapping[str, Team]) -> bool | None:
    """Return whether a namespace is one of a team, by its label; None if that is not known."""
    labels = manifests.namespaces.get(space)
    if team is None or (labels is not None and TRUST_LABEL in labels):
        return team is not None and labels is not None and labels[TRUST_LABEL] == team
    if team in teams and space in teams[team].namespaces:
        return True
    return None if labels is None else False


def _passes(workload: Workload, template: PodTemplate, policy: JsonObject) -> bool:
    """Return whether a pod that tolerates everything is let through: it asks for no GPU, and can reach none."""
    spec, is_sealed = template.spec, True
    asks = bool(spec.get("resourceClaims")) or str(spec.get("runtimeClassName") or "").startswith("nvidia")
    asks |= any("cdi.k8s.io/" in key for key in at(template.metadata, "annotations") or ())
    for each in [*maps(spec.get("containers")), *maps(spec.get("initContainers"))]:
        values = [one.get("value") for one in maps(each.get("env")) if one.get("name") == "NVIDIA_VISIBLE_DEVICES"]
        limits, mounts = at(each, "resources.limits") or {}, maps(each.get("volumeMounts"))
        asks |= any(name.startswith(("nvidia.com/", "deviceclass.resource.kubernetes.io/")) for name in limits)
        asks |= any(value != "void" for value in values) or (bool(each.get("envFrom")) and not values)
        asks |= any("nvidia-container-devices" in str(one.get("mountPath")) for one in mounts)
        is_sealed &= bool(values) and not at(each, "securityContext.privileged")
    is_daemon = workload.kind == "DaemonSet" and "variables.daemon" in policy["validations"][0]["expression"]
    return not asks and (is_daemon or is_sealed)


def maps(found: object) -> Sequence[JsonObject]:
    """Return the maps of a list; empty for anything else."""
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else ()
