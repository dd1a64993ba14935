"""What a piece of program declares, recorded by Pulumi's own mocks."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pulumi
from pulumi.runtime.stack import run_pulumi_func


class _Recorder(pulumi.runtime.Mocks):
    """Answers with the inputs, and of look-ups those alone that it is told of."""

    def __init__(self, state: Mapping[str, Any], answers: Mapping[str, Mapping[str, Any]]) -> None:
        self.made: list[pulumi.runtime.MockResourceArgs] = []
        self.state = state
        self.answers = answers

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.made.append(args)
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            return {"outputs": dict(self.state)}, []
        if args.token in self.answers:
            return dict(self.answers[args.token]), []
        raise AssertionError(f"a test asked the cloud for {args.token}")


def run(
    program: Callable[[], object],
    state: Mapping[str, Any] | None = None,
    answers: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[pulumi.runtime.MockResourceArgs]:
    """Run it and return the resources it declares, without the stack.

    Args:
        program: Declares them.
        state: What the last update left, by URN.
        answers: What the cloud says, by function.
    """
    recorder = _Recorder(state or {}, answers or {})

    async def main() -> None:
        def declare() -> None:
            program()

        pulumi.runtime.set_mocks(recorder)
        await run_pulumi_func(declare)

    asyncio.run(main())
    return [each for each in recorder.made if each.typ != "pulumi:pulumi:Stack"]
