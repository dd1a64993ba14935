"""Reads resources of Terraform providers that Pulumi bridges on demand, such as `azapi:index/resource:Resource`. Pure.

Their names are Terraform's in camelCase: https://www.pulumi.com/docs/iac/concepts/providers/any-terraform-provider/.
"""

from collections.abc import Iterator
from dataclasses import replace

from gpupools.audit import arm_resources, cloudformation_resources
from gpupools.audit.document import Resource
from gpupools.audit.terraform_names import snake
from gpupools.audit.terraform_resources import TerraformResource, resources_of
from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Readback
from gpupools.plan.pool_facts import PoolFacts
from gpupools.providers import clouds
from gpupools.readback.inputs import relocated
from gpupools.readback.registry import TypeReader

_PACKAGES = frozenset({"aws", "azapi", "azurerm", "google", "google-beta"})


def _resources(type_token: str, properties: JsonObject) -> Iterator[Resource]:
    """Yield what the Terraform readers make of a resource; nothing for one of another package."""
    package, _, rest = type_token.partition(":")
    module, _, name = rest.partition(":")
    if package in _PACKAGES and module.startswith("index/") and name:
        values = {snake(key): value for key, value in properties.items() if isinstance(key, str)}
        kind = f"{package.removesuffix('-beta')}_{snake(name)}"
        yield from resources_of(TerraformResource(kind, "", values), None)


def _readers() -> tuple[Readback | TypeReader, ...]:
    own = (cloud.readback() for cloud in clouds().values())
    return (*own, arm_resources.READER, cloudformation_resources.READER)


def _read_pools(type_token: str, properties: JsonObject) -> tuple[PoolFacts, ...]:
    place = _in_body if type_token.startswith("azapi:") else str
    return tuple(
        replace(relocated(pool, place, place), no_taint_field=pool.no_taint_field or each.takes_no_taints)
        for each in _resources(type_token, properties)
        if not each.opaque
        for reader in _readers()
        for pool in reader.read_pools(each.type, each.inputs)
    )


def _in_body(path: str) -> str:
    return f"body.properties.{path.removeprefix('properties.')}"


def _unread(type_token: str, properties: JsonObject) -> str:
    found: Iterator[str] = (
        each.opaque or reader.unread(each.type, each.inputs)
        for each in _resources(type_token, properties)
        for reader in _readers()
    )
    return next(filter(None, found), "")


def _nested_types(type_token: str, properties: JsonObject) -> Iterator[str]:
    for each in _resources(type_token, properties):
        if each.type.startswith(("arm:", "terraform:")):
            yield each.type
        for reader in _readers():
            yield from reader.nested_types(each.type, each.inputs)


READER = TypeReader(
    cloud="azure",
    types=("azapi:index/resource:Resource", "azurerm:index/kubernetesClusterNodePool:KubernetesClusterNodePool"),
    read_pools=_read_pools,
    unread=_unread,
    nested_types=_nested_types,
)
