"""Waivers: accept the findings of one rule on one resource, with reason, owner and last day. Pure.

A waiver is in the policy configuration, under its rule, in an annotation of a Kubernetes object, or in a comment.
Expired and unused waivers are violations.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected, shown
from gpupools.common.json_types import JsonDict, JsonObject

KEY = "waivers"
"""The key of a rule's configuration that holds its waivers."""
ANNOTATION = "gpupools/waive."
"""Prefix of the annotation key; the name of the rule follows."""

_KEYS = {
    "resource": "Address of the resource as in reports of `gpupools policy`, or its URN; * stands for any text.",
    "pool": "Name of one pool inside the resource. If not set, the waiver covers all of them.",
    "reason": "Why the finding is accepted.",
    "owner": "Who is responsible for it.",
    "expires": "Last day on which the waiver is valid, as YYYY-MM-DD.",
}
_OPTIONAL = ("pool",)
_ANY = "*"
_MOST_VALUES = 100

SCHEMA: JsonObject = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            key: {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$" if key == "expires" else r"\S", "description": of}
            for key, of in _KEYS.items()
        },
        "required": [key for key in _KEYS if key not in _OPTIONAL],
        "additionalProperties": False,
    },
    "default": [],
    "description": "Resources on which findings are waived, each with reason, owner and last day.",
}


@dataclass(frozen=True)
class Waiver:
    """Accepts the findings of one rule on one resource."""

    rule: str
    resource: str
    """Its address."""
    reason: str
    owner: str
    expires: date
    """The last day on which it is valid."""
    pool: str = ""
    annotated: bool = False
    """True if the waiver is an annotation of the object, or a comment at it."""

    @property
    def is_pattern(self) -> bool:
        """Say whether it names several resources."""
        return _ANY in self.resource

    def matches(self, address: str) -> bool:
        """Say whether it names this resource; only `*` has a meaning of its own, since addresses have brackets."""
        if not self.is_pattern:
            return address == self.resource
        return fnmatchcase(address, self.resource.replace("[", "[[]").replace("?", "[?]"))

    def covers(self, address: str, pool: str, today: date) -> bool:
        """Say whether it covers a finding of its rule."""
        return self.matches(address) and self.pool in ("", pool) and today <= self.expires

    def __str__(self) -> str:
        return f"waived until {self.expires} by {self.owner}: {self.reason}"

    def as_json(self) -> JsonDict:
        """Return it as JSON types."""
        return {"reason": self.reason, "owner": self.owner, "expires": self.expires.isoformat()}


@dataclass(frozen=True)
class Comment:
    """A comment with a waiver."""

    text: str
    """What stands behind the mark."""
    pool: str = ""
    """The pool whose lines follow, if the object has several."""
    fault: str = ""
    """Why it waives nothing, whatever its text says."""


IN_FILES = "waivers_in_files"
LONGEST = "longest_waiver_days"


@dataclass(frozen=True)
class WaiverLimits:
    """What the configuration allows of waivers."""

    today: date = date.min
    in_files: str = "advisory-rules"
    """Which rules annotations and comments may waive: `allowed` (all), `advisory-rules` or `none`."""
    longest_days: int | None = None
    """Most days from today until a waiver ends."""
    mandatory: frozenset[str] = frozenset()

    def fault(self, waiver: Waiver) -> str:
        """Return why a waiver is not allowed; empty if it is."""
        of_rule = self.in_files == "advisory-rules" and waiver.rule in self.mandatory
        if waiver.annotated and (of_rule or self.in_files == "none"):
            which = f"the mandatory rule {waiver.rule}" if of_rule else "a rule"
            return f"move it to {waiver.rule}.{KEY} of the policy configuration; {IN_FILES} lets no file waive {which}"
        if self.longest_days is not None and (waiver.expires - self.today).days > self.longest_days:
            return f"end it within {self.longest_days} days from today, which {LONGEST} allows"
        return ""


def waiver_problem(given: object, *, annotated: bool = False) -> str:
    """Return how to correct a waiver; empty if it is valid."""
    wanted = [key for key in _KEYS if key not in _OPTIONAL and not (annotated and key == "resource")]
    allowed = [*wanted, "pool"]
    if not isinstance(given, Mapping):
        return f"write a waiver as an object with {', '.join(wanted)}"
    lacking = [key for key in wanted if not (isinstance(given.get(key), str) and given[key].strip())]
    if lacking:
        return f"give the waiver {', '.join(lacking)} as text"
    if not annotated and not any(letter.isalnum() for letter in given["resource"]):
        return "name a kind or a prefix in resource, such as ConfigMap/*; this pattern matches everything"
    beyond = [str(key) for key in given if key not in allowed]
    if beyond:
        return f"remove {', '.join(beyond)[:100]}; a waiver has {', '.join(allowed)}"
    if not isinstance(given.get("pool", ""), str):
        return "give pool as text"
    return "" if _date(given["expires"]) else "write expires as YYYY-MM-DD, a valid date"


def _date(given: str) -> date | None:
    try:
        return date.fromisoformat(given) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", given) else None
    except ValueError:
        return None


def _new_waiver(rule: str, resource: str, given: JsonObject, *, annotated: bool = False) -> Waiver:
    return Waiver(
        rule=rule,
        resource=resource,
        reason=given["reason"],
        owner=given["owner"],
        expires=date.fromisoformat(given["expires"]),
        pool=given.get("pool", ""),
        annotated=annotated,
    )


def configured(rule: str, options: JsonObject) -> tuple[Waiver, ...]:
    """Return the valid waivers of a rule's configuration."""
    given = options.get(KEY)
    return tuple(
        _new_waiver(rule, one["resource"], one)
        for one in (given if isinstance(given, list) else ())
        if not waiver_problem(one)
    )


_FORMS = (
    '# gpupools:ignore RULE until=YYYY-MM-DD owner=… reason="…"',
    "{reason: …, owner: …, expires: YYYY-MM-DD}",
)
"""A comment and an annotation."""


def annotated(
    address: str,
    type_token: str,
    inputs: JsonObject,
    rules: Collection[str],
    limits: WaiverLimits,
    comments: Iterable[Comment] = (),
) -> tuple[tuple[Waiver, ...], Mapping[str, str]]:
    """Return the waivers in annotations of a Kubernetes object and in comments, and the fix of each other one."""
    metadata = inputs.get("metadata") if type_token.startswith("kubernetes:") else None
    notes = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    found: list[Waiver] = []
    problems: dict[str, str] = {}
    given_at: list[tuple[str, str, Any, str]] = [
        (f"annotation {key}", key.removeprefix(ANNOTATION), _parse_annotation(value), "")
        for key, value in (notes.items() if isinstance(notes, Mapping) else ())
        if isinstance(key, str) and key.startswith(ANNOTATION)
    ]
    for where, rule, given, misplaced in (*given_at, *map(_parse_comment, comments)):
        fault = waiver_problem(given, annotated=True) if rule in rules else f"there is no rule {shown(rule)}"
        if fault and not misplaced:
            problems[where] = f"{fault}, as in {_FORMS[where.startswith('annotation')]}"
            continue
        waiver = None if misplaced else _new_waiver(rule, address, given, annotated=True)
        if fault := limits.fault(waiver) if waiver else misplaced:
            problems[where] = fault
        elif waiver:
            found.append(waiver)
    return tuple(found), problems


_SHOWN = 200
"""Characters of a comment that a finding shows."""
_WORDS = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")


@lru_cache(maxsize=10_000)
def _parse_comment(comment: Comment) -> tuple[str, str, JsonDict, str]:
    """Return what `RULE until=2027-01-31 owner=ml reason="…"` says: place, rule, keys of a waiver, and its fault."""
    rule, *words = _WORDS.findall(comment.text) or [""]
    if "".join(_WORDS.split(comment.text)).strip():  # a quotation mark without its other
        rule, words = "", []
    pairs = (re.sub("[\"']", "", word).partition("=") for word in words)
    given = {"expires" if key == "until" else key: value for key, _, value in pairs}
    return f"the comment {shown(comment.text, most=_SHOWN)}", rule, {"pool": comment.pool, **given}, comment.fault


def _parse_annotation(value: object) -> Any:
    try:
        documents = parse_yaml(value, _MOST_VALUES, unique=True) if isinstance(value, str) else ()
    except Rejected:
        return None
    data = documents[0].data if len(documents) == 1 else None
    # YAML reads an unquoted day as one.
    return (
        {key: one.isoformat() if isinstance(one, date) else one for key, one in data.items()}
        if isinstance(data, dict)
        else data
    )


MANIFESTS = "Kubernetes"
"""The scope of objects in manifests."""


def scope(address: str) -> str:
    """Return the stack or file format of a resource; one configuration can serve stacks, plans and manifests."""
    if address.startswith("urn:pulumi:"):
        return "::".join(address.split("::")[:2])
    if re.match(r"[A-Z]\w*/", address):
        return MANIFESTS
    if re.fullmatch(r"[a-z]+(-[a-z]+)+", address):
        return address  # a gap of a file, or all resources together
    # A logical id of CloudFormation has letters and digits alone, an address of Terraform a dot.
    return "CloudFormation" if address.isalnum() else "ARM" if re.match(r"resources\b", address) else "Terraform"
