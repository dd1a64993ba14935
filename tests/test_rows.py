"""A test over all rows of a table names those that fail, and takes the fixtures that are left."""

import inspect

import pytest

from tests.rows import each_row


def test_every_failing_row_is_named() -> None:
    @each_row("number, half", [(2, 1), (4, 3), pytest.param(6, 3), (8, 5)], ids=["two", "four", "six", "eight"])
    def halves(number: int, half: int, whole: list[int]) -> None:
        assert number // 2 == half, whole

    assert list(inspect.signature(halves).parameters) == ["whole"]
    with pytest.raises(AssertionError, match=r"2 of 4 rows fail\n\nfour\nAssertionError(.|\n)*\n\neight\n"):
        halves(whole=[])


def test_a_table_without_rows_is_no_test() -> None:
    with pytest.raises(AssertionError, match="no rows"):
        each_row("number", [])
