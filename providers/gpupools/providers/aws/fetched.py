"""Tells from a script whether what it runs may make a machine a node, though it is not here. Pure.

What is fetched and run, what a container does that owns the machine, and what a configuration manager brings. A script
from elsewhere of which no word says of a cluster is taken for none that makes a node: most install tools.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

# Words of what is fetched and of the command that runs it, and variables that are given to it.
_OF_A_CLUSTER = re.compile(
    r"kube|k8s|k3s|rke2|\beks|cluster|nodeadm|(?<![a-z])join(?!\()|\bnode(?!_exporter|_modules|-?v?\d|[a-z.])",
    re.IGNORECASE,
)
_GIVEN = re.compile(r"\b(?:KUBE|K8S|EKS|CLUSTER|JOIN|API_?SERVER)\w*=")
# Installers of tools and of servers, which make no node of another cluster unless a word says that they join.
_INSTALLERS = re.compile(
    r"get\.(?:k3s|rke2|docker|helm)\.|get-helm|kustomize|nodesource|\bk3d|kubectl|\beksctl|awscli|aws/install"
    r"|minikube|kind\.sigs\.|\bk9s|krew|crictl"
)
_JOINS = re.compile(r"(?<![a-z])join(?!\()", re.IGNORECASE)
_INSTALLS = re.compile(r"install|setup", re.IGNORECASE)
_BY_SHELL = re.compile(r"\b(?:(?:ba|da|z|k)?sh|source|exec|eval|iex)[\s\"'<(]|sh$")
_NAMED_ADDRESS = re.compile(r"(?:[\s\"']\$|(?:urlopen|urlretrieve|get|DownloadString)\(\s*\$?)(\w{1,60})")
_ASSIGNED = re.compile(r"\b(\w{1,60}) ?= ?(\S{1,300})")

_SHELLS = r"(?:ba|da|z|k|a)?sh"
_FETCH = re.compile(
    r"(?<![\w.-])(?:(?:curl|wget|aria2c|axel|s5cmd|azcopy|rclone|sftp|nc|ncat|oras|skopeo|crane)(?![\w./-])"
    r"|(?:rsync|scp)(?= .{0,300}?\w:)"
    r"|aws(?= .{0,300}? (?:cp|sync|get-object|get-parameters?(?:-by-path)?|get-secret-value)\b)"
    r"|gsutil(?= .{0,300}?\b(?:cp|rsync|cat)\b)|(?:mc|s3cmd)(?= (?:cp|cat|get|sync|mirror)\b)"
    r"|(?:vault|consul)(?= (?:kv|read)\b)"
    r"|gcloud(?= .{0,300}?\b(?:storage (?:cp|rsync|cat)|versions access)\b)"
    r"|az(?= .{0,300}?\b(?:download|download-batch|storage copy|keyvault secret show)\b)"
    r"|(?:git|gh|hg|svn)(?= .{0,300}?\b(?:clone|export|download)\b)|svn(?= (?:checkout|co)\b)"
    r"|(?:docker|podman|nerdctl)(?= (?:container )?(?:cp [\"']?[\w.$-]{1,99}:|export ))"
    r"|ctr(?= .{0,99}?\bimages? (?:mount|export)\b)"
    r"|(?P<package>pipx?[\d.]*|uv)(?= .{0,200}?\binstall\b.{0,200}?(?:git\+| https?:)))"
    # https://docs.python.org/3/library/urllib.request.html, and what other languages and PowerShell have.
    r"|(?P<call>\b(?:urlopen|urlretrieve|requests\.get|httpx\.get|Net::HTTP|URI\.open|LWP::)"
    r"|(?i:\b(?:DownloadString|DownloadFile|Invoke-WebRequest|Invoke-RestMethod|iwr|irm|Start-BitsTransfer"
    r"|(?:Read|Copy)-S3Object)\b))"
)
_OF_INDEX = re.compile(r"(?:-i|-f|--(?:extra-)?index-url|--find-links)[ =]\S+")
_ENDS = re.compile(r"\n|;|&&|\|\||(?<![>&|])&(?![&>\w])")
# What takes a script on its standard input, with what may stand before it.
_TAKES_SCRIPT = re.compile(
    r" ?(?:(?:sudo|env|exec|nohup|nice|time|xargs|command)(?: -\S{1,60}(?: \w{1,40}(?= \S))?){0,9} )*"
    rf"(?:\w{{1,40}}=\S{{0,99}} ){{0,9}}(?:/\S{{1,99}}/)?(?:{_SHELLS}(?![\w./-])"
    r"|(?:python[\d.]*|perl|ruby|node|pwsh)(?: ?$| -(?: |$)| ?[)\"'`>])|(?i:iex|Invoke-Expression)\b)"
)
# What runs what is put in its place.
_RUNS_INSIDE = re.compile(
    rf"(?:\b(?:{_SHELLS}|eval|source|python[\d.]*)|(?:^|(?<=[\s;]))\.)(?: -\w+)*"
    r" ?(?:<<<|<(?: ?<)?(?=\())? ?[\"']?(?:\(|\$\(|`)"
    r"|^ ?(?:(?:sudo|exec) )?(?:\$\(|`) ?$"
)
_INVOKES = re.compile(r"(?i)\b(?:iex|Invoke-Expression|ScriptBlock\]::Create)\b")
_CALLS = re.compile(
    r"\b(?:exec|eval|system|popen)\s?\(|\b(?:run|call|check_call|check_output|Popen)\s?\((?=.{0,60}\b(?:ba|da)?sh\b)"
)
_HELD = re.compile(r"(?:^|[\s\"'])\$?([A-Za-z_]\w{0,60}) ?= ?(?=[^\n=])")
_HELD_RUN = re.compile(
    rf"(?:\b(?:eval|source|{_SHELLS} -\w*c)|<<<|(?i:\b(?:iex|Invoke-Expression)\b)) ?[\"'(]{{0,2}}\$(\w{{1,60}})"
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
    rf"(?:(?<!\S)\. |^|[(|]|-\w{{0,9}}c [\"']|\b{_SHELLS}[\"'], ?"
    rf"|(?<![\w-])(?:{_SHELLS}|source|exec|nohup|env|python[\d.]*|perl|ruby|node|pwsh|sudo|then|do|else|xargs"
    r"|ansible-playbook) |(?i:(?<![\w-])-File )|\b(?:make -C|python[\d.]* -m) |\bExecStart=[-@:+!]{0,3}|@reboot )"
)
_RUN = re.compile(
    rf"(?P<head>{_HEAD}) ?(?:-[ug] \S{{1,60}} |-\w{{1,20}} ){{0,5}}(?=[\"']?(?P<path>[^\s\"'|<>()]{{1,300}}))"
)
_INTERPRETS = re.compile(
    rf"(?:{_SHELLS}|source|\.|python[\d.]*|perl|ruby|node|pwsh|ansible-playbook|-m|File|-C)[\"',]* ?$"
)
_ONLY_SAYS = re.compile(r" ?(?:echo|printf|logger) [^|`>]*$")
_IN_PATH = re.compile(r"/s?bin/([\w.-]{1,99})")
_PLACES = re.compile(r" ?(?:sudo )?(?:cp|mv|install|ln|chmod \S{0,20}[x1357]\S{0,20}) ")
_GOES_INTO = re.compile(r"\b(?:cd|pushd) [\"']?([^\s\"'|<>()]{1,300})")
_IN_FOLDER = re.compile(r"(?:\./|(?!\.\./)[\w.-]{1,99}/)[\w./-]{1,200}$|[\w-]{1,99}\.(?:sh|py|yml|yaml)$|make$")
_MOST_RUNS = 200
_MOST_ARGUMENT = 60
_MOST_HERE = 5

# What sets a machine up from elsewhere: https://docs.ansible.com/ansible/latest/cli/ansible-pull.html,
# https://www.puppet.com/docs/puppet/8/man/agent.html, https://docs.chef.io/ctl_chef_client/,
# https://docs.saltproject.io/en/latest/ref/cli/salt-call.html.
_CONFIGURES = re.compile(
    r"(?:^|[(|\"']|\b(?:sudo|exec|env|nohup)(?: \w{1,40}=\S{0,99})*) ?(?:/[\w./-]{1,99}/)?"
    r"(?:ansible-pull (?=.{0,300}?(?:-U|--url))|puppet agent\b|(?:chef|cinc)-client(?![\w.-])"
    r"|salt-call (?!.{0,300}--local))"
    r"|\bsystemctl (?:-\S{1,20} ){0,3}(?:start|restart|enable) .{0,99}?\b(?:puppet|salt-minion|chef-client)\b"
)

# A container that owns the machine may start or write what its kubelet takes. With the network of the machine alone
# many train. https://docs.docker.com/reference/cli/docker/container/run/
_CONTAINER = re.compile(r"(?<![\w.-])(?:docker|podman|nerdctl|ctr) (?:\S{1,99} ){0,9}?(?:run|create) .*")
_PRIVILEGED = re.compile(r" --privileged(?:=[\"']?(?:true|1))?(?![\w=-])| --cap-add[= ][\"']?(?:CAP_)?ALL\b")
_HOSTS_PROCESSES = re.compile(r" --pid[= ][\"']?host\b| --with-ns[= ]pid:/proc/1/")
_HOSTS_NETWORK = re.compile(r" --net(?:work)?[= ][\"']?host\b| --net-host\b")
_OWN_FOLDER = r"/(?:etc(?:/(?:kubernetes|rancher)[\w./-]{0,99})?|var/lib/(?:kubelet|rancher)[\w./-]{0,99})?/?"
_MOUNTS = re.compile(
    rf" (?:-v|--volume)[= ]?[\"']?{_OWN_FOLDER}:/[\w./-]{{0,99}}(?![\w./-])(?!:(?:\w+,)*ro\b)"
    rf"| --mount[= ](?=\S{{0,300}}(?:src|source)=[\"']?{_OWN_FOLDER}[,\s\"'])(?!\S{{0,300}}(?:readonly|\bro\b))"
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


def may_make_a_node(script: str, at_login: str = "") -> bool:
    """Say whether a script runs what is not here and may make the machine a node.

    Args:
        script: Without its comments.
        at_login: Files that shells read when somebody logs in, which the script may read itself.
    """
    text = _plain(script)
    text = f"{text}\n{_plain(at_login)}" if _READS_LOGIN.search(text) else _without_login(text)
    commands = _ENDS.split(text)
    if any(_CONFIGURES.search(command) or _owns_machine(command) for command in commands):
        return True
    assigned = dict(_ASSIGNED.findall(text))
    given = _GIVEN.search(text) is not None
    told: dict[str, tuple[bool, ...]] = {}
    runs = list(islice(_run(commands), _MOST_RUNS))
    for words in runs:
        for one in words:
            if one not in told:
                told[one] = tuple(sign.search(one) is not None for sign in (_INSTALLERS, _JOINS, _OF_A_CLUSTER))
        installs, joins, of_cluster = (any(told[one][place] for one in words) for place in range(3))
        if joins or (not installs and (of_cluster or given or _has_hidden_address(*words, assigned))):
            return True
    return len(runs) == _MOST_RUNS  # what is not looked at may be it


def _plain(script: str) -> str:
    """Return a script with each command in one line, one blank between words, and variables without braces."""
    script = re.sub(r"\{\{-? ?[.$]?([\w.]{1,60})[^{}\n]{0,100}\}\}", r"$\1", script)
    script = re.sub(r"\|[ \t]*\n\s*", "| ", script)  # a pipe goes on in the next line
    return re.sub(r"[ \t]+", " ", script.replace("\\\n", " ").replace("${", "$").replace("}", ""))


def _run(commands: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each command that fetches with the one that runs what it fetched: itself, or a later one."""
    here = _Fetched()
    for command in commands:
        yield from ((origin, command) for origin in here.run_by(command))
        fetch = _FETCH.search(_OF_INDEX.sub("", command))
        if fetch is None:
            here.hand_on(command)
        elif _runs_at_once(command, fetch):
            yield command, command
        else:
            here.fetch(command, fetch.start(), package=fetch["package"] is not None)


def _runs_at_once(command: str, fetch: re.Match[str]) -> bool:
    """Say whether a command runs what it fetches, by a pipe or in its place."""
    if any(map(_TAKES_SCRIPT.match, command[fetch.start() :].split("|")[1:])) or _INVOKES.search(command):
        return True
    around = command[: fetch.start()]
    return bool(_RUNS_INSIDE.search(around) or (fetch["call"] and _CALLS.search(command[: fetch.end()])))


class _Fetched:
    """What was fetched so far: with each name the command that fetched it."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        """By the variable that holds it."""
        self.files: dict[str, str] = {}
        """By file or folder."""
        self.folders: set[str] = set()
        self.programs: set[str] = set()
        """Those of them that run by their name alone."""
        self.here: list[str] = []
        """What lies where the script is, or where it went, by names that are not known."""

    def run_by(self, command: str) -> Iterator[str]:
        """Yield where that comes from which a command runs."""
        for match in _RUN.finditer(command) if self.files and not _ONLY_SAYS.match(command) else ():
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

    def fetch(self, command: str, at: int, *, package: bool) -> None:
        """Take what a command fetches.

        Args:
            command: All of it.
            at: Where it says so.
            package: Whether it installs programs.
        """
        first, *rest = command[at:].split("|")
        if assigned := _HELD.search(command[:at]):
            self.held[assigned[1]] = command
        names = _names(first)
        self.folders.update(names)
        if package:
            self.programs.update(names)
        self.programs.update(_IN_PATH.findall(command))
        if first.rstrip("\"') ").endswith(" ."):
            self._lies_here(command)
        for stage in rest:
            if _UNPACKS.search(stage):
                self._unpacked(stage, command)
            else:
                names += _INTO.findall(stage)
        self.files |= dict.fromkeys(names, command)

    def hand_on(self, command: str) -> None:
        """Take what a command unpacks or writes of what was fetched."""
        origin = next((self.held[name] for name in _VARIABLE.findall(command) if name in self.held), "")
        if origin:
            self.files |= dict.fromkeys(_INTO.findall(command), origin)
        elif self.files and (_UNPACKS.search(command) or _PLACES.match(command)):
            names = re.findall(r"[\w.$~+-]+", command)
            origin = next((self.files[name] for name in names if name in self.files), "")
            if origin and _UNPACKS.search(command):
                self._unpacked(command, origin)
            elif origin:
                self.files |= dict.fromkeys(_names(command), origin)
                self.programs.update(_names(command))

    def _unpacked(self, command: str, origin: str) -> None:
        names = _names(command)
        self.folders.update(names)
        self.files |= dict.fromkeys(names, origin)
        if not _UNPACKS_INTO.search(command):
            self._lies_here(origin)

    def _lies_here(self, origin: str) -> None:
        self.here = [*self.here, origin][-_MOST_HERE:]


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
    if run is None or not _PRIVILEGED.search(run[0]) or _NO_NODES.search(run[0]):
        return False
    known = _HOSTS_NETWORK.search(run[0]) and _OF_A_CLUSTER.search(run[0])
    return bool(known or _HOSTS_PROCESSES.search(run[0]) or _MOUNTS.search(run[0]))


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
