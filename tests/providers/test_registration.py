"""What is registered by type token, compared with what the classes of the installed SDKs register."""

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import pulumi_azure_native
import pulumi_gcp
import pytest

from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.providers.azure.resources import create_provider as azure_provider
from gpupools.providers.gcp.resources import create_provider as gcp_provider
from gpupools.providers.registration import output_of, register
from gpupools.stackfile.check import check_stack_file
from tests.providers import azure_pools, gcp_pools
from tests.providers.azure_pools import ADDRESSES
from tests.providers.declaring import run
from tests.providers.test_azure_managed import managed
from tests.registering import by_class, registered

STACKS = Path(__file__).parents[1] / "stacks"
TOKENS = {
    "NodePool": "gcp:container/nodePool:NodePool",
    "ResourcePolicy": "gcp:compute/resourcePolicy:ResourcePolicy",
    "AgentPool": "azure-native:containerservice:AgentPool",
}


def resources() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return token and inputs of each resource of the stack files with everything, and of an AKS-managed pool."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for cloud in ("azure", "gcp"):
        declared, file = clouds()[cloud].node_pools.declared_inputs, STACKS / f"Pulumi.everything-{cloud}.yaml"
        assert declared is not None
        checked = check_stack_file(file, clouds())
        for plan in checked.plan.pools:
            place = {"name": "a", "project": "b", "location": "c", "service_account": "d", "resource_group": "e"}
            for kind, inputs in declared(plan, place).items():
                known = {key: value for key, value in inputs.items() if key != "placementPolicy"}  # has a late name
                found[f"{kind} {plan.name}"] = (TOKENS[kind], known)
        if cloud == "azure":
            found["Resource"] = ("azure-native:resources:Resource", declared(managed(), ADDRESSES)["AgentPool"])
    return found


RESOURCES = resources()


@pytest.mark.parametrize("name", RESOURCES)
def test_a_resource_is_registered_as_by_the_class(name: str) -> None:
    token, inputs = RESOURCES[name]

    (ours,) = registered(lambda: register(token, "it", inputs, pulumi.ResourceOptions(), outputs=["name"]))
    theirs = by_class({"type": token, "name": "it", "object": inputs})
    theirs.pop("aliases", None)  # of older versions of Azure's API, which no state of gpupools holds

    assert ours == theirs
    assert ours["object"]


@pytest.mark.parametrize("name", RESOURCES)
def test_a_transformation_sees_and_changes_the_properties_of_the_class(name: str) -> None:
    token, inputs = RESOURCES[name]
    seen: list[set[str]] = []

    def look(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        seen.append({key for key, value in dict(args.props).items() if value is not None})
        renamed = {
            key: "changed" if value and key.endswith(("name", "project")) else value
            for key, value in dict(args.props).items()
        }
        return pulumi.ResourceTransformationResult(renamed, args.opts)

    watched = pulumi.ResourceOptions(transformations=[look])

    (ours,) = registered(lambda: register(token, "it", inputs, watched))
    theirs = by_class({"type": token, "name": "it", "object": inputs}, watched)
    theirs.pop("aliases", None)

    assert ours == theirs
    assert "changed" in ours["object"].values()
    assert seen[0] == seen[1]


def test_every_kind_of_resource_is_compared() -> None:
    assert {token for token, _ in RESOURCES.values()} == {*TOKENS.values(), "azure-native:resources:Resource"}


GKE = {"project": "ml-dev", "impersonate_service_account": "deployer@ml-dev.iam.gserviceaccount.com"}
AKS = {"subscription_id": "11111111-2222-3333-4444-555555555555", "tenant_id": "99999999-2222-3333-4444-555555555555"}
PROVIDERS: Mapping[str, tuple[Any, Any, Mapping[str, str]]] = {
    "gcp": (pulumi_gcp.Provider, gcp_provider, GKE),
    "gcp without account": (pulumi_gcp.Provider, gcp_provider, {"project": "ml-dev"}),
    "azure": (pulumi_azure_native.Provider, azure_provider, AKS),
    "azure of the credentials": (pulumi_azure_native.Provider, azure_provider, {}),
}


def variables(kind: type) -> list[str]:
    """Return the environment variables that a class reads."""
    calls = re.findall(r"get_env\w*\(([^)]*)\)", inspect.getsource(kind))
    return sorted({name for call in calls for name in re.findall(r"'(\w+)'", call)})


def test_the_class_of_google_reads_variables() -> None:
    assert "GOOGLE_REGION" in variables(pulumi_gcp.Provider)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_is_registered_as_by_the_class(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, create, cluster = PROVIDERS[name]
    read = variables(kind)
    alone = [{each: f"of-{each}"} for each in read] if len(cluster) < 2 else []
    for settings in ({}, *alone, {each: f"of-{each}" for each in read}, dict.fromkeys(read, "")):
        with monkeypatch.context() as environment:
            for variable in read:
                environment.delenv(variable, raising=False)
            for variable, value in settings.items():
                environment.setenv(variable, value)

            ours = registered(lambda: create("it", cluster, pulumi.ResourceOptions()))

            assert ours == registered(lambda: kind("it", **cluster)), settings


def test_outputs_have_their_names_on_the_wire() -> None:
    seen: list[Any] = []

    def program() -> None:
        inputs = {"project": "ml-dev", "workloadPolicy": {"acceleratorTopology": "1x72"}}
        made = register(TOKENS["ResourcePolicy"], "it", inputs, pulumi.ResourceOptions(), outputs=["workloadPolicy"])
        output_of(made, "workloadPolicy").apply(seen.append)

    run(program)

    assert seen == [{"acceleratorTopology": "1x72"}]


@pytest.mark.parametrize(
    ("name", "late", "unknown"),
    [("NodePool", "service_account", "name"), ("AgentPool", "subnet_id", "agentPoolName")],
)
def test_a_pool_whose_name_hangs_on_something_late_has_none_yet(name: str, late: str, unknown: str) -> None:
    cloud = clouds()["gcp" if name == "NodePool" else "azure"]
    plan = gcp_pools.plan() if name == "NodePool" else azure_pools.plan(gpu="T4")
    place = {key: value for key, value in cloud.example_cluster.items() if key != "cloud"}
    declared = cloud.node_pools.declared_inputs
    assert declared is not None

    known, later = (declared(plan, {**place, late: value})[name] for value in ("a", UNKNOWN))

    assert isinstance(known[unknown], str)
    assert later[unknown] is UNKNOWN
    assert later | {unknown: known[unknown]} != known  # the address itself is passed on as it is
