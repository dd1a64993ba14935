"""The answers of `gpupools fit` for the workloads of manifests: as text, JSON, SARIF and a pull request comment."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from gpupools.common.errors import amount_of, enumeration
from gpupools.common.json_types import JsonDict
from gpupools.fit.counting import Costs, needs
from gpupools.fit.offers import offers
from gpupools.fit.pod_judging import Context, judge
from gpupools.fit.team_queues import sharing_of, team_reasons
from gpupools.fit.workloads import LEVELS, REASONS, Level, Manifests, PodTemplate, Verdict, Workload
from gpupools.plan.cloud import Cloud
from gpupools.report.markdown_budget import LIMIT, MarkdownBudget, code
from gpupools.stackfile.stack import StackPlan


@dataclass
class Answer:
    """What is said about a pod template."""

    workload: Workload
    template: PodTemplate | None
    """None for a workload whose pods cannot be judged."""
    pools: list[Verdict]
    """Empty if it asks for no GPU."""

    @cached_property
    def level(self) -> Level | None:
        """The best answer of all pools; None if it asks for no GPU."""
        levels = [Level.UNKNOWN] if self.workload.unknown else [each.level for each in self.pools]
        return max(levels, key=LEVELS.index, default=None)

    @property
    def name(self) -> str:
        """Kind, namespace, name and role."""
        role = f" ({self.template.role})" if self.template is not None and self.template.role else ""
        return f"{self.workload.kind} {self.workload.namespace}/{self.workload.name}{role}"

    @property
    def line(self) -> int | None:
        """Line in the file."""
        return self.template.line if self.template is not None and self.template.line else self.workload.line

    def of(self, level: Level | None) -> list[Verdict]:
        """Return the answers of a level, those with the fewest reasons first."""
        return sorted((each for each in self.pools if each.level is level), key=lambda each: len(each.reasons))

    def as_json(self) -> JsonDict:
        """Return the answer as JSON types."""
        template, work = self.template, self.workload._asdict()
        return {
            "file": work["file"],
            "line": self.line,
            **{key: work[key] for key in ("kind", "namespace", "name")},
            **({"role": template.role, "pods": template.pods} if template is not None else {}),
            "answer": self.level.value if self.level is not None else "no GPU requested",
            "note": self.workload.unknown or self.workload.note,
            "pools": [each.as_json() for each in self.pools],
        }

    def headline(self) -> str:
        """Return the answer in a few words."""
        if self.level is Level.FITS:
            return f"fits {enumeration(each.where for each in self.of(Level.FITS))}"
        words = {Level.UNFIT: "fits no pool", Level.UNKNOWN: "unknown whether it fits a pool", None: "requests no GPU"}
        return f"unknown: {self.workload.unknown}" if self.workload.unknown else words[self.level]

    def summary(self) -> str:
        """Return the answer with the reasons of the nearest pool."""
        nearest = self.of(self.level)[:1] if self.level is not Level.FITS else []
        return "; ".join([self.headline(), *map(str, nearest)])


def answers(
    manifests: Manifests, stacks: Mapping[str, StackPlan], cluster: str, clouds: Mapping[str, Cloud]
) -> list[Answer]:
    """Return the answer for each pod template and the pools of some stacks, or of the cluster with a key."""
    found = [Answer(work, one, []) for work in manifests.workloads for one in work.templates or [None]]
    asking = [(each, each.template) for each in found if each.template is not None and each.template.asks_for_gpus]
    for name, plan in stacks.items():
        context, sharing, costs = Context(plan, manifests, offers(plan)), sharing_of(plan), Costs(plan, clouds)
        for offer in (each for each in context.offers if cluster in ("", each.pool.cluster)):
            where = f"{name} {offer.where}" if len(stacks) > 1 else offer.where
            for answer, template in asking:
                verdict, need = judge(answer.workload, template, offer, context), None
                reasons = (*verdict.reasons, *team_reasons(answer.workload, template, offer, context, sharing))
                if verdict.level is not Level.UNFIT:
                    need = needs(answer.workload, template, offer, context, costs)
                    reasons += need.reasons
                answer.pools.append(Verdict(where, reasons, need))
    return found


def lines(answer: Answer, *, verbose: bool) -> Iterator[str]:
    """Yield what is below the summary of an answer: nodes and notes, other pools by reason, and the lines to add."""
    if answer.workload.note:
        yield f"  {answer.workload.note}"
    for each in answer.of(Level.FITS):
        yield f"  {each.where}: {each.need.words() if each.need is not None else ''}"
        yield from (f"    {reason.text}" for reason in each.reasons)
    others = [*answer.of(Level.UNKNOWN), *answer.of(Level.UNFIT)]
    yield from (f"  {each}" for each in (others if verbose else others[:_SHOWN]))
    if len(others) > _SHOWN and not verbose:
        yield f"  and {amount_of(len(others) - _SHOWN, 'other pool')}; --verbose lists them"
    for each in others if verbose else others[:1] if answer.level is not Level.FITS else ():
        if each.patch:
            text = yaml.safe_dump(each.patch, sort_keys=False)
            yield f"  change in the pod template for {each.where}{_NULL if 'null' in text else ''}:"
            yield from (f"    {part}" for part in text.splitlines())


_SHOWN = 5
_NULL = " (null: remove the line)"


def totals(found: Sequence[Answer], manifests: Manifests) -> str:
    """Return the numbers of answers in one sentence."""
    levels = Counter(answer.level for answer in found)
    words = [f"{levels[Level.FITS]} fit, {levels[Level.UNFIT]} do not fit, {levels[Level.UNKNOWN]} unknown"]
    words += [f"{levels[None]} request no GPU"] if levels[None] else []
    unread = ", ".join(f"{count} {kind}" for kind, count in manifests.not_read.items())
    unread = unread and f"; not read: {unread}"
    wrong = f"; {amount_of(len(manifests.problems), 'problem')}" if manifests.problems else ""
    return f"{amount_of(len(found), 'pod template')}: {', '.join(words)}{unread}{wrong}"


FAILING: Mapping[str, Sequence[Level]] = {
    "never": (),
    "unknown": (Level.UNFIT, Level.UNKNOWN),
    "unfit": (Level.UNFIT,),
}
"""The answers that fail a run, by `--fail-on`."""


def comment(found: Sequence[Answer], manifests: Manifests) -> str:
    """Return a pull request comment, whose first line finds it again."""
    room = MarkdownBudget(LIMIT - 400)
    room.put("<!-- gpupools fit -->", f"### GPU workloads: {totals(found, manifests)}", "")
    order = [answer for level in Level for answer in found if answer.level is level]
    room.many(0.3, ([f"- {code(str(problem))}"] for problem in manifests.problems))
    room.many(0.6, ([f"- {code(answer.name)}: {code(answer.summary())}"] for answer in order))
    details = [
        [f"- {code(answer.name)}", *(f"  - {code(each.strip())}" for each in lines(answer, verbose=False))]
        for answer in order
    ]
    room.folded("Nodes, costs and other pools", 0.9, details)
    return "\n".join(room.lines) + "\n"


def sarif(found: Sequence[Answer], manifests: Manifests, fail_on: str) -> JsonDict:
    """Return problems and the answers that no pool takes as SARIF 2.1.0, in the form of GitHub's code scanning."""
    from gpupools.audit.sarif import sarif_log, sarif_result, short_hash  # slow to import, and most runs write none

    keys = list(REASONS)

    def result(key: str, level: str, file: Path, line: int | None, name: str, text: str) -> JsonDict:
        same = {"gpupoolsFit/v1": short_hash(name, key)}
        return sarif_result(f"fit-{key}", keys.index(key), level, text, (file, line), same)

    results = [
        result("invalid", "error", located.file, located.line, str(located.problem), str(located.problem))
        for located in manifests.problems
    ]
    for answer in (each for each in found if each.level in FAILING["unknown"]):
        reasons = answer.of(answer.level)[0].reasons if answer.pools else ()
        key = next((reason.key for reason in reasons if reason.level is answer.level), "unknown-pods")
        level, text = "error" if answer.level in FAILING[fail_on] else "warning", f"{answer.name}: {answer.summary()}"
        results.append(result(key, level, Path(answer.workload.file), answer.line, answer.name, text))
    rules = [
        {"id": f"fit-{key}", "shortDescription": {"text": row["title"]}, "helpUri": row["source"]}
        for key, row in REASONS.items()
    ]
    return sarif_log("gpupools-fit/", rules, results)
