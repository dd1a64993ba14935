"""Karpenter's pools are judged together with the class of their machines, and told what lets GPUs in."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpupools.audit.judging import FileReport
from gpupools.policies.policy_config import Config

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
KEPT_OUT = "gpu-machines-kept-out"
EC2, AKS, GCE = "karpenter.k8s.aws", "karpenter.azure.com", "karpenter.k8s.gcp"
KINDS = {EC2: ("v1", "EC2NodeClass"), AKS: ("v1beta1", "AKSNodeClass"), GCE: ("v1alpha1", "GCENodeClass")}
TYPES = {EC2: "g5.xlarge", AKS: "Standard_NC4as_T4_v3", GCE: "g2-standard-4"}

Judge = Callable[..., FileReport]


def named(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def node_pool(group: str, machine: str = "", **more: Any) -> dict[str, Any]:
    needs = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [machine]}] if machine else []
    reference = {"group": group, "kind": KINDS[group][1], "name": "theirs"}
    spec = {"nodeClassRef": reference, "requirements": needs, **more}
    return named("karpenter.sh/v1", "NodePool", "pool", spec={"template": {"spec": spec}})


def node_class(group: str, name: str = "theirs", **spec: Any) -> dict[str, Any]:
    version, kind = KINDS[group]
    return named(f"{group}/{version}", kind, name, spec=spec)


def found(judge: Judge, *objects: Mapping[str, Any], config: Config | None = None) -> list[tuple[str, str, str, bool]]:
    """Return rule, level and resource of what was found, and whether it is not proven; owners are no matter here."""
    judged = judge({"apiVersion": "v1", "kind": "List", "items": list(objects)}, config)
    assert judged.problems == ()
    return [
        (one.rule.name, one.level, one.address, one.finding.unverified)
        for one in judged.found
        if one.rule.name != "gpu-pool-owned"
    ]


@pytest.mark.parametrize(
    ("group", "spec", "rule", "level"),
    [
        (EC2, {"metadataOptions": {"httpTokens": "optional"}}, "gpu-node-hardened", "advice"),
        (EC2, {"userData": "echo hi"}, "gpu-node-customised", "advice"),
        (AKS, {"kubelet": {"allowedUnsafeSysctls": ["net.*"]}}, "gpu-node-customised", "advice"),
    ],
    ids=str,
)
def test_the_class_that_a_pool_names_is_judged(
    group: str, spec: dict[str, Any], rule: str, level: str, judge: Judge
) -> None:
    pool = node_pool(group, TYPES[group], taints=[TAINT])
    at_fault = (rule, level, f"{KINDS[group][1]}/theirs", False)

    assert at_fault in found(judge, pool, node_class(group, **spec))
    assert at_fault not in found(judge, pool, node_class(group))
    assert found(judge, pool, node_class(group, "another", **spec)) == []
    assert at_fault not in found(judge, node_pool(group), node_class(group, **spec)), "machines without GPUs"


@pytest.mark.parametrize(
    ("classes", "wanted"),
    [
        pytest.param([node_class(GCE, autoGPUTaint=True)], [], id="its class taints"),
        pytest.param([node_class(GCE, autoGPUTaint=False)], [False], id="its class says not to"),
        pytest.param([node_class(GCE)], [False], id="its class does not"),
        pytest.param([node_class(GCE, "another", autoGPUTaint=True)], [True], id="another class taints"),
        pytest.param([], [True], id="its class is not at hand"),
    ],
)
def test_the_taint_that_googles_class_adds_counts(
    classes: list[dict[str, Any]], wanted: list[bool], judge: Judge
) -> None:
    pool = node_pool(GCE, "g2-standard-4")
    assert found(judge, pool, *classes) == [
        ("gpu-pool-tainted", "unverified" if open_ else "violation", "NodePool/pool", open_) for open_ in wanted
    ]
    assert found(judge, node_pool(GCE, "g2-standard-4", taints=[TAINT]), *classes) == []
    assert found(judge, node_pool(GCE, "n2-standard-4"), *classes) == []


def test_a_claim_of_a_gpu_is_a_gpu(judge: Judge) -> None:
    def claim(**more: Any) -> dict[str, Any]:
        reference = {"group": EC2, "kind": "EC2NodeClass", "name": "theirs"}
        spec = {"nodeClassRef": reference, "requirements": [], **more}
        return named("karpenter.sh/v1", "NodeClaim", "claim", spec=spec)

    asks = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    violation = ("gpu-pool-tainted", "violation", "NodeClaim/claim", False)
    assert found(judge, claim(**asks)) == [violation]
    assert found(judge, claim(**asks, taints=[TAINT])) == []
    assert found(judge, claim(resources={"requests": {"cpu": "1", "nvidia.com/gpu": 0}})) == []
    assert found(judge, claim(resources="?")) == []


@pytest.mark.parametrize("group", KINDS)
def test_what_lets_gpus_in_is_advice_which_a_waiver_ends(group: str, judge: Judge) -> None:
    advice = [(KEPT_OUT, "advice", "NodePool/pool", False)]
    pool = node_pool(group)
    assert found(judge, pool) == advice
    assert found(judge, node_pool(group, taints=[TAINT])) == []

    waiver = {"reason": "no pod here asks for one", "owner": "web", "expires": "2999-01-01"}
    waived = pool | {"metadata": {"name": "pool", "annotations": {f"gpupools/waive.{KEPT_OUT}": str(waiver)}}}
    assert found(judge, waived) == []
