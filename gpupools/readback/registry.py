"""The extension point for readers of other tools' resources: `gpupools.audit` registers its readers here. Pure.

The clouds' own resources (`Cloud.readback`), Karpenter's objects and ComputeClasses are read without it.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Clouds as Clouds
from gpupools.plan.cloud import GroupKind, ObjectReader
from gpupools.plan.pool_facts import PoolFacts
from gpupools.readback.machine_owners import Owner


class TypeReader(NamedTuple):
    """Reads the pools inside resources of some Pulumi types, such as CloudFormation stacks."""

    cloud: str
    types: tuple[str, ...]
    """Type tokens, for the documentation."""
    read_pools: Callable[[str, JsonObject], tuple[PoolFacts, ...]] = lambda kind, inputs: ()
    """As `Readback.read_pools`."""
    unread: Callable[[str, JsonObject], str] = lambda kind, inputs: ""
    """As `Readback.unread`."""
    nested_types: Callable[[str, JsonObject], Iterable[str]] = lambda kind, inputs: ()
    """As `Readback.nested_types`."""


class KubernetesReader(NamedTuple):
    """Reads Kubernetes objects of some kinds; none of it raises."""

    pools: Mapping[GroupKind, ObjectReader]
    """Readers of the objects with pools, by group and kind."""
    others: tuple[GroupKind, ...] = ()
    """What else is read, since pools refer to it."""
    read_template: Callable[[str, JsonObject, Clouds], PoolFacts | None] = lambda *_: None
    """Read an object that pools refer to (Pulumi type, object); None for any other object."""
    read_owner: Callable[[str, JsonObject], Owner | None] = lambda *_: None
    """Read which machines and bootstrap configuration an object joins; None for any other object."""


_TYPE_READERS: dict[str, None] = {}
_KUBERNETES_READERS: dict[str, None] = {}


def register(*, types: Iterable[str] = (), kubernetes: Iterable[str] = ()) -> None:
    """Register readers by the names of their modules, which are imported when a reader is asked for.

    Each module has a READER: a `TypeReader` in `types`, a `KubernetesReader` in `kubernetes`.
    """
    _TYPE_READERS.update(dict.fromkeys(types))
    _KUBERNETES_READERS.update(dict.fromkeys(kubernetes))
    type_readers.cache_clear()
    kubernetes_readers.cache_clear()


@lru_cache
def type_readers() -> tuple[TypeReader, ...]:
    """Return the registered readers of Pulumi types."""
    return tuple(import_module(name).READER for name in _TYPE_READERS)


@lru_cache
def kubernetes_readers() -> tuple[KubernetesReader, ...]:
    """Return the registered readers of Kubernetes objects."""
    return tuple(import_module(name).READER for name in _KUBERNETES_READERS)


def read_owner(type_token: str, properties: JsonObject) -> Owner | None:
    """Read which machines and bootstrap configuration a Kubernetes object joins; None for any other object."""
    return next((owner for each in kubernetes_readers() if (owner := each.read_owner(type_token, properties))), None)
