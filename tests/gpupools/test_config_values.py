"""What a program receives: JSON text, and which of its values the stack file has encrypted."""

import json
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.spec.models import LATE
from gpupools.stackfile.config_values import ValueMismatchError, from_text, marked


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("text", "text"),
        ("", ""),
        ("2026-12-31", "2026-12-31"),
        ("010", "010"),
        ('{"a": 2.0}', {"a": 2}),
        ('{"a": 1e3}', {"a": 1000}),
        ('{"a": 1e21}', {"a": 1e21}),
        ("{a: 1}", "{a: 1}"),
        ("9" * 5000, "9" * 5000),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=lambda each: str(each)[:20],
)
def test_text_is_read_as_json_where_it_is_json(text: str, value: object) -> None:
    assert repr(from_text("pools", text)) == repr(value)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"a": {"token": "hunter2", "token": "x"}}', "is JSON and has a duplicate key in a map"),
        ("[NaN]", "is JSON and contains NaN or Infinity"),
        ("[1e400]", "is JSON and contains a number that is too large"),
        ("[" * 61 + "]" * 61, "holds more than 100000 values, or more than 60 levels of nesting"),
        (json.dumps([1] * 100_001), "holds more than 100000 values, or more than 60 levels of nesting"),
    ],
    ids=["a key twice", "no number", "too large", "too deep", "too many"],
)
def test_what_two_readers_would_read_otherwise_is_refused_without_the_value(text: str, what: str) -> None:
    with pytest.raises(Rejected) as refused:
        from_text("pools", text)

    assert str(refused.value).startswith(f"pools: {what}; ")
    assert "hunter2" not in str(refused.value)


def test_what_the_file_has_encrypted_is_late() -> None:
    value = {"a": [{"name": "x", "key": "hunter2"}, "hunter3"], "b": 4}
    written = {"a": [{"name": "x", "key": LATE}, LATE], "b": 4}

    assert marked(value, written, ("clusters",)) == written
    assert marked({"anything": 1}, LATE, ("clusters",)) is LATE


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ({"a": {"b": 2}}, ("clusters", "a", "b")),
        ({"a": {"b": True}}, ("clusters", "a", "b")),
        ({"a": {"b": "1"}}, ("clusters", "a", "b")),
        ({"a": {}}, ("clusters", "a", "b")),
        ({"a": {"b": 1, "c": LATE}}, ("clusters", "a", "c")),
        ({"a": [1]}, ("clusters", "a")),
        ([], ("clusters",)),
    ],
)
def test_a_file_that_says_something_else_tells_nothing_of_the_value(written: Any, path: tuple[str, ...]) -> None:
    with pytest.raises(ValueMismatchError) as unlike:
        marked({"a": {"b": 1}}, written, ("clusters",))

    assert unlike.value.path == path
