"""GKE: resolutions and refusals, reading pools back, and what the adapter sends over the wire."""

from fractions import Fraction
from functools import partial
from typing import Any

import pulumi
import pytest

from gpupools.catalog.gpus import gpu_models
from gpupools.catalog.mig import profile
from gpupools.common.errors import Problem, Rejected
from gpupools.common.taints import repels_cpu_pods
from gpupools.plan.capability import Verdict
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.providers import gcp
from gpupools.providers.gcp.constraints import COHERENT_MEMORY, MIG_PARTITIONS
from gpupools.providers.gcp.declared_inputs import declared_inputs
from gpupools.providers.gcp.machines import (
    N1_MACHINES,
    N1_MOST_VCPUS,
    GceCatalogue,
    n1_most_vcpus,
)
from gpupools.providers.gcp.pool_plan import GkePoolPlan
from gpupools.providers.gcp.readback import NODE_POOL
from gpupools.providers.gcp.resources import create_pool
from gpupools.spec.models import LATE, Cluster, PoolSpec
from gpupools.stackfile.stack_validation import parse_pool
from tests.conftest import FakeCluster
from tests.providers.declaring import run
from tests.providers.gcp_pools import ADDRESSES, gke
from tests.rows import each_row

SPOT = {"capacity": {"mode": "spot"}}
RESERVED = {"capacity": {"mode": "reservation", "name": "lab"}, "zones": ["europe-west4-a"]}
BARE_METAL = {**RESERVED, "nodes": {"fixed": 2}}


def sold(machine: str) -> dict[str, Any]:
    """Return the keys that buy a machine which cannot be had on demand."""
    if machine.startswith("a4x-"):
        return BARE_METAL if "metal" in machine else RESERVED
    scarce = ("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a3-ultragpu-", "a4-")
    return SPOT if machine.startswith(scarce) else {}


def spec(**keys: Any) -> PoolSpec:
    sharing = keys.get("sharing", {})
    shared = {"trust": {"team": "vision"}} if "replicas" in sharing or "share" in sharing else {}
    return parse_pool(("pools", "train"), {"nodes": {"max": 4}} | shared | keys)


def plan(on: Cluster | None = None, **keys: Any) -> PoolPlan:
    return plan_pool("train", spec(**keys), "lab", on or gke(), gcp.CLOUD)


def settings(on: Cluster | None = None, **keys: Any) -> GkePoolPlan:
    found = plan(on, **keys).provider_plan
    assert isinstance(found, GkePoolPlan)
    return found


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"location": "Europe West"}, ".location: got 'Europe West'; did you mean"),
        (
            {"node_locations": ["us-central1-a"]},
            ".node_locations[0]: 'us-central1-a' is not a zone of europe-west4; correct one",
        ),
        (
            {"location": "europe-west4-a", "node_locations": ["europe-west4-b", "europe-west4-b"]},
            ".node_locations[1]: 'europe-west4-b' is listed twice; remove one",
        ),
    ],
    ids=["no place", "zones of another region", "a zone twice"],
)
def test_a_cluster_in_no_place_is_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(Rejected) as rejected:
        gke(**changes)

    assert str(rejected.value).startswith(f"clusters.lab{what}")


def refusal(**keys: Any) -> Problem:
    with pytest.raises(Rejected) as rejected:
        plan(**keys)
    assert len(rejected.value.problems) == 1
    return rejected.value.problems[0]


# --- the catalogue ---


def test_every_n1_row_is_within_the_limit_of_its_gpus() -> None:
    for name, row in gcp.CLOUD.instance_types.items():
        if name.startswith("n1+") and row.lifecycle != "retired":
            machine, most = row.extra["machine_type"], N1_MOST_VCPUS[row.extra["accelerator_type"]][row.devices]

            assert (row.vcpus, row.memory_gib) == N1_MACHINES[machine]
            assert (row.vcpus or 0) <= most


@pytest.mark.parametrize(
    ("accelerator", "most"),
    [
        ("nvidia-tesla-p4", {1: 24, 2: 48, 4: 96}),
        ("nvidia-tesla-p100", {1: 16, 2: 32, 4: 96}),
        ("nvidia-tesla-v100", {1: 12, 2: 24, 4: 48, 8: 96}),
        ("nvidia-tesla-t4", {1: 48, 2: 48, 4: 96}),
    ],
)
def test_a_number_of_gpus_allows_an_n1_machine_its_vcpus(accelerator: str, most: dict[int, int]) -> None:
    """As the page has it: https://docs.cloud.google.com/compute/docs/gpus#n1-gpus."""
    for count in range(1, 9):
        row = gcp.CLOUD.instance_types.find(f"n1+{accelerator}:{count}")
        assert (row is None) is (count not in most)
        assert row is None or n1_most_vcpus(row) == most[count]


def test_the_slices_gke_cuts_are_profiles_of_the_gpu() -> None:
    for model, partitions in MIG_PARTITIONS.items():
        assert all(profile(model, name) for name in partitions), model


@each_row(
    ("keys", "machine"),
    [
        ({"gpu": "L4"}, "g2-standard-4"),
        ({"gpu": "L4", "gpus_per_node": 8}, "g2-standard-96"),
        ({"gpu": "T4", "gpus_per_node": 4}, "n1+nvidia-tesla-t4:4"),
        ({"gpu": "V100", "gpus_per_node": 8}, "n1+nvidia-tesla-v100:8"),
        ({"gpu": "A100-40GB", "gpus_per_node": 16}, "a2-megagpu-16g"),
        ({"gpu": "A100-80GB", "gpus_per_node": 8}, "a2-ultragpu-8g"),
        ({"gpu": "H100", "gpus_per_node": 2, **SPOT}, "a3-highgpu-2g"),
        ({"gpu": "H200", "gpus_per_node": 8, **SPOT}, "a3-ultragpu-8g"),
        ({"gpu": "B200", "gpus_per_node": 8, **SPOT}, "a4-highgpu-8g"),
        ({"gpu": "GB200", "gpus_per_node": 4, **RESERVED}, "a4x-highgpu-4g"),
        ({"gpu": "GB300", "gpus_per_node": 4, **BARE_METAL}, "a4x-maxgpu-4g-metal"),
        ({"gpu": "RTX-PRO-6000"}, "g4-standard-48"),
        ({"instance_type": "a2-ultragpu-8g-nolssd"}, "a2-ultragpu-8g-nolssd"),
        ({"instance_type": "n1-standard-8+nvidia-tesla-t4:1"}, "n1+nvidia-tesla-t4:1"),
        ({"instance_type": "n1-highmem-16+nvidia-tesla-t4:1"}, "n1-highmem-16+nvidia-tesla-t4:1"),
        ({"instance_type": "g4-standard-6"}, "g4-standard-6"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())),
)
def test_a_wish_becomes_a_machine(keys: dict[str, Any], machine: str) -> None:
    assert plan(**keys).instance.name == machine


def test_a_composed_name_gives_the_gpus_of_its_row_on_the_machine_it_names() -> None:
    instance = plan(instance_type="n1-highmem-16+nvidia-tesla-t4:2").instance

    assert (instance.gpu_model, instance.devices, instance.vcpus, instance.memory_gib) == ("T4", 2, 16, 104.0)
    assert instance.extra["machine_type"] == "n1-highmem-16"


@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator"])
def test_software_in_the_cluster_offers_replicas_by_another_name(software: str) -> None:
    made = plan(gpu="L4", software=software, sharing={"mode": "time-slicing", "replicas": 4, "rename": True})

    assert made.node_resources == {"nvidia.com/gpu.shared": 4}


@pytest.mark.parametrize("mode", ["time-slicing", "mps"])
@pytest.mark.parametrize("machine", ["g4-standard-6", "g4-standard-12", "g4-standard-24"])
def test_a_part_of_a_gpu_is_not_shared_further(machine: str, mode: str) -> None:
    problem = refusal(instance_type=machine, sharing={"mode": mode, "replicas": 2})

    assert (problem.key, problem.what.split(" has ")[0]) == ("pools.train.sharing.mode", machine)


def test_a_misspelt_machine_is_answered_with_the_nearest() -> None:
    problem = refusal(instance_type="a2-higgpu-1g")

    assert problem.what == "gcp has no GPU instance type 'a2-higgpu-1g'"
    assert problem.fix.startswith("did you mean 'a2-highgpu-1g'")


def test_retired_gpus_are_refused() -> None:
    problem = refusal(instance_type="n1+nvidia-tesla-k80:1")

    assert problem.what == "gcp retired n1+nvidia-tesla-k80:1 on 2024-05-01"


# --- decisions ---


def test_the_default_software_is_the_best_that_gke_has() -> None:
    rank = [Verdict.NATIVE, Verdict.IN_CLUSTER, Verdict.REFUSED]
    cells = gcp.CLOUD.capabilities
    for kind, software in gcp.CLOUD.default_software.items():
        best = min((cells[name, kind].verdict for name in gcp.CLOUD.software), key=rank.index)
        assert cells[software, kind].verdict is best, kind


def test_a_layout_of_one_size_is_the_partition_of_the_pool() -> None:
    request: dict[str, Any] = {"gpu": "A100-40GB", "sharing": {"mode": "mig", "layout": ["3g.20gb"] * 2}}
    request["sharing"]["strategy"] = "single"

    assert settings(**request).gpu_partition_size == "3g.20gb"
    assert dict(plan(**request).node_resources) == {"nvidia.com/gpu": 2}


@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator"])
def test_gke_brings_neither_driver_nor_plugin_when_others_do(software: str) -> None:
    chosen = settings(gpu="L4", software=software)

    assert chosen.gpu_driver_version == "INSTALLATION_DISABLED"
    assert chosen.labels["gke-no-default-nvidia-gpu-device-plugin"] == "true"


@pytest.mark.parametrize(
    ("machine", "disk", "ssds"),
    [
        ("n1+nvidia-tesla-t4:1", "pd-balanced", 0),
        ("g2-standard-4", "pd-balanced", 0),
        ("a2-ultragpu-4g", "pd-balanced", 4),
        ("a3-highgpu-8g", "pd-balanced", 16),
        ("a3-megagpu-8g", "pd-balanced", 16),
        ("a3-ultragpu-8g", "hyperdisk-balanced", 32),
        ("a3-ultragpu-8g-nolssd", "hyperdisk-balanced", 0),
        ("a4-highgpu-8g", "hyperdisk-balanced", 32),
        ("a4x-highgpu-4g", "hyperdisk-balanced", 4),
        ("a4x-maxgpu-4g-metal", "hyperdisk-balanced", 4),
        ("g4-standard-48", "hyperdisk-balanced", 0),
    ],
)
def test_disks_follow_the_machine(machine: str, disk: str, ssds: int) -> None:
    chosen = settings(instance_type=machine, **sold(machine))

    assert (chosen.boot_disk_type, chosen.local_ssd_count) == (disk, ssds)


@pytest.mark.parametrize(
    ("where", "nodes", "per_zone"),
    [
        ({}, {"max": 4}, 0),
        ({"location": "europe-west4-a"}, {"min": 2, "max": 2}, 2),
        ({"node_locations": ["europe-west4-a", "europe-west4-b"]}, {"min": 4, "max": 5}, 2),
    ],
    ids=["idle", "zonal", "two-zones"],
)
def test_a_pool_starts_with_its_smallest_size(where: dict[str, Any], nodes: dict[str, int], per_zone: int) -> None:
    assert settings(gke(**where), gpu="L4", nodes=nodes).initial_nodes_per_zone == per_zone


def test_a_pool_cannot_be_planned_for_the_cluster_of_another_cloud() -> None:
    with pytest.raises(TypeError, match="pool train: expected GkeCluster, got FakeCluster"):
        plan(FakeCluster(cloud="fake", name="lab", region="north"), gpu="L4")


def test_addresses_may_be_late() -> None:
    late = gke(name=LATE, project=LATE, service_account=LATE)

    assert plan(late, gpu="L4") == plan(gpu="L4")


# --- the adapter ---


def test_every_machine_is_read_back_as_the_tainted_gpu_pool_it_was_planned_as() -> None:
    names = [name for name, row in gcp.CLOUD.instance_types.items() if row.lifecycle != "retired"]
    names.append("n1-highmem-16+nvidia-tesla-t4:1")
    plans = [plan(instance_type=name, **sold(name)) for name in names]

    for made in plans:
        (facts,) = gcp.CLOUD.readback().read_pools(NODE_POOL, declared_inputs(made, ADDRESSES)["NodePool"])

        assert (facts.instance_types, facts.gpus_per_node) == ((made.instance.name,), made.instance.gpus)
        assert repels_cpu_pods(facts.taints)


def test_the_node_account_is_part_of_the_name_even_when_it_is_an_output() -> None:
    def name(account: Any) -> Any:
        program = partial(create_pool, "train-lab", plan(gpu="L4"), opts=pulumi.ResourceOptions())
        (pool,) = run(lambda: program({**ADDRESSES, "service_account": account()}))
        return pool.inputs["name"]

    account = ADDRESSES["service_account"]
    other = name(lambda: "other@ml-dev.iam.gserviceaccount.com")

    assert name(lambda: account) == name(lambda: pulumi.Output.from_input(account)) != other


def test_names_are_short_enough_for_gke() -> None:
    made = plan_pool("a-pool-of-twenty-cha", spec(gpu="L4"), "lab", gke(), gcp.CLOUD)

    assert len(declared_inputs(made, ADDRESSES)["NodePool"]["name"]) <= 40


def test_a_plan_for_another_cloud_is_not_translated() -> None:
    foreign = plan(gpu="L4")._replace(cloud="aws", provider_plan=ProviderPlan())
    with pytest.raises(TypeError, match="pool train: expected GkePoolPlan, got "):
        create_pool("train", foreign, ADDRESSES, pulumi.ResourceOptions())


def test_the_catalogue_leaves_types_without_local_ssd_to_those_who_name_them() -> None:
    assert isinstance(gcp.CLOUD.instance_types, GceCatalogue)
    assert "a2-ultragpu-8g-nolssd" in gcp.CLOUD.instance_types
    chosen = gcp.CLOUD.instance_types.with_gpus("A100-80GB", Fraction(8))

    assert [row.name for row in chosen] == ["a2-ultragpu-8g"]


def test_gpus_without_mig_on_gke_have_no_partition_sizes() -> None:
    offered = {row.gpu_model for row in gcp.CLOUD.instance_types.values()}
    able = {name for name, model in gpu_models().items() if model.mig_profiles} & offered

    assert able == set(MIG_PARTITIONS) | COHERENT_MEMORY


def test_nodes_may_be_in_an_ai_zone_and_the_control_plane_not() -> None:
    made = settings(gke(location="us-central1", node_locations=["us-central1-ai1a"]), gpu="L4", nodes={"fixed": 2})

    assert made.fixed_nodes_per_zone == 2
    with pytest.raises(Rejected) as other:
        gke(location="us-central1", node_locations=["us-east1-ai1a"])
    assert "not a zone of us-central1" in str(other.value)
    with pytest.raises(Rejected) as control_plane:
        gke(location="us-central1-ai1a")
    assert "write us-central1, and the zone under node_locations" in str(control_plane.value)
