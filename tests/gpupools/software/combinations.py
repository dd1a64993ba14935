"""Every legal combination of cloud, software and sharing, with the owners it must have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PLUGIN, OPERATOR, EXPORTER, DRA, HAMI = (
    f"chart {name}"
    for name in ("nvidia-device-plugin", "gpu-operator", "dcgm-exporter", "dra-driver-nvidia-gpu", "hami")
)
AL2023, BOTTLEROCKET = "node image (AL2023 NVIDIA)", "node image (Bottlerocket NVIDIA)"
INSTALLER, POD, CDI = "Google's driver installer DaemonSet", "each pod's own mount", "GKE node image (CDI)"

TRUST = {"trust": {"team": "vision"}}
TIME_SLICING = {"sharing": {"mode": "time-slicing", "replicas": 4}, **TRUST}
MPS = {"sharing": {"mode": "mps", "replicas": 4}, **TRUST}
MIG = {"sharing": {"mode": "mig", "profile": "1g.10gb"}}
MIG_MIXED = {"sharing": {"mode": "mig", "profile": "1g.10gb", "strategy": "mixed"}}
MIG_SIZES = {"sharing": {"mode": "mig", "layout": ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]}}
MIG_SHARED = {
    "sharing": {"mode": "mig", "profile": "1g.10gb", "share": {"mode": "time-slicing", "replicas": 2}},
    **TRUST,
}

A100 = {"gpu": "A100-80GB", "gpus_per_node": 8}


@dataclass(frozen=True)
class Combination:
    cloud: str
    software: str
    owners: Mapping[str, str]
    pool: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pools(self) -> Mapping[str, Mapping[str, Any]]:
        return {"a": {**A100, "software": self.software, **self.pool}}


def plugin_on(driver: str, toolkit: str, **more: str) -> dict[str, str]:
    return {"driver": driver, "container toolkit": toolkit, "device plugin": PLUGIN, **more}


def dra_on(driver: str, toolkit: str, **more: str) -> dict[str, str]:
    return {"driver": driver, "container toolkit": toolkit, "DRA driver": DRA, **more}


def hami_on(image: str) -> dict[str, str]:
    return {"driver": image, "container toolkit": image, "device plugin": HAMI, "DCGM exporter": EXPORTER}


def operator_on(driver: str, toolkit: str, **more: str) -> dict[str, str]:
    rest = ("runtime class", "device plugin", "node feature discovery", "GPU feature discovery", "DCGM exporter")
    return {"driver": driver, "container toolkit": toolkit, **dict.fromkeys(rest, OPERATOR), **more}


BOTTLEROCKET_ALL = dict.fromkeys(("driver", "container toolkit", "runtime class", "device plugin"), BOTTLEROCKET)
GKE_ALL = dict.fromkeys(("driver", "container toolkit", "device plugin"), "GKE")
EKS_PLUGIN = plugin_on(AL2023, AL2023, **{"runtime class": "gpupools", "DCGM exporter": EXPORTER})
AKS_ALL = dict.fromkeys(("driver", "container toolkit", "device plugin", "DCGM exporter"), "AKS")
AKS_PLUGIN = plugin_on("AKS", "AKS", **{"DCGM exporter": EXPORTER})
KEPT = {"nodes": {"min": 1, "max": 4}}
FIXED = {"nodes": {"fixed": 2}}

COMBINATIONS: Mapping[str, Combination] = {
    "eks-image": Combination("aws", "cloud-managed", BOTTLEROCKET_ALL),
    "eks-image-time-slicing": Combination("aws", "cloud-managed", BOTTLEROCKET_ALL, TIME_SLICING),
    "eks-image-mps": Combination("aws", "cloud-managed", BOTTLEROCKET_ALL, MPS),
    "eks-image-mig": Combination("aws", "cloud-managed", {**BOTTLEROCKET_ALL, "MIG manager": BOTTLEROCKET}, MIG),
    "eks-plugin": Combination("aws", "device-plugin", EKS_PLUGIN),
    "eks-plugin-time-slicing": Combination("aws", "device-plugin", EKS_PLUGIN, TIME_SLICING),
    "eks-plugin-mps": Combination("aws", "device-plugin", EKS_PLUGIN, MPS),
    "eks-operator": Combination("aws", "gpu-operator", operator_on(AL2023, AL2023)),
    "eks-operator-time-slicing": Combination("aws", "gpu-operator", operator_on(AL2023, AL2023), TIME_SLICING),
    "eks-operator-mps": Combination("aws", "gpu-operator", operator_on(AL2023, AL2023), MPS),
    "eks-operator-mig": Combination(
        "aws", "gpu-operator", operator_on(AL2023, AL2023, **{"MIG manager": OPERATOR}), MIG
    ),
    "eks-operator-mig-sizes": Combination(
        "aws", "gpu-operator", operator_on(AL2023, AL2023, **{"MIG manager": OPERATOR}), MIG_SIZES
    ),
    "eks-operator-mig-shared": Combination(
        "aws", "gpu-operator", operator_on(AL2023, AL2023, **{"MIG manager": OPERATOR}), MIG_SHARED
    ),
    "eks-dra": Combination("aws", "dra-driver", dra_on(AL2023, AL2023, **{"DCGM exporter": EXPORTER}), KEPT),
    "eks-hami": Combination("aws", "hami", hami_on(AL2023), {**FIXED, **TRUST}),
    "aks-hami": Combination("azure", "hami", hami_on("AKS"), {**FIXED, **TRUST}),
    "aks-plugin": Combination("azure", "device-plugin", AKS_PLUGIN),
    "aks-plugin-time-slicing": Combination("azure", "device-plugin", AKS_PLUGIN, TIME_SLICING),
    "aks-plugin-mps": Combination("azure", "device-plugin", AKS_PLUGIN, MPS),
    "aks-plugin-mig": Combination("azure", "device-plugin", {**AKS_PLUGIN, "MIG manager": "AKS"}, MIG),
    "aks-plugin-mig-mixed": Combination("azure", "device-plugin", {**AKS_PLUGIN, "MIG manager": "AKS"}, MIG_MIXED),
    "aks-plugin-mig-shared": Combination("azure", "device-plugin", {**AKS_PLUGIN, "MIG manager": "AKS"}, MIG_SHARED),
    "aks-operator": Combination("azure", "gpu-operator", operator_on(OPERATOR, OPERATOR)),
    "aks-operator-time-slicing": Combination("azure", "gpu-operator", operator_on(OPERATOR, OPERATOR), TIME_SLICING),
    "aks-operator-mps": Combination("azure", "gpu-operator", operator_on(OPERATOR, OPERATOR), MPS),
    "aks-operator-mig-sizes": Combination(
        "azure", "gpu-operator", operator_on(OPERATOR, OPERATOR, **{"MIG manager": OPERATOR}), MIG_SIZES
    ),
    "aks-dra": Combination("azure", "dra-driver", dra_on("AKS", "AKS", **{"DCGM exporter": EXPORTER}), KEPT),
    "aks-managed": Combination("azure", "cloud-managed", AKS_ALL, FIXED),
    "aks-managed-mig": Combination("azure", "cloud-managed", {**AKS_ALL, "MIG manager": "AKS"}, {**MIG, **FIXED}),
    "aks-managed-mig-mixed": Combination(
        "azure", "cloud-managed", {**AKS_ALL, "MIG manager": "AKS"}, {**MIG_MIXED, **FIXED}
    ),
    "gke-managed": Combination("gcp", "cloud-managed", GKE_ALL),
    "gke-managed-time-slicing": Combination("gcp", "cloud-managed", GKE_ALL, TIME_SLICING),
    "gke-managed-mps": Combination("gcp", "cloud-managed", GKE_ALL, MPS),
    "gke-managed-mig": Combination("gcp", "cloud-managed", {**GKE_ALL, "MIG manager": "GKE"}, MIG),
    "gke-managed-mig-shared": Combination("gcp", "cloud-managed", {**GKE_ALL, "MIG manager": "GKE"}, MIG_SHARED),
    "gke-plugin": Combination("gcp", "device-plugin", plugin_on(INSTALLER, POD)),
    "gke-plugin-time-slicing": Combination("gcp", "device-plugin", plugin_on(INSTALLER, POD), TIME_SLICING),
    "gke-dra": Combination("gcp", "dra-driver", dra_on(INSTALLER, CDI), KEPT),
    "gke-operator": Combination("gcp", "gpu-operator", operator_on(INSTALLER, OPERATOR)),
    "gke-operator-time-slicing": Combination("gcp", "gpu-operator", operator_on(INSTALLER, OPERATOR), TIME_SLICING),
    "gke-operator-mig": Combination(
        "gcp", "gpu-operator", operator_on(INSTALLER, OPERATOR, **{"MIG manager": OPERATOR}), MIG
    ),
    "gke-operator-mig-sizes": Combination(
        "gcp", "gpu-operator", operator_on(INSTALLER, OPERATOR, **{"MIG manager": OPERATOR}), MIG_SIZES
    ),
}
