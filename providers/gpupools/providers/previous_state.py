"""Reads the state of the last update, and keeps the next one from changing an autoscaler's number of nodes.

Pulumi's `ignore_changes` keeps what was said before, not what the cloud has now: an update that has to send a number
of nodes would send an old one (https://github.com/pulumi/pulumi, pkg/resource/deploy/step_generator.go,
processIgnoreChanges). Used by `resources.py` of the clouds whose API wants the number.
"""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import grpc
import pulumi
from google.protobuf import struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import grpc_error_to_exception

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.providers.registration import plugin_version
from gpupools.providers.sdk_internals import wait_for

_POOL = "gpupools:index:GpuNodePool"

_last_updates: WeakKeyDictionary[Any, JsonObject | None] = WeakKeyDictionary()
"""By the connection to the engine: one process may run several updates, each of which starts from another state."""

_numbers = count()


def last_update() -> JsonObject | None:
    """Return the resources of this stack's last update from the engine: URN to type and outputs; None if unknown.

    The function is the engine's own, pulumi/pulumi pkg/resource/deploy/builtins.go; it reads what `up` wrote last, also
    while it is under way. `gpupools preview` has no engine and no state, and answers without outputs.

    Raises:
        Exception: The state cannot be read; the SDK raises nothing narrower.
    """
    monitor = pulumi.runtime.settings.get_monitor()
    if monitor not in _last_updates:
        name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
        _last_updates[monitor] = _invoke("pulumi:pulumi:readStackResourceOutputs", {"stackName": name}).get("outputs")
    return _last_updates[monitor]


def engine_outputs(function: str, arguments: JsonObject, key: str) -> JsonObject | None:
    """Return outputs that one of the engine's own functions has under a key; None if it fails."""
    try:
        outputs: JsonObject | None = _invoke(f"pulumi:pulumi:{function}", arguments).get(key)
    except Exception:  # the SDK raises nothing narrower
        return None
    return outputs


def invoke(function: str, arguments: JsonObject, parent: pulumi.Resource | None) -> JsonDict:
    """Call a cloud's function while the program runs; empty when an argument is not known yet.

    Args:
        function: Its token.
        arguments: By wire name.
        parent: The component, whose provider is asked, else the default one.
    """
    provider = parent.get_provider(function) if parent is not None else None
    waited = pulumi.Output.all(provider.urn if provider else None, provider.id if provider else None, arguments)
    urn, identifier, known = wait_for(waited.future(with_unknowns=False)) or (None, None, None)
    if known is None:
        return {}
    try:
        return _invoke(function, known, provider=f"{urn}::{identifier}" if provider else "")
    except Exception as error:  # the SDK raises nothing narrower
        what = f"{', '.join(map(str, known.values()))}: cannot read the number of nodes, {function} failed: {error}"
        fix = "grant read access to the pool, or run pulumi refresh if it was deleted"
        raise pulumi.RunError(f"{what}; {fix}") from None


async def invoke_async(function: str, arguments: JsonObject, parent: pulumi.Resource | None) -> JsonDict:
    """Call a cloud's function just before a resource is made, as `asked` does; what it raises ends no program.

    Arguments that are secret come as outputs from the engine, also those of a hook.
    """
    arguments = {key: await pulumi.Output.from_input(value).future() for key, value in arguments.items()}
    provider = parent.get_provider(function) if parent is not None else None
    address = f"{await provider.urn.future()}::{await provider.id.future()}" if provider is not None else ""
    return _invoke(function, arguments, provider=address)


def _invoke(function: str, arguments: JsonObject, provider: str = "") -> JsonDict:
    """Call a function and wait for nothing else: several hosted components share one loop and one set of settings."""
    package, given = function.partition(":")[0], struct_pb2.Struct()
    version = plugin_version(package) if package != "pulumi" else ""
    given.update(arguments)
    request = resource_pb2.ResourceInvokeRequest(tok=function, args=given, provider=provider, version=version)
    try:
        monitor: Any = pulumi.runtime.settings.get_monitor()
        answer = monitor.Invoke(request)
    except grpc.RpcError as error:
        raise grpc_error_to_exception(error) from None
    if answer.failures:
        raise ValueError("; ".join(failure.reason for failure in answer.failures))
    properties = rpc.deserialize_properties(getattr(answer, "return"))  # the field's name is a keyword of Python
    return {key: rpc.unwrap_rpc_secret(value) for key, value in properties.items()}


def last_outputs(kind: str, names: tuple[str, ...]) -> tuple[JsonObject | None, bool]:
    """Return the outputs of a pool's resource after the last update.

    Args:
        kind: The resource's type token.
        names: The names it may have, the likeliest first: a renamed pool still has its former one.

    Returns:
        Its outputs, None when it is not found; and whether the stack may have it all the same, under a name that only
        an alias of the program's own knows or since nobody could read the state.
    """
    try:
        resources = last_update() or {}
    except Exception:  # the hook asks instead
        return None, True
    ours = {urn: resource.get("outputs") or {} for urn, resource in resources.items() if resource.get("type") == kind}
    for name in names:
        found = [outputs for urn, outputs in ours.items() if urn.endswith(f"{_POOL}${kind}::{name}")]
        if len(found) == 1:
            return found[0], True
    return None, bool(ours)


def keep_node_count(
    name: str,
    sends: Callable[[JsonObject, JsonObject], int | None],
    runs: Callable[[JsonObject], Awaitable[int]],
) -> pulumi.ResourceOptions:
    """Return options that reject an update that would change the number of running nodes.

    Args:
        name: The resource's name.
        sends: The number an update sends, from its new inputs and the old outputs; None where it sends none.
        runs: Asks the cloud, from the new inputs.
    """

    async def refuse(args: pulumi.ResourceHookArgs) -> None:
        sent = sends(args.new_inputs or {}, args.old_outputs or {})
        if sent is None:
            return
        running = await runs(args.new_inputs or {})
        if running != sent:
            what = f"{name}: has {running} nodes, but this update would set {sent} from Pulumi's outdated state"
            raise pulumi.RunError(f"{what}; run pulumi up --refresh")

    # Two pools of one name may stand below different parents; a hook's name is the engine's alone.
    hook = pulumi.ResourceHook(f"gpupools:{name}:{next(_numbers)}", refuse)
    return pulumi.ResourceOptions(hooks=pulumi.ResourceHookBinding(before_update=[hook]))


def before_create(
    name: str, refuse: Callable[[pulumi.ResourceHookArgs], Awaitable[None]]
) -> pulumi.ResourceHookBinding:
    """Return a hook that runs before a resource is created and raises to prevent that."""

    async def ask(args: pulumi.ResourceHookArgs) -> None:
        await refuse(args)

    return pulumi.ResourceHookBinding(before_create=[pulumi.ResourceHook(f"gpupools:{name}:{next(_numbers)}", ask)])
