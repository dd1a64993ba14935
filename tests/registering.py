"""What a piece of program asks the engine to register, and what the SDK's class asks for with the same inputs."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pulumi
from google.protobuf.json_format import MessageToDict
from pulumi.runtime.stack import run_pulumi_func

from gpupools.preview.monitor import StrictMonitor
from tooling.sdk_types import args_class, resource_class, wire_names

NOT_COMPARED = {
    *("sourcePosition", "stackTrace", "dependencies", "propertyDependencies", "parent"),
    *("customTimeouts", "ignoreChanges", "hooks", "protect", "retainOnDelete"),
}
"""Where in the program a resource was declared, what its inputs came from, and options that the program gives."""


def registered(program: Callable[[], object]) -> list[dict[str, Any]]:
    """Return the requests, of each what does not hang on the rest of the program."""
    monitor = StrictMonitor()

    def declare() -> None:
        program()

    async def main() -> None:
        pulumi.runtime.set_mocks(monitor.mocks, preview=True, monitor=monitor)
        await run_pulumi_func(declare)

    asyncio.run(main())
    requests = [MessageToDict(each.request) for each in monitor.declared.values()]
    return [{key: value for key, value in each.items() if key not in NOT_COMPARED} for each in requests]


def by_class(request: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> dict[str, Any]:
    """Return the request for a resource of the same inputs that is made with the SDK's class."""
    resource = resource_class(request["type"])
    assert resource is not None
    args = args_class(resource)
    assert args is not None
    # Pulumi's own first argument is called resource_name, so that the SDK's has an underscore.
    names = {wire: python.replace("resource_name", "resource_name_") for python, wire in wire_names(args).items()}
    inputs = {names[wire]: value for wire, value in request["object"].items()}
    (made,) = registered(lambda: resource(request["name"], opts=opts, **inputs))
    return made
