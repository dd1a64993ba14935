"""The component in a program: what it declares and returns, and what it says when the pool cannot be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.common.errors import Rejected
from gpupools.components import declared_components, package
from gpupools.components.gpu_node_pool import GpuNodePoolArgs, NodesArgs, PoolArgs, SharingArgs, plan_args
from gpupools.preview.program_run import Preview, preview_program
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.providers import clouds
from gpupools.spec.models import Mig, Mps, Nodes, PoolSpec, TimeSlicing, WholeGpu
from tests.rows import listed

RunProgram = Callable[[str], Preview]
COMPONENT = "gpupools:index:GpuNodePool"


def args(on: str = "gcp", **changes: Any) -> GpuNodePoolArgs:
    """Return arguments for a pool with one L4, or others in their place."""
    keys: Any = {
        "cloud": on,
        "cluster": {key: value for key, value in clouds()[on].example_cluster.items() if key != "cloud"}
        | {"places": "trust"},
        "pool": {"gpu": "T4", "nodes": {"max": 4}},
    }
    return keys | changes  # type: ignore[no-any-return]


def check_pool(**changes: Any) -> list[str]:
    with pytest.raises(Rejected) as rejected:
        plan_args("train", args(**changes))
    return [str(problem) for problem in rejected.value.problems]


# --- what it declares ---


@pytest.mark.parametrize("cloud", clouds())
def test_everything_is_declared_below_the_component_and_named_after_it(preview: RunProgram, cloud: str) -> None:
    shown = preview(f"GpuNodePool('train', {args(cloud)!r})")

    assert shown.problems == []
    (component,) = [resource for resource in shown.resources if resource.type == COMPONENT]
    children = [resource for resource in shown.resources if resource is not component]
    assert children
    assert {child.parent for child in children} == {component.urn}
    assert [child.name for child in children if not child.name.startswith("train-")] == []


@pytest.mark.parametrize("cloud", clouds())
def test_it_returns_what_a_pod_needs_to_land_on_the_pool(preview: RunProgram, cloud: str) -> None:
    shown = preview(
        f"""
        pool = GpuNodePool('train', {args(cloud)!r})
        pulumi.export("capacity", pool.capacity)
        pulumi.export("pod", pool.pod)
        """
    )

    assert shown.problems == []
    assert shown.outputs == {
        "capacity": {"nvidia.com/gpu": 1},
        "pod": {
            "nodeSelector": {"gpupools/pool": "train"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}],
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        },
    }


def test_it_returns_the_name_the_cloud_knows_the_pool_by(preview: RunProgram) -> None:
    shown = preview(f"pulumi.export('name', GpuNodePool('train', {args('gcp')!r}).node_pool_name)")

    (pool,) = [resource for resource in shown.resources if resource.type.endswith(":NodePool")]
    assert shown.outputs["name"] == pool.inputs["name"]


def test_the_state_keeps_every_output_that_a_program_can_read(preview: RunProgram) -> None:
    outputs = package.schema()["resources"][COMPONENT]["properties"]
    efa = {"instance_type": "p5.48xlarge", "nodes": {"fixed": 1}, "software": "dra-driver"}
    efa |= {"network": {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]}}
    shown = preview(
        f"""
        pool = GpuNodePool('train', {args("aws", pool=efa)!r})
        for key, name in { ({key: package.snake(key) for key in outputs})!r}.items():
            pulumi.export(key, getattr(pool, name))
        """
    )

    (component,) = [each for each in shown.resources if each.type == COMPONENT]
    assert shown.problems == []
    assert shown.outputs.keys() == outputs.keys()
    assert [key for key, value in shown.outputs.items() if not value] == ["capacity"]  # claims stand for it
    assert shown.registered[component.urn] == shown.outputs


def test_a_name_for_the_pool_takes_the_place_of_the_components_own(preview: RunProgram) -> None:
    shown = preview(f"pulumi.export('pod', GpuNodePool('team-a-train', {args(pool_name='train')!r}).pod)")

    assert shown.outputs["pod"]["nodeSelector"] == {"gpupools/pool": "train"}
    assert "team-a-train-nodes" in [resource.name for resource in shown.resources]


@pytest.mark.parametrize(
    ("cloud", "name", "pool_name", "former"),
    [
        *((cloud, "train", None, "batch") for cloud in clouds()),
        ("gcp", "lab-train", "train", "lab-batch"),
        ("gcp", "train-train", "train", "train-batch"),
    ],
)
def test_a_renamed_pool_is_found_by_the_name_it_had(
    preview: RunProgram, cloud: str, name: str, pool_name: str | None, former: str
) -> None:
    renamed = {"pool": {"gpu": "T4", "nodes": {"max": 4}, "renamed_from": "batch"}, "pool_name": pool_name}
    before = preview(f"GpuNodePool({former!r}, {args(cloud)!r})")
    after = preview(f"GpuNodePool({name!r}, {args(cloud, **renamed)!r})")

    (old,), (new,) = ([each for each in shown.resources if each.type == COMPONENT] for shown in (before, after))
    (alias,) = new.options["aliases"]
    assert alias == {
        "name": former,
        "parent": "",
    }  # of the component's own type, project and stack, below the same parent
    assert new.urn.removesuffix(f"::{name}") + f"::{alias['name']}" == old.urn
    # For what is inside the engine puts the former name where the child's begins with the component's:
    # https://github.com/pulumi/pulumi/blob/master/pkg/resource/deploy/step_generator.go, inheritedChildAlias.
    names = [{each.name for each in shown.resources if each.parent is not None} for shown in (before, after)]
    assert names[0] == {each.replace(name, former, 1) for each in names[1] if each.startswith(name)}
    assert len(names[0]) == len(names[1])
    # It does so only while it finds the component under its alias, so each has one of its own as well.
    below = {each.name: each for each in after.resources if each.parent is not None}
    for each in below.values():
        assert {"name": each.name.replace(name, former, 1), "parent": old.urn} in each.options["aliases"]


def test_a_pool_renamed_in_a_stack_file_is_found_by_the_name_it_had() -> None:
    given: dict[str, Any] = yaml.safe_load((STACK_PROGRAM.parent / "Pulumi.dev.yaml").read_text(encoding="utf-8"))[
        "config"
    ]
    pools = {"big" if name == "a100" else name: pool for name, pool in given["gpupools:pools"].items()}
    pools["big"] = pools["big"] | {"renamed_from": "a100"}
    before = preview_program(STACK_PROGRAM, "dev", "gpupools", given)
    after = preview_program(STACK_PROGRAM, "dev", "gpupools", given | {"gpupools:pools": pools})

    assert (before.problems, after.problems) == ([], [])
    old = {each.name: each for each in before.resources if each.type == COMPONENT}
    renamed = {each.name: each for each in after.resources if each.type == COMPONENT and each.name not in old}
    assert {name: each.options["aliases"] for name, each in renamed.items()} == {
        f"{cluster}-big": [{"name": f"{cluster}-a100", "parent": ""}] for cluster in ("train", "serve", "lab")
    }
    assert [each.options.get("aliases") for name, each in old.items() if not name.endswith("-a100")] == [None] * 4


def test_a_pool_that_was_never_renamed_has_no_alias(preview: RunProgram) -> None:
    shown = preview(f"GpuNodePool('train', {args(pool={'gpu': 'T4', 'nodes': {'max': 4}, 'first_name': 'batch'})!r})")

    (component,) = [each for each in shown.resources if each.type == COMPONENT]
    assert "aliases" not in component.options


def test_addresses_may_be_outputs_of_resources_in_the_same_program(preview: RunProgram) -> None:
    shown = preview(
        """
        import pulumi_aws as aws
        role = aws.iam.Role("nodes", assume_role_policy="{}")
        subnet = aws.ec2.Subnet("nodes", vpc_id="vpc-1", cidr_block="10.0.0.0/24")
        cluster = {
            "name": pulumi.Output.from_input("known"), "region": "eu-central-1",
            "subnet_ids": [subnet.id, "subnet-00000002"], "node_role_arn": role.arn,
        }
        GpuNodePool("train", {"cloud": "aws", "cluster": cluster, "pool": {"gpu": "L4", "nodes": {"max": 4}}})
        """
    )

    assert shown.problems == []
    (group,) = [resource for resource in shown.resources if resource.type.endswith(":NodeGroup")]
    assert group.inputs["clusterName"] == "known"
    assert group.inputs["subnetIds"] == [UNKNOWN, "subnet-00000002"]
    assert group.inputs["nodeRoleArn"] == UNKNOWN
    assert group.inputs["taints"][0]["key"] == "nvidia.com/gpu"


def test_an_address_left_out_may_be_none(preview: RunProgram) -> None:
    cluster = {"name": "serve", "resource_group": "ml", "subnet_id": None}
    shown = preview(f"GpuNodePool('train', {args('azure', cluster=cluster)!r})")

    assert shown.problems == []
    (pool,) = [resource for resource in shown.resources if resource.type.endswith(":AgentPool")]
    assert "vnetSubnetID" not in pool.inputs


# --- what it refuses ---


@listed(__file__)
def test_every_reason_is_given_with_the_argument_it_is_about(changes: dict[str, Any], reasons: list[str]) -> None:
    assert check_pool(**changes) == reasons


INFINIBAND = {"instance_type": "Standard_ND96isr_H100_v5", "nodes": {"max": 2}, "network": {"rdma": True}}
EFA = {"instance_type": "p5.48xlarge", "nodes": {"max": 2}, "software": "device-plugin"}
EFA |= {"network": {"rdma": True, "security_group_ids": ["sg-0a1b2c3d"]}}


@pytest.mark.parametrize(
    ("on", "pool", "runtime"),
    [("azure", INFINIBAND, {}), ("aws", EFA, {"management": "external", "existing": {"device_plugin": "a/b"}})],
)
def test_rdma_that_no_runtime_of_the_cluster_would_bring_is_refused(
    on: str, pool: dict[str, Any], runtime: dict[str, Any]
) -> None:
    cluster = {key: value for key, value in clouds()[on].example_cluster.items() if key != "cloud"}
    cluster |= {"places": "trust"}
    (said,) = check_pool(on=on, pool=pool, cluster={**cluster, "runtime": runtime})

    assert said.startswith(
        "pool.network.rdma: nothing installs the RDMA interfaces on the nodes of this pool; install a"
    )
    assert "name it under cluster.runtime.existing.rdma_plugin, or leave rdma out" in said
    runtime = {**runtime, "existing": {**runtime.get("existing", {}), "rdma_plugin": "network-operator/rdma"}}
    assert plan_args("train", args(on, pool=pool, cluster={**cluster, "runtime": runtime})).node_pod


def test_rdma_that_a_runtime_brings_may_be_declared_before_it() -> None:
    assert plan_args("train", args("aws", pool=EFA)).node_pod


def test_a_reason_keeps_its_source_under_the_components_own_arguments() -> None:
    (reason,) = check_pool(pool={"gpu": "T4", "nodes": {"max": 2}, "sharing": {"mode": "time-slicing", "replicas": 2}})

    assert reason.startswith("pool.trust: ")
    assert reason.endswith("(see https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus)")


@pytest.mark.parametrize(("cloud", "longest"), [("aws", 49), ("azure", 400), ("gcp", 400)])
def test_a_components_name_leaves_room_for_what_the_cloud_makes_of_it(cloud: str, longest: int) -> None:
    plan = plan_args("n" * longest, args(cloud, pool_name="train"))

    assert (plan.cluster, plan.name) == ("", "train"), "no stack file gives the cluster a key"


def test_a_components_name_too_long_for_the_name_of_a_node_group_is_refused() -> None:
    with pytest.raises(Rejected, match="has 50 characters; use 49 or fewer, since Amazon EKS names the pool after it"):
        plan_args("n" * 50, args("aws", pool_name="train"))


def test_a_program_that_catches_the_error_sees_every_reason_in_text_and_details(preview: RunProgram) -> None:
    shown = preview(
        f"""
        try:
            GpuNodePool("train", {args(pool={"gpu": "L4", "nodes": {"max": 0}, "disk": 5})!r})
        except pulumi.InputPropertiesError as error:
            pulumi.export("said", str(error))
            pulumi.export("paths", [details["property_path"] for details in error.errors])
        """
    )

    assert shown.outputs == {
        "said": "pool.nodes.max: got 0; use 1 or more\n"
        "pool.disk: got 5; write a map with encryption_key, local_nvme, type",
        "paths": ["pool.nodes.max", "pool.disk"],
    }


def test_what_the_plan_depends_on_may_not_be_an_output(preview: RunProgram) -> None:
    shown = preview(
        """
        pool = {"gpu": pulumi.Output.from_input("L4"), "nodes": {"max": 2}}
        cluster = {key: value for key, value in clouds()["gcp"].example_cluster.items() if key != "cloud"}
        GpuNodePool("train", {"cloud": "gcp", "cluster": cluster, "pool": pool})
        """
    )

    (problem,) = shown.problems
    assert str(problem).startswith("pool.gpu: is a secret, or an output that is known only while the program runs; ")


def test_a_refused_pool_declares_no_resource_of_any_cloud(preview: RunProgram) -> None:
    shown = preview(f"GpuNodePool('train', {args(pool={'gpu': 'L9', 'nodes': {'max': 1}})!r})")

    assert shown.problems
    assert [resource.type for resource in shown.resources if resource.type != COMPONENT] == []


# --- the typed arguments ---


@pytest.mark.parametrize(
    ("typed", "models"),
    [
        pytest.param(PoolArgs, [PoolSpec], id="pool"),
        pytest.param(NodesArgs, [Nodes], id="nodes"),
        pytest.param(SharingArgs, [WholeGpu, TimeSlicing, Mps, Mig], id="sharing"),
    ],
)
def test_typed_arguments_have_the_keys_of_a_stack_file(typed: Any, models: list[Any]) -> None:
    fields = {key: field for model in models for key, field in model.model_fields.items()}
    always = set.intersection(*(set(model.model_fields) for model in models))

    assert set(typed.__annotations__) == set(fields)
    required = {key for key in always if any(model.model_fields[key].is_required() for model in models)}
    required -= {"max"}  # `fixed` may stand for it
    assert typed.__required_keys__ == required


# --- several of them in one program ---

STACK_PROGRAM = Path(__file__).resolve().parents[2] / "stacks" / "__main__.py"
PROGRAM = """
import pulumi_aws as aws
from gpupools.components.gpu_runtime import GpuRuntime
import pulumi_kubernetes as kubernetes
role = {"node_role_arn": "arn:aws:iam::123456789012:role/gpu"}
pool = {"gpu": "L4", "nodes": {"max": 4}, "software": "device-plugin"}
cluster = {"region": "us-east-1", "name": "train", "subnet_ids": ["subnet-00000001"], **role}
def make(name, pool_name, cluster=cluster):
    return GpuNodePool(name, {"cloud": "aws", "cluster": cluster, "pool": pool, "pool_name": pool_name})
def serve(name, *keys, cluster=cluster):
    provider = kubernetes.Provider(name, kubeconfig="~/.kube/x")
    args = {"cloud": "aws", "cluster": cluster, "pools": dict.fromkeys(keys, pool)}
    return GpuRuntime(name, args, pulumi.ResourceOptions(providers=[provider]))
"""
LATE_NAME = "make('a', 'l4', {**cluster, 'name': pulumi.Output.from_input('x')})"
TAKEN = (
    "pool_name: GpuNodePool 'a' already declares the pool 'l4' on this cluster; set another pool_name on one of them"
)


def unserved(path: str, *keys: str) -> str:
    return (
        f"{path}: GpuRuntime 'software' of this cluster has no pool 'l4'; it installs software only on nodes with "
        f"gpupools/pool: {', '.join(keys)}; use the same name as key in pools and as pool_name"
    )


@pytest.mark.parametrize(
    ("program", "said"),
    [
        pytest.param("make('a', 'l4'); make('b', 'l4')", [TAKEN], id="one name twice"),
        pytest.param("make('a', 'l4'); make('b', 'l4-b')", [], id="two names"),
        pytest.param("make('a', 'l4'); make('b', 'l4', {**cluster, 'name': 'other'})", [], id="on two clusters"),
        pytest.param(
            "o = pulumi.Output.from_input('x')\n"
            "make('a', 'l4', {**cluster, 'name': o}); make('b', 'l4', {**cluster, 'name': o})",
            [TAKEN],
            id="one late name",
        ),
        pytest.param(
            "make('a', 'l4', {**cluster, 'name': pulumi.Output.from_input('x')})\n"
            "make('b', 'l4', {**cluster, 'name': pulumi.Output.from_input('x')})",
            [TAKEN],
            id="two late names that turn out to be one",
        ),
        pytest.param(
            "make('a', 'l4', {**cluster, 'name': pulumi.Output.from_input('x')})\n"
            "make('b', 'l4', {**cluster, 'name': pulumi.Output.from_input('y')})",
            [],
            id="two late names that turn out to be two",
        ),
        pytest.param(
            "make('a', 'l4', {**cluster, 'name': pulumi.Output.from_input('x')})\n"
            "make('b', 'l4-b', {**cluster, 'name': pulumi.Output.from_input('x')})",
            [],
            id="two pools of one late name",
        ),
        pytest.param("make('a', 'l4'); serve('software', 'l4')", [], id="software for the pool"),
        pytest.param("serve('software', 'l4'); make('a', 'l4')", [], id="software for the pool first"),
        pytest.param("make('a', 'l4'); serve('software', 'gpu')", [unserved("pools", "gpu")], id="another key"),
        pytest.param(
            "serve('software', 'gpu', 't4'); make('a', 'l4')", [unserved("pool_name", "gpu", "t4")], id="software first"
        ),
        pytest.param(
            "make('a', 'l4', {**cluster, 'name': 'other'}); serve('software', 'gpu')", [], id="of another cluster"
        ),
        pytest.param(
            "serve('software', 'gpu', cluster={**cluster, 'name': 'other'}); make('a', 'l4')",
            [],
            id="software of another cluster first",
        ),
    ],
)
def test_components_of_one_cluster_are_held_against_each_other(
    preview: RunProgram, program: str, said: list[str]
) -> None:
    shown = preview(PROGRAM + program)

    assert [str(problem).removeprefix("component_name: ") for problem in shown.problems] == said


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        pytest.param("make('a', 'l4')", "make('b', 'l4')", [TAKEN], id="one name twice"),
        pytest.param("make('a', 'l4')", "make('a', 'l4')", [], id="the same component once more"),
        pytest.param(LATE_NAME, LATE_NAME, [], id="the same with a late name"),
        pytest.param("make('a', 'l4')", "serve('software', 'gpu')", [unserved("pools", "gpu")], id="another key"),
        pytest.param(
            "serve('software', 'gpu')", "make('a', 'l4')", [unserved("pool_name", "gpu")], id="software first"
        ),
    ],
)
def test_components_that_a_host_serves_are_held_against_each_other(
    preview: RunProgram, monkeypatch: pytest.MonkeyPatch, first: str, second: str, said: list[str]
) -> None:
    """A host gets a connection of its own for each component, and runs with and without preview in one process."""
    monkeypatch.setattr(declared_components, "hosted", True)
    monkeypatch.setattr(declared_components, "_HOSTED", {})
    before = preview(PROGRAM + first)
    after = preview(PROGRAM + second)

    assert before.problems == []
    assert [str(problem).removeprefix("component_name: ") for problem in after.problems] == said
    monkeypatch.setattr(declared_components, "_HOSTED", {False: declared_components._HOSTED[True]})
    assert preview(PROGRAM + second).problems == []


@pytest.mark.parametrize("late", ["cluster['name'] = pulumi.Output.from_input('train')\n", ""], ids=["late", "known"])
def test_a_late_address_reaches_the_pool_that_nobody_else_makes(preview: RunProgram, late: str) -> None:
    shown = preview(f"{PROGRAM}{late}make('a', 'l4')\nmake('a2', 'l4-b')\nmake('c', 'l4', {{**cluster, 'name': 'x'}})")
    groups = {each.name: each.inputs["clusterName"] for each in shown.resources if each.type.endswith(":NodeGroup")}

    assert shown.problems == []
    assert groups == {"a-nodes": "train", "a2-nodes": "train", "c-nodes": "x"}


def test_a_late_name_is_used_once_it_is_known_that_no_other_pool_has_it(preview: RunProgram) -> None:
    shown = preview(
        PROGRAM
        + """
one, two = (aws.iam.Role(name, assume_role_policy="{}").name for name in ("one", "two"))
make('a', 'l4', {**cluster, 'name': one})
make('b', 'l4', {**cluster, 'name': two})
"""
    )
    groups = {each.name: each for each in shown.resources if each.type.endswith(":NodeGroup")}
    roles = {each.urn: each.name for each in shown.resources if each.type.endswith(":Role")}

    assert shown.problems == []
    assert {
        name: [roles[urn] for urn in each.options["propertyDependencies"]["clusterName"]]
        for name, each in groups.items()
    } == {"a-nodes": ["one"], "b-nodes": ["one", "two"]}


def test_what_a_component_waits_for_is_waited_for_by_all_that_is_inside_it(preview: RunProgram) -> None:
    shown = preview(
        f"""
        import pulumi_aws as aws
        first = aws.Provider("first", region="us-east-1")
        GpuNodePool('waits', {args("aws")!r}, pulumi.ResourceOptions(depends_on=[first]))
        """
    )
    (component,) = [each for each in shown.resources if each.type == COMPONENT]
    box = next(each.urn for each in shown.resources if each.name == "first")
    inside = [each for each in shown.resources if each.parent == component.urn]

    assert shown.problems == []
    assert inside
    assert [each.name for each in inside if box not in each.options.get("dependsOn", ())] == []
    assert component.options["dependsOn"] == [box]


def test_two_programs_of_one_process_know_nothing_of_each_other(preview: RunProgram) -> None:
    for name in "ab":
        assert preview(f"{PROGRAM}make({name!r}, 'l4')").problems == []


def test_unknown_arguments_are_refused() -> None:
    assert check_pool(pol_name="a") == ["pol_name: unknown argument; did you mean 'pool_name'?"]


@pytest.mark.parametrize(("configured", "region"), [("us-west-2", "us-east-1"), ("us-east-1", "us-east-1")])
def test_a_pool_is_in_its_clusters_region_whatever_the_programs_provider_has(
    preview: RunProgram, configured: str, region: str
) -> None:
    own = f"pulumi.ResourceOptions(providers=[aws.Provider('own', region={configured!r})])"
    pool = "{'cloud': 'aws', 'cluster': cluster, 'pool': {**pool, 'nodes': {'max': 4}}}"
    shown = preview(f"{PROGRAM}GpuNodePool('a', {pool}, {own})")

    assert shown.problems == []
    made = [each for each in shown.resources if each.type.startswith("aws:")]
    assert {each.type.rpartition(":")[2] for each in made} == {"LaunchTemplate", "NodeGroup", "Tag"}
    assert {each.inputs["region"] for each in made} == {region}


AKS = (
    "{'cloud': 'azure', 'pool': az, 'cluster': {'name': 'a', 'resource_group': 'ml', "
    "'subscription_id': '11111111-2222-3333-4444-555555555555'}}"
)
OTHER = (
    "cluster.subscription_id: the default provider {}, but this cluster is in another subscription; set an "
    "azure-native provider for it in the component's options"
)


@pytest.mark.parametrize("late", [False, True], ids=["plain", "late"])
@pytest.mark.parametrize(
    ("given", "there", "said"),
    [
        pytest.param("", "11111111-2222-3333-4444-555555555555", [], id="the cluster's"),
        pytest.param("", "S2", [OTHER.format("is for S2")], id="another"),
        pytest.param("", None, [OTHER.format("names none")], id="none"),
        pytest.param(
            "azure_native.Provider('p', subscription_id='11111111-2222-3333-4444-555555555555')",
            None,
            [],
            id="a provider of its own",
        ),
    ],
)
def test_a_pool_on_aks_is_refused_the_default_provider_of_another_subscription(
    preview: RunProgram, monkeypatch: pytest.MonkeyPatch, given: str, there: str | None, said: list[str], late: bool
) -> None:
    monkeypatch.delenv("ARM_SUBSCRIPTION_ID", raising=False)
    if there is not None:
        monkeypatch.setenv("ARM_SUBSCRIPTION_ID", there)
    args = (
        AKS.replace(
            "'11111111-2222-3333-4444-555555555555'", "pulumi.Output.from_input('11111111-2222-3333-4444-555555555555')"
        )
        if late
        else AKS
    )
    shown = preview(
        f"""
        import pulumi_azure_native as azure_native
        az = {{"gpu": "T4", "nodes": {{"max": 4}}}}
        GpuNodePool("a", {args}, pulumi.ResourceOptions(providers=[{given}]))
        """
    )

    assert [str(problem) for problem in shown.problems] == said
