"""What a piece of program asks the engine to register, and what the SDK's class asks for with the same inputs."""

import asyncio
from collections.abc import Callable
from typing import Any

import pulumi
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.stack import run_pulumi_func

from gpupools.preview.monitor import StrictMonitor
from gpupools.preview.sdk_schema import args_class, resource_class
from gpupools.providers.sdk_internals import wire_names

COMPARED = (
    "type",
    "name",
    "object",
    "version",
    "pluginDownloadURL",
    "additionalSecretOutputs",
    "aliases",
    "packageRef",
)


def registered(program: Callable[[], object]) -> list[dict[str, Any]]:
    """Return the requests, of each what the SDK's class decides."""
    monitor = StrictMonitor()

    def declare() -> None:
        program()

    async def main() -> None:
        pulumi.runtime.set_mocks(monitor.mocks, preview=True, monitor=monitor)
        await run_pulumi_func(declare)

    asyncio.run(main())
    requests = [MessageToDict(each.request) for each in monitor.declared.values()]
    return [{key: each[key] for key in COMPARED if key in each} for each in requests]


def by_class(request: dict[str, Any]) -> dict[str, Any]:
    """Return the request for a resource of the same inputs that is made with the SDK's class."""
    resource = resource_class(request["type"])
    assert resource is not None
    args = args_class(resource)
    assert args is not None
    names = {wire: python for python, wire in wire_names(args).items()}
    inputs = {names[wire]: value for wire, value in request["object"].items()}
    (made,) = registered(lambda: resource(request["name"], **inputs))
    return made
