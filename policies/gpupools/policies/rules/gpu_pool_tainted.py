"""GPU pools keep pods without GPU work off their nodes."""

from collections.abc import Iterator
from dataclasses import replace

from gpupools.plan.pool_facts import PoolFacts, Reference
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule, choice, unknown_at_preview
from gpupools.policies.rules._table import described


def _deciding_references(pool: PoolFacts) -> tuple[Reference, ...]:
    """Return the referenced resources that can decide whether the pool needs or has a taint."""
    proven = pool.has_gpus
    open_questions = {"taints"} if proven else {"machine", "image", "taints"}
    return tuple(reference for reference in pool.elsewhere if reference.decides & open_questions)


def _missing_taint(pool: PoolFacts) -> Finding | None:
    """Report a missing taint by the facts of the pool alone, without resources that it refers to."""
    if not pool.lacks_taint:
        return None
    where = pool.where or "taints"
    # An instance type newer than the catalog, or an NVIDIA image, is evidence of GPUs of unknown number.
    gpus = bool(pool.gpus_per_node) or bool(pool.evidence)
    proven = gpus and pool.in_cluster is True
    late = [name for name in pool.unknown if not proven or _overlaps(name, where)]
    late += [name for name in pool.unresolved_taints if name not in late]
    not_counted = f"; ignored: {', '.join(pool.not_counted)}" if pool.not_counted else ""
    if proven and not late:
        return Finding(
            what=f"has {_gpu_count(pool)}, but no permanent taint keeps other pods off{not_counted}"
            + (f"; {pool.cloud_taint}" if pool.cloud_taint else ""),
            property=where,
            fix="move the GPUs to a pool of their own, because this one has no field for taints"
            if pool.no_taint_field
            else f"add {pool.missing_taint.text} to {where}",
            pool=pool.pool,
            found=_shown_taints(pool),
        )
    names = ", ".join(late) or ("whether the machines join a cluster" if gpus else "the machine type")
    reason = f"{names} not known yet, or not in this resource"
    fix = f"write machine type and taints as plain values here, with {pool.missing_taint.text} in {where}"
    if pool.has_unevaluated_script:
        reason = f"user data is a script that gpupools does not evaluate ({names})"
        fix = f"set the taint in {where}: {pool.missing_taint.text}"
    return Finding(
        what=f"{f'has {_gpu_count(pool)}' if gpus else 'may have GPUs'}, but whether a taint keeps other pods off "
        f"cannot be verified: {reason}{not_counted}",
        property=where,
        fix=fix + ("" if gpus else " if the nodes have GPUs"),
        pool=pool.pool,
        found=_shown_taints(pool),
        unverified=True,
        needs_fix=pool.has_unevaluated_script,
    )


def _shown_taints(pool: PoolFacts) -> str | None:
    """Return taints from another object or from a text; None if they are a property of the pool itself.

    Texts such as user data may hold secrets, so findings show only their taints.
    """
    if " → " not in pool.where and (pool.missing_taint.value is not None or pool.no_taint_field):
        return None
    return ", ".join(f"{taint.key}:{taint.effect}" for taint in pool.taints) or "none"


def _gpu_count(pool: PoolFacts) -> str:
    count, vendor = pool.gpus_per_node, "AMD" if pool.accelerator == "amd" else "NVIDIA"
    number = f"{count} {vendor} GPU{'s' if count > 1 else ''} per node" if count else f"{vendor} GPUs"
    return f"{number} ({pool.evidence})" if pool.evidence else number


def _overlaps(unknown: str, path: str) -> bool:
    """Say whether an unknown input is the one at `path`, contains it, or is part of it."""
    return (
        unknown == path
        or unknown.startswith((f"{path}[", f"{path}."))
        or path.startswith((f"{unknown}.", f"{unknown}["))
    )


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    """Report a GPU pool whose nodes accept pods that request no GPUs.

    The fix names the GPU taint, but any permanent taint with a key and a hard effect satisfies the rule.

    Values that are unknown at preview: a known taint that keeps pods off is enough, and so is a known absence of GPUs.
    Known GPUs and a known absence of such a taint are a violation. Otherwise the finding is `unverified`, which is a
    violation unless the configuration sets `unknownAtPreview: advisory`. If another resource, such as a launch
    template, holds the instance type or the taints, `_judge_stack` judges the pool.
    """
    if not _deciding_references(pool) and (finding := _missing_taint(pool)) is not None:
        advice = bool(pool.cloud_taint) and not finding.unverified and RULE.option(context, _BY_CLOUD) == "advisory"
        yield replace(finding, advice=advice)


def _judge_stack(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    """Report pools whose machines or taints are in another resource, joined with it."""
    at_fault: set[str] = set()
    for resource in stack.resources:
        for pool in resource.pools:
            within = stack.component(resource) if pool.elsewhere else None
            if pool.elsewhere and (within or _deciding_references(pool)) and _missing_taint(pool) is not None:
                whole = stack.joined(resource, pool)
                if whole.in_cluster is None and not (whole.gpus_per_node or whole.evidence):
                    continue  # neither GPUs nor nodes are known
                finding = _missing_taint(whole)
                if finding is not None and not pool.evidence and stack.is_reported_on_reference(resource, pool):
                    continue  # reported on the template
                reported = within is not None and (
                    within.urn in at_fault or any(read_pool.lacks_taint for read_pool in within.pools)
                )
                if finding is not None and not reported and not (within and finding.unverified):
                    at_fault.add(resource.urn)
                    yield resource.urn, finding


_BY_CLOUD = "taintByCloud"


def taint_can_be_added(pool: PoolFacts) -> bool:
    """Say whether remediation can safely add the missing taint.

    It can if the pool certainly has GPUs and lacks the taint. It can also if only another resource may add taints, such
    as the launch template of an EKS group with an EKS image: nodes register with the pool's own list, so a taint there
    is correct in any case.
    """
    finding = _missing_taint(pool)
    if finding is None or pool.no_taint_field:
        return False
    if not finding.unverified:
        return True
    others = {reference.property for reference in pool.elsewhere if not reference.decides & {"machine", "image"}}
    own = [name for name in pool.unknown if _overlaps(name, pool.where)]
    return pool.has_gpus and not own and set(pool.unresolved_taints) <= others


RULE = Rule(
    **described(__name__),
    config={
        **unknown_at_preview(),
        _BY_CLOUD: choice(
            "violation",
            "advisory",
            of="Level of findings on GKE pools without a declared taint. GKE adds one only while the cluster has a "
            "pool without GPUs.",
        ),
    },
    pool=_findings,
    stack=_judge_stack,
)
