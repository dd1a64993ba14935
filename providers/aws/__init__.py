"""Amazon EKS, as data and pure functions: what managed node groups with NVIDIA GPUs can be, and how to read one back.

Owns the AWS facts. `resources.py` beside it is the only place that imports the AWS SDK.
"""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from importlib.resources import files
from typing import Any, Literal

from gpupools.catalogue import Catalogue
from gpupools.cloud import Cloud, PoolFacts, Unknown
from gpupools.spec import Address, Addresses, Cluster
from gpupools.taints import Effect, Taint
from providers.aws.capabilities import CAPABILITIES, DEFAULT_SOFTWARE, SOFTWARE
from providers.aws.settings import decide, refusals


class EksCluster(Cluster):
    """An existing EKS cluster and where its nodes go."""

    cloud: Literal["aws"]
    name: Address
    """Name of the EKS cluster."""
    region: str
    """AWS region of the cluster, e.g. `eu-central-1`."""
    subnet_ids: Addresses
    """Private subnets for the nodes; whether a node gets a public address is the subnet's own setting."""
    node_role_arn: Address
    """IAM role of the nodes: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html."""


EFFECTS: Mapping[str, Effect] = {
    "NO_SCHEDULE": Effect.NO_SCHEDULE,
    "PREFER_NO_SCHEDULE": Effect.PREFER_NO_SCHEDULE,
    "NO_EXECUTE": Effect.NO_EXECUTE,
}
"""Kubernetes' effects by the spelling of the EKS API (https://docs.aws.amazon.com/eks/latest/APIReference/API_Taint.html)."""

# Families g (graphics) and p (accelerated) have GPUs; this also finds the ones that are newer than the catalogue.
# https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html
_GPU_FAMILY = re.compile(r"(?:g|gr|p)\d[a-z0-9-]*\.[a-z0-9-]+")
_NVIDIA_IMAGE = re.compile(r"AL2_x86_64_GPU|\w+_NVIDIA(?:_FIPS)?")

_CATALOGUE = Catalogue(files(__name__))


def read_pool(type_token: str, properties: Mapping[str, Any]) -> PoolFacts | None:
    """Read a declared `aws.eks.NodeGroup` back from its input properties; None for any other resource.

    Args:
        type_token: Pulumi type of the resource.
        properties: Inputs in wire form; `Unknown` where the engine does not know a value yet. Malformed ones count as
            absent.
    """
    if type_token != "aws:eks/nodeGroup:NodeGroup" or not isinstance(properties, Mapping):
        return None
    unknown: list[str] = []
    names = list(_instance_types(properties, unknown))
    gpus, evidence = _gpus(properties, names, unknown)
    return PoolFacts(
        cloud="aws",
        instance_types=tuple(names),
        gpus_per_node=gpus,
        taints=tuple(_taints(properties.get("taints"), unknown)),
        evidence=evidence,
        unknown=tuple(unknown),
    )


def _instance_types(properties: Mapping[str, Any], unknown: list[str]) -> Iterator[str]:
    value = properties.get("instanceTypes")
    if isinstance(value, Unknown):
        unknown.append("instanceTypes")
    for index, name in enumerate(value if isinstance(value, list) else []):
        if isinstance(name, Unknown):
            unknown.append(f"instanceTypes[{index}]")
        elif isinstance(name, str):
            yield name


def _gpus(properties: Mapping[str, Any], names: list[str], unknown: list[str]) -> tuple[Fraction | None, str]:
    """Return GPUs per node (None when they cannot be known) and the input that says so."""
    known = [_CATALOGUE[name] for name in names if name in _CATALOGUE]
    if known:
        machine = max(known, key=lambda row: row.gpus)
        return machine.gpus, f"instanceTypes {machine.name}"
    for name in names:
        if _GPU_FAMILY.fullmatch(name) and not _CATALOGUE.other_accelerator(name):
            return None, f"instanceTypes {name}"
    image = properties.get("amiType")
    if isinstance(image, str) and _NVIDIA_IMAGE.fullmatch(image):
        return None, f"amiType {image}"
    if unknown:
        return None, ""
    if names or not properties.get("launchTemplate"):
        return Fraction(0), ""  # without types and template EKS takes t3.medium
    if isinstance(image, Unknown):
        unknown.append("amiType")
        return None, ""
    if isinstance(image, str) and image != "CUSTOM":
        return Fraction(0), ""  # whatever type the template names, this image has no NVIDIA driver
    unknown.append("launchTemplate")
    return None, ""


def _taints(value: object, unknown: list[str]) -> Iterator[Taint]:
    if isinstance(value, Unknown):
        unknown.append("taints")
    for index, taint in enumerate(value if isinstance(value, list) else []):
        if isinstance(taint, Unknown):
            unknown.append(f"taints[{index}]")
        if not isinstance(taint, Mapping):
            continue
        parts = {part: taint.get(part) for part in ("key", "value", "effect")}
        late = [part for part, given in parts.items() if isinstance(given, Unknown)]
        unknown.extend(f"taints[{index}].{part}" for part in late)
        key, text, effect = parts["key"], parts["value"], parts["effect"]
        if isinstance(key, str) and isinstance(effect, str) and effect in EFFECTS and not late:
            yield Taint(key, text if isinstance(text, str) else "", EFFECTS[effect])


CLOUD = Cloud(
    name="aws",
    service="Amazon EKS",
    instance_types=_CATALOGUE,
    cluster=EksCluster,
    example_cluster={
        "cloud": "aws",
        "name": "train-dev",
        "region": "eu-central-1",
        "subnet_ids": ["subnet-0a1b2c3d4e5f60718"],
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
    },
    software=SOFTWARE,
    default_software=DEFAULT_SOFTWARE,
    capabilities=CAPABILITIES,
    decide=decide,
    read_pool=read_pool,
    refusals=refusals,
    # The kubelet refuses to start with labels of its own name spaces that it does not know.
    # https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
    reserved_labels=(
        "eks.amazonaws.com/*",
        "k8s.amazonaws.com/*",
        "kubernetes.io/*",
        "*.kubernetes.io/*",
        "k8s.io/*",
        "*.k8s.io/*",
    ),
)
