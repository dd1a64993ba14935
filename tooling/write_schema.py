"""Write `gpupools/data/stack-file.schema.json`, the JSON schema of a stack file for editors, from models and catalogs.

With `--check` it writes nothing and exits with 1 if the file is stale. Needs no network. It uses draft 07, which
editors fully support (https://github.com/redhat-developer/yaml-language-server#features).

The schema accepts everything that `gpupools check` accepts. Only check knows the cloud of a pool's cluster, the sizes
of machines, and most constraints between keys, except those in `_EXACTLY_ONE`.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gpupools.catalog.gpus import gpu_models, match_gpu_model
from gpupools.catalog.mig import profiles
from gpupools.common.taints import Effect
from gpupools.plan.order import MOST_STEPS
from gpupools.providers import clouds
from gpupools.spec.models import Cluster, Late, StackPool
from gpupools.spec.software_spec import TextForm
from gpupools.spec.teams import Team
from gpupools.stackfile.steps import FORMER, LISTS
from tooling.write_docs import STEPS_TEXT, meaning

SCHEMA = Path(__file__).resolve().parent.parent / "gpupools" / "data" / "stack-file.schema.json"

_ENCRYPTED = {
    "type": "object",
    "description": "A secret, as `pulumi config set --secret --path` writes it.",
    "properties": {"secure": {"type": "string"}},
    "required": ["secure"],
    "additionalProperties": False,
}
_KEY = r"^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$"
"""A key of clusters or pools; `gpupools.stackfile.stack_validation.bad_key`."""

_EXACTLY_ONE: Mapping[str, Sequence[Sequence[str]]] = {
    "StackPool": [("gpu", "instance_type")],
    "Nodes": [("max", "fixed")],
    "Mig": [("profile", "layout")],
    "Trust": [("team", "namespaces", "waiver")],
    "EksCluster": [("subnet_ids", "subnets_by_zone")],
}
_NOT_BESIDE: Mapping[str, Mapping[str, Sequence[str]]] = {
    "StackPool": {"instance_type": ["gpus_per_node"]},
    "Nodes": {"fixed": ["min"]},
    **{f"{each}Cluster": {"kubeconfig": ["endpoint", "certificate_authority"]} for each in ("Eks", "Aks", "Gke")},
}
_TOGETHER: Mapping[str, Sequence[tuple[str, str]]] = {
    f"{each}Cluster": [("endpoint", "certificate_authority"), ("certificate_authority", "endpoint")]
    for each in ("Eks", "Aks", "Gke")
}
_PATTERNS: Mapping[str, str] = {
    "_off": "off",
    "_absolute": r"~?/.*",
    # Of a region's direction, check knows more.
    "_is_a_region": r"[a-z]{2,4}(?:-[a-z]+){1,2}-[0-9]{1,2}",
    "_is_a_place": r"[a-z]+-[a-z]+[0-9]+(?:-[a-z])?",
}
"""What the functions that check a text take, unless they are a `TextForm`."""
_OTHER_SPELLINGS = (r"^[Ss][Tt][Aa][Nn][Dd][Aa][Rr][Dd]_\w+$", r"^n1-[a-z]+-[0-9]+\+[a-z0-9-]+:[0-9]+$")
"""Instance types that the catalogue writes otherwise, and finds: Azure's in any case, composed N1 machines."""


def _add_pattern(schema: JsonSchemaValue, pattern: str) -> None:
    """Add a pattern to the text that a schema takes, also in lists and maps."""
    if "string" in schema.get("type", ()) and "enum" not in schema:
        schema["pattern"] = pattern
    for each in (*schema.get("anyOf", ()), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(each, dict):
            _add_pattern(each, pattern)


class _Schema(GenerateJsonSchema):
    """The models' schema, with what pydantic cannot know of functions that check, and the docstrings below fields."""

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        assert schema["cls"] is Late
        return dict(_ENCRYPTED)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        effects = "|".join(effect.value for effect in Effect)
        example = "team=vision:NoSchedule"
        return {"type": "string", "pattern": rf"^[^=:\s]+(=[^:\s]*)?:({effects})$", "examples": [example]}

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        found = super().function_after_schema(schema)
        function = schema["function"]["function"]
        name = getattr(function, "__name__", "")
        if name == "_text_or_late":
            return dict(_ENCRYPTED)
        pattern = function.pattern.pattern if isinstance(function, TextForm) else _PATTERNS.get(name)
        return {**found, "pattern": f"^(?:{pattern})$"} if pattern is not None else found

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        name = getattr(schema["function"]["function"], "__name__", "")
        if name == "_fraction":
            part = {"type": "string", "pattern": "^[0-9]{1,3}(/[1-9][0-9]{0,2})?$"}
            return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 64}, part], "examples": [8, "1/4"]}
        if name == "_gpu_index":
            return {"type": "string", "pattern": "^(0|[1-9][0-9]?)$"}
        found = super().function_before_schema(schema)
        return {"anyOf": [{"type": "string", "minLength": 1}, found]} if name == "_software_from_name" else found

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        found = super().dict_schema(schema)
        keys = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {"type": "string"}
        inner = {key: value for key, value in keys.items() if key not in ("type", "title")}
        for pattern, value in found.pop("patternProperties", {}).items():
            inner["pattern"], found["additionalProperties"] = pattern, value
        return {**found, "propertyNames": inner} if inner else found

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Choose by `mode`, so that an editor complains about the mode that is meant."""
        found = super().tagged_union_schema(schema)
        tag = found.pop("discriminator", {}).get("propertyName")
        if tag is None:
            return {"anyOf": found["oneOf"]}
        return _chosen(tag, {str(mode): self.generate_inner(choice) for mode, choice in schema["choices"].items()})

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found, model = super().model_schema(schema), schema["cls"]
        for key, value in found["properties"].items():
            value.pop("title", None)
            value["description"] = meaning(model, key)
            if isinstance(default := value.get("default"), dict | list) or default is None:
                value.pop("default", None)
            form = model.forms.get(key) if issubclass(model, Cluster) else None
            if form is not None and form.pattern and not form.pattern.startswith("(?i)"):  # which editors do not know
                _add_pattern(value, f"^(?:{form.pattern})$")
            if examples := re.findall(r"e\.g\. `([^`]+)`", value["description"]):
                value.setdefault("examples", examples)
        either = {key for keys in _EXACTLY_ONE.get(model.__name__, ()) for key in keys}
        found["required"] = [key for key in found.get("required", ()) if key not in either]
        return {**found, **_relations(model)}

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        found = super().nullable_schema(schema)
        plain: dict[str, Any] = next((each for each in found.get("anyOf", ()) if isinstance(each.get("type"), str)), {})
        inner = {key: value for key, value in plain.items() if key not in ("enum", "const")}
        if len(found.get("anyOf", ())) == 2 and plain == inner and plain.get("type") != "null":
            return {**plain, "type": [plain["type"], "null"]}
        return found


def _given(key: str) -> dict[str, Any]:
    return {"required": [key], "properties": {key: {"not": {"type": "null"}}}}


def _relations(model: type[BaseModel]) -> dict[str, Any]:
    """Say which keys exclude or need each other."""
    found: list[Any] = [{"oneOf": list(map(_given, keys))} for keys in _EXACTLY_ONE.get(model.__name__, ())]
    for key, others in _NOT_BESIDE.get(model.__name__, {}).items():
        found.append({"if": _given(key), "then": {"properties": {other: {"type": "null"} for other in others}}})
    found += [{"if": _given(key), "then": _given(other)} for key, other in _TOGETHER.get(model.__name__, ())]
    return {"allOf": found} if found else {}


def _chosen(tag: str, kinds: Mapping[str, JsonSchemaValue]) -> JsonSchemaValue:
    """Let one key say which of several schemas a map has to meet."""
    ways = [
        {"if": {"type": "object", "required": [tag], "properties": {tag: {"const": word}}}, "then": kind}
        for word, kind in kinds.items()
    ]
    return {"type": "object", "required": [tag], "properties": {tag: {"enum": list(kinds)}}, "allOf": ways}


def _any_case(words: Iterable[str]) -> str:
    letters = "|".join("".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in w) for w in words)
    return f"^({letters})$"


def _gpus() -> JsonSchemaValue:
    names = list(gpu_models())
    offered = [{row.gpu_model for row in cloud.instance_types.values()} for cloud in clouds().values()]
    # `A100` is a name where a cloud has one of them.
    shorter = {name[: at.start()] for name in names for at in re.finditer("-", name)}
    clear = {each for each in shorter for here in offered if len(here.intersection(match_gpu_model(each))) == 1}
    plain = sorted({*names, *clear})
    return {"anyOf": [{"enum": names}, {"type": "string", "pattern": _any_case(plain)}, {"type": "null"}]}


def _instance_types() -> JsonSchemaValue:
    names = [name for cloud in clouds().values() for name in cloud.instance_types]
    others = ({"type": "string", "pattern": spelling} for spelling in _OTHER_SPELLINGS)
    return {"anyOf": [{"enum": names}, *others, {"type": "null"}]}


def _overrides() -> JsonSchemaValue:
    def resource(inputs: Iterable[str]) -> JsonSchemaValue:
        return {"type": "object", "propertyNames": {"enum": sorted(inputs)}}

    def maps(of: Mapping[str, JsonSchemaValue]) -> JsonSchemaValue:
        return {"type": "object", "properties": dict(of), "additionalProperties": False}

    return maps(
        {
            name: maps({kind: resource(value.inputs) for kind, value in cloud.node_pools.overridable.items()})
            for name, cloud in clouds().items()
        }
    )


def _or_json(schema: JsonSchemaValue, bracket: str) -> JsonSchemaValue:
    """Take a value as text too, where it is JSON: `pulumi config set` without `--path` writes it so."""
    text = {"pattern": rf"^\s*\{bracket}"}
    return {"if": {"type": "string"}, "then": text, "else": schema}


def definitions() -> dict[str, Any]:
    """Return the schemas of all models by name, of pools without lists of steps."""
    clusters = {name: cloud.cluster for name, cloud in clouds().items()}
    wanted: list[type[BaseModel]] = [StackPool, Team, *clusters.values()]
    for model in wanted:
        model.model_rebuild()
    core: list[Any] = [(model, "validation", model.__pydantic_core_schema__) for model in wanted]
    _, found = _Schema(by_alias=True, ref_template="#/definitions/{model}").generate_definitions(core)
    models: dict[str, Any] = dict(sorted(found.items()))
    for definition in models.values():
        definition.pop("title", None)
        mode = definition.get("properties", {}).get("mode", {})
        if "const" in mode:
            definition["required"] = sorted({*definition.get("required", ()), "mode"})
    slices = list(
        dict.fromkeys(each.name for gpu, model in gpu_models().items() if model.mig_profiles for each in profiles(gpu))
    )
    pool, mig = models["StackPool"]["properties"], models["Mig"]["properties"]
    for properties, key, kind in (
        (pool, "gpu", _gpus()),
        (pool, "instance_type", _instance_types()),
        (pool, "overrides", _overrides()),
        (mig, "profile", {"anyOf": [{"enum": slices}, {"type": "null"}]}),
    ):
        properties[key] = {**kind, "description": properties[key]["description"]}
    for name, cloud in clouds().items():
        for key, value in cloud.example_cluster.items():
            if key != "cloud":
                models[clusters[name].__name__]["properties"][key]["examples"] = [value]
    one = {"clusters": ["train"], "gpu": "L4", "nodes": {"max": 4}}
    shared = {**one, "sharing": {"mode": "time-slicing", "replicas": 4}, "trust": {"team": "research"}}
    models["StackPool"]["examples"] = [one, shared]
    models["Team"]["examples"] = [
        {"namespaces": ["research"], "guarantee": {"big": 16}, "limit": {"big": 32}, "weight": 2}
    ]
    models["Cluster"] = {
        **_chosen("cloud", {name: {"$ref": f"#/definitions/{model.__name__}"} for name, model in clusters.items()}),
        "description": "An existing Kubernetes cluster.",
        "examples": [dict(cloud.example_cluster) for cloud in clouds().values()],
    }
    return models


def _or_steps(one: JsonSchemaValue, models: dict[str, Any], name: str) -> JsonSchemaValue:
    """Take a list of steps beside one value, whose schema is added to the models."""
    models[name] = {key: value for key, value in one.items() if key != "description"}
    text, each = f"{one['description']} Or a list: {STEPS_TEXT}.", {"$ref": f"#/definitions/{name}"}
    steps = {"minItems": 1, "maxItems": MOST_STEPS, "items": each}
    return {"description": text, "if": {"type": "array"}, "then": steps, "else": each}


def _or_former_steps(one: JsonSchemaValue) -> JsonSchemaValue:
    text = f"{one['description']} Of a pool with steps also a list: one key for each step, null for a new one."
    items = {"type": ["string", "null"], "minLength": 1, "maxLength": 100}
    return {**one, "type": [*one["type"], "array"], "items": items, "description": text}


def schema() -> JsonSchemaValue:
    """Return the schema of a whole stack file."""
    models = definitions()
    pool = models["StackPool"]["properties"]
    pool |= {key: _or_steps(pool[key], models, key) for key in LISTS} | {
        key: _or_former_steps(pool[key]) for key in FORMER
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Stack file of gpupools",
        "description": "GPU node pools of one environment: Pulumi.<stack>.yaml.",
        "type": "object",
        "properties": {"config": {"type": "object"}, "environment": {"type": ["array", "object"]}},
        "if": _ELSEWHERE,
        "else": {"required": ["config"], "properties": {"config": _config()}},
        "definitions": models,
    }


_ELSEWHERE = {
    "required": ["environment"],
    "properties": {
        "environment": {
            "type": "object",
            "required": ["values"],
            "properties": {"values": {"type": "object", "required": ["pulumiConfig"]}},
        }
    },
}
"""Part of the configuration stands in the definition of an environment, so that what is here may be half of a map."""


def _config() -> JsonSchemaValue:
    def named(definition: str, description: str) -> JsonSchemaValue:
        each = {"$ref": f"#/definitions/{definition}"}
        keys = {"pattern": _KEY}
        whole = {"type": "object", "minProperties": 1, "propertyNames": keys, "additionalProperties": each}
        return {"description": description, **_or_json(whole, "{")}

    destroyed = {
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "string", "pattern": f"{_KEY[:-1]}(/{_KEY[1:-1]})?$"},
    }
    disrupted = destroyed | {"items": {"type": "string", "pattern": f"{_KEY[:-1]}/{_KEY[1:-1]}$"}}
    amount = {"type": "number", "exclusiveMinimum": 0}
    keys = {
        "clusters": named("Cluster", "Existing clusters by name; the name becomes part of resource names."),
        "pools": named("StackPool", "GPU node pools by name; the name becomes part of resource names."),
        "production": {
            "description": "Protect every pool that does not say `protect: false`, and its software.",
            "enum": [True, False, "true", "false"],
        },
        "allow_destroy": {
            "description": "What an update may replace or delete: `<cluster>/<pool>`, or `<cluster>` for its software.",
            **_or_json(destroyed, "["),
        },
        "allow_disruption": {
            "description": "Production pools, as `<cluster>/<pool>`, of which an update may end pods: by an edit on "
            "several nodes at once, or by software such as a driver, node by node.",
            **_or_json(disrupted, "["),
        },
        "budget": {
            "description": "The most that the pools may cost with all nodes per hour.",
            **_or_json(
                {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": False,
                    "properties": {
                        "per_hour": {"description": "Of all pools.", **amount},
                        "pools": {
                            "description": "By `<cluster>/<pool>`.",
                            "type": "object",
                            "additionalProperties": amount,
                        },
                        "unpriced": {
                            "description": "Leave pools without a known price out of the sum.",
                            "const": "allow",
                        },
                    },
                },
                "{",
            ),
        },
        "prices": {
            "description": "CSV file in the project with the team's own prices: type, region, price, currency.",
            "type": "string",
            "minLength": 1,
        },
        "teams": named("Team", "Teams that share the pools by name, which is the name of the team's queue."),
        "quotas": {
            "description": "Limits by the code or metric of the quota, in vCPUs or GPUs per account and region.",
            **_or_json({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}, "{"),
        },
    }
    others = "|".join(keys)
    return {
        "type": "object",
        "properties": {f"gpupools:{key}": value for key, value in keys.items()},
        "patternProperties": {
            **{
                f"^(gpupools:config:)?{key}$": {"$ref": f"#/else/properties/config/properties/gpupools:{key}"}
                for key in keys
            },
            f"^(gpupools:(config:)?)?(?!(config:)?({others})$)[^:]*$": False,
        },
        "allOf": [
            {"anyOf": [{"required": [f"{before}{key}"]} for before in ("gpupools:", "gpupools:config:", "")]}
            for key in ("clusters", "pools")
        ],
    }


def text() -> str:
    """Return the text of the file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both files, or with `--check` compare them."""
    from gpupools.components.package import FILE
    from tooling import write_package_schema  # it is made of this one

    parser = argparse.ArgumentParser(description="Write the JSON schema of a stack file, and that of the components.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    check = parser.parse_args(arguments).check
    written = {SCHEMA: text(), FILE: write_package_schema.text()}
    stale = [file for file, now in written.items() if not file.is_file() or file.read_text(encoding="utf-8") != now]
    for file in stale:
        if check:
            print(f"{file}: stale; run python tooling/write_schema.py")
        else:
            file.write_text(written[file], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
