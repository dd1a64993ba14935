"""Findings as SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.

With what GitHub's code scanning asks for besides:
https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from typing import Any

from gpupools.audit.judging import FileReport, ReportedFinding
from gpupools.common.errors import Problem
from gpupools.common.json_types import JsonDict
from gpupools.console.output import printable, sarif_text, uri
from gpupools.policies.components import finding_key
from gpupools.policies.finding import FindingLevel, Level, Rule
from gpupools.policies.rules import ALL_RULES

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

# GitHub shows above 9.0 as critical, 7.0 as high, 4.0 as medium, and takes the number as text.
_SECURITY_SEVERITY = {"low": "2.0", "medium": "5.0", "high": "8.0", "critical": "9.5"}


def sarif(judged: Sequence[FileReport]) -> JsonDict:
    """Return the log of one run over all files."""
    positions = {rule.name: index for index, rule in enumerate(ALL_RULES)}
    notifications = [_notification(file.path, problem) for file in judged for problem in file.problems]
    answers = [{"file": printable(file.path), **file.answers, "gaps": list(file.gaps)} for file in judged]
    return sarif_log(
        "gpupools-policy/",
        [_rule(rule) for rule in ALL_RULES],
        list(_results(judged, positions)),
        columnKind="unicodeCodePoints",
        invocations=[{"executionSuccessful": not notifications, "toolExecutionNotifications": notifications}],
        properties={"answers": answers},
    )


def sarif_log(identifier: str, rules: Sequence[JsonDict], results: Sequence[JsonDict], **more: Any) -> JsonDict:
    """Return a log of one run; `identifier` tells its kind of results from others of one commit.

    Results of one fingerprint are numbered.
    """
    alike = Counter[str]()
    for result in results:
        for name, same in result["partialFingerprints"].items():
            alike[same] += 1
            result["partialFingerprints"] = {name: f"{same}:{alike[same]}"}
    run = {"tool": {"driver": {"name": "gpupools", "rules": rules}}, "automationDetails": {"id": identifier}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{**run, **more, "results": results}]}


def _rule(rule: Rule) -> JsonDict:
    return {
        "id": rule.name,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.why},
        "fullDescription": {"text": f"{rule.why} {rule.fix}"},
        "help": {"text": f"{rule.fix} {rule.url}"},
        "helpUri": rule.url,
        "defaultConfiguration": {"level": "error" if rule.level is Level.MANDATORY else "note"},
        "properties": {
            "precision": "high",
            "problem.severity": "error" if rule.level is Level.MANDATORY else "recommendation",
            "security-severity": _SECURITY_SEVERITY[rule.severity],
            "tags": ["security", "kubernetes", "gpu"],
        },
    }


_LEVELS = {FindingLevel.VIOLATION: "error", FindingLevel.UNVERIFIED: "warning", FindingLevel.ADVICE: "note"}


def _results(judged: Iterable[FileReport], positions: dict[str, int]) -> Iterable[JsonDict]:
    for file in judged:
        for found in (*file.found, *file.waived):
            rule, text = found.rule.name, f"{found.address}: {found.message}" if found.address else found.message
            place, same = (found.file or file.path, found.line), {"gpupoolsFinding/v2": fingerprint(found)}
            result = sarif_result(rule, positions[rule], _LEVELS[found.level], text, place, same)
            result["properties"] = {"level": found.level.value, "settledBy": sarif_text(found.settled_by)}
            if found.address:
                resource = {"fullyQualifiedName": printable(found.address), "kind": "resource"}
                result["locations"][0]["logicalLocations"] = [resource]
            if found.waiver is not None:
                kind = "inSource" if found.waiver.annotated else "external"
                justification = sarif_text(str(found.waiver))
                result["suppressions"] = [{"kind": kind, "status": "accepted", "justification": justification}]
            yield result


def sarif_result(
    rule: str, index: int, level: str, text: str, place: tuple[FilePath, int | None], same: dict[str, str]
) -> JsonDict:
    """Return a result at a line of a file; `same` is its fingerprint, by name."""
    return {
        "ruleId": rule,
        "ruleIndex": index,
        "level": level,
        "message": {"text": sarif_text(text)},
        "locations": [_location(*place)],
        "partialFingerprints": same,
    }


def _location(path: FilePath, line: int | None) -> JsonDict:
    """Return a line of a file; the first one if the line is not known."""
    # GitHub shows no result without a line, so one of a file without lines goes to the first.
    return {"physicalLocation": {"artifactLocation": {"uri": uri(path)}, "region": {"startLine": line or 1}}}


def fingerprint(found: ReportedFinding) -> str:
    """Return an identifier that stays when a message, a line or the name of a file, resource or pool changes."""
    control = finding_key(found.rule.name, found.finding)[1]
    return short_hash(found.rule.name, control, found.type, without_indices(found.finding.property))


def short_hash(*parts: str) -> str:
    """Return a hash of texts."""
    # Names may contain a lone surrogate, which UTF-8 cannot encode.
    return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]


def without_indices(text: str) -> str:
    """Return a text with paths in it that stay the same when something is inserted before."""
    return re.sub(r"\[\d+\]", "[]", text)


def _notification(path: FilePath, problem: Problem) -> JsonDict:
    return {
        "level": "error",
        "message": {"text": sarif_text(problem)},
        "locations": [_location(path, None)],
    }
