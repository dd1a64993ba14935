"""Findings that a project had when it adopted the check: they are listed in a file and no longer fail a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpupools.audit.judging import FileReport, ReportedFinding
from gpupools.audit.sarif import fingerprint
from gpupools.common.errors import Problem, Rejected, shown
from gpupools.common.structured_text import read_text
from gpupools.console.output import uri
from gpupools.policies.finding import WAIVERS_CURRENT

VERSION = 1
_KEYS = ("file", "resource", "rule", "level", "fingerprint")
_Entry = tuple[str, ...]
"""The values of `_KEYS`."""


def entries(judged: Sequence[FileReport]) -> Counter[_Entry]:
    """Return what identifies the findings of a run."""
    return Counter(entry for report in judged for found in report.found if (entry := _entry(report, found)))


def baseline_text(found: Counter[_Entry]) -> str:
    """Return a baseline as JSON."""
    findings = [dict(zip(_KEYS, each, strict=True)) for each in sorted(found.elements())]
    return json.dumps({"baseline": VERSION, "findings": findings}, indent=1) + "\n"


def _entry(report: FileReport, found: ReportedFinding) -> _Entry | None:
    """Return what identifies a finding; None for one that counts others, and for outdated waivers."""
    if found.count > 1 or found.rule.name == WAIVERS_CURRENT:
        return None
    place = uri(report.path), found.address
    return (*place, found.rule.name, found.level.value, fingerprint(report.path, found))


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
    return Counter(tuple(each[key] for key in _KEYS) for each in findings)


def _is_entry(given: Any) -> bool:
    return isinstance(given, dict) and all(isinstance(given.get(key), str) for key in _KEYS)


def without_known(judged: Sequence[FileReport], baseline: Counter[_Entry]) -> tuple[list[FileReport], list[str]]:
    """Return the reports without the findings of a baseline, and its findings that these files no longer have."""
    left = baseline.copy()
    reports = []
    for report in judged:
        new = []
        for found in report.found:
            entry = _entry(report, found)
            if entry is not None and left[entry] > 0:
                left[entry] -= 1
            else:
                new.append(found)
        reports.append(replace(report, found=tuple(new), in_baseline=len(report.found) - len(new)))
    files = {uri(report.path) for report in judged if not report.problems}
    return reports, [f"{file}: {address} [{rule}]" for file, address, rule, *_ in left.elements() if file in files]
