"""Reads AKS node pools back from the properties they were declared with. Pure, and never raises.

Read are agent pools and the pools inside a managed cluster of `azure-native` in every API version, the same as generic
resources of Azure Resource Manager, and the classic provider's node pool and default node pool.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from string import ascii_letters
from typing import Any

from gpupools.common.json_types import JsonObject
from gpupools.common.taints import HARD_EFFECTS, Effect, Taint
from gpupools.plan.cloud import KubernetesObjects, Readback
from gpupools.plan.pool_facts import NO_ACCELERATOR, UNKNOWN, Accelerator, By, PoolFacts, SharingFacts, SoftwareHints
from gpupools.providers.azure import arm
from gpupools.providers.azure.arm import GENERIC, aks_kind
from gpupools.providers.azure.karpenter import KARPENTER
from gpupools.providers.azure.machines import GRID_MODELS, INSTANCE_TYPES
from gpupools.providers.azure.node_customization import customizations, node_customizations
from gpupools.readback.inputs import (
    Hardening,
    Machines,
    TaintsRead,
    as_text,
    at,
    controls,
    flag,
    is_list,
    items,
    listed_accelerator,
    mapping,
    number,
    pool_facts,
    retired_machines,
    string_map,
    text,
    wanted_taint,
)

# Tokens of older API versions too, and of SDKs made with `pulumi package add azure-native containerservice <version>`.
_NATIVE = re.compile(r"azure-native(?:_containerservice_v\w+)?:containerservice(?:/v\w+)?:(AgentPool|ManagedCluster)")
_CLASSIC_POOL = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"
_CLASSIC_CLUSTER = "azure:containerservice/kubernetesCluster:KubernetesCluster"

# NC, NCC, ND and NV sizes carry NVIDIA GPUs except those named after an accelerator of AMD or Graphcore, so a size
# newer than the catalogue counts: https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions.
_NVIDIA_FAMILY = re.compile(r"standard_n(?:cc?|d|v)\d\w*", re.IGNORECASE)

_NVIDIA = "gpuProfile.nvidia"
_MANAGED_TAG = "enablemanagedgpuexperience"  # Azure's tag names know no case
_SKIP_TAG = "skipgpudriverinstall"

_TAINTS = "https://learn.microsoft.com/azure/aks/use-node-taints"


@dataclass(frozen=True)
class _Names:
    """How one provider calls the properties of a pool; the first name given counts."""

    provider: str
    """Pulumi package, the group of its controls."""
    profile: str
    driver: str
    scaling: tuple[str, ...]
    count: str
    os: str


_NATIVE_NAMES = _Names(
    provider="azure-native",
    profile="gpuInstanceProfile",
    driver="gpuProfile.driver",
    scaling=("enableAutoScaling",),
    count="count",
    os="osSKU",
)
# Versions 5 and 6 of the provider differ: https://github.com/hashicorp/terraform-provider-azurerm, docs of
# kubernetes_cluster_node_pool.
_CLASSIC_NAMES = _Names(
    provider="azure",
    profile="gpuInstance",
    driver="gpuDriver",
    scaling=("autoScalingEnabled", "enableAutoScaling"),
    count="nodeCount",
    os="osSku",
)


def accelerator(size: str) -> Accelerator:
    """Return the accelerator of a size, by its name."""
    named = Accelerator("nvidia", None) if _NVIDIA_FAMILY.fullmatch(size) else NO_ACCELERATOR
    return listed_accelerator(INSTANCE_TYPES, INSTANCE_TYPES.find(size), _vendor_case(size)) or named


def read_pools(type_token: str, properties: JsonObject) -> tuple[PoolFacts, ...]:
    """Read the pools a declared resource holds; nothing for a resource without.

    Args:
        type_token: Pulumi type token.
        properties: Wire properties; what is not known yet is `UNKNOWN`, at any depth.
    """
    if not isinstance(type_token, str):
        return ()
    given = mapping(properties)
    native = _NATIVE.fullmatch(type_token)
    if native is not None and native[1] == "AgentPool":
        return (_pool(given, _NATIVE_NAMES),)
    if native is not None:
        return tuple(_profiles(given.get("agentPoolProfiles")))
    if GENERIC.fullmatch(type_token):
        return tuple(_generic(given))
    if type_token == _CLASSIC_POOL:
        return (_pool(given, _CLASSIC_NAMES),)
    if type_token == _CLASSIC_CLUSTER:
        default = given.get("defaultNodePool")
        pool = default[0] if is_list(default) and default else default  # a block is a list of one in Terraform's plans
        at_path = "defaultNodePool[0]." if is_list(default) else "defaultNodePool."
        return (_default_pool(pool, at_path),) if pool is not None else ()
    return ()


def _generic(given: JsonObject) -> Iterator[PoolFacts]:
    kind, properties = aks_kind(given), given.get("properties")
    if kind == "ManagedCluster":
        inside = UNKNOWN if properties is UNKNOWN else mapping(properties).get("agentPoolProfiles")
        yield from _profiles(inside, "properties.agentPoolProfiles")
    elif kind == "AgentPool" and properties is UNKNOWN:
        yield PoolFacts("azure", (), None, (), unknown=("properties",), where="properties.nodeTaints")
    elif kind == "AgentPool":
        yield _pool(mapping(properties), _NATIVE_NAMES, "properties.")


def _profiles(profiles: object, path: str = "agentPoolProfiles") -> Iterator[PoolFacts]:
    late: list[str] = []
    for where, one in items(profiles, path, late):
        given = mapping(one)
        yield _pool(given, _NATIVE_NAMES, f"{where}.", text(given.get("name")))
    for unknown in late:
        yield PoolFacts("azure", (), None, (), unknown=(unknown,), where=f"{unknown}.nodeTaints")


def _default_pool(pool: object, prefix: str) -> PoolFacts:
    """Read the classic provider's default pool, which has no field for taints since version 6.

    Its one switch for a taint is `onlyCriticalAddonsEnabled`: https://github.com/hashicorp/terraform-provider-azurerm,
    website/docs/r/kubernetes_cluster.html.markdown.
    """
    given = mapping(pool)
    found = _pool(given, _CLASSIC_NAMES, prefix, text(given.get("name")))
    taints, unknown = found.taints, found.unknown
    only_addons = given.get("onlyCriticalAddonsEnabled")
    if flag(only_addons) is True:
        taints = (*taints, Taint("CriticalAddonsOnly", "true", Effect.NO_SCHEDULE))
    elif only_addons is UNKNOWN:
        unknown = (*unknown, f"{prefix}nodeTaints.onlyCriticalAddonsEnabled")
    if pool is UNKNOWN:
        unknown = (prefix.rstrip("."),)
    return replace(
        found,
        taints=taints,
        unknown=unknown,
        gpus_per_node=None if pool is UNKNOWN else found.gpus_per_node,
        no_taint_field="nodeTaints" not in given,
    )


def _pool(given: JsonObject, names: _Names, prefix: str = "", pool: str = "") -> PoolFacts:
    machines = Machines()
    for path, size in _sizes(given, machines.unknown, prefix):
        row = INSTANCE_TYPES.find(size)
        machines.add(row.name if row is not None else size, accelerator(size), path)
    profile = given.get(names.profile)
    if isinstance(profile, str) and profile:
        machines.show(Accelerator("nvidia", None), f"{prefix}{names.profile} {profile}")
    elif profile is UNKNOWN and not machines.names:
        machines.unknown.append(f"{prefix}{names.profile}")
    read = TaintsRead()
    read.texts(given.get("nodeTaints"), f"{prefix}nodeTaints")
    system = text(given.get("mode")).casefold() == "system"
    if system:
        _drop_rejected_taints(read, f"{prefix}nodeTaints")
    if given.get("nodeInitializationTaints"):
        what = "are removed after the start of a node, so they keep nobody off"
        read.note(f"{prefix}nodeInitializationTaints: {what} ({_TAINTS})")
    hardening = Hardening()
    _harden(given, names, prefix, hardening)
    retired_machines(machines.names, INSTANCE_TYPES, f"{prefix}vmSize", hardening)
    scales = flag(next((given[name] for name in names.scaling if given.get(name) is not None), None))
    bounds = ("minCount", "maxCount") if scales or scales is None else (names.count, names.count)
    least, most = (number(given.get(key)) for key in bounds)
    is_grid = any(name in INSTANCE_TYPES and INSTANCE_TYPES[name].gpu_model in GRID_MODELS for name in machines.names)
    software = _software(given, names, prefix, machines.accelerator)
    return replace(
        pool_facts("azure", machines, read, hardening),
        pool=pool,
        where=f"{prefix}nodeTaints",
        missing_taint=as_text(wanted_taint(machines.accelerator)),
        software=replace(software, needs_cloud_driver=is_grid),
        sharing=_sharing(profile, f"{prefix}{names.profile}", given, prefix),
        is_spot=text(given.get("scaleSetPriority")) == "Spot",
        min_nodes=least if least is not None else number(given.get(names.count)),
        max_nodes=most if most is not None else number(given.get(names.count)),
        labels=string_map(given.get("nodeLabels")),
        tags=string_map(given.get("tags")),
        node_customizations=tuple(node_customizations(given, prefix)),
        no_taint_field=system,
    )


def _drop_rejected_taints(read: TaintsRead, path: str) -> None:
    """Leave out the taints that AKS refuses on a pool of mode System (`SystemPoolHasRestrictedTaint`).

    https://github.com/Azure/AKS/issues/2578; unchanged in https://github.com/istio/istio.io/issues/16905 of 2025-10.
    """
    refused = [taint for taint in read.taints if taint.key != "CriticalAddonsOnly" and taint.effect in HARD_EFFECTS]
    for taint in refused:
        read.taints.remove(taint)
        read.note(f"{path}: AKS refuses {taint.key} on a pool of mode System, which takes its own pods")


def _sizes(given: JsonObject, unknown: list[str], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the sizes of the pool's machines: one for a scale set, several for a pool of type VirtualMachines."""
    size = given.get("vmSize")
    if isinstance(size, str):
        yield f"{prefix}vmSize", size
    elif size is not None:  # what is no text cannot be judged either
        unknown.append(f"{prefix}vmSize")
    # Every `size` in there, whatever an API version puts around it: `scale.manual`, `scale.autoscale`, …
    path = f"{prefix}virtualMachinesProfile"
    inside: list[Any] = [given.get("virtualMachinesProfile")]
    while inside:
        value = inside.pop()
        if isinstance(value, Mapping):
            several: Any = value.get("sizes")  # of the previews of 2023 and 2024
            for named in (value.get("size"), *(several if is_list(several) else ())):
                if isinstance(named, str):
                    yield path, named
            inside.extend(inner for key, inner in value.items() if key != "size" or not isinstance(inner, str))
        elif is_list(value):
            inside.extend(value)
        elif value is UNKNOWN and path not in unknown:
            unknown.append(path)


def _sharing(profile: object, path: str, given: JsonObject, prefix: str) -> SharingFacts | None:
    """Read how the pool cuts its GPUs; sharing without cutting is not a field of AKS."""
    several = at(given, f"{_NVIDIA}.migProfiles")
    if is_list(several) and several:
        profile, path = ", ".join(dict.fromkeys(map(text, several))), f"{prefix}{_NVIDIA}.migProfiles"
    if not isinstance(profile, str) or not profile:
        return None
    kind = "mig-mixed" if text(at(given, f"{_NVIDIA}.migStrategy")).casefold() == "mixed" else "mig-single"
    return SharingFacts(kind, profile=profile, said_by=f"{path} {profile}")


def _software(given: JsonObject, names: _Names, prefix: str, vendor: str) -> SoftwareHints:
    """Read who brings driver and plugin: https://learn.microsoft.com/azure/aks/use-nvidia-gpu."""
    if vendor not in ("nvidia", "amd"):
        return SoftwareHints()
    # AKS-managed GPU nodes, by the field and by the tag that was its switch before
    # (https://learn.microsoft.com/azure/aks/aks-managed-gpu-nodes, Azure/AKS
    # website/blog/2025-12-05-kubernetes-ai-conformance-aks/index.md); driver None does not count beside it.
    mode = at(given, f"{_NVIDIA}.managementMode")
    if text(mode).casefold() == "managed":
        if text(at(given, f"{_NVIDIA}.driverMode")) == "DRA":  # a DRA driver instead of the device plugin
            return SoftwareHints(By.CLOUD, By.CLOUD, By.UNSAID, (f"{prefix}{_NVIDIA}.driverMode DRA",))
        return SoftwareHints(By.CLOUD, By.CLOUD, By.CLOUD, (f"{prefix}{_NVIDIA}.managementMode Managed",))
    for tag, value in string_map(given.get("tags")).items():
        if (tag.casefold(), value.casefold()) == (_MANAGED_TAG, "true"):
            return SoftwareHints(By.CLOUD, By.CLOUD, By.CLOUD, (f"{prefix}tags.{tag} {value}",))
    if mode is UNKNOWN:
        return SoftwareHints()
    driver = at(given, names.driver)
    if driver == "None":
        # Whether the image keeps the container toolkit then is described both ways by Microsoft and NVIDIA.
        return SoftwareHints(By.NOBODY, By.UNSAID, By.NOBODY, (f"{prefix}{names.driver} None",))
    skipped = next((tag for tag in string_map(given.get("tags")) if tag.casefold() == _SKIP_TAG), None)
    if skipped is not None:
        return SoftwareHints(By.NOBODY, By.UNSAID, By.NOBODY, (f"{prefix}tags.{skipped}",))
    secure = flag(at(given, "securityProfile.enableSecureBoot")) is True
    if secure and vendor == "nvidia" and not text(given.get(names.os)).startswith("AzureLinux"):
        # https://learn.microsoft.com/azure/aks/use-trusted-launch: the driver on Ubuntu is not signed
        said = f"{prefix}securityProfile.enableSecureBoot true, and AKS's driver on Ubuntu is not signed"
        return SoftwareHints(By.NOBODY, By.CLOUD, By.NOBODY, (said,))
    if driver is None or driver == "Install":
        said = f"{prefix}{names.driver} {driver or 'unset'}"
        # AKS installs no driver for AMD: https://learn.microsoft.com/azure/aks/use-amd-gpus
        owner = By.CLOUD if vendor == "nvidia" else By.NOBODY
        return SoftwareHints(owner, owner, By.NOBODY, (said,))
    return SoftwareHints()


def _harden(given: JsonObject, names: _Names, prefix: str, hardening: Hardening) -> None:
    rows = controls(__package__)
    hardening.check(given, rows[names.provider], prefix)
    for tag, value in string_map(given.get("tags")).items():
        row = rows["driver tag"][0]._replace(wanted=f"{names.driver} None, in place of the tag")
        hardening.judge(row, value, tag.casefold() != _SKIP_TAG, f"{prefix}tags.{tag}")


def _vendor_case(size: str) -> str:
    """Write a size the way Azure's pages do: `standard_nd96isr_mi300x_v5` as `Standard_ND96isr_MI300X_v5`."""
    tier, _, name = size.partition("_")
    after = name.lstrip(ascii_letters)
    family, (features, *rest) = name.removesuffix(after), after.split("_")
    words = [word.lower() if re.fullmatch(r"[vV]\d{1,2}", word) else word.upper() for word in rest]
    return "_".join([tier.capitalize(), family.upper() + features.lower(), *words])


TYPES = (
    "azure-native:containerservice:AgentPool",
    "azure-native:containerservice:ManagedCluster",
    "azure-native:resources:Resource",
    *(_CLASSIC_POOL, _CLASSIC_CLUSTER),
)
"""Type tokens that are read, for people: of `azure-native` those of every version of the API are."""

READBACK = Readback(
    read_pools=read_pools,
    accelerator=accelerator,
    customizations=customizations,
    unread=arm.unread,
    nested_types=arm.nested_types,
    types=TYPES,
    objects=KubernetesObjects(karpenter=KARPENTER),
)
