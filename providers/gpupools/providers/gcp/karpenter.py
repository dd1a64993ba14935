"""What Karpenter says of Google Cloud's machines: its labels. Pure.

Source, as repository and path: cloudpilot-ai/karpenter-provider-gcp pkg/apis/v1alpha1/labels.go.
"""

from collections.abc import Callable
from dataclasses import replace

from gpupools.planned.pool_facts import Accelerator
from gpupools.read.inputs import Machines
from gpupools.read.karpenter import KarpenterProvider, Requirements

_GROUP = "karpenter.k8s.gcp"


def _shown(wanted: Requirements, machines: Machines, accelerator: Callable[[str], Accelerator]) -> None:
    for key, one, family in wanted.listed(f"{_GROUP}/instance-family"):
        found = accelerator(f"{family.partition('-')[0]}-standard-4")  # a family is what stands before the first dash
        machines.show(replace(found, count=None), f"{one.path} {key} {family}")


KARPENTER = KarpenterProvider(groups=(_GROUP,), part="instance-", shown=_shown)
