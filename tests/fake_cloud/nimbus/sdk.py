"""What a cloud's SDK is to Pulumi: two resources and their inputs, registered by their type tokens."""

from collections.abc import Mapping
from typing import Any, overload

import pulumi


@pulumi.input_type
class NodePoolArgs:
    """Inputs of a node pool."""

    def __init__(self, **inputs: Any) -> None:
        for name, value in inputs.items():
            pulumi.set(self, name, value)

    cluster: pulumi.Input[str] = pulumi.property("cluster")
    machine: pulumi.Input[str] = pulumi.property("machine")
    count: pulumi.Input[Mapping[str, int]] = pulumi.property("count")
    disk_gib: pulumi.Input[int] | None = pulumi.property("diskGib")
    labels: pulumi.Input[Mapping[str, str]] | None = pulumi.property("labels")
    taints: pulumi.Input[list[Any]] | None = pulumi.property("taints")
    image: pulumi.Input[str] | None = pulumi.property("image")
    tags: pulumi.Input[Mapping[str, str]] | None = pulumi.property("tags")
    time_slices: pulumi.Input[int] | None = pulumi.property("timeSlices")
    startup_script: pulumi.Input[str] | None = pulumi.property("startupScript")


class NodePool(pulumi.CustomResource):
    """A node pool."""

    @overload
    def __init__(self, name: str, args: NodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...
    @overload
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, **inputs: Any) -> None: ...
    def __init__(self, name: str, *args: Any, **inputs: Any) -> None:
        opts = inputs.pop("opts", None)
        super().__init__("nimbus:index:NodePool", name, NodePoolArgs(**inputs), opts)  # type: ignore[arg-type]


@pulumi.input_type
class ProviderArgs:
    """Inputs of the provider."""

    def __init__(self, region: pulumi.Input[str]) -> None:
        pulumi.set(self, "region", region)

    region: pulumi.Input[str] = pulumi.property("region")


class Provider(pulumi.ProviderResource):
    """The provider of one region."""

    @overload
    def __init__(self, name: str, args: ProviderArgs, opts: pulumi.ResourceOptions | None = None) -> None: ...
    @overload
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, *, region: pulumi.Input[str]) -> None: ...
    def __init__(self, name: str, *args: Any, **inputs: Any) -> None:
        opts = inputs.pop("opts", None)
        super().__init__("nimbus", name, inputs, opts)


class _Registered(pulumi.runtime.ResourceModule, pulumi.runtime.ResourcePackage):
    """The SDK as Pulumi and the strict monitor find it."""

    mod_info = {"fqn": __name__, "classes": {"nimbus:index:NodePool": "NodePool"}}
    pkg_info = {"fqn": __name__, "class": "Provider", "token": "pulumi:providers:nimbus"}

    def version(self) -> Any:
        return None

    def construct(self, name: str, typ: str, urn: str) -> pulumi.Resource:
        return NodePool(name, opts=pulumi.ResourceOptions(urn=urn))

    def construct_provider(self, name: str, typ: str, urn: str) -> pulumi.ProviderResource:
        return Provider(name, ProviderArgs(region=""), pulumi.ResourceOptions(urn=urn))


pulumi.runtime.register_resource_module("nimbus", "index", _Registered())
pulumi.runtime.register_resource_package("nimbus", _Registered())
