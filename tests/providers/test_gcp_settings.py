"""GKE: what each setting of a pool becomes on the wire, what GKE does not take together, and what edits do."""

import csv
from pathlib import Path
from typing import Any

import pulumi_gcp
import pytest
from pulumi._types import input_type_py_to_pulumi_names, input_type_types

from gpupools.asked.pool_parts import SETTINGS
from gpupools.base.taints import GPU_TAINT, Effect, Taint
from gpupools.preview.printed import by_hand_lines
from gpupools.providers import gcp
from gpupools.providers.gcp.edits import edits, replacing
from gpupools.providers.gcp.pool_settings import OVERRIDABLE
from tests.providers.gcp_pools import ZONES, gke, options, plan, refusals, settings, wire
from tests.rows import each_row

KEY = "projects/ml-dev/locations/europe-west4/keyRings/nodes/cryptoKeys/boot"
RESERVATION = {"mode": "reservation", "name": "a100-2026"}
TCPX = [{"network": f"gpu-{number}", "subnetwork": f"gpu-{number}"} for number in range(4)]
QUEUED_TAINT = Taint("cloud.google.com/gke-queued", "true", Effect.NO_SCHEDULE)


def at(inputs: Any, path: str) -> Any:
    """Follow a dotted path; None where it ends early."""
    for key in path.split("."):
        inputs = inputs.get(key) if isinstance(inputs, dict) else None
    return inputs


def by_hand(**inputs: Any) -> dict[str, Any]:
    return {"overrides": {"gcp": {"NodePool": inputs}}}


# --- what is said of every setting ---


def test_every_setting_but_the_rename_has_an_answer() -> None:
    assert set(SETTINGS) == set(gcp.CLOUD.node_pools.settings)
    assert set(gcp.CLOUD.node_pools.settings) <= set(SETTINGS)
    told = gcp.CLOUD.node_pools.settings.items()
    assert [name for name, each in told if not each.source.startswith("https://")] == []


@pytest.mark.parametrize(
    ("keys", "key", "cure"),
    [
        ({"capacity": {"mode": "capacity-block", "name": "cr-1"}}, "capacity.mode", "{mode: reservation}"),
        ({"capacity": {"mode": "spot", "max_price_usd_per_hour": 1}}, "capacity.max_price_usd_per_hour", "leave it"),
        ({"image": {"family": "custom", "id": "ami-1"}}, "image.id", "family: cos or family: ubuntu"),
        ({"image": {"fips": True}}, "image.fips", "Bottlerocket FIPS"),
        ({"network": {"security_group_ids": ["sg-1"]}}, "network.security_group_ids", "nodeConfig.tags"),
        ({"security": {"imds_hop_limit": 2}}, "security.imds_hop_limit", "leave it out"),
    ],
    ids=["capacity-block", "price", "own-image", "fips", "security-groups", "metadata-hops"],
)
def test_what_gke_has_no_field_for_is_refused_with_a_cure(keys: dict[str, Any], key: str, cure: str) -> None:
    (problem,) = [each for each in refusals(**keys) if each.key == f"pools.train.{key}"]

    assert cure in problem.fix
    assert problem.source.startswith("https://docs.cloud.google.com/")


# --- translation ---


@each_row(
    ("keys", "expected"),
    [
        (
            {"capacity": {"mode": "spot"}},
            {
                "nodeConfig.spot": True,
                "nodeConfig.reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
                "management.autoRepair": True,
            },
        ),
        (
            {"capacity": RESERVATION, "zones": ZONES[:1]},
            {
                "nodeConfig.reservationAffinity": {
                    "consumeReservationType": "SPECIFIC_RESERVATION",
                    "key": "compute.googleapis.com/reservation-name",
                    "values": ["a100-2026"],
                },
                "nodeLocations": ZONES[:1],
            },
        ),
        (
            {"capacity": {"mode": "flex-start", "max_run_s": 7200}},
            {
                "nodeConfig.flexStart": True,
                "nodeConfig.maxRunDuration": "7200s",
                "nodeConfig.reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
                "management.autoRepair": False,
                "queuedProvisioning": None,
            },
        ),
        (
            {"capacity": {"mode": "queued"}},
            {
                "nodeConfig.flexStart": True,
                "nodeConfig.maxRunDuration": None,
                "nodeConfig.reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
                "management.autoRepair": False,
                "queuedProvisioning": {"enabled": True},
                "initialNodeCount": 0,
                "autoscaling.totalMinNodeCount": 0,
            },
        ),
        ({"zones": ZONES[:2]}, {"nodeLocations": ZONES[:2]}),
        (
            {"nodes": {"fixed": 6}, "zones": ZONES},
            {"nodeCount": 2, "autoscaling": None, "initialNodeCount": None},
        ),
        (
            {"nodes": {"min": 4, "max": 6}, "zones": ZONES[:2]},
            {"nodeCount": None, "initialNodeCount": 2, "autoscaling.totalMinNodeCount": 4},
        ),
        ({"image": {"family": "cos"}}, {"nodeConfig.imageType": "COS_CONTAINERD", "nodeConfig.gvnic.enabled": True}),
        ({"image": {"family": "ubuntu"}}, {"nodeConfig.imageType": "UBUNTU_CONTAINERD", "nodeConfig.gvnic": None}),
        ({"disk": {"type": "pd-ssd"}}, {"nodeConfig.diskType": "pd-ssd"}),
        ({"disk": {"encryption_key": KEY}}, {"nodeConfig.bootDiskKmsKey": KEY}),
        (
            {"instance_type": "a2-ultragpu-2g", "disk": {"local_nvme": "raid0"}},
            {
                "nodeConfig.ephemeralStorageLocalSsdConfig": {"localSsdCount": 2},
                "nodeConfig.localNvmeSsdBlockConfig": None,
            },
        ),
        (
            {"instance_type": "a2-ultragpu-2g", "disk": {"local_nvme": "none"}},
            {
                "nodeConfig.ephemeralStorageLocalSsdConfig": None,
                "nodeConfig.localNvmeSsdBlockConfig": {"localSsdCount": 2},
            },
        ),
        (
            {"instance_type": "a3-megagpu-8g", "zones": ZONES[:1], "network": {"rdma": True}},
            {"networkConfig": {"enablePrivateNodes": True, "acceleratorNetworkProfile": "auto"}},
        ),
        ({"zones": ZONES[:1], "network": {"placement": "compact"}}, {"placementPolicy": {"type": "COMPACT"}}),
        ({"network": {"max_pods": 32}}, {"maxPodsPerNode": 32}),
        ({"security": {"secure_boot": True}}, {"nodeConfig.shieldedInstanceConfig.enableSecureBoot": True}),
        (
            {"upgrade": {"max_surge": 2, "max_unavailable": 3}},
            {"upgradeSettings": {"strategy": "SURGE", "maxSurge": 2, "maxUnavailable": 3}},
        ),
        (
            {"upgrade": {"strategy": "blue-green", "max_unavailable": 2}},
            {
                "upgradeSettings": {
                    "strategy": "BLUE_GREEN",
                    "blueGreenSettings": {"standardRolloutPolicy": {"batchNodeCount": 2}},
                }
            },
        ),
        (
            {"upgrade": {"drain_timeout_min": 30}},
            {"nodeDrainConfigs": [{"pdbTimeoutDuration": "1800s", "graceTerminationDuration": "1800s"}]},
        ),
        ({"auto_repair": False}, {"management": {"autoRepair": False, "autoUpgrade": True}}),
        (
            {"tags": {"owner": "vision", "cost-center": ""}},
            {"nodeConfig.resourceLabels": {"owner": "vision", "cost-center": ""}},
        ),
        ({"protect": True}, {"deletionPolicy": "PREVENT"}),
        (by_hand(version="1.34.5-gke.1153000"), {"version": "1.34.5-gke.1153000"}),
        (
            by_hand(nodeConfig={"fastSocket": {"enabled": True}, "gvnic": None}),
            {"nodeConfig.fastSocket.enabled": True, "nodeConfig.gvnic": None, "nodeConfig.imageType": "COS_CONTAINERD"},
        ),
    ],
    ids=[
        "spot",
        "reservation",
        "flex-start",
        "queued",
        "zones",
        "fixed",
        "minimum-per-zone",
        "cos",
        "ubuntu",
        "disk-type",
        "disk-key",
        "nvme-raid0",
        "nvme-none",
        "rdma",
        "placement",
        "max-pods",
        "secure-boot",
        "surge",
        "blue-green",
        "drain",
        "no-repair",
        "tags",
        "protect",
        "by-hand",
        "by-hand-inside",
    ],
)
def test_a_setting_becomes_inputs_of_the_node_pool(keys: dict[str, Any], expected: dict[str, Any]) -> None:
    inputs = wire(**keys)

    assert {path: at(inputs, path) for path in expected} == expected
    assert {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"} in inputs["nodeConfig"]["taints"]


def test_the_taint_that_gke_adds_to_queued_nodes_is_tolerated_but_left_to_gke() -> None:
    made = plan(capacity={"mode": "queued"}, taints=["team=vision:NoSchedule"])
    declared = wire(capacity={"mode": "queued"}, taints=["team=vision:NoSchedule"])["nodeConfig"]

    assert made.taints[:2] == (GPU_TAINT, QUEUED_TAINT)
    assert QUEUED_TAINT.key in [each["key"] for each in made.pod()["tolerations"]]
    assert [each["key"] for each in declared["taints"]] == ["nvidia.com/gpu", "team"]
    assert declared["labels"][QUEUED_TAINT.key] == "true"


def test_the_taint_that_gke_adds_to_arm_nodes_is_in_the_plan_but_left_to_gke() -> None:
    pool: dict[str, Any] = {"instance_type": "a4x-highgpu-4g", "capacity": RESERVATION, "zones": ZONES[:1]}
    arm = Taint("kubernetes.io/arch", "arm64", Effect.NO_SCHEDULE)

    assert plan(**pool).taints == (GPU_TAINT, arm)
    assert [each["key"] for each in wire(**pool)["nodeConfig"]["taints"]] == [GPU_TAINT.key]
    assert plan(instance_type="a2-highgpu-1g").taints == (GPU_TAINT,)


def test_gpudirect_nodes_carry_the_label_of_the_network_driver() -> None:
    made = plan(instance_type="a4-highgpu-8g", capacity={"mode": "spot"}, zones=ZONES[:1], network={"rdma": True})

    assert made.labels["cloud.google.com/gke-networking-dra-driver"] == "true"


def test_the_interfaces_of_tcpx_are_in_networks_of_ones_own() -> None:
    keys: dict[str, Any] = {"instance_type": "a3-highgpu-8g", "zones": ZONES[:1]}
    config = wire(**keys, network={"rdma": True, "gpu_networks": TCPX})["networkConfig"]

    assert config["additionalNodeNetworkConfigs"] == TCPX
    assert "acceleratorNetworkProfile" not in config
    assert "additionalNodeNetworkConfigs" not in wire(**keys)["networkConfig"]


def test_bare_metal_has_what_makes_its_interfaces() -> None:
    keys: dict[str, Any] = {"instance_type": "a4x-maxgpu-4g-metal", "zones": ZONES[:1], "nodes": {"fixed": 2}}
    keys["capacity"] = RESERVATION
    label = "cloud.google.com/gke-dpv2-unified-cni"
    node, bare = (wire(**keys, network={"rdma": rdma})["nodeConfig"] for rdma in (True, False))

    assert node["linuxNodeConfig"] == {"hugepagesConfig": {"hugepageSize2m": 4096}}
    assert node["labels"][label] == "cni-migration"
    assert "linuxNodeConfig" not in bare
    assert label not in bare["labels"]


def test_the_operator_owns_the_driver_on_ubuntu() -> None:
    made = plan(image={"family": "ubuntu"}, software="gpu-operator")

    assert made.owners.driver == "GPU Operator"
    assert plan(software="gpu-operator").owners.driver == "Google's driver installer DaemonSet"


def test_options_follow_protection_and_time_outs() -> None:
    chosen = options(protect=True, timeouts={"create_min": 30, "update_min": 45, "delete_min": 25})

    timeouts = chosen.custom_timeouts

    assert (chosen.protect, options().protect) == (True, None)
    assert timeouts is not None
    assert (timeouts.create, timeouts.update, timeouts.delete) == ("30m", "45m", "25m")


@pytest.mark.parametrize(
    ("keys", "create_min", "update_min"),
    [
        ({"nodes": {"max": 6}}, 60, 120),
        ({"nodes": {"max": 40}}, 60, 800),
        ({"nodes": {"max": 40}, "upgrade": {"max_surge": 4, "max_unavailable": 0}}, 60, 200),
        ({"nodes": {"max": 40}, "upgrade": {"strategy": "blue-green", "max_unavailable": 5}}, 60, 160),
        ({"nodes": {"max": 10}, "upgrade": {"drain_timeout_min": 60}}, 60, 800),
        ({"nodes": {"min": 80, "max": 1000}, "zones": ZONES[:1]}, 120, 1440),
    ],
    ids=["small", "one-by-one", "surge", "blue-green", "drain", "large"],
)
def test_the_default_time_outs_follow_the_size(keys: dict[str, Any], create_min: int, update_min: int) -> None:
    chosen = settings(**keys)

    assert (chosen.create_min, chosen.update_min) == (create_min, update_min)


def test_the_plan_and_the_preview_show_what_is_set_by_hand() -> None:
    made = plan(**by_hand(version="1.34.5-gke.1153000", nodeConfig={"gvnic": None}))

    assert made.set_by_hand == {
        "NodePool.version": "1.34.5-gke.1153000",
        "NodePool.nodeConfig.gvnic": None,
    }
    assert list(by_hand_lines([made])) == [
        '  lab/train: NodePool.version = "1.34.5-gke.1153000"',
        "  lab/train: NodePool.nodeConfig.gvnic is taken away",
    ]


# --- what GKE does not take together ---


@each_row(
    ("keys", "message"),
    [
        (
            {"instance_type": "a3-highgpu-1g"},
            (
                "capacity.mode: Google does not sell a3-highgpu-1g (instance_type) as on-demand; write capacity: "
                "{mode: spot} (or flex-start, queued); or take a3-highgpu-8g"
            ),
        ),
        (
            {"instance_type": "a3-highgpu-4g-nolssd"},
            (
                "capacity.mode: Google does not sell a3-highgpu-4g-nolssd (instance_type) as on-demand; write "
                "capacity: {mode: spot} (or flex-start, queued); or take a3-highgpu-8g"
            ),
        ),
        (
            {"instance_type": "a3-highgpu-2g", "capacity": RESERVATION, "zones": ZONES[:1]},
            (
                "capacity.mode: Google does not sell a3-highgpu-2g (instance_type) as reservation; write capacity: "
                "{mode: spot} (or flex-start, queued)"
            ),
        ),
        (
            {"instance_type": "a4-highgpu-8g"},
            (
                "capacity.mode: Google does not sell a4-highgpu-8g (instance_type) as on-demand; write capacity: "
                "{mode: reservation, name: …} (or spot, flex-start, queued)"
            ),
        ),
        (
            {"instance_type": "a4x-highgpu-4g", "capacity": {"mode": "spot"}},
            (
                "capacity.mode: Google does not sell a4x-highgpu-4g (instance_type) as spot; write capacity: "
                "{mode: reservation, name: …}"
            ),
        ),
        (
            {"instance_type": "a3-edgegpu-8g", "capacity": {"mode": "flex-start"}},
            (
                "capacity.mode: Google does not sell a3-edgegpu-8g (instance_type) as flex-start; write capacity: "
                "{mode: on-demand} (or reservation, spot)"
            ),
        ),
        (
            {"capacity": RESERVATION},
            (
                "capacity.mode: a reservation belongs to zones, and the pool names none (zones); write zones: […], "
                "each with a reservation of this name"
            ),
        ),
        (
            {"capacity": {"mode": "reservation", "name": "cr-0123/x"}, "zones": ZONES[:1]},
            (
                "capacity.name: 'cr-0123/x' names no reservation of Compute Engine; write its name, or "
                "projects/<project>/reservations/<name> for one shared by another project"
            ),
        ),
        (
            {"capacity": {"mode": "flex-start"}, "nodes": {"fixed": 2}, "zones": ZONES[:1]},
            (
                "capacity.mode: nodes.fixed asks for 2 nodes at once, while flex-start gives them when there are "
                "some; write nodes: {max: …} in place of fixed"
            ),
        ),
        (
            {"capacity": {"mode": "queued"}, "nodes": {"min": 1, "max": 2}},
            (
                "capacity.mode: queued nodes come and go with the jobs that wait for them; nodes.min is 1; leave "
                "nodes.min out"
            ),
        ),
        (
            {"capacity": {"mode": "flex-start"}, "auto_repair": True},
            "capacity.mode: flex-start goes without node repair, and auto_repair is true; leave auto_repair out",
        ),
        (
            {"capacity": {"mode": "queued"}, "upgrade": {"max_surge": 1}},
            (
                "upgrade.max_surge: GKE lets queued nodes (capacity.mode) run until they end and upgrades none, so "
                "max_surge says nothing; leave it out"
            ),
        ),
        (
            {"zones": ["europe-west4-a", "us-east1-b"]},
            "zones[1]: us-east1-b is in us-east1; the cluster's location is europe-west4; use zones of europe-west4",
        ),
        (
            {"zones": ["eu-west-1a"]},
            "zones[0]: 'eu-west-1a' is no zone of Google Cloud; write e.g. europe-west4-a",
        ),
        (
            {"zones": ["europe-west4-a", "europe-west4-a"]},
            "zones[1]: europe-west4-a is given twice; name each zone once",
        ),
        (
            {"nodes": {"fixed": 4}, "zones": ZONES},
            (
                "nodes.fixed: 4 nodes do not spread evenly over 3 zones (europe-west4-a, europe-west4-b, "
                "europe-west4-c), as GKE wants it; write 3 or 6, or name fewer zones"
            ),
        ),
        (
            {"nodes": {"fixed": 3}},
            (
                "nodes.fixed: GKE counts fixed nodes per zone, and neither zones nor the cluster's node_locations "
                "names them; write zones: […]"
            ),
        ),
        (
            {"nodes": {"min": 1, "max": 8}},
            (
                "nodes.min: GKE counts the first nodes per zone, and neither zones nor the cluster's node_locations "
                "names them; write zones: […]"
            ),
        ),
        (
            {"nodes": {"min": 1, "max": 8}, "zones": ZONES},
            (
                "nodes.min: 1 node does not spread evenly over 3 zones (europe-west4-a, europe-west4-b, "
                "europe-west4-c), as GKE wants it; write 0 or 3, or name fewer zones"
            ),
        ),
        (
            {"nodes": {"min": 1, "max": 2}, "zones": ZONES, "software": "dra-driver"},
            (
                "nodes.min: 1 node does not spread evenly over 3 zones (europe-west4-a, europe-west4-b, "
                "europe-west4-c), as GKE wants it; name fewer zones"
            ),
        ),
        (
            {"nodes": {"min": 7, "max": 8}, "zones": ZONES},
            (
                "nodes.min: 7 nodes do not spread evenly over 3 zones (europe-west4-a, europe-west4-b, "
                "europe-west4-c), as GKE wants it; write 6, or name fewer zones"
            ),
        ),
        ({"image": {"family": "bottlerocket"}}, "image.family: GKE has no image bottlerocket; use cos or ubuntu"),
        (
            {"image": {"family": "ubuntu"}, "software": "device-plugin"},
            (
                "image.family: Google's installer of the driver runs on cos alone, and software: device-plugin "
                "brings none; use family: cos, or software: cloud-managed or gpu-operator"
            ),
        ),
        (
            {"instance_type": "g4-standard-6", "image": {"family": "ubuntu"}},
            "image.family: a part of a GPU (g4-standard-6) needs the image cos; use family: cos",
        ),
        (
            {"disk": {"type": "gp3"}},
            "disk.type: g2-standard-4 (instance_type) does not boot from 'gp3'; use pd-balanced or pd-ssd",
        ),
        (
            {"instance_type": "g4-standard-48", "disk": {"type": "pd-ssd"}},
            "disk.type: g4-standard-48 (instance_type) does not boot from 'pd-ssd'; use hyperdisk-balanced",
        ),
        (
            {"disk": {"encryption_key": "arn:aws:kms:eu-west-1:1:key/2"}},
            (
                "disk.encryption_key: 'arn:aws:kms:eu-west-1:1:key/2' is no key of Cloud KMS; write "
                "projects/<project>/locations/<location>/keyRings/<ring>/cryptoKeys/<key>"
            ),
        ),
        (
            {"disk": {"local_nvme": "raid0"}},
            (
                "disk.local_nvme: g2-standard-4 (instance_type) comes without Local SSD, and how many to add is "
                "not said here; set overrides.gcp.NodePool.nodeConfig.ephemeralStorageLocalSsdConfig.localSsdCount"
            ),
        ),
        (
            {"zones": ZONES[:1], "network": {"rdma": True}},
            (
                "network.rdma: g2-standard-4 (instance_type) has no GPUDirect interfaces; take one of a3-highgpu-8g, "
                "a3-megagpu-8g, a3-ultragpu-8g, a4-highgpu-8g, a4x-highgpu-4g, a4x-maxgpu-4g-metal"
            ),
        ),
        (
            {"instance_type": "a3-highgpu-8g", "zones": ZONES[:1], "network": {"rdma": True}},
            (
                "network.gpu_networks: got 0, and each of the 4 GPUDirect-TCPX interfaces of a3-highgpu-8g "
                "(instance_type) is in a network of its own, which GKE does not make; name them: gpu_networks: "
                "[{network: …, subnetwork: …}, …]"
            ),
        ),
        (
            {"instance_type": "a3-highgpu-8g", "network": {"gpu_networks": TCPX}},
            (
                "network.gpu_networks: gpu_networks are for GPUDirect interfaces, which the pool does not ask for; "
                "write rdma: true as well, or leave it out"
            ),
        ),
        (
            {
                "instance_type": "a3-highgpu-8g",
                "zones": ZONES[:1],
                "network": {"rdma": True, "gpu_networks": [*TCPX[:3], TCPX[0]]},
            },
            (
                "network.gpu_networks[3].network: 'gpu-0' is given twice, and a machine has one interface in a "
                "network; name another one"
            ),
        ),
        (
            {
                "instance_type": "a3-highgpu-8g",
                "zones": ZONES[:1],
                "network": {
                    "rdma": True,
                    "gpu_networks": [*TCPX[:3], {"network": "gpu-3", "subnetwork": "10.0.0.0/8"}],
                },
            },
            (
                "network.gpu_networks[3].subnetwork: '10.0.0.0/8' is no name of a subnetwork; write its name, or "
                "projects/… in full"
            ),
        ),
        (
            {
                "instance_type": "a3-megagpu-8g",
                "zones": ZONES[:1],
                "network": {"rdma": True, "gpu_networks": TCPX},
            },
            "network.gpu_networks: GKE makes the networks of a3-megagpu-8g (instance_type) itself; leave it out",
        ),
        (
            {
                "instance_type": "a3-highgpu-8g",
                "zones": ZONES[:1],
                "network": {"rdma": True, "gpu_networks": TCPX},
                **by_hand(networkConfig={"additionalNodeNetworkConfigs": TCPX}),
            },
            (
                "overrides.gcp.NodePool.networkConfig.additionalNodeNetworkConfigs: network.gpu_networks name the "
                "same interfaces; leave one of both out"
            ),
        ),
        (
            {"instance_type": "a4x-maxgpu-4g-metal", "zones": ZONES[:1], "capacity": RESERVATION},
            (
                "nodes: a4x-maxgpu-4g-metal (instance_type) is bare metal, which GKE's autoscaler starts none of; "
                "write nodes: {fixed: …}"
            ),
        ),
        (
            {
                "instance_type": "a4x-highgpu-4g",
                "zones": ZONES[:1],
                "capacity": RESERVATION,
                "nodes": {"max": 19},
                "network": {"compute_domains": True},
            },
            (
                "nodes: got up to 19 nodes, and a rack has 18 of a4x-highgpu-4g (instance_type); write 18 or fewer, "
                "and another pool for another rack"
            ),
        ),
        (
            {"instance_type": "a3-edgegpu-8g", "zones": ZONES[:1], "network": {"rdma": True, "gpu_networks": TCPX}},
            (
                "network.rdma: no page or source says that GKE's network driver hands out the interfaces of "
                "a3-edgegpu-8g (instance_type); take a3-highgpu-8g, whose four it hands out, or name networks of "
                "your own as overrides.gcp.NodePool.networkConfig.additionalNodeNetworkConfigs and leave rdma out"
            ),
        ),
        (
            {"instance_type": "a3-megagpu-8g", "zones": ZONES, "network": {"rdma": True}},
            (
                "network.rdma: GPUDirect networks are of one zone; the nodes are in several zones (zones); name "
                "one zone under zones"
            ),
        ),
        (
            {
                "instance_type": "a3-megagpu-8g",
                "zones": ZONES[:1],
                "network": {"rdma": True},
                "image": {"family": "ubuntu"},
            },
            (
                "image.family: a3-megagpu-8g (instance_type) has gVNIC interfaces alone, which GKE drives on cos "
                "alone; use family: cos"
            ),
        ),
        (
            {"zones": ZONES[:2], "network": {"placement": "compact"}},
            "network.placement: compact nodes are in one zone; these are in 2 zones (zones); name one zone under zones",
        ),
        (
            {"network": {"placement": "compact"}},
            (
                "network.placement: compact nodes are in one zone; these are in an unknown number of zones "
                "(zones); name one zone under zones"
            ),
        ),
        (
            {"zones": ZONES[:1], "network": {"placement": "compact"}, "upgrade": {"strategy": "blue-green"}},
            (
                "network.placement: compact placement and upgrade.strategy blue-green exclude each other; use "
                "strategy: surge"
            ),
        ),
        (
            {"zones": ZONES[:1], "network": {"placement": "compact"}, "capacity": {"mode": "queued"}},
            "network.placement: queued nodes (capacity.mode) cannot be placed compactly; leave placement out",
        ),
        (
            {"zones": ZONES[:1], "network": {"placement": "compact"}, "capacity": {"mode": "flex-start"}},
            (
                "network.placement: flex-start (capacity.mode) places g2-standard-4 not compactly, only A3 Ultra "
                "and A4; leave placement out"
            ),
        ),
        (
            {"security": {"secure_boot": True}, "software": "gpu-operator"},
            (
                "security.secure_boot: Secure Boot refuses unsigned drivers, and with software gpu-operator GKE "
                "does not bring its signed one; use software: cloud-managed"
            ),
        ),
        (
            {"security": {"secure_boot": True}, "image": {"family": "ubuntu"}},
            (
                "security.secure_boot: Secure Boot refuses unsigned drivers, and on image.family ubuntu the driver "
                "is built on the node; use image: {family: cos}"
            ),
        ),
        (
            {"upgrade": {"strategy": "blue-green", "max_surge": 1}},
            (
                "upgrade.max_surge: upgrade.strategy blue-green makes a whole second set of nodes, so max_surge says "
                "nothing; leave it out"
            ),
        ),
        (
            {"upgrade": {"max_surge": 10, "max_unavailable": 11}},
            "upgrade.max_surge: max_surge 10 and max_unavailable 11 are more than GKE upgrades; keep the sum at 20",
        ),
        (
            {"tags": {"Owner": "vision"}},
            (
                "tags.Owner: 'Owner' is no label key of Google Cloud; start with a lower-case letter; then "
                "lower-case letters, digits, '_' and '-', 63 in all"
            ),
        ),
        (
            {"tags": {"owner": "Vision Team"}},
            (
                "tags.owner: 'Vision Team' is no label value of Google Cloud; use at most 63 lower-case letters, "
                "digits, '_' and '-'"
            ),
        ),
        (
            {"tags": {"goog-owner": "vision"}},
            "tags.goog-owner: Google keeps labels that start with goog- for itself; rename it",
        ),
        (
            {"tags": {f"k{index}": "" for index in range(65)}},
            "tags: 65 tags; a resource of Google Cloud has 64 labels at most; drop some",
        ),
        (
            by_hand(nodeConfig={"oauthScopes": ["https://www.googleapis.com/auth/logging.write"]}),
            (
                "overrides.gcp.NodePool.nodeConfig.oauthScopes: lets no node read Cloud Storage, from where GKE's "
                "installer fetches the GPU driver; add https://www.googleapis.com/auth/devstorage.read_only, or leave "
                "it out"
            ),
        ),
        (
            by_hand(nodeConfig={"linuxNodeConfig": {"nodeKernelModuleLoading": {"policy": "ENFORCE_SIGNED_MODULES"}}}),
            (
                "overrides.gcp.NodePool.nodeConfig.linuxNodeConfig.nodeKernelModuleLoading: cannot be set by hand; GKE "
                "has it for CPU and TPU pools; it would keep NVIDIA's driver out"
            ),
        ),
        (
            by_hand(nodeConfig={"shieldedInstanceConfig": {"enableSecureBoot": True}}),
            (
                "overrides.gcp.NodePool.nodeConfig.shieldedInstanceConfig.enableSecureBoot: cannot be set by hand; "
                "write security: {secure_boot: …}, which asks for a driver that is signed"
            ),
        ),
        (
            by_hand(upgradeSettings={"strategy": "BLUE_GREEN"}),
            (
                "overrides.gcp.NodePool.upgradeSettings: GKE takes no maxSurge and maxUnavailable with the strategy "
                "BLUE_GREEN; write upgrade: {strategy: blue-green}, and by hand blueGreenSettings alone"
            ),
        ),
        (
            by_hand(upgradeSettings={"maxSurge": 1}) | {"upgrade": {"strategy": "blue-green"}},
            (
                "overrides.gcp.NodePool.upgradeSettings: GKE takes no maxSurge with the strategy BLUE_GREEN; write "
                "upgrade: {strategy: blue-green}, and by hand blueGreenSettings alone"
            ),
        ),
        (
            by_hand(nodeConfig={"taints": []}),
            (
                "overrides.gcp.NodePool.nodeConfig.taints: cannot be set by hand; write the pool's taints; the GPU "
                "taint stays"
            ),
        ),
        (
            by_hand(nodeConfig=None),
            (
                "overrides.gcp.NodePool.nodeConfig: would take nodeConfig.taints and 48 more inputs away, which cannot "
                "be set by hand; give a map with the inputs to change; write the pool's taints; the GPU taint stays"
            ),
        ),
        (
            by_hand(diskSizeGb=10),
            (
                "overrides.gcp.NodePool.diskSizeGb: NodePool has no input 'diskSizeGb'; write its wire name; "
                "known: autoscaling, bestEffortProvisioning, cluster, deletionPolicy, ignoreNodeCountChanges, "
                "initialNodeCount, location, maintenancePolicies, management, maxPodsPerNode, name, namePrefix and "
                "10 more"
            ),
        ),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else "",
)
def test_what_gke_does_not_take_together_is_refused_with_both_fields(keys: dict[str, Any], message: str) -> None:
    found = [f"{each.key}: {each.what}; {each.fix}" for each in refusals(**keys)]

    assert f"pools.train.{message}" in found


def test_everything_wrong_with_a_pool_is_told_at_once() -> None:
    keys: dict[str, Any] = {
        "capacity": {"mode": "queued"},
        "nodes": {"min": 1, "max": 2},
        "zones": ["us-east1-b"],
        "network": {"placement": "compact", "rdma": True},
        "security": {"secure_boot": True},
        "software": "gpu-operator",
        "tags": {"Owner": "x"},
    }

    assert [each.key.removeprefix("pools.train.") for each in refusals(**keys)] == [
        "capacity.mode",
        "zones[0]",
        "network.rdma",
        "network.placement",
        "security.secure_boot",
        "tags.Owner",
    ]


def test_a_zonal_cluster_knows_its_zone() -> None:
    zonal = gke(location="europe-west4-b")

    assert settings(zonal, nodes={"fixed": 5}).fixed_nodes_per_zone == 5
    assert settings(zonal, network={"placement": "compact"}).compact
    assert settings(gke(node_locations=ZONES[:2]), nodes={"fixed": 4}).fixed_nodes_per_zone == 2


def test_labels_of_any_script_are_taken() -> None:
    assert dict(settings(tags={"größe": "klein", "所有者": "研究"}).resource_labels) == {
        "größe": "klein",
        "所有者": "研究",
    }


# --- edits ---


def test_the_table_of_edits_knows_every_input_of_the_node_pool() -> None:
    top = input_type_types(pulumi_gcp.container.NodePoolArgs)
    known = set(edits().inputs)
    nested = {"autoscaling", "management", "networkConfig", "nodeConfig"}
    inputs = {wire_name for wire_name in top if wire_name not in nested}
    for name in nested:
        inputs |= {f"{name}.{each}" for each in input_type_py_to_pulumi_names(top[name]).values()}

    # Never ours to send.
    inputs -= {"namePrefix", "nodeConfig.effectiveTaints", "nodeConfig.preemptible"}

    of_a_racks_policy = {"region", "workloadPolicy"}
    assert known - {"nodeConfig.confidentialNodes.confidentialInstanceType"} - of_a_racks_policy == inputs
    assert OVERRIDABLE["NodePool"].inputs == set(top)


def test_the_table_of_edits_is_sorted_and_has_a_source_in_every_row() -> None:
    with (Path(gcp.__file__).parent / "edits.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    assert [row["input"] for row in rows] == sorted(row["input"] for row in rows)
    assert {row["effect"] for row in rows} <= {"in-place", "rolling", "replace", "refused"}
    assert [row["input"] for row in rows if not row["detail"] or not row["source"].startswith("https://")] == []


@each_row(
    ("change", "replaced"),
    [
        ({"capacity": {"mode": "spot"}}, True),
        ({"capacity": {"mode": "flex-start"}}, True),
        ({"capacity": {"mode": "flex-start", "max_run_s": 7200}}, True),
        ({"capacity": {"mode": "queued"}}, True),
        ({"capacity": RESERVATION, "zones": ZONES[:1]}, True),
        ({"disk": {"encryption_key": KEY}}, True),
        ({"zones": ZONES[:1], "network": {"placement": "compact"}}, True),
        ({"network": {"max_pods": 32}}, True),
        ({"security": {"secure_boot": True}}, True),
        (by_hand(nodeConfig={"minCpuPlatform": "Intel Ice Lake"}), True),
        (by_hand(networkConfig={"podRange": "pods"}), True),
        (by_hand(nodeConfig={"tags": ["gpu"]}), False),
        (by_hand(version="1.34"), False),
        ({"zones": ZONES[:2]}, False),
        ({"nodes": {"fixed": 6}, "zones": ZONES}, False),
        ({"image": {"family": "ubuntu"}}, False),
        ({"disk": {"type": "pd-ssd"}}, False),
        ({"upgrade": {"strategy": "blue-green", "drain_timeout_min": 5}}, False),
        ({"auto_repair": False, "tags": {"owner": "x"}, "protect": True, "timeouts": {"create_min": 30}}, False),
    ],
    ids=[
        "spot",
        "flex-start",
        "run-time",
        "queued",
        "reservation",
        "disk-key",
        "placement",
        "max-pods",
        "secure-boot",
        "by-hand-replacing",
        "by-hand-network",
        "by-hand-in-place",
        "by-hand-version",
        "zones",
        "fixed",
        "image",
        "disk-type",
        "upgrade",
        "the-rest",
    ],
)
def test_the_name_changes_exactly_when_the_provider_replaces_the_pool(change: dict[str, Any], replaced: bool) -> None:
    before, after = wire(), wire(**change)
    changed = {path for path in edits().inputs if at(before, path) != at(after, path) and path != "initialNodeCount"}

    assert (before["name"] != after["name"]) is replaced
    assert any(edits().inputs[path].effect == "replace" for path in changed - {"name"}) is replaced


def test_the_inputs_that_replace_are_found_at_any_depth() -> None:
    inputs = {
        "version": "1.34",
        "nodeConfig": {"confidentialNodes": {"enabled": True, "confidentialInstanceType": "TDX"}, "spot": True},
    }

    assert replacing(inputs) == {
        "nodeConfig.confidentialNodes.confidentialInstanceType": "TDX",
        "nodeConfig.spot": True,
    }


@pytest.mark.parametrize(
    ("machine", "keys"),
    [
        ("a3-highgpu-8g", {}),
        ("a3-ultragpu-8g", {"capacity": {"mode": "spot"}}),
        ("a4-highgpu-8g", {"capacity": {"mode": "spot"}}),
        ("a4x-highgpu-4g", {"capacity": {"mode": "reservation", "name": "r"}, "zones": ZONES[:1]}),
        ("g4-standard-48", {}),
    ],
)
def test_machines_without_virtio_need_the_image_with_gvnic(machine: str, keys: dict[str, Any]) -> None:
    (problem,) = refusals(instance_type=machine, image={"family": "ubuntu"}, **keys)

    assert problem.path[2:] == ("image", "family")
    assert "gVNIC" in problem.what
    assert settings(instance_type=machine, image={"family": "cos"}, **keys).image_type == "COS_CONTAINERD"


@pytest.mark.parametrize("machine", ["g2-standard-4", "a2-highgpu-1g", "n1+nvidia-tesla-t4:1"])
def test_older_machines_run_ubuntu(machine: str) -> None:
    assert settings(instance_type=machine, image={"family": "ubuntu"}).image_type == "UBUNTU_CONTAINERD"


@pytest.mark.parametrize(
    "given",
    [
        {"strategy": "BLUE_GREEN", "maxSurge": None, "maxUnavailable": None},
        {"maxSurge": 3},
    ],
    ids=["taken-away", "surge"],
)
def test_upgrades_set_by_hand_that_go_together_pass(given: dict[str, Any]) -> None:
    assert plan(**by_hand(upgradeSettings=given)).set_by_hand
