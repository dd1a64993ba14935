"""Reads the user data of an EC2 machine: whether it joins a Kubernetes cluster, with which taints and GPU settings.

Knows `nodeadm` of Amazon Linux 2023 (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/), `bootstrap.sh` of
Amazon Linux 2 and `Start-EKSBootstrap.ps1` (awslabs/amazon-eks-ami, templates), Bottlerocket's settings
(https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/), `kubeadm join` and the agents of k3s and RKE2
(https://docs.k3s.io/cli/agent, https://docs.rke2.io/reference/linux_agent_config). Pure, and never raises.
"""

import base64
import binascii
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupools.base.errors import Rejected
from gpupools.base.taints import Effect, Taint
from gpupools.planned.pool_facts import SharingFacts
from gpupools.providers.aws.boot import BOTTLEROCKET_SHARING, MOST_USER_DATA
from gpupools.read.inputs import TaintsRead, at, flag, is_list, mapping, number, string_map, text

_MOST_UNPACKED = 256 * 1024
_MOST_VALUES = 10_000
_MOST_MULTIPARTS = 20  # Python's reader of them calls itself for each
_MOST_DOTS = 200  # in a line of TOML: tomllib needs the square of a key's parts

_MARKS = re.compile(r"bootstrap|nodeadm|node\.eks\.aws|kubelet|kubeadm|settings|k3s|rke2", re.IGNORECASE)
_BOOTSTRAP = re.compile(
    r"(?:/|\b)bootstrap\.sh['\"]?\s+\S|Start-EKSBootstrap|EKSBootstrapScriptFile|kubeadm\s+join\b|nodeadm\s+init\b"
    r"|\bK3S_URL=|\bk3s\s+agent\b|\brke2-agent\b|\bRKE2_URL="
)
_REGISTER = re.compile(r"--(?:register-with-taints|node-taint)(?:=|\s+)(\"[^\"]*\"|'[^']*'|[^\s\"'\\]+)")
# A comment at the end of a command too; what is in quotes is none.
_COMMENT = re.compile(r"('[^'\n]*'|\"[^\"\n]*\")|(?:^|(?<=[\s;]))#(?!!).*$", re.MULTILINE)
_NVIDIA = "settings.kubelet-device-plugins.nvidia"

KUBERNETES_EFFECTS: Mapping[str, Effect] = {effect.value: effect for effect in Effect}


@dataclass
class UserData:
    """What user data says."""

    joins: bool = False
    """True when it names the cluster that the machine joins."""
    taints: tuple[Taint, ...] = ()
    unknown: tuple[str, ...] = ()
    """Where it takes a taint from a variable."""
    not_counted: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    sharing: SharingFacts | None = None
    own_device_plugin: bool | None = None
    """Whether Bottlerocket's built-in device plugin is on; None for any other system."""


def read_user_data(given: str, path: str = "userData") -> UserData:
    """Read user data, plain or base64, gzipped or not, in one piece or as MIME parts.

    Args:
        given: The property's value.
        path: The property, for messages.
    """
    content = decoded(given)
    if not _MARKS.search(content):
        return UserData()
    if _is_too_large(given) or content.casefold().count("multipart/") > _MOST_MULTIPARTS:
        # No machine starts with too much, and what is not read may be the taint.
        return UserData(joins=True, unknown=(path,))
    found = UserData()
    configured, flagged = TaintsRead(), TaintsRead()
    for _, kind, part in parts(content):
        if kind == "toml":
            _bottlerocket(part, path, configured, found)
        elif kind == "nodeadm":
            _node_config(part, path, configured, flagged, found)
        else:
            script = _COMMENT.sub(_kept, part)
            found.joins = found.joins or bool(_BOOTSTRAP.search(script))
            kubelet_arguments(script, path, flagged)
    # The kubelet's argument replaces what its configuration file says.
    # https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/#kubelet-configuration-merging-order
    read = flagged if flagged.taints or flagged.unknown else configured
    found.taints, found.unknown = tuple(read.taints), tuple(read.unknown)
    found.not_counted = (*configured.not_counted, *flagged.not_counted)
    return found


def _kept(match: re.Match[str]) -> str:
    return match[1] or ""


def decoded(given: str) -> str:
    """Undo base64 and gzip, where user data is so encoded; what is beyond the limits is cut off."""
    raw = _without_base64(given[: 2 * _MOST_UNPACKED])
    if raw.startswith(b"\x1f\x8b"):
        try:
            raw = zlib.decompressobj(wbits=31).decompress(raw, _MOST_UNPACKED)
        except zlib.error:
            return given[:_MOST_UNPACKED]
    try:
        return raw[:_MOST_UNPACKED].decode()
    except UnicodeDecodeError:
        return given[:_MOST_UNPACKED]  # text that only looks like base64


def _without_base64(given: str) -> bytes:
    raw = given.encode(errors="replace")
    try:
        return base64.b64decode(b"".join(raw.split()), validate=True)
    except (binascii.Error, ValueError):
        return raw


def _is_too_large(given: str) -> bool:
    """Say whether user data has more bytes than EC2 takes, or unpacks to more than is read here."""
    raw = _without_base64(given)
    if len(raw) > MOST_USER_DATA:
        return True
    if not raw.startswith(b"\x1f\x8b"):
        return False
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacker.decompress(raw, _MOST_UNPACKED)
    except zlib.error:
        return False
    return bool(unpacker.unconsumed_tail)


def is_mime(raw: bytes) -> bool:
    """Say whether user data is in MIME parts, as EKS wants it for Amazon Linux."""
    from email import message_from_bytes  # slow to import and rarely needed

    message = message_from_bytes(raw.lstrip())
    return message.is_multipart() and any(not part.is_multipart() for part in message.walk())


_QUOTED_HEADER = re.compile(r"(?m)^[ \t]*\[+[^\]\n]*[\"'][^\]\n]*\]")


def toml_fault(raw: bytes) -> str:
    """Say why EKS cannot merge user data into that of Bottlerocket; empty where it can."""
    try:
        settings = tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        return "it is no text"
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return str(error) or "it is nested too deeply"
    if set(settings) - {"settings"}:
        return f"it has {', '.join(sorted(set(settings) - {'settings'}))[:60]} beside settings"
    if _QUOTED_HEADER.search(raw.decode()):
        return "a table's header has a quoted key, which EKS does not read; put that key below the header"
    return ""


def kubelet_arguments(script: str, path: str, read: TaintsRead) -> None:
    """Read `--register-with-taints=key=value:Effect,…` wherever a command or a list of arguments holds it."""
    for match in _REGISTER.finditer(script):
        for one in match[1].strip("\"'").split(","):
            if "$" in one or "{{" in one:
                read.unknown.append(path)  # a variable of the script
            elif one:
                read.line(one, f"{path} --register-with-taints")


def parts(content: str) -> Iterator[tuple[str, str, str]]:
    """Yield each part with its MIME type, empty outside of MIME, and `toml`, `nodeadm`, or empty for a script."""
    if re.match(r"(?i)\s*(?:mime-version|content-type)\s*:", content):
        from email import message_from_string  # slow to import and rarely needed

        for part in message_from_string(content.lstrip()).walk():
            if part.is_multipart():
                continue
            payload = part.get_payload(decode=True)
            body = payload.decode(errors="replace") if isinstance(payload, bytes) else ""
            yield part.get_content_type(), _kind(part.get_content_type(), body), body
    else:
        yield "", _kind("", content), content


def _kind(content_type: str, body: str) -> str:
    if content_type == "application/node.eks.aws" or _NODE_CONFIG.search(body):
        return "nodeadm"
    return "toml" if _SETTINGS.search(body) else ""


# Each part of a line is passed over in one way only: on blank lines \s* in a row would take the cube of their number.
_NODE_CONFIG = re.compile(r"(?m)^[ \t]*(?:[{,][ \t]*)?\"?apiVersion\"?:[ \t]*\"?node\.eks\.aws/")
_SETTINGS = re.compile(r"(?m)^[ \t]*(?:\[+[ \t]*\"?settings\b|settings\.)")


def _node_config(body: str, path: str, configured: TaintsRead, flagged: TaintsRead, found: UserData) -> None:
    from gpupools.base.bounded_yaml import parse_yaml  # only here: most user data is a script

    try:
        documents = [mapping(one.data) for one in parse_yaml(body, _MOST_VALUES)]
    except Rejected:
        # A script that writes the configuration itself: its arguments can be read, its text cannot.
        script = _COMMENT.sub(_kept, body)
        found.joins = found.joins or bool(_BOOTSTRAP.search(script))
        kubelet_arguments(script, path, flagged)
        return
    for document in documents:
        spec = at(document, "spec")
        # EKS writes the cluster's part for a managed node group without an image of its own.
        found.joins = found.joins or bool(at(spec, "cluster.name") or at(spec, "cluster.apiServerEndpoint"))
        node_options(spec, path, configured, flagged)


def node_options(spec: Any, path: str, configured: TaintsRead, flagged: TaintsRead) -> None:
    """Read the kubelet's configuration and arguments of a `NodeConfig`."""
    config = f"{path} spec.kubelet.config.registerWithTaints"
    configured.objects(at(spec, "kubelet.config.registerWithTaints"), config, KUBERNETES_EFFECTS)
    flags = at(spec, "kubelet.flags")
    if is_list(flags):
        kubelet_arguments("\n".join(text(one) for one in flags), f"{path} spec.kubelet.flags", flagged)


def _bottlerocket(body: str, path: str, read: TaintsRead, found: UserData) -> None:
    try:
        if any(line.count(".") > _MOST_DOTS for line in body.splitlines()):
            read.unknown.append(path)
            return
        settings = tomllib.loads(body)
    except (tomllib.TOMLDecodeError, RecursionError):
        read.note(f"{path}: no valid TOML, so Bottlerocket takes none of it")
        return
    bottlerocket_settings(settings, path, read, found)


def bottlerocket_settings(settings: Any, path: str, read: TaintsRead, found: UserData) -> None:
    """Read Bottlerocket's settings, parsed from TOML or given as a map.

    Args:
        settings: The whole document, with the key `settings`.
        path: The property, for messages.
        read: Takes the taints.
        found: Takes the rest.
    """
    kubernetes = mapping(at(settings, "settings.kubernetes"))
    found.joins = found.joins or bool(kubernetes.get("cluster-name") or kubernetes.get("api-server"))
    found.labels = string_map(kubernetes.get("node-labels"))
    for key, values in mapping(kubernetes.get("node-taints")).items():
        for value in values if is_list(values) else [values]:
            spelled = value if isinstance(value, str) else ""
            read.line(f"{key}={spelled}", f"{path} settings.kubernetes.node-taints")
    plugin = mapping(at(settings, _NVIDIA))
    found.own_device_plugin = flag(plugin.get("enabled")) is not False
    found.sharing = _sharing(plugin)


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
