"""The strict monitor: answers a Pulumi program as the engine does in a preview, and refuses what it cannot answer.

Owns the recording of raw requests and every check that needs no cloud. It runs no transforms and asks no provider,
so a program that needs either is told so instead of being shown something that would not happen.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pulumi
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import mocks
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_organization, get_project, get_stack

from gpupools.common.errors import Path, Problem
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.preview.sdk_schema import UNKNOWN, InputProblem, check_inputs, check_property_path, knows

STACK = "pulumi:pulumi:Stack"
STACK_REFERENCE = "pulumi:pulumi:StackReference"
_PROVIDER = "pulumi:providers:"
_GET_RESOURCE = "pulumi:pulumi:getResource"
_READ_STATE = "pulumi:pulumi:readStackResourceOutputs"

# The engine takes these on a component and does nothing with them: pulumi/pulumi pkg/resource/deploy/source_eval.go,
# https://github.com/pulumi/pulumi/issues/9704.
_IGNORED_ON_COMPONENTS = (
    "ignoreChanges",
    "replaceOnChanges",
    "customTimeouts",
    "additionalSecretOutputs",
    "replaceWith",
)


class Refused(pulumi.RunError):
    """The program asked for something only the cloud could answer; the problem is already on the monitor's list."""


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
    """As on the wire: wire names, secrets in their envelopes, the engine's sentinel for unknown values."""
    options: JsonObject
    """The options that were given, in the engine's words."""
    custom: bool = True
    """Whether a provider manages it; a component is not custom."""
    request: Any = field(default=None, repr=False, compare=False)
    """The raw `RegisterResourceRequest`."""

    def as_json(self) -> JsonDict:
        """Return the resource for `gpupools preview --json`."""
        return {
            "type": self.type,
            "name": self.name,
            "urn": self.urn,
            "parent": self.parent,
            "inputs": self.inputs,
            "options": self.options,
        }


class _NoMocks(mocks.Mocks):
    """Stands where the stock monitor wants mocks; the strict monitor answers everything itself."""

    def call(self, args: mocks.MockCallArgs) -> NoReturn:
        raise Refused(f"{args.token} asks a provider")

    def new_resource(self, args: mocks.MockResourceArgs) -> NoReturn:
        raise Refused(f"{args.name} ({args.typ}) asks a provider")


class StrictMonitor(mocks.MockMonitor):
    """Records a program's requests, checks them, and answers as the engine's preview.

    A created resource has its inputs as outputs; its id and every other output are unknown. Every problem is kept on
    `problems`, and the program goes on, so that one run shows them all; only a look-up that has no answer raises.

    Use with `pulumi.runtime.set_mocks(monitor.mocks, preview=True, monitor=monitor)`.
    """

    def __init__(self, earlier: JsonObject | None = None) -> None:
        super().__init__(_NoMocks())
        self.earlier = earlier
        """What the stack's last update left, URN to `{type, outputs}`; None when nobody knows."""
        self.registered: dict[str, JsonDict] = {}
        """The outputs that resources registered, by URN, as on the wire."""
        self.declared: dict[str, DeclaredResource] = {}
        """By URN, in the order of registration; without the stack itself."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.outputs: JsonDict = {}
        """The stack's outputs as on the wire."""
        self.stack_references: list[str] = []
        """Names of the other stacks whose outputs were asked for."""
        self._stack_urn: str | None = None
        self._known: set[str] = set()
        self._twice: set[str] = set()
        self._with_outputs: set[str] = set()

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """Build a URN as the engine does: all types of the chain of parents, without the stack's.

        pulumi/pulumi docs/architecture/providers/implementers-guide.md.
        """
        chain = parent.split("::")[2] if parent else ""
        prefix = "" if chain in ("", STACK) else f"{chain}$"
        return f"urn:pulumi:{get_stack()}::{get_project()}::{prefix}{type_}::{name}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Record and check one resource; answer what a preview knows about it."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == STACK:
            self._stack_urn = urn
            self._known.add(urn)
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
        wrong = self._check(resource, request)
        self.declared.setdefault(urn, resource)
        self._known.add(urn)
        # Inputs of wrong types would break the SDK's own conversion into output types, with a worse message.
        answer = struct_pb2.Struct() if wrong else request.object
        return resource_pb2.RegisterResourceResponse(urn=urn, object=answer)

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Keep the stack's outputs; the engine takes a resource's outputs only once."""
        if request.urn == self._stack_urn:
            self.outputs = plain_struct(request.outputs)
        elif request.urn in self._with_outputs and request.urn not in self._twice:
            where = (_where(self.declared[request.urn]),) if request.urn in self.declared else (request.urn,)
            self.problems.append(Problem(where, "registers its outputs twice", "call register_outputs once, last"))
        self.registered[request.urn] = plain_struct(request.outputs)
        self._with_outputs.add(request.urn)
        return empty_pb2.Empty()

    def ReadResource(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer a stack reference with unknown outputs; refuse to read anything else."""
        if request.type != STACK_REFERENCE:
            self._refuse(
                (f"{request.type}::{request.name}",),
                f"reads the existing resource {request.id!r} from the cloud",
                "pass its address as configuration",
            )
        urn = self.make_urn(request.parent, request.type, request.name)
        stack = request.id or plain_struct(request.properties).get("name", request.name)
        if stack not in self.stack_references:
            self.stack_references.append(stack)
        self._known.add(urn)
        properties = struct_pb2.Struct()
        properties.update({"name": stack, "outputs": UNKNOWN, "secretOutputNames": UNKNOWN})
        return resource_pb2.ReadResourceResponse(urn=urn, properties=properties)

    def ExistsResource(self, request: Any) -> NoReturn:  # noqa: N802 - the protocol's name
        """Refuse: whether something exists only the cloud knows."""
        self._refuse((request.type,), f"asks the cloud whether {request.id!r} exists", "decide it in the stack file")

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Refuse every function of a provider; give back a resource this program has registered, or the own state."""
        if request.tok == _READ_STATE:
            return self._own_state(plain_struct(request.args).get("stackName"))
        urn = plain_struct(request.args).get("urn") if request.tok == _GET_RESOURCE else None
        if urn not in self.declared:
            self._refuse((request.tok,), "asks the cloud during the program", _PLAIN)
        state = struct_pb2.Struct()
        state.update({"urn": urn, "id": ""})
        state["state"] = self.declared[urn].request.object
        response = resource_pb2.ResourceInvokeResponse()
        getattr(response, "return").CopyFrom(state)  # the field's name is a keyword of Python
        return response

    def _own_state(self, stack: object) -> Any:
        """Answer what the program's own stack had before, as the engine does; without outputs when nobody knows."""
        if stack != f"{get_organization()}/{get_project()}/{get_stack()}":
            self._refuse((_READ_STATE,), f"asks for the state of {stack!r}", _PLAIN)
        response = resource_pb2.ResourceInvokeResponse()
        answer = getattr(response, "return")  # the field's name is a keyword of Python
        answer.update({"name": stack} if self.earlier is None else {"name": stack, "outputs": self.earlier})
        return response

    def Call(self, request: Any) -> NoReturn:  # noqa: N802 - the protocol's name
        """Refuse every method of a provider's resource."""
        self._refuse((request.tok,), "calls a provider during the program", _PLAIN)

    def RegisterStackTransform(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Report that the preview would differ from what the engine makes of it."""
        self.problems.append(Problem(("transforms",), "the stack has a transform, which only the engine runs", _ENGINE))
        return empty_pb2.Empty()

    def RegisterStackInvokeTransform(self, request: Any) -> Any:  # noqa: N802 - the protocol's name
        """Report that the preview would differ from what the engine makes of it."""
        return self.RegisterStackTransform(request)

    def _refuse(self, path: Path, what: str, fix: str) -> NoReturn:
        problem = Problem(path, what, fix)
        self.problems.append(problem)
        raise Refused(str(problem))

    def _check(self, resource: DeclaredResource, request: Any) -> bool:
        """Collect what is wrong with a request; tell whether its inputs are."""
        where = _where(resource)
        found = self.problems
        if resource.urn in self.declared:
            self._twice.add(resource.urn)
            found.append(Problem((where,), "is declared twice", "give one of them another name or parent"))
        if request.parent and request.parent not in self._known:
            found.append(Problem((where, "parent"), f"{request.parent} is not declared", "declare the parent first"))
        if request.remote:
            what = "is a component of another package, which only its provider can expand"
            found.append(Problem((where,), what, "use typed resources or kubernetes.helm.v3.Release"))
        if request.transforms:
            found.append(Problem((where, "transforms"), "has a transform, which only the engine runs", _ENGINE))
        if request.state_migrations:
            found.append(Problem((where, "stateMigrations"), "migrates state, which only the engine does", _ENGINE))
        found += self._wrong_providers(where, resource, request)
        if not resource.custom:
            found += [
                Problem((where, "options", option), "has no effect on a component", "give it to the resources inside")
                for option in _IGNORED_ON_COMPONENTS
                if option in resource.options
            ]
        return resource.custom and self._check_inputs(where, resource)

    def _check_inputs(self, where: str, resource: DeclaredResource) -> bool:
        """Collect what is wrong with what a provider would be sent; tell whether the inputs are."""
        found = self.problems
        if not knows(resource.type):
            package = resource.type.partition(":")[0]
            what = f"no imported SDK of {package or 'this program'} has the type {resource.type!r}"
            found.append(Problem((where,), what, "use the SDK's own class"))
            return True
        problems = check_inputs(resource.type, resource.inputs)
        for problem in problems:
            (self.warnings if problem.advisory else found).append(_placed(problem, where))
        found += _wrong_paths(where, resource)
        return any(not problem.advisory for problem in problems)

    def _wrong_providers(self, where: str, resource: DeclaredResource, request: Any) -> Iterable[Problem]:
        references = [("provider", request.provider, resource.type.partition(":")[0])] if request.provider else []
        references += [(f"providers.{package}", reference, package) for package, reference in request.providers.items()]
        for option, reference, package in references:
            urn = reference.rpartition("::")[0]
            kind = urn.rpartition("::")[0].rpartition("::")[2].rpartition("$")[2]
            if urn not in self._known:
                yield Problem((where, "options", option), f"{urn or reference} is not declared", "declare it first")
            elif kind != _PROVIDER + package:
                yield Problem((where, "options", option), f"is a {kind}", f"give a {_PROVIDER}{package}")


_PLAIN = "put the value into the stack file: a preview must give the same answer twice, and without credentials"
_ENGINE = "set the value where the resource is declared, or use pulumi preview"


def plain_struct(struct: Any) -> JsonDict:
    """Return a protobuf `Struct` as JSON types; keys sorted, whole numbers as `int`."""
    return {key: _plain(struct.fields[key]) for key in sorted(struct.fields)}  # protobuf maps have no order


def _plain(value: Any) -> Any:
    match value.WhichOneof("kind"):
        case "struct_value":
            return plain_struct(value.struct_value)
        case "list_value":
            return [_plain(item) for item in value.list_value.values]
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() else number
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
    return None


def _where(resource: DeclaredResource) -> str:
    return f"{resource.type}::{resource.name}"


def _placed(problem: InputProblem, *where: str) -> Problem:
    return Problem((*where, *problem.path), problem.what, problem.fix)


def _wrong_paths(where: str, resource: DeclaredResource) -> Iterable[Problem]:
    for option in ("ignoreChanges", "replaceOnChanges", "hideDiffs"):
        for path in resource.options.get(option, ()):
            wrong = check_property_path(resource.type, path, outputs=option == "hideDiffs")
            if wrong is not None:
                yield _placed(wrong, where, "options", option)
    for name in resource.options.get("additionalSecretOutputs", ()):
        wrong = check_property_path(resource.type, name, outputs=True)
        if wrong is not None:
            yield _placed(wrong, where, "options", "additionalSecretOutputs")


def _options(request: Any) -> JsonDict:
    """Return the options that were given; lists that come from sets are sorted."""
    by_property = {key: sorted(found.urns) for key, found in sorted(request.propertyDependencies.items()) if found.urns}
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
        "replacementTrigger": _plain(request.replacement_trigger) if request.HasField("replacement_trigger") else None,
        "hideDiffs": list(request.hideDiffs),
        "additionalSecretOutputs": list(request.additionalSecretOutputs),
        "aliases": [_alias(alias) for alias in request.aliases] + [{"urn": urn} for urn in request.aliasURNs],
        "customTimeouts": {
            key: given for key in ("create", "update", "delete", "read") if (given := getattr(timeouts, key))
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
