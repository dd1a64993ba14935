"""Everything that is decided of many kinds of stack files, compared with what was decided before.

`aws.yaml`, `azure.yaml`, `gcp.yaml` and `runtime.yaml` have the stack files, by what they are about, `outside.yaml` has
pools and clusters as other tools tell of them, `stacks.yaml` names whole stack files, and `clouds.yaml` has the clouds
themselves; beside each is a `.txt` with what comes of them. A line of it is a part of a plan, or a reason why there is
none, behind a mark. Below stands one row for each case: which part of each list it has, the number of the row in its
group that it is most like, and the marks of the lines in which it differs: `+` has come, `-` is gone.

Where a change of what is decided is meant, write the files anew and read the difference:

    GPUPOOLS_WRITE_DECIDED=1 python -m pytest tests/decided
"""

import hashlib
import os
from base64 import b32encode
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.decided import corpus

pytestmark = pytest.mark.slow

FILES = ("aws", "azure", "gcp", "runtime", "outside", "stacks", "clouds")
WRITING = bool(os.environ.get("GPUPOOLS_WRITE_DECIDED"))

Rows = Mapping[str, Collection[str]]
"""By the places of a case's parts, its lines."""


def mark(line: str) -> str:
    return b32encode(hashlib.sha256(line.encode()).digest())[:6].decode().lower()


def rows(name: str, group: str) -> Rows:
    return {places: corpus.decided(name, case) for places, case in corpus.groups(name)[group].items()}


@cache
def kept(name: str) -> Mapping[str, Rows]:
    """Read a file of what was decided."""
    lines: dict[str, str] = {}
    found: dict[str, dict[str, frozenset[str]]] = {}
    group: list[frozenset[str]] = []
    for row in Path(corpus.HERE, f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if row.startswith("== "):
            found[row[3:]] = {}
            group = []
        elif found and row:
            case, _, words = row.rpartition(" => ")
            like, *signed = words.split()
            whole = set(group[int(like[1:])] if like != "@" else ())
            whole |= {lines[each[1:]] for each in signed if each[0] == "+"}
            group.append(frozenset(whole - {lines[each[1:]] for each in signed if each[0] == "-"}))
            found[next(reversed(found))][case] = group[-1]
        elif row:
            lines[row[:6]] = row[7:]
    return found


def write(name: str, groups: Mapping[str, Rows]) -> None:
    lines = sorted({line for found in groups.values() for each in found.values() for line in each})
    assert len({mark(line) for line in lines}) == len(lines)
    text = [f"{mark(line)} {line}" for line in lines]
    for group, found in groups.items():
        text += ["", f"== {group}"]
        before: list[set[str]] = []
        for case, each in found.items():
            now = set(each)
            like = min(range(len(before)), key=lambda at: len(before[at] ^ now), default=None)
            if like is None or len(before[like] ^ now) >= len(now):
                like = None
            old = before[like] if like is not None else set()
            signed = [
                *(f"+{mark(line)}" for line in sorted(now - old)),
                *(f"-{mark(line)}" for line in sorted(old - now)),
            ]
            text.append(" ".join([f"{case} => @{'' if like is None else like}", *signed]))
            before.append(now)
    Path(corpus.HERE, f"{name}.txt").write_text("\n".join(text) + "\n", encoding="utf-8")


def differences(before: Rows, now: Rows, cases: Mapping[str, Any]) -> Iterable[str]:
    for case in dict.fromkeys((*before, *now)):
        old, new = set(before.get(case, ())), set(now.get(case, ()))
        if old != new:
            yield "\n  ".join(
                [f"{case} {cases.get(case)}", *(f"no longer {each}" for each in sorted(old - new)), *sorted(new - old)]
            )


@pytest.mark.skipif(not WRITING, reason="compares; GPUPOOLS_WRITE_DECIDED=1 writes")
@pytest.mark.parametrize("name", FILES)
def test_what_is_decided_is_written(name: str) -> None:
    write(name, {group: rows(name, group) for group in corpus.groups(name)})


@pytest.mark.skipif(WRITING, reason="writes what is decided")
@pytest.mark.parametrize(("name", "group"), [(name, group) for name in FILES for group in corpus.groups(name)])
def test_what_is_decided_is_what_was(name: str, group: str) -> None:
    before, now = kept(name).get(group, {}), rows(name, group)

    assert "\n".join(differences(before, now, corpus.groups(name)[group])) == ""
    assert list(before) == list(now)
