"""Runs a policy pack in a process of its own and asks it as the Pulumi engine does, over gRPC on loopback.

Owns the process and the wire. What the pack says belongs to the pack, what is done about it to the caller.
The engine's side of the protocol: pulumi/pulumi `pkg/resource/plugin/analyzer_plugin.go`.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

import grpc
from google.protobuf import json_format, struct_pb2
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.preview.sdk_schema import SECRET, SIGNATURE

POLICIES = Path(str(files("gpupools.policies")))
"""The folder of this project's own pack."""

# The pack is told an engine address but this project's never calls back; port 1 answers nobody.
_NO_ENGINE = "127.0.0.1:1"
# As large as the policy SDK's own limit for what it receives (`pulumi_policy/policy.py`).
_MAX_MESSAGE_BYTES = 400 * 1024 * 1024
# `python -m pulumi.policy`, and its end as soon as nobody holds the other end of its standard input: a process that is
# killed closes that end too, and could not end the pack in any other way.
_UNTIL_WE_END = """
import os, runpy, threading
def watch():
    while os.read(0, 1):
        pass
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
runpy.run_module("pulumi.policy", run_name="__main__", alter_sys=True)
"""
_STOP_TIMEOUT_S = 5.0
_CALL_TIMEOUT_S = 60.0

# An envelope of the wire form: pulumi/pulumi `sdk/go/common/resource/sig/sig.go`.
_OUTPUT_VALUE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"


class PolicyPackFailed(Exception):
    """The pack did not start, died, or answered with an error; the message says which and what it printed."""


@dataclass(frozen=True)
class Diagnostic:
    """One thing a policy has to say about a resource or the stack."""

    policy: str
    level: str
    """`advisory`, `mandatory` or `remediate`."""
    message: str
    """The policy's description, a line break, and what is wrong with the resource."""
    description: str
    urn: str
    severity: str
    """`low`, `medium`, `high`, `critical` or `unspecified`."""

    @property
    def mandatory(self) -> bool:
        """Say whether it stops the deployment."""
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
    """What a pack says about itself."""

    name: str
    policies: tuple[PolicyInfo, ...]


@dataclass(frozen=True, kw_only=True)
class StackResource:
    """One resource of the whole stack, for policies that judge it at the end."""

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
    """The provider it was given; which cluster an object goes to shows there only."""
    property_dependencies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """URNs by the input that was made from them."""


class PolicyPackProcess:
    """A policy pack, running. A context manager: entering starts the process, leaving always ends it.

    Args:
        folder: The pack's folder, with its `__main__.py`.
        project: Name of the project the pack is told about.
        stack: Name of the stack the pack is told about.
        config: Configuration by policy, in the form of a `--policy-pack-config` file: a level, or a mapping with
            `enforcementLevel` and the policy's own keys; `all` sets the level of those not named.
        dry_run: Whether the pack is told that this is a preview.
        start_timeout_s: How long the process may take until it listens.

    Raises:
        PolicyPackFailed: On entering and in every method.
    """

    def __init__(
        self,
        folder: Path = POLICIES,
        *,
        project: str = "gpupools",
        stack: str = "preview",
        config: Mapping[str, str | JsonObject] | None = None,
        dry_run: bool = True,
        start_timeout_s: float = 60.0,
    ) -> None:
        self._folder = folder.resolve()
        self._project, self._stack, self._dry_run = project, stack, dry_run
        self._config = dict(config or {})
        self._levels: dict[str, int] = {}
        self._start_timeout_s = start_timeout_s
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Process id while the process runs."""
        return self._process.pid if self._process else None

    def info(self) -> PackInfo:
        """Ask the pack for its name and policies, with the levels they were configured to."""
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
        """Let the pack judge one resource before it exists.

        Args:
            urn: The resource's URN.
            type: Its type token.
            name: Its Pulumi name.
            properties: Its inputs as registered, in wire form; output values are rewritten as the engine does.
            options: Its options that policies can see.
            provider: Its provider.
        """
        request = analyzer_pb2.AnalyzeRequest(
            urn=urn, type=type, name=name, properties=as_engine_sends(properties), options=options, provider=provider
        )
        return _diagnostics(self._call("Analyze", request), urn)

    def analyze_stack(self, resources: Iterable[StackResource]) -> list[Diagnostic]:
        """Let the pack judge the whole stack, once, after every resource."""
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
        """End the process; safe to call again."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _start(self) -> None:
        if not (self._folder / "__main__.py").is_file():
            raise PolicyPackFailed(f"{self._folder}: no policy pack there; a Python pack has a __main__.py")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process, not with this call
        # The arguments, folder and variables the Python language host gives a pack (pulumi/pulumi
        # `sdk/python/cmd/pulumi-language-python/main.go` RunPlugin).
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-c", _UNTIL_WE_END, _NO_ENGINE, str(self._folder)],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={
                **os.environ,
                "PULUMI_PROJECT": self._project,
                "PULUMI_STACK": self._stack,
                "PULUMI_DRY_RUN": "true" if self._dry_run else "false",
            },
        )
        port = self._read_port(self._process)
        self._channel = grpc.insecure_channel(
            f"127.0.0.1:{port}",
            options=[
                ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
                ("grpc.enable_http_proxy", 0),  # a proxy of the shell must not get loopback traffic
            ],
        )
        self._stub = analyzer_pb2_grpc.AnalyzerStub(self._channel)
        self._call(
            "ConfigureStack",
            analyzer_pb2.AnalyzerStackConfigureRequest(stack=self._stack, project=self._project, dry_run=self._dry_run),
        )
        self._configure()

    def _read_port(self, process: subprocess.Popen[bytes]) -> int:
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        assert process.stdout is not None
        threading.Thread(target=_drain, args=(process.stdout, lines.put), daemon=True).start()
        try:
            first = lines.get(timeout=self._start_timeout_s)
        except queue.Empty:
            raise PolicyPackFailed(
                f"{self._folder}: the policy pack did not start within {self._start_timeout_s:g} s{self._printed()}"
            ) from None
        try:
            return int(first)
        except ValueError:
            if first:
                what = f"printed {first[:200].decode(errors='replace').strip()!r} where its port was expected"
            else:
                what = f"ended while starting (exit code {process.wait()})"
            raise PolicyPackFailed(f"{self._folder}: the policy pack {what}{self._printed()}") from None

    def _configure(self) -> None:
        """Send every policy's level and configuration, with the schema's defaults filled in as the engine does.

        pulumi/pulumi `pkg/resource/analyzer/config.go`.
        """
        policies = {policy.name: policy for policy in self._call("GetAnalyzerInfo", Empty()).policies}
        unknown = sorted(set(self._config) - {"all"} - set(policies))
        if unknown:
            known = ", ".join(sorted(policies))
            raise PolicyPackFailed(f"policy configuration: no policy {', '.join(unknown)}; policies: {known}")
        common, _ = _level_and_properties("all", self._config.get("all", {}))
        request = analyzer_pb2.ConfigureAnalyzerRequest()
        for name, policy in policies.items():
            level, properties = _level_and_properties(name, self._config.get(name, {}))
            schema = json_format.MessageToDict(policy.configSchema.properties)
            defaults = {key: value["default"] for key, value in schema.items() if "default" in value}
            strange = sorted(set(properties) - set(schema))
            if strange:
                known = ", ".join(sorted(schema)) or "none"
                what = f"policy configuration: {name} has no {', '.join(strange)}; it has: {known}"
                raise PolicyPackFailed(what)
            configured = request.policyConfig[name]
            wanted = level if level is not None else common
            configured.enforcementLevel = policy.enforcementLevel if wanted is None else cast("Any", wanted)
            configured.properties.update({**defaults, **properties})
            self._levels[name] = configured.enforcementLevel
        self._call("Configure", request)

    def _call(self, method: str, request: Any) -> Any:
        if self._process is None:
            raise PolicyPackFailed(f"{self._folder}: the policy pack is not running; enter the context manager first")
        try:
            return getattr(self._stub, method)(request, timeout=_CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            about = f" for {request.urn}" if method == "Analyze" else ""
            raise PolicyPackFailed(f"{self._folder}: {self._why(method, error)}{about}{self._printed()}") from None

    def _why(self, method: str, error: Any) -> str:
        assert self._process is not None
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            with suppress(subprocess.TimeoutExpired):  # the connection breaks a moment before the process has ended
                return f"the policy pack died (exit code {self._process.wait(1.0)})"
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return f"the policy pack did not answer {method} within {_CALL_TIMEOUT_S:g} s"
        return f"the policy pack failed in {method}: {error.details()}"

    def _printed(self) -> str:
        assert self._errors is not None
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return "\n  it printed:\n" + "\n".join(f"  {line}" for line in lines[-20:]) if lines else ""


def as_engine_sends(properties: struct_pb2.Struct) -> struct_pb2.Struct:
    """Rewrite output values as the engine does for analyzers: unknown, secret, or the value itself.

    pulumi/pulumi `sdk/go/common/resource/plugin/rpc.go` MarshalPropertyValue without KeepOutputValues.
    """
    if _OUTPUT_VALUE.encode() not in properties.SerializeToString():
        return properties  # as nearly always: looking through each value takes as long as asking the pack
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
        if SIGNATURE in fields and fields[SIGNATURE].string_value == _OUTPUT_VALUE:
            inner = struct_pb2.Value(string_value=UNKNOWN_STRING_VALUE)
            if "value" in fields:
                inner.CopyFrom(fields["value"])
            if fields["secret"].bool_value:
                envelope = {SIGNATURE: struct_pb2.Value(string_value=SECRET), "value": inner}
                inner = struct_pb2.Value(struct_value=struct_pb2.Struct(fields=envelope))
            value.CopyFrom(inner)


def _drain(stream: IO[bytes], put: Callable[[bytes], None]) -> None:
    """Hand over the first line (empty at the end), then read on so that the process never blocks on a full pipe."""
    with stream:
        put(stream.readline())
        for _ in stream:
            pass


def _level_and_properties(name: str, given: str | JsonObject) -> tuple[int | None, JsonDict]:
    properties = {"enforcementLevel": given} if isinstance(given, str) else dict(given)
    level = properties.pop("enforcementLevel", None)
    if level is None:
        return None, properties
    levels = {key.lower(): number for key, number in analyzer_pb2.EnforcementLevel.items()}
    if level not in levels:
        what = f"policy configuration: {name} has enforcementLevel {level!r}; use one of: {', '.join(sorted(levels))}"
        raise PolicyPackFailed(what)
    return levels[level], properties


def _diagnostics(answer: Any, urn: str) -> list[Diagnostic]:
    return [
        Diagnostic(
            policy=said.policyName,
            level=_level(said.enforcementLevel),
            message=said.message,
            description=said.description,
            urn=said.urn or urn,
            severity=_severity(said.severity),
        )
        for said in answer.diagnostics
    ]


def _level(number: Any) -> str:
    return str(analyzer_pb2.EnforcementLevel.Name(number)).lower()


def _severity(number: Any) -> str:
    return str(analyzer_pb2.PolicySeverity.Name(number)).removeprefix("POLICY_SEVERITY_").lower()
