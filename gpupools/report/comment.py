"""One comment on a pull request about stack files: what is touched first, the rest folded away, never too long."""

from collections.abc import Iterator, Sequence

from gpupools.console.output import mermaid_text
from gpupools.diff.comparison import FATES, counted, fate
from gpupools.plan.pool_plan import PoolPlan
from gpupools.preview.format_preview import price_rows, price_total
from gpupools.report.facts import STAYS, StackReport, nodes_in_words
from gpupools.report.markdown_budget import LIMIT, MarkdownBudget, code, touched
from gpupools.report.page import finding_text

MARKER = "<!-- gpupools report -->"
"""The first line, by which the comment is found again to be updated in place."""

_MOST_DRAWN = 40
"""Pools in the picture: Mermaid takes 50,000 characters (its schema-docs/config.html, maxTextSize)."""
_LEAST = 600
"""Bytes that a file's own part needs."""


def comment(reports: Sequence[StackReport], gone: Sequence[str] = ()) -> str:
    """Write the comment; `gone` are stack files that are gone."""
    compared = [change for each in reports if each.comparison is not None for change in each.comparison.pools]
    title = _summary(reports, counted(compared) if compared else None)
    if gone:
        title += f"; {len(gone)} stack {'file is' if len(gone) == 1 else 'files are'} gone"
    room = MarkdownBudget(LIMIT - 400)
    room.put(MARKER, f"### {title}", "")
    room.many(0.1, ([f"- {code(each)} is gone: {STAYS}"] for each in gone))
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
    refused = sum(bool(each.refused) for each in reports)
    pools = sum(len(each.pools) for each in reports)
    words = [f"{number} {FATES[each]}" for each, number in (counts or {}).items() if number]
    said = [", ".join(words) if words else f"{pools} {'pool' if pools == 1 else 'pools'}"]
    if refused:
        said.insert(0, f"{refused} of {len(reports)} stack files refused")
    findings = sum(len(each.violations) for report in reports for each in report.findings)
    if findings:
        said.append(f"{findings} policy {'finding' if findings == 1 else 'findings'}")
    return f"GPU pools: {'; '.join(said)}"


def _stack(room: MarkdownBudget, report: StackReport) -> None:
    since = f" since {code(report.since)}" if report.since is not None else ""
    room.put(f"#### {code(report.file)}{since}", "", f"**{report.summary()}**", "")
    if report.refused:
        room.many(0.9, ([f"- {code(each)}"] for each in report.refused))
        return
    if report.not_compared:
        room.put(code(report.not_compared), "")
    room.many(0.5, _touched(report))
    problems = [[f"- Refused: {code(each)}"] for each in report.problems]
    room.many(0.3, [*problems, *_findings(report), *([f"- Warning: {code(each.problem)}"] for each in report.warnings)])
    if report.not_judged:
        room.put("", f"Policies are not judged here: {code(report.not_judged)}")
    elif report.verdicts:
        room.put("", f"{report.passing()}.")
    if report.pools:
        _picture(room, report)
        room.folded(
            "Every pool",
            0.5,
            ([f"- {code(f'{each.cluster}/{each.name}')}: {code(_pool(each))}"] for each in report.pools),
        )
        prices = (
            [f"- {code(row[0])}: {row[-2]} with all nodes, {row[-3]} idle ({row[1]}, {row[-1] or 'no price'})"]
            for row in price_rows(report.prices)
        )
        if report.prices:
            room.put("", f"List prices: {price_total(report.prices)}.")
            room.folded("List prices per hour", 0.4, prices)
        quotas = ([f"- {code(each)}"] for each in report.quotas)
        room.folded("Quotas needed with all nodes", 0.4, quotas)
        room.folded("Who brings the GPU software", 0.6, _owners(report))
    room.put("")


def _touched(report: StackReport) -> Iterator[list[str]]:
    if report.comparison is None:
        return
    for warning in report.comparison.warnings:
        yield [f"- Warning: {code(warning)}"]
    if report.comparison.cost:
        yield [f"- {code(report.comparison.cost)}"]
    yield from touched(report.comparison)


def _findings(report: StackReport) -> Iterator[list[str]]:
    for verdict in report.findings:
        word = "refuses" if verdict.refuses else "advises"
        for each in verdict.violations:
            yield [f"- {code(verdict.policy)} {word}: {code(finding_text(verdict, each.urn, each.message))}"]


def _pool(plan: PoolPlan) -> str:
    gpus = f"{plan.instance.gpus} × {plan.instance.gpu_model}"
    return f"{nodes_in_words(plan)} of {gpus} in {plan.instance.name}, sharing {plan.sharing.described()}"


def _owners(report: StackReport) -> Iterator[list[str]]:
    for runtime in report.plan.runtimes if report.plan is not None else ():
        for (software, owned), pools in runtime.owners_alike().items():
            who = "; ".join(f"{owner}: {pieces}" for owner, pieces in owned)
            yield [f"- {code(runtime.cluster)}, {code(', '.join(pools))}: {code(f'{software}; {who}')}"]


def _picture(room: MarkdownBudget, report: StackReport) -> None:
    """Draw the pools that are touched, else all, in their clusters."""
    changes = {each.key: each for each in report.comparison.pools} if report.comparison is not None else {}
    marks = {
        plan: fate(changes[key]) for plan in range(len(report.pools)) if (key := _key(report.pools[plan])) in changes
    }
    order = sorted(range(len(report.pools)), key=lambda index: marks.get(index, "unchanged") == "unchanged")
    drawn = sorted(order[:_MOST_DRAWN])
    lines = ["```mermaid", "flowchart LR"]
    for place, cluster in enumerate(dict.fromkeys(report.pools[index].cluster for index in drawn)):
        lines.append(f'  subgraph c{place}["{mermaid_text(cluster)}"]')
        for index in drawn:
            plan = report.pools[index]
            if plan.cluster == cluster:
                lines.append(f'    p{index}["{mermaid_text(plan.name)}: {_label(plan, marks.get(index))}"]')
        lines.append("  end")
    lines += [f"  class p{index} {marks[index]}" for index in drawn if marks.get(index, "unchanged") != "unchanged"]
    lines += [*_CLASSES, "```"]
    if len(report.pools) > len(drawn):
        lines.append(f"and {len(report.pools) - len(drawn)} more")
    room_needed = sum(len(each.encode()) + 1 for each in lines) + 200
    if room_needed < room.left:
        room.put("", "<details open><summary>Picture</summary>", "", *lines, "", "</details>")


_CLASSES = (
    "  classDef moved,refused stroke:#cf222e,stroke-width:3px",
    "  classDef drained,unknown stroke:#9a6700,stroke-width:3px",
    "  classDef created stroke:#1a7f37,stroke-width:3px",
)


def _key(plan: PoolPlan) -> str:
    return f"{plan.cluster}/{plan.name}"


def _label(plan: PoolPlan, mark: str | None) -> str:
    said = [nodes_in_words(plan), f"{plan.instance.gpus} × {plan.instance.gpu_model}", plan.sharing.described()]
    if mark not in (None, "unchanged"):
        said.append(FATES[mark])
    return ", ".join(mermaid_text(each) for each in said)
