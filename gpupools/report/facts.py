"""What there is to show of one stack file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpupools.common.errors import Problem, amount_of
from gpupools.common.taints import HARD_EFFECTS, Taint
from gpupools.diff.comparison import Comparison, counted, in_words
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.prices import PoolPrice, total
from gpupools.plan.quotas import QuotaNeed
from gpupools.plan.software_plan import RuntimePlan
from gpupools.plan.tolerations import tolerates
from gpupools.preview.format_preview import PolicyVerdict
from gpupools.software.owners import tolerations_of
from gpupools.software.team_shares import TeamRow, team_rows
from gpupools.stackfile.check import Located
from gpupools.stackfile.stack import StackPlan

STAYS = "its pools stay until pulumi destroy, and no update sees them"
"""Of a stack file that is gone."""


@dataclass(frozen=True)
class StackReport:
    """One stack file, and what was found out about it."""

    file: str
    stack: str
    plan: StackPlan | None
    """None where the file is refused."""
    refused: Sequence[Located] = ()
    """Why it is refused."""
    warnings: Sequence[Located] = ()
    since: str | None = None
    """The commit it is compared with; None where it is compared with none."""
    comparison: Comparison | None = None
    not_compared: str = ""
    """Why there is no comparison though a commit is named, or what it leaves out."""
    verdicts: Sequence[PolicyVerdict] = ()
    problems: Sequence[Problem] = field(default_factory=tuple)
    """What refuses beyond policies."""
    quotas: Sequence[QuotaNeed] = ()
    """What its pools need of the clouds' quotas."""
    prices: Sequence[PoolPrice] = ()
    """What its pools cost per hour."""
    not_judged: str = ""
    """Why the policies were not asked; empty where they were."""

    @property
    def is_refused(self) -> bool:
        """Say whether the file, the program or a mandatory policy refuses."""
        return bool(self.refused or self.problems) or any(verdict.refuses for verdict in self.verdicts)

    @property
    def pools(self) -> Sequence[PoolPlan]:
        """Every pool on every cluster."""
        return self.plan.pools if self.plan is not None else ()

    @property
    def findings(self) -> list[PolicyVerdict]:
        """The policies that have something against it, those that refuse first."""
        return sorted((each for each in self.verdicts if each.violations), key=lambda verdict: not verdict.refuses)

    @property
    def passed(self) -> list[PolicyVerdict]:
        """The policies that were asked and have nothing against it."""
        return [verdict for verdict in self.verdicts if not verdict.violations and verdict.level != "disabled"]

    def counts(self) -> dict[str, int]:
        """Count its pools by what becomes of them; empty where that is not known."""
        return counted(self.comparison.judged.changes) if self.comparison is not None else {}

    def summary(self) -> str:
        """Say it in one line."""
        if self.refused:
            return f"refused, {amount_of(len(self.refused), 'problem')}"
        if self.comparison is not None:
            said = in_words(self.counts())
        else:
            pools, clusters = len(self.pools), len({plan.cluster for plan in self.pools})
            said = f"{amount_of(pools, 'pool')} on {amount_of(clusters, 'cluster')}"
        return "; ".join([said, *self._further()])

    def answers(self) -> Iterator[tuple[str, str]]:
        """Yield what a reader asks first, and the answers."""
        if self.prices:
            idle = total(self.prices, at_max=False).monthly
            paid = f"{total(self.prices).monthly} with all nodes, {idle} for those that always run (list prices)"
            yield "What do we pay", paid
        users: dict[str, list[str]] = {}
        shared = {row.pool: "teams by their guarantees" for row in self.teams}
        for plan in self.pools:
            key = f"{plan.cluster}/{plan.name}"
            users.setdefault(plan.labels.get(TRUST_LABEL) or shared.get(key, "everybody"), []).append(key)
        yield "Who uses it", "; ".join(f"{who}: {', '.join(pools)}" for who, pools in users.items())
        if self.comparison is not None:
            yield "What changes", "; ".join(filter(None, [self.summary(), self.comparison.cost]))
        else:
            yield "What is declared", self.summary()

    @property
    def teams(self) -> list[TeamRow]:
        """What teams may use of the pools."""
        return team_rows(self.plan.pools, self.plan.stack.teams) if self.plan is not None else []

    def costs(self) -> Iterator[tuple[str, str, str]]:
        """Yield what each cluster and team costs a month: of nodes that always run, and of all, or guaranteed."""
        owned: dict[str, list[PoolPrice]] = {}
        pools = {price.key: (plan, price) for plan, price in zip(self.pools, self.prices, strict=True)}
        for plan, price in pools.values():
            owned.setdefault(f"cluster {plan.cluster}", []).append(price)
            if TRUST_LABEL in plan.labels:
                owned.setdefault(f"pools of {plan.labels[TRUST_LABEL]}", []).append(price)
        for row in self.teams:
            plan, price = pools[row.pool]
            # Slices of several sizes have no price of their own.
            part = price.price if len(plan.node_resources) == 1 else None
            if part is not None:
                part = part._replace(amount=part.amount * row.guarantee / plan.node_resources[row.resource])
            owned.setdefault(f"guarantee of {row.team}", []).append(
                price._replace(price=part, min_nodes=0, max_nodes=1)
            )
        for name, prices in owned.items():
            yield name, total(prices, at_max=False).monthly, total(prices).monthly

    def limit(self, need: QuotaNeed) -> str:
        """Return the limit of a quota that the stack file has, in words."""
        limit = self.plan.stack.quotas.get(need.code) if self.plan is not None else None
        return "not in gpupools:quotas" if limit is None else f"{limit} {need.unit}s"

    def advice(self) -> Iterator[str]:
        """Yield the warnings about the file, each once."""
        return once(
            (f"{warning.place}: {'.'.join(map(str, warning.problem.path))}", str(replace(warning.problem, path=())))
            for warning in self.warnings
        )

    def _further(self) -> Iterable[str]:
        if self.comparison is not None and self.comparison.is_refused:
            judged = self.comparison.judged
            yield f"pulumi up refuses {len(judged.forbidden) + len(judged.unknown)} of it"
        if self.problems:
            yield amount_of(len(self.problems), "problem")
        for word, refuses in (("refusing", True), ("advisory", False)):
            number = sum(len(finding.violations) for finding in self.findings if finding.refuses is refuses)
            if number:
                yield amount_of(number, f"{word} policy finding")


def finding_lines(verdict: PolicyVerdict) -> Iterator[str]:
    """Yield what a policy says beside its own description, each once."""
    said = [[line for line in each.message.splitlines() if line != verdict.description] for each in verdict.violations]
    names = [violation.urn.rpartition("::")[2] for violation in verdict.violations]
    return once(zip(names, (" ".join(filter(None, lines)) for lines in said), strict=True))


def once(said: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each sentence once, after the names of everything it applies to."""
    names: dict[str, list[str]] = {}
    for name, sentence in said:
        names.setdefault(sentence.removeprefix(f"{name}:").strip(), []).append(name)
    for sentence, own in names.items():
        own = list(dict.fromkeys(filter(None, own)))
        more = f" and {len(own) - _MOST_NAMED} more" if len(own) > _MOST_NAMED else ""
        yield ": ".join(filter(None, [", ".join(own[:_MOST_NAMED]) + more, sentence]))


_MOST_NAMED = 10


def tolerating(runtime: RuntimePlan | None, taint: Taint) -> list[str]:
    """Return who may run in a cluster in spite of a taint; nobody needs to for one that only asks to be avoided."""
    known = tolerations_of(runtime) if runtime is not None and taint.effect in HARD_EFFECTS else {}
    return [name for name, tolerations in known.items() if tolerates(tolerations, taint)]


def nodes_in_words(plan: PoolPlan) -> str:
    """Write how many nodes a pool has: `0 to 4 nodes`, `2 nodes`, `0 to 4 nodes, 1 spare`."""
    if plan.min_nodes == plan.max_nodes:
        return amount_of(plan.max_nodes, "node")
    spare = f", {plan.spare} spare" if plan.spare and not plan.group else ""
    return f"{plan.min_nodes} to {amount_of(plan.max_nodes, 'node')}{spare}"
