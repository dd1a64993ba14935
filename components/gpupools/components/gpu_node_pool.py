"""The component `GpuNodePool`: one GPU pool on one existing cluster of any cloud."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, NotRequired, TypedDict

import pulumi

from gpupools.common.errors import Path, Problem, Rejected, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.naming import camel
from gpupools.components.arguments import (
    Refused,
    known_values,
    parse_cloud,
    parse_cluster_argument,
    unknown_arguments,
    valid,
)
from gpupools.components.declared_components import place_of, pool_problems, wait_for_distinct_pools
from gpupools.diff.guard import RECORD
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.providers import clouds
from gpupools.software.owners import without_rdma
from gpupools.stackfile.stack_validation import bad_key, former_key_problems, parse_pool


class NodesArgs(TypedDict):
    """How many nodes the pool may have, over all its zones."""

    min: NotRequired[int]
    """Nodes kept while idle; 0 when left out."""
    max: NotRequired[int]
    """Nodes the autoscaler may add up to."""
    fixed: NotRequired[int]
    """A fixed number of nodes without an autoscaler; instead of min and max."""
    spare: NotRequired[int]
    """Nodes whose units stay free for the next pods."""


class SharingArgs(TypedDict):
    """How containers share a GPU."""

    mode: str
    """`none`, `time-slicing`, `mps` or `mig`."""
    replicas: NotRequired[int]
    """Containers per GPU, for time-slicing and mps."""
    rename: NotRequired[bool]
    """Offer the replicas as `nvidia.com/gpu.shared`, for time-slicing and mps; false when left out."""
    placement: NotRequired[str]
    """`pack` fills one GPU before the next, for time-slicing and mps; `spread` when left out."""
    profile: NotRequired[str]
    """MIG profile of every slice, e.g. `1g.10gb`."""
    layout: NotRequired[Any]
    """MIG profiles of one GPU (a list), or per GPU index (a map of lists)."""
    strategy: NotRequired[str]
    """MIG strategy, `single` or `mixed`."""
    share: NotRequired[Any]
    """Sharing of each MIG slice: a map with mode, replicas and, for another name, rename."""


class TrustArgs(TypedDict):
    """Who may use a pool with shared GPUs: one of team, namespaces and waiver."""

    team: NotRequired[str]
    """The namespaces labelled `gpupools/trust: <team>`."""
    namespaces: NotRequired[list[str]]
    """These namespaces."""
    waiver: NotRequired[str]
    """The reason why containers of any team may share the GPUs of this pool."""
    quota: NotRequired[int]
    """With namespaces: how many units of the pool's resource each of them may request at a time."""


class PoolArgs(TypedDict):
    """The pool, with the keys of a pool in a stack file; all are plain values, since the plan depends on them."""

    gpu: NotRequired[str]
    """GPU model with its memory size, e.g. `A100-80GB`; or give instance_type."""
    gpus_per_node: NotRequired[Any]
    """GPUs per node, with gpu; 1 when left out. A string for a fraction of a GPU: `1/4`."""
    instance_type: NotRequired[str]
    """The cloud's own instance type; or give gpu."""
    nodes: NodesArgs
    """Node range."""
    sharing: NotRequired[SharingArgs]
    """Left out: a GPU belongs to one container at a time."""
    trust: NotRequired[TrustArgs]
    """Who may use the pool; required with time-slicing and mps."""
    software: NotRequired[str]
    """`cloud-managed`, `device-plugin`, `gpu-operator` or `dra-driver`; left out: the cloud's default."""
    disk_gib: NotRequired[int]
    """Disk size of each node in GiB; 200 when left out."""
    labels: NotRequired[dict[str, str]]
    """Additional node labels."""
    taints: NotRequired[list[str]]
    """Additional taints, as `key=value:Effect`; the pool always has the GPU taint."""
    capacity: NotRequired[JsonDict]
    """How machines are purchased: a map with mode (`on-demand`, `spot`, `reservation`, …) and the keys of that mode."""
    zones: NotRequired[list[str]]
    """Zones of the nodes."""
    image: NotRequired[JsonDict]
    """The node image: family, id, fips."""
    driver: NotRequired[str]
    """GKE: `default` or `latest` driver version; `default` when left out."""
    disk: NotRequired[JsonDict]
    """Each node's disks: type, encryption_key, local_nvme."""
    network: NotRequired[JsonDict]
    """Network of the nodes, by the keys that a stack file has there."""
    security: NotRequired[JsonDict]
    """secure_boot, imds_hop_limit."""
    upgrade: NotRequired[JsonDict]
    """How nodes are replaced: strategy, max_surge, max_unavailable, drain_timeout_min."""
    auto_repair: NotRequired[bool]
    """Whether the cloud replaces unhealthy nodes; true when left out."""
    startup_taint: NotRequired[bool]
    """Whether new nodes accept pods only when they offer their GPUs; a GpuRuntime of the cluster removes the taint."""
    tags: NotRequired[dict[str, str]]
    """Tags or resource labels of the pool and its machines."""
    protect: NotRequired[bool]
    """Reject deletion and replacement of the pool until this is removed."""
    renamed_from: NotRequired[str]
    """The pool's former name; keeps the nodes when a pool is renamed."""
    first_name: NotRequired[str]
    """The name that the pool was created with, from which its name in the cloud is derived.

    Left out: renamed_from, or without that the pool's name.
    """
    adopt: NotRequired[JsonDict]
    """Import an existing pool: its name in the cloud, and keep, the settings that stay as they are."""
    timeouts: NotRequired[dict[str, int]]
    """How long Pulumi waits, in minutes: create_min, update_min, delete_min."""
    overrides: NotRequired[JsonDict]
    """Overrides of the cloud resources' inputs: cloud → resource → input → value."""


class GpuNodePoolArgs(TypedDict):
    """Inputs of `GpuNodePool`. Only values that the plan does not depend on may be outputs."""

    cloud: str
    """The cloud of the cluster: `aws`, `azure` or `gcp`."""
    cluster: dict[str, pulumi.Input[Any]]
    """The existing cluster, with the keys of a cluster of this cloud in a stack file; addresses may be outputs."""
    pool: PoolArgs
    """The pool."""
    pool_name: NotRequired[str]
    """Short name (1 to 20 characters) for the node label `gpupools/pool` and the pool's name in the cloud.

    Left out: the component's own name.
    """


class PlannedPool(NamedTuple):
    """A pool that the stack program has already planned together with all others of its file."""

    plan: PoolPlan
    record: pulumi.Input[JsonObject]
    """The record that the program's next run compares the pool with."""


class GpuNodePool(pulumi.ComponentResource):
    """Declare one tainted GPU node pool on a cluster that already exists.

    Raises:
        pulumi.InputPropertiesError: The pool is invalid; the message lists every problem with its fix.
    """

    node_pool_name: pulumi.Output[str]
    """The pool's name in the cloud."""
    capacity: pulumi.Output[dict[str, int]]
    """The extended resources of each node: resource name to count, e.g. `{"nvidia.com/gpu": 8}`."""
    pod: pulumi.Output[JsonDict]
    """The pod spec that schedules on this pool: nodeSelector, tolerations and a container's limits."""
    claim_template: pulumi.Output[JsonDict]
    """The ResourceClaimTemplate that the pod's namespace needs with software `dra-driver`; otherwise empty."""
    node_pod: pulumi.Output[JsonDict]
    """The pod spec that takes a whole node, with RDMA or compute domains; otherwise empty."""
    namespace_objects: pulumi.Output[list[JsonDict]]
    """Objects that the pods' namespace needs first: claim templates and a ComputeDomain; may be empty."""

    def __init__(
        self,
        name: str,
        args: GpuNodePoolArgs,
        opts: pulumi.ResourceOptions | None = None,
        planned: PlannedPool | None = None,
    ) -> None:
        """Plan the pool from its arguments; with `planned`, only the addresses are read from them."""
        former = _former_name(name, args)
        if former is not None:
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[pulumi.Alias(name=former)]))
        super().__init__("gpupools:index:GpuNodePool", name, dict(args), opts)
        plan, addresses = (planned.plan, _addresses(args)) if planned is not None else _plan_and_compare(name, args)
        # The engine does not pass a component's dependencies on to its children.
        below = pulumi.ResourceOptions(
            parent=self,
            depends_on=opts.depends_on if opts is not None else None,
            transformations=self._with_former_names(name, former) if former is not None else None,
        )
        self.node_pool_name = clouds()[plan.cloud].node_pools.resources().create_pool(name, plan, addresses, below)
        # Plain values: `from_input` would create an output for every nested value.
        outputs: JsonDict = {
            "capacity": dict(plan.node_resources),
            "pod": plan.pod(),
            "claim_template": dict(plan.claim_template),
            "node_pod": dict(plan.node_pod),
            "namespace_objects": [dict(namespace_object) for namespace_object in plan.namespace_objects],
        }
        for key in outputs:
            setattr(self, key, pulumi.Output.from_input(key).apply(outputs.__getitem__))
        registered = {"nodePoolName": self.node_pool_name, **{camel(key): value for key, value in outputs.items()}}
        # Set after all resources of the pool: a failed update leaves no record.
        self.register_outputs(registered | ({RECORD: planned.record} if planned is not None else {}))

    def _with_former_names(self, name: str, former: str) -> list[pulumi.ResourceTransformation]:
        """Return a transformation that gives each child of a renamed pool the alias of its former name.

        Children inherit a component's alias only while the state has the component under that alias. When the update
        that renames fails half-way, the next one finds the component under its new name and would recreate its node
        pool (pulumi/pulumi pkg/resource/deploy/step_generator.go, `generateAliases`).
        """
        parent = self.urn.apply(lambda urn: urn.removesuffix(name) + former)

        def with_alias(child: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
            alias = pulumi.Alias(name=former + child.name.removeprefix(name), parent=parent)
            opts = pulumi.ResourceOptions.merge(child.opts, pulumi.ResourceOptions(aliases=[alias]))
            return pulumi.ResourceTransformationResult(props=child.props, opts=opts)

        return [with_alias]


def _former_name(name: str, args: GpuNodePoolArgs) -> str | None:
    """Return the component's name before its pool was renamed; None for a pool that was not."""
    pool = args.get("pool")
    former = pool.get("renamed_from") if isinstance(pool, Mapping) else None
    return name.removesuffix(args.get("pool_name") or name) + former if isinstance(former, str) else None


def _addresses(args: GpuNodePoolArgs) -> dict[str, pulumi.Input[Any]]:
    return {key: value for key, value in args["cluster"].items() if value is not None}


def _plan_and_compare(name: str, args: GpuNodePoolArgs) -> tuple[PoolPlan, dict[str, pulumi.Input[Any]]]:
    """Plan a pool and compare it with the program's other components.

    Raises:
        pulumi.InputPropertiesError: The pool is invalid or conflicts with another component.
    """
    try:
        plan = plan_args(name, args)
        cluster = place_of(parse_cloud(args["cloud"]), args["cluster"])
        problems = list(pool_problems(name, plan.name, cluster))
        if problems:
            raise Rejected(problems)
    except Rejected as rejected:
        raise Refused(rejected) from None
    addresses = _addresses(args)
    return plan, addresses | {"name": wait_for_distinct_pools(name, plan.name, cluster, addresses["name"])}


def plan_args(name: str, args: GpuNodePoolArgs) -> PoolPlan:
    """Return the plan of a `GpuNodePool` with this name and these arguments.

    Raises:
        Rejected: Every problem; paths start at the component's own arguments.
    """
    cloud = parse_cloud(args.get("cloud"))
    pool_name = args.get("pool_name") or name
    problems = unknown_arguments(args, GpuNodePoolArgs)
    problems += filter(None, [bad_key(("pool_name",), pool_name)])
    if cloud.component_name_limit is not None and len(name) > cloud.component_name_limit:
        what = f"the component's name {shown(name)} has {len(name)} characters"
        fix = f"use {cloud.component_name_limit} or fewer, since {cloud.service} names the pool after it"
        problems.append(Problem((), what, fix))
    cluster = valid(problems, parse_cluster_argument, args.get("cluster"), cloud)
    spec = valid(problems, parse_pool, ("pool",), known_values(args.get("pool")))
    problems += former_key_problems(("pool",), spec) if spec is not None else ()
    if problems or cluster is None or spec is None:
        raise Rejected(problems)
    try:
        plan = plan_pool(pool_name, spec, "", cluster, cloud)
        # GpuRuntime checks this too, but a program needs none when the software is installed by other means.
        node = cloud.node_runtime(plan.software, plan.provider_plan)
        without_owner = list(without_rdma(plan, node, cluster.runtime, "cluster.runtime"))
        if without_owner:
            raise Rejected(without_owner)
        return plan
    except Rejected as rejected:
        raise Rejected(replace(problem, path=_argument(problem.path)) for problem in rejected.problems) from None


def _argument(path: Path) -> Path:
    """Convert a path of a stack file (`pools.<name>.…`) into a path of the component's arguments (`pool.…`)."""
    return ("pool", *path[2:]) if path[:1] == ("pools",) else path
