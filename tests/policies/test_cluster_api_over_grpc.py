"""Cluster API's objects in a Pulumi program: joined by name, or at preview by what they were made from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from google.protobuf import struct_pb2

from tests.policies.pack_process import PolicyPackProcess, StackResource

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
MACHINE = "kubernetes:infrastructure.cluster.x-k8s.io/v1beta2:AWSMachineTemplate"
CONFIG = "kubernetes:bootstrap.cluster.x-k8s.io/v1beta1:KubeadmConfigTemplate"
OWNER = "kubernetes:cluster.x-k8s.io/v1beta1:MachineDeployment"


@pytest.fixture(scope="module")
def pack() -> Iterator[PolicyPackProcess]:
    with PolicyPackProcess() as running:
        yield running


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:preview::gpupools::{type_}::{name}"


def resource(type_: str, name: str, spec: Any, named: str, made_from: Sequence[str] = ()) -> StackResource:
    properties = struct_pb2.Struct()
    properties.update(
        {
            "apiVersion": type_.split(":")[1],
            "kind": type_.split(":")[2],
            "metadata": {"name": named, "namespace": "ml"},
            "spec": spec,
        }
    )
    return StackResource(
        urn=urn(type_, name),
        type=type_,
        name=name,
        properties=properties,
        property_dependencies={"spec": list(made_from)} if made_from else {},
    )


def stack(taints: Any, named: str, made_from: Sequence[str] = (), config: str = "config") -> list[StackResource]:
    joins: Mapping[str, Any] = {
        "bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate", "name": named or config}},
        "infrastructureRef": {"kind": "AWSMachineTemplate", "name": named or "machine"},
    }
    registration = {"joinConfiguration": {"nodeRegistration": {"taints": taints}}}
    return [
        resource(MACHINE, "machine", {"template": {"spec": {"instanceType": "g5.xlarge"}}}, named or "machine"),
        resource(CONFIG, "config", {"template": {"spec": registration}}, named or "config"),
        resource(OWNER, "owner", {"template": {"spec": joins}}, "owner", made_from),
    ]


BOTH = (urn(MACHINE, "machine"), urn(CONFIG, "config"))
OPEN, LATE = [("gpu-pool-tainted", "machine", True)], [("gpu-pool-tainted", "machine", False)]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param(stack([TAINT], ""), [], id="tainted, by name"),
        pytest.param(stack([], ""), OPEN, id="bare, by name"),
        pytest.param(stack(UNKNOWN, ""), LATE, id="late taints"),
        pytest.param(stack([TAINT], "", config="other"), LATE, id="another name"),
        pytest.param(stack([TAINT], UNKNOWN, BOTH), [], id="tainted, names not known yet"),
        pytest.param(stack([], UNKNOWN, BOTH), OPEN, id="bare, names not known yet"),
        pytest.param(stack([TAINT], UNKNOWN), LATE, id="names not known yet and made from nothing here"),
    ],
)
def test_machines_are_judged_with_what_makes_nodes_of_them(
    pack: PolicyPackProcess, resources: list[StackResource], expected: list[tuple[str, str, bool]]
) -> None:
    said = [
        each
        for one in resources
        for each in pack.analyze(one.urn, one.type, one.name, one.properties)
        if each.policy == "gpu-pool-tainted"
    ]
    said += [each for each in pack.analyze_stack(resources) if each.policy.startswith("gpu-pool-tainted")]

    found = [(each.policy, each.urn.rsplit("::", 1)[-1], "cannot be verified" not in each.message) for each in said]
    assert found == expected
