"""Public guidance that several rules enforce."""

from gpupools.policies.finding import Framework

HARDENING = Framework(
    "CIS Benchmarks for EKS, AKS and GKE",
    "EKS 1.8, AKS 1.8, GKE 1.9",
    "EKS 5.4, AKS 5.4, GKE 5.2, 5.4 and 5.5",
    "private nodes, own identity, protected metadata service, encrypted disks",
)

DEDICATED = Framework(
    "Amazon EKS Best Practices Guide",
    "2026",
    "AI/ML compute",
    "taint nodes with accelerators, so that only pods that request them run there",
)

ISOLATION = Framework(
    "NVIDIA GPU Operator documentation",
    "26.7",
    "GPU sharing",
    "time-slicing and MPS share faults between pods, MIG isolates them in hardware",
)

CAPACITY = Framework(
    "AWS Well-Architected Framework", "2026", "Cost optimization", "limit and attribute the cost of scarce resources"
)
ONE_OWNER = Framework(
    "NVIDIA GPU Operator documentation",
    "26.7",
    "Platform support, pre-installed drivers and toolkit",
    "exactly one source for driver, toolkit and device plugin on each node",
)
