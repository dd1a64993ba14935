"""Reads which taints a kubelet registers its node with, from its arguments and its configuration. Pure.

After `pkg/util/flag`, `pkg/util/taints` and `cmd/kubelet/app` of kubernetes/kubernetes at v1.34.1. A list with one
wrong taint is no list of fewer taints: the kubelet does not start with it.
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
"""The flag that names the folder of what goes over the kubelet's configuration."""
_LATE = re.compile(r"\$|\{\{")


def words(flags: Iterable[str]) -> list[str]:
    """Split arguments as systemd does with what nodeadm writes into a file of variables, of which one is one line.

    https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Command%20lines
    """
    line = " ".join(flags).partition("\n")[0]
    try:
        return shlex.split(line)
    except ValueError:  # a quote that does not end
        return line.split()


def last(flag: str, arguments: Iterable[str]) -> str | None:
    """Return the value that a flag has in the end, which may be nothing; None where it is not given."""
    found, waiting = None, False
    for word in arguments:
        if waiting:
            found, waiting = word, False
            continue
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name.startswith("--") and name[2:].replace("_", "-") == flag:
            found, waiting = (value, False) if equals else (found, True)
    return found


def read_list(value: str, where: str, read: TaintsRead, late: str = "") -> None:
    """Read `key=value:Effect,…`; one that ends in `-` is passed over, as the kubelet does.

    Args:
        value: Of the flag.
        where: For messages.
        read: Takes the taints.
        late: What is unknown if one of them is a variable; empty where nothing replaces one.
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
            read.note(f"{where}: has {taint.key} with {taint.effect.value} twice, which the kubelet refuses")
            wrong = True
        seen.add((taint.key, taint.effect))
        good.append(one)
    for one in () if wrong else good:
        read.line(one, where)


def configured(value: Any, where: str, read: TaintsRead) -> None:
    """Read `registerWithTaints` of a `KubeletConfiguration`, of which one wrong taint is one too many."""
    trial = TaintsRead()
    trial.objects(value, where, KUBERNETES_EFFECTS)
    seen: set[tuple[str, str]] = set()
    wrong = value is not None and value is not UNKNOWN and not is_list(value)
    for number, one in enumerate(value if is_list(value) else ()):
        fault = _fault(one)
        name = (str(at(one, "key")), str(at(one, "effect")))
        if not fault and name in seen:
            fault = f"{name[0]} with {name[1]} stands there twice, which Kubernetes refuses"
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
    """Return `registerWithTaints` of a drop-in, of which Go takes the keys in any letters."""
    given = next((value for key, value in config.items() if str(key).lower() == _FIELD.lower()), None)
    if not isinstance(given, list):
        return given
    return [_known_keys(one) if isinstance(one, Mapping) else one for one in given]


_FIELD = "registerWithTaints"
_OF_A_TAINT = {name.lower(): name for name in ("key", "value", "effect", "timeAdded")}


def _known_keys(taint: JsonObject) -> JsonObject:
    return {_OF_A_TAINT.get(str(key).lower(), str(key)): value for key, value in taint.items()}


def _fault(one: Any) -> str:
    """Say why a kubelet does not start with a taint, or why Kubernetes refuses the node; empty for a good one."""
    if not isinstance(one, Mapping):
        return f"{shown(one)} is no taint"
    key, value, effect = one.get("key"), one.get("value"), one.get("effect")
    if UNKNOWN in (key, value, effect):
        return ""
    if not isinstance(effect, str) or effect not in KUBERNETES_EFFECTS:
        return f"effect {shown(effect)} is none"
    if not isinstance(key, str) or not QUALIFIED_NAME.fullmatch(key):
        return f"key {shown(key)} is no qualified name such as 'example.com/team'"
    if value is not None and not (isinstance(value, str) and LABEL_VALUE.fullmatch(value)):
        return f"value {shown(value)} is no text that a label may have; put it in quotes"
    return "it has timeAdded, which the kubelet refuses" if one.get("timeAdded") is not None else ""
