"""GPU nodes get a driver."""

from collections.abc import Iterator

from gpupools.plan.pool_facts import By
from gpupools.policies.declared_stack import DeclaredStack
from gpupools.policies.finding import Context, Finding, Rule, unknown_at_preview
from gpupools.policies.rules._table import described
from gpupools.policies.software_conflicts import SoftwareConflicts, compared


def _findings(stack: DeclaredStack, context: Context) -> Iterator[tuple[str, Finding]]:
    conflicts = SoftwareConflicts(stack)
    yield from compared(_unschedulable_operators(conflicts), "whether GPU Operators have a node to start on")
    yield from compared(_without_driver(stack, conflicts), "whether something installs a GPU driver")


def _without_driver(stack: DeclaredStack, conflicts: SoftwareConflicts) -> Iterator[tuple[str, Finding]]:
    for resource, pool in stack.gpu_pools:
        if pool.software.driver is not By.NOBODY or pool.accelerator == "amd":
            continue
        kinds, installs = conflicts.installed_on(resource)
        if installs:
            continue
        said_by = ", ".join(pool.software.said_by) or "its image"
        others = ", ".join(kinds)
        yield (
            resource.urn,
            Finding(
                what=f"nothing installs a GPU driver on its nodes ({said_by})"
                + (f": {others} of this stack does not" if others else ", unless something outside this stack does"),
                fix="let the cloud install it, because the GPU Operator does not have the driver for these machines"
                if pool.software.needs_cloud_driver
                else "use a node image with the driver, let the cloud install it, or install gpu-operator with driver",
                pool=pool.pool,
                unverified=not kinds,
            ),
        )


def _unschedulable_operators(conflicts: SoftwareConflicts) -> Iterator[tuple[str, Finding]]:
    """Report GPU Operators that no known pool of their cluster accepts, such as a cluster with only AKS system pools.

    Findings are unverified, because the cluster may have pools outside the stack.
    """
    for release, path, (declared, pool), taint in conflicts.unschedulable_operators():
        where = declared.name + (f" ({pool.pool})" if pool.pool else "")
        yield (
            release.urn,
            Finding(
                what=f"installs a GPU driver but cannot start on any pool of its cluster in this stack: {where} has "
                f"the taint {taint}, which values.{path} does not tolerate, and no other pool accepts it",
                property=f"values.{path}",
                found="without it",
                fix="add a pool without GPUs and taints, or tolerate it there (runtime.cpu_taints in a stack file)",
                unverified=True,
                lacks_cpu_pool=True,
            ),
        )


RULE = Rule(
    **described(__name__),
    config=unknown_at_preview("advisory"),
    stack=_findings,
)
