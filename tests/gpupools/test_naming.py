"""Names that change exactly when the pool must be replaced."""

import re
from typing import Any

import pytest

from gpupools.common.naming import replacement_name
from tests.rows import each_row

GOLDEN: dict[str, Any] = {"machine": "a2-ultragpu-8g", "disk_gib": 200, "zones": ["a", "b"], "spot": False}


@pytest.mark.parametrize(
    ("base", "decisive", "limit", "separator", "name"),
    [
        pytest.param("a100", GOLDEN, 40, "-", "a100-02v3", id="GKE"),
        pytest.param("a100", GOLDEN, 12, "", "a10002v3", id="AKS"),
        pytest.param("a-very-long-pool-key", GOLDEN, 12, "", "averylon8mnr", id="cut, without hyphens"),
        pytest.param("a-very-long-pool-key", GOLDEN, 16, "-", "a-very-long-8mnr", id="cut, with hyphens"),
        pytest.param("a100", {}, 40, "-", "a100-5vjk", id="nothing decisive"),
    ],
)
def test_a_name_never_changes_between_releases(
    base: str, decisive: dict[str, Any], limit: int, separator: str, name: str
) -> None:
    """A different name here replaces every user's pools: these values may only be added to."""
    assert replacement_name(base, decisive, limit=limit, separator=separator) == name


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"machine": "a2-ultragpu-4g"}, id="a value"),
        pytest.param({"disk_gib": 201}, id="a number"),
        pytest.param({"disk_gib": "200"}, id="a number that becomes text"),
        pytest.param({"zones": ["b", "a"]}, id="the order of a list"),
        pytest.param({"spot": True}, id="a switch"),
        pytest.param({"machine": None}, id="a value that goes"),
        pytest.param({"extra": 0}, id="a new value, even zero"),
        pytest.param({"extra": ""}, id="a new value, even empty"),
    ],
)
def test_a_decisive_change_changes_the_name(changed: dict[str, Any]) -> None:
    before = replacement_name("a100", GOLDEN, limit=40)
    after = replacement_name("a100", {**GOLDEN, **changed}, limit=40)

    assert after != before
    assert after.startswith("a100-")


def test_what_is_none_does_not_count() -> None:
    assert replacement_name("a", {**GOLDEN, "new": None}, limit=40) == replacement_name("a", GOLDEN, limit=40)


def test_the_order_of_the_decisive_inputs_does_not_count() -> None:
    turned = dict(reversed(GOLDEN.items()))

    assert replacement_name("a", turned, limit=40) == replacement_name("a", GOLDEN, limit=40)


def test_pools_whose_keys_are_cut_alike_keep_different_names() -> None:
    names = {replacement_name(f"notebooks{n}", GOLDEN, limit=12, separator="") for n in range(500)}

    assert len(names) == 500


@each_row("limit", [6, 12, 40, 63])
@each_row("separator", ["-", ""])
@each_row("base", ["a", "ab-c", "a-b-c-d-e-f-g-h", "abcdefghij-klmnopqrs", "a" * 20])
def test_a_name_fits_the_cloud(base: str, separator: str, limit: int) -> None:
    name = replacement_name(base, GOLDEN, limit=limit, separator=separator)

    assert len(name) <= limit
    assert re.fullmatch(r"[a-z](?:-?[a-z0-9]+)*" if separator else r"[a-z][a-z0-9]*", name)
    assert "--" not in name


def test_the_hash_is_spread_over_all_digits() -> None:
    names = [replacement_name("a", {"n": n}, limit=40) for n in range(2000)]

    assert len(set(names)) > 1990
    assert {character for name in names for character in name[-4:]} == set("0123456789abcdefghijklmnopqrstuvwxyz")
