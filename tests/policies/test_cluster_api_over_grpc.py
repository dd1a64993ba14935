"""Cluster API's objects in a Pulumi program: joined by name, or at preview by what they were made from."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.policies.asking import UNKNOWN, asked, resource, urn
from tests.policies.pack_process import PolicyPackProcess, StackResource

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
MACHINE = "kubernetes:infrastructure.cluster.x-k8s.io/v1beta2:AWSMachineTemplate"
CONFIG = "kubernetes:bootstrap.cluster.x-k8s.io/v1beta1:KubeadmConfigTemplate"
OWNER = "kubernetes:cluster.x-k8s.io/v1beta1:MachineDeployment"


def manifest(type_: str, name: str, spec: Any, named: str, made_from: Sequence[str] = ()) -> StackResource:
    _, version, kind = type_.split(":")
    metadata = {"name": named, "namespace": "ml"}
    given = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    return resource(type_, name, given, spec=made_from)


def stack(taints: Any, named: str, made_from: Sequence[str] = (), config: str = "config") -> list[StackResource]:
    joins: Mapping[str, Any] = {
        "bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate", "name": named or config}},
        "infrastructureRef": {"kind": "AWSMachineTemplate", "name": named or "machine"},
    }
    registration = {"joinConfiguration": {"nodeRegistration": {"taints": taints}}}
    return [
        manifest(MACHINE, "machine", {"template": {"spec": {"instanceType": "g5.xlarge"}}}, named or "machine"),
        manifest(CONFIG, "config", {"template": {"spec": registration}}, named or "config"),
        manifest(OWNER, "owner", {"template": {"spec": joins}}, "owner", made_from),
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
    said = [each for one in resources for each in asked(pack, one) if each.policy == "gpu-pool-tainted"]
    said += [each for each in pack.analyze_stack(resources) if each.policy.startswith("gpu-pool-tainted")]

    found = [(each.policy, each.urn.rsplit("::", 1)[-1], "cannot be verified" not in each.message) for each in said]
    assert found == expected
