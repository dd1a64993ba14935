"""How many of which resource each node of a pool advertises to Kubernetes.

One function for the plan, the pod snippet, scale-from-zero tags and policies, so that they cannot disagree.
"""

from collections.abc import Mapping

from gpupools.catalogue import InstanceType
from gpupools.spec import Mig, SharingMode, WholeGpu

GPU_RESOURCE = "nvidia.com/gpu"
"""The resource of whole GPUs, of shared ones (never renamed here) and of slices under the strategy single."""


def capacity(instance: InstanceType, sharing: SharingMode) -> Mapping[str, int]:
    """Count the resources one node advertises, e.g. `{"nvidia.com/gpu": 32}`.

    Names follow the NVIDIA device plugin (https://github.com/NVIDIA/k8s-device-plugin, internal/rm/rm.go); shared
    replicas keep the name `nvidia.com/gpu` (renameByDefault false) so that ExtendedResourceToleration still works.

    Raises:
        UnknownProfile: A MIG profile the GPU does not have.
    """
    if isinstance(sharing, WholeGpu):
        return {GPU_RESOURCE: instance.devices}
    if not isinstance(sharing, Mig):
        return {GPU_RESOURCE: instance.devices * sharing.replicas}
    from gpupools.mig import capacity as slices_per_node  # its tables are slow to load, and most pools cut nothing

    counts = slices_per_node(instance.gpu_model, node_layouts(instance, sharing), sharing.naming)
    clients = sharing.share.replicas if sharing.share else 1
    # Only slices are shared: under mixed, a GPU left whole beside sliced ones keeps its one client.
    shared = {GPU_RESOURCE} if sharing.naming == "single" else set(counts) - {GPU_RESOURCE}
    return {resource: count * (clients if resource in shared else 1) for resource, count in counts.items()}


def node_layouts(instance: InstanceType, sharing: Mig) -> list[list[str]]:
    """Return the profiles of each GPU of the node, by GPU index; an empty list is a GPU left whole.

    Raises:
        UnknownProfile: A profile the GPU does not have.
    """
    if sharing.profile is not None:
        from gpupools.mig import profile

        return [[sharing.profile] * profile(instance.gpu_model, sharing.profile).max_instances] * instance.devices
    layouts = sharing.gpu_layouts()
    return [list(layouts.get(index, layouts.get(None, []))) for index in range(instance.devices)]
