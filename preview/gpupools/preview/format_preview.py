"""Format the report of a preview as text and as JSON. Decides nothing and imports no Pulumi."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from sys import maxsize
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import yaml

from gpupools.common.errors import amount_of
from gpupools.common.json_types import JsonDict
from gpupools.console.output import printable
from gpupools.console.tables import table_text
from gpupools.plan.order import group_plans
from gpupools.plan.prices import per_hour, total
from gpupools.software.team_shares import TeamRow
from gpupools.spec.overrides import tellable, without_hidden

if TYPE_CHECKING:
    from gpupools.plan.pool_plan import PoolPlan
    from gpupools.plan.prices import PoolPrice
    from gpupools.plan.quotas import QuotaNeed
    from gpupools.plan.software_plan import RuntimePlan
    from gpupools.preview.monitor import DeclaredResource
    from gpupools.preview.program_run import Preview


class Violation(NamedTuple):
    """A violation of one policy by one resource."""

    urn: str
    message: str


@dataclass(frozen=True)
class PolicyVerdict:
    """The verdict of one policy on the whole preview."""

    policy: str
    level: str
    """`advisory`, `mandatory`, `remediate` or `disabled`."""
    description: str
    violations: tuple[Violation, ...] = ()

    @property
    def refuses(self) -> bool:
        """Return whether the violations block the deployment."""
        return bool(self.violations) and self.level == "mandatory"

    def as_json(self) -> JsonDict:
        """Return the verdict as JSON types; `verdict` is `pass` or `violation`."""
        return {
            "policy": self.policy,
            "level": self.level,
            "verdict": "violation" if self.violations else "pass",
            "description": self.description,
            "violations": [violation._asdict() for violation in self.violations],
        }


@dataclass(frozen=True)
class Report:
    """One preview of one stack file."""

    file: str
    plans: Sequence[PoolPlan]
    preview: Preview
    verdicts: Sequence[PolicyVerdict]
    runtimes: Sequence[RuntimePlan] = ()
    """The GPU software of each cluster."""
    quotas: Sequence[QuotaNeed] = ()
    """What the pools need of the clouds' quotas."""
    prices: Sequence[PoolPrice] = ()
    """What the pools cost per hour."""
    teams: Sequence[TeamRow] = ()
    """What teams may use of the pools."""
    unlisted: Sequence[str] = ()
    """Instance types and regions of which no list says whether the cloud offers them there."""

    @property
    def exit_code(self) -> int:
        """0 when the stack can be deployed, 1 when a problem or a mandatory policy blocks it."""
        return 1 if self.preview.problems or any(verdict.refuses for verdict in self.verdicts) else 0

    def as_json(self) -> JsonDict:
        """Return the report as JSON types, without its problems."""
        preview, runtimes = self.preview, {runtime.cluster: runtime for runtime in self.runtimes}
        groups = [
            {
                "cluster": whole.cluster,
                "name": whole.name,
                "steps": [step.name for step in steps],
                "nodes": whole.as_json()["nodes"],
                **(runtimes[whole.cluster].groups[whole.name] if whole.cluster in runtimes else {}),
            }
            for whole, steps in group_plans(self.plans)
        ]
        return {
            "file": self.file,
            "project": preview.project,
            "stack": preview.stack,
            "pools": [plan.as_json() for plan in self.plans],
            **({"groups": groups} if groups else {}),
            "runtimes": [runtime.as_json() for runtime in self.runtimes],
            "quotas": [need.as_json() for need in self.quotas],
            "prices": [price.as_json() for price in self.prices],
            "teams": [row._asdict() for row in self.teams],
            "availability_unknown": list(self.unlisted),
            "resources": [self._resource_as_json(resource) for resource in preview.resources],
            "outputs": preview.outputs,
            "stack_references": preview.stack_references,
            "policy": [verdict.as_json() for verdict in self.verdicts],
            "warnings": [warning.as_json(self.file) for warning in preview.warnings],
            "messages": preview.messages,
        }

    def _resource_as_json(self, resource: DeclaredResource) -> JsonDict:
        resource_json = resource.as_json()
        for plan in self.plans:
            if plan.overrides:
                resource_json["inputs"] = without_hidden(resource_json["inputs"], plan.overrides)
        return resource_json

    def as_text(self, fit: int | None = None, prose: bool = False) -> str:
        """Return the report as text; tables, and sentences if `prose` asks for it, are wrapped to `fit` characters."""
        sections = self._sections(fit)
        if prose:
            wide = fit or maxsize
            sections = ([*_wrapped(lines, wide)] if lines[0].startswith(_SENTENCES) else lines for lines in sections)
        return "\n\n".join("\n".join(section) for section in sections) + "\n"

    def _sections(self, fit: int | None) -> Iterator[list[str]]:
        preview, resources = self.preview, self.preview.resources
        pools, clusters = len(self.plans), len({plan.cluster for plan in self.plans})
        title = f"Stack {preview.stack} ({self.file}): {amount_of(pools, 'pool')} on {amount_of(clusters, 'cluster')}"
        yield [printable(title)]
        yield [pool_table(self.plans, fit)]
        if orders := list(order_lines(self.plans, self.prices)):
            yield ["Steps, tried in this order:", *_indented(map(printable, orders))]
        if self.plans:
            yield ["Taints:", *taint_lines(self.plans)]
        if self.quotas:
            yield ["Quotas needed with all nodes:", *_quota_lines(self.quotas)]
        if self.prices:
            yield ["List prices (without discounts, disks and network):", *price_lines(self.prices, fit)]
        if self.teams:
            yield ["Teams, with the GPUs or slices of all nodes:", table_text(self.teams, TeamRow._fields, fit=fit)]
        if self.unlisted:
            yield ["Availability unknown, because no list covers:", *_indented(map(printable, self.unlisted))]
        overrides = list(override_lines(self.plans))
        if overrides:
            count = sum(len(plan.overrides) for plan in self.plans)
            yield [f"Overrides, {amount_of(count, 'input')}:", *overrides]
        if self.runtimes:
            yield ["Who installs the GPU software:", owner_table(self.runtimes, fit)]
            for runtime in self.runtimes:
                if runtime.notes:
                    yield [f"Notes for cluster {runtime.cluster}:", *(f"  {note}" for note in runtime.notes)]
        imported = sum("import" in resource.options for resource in resources)
        to_import = f", {imported} to import" if imported else ""
        yield [f"Resources: {len(resources) - imported} to create{to_import}", *tree(preview, fit)]
        if preview.stack_references:
            names = ", ".join(preview.stack_references)
            yield [f"Outputs of other stacks, unknown in an offline preview: {names}"]
        if preview.messages:
            yield ["Program output:", *(f"  {line}" for line in preview.messages)]
        if preview.warnings:
            yield ["Warnings:", *(f"  {warning}" for warning in preview.warnings)]
        yield [
            f"Policies on {amount_of(len(resources), 'resource')}: {passing(self.verdicts)}",
            *policy_lines(self.verdicts),
        ]
        if self.preview.problems:
            yield [f"Rejected: {amount_of(len(self.preview.problems), 'problem')}", *_indented(self.preview.problems)]
        violated = sum(verdict.refuses for verdict in self.verdicts)
        if violated:
            yield [f"Rejected: {amount_of(violated, 'mandatory policy', 'mandatory policies')} violated."]
        if not self.exit_code and self.plans:
            yield list(_pod_lines(self.plans, self.runtimes))
            yield [
                "Next: gpupools diff shows what an edit does to nodes, gpupools images lists the images to mirror,",
                "gpupools explain defines a term.",
            ]
        if not self.exit_code:
            yield ["Nothing was created, and no cloud API was called. To create the resources, run pulumi up."]


_SENTENCES = (
    "Steps",
    "Taints",
    "Quotas",
    "Availability",
    "Notes",
    "Outputs",
    "Program",
    "Warnings",
    "Policies",
    "Rejected",
)
"""Starts of the sections that consist of sentences."""


def _wrapped(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines of sentences wrapped to a width, the rest of each indented; URLs are not broken."""
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield from wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def _pod_lines(plans: Sequence[PoolPlan], runtimes: Sequence[RuntimePlan]) -> Iterator[str]:
    """Yield the pod spec snippet that schedules a pod on the first pool."""
    first = next(group_plans(plans))[0] if plans[0].group else plans[0]
    runtime = next((plan for plan in runtimes if plan.cluster == first.cluster), None)
    metadata = runtime.pod_metadata.get(first.name) if runtime is not None else None
    if runtime is not None and plans[0].group:
        metadata = runtime.groups[first.name].get("pod_metadata")
    pod = {"metadata": dict(metadata), "spec": first.pod()} if metadata else first.pod()
    others = " (--json shows the other pools, under pod)" if len(plans) > 1 else ""
    yield f"Pod spec for {first.cluster}/{first.name}{others}:"
    yield from (f"  {line}" for line in yaml.safe_dump(pod, sort_keys=False).splitlines())


def no_report(file: str, project: str, stack: str) -> JsonDict:
    """Return the keys of `Report.as_json` for a stack file that was rejected before the program ran."""
    lists = (
        "pools",
        "runtimes",
        "quotas",
        "prices",
        "teams",
        "availability_unknown",
        "resources",
        "stack_references",
        "policy",
        "warnings",
        "messages",
    )
    return {"file": file, "project": project, "stack": stack, "outputs": {}, **{key: [] for key in lists}}


def pool_table(plans: Iterable[PoolPlan], fit: int | None = None) -> str:
    """Return a table with one row per pool and cluster."""
    headers = ("cluster", "pool", "instance type", "GPUs per node", "nodes", "sharing", "resources per node")
    rows = [
        (
            f"{plan.cluster} ({plan.cloud})",
            plan.name,
            plan.instance.name,
            f"{plan.instance.gpus} × {plan.instance.gpu_model}",
            (f"{plan.min_nodes}-{plan.max_nodes}" if plan.min_nodes < plan.max_nodes else str(plan.max_nodes))
            + (f", {plan.spare} spare" if plan.spare and not plan.group else ""),
            plan.sharing.described().replace("+", " + "),
            "\n".join(node_resource_lines(plan)),
        )
        for plan in plans
    ]
    return table_text(rows, headers, fit=fit)


def order_lines(plans: Iterable[PoolPlan], prices: Sequence[PoolPrice]) -> Iterator[str]:
    """Yield one line per pool with several steps: the steps, and the sum of their nodes and prices."""
    for whole, steps in group_plans(plans):
        keys = {f"{step.cluster}/{step.name}" for step in steps}
        cost = [price for price in prices if price.key in keys]
        nodes = f"{whole.min_nodes} to {amount_of(whole.max_nodes, 'node')} together"
        nodes += f", {whole.spare} of them spare" if whole.spare else ""
        line = f"{whole.cluster}/{whole.name}: {', then '.join(step.name for step in steps)}; {nodes}"
        yield f"{line}; all of them {total(cost)}" if cost else line


def taint_lines(plans: Sequence[PoolPlan]) -> Iterator[str]:
    """Yield one line per taint with the pools that have it."""
    pools: dict[str, list[str]] = {}
    for plan in plans:
        for taint in plan.node_taints:
            until = " until a new node offers its GPUs" if taint == plan.startup_taint else ""
            pools.setdefault(f"{taint}{until}", []).append(f"{plan.cluster}/{plan.name}")
    for name, having in pools.items():
        yield f"  {name}: {'every pool' if len(having) == len(plans) else ', '.join(having)}"


def node_resource_lines(plan: PoolPlan) -> Iterator[str]:
    """Yield one line per resource that each node of a pool advertises to Kubernetes."""
    if plan.claim_template:
        yield f"{amount_of(plan.instance.devices, 'GPU')} (DRA claims)"
    for resource, count in plan.node_resources.items():
        yield f"{count} {resource}"
    for resource, quantity in plan.provider_plan.extra_resources().items():
        yield f"{quantity} {resource}"


def override_lines(plans: Iterable[PoolPlan]) -> Iterator[str]:
    """Yield one line per input that a pool's `overrides` set."""
    for plan in plans:
        for path, value in plan.overrides.items():
            visible = tellable(path, value)
            text = visible if visible is not value else json.dumps(value, ensure_ascii=False)
            yield f"  {plan.cluster}/{plan.name}: {path} {'is removed' if value is None else f'= {text}'}"
        for path, why in plan.node_customizations.items():
            yield f"  {plan.cluster}/{plan.name}: {path} is {why} (gpu-node-customised)"


def owner_table(runtimes: Iterable[RuntimePlan], fit: int | None = None) -> str:
    """Return a table of who installs which components; pools of a cluster with the same installers share a row."""
    rows = []
    for runtime in runtimes:
        for (software, owned), pools in runtime.owners_alike().items():
            owners, pieces = ("\n".join(pair[side] for pair in owned) for side in (0, 1))
            rows.append((runtime.cluster, "\n".join(pools), software, owners, pieces))
    return table_text(rows, ("cluster", "pools", "software", "installed by", "components"), fit=fit)


def tree(preview: Preview, fit: int | None = None) -> list[str]:
    """Return the resources as a tree, as `pulumi preview` prints them; wrapped to `fit`."""
    by_parent: dict[str | None, list[DeclaredResource]] = {}
    for resource in preview.resources:
        by_parent.setdefault(resource.parent, []).append(resource)

    def below(parent: str | None, indent: str) -> Iterator[tuple[str, str, str]]:
        children = by_parent.get(parent, [])
        tags = [child for child in children if child.type.endswith(":Tag")]
        children = [child for child in children if child not in tags[1:]]
        for index, child in enumerate(children):
            last = index == len(children) - 1
            sign = "=" if "import" in child.options else "+"
            name = f"{child.name} and {len(tags) - 1} more" if child in tags[:1] and tags[1:] else child.name
            yield sign, f"{indent}{'└─' if last else '├─'} {short_type(child.type)}", name
            yield from below(child.urn, indent + ("   " if last else "│  "))

    lines = [("+", "pulumi:pulumi:Stack", f"{preview.project}-{preview.stack}"), *below(None, "")]
    width = max(len(kind) for _, kind, _ in lines)
    if fit is not None:
        width = min(width, max(fit - 6 - max(len(name) for _, _, name in lines), 0))
    return [*_wrapped((f" {sign}  {kind:<{width}}  {name}" for sign, kind, name in lines), fit or maxsize)]


_LONG_TYPE = re.compile(r"^([^:]+):([^:/]+)/([^:]+):([^:]+)$")


def short_type(token: str) -> str:
    """Return a type token as Pulumi's CLI shows it: `aws:eks:NodeGroup` for `aws:eks/nodeGroup:NodeGroup`."""
    match = _LONG_TYPE.match(token)
    if match is None:
        return token
    package, module, file, name = match.groups()
    return f"{package}:{module}:{name}" if file.lower() == name.lower() else token


def passing(verdicts: Sequence[PolicyVerdict]) -> str:
    """Return how many policies pass, and how many were not asked."""
    asked = [verdict for verdict in verdicts if verdict.violations or verdict.level != "disabled"]
    said = f"{sum(not verdict.violations for verdict in asked)} of {len(asked)} policies pass"
    return said + (f", {len(verdicts) - len(asked)} disabled" if len(asked) < len(verdicts) else "")


def policy_lines(verdicts: Iterable[PolicyVerdict]) -> list[str]:
    """Return one line per violated policy, with its description and violations below it; `warn` blocks nothing."""
    lines = []
    found = [verdict for verdict in verdicts if verdict.violations]
    width = max((len(verdict.policy) for verdict in found), default=0)
    for verdict in found:
        lines.append(f"  {'FAIL' if verdict.refuses else 'warn'}  {verdict.policy:<{width}}  {verdict.level}")
        messages = [line for violation in verdict.violations for line in violation.message.splitlines()]
        # Every message begins with the description; show it once.
        kept = [
            text for index, text in enumerate(messages) if text != verdict.description or text not in messages[:index]
        ]
        lines += [f"          {line}" for line in kept]
    return lines


PRICE_COLUMNS = ("pool", "capacity", "node", "GPU", "share or slice", "min nodes, idle", "max nodes", "dated")


def price_rows(prices: Iterable[PoolPrice]) -> Iterator[Sequence[str]]:
    """Yield one row per pool for `PRICE_COLUMNS`."""
    for cost in prices:
        node = cost.price.amount if cost.price is not None else None
        amounts = (node, cost.per_gpu, cost.per_unit, cost.at_min, cost.at_max)
        words = [
            "unknown" if cost.price is None else "" if one is None else per_hour(one, cost.currency) for one in amounts
        ]
        yield (cost.key, cost.capacity, *words, cost.price.age(date.today()) if cost.price is not None else "")


def price_total(prices: Sequence[PoolPrice]) -> str:
    """Return the sums of a stack in one line."""
    spot = [price for price in prices if price.capacity == "spot"]
    kinds = {"All nodes": [price for price in prices if price.capacity != "spot"], "All spot nodes": spot}
    sums = [f"{words} {total(own)}" for words, own in kinds.items() if own]
    return ". ".join([*sums, f"Nodes that always run {total(prices, at_max=False)}"])


def price_lines(prices: Sequence[PoolPrice], fit: int | None = None) -> Iterator[str]:
    """Yield a table with one row per pool, then the sums."""
    yield table_text(list(price_rows(prices)), PRICE_COLUMNS, fit=fit)
    yield from wrap(price_total(prices), fit or maxsize)


def _quota_lines(quotas: Iterable[QuotaNeed]) -> Iterator[str]:
    for need in quotas:
        yield printable(f"  {need}")
        if need.link:
            yield printable(f"    raise it: {need.link}")


def _indented(items: Iterable[object]) -> Iterator[str]:
    for item in items:
        yield from (f"  {line}" for line in str(item).splitlines())
