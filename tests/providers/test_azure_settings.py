"""AKS: what each setting of a pool becomes on the wire, and what AKS does not have or does not take together."""

import csv
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi._types import input_type_py_to_pulumi_names
from pulumi_azure_native.containerservice import AgentPoolArgs

from gpupools.asked.pool_parts import SETTINGS, given_settings
from gpupools.base.taints import GPU_TAINT
from gpupools.environment.check import check_stack_file
from gpupools.environment.stack import parse_pool
from gpupools.planned.plan import POOL_LABEL
from gpupools.planned.tolerations import tolerations_for
from gpupools.preview.sdk_schema import check_inputs, check_property_path
from gpupools.providers import azure, clouds
from gpupools.providers.azure.pool_settings import OVERRIDABLE
from gpupools.providers.azure.resources import FIXED_AT_CREATION, create_pool
from tests.providers.azure_pools import (
    ADDRESSES,
    EVERYTHING,
    TOKEN,
    aks,
    everything,
    options,
    plan,
    refused,
    settings,
    wire,
)
from tests.providers.declaring import run
from tests.rows import each_row

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/a100"
PLACEMENT_GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/proximityPlacementGroups/fabric"
SPOT_TAINT = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"
IN_GROUP = {"proximity_placement_group_id": PLACEMENT_GROUP}
FABRIC: dict[str, Any] = {"instance_type": "Standard_ND96isr_H100_v5"}


# --- on the wire ------------------------------------------------------------------------------------------------------


@each_row(
    ("keys", "inputs"),
    [
        (
            {"capacity": {"mode": "spot"}},
            {"scaleSetPriority": "Spot", "scaleSetEvictionPolicy": "Delete", "spotMaxPrice": -1},
        ),
        ({"capacity": {"mode": "spot", "max_price_usd_per_hour": 0.98765}}, {"spotMaxPrice": 0.98765}),
        ({"capacity": {"mode": "spot"}}, {"nodeTaints": [str(GPU_TAINT), SPOT_TAINT], "upgradeSettings": None}),
        ({"capacity": {"mode": "reservation", "name": GROUP}}, {"capacityReservationGroupID": GROUP}),
        ({"zones": ["3", "1"]}, {"availabilityZones": ["1", "3"]}),
        ({"nodes": {"fixed": 3}}, {"enableAutoScaling": False, "count": 3, "minCount": None, "maxCount": None}),
        ({"image": {"family": "ubuntu"}}, {"osSKU": "Ubuntu", "enableFIPS": None}),
        ({"image": {"family": "azure-linux"}}, {"osSKU": "AzureLinux"}),
        ({"image": {"fips": True}}, {"osSKU": "Ubuntu", "enableFIPS": True}),
        ({"disk": {"type": "Ephemeral"}}, {"osDiskType": "Ephemeral", "scaleDownMode": "Delete"}),
        ({"disk": {"type": "Managed"}}, {"osDiskType": "Managed"}),
        ({"network": {"max_pods": 60}}, {"maxPods": 60}),
        ({}, {"maxPods": None, "availabilityZones": None, "tags": None, "securityProfile": None}),
        (
            {"image": {"family": "azure-linux"}, "security": {"secure_boot": True}},
            {"securityProfile": {"enableSecureBoot": True, "enableVTPM": True}},
        ),
        ({}, {"upgradeSettings": {"maxSurge": "0", "maxUnavailable": "1"}}),
        ({"upgrade": {"max_surge": 2}}, {"upgradeSettings": {"maxSurge": "2", "maxUnavailable": "0"}}),
        ({"upgrade": {"max_unavailable": 3}}, {"upgradeSettings": {"maxSurge": "0", "maxUnavailable": "3"}}),
        (
            {"upgrade": {"drain_timeout_min": 90}},
            {"upgradeSettings": {"maxSurge": "0", "maxUnavailable": "1", "drainTimeoutInMinutes": 90}},
        ),
        ({"tags": {"owner": "research"}}, {"tags": {"owner": "research"}}),
        (
            {"overrides": {"azure": {"AgentPool": {"upgradeSettings": {"nodeSoakDurationInMinutes": 5}}}}},
            {"upgradeSettings": {"maxSurge": "0", "maxUnavailable": "1", "nodeSoakDurationInMinutes": 5}},
        ),
        (
            {"overrides": {"azure": {"AgentPool": {"kubeletConfig": {"podMaxPids": 4096}}}}},
            {"kubeletConfig": {"podMaxPids": 4096}, "nodeTaints": [str(GPU_TAINT)]},
        ),
        ({"overrides": {"aws": {"NodeGroup": {"version": "1.34"}}}}, {"version": None}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_setting_becomes_the_agent_pools_input(keys: dict[str, Any], inputs: dict[str, Any]) -> None:
    made = wire(plan(gpu="T4", **keys))

    assert {key: made.get(key) for key in inputs} == inputs
    assert check_inputs(TOKEN, made) == []


def test_nodes_on_infiniband_carry_a_label_to_select_them_by() -> None:
    assert wire(plan(**FABRIC, network={"rdma": True}))["nodeLabels"]["gpupools/rdma"] == "infiniband"
    assert "gpupools/rdma" not in wire(plan(**FABRIC))["nodeLabels"]


def test_a_wish_for_rdma_takes_the_size_that_has_it() -> None:
    wish: dict[str, Any] = {"gpu": "A100-80GB", "gpus_per_node": 8}

    assert plan(**wish, network={"rdma": True}).instance.name == "Standard_ND96amsr_A100_v4"


def test_a_compact_pool_goes_into_the_clusters_proximity_placement_group() -> None:
    addresses = {**ADDRESSES, **IN_GROUP}
    compact = plan(aks(**IN_GROUP), gpu="T4", network={"placement": "compact"}, zones=["1"])

    assert wire(compact, addresses)["proximityPlacementGroupID"] == PLACEMENT_GROUP
    assert "proximityPlacementGroupID" not in wire(plan(aks(**IN_GROUP), gpu="T4"), addresses)


def test_pods_and_daemons_tolerate_the_taint_aks_puts_on_spot_nodes() -> None:
    spot = plan(gpu="T4", capacity={"mode": "spot"}, taints=[SPOT_TAINT, "team=vision:NoSchedule"])

    assert [str(taint) for taint in spot.taints] == [str(GPU_TAINT), SPOT_TAINT, "team=vision:NoSchedule"]
    assert spot.labels["kubernetes.azure.com/scalesetpriority"] == "spot"
    assert {
        "key": "kubernetes.azure.com/scalesetpriority",
        "operator": "Equal",
        "value": "spot",
        "effect": "NoSchedule",
    } in spot.pod()["tolerations"]
    assert "kubernetes.azure.com/scalesetpriority" in [each["key"] for each in tolerations_for([spot])]


def test_nothing_but_a_spot_pool_has_the_spot_taint() -> None:
    assert [str(taint) for taint in plan(gpu="T4").taints] == [str(GPU_TAINT)]


# --- options ----------------------------------------------------------------------------------------------------------


def test_the_count_of_a_fixed_pool_is_not_left_to_an_autoscaler() -> None:
    assert options(plan(gpu="T4", nodes={"fixed": 2})).ignore_changes in (None, [])


def test_a_protected_pool_is_protected_by_pulumi() -> None:
    assert options(plan(gpu="T4", protect=True)).protect is True


def minutes(**keys: Any) -> tuple[str | None, str | None, str | None]:
    given = options(plan(**({"gpu": "T4"} | keys))).custom_timeouts
    assert isinstance(given, pulumi.CustomTimeouts)
    return given.create, given.update, given.delete


@pytest.mark.parametrize(
    ("keys", "waits"),
    [
        ({}, ("60m", "360m", "60m")),
        ({"nodes": {"max": 40}}, ("60m", "1800m", "60m")),
        ({"nodes": {"max": 40}, "upgrade": {"max_unavailable": 10}}, ("60m", "360m", "60m")),
        ({"nodes": {"max": 40}, "upgrade": {"drain_timeout_min": 120}}, ("60m", "5400m", "60m")),
        ({"nodes": {"min": 250, "max": 300}, "upgrade": {"max_unavailable": 30}}, ("120m", "450m", "150m")),
        ({"nodes": {"max": 40}, "capacity": {"mode": "spot"}}, ("60m", "1800m", "60m")),
        ({"timeouts": {"create_min": 25, "update_min": 45, "delete_min": 20}}, ("25m", "45m", "20m")),
    ],
    ids=["small", "large", "many-at-once", "long-drain", "huge", "spot", "written"],
)
def test_pulumi_waits_as_long_as_the_size_of_the_pool_calls_for(
    keys: dict[str, Any], waits: tuple[str, str, str]
) -> None:
    assert minutes(**keys) == waits


# --- the name ---------------------------------------------------------------------------------------------------------


@each_row(
    ("changed", "renames"),
    [
        ({"capacity": {"mode": "spot"}}, True),
        ({"capacity": {"mode": "reservation", "name": GROUP}}, True),
        ({"zones": ["1"]}, True),
        ({"disk": {"type": "Ephemeral"}}, True),
        ({"network": {"max_pods": 60}}, True),
        ({"network": {"placement": "compact"}}, True),
        ({"overrides": {"azure": {"AgentPool": {"kubeletConfig": {"podMaxPids": 4096}}}}}, True),
        ({"overrides": {"azure": {"AgentPool": {"kubeletDiskType": "OS"}}}}, True),
        ({"overrides": {"azure": {"AgentPool": {"orchestratorVersion": "1.35"}}}}, False),
        ({"disk": {"type": "Managed"}}, False),
        ({"image": {"fips": True}}, False),
        ({"image": {"family": "azure-linux"}}, False),
        ({"nodes": {"fixed": 3}}, False),
        ({"upgrade": {"max_surge": 1}}, False),
        ({"tags": {"owner": "research"}}, False),
        ({"protect": True}, False),
        ({"timeouts": {"create_min": 90}}, False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_name_changes_exactly_with_the_settings_aks_never_changes(changed: dict[str, Any], renames: bool) -> None:
    before = wire(plan(gpu="T4"))["agentPoolName"]

    after = wire(plan(aks(**IN_GROUP), gpu="T4", **changed), {**ADDRESSES, **IN_GROUP})["agentPoolName"]

    assert (after != before) is renames


def test_a_placement_group_from_another_resource_is_part_of_the_name() -> None:
    compact = plan(aks(**IN_GROUP), gpu="T4", network={"placement": "compact"})

    def program() -> None:
        late = {**ADDRESSES, "proximity_placement_group_id": pulumi.Output.from_input(PLACEMENT_GROUP)}
        create_pool("serve-train", compact, late, pulumi.ResourceOptions())

    (pool,) = run(program)

    assert pool.inputs == wire(compact, {**ADDRESSES, **IN_GROUP})


def test_a_renamed_pool_keeps_its_name_in_aks() -> None:
    before = wire(plan(name="train", gpu="T4"))
    after = wire(plan(name="research", gpu="T4", renamed_from="train"))

    assert after["agentPoolName"] == before["agentPoolName"] != wire(plan(name="research", gpu="T4"))["agentPoolName"]
    assert after["nodeLabels"][POOL_LABEL] == "research"


# --- refused ----------------------------------------------------------------------------------------------------------


@each_row(
    ("keys", "words"),
    [
        (
            {"capacity": {"mode": "capacity-block", "name": "cr-1"}},
            (
                "pools.train.capacity.mode: azure has no capacity.capacity-block: Capacity Blocks are EC2's; "
                "use mode: reservation with a capacity reservation group"
            ),
        ),
        ({"capacity": {"mode": "flex-start"}}, "azure has no capacity.flex-start: flex-start is Google's; use mode:"),
        ({"capacity": {"mode": "queued"}}, "azure has no capacity.queued: queued provisioning is Google's; use mode:"),
        (
            {"capacity": {"mode": "spot", "max_price_usd_per_hour": 0.123456}},
            (
                "pools.train.capacity.max_price_usd_per_hour: got 0.123456; AKS takes at most five decimals; "
                "write 0.12346"
            ),
        ),
        (
            {"capacity": {"mode": "spot"}, "nodes": {"fixed": 2}},
            "so capacity.mode spot does not go with nodes.fixed 2; give nodes min and max",
        ),
        (
            {"capacity": {"mode": "spot"}, "upgrade": {"max_surge": 1}},
            "pools.train.upgrade.max_surge: upgrade.max_surge does not go with capacity.mode spot",
        ),
        (
            {"capacity": {"mode": "spot"}, "upgrade": {"drain_timeout_min": 60}},
            "pools.train.upgrade.drain_timeout_min: upgrade.drain_timeout_min does not go with capacity.mode spot",
        ),
        (
            {"capacity": {"mode": "spot"}, "taints": ["kubernetes.azure.com/scalesetpriority=other:NoSchedule"]},
            f"stands against {SPOT_TAINT}, which is on this pool; leave it out",
        ),
        (
            {"capacity": {"mode": "reservation", "name": "a100"}},
            (
                "pools.train.capacity.name: got 'a100', which is no ARM id of a capacity reservation group; "
                "write /subscriptions/<id>/resourceGroups/<group>/providers/Microsoft.Compute/"
                "capacityReservationGroups/<name>"
            ),
        ),
        (
            {**FABRIC, "capacity": {"mode": "reservation", "name": GROUP}},
            "Azure has no capacity reservations for the series of Standard_ND96isr_H100_v5; leave capacity out",
        ),
        (
            {"instance_type": "Standard_NC40ads_H100_v5", "capacity": {"mode": "reservation", "name": GROUP}},
            "Azure has no capacity reservations for the series of Standard_NC40ads_H100_v5",
        ),
        (
            {"capacity": {"mode": "reservation", "name": GROUP}, "network": {"placement": "compact"}},
            "network.placement compact does not go with capacity.mode reservation; leave one of them out",
        ),
        (
            {"zones": ["eastus-1"]},
            "pools.train.zones[0]: got 'eastus-1'; availability zones of Azure are '1', '2' and '3'; write the number",
        ),
        ({"zones": ["2", "2"]}, "pools.train.zones[1]: zone 2 is there twice; leave one out"),
        (
            {"zones": ["1", "2"], "network": {"placement": "compact"}},
            "network.placement compact does not go with zones 1, 2: a proximity placement group is in one zone",
        ),
        (
            {**FABRIC, "zones": ["1", "2"], "network": {"rdma": True}},
            "network.rdma does not go with zones 1, 2: no InfiniBand fabric spans zones; name one zone",
        ),
        (
            {"network": {"placement": "compact"}},
            (
                "compact needs a proximity placement group, and the cluster names none; "
                "give the cluster proximity_placement_group_id"
            ),
        ),
        ({"network": {"rdma": True}}, "pools.train.network.rdma: Standard_NC4as_T4_v3 has no InfiniBand; take an ND"),
        ({"network": {"max_pods": 8}}, "pools.train.network.max_pods: got 8; AKS takes 10 to 250 pods on a node"),
        ({"network": {"max_pods": 256}}, "got 256; AKS takes 10 to 250 pods on a node"),
        (
            {"network": {"security_group_ids": ["sg-1"]}},
            "azure has no network.security_group_ids: security groups of interfaces are EC2's",
        ),
        ({"image": {"family": "bottlerocket"}}, "AKS has no bottlerocket nodes; use ubuntu or azure-linux"),
        (
            {"image": {"family": "custom", "id": "/subscriptions/s/images/i"}},
            "pools.train.image.id: azure has no image.id: AKS runs its own node images only; use family: ubuntu or",
        ),
        (
            {"instance_type": "Standard_ND128isr_NDR_GB200_v6", "image": {"family": "azure-linux"}},
            "azure-linux has no driver for Standard_ND128isr_NDR_GB200_v6 (GB200); use ubuntu",
        ),
        (
            {"gpu": "RTX-PRO-6000", "gpus_per_node": "1/4", "image": {"family": "azure-linux"}},
            "(RTX-PRO-6000); use ubuntu",
        ),
        (
            {"software": "gpu-operator", "image": {"family": "azure-linux"}},
            "image.family azure-linux does not go with software gpu-operator, which has no driver for it",
        ),
        (
            {"instance_type": "Standard_ND128isr_NDR_GB200_v6", "image": {"fips": True}},
            "Standard_ND128isr_NDR_GB200_v6 is arm64, for which AKS has a FIPS image on Azure Linux only",
        ),
        (
            {"security": {"secure_boot": True}},
            (
                "pools.train.security.secure_boot: AKS's driver on Ubuntu is not signed, so security.secure_boot does "
                "not go with software device-plugin on image.family ubuntu; use image.family: azure-linux"
            ),
        ),
        (
            {"security": {"secure_boot": True}, "software": "gpu-operator"},
            "security.secure_boot does not go with software gpu-operator, whose driver is built on the node",
        ),
        (
            {
                "instance_type": "Standard_ND128isr_NDR_GB200_v6",
                "security": {"secure_boot": True},
                "software": "gpu-operator",
            },
            "trusted launch is not for arm64 (Standard_ND128isr_NDR_GB200_v6); leave it out",
        ),
        (
            {
                "instance_type": "Standard_NCC40ads_H100_v5",
                "security": {"secure_boot": True},
                "software": "gpu-operator",
            },
            "Standard_NCC40ads_H100_v5 is a confidential machine, which trusted launch is not for",
        ),
        (
            {"security": {"secure_boot": True}, "image": {"family": "azure-linux", "fips": True}},
            "security.secure_boot goes with image.fips on Ubuntu only, not with image.family azure-linux",
        ),
        ({"security": {"imds_hop_limit": 2}}, "azure has no security.imds_hop_limit: the hop limit is EC2's"),
        ({"disk": {"type": "gp3"}}, "AKS has no disk type 'gp3'; use Managed or Ephemeral"),
        (
            {"disk": {"encryption_key": "key"}},
            "azure has no disk.encryption_key: the disk encryption set belongs to the cluster",
        ),
        ({"disk": {"local_nvme": "raid0"}}, "azure has no disk.local_nvme: an agent pool has no field for local NVMe"),
        ({"upgrade": {"strategy": "blue-green"}}, "azure has no upgrade.strategy: an agent pool of API version"),
        (
            {"upgrade": {"max_surge": 1, "max_unavailable": 1}},
            "max_surge 1 with max_unavailable 1 is a preview of AKS; leave one of them out",
        ),
        ({"upgrade": {"drain_timeout_min": 3}}, "got 3; AKS waits at least 5 minutes; write 5 or more"),
        ({"auto_repair": False}, "azure has no auto_repair: AKS repairs the nodes of every pool"),
        (
            {"tags": {"Owner": "a", "owner": "b"}},
            "'owner' and 'Owner' are one tag to Azure, whose tag names know no case; keep one",
        ),
        ({"tags": {"a/b": "c"}}, "'a/b' has a character no tag name may have"),
        ({"tags": {"a": "x" * 257}}, "its value has 257 characters; Azure takes 256"),
        ({"tags": {f"t{number}": "" for number in range(51)}}, "pools.train.tags: got 51 tags; Azure takes 50"),
        ({"tags": {"SkipGpuDriverInstall": "true"}}, "SkipGpuDriverInstall switches AKS's GPU software"),
        (
            {"overrides": {"azure": {"AgentPool": {"osSKU": "Flatcar"}}}},
            "pools.train.overrides.azure.AgentPool.osSKU: cannot be set by hand; write image: {family: …}",
        ),
        (
            {"overrides": {"azure": {"AgentPool": {"osType": "Windows"}}}},
            "pools.train.overrides.azure.AgentPool.osType: cannot be set by hand; it is Linux",
        ),
        (
            {"overrides": {"azure": {"AgentPool": {"securityProfile": {"enableSecureBoot": True}}}}},
            "pools.train.overrides.azure.AgentPool.securityProfile.enableSecureBoot: cannot be set by hand; write",
        ),
        (
            {"overrides": {"azure": {"AgentPool": {"nodeTaints": []}}}},
            "pools.train.overrides.azure.AgentPool.nodeTaints: cannot be set by hand; write more taints under",
        ),
        (
            {"overrides": {"azure": {"AgentPool": {"nodeLabels": {POOL_LABEL: "x"}}}}},
            "cannot be set by hand; write more labels under the pool's labels",
        ),
        (
            {"overrides": {"azure": {"AgentPool": {"scaleSetPriority": "Spot"}}}},
            "cannot be set by hand; write capacity: {mode: spot}, which knows the taint AKS adds",
        ),
        ({"overrides": {"azure": {"AgentPool": {"nodeLabels": None}}}}, "which cannot be set by hand"),
        ({"overrides": {"azure": {"AgentPool": {"resourceName": "x"}}}}, "cannot be set by hand; write the cluster's"),
        ({"overrides": {"azure": {"AgentPool": {"vm_size": "x"}}}}, "AgentPool has no input 'vm_size'"),
        ({"overrides": {"azure": {"NodePool": {"a": 1}}}}, "a pool on azure declares no 'NodePool'; known: AgentPool"),
    ],
    ids=lambda value: str(value)[:70],
)
def test_what_aks_does_not_take_is_refused_with_the_cure(keys: dict[str, Any], words: str) -> None:
    machine: dict[str, Any] = {} if keys.keys() & {"gpu", "instance_type"} else {"gpu": "T4"}

    assert words in refused(**machine, **keys)


def test_everything_wrong_is_said_at_once() -> None:
    message = refused(
        gpu="T4",
        capacity={"mode": "spot", "max_price_usd_per_hour": 0.1234567},
        zones=["4"],
        disk={"type": "gp3", "local_nvme": "raid0"},
        network={"rdma": True, "max_pods": 9},
        auto_repair=False,
        overrides={"azure": {"AgentPool": {"gpuProfile": None}}},
    )

    for key in (
        "capacity.max_price_usd_per_hour",
        "zones[0]",
        "disk.type",
        "disk.local_nvme",
        "network.rdma",
        "network.max_pods",
        "auto_repair",
        "overrides.azure.AgentPool.gpuProfile",
    ):
        assert f"pools.train.{key}: " in message


def test_secure_boot_goes_with_an_operator_of_the_teams_own() -> None:
    runtime = {"management": "external", "existing": {"gpu_operator": "gpu-operator/gpu-operator"}}
    made = plan(aks(runtime=runtime), gpu="T4", software="gpu-operator", security={"secure_boot": True})

    assert wire(made)["securityProfile"] == {"enableSecureBoot": True, "enableVTPM": True}
    assert settings(made).gpu_driver == "None"


def test_a_price_of_five_decimals_is_taken_however_it_is_written() -> None:
    for price in (0.98765, 1, 12.5, 0.00001):
        made = wire(plan(gpu="T4", capacity={"mode": "spot", "max_price_usd_per_hour": price}))

        assert made["spotMaxPrice"] == price


# --- the lists --------------------------------------------------------------------------------------------------------


def test_every_setting_has_an_answer() -> None:
    assert set(azure.CLOUD.node_pools.settings) == set(SETTINGS)


def test_what_can_be_set_by_hand_are_the_sdks_inputs() -> None:
    inputs = OVERRIDABLE["AgentPool"].inputs

    assert inputs == set(input_type_py_to_pulumi_names(AgentPoolArgs).values())
    assert {path[0] for path in OVERRIDABLE["AgentPool"].kept} <= inputs


def edits() -> Mapping[str, Mapping[str, str]]:
    with Path(str(files("gpupools.providers") / "azure" / "edits.csv")).open(encoding="utf-8", newline="") as file:
        return {row["input"]: row for row in csv.DictReader(file)}


@each_row("name", edits())
def test_every_row_of_the_edit_table_is_an_input_with_a_known_effect_and_a_source(name: str) -> None:
    row = edits()[name]

    assert check_property_path(TOKEN, name) is None
    assert row["effect"] in ("in-place", "rolling", "replace", "refused", "unknown")
    assert row["source"]


def test_the_edit_table_replaces_what_the_program_asks_to_replace() -> None:
    by_the_provider = {"agentPoolName", "resourceName", "resourceGroupName"}
    replaced = {name for name, row in edits().items() if row["effect"] == "replace"}

    assert replaced <= by_the_provider | set(FIXED_AT_CREATION)
    assert {name for name in edits() if name.partition(".")[0] in FIXED_AT_CREATION} <= replaced


def test_the_stack_file_with_everything_previews_without_a_problem() -> None:
    found = everything()

    assert [str(problem) for problem in (*found.problems, *found.warnings)] == []
    assert len([each for each in found.resources if each.type == TOKEN]) == 7


def test_the_stack_file_with_everything_has_every_setting_aks_takes() -> None:
    pools = check_stack_file(EVERYTHING, clouds()).file.config["pools"]
    used = {name for key, pool in pools.items() for name in given_settings(parse_pool((key,), without(pool)))}

    taken = {name for name, setting in azure.CLOUD.node_pools.settings.items() if setting.taken}
    assert taken - used <= {"adopt", "first_name", "renamed_from"}  # they need a pool that was there before
    assert used <= taken


def without(pool: Any) -> dict[str, Any]:
    return {key: value for key, value in pool.items() if key != "clusters"}


@pytest.mark.parametrize(
    ("keys", "most"),
    [
        ({"gpu": None, "instance_type": "Standard_NC4as_T4_v3", "disk_gib": 177}, 176),
        ({"gpu": None, "instance_type": "Standard_NV6ads_A10_v5"}, 180),
        ({"gpu": None, "instance_type": "Standard_NC24ads_A100_v4", "disk_gib": 257}, 256),
        (
            {
                "gpu": None,
                "instance_type": "Standard_NC4as_T4_v3",
                "disk_gib": 176,
                "image": {"family": "azure-linux"},
                "security": {"secure_boot": True},
            },
            175,
        ),
        ({"gpu": None, "instance_type": "Standard_NC64as_T4_v3", "disk_gib": 2041}, 2040),
        ({"gpu": None, "instance_type": "Standard_ND96isr_H200_v5", "disk_gib": 2048}, 2040),
    ],
    ids=["temporary disk", "the default size", "cache", "trusted launch", "general limit", "size not known"],
)
def test_an_ephemeral_disk_fits_the_machines_own(keys: dict[str, Any], most: int) -> None:
    ephemeral = {**keys, "disk": {"type": "Ephemeral"}}
    said = refused(**ephemeral)

    assert said.startswith("pools.train.disk_gib: ")
    assert f"write disk_gib: {most} or less, or disk.type: Managed" in said
    assert settings(plan(**ephemeral | {"disk_gib": most})).os_disk_type == "Ephemeral"
    assert settings(plan(**keys)).os_disk_type == "Managed"


@pytest.mark.parametrize("size", ["Standard_ND128isr_NDR_GB200_v6", "Standard_ND128isr_GB300_v6"])
def test_gpus_with_coherent_memory_are_not_cut(size: str) -> None:
    wish: dict[str, Any] = {"gpu": None, "instance_type": size, "software": "gpu-operator"}
    said = refused(**wish, sharing={"mode": "mig", "profile": "1g.23gb" if "GB200" in size else "1g.35gb"})

    assert said.startswith("pools.train.sharing.mode: ")
    assert "coherently" in said
    assert "https://github.com/NVIDIA/gpu-driver-container/pull/390" in said
    assert plan(**wish).node_resources == {"nvidia.com/gpu": 4}


def test_sharing_that_a_gpu_cannot_do_hides_no_other_refusal() -> None:
    said = refused(gpu="T4", sharing={"mode": "mig", "profile": "1g.5gb"}, disk={"type": "floppy"})

    assert "pools.train.sharing.mode: T4" in said
    assert "pools.train.disk.type: " in said


@pytest.mark.parametrize("size", ["Standard_NV6ads_A10_v5", "Standard_NC24lds_xl_RTXPRO6000BSE_v6"])
def test_containers_take_turns_on_a_part_of_a_gpu(size: str) -> None:
    made = plan(gpu=None, instance_type=size, sharing={"mode": "time-slicing", "replicas": 3}, trust={"team": "a"})

    assert made.node_resources == {"nvidia.com/gpu": 3}
