"""The strict monitor: answer a Pulumi program like the engine in a preview; reject requests that need a cloud.

It records raw requests and makes every check that needs no cloud. It runs no transforms and calls no provider; for a
program that needs either, it records a problem instead of showing a wrong preview.
"""

from dataclasses import dataclass, field
from typing import Any, NoReturn

import pulumi
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import mocks
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_organization, get_project, get_stack

from gpupools.common.errors import Path, Problem
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.preview.sdk_schema import UNKNOWN, check_inputs, is_known_type

STACK = "pulumi:pulumi:Stack"
STACK_REFERENCE = "pulumi:pulumi:StackReference"
_GET_RESOURCE = "pulumi:pulumi:getResource"
_READ_STATE = "pulumi:pulumi:readStackResourceOutputs"


class Refused(pulumi.RunError):
    """The program made a request that only the cloud can answer; the monitor has recorded the problem."""


@dataclass(frozen=True)
class DeclaredResource:
    """One resource as the program registered it."""

    type: str
    """Type token."""
    name: str
    urn: str
    parent: str | None
    """URN; None directly below the stack."""
    inputs: JsonObject
    """In wire form: wire names, secrets in envelopes, the engine's marker for unknown values."""
    options: JsonObject
    """The options that were set, with the engine's names."""
    custom: bool = True
    """Whether a provider manages it; False for a component."""
    request: Any = field(default=None, repr=False, compare=False)
    """The raw `RegisterResourceRequest`."""

    def as_json(self) -> JsonDict:
        """Return the resource for `gpupools preview --json`."""
        keys = ("type", "name", "urn", "parent", "custom", "inputs", "options")
        return {key: getattr(self, key) for key in keys}


class _NoMocks(mocks.Mocks):
    """Mocks that the base class requires; the strict monitor answers everything itself."""

    def call(self, args: mocks.MockCallArgs) -> NoReturn:
        raise Refused(f"{args.token} calls a provider")

    def new_resource(self, args: mocks.MockResourceArgs) -> NoReturn:
        raise Refused(f"{args.name} ({args.typ}) calls a provider")


class StrictMonitor(mocks.MockMonitor):
    """Records a program's requests, checks them, and answers like the engine in a preview.

    A created resource has its inputs as outputs; its id and every other output are unknown. Problems are collected in
    `problems` and the program continues, so that one run shows them all; only a look-up without an answer raises.

    Use with `pulumi.runtime.set_mocks(monitor.mocks, preview=True, monitor=monitor)`.
    """

    def __init__(self) -> None:
        super().__init__(_NoMocks())
        self.registered: dict[str, JsonDict] = {}
        """The registered outputs of resources by URN, in wire form."""
        self.declared: dict[str, DeclaredResource] = {}
        """By URN, in the order of registration; without the stack itself."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.outputs: JsonDict = {}
        """The stack's outputs in wire form."""
        self.stack_references: list[str] = []
        """Names of the other stacks whose outputs the program reads."""
        self._stack_urn: str | None = None

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """Return the URN that the engine builds: all types of the chain of parents, without the stack's.

        pulumi/pulumi docs/architecture/providers/implementers-guide.md.
        """
        chain = parent.split("::")[2] if parent else ""
        prefix = "" if chain in ("", STACK) else f"{chain}$"
        return f"urn:pulumi:{get_stack()}::{get_project()}::{prefix}{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Record and check one resource; return what a preview knows about it."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == STACK:
            self._stack_urn = urn
            return resource_pb2.RegisterResourceResponse(urn=urn)
        resource = DeclaredResource(
            type=request.type,
            name=request.name,
            urn=urn,
            parent=None if request.parent in ("", self._stack_urn) else request.parent,
            inputs=plain_struct(request.object),
            options=_options(request),
            custom=request.custom,
            request=request,
        )
        wrong = self._check(resource)
        self.declared.setdefault(urn, resource)
        # Inputs of wrong types would fail later in the SDK's conversion to output types, with a worse message.
        answer = struct_pb2.Struct() if wrong else request.object
        return resource_pb2.RegisterResourceResponse(urn=urn, object=answer)

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Record the outputs."""
        if request.urn == self._stack_urn:
            self.outputs = plain_struct(request.outputs)
        self.registered[request.urn] = plain_struct(request.outputs)
        return empty_pb2.Empty()

    def ReadResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Return a stack reference with unknown outputs; reject reading any other resource."""
        if request.type != STACK_REFERENCE:
            self._refuse(
                (f"{request.type}::{request.name}",),
                f"reads the existing resource {request.id!r} from the cloud",
                "set its address in the configuration",
            )
        urn = self.make_urn(request.parent, request.type, request.name)
        stack = request.id or plain_struct(request.properties).get("name", request.name)
        if stack not in self.stack_references:
            self.stack_references.append(stack)
        properties = struct_pb2.Struct()
        properties.update({"name": stack, "outputs": UNKNOWN, "secretOutputNames": UNKNOWN})
        return resource_pb2.ReadResourceResponse(urn=urn, properties=properties)

    def ExistsResource(self, request: Any) -> NoReturn:  # noqa: N802 - the protocol's name
        """Reject: only the cloud knows whether a resource exists."""
        self._refuse((request.type,), f"asks the cloud whether {request.id!r} exists", "set it in the stack file")

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Return a resource that this program has registered; reject provider functions.

        The stack's previous state, which is not known, has no outputs.
        """
        given = plain_struct(request.args)
        response = resource_pb2.ResourceInvokeResponse()
        answer = getattr(response, "return")  # the field's name is a keyword of Python
        if request.tok == _READ_STATE:
            stack = given.get("stackName")
            if stack != f"{get_organization()}/{get_project()}/{get_stack()}":
                self._refuse((_READ_STATE,), f"reads the state of the stack {stack!r}", _USE_CONFIG)
            answer.update({"name": stack})
            return response
        urn = given.get("urn") if request.tok == _GET_RESOURCE else None
        if urn not in self.declared:
            self._refuse((request.tok,), "calls a cloud while the program runs", _USE_CONFIG)
        answer.update({"urn": urn, "id": ""})
        answer["state"] = self.declared[urn].request.object
        return response

    def Call(self, request: Any) -> NoReturn:  # noqa: N802 - the protocol's name
        """Reject every method call of a provider's resource."""
        self._refuse((request.tok,), "calls a provider while the program runs", _USE_CONFIG)

    def _refuse(self, path: Path, what: str, fix: str) -> NoReturn:
        problem = Problem(path, what, fix)
        self.problems.append(problem)
        raise Refused(str(problem))

    def _check(self, resource: DeclaredResource) -> bool:
        """Collect the problems of a resource; return whether its inputs are invalid."""
        where, found = f"{resource.type}::{resource.name}", self.problems
        if resource.urn in self.declared:
            found.append(Problem((where,), "is declared twice", "change the name or parent of one of them"))
        if not resource.custom:
            return False
        if not is_known_type(resource.type):
            package = resource.type.partition(":")[0]
            what = f"no imported SDK of {package or 'this program'} has the type {resource.type!r}"
            found.append(Problem((where,), what, "use the SDK's own class"))
            return True
        problems = check_inputs(resource.type, resource.inputs)
        for problem in problems:
            told = Problem((where, *problem.path), problem.what, problem.fix)
            (self.warnings if problem.advisory else found).append(told)
        return any(not problem.advisory for problem in problems)


_USE_CONFIG = "set the value in the stack file: an offline preview must be repeatable and needs no credentials"


def plain_struct(struct: Any) -> JsonDict:
    """Return a protobuf `Struct` as JSON types; keys sorted, whole numbers as `int`."""
    return {key: _json_value(struct.fields[key]) for key in sorted(struct.fields)}  # protobuf maps have no order


def _json_value(value: Any) -> Any:
    match value.WhichOneof("kind"):
        case "struct_value":
            return plain_struct(value.struct_value)
        case "list_value":
            return [_json_value(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
    return None


def _options(request: Any) -> JsonDict:
    """Return the options that were set; lists that come from sets are sorted."""
    by_property = {key: sorted(each.urns) for key, each in sorted(request.propertyDependencies.items()) if each.urns}
    implied = {urn for urns in by_property.values() for urn in urns}
    timeouts = request.customTimeouts
    options: JsonDict = {
        "provider": request.provider,
        "providers": dict(sorted(request.providers.items())),
        "version": request.version,
        "pluginDownloadURL": request.pluginDownloadURL,
        "protect": request.protect if request.HasField("protect") else None,
        "retainOnDelete": request.retainOnDelete if request.HasField("retainOnDelete") else None,
        "deleteBeforeReplace": request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None,
        "deletedWith": request.deletedWith,
        "dependsOn": [urn for urn in sorted(request.dependencies) if urn not in implied],
        "propertyDependencies": by_property,
        "ignoreChanges": list(request.ignoreChanges),
        "replaceOnChanges": list(request.replaceOnChanges),
        "replaceWith": list(request.replace_with),
        "replacementTrigger": _json_value(request.replacement_trigger)
        if request.HasField("replacement_trigger")
        else None,
        "hideDiffs": list(request.hideDiffs),
        "additionalSecretOutputs": list(request.additionalSecretOutputs),
        "aliases": [_alias(alias) for alias in request.aliases] + [{"urn": urn} for urn in request.aliasURNs],
        "customTimeouts": {
            key: timeout for key in ("create", "update", "delete", "read") if (timeout := getattr(timeouts, key))
        },
        "import": request.importId,
        "envVarMappings": dict(sorted(request.envVarMappings.items())),
        "hooks": {key.name: list(names) for key, names in request.hooks.ListFields()},
    }
    return {key: value for key, value in options.items() if value is not None and value not in ("", [], {})}


def _alias(alias: Any) -> JsonDict:
    if alias.WhichOneof("alias") == "urn":
        return {"urn": alias.urn}
    spec = alias.spec
    named = {"name": spec.name, "type": spec.type, "stack": spec.stack, "project": spec.project}
    found: JsonDict = {key: value for key, value in named.items() if value}
    if spec.WhichOneof("parent") == "parentUrn":
        found["parent"] = spec.parentUrn
    elif spec.noParent:
        found["parent"] = None
    return found
