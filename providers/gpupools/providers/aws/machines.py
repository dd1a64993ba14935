"""The instance types of EC2 with NVIDIA GPUs."""

from pathlib import Path

from gpupools.catalog.instance_types import Catalogue

INSTANCE_TYPES = Catalogue(Path(__file__).parent)
"""Every current type, and those that a pool may still have; `instance_types.csv` names the source of each.

The last column is how many pods the network interfaces have addresses for: interfaces × (addresses - 1) + 2, from
https://github.com/awslabs/amazon-eks-ami nodeadm/internal/kubelet/instance-info.jsonl (2026-11-27).
"""
