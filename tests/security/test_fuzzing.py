"""Whatever a stranger writes, a reader answers or refuses: a short run over each; `tooling/fuzz.py` runs for longer."""

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.plan.pool_facts import UNKNOWN
from tests.security.fuzzing import (
    CRASHERS,
    ODD_KEYS,
    READERS,
    VALUES,
    Reader,
    at_random,
    crashes,
    found,
    kept,
    thoroughly,
)

CASES = {
    "documents": 60,
    "stack-file": 60,
    "configuration": 150,
    "diff": 10,
    "resources": 400,
    "policy-configuration": 150,
    "yaml": 150,
}
"""Cases of a short run; 500 of the quick ones."""
CRASHED = sorted(path for path in CRASHERS.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", READERS)
def test_what_is_right_is_read(name: str) -> None:
    for given in READERS[name].corpus():
        assert crashes(READERS[name], given) is None


@pytest.mark.parametrize("name", READERS)
def test_what_is_spoilt_is_read_or_refused(name: str) -> None:
    reader, chance = READERS[name], random.Random(name)
    corpus = reader.corpus()

    for _ in range(CASES.get(name, 500)):
        given = at_random(chance.choice(corpus), reader, chance)
        assert crashes(reader, given) is None, kept(given)[:2000]


@pytest.mark.parametrize("path", CRASHED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_once_crashed_a_reader_is_read_or_refused(path: Path) -> None:
    assert crashes(READERS[path.parent.name], found(path)) is None


def test_a_reader_that_raises_is_told() -> None:
    def read(given: Any) -> Any:
        if given == {"a": 1}:
            raise Rejected([])
        return given["a"] + 1

    reader = Reader(read, list)
    assert crashes(reader, {"a": 1}) is None
    assert crashes(reader, {"a": 2}) is None
    assert isinstance(crashes(reader, {"a": "x"}), TypeError)


def test_every_value_is_put_in_every_place() -> None:
    reader = Reader(str, list, keys=("k",), values=(None, []))
    spoilt = list(thoroughly({"a": [1]}, reader))

    assert spoilt == [None, [], {"a": None}, {"a": []}, {"k": [1]}, {"a": [None]}, {"a": [[]]}]


def test_what_is_unknown_stays_so_in_a_spoilt_copy() -> None:
    assert copy.deepcopy({"a": [UNKNOWN]})["a"][0] is UNKNOWN


def test_what_crashed_is_kept_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "crash.json"
    odd = {key: [value] for key, value in zip(ODD_KEYS, VALUES, strict=False) if key == key}
    for given in (*VALUES, odd):
        file.write_text(given if isinstance(given, str) else kept(given), encoding="utf-8", errors="surrogatepass")
        again = found(file) if not isinstance(given, str) else given

        assert again == given or repr(again) == repr(given)  # what is not a number equals nothing
