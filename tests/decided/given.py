"""What other tests give to the readers and the rules, and everything that is read and found there, in lines."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import islice, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.documents.document import Document, Resource
from gpupools.policies.documents.judging import Config, judge_document
from gpupools.policies.rules import judge_pool, taint_can_be_added
from gpupools.policies.stack_rules import ALL_RULES
from gpupools.providers import clouds
from gpupools.providers.aws.user_data import read_user_data
from gpupools.read.cluster_api import read_owner
from gpupools.read.inputs import mapping, with_taint
from gpupools.read.kubernetes_pools import read_kubernetes_pools, read_template
from gpupools.read.packed import packed_inside, unpacked
from tests.decided.corpus import LONGEST, lines, short
from tests.policies import test_corpus
from tests.providers import test_user_data_that_may_join, test_whole_pools

TESTS = Path(__file__).parents[1]
SCRIPTS = (
    *("providers.test_user_data_read_back", "providers.test_user_data_that_may_join", "providers.test_boot"),
    *("gpupools.test_packed_lines", "gpupools.test_scripts", "policies.documents.test_script_commands"),
)
PACKED = ("gpupools.test_packed", "gpupools.test_packed_lines")
OBJECTS = (
    *("gpupools.test_kubernetes_pools", "providers.test_read_back", "providers.test_aws_read_back"),
    *("providers.test_azure_read_back", "providers.test_gcp_read_back", "providers.test_azure_templates"),
    *("providers.test_aws_cloudformation", "policies.documents.test_cluster_api", "policies.test_customised"),
    *("policies.documents.test_karpenter", "policies.documents.test_foreign_machines"),
    *("policies.documents.test_held_elsewhere", "policies.documents.test_odd_forms"),
    *("policies.documents.test_understood", "policies.test_understood_over_grpc", "policies.test_rules_over_grpc"),
)
MOST = 20_000
"""Characters of what is read; longer ones are about the time that it takes."""
MOST_STACKS = 10
"""Stacks inside each other that are looked through."""
MOST_LINES = 12
"""Lines of user data that are left out in turn."""
SHAPES = 1
"""How often each property of a type is spoilt."""
MOST_PROPERTIES = 30
"""Properties of one resource that are spoilt."""
SPOILT: tuple[Any, ...] = (None, UNKNOWN, 7, "x", [], {"x": [1]})
"""What is put in the place of a property; None leaves it out."""
STRICT = Config(
    options={
        "gpu-pool-bounded": {"maxNodesPerPool": 3},
        "gpu-pool-protected": {"stacks": ["*"]},
        "gpu-pool-owned": {"labels": ["owner"]},
        "gpu-node-customised": {"identities": ["allowed-*"], "reasons": {"*/user-data": "drivers"}},
        "gpu-sharing-trusted": {"waived": ["gpu"]},
        "gpu-node-hardened": {"unknownAtPreview": "violation"},
        "gpu-pool-tainted": {"unknownAtPreview": "advisory"},
    }
)


def _module(name: str) -> ModuleType:
    return import_module(f"tests.{name}")


def _rows(module: ModuleType) -> Iterator[Any]:
    """Yield what the tests of a module are parametrized with, and its constants."""
    for name, value in vars(module).items():
        if name.isupper():
            yield value
        for mark in getattr(value, "pytestmark", ()) if getattr(value, "__module__", "") == module.__name__ else ():
            if mark.name == "parametrize":
                yield from (getattr(row, "values", row) for row in mark.args[1])


def _inside(value: Any, kind: type) -> Iterator[Any]:
    """Yield the values of a kind in others; of a mapping in one that is of the kind nothing more."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from (*_inside(key, kind), *_inside(item, kind))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _inside(item, kind)


def _found(modules: Iterable[str], kind: type) -> Mapping[str, Any]:
    return {
        f"{name.rpartition('.')[2]} {kind.__name__} {number}": value
        for name in modules
        for number, value in enumerate(one for row in _rows(_module(name)) for one in _inside(row, kind))
    }


@cache
def user_data() -> Mapping[str, str]:
    """Return texts that are user data, or are none."""
    table = {case["id"]: case["given"] for case in _module("providers.test_user_data_read_back").table()}
    fetched = test_user_data_that_may_join.table()
    table |= {f"{word} {number}": text for word, texts in fetched.items() for number, text in enumerate(texts)}
    table |= {case: text for case, text in _found(SCRIPTS, str).items() if "\n" in text or " " in text}
    bare = {f"{case}, run": f"#!/bin/bash\n{text}\n" for case, text in table.items() if not text.startswith("#")}
    return {case: text for case, text in (table | bare).items() if len(text) < MOST}


def in_user_data(text: str) -> Collection[str]:
    """Return what is read of a text that is user data."""
    inside = [(one.path, one.text, one.opaque) for one in packed_inside(text)]
    whole = list(lines("read", read_user_data(text, "mine.data")))
    changed = {"another spelling": text.replace("NoSchedule", "NO_SCHEDULE"), "a variable": text.replace("=", "=$A")}
    rows = text.splitlines(keepends=True)[:MOST_LINES]
    changed |= {f"without line {at}": "".join(rows[:at] + rows[at + 1 :]) for at in range(len(rows))}
    now = {
        how: [line for line in lines("read", read_user_data(one, "mine.data")) if line not in whole]
        for how, one in changed.items()
    }
    return [
        *whole,
        *(short(f"inside {one!r}", LONGEST) for one in inside),
        *(f"{how} {line}" for how, found in now.items() for line in found),
    ]


@cache
def packings() -> Mapping[str, str]:
    """Return texts and bytes that hold others."""
    raw = {case: base64.b64encode(value).decode() for case, value in _found(PACKED, bytes).items()}
    return {case: text for case, text in {**raw, **_found(PACKED, str)}.items() if len(text) < MOST}


def in_packing(text: str) -> Collection[str]:
    """Return what is inside a text; what says the time at which it was made is not told."""
    ways = {"": unpacked(text), "encoded": unpacked(text, encoded=True), "in a script": packed_inside(text)}
    return [
        short(repr((number, way, one.path, one.opaque, one.text if one.text != text else "itself")), LONGEST)
        for way, found in ways.items()
        for number, one in enumerate(found)
    ]


def _as_resource(given: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if isinstance(given.get("apiVersion"), str) and isinstance(given.get("kind"), str):
        return {"type": f"kubernetes:{given['apiVersion']}:{given['kind']}", "inputs": given}
    if isinstance(given.get("Resources"), Mapping):
        return {"type": "aws:cloudformation/stack:Stack", "inputs": {"templateBody": given}}
    if isinstance(given.get("type"), str) and isinstance(given.get("inputs"), Mapping):
        return given
    return None


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the resources in a value; a pair of a token and a mapping is one."""
    if isinstance(value, Mapping):
        found = _as_resource(value)
        yield from [found] if found else (one for item in value.values() for one in _objects(item))
    elif isinstance(value, list | tuple):
        for token, inputs in pairwise(value):
            if isinstance(token, str) and ":" in token and " " not in token and isinstance(inputs, Mapping):
                yield {"type": token, "inputs": inputs}
        for item in value:
            yield from _objects(item)
    elif isinstance(value, str) and "apiVersion:" in value and len(value) < MOST:
        try:
            yield from _objects([one for one in yaml.safe_load_all(value) if isinstance(one, Mapping)])
        except yaml.YAMLError:
            return


def _nested(steps: int) -> Mapping[str, Any]:
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": {"InstanceTypes": ["g5.xlarge"]}}
    template: Mapping[str, Any] = {"Resources": {"G": group, "X": {"Type": "Custom::X"}}}
    for _ in range(steps):
        template = {
            "Resources": {"S": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateBody": template}}}
        }
    return {"type": "aws:cloudformation/stack:Stack", "inputs": {"templateBody": template}}


@cache
def resources() -> Mapping[str, Mapping[str, Any]]:
    """Return resources by what is tested of them, each with those `beside` it."""
    found = {case["id"]: case for case in (*test_corpus.cases(), *test_whole_pools.cases())}
    for name in OBJECTS:
        for number, one in enumerate(one for row in _rows(_module(name)) for one in _objects(row)):
            found[f"{name.rpartition('.')[2]} {number}"] = one
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found |= yaml.load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"), loader)
    found |= {f"stacks in {steps} stacks": _nested(steps) for steps in (1, *range(MOST_STACKS - 1, MOST_STACKS + 3))}
    every = {repr((one["type"], one["inputs"], one.get("beside"))): case for case, one in reversed(found.items())}
    return {case: one for case, one in found.items() if case in set(every.values()) and one["inputs"]}


def known(value: Any) -> Any:
    """Put in what stands for values that are not known yet and for secrets."""
    if isinstance(value, Mapping):
        return (
            known(value["<secret>"]) if set(value) == {"<secret>"} else {key: known(one) for key, one in value.items()}
        )
    return (
        [known(one) for one in value] if isinstance(value, list | tuple) else UNKNOWN if value == "<unknown>" else value
    )


def facts(token: str, inputs: Any) -> Iterator[str]:
    """Say everything that is read of a resource."""
    pools = [("", pool) for pool in read_kubernetes_pools(token, inputs, clouds())]
    for name, cloud in clouds().items():
        reading = cloud.reading()
        pools += [(f"{name} ", pool) for pool in reading.read_pools(token, inputs)]
        for what in ("read_template", "unread"):
            found = getattr(reading, what)(token, inputs)
            yield from lines(f"{name} {what}", found) if found else ()
        for what in ("overridden", "held_types"):
            yield from (f"{name} {what} {one}" for one in getattr(reading, what)(token, inputs))
    for number, (whose, pool) in enumerate(pools):
        yield from lines(f"{whose}pool {number}", pool)
        added = set(_paths(with_taint(mapping(inputs), pool) or {})) - set(_paths(inputs))
        where = sorted(".".join(map(str, path)) for path in added)
        yield short(f"{whose}pool {number} with its taint, {taint_can_be_added(pool)}: {where}", LONGEST)
        yield from (f"{whose}pool {number} by itself: {rule.name} {one.unverified}" for rule, one in judge_pool(pool))
    for what, one in (("template", read_template(token, inputs, clouds())), ("owner", read_owner(token, inputs))):
        yield from lines(what, one) if one else ()


def read(case: Mapping[str, Any]) -> Collection[str]:
    """Return everything that is read of a resource."""
    return [
        line for line in facts(case["type"], known(case["inputs"])) if not line.endswith((": []", ": {}", ": null"))
    ]


def judged(case: Mapping[str, Any]) -> Collection[str]:
    """Return everything that the rules have against a resource together with those beside it."""
    beside = {f"urn:{number}": one for number, one in enumerate(case.get("beside", ()))}
    refers: dict[str, tuple[str, ...]] = {}
    for urn, one in beside.items():
        if "made" in one:
            refers[one["made"]] = (*refers.get(one["made"], ()), urn)
    others = [Resource(urn, one["type"], known(one["inputs"])) for urn, one in beside.items()]
    mine = Resource("urn:mine", case["type"], known(case["inputs"]), refers=refers, stack="prod")
    found: list[str] = []
    for word, config in (("", Config()), ("strict ", STRICT)):
        told = judge_document(Path("file"), Document("Pulumi preview", (*others, mine)), config)
        rows = [f"gaps {told.gaps} {told.not_understood} judged {told.judged} {told.gpu_pools} {told.answers}"]
        for each in told.found:
            shown = {**each.as_json(), "property": each.finding.property, "found": each.finding.found}
            rows += [
                json.dumps({key: one for key, one in shown.items() if one not in ("", None, False, 1)}, default=str)
            ]
            rows += [f"fix {each.finding.fix}"]
        found += [f"{word}{row}" for row in rows]
    return [short(row, LONGEST) for row in found]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, item in (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from _paths(item, (*path, key))


def _with(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        if not rest and other is None:
            return {key: item for key, item in value.items() if key != step}
        return {
            key: (_with(item, rest, other) if rest else other) if key == step else item for key, item in value.items()
        }
    if not rest and other is None:
        return [*value[:step], *value[step + 1 :]]
    return [*value[:step], _with(value[step], rest, other) if rest else other, *value[step + 1 :]]


@cache
def properties() -> Mapping[str, Mapping[str, tuple[Any, ...]]]:
    """Return by case which properties are spoilt: of each type all, but each in few cases."""
    seen: Counter[tuple[Any, ...]] = Counter()
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for case, one in resources().items():
        for path in islice(_paths(known(one["inputs"])), MOST_PROPERTIES):
            shape = (one["type"], *("[]" if isinstance(step, int) else step for step in path))
            seen[shape] += 1
            if seen[shape] <= SHAPES:
                found.setdefault(case, {})[".".join(map(str, path))] = path
    return found


def spoilt(case: str) -> Collection[str]:
    """Return a digest of what is read of a resource with each of its properties left out, not known yet or wrong."""
    one = resources()[case]
    inputs, found = known(one["inputs"]), []
    for named, path in properties()[case].items():
        told = [list(facts(one["type"], _with(inputs, path, other))) for other in SPOILT]
        digest = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:10]
        found.append(f"{case}: {named} spoilt: {digest}")
    return found


def rule(name: str) -> Collection[str]:
    """Return what a rule says of itself."""
    mine = next(each for each in ALL_RULES if each.name == name)
    shown = {key: getattr(mine, key) for key in ("level", "severity", "why", "fix", "url", "docs", "keys", "framework")}
    return list(lines(name, shown))
