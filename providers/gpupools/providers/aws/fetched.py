"""Tells from a script whether what it runs may make a machine a node, though it is not here. Pure.

What is fetched and run, what a package, a mounted folder or a socket brings, what a container does that owns the
machine, and what a configuration manager brings. `brought.csv` has the programs and calls, a row for each:

- `fetches`: puts what it fetches into a file, or on its standard output; `sockets`: the same without a name of it.
- `mounts`: makes a folder of elsewhere one of the machine; `programs`, `tools`: installs what runs by its name.
- `packages`: installs a package, whose own scripts run; `runs`: runs what lies at an address; `orders`: has something
  run that lies elsewhere; `here`: runs what lies in a folder.
- `asks`, `hears`, `acts`: what of a language fetches by an address, listens to a socket, and runs something.

A script from elsewhere of which no word says of Kubernetes is taken for none that makes a node: most install tools.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gpupools.providers.aws.joining import with_held

# Words of what is fetched and of the command that runs it, and variables that are given to it. A cluster or a node may
# be one of another scheduler, and a folder of clusters only says whose files lie there.
_JOINS = re.compile(r"(?<![a-z])(?<!\s-)(?<!\s--)join(?!\()|(?<=\s--)join(?![\w-])", re.IGNORECASE)
_OF_KUBERNETES = re.compile(
    r"kube|k8s(?!\.io/)|k3s|rke2|(?<![a-z])k0s|\beks|nodeadm|nodeup|openshift|rancher|talos(?:ctl)?\b", re.IGNORECASE
)
_OF_A_CLUSTER = re.compile(
    r"cluster|\bnode(?!_exporter|_modules|_env|-?v?\d|[a-z.]| ?(?:-\W|-?$|[\w./-]{1,99}\.js))", re.IGNORECASE
)
_FOLDER_OF_CLUSTERS = re.compile(r"/clusters(?:/[^/\s\"']{1,99}(?=/))?(?=/)")
_OTHER_SCHEDULERS = re.compile(
    r"slurm|munge|spack|p(?:arallel)?cluster\b|(?<![a-z])ecs(?![a-z])|condor|openpbs|\bpbs|gridengine|\bray\b|\bdask\b"
    r"|\bspark\b|hadoop|\bnomad\b|deadline",
    re.IGNORECASE,
)
_GIVEN = re.compile(r"\b(?:KUBE|K8S|EKS|JOIN|API_?SERVER)\w*=")
_CLUSTER_GIVEN = re.compile(r"\bCLUSTER\w*=")
# Installers of tools and of servers, which make no node of another cluster unless a word says that they join.
_INSTALLERS = re.compile(
    r"get\.(?:k3s|rke2|docker|helm)\.|get-helm|kustomize|nodesource|\bk3d|kubectl|\beksctl|awscli|aws/install"
    r"|minikube|kind\.sigs\.|sigs\.k8s\.io/kind|\bk9s|krew|crictl"
)
# Packages that set up nothing by themselves.
_TOOLS_PACKED = re.compile(
    r"containerd|\brunc\b|cri-|kubelet|kubeadm|kubernetes-cni|nvidia|cuda|docker|amazon-(?:ssm|cloudwatch|efs|ecs)|\befa|\bhelm\b"
    r"|keyring|release-latest",
    re.IGNORECASE,
)
_INSTALLS = re.compile(r"install|setup", re.IGNORECASE)
_BY_SHELL = re.compile(r"\b(?:(?:ba|da|z|k)?sh|source|exec|eval|iex)[\s\"'<(]|sh$")
_NAMED_ADDRESS = re.compile(r"(?:[\s\"']\$|(?:urlopen|urlretrieve|get|DownloadString)\(\s*\$?)(\w{1,60})")
_ASSIGNED = re.compile(r"\b(\w{1,60}) ?= ?(\S{1,300})")

_SHELLS = r"(?:ba|da|z|k|a)?sh"
_INTERPRETERS = r"(?:python[\d.]*|perl|ruby|node|pwsh|php[\d.]*|lua[\d.]*|tclsh|Rscript|deno|bun)"
_WRAPPERS = r"(?:sudo|doas|env|exec|nohup|nice|ionice|time|setsid|xargs|command|busybox|systemd-run)"


@lru_cache
def _programs(*ways: str) -> str:
    """Return what finds the programs of some ways in a command, each with what has to stand beside it."""
    with (Path(__file__).parent / "brought.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["way"] in ways]
    return "|".join(f"(?:{row['program']})(?:\\.exe)?(?![\\w./-]){_beside(row['beside'])}" for row in rows)


def _beside(wanted: str) -> str:
    if not wanted:
        return ""
    return f"(?={wanted[1:]})" if wanted.startswith("^") else f"(?=.{{0,300}}?(?:{wanted}))"


@lru_cache
def _languages() -> Mapping[str, Mapping[str, re.Pattern[str]]]:
    """Return by language what asks for something, hears it, and acts on it."""
    found: dict[str, dict[str, re.Pattern[str]]] = {}
    with (Path(__file__).parent / "brought.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["way"] in ("asks", "hears", "acts"):
                found.setdefault(row["program"], {})[row["way"]] = re.compile(row["beside"])
    return found


def _of(*ways: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{_programs(*ways)})")


_FROM_SOCKET = r"(?:<|>&|\bcat|\bsource|(?<!\S)\.) ?(?=[\"']?/dev/(?:tcp|udp)/)"
_FETCH = re.compile(
    rf"(?<![\w.-])(?:(?P<sockets>{_programs('sockets')})|(?P<mounts>{_programs('mounts')})|{_programs('fetches')}"
    rf"|(?P<programs>{_programs('programs')})|(?P<tools>{_programs('tools')}))|(?P<device>{_FROM_SOCKET})"
    # https://docs.python.org/3/library/urllib.request.html, and what other languages and PowerShell have.
    r"|(?P<call>\b(?:urlopen|urlretrieve|requests\.get|httpx\.get|Net::HTTP|URI\.open|LWP::)"
    r"|(?i:\b(?:DownloadString|DownloadFile|Invoke-WebRequest|Invoke-RestMethod|iwr|irm|Start-BitsTransfer"
    r"|(?:Read|Copy)-S3Object)\b))"
)
_PACKAGES, _RUNS_ADDRESS, _ORDERS, _HERE = _of("packages"), _of("runs"), _of("orders"), _of("here")
_AFTER_GET = re.compile(r" ?m?get(?: -o)? [\w./-]{1,200}(?: -o)?(?: [\w./-]{1,200})?[\"']?$")
_TRANSFERS = re.compile(r"(?<![\w.-])(?:s?ftp|lftp|tftp)(?![\w.-]).*(?:<<| -[ce] )")
_OPENED = re.compile(r"\bexec \{?(\w{1,20}) ?<>? ?(/dev/(?:tcp|udp)/[^\s;&|]{1,200})")
_READS_INTO = re.compile(r"\b(?:read|mapfile|readarray)(?: -\w{1,9})* (\w{1,60})")
_WITHOUT_NAMES = re.compile(
    r" \.[\"') ]*$|\b(?:oras pull|git archive|gh (?:release|run) download|wget (?:-\S{1,60} ){0,9}-\w*r)\b"
)
_GIVES_SHELL = re.compile(r" (?:-\w{0,9}[ec] |--(?:sh-)?exec )|\b(?:EXEC|SYSTEM):")
_OF_INDEX = re.compile(r"(?:-i|-f|--(?:extra-)?index-url|--find-links)[ =]\S+")
_ENDS = re.compile(r"\n|;|&&|\|\||(?<![>&|])&(?![&>\w])")
# What takes a script on its standard input, with what may stand before it.
_TAKES_SCRIPT = re.compile(
    rf" ?(?:{_WRAPPERS}(?: -\S{{1,60}}(?: \w{{1,40}}(?= \S))?){{0,9}} )*"
    rf"(?:\w{{1,40}}=\S{{0,99}} ){{0,9}}(?:/\S{{1,99}}/)?(?:{_SHELLS}(?![\w./-])"
    rf"|{_INTERPRETERS}(?: ?$| -(?: |$)| ?[)\"'`>])|(?i:iex|Invoke-Expression)\b)"
)
# What runs what is put in its place.
_RUNS_INSIDE = re.compile(
    rf"(?:\b(?:{_SHELLS}|eval|source|{_INTERPRETERS})|(?:^|(?<=[\s;]))\.)(?: -\w+)*"
    r" ?(?:<<<|<(?: ?<)?(?=\())? ?[\"']?(?:\(|\$\(|`)"
    r"|\b(?:ansible-playbook|puppet apply|chef-apply)(?: [\w,=./-]{1,99}){0,9} <\("
    rf"|(?:\b{_SHELLS}|\bsource|(?:^|(?<=[\s;]))\.)(?: -\w+)* ?[\d]?$"
    r"|^ ?(?:(?:sudo|exec) )?(?:\$\(|`) ?$"
)
_INVOKES = re.compile(r"(?i)\b(?:iex|Invoke-Expression|ScriptBlock\]::Create)\b")
_CALLS = re.compile(
    r"\b(?:exec|eval|system|popen)\s?\(|\b(?:run|call|check_call|check_output|Popen)\s?\((?=.{0,60}\b(?:ba|da)?sh\b)"
)
_HELD = re.compile(r"(?:^|[\s\"'])\$?([A-Za-z_]\w{0,60}) ?= ?(?=[^\n=])")
_AS_TEXT = re.compile(r"= ?[\"']$")  # the command is held, not what it brings
_HELD_RUN = re.compile(
    rf"(?:\b(?:eval|source|{_SHELLS} -\w*c|(?:{_SHELLS}|{_INTERPRETERS})(?: -\w{{1,9}})* ?<<<)"
    r"|(?i:\b(?:iex|Invoke-Expression)\b)) ?[\"'(]{0,2}\$(\w{1,60})"
    r"|^ ?(?:(?:sudo|exec) )?\$(\w{1,60})(?![\w=/])"
)
_VARIABLE = re.compile(r"\$(\w{1,60})")
_INTO = re.compile(r"(?:>|\btee(?: -a)?) ?[\"']?(?:[\w.~$-]{0,99}/){0,20}([\w.~$-]{1,99})")
_WORD = re.compile(r"(?<![\w.$~-])[\w.$~][\w.$~+-]*(?=/?[\s\"'(),<>|?#@]|/?$)")
# Words of such commands that name no file, and folders of which most is from elsewhere.
_NO_NAMES = frozenset(
    {"cp", "sync", "mv", "rm", "cat", "get", "s3", "s3api", "storage", "blob", "object", "clone", "fetch", "pull"}
    | {"checkout", "install", "copy", "download", "run", "sudo", "sh", "bash", "python", "python3", "pip", "pip3"}
    | {"docker", "git", "curl", "wget", "tar", "unzip", "chmod", "true", "yes", "echo", "set", "exit", "make", "aws"}
    | {"bin", "sbin", "usr", "local", "lib", "lib64", "etc", "var", "share", "home", "root", ".", "..", "~"}
)
_UNPACKS = re.compile(r"(?<![\w.-])(?:tar|bsdtar|unzip|cpio|7z[ar]?|unar|Expand-Archive)(?![\w.-])")
_UNPACKS_INTO = re.compile(r" (?:-C|-d|--directory|-o|-DestinationPath)(?: |=|/)")
_ENDINGS = re.compile(r"(?:\.git|\.(?:tar|tgz|zip|gz|xz|bz2|zst|whl))+$")
_VERSION = re.compile(r"[-_.]v?\d[\w.+-]*$")
_HEAD = (
    rf"(?:(?:^|(?<=then)|(?<=do)|(?<=else)|(?<=&&)) ?\. |^|[(|]|-\w{{0,9}}c [\"']|\b{_SHELLS}[\"'], ?"
    rf"|(?<![\w-])(?:{_SHELLS}|source|{_INTERPRETERS}|{_WRAPPERS}|then|do|else|ansible-playbook"
    r"|(?:puppet|chef)[ -]apply|play kube|kube play|compose -f|msiexec /i|chroot \S{1,99}|timeout [\d.]+\w?) "
    r"|(?i:(?<![\w-])-File )"
    r"|\b(?:make -C|python[\d.]* -m) |\bExecStart(?:Pre|Post)?=[-@:+!]{0,3}|\bRUN\+?=[\"']?"
    r"|(?:@\w{4,8}|(?:[\d*/,-]{1,20} ){5}) ?(?:\w{1,30} (?=/))?)"
)
_RUN = re.compile(
    rf"(?P<head>{_HEAD}) ?(?:-[ug] \S{{1,60}} |-\w{{1,20}} |--[\w-]{{1,40}}(?:=\S{{1,60}})? ){{0,5}}"
    r"(?=[\"']?(?P<path>[^\s\"'|<>()]{1,300}))"
)
_INTERPRETS = re.compile(
    rf"(?:{_SHELLS}|source|\.|{_INTERPRETERS}|ansible-playbook|apply|play|kube|-f|/i|-m|File|-C)[\"',]* ?$"
)
_ONLY_SAYS = re.compile(r" ?(?:echo|printf|logger) [^|`>]*$")
_RUNS_FOLDER = re.compile(
    r"(?<![\w.-])(?:run-parts|find|for \w{1,60} in)(?: --?\S{1,60}){0,9} [\"']?(/[\w./*-]{1,300})"
)
_PLAYBOOK = re.compile(r"(?<![\w.-])ansible-playbook .{0,300}?(?<!\S)(/[\w./-]{1,300}\.ya?ml)(?!\S)")
_IN_PATH = re.compile(r"/s?bin/([\w.-]{1,99})")
# What runs by lying there, and what has a command run later: https://docs.cloud-init.io/en/latest/reference/modules.html
# (scripts), https://man7.org/linux/man-pages/man7/systemd.unit.7.html, crontab(5), at(1), udev(7).
_RUNS_THERE = re.compile(
    r"/(?:var/lib/cloud/scripts/per-\w+/|etc/cron\.\w+/|var/spool/cron|etc/init\.d/|etc/rc\.local|etc/rc\d?\.d/"
    r"|(?:etc|lib|usr/lib|run)/systemd/(?:system/[\w@.-]{1,99}\.(?:service|timer|path|socket)|system-generators/)"
    r"|etc/udev/rules\.d/|etc/local\.d/|etc/NetworkManager/dispatcher\.d/|etc/network/if-|etc/containers/systemd/)"
)
_LATER = re.compile(r"\| ?(?:sudo )?(?:at|batch|crontab)(?![\w.-])")
# Files that a tool takes without being told: https://docs.docker.com/compose/intro/compose-application-model/.
_OF_A_TOOL = frozenset(
    {"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "Makefile", "package.json"}
)
_PLACES = re.compile(r" ?(?:sudo )?(?:cp|mv|install|ln|chmod \S{0,20}[x1357]\S{0,20}) ")
_GOES_INTO = re.compile(r"\b(?:cd|pushd) [\"']?([^\s\"'|<>()]{1,300})")
_IN_FOLDER = re.compile(r"(?:\./|(?!\.\./)[\w.-]{1,99}/)[\w./-]{1,200}$|[\w-]{1,99}\.(?:sh|py|yml|yaml)$")
_MOST_RUNS = 200
_MOST_ARGUMENT = 60
_MOST_HERE = 5
_MOST_OPENED = 10
_MOST_PROGRAMS = 50
_BEFORE, _AFTER = 300, 700
"""Characters around a call in which it may be run what it fetched."""

# What sets a machine up from elsewhere: https://docs.ansible.com/ansible/latest/cli/ansible-pull.html,
# https://www.puppet.com/docs/puppet/8/man/agent.html, https://docs.chef.io/ctl_chef_client/,
# https://docs.saltproject.io/en/latest/ref/cli/salt-call.html.
_CONFIGURES = re.compile(
    r"(?:^|[(|\"']|\b(?:sudo|exec|env|nohup)(?: \w{1,40}=\S{0,99})*) ?(?:/[\w./-]{1,99}/)?"
    r"(?:ansible-pull (?=.{0,300}?(?:-U|--url))|puppet agent\b|(?:chef|cinc)-client(?![\w.-])"
    r"|salt-call (?!.{0,300}--local)|salt-minion(?: -|$))"
    r"|\bsystemctl (?:-\S{1,20} ){0,3}(?:start|restart|enable) .{0,99}?\b(?:puppet|salt-minion|chef-client)\b"
    r"|\bbootstrap\.saltproject\.io\b.{0,300}? -A "
)

# A container that owns the machine may start or write what its kubelet takes. With the network of the machine alone
# many train. https://docs.docker.com/reference/cli/docker/container/run/
_CONTAINER = re.compile(
    r"(?<![\w.-])(?:docker|podman|nerdctl|ctr) (?:\S{1,99} ){0,9}?(?:run|create) .*"
    r"|(?<![\w.-])(?:systemd-nspawn|(?:lxc|incus) (?:launch|config device add)) .*"
)
_PRIVILEGED = re.compile(
    r" --privileged(?:=[\"']?(?:true|1))?(?![\w=-])| --cap-add[= ][\"']?(?:CAP_)?ALL\b| --capability=all\b"
)
_ADMINISTERS = re.compile(r" --cap-add[= ][\"']?(?:CAP_)?SYS_(?:ADMIN|PTRACE|MODULE)\b")
_HOSTS_PROCESSES = re.compile(r" --pid[= ][\"']?host\b| --with-ns[= ]pid:/proc/1/")
_HOSTS_NETWORK = re.compile(r" --net(?:work)?[= ][\"']?host\b| --net-host\b")
_OWN_FOLDER = r"/(?:etc(?:/(?:kubernetes|rancher)[\w./-]{0,99})?|var/lib/(?:kubelet|rancher)[\w./-]{0,99})?/?"
_MOUNTS = re.compile(
    rf" (?:-v|--volume|--bind)[= ]?[\"']?{_OWN_FOLDER}:/[\w./-]{{0,99}}(?![\w./-])(?!:(?:\w+,)*ro\b)"
    rf"| source={_OWN_FOLDER} path="
    rf"| --mount[= ](?=\S{{0,300}}(?:src|source)=[\"']?{_OWN_FOLDER}[,\s\"'])(?!\S{{0,300}}(?:readonly|\bro\b))"
)
# What starts other containers, or puts programs and units where the machine has its own.
_STARTS_OTHERS = re.compile(
    r"[/=\"'](?:docker|containerd|podman|crio)\.sock\b|[ =,\"'](?:/usr(?:/local)?/s?bin|/opt/bin|/etc/systemd/system):"
)
# Images that watch or serve a machine, and make no node of it.
_NO_NODES = re.compile(
    r"[ /](?:nvidia/|nvcr\.io/nvidia/|cadvisor/|google/cadvisor|amazon/|datadog/|falcosecurity/|sysdig/|newrelic/"
    r"|prom/|prometheus/|grafana/|netdata/)"
)

# What a shell reads when somebody logs in, which the start of a machine does not: `man bash`, "Invocation".
OF_LOGIN = re.compile(
    r"(?:/etc/(?:profile(?:\.d/[\w.-]+)?|bash\.bashrc|bashrc|zsh/\w+|zshrc)"
    r"|\.(?:bashrc|bash_profile|bash_login|bash_aliases|profile|zshrc|zprofile|kshrc|cshrc))(?![\w.-])"
)
_READS_LOGIN = re.compile(rf"(?:^|[;&|(\s])(?:source|\.) [\"']?[\w.~$/-]{{0,200}}?{OF_LOGIN.pattern}", re.MULTILINE)
_ECHOED = re.compile(
    r"\b(?:echo|printf) (?:'[^']{0,2000}'|\"[^\"]{0,2000}\"|\\.|[^'\"\n;&|>\\]++){0,99}+"
    rf"(?:\| ?(?:sudo )?tee (?:-a )?|>>? ?)[\"']?[\w.~$/-]{{0,200}}?{OF_LOGIN.pattern}"
)
_HEREDOC = re.compile(r"<<-? ?[\"'\\]?(\w{1,60})")
_WRITES_LOGIN = re.compile(rf"(?:>|\btee\b).{{0,99}}?{OF_LOGIN.pattern}")


class _Brought(NamedTuple):
    """What comes from elsewhere."""

    said: str
    """The command that brings it."""
    way: str
    """One of `brought.csv`, or `binary`."""


_PROGRAM_HELD = re.compile(
    rf"\A(?:/[\w./-]{{1,99}}/)?(?:curl|wget|aws|gsutil|gcloud|git|{_SHELLS}|{_INTERPRETERS})(?![\w./-])"
)

_NAMELESS = frozenset({"sockets", "binary"})
"""Ways of which no word tells what they bring."""
_OF_ITS_OWN = frozenset({"packages", "mounts", "tools", "asks"})
"""Ways in which tools and shared folders come, so that only a word of Kubernetes itself counts."""


def may_make_a_node(script: str, at_login: str = "", binaries: Sequence[str] = ()) -> bool:
    """Say whether a script runs what is not here and may make the machine a node.

    Args:
        script: Without its comments.
        at_login: Files that shells read when somebody logs in, which the script may read itself.
        binaries: Files of which nothing is known, by their paths.
    """
    text = _plain(script)
    text = f"{text}\n{_plain(at_login)}" if _READS_LOGIN.search(text) else _without_login(text)
    commands = _ENDS.split(text)
    if any(_configures(command) or _owns_machine(command) for command in commands):
        return True
    weighs = _Weighs(text)
    runs = list(islice(_run(commands, binaries), _MOST_RUNS))
    if any(weighs.makes(brought, command) for brought, command in runs):
        return True
    if any(weighs.makes(_Brought(said, way), "") for said, way in _in_programs(text)):
        return True
    return len(runs) == _MOST_RUNS  # what is not looked at may be it


def _configures(command: str) -> bool:
    """Say whether a command has a configuration manager set the machine up for no other scheduler."""
    of_others = _OTHER_SCHEDULERS.search(command) and not _OF_KUBERNETES.search(command)
    return _CONFIGURES.search(command) is not None and not of_others


class _Weighs:
    """Weighs the words of what is brought and run in one script."""

    def __init__(self, text: str) -> None:
        self.assigned = dict(_ASSIGNED.findall(text))
        self.given = _GIVEN.search(text) is not None
        self.cluster_given = _CLUSTER_GIVEN.search(text) is not None
        self.other = _OTHER_SCHEDULERS.search(text) is not None
        self.told: dict[str, tuple[bool, ...]] = {}

    def makes(self, brought: _Brought, command: str) -> bool:
        """Say whether what is brought, and run by a command, may make the machine a node."""
        words = brought.said, command
        for one in words:
            if one not in self.told:
                of_cluster = _OF_A_CLUSTER.search(_FOLDER_OF_CLUSTERS.sub("", one)) is not None
                self.told[one] = (
                    *(sign.search(one) is not None for sign in (_JOINS, _INSTALLERS, _OF_KUBERNETES)),
                    of_cluster,
                )
        joins, installs, of_kubernetes, of_cluster = (any(self.told[one][place] for one in words) for place in range(4))
        if joins or brought.way in _NAMELESS:
            return True
        if installs or (brought.way == "packages" and any(map(_TOOLS_PACKED.search, words))):
            return False
        if brought.way in _OF_ITS_OWN or of_kubernetes:
            return of_kubernetes
        if self.given or ((of_cluster or self.cluster_given) and not self.other):
            return True
        return _has_hidden_address(*words, self.assigned)


def _plain(script: str) -> str:
    """Return a script with each command in one line, one blank between words, and variables without braces."""
    script = re.sub(r"\{\{-? ?[.$]?([\w.]{1,60})[^{}\n]{0,100}\}\}", r"$\1", script)
    script = re.sub(r"\|[ \t]*\n\s*", "| ", script)  # a pipe goes on in the next line
    script = with_held(script, _PROGRAM_HELD)
    text = re.sub(r"[ \t]+", " ", script.replace("\\\n", " ").replace("${", "$").replace("}", ""))
    for name, device in islice(_OPENED.findall(text), _MOST_OPENED):  # `exec 3<>/dev/tcp/…; sh <&3`
        text = re.sub(rf"<& ?\$?{name}\b", f"<{device}", text)
    return text


def _in_programs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the surroundings of calls in programs of any language that bring something, where one runs it."""
    for language in _languages().values():
        for way, found_as in (("hears", "sockets"), ("asks", "asks")):
            for found in islice(language[way].finditer(text), _MOST_PROGRAMS) if way in language else ():
                around = text[max(found.start() - _BEFORE, 0) : found.end() + _AFTER]
                if language["acts"].search(around):
                    yield around, found_as


def _run(commands: list[str], binaries: Sequence[str]) -> Iterator[tuple[_Brought, str]]:
    """Yield what is brought with each command that runs it: the one that brings it, or a later one."""
    here = _Fetched(binaries)
    yield from ((_Brought(path, "binary"), "") for path in binaries if _RUNS_THERE.search(path))
    transfers = False
    for command in commands:
        yield from ((brought, command) for brought in here.run_by(command))
        transfers = transfers or _TRANSFERS.search(command) is not None
        words = _OF_INDEX.sub(" ", command) if "pip" in command else command
        fetch = _FETCH.search(words)
        if fetch is not None:
            brought = _Brought(command, _way(fetch))
            if _runs_at_once(words, fetch):
                yield brought, command
            else:
                here.fetch(brought._replace(said=words), fetch.start())
                if _RUNS_THERE.search(command):
                    yield brought, command
        elif transfers and _AFTER_GET.match(command):
            here.fetch(_Brought(command, "fetches"), 0)
        else:
            here.hand_on(command)


def _way(fetch: re.Match[str]) -> str:
    if fetch["device"] is not None:
        return "sockets"
    return next((way for way in ("sockets", "mounts", "programs", "tools") if fetch[way]), "fetches")


def _runs_at_once(command: str, fetch: re.Match[str]) -> bool:
    """Say whether a command runs what it fetches, by a pipe or in its place."""
    if any(map(_TAKES_SCRIPT.match, command[fetch.start() :].split("|")[1:])) or _INVOKES.search(command):
        return True
    if fetch["sockets"] and _GIVES_SHELL.search(command):
        return True
    if fetch["device"] and fetch["device"].startswith((".", "source")):
        return True
    around = command[: fetch.start()]
    return bool(_RUNS_INSIDE.search(around) or (fetch["call"] and _CALLS.search(command[: fetch.end()])))


class _Fetched:
    """What was fetched so far: with each name the command that fetched it."""

    def __init__(self, binaries: Sequence[str]) -> None:
        self.held: dict[str, _Brought] = {}
        """By the variable that holds it."""
        self.files: dict[str, _Brought] = {}
        """By file or folder."""
        self.folders: set[str] = set()
        self.programs: set[str] = set()
        """Those of them that run by their name alone."""
        self.here: list[_Brought] = []
        """What lies where the script is, or where it went, by names that are not known."""
        for path in binaries:
            self.files |= dict.fromkeys(_names(path), _Brought(path, "binary"))
            self.programs.update(_IN_PATH.findall(path))

    def run_by(self, command: str) -> Iterator[_Brought]:
        """Yield where that comes from which a command runs."""
        yield from self._installed_by(command)
        if _RUNS_ADDRESS.search(command) and "://" in command:
            yield _Brought(command, "fetches")
        if _ORDERS.search(command):
            yield _Brought(command, "fetches")
        if self.files and (_LATER.search(command) or _RUNS_THERE.search(command)):
            yield from self._named_in(command)
        if _HERE.search(command):
            yield from dict.fromkeys(self.here)
        if (folder := _RUNS_FOLDER.search(command)) and _joins_by_name(folder[1]):
            yield _Brought(folder[1], "fetches")
        if (playbook := _PLAYBOOK.search(command)) and _OF_KUBERNETES.search(playbook[1]):
            yield _Brought(playbook[1], "fetches")
        for match in _RUN.finditer(command) if not _ONLY_SAYS.match(command) else ():
            if _joins_by_name(match["path"]):
                yield _Brought(match["path"], "fetches")
            *above, name = re.split(r"[/\\]", match["path"])
            known = next((one for one in above if one in self.folders), name if above or len(name) > 1 else "")
            if known in self.files and (above or known in self.programs or _INTERPRETS.search(match["head"])):
                yield self.files[known]
            elif _IN_FOLDER.match(match["path"]):
                yield from self.here
        if entered := _GOES_INTO.search(command):
            self.here += [self.files[one] for one in re.split(r"[/\\]", entered[1]) if one in self.folders]
            del self.here[:-_MOST_HERE]
        if not self.held:
            return
        names = [match[1] or match[2] for match in _HELD_RUN.finditer(command)]
        for call in _CALLS.finditer(command):
            names += re.findall(r"\w+", command[call.end() : call.end() + _MOST_ARGUMENT])
        if any(map(_TAKES_SCRIPT.match, command.split("|")[1:])):
            names += _VARIABLE.findall(command)
        yield from (self.held[name] for name in names if name in self.held)

    def _installed_by(self, command: str) -> Iterator[_Brought]:
        """Yield what a command installs whose own scripts then run."""
        if not _PACKAGES.search(command) or _ONLY_SAYS.match(command):
            return
        if "://" in command or _JOINS.search(command):
            yield _Brought(command, "packages")
        yield from (brought._replace(way="packages") for brought in self._named_in(command))

    def _named_in(self, command: str) -> Iterator[_Brought]:
        """Yield what a command names of it, each once."""
        yield from dict.fromkeys(self.files[name] for name in _names(command) if name in self.files)

    def fetch(self, brought: _Brought, at: int) -> None:
        """Take what a command fetches.

        Args:
            brought: All of the command.
            at: Where it says so.
        """
        command = brought.said
        first, *rest = command[at:].split("|")
        if (assigned := _HELD.search(command[:at])) and not _AS_TEXT.search(command[:at]):
            self.held[assigned[1]] = brought
        names = _names(first)
        self.folders.update(names)
        if brought.way in ("programs", "tools"):
            self.programs.update(names)
        self.programs.update(_IN_PATH.findall(command))
        if into := _READS_INTO.search(command):
            self.held[into[1]] = brought
        if _WITHOUT_NAMES.search(first):
            self._lies_here(brought)
        for stage in rest:
            if _UNPACKS.search(stage):
                self._unpacked(stage, brought)
            else:
                names += _INTO.findall(stage)
        self.files |= dict.fromkeys(names, brought)
        self._lies_by_name(names, brought)

    def hand_on(self, command: str) -> None:
        """Take what a command unpacks or writes of what was fetched."""
        origin = next((self.held[name] for name in _VARIABLE.findall(command) if name in self.held), None)
        if origin:
            self.files |= dict.fromkeys(_INTO.findall(command), origin)
        elif self.files and (_UNPACKS.search(command) or _PLACES.match(command)):
            names = re.findall(r"[\w.$~+-]+", command)
            origin = next((self.files[name] for name in names if name in self.files), None)
            if origin and _UNPACKS.search(command):
                self._unpacked(command, origin)
            elif origin:
                self.files |= dict.fromkeys(_names(command), origin)
                self.programs.update(_names(command))

    def _unpacked(self, command: str, origin: _Brought) -> None:
        names = _names(command)
        self.folders.update(names)
        self.files |= dict.fromkeys(names, origin)
        if not _UNPACKS_INTO.search(command):
            self._lies_here(origin)

    def _lies_by_name(self, names: list[str], brought: _Brought) -> None:
        if not _OF_A_TOOL.isdisjoint(names):
            self._lies_here(brought)

    def _lies_here(self, origin: _Brought) -> None:
        self.here = [*self.here, origin][-_MOST_HERE:]


def _joins_by_name(path: str) -> bool:
    """Say whether what runs is of the machine itself, such as of its image, and named after joining a cluster."""
    of_cluster = _OF_KUBERNETES.search(path) or _OF_A_CLUSTER.search(path)
    return path.startswith("/") and of_cluster is not None and _JOINS.search(path) is not None


def _names(words: str) -> list[str]:
    """Return the files and folders that words of a command may name; of a packed one also what it unpacks to."""
    names = [name for name in _WORD.findall(words) if name not in _NO_NAMES]
    bare = [_ENDINGS.sub("", name) for name in names]
    return [*names, *bare, *(_VERSION.sub("", name) for name in bare)]


def _has_hidden_address(origin: str, command: str, assigned: Mapping[str, str]) -> bool:
    """Say whether a script comes from an address that is only a variable, and is no installer by its name."""
    if "://" in origin or not (_BY_SHELL.search(command) or _BY_SHELL.search(origin)):
        return False
    named = _NAMED_ADDRESS.search(origin)
    address = assigned.get(named[1], "") if named else ""
    return named is not None and not any(map(_INSTALLS.search, (origin, command, address)))


def _owns_machine(command: str) -> bool:
    """Say whether a command runs a container that may do to the machine what it wants, and is not known to watch it."""
    run = _CONTAINER.search(command)
    if run is None or _NO_NODES.search(run[0]):
        return False
    of_cluster = _OF_KUBERNETES.search(run[0]) or _OF_A_CLUSTER.search(run[0]) or _JOINS.search(run[0])
    if _MOUNTS.search(run[0]) or (of_cluster and _STARTS_OTHERS.search(run[0])):
        return True
    if _HOSTS_PROCESSES.search(run[0]) and _ADMINISTERS.search(run[0]):
        return True
    return bool(
        _PRIVILEGED.search(run[0])
        and (_HOSTS_PROCESSES.search(run[0]) or (of_cluster and _HOSTS_NETWORK.search(run[0])))
    )


def _without_login(text: str) -> str:
    """Leave out what a script only writes for shells of those who log in."""
    if not OF_LOGIN.search(text):
        return text
    kept, end = [], ""
    for line in text.split("\n"):
        if end:
            end = "" if line.strip() == end else end
            continue
        kept.append(line)
        begun = _HEREDOC.search(line)
        if begun and _WRITES_LOGIN.search(line):
            end = begun[1]
    return _ECHOED.sub("", "\n".join(kept))
