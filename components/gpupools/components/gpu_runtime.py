"""The component `GpuRuntime`: the GPU software one existing cluster needs in Kubernetes, for all its pools at once.

Translates only: which charts, versions, values, objects and which order is decided in `gpupools.software`.
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
)
from gpupools.components.declared_components import place_of, runtime_problems
from gpupools.components.gpu_node_pool import PoolArgs
from gpupools.components.kubernetes_resources import declare_object, declare_release
from gpupools.diff.guard import RECORD
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.plan.software_plan import RuntimePlan
from gpupools.software.planning import plan_runtime
from gpupools.stackfile.stack import bad_key, parse_pool

Resources = Sequence[pulumi.Input[pulumi.Resource]]
"""What the SDK takes as `depends_on`."""

DeclarePool = Callable[[str, Resources], Resources]
"""Declares the pool of this key after these resources; returns what stands for it."""

POOL_STEP = "pool/"
"""How `RuntimePlan.depends` marks a pool among its steps."""


class GpuRuntimeArgs(TypedDict):
    """Inputs of `GpuRuntime`. What may be late is an `Input`; what the plan depends on is plain."""

    cloud: str
    """The cloud of the cluster: `aws`, `azure` or `gcp`."""
    cluster: dict[str, pulumi.Input[Any]]
    """The existing cluster: the keys a cluster of this cloud has in a stack file, `runtime` among them."""
    pools: dict[str, PoolArgs]
    """Every GPU pool of the cluster by its key, as `GpuNodePool` takes them: a piece has one owner for all of them."""


class DecidedRuntime(NamedTuple):
    """What the stack program has decided about a cluster's software, and how it declares the pools in between."""

    plan: RuntimePlan
    declare_pool: DeclarePool
    record: pulumi.Input[JsonObject]
    """What the program's next run compares the software with."""
    protected: Collection[str] = ()
    """Steps of the plan that Pulumi refuses to delete."""


class GpuRuntime(pulumi.ComponentResource):
    """Declare the GPU software of one cluster: charts, their configuration and what they need around them.

    Needs a Kubernetes provider for this cluster in `opts`: an ambient kubeconfig may be any cluster's. What must come
    after the pools waits for `opts.depends_on`.

    Raises:
        pulumi.InputPropertiesError: The pools cannot be served; the message holds every reason and its cure.
    """

    owners: pulumi.Output[dict[str, dict[str, str]]]
    """Who brings each piece of GPU software: pool key to piece to owner."""
    pods: pulumi.Output[JsonDict]
    """By pool key, the part of a pod's spec that lands on it."""

    def __init__(
        self,
        name: str,
        args: GpuRuntimeArgs,
        opts: pulumi.ResourceOptions | None = None,
        decided: DecidedRuntime | None = None,
    ) -> None:
        """Plan the software from the arguments; where the stack program has `decided`, they are only shown."""
        super().__init__("gpupools:index:GpuRuntime", name, dict(args), opts)
        try:
            plan = decided.plan if decided is not None else _planned_alone(name, args)
            if plan.needs_kubernetes and self.get_provider("kubernetes:core/v1:Namespace") is None:
                raise Rejected([_NO_PROVIDER])
        except Rejected as rejected:
            raise Refused(rejected) from None
        shown = plan.as_json()
        declare_pool = decided.declare_pool if decided is not None else _declared_by_the_caller(opts)
        protected = decided.protected if decided is not None else ()
        _declare(name, plan, pulumi.ResourceOptions(parent=self), declare_pool, protected)
        self.owners = pulumi.Output.from_input(shown["owners"])
        self.pods = pulumi.Output.from_input(shown["pods"])
        recorded = {RECORD: decided.record} if decided is not None else {}
        self.register_outputs({"owners": self.owners, "pods": self.pods, **recorded})


_NO_PROVIDER = Problem(
    ("opts", "providers"),
    "there is no Kubernetes provider for this cluster",
    "name one among the providers in the component's options",
)


def plan_args(args: GpuRuntimeArgs) -> RuntimePlan:
    """Plan what a `GpuRuntime` with these arguments declares.

    Raises:
        Rejected: Every reason against it; paths start at the component's own arguments.
    """
    cloud = parse_cloud(args.get("cloud"))
    problems = unknown_arguments(args, GpuRuntimeArgs)
    cluster = None
    try:
        cluster = parse_cluster_argument(args.get("cluster"), cloud)
    except Rejected as rejected:
        problems += rejected.problems
    pools = known_values(args.get("pools"))
    if not isinstance(pools, Mapping) or not pools:
        problems.append(Problem(("pools",), "is no map of pools", "give every GPU pool of the cluster by its key"))
        pools = {}
    plans: list[PoolPlan] = []
    for key, raw in pools.items():
        bad = bad_key(("pools",), key)
        problems += [bad] if bad is not None else []
        try:
            spec = parse_pool(("pools", key), raw)
            if cluster is not None:
                plans.append(plan_pool(key, spec, "", cluster, cloud))
        except Rejected as rejected:
            problems += rejected.problems
    if problems or cluster is None:
        raise Rejected(problems)
    try:
        return plan_runtime("", cluster, cloud, plans)
    except Rejected as rejected:
        raise Rejected(replace(problem, path=_argument(problem.path)) for problem in rejected.problems) from None


def _planned_alone(name: str, args: GpuRuntimeArgs) -> RuntimePlan:
    """Plan the software of a program that has not compared its components, and compare it with its pools.

    Raises:
        Rejected: Every reason against it.
    """
    plan = plan_args(args)
    problems = list(runtime_problems(name, plan.pods, place_of(parse_cloud(args["cloud"]), args["cluster"])))
    if problems:
        raise Rejected(problems)
    return plan


def _argument(path: Path) -> Path:
    """Turn a path of the plan (`runtime.…`, of the cluster) into one of the component's arguments."""
    return ("cluster", *path) if path[:1] == ("runtime",) else path


def _declared_by_the_caller(opts: pulumi.ResourceOptions | None) -> DeclarePool:
    given: Any = opts.depends_on if opts is not None and opts.depends_on is not None else []
    pools: Resources = given if isinstance(given, Sequence) else [given]
    return lambda *_: pools


def _declare(
    name: str,
    plan: RuntimePlan,
    opts: pulumi.ResourceOptions,
    declare_pool: DeclarePool,
    protected: Collection[str],
) -> None:
    """Declare every step of the plan, each after those it waits for."""
    releases = {release.name: release for release in plan.releases}
    objects = {planned.name: planned for planned in plan.objects}
    made: dict[str, Resources] = {}
    for step, before in plan.depends.items():
        waits_for = [resource for each in before for resource in made[each]]
        protect = True if step in protected else None
        below = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=waits_for, protect=protect))
        own_name = f"{name}-{step.replace('/', '-')}"
        if step in releases:
            made[step] = [declare_release(own_name, releases[step], below)]
        elif step in objects:
            made[step] = [declare_object(own_name, objects[step], below)]
        else:
            made[step] = declare_pool(step.removeprefix(POOL_STEP), waits_for)
