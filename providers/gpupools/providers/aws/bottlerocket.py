"""Reads the settings of Bottlerocket: whether its node joins a cluster, its taints, labels and how it shares GPUs.

After the models of bottlerocket-os/bottlerocket at f36b20a (`sources/models`) and early-boot-config of
bottlerocket-core-kit (https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/). A node takes all of its user
data or none: it does not start with one taint that is wrong. `tests/providers/test_nodes_read_the_same.py` compares
this with the real models. Pure, and never raises.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupools.base.errors import shown
from gpupools.planned.pool_facts import UNKNOWN, SharingFacts
from gpupools.providers.aws.boot import BOTTLEROCKET_SHARING
from gpupools.read import kubelet
from gpupools.read.inputs import TaintsRead, at, flag, is_list, mapping, number, string_map, text

_MOST_DOTS = 200  # in a line of TOML: tomllib needs the square of a key's parts
_NVIDIA = "settings.kubelet-device-plugins.nvidia"
_WORD = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[A-Za-z0-9.-]{{1,253}}/)?{_WORD}")
_TAINT = re.compile(rf"(?:{_WORD})?:[A-Za-z0-9]{{1,253}}")
# Of a call of apiclient: https://bottlerocket.dev/en/os/latest/api/settings/bootstrap-commands/.
_SETS_NODE = re.compile(r"kubernetes\W{1,9}(?:cluster-name|api-server|node-taints)")
_QUOTED_HEADER = re.compile(r"(?m)^[ \t]*\[+[^\]\n]*[\"'][^\]\n]*\]")


@dataclass
class Settings:
    """What settings say beside taints."""

    joins: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    sharing: SharingFacts | None = None
    own_device_plugin: bool | None = None
    """Whether the built-in device plugin is on; None where nothing could be read."""
    told_by_command: bool = False
    """True when a command says what cluster the node joins, or with which taints."""


def toml_fault(raw: bytes) -> str:
    """Say why EKS cannot merge user data into that of Bottlerocket; empty where it can."""
    try:
        settings = tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        return "it is no text"
    except tomllib.TOMLDecodeError as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    if set(settings) - {"settings"}:
        return f"it has {', '.join(sorted(set(settings) - {'settings'}))[:60]} beside settings"
    if _QUOTED_HEADER.search(raw.decode()):
        return "a table's header has a quoted key, which EKS does not read; put that key below the header"
    return ""


def read(body: str, path: str, taints: TaintsRead) -> Settings:
    """Read settings in TOML.

    Args:
        body: All of the user data.
        path: The property, for messages.
        taints: Takes them.
    """
    if any(line.count(".") > _MOST_DOTS for line in body.splitlines()):
        taints.unknown.append(path)  # what is not read may name the cluster and the taint
        return Settings(joins=True)
    try:
        document = tomllib.loads(body)
    except (tomllib.TOMLDecodeError, RecursionError):
        taints.note(f"{path}: no valid TOML, so Bottlerocket takes none of it")
        return Settings()
    return read_settings(document, path, taints)


def read_settings(document: Any, path: str, taints: TaintsRead) -> Settings:
    """Read settings, parsed from TOML or given as a map.

    Args:
        document: All of it, with the key `settings`.
        path: The property, for messages.
        taints: Takes them.
    """
    kubernetes = mapping(at(document, "settings.kubernetes"))
    where = f"{path} settings.kubernetes.node-taints"
    given = kubernetes.get("node-taints")
    late = given is UNKNOWN or any(UNKNOWN in (values, *_listed(values)) for values in mapping(given).values())
    faults = [] if late else [f"{where}: {fault}" for fault in _faults(given)]
    for fault in faults:
        taints.note(f"{fault}, so Bottlerocket takes none of its user data")
    if late:
        taints.unknown.append(where)
    elif not faults and given is not None:
        spelled = ",".join(f"{key}={one}" for key, values in given.items() for one in _listed(values))
        kubelet.read_list(spelled, where, taints)
    plugin = mapping(at(document, _NVIDIA))
    named = kubernetes.get("cluster-name") or kubernetes.get("api-server")
    told = _SETS_NODE.search(str(at(document, "settings.bootstrap-commands"))) is not None
    return Settings(
        joins=bool(named or told) and kubernetes.get("standalone-mode") is not True,
        labels=string_map(kubernetes.get("node-labels")),
        sharing=_sharing(plugin),
        own_device_plugin=flag(plugin.get("enabled")) is not False,
        told_by_command=told,
    )


def _faults(given: Any) -> Iterator[str]:
    """Say what the model of `node-taints` refuses: a text or a list with one at least for each key."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        yield f"{shown(given)} is no table of taints by their keys"
        return
    for key, values in given.items():
        if not _KEY.fullmatch(str(key)):
            yield f"{shown(key)} is no key of a taint"
        if not isinstance(values, str) and not (is_list(values) and values):
            yield f"{key}: {shown(values)} is neither a text nor a list with one"
            continue
        for one in _listed(values):
            if not isinstance(one, str) or not _TAINT.fullmatch(one):
                yield f"{key}: {shown(one)} is no value, a colon and an effect"


def _listed(values: Any) -> list[Any]:
    return list(values) if is_list(values) else [values]


def _sharing(plugin: Mapping[str, Any]) -> SharingFacts | None:
    """Read how Bottlerocket's plugin shares: https://bottlerocket.dev/en/os/latest/api/settings/kubelet-device-plugins/."""
    cut = plugin.get("device-partitioning-strategy") == "mig"
    way = text(plugin.get("device-sharing-strategy"))
    way = way if way in BOTTLEROCKET_SHARING else ""
    if not cut and not way:
        return SharingFacts("none", said_by=_NVIDIA) if plugin.get("device-sharing-strategy") == "none" else None
    profiles = string_map(at(plugin, "mig.profile"))
    clients = number(at(plugin, f"{way}.replicas")) if way else None
    return SharingFacts(
        "+".join(part for part in ("mig-single" if cut else "", way) if part),
        clients=clients if clients is not None or not way else 2,  # the documented default
        profile=", ".join(dict.fromkeys(profiles.values())) if cut else "",
        said_by=_NVIDIA,
    )
