"""Node pools in forms that their readers take and that are seldom written: none of them passes for something else."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.policies.configuration import config_problems
from gpupools.policies.documents.judging import Config, Judged, judge_file
from gpupools.policies.understood import unread
from gpupools.policies.waivers import scope

GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}]
"""
IN_JSON = json.dumps(yaml.safe_load(POOL))


def indented(text: str, width: int) -> str:
    return "".join(f"{' ' * width}{line}\n" for line in text.splitlines())


def held(body: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n  pool.yaml: |\n{indented(body, 4)}"


def kustomized(what: str) -> str:
    return f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n{what}\n"


TWICE = POOL.replace("spec:\n  template:\n    spec:\n", "spec:\n  template:\n    spec:\n      taints: []\n") + (
    "      taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]\n"
)
REFUSED = {
    "a list of another kind": "apiVersion: v1\nkind: Things\nitems:\n- " + indented(POOL, 2).lstrip(),
    "a pool with items": POOL + "items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}]\n",
    "a machine in base64": POOL.replace("[g6.xlarge]", "[!!binary ZzYueGxhcmdl]"),
    "keys with escapes": held(
        POOL.replace("apiVersion:", '"\\u0061piVersion":').replace("kind: NodePool", '"\\x6bind": NodePool')
    ),
    "a key twice in what is carried": held(TWICE),
    "a machine that something fills in as a label": (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {template: {metadata: {labels: "
        '{node.kubernetes.io/instance-type: "${TYPE}"}}, spec: {nodeClassRef: {group: karpenter.k8s.aws, '
        "kind: EC2NodeClass, name: a}}}}\n"
    ),
    "JSON among settings": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  values.yaml: |\n    extraObjects:\n"
        f"    - '{IN_JSON}'\n    more: apiVersion kind\n"
    ),
    "what Kyverno makes": (
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: a}\nspec: {rules: [{name: a, generate: "
        "{apiVersion: karpenter.sh/v1, kind: NodePool, name: a, data: {spec: {template: {}}}}}]}\n"
    ),
    "what Gatekeeper writes into a pool": (
        "apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {name: a}\nspec: {applyTo: [{groups: "
        "[karpenter.sh], versions: [v1], kinds: [NodePool]}], location: spec.template.spec.taints, "
        "parameters: {assign: {value: []}}}\n"
    ),
    "a patch from a file": kustomized("patches: [{target: {kind: NodePool}, path: untaint.yaml}]"),
    "a patch of several kinds": kustomized('patches: [{target: {kind: "NodePool|EC2NodeClass"}, path: p.yaml}]'),
    "a patch of a group": kustomized("patches: [{target: {group: karpenter.sh}, path: p.yaml}]"),
    "an older patch": kustomized("patchesJson6902: [{target: {group: karpenter.sh, kind: NodePool}, path: p.yaml}]"),
    "a replacement": kustomized(
        "replacements: [{source: {kind: ConfigMap}, targets: [{select: {kind: NodePool}, fieldPaths: [spec.a]}]}]"
    ),
    "machines of kOps by CPUs alone": (
        "apiVersion: kops.k8s.io/v1alpha2\nkind: InstanceGroup\nmetadata: {name: a}\nspec: {role: Node, "
        'mixedInstancesPolicy: {instanceRequirements: {cpu: {min: "1"}}}}\n'
    ),
}
FINE = {
    "a patch of something else": kustomized("patches: [{target: {kind: Deployment}, path: p.yaml}]"),
    "a patch of another group": kustomized("patches: [{target: {group: apps}, path: p.yaml}]"),
    "items that are no objects": "apiVersion: a.example/v1\nkind: Menu\nmetadata: {name: a}\nitems: [{name: soup}]\n",
    "a machine without GPUs in base64": POOL.replace("[g6.xlarge]", "[!!binary bTUubGFyZ2U=]"),
}


def judged(given: str, tmp_path: Path) -> Judged:
    file = tmp_path / "objects.yaml"
    file.write_text(given, encoding="utf-8")
    return judge_file(file, Config())


@pytest.mark.parametrize("name", REFUSED)
def test_a_pool_in_an_odd_form_is_judged_or_not_understood(name: str, tmp_path: Path) -> None:
    verdict = judged(REFUSED[name], tmp_path)

    assert not verdict.problems
    assert verdict.refuses


@pytest.mark.parametrize("name", FINE)
def test_what_only_looks_alike_passes(name: str, tmp_path: Path) -> None:
    verdict = judged(FINE[name], tmp_path)

    assert not verdict.problems
    assert not verdict.refuses


def test_a_set_of_resources_is_looked_for_in_its_own_namespace(tmp_path: Path) -> None:
    set_ = (
        "apiVersion: addons.cluster.x-k8s.io/v1beta1\nkind: ClusterResourceSet\nmetadata: {name: a, namespace: %s}\n"
        "spec: {resources: [{kind: ConfigMap, name: there}]}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: there, namespace: other}\ndata: {a: b}\n"
    )

    assert judged(set_ % "x", tmp_path).refuses
    assert not judged(set_ % "other", tmp_path).refuses


OWNER = """\
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineDeployment
metadata: {name: a}
spec: {template: {spec: {clusterName: c, infrastructureRef: {kind: AWSMachineTemplate, name: a}%s}}}
"""
MACHINES = """\
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSMachineTemplate
metadata: {name: %s}
spec: {template: {spec: {instanceType: m5.large}}}
"""
HARD = ", taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule, propagation: Always}]"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (OWNER % "", True),
        (OWNER % "" + MACHINES % "b", True),
        (OWNER % "" + MACHINES % "a", False),
        (OWNER % HARD, False),
    ],
    ids=["alone", "beside others", "with its machines", "with a taint of its own"],
)
def test_what_makes_nodes_of_machines_in_another_file_says_so(given: str, told: bool, tmp_path: Path) -> None:
    said = [each.message for each in judged(given, tmp_path).found if "AWSMachineTemplate/a" in each.message]

    assert bool(said) is told
    assert all("AWSMachineTemplate/a, which is not in this file; judge both together" in each for each in said)
    assert not judged(given, tmp_path).refuses


@pytest.mark.parametrize(("spec", "cuts"), [({"taints": []}, True), ({"taints": [GPU]}, False), ({}, False)], ids=str)
def test_a_patch_that_takes_the_taints_off_a_node_is_not_understood(spec: dict[str, Any], cuts: bool) -> None:
    found = unread("kubernetes:core/v1:NodePatch", {"metadata": {"name": "a"}, "spec": spec})

    assert (found is not None and found.nodes) is cuts


def test_the_exporters_image_on_docker_hub_is_looked_at(tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: %s}]}\n"

    assert judged(pod % "nvidia/dcgm-exporter:latest", tmp_path).refuses
    assert not judged(pod % "nvcr.io/nvidia/tritonserver:latest", tmp_path).refuses


@pytest.mark.parametrize("given", [{"waived": "disabled"}, {"unverified-at-preview": {"enforcementLevel": "disabled"}}])
def test_what_tells_of_open_questions_and_waivers_cannot_be_switched_off(given: dict[str, Any]) -> None:
    (problem,) = config_problems(given)

    assert problem.what.startswith("hides what the rules leave open")


def test_nor_can_it_by_the_level_of_all() -> None:
    said = [problem.what for problem in config_problems({"all": "disabled"})]

    assert "disabled hides what the rules leave open: unverified-at-preview, unverified-in-stack, waived" in said


@pytest.mark.parametrize(
    ("address", "belongs_to"),
    [
        ("NodePool/gpu", "Kubernetes"),
        ("GpuPool", "CloudFormation"),
        ("resources[0].properties.agentPoolProfiles[0]", "ARM"),
        ("aws_eks_node_group.x", "Terraform"),
        ("module.a.aws_eks_node_group.x[0]", "Terraform"),
    ],
)
def test_a_waiver_is_for_one_form_of_file(address: str, belongs_to: str) -> None:
    assert scope(address) == belongs_to
