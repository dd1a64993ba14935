"""What every form of input becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupools.base.errors import Path
from gpupools.policies.declared_software import is_software
from gpupools.policies.declared_stack import Gap
from gpupools.policies.kinds import is_read


@dataclass(frozen=True)
class Resource:
    """One declared resource."""

    address: str
    """What its own tool calls it: a Terraform address, a URN, `kind/namespace/name`."""
    type: str
    """Pulumi type token."""
    inputs: Mapping[str, Any]
    """Wire form, with `gpupools.planned.cloud.UNKNOWN` for what is not known yet."""
    line: int | None = None
    """Where it stands in the file, from 1."""
    lines: Mapping[Path, int] = field(default_factory=dict)
    """Line of each input by path, where the file is written by people."""
    id: str = ""
    """The cloud's id, for a resource that exists."""
    refers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses of the resources that an input (its first key) was made from."""
    depends: tuple[str, ...] = ()
    """Addresses of what it depends on otherwise."""
    parent: str = ""
    provider: str = ""
    """Address of its provider, empty when none is declared."""
    spelled: Callable[[str], str] = str
    """Write the property paths in a sentence, which are of the wire form, the way this file does."""
    protect: bool = False
    """Pulumi's resource option of that name."""
    stack: str = ""
    """Name of its Pulumi stack."""
    takes_no_taints: bool = False
    """Its tool has no field for the taints of the pool, though the cloud has."""
    opaque: str = ""
    """Why what it holds cannot be read, e.g. `yaml_body is not known yet`; empty where it can."""
    component: bool = False
    """True for a component, whose children are resources of their own."""


MOST_POOLS = 10_000
"""Resources of one file that may hold pools or bring GPU software and are judged; of more, the number is told."""


MOST_RESOURCES = 100_000
"""Resources of one file that are looked at."""


def bounded(resources: Iterable[Resource], total: int) -> tuple[tuple[Resource, ...], tuple[Gap, ...]]:
    """Take resources until `MOST_POOLS` of them may hold pools or there are too many, and say how many are left.

    Args:
        resources: Made as they are asked for.
        total: How many there may be.
    """
    taken: list[Resource] = []
    heavy = 0
    for resource in resources:
        heavy += is_read(resource.type) or is_software(resource.type)
        if heavy > MOST_POOLS or len(taken) == MOST_RESOURCES:
            left = max(total - len(taken), 1)
            most = f"{MOST_POOLS} of one file are that may hold pools"
            most = most if heavy > MOST_POOLS else f"{MOST_RESOURCES} of one file are"
            what = f"and {left} more resources, which were not judged: {most}"
            return tuple(taken), (Gap("too-many-resources", what, "judge the parts of it one by one"),)
        taken.append(resource)
    return tuple(taken), ()


@dataclass(frozen=True)
class Document:
    """A file whose form was recognised."""

    form: str
    """For people, e.g. `Terraform plan`."""
    resources: tuple[Resource, ...]
    gaps: tuple[Gap, ...] = ()
    """What the file itself says that it leaves out."""
    modules: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """For Terraform, the source of each module by the names of its calls."""
