"""Agent pools, as the strict monitor records them, against the models of Azure's own SDK for the same API version."""

import enum
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_overloads

import pytest
from azure.mgmt.containerservice import models
from azure.mgmt.containerservice._configuration import ContainerServiceClientConfiguration
from pulumi_azure_native import containerservice

from tests.providers.azure_pools import TOKEN
from tests.providers.everything import everything

IN_THE_URL = ("resourceGroupName", "resourceName", "agentPoolName")


def body(pool: str) -> dict[str, Any]:
    """Return the body of the request for a pool of the stack file in which every setting occurs."""
    (declared,) = [
        each for each in everything("azure").resources if each.type == TOKEN and each.name == f"serve-{pool}-pool"
    ]
    return {"properties": {key: value for key, value in declared.inputs.items() if key not in IN_THE_URL}}


def wrong(request: Mapping[str, Any]) -> list[str]:
    """Say what the API's model does not take: unknown or read-only fields, other types, ranges, unknown words."""
    try:
        pool = models.AgentPool.from_dict(request)
    except Exception as error:  # whatever the SDK's reader raises is the answer
        return [f"cannot be read: {error}"]
    found = list(words_and_ranges(pool))
    if pool.serialize() != request:
        found.append(f"comes back as {pool.serialize()}")
    return found


def words_and_ranges(model: Any) -> Iterator[str]:
    """Yield the texts that are none of the words the API has for a field, and the numbers outside its range."""
    for name, parameter in inspect.signature(type(model).__init__).parameters.items():
        value = getattr(model, name, None)
        limits = model._validation.get(name, {})
        if isinstance(value, int) and not limits.get("minimum", value) <= value <= limits.get("maximum", value):
            yield f"{name} {value} is not in {limits}"
        kind = re.search(r"_models\.(\w+)", str(parameter.annotation))
        known: Any = getattr(models, kind[1], None) if kind else None
        if isinstance(value, str) and isinstance(known, enum.EnumMeta):
            if value not in (taken := [str(each.value) for each in list[enum.Enum](known)]):
                yield f"{name} {value!r} is none of {taken}"
        elif hasattr(value, "_attribute_map"):
            yield from words_and_ranges(value)


def test_the_models_are_of_the_api_version_the_provider_speaks() -> None:
    configuration: Any = ContainerServiceClientConfiguration
    first, *_ = get_overloads(containerservice.AgentPool.__init__)

    version = configuration(object(), "subscription").api_version

    assert f"Uses Azure REST API version {version}." in str(first.__doc__)


@pytest.mark.parametrize("pool", ["spot", "reserved", "fabric", "hardened", "federal", "renamed"])
def test_akss_own_model_takes_every_pool(pool: str) -> None:
    assert wrong(body(pool)) == []


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"osDiskSizeGB": 4096}, "os_disk_size_gb 4096"),
        ({"count": "many"}, "cannot be read"),
        ({"scaleSetPriority": "Cheap"}, "scale_set_priority 'Cheap'"),
        ({"gpuProfile": {"driver": "Mine"}}, "driver 'Mine'"),
        ({"upgradeSettings": {"maxSurge": 1}}, "comes back as"),
        ({"enableFips": True}, "comes back as"),
        ({"provisioningState": "Succeeded"}, "comes back as"),
    ],
    ids=["range", "type", "word", "inner-word", "number-for-text", "unknown", "read-only"],
)
def test_what_the_api_does_not_take_is_found(properties: dict[str, Any], words: str) -> None:
    assert any(words in problem for problem in wrong({"properties": properties}))
