"""Make `components/gpupools/components/package.schema.json`, the Pulumi schema of the components for other languages.

`tooling/write_schema.py` writes it. Names, types and descriptions are those of the stack file's schema, with keys in
camelCase as on Pulumi's wire. Pulumi's own inference from Python types has no words for a choice of texts
(https://www.pulumi.com/docs/iac/guides/building-extending/packages/schema/).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from inspect import get_annotations
from typing import Any, get_args, get_origin

from gpupools.components.gpu_node_pool import GpuNodePool, GpuNodePoolArgs
from gpupools.components.gpu_runtime import GpuRuntime, GpuRuntimeArgs
from gpupools.components.package import camel
from gpupools.providers import clouds
from gpupools.spec.cluster_access import ReachableCluster
from gpupools.spec.models import Cluster
from tooling import write_schema
from tooling.write_docs import field_texts

Schema = Mapping[str, Any]

_COMPONENTS: Mapping[type, type] = {GpuNodePool: GpuNodePoolArgs, GpuRuntime: GpuRuntimeArgs}
_NAMES: Mapping[str, str] = {"StackPool": "Pool", "NodeImage": "Image", "RuntimeSpec": "Runtime"}
"""What definitions of the stack file are called here, where not as they are there."""
_CHOSEN: Mapping[tuple[str, str], str] = {
    ("StackPool", "sharing"): "Sharing",
    ("Mig", "share"): "SliceSharing",
    ("StackPool", "capacity"): "Capacity",
}
"""What a map whose `mode` chooses its other keys is called."""
_DESCRIBED: Mapping[str, str] = {
    "Sharing": "How containers share a GPU; `mode` says which of the other keys go with it.",
    "SliceSharing": "How containers share each MIG slice.",
    "Capacity": "How machines are bought; `mode` says which of the other keys go with it.",
    "Pool": "One GPU node pool. All its keys are plain values, since the plan depends on them.",
    "Cluster": "An existing cluster: the keys that go with `cloud`.",
}
_NO_ARGUMENTS = {
    "cloud",
    "stack",
    *(key for cloud in clouds().values() for key in cloud.cluster.identity),
    *(ReachableCluster.model_fields.keys() - Cluster.model_fields.keys()),
}
"""Keys of a cluster that make the stack program's providers; here the component's options name them."""
_OF_STACK_FILES = {("StackPool", "clusters"), ("StackPool", "mixed"), ("RuntimeSpec", "wait_ready")}
_OPEN = ("instance_type", "profile")
"""Keys of which a schema for editors lists what is known, of hundreds."""


class _Package:
    """Pulumi's types, made of the definitions that components reach."""

    def __init__(self, definitions: Schema) -> None:
        self.definitions = definitions
        self.types: dict[str, Any] = {}

    def named(self, definition: str) -> str:
        """Return the name of an object type, after making it."""
        name = _NAMES.get(definition, definition)
        if name not in self.types:
            text = _DESCRIBED.get(name, self.definitions[definition].get("description", ""))
            self._make(name, text, {None: definition})
        return name

    def chosen(self, name: str, ways: Iterable[Schema]) -> str:
        """Return the name of an object type that has the keys of several definitions, one of which `mode` chooses."""
        if name not in self.types:
            parts = [way["then"]["$ref"].rpartition("/")[2] for way in ways]
            modes = {self.definitions[part]["properties"]["mode"]["const"]: part for part in parts}
            self._make(name, _DESCRIBED[name], modes)
            said = {word: self.definitions[value]["properties"]["mode"]["description"] for word, value in modes.items()}
            mode = self.enum(f"{name}Mode", _DESCRIBED[name], list(modes), said)
            text = "; ".join(f"`{word}`: {spelled(value).rstrip('.')}" for word, value in said.items())
            self.types[name]["properties"]["mode"] = {**mode, "description": f"{text}."}
        return name

    def cluster(self) -> str:
        """Return the name of the type of a cluster: the keys of every cloud, each saying whose it is."""
        self._make("Cluster", _DESCRIBED["Cluster"], {name: cloud.cluster.__name__ for name, cloud in clouds().items()})
        return "Cluster"

    def _make(self, name: str, description: str, parts: Mapping[Any, str]) -> None:
        """Make an object type of the keys of one definition, or of several by the word that chooses them."""
        self.types[name] = {}
        properties: dict[str, Any] = {}
        said: dict[str, dict[str | None, str]] = {}
        for word, definition in parts.items():
            for key, found in self.definitions[definition]["properties"].items():
                if (definition, key) in _OF_STACK_FILES or (name == "Cluster" and key in _NO_ARGUMENTS):
                    continue
                text = _DESCRIBED.get(_CHOSEN.get((definition, key), ""), found["description"])
                said.setdefault(key, {})[word] = text
                if key not in properties:
                    properties[key] = self._type(name, definition, key, found)
        required = [set(self.definitions[part].get("required", ())) for part in parts.values()]
        self.types[name] = {
            "type": "object",
            "description": spelled(description),
            "properties": {
                camel(key): {**found, "description": _joined_text(said[key], len(parts))}
                for key, found in properties.items()
            },
            "required": sorted(camel(key) for key in set.intersection(*required) if key in properties),
        }

    def enum(
        self, name: str, description: str, values: Sequence[str], texts: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return a reference to a choice of texts, after making it."""
        members = [{"name": _member(value), "value": value} for value in values]
        for member in members:
            if texts:
                member["description"] = spelled(texts[member["value"]])
        self.types[name] = {"type": "string", "description": spelled(description), "enum": members}
        return _reference(name)

    def _type(self, name: str, definition: str, key: str, found: Schema) -> dict[str, Any]:
        """Return Pulumi's type of a key."""
        if key == "overrides":
            return _map(_map(_map({"$ref": "pulumi.json#/Any", "plain": True})))
        if any("if" in way for way in found.get("allOf", ())):
            return _reference(self.chosen(_CHOSEN[(definition, key)], found["allOf"]))
        ways = [way for way in _ways(found) if way.get("type") != "null" and not _is_secret(way)]
        others = [way for way in ways if not way.get("$ref", "").endswith("/StackOutput")]
        maps = [other for other in others if "$ref" in other and not self._is_text(other)]
        if maps:  # a text beside it is short for the map
            others = maps
        values = next((_words(other) for other in others if _words(other)), None)
        if values is not None:
            if key in _OPEN:
                return {"type": "string", "plain": True}
            return self.enum(f"{name}{camel(key)[:1].upper()}{camel(key)[1:]}", found.get("description", ""), values)
        types = [self._simple(name, definition, key, other) for other in others]
        made = types[0] if len(types) == 1 else {"oneOf": types, "plain": True}
        return made if others == ways or maps else _without_plain(made)

    def _is_text(self, found: Schema) -> bool:
        return bool(self.definitions[found["$ref"].rpartition("/")[2]].get("type") == "string")

    def _simple(self, name: str, definition: str, key: str, found: Schema) -> dict[str, Any]:
        if "$ref" in found and not self._is_text(found):
            return _reference(self.named(found["$ref"].rpartition("/")[2]))
        kind = found.get("type", "string")
        kind = next(each for each in kind if each != "null") if isinstance(kind, list) else kind
        if kind == "array":
            return {"type": "array", "items": self._type(name, definition, key, found["items"]), "plain": True}
        if kind == "object":
            return _map(self._type(name, definition, key, found["additionalProperties"]))
        return {"type": kind, "plain": True}


def _joined_text(said: Mapping[str | None, str], parts: int) -> str:
    """Join what several ways say of one key, and say whose it is where not all have it."""
    whose: dict[str, list[str | None]] = {}
    for word, text in said.items():
        whose.setdefault(text, []).append(word)
    if len(whose) == 1 and len(said) == parts:
        return spelled(next(iter(whose)))
    return " ".join(f"For {', '.join(f'`{word}`' for word in words)}: {spelled(text)}" for text, words in whose.items())


def _words(found: Schema) -> list[str]:
    """Return the texts of which a value is one; empty where it may be any."""
    return list(found.get("enum", [found["const"]] if "const" in found else []))


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/types/gpupools:index:{name}", "plain": True}


def _ways(found: Schema) -> list[Schema]:
    return [inner for each in found["anyOf"] for inner in _ways(each)] if "anyOf" in found else [found]


def _is_secret(found: Schema) -> bool:
    return list(found.get("properties", ())) == ["secure"]


def _map(of: Schema) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": dict(of), "plain": True}


def _without_plain(found: Any) -> Any:
    """Let a value, and all in it, be another resource's output."""
    if not isinstance(found, dict):
        return found
    return {key: _without_plain(value) for key, value in found.items() if key != "plain"}


def _member(value: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", value)
    return "".join(word.capitalize() for word in words) if value == value.lower() else "_".join(words)


_SNAKE = re.compile(r"(?<![\w/.-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w/-])")


def spelled(text: str) -> str:
    """Write the keys in a text as programs write them."""
    return _SNAKE.sub(lambda match: camel(match[0]), " ".join(text.split()))


def _of_python(kind: Any) -> dict[str, Any]:
    """Return Pulumi's type of a component's output."""
    if kind is Any:
        return {"$ref": "pulumi.json#/Any"}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": _of_python(get_args(kind)[1])}
    if get_origin(kind) is list:
        return {"type": "array", "items": _of_python(get_args(kind)[0])}
    return {"type": {str: "string", int: "integer"}[kind]}


def schema() -> dict[str, Any]:
    """Return the schema of the package, without its version."""
    package = _Package(write_schema.definitions())
    typed = {
        "cloud": package.enum("Cloud", "A cloud.", list(clouds())),
        "cluster": _reference(package.cluster()),
        "pool": _reference(package.named("StackPool")),
        "pools": _map(_reference(package.named("StackPool"))),
        "pool_name": {"type": "string", "plain": True},
    }
    resources = {}
    for component, arguments in _COMPONENTS.items():
        outputs = {key: get_args(kind)[0] for key, kind in get_annotations(component).items()}
        texts, said = field_texts(arguments), field_texts(component)
        resources[f"gpupools:index:{component.__name__}"] = {
            "isComponent": True,
            "description": spelled((component.__doc__ or "").partition("Raises:")[0]),
            "inputProperties": {
                camel(key): {**typed[key], "description": spelled(texts[key])} for key in arguments.__annotations__
            },
            "requiredInputs": sorted(map(camel, arguments.__required_keys__)),  # type: ignore[attr-defined]
            "properties": {
                camel(key): {**_of_python(kind), "description": spelled(said[key])} for key, kind in outputs.items()
            },
            "required": sorted(map(camel, outputs)),
        }
    languages = ("nodejs", "python", "csharp", "java", "go")
    return {
        "name": "gpupools",
        "displayName": "gpupools",
        "description": "GPU node pools on Amazon EKS, Azure AKS and Google GKE.",
        "license": "Apache-2.0",
        "language": {language: {"respectSchemaVersion": True} for language in languages},
        "resources": resources,
        "types": {f"gpupools:index:{name}": found for name, found in sorted(package.types.items())},
    }


def text() -> str:
    """Return the text of the file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
