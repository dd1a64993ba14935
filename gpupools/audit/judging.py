"""Applies the rules to files, as the policy pack applies them to a Pulumi program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
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
from gpupools.plan.cloud import Cloud, Readback
from gpupools.plan.pool_facts import PoolFacts
from gpupools.policies import waivers
from gpupools.policies.classify import classify
from gpupools.policies.components import FindingKey, finding_key, judge_resource
from gpupools.policies.declared_software import read_software
from gpupools.policies.declared_stack import ANSWERS, Declared, DeclaredStack, Gap
from gpupools.policies.finding import Context, Finding, FindingLevel, Rule, format_finding, steps
from gpupools.policies.kinds import is_read, readers_of
from gpupools.policies.policy_config import Config
from gpupools.policies.rules import ALL_RULES, RULE_NAMES, STACK_RULES
from gpupools.policies.rules.gpu_waiver_current import RULE as CURRENT
from gpupools.policies.rules.gpu_waiver_current import outdated_waivers
from gpupools.policies.waivers import Comment, Waiver
from gpupools.providers import clouds
from gpupools.readback.inputs import with_name
from gpupools.readback.kubernetes_pools import each_kubernetes_pool, read_template

MAX_FINDINGS = 200
"""Findings of one rule that are listed; the rest are counted."""
MAX_ADDRESSES = 1_000
"""Addresses that a report lists."""
ALL_RESOURCES = "all-resources"
"""Address of an unverified finding about all resources together, for waivers."""

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
            "problems": [each.as_json(self.path) for each in self.problems],
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
        found_resources = (one for each in document.resources for one in with_constants(each, sources))
    resources = _by_unique_address(tuple(found_resources))
    known = _clouds()
    folders = [folder, *(sources.folders() if sources else ())]
    declared = {address: _declared(address, each, known) for address, each in resources.items()}
    pools = {address: each.pools for address, each in declared.items()}
    gaps = {gap.address: Resource(gap.address, gap.name, {}) for gap in document.gaps if sources is not None}
    noted = comments_of(path, gaps | resources, pools, sources, folders)
    for address in noted.keys() & declared.keys():
        declared[address] = replace(declared[address], comments=noted[address])
    ending = {each.address: each for each in document.ending}
    ended = [(_declared(address, each, known), each.ends) for address, each in ending.items()]
    others = _by_unique_address(beside)
    lent = [_declared(address, each, known) for address, each in others.items() if address not in resources]
    stack = DeclaredStack([*declared.values(), *lent], document.gaps, ended)
    of_gaps = {address: noted[address] for address in noted.keys() & gaps.keys() - declared.keys()}
    found, waived = _all_findings(ending | resources, declared, stack, config, sources, of_gaps)
    found = tuple(_settled(each, document.form) for each in found)
    judged = {each.urn: None for each in stack.resources if each.urn in resources and (each.pools or each.software)}
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
        gpu_pools=sum(_may_have_gpus(pool) for each, pool in stack.pools if each.urn in resources),
        has_cpu_pool=any(_takes_cpu_pods(pool) for each, pool in stack.pools if each.urn in resources),
        found=found,
        waived=waived,
        scopes=frozenset(map(waivers.scope, (*resources, *(gap.address for gap in document.gaps)))),
    )


@lru_cache
def _clouds() -> Mapping[str, Cloud]:
    return dict(clouds())


def _all_findings(
    resources: Mapping[str, Resource],
    declared: Mapping[str, Declared],
    stack: DeclaredStack,
    config: Config,
    sources: Sources | None,
    of_gaps: Mapping[str, Sequence[Comment]],
) -> tuple[tuple[ReportedFinding, ...], tuple[ReportedFinding, ...]]:
    """Return the findings and the waived findings, each in the order of their resources."""
    limits = config.limits
    configured = [waiver for waiver in config.waivers if not limits.fault(waiver)]
    patterns = [waiver for waiver in configured if waiver.is_pattern]
    given: dict[tuple[str, str, str], list[Waiver]] = {}
    noted = [(address, each.type, each.inputs, each.comments) for address, each in declared.items()]
    for address, kind, inputs, comments in (*noted, *((address, "", {}, one) for address, one in of_gaps.items())):
        for waiver in waivers.annotated(address, kind, inputs, RULE_NAMES, limits, comments)[0]:
            given.setdefault((address, waiver.rule, waiver.pool), []).append(waiver)
    for waiver in configured:
        given.setdefault((waiver.resource, waiver.rule, waiver.pool), []).append(waiver)
    gaps = {gap.address: gap for gap in stack.gaps}
    found: dict[tuple[str, str, str], ReportedFinding] = {}
    counted: Counter[tuple[str, FindingLevel]] = Counter()
    used: set[Waiver] = set()
    # The rule on waivers runs last, when it is known which waivers were used.
    for rule, address, finding in _findings(resources, declared, stack, config, used):
        level = config.level(rule, finding, address)
        if level is None or (address and address not in resources and address not in gaps):
            continue
        address = address or (ALL_RESOURCES if level is FindingLevel.UNVERIFIED else "")
        listed = [given.get((address, rule.name, pool), ()) for pool in (finding.pool, "")]
        of_rule = (*chain(*listed), *(each for each in patterns if each.rule == rule.name))
        let_pass = next((each for each in of_rule if each.covers(address, finding.pool, config.today)), None)
        if let_pass is not None:
            used.add(let_pass)
        else:
            counted[rule.name, level] += 1
        if let_pass is not None or counted[rule.name, level] <= MAX_FINDINGS:
            one = _reported_finding(rule, level, finding, address, resources.get(address) or gaps.get(address), sources)
            found[rule.name, address, one.message] = replace(one, waiver=let_pass)
    places = {address: place for place, address in enumerate(resources)}
    all_found = (*found.values(), *_omitted_findings(counted))
    in_order = sorted(all_found, key=lambda each: places.get(each.address, len(places)))
    return (
        tuple(each for each in in_order if each.waiver is None),
        tuple(each for each in in_order if each.waiver is not None),
    )


def _reported_finding(
    rule: Rule,
    level: FindingLevel,
    finding: Finding,
    address: str,
    resource: Resource | Gap | None,
    sources: Sources | None,
) -> ReportedFinding:
    """Return a finding with its message, file and line."""
    if not isinstance(resource, Resource):
        kind, place = resource.name if resource else "", sources.place(address, "") if sources and address else None
        file, line = place or (None, None)
        return ReportedFinding(rule, level, finding, address, kind, line, format_finding(finding, {}, rule), file=file)
    place = sources.place(address, resource.spelled(finding.property)) if sources else None
    file, line = place or (None, _line(resource, finding))
    message = resource.spelled(format_finding(finding, resource.inputs, rule))
    return ReportedFinding(rule, level, finding, address, resource.type, line, message, file=file)


def _settled(found: ReportedFinding, form: str) -> ReportedFinding:
    """Return an unverified finding with what settles it: the document that its tool makes, or its own fix."""
    if found.level is not FindingLevel.UNVERIFIED:
        return found
    fix = found.finding.fix
    return replace(found, settled_by=fix if found.finding.needs_fix else _TEMPLATES.get(form, fix))


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
        each
        for each in config.waivers
        if not some or any(map(each.matches, there)) or waivers.scope(each.resource) != waivers.MANIFESTS
    )
    scopes = frozenset[str]().union(*(file.scopes for file in judged))
    found = tuple(
        ReportedFinding(
            CURRENT, FindingLevel.VIOLATION, finding, address, "", None, format_finding(finding, {}, CURRENT)
        )
        for address, finding in outdated_waivers(given, used, scopes, config.limits)
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
        replace(file, found=tuple(each for each in file.found if not each.finding.lacks_cpu_pool)) for file in judged
    ]


def missing_parser(judged: Iterable[FileReport]) -> str:
    """Return what to install so that findings have the lines of .tf files; empty where nothing is missing."""
    return terraform_sources.missing_parser(
        {each.path.parent for each in judged if each.found and each.form in _TERRAFORM}
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


def _declared(address: str, resource: Resource, known: Mapping[str, Cloud]) -> Declared:
    readings = readers_of(resource.type)
    pools = [pool for each in readings for pool in each.read_pools(resource.type, resource.inputs)]
    pools += each_kubernetes_pool(resource.type, resource.inputs, known)
    if pools:
        logical = resource.address.rpartition("::")[2] if resource.address.startswith("urn:pulumi:") else ""
        pools = [with_name(pool, resource.inputs, logical) for pool in pools]
    if resource.is_partial:
        pools = [replace(pool, weaknesses=(), node_customizations=(), identity=None) for pool in pools]
    if resource.takes_no_taints:
        pools = [replace(pool, no_taint_field=True) for pool in pools]
    templates = [each.read_template(resource.type, resource.inputs) for each in readings if isinstance(each, Readback)]
    templates += [read_template(resource.type, resource.inputs, known)] if is_read(resource.type) else []
    software = read_software(resource.type, resource.inputs)
    template_read = next((template for template in templates if template is not None), None)
    return Declared(
        urn=address,
        type=resource.type,
        name=resource.address,
        inputs={**resource.inputs, **({"id": resource.id} if resource.id else {})},
        pools=tuple(pools),
        template=template_read,
        software=software,
        unread=None
        if resource.in_other_file
        else classify(
            resource.type,
            resource.inputs,
            opaque=resource.opaque,
            component=resource.component,
            software=software is not None,
        ),
        parent=resource.parent,
        provider=resource.provider,
        depends=(*resource.depends, *(other for others in resource.refers.values() for other in others)),
        by_property=resource.refers,
    )


def _findings(
    resources: Mapping[str, Resource],
    declared: Mapping[str, Declared],
    stack: DeclaredStack,
    config: Config,
    waived: Collection[Waiver],
) -> Iterator[tuple[Rule, str, Finding]]:
    found_on: dict[str, set[FindingKey]] = {}
    contexts: dict[tuple[str, bool], Mapping[str, Context]] = {}
    for address, each in declared.items():
        if not each.pools and each.software is None:
            continue
        key = (resources[address].stack, resources[address].protect)
        contexts[key] = contexts.get(key) or {
            rule.name: Context(config=config.options.get(rule.name, {}), stack=key[0], protect=key[1])
            for rule in ALL_RULES
        }
        above = stack.component(each)
        component = found_on.get(above.urn, ()) if above else None
        found = [*judge_resource(each.pools, each.software, contexts[key], component)]
        found_on[address] = {finding_key(rule.name, finding) for rule, finding in found}
        yield from ((rule, address, finding) for rule, finding in found)
    for rule in STACK_RULES:
        context = Context(config=config.options.get(rule.name, {}), limits=config.limits, waived=waived)
        yield from ((rule, *each) for each in (rule.stack(stack, context) if rule.stack else ()))


def _line(resource: Resource, finding: Finding) -> int | None:
    """Return the line of the input, or of the nearest block around it."""
    path: Path = tuple(steps(finding.property))
    return next(
        (resource.lines[path[:length]] for length in range(len(path), 0, -1) if path[:length] in resource.lines),
        resource.line,
    )
