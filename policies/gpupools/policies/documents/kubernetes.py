"""Kubernetes manifests: Karpenter's, Cluster API's and every other object, as `kubectl apply` takes them.

An object becomes the resource Pulumi declares for it, `kubernetes:<apiVersion>:<kind>`; which kinds are pools is the
readers' business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupools.base.bounded_yaml import Value
from gpupools.base.errors import Path, Problem, Rejected
from gpupools.policies.documents.document import Document, Resource
from gpupools.policies.documents.text import Text

FORM = "Kubernetes manifest"


def recognises(data: Any) -> bool:
    """Say whether this is an object of the Kubernetes API, or a list of them."""
    return isinstance(data, dict) and isinstance(data.get("apiVersion"), str) and isinstance(data.get("kind"), str)


def read(text: Text) -> Document:
    """Read the objects of every document, and those inside lists.

    Raises:
        Rejected: A document of the file is no object; every such document is named.
    """
    problems = [
        Problem((), f"the document at line {value.line} is no Kubernetes object", "give it apiVersion and kind")
        for value in text.values
        if value.data is not None and not recognises(value.data)
    ]
    if problems:
        raise Rejected(problems)
    return Document(FORM, tuple(found for value in text.values for found in objects(value, text)))


def objects(value: Value, text: Text | None = None) -> Iterator[Resource]:
    """Read the object of one document, or those of a list."""
    yield from _objects(value.data, value.lines, value.line, text)


def _objects(data: Any, lines: Mapping[Path, int], first: int | None, text: Text | None) -> Iterator[Resource]:
    if not recognises(data):
        return
    kind, items = data["kind"], data.get("items")
    # `kubectl get -o yaml` writes kind List; typed lists such as NodePoolList are as good to `kubectl apply`.
    if kind.endswith("List") and isinstance(items, list):
        below: list[dict[Path, int]] = [{} for _ in items]
        for path, line in lines.items():
            if path[0] == "items" and len(path) > 1 and isinstance(path[1], int):
                below[path[1]][path[2:]] = line
        for item, within in zip(items, below, strict=True):
            yield from _objects(item, within, within.pop((), first), text)
        return
    metadata = data.get("metadata") if isinstance(data.get("metadata"), dict) else {}
    names = [name for key in ("namespace", "name", "generateName") if isinstance(name := metadata.get(key), str)]
    named = text.line_of(names[-1]) if text is not None and text.is_json and names else first
    yield Resource(
        address="/".join((kind, *names[:2])),
        type=f"kubernetes:{data['apiVersion']}:{kind}",
        inputs=data,
        line=named,
        lines=lines,
    )
