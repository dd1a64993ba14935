"""Machines of clouds that are not known here: whether they have GPUs is not known either, so they are never fine."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.audit.judging import FileReport, judge_file
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.classify import Unclassified, classify
from gpupools.policies.declared_stack import Declared, DeclaredStack
from gpupools.policies.policy_config import Config
from gpupools.providers import clouds
from gpupools.readback.kubernetes_pools import each_kubernetes_pool

UNDERSTOOD = "node-pools-understood"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def karpenter(reference: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "spec": {"template": {"spec": {"nodeClassRef": {**reference, "name": "a"}, **more}}}}  # fmt: skip


def of_spec(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "spec": spec}


IBM = {"group": "karpenter.ibm.sh", "kind": "IBMNodeClass"}
FOREIGN: dict[str, tuple[dict[str, Any], str]] = {
    "Karpenter": (karpenter(IBM), "karpenter.ibm.sh/IBMNodeClass"),
    "Karpenter with labels of a cloud": (
        karpenter(IBM, requirements=[{"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"}]),
        "karpenter.ibm.sh/IBMNodeClass",
    ),
    "a machine of a claim": (
        of_spec("karpenter.sh/v1", "NodeClaim", nodeClassRef={**IBM, "name": "a"}),
        "karpenter.ibm.sh/IBMNodeClass",
    ),
    "an older reference": (
        karpenter({"apiVersion": "karpenter.ibm.sh/v1alpha1", "kind": "IBMNodeClass"}),
        "karpenter.ibm.sh/IBMNodeClass",
    ),
}


def judged(tmp_path: Path, given: dict[str, Any], options: dict[str, dict[str, Any]] | None = None) -> FileReport:
    file = tmp_path / "object.yaml"
    file.write_text(yaml.safe_dump({**given, "metadata": {"name": "a"}}), encoding="utf-8")
    return judge_file(file, Config(options=options or {}))


@pytest.mark.parametrize("name", FOREIGN)
def test_a_pool_of_machines_of_another_cloud_is_not_understood(name: str, tmp_path: Path) -> None:
    given, kind = FOREIGN[name]
    verdict = judged(tmp_path, given)
    (found,) = verdict.found

    assert [each.level for each in verdict.found if each.rule.name == UNDERSTOOD] == ["unverified"]
    assert (verdict.judged, len(verdict.not_understood)) == ((), 1)
    assert found.rule.name == UNDERSTOOD
    assert found.message.startswith(f"whether '{kind}' creates GPU nodes without a taint cannot be verified")
    assert "does not know whether these machines have GPUs" in found.message


@pytest.mark.parametrize("name", FOREIGN)
def test_a_reason_in_the_configuration_leaves_such_a_kind_as_it_is(name: str, tmp_path: Path) -> None:
    given, kind = FOREIGN[name]
    verdict = judged(tmp_path, given, {UNDERSTOOD: {"reasons": {kind: "has machines without GPUs only"}}})

    assert not verdict.refuses
    assert [each.message for each in verdict.found if "accepted: has machines without GPUs only" in each.message]


@pytest.mark.parametrize(
    "given",
    [
        karpenter(IBM, taints=[TAINT]),
        {**karpenter(IBM), "spec": {**karpenter(IBM)["spec"], "limits": {"nvidia.com/gpu": 0, "amd.com/gpu": 0}}},
        karpenter({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass"}),
        karpenter({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"},
                  requirements=[{"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c"]}]),
        of_spec("karpenter.sh/v1alpha5", "Provisioner", providerRef={"name": "a"}),
    ],
    ids=str,
)  # fmt: skip
def test_machines_of_known_clouds_and_pools_that_keep_others_off_are_understood(
    given: dict[str, Any], tmp_path: Path
) -> None:
    assert [found.message for found in judged(tmp_path, given).found if found.rule.name == UNDERSTOOD] == []


def test_a_pool_with_gpus_of_another_cloud_is_judged_as_one(tmp_path: Path) -> None:
    claim = of_spec("karpenter.sh/v1", "NodeClaim", nodeClassRef={**IBM, "name": "a"},
                    resources={"requests": {"nvidia.com/gpu": 1}})  # fmt: skip
    verdict = judged(tmp_path, claim)

    assert [found.rule.name for found in verdict.found if found.level != "advice"] == ["gpu-pool-tainted"]
    assert verdict.not_understood == ()


@pytest.mark.parametrize(
    ("reference", "unknown"),
    [
        ({"group": UNKNOWN, "kind": "X"}, ("spec.template.spec.nodeClassRef",)),
        ({"group": "x.example", "kind": UNKNOWN}, ("spec.template.spec.nodeClassRef",)),
        ({"apiVersion": UNKNOWN}, ("spec.template.spec.nodeClassRef",)),
        ({"group": UNKNOWN, "kind": "EC2NodeClass"}, ()),
        ({"group": "eks.amazonaws.com", "kind": UNKNOWN}, ()),
    ],
    ids=str,
)
def test_a_class_that_is_not_known_yet_leaves_open_whose_machines_they_are(
    reference: dict[str, Any], unknown: tuple[str, ...]
) -> None:
    (pool,) = each_kubernetes_pool("kubernetes:v1:Object", karpenter(reference), clouds())

    assert pool.unknown == unknown


def test_a_class_that_something_fills_in_later_is_not_understood(tmp_path: Path) -> None:
    (found,) = judged(tmp_path, karpenter({"group": "${GROUP}", "kind": "${KIND}"})).found

    assert found.message.startswith("whether '${GROUP}/${KIND}' creates GPU nodes")


def test_what_is_only_advised_of_a_resource_hides_no_such_pool(tmp_path: Path) -> None:
    stack = DeclaredStack(
        [
            Declared(
                urn="a",
                type="kubernetes:karpenter.sh/v1:NodePool",
                name="a",
                inputs={},
                pools=tuple(
                    each_kubernetes_pool(
                        "kubernetes:v1:Object", {**karpenter(IBM), "metadata": {"name": "a"}}, clouds()
                    )
                ),
                unread=Unclassified("a/B", "", nodes=False),
            )
        ]
    )

    assert stack.unread["a"].nodes


def test_such_a_pool_is_seen_in_what_carries_it(tmp_path: Path) -> None:
    written = yaml.safe_dump({**karpenter(IBM), "metadata": {"name": "b"}})
    carrier = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"pool.yaml": written}}

    assert [found.rule.name for found in judged(tmp_path, carrier).found] == [UNDERSTOOD]


@pytest.mark.parametrize(
    "type_token",
    [
        *("terraform:huaweicloud_cce_node", "terraform:opentelekomcloud_cce_node_v3"),
        *("terraform:oci_containerengine_node_pool", "oci:ContainerEngine/nodePool:NodePool"),
        *("terraform:digitalocean_kubernetes_cluster", "digitalocean:index/kubernetesCluster:KubernetesCluster"),
        *("linode:index/lkeCluster:LkeCluster", "terraform:ibm_container_vpc_worker_pool"),
    ],
)
def test_what_makes_nodes_on_another_cloud_is_not_understood(type_token: str) -> None:
    found = classify(type_token, {"name": "a"})

    assert found is not None
    assert found.nodes


@pytest.mark.parametrize(
    "type_token",
    [
        "terraform:spotinst_ocean_aws",
        "terraform:vsphere_virtual_machine",
        "terraform:hcloud_server",
        "hcloud:index/server:Server",
        "terraform:hcloud_network",
    ],
)
def test_what_says_nothing_of_nodes_is_advice_alone(type_token: str) -> None:
    found = classify(type_token, {"name": "a"})

    assert found is not None
    assert not found.nodes


def test_a_long_kind_is_told_whole_since_a_reason_names_it(tmp_path: Path) -> None:
    group = f"{'machines.' * 8}example.com"
    (found,) = judged(tmp_path, of_spec(f"{group}/v1", "NodePool")).found

    assert found.message.startswith(f"whether '{group}/NodePool' creates GPU nodes")
    assert "{node-pools-understood: {waivers: [{resource: 'NodePool/" in found.message
