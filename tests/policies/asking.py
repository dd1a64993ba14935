"""What tests of a running pack share: resources in wire form, as the engine describes them, and packs to ask."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pytest
from google.protobuf import struct_pb2
from pulumi.runtime.proto import analyzer_pb2

from tests.policies.pack_process import PolicyPackProcess, StackResource

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT_VALUE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
EKS, AKS, GKE = (
    "aws:eks/nodeGroup:NodeGroup",
    "azure-native:containerservice:AgentPool",
    "gcp:container/nodePool:NodePool",
)
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
SELF_MANAGED, MANAGED = "eks:index:NodeGroupV2", "eks:index:ManagedNodeGroup"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}


def running(scope: Literal["module", "session"] = "module", **given: Any) -> Any:
    """Return a fixture: one pack that runs with these arguments of `PolicyPackProcess`."""

    @pytest.fixture(scope=scope)
    def pack() -> Iterator[PolicyPackProcess]:
        with PolicyPackProcess(**given) as process:
            yield process

    return pack


def secret(value: object) -> dict[str, object]:
    return {SIGNATURE: SECRET, "value": value}


def urn(type_: str, name: str, parent: str = "") -> str:
    return f"urn:pulumi:preview::gpupools::{parent + '$' if parent else ''}{type_}::{name}"


def struct(wire: Mapping[str, Any]) -> struct_pb2.Struct:
    properties = struct_pb2.Struct()
    properties.update(wire)
    return properties


def resource(
    type_: str,
    name: str,
    given: Mapping[str, Any],
    parent: str = "",
    provider: analyzer_pb2.AnalyzerProviderResource | None = None,
    above: str = "",
    **made_from: str | Sequence[str],
) -> StackResource:
    """Return a resource of a stack.

    Args:
        type_: Its type token.
        name: Its logical name.
        given: Its inputs.
        parent: URN of its parent.
        provider: Its provider.
        above: Type of its parent, as its URN names it.
        made_from: URNs by the input that is made from them.
    """
    inputs = {key: (urns,) if isinstance(urns, str) else tuple(urns) for key, urns in made_from.items()}
    return StackResource(
        urn=urn(type_, name, above),
        type=type_,
        name=name,
        properties=struct(given),
        parent=parent,
        dependencies=tuple(each for urns in inputs.values() for each in urns),
        property_dependencies=inputs,
        provider=provider,
    )


def asked(pack: PolicyPackProcess, one: StackResource, **more: Any) -> list[Any]:
    """Return what the pack says of a resource before it exists."""
    return pack.analyze(one.urn, one.type, one.name, one.properties, **more)
