"""Reads Bottlerocket's settings: the cluster its node joins, taints, labels and how it shares GPUs. Pure.

https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/
"""

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import UNKNOWN, SharingFacts
from gpupools.providers.aws.bootstrap import BOTTLEROCKET_SHARING
from gpupools.readback import kubelet
from gpupools.readback.inputs import TaintsRead, at, flag, is_list, mapping, number, string_map, text

_MOST_DOTS = 200  # in a line of TOML: tomllib needs the square of a key's parts
_NVIDIA = "settings.kubelet-device-plugins.nvidia"
_TAINT = re.compile(r"[A-Za-z0-9._-]{0,63}:[A-Za-z]+")


@dataclass
class Settings:
    """What settings say beside taints."""

    joins: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    sharing: SharingFacts | None = None
    own_device_plugin: bool | None = None
    """Whether the built-in device plugin is on; None where nothing could be read."""
    sets_by_command: bool = False
    """True when a bootstrap command may set the cluster or the taints."""


def parse_toml(body: str) -> JsonObject | None:
    """Parse settings in TOML; return None where they are not TOML that can be read in time."""
    if any(line.count(".") > _MOST_DOTS for line in body.splitlines()):
        return None
    with suppress(tomllib.TOMLDecodeError, RecursionError):
        return tomllib.loads(body)
    return None


def read_settings(document: Any, path: str, taints: TaintsRead) -> Settings:
    """Read settings.

    Args:
        document: Parsed from TOML or given as a map, with the key `settings`.
        path: The property, for messages.
        taints: Takes the taints.
    """
    kubernetes, plugin = mapping(at(document, "settings.kubernetes")), mapping(at(document, _NVIDIA))
    given, where = kubernetes.get("node-taints"), f"{path} settings.kubernetes.node-taints"
    pairs = [(key, one) for key, ones in mapping(given).items() for one in (ones if is_list(ones) else [ones])]
    wrong = [f"{key}: {shown(one)}" for key, one in pairs if not _TAINT.fullmatch(text(one))]
    if given is UNKNOWN or any(one is UNKNOWN for _, one in pairs):
        taints.unknown.append(where)
    elif wrong or not isinstance(given, Mapping | None):
        what = f"{wrong[0] if wrong else shown(given)} is not a value, a colon and an effect"
        taints.note(f"{where}: {what}, so Bottlerocket ignores all of its user data")
    else:
        kubelet.read_list(",".join(f"{key}={one}" for key, one in pairs), where, taints)
    named = kubernetes.get("cluster-name") or kubernetes.get("api-server")
    return Settings(
        joins=bool(named) and kubernetes.get("standalone-mode") is not True,
        labels=string_map(kubernetes.get("node-labels")),
        sharing=_sharing(plugin),
        own_device_plugin=flag(plugin.get("enabled")) is not False,
        sets_by_command="kubernetes" in str(at(document, "settings.bootstrap-commands")),
    )


def _sharing(plugin: JsonObject) -> SharingFacts | None:
    """Read how the device plugin shares: https://bottlerocket.dev/en/os/latest/api/settings/kubelet-device-plugins/."""
    has_slices = plugin.get("device-partitioning-strategy") == "mig"
    given = text(plugin.get("device-sharing-strategy"))
    mode = given if given in BOTTLEROCKET_SHARING else ""
    if not has_slices and not mode:
        return SharingFacts("none", said_by=_NVIDIA) if given == "none" else None
    clients = number(at(plugin, f"{mode}.replicas")) if mode else None
    profiles = dict.fromkeys(string_map(at(plugin, "mig.profile")).values())
    return SharingFacts(
        "+".join(part for part in ("mig-single" if has_slices else "", mode) if part),
        clients=2 if clients is None and mode else clients,  # the documented default
        profile=", ".join(profiles) if has_slices else "",
        said_by=_NVIDIA,
    )
