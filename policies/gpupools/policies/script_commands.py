"""Finds the commands in scripts and on command lines that make nodes, or apply what cannot be seen here. Pure.

`commands.csv` has them: a program, then words that follow it in this order, each with its alternatives.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import translate
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from gpupools.policies.script_calls import GROUPS, NODES, called, is_said
from gpupools.read.effort import exhausted, spend

_AT_ONCE = 1_000_000
"""Characters of a script that are taken apart together; a longer one is so part after part, each to a command's end."""
_LONGEST_LINE = 100_000
_MOST_WORDS = 200
"""Of one command; what is longer is no command line but a text."""


COMMAND, ELSEWHERE, HERE = "command", "elsewhere", "here"
"""What a command does: it makes nodes, applies what cannot be seen, or applies what stands beside it."""


@dataclass(frozen=True)
class Command:
    """One row of `commands.csv`."""

    command: str
    answer: str
    """`COMMAND`, `ELSEWHERE` or `HERE`."""
    source: str
    as_of: str

    @property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """The alternatives of each word in turn."""
        return tuple(tuple(word.split("|")) for word in self.command.split())


@lru_cache
def commands() -> tuple[Command, ...]:
    """Return the table."""
    with (Path(__file__).parent / "commands.csv").open(encoding="utf-8", newline="") as file:
        rows = [{**row, "answer": COMMAND if row["answer"] == "nodes" else ELSEWHERE} for row in csv.DictReader(file)]
    return tuple(Command(**row) for row in rows)


_Words = tuple[re.Pattern[str], ...]


@lru_cache
def _by_program() -> Mapping[str, tuple[tuple[Command, _Words], ...]]:
    found: dict[str, list[tuple[Command, _Words]]] = {}
    for command in commands():
        wanted = tuple(re.compile("|".join(map(translate, words))) for words in command.words[1:])
        for program in command.words[0]:
            found.setdefault(program, []).append((command, wanted))
    return {program: tuple(rows) for program, rows in found.items()}


@lru_cache
def _program() -> re.Pattern[str]:
    names = "|".join(map(re.escape, _by_program()))
    return re.compile(rf"(?<![\w.:-])(?:{names})(?:\.exe|(?:-cli)?(?:[:@]\w[\w.:-]*)?)(?![\w.:/-])")


@lru_cache
def _wanted() -> re.Pattern[str]:
    """Return what finds the most telling word that each row wants, so that most lines need no closer look."""
    bare = [
        [[word.strip("*-=") for word in one] for one in command.words[1:] or command.words[:1]]
        for command in commands()
    ]
    words = {word for each in bare for word in max(each, key=lambda one: min(map(len, one)))}
    return re.compile("|".join(map(re.escape, sorted(words))))


# Steps of workflows: https://docs.aws.amazon.com/step-functions/latest/dg/connect-eks.html, EventBridge Scheduler's
# universal targets, and https://docs.cloud.google.com/workflows/docs/reference/googleapis/container/Overview.
_STATES = re.compile(
    r":eks:create(?:Nodegroup|NodeGroup|Cluster)\b"
    r"|\bgoogleapis\.container\.v\w+\.projects\.\w+\.clusters(?:\.nodePools)?\.create\b"
)
# A step `aws:executeAwsApi`, as YAML or JSON writes it:
# https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-action-executeawsapi.html.
_AUTOMATED = re.compile(r"\bApi[\"'\\]*\s{0,99}:\s{0,99}[\"'\\]*(create_?(?:nodegroup|cluster))\b", re.IGNORECASE)
_OF_EKS = re.compile(r"\bService[\"'\\]*\s{0,99}:\s{0,99}[\"'\\]*eks\b", re.IGNORECASE)
_API = re.compile(rf"/apis/{GROUPS}/v\w+[/\w-]*")
# https://docs.cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools/create,
# https://learn.microsoft.com/rest/api/aks/agent-pools/create-or-update,
# https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html.
_CLOUDS_API = re.compile(
    r"\b(?:container\.googleapis\.com/[^\s\"'?]{1,400}/(nodePools)(?:/[^\s\"'?:/]{1,99})?"
    r"|management\.azure\.com/[^\s\"'?]{1,400}/managedClusters/[^\s\"'?/]{1,99}/(agentPools)/[^\s\"'?/]{1,99}"
    r"|eks\.[\w.${}-]{1,60}\.amazonaws\.com/clusters/[^\s\"'?/]{1,99}/(node-groups))(?![\w/:])"
)
# What replaces or cuts the list of a running node's taints:
# https://kubernetes.io/docs/reference/kubectl/generated/kubectl_patch/,
# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/, https://jqlang.org/manual/#del.
_TAINTS = re.compile(r"\btaints", re.IGNORECASE)
_AROUND = 500
_EDITS = (  # what stands before `taints`, in this order, and what stands after
    ((r"(?<![\w.-])(?:kubectl|oc|k)\s", r"\b(?:patch|edit|replace)\s", r"(?<![\w-])(?:no|nodes?)[/\s]"), ()),
    ((r"EDITOR=",), (r"\s(?:edit)\s", r"\b(?:no|nodes?)[/\s]")),
    ((r"\bpatch_?node\s*\(",), ()),
    ((r"\bdel\s*\([^()\n]*\.$",), ()),
    ((r"\bop[\"'\\]*\s*:\s*[\"'\\]*(?:remove|replace|move)\b[^{}]*/spec/(?:template/spec/)?$",), ()),
    ((r"(?:-X\s*|--request[ =])(?:PATCH|PUT)\b|\.(?:patch|put)\(", r"/api/v1/nodes/"), ()),
    ((r"/api/v1/nodes/", r"(?:-X\s*|--request[ =])(?:PATCH|PUT)\b|(?<!\w)(?:-d|--data)"), ()),
    ((), (r"/api/v1/nodes/", r"(?:-X\s*|--request[ =])(?:PATCH|PUT)\b")),
)
_EDITED = tuple(tuple(tuple(re.compile(one, re.IGNORECASE) for one in side) for side in sides) for sides in _EDITS)
GPU_KEY = re.compile(r"(?:nvidia|amd)\.com/gpu")
_CUT = re.compile(r"\b(?:remove|delete|del|null)\b|taints[\"'\\]*\s*:\s*\[\s*\]")
_WRITES = re.compile(r"\b(?:POST|PUT|PATCH|post|put|patch)\b|(?<!\w)(?:-d|--data[\w-]*)\b")

# What ends one command and begins another; quotes and brackets of lists do not part its words.
_ENDS = re.compile(r"([\n;|&(){}`])")
_QUOTES = re.compile(r"[\"'\\]+")
_LISTS = re.compile(r"[\[\],]+")
# What is filled in later is a word, or a part of one, that parts no command.
_FILLED = re.compile(r"\$\{(\w+)[^{}()`\n]{0,200}\}|\{\{[^{}()`\n]{0,200}\}\}")
# A command that a variable holds, as in `CMD='eksctl create'; $CMD nodegroup`.
_ASSIGNED = re.compile(r"\b(\w{1,60})=(?:([\"'])([^\"'\n$`]{1,200})\2|([\w./-]{1,99})(?=[\s;&|]|$))")
_RUN_BY_NAME = re.compile(r"\s*(?:(?:eval|(?:ba|da|z|k)?sh\s+-\w*c)\s+)?[\"']?\$(\w{1,60})\b[\"']?")
_VARIABLE = re.compile(r"[\"']?\$(\w{1,60})\b[\"']?")
# Words that a script of several lines gets are those of whoever calls it or a function in it: most wrap a program.
_OWN_WORDS = re.compile(r"\$[@*\d]")
_SETS_WORDS = re.compile(r"\bset --")
# A word that is not known; and a variable by whose name it holds options, which no command is.
_UNKNOWN_WORD = re.compile(r"\$(?:\w{1,60}|[@*])")
_OF_OPTIONS = re.compile(r"\$\w*(?:OPT|ARG|FLAG|PARAM|EXTRA|PROFILE|REGION|CONFIG)", re.IGNORECASE)
# A program by where it lies, as in `$(which eksctl) create`.
_LOOKED_UP = re.compile(r"(?:\$\(|`)\s*(?:which|command -v|type -P)\s+([\w.-]{1,60})\s*[)`]")
# What is in quotes on one line is none.
_COMMENT = re.compile(r"(?m)('[^'\n]*'|\"[^\"\n]*\")|(?:^|(?<=\s))#[^\n]*")
# What may stand before a program: assignments, options, numbers, a list's dash, a key, a shell's words and wrappers.
_BEFORE = re.compile(
    r"\w+=.*|-.*|[\d.]+[smhd]?|\$\S*|[\w.-]*:|!|=|(?:.*/)?(?:exec|command|time|nohup|retry"
    r"|watch|if|then|elif|else|do|while|until|eval|tini|dumb-init|unbuffer|chronic|parallel|(?:ba|da|z|k|a)?sh|busybox|poetry|uv|run)"
)
# Programs that run the command after their own words: how many words stand before it, and which options take a word.
_WRAPPERS: Mapping[str, tuple[int, str]] = {
    "chroot": (1, ""),
    "doas": (0, "uC"),
    "env": (0, "uC"),
    "flock": (1, "wE"),
    "gosu": (1, ""),
    "nice": (0, "n"),
    "nsenter": (0, "tSG"),
    "ionice": (0, "cn"),
    "runuser": (0, "ugGw"),
    "script": (0, ""),
    "setsid": (0, ""),
    "stdbuf": (0, ""),
    "strace": (0, "eoPpsu"),
    "systemd-run": (0, "uptE"),
    "taskset": (1, ""),
    "ssh": (1, "BbcDEeFIiJLlmOoPpQRSWw"),
    "sshpass": (0, "pfd"),
    "su": (1, "gGw"),
    "su-exec": (1, ""),
    "sudo": (0, "CDgghpRrtTUu"),
    "timeout": (0, "ks"),
    "xargs": (0, "adEILnPs"),
}
_LONG = frozenset({"--user", "--group", "--chdir", "--signal", "--adjustment", "--max-args", "--timeout", "--unset"})
_OF_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "ctr", "docker-compose"})
_IN_CONTAINERS = frozenset({"run", "exec"})
"""Then an image or a container stands somewhere before the command; an image of one tool may be the command itself."""
_WRITERS = frozenset(
    {"echo", "printf", "logger", "grep", "egrep", "fgrep", "sed", "awk", "which", "type", "cat", "tee"}
)
"""Programs that only speak of the command in their words."""
# Taints that a node has until something is ready on it, or that its role brings, by whoever takes them off:
# https://kubernetes.io/docs/reference/labels-annotations-taints/.
_OF_NO_GPUS = re.compile(
    r"(?:[\w-]+\.)*(?:kubernetes|k8s)\.io/[^:=]*(?:[:=].*)?-|[^:=]*(?:not-ready|uninitialized|unregistered)(?:[:=].*)?-"
)


def run(text: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[Command, str]]:
    """Yield the rows of what a script runs, with what is said of each.

    Args:
        text: A script, a command line, or anything else.
        environment: Variables that are given to it.
    """
    at = 0
    while at < len(text):
        end = _end(text, at + _AT_ONCE)
        yield from _run(text[at:end], environment or {})
        at = end


ENVIRONMENTS = frozenset({"env", "environment", "environmentVariables", "environment_variables"})
_OF_AN_ENVIRONMENT = ("command", "args", "scriptContent", "script_content", "interpreter", "script")
_MOST_VARIABLES = 200
_OF_CONTAINER = re.compile(r"\$\((\w{1,60})\)")


def run_with_environment(given: Mapping[str, Any]) -> Iterator[tuple[Command, str]]:
    """Yield the rows of a script or command line that stands beside the variables it runs with.

    Of containers, provisioners of Terraform and deployment scripts:
    https://learn.microsoft.com/azure/templates/microsoft.resources/deploymentscripts.

    Args:
        given: Has both, the variables as a map or as a list of `name` and `value`.
    """
    listed = next((given[key] for key in sorted(ENVIRONMENTS) if given.get(key)), None)
    pairs: list[tuple[Any, Any]] = list(listed.items()) if isinstance(listed, Mapping) else []
    if isinstance(listed, list):
        pairs = [
            (one.get("name"), one.get("value") or one.get("secureValue")) for one in listed if isinstance(one, Mapping)
        ]
    strings = ((name, value) for name, value in pairs if isinstance(name, str) and isinstance(value, str))
    environment = dict(islice(strings, _MOST_VARIABLES))
    if listed:
        texts = [command_line(given), *(one for key in _OF_AN_ENVIRONMENT if isinstance(one := given.get(key), str))]
        listed_texts = (given[key] for key in _OF_AN_ENVIRONMENT if isinstance(given.get(key), list))
        texts += [one for each in listed_texts for one in each if isinstance(one, str) and "$" in one]
        for text in texts:
            if "$" in text:
                yield from run(_OF_CONTAINER.sub(lambda match: _in_shell(match, environment), text), environment)


def _in_shell(match: re.Match[str], environment: Mapping[str, str]) -> str:
    """Write a container's variable as a shell does: https://kubernetes.io/docs/tasks/inject-data-application/."""
    return f"${match[1]}" if match[1] in environment else match[0]


def _end(text: str, at: int) -> int:
    """Return where the line ends that stands at a place, with those that it goes on in."""
    end = text.find("\n", at, at + _LONGEST_LINE)
    while end > 0 and text[end - 1] == "\\":
        end = text.find("\n", end + 1, end + _LONGEST_LINE)
    return min(at + _LONGEST_LINE, len(text)) if end < 0 else end + 1


def _run(text: str, environment: Mapping[str, str]) -> Iterator[tuple[Command, str]]:
    if (" " in text or "\t" in text) and any(map(_program().search, (text, *environment.values()))):
        spend(len(text))
        joined = text.replace("\\\n", " ")
        joined = _FILLED.sub(_as_variable, joined) if "{" in joined else joined
        joined = _LOOKED_UP.sub(r"\1", joined)
        if "\n" in joined and not _SETS_WORDS.search(joined):
            joined = _OWN_WORDS.sub("VALUES", joined)
        found = _ASSIGNED.findall(joined) if "$" in joined else ()
        assigned = [(name, quoted or bare) for name, _, quoted, bare in found]
        last = {**environment, **dict(assigned)}
        first = {**dict(reversed(assigned)), **environment}
        here = _HERE.search(text) is not None
        for part, from_elsewhere in _parts(_bare(joined)):
            for line in dict.fromkeys(_filled(part, given) for given in (first, last)) if "$" in part else (part,):
                if _program().search(line) and ("$" in line or _wanted().search(line)):
                    yield from _one(line, here and not from_elsewhere)
    if "(" in text:
        answer, name = called(text)
        if answer:
            yield _CALLED if answer == NODES else _APPLIED, f"calls {name}"
    if (":eks:" in text or "googleapis.container" in text) and (call := _STATES.search(text)):
        yield _CALLED, f"calls {call[0].lstrip(':')}"
    if "Api" in text and (step := _AUTOMATED.search(text)) and _OF_EKS.search(text):
        yield _CALLED, f"calls eks:{step[1]}"
    if "taints" in text and _edits_taints(text):
        yield _CALLED, "edits the taints of nodes"
    if "/apis/" in text and (address := _API.search(text)) and _WRITES.search(text):
        yield _CALLED, f"writes to {address[0]}"
    if "://" in text and (kind := _writes_to_cloud(text)):
        yield _CALLED, f"writes to the API of {kind}"


def _filled(part: str, given: Mapping[str, str]) -> str:
    """Put what is known of a command's variables in their place: its program, and the words after that."""
    named = _RUN_BY_NAME.match(part)
    if named and named[1] in given:
        part = f"{given[named[1]]} {part[named.end() :]}"
    return _VARIABLE.sub(lambda match: given.get(match[1], match[0]), part) if given else part


def _bare(text: str) -> str:
    """Return a script without its comments."""
    return _COMMENT.sub(lambda match: match[1] or "", text) if "#" in text else text


def _parts(script: str) -> Iterator[tuple[str, bool]]:
    """Yield each command, and whether it gets its standard input from a file, an address or a program."""
    reads = here = False  # of the pipe so far
    pieces = _ENDS.split(script)
    for place in range(0, len(pieces), 2):
        part = pieces[place]
        if place and pieces[place - 1] == "|":
            before = pieces[place - 2]
            reads = reads if place > 2 and pieces[place - 3] == "|" else _READS.search(before) is not None
            here = here or _HERE.search(before) is not None
            yield part, reads and not here
        else:
            reads = here = False
            yield part, _FROM_FILE.search(part) is not None and not _HERE.search(part)


def _as_variable(match: re.Match[str]) -> str:
    return f"${match[1] or 'VALUE'}"


def _writes_to_cloud(text: str) -> str:
    """Return what of a cloud's API a script writes to that makes nodes; empty for nothing."""
    given = _bare(text.replace("\\\n", " ")) if _CLOUDS_API.search(text) else ""
    for found in _CLOUDS_API.finditer(given):
        spend(_AROUND)
        if exhausted():
            return ""  # which whoever bounds it says
        around = given[max(found.start() - _AROUND, 0) : found.end() + _AROUND]
        if _WRITES.search(around) and not is_said(given, found.start()):
            return found[1] or found[2] or found[3]
    return ""


def _edits_taints(text: str) -> bool:
    """Say whether a script edits the taints of nodes, unless the taint of GPUs is among them after it."""
    given = _bare(text.replace("\\\n", " "))
    for found in _TAINTS.finditer(given):
        spend(_AROUND)
        if exhausted():
            return False  # which whoever bounds it says
        before, after = (
            given[max(found.start() - _AROUND, 0) : found.start()],
            given[found.start() : found.start() + _AROUND],
        )
        edits = any(_in_turn(before, first) and _in_turn(after, then) for first, then in _EDITED)
        if edits and (not GPU_KEY.search(after) or _CUT.search(before[-100:] + after)):
            return True
    return False


def cuts_taints(given: Mapping[str, Any], path: str) -> bool:
    """Say whether a part of a patch takes taints off nodes or node pools.

    https://kyverno.io/docs/policy-types/cluster-policy/mutate/, https://argo-workflows.readthedocs.io/en/latest/walk-through/kubernetes-resources/

    Args:
        given: A step of a JSON patch, a map inside a merge patch, or what applies a manifest.
        path: Where it stands.
    """
    operation = given.get("op")
    aim = given.get("from" if operation == "move" else "path")
    if operation in ("remove", "replace", "move") and isinstance(aim, str) and _TAINTS_AT.match(aim):
        return operation != "replace" or not GPU_KEY.search(str(given.get("value")))
    if "taints" in given and given["taints"] in (None, []):
        return "patch" in path.casefold()
    raw = given.get("object-templates-raw")  # of Open Cluster Management
    if isinstance(raw, str) and "mustonlyhave" in raw.casefold() and _NODE_CUT.search(raw):
        return True
    manifest = given.get("manifest")
    return (
        given.get("action") in ("patch", "replace") and isinstance(manifest, str) and bool(_NODE_CUT.search(manifest))
    )


_TAINTS_AT = re.compile(r"/spec/(?:template/spec/)?taints(?:/|$)")
_NODE_CUT = re.compile(
    r"\bkind[\"']?:\s*[\"']?(?:Node|NodePool)\b(?s:.{0,500}?)\btaints[\"']?\s*:\s*(?:\[\s*\]|null|~)"
)


def _in_turn(text: str, wanted: _Words) -> bool:
    """Say whether all that is wanted is in a text, one after the other."""
    at = 0
    for one in wanted:
        found = one.search(text, at)
        if found is None:
            return False
        at = found.end()
    return True


_CALLED, _APPLIED = Command("", COMMAND, "", ""), Command("", ELSEWHERE, "", "")


_STDIN = frozenset({"-", "-f-", "/dev/stdin", "--filename=-"})
# Then what is applied stands in the text itself, where readers of objects find it.
_HERE = re.compile(r"<<|\b(?:echo|printf)\s+(?:-\w+\s+)*[\"']?[^\s$\"'-]")


_FROM_FILE = re.compile(r"(?<![<>])<\s*[\w./~$\"'-]")
_READS = re.compile(
    r"\A\s*(?:sudo\s+)?(?:(?:/\S*/)?(?:curl|wget|aws|gsutil|gcloud|az|git|python[\d.]*|ruby|perl|node|jsonnet|ytt|cue)"
    r"(?![\w.-])|(?:cat|sed|yq|jq|zcat|gunzip)\s[^|]*\w\.\w+|envsubst\s*<)"
)


@lru_cache(maxsize=10_000)
def _one(line: str, here: bool) -> tuple[tuple[Command, str], ...]:
    """Return the rows of one command; `here` where what it gets on its standard input can be seen."""
    words = _LISTS.sub(" ", _QUOTES.sub("", line)).split(maxsplit=_MOST_WORDS)[:_MOST_WORDS]
    place = _first(words)
    found: list[tuple[Command, str]] = []
    program = _name(words[place]) if place < len(words) else ""
    for row, wanted in _by_program().get(program, ()):
        if _follow([word for word in words[place + 1 :] if not _OF_NO_GPUS.fullmatch(word)], wanted):
            row = replace(row, answer=HERE) if here and _STDIN & set(words) else row
            found.append((row, f"runs {' '.join((program, *words[place + 1 : place + 1 + min(len(wanted), 2)]))}"))
    key = place < len(words) and ":" in words[place] and "/" not in words[place]  # `"aws:RequestedRegion": $REGION`
    if not found and program in _by_program() and "$" in line and not key:
        open_ = _open(program, words[place + 1 :])
        found += [(_APPLIED, open_)] if open_ else []
    if not found and "--" in words[place + 1 :] and not _WRITERS & set(words[: place + 1]):
        return _one(
            " ".join(words[words.index("--", place + 1) + 1 :]), here
        )  # `kubectl exec … --`, `aws-vault exec … --`
    return tuple(found)


def _open(program: str, words: list[str]) -> str:
    """Say of a command whose words a variable gives that it may be one of the table; empty where they rule it out."""
    pairs = zip(words, ("", *words), strict=False)
    named = [word for word, before in pairs if not word.startswith("-") and not _takes_value(before)]
    if len(named) > 1:
        named = [word for word in named if not _OF_OPTIONS.match(word)]
    if not named or not any(map(_UNKNOWN_WORD.fullmatch, named)):
        return ""
    wholly = all(map(_UNKNOWN_WORD.fullmatch, named))
    for _, wanted in _by_program()[program]:
        both = list(zip(named, wanted, strict=False))
        fits = all(_UNKNOWN_WORD.fullmatch(word) or one.match(word) for word, one in both)
        told = [_UNKNOWN_WORD.fullmatch(word) is None for word, _ in both]
        if fits and (wholly or (any(told) and not all(told) and len(both) == len(wanted))):
            return f"runs {' '.join((program, *words[:2]))}, with words that are not known here"
    return ""


def _takes_value(option: str) -> bool:
    return option.startswith("-") and "=" not in option


def _first(words: list[str]) -> int:
    """Return the place of a command's program, after what may stand before it; of any other word where it is none."""
    operands, valued, in_container = 0, "", False
    takes_word = False
    for place, word in enumerate(words):
        name = _name(word)
        if name in _by_program() or name in _WRITERS:
            return place
        if name in _OF_CONTAINERS and _IN_CONTAINERS & set(words[place + 1 :]):
            in_container = True
        elif name in _WRAPPERS:
            operands, valued = _WRAPPERS[name]
            takes_word = False
        elif in_container or takes_word:
            takes_word = False
        elif word.startswith("-"):
            short = word[-1] in valued and "=" not in word and not word.startswith("--")
            takes_word = short or (bool(valued) and word in _LONG)
        elif operands:
            operands -= 1
        elif not _BEFORE.fullmatch(word):
            return place
    return len(words)


_PROGRAM_OR_IMAGE = re.compile(r"(?:[^=]*/)?([\w.-]+?)(?:\.exe)?(?:[:@]\w[\w.:-]*)?")


def _name(word: str) -> str:
    """Return the program that a word names: by its path, or by an image that has one tool."""
    match = _PROGRAM_OR_IMAGE.fullmatch(word)
    name = match[1] if match else ""
    return name if name in _by_program() else name.removesuffix("-cli")


def _follow(words: list[str], wanted: _Words) -> bool:
    """Say whether all that is wanted follows in its order, whatever options stand between."""
    rest = iter(words)
    return all(any(one.match(word) for word in rest) for one in wanted)


_TOOLS = re.compile(r"(?:.*/)?(?P<tool>eksctl|aws|gcloud|az|kops|rosa|kubectl|oc|helm|terraform|tofu|pulumi)(?:-cli)?")


def command_line(given: Mapping[str, Any]) -> str:
    """Return the command line of a container or step as one text; an image of one tool runs that tool.

    Args:
        given: Has `command` or `args`, as a list of words. A step of Cloud Build has its image as `name`, and its
            program as `entrypoint`: https://docs.cloud.google.com/build/docs/build-config-file-schema.
    """
    command, args = given.get("command") or given.get("entrypoint"), given.get("args")
    image = given.get("image") or (name if isinstance(name := given.get("name"), str) and "/" in name else None)
    listed = ([command] if isinstance(command, str) and isinstance(args, list) else command, args)
    words = [word for part in listed if isinstance(part, list) for word in part if isinstance(word, str)]
    if words and not command and isinstance(image, str):
        match = _TOOLS.fullmatch(re.sub(r"(?<=[^/])[:@][^/]*$", "", image))
        words = [match["tool"], *words] if match else words
    return " ".join(words) if all("\n" not in word for word in words) else ""
