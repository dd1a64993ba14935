"""The causes for which pools do not become ready, and what in the cluster shows each of them.

Owns `data/ready_causes.csv` and `data/ready_signals.csv`, the one table of error texts, whose column `answers` says
whether `ready`, `explain` or both know a row. Rows of one cloud, of machines that do not start, are in its
`launch_errors.csv`, with the same columns. A signal of kind `plan` is a difference between the cluster and the plan,
which `gpupools.ready.pool_status` finds.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from shlex import quote
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows, has_text
from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud import Cloud

UNKNOWN = "unknown"
STARTUP_GATE = "startup-gate"
STARTS = "starts"


class Cause(NamedTuple):
    """A reason why a pool is not ready; `next` is the template of the next command."""

    key: str
    cause: str
    """The key, or another's that it is a form of; `unknown` for what is seen while its cause is not."""
    title: str
    cure: str
    next: str
    boots: str
    """`yes` if nodes that boot show it, too."""
    waits: str
    """`yes` if it only says what something waits for, which follows from any other cause."""


class Signal(NamedTuple):
    """What shows a cause: an `event`, `pod`, `container`, `condition`, `taint`, `label`, `policy`, `autoscaler`.

    Of kind `device` are errors of NVIDIA's software, whatever says them of any pod on a node.
    """

    cause: str
    kind: str
    name: str
    """Reason, name, type or key; of a taint, the start of its key; empty or `*` for any."""
    state: str
    """Status of the condition, value of the label; of an event or autoscaler, text that it does not have."""
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
    """Key of the cause, where the difference from the plan is the cause."""
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
        since = self.since.isoformat() if self.since is not None else None
        given = {**self._asdict(), "since": since, "cause": self.cause.cause}
        return {"title": self.cause.title, "fix": self.cause.cure, **given}


CAUSES: Mapping[str, Cause] = {row["key"]: Cause(**row) for row in data_rows("ready_causes.csv")}
"""By key; one that another follows from comes first."""

_ORDER, _ROWS = list(CAUSES), data_rows("ready_signals.csv")
_OF_READY = (Signal(*(row[key] for key in Signal._fields)) for row in _ROWS if row["answers"] != "explain")
SIGNALS = sorted(_OF_READY, key=lambda each: _ORDER.index(each.cause))
"""What shows each cause, in the order of the causes."""


def error_texts(text: str, cloud: Cloud | None = None) -> list[Mapping[str, str]]:
    """Return the errors that a text has, of a cloud or of Kubernetes and its GPU software, as rows of the table.

    Each has `what` it means and what to do `next`; those that another one says more exactly are left out.
    """
    rows = _ROWS if cloud is None else cloud.rows("launch_errors.csv")
    found = [_answer(row) for row in rows if row["answers"] != "ready" and has_text(text, row["text"])]
    found = [row for row in found if row["cause"] != "unclear"] or found
    texts = [row["text"] for row in found]
    exact = [row for row in found if not any(row["text"] in each and row["text"] != each for each in texts)]
    return list({row["what"]: row for row in reversed(exact)}.values())[::-1]


def _answer(row: Mapping[str, str]) -> Mapping[str, str]:
    cause = CAUSES.get(row["cause"])
    return row if row["what"] or cause is None else {**row, "what": f"{cause.title}.", "next": cause.cure}


_LAUNCH_CAUSES = {"quota": "quota", "capacity": "no-capacity", "place or capacity": "no-capacity"}
"""Causes of `ready` for those of a cloud's rows; the others are `launch-error`."""


def cause_of(seen: Seen, clouds: Iterable[Cloud] = ()) -> str:
    """Return the key of what something shows, also by the clouds' errors when machines do not start; empty for none."""
    of_cloud = (key for key, _ in _launch_errors(seen, clouds))
    return seen.cause or next(of_cloud, "") or next((one.cause for one in SIGNALS if _shows(one, seen)), "")


def _launch_errors(seen: Seen, clouds: Iterable[Cloud]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the clouds' errors with the causes that they show."""
    if seen.kind in ("event", "autoscaler") and seen.name != "FailedCreate":
        for row in (row for cloud in clouds for row in error_texts(seen.message, cloud)):
            yield _LAUNCH_CAUSES.get(row["cause"], "launch-error"), row


def _shows(signal: Signal, seen: Seen) -> bool:
    if signal.kind in ("event", "autoscaler"):
        right_state = not signal.state or signal.state not in seen.message
    else:
        right_state = signal.state in ("", seen.state)
    right_kind = signal.kind == seen.kind or (signal.kind == "device" and seen.kind in ("event", "pod", "container"))
    named = signal.name in ("", "*", seen.name) or (signal.kind == "taint" and seen.name.startswith(signal.name))
    return right_kind and right_state and named and has_text(seen.message, signal.text)


def findings(seen: Iterable[Seen], clouds: Collection[Cloud], file: str, pool_command: str) -> list[Finding]:
    """Return each cause once, with the first object that shows it; what was seen if nothing shows one.

    The commands are about the stack file, or `pool_command` where the next look is not in the cluster.
    """
    by_key: dict[str, list[Seen]] = {}
    for signal in seen:
        by_key.setdefault(cause_of(signal, clouds) or UNKNOWN, []).append(signal)
    keys = [key for key in CAUSES if key in by_key]
    # Our own taint follows from whatever else is missing.
    keys = [key for key in keys if key != STARTUP_GATE] or keys
    keys = [key for key in keys if key != UNKNOWN and not CAUSES[key].waits] or keys
    keys = [key for key in keys if CAUSES[key].cause != UNKNOWN] or keys
    words = {"file": quote(file), "pool_command": pool_command}
    return [_finding(CAUSES[key], by_key[key], clouds, words) for key in keys if key != UNKNOWN or len(keys) == 1]


def _finding(cause: Cause, shown: list[Seen], clouds: Iterable[Cloud], words: Mapping[str, str]) -> Finding:
    # What software says leads further than what is missing.
    shown = sorted(shown, key=lambda seen: seen.kind == "plan")
    first = shown[0]
    every = dict.fromkeys(f"{seen.object}: {seen.message}" for seen in shown[:3])
    message = "; ".join(every) if cause.key == UNKNOWN else first.message
    kind, _, name = first.object.partition(" ")
    space, _, short = name.rpartition("/")
    kubectl, short = f"kubectl -n {quote(space)}" if space else "kubectl", quote(short)
    describe = f"{kubectl} describe {kind.casefold()} {short}"
    describe = words["pool_command"] if kind in ("Cluster", "Pool") else describe
    logs = f"{kubectl} logs {short} --all-containers --tail=50"
    logs = logs if kind == "Pod" and first.kind != "device" else describe
    command = cause.next.format(**words, object=short, message=quote(message), describe=describe, logs=logs)
    told = (*_launch_errors(first, clouds), *((row["cause"], row) for row in error_texts(first.message)))
    cause = cause._replace(cure=next((row["next"] for key, row in told if key == cause.key), cause.cure))
    return Finding(cause, first.object, message, first.since, command, len({seen.object for seen in shown}) - 1)
