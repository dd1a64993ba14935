"""How many of which resource each node of a pool advertises to Kubernetes.

One function for the plan, the pod snippet, scale-from-zero tags and policies, so that they cannot disagree.
"""

from collections.abc import Mapping

from gpupools.catalog.instance_types import InstanceType
from gpupools.spec.models import Mig, SharingMode

GPU_RESOURCE = "nvidia.com/gpu"
"""The resource of whole GPUs, of shared ones that keep their name, and of slices under the strategy single."""

KAI_SCHEDULER = "kai-scheduler"
"""The `schedulerName` of pods with a fraction of a GPU."""

KAI_NAMESPACES = ("kai-resource-reservation", "kai-scale-adjust")
"""Namespaces of KAI's pods on GPU nodes: those that hold a GPU of which pods have parts, and those that start nodes."""

FRACTION_ANNOTATIONS = ("gpu-fraction", "gpu-memory")
"""Annotations by which pods of KAI ask for a fraction of a GPU instead of a resource.

https://github.com/kai-scheduler/KAI-Scheduler tag v0.17.0, pkg/common/constants/constants.go.
"""

ACCELERATOR_RESOURCES = (
    "nvidia.com/",
    "deviceclass.resource.kubernetes.io/",
    "volcano.sh/vgpu-",
    "amd.com/gpu",
    "google.com/tpu",
    "aws.amazon.com/neuron",
    "habana.ai/gaudi",
)
"""Prefixes of resources by which pods ask for an accelerator; a device class may have a resource of its own.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource,
https://github.com/volcano-sh/volcano docs/user-guide/how_to_use_volcano_vgpu.md,
https://docs.cloud.google.com/kubernetes-engine/docs/how-to/tpus,
https://docs.aws.amazon.com/eks/latest/userguide/node-instances-neuron.html.
"""

_RENAMED = ".shared"
"""What the device plugin appends under renameByDefault (NVIDIA/k8s-device-plugin, api/config/v1/consts.go)."""


def node_resources(instance: InstanceType, sharing: SharingMode) -> Mapping[str, int]:
    """Count the resources one node advertises, e.g. `{"nvidia.com/gpu": 32}`.

    Names follow the NVIDIA device plugin (https://github.com/NVIDIA/k8s-device-plugin, internal/rm/rm.go and, for
    replicas with `rename`, internal/rm/device_map.go): time-slicing and MPS alike become `nvidia.com/gpu.shared` or
    `nvidia.com/mig-1g.10gb.shared`. Without it replicas keep their name, for which ExtendedResourceToleration works.

    Raises:
        UnknownProfile: A MIG profile the GPU does not have.
    """
    counts, clients = unshared(instance, sharing), sharing.clients
    if clients is None:
        return counts
    # Only slices are shared: under mixed, a GPU left whole beside sliced ones keeps its one client.
    mixed = sharing.mig is not None and sharing.mig.naming == "mixed"
    shared = set(counts) - {GPU_RESOURCE} if mixed else set(counts)
    suffix = _RENAMED if clients.rename else ""
    offered = {name + suffix: count * clients.replicas for name, count in counts.items() if name in shared}
    return dict(sorted({**{name: count for name, count in counts.items() if name not in shared}, **offered}.items()))


def unshared(instance: InstanceType, sharing: SharingMode) -> Mapping[str, int]:
    """Count the GPUs or slices of one node by the resources they would be if no containers shared them.

    Raises:
        UnknownProfile: A MIG profile the GPU does not have.
    """
    mig = sharing.mig
    if mig is None:
        return {GPU_RESOURCE: instance.devices}
    from gpupools.catalog.mig_nodes import advertised  # its tables are slow to load, and most pools cut nothing

    return advertised(instance.gpu_model, node_layouts(instance, mig), mig.naming)


def node_layouts(instance: InstanceType, sharing: Mig) -> list[list[str]]:
    """Return the profiles of each GPU of the node, by GPU index; an empty list is a GPU left whole.

    Raises:
        UnknownProfile: A profile the GPU does not have.
    """
    if sharing.profile is not None:
        from gpupools.catalog.mig import profile

        return [[sharing.profile] * profile(instance.gpu_model, sharing.profile).max_instances] * instance.devices
    layouts = sharing.gpu_layouts()
    return [list(layouts.get(index, layouts.get(None, []))) for index in range(instance.devices)]


def slice_shares(instance: InstanceType, sharing: Mig) -> list[list[tuple[str, float]]]:
    """Return the profiles of each GPU of the node as `node_layouts` does, each with its share of the GPU.

    Raises:
        UnknownProfile: A profile the GPU does not have.
    """
    from gpupools.catalog.mig import geometry, profile  # its tables are slow to load, and most pools cut nothing

    model = instance.gpu_model
    units = geometry(model)

    def share(name: str) -> float:
        cut = profile(model, name)
        if cut.size is not None and units.placement_units is not None:
            return cut.size / units.placement_units
        return cut.memory_slices / units.memory_slices

    return [[(name, share(name)) for name in layout] for layout in node_layouts(instance, sharing)]
