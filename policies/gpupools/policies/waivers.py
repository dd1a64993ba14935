"""Waivers: accept the findings of one rule on one resource, with reason, owner and last day. Pure.

A waiver is in the policy configuration, under its rule, in an annotation of a Kubernetes object, or in a comment.
Expired and unused waivers are violations.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from typing import Any

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected, shown
from gpupools.common.json_types import JsonDict, JsonObject

KEY = "waivers"
"""The key of a rule's configuration that holds its waivers."""
ANNOTATION = "gpupools/waive."
"""Prefix of the annotation key; the name of the rule follows."""

RENAMED = dict.fromkeys(("gpu-stack-bounded", "gpu-stack-within-budget"), "gpu-pool-bounded")
"""Former names of rules, with the rule that they are now part of."""

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


def _unknown_rule(rule: str) -> str:
    new = RENAMED.get(rule)
    return f"write {new}, which {rule} is now part of" if new else f"there is no rule {shown(rule)}"


_FORMS = (
    '# gpupools:ignore RULE until=YYYY-MM-DD owner=… reason="…"',
    "{reason: …, owner: …, expires: YYYY-MM-DD}",
)
"""A comment and an annotation."""


class Waivers:
    """The waivers of a run: finds the one that covers a finding, and knows which were used."""

    def __init__(
        self, limits: WaiverLimits = WaiverLimits(), configured: Iterable[Waiver] = (), *, checks_them: bool = False
    ) -> None:
        """Start with the waivers of the configuration.

        Args:
            limits: What the configuration allows of waivers.
            configured: Its own.
            checks_them: Whether the rule on waivers also reports those that are outdated or match nothing.
        """
        self.limits = limits
        self.used: dict[Waiver, str] = {}
        """The first finding that each of them suppressed."""
        self._configured = tuple(configured)
        self._checked = self._configured if checks_them else ()
        self._in_files: dict[str, tuple[list[Waiver], Mapping[str, str]]] = {}
        """Waivers in annotations and comments by address, and the fix of each other one."""
        self._patterns = [waiver for waiver in self._configured if waiver.is_pattern and not limits.fault(waiver)]
        self._places: dict[tuple[str, str, str], list[Waiver]] = {}
        for waiver in self._configured:
            self._add(waiver)

    def _add(self, waiver: Waiver) -> None:
        if not waiver.is_pattern and not self.limits.fault(waiver):
            self._places.setdefault((waiver.resource, waiver.rule, waiver.pool), []).append(waiver)

    def read(
        self,
        address: str,
        type_token: str,
        inputs: JsonObject,
        rules: Collection[str],
        comments: Iterable[Comment] = (),
    ) -> None:
        """Read the waivers in annotations of a Kubernetes object and in comments, once for each address."""
        if address in self._in_files:
            return
        metadata = inputs.get("metadata") if type_token.startswith("kubernetes:") else None
        notes = metadata.get("annotations") if isinstance(metadata, Mapping) else None
        waivers: list[Waiver] = []
        problems: dict[str, str] = {}
        given_at: list[tuple[str, str, Any, str]] = [
            (f"annotation {key}", key.removeprefix(ANNOTATION), _parse_annotation(value), "")
            for key, value in (notes.items() if isinstance(notes, Mapping) else ())
            if isinstance(key, str) and key.startswith(ANNOTATION)
        ]
        for where, rule, given, misplaced in (*given_at, *map(_parse_comment, comments)):
            fault = waiver_problem(given, annotated=True) if rule in rules else _unknown_rule(rule)
            if fault and not misplaced:
                is_comment = not where.startswith("annotation")
                fault = fault.replace("expires", "until") if is_comment else fault
                problems[where] = f"{fault}, as in {_FORMS[not is_comment]}"
                continue
            waiver = None if misplaced else _new_waiver(rule, address, given, annotated=True)
            if fault := self.limits.fault(waiver) if waiver else misplaced:
                problems[where] = fault
            elif waiver:
                waivers.append(waiver)
                self._add(waiver)
        self._in_files[address] = (waivers, problems)

    def problems(self, address: str) -> Mapping[str, str]:
        """Return the annotations and comments of a resource that waive nothing, each with its fix."""
        return self._in_files[address][1] if address in self._in_files else {}

    def use(self, rule: str, address: str, pool: str, what: str) -> Waiver | None:
        """Return the waiver that covers a finding of a rule; None without one."""
        named = (self._places.get((address, rule, pool_name), ()) for pool_name in dict.fromkeys((pool, "")))
        listed = chain(*named, (pattern for pattern in self._patterns if pattern.rule == rule))
        found = next((waiver for waiver in listed if waiver.covers(address, pool, self.limits.today)), None)
        if found is not None:
            self.used.setdefault(found, what)
        return found

    def outdated(self, addresses: Iterable[str], scopes: Collection[str]) -> Iterator[tuple[str, str, str]]:
        """Yield resource, problem and fix of each waiver in files at these addresses that is not current."""
        given = chain(self._checked, *(self._in_files[place][0] for place in addresses if place in self._in_files))
        return outdated_waivers(given, self.used, scopes, self.limits)


def outdated_waivers(
    given: Iterable[Waiver], used: Collection[Waiver], scopes: Collection[str], limits: WaiverLimits
) -> Iterator[tuple[str, str, str]]:
    """Yield resource, problem and fix of waivers of these scopes that are expired, too long or match no finding."""
    of_loops = {_of_loop(waiver) for waiver in used if "[" in waiver.resource}
    for waiver in dict.fromkeys(given):
        if scope(waiver.resource) not in scopes:
            continue
        pool = f", pool {shown(waiver.pool)}" if waiver.pool else ""
        about = f"the waiver of {waiver.rule} for {shown(waiver.resource)}{pool} ({waiver.owner}: {waiver.reason})"
        place = (
            "its annotation or comment" if waiver.annotated else f"{waiver.rule}.{KEY} of the policy's configuration"
        )
        if limits.today > waiver.expires:
            yield (
                waiver.resource,
                f"{about} expired on {waiver.expires}",
                f"fix the resource, or renew the waiver in {place}",
            )
        elif fault := limits.fault(waiver):
            yield waiver.resource, f"{about} is not allowed", fault
        elif waiver not in used and _of_loop(waiver) not in of_loops:
            fix = f"remove it from {place}, or use the address that reports show"
            yield waiver.resource, f"{about} matches no finding of the rule", fix


def _of_loop(waiver: Waiver) -> Waiver:
    """Return what all waivers of one comment have in common, at a Terraform resource that `for_each` repeats."""
    return replace(waiver, resource=waiver.resource.partition("[")[0])


_SHOWN = 200
"""Characters of a comment that a finding shows."""
_WORDS = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")


def _parse_comment(comment: Comment) -> tuple[str, str, JsonDict, str]:
    """Return what `RULE until=2027-01-31 owner=ml reason="…"` says: place, rule, keys of a waiver, and its fault."""
    where, rule, given = _parse_comment_text(comment.text)
    return where, rule, {"pool": comment.pool, **given}, comment.fault


@lru_cache(maxsize=10_000)
def _parse_comment_text(text: str) -> tuple[str, str, JsonDict]:
    rule, *words = _WORDS.findall(text) or [""]
    if "".join(_WORDS.split(text)).strip():  # a quotation mark without its other
        rule, words = "", []
    pairs = (re.sub("[\"']", "", word).partition("=") for word in words)
    given = {"expires" if key == "until" else key: value for key, _, value in pairs}
    return f"the comment {shown(text, most=_SHOWN)}", rule, given


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
