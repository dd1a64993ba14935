"""One page about stack files: no script, nothing from the network, nothing that a name in a file could become."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpupools.common.taints import Taint
from gpupools.diff.comparison import FATES, Entry, fate
from gpupools.diff.pool_change import PoolChange
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import RuntimePlan
from gpupools.preview.format_preview import PRICE_COLUMNS, PolicyVerdict, order_lines, passing, price_rows, price_total
from gpupools.preview.format_preview import node_resource_lines as offers_of
from gpupools.report.drawing import Drawings
from gpupools.report.facts import STAYS, StackReport, finding_lines, nodes_in_words, tolerating
from gpupools.report.html import Html, element, html
from gpupools.software.team_shares import TeamRow

_STYLE = Path(__file__).with_name("page.css")

MOST_FINDINGS = 200
"""Findings shown per policy; the rest are counted."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser may do for the page: read its style, and nothing else (https://www.w3.org/TR/CSP3/)."""


_LEGEND = (
    "Each box in a GPU is one unit that Kubernetes allocates. Dashed lines in a box separate the containers that share "
    "it. Empty parts stay unused. Nodes with solid borders always run; nodes with dashed borders start on demand."
)


def page(reports: Sequence[StackReport], gone: Sequence[str] = ()) -> str:
    """Write the page; `gone` are stack files that are gone."""
    title = "GPU pools: " + ", ".join(dict.fromkeys(report.stack for report in reports))
    drawings = Drawings()
    sections = [_stack(number, report, drawings) for number, report in enumerate(reports)]
    lost = [_lines([f"{file} is gone: {STAYS}" for file in gone], "bad")] if gone else []
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(_STYLE.read_text(encoding="utf-8"))),
    )
    links = [
        element("li", element("a", text, href=f"#{anchor}"))
        for number, report in enumerate(reports)
        for anchor, text in _anchors(number, report)
    ]
    body = element(
        "body",
        element("a", "Skip to the pools", href="#main", class_="skip"),
        element("header", element("h1", title)),
        element("nav", element("ul", *links), aria_label="On this page"),
        drawings.definitions(),
        element("main", element("p", _LEGEND, class_="dim"), *lost, *sections, id="main"),
        element("footer", element("p", "Made by gpupools report; no cloud was asked.", class_="dim")),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _anchors(number: int, report: StackReport) -> Iterator[tuple[str, str]]:
    yield f"s{number}", report.file
    for place, cluster in enumerate(_by_cluster(report)):
        yield f"s{number}c{place}", f"cluster {cluster}"


def _by_cluster(report: StackReport) -> Mapping[str, list[PoolPlan]]:
    stack = report.plan.stack if report.plan is not None else None
    found: dict[str, list[PoolPlan]] = {cluster: [] for cluster in (stack.clusters if stack is not None else ())}
    for plan in report.pools:
        found[plan.cluster].append(plan)
    return found


def _stack(number: int, report: StackReport, drawings: Drawings) -> Html:
    anchor = f"s{number}"
    compared = f", compared with {report.since}" if report.comparison is not None else ""
    parts = [
        element("h2", f"Stack {report.stack}", id=f"{anchor}h"),
        element("p", element("code", report.file), compared),
    ]
    if report.refused:
        parts.append(element("p", element("strong", report.summary())))
        return element("section", *parts, _lines(report.refused, "bad"), id=anchor, aria_labelledby=f"{anchor}h")
    answers = [element("div", element("dt", asked), element("dd", said)) for asked, said in report.answers()]
    parts.append(element("dl", *answers, class_="answers"))
    if report.warnings:
        parts += [element("h3", "Warnings"), _lines(report.advice(), "warn")]
    parts += [*_changes(report), *_policies(report)]
    changes = (
        {change.key: change for change in report.comparison.judged.changes} if report.comparison is not None else {}
    )
    runtimes = {runtime.cluster: runtime for runtime in report.plan.runtimes} if report.plan is not None else {}
    for place, (cluster, plans) in enumerate(_by_cluster(report).items()):
        parts.append(_cluster(f"{anchor}c{place}", cluster, plans, runtimes.get(cluster), changes, drawings))
    if orders := list(order_lines(report.pools, report.prices)):
        parts += [element("h3", "Steps, tried in this order"), _lines(orders)]
    if report.teams:
        parts.append(_table("Teams, with the GPUs or slices of all nodes", TeamRow._fields, report.teams))
    if report.prices:
        headers = ("cluster or team", "nodes that always run", "all nodes, or guaranteed")
        parts.append(_table("List prices of a month", headers, report.costs()))
        parts += [_prices(report), element("p", price_total(report.prices))]
    if report.quotas:
        parts.append(_quotas(report))
    return element("section", *parts, id=anchor, aria_labelledby=f"{anchor}h")


def _prices(report: StackReport) -> Html:
    sources = [price.price.source if price.price is not None else "" for price in report.prices]
    rows = [(*row, source) for row, source in zip(price_rows(report.prices), sources, strict=True)]
    return _table("List prices, without discounts, disks and network", (*PRICE_COLUMNS, "source"), rows)


def _quotas(report: StackReport) -> Html:
    rows = [
        (
            ", ".join(dict.fromkeys(pool.key for pool in quota.pools)),
            str(quota),
            report.limit(quota),
            element("a", "raise", href=quota.link) if quota.link else "",
            f"{quota.source}, {quota.dated}" if quota.source else "",
        )
        for quota in report.quotas
    ]
    return _table("Quotas needed with all nodes", ("pools", "quota", "limit", "link", "source, date"), rows)


def _lines(lines: Iterable[object], class_: str | None = None) -> Html:
    return element("ul", *(element("li", html(*_broken(str(line)))) for line in lines), class_=class_)


def _broken(text: str) -> Iterator[object]:
    for index, line in enumerate(text.splitlines()):
        if index:
            yield element("br")
        yield line


# --- What the edit does ---


def _changes(report: StackReport) -> Iterator[Html]:
    if report.since is None:
        return
    yield element("h3", f"What changes since {report.since}")
    if report.not_compared:
        yield element("p", html(*_broken(report.not_compared)), class_="warn")
    if report.comparison is None:
        return
    if report.comparison.warnings:
        yield _lines((f"Warning: {warning}" for warning in report.comparison.warnings), "warn")
    changes = [element("li", *_change(entry), class_=entry.severity) for entry in report.comparison.entries()]
    yield element("ul", *changes, class_="changes") if changes else element("p", "Nothing changes.")
    same = [change.key for change in report.comparison.judged.changes if change.change == "unchanged"]
    if same:
        yield _folded(f"{len(same)} without a change", element("p", ", ".join(same)))


def _change(entry: Entry) -> Iterator[Html]:
    yield element("strong", entry.headline)
    yield element("ul", *(element("li", line) for line in entry.lines))
    if entry.refusal is not None:
        yield element("p", element("strong", f"pulumi up refuses that: {entry.refusal}", class_="bad"))
    if entry.allowed is not None:
        yield element("p", element("strong", str(entry.allowed), class_="warn"))
    if entry.folded:
        yield _folded("Values that follow", _lines(entry.folded))


def _folded(summary: str, *parts: Html) -> Html:
    return element("details", element("summary", summary), *parts)


# --- What policies say ---


def _policies(report: StackReport) -> Iterator[Html]:
    yield element("h3", "Policies")
    if report.problems:
        yield element("p", "Refused:", class_="bad")
        yield _lines(report.problems, "bad")
    if report.not_judged:
        yield element("p", f"Not judged: {report.not_judged}", class_="warn")
        return
    for verdict in report.findings:
        word, class_ = ("refuses", "bad") if verdict.refuses else ("advises", "warn")
        yield element("h4", element("code", verdict.policy), f" ({verdict.level}) {word}", class_=class_)
        yield element("p", verdict.description)
        yield _lines(_verdict_lines(verdict))
    names = element(
        "ul", *(element("li", element("code", verdict.policy), f": {verdict.description}") for verdict in report.passed)
    )
    yield _folded(passing(report.verdicts), names)


def _verdict_lines(verdict: PolicyVerdict) -> Iterator[str]:
    lines = list(finding_lines(verdict))
    yield from lines[:MOST_FINDINGS]
    if len(lines) > MOST_FINDINGS:
        yield f"and {len(lines) - MOST_FINDINGS} more"


# --- Clusters and pools ---


def _cluster(
    anchor: str,
    cluster: str,
    plans: Sequence[PoolPlan],
    runtime: RuntimePlan | None,
    changes: Mapping[str, PoolChange],
    drawings: Drawings,
) -> Html:
    cloud = f" on {plans[0].cloud}" if plans else ""
    parts = [element("h3", f"Cluster {cluster}{cloud}", id=f"{anchor}h")]
    parts.append(element("div", *(_pool(plan, changes, drawings) for plan in plans), class_="pools"))
    gone = [change for change in changes.values() if change.cluster == cluster and change.change == "deleted"]
    if gone:
        parts.append(element("p", f"Goes: {', '.join(change.pool for change in gone)}", class_="bad"))
    if plans:
        parts.append(_taints(cluster, plans, runtime))
    if runtime is not None and runtime.owners:
        parts += [_owners(cluster, runtime)]
        if runtime.notes:
            parts.append(_folded("Notes on the GPU software", _lines(runtime.notes)))
    return element("section", *parts, id=anchor, aria_labelledby=f"{anchor}h")


def _pool(plan: PoolPlan, changes: Mapping[str, PoolChange], drawings: Drawings) -> Html:
    change = changes.get(f"{plan.cluster}/{plan.name}")
    kind = fate(change) if change is not None else None
    instance = plan.instance
    shared = plan.sharing.described()
    offers = ", ".join(offers_of(plan))
    gpus = f"{instance.gpus} × {instance.gpu_model}"
    says = f"Pool {plan.name}: {nodes_in_words(plan)} of {gpus}, sharing {shared}, each offers {offers}"
    trust = f", for {plan.labels[TRUST_LABEL]}" if TRUST_LABEL in plan.labels else ""
    heading = element("h4", plan.name, f": {FATES[kind]}" if kind not in (None, "unchanged") else "")
    return element(
        "article",
        heading,
        drawings.pool(plan, says),
        element("p", f"{gpus} in {instance.name}, sharing {shared}{trust}"),
        element("p", f"Each node offers {offers}", class_="dim"),
        element("p", f"Taints: {', '.join(map(str, plan.taints))}", class_="dim"),
        class_=kind if kind != "unchanged" else None,
    )


def _taints(cluster: str, plans: Sequence[PoolPlan], runtime: RuntimePlan | None) -> Html:
    pools: dict[Taint, list[str]] = {}
    for plan in plans:
        for taint in plan.taints:
            pools.setdefault(taint, []).append(plan.name)
    everybody = "the pods written for these pools"
    rows = [
        (element("code", str(taint)), ", ".join(on), ", ".join([everybody, *tolerating(runtime, taint)]))
        for taint, on in pools.items()
    ]
    return _table(f"Taints on {cluster}, and who tolerates them", ("taint", "pools", "tolerated by"), rows)


def _owners(cluster: str, runtime: RuntimePlan) -> Html:
    rows = [
        (", ".join(pools), software, html(*_broken("\n".join(f"{owner}: {pieces}" for owner, pieces in owned))))
        for (software, owned), pools in runtime.owners_alike().items()
    ]
    return _table(f"Who brings the GPU software on {cluster}", ("pools", "software", "owner: pieces"), rows)


def _table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    head = element("thead", element("tr", *(element("th", header, scope="col") for header in headers)))
    body = element("tbody", *(element("tr", *(element("td", cell) for cell in row)) for row in rows))
    table = element("table", element("caption", caption), head, body)
    # A wide table is scrolled by itself, and with the keyboard too.
    return element("div", table, class_="scroll", role="region", tabindex=0, aria_label=caption)
