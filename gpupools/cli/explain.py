"""`gpupools explain TERM|PROBLEM`: explain a term, a key, a policy rule or an error message, with its source."""

import argparse
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

from gpupools.catalog.glossary import NEEDS_HEADERS, sharing_needs, words
from gpupools.catalog.gpus import match_gpu_model
from gpupools.catalog.key_synonyms import known_elsewhere, other_keys
from gpupools.cli.help_texts import examples, located_in
from gpupools.cli.schema import stack_schema
from gpupools.cli.stack_text import cluster_schema
from gpupools.common.errors import Problem, nearest
from gpupools.common.input_files import STANDARD_INPUT, read_bytes
from gpupools.common.json_types import JsonDict
from gpupools.console.output import Style, answer, tell, tell_parts
from gpupools.console.tables import tell_table
from gpupools.console.terminal import columns
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud, nearest_cloud
from gpupools.plan.matrix import matrix
from gpupools.plan.quotas import known_quotas
from gpupools.providers import clouds
from gpupools.ready.causes import error_texts
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.config_values import MAX_BYTES
from gpupools.stackfile.stack import StackPlan, quotas_of


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples(
        "gpupools explain MIG",
        "gpupools explain sharing",
        "gpupools explain gpu-pool-tainted",
        "gpupools explain nodes.min",
        "gpupools explain --file stacks/Pulumi.prod.yaml 'VcpuLimitExceeded: You have requested more vCPU capacity'",
        "gpupools explain 'pools.l4.sharing.mode: L4 cannot be cut into MIG instances'",
    )
    parser.add_argument("text", nargs="*", metavar="TERM|PROBLEM", help="- reads standard input; default: list all")
    parser.add_argument("--file", type=Path, help="stack file whose pools the error of a cloud may be about")
    parser.add_argument("--json", action="store_true")
    nothing: JsonDict = {"entries": [], "needs": []}
    parser.set_defaults(run=lambda given: explain(" ".join(given.text), given.json, given.file), nothing=nothing)


_KEYS_PAGE = "docs/reference/stack-file.md"


class Entry(NamedTuple):
    """An entry that can be explained."""

    name: str
    kind: str
    """`word` (a term), `rule`, `key` of a stack file or another tool, `refusal`, `cloud error` or `error`."""
    what: str
    source: str
    page: str


def explain(text: str, as_json: bool, file: Path | None = None) -> int:
    """Print the entries for a text, or a list of all without one; return 2 if there is none."""
    plan = None
    if text == "-":
        text = read_bytes(STANDARD_INPUT, MAX_BYTES).decode(errors="replace") or "-"
    if file is not None:
        with located_in(file, "failed"):
            plan = check_stack_file(file, clouds()).plan
    # As pasted from a terminal or a JSON log, with its colours, frames and line breaks.
    text = " ".join(re.sub(r"\\[nrt]|[│╷╵]", " ", re.sub(r"\x1b\[[0-9;]*[mK]", "", text)).replace('\\"', '"').split())
    found = _found(text, plan) if text else [*_words().values(), *_rules().values()]
    unknown = [] if found else [Problem((), f"no explanation for {text[:200]!r}", _instead(text))]
    needs = sharing_needs() if found and (found[0].name, found[0].kind) == ("sharing", "word") else ()
    if as_json:
        holds = {"entries": [entry._asdict() for entry in found], "needs": [need._asdict() for need in needs]}
        answer("explain", "failed" if unknown else "accepted", [problem.as_json() for problem in unknown], holds)
        return 2 if unknown else 0
    for problem in unknown:
        tell(problem, error=True)
    if not text:
        tell_table(
            [(entry.name, entry.kind, entry.what) for entry in found], ("term", "kind", "meaning"), widths=(28, 6, 90)
        )
        return 0
    for number, entry in enumerate(found):
        if number:
            tell("")
        _tell(entry)
    if needs:
        tell("")
        tell_table([need[:-1] for need in needs], NEEDS_HEADERS, widths=(12, 24, 24, 24, 24, 24))
        for source in dict.fromkeys(part for need in needs for part in need.source.split(" and ")):
            _tell_below(f"source: {source}")
    return 2 if unknown else 0


def _instead(text: str) -> str:
    """Return the command that explains an instance type, a GPU or a profile, or the closest term."""
    if match_gpu_model(text):
        return f"gpupools catalog --gpu {text.strip()} lists the instance types with it"
    if machines := [cloud for cloud in clouds().values() if cloud.instance_types.get(text.strip()) is not None]:
        return f"gpupools catalog --cloud {machines[0].name} lists it"
    if re.fullmatch(r"[1-9]g\.[0-9]+gb\S*", text.strip()):
        return "gpupools mig profiles --gpu MODEL lists the MIG profiles of a GPU"
    cloud = nearest_cloud(text, clouds())
    if cloud.startswith("write "):
        return f"for the cloud of a cluster, {cloud}"
    return nearest(text, [*_words(), *_rules()])


def _tell(entry: Entry) -> None:
    tell_parts((entry.name, Style.PLACE), (f" ({entry.kind})" if entry.kind != "word" else "", None))
    _tell_below(entry.what)
    if entry.source:
        _tell_below(f"source: {entry.source}")
    if entry.page:
        _tell_below(f"more: {entry.page}")


def _tell_below(text: str) -> None:
    """Print an indented sentence, wrapped to the width of a terminal, without breaking URLs."""
    width = columns(sys.stdout)
    lines = [text] if width is None else wrap(text, max(width - 2, 1), break_long_words=False, break_on_hyphens=False)
    for line in lines:
        tell(f"  {line}")


def _words() -> Mapping[str, Entry]:
    return {word.word: Entry(word.word, "word", word.what, word.source, word.page) for word in words()}


def _rules() -> Mapping[str, Entry]:
    rules = import_module("gpupools.policies.rules").ALL_RULES  # only here: they take a while
    return {
        rule.name: Entry(rule.name, "rule", f"{rule.level.value}: {rule.why} {rule.fix}", rule.url, rule.docs)
        for rule in rules
    }


def _found(text: str, plan: StackPlan | None = None) -> list[Entry]:
    """Return the entry that a text names, else its errors, and the rules, refusals and keys that it mentions."""
    names = [(name, word.word) for word in words() for name in (word.word, f"{word.word}s")]
    names += [(name, word.word) for word in words() for name in (word.also, *word.also.split())]
    asked = _normalized_text(text)
    if named := [word for name, word in names if _normalized_text(name) == asked]:
        return [_words()[named[0]], *_own_keys(text)]
    is_name = len(text.split()) == 1 and ":" not in text.removeprefix("gpupools:")
    if is_name and (keys := list(_keys(text))):
        return [*_own_keys(text), *keys]
    if errors := list(_errors(text, plan)):
        return errors
    rules = {_normalized_text(name): rule for name, rule in _rules().items()}
    if rule := rules.get(_normalized_text(text.strip("[]()'\"`.,"))):
        return [rule]
    if is_name:
        return list(_own_keys(text))
    refused = (entry for (_, why), entry in _refusals().items() if why in text)
    found = [*_rules_in(text), *refused, *_unknown_key(text)] or list(_keys_in(text))
    return list(dict.fromkeys(found))


def _normalized_text(text: str) -> str:
    return re.sub(r"[\s_-]+", "", text).casefold()


def _keys(key: str) -> Iterator[Entry]:
    for row in other_keys():
        if _normalized_text(row.key) == _normalized_text(key):
            of = f" A key of {row.used_by}." if row.used_by != "common" else ""
            what = f"In gpupools, at {row.in_place}: {row.write}.{of}"
            yield Entry(row.key, "key", what, row.source, _KEYS_PAGE)


def _errors(text: str, plan: StackPlan | None) -> Iterator[Entry]:
    """Yield what each error in a text means: a quota or capacity, which one, which pools, the next step."""
    for cloud in clouds().values():
        errors = error_texts(text, cloud)
        named = [name for name in cloud.instance_types if errors and _has_word(text, name)]
        codes = [code for code in known_quotas(cloud) if errors and _has_word(text, code)]
        pools = list(_pools_in(text, cloud, named, codes, plan)) if errors and plan is not None else []
        lists = (("Quota", codes), ("Instance type", named), ("Pool", pools))
        about = "".join(f" {word}: {', '.join(values)}." for word, values in lists if values)
        yield from _error_entries(errors, f" ({cloud.service})", about, "cloud error", "docs/reference/quotas.md")
    yield from _error_entries(error_texts(text), "", "", "error", "docs/how-to/troubleshoot.md")


def _error_entries(found: Sequence[Mapping[str, str]], of: str, about: str, kind: str, page: str) -> Iterator[Entry]:
    for row in found:
        what = f"{row['cause']}{of}: {row['what']}{about} Next: {row['next']}."
        yield Entry(row["text"], kind, what, row["source"], page)


def _pools_in(
    text: str, cloud: Cloud, types: Collection[str], codes: Collection[str], plan: StackPlan
) -> Iterator[str]:
    """Yield the pools of a stack file that an error of a cloud may be about, as `<cluster>/<pool>`.

    Those whose name is in the text, else those with its instance type, quota and region, as far as it has them.
    """
    own = [pool for pool in plan.pools if pool.cloud == cloud.name]
    # Names of nodes and groups begin with it.
    own = [pool for pool in own if re.search(rf"(?<![\w.-]){pool.cluster}-{pool.name}(?!\w)", text)] or own
    by_quota = {pool.key for need in quotas_of(plan, clouds()) if need.code in codes for pool in need.pools}
    regions = {plan.stack.clusters[pool.cluster].region_name() for pool in own}
    named = {region for region in regions if region and region in text}
    for pool_plan in own:
        key, region = f"{pool_plan.cluster}/{pool_plan.name}", plan.stack.clusters[pool_plan.cluster].region_name()
        is_meant = (not types or pool_plan.instance.name in types) and (not codes or key in by_quota)
        if is_meant and (not named or region in named):
            yield key


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text) is not None


def _own_keys(text: str) -> Iterator[Entry]:
    """Yield the keys of a stack file with this name or this end of a path, such as `nodes.min`."""
    parts = text.removeprefix("gpupools:").split(".")
    if parts[0] in ("pools", "clusters"):
        del parts[1:2]  # a name
    told: set[str] = set()
    for path, described in _described_keys():
        names = [part for part in path.split(".") if part != "<name>"]
        if names[-len(parts) :] == parts and described not in told and len(told) < 6:
            told.add(described)
            yield Entry(path, "key", described, "", _KEYS_PAGE)


@cache
def _described_keys() -> tuple[tuple[str, str], ...]:
    """Return the path and description of each key in the schema of a stack file, the shortest paths first."""
    whole = stack_schema()
    keys = _keys_below(whole["else"]["properties"]["config"], "", whole["definitions"], frozenset())
    described = dict.fromkeys((path.removeprefix(".gpupools:"), words) for path, words in keys if words)
    return tuple(sorted(described, key=lambda row: row[0].count(".")))


def _keys_below(
    schema: object, path: str, definitions: Mapping[str, Any], above: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield path and description of all keys that a part of a schema has; a definition inside itself once."""
    if isinstance(schema, list):
        for item in schema:
            yield from _keys_below(item, path, definitions, above)
    if not isinstance(schema, Mapping):
        return
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name in definitions and name not in above:
        yield from _keys_below(definitions[name], path, definitions, above | {name})
    for key, value in schema.get("properties", {}).items():
        if isinstance(value, Mapping):
            yield f"{path}.{key}", _description(value, definitions)
            yield from _keys_below(value, f"{path}.{key}", definitions, above)
    yield from _keys_below(schema.get("additionalProperties"), f"{path}.<name>", definitions, above)
    for word in ("items", "anyOf", "oneOf", "allOf", "then", "else"):
        yield from _keys_below(schema.get(word), path, definitions, above)


def _description(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    of_definition = definitions.get(str(schema.get("$ref", "")).rpartition("/")[2], {}).get("description", "")
    return " ".join(str(schema.get("description") or of_definition).split())


def _rules_in(text: str) -> Iterator[Entry]:
    if named := set(re.findall(r"(?<![a-z])[a-z]+(?:-[a-z]+)+", text)):
        yield from (rule for name, rule in _rules().items() if name in named)


@cache
def _refusals() -> Mapping[tuple[str, str], Entry]:
    """Return the refused cells of each cloud's matrix by their reason, of those with the same one the first."""
    refusals: dict[tuple[str, str], Entry] = {}
    for cloud in clouds().values():
        for row in (row for row in matrix(cloud) if row.verdict is Verdict.REFUSED):
            what = f"{row.why}; instead: {row.instead}" if row.instead else row.why
            entry = Entry(f"{row.sharing} on {cloud.service}", "refusal", what, row.source, "docs/reference/matrix.md")
            refusals.setdefault((cloud.name, row.why), entry)
    return refusals


def _unknown_key(text: str) -> Iterator[Entry]:
    match = re.search(r"(?<![\w-])([\w-]+): unknown key", text)
    if match is not None and known_elsewhere(match[1], [row.in_place for row in other_keys()]):
        yield from _keys(match[1])


def _keys_in(text: str) -> Iterator[Entry]:
    """Yield the keys of pools or clusters that an error message is about, of each cloud one."""
    match, source = re.search(r"\b(pools|clusters)\.[\w-]+[.:](.*)", text), re.search(r"\(see (https://[^\s)]+)", text)
    if match is None:
        return
    definitions = stack_schema()["definitions"]
    schemas = {f"a cluster of {cloud.service}": cluster_schema(cloud) for cloud in clouds().values()}
    for of, schema in {"a pool": definitions["StackPool"]}.items() if match[1] == "pools" else schemas.items():
        described = {key: _description(value, definitions) for key, value in schema["properties"].items()}
        key = next((item for item in re.findall(r"[a-z_]+", match[2]) if described.get(item)), None)
        if key is not None:
            yield Entry(key, "key", f"{described[key]} (of {of})", source[1] if source else "", _KEYS_PAGE)
