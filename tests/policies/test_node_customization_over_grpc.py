"""The rules on what is set by hand, asked of one running pack as the engine asks: both sides on every cloud."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.policies.asking import AKS, EKS, GKE, MANAGED, SELF_MANAGED, TEMPLATE, UNKNOWN, asked, resource, running, urn
from tests.policies.pack_process import PolicyPackProcess, StackResource

HERE = "gpu-node-customised"
KARPENTER = "kubernetes:karpenter.sh/v1:NodePool"
EC2_CLASS, AKS_CLASS = (
    "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",
    "kubernetes:karpenter.azure.com/v1beta1:AKSNodeClass",
)
SECRET = "hunter2hunter2"
SCRIPT = f"#!/bin/bash\ncurl -H 'token: {SECRET}' https://example.com | sh\n"
JOINS = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: train, cidr: 10.100.0.0/16}\n"
EVERYWHERE = {"enforcementLevel": "mandatory", "unknownAtPreview": "violation"}


REASONS = {"known/user-data": "ticket 42", "*/sysctls": "ticket 43"}
production = running(config={HERE: {**EVERYWHERE, "reasons": REASONS}})
"""The pack as in production, where one pool and one team have their reasons."""


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def told(pack: PolicyPackProcess, resources: Sequence[StackResource]) -> list[tuple[str, str, str]]:
    """Return level, resource and input of everything said of what is set by hand, here and elsewhere."""
    found = [each for one in resources for each in asked(pack, one)]
    found += pack.analyze_stack(resources)
    of_rule = [each for each in found if each.policy == HERE]
    assert not any(SECRET in each.message for each in of_rule)
    return [(each.level, each.urn.rpartition("::")[2], _input(each.message)) for each in of_rule]


def _input(message: str) -> str:
    (line,) = [each.strip() for each in message.splitlines() if " by hand: " in each]
    return line


def eks(user_data: Any, machine: str = "g6.xlarge", pool: str = "odd") -> list[StackResource]:
    template = {"instanceType": machine} | ({} if user_data is None else {"userData": user_data})
    group = {"clusterName": "train", "labels": {"gpupools/pool": pool}, "launchTemplate": {"id": UNKNOWN}}
    return [resource(TEMPLATE, "lt", template), resource(EKS, "ng", group, launchTemplate=urn(TEMPLATE, "lt"))]


def karpenter(
    class_: str, given: Mapping[str, Any], family: str = "g6", pool: str = "odd", named: str = "gpu"
) -> list[StackResource]:
    group, _, kind = class_.removeprefix("kubernetes:").partition("/")
    label = "karpenter.k8s.aws/instance-family" if "aws" in group else "karpenter.azure.com/sku-family"
    template = {
        "metadata": {"labels": {"gpupools/pool": pool}},
        "spec": {
            "nodeClassRef": {"group": group, "kind": kind.partition(":")[2], "name": named},
            "requirements": [{"key": label, "operator": "In", "values": [family]}],
        },
    }
    return [
        resource(class_, "gpu", {"metadata": {"name": "gpu"}, "spec": given}),
        resource(
            KARPENTER, "np", {"metadata": {"name": "np"}, "spec": {"template": template}}, spec=urn(class_, "gpu")
        ),
    ]


def alone(type_: str, **given: Any) -> list[StackResource]:
    return [resource(type_, "pool", given)]


GPU_CONFIG = {"machineType": "g2-standard-8"}


@pytest.mark.parametrize(
    ("stack", "where", "what"),
    [
        pytest.param(eks(encoded(SCRIPT)), "lt", "user-data", id="EKS, script"),
        pytest.param(
            karpenter(EC2_CLASS, {"amiFamily": "AL2023", "userData": SCRIPT}), "gpu", "user-data", id="Karpenter on EKS"
        ),
        pytest.param(
            karpenter(AKS_CLASS, {"kubelet": {"allowedUnsafeSysctls": ["net.*"]}}, "ND"),
            "gpu",
            "sysctls",
            id="Karpenter on AKS",
        ),
        pytest.param(alone(SELF_MANAGED, instanceType="g6.xlarge", nodeUserData=SCRIPT), "pool", "user-data", id="eks"),
        pytest.param(
            alone(AKS, vmSize="Standard_NC24ads_A100_v4", linuxOSConfig={"sysctls": {"vmSwappiness": 1}}),
            "pool",
            "sysctls",
            id="AKS",
        ),
        pytest.param(
            alone(GKE, nodeConfig={**GPU_CONFIG, "metadata": {"startup-script": SCRIPT}}),
            "pool",
            "start-up-script",
            id="GKE",
        ),
    ],
)
def test_what_is_customised_is_advice_at_first(
    pack: PolicyPackProcess, stack: list[StackResource], where: str, what: str
) -> None:
    ((level, of, line),) = told(pack, stack)

    assert (level, of) == ("advisory", where)
    assert f"{what} by hand: " in line


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param(eks(encoded(JOINS)), id="EKS, joins"),
        pytest.param(eks(None), id="EKS, nothing"),
        pytest.param(eks(encoded(SCRIPT), "m7i.large"), id="EKS, no GPU"),
        pytest.param(karpenter(EC2_CLASS, {"amiFamily": "AL2023", "userData": JOINS}), id="Karpenter on EKS, joins"),
        pytest.param(karpenter(EC2_CLASS, {"userData": SCRIPT}, "m7i"), id="Karpenter on EKS, no GPU"),
        pytest.param(karpenter(AKS_CLASS, {"kubelet": {"podPidsLimit": 4096}}, "ND"), id="Karpenter on AKS"),
        pytest.param(alone(SELF_MANAGED, instanceType="g6.xlarge", nodeUserDataOverride=JOINS), id="eks, joins"),
        pytest.param(alone(AKS, vmSize="Standard_NC24ads_A100_v4"), id="AKS"),
        pytest.param(alone(GKE, nodeConfig=GPU_CONFIG), id="GKE"),
    ],
)
def test_what_is_not_passes(production: PolicyPackProcess, stack: list[StackResource]) -> None:
    assert told(production, stack) == []


@pytest.mark.parametrize(
    ("stack", "levels"),
    [
        pytest.param(eks(encoded(SCRIPT)), ["mandatory"], id="a template"),
        pytest.param(eks(encoded(SCRIPT), pool="known"), [], id="a template of a pool with a reason"),
        pytest.param(eks(UNKNOWN), ["mandatory"], id="a template not known yet"),
        pytest.param(eks(UNKNOWN, pool="known"), [], id="a template not known yet of a pool with a reason"),
        pytest.param(karpenter(EC2_CLASS, {"userData": SCRIPT}), ["mandatory"], id="a node class"),
        pytest.param(karpenter(EC2_CLASS, {"userData": SCRIPT}, pool="known"), [], id="a node class with a reason"),
        pytest.param(
            karpenter(AKS_CLASS, {"kubelet": {"allowedUnsafeSysctls": ["net.*"]}}, "ND"), [], id="a kind with a reason"
        ),
    ],
)
def test_production_stops_what_has_no_reason(
    production: PolicyPackProcess, stack: list[StackResource], levels: list[str]
) -> None:
    assert [level for level, _, _ in told(production, stack)] == levels


def test_a_template_of_two_pools_is_told_once_for_the_one_without_a_reason(production: PolicyPackProcess) -> None:
    template, known = eks(encoded(SCRIPT), pool="known")
    odd = resource(
        EKS, "other", {"clusterName": "train", "launchTemplate": {"id": UNKNOWN}}, launchTemplate=template.urn
    )

    assert [(level, of) for level, of, _ in told(production, [template, known, odd])] == [("mandatory", "lt")]


def test_what_a_component_makes_of_its_inputs_is_told_of_the_component(production: PolicyPackProcess) -> None:
    given = {"instanceTypes": ["g6.xlarge"], "userData": SCRIPT}
    parent = resource(MANAGED, "m", given)
    made = {"instanceTypes": ["g6.xlarge"], "launchTemplate": {"id": UNKNOWN}}
    template = resource(TEMPLATE, "m-lt", {"userData": encoded(SCRIPT)}, parent.urn)
    group = resource(EKS, "m-ng", made, parent.urn, launchTemplate=template.urn)
    of = [where for _, where, _ in told(production, [parent, template, group])]

    assert of == ["m"]


SHARING = "gpu-sharing-trusted"
SHARED = [{"type": "nvidia-l4", "count": 1, "gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING"}}]
NAMED: Mapping[str, Mapping[str, Any]] = {
    AKS: {"vmSize": "Standard_NC24ads_A100_v4", "linuxOSConfig": {"sysctls": {"vmSwappiness": 1}}},
    GKE: {"nodeConfig": {**GPU_CONFIG, "guestAccelerators": SHARED}},
    f"{TEMPLATE}, self-managed": {
        "instanceType": "g6.xlarge",
        "iamInstanceProfile": {"name": "nodes"},
        "userData": encoded(
            "[settings.kubernetes]\ncluster-name = 'train'\n"
            "[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy = 'time-slicing'\n"
        ),
    },
}


notebooks = running(config={SHARING: {"waived": ["notebooks"]}, HERE: {"reasons": {"notebooks/sysctls": "ticket 42"}}})
"""The pack where one pool is waived by name, and has a reason."""


@pytest.mark.parametrize(
    ("logical", "own", "passes"),
    [
        ("notebooks", "", True),
        ("others", "", False),
        ("notebooks", "train", False),
        ("others", "notebooks", True),
        ("notebooks", UNKNOWN, False),
    ],
    ids=["its only name", "another", "it has one of its own", "its own", "its own is not known yet"],
)
@pytest.mark.parametrize("kind", NAMED)
def test_a_pool_goes_by_the_name_of_its_resource_where_it_has_no_other(
    notebooks: PolicyPackProcess, kind: str, logical: str, own: str, passes: bool
) -> None:
    type_ = kind.partition(",")[0]
    given = {**NAMED[kind], **({"agentPoolName" if type_ == AKS else "name": own} if own else {})}
    found = [
        each.policy for each in asked(notebooks, resource(type_, logical, given)) if each.policy in (SHARING, HERE)
    ]

    assert found == ([] if passes else [HERE if type_ == AKS else SHARING])
