"""The component `GpuNodePool`: one GPU pool on one existing cluster of any cloud."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, NotRequired, TypedDict

import pulumi

from gpupools.common.errors import Path, Problem, Rejected, shown
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.components.arguments import (
    Refused,
    known_values,
    parse_cloud,
    parse_cluster_argument,
    unknown_arguments,
)
from gpupools.components.clusters import declaring
from gpupools.components.declared_components import apart, place_of, pool_problems
from gpupools.diff.guard import RECORD
from gpupools.plan.pool_plan import PoolPlan, plan_pool
from gpupools.software.owners import without_rdma
from gpupools.stackfile.stack import bad_key, former_key_problems, parse_pool


class NodesArgs(TypedDict):
    """How many nodes the pool may have, over all its zones."""

    min: NotRequired[int]
    """Nodes kept while idle; 0 when left out."""
    max: NotRequired[int]
    """Nodes the autoscaler may add up to."""
    fixed: NotRequired[int]
    """This many nodes always, without an autoscaler; instead of min and max."""


class SharingArgs(TypedDict):
    """How containers share a GPU."""

    mode: str
    """`none`, `time-slicing`, `mps` or `mig`."""
    replicas: NotRequired[int]
    """Containers per GPU, for time-slicing and mps."""
    rename: NotRequired[bool]
    """Offer the replicas as `nvidia.com/gpu.shared`, for time-slicing and mps; false when left out."""
    profile: NotRequired[str]
    """MIG profile of every slice, e.g. `1g.10gb`."""
    layout: NotRequired[Any]
    """MIG profiles of one GPU (a list), or per GPU index (a map of lists)."""
    strategy: NotRequired[str]
    """MIG strategy, `single` or `mixed`."""
    share: NotRequired[Any]
    """Sharing of each MIG slice: a map with mode, replicas and, for another name, rename."""


class TrustArgs(TypedDict):
    """Who may use a pool whose GPUs are shared: one of team, namespaces and waiver."""

    team: NotRequired[str]
    """The namespaces labelled `gpupools/trust: <team>`."""
    namespaces: NotRequired[list[str]]
    """These namespaces."""
    waiver: NotRequired[str]
    """Why containers of anyone may share the GPUs of this pool, in words."""
    quota: NotRequired[int]
    """With namespaces: most units of the pool's resource that each of them may request at a time."""


class PoolArgs(TypedDict):
    """The pool, with the keys a pool has in a stack file; all are plain values, since the plan depends on them."""

    gpu: NotRequired[str]
    """GPU model with its memory size, e.g. `A100-80GB`; or give instance_type."""
    gpus_per_node: NotRequired[Any]
    """GPUs of one node, with gpu; 1 when left out. Text for a part of a GPU: `1/4`."""
    instance_type: NotRequired[str]
    """The cloud's own instance type; or give gpu."""
    nodes: NodesArgs
    """Node range."""
    sharing: NotRequired[SharingArgs]
    """Left out: a GPU belongs to one container at a time."""
    trust: NotRequired[TrustArgs]
    """Who may use the pool; a pool of time-slicing or mps has to say so."""
    software: NotRequired[str]
    """`cloud-managed`, `device-plugin`, `gpu-operator` or `dra-driver`; left out: the cloud's default."""
    disk_gib: NotRequired[int]
    """Disk of each node, GiB; 200 when left out."""
    labels: NotRequired[dict[str, str]]
    """More node labels."""
    taints: NotRequired[list[str]]
    """More taints, as `key=value:Effect`; the GPU taint is always there."""
    capacity: NotRequired[JsonDict]
    """How machines are bought: a map with mode (`on-demand`, `spot`, `reservation`, …) and what that mode needs."""
    zones: NotRequired[list[str]]
    """Zones of the nodes."""
    image: NotRequired[JsonDict]
    """The node image: family, id, fips."""
    disk: NotRequired[JsonDict]
    """Each node's disks: type, encryption_key, local_nvme."""
    network: NotRequired[JsonDict]
    """rdma, compute_domains, placement, security_group_ids, gpu_networks, max_pods."""
    security: NotRequired[JsonDict]
    """secure_boot, imds_hop_limit."""
    upgrade: NotRequired[JsonDict]
    """How nodes are replaced: strategy, max_surge, max_unavailable, drain_timeout_min."""
    auto_repair: NotRequired[bool]
    """Let the cloud replace broken nodes; true when left out."""
    tags: NotRequired[dict[str, str]]
    """Tags or resource labels of the pool and its machines."""
    protect: NotRequired[bool]
    """Refuse to delete or replace the pool until this is taken away."""
    renamed_from: NotRequired[str]
    """The pool's name before it was renamed, so that the nodes stay."""
    first_name: NotRequired[str]
    """What the pool's name in the cloud is made of: the name it was made under.

    Left out: renamed_from, or without that the pool's name.
    """
    adopt: NotRequired[JsonDict]
    """A pool made by other means that is taken over as it is: its name in the cloud, and keep, what of it stays."""
    timeouts: NotRequired[dict[str, int]]
    """How long Pulumi waits, in minutes: create_min, update_min, delete_min."""
    overrides: NotRequired[JsonDict]
    """Inputs of the cloud's own resources, set by hand: cloud → resource → input → value."""


class GpuNodePoolArgs(TypedDict):
    """Inputs of `GpuNodePool`. What may be late is an `Input`; what the plan depends on is plain."""

    cloud: str
    """The cloud of the cluster: `aws`, `azure` or `gcp`."""
    cluster: dict[str, pulumi.Input[Any]]
    """The existing cluster: the keys a cluster of this cloud has in a stack file; addresses may be outputs."""
    pool: PoolArgs
    """The pool."""
    pool_name: NotRequired[str]
    """Short name (1 to 20 characters) for the node label `gpupools/pool` and the pool's name in the cloud.

    Left out: the component's own name.
    """


class DecidedPool(NamedTuple):
    """What the stack program has decided about a pool beside all others of its file."""

    plan: PoolPlan
    record: pulumi.Input[JsonObject]
    """What the program's next run compares the pool with."""


class GpuNodePool(pulumi.ComponentResource):
    """Declare one tainted GPU node pool on a cluster that already exists.

    Raises:
        pulumi.InputPropertiesError: The pool cannot exist; the message holds every reason and its cure.
    """

    node_pool_name: pulumi.Output[str]
    """The name the cloud knows the pool by."""
    capacity: pulumi.Output[dict[str, int]]
    """What each node advertises to Kubernetes: resource name to count, e.g. `{"nvidia.com/gpu": 8}`."""
    pod: pulumi.Output[JsonDict]
    """The part of a pod's spec that lands on this pool: nodeSelector, tolerations and a container's limits."""
    claim_template: pulumi.Output[JsonDict]
    """The ResourceClaimTemplate that a pod's namespace needs with software `dra-driver`; empty with any other."""
    node_pod: pulumi.Output[JsonDict]
    """The same part of a pod that takes a whole node, with RDMA or compute domains; empty without."""
    namespace_objects: pulumi.Output[list[JsonDict]]
    """With these, all that the pods' namespace needs first: claim templates, and a ComputeDomain; empty without."""

    def __init__(
        self,
        name: str,
        args: GpuNodePoolArgs,
        opts: pulumi.ResourceOptions | None = None,
        decided: DecidedPool | None = None,
    ) -> None:
        """Plan the pool from its arguments; where the stack program has `decided`, they give the addresses only."""
        super().__init__("gpupools:index:GpuNodePool", name, dict(args), _with_former_name(name, args, opts))
        plan, addresses = (decided.plan, _addresses(args)) if decided is not None else _planned_alone(name, args)
        # The engine hands what a component waits for to nothing inside it.
        below = pulumi.ResourceOptions(
            parent=self,
            depends_on=opts.depends_on if opts is not None else None,
            transformations=self._with_former_names(name, args),
        )
        self.node_pool_name = declaring(plan.cloud).create_pool(name, plan, addresses, below)
        # Plain values, as the engine gets them: `from_input` would make an output of each part of each of them.
        known = pulumi.Output.from_input(None)
        capacity, node_pod = dict(plan.node_resources), dict(plan.node_pod)
        pod, claim_template = plan.pod(), dict(plan.claim_template)
        namespace_objects = [dict(each) for each in plan.namespace_objects]
        self.capacity = known.apply(lambda _: capacity)
        self.pod = known.apply(lambda _: pod)
        self.claim_template = known.apply(lambda _: claim_template)
        self.node_pod = known.apply(lambda _: node_pod)
        self.namespace_objects = known.apply(lambda _: namespace_objects)
        self.register_outputs(
            {
                "nodePoolName": self.node_pool_name,
                "capacity": capacity,
                "pod": pod,
                "claimTemplate": claim_template,
                "nodePod": node_pod,
                "namespaceObjects": namespace_objects,
                # Set once all resources of the pool are made: what fails half-way leaves no record.
                **({RECORD: decided.record} if decided is not None else {}),
            },
        )

    def _with_former_names(self, name: str, args: GpuNodePoolArgs) -> list[pulumi.ResourceTransformation] | None:
        """Give what is below a renamed pool the alias of its own former name.

        The engine hands a component's alias down only while it finds the component itself under it: where the update of
        the renaming fails half-way, the next one finds the component under its new name, and would make its node pool
        anew (pulumi/pulumi pkg/resource/deploy/step_generator.go, `generateAliases`).
        """
        former = _former_name(name, args)
        if former is None:
            return None
        parent = self.urn.apply(lambda urn: urn.removesuffix(name) + former)

        def with_alias(given: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
            alias = pulumi.Alias(name=former + given.name.removeprefix(name), parent=parent)
            opts = pulumi.ResourceOptions.merge(given.opts, pulumi.ResourceOptions(aliases=[alias]))
            return pulumi.ResourceTransformationResult(props=given.props, opts=opts)

        return [with_alias]


def _former_name(name: str, args: GpuNodePoolArgs) -> str | None:
    """Return the name the component had before its pool was renamed; None where it was not."""
    pool = args.get("pool")
    former = pool.get("renamed_from") if isinstance(pool, Mapping) else None
    return name.removesuffix(args.get("pool_name") or name) + former if isinstance(former, str) else None


def _addresses(args: GpuNodePoolArgs) -> dict[str, pulumi.Input[Any]]:
    return {key: value for key, value in args["cluster"].items() if value is not None}


def _planned_alone(name: str, args: GpuNodePoolArgs) -> tuple[PoolPlan, dict[str, pulumi.Input[Any]]]:
    """Plan the pool of a program that has not compared its components, and compare it with the others.

    Raises:
        pulumi.InputPropertiesError: The pool cannot exist, or not beside them.
    """
    try:
        plan = plan_args(name, args)
        where = place_of(parse_cloud(args["cloud"]), args["cluster"])
        problems = list(pool_problems(name, plan.name, where))
        if problems:
            raise Rejected(problems)
    except Rejected as rejected:
        raise Refused(rejected) from None
    addresses = _addresses(args)
    return plan, addresses | {"name": apart(name, plan.name, where, addresses["name"])}


def _with_former_name(
    name: str, args: GpuNodePoolArgs, opts: pulumi.ResourceOptions | None
) -> pulumi.ResourceOptions | None:
    """Add the alias of a renamed pool."""
    former = _former_name(name, args)
    if former is None:
        return opts
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=[pulumi.Alias(name=former)]))


def plan_args(name: str, args: GpuNodePoolArgs) -> PoolPlan:
    """Plan what a `GpuNodePool` of this name and these arguments declares.

    Raises:
        Rejected: Every reason against it; paths start at the component's own arguments.
    """
    cloud = parse_cloud(args.get("cloud"))
    pool_name = args.get("pool_name") or name
    problems = unknown_arguments(args, GpuNodePoolArgs)
    problems += [problem for problem in [bad_key(("pool_name",), pool_name)] if problem is not None]
    if cloud.component_name_limit is not None and len(name) > cloud.component_name_limit:
        what = f"the component's name {shown(name)} has {len(name)} characters"
        fix = f"use {cloud.component_name_limit} or fewer, since {cloud.service} names the pool after it"
        problems.append(Problem((), what, fix))
    cluster = spec = None
    try:
        cluster = parse_cluster_argument(args.get("cluster"), cloud)
    except Rejected as rejected:
        problems += rejected.problems
    try:
        spec = parse_pool(("pool",), known_values(args.get("pool")))
        problems += former_key_problems(("pool",), spec)
    except Rejected as rejected:
        problems += rejected.problems
    if problems or cluster is None or spec is None:
        raise Rejected(problems)
    try:
        plan = plan_pool(pool_name, spec, "", cluster, cloud)
        # Found by a GpuRuntime too, which a program may do without where others bring the software.
        unserved = list(
            without_rdma(plan, cloud.node_runtime(plan.software, plan.choices), cluster.runtime, "cluster.runtime")
        )
        if unserved:
            raise Rejected(unserved)
        return plan
    except Rejected as rejected:
        raise Rejected(replace(problem, path=_argument(problem.path)) for problem in rejected.problems) from None


def _argument(path: Path) -> Path:
    """Turn a path of a stack file (`pools.<name>.…`) into one of the component's arguments (`pool.…`)."""
    return ("pool", *path[2:]) if path[:1] == ("pools",) else path
