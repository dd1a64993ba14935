"""Serve the components to the engine, so that programs in every language see the reasons of a rejection."""

import asyncio
import json
from typing import Any

import grpc
import pulumi
from pulumi.provider import ConstructResult, Provider
from pulumi.provider.server import ProviderServicer
from pulumi.runtime import proto

from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonObject
from gpupools.common.version import version
from gpupools.components.gpu_node_pool import GpuNodePool
from gpupools.components.gpu_runtime import GpuRuntime
from gpupools.components.package import arguments, schema, snake, with_camel_case_keys

COMPONENTS: JsonObject = {f"gpupools:index:{each.__name__}": each for each in (GpuNodePool, GpuRuntime)}


class UnknownArguments(pulumi.RunError):
    """A program passed inputs that the component does not have."""


class Components(Provider):
    """Constructs the components of `package.schema.json`.

    Pulumi's own `component_provider_host` ignores inputs that the schema lacks, and wraps a component's
    `InputPropertiesError` in another error (`pulumi.provider.experimental.component`, seen with 3.272).
    """

    def __init__(self) -> None:
        super().__init__(version(), json.dumps(schema()))

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        """Construct a component; raise `pulumi.RunError` if its inputs are invalid."""
        try:
            args = arguments(resource_type, inputs)
        except Rejected as rejected:
            raise UnknownArguments(str(rejected)) from None
        component = COMPONENTS[resource_type](name, args, options)
        outputs = schema()["resources"][resource_type]["properties"]
        return ConstructResult(component.urn, {key: getattr(component, snake(key)) for key in outputs})


class Servicer(ProviderServicer):
    """Implements the engine's provider protocol.

    When `Construct` returns an error, the program fails too, and most SDKs then print a traceback
    (https://github.com/pulumi/pulumi, pkg/resource/deploy/source_eval.go: `resource monitor shut down`). For a
    rejected component a step of the engine fails instead, and `Construct` does not return until the engine ends.
    """

    def __init__(self, provider: Provider, args: list[str], engine_address: str) -> None:
        super().__init__(provider, args, engine_address)
        self._ended = asyncio.Event()

    async def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        """Construct a component; once the engine ends, report success, since an error would be printed."""
        made = asyncio.ensure_future(self._construct_or_fail(request, context))
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait({made, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if made.done():
            return made.result()
        made.cancel()
        return proto.ConstructResponse()

    async def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        """Release every waiting `Construct`; the engine closes the connection after this call."""
        self._ended.set()
        await asyncio.sleep(0.1)
        return await super().Cancel(request, context)  # type: ignore[no-untyped-call] # the SDK gives it none

    async def _construct_or_fail(self, request: Any, context: Any) -> Any:
        try:
            return await super().Construct(request, context)
        except pulumi.RunError as refused:
            # Unknown keys are shown as the program wrote them.
            message = str(refused) if isinstance(refused, UnknownArguments) else with_camel_case_keys(str(refused))
        await _fail_in_a_step(request.type, request.name, message)
        return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)


async def _fail_in_a_step(kind: str, name: str, message: str) -> None:
    """Make the engine fail with a message; return only if it did not.

    A hook of a resource that is never created is the only step that also fails in previews and needs no provider.
    """

    def refuse(_: pulumi.ResourceHookArgs) -> None:
        raise pulumi.RunError(message)

    try:
        hook = pulumi.ResourceHook(f"check of {name}", refuse, pulumi.ResourceHookOptions(on_dry_run=True))
        hooks = pulumi.ResourceHookBinding(before_create=[hook])
        never = pulumi.ComponentResource(
            kind.replace(":index:", ":refused:"), name, {}, pulumi.ResourceOptions(hooks=hooks)
        )
        await never.urn.future()
    except Exception:  # an engine without hooks, or one that has ended
        return
