"""Writes what a preview found, for people and as JSON. Decides nothing and imports no Pulumi."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from gpupools.common.json_types import JsonDict
from gpupools.console.output import printable
from gpupools.console.tables import table_text
from gpupools.spec.overrides import tellable, without_hidden

if TYPE_CHECKING:
    from gpupools.common.errors import Problem
    from gpupools.plan.pool_plan import PoolPlan
    from gpupools.plan.software_plan import RuntimePlan
    from gpupools.preview.monitor import DeclaredResource
    from gpupools.preview.program_run import Preview


@dataclass(frozen=True)
class Violation:
    """What one policy has against one resource."""

    urn: str
    message: str

    def as_json(self) -> JsonDict:
        """Return urn and message."""
        return {"urn": self.urn, "message": self.message}


@dataclass(frozen=True)
class PolicyVerdict:
    """What one policy says about the whole preview."""

    policy: str
    level: str
    """`advisory`, `mandatory`, `remediate` or `disabled`."""
    description: str
    violations: tuple[Violation, ...] = ()

    @property
    def refuses(self) -> bool:
        """Tell whether it stops the deployment."""
        return bool(self.violations) and self.level == "mandatory"

    def as_json(self) -> JsonDict:
        """Return the verdict; `verdict` is `pass` or `violation`."""
        return {
            "policy": self.policy,
            "level": self.level,
            "verdict": "violation" if self.violations else "pass",
            "description": self.description,
            "violations": [violation.as_json() for violation in self.violations],
        }


@dataclass(frozen=True)
class Report:
    """One preview of one stack file."""

    file: str
    plans: Sequence[PoolPlan]
    preview: Preview
    verdicts: Sequence[PolicyVerdict]
    problems: Sequence[Problem] = field(default_factory=tuple)
    """Everything that refuses, beyond policies."""
    runtimes: Sequence[RuntimePlan] = ()
    """The GPU software of each cluster."""

    @property
    def exit_code(self) -> int:
        """0 when the stack may be deployed, 1 when a problem or a mandatory policy refuses."""
        return 1 if self.problems or any(verdict.refuses for verdict in self.verdicts) else 0

    def as_json(self) -> JsonDict:
        """Return the report as JSON types, without its problems."""
        preview = self.preview
        return {
            "file": self.file,
            "project": preview.project,
            "stack": preview.stack,
            "pools": [plan.as_json() for plan in self.plans],
            "runtimes": [runtime.as_json() for runtime in self.runtimes],
            "resources": [self._resource_as_json(resource) for resource in preview.resources],
            "outputs": preview.outputs,
            "stack_references": preview.stack_references,
            "policy": [verdict.as_json() for verdict in self.verdicts],
            "warnings": [warning.as_json(self.file) for warning in preview.warnings],
            "messages": preview.messages,
        }

    def _resource_as_json(self, resource: DeclaredResource) -> JsonDict:
        found = resource.as_json()
        for plan in self.plans:
            if plan.overrides:
                found["inputs"] = without_hidden(found["inputs"], plan.overrides)
        return found

    def as_text(self, fit: int | None = None) -> str:
        """Return the report for people, with tables of no more characters a line than fit."""
        return "\n\n".join("\n".join(section) for section in self._sections(fit)) + "\n"

    def _sections(self, fit: int | None) -> Iterator[list[str]]:
        preview, resources = self.preview, self.preview.resources
        pools, clusters = len(self.plans), len({plan.cluster for plan in self.plans})
        what = f"Stack {preview.stack} ({self.file}): {_count(pools, 'pool')} on {_count(clusters, 'cluster')}"
        yield [printable(what)]
        yield [pool_table(self.plans, fit)]
        by_hand = list(by_hand_lines(self.plans))
        if by_hand:
            count = sum(len(plan.overrides) for plan in self.plans)
            yield [f"Set by hand, {_count(count, 'input')}:", *by_hand]
        if self.runtimes:
            yield ["Owners of the GPU software, one for each piece on each node:", owner_table(self.runtimes, fit)]
            yield from ([line, *notes] for line, notes in _notes(self.runtimes))
        imported = sum("import" in resource.options for resource in resources)
        beside = f", {imported} to take over" if imported else ""
        yield [f"Resources, {len(resources) - imported} to create{beside}:", *tree(preview)]
        if preview.stack_references:
            names = ", ".join(preview.stack_references)
            yield [f"Outputs of other stacks are unknown in this preview: {names}"]
        if preview.messages:
            yield ["Messages of the program:", *(f"  {line}" for line in preview.messages)]
        if preview.warnings:
            yield ["Warnings:", *(f"  {warning}" for warning in preview.warnings)]
        yield [f"Policies, {len(self.verdicts)} on {_count(len(resources), 'resource')}:", *policy_lines(self.verdicts)]
        if self.problems:
            yield [f"Refused, {_count(len(self.problems), 'problem')}:", *_indented(self.problems)]
        refusing = sum(verdict.refuses for verdict in self.verdicts)
        if refusing:
            yield [f"Refused: {_count(refusing, 'mandatory policy', 'mandatory policies')} violated."]
        if not self.exit_code and self.plans:
            yield list(_pod(self.plans))
            yield [
                "Next: gpupools diff says what an edit does to nodes, gpupools images what a registry of yours needs,",
                "gpupools explain what a word means.",
            ]
        if not self.exit_code:
            yield ["Nothing was created and no cloud was asked. pulumi up creates it."]


def _pod(plans: Sequence[PoolPlan]) -> Iterator[str]:
    """Write the part of a pod's spec that puts it on the first pool."""
    first = plans[0]
    others = "; with --json every pool has its own, as pod" if len(plans) > 1 else ""
    yield f"What a pod's spec needs for {first.cluster}/{first.name}{others}:"
    yield from (f"  {line}" for line in yaml.safe_dump(first.pod(), sort_keys=False).splitlines())


def no_report(file: str, project: str, stack: str) -> JsonDict:
    """Return the keys of `Report.as_json` for a stack file that was refused before anything was declared."""
    lists = ("pools", "runtimes", "resources", "stack_references", "policy", "warnings", "messages")
    return {"file": file, "project": project, "stack": stack, "outputs": {}, **{key: [] for key in lists}}


def pool_table(plans: Iterable[PoolPlan], fit: int | None = None) -> str:
    """Draw one line for each pool on each cluster."""
    headers = ("cluster", "pool", "cloud", "instance type", "GPUs per node", "nodes", "taint", "sharing", "node offers")
    rows = [
        (
            plan.cluster,
            plan.name,
            plan.cloud,
            plan.instance.name,
            f"{plan.instance.gpus} × {plan.instance.gpu_model}",
            f"{plan.min_nodes}-{plan.max_nodes}" if plan.min_nodes < plan.max_nodes else str(plan.max_nodes),
            "\n".join(map(str, plan.taints)),
            plan.sharing.described(),
            "\n".join(offers(plan)),
        )
        for plan in plans
    ]
    return table_text(rows, headers, fit=fit)


def offers(plan: PoolPlan) -> Iterator[str]:
    """Write what each node of a pool offers to Kubernetes, one line for each resource."""
    if plan.claim_template:
        yield f"{_count(plan.instance.devices, 'GPU')} by claim"
    for resource, count in plan.node_resources.items():
        yield f"{count} {resource}"
    for resource, quantity in plan.provider_plan.extra_resources().items():
        yield f"{quantity} {resource}"


def by_hand_lines(plans: Iterable[PoolPlan]) -> Iterator[str]:
    """Write one line for each input that a pool's `overrides` set."""
    for plan in plans:
        for path, value in plan.overrides.items():
            told = tellable(path, value)
            said = told if told is not value else json.dumps(value, ensure_ascii=False)
            becomes = "is taken away" if value is None else f"= {said}"
            yield f"  {plan.cluster}/{plan.name}: {path} {becomes}"
        for path, why in plan.node_customizations.items():
            yield f"  {plan.cluster}/{plan.name}: {path} is {why} (gpu-node-customised)"


def owner_table(runtimes: Iterable[RuntimePlan], fit: int | None = None) -> str:
    """Draw who brings which piece, one line for each owner; pools of a cluster with the same owners stand together."""
    rows = []
    for runtime in runtimes:
        for (software, owned), pools in runtime.owners_alike().items():
            owners, pieces = ("\n".join(each[side] for each in owned) for side in (0, 1))
            rows.append((runtime.cluster, "\n".join(pools), software, owners, pieces))
    return table_text(rows, ("cluster", "pools", "software", "owner", "pieces"), fit=fit)


def _notes(runtimes: Iterable[RuntimePlan]) -> Iterator[tuple[str, list[str]]]:
    for runtime in runtimes:
        if runtime.notes:
            yield f"Notes on {runtime.cluster}:", [f"  {note}" for note in runtime.notes]


def tree(preview: Preview) -> list[str]:
    """Draw the resources below their parents, as `pulumi preview` does."""
    by_parent: dict[str | None, list[DeclaredResource]] = {}
    for resource in preview.resources:
        by_parent.setdefault(resource.parent, []).append(resource)

    def below(parent: str | None, indent: str) -> Iterator[tuple[str, str, str]]:
        children = by_parent.get(parent, [])
        for index, child in enumerate(children):
            last = index == len(children) - 1
            sign = "=" if "import" in child.options else "+"
            yield sign, f"{indent}{'└─' if last else '├─'} {short_type(child.type)}", child.name
            yield from below(child.urn, indent + ("   " if last else "│  "))

    lines = [("+", "pulumi:pulumi:Stack", f"{preview.project}-{preview.stack}"), *below(None, "")]
    width = max(len(kind) for _, kind, _ in lines)
    return [f" {sign}  {kind:<{width}}  {name}" for sign, kind, name in lines]


_LONG_TYPE = re.compile(r"^([^:]+):([^:/]+)/([^:]+):([^:]+)$")


def short_type(token: str) -> str:
    """Write a type token as Pulumi's CLI shows it: `aws:eks:NodeGroup` for `aws:eks/nodeGroup:NodeGroup`."""
    match = _LONG_TYPE.match(token)
    if match is None:
        return token
    package, module, file, name = match.groups()
    return f"{package}:{module}:{name}" if file.lower() == name.lower() else token


def policy_lines(verdicts: Iterable[PolicyVerdict]) -> list[str]:
    """Write one line for each policy, and below it why it is there and its violations; `warn` stops nothing."""
    lines = []
    verdicts = list(verdicts)
    width = max((len(verdict.policy) for verdict in verdicts), default=0)
    for verdict in verdicts:
        word = "FAIL" if verdict.refuses else "warn" if verdict.violations else "pass"
        lines.append(f"  {word}  {verdict.policy:<{width}}  {verdict.level}")
        said = [line for violation in verdict.violations for line in violation.message.splitlines()]
        # Every message begins with the description, which is worth saying once.
        kept = [line for index, line in enumerate(said) if line != verdict.description or line not in said[:index]]
        lines += [f"          {line}" for line in kept]
    return lines


def _indented(problems: Iterable[Problem]) -> Iterator[str]:
    for problem in problems:
        yield from (f"  {line}" for line in str(problem).splitlines())


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
