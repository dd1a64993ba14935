"""One comment on a pull request about stack files: what is touched first, the rest folded away, never too long."""

from collections.abc import Iterator, Sequence

from gpupools.common.errors import amount_of
from gpupools.diff.comparison import counted, in_words
from gpupools.plan.pool_plan import PoolPlan
from gpupools.preview.format_preview import order_lines, passing, price_rows
from gpupools.report.facts import STAYS, StackReport, finding_lines, nodes_in_words
from gpupools.report.markdown_budget import LIMIT, MarkdownBudget, code, put_changes

MARKER = "<!-- gpupools report -->"
"""The first line, by which the comment is found again to be updated in place."""

_LEAST = 600
"""Bytes that a file's own part needs."""


def comment(reports: Sequence[StackReport], gone: Sequence[str] = ()) -> str:
    """Write the comment; `gone` are stack files that are gone."""
    compared = [
        change for report in reports if report.comparison is not None for change in report.comparison.judged.changes
    ]
    title = _summary(reports, counted(compared) if compared else None)
    if gone:
        title += f"; {len(gone)} stack {'file is' if len(gone) == 1 else 'files are'} gone"
    room = MarkdownBudget(LIMIT - 400)
    room.put(MARKER, f"### {title}", "")
    room.many(0.1, ([f"- {code(file)} is gone: {STAYS}"] for file in gone))
    for index, report in enumerate(reports):
        left = len(reports) - index
        if room.left < _LEAST * 2:
            room.put("", f"and {left} more stack files")
            break
        part = MarkdownBudget(room.left // left)
        _stack(part, report)
        room.put(*part.lines)
    return "\n".join(room.lines) + "\n"


def _summary(reports: Sequence[StackReport], counts: dict[str, int] | None) -> str:
    refused = sum(bool(report.refused) for report in reports)
    pools = sum(len(report.pools) for report in reports)
    said = [in_words(counts) if counts else f"{amount_of(pools, 'pool')}"]
    if refused:
        said.insert(0, f"{refused} of {len(reports)} stack files refused")
    findings = sum(len(finding.violations) for report in reports for finding in report.findings)
    if findings:
        said.append(amount_of(findings, "policy finding"))
    return f"GPU pools: {'; '.join(said)}"


def _stack(room: MarkdownBudget, report: StackReport) -> None:
    since = f" since {code(report.since)}" if report.since is not None else ""
    room.put(f"#### {code(report.file)}{since}", "")
    if report.refused:
        room.put(f"**{report.summary()}**", "")
        room.many(0.9, ([f"- {code(problem)}"] for problem in report.refused))
        return
    room.put(*(f"- {asked}: **{code(said) if '/' in said else said}**" for asked, said in report.answers()), "")
    if report.not_compared:
        room.put(code(report.not_compared), "")
    if report.comparison is not None:
        room.many(0.2, ([f"- Warning: {code(warning)}"] for warning in report.comparison.warnings))
        put_changes(room, report.comparison, 0.5)
    problems = [[f"- Refused: {code(problem)}"] for problem in report.problems]
    room.many(0.3, [*problems, *_findings(report), *([f"- Warning: {code(warning)}"] for warning in report.advice())])
    if report.not_judged:
        room.put("", f"Policies are not judged here: {code(report.not_judged)}")
    elif report.verdicts:
        room.put("", f"{passing(report.verdicts)}.")
    if report.pools:
        room.folded(
            "Every pool",
            0.5,
            ([f"- {code(f'{pool.cluster}/{pool.name}')}: {code(_pool(pool))}"] for pool in report.pools),
        )
        orders = ([f"- {code(line)}"] for line in order_lines(report.pools, report.prices))
        if any(pool.group for pool in report.pools):
            room.folded("Steps, tried in this order", 0.3, orders)
        prices = (
            [f"- {code(row[0])}: {row[-2]} with all nodes, {row[-3]} idle ({row[1]}, {row[-1] or 'no price'})"]
            for row in price_rows(report.prices)
        )
        if report.prices:
            costs = (
                [f"- {code(name)}: {most}{f', {idle} idle' if idle else ''}"] for name, idle, most in report.costs()
            )
            room.folded("Cost of a month by cluster and team", 0.2, costs)
            room.folded("List prices per hour", 0.4, prices)
        quotas = ([f"- {code(quota)}; limit: {report.limit(quota)}"] for quota in report.quotas)
        room.folded("Quotas needed with all nodes", 0.4, quotas)
        room.folded("Who brings the GPU software", 0.6, _owners(report))
    room.put("")


def _findings(report: StackReport) -> Iterator[list[str]]:
    for verdict in report.findings:
        word = "refuses" if verdict.refuses else "advises"
        yield from ([f"- {code(verdict.policy)} {word}: {code(line)}"] for line in finding_lines(verdict))


def _pool(plan: PoolPlan) -> str:
    gpus = f"{plan.instance.gpus} × {plan.instance.gpu_model}"
    return f"{nodes_in_words(plan)} of {gpus} in {plan.instance.name}, sharing {plan.sharing.described()}"


def _owners(report: StackReport) -> Iterator[list[str]]:
    for runtime in report.plan.runtimes if report.plan is not None else ():
        for (software, owned), pools in runtime.owners_alike().items():
            who = "; ".join(f"{owner}: {pieces}" for owner, pieces in owned)
            yield [f"- {code(runtime.cluster)}, {code(', '.join(pools))}: {code(f'{software}; {who}')}"]
