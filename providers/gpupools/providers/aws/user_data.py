"""Reads the user data of an EC2 machine as far as it has a schema: whether it joins a cluster, and with which taints.

Reads `NodeConfig` (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/), Bottlerocket's settings, and scripts
without branches, pipes or substitutions that call `bootstrap.sh`, `kubeadm join` or `nodeadm init` once. No other
script is evaluated. Pure, and never raises.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import Taint, repels_cpu_pods
from gpupools.plan.pool_facts import SharingFacts
from gpupools.providers.aws.bottlerocket import Settings, parse_toml, read_settings
from gpupools.providers.aws.user_data_checks import decode_user_data
from gpupools.readback import kubelet
from gpupools.readback.inputs import TaintsRead, at, is_list, text

_MIME = re.compile(r"\s*(?:mime-version|content-type)\s*:", re.IGNORECASE)
# https://github.com/canonical/cloud-init/blob/main/cloudinit/handlers/__init__.py, `INCLUSION_TYPES_MAP`
_CLOUD_INIT = re.compile(r"\s*#(?:!|include|cloud-|upstart-job|part-handler|# template:)")
_SHELL = re.compile(r"#![ \t]*(?:/usr)?/bin/(?:env[ \t]+)?(?:ba)?sh(?:[ \t]+-[a-z]+)*[ \t]*(?:\n|\Z)")
_CALL = re.compile(r"(?:sudo\s+)?(?:/etc/eks/bootstrap\.sh|(?:/usr/bin/)?(?:kubeadm\s+join|nodeadm\s+init))(?!\S)")
_UNREADABLE_SHELL = re.compile(
    r"[|;&`<()\r]|(?<!\$)\{|^\$|^(?:if|for|while|until|case|select|function|eval|source|exec|exit|return|trap|alias|xargs"
    r"|env|nohup|awk|perl|python[\d.]*|cfn-init|[!.]|(?:\S*/)?(?:ba|da|z|k)?sh)(?!\S)",
    re.MULTILINE,
)
_SELF_MANAGED = ("kubeadm", "k3s", "rke2", "k0s", "microk8s", "rancher", "nodeup")
_ABOUT_NODES = ("taint", "bootstrap", "kube", "nodeadm", "k3s", "rke2", "k0s", "microk8s", "rancher")
_HARMLESS_KEYS = {"package_update", "package_upgrade", "runcmd", "ssh_authorized_keys", "write_files"}


@dataclass
class UserData:
    """What user data says."""

    joins: bool = False
    """True when it names the cluster that the machine joins, or is about nodes in a form that is not evaluated."""
    taints: tuple[Taint, ...] = ()
    unknown: tuple[str, ...] = ()
    """The property, where it may set taints in a way that gpupools does not read."""
    not_counted: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    self_managed: bool = False
    """True when it joins, or may join, without EKS, which no node of a managed node group does."""
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


class _UserDataReader:
    """User data while it is read, part by part."""

    def __init__(self, path: str) -> None:
        self.path, self.found, self.declared = path, UserData(), TaintsRead()
        self.lines: list[str] = []  # of all scripts, in order
        self.config, self.flags = JsonDict(), list[str]()
        self.cloud_configs, self.is_foreign, self.bodies = 0, False, list[str]()

    def part(self, mime: str, body: str) -> None:
        what = part_format(mime, body)
        self.bodies.append(body)
        self.is_foreign |= not (mime or what)  # of another system than those that EKS has images of
        if what == "Bottlerocket":
            self._bottlerocket(parse_toml(body))
        elif what:
            {"script": self._script, "cloud-config": self._cloud_config, "NodeConfig": self._node_config}[what](body)
        self.found.unevaluated |= not what

    def _script(self, body: str) -> None:
        lines = (line.strip() for line in body.replace("\\\n", " ").split("\n"))
        self.lines += [line for line in lines if line and not line.startswith("#")]

    def _cloud_config(self, body: str) -> None:
        document = self._document(body)
        files, commands = at(document, "write_files") or [], at(document, "runcmd") or []
        self.cloud_configs += 1
        is_known = isinstance(document, Mapping) and not set(document) - _HARMLESS_KEYS and self.cloud_configs == 1
        if not (is_known and is_list(files) and is_list(commands)):
            self.found.unevaluated = True  # the machine decides how several of them merge
            return
        run = "\n".join(shlex.join(map(str, one)) if is_list(one) else text(one) for one in commands)
        for one in files:
            path, content, encoding = (text(at(one, key)) for key in ("path", "content", "encoding"))
            content = (
                (decode_user_data(content) or "") if encoding in ("b64", "base64") else "" if encoding else content
            )
            if _SHELL.match(content) and path in run and not set(one) & {"append", "defer"}:
                self._script(content)
            elif not path.startswith("/etc/eks/nodeadm.d/") or not content or "taint" in content.casefold():
                self.found.unevaluated = True
        self._script(run)

    def _document(self, body: str) -> Any:
        with suppress(Rejected, ValueError):
            (found,) = parse_yaml(body, 10_000, unique=True)
            return found.data

    def _node_config(self, body: str) -> None:
        document = self._document(body)
        spec, named = at(document, "spec"), (at(document, "apiVersion"), at(document, "kind"))
        config, flags = at(spec, "kubelet.config") or {}, at(spec, "kubelet.flags") or []
        if named != ("node.eks.aws/v1alpha1", "NodeConfig") or not isinstance(config, Mapping) or not is_list(flags):
            self.found.unevaluated = True
            return
        self.config.update(config)
        self.flags += map(text, flags)
        self.found.joins |= bool(at(spec, "cluster.name") or at(spec, "cluster.apiServerEndpoint"))

    def _bottlerocket(self, document: JsonObject | None) -> None:
        said = Settings(sets_by_command=True) if document is None else read_settings(document, self.path, self.declared)
        self.found.unevaluated |= said.sets_by_command
        self.found.joins, self.found.labels = said.joins, said.labels
        self.found.sharing, self.found.own_device_plugin = said.sharing, said.own_device_plugin

    def _node_config_taints(self) -> None:
        """Read what all NodeConfigs say together: later settings replace earlier ones, and a flag replaces both."""
        words, where = kubelet.words(self.flags), f"{self.path} spec.kubelet"
        argument = kubelet.last(kubelet.FLAG, words)
        if argument is not None:
            kubelet.read_list(argument, f"{where}.flags", self.declared, late=self.path)
        elif kubelet.last(kubelet.DROP_INS, words) is not None:
            self.found.unevaluated = True  # the kubelet reads another configuration than this one
        else:
            taints = kubelet.of_drop_in(self.config)
            kubelet.configured(taints, f"{where}.config.registerWithTaints", self.declared)

    def _join_call(self) -> TaintsRead | None:
        """Read the call that joins; None unless it is the only one, in scripts in which it certainly runs."""
        calls = [line for line in self.lines if _CALL.match(line)]
        others = [line for line in self.lines if not _CALL.match(line)]
        if len(calls) != 1 or _UNREADABLE_SHELL.search("\n".join(self.lines)) or _mentions(_ABOUT_NODES, others):
            return None
        try:
            words = [shlex.split(line, comments=True) for line in (*others, calls[0])][-1]
        except ValueError:  # a quote that does not end
            return None
        _, *words = words[words[0] == "sudo" :]
        is_init, read = words[:1] == ["init"], TaintsRead()
        self.found.self_managed = words[:1] == ["join"]
        if self.found.joins != is_init:
            return None  # `nodeadm init` reads the NodeConfigs; any other call beside them is a second one
        extra = words.index("--kubelet-extra-args") if "--kubelet-extra-args" in words else len(words)
        arguments = kubelet.words(words[extra + 1 : extra + 2])
        kubelet.read_list(kubelet.last(kubelet.FLAG, arguments) or "", f"{self.path} --{kubelet.FLAG}", read)
        del words[extra : extra + 2]
        names = [word for before, word in pairwise(["", *words]) if word[:1] not in ("", "-") and before[:2] != "--"]
        may_say_more = "$" in "".join([*arguments, *names[1:]])
        if not names or may_say_more or any(part in word for word in words for part in ("taint", "config", "--kube")):
            return None
        return read if not is_init else self.declared if words == ["init"] else None

    def result(self) -> UserData:
        """Return what was read, once every part was."""
        found, read = self.found, self.declared
        self._node_config_taints()
        is_declared = found.joins and not _mentions(_ABOUT_NODES, self.lines)
        called = self._join_call() if self.lines else read
        if called is None:
            found.unevaluated = True
        elif self.lines:
            read, found.joins = called, True
        found.taints = tuple(read.taints) if is_declared or not found.unevaluated else ()
        unread = [self.path] if found.unevaluated and not repels_cpu_pods(found.taints) else []
        found.unknown = tuple(dict.fromkeys([*read.unknown, *unread]))
        found.not_counted = tuple(read.not_counted)
        if found.unevaluated:
            found.joins |= self.is_foreign or _mentions(_ABOUT_NODES, self.bodies)
            found.self_managed |= self.is_foreign or _mentions(_SELF_MANAGED, self.bodies)
        return found


def _mentions(words: Iterable[str], texts: Iterable[str]) -> bool:
    given = "\n".join(texts).casefold()
    return any(each in given for each in words)
