"""The configuration as a program has it: what is decrypted is decided on, and never told."""

import pytest

from gpupools.base.errors import Problem, Rejected
from gpupools.components.stack_config import decrypted

PAGE = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"


def test_a_refusal_of_decrypted_values_keeps_its_place_and_its_source_and_tells_no_value() -> None:
    def refuse(value: str) -> None:
        raise Rejected([Problem(("pools", "a", "name"), f"got {value!r}", f"write another than {value!r}", PAGE)])

    with pytest.raises(Rejected) as caught:
        decrypted(refuse, "hunter2")

    (problem,) = caught.value.problems
    assert (problem.path, problem.source) == (("pools", "a", "name"), PAGE)
    assert "hunter2" not in str(caught.value)
    assert "its decrypted value is refused, and not shown; try such a value in clear" in str(problem)


def test_what_is_decided_on_decrypted_values_is_handed_on() -> None:
    assert decrypted(lambda one, two: one + two, "a", "b") == "ab"
