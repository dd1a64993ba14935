"""What a pool is called that its resource names in one way or another."""

from typing import Any

import pytest

from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.readback.inputs import with_name


@pytest.mark.parametrize(
    ("inputs", "logical", "name"),
    [
        ({"nodeGroupName": "a", "name": "b"}, "c", "a"),
        ({"agentPoolName": "a"}, "", "a"),
        ({"nodegroupName": "a"}, "", "a"),
        ({"resourceName": "a"}, "", "a"),
        ({"name": "a"}, "", "a"),
        ({"metadata": {"name": "a"}}, "c", "a"),
        ({"nodeGroupName": "", "name": "b"}, "c", "b"),
        ({}, "c", "c"),
        ({}, "", ""),
        ({"name": UNKNOWN}, "c", ""),
        ({"name": UNKNOWN, "metadata": {"name": "a"}}, "c", "a"),
    ],
)
def test_a_resource_is_called_as_its_inputs_say_or_else_as_the_program_does(
    inputs: dict[str, Any], logical: str, name: str
) -> None:
    pool = PoolFacts("aws", (), None, ())

    assert with_name(pool, inputs, logical).name == name


def test_a_pool_inside_a_resource_has_its_own_name() -> None:
    inside = PoolFacts("aws", (), None, (), pool="inner")

    assert with_name(inside, {"name": "outer"}, "logical") == inside
