"""Read the taints that a kubelet registers, from its arguments and its configuration. Pure.

Follows `pkg/util/flag`, `pkg/util/taints` and `cmd/kubelet/app` of kubernetes/kubernetes at v1.34.1. With one invalid
taint in the list, the kubelet does not start, so none of them counts.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from gpupools.common.errors import shown
from gpupools.common.taints import KUBERNETES_EFFECTS, parse_taint
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.readback.inputs import TaintsRead, at, is_list, text

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
    for part in value.split(",") if value else ():
        if late and _LATE.search(part):
            read.unknown.append(late)
            continue
        if part.endswith("-"):
            continue
        try:
            taint = parse_taint(part)
        except ValueError as error:
            read.note(f"{where}: {error}")
            wrong = True
            continue
        if (taint.key, taint.effect) in seen:
            read.note(f"{where}: lists {taint.key} with {taint.effect.value} twice, which the kubelet rejects")
            wrong = True
        seen.add((taint.key, taint.effect))
        good.append(part)
    for one in () if wrong else good:
        read.line(one, where)


def configured(value: Any, where: str, read: TaintsRead) -> None:
    """Read `registerWithTaints` of a `KubeletConfiguration`; one invalid taint invalidates the list."""
    seen: set[tuple[str, str]] = set()
    wrong = False
    for number, one in enumerate(value if is_list(value) else ()):
        key, effect = text(at(one, "key")), text(at(one, "effect"))
        twice = f"{key} with {effect} is listed twice, which Kubernetes rejects" if (key, effect) in seen else ""
        if fault := _taint_error(one) or twice:
            read.note(f"{where}[{number}]: {fault}")
            wrong = True
        elif key and effect:  # both are known
            seen.add((key, effect))
    if not wrong:
        read.objects(value, where, KUBERNETES_EFFECTS)


def _taint_error(one: Any) -> str:
    """Return why the kubelet or Kubernetes rejects a taint; empty for a valid one."""
    if not isinstance(one, Mapping):
        return "" if one is UNKNOWN else f"{shown(one)} is not a taint"
    key, value, effect = one.get("key"), one.get("value"), one.get("effect")
    if UNKNOWN in (key, value, effect):
        return ""
    if not (isinstance(key, str) and isinstance(effect, str) and isinstance(value, str | None)):
        return "key, value and effect must be texts; put them in quotes"
    try:
        parse_taint(f"{key}={value or ''}:{effect}")
    except ValueError as error:
        return str(error)
    return "it sets timeAdded, which the kubelet rejects" if one.get("timeAdded") is not None else ""
