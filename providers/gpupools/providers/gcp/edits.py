"""What an edit of each input of a node pool does to its nodes, from `edits.csv`. Pure.

What replaces the pool is what the schema of terraform-provider-google-beta marks so; `pulumi_gcp` is built from it.
"""

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any


@cache
def effects() -> Mapping[str, str]:
    """Return dotted input to `in-place`, `rolling`, `replace` or `refused`; an input stands for all below it."""
    with (Path(__file__).parent / "edits.csv").open(newline="", encoding="utf-8") as file:
        return MappingProxyType({row["input"]: row["effect"] for row in csv.DictReader(file)})


def replacing(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the inputs, by dotted path, whose change makes the provider replace the pool."""
    return dict(sorted(_replacing(inputs, ())))


def _replacing(inputs: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key, value in inputs.items():
        path = (*above, key)
        effect = effects().get(".".join(path))
        if effect == "replace":
            yield ".".join(path), value
        elif isinstance(value, Mapping):
            yield from _replacing(value, path)
