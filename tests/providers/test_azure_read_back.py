"""What counts as a GPU pool on Azure: agent pools, the pools inside a cluster, and the classic provider's."""

from fractions import Fraction
from typing import Any

import pytest

from gpupools.base.taints import GPU_TAINT, Effect, Taint, repels_cpu_pods
from gpupools.planned.pool_facts import UNKNOWN, By, PoolFacts, SharingFacts
from gpupools.providers.azure import CLOUD
from gpupools.read.inputs import with_taint

POOL = "azure-native:containerservice:AgentPool"
CLUSTER = "azure-native:containerservice:ManagedCluster"
CLASSIC = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
CLASSIC_CLUSTER = "azure:containerservice/kubernetesCluster:KubernetesCluster"
T4 = "Standard_NC4as_T4_v3"
A100 = "Standard_NC24ads_A100_v4"
TEXT = "nvidia.com/gpu=present:NoSchedule"


def read(token: str, properties: Any) -> tuple[PoolFacts, ...]:
    return CLOUD.reading().read_pools(token, properties)


@pytest.mark.parametrize(
    "token",
    [
        CLUSTER,
        "azure-native:containerservice/v20240901:ManagedCluster",
        "azure-native_containerservice_v20260102preview:containerservice:ManagedCluster",
    ],
)
def test_pools_inside_a_cluster_are_read_one_by_one(token: str) -> None:
    profiles = [
        {"name": "system", "vmSize": "Standard_D4s_v5", "nodeTaints": [TEXT]},
        {"name": "gpu", "vmSize": T4, "mode": "User"},
        {"name": "kept", "vmSize": A100, "nodeTaints": [TEXT]},
    ]
    system, gpu, kept = read(token, {"agentPoolProfiles": profiles})

    assert (system.gpus_per_node, gpu.gpus_per_node, kept.gpus_per_node) == (Fraction(0), Fraction(1), Fraction(1))
    assert (gpu.pool, gpu.where, gpu.taints) == ("gpu", "agentPoolProfiles[1].nodeTaints", ())
    assert gpu.evidence == f"agentPoolProfiles[1].vmSize {T4}"
    assert repels_cpu_pods(kept.taints)


def test_the_taint_is_added_to_the_pool_at_fault_alone() -> None:
    profiles = [{"name": "system", "vmSize": "Standard_D4s_v5"}, {"name": "gpu", "vmSize": T4, "nodeTaints": ["a:X"]}]
    cluster = {"agentPoolProfiles": profiles}
    mended = with_taint(cluster, read(CLUSTER, cluster)[1])

    assert mended == {"agentPoolProfiles": [profiles[0], {"name": "gpu", "vmSize": T4, "nodeTaints": ["a:X", TEXT]}]}
    assert cluster == {"agentPoolProfiles": profiles}


@pytest.mark.parametrize(
    ("profiles", "unknown"),
    [
        (UNKNOWN, [("agentPoolProfiles",)]),
        ([{"name": "a", "vmSize": T4}, UNKNOWN], [(), ("agentPoolProfiles[1]",)]),
        ([{"vmSize": UNKNOWN}], [("agentPoolProfiles[0].vmSize",)]),
        ([{"vmSize": T4, "nodeTaints": UNKNOWN}], [("agentPoolProfiles[0].nodeTaints",)]),
        ([{"vmSize": T4, "nodeTaints": [UNKNOWN]}], [("agentPoolProfiles[0].nodeTaints[0]",)]),
        (None, []),
        ("x", []),
        ([None, 3.0], [(), ()]),
    ],
    ids=["all", "one", "a size", "taints", "a taint", "none", "no list", "no pools"],
)
def test_what_is_not_known_yet_is_named(profiles: Any, unknown: list[tuple[str, ...]]) -> None:
    assert [pool.unknown for pool in read(CLUSTER, {"agentPoolProfiles": profiles})] == unknown


def test_the_classic_node_pool_has_its_own_names() -> None:
    given = {
        "vmSize": A100,
        "gpuInstance": "MIG1g",
        "gpuDriver": "None",
        "nodeTaints": [TEXT],
        "autoScalingEnabled": True,
        "minCount": 0.0,
        "maxCount": 3.0,
        "nodePublicIpEnabled": True,
        "nodeLabels": {"a": "b"},
    }
    (pool,) = read(CLASSIC, given)

    assert pool.taints == (GPU_TAINT,)
    assert pool.sharing == SharingFacts("mig-single", profile="MIG1g", said_by="gpuInstance MIG1g")
    assert pool.software.driver is By.NOBODY
    assert (pool.min_nodes, pool.max_nodes, pool.labels) == (0, 3, {"a": "b"})
    assert ("public-address", "nodePublicIpEnabled") in {(one.name, one.property) for one in pool.weaknesses}


@pytest.mark.parametrize(
    ("pool", "taints", "unknown", "no_field"),
    [
        ({"vmSize": T4}, (), (), True),
        ({"vmSize": T4, "nodeTaints": [TEXT]}, (GPU_TAINT,), (), False),
        (
            {"vmSize": T4, "onlyCriticalAddonsEnabled": True},
            (Taint("CriticalAddonsOnly", "true", Effect.NO_SCHEDULE),),
            (),
            True,
        ),
        ({"vmSize": T4, "onlyCriticalAddonsEnabled": False}, (), (), True),
        (
            {"vmSize": T4, "onlyCriticalAddonsEnabled": UNKNOWN},
            (),
            ("defaultNodePool.nodeTaints.onlyCriticalAddonsEnabled",),
            True,
        ),
        (UNKNOWN, (), ("defaultNodePool",), True),
    ],
    ids=["bare", "older version", "add-ons only", "not only", "late", "all late"],
)
def test_the_classic_default_pool_has_one_switch_for_a_taint(
    pool: Any, taints: tuple[Taint, ...], unknown: tuple[str, ...], no_field: bool
) -> None:
    (read_back,) = read(CLASSIC_CLUSTER, {"defaultNodePool": pool})

    assert (read_back.taints, read_back.unknown, read_back.no_taint_field) == (taints, unknown, no_field)
    if no_field:
        assert with_taint({"defaultNodePool": pool}, read_back) is None


def test_a_default_pool_written_as_a_block_is_read_too() -> None:
    (pool,) = read(CLASSIC_CLUSTER, {"defaultNodePool": [{"vmSize": T4}]})

    assert (pool.gpus_per_node, pool.where) == (Fraction(1), "defaultNodePool[0].nodeTaints")


def test_start_up_taints_are_named_as_not_counted() -> None:
    (pool,) = read(POOL, {"vmSize": T4, "nodeInitializationTaints": [TEXT]})

    assert pool.taints == ()
    assert [note.split(":")[0] for note in pool.not_counted] == ["nodeInitializationTaints"]


def test_a_wrong_spelling_is_named_as_not_counted() -> None:
    (pool,) = read(POOL, {"vmSize": T4, "nodeTaints": ["nvidia.com/gpu=present:NO_SCHEDULE", "x", 3.0]})

    assert pool.taints == ()
    assert [note.split(":")[0] for note in pool.not_counted] == ["nodeTaints[0]", "nodeTaints[1]", "nodeTaints[2]"]
    assert "use NoSchedule" in pool.not_counted[0]


@pytest.mark.parametrize(
    ("size", "accelerator", "key"),
    [
        (T4, "nvidia", "nvidia.com/gpu"),
        ("Standard_ND96isr_MI300X_v5", "amd", "amd.com/gpu"),
        ("Standard_NP10s", "other", "nvidia.com/gpu"),
        ("Standard_D4s_v5", "", "nvidia.com/gpu"),
    ],
)
def test_the_vendor_decides_the_taints_key(size: str, accelerator: str, key: str) -> None:
    (pool,) = read(POOL, {"vmSize": size})

    assert (pool.accelerator, pool.missing_taint.value) == (accelerator, f"{key}=present:NoSchedule")
    assert bool(pool.other_accelerator) == (accelerator == "other")


@pytest.mark.parametrize(
    ("properties", "owners"),
    [
        ({}, (By.CLOUD, By.CLOUD, By.NOBODY)),
        ({"gpuProfile": {"driver": "Install"}}, (By.CLOUD, By.CLOUD, By.NOBODY)),
        ({"gpuProfile": {"driver": "None"}}, (By.NOBODY, By.UNSAID, By.NOBODY)),
        ({"tags": {"skipGPUDriverInstall": "true"}}, (By.NOBODY, By.UNSAID, By.NOBODY)),
        ({"securityProfile": {"enableSecureBoot": True}}, (By.NOBODY, By.CLOUD, By.NOBODY)),
        ({"securityProfile": {"enableSecureBoot": False}}, (By.CLOUD, By.CLOUD, By.NOBODY)),
        ({"securityProfile": {"enableSecureBoot": True}, "osSKU": "AzureLinux3"}, (By.CLOUD, By.CLOUD, By.NOBODY)),
        ({"gpuProfile": {"nvidia": {"managementMode": "Managed"}}}, (By.CLOUD, By.CLOUD, By.CLOUD)),
        ({"gpuProfile": {"driver": UNKNOWN}}, (By.UNSAID, By.UNSAID, By.UNSAID)),
    ],
    ids=["unset", "install", "none", "tag", "secure boot", "no secure boot", "signed", "managed", "late"],
)
def test_the_gpu_profile_says_who_owns_driver_toolkit_and_plugin(
    properties: dict[str, Any], owners: tuple[By, By, By]
) -> None:
    (pool,) = read(POOL, {"vmSize": T4, **properties})

    assert (pool.software.driver, pool.software.container_toolkit, pool.software.device_plugin) == owners


HARDENED = {"vmSize": T4, "enableEncryptionAtHost": True, "securityProfile": {"sshAccess": "Disabled"}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, set()),
        ({"enableNodePublicIP": True}, {("public-address", True)}),
        ({"enableNodePublicIP": UNKNOWN}, {("public-address", True)}),
        ({"enableNodePublicIP": False}, set()),
        ({"nodePublicIPPrefixID": "/subscriptions/x"}, {("public-address", True)}),
        ({"enableEncryptionAtHost": None}, {("disk-encryption", False)}),
        ({"securityProfile": {"sshAccess": "LocalUser"}}, {("remote-access", False)}),
        ({"osSKU": "CBLMariner"}, {("retired-image", True)}),
        ({"tags": {"owner": "a", "SkipGPUDriverInstall": "true"}}, {("retired-tag", False)}),
        ({"osSKU": "Ubuntu"}, set()),
    ],
    ids=["hardened", "public", "late", "private", "prefix", "encryption", "ssh", "image", "tag", "ubuntu"],
)
def test_a_pool_shows_its_weaknesses(change: dict[str, Any], expected: set[tuple[str, bool]]) -> None:
    (pool,) = read(POOL, HARDENED | change)

    assert {(one.name, one.mandatory) for one in pool.weaknesses} == expected
    assert all(one.unverified is (UNKNOWN in change.values()) for one in pool.weaknesses)


@pytest.mark.parametrize(
    ("scaling", "bounds"),
    [
        ({"enableAutoScaling": True, "minCount": 1, "maxCount": 4, "count": 2}, (1, 4)),
        ({"enableAutoScaling": False, "minCount": 1, "maxCount": 4, "count": 2}, (2, 2)),
        ({"count": 2.0}, (2, 2)),
        ({}, (None, None)),
    ],
    ids=["scaled", "fixed", "count alone", "unset"],
)
def test_bounds_are_read(scaling: dict[str, Any], bounds: tuple[int | None, int | None]) -> None:
    (pool,) = read(POOL, {"vmSize": T4, **scaling})

    assert (pool.min_nodes, pool.max_nodes) == bounds


def test_machines_of_a_pool_without_scale_set_are_named() -> None:
    machines = {"scale": {"manual": [{"size": "Standard_D4s_v5", "count": 1}, {"size": T4, "count": 1}]}}
    (pool,) = read(CLUSTER, {"agentPoolProfiles": [{"virtualMachinesProfile": machines}]})
    (late,) = read(POOL, {"virtualMachinesProfile": {"scale": UNKNOWN}})

    assert pool.evidence == f"agentPoolProfiles[0].virtualMachinesProfile {T4}"
    assert (late.gpus_per_node, late.unknown) == (None, ("virtualMachinesProfile",))


@pytest.mark.parametrize(
    ("profile", "kind"), [("MIG2g", "mig-single"), ("", None), (UNKNOWN, None), (3.0, None), (None, None)]
)
def test_the_gpu_instance_profile_is_read(profile: Any, kind: str | None) -> None:
    (pool,) = read(POOL, {"gpuInstanceProfile": profile})

    assert (pool.sharing and pool.sharing.kind) == kind
    assert bool(pool.evidence) == (kind is not None)
    assert pool.unknown == (("gpuInstanceProfile",) if profile is UNKNOWN else ())


def test_findings_name_the_path_inside_a_cluster() -> None:
    (pool,) = read(CLUSTER, {"agentPoolProfiles": [{"vmSize": T4, "enableNodePublicIP": True}]})

    assert {one.property for one in pool.weaknesses} == {
        "agentPoolProfiles[0].enableNodePublicIP",
        "agentPoolProfiles[0].enableEncryptionAtHost",
        "agentPoolProfiles[0].securityProfile.sshAccess",
    }
    assert {(one.property.rpartition(".")[2], one.found) for one in pool.weaknesses} == {
        ("enableNodePublicIP", "true"),
        ("enableEncryptionAtHost", "unset"),
        ("sshAccess", "unset"),
    }


@pytest.mark.parametrize(
    ("change", "weak"),
    [
        ({"enableNodePublicIp": True}, "public-address"),
        ({"nodePublicIpPrefixId": "/subscriptions/x"}, "public-address"),
        ({"enableHostEncryption": False}, "disk-encryption"),
        ({"osSku": "Mariner"}, "retired-image"),
    ],
    ids=["public", "prefix", "encryption", "image"],
)
def test_older_versions_of_the_classic_provider_have_other_names(change: dict[str, Any], weak: str) -> None:
    hardened = {"vmSize": T4, "enableHostEncryption": True}
    (fine,) = read(CLASSIC, hardened)
    (pool,) = read(CLASSIC, hardened | change)

    assert fine.weaknesses == ()
    assert [one.name for one in pool.weaknesses] == [weak]
    assert read(CLASSIC, {"enableAutoScaling": True, "minCount": 1, "maxCount": 4})[0].max_nodes == 4


@pytest.mark.parametrize(
    ("token", "key"),
    [
        (CLASSIC, "hostEncryptionEnabled"),
        (CLASSIC, "enableHostEncryption"),
        (POOL, "enableEncryptionAtHost"),
    ],
)
@pytest.mark.parametrize("on", [True, False])
def test_the_disks_of_the_host_are_encrypted_by_any_of_its_names(token: str, key: str, on: bool) -> None:
    (found,) = read(token, {"vmSize": T4, key: on})

    assert any("ncryption" in one.property for one in found.weaknesses) is not on


def test_a_retired_image_is_shown() -> None:
    (found,) = read(POOL, {"vmSize": T4, "osSKU": "CBLMariner"})

    assert ["CBLMariner" in one.found for one in found.weaknesses if one.name == "retired-image"] == [True]


@pytest.mark.parametrize(
    ("scaling", "sizes"),
    [({}, (1, 4)), ({"enableAutoScaling": True}, (1, 4)), ({"enableAutoScaling": False}, (2, 2))],
    ids=["unsaid", "on", "off"],
)
def test_bounds_count_unless_scaling_is_off(scaling: dict[str, Any], sizes: tuple[int, int]) -> None:
    (found,) = read(POOL, {"vmSize": T4, "minCount": 1, "maxCount": 4, "count": 2, **scaling})

    assert (found.min_nodes, found.max_nodes) == sizes
