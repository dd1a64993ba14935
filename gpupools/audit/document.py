"""The common result of all file forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from gpupools.common.errors import Path
from gpupools.common.json_types import JsonObject
from gpupools.policies.declared_stack import Gap


@dataclass(frozen=True)
class Resource:
    """One declared resource."""

    address: str
    """Address in its own tool: a Terraform address, a URN, `kind/namespace/name`."""
    type: str
    """Pulumi type token."""
    inputs: JsonObject
    """Wire form, with `gpupools.plan.cloud.UNKNOWN` for what is not known yet."""
    line: int | None = None
    """Line in the file, from 1."""
    lines: Mapping[Path, int] = field(default_factory=dict)
    """Line of each input by path, for formats that people write."""
    id: str = ""
    """The cloud's id, for a resource that exists."""
    refers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses of the resources that an input (its first key) was made from."""
    depends: tuple[str, ...] = ()
    """Addresses of its other dependencies."""
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
    is_partial: bool = False
    """True for a pool that a module creates, whose arguments name machines and taints but not every setting."""
    opaque: str = ""
    """Why what it holds cannot be read, e.g. `yaml_body is not known yet`; empty where it can."""
    ends: str = ""
    """`deletes` or `recreates`, for a resource as it is before a plan that ends it; empty for others."""
    in_other_file: bool = False
    """True where another file of the run has its contents."""
    component: bool = False
    """True for a component, whose children are resources of their own."""


@dataclass(frozen=True)
class Document:
    """A file of a recognized form."""

    form: str
    """For people, e.g. `Terraform plan`."""
    resources: tuple[Resource, ...]
    gaps: tuple[Gap, ...] = ()
    """What the file omits by its own statement."""
    ending: tuple[Resource, ...] = ()
    """Resources that the plan deletes or recreates, as they are."""
    modules: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """For Terraform, the source of each module by the names of its calls."""
    folders: tuple[FilePath, ...] = ()
    """For Terraform, the folders of the local modules that were read with it."""
