"""What is registered by type token, compared with what the classes of the installed SDKs register."""

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pulumi
import pulumi_azure_native
import pulumi_gcp
import pytest
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func

from gpupools.plan.pool_facts import UNKNOWN
from gpupools.preview.monitor import plain_struct
from gpupools.preview.sdk_schema import args_class, resource_class
from gpupools.providers import clouds
from gpupools.providers.azure.resources import create_provider as azure_provider
from gpupools.providers.gcp.resources import create_provider as gcp_provider
from gpupools.providers.registration import output_of, register
from gpupools.providers.sdk_internals import wire_names
from gpupools.stackfile.check import check_stack_file
from tests.providers import azure_pools, gcp_pools
from tests.providers.azure_pools import ADDRESSES
from tests.providers.test_azure_managed import managed

STACKS = Path(__file__).parents[1] / "stacks"
TOKENS = {
    "NodePool": "gcp:container/nodePool:NodePool",
    "ResourcePolicy": "gcp:compute/resourcePolicy:ResourcePolicy",
    "AgentPool": "azure-native:containerservice:AgentPool",
}
NOT_COMPARED = {"aliases", "sourcePosition", "stackTrace"}
"""Azure's classes have aliases of older versions of the API, which no state of gpupools holds."""


class Requests(mocks.MockMonitor):
    """Keeps what is registered."""

    def __init__(self, answers: mocks.Mocks) -> None:
        super().__init__(answers)
        self.made: list[Any] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        self.made.append(request)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


class Named(mocks.Mocks):
    """Answers with the inputs and a name."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[Any, Any]]:
        return f"{args.name}-id", {"name": "its-name", **args.inputs}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        raise AssertionError(f"a test asked the cloud for {args.token}")


def registered(program: Callable[[], object]) -> dict[str, Any]:
    """Return the fields of a program's one request."""
    monitor = Requests(Named())

    def declare() -> None:
        program()

    async def main() -> None:
        pulumi.runtime.set_mocks(monitor.mocks, monitor=monitor)
        await run_pulumi_func(declare)

    asyncio.run(main())
    (request,) = (each for each in monitor.made if each.type != "pulumi:pulumi:Stack")
    fields = {field.name: value for field, value in request.ListFields() if field.name not in NOT_COMPARED}
    return {name: plain_struct(value) if name == "object" else value for name, value in fields.items()}


def by_class(token: str, inputs: Mapping[str, Any]) -> Callable[[], object]:
    """Return a program that declares a resource with the SDK's class."""
    kind = resource_class(token)
    args = args_class(kind) if kind is not None else None
    assert kind is not None
    assert args is not None
    # Pulumi's own first argument is called resource_name, so that the SDK's has an underscore.
    names = {wire: python.replace("resource_name", "resource_name_") for python, wire in wire_names(args).items()}
    return lambda: kind("it", **{names[wire]: value for wire, value in inputs.items()})


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

    ours = registered(lambda: register(token, "it", inputs, pulumi.ResourceOptions(), outputs=["name"]))

    assert ours == registered(by_class(token, inputs))
    assert ours["object"]


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
    for settings in (
        {},
        *({each: f"of-{each}"} for each in read),
        {each: f"of-{each}" for each in read},
        dict.fromkeys(read, ""),
    ):
        for variable in read:
            monkeypatch.delenv(variable, raising=False)
        for variable, value in settings.items():
            monkeypatch.setenv(variable, value)

        ours = registered(lambda: create("it", cluster, pulumi.ResourceOptions()))

        assert ours == registered(lambda: kind("it", **cluster)), settings


@pytest.mark.parametrize(("name", "value"), [("name", "its-name"), ("project", "ml-dev")])
def test_outputs_have_their_names_on_the_wire(name: str, value: str) -> None:
    seen: list[Any] = []

    def program() -> None:
        made = register(
            TOKENS["ResourcePolicy"], "it", {"project": "ml-dev"}, pulumi.ResourceOptions(), outputs=["name"]
        )
        output_of(made, name).apply(seen.append)

    registered(program)

    assert seen == [value]


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
