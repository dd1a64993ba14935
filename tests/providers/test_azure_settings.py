"""AKS: what each setting of a pool becomes on the wire, and what AKS does not have or does not take together."""

from typing import Any

import pulumi
import pytest

from gpupools.common.taints import GPU_TAINT
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.plan.tolerations import tolerations_for
from tests.providers.azure_pools import (
    ADDRESSES,
    TOKEN,
    aks,
    options,
    plan,
    refused,
    settings,
    wire,
)
from tests.providers.everything import everything

SPOT_TAINT = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"


# --- on the wire ------------------------------------------------------------------------------------------------------


def test_a_wish_for_rdma_takes_the_size_that_has_it() -> None:
    request: dict[str, Any] = {"gpu": "A100-80GB", "gpus_per_node": 8}

    assert plan(**request, network={"rdma": True}).instance.name == "Standard_ND96amsr_A100_v4"


def test_aks_may_select_the_zones() -> None:
    assert wire(plan(aks(), gpu="T4", zones=["auto"]), ADDRESSES)["availabilityZones"] == ["auto"]


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


def test_a_renamed_pool_keeps_its_name_in_aks() -> None:
    before = wire(plan(name="train", gpu="T4"))
    after = wire(plan(name="research", gpu="T4", renamed_from="train"))

    assert after["agentPoolName"] == before["agentPoolName"] != wire(plan(name="research", gpu="T4"))["agentPoolName"]
    assert after["nodeLabels"][POOL_LABEL] == "research"


# --- refused ----------------------------------------------------------------------------------------------------------


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


def test_the_stack_file_with_everything_previews_without_a_problem() -> None:
    found = everything("azure")

    assert [str(problem) for problem in (*found.problems, *found.warnings)] == []
    assert len([each for each in found.resources if each.type == TOKEN]) == 7


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
    assert f"use disk_gib: {most} or less, or disk.type: Managed" in said
    assert settings(plan(**ephemeral | {"disk_gib": most})).os_disk_type == "Ephemeral"
    assert settings(plan(**keys)).os_disk_type == "Managed"


@pytest.mark.parametrize("size", ["Standard_ND128isr_NDR_GB200_v6", "Standard_ND128isr_GB300_v6"])
def test_gpus_with_coherent_memory_are_not_cut(size: str) -> None:
    request: dict[str, Any] = {"gpu": None, "instance_type": size, "software": "gpu-operator"}
    said = refused(**request, sharing={"mode": "mig", "profile": "1g.23gb" if "GB200" in size else "1g.35gb"})

    assert said.startswith("pools.train.sharing.mode: ")
    assert "coherent memory" in said
    assert "https://github.com/NVIDIA/gpu-driver-container/pull/390" in said
    assert plan(**request).node_resources == {"nvidia.com/gpu": 4}


def test_sharing_that_a_gpu_cannot_do_hides_no_other_refusal() -> None:
    said = refused(gpu="T4", sharing={"mode": "mig", "profile": "1g.5gb"}, disk={"type": "floppy"})

    assert "pools.train.sharing.mode: T4" in said
    assert "pools.train.disk.type: " in said


@pytest.mark.parametrize("size", ["Standard_NV6ads_A10_v5", "Standard_NC24lds_xl_RTXPRO6000BSE_v6"])
def test_containers_take_turns_on_a_part_of_a_gpu(size: str) -> None:
    made = plan(gpu=None, instance_type=size, sharing={"mode": "time-slicing", "replicas": 3}, trust={"team": "a"})

    assert made.node_resources == {"nvidia.com/gpu": 3}
