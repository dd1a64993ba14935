"""A pool that a component of pulumi-eks and its children both declare is reported once, as the engine asks."""

import json
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime.proto import analyzer_pb2

from gpupools.audit.judging import judge_file
from gpupools.policies.policy_config import Config
from tests.policies.asking import (
    EKS,
    MANAGED,
    SELF_MANAGED,
    TAINT,
    TEMPLATE,
    UNKNOWN,
    asked,
    resource,
    running,
    struct,
    urn,
)
from tests.policies.pack_process import PolicyPackProcess

CLUSTER = "eks:index:Cluster"
CONFIGURATION = "aws:ec2/launchConfiguration:LaunchConfiguration"
OWN_TAINT = {"nvidia.com/gpu": {"value": "present", "effect": "NoSchedule"}}
RULE = "gpu-pool-tainted"
GPU = {"instanceTypes": ["g5.xlarge"]}
# What pulumi-eks makes of a self-managed group: user data is made of the cluster's outputs.
STARTED = {
    "instanceType": "g5.xlarge",
    "iamInstanceProfile": {"name": "nodes"},
    "userData": UNKNOWN,
    "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
    "networkInterfaces": [{"associatePublicIpAddress": "true"}],
}


pack = running(config={"gpu-pool-bounded": {"maxNodes": 5}})


def at_fault(
    pack: PolicyPackProcess, name: str, component: tuple[str, Any], child: tuple[str, Any]
) -> list[tuple[str, str, bool]]:
    """Ask about a component, its child and the stack; return (type, policy, proven) of what is said of taints."""
    (above, given), (below, made) = component, child
    parent = resource(above, name, given)
    own = resource(below, name, made, parent.urn, above=above)
    options = analyzer_pb2.AnalyzerResourceOptions(parent=parent.urn)
    said = [*asked(pack, parent), *asked(pack, own, options=options), *pack.analyze_stack([parent, own])]
    of = {parent.urn: above, own.urn: below}
    return [
        (of[each.urn], each.policy, "cannot be verified" not in each.message)
        for each in said
        if each.policy.startswith("gpu-pool-tainted")
    ]


TAINTED, LATE = {**GPU, "taints": [TAINT]}, {**GPU, "taints": UNKNOWN}
OWN, OWN_TAINTED = {"instanceType": "g5.xlarge"}, {"instanceType": "g5.xlarge", "taints": OWN_TAINT}
BY_TEMPLATE = {"launchTemplate": {"id": "lt-1"}}
OPEN = [(MANAGED, RULE, False), (EKS, RULE, False)]
CPU, STARTED_CPU = {"instanceType": "m5.large"}, {**STARTED, "instanceType": "m5.large"}
OLDER = "eks:index:NodeGroup"


@pytest.mark.parametrize(
    ("component", "child", "expected"),
    [
        pytest.param((MANAGED, GPU), (EKS, GPU), [(MANAGED, RULE, True)], id="no taint"),
        pytest.param((MANAGED, TAINTED), (EKS, TAINTED), [], id="tainted"),
        pytest.param((MANAGED, {}), (EKS, GPU), [(EKS, RULE, True)], id="a component that sends no inputs"),
        pytest.param((MANAGED, TAINTED), (EKS, GPU), [(EKS, RULE, True)], id="a transform took the child's taint"),
        pytest.param(
            (MANAGED, {"instanceTypes": ["m5.large"]}), (EKS, GPU), [(EKS, RULE, True)], id="a transform of the type"
        ),
        pytest.param((MANAGED, LATE), (EKS, LATE), [(MANAGED, RULE, False)], id="late"),
        pytest.param((MANAGED, BY_TEMPLATE), (EKS, BY_TEMPLATE), OPEN, id="nothing shows the machine"),
        pytest.param((SELF_MANAGED, OWN_TAINTED), (TEMPLATE, STARTED), [], id="late user data of a tainted group"),
        pytest.param((SELF_MANAGED, OWN), (TEMPLATE, STARTED), [(SELF_MANAGED, RULE, True)], id="late user data"),
        pytest.param((OLDER, OWN_TAINTED), (CONFIGURATION, STARTED), [], id="the older component, tainted"),
        pytest.param((CLUSTER, OWN), (TEMPLATE, STARTED), [(CLUSTER, RULE, True)], id="a cluster's group"),
        pytest.param(
            (CLUSTER, {"skipDefaultNodeGroup": True}),
            (TEMPLATE, STARTED),
            [(TEMPLATE, RULE, False)],
            id="a child that the component does not show",
        ),
        pytest.param((SELF_MANAGED, CPU), (TEMPLATE, STARTED_CPU), [], id="no GPU"),
    ],
)
def test_a_pool_and_its_component_are_reported_once(
    pack: PolicyPackProcess,
    component: tuple[str, Any],
    child: tuple[str, Any],
    expected: list[Any],
    request: pytest.FixtureRequest,
) -> None:
    assert at_fault(pack, request.node.callspec.id, component, child) == expected


def test_size_and_owner_are_asked_of_the_component(pack: PolicyPackProcess) -> None:
    parent = urn(SELF_MANAGED, "sized")
    given = {"instanceType": "g5.xlarge", "taints": OWN_TAINT, "minSize": 0, "maxSize": 4}
    options = analyzer_pb2.AnalyzerResourceOptions(parent=parent)
    first = {each.policy for each in pack.analyze(parent, SELF_MANAGED, "sized", struct(given))}
    child = pack.analyze(urn(TEMPLATE, "sized", SELF_MANAGED), TEMPLATE, "sized", struct(STARTED), options)

    assert "gpu-pool-owned" in first
    assert child == []


def test_the_nodes_of_a_component_are_counted_once(pack: PolicyPackProcess) -> None:
    group = {**GPU, "taints": [TAINT], "scalingConfig": {"minSize": 0, "maxSize": 4}}
    parent = resource(MANAGED, "counted", group)
    child = resource(EKS, "c", group, parent.urn, above=MANAGED)
    twice = [resource(EKS, str(n), group) for n in range(2)]

    assert [each for each in pack.analyze_stack([parent, child]) if each.policy == "gpu-pool-bounded"] == []
    assert [each.policy for each in pack.analyze_stack(twice)].count("gpu-pool-bounded") == 1


@pytest.mark.parametrize(("taints", "expected"), [([], [MANAGED]), ([TAINT], [])], ids=["bare", "tainted"])
def test_a_file_is_judged_in_the_same_way(taints: Any, expected: list[str], tmp_path: Path) -> None:
    parent = urn(MANAGED, "gpu")
    states: list[dict[str, Any]] = [
        {"urn": parent, "custom": False, "type": MANAGED, "inputs": {**GPU, "taints": taints}},
        {"urn": urn(EKS, "g", MANAGED), "type": EKS, "parent": parent, "inputs": {**GPU, "taints": taints}},
    ]
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"version": 3, "deployment": {"manifest": {}, "resources": states}}), encoding="utf-8")
    judged = judge_file(path, Config())

    assert judged.problems == ()
    assert [one.type for one in judged.found if one.rule.name == RULE] == expected
