"""The order of steps as autoscalers read it: what is declared on each cloud, and what is refused."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from gpupools.common.errors import Rejected
from gpupools.plan.pool_plan import PoolPlan
from gpupools.providers import clouds
from gpupools.readback.kubernetes_pools import each_kubernetes_pool
from gpupools.software.scaling_order import CONFIG_MAP
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan, plan_config

EXAMPLES = Path(__file__).parents[3] / "examples"
ORDERED = EXAMPLES / "stacks" / "Pulumi.ordered.yaml"
READS = {"name": "kube-system/ca", "expander": "priority"}


def config() -> dict[str, Any]:
    return {
        key.removeprefix("gpupools:"): value for key, value in yaml.safe_load(ORDERED.read_text())["config"].items()
    }


def plan(
    cluster: str, runtime: Mapping[str, Any] | None = None, pool: Mapping[str, Any] | None = None, **keys: Any
) -> StackPlan:
    """Plan one cluster of the example with another `runtime`, keys of its pool, and keys of the cluster."""
    given = config()
    here = {**given["clusters"][cluster], **keys, **({"runtime": runtime} if runtime is not None else {})}
    pools = {name: {**each, **(pool or {})} for name, each in given["pools"].items() if each["clusters"] == [cluster]}
    return plan_config({"clusters": {cluster: here}, "pools": pools}, clouds())


def refused(cluster: str, runtime: Mapping[str, Any] | None = None, **keys: Any) -> list[str]:
    with pytest.raises(Rejected) as rejected:
        plan(cluster, runtime, **keys)
    return [str(problem) for problem in rejected.value.problems]


def priorities(made: StackPlan) -> dict[int, list[str]]:
    (config_map,) = (each for each in made.runtimes[0].objects if each.name == f"order/{CONFIG_MAP}")
    found: dict[int, list[str]] = yaml.safe_load(config_map.manifest["data"]["priorities"])
    return found


@pytest.mark.parametrize(
    ("cluster", "space", "first"),
    [
        ("train", "kube-system", r"\^eks-train-big-1-nodes-\[0-9a-f-\]\+\$"),
        ("serve", "kube-system", r"\^aks-large1[0-9a-z]{4}-\[0-9\]\+-vmss\$"),
    ],
)
def test_the_first_step_has_the_highest_number_and_other_groups_the_lowest(
    cluster: str, space: str, first: str
) -> None:
    made = plan(cluster)
    (runtime,) = made.runtimes
    found = priorities(made)

    assert list(found) == [10, 9, 8, 7, 0]
    assert re.fullmatch(first, found[10][0])
    assert found[0] == [".*"]
    (planned,) = (each for each in runtime.objects if each.name == f"order/{CONFIG_MAP}")
    assert planned.manifest["metadata"]["name"] == CONFIG_MAP
    assert planned.manifest["metadata"]["namespace"] == space
    assert runtime.order_objects == (planned.manifest,)


def test_the_map_is_in_the_namespace_of_the_autoscaler_on_eks_and_in_that_of_aks() -> None:
    own = {"existing": {"cluster_autoscaler": {"name": "scaling/ca", "expander": "priority"}}}
    maps = [plan(cluster, own).runtimes[0].order_objects[0] for cluster in ("train", "serve")]

    assert [each["metadata"]["namespace"] for each in maps] == ["scaling", "kube-system"]


def test_a_compute_class_names_the_pools_that_carry_its_label_and_taint() -> None:
    made = plan("lab")
    (runtime,) = made.runtimes
    (planned,) = (each for each in runtime.objects if each.kind == "ComputeClass")
    inputs = [
        clouds()["gcp"].node_pools.declared_inputs(pool, made.stack.clusters["lab"].pool_inputs(()))["NodePool"]
        for pool in made.pools
    ]
    key, name = "cloud.google.com/compute-class", "gpupools-huge"

    assert (planned.manifest["apiVersion"], planned.manifest["metadata"]["name"]) == ("cloud.google.com/v1", name)
    assert planned.manifest["spec"] == {
        "priorities": [{"nodepools": [each["name"]]} for each in inputs],
        "whenUnsatisfiable": "DoNotScaleUp",
        "nodePoolAutoCreation": {"enabled": False},
    }
    assert [each["nodeConfig"]["labels"][key] for each in inputs] == [name] * 3
    assert all({"key": key, "value": name, "effect": "NO_SCHEDULE"} in each["nodeConfig"]["taints"] for each in inputs)
    for pod in (runtime.groups["huge"]["pod"], runtime.pods["huge-1"]):
        assert pod["nodeSelector"][key] == name
        assert {"key": key, "operator": "Equal", "value": name, "effect": "NoSchedule"} in pod["tolerations"]
    assert set(runtime.depends["compute-class/huge"]) == {"pool/huge-1", "pool/huge-2", "pool/huge-3"}


def test_the_class_that_orders_pools_makes_none_and_its_pools_repel_pods_without_gpus() -> None:
    made = plan("lab")
    (manifest,) = made.runtimes[0].order_objects

    assert tuple(each_kubernetes_pool("kubernetes:cloud.google.com/v1:ComputeClass", manifest, clouds())) == ()
    assert {str(pool.taints[0]) for pool in made.pools} == {"nvidia.com/gpu=present:NoSchedule"}


FIXED: Mapping[str, Mapping[str, Any]] = {
    "train": {"nodes": {"fixed": 2}, "capacity": {"mode": "on-demand"}},
    "serve": {"nodes": {"fixed": 2}, "capacity": {"mode": "on-demand"}},
    "lab": {"nodes": {"fixed": 1}, "capacity": [{"mode": "reservation", "name": "a100-2026"}, {"mode": "on-demand"}]},
}


@pytest.mark.parametrize("cluster", FIXED)
def test_fixed_nodes_need_no_order(cluster: str) -> None:
    (runtime,) = plan(cluster, {}, FIXED[cluster]).runtimes

    assert len(runtime.groups) == 1
    assert runtime.order_objects == ()
    assert "cloud.google.com/compute-class" not in str(runtime.pods)


@pytest.mark.parametrize(
    ("cluster", "runtime", "words"),
    [
        ("train", {}, "run Cluster Autoscaler with --expander=priority, and write cluster_autoscaler: {name: "),
        ("train", {"existing": {"cluster_autoscaler": "kube-system/ca"}}, "{name: kube-system/ca, expander: priority}"),
        ("train", {"existing": {"cluster_autoscaler": {**READS, "name": "ca"}}}, "write <namespace>/<name>"),
        ("train", {"existing": {"karpenter": "kube-system/karpenter"}}, "run Cluster Autoscaler for them and set "),
        (
            "serve",
            {},
            "az aks update --resource-group ml-prod --name serve-prod --cluster-autoscaler-profile expander=priority",
        ),
        (
            "serve",
            {"existing": {"cluster_autoscaler": READS, "karpenter": "NAP"}},
            "use nodes: {fixed: …}, or list one",
        ),
        (
            "serve",
            {"existing": {"cluster_autoscaler": {**READS, "reads_node_groups": True}}},
            "leave the other keys out",
        ),
        ("lab", {"existing": {"cluster_autoscaler": READS}}, "GKE clusters do not run this software; leave it out"),
    ],
)
def test_a_cluster_whose_autoscaler_reads_no_order_is_refused(
    cluster: str, runtime: Mapping[str, Any], words: str
) -> None:
    (problem,) = refused(cluster, runtime)

    assert problem.startswith(f"clusters.{cluster}.runtime.existing.")
    assert words in problem


@pytest.mark.parametrize("cluster", ["train", "serve", "lab"])
def test_a_cluster_without_access_is_refused_and_one_that_others_serve_is_rendered(cluster: str) -> None:
    (problem,) = refused(cluster, kubeconfig=None)
    assert "but the cluster's API access is not set" in problem

    existing = {} if cluster == "lab" else {"cluster_autoscaler": READS}
    served = {"device_plugin": "kube-system/plugin"} if cluster == "serve" else {}
    external = {"management": "external", "existing": {**existing, **served}}
    (runtime,) = plan(cluster, external, kubeconfig=None).runtimes
    assert (runtime.objects, len(runtime.order_objects)) == ((), 1)


def test_a_step_that_no_pod_starts_is_refused() -> None:
    queued = [{"mode": "spot"}, {"mode": "queued", "max_run_s": 3600}]
    (problem,) = refused("lab", pool={"capacity": queued})

    assert problem.startswith("pools.huge.capacity[1]: pods start no node of this step (capacity.mode is queued)")


def test_names_that_only_an_update_knows() -> None:
    stack: dict[str, Any] = {"stack": "acme/net/prod"}
    (problem,) = refused("lab", service_account={"output": "account"}, **stack)
    assert problem.startswith("clusters.lab.service_account: the order names node pools")
    assert priorities(plan("serve", subnet_id={"output": "subnet"}, **stack))[10] == [
        "^aks-large1[0-9a-z]{4}-[0-9]+-vmss$"
    ]


def test_steps_whose_node_groups_may_have_one_name_are_refused() -> None:
    (first,) = refused("train", pool={"first_name": ["new", "big-1", "old-3", "old-4"]})
    assert first.startswith("pools.big: node groups of big-1 and big-2 may have the same name, so no order tells")

    late = {"subnet_id": {"output": "subnet"}, "stack": "acme/net/prod"}
    given = config()
    pools = {"large-llm": given["pools"]["large"]}
    with pytest.raises(Rejected, match="node groups of large-llm-1 and large-llm-2 may have the same name"):
        plan_config({"clusters": {"serve": {**given["clusters"]["serve"], **late}}, "pools": pools}, clouds())


def test_a_renamed_step_is_found_by_both_names() -> None:
    given = config()
    pools = {"vast": {**given["pools"]["big"], "renamed_from": "big"}}
    made = plan_config({"clusters": {"train": given["clusters"]["train"]}, "pools": pools}, clouds())

    assert priorities(made)[10] == ["^eks-(train-big-1-nodes|train-vast-1-nodes)-[0-9a-f-]+$"]


# --- orders of other stacks ---

OTHERS = ["^eks-x-far-1-nodes-[0-9a-f-]+$", "^eks-x-far-2-nodes-[0-9a-f-]+$"]


def test_the_map_has_orders_of_other_stacks_also_without_one_of_its_own() -> None:
    listing = {"existing": {"cluster_autoscaler": {**READS, "other_orders": [OTHERS]}}}
    own = {"capacity": {"mode": "spot"}, "instance_type": "p5.48xlarge"}

    assert priorities(plan("train", listing))[9][1] == OTHERS[1]
    assert priorities(plan("train", listing, own)) == {10: OTHERS[:1], 9: OTHERS[1:], 0: [".*"]}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("^eks-(x|train-big-1-nodes)-[0-9a-f-]+$", "matches node groups of big-1, a pool of this stack"),
        (".*", "write a line that gpupools stacks shows"),
        ("^eks-(a+)+-[0-9a-f-]+$", "write a line that gpupools stacks shows"),
    ],
)
def test_expressions_that_are_no_steps_of_other_stacks_are_refused(expression: str, words: str) -> None:
    found = refused("train", {"existing": {"cluster_autoscaler": {**READS, "other_orders": [[expression]]}}})

    assert words in found[0]


def repository(folder: Path, second: Mapping[str, Any], others: list[list[str]]) -> Path:
    """Write two stacks with one cluster: the first with `others`, the second with this `runtime`."""
    given = config()
    first = {"existing": {"cluster_autoscaler": {**READS, "other_orders": others}}}
    for name, runtime, pool in (("one", first, "big"), ("two", second, "far")):
        cluster = {**given["clusters"]["train"], "runtime": runtime}
        own = {"gpupools:clusters": {"train": cluster}, "gpupools:pools": {pool: given["pools"]["big"]}}
        (folder / name).mkdir(parents=True)
        (folder / name / "Pulumi.yaml").write_text(f"name: {name}\nruntime: python\n")
        (folder / name / "Pulumi.s.yaml").write_text(yaml.safe_dump({"config": own}))
    return folder


FAR = [f"^eks-train-far-{number}-nodes-[0-9a-f-]+$" for number in range(1, 5)]


@pytest.mark.parametrize(
    ("external", "others", "fixes"),
    [
        (False, [], ["add [[", "set management: external here"]),
        (False, [FAR], ["set management: external here"]),
        (True, [], ["add [["]),
        (True, [FAR], []),
    ],
)
def test_one_stack_writes_the_order_of_a_cluster(
    external: bool, others: list[list[str]], fixes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = {"existing": {"cluster_autoscaler": READS}, **({"management": "external"} if external else {})}
    status = main(["stacks", str(repository(tmp_path, runtime, others))])
    err = capsys.readouterr().err

    assert status == (1 if fixes else 0)
    assert err.count("\n") == (1 if fixes else 0)
    for fix in ("add [[", "set management: external here"):
        assert (fix in err) is (fix in fixes)


# --- names ---


def real_ids(pool: PoolPlan, names: tuple[str, ...]) -> Iterator[str]:
    """Yield ids that the node groups of a pool have in its cloud."""
    for name in names:
        if pool.cloud == "aws":
            yield f"eks-{name}-0a1b2c3-0ac5bc6a-1a2b-3c4d-5e6f-0a1b2c3d4e5f"
            yield f"eks-{name}-badcafe-deadbeef-dead-beef-dead-beefdeadbeef"
        else:
            yield f"aks-{name}-12345678-vmss"


def test_expressions_of_all_pools_of_all_examples_match_their_own_groups_only() -> None:
    count = 0
    for file in sorted(EXAMPLES.rglob("Pulumi.*.yaml")):
        made = check_stack_file(file, clouds()).plan
        for key, cluster in made.stack.clusters.items():
            order = clouds()[cluster.cloud].node_pools.order
            pools = [pool for pool in made.pools if pool.cluster == key] if order.group_id else []
            names = {pool.name: order.names(pool, cluster) for pool in pools}
            for pool in pools:
                expression = re.compile(order.group_id.format(f"({'|'.join(names[pool.name])})"))
                for other in pools:
                    for each in real_ids(other, names[other.name]):
                        assert bool(expression.search(each)) is (pool is other), (file, pool.name, each)
                        count += 1
    assert count > 100


def test_render_prints_the_declared_objects(capsys: pytest.CaptureFixture[str]) -> None:
    for cluster in ("train", "serve", "lab"):
        assert main(["render", str(ORDERED), "--only", "order", "--cluster", cluster]) == 0
        (shown,) = yaml.safe_load_all(capsys.readouterr().out)
        runtime = next(each for each in check_stack_file(ORDERED, clouds()).plan.runtimes if each.cluster == cluster)
        assert [shown] == [*runtime.json_order_objects()]
        assert shown in [each["manifest"] for each in runtime.as_json()["objects"]]
