"""Validates one map of a stack file against its model, with problems in the terms of the file. Pure."""

import re
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gpupools.common.errors import Path, Problem, Rejected, may_hold_secret, nearest, shown
from gpupools.common.model import BuiltOnUse, ConflictingKeysError
from gpupools.spec.models import Cluster, Late, PoolSpec, StackPool, contradiction

MODEL = TypeVar("MODEL", bound=BaseModel)

MISSING = "is missing"

MOST_ALIKE = 20
"""Most problems of one kind that are reported one by one."""


def parse(model: type[MODEL], at: Path, raw: object) -> MODEL:
    """Return a map as an instance of its model.

    Raises:
        Rejected: All problems that can be found.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        named: set[Path] = set()
        problems: list[Problem] = []
        unknown = 0
        for details in error.errors(include_url=False):
            unknown += details["type"] == "extra_forbidden"
            if details["type"] != "extra_forbidden" or unknown <= MOST_ALIKE:
                problems += _problems(model, at, details, named)
        if unknown > MOST_ALIKE:
            what = f"and {unknown - MOST_ALIKE} more unknown keys"
            problems.append(Problem(at, what, "fix or remove the reported ones first"))
        # pydantic validates combinations of keys only if each key is valid.
        if issubclass(model, PoolSpec) and isinstance(raw, Mapping) and not any(fault.path == at for fault in problems):
            wrong = contradiction(raw)
            if wrong and contradiction({**raw, **{str(path[-1]): "" for path in named if path[:-1] == at}}):
                problems += _validator_problems(at, wrong)
        # A key that is there under another name is not reported as missing too.
        raise Rejected(fault for fault in problems if fault.what != MISSING or fault.path not in named) from None


def _problems(model: type[BaseModel], at: Path, details: ErrorDetails, named: set[Path]) -> list[Problem]:
    """Convert a pydantic error to problems of the file; `named` collects the keys that unknown keys stand for."""
    from gpupools.catalog.key_synonyms import known_elsewhere  # only on the way to an error

    bare, kinds = _walk(model, details["loc"])
    path: Path = (*at, *bare)
    given, kind = details["input"], details["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        *around, key = details["loc"]
        above, parents = _walk(model, around)
        return [_unknown(model, (*at, *above, key), given, around, parents, named)]
    if isinstance(given, Late) and not (kind == "value_error" and repr(given) not in details["msg"]):
        what = "is a secret, or an output that is known only while the program runs"
        return [Problem(path, what, "write the value itself; only addresses in clusters may be secrets or outputs")]
    if kind == "missing":
        return [Problem(path, MISSING, "add it")]
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        modes = [mode for mode in map(mode_of, kinds) if mode]
        if not modes:
            forms = dict.fromkeys(_form_name(form) for form in kinds if form not in (Late, types.NoneType))
            return [Problem(path, f"got {shown(given)}", f"write {' or '.join(forms)}")]
        mode = given.get("mode") if isinstance(given, Mapping) else None
        fix = known_elsewhere("mode", ("mode",), mode) or f"use one of {', '.join(modes)}"
        if mode is None:
            return [absent(path, given, "mode", fix)]
        return [Problem((*path, "mode"), f"got {shown(mode)}", fix)]
    if kind == "value_error":
        return _validator_problems(path, details.get("ctx", {}).get("error", details["msg"]))
    if kind in ("model_type", "model_attributes_type", "dict_type", "mapping_type"):
        return [Problem(path, f"got {shown(given)}", _as_map(kinds, given))]
    if kind == "list_type" and isinstance(given, str) and re.fullmatch(_WORD, given) and not may_hold_secret(path):
        return [Problem(path, f"got {shown(given)}", f"write a list: [{given}]")]
    if kind == "string_type" and isinstance(given, float):
        return [Problem(path, f"got {shown(given)}", "write it in quotes: YAML reads 1.30 as 1.3")]
    fix = _FIXES.get(kind, "{msg}").format(msg=details["msg"], **details.get("ctx", {}))
    return [Problem(path, f"got {shown(given)}", fix)]


def absent(at: Path, given: object, key: str, fix: str) -> Problem:
    """Return the problem of a map without a key: its name in the map if it has another one, or that it is missing."""
    from gpupools.catalog.key_synonyms import meant  # only on the way to an error

    for other in given if isinstance(given, Mapping) else ():
        if other != key and meant(other, [key]) is not None:
            return Problem((*at, other), "unknown key", f"write {key}", of_key=True)
    return Problem((*at, key), MISSING, fix)


_WORD = r"[A-Za-z][A-Za-z0-9_./-]{0,59}"
"""Text that needs no quotes in a YAML list."""


def _as_map(kinds: Iterable[Any], given: object) -> str:
    """Return the fix for a value that should be a map, such as a mode alone."""
    from gpupools.catalog.key_synonyms import meant  # only on the way to an error

    found = models(kinds)
    for model in found:
        if isinstance(given, str) and meant(given, [mode_of(model) or ""]) is not None:
            fields = {key: field for key, field in model.model_fields.items() if key != "mode"}
            needed = [f"{key}: …" for key, field in fields.items() if field.is_required()]
            more = "" if needed or not _asks_for_more(model) else f" with {', '.join(fields)}"
            return f"write {{{', '.join([f'mode: {mode_of(model)}', *needed, *(['…'] if more else [])])}}}{more}"
    keys = sorted({key for model in found for key in model.model_fields})
    if len(keys) > _MOST_KEYS:
        fields = {key: field for model in found for key, field in model.model_fields.items()}
        required = " and ".join(key for key in keys if fields[key].is_required())
        return (
            f"write a map with at least {required}" if required else f"write a map, such as {{{next(iter(fields))}: …}}"
        )
    return f"write a map with {', '.join(keys)}" if keys else "write a map"


def _asks_for_more(model: type[BaseModel]) -> bool:
    """Return whether a mode requires one of several keys, though none in particular."""
    try:
        model.model_validate({"mode": mode_of(model)})
    except ValidationError:
        return True
    return False


_MOST_KEYS = 20
"""Maximum number of keys that are listed."""


def _validator_problems(path: Path, error: object) -> list[Problem]:
    """Return the problems that one of our validators found."""
    found = error.found if isinstance(error, ConflictingKeysError) else (((), str(error)),)
    return [Problem((*path, *inner), *text.partition("; ")[::2]) for inner, text in found]


def _unknown(
    model: type[BaseModel], path: Path, value: object, around: list[Any], parents: Iterable[Any], named: set[Path]
) -> Problem:
    """Return the problem of an unknown key, with the key that was probably meant."""
    from gpupools.catalog.key_synonyms import known_elsewhere, meant  # only on the way to an error

    other_mode = _of_another_mode(model, path, around)
    if other_mode is not None:
        return other_mode
    known = {key for parent in models(parents) for key in parent.model_fields}
    found = meant(path[-1], known)
    if found is not None:
        named.add((*path[:-1], found))
    key = str(path[-1])
    fix = known_elsewhere(key, known, value) or _in_another_map(model, key) or nearest(key, known)
    return Problem(path, "unknown key", fix, of_key=True)


def _in_another_map(model: type[BaseModel], key: str) -> str:
    """Return where else in a stack file a key is written; empty if nowhere, or in several maps."""
    from gpupools.spec.cluster_access import ReachableCluster  # only on the way to an error

    if not issubclass(model, PoolSpec | Cluster):
        return ""  # elsewhere, as of a team, the same word means something else
    found = {**_places(StackPool, key, "the pool"), **_places(ReachableCluster, key, "the cluster")}
    places = [place for place, owner in found.items() if not (place.startswith(f"{key} ") and issubclass(model, owner))]
    return f"write {places[0]}" if len(places) == 1 else ""


def _places(model: type[BaseModel], key: str, owner: str) -> dict[str, type[BaseModel]]:
    """Return the places of a key in a pool or cluster: `network: {rdma: …} in the pool`."""
    places = {f"{key} in {owner}": model} if key in model.model_fields else {}
    for name, field in model.model_fields.items():
        built = [item.model for item in field.metadata if isinstance(item, BuiltOnUse)]
        if any(key in inner.model_fields for inner in (*built, *models(flat(field.annotation)))):
            places[f"{name}: {{{key}: …}} in {owner}"] = model
    return places


def _of_another_mode(model: type[BaseModel], path: Path, around: list[Any]) -> Problem | None:
    """Return the problem of a key that belongs to another mode; None if it belongs to no mode."""
    mode = around[-1] if around else None
    others = [kind for kind in models(_walk(model, around[:-1])[1]) if path[-1] in kind.model_fields]
    modes = [other_mode for other_mode in map(mode_of, others) if other_mode is not None]
    if mode is None or mode in modes or not modes:
        return None
    what = f"requires mode {' or '.join(modes)}, but mode is {mode}"
    return Problem(path, what, "remove it, or change the mode", of_key=True)


_FIXES = {
    "greater_than_equal": "use {ge} or more",
    "less_than_equal": "use {le} or less",
    "int_type": "write an integer, without quotes or unit",
    "int_from_float": "write an integer",
    "float_type": "write a number without quotes",
    "greater_than": "use more than {gt:g}",
    "finite_number": "write a finite number",
    "int_parsing": "write an integer",
    "bool_type": "write true or false",
    "string_type": "write text, in quotes",
    "string_too_short": "write at least {min_length} character(s)",
    "list_type": "write a list",
    "string_too_long": "write at most {max_length} characters",
    "too_short": "list at least {min_length}",
    "too_long": "list at most {max_length}",
    "literal_error": "use one of {expected}",
}
"""Fixes by pydantic error type, https://docs.pydantic.dev/latest/errors/validation_errors/."""


def _form_name(kind: Any) -> str:
    if models([kind]):
        return "{" + ", ".join(f"{key}: …" for key in kind.model_fields) + "}"
    return {str: "text", list: "a list", dict: "a map"}.get(get_origin(kind) or kind, "a value")


def mode_of(kind: Any) -> str | None:
    """Return the value of `mode` that selects a member of a union; None for other types."""
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return None
    field = kind.model_fields.get("mode")
    literals = get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()
    return str(literals[0]) if literals else None


def _walk(model: type[BaseModel], loc: Iterable[str | int]) -> tuple[list[str | int], list[Any]]:
    """Follow a pydantic location; return the keys in the file, and the expected types at its end."""
    keys: list[str | int] = []
    kinds: list[Any] = [model]
    for part in loc:
        tagged = [kind for kind in kinds if mode_of(kind) == part]
        if tagged:
            kinds = tagged
        elif part != "[key]" and not str(part).startswith("<"):  # tag of a form, see `gpupools.spec.models`
            keys.append(part)
            kinds = [inner for kind in kinds for inner in _inside(kind, part)]
    return keys, kinds


def models(kinds: Iterable[Any]) -> list[type[BaseModel]]:
    """Return the types that are models."""
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]


def _inside(kind: Any, part: str | int) -> list[Any]:
    """Return the member types under a key of a model, or of the items of a list or map."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(part))
        return flat(field.annotation) if field is not None else []
    arguments = get_args(kind)
    return flat(arguments[-1]) if get_origin(kind) in (list, dict) and arguments else []


def flat(annotation: Any) -> list[Any]:
    """Return the members of unions and `Annotated`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return flat(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [inner for member in get_args(annotation) for inner in flat(member)]
    return [annotation]
