"""Resources on EKS are registered as the classes of the installed AWS SDK would register them."""

import os
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.providers.aws.declared_inputs import declared_inputs
from gpupools.providers.aws.resources import create_pool, create_provider
from tests.providers.aws_pools import BY_ZONE, EFA, NODE_GROUP, PLACEMENT_GROUP, TAG, TEMPLATE, plan
from tests.registering import by_class, registered

ROLE = "arn:aws:iam::111122223333:role/deployer"
FULL: Mapping[str, Any] = {
    "instance_type": "p5.48xlarge",
    "zones": ["eu-central-1a"],
    "network": {**EFA, "placement": "compact"},
    "taints": ["dedicated=x:NoSchedule"],
    "overrides": {"aws": {"LaunchTemplate": {"placement": {"tenancy": "dedicated"}}}},
}


def test_a_pools_resources_are_what_the_sdks_classes_make_of_the_same_inputs() -> None:
    ours = registered(lambda: create_pool("train-a", plan(**FULL), BY_ZONE, pulumi.ResourceOptions()))

    assert {each["type"] for each in ours} == {NODE_GROUP, TEMPLATE, PLACEMENT_GROUP, TAG}
    for request in ours:
        assert request == by_class(request)


@pytest.mark.parametrize("keys", [{}, {"profile": "ml"}, {"assume_role": ROLE}], ids=["plain", "profile", "role"])
@pytest.mark.parametrize("environment", [None, "eu-west-1"], ids=["empty environment", "full environment"])
def test_a_provider_is_what_the_sdks_class_makes(
    keys: dict[str, str], environment: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getenv", lambda name, default=None: environment if default is None else default)
    assumed = [aws.ProviderAssumeRoleArgs(role_arn=ROLE)] if "assume_role" in keys else None

    def theirs() -> None:
        aws.Provider(
            "train",
            region="eu-central-1",
            allowed_account_ids=["111122223333"],
            profile=keys.get("profile"),
            assume_roles=assumed,
        )

    (made,) = registered(lambda: create_provider("train", {**BY_ZONE, **keys}, pulumi.ResourceOptions()))

    assert [made] == registered(theirs)
    assert set(made["additionalSecretOutputs"]) == {"accessKey", "secretKey", "token"}


def test_inputs_are_known_without_the_program_but_for_what_other_resources_decide() -> None:
    declare, marker = clouds()["aws"].node_pools.declared_inputs, object()
    assert declare is not None

    inputs = declare(plan(**FULL), {**BY_ZONE, "name": marker, "subnets_by_zone": {"eu-central-1a": [marker]}})

    assert set(inputs) == {"NodeGroup", "LaunchTemplate", "PlacementGroup", "Tag"}
    assert inputs["NodeGroup"]["launchTemplate"] == {"id": UNKNOWN, "version": UNKNOWN}
    assert inputs["NodeGroup"]["clusterName"] is marker
    assert inputs["NodeGroup"]["subnetIds"] == [marker]
    assert inputs["LaunchTemplate"]["placement"] == {"groupName": UNKNOWN, "tenancy": "dedicated"}
    assert inputs["LaunchTemplate"]["description"] == "Nodes of the GPU pool train-a"
    assert inputs["Tag"]["k8s.io/cluster-autoscaler/node-template/taint/dedicated"] == "x:NoSchedule"


def test_inputs_by_wire_name_are_those_that_the_program_registers() -> None:
    declared = declared_inputs(plan(**FULL), BY_ZONE)

    requests = registered(lambda: create_pool("train-a", plan(**FULL), BY_ZONE, pulumi.ResourceOptions()))

    made = {each["type"].rpartition(":")[2]: each["object"] for each in requests}
    tags = {each["object"]["tag"]["key"]: each["object"]["tag"]["value"] for each in requests if each["type"] == TAG}
    assert tags == declared["Tag"]
    for kind in ("NodeGroup", "LaunchTemplate", "PlacementGroup"):
        late = {key for key, value in declared[kind].items() if key in ("launchTemplate", "placement")}
        assert {k: v for k, v in made[kind].items() if k not in late} == {
            k: v for k, v in declared[kind].items() if k not in late
        }


@pytest.mark.parametrize("late", [UNKNOWN, {"output": "subnets"}], ids=["unknown", "another stack's"])
def test_subnets_are_unknown_where_those_of_a_zone_are(late: Any) -> None:
    by_zone = {"eu-central-1a": ["subnet-00000001"], "eu-central-1b": late}

    inputs = declared_inputs(plan(), {**BY_ZONE, "subnets_by_zone": by_zone})

    assert inputs["NodeGroup"]["subnetIds"] is UNKNOWN
