"""The node labels that tell GPU software in the cluster what to do on a pool's nodes.

They are part of the pool's plan, so that a node the autoscaler starts has them from its first second; they follow
from the pool alone, never from its neighbours.
"""

import re
from collections.abc import Mapping

from gpupools.catalog.instance_types import InstanceType
from gpupools.plan.fabric import COMPUTE_DOMAINS_LABEL
from gpupools.plan.hami import HAMI, HAMI_LABEL
from gpupools.spec.models import SharingMode
from gpupools.spec.software_spec import Trust

SOFTWARE_LABEL = "gpupools/software"
"""Node label with the pool's `software`: what DaemonSets of ours select, so that each stays on its own nodes."""

TRUST_LABEL = "gpupools/trust"
"""Node label and taint key of a pool that names who may use it, and the label of a team's namespaces."""

WAIVER_LABEL = "gpupools/trust-waiver"
"""Node label of a shared pool that anyone may use, with the reason as far as a label holds it.

A waiver has no taint and no policy; the label is what an audit of the nodes, or the policy pack, sees of it.
"""

OPERANDS_LABEL = "nvidia.com/gpu.deploy.operands"
"""Node label that, at `false`, keeps every operand of a GPU Operator off: ours, or one that somebody installs later.

https://github.com/NVIDIA/gpu-operator, controllers/state_manager.go, hasOperandsDisabled.
"""

PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""Node label that names the entry of the device plugin's ConfigMap (https://github.com/NVIDIA/k8s-device-plugin)."""

MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""Node label that names the layout the MIG manager makes (https://github.com/NVIDIA/mig-parted)."""

MIG_STATE_LABEL = f"{MIG_CONFIG_LABEL}.state"
"""`pending`, `rebooting`, `success` or `failed` (https://github.com/NVIDIA/mig-parted, cmd/nvidia-mig-manager)."""

CONFIG_LABELS = (PLUGIN_CONFIG_LABEL, MIG_CONFIG_LABEL)
"""Node labels that name a configuration in a ConfigMap."""

MPS_CAPABLE_LABEL = "nvidia.com/mps.capable"
"""Node label on which the MPS control daemon of the device plugin's chart starts.

GPU feature discovery would write it, and needs Node Feature Discovery for that; the plan knows it without the two.
https://github.com/NVIDIA/k8s-device-plugin, templates/daemonset-mps-control-daemon.yml.
"""

GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
"""Node label that says there are GPUs, without Node Feature Discovery: a team's own plugin or DRA driver goes by it.

Both charts have it in the affinity of their values.yaml (https://github.com/NVIDIA/k8s-device-plugin,
https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu). A GPU Operator in the cluster rewrites it
(`owners.labels_left`), so nothing of ours selects it.
"""

GPU_MODEL_LABEL = "gpupools/gpu-model"
"""Node label with the GPU model, by its name in the catalogue: `H100-80GB`."""

GPU_COUNT_LABEL = "gpupools/gpu-count"
"""Node label with the number of GPUs that a node has, whatever they are cut or shared into; 1 for a part of one."""

GPU_MEMORY_LABEL = "gpupools/gpu-memory-gib"
"""Node label with the memory of each, in whole GiB rounded down, so that affinities can compare it (`Gt`, `Lt`)."""

SHARING_LABEL = "gpupools/sharing"
"""Node label with how containers share them: `none`, `time-slicing`, `mps`, `mig`, `mig-mixed`, …, `mig.mps`, …"""

SKYPILOT_LABEL = "skypilot.co/accelerator"
"""Node label by which SkyPilot finds the nodes of a GPU where no cloud's own label says it.

Beside an autoscaler that is neither GKE's nor Karpenter it selects by this one, so an empty pool needs it too.
https://github.com/skypilot-org/skypilot, sky/provision/kubernetes/utils.py (SkyPilotLabelFormatter).
"""

# https://github.com/skypilot-org/skypilot, sky/utils/gpu_names.py; what is not in it has no name that SkyPilot knows.
_SKYPILOT_NAMES = frozenset(
    {
        *("GB300", "GB200", "B300", "B200", "GH200", "H200", "H100", "A100-80GB", "A100", "A10G", "A10", "A30"),
        *("L40S", "L4", "V100-32GB", "V100", "P100", "P40", "P4", "T4G", "T4", "K80", "M60"),
    }
)


def skypilot_label(gpu_model: str, given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the label that tells SkyPilot of a GPU model; empty for one without a name there, or given by the user."""
    if SKYPILOT_LABEL in given:
        return {}
    named = [name for name in (gpu_model, re.sub(r"-\d+GB$", "", gpu_model)) if name in _SKYPILOT_NAMES]
    return {SKYPILOT_LABEL: named[0].lower()} if named else {}


DESCRIBING_LABELS = frozenset({GPU_MODEL_LABEL, GPU_COUNT_LABEL, GPU_MEMORY_LABEL, SHARING_LABEL, SKYPILOT_LABEL})
"""Labels that say what a node has and change nothing there: they follow from machine and sharing."""


NODE_GROUP_LABEL = "volcano.sh/nodegroup-name"
"""Node label by which Volcano's queues use the nodes of their pool only.

https://github.com/volcano-sh/volcano/blob/v1.15.1/docs/user-guide/how_to_use_nodegroup_plugin.md
"""

OUR_LABELS = frozenset(
    {
        NODE_GROUP_LABEL,
        SOFTWARE_LABEL,
        TRUST_LABEL,
        WAIVER_LABEL,
        OPERANDS_LABEL,
        PLUGIN_CONFIG_LABEL,
        MIG_CONFIG_LABEL,
        MPS_CAPABLE_LABEL,
        COMPUTE_DOMAINS_LABEL,
        GPU_MODEL_LABEL,
        GPU_COUNT_LABEL,
        GPU_MEMORY_LABEL,
        SHARING_LABEL,
    }
)
"""Labels that a plan sets and a reader cannot."""


def pool_labels(
    name: str, instance: InstanceType, sharing: SharingMode, software: str, trust: Trust | None, *, native: bool
) -> Mapping[str, str]:
    """Return the labels that tell GPU software in the cluster what to do on a pool's nodes.

    Args:
        name: The pool's key.
        instance: Its machine.
        sharing: How its GPUs are shared.
        software: Who brings the GPU software.
        trust: Who may use it.
        native: Whether the cloud's own pool does the sharing; then no MIG manager cuts the GPUs.
    """
    # The configurations themselves are only loaded for a pool that shares its GPUs.
    labels = {
        SOFTWARE_LABEL: software,
        GPU_MODEL_LABEL: instance.gpu_model,
        GPU_COUNT_LABEL: str(instance.devices),
        GPU_MEMORY_LABEL: str(int(instance.gpu_memory_gib)),
        SHARING_LABEL: sharing.kind.replace("+", "."),  # no value of a label has a plus
    }
    mig, clients = sharing.mig, sharing.clients
    if software == HAMI:
        labels |= {SHARING_LABEL: HAMI, HAMI_LABEL: "on"}
    if software != "gpu-operator":
        labels[OPERANDS_LABEL] = "false"
    if software in ("device-plugin", "gpu-operator") and (mig is not None or clients is not None):
        from gpupools.plan.plugin_configs import plugin_config_name

        labels[PLUGIN_CONFIG_LABEL] = plugin_config_name(instance, sharing)
    if software == "device-plugin" and clients is not None and clients.facts.control_daemon:
        labels[MPS_CAPABLE_LABEL] = "true"
    if software == "gpu-operator" and mig is not None and not native:
        from gpupools.plan.plugin_configs import mig_config

        labels[MIG_CONFIG_LABEL] = mig_config(instance, mig).name
    mark = trust.mark(name) if trust is not None else None
    if mark is not None:
        labels[TRUST_LABEL] = mark
    if trust is not None and trust.waiver is not None:
        labels[WAIVER_LABEL] = _as_label(trust.waiver)
    return labels


def _as_label(reason: str) -> str:
    """Write a sentence as a label's value: 63 letters, digits, `-`, `_` and `.` at most."""
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", reason)[:63].strip("-_.")
    return words or "given"
