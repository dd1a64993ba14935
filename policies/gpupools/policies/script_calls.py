"""Finds the calls of SDKs in programs that make nodes, or apply what cannot be seen here. Pure.

`calls.csv` has them, with the words of which one stands beside a call whose name others have too.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpupools.read.effort import exhausted, spend

NODES, ELSEWHERE, OBJECT = "nodes", "elsewhere", "object"
"""What a call does: it makes nodes, applies what cannot be seen, or applies an object of Kubernetes."""

GROUPS = (
    r"(?:karpenter\.sh|karpenter\.k8s\.aws|infrastructure\.cluster\.x-k8s\.io|cluster\.x-k8s\.io|eksctl\.io"
    r"|cloud\.google\.com|machine\.openshift\.io|hypershift\.openshift\.io|hive\.openshift\.io)"
)
"""Groups of Kubernetes' objects that bring nodes."""


@dataclass(frozen=True)
class Call:
    """One row of `calls.csv`."""

    call: str
    """Names, parted by `|`, as Python writes them; with the object that has them before a dot."""
    beside: str
    """Words, parted by `|`; empty where the name alone tells it."""
    answer: str
    source: str
    as_of: str


@lru_cache
def calls() -> tuple[Call, ...]:
    """Return the table."""
    with (Path(__file__).parent / "calls.csv").open(encoding="utf-8", newline="") as file:
        return tuple(Call(**row) for row in csv.DictReader(file))


@lru_cache
def _by_name() -> Mapping[str, tuple[Call, ...]]:
    found: dict[str, tuple[Call, ...]] = {}
    for row in calls():
        for name in row.call.split("|"):
            found[name.replace("_", "")] = (*found.get(name.replace("_", ""), ()), row)
    return found


@lru_cache
def _call() -> re.Pattern[str]:
    """Return what finds a call as any language writes it, also by a name in a text: `getattr(eks, "create_nodegroup")`.

    JavaScript's SDK of AWS sends a command object (https://docs.aws.amazon.com/AWSJavaScriptSDK/v3/latest/client/eks/);
    .NET and Java have calls that return at once (https://docs.aws.amazon.com/sdkfornet/v4/apidocs/items/EKS/TEKSClient.html).
    """
    names = sorted({name for row in calls() for name in row.call.split("|")}, key=len, reverse=True)
    written = (
        re.escape(name).replace("_", "_?").replace(r"\.", r"(?:_?client)?(?:\(\))?\.(?:begin_?)?") for name in names
    )
    return re.compile(
        r"(?<!\bdef )(?<!\bfunc )(?<!\bfunction )\b(?P<by_text>getattr\([^\n]{0,100}?,\s*[\"'])?"
        rf"(?:begin_?)?(?P<name>{'|'.join(written)})"
        r"(?:_?and_?wait|(?:with_?response)?_?async|command|with_?context|callable|_with_http_info)?"
        r"(?(by_text)[\"']|(?:[\"']\s*\])?\s*\()",
        re.IGNORECASE,
    )


@lru_cache
def _beside(words: str) -> re.Pattern[str]:
    starts = ((r"(?<![a-z])" if word[0].isalpha() else "", re.escape(word)) for word in words.split("|"))
    return re.compile("|".join(map("".join, starts)), re.IGNORECASE)


_SPELLED = re.compile(r"_|client(?=(?:\(\))?\.)|\(\)|(?<=\.)begin")
_OTHERS = "others"
_OF_GROUPS = re.compile(rf"[\"']{GROUPS}(?:/v\w+)?[\"']")
_ARGUMENTS = re.compile(r"[^;]{0,300}")
_GIVEN = re.compile(r"\s*[\"']|[^;]{0,300}?\bgroup[\"']?\s*[:=]\s*[\"']")
_NAMED = re.compile(r"(?:group|api_?version)\w{0,20}[\"']?\s{0,9}(?::=|[:=])\s{0,9}[\"']", re.IGNORECASE)
# What stands before a call on its line, where it is none: a comment, or a text that a shell only writes.
_SAID = re.compile(r"\s*(?:#|//|\*|--\s|(?:echo|printf)\s[^$`;|&]*$)")
_AROUND = 500


def called(text: str) -> tuple[str, str]:
    """Return what the calls of a program do, the gravest of it, with the name of that call; empty for nothing."""
    has: dict[str, bool] = {"": True}
    applies, by_group = "", ""
    for match in _call().finditer(text):
        spend(_AROUND)
        if exhausted():
            break  # which whoever bounds it says
        for row in _by_name()[_SPELLED.sub("", match["name"].lower())]:
            if row.beside not in has:
                has[row.beside] = _beside(row.beside).search(text) is not None
            if not has[row.beside] or is_said(text, match.start()):
                continue
            answer = row.answer
            if answer == OBJECT:
                answer = _of_arguments(text, match.end())
                if answer == OBJECT:
                    answer = by_group = by_group or _of_program(text)
            if answer == NODES:
                return NODES, match["name"]
            applies = applies or (match["name"] if answer == ELSEWHERE else "")
    return (ELSEWHERE, applies) if applies else ("", "")


def _of_arguments(text: str, at: int) -> str:
    """Say what a call does that writes an object, by the group that is given to it."""
    arguments = _ARGUMENTS.match(text, at)
    if arguments and _OF_GROUPS.search(arguments[0]):
        return NODES
    return "" if _GIVEN.match(text, at) else OBJECT


def _of_program(text: str) -> str:
    """Say the same by the groups that a program names."""
    if _OF_GROUPS.search(text):
        return NODES
    return _OTHERS if _NAMED.search(text) else ELSEWHERE


def is_said(text: str, at: int) -> bool:
    """Say whether what stands at a place is only spoken of."""
    line = text[max(at - _AROUND, 0) : at].rpartition("\n")[2]
    return len(line) < _AROUND and _SAID.match(line) is not None
