"""What Terraform sends and hands on beside the pools it declares is read, or said to be not understood."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from gpupools.audit.judging import FileReport
from gpupools.plan.pool_facts import UNKNOWN

Judge = Callable[..., FileReport]
RULES = {"gpu-pool-tainted", "node-pools-understood"}
MAKES = "eksctl create nodegroup --cluster c -t g6.xlarge"
JOINS = "#!/bin/sh\nkubeadm join 10.0.0.1:6443 --token abcdef"
GPU, CPU = "Standard_NC24ads_A100_v4", "Standard_D4s_v5"
AGENT_POOL = "Microsoft.ContainerService/managedClusters/agentPools@2024-01-01"
CLUSTER = "Microsoft.ContainerService/managedClusters@2024-01-01"


def plan(kind: str, /, *, given: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """Make a plan of one resource; `UNKNOWN` stands for what it does not know.

    Args:
        kind: Its type.
        given: Its expressions in the configuration.
        values: Its values.
    """
    known = {key: value for key, value in values.items() if value is not UNKNOWN}
    unknown = {key: True for key, value in values.items() if value is UNKNOWN}
    change = {"actions": ["create"], "before": None, "after": known, "after_unknown": unknown}
    one = {"address": f"{kind}.a", "mode": "managed", "type": kind, "name": "a"}
    made: dict[str, Any] = {"format_version": "1.2", "resource_changes": [{**one, "change": change}]}
    if given is not None:
        made["configuration"] = {"root_module": {"resources": [{**one, "expressions": given}]}}
    return made


def data(kind: str, /, read: dict[str, Any] | None = None, **expressions: Any) -> dict[str, Any]:
    """Make a plan with a data source; `UNKNOWN` stands for an expression with references."""
    made = plan("aws_s3_bucket", bucket="b")
    one = {"address": f"data.{kind}.a", "mode": "data", "type": kind, "name": "a"}
    given = {
        key: {"references": ["path.module"]} if each is UNKNOWN else {"constant_value": each}
        for key, each in expressions.items()
    }
    made["configuration"] = {"root_module": {"resources": [{**one, "expressions": given}]}}
    if read is not None:
        made["prior_state"] = {"values": {"root_module": {"resources": [{**one, "values": read}]}}}
    return made


def ephemeral(kind: str, /, **expressions: Any) -> dict[str, Any]:
    made = data(kind, **expressions)
    made["configuration"]["root_module"]["resources"][0] |= {"mode": "ephemeral", "address": f"ephemeral.{kind}.a"}
    return made


def put_off(kind: str, /, **values: Any) -> dict[str, Any]:
    """Make a plan with a data source that is read while the plan is applied."""
    made = plan(kind, **values)
    made["resource_changes"][0] |= {"mode": "data", "address": f"data.{kind}.a"}
    made["resource_changes"][0]["change"]["actions"] = ["read"]
    return made


def action(kind: str, /, *, deferred: bool = False, **values: Any) -> dict[str, Any]:
    known = {key: value for key, value in values.items() if value is not UNKNOWN}
    unknown = {key: True for key, value in values.items() if value is UNKNOWN}
    one = {"address": f"action.{kind}.a", "type": kind, "name": "a", "config_values": known, "config_unknown": unknown}
    listed = (
        {"deferred_action_invocations": [{"action_invocation": one}]} if deferred else {"action_invocations": [one]}
    )
    return {**plan("aws_s3_bucket", bucket="b"), **listed}


def release(**values: Any) -> dict[str, Any]:
    return plan("helm_release", **{"chart": "raw", "repository": "https://charts.example", "name": "a", **values})


def manifest(machine: str, *taints: dict[str, str]) -> str:
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [machine]}]
    spec = {"template": {"spec": {"requirements": requirements, "taints": taints}}}
    return json.dumps(
        {"resources": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {}, "spec": spec}]}
    )


def stack(kind: str, **parameters: Any) -> dict[str, Any]:
    properties = {"ClusterName": "c", "NodeRole": "r", "Subnets": ["s"], "InstanceTypes": [{"Ref": "Machine"}]}
    body = {
        "Parameters": {"Machine": {"Type": "String", "Default": "m5.large"}},
        "Resources": {"G": {"Type": "AWS::EKS::Nodegroup", "Properties": properties}},
    }
    return plan(kind, template_body=json.dumps(body), **parameters)


def deployment(kind: str, **parameters: Any) -> dict[str, Any]:
    pool = {"type": AGENT_POOL.partition("@")[0], "name": "a", "properties": {"vmSize": "[parameters('size')]"}}
    body = {"parameters": {"size": {"type": "string", "defaultValue": CPU}}, "resources": [pool]}
    key = "template_body" if kind == "azurerm_template_deployment" else "template_content"
    values: dict[str, Any] = {key: json.dumps(body), **parameters}
    return plan(kind, **values)


def azapi(secret: Any = None, kind: str = AGENT_POOL, **properties: Any) -> dict[str, Any]:
    body = {"properties": properties}
    given: dict[str, Any] = {} if secret is None else {"sensitive_body": {"references": ["var.secret"]}}
    if isinstance(secret, dict):
        given = {"sensitive_body": {"constant_value": {"properties": secret}}}
    return plan("azapi_resource", given=given, type=kind, body=body, sensitive_body=None)


POOLS = "/v1/projects/p/locations/l/clusters/c/nodePools"
VIOLATIONS: dict[str, Any] = {
    "a request for pools": data("http", method="POST", url=f"https://container.googleapis.com{POOLS}"),
    "a request for a pool": put_off("terracurl_request", method=UNKNOWN, url=f"https://x.example{POOLS}/gpu"),
    "an object of an API": plan("restapi_object", path=POOLS, data="{}"),
    "a resource of an API": plan("restful_resource", path="/x/managedClusters/c/agentPools/gpu", body={}),
    "a pool that an action sends": action(
        "azapi_resource_action", type=AGENT_POOL, method="PUT", body={"properties": {"vmSize": GPU}}
    ),
    "a body that no plan shows": azapi(UNKNOWN),
    "a pool in a body that no plan shows": azapi({"vmSize": GPU}, count=1),
    "a body that is no JSON": plan("azapi_resource", type=AGENT_POOL, body="{"),
    "a pool": release(values=[manifest("g6.xlarge")]),
    "pools not known yet": release(values=UNKNOWN, chart="./charts/karpenter-node-pools"),
    "settings not known yet": release(set=UNKNOWN, chart="oci://x.example/nodepools"),
    "a parameter of a stack": stack("aws_cloudformation_stack"),
    "a parameter of a deployment": deployment("azurerm_resource_group_template_deployment"),
    "a parameter of an old deployment": deployment("azurerm_template_deployment"),
    "a stack of deployments": plan("azurerm_subscription_deployment_stack", name="a"),
}
ADVICE: dict[str, Any] = {
    "a program that was run": data("external", {"program": ["sh", "-c", MAKES]}, program=UNKNOWN),
    "an action": action("local_command", command="bash", arguments=["-c", MAKES]),
    "an ephemeral resource": ephemeral("external", program=["sh", "-c", MAKES]),
    "an action with a script": action("aws_ssm_send_command", parameters={"commands": [MAKES]}),
    "machines that join": plan(
        "azurerm_linux_virtual_machine_scale_set", sku=GPU, custom_data=base64.b64encode(JOINS.encode()).decode()
    ),
    "a chart of something else": release(values=["a: b"], chart="ingress-nginx"),
    "a program not known": data("external", program=UNKNOWN),
    "a function that is read": data("aws_lambda_invocation", function_name="f", input="{}"),
    "a function": plan("aws_lambda_invocation", function_name="f", input="{}"),
    "a function that an action runs": action("aws_lambda_invoke", function_name="f", payload="{}"),
    "machines that are only said to join": plan(
        "google_compute_instance",
        machine_type="g2-standard-4",
        metadata={"startup-script": "#!/bin/sh\n# kubeadm join is for others\n"},
    ),
    "what lies in Git": plan("azurerm_kubernetes_flux_configuration", name="a"),
    "a chart of something else, with values not known": release(values=UNKNOWN, chart="ingress-nginx"),
    "machines with a taint": plan(
        "google_compute_instance",
        machine_type="g2-standard-4",
        metadata={"startup-script": f"{JOINS}\n--register-with-taints=nvidia.com/gpu=present:NoSchedule"},
    ),
}
FINE: dict[str, Any] = {
    "a request": data("http", url=f"https://container.googleapis.com{POOLS}"),
    "an image": data("aws_ami", owners=["amazon"]),
    "an action": action("aws_ec2_stop_instance", instance_id="i-1"),
    "a message": action("aws_sns_publish", topic_arn="t", message="nodes are made with eksctl"),
    "a secret": azapi(UNKNOWN, CLUSTER, agentPoolProfiles=[{"name": "a", "vmSize": CPU}]),
    "CPUs in a body": azapi({"count": 2}, vmSize=CPU),
}


DECIDED = ("a pool that an action sends",)


def answer(judged: FileReport) -> str:
    said = [found for found in judged.found if found.rule.name in RULES]
    assert judged.problems == ()
    levels = {found.level.value for found in said}
    return next((each for each in ("violation", "unverified", "advice") if each in levels), "fine")


@pytest.mark.parametrize("name", VIOLATIONS)
def test_what_may_make_nodes_is_a_violation(name: str, judge: Judge) -> None:
    assert answer(judge(VIOLATIONS[name])) == ("violation" if name in DECIDED else "unverified")


@pytest.mark.parametrize("name", ADVICE)
def test_what_lies_elsewhere_is_worth_a_word(name: str, judge: Judge) -> None:
    assert answer(judge(ADVICE[name])) == "advice"


@pytest.mark.parametrize("name", FINE)
def test_what_makes_no_nodes_passes(name: str, judge: Judge) -> None:
    assert answer(judge(FINE[name])) == "fine"


def test_a_data_source_is_no_resource_of_the_same_name(judge: Judge) -> None:
    group = plan("aws_eks_node_group", given={"instance_types": {"references": ["var.types"]}}, instance_types=UNKNOWN)
    resources = group["configuration"]["root_module"]["resources"]
    resources.append({**resources[0], "mode": "data", "address": "data.aws_eks_node_group.a", "expressions": {}})

    assert answer(judge(group)) == "unverified"


TAINTS = (
    "#!/bin/bash\n/etc/eks/bootstrap.sh c --kubelet-extra-args '--register-with-taints=nvidia.com/gpu=a:NoSchedule'"
)
HASHED = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"


@pytest.mark.parametrize(
    ("kind", "machine", "written", "wrong"),
    [
        ("aws_instance", "g6.xlarge", {"constant_value": JOINS}, True),
        ("aws_instance", "g6.xlarge", {"references": ["local.a"]}, False),  # nothing scales it
        ("aws_launch_configuration", "g6.xlarge", {"references": ["local.a"]}, True),
        ("aws_instance", "m5.large", {"references": ["local.a"]}, False),
        ("aws_instance", "g6.xlarge", {"constant_value": TAINTS}, False),
        ("aws_instance", "g6.xlarge", {"constant_value": "#!/bin/sh\napt-get install -y nginx"}, False),
    ],
)
def test_user_data_of_which_a_plan_has_a_hash_is_read_as_written(
    kind: str, machine: str, written: dict[str, Any], wrong: bool, judge: Judge
) -> None:
    made = plan(kind, given={"user_data": written}, instance_type=machine, user_data=HASHED)

    judged = judge(json.dumps(made))

    assert ("gpu-pool-tainted" in {each.rule.name for each in judged.found}) is wrong
