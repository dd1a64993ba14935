"""The causes for which pools do not become ready, and what in the cluster shows each of them.

Owns `data/ready_causes.csv` and `data/ready_signals.csv`. A signal of kind `plan` is a difference between the cluster
and the plan, which `gpupools.ready.pool_status` finds.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows, has_text
from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud import Cloud

UNKNOWN = "unknown"


class Cause(NamedTuple):
    """A reason why a pool is not ready; `next` is the template of the next command."""

    cause: str
    title: str
    cure: str
    next: str


class Signal(NamedTuple):
    """What shows a cause: an `event`, `pod`, `container`, `condition`, `taint`, `label`, `policy`, `autoscaler`."""

    cause: str
    kind: str
    name: str
    """Reason, name, type or key; of a taint, the start of its key; empty or `*` for any."""
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
    """A cause with the first object that shows it, the next command, and the number of other objects that show it."""

    cause: Cause
    object: str
    message: str
    since: datetime | None
    next: str
    others: int

    def as_json(self) -> JsonDict:
        """Return the finding as JSON types."""
        key, title, cure, _ = self.cause
        since = self.since.isoformat() if self.since is not None else None
        return {"cause": key, "title": title, "fix": cure, **self._asdict(), "since": since} | {"cause": key}


CAUSES: Mapping[str, Cause] = {row["cause"]: Cause(**row) for row in data_rows("ready_causes.csv")}
"""By key; one that another follows from comes first."""

_ORDER = list(CAUSES)
SIGNALS = sorted((Signal(**row) for row in data_rows("ready_signals.csv")), key=lambda each: _ORDER.index(each.cause))
"""What shows each cause, in the order of the causes."""

_LAUNCH_KINDS = {"quota": "quota", "capacity": "no-capacity", "place or capacity": "no-capacity"}


def cause_of(seen: Seen, clouds: Iterable[Cloud] = ()) -> str:
    """Return the cause that something shows, also by the clouds' errors when machines do not start; empty for none."""
    if seen.cause:
        return seen.cause
    of_cloud = seen.kind in ("event", "autoscaler") and seen.name != "FailedCreate"
    for row in (row for cloud in clouds if of_cloud for row in cloud.launch_errors(seen.message)):
        if row["kind"] in _LAUNCH_KINDS:
            return _LAUNCH_KINDS[row["kind"]]
    return next((each.cause for each in SIGNALS if _shows(each, seen)), "")


def _shows(signal: Signal, seen: Seen) -> bool:
    if signal.kind == "event":
        right_state = not signal.state or signal.state not in seen.message
    else:
        right_state = signal.state in ("", seen.state)
    named = signal.name in ("", "*", seen.name) or (signal.kind == "taint" and seen.name.startswith(signal.name))
    return signal.kind == seen.kind and right_state and named and has_text(seen.message, signal.text)


def findings(seen: Iterable[Seen], clouds: Collection[Cloud], file: str) -> list[Finding]:
    """Return each cause once, with the first object that shows it; "unknown" with what was seen if nothing does."""
    by_cause: dict[str, list[Seen]] = {}
    for each in seen:
        by_cause.setdefault(cause_of(each, clouds) or UNKNOWN, []).append(each)
    keys = [key for key in CAUSES if key in by_cause and (key != UNKNOWN or len(by_cause) == 1)]
    return [_finding(CAUSES[key], by_cause[key], file) for key in keys]


def _finding(cause: Cause, shown: list[Seen], file: str) -> Finding:
    from shlex import quote

    first = shown[0]
    every = dict.fromkeys(f"{each.object}: {each.message}" for each in shown[:3])
    message = "; ".join(every) if cause.cause == UNKNOWN else first.message
    kind, _, name = first.object.partition(" ")
    space, _, short = name.rpartition("/")
    words = {"kind": kind.casefold(), "object": short, "namespace": space or "default"}
    words |= {"message": message, "file": file}
    command = cause.next.format(**{key: quote(value) for key, value in words.items()})
    return Finding(cause, first.object, message, first.since, command, len({each.object for each in shown}) - 1)
