"""What a piece of program declares, recorded by Pulumi's own mocks."""

import asyncio
from collections.abc import Callable
from typing import Any

import pulumi
from pulumi.runtime.stack import run_pulumi_func

from gpupools.preview.lighter_sdk import without_what_only_an_engine_reads


class _Recorder(pulumi.runtime.Mocks):
    """Answers with the inputs and refuses look-ups."""

    def __init__(self) -> None:
        self.made: list[pulumi.runtime.MockResourceArgs] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.made.append(args)
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            return {"outputs": {}}, None
        raise AssertionError(f"a test asked the cloud for {args.token}")


def run(program: Callable[[], object]) -> list[pulumi.runtime.MockResourceArgs]:
    """Run it and return the resources it declares, without the stack."""
    recorder = _Recorder()

    async def main() -> None:
        def declare() -> None:
            program()

        pulumi.runtime.set_mocks(recorder)
        await run_pulumi_func(declare)

    with without_what_only_an_engine_reads():
        asyncio.run(main())
    return [each for each in recorder.made if each.typ != "pulumi:pulumi:Stack"]
