"""Finds the Kubernetes objects that stand in texts: YAML, JSON, and scripts that pipe either into a command. Pure."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpupools.base.bounded_yaml import parse_yaml
from gpupools.base.errors import Rejected
from gpupools.planned.pool_facts import UNKNOWN
from gpupools.read.effort import spend

_MOST_VALUES = 20_000
_MOST_READ = 400_000
CHARACTERS_PER_READ = 7
"""Characters that are looked at while one is read as YAML, of as many as hold all values."""
_MOST_OBJECTS = 200
"""Of one text."""

# https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_07_04, without `<<<` of Bash.
_HEREDOC = re.compile(
    r"(?<!<)<<(?!<)(?P<tabs>-?)[ \t]*(?P<quote>[\"'\\]?)(?P<end>\w+)[\"']?(?P<rest>[^\n]*)\n"
    r"(?P<body>.*?)(?:^[ \t]*(?P=end)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_ESCAPED_KEY = re.compile(r'"[^"\n]{0,20}\\(?:u00|x|U000000)[46-7][0-9A-Fa-f][^"\n]{0,80}"\s*:')
_JSON = re.compile(r'\{\s*"(?:apiVersion|kind|metadata|spec)"')
_EXPANDED = re.compile(r"[$`]")


def names_objects(text: str) -> bool:
    """Say cheaply whether a text may hold an object."""
    return ("apiVersion" in text and "kind" in text) or ("\\" in text and _ESCAPED_KEY.search(text) is not None)


def objects_in(text: str, placeholders: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a text with what leads to them, and as text what may hold some that could not be read.

    Args:
        text: A file or a script.
        placeholders: Puts `UNKNOWN` where something else fills in a value later.
    """
    spend(CHARACTERS_PER_READ * min(len(text), _MOST_READ))
    try:
        documents = parse_yaml(text, _MOST_VALUES, unique=True)
    except Rejected:
        documents = ()
    if any(isinstance(one.data, Mapping) for one in documents):
        yield from ((f"[{place}]", placeholders(one.data)) for place, one in enumerate(documents))
    else:
        yield from _in_script(text, placeholders)


def _in_script(text: str, placeholders: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
    """Read here-documents and JSON; the shell fills in variables of both unless they are quoted."""
    found: list[Any] = []
    rest: list[str] = []
    end = 0
    for match in _HEREDOC.finditer(text):
        rest.append(text[end : match.start()])
        end = match.end()
        body = re.sub(r"(?m)^\t+", "", match["body"]) if match["tabs"] else match["body"]
        if not names_objects(body):
            continue
        filled = placeholders if match["quote"] else lambda value: expanded(placeholders(value))
        try:
            found += [filled(one.data) for one in parse_yaml(body, _MOST_VALUES, unique=True)]
        except Rejected:
            rest.append(body)
    remains = "\n".join([*rest, text[end:]])
    decoder = json.JSONDecoder()
    at = 0
    while (start := _JSON.search(remains, at)) and len(found) < _MOST_OBJECTS:
        try:
            value, at = decoder.raw_decode(remains, start.start())
        except (ValueError, RecursionError):
            at = start.end()
            continue
        found.append(expanded(placeholders(value)))
        remains, at = f"{remains[: start.start()]} {remains[at:]}", start.start()
    yield from ((f"[{place}]", one) for place, one in enumerate(found))
    if names_objects(remains):
        yield "", remains


def expanded(value: Any, own: bool = False) -> Any:
    """Return a value with `UNKNOWN` for every text in which a shell puts something; names stay, as they join."""
    if isinstance(value, str):
        return UNKNOWN if not own and _EXPANDED.search(value) else value
    if isinstance(value, Mapping):
        return {key: expanded(item, own or key in ("metadata", "apiVersion", "kind")) for key, item in value.items()}
    return [expanded(item, own) for item in value] if isinstance(value, list) else value
