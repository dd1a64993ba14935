"""Judges resources that another resource holds, such as a stack those of its template. Pure.

They are judged by the readers of their types; a pool without a taint needs a look at the template itself.
"""

from collections.abc import Callable, Iterator

from gpupools.audit.document import Resource
from gpupools.common.json_types import JsonObject
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies.kinds import readers
from gpupools.providers import clouds
from gpupools.readback.kubernetes_pools import each_kubernetes_pool
from gpupools.readback.registry import TypeReader

HELD = "a pool inside a template is not read here; check the template as a file of its own"

Held = Callable[[str, JsonObject], Iterator[Resource]]
"""Yields what a resource holds; one without an address stands for the whole, and says why that cannot be read."""


def reader_of_held(cloud: str, types: tuple[str, ...], held: Held) -> TypeReader:
    """Return the reader of resources that hold others.

    Args:
        cloud: Whose resources they are.
        types: Type tokens, for the documentation.
        held: Yields what one holds; nothing for a resource of another type.
    """

    def unread(type_token: str, properties: JsonObject) -> str:
        return next(filter(None, map(_fault, held(type_token, properties))), "")

    def nested_types(type_token: str, properties: JsonObject) -> Iterator[str]:
        for inner in held(type_token, properties):
            if inner.type.startswith(("arm:", "cloudformation:")):
                yield inner.type
            elif not inner.opaque:
                yield from (name for reader in readers() for name in reader.nested_types(inner.type, inner.inputs))

    return TypeReader(cloud=cloud, types=types, unread=unread, nested_types=nested_types)


def read_types(held: Resource) -> Iterator[PoolFacts]:
    """Yield the pools of a held resource."""
    for reader in readers():
        yield from reader.read_pools(held.type, held.inputs)
    yield from each_kubernetes_pool(held.type, held.inputs, clouds())


def _fault(held: Resource) -> str:
    """Return why a held resource cannot be judged where it stands; empty where it can, or makes no GPU nodes."""
    why = held.opaque or next(filter(None, (reader.unread(held.type, held.inputs) for reader in readers())), "")
    if not why and held.address and any(pool.lacks_taint for pool in read_types(held)):
        why = HELD
    return f"{held.address}: {why}" if why and held.address else why
