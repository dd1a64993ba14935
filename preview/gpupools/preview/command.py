"""`gpupools preview`: report what a stack file would create, without cloud, account or Pulumi CLI.

Imports no Pulumi until the stack file is valid, so that a rejection is as fast as with `gpupools check`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from gpupools.common.errors import Rejected
from gpupools.console.output import Style, answer, tell, tell_parts
from gpupools.console.progress import progress
from gpupools.console.terminal import PIPE_COLUMNS, columns
from gpupools.preview.format_preview import PolicyVerdict, Report, no_report
from gpupools.providers import clouds
from gpupools.software.team_shares import team_rows
from gpupools.spec.identity import not_compared
from gpupools.stackfile.check import CheckedFile, check_stack_file, locate
from gpupools.stackfile.format_problem import tell_located
from gpupools.stackfile.reader import NAMESPACE, stack_name
from gpupools.stackfile.repository import is_read, project_file, read_project
from gpupools.stackfile.stack import planned, prices_of, quotas_of, unlisted_offers

if TYPE_CHECKING:
    from gpupools.policies.policy_config import Config
    from gpupools.preview.planned_resources import Planned
    from gpupools.preview.program_run import Preview

PROGRAM = Path(str(files("gpupools.stacks") / "__main__.py"))
"""The program `pulumi up` runs."""
POLICY_CONFIG = "gpupools.policies.policy_config"


def run(file: Path, as_json: bool, policy_config: Path | None = None) -> int:
    """Preview one stack file and print the report; return 1 if a file, the program or a mandatory policy blocks it."""
    at = file
    try:
        checked = check_stack_file(file, clouds())
        at = policy_config or file
        config = import_module(POLICY_CONFIG).read_config(policy_config)
    except Rejected as rejected:
        located = locate(at, rejected)
        if as_json:
            problems = [problem.as_json() for problem in located]
            answer("preview", "refused", problems, no_report(str(file), project_of(file), stack_name(file)))
            return 1
        for located_problem in located:
            tell_located(located_problem)
        tell(f"{file}: rejected; the program did not run", error=True)
        return 1
    with progress("running the stack program and the policies"):
        report = preview_file(checked, policy_config=config)
    if as_json:
        problems = [problem.as_json(file) for problem in report.preview.problems]
        answer("preview", "refused" if report.exit_code else "accepted", problems, report.as_json())
    else:
        width = columns(sys.stdout)
        _print_report(report.as_text(width or PIPE_COLUMNS, prose=width is None))
    return report.exit_code


_VERDICTS = re.compile(r"( +)(pass|warn|FAIL|\+)( .*)")
_STYLES = {"pass": Style.GOOD, "warn": Style.WARNING, "FAIL": Style.BAD, "+": Style.GOOD}


def _print_report(text: str) -> None:
    """Print a report, with coloured verdicts on a terminal."""
    for line in text.removesuffix("\n").split("\n"):
        verdict = _VERDICTS.fullmatch(line)
        if verdict is not None:
            tell_parts((verdict[1], None), (verdict[2], _STYLES[verdict[2]]), (verdict[3], None))
        else:
            tell_parts((line, Style.BAD if line.startswith("Rejected:") else None))


def project_of(file: Path) -> str:
    """Return the Pulumi project of a stack file, which is part of every URN; without one, `gpupools`."""
    try:
        found = project_file(file)
        project = read_project(found) if found is not None else None
    except Rejected:
        return NAMESPACE
    # A template has a placeholder for its name.
    named = project is not None and re.fullmatch(r"[\w.-]+", project.name) is not None
    return project.name if project is not None and named and is_read(file, project) else NAMESPACE


def preview_file(checked: CheckedFile, program: Path = PROGRAM, policy_config: Config | None = None) -> Report:
    """Run the stack program for a valid stack file, and judge what it declares by the policies."""
    project, plan = project_of(checked.file.path), checked.plan
    config = {**checked.file.others, **{f"{NAMESPACE}:{key}": value for key, value in checked.file.config.items()}}
    preview_program = import_module("gpupools.preview.program_run").preview_program
    with planned(plan, checked.file.config, clouds(), checked.file.others):
        preview: Preview = preview_program(program, checked.file.stack, project, config)
    notes = [*not_compared(plan.stack.clusters), *filter(None, [checked.file.note])]
    declared, verdicts = judge_file(checked, policy_config)
    # The SDK registers resources in the order in which their dependencies resolve, which means nothing to a reader.
    places = {resource.urn: place for place, (resource, _) in enumerate(declared.resources)}
    preview = replace(
        preview,
        messages=[*preview.messages, *(f"warning: {note}" for note in notes)],
        resources=sorted(preview.resources, key=lambda previewed: places.get(previewed.parent or previewed.urn, -1)),
    )
    return Report(
        str(checked.file.path),
        plan.pools,
        preview,
        verdicts,
        plan.runtimes,
        quotas=quotas_of(plan, clouds()),
        prices=prices_of(plan, clouds()),
        teams=team_rows(plan.pools, plan.stack.teams),
        unlisted=unlisted_offers(plan),
    )


def judge_file(checked: CheckedFile, policy_config: Config | None) -> tuple[Planned, Sequence[PolicyVerdict]]:
    """Return what a valid stack file declares, and the verdicts of the policies on it."""
    stack, project = checked.file.stack, project_of(checked.file.path)
    declared = import_module("gpupools.preview.planned_resources").planned_resources(checked.plan, project, stack)
    config = policy_config or import_module(POLICY_CONFIG).read_config(None)
    return declared, import_module("gpupools.preview.verdicts").judge(declared.resources, config, stack)
