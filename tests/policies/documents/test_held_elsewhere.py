"""What brings nodes by a template, a product or machines that nobody here reads is never passed in silence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.documents.judging import Judged
from gpupools.policies.documents.terraform_names import terraform_names
from gpupools.policies.kinds import is_read
from gpupools.policies.understood import unread
from gpupools.providers import clouds

Judge = Callable[..., Judged]
TAINTED, UNDERSTOOD = "gpu-pool-tainted", "node-pools-understood"
TAINTED_ELSEWHERE = f"{TAINTED}-elsewhere"


@pytest.mark.parametrize(("api", "made"), [("CreateNodegroup", True), ("DescribeNodegroup", False)])
def test_a_step_of_systems_manager_is_read_where_no_text_holds_it(api: str, made: bool) -> None:
    step = {"name": "a", "action": "aws:executeAwsApi", "inputs": {"Service": "eks", "Api": api}}
    found = unread("cloudformation:AWS::SSM::Document", {"Content": {"schemaVersion": "0.3", "mainSteps": [step]}})

    assert (found is not None and found.nodes) is made


@pytest.mark.parametrize(
    "type_token",
    [
        "terraform:aws_servicecatalog_provisioned_product",
        "aws-native:servicecatalog:CloudFormationProvisionedProduct",
        "terraform:awscc_servicecatalog_cloud_formation_provisioned_product",
        "cloudformation:AWS::ServiceCatalog::CloudFormationProvisionedProduct",
        "aws:servicecatalog/provisionedProduct:ProvisionedProduct",
        "terraform:aws_serverlessapplicationrepository_cloudformation_stack",
        "aws:serverlessrepository/cloudFormationStack:CloudFormationStack",
        "cloudformation:AWS::Serverless::Application",
        *("terraform:azurerm_managed_application", "azure:managedapplication/application:Application"),
        *("azure-native:solutions:Application", "arm:Microsoft.Solutions/applications"),
        *("terraform:azurerm_blueprint_assignment", "arm:Microsoft.Blueprint/blueprintAssignments"),
        *("terraform:google_infra_manager_deployment", "gcp:config/deployment:Deployment"),
        *("terraform:google_deployment_manager_deployment", "gcp:deploymentmanager/deployment:Deployment"),
        *("arm:Microsoft.RedHatOpenShift/openShiftClusters", "azure-native:redhatopenshift:OpenShiftCluster"),
        *("terraform:azurerm_redhat_openshift_cluster", "azure:redhatopenshift/cluster:Cluster"),
        "arm:Microsoft.HybridContainerService/provisionedClusterInstances",
        "arm:Microsoft.ContainerService/openShiftManagedClusters",
        "arm:Microsoft.ContainerService/containerServices",
        "kubernetes:redhatopenshift.azure.com/v1api20231122:OpenShiftCluster",
        "kubernetes:redhatopenshift.azure.upbound.io/v1beta1:Cluster",
        "kubernetes:resources.azure.upbound.io/v1beta1:ResourceGroupTemplateDeployment",
        "kubernetes:cloudformation.aws.m.upbound.io/v1beta1:Stack",
        "kubernetes:cloudcontrol.aws.upbound.io/v1beta1:Resource",
        "kubernetes:ec2.aws.upbound.io/v1beta1:SpotInstanceRequest",
        "kubernetes:compute.gcp.upbound.io/v1beta1:RegionInstanceGroupManager",
        "kubernetes:compute.cnrm.cloud.google.com/v1beta1:ComputeInstanceTemplate",
        "kubernetes:compute.cnrm.cloud.google.com/v1beta1:ComputeInstanceGroupManager",
        "kubernetes:compute.cnrm.cloud.google.com/v1beta1:ComputeRegionInstanceGroupManager",
    ],
)
def test_what_may_bring_nodes_by_what_is_not_at_hand_is_a_violation(type_token: str) -> None:
    found = unread(type_token, {"name": "a"})

    assert found is not None
    assert found.nodes


@pytest.mark.parametrize(
    ("kind", "spec", "rules"),
    [
        ("ROSAControlPlane", "{defaultMachinePoolSpec: {instanceType: g6.xlarge}}", [TAINTED]),
        ("ROSAControlPlane", "{defaultMachinePoolSpec: {instanceType: '${TYPE}'}}", [TAINTED]),
        ("ROSAControlPlane", "{defaultMachinePoolSpec: {instanceType: '${TYPE:=g6.xlarge}'}}", [TAINTED]),
        ("ROSAControlPlane", "{defaultMachinePoolSpec: {instanceType: 'g6.${SIZE}'}}", [TAINTED]),
        ("ROSAControlPlane", "{defaultMachinePoolSpec: '{{ .Values.pool }}'}", [TAINTED]),
        ("ROSAControlPlane", "'${SPEC}'", [TAINTED]),
        ("ROSAControlPlane", "{defaultMachinePoolSpec: {instanceType: m5.large}, version: '${VERSION}'}", []),
        ("ROSAControlPlane", "{region: '${REGION}'}", []),
        ("ROSAMachinePool", "{instanceType: '${TYPE}'}", [TAINTED]),
        ("ROSAMachinePool", "{instanceType: g6.xlarge, taints: '${TAINTS}'}", [TAINTED]),
        (
            "ROSAMachinePool",
            "{instanceType: '${TYPE}', taints: [{key: nvidia.com/gpu, value: a, effect: NoSchedule}]}",
            [],
        ),
        ("ROSAMachinePool", "{instanceType: m5.large, nodePoolName: '${NAME}'}", []),
        ("ROSANetwork", "{stackName: '${NAME}'}", []),
        ("ROSARoleConfig", "{accountRoleConfig: {prefix: '${PREFIX}'}}", []),
    ],
)
def test_a_pool_of_rosa_is_judged_with_its_placeholders(kind: str, spec: str, rules: list[str], judge: Judge) -> None:
    group = "controlplane" if kind == "ROSAControlPlane" else "infrastructure"
    version = f"{group}.cluster.x-k8s.io/v1beta2"
    judged = judge(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n")

    assert [each.rule.name for each in judged.found if each.level == "mandatory"] == rules
    assert judged.problems == ()


def test_the_pool_of_a_control_plane_takes_no_taints(judge: Judge) -> None:
    version = "controlplane.cluster.x-k8s.io/v1beta2"
    spec = {"defaultMachinePoolSpec": {"instanceType": "g6.xlarge"}}
    judged = judge({"apiVersion": version, "kind": "ROSAControlPlane", "metadata": {"name": "a"}, "spec": spec})
    (found,) = (each for each in judged.found if each.rule.name == TAINTED)

    assert "move the GPUs to a pool of their own, since this one takes no taints" in found.message


@pytest.mark.parametrize(
    ("type_token", "silent"),
    [
        *(("terraform:alicloud_ecs_launch_template", False), ("terraform:volcengine_ecs_instance", False)),
        *(("terraform:aws_ecs_cluster", True), ("cloudformation:AWS::ECS::Cluster", True)),
        *(("awsx:ecs:FargateService", True), ("terraform:awscc_ecs_cluster", True)),
    ],
)
def test_ecs_is_containers_at_aws_alone(type_token: str, silent: bool) -> None:
    assert (unread(type_token, {"name": "a"}) is None) is silent


def test_the_list_of_what_is_read_names_no_type_that_only_others_refer_to() -> None:
    (line,) = (
        each
        for each in (Path(__file__).parents[3] / "docs/reference/kinds.md").read_text(encoding="utf-8").splitlines()
        if each.startswith("| Terraform and OpenTofu |")
    )

    assert "`aws_instance`" in line
    assert [name for name, each in terraform_names().items() if f"`{name}`" in line and not is_read(each.type)] == []


# --- templates inside others ------------------------------------------------------------------------------------------


def group(kind: str, **more: Any) -> dict[str, Any]:
    properties = {"ClusterName": "c", "NodeRole": "r", "Subnets": ["s"], "InstanceTypes": [kind], **more}
    return {"Type": "AWS::EKS::Nodegroup", "Properties": properties}


def template(**resources: Any) -> str:
    return json.dumps({"Resources": resources})


def nested(body: Any) -> dict[str, Any]:
    return {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateBody": body}}


def arm(*resources: Any) -> dict[str, Any]:
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
    return {"$schema": schema, "contentVersion": "1.0.0.0", "resources": [*resources]}


def part(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "apiVersion": "2024-01-01", "name": "a", **more}


def agent_pool(size: str) -> dict[str, Any]:
    properties = {"vmSize": size, "count": 1}
    return part("Microsoft.ContainerService/managedClusters/agentPools", properties=properties)


def deployed(written: str, **given: str) -> dict[str, Any]:
    inner = {**arm(agent_pool(written)), "parameters": {"size": {"type": "string"}}}
    parameters = {name: {"value": f"[toLower('{value}')]"} for name, value in given.items()}
    options = {"expressionEvaluationOptions": {"scope": "inner"}, "parameters": parameters, "template": inner}
    return part("Microsoft.Resources/deployments", properties=options)


def plan(kind: str, unknown: Any = None, **values: Any) -> dict[str, Any]:
    change = {"actions": ["create"], "before": None, "after": values, "after_unknown": unknown or {}}
    one = {"address": f"{kind}.a", "mode": "managed", "type": kind, "name": "a", "change": change}
    return {"format_version": "1.2", "resource_changes": [one]}


def sent(method: str, body: Any, kind: str = "managedClusters/agentPools", **more: Any) -> dict[str, Any]:
    given = {"type": f"Microsoft.ContainerService/{kind}@2024-01-01", "method": method, "resource_id": "x", **more}
    unknown = {"body": True} if body is UNKNOWN else {}
    return plan("azapi_resource_action", unknown, **given, **({} if body is UNKNOWN else {"body": body}))


def controlled(kind: str, **state: Any) -> dict[str, Any]:
    return plan("aws_cloudcontrolapi_resource", type_name=kind, desired_state=json.dumps(state))


def release(**settings: str) -> dict[str, Any]:
    given = [{"name": f"resources[0].{name.replace('_', '.')}", "value": value} for name, value in settings.items()]
    return plan("helm_release", chart="raw", repository="https://charts.example", name="a", set=given)


GPU, CPU = "Standard_NC24ads_A100_v4", "Standard_D4s_v5"
MACRO = {"Fn::Transform": {"Name": "Macro"}}
STACK = "AWS::CloudFormation::Stack"
STACKS = "Microsoft.Resources/deploymentStacks"
SCRIPTS, SCALE_SET = "Microsoft.Resources/deploymentScripts", "Microsoft.Compute/virtualMachineScaleSets"
JUDGED: dict[str, tuple[Any, list[str]]] = {
    "a stack in Cloud Control": (controlled(STACK, TemplateBody=template(G=group("g6.xlarge"))), [TAINTED]),
    "a stack of CPUs in Cloud Control": (controlled(STACK, TemplateBody=template(G=group("m5.large"))), []),
    "a stack in Cloud Control from elsewhere": (controlled(STACK, TemplateURL="https://x"), [UNDERSTOOD]),
    "a stack not known in Cloud Control": (
        plan("aws_cloudcontrolapi_resource", {"desired_state": True}, type_name=STACK),
        [UNDERSTOOD],
    ),
    "a stack in a stack": (
        plan("aws_cloudformation_stack", template_body=template(S=nested(template(G=group("g6.xlarge"))))),
        [TAINTED],
    ),
    "a stack in a stack, from elsewhere": (
        plan("aws_cloudformation_stack", template_body=template(S=nested(None))),
        [UNDERSTOOD],
    ),
    "a macro over a stack": (
        plan("aws_cloudformation_stack", template_body=json.dumps({"Transform": "Macro", "Resources": {}})),
        [UNDERSTOOD],
    ),
    "a macro beside a type in a stack": (
        plan("aws_cloudformation_stack", template_body=template(G={**group("m5.large"), **MACRO})),
        [UNDERSTOOD],
    ),
    "a macro among properties in a stack": (
        plan("aws_cloudformation_stack", template_body=template(G=group("m5.large", **MACRO))),
        [TAINTED],
    ),
    "a template that is a map": (template(S=nested({"Resources": {"G": group("g6.xlarge")}})), [TAINTED]),
    "a macro among properties": (template(G=group("m5.large", **MACRO)), [UNDERSTOOD]),
    "a macro beside a type": (template(G={**group("m5.large"), **MACRO}), [UNDERSTOOD]),
    "a macro in a launch template": (
        template(
            G={
                "Type": "AWS::EKS::Nodegroup",
                "Properties": {"ClusterName": "c", "LaunchTemplate": {"Id": {"Ref": "T"}, "Version": "1"}},
            },
            T={
                "Type": "AWS::EC2::LaunchTemplate",
                "Properties": {"LaunchTemplateData": {"InstanceType": "m5.large", **MACRO}},
            },
        ),
        [TAINTED_ELSEWHERE],
    ),
    "a stack of deployments from elsewhere": (
        arm(part(STACKS, properties={"templateLink": {"uri": "https://x"}})),
        [UNDERSTOOD],
    ),
    "a stack of deployments": (arm(part(STACKS, properties={"template": arm(agent_pool(GPU))})), [TAINTED]),
    "a stack of deployments of CPUs": (arm(part(STACKS, properties={"template": arm(agent_pool(CPU))})), []),
    "a stack of deployments by azapi": (
        plan("azapi_resource", type=f"{STACKS}@2024-03-01", body={"properties": {"template": arm(agent_pool(GPU))}}),
        [TAINTED],
    ),
    "a deployment by azapi from elsewhere": (
        plan("azapi_resource", type="Microsoft.Resources/deployments@2024-03-01", body={"properties": {}}),
        [UNDERSTOOD],
    ),
    "a deployment by azapi": (
        plan(
            "azapi_resource",
            type="Microsoft.Resources/deployments@2024-03-01",
            body={"properties": {"template": arm(agent_pool(CPU))}},
        ),
        [],
    ),
    "a pool that an action sends": (sent("PUT", {"properties": {"vmSize": GPU}}), [TAINTED]),
    "a pool of CPUs that an action sends": (sent("PUT", {"properties": {"vmSize": CPU}}), []),
    "a pool not known that an action sends": (sent("PUT", UNKNOWN), [UNDERSTOOD]),
    "part of a pool that an action sends": (sent("PATCH", {"properties": {"count": 3}}), [UNDERSTOOD]),
    "an action of a cluster": (sent("POST", None, "managedClusters", action="stop"), []),
    "a deployment with a size for its own template": (arm(deployed("[parameters('size')]", size=GPU)), [TAINTED]),
    "a deployment without the size": (arm(deployed("[parameters('size')]")), [TAINTED]),
    "a size that is put together": (arm(agent_pool("[concat('Standard_', 'NC24ads_A100_v4')]")), [TAINTED]),
    "a size that nobody knows": (arm(agent_pool("[reference('x').size]")), [TAINTED]),
    "a pool of any type": (arm({**agent_pool(CPU), "type": "[parameters('type')]"}), [UNDERSTOOD]),
    "resources of any type": ({**arm(), "resources": "[parameters('all')]"}, [UNDERSTOOD]),
    "a release that sets a pool": (
        release(apiVersion="karpenter.sh/v1", kind="NodePool", spec_weight="1"),
        [UNDERSTOOD],
    ),
    "a release that sets something else": (release(apiVersion="v1", kind="Service", spec_type="NodePort"), []),
}


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_held_inside_is_judged_or_not_understood(name: str, judge: Judge) -> None:
    given, rules = JUDGED[name]
    judged = judge(given)
    said = {each.rule.name for each in judged.found if each.level == "mandatory"} & {
        TAINTED,
        TAINTED_ELSEWHERE,
        UNDERSTOOD,
    }

    assert judged.problems == ()
    assert sorted(said) == rules


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            part(SCALE_SET, sku={"name": GPU}, properties={}),
            f"it names the machine '{GPU}' at sku.name",
        ),
        (
            part(SCRIPTS, properties={"primaryScriptUri": "https://x/y.sh"}),
            "it runs a script that lies elsewhere, at primaryScriptUri",
        ),
        (part(SCALE_SET, sku={"name": CPU}, properties={}), ""),
        (part(SCRIPTS, properties={"scriptContent": "Write-Output done"}), ""),
        (
            part(SCRIPTS, properties={"scriptContent": "az $CMD", "environmentVariables": [{"name": "CMD"}]}),
            "it runs az $CMD, with words that are not known here",
        ),
        (
            part(SCRIPTS, properties={"scriptContent": "[parameters('script')]"}),
            "it runs a command that is not known yet at scriptContent",
        ),
    ],
    ids=str,
)
def test_machines_and_scripts_of_a_template_are_worth_a_word(given: dict[str, Any], said: str, judge: Judge) -> None:
    found = [each for each in judge(arm(given)).found if each.rule.name == UNDERSTOOD]

    assert [each.level for each in found] == (["advisory"] if said else [])
    assert all(said in each.message for each in found)


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ({"template": arm()}, ""),
        ({"template": UNKNOWN}, "template is not known yet"),
        ({"templateLink": {"uri": "https://x"}}, "its template is not at hand, or properties.template is none"),
    ],
)
def test_a_stack_of_deployments_is_read_as_its_template_is(inputs: dict[str, Any], why: str) -> None:
    token = "azure-native:resources:DeploymentStackAtResourceGroup"

    assert clouds()["azure"].reading().unread(token, inputs) == why


@pytest.mark.parametrize(
    ("inputs", "silent"),
    [
        ({"resourceProviderNamespace": "Microsoft.RedHatOpenShift", "resourceType": "openShiftClusters"}, False),
        ({"resourceProviderNamespace": "Microsoft.Resources", "resourceType": "deployments"}, False),
        (
            {
                "resourceProviderNamespace": "Microsoft.ContainerService",
                "parentResourcePath": "managedClusters/a/agentPools/b",
                "resourceType": "machines",
            },
            False,
        ),
        ({"resourceProviderNamespace": "Microsoft.Network", "resourceType": UNKNOWN}, False),
        ({"resourceProviderNamespace": "Microsoft.Network", "resourceType": "virtualNetworks"}, True),
    ],
    ids=str,
)
def test_a_generic_resource_is_taken_for_what_its_type_says(inputs: dict[str, Any], silent: bool) -> None:
    found = unread("azure-native:resources:Resource", {**inputs, "properties": {}})

    assert (found is None) is silent
    assert silent or (found is not None and found.nodes)


def test_stacks_inside_each_other_end() -> None:
    body: Any = {"Resources": {"G": {"Type": "A::B::C::MODULE"}}}
    for _ in range(30):
        body = {"Resources": {"S": nested(body)}}

    why = clouds()["aws"].reading().unread("aws:cloudformation/stack:Stack", {"templateBody": body})

    assert why.endswith("a module, whose resources are not in this template")
