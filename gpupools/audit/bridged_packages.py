"""Reads resources of Terraform providers that Pulumi bridges on demand, such as `azapi:index/resource:Resource`. Pure.

Their names are Terraform's in camelCase: https://www.pulumi.com/docs/iac/concepts/providers/any-terraform-provider/.
"""

from collections.abc import Iterator
from dataclasses import replace

from gpupools.audit.document import Resource
from gpupools.audit.held_resources import read_types, reader_of_held
from gpupools.audit.terraform_resources import TerraformResource, resources_of
from gpupools.common.json_types import JsonObject
from gpupools.common.naming import snake
from gpupools.plan.pool_facts import PoolFacts
from gpupools.readback.inputs import relocated

_PACKAGES = frozenset({"aws", "azapi", "azurerm", "google", "google-beta"})


def _bridged_resources(type_token: str, properties: JsonObject) -> Iterator[Resource]:
    """Yield what the Terraform readers make of a resource; nothing for one of another package."""
    package, _, rest = type_token.partition(":")
    module, _, name = rest.partition(":")
    if package in _PACKAGES and module.startswith("index/") and name:
        values = {snake(key): value for key, value in properties.items() if isinstance(key, str)}
        kind = f"{package.removesuffix('-beta')}_{snake(name)}"
        yield from resources_of(TerraformResource(kind, "", values), None)


def _read_pools(type_token: str, properties: JsonObject) -> tuple[PoolFacts, ...]:
    place = _in_body if type_token.startswith("azapi:") else str
    return tuple(
        replace(relocated(pool, place, place), no_taint_field=pool.no_taint_field or resource.takes_no_taints)
        for resource in _bridged_resources(type_token, properties)
        if not resource.opaque
        for pool in read_types(resource)
    )


def _in_body(path: str) -> str:
    return f"body.properties.{path.removeprefix('properties.')}"


READER = reader_of_held(
    "azure",
    ("azapi:index/resource:Resource", "azurerm:index/kubernetesClusterNodePool:KubernetesClusterNodePool"),
    _bridged_resources,
)._replace(read_pools=_read_pools)
