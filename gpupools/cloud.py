"""What a cloud's folder must say about its cloud, and what policies read back from what was declared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

from gpupools.catalogue import Catalogue, InstanceType
from gpupools.errors import Problem
from gpupools.spec import Cluster, PoolSpec
from gpupools.taints import Taint


class Verdict(StrEnum):
    """How a way of sharing comes to the nodes of a pool."""

    NATIVE = "native"
    """A field of the cloud's pool (or of the node image's settings) does it."""
    IN_CLUSTER = "in-cluster"
    """Software installed in the cluster does it."""
    REFUSED = "refused"


@dataclass(frozen=True)
class Capability:
    """One cell of the capability matrix."""

    verdict: Verdict
    why: str
    """One sentence."""
    source: str
    """A public page or file that says so."""
    instead: str = ""
    """For a refusal: what would work on this cloud."""


@dataclass(frozen=True)
class Owners:
    """Who brings each piece between the bare node and an allocatable GPU; exactly one for each."""

    driver: str
    container_toolkit: str
    device_plugin: str


@dataclass(frozen=True)
class Software:
    """One way of installing the GPU software on this cloud."""

    owners: Owners
    why: str
    source: str


@dataclass(frozen=True)
class Wish:
    """A pool on one cluster with its machine and software chosen: what a cloud's own rules look at."""

    name: str
    """The pool's key in the stack file."""
    spec: PoolSpec
    cluster: Cluster
    instance: InstanceType
    software: str
    sharing: str
    """One of `gpupools.spec.SHARING_KINDS`."""
    capability: Capability


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the cloud's own pool needs beyond the portable plan; each cloud's folder adds its fields."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Node labels this cloud or this way of sharing needs."""


class Unknown:
    """Stands in read-back properties for a value the engine does not know at preview."""

    def __repr__(self) -> str:
        return "<unknown at preview>"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class PoolFacts:
    """A node pool as it was declared, read back from the cloud's own input properties."""

    cloud: str
    instance_types: tuple[str, ...]
    gpus_per_node: Fraction | None
    """0 when the pool has no NVIDIA GPU; None when that cannot be known at preview."""
    taints: tuple[Taint, ...]
    """Permanent taints that could be read, in Kubernetes' spelling."""
    evidence: str = ""
    """Which input says that the nodes have GPUs, e.g. `instanceTypes p4d.24xlarge`."""
    unknown: tuple[str, ...] = ()
    """Properties that are not known at preview and could change the answer."""


def no_refusals(wish: Wish) -> list[Problem]:
    """Refuse nothing beyond the capability matrix."""
    return []


@dataclass(frozen=True)
class Cloud:
    """Everything the domain must know about one cloud; the folder's `resources.py` translates the plan."""

    name: str
    """The folder's name."""
    service: str
    """The Kubernetes service's name, for people."""
    instance_types: Catalogue
    cluster: type[Cluster]
    """The keys a stack file gives for a cluster on this cloud."""
    software: Mapping[str, Software]
    """The ways of installing the GPU software: `cloud-managed`, `device-plugin`, `gpu-operator`."""
    default_software: Mapping[str, str]
    """The way taken for each kind of sharing when the pool names none."""
    capabilities: Mapping[tuple[str, str], Capability]
    """The matrix: (software, kind of sharing) to a verdict, without gaps."""
    decide: Callable[[Wish], Settings]
    """Choose what this cloud's pool needs; called only for a wish that nothing refuses."""
    read_pool: Callable[[str, Mapping[str, Any]], PoolFacts | None]
    """Read a declared resource (type token, wire-form properties with `UNKNOWN`) back; None when it is no pool."""
    refusals: Callable[[Wish], list[Problem]] = no_refusals
    """What this cloud refuses beyond the matrix: profiles, client limits, machines the image cannot drive."""
    reserved_labels: tuple[str, ...] = ()
    """Patterns (fnmatch) of label keys the cloud keeps for itself."""
    find_instance_type: Callable[[Catalogue, str], InstanceType | None] = field(
        default=lambda catalogue, name: catalogue.get(name)
    )
    """Look a written instance type up; a cloud with composed names brings its own."""
    example_cluster: Mapping[str, Any] = field(default_factory=dict)
    """A cluster as a stack file gives it, for documentation, the capability matrix and the contract tests."""
