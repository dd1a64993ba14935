"""From the configuration of an environment to checked clusters and pools: every wrong text and its exact answer."""

import copy
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from gpupools.common.errors import Rejected, nearest
from gpupools.common.taints import GPU_TAINT, Effect, Taint
from gpupools.plan.cloud import Cloud
from gpupools.spec.models import (
    LATE,
    Cluster,
    Mig,
    Nodes,
    PoolSpec,
    StackOutput,
    StackPool,
    TimeSlicing,
    WholeGpu,
)
from gpupools.stackfile.stack import plan_config, planned
from gpupools.stackfile.stack_validation import Stack, parse_cluster, parse_pool, parse_stack
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


def test_a_right_configuration_becomes_clusters_and_pools(fake_clouds: Clouds) -> None:
    stack = parse_stack(config(), fake_clouds)

    assert list(stack.clusters) == ["lab"]
    assert stack.clusters["lab"].cloud == "fake"
    assert stack.pools["a"].clusters == ["lab"]
    assert stack.pools["a"].gpu == "A100-40GB"


def test_what_is_left_out_costs_nothing_and_shares_nothing(fake_clouds: Clouds) -> None:
    pool = parse_stack(config(), fake_clouds).pools["a"]

    assert pool.nodes == Nodes(min=0, max=4)
    assert pool.gpus_per_node is None
    assert pool.sharing == WholeGpu()
    assert pool.software is None
    assert pool.disk_gib == 200
    assert (pool.labels, pool.taints) == ({}, [])


MAP = "a map of names to settings"
KEY = "use 1 to 20 lower-case letters, digits and hyphens; start with a letter, do not end with a hyphen"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param(
            {},
            [
                f"clusters: is missing; write gpupools:clusters as {MAP}",
                f"pools: is missing; write gpupools:pools as {MAP}",
            ],
            id="nothing",
        ),
        pytest.param(
            {"clusters": {}, "pools": []},
            [f"clusters: got {{}}; write gpupools:clusters as {MAP}", f"pools: got []; write gpupools:pools as {MAP}"],
            id="empty",
        ),
        pytest.param(
            {"clusters": None, "pools": "x"},
            [f"clusters: got null; write gpupools:clusters as {MAP}", f"pools: is text; write gpupools:pools as {MAP}"],
            id="not maps",
        ),
        pytest.param(
            {"clusters": LATE, "pools": LATE},
            [
                "clusters: is a secret; write it as plain text; only addresses in clusters may be secrets",
                "pools: is a secret; write it as plain text; only addresses in clusters may be secrets",
            ],
            id="secrets",
        ),
        pytest.param(
            {**config(), "pool": {}, "dryrun": True},
            [
                "gpupools:pool: unknown key; did you mean 'pools'?",
                (
                    "gpupools:dryrun: unknown key; "
                    "the nearest of 9: production, allow_disruption, allow_destroy, quotas, prices"
                ),
            ],
            id="unknown keys beside the right ones",
        ),
        pytest.param(
            {
                "clusters": {"Lab": CLUSTER, "": CLUSTER, 7: CLUSTER, "a" * 21: CLUSTER, "lab": CLUSTER},
                "pools": {"a": POOL},
            },
            [
                f"clusters.Lab: is not a valid key; {KEY}",
                f'clusters[""]: is not a valid key; {KEY}',
                f"clusters.7: is not a valid key; {KEY}",
                f"clusters.{'a' * 21}: is not a valid key; {KEY}",
            ],
            id="names of clusters",
        ),
        pytest.param(
            {
                "clusters": {"lab": CLUSTER},
                "pools": dict.fromkeys(("-a", "a-", "1a", "a_b", "ä", "a\n", "a" * 20), POOL),
            },
            [
                f"pools.-a: is not a valid key; {KEY}",
                f"pools.a-: is not a valid key; {KEY}",
                f"pools.1a: is not a valid key; {KEY}",
                f"pools.a_b: is not a valid key; {KEY}",
                f"pools.ä: is not a valid key; {KEY}",
                f'pools["a\\n"]: is not a valid key; {KEY}',
            ],
            id="names of pools",
        ),
    ],
)
def test_what_is_wrong_with_the_whole(given: Mapping[str, Any], found: list[str], fake_clouds: Clouds) -> None:
    assert problems(given, fake_clouds) == found


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

ADDRESS = "write text or {output: …}"
NO_STACK = "reads a stack output, but stack is not set; add stack: <org>/<project>/<stack>"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param({"cloud": Left}, ["clusters.lab.cloud: is missing; use one of fake"], id="no cloud"),
        pytest.param(
            {"cloud": "fke"}, ["clusters.lab.cloud: unknown cloud 'fke'; did you mean 'fake'?"], id="misspelt"
        ),
        pytest.param({"cloud": 3}, ["clusters.lab.cloud: unknown cloud 3; use one of fake"], id="a number as cloud"),
        pytest.param(
            {"cloud": ["fake"]}, ["clusters.lab.cloud: unknown cloud a list of 1; use one of fake"], id="a list"
        ),
        pytest.param({"nam": "x"}, ["clusters.lab.nam: unknown key; did you mean 'name'?"], id="unknown key"),
        pytest.param(
            {7: "x"},
            [f"clusters.lab[7]: unknown key; {nearest('', {*Cluster.model_fields, *CLUSTER, 'subnet_ids'})}"],
            id="a number as key",
        ),
        pytest.param({"name": Left}, ["clusters.lab.name: is missing; add it"], id="a key is missing"),
        pytest.param({"name": ""}, ["clusters.lab.name: got ''; write at least 1 character(s)"], id="an empty address"),
        pytest.param(
            {"name": " x", "stack": "o/p", "runtime": {}},
            [
                "clusters.lab.stack: got 'o/p'; write <organization>/<project>/<stack>",
                "clusters.lab.name: got ' x'; remove surrounding spaces and unprintable characters",
            ],
            id="blanks and half a stack",
        ),
        pytest.param(
            {"name": "x\n"},
            ["clusters.lab.name: got 'x\\n'; remove surrounding spaces and unprintable characters"],
            id="a line break",
        ),
        pytest.param({"name": 3}, [f"clusters.lab.name: got 3; {ADDRESS}"], id="a number as address"),
        pytest.param({"name": None}, [f"clusters.lab.name: got null; {ADDRESS}"], id="null as address"),
        pytest.param({"name": ["x"]}, [f"clusters.lab.name: got a list of 1; {ADDRESS}"], id="a list as address"),
        pytest.param(
            {"name": {"outptu": "x"}, "stack": "o/p/s"},
            [
                "clusters.lab.name.outptu: unknown key; did you mean 'output'?",
            ],
            id="a misspelt output",
        ),
        pytest.param(
            {"name": {"output": ""}, "stack": "o/p/s"},
            ["clusters.lab.name.output: got ''; write at least 1 character(s)"],
            id="an empty output",
        ),
        pytest.param(
            {"name": {"output": "x"}},
            [f"clusters.lab.name: {NO_STACK}"],
            id="an output of no stack",
        ),
        pytest.param(
            {"subnet_ids": ["a", {"output": "x"}]},
            [f"clusters.lab.subnet_ids: {NO_STACK}"],
            id="an output of no stack in a list",
        ),
        pytest.param(
            {"subnet_ids": "a"}, ["clusters.lab.subnet_ids: got 'a'; write a list or {output: …}"], id="no list"
        ),
        pytest.param({"subnet_ids": []}, ["clusters.lab.subnet_ids: got []; list at least 1"], id="an empty list"),
        pytest.param({"subnet_ids": [1]}, [f"clusters.lab.subnet_ids[0]: got 1; {ADDRESS}"], id="a number in a list"),
        pytest.param({"stack": ""}, ["clusters.lab.stack: got ''; write at least 1 character(s)"], id="an empty stack"),
        pytest.param({"stack": 3}, ["clusters.lab.stack: got 3; write text"], id="a number as stack"),
        pytest.param(
            {"region": LATE},
            [f"clusters.lab.region: {SECRET}"],
            id="a secret that a plan needs",
        ),
        pytest.param(
            {"region": {"output": "x"}, "stack": "o/p/s"},
            ["clusters.lab.region: got a map with 'output'; write text"],
            id="an output that a plan needs",
        ),
    ],
)
def test_what_is_wrong_with_a_cluster(changes: dict[str, Any], found: list[str], fake_clouds: Clouds) -> None:
    assert problems(config(cluster=changed(CLUSTER, changes)), fake_clouds) == found


@pytest.mark.parametrize("cluster", [None, "lab-dev", ["lab-dev"], LATE], ids=["null", "text", "a list", "a secret"])
def test_a_cluster_is_a_map(cluster: object, fake_clouds: Clouds) -> None:
    (found,) = problems(config(cluster=cluster), fake_clouds)

    assert found.startswith("clusters.lab: got ")
    assert found.endswith("; write a map with cloud, name and the keys of the cloud")


def test_addresses_may_come_from_another_stack(fake_clouds: Clouds) -> None:
    given = {"stack": "acme/platform/dev", "name": {"output": "clusterName"}, "subnet_ids": ["a", {"output": "net.b"}]}

    cluster = parse_stack(config(cluster=changed(CLUSTER, given)), fake_clouds).clusters["lab"]

    assert cluster.late_outputs() == {
        "name": StackOutput(output="clusterName"),
        "subnet_ids[1]": StackOutput(output="net.b"),
    }


def test_several_addresses_may_be_one_output(fake_clouds: Clouds) -> None:
    given = {"stack": "acme/platform/dev", "subnet_ids": {"output": "subnets"}}

    cluster = parse_stack(config(cluster=changed(CLUSTER, given)), fake_clouds).clusters["lab"]

    assert cluster.late_outputs() == {"subnet_ids": StackOutput(output="subnets")}


@pytest.mark.parametrize("late", [{"name": LATE}, {"subnet_ids": LATE}, {"subnet_ids": ["a", LATE]}], ids=str)
def test_addresses_may_be_secret(late: dict[str, Any], fake_clouds: Clouds) -> None:
    assert problems(config(cluster=changed(CLUSTER, late)), fake_clouds) == []


# --- pools ------------------------------------------------------------------------------------------------------------

ONE_WAY = "pools.a: set either gpu (a model, e.g. A100-80GB) or instance_type"
GPUS = "write whole GPUs as a number and a fraction as text: 8 or '1/4'"
RANGE = "a node has a fraction of one GPU or 1 to 64 whole GPUs"
WHOLE = "write an integer without quotes"
KNOWN = nearest("", StackPool.model_fields)
SOFTWARE = "use one of 'cloud-managed', 'device-plugin', 'gpu-operator', 'dra-driver' or 'hami'"
LABEL_KEY = "is not a valid label key; use a qualified name such as 'example.com/team'"
LABEL_VALUE = "is not a valid label value; use at most 63 letters, digits, '-', '_' and '.'"
TAINT = "write a taint as text, e.g. 'team=vision:NoSchedule'"
HUGE = 16**5000


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param({"gpu": Left}, [ONE_WAY], id="no machine"),
        pytest.param({"gpu": None}, [ONE_WAY], id="null as machine"),
        pytest.param({"instance_type": "l4.small"}, [ONE_WAY], id="two machines"),
        pytest.param(
            {"gpu": Left, "instance_type": "l4.small", "gpus_per_node": 1},
            ["pools.a: gpus_per_node requires gpu; an instance_type has a fixed number of GPUs"],
            id="GPUs of an instance type",
        ),
        pytest.param({"gpu": 100}, ["pools.a.gpu: got 100; write text"], id="a number as model"),
        pytest.param({"gpu": ""}, ["pools.a.gpu: got ''; write at least 1 character(s)"], id="an empty model"),
        pytest.param(
            {"gpu": "x" * 101},
            ["pools.a.gpu: got a text of 101 characters; write at most 100 characters"],
            id="a very long model",
        ),
        pytest.param({"gpus_per_node": 0}, [f"pools.a.gpus_per_node: got 0; {RANGE}"], id="no GPUs"),
        pytest.param({"gpus_per_node": -1}, [f"pools.a.gpus_per_node: got -1; {RANGE}"], id="fewer than none"),
        pytest.param({"gpus_per_node": 65}, [f"pools.a.gpus_per_node: got 65; {RANGE}"], id="65 GPUs"),
        pytest.param({"gpus_per_node": "5/4"}, [f"pools.a.gpus_per_node: got '5/4'; {RANGE}"], id="one and a part"),
        pytest.param({"gpus_per_node": True}, [f"pools.a.gpus_per_node: got true; {GPUS}"], id="true as GPUs"),
        pytest.param({"gpus_per_node": 0.25}, [f"pools.a.gpus_per_node: got 0.25; {GPUS}"], id="a decimal"),
        pytest.param({"gpus_per_node": "1/0"}, [f"pools.a.gpus_per_node: got '1/0'; {GPUS}"], id="a division by zero"),
        pytest.param({"gpus_per_node": "¼"}, [f"pools.a.gpus_per_node: got '¼'; {GPUS}"], id="a single character"),
        pytest.param({"gpus_per_node": "٣"}, [f"pools.a.gpus_per_node: got '٣'; {GPUS}"], id="another script's digit"),
        pytest.param(
            {"gpus_per_node": "1e99999999"},
            [f"pools.a.gpus_per_node: got '1e99999999'; {GPUS}"],
            id="a number that takes minutes to work out",
        ),
        pytest.param(
            {"gpus_per_node": HUGE},
            [f"pools.a.gpus_per_node: got a number that is too long to show; {RANGE}"],
            id="a huge number",
        ),
        pytest.param({"nodes": Left}, ["pools.a.nodes: is missing; add it"], id="no nodes"),
        pytest.param(
            {"nodes": 4},
            [f"pools.a.nodes: got 4; write a map with {', '.join(sorted(Nodes.model_fields))}"],
            id="nodes as a number",
        ),
        pytest.param({"nodes": {}}, ["pools.a.nodes.max: is missing; add it"], id="no largest size"),
        pytest.param({"nodes": {"max": 0}}, ["pools.a.nodes.max: got 0; use 1 or more"], id="no node ever"),
        pytest.param({"nodes": {"max": 1001}}, ["pools.a.nodes.max: got 1001; use 1000 or less"], id="very many nodes"),
        pytest.param({"nodes": {"max": "4"}}, [f"pools.a.nodes.max: got '4'; {WHOLE}"], id="nodes in quotes"),
        pytest.param({"nodes": {"max": 4.5}}, [f"pools.a.nodes.max: got 4.5; {WHOLE}"], id="half a node"),
        pytest.param({"nodes": {"max": True}}, [f"pools.a.nodes.max: got true; {WHOLE}"], id="true as nodes"),
        pytest.param({"nodes": {"max": None}}, [f"pools.a.nodes.max: got null; {WHOLE}"], id="null as nodes"),
        pytest.param(
            {"nodes": {"max": HUGE}},
            ["pools.a.nodes.max: got a number that is too long to show; use 1000 or less"],
            id="huge",
        ),
        pytest.param({"nodes": {"min": -1, "max": 1}}, ["pools.a.nodes.min: got -1; use 0 or more"], id="min below 0"),
        pytest.param(
            {"nodes": {"min": 5, "max": 4}},
            ["pools.a.nodes: min 5 is above max 4; lower min or raise max"],
            id="min above max",
        ),
        pytest.param(
            {"nodes": {"max": 4, "mx": 4}}, ["pools.a.nodes.mx: unknown key; did you mean 'max'?"], id="a key of nodes"
        ),
        pytest.param(
            {"software": "operator"}, [f"pools.a.software: got 'operator'; {SOFTWARE}"], id="unknown software"
        ),
        pytest.param({"software": LATE}, [f"pools.a.software: {SECRET}"], id="secret software"),
        pytest.param({"disk_gib": 99}, ["pools.a.disk_gib: got 99; use 100 or more"], id="a small disk"),
        pytest.param({"disk_gib": 16385}, ["pools.a.disk_gib: got 16385; use 16384 or less"], id="a large disk"),
        pytest.param({"disk_gib": "200"}, [f"pools.a.disk_gib: got '200'; {WHOLE}"], id="a disk in quotes"),
        pytest.param({"labels": ["a"]}, ["pools.a.labels: got a list of 1; write a map"], id="labels as a list"),
        pytest.param({"labels": {"a": 1}}, ["pools.a.labels.a: got 1; write text"], id="a number as label"),
        pytest.param(
            {"labels": {"a b": "x", "c": "y z", "d": "fine", "E/f": ""}},
            [
                f"pools.a.labels.a b: 'a b' {LABEL_KEY}",
                f"pools.a.labels.c: 'y z' {LABEL_VALUE}",
                f"pools.a.labels.E/f: 'E/f' {LABEL_KEY}",
            ],
            id="every wrong label",
        ),
        pytest.param({"labels": {7: "x"}}, ["pools.a.labels[7]: got 7; write text"], id="a number as label's key"),
        pytest.param({"labels": {"a": LATE}}, [f"pools.a.labels.a: {SECRET}"], id="a secret label"),
        pytest.param({"taints": "a:NoSchedule"}, ["pools.a.taints: got 'a:NoSchedule'; write a list"], id="no list"),
        pytest.param(
            {"taints": [{"key": "a"}]}, [f"pools.a.taints[0]: got a map with 'key'; {TAINT}"], id="a map as taint"
        ),
        pytest.param(
            {"renamed_from": "Old Pool"},
            [
                (
                    "pools.a.renamed_from: got 'Old Pool', which is not a valid key of a pool; "
                    "set the former key of the pool"
                )
            ],
            id="a former name that is none",
        ),
        *(
            pytest.param(
                {"capacity": {"mode": "spot", "max_price_usd_per_hour": price}},
                [f"pools.a.capacity.max_price_usd_per_hour: got {price!r}; {fix}"],
                id=f"a price of {price}",
            )
            for price, fix in (
                (float("inf"), "write a finite number"),
                ("1", "write a number without quotes"),
                (0, "use more than 0"),
            )
        ),
        pytest.param({"taints": [None]}, [f"pools.a.taints[0]: got null; {TAINT}"], id="null as taint"),
        pytest.param(
            {"taints": ["ok:NoSchedule", "a", "b:No"]},
            [
                "pools.a.taints[1]: got 'a'; write a taint as key=value:Effect, e.g. 'team=vision:NoSchedule'",
                "pools.a.taints[2]: got effect 'No'; use NoSchedule, PreferNoSchedule or NoExecute",
            ],
            id="every wrong taint",
        ),
        pytest.param(
            {"taints": ["nvidia.com/gpu=other:NoSchedule"]},
            [
                (
                    "pools.a.taints[0]: every GPU pool has the taint nvidia.com/gpu=present:NoSchedule, "
                    "and a node has one taint per key and effect; remove this one, or set adopt.gpu_taint to the value "
                    "that the nodes of an imported pool have"
                )
            ],
            id="a second value of the GPU taint",
        ),
        pytest.param(
            {"taints": ["a=1:NoSchedule", "a=2:NoSchedule"]},
            [
                (
                    "pools.a.taints: a=1:NoSchedule and a=2:NoSchedule differ only in their value; "
                    "a node has one taint per key and effect"
                )
            ],
            id="two values of one taint",
        ),
        pytest.param({"clusters": Left}, ["pools.a.clusters: is missing; add it"], id="no clusters"),
        pytest.param({"clusters": []}, ["pools.a.clusters: got []; list at least 1"], id="an empty list of clusters"),
        pytest.param({"clusters": "lab"}, ["pools.a.clusters: got 'lab'; write a list: [lab]"], id="clusters as text"),
        pytest.param({"clusters": [7]}, ["pools.a.clusters[0]: got 7; write text"], id="a number as cluster"),
        pytest.param(
            {"clusters": ["lob"]},
            ["pools.a.clusters[0]: unknown cluster 'lob'; did you mean 'lab'?"],
            id="an unknown cluster",
        ),
        pytest.param(
            {"clusters": ["lab", "lab"]},
            ["pools.a.clusters[1]: 'lab' is listed twice; list each cluster once"],
            id="a cluster twice",
        ),
        pytest.param({"node": 1}, ["pools.a.node: unknown key; did you mean 'nodes'?"], id="an unknown key"),
        pytest.param({"zzz": 1}, [f"pools.a.zzz: unknown key; {KNOWN}"], id="a key like no other"),
        pytest.param({7: 1}, [f"pools.a[7]: unknown key; {KNOWN}"], id="a number as key"),
        pytest.param(
            {"<list>": 1},
            [f"pools.a.<list>: unknown key; {nearest('<list>', StackPool.model_fields)}"],
            id="a key like our own tags",
        ),
        pytest.param(
            {"[key]": 1},
            [f"pools.a.[key]: unknown key; {nearest('[key]', StackPool.model_fields)}"],
            id="a key like pydantic's",
        ),
    ],
)
def test_what_is_wrong_with_a_pool(changes: dict[str, Any], found: list[str], fake_clouds: Clouds) -> None:
    assert problems(config(changed(POOL, changes)), fake_clouds) == found


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

SHARING_KEYS = "layout, memory, mode, placement, profile, rename, replicas, share, strategy"
MODES = "use one of none, time-slicing, mps, fractions, mig"
OTHER_MODE = "remove it, or change the mode"
EITHER = "pools.a.sharing: set either profile (one size) or layout (several sizes)"
EMPTY = "pools.a.sharing: layout has a GPU without slices; list at least one profile per GPU"
SINGLE = "pools.a.sharing: strategy single requires one profile on all GPUs; use strategy: mixed"


@pytest.mark.parametrize(
    ("sharing", "found"),
    [
        pytest.param(None, [f"pools.a.sharing: got null; write a map with {SHARING_KEYS}"], id="null"),
        pytest.param(
            "mig",
            ["pools.a.sharing: got 'mig'; write {mode: mig, …} with profile, layout, strategy, share"],
            id="a mode alone",
        ),
        pytest.param("none", ["pools.a.sharing: got 'none'; write {mode: none}"], id="a mode that needs nothing"),
        pytest.param("mps", ["pools.a.sharing: got 'mps'; write {mode: mps, replicas: …}"], id="a mode with a key"),
        pytest.param([], [f"pools.a.sharing: got []; write a map with {SHARING_KEYS}"], id="a list"),
        pytest.param(LATE, [f"pools.a.sharing: {SECRET}"], id="a secret"),
        pytest.param({}, [f"pools.a.sharing.mode: is missing; {MODES}"], id="no mode"),
        pytest.param({"mode": "migg"}, [f"pools.a.sharing.mode: got 'migg'; {MODES}"], id="an unknown mode"),
        pytest.param({"mode": 3}, [f"pools.a.sharing.mode: got 3; {MODES}"], id="a number as mode"),
        pytest.param({"mode": ["mig"]}, [f"pools.a.sharing.mode: got a list of 1; {MODES}"], id="a list as mode"),
        pytest.param(
            {"mode": "none", "replicas": 2},
            [f"pools.a.sharing.replicas: requires mode time-slicing or mps, but mode is none; {OTHER_MODE}"],
            id="none with replicas",
        ),
        pytest.param({"mode": "mps"}, ["pools.a.sharing.replicas: is missing; add it"], id="no replicas"),
        pytest.param(
            {"mode": "mig", "profile": "1g.5gb", "rename": True},
            [f"pools.a.sharing.rename: requires mode time-slicing or mps, but mode is mig; {OTHER_MODE}"],
            id="slices that nobody shares, renamed",
        ),
        pytest.param(
            {"mode": "time-slicing", "replicas": 1},
            ["pools.a.sharing.replicas: got 1; use 2 or more"],
            id="one replica",
        ),
        pytest.param(
            {"mode": "time-slicing", "replicas": 1001},
            ["pools.a.sharing.replicas: got 1001; use 1000 or less"],
            id="very many replicas",
        ),
        pytest.param(
            {"mode": "mps", "replicas": "4"}, [f"pools.a.sharing.replicas: got '4'; {WHOLE}"], id="replicas in quotes"
        ),
        pytest.param(
            {"mode": "time-slicing", "replica": 4},
            [
                "pools.a.sharing.replica: unknown key; did you mean 'replicas'?",
            ],
            id="a misspelt key",
        ),
        pytest.param(
            {"mode": "mps", "replicas": 2, "profile": "1g.5gb"},
            [f"pools.a.sharing.profile: requires mode mig, but mode is mps; {OTHER_MODE}"],
            id="another mode's key",
        ),
        pytest.param({"mode": "mig"}, [EITHER], id="MIG of no size"),
        pytest.param({"mode": "mig", "profile": None, "layout": None}, [EITHER], id="MIG of null sizes"),
        pytest.param({"mode": "mig", "profile": "1g.5gb", "layout": ["1g.5gb"]}, [EITHER], id="MIG of two sizes"),
        pytest.param({"mode": "mig", "profile": 1}, ["pools.a.sharing.profile: got 1; write text"], id="a number"),
        pytest.param(
            {"mode": "mig", "profile": "1g.5gb", "stratgy": "mixed"},
            ["pools.a.sharing.stratgy: unknown key; did you mean 'strategy'?"],
            id="a misspelt key of MIG",
        ),
        pytest.param(
            {"mode": "mig", "profile": "1g.5gb", "strategy": "both"},
            ["pools.a.sharing.strategy: got 'both'; use one of 'single' or 'mixed'"],
            id="an unknown strategy",
        ),
        pytest.param({"mode": "mig", "layout": []}, [EMPTY], id="an empty layout"),
        pytest.param({"mode": "mig", "layout": {}}, [EMPTY], id="a layout of no GPU"),
        pytest.param({"mode": "mig", "layout": {0: ["1g.5gb"], 1: []}}, [EMPTY], id="a GPU without slices"),
        pytest.param(
            {"mode": "mig", "layout": "1g.5gb"},
            ["pools.a.sharing.layout: got '1g.5gb'; write a list or a map"],
            id="text",
        ),
        pytest.param(
            {"mode": "mig", "layout": ["1g.5gb", 2]},
            ["pools.a.sharing.layout[1]: got 2; write text"],
            id="a number in it",
        ),
        pytest.param(
            {"mode": "mig", "layout": ["1g.5gb"] * 33},
            ["pools.a.sharing.layout: got a list of 33; list at most 32"],
            id="a layout of no GPU that exists",
        ),
        pytest.param(
            {"mode": "mig", "layout": {0: "1g.5gb"}},
            ["pools.a.sharing.layout[0]: got '1g.5gb'; write a list"],
            id="no list",
        ),
        pytest.param(
            {"mode": "mig", "layout": {"0": [3]}},
            ["pools.a.sharing.layout.0[0]: got 3; write text"],
            id="a number in a GPU",
        ),
        pytest.param(
            {"mode": "mig", "layout": {"all": ["1g.5gb"]}},
            [f"pools.a.sharing.layout.all: got 'all'; {WHOLE}"],
            id="a word",
        ),
        pytest.param(
            {"mode": "mig", "layout": {"0-3": ["1g.5gb"]}},
            [f"pools.a.sharing.layout.0-3: got '0-3'; {WHOLE}"],
            id="a range of GPUs",
        ),
        pytest.param(
            {"mode": "mig", "layout": {"1.0": ["1g.5gb"]}},
            [f"pools.a.sharing.layout.1.0: got '1.0'; {WHOLE}"],
            id="1.0",
        ),
        pytest.param(
            {"mode": "mig", "layout": {"01": ["1g.5gb"]}}, [f"pools.a.sharing.layout.01: got '01'; {WHOLE}"], id="01"
        ),
        pytest.param(
            {"mode": "mig", "layout": {-1: ["1g.5gb"]}},
            ["pools.a.sharing.layout[-1]: got -1; use 0 or more"],
            id="below 0",
        ),
        pytest.param(
            {"mode": "mig", "layout": {64: ["1g.5gb"]}},
            ["pools.a.sharing.layout[64]: got 64; use 63 or less"],
            id="64",
        ),
        pytest.param(
            {"mode": "mig", "layout": {0: ["1g.5gb"], "0": ["2g.10gb"]}},
            ["pools.a.sharing.layout: GPU 0 is set twice, as a number and as text; keep one"],
            id="a GPU twice",
        ),
        pytest.param(
            {"mode": "mig", "layout": ["1g.5gb", "2g.10gb"], "strategy": "single"}, [SINGLE], id="two sizes as one"
        ),
        pytest.param({"mode": "mig", "layout": {0: ["1g.5gb"]}, "strategy": "single"}, [SINGLE], id="some GPUs as one"),
        pytest.param(
            {"mode": "mig", "profile": "1g.5gb", "share": {"mode": "none"}},
            ["pools.a.sharing.share.mode: got 'none'; use one of time-slicing, mps"],
            id="slices shared in no way",
        ),
        pytest.param(
            {"mode": "mig", "profile": "1g.5gb", "share": 2},
            ["pools.a.sharing.share: got 2; write a map with mode, placement, rename, replicas"],
            id="slices shared by number",
        ),
        pytest.param(
            {"mode": "mig", "profile": "1g.5gb", "share": {"mode": "mps", "replica": 2}},
            [
                "pools.a.sharing.share.replica: unknown key; did you mean 'replicas'?",
            ],
            id="a misspelt key of a slice's sharing",
        ),
    ],
)
def test_what_is_wrong_with_sharing(sharing: object, found: list[str], fake_clouds: Clouds) -> None:
    assert problems(config(changed(POOL, {"sharing": sharing})), fake_clouds) == found


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


def test_a_cluster_can_be_read_on_its_own(fake_clouds: Clouds) -> None:
    assert parse_cluster(("cluster",), CLUSTER, fake_clouds).cloud == "fake"
    with pytest.raises(Rejected, match=r"^cluster\.name: is missing; add it$"):
        parse_cluster(("cluster",), changed(CLUSTER, {"name": Left}), fake_clouds)


def test_the_pool_of_each_cluster_says_what_the_stack_file_says(fake_clouds: Clouds) -> None:
    written = {"gpus_per_node": 8, "labels": {"a": "b"}, "taints": ["a:NoSchedule"], "disk_gib": 300}
    stack_pool = parse_stack(config(changed(POOL, written)), fake_clouds).pools["a"]

    pool = stack_pool.pool()

    assert type(pool) is PoolSpec
    assert pool == parse_pool((), {key: value for key, value in changed(POOL, written).items() if key != "clusters"})


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


def test_the_same_reason_on_two_clusters_is_told_once(fake_clouds: Clouds) -> None:
    stack = two_clusters({"a": changed(POOL, {"clusters": ["lab", "sky"], "gpu": "V100-16GB"})}, fake_clouds)

    with pytest.raises(Rejected) as caught:
        plan_stack(stack, fake_clouds)

    assert [problem.key for problem in caught.value.problems] == ["pools.a.gpu"]


def test_every_pool_that_cannot_be_is_told(fake_clouds: Clouds) -> None:
    stack = two_clusters(
        {"a": changed(POOL, {"gpu": "V100"}), "b": changed(POOL, {"gpu": "T4"}), "c": POOL}, fake_clouds
    )

    with pytest.raises(Rejected) as caught:
        plan_stack(stack, fake_clouds)

    assert [problem.key for problem in caught.value.problems] == ["pools.a.gpu", "pools.b.gpu"]


def test_a_right_configuration_is_planned_in_one_step(fake_clouds: Clouds) -> None:
    plan = plan_config(config(), fake_clouds)

    assert list(plan.stack.pools) == ["a"]
    assert plan.pools == plan_stack(plan.stack, fake_clouds)


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


def past(**pools: Mapping[str, Any]) -> dict[str, Any]:
    clusters = {"lab": CLUSTER, "other": {**CLUSTER, "name": "other"}}
    return {"clusters": clusters, "pools": {name: {**POOL, **keys} for name, keys in pools.items()}}


PAST = [
    pytest.param(past(c={"renamed_from": "b", "first_name": "a"}), [], id="a second rename"),
    pytest.param(
        past(b={"renamed_from": "a"}, a={}),
        [
            (
                "pools.b.renamed_from: 'a' is still a pool on the same cluster; set the former key of the pool; after "
                "the update that renamed it, set first_name: a instead"
            )
        ],
        id="the old name is a pool again",
    ),
    pytest.param(past(b={"renamed_from": "a"}, a={"clusters": ["other"]}), [], id="the old name on another cluster"),
    pytest.param(
        past(c={"renamed_from": "a"}, d={"renamed_from": "a"}),
        [
            (
                "pools.d.renamed_from: 'c' is also renamed from 'a', but only one pool can keep its nodes;"
                " remove it from one of the two, which becomes a new pool"
            )
        ],
        id="one pool becomes two",
    ),
    pytest.param(
        past(c={"renamed_from": "a"}, d={"renamed_from": "a", "clusters": ["other"]}),
        [],
        id="a pool of two clusters gets a name on each",
    ),
    *(
        pytest.param(
            past(**pools),
            [
                (
                    "pools.a.first_name: 'a' and 'b' would both be named a in the cloud; set a name that no pool of the"
                    " cluster had"
                )
            ],
            id=f"one name in the cloud for two, {', '.join(pools)}",
        )
        for pools in ({"b": {"first_name": "a"}, "a": {}}, {"a": {}, "b": {"first_name": "a"}})
    ),
    pytest.param(past(b={"first_name": "a"}, a={"first_name": "a2"}), [], id="the old name is free with another first"),
    pytest.param(
        past(b={"renamed_from": "b"}),
        ["pools.b.renamed_from: is the pool's current key; set the former key of the pool"],
        id="its own name",
    ),
    pytest.param(
        past(b={"first_name": "Old Pool"}),
        [
            (
                "pools.b.first_name: got 'Old Pool', which is not a valid key of a pool; "
                "set the key under which it was created"
            )
        ],
        id="a first name that is none",
    ),
]


@pytest.mark.parametrize(("given", "wrong"), PAST)
def test_names_of_a_pools_past(given: Mapping[str, Any], wrong: list[str], fake_clouds: Clouds) -> None:
    assert problems(given, fake_clouds) == wrong
