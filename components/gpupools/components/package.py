"""The schema of the components' Pulumi package, and conversion of inputs from other languages.

Inputs on the wire are in camelCase (`gpusPerNode`), as in every Pulumi package; the components use the keys of a stack
file (`gpus_per_node`). Keys of labels, tags and other maps are not converted.
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
from gpupools.common.naming import camel as camel
from gpupools.common.naming import snake as snake
from gpupools.common.version import version

FILE = Path(__file__).with_name("package.schema.json")
"""Written by `tooling/write_schema.py`."""

Where = tuple[str | int, ...]


@cache
def schema() -> JsonObject:
    """Return the schema of the package."""
    package: JsonDict = json.loads(FILE.read_text(encoding="utf-8"))
    return {**package, "version": version()}


def arguments(component: str, inputs: JsonObject) -> JsonDict:
    """Return the arguments of a component for inputs from a program in another language.

    Raises:
        Rejected: Inputs have keys that the schema lacks, on any level; Pulumi's SDK would ignore them.
    """
    problems: list[Problem] = []
    converted: JsonDict = _object(schema()["resources"][component]["inputProperties"], inputs, (), problems)
    if problems:
        raise Rejected(problems)
    return converted


def _object(properties: JsonObject, inputs: JsonObject, where: Where, problems: list[Problem]) -> Any:
    converted = {}
    for key, value in inputs.items():
        if key not in properties:
            meant = camel(key)
            fix = f"did you mean {meant!r}?" if meant in properties else nearest(meant, properties)
            problems.append(Problem((*where, key), "unknown argument", fix))
        elif value is not None:
            converted[snake(key)] = _value(properties[key], value, (*where, key), problems)
    return converted


def _value(kind: JsonObject, value: Any, where: Where, problems: list[Problem]) -> Any:
    if isinstance(value, pulumi.Output):
        return value
    properties = _properties(kind)
    if isinstance(value, Mapping):
        if properties is not None:
            return _object(properties, value, where, problems)
        inner = kind.get("additionalProperties", {})
        return {key: _value(inner, item, (*where, key), problems) for key, item in value.items()}
    if isinstance(value, list | tuple):
        inner = kind.get("items", {})
        return [_value(inner, item, (*where, index), problems) for index, item in enumerate(value)]
    # Numbers on the wire are floats.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _properties(kind: JsonObject) -> JsonObject | None:
    """Return the properties of an object type; None for any other type."""
    name = str(kind.get("$ref", "")).removeprefix("#/types/")
    properties: JsonObject | None = schema()["types"].get(name, {}).get("properties")
    return properties


@cache
def _snake_case_keys() -> re.Pattern[str]:
    def keys() -> Iterator[str]:
        for resource in schema()["resources"].values():
            yield from map(snake, resource["inputProperties"])
        for type_ in schema()["types"].values():
            yield from map(snake, type_.get("properties", ()))

    words = sorted({key for key in keys() if "_" in key}, key=len, reverse=True)
    return re.compile(rf"(?<![\w/-])(?:{'|'.join(words)})(?![\w/-])")


def with_camel_case_keys(text: str) -> str:
    """Return a message with the keys of arguments in camelCase, as on the wire."""
    return _snake_case_keys().sub(lambda match: camel(match[0]), text)
