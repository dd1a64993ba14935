"""Findings about taints that GPU pools lack."""

from gpupools.plan.pool_facts import PoolFacts, Reference
from gpupools.policies.finding import Finding


def deciding_references(pool: PoolFacts) -> tuple[Reference, ...]:
    """Return the referenced resources that can decide whether the pool needs or has a taint."""
    proven = pool.has_gpus
    open_questions = {"taints"} if proven else {"machine", "image", "taints"}
    return tuple(reference for reference in pool.elsewhere if reference.decides & open_questions)


def find_missing_taint(pool: PoolFacts) -> Finding | None:
    """Report a missing taint by the facts of the pool alone, without resources that it refers to."""
    if not pool.lacks_taint:
        return None
    where = pool.where or "taints"
    # An instance type newer than the catalog, or an NVIDIA image, is evidence of GPUs of unknown number.
    gpus = bool(pool.gpus_per_node) or bool(pool.evidence)
    proven = gpus and pool.in_cluster is True
    late = [name for name in pool.unknown if not proven or overlaps(name, where)]
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


def overlaps(unknown: str, path: str) -> bool:
    """Say whether an unknown input is the one at `path`, contains it, or is part of it."""
    return (
        unknown == path
        or unknown.startswith((f"{path}[", f"{path}."))
        or path.startswith((f"{unknown}.", f"{unknown}["))
    )
