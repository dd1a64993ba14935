"""What counts as a GPU pool on Google Cloud: node pools, pools inside a cluster, and node auto-provisioning."""

from fractions import Fraction
from typing import Any

import pytest

from gpupools.base.taints import GPU_TAINT, repels_cpu_pods
from gpupools.planned.pool_facts import UNKNOWN, By, PoolFacts, SharingFacts
from gpupools.providers.gcp import CLOUD
from gpupools.read.inputs import with_taint

POOL = "gcp:container/nodePool:NodePool"
CLUSTER = "gcp:container/cluster:Cluster"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
L4 = {"machineType": "g2-standard-4"}


def read(token: str, properties: Any) -> tuple[PoolFacts, ...]:
    return CLOUD.reading().read_pools(token, properties)


def pool(**config: Any) -> PoolFacts:
    (found,) = read(POOL, {"nodeConfig": config})
    return found


@pytest.mark.parametrize(
    ("cluster", "pools"),
    [
        pytest.param({}, [], id="nothing said"),
        pytest.param({"nodeConfig": L4}, [("default-pool", "nodeConfig.taints", 1, False)], id="the default pool"),
        pytest.param({"nodeConfig": L4, "removeDefaultNodePool": True}, [], id="the default pool goes away"),
        pytest.param(
            {"nodeConfig": L4 | {"taints": [TAINT]}}, [("default-pool", "nodeConfig.taints", 1, True)], id="kept"
        ),
        pytest.param(
            {"nodePools": [{"name": "cpu"}, {"name": "gpu", "nodeConfig": L4}], "nodeConfig": L4},
            [("cpu", "nodePools[0].nodeConfig.taints", 0, False), ("gpu", "nodePools[1].nodeConfig.taints", 1, False)],
            id="pools inside, whose cluster's own configuration does not count",
        ),
        pytest.param({"nodePools": UNKNOWN}, [("", "nodePools.nodeConfig.taints", None, False)], id="not known yet"),
        pytest.param({"enableAutopilot": True, "nodeConfig": L4}, [], id="Autopilot"),
        pytest.param(
            {"clusterAutoscaling": {"enabled": True, "resourceLimits": [{"resourceType": "cpu", "maximum": 64}]}},
            [],
            id="auto-provisioning without GPUs",
        ),
        pytest.param(
            {
                "clusterAutoscaling": {
                    "enabled": True,
                    "resourceLimits": [{"resourceType": "nvidia-l4", "maximum": 8.0}],
                }
            },
            [("node auto-provisioning", "clusterAutoscaling.resourceLimits", None, False)],
            id="auto-provisioning of GPUs",
        ),
        pytest.param(
            {"clusterAutoscaling": {"enabled": True, "resourceLimits": [{"resourceType": "nvidia-l4", "maximum": 0}]}},
            [],
            id="auto-provisioning of no GPU",
        ),
        pytest.param(
            {"clusterAutoscaling": {"enabled": False, "resourceLimits": [{"resourceType": "nvidia-l4", "maximum": 8}]}},
            [],
            id="auto-provisioning is off",
        ),
    ],
)
def test_a_cluster_holds_these_pools(cluster: dict[str, Any], pools: list[tuple[Any, ...]]) -> None:
    found = read(CLUSTER, cluster)

    assert [(one.pool, one.where, one.gpus_per_node, repels_cpu_pods(one.taints)) for one in found] == pools


def test_the_taint_of_arm_nodes_keeps_no_arm_pod_off() -> None:
    arm = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NO_SCHEDULE"}
    alone = pool(machineType="a4x-highgpu-4g", taints=[arm])

    assert alone.lacks_taint
    (said,) = alone.not_counted
    assert said.startswith(
        "nodeConfig.taints: kubernetes.io/arch=arm64:NoSchedule does not keep off pods that select Arm"
    )
    assert not pool(machineType="a4x-highgpu-4g", taints=[arm, TAINT]).lacks_taint


def test_auto_provisioned_pools_have_no_field_for_taints() -> None:
    cluster = {"clusterAutoscaling": {"enabled": True, "resourceLimits": [{"resourceType": "nvidia-l4", "maximum": 8}]}}
    (found,) = read(CLUSTER, cluster)

    assert (found.no_taint_field, found.evidence) == (True, "clusterAutoscaling.resourceLimits[0] nvidia-l4")
    assert with_taint(cluster, found) is None


def test_the_taint_is_added_to_the_pool_at_fault_alone() -> None:
    cluster = {"nodePools": [{"name": "cpu"}, {"name": "gpu", "nodeConfig": L4}]}
    mended = with_taint(cluster, read(CLUSTER, cluster)[1])

    assert mended == {"nodePools": [{"name": "cpu"}, {"name": "gpu", "nodeConfig": L4 | {"taints": [TAINT]}}]}


def test_google_native_has_the_apis_names() -> None:
    config = {
        "machineType": "n1-standard-8",
        "accelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": "2"}],
        "taints": [TAINT],
    }
    (found,) = read("google-native:container/v1:NodePool", {"config": config})
    (inside,) = read("google-native:container/v1beta1:Cluster", {"nodePools": [{"name": "a", "config": config}]})

    assert (found.gpus_per_node, found.taints, found.where) == (Fraction(2), (GPU_TAINT,), "config.taints")
    assert (inside.gpus_per_node, inside.pool, inside.where) == (Fraction(2), "a", "nodePools[0].config.taints")


@pytest.mark.parametrize(
    ("block", "sharing"),
    [
        ({}, None),
        (
            {"gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 4.0}},
            ("time-slicing", 4, ""),
        ),
        ({"gpuSharingConfig": {"gpuSharingStrategy": "MPS", "maxSharedClientsPerGpu": "8"}}, ("mps", 8, "")),
        ({"gpuPartitionSize": "1g.5gb"}, ("mig-single", None, "1g.5gb")),
        (
            {
                "gpuPartitionSize": "1g.5gb",
                "gpuSharingConfig": {"gpuSharingStrategy": "MPS", "maxSharedClientsPerGpu": UNKNOWN},
            },
            ("mig-single+mps", None, "1g.5gb"),
        ),
    ],
    ids=["whole", "time-sharing", "mps", "mig", "mps on mig"],
)
def test_sharing_is_read(block: dict[str, Any], sharing: tuple[str, int | None, str] | None) -> None:
    found = pool(
        machineType="a2-highgpu-1g", guestAccelerators=[{"type": "nvidia-tesla-a100", "count": 1, **block}]
    ).sharing

    assert (found and (found.kind, found.clients, found.profile)) == sharing
    assert found is None or isinstance(found, SharingFacts)


@pytest.mark.parametrize(
    ("config", "owners"),
    [
        ({}, (By.CLOUD, By.CLOUD, By.CLOUD)),
        ({"labels": {"gke-no-default-nvidia-gpu-device-plugin": "true"}}, (By.CLOUD, By.UNSAID, By.NOBODY)),
        (
            {
                "guestAccelerators": [
                    {
                        "type": "nvidia-l4",
                        "count": 1,
                        "gpuDriverInstallationConfig": {"gpuDriverVersion": "INSTALLATION_DISABLED"},
                    }
                ]
            },
            (By.NOBODY, By.CLOUD, By.CLOUD),
        ),
        (
            {
                "guestAccelerators": [
                    {"type": "nvidia-l4", "count": 1, "gpuDriverInstallationConfig": {"gpuDriverVersion": UNKNOWN}}
                ]
            },
            (By.UNSAID, By.CLOUD, By.CLOUD),
        ),
    ],
    ids=["default", "no plugin", "no driver", "late"],
)
def test_the_pool_says_who_owns_driver_toolkit_and_plugin(config: dict[str, Any], owners: tuple[By, By, By]) -> None:
    software = pool(**L4, **config).software

    assert (software.driver, software.container_toolkit, software.device_plugin) == owners


HARDENED = {
    **L4,
    "serviceAccount": "gpu-nodes@ml-dev.iam.gserviceaccount.com",
    "workloadMetadataConfig": {"mode": "GKE_METADATA"},
    "kubeletConfig": {"insecureKubeletReadonlyPortEnabled": "FALSE"},
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, set()),
        ({"serviceAccount": None}, {("node-identity", True)}),
        ({"serviceAccount": "default"}, {("node-identity", True)}),
        ({"serviceAccount": "123-compute@developer.gserviceaccount.com"}, {("node-identity", True)}),
        (
            {"serviceAccount": None, "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"]},
            {("node-identity", True), ("oauth-scopes", True)},
        ),
        ({"oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"]}, set()),
        ({"workloadMetadataConfig": {"mode": "GCE_METADATA"}}, {("metadata-service", True)}),
        ({"metadata": {"a": "b"}}, {("legacy-endpoints", True)}),
        ({"metadata": {"disable-legacy-endpoints": "true"}}, set()),
        ({"shieldedInstanceConfig": {"enableIntegrityMonitoring": False}}, {("integrity-monitoring", True)}),
        ({"imageType": "COS"}, {("retired-image", True)}),
        ({"kubeletConfig": {"insecureKubeletReadonlyPortEnabled": "TRUE"}}, {("kubelet-read-only-port", True)}),
        ({"kubeletConfig": None}, {("kubelet-read-only-port", False)}),
    ],
    ids=[
        "hardened",
        "account unset",
        "default account",
        "default account by its address",
        "broad scope",
        "scope with an account",
        "metadata",
        "legacy endpoints",
        "legacy endpoints off",
        "integrity",
        "docker image",
        "port open",
        "port unset",
    ],
)
def test_a_pool_shows_its_weaknesses(change: dict[str, Any], expected: set[tuple[str, bool]]) -> None:
    properties = {"nodeConfig": HARDENED | change, "networkConfig": {"enablePrivateNodes": True}}
    (found,) = read(POOL, properties)

    assert {(one.name, one.mandatory) for one in found.weaknesses} == expected


@pytest.mark.parametrize(("private", "expected"), [(True, None), (False, True), (None, False)])
def test_public_nodes_are_a_weakness(private: bool | None, expected: bool | None) -> None:
    (found,) = read(POOL, {"nodeConfig": HARDENED, "networkConfig": {"enablePrivateNodes": private}})

    assert [one.mandatory for one in found.weaknesses] == ([] if expected is None else [expected])


@pytest.mark.parametrize(
    ("properties", "bounds"),
    [
        ({"autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 6.0}}, (0, 6, False)),
        ({"autoscaling": {"minNodeCount": 1, "maxNodeCount": 2}}, (1, 2, True)),
        ({"nodeCount": 3}, (3, 3, True)),
        ({}, (None, None, True)),
    ],
    ids=["total", "per zone", "fixed", "none"],
)
def test_bounds_are_read(properties: dict[str, Any], bounds: tuple[int | None, int | None, bool]) -> None:
    (found,) = read(POOL, {"nodeConfig": L4, **properties})

    assert (found.min_nodes, found.max_nodes, found.per_zone) == bounds


def test_a_tpu_is_no_gpu_but_named() -> None:
    found = pool(machineType="ct6e-standard-4t")

    assert (found.gpus_per_node, found.accelerator) == (Fraction(0), "other")
    assert found.other_accelerator == "nodeConfig.machineType ct6e-standard-4t (Google TPU v6e (Trillium))"


def test_the_deletion_policy_protects() -> None:
    assert [read(POOL, {"deletionPolicy": policy})[0].deletion_protected for policy in ("PREVENT", "DELETE")] == [
        True,
        False,
    ]


def test_google_natives_auto_provisioning_has_the_apis_names() -> None:
    scaling = {
        "enableNodeAutoprovisioning": True,
        "resourceLimits": [{"resourceType": "nvidia-l4", "maximum": "8"}],
    }
    (found,) = read("google-native:container/v1:Cluster", {"autoscaling": scaling})
    off = read("google-native:container/v1:Cluster", {"autoscaling": scaling | {"enableNodeAutoprovisioning": False}})

    assert (found.where, found.no_taint_field, off) == ("autoscaling.resourceLimits", True, ())


@pytest.mark.parametrize(
    ("limit", "pools"),
    [
        ({"resourceType": "nvidia-l4", "maximum": UNKNOWN}, 1),
        ({"resourceType": UNKNOWN, "maximum": 8}, 1),
        ({"resourceType": "nvidia-l4"}, 0),
    ],
    ids=["late maximum", "late type", "no maximum"],
)
def test_auto_provisioning_takes_gpus_that_have_a_limit(limit: dict[str, Any], pools: int) -> None:
    scaling = {"enabled": True, "resourceLimits": [limit]}

    assert len(read(CLUSTER, {"clusterAutoscaling": scaling})) == pools


def test_auto_provisioning_that_may_be_off_is_undecided() -> None:
    scaling = {"enabled": UNKNOWN, "resourceLimits": [{"resourceType": "nvidia-l4", "maximum": 8}]}

    assert [one.in_cluster for one in read(CLUSTER, {"clusterAutoscaling": scaling})] == [None]


@pytest.mark.parametrize(
    ("block", "gpus", "unknown"),
    [
        ({"type": UNKNOWN, "count": 1}, None, "nodeConfig.guestAccelerators[0].type"),
        ({"type": "nvidia-l4", "count": UNKNOWN}, None, "nodeConfig.guestAccelerators[0].count"),
        ({"type": UNKNOWN, "count": 0}, 0, ""),
        ({"type": "zones/a/acceleratorTypes/nvidia-l4", "count": 2}, 2, ""),
        ({"type": "ct5lp", "count": 4}, 0, ""),
    ],
    ids=["late type", "late count", "none of a late type", "a long name", "a TPU"],
)
def test_accelerator_blocks_are_counted(block: dict[str, Any], gpus: int | None, unknown: str) -> None:
    found = pool(machineType="n1-standard-8", guestAccelerators=[block])

    assert found.gpus_per_node == (None if gpus is None else Fraction(gpus))
    assert found.unknown == ((unknown,) if unknown else ())


def test_findings_name_the_path_inside_a_cluster() -> None:
    (found,) = read(CLUSTER, {"nodePools": [{"nodeConfig": L4}]})

    assert {one.property for one in found.weaknesses} == {
        "nodePools[0].networkConfig.enablePrivateNodes",
        "nodePools[0].nodeConfig.serviceAccount",
        "nodePools[0].nodeConfig.workloadMetadataConfig.mode",
        "nodePools[0].nodeConfig.kubeletConfig.insecureKubeletReadonlyPortEnabled",
    }


def test_a_part_of_a_gpu_that_nobody_names_is_a_gpu() -> None:
    found = pool(machineType="n2-standard-4", guestAccelerators=[{"count": 1, "gpuPartitionSize": "1g.5gb"}])

    assert found.evidence == "nodeConfig.guestAccelerators 1 × GPU"
    assert found.sharing is not None
    assert found.sharing.said_by == "nodeConfig.guestAccelerators[0].gpuPartitionSize"


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (["nvidia-tesla-t4"], "n1+nvidia-tesla-t4:1"),
        (["nvidia-tesla-t4", "nvidia-tesla-p4"], "n1-standard-8"),
        ([], "n1-standard-8"),
        (["nvidia-tesla-x9000"], "n1-standard-8+nvidia-tesla-x9000:1"),
    ],
    ids=["one kind", "two kinds", "none", "a kind newer than the catalogue"],
)
def test_an_n1_machine_is_named_with_its_accelerator(kinds: list[str], name: str) -> None:
    found = pool(machineType="n1-standard-8", guestAccelerators=[{"type": kind, "count": 1} for kind in kinds])

    assert found.instance_types == (name,)


def test_a_pool_not_known_yet_is_a_pool_so_there_is_no_default_one() -> None:
    found = read(CLUSTER, {"nodePools": [UNKNOWN], "nodeConfig": L4})

    assert [one.where for one in found] == ["nodePools[0].nodeConfig.taints"]


@pytest.mark.parametrize(
    ("scaling", "most", "per_zone"),
    [
        ({"totalMaxNodeCount": 4}, 4, False),
        ({"totalMinNodeCount": 1}, None, False),
        ({"maxNodeCount": 4}, 4, True),
        ({"maxNodeCount": "123456789"}, 123456789, True),
        ({"maxNodeCount": "1234567890"}, None, True),
    ],
    ids=["total", "total minimum", "in each zone", "text", "text of a number beyond any pool"],
)
def test_the_size_is_the_pools_or_that_of_each_zone(scaling: dict[str, Any], most: int | None, per_zone: bool) -> None:
    (found,) = read(POOL, {"autoscaling": scaling, "nodeConfig": L4})

    assert (found.max_nodes, found.per_zone) == (most, per_zone)


EUROPE = ["europe-west4-a", "europe-west4-b"]


@pytest.mark.parametrize(
    ("kind", "given", "zones", "unknown"),
    [
        (POOL, {"location": "europe-west4", "nodeLocations": EUROPE}, 2, False),
        (POOL, {"location": "europe-west4-a"}, 1, False),
        (POOL, {"location": "us-central1", "nodeLocations": ["us-central1-ai1a"]}, 1, False),
        (POOL, {"location": "europe-west4"}, None, False),
        (POOL, {}, None, False),
        (POOL, {"location": UNKNOWN}, None, True),
        (POOL, {"location": "europe-west4", "nodeLocations": UNKNOWN}, None, True),
        (CLUSTER, {"location": "europe-west4", "nodeLocations": EUROPE}, 2, False),
        (CLUSTER, {"location": "europe-west4-c", "nodeLocations": EUROPE}, 3, False),
        (CLUSTER, {"location": "europe-west4-c"}, 1, False),
    ],
    ids=[
        "two",
        "zonal",
        "ai",
        "regional",
        "nothing",
        "late",
        "late-zones",
        "cluster",
        "cluster-and-its-own",
        "its-own",
    ],
)
def test_the_zones_of_a_pool_are_counted(kind: str, given: dict[str, Any], zones: int | None, unknown: bool) -> None:
    (found,) = read(kind, {"nodeConfig": L4, **given})

    assert (found.zones, found.zones_unknown) == (zones, unknown)


def test_a_pool_inside_a_cluster_has_its_own_zones_or_the_clusters() -> None:
    pools = [{"nodeConfig": L4}, {"nodeConfig": L4, "nodeLocations": EUROPE[:1]}]
    found = read(CLUSTER, {"location": "europe-west4", "nodeLocations": EUROPE, "nodePools": pools})

    assert [each.zones for each in found] == [2, 1]


@pytest.mark.parametrize("pools", [[], [{"name": "cpu"}], "x", None], ids=["empty", "short", "text", "none"])
def test_no_taint_is_added_to_a_pool_that_is_not_there(pools: Any) -> None:
    (_, second) = read(CLUSTER, {"nodePools": [{"name": "cpu"}, {"name": "gpu", "nodeConfig": L4}]})

    assert with_taint({"nodePools": pools}, second) is None
