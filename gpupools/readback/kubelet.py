"""Read the taints that a kubelet registers, from its arguments and its configuration. Pure.

Follows `pkg/util/flag`, `pkg/util/taints` and `cmd/kubelet/app` of kubernetes/kubernetes at v1.34.1. With one invalid
taint in the list, the kubelet does not start, so none of them counts.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import KUBERNETES_EFFECTS, LABEL_VALUE, QUALIFIED_NAME, parse_taint
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.readback.inputs import TaintsRead, at, is_list

FLAG = "register-with-taints"
DROP_INS = "config-dir"
"""The flag for the folder of drop-ins that override the kubelet's configuration."""
_LATE = re.compile(r"\$|\{\{")


def words(flags: Iterable[str]) -> list[str]:
    """Return the arguments as systemd splits the line that nodeadm writes to its environment file.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Command%20lines
    """
    line = " ".join(flags).partition("\n")[0]
    try:
        return shlex.split(line)
    except ValueError:  # an unclosed quote
        return line.split()


def last(flag: str, arguments: Iterable[str]) -> str | None:
    """Return the last value of a flag, which may be empty; None if the flag is not set."""
    result, waiting = None, False
    for word in arguments:
        if waiting:
            result, waiting = word, False
            continue
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name.startswith("--") and name[2:].replace("_", "-") == flag:
            result, waiting = (value, False) if equals else (result, True)
    return result


def read_list(value: str, where: str, read: TaintsRead, late: str = "") -> None:
    """Read `key=value:Effect,…`; entries that end in `-` are ignored, like in the kubelet.

    `late` is the path to record as unknown if a taint has a variable; empty if variables are not expanded.
    """
    good, wrong, seen = [], False, set()
    for one in value.split(",") if value else ():
        if late and _LATE.search(one):
            read.unknown.append(late)
            continue
        if one.endswith("-"):
            continue
        try:
            taint = parse_taint(one)
        except ValueError as error:
            read.note(f"{where}: {error}")
            wrong = True
            continue
        if (taint.key, taint.effect) in seen:
            read.note(f"{where}: lists {taint.key} with {taint.effect.value} twice, which the kubelet rejects")
            wrong = True
        seen.add((taint.key, taint.effect))
        good.append(one)
    for one in () if wrong else good:
        read.line(one, where)


def configured(value: Any, where: str, read: TaintsRead) -> None:
    """Read `registerWithTaints` of a `KubeletConfiguration`; one invalid taint invalidates the list."""
    trial = TaintsRead()
    trial.objects(value, where, KUBERNETES_EFFECTS)
    seen: set[tuple[str, str]] = set()
    wrong = value is not None and value is not UNKNOWN and not is_list(value)
    for number, one in enumerate(value if is_list(value) else ()):
        fault = _taint_error(one)
        name = (str(at(one, "key")), str(at(one, "effect")))
        if not fault and name in seen:
            fault = f"{name[0]} with {name[1]} is listed twice, which Kubernetes rejects"
        if not fault:
            seen.add(name)
            continue
        wrong = True
        if not any(note.startswith(f"{where}[{number}]:") for note in trial.not_counted):
            trial.note(f"{where}[{number}]: {fault}")
    for note in trial.not_counted:
        read.note(note)
    if not wrong:
        read.taints += trial.taints
        read.unknown += trial.unknown


def of_drop_in(config: JsonObject) -> Any:
    """Return `registerWithTaints` of a drop-in, whose keys are case-insensitive in Go."""
    taints = next((value for key, value in config.items() if str(key).lower() == _FIELD.lower()), None)
    if not isinstance(taints, list):
        return taints
    return [_canonical_keys(one) if isinstance(one, Mapping) else one for one in taints]


_FIELD = "registerWithTaints"
_TAINT_KEYS = {name.lower(): name for name in ("key", "value", "effect", "timeAdded")}


def _canonical_keys(taint: JsonObject) -> JsonObject:
    return {_TAINT_KEYS.get(str(key).lower(), str(key)): value for key, value in taint.items()}


def _taint_error(one: Any) -> str:
    """Return why the kubelet or Kubernetes rejects a taint; empty for a valid one."""
    if not isinstance(one, Mapping):
        return f"{shown(one)} is not a taint"
    key, value, effect = one.get("key"), one.get("value"), one.get("effect")
    if UNKNOWN in (key, value, effect):
        return ""
    if not isinstance(effect, str) or effect not in KUBERNETES_EFFECTS:
        return f"effect {shown(effect)} is invalid"
    if not isinstance(key, str) or not QUALIFIED_NAME.fullmatch(key):
        return f"key {shown(key)} is not a qualified name such as 'example.com/team'"
    if value is not None and not (isinstance(value, str) and LABEL_VALUE.fullmatch(value)):
        return f"value {shown(value)} is not a valid label value; put it in quotes"
    return "it sets timeAdded, which the kubelet rejects" if one.get("timeAdded") is not None else ""
