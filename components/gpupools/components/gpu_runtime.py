"""The component `GpuRuntime`: the GPU software in Kubernetes of one existing cluster, for all its pools.

It only declares resources; `gpupools.software` plans charts, versions, values, objects and their order.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import pulumi

from gpupools.common.errors import Path, Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.components.arguments import (
    Refused,
    known_values,
    parse_cloud,
    parse_cluster_argument,
    unknown_arguments,
    valid,
)
from gpupools.components.declared_components import place_of, runtime_problems
from gpupools.components.gpu_node_pool import PoolArgs
from gpupools.components.kubernetes_resources import declare_object, declare_release
from gpupools.diff.guard import RECORD
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.plan.software_plan import RuntimePlan
from gpupools.software.planning import plan_runtime
from gpupools.stackfile.stack_validation import bad_key, parse_pool

Resources = Sequence[pulumi.Input[pulumi.Resource]]
"""Values of the SDK's `depends_on`."""

DeclarePool = Callable[[str, Resources], Resources]
"""Declares the pool with this key after these resources; returns the resources that represent it."""

POOL_STEP = "pool/"
"""Prefix of a pool among the steps of `RuntimePlan.depends`."""


class GpuRuntimeArgs(TypedDict):
    """Inputs of `GpuRuntime`. Only values that the plan does not depend on may be outputs."""

    cloud: str
    """The cloud of the cluster: `aws`, `azure` or `gcp`."""
    cluster: dict[str, pulumi.Input[Any]]
    """The existing cluster, with the keys of a cluster of this cloud in a stack file, including `runtime`."""
    pools: dict[str, PoolArgs]
    """Every GPU pool of the cluster by its key, as in `GpuNodePool`: they share one installation of the software."""


class PlannedRuntime(NamedTuple):
    """A cluster's software, planned by the stack program or from the arguments, and what declares its pools."""

    plan: RuntimePlan
    declare_pool: DeclarePool
    record: pulumi.Input[JsonObject] | None = None
    """The record that the program's next run compares the software with; None of a component used alone."""
    protected: Collection[str] = ()
    """Steps of the plan that Pulumi protects from deletion."""
    moved: bool = False
    """Whether it was in another cluster before, whose kubeconfig may have had the same path."""


class GpuRuntime(pulumi.ComponentResource):
    """Declare the GPU software of one cluster: Helm charts, their configuration and the objects they need.

    Requires a Kubernetes provider for this cluster in `opts`: the default kubeconfig may belong to any cluster. Steps
    that come after the pools wait for `opts.depends_on`.

    Raises:
        pulumi.InputPropertiesError: The arguments are invalid; the message lists every problem with its fix.
    """

    owners: pulumi.Output[dict[str, dict[str, str]]]
    """Who installs each component of the GPU software: pool key to component to installer."""
    pods: pulumi.Output[JsonDict]
    """By pool key, the pod spec that schedules on the pool."""

    def __init__(
        self,
        name: str,
        args: GpuRuntimeArgs,
        opts: pulumi.ResourceOptions | None = None,
        planned: PlannedRuntime | None = None,
    ) -> None:
        """Plan the software from the arguments; with `planned`, the arguments are only recorded as inputs."""
        super().__init__("gpupools:index:GpuRuntime", name, dict(args), opts)
        try:
            planned = planned or PlannedRuntime(_plan_and_compare(name, args), _dependencies_as_pools(opts))
            if planned.plan.needs_kubernetes and self.get_provider("kubernetes:core/v1:Namespace") is None:
                raise Rejected([_NO_PROVIDER])
        except Rejected as rejected:
            raise Refused(rejected) from None
        shown = planned.plan.as_json()
        _declare(name, planned, pulumi.ResourceOptions(parent=self))
        self.owners = pulumi.Output.from_input(shown["owners"])
        self.pods = pulumi.Output.from_input(shown["pods"])
        recorded = {RECORD: planned.record} if planned.record is not None else {}
        self.register_outputs({"owners": self.owners, "pods": self.pods, **recorded})


_NO_PROVIDER = Problem(
    ("opts", "providers"),
    "this cluster needs a Kubernetes provider",
    "add one to opts.providers",
)


def plan_args(args: GpuRuntimeArgs) -> RuntimePlan:
    """Return the plan of a `GpuRuntime` with these arguments.

    Raises:
        Rejected: Every problem; paths start at the component's own arguments.
    """
    cloud = parse_cloud(args.get("cloud"))
    problems = unknown_arguments(args, GpuRuntimeArgs)
    cluster = valid(problems, parse_cluster_argument, args.get("cluster"), cloud)
    pools = known_values(args.get("pools"))
    if not isinstance(pools, Mapping) or not pools:
        problems.append(Problem(("pools",), "must be a map of pools", "list every GPU pool of the cluster by its key"))
        pools = {}
    plans: list[PoolPlan] = []
    for key, raw in pools.items():
        problems += filter(None, [bad_key(("pools",), key)])
        spec = valid(problems, parse_pool, ("pools", key), raw)
        if spec is not None and cluster is not None:
            plans += filter(None, [valid(problems, plan_pool, key, spec, "", cluster, cloud)])
    if problems or cluster is None:
        raise Rejected(problems)
    try:
        return plan_runtime("", cluster, cloud, plans)
    except Rejected as rejected:
        raise Rejected(replace(problem, path=_argument(problem.path)) for problem in rejected.problems) from None


def _plan_and_compare(name: str, args: GpuRuntimeArgs) -> RuntimePlan:
    """Plan the software and compare it with the program's pools; raise `Rejected` with every problem."""
    plan = plan_args(args)
    problems = list(runtime_problems(name, plan.pods, place_of(parse_cloud(args["cloud"]), args["cluster"])))
    if problems:
        raise Rejected(problems)
    return plan


def _argument(path: Path) -> Path:
    """Convert a path of the plan (`runtime.…`, of the cluster) into a path of the component's arguments."""
    return ("cluster", *path) if path[:1] == ("runtime",) else path


def _dependencies_as_pools(opts: pulumi.ResourceOptions | None) -> DeclarePool:
    dependencies: Any = opts.depends_on if opts is not None and opts.depends_on is not None else []
    pools: Resources = dependencies if isinstance(dependencies, Sequence) else [dependencies]
    return lambda *_: pools


def _declare(name: str, planned: PlannedRuntime, opts: pulumi.ResourceOptions) -> None:
    """Declare every step of the plan after its dependencies.

    Of what keeps its name, the old is deleted first: in a new cluster, with a kubeconfig at the same path, its deletion
    after the creation would delete the new.
    """
    releases = {release.name: release for release in planned.plan.releases}
    objects = {planned_object.name: planned_object for planned_object in planned.plan.objects}
    made: dict[str, Resources] = {}
    for step, before in planned.plan.depends.items():
        waits_for = [resource for each in before for resource in made[each]]
        protect = True if step in planned.protected else None
        renamed = step in objects and objects[step].kind in ("ConfigMap", "Job")  # with its content
        first = True if planned.moved or not renamed else None
        own = pulumi.ResourceOptions(depends_on=waits_for, protect=protect, delete_before_replace=first)
        below = pulumi.ResourceOptions.merge(opts, own)
        own_name = f"{name}-{step.replace('/', '-')}"
        if step in releases:
            made[step] = [declare_release(own_name, releases[step], below)]
        elif step in objects:
            made[step] = [declare_object(own_name, objects[step], below)]
        else:
            made[step] = planned.declare_pool(step.removeprefix(POOL_STEP), waits_for)
