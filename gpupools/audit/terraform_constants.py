"""Reads what an attribute of a Terraform configuration says before anything is applied, with `UNKNOWN` for the rest."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected
from gpupools.plan.pool_facts import UNKNOWN

if TYPE_CHECKING:
    from lark import Tree

_HOLE = "gpupools-value-known-after-apply"
"""Stands in a text for an interpolation."""


def read_object(expression: Tree[Any]) -> Any:
    """Return the object of an object literal, of `yamlencode` or `jsonencode` of one, or of a text; else `UNKNOWN`."""
    inside = _only(expression)
    if inside.data in ("heredoc_template", "heredoc_template_trim", "string"):
        return _parsed(_text(inside))
    if inside.data == "function_call":
        name, *given = _trees(inside)
        if str(name.children[0]) not in ("yamlencode", "jsonencode") or len(given) != 1:
            return UNKNOWN
        arguments = _trees(given[0])
        inside = _only(arguments[0]) if len(arguments) == 1 else inside
    return _value(inside) if inside.data == "object" else UNKNOWN


def _trees(tree: Tree[Any]) -> list[Tree[Any]]:
    return [each for each in tree.children if hasattr(each, "data") and each.data != "new_line_or_comment"]


def _only(tree: Tree[Any]) -> Tree[Any]:
    """Return what stands in an expression of one term."""
    while tree.data == "expr_term" and len(inside := _trees(tree)) == 1:
        tree = inside[0]
    return tree


def _value(tree: Tree[Any]) -> Any:
    tree = _only(tree)
    match tree.data:
        case "string":
            written = _text(tree)
            return UNKNOWN if written is None or _HOLE in written else written
        case "int_lit" | "float_lit" | "literal_value":
            return json.loads(str(tree.children[0]))
        case "tuple":
            return [_value(each) for each in _trees(tree)]
        case "object":
            pairs = [(_key(key), _value(value)) for key, value in map(_trees, _trees(tree))]
            names = [key for key, _ in pairs]
            return UNKNOWN if None in names or len(set(names)) < len(names) else dict(pairs)
    return UNKNOWN


def _key(tree: Tree[Any]) -> str | None:
    inside = _only(_trees(tree)[0]) if _trees(tree) else tree
    if inside.data == "identifier":
        return str(inside.children[0])
    key = _value(inside)
    return key if isinstance(key, str) else None


def _text(tree: Tree[Any]) -> str | None:
    """Return a text with `_HOLE` for interpolations; None where it has directives, which may change its structure."""
    if tree.data != "string":
        first, *lines = str(tree.children[0]).rstrip().splitlines()
        body = "\n".join(lines[:-1]) + "\n"
        return _without_interpolations(textwrap.dedent(body) if first.startswith("<<-") else body)
    parts = []
    for each in _trees(tree):
        (part,) = each.children
        if getattr(part, "data", "") == "interpolation":
            parts.append(_HOLE)
        elif getattr(part, "type", "") == "STRING_CHARS":
            parts.append(json.loads(f'"{part}"'))
        else:
            return None
    return "".join(parts)


def _without_interpolations(text: str) -> str | None:
    written = re.sub(r"\$\{[^{}~]*\}", _HOLE, text)  # one with braces inside leaves the text unknown
    return None if any(mark in written for mark in ("${", "%{", "~}")) else written


def _parsed(written: str | None) -> Any:
    """Return the one document of a text of YAML."""
    try:
        documents = parse_yaml(written, unique=True) if written is not None else ()
    except Rejected:
        return UNKNOWN
    return _with_unknown(documents[0].data) if len(documents) == 1 else UNKNOWN


def _with_unknown(value: Any) -> Any:
    if isinstance(value, Mapping):
        if any(_HOLE in str(key) for key in value):
            return UNKNOWN
        return {key: _with_unknown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_unknown(item) for item in value]
    return UNKNOWN if isinstance(value, str) and _HOLE in value else value
