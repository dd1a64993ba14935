"""Run a policy pack in a process of its own and ask it over gRPC on loopback, as the Pulumi engine does.

The engine's side of the protocol: pulumi/pulumi `pkg/resource/plugin/analyzer_plugin.go`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Self, cast

import grpc
from google.protobuf import json_format, struct_pb2
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.policies.wire import OUTPUT_VALUE, SECRET, SIGNATURE

POLICIES = Path(str(files("gpupools.policies")))
"""The folder of this project's own pack."""

# A pack gets an engine address; this project's pack never calls it, and nothing listens on port 1.
_NO_ENGINE = "127.0.0.1:1"
# Same as the policy SDK's own limit for what it receives (`pulumi_policy/policy.py`).
_MAX_MESSAGE_BYTES = 400 * 1024 * 1024
# `python -m pulumi.policy` that exits when its standard input is closed, which also happens when this process is
# killed.
_PACK_PROGRAM = """
import os, runpy, threading
def watch():
    while os.read(0, 1):
        pass
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
runpy.run_module("pulumi.policy", run_name="__main__", alter_sys=True)
"""
_CALL_TIMEOUT_S = 60.0


class PolicyPackFailed(Exception):
    """The pack did not start or returned an error; the message includes its output."""


@dataclass(frozen=True)
class Diagnostic:
    """One violation that a policy reports for a resource or the stack."""

    policy: str
    level: str
    """`advisory`, `mandatory` or `remediate`."""
    message: str
    """The policy's description, a line break, and the problem of the resource."""
    description: str
    urn: str
    severity: str
    """`low`, `medium`, `high`, `critical` or `unspecified`."""

    @property
    def mandatory(self) -> bool:
        """Return whether it blocks the deployment."""
        return self.level == "mandatory"


@dataclass(frozen=True)
class PolicyInfo:
    """One policy of a pack."""

    name: str
    level: str
    """Before configuration: `advisory`, `mandatory`, `remediate` or `disabled`."""
    description: str
    severity: str
    judges: str
    """`resource` or `stack`."""


@dataclass(frozen=True)
class PackInfo:
    """Name and policies of a pack."""

    name: str
    policies: tuple[PolicyInfo, ...]


@dataclass(frozen=True, kw_only=True)
class StackResource:
    """One resource of the whole stack, for policies that check the stack at the end."""

    urn: str
    type: str
    name: str
    properties: struct_pb2.Struct
    options: analyzer_pb2.AnalyzerResourceOptions | None = None
    parent: str = ""
    """URN, or empty."""
    dependencies: tuple[str, ...] = ()
    """URNs."""
    provider: analyzer_pb2.AnalyzerProviderResource | None = None
    """Its provider, the only place that shows which cluster a Kubernetes object belongs to."""
    property_dependencies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """URNs by the input that depends on them."""


class PolicyPackProcess:
    """A running policy pack. A context manager that starts the process and always stops it.

    `config` has the form of a `--policy-pack-config` file: by policy a level, or a mapping with `enforcementLevel` and
    the policy's own keys; `all` sets the level of all other policies. Entering and every method may raise
    `PolicyPackFailed`.
    """

    def __init__(
        self,
        folder: Path = POLICIES,
        *,
        stack: str = "preview",
        config: Mapping[str, str | JsonObject] | None = None,
    ) -> None:
        self._folder, self._stack = folder.resolve(), stack
        self._config = dict(config or {})
        self._levels: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._channel: grpc.Channel | None = None
        self._stub: Any = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:  # also when interrupted: the process must not outlive the attempt
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Process id while the process runs."""
        return self._process.pid if self._process else None

    def info(self) -> PackInfo:
        """Return the pack's name and policies, with their configured levels."""
        answer = self._call("GetAnalyzerInfo", Empty())
        return PackInfo(
            name=answer.name,
            policies=tuple(
                PolicyInfo(
                    name=policy.name,
                    level=_level(self._levels.get(policy.name, policy.enforcementLevel)),
                    description=policy.description,
                    severity=_severity(policy.severity),
                    judges=analyzer_pb2.PolicyType.Name(policy.policy_type).removeprefix("POLICY_TYPE_").lower(),
                )
                for policy in answer.policies
            ),
        )

    def analyze(
        self,
        urn: str,
        type: str,  # noqa: A002 - the protocol's own word
        name: str,
        properties: struct_pb2.Struct,
        options: analyzer_pb2.AnalyzerResourceOptions | None = None,
        provider: analyzer_pb2.AnalyzerProviderResource | None = None,
    ) -> list[Diagnostic]:
        """Return the pack's diagnostics for one resource before it exists.

        The inputs are those registered, in wire form; output values are rewritten as the engine does.
        """
        request = analyzer_pb2.AnalyzeRequest(
            urn=urn, type=type, name=name, properties=as_engine_sends(properties), options=options, provider=provider
        )
        return _diagnostics(self._call("Analyze", request), urn)

    def analyze_stack(self, resources: Iterable[StackResource]) -> list[Diagnostic]:
        """Return the pack's diagnostics for the whole stack, once, after all resources."""
        request = analyzer_pb2.AnalyzeStackRequest(
            resources=[
                analyzer_pb2.AnalyzerResource(
                    urn=resource.urn,
                    type=resource.type,
                    name=resource.name,
                    properties=as_engine_sends(resource.properties),
                    options=resource.options,
                    parent=resource.parent,
                    dependencies=resource.dependencies,
                    provider=resource.provider,
                    propertyDependencies={
                        key: analyzer_pb2.AnalyzerPropertyDependencies(urns=urns)
                        for key, urns in resource.property_dependencies.items()
                    },
                )
                for resource in resources
            ]
        )
        return _diagnostics(self._call("AnalyzeStack", request), "")

    def close(self) -> None:
        """Stop the process; may be called again."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process, not with this call
        # The arguments, folder and variables the Python language host gives a pack (pulumi/pulumi
        # `sdk/python/cmd/pulumi-language-python/main.go` RunPlugin).
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-c", _PACK_PROGRAM, _NO_ENGINE, str(self._folder)],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={
                **os.environ,
                "PULUMI_PROJECT": "gpupools",
                "PULUMI_STACK": self._stack,
                "PULUMI_DRY_RUN": "true",
            },
        )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        if not first.strip().isdigit():
            raise PolicyPackFailed(f"the policy pack printed {first!r} where its port was expected{self._output()}")
        self._channel = grpc.insecure_channel(
            f"127.0.0.1:{int(first)}",
            options=[
                ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
                ("grpc.enable_http_proxy", 0),  # a proxy of the shell must not get loopback traffic
            ],
        )
        self._stub = analyzer_pb2_grpc.AnalyzerStub(self._channel)
        self._call(
            "ConfigureStack",
            analyzer_pb2.AnalyzerStackConfigureRequest(stack=self._stack, project="gpupools", dry_run=True),
        )
        self._configure()

    def _configure(self) -> None:
        """Send every policy's level and configuration, with the schema's defaults like the engine.

        pulumi/pulumi `pkg/resource/analyzer/config.go`.
        """
        policies = {policy.name: policy for policy in self._call("GetAnalyzerInfo", Empty()).policies}
        common, _ = _level_and_properties(self._config.get("all", {}))
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        for name, policy in policies.items():
            level, properties = _level_and_properties(self._config.get(name, {}))
            schema = json_format.MessageToDict(policy.configSchema.properties)
            defaults = {key: value["default"] for key, value in schema.items() if "default" in value}
            configured = request.policyConfig[name]
            wanted = level if level is not None else common
            configured.enforcementLevel = policy.enforcementLevel if wanted is None else cast("Any", wanted)
            configured.properties.update({**defaults, **properties})
            self._levels[name] = configured.enforcementLevel
        self._call("Configure", request)

    def _call(self, method: str, request: Any) -> Any:
        try:
            return getattr(self._stub, method)(request, timeout=_CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            details = cast("Any", error).details()
            raise PolicyPackFailed(f"the policy pack failed in {method}: {details}{self._output()}") from None

    def _output(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return "\n  its output:\n" + "\n".join(f"  {line}" for line in lines[-20:]) if lines else ""


def as_engine_sends(properties: struct_pb2.Struct) -> struct_pb2.Struct:
    """Return properties with output values rewritten like the engine does for analyzers.

    pulumi/pulumi `sdk/go/common/resource/plugin/rpc.go` MarshalPropertyValue without KeepOutputValues.
    """
    if OUTPUT_VALUE.encode() not in properties.SerializeToString():
        return properties  # the usual case: visiting every value takes as long as the call of the pack
    copy = struct_pb2.Struct()
    copy.CopyFrom(properties)
    for value in copy.fields.values():
        _rewrite_outputs(value)
    return copy


def _rewrite_outputs(value: struct_pb2.Value) -> None:
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        for item in value.list_value.values:
            _rewrite_outputs(item)
    elif kind == "struct_value":
        fields = value.struct_value.fields
        for item in fields.values():
            _rewrite_outputs(item)
        if SIGNATURE in fields and fields[SIGNATURE].string_value == OUTPUT_VALUE:
            inner = struct_pb2.Value(string_value=UNKNOWN_STRING_VALUE)
            if "value" in fields:
                inner.CopyFrom(fields["value"])
            if fields["secret"].bool_value:
                envelope = {SIGNATURE: struct_pb2.Value(string_value=SECRET), "value": inner}
                inner = struct_pb2.Value(struct_value=struct_pb2.Struct(fields=envelope))
            value.CopyFrom(inner)


def _level_and_properties(config: str | JsonObject) -> tuple[int | None, JsonDict]:
    properties = {"enforcementLevel": config} if isinstance(config, str) else dict(config)
    level = properties.pop("enforcementLevel", None)
    if level is None:
        return None, properties
    return analyzer_pb2.EnforcementLevel.Value(str(level).upper()), properties


def _diagnostics(answer: Any, urn: str) -> list[Diagnostic]:
    return [
        Diagnostic(
            policy=each.policyName,
            level=_level(each.enforcementLevel),
            message=each.message,
            description=each.description,
            urn=each.urn or urn,
            severity=_severity(each.severity),
        )
        for each in answer.diagnostics
    ]


def _level(number: Any) -> str:
    return str(analyzer_pb2.EnforcementLevel.Name(number)).lower()


def _severity(number: Any) -> str:
    return str(analyzer_pb2.PolicySeverity.Name(number)).removeprefix("POLICY_SEVERITY_").lower()
