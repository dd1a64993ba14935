"""Values not known, parts of objects, programs and templates for later: what may bring nodes by them is a violation."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.documents.judging import Judged
from gpupools.policies.understood import unread

Judge = Callable[..., Judged]
TAINTED, UNDERSTOOD = "gpu-pool-tainted", "node-pools-understood"
GPU, CPU = "Standard_NC24ads_A100_v4", "Standard_D4s_v5"
KEPT = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
OPEN, WORD, NOTHING = ["mandatory", UNDERSTOOD], ["advisory", UNDERSTOOD], list[str]()


def said(judged: Judged) -> list[str]:
    """Return level and rule of the gravest finding on node pools; nothing where there is none."""
    assert judged.problems == ()
    rules = (TAINTED, f"{TAINTED}-elsewhere", UNDERSTOOD)
    found = [[each.level.value, each.rule.name] for each in judged.found if each.rule.name in rules]
    return max(found, key=lambda each: each[0], default=[])


def plan(type_: str, unknown: Any = None, /, **values: Any) -> dict[str, Any]:
    change = {"actions": ["create"], "before": None, "after": values, "after_unknown": unknown or {}}
    one = {"address": f"{type_}.a", "mode": "managed", "type": type_, "name": "a", "change": change}
    return {"format_version": "1.2", "resource_changes": [one]}


def configured(planned: dict[str, Any], **more: Any) -> dict[str, Any]:
    [one] = planned["resource_changes"]
    given = {key: one[key] for key in ("address", "mode", "type", "name")}
    return {**planned, "configuration": {"root_module": {"resources": [{**given, "expressions": {}, **more}]}}}


def release(chart: str, unknown: Any = None, /, **values: Any) -> dict[str, Any]:
    return plan("helm_release", unknown, name="a", chart=chart, repository="https://charts.example", **values)


def manifest(version: str, kind: str, **more: Any) -> str:
    return yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **more})


# --- charts -----------------------------------------------------------------------------------------------------------

LATE = {"set": [{"value": True}]}
OBJECT = {"apiVersion": "v1", "kind": "Service"}
FLUX = "helm.toolkit.fluxcd.io/v2"


def flux(chart: str, **more: Any) -> str:
    return manifest(FLUX, "HelmRelease", spec={"chart": {"spec": {"chart": chart}}, **more})


def argo(chart: str, **helm: Any) -> str:
    source = {"repoURL": "https://charts.example", "chart": chart, "targetRevision": "1.0.0", "helm": helm}
    return manifest("argoproj.io/v1alpha1", "Application", spec={"source": source})


def kustomized(chart: str, **more: Any) -> str:
    version = "kustomize.config.k8s.io/v1beta1"
    return manifest(version, "Kustomization", helmCharts=[{"name": chart, "repo": "https://charts.example", **more}])


CHARTS: dict[str, tuple[Any, list[str]]] = {
    "one setting that may be an object": (release("raw", LATE, set=[{"name": "resources[0]"}]), OPEN),
    "one setting that is a kind": (release("raw", LATE, set=[{"name": "resources[0].kind"}]), OPEN),
    "one setting inside an object": (
        release(
            "raw",
            {"set": [{}, {}, {"value": True}]},
            set=[
                {"name": "resources[0].apiVersion", "value": "v1"},
                {"name": "resources[0].kind", "value": "Service"},
                {"name": "resources[0].spec.clusterIP"},
            ],
        ),
        NOTHING,
    ),
    "secret settings": (release("raw", {"set_sensitive": True}), OPEN),
    "a secret setting": (
        release("raw", {"set_sensitive": [{"value": True}]}, set_sensitive=[{"name": "resources"}]),
        OPEN,
    ),
    "a list": (release("raw", {"set_list": [{"value": True}]}, set_list=[{"name": "resources"}]), OPEN),
    "settings that no plan shows": (
        configured(release("raw"), expressions={"set_wo": {"references": ["var.a"]}}),
        OPEN,
    ),
    "objects beside a chart's own": (release("dex", LATE, set=[{"name": "extraObjects[0]"}]), OPEN),
    "objects beside a chart of GPU software": (
        plan(
            "helm_release",
            LATE,
            name="a",
            chart="gpu-operator",
            version="v25.10.1",
            repository="https://helm.ngc.nvidia.com/nvidia",
            set=[{"name": "extraObjects"}],
        ),
        OPEN,
    ),
    "a setting of any chart": (release("dex", LATE, set=[{"name": "replicas"}]), NOTHING),
    "the values of any chart": (release("dex", {"values": [True]}), WORD),
    "a chart of pools": (release("eks-node-groups", values=["size: 3"]), OPEN),
    "a chart of Karpenter's pools": (release("karpenter-nodepools"), OPEN),
    "Karpenter itself": (release("karpenter"), NOTHING),
    "a chart of the project's own": (plan("helm_release", name="a", chart="./charts/platform"), WORD),
    "a chart that is not known": (plan("helm_release", {"chart": True}, name="a"), OPEN),
    "a program that changes it": (release("dex", postrender=[{"binary_path": "./x.sh"}]), OPEN),
    "values of Flux from elsewhere": (flux("raw", valuesFrom=[{"kind": "ConfigMap", "name": "a"}]), OPEN),
    "values of Flux to be filled in": (flux("raw", values={"resources": [{"kind": "${KIND}"}]}), OPEN),
    "values of Flux": (flux("raw", values={"resources": [{**OBJECT, "spec": {"clusterIP": "${IP}"}}]}), WORD),
    "a chart of pools by Flux": (flux("node-pools"), OPEN),
    "any chart by Flux": (flux("dex", valuesFrom=[{"kind": "ConfigMap", "name": "a"}]), WORD),
    "parameters of Argo CD": (argo("raw", parameters=[{"name": "resources[0].kind", "value": "NodePool"}]), OPEN),
    "a file of values of Argo CD": (argo("raw", valueFiles=["$values/a.yaml"]), OPEN),
    "values of Argo CD": (argo("raw", valuesObject={"resources": [OBJECT]}), WORD),
    "values of Argo CD as text": (argo("raw", values="resources: [{apiVersion: v1, kind: '{{kind}}'}]"), OPEN),
    "a chart of pools by Kustomize": (kustomized("node-pools"), OPEN),
    "a file of values of Kustomize": (kustomized("raw", valuesFile="a.yaml"), OPEN),
    "a chart of pools by k3s": (manifest("helm.cattle.io/v1", "HelmChart", spec={"chart": "node-pools"}), OPEN),
    "a chart of pools by Cluster API": (
        manifest("addons.cluster.x-k8s.io/v1alpha1", "HelmChartProxy", spec={"chartName": "node-pools"}),
        OPEN,
    ),
}

PULUMI: dict[str, tuple[str, dict[str, Any], bool | None]] = {
    "values of a release": ("helm.sh/v3:Release", {"chart": "raw", "values": {"resources": UNKNOWN}}, True),
    "values of a chart": ("helm.sh/v4:Chart", {"chart": "raw", "values": {"resources": [{"kind": UNKNOWN}]}}, True),
    "a file of values": ("helm.sh/v3:Release", {"chart": "raw", "valueYamlFiles": [{"path": "a.yaml"}]}, True),
    "a value of pools": ("helm.sh/v4:Chart", {"chart": "node-pools", "values": {"type": UNKNOWN}}, True),
    "a program": ("helm.sh/v4:Chart", {"chart": "dex", "postRenderer": {"command": "x"}}, True),
    "a chart": ("helm.sh/v3:Release", {"chart": UNKNOWN}, True),
    "values of any chart": ("helm.sh/v3:Release", {"chart": "dex", "values": {"host": UNKNOWN}}, None),
    "objects in a text": ("yaml/v2:ConfigGroup", {"yaml": UNKNOWN}, True),
    "an object": ("yaml/v2:ConfigGroup", {"objs": [UNKNOWN]}, True),
    "something in an object": ("yaml/v2:ConfigGroup", {"objs": [{**OBJECT, "spec": UNKNOWN}]}, None),
    "a folder": ("kustomize/v2:Directory", {"directory": "./a"}, None),
    "a folder not known": ("kustomize/v2:Directory", {"directory": UNKNOWN}, True),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_that_may_make_pools_is_not_let_pass(name: str, judge: Judge) -> None:
    content, wanted = CHARTS[name]

    assert said(judge(content)) == wanted


@pytest.mark.parametrize("name", PULUMI)
def test_what_pulumi_does_not_know_yet_of_a_chart_or_files_is_not_let_pass(name: str) -> None:
    kind, inputs, wanted = PULUMI[name]
    found = unread(f"kubernetes:{kind}", inputs, component=not kind.endswith("Release"))

    assert (found.nodes if found else None) is wanted


# --- parts of objects -------------------------------------------------------------------------------------------------


def pool(**inner: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": inner}},
    }


WHOLE = {
    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
    "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}],
    "taints": KEPT,
}
CUT = json.dumps({"spec": {"template": {"spec": {"taints": None}}}})


def taken(before: Any, after: Any, *actions: str) -> dict[str, Any]:
    planned = plan("kubernetes_node_taint")
    change = planned["resource_changes"][0]["change"]
    change |= {"actions": [*actions], "before": {"taint": before}, "after": {"taint": after} if after else None}
    return planned


def ruled(**operation: Any) -> dict[str, Any]:
    aim = "Microsoft.ContainerService/managedClusters/agentPools"
    rule = {
        "if": {"field": "type", "equals": aim},
        "then": {
            "effect": "modify",
            "details": {"operations": [operation | {"field": f"{aim}/{operation['field']}"}]},
        },
    }
    return plan("azurerm_policy_definition", name="a", policy_rule=json.dumps(rule))


def enforced(kind: str, word: str) -> str:
    one = {"complianceType": word, "objectDefinition": {"apiVersion": "v1", "kind": kind, "spec": {"taints": KEPT}}}
    version = "policy.open-cluster-management.io/v1"
    return manifest(version, "ConfigurationPolicy", spec={"object-templates": [one]})


DYNAMIC = "{'apiVersion': dyn('karpenter.sh/v1'), 'kind': dyn('NodePool')}"
PARTS: dict[str, tuple[Any, list[str]]] = {
    "a patch of a pool": (plan("kubernetes_patch", kind="NodePool", name="a", patch=CUT), OPEN),
    "a patch of a class": (plan("kubectl_patch", resource="ec2nodeclasses/a", patch="{}"), OPEN),
    "a patch of a kind not known": (plan("kubectl_patch", {"kind": True}, name="a"), OPEN),
    "a patch of a block's target": (plan("kubernetes_patch", target=[{"kind": "NodePool"}], patch=CUT), OPEN),
    "a patch of another block's target": (
        plan("kubernetes_patch", target=[{"kind": "Deployment"}], patch="{}"),
        NOTHING,
    ),
    "a patch of something else": (plan("kubectl_patch", kind="Deployment", patch='{"spec": {"replicas": 2}}'), NOTHING),
    "a part without taints": (plan("kubectl_manifest", yaml_body=yaml.safe_dump(pool(taints=[]))), OPEN),
    "a part with another field": (plan("kubectl_manifest", yaml_body=yaml.safe_dump(pool(expireAfter="1h"))), NOTHING),
    "taints that are not sent": (
        plan("kubectl_manifest", yaml_body=yaml.safe_dump(pool(**WHOLE)), ignore_fields=["spec.template.spec.taints"]),
        ["mandatory", TAINTED],
    ),
    "taints that something else writes": (
        plan("kubernetes_manifest", manifest=pool(**WHOLE), computed_fields=["spec.template.spec.taints"]),
        ["mandatory", TAINTED],
    ),
    "a status that something else writes": (
        plan("kubernetes_manifest", manifest=pool(**WHOLE), computed_fields=["metadata.labels", "spec.weight"]),
        NOTHING,
    ),
    "a taint that is taken away": (taken(KEPT, None, "delete"), OPEN),
    "a taint that becomes another": (taken(KEPT, [{**KEPT[0], "effect": "PreferNoSchedule"}], "update"), OPEN),
    "a taint that is added": (taken([], KEPT, "create"), NOTHING),
    "a taint that is forgotten": (taken(KEPT, None, "forget"), NOTHING),
    "a policy of Azure's on taints": (ruled(operation="addOrReplace", field="nodeTaints", value=[]), OPEN),
    "a policy of Azure's on tags": (ruled(operation="addOrReplace", field="tags.a", value="b"), NOTHING),
    "a policy that takes taints off": (enforced("Node", "mustnothave"), OPEN),
    "a policy that wants them": (enforced("Node", "musthave"), WORD),
    "a pool in an expression": (
        manifest(
            "policies.kyverno.io/v1alpha1",
            "GeneratingPolicy",
            spec={"generate": [{"expression": f"generator.Apply(a, [{DYNAMIC}])"}]},
        ),
        OPEN,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_pool_is_judged_or_not_understood(name: str, judge: Judge) -> None:
    content, wanted = PARTS[name]

    assert said(judge(content)) == wanted


@pytest.mark.parametrize(
    ("type_token", "spec", "silent"),
    [
        ("karpenter.sh/v1:NodePoolPatch", {"weight": 1}, False),
        ("cloud.google.com/v1:ComputeClassPatch", {"priorities": []}, False),
        ("cluster.x-k8s.io/v1beta1:MachineDeploymentPatch", {"replicas": 1}, False),
        ("core/v1:NodePatch", UNKNOWN, False),
        ("core/v1:NodePatch", {"taints": UNKNOWN}, False),
        ("core/v1:NodePatch", {"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, False),
        ("core/v1:NodePatch", {"taints": KEPT}, True),
        ("core/v1:NodePatch", {"unschedulable": True}, True),
        ("apps/v1:DeploymentPatch", {"replicas": 2}, True),
    ],
    ids=str,
)
def test_a_patch_of_pulumis_is_a_part_of_what_its_type_says(type_token: str, spec: Any, silent: bool) -> None:
    found = unread(f"kubernetes:{type_token}", {"metadata": {"name": "a"}, "spec": spec})

    assert (found is None) is silent
    assert silent or (found is not None and found.nodes)


def test_a_kind_has_its_article(judge: Judge) -> None:
    patch = "patches: [{target: {kind: EC2NodeClass}, path: a.yaml}]\n"
    judged = judge(f"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n{patch}")

    assert "it patches an EC2NodeClass at patches[0]" in judged.found[0].message


# --- plans and previews that leave something out ----------------------------------------------------------------------


def stated(*names: str) -> dict[str, Any]:
    listed = [{"address": f"aws_s3_bucket.{name}", "mode": "managed", "type": "aws_s3_bucket"} for name in names]
    read = {"address": "data.aws_region.a", "mode": "data", "type": "aws_region"}
    return {"root_module": {"child_modules": [{"resources": [*listed, read]}]}}


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"prior_state": {"values": stated("a", "b")}}, OPEN),
        ({"planned_values": stated("a", "b")}, OPEN),
        ({"prior_state": {"values": stated("a")}, "planned_values": stated("a")}, NOTHING),
        ({"resource_changes": [], "prior_state": {"values": stated("a")}, "complete": True}, OPEN),
        ({"resource_changes": [], "prior_state": {"values": stated()}}, NOTHING),
    ],
    ids=["targeted", "planned", "whole", "refresh-only", "empty"],
)
def test_a_plan_that_leaves_resources_of_the_state_out_is_not_whole(more: Any, wanted: list[str], judge: Judge) -> None:
    assert said(judge({**plan("aws_s3_bucket"), **more})) == wanted


def test_a_pool_of_which_nothing_is_known_is_not_let_pass(judge: Judge) -> None:
    assert said(judge(plan("aws_eks_node_group", True)))[0] == "mandatory"


@pytest.mark.parametrize("summary", [{"create": 2}, {"create": 1, "update": 1}], ids=str)
def test_a_preview_has_a_step_for_each_change_it_counts(summary: dict[str, int], judge: Judge) -> None:
    urn = "urn:pulumi:d::p::aws:s3/bucket:Bucket::a"
    step = {"op": "create", "urn": urn, "newState": {"urn": urn, "type": "aws:s3/bucket:Bucket", "inputs": {}}}
    (problem,) = judge({"steps": [step], "duration": 1, "changeSummary": summary}).problems

    assert "of which 1 have no step" in problem.what


def test_a_step_that_changes_something_says_to_what(judge: Judge) -> None:
    step = {"op": "update", "urn": "urn:pulumi:d::p::aws:eks/nodeGroup:NodeGroup::a"}
    (problem,) = judge({"steps": [step], "duration": 1, "changeSummary": {}}).problems

    assert problem.path == ("steps", 0, "newState")


# --- templates --------------------------------------------------------------------------------------------------------


def group(kind: Any) -> dict[str, Any]:
    properties = {"ClusterName": "c", "NodeRole": "r", "Subnets": ["s"], "InstanceTypes": [kind]}
    return {"Type": "AWS::EKS::Nodegroup", "Properties": properties}


def cloudformation(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def made(kind: str, **properties: Any) -> dict[str, Any]:
    return cloudformation(A={"Type": kind, "Properties": properties})


def by_size(default: str = "m5.large") -> str:
    return json.dumps(
        {
            "Parameters": {"Size": {"Type": "String", "Default": default}},
            "Resources": {"G": group({"Ref": "Size"})},
        }
    )


def instance(body: str | None, **overrides: str) -> dict[str, Any]:
    planned = plan("aws_cloudformation_stack_set_instance", stack_set_name="a", parameter_overrides=overrides)
    if body is not None:
        planned["resource_changes"] += plan("aws_cloudformation_stack_set", name="a", template_body=body)[
            "resource_changes"
        ]
    return planned


def arm(*resources: Any, **more: Any) -> dict[str, Any]:
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
    return {"$schema": schema, "contentVersion": "1.0.0.0", "resources": [*resources], **more}


def agents(size: str) -> dict[str, Any]:
    kind = "Microsoft.ContainerService/managedClusters/agentPools"
    return {"type": kind, "apiVersion": "2024-01-01", "name": "c/a", "properties": {"vmSize": size}}


def later(size: str, **more: Any) -> dict[str, Any]:
    properties = {"mainTemplate": arm(agents(size), **more)}
    return arm({"type": "Microsoft.Resources/templateSpecs/versions", "name": "a/1", "properties": properties})


def deploys(size: str) -> dict[str, Any]:
    return {"then": {"details": {"deployment": {"properties": {"template": arm(agents(size))}}}}}


def extended(size: str) -> dict[str, Any]:
    inner = {"requirements": [{"key": "karpenter.azure.com/sku-name", "operator": "In", "values": [size]}]}
    inner["nodeClassRef"] = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "a"}  # type: ignore[assignment]
    properties = {"metadata": {"name": "a"}, "spec": {"template": {"spec": inner}}}
    one = {"extension": "kubernetes", "type": "karpenter.sh/NodePool@v1", "properties": properties}
    return {**arm(), "languageVersion": "2.1-experimental", "resources": {"pool": one}}


SDK = '{"service": "@aws-sdk/client-eks", "action": "createNodegroup", "parameters": {"clusterName": "'
BOUND = ["mandatory", TAINTED]
TEMPLATES: dict[str, tuple[Any, list[str]]] = {
    "a size that is a parameter": (json.loads(by_size()), BOUND),
    "parameters of a set that is not here": (instance(None, Size="m5.large"), OPEN),
    "parameters of a set of pools": (instance(by_size(), Size="g6.xlarge"), OPEN),
    "parameters of a set without pools": (
        instance(json.dumps(cloudformation(B={"Type": "AWS::S3::Bucket"})), Name="a"),
        NOTHING,
    ),
    "instances of a set that is not here": (instance(None), WORD),
    "a product": (made("AWS::ServiceCatalog::CloudFormationProduct", Name="a"), WORD),
    "a module": (made("My::Own::Thing::MODULE"), OPEN),
    "a module in a stack": (
        plan("aws_cloudformation_stack", template_body=json.dumps(made("My::Own::Thing::MODULE"))),
        OPEN,
    ),
    "the definition of a macro": (made("AWS::CloudFormation::Macro", Name="a", FunctionName="f"), NOTHING),
    "the definition of a module": (
        made("AWS::CloudFormation::ModuleVersion", ModuleName="a", ModulePackage="s3://a"),
        NOTHING,
    ),
    "a resource that a function makes": (made("AWS::CloudFormation::CustomResource", ServiceToken="a"), WORD),
    "a call of CDK's": (made("Custom::AWS", Create=f'{SDK}a"}}}}'), OPEN),
    "another call of CDK's": (made("Custom::AWS", Create=SDK.replace("create", "describe")), WORD),
    "a loop": (
        {"Resources": {"Fn::ForEach::Groups": ["Name", {"Ref": "Names"}, {"G${Name}": group("m5.large")}]}},
        OPEN,
    ),
    "a template for later": (later(GPU), BOUND),
    "a template of CPUs for later": (later(CPU), NOTHING),
    "a template whose size is given later": (later("[parameters('s')]", parameters={"s": {"type": "string"}}), BOUND),
    "a template for later by azapi": (
        plan(
            "azapi_resource",
            type="Microsoft.Resources/templateSpecs/versions@2022-02-01",
            body={"properties": {"mainTemplate": arm(agents(GPU))}},
        ),
        BOUND,
    ),
    "a template that a policy deploys": (
        arm(
            {
                "type": "Microsoft.Authorization/policyDefinitions",
                "name": "a",
                "properties": {"policyRule": deploys(GPU)},
            }
        ),
        BOUND,
    ),
    "a template that azurerm's policy deploys": (
        plan("azurerm_policy_definition", name="a", policy_rule=json.dumps(deploys(GPU))),
        OPEN,
    ),
    "a pool of Bicep's extension": (extended(GPU), BOUND),
    "a pool of CPUs of Bicep's extension": (extended(CPU), NOTHING),
    "what a function of Crossplane makes": (
        manifest(
            "apiextensions.crossplane.io/v1", "Composition", spec={"pipeline": [{"functionRef": {"name": "own"}}]}
        ),
        WORD,
    ),
    "what makes no objects in Crossplane": (
        manifest(
            "apiextensions.crossplane.io/v1",
            "Composition",
            spec={"pipeline": [{"functionRef": {"name": "function-auto-ready"}}]},
        ),
        NOTHING,
    ),
    "Terraform of Crossplane": (manifest("tf.upbound.io/v1beta1", "Workspace", spec={}), OPEN),
    "Terraform of Flux": (manifest("infra.contrib.fluxcd.io/v1alpha2", "Terraform", spec={"path": "./a"}), WORD),
    "Terraform of Flux with a machine": (
        manifest(
            "infra.contrib.fluxcd.io/v1alpha2",
            "Terraform",
            spec={"path": "./a", "vars": [{"name": "instance_type", "value": "p5.48xlarge"}]},
        ),
        OPEN,
    ),
    "a stack of Pulumi's operator": (manifest("pulumi.com/v1", "Stack", spec={"stack": "o/p/dev"}), WORD),
    "a repository of Flux": (
        manifest("source.toolkit.fluxcd.io/v1", "GitRepository", spec={"url": "https://a"}),
        NOTHING,
    ),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_judged_with_all_that_is_given_to_it(name: str, judge: Judge) -> None:
    content, wanted = TEMPLATES[name]

    assert said(judge(content)) == wanted
