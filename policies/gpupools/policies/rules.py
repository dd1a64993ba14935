"""What every declared GPU pool must satisfy: pure functions on the facts read back from its inputs, in one place.

Owns the rules that one resource decides. Those that need the whole stack are in `policies.stack_rules`. How inputs
are read belongs to each cloud's `read_pools` and to `policies.declared_software`, how a rule meets the Pulumi engine to
`policies.pack`.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any

from pydantic import ValidationError

from gpupools.catalog.instance_types import InstanceType
from gpupools.catalog.mig import profiles
from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import GPU_TAINT, repels_cpu_pods
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.dra import DRA_DRIVER
from gpupools.plan.matrix import representatives
from gpupools.plan.node_labels import SOFTWARE_LABEL, TRUST_LABEL, WAIVER_LABEL
from gpupools.plan.pool_facts import (
    CUSTOMISATIONS,
    ZONES_OF_A_REGION,
    By,
    NodeCustomization,
    PoolFacts,
    Reference,
    SharingFacts,
)
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.plan.pool_planner import check_pool
from gpupools.plan.provider_plan import PoolRequest
from gpupools.policies.finding import Context, Finding, Framework, Level, Rule, told, unknown_at_preview
from gpupools.policies.pinning import pinned
from gpupools.providers import clouds
from gpupools.spec.models import Mig, Nodes, PoolSpec, SharingMode, shared_mode

__all__ = ["RULES", "Context", "Finding", "Level", "Rule", "judge_pool", "told"]


def gpu_pool_tainted(pool: PoolFacts, context: Context | None = None) -> Finding | None:
    """Find a GPU pool whose nodes accept pods that do not ask for GPUs.

    The GPU taint is what the finding asks for, but any permanent taint with a key and a hard effect satisfies it.

    Values the engine does not know at preview: a known taint that keeps pods off is enough, whatever else is
    unknown, and so is a known absence of GPUs. Known GPUs and a known absence of such a taint are a violation.
    Where the unknown part decides, the finding is `unverified`: a violation like any other, since a mandatory rule
    must not pass what it has not seen, unless the policy's configuration says `unknownAtPreview: advisory`; then
    the advisory policy `unverified-at-preview` reports it. An update knows every value. A machine type or taint that
    another resource holds, such as a launch template, is left to `gpu-pool-tainted-elsewhere`, which sees the stack.
    """
    if deciding_references(pool):
        return None
    return untainted(pool)


def deciding_references(pool: PoolFacts) -> tuple[Reference, ...]:
    """Return the resources that may still show whether this pool needs a taint or has one."""
    proven = pool.has_gpus
    open_questions = {"taints"} if proven else {"machine", "image", "taints"}
    return tuple(each for each in pool.elsewhere if each.decides & open_questions)


def untainted(pool: PoolFacts) -> Finding | None:
    """Judge a pool by what is known of it, whatever other resources may decide."""
    if not pool.lacks_taint:
        return None
    where = pool.where or "taints"
    # A type newer than the catalogue or an NVIDIA image is evidence of GPUs whose number nobody knows.
    gpus = bool(pool.gpus_per_node) or bool(pool.evidence)
    proven = gpus and pool.in_cluster is True
    late = [name for name in pool.unknown if not proven or _concerns(name, where)]
    late += [name for name in pool.unresolved_taints if name not in late]
    not_counted = f"; not counted: {', '.join(pool.not_counted)}" if pool.not_counted else ""
    if proven and not late:
        return Finding(
            what=f"has {_gpus(pool)}, but no permanent taint keeps other pods off{not_counted}",
            property=where,
            fix="move the GPUs to a pool of their own, since this one takes no taints"
            if pool.no_taint_field
            else f"add {pool.missing_taint.text} to {where}",
            pool=pool.pool,
            found=_elsewhere(pool),
        )
    names = ", ".join(late) or ("whether the machines join a cluster" if gpus else "the machine type")
    reason = f"{names} not known yet, or not in this resource"
    fix = f"write machine type and taints as plain values here, with {pool.missing_taint.text} in {where}"
    if pool.has_unevaluated_script:
        reason = f"user data is a script that gpupools does not evaluate ({names})"
        fix = f"set the taint in {where}: {pool.missing_taint.text}"
    return Finding(
        what=f"{f'has {_gpus(pool)}' if gpus else 'may have GPUs'}, but whether a taint keeps other pods off "
        f"cannot be verified: {reason}{not_counted}",
        property=where,
        fix=fix + ("" if gpus else " if the nodes have GPUs"),
        pool=pool.pool,
        found=_elsewhere(pool),
        unverified=True,
    )


def taint_can_be_added(pool: PoolFacts) -> bool:
    """Say whether the taint that a pool lacks can be written into it without a guess.

    It can where the pool certainly has GPUs and lacks the taint. It can too where all that is open is whether another
    resource, such as the launch template of an EKS group with EKS's own image, gives the nodes one more: the pool's
    own list is known and is what the nodes register with, so the taint there is right whatever the other resource says.
    """
    finding = untainted(pool)
    if finding is None or pool.no_taint_field:
        return False
    if not finding.unverified:
        return True
    others = {each.property for each in pool.elsewhere if not each.decides & {"machine", "image"}}
    own = [name for name in pool.unknown if _concerns(name, pool.where)]
    return pool.has_gpus and not own and set(pool.unresolved_taints) <= others


def _elsewhere(pool: PoolFacts) -> str | None:
    """Return the taints that another object or a text gives the pool; None where they are a property of its own.

    A text such as user data may hold secrets, so nothing else of it is shown.
    """
    if " → " not in pool.where and (pool.missing_taint.value is not None or pool.no_taint_field):
        return None
    return ", ".join(f"{taint.key}:{taint.effect}" for taint in pool.taints) or "none"


def _gpus(pool: PoolFacts) -> str:
    count, vendor = pool.gpus_per_node, "AMD" if pool.accelerator == "amd" else "NVIDIA"
    number = f"{count} {vendor} GPU{'s' if count > 1 else ''} per node" if count else f"{vendor} GPUs"
    return f"{number} ({pool.evidence})" if pool.evidence else number


def _concerns(unknown: str, path: str) -> bool:
    """Say whether an input that is not known yet is the one at `path`, a part of it, or holds it."""
    return (
        unknown == path
        or unknown.startswith((f"{path}[", f"{path}."))
        or path.startswith((f"{unknown}.", f"{unknown}["))
    )


def _tainted(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    finding = gpu_pool_tainted(pool, context)
    if finding is not None:
        yield finding


def _tolerated_by_daemons(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    if pool.gpus_per_node != 0 and pool.accelerator != "other" and pool.only_no_execute:
        yield Finding(
            what="only a NoExecute taint keeps other pods off, which the GPU daemons do not tolerate by default",
            property=pool.where,
            fix=f"add {pool.missing_taint.text} to {pool.where}, or give every GPU chart the toleration",
            pool=pool.pool,
        )


def _other_accelerator(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    if pool.accelerator == "other" and pool.in_cluster is not False and not repels_cpu_pods(pool.taints):
        yield Finding(
            what=f"has an accelerator that is no GPU ({pool.other_accelerator or ', '.join(pool.instance_types)}), and "
            "no permanent taint keeps other pods off",
            property=pool.where,
            fix="give it a taint with effect NoSchedule, in the key of the resource its pods ask for",
            pool=pool.pool,
        )


def _sharing_supported(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    sharing = pool.sharing
    if sharing is None or pool.accelerator == "amd":
        return
    cloud = clouds().get(pool.cloud)
    if cloud is None:
        return
    for name in pool.instance_types:
        instance = cloud.find_instance_type(cloud.instance_types, name)
        if instance is None:
            continue
        ways = _ways(cloud, pool)
        refused = _refused(pool.cloud, instance.name, sharing, ways)
        if refused is not None:
            what, fix, source = refused
            yield Finding(
                what=f"{_described(sharing)} on {instance.name} ({instance.gpus} × {instance.gpu_model}) cannot be: "
                f"{what}",
                property=sharing.property,
                found=_described(sharing),
                fix=fix or "share in a way that `gpupools matrix` allows",
                pool=pool.pool,
                source=source,
            )
            return


def _described(sharing: SharingFacts) -> str:
    parts = [sharing.kind, sharing.profile, f"{sharing.clients} clients" if sharing.clients is not None else ""]
    return " ".join(part for part in parts if part)


def _ways(cloud: Cloud, pool: PoolFacts) -> tuple[str, ...]:
    """Return the ways of installing the software that this pool's own inputs leave open."""
    by = pool.software.device_plugin
    if by is By.CLOUD and "cloud-managed" in cloud.software:
        return ("cloud-managed",)
    if by is By.NOBODY:
        return tuple(name for name in cloud.software if name != "cloud-managed") or tuple(cloud.software)
    return tuple(cloud.software)


@lru_cache(maxsize=4096)
def _refused(
    cloud_name: str, machine: str, sharing: SharingFacts, ways: tuple[str, ...]
) -> tuple[str, str, str] | None:
    """Ask the capability matrix and the planner; None when one way of installing the software allows it.

    Returns what is wrong, the cure and the source of the first refusal.
    """
    cloud = clouds()[cloud_name]
    # Not every machine has a row of its own: Google's N1 machines have GPUs beside them.
    instance = cloud.find_instance_type(cloud.instance_types, machine)
    assert instance is not None
    wishes, wrong = _spelled_out(cloud, instance, sharing)
    if not wishes:
        return wrong
    first: tuple[str, str, str] | None = None
    for software in ways:
        capability = cloud.capabilities[software, sharing.kind]
        for asked in wishes:
            spec = PoolSpec.model_construct(
                instance_type=instance.name,
                gpu=None,
                gpus_per_node=None,
                nodes=Nodes(max=1),
                sharing=asked,
                software=software,
                labels={},
                taints=[],
                disk_gib=200,
            )
            request = PoolRequest(
                "pool", spec, _example_cluster(cloud_name), instance, software, sharing.kind, capability
            )
            problems = check_pool(request, cloud)
            if problems:
                first = first or (problems[0].what, problems[0].fix, problems[0].source or capability.source)
            elif capability.verdict is Verdict.REFUSED:
                first = first or (capability.why, capability.instead, capability.source)
            else:
                return None
    return first


@cache
def _example_cluster(cloud_name: str) -> Any:
    cloud = clouds()[cloud_name]
    return cloud.cluster.model_validate(dict(cloud.example_cluster))


def _spelled_out(
    cloud: Cloud, instance: InstanceType, sharing: SharingFacts
) -> tuple[list[SharingMode], tuple[str, str, str] | None]:
    """Write what a pool's inputs say of sharing as a stack file would: every reading, or why there is none."""
    base, mode = sharing.kind.partition("+")[0], shared_mode(sharing.kind)
    clients = None
    if mode is not None:
        if sharing.clients is not None and sharing.clients < 2:
            return [], (f"got {sharing.clients}; a shared GPU needs at least 2", "use 2 or more, or share no GPU", "")
        clients = mode.with_replicas(2 if sharing.clients is None else sharing.clients)
    if not base.startswith("mig-"):
        return ([clients] if clients else []), None
    made = [each.mig for each in representatives(sharing.kind, instance.gpu_model) if each.mig is not None]
    if sharing.profile and not sharing.profile.startswith("MIG"):
        try:
            naming = base.removeprefix("mig-")
            made = [Mig.model_validate({"mode": "mig", "profile": sharing.profile, "strategy": naming})]
        except ValidationError:
            known = ", ".join(each.name for each in profiles(instance.gpu_model)) or "none"
            return [], (f"{shown(sharing.profile)} is no MIG profile", f"profiles of this GPU: {known}", "")
    elif sharing.profile:
        # AKS names the compute slices only: MIG3g is the 3g profile of whatever GPU the size has.
        # https://learn.microsoft.com/azure/aks/gpu-multi-instance
        slices = sharing.profile.removeprefix("MIG")
        possible = [each for each in made if each.profile is not None and each.profile.startswith(f"{slices}.")]
        if not possible and profiles(instance.gpu_model):
            known = ", ".join(dict.fromkeys(f"MIG{each.compute_slices}g" for each in profiles(instance.gpu_model)))
            source = "https://learn.microsoft.com/azure/aks/gpu-multi-instance"
            return [], (f"{instance.gpu_model} has no profile {sharing.profile}", f"use one of {known}", source)
        made = possible or made
    return [each.model_copy(update={"share": clients}) for each in made], None


def _sharing_trusted(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    sharing = pool.sharing
    mode = shared_mode(sharing.kind) if sharing is not None else None
    if sharing is None or mode is None or not mode.facts.needs_trust:
        return
    if pool.labels.get(TRUST_LABEL) or pool.labels.get(WAIVER_LABEL):
        return
    if SHARING_TRUSTED.option(context, "tenants") == "one":
        return
    named = [name for name in (pool.labels.get(POOL_LABEL), pool.pool, pool.name) if name]
    if any(fnmatchcase(name, pattern) for name in named for pattern in SHARING_TRUSTED.option(context, "waived")):
        return
    yield Finding(
        what=f"pods share a GPU by {sharing.kind}, which isolates neither faults nor all memory, and no one is named "
        "who may use it",
        property=sharing.property,
        found=_described(sharing),
        fix=f"set the node label {TRUST_LABEL} to the team that trusts itself, use MIG instead, or say tenants: one in "
        "the policy's configuration where a single team has the cluster",
        pool=pool.pool,
    )


def weaknesses(pool: PoolFacts, *, mandatory: bool) -> Iterator[Finding]:
    """Tell what leaves the nodes of a pool or template less hardened than the baseline demands, or recommends."""
    for weak in pool.weaknesses:
        if weak.mandatory is mandatory:
            yield Finding(
                what=f"{weak.name}: {weak.why.rstrip('.')}",
                property=weak.property,
                found=weak.found,
                fix=f"wanted {weak.property}: {weak.wanted}",
                source=weak.source,
                pool=pool.pool,
                unverified=weak.unverified,
            )


def _hardened(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    return weaknesses(pool, mandatory=True) if pool.has_gpus else iter(())


def _hardening_advised(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    left_out = tuple(ADVISED.option(context, "leaveOut"))
    for finding in weaknesses(pool, mandatory=False) if pool.has_gpus else ():
        if not finding.property.endswith(left_out):
            yield finding


def by_hand(pool: PoolFacts, rule: Rule, context: Context) -> Iterator[Finding]:
    """Tell what somebody set by hand on the nodes of a pool or template, unless the configuration has a reason for it.

    Values are never told: user data and metadata may hold secrets.
    """
    reasons = {each: why for each, why in rule.option(context, "reasons").items() if why.strip()}
    named = [pool.labels.get(POOL_LABEL), pool.tags.get(_POOL_TAG), pool.pool, pool.name]
    names = [name for name in named if name] or [""]
    found = [*pool.node_customizations]
    allowed = rule.option(context, "identities") if "identities" in rule.config else []
    if allowed and pool.identity is not None:
        path, identity = pool.identity
        late = not isinstance(identity, str)
        if late or not any(fnmatchcase(identity, pattern) for pattern in allowed):
            found.append(NodeCustomization("node-identity", path, "nodes run as none of identities", rule.url, late))
    for each in found:
        if not any(fnmatchcase(f"{name}/{each.kind}", pattern) for name in names for pattern in reasons):
            yield Finding(
                what=f"{each.kind} by hand: {each.why}",
                property=each.property,
                found="not known at preview" if each.unverified else "set",
                fix=f"leave it out, or give the reason in the policy's configuration: {{reasons: "
                f"{{'{names[0] or '*'}/{each.kind}': …}}}}",
                source=each.source,
                pool=pool.pool,
                unverified=each.unverified,
            )


_POOL_TAG = "gpupools:pool"


def _customised(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    return by_hand(pool, CUSTOMISED, context) if pool.has_gpus else iter(())


def _bounded(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    most = BOUNDED.option(context, "maxNodesPerPool")
    if most is None or not pool.has_gpus:
        return
    fix = f"set a maximum of {int(most)} nodes or fewer, or raise maxNodesPerPool for this environment"
    if pool.max_nodes is None:
        late = [name for name in pool.unknown if _is_size(name)]
        yield Finding(
            what="may grow without a bound that can be read here, and the cap is "
            f"{int(most)} nodes{': ' + ', '.join(late) + ' not known yet' if late else ''}",
            fix=fix,
            pool=pool.pool,
            unverified=bool(late),
        )
    elif (largest := pool.max_nodes * pool.zones_counted) > most:
        yield Finding(
            what=f"may grow to {largest} GPU nodes{in_zones(pool)}, and the cap is {int(most)}",
            fix=fix,
            pool=pool.pool,
            unverified=pool.zones_unknown and pool.max_nodes <= most,
        )


def in_zones(pool: PoolFacts) -> str:
    """Say how a size over all zones comes about, with a blank before; empty where it is not counted by zone."""
    if not pool.per_zone or pool.max_nodes is None or pool.zones == 1:
        return ""
    if pool.zones is not None:
        return f" ({pool.max_nodes} in each of {pool.zones} zones)"
    why = "which zones is not known yet, and" if pool.zones_unknown else "no zones are named, and"
    return f" ({pool.max_nodes} in each zone; {why} a regional cluster has {ZONES_OF_A_REGION})"


def _is_size(unknown: str) -> bool:
    return any(word in unknown.lower() for word in ("scaling", "size", "count", "limits"))


def _protected(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    patterns = PROTECTED.option(context, "stacks")
    if not pool.has_gpus or context.protect or pool.deletion_protected:
        return
    pattern = next((each for each in patterns if fnmatchcase(context.stack, each)), None)
    if pattern is not None:
        yield Finding(
            what=f"GPU capacity of the production stack {context.stack} can be deleted by one edit",
            property="protect",
            found="false",
            fix="wanted protect: true in the resource's options, or the cloud's own deletion protection",
            pool=pool.pool,
        )


def _idles_at_zero(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    # No autoscaler starts the first node of a pool whose GPUs are claimed.
    claimed = pool.labels.get(SOFTWARE_LABEL) == DRA_DRIVER
    if pool.has_gpus and pool.min_nodes and not claimed:
        each = " in each zone" if pool.per_zone else ""
        yield Finding(
            what=f"keeps {pool.min_nodes} GPU node{'s' if pool.min_nodes > 1 else ''}{each} when nobody asks for a GPU",
            fix="wanted a minimum of 0 nodes",
            pool=pool.pool,
        )


def _owned(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    keys = OWNED.option(context, "labels")
    if not pool.has_gpus or not keys:
        return
    wanted = {key.casefold() for key in keys}
    if not any(
        key.casefold() in wanted and value for named in (pool.labels, pool.tags) for key, value in named.items()
    ):
        yield Finding(
            what="nobody is named who answers for these GPUs",
            fix=f"wanted one of the labels or tags {', '.join(keys)}",
            pool=pool.pool,
        )


_NVIDIA_CHARTS = "https://github.com/NVIDIA/product-security"
HARDENING = Framework(
    "CIS Benchmarks for EKS, AKS and GKE",
    "EKS 1.8, AKS 1.8, GKE 1.9",
    "EKS 5.4, AKS 5.4, GKE 5.2, 5.4 and 5.5",
    "private nodes, own identity, protected metadata service, encrypted disks",
)
_DEDICATED = Framework(
    "Amazon EKS Best Practices Guide",
    "2026",
    "AI/ML compute",
    "taint nodes with accelerators, so that only pods that ask for them run there",
)
_ISOLATION = Framework(
    "NVIDIA GPU Operator documentation",
    "26.7",
    "GPU sharing",
    "time-slicing and MPS share faults between pods, MIG isolates them in hardware",
)
_CAPACITY = Framework(
    "AWS Well-Architected Framework", "2026", "Cost optimization", "bound and attribute what scarce resources cost"
)

TAINTED = Rule(
    name="gpu-pool-tainted",
    level=Level.MANDATORY,
    severity="high",
    why="A GPU node that accepts pods without GPU work is paid for and not used.",
    fix=f"Give the pool the taint {GPU_TAINT} in its cloud's own spelling, as a plain value.",
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
    framework=_DEDICATED,
    config=unknown_at_preview(),
    pool=_tainted,
)
SHARING_TRUSTED = Rule(
    name="gpu-sharing-trusted",
    level=Level.MANDATORY,
    severity="medium",
    why="Pods that share a GPU by time-slicing or MPS can take each other down and share its memory.",
    fix=f"Name the team that shares the pool in the node label {TRUST_LABEL}, or cut the GPU with MIG.",
    url="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html",
    framework=_ISOLATION,
    config={
        "tenants": {
            "type": "string",
            "enum": ["several", "one"],
            "default": "several",
            "description": "Whether teams that do not trust each other use the clusters of this environment.",
        },
        "waived": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": f"Pools that anyone may share, by name or label {POOL_LABEL}, as patterns with * and ?.",
        },
    },
    pool=_sharing_trusted,
)
BOUNDED = Rule(
    name="gpu-pool-bounded",
    level=Level.MANDATORY,
    severity="medium",
    why="A GPU pool can cost as much as its largest size, every hour.",
    fix="Set the pool's maximum number of nodes to the cap of the environment or below.",
    url="https://docs.aws.amazon.com/wellarchitected/latest/cost-optimization-pillar/welcome.html",
    framework=_CAPACITY,
    config={
        **unknown_at_preview(),
        "maxNodesPerPool": {
            "type": "integer",
            "minimum": 0,
            "description": "Most nodes one GPU pool may grow to; without it the rule asks for nothing.",
        },
    },
    pool=_bounded,
)
PROTECTED = Rule(
    name="gpu-pool-protected",
    level=Level.MANDATORY,
    severity="medium",
    why="GPU capacity that is given back may not be there to be had again.",
    fix="Set the option protect on the pools of production stacks.",
    url="https://www.pulumi.com/docs/iac/concepts/options/protect/",
    framework=Framework(
        "AWS Well-Architected Framework", "2026", "Reliability", "protect what cannot be recreated at will"
    ),
    config={
        "stacks": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Names of production stacks, as patterns with * and ?, e.g. [prod, '*-prod'].",
        }
    },
    pool=_protected,
)
OWNED = Rule(
    name="gpu-pool-owned",
    level=Level.ADVISORY,
    severity="low",
    why="Somebody has to be asked when GPUs stand idle.",
    fix="Label or tag the pool with its owner.",
    url="https://docs.aws.amazon.com/whitepapers/latest/tagging-best-practices/tagging-best-practices.html",
    framework=_CAPACITY,
    config={
        "labels": {
            "type": "array",
            "items": {"type": "string"},
            # A pool of this project's carries the key of its entry in the stack file, whose history has an author.
            "default": ["owner", "team", "cost-center", TRUST_LABEL, POOL_LABEL],
            "description": "Labels or tags of which a GPU pool needs one; [] asks for none.",
        }
    },
    pool=_owned,
)
REASONS: Mapping[str, JsonObject] = {
    "reasons": {
        "type": "object",
        "additionalProperties": {"type": "string", "pattern": r"\S"},
        "default": {},
        "description": "What is set by hand and may be, with the reason: `<pool>/<kind>` as a pattern with * and ? to"
        f" a sentence. Kinds: {', '.join(CUSTOMISATIONS)}.",
    }
}
CUSTOMISED = Rule(
    name="gpu-node-customised",
    level=Level.ADVISORY,
    severity="high",
    why="What runs at boot or on nodes by hand has every GPU, every secret and every pod of them.",
    fix="Leave it out, or name it with its reason in the policy's configuration.",
    url="https://docs.aws.amazon.com/eks/latest/best-practices/protecting-the-infrastructure.html",
    framework=HARDENING,
    config={
        **unknown_at_preview("advisory"),
        **REASONS,
        "identities": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Roles and service accounts that nodes may run as, as patterns with * and ?; [] allows any.",
        },
    },
    pool=_customised,
)
ADVISED = Rule(
    name="gpu-node-hardening-advised",
    level=Level.ADVISORY,
    severity="low",
    why="The baseline recommends more than it demands.",
    fix="Set the named input to the wanted value.",
    url="https://docs.aws.amazon.com/eks/latest/best-practices/protecting-the-infrastructure.html",
    framework=HARDENING,
    config={
        "leaveOut": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Ends of the paths of inputs about which to say nothing.",
        }
    },
    pool=_hardening_advised,
)

RULES: tuple[Rule, ...] = (
    TAINTED,
    Rule(
        name="gpu-taint-tolerated-by-daemons",
        level=Level.ADVISORY,
        severity="low",
        why="The daemons that make GPUs usable tolerate the effect NoSchedule only, unless told otherwise.",
        fix="Use the effect NoSchedule, alone or beside NoExecute.",
        url="https://github.com/NVIDIA/gpu-operator/blob/main/deployments/gpu-operator/values.yaml",
        framework=_DEDICATED,
        pool=_tolerated_by_daemons,
    ),
    Rule(
        name="other-accelerator-tainted",
        level=Level.ADVISORY,
        severity="low",
        why="Nodes with Neuron devices, Gaudi cards or TPUs are as scarce as nodes with GPUs.",
        fix="Give the pool a taint with effect NoSchedule.",
        url="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
        framework=_DEDICATED,
        pool=_other_accelerator,
    ),
    Rule(
        name="gpu-sharing-supported",
        level=Level.MANDATORY,
        severity="medium",
        why="A way of sharing that this GPU or cloud does not have leaves nodes without a GPU to schedule on.",
        fix="Share in a way that `gpupools matrix` allows for this cloud and GPU.",
        url="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-gpus.html",
        framework=_ISOLATION,
        pool=_sharing_supported,
    ),
    SHARING_TRUSTED,
    Rule(
        name="gpu-node-hardened",
        level=Level.MANDATORY,
        severity="high",
        why="A GPU node runs privileged daemons, so what reaches the node reaches everything on it.",
        fix="Set the named input to the wanted value.",
        url="https://docs.aws.amazon.com/eks/latest/best-practices/protecting-the-infrastructure.html",
        framework=HARDENING,
        config=unknown_at_preview("advisory"),
        pool=_hardened,
    ),
    ADVISED,
    CUSTOMISED,
    Rule(
        name="gpu-software-pinned",
        level=Level.MANDATORY,
        severity="high",
        why="GPU charts run as root on every GPU node, so their version and origin must be a decision.",
        fix="Name an exact version from an https or OCI source, at or above the published fixes.",
        url=_NVIDIA_CHARTS,
        framework=Framework(
            "NVIDIA product security bulletins",
            "2026-08",
            "5659, 5821, 5850, 5857",
            "run the fixed versions of driver, toolkit, device plugin, MIG manager and exporter",
        ),
        config=unknown_at_preview(),
        software=pinned,
    ),
    BOUNDED,
    PROTECTED,
    Rule(
        name="gpu-pool-idles-at-zero",
        level=Level.ADVISORY,
        severity="low",
        why="A GPU node that waits costs as much as one that works.",
        fix="Let the autoscaler shrink the pool to 0 nodes.",
        url="https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md",
        framework=_CAPACITY,
        pool=_idles_at_zero,
    ),
    OWNED,
)
"""Every rule that one resource decides, in the order in which they are asked."""


def judge_pool(pool: PoolFacts, contexts: Mapping[str, Context] | None = None) -> Iterator[tuple[Rule, Finding]]:
    """Let every rule that one pool decides judge it.

    Args:
        pool: The facts, from any source: a Pulumi resource, a Terraform plan, a Kubernetes manifest.
        contexts: By the rule's name; a rule without one gets its defaults.
    """
    for rule in RULES:
        if rule.pool is not None:
            context = (contexts or {}).get(rule.name) or Context()
            for finding in rule.pool(pool, context):
                yield rule, finding
