"""The components' package: its schema, and what a program in another language writes turned into arguments.

On the wire a key is in camelCase (`gpusPerNode`), as in every Pulumi package; the components have the keys of a stack
file (`gpus_per_node`). Keys of labels, tags and other maps are nobody's spelling and stay.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pulumi

from gpupools.common.errors import Problem, Rejected, nearest
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.version import version

FILE = Path(__file__).with_name("package.schema.json")
"""Written by `tooling/write_package_schema.py`."""

Where = tuple[str | int, ...]


@cache
def schema() -> JsonObject:
    """Return the schema of the package."""
    found: JsonDict = json.loads(FILE.read_text(encoding="utf-8"))
    return {**found, "version": version()}


def camel(key: str) -> str:
    """Spell a key as on the wire."""
    first, *rest = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def snake(key: str) -> str:
    """Spell a key as in a stack file."""
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", key)


def arguments(component: str, inputs: JsonObject) -> JsonDict:
    """Return the arguments of a component that a program in another language has given these inputs.

    Raises:
        Rejected: There are keys that the schema does not have, on any level; Pulumi's SDK would drop them.
    """
    problems: list[Problem] = []
    found: JsonDict = _object(schema()["resources"][component]["inputProperties"], inputs, (), problems)
    if problems:
        raise Rejected(problems)
    return found


def _object(properties: JsonObject, given: JsonObject, where: Where, problems: list[Problem]) -> Any:
    found = {}
    for key, value in given.items():
        if key not in properties:
            meant = camel(key)
            fix = f"did you mean {meant!r}?" if meant in properties else nearest(meant, properties)
            problems.append(Problem((*where, key), "unknown argument", fix))
        elif value is not None:
            found[snake(key)] = _value(properties[key], value, (*where, key), problems)
    return found


def _value(kind: JsonObject, value: Any, where: Where, problems: list[Problem]) -> Any:
    if isinstance(value, pulumi.Output):
        return value
    properties = _properties(kind)
    if isinstance(value, Mapping):
        if properties is not None:
            return _object(properties, value, where, problems)
        inner = kind.get("additionalProperties", {})
        return {key: _value(inner, each, (*where, key), problems) for key, each in value.items()}
    if isinstance(value, list | tuple):
        inner = kind.get("items", {})
        return [_value(inner, each, (*where, index), problems) for index, each in enumerate(value)]
    # The wire has floats only.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _properties(kind: JsonObject) -> JsonObject | None:
    """Return the keys of an object type; None for any other."""
    name = str(kind.get("$ref", "")).removeprefix("#/types/")
    found: JsonObject | None = schema()["types"].get(name, {}).get("properties")
    return found


@cache
def _spelled_otherwise() -> re.Pattern[str]:
    def keys() -> Iterator[str]:
        for each in schema()["resources"].values():
            yield from map(snake, each["inputProperties"])
        for each in schema()["types"].values():
            yield from map(snake, each.get("properties", ()))

    words = sorted({key for key in keys() if "_" in key}, key=len, reverse=True)
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(words)})(?![\w/-])")


def spelled(text: str) -> str:
    """Spell the keys in what is said of arguments as on the wire."""
    return _spelled_otherwise().sub(lambda match: camel(match[0]), text)
