"""From the configuration of an environment to checked clusters and pools: every wrong text and its exact answer."""

import copy
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.common.taints import GPU_TAINT, Effect, Taint
from gpupools.plan.cloud import Cloud
from gpupools.spec.models import (
    LATE,
    Mig,
    Nodes,
    PoolSpec,
    StackOutput,
    TimeSlicing,
    WholeGpu,
)
from gpupools.stackfile.stack import plan_config, planned
from gpupools.stackfile.stack_validation import Stack, parse_pool, parse_stack
from tests.rows import listed
from tests.stack_plans import plan_stack

Clouds = Mapping[str, Cloud]

SECRET = (
    "is a secret, or an output that is known only while the program runs; "
    "write the value itself; only addresses in clusters may be secrets or outputs"
)

CLUSTER: Mapping[str, Any] = {"cloud": "fake", "name": "lab-dev", "region": "north"}
POOL: Mapping[str, Any] = {"clusters": ["lab"], "gpu": "A100-40GB", "nodes": {"max": 4}}


class Left:
    """Marks a key to leave out of an otherwise right text."""


def changed(text: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**text, **changes}.items() if value is not Left}


MARKS: Mapping[str, Any] = {
    "<left out>": Left,
    "<secret>": LATE,
    "<huge>": 16**5000,
    "<cluster>": CLUSTER,
    "<pool>": POOL,
}


def marked(value: Any) -> Any:
    """Return a value of a table with what its marks stand for."""
    if isinstance(value, dict):
        return {key: marked(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [marked(inner) for inner in value]
    return MARKS.get(value, value) if isinstance(value, str) else value


def config(pool: Any = POOL, cluster: Any = CLUSTER) -> dict[str, Any]:
    return {"clusters": {"lab": cluster}, "pools": {"a": pool}}


def problems(given: Mapping[str, Any], clouds: Clouds) -> list[str]:
    """Return what is wrong with a configuration, as a reader sees it."""
    try:
        parse_stack(given, clouds)
    except Rejected as rejected:
        return [str(problem) for problem in rejected.problems]
    return []


def pool_of(given: Mapping[str, Any], clouds: Clouds) -> PoolSpec:
    return parse_stack(config(changed(POOL, given)), clouds).pools["a"]


# --- the whole --------------------------------------------------------------------------------------------------------


def test_what_is_left_out_costs_nothing_and_shares_nothing(fake_clouds: Clouds) -> None:
    pool = parse_stack(config(), fake_clouds).pools["a"]

    assert pool.nodes == Nodes(min=0, max=4)
    assert pool.gpus_per_node is None
    assert pool.sharing == WholeGpu()
    assert pool.software is None
    assert pool.disk_gib == 200
    assert (pool.labels, pool.taints) == ({}, [])


@listed(__file__)
def test_what_is_wrong_with_the_whole(given: Mapping[str, Any], found: list[str], fake_clouds: Clouds) -> None:
    assert problems(marked(given), fake_clouds) == found


def test_all_problems_of_a_file_are_told_at_once(fake_clouds: Clouds) -> None:
    given = {
        "clusters": {"lab": changed(CLUSTER, {"region": Left, "regin": "x"}), "sky": {"cloud": "fak"}},
        "pools": {
            "a": {"clusters": ["lab", "lob"], "gpu": "L4", "nodes": {"min": 3, "max": 1}},
            "b": {"nodes": {"maxx": 1}, "disk_gib": 5, "gp": "L4"},
        },
        "pol": {},
    }

    assert problems(given, fake_clouds) == [
        "gpupools:pol: unknown key; did you mean 'pools'?",
        "clusters.lab.regin: unknown key; did you mean 'region'?",
        "clusters.sky.cloud: unknown cloud 'fak'; did you mean 'fake'?",
        "pools.a.nodes: min 3 is above max 1; lower min or raise max",
        "pools.b.nodes.maxx: unknown key; did you mean 'max'?",
        "pools.b.disk_gib: got 5; use 100 or more",
        "pools.b.clusters: is missing; add it",
        "pools.b.gp: unknown key; did you mean 'gpu'?",
        "pools.a.clusters[1]: unknown cluster 'lob'; did you mean 'lab'?",
    ]


def test_the_configuration_is_left_as_it_was(fake_clouds: Clouds) -> None:
    given = config(changed(POOL, {"sharing": {"mode": "mig", "layout": {"0": ["1g.5gb"]}}, "zzz": 1}))
    before = copy.deepcopy(given)

    assert problems(given, fake_clouds) != []
    assert given == before


def test_a_pool_that_is_well_written_is_planned_beside_one_that_is_not(fake_clouds: Clouds) -> None:
    given = {
        "clusters": {"lab": CLUSTER},
        "pools": {"a": changed(POOL, {"nods": 1}), "b": changed(POOL, {"gpu": "A101"})},
    }

    with pytest.raises(Rejected) as caught:
        plan_config(given, fake_clouds)

    assert [problem.key for problem in caught.value.problems] == ["pools.a.nods", "pools.b.gpu"]


# --- clusters ---------------------------------------------------------------------------------------------------------


@listed(__file__)
def test_what_is_wrong_with_a_cluster(changes: dict[str, Any], found: list[str], fake_clouds: Clouds) -> None:
    assert problems(config(cluster=changed(CLUSTER, marked(changes))), fake_clouds) == found


@pytest.mark.parametrize("cluster", [None, "lab-dev", ["lab-dev"], LATE], ids=["null", "text", "a list", "a secret"])
def test_a_cluster_is_a_map(cluster: object, fake_clouds: Clouds) -> None:
    (found,) = problems(config(cluster=cluster), fake_clouds)

    assert found.startswith("clusters.lab: got ")
    assert found.endswith("; write a map with cloud, name and the keys of the cloud")


@pytest.mark.parametrize(
    ("given", "late"),
    [
        ({"name": {"output": "clusterName"}}, {"name": "clusterName"}),
        ({"subnet_ids": ["a", {"output": "net.b"}]}, {"subnet_ids[1]": "net.b"}),
        ({"subnet_ids": {"output": "subnets"}}, {"subnet_ids": "subnets"}),
    ],
)
def test_addresses_may_come_from_another_stack(given: Any, late: Mapping[str, str], fake_clouds: Clouds) -> None:
    keys = {"stack": "acme/platform/dev", **given}
    cluster = parse_stack(config(cluster=changed(CLUSTER, keys)), fake_clouds).clusters["lab"]

    assert cluster.late_outputs() == {key: StackOutput(output=output) for key, output in late.items()}


@pytest.mark.parametrize("late", [{"name": LATE}, {"subnet_ids": LATE}, {"subnet_ids": ["a", LATE]}], ids=str)
def test_addresses_may_be_secret(late: dict[str, Any], fake_clouds: Clouds) -> None:
    assert problems(config(cluster=changed(CLUSTER, late)), fake_clouds) == []


# --- pools ------------------------------------------------------------------------------------------------------------


@listed(__file__)
def test_what_is_wrong_with_a_pool(changes: dict[str, Any], found: list[str], fake_clouds: Clouds) -> None:
    assert problems(config(changed(POOL, marked(changes))), fake_clouds) == found


@pytest.mark.parametrize("pool", [None, "x", [], 3, LATE], ids=["null", "text", "a list", "a number", "a secret"])
def test_a_pool_is_a_map(pool: object, fake_clouds: Clouds) -> None:
    (found,) = problems(config(pool), fake_clouds)

    assert found.startswith("pools.a: ")
    assert found.endswith("; write a map with at least clusters and nodes") or found == f"pools.a: {SECRET}"


@pytest.mark.parametrize(
    ("given", "gpus"),
    [
        pytest.param(8, Fraction(8), id="a number"),
        pytest.param("8", Fraction(8), id="a number as text"),
        pytest.param("1/4", Fraction(1, 4), id="a part"),
        pytest.param("2/8", Fraction(1, 4), id="a part not in lowest terms"),
        pytest.param(64, Fraction(64), id="the most"),
        pytest.param(Fraction(1, 2), Fraction(1, 2), id="already read"),
    ],
)
def test_gpus_of_a_node_are_whole_or_a_part_of_one(given: object, gpus: Fraction, fake_clouds: Clouds) -> None:
    assert pool_of({"gpus_per_node": given}, fake_clouds).gpus_per_node == gpus


def test_taints_and_labels_are_read(fake_clouds: Clouds) -> None:
    taints = ["team=vision:NoExecute", "team=vision:NoSchedule", "nvidia.com/gpu=present:NoSchedule"]

    pool = pool_of({"taints": taints, "labels": {"example.com/team": "vision", "empty": ""}}, fake_clouds)

    vision = [Taint("team", "vision", Effect.NO_EXECUTE), Taint("team", "vision", Effect.NO_SCHEDULE)]
    assert pool.taints == [*vision, GPU_TAINT]
    assert pool.labels == {"example.com/team": "vision", "empty": ""}


def test_the_gpu_taint_may_be_written_again_and_with_another_effect(fake_clouds: Clouds) -> None:
    taints = ["nvidia.com/gpu=present:NoSchedule", "nvidia.com/gpu=other:NoExecute"]

    assert [str(taint) for taint in pool_of({"taints": taints}, fake_clouds).taints] == taints


# --- sharing ----------------------------------------------------------------------------------------------------------


@listed(__file__)
def test_what_is_wrong_with_sharing(sharing: object, found: list[str], fake_clouds: Clouds) -> None:
    assert problems(config(changed(POOL, {"sharing": marked(sharing)})), fake_clouds) == found


@pytest.mark.parametrize(
    ("sharing", "kind"),
    [
        pytest.param({"mode": "none"}, "none", id="none"),
        pytest.param({"mode": "time-slicing", "replicas": 4}, "time-slicing", id="time-slicing"),
        pytest.param({"mode": "mps", "replicas": 4}, "mps", id="mps"),
        pytest.param({"mode": "mig", "profile": "1g.5gb"}, "mig-single", id="a profile"),
        pytest.param({"mode": "mig", "profile": "1g.5gb", "strategy": "mixed"}, "mig-mixed", id="a profile, mixed"),
        pytest.param({"mode": "mig", "layout": ["1g.5gb", "2g.10gb"]}, "mig-mixed", id="a layout"),
        pytest.param(
            {"mode": "mig", "layout": ["1g.5gb"] * 7, "strategy": "single"}, "mig-single", id="a uniform layout"
        ),
        pytest.param(
            {"mode": "mig", "profile": "1g.5gb", "share": {"mode": "mps", "replicas": 2}},
            "mig-single+mps",
            id="mps on it",
        ),
        pytest.param(
            {"mode": "mig", "layout": {0: ["1g.5gb"]}, "share": {"mode": "time-slicing", "replicas": 2}},
            "mig-mixed+time-slicing",
            id="time-slicing on it",
        ),
    ],
)
def test_a_way_of_sharing_is_a_row_of_the_matrix(sharing: dict[str, Any], kind: str, fake_clouds: Clouds) -> None:
    assert pool_of({"sharing": sharing}, fake_clouds).sharing.kind == kind


def test_a_layout_per_gpu_is_the_same_from_yaml_and_from_json(fake_clouds: Clouds) -> None:
    layout = {0: ["3g.20gb", "3g.20gb"], 10: ["1g.5gb"]}

    from_yaml = pool_of({"sharing": {"mode": "mig", "layout": layout}}, fake_clouds)
    from_json = pool_of({"sharing": {"mode": "mig", "layout": {str(k): v for k, v in layout.items()}}}, fake_clouds)

    assert from_yaml == from_json
    assert isinstance(from_yaml.sharing, Mig)
    assert from_yaml.sharing.gpu_layouts() == layout


def test_a_layout_for_every_gpu_has_no_index(fake_clouds: Clouds) -> None:
    sharing = pool_of({"sharing": {"mode": "mig", "layout": ["1g.5gb", "2g.10gb"]}}, fake_clouds).sharing

    assert isinstance(sharing, Mig)
    assert sharing.gpu_layouts() == {None: ["1g.5gb", "2g.10gb"]}


# --- on their own -----------------------------------------------------------------------------------------------------


def test_a_component_reads_a_pool_without_clusters() -> None:
    pool = parse_pool(("pool",), {"gpu": "L4", "nodes": {"max": 1}, "sharing": {"mode": "time-slicing", "replicas": 3}})

    assert pool.sharing == TimeSlicing(mode="time-slicing", replicas=3)


def test_a_component_is_told_where_in_its_own_arguments() -> None:
    with pytest.raises(Rejected) as caught:
        parse_pool(("pool",), {"gpu": "L4", "nodes": {"max": 0}, "clusters": ["lab"]})

    assert [problem.key for problem in caught.value.problems] == ["pool.nodes.max", "pool.clusters"]


def test_what_was_read_never_changes(fake_clouds: Clouds) -> None:
    pool = parse_stack(config(), fake_clouds).pools["a"]

    with pytest.raises(ValueError, match="frozen"):
        pool.disk_gib = 500


# --- plans of all pools -----------------------------------------------------------------------------------------------


def two_clusters(pools: Mapping[str, Any], clouds: Clouds) -> Stack:
    return parse_stack({"clusters": {"lab": CLUSTER, "sky": {**CLUSTER, "name": "sky-dev"}}, "pools": pools}, clouds)


def test_pools_are_planned_by_cluster_in_the_order_of_the_file(fake_clouds: Clouds) -> None:
    stack = two_clusters({"b": changed(POOL, {"clusters": ["sky", "lab"]}), "a": POOL}, fake_clouds)

    plans = plan_stack(stack, fake_clouds)

    assert [(plan.cluster, plan.name) for plan in plans] == [("lab", "b"), ("lab", "a"), ("sky", "b")]


@pytest.mark.parametrize(
    ("pools", "keys"),
    [
        ({"a": {"clusters": ["lab", "sky"], "gpu": "V100-16GB"}}, ["pools.a.gpu"]),
        ({"a": {"gpu": "V100"}, "b": {"gpu": "T4"}, "c": {}}, ["pools.a.gpu", "pools.b.gpu"]),
    ],
    ids=["one reason on two clusters", "every pool that cannot be"],
)
def test_every_reason_is_told_once(pools: Mapping[str, Any], keys: list[str], fake_clouds: Clouds) -> None:
    stack = two_clusters({name: changed(POOL, changes) for name, changes in pools.items()}, fake_clouds)

    with pytest.raises(Rejected) as caught:
        plan_stack(stack, fake_clouds)

    assert [problem.key for problem in caught.value.problems] == keys


def two_pools(**changes: Any) -> dict[str, Any]:
    return {**config(), "pools": {"a": POOL, "b": POOL}, **changes}


def test_what_has_been_planned_is_the_answer_to_the_same_question(fake_clouds: Clouds) -> None:
    plan = plan_config(two_pools(), fake_clouds)
    with planned(plan, two_pools(), fake_clouds, ["aws:region", "gcp:project"]):
        asked_again = plan_config(two_pools(), fake_clouds, ["gcp:project", "aws:region"])

    assert asked_again is plan
    assert plan_config(two_pools(), fake_clouds) is not plan


@pytest.mark.parametrize(
    "other",
    [
        {"pools": {"b": POOL, "a": POOL}},
        {"pools": {"a": POOL}},
        {"production": "false"},
        {"allow_destroy": ["lab/a"]},
        {"clusters": {"lab": {**CLUSTER, "subnet_ids": ["one", LATE]}}},
        {"clusters": {"lab": {**CLUSTER, "subnet_ids": ["one"]}}},
    ],
    ids=["order", "pools", "text", "more keys", "a secret", "a shorter list"],
)
def test_what_has_been_planned_is_no_answer_to_another_question(fake_clouds: Clouds, other: dict[str, Any]) -> None:
    given = two_pools(production=False, clusters={"lab": {**CLUSTER, "subnet_ids": ["one", "two"]}})
    plan = plan_config(given, fake_clouds)
    right = plan_config(given | other, fake_clouds)
    with planned(plan, given, fake_clouds):
        found = plan_config(given | other, fake_clouds)
        elsewhere = plan_config(given, dict(fake_clouds))
        beside = plan_config(given, fake_clouds, ["own:key"])

    assert found == right
    assert [each for each in (found, elsewhere, beside) if each is plan] == []


def test_what_is_refused_is_refused_beside_a_plan_of_what_python_takes_for_equal(fake_clouds: Clouds) -> None:
    plan = plan_config(two_pools(), fake_clouds)
    with planned(plan, two_pools(), fake_clouds), pytest.raises(Rejected, match=r"pools\.a\.nodes\.max"):
        plan_config(two_pools(pools={"a": {**POOL, "nodes": {"max": 4.0}}, "b": POOL}), fake_clouds)


# --- names of the past ---


@listed(__file__)
def test_names_of_a_pools_past(pools: Mapping[str, Any], found: list[str], fake_clouds: Clouds) -> None:
    given = {
        "clusters": {"lab": CLUSTER, "other": {**CLUSTER, "name": "other"}},
        "pools": {name: {**POOL, **keys} for name, keys in pools.items()},
    }

    assert problems(given, fake_clouds) == found
