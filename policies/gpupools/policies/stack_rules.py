"""Rules that no single resource decides: who else is in the stack, and what pools take from other resources. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase

from gpupools.common.errors import shown
from gpupools.common.taints import repels_cpu_pods
from gpupools.plan.pool_facts import UNKNOWN, By
from gpupools.policies import waivers
from gpupools.policies.classify import Unclassified
from gpupools.policies.declared_software import CLAIMS, PLUGIN
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import WAIVERS_CURRENT, Context, Finding, Framework, Level, Rule, unknown_at_preview
from gpupools.policies.rules import (
    HARDENING,
    REASONS,
    RULES,
    by_hand,
    deciding_references,
    in_zones,
    untainted,
    weaknesses,
)
from gpupools.policies.software_conflicts import MOST_PAIRS, PIECES, SoftwareConflicts, TooMany
from gpupools.policies.waivers import Waiver, scope

# --- the rules ---


def _tainted_elsewhere(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    at_fault: set[str] = set()
    for resource in stack.resources:
        for pool in resource.pools:
            within = stack.component(resource) if pool.elsewhere else None
            if pool.elsewhere and (within or deciding_references(pool)) and untainted(pool) is not None:
                whole = stack.joined(resource, pool)
                if whole.in_cluster is None and not (whole.gpus_per_node or whole.evidence):
                    continue  # nothing shows GPUs, nor nodes
                finding = untainted(whole)
                if finding is not None and not pool.evidence and stack.judged_there(resource, pool):
                    continue  # its template is told to be untainted
                told = within is not None and (within.urn in at_fault or any(each.lacks_taint for each in within.pools))
                if finding is not None and not told and not (within and finding.unverified):
                    at_fault.add(resource.urn)
                    yield resource.urn, finding


def _kept_out(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    for resource in stack.resources:
        for pool in resource.pools:
            open_ = pool.open_to_gpus
            # The class of its machines, which is a resource of its own, may taint those with GPUs.
            if open_ is None or repels_cpu_pods(stack.joined(resource, pool).taints):
                continue
            which = f", such as {open_.machine}" if open_.machine else ""
            cure = f"add {open_.cure}" if open_.cure else "add a requirement that machines with GPUs do not meet"
            finding = Finding(
                what=f"may be given machines with NVIDIA GPUs{which}: no requirement or limit keeps them out, and no "
                "permanent taint keeps other pods off them",
                property=open_.property,
                found=open_.found,
                fix=f"{cure}, or the limit nvidia.com/gpu: 0; for a pool that is meant for GPUs, add "
                f"{pool.missing_taint.text} to {pool.where}",
                pool=pool.pool,
            )
            yield resource.urn, finding


def _hardened_elsewhere(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    seen: set[str] = set()
    told: set[tuple[str, str]] = set()
    for resource in stack.resources:
        for pool in resource.pools:
            if not pool.elsewhere or not stack.joined(resource, pool).has_gpus:
                continue
            for other in stack.referred(resource, pool):
                if other.urn in seen or any(each.has_gpus for each in other.pools):
                    continue  # a pool itself, told by the rule on each
                seen.add(other.urn)
                for finding in weaknesses(other.template, mandatory=True) if other.template else ():
                    if (other.urn, finding.property) not in told:
                        told.add((other.urn, finding.property))
                        yield other.urn, finding


def _customised_elsewhere(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    told: set[tuple[str, str]] = set()
    whole: set[str] = set()
    """Templates of which everything was told."""
    for resource in stack.resources:
        for pool in resource.pools:
            if not pool.elsewhere or not stack.joined(resource, pool).has_gpus:
                continue
            for other in stack.referred(resource, pool):
                made_by = stack.component(resource)
                if other.template is None or other.urn in whole or any(each.has_gpus for each in other.pools):
                    continue
                if made_by is not None and other.parent == made_by.urn:
                    continue  # what a component makes is told of its own inputs
                # A template has no labels; the pool that is made from it says what it is called.
                template = replace(other.template, labels={**other.template.labels, **pool.labels})
                found = list(by_hand(template, CUSTOMISED_ELSEWHERE, context))
                if len(found) == len(template.node_customizations):
                    whole.add(other.urn)
                for finding in found:
                    if (other.urn, finding.property) not in told:
                        told.add((other.urn, finding.property))
                        yield other.urn, finding


def _one_owner(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    software_conflicts = SoftwareConflicts(stack)
    try:
        yield from _charts_against_pools(stack, software_conflicts)
        yield from _charts_against_charts(stack, software_conflicts)
    except TooMany as too_many:
        yield "", _not_compared(too_many, "whether a piece has two owners")


def _not_compared(too_many: TooMany, question: str) -> Finding:
    return Finding(
        what=f"{question} cannot be verified: the stack has {too_many.what}, more than {MOST_PAIRS:,} pairs",
        fix="split the stack, or give what is alike the same node selector and provider",
        unverified=True,
    )


def _charts_against_pools(stack: DeclaredStack, software_conflicts: SoftwareConflicts) -> Iterator[tuple[str, Finding]]:
    for place, (resource, software) in enumerate(stack.software):
        for piece, _ in PIECES:
            count, first = software_conflicts.with_pools(place, piece)
            if first:
                names = ", ".join(declared.name + (f" ({pool.pool})" if pool.pool else "") for declared, pool in first)
                names += f" and {count - len(first)} more" if count > len(first) else ""
                said_by = ", ".join(first[0][1].software.said_by)
                switch = software.switch(piece)
                cure = (
                    f"set values.{switch}: false" if switch else f"remove {software.kind}, or keep it off these nodes"
                )
                theirs = "one" if piece != CLAIMS else f"a {PLUGIN}"
                what = f"{software.kind} brings the {piece} to nodes that have {theirs} from the cloud: {names}"
                yield (
                    resource.urn,
                    Finding(
                        what=what + (f" ({said_by})" if said_by else ""),
                        property=f"values.{switch}" if switch else "",
                        found="on",
                        fix=f"{cure}, or switch the cloud's own off",
                    ),
                )


def _charts_against_charts(
    stack: DeclaredStack, software_conflicts: SoftwareConflicts
) -> Iterator[tuple[str, Finding]]:
    for place, earlier_place, count, one, other in software_conflicts.with_software():
        (earlier, first), (later, second) = stack.software[earlier_place], stack.software[place]
        switch = second.switch(other) or first.switch(one)
        several = "one" if count == 1 else "all but one"
        cure = f"set values.{switch}: false" if switch else f"remove {several} of them or keep {second.kind} apart"
        here, there = f"{second.kind} ({later.name})", f"{first.kind} ({earlier.name})"
        there += f" and {count - 1} more" if count > 1 else ""
        what = f"{here} and {there} {'both' if count == 1 else 'all'} bring the {one}"
        if one != other:
            what = f"{here} brings the {other} and {there} the {one}"
        yield later.urn, Finding(what=f"{what} to the same nodes", fix=cure)


def _driver_installed(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    software_conflicts = SoftwareConflicts(stack)
    yield from _nowhere_to_start(software_conflicts)
    for resource, pool in stack.gpu_pools:
        if pool.software.driver is not By.NOBODY or pool.accelerator == "amd":
            continue
        try:
            kinds, installs = software_conflicts.on(resource)
        except TooMany as too_many:
            yield "", _not_compared(too_many, "whether something installs a GPU driver")
            return
        if installs:
            continue
        said_by = ", ".join(pool.software.said_by) or "its image"
        others = ", ".join(kinds)
        yield (
            resource.urn,
            Finding(
                what=f"nothing installs a GPU driver on its nodes ({said_by})"
                + (f": {others} of this stack does not" if others else ", unless something outside this stack does"),
                fix="take a node image with the driver, let the cloud install it, or install gpu-operator with driver",
                pool=pool.pool,
                unverified=not kinds,
            ),
        )


def _nowhere_to_start(software_conflicts: SoftwareConflicts) -> Iterator[tuple[str, Finding]]:
    """Find GPU Operators that bring a driver to a cluster all of whose pools keep them off, such as AKS's system pools.

    Other pools may come from outside the stack, so that it is never sure.
    """
    try:
        found = list(software_conflicts.nowhere_to_start())
    except TooMany as too_many:
        yield "", _not_compared(too_many, "whether GPU Operators have a node to start on")
        return
    for release, path, (declared, pool), taint in found:
        where = declared.name + (f" ({pool.pool})" if pool.pool else "")
        yield (
            release.urn,
            Finding(
                what=f"brings a GPU driver and starts on no pool of its cluster in this stack: {where} has the taint"
                f" {taint}, which values.{path} does not tolerate, and no other takes it",
                property=f"values.{path}",
                found="without it",
                fix="add a pool without GPUs and taints, or tolerate it there (runtime.cpu_taints of a stack file)",
                unverified=True,
            ),
        )


def _stack_bounded(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    nodes_cap = STACK_BOUNDED.option(context, "maxNodes")
    gpus_cap = STACK_BOUNDED.option(context, "maxGpus")
    if nodes_cap is None and gpus_cap is None:
        return
    sizes = [(each, pool, pool.most_nodes or 0) for each, pool in stack.gpu_pools]
    nodes = sum(most for _, _, most in sizes)
    gpus = sum(most * (pool.gpus_per_node or 1) for _, pool, most in sizes)
    # Counted with one zone where it is not known yet how many a pool has.
    known = [(pool.max_nodes or 0 if pool.zones_unknown else most, pool) for _, pool, most in sizes]
    sure = {"nodes": sum(most for most, _ in known), "GPUs": sum(most * (p.gpus_per_node or 1) for most, p in known)}
    largest = ", ".join(
        f"{each.name} {most}{in_zones(pool)}"
        for each, pool, most in sorted(sizes, key=lambda size: size[2], reverse=True)[:3]
    )
    for total, cap, word in ((nodes, nodes_cap, "nodes"), (gpus, gpus_cap, "GPUs")):
        if cap is not None and total > cap:
            shown = int(total) if total == int(total) else float(total)
            what = f"the GPU pools of this stack may grow to {shown} {word} together, and the cap is {int(cap)}"
            fix = "lower the maximum of some pools"
            what += f"; largest pools, in nodes: {largest}"
            yield "", Finding(what=what, fix=fix, unverified=sure[word] <= cap)
    for each, pool, _ in sizes:
        if pool.max_nodes is None:
            what = "has no bound that can be read here, so the stack's total has none"
            fix = "set a maximum number of nodes"
            yield each.urn, Finding(what=what, fix=fix, pool=pool.pool, unverified=UNKNOWN in each.inputs.values())


_LONGEST_KIND = 200
"""Characters of a kind that are shown: a reason in the configuration names it whole."""


def _understood(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Find what may bring nodes and is not understood; what does not look like it is advice, once for each kind."""
    reasons = {kind: why for kind, why in UNDERSTOOD.option(context, "reasons").items() if why.strip()}

    def reason(kind: str) -> str:
        return next((why for pattern, why in reasons.items() if fnmatchcase(kind, pattern)), "")

    for gap in stack.gaps:
        why = reason(gap.name)
        what = f"{gap.what}{f'; left so: {why}' if why else ''}"
        yield "", Finding(what=what, fix=gap.fix, unverified=True, advice=bool(why))
    alike: dict[tuple[str, str], list[tuple[str, Unclassified]]] = {}
    for urn, unread in stack.unread.items():
        why = reason(unread.kind)
        if why or not unread.nodes:
            alike.setdefault((unread.kind, why), []).append((urn, unread))
            continue
        kind = shown(unread.kind, most=_LONGEST_KIND)
        yield (
            urn,
            Finding(
                what=f"{kind} is not understood here, so whether it brings nodes with GPUs that no taint "
                f"keeps free cannot be verified: {unread.why}",
                fix="judge what it creates, or give the reason in the policy's configuration: {reasons: "
                f"{{{kind}: …}}}}",
                source=unread.source,
                unverified=True,
            ),
        )
    for (kind, why), found in alike.items():
        urn, unread = found[0]
        more = f", {len(found)} times" if len(found) > 1 else ""
        ends = f"; left so: {why}" if why else "" if unread.elsewhere else ", and does not look as if it brought nodes"
        fix = "nothing to do" if why else "judge what it creates, if that has nodes"
        fix = "judge both together" if unread.elsewhere and not why else fix
        what = f"{shown(kind, most=_LONGEST_KIND)} is not understood here{more}: {unread.why}{ends}"
        yield urn, Finding(what=what, fix=fix, source=unread.source, advice=True)


def _waivers_current(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Judge the waivers of the configuration, where the context has them, and those of the objects themselves."""
    given = list(context.waivers)
    for resource in stack.resources:
        if resource.pools or resource.software or resource.template or resource.unread:
            annotated, problems = waivers.annotated(resource.urn, resource.type, resource.inputs, RULE_NAMES)
            given += annotated
            for problem in problems:
                fix = "write {reason: …, owner: …, expires: YYYY-MM-DD}"
                yield resource.urn, Finding(what=problem, property="metadata.annotations", found="set", fix=fix)
    scopes = {waivers.scope(resource.urn) for resource in stack.resources}
    yield from unfit(given, context.waived, scopes, context.today)


def unfit(
    given: Iterable[Waiver], used: Collection[Waiver], scopes: Collection[str], today: date
) -> Iterator[tuple[str, Finding]]:
    """Yield what is wrong with waivers, with the address they are for.

    Args:
        given: The waivers.
        used: Those that let a finding pass.
        scopes: `scope` of what was judged; a waiver for something else is none of this run's business.
        today: The day it is.
    """
    for each in dict.fromkeys(given):
        if scope(each.resource) not in scopes:
            continue
        pool = f", pool {shown(each.pool)}" if each.pool else ""
        about = f"the waiver of {each.rule} for {shown(each.resource)}{pool} ({each.owner}: {each.reason})"
        place = "its annotation" if each.annotated else f"{each.rule}.{waivers.KEY} of the policy's configuration"
        if today > each.expires:
            fix = f"mend the resource, or renew the waiver in {place}"
            yield each.resource, Finding(what=f"{about} ended on {each.expires}", fix=fix)
        elif each not in used:
            fix = f"take it out of {place}, or write the address as a report has it"
            yield each.resource, Finding(what=f"{about} matches nothing that the rule found", fix=fix)


_ONE_OWNER = Framework(
    "NVIDIA GPU Operator documentation",
    "26.7",
    "Platform support, pre-installed drivers and toolkit",
    "exactly one source for driver, toolkit and device plugin on each node",
)
TAINTED_ELSEWHERE = Rule(
    name="gpu-pool-tainted-elsewhere",
    level=Level.MANDATORY,
    severity="high",
    why="A launch template can hide the GPUs of a node that accepts pods without GPU work.",
    fix="Give the pool a hard taint in its own inputs, as a plain value.",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    framework=RULES[0].framework,
    config=unknown_at_preview(),
    stack=_tainted_elsewhere,
)
STACK_BOUNDED = Rule(
    name="gpu-stack-bounded",
    level=Level.MANDATORY,
    severity="medium",
    why="All GPU pools of a stack together can cost as much as their largest sizes, every hour.",
    fix="Lower the maximum of some pools, or raise the environment's cap.",
    url="https://docs.aws.amazon.com/wellarchitected/latest/cost-optimization-pillar/welcome.html",
    framework=Framework(
        "AWS Well-Architected Framework", "2026", "Cost optimization", "bound what scarce resources cost"
    ),
    config={
        **unknown_at_preview(),
        "maxNodes": {
            "type": "integer",
            "minimum": 0,
            "description": "Most GPU nodes of a stack, over all its pools; without it nodes are not counted.",
        },
        "maxGpus": {
            "type": "integer",
            "minimum": 0,
            "description": "Most GPUs of a stack, over all its pools; without it GPUs are not counted.",
        },
    },
    stack=_stack_bounded,
)
CUSTOMISED_ELSEWHERE = Rule(
    name="gpu-node-customised-elsewhere",
    level=Level.ADVISORY,
    severity="high",
    why="What a launch template runs at boot runs on every node made from it.",
    fix="Leave it out, or name it with its reason in the policy's configuration.",
    url="https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html",
    framework=HARDENING,
    config={**unknown_at_preview("advisory"), **REASONS},
    stack=_customised_elsewhere,
)
UNDERSTOOD = Rule(
    name="node-pools-understood",
    level=Level.MANDATORY,
    severity="high",
    why="A resource of an unknown kind may create GPU nodes that no rule has judged.",
    fix="Judge what it creates (terraform show -json, helm template, az deployment what-if, a change set), or name its "
    "kind with a reason in the configuration.",
    url="https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
    framework=RULES[0].framework,
    config={
        **unknown_at_preview(),
        "reasons": {
            "type": "object",
            "additionalProperties": {"type": "string", "pattern": r"\S"},
            "default": {},
            "description": "Unknown kinds that are accepted, with the reason: a kind as findings name it, as a"
            " pattern with * and ?, to a sentence. They are advice then.",
        },
    },
    stack=_understood,
)
CURRENT = Rule(
    name=WAIVERS_CURRENT,
    level=Level.MANDATORY,
    severity="medium",
    why="A waiver that has ended, or that nothing needs, lets the next violation pass unseen.",
    fix="Take the waiver out, mend it, or renew it with its reason.",
    url="https://csrc.nist.gov/pubs/sp/800/53/r5/upd1/final",
    framework=Framework(
        "NIST SP 800-53", "Rev. 5", "CA-5, plan of action and milestones", "exceptions have an owner and an end"
    ),
    stack=_waivers_current,
)
STACK_RULES: tuple[Rule, ...] = (
    TAINTED_ELSEWHERE,
    Rule(
        name="gpu-machines-kept-out",
        level=Level.ADVISORY,
        severity="low",
        why="A Karpenter pool that machines with GPUs fit gets one when a pod asks for a GPU, and other pods fill it.",
        fix="Keep machines with GPUs out by a requirement, and give them a pool of their own with the taint.",
        url="https://karpenter.sh/docs/concepts/nodepools/#isolating-expensive-hardware",
        framework=RULES[0].framework,
        stack=_kept_out,
    ),
    UNDERSTOOD,
    CUSTOMISED_ELSEWHERE,
    Rule(
        name="gpu-node-hardened-elsewhere",
        level=Level.MANDATORY,
        severity="high",
        why="What a launch template leaves open is open on every node made from it.",
        fix="Set the named input of the template to the wanted value.",
        url="https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html",
        framework=HARDENING,
        config=unknown_at_preview("advisory"),
        stack=_hardened_elsewhere,
    ),
    Rule(
        name="gpu-software-one-owner",
        level=Level.MANDATORY,
        severity="high",
        why="Two drivers on a node break each other, and two device plugins hand out the same GPU twice.",
        fix="Switch all owners of the piece off but one.",
        url="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html",
        framework=_ONE_OWNER,
        stack=_one_owner,
    ),
    Rule(
        name="gpu-driver-installed",
        level=Level.MANDATORY,
        severity="medium",
        why="Without a driver a GPU node has no GPU to schedule on and costs the same.",
        fix="Take a node image with the driver, or install one with the GPU Operator.",
        url="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html",
        framework=_ONE_OWNER,
        config=unknown_at_preview("advisory"),
        stack=_driver_installed,
    ),
    STACK_BOUNDED,
    CURRENT,
)
"""The rules that see the whole stack, in the order in which they are asked."""

ALL_RULES: tuple[Rule, ...] = (*RULES, *STACK_RULES)
"""Every rule of the pack."""

RULE_NAMES = frozenset(rule.name for rule in ALL_RULES if rule is not CURRENT)
"""Those that can be waived."""
