"""Reads the user data of an EC2 machine as far as it has a schema: whether it joins a cluster, and with which taints.

Reads `NodeConfig` (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/), Bottlerocket's settings
(https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/), and scripts without branches, pipes or substitutions
that call `bootstrap.sh` once. No other script is evaluated. Also checks user data from overrides. Pure; never raises.
"""

import base64
import re
import shlex
import tomllib
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import GPU_TAINT, repels_cpu_pods
from gpupools.plan.pool_facts import UNKNOWN, SharingFacts
from gpupools.providers.aws.bootstrap import BOTTLEROCKET_SHARING, MOST_USER_DATA
from gpupools.readback import kubelet
from gpupools.readback.inputs import TaintsRead, at, flag, is_list, mapping, number, string_map, text

_MIME = re.compile(r"\s*(?:mime-version|content-type)\s*:", re.IGNORECASE)
# https://github.com/canonical/cloud-init/blob/main/cloudinit/handlers/__init__.py, `INCLUSION_TYPES_MAP`
_CLOUD_INIT = re.compile(r"\s*#(?:!|include|cloud-|upstart-job|part-handler|# template:)")
_SHELL = re.compile(r"#![ \t]*(?:/usr)?/bin/(?:env[ \t]+)?(?:ba)?sh(?:[ \t]+-[a-z]+)*[ \t]*(?:\n|\Z)")
_CALL = re.compile(r"(?:sudo\s+)?/etc/eks/bootstrap\.sh(?!\S)")
_UNREADABLE_SHELL = re.compile(
    r"[|;&`<()\r]|(?<!\$)\{|^\$|^(?:if|for|while|until|case|select|function|eval|source|exec|exit|return|trap|alias|xargs"
    r"|env|nohup|awk|perl|python[\d.]*|cfn-init|[!.]|(?:\S*/)?(?:ba|da|z|k)?sh)(?!\S)",
    re.MULTILINE,
)
_SELF_MANAGED = ("kubeadm", "k3s", "rke2", "k0s", "microk8s", "rancher", "nodeup")
_ABOUT_NODES = ("taint", "bootstrap", "kube", "nodeadm", "k3s", "rke2", "k0s", "microk8s", "rancher")
_JOINS = ("bootstrap.sh", "eksbootstrap", "nodeadm", "kubelet", "node.eks.aws", *_SELF_MANAGED)
"""Words in scripts that make their machine a node."""
_HIDES = re.compile(r"base64|gz\+b64|gzip|cfn-init", re.IGNORECASE)
"""What is not readable where it stands."""
_MOST_DOTS = 200  # in a line of TOML: tomllib needs the square of a key's parts
_NVIDIA = "settings.kubelet-device-plugins.nvidia"
_TAINT = re.compile(r"[A-Za-z0-9._-]{0,63}:[A-Za-z]+")
_MOST_UNPACKED = 262_144
_QUOTED_HEADER = re.compile(r"(?m)^[ \t]*\[++[^\]\n\"']*[\"']")


@dataclass
class UserData(TaintsRead):
    """What user data says; `unknown` has the property where it may set taints in a way that gpupools does not read."""

    joins: bool = False
    """True when it names the cluster that the machine joins, or is about nodes in a form that is not evaluated."""
    labels: Mapping[str, str] = field(default_factory=dict)
    self_managed: bool = False
    """True when it may join without EKS, which no node of a managed node group does."""
    unevaluated: bool = False
    """True when a part of it is a script or a form that gpupools does not evaluate."""
    sharing: SharingFacts | None = None
    own_device_plugin: bool | None = None
    """Whether Bottlerocket's built-in device plugin is on; None for any other system."""


def read_user_data(given: str, path: str = "userData") -> UserData:
    """Return what user data says, plain or base64, gzipped or not, in one piece or as MIME parts.

    Args:
        given: The property's value.
        path: The property, for messages.
    """
    content = decode_user_data(given)
    readback = _UserDataReader(path)
    for mime, body in [("unreadable", "")] if content is None else mime_parts(content) if content.strip() else []:
        readback.part(mime, body)
    return readback.result()


def decode_user_data(given: str) -> str | None:
    """Return user data after base64 and gzip decoding, once each; None if it is no text or too large."""
    raw = given.encode(errors="replace")
    with suppress(ValueError):
        raw = base64.b64decode(b"".join(raw.split()), validate=True)
    try:
        if raw.startswith(b"\x1f\x8b") and len(raw) <= MOST_USER_DATA:
            unpacker = zlib.decompressobj(wbits=31)
            unpacked = unpacker.decompress(raw, _MOST_UNPACKED)
            return unpacked.decode() if unpacker.eof and not unpacker.unused_data else None
        return raw.decode() if len(raw) <= MOST_USER_DATA else None
    except (zlib.error, UnicodeDecodeError):
        return None


def mime_parts(content: str) -> list[tuple[str, str]]:
    """Return the MIME type and text of each part; the type is empty for user data that is not in MIME parts."""
    if not _MIME.match(content):
        return [("", content)]
    from email import message_from_bytes  # slow to import and rarely needed

    try:
        whole = message_from_bytes(content.lstrip().encode())
        leaves: Any = whole.get_payload() if whole.is_multipart() else [whole]
        return [(part.get_content_type(), part.get_payload(decode=True).decode(errors="replace")) for part in leaves]
    except (AttributeError, RecursionError, ValueError):  # a part in which there are more parts has no payload
        return [("unreadable", "")]


def part_format(mime: str, body: str) -> str:
    """Return `script`, `cloud-config`, `NodeConfig` or `Bottlerocket`; empty for a part of any other form."""
    if _SHELL.match(body):
        return "script" if mime in ("", "text/plain", "text/x-shellscript") else ""
    if body.lstrip().partition("\n")[0].rstrip() == "#cloud-config":
        return "cloud-config" if mime in ("", "text/plain", "text/cloud-config") else ""
    if _CLOUD_INIT.match(body):
        return ""
    if mime == "application/node.eks.aws" or (not mime and "node.eks.aws/" in body):
        return "NodeConfig"
    is_settings = any(line.lstrip().startswith(("[settings", "settings.")) for line in body.splitlines())
    return "Bottlerocket" if is_settings and not mime else ""


def makes_no_node(given: str) -> bool:
    """Return whether user data is scripts or cloud-config in which no word makes a node, as on a workstation."""
    parts = mime_parts(decode_user_data(given) or "")
    forms = {part_format(*part) or body.lstrip()[:12].casefold() for part in parts for body in part[1:]}
    is_plain = forms <= {"script", "cloud-config", "<powershell>"}
    return is_plain and not any(_mentions(_JOINS, [body]) or _is_hidden(body) for _, body in parts)


def _is_hidden(body: str) -> bool:
    """Return whether a part runs what does not stand in it; templates of CloudFormation have what cfn-init does."""
    words = {word.lower() for word in _HIDES.findall(body)}
    return bool(words - {"cfn-init"} if "AWS::CloudFormation::Init" in body else words)


class _UserDataReader:
    """User data while it is read, part by part."""

    def __init__(self, path: str) -> None:
        self.path, self.found = path, UserData()
        self.lines: list[str] = []  # of all scripts, in order
        self.config, self.flags = JsonDict(), list[str]()
        self.is_foreign, self.bodies, self.unread = False, list[str](), list[str]()

    def part(self, mime: str, body: str) -> None:
        what = part_format(mime, body)
        self.bodies.append(body)
        self.is_foreign |= not (mime or what)  # of another system than those that EKS has images of
        if what == "Bottlerocket" and (settings := parse_toml(body)) is not None:
            read_settings(settings, self.path, self.found)
        elif what == "script":
            lines = (line.strip() for line in body.replace("\\\n", " ").split("\n"))
            self.lines += [line for line in lines if line and not line.startswith("#")]
        elif what == "NodeConfig":
            self._node_config(body)
        else:
            self.unread.append(body)
            self.found.unevaluated = True

    def _node_config(self, body: str) -> None:
        document: Any = None
        with suppress(Rejected, ValueError):
            (parsed,) = parse_yaml(body, 10_000, unique=True)
            document = parsed.data
        spec, named = at(document, "spec"), (at(document, "apiVersion"), at(document, "kind"))
        config, flags = at(spec, "kubelet.config") or {}, at(spec, "kubelet.flags") or []
        if named != ("node.eks.aws/v1alpha1", "NodeConfig") or not isinstance(config, Mapping) or not is_list(flags):
            self.found.unevaluated = True
            return
        self.config.update((str(key).casefold(), value) for key, value in config.items())  # Go knows no case
        self.flags += map(text, flags)
        self.found.joins |= bool(at(spec, "cluster.name") or at(spec, "cluster.apiServerEndpoint"))

    def _node_config_taints(self) -> None:
        """Read what all NodeConfigs say together: later settings replace earlier ones, and a flag replaces both."""
        words, where = kubelet.words(self.flags), f"{self.path} spec.kubelet"
        argument = kubelet.last(kubelet.FLAG, words)
        if argument is not None:
            kubelet.read_list(argument, f"{where}.flags", self.found, late=self.path)
        elif kubelet.last(kubelet.DROP_INS, words) is not None:
            self.found.unevaluated = True  # the kubelet reads another configuration than this one
        else:
            kubelet.configured(self.config.get("registerwithtaints"), f"{where}.config.registerWithTaints", self.found)

    def _bootstrap_call(self) -> TaintsRead | None:
        """Read the call of bootstrap.sh; None unless it is the only one, in scripts in which it certainly runs."""
        calls = [line for line in self.lines if _CALL.match(line)]
        others = [line for line in self.lines if not _CALL.match(line)]
        is_clear = len(calls) == 1 and not _UNREADABLE_SHELL.search("\n".join(self.lines))
        if not is_clear or self.found.joins or _mentions(_ABOUT_NODES, others):
            return None
        try:
            words = [shlex.split(line, comments=True) for line in (*others, calls[0])][-1]
        except ValueError:  # a quote that does not end
            return None
        _, *words = words[words[0] == "sudo" :]
        read = TaintsRead()
        extra = words.index("--kubelet-extra-args") if "--kubelet-extra-args" in words else len(words)
        arguments = kubelet.words(words[extra + 1 : extra + 2])
        kubelet.read_list(kubelet.last(kubelet.FLAG, arguments) or "", f"{self.path} --{kubelet.FLAG}", read)
        del words[extra : extra + 2]
        names = [word for before, word in pairwise(["", *words]) if word[:1] not in ("", "-") and before[:2] != "--"]
        may_say_more = "$" in "".join([*arguments, *names[1:]])
        if not names or may_say_more or any(part in word for word in words for part in ("taint", "config", "--kube")):
            return None
        return read

    def result(self) -> UserData:
        """Return what was read, once every part was."""
        found = self.found
        self._node_config_taints()
        is_declared = found.joins and not _mentions(_ABOUT_NODES, [*self.lines, *self.unread])
        if self.lines:
            call = self._bootstrap_call()
            if call is None:
                found.unevaluated = True
            else:
                found.taints, found.unknown, found.not_counted = call.taints, call.unknown, call.not_counted
                found.joins = True
        if found.unevaluated and not is_declared:
            found.taints = []
        if found.unevaluated:
            found.unknown += [] if repels_cpu_pods(found.taints) or self.path in found.unknown else [self.path]
            found.joins |= self.is_foreign or _mentions(_ABOUT_NODES, self.bodies)
            found.self_managed = self.is_foreign or _mentions(_SELF_MANAGED, self.bodies)
        return found


def _mentions(words: Iterable[str], texts: Iterable[str]) -> bool:
    given = "\n".join(texts).casefold()
    return any(word in given for word in words)


def parse_toml(body: str) -> JsonObject | None:
    """Parse Bottlerocket's settings; return None where they are not TOML that can be read in time."""
    if any(line.count(".") > _MOST_DOTS for line in body.splitlines()):
        return None
    with suppress(tomllib.TOMLDecodeError, RecursionError):
        return tomllib.loads(body)
    return None


def read_settings(document: Any, path: str, found: UserData) -> None:
    """Read settings, parsed from TOML or given as a map, with the key `settings`; `path` is their property."""
    kubernetes, plugin = mapping(at(document, "settings.kubernetes")), mapping(at(document, _NVIDIA))
    given, where = kubernetes.get("node-taints"), f"{path} settings.kubernetes.node-taints"
    pairs = [(key, one) for key, ones in mapping(given).items() for one in (ones if is_list(ones) else [ones])]
    wrong = [f"{key}: {shown(one)}" for key, one in pairs if not _TAINT.fullmatch(text(one))]
    if given is UNKNOWN or any(one is UNKNOWN for _, one in pairs):
        found.unknown.append(where)
    elif wrong or not isinstance(given, Mapping | None):
        what = f"{wrong[0] if wrong else shown(given)} is not a value, a colon and an effect"
        found.note(f"{where}: {what}, so Bottlerocket ignores all of its user data")
    else:
        kubelet.read_list(",".join(f"{key}={one}" for key, one in pairs), where, found)
    named = kubernetes.get("cluster-name") or kubernetes.get("api-server")
    found.joins = bool(named) and kubernetes.get("standalone-mode") is not True
    found.labels, found.sharing = string_map(kubernetes.get("node-labels")), _sharing(plugin)
    found.own_device_plugin = flag(plugin.get("enabled")) is not False
    # A bootstrap command may set the cluster or the taints.
    found.unevaluated |= "kubernetes" in str(at(document, "settings.bootstrap-commands"))


def _sharing(plugin: JsonObject) -> SharingFacts | None:
    """Read how Bottlerocket's device plugin shares: https://bottlerocket.dev/en/os/latest/api/settings/kubelet-device-plugins/."""
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


def is_mime(raw: bytes) -> bool:
    """Return whether user data is multipart MIME, which EKS requires for Amazon Linux."""
    from email import message_from_bytes  # slow to import and rarely needed

    message = message_from_bytes(raw.lstrip())
    return message.is_multipart() and any(not part.is_multipart() for part in message.walk())


def toml_error(raw: bytes) -> str:
    """Return why EKS cannot merge user data into that of Bottlerocket; empty if it can."""
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


def mentions_taints(given: str) -> bool:
    """Return whether user data mentions a taint."""
    return "taint" in (decode_user_data(given) or "").casefold()


def registers_gpu_taint(given: str) -> bool:
    """Return whether user data sets the GPU taint, as an argument of the kubelet or as a setting, not in a comment."""
    lines = (decode_user_data(given) or "").splitlines()
    commands = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    is_set = "registerWithTaints" in commands or "node-taints" in commands
    return str(GPU_TAINT) in commands or (is_set and GPU_TAINT.key in commands)
