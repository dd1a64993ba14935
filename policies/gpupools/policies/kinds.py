"""Which kinds of resources gpupools reads, and the answers of `kinds.csv` for all others. Pure.

The readers declare what they read (`is_read`). For all other kinds the first matching row of the table has the answer,
the reason, a source and its date:

- `none`: creates no nodes.
- `nodes`: may create nodes and is not read, which is a violation that cannot be verified.
- `tainted`: creates GPU nodes that it taints itself. That is advice.
- `elsewhere`: applies objects from another source, or that gpupools does not read. That is advice.
- `pool <machine> <taints> <pattern>,…`: `nodes`, a pool that is not read, but advice where its taints keep pods off or
  the names of its machines match a pattern of machines without GPUs. Alternative paths are separated by |, - is none,
  and taints at a path that ends with ! have the effects of a cloud's API (NO_SCHEDULE).
- `where <path>|…`: `nodes` where one of these inputs is given, otherwise `none`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.common.patterns import FirstOf
from gpupools.plan.cloud import Readback
from gpupools.plan.pool_facts import PoolFacts
from gpupools.providers import clouds
from gpupools.readback import kubernetes_pools
from gpupools.readback.inputs import group_and_kind, is_list, kubernetes_type, mapping, with_name
from gpupools.readback.kubernetes_pools import each_kubernetes_pool, kinds_read
from gpupools.readback.registry import TypeReader, type_readers

MOST_TYPES = 200_000
"""Maximum number of cached answers; the largest file may have as many types."""


@lru_cache
def readings() -> tuple[Readback, ...]:
    """Return the readers of all clouds; cached, because loading a reader takes longer than reading a resource."""
    return tuple(cloud.readback() for cloud in clouds().values())


def readers() -> tuple[Readback | TypeReader, ...]:
    """Return what reads pools of Pulumi types: the clouds, and what `gpupools.audit` registered."""
    return (*readings(), *type_readers())


@dataclass(frozen=True)
class Row:
    """One row of `kinds.csv`."""

    kind: str
    """`kubernetes:<group>/<Kind>` or `<package>:<name>`, as patterns with * and ?, separated by |."""
    answer: str
    why: str
    source: str
    as_of: str
    by_name: bool = False
    """True if the name of the kind decided, because only its package has a row."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The patterns."""
        return tuple(self.kind.split("|"))

    @property
    def where(self) -> tuple[str, ...]:
        """The inputs that decide; empty if the answer depends on none."""
        return tuple(self.answer.removeprefix(_WHERE).split("|")) if self.answer.startswith(_WHERE) else ()


_WHERE = "where "


@lru_cache
def rows() -> tuple[Row, ...]:
    """Return the table."""
    table = csv_rows(Path(__file__).parent / "kinds.csv")
    return tuple(Row(row["kind"], row["answer"], row["why"], row["source"], row["as_of"]) for row in table)


class _Probe(JsonObject):
    """Records whether a reader accesses the inputs: readers check the type first."""

    def __init__(self) -> None:
        self.looked = False

    def __getitem__(self, key: str) -> Any:
        self.looked = True
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        self.looked = True
        return iter(())

    def __len__(self) -> int:
        self.looked = True
        return 0


@lru_cache
def read_kinds() -> frozenset[tuple[str, str]]:
    """Return group and kind of every Kubernetes object that a reader of pools reads."""
    return frozenset(kinds_read(clouds()))


@lru_cache(maxsize=MOST_TYPES)
def is_read(type_token: str) -> bool:
    """Say whether a reader of pools looks inside resources of a type."""
    if kubernetes_type(type_token) is not None:
        return group_and_kind(type_token) in read_kinds()
    return bool(readers_of(type_token))


@lru_cache(maxsize=MOST_TYPES)
def readers_of(type_token: str) -> tuple[Readback | TypeReader, ...]:
    """Return the readers that look inside resources of a type."""
    return tuple(reader for reader in readers() if _looks_inside(reader, type_token))


def _looks_inside(reader: Readback | TypeReader, type_token: str) -> bool:
    probe = _Probe()
    reader.read_pools(type_token, probe)
    reader.unread(type_token, probe)
    if isinstance(reader, Readback):
        reader.read_template(type_token, probe)
    return probe.looked


def read_pools(type_token: str, inputs: JsonObject, name: str = "") -> tuple[PoolFacts, ...]:
    """Return the pools that a resource declares in plain data, Kubernetes objects included.

    Args:
        type_token: Its Pulumi type.
        inputs: Its inputs.
        name: The name of pools that have none in their inputs.
    """
    if not is_read(type_token) and not type_token.startswith("kubernetes:"):
        return ()
    pools = [pool for reader in readers_of(type_token) for pool in reader.read_pools(type_token, inputs)]
    pools += each_kubernetes_pool(type_token, inputs, clouds())
    return tuple(with_name(pool, inputs, name) for pool in pools)


def read_template(type_token: str, inputs: JsonObject) -> PoolFacts | None:
    """Return what a resource sets for pools that refer to it; None for one that pools do not refer to."""
    if not is_read(type_token):
        return None
    reading = (reader for reader in readers_of(type_token) if isinstance(reader, Readback))
    found = (reader.read_template(type_token, inputs) for reader in reading)
    of_cloud = next((pool for pool in found if pool is not None), None)
    return of_cloud or kubernetes_pools.read_template(type_token, inputs, clouds())


_OF_TERRAFORM = frozenset({"kubernetes", "helm", "kubectl"})


@lru_cache(maxsize=MOST_TYPES)
def key_of(type_token: str) -> tuple[str, str]:
    """Return the name of a type in `kinds.csv`, and its name in messages."""
    named = kubernetes_type(type_token)
    if named is None:
        return plain_key(type_token), type_token.removeprefix("terraform:")
    version, kind = named
    group = version.rpartition("/")[0]
    if "/" not in version and version and not re.fullmatch(r"v\d\w*", version):
        group = version  # Pulumi's own, such as `kubernetes:yaml:ConfigFile`
    return f"kubernetes:{group}/{kind}", f"{group}/{kind}" if group else kind


@lru_cache(maxsize=MOST_TYPES)
def plain_key(type_token: str) -> str:
    """Return the name in `kinds.csv` of a type outside Kubernetes: `<package>:<name>`, letters and digits."""
    package, _, rest = type_token.partition(":")
    if package == "terraform":
        package, _, rest = rest.partition("_")
        package = f"terraform-{package}" if package in _OF_TERRAFORM else package
        package = "google" if package == "google-beta" else package
    elif package == "cloudformation":
        if not rest.startswith("AWS::"):
            package, _, rest = rest.partition("::")
    elif package != "arm":
        module, _, name = rest.rpartition(":")
        module = module.partition("/")[0]
        rest = f"{'' if module == 'index' else module}{name}"
        name, _, version = package.partition("_")  # of an SDK for one version of an API
        package = name if "_v" in version[1:] else package
    return f"{package.casefold()}:{re.sub(r'[^a-z0-9]|^aws::|^microsoft[.]', '', rest.casefold())}"


@lru_cache
def _sorted_rows() -> tuple[tuple[tuple[Row, ...], FirstOf], ...]:
    """Return the rows of kinds, and those of whole packages, which apply last."""
    pairs = [(pattern, row) for row in rows() for pattern in row.kinds]
    whole = [one for one in pairs if one[0].endswith(":*") and not one[0].startswith("kubernetes")]
    kinds = [one for one in pairs if one not in whole]
    return tuple((tuple(row for _, row in found), FirstOf(kind for kind, _ in found)) for found in (kinds, whole))


@lru_cache(maxsize=MOST_TYPES)
def row_of(key: str) -> Row | None:
    """Return the first row of `kinds.csv` that matches a name; None if no row does."""
    of_kind, of_package = (
        found[place] if (place := first(key)) is not None else None for found, first in _sorted_rows()
    )
    if of_kind is None and of_package is not None and _names_pool(key):
        why = "its name says nodes, and gpupools does not read it"
        return Row(key, "nodes", why, of_package.source, of_package.as_of, by_name=True)
    return of_kind or of_package


_NODE_GROUPS = tuple(
    f"{of}{many}{group}"
    for of in ("node", "agent", "machine", "worker")
    for many in ("", "s")
    for group in ("pool", "group", "set", "deployment", "claim")
)
_NODES = (*_NODE_GROUPS, "kube", "k8s", "containerengine", "containercluster", "lke")


def names_pools(name: str) -> bool:
    """Say whether a chart or property is named after node pools."""
    plain = "".join(letter for letter in name.casefold() if letter.isalpha())
    return any(word in plain for word in _NODE_GROUPS) or ("karpenter" in plain and plain.endswith(_OF_KARPENTER))


_OF_KARPENTER = ("pool", "pools", "provisioner", "provisioners", "nodeclass", "nodeclasses")


def _names_pool(key: str) -> bool:
    name = key.removesuffix("template").removesuffix("s")
    return name.endswith((*_NODE_GROUPS, "kubernetescluster"))


def names_nodes(key: str, inputs: Any) -> str:
    """Return a remark if the name of a type, or what it holds, says nodes; empty otherwise.

    A Kubernetes object that names machines makes nodes, whatever its name. One that selects nodes by labels groups
    those that are there.
    """
    package, _, name = key.partition(":")
    if package != "kubernetes":
        return "has a name that says nodes" if any(word in name for word in _NODES) or _is_node(name) else ""
    held = set(islice(_keys(inputs), _MOST_KEYS))
    if named := next((held_key for held_key in sorted(held) if _plain(held_key) in _MACHINES), ""):
        return f"names machines ({shown(named)})"
    if any(_plain(held_key) in _SELECTORS for held_key in held):
        return ""
    kind = name.rpartition("/")[2].casefold()  # every group is named after Kubernetes
    says = any(word in kind for word in _NODE_GROUPS) or _is_node(kind) or "$" in name or "{{" in name
    return "has a name that says nodes" if says else ""


_MACHINES = frozenset({"instancetype", "instancetypes", "machinetype", "machinetypes", "vmsize", "gpucount"})
_MACHINES |= {"gputype", "gpuspernode", "acceleratortype", "acceleratorcount", "guestaccelerators"}
_SELECTORS = frozenset({"nodeselector", "labelselector", "matchlabels", "matchexpressions", "nodelabelselector"})
_MOST_KEYS = 1_000


def _plain(key: str) -> str:
    return "".join(letter for letter in key.casefold() if letter.isalnum())


def _keys(value: Any) -> Iterator[str]:
    """Yield the keys of an object at any depth, without its metadata and status."""
    left = [{key: one for key, one in mapping(value).items() if key not in ("metadata", "status")}]
    while left:
        one: Any = left.pop()
        if isinstance(one, Mapping):
            yield from map(str, one)
            left += one.values()
        elif is_list(one):
            left += one


def _is_node(name: str) -> bool:
    """Say whether a name ends with node or machine, before any version; virtual machines do not count."""
    plain = name.rstrip("0123456789").removesuffix("v").removesuffix("template").removesuffix("s")
    return plain.endswith(("node", "machine")) and not plain.endswith("virtualmachine")


@lru_cache
def pool_kinds() -> frozenset[str]:
    """Return the kinds of Kubernetes objects that are node pools or classes of such, without their groups."""
    return frozenset(kind for _, kind in read_kinds() if kind not in ("Cluster", "Machine", "Node"))
