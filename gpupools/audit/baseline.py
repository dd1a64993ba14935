"""Findings that a project had when it adopted the check: they are listed in a file and no longer fail a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gpupools.audit.judging import FileReport, ReportedFinding
from gpupools.audit.sarif import fingerprint, short_hash, without_indices
from gpupools.common.errors import Problem, Rejected, shown
from gpupools.common.structured_text import read_text
from gpupools.console.output import uri
from gpupools.policies.finding import WAIVERS_CURRENT

VERSION = 2
_KEYS = ("file", "resource", "pool", "rule", "level", "fingerprint", "evidence")
_Entry = tuple[str, ...]
"""The values of `_KEYS`."""
_SAME = (
    ("file", "resource", "pool", "level", "fingerprint"),
    ("file", "level", "fingerprint", "evidence"),  # its resource or pool was renamed
    ("resource", "pool", "level", "fingerprint"),  # its file was renamed or moved
)
"""What a known finding has in common with one of the run, the surest first."""


def entries(judged: Sequence[FileReport]) -> Counter[_Entry]:
    """Return what identifies the findings of a run."""
    return Counter(entry for report in judged for found in report.found if (entry := _entry(report, found)))


def baseline_text(found: Counter[_Entry]) -> str:
    """Return a baseline as JSON."""
    findings = [dict(zip(_KEYS, element, strict=True)) for element in sorted(found.elements())]
    return json.dumps({"baseline": VERSION, "findings": findings}, indent=1) + "\n"


def _entry(report: FileReport, found: ReportedFinding) -> _Entry | None:
    """Return what identifies a finding; None for one that counts others, and for outdated waivers."""
    if found.count > 1 or found.rule.name == WAIVERS_CURRENT:
        return None
    what = found.finding.what
    for name in filter(None, (found.address, found.finding.pool)):
        what = what.replace(name, "")
    place = uri(report.path), found.address, found.finding.pool
    return (*place, found.rule.name, found.level.value, fingerprint(found), short_hash(without_indices(what)))


def read_baseline(path: Path) -> Counter[_Entry]:
    """Read a baseline.

    Raises:
        Rejected: It cannot be read, or has another version.
    """
    values = read_text(path).values
    data: Any = values[0].data if len(values) == 1 else None
    version = data.get("baseline") if isinstance(data, dict) else None
    findings = data.get("findings") if isinstance(data, dict) else None
    if version is None or not isinstance(findings, list) or not all(map(_is_entry, findings)):
        raise Rejected([Problem((), "is not a baseline", "write one with --write-baseline")])
    if version != VERSION or isinstance(version, bool):
        what = f"is a baseline of version {shown(version)}, and this gpupools reads version {VERSION}"
        raise Rejected([Problem((), what, "write it again with --write-baseline")])
    return Counter(tuple(finding[key] for key in _KEYS) for finding in findings)


def _is_entry(given: Any) -> bool:
    return isinstance(given, dict) and all(isinstance(given.get(key), str) for key in _KEYS)


def without_known(judged: Sequence[FileReport], baseline: Counter[_Entry]) -> tuple[list[FileReport], list[str]]:
    """Return the reports without the findings of a baseline, and its findings that these files no longer have."""
    here = {uri(report.path) for report in judged if not report.problems}
    seen = {file: file in here or not _exists(file) for file in {row[0] for row in baseline}}
    left = baseline.copy()
    new = {
        (place, number): entry
        for place, report in enumerate(judged)
        for number, found in enumerate(report.found)
        if (entry := _entry(report, found))
    }
    for keys in _SAME:
        chosen = itemgetter(*(_KEYS.index(key) for key in keys))
        # A finding of a file that this run did not judge is still there, so no finding of another file is it.
        known: dict[tuple[str, ...], list[_Entry]] = {}
        for entry in left.elements():
            if "file" in keys or seen[entry[0]]:
                known.setdefault(chosen(entry), []).append(entry)
        for where, entry in list(new.items()):
            if same := known.get(chosen(entry)):
                left[same.pop()] -= 1
                del new[where]
    reports = []
    for place, report in enumerate(judged):
        kept = [
            each for number, each in enumerate(report.found) if (place, number) in new or _entry(report, each) is None
        ]
        reports.append(replace(report, found=tuple(kept), in_baseline=len(report.found) - len(kept)))
    return reports, [f"{file}: {address} [{rule}]" for file, address, _, rule, *_ in left.elements() if seen[file]]


def _exists(file: str) -> bool:
    return Path(unquote(file.removeprefix("file://"))).exists()
