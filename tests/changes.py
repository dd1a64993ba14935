"""What an edit does, from two plans instead of the record of the last update."""

from collections.abc import Iterable, Mapping

from gpupools.diff.pool_change import PoolChange
from gpupools.diff.pool_diff import compare
from gpupools.diff.records import record
from gpupools.diff.software_diff import SoftwareChange, compare_software, record_software
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import Release, RuntimePlan
from gpupools.software.charts import value_paths
from gpupools.software.release_changes import ReleaseChange, ReleaseState, release_change
from gpupools.spec.models import has_control_daemon
from gpupools.stackfile.stack import StackPlan


def diff(old: StackPlan, new: StackPlan, clouds: Mapping[str, Cloud]) -> list[PoolChange]:
    """Return what happens to every pool, in the order of the new file; deleted pools come last."""
    return compare([record(plan, old.stack) for plan in old.pools], new, clouds)


def diff_software(old: StackPlan, new: StackPlan, pools: Iterable[PoolChange]) -> list[SoftwareChange]:
    """Return what happens to the software of every cluster by two plans; `pools` is what happens to the pools."""
    mps = {(pool.cluster, pool.name) for pool in old.pools if has_control_daemon(pool.sharing.kind)}
    return compare_software([record_software(each, old.stack) for each in old.runtimes], new, pools, mps)


def release_changes(
    old: Iterable[RuntimePlan], new: Iterable[RuntimePlan], pools: Iterable[PoolPlan]
) -> tuple[ReleaseChange, ...]:
    """Say what becomes of every release that is in both plans and differs; `pools` are those before."""
    before = {(plan.cluster, release.name): release for plan in old for release in plan.releases}
    mps = {(pool.cluster, pool.name) for pool in pools if has_control_daemon(pool.sharing.kind)}
    found = []
    for plan in new:
        shared = [name for cluster, name in mps if cluster == plan.cluster]
        for release in plan.releases:
            was = before.get((plan.cluster, release.name))
            change = None
            if was is not None:
                stay = tuple(pool for pool in was.pools if pool in release.pools)
                change = release_change(plan.cluster, _state(was), _state(release)._replace(pools=stay), shared)
            found += [change] if change is not None else []
    return tuple(found)


def _state(release: Release) -> ReleaseState:
    return ReleaseState(release.chart, release.version, dict(value_paths(release.values)), release.pools)
