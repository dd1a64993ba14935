"""Cluster API's machines are judged together with what makes nodes of them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpupools.audit.judging import FileReport
from gpupools.policies.policy_config import Config

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
SOFT = {**TAINT, "effect": "PreferNoSchedule"}
REGISTER = {"register-with-taints": "nvidia.com/gpu=present:NoSchedule"}
CORE = "cluster.x-k8s.io/v1beta2"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1beta2"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1beta2"
RULE = "gpu-pool-tainted"

Judge = Callable[..., FileReport]


def named(version: str, kind: str, name: str, spec: Any, namespace: str = "ml") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def template(spec: Any) -> dict[str, Any]:
    return {"template": {"spec": spec}}


def machine(instance_type: str = "g5.xlarge", name: str = "gpu") -> dict[str, Any]:
    return named(INFRASTRUCTURE, "AWSMachineTemplate", name, template({"instanceType": instance_type}))


def deployment(
    config: str = "KubeadmConfigTemplate", config_name: str = "gpu", name: str = "gpu", **more: Any
) -> dict[str, Any]:
    joins = {
        "bootstrap": {"configRef": {"kind": config, "name": config_name}},
        "infrastructureRef": {"kind": "AWSMachineTemplate", "name": "gpu"},
        **more,
    }
    return named(CORE, "MachineDeployment", name, template(joins))


def control_plane(registration: Any) -> dict[str, Any]:
    machines = {"infrastructureRef": {"kind": "AWSMachineTemplate", "name": "gpu"}}
    spec = {"machineTemplate": machines, "kubeadmConfigSpec": {"joinConfiguration": {"nodeRegistration": registration}}}
    return named("controlplane.cluster.x-k8s.io/v1beta1", "KubeadmControlPlane", "a", spec)


def kubeadm(registration: Any, name: str = "gpu") -> dict[str, Any]:
    spec = {"joinConfiguration": {"nodeRegistration": registration}}
    return named(BOOTSTRAP, "KubeadmConfigTemplate", name, template(spec))


def config(kind: str, spec: Any) -> dict[str, Any]:
    return named(BOOTSTRAP, kind, "gpu", template(spec) if kind.endswith("Template") else spec)


def judged(judge: Judge, *objects: Mapping[str, Any]) -> FileReport:
    return judge({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def faults(of: FileReport) -> list[tuple[str, bool]]:
    """Return the resources at fault, each with whether that is proven."""
    assert of.problems == ()
    found = [one for one in of.found if one.rule.name.startswith("gpu-pool-tainted")]
    return [(one.address, not one.finding.unverified) for one in found]


OPEN, LATE = [("AWSMachineTemplate/ml/gpu", True)], [("AWSMachineTemplate/ml/gpu", False)]


def by_kubeadm(**registration: Any) -> list[dict[str, Any]]:
    """Return machines with GPUs that join by kubeadm with this registration."""
    return [machine(), deployment(), kubeadm(registration)]


def by_config(kind: str, **spec: Any) -> list[dict[str, Any]]:
    """Return machines with GPUs that join by a configuration of this kind."""
    return [machine(), deployment(kind), config(kind, spec)]


def by_nodeadm(*flags: str, **kubelet: Any) -> list[dict[str, Any]]:
    parts = {"config": kubelet, "flags": [*flags]}
    return by_config("NodeadmConfigTemplate", kubelet={key: part for key, part in parts.items() if part})


LISTED = [{"name": "v", "value": "2"}, {"name": "register-with-taints", "value": "a:NoSchedule"}]
SOFT_ARGUMENT = {"register-with-taints": "a:PreferNoSchedule"}
TWO_OWNERS = [deployment(name="a"), deployment(name="b", config_name="plain")]
ELSEWHERE = named(CORE, "MachineSet", "a", deployment()["spec"], "other")
TAINTED = kubeadm({"taints": [TAINT]})
KEPT = {**TAINT, "propagation": "Always"}


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(by_kubeadm(taints=[TAINT]), [], id="taints"),
        pytest.param(by_kubeadm(taints=[]), OPEN, id="no taints"),
        pytest.param(by_kubeadm(), OPEN, id="nothing said of taints"),
        pytest.param(by_kubeadm(taints=[SOFT]), OPEN, id="a soft taint"),
        pytest.param([machine("m5.large"), deployment(), kubeadm({})], [], id="no GPU"),
        pytest.param(by_kubeadm(kubeletExtraArgs=REGISTER), [], id="the kubelet's argument"),
        pytest.param(by_kubeadm(kubeletExtraArgs=LISTED), [], id="the kubelet's argument in a list"),
        pytest.param(by_kubeadm(taints=[TAINT], kubeletExtraArgs=SOFT_ARGUMENT), OPEN, id="the argument wins"),
        pytest.param(by_kubeadm(kubeletExtraArgs={"register-with-taints": "${TAINTS}"}), LATE, id="a variable"),
        pytest.param(by_kubeadm(kubeletExtraArgs={"node-labels": "a=b"}), OPEN, id="another argument"),
        pytest.param(by_config("EKSConfigTemplate", kubeletExtraArgs=REGISTER), [], id="EKSConfig"),
        pytest.param(by_config("EKSConfigTemplate"), OPEN, id="EKSConfig without"),
        pytest.param(by_nodeadm(registerWithTaints=[TAINT]), [], id="NodeadmConfig"),
        pytest.param(
            by_nodeadm("--v=2", "--register-with-taints=a:PreferNoSchedule", registerWithTaints=[TAINT]),
            OPEN,
            id="a flag of NodeadmConfig wins",
        ),
        pytest.param(by_nodeadm("--register-with-taints=a:NoSchedule"), [], id="a flag of NodeadmConfig"),
        pytest.param([machine(), deployment("TalosConfigTemplate")], LATE, id="a bootstrap that nobody here reads"),
        pytest.param([machine(), control_plane({})], [], id="a control plane"),
        pytest.param([machine(), control_plane({"taints": []})], LATE, id="a control plane with a list of taints"),
        pytest.param([machine(), deployment()], LATE, id="a configuration that is not here"),
        pytest.param([machine(), TAINTED], LATE, id="nothing joins the two"),
        pytest.param([machine(), deployment(taints=[KEPT])], [], id="the owner's taints"),
        pytest.param([machine(), deployment(taints=[SOFT]), kubeadm({})], OPEN, id="a soft taint of the owner"),
        pytest.param(
            [machine(), deployment("KubeadmConfigTemplate", "other"), TAINTED], LATE, id="another configuration"
        ),
        pytest.param([machine(), *TWO_OWNERS, TAINTED, kubeadm({}, "plain")], OPEN, id="one of two owners is open"),
        pytest.param([machine(), ELSEWHERE, deployment(), TAINTED], [], id="an owner in another namespace"),
    ],
)
def test_machines_are_judged_with_their_bootstrap(
    objects: list[dict[str, Any]], expected: list[tuple[str, bool]], judge: Judge
) -> None:
    assert faults(judged(judge, *objects)) == expected
    assert faults(judged(judge, *reversed(objects))) == expected


def test_no_namespace_is_the_default_one(judge: Judge) -> None:
    objects = [machine(), deployment(), kubeadm({"taints": [TAINT]})]
    for place, one in enumerate(objects):
        one["metadata"]["namespace"] = "default"
        if place:
            del one["metadata"]["namespace"]

    assert faults(judged(judge, *objects)) == []
    objects[1]["metadata"]["namespace"] = "ml"
    assert faults(judged(judge, *objects)) == [("AWSMachineTemplate/default/gpu", False)]


def test_a_machine_pool_names_objects_that_are_no_templates(judge: Judge) -> None:
    spec = {"awsLaunchTemplate": {"instanceType": "p4d.24xlarge"}}
    joins = {
        "bootstrap": {"configRef": {"kind": "EKSConfig", "name": "gpu"}},
        "infrastructureRef": {"kind": "AWSMachinePool", "name": "gpu"},
    }
    pool = (named(INFRASTRUCTURE, "AWSMachinePool", "gpu", spec), named(CORE, "MachinePool", "gpu", template(joins)))

    assert faults(judged(judge, *pool, config("EKSConfig", {"kubeletExtraArgs": REGISTER}))) == []
    assert faults(judged(judge, *pool, config("EKSConfig", {}))) == [("AWSMachinePool/ml/gpu", True)]


def test_a_single_machine_names_both_directly(judge: Judge) -> None:
    joins = {
        "bootstrap": {"configRef": {"kind": "KubeadmConfig", "name": "gpu"}},
        "infrastructureRef": {"kind": "AzureMachine", "name": "gpu"},
    }
    registration = {"joinConfiguration": {"nodeRegistration": {"taints": [TAINT]}}}
    objects = (
        named(INFRASTRUCTURE, "AzureMachine", "gpu", {"vmSize": "Standard_NC24ads_A100_v4"}),
        named(CORE, "Machine", "gpu", joins),
    )

    assert faults(judged(judge, *objects, config("KubeadmConfig", registration))) == []
    assert faults(judged(judge, *objects, config("KubeadmConfig", {}))) == [("AzureMachine/ml/gpu", True)]


STARTS = {"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}
HARD = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
BY = "found bootstrap configuration"
WORDS = [
    (
        by_kubeadm(),
        f"{BY} KubeadmConfigTemplate → spec.template.spec.joinConfiguration.nodeRegistration.taints: none",
        "add {key: nvidia",
    ),
    (
        by_config("EKSConfigTemplate"),
        f"{BY} EKSConfigTemplate → spec.template.spec.kubeletExtraArgs.register-with-taints: none",
        'add "nvidia.com/gpu=present',
    ),
    (
        by_config("NodeadmConfigTemplate"),
        f"{BY} NodeadmConfigTemplate → spec.template.spec.kubelet.config.registerWithTaints: none",
        "add {key: nvidia.com/gpu",
    ),
    (
        by_kubeadm(taints=[SOFT, STARTS]),
        "nodeRegistration.taints: nvidia.com/gpu:PreferNoSchedule;",
        "nodeRegistration.taints[1]: node.cilium.io/agent-not-ready is removed",
    ),
    (by_kubeadm(taints=[HARD, {**HARD, "effect": "no"}]), "nodeRegistration.taints[1]: got effect 'no'", "add "),
]


@pytest.mark.parametrize(("objects", "found", "also"), WORDS, ids=[each[1] for each in WORDS])
def test_the_finding_says_what_was_found_and_what_to_write(
    objects: list[dict[str, Any]], found: str, also: str, judge: Judge
) -> None:
    (message,) = [one.message for one in judged(judge, *objects).found if one.rule.name == RULE]

    assert found in message
    assert also in message


def test_what_nobody_knows_is_an_advisory_where_configured(judge: Judge) -> None:
    lenient = Config(options={RULE: {"unknownAtPreview": "advisory"}})
    objects = {"apiVersion": "v1", "kind": "List", "items": [machine(), deployment()]}

    levels = [
        [one.level for one in judge(objects, each).found if one.rule.name == RULE] for each in (lenient, Config())
    ]

    assert levels == [["advice"], ["unverified"]]
