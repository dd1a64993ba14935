"""The causes for which pools do not become ready, and what in the cluster shows each of them.

Owns `data/ready_causes.csv` and `data/ready_signals.csv`. A signal of kind `plan` is a difference between the cluster
and the plan, which `gpupools.ready.judging` finds.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.csv_rows import csv_rows, data_rows
from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud import Cloud

UNKNOWN = "unknown"


class Cause(NamedTuple):
    """A reason why a pool is not ready."""

    cause: str
    title: str
    cure: str
    next: str
    """Template of the next command."""


class Signal(NamedTuple):
    """What shows a cause."""

    cause: str
    kind: str
    """`event`, `pod`, `container`, `condition`, `taint`, `label`, `policy`, `autoscaler` or `plan`."""
    name: str
    """Reason of the event or pod condition; name of the container, with `*` for any; type of the condition; key of the
    label, or start of the taint's key; empty for any."""
    state: str
    """Status of the condition, value of the label; of an event, text that it does not have."""
    text: str
    """Part of the message; `…` stands for any text."""
    source: str


class Seen(NamedTuple):
    """Something in the cluster that may show a cause."""

    kind: str
    object: str
    """`Node ip-10-0-0-1`, `Pod gpu-operator/nvidia-driver-x`."""
    name: str
    state: str
    message: str
    since: datetime | None = None
    cause: str = ""
    """Set where the difference from the plan is the cause."""


class Finding(NamedTuple):
    """A cause with the object that shows it."""

    cause: Cause
    object: str
    message: str
    since: datetime | None
    next: str
    """Next command."""
    others: int = 0
    """Other objects that show the same."""

    def as_json(self) -> JsonDict:
        """Return the finding as JSON types."""
        since = self.since.isoformat().replace("+00:00", "Z") if self.since is not None else None
        kept = {"cause": self.cause.cause, "title": self.cause.title, "object": self.object, "message": self.message}
        return {**kept, "since": since, "fix": self.cause.cure, "next": self.next, "others": self.others}


@cache
def causes() -> Mapping[str, Cause]:
    """Return the causes by key, in the order in which they hide each other."""
    return MappingProxyType({row["cause"]: Cause(**row) for row in data_rows("ready_causes.csv")})


@cache
def signals() -> tuple[Signal, ...]:
    """Return what shows each cause, in the order of the causes."""
    order = list(causes())
    found = (Signal(**row) for row in data_rows("ready_signals.csv"))
    return tuple(sorted(found, key=lambda each: order.index(each.cause)))


_LAUNCH_KINDS = {"quota": "quota", "capacity": "no-capacity", "place or capacity": "no-capacity"}


def cause_of(seen: Seen, clouds: Iterable[Cloud]) -> str:
    """Return the cause that something shows; empty for none."""
    if seen.cause:
        return seen.cause
    launches = seen.kind in ("event", "autoscaler") and seen.name != "FailedCreate"
    launch = _launch_error(seen.message, clouds) if launches else ""
    return launch or next((each.cause for each in signals() if _shows(each, seen)), "")


def _launch_error(message: str, clouds: Iterable[Cloud]) -> str:
    """Return the cause of an error that a cloud gives when machines do not start; empty for none."""
    rows = (row for cloud in clouds if cloud.launch_errors_file for row in csv_rows(cloud.launch_errors_file))
    found = [_LAUNCH_KINDS.get(row["kind"], "") for row in rows if has_text(message, row["pattern"])]
    return next(filter(None, found), "")


def _shows(signal: Signal, seen: Seen) -> bool:
    if signal.kind != seen.kind:
        return False
    if signal.state and (signal.state in seen.message if signal.kind == "event" else signal.state != seen.state):
        return False
    named = signal.name in ("", "*", seen.name) or (signal.kind == "taint" and seen.name.startswith(signal.name))
    return named and has_text(seen.message, signal.text)


def has_text(message: str, pattern: str) -> bool:
    """Return whether a message has the parts of a pattern in their order, in upper or lower case."""
    rest, at = message.casefold(), 0
    for part in pattern.casefold().split("…"):
        found = rest.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def findings(seen: Iterable[Seen], clouds: Iterable[Cloud], file: str) -> list[Finding]:
    """Return each cause once, with the first object that shows it; "unknown" with what was seen if nothing does."""
    from shlex import quote

    known, by_cause, rest = tuple(clouds), dict[str, list[Seen]](), list[Seen]()
    for each in seen:
        key = cause_of(each, known)
        (by_cause.setdefault(key, []) if key else rest).append(each)
    if not by_cause and rest:
        by_cause[UNKNOWN] = rest
    found = []
    for cause in (each for key, each in causes().items() if key in by_cause):
        shown = by_cause[cause.cause]
        first = shown[0]
        kind, _, name = first.object.partition(" ")
        space, _, short = name.rpartition("/")
        message = first.message
        if cause.cause == UNKNOWN:
            message = "; ".join(dict.fromkeys(f"{each.object}: {each.message}" for each in rest[:3]))
        words = {"kind": kind.casefold(), "object": short, "namespace": space or "default", "message": message}
        command = cause.next.format(**{key: quote(value) for key, value in words.items()}, file=quote(file))
        others = len({each.object for each in shown}) - 1
        found.append(Finding(cause, first.object, message, first.since, command, others))
    return found
