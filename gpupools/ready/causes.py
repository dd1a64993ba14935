"""The causes for which pools do not become ready, and what in the cluster shows each of them.

Owns `data/ready_causes.csv` and `data/ready_signals.csv`. A signal of kind `plan` is a difference between the cluster
and the plan, which `gpupools.ready.pool_status` finds.
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
    """Reason of the event or pod condition, name of the container, type of the condition, key of the label, or start of
    the taint's key; empty or `*` for any."""
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
    message: str
    since: datetime | None = None
    cause: str = ""
    """Set where the difference from the plan is the cause."""
    name: str = ""
    state: str = ""


class Finding(NamedTuple):
    """A cause with the object that shows it."""

    cause: Cause
    object: str
    message: str
    since: datetime | None
    next: str
    """Next command."""
    others: int
    """Other objects that show the same."""

    def as_json(self) -> JsonDict:
        """Return the finding as JSON types."""
        since = self.since.isoformat() if self.since is not None else None
        cause = {"cause": self.cause.cause, "title": self.cause.title, "fix": self.cause.cure, "next": self.next}
        return {**cause, "object": self.object, "message": self.message, "since": since, "others": self.others}


@cache
def causes() -> Mapping[str, Cause]:
    """Return the causes by key; one that another follows from comes first."""
    return MappingProxyType({row["cause"]: Cause(**row) for row in data_rows("ready_causes.csv")})


@cache
def signals() -> tuple[Signal, ...]:
    """Return what shows each cause, in the order of the causes."""
    order = list(causes())
    return tuple(
        sorted((Signal(**row) for row in data_rows("ready_signals.csv")), key=lambda each: order.index(each.cause))
    )


_LAUNCH_KINDS = {"quota": "quota", "capacity": "no-capacity", "place or capacity": "no-capacity"}


def cause_of(seen: Seen, clouds: Iterable[Cloud] = ()) -> str:
    """Return the cause that something shows; empty for none.

    Args:
        seen: What was seen.
        clouds: The clouds, for the errors that they give when machines do not start.
    """
    if seen.cause:
        return seen.cause
    if seen.kind in ("event", "autoscaler") and seen.name != "FailedCreate":
        for cloud in clouds:
            for row in csv_rows(cloud.launch_errors_file) if cloud.launch_errors_file is not None else ():
                if row["kind"] in _LAUNCH_KINDS and has_text(seen.message, row["pattern"]):
                    return _LAUNCH_KINDS[row["kind"]]
    return next((each.cause for each in signals() if _shows(each, seen)), "")


def _shows(signal: Signal, seen: Seen) -> bool:
    if signal.kind == "event":
        right_state = not signal.state or signal.state not in seen.message
    else:
        right_state = signal.state in ("", seen.state)
    named = signal.name in ("", "*", seen.name) or (signal.kind == "taint" and seen.name.startswith(signal.name))
    return signal.kind == seen.kind and right_state and named and has_text(seen.message, signal.text)


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

    known, by_cause = tuple(clouds), dict[str, list[Seen]]()
    for each in seen:
        by_cause.setdefault(cause_of(each, known) or UNKNOWN, []).append(each)
    found = []
    for cause in (each for key, each in causes().items() if key in by_cause and (key != UNKNOWN or len(by_cause) == 1)):
        shown = by_cause[cause.cause]
        first = shown[0]
        kind, _, name = first.object.partition(" ")
        space, _, short = name.rpartition("/")
        message = first.message
        if cause.cause == UNKNOWN:
            message = "; ".join(dict.fromkeys(f"{each.object}: {each.message}" for each in shown[:3]))
        words = {
            "kind": kind.casefold(),
            "object": short,
            "namespace": space or "default",
            "message": message,
            "file": file,
        }
        command = cause.next.format(**{key: quote(value) for key, value in words.items()})
        others = len({each.object for each in shown}) - 1
        found.append(Finding(cause, first.object, message, first.since, command, others))
    return found
