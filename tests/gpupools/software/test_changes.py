"""What a change of a release does to the pods that run, and that every value ever sent has a row which says so."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.diff.pool_change import PoolChange
from gpupools.diff.software_diff import SoftwareRecord, compare_software, record_software
from gpupools.plan.edit_tables import EditEffect
from gpupools.plan.software_plan import RuntimePlan
from gpupools.providers import clouds
from gpupools.software.charts import merged, nested, value_paths
from gpupools.software.planning import plan_runtimes
from gpupools.software.release_changes import PodEffect, ReleaseChange, release_edits
from gpupools.stackfile.stack import StackPlan
from tests.changes import release_changes
from tests.gpupools.software.combinations import COMBINATIONS
from tests.gpupools.software.conftest import pools_of, stack_of
from tests.stack_plans import plan_stack

OPERATOR = {"gpu": "T4", "software": "gpu-operator"}
MPS = {**OPERATOR, "sharing": {"mode": "mps", "replicas": 4}, "trust": {"team": "vision"}}


def planned(cloud: str, pool: Mapping[str, Any], **runtime: Any) -> RuntimePlan:
    stack = stack_of(cloud, {"a": pool}, runtime)
    return plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())[0]


def with_release(plan: RuntimePlan, version: str = "", values: Mapping[str, Any] | None = None) -> RuntimePlan:
    """Return the plan with its first release in another version, or with other values."""
    first, *rest = plan.releases
    changed = first._replace(version=version or first.version, values=merged(first.values, nested(values or {})))
    return plan._replace(releases=(changed, *rest))


def changes(cloud: str, pool: Mapping[str, Any], version: str = "", **values: Any) -> list[ReleaseChange]:
    old = planned(cloud, pool, digests="off")  # digests belong to one version
    new = with_release(old, version, {path.replace("__", "."): value for path, value in values.items()})
    return list(release_changes([old], [new], pools_of(cloud, {"a": pool})))


@pytest.mark.parametrize(
    ("cloud", "pool", "version", "effect"),
    [
        ("azure", OPERATOR, "v26.3.3", PodEffect.GPU_PODS),
        ("aws", OPERATOR, "v26.3.3", PodEffect.DAEMONS),  # AL2023 brings the driver
        ("aws", {**MPS, "image": {"family": "al2023"}}, "v26.3.3", PodEffect.MPS_PODS),
        ("aws", OPERATOR, "v99.0.0", PodEffect.UNKNOWN),
        ("azure", OPERATOR, "v99.0.0", PodEffect.GPU_PODS),
    ],
)
def test_another_chart_version_is_told_with_what_it_does_to_pods(
    cloud: str, pool: Mapping[str, Any], version: str, effect: PodEffect
) -> None:
    (change,) = changes(cloud, pool, version)

    assert change.effect is effect
    assert change.pools == ("a",)


def test_a_drivers_versions_are_named() -> None:
    (change,) = changes("azure", OPERATOR, "v26.3.3")

    assert change.installs["driver"] == ("595.91.07", "580.126.20")
    assert str(change).startswith(
        "c: ends pods that have a GPU on a, node by node; "
        "gpu-operator v26.7.0 → v26.3.3 (driver 595.91.07 → 580.126.20, container-toolkit "
    )
    assert "); the operator upgrades the driver one node at a time" in str(change)


def test_what_an_unknown_version_installs_is_not_guessed() -> None:
    (change,) = changes("aws", OPERATOR, "v99.0.0")

    assert change.installs == {}
    assert "what v99.0.0 installs is not known to this release" in str(change)


def test_a_driver_by_hand_ends_no_pods_by_itself() -> None:
    old = planned("azure", OPERATOR, driver_auto_upgrade=False)
    new = with_release(old, values={"driver.version": "580.178.04"})
    (change,) = release_changes([old], [new], pools_of("azure", {"a": OPERATOR}))

    assert (change.effect, change.installs) == (PodEffect.DAEMONS, {"driver": ("595.91.07", "580.178.04")})


@pytest.mark.parametrize(
    ("pool", "path", "value", "effect"),
    [
        (OPERATOR, "driver.version", "580.178.04", PodEffect.GPU_PODS),
        (OPERATOR, "driver.upgradePolicy.maxParallelUpgrades", 2, PodEffect.NONE),
        (OPERATOR, "daemonsets.tolerations", [{"operator": "Exists"}], PodEffect.DAEMONS),
        (MPS, "daemonsets.tolerations", [{"operator": "Exists"}], PodEffect.MPS_PODS),
        (MPS, "devicePlugin.config.name", "other", PodEffect.MPS_PODS),
        (OPERATOR, "migManager.enabled", True, PodEffect.DAEMONS),
        ({**MPS, "software": "device-plugin"}, "config.name", "other", PodEffect.MPS_PODS),
        ({"gpu": "T4", "software": "device-plugin"}, "tolerations", [], PodEffect.DAEMONS),
    ],
)
def test_a_value_does_what_its_row_says(pool: Mapping[str, Any], path: str, value: Any, effect: PodEffect) -> None:
    (change,) = changes("azure", pool, **{path.replace(".", "__"): value})

    assert (change.values, change.effect) == ((path,), effect)


def test_before_the_operator_could_tell_drivers_apart_any_change_of_its_daemons_replaced_them() -> None:
    old = with_release(planned("azure", OPERATOR), "v26.3.3")
    new = with_release(old, values={"daemonsets.tolerations": []})

    assert [each.effect for each in release_changes([old], [new], ())] == [PodEffect.GPU_PODS]


def test_drivers_that_are_changed_by_hand_stay_with_any_version() -> None:
    old = with_release(planned("azure", OPERATOR, driver_auto_upgrade=False), "v26.3.3")
    new = with_release(old, values={"daemonsets.tolerations": []})

    assert [each.effect for each in release_changes([old], [new], ())] == [PodEffect.DAEMONS]


def test_nothing_is_said_of_what_stays_or_comes() -> None:
    old = planned("azure", OPERATOR)

    assert release_changes([old], [old], ()) == ()
    assert release_changes([], [old], ()) == ()
    assert release_changes([old], [], ()) == ()


PLANS = {
    f"{cloud}, {pool['software']}, {'mps' if 'sharing' in pool else 'whole'}, {runtime}": (cloud, pool, runtime)
    for cloud in ("azure", "aws")
    for pool in (OPERATOR, MPS, {**MPS, "software": "device-plugin"}, {"gpu": "T4", "software": "device-plugin"})
    for runtime in ({"digests": "off"}, {"digests": "off", "driver_auto_upgrade": False})
    if len(runtime) == 1 or (pool["software"], cloud) == ("gpu-operator", "azure")  # where it installs the driver
}


@pytest.mark.parametrize("case", PLANS)
def test_the_last_updates_record_is_judged_like_its_plan_by_every_row(case: str) -> None:
    cloud, pool, runtime = PLANS[case]
    pool = {**pool, "image": {"family": "al2023"}} if cloud == "aws" else pool
    stack, pools = stack_of(cloud, {"a": pool}, runtime), pools_of(cloud, {"a": pool})
    old = planned(cloud, pool, **runtime)
    chart = old.releases[0].chart
    digests = planned(cloud, pool, **{key: value for key, value in runtime.items() if key != "digests"})
    news = {"digests": digests, "version": with_release(old, "v26.3.3"), "unknown": with_release(old, "v99.0.0")}
    news |= {
        row.path: with_release(old, values={row.path: "other"})
        for row in release_edits()
        if row.chart == chart and row.path not in ("", "version")
    }
    record = SoftwareRecord.from_json(json.loads(json.dumps(record_software(old, stack).as_json()), parse_int=float))
    assert record is not None
    sharing = {("c", "a")} if pool.get("sharing") else set()
    seen: set[str] = set()
    for name, new in news.items():
        (change, *_) = release_changes([old], [new], pools)
        plan = StackPlan(stack, tuple(pools), (new,))
        stay = [PoolChange("c", "a", "unchanged", EditEffect.NONE, (), "")]
        (said, *_) = (each for each in compare_software([record], plan, stay, sharing) if each.release is not None)
        assert said.release is not None
        assert (said.release.as_json(), said.release.ends) == (change.as_json(), change.ends), name
        assert (said.headline, said.pods) == (change.headline, "; ".join(change.details)), name
        seen.add(change.effect.value)
        assert all(edit in release_edits() or edit.path == "version" for edit in change.edits.values()), name
    assert len(seen) > 1 or chart != "gpu-operator"


def test_every_value_that_is_ever_sent_has_a_row() -> None:
    sent = {
        (release.chart, path)
        for each in COMBINATIONS.values()
        for release in plan_of(each.cloud, each.pools).releases
        for path in ("version", *(path for path, _ in value_paths(release.values)))
    }
    covered = {
        (chart, path)
        for chart, path in sent
        if any(row.chart == chart and row.path in ("", path, path.partition(".")[0]) for row in release_edits())
    }

    assert sent - covered == set()
    assert all(row.source for row in release_edits())


def plan_of(cloud: str, pools: Mapping[str, Mapping[str, Any]]) -> RuntimePlan:
    stack = stack_of(cloud, pools)
    return plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())[0]
