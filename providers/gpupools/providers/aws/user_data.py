"""Reads the user data of an EC2 machine: whether it joins a Kubernetes cluster, with which taints and GPU settings.

Knows `nodeadm` of Amazon Linux 2023 (https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/), `bootstrap.sh` of
Amazon Linux 2 and `Start-EKSBootstrap.ps1` (awslabs/amazon-eks-ami, templates), Bottlerocket's settings
(https://bottlerocket.dev/en/os/latest/api/settings/kubernetes/), `kubeadm join`, the agents of k3s and RKE2
(https://docs.k3s.io/cli/agent, https://docs.rke2.io/reference/linux_agent_config), of k0s, MicroK8s and Rancher, Talos,
`nodeup` of kOps and a bare kubelet. Pure, and never raises.
"""

import base64
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import unquote

from gpupools.base.errors import Rejected
from gpupools.base.taints import Taint, repels_cpu_pods
from gpupools.planned.pool_facts import SharingFacts
from gpupools.providers.aws import bottlerocket, nodeadm, rancher
from gpupools.providers.aws.cloud_init import (
    MOST_UNPACKED,
    Written,
    as_unicode,
    commands,
    encoded,
    files,
    gunzipped,
    is_mime_for_it,
    take,
)
from gpupools.providers.aws.containers import commands_of, commands_of_units, may_declare
from gpupools.providers.aws.decoding import (
    GZIP,
    decoded,
    is_broken,
    is_no_text,
    is_too_large,
    unzipped,
    without_base64,
)
from gpupools.providers.aws.fetched import OF_LOGIN, may_make_a_node
from gpupools.providers.aws.joining import joining, starts_kubelet
from gpupools.read import kubelet
from gpupools.read.inputs import TaintsRead, at, is_list, string_map, text
from gpupools.read.packed import applies_packed, packed_inside, unpacked

_MOST_VALUES = 10_000
_MOST_MULTIPARTS = 20  # Python's reader of them calls itself for each

_MARKS = re.compile(
    r"bootstrap|nodeadm|node\.eks\.aws|kubelet|kubeadm|settings|k3s|rke2|k0s|microk8s|rancher|nodeup|(?m:^machine:)",
    re.IGNORECASE,
)
# Of what takes taints as `--taints`.
_OWN_TAINTS = re.compile(r"--(?P<name>taints)" + kubelet.VALUE)
# https://docs.cloud-init.io/en/latest/reference/modules.html: what these set up may be a node.
_CONFIGURED_BY = ("ansible.pull", "ansible.setup_controller.run_ansible", "chef", "puppet", "salt_minion")
_HEREDOC = re.compile(
    r"<<-?[ \t]*[\"'\\]?(?P<end>\w{1,60})[\"']?[^\n]*\n(?P<body>.*?)(?:^[ \t]*(?P=end)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_MOST_HEREDOCS = 50
_BRACES = re.compile(r"'(\{[^'\n]{1,4000}\})'")
# Of an ELF program in base64: https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html.
_PROGRAM = re.compile(r"(?<![\w+/])f0VMR[gi][A-Za-z0-9+/]{20}")
_TALOS = re.compile(r"(?m)\A(?=[\s\S]{0,20000}?^version:\s*[\"']?v1alpha1)[\s\S]{0,20000}?^machine:")
_MENTIONS = re.compile(r"registerWithTaints|register[-_]with[-_]taints|node-taint|\btaints?\b", re.IGNORECASE)
# What a configuration runs beside its lists of commands: `config/cc_*.py` of canonical/cloud-init.
_ALSO_RUN = (
    *("random_seed.command", "rsyslog.service_reload_command", "wireguard.readinessprobe"),
    *("output.all", "output.init", "output.config", "output.final"),
    *("autoinstall.early-commands", "autoinstall.late-commands"),  # of Ubuntu's installer
)
# Of systems that take a configuration like cloud-init's, and with it the agent that joins:
# https://kairos.io/docs/reference/configuration/, https://github.com/rancher/k3os#configuration-reference.
_AGENTS = ("k3s-agent.enabled", "k0s-worker.enabled", "k3os.server_url")
_OF_AGENTS = ("k3s-agent.args", "k0s-worker.args", "k3os.k3s_args")
_DEEPEST = 3
"""Parts inside parts that nobody takes."""
_SERVER = re.compile(r"(?m)^[\"']?server[\"']?[ \t]*:")
_CLUSTER = re.compile(r"\bcluster\b[\"']?\s*:[\s\S]{0,200}?\b(?:name|apiServerEndpoint)\b[\"']?\s*:")
# Of nodeadm's drop-ins, and of Amazon Linux 2: awslabs/amazon-eks-ami, nodeadm/internal/kubelet and templates/al2.
_READ_BY_KUBELET = re.compile(r"/etc/kubernetes/kubelet/(?:config\.json\.d/[^/]+\.conf|kubelet-config\.json)")
_OBJECT = re.compile(r"[\"']?(?:apiVersion|kind)[\"']?\s*:")
# A comment at the end of a command too; what is in quotes is none.
_COMMENT = re.compile(r"('[^'\n]*'|\"[^\"\n]*\")|(?:^|(?<=[\s;]))#(?!!).*$", re.MULTILINE)
_MOST_PACKED = 20
"""Texts that are packed in scripts."""


@dataclass
class UserData:
    """What user data says."""

    joins: bool = False
    """True when it names the cluster that the machine joins."""
    taints: tuple[Taint, ...] = ()
    unknown: tuple[str, ...] = ()
    """The property, where it gives a taint in a way that cannot be read, such as a variable or a heredoc."""
    not_counted: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    self_managed: bool = False
    """True when it joins by itself (kubeadm, k3s, RKE2), which no node of a managed group of EKS does."""
    may_join: bool = False
    """True when it runs what is not here and may make it a node."""
    opaque: bool = False
    """True when a part of it is not here, such as a script from an address."""
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
    if is_too_large(given) or content.casefold().count("multipart/") > _MOST_MULTIPARTS:
        # No machine starts with too much, and what is not read may be the taint.
        return UserData(joins=True, unknown=(path,)) if _MARKS.search(content) else UserData()
    reading = _Reading(path)
    reading.read(content)
    reading.found.opaque = reading.found.opaque or is_no_text(given)
    return reading.result()


class _Reading:
    """User data while it is read, part by part."""

    def __init__(self, path: str, deep: int = 0) -> None:
        self.path = path
        self.deep = deep
        self.found = UserData()
        self.configured, self.flagged = TaintsRead(), TaintsRead()
        self.flag_counts = False
        """The kubelet's argument is given, though it may name no taint."""
        self.mentions = False
        """A taint is spoken of in a way that only running it would tell."""
        self.scripts: list[str] = []
        """What runs, in this order, without comments."""
        self.at_login: list[str] = []
        """The same of files that shells read when somebody logs in."""
        self.written: list[str] = []
        """Paths of files."""
        self.binaries: list[str] = []
        """Files that are no text."""
        self.left = MOST_UNPACKED
        self.packed = _MOST_PACKED
        self.kubelets: list[tuple[str, Any]] = []
        """Paths of files of the kubelet's configuration, with their taints."""
        self.agents: dict[str, dict[str, Any]] = {}
        """Files of agents of k3s and RKE2, by product and path."""
        self.passed_over: list[str] = []
        """Parts that no program of a node takes."""
        self.doubtful = False
        """Only the machine knows what it takes."""

    def result(self) -> UserData:
        """Return what was read, once every part was."""
        # The kubelet's argument replaces what its configuration file says.
        # https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/#kubelet-configuration-merging-order
        for files_of_one in self.agents.values():
            self._agent(rancher.merged(files_of_one))
        self._configured()
        flagged = self.flag_counts or self.flagged.taints or self.flagged.unknown
        read = self.flagged if flagged else self.configured
        found = self.found
        for body in self.passed_over if self.deep < _DEEPEST else ():
            self._take_no_taints(body)
        found.may_join = found.may_join or (not found.joins and self._may_make_a_node())
        found.taints, unknown = tuple(read.taints), [*read.unknown]
        if found.joins:
            found.may_join = False  # it says by itself how, and with which taints
        found.opaque = found.opaque or found.may_join
        if self.doubtful and (found.joins or found.taints):
            found.opaque, found.taints, self.mentions = True, (), True
        if (self.mentions or (found.opaque and found.joins)) and not repels_cpu_pods(found.taints):
            unknown.append(self.path)
        found.unknown = tuple(dict.fromkeys(unknown))
        found.not_counted = (*self.configured.not_counted, *self.flagged.not_counted)
        return found

    def _may_make_a_node(self) -> bool:
        scripts = "\n".join(self.scripts)
        if starts_kubelet(scripts, "\n".join(self.written)):
            return True
        return may_make_a_node(scripts, "\n".join(self.at_login), self.binaries)

    def read(self, content: str) -> None:
        """Read all of it, as cloud-init and nodeadm would take it, or the one reader of another system."""
        taken, whole = take(content), not _is_in_parts(content)
        self.doubtful = taken.doubtful
        self.found.opaque = self.found.opaque or taken.remote
        for script in taken.scripts:
            self._script(script)
        if taken.config:
            self._cloud_config(taken.config)
        passed_over = taken.passed_over
        if whole and len(passed_over) == 1 and not taken.scripts and not taken.config:
            self._other_system(content)
            return
        beside = [] if whole else self._parts_of_nodeadm(content)
        if not whole and not is_mime_for_it(content):
            # Nobody says that EKS, which merges parts into its own, wants the version as well.
            passed_over = [("", f"MIME-Version: 1.0\n{content.lstrip()}")]
        self.passed_over += [*beside, *(body for mime, body in passed_over if mime != nodeadm.MIME)]

    def _other_system(self, body: str) -> None:
        """Read what one program takes as a whole; what none does is looked at like a script."""
        self.found.opaque = self.found.opaque or is_broken(body)
        body, kind = body.lstrip(), _kind("", body)
        if kind == "toml":
            self._bottlerocket(body)
        elif kind == "nodeadm":
            self._node_config(body)
        elif body.startswith("{"):
            self._ignition(body)
        elif _TALOS.search(body):
            self._talos(body)
        else:
            self._script(body)

    def _bottlerocket(self, body: str) -> None:
        said, found = bottlerocket.read(body, self.path, self.flagged), self.found
        found.joins, found.labels = found.joins or said.joins, said.labels
        found.opaque = found.opaque or said.told_by_command
        found.own_device_plugin, found.sharing = said.own_device_plugin, said.sharing

    def _take_no_taints(self, body: str) -> None:
        """Read a part that nobody takes: should it name a cluster after all, its taints are not told of."""
        other = _Reading(self.path, self.deep + 1)
        other.read(unzipped(encoded(body)))
        said = other.result()
        found = self.found
        found.joins, found.opaque = found.joins or said.joins, found.opaque or said.opaque
        found.may_join, found.self_managed = found.may_join or said.may_join, found.self_managed or said.self_managed
        if said.taints or said.not_counted:
            self.configured.note(f"{self.path}: has taints in a part that neither cloud-init nor nodeadm takes")

    def _script(self, text_: str) -> None:
        bare = _COMMENT.sub(_kept, text_)
        self._commands(bare)
        self._declared_inside(bare)
        unpacked_here = False
        for one in packed_inside(text_) if self.packed else ():
            unpacked_here = True
            if one.opaque:
                self.found.opaque = True
                self.found.may_join = self.found.may_join or applies_packed(text_)  # it may be what makes it a node
            elif one.text:
                self.packed -= 1
                self._file("", one.text)
        if _PROGRAM.search(bare) or (not unpacked_here and applies_packed(text_)):
            self.found.may_join = True  # it brings a program and runs it

    def _declared_inside(self, script: str) -> None:
        """Read the containers that files in a script declare, and what it sends to the API of Docker."""
        if not may_declare(script):
            return
        bodies = [match["body"] for match in islice(_HEREDOC.finditer(script), _MOST_HEREDOCS)]
        bodies += [match[1] for match in islice(_BRACES.finditer(script), _MOST_HEREDOCS)]
        for body in bodies:
            self._containers(body, self._documents(body) if may_declare(body) else [])

    def _containers(self, content: str, documents: list[Any]) -> None:
        self.scripts += [*(one for document in documents for one in commands_of(document)), *commands_of_units(content)]

    def _commands(self, script: str) -> None:
        script = script.replace("\\\n", " ")
        said = joining(script)
        self.found.self_managed = self.found.self_managed or said.own
        self.found.joins = self.found.joins or said.joins
        self.found.may_join = self.found.may_join or said.may
        self.found.opaque = self.found.opaque or said.elsewhere
        self.scripts.append(script)
        kubelet.in_commands(script, self.path, self.flagged)
        if said.takes_taints:
            kubelet.in_commands(script, self.path, self.flagged, _OWN_TAINTS)
            script = _OWN_TAINTS.sub("", script)
        self.mentions = self.mentions or bool(_MENTIONS.search(kubelet.IN_COMMANDS.sub("", script)))

    def _cloud_config(self, document: Mapping[str, Any]) -> None:
        self.found.may_join = self.found.may_join or any(at(document, key) for key in _CONFIGURED_BY)
        self._listed(commands(document, "bootcmd"))
        for one in files(document):
            self._written_by(one)
        for key in _ALSO_RUN:
            self._listed(at(document, key))
        for one in self._rows(document, "mounts"):  # a device, a folder and the kind of its file system
            device, folder, kind = (*map(text, one), "", "", "")[:3] if is_list(one) else ("", "", "")
            self.scripts.append(f"mount -t {kind or 'auto'} {device} {folder}")
        for unit in self._rows(document, "coreos.units"):
            # https://github.com/flatcar/coreos-cloudinit/blob/flatcar-master/Documentation/cloud-config.md
            for each in (unit, *self._rows(unit, "drop-ins")):
                self._script(text(at(each, "content")))
        if any(at(document, key) for key in _AGENTS):
            self.found.joins = self.found.self_managed = True
            self._lines([text(one) for one in self._rows(document, "k3os.taints")], "k3os.taints")
            words = (text(one) for key in _OF_AGENTS for one in self._rows(document, key))
            kubelet.in_commands(" ".join(words), self.path, self.flagged)
        disks = at(document, "fs_setup")
        self._listed([text(at(one, "cmd")) for one in disks] if is_list(disks) else "")
        packages = at(document, "packages")
        for names in packages.values() if isinstance(packages, Mapping) else (packages,):
            # each a name, or a list of a name and a version
            given = [one[0] if is_list(one) and one else one for one in names] if is_list(names) else []
            self.scripts.append(f"apt-get install {' '.join(map(text, given))}")
        self._listed(at(document, "snap.commands"))
        self._listed(commands(document, "runcmd"))  # the last but one: config/cloud.cfg.tmpl of canonical/cloud-init
        condition = at(document, "power_state.condition")
        self._listed([condition] if is_list(condition) else condition)  # a list is one command

    @staticmethod
    def _rows(document: Any, path: str) -> Sequence[Any]:
        found = at(document, path)
        return found if is_list(found) else ()

    def _written_by(self, one: Written) -> None:
        """Read a file of `write_files`, whose content may come from an address."""
        if one.address:
            self.scripts.append(f"curl -o {one.path} {one.address}")
        self.found.opaque = self.found.opaque or one.cut
        self._bytes_written(one.path, one.content)

    def _listed(self, given: Any) -> None:
        """Read commands in a list, or as values of a map, each as text or as words."""
        if isinstance(given, Mapping):
            given = list(given.values())
        for command in given if is_list(given) else [given]:
            if is_list(command):  # words that no shell takes apart, so there is no comment among them
                self._commands(" ".join(str(word) for word in command))
            else:
                self._script(text(command))

    def _talos(self, body: str) -> None:
        """Read the configuration of a machine of Talos.

        https://docs.siderolabs.com/talos/latest/reference/configuration/v1alpha1/config
        """
        for document in self._documents(body):
            if at(document, "machine.type") != "worker":
                continue
            self.found.joins = self.found.self_managed = True
            given = string_map(at(document, "machine.nodeTaints"))
            self._lines([f"{key}={value}" for key, value in given.items()], "machine.nodeTaints")
            extra = text(at(document, "machine.kubelet.extraArgs.register-with-taints"))
            self._lines(extra.split(","), "machine.kubelet.extraArgs")

    def _ignition(self, body: str) -> None:
        """Read Ignition's configuration, of Flatcar and Fedora CoreOS: https://coreos.github.io/ignition/specs/."""
        document = next(iter(self._documents(body)), None)
        if not isinstance(at(document, "ignition"), Mapping):
            self._script(body)
            return
        if at(document, "ignition.config.replace.source") or at(document, "ignition.config.merge"):
            self.found.opaque = True
        files, units = at(document, "storage.files"), at(document, "systemd.units")
        for one in files if is_list(files) else []:
            source = text(at(one, "contents.source"))
            head, comma, data = source.partition(",")
            if source and not (comma and head.startswith("data:")):
                self.found.opaque = True
                continue
            encoding = "base64" if head.endswith(";base64") else ""
            gzipped = "+gzip" if at(one, "contents.compression") == "gzip" else ""
            self._written(text(at(one, "path")), data if encoding else unquote(data), encoding + gzipped)
        for one in units if is_list(units) else []:
            dropins = at(one, "dropins")
            for unit in (one, *(dropins if is_list(dropins) else ())):
                self._script(text(at(unit, "contents")))

    def _written(self, path: str, given: str, encoding: str) -> None:
        """Read a file as it is given; of an archive or what is packed once more the scripts in it."""
        self._bytes_written(path, self._unpacked(given, encoding))

    def _bytes_written(self, path: str, raw: bytes) -> None:
        try:
            self._file(path, raw.decode())
        except UnicodeDecodeError:
            self.binaries.append(path)
            for one in unpacked(base64.b64encode(raw).decode(), encoded=True):
                self.found.opaque = self.found.opaque or bool(one.opaque)
                if one.text.startswith("#!"):
                    self._file(f"{path}{one.path}", one.text)

    def _file(self, path: str, content: str) -> None:
        """Read a file that user data writes, for what will find it there."""
        self.written.append(path)
        before = len(self.scripts)
        self._content(path, content)
        if OF_LOGIN.search(path):
            self.at_login += self.scripts[before:]
            del self.scripts[before:]

    def _content(self, path: str, content: str) -> None:
        if content.startswith("#!"):
            self._script(content)
            return
        agent = rancher.CONFIG.fullmatch(path)
        if agent is not None:
            self._of_agent(path, agent["product"], content)
            return
        declares = may_declare(content)
        known = self._documents(content) if declares or _OBJECT.search(content) else []
        if declares:
            self._containers(content, known)
        for document in known:
            kind, version = at(document, "kind"), text(at(document, "apiVersion"))
            if version.startswith("node.eks.aws/"):
                self._node_config(content)
                return
            if version.startswith("kubeadm.k8s.io/") and kind == "JoinConfiguration":
                self._kubeadm(at(document, "nodeRegistration"))
            elif kind == "KubeletConfiguration":
                self._kubelet(path, document, known)
        if not known:
            self._script(content)

    def _kubelet(self, path: str, document: Any, beside: list[Any]) -> None:
        """Keep the kubelet's configuration, which `kubeadm join` takes from the cluster and not from its own file."""
        taints = at(document, "registerWithTaints")
        if not any(text(at(one, "apiVersion")).startswith("kubeadm.k8s.io/") for one in beside):
            self.kubelets.append((path, taints))
        elif taints:
            where = f"{self.path} registerWithTaints"
            self.configured.note(f"{where}: kubeadm join reads no KubeletConfiguration; write nodeRegistration.taints")

    def _configured(self) -> None:
        """Read the kubelet's configurations where something says that it reads the file."""
        said = "\n".join([*self.scripts, *map(str, self.agents.values())])
        for path, taints in self.kubelets:
            if path and (_READ_BY_KUBELET.fullmatch(path) or path in said):
                kubelet.configured(taints, f"{self.path} registerWithTaints", self.configured)
            else:
                self.mentions = self.mentions or bool(taints)

    def _of_agent(self, path: str, product: str, content: str) -> None:
        """Keep a file of an agent of k3s or RKE2, which others may change: https://docs.k3s.io/installation/configuration."""
        known = self._documents(content)
        if known:
            self.agents.setdefault(product, {})[path] = known[0]
            return
        self._script(content)
        if _SERVER.search(content):  # a template, or no YAML at all
            self.found.joins = self.found.self_managed = self.found.opaque = True

    def _agent(self, config: Mapping[str, Any]) -> None:
        if config.get("server"):
            self.found.joins = self.found.self_managed = True
        given = rancher.register_with_taints(config)
        if given is not None:
            kubelet.read_list(given, f"{self.path} node-taint", self.flagged, late=self.path)

    def _kubeadm(self, registration: Any) -> None:
        """Read how kubeadm registers a node: https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/."""
        self.found.joins = self.found.self_managed = True
        extra = kubelet.last(kubelet.FLAG, kubelet.of_kubeadm(at(registration, "kubeletExtraArgs")))
        if extra is None:
            kubelet.configured(at(registration, "taints"), f"{self.path} nodeRegistration.taints", self.flagged)
            return
        self.flag_counts = True  # it goes over the taints
        where = f"{self.path} nodeRegistration.kubeletExtraArgs"
        kubelet.read_list(extra, where, self.flagged, late=self.path)

    def _lines(self, taints: list[str], where: str) -> None:
        for one in filter(None, taints):
            if "$" in one or "{{" in one:
                self.flagged.unknown.append(self.path)
            else:
                self.flagged.line(one, f"{self.path} {where}")

    def _parts_of_nodeadm(self, content: str) -> list[str]:
        """Read the NodeConfigs in MIME parts, and return those that nodeadm does not take."""
        content = nodeadm.with_headers(content)
        given = [body for mime, _, body in parts(content) if mime == nodeadm.MIME]
        if not given:
            return []
        try:
            taken = nodeadm.bodies(content)
            self._node_configs(taken)
        except nodeadm.Refused as fault:
            self._refused(fault, given)
            return []
        stripped = {body.strip() for body in taken}
        return [body for body in given if body.strip() not in stripped]

    def _node_config(self, body: str) -> None:
        try:
            self._node_configs([body])
        except nodeadm.Refused as fault:
            self._refused(fault, [body])

    def _refused(self, fault: nodeadm.Refused, bodies: list[str]) -> None:
        """Say so where it matters; another version of nodeadm may take them after all, and join."""
        for body in bodies:
            named = [nodeadm.names_cluster(at(document, "spec")) for document in self._documents(body)]
            self.found.joins = self.found.joins or any(named)
        if any(_MENTIONS.search(body) for body in bodies):
            self.configured.note(f"{self.path}: {fault}, so nodeadm takes none of it and no node joins")

    def _node_configs(self, bodies: list[str]) -> None:
        """Read what all of them make together.

        Raises:
            nodeadm.Refused: Nodeadm takes none of them.
        """
        try:
            made = nodeadm.merged(bodies)
        except nodeadm.Unreadable:
            for body in bodies:  # a template: its arguments can be read, its text cannot
                self._script(body)
                if _CLUSTER.search(body):
                    self.found.joins = self.found.opaque = True
            return
        # EKS writes the cluster's part for a managed node group without an image of its own.
        self.found.joins = self.found.joins or made.named
        where = f"{self.path} spec.kubelet"
        arguments = kubelet.words(made.flags)
        if kubelet.last(kubelet.DROP_INS, arguments) is not None:  # another than the one with what is given here
            self.mentions = self.mentions or bool(made.config)
        else:
            taints = kubelet.of_drop_in(made.config)
            kubelet.configured(taints, f"{where}.config.registerWithTaints", self.configured)
        flag = kubelet.last(kubelet.FLAG, arguments)
        if flag is not None:
            self.flag_counts = True
            kubelet.read_list(flag, f"{where}.flags", self.flagged, late=self.path)

    def _documents(self, body: str) -> list[Any]:
        """Parse YAML or JSON; nothing where it is neither, or too much."""
        from gpupools.base.bounded_yaml import parse_yaml  # only here: most user data is a script

        try:
            return [one.data for one in parse_yaml(body, _MOST_VALUES)]
        except Rejected:
            return []

    def _unpacked(self, content: str, encoding: str) -> bytes:
        """Undo the encoding of a file of Ignition."""
        raw = content.encode(errors="replace")
        if "64" in encoding:
            raw = without_base64(content)
        if "gz" in encoding and raw.startswith(GZIP):
            try:
                raw = gunzipped(raw, max(self.left, 0))
            except (zlib.error, EOFError):
                return b""  # nor can the node
        self.left -= len(raw)
        if self.left < 0:
            self.found.opaque = True
            return b""
        return raw


def _kept(match: re.Match[str]) -> str:
    return match[1] or ""


def parts(content: str) -> Iterator[tuple[str, str, str]]:
    """Yield each part with its MIME type, empty outside of MIME, and `toml`, `nodeadm`, or empty for a script."""
    if _is_in_parts(content):
        from email import message_from_string  # slow to import and rarely needed

        for part in message_from_string(as_unicode(content.lstrip())).walk():
            if part.is_multipart():
                continue
            payload, mime = part.get_payload(decode=True), part.get_content_type()
            payload = payload if isinstance(payload, bytes) else b""
            if mime == nodeadm.MIME:
                payload = without_base64(payload.decode("latin-1"))  # nodeadm does, whatever the header says
            body = unzipped(payload)
            yield mime, _kind(mime, body), body
    else:
        yield "", _kind("", content), content


_HEADED = re.compile(r"\s*(?:From |[!-9;-~]+:)")
_OF_MIME = re.compile(r"(?i)\s*(?:mime-version|content-type)\s*:")


def _is_in_parts(content: str) -> bool:
    """Say whether headers begin user data: those of MIME, or any where cloud-init takes it for MIME."""
    return bool(_OF_MIME.match(content) or (is_mime_for_it(content) and _HEADED.match(content)))


def _kind(content_type: str, body: str) -> str:
    if content_type == nodeadm.MIME or _NODE_CONFIG.search(body):
        return "nodeadm"
    if body.lstrip().startswith("{"):
        return "nodeadm" if _NODE_CONFIG_IN_BRACES.search(body) else ""
    return "toml" if _SETTINGS.search(body) else ""


# Each part of a line is passed over in one way only: on blank lines \s* in a row would take the cube of their number.
_NODE_CONFIG = re.compile(r"(?m)^[ \t]*(?:[{,][ \t]*)?\"?apiVersion\"?:[ \t]*\"?node\.eks\.aws/")
_NODE_CONFIG_IN_BRACES = re.compile(r"[{,\s]\"?apiVersion\"?\s*:\s*\"?node\.eks\.aws/")
_SETTINGS = re.compile(r"(?m)^[ \t]*(?:\[+[ \t]*\"?settings\b|settings\.)")
