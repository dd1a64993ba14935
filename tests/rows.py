"""Tests over all rows of a table: as one test that names every row that fails, or as one test for each row."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pytest
import yaml

Test = Callable[..., None]


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Callable[[Any], object] | Iterable[str] = ()
) -> Callable[[Test], Test]:
    """Call a test with each row, as `pytest.mark.parametrize` does, but as one test with one result.

    The rows share the test's fixtures, so none of these may keep anything from one row for the next.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [_values(row, len(keys)) for row in rows]
    assert table, "the table has no rows"
    told = [" ".join(str(ids(value)) for value in row) for row in table] if callable(ids) else list(ids)
    told = told or [f"{row!r:.300}" for row in table]

    def over_all(test: Test) -> Test:
        @wraps(test)
        def whole(*args: Any, **fixtures: Any) -> None:
            failed: list[str] = []
            for row, name in zip(table, told, strict=True):
                try:
                    test(*args, **fixtures, **dict(zip(keys, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{name}\n{type(error).__name__}: {error}")
            if failed:
                raise AssertionError(f"{len(failed)} of {len(table)} rows fail\n\n" + "\n\n".join(failed))

        parameters = inspect.signature(test).parameters.items()
        whole.__signature__ = inspect.Signature([each for name, each in parameters if name not in keys])  # type: ignore[attr-defined]
        return whole

    return over_all


def _values(row: Any, width: int) -> tuple[Any, ...]:
    if hasattr(row, "marks"):  # `pytest.param`
        assert not row.marks
        row = row.values if width > 1 else row.values[0]
    return tuple(row) if width > 1 else (row,)


def listed(file: str) -> Callable[[Test], Test]:
    """Call a test with each row that the YAML file beside its module has under its name; `id` names a row."""

    def over_rows(test: Test) -> Test:
        rows = _tables(Path(file).with_suffix(".yaml"))[test.__name__]
        keys = [key for key in rows[0] if key != "id"]
        params = [pytest.param(*(row[key] for key in keys), id=row.get("id")) for row in rows]
        marked: Test = pytest.mark.parametrize(keys, params)(test)
        return marked

    return over_rows


@cache
def _tables(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))
