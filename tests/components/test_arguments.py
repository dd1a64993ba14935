"""What the components make of their arguments before anything is planned."""

import asyncio
from typing import Any, TypedDict

import pulumi
import pytest

from gpupools.common.errors import Rejected
from gpupools.components.arguments import (
    known_values,
    parse_cluster_argument,
    unknown_arguments,
)
from gpupools.providers import clouds
from gpupools.spec.models import LATE


class Given(TypedDict):
    one: str
    other: int


@pytest.mark.parametrize(
    ("value", "known"),
    [
        (3.0, 3),
        (3.5, 3.5),
        (3, 3),
        (True, True),
        ("3.0", "3.0"),
        (None, None),
        ({"a": 1.0, "b": [2.0, (3.0, "x")]}, {"a": 1, "b": [2, [3, "x"]]}),
    ],
)
def test_numbers_are_whole_again_after_the_wire(value: Any, known: Any) -> None:
    found = known_values(value)

    assert found == known
    assert type(found) is type(known)
    assert not isinstance(found, dict) or isinstance(found["a"], int)


def test_an_output_is_late_at_any_depth() -> None:
    async def known() -> list[Any]:
        late = pulumi.Output.from_input("x")
        return [known_values(late), known_values({"a": [late, {"b": late}]})]

    assert asyncio.run(known()) == [LATE, {"a": [LATE, {"b": LATE}]}]


def test_arguments_that_a_component_does_not_have_are_named_with_the_nearest() -> None:
    given: Any = {"one": 1, "othre": 2, 7: 3}

    assert [str(problem) for problem in unknown_arguments(given, Given)] == [
        "othre: unknown argument; did you mean 'other'?",
        "7: unknown argument; known: one, other",
    ]


FILE_ONLY = "is a key of stack files only; "
AN_OUTPUT = f"{FILE_ONLY}pass the output of a StackReference instead"
A_PROVIDER = f"{FILE_ONLY}set it on a provider of this cloud, and add that provider to opts.providers"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"name": {"output": "name"}, "stack": "o/p/q"}, [f"cluster.name: {AN_OUTPUT}", f"cluster.stack: {AN_OUTPUT}"]),
        ({"stack": "o/p/q"}, [f"cluster.stack: {AN_OUTPUT}"]),
        ({"profile": "x"}, [f"cluster.profile: {A_PROVIDER}"]),
        ({"profile": "x", "stack": "o/p/q"}, [f"cluster.stack: {AN_OUTPUT}", f"cluster.profile: {A_PROVIDER}"]),
    ],
)
def test_what_only_a_stack_file_may_say_of_a_cluster_is_refused(changes: dict[str, Any], said: list[str]) -> None:
    cloud = clouds()["aws"]
    given = {key: value for key, value in cloud.example_cluster.items() if key != "cloud"} | changes
    if said:
        with pytest.raises(Rejected) as caught:
            parse_cluster_argument(given, cloud)
        assert [str(problem) for problem in caught.value.problems] == said
    else:
        assert parse_cluster_argument(given, cloud).cloud == "aws"
