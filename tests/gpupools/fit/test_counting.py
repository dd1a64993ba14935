"""Nodes, left-over units, price and quota of workloads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.json_types import JsonDict
from gpupools.fit.counting import Costs, needs
from gpupools.fit.offers import offers
from gpupools.fit.pod_judging import Context
from gpupools.fit.workloads import Level, Manifests, Need
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan, plan_config, prices_of
from tests.gpupools.fit.loads import GPU, read, template

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "teams"
AWS: JsonDict = {**clouds()["aws"].example_cluster, "region": "us-east-1", "places": "trust"}
POOLS: JsonDict = {
    "big": {"instance_type": "p4d.24xlarge", "nodes": {"max": 4}},
    "claimed": {"instance_type": "p4d.24xlarge", "nodes": {"fixed": 2}, "software": "dra-driver"},
}
AWS["kubeconfig"], AWS["runtime"] = {"path": "~/.kube/train"}, {"kubernetes": "1.34"}


@pytest.fixture(scope="module")
def plan() -> StackPlan:
    pools = {name: {"clusters": ["train"], **pool} for name, pool in POOLS.items()}
    return plan_config({"clusters": {"train": AWS}, "pools": pools}, clouds())


def replicas(roles: Mapping[str, tuple[int, int]], pool: str = "big") -> JsonDict:
    made = {
        role: {"replicas": pods, "template": {"spec": template(gpus, pool)}} for role, (pods, gpus) in roles.items()
    }
    return {"kind": "PyTorchJob", "metadata": {"name": "x"}, "spec": {"pytorchReplicaSpecs": made}}


def job(pods: int, gpus: int = 1, kind: str = "Job", gang: int = 0, pool: str = "big", **spec: Any) -> JsonDict:
    if gang:
        made = replicas({"Worker": (pods, gpus)}, pool)
        made["spec"]["elasticPolicy"] = {"minReplicas": gang}
        return made
    count = {"parallelism" if kind == "Job" else "replicas": pods, "template": {"spec": template(gpus, pool, **spec)}}
    return {"kind": kind, "metadata": {"name": "x"}, "spec": count}


def need(plan: StackPlan, manifest: JsonDict, pool: str = "big", **changed: Any) -> Need:
    work = read(manifest)._replace(**changed)
    (offer,) = (each for each in offers(plan) if each.pool.name == pool)
    return needs(work, work.templates[0], offer, Context(plan, Manifests(())), Costs(plan, clouds()))


def on_cpu(cores: str) -> JsonDict:
    made = template(1)
    made["containers"][0]["resources"]["requests"] = {"cpu": cores}
    return {"containers": made["containers"]}


@pytest.mark.parametrize(
    ("manifest", "per_node", "nodes", "left"),
    [
        (job(1), 8, 1, 7),
        (job(8), 8, 1, 0),
        (job(9), 8, 2, 7),
        (job(4, 8), 1, 4, 0),
        (job(5, 3), 2, 3, 9),
        (job(3, **on_cpu("44")), 2, 2, 13),
        (job(3, **on_cpu("90")), 1, 3, 21),
        (job(40, 8), 1, 4, 0),
    ],
    ids=[
        "one pod", "a full node", "one pod more", "a node for each", "units that do not divide the node",
        "processors are the bound", "processors that may be reserved",
        "more than the pool has",
    ],
)  # fmt: skip
def test_pods_need_nodes(plan: StackPlan, manifest: JsonDict, per_node: int, nodes: int, left: int) -> None:
    found = need(plan, manifest)

    assert (found.pods_per_node, found.nodes, [each.left for each in found.left]) == (per_node, nodes, [left])
    assert found.left[0].every == nodes * 8


def test_the_last_node_has_what_its_pods_leave_over(plan: StackPlan) -> None:
    (left,) = need(plan, job(5, 3)).left

    assert (left.left, left.on_last_node, left.every) == (9, 5, 24)


def test_a_need_is_one_line_of_words(plan: StackPlan) -> None:
    price = next(each for each in prices_of(plan, clouds()) if each.key == "train/big").price
    assert price is not None

    assert need(plan, job(4, 8)).words() == (
        f"needs 4 of at most 4 nodes, 0 of 32 GPUs left over, ${price.amount * 4:.2f}/h, "
        '384 vCPUs of "Running On-Demand P instances" (L-417A185B)'
    )


def test_a_need_is_json(plan: StackPlan) -> None:
    found = need(plan, job(5, 3)).as_json()

    assert found["left"] == [{"unit": "GPUs", "left": 9.0, "on_last_node": 5.0, "every": 24.0}]
    assert (found["pods"], found["pods_per_node"], found["nodes"], found["max_nodes"]) == (5, 2, 3, 4)
    assert found["quotas"][0]["amount"] == 288
    assert found["per_hour"] == pytest.approx(float(need(plan, job(1, 8)).as_json()["per_hour"]) * 3)


@pytest.mark.parametrize(
    ("manifest", "key", "level", "words"),
    [
        (job(4, 8, gang=4), None, None, ""),
        (job(5, 8, gang=5), "above-max", Level.UNFIT, "5 pods together, which need 5 nodes, and nodes.max is 4"),
        (job(6, 8, gang=5), "above-max", Level.UNFIT, "5 pods together, which need more nodes"),
        (job(6, 8, gang=4), "some-run", Level.FITS, "4 of 6 pods run at once on at most 4 nodes"),
        (job(6, 8), "some-run", Level.FITS, "4 of 6 pods run at once"),
    ],
    ids=["a gang of all nodes", "a gang above max", "a part above max", "a part within max", "no gang above max"],
)
def test_gangs_above_max_never_start(
    plan: StackPlan, manifest: JsonDict, key: str | None, level: Level | None, words: str
) -> None:
    found = need(plan, manifest)

    assert [(each.key, each.level) for each in found.reasons] == ([(key, level)] if key else [])
    assert words in "".join(each.text for each in found.reasons)
    assert (found.nodes, found.quotas[0].amount) == ((0, 0) if key == "above-max" else (4, 384))


def test_groups_start_one_by_one(plan: StackPlan) -> None:
    (reason,) = need(plan, job(6, 8), gangs={"alone": 2}, groups=3).reasons
    assert (reason.level, reason.text) == (Level.FITS, "2 of 3 groups run at once on at most 4 nodes")


@pytest.mark.parametrize(
    ("roles", "nodes", "left"),
    [
        ({"Master": (1, 8), "Worker": (3, 8)}, 4, 0),
        ({"Master": (1, 2), "Worker": (3, 6)}, 3, 4),
        ({"Master": (4, 2), "Worker": (4, 6)}, 4, 0),
    ],
    ids=["equal", "the small one fits beside a large one", "each pair shares a node"],
)
def test_templates_of_a_workload_share_nodes(
    plan: StackPlan, roles: dict[str, tuple[int, int]], nodes: int, left: int
) -> None:
    found = need(plan, replicas(roles))

    assert (found.nodes, found.left[0].left, found.reasons) == (nodes, left, ())
    assert found.is_approximate
    assert found.words().startswith(f"needs about {nodes}")


@pytest.mark.parametrize(("status", "nodes"), [("Complete", 4), ("Ready", 0)])
def test_jobs_that_start_when_others_have_ended_take_their_nodes(plan: StackPlan, status: str, nodes: int) -> None:
    """In the form of https://github.com/kubernetes-sigs/jobset site/static/examples/depends-on/depends-on.yaml."""
    first = {"name": "first", "template": {"spec": {"template": {"spec": template(8)}}}}
    then = {**first, "name": "then", "replicas": 4, "dependsOn": [{"name": "first", "status": status}]}
    work = read({"kind": "JobSet", "metadata": {"name": "x"}, "spec": {"replicatedJobs": [first, then]}})
    (offer, _), costs = offers(plan), Costs(plan, clouds())
    found = [needs(work, each, offer, Context(plan), costs) for each in work.templates]

    assert [each.nodes for each in found] == ([1, nodes] if nodes else [0, 0])
    assert [reason.key for each in found for reason in each.reasons] == ([] if nodes else ["above-max"] * 2)


def test_a_template_that_fits_another_pool_is_not_counted(plan: StackPlan) -> None:
    manifest = replicas({"Master": (1, 8), "Worker": (4, 8)})
    manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["nodeSelector"] = {"gpupools/pool": "none"}
    work = read(manifest)
    (offer, _) = offers(plan)

    found = needs(work, work.templates[1], offer, Context(plan), Costs(plan, clouds()))
    assert (found.pods, found.nodes, found.reasons) == (4, 4, ())


def test_a_daemon_set_starts_no_node(plan: StackPlan) -> None:
    found = need(plan, {"kind": "DaemonSet", "metadata": {"name": "x"}, "spec": {"template": {"spec": template(1)}}})
    assert (found.words(), found.nodes, found.quotas[0].amount) == ("one pod on each node", 0, 0)


def test_claimed_devices_are_counted(plan: StackPlan) -> None:
    (pool,) = (each for each in plan.pools if each.name == "claimed")
    manifest = job(9)
    (container,) = pool.pod()["containers"]
    manifest["spec"]["template"]["spec"] = {**pool.pod(), "containers": [{**container, "image": "none"}]}
    found = need(plan, manifest, "claimed")

    assert (found.pods_per_node, found.nodes, found.left[0][:2]) == (8, 2, ("GPUs", 7))


@pytest.mark.parametrize(
    ("annotations", "nodes", "left"),
    [
        ({"gpu-fraction": "0.5"}, 2, "0.5"),
        ({"gpu-fraction": "0.4"}, 2, "0.5"),
        ({"gpu-fraction": "0.6"}, 2, "0"),
        ({"gpu-fraction": "0.25"}, 1, "0.25"),
        ({"gpu-fraction": "0.33"}, 1, "0"),
        ({"gpu-memory": "8000"}, 2, "0.5"),
    ],
)
def test_parts_of_gpus_are_counted_by_gpu(annotations: dict[str, str], nodes: int, left: str) -> None:
    plan = check_stack_file(EXAMPLES / "Pulumi.kai.yaml", clouds()).plan
    manifest = job(3, 0, pool="halves", schedulerName="kai-scheduler")
    manifest["spec"]["template"]["metadata"] = {"annotations": annotations}
    found = need(plan, manifest, "halves")

    assert (found.nodes, f"{found.left[0].left:g}") == (nodes, left)


@pytest.mark.parametrize(
    ("limits", "per_node"),
    [
        ({"nvidia.com/gpumem": 11264, "nvidia.com/gpucores": 50}, 2),
        ({"nvidia.com/gpumem": 2000}, 10),
        ({"nvidia.com/gpumem-percentage": 30}, 3),
        ({"nvidia.com/gpucores": 30}, 1),
        ({}, 1),
    ],
    ids=["half", "at most ten", "by percentage", "cores alone take all memory", "a whole GPU"],
)
def test_hami_shares_a_gpu_by_memory_and_cores(limits: dict[str, int], per_node: int) -> None:
    plan = check_stack_file(EXAMPLES / "Pulumi.hami.yaml", clouds()).plan
    manifest = job(1, pool="notebooks", schedulerName="hami-scheduler")
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {GPU: 1, **limits}

    assert need(plan, manifest, "notebooks").pods_per_node == per_node


@pytest.mark.parametrize(
    ("manifest", "scheduler", "key", "words", "nodes"),
    [
        (job(6, 8, gang=6, pool=""), None, "some-run", "4 of 6 pods run on this step at once, and 2 on others", (4, 2)),
        (job(6, 8, pool=""), None, "some-run", "4 of 6 pods run on this step at once, and 2 on others of big", (4, 2)),
        (job(9, 8, pool=""), None, "some-run", "4 of 9 pods run on this step at once, and 4 on others of big", (4, 4)),
        (replicas({"Master": (1, 2), "Worker": (5, 6)}, ""), None, "some-run", "5 of 6 pods run on this step", (4, 1)),
        (job(9, 8, gang=9, pool=""), None, "above-max", "need 9 nodes, and nodes.max is 4; other steps of big", ()),
        (job(6, 8, gang=6, pool="big-1"), None, "above-max", "which need 6 nodes, and nodes.max is 4", ()),
        # Kueue gives all pods of a template one flavor.
        (job(6, 8, gang=6, pool=""), "kueue", "above-max", "which need 6 nodes, and nodes.max is 4", ()),
    ],
    ids=["gang", "no gang", "more than all steps", "two templates", "gang above all", "one step selected", "Kueue"],
)  # fmt: skip
def test_pods_may_use_several_steps_of_a_pool(
    manifest: JsonDict, scheduler: str | None, key: str, words: str, nodes: tuple[int, ...]
) -> None:
    autoscaler = {"cluster_autoscaler": {"name": "kube-system/ca", "expander": "priority"}}
    runtime = {"existing": autoscaler, **({"scheduler": scheduler} if scheduler else {})}
    teams = {"teams": {"research": {"namespaces": ["default"], "limit": {"big": 64}}}} if scheduler else {}
    pool = {**POOLS["big"], "clusters": ["train"], "capacity": [{"mode": "spot"}, {"mode": "on-demand"}]}
    clusters = {"train": {**AWS, "runtime": runtime}}
    plan = plan_config({"clusters": clusters, "pools": {"big": pool}, **teams}, clouds())
    work, found, costs = read(manifest), offers(plan), Costs(plan, clouds())

    made = needs(work, work.templates[0], found[0], Context(plan, Manifests(()), found), costs)

    (reason,) = made.reasons
    assert (found[0].pool.name, reason.key) == ("big-1", key)
    assert words in reason.text
    assert (made.nodes, *made.others.values()) == (nodes or (0,))
    assert sum(quota.amount for quota in made.quotas) == 96 * sum(nodes)
    assert [price.max_nodes for price in made.prices] == (list(nodes) or [0])
    if nodes:
        assert f"needs {'about ' * made.is_approximate}4 of at most 4 nodes and {nodes[1]} of big-2, " in made.words()
