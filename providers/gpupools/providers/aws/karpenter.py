"""What Karpenter says of EC2's machines: its labels and its EC2NodeClass. Pure.

EKS Auto Mode has the same labels under a domain of its own:
https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html.

Source, as repository and path: aws/karpenter-provider-aws pkg/apis/v1/labels.go.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.json_types import JsonObject
from gpupools.plan.karpenter_provider import KarpenterProvider, Requirements
from gpupools.plan.pool_facts import Accelerator, By, PoolFacts, SoftwareHints
from gpupools.providers.aws.machines import INSTANCE_TYPES
from gpupools.readback.inputs import (
    Hardening,
    Machines,
    TaintsRead,
    at,
    controls,
    items,
    mapping,
    number,
    pool_facts,
    string_map,
    text,
)
from gpupools.readback.karpenter import ARCHITECTURE, TYPE

_GROUPS = ("karpenter.k8s.aws", "eks.amazonaws.com")
_DOMAINS = tuple(f"{group}/" for group in _GROUPS)
# Every category of EC2 without an accelerator: where all are left out, Karpenter takes machines with GPUs for any pod
# (aws/karpenter-provider-aws pkg/providers/instance/filter, which prefers other machines only while there are some).
_CPU_CATEGORIES = ("a", "c", "d", "h", "hpc", "i", "im", "is", "m", "r", "t", "u", "x", "z")
_GPU_CATEGORIES = ("g", "gr", "p")  # of NVIDIA and AMD
_GPU_FAMILY = "(g|gr|p)[0-9][a-z0-9-]*"
_OTHER_CATEGORIES = ("inf", "trn", "dl", "vt", "f")


def _accelerators(wanted: Requirements, accelerator: Callable[[str], Accelerator]) -> Iterator[tuple[Accelerator, str]]:
    for domain in _DOMAINS:
        category_of = f"{domain}instance-category"
        families = list(wanted.listed(f"{domain}instance-family"))
        for key, one, family in families:
            if wanted.allow(_category(family), category_of):
                yield replace(accelerator(f"{family}.xlarge"), count=None), f"{one.path} {key} {family}"
        for key, one, category in wanted.listed(category_of) if not _names_families(wanted, domain) else ():
            other = "other" if category in _OTHER_CATEGORIES else ""
            vendor = "nvidia" if category in _GPU_CATEGORIES else other
            yield Accelerator(vendor, None), f"{one.path} {key} {category}"
        left = [one for _, one in wanted.of(category_of) if one.operator == "NotIn"]
        only_gpus = not any(wanted.allow(category, category_of) for category in _CPU_CATEGORIES)
        gpus_left = any(wanted.allow(category, category_of) for category in _GPU_CATEGORIES)
        if left and not _names_families(wanted, domain) and only_gpus and gpus_left:
            yield Accelerator("nvidia", None), f"{left[0].path} every category without GPUs left out"


def _names_families(wanted: Requirements, domain: str) -> bool:
    return any(one.operator == "In" for _, one in wanted.of(f"{domain}instance-family"))


def _category(family: str) -> str:
    """Return the letters before the generation: `g` of `g5`, `gr` of `gr6`."""
    match = re.match(r"[a-z]+", family)
    return match[0] if match else ""


def _labels(machine: InstanceType) -> Mapping[str, str]:
    """Return the labels of a type: `computeRequirements` in pkg/providers/instancetype/types.go."""
    family, _, size = machine.name.partition(".")
    return {
        TYPE: machine.name,
        ARCHITECTURE: machine.architecture,
        "instance-category": _category(family),
        "instance-family": family,
        "instance-generation": family.removeprefix(_category(family))[:1],
        "instance-size": size,
        "instance-cpu": str(machine.vcpus),
        "instance-memory": str(int((machine.memory_gib or 0) * 1024)),
        "instance-gpu-count": str(machine.devices),
        "instance-gpu-manufacturer": "nvidia",
        "instance-gpu-name": machine.gpu_model.casefold(),
        "instance-gpu-memory": str(int(machine.gpu_memory_gib * 1024)),
        "instance-accelerator-name": "",
        "instance-accelerator-manufacturer": "",
        "instance-accelerator-count": "",
    }


def _ec2_node_class(spec: JsonObject) -> PoolFacts:
    """Read an EC2NodeClass; its defaults are the hardened ones (pkg/apis/v1/ec2nodeclass.go, `metadataOptions`)."""
    hardening, rows = Hardening(), controls(__package__)
    hardening.check(spec, rows["EC2NodeClass"], "spec.")
    hops = at(spec, "metadataOptions.httpPutResponseHopLimit")
    good, mandatory = hops is None or number(hops) == 1, "always" if (number(hops) or 0) > 2 else "never"
    hardening.judge(rows["EC2NodeClass hops"][0]._replace(mandatory=mandatory), hops, good)
    hardening.check(spec, rows["EC2NodeClass address"], "spec.")
    for where, one in items(spec.get("blockDeviceMappings"), "spec.blockDeviceMappings", []):
        hardening.check(mapping(one), rows["EC2NodeClass disk"], f"{where}.")
    aliases = [text(at(one, "alias")) for _, one in items(spec.get("amiSelectorTerms"), "", [])]
    family = text(spec.get("amiFamily")) or next((alias.partition("@")[0] for alias in aliases if alias), "")
    hardening.judge(rows["EC2NodeClass image"][0], family, family.casefold() != "al2")
    # Karpenter picks the NVIDIA image of these families for machines with GPUs.
    plugin = {"bottlerocket": By.CLOUD, "al2023": By.NOBODY}.get(family.casefold(), By.UNSAID)
    image = By.CLOUD if plugin else By.UNSAID
    return replace(
        pool_facts("aws", Machines(), TaintsRead(), hardening),
        software=SoftwareHints(image, image, plugin, (f"amiFamily {family}",) if plugin else ()),
        tags=string_map(spec.get("tags")),
    )


KARPENTER = KarpenterProvider(
    groups=_GROUPS,
    part="instance-",
    classes={"EC2NodeClass": _ec2_node_class},
    former_classes=("AWSNodeTemplate",),
    shown=_accelerators,
    machines=INSTANCE_TYPES,
    machine_labels=_labels,
    newer={TYPE: rf"^{_GPU_FAMILY}[.][a-z0-9-]+$", "instance-family": f"^{_GPU_FAMILY}$"},
    cpu_values={"instance-category": _CPU_CATEGORIES},
    name_parts={"instance-family": "^[^.]+", "instance-category": "^[a-z]+", "instance-size": "[^.]+$"},
    without_gpus="instance-gpu-count",
)
