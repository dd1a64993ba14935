"""Kubernetes manifests: Karpenter's, Cluster API's and every other object, as `kubectl apply` takes them.

An object becomes the resource Pulumi declares for it, `kubernetes:<apiVersion>:<kind>`; the
readers know which kinds are pools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from gpupools.audit.document import Document, Resource
from gpupools.common.bounded_yaml import Value
from gpupools.common.errors import Path, Problem, Rejected, shown
from gpupools.common.json_types import JsonObject
from gpupools.common.structured_text import Text
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.kinds import read_kinds
from gpupools.readback.inputs import is_list

FORM = "Kubernetes manifest"


def recognises(data: Any) -> bool:
    """Return whether this is a Kubernetes object, or a list of them."""
    return isinstance(data, dict) and isinstance(data.get("apiVersion"), str) and isinstance(data.get("kind"), str)


def read(text: Text) -> Document:
    """Read the objects of every document, and those inside lists.

    Raises:
        Rejected: A document is not a Kubernetes object; each such document is named.
    """
    problems = [problem for value in text.values if value.data is not None for problem in _problems(value, ())]
    if problems:
        raise Rejected(problems)
    return Document(FORM, tuple(found for value in text.values for found in objects(value, text)))


_MOST_PROBLEMS = 20


def _problems(value: Value, at: Path) -> Iterator[Problem]:
    """Yield why a document is neither a Kubernetes object nor a list of them."""
    if not recognises(value.data):
        where = f"the document at line {value.line}" if value.line else "a document"
        yield Problem((), f"{where} is not a Kubernetes object", "add apiVersion and kind")
        return
    items = value.data.get("items")
    if not value.data["kind"].endswith("List") or items is None:
        return
    if not isinstance(items, list):
        yield Problem(("items",), f"got {shown(items)}, and a {value.data['kind']} has a list of objects")
        return
    wrong = (place for place, item in enumerate(items) if not recognises(_item(item, value.data)))
    for place in islice(wrong, _MOST_PROBLEMS):
        yield Problem(("items", place), "is not a Kubernetes object", "add apiVersion and kind")


def _item(item: Any, above: JsonObject) -> Any:
    """Return an item of a typed list, such as NodePoolList, with the kind that API servers omit there."""
    kind = above["kind"].removesuffix("List")
    if not isinstance(item, dict) or not kind or "kind" in item or "apiVersion" in item:
        return item
    return {"apiVersion": above["apiVersion"], "kind": kind, **item}


def objects(value: Value, text: Text | None = None) -> Iterator[Resource]:
    """Read the object of one document, or those of a list."""
    yield from _objects(value.data, value.lines, value.line, text)


def _objects(data: Any, lines: Mapping[Path, int], first: int | None, text: Text | None) -> Iterator[Resource]:
    if not recognises(data):
        return
    kind, items = data["kind"], data.get("items")
    # `kubectl get -o yaml` writes kind List; typed lists such as NodePoolList are as good to `kubectl apply`, and so is
    # whatever has items (kubernetes/apimachinery, pkg/apis/meta/v1/unstructured/helpers.go, `unstructuredJSONScheme`).
    if isinstance(items, list) and (kind.endswith("List") or any(map(recognises, items))):
        below: list[dict[Path, int]] = [{} for _ in items]
        for path, line in lines.items():
            if path[0] == "items" and len(path) > 1 and isinstance(path[1], int):
                below[path[1]][path[2:]] = line
        for item, within in zip(items, below, strict=True):
            yield from _objects(_item(item, data), within, within.pop((), first), text)
        if kind.endswith("List"):
            return
    filled = text is None or text.has_placeholders
    if filled and (data["apiVersion"].rpartition("/")[0], kind) in read_kinds():
        data = _with_placeholders(data)
    metadata = data.get("metadata") if isinstance(data.get("metadata"), dict) else {}
    names = [name for key in ("namespace", "name", "generateName") if isinstance(name := metadata.get(key), str)]
    named = text.line_of(names[-1]) if text is not None and text.is_json and names else first
    yield Resource(
        address="/".join((kind, *names[:2])),
        type=f"kubernetes:{data['apiVersion']}:{kind}",
        inputs=data,
        line=named,
        lines=lines,
        spelled=_spelled,
    )


_VARIABLE = re.compile(r"\$\{[^{}]*\}|\$\(\w[^()]*\)")
_NAMES = frozenset(
    {"metadata", "name", "namespace", "clusterName", "apiVersion", "kind", "infrastructureRef", "configRef"}
    | {"nodeClassRef", "status"}
)


def _with_placeholders(value: Any, own: bool = False) -> Any:
    """Return a value with `UNKNOWN` for every text of one line that something else fills in later.

    Names stay, because the same placeholder on both sides joins objects. Recognised are `${X}` and `${X:=default}` of
    Flux, clusterctl and kro, `$(X)` and `{{ x }}` of Helm and Jinja.

    Args:
        value: Any part of an object.
        own: Whether it is part of a name.
    """
    if isinstance(value, str):
        late = not own and "\n" not in value and ("}}" in value.partition("{{")[2] or _VARIABLE.search(value))
        return UNKNOWN if late else value
    if isinstance(value, Mapping):
        if "?" in value and len(value) == 1:
            return UNKNOWN  # `{{ x }}` without quotes is a map with a map as key
        return {
            key: _with_placeholders(item, (own or key in _NAMES) and key != "labels") for key, item in value.items()
        }
    return [_with_placeholders(item, own) for item in value] if is_list(value) else value


def _spelled(sentence: str) -> str:
    return sentence.replace(repr(UNKNOWN), "<placeholder>")
