"""Reading an agent pool back from the properties it was declared with, for policies. Pure, and never raises."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from gpupools.catalogue import Catalogue, InstanceType
from gpupools.cloud import PoolFacts, Unknown
from gpupools.taints import Taint, parse_taint

# Tokens of older API versions too, and of SDKs made with `pulumi package add azure-native containerservice <version>`.
_TOKEN = re.compile(r"azure-native(?:_containerservice_v\w+)?:containerservice(?:/v\w+)?:AgentPool")

# NC, NCC, ND and NV sizes carry NVIDIA GPUs except those named after an accelerator of AMD or Graphcore, so a size
# newer than the catalogue counts: https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions.
_NVIDIA_FAMILY = re.compile(r"standard_n(?:cc?|d|v)\d\w*", re.IGNORECASE)


def find_instance_type(catalogue: Catalogue, name: str) -> InstanceType | None:
    """Look a size up; Azure takes its sizes in any case."""
    found = catalogue.get(name)
    if found is None:
        folded = name.casefold()
        found = next((row for key, row in catalogue.items() if key.casefold() == folded), None)
    return found


def read_pool(catalogue: Catalogue, resource_type: str, properties: Mapping[str, Any]) -> PoolFacts | None:
    """Read an agent pool's declared properties; None for any other resource.

    Args:
        catalogue: The sizes with NVIDIA GPUs.
        resource_type: Pulumi type token.
        properties: Wire properties; what is not known yet is `UNKNOWN`, at any depth.
    """
    if not isinstance(resource_type, str) or _TOKEN.fullmatch(resource_type) is None:
        return None
    given = properties if isinstance(properties, Mapping) else {}
    unknown: list[str] = []
    sizes = tuple(_sizes(given, unknown))
    counts = {size: _gpus(catalogue, size) for size in sizes}
    evidence = [f"vmSize {size}" for size, gpus in counts.items() if gpus != 0]
    profile = given.get("gpuInstanceProfile")
    if isinstance(profile, str) and profile:
        evidence.append(f"gpuInstanceProfile {profile}")
    known = [gpus for gpus in counts.values() if gpus is not None]
    if unknown or len(known) < len(counts):
        gpus_per_node = None
    elif known:
        gpus_per_node = max(known)
    else:  # no size at all: AKS chooses one, and its choice has no GPU
        gpus_per_node = None if evidence else Fraction(0)
    return PoolFacts(
        cloud="azure",
        instance_types=tuple(_written(catalogue, size) for size in counts),
        gpus_per_node=gpus_per_node,
        taints=tuple(_taints(given, unknown)),
        evidence=", ".join(evidence),
        unknown=tuple(unknown),
    )


def _sizes(given: Mapping[str, Any], unknown: list[str]) -> Iterator[str]:
    """Yield the sizes of the pool's machines: one for a scale set, several for a pool of type VirtualMachines."""
    size = given.get("vmSize")
    if isinstance(size, str):
        yield size
    elif size is not None:  # what is no text cannot be judged either
        unknown.append("vmSize")
    # Every `size` in there, whatever an API version puts around it: `scale.manual`, `scale.autoscale`, …
    inside: list[Any] = [given.get("virtualMachinesProfile")]
    while inside:
        value = inside.pop()
        if isinstance(value, Mapping):
            if isinstance(value.get("size"), str):
                yield value["size"]
            inside.extend(inner for key, inner in value.items() if key != "size" or not isinstance(inner, str))
        elif _is_list(value):
            inside.extend(value)
        elif isinstance(value, Unknown) and "virtualMachinesProfile" not in unknown:
            unknown.append("virtualMachinesProfile")


def _gpus(catalogue: Catalogue, size: str) -> Fraction | None:
    """Return the NVIDIA GPUs of a size, None for a size that has some but is newer than the catalogue."""
    found = find_instance_type(catalogue, size)
    if found is not None:
        return found.gpus
    if _NVIDIA_FAMILY.fullmatch(size) is None or catalogue.other_accelerator(_vendor_case(size)) is not None:
        return Fraction(0)
    return None


def _vendor_case(size: str) -> str:
    """Write a size the way Azure's pages do: `standard_nd96isr_mi300x_v5` as `Standard_ND96isr_MI300X_v5`."""
    tier, _, name = size.partition("_")
    family = re.match(r"[A-Za-z]*", name)
    features, *rest = name[family.end() if family else 0 :].split("_")
    words = [word.lower() if re.fullmatch(r"[vV]\d+", word) else word.upper() for word in rest]
    return "_".join([tier.capitalize(), (family[0].upper() if family else "") + features.lower(), *words])


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _written(catalogue: Catalogue, size: str) -> str:
    found = find_instance_type(catalogue, size)
    return found.name if found is not None else size


def _taints(given: Mapping[str, Any], unknown: list[str]) -> Iterator[Taint]:
    """Yield the permanent taints; `nodeInitializationTaints` are meant to be removed, so they do not count.

    https://learn.microsoft.com/azure/aks/use-node-taints
    """
    written: Any = given.get("nodeTaints")
    if isinstance(written, Unknown):
        unknown.append("nodeTaints")
    for index, text in enumerate(written if _is_list(written) else ()):
        if isinstance(text, Unknown):
            unknown.append(f"nodeTaints[{index}]")
        elif isinstance(text, str):
            try:
                yield parse_taint(text)
            except ValueError:
                continue  # not a taint in AKS's spelling, so no taint at all
