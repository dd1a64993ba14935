"""What Karpenter says of Azure's machines: its labels and its AKSNodeClass. Pure.

Source, as repository and path: Azure/karpenter-provider-azure pkg/apis/v1beta1/labels.go.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.json_types import JsonObject
from gpupools.plan.karpenter_provider import KarpenterProvider, Requirements
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, By, PoolFacts, SoftwareHints
from gpupools.providers.azure.machines import INSTANCE_TYPES
from gpupools.readback.inputs import Hardening, Machines, TaintsRead, at, controls, pool_facts, string_map, text
from gpupools.readback.karpenter import ARCHITECTURE, SYSTEM, TYPE

_GROUP = "karpenter.azure.com"
_FAMILIES = (f"{_GROUP}/sku-family", f"{_GROUP}/sku-series")
# Every family but N, https://learn.microsoft.com/azure/virtual-machines/sizes/overview: where all are left out, only
# machines with GPUs are left.
_CPU_FAMILIES = ("A", "B", "D", "E", "F", "H", "L", "M")


def _accelerators(wanted: Requirements, accelerator: Callable[[str], Accelerator]) -> Iterator[tuple[Accelerator, str]]:
    for key, one in wanted.of(*_FAMILIES):
        if one.operator == "In" and any(re.match(r"N(?:[CDV]|$)", value.upper()) for value in one.values):
            yield Accelerator("nvidia", None), f"{one.path} {key} {', '.join(one.values)}"
    family = _FAMILIES[0]
    left = [one for _, one in wanted.of(family) if one.operator == "NotIn"]
    if left and wanted.allow("N", family) and not any(wanted.allow(cpu_family, family) for cpu_family in _CPU_FAMILIES):
        yield Accelerator("nvidia", None), f"{left[0].path} every family without GPUs left out"


# Standard_NC24ads_A100_v4 is of the series NCads_v4 (pkg/providers/instancetype/suite_test.go).
_SIZE = re.compile(r"Standard_(?P<family>N[A-Z]*)\d+(?P<features>[a-z]*).*?(?P<version>_v\d+)?")


def _labels(machine: InstanceType) -> Mapping[str, str]:
    """Return the labels of a size: `computeRequirements` in pkg/providers/instancetype."""
    match = _SIZE.fullmatch(machine.name)
    family, features, version = match.group("family", "features", "version") if match else ("N", "", "")
    cpu, memory = str(machine.vcpus), str(int((machine.memory_gib or 0) * 1024))
    return {
        TYPE: machine.name,
        ARCHITECTURE: machine.architecture,
        SYSTEM: "linux",
        "sku-name": machine.name,
        "sku-family": "N",
        "sku-series": f"{family}{features}{version or ''}",
        "sku-version": (version or "_v1").removeprefix("_v"),
        "sku-cpu": cpu,
        "sku-memory": memory,
        "kubernetes.azure.com/sku-cpu": cpu,
        "kubernetes.azure.com/sku-memory": memory,
        "sku-gpu-count": str(machine.devices),
        "sku-gpu-manufacturer": "nvidia",
        "sku-gpu-name": machine.gpu_model.partition("-")[0],
    }


def _aks_node_class(spec: JsonObject) -> PoolFacts:
    """Read an AKSNodeClass: Azure/karpenter-provider-azure, pkg/apis/v1beta1/aksnodeclass.go."""
    hardening = Hardening()
    hardening.check(spec, controls(__package__)["AKSNodeClass"], "spec.")
    mode = at(spec, "gpu.mode")
    driver = By.NOBODY if mode == "None" else By.UNSAID if mode is UNKNOWN else By.CLOUD
    toolkit = driver if driver is By.CLOUD else By.UNSAID
    said = () if mode is UNKNOWN else (f"spec.gpu.mode {text(mode) or 'unset'}",)
    return replace(
        pool_facts("azure", Machines(), TaintsRead(), hardening),
        software=SoftwareHints(driver, toolkit, By.NOBODY, said),
        tags=string_map(spec.get("tags")),
    )


KARPENTER = KarpenterProvider(
    groups=(_GROUP,),
    part="sku-",
    classes={"AKSNodeClass": _aks_node_class},
    type_labels=(f"{_GROUP}/sku-name",),
    shown=_accelerators,
    machines=INSTANCE_TYPES,
    machine_labels=_labels,
    newer={
        TYPE: "(?i)^standard_n(cc?|d|g|v)[0-9]",
        **{family.partition("/")[2]: "(?i)^n([cdv]|$)" for family in _FAMILIES},
    },
    cpu_values={"sku-family": _CPU_FAMILIES},
    counts_none=True,
    without_gpus="sku-gpu-manufacturer",
)
