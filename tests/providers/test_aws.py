"""EKS: what becomes of a pool, what is refused, what is declared, and how it is read back."""

import asyncio
import base64
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import pulumi
import pulumi.runtime
import pytest
from pulumi.runtime import rpc
from pulumi.runtime.mocks import MockMonitor

from gpupools.catalog.mig import profile
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.providers.aws import CLOUD
from gpupools.providers.aws.bootstrap import BOTTLEROCKET_MIG
from gpupools.providers.aws.declared_inputs import declared_inputs
from gpupools.providers.aws.node_images import IMAGES, instance_family
from gpupools.providers.aws.pool_plan import EksPoolPlan, accelerator_name
from gpupools.providers.aws.resources import _reject_orphan, create_pool, create_provider
from tests.providers import aws_pools
from tests.providers.aws_pools import AUTOSCALER, BY_SUBNET, BY_ZONE, NODE_GROUP, TAG, TEMPLATE, refused

ADDRESS: Mapping[str, Any] = {"cloud": "aws", **BY_SUBNET}


def plan(**wanted: Any) -> PoolPlan:
    shared = wanted.get("sharing", {}).get("mode") in ("time-slicing", "mps")
    trust = {"trust": {"waiver": "one person uses the pool"}} if shared else {}
    return aws_pools.plan(BY_SUBNET, **trust | wanted)


def settings(**wanted: Any) -> EksPoolPlan:
    found = plan(**wanted).provider_plan
    assert isinstance(found, EksPoolPlan)
    return found


# What a pool becomes


@pytest.mark.parametrize(
    ("wanted", "instance_type"),
    [
        pytest.param({"gpu": "L4"}, "g6.xlarge", id="smallest of several sizes"),
        pytest.param({"gpu": "L4", "gpus_per_node": 4}, "g6.12xlarge", id="more than one GPU"),
        pytest.param({"gpu": "L4", "gpus_per_node": "1/8"}, "g6f.large", id="an eighth of a GPU"),
        pytest.param({"gpu": "L4", "gpus_per_node": "1/2"}, "g6f.4xlarge", id="half a GPU"),
        pytest.param({"gpu": "A100-40GB", "gpus_per_node": 8}, "p4d.24xlarge", id="A100 of 40 GB"),
        pytest.param({"gpu": "A100-80GB", "gpus_per_node": 8}, "p4de.24xlarge", id="A100 of 80 GB"),
        pytest.param({"gpu": "H100"}, "p5.4xlarge", id="one H100"),
        pytest.param({"gpu": "T4G"}, "g5g.xlarge", id="arm64"),
        pytest.param({"gpu": "RTX-PRO-6000", "gpus_per_node": 2}, "g7e.12xlarge", id="RTX PRO 6000"),
        pytest.param({"gpu": "A10G"}, "g5.xlarge", id="previous generation where there is no other"),
    ],
)
def test_a_gpu_resolves_to_the_smallest_instance_type(wanted: dict[str, Any], instance_type: str) -> None:
    assert plan(**wanted).instance.name == instance_type


@pytest.mark.parametrize(
    ("instance_type", "software", "ami_type"),
    [
        ("g6.xlarge", "cloud-managed", "BOTTLEROCKET_x86_64_NVIDIA"),
        ("g5g.xlarge", "cloud-managed", "BOTTLEROCKET_ARM_64_NVIDIA"),
        ("g6.xlarge", "device-plugin", "AL2023_x86_64_NVIDIA"),
        ("g5g.xlarge", "device-plugin", "AL2023_ARM_64_NVIDIA"),
        ("p5.48xlarge", "gpu-operator", "AL2023_x86_64_NVIDIA"),
        ("g5g.metal", "gpu-operator", "AL2023_ARM_64_NVIDIA"),
    ],
)
def test_the_image_fits_architecture_and_software(instance_type: str, software: str, ami_type: str) -> None:
    assert settings(instance_type=instance_type, software=software).ami_type == ami_type


def test_every_image_type_is_one_eks_knows() -> None:
    known = {
        *("AL2023_x86_64_NVIDIA", "AL2023_ARM_64_NVIDIA"),
        *("BOTTLEROCKET_x86_64_NVIDIA", "BOTTLEROCKET_ARM_64_NVIDIA"),
    }  # botocore, data/eks/2017-11-01/service-2.json, shape AMITypes

    assert {name for image in IMAGES.values() for name in image.ami_types.values()} == known


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("T4", "nvidia-tesla-t4"),
        ("V100-32GB", "nvidia-tesla-v100"),
        ("A100-80GB", "nvidia-tesla-a100"),
        ("A10G", "nvidia-a10g"),
        ("L40S", "nvidia-l40s"),
        ("T4G", "nvidia-t4g"),
        ("RTX-PRO-6000", "nvidia-rtx-pro-6000"),
    ],
)
def test_the_accelerator_label_speaks_the_autoscalers_names(model: str, name: str) -> None:
    assert accelerator_name(model) == name


def test_nodes_tell_the_autoscaler_to_wait_for_their_gpus() -> None:
    assert plan(gpu="L4").labels["k8s.amazonaws.com/accelerator"] == "nvidia-l4"


def test_nodes_for_the_device_plugin_chart_say_that_they_have_gpus() -> None:
    labels = plan(gpu="L4", software="device-plugin").labels

    assert labels["nvidia.com/gpu.present"] == "true"


@pytest.mark.parametrize(("nodes", "minutes"), [(1, 90), (10, 360), (1000, 1440)])
def test_a_rolling_update_has_time_for_every_node(nodes: int, minutes: int) -> None:
    assert settings(gpu="L4", nodes={"max": nodes}).update_timeout_minutes == minutes


def test_whole_gpus_need_no_user_data() -> None:
    assert settings(gpu="L4").user_data == ""


@pytest.mark.parametrize(
    ("wanted", "capacity"),
    [
        ({"instance_type": "p4d.24xlarge", "sharing": {"mode": "mig", "profile": "2g.10gb"}}, {"nvidia.com/gpu": 24}),
        ({"instance_type": "g6.12xlarge", "sharing": {"mode": "mps", "replicas": 8}}, {"nvidia.com/gpu": 32}),
        ({"instance_type": "g6f.large"}, {"nvidia.com/gpu": 1}),
    ],
)
def test_the_plan_says_what_every_node_advertises(wanted: dict[str, Any], capacity: dict[str, int]) -> None:
    assert plan(**wanted).node_resources == capacity


# What is refused


@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator", "dra-driver"])
def test_g7_runs_on_the_amazon_linux_image(software: str) -> None:
    wanted: dict[str, Any] = {"gpu": "RTX-PRO-4500", "software": software, "nodes": {"min": 1, "max": 2}}

    assert (plan(**wanted).instance.name, settings(**wanted).ami_type) == ("g7.2xlarge", "AL2023_x86_64_NVIDIA")


@pytest.mark.parametrize(
    ("keys", "others"),
    [
        ({"tags": {"aws:x": "y"}}, ["pools.a.tags.aws:x: "]),
        ({"upgrade": {"max_unavailable": 9}, "nodes": {"max": 3}}, ["pools.a.upgrade.max_unavailable: "]),
        ({"disk": {"type": "floppy"}, "zones": ["eu-central-1a"]}, ["pools.a.zones: ", "pools.a.disk.type: "]),
    ],
    ids=["tags", "upgrade", "disk and zones"],
)
def test_sharing_that_a_gpu_cannot_do_hides_no_other_refusal(keys: dict[str, Any], others: list[str]) -> None:
    alone = refused(BY_SUBNET, gpu="L4", sharing={"mode": "mig", "profile": "1g.5gb"})
    (sharing, *rest) = refused(BY_SUBNET, gpu="L4", sharing={"mode": "mig", "profile": "1g.5gb"}, **keys)

    assert [sharing] == alone  # the GPUs that can be cut are named whatever else is wrong
    assert [each[: len(start)] for each, start in zip(rest, others, strict=True)] == others


@pytest.mark.parametrize("machine", ["g6f.large", "gr6f.4xlarge"])
def test_containers_take_turns_on_a_part_of_a_gpu(machine: str) -> None:
    made = plan(instance_type=machine, sharing={"mode": "time-slicing", "replicas": 3}, trust={"team": "vision"})

    assert made.node_resources == {"nvidia.com/gpu": 3}


def test_an_ultraserver_cannot_be_cut_on_the_images_of_eks() -> None:
    found = refused(BY_SUBNET, instance_type="p6e-gb200.36xlarge", sharing={"mode": "mig", "profile": "1g.23gb"})

    assert (
        "pools.a.sharing.mode: EKS images run the GB200 of p6e-gb200.36xlarge in CDMM mode, which does not support MIG;"
        " use whole GPUs"
    ) in found


def test_profiles_that_bottlerocket_cuts_are_profiles_of_the_gpu() -> None:
    for model, (_, names) in BOTTLEROCKET_MIG.items():
        assert [profile(model, name).name for name in names] == list(names)


# What is declared


class Engine(pulumi.runtime.Mocks):
    """Answers with the inputs, plus what AWS would add to them unless it is bare."""

    def __init__(self, bare: bool = False) -> None:
        self.bare = bare

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        outputs = dict(args.inputs)
        if args.typ == TEMPLATE and not self.bare:
            outputs["latestVersion"] = 3
        if args.typ == NODE_GROUP and not self.bare:
            outputs["nodeGroupName"] = f"{args.name}-1234567"
            outputs["resources"] = [{"autoscalingGroups": [{"name": "eks-asg"}], "remoteAccessSecurityGroupId": ""}]
        return f"{args.name}-id", outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            return {"outputs": {}}, []
        raise AssertionError(f"a test asked the cloud for {args.token}")


class Monitor(MockMonitor):
    """Keeps the requests as they go over the wire."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.requests: list[Any] = []

    def RegisterResource(self, wanted: Any) -> Any:  # noqa: N802
        if wanted.type != "pulumi:pulumi:Stack":
            self.requests.append(wanted)
        return super().RegisterResource(wanted)  # type: ignore[no-untyped-call]  # the SDK leaves it untyped


class Declared:
    """The resources one program declared."""

    def __init__(self, requests: list[Any]) -> None:
        self.requests = requests

    def wanted(self, type_token: str) -> Any:
        (found,) = [wanted for wanted in self.requests if wanted.type == type_token]
        return found

    def inputs(self, type_token: str) -> dict[str, Any]:
        found = rpc.deserialize_properties(self.wanted(type_token).object)
        assert isinstance(found, dict)
        return found


def run(program: Callable[[], Any], engine: Engine | None = None) -> Declared:
    monitor = Monitor(engine or Engine())

    async def main() -> None:
        pulumi.runtime.set_mocks(monitor.mocks, monitor=monitor)
        await pulumi.runtime.stack.run_pulumi_func(program)

    asyncio.run(main())
    return Declared(monitor.requests)


class Groups(Engine):
    """An EKS cluster with node groups, by name, each of the pool that its tag says; and what the state has of them."""

    def __init__(self, groups: Mapping[str, str], known: str = "", allowed: bool = True) -> None:
        super().__init__()
        self.groups = groups
        self.known = known
        self.allowed = allowed

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            return {"outputs": {"urn": {"type": NODE_GROUP, "outputs": {"nodeGroupName": self.known}}}}, []
        if args.token == "aws:eks/getNodeGroups:getNodeGroups":
            assert args.args == {"clusterName": "train-dev", "region": "eu-central-1"}
            return ({"names": list(self.groups)}, []) if self.allowed else ({}, [("", "AccessDeniedException")])
        assert args.token == "aws:eks/getNodeGroup:getNodeGroup"
        return {"tags": {"gpupools:pool": self.groups[args.args["nodeGroupName"]]}}, []


@pytest.mark.parametrize(
    ("groups", "refused"),
    [
        pytest.param(Groups({}), None, id="none"),
        pytest.param(Groups({"train-a-nodes-1": "a"}), "EKS has train-a-nodes-1 of this pool in train-dev", id="left"),
        pytest.param(Groups({"train-a-nodes-1": "a"}, known="train-a-nodes-1"), None, id="the state has it"),
        pytest.param(Groups({"train-a-nodes-1": "a-nodes-1"}), None, id="of another pool"),
        pytest.param(Groups({"train-b-nodes-1": "b"}), None, id="of another name"),
        pytest.param(Groups({"train-a-nodes-1": "a"}, allowed=False), None, id="not allowed to ask"),
    ],
)
def test_no_group_is_made_beside_one_that_a_broken_update_left(
    groups: Groups, refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = {"clusterName": "train-dev", "region": "eu-central-1"}
    args = pulumi.ResourceHookArgs("urn", "id", "name", NODE_GROUP, new_inputs=inputs)
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", warned.append)

    async def main() -> None:
        pulumi.runtime.set_mocks(groups, monitor=Monitor(groups))
        try:
            await _reject_orphan("train-a", "a", None, args)
        finally:
            await pulumi.runtime.stack.wait_for_rpcs()

    with pytest.raises(pulumi.RunError, match=refused) if refused is not None else nullcontext():
        asyncio.run(main())
    assert bool(warned) is not groups.allowed, warned


def inputs(**wanted: Any) -> dict[str, dict[str, Any]]:
    return declared_inputs(plan(**wanted), ADDRESS)


@pytest.mark.parametrize(
    "wanted",
    [
        {"gpu": "L4"},
        {"gpu": "L4", "software": "device-plugin"},
        {"gpu": "L4", "sharing": {"mode": "time-slicing", "replicas": 2}},
    ],
    ids=["bottlerocket", "al2023", "shared"],
)
def test_nothing_is_set_in_both_template_and_group(wanted: dict[str, Any]) -> None:
    made = inputs(**wanted)
    template, group = made["LaunchTemplate"], made["NodeGroup"]

    assert not {"instanceType", "imageId", "keyName", "iamInstanceProfile", "networkInterfaces"} & set(template)
    assert not {"diskSize", "remoteAccess"} & set(group)


def test_user_data_is_base64() -> None:
    sharing = {"mode": "time-slicing", "replicas": 4}

    made = inputs(gpu="L4", sharing=sharing)["LaunchTemplate"]

    assert base64.b64decode(made["userData"]).decode() == settings(gpu="L4", sharing=sharing).user_data


class Left(Engine):
    """An update that left a pool of 1 to 4 nodes, of which the autoscaler runs some now; or a state nobody can read."""

    def __init__(self, name: str = "train-a-nodes", running: int = 3, readable: bool = True) -> None:
        super().__init__()
        self.name = name
        self.running = running
        self.readable = readable

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            scaling = {"minSize": 1, "maxSize": 4, "desiredSize": 1}
            outputs = {"clusterName": "train-dev", "nodeGroupName": "made-up", "scalingConfig": scaling}
            urn = f"urn:pulumi:dev::gpupools::gpupools:index:GpuNodePool${NODE_GROUP}::{self.name}"
            left = {urn: {"type": NODE_GROUP, "outputs": outputs}}
            return {"outputs": left}, [] if self.readable else [("", "cannot be read")]
        assert args.token == "aws:eks/getNodeGroup:getNodeGroup"
        assert args.args == {"clusterName": "train-dev", "nodeGroupName": "made-up", "region": "eu-central-1"}
        return {"scalingConfigs": [{"desiredSize": self.running}]}, []


def asked_for(nodes: Mapping[str, int], engine: Engine) -> tuple[int, bool, bool, bool]:
    """Return the number that is declared, whether it is left alone, and what asks before an update and a creation."""
    made = plan(gpu="L4", nodes=nodes)
    found = run(lambda: create_pool("train-a", made, ADDRESS, pulumi.ResourceOptions()), engine)
    group = found.wanted(NODE_GROUP)
    number = found.inputs(NODE_GROUP)["scalingConfig"]["desiredSize"]
    hooks = group.hooks
    return int(number), bool(group.ignoreChanges), bool(hooks.before_update), bool(hooks.before_create)


@pytest.mark.parametrize(
    ("nodes", "engine", "found"),
    [
        pytest.param({"min": 1, "max": 4}, Engine(), (1, True, False, True), id="new"),
        pytest.param({"min": 1, "max": 4}, Left(), (1, True, True, True), id="as it was"),
        pytest.param({"min": 1, "max": 9}, Left(), (3, False, False, True), id="another maximum"),
        pytest.param({"min": 0, "max": 4}, Left(), (3, False, False, True), id="another minimum"),
        pytest.param({"min": 5, "max": 9}, Left(), (5, False, False, True), id="below the new minimum"),
        pytest.param({"min": 0, "max": 2}, Left(), (2, False, False, True), id="above the new maximum"),
        pytest.param({"min": 1, "max": 9}, Left("x"), (1, True, True, True), id="another pool's"),
        pytest.param({"min": 1, "max": 9}, Left(readable=False), (1, True, True, False), id="a state nobody can read"),
        pytest.param({"min": 2, "max": 2}, Left(), (2, False, False, True), id="a fixed size"),
    ],
)
def test_what_runs_is_sent_with_other_ends_and_nothing_is_without(
    nodes: Mapping[str, int], engine: Engine, found: tuple[int, bool, bool, bool]
) -> None:
    assert asked_for(nodes, engine) == found


def test_a_preview_without_an_engine_asks_nothing_before_a_group_is_made() -> None:
    class Nobody(Engine):
        def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
            return {}, []

    assert asked_for({"min": 1, "max": 4}, Nobody()) == (1, True, False, False)


def test_an_empty_group_describes_its_nodes_to_the_autoscaler() -> None:
    wanted = {
        "gpu": "L4",
        "sharing": {"mode": "time-slicing", "replicas": 4},
        "labels": {"example.com/team": "vision"},
        "taints": ["dedicated:NoSchedule"],
    }

    assert inputs(**wanted)["Tag"] == {
        **{f"{AUTOSCALER}/label/{key}": value for key, value in plan(**wanted).labels.items()},
        f"{AUTOSCALER}/taint/nvidia.com/gpu": "present:NoSchedule",
        f"{AUTOSCALER}/taint/dedicated": ":NoSchedule",
        f"{AUTOSCALER}/resources/nvidia.com/gpu": "4",
    }


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        pytest.param(
            {"gpu": "L4", "sharing": {"mode": "mps", "replicas": 4, "rename": True}},
            {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4"},
            id="replicas",
        ),
        pytest.param(
            {
                "instance_type": "p4d.24xlarge",
                "software": "gpu-operator",
                "sharing": {"mode": "mig", "profile": "2g.10gb", "strategy": "mixed"},
            },
            {"nvidia.com/gpu": "0", "nvidia.com/mig-2g.10gb": "24"},
            id="slices",
        ),
        pytest.param(
            {"gpu": "L4", "software": "dra-driver", "nodes": {"min": 1, "max": 4}},
            {"nvidia.com/gpu": "0"},
            id="claims",
        ),
    ],
)
def test_the_autoscaler_does_not_wait_for_a_name_that_no_node_offers(
    wanted: dict[str, Any], offered: dict[str, str]
) -> None:
    tags = inputs(**wanted)["Tag"]
    resources = f"{AUTOSCALER}/resources/"

    assert {tag.removeprefix(resources): tags[tag] for tag in tags if tag.startswith(resources)} == offered
    assert not any("k8s.amazonaws.com/accelerator" in text for text in (*tags, *plan(**wanted).labels))


def test_the_pools_name_is_the_node_groups() -> None:
    names: list[str] = []
    made = plan(gpu="L4")

    run(lambda: create_pool("train-a", made, ADDRESS, pulumi.ResourceOptions()).apply(names.append))

    assert names == ["train-a-nodes-1234567"]


def test_late_subnets_of_a_zone_pass_through() -> None:
    made = aws_pools.plan(zones=["eu-central-1b", "eu-central-1a"])

    def program() -> None:
        late = {
            "eu-central-1a": ["subnet-00000001"],
            "eu-central-1b": pulumi.Output.from_input(["subnet-00000008", "subnet-00000009"]),
        }
        create_pool("train-a", made, {**BY_ZONE, "subnets_by_zone": late}, pulumi.ResourceOptions())

    assert run(program).inputs(NODE_GROUP)["subnetIds"] == ["subnet-00000001", "subnet-00000008", "subnet-00000009"]


def test_subnets_of_a_zone_may_come_from_another_stack() -> None:
    zones = {"eu-central-1a": {"output": "subnets.a"}, "eu-central-1b": [{"output": "subnetB"}]}
    made = aws_pools.eks({**BY_ZONE, "stack": "org/net/prod", "subnets_by_zone": zones})

    assert set(made.late_outputs()) == {"subnets_by_zone.eu-central-1a", "subnets_by_zone.eu-central-1b[0]"}


def test_an_engine_that_adds_no_autoscaling_group_does_not_stop_a_users_own_test() -> None:
    made = plan(gpu="L4")

    tags = [
        rpc.deserialize_properties(wanted.object)
        for wanted in run(lambda: create_pool("a", made, ADDRESS, pulumi.ResourceOptions()), Engine(bare=True)).requests
        if wanted.type == TAG
    ]

    assert {tag["autoscalingGroupName"] for tag in tags} == {""}


def test_every_resource_gets_the_options_of_its_caller() -> None:
    made = plan(gpu="L4")

    def program() -> None:
        provider = create_provider("train", ADDRESS, pulumi.ResourceOptions())
        create_pool("train-a", made, ADDRESS, pulumi.ResourceOptions(provider=provider, protect=True))

    declared = run(program)

    assert declared.inputs("pulumi:providers:aws")["region"] == "eu-central-1"
    pool = [wanted for wanted in declared.requests if wanted.type != "pulumi:providers:aws"]
    assert len(pool) > 2
    assert all(wanted.protect and "pulumi:providers:aws::train::" in wanted.provider for wanted in pool)


def test_a_plan_for_another_cloud_is_a_programming_error() -> None:
    foreign = plan(gpu="L4")._replace(cloud="gcp", provider_plan=ProviderPlan())

    with pytest.raises(TypeError, match="pool a: expected EksPoolPlan, got "):
        create_pool("train-a", foreign, ADDRESS, pulumi.ResourceOptions())


# How it is read back


# The data


def test_the_catalogue_is_sorted_and_dated() -> None:
    def size(name: str) -> float:
        text = name.partition(".")[2]
        return {"large": 0.5, "xlarge": 1, "metal": 1e6}.get(text) or float(text.removesuffix("xlarge"))

    names = list(CLOUD.instance_types)

    assert names == sorted(names, key=lambda name: (instance_family(name), size(name)))
    assert all(row.source and row.checked for row in CLOUD.instance_types.values())


def test_the_image_table_and_the_catalogue_know_the_same_families() -> None:
    for image in IMAGES.values():
        for architecture, families in image.families.items():
            here = {
                instance_family(row.name) for row in CLOUD.instance_types.values() if row.architecture == architecture
            }

            assert families <= here
