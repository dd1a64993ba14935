"""EKS: what each setting of a pool becomes, and which settings are refused together."""

import base64
import email
import json
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.providers.aws import CLOUD
from gpupools.providers.aws.constraints import CAPACITY_BLOCK_FAMILIES
from gpupools.providers.aws.node_images import BOTTLEROCKET, ULTRASERVER_FAMILIES, instance_family
from gpupools.providers.aws.pool_settings import (
    VOLUME_TYPES,
)
from tests.providers import aws_pools
from tests.providers.aws_pools import (
    BY_SUBNET,
    EFA,
    GROUP,
    declared,
    eks,
    plan,
    refused,
    settings,
    strictly,
)

BLOCK: Mapping[str, Any] = {"mode": "capacity-block", "name": "cr-02168da1478b509e0"}
ONE_ZONE: Mapping[str, Any] = {"zones": ["eu-central-1a"]}


# Capacity


def test_an_ultraserver_comes_in_a_capacity_block() -> None:
    address = {**aws_pools.BY_ZONE, "region": "us-east-1", "subnets_by_zone": {"us-east-1-dfw-2a": ["subnet-00000001"]}}

    made = plan(address, instance_type="p6e-gb200.36xlarge", capacity=BLOCK, software="device-plugin")

    assert made.instance.gpu_model == "GB200"


def test_the_families_of_capacity_blocks_are_in_the_catalogue() -> None:
    assert {instance_family(name) for name in CLOUD.instance_types} >= CAPACITY_BLOCK_FAMILIES >= ULTRASERVER_FAMILIES


def test_a_fixed_pool_has_its_size_and_nothing_for_the_autoscaler() -> None:
    pool = declared(nodes={"fixed": 3})

    assert pool.group["scalingConfig"] == {"minSize": 3, "desiredSize": 3, "maxSize": 3}
    assert pool.tags == {}


def test_gpus_that_go_by_another_name_are_not_counted_by_the_autoscaler() -> None:
    wanted: dict[str, Any] = {
        "instance_type": "p4d.24xlarge",
        "software": "gpu-operator",
        "sharing": {"mode": "mig", "layout": ["3g.20gb", "3g.20gb"], "strategy": "mixed"},
    }

    pool = declared(**wanted)

    assert pool.tags["resources/nvidia.com/mig-3g.20gb"] == "16"
    assert pool.tags["resources/nvidia.com/gpu"] == "0"


# Zones


@pytest.mark.parametrize(
    ("zones", "subnets"),
    [
        pytest.param([], ["subnet-00000001", "subnet-00000002", "subnet-00000003"], id="all"),
        pytest.param(["eu-central-1b"], ["subnet-00000002", "subnet-00000003"], id="one"),
        pytest.param(
            ["eu-central-1b", "eu-central-1a"], ["subnet-00000001", "subnet-00000002", "subnet-00000003"], id="two"
        ),
        pytest.param(["eu-central-1a", "eu-central-1a"], ["subnet-00000001"], id="twice the same"),
    ],
)
def test_zones_are_the_subnets_in_them(zones: list[str], subnets: list[str]) -> None:
    assert declared(zones=zones).group["subnetIds"] == subnets


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(
            {"subnet_ids": ["subnet-00000001"]}, "set exactly one of subnet_ids and subnets_by_zone", id="both"
        ),
        pytest.param({"subnets_by_zone": None}, "set exactly one of subnet_ids and subnets_by_zone", id="neither"),
        pytest.param({"subnets_by_zone": {}}, "subnets_by_zone: is empty", id="no zone"),
        pytest.param(
            {"subnets_by_zone": {"us-east-1a": ["subnet-00000001"]}},
            "'us-east-1a' is not a zone of eu-central-1",
            id="another region's zone",
        ),
        pytest.param(
            {"subnets_by_zone": None, "subnet_ids": ["subnet-0a1b2c3d", "vpc-0123456789abcdef0"]},
            "subnet_ids: got 'vpc-0123456789abcdef0'; write a subnet id",
            id="a VPC among subnets",
        ),
        pytest.param(
            {"subnets_by_zone": {"eu-central-1a": ["sg-0a1b2c3d"]}},
            "subnets_by_zone: got 'sg-0a1b2c3d'; write a subnet id",
            id="a security group for a zone's subnet",
        ),
    ],
)
def test_a_cluster_names_its_subnets_in_one_way_and_subnets_alone(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Rejected, match=said):
        eks({**aws_pools.BY_ZONE, **change})


# Images


def test_every_fips_type_is_the_variant_of_an_ordinary_one() -> None:
    assert {f"{name}_FIPS" for name in BOTTLEROCKET.ami_types.values()} == set(BOTTLEROCKET.fips_ami_types.values())


def encoded(user_data: str) -> str:
    return base64.b64encode(user_data.encode()).decode()


OWN: Mapping[str, Any] = {
    "instance_type": "g7.2xlarge",
    "software": "gpu-operator",
    "image": {"family": "custom", "id": "ami-0a1b2c3d4e5f60718"},
}
BY_HAND: Mapping[str, Any] = {
    "userData": encoded("kubelet --register-with-taints=nvidia.com/gpu=present:NoSchedule"),
    "blockDeviceMappings": [{"deviceName": "/dev/sda1", "ebs": {"volumeSize": 200, "encrypted": "true"}}],
}


def test_the_operator_brings_everything_to_an_image_of_ones_own() -> None:
    made = plan(**OWN, overrides={"aws": {"LaunchTemplate": BY_HAND}})

    assert {made.owners.driver, made.owners.container_toolkit, made.owners.device_plugin} == {"GPU Operator"}
    assert made.overrides["LaunchTemplate.userData"] == BY_HAND["userData"]


# Disks


def mime(text: str) -> dict[str, str]:
    parts = email.message_from_string(text).get_payload()
    assert isinstance(parts, list)
    return {part.get_content_type(): str(part.get_payload()) for part in parts if not isinstance(part, str)}


# Network


@pytest.mark.parametrize(
    ("instance_type", "efa_only"),
    [
        pytest.param("g6.8xlarge", [(0, 1)], id="one card"),
        pytest.param("g6e.48xlarge", [(0, 1), (1, 0), (2, 0), (3, 0)], id="four cards"),
        pytest.param("p5.48xlarge", [(0, 1), *((card, 0) for card in range(1, 32))], id="32 cards"),
        pytest.param("p6-b300.48xlarge", [(card, 0) for card in range(1, 17)], id="a first card without EFA"),
        pytest.param("p6e-gb200.36xlarge", [(1, 0), (5, 0), (9, 0), (13, 0)], id="one card for each GPU"),
    ],
)
def test_every_network_card_with_efa_has_one_efa_only_interface(
    instance_type: str, efa_only: list[tuple[int, int]]
) -> None:
    on_capacity = instance_type.startswith("p6e")
    rack: dict[str, Any] = {"software": "device-plugin", "capacity": BLOCK} if on_capacity else {}
    pool = declared(instance_type=instance_type, network=EFA, **rack, **ONE_ZONE)

    primary, *rest = pool.template["networkInterfaces"]
    assert (primary["networkCardIndex"], primary["deviceIndex"], primary.get("interfaceType")) == (0, 0, None)
    assert [(each["networkCardIndex"], each["deviceIndex"]) for each in rest] == efa_only
    assert {each["interfaceType"] for each in rest} == {"efa-only"}
    assert all(each["securityGroups"] == [GROUP] for each in [primary, *rest])
    assert all(each["associatePublicIpAddress"] == "false" for each in [primary, *rest])
    assert "vpcSecurityGroupIds" not in pool.template
    assert pool.tags["resources/vpc.amazonaws.com/efa"] == str(len(efa_only))


def test_every_type_with_efa_gets_as_many_interfaces_as_it_has() -> None:
    types = [row for row in CLOUD.instance_types.values() if row.rdma_interfaces and row.lifecycle != "retired"]
    types = [row for row in types if not row.name.startswith(("g7.", "p6e-"))]  # not on Bottlerocket

    made = {row.name: settings(instance_type=row.name, network=EFA, **ONE_ZONE) for row in types}
    counts = {name: found.node_resources for name, found in made.items()}

    assert counts == {row.name: {"vpc.amazonaws.com/efa": str(row.rdma_interfaces)} for row in types}


def test_a_compact_pool_has_a_placement_group_of_its_own() -> None:
    resources = {each.type: each for each in strictly(network={"placement": "compact"}, **ONE_ZONE)}

    group = resources[aws_pools.PLACEMENT_GROUP]
    assert group.inputs["strategy"] == "cluster"
    assert resources[aws_pools.TEMPLATE].options["propertyDependencies"]["placement"] == [group.urn]


def test_a_limit_of_pods_on_amazon_linux_wins_over_the_one_of_eks() -> None:
    parts = mime(declared(software="device-plugin", network={"max_pods": 40}).user_data)

    head, _, body = parts["text/cloud-config"].partition("\n")
    (file,) = json.loads(body)["write_files"]
    assert head == "#cloud-config"
    assert file["path"].startswith("/etc/eks/nodeadm.d/")
    assert json.loads(file["content"])["spec"] == {"kubelet": {"config": {"maxPods": 40}}}


def test_settings_of_one_node_go_into_one_text() -> None:
    wanted: dict[str, Any] = {
        "disk": {"local_nvme": "raid0"},
        "network": {"max_pods": 40},
        "instance_type": "p4d.24xlarge",
    }

    bottlerocket = tomllib.loads(declared(**wanted, sharing={"mode": "mig", "profile": "2g.10gb"}).user_data)
    amazon_linux = mime(declared(**wanted, software="device-plugin").user_data)

    assert set(bottlerocket["settings"]) == {"bootstrap-commands", "kubernetes", "kubelet-device-plugins"}
    assert set(amazon_linux) == {"application/node.eks.aws", "text/cloud-config"}


def test_the_autoscaler_knows_the_huge_pages_of_efa_on_amazon_linux() -> None:
    found = settings(instance_type="g6.8xlarge", software="device-plugin", network=EFA, **ONE_ZONE).node_resources

    assert found == {"vpc.amazonaws.com/efa": "1", "hugepages-2Mi": "10256Mi"}


# The rest


def test_what_is_set_by_hand_on_another_cloud_is_not_for_this_one() -> None:
    assert declared(overrides={"gcp": {"NodePool": {"version": "1"}}}).group == declared().group


def test_a_protected_pool_keeps_what_holds_its_nodes() -> None:
    resources = strictly(protect=True, network={"placement": "compact"}, **ONE_ZONE)

    assert {each.type for each in resources if each.options.get("protect")} == {
        aws_pools.NODE_GROUP,
        aws_pools.TEMPLATE,
        aws_pools.PLACEMENT_GROUP,
    }


def test_more_nodes_at_a_time_need_less_time() -> None:
    found = settings(nodes={"max": 10}, upgrade={"max_unavailable": 5})

    assert found.update_timeout_minutes == 60 + 30 * 2


def test_a_renamed_pool_keeps_its_launch_template() -> None:
    before = aws_pools.Pool(plan(name="old"), aws_pools.BY_ZONE, "train-old")
    after = aws_pools.Pool(plan(name="new", renamed_from="old"), aws_pools.BY_ZONE, "train-new")

    assert after.template == before.template
    assert after.group["labels"]["gpupools/pool"] == "new"


# Refusals


def by_hand(resource: str, **inputs: Any) -> dict[str, Any]:
    return {"overrides": {"aws": {resource: inputs}}}


@pytest.mark.parametrize(
    "wanted",
    [
        {"network": {"placement": "compact"}},
        {"instance_type": "g6.8xlarge", "network": EFA},
        {"capacity": {"mode": "reservation", "name": "cr-0123456789abcdef0"}},
    ],
    ids=["placement", "EFA", "reservation"],
)
def test_one_zone_is_sure_with_one_subnet_only(wanted: dict[str, Any]) -> None:
    one = {**BY_SUBNET, "subnet_ids": ["subnet-00000001"]}

    (problem,) = refused(BY_SUBNET, **wanted)

    assert "is limited to one zone, but the cluster's subnet_ids do not name their zones" in problem
    assert plan(one, **wanted).provider_plan


def test_zones_need_subnets_by_zone() -> None:
    assert refused(BY_SUBNET, zones=["eu-central-1a"]) == [
        (
            "pools.a.zones: subnets decide the zones of a node group, and the cluster's subnet_ids do not name"
            " their zones; replace subnet_ids with subnets_by_zone: {zone: [subnet-…]}"
        )
    ]


def test_an_ultraserver_without_published_network_cards_gets_no_efa() -> None:
    wanted: dict[str, Any] = {
        "instance_type": "p6e-gb300.36xlarge",
        "software": "device-plugin",
        "capacity": BLOCK,
        "network": EFA,
    }

    assert refused(**wanted, **ONE_ZONE) == [
        (
            "pools.a.network.rdma: rdma needs EFA on each card of p6e-gb300.36xlarge, and AWS does not document which"
            " cards support it; leave it out and set overrides: {aws: {LaunchTemplate:"
            " {networkInterfaces: […]}}}"
        )
    ]


# The data


def test_volume_types_are_sorted_for_messages() -> None:
    assert list(VOLUME_TYPES) == sorted(VOLUME_TYPES)


# Everything at once


# The table of edits


@pytest.mark.parametrize(
    ("key", "minor", "wanted"),
    [
        (
            "sharing.mode: time-slicing",
            25,
            {"sharing": {"mode": "time-slicing", "replicas": 2}, "trust": {"team": "a"}},
        ),
        ("sharing.mode: mps", 54, {"sharing": {"mode": "mps", "replicas": 2}, "trust": {"team": "a"}}),
        ("sharing.mode: mig", 34, {"instance_type": "p4d.24xlarge", "sharing": {"mode": "mig", "profile": "1g.5gb"}}),
        ("disk.local_nvme: raid0", 22, {"instance_type": "g5.xlarge", "disk": {"local_nvme": "raid0"}}),
    ],
    ids=str,
)
def test_bottlerocket_has_each_setting_since_a_release(key: str, minor: int, wanted: dict[str, Any]) -> None:
    since = {**wanted, "software": "cloud-managed", **by_hand("NodeGroup", releaseVersion=f"1.{minor}.0-4fe8a8b3")}
    before = {**since, **by_hand("NodeGroup", releaseVersion=f"1.{minor - 1}.9-4fe8a8b3")}

    assert settings(**since).ami_type.startswith("BOTTLEROCKET")
    with pytest.raises(Rejected) as refused:
        settings(**before)
    (problem,) = refused.value.problems
    assert f"does not support {key}; Bottlerocket does since 1.{minor}" in problem.what


@pytest.mark.parametrize(
    "wanted",
    [
        {"software": "device-plugin", **by_hand("NodeGroup", releaseVersion="1.34.1-20260801")},
        {
            "instance_type": "g7.2xlarge",
            "software": "device-plugin",
            **by_hand("NodeGroup", releaseVersion="1.34.1-20260917"),
        },
        {"software": "cloud-managed", **by_hand("NodeGroup", releaseVersion="1.20.0-4fe8a8b3")},
        {
            "software": "cloud-managed",
            "sharing": {"mode": "mps", "replicas": 2},
            "trust": {"team": "a"},
            **by_hand("NodeGroup", releaseVersion="1.54.0-4fe8a8b3"),
        },
        {"upgrade": {"max_unavailable": 2}, "nodes": {"max": 2}},
    ],
    ids=["older machine", "that release", "no settings", "that Bottlerocket", "all nodes at once"],
)
def test_what_is_pinned_late_enough_passes(wanted: dict[str, Any]) -> None:
    assert settings(**wanted).ami_type


@pytest.mark.parametrize(
    ("autoscaler", "repeated"), [({}, True), ({"reads_node_groups": False}, True), ({"reads_node_groups": True}, False)]
)
def test_labels_and_taints_are_tagged_unless_the_autoscaler_reads_the_node_group(
    autoscaler: dict[str, bool], repeated: bool
) -> None:
    address = {**BY_SUBNET, "runtime": {"existing": {"cluster_autoscaler": {"name": "kube-system/ca", **autoscaler}}}}

    pool = declared(address, capacity={"mode": "spot"})

    kinds = {tag.partition("/")[0] for tag in pool.tags}
    own = {tag for tag in pool.tags if tag.startswith(("label/gpupools/", "taint/"))}
    assert kinds == ({"label", "taint", "resources"} if repeated else {"label", "resources"})
    assert bool(own) is repeated
    assert pool.tags["label/eks.amazonaws.com/capacityType"] == "SPOT"  # EKS adds this one, no node group has it
    assert pool.tags["resources/nvidia.com/gpu"] == "1"
