"""AKS: which size a wish becomes and what is refused, reading pools back, and what goes over the wire."""

from typing import Any

import pulumi
import pytest

from gpupools.catalog.mig import profile, profiles
from gpupools.common.errors import Rejected
from gpupools.plan.capability import Verdict
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.providers.azure import CLOUD
from gpupools.providers.azure.cluster import AksCluster
from gpupools.providers.azure.constraints import WITHOUT_AKS_DRIVER
from gpupools.providers.azure.edit_effects import FIXED_AT_CREATION
from gpupools.providers.azure.pool_plan import MIG_MODELS, gpu_instance_profile
from gpupools.providers.azure.resources import create_pool
from gpupools.spec.models import LATE
from tests.program_faults import check_property_path
from tests.providers.azure_pools import ADDRESSES, SUBNET, TOKEN, aks, options, plan, refused, settings, wire
from tests.providers.declaring import run

SIZES = CLOUD.instance_types
SLICES_PER_GPU = {"MIG1g": 7, "MIG2g": 3, "MIG3g": 2, "MIG4g": 1, "MIG7g": 1}


def mig(**keys: Any) -> dict[str, Any]:
    return {"mode": "mig", **keys}


# --- catalogue --------------------------------------------------------------------------------------------------------


def test_every_size_is_named_the_way_azure_writes_it_and_only_once() -> None:
    assert all(name.startswith("Standard_N") for name in SIZES)
    assert len({name.casefold() for name in SIZES}) == len(SIZES)


def test_a_size_with_infiniband_has_the_letter_for_it_in_its_name() -> None:
    with_rdma = {row.name for row in SIZES.values() if row.rdma}

    assert {SIZES[name].rdma for name in with_rdma} == {"infiniband"}
    assert [name for name in with_rdma if "r" not in name.split("_")[1].lstrip("NCD")] == []


@pytest.mark.parametrize(
    ("wanted", "size"),
    [
        ({"gpu": "T4"}, "Standard_NC4as_T4_v3"),
        ({"gpu": "T4", "gpus_per_node": 4}, "Standard_NC64as_T4_v3"),
        ({"gpu": "A10"}, "Standard_NV36ads_A10_v5"),
        ({"gpu": "A10", "gpus_per_node": "1/6"}, "Standard_NV6ads_A10_v5"),
        ({"gpu": "A100-40GB", "gpus_per_node": 8}, "Standard_ND96asr_v4"),
        ({"gpu": "A100-80GB"}, "Standard_NC24ads_A100_v4"),
        ({"gpu": "A100-80GB", "gpus_per_node": 8}, "Standard_ND96amsr_A100_v4"),
        ({"gpu": "H100-80GB", "gpus_per_node": 8}, "Standard_ND96isr_H100_v5"),
        ({"gpu": "H100-NVL-94GB", "gpus_per_node": 2}, "Standard_NC80adis_H100_v5"),
        ({"gpu": "H200", "gpus_per_node": 8}, "Standard_ND96isr_H200_v5"),
        ({"gpu": "GB200", "gpus_per_node": 4}, "Standard_ND128isr_NDR_GB200_v6"),
        ({"gpu": "RTX-PRO-6000", "gpus_per_node": "1/4"}, "Standard_NC24lds_xl_RTXPRO6000BSE_v6"),
        ({"instance_type": "standard_nc24ads_a100_v4"}, "Standard_NC24ads_A100_v4"),
        ({"instance_type": "Standard_NC8ads_A10_v4"}, "Standard_NC8ads_A10_v4"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(map(str, value.values())),
)
def test_a_wish_becomes_the_size_that_has_it(wanted: dict[str, Any], size: str) -> None:
    assert plan(**wanted).instance.name == size


# --- the matrix and the settings --------------------------------------------------------------------------------------


def test_the_pool_itself_does_mig_and_may_bring_the_software() -> None:
    native = {key for key, cell in CLOUD.capabilities.items() if cell.verdict is Verdict.NATIVE}

    mig = {(software, kind) for software in ("cloud-managed", "device-plugin") for kind in ("mig-single", "mig-mixed")}
    assert native == mig | {("cloud-managed", "none")}


@pytest.mark.parametrize(
    ("software", "driver", "labels"),
    [("device-plugin", "Install", {"nvidia.com/gpu.present": "true"}), ("gpu-operator", "None", {})],
    ids=["device-plugin", "gpu-operator"],
)
def test_one_party_brings_the_driver(software: str, driver: str, labels: dict[str, str]) -> None:
    made = plan(gpu="A100-80GB", software=software)

    known_to_skypilot = {"skypilot.co/accelerator": "a100-80gb"}
    assert (settings(made).gpu_driver, made.provider_plan.labels) == (driver, {**labels, **known_to_skypilot})


def test_a_full_layout_of_one_size_is_the_pools_gpu_instance_profile() -> None:
    made = plan(gpu="A100-80GB", sharing=mig(layout=["3g.40gb", "3g.40gb"]))

    assert settings(made).gpu_instance_profile == "MIG3g"
    assert made.node_resources == {"nvidia.com/mig-3g.40gb": 2}


@pytest.mark.parametrize("gpu", sorted(MIG_MODELS))
def test_a_gpu_instance_profile_makes_as_many_slices_as_akss_node_script_creates(gpu: str) -> None:
    made = {gpu_instance_profile(each): each for each in profiles(gpu) if gpu_instance_profile(each)}

    assert {name: each.max_instances for name, each in made.items()} == SLICES_PER_GPU
    assert {each.gi_profile_id for each in made.values()} <= {19, 14, 9, 5, 0, None}


def test_no_other_gpu_gets_a_gpu_instance_profile() -> None:
    assert gpu_instance_profile(profile("GB200", "1g.23gb")) is None


def test_a_gpu_operator_pool_takes_a_size_that_aks_has_no_driver_for() -> None:
    made = plan(instance_type="Standard_NCC40ads_H100_v5", software="gpu-operator")

    assert settings(made).gpu_driver == "None"


def test_the_sizes_without_aks_driver_are_sizes_of_the_catalogue() -> None:
    assert set(SIZES) >= WITHOUT_AKS_DRIVER


def test_labels_of_aks_are_refused() -> None:
    assert "'kubernetes.azure.com/mode' is in a namespace that AKS reserves" in refused(
        gpu="T4", labels={"kubernetes.azure.com/mode": "user"}
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"subscription": "x"}, "clusters.serve.subscription: unknown key; did you mean 'subscription_id'?"),
        (
            {"ssh_access": "disabled"},
            "clusters.serve.ssh_access: got 'disabled'; use one of 'LocalUser' or 'Disabled'",
        ),
    ],
    ids=["unknown-key", "wrong-case"],
)
def test_a_wrong_cluster_key_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(Rejected) as error:
        aks(**keys)

    assert str(error.value) == message


def test_a_cluster_takes_addresses_that_are_known_only_later() -> None:
    cluster = aks(name=LATE, resource_group={"output": "group"}, subnet_id=LATE, stack="acme/aks/dev")

    assert isinstance(cluster, AksCluster)
    assert plan(cluster, gpu="T4").instance.name == "Standard_NC4as_T4_v3"


# --- over the wire ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "start"),
    [("a", "a"), ("train", "train"), ("twenty-letters-long1", "twentyle"), ("x-1-2-3", "x123")],
    ids=["short", "plain", "long", "hyphens"],
)
def test_a_pools_name_keeps_to_akss_rules(name: str, start: str) -> None:
    made = wire(plan(name=name, gpu="T4"))["agentPoolName"]

    assert made.startswith(start)
    assert len(made) == len(start) + 4 <= 12
    assert made.isalnum()
    assert made == made.lower()
    assert made[0].isalpha()


def test_host_encryption_and_the_subnet_are_part_of_the_name() -> None:
    plain = wire(plan(gpu="T4"))["agentPoolName"]
    encrypted = wire(plan(aks(encryption_at_host=True), gpu="T4"))["agentPoolName"]
    in_subnet = wire(plan(gpu="T4"), {**ADDRESSES, "subnet_id": SUBNET})["agentPoolName"]

    assert len({plain, encrypted, in_subnet}) == 3


def test_addresses_that_come_from_another_resource_reach_the_pool() -> None:
    found: list[dict[str, Any]] = []

    def program() -> None:
        late = {key: pulumi.Output.from_input(value) for key, value in ADDRESSES.items()}
        late["subnet_id"] = pulumi.Output.from_input(SUBNET)
        create_pool("serve-train", plan(gpu="T4"), late, pulumi.ResourceOptions())

    found.extend(dict(each.inputs) for each in run(program))

    direct = wire(plan(gpu="T4"), {**ADDRESSES, "subnet_id": SUBNET})
    assert found == [direct]
    assert direct["vnetSubnetID"] == SUBNET


def test_the_name_that_is_returned_is_the_pools() -> None:
    names: list[str] = []

    def program() -> None:
        made = create_pool("serve-train", plan(gpu="T4"), ADDRESSES, pulumi.ResourceOptions())
        made.apply(names.append)

    (pool,) = run(program)

    assert names == [pool.inputs["agentPoolName"]]


def test_the_pools_options_replace_what_aks_never_changes_and_leave_the_count_to_the_autoscaler() -> None:
    merged = options(plan(gpu="T4"))

    assert merged.ignore_changes == ["count"]
    assert merged.replace_on_changes == list(FIXED_AT_CREATION)
    assert merged.delete_before_replace is False
    assert merged.protect is None
    assert isinstance(merged.custom_timeouts, pulumi.CustomTimeouts)
    assert (merged.custom_timeouts.create, merged.custom_timeouts.delete) == ("60m", "60m")


def test_every_fixed_property_is_a_wire_name_of_the_agent_pool() -> None:
    assert [name for name in FIXED_AT_CREATION if check_property_path(TOKEN, name) is not None] == []
    assert check_property_path(TOKEN, "vm_size_") is not None


def test_a_plan_of_another_cloud_is_not_translated() -> None:
    made = plan(gpu="T4")._replace(cloud="gcp", provider_plan=ProviderPlan())

    with pytest.raises(TypeError, match="pool train: expected AksPoolPlan, got "):
        create_pool("serve-train", made, ADDRESSES, pulumi.ResourceOptions())
