"""AKS-managed GPU nodes: pools that only a newer version of AKS's API is_known_type, as generic resources."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi
import pytest
from azure.mgmt.containerservice import models

from gpupools.common.taints import GPU_TAINT
from gpupools.plan.capability import Verdict
from gpupools.plan.node_labels import GPU_PRESENT_LABEL
from gpupools.plan.pool_facts import UNKNOWN, By
from gpupools.plan.pool_plan import PoolPlan
from gpupools.policies.components import judge_resource
from gpupools.policies.declared_software import read_software
from gpupools.policies.declared_stack import Declared, DeclaredStack
from gpupools.policies.finding import Context
from gpupools.policies.rules import STACK_RULES
from gpupools.preview.sdk_schema import SECRET, SIGNATURE, check_inputs
from gpupools.preview.sdk_schema import UNKNOWN as LATE
from gpupools.providers.azure import CLOUD
from gpupools.providers.azure.arm import NEWER, aks_kind, nvidia_problems
from gpupools.providers.azure.edit_effects import FIXED_AT_CREATION
from gpupools.providers.azure.pool_plan import MANAGED_API_VERSION, MANAGED_MIG_API_VERSION
from gpupools.providers.azure.resources import create_pool
from gpupools.readback.inputs import with_taint
from gpupools.spec.models import SHARING_KINDS
from tests.program_faults import check_property_path
from tests.providers.azure_pools import ADDRESSES, GROUP, SUBNET, TOKEN, aks, options, plan, settings, wire
from tests.providers.declaring import run
from tests.providers.test_azure_api_model import wrong
from tests.rows import each_row

GENERIC = "azure-native:resources:Resource"
ADDRESS = {
    "resourceGroupName": "ml-dev",
    "resourceProviderNamespace": "Microsoft.ContainerService",
    "parentResourcePath": "managedClusters/serve-dev",
    "resourceType": "agentPools",
}
SLICES: Mapping[str, dict[str, Any]] = {
    "single": {"mode": "mig", "profile": "1g.10gb"},
    "mixed": {"mode": "mig", "profile": "1g.10gb", "strategy": "mixed"},
}
MANAGED: dict[str, Any] = {"gpu": "A100-80GB", "software": "cloud-managed", "nodes": {"fixed": 2}}


def managed(cluster: Any = None, name: str = "train", **keys: Any) -> PoolPlan:
    return plan(cluster, name, **(MANAGED | keys))


def cut(sharing: dict[str, Any] | None) -> PoolPlan:
    return managed(sharing=sharing) if sharing else managed()


# --- the plan ---------------------------------------------------------------------------------------------------------


def test_aks_owns_every_piece_of_a_managed_pool() -> None:
    made = managed()

    assert set(made.owners) == {"AKS"}
    assert made.capability.verdict is Verdict.NATIVE
    assert GPU_PRESENT_LABEL not in made.labels


@pytest.mark.parametrize(
    ("sharing", "strategy", "version"),
    [
        (None, None, MANAGED_API_VERSION),
        (SLICES["single"], "Single", MANAGED_MIG_API_VERSION),
        (SLICES["mixed"], "Mixed", MANAGED_MIG_API_VERSION),
    ],
    ids=["whole", "single", "mixed"],
)
def test_slices_alone_need_a_preview_of_the_api(
    sharing: dict[str, Any] | None, strategy: str | None, version: str
) -> None:
    made = settings(cut(sharing))

    assert (made.management_mode, made.mig_strategy, made.api_version) == ("Managed", strategy, version)
    assert made.gpu_driver == "Install"


@pytest.mark.parametrize("software", ["device-plugin", "gpu-operator"])
def test_every_other_software_is_declared_with_the_sdks_own_class(software: str) -> None:
    made = settings(plan(gpu="T4", software=software))

    assert (made.management_mode, made.mig_strategy, made.api_version) == (None, None, None)


def test_it_is_no_default_since_it_is_a_preview_without_autoscaler() -> None:
    assert set(CLOUD.default_software.values()) == {"device-plugin"}


@pytest.mark.parametrize("kind", SHARING_KINDS)
def test_the_matrix_has_whole_gpus_and_slices_and_says_what_works_for_the_rest(kind: str) -> None:
    cell = CLOUD.capabilities["cloud-managed", kind]

    if kind in ("none", "mig-single", "mig-mixed"):
        assert cell.verdict is Verdict.NATIVE
        assert "ManagedGPUExperiencePreview" in cell.why
        assert "nodes.fixed" in cell.why
    else:
        assert cell.verdict is Verdict.REFUSED
        assert cell.instead


# --- the resource -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", [None, *SLICES.values()], ids=["whole", *SLICES])
def test_the_pool_is_addressed_below_its_cluster_and_sends_the_nvidia_profile(sharing: dict[str, Any] | None) -> None:
    made = cut(sharing)
    inputs = wire(made)
    properties = inputs.pop("properties")
    name, version = inputs.pop("resourceName"), inputs.pop("apiVersion")

    nvidia = {"managementMode": "Managed"} | ({"migStrategy": settings(made).mig_strategy} if sharing else {})
    assert inputs == ADDRESS
    assert properties["gpuProfile"] == {"driver": "Install", "nvidia": nvidia}
    assert properties.get("gpuInstanceProfile") == ("MIG1g" if sharing else None)
    assert name.startswith("train")
    assert version == settings(made).api_version


FULL: dict[str, Any] = {
    "instance_type": "Standard_ND96isr_H100_v5",
    "nodes": {"fixed": 3},
    "disk_gib": 512,
    "disk": {"type": "Ephemeral"},
    "image": {"family": "azure-linux"},
    "security": {"secure_boot": True},
    "network": {"rdma": True, "placement": "compact", "max_pods": 40},
    "zones": ["2"],
    "taints": ["team=vision:NoSchedule"],
    "labels": {"example.com/team": "vision"},
    "tags": {"owner": "vision"},
    "upgrade": {"max_surge": 2, "drain_timeout_min": 45},
    "overrides": {"azure": {"AgentPool": {"kubeletConfig": {"podMaxPids": 4096}, "kubeletDiskType": "OS"}}},
}
CLUSTER = {"subnet_id": SUBNET, "proximity_placement_group_id": GROUP}


def full(software: str) -> PoolPlan:
    cluster = aks(**CLUSTER, encryption_at_host=True, ssh_access="Disabled")
    return plan(cluster, "train", **FULL, software=software)


def test_a_managed_pool_has_every_input_the_typed_one_has() -> None:
    addresses = {**ADDRESSES, **CLUSTER}
    properties = wire(full("cloud-managed"), addresses)["properties"]
    expected = wire(full("device-plugin"), addresses)
    for key in ("agentPoolName", "resourceName", "resourceGroupName"):
        del expected[key]
    for each in (properties, expected):
        del each["gpuProfile"]
        each["nodeLabels"] = {**each["nodeLabels"]}
        each["nodeLabels"].pop("gpupools/software")
        each["nodeLabels"].pop(GPU_PRESENT_LABEL, None)

    assert len(properties) > 20
    assert properties == expected
    assert properties["kubeletDiskType"] == "OS"
    assert properties["kubeletConfig"] == {"podMaxPids": 4096}


def test_addresses_that_are_known_late_are_waited_for() -> None:
    def program() -> None:
        late = {key: pulumi.Output.from_input(value) for key, value in {**ADDRESSES, **CLUSTER}.items()}
        create_pool("serve-train", managed(), late, pulumi.ResourceOptions())

    (pool,) = run(program)

    assert {key: pool.inputs[key] for key in ADDRESS} == ADDRESS
    assert pool.inputs["properties"]["vnetSubnetID"] == SUBNET
    assert pool.inputs["resourceName"] == wire(managed(), {**ADDRESSES, **CLUSTER})["resourceName"]


def test_the_options_are_those_of_the_typed_pool_below_properties() -> None:
    merged = options(managed(protect=True, timeouts={"create_min": 70}))
    fixed = merged.replace_on_changes or []

    inside = {path.removeprefix("properties.").partition(".")[0] for path in fixed}
    assert inside == set(FIXED_AT_CREATION)
    assert all(path.startswith("properties.") for path in fixed)
    assert [path for path in fixed if "gpuProfile" in path] == [
        "properties.gpuProfile.driver",
        "properties.gpuProfile.nvidia.managementMode",
        "properties.gpuProfile.nvidia.migStrategy",
    ]
    assert [path for path in fixed if check_property_path(GENERIC, path) is not None] == []
    assert (merged.protect, merged.delete_before_replace) == (True, False)
    assert isinstance(merged.custom_timeouts, pulumi.CustomTimeouts)
    assert merged.custom_timeouts.create == "70m"


def test_the_two_ways_to_name_the_slices_are_two_pools() -> None:
    names = {wire(managed(sharing=sharing))["resourceName"] for sharing in SLICES.values()}

    assert len(names) == 2


# --- what the API takes -----------------------------------------------------------------------------------------------


def body(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request as the API of 2025-09-01 has it: without what is newer."""
    profile = {key: value for key, value in properties["gpuProfile"].items() if key != "nvidia"}
    return {"properties": {**properties, "gpuProfile": profile}}


@pytest.mark.parametrize("sharing", [None, *SLICES.values()], ids=["whole", *SLICES])
def test_akss_own_model_takes_all_but_the_nvidia_profile(sharing: dict[str, Any] | None) -> None:
    made = cut(sharing)

    assert wrong(body(wire(made)["properties"])) == []
    assert wrong(body(wire(full("cloud-managed"), {**ADDRESSES, **CLUSTER})["properties"])) == []


def test_what_is_newer_than_the_sdk_is_nothing_its_api_has() -> None:
    known = {field["key"].removeprefix("properties.") for field in models.AgentPool._attribute_map.values()}

    assert not NEWER & known
    assert not hasattr(models.GPUProfile(), "nvidia")


@pytest.mark.parametrize(
    "name",
    [
        *("artifactStreamingProfile", "enableOSDiskFullCaching", "nodeInitializationTaints"),
        *("preparedImageSpecificationProfile", "upgradeSettingsBlueGreen", "upgradeStrategy", "gpuProfile.nvidia"),
    ],
)
def test_what_later_versions_of_the_api_have_is_taken_for_no_slip(name: str) -> None:
    assert name in NEWER


GOOD = {"driver": "Install", "nvidia": {"managementMode": "Managed"}}


@each_row(
    ("properties", "version", "said"),
    [
        ({"vmSize": "Standard_NC4as_T4_v3", "gpuProfile": GOOD}, "2026-08-01", ""),
        ({"vmSize": LATE, "gpuProfile": LATE}, "2026-08-01", ""),
        ({"gpuProfile": {"nvidia": LATE}}, "2026-08-01", ""),
        ({"gpuProfile": {"nvidia": {"managementMode": LATE}}}, "2026-08-01", ""),
        ({"gpuProfile": {SIGNATURE: SECRET, "value": GOOD}}, "2026-08-01", ""),
        (LATE, "2026-08-01", ""),
        ({"upgradeStrategy": "Rolling"}, "2026-06-02-preview", ""),
        ({"gpuProfile": {"nvidia": {"migStrategy": "Mixed"}}}, "2026-06-02-preview", ""),
        ({"gpuProfile": {"nvidia": {"migStrategy": "Mixed"}}}, "2027-01-01", ""),
        ({"gpuProfile": {"nvidia": {"migStrategy": "Mixed"}}}, LATE, ""),
        (
            {"vm_size": "Standard_NC4as_T4_v3"},
            "2026-08-01",
            "properties.vm_size: an agent pool has no such input; use 'vmSize'",
        ),
        ({"vmSise": "x"}, "2026-08-01", "did you mean 'vmSize'"),
        ({"agentPoolName": "x"}, "2026-08-01", "properties.agentPoolName: an agent pool has no such input"),
        ({"osDiskSizeGB": "200"}, "2026-08-01", "use a whole number"),
        ({"upgradeSettings": {"maxSurg": "1"}}, "2026-08-01", "did you mean 'maxSurge'"),
        ({"gpuProfile": {"nvidia": {"managmentMode": "Managed"}}}, "2026-08-01", "use managementMode or driverMode or"),
        ({"gpuProfile": {"nvidia": {"managementMode": "On"}}}, "2026-08-01", "write Managed or Unmanaged"),
        ({"gpuProfile": {"nvidia": {"managementMode": True}}}, "2026-08-01", "got true"),
        ({"gpuProfile": {"nvidia": "Managed"}}, "2026-08-01", "properties.gpuProfile.nvidia: is no map"),
        ({"gpuProfile": GOOD}, "2025-09-01", "API version 2025-09-01 does not know it; use 2026-01-02-preview or"),
        ({"gpuProfile": GOOD}, "2025-10-02-preview", "API version 2025-10-02-preview does not know it"),
        (
            {"gpuProfile": {"nvidia": {"migStrategy": "Mixed"}}},
            "2026-08-01",
            "API version 2026-08-01 does not know it; use 2026-01-02-preview",
        ),
        ({"gpuProfile": {"nvidia": {"migProfiles": ["MIG3g", "MIG2g", LATE]}}}, "2026-07-02-preview", ""),
        ({"gpuProfile": {"nvidia": {"driverMode": "DRA"}}}, "2026-06-02-preview", ""),
        ({"gpuProfile": {"nvidia": {"migProfiles": ["MIG3g"]}}}, "2026-06-02-preview", "use 2026-07-02-preview"),
        ({"gpuProfile": {"nvidia": {"migProfiles": ["MIG5g"]}}}, "2026-07-02-preview", "write a list of MIG1g or"),
        ({"gpuProfile": {"nvidia": {"driverMode": "DRA"}}}, "2026-08-01", "use 2026-06-02-preview"),
        ("none", "2026-08-01", "properties: must be a map"),
    ],
)
def test_the_strict_monitor_looks_into_the_free_properties(properties: Any, version: str, said: str) -> None:
    inputs = {**ADDRESS, "resourceName": "a", "apiVersion": version, "properties": properties}
    found = [str(problem) for problem in check_inputs(GENERIC, inputs)]

    assert len(found) == bool(said)
    assert said in "".join(found)


def test_other_generic_resources_keep_their_free_properties() -> None:
    inputs = {
        **ADDRESS,
        "resourceProviderNamespace": "Microsoft.Search",
        "apiVersion": "x",
        "properties": {"vmSise": 1},
    }

    assert check_inputs(GENERIC, inputs) == []


@pytest.mark.parametrize("sharing", [None, *SLICES.values()], ids=["whole", *SLICES])
def test_our_own_nvidia_profiles_are_what_their_version_takes(sharing: dict[str, Any] | None) -> None:
    inputs = wire(cut(sharing))

    assert list(nvidia_problems(inputs["properties"]["gpuProfile"]["nvidia"], inputs["apiVersion"])) == []
    assert check_inputs(GENERIC, inputs) == []


# --- read back --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        (ADDRESS, "AgentPool"),
        ({**ADDRESS, "resourceProviderNamespace": "microsoft.containerservice"}, "AgentPool"),
        ({**ADDRESS, "resourceType": "AGENTPOOLS"}, "AgentPool"),
        ({**ADDRESS, "parentResourcePath": "", "resourceType": "managedClusters/serve-dev/agentPools"}, "AgentPool"),
        ({**ADDRESS, "parentResourcePath": "", "resourceType": "/managedclusters/"}, "ManagedCluster"),
        ({**ADDRESS, "resourceProviderNamespace": UNKNOWN, "parentResourcePath": UNKNOWN}, "AgentPool"),
        (
            {
                "resourceProviderNamespace": "",
                "resourceType": "Microsoft.ContainerService/managedClusters/x/agentPools",
            },
            "AgentPool",
        ),
        ({**ADDRESS, "resourceProviderNamespace": "Microsoft.ContainerRegistry"}, None),
        ({**ADDRESS, "resourceType": "maintenanceConfigurations"}, None),
        ({**ADDRESS, "resourceType": UNKNOWN}, None),
        ({**ADDRESS, "resourceType": ["agentPools"]}, None),
        ({}, None),
    ],
)
def test_a_generic_resource_is_known_by_its_type_in_any_case(inputs: dict[str, Any], kind: str | None) -> None:
    assert aks_kind(inputs) == kind


TEXT = str(GPU_TAINT)
T4 = "Standard_NC4as_T4_v3"


@pytest.mark.parametrize(
    "token",
    [GENERIC, "azure-native:resources/v20240301:Resource", "azure-native_resources_v20250401:resources:Resource"],
)
def test_it_is_read_like_the_typed_pool(token: str) -> None:
    properties = wire(managed(sharing=SLICES["mixed"], taints=["team=a:NoSchedule"]))["properties"]
    (typed,) = CLOUD.readback().read_pools(TOKEN, properties)
    (generic,) = CLOUD.readback().read_pools(token, {**ADDRESS, "properties": properties})

    for field in ("gpus_per_node", "taints", "instance_types", "labels", "tags", "min_nodes", "max_nodes", "unknown"):
        assert getattr(generic, field) == getattr(typed, field), field
    assert generic.where == "properties.nodeTaints"
    assert [each.property for each in generic.weaknesses] == [
        f"properties.{each.property}" for each in typed.weaknesses
    ]
    assert generic.sharing is not None
    assert generic.sharing.kind == "mig-mixed"
    assert {generic.software.driver, generic.software.container_toolkit, generic.software.device_plugin} == {By.CLOUD}


def test_an_untainted_one_is_a_violation_that_can_be_mended() -> None:
    inputs = {**ADDRESS, "properties": {"vmSize": T4, "nodeTaints": ["a=b:PreferNoSchedule"]}}
    (pool,) = CLOUD.readback().read_pools(GENERIC, inputs)
    mended = with_taint(inputs, pool)

    assert "gpu-pool-tainted" in {rule.name for rule, _ in judge_resource([pool], None, Context())}
    assert mended == {**ADDRESS, "properties": {"vmSize": T4, "nodeTaints": ["a=b:PreferNoSchedule", TEXT]}}


def test_typed_and_generic_pools_of_a_cluster_are_in_one_cluster() -> None:
    typed = Declared(urn="a", type=TOKEN, inputs={"resourceName": "serve-dev", "vmSize": T4})
    generic = Declared(urn="b", type=GENERIC, inputs={**ADDRESS, "resourceName": "b", "properties": {"vmSize": T4}})
    other = replace(generic, urn="c", inputs={**generic.inputs, "parentResourcePath": "managedClusters/other"})
    values = {"chart": "nvidia-device-plugin", "values": {}}
    chart = Declared(urn="d", type=RELEASE, inputs=values, software=read_software(RELEASE, values))

    def runs(*declared: Declared) -> bool:
        pools = (replace(each, pools=CLOUD.readback().read_pools(each.type, each.inputs)) for each in declared)
        stack = DeclaredStack([*pools, chart])
        return stack.runs_on(stack.cluster_of(declared[0]), stack.origin_of(chart))

    assert runs(typed, generic)
    assert not runs(typed, other)


@pytest.mark.parametrize(
    ("said", "same"),
    [
        ({"name": "serve", "resource_group": "ml", "runtime": {}}, True),
        ({"name": "serve", "resource_group": "other"}, False),
        ({"name": "serve", "resource_group": UNKNOWN}, False),
        ({}, False),
    ],
    ids=["the same", "another", "not known yet", "nothing"],
)
def test_components_say_which_cluster_their_chart_and_pool_are_of(said: dict[str, Any], same: bool) -> None:
    values = {"chart": "gpu-operator", "values": {}}
    pool = {"cloud": "azure", "cluster": {"name": "serve", "resource_group": "ml"}}
    stack = DeclaredStack(
        [
            Declared(urn="pool", type="gpupools:index:GpuNodePool", inputs=pool),
            agent := _pool("serve", parent="pool"),
            _pool("other"),
            Declared(urn="runtime", type="gpupools:index:GpuRuntime", inputs={"cloud": "azure", "cluster": said}),
            chart := Declared(
                urn="d", type=RELEASE, inputs=values, software=read_software(RELEASE, values), parent="runtime"
            ),
        ]
    )

    assert stack.runs_on(stack.cluster_of(agent), stack.origin_of(chart)) is same


def _pool(cluster: str, parent: str = "") -> Declared:
    inputs = {"resourceName": cluster, "vmSize": T4}
    return Declared(
        urn=cluster, type=TOKEN, inputs=inputs, pools=CLOUD.readback().read_pools(TOKEN, inputs), parent=parent
    )


RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.mark.parametrize(
    ("chart", "labels", "found"),
    [
        ("nvidia-device-plugin", {GPU_PRESENT_LABEL: "true"}, True),
        ("gpu-operator", {}, True),
        ("gpu-operator", {"nvidia.com/gpu.deploy.operands": "false"}, False),
    ],
    ids=["plugin", "operator", "operator-kept-off"],
)
def test_a_second_owner_on_managed_nodes_is_found_by_the_policies(
    chart: str, labels: dict[str, str], found: bool
) -> None:
    inputs = {**ADDRESS, "resourceName": "b", "properties": {"vmSize": T4, "gpuProfile": GOOD, "nodeLabels": labels}}
    values = {"chart": chart, "values": {}}
    pool = Declared(urn="b", type=GENERIC, inputs=inputs, pools=CLOUD.readback().read_pools(GENERIC, inputs))
    release = Declared(urn="d", type=RELEASE, inputs=values, software=read_software(RELEASE, values))
    (rule,) = [each for each in STACK_RULES if each.name == "gpu-software-one-owner"]
    assert rule.stack is not None

    said = [finding.what for _, finding in rule.stack(DeclaredStack([pool, release]), Context())]

    assert bool(said) == found
    assert all("managementMode Managed" in what and chart in what for what in said), said
