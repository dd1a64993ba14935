"""What an edit does to one pool, in words and as JSON. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpupools.common.errors import amount_of
from gpupools.common.json_types import JsonDict
from gpupools.diff.format_values import format_change
from gpupools.diff.records import ENCRYPTED, OUTPUT, is_hidden
from gpupools.plan.edit_tables import STRENGTH, EditEffect, PodImpact
from gpupools.plan.pool_plan import GROUP_LABEL, POOL_LABEL
from gpupools.spec.overrides import tellable


def strongest(effects: Iterable[EditEffect]) -> EditEffect:
    """Return the strongest effect; `none` if there are none."""
    return max(effects, key=STRENGTH.__getitem__, default=EditEffect.NONE)


@dataclass(frozen=True)
class FieldChange:
    """A field of a plan whose value differs between two stack files."""

    field: str
    old: Any
    """As JSON types; None where the old plan has no such field."""
    new: Any
    effect: EditEffect
    detail: str = ""
    pods: PodImpact | None = None
    """What it does to running pods; None for software, whose changes say it in words."""
    adopted: bool = False
    """Whether the change is impossible because the pool is adopted."""
    inputs: tuple[str, ...] = ()
    """The inputs of the cloud's resources that it becomes, as the tables name them."""

    def __str__(self) -> str:
        return format_change(self.field, *self._printable_values)

    @property
    def is_output(self) -> bool:
        """Return whether only an output of another stack has changed."""
        return self.detail.startswith(OUTPUT)

    @property
    def _printable_values(self) -> tuple[Any, Any]:
        if ENCRYPTED in (self.new if isinstance(self.new, list) else [self.new]):
            return "(encrypted)", "(encrypted)"  # a record of an older release may have the value in clear
        old, new = ("(encrypted)" if is_hidden(item) else item for item in (self.old, self.new))
        if not self.field.startswith("overrides."):
            return old, new
        return tellable(self.field, old), tellable(self.field, new)

    def as_json(self) -> JsonDict:
        """Return field, old, new, effect and what happens to pods."""
        old, new = self._printable_values
        pods = {} if self.pods is None else {"pods": self.pods.value}
        return {"field": self.field, "old": old, "new": new, "effect": self.effect.value, **pods}


def strongest_first(changes: Iterable[FieldChange]) -> tuple[FieldChange, ...]:
    """Return changes in the order in which `PoolChange` has them."""
    return tuple(sorted(changes, key=lambda change: -STRENGTH[change.effect]))


@dataclass(frozen=True)
class PoolChange:
    """What happens to one pool on one cluster."""

    cluster: str
    pool: str
    """The pool's key in the new file, of a deleted pool in the old one."""
    change: str
    """`created`, `deleted`, `renamed`, `changed` or `unchanged`."""
    effect: EditEffect
    """The strongest effect of the fields; `replace` for a deleted pool, since its nodes are deleted."""
    fields: tuple[FieldChange, ...]
    """The strongest first."""
    nodes: str
    """The affected nodes, in words: `up to 4 nodes × 8 GPUs`."""
    former: str = ""
    """The key of a renamed pool in the old file."""
    old_protection_counts: bool = False
    """`EditTables.old_protection_counts` of the cloud its nodes are in before the edit."""
    production: bool = False
    """Whether it is a production pool, before the edit or after it."""
    protected: bool = False
    """Whether it was declared protected before the edit."""
    recorded: bool = True
    """Whether it is known what it was before the edit."""
    adopts: str = ""
    """For a created pool, the existing pool in the cloud that it imports."""
    looks_like: str = ""
    """For a created pool, the deleted pool that differs only in name, and vice versa."""
    former_keys: str = ""
    """The value of `renamed_from` with which these two are one pool."""
    pods: PodImpact = PodImpact.STAY
    """The worst that happens to running pods."""
    nodes_at_once: int = 0
    """On how many nodes at most at the same time; 0 where pods stay or nobody knows."""

    @property
    def disrupts(self) -> bool:
        """Return whether pods of several nodes end at once, or GPUs in use are cut."""
        return self.pods in (PodImpact.EVICTED, PodImpact.BLOCKED)

    def as_json(self) -> JsonDict:
        """Return cluster, pool, change, effects, fields and the pool that it may have been renamed from."""
        return {
            "cluster": self.cluster,
            "pool": self.pool,
            "change": self.change,
            "effect": self.effect.value,
            "pods": self.pods.value,
            "nodes_at_once": self.nodes_at_once,
            "fields": [field.as_json() for field in self.fields],
            "adopts": self.adopts or None,
            "perhaps_renamed_from": self.looks_like if self.change == "created" and self.looks_like else None,
        }

    def __str__(self) -> str:
        return f"{self.key}: {'; '.join(filter(None, [self.impact, self._description()]))}"

    @property
    def impact(self) -> str:
        """What happens to running pods, in words; empty where they stay."""
        count = self.nodes_at_once
        nodes = amount_of(count, "node")
        if self.effect is EditEffect.UNKNOWN:  # which says it
            return ""
        return {
            PodImpact.STAY: "pods stay" if self.effect is EditEffect.IN_PLACE and self.change == "changed" else "",
            PodImpact.NEW_NODES: "pods stay, new nodes change",
            PodImpact.DRAINED: f"drains {'up to ' if count > 1 else ''}{nodes} at a time",
            PodImpact.UNKNOWN: "effect on pods unknown",
            PodImpact.BLOCKED: f"blocked on up to {nodes} until no pod uses their GPUs",
            PodImpact.EVICTED: (
                f"ends pods on up to {nodes} at once"
                if count > 1
                else f"ends pods on {nodes if count else 'all its nodes'}"
            ),
        }[self.pods]

    @property
    def key(self) -> str:
        """The pool as `gpupools:allow_destroy` names it: `<cluster>/<pool>`."""
        return f"{self.cluster}/{self.pool}"

    def _description(self) -> str:
        if self.adopts:
            return f"imports {self.adopts} unchanged, {self.nodes}"
        if self.change == "created":
            was = self.looks_like
            keep = f"; if this is {was} renamed, set renamed_from: {self.former_keys} to keep the nodes"
            return f"creates {self.nodes}{keep if was else ''}"
        if self.change == "deleted":
            return f"deletes {self.nodes}"
        renamed, quiet = f"renamed from {self.former}; " if self.former else "", NAME_FIELDS - {"first_name"}
        if self.former and all(field.field in quiet or field.effect is EditEffect.NONE for field in self.fields):
            label = " but their label" if self.fields else ""
            return f"{renamed}no change for the nodes{label}"
        effects = {
            EditEffect.REPLACE: f"replaces {self.nodes}; creates the new pool before it deletes the old one",
            EditEffect.UNKNOWN: "effect unknown until pulumi preview",
            EditEffect.NONE: "no change for the nodes",
            EditEffect.IN_PLACE: "in place",
            EditEffect.REFUSED: "refused by the cloud",
        }
        return renamed + effects.get(self.effect, self.effect.value)

    def reasons(self) -> list[str]:
        """Return what happens to pods because of the fields, and what pods have to do whatever the nodes go through."""
        stay = self.pods is PodImpact.STAY
        open_ends = (EditEffect.UNKNOWN, EditEffect.REFUSED)
        telling = [edit for edit in self.fields if edit.effect in open_ends or (edit.pods is self.pods and not stay)]
        telling += [field for field in self.fields if field.field.endswith(".rename")]
        # So is what by hand runs on the nodes or opens them.
        telling += [field for field in self.fields if field.field.startswith("overrides.")]
        return list(dict.fromkeys(field.detail for field in telling if field.detail))

    def decisive(self) -> list[FieldChange]:
        """Return the fields with the strongest effect, without one that repeats another's values."""
        seen: dict[tuple[str, str], FieldChange] = {}
        for field in self.fields:
            if field.effect is self.effect:
                seen.setdefault((str(field.old), str(field.new)), field)
        return list(seen.values())


NAME_FIELDS = frozenset({f"labels.{POOL_LABEL}", f"labels.{GROUP_LABEL}", "first_name", "protect"})
"""Fields that follow from the name of a pool and the protection of its cluster."""
