"""`gpupools preview`: from a stack file to a report, without cloud, account or CLI.

Imports no Pulumi until the stack file has been accepted: a refusal must be as fast as `gpupools check`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonObject
from gpupools.console.output import Style, answer, tell, tell_parts
from gpupools.console.progress import progress
from gpupools.console.terminal import columns
from gpupools.preview.format_preview import PolicyVerdict, Report, Violation, no_report
from gpupools.providers import clouds
from gpupools.spec.identity import not_compared
from gpupools.stackfile.check import CheckedFile, check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.reader import NAMESPACE, stack_name
from gpupools.stackfile.repository import is_read, project_file, read_project
from gpupools.stackfile.stack import StackPlan, planned

if TYPE_CHECKING:
    from gpupools.preview.monitor import DeclaredResource
    from gpupools.preview.pack_process import PolicyPackProcess
    from gpupools.preview.program_run import Preview

PROGRAM = Path(str(files("gpupools.stacks") / "__main__.py"))
"""The program `pulumi up` runs."""
POLICIES = Path(str(files("gpupools.policies")))
"""The policy pack."""


def run(file: Path, as_json: bool, policy_config: Path | None = None) -> int:
    """Preview one stack file and print the report.

    Args:
        file: The stack file.
        as_json: Whether to print JSON instead of text.
        policy_config: Configuration of the policy pack, as `pulumi up --policy-pack-config` takes it.

    Returns:
        0 when the stack may be deployed; 1 when a file, the program or a mandatory policy refuses.
    """
    at = file
    try:
        checked = check_stack_file(file, clouds())
        at = policy_config or file
        config = read_policy_config(at) if policy_config is not None else {}
    except Rejected as rejected:
        located = locate(at, rejected)
        if as_json:
            problems = [each.as_json() for each in located]
            answer("preview", "refused", problems, no_report(str(file), project_of(file), stack_name(file)))
            return 1
        for each in located:
            tell_located(each)
        tell(f"{file}: refused; nothing was declared", error=True)
        return 1
    with progress("running the program and its policies"):
        report = preview_file(checked, policy_config=config)
    if as_json:
        problems = [problem.as_json(file) for problem in report.problems]
        answer("preview", "refused" if report.exit_code else "accepted", problems, report.as_json())
    else:
        _tell(report.as_text(columns(sys.stdout)))
    return report.exit_code


_VERDICTS = re.compile(r"( +)(pass|warn|FAIL|\+)( .*)")
_STYLES = {"pass": Style.GOOD, "warn": Style.WARNING, "FAIL": Style.BAD, "+": Style.GOOD}


def _tell(text: str) -> None:
    """Print a report; a terminal shows its verdicts in colour."""
    for line in text.removesuffix("\n").split("\n"):
        verdict = _VERDICTS.fullmatch(line)
        if verdict is not None:
            tell_parts((verdict[1], None), (verdict[2], _STYLES[verdict[2]]), (verdict[3], None))
        else:
            tell_parts((line, Style.BAD if line.startswith("Refused") else None))


def read_policy_config(file: Path) -> JsonObject:
    """Read a configuration of the policy pack, as `gpupools policy --config` does.

    Raises:
        Rejected: It is none, names policies or options that do not exist, or weakens a mandatory policy.
    """
    configuration = import_module("gpupools.policies.configuration")
    found, problems = configuration.read_config(file)
    problems = problems or configuration.config_problems(found)
    if problems:
        raise Rejected(problems)
    return dict(found)


def project_of(file: Path) -> str:
    """Name the Pulumi project that reads a stack file, of which every URN is; ours where none does."""
    try:
        found = project_file(file)
        project = read_project(found) if found is not None else None
    except Rejected:
        return NAMESPACE
    # A template has a placeholder for its name.
    named = project is not None and re.fullmatch(r"[\w.-]+", project.name) is not None
    return project.name if project is not None and named and is_read(file, project) else NAMESPACE


def preview_file(
    checked: CheckedFile,
    program: Path = PROGRAM,
    policies: Path = POLICIES,
    policy_config: JsonObject | None = None,
) -> Report:
    """Run the stack program for an accepted stack file, and the policy pack on what it declares.

    Args:
        checked: The stack file.
        program: The stack program.
        policies: The folder of the policy pack.
        policy_config: Its configuration; left out: every policy as it is by default.
    """
    project = project_of(checked.file.path)
    config = {**checked.file.others, **{f"{NAMESPACE}:{key}": value for key, value in checked.file.config.items()}}
    # One import after the other: two threads that import Pulumi at once can meet in one of its import cycles.
    pack = import_module("gpupools.preview.pack_process")
    preview_program = import_module("gpupools.preview.program_run").preview_program
    verdicts: tuple[PolicyVerdict, ...] = ()
    with ThreadPoolExecutor() as other:
        # The pack is a process of its own; it starts while this one loads the clouds' SDKs and runs the program.
        process: PolicyPackProcess = pack.PolicyPackProcess(
            policies, project=project, stack=checked.file.stack, config=policy_config
        )
        starting = other.submit(process.__enter__)
        try:
            with planned(checked.plan, checked.file.config, clouds(), checked.file.others):
                own = program == PROGRAM
                preview: Preview = preview_program(program, checked.file.stack, project, config, at_once=own)
            notes = [*not_compared(checked.plan.stack.clusters), *filter(None, [checked.file.note])]
            preview = replace(
                preview,
                messages=[*preview.messages, *(f"warning: {note}" for note in notes)],
                resources=in_file_order(preview.resources, checked.plan),
            )
            problems = list(preview.problems)
            try:
                verdicts = tuple(judge(starting.result(), preview.resources))
            except pack.PolicyPackFailed as error:
                problems.append(Problem(("policies",), str(error)))
        finally:
            starting.exception()  # waits: a process that is still starting would outlive its end
            process.close()
    return Report(str(checked.file.path), checked.plan.pools, preview, verdicts, tuple(problems), checked.plan.runtimes)


def in_file_order(resources: Iterable[DeclaredResource], plan: StackPlan) -> list[DeclaredResource]:
    """Order what stands beside each other: providers, then by cluster its pools, its software, and pools that wait.

    Clusters and pools stand as in the file, and a cluster's providers by type. The order in which the SDK registers
    them, as what they wait for comes, tells a reader nothing.
    """
    clusters = list(plan.stack.clusters)
    pools = {f"{each.cluster}-{each.name}": place for place, each in enumerate(plan.pools)}
    ranks: dict[str, tuple[int, int, int, int, str]] = {}

    def rank(resource: DeclaredResource) -> tuple[int, int, int, int, str]:
        if resource.parent in ranks:
            return ranks[str(resource.parent)]
        named = [key for key in clusters if resource.name == key or resource.name.startswith(f"{key}-")]
        place = clusters.index(max(named, key=len)) if named else -1
        provides = not named or resource.type.startswith("pulumi:providers:")
        waits = "dependsOn" in resource.options
        return (int(not provides), place, int(waits), pools.get(resource.name, len(pools)), resource.type)

    found = list(resources)
    for each in found:  # parents come first
        ranks[each.urn] = rank(each)
    return sorted(found, key=lambda each: ranks[each.urn])


def judge(pack: PolicyPackProcess, resources: list[DeclaredResource]) -> list[PolicyVerdict]:
    """Let a running policy pack judge every resource, as the engine would.

    Raises:
        PolicyPackFailed: The pack died or failed.
    """
    found: dict[str, list[Violation]] = {}
    providers = {resource.urn: resource for resource in resources}
    said = []
    for resource in resources:
        options, provider = _analyzer_options(resource), _analyzer_provider(resource, providers)
        properties = resource.request.object
        said += pack.analyze(resource.urn, resource.type, resource.name, properties, options, provider)
    make = import_module("gpupools.preview.pack_process").StackResource
    said += pack.analyze_stack(
        make(
            urn=resource.urn,
            type=resource.type,
            name=resource.name,
            properties=resource.request.object,
            options=_analyzer_options(resource),
            parent=resource.request.parent,
            dependencies=tuple(resource.request.dependencies),
            provider=_analyzer_provider(resource, providers),
            property_dependencies={
                key: tuple(found.urns) for key, found in resource.request.propertyDependencies.items()
            },
        )
        for resource in resources
    )
    for diagnostic in said:
        found.setdefault(diagnostic.policy, []).append(Violation(diagnostic.urn, diagnostic.message))
    return [
        PolicyVerdict(policy.name, policy.level, policy.description, tuple(found.get(policy.name, ())))
        for policy in pack.info().policies
    ]


def _analyzer_options(resource: DeclaredResource) -> Any:
    request = resource.request
    return import_module("pulumi.runtime.proto.analyzer_pb2").AnalyzerResourceOptions(
        protect=request.protect,
        ignoreChanges=request.ignoreChanges,
        deleteBeforeReplace=request.deleteBeforeReplace,
        deleteBeforeReplaceDefined=request.deleteBeforeReplaceDefined,
        additionalSecretOutputs=request.additionalSecretOutputs,
        parent=request.parent,
    )


def _analyzer_provider(resource: DeclaredResource, declared: dict[str, DeclaredResource]) -> Any:
    provider = declared.get(resource.request.provider.rpartition("::")[0])
    if provider is None:
        return None
    return import_module("pulumi.runtime.proto.analyzer_pb2").AnalyzerProviderResource(
        type=provider.type, properties=provider.request.object, urn=provider.urn, name=provider.name
    )
