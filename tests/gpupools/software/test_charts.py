"""What the pinned charts are sent: only values they read, tolerations for every operand, versions above the floors."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupools.catalog.minimum_versions import NEWEST_BULLETIN, below_floor, version_floors
from gpupools.common.taints import Effect, Taint
from gpupools.plan.software_plan import RuntimePlan
from gpupools.plan.tolerations import tolerates, tolerations_for, untolerated
from gpupools.policies.rules import gpu_software_pinned
from gpupools.software.charts import (
    OPERANDS,
    UnknownValue,
    accepted_values,
    at,
    charts,
    check_values,
    default_values,
    merged,
    nested,
    outdated,
    too_old,
)
from gpupools.software.owners import operands_of
from tests.gpupools.software.combinations import A100, COMBINATIONS, Combination
from tests.gpupools.software.conftest import Planner, pools_of

ROOT = Path(__file__).parents[3]

EVERY = pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=COMBINATIONS)


@EVERY
def test_every_value_sent_is_one_the_chart_reads(combination: Combination, plan: Planner) -> None:
    for release in plan(combination.cloud, combination.pools, metrics=None).releases:
        check_values(release.chart, release.values)


@EVERY
def test_releases_are_pinned_patient_and_in_a_namespace_of_their_own(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    spaces = {each.manifest["metadata"]["name"] for each in made.objects if each.kind == "Namespace"}

    assert {release.version for release in made.releases} == {charts()[each.chart].version for each in made.releases}
    assert {release.namespace for release in made.releases} == spaces - {"gpupools-startup-gate"}
    assert [release.name for release in made.releases if release.timeout_s < 1800] == []


@pytest.mark.parametrize(
    ("chart", "values", "found"),
    [
        ("gpu-operator", {"daemonset.tolerations": []}, "reads no daemonset.tolerations; did you mean 'daemonsets.tol"),
        ("gpu-operator", {"migManager.tolerations": []}, "reads no migManager.tolerations"),
        ("gpu-operator", {"cdi.default": True}, "reads no cdi.default"),
        ("gpu-operator", {"driver.enabled": "false"}, "driver.enabled takes a bool, got 'false'"),
        ("nvidia-device-plugin", {"worker.tolerations": []}, "reads no worker.tolerations"),
        ("nvidia-device-plugin", {"tolerations": {}}, "tolerations takes a list, got {}"),
        ("dcgm-exporter", {"serviceMonitor": True}, "reads no serviceMonitor"),
        ("node-feature-discovery", {"tolerations": []}, "reads no tolerations"),
    ],
)
def test_a_value_no_chart_reads_is_refused(chart: str, values: Mapping[str, Any], found: str) -> None:
    with pytest.raises(UnknownValue) as caught:
        check_values(chart, nested(values))

    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        ("gpu-operator", {"node-feature-discovery.worker.tolerations": [], "dcgmExporter.config.name": "x"}),
        ("gpu-operator", {"daemonsets.labels.team": "x", "node-feature-discovery.worker.affinity.nodeAffinity": {}}),
        ("nvidia-device-plugin", {"nfd.worker.tolerations": [], "nfd.enabled": False, "migStrategy": "single"}),
        ("node-feature-discovery", {"worker.config.sources.pci.deviceLabelFields": ["vendor"]}),
    ],
)
def test_values_of_charts_inside_and_of_open_maps_are_read(chart: str, values: Mapping[str, Any]) -> None:
    check_values(chart, nested(values))


TERMS = "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("chart", "path", "keys"),
    [
        ("nvidia-device-plugin", f"affinity.{TERMS}", 3),
        ("dra-driver-nvidia-gpu", f"kubeletPlugin.affinity.{TERMS}", 5),
        ("dcgm-exporter", f"affinity.{TERMS}", 0),
    ],
)
def test_the_charts_own_affinity_is_known(chart: str, path: str, keys: int) -> None:
    terms = at(default_values(chart), path, [])
    named = [each["key"] for term in terms for each in term["matchExpressions"]]

    assert (len(named), "nvidia.com/gpu.present" in named) == (keys, bool(keys))


def test_values_are_merged_as_helm_does() -> None:
    below = {"a": {"x": 1, "list": [1, 2]}, "b": {"y": 2}, "c": True}

    assert merged(below, {"a": {"list": [3]}, "b": None, "d": {"z": 4}}) == {
        "a": {"x": 1, "list": [3]},
        "c": True,
        "d": {"z": 4},
    }
    assert at(default_values("gpu-operator"), "node-feature-discovery.master.enable") is True  # of the chart inside
    assert at(default_values("nvidia-device-plugin"), "gfd.enabled") is False


def test_every_operand_takes_its_tolerations_from_a_value_its_chart_reads() -> None:
    kinds = {(each.chart, each.tolerations): accepted_values(each.chart).get(each.tolerations) for each in OPERANDS}
    switches = {(each.chart, each.runs): accepted_values(each.chart).get(each.runs) for each in OPERANDS if each.runs}

    assert set(kinds.values()) == {"list"}
    assert set(switches.values()) == {"bool"}


CUSTOM = [
    "team=vision:NoSchedule",
    "example.com/maintenance=true:NoExecute",
    "batch=yes:NoSchedule",
    "soft=a:PreferNoSchedule",
]


def deaf(made: RuntimePlan, taints: tuple[Taint, ...]) -> list[str]:
    """Return the operands that would not run on nodes with these taints."""
    return [
        f"{operand.name} of {release.chart}"
        for release in made.releases
        for operand in operands_of(release)
        if untolerated(at(release.values, operand.tolerations), taints)
    ] + [
        each.name
        for each in made.objects
        if each.kind == "DaemonSet" and untolerated(each.manifest["spec"]["template"]["spec"]["tolerations"], taints)
    ]


@EVERY
def test_every_operand_tolerates_custom_taints(combination: Combination, plan: Planner) -> None:
    pools = {"a": {**combination.pools["a"], "taints": CUSTOM}}
    try:
        (pool,) = pools_of(combination.cloud, pools)
    except Exception:
        pytest.fail("a pool with custom taints can be planned")
    made = plan(combination.cloud, pools)

    assert deaf(made, pool.taints) == []
    assert {taint.key for taint in pool.taints} >= {"nvidia.com/gpu", "team", "example.com/maintenance", "soft"}


@EVERY
def test_an_operand_that_were_told_less_would_stay_off(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    operands = [f"{operand.name} of {release.chart}" for release in made.releases for operand in operands_of(release)]
    operands += [each.name for each in made.objects if each.kind == "DaemonSet"]

    assert deaf(made, (Taint("team", "vision", Effect.NO_SCHEDULE),)) == operands


@pytest.mark.parametrize(
    ("software", "workloads"), [("cloud-managed", 0), ("device-plugin", 3), ("gpu-operator", 8), ("dra-driver", 2)]
)
def test_all_that_runs_on_gkes_arm_nodes_tolerates_the_taint_that_gke_adds(
    software: str, workloads: int, plan: Planner
) -> None:
    capacity = {"mode": "reservation", "name": "r"}
    where = {"nodes": {"min": 1, "max": 6}, "zones": ["europe-west4-a"], "capacity": capacity}
    pools = {"a": {"instance_type": "a4x-highgpu-4g", "software": software, **where}}
    (pool,) = pools_of("gcp", pools)
    made = plan("gcp", pools)
    arm = Taint("kubernetes.io/arch", "arm64", Effect.NO_SCHEDULE)

    assert arm in pool.taints
    assert len(deaf(made, (Taint("team", "vision", Effect.NO_SCHEDULE),))) == workloads
    assert deaf(made, pool.taints) == []
    assert tolerates(pool.pod()["tolerations"], arm)


def test_every_operand_of_the_data_is_in_some_combination(plan: Planner) -> None:
    seen = {
        (release.chart, operand.name)
        for each in COMBINATIONS.values()
        for release in plan(each.cloud, each.pools).releases
        for operand in operands_of(release)
    }

    left_out = {(each.chart, each.name) for each in OPERANDS} - seen
    # Never on in our values; and EFA, which the test above has, and compute domains (test_fabric.py).
    assert left_out == {
        ("nvidia-device-plugin", "GPU feature discovery"),
        ("nvidia-device-plugin", "NFD worker"),
        ("node-feature-discovery", "NFD worker"),
        ("aws-efa-k8s-device-plugin", "EFA device plugin"),
        ("dra-driver-nvidia-gpu", "compute domain plugin"),
    }


def test_the_taints_of_every_pool_served_are_tolerated() -> None:
    pools = pools_of(
        "aws",
        {
            "a": {**A100, "software": "device-plugin", "taints": ["team=vision:NoSchedule"]},
            "b": {**A100, "software": "device-plugin", "taints": ["team=speech:NoSchedule", "x=y:NoExecute"]},
        },
    )

    assert tolerations_for(pools) == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "x", "operator": "Exists", "effect": "NoExecute"},
    ]


@pytest.mark.parametrize(
    ("toleration", "through"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "value": "vision"}, True),
        ({"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}, True),
        ({"key": "team", "operator": "Equal", "value": "speech"}, False),
        ({"key": "team", "operator": "Equal"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_lets_through_what_kubernetes_lets_through(toleration: Mapping[str, str], through: bool) -> None:
    assert tolerates([toleration], Taint("team", "vision", Effect.NO_SCHEDULE)) is through


@pytest.mark.parametrize(
    ("chart", "version", "old"),
    [
        ("gpu-operator", "v26.3.1", True),
        ("gpu-operator", "v26.3.2", False),
        ("nvidia-device-plugin", "0.17.2", True),
        ("nvidia-device-plugin", "0.17.3", False),
    ],
)
def test_versions_below_the_floor_are_too_old(chart: str, version: str, old: bool) -> None:
    assert (too_old(chart, version) is not None) is old


@pytest.mark.parametrize(
    ("version", "floor"),
    [
        ("580.173.02", "580.178.04"),
        ("580.178.04", None),
        ("595.91.06", "595.91.07"),
        ("595.91.07-ubuntu24.04", None),
        ("610.57.03", "610.57.04"),
        ("615.71.08", "615.71.09"),
        ("535.309.01", "615.71.09"),  # a branch that bulletin 5861 no longer lists gets no fix
        ("590.48.01", "615.71.09"),
        ("620.10.01", None),
    ],
)
def test_a_driver_is_compared_with_the_floor_of_its_branch(version: str, floor: str | None) -> None:
    row = below_floor("driver", version)

    assert (row and row.floor) == floor


def test_the_newest_bulletin_is_named_where_floors_are_promised() -> None:
    bulletins = sorted({row.bulletin for rows in version_floors().values() for row in rows})

    assert gpu_software_pinned.RULE.framework.reference == ", ".join(bulletins)
    assert NEWEST_BULLETIN.split()[0] in bulletins
    assert f"(newest read: {NEWEST_BULLETIN})" in (ROOT / "docs/reference/gpu-software.md").read_text(encoding="utf-8")


def test_every_pinned_chart_is_above_its_floor() -> None:
    assert {name: too_old(name, chart.version) for name, chart in charts().items()} == dict.fromkeys(charts())


def test_a_version_at_the_floor_is_taken_in_the_charts_spelling(plan: Planner) -> None:
    made = plan("aws", {"a": {**A100, "software": "gpu-operator"}}, versions={"gpu-operator": "26.3.2"}, metrics=False)

    assert [release.version for release in made.releases] == ["v26.3.2"]
    assert made.warnings == ()


@pytest.mark.parametrize(
    ("cloud", "runtime", "found"),
    [
        (
            "azure",
            {},
            ["the driver 580.126.20, below 580.178.04", "the DCGM exporter 4.5.3-4.8.2-distroless, below 4.8"],
        ),
        ("azure", {"metrics": False}, ["the driver 580.126.20, below 580.178.04"]),
        ("aws", {}, ["the DCGM exporter 4.5.3-4.8.2-distroless, below 4.8.3"]),  # AL2023 brings the driver
        ("aws", {"metrics": False}, []),
    ],
)
@pytest.mark.parametrize("version", ["26.3.2", "26.3.3"])
def test_floors_hold_for_what_a_version_installs(
    version: str, cloud: str, runtime: Mapping[str, Any], found: list[str], refused: Callable[..., list[str]]
) -> None:
    pools = {"a": {"gpu": "T4", "software": "gpu-operator"}}
    problems = refused(cloud, pools, versions={"gpu-operator": version}, **runtime)

    assert len(problems) == len(found)
    for problem, part in zip(problems, found, strict=True):
        assert problem.startswith(f"clusters.c.runtime.versions.gpu-operator: got v{version}, which installs {part}")


@pytest.mark.parametrize(
    ("chart", "version"), [("gpu-operator", "99.1.1"), ("dcgm-exporter", "4.9.0"), ("dra-driver-nvidia-gpu", "0.5.0")]
)
def test_a_newer_version_that_is_not_known_is_taken_and_said_to_be_unknown(
    chart: str, version: str, plan: Planner
) -> None:
    software = {"gpu-operator": "gpu-operator", "dcgm-exporter": "device-plugin"}.get(chart, "dra-driver")
    pools = {"a": {"gpu": "T4", "software": software, "nodes": {"min": 1, "max": 2}}}
    (warning,) = plan("aws", pools, versions={chart: version}).warnings

    assert warning.path == ("clusters", "c", "runtime", "versions", chart)
    assert "a version whose values and installed software this release of gpupools does not know" in warning.what
    assert f"values are checked against {charts()[chart].version}" in warning.what


@pytest.mark.parametrize(
    ("version", "path", "known"),
    [
        ("v26.7.0", "draDriver.version", True),
        ("v26.3.3", "draDriver.version", False),
        ("v26.7.0", "node-feature-discovery.worker.hostUsers", True),  # of the chart inside
        ("v26.3.3", "node-feature-discovery.worker.hostUsers", False),
        ("v99.0.0", "draDriver.version", True),  # not known: as the pinned one
    ],
)
def test_values_are_checked_against_the_version_asked_for(version: str, path: str, known: bool) -> None:
    values = nested({path: None})
    if known:
        check_values("gpu-operator", values, version)
        return
    with pytest.raises(UnknownValue, match=f"chart gpu-operator {version} reads no {path}"):
        check_values("gpu-operator", values, version)


def test_defaults_are_those_of_the_version_asked_for() -> None:
    path = "dcgmExporter.serviceMonitor.enabled"

    assert at(default_values("gpu-operator", "v26.3.3"), path) is False
    assert at(default_values("gpu-operator"), path) is True


@pytest.mark.parametrize("chart", charts())
def test_nothing_the_pinned_charts_install_is_below_a_floor_once_our_values_are_sent(chart: str, plan: Planner) -> None:
    for each in COMBINATIONS.values():
        for release in plan(each.cloud, each.pools).releases:
            if release.chart == chart:
                assert outdated(chart, release.version, release.values) == {}


def test_the_exporters_chart_alone_would_install_an_old_exporter() -> None:
    assert set(outdated("dcgm-exporter", charts()["dcgm-exporter"].version, {})) == {"dcgm-exporter"}


@pytest.mark.parametrize(("wanted", "by_itself"), [(None, True), (True, True), (False, False)])
def test_how_drivers_are_replaced_is_said_in_the_values_and_in_words(
    wanted: bool | None, by_itself: bool, plan: Planner
) -> None:
    runtime = {} if wanted is None else {"driver_auto_upgrade": wanted}
    (release, *_) = plan("azure", {"a": {"gpu": "T4", "software": "gpu-operator"}}, **runtime).releases
    words = "evicts the pods that use a GPU, one node at a time" if by_itself else "when its driver pod is deleted"

    assert at(release.values, "driver.upgradePolicy.autoUpgrade") is by_itself
    assert any(words in each for each in release.decisions)


def test_how_drivers_are_replaced_is_left_out_where_the_operator_brings_none(plan: Planner) -> None:
    (operator,) = plan("aws", {"a": {"gpu": "T4", "software": "gpu-operator"}}).releases

    assert at(operator.values, "driver.upgradePolicy") is None


@pytest.mark.parametrize(("nodes", "seconds"), [(1, 1860), (100, 7800), (1000, 21600)])
def test_more_nodes_get_more_time(nodes: int, seconds: int, plan: Planner) -> None:
    made = plan("aws", {"a": {**A100, "software": "gpu-operator", "nodes": {"max": nodes}}})

    assert [release.timeout_s for release in made.releases] == [seconds]


@pytest.mark.parametrize(
    ("software", "kept", "waits"), [("device-plugin", 0, False), ("device-plugin", 1, True), ("gpu-operator", 0, True)]
)
def test_only_daemonsets_without_a_node_are_not_waited_for(
    software: str, kept: int, waits: bool, plan: Planner
) -> None:
    made = plan("aws", {"a": {**A100, "software": software, "nodes": {"min": kept, "max": 2}}})

    assert {not release.skip_await for release in made.releases} == {waits}


def test_daemonsets_are_waited_for_as_soon_as_one_of_their_pools_keeps_a_node(plan: Planner) -> None:
    empty, kept = ({**A100, "software": "device-plugin", "nodes": {"min": least, "max": 2}} for least in (0, 1))
    orders = [plan("aws", {"a": first, "b": second}) for first, second in ((empty, kept), (kept, empty))]

    assert [release.skip_await for made in orders for release in made.releases] == [False] * 4


def test_daemonsets_whose_nodes_name_their_configuration_later_are_not_waited_for(plan: Planner) -> None:
    """They would be waited for before the edit that they wait for."""
    kept = {"gpu": "T4", "software": "device-plugin", "nodes": {"min": 2, "max": 2}}
    shared = {**kept, "sharing": {"mode": "time-slicing", "replicas": 4}, "trust": {"team": "vision"}}
    waits = {
        name: {release.chart for release in plan("aws", pools).releases if not release.skip_await}
        for name, pools in {"whole": {"a": kept}, "shared": {"a": kept, "b": shared}}.items()
    }

    assert waits == {"whole": {"nvidia-device-plugin", "dcgm-exporter"}, "shared": {"dcgm-exporter"}}


def test_crds_go_with_the_operator_unless_asked(plan: Planner) -> None:
    pools = {"a": {**A100, "software": "gpu-operator"}}
    gone, kept = (plan("aws", pools, keep_crds=keep).releases[0] for keep in (False, True))

    assert (at(gone.values, "operator.cleanupCRD"), at(kept.values, "operator.cleanupCRD")) == (True, False)
    left = "kubectl delete crd computedomains.resource.nvidia.com computedomaincliques.resource.nvidia.com"
    assert any(left in each for each in gone.decisions)
    assert any("also deletes the CRDs" in each for each in gone.decisions)
    assert any("keeps the CRDs" in each for each in kept.decisions)


@EVERY
def test_only_the_operator_brings_crds(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    # DeviceClasses are no CRDs, and the DRA driver's chart is told to leave its two out.
    bringing = {"gpu-operator", "node-feature-discovery", "dra-driver-nvidia-gpu"}

    assert {each.chart for each in made.releases if each.chart in bringing and not each.skip_crds} <= {"gpu-operator"}
    assert [
        each.chart
        for each in made.releases
        if each.chart != "gpu-operator" and (at(each.values, "nfd.enabled") or at(each.values, "gfd.enabled"))
    ] == []


def test_a_gpu_that_the_newest_driver_no_longer_drives_gets_an_older_one(plan: Planner) -> None:
    old = plan("azure", {"a": {"instance_type": "Standard_ND40rs_v2", "software": "gpu-operator"}})
    new = plan("azure", {"a": {"gpu": "T4", "software": "gpu-operator"}})

    assert at(old.releases[0].values, "driver.version") == "580.178.04"
    assert at(new.releases[0].values, "driver.version") is None
