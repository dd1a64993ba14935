"""Which steps of the software of a cluster come before others."""

from gpupools.plan.software_plan import RuntimePlan


def before_pools(plan: RuntimePlan) -> frozenset[str]:
    """Return the steps that some pool waits for."""
    waiting = [before for step, befores in plan.depends.items() if step.startswith("pool/") for before in befores]
    found: set[str] = set()
    while waiting:
        step = waiting.pop()
        if step not in found:
            found.add(step)
            waiting += plan.depends[step]
    return frozenset(found)
