"""What there is to show of one stack file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpupools.common.errors import Problem
from gpupools.common.taints import HARD_EFFECTS, Taint
from gpupools.diff.comparison import Comparison, counted, in_words
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.prices import PoolPrice
from gpupools.plan.quotas import QuotaNeed
from gpupools.plan.software_plan import RuntimePlan
from gpupools.plan.tolerations import tolerates
from gpupools.preview.format_preview import PolicyVerdict
from gpupools.software.owners import tolerations_of
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
        return sorted((each for each in self.verdicts if each.violations), key=lambda each: not each.refuses)

    @property
    def passed(self) -> list[PolicyVerdict]:
        """The policies that were asked and have nothing against it."""
        return [each for each in self.verdicts if not each.violations and each.level != "disabled"]

    def passing(self) -> str:
        """Say how many policies pass, and how many were not asked."""
        asked = len(self.passed) + len(self.findings)
        disabled = len(self.verdicts) - asked
        return f"{len(self.passed)} of {asked} policies pass" + (f", {disabled} disabled" if disabled else "")

    def counts(self) -> dict[str, int]:
        """Count its pools by what becomes of them; empty where that is not known."""
        return counted(self.comparison.pools) if self.comparison is not None else {}

    def summary(self) -> str:
        """Say it in one line."""
        if self.refused:
            return f"refused, {_count(len(self.refused), 'problem')}"
        if self.comparison is not None:
            said = in_words(self.counts())
        else:
            pools, clusters = len(self.pools), len({plan.cluster for plan in self.pools})
            said = f"{_count(pools, 'pool')} on {_count(clusters, 'cluster')}"
        return "; ".join([said, *self._further()])

    def _further(self) -> Iterable[str]:
        if self.comparison is not None and self.comparison.is_refused:
            judged = self.comparison.judged
            yield f"pulumi up refuses {len(judged.forbidden) + len(judged.unknown)} of it"
        if self.problems:
            yield _count(len(self.problems), "problem")
        for word, refuses in (("refusing", True), ("advisory", False)):
            number = sum(len(each.violations) for each in self.findings if each.refuses is refuses)
            if number:
                yield f"{number} {word} policy {'finding' if number == 1 else 'findings'}"


class Tolerations:
    """Who tolerates which taint in a cluster, of all that gpupools puts there."""

    def __init__(self, runtime: RuntimePlan | None) -> None:
        self._of = tolerations_of(runtime) if runtime is not None else {}

    def of(self, taint: Taint) -> list[str]:
        """Return who may run in spite of a taint; nobody needs to for one that only asks to be avoided."""
        if taint.effect not in HARD_EFFECTS:
            return []
        return [name for name, tolerations in self._of.items() if tolerates(tolerations, taint)]


def nodes_in_words(plan: PoolPlan) -> str:
    """Write how many nodes a pool has: `0 to 4 nodes`, `2 nodes`."""
    if plan.min_nodes == plan.max_nodes:
        return _count(plan.max_nodes, "node")
    return f"{plan.min_nodes} to {_count(plan.max_nodes, 'node')}"


def _count(number: int, one: str) -> str:
    return f"{number} {one}{'' if number == 1 else 's'}"
