"""The plan of one pool on one cluster, with what a pod that uses the pool needs."""

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from gpupools.catalog.instance_types import InstanceType
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.taints import Effect, Taint
from gpupools.plan.capability import Capability, Owners
from gpupools.plan.dra import DEVICE_CLASS, DRA_DRIVER, GPU_CLAIM, claim_name, claim_template
from gpupools.plan.fabric import (
    CHANNEL_CLAIM,
    CHANNEL_CLASS,
    RDMA_CLAIM,
    channel_name,
    compute_domain,
    rdma_name,
    template,
)
from gpupools.plan.hami import HAMI, HAMI_SCHEDULER, hami_limits
from gpupools.plan.node_resources import KAI_SCHEDULER
from gpupools.plan.provider_plan import OfCloud, ProviderPlan
from gpupools.plan.software_plan import DriverMount
from gpupools.spec.models import SharingMode
from gpupools.spec.overrides import tellable
from gpupools.spec.software_spec import Trust

POOL_LABEL = "gpupools/pool"
"""Node label with the pool's name, for node selectors; the same on every cloud."""

GROUP_LABEL = "gpupools/group"
"""Node label of the steps of a pool that lists several: the pool's key in the stack file."""


class PoolPlan(NamedTuple):
    """What one cloud must create for one pool on one cluster: plain data, nothing late."""

    cluster: str
    """The cluster's key in the stack file."""
    cloud: str
    name: str
    """The pool's key in the stack file."""
    instance: InstanceType
    min_nodes: int
    max_nodes: int
    """Over all zones."""
    taints: tuple[Taint, ...]
    """The GPU taint first, then those the cloud adds, then the pool's own, sorted: a node's taints have no order.

    Without the start-up taint, which pods do not tolerate.
    """
    labels: Mapping[str, str]
    sharing: SharingMode
    software: str
    owners: Owners
    capability: Capability
    """The cell of the matrix that allowed it."""
    node_resources: Mapping[str, int]
    """Resource name to count, per node; empty where pods claim devices instead of asking for a resource."""
    disk_gib: int
    provider_plan: ProviderPlan
    """The cloud's own part; only its `resources.py` looks inside."""
    trust: Trust | None = None
    """Who may use the pool; None when the question does not arise."""
    runtime_class: str | None = None
    """RuntimeClass that pods must name; None where NVIDIA's runtime is the default or CDI does the work."""
    driver_mount: DriverMount | None = None
    """Where pods mount the driver themselves; None where that is done for them."""
    compute_domains: bool = False
    """Whether pods reach GPUs of other nodes over NVLink."""
    overrides: JsonObject = MappingProxyType({})
    """Inputs of the cloud's own resources that the reader overrides: `NodePool.version` to its value."""
    node_customizations: Mapping[str, str] = MappingProxyType({})
    """Those of them that run on the nodes, open them or decide whom they run as: input to what it does to the nodes."""

    startup_taint: Taint | None = None
    """The taint of a new node, until it offers `node_resources`."""
    scheduler_name: str = ""
    """The scheduler that keeps the shares of teams on this pool; empty for the cluster's own."""
    selector: str = POOL_LABEL
    """The node label by whose value `name` pods select the pool."""
    spare: int = 0
    """Nodes whose units are kept free; for a step, those of all steps of its pool together."""

    def settings(self, kind: type[OfCloud]) -> OfCloud:
        """Return the cloud's own part; raise TypeError for a plan of another cloud."""
        if not isinstance(self.provider_plan, kind):
            raise TypeError(f"pool {self.name}: expected {kind.__name__}, got {type(self.provider_plan).__name__}")
        return self.provider_plan

    @property
    def group(self) -> str:
        """Key of the pool whose step this is; empty for a pool that has no others."""
        return self.labels.get(GROUP_LABEL, "")

    @property
    def node_taints(self) -> tuple[Taint, ...]:
        """All taints with which a node starts."""
        return self.taints if self.startup_taint is None else (*self.taints, self.startup_taint)

    @property
    def units(self) -> int:
        """How many pods of one GPU, or of one share of a GPU, a node takes."""
        return sum(self.node_resources.values()) or self.instance.devices

    def pod(self, *, whole_node: bool = False, gpu_only: bool = False) -> JsonDict:
        """Return the part of a pod's spec that puts it on this pool.

        It asks for one unit of the pool's first resource, or for one GPU through the pool's `claim_template`, with its
        share of the RDMA interfaces; a fraction of a GPU is in the metadata of the pod instead (`kai.pod_metadata`).
        ExtendedResourceToleration tolerates only a taint whose key is the requested resource, so the tolerations are
        written out: https://github.com/kubernetes/kubernetes/pull/55839.

        Args:
            whole_node: Ask for everything a node has instead, its place in a ComputeDomain included.
            gpu_only: Ask for a whole unit, without interfaces.
        """
        pods = 1 if whole_node else self.units
        fabric = None if gpu_only else self.provider_plan.fabric
        is_fractional = self.sharing.fractions is not None and not gpu_only
        claims: dict[str, str] = {}
        limits: JsonDict = {}
        if self.software == DRA_DRIVER:
            claims[GPU_CLAIM] = claim_name(self.name, whole_node=whole_node)
        elif self.software == HAMI:
            limits = hami_limits()
        elif not is_fractional:
            limits = dict(self.node_resources) if whole_node else {next(iter(self.node_resources)): 1}
        if fabric is not None:
            limits |= fabric.limits(pods)
            if fabric.claimed(pods):
                claims[RDMA_CLAIM] = rdma_name(self.name, whole_node=whole_node)
        if whole_node and self.compute_domains:
            claims[CHANNEL_CLAIM] = channel_name(self.name)
        resources: JsonDict = {"limits": limits} if limits else {}
        if "hugepages-2Mi" in limits:  # which the API takes only beside CPU or memory
            resources["requests"] = {"cpu": "1"}
        if claims:
            resources["claims"] = [{"name": name} for name in claims]
        container: JsonDict = {"name": "main", "resources": resources}
        if fabric is not None and fabric.locks_memory and fabric.share(pods):
            container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
        asks: JsonObject = {"containers": [container]}
        if self.driver_mount is not None:
            asks = _mounting(container, self.driver_mount)
        listed = [{"name": name, "resourceClaimTemplateName": claim} for name, claim in claims.items()]
        return {
            **({"schedulerName": KAI_SCHEDULER} if is_fractional else {}),
            **({"schedulerName": self.scheduler_name} if self.scheduler_name and not gpu_only else {}),
            **({"schedulerName": HAMI_SCHEDULER} if self.software == HAMI else {}),
            "nodeSelector": {self.selector: self.name, **self.provider_plan.pod_labels()},
            "tolerations": [_toleration(taint) for taint in self.taints if taint.effect != Effect.PREFER_NO_SCHEDULE],
            **({"runtimeClassName": self.runtime_class} if self.runtime_class is not None else {}),
            **({"resourceClaims": listed} if listed else {}),
            **asks,
        }

    @property
    def node_pod(self) -> JsonObject:
        """The part of a spec of a pod that takes a whole node; empty where nodes are no unit of work of their own."""
        on_fabric = self.provider_plan.fabric is not None or self.compute_domains
        return self.pod(whole_node=True) if on_fabric and self.sharing.kind == "none" else {}

    @property
    def namespace_objects(self) -> tuple[JsonObject, ...]:
        """What the namespace of such pods needs first: claim templates, and a ComputeDomain for each workload."""
        if not self.node_pod and not self.provider_plan.fabric:
            return ()
        found = [self.claim_template] if self.claim_template else []
        if self.claim_template and self.node_pod:
            found.append(claim_template(self.name, node_gpus=self.instance.devices))
        fabric = self.provider_plan.fabric
        if fabric is not None:
            for whole_node, pods in ((False, self.units), *(((True, 1),) if self.node_pod else ())):
                name, count = rdma_name(self.name, whole_node=whole_node), fabric.claimed(pods)
                found += [template(name, RDMA_CLAIM, fabric.device_class, count)] if count else []
        if self.compute_domains:
            found.append(compute_domain(self.name))
        return tuple(found)

    @property
    def countable(self) -> Mapping[str, int]:
        """What a node has of what a scheduler counts: resources, or devices of the DeviceClass that pods claim."""
        return self.node_resources or {DEVICE_CLASS: self.instance.devices}

    @property
    def device_classes(self) -> frozenset[str]:
        """The DeviceClasses that the pool's pods claim devices of."""
        made = [*self.namespace_objects, *([self.claim_template] if self.claim_template else [])]
        templates = [item["spec"]["spec"]["devices"] for item in made if item["kind"] == "ResourceClaimTemplate"]
        found = {request["exactly"]["deviceClassName"] for item in templates for request in item["requests"]}
        return frozenset(found | ({CHANNEL_CLASS} if self.compute_domains else set()))

    @property
    def claim_template(self) -> JsonObject:
        """The ResourceClaimTemplate that a pod's namespace needs; empty where pods ask for a resource."""
        return claim_template(self.name) if self.software == DRA_DRIVER else {}

    def as_json(self) -> JsonDict:
        """Return the plan as JSON types, for `gpupools preview --json`."""
        return {
            "cluster": self.cluster,
            "cloud": self.cloud,
            "name": self.name,
            "instance_type": self.instance.name,
            "gpu_model": self.instance.gpu_model,
            "gpus_per_node": gpus_as_json(self.instance.gpus),
            "nodes": {"min": self.min_nodes, "max": self.max_nodes, **({"spare": self.spare} if self.spare else {})},
            "taints": [str(taint) for taint in self.taints],
            **({"startup_taint": str(self.startup_taint)} if self.startup_taint is not None else {}),
            "labels": dict(self.labels),
            "sharing": self.sharing.model_dump(mode="json", exclude_none=True),
            "sharing_kind": self.sharing.kind,
            **({"trust": self.trust.model_dump(mode="json", exclude_none=True)} if self.trust is not None else {}),
            "software": self.software,
            "owners": self.owners._asdict(),
            "verdict": self.capability.verdict.value,
            "why": self.capability.why,
            "source": self.capability.source,
            "capacity": dict(self.node_resources),
            "node_resources": dict(self.provider_plan.extra_resources()),
            "disk_gib": self.disk_gib,
            "set_by_hand": {path: tellable(path, value) for path, value in self.overrides.items()},
            "customised": dict(self.node_customizations),
            "pod": self.pod(),
            **({"claim_template": dict(self.claim_template)} if self.claim_template else {}),
            **({"node_pod": dict(self.node_pod)} if self.node_pod else {}),
            **(
                {"namespace_objects": [dict(each) for each in self.namespace_objects]} if self.namespace_objects else {}
            ),
        }


def gpus_as_json(gpus: Fraction) -> int | float:
    """Write a number of GPUs as JSON: whole ones as an integer, a part of one as a number below 1."""
    return int(gpus) if gpus.denominator == 1 else float(gpus)


def _toleration(taint: Taint) -> dict[str, str]:
    toleration = {"key": taint.key, "operator": "Exists", "effect": taint.effect.value}
    return toleration | ({"operator": "Equal", "value": taint.value} if taint.value else {})


def _mounting(container: JsonObject, driver: DriverMount) -> JsonDict:
    """Return the keys of a pod's spec whose first container finds the driver where the host has it.

    https://github.com/GoogleCloudPlatform/compute-gpu-installation/issues/46 has the images that need the variable.
    """
    given = {
        "env": [{"name": "LD_LIBRARY_PATH", "value": f"{driver.inside}/lib64"}],
        "volumeMounts": [{"name": "nvidia-driver", "mountPath": driver.inside, "readOnly": True}],
    }
    host = {"name": "nvidia-driver", "hostPath": {"path": driver.host, "type": "Directory"}}
    return {"containers": [{**container, **given}], "volumes": [host]}
