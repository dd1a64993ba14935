"""Applies the rules to files, as the policy pack applies them to a Pulumi program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath

from gpupools.audit import (
    arm_template,
    cloudformation_template,
    kubernetes,
    terraform_configuration,
    terraform_plan,
    terraform_sources,
    terraform_state,
)
from gpupools.audit.comment_waivers import comments_of
from gpupools.audit.document import Document, Resource
from gpupools.audit.forms import UnknownForm
from gpupools.audit.other_files import is_called_module, objects_elsewhere, read_in_run, with_nested_templates
from gpupools.audit.terraform_resources import with_constants
from gpupools.audit.terraform_sources import Sources
from gpupools.common.errors import Path, Problem, Rejected
from gpupools.common.json_types import JsonDict
from gpupools.common.structured_text import without_collecting
from gpupools.common.taints import repels_cpu_pods
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies import waivers
from gpupools.policies.components import FindingKey, finding_key, judge_resource
from gpupools.policies.declared_stack import ANSWERS, Declared, DeclaredStack
from gpupools.policies.finding import Context, Finding, FindingLevel, Rule, format_finding, steps
from gpupools.policies.policy_config import Config
from gpupools.policies.rules import ALL_RULES, RULE_NAMES, STACK_RULES
from gpupools.policies.rules.gpu_waiver_current import RULE as CURRENT
from gpupools.policies.stack_judge import in_stack, read_resource
from gpupools.policies.waivers import Waiver, Waivers, outdated_waivers

MAX_FINDINGS = 200
"""Findings of one rule that are listed; the rest are counted."""
MAX_ADDRESSES = 1_000
"""Addresses that a report lists."""
ALL_RESOURCES = "all-resources"
"""Address of an unverified finding about all resources together, for waivers."""
_ALL = Resource("", "", {})
"""Stands for all resources together."""

_TEMPLATES = {
    terraform_configuration.FORM: "judge the plan: terraform show -json PLAN",
    cloudformation_template.FORM: "judge the change set (describe-change-set --include-property-values)",
    arm_template.FORM: "judge the result of az deployment group what-if --no-pretty-print",
    kubernetes.FORM: "judge the rendered objects: helm template CHART | gpupools policy -, or kustomize build DIR",
}
"""Forms that people write, which a tool completes, with what settles the findings that they leave unverified."""


@dataclass(frozen=True)
class ReportedFinding:
    """One finding, ready to be shown."""

    rule: Rule
    level: FindingLevel
    finding: Finding
    address: str
    """Address of the resource; empty for a finding about all resources together."""
    type: str
    """Its type, or the name of the gap that the finding is about."""
    line: int | None
    message: str
    count: int = 1
    """Number of findings: more than one where it counts the findings that are not listed."""
    waiver: Waiver | None = None
    """Waiver that suppresses it."""
    file: FilePath | None = None
    """File of the line, if it is not the file that was judged."""
    settled_by: str = ""
    """What settles an unverified finding."""

    def as_json(self) -> JsonDict:
        """Return the finding as JSON types."""
        return {
            "rule": self.rule.name,
            "level": self.level.value,
            "severity": self.rule.severity,
            "resource": self.address,
            "type": self.type,
            "pool": self.finding.pool,
            **({"file": str(self.file)} if self.file else {}),
            "line": self.line,
            "message": self.message,
            "unverified": self.finding.unverified,
            **({"settled_by": self.settled_by} if self.settled_by else {}),
            "url": self.finding.source or self.rule.url,
            "count": self.count,
            **({"waiver": self.waiver.as_json()} if self.waiver else {}),
        }


@dataclass(frozen=True)
class FileReport:
    """Result for one file."""

    path: FilePath
    form: str = ""
    resources: int = 0
    judged: tuple[str, ...] = ()
    """Addresses of the resources that are node pools or install GPU software."""
    not_understood: tuple[str, ...] = ()
    """Addresses of the resources that gpupools does not understand."""
    answers: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(ANSWERS, 0))
    """How many resources got each of the three answers."""
    gaps: tuple[str, ...] = ()
    """Names of what the file omits by its own statement."""
    gpu_pools: int = 0
    """Node pools that have GPUs, or may have."""
    found: tuple[ReportedFinding, ...] = ()
    waived: tuple[ReportedFinding, ...] = ()
    """Findings that a waiver suppresses."""
    scopes: frozenset[str] = frozenset()
    """Scopes of its resources (`policies.waivers.scope`)."""
    problems: tuple[Problem, ...] = ()
    """Why the file could not be judged."""
    is_of_no_form: bool = False
    """Whether the file has none of the forms that are read."""
    in_baseline: int = 0
    """Findings that the baseline of the run lists."""
    fail_on: str = ""
    """Which findings fail the file: `violation`, `unverified` (these too) or `never`; if empty, its form decides."""
    is_searched: bool = False
    """Whether the file was found in a folder, not named."""
    has_cpu_pool: bool = False
    """Whether a pool of it certainly takes pods without GPUs."""
    unfinished: bool = False
    """Whether a limit of time or memory ended the run before the file was judged."""

    def fails(self, found: ReportedFinding) -> bool:
        """Say whether a finding fails the file; an unverified one does in a complete document, such as a plan."""
        is_complete = not self.is_searched and (self.form not in _TEMPLATES or self.path == FilePath("-"))
        fail_on = self.fail_on or ("unverified" if is_complete else "violation")
        return found.level in _FAILING[fail_on]

    @property
    def refuses(self) -> bool:
        """Return whether the file fails: by a finding, or because it was named and could not be judged."""
        return any(map(self.fails, self.found)) or (bool(self.problems) and not self.is_searched) or self.unfinished

    def as_json(self) -> JsonDict:
        """Return the verdict as JSON types."""
        return {
            "file": str(self.path),
            "form": self.form,
            "resources": self.resources,
            "answers": dict(self.answers),
            "judged": list(self.judged[:MAX_ADDRESSES]),
            "not_understood": list(self.not_understood[:MAX_ADDRESSES]),
            "gaps": list(self.gaps),
            "gpu_pools": self.gpu_pools,
            "findings": [found.as_json() for found in self.found],
            "waived": [found.as_json() for found in self.waived],
            "in_baseline": self.in_baseline,
            "problems": [problem.as_json(self.path) for problem in self.problems],
        }


_FAILING = {
    "violation": (FindingLevel.VIOLATION,),
    "unverified": (FindingLevel.VIOLATION, FindingLevel.UNVERIFIED),
    "never": (),
}


def judge_file(path: FilePath, config: Config) -> FileReport:
    """Read a file of any form and apply every rule to it; never raises for the content of the file."""
    with without_collecting():
        try:
            document = with_nested_templates(path, read_in_run(path, config.files), config.files)
            if is_called_module(path, config.files):
                return FileReport(path, form=document.form)
            return judge_document(path, document, config, objects_elsewhere(path, document, config.files))
        except Rejected as rejected:
            return FileReport(path, problems=rejected.problems, is_of_no_form=isinstance(rejected, UnknownForm))
        except RecursionError:
            return FileReport(path, problems=(Problem((), "values are nested too deeply to be read"),))


_TERRAFORM = (terraform_plan.FORM, terraform_state.FORM, terraform_configuration.FORM)


def judge_document(path: FilePath, document: Document, config: Config, beside: Sequence[Resource] = ()) -> FileReport:
    """Apply every rule to the resources of one document, to each alone and then to all together.

    Args:
        path: Its file.
        document: The document.
        config: The policy configuration.
        beside: Objects of other files that it may refer to; they are judged with their own file.
    """
    folder = path if path.is_dir() else path.parent
    sources = Sources(folder, document.modules) if document.form in _TERRAFORM else None
    found_resources: Iterable[Resource] = document.resources
    if sources is not None:
        found_resources = (one for resource in document.resources for one in with_constants(resource, sources))
    resources = _by_unique_address(tuple(found_resources))
    folders = [folder, *(sources.folders() if sources else ())]
    declared = {address: _declared(address, resource) for address, resource in resources.items()}
    pools = {address: value.pools for address, value in declared.items()}
    gaps = {gap.address: Resource(gap.address, gap.name, {}) for gap in document.gaps}
    comments = comments_of(path, gaps | resources, pools, sources, folders)
    given = Waivers(config.limits, config.waivers)
    for address, value in (gaps | resources).items():
        given.read(address, value.type, value.inputs, RULE_NAMES, comments.get(address, ()))
    ending = {resource.address: resource for resource in document.ending}
    ended = [(_declared(address, value), value.ends) for address, value in ending.items()]
    others = _by_unique_address(beside)
    lent = [_declared(address, other) for address, other in others.items() if address not in resources]
    stack = DeclaredStack([*declared.values(), *lent], document.gaps, ended)
    found, waived = _all_findings(ending | resources, gaps, document.form, declared, stack, config, given, sources)
    judged = {
        owner.urn: None for owner in stack.resources if owner.urn in resources and (owner.pools or owner.software)
    }
    not_understood = tuple(address for address in stack.unread if address in resources and address not in judged)
    counts = (len(judged), len(resources) - len(judged) - len(not_understood), len(not_understood))
    return FileReport(
        path=path,
        form=document.form,
        resources=len(resources),
        judged=tuple(judged),
        not_understood=not_understood,
        answers=dict(zip(ANSWERS, counts, strict=True)),
        gaps=tuple(dict.fromkeys(gap.name for gap in document.gaps)),
        gpu_pools=sum(_may_have_gpus(pool) for owner, pool in stack.pools if owner.urn in resources),
        has_cpu_pool=any(_takes_cpu_pods(pool) for owner, pool in stack.pools if owner.urn in resources),
        found=found,
        waived=waived,
        scopes=frozenset(map(waivers.scope, (*resources, *(gap.address for gap in document.gaps)))),
    )


def _all_findings(
    resources: Mapping[str, Resource],
    gaps: Mapping[str, Resource],
    form: str,
    declared: Mapping[str, Declared],
    stack: DeclaredStack,
    config: Config,
    given: Waivers,
    sources: Sources | None,
) -> tuple[tuple[ReportedFinding, ...], tuple[ReportedFinding, ...]]:
    """Return the findings and the waived findings, each in the order of their resources."""
    found: dict[tuple[str, str, str], ReportedFinding] = {}
    counted: Counter[tuple[str, FindingLevel]] = Counter()
    # The rule on waivers runs last, when it is known which waivers were used.
    for rule, address, finding in _findings(resources, declared, stack, config, given):
        level = config.level(rule, finding, address)
        if level is None or (address and address not in resources and address not in gaps):
            continue
        address = address or (ALL_RESOURCES if level is FindingLevel.UNVERIFIED else "")
        waiver = given.use(rule.name, address, finding.pool, finding.what)
        counted[rule.name, level] += waiver is None
        if waiver is not None or counted[rule.name, level] <= MAX_FINDINGS:
            resource = resources.get(address) or gaps.get(address, _ALL)
            one = _reported_finding(rule, level, finding, address, resource, sources)
            settled = finding.fix if finding.needs_fix else _TEMPLATES.get(form, finding.fix)
            settled = settled if level is FindingLevel.UNVERIFIED else ""
            found[rule.name, address, one.message] = replace(one, waiver=waiver, settled_by=settled)
    places = {address: place for place, address in enumerate(resources)}
    all_found = (*found.values(), *_omitted_findings(counted))
    in_order = sorted(all_found, key=lambda reported: places.get(reported.address, len(places)))
    return (
        tuple(finding for finding in in_order if finding.waiver is None),
        tuple(finding for finding in in_order if finding.waiver is not None),
    )


def _reported_finding(
    rule: Rule,
    level: FindingLevel,
    finding: Finding,
    address: str,
    resource: Resource,
    sources: Sources | None,
) -> ReportedFinding:
    """Return a finding with its message, file and line."""
    place = sources.place(address, resource.spelled(finding.property)) if sources else None
    file, line = place or (None, _line(resource, finding))
    message = resource.spelled(format_finding(finding, resource.inputs, rule))
    return ReportedFinding(rule, level, finding, address, resource.type, line, message, file=file)


def _omitted_findings(counted: Mapping[tuple[str, FindingLevel], int]) -> Iterator[ReportedFinding]:
    """Yield one finding per rule that counts the findings beyond `MAX_FINDINGS`."""
    rules = {rule.name: rule for rule in ALL_RULES}
    for (name, level), count in counted.items():
        if count > MAX_FINDINGS:
            more = Finding(what=f"and {count - MAX_FINDINGS} more like these", fix="fix the reported ones first")
            yield ReportedFinding(
                rules[name], level, more, "", "", None, f"{more.what}; {more.fix}", count - MAX_FINDINGS
            )


def judge_waivers(judged: Sequence[FileReport], config: Config, *, some: bool = False) -> FileReport | None:
    """Check the waivers of the configuration after all files were judged; None where all are valid.

    Args:
        judged: Every file.
        config: The configuration.
        some: Whether these are only some of the manifests: waivers for objects of others are ignored.
    """
    used = {found.waiver for file in judged for found in file.waived if found.waiver}
    there = {address for file in judged for address in (*file.judged, *file.not_understood)}
    given = tuple(
        waiver
        for waiver in config.waivers
        if not some or any(map(waiver.matches, there)) or waivers.scope(waiver.resource) != waivers.MANIFESTS
    )
    scopes = frozenset[str]().union(*(file.scopes for file in judged))
    outdated = outdated_waivers(given, used, scopes, config.limits)
    findings = ((address, Finding(what=what, fix=fix)) for address, what, fix in outdated)
    found = tuple(
        _reported_finding(CURRENT, FindingLevel.VIOLATION, finding, address, _ALL, None)
        for address, finding in findings
    )
    return FileReport(config.path, form="policy configuration", found=found) if found else None


def _may_have_gpus(pool: PoolFacts) -> bool:
    if pool.in_cluster is None and not (pool.gpus_per_node or pool.evidence):
        return False  # machines of which nothing says that they are nodes
    return pool.in_cluster is not False and pool.gpus_per_node != 0 and pool.accelerator != "other"


def _takes_cpu_pods(pool: PoolFacts) -> bool:
    return pool.in_cluster is True and pool.gpus_per_node == 0 and not (pool.unknown or repels_cpu_pods(pool.taints))


def without_settled(judged: Sequence[FileReport]) -> list[FileReport]:
    """Return the reports of a run without what a pool for other pods in any of its files settles."""
    if not any(file.has_cpu_pool for file in judged):
        return [*judged]
    return [
        replace(file, found=tuple(issue for issue in file.found if not issue.finding.lacks_cpu_pool)) for file in judged
    ]


def missing_parser(judged: Iterable[FileReport]) -> str:
    """Return what to install so that findings have the lines of .tf files; empty where nothing is missing."""
    return terraform_sources.missing_parser(
        {report.path.parent for report in judged if report.found and report.form in _TERRAFORM}
    )


def _by_unique_address(resources: Sequence[Resource]) -> dict[str, Resource]:
    """Return the resources by address; objects of one manifest with the same name are numbered."""
    found: dict[str, Resource] = {}
    numbers: dict[str, int] = {}
    for resource in resources:
        address = resource.address
        while address in found:
            numbers[resource.address] = numbers.get(resource.address, 1) + 1
            address = f"{resource.address} ({numbers[resource.address]})"
        found[address] = resource
    return found


def _declared(address: str, resource: Resource) -> Declared:
    logical = resource.address.rpartition("::")[2] if resource.address.startswith("urn:pulumi:") else ""
    declared = in_stack(
        read_resource(address, resource.type, logical, resource.inputs, resource.parent),
        opaque=resource.opaque,
        component=resource.component,
        provider=resource.provider,
        depends=resource.depends,
        by_property=resource.refers,
    )
    pools = declared.pools
    if resource.is_partial:
        pools = tuple(replace(pool, weaknesses=(), node_customizations=(), identity=None) for pool in pools)
    if resource.takes_no_taints:
        pools = tuple(replace(pool, no_taint_field=True) for pool in pools)
    return replace(
        declared,
        name=resource.address,
        inputs={**resource.inputs, **({"id": resource.id} if resource.id else {})},
        pools=pools,
        unread=None if resource.in_other_file else declared.unread,
    )


def _findings(
    resources: Mapping[str, Resource],
    declared: Mapping[str, Declared],
    stack: DeclaredStack,
    config: Config,
    given: Waivers,
) -> Iterator[tuple[Rule, str, Finding]]:
    found_on: dict[str, set[FindingKey]] = {}
    context = Context(config=config.options, waivers=given)
    for address, value in declared.items():
        if not value.pools and value.software is None:
            continue
        own = replace(context, stack=resources[address].stack, protect=resources[address].protect)
        above = stack.component(value)
        component = found_on.get(above.urn, ()) if above else None
        found = [*judge_resource(value.pools, value.software, own, component)]
        found_on[address] = {finding_key(rule.name, finding) for rule, finding in found}
        yield from ((rule, address, finding) for rule, finding in found)
    for rule in STACK_RULES:
        yield from ((rule, *each) for each in (rule.stack(stack, context) if rule.stack else ()))


def _line(resource: Resource, finding: Finding) -> int | None:
    """Return the line of the input, or of the nearest block around it."""
    path: Path = tuple(steps(finding.property))
    return next(
        (resource.lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in resource.lines),
        resource.line,
    )
