"""The causes for which pools do not become ready, and what in the cluster shows each of them.

Owns `data/ready_causes.csv` and `data/ready_signals.csv`. A signal of kind `plan` is a difference between the cluster
and the plan, which `gpupools.ready.pool_status` finds.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from shlex import join, quote
from typing import NamedTuple

from gpupools.common.csv_rows import data_rows, has_text
from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud import Cloud

UNKNOWN = "unknown"


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


class Signal(NamedTuple):
    """What shows a cause: an `event`, `pod`, `container`, `condition`, `taint`, `label`, `policy`, `autoscaler`.

    Of kind `device` are errors of NVIDIA's software, whatever says them of any pod on a node.
    """

    cause: str
    """Key of the cause."""
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
    """Set where the difference from the plan is the cause: its key."""
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
        key = self.cause.cause
        return {"cause": key, "title": self.cause.title, "fix": self.cause.cure, **self._asdict(), "since": since} | {
            "cause": key
        }


CAUSES: Mapping[str, Cause] = {row["key"]: Cause(**row) for row in data_rows("ready_causes.csv")}
"""By key; one that another follows from comes first."""

_ORDER = list(CAUSES)
SIGNALS = sorted((Signal(**row) for row in data_rows("ready_signals.csv")), key=lambda each: _ORDER.index(each.cause))
"""What shows each cause, in the order of the causes."""

_DEVICE_ERRORS = [
    {"pattern": each.text, "kind": each.cause, "what": f"{CAUSES[each.cause].title}.", "next": CAUSES[each.cause].cure}
    | {"source": each.source}
    for each in SIGNALS
    if each.kind == "device" and CAUSES[each.cause].cause != UNKNOWN
]


def error_texts(text: str) -> list[Mapping[str, str]]:
    """Return the errors of Kubernetes and its GPU software that a text has, in the form of `Cloud.launch_errors`."""
    rows = [*data_rows("error_texts.csv"), *_DEVICE_ERRORS]
    return [row for row in rows if has_text(text, row["pattern"])]


_LAUNCH_KINDS = {"quota": "quota", "capacity": "no-capacity", "place or capacity": "no-capacity"}


def cause_of(seen: Seen, clouds: Iterable[Cloud] = ()) -> str:
    """Return the key of what something shows, also by the clouds' errors when machines do not start; empty for none."""
    if seen.cause:
        return seen.cause
    of_cloud = seen.kind in ("event", "autoscaler") and seen.name != "FailedCreate"
    for row in (row for cloud in clouds if of_cloud for row in cloud.launch_errors(seen.message)):
        if row["kind"] in _LAUNCH_KINDS:
            return _LAUNCH_KINDS[row["kind"]]
    return next((each.cause for each in SIGNALS if _shows(each, seen)), "")


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

    Args:
        seen: What is seen in the cluster.
        clouds: All clouds, for their errors.
        file: The stack file, for commands.
        pool_command: The cloud's command for node pools, where the next look is not in the cluster.
    """
    by_key: dict[str, list[Seen]] = {}
    for each in seen:
        by_key.setdefault(cause_of(each, clouds) or UNKNOWN, []).append(each)
    keys = [key for key in CAUSES if key in by_key]
    keys = [key for key in keys if CAUSES[key].cause != UNKNOWN] or keys
    words = {"file": quote(file), "pool_command": pool_command}
    return [_finding(CAUSES[key], by_key[key], words) for key in keys if key != UNKNOWN or len(keys) == 1]


def _finding(cause: Cause, shown: list[Seen], words: Mapping[str, str]) -> Finding:
    first = shown[0]
    every = dict.fromkeys(f"{each.object}: {each.message}" for each in shown[:3])
    message = "; ".join(every) if cause.key == UNKNOWN else first.message
    kind, _, name = first.object.partition(" ")
    space, _, short = name.rpartition("/")
    target = ["kubectl", *(["-n", space] if space else [])]
    given = {"object": short, "message": message, "container": first.name}
    given = {**words, **{key: quote(value) for key, value in given.items()}, "kubectl": join(target)}
    is_there = kind not in ("Cluster", "Pool")
    given["describe"] = join([*target, "describe", kind.casefold(), short]) if is_there else words["pool_command"]
    is_log = kind == "Pod" and first.kind != "device"
    given["logs"] = join([*target, "logs", short, "--all-containers", "--tail=50"]) if is_log else given["describe"]
    command = cause.next.format(**given)
    return Finding(cause, first.object, message, first.since, command, len({each.object for each in shown}) - 1)
