"""What a resource of Azure Resource Manager without a class of its own is, as far as AKS goes. Pure.

The SDK's `resources.Resource` sends free `properties` to any version of a service's API; type, name and parent are the
parts of its address, which Azure takes in any case
(https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules).
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import UntypedResource, UntypedResourceLookup
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers.azure.pool_plan import MIG_PROFILES_API_VERSION
from gpupools.readback.inputs import at, is_list, text

GENERIC = re.compile(r"azure-native(?:_resources_v\w+)?:resources(?:/v\w+)?:Resource")
"""Type tokens, of every version of the Resource Manager's own API and of SDKs made for one."""

_NVIDIA = "gpuProfile.nvidia"
_SERVICE = "microsoft.containerservice"
_KINDS = {"agentpools": "AgentPool", "managedclusters": "ManagedCluster"}


def aks_kind(inputs: JsonObject) -> str | None:
    """Return `AgentPool` or `ManagedCluster`, what a generic resource is of AKS; None for anything else.

    Args:
        inputs: Inputs of the generic resource in wire names. A namespace that is no text is not known yet, and may be
            the one of AKS.
    """
    kind = inputs.get("resourceType")
    if not isinstance(kind, str):
        return None
    *above, last = kind.strip("/").casefold().split("/")
    namespace = inputs.get("resourceProviderNamespace")
    of_aks = not isinstance(namespace, str) or _SERVICE in (namespace.strip("/").casefold(), *above)
    return _KINDS.get(last) if of_aks else None


DEPLOYMENTS = ("microsoft.resources/deployments", "microsoft.resources/deploymentstacks")
"""Types of resources that create the resources of a template, in small letters."""


def unread(type_token: str, properties: JsonObject) -> str:
    """Return why a generic resource cannot be read; empty where it can, and for any other resource."""
    if not GENERIC.fullmatch(type_token):
        return ""
    if properties.get("resourceType") is UNKNOWN:
        return "resourceType is not known yet"
    return "its template is not read in this form" if _type(properties).casefold() in DEPLOYMENTS else ""


def nested_types(type_token: str, properties: JsonObject) -> Iterator[str]:
    """Yield the type of a generic resource that does not belong to AKS."""
    if GENERIC.fullmatch(type_token) and aks_kind(properties) is None:
        yield f"arm:{_type(properties)}"


def _type(properties: JsonObject) -> str:
    # https://www.pulumi.com/registry/packages/azure-native/api-docs/resources/resource/
    keys = ("resourceProviderNamespace", "parentResourcePath", "resourceType")
    space, above, own = (text(properties.get(key)).strip("/") for key in keys)
    return "/".join(filter(None, (space, *above.split("/")[::2], own)))


NEWER = frozenset(
    {
        "artifactStreamingProfile",
        "enableOSDiskFullCaching",
        "nodeInitializationTaints",
        "preparedImageSpecificationProfile",
        "upgradeSettingsBlueGreen",
        "upgradeStrategy",
        _NVIDIA,
    }
)
"""Properties of an agent pool that later versions of the API have and 2025-09-01 does not
(azure-mgmt-containerservice 40.1.0 and 41.9.0b1)."""

_NVIDIA_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "managementMode": ("Managed", "Unmanaged"),
        "driverMode": ("DevicePlugin", "DRA"),
        "migStrategy": ("None", "Single", "Mixed"),
        "migProfiles": tuple(f"MIG{slices}g" for slices in (1, 2, 3, 4, 7)),
    }
)
"""What `gpuProfile.nvidia` takes; `migProfiles` is a list (azure-mgmt-containerservice 41.9.0b1, NvidiaGPUProfile)."""

_FIRST: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "managementMode": ("2026-01-02-preview", "2026-08-01"),
        "driverMode": ("2026-06-02-preview", ""),
        "migStrategy": ("2026-01-02-preview", ""),
        "migProfiles": (MIG_PROFILES_API_VERSION, ""),
    }
)
"""First preview and first stable version of the API with a key, of those up to `_NEWEST_STABLE`
(azure-mgmt-containerservice 41.1.0b1, 41.7.0b1, 41.8.0b1 and 41.8.0)."""

_NEWEST_STABLE = "2026-08-01"
_VERSION = re.compile(r"\d{4}-\d\d-\d\d(-preview)?")


def untyped_resource(type_token: str) -> UntypedResourceLookup | None:
    """Return what tells agent pools among generic resources: the SDK's own class checks their properties."""
    return _agent_pool if GENERIC.fullmatch(type_token) else None


def _agent_pool(inputs: JsonObject) -> UntypedResource | None:
    if aks_kind(inputs) != "AgentPool":
        return None
    nvidia = at(inputs, "properties.gpuProfile.nvidia")
    if isinstance(nvidia, Mapping):
        nvidia = {key: value for key, value in nvidia.items() if value is not UNKNOWN}
    problems = () if nvidia in (None, UNKNOWN) else nvidia_problems(nvidia, inputs.get("apiVersion"))
    return UntypedResource(
        token="azure-native:containerservice:AgentPool",
        whose="an agent pool",
        inside="properties",
        path_properties=frozenset({"agentPoolName", "azureApiVersion", "resourceGroupName", "resourceName"}),
        newer=NEWER,
        problems=tuple((".".join(filter(None, (_NVIDIA, key))), what, fix) for key, what, fix in problems),
    )


def nvidia_problems(profile: Any, api_version: Any) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with `gpuProfile.nvidia`: the key (empty for the whole), what, and the cure.

    AKS refuses a request with a field that its version of the API does not know
    (https://github.com/Azure/azure-rest-api-specs/issues/40740).

    Args:
        profile: The value; anything.
        api_version: The version it is sent to; one newer than those known here is not judged.
    """
    if not isinstance(profile, Mapping):
        yield "", "is no map", f"give a map with {', '.join(_NVIDIA_WORDS)}"
        return
    for key, value in profile.items():
        if key not in _NVIDIA_WORDS:
            yield key, "gpuProfile.nvidia has no such field", f"use {' or '.join(_NVIDIA_WORDS)}"
        elif not _is_of(_NVIDIA_WORDS[key], value if key == "migProfiles" else [value]):
            several = "a list of " if key == "migProfiles" else ""
            yield key, f"got {shown(value)}", f"write {several}{' or '.join(_NVIDIA_WORDS[key])}"
        elif isinstance(api_version, str) and _VERSION.fullmatch(api_version) and not _knows(key, api_version):
            first = " or ".join(filter(None, _FIRST[key]))
            yield key, f"API version {api_version} does not know it", f"use {first}"


def _is_of(words: tuple[str, ...], values: Any) -> bool:
    return is_list(values) and all(value is UNKNOWN or value in words for value in values)


def _knows(key: str, api_version: str) -> bool:
    preview, stable = _FIRST[key]
    if api_version.endswith("-preview"):
        return api_version >= preview
    return api_version > _NEWEST_STABLE or (stable != "" and api_version >= stable)
