"""The component `GpuNodePool`: one GPU pool on one existing cluster of any cloud."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NotRequired, TypedDict

import pulumi

from gpupools.cloud import Cloud
from gpupools.errors import Path, Problem, Rejected, dotted, nearest
from gpupools.plan import PoolPlan, plan_pool
from gpupools.spec import LATE
from gpupools.stack import bad_key, parse_cluster, parse_pool
from providers import clouds

# No `from __future__ import annotations`, no Literal and no other unions in the argument types below: Pulumi's schema
# inference for components in other languages refuses them (pulumi/provider/experimental/analyzer.py in the SDK).


class NodesArgs(TypedDict):
    """How many nodes the pool may have, over all its zones."""

    min: NotRequired[int]
    """Nodes kept while idle; 0 when left out."""
    max: int
    """Nodes the autoscaler may add up to."""


class SharingArgs(TypedDict):
    """How containers share a GPU."""

    mode: str
    """`none`, `time-slicing`, `mps` or `mig`."""
    replicas: NotRequired[int]
    """Containers per GPU, for time-slicing and mps."""
    profile: NotRequired[str]
    """MIG profile of every slice, e.g. `1g.10gb`."""
    layout: NotRequired[Any]
    """MIG profiles of one GPU (a list), or per GPU index (a map of lists)."""
    strategy: NotRequired[str]
    """MIG strategy, `single` or `mixed`."""
    share: NotRequired[Any]
    """Sharing of each MIG slice: a map with mode and replicas."""


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
    software: NotRequired[str]
    """`cloud-managed`, `device-plugin` or `gpu-operator`; left out: the cloud's default."""
    disk_gib: NotRequired[int]
    """Disk of each node, GiB; 200 when left out."""
    labels: NotRequired[dict[str, str]]
    """More node labels."""
    taints: NotRequired[list[str]]
    """More taints, as `key=value:Effect`; the GPU taint is always there."""


class GpuNodePoolArgs(TypedDict):
    """Inputs of `GpuNodePool`. What may be late is an `Input`; what the plan depends on is plain."""

    cloud: str
    """Folder under providers/: `aws`, `azure` or `gcp`."""
    cluster: dict[str, pulumi.Input[Any]]
    """The existing cluster: the keys a cluster of this cloud has in a stack file; addresses may be outputs."""
    pool: PoolArgs
    """The pool."""
    pool_name: NotRequired[str]
    """Short name (1 to 20 characters) for the node label `gpupools/pool` and the pool's name in the cloud.

    Left out: the component's own name.
    """


class GpuNodePool(pulumi.ComponentResource):
    """Declare one tainted GPU node pool on a cluster that already exists.

    Raises:
        pulumi.InputPropertiesError: The pool cannot exist; the message holds every reason and its cure.
    """

    node_pool_name: pulumi.Output[str]
    """The name the cloud knows the pool by."""
    capacity: pulumi.Output[dict[str, int]]
    """What each node advertises to Kubernetes: resource name to count, e.g. `{"nvidia.com/gpu": 8}`."""
    pod: pulumi.Output[dict[str, Any]]
    """The part of a pod's spec that lands on this pool: nodeSelector, tolerations and a container's limits."""

    def __init__(self, name: str, args: GpuNodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpupools:index:GpuNodePool", name, dict(args), opts)
        try:
            plan = plan_args(name, args)
        except Rejected as rejected:
            # A program in this process sees only the message, a program in another language only the details.
            details = [
                pulumi.InputPropertyErrorDetails(property_path=dotted(problem.path), reason=str(problem))
                for problem in rejected.problems
            ]
            raise pulumi.InputPropertiesError(str(rejected), details) from None
        create_pool = import_module(f"providers.{plan.cloud}.resources").create_pool
        addresses = {key: value for key, value in args["cluster"].items() if value is not None}
        self.node_pool_name = create_pool(name, plan, addresses, pulumi.ResourceOptions(parent=self))
        self.capacity = pulumi.Output.from_input(dict(plan.capacity))
        self.pod = pulumi.Output.from_input(plan.pod())
        self.register_outputs(
            {"nodePoolName": self.node_pool_name, "capacity": self.capacity, "pod": self.pod},
        )


def plan_args(name: str, args: GpuNodePoolArgs) -> PoolPlan:
    """Plan what a `GpuNodePool` of this name and these arguments declares.

    Raises:
        Rejected: Every reason against it; paths start at the component's own arguments.
    """
    cloud = _cloud(args.get("cloud"))
    pool_name = args.get("pool_name") or name
    problems = [problem for problem in [bad_key(("pool_name",), pool_name)] if problem is not None]
    cluster = spec = None
    try:
        known = {**_known(args.get("cluster")), "cloud": cloud.name}
        cluster = parse_cluster(("cluster",), known, {cloud.name: cloud})
    except Rejected as rejected:
        problems += rejected.problems
    try:
        spec = parse_pool(("pool",), _known(args.get("pool")))
    except Rejected as rejected:
        problems += rejected.problems
    if problems or cluster is None or spec is None:
        raise Rejected(problems)
    try:
        return plan_pool(pool_name, spec, "", cluster, cloud)
    except Rejected as rejected:
        raise Rejected(
            Problem(_argument(problem.path), problem.what, problem.fix) for problem in rejected.problems
        ) from None


def _cloud(name: object) -> Cloud:
    known = clouds()
    if isinstance(name, str) and name in known:
        return known[name]
    raise Rejected([Problem(("cloud",), f"no cloud is called {name!r}", nearest(name, known))])


def _argument(path: Path) -> Path:
    """Turn a path of a stack file (`pools.<name>.…`) into one of the component's arguments (`pool.…`)."""
    return ("pool", *path[2:]) if path[:1] == ("pools",) else path


def _known(value: Any) -> Any:
    """Put `LATE` where an output is, and whole numbers where the engine's floats are.

    A component called from another language gets every number as a float (measured with Pulumi 3.272).
    """
    if isinstance(value, pulumi.Output):
        return LATE
    if isinstance(value, Mapping):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
