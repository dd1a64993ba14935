"""The objects of a live cluster: nodes, GPU software, pools of autoscalers, and pods without GPUs on GPU nodes."""

from collections.abc import Iterator

from gpupools.audit.document import Document
from gpupools.audit.kubernetes import objects
from gpupools.common.bounded_yaml import Value
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.policies.declared_stack import Gap
from gpupools.policies.rules.gpu_node_pods_use_gpus import takes_no_gpu
from gpupools.readback.inputs import at
from gpupools.ready.live_cluster import ClusterApi
from gpupools.ready.snapshot import Read

FORM = "live cluster"

READS = (
    Read("nodes", "v1", "Node"),
    Read("daemonsets", "apps/v1", "DaemonSet"),
    Read("clusterpolicies", "nvidia.com/v1", "ClusterPolicy"),
    Read("nodepools", "karpenter.sh/v1", "NodePool"),
    Read("computeclasses", "cloud.google.com/v1", "ComputeClass"),
    Read("pods", "v1", "Pod"),
)
"""What is listed. Of pods, those are kept that are on GPU nodes and ask for no GPU."""


def read_cluster(api: ClusterApi) -> Document:
    """Return what a cluster has; what may not be listed is a gap.

    Raises:
        PermissionError: Nothing may be listed.
    """
    found: list[JsonDict] = []
    gaps: list[Gap] = []
    for read in READS:
        try:
            found += _objects(api, read, {item["metadata"]["name"] for item in found if _may_have_gpus(item)})
        except PermissionError as error:
            gaps.append(Gap("not-seen", f"{read.plural} are not seen: {error}", f"grant list of {read.plural}"))
    if len(gaps) == len(READS):
        raise PermissionError(gaps[0].what)
    return Document(FORM, tuple(one for item in found for one in objects(Value(item))), tuple(gaps))


def _objects(api: ClusterApi, read: Read, gpu_nodes: set[str]) -> Iterator[JsonDict]:
    is_pod = read.what == "Pod"
    for item in api.items(read.path, "nodes" if read.what == "Node" else "", keeps=not is_pod):
        if not is_pod or (item["spec"].get("nodeName") in gpu_nodes and takes_no_gpu(item)):
            kept = _judged(item) if is_pod else item
            if is_pod:
                api.kept(kept)
            yield {**kept, "apiVersion": read.api, "kind": read.what}


def _judged(pod: JsonObject) -> JsonDict:
    """Return what the rules read of a pod that asks for no GPU."""
    parts = {key: pod["spec"].get(key) or () for key in ("containers", "initContainers")}
    images = {key: [{"name": at(one, "name"), "image": at(one, "image")} for one in parts[key]] for key in parts}
    return {"metadata": pod["metadata"], "spec": {"nodeName": pod["spec"]["nodeName"], **images}}


def _may_have_gpus(found: JsonObject) -> bool:
    if found["kind"] != "Node":
        return False
    names = (*found["status"].get("capacity", ()), *found["metadata"].get("labels", ()))
    return any(name == POOL_LABEL or name.startswith("nvidia.com/") for name in names)
