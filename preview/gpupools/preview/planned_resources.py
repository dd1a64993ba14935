"""What the stack program declares of a plan, as the rules read it, without running the program. Imports no Pulumi.

`tests/preview/test_verdicts.py` compares what the rules say of it with what they say of the program's resources.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpupools.common.errors import Problem
from gpupools.common.json_types import JsonDict, JsonObject, with_items
from gpupools.diff.software_diff import protected_steps
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.software_plan import RuntimePlan
from gpupools.policies.declared_stack import KUBERNETES_PROVIDER, STACK_REFERENCE, Declared
from gpupools.policies.stack_judge import in_stack, read_resource
from gpupools.preview.sdk_schema import check_inputs
from gpupools.providers import clouds
from gpupools.software.kubernetes_inputs import RELEASE, object_inputs, release_inputs
from gpupools.spec.cluster_access import ACCESS_KEYS, api_url, provider_kubeconfig
from gpupools.spec.models import Cluster, Late, StackOutput
from gpupools.stackfile.stack import StackPlan

_STACK = "pulumi:pulumi:Stack"
_POOL = "gpupools:index:GpuNodePool"
_RUNTIME = "gpupools:index:GpuRuntime"


class Planned(NamedTuple):
    """The resources that a program would declare."""

    resources: list[tuple[Declared, bool]]
    """Each with its option `protect`, in the order of a preview."""
    problems: list[Problem]
    """Inputs set by hand that the cloud's provider would refuse."""


def planned_resources(plan: StackPlan, project: str, stack: str) -> Planned:
    """Return what is declared of a plan in a stack of this project."""
    planned = Planned([], [])
    names = _Names(project, stack)
    built = [_Cluster(plan, runtime, names) for runtime in plan.runtimes]
    for cluster in built:
        planned.resources.extend((provider, False) for provider in cluster.providers())
    for cluster in built:
        planned.resources.extend(cluster.resources(planned.problems))
    return planned


class _Names(NamedTuple):
    project: str
    stack: str

    @property
    def root(self) -> str:
        """The URN of the stack."""
        return self.urn(_STACK, f"{self.project}-{self.stack}")

    def urn(self, type_: str, name: str, parent: str = "") -> str:
        """Return the URN that the engine builds of a resource."""
        chain = f"{parent}${type_}" if parent else type_
        return f"urn:pulumi:{self.stack}::{self.project}::{chain}::{name}"


class _Cluster:
    """What is declared of one cluster."""

    def __init__(self, plan: StackPlan, runtime: RuntimePlan, names: _Names) -> None:
        self._plan, self._runtime, self._names = plan, runtime, names
        self._key, self._cloud = runtime.cluster, clouds()[runtime.cloud]
        cluster = plan.stack.clusters[self._key]
        self._where = _addresses(cluster)
        own = {"cloud", *ACCESS_KEYS, *cluster.identity}
        self._keys = {key: value for key, value in self._where.items() if key not in own}
        self._component = {"cloud": runtime.cloud, "cluster": self._keys}
        self._pools = {pool.name: pool for pool in plan.pools if pool.cluster == self._key}
        # Outputs of another stack come from the reference to it.
        reference = names.urn(STACK_REFERENCE, str(cluster.stack))
        self._late = (reference,) if cluster.stack is not None else ()
        self._tokens = self._cloud.tokens()
        self._provider = self._declared(self._tokens["Provider"], self._key, {})
        self._access: Declared | None = None
        if runtime.needs_kubernetes:
            kubeconfig, context = self._kubeconfig()
            inputs = {"kubeconfig": kubeconfig, **({"context": context} if context is not None else {})}
            self._access = self._declared(KUBERNETES_PROVIDER, f"{self._key}-kubernetes", inputs)

    def providers(self) -> list[Declared]:
        """Return the providers of the cloud and of Kubernetes."""
        return sorted(filter(None, [self._provider, self._access]), key=lambda provider: provider.type)

    def resources(self, problems: list[Problem]) -> Iterator[tuple[Declared, bool]]:
        """Yield components and what is in them: pools at once, software, and pools that wait for it."""
        steps = self._runtime.depends if self._runtime.needs_kubernetes else {}
        waiting = [name for name in self._pools if steps.get(f"pool/{name}")]
        for name in self._pools:
            if name not in waiting:
                yield from self._pool(name, problems)
        if self._runtime.needs_kubernetes:
            yield from self._software()
        for name in waiting:
            yield from self._pool(name, problems)

    def _pool(self, name: str, problems: list[Problem]) -> Iterator[tuple[Declared, bool]]:
        plan, full = self._pools[name], f"{self._key}-{name}"
        settings: Any = plan.provider_plan
        yield self._declared(_POOL, full, self._component), False
        node_pools = self._cloud.node_pools
        made = node_pools.declared_inputs(plan, self._keys)
        found: dict[str, Declared] = {}
        for kind, registered in node_pools.registered.items():
            if kind in made:
                refers = {key: (found[other].urn,) for key, other in registered.refers.items() if other in found}
                found[kind] = self._declared(
                    registered.untyped if registered.untyped and "properties" in made[kind] else self._tokens[kind],
                    f"{full}-{registered.suffix}",
                    made[kind],
                    parent=_POOL,
                    above=full,
                    provider=self._provider.urn,
                    refers=refers,
                )
        if settings.overrides:
            for resource in found.values():
                where = f"{resource.type}::{resource.name}"
                wrong = [input_ for input_ in check_inputs(resource.type, resource.inputs) if not input_.advisory]
                problems += [Problem((where, *input_.path), input_.what, input_.fix) for input_ in wrong]
        yield from ((resource, settings.protect) for resource in sorted(found.values(), key=lambda each: each.name))

    def _software(self) -> Iterator[tuple[Declared, bool]]:
        full = f"{self._key}-runtime"
        yield self._declared(_RUNTIME, full, self._component), False
        releases = {release.name: release for release in self._runtime.releases}
        objects = {planned_object.name: planned_object for planned_object in self._runtime.objects}
        protected = protected_steps(self._runtime, self._plan.stack)
        urns: dict[str, str] = {}
        found: list[tuple[Declared, bool]] = []
        for step, before in self._runtime.depends.items():
            if step in releases:
                type_, inputs = RELEASE, release_inputs(releases[step])
            elif step in objects:
                type_, inputs = object_inputs(objects[step])
            else:
                urns[step] = self._names.urn(_POOL, f"{self._key}-{step.removeprefix('pool/')}")
                continue
            one = self._declared(
                type_,
                f"{full}-{step.replace('/', '-')}",
                inputs,
                parent=_RUNTIME,
                above=full,
                provider=self._access.urn if self._access is not None else "",
                depends=tuple(urns[dependency] for dependency in before),
            )
            urns[step] = one.urn
            found.append((one, step in protected))
        yield from sorted(found, key=lambda pair: pair[0].name)

    def _declared(
        self,
        type_: str,
        name: str,
        inputs: JsonObject,
        *,
        parent: str = "",
        above: str = "",
        provider: str = "",
        depends: tuple[str, ...] = (),
        refers: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Declared:
        refers = refers or {}
        late = {key: self._late for key, value in inputs.items() if key not in refers and _has_unknown(value)}
        inside = self._names.urn(parent, above) if parent else self._names.root
        return in_stack(
            read_resource(self._names.urn(type_, name, parent), type_, name, inputs, inside),
            component=not provider,
            provider=provider,
            depends=depends,
            by_property={**late, **refers},
        )

    def _kubeconfig(self) -> tuple[Any, str | None]:
        """Return path or text of the kubeconfig, and its context; None for its current one."""
        plugin_of = self._cloud.cluster.exec_plugin
        content, context = provider_kubeconfig(self._where, plugin_of, lambda at: at if at is UNKNOWN else api_url(at))
        if isinstance(content, str):
            return content, context
        return UNKNOWN if _has_unknown(_known(content)) else json.dumps(content), context


def _addresses(cluster: Cluster) -> JsonDict:
    """Return the keys of a cluster; values that are known only while the program runs are `UNKNOWN`."""
    keys = {key: getattr(cluster, key) for key in type(cluster).model_fields if key not in ("stack", "runtime", "tags")}
    return {key: _known(value) for key, value in keys.items() if value is not None}


def _known(value: Any) -> Any:
    return UNKNOWN if isinstance(value, StackOutput | Late) else with_items(value, _known)


def _has_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_unknown, value.values()))
    return any(map(_has_unknown, value)) if isinstance(value, list) else value is UNKNOWN
