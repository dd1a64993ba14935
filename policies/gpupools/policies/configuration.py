"""Validates the policy configuration of an environment, `policy-config.<env>.json`.

The form is the one `pulumi preview --policy-pack-config` takes: policy name to a level, or to an object with
`enforcementLevel` and the policy's own keys; `all` sets the level of the policies that are not named.
https://www.pulumi.com/docs/iac/crossguard/configuration/. `gpupools policy --check-config` is the check that CI runs.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpupools.common.errors import Problem, nearest, shown
from gpupools.common.input_files import read_bytes
from gpupools.common.json_types import JsonDict
from gpupools.policies import waivers
from gpupools.policies.finding import Level, correction
from gpupools.policies.rules import ALL_RULES

ADVISORY_ONLY = ("unverified-at-preview", "unverified-in-stack", "waived")
"""Policies besides the rules: they report findings that are not enforced or that waivers suppress."""

_ADVISORY_DESCRIPTIONS = {
    **dict.fromkeys(ADVISORY_ONLY, "Reports findings that rules are configured not to enforce."),
    "waived": "Lists the findings that waivers suppress.",
}
_RANK = {"disabled": 0, "advisory": 1, "mandatory": 2, "remediate": 2}
_LEVEL = {"type": "string", "enum": list(_RANK)}
_RULES = {rule.name: rule for rule in ALL_RULES}


def schema() -> JsonDict:
    """Return the JSON schema of a configuration file, as in `policy-config.schema.json`."""
    level = {"$ref": "#/$defs/level"}
    shared = {waivers.KEY: {"$ref": f"#/$defs/{waivers.KEY}"}}
    properties: JsonDict = {"all": {"description": "The level of every policy that is not named.", **level}}
    for name in (*_RULES, *ADVISORY_ONLY):
        rule = _RULES.get(name)
        own = {key: shared.get(key, value) for key, value in rule.keys.items()} if rule else {}
        form = {"$ref": "#/$defs/rule"} if own == shared else _level_or(level, own)
        properties[name] = {"description": rule.why if rule else _ADVISORY_DESCRIPTIONS[name], **form}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Configuration of the gpupools policy pack",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": {"level": _LEVEL, waivers.KEY: dict(waivers.SCHEMA), "rule": _level_or(level, shared)},
    }


def _level_or(level: JsonDict, own: JsonDict) -> JsonDict:
    properties = {"enforcementLevel": level, **own}
    return {"anyOf": [level, {"type": "object", "properties": properties, "additionalProperties": False}]}


def config_problems(document: object) -> list[Problem]:
    """Return the problems of a configuration: unknown names, wrong values, and mandatory rules that it weakens."""
    if not isinstance(document, Mapping):
        return [Problem((), f"got {shown(document)}", "write an object: policy name to level or to an object")]
    return [problem for key, value in document.items() for problem in _policy_problems(str(key), value, document)]


def _policy_problems(name: str, value: object, document: Mapping[Any, Any]) -> Iterator[Problem]:
    if name == "all":
        yield from _all_problems(value, document)
        return
    if new := waivers.RENAMED.get(name):
        yield Problem((name,), f"is now part of {new}", f"move its keys and waivers to {new}")
        return
    if name not in _RULES and name not in ADVISORY_ONLY:
        yield Problem((name,), "is not a policy of this pack", nearest(name, ("all", *_RULES, *ADVISORY_ONLY)))
        return
    if isinstance(value, str):
        yield from _level_problems((name,), name, value)
    elif isinstance(value, Mapping):
        for key, given in value.items():
            yield from _key_problems(name, str(key), given)
    else:
        yield Problem((name,), f"got {shown(value)}", f"write a level ({', '.join(_RANK)}) or an object")


def _all_problems(value: object, document: Mapping[Any, Any]) -> Iterator[Problem]:
    level = value.get("enforcementLevel") if isinstance(value, Mapping) else value
    if isinstance(value, Mapping):
        for key in value:
            if key != "enforcementLevel":
                yield Problem(("all", str(key)), "all takes a level only", "set it on the policy that has it")
    if not isinstance(level, str) or level not in _RANK:
        yield Problem(("all",), f"got {shown(level)}", f"use one of: {', '.join(_RANK)}")
        return
    lowered = [
        name
        for name, rule in _RULES.items()
        if rule.level is Level.MANDATORY and _RANK[level] < _RANK["mandatory"] and not _names_level(document.get(name))
    ]
    if lowered:
        what = f"{level} lowers mandatory rules: {', '.join(lowered)}"
        yield Problem(("all",), what, "set the level of each advisory policy by its name instead")
    hidden = [name for name in ADVISORY_ONLY if not _names_level(document.get(name))]
    if level == "disabled" and hidden:
        what = f"disabled hides findings: {', '.join(hidden)}"
        yield Problem(("all",), what, "set the level of each advisory policy by its name instead")


def _names_level(value: object) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and "enforcementLevel" in value)


def _key_problems(name: str, key: str, given: object) -> Iterator[Problem]:
    path = (name, key)
    if key == "enforcementLevel":
        yield from _level_problems(path, name, given)
        return
    own = _RULES[name].keys if name in _RULES else {}
    if key not in own:
        yield Problem(path, f"{name} has no such key", nearest(key, ("enforcementLevel", *own)))
        return
    if key == waivers.KEY and isinstance(given, list):
        for index, item in enumerate(given):
            if fault := waivers.waiver_problem(item):
                yield Problem((*path, index), "is not a valid waiver", fault)
        return
    if wanted := correction(given, own[key]):
        yield Problem(path, f"got {shown(given)}", wanted)


def _level_problems(path: tuple[str, ...], name: str, given: object) -> Iterator[Problem]:
    if not isinstance(given, str) or given not in _RANK:
        yield Problem(path, f"got {shown(given)}", f"use one of: {', '.join(_RANK)}")
        return
    rule = _RULES.get(name)
    if rule is not None and rule.level is Level.MANDATORY and _RANK[given] < _RANK["mandatory"]:
        verb = "disables" if given == "disabled" else "lowers"
        yield Problem(path, f"{verb} a mandatory rule", "leave the level out, or make it mandatory")
    if name in ADVISORY_ONLY and given == "disabled":
        yield Problem(
            path, f"hides findings: {_ADVISORY_DESCRIPTIONS[name]}", "leave the level out, or make it advisory"
        )


_MAX_BYTES = 1_048_576


def read_config(path: Path) -> tuple[object, list[Problem]]:
    """Return the parsed JSON of a configuration file, or None, and its problems."""
    twice: dict[str, None] = {}

    def noting_twice(pairs: Sequence[tuple[str, object]]) -> JsonDict:
        twice.update((key, None) for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return dict(pairs)

    try:
        document = json.loads(read_bytes(path, _MAX_BYTES).decode("utf-8"), object_pairs_hook=noting_twice)
    except OSError as error:
        return None, [Problem((), f"cannot be read: {error.strerror}", "name a policy configuration")]
    except (ValueError, RecursionError) as error:
        return None, [Problem((), f"is not JSON: {error}", "correct it; JSON allows no comments or trailing commas")]
    more = [Problem((), f"has the key {shown(each)} twice, and only the last one counts", "keep one") for each in twice]
    return document, more + config_problems(document)
