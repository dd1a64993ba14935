"""Which kinds of resources readers read, and what `kinds.csv` answers for all others. Pure.

What the readers read is asked of themselves (`is_read`). For everything else the table has the answer, the reason, a
source and the date of the row; the first row that fits counts:

- `none`: brings no nodes.
- `nodes`: may bring nodes and is not read, so it is never taken for fine.
- `holds`: brings no nodes, unless what it holds names GPUs or a node pool.
- `elsewhere`: applies what lies elsewhere. That is advice, unless the object itself names GPUs or a node pool.
- `where <path>|…`: may bring nodes where one of these inputs is given.
- `resources`: a ClusterResourceSet, where what it names decides.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpupools.base.patterns import FirstOf
from gpupools.planned.cloud import Reading
from gpupools.providers import clouds
from gpupools.read import holders
from gpupools.read.kubernetes_pools import kinds_read

MOST_TYPES = 200_000
"""Of which the answer is kept; a file of the greatest size may have as many."""


@lru_cache
def readings() -> tuple[Reading, ...]:
    """Return how each cloud reads back; asking a cloud for it takes longer than asking it about a resource."""
    return tuple(cloud.reading() for cloud in clouds().values())


@dataclass(frozen=True)
class Row:
    """One row of `kinds.csv`."""

    kind: str
    """`kubernetes:<group>/<Kind>` or `<package>:<name>`, as a pattern with * and ?."""
    answer: str
    why: str
    source: str
    as_of: str


@lru_cache
def rows() -> tuple[Row, ...]:
    """Return the table."""
    with (Path(__file__).parent / "kinds.csv").open(encoding="utf-8", newline="") as file:
        return tuple(Row(**row) for row in csv.DictReader(file))


class _Probe(Mapping[str, Any]):
    """Notes whether somebody looks inside: readers look at a type before they look at a resource of it."""

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
    """Return the group and kind of every object of Kubernetes that a reader of pools reads."""
    return frozenset(kinds_read(clouds()))


@lru_cache(maxsize=MOST_TYPES)
def is_read(type_token: str) -> bool:
    """Say whether a reader of pools looks inside resources of a type."""
    match = KUBERNETES.fullmatch(type_token)
    if match is not None:
        return (match["version"].rpartition("/")[0], match["kind"]) in read_kinds()
    probe = _Probe()
    for reading in readings():
        reading.read_pools(type_token, probe)
        reading.read_template(type_token, probe)
    return probe.looked


KUBERNETES = re.compile(r"kubernetes:(?P<version>[^:]*):(?P<kind>[^:]+)")
_OF_TERRAFORM = frozenset({"kubernetes", "helm", "kubectl"})


@lru_cache(maxsize=MOST_TYPES)
def key_of(type_token: str) -> tuple[str, str]:
    """Return what `kinds.csv` calls a type, and what people call it."""
    match = KUBERNETES.fullmatch(type_token)
    if match is None:
        return plain_key(type_token), type_token.removeprefix("terraform:")
    version, kind = match["version"], match["kind"]
    group = version.rpartition("/")[0]
    if "/" not in version and version and not re.fullmatch(r"v\d\w*", version):
        group = version  # Pulumi's own, such as `kubernetes:yaml:ConfigFile`
    return f"kubernetes:{group}/{kind}", f"{group}/{kind}" if group else kind


@lru_cache(maxsize=MOST_TYPES)
def plain_key(type_token: str) -> str:
    """Return what `kinds.csv` calls a type that is no object of Kubernetes: `<package>:<name>`, letters and digits."""
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
    """Return the rows of kinds and those of whole packages, which count where no other does."""
    whole = tuple(row for row in rows() if row.kind.endswith(":*") and not row.kind.startswith("kubernetes"))
    kinds = tuple(row for row in rows() if row not in whole)
    return tuple((found, FirstOf(row.kind for row in found)) for found in (kinds, whole))


@lru_cache(maxsize=MOST_TYPES)
def row_of(key: str) -> Row | None:
    """Return the first row that fits what `kinds.csv` calls a type; None where none does."""
    of_kind, of_package = (
        found[place] if (place := first(key)) is not None else None for found, first in _sorted_rows()
    )
    if of_kind is None and of_package is not None and _POOL.search(key):
        return Row(key, "nodes", "its name says nodes, and it is not read", of_package.source, of_package.as_of)
    return of_kind or of_package


_GROUPS = r"(?:node|agent|machine|worker)s?(?:pool|group|set|deployment|claim)"
OF_POOLS = re.compile(rf"{_GROUPS}|karpenter[a-z]*(?:pool|provisioner|nodeclass)")
"""In the name of a chart."""
_POOL = re.compile(rf"(?:{_GROUPS}|kubernetescluster)s?(?:template)?$")
_NODES = re.compile(rf"kube|k8s|{_GROUPS}|containerengine|containercluster|lke")


def names_nodes(key: str) -> str:
    """Say so where what `kinds.csv` calls a type sounds like nodes; empty otherwise."""
    package, _, name = key.partition(":")
    if package == "kubernetes":  # every group has its name there
        says = bool(re.search(_GROUPS, name.rpartition("/")[2].casefold())) or "$" in name or "{{" in name
    else:
        says = bool(_NODES.search(name))
    return "has a name that says nodes" if says else ""


@lru_cache
def pool_kinds() -> frozenset[str]:
    """Return the kinds of Kubernetes objects that are node pools or classes of such, without their groups."""
    carried = {kind for _, kind in holders.KINDS} | {"Cluster", "Machine", "Node"}
    return frozenset(kind for _, kind in read_kinds() if kind not in carried)
