"""Reads `gpupools:prices`, a CSV file with a team's own prices. The file is inside the stack file's project."""

import csv
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path as FilePath
from typing import Literal, get_args

from pydantic import BaseModel, Field, ValidationError

from gpupools.common.errors import Path, Problem, Rejected, shown
from gpupools.common.input_files import read_bytes
from gpupools.plan.prices import Price, PriceList
from gpupools.spec.models import got
from gpupools.stackfile.reader import is_in_checkout

Capacity = Literal["on-demand", "spot", "reservation", "capacity-block", "flex-start", "queued"]


class _Row(BaseModel, strict=True):
    """The columns, each with how to write it."""

    type: str = Field(min_length=1, description="write an instance type")
    region: str = Field(min_length=1, description="write the region of the cluster")
    price: Decimal = Field(gt=0, description="write a number above 0 with a decimal point")
    currency: str = Field(pattern="^[A-Z]{3}$", description="write its ISO 4217 code, such as EUR")
    capacity: Capacity = Field("on-demand", description=f"use one of {', '.join(get_args(Capacity))}")
    dated: date | None = Field(None, description="write a date such as 2026-11-30, or nothing")


_NEEDED = [name for name, field in _Row.model_fields.items() if field.is_required()]
_MOST_BYTES = 4 * 2**20
_AT: Path = ("prices",)
_EXAMPLE = "write a file inside the project with the columns type,region,price,currency"


def read_price_list(raw: object, folder: FilePath) -> PriceList:
    """Return the prices of a file; its path is relative to the folder of the stack file.

    Raises:
        Rejected: All its problems.
    """
    if raw is None:
        return PriceList()
    if not isinstance(raw, str) or not raw:
        raise Rejected([Problem(_AT, got(raw), "write the path of a CSV file, such as prices.csv")])
    if not raw.endswith(".csv"):
        raise Rejected([Problem(_AT, f"{shown(raw)} is not a CSV file", "write the path of a file *.csv")])
    if not is_in_checkout(str(folder / raw), folder):
        raise Rejected([Problem(_AT, f"{shown(raw)} is outside the project", _EXAMPLE)])
    try:
        text = read_bytes(folder / raw, _MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Rejected([Problem(_AT, f"{shown(raw)} is not UTF-8 text", _EXAMPLE)]) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "is no path"
        raise Rejected([Problem(_AT, f"{shown(raw)} cannot be read: {why}", _EXAMPLE)]) from None
    if "\0" in text:
        raise Rejected([Problem(_AT, f"{shown(raw)} is not text", _EXAMPLE)])
    prices: dict[tuple[str, str, str], Price] = {}
    problems = list(_read_rows(text, raw, prices))
    currencies = sorted({price.currency for price in prices.values()})
    if len(currencies) > 1:
        problems.append(Problem(_AT, f"{raw} has prices in {' and '.join(currencies)}", "write all in one currency"))
    if problems:
        raise Rejected(problems)
    return PriceList(prices, currencies[0])


def _read_rows(text: str, name: str, prices: dict[tuple[str, str, str], Price]) -> Iterator[Problem]:
    """Add the prices of the rows; yield the problems."""
    lines = csv.reader(text.splitlines())
    try:
        columns = [cell.strip() for cell in next(lines, [])]
        for number, column in enumerate(columns, 1):
            if column not in _Row.model_fields:
                what = f"{name}:1: column {number} has an unknown name"
                yield Problem(_AT, what, f"use the names {', '.join(_Row.model_fields)}")
        missing = [needed for needed in _NEEDED if needed not in columns]
        if missing or len(set(columns)) < len(columns):
            what = f"has no column {', '.join(missing)}" if missing else "has a column twice"
            yield Problem(_AT, f"{name}:1: {what}", "begin the file with the line type,region,price,currency")
            return
        for cells in lines:
            if not cells:
                continue
            at = f"{name}:{lines.line_num}"
            if len(cells) != len(columns):
                what = f"{at}: has {len(cells)} values for {len(columns)} columns"
                yield Problem(_AT, what, "write one value per column, and a decimal point instead of a comma")
                continue
            yield from _read_row(dict(zip(columns, map(str.strip, cells), strict=True)), at, prices)
    except csv.Error as error:
        yield Problem(_AT, f"{name}:{lines.line_num}: {error}", _EXAMPLE)
        return
    if not prices:
        yield Problem(_AT, f"{name} has no price", "add a row, or remove gpupools:prices")


def _read_row(row: Mapping[str, str], at: str, prices: dict[tuple[str, str, str], Price]) -> Iterator[Problem]:
    try:
        strings = _Row.model_validate_strings({key: cell for key, cell in row.items() if cell or key in _NEEDED})
    except ValidationError as error:
        for column in dict.fromkeys(str(typed_dict["loc"][0]) for typed_dict in error.errors(include_input=False)):
            # Never the value: the file may be another one, with a secret, and reports are public.
            yield Problem(_AT, f"{at}: {column}: has a wrong value", _Row.model_fields[column].description or "")
        return
    where = (strings.type, strings.capacity, strings.region)
    if where in prices:
        yield Problem(_AT, f"{at}: row: is given twice", "remove one of the two rows for it")
    prices[where] = Price(strings.price, str(strings.dated or ""), at, strings.currency)
