"""`gpupools policy FILE...`: check Terraform plans, Pulumi documents and manifests against the policies.

`gpupools policy --check-config FILE...`: validate policy configurations, and that mandatory rules stay mandatory.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupools.cli.files import add_reports, add_within, links_out, write_reports, write_whole
from gpupools.cli.help_texts import examples, refuse_overwriting
from gpupools.common.errors import Problem, Rejected, amount_of
from gpupools.common.input_files import files_of
from gpupools.console.output import Style, annotate, answer, tell, tell_json, tell_lines, tell_parts, tell_xml

if TYPE_CHECKING:
    from gpupools.audit.document import Document
    from gpupools.audit.judging import FileReport, ReportedFinding
    from gpupools.policies.finding import Rule

_REPORTS = ("json", "sarif", "junit")
_FOR_PEOPLE = ("text", "verbose", "github")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "FILE is the output of terraform show -json, pulumi preview --json, pulumi stack export\n"
        "or gpupools preview --json, a Kubernetes manifest, or a template, a change set or a\n"
        "what-if result of a cloud, - for standard input, or a folder, whose JSON, YAML and .tf files are read.\n"
        "The format is detected from the content; files of a folder that have none are skipped and counted.\n\n"
    ) + examples("gpupools policy --admission audit", "gpupools policy --check-config policies/policy-config.prod.json")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE|DIR")
    parser.add_argument("--verbose", action="store_true", help="list every finding, file and waived finding")
    what = "also write the results to FILE as json, sarif or junit; repeatable"
    add_reports(parser, (form for form in _WRITERS if form != "verbose"), _REPORTS, what)
    parser.add_argument("--config", type=Path, metavar="FILE", help="policy configuration, as for the policy pack")
    parser.add_argument(
        "--check-config",
        action="store_true",
        help="validate FILE as a policy configuration; fail if it lowers or disables a mandatory rule",
    )
    parser.add_argument(
        "--changed",
        action="store_true",
        help="FILEs are only the changed manifests, so unused waivers for other objects are not reported",
    )
    parser.add_argument(
        "--admission",
        choices=("audit", "deny"),
        help="print admission policies for a cluster's API server instead, which warn (audit) or reject (deny)",
    )
    parser.add_argument("--context", metavar="NAME", help="judge the live cluster of this context of your kubeconfig")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of --context; default: kubectl's")
    parser.add_argument("--config-schema", action="store_true", help="print the JSON schema of a policy configuration")
    parser.add_argument("--write-baseline", type=Path, metavar="FILE", help="write all findings to FILE")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="fail only on findings that FILE does not list")
    parser.add_argument(
        "--fail-on",
        choices=("violation", "unverified", "never"),
        default="",
        help="findings that fail the run, besides named files that cannot be judged; default: violation, and in plans, "
        "states, previews and standard input also unverified ones",
    )
    add_within(parser)
    parser.set_defaults(run=lambda given: _exit_status(parser, given), nothing={"files": []})


def _exit_status(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    if given.admission or given.config_schema:
        if given.files or given.check_config or given.config or (given.admission and given.config_schema):
            parser.error("--admission and --config-schema cannot be combined with other arguments")
        if given.admission:
            tell_lines(_audit("admission").admission_text(given.admission))
        else:
            tell_json(import_module("gpupools.policies.policy_config").schema())
        return 0
    if given.baseline and given.write_baseline:
        parser.error("--baseline cannot be combined with --write-baseline")
    baselines = (given.baseline, given.write_baseline)
    named = [*given.files, given.config, *baselines, *(file for _, file in given.report)]
    if outside := links_out(named, given.within):
        return _refuse(given.format, outside)
    if not (given.files or given.context) or (given.context and (given.files or given.check_config)):
        parser.error("give FILE, or --context NAME without other files")
    outputs = [("--write-baseline", given.write_baseline), *(("--report", file) for _, file in given.report)]
    refuse_overwriting(outputs, [*given.files, given.config, given.baseline])
    if given.check_config:
        if given.config:
            parser.error("--config cannot be combined with --check-config; pass the configuration as FILE")
        return _check_configs(given.files, given.format, given.report)
    try:
        listed = [(path, *files_of(path)) for path in given.files]
    except Rejected as rejected:
        return _refuse(given.format, [(Path(), problem) for problem in rejected.problems])
    found = dict.fromkeys(file for _, files, _ in listed for file in files)
    searched = {file for path, files, is_folder in listed if is_folder for file in files if file != path}
    searched -= {path for path, _, is_folder in listed if not is_folder}
    if not given.context:
        return _judge_files(given, [*found], searched, {})
    place, live = Path(f"context {given.context}"), import_module("gpupools.ready.live_cluster")
    try:
        api = live.ClusterApi(live.Access(given.kubeconfig, given.context))
        with api.look():
            document = _audit("cluster_objects").read_cluster(api)
    except (live.Unreachable, PermissionError) as error:
        return _refuse(given.format, [(place, Problem((), str(error)))], unfinished=True)
    what = f"{place}: judges the cluster {api.context.cluster_name} at {api.host}"
    tell(f"{what}; no stack file names it, so nothing proves which one it is", error=True)
    return _judge_files(given, (), (), {place: document})


def _refuse(form: str, found: Iterable[tuple[Path, Problem]], *, unfinished: bool = False) -> int:
    report = _audit("judging").FileReport
    _WRITERS[form]([report(path, problems=(problem,), unfinished=unfinished) for path, problem in found])
    return 2 if unfinished else 1


def _check_configs(files: Sequence[Path], form: str, reports: Sequence[tuple[str, Path]]) -> int:
    """Print the problems of policy configurations; return 1 if one is invalid or weakens a mandatory rule."""
    parse = import_module("gpupools.policies.policy_config").parse_config
    found = [_audit("judging").FileReport(path, problems=tuple(parse(path)[1])) for path in dict.fromkeys(files)]
    write_reports(reports, _WRITERS, found)
    _WRITERS[form](found)
    for file in found if form in _FOR_PEOPLE else ():
        if not file.problems:
            tell(f"{file.path}: ok, all mandatory rules stay mandatory")
    return 1 if any(file.problems for file in found) else 0


def _judge_files(
    given: argparse.Namespace, files: Sequence[Path], searched: Collection[Path], live: Mapping[Path, Document]
) -> int:
    """Check all files, or `live` objects, against the policies and print one report.

    Files of no known form that were `searched` are skipped.

    Return 1 if a finding fails or a named file cannot be read, and 2 if the limit of time or memory is reached.

    Raises:
        OSError: A report cannot be written.
    """
    started, skipped = time.monotonic(), 0
    form = "verbose" if given.verbose and given.format == "text" else given.format
    # Imported only here: the other commands start fast without the rules.
    judging = _audit("judging")
    judged: list[FileReport]
    try:
        chosen = import_module("gpupools.policies.policy_config").read_config(given.config)
    except Rejected as rejected:  # the report says so in every format, of the configuration instead of the files
        judged = [judging.FileReport(given.config, problems=rejected.problems)]
    else:
        limits = _audit("limits")
        judged = [judging.judge_document(path, document, chosen) for path, document in live.items()]
        judged += limits.judge_within_limits(files, replace(chosen, files=tuple(files))) if files else ()
        # Without the parser no .tf file at all is read, which is no fault of a file.
        named = {each.path for each in judged if each.unfinished or (each.path.is_dir() and find_spec("hcl2") is None)}
        judged = [replace(each, is_searched=each.path in searched and each.path not in named) for each in judged]
        skipped = sum(report.is_of_no_form and report.is_searched for report in judged)
        judged = [report for report in judged if not (report.is_of_no_form and report.is_searched)]
        judged = judging.without_settled(judged)
        of_waivers = None if _unfinished(judged) else judging.judge_waivers(judged, chosen, some=given.changed)
        judged += [of_waivers] if of_waivers else []
        if given.baseline or given.write_baseline:
            judged = _without_known(judged, given.baseline, given.write_baseline)
    judged = [replace(file, fail_on=given.fail_on) for file in judged]
    write_reports(given.report, _WRITERS, judged)
    _WRITERS[form](judged)
    if not all(file.problems for file in judged) and (form in _FOR_PEOPLE or skipped):
        said = [(f"{judged[0].path}: " if len(judged) == 1 else "") + _summary(judged)]
    else:
        said = [] if judged else ["nothing was judged: no file is in a form that `gpupools policy --help` names"]
    if said:
        said += [f"{amount_of(skipped, 'file')} of no known form skipped"] if skipped else []
        said += [f"{time.monotonic() - started:.1f} s", *_next_step(judged, bool(given.baseline))]
        tell("; ".join(said), error=form not in _FOR_PEOPLE)
    if note := judging.missing_parser(judged):
        tell(note, error=True)
    if _unfinished(judged):
        return 2
    return 1 if any(file.refuses for file in judged) else 0


def _without_known(judged: list[FileReport], baseline: Path | None, write: Path | None) -> list[FileReport]:
    """Write or read a baseline and return the reports without its findings."""
    module = _audit("baseline")
    try:
        known = module.read_baseline(baseline) if baseline else module.entries(judged)
    except Rejected as rejected:
        return [*judged, _audit("judging").FileReport(baseline, problems=rejected.problems)]
    if write is not None and not _unfinished(judged):
        write_whole(write, module.baseline_text(known))
    reports: list[FileReport]
    reports, gone = module.without_known(judged, known)
    for entry in gone[: _GROUP_SIZES[0]]:
        tell(f"{baseline}: fixed: {entry}", error=True)
    if len(gone) > _GROUP_SIZES[0]:
        tell(f"{baseline}: fixed: {len(gone) - _GROUP_SIZES[0]} more", error=True)
    return reports


def _unfinished(judged: Sequence[FileReport]) -> bool:
    return any(file.unfinished for file in judged)


def _verbose_text(judged: Sequence[FileReport]) -> None:
    _tell_findings(judged, every=True)
    for file in judged:
        if not file.problems:
            tell(f"{file.path}: {_summary([file])}")


_MOST_LINES = 50
"""Lines of a run without --verbose, besides the summary."""
_STYLES = {"violation": Style.BAD, "unverified": Style.WARNING, "advice": Style.FAINT, "waived": Style.FAINT}
_GROUP_SIZES = (10, 5, 3, 2, 1)
"""Findings of a rule that are listed, the most that fit into `_MOST_LINES`."""
_LISTED = ("violation", "unverified")
"""Of advice and waived findings only the first of each rule is listed."""


def _tell_findings(judged: Sequence[FileReport], *, every: bool = False) -> None:
    """Print the problems of named files, and findings by level and rule: the first ones, or with `every` all."""
    searched = [(file, fault) for file in judged for fault in file.problems if file.is_searched and not every]
    for file in judged:
        for problem in file.problems if every or not file.is_searched else ():
            tell(f"{file.path}: {problem}", error=True)
    if searched:
        first, problem = searched[0]
        tell(f"{amount_of(len(searched), 'file')} not read, the first: {first.path}: {problem}", error=True)
    groups: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for kind, place, level, message, by in sorted(
        _lines(judged), key=lambda line: (list(_STYLES).index(line[0]), line[-1].order)
    ):
        groups.setdefault((kind, by.name), []).append((place, level, message))
    for size in _GROUP_SIZES:
        sizes = {key: min(len(lines), size if key[0] in _LISTED else 1) for key, lines in groups.items()}
        if sum(sizes.values()) <= _MOST_LINES:
            break
    for (kind, rule), lines in groups.items():
        size = len(lines) if every else sizes[kind, rule]
        for number, (place, level, message) in enumerate(lines[:size], start=1):
            more = f" ({len(lines) - size} more with --verbose)" if size == number < len(lines) else ""
            tell_parts((f"{place} ", None), (level, _STYLES[kind]), (f": {message} [{rule}]{more}", None))


def _lines(judged: Sequence[FileReport]) -> Iterator[tuple[str, str, str, str, Rule]]:
    """Yield kind, place, level, message and rule of each finding."""
    for file in judged:
        for found in _findings(file):
            kind, level = ("waived", str(found.waiver)) if found.waiver else (found.level.value, found.level.value)
            yield kind, _place(file, found), level, found.message, found.rule


def _findings(file: FileReport) -> Iterator[ReportedFinding]:
    """Yield the findings of a file, one for all modules of a folder that are not read, and the waived ones."""
    modules = [finding for finding in file.found if finding.type == "modules-not-read" and finding.settled_by]
    for found in file.found:
        if found is (modules[0] if modules else None):
            names = ", ".join(module.address for module in modules[:5]) + (", …" if len(modules) > 5 else "")
            message = f"{amount_of(len(modules), 'module')} not read: {names}; {found.settled_by}"
            yield replace(found, address="", message=message)
        elif not any(found is module for module in modules):
            yield found
    yield from file.waived


def _place(file: FileReport, found: ReportedFinding) -> str:
    line = f":{found.line}" if found.line is not None else ""
    return f"{found.file or file.path}{line}: {found.address}:" if found.address else f"{file.path}:"


def _summary(judged: Sequence[FileReport]) -> str:
    """Return the numbers of files as text."""
    levels = Counter[str]()
    answers = Counter[str]()
    for file in judged:
        answers.update(file.answers)
        for found in file.found:
            levels[found.level.value] += found.count
    waived, known = sum(len(file.waived) for file in judged), sum(file.in_baseline for file in judged)
    unread = sum(bool(file.problems) for file in judged)
    return (
        f"{judged[0].form if len(judged) == 1 else amount_of(len(judged), 'file')}, "
        f"{amount_of(sum(file.resources for file in judged), 'resource')} ({answers['judged']} judged, "
        f"{amount_of(answers['no_node_pool'], 'no node pool', 'no node pools')}, {answers['not_understood']} not "
        f"understood), {amount_of(sum(file.gpu_pools for file in judged), 'GPU pool')}: "
        f"{amount_of(levels['violation'], 'violation')}, {levels['unverified']} unverified, {levels['advice']} advice"
        + (f", {waived} waived" if waived else "")
        + (f", {known} in the baseline" if known else "")
        + (f", {amount_of(unread, 'file')} not read" if unread else "")
    )


def _next_step(judged: Sequence[FileReport], has_baseline: bool) -> list[str]:
    """Return what to do now, if there is something."""
    findings = [finding for file in judged for finding in file.found]
    if any(finding.level.value == "violation" for finding in findings):
        return ["next: fix the violations" + ("" if has_baseline else ", or accept them with --write-baseline FILE")]
    steps = Counter(finding.settled_by for finding in findings if finding.settled_by)
    return [f"next: {step}" for step, _ in steps.most_common(1)]


def _json(judged: Sequence[FileReport]) -> None:
    refused = "refused" if any(file.refuses for file in judged) else "accepted"
    files = [file.as_json() for file in judged]
    problems = [problem for file in files for problem in file["problems"]]
    answer("policy", "failed" if _unfinished(judged) else refused, problems, {"files": files})


def _audit(module: str) -> Any:
    """Load a module of `gpupools.audit`, which the other commands do not need."""
    return import_module(f"gpupools.audit.{module}")


def _sarif(judged: Sequence[FileReport]) -> None:
    tell_json(_audit("sarif").sarif(judged))


def _junit(judged: Sequence[FileReport]) -> None:
    tell_xml(_audit("junit").junit(judged))


def _github(judged: Sequence[FileReport]) -> None:
    for file in judged:
        for problem in file.problems:
            annotate("warning" if file.is_searched else "error", file.path, None, "gpupools policy", problem)
        for found in _findings(file):
            kind = "error" if file.fails(found) else "notice" if found.level.value == "advice" else "warning"
            what = f"{found.waiver}: {found.message}" if found.waiver else found.message
            what = f"{found.address}: {what}" if found.address else what
            kind = "notice" if found.waiver else kind
            annotate(kind, found.file or file.path, found.line, found.rule.name, what)


_WRITERS: dict[str, Callable[[Sequence[FileReport]], None]] = {
    "text": _tell_findings,
    "verbose": _verbose_text,
    "json": _json,
    "sarif": _sarif,
    "junit": _junit,
    "github": _github,
}
