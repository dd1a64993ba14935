"""Reads what an expression of a Terraform configuration says before it is applied, with `UNKNOWN` for the rest."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpupools.common.bounded_yaml import parse_yaml
from gpupools.common.errors import Rejected
from gpupools.plan.pool_facts import UNKNOWN

if TYPE_CHECKING:
    from lark import Tree

_HOLE = "gpupools-value-known-after-apply"
"""Stands in a text for an interpolation."""


def read_object(expression: Tree[Any], read: Callable[[str], str | None]) -> Any:
    """Return the object of an object literal, of one encoded or decoded as YAML or JSON, or of a text; else `UNKNOWN`.

    Args:
        expression: The expression.
        read: Returns the text of a file by its path from the module's folder; None where it cannot be read.
    """
    inside = _only(expression)
    if inside.data in _TEXTS:
        return _parsed(_template_text(inside))
    if inside.data == "function_call":
        name, arguments = _call(inside)
        if name in ("file", "templatefile") and arguments:
            return _parsed(_file_text(name, arguments[0], read))
        is_coder = name in ("yamlencode", "jsonencode", "yamldecode", "jsondecode") and len(arguments) == 1
        return read_object(arguments[0], read) if is_coder else UNKNOWN
    return _value(inside) if inside.data == "object" else UNKNOWN


_TEXTS = ("heredoc_template", "heredoc_template_trim", "string")


def _call(tree: Tree[Any]) -> tuple[str, list[Tree[Any]]]:
    name, *given = _trees(tree)
    return str(name.children[0]), _trees(given[0]) if given else []


def _file_text(function: str, path: Tree[Any], read: Callable[[str], str | None]) -> str | None:
    """Return the text of a file that is named by a literal, or by one behind `path.module`."""
    inside = _only(path)
    written = (
        _template_text(inside) if inside.data == "string" and references(inside) in ([], ["path.module"]) else None
    )
    text = read(written.removeprefix(f"{_HOLE}/")) if written is not None else None
    return _without_interpolations(text) if text is not None and function == "templatefile" else text


Named = Callable[[str], Any]
"""Returns the value of a name such as `var.x`; `UNKNOWN` where it has none."""


def read_value(expression: Tree[Any], named: Named) -> Any:
    """Return the value of literals, of lists and objects of them, and of names that have a value; else `UNKNOWN`."""
    try:
        return _value(expression, named)
    except (ValueError, IndexError, RecursionError):
        return UNKNOWN


def references(expression: Tree[Any]) -> list[str]:
    """Return what an expression refers to as a plan lists it: `aws_subnet.a.id`, `aws_subnet.a`."""
    chains = (_chain(subtree) for subtree in expression.iter_subtrees() if subtree.data == "get_attr_expr_term")
    return list(dict.fromkeys(".".join(chain) for chain in chains if chain))


def _chain(tree: Tree[Any]) -> list[str]:
    """Return the names of `a.b[0].c`; none where the first is no name."""
    tree = _only(tree)
    if tree.data == "identifier":
        return [str(tree.children[0])]
    if tree.data == "expr_term" and len(tree.children) == 1:
        return [str(tree.children[0])] if not hasattr(tree.children[0], "data") else _chain(tree.children[0])
    if tree.data not in ("get_attr_expr_term", "index_expr_term"):
        return []
    inner, *rest = _trees(tree)
    before = _chain(inner)
    return [*before, str(_trees(rest[0])[0].children[0])] if before and tree.data == "get_attr_expr_term" else before


def _attribute(tree: Tree[Any], named: Named) -> Any:
    """Return the value of `var.x`, or of what is inside a value: `local.pools["a"].taints[0]`."""
    inner, key = _trees(tree)
    if tree.data == "index_expr_term":
        place = _value(_trees(key)[0], named)
    else:
        place = str(_trees(key)[0].children[0])
        base = _only(inner)
        if base.data == "identifier":
            return named(f"{base.children[0]}.{place}")
    around = _value(inner, named)
    fits = (isinstance(around, dict) and place in around) or (isinstance(around, list) and type(place) is int)
    return around[place] if fits else UNKNOWN


def _trees(tree: Tree[Any]) -> list[Tree[Any]]:
    return [child for child in tree.children if hasattr(child, "data") and child.data != "new_line_or_comment"]


def _only(tree: Tree[Any]) -> Tree[Any]:
    """Return what stands in an expression of one term."""
    while tree.data == "expr_term" and len(inside := _trees(tree)) == 1:
        tree = inside[0]
    return tree


def _value(tree: Tree[Any], named: Named = lambda _: UNKNOWN) -> Any:
    tree = _only(tree)
    match tree.data:
        case "string":
            written = _template_text(tree)
            return UNKNOWN if written is None or _HOLE in written else written
        case "int_lit" | "float_lit" | "literal_value":
            return json.loads(str(tree.children[0]))
        case "tuple":
            return [_value(subtree, named) for subtree in _trees(tree)]
        case "get_attr_expr_term" | "index_expr_term":
            return _attribute(tree, named)
        case "function_call":
            return _called(*_call(tree), named)
        case "conditional":
            condition, *either = _trees(tree)
            holds = _value(condition, named)
            return _value(either[0 if holds else 1], named) if isinstance(holds, bool) else UNKNOWN
        case "unary_op" | "binary_op":
            return _operation(tree, named)
        case "object":
            pairs = [(_key(key, named), _value(value, named)) for key, value in map(_trees, _trees(tree))]
            names = [key for key, _ in pairs]
            return UNKNOWN if None in names or len(set(names)) < len(names) else dict(pairs)
    return UNKNOWN


def _called(name: str, given: list[Tree[Any]], named: Named) -> Any:
    """Return what a function returns that only names or looks up its arguments."""
    values = [_value(subtree, named) for subtree in given]
    if name in ("toset", "tolist", "tomap") and len(values) == 1:
        return values[0]
    if name == "lookup" and len(values) == 3 and isinstance(values[0], dict) and isinstance(values[1], str):
        return values[0].get(values[1], values[2])
    return UNKNOWN


def _operation(tree: Tree[Any], named: Named) -> Any:
    """Return `!a`, `a == b` or `a != b` of plain values."""
    first, *rest = _trees(tree)
    value = _value(first, named)
    if tree.data == "unary_op":
        return not value if isinstance(value, bool) and str(tree.children[0]) == "!" else UNKNOWN
    sign, second = _trees(rest[0])
    other = _value(second, named)
    plain = all(item is None or isinstance(item, str | int | float) for item in (value, other))
    equal = value == other and type(value) is type(other)
    return {"==": equal, "!=": not equal}.get(str(sign.children[0]), UNKNOWN) if plain else UNKNOWN


def line_of_key(expression: Tree[Any], key: str) -> int | None:
    """Return the line of a key of an object literal; None where it has none."""
    inside = _only(expression)
    elements = _trees(inside) if inside.data == "object" else []
    return next((element.meta.line for element in elements if _key(_trees(element)[0]) == key), None)


def _key(tree: Tree[Any], named: Named = lambda _: UNKNOWN) -> str | None:
    inside = _only(_trees(tree)[0]) if _trees(tree) else tree
    if inside.data == "identifier":
        return str(inside.children[0])
    key = _value(inside, named)
    return key if isinstance(key, str) else None


def _template_text(tree: Tree[Any]) -> str | None:
    """Return a text with `_HOLE` for interpolations; None where it has directives, which may change its structure."""
    if tree.data != "string":
        first, *lines = str(tree.children[0]).rstrip().splitlines()
        body = "\n".join(lines[:-1]) + "\n"
        return _without_interpolations(textwrap.dedent(body) if first.startswith("<<-") else body)
    parts = []
    for subtree in _trees(tree):
        (part,) = subtree.children
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
