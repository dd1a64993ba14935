"""Exactly one owner for each piece on each node: every legal combination, and what happens when one is changed."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpupools.errors import Rejected
from gpupools.plan import PoolPlan
from gpupools.runtime.charts import at, nested
from gpupools.runtime.configs import OPERANDS_LABEL
from gpupools.runtime.owners import claims, needed_pieces, settle
from gpupools.runtime.plan import KubernetesObject, Piece, Release, RuntimePlan
from gpupools.runtime.planning import plan_runtime
from gpupools.runtime.spec import RuntimeSpec
from providers import clouds
from tests.gpupools.runtime.combinations import A100, COMBINATIONS, Combination
from tests.gpupools.runtime.conftest import Planner, pools_of, stack_of

EVERY = pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=COMBINATIONS)


def judged(
    combination: Combination, pool: PoolPlan, releases: tuple[Release, ...], objects: tuple[KubernetesObject, ...]
) -> list[str]:
    """Say what is wrong with who brings what, read from the releases and objects alone."""
    cloud = clouds()[combination.cloud]
    node = cloud.node_runtime(pool.software, pool.settings)
    found = claims(pool, node, releases, objects, RuntimeSpec(), cloud)
    return [problem.what for problem in settle(pool, found, needed_pieces(pool), "clusters.c.runtime")[1]]


def changed(release: Release, path: str, value: Any) -> Release:
    merged: dict[str, Any] = {**release.values}
    top, _, rest = path.partition(".")
    inner = merged.get(top, {})
    merged[top] = {**inner, **nested({rest: value})} if rest else value
    return replace(release, values=merged)


def owner_table(plan: RuntimePlan) -> Mapping[str, Mapping[str, str]]:
    return {row.pool: {piece.value: owner for piece, owner in row.owners.items()} for row in plan.owners}


@EVERY
def test_every_legal_combination_has_these_owners(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)

    assert owner_table(made) == {"a": combination.owners}


@EVERY
def test_every_needed_piece_has_an_owner(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)

    assert set(needed_pieces(pool)) <= set(made.owners[0].owners)


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
            yield "nowhere", (*others, changed(release, "nodeSelector", {"x": "y"})), made.objects
            yield "kept off", (*others, changed(release, "tolerations", [])), made.objects


@EVERY
def test_taking_one_owner_away_is_caught(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)
    mutants = {what: judged(combination, pool, releases, objects) for what, releases, objects in _without_one(made)}

    assert [what for what, problems in mutants.items() if not any("nothing brings" in each for each in problems)] == []
    assert bool(mutants) == (combination.software != "cloud-managed")


@EVERY
def test_taking_a_piece_off_the_node_is_caught(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)
    cloud = clouds()[combination.cloud]
    node = cloud.node_runtime(pool.software, pool.settings)
    unseen = []
    for piece in set(node.brings) & set(needed_pieces(pool)):
        bare = replace(node, brings={key: owner for key, owner in node.brings.items() if key is not piece})
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

    assert [each for each in problems if "the device plugin would have two owners" in each and "theirs" in each] != []


@pytest.mark.parametrize(("piece", "switch"), [(Piece.DRIVER, "driver"), (Piece.CONTAINER_TOOLKIT, "toolkit")])
@EVERY
def test_a_second_owner_of_what_is_below_the_plugin_is_caught(
    combination: Combination, piece: Piece, switch: str, plan: Planner
) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)
    cloud = clouds()[combination.cloud]
    node, releases = cloud.node_runtime(pool.software, pool.settings), made.releases
    if made.owners[0].owners[piece] == "chart gpu-operator":  # then the node brings it as well
        node = replace(node, brings={**node.brings, piece: "another node image"})
    elif pool.software == "gpu-operator":  # then the operator does it as well
        (operator,) = (each for each in releases if each.chart == "gpu-operator")
        releases = (*(each for each in releases if each is not operator), changed(operator, f"{switch}.enabled", True))
    else:  # then an operator comes along that no label keeps off
        off = {f"{name}.enabled": False for name in ("driver", "toolkit", "devicePlugin", "gfd", "nfd", "dcgmExporter")}
        releases = (*releases, stranger("gpu-operator", nested({**off, f"{switch}.enabled": True})))
        pool = replace(pool, labels={key: value for key, value in pool.labels.items() if key != OPERANDS_LABEL})
    found = claims(pool, node, releases, made.objects, RuntimeSpec(), cloud)
    problems = [problem.what for problem in settle(pool, found, needed_pieces(pool), "r")[1]]

    assert [each for each in problems if each.startswith(f"the {piece.value} would have two owners")] != []


MIXED: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]], Mapping[str, str]]] = {
    "eks: every software at once": (
        "aws",
        {
            "host": {"gpu": "L4", "software": "cloud-managed"},
            "chart": {"gpu": "L4", "software": "device-plugin"},
            "operator": {"gpu": "L4", "software": "gpu-operator"},
        },
        {
            "host": "node image (Bottlerocket NVIDIA)",
            "chart": "chart nvidia-device-plugin",
            "operator": "chart gpu-operator",
        },
    ),
    "gke: every software at once": (
        "gcp",
        {
            "host": {"gpu": "L4", "software": "cloud-managed"},
            "chart": {"gpu": "L4", "software": "device-plugin"},
            "operator": {"gpu": "L4", "software": "gpu-operator"},
        },
        {"host": "GKE", "chart": "chart nvidia-device-plugin", "operator": "chart gpu-operator"},
    ),
    "aks: plugin and operator": (
        "azure",
        {"chart": {"gpu": "T4", "software": "device-plugin"}, "operator": {"gpu": "T4", "software": "gpu-operator"}},
        {"chart": "chart nvidia-device-plugin", "operator": "chart gpu-operator"},
    ),
}


@pytest.mark.parametrize(("cloud", "pools", "plugins"), MIXED.values(), ids=MIXED)
def test_pools_of_one_cluster_may_choose_differently(
    cloud: str, pools: Mapping[str, Mapping[str, Any]], plugins: Mapping[str, str], plan: Planner
) -> None:
    table = owner_table(plan(cloud, pools))

    assert {pool: row["device plugin"] for pool, row in table.items()} == plugins


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


EXISTING: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, Any], tuple[str, ...]]] = {
    "eksctl's plugin beside the chart": (
        "aws",
        {"gpu": "L4", "software": "device-plugin"},
        {"device_plugin": "eksctl"},
        (
            "chart nvidia-device-plugin and eksctl",
            "--install-nvidia-plugin=false",
            "clusters.c.runtime.existing.device_plugin",
        ),
    ),
    "a DaemonSet beside the chart": (
        "azure",
        {"gpu": "T4", "software": "device-plugin"},
        {"device_plugin": "kube-system/nvdp"},
        ("chart nvidia-device-plugin and kube-system/nvdp", "clusters.c.runtime.management: external"),
    ),
    "a DaemonSet beside Bottlerocket's own plugin": (
        "aws",
        {"gpu": "L4", "software": "cloud-managed"},
        {"device_plugin": "kube-system/nvdp"},
        ("node image (Bottlerocket NVIDIA) and kube-system/nvdp", "node_selector"),
    ),
    "a DaemonSet beside GKE's own plugin": (
        "gcp",
        {"gpu": "L4"},
        {"device_plugin": "kube-system/nvdp"},
        ("GKE and kube-system/nvdp",),
    ),
    "a DaemonSet on nodes of a label the cloud sets": (
        "aws",
        {"gpu": "L4", "software": "device-plugin"},
        {"device_plugin": {"name": "ds", "node_selector": {"eks.amazonaws.com/nodegroup": "x"}}},
        ("chart nvidia-device-plugin and ds",),
    ),
    "the team's operator beside ours": (
        "aws",
        {"gpu": "L4", "software": "gpu-operator"},
        {"gpu_operator": "team-operator"},
        ("chart gpu-operator and team-operator", "clusters.c.runtime.existing.gpu_operator"),
    ),
    "a DRA driver beside the plugin": (
        "aws",
        {"gpu": "L4", "software": "device-plugin"},
        {"dra_driver": "dra"},
        ("device plugin (chart nvidia-device-plugin) and DRA driver (dra)", "twice"),
    ),
    "a DRA driver beside GKE's plugin": ("gcp", {"gpu": "L4"}, {"dra_driver": "dra"}, ("device plugin (GKE)",)),
}


@pytest.mark.parametrize(("cloud", "pool", "existing", "words"), EXISTING.values(), ids=EXISTING)
def test_software_the_team_already_runs_is_no_second_owner(
    cloud: str,
    pool: Mapping[str, Any],
    existing: Mapping[str, Any],
    words: tuple[str, ...],
    refused: Callable[..., list[str]],
) -> None:
    text = "\n".join(refused(cloud, {"a": pool}, existing=existing))

    assert [word for word in words if word not in text] == []
    assert text.startswith("pools.a.software: ")


def test_a_daemonset_that_selects_other_nodes_is_no_second_owner(plan: Planner) -> None:
    existing = {"device_plugin": {"name": "ds", "node_selector": {"team": "other"}}}
    made = plan("aws", {"a": {"gpu": "L4", "software": "device-plugin"}}, existing=existing)

    assert made.owners[0].owners[Piece.DEVICE_PLUGIN] == "chart nvidia-device-plugin"


def test_the_teams_operator_leaves_nodes_alone_that_turn_it_away(plan: Planner) -> None:
    made = plan("aws", {"a": {"gpu": "L4", "software": "device-plugin"}}, existing={"gpu_operator": "team-operator"})

    assert made.owners[0].owners[Piece.DEVICE_PLUGIN] == "chart nvidia-device-plugin"


@pytest.mark.parametrize(
    ("key", "piece", "chart"),
    [
        ("node_feature_discovery", Piece.NODE_FEATURE_DISCOVERY, "node-feature-discovery"),
        ("dcgm_exporter", Piece.DCGM_EXPORTER, "dcgm-exporter"),
    ],
)
def test_what_a_cluster_has_once_is_used(key: str, piece: Piece, chart: str, plan: Planner) -> None:
    pools = {"a": {"gpu": "L4", "software": "device-plugin", **COMBINATIONS["eks-plugin-mps"].pool}}
    made = plan("aws", pools, existing={key: "monitoring/theirs"})

    assert made.owners[0].owners[piece] == "monitoring/theirs"
    assert chart not in {release.chart for release in made.releases}
    assert any("monitoring/theirs is used" in note for note in made.notes)


EXTERNAL = pytest.mark.parametrize(
    ("cloud", "gpu", "software", "key"),
    [
        ("aws", "L4", "device-plugin", "device_plugin"),
        ("aws", "L4", "gpu-operator", "gpu_operator"),
        ("azure", "T4", "device-plugin", "device_plugin"),
        ("gcp", "L4", "gpu-operator", "gpu_operator"),
    ],
)


@EXTERNAL
def test_external_software_without_a_name_is_refused(
    cloud: str, gpu: str, software: str, key: str, refused: Callable[..., list[str]]
) -> None:
    (problem,) = refused(cloud, {"a": {"gpu": gpu, "software": software}}, management="external")

    assert f"none with software {software} on {cloud}" in problem
    assert f"name it under clusters.c.runtime.existing.{key}" in problem


@EXTERNAL
def test_external_software_with_a_name_serves_the_pool(
    cloud: str, gpu: str, software: str, key: str, plan: Planner
) -> None:
    existing = {key: "platform team", **({"device_plugin": None} if key == "gpu_operator" else {})}
    made = plan(cloud, {"a": {"gpu": gpu, "software": software}}, management="external", existing=existing)

    assert made.owners[0].owners[Piece.DEVICE_PLUGIN] == "platform team"
    assert (made.releases, made.objects, made.needs_kubernetes) == ((), (), False)


def test_cloud_managed_pools_need_no_software_of_ours(plan: Planner) -> None:
    made = plan("gcp", {"a": {"gpu": "L4"}})

    assert (made.releases, made.objects, made.needs_kubernetes) == ((), (), False)


@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator"])
def test_gkes_default_driver_beside_another_owner_is_refused(software: str) -> None:
    stack = stack_of("gcp", {"a": {"gpu": "L4", "software": software}})
    (pool,) = pools_of("gcp", {"a": {"gpu": "L4", "software": software}})
    settings: Any = replace(pool.settings, gpu_driver_version="DEFAULT")  # type: ignore[call-arg]
    with pytest.raises(Rejected) as caught:
        plan_runtime("c", stack.clusters["c"], clouds()["gcp"], [replace(pool, settings=settings)])

    assert str(caught.value).startswith(
        f"pools.a.software: GKE's default driver and software {software}, which needs it off, would both own the driver"
    )


@pytest.mark.parametrize(
    ("cloud", "path"),
    [
        ("aws", {"NodeGroup": {"labels": {"gpupools/software": "x"}}}),
        ("azure", {"AgentPool": {"nodeLabels": {"gpupools/software": "x"}}}),
        ("gcp", {"NodePool": {"nodeConfig": {"labels": {"gpupools/software": "x"}}}}),
    ],
)
def test_a_label_daemonsets_select_by_cannot_be_overridden(
    cloud: str, path: Mapping[str, Any], refused: Callable[..., list[str]]
) -> None:
    (problem,) = refused(cloud, {"a": {"gpu": "T4", "overrides": {cloud: path}}})

    assert "gpupools/software" in problem
    assert "it follows from the pool's software, sharing and trust" in problem
