"""Types of the capability matrix of a cloud: what it supports, by which software, with a source for each cell."""

from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """How a way of sharing comes to the nodes of a pool."""

    NATIVE = "native"
    """A field of the cloud's pool (or of the node image's settings) does it."""
    IN_CLUSTER = "in-cluster"
    """Software installed in the cluster does it."""
    REFUSED = "refused"


class Capability(NamedTuple):
    """One cell of the capability matrix."""

    verdict: Verdict
    why: str
    """One sentence."""
    source: str
    """The public page or file with this fact."""
    instead: str = ""
    """For a refusal: what would work on this cloud."""


class Setting(NamedTuple):
    """Whether this cloud takes a setting of the pool."""

    supported: bool
    why: str
    """Taken: which field of the cloud's pool it becomes. Refused: why there is none, and what to use instead."""
    source: str


class Owners(NamedTuple):
    """Who brings each piece between the bare node and an allocatable GPU; exactly one for each."""

    driver: str
    container_toolkit: str
    device_plugin: str


class SoftwareOption(NamedTuple):
    """One way of installing the GPU software on this cloud."""

    owners: Owners
    why: str
    source: str
