"""Exactly one owner for each piece on each node: every legal combination, and what happens when one is changed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.plan.capability import Verdict
from gpupools.plan.node_labels import GPU_PRESENT_LABEL, OPERANDS_LABEL
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import KubernetesObject, Piece, Release, RuntimePlan
from gpupools.plan.tolerations import node_affinity
from gpupools.providers import clouds
from gpupools.software.charts import at, nested, value_paths
from gpupools.software.owners import claims, labels_left, needed_pieces, settle
from gpupools.software.planning import plan_runtime
from gpupools.spec.software_spec import RuntimeSpec
from tests.gpupools.software.combinations import A100, COMBINATIONS, Combination
from tests.gpupools.software.conftest import Planner, pools_of, stack_of

NOWHERE = node_affinity({"key": "x", "operator": "Exists"})
EVERY = pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=COMBINATIONS)


def judged(
    combination: Combination, pool: PoolPlan, releases: tuple[Release, ...], objects: tuple[KubernetesObject, ...]
) -> list[str]:
    """Say what is wrong with who brings what, read from the releases and objects alone."""
    cloud = clouds()[combination.cloud]
    node = cloud.node_runtime(pool.software, pool.provider_plan)
    found = claims(pool, node, releases, objects, RuntimeSpec(), cloud)
    return [problem.what for problem in settle(pool, found, needed_pieces(pool), "clusters.c.runtime")[1]]


def changed(release: Release, path: str, value: Any) -> Release:
    merged: dict[str, Any] = {**release.values}
    top, _, rest = path.partition(".")
    inner = merged.get(top, {})
    merged[top] = {**inner, **nested({rest: value})} if rest else value
    return release._replace(values=merged)


def owner_table(plan: RuntimePlan) -> Mapping[str, Mapping[str, str]]:
    return {row.pool: {piece.value: owner for piece, owner in row.owners.items()} for row in plan.owners}


@EVERY
def test_every_legal_combination_has_these_owners(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)

    assert owner_table(made) == {"a": combination.owners}


def _without_one(made: RuntimePlan) -> Iterator[tuple[str, tuple[Release, ...], tuple[KubernetesObject, ...]]]:
    """Take away, one at a time, what brings a needed piece."""
    for release in made.releases:
        if release.chart != "dcgm-exporter":
            rest = tuple(each for each in made.releases if each is not release)
            yield f"no {release.chart}", rest, made.objects
    for each in made.objects:
        if each.kind == "DaemonSet":
            yield f"no {each.name}", made.releases, tuple(other for other in made.objects if other is not each)
    for release in made.releases:
        others = tuple(each for each in made.releases if each is not release)
        if release.chart == "gpu-operator":
            for switch in ("driver", "toolkit", "devicePlugin", "gfd", "nfd", "migManager"):
                if at(release.values, f"{switch}.enabled"):
                    yield f"no {switch}", (*others, changed(release, f"{switch}.enabled", False)), made.objects
        if release.chart == "nvidia-device-plugin":
            yield "nowhere", (*others, changed(release, "affinity", NOWHERE)), made.objects
            yield "kept off", (*others, changed(release, "tolerations", [])), made.objects
        if release.chart == "dra-driver-nvidia-gpu":
            for path, value in (("affinity", NOWHERE), ("tolerations", [])):
                yield path, (*others, changed(release, f"kubeletPlugin.{path}", value)), made.objects
            yield "no GPUs", (*others, changed(release, "resources.gpus.enabled", False)), made.objects


@EVERY
def test_taking_one_owner_away_is_caught(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)
    mutants = {what: judged(combination, pool, releases, objects) for what, releases, objects in _without_one(made)}

    assert [
        what for what, problems in mutants.items() if not any("nothing installs" in each for each in problems)
    ] == []
    assert bool(mutants) == (combination.software != "cloud-managed")


@EVERY
def test_taking_a_piece_off_the_node_is_caught(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)
    cloud = clouds()[combination.cloud]
    node = cloud.node_runtime(pool.software, pool.provider_plan)
    unseen = []
    for piece in set(node.brings) & set(needed_pieces(pool)):
        bare = node._replace(brings={key: owner for key, owner in node.brings.items() if key is not piece})
        found = claims(pool, bare, made.releases, made.objects, RuntimeSpec(), cloud)
        if not settle(pool, found, needed_pieces(pool), "r")[1]:
            unseen.append(piece)

    assert unseen == []


def stranger(chart: str, values: Mapping[str, Any]) -> Release:
    """Return a release as somebody would install it who looks at no label and tolerates everything."""
    everywhere = [{"operator": "Exists"}]
    return Release(
        name="second",
        chart=chart,
        version="0.0.0",
        repository="https://example.com",
        namespace="second",
        values={"tolerations": everywhere, "daemonsets": {"tolerations": everywhere}, **values},
        timeout_s=1800,
        skip_await=False,
        cleanup_on_fail=False,
        skip_crds=False,
        pools=("a",),
        decisions=(),
    )


@EVERY
def test_a_second_device_plugin_is_caught(combination: Combination, refused: Callable[..., list[str]]) -> None:
    problems = refused(combination.cloud, combination.pools, existing={"device_plugin": "theirs"})

    twice = (
        "device plugin (theirs) and DRA driver (chart dra-driver-nvidia-gpu) would both allocate the same GPUs"
        if combination.software == "dra-driver"
        else "the device plugin would have two owners"
    )
    assert [each for each in problems if twice in each and "theirs" in each] != []


SWITCHES = {
    Piece.DRIVER: "driver",
    Piece.CONTAINER_TOOLKIT: "toolkit",
    Piece.DEVICE_PLUGIN: "devicePlugin",
    Piece.NODE_FEATURE_DISCOVERY: "nfd",
    Piece.GPU_FEATURE_DISCOVERY: "gfd",
    Piece.DCGM_EXPORTER: "dcgmExporter",
    Piece.MIG_MANAGER: "migManager",
}


@EVERY
def test_a_second_owner_of_any_piece_is_caught(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)
    cloud = clouds()[combination.cloud]
    bare = pool._replace(labels={key: value for key, value in pool.labels.items() if key != OPERANDS_LABEL})
    unseen = []
    for piece, owner in made.owners[0].owners.items():
        node, releases = cloud.node_runtime(pool.software, pool.provider_plan), made.releases
        if piece is Piece.DRA_DRIVER or owner == "chart gpu-operator":  # then the node brings it as well
            node = node._replace(brings={**node.brings, piece: "another node image"})
            if piece is Piece.MIG_MANAGER:  # which cuts only where the pool itself does
                bare = bare._replace(capability=bare.capability._replace(verdict=Verdict.NATIVE))
        else:  # then an operator comes along that no label keeps off; its validator brings the runtime class
            values = nested({f"{switch}.enabled": key is piece for key, switch in SWITCHES.items()})
            discovery = {"node-feature-discovery": {"worker": {"tolerations": [{"operator": "Exists"}]}}}
            others = (each for each in releases if each.chart != "gpu-operator")
            releases = (*others, stranger("gpu-operator", {**values, **discovery}))
        found = claims(bare, node, releases, made.objects, RuntimeSpec(), cloud)
        problems = [problem.what for problem in settle(bare, found, (), "r")[1]]
        if not any(
            piece.value in each.partition(" would have two owners")[0] for each in problems if "two owners" in each
        ):
            unseen.append(piece.value)

    assert unseen == []


@EVERY
def test_a_device_plugin_and_a_dra_driver_never_share_a_node(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)
    chart = "nvidia-device-plugin" if combination.software == "dra-driver" else "dra-driver-nvidia-gpu"
    tolerant = {"affinity": None, "kubeletPlugin": {"affinity": None, "tolerations": [{"operator": "Exists"}]}}
    problems = judged(combination, pool, (*made.releases, stranger(chart, tolerant)), made.objects)

    assert [each for each in problems if each.endswith("would both allocate the same GPUs")] != []


@pytest.mark.parametrize(
    ("cloud", "gpu", "host"),
    [("aws", "L4", "node image (Bottlerocket NVIDIA)"), ("gcp", "L4", "GKE"), ("azure", "T4", "AKS")],
)
def test_pools_of_one_cluster_may_choose_differently(cloud: str, gpu: str, host: str, plan: Planner) -> None:
    software = {"host": "cloud-managed", "chart": "device-plugin", "operator": "gpu-operator"}
    pools = {name: {"gpu": gpu, "software": each, "nodes": {"fixed": 2}} for name, each in software.items()}

    assert {pool: row["device plugin"] for pool, row in owner_table(plan(cloud, pools)).items()} == {
        "host": host,
        "chart": "chart nvidia-device-plugin",
        "operator": "chart gpu-operator",
    }


# The operator writes nvidia.com/gpu.present=false on nodes where Node Feature Discovery, which is confined to its own
# pools, has found no GPU: https://github.com/NVIDIA/gpu-operator tag v26.7.0, controllers/nodelabeling_controller.go.
BESIDE_AN_OPERATOR = pytest.mark.parametrize(
    ("software", "chart", "affinity"),
    [
        ("device-plugin", "nvidia-device-plugin", "affinity"),
        ("dra-driver", "dra-driver-nvidia-gpu", "kubeletPlugin.affinity"),
    ],
)


@BESIDE_AN_OPERATOR
@pytest.mark.parametrize("cloud", sorted(clouds()))
def test_with_the_charts_own_affinity_an_operator_would_take_the_gpus_from_its_neighbours(
    cloud: str, software: str, chart: str, affinity: str, plan: Planner
) -> None:
    beside: Mapping[str, Any] = {"gpu": "T4", "software": software, "nodes": {"min": 1, "max": 2}}
    pools = {"a": beside, "operated": {"gpu": "T4", "software": "gpu-operator"}}
    made = plan(cloud, pools)
    (alone,) = pools_of(cloud, {"a": beside})
    pool, _ = pools_of(cloud, pools)
    others = [each for each in made.releases if each.chart != chart]
    (release,) = (each for each in made.releases if each.chart == chart)
    given = {path: value for path, value in value_paths(release.values) if not path.startswith(affinity)}
    bare = release._replace(values=nested(given))

    piece = "DRA driver" if software == "dra-driver" else "device plugin"
    combination = Combination(cloud, software, {})
    assert judged(combination, pool, made.releases, made.objects) == []
    assert judged(combination, pool, (*others, bare), made.objects) == [
        f"nothing installs the {piece} on the nodes of this pool"
    ]
    without_operator = tuple(each for each in (*others, bare) if each.chart != "gpu-operator")
    assert judged(combination, alone, without_operator, made.objects) == []


def test_a_teams_plugin_that_goes_by_the_label_an_operator_rewrites_serves_nothing(
    refused: Callable[..., list[str]], plan: Planner
) -> None:
    theirs = {"name": "kube-system/nvdp", "node_selector": {"nvidia.com/gpu.present": "true"}}
    runtime: Any = {"management": "external", "existing": {"device_plugin": theirs, "gpu_operator": "ops/gpu-operator"}}
    plugin = {"gpu": "L4", "software": "device-plugin"}

    assert refused("aws", {"a": plugin}, **runtime) == [
        (
            "pools.a.software: nothing installs the device plugin on the nodes of this pool; "
            "set clusters.c.runtime.management: managed, or use other software"
        )
    ]
    told = plan("aws", {"a": plugin}, **{**runtime, "existing": {**runtime["existing"], "device_plugin": "nvdp"}})
    assert [
        note for note in told.notes if note.startswith("nvdp must not select nodes by the label nvidia.com/gpu.present")
    ]
    alone = plan("aws", {"a": plugin}, management="external", existing={"device_plugin": theirs})
    assert not any("must not select nodes by" in note for note in alone.notes)
    assert alone.owners[0].owners[Piece.DEVICE_PLUGIN] == "kube-system/nvdp"


@pytest.mark.parametrize(
    ("cloud", "software"),
    [("aws", "cloud-managed"), ("aws", "device-plugin"), ("azure", "device-plugin"), ("gcp", "cloud-managed")],
)
def test_nodes_that_are_not_the_operators_say_so(cloud: str, software: str) -> None:
    (pool,) = pools_of(cloud, {"a": {**A100, "software": software}})

    assert pool.labels[OPERANDS_LABEL] == "false"


def test_the_operators_nodes_do_not_turn_it_away() -> None:
    (pool,) = pools_of("aws", {"a": {**A100, "software": "gpu-operator"}})

    assert OPERANDS_LABEL not in pool.labels


def test_a_daemonset_that_selects_other_nodes_is_no_second_owner(plan: Planner) -> None:
    existing = {"device_plugin": {"name": "ds", "node_selector": {"team": "other"}}}
    made = plan("aws", {"a": {"gpu": "L4", "software": "device-plugin"}}, existing=existing)

    assert made.owners[0].owners[Piece.DEVICE_PLUGIN] == "chart nvidia-device-plugin"


def test_the_teams_operator_leaves_nodes_alone_that_turn_it_away(plan: Planner) -> None:
    made = plan("aws", {"a": {"gpu": "L4", "software": "device-plugin"}}, existing={"gpu_operator": "team-operator"})

    assert made.owners[0].owners[Piece.DEVICE_PLUGIN] == "chart nvidia-device-plugin"


def test_a_node_that_nobody_discovers_loses_the_label_of_its_gpus(plan: Planner) -> None:
    pools = {"a": {"gpu": "L4", "software": "gpu-operator"}}
    (pool,), (release,) = pools_of("aws", pools), plan("aws", pools).releases
    labelled = pool._replace(labels={**pool.labels, GPU_PRESENT_LABEL: "true"})
    nowhere = changed(release, "node-feature-discovery.worker.tolerations", [])

    assert labels_left(labelled, [release], RuntimeSpec())[GPU_PRESENT_LABEL] == "true"
    assert labels_left(labelled, [nowhere], RuntimeSpec())[GPU_PRESENT_LABEL] == "false"


@pytest.mark.parametrize(("operands", "left"), [({}, "true"), ({OPERANDS_LABEL: "false"}, "false")])
def test_the_teams_operator_finds_the_gpus_of_nodes_it_serves(operands: Mapping[str, str], left: str) -> None:
    (pool,) = pools_of("aws", {"a": {"gpu": "L4", "software": "device-plugin"}})
    bare = {key: value for key, value in pool.labels.items() if key != OPERANDS_LABEL}
    labelled = pool._replace(labels={**bare, GPU_PRESENT_LABEL: "true", **operands})
    spec = stack_of("aws", {"a": {"gpu": "L4"}}, {"existing": {"gpu_operator": "ops/operator"}}).clusters["c"].runtime

    assert labels_left(labelled, (), spec)[GPU_PRESENT_LABEL] == left


@pytest.mark.parametrize(
    ("key", "piece", "chart"),
    [
        ("node_feature_discovery", Piece.NODE_FEATURE_DISCOVERY, "gpu-operator"),
        ("dcgm_exporter", Piece.DCGM_EXPORTER, "nvidia-device-plugin"),
    ],
)
def test_what_a_cluster_has_once_is_used(key: str, piece: Piece, chart: str, plan: Planner) -> None:
    software = "gpu-operator" if chart == "gpu-operator" else "device-plugin"
    pools = {"a": {"gpu": "L4", "software": software}}
    made = plan("aws", pools, existing={key: "monitoring/theirs"})

    assert made.owners[0].owners[piece] == "monitoring/theirs"
    assert [release.chart for release in made.releases] == [chart]
    assert any("monitoring/theirs is used" in note for note in made.notes)


@pytest.mark.parametrize(
    ("key", "piece"),
    [
        ("node_feature_discovery", Piece.NODE_FEATURE_DISCOVERY),
        ("dcgm_exporter", Piece.DCGM_EXPORTER),
    ],
)
def test_what_a_cluster_has_once_is_not_the_teams_operators_as_well(key: str, piece: Piece, plan: Planner) -> None:
    existing = {"gpu_operator": "ops/gpu-operator", key: "monitoring/theirs"}
    made = plan("aws", {"a": {"gpu": "L4", "software": "gpu-operator"}}, management="external", existing=existing)

    assert made.owners[0].owners[piece] == "monitoring/theirs"
    assert made.owners[0].owners[Piece.DEVICE_PLUGIN] == "ops/gpu-operator"


EXTERNAL = pytest.mark.parametrize(
    ("cloud", "gpu", "software", "key"),
    [
        ("aws", "L4", "device-plugin", "device_plugin"),
        ("aws", "L4", "gpu-operator", "gpu_operator"),
        ("azure", "T4", "device-plugin", "device_plugin"),
        ("gcp", "L4", "gpu-operator", "gpu_operator"),
        ("aws", "L4", "dra-driver", "dra_driver"),
    ],
)


@EXTERNAL
def test_external_software_without_a_name_is_refused(
    cloud: str, gpu: str, software: str, key: str, refused: Callable[..., list[str]]
) -> None:
    (problem,) = refused(
        cloud, {"a": {"gpu": gpu, "software": software, "nodes": {"min": 1, "max": 2}}}, management="external"
    )

    assert f"pools.a.software: {software} has to be in the cluster" in problem
    assert f"name it under clusters.c.runtime.existing.{key}" in problem


@EXTERNAL
def test_external_software_with_a_name_serves_the_pool(
    cloud: str, gpu: str, software: str, key: str, plan: Planner
) -> None:
    existing = {key: "platform team", **({"device_plugin": None} if key == "gpu_operator" else {})}
    pools = {"a": {"gpu": gpu, "software": software, "nodes": {"min": 1, "max": 2}}}
    made = plan(cloud, pools, management="external", existing=existing)

    serving = Piece.DRA_DRIVER if software == "dra-driver" else Piece.DEVICE_PLUGIN
    assert made.owners[0].owners[serving] == "platform team"
    assert (made.releases, made.objects, made.needs_kubernetes) == ((), (), False)


def test_cloud_managed_pools_need_no_software_of_ours(plan: Planner) -> None:
    made = plan("gcp", {"a": {"gpu": "L4"}})

    assert (made.releases, made.objects, made.needs_kubernetes) == ((), (), False)


@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator"])
def test_gkes_default_driver_beside_another_owner_is_refused(software: str) -> None:
    stack = stack_of("gcp", {"a": {"gpu": "L4", "software": software}})
    (pool,) = pools_of("gcp", {"a": {"gpu": "L4", "software": software}})
    settings: Any = replace(pool.provider_plan, gpu_driver_version="DEFAULT")  # type: ignore[call-arg]
    with pytest.raises(Rejected) as caught:
        plan_runtime("c", stack.clusters["c"], clouds()["gcp"], [pool._replace(provider_plan=settings)])

    assert str(caught.value).startswith(
        f"pools.a.software: GKE's default driver and software {software}, which needs it off, would both own the driver"
    )


def test_googles_installer_is_one_beside_an_operator_of_the_teams_own(refused: Callable[..., list[str]]) -> None:
    existing = {"gpu_operator": {"name": "team/operator"}}
    problems = refused("gcp", {"a": {"gpu": "L4", "software": "gpu-operator"}}, existing=existing)

    assert any("device plugin" in each.partition(" would have two owners")[0] for each in problems)
    assert [each for each in problems if "Google's driver installer" in each] == []
