"""Serves the components to the engine, so that what a program in any language sees of a refusal is its reasons."""

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
from gpupools.components.package import arguments, schema, snake, spelled

COMPONENTS: JsonObject = {f"gpupools:index:{each.__name__}": each for each in (GpuNodePool, GpuRuntime)}


class UnknownArguments(pulumi.RunError):
    """A program gave a component inputs that it does not have."""


class Components(Provider):
    """Makes the components of `package.schema.json`.

    Pulumi's own `component_provider_host` drops inputs that its schema does not have, and hides a component's
    `InputPropertiesError` in another error (`pulumi.provider.experimental.component`, seen with 3.272).
    """

    def __init__(self) -> None:
        super().__init__(version(), json.dumps(schema()))

    def construct(
        self, name: str, resource_type: str, inputs: pulumi.Inputs, options: pulumi.ResourceOptions | None = None
    ) -> ConstructResult:
        """Make a component.

        Raises:
            pulumi.RunError: It is refused.
        """
        try:
            given = arguments(resource_type, inputs)
        except Rejected as rejected:
            raise UnknownArguments(str(rejected)) from None
        component = COMPONENTS[resource_type](name, given, options)
        outputs = schema()["resources"][resource_type]["properties"]
        return ConstructResult(component.urn, {key: getattr(component, snake(key)) for key in outputs})


class Servicer(ProviderServicer):
    """Answers the engine.

    A component that answers with an error ends its program with one as well, which most SDKs show with a traceback
    (https://github.com/pulumi/pulumi, pkg/resource/deploy/source_eval.go: `resource monitor shut down`). So a refused
    one lets the engine fail in a step instead, and answers nothing until the engine ends.
    """

    def __init__(self, provider: Provider, args: list[str], engine_address: str) -> None:
        super().__init__(provider, args, engine_address)
        self._ended = asyncio.Event()

    async def Construct(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        """Make a component; once the engine ends, answer as if it were made, since an error would be shown."""
        made = asyncio.ensure_future(self._made_or_refused(request, context))
        ended = asyncio.ensure_future(self._ended.wait())
        await asyncio.wait({made, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if made.done():
            return made.result()
        made.cancel()
        return proto.ConstructResponse()

    async def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802 - the service's name
        """Let go of every component that waits; the engine closes the connection after the answer."""
        self._ended.set()
        await asyncio.sleep(0.1)
        return await super().Cancel(request, context)  # type: ignore[no-untyped-call] # the SDK gives it none

    async def _made_or_refused(self, request: Any, context: Any) -> Any:
        try:
            return await super().Construct(request, context)
        except pulumi.RunError as refused:
            # What nobody knows stays as the program has it.
            message = str(refused) if isinstance(refused, UnknownArguments) else spelled(str(refused))
        await _fail_in_a_step(request.type, request.name, message)
        return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)


async def _fail_in_a_step(kind: str, name: str, message: str) -> None:
    """Have the engine fail with a message; return only where it did not.

    A hook of a resource that is never made is the one step that fails in previews too and needs no provider.
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
    except Exception:  # an engine that knows no hooks, or has ended by itself
        return
