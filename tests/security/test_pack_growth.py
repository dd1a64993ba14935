"""A policy pack that runs takes time in proportion to what the engine sends: four times as much, at most five times.

Processor time of the pack's process, asked over gRPC as `pulumi preview` and `pulumi up` ask; the best of a few tries.
"""

import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2

from tests.policies.pack_process import Diagnostic, PolicyPackProcess, StackResource
from tests.security.growth import ratio
from tests.security.stacks import (
    CLUSTER,
    DAEMON_SET,
    TEMPLATE,
    clusters_of_their_own,
    daemon_set,
    inline_pools,
    machines,
    nested,
    node_group,
    one_wide_template,
    resource,
    templates,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the clock of another process is read as Linux has it"),
]


@pytest.fixture(scope="module")
def pack() -> Iterator[PolicyPackProcess]:
    with PolicyPackProcess() as running:
        yield running


def wire(inputs: dict[str, Any]) -> struct_pb2.Struct:
    return json_format.ParseDict(inputs, struct_pb2.Struct())


def sent(given: dict[str, Any]) -> StackResource:
    """Return a resource as the engine sends it, from how an exported state has it."""
    provider_urn, _, provider_id = given.get("provider", "").rpartition("::")
    provider = (
        analyzer_pb2.AnalyzerProviderResource(
            urn=provider_urn, type=provider_urn.split("::")[-2], name=provider_urn.split("::")[-1], properties=wire({})
        )
        if provider_id
        else None
    )
    return StackResource(
        urn=given["urn"],
        type=given["type"],
        name=given["urn"].rpartition("::")[2],
        properties=wire(given["inputs"]),
        parent=given.get("parent", ""),
        dependencies=tuple(given.get("dependencies", ())),
        provider=provider,
        property_dependencies=given.get("propertyDependencies", {}),
    )


def joined(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [resource(f"kubernetes:{each['apiVersion']}:{each['kind']}", f"o{i}", each) for i, each in enumerate(made)]


SCRIPT = "#!/bin/sh\n/etc/eks/bootstrap.sh x --kubelet-extra-args '--register-with-taints=a=b:NoSchedule"


def with_user_data(text: str) -> list[dict[str, Any]]:
    inputs = {"instanceType": "g6.xlarge", "userData": b64encode(text.encode()).decode()}
    group = {"launchTemplate": {"id": "lt-1"}, "amiType": "CUSTOM"}
    return [resource(TEMPLATE, "t", inputs, id="lt-1"), *(node_group(i, inputs=group) for i in range(20))]


WHOLE_STACKS: dict[str, tuple[Callable[[int], list[dict[str, Any]]], int]] = {
    "pools": (lambda n: [resource(CLUSTER, "c", {"name": "train"}), *(node_group(i) for i in range(n))], 75),
    "pools with a launch template": (templates, 40),
    "pools with one wide launch template": (one_wide_template, 75),
    "pools inside a cluster": (inline_pools, 50),
    "pools in components in components": (nested, 60),
    "clusters of their own": (clusters_of_their_own, 40),
    "objects of one name": (lambda n: [resource(DAEMON_SET, f"d{i}", daemon_set(0)) for i in range(n)], 120),
    "DaemonSets": (lambda n: [resource(DAEMON_SET, f"d{i}", daemon_set(i)) for i in range(n)], 120),
    "machines of one name": (lambda n: joined([each for i in range(n) for each in machines(i, "m")]), 25),
    "user data": (lambda n: with_user_data(SCRIPT + "'\n" + "x y\n" * n), 900),
    "blank lines in user data": (lambda n: with_user_data(SCRIPT + "'\n" + "\n" * n), 3900),
    "taints in user data": (lambda n: with_user_data(SCRIPT + ",a=b:NoSchedule" * n + "'"), 250),
    "documents in user data": (
        lambda n: with_user_data("apiVersion: node.eks.aws/v1alpha1\n" + "---\na: b\n" * n),
        400,
    ),
    "more user data than EC2 takes": (lambda n: with_user_data(SCRIPT + "'\n" + "#\n" * n), 25_000),
}
RESOURCES: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "taints": (
        lambda n: node_group(
            0, inputs={"taints": [{"key": f"k{i}", "value": "v", "effect": "NO_SCHEDULE"} for i in range(n)]}
        ),
        500,
    ),
    "instance types": (lambda n: node_group(0, inputs={"instanceTypes": ["g6.xlarge"] * n}), 1500),
    "pools of a cluster": (lambda n: inline_pools(n)[0], 50),
    "containers of a DaemonSet": (
        lambda n: resource(
            DAEMON_SET,
            "d",
            {**daemon_set(0), "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}] * n}}}},
        ),
        1000,
    ),
    "a long text": (lambda n: node_group(0, inputs={"amiType": "A" * n}), 200_000),
}


def asked(pack: PolicyPackProcess, ask: Callable[[int], Callable[[], list[Diagnostic]]], size: int) -> float:
    """Return the ratio of what the pack's process needs, by its own clock."""
    assert pack.pid is not None
    clock = (~pack.pid << 3) | 2  # as clock_getcpuclockid(3) of Linux makes it of a process id
    assert time.clock_gettime(clock) > 0.1  # what its start has taken
    return ratio(ask, size, lambda: time.clock_gettime(clock))


@pytest.mark.parametrize("name", WHOLE_STACKS)
def test_a_running_pack_judges_a_stack_in_proportion_to_it(name: str, pack: PolicyPackProcess) -> None:
    write, size = WHOLE_STACKS[name]

    def ask(n: int) -> Callable[[], list[Diagnostic]]:
        resources = [sent(each) for each in write(n)]
        return lambda: pack.analyze_stack(resources)

    assert asked(pack, ask, size) <= 5


@pytest.mark.parametrize("name", RESOURCES)
def test_a_running_pack_judges_a_resource_in_proportion_to_it(name: str, pack: PolicyPackProcess) -> None:
    write, size = RESOURCES[name]

    def ask(n: int) -> Callable[[], list[Diagnostic]]:
        given = sent(write(n))
        return lambda: pack.analyze(given.urn, given.type, given.name, given.properties, provider=given.provider)

    assert asked(pack, ask, size) <= 5


def test_what_takes_the_square_is_told_from_what_takes_its_share() -> None:
    took = [0.0]

    def read(power: int) -> Callable[[int], Callable[[], None]]:
        return lambda n: lambda: took.append(took[-1] + n**power)

    assert ratio(read(1), 10, lambda: took[-1]) == 4
    assert ratio(read(2), 10, lambda: took[-1]) == 16
