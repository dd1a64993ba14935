"""The tables of what an edit does to nodes: of the fields of a plan, and of the inputs of a cloud's own resources."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gpupools.common.csv_rows import csv_rows, data_rows
from gpupools.spec.pool_options import input_keys


class EditEffect(StrEnum):
    """What an edit does to the nodes of a pool, the mildest first."""

    NONE = "none"
    """No input of the cloud changes, or none with an effect."""
    IN_PLACE = "in-place"
    """The pool changes, its nodes stay."""
    ROLLING = "rolling"
    """The cloud replaces the nodes of the pool, a few at a time."""
    UNKNOWN = "unknown"
    """Depends on a value known only while the program runs, or on an input set by hand that no table has."""
    REPLACE = "replace"
    """The pool is deleted and recreated."""
    REFUSED = "refused"
    """The cloud's API refuses the change."""

    @property
    def destroys(self) -> bool:
        """Return whether a pool or software is replaced or deleted, or may be because a value is not in the file."""
        return self in (EditEffect.REPLACE, EditEffect.UNKNOWN)


class PodImpact(StrEnum):
    """What an edit does to running pods, the mildest first."""

    STAY = "stay"
    NEW_NODES = "new nodes only"
    """Running pods stay; the change applies to nodes that start later."""
    DRAINED = "drained node by node"
    """The cloud drains a few nodes at a time, as many as the pool's upgrade settings allow."""
    UNKNOWN = "unknown"
    BLOCKED = "blocked until the GPUs are empty"
    """The change waits on each node until no pod uses its GPUs, or fails there."""
    EVICTED = "evicted at once"
    """Pods of several nodes end at the same time."""


STRENGTH = {effect: strength for strength, effect in enumerate(EditEffect)}
SEVERITY = {impact: severity for severity, impact in enumerate(PodImpact)}


@dataclass(frozen=True)
class InputEdit:
    """What an edit of one input of a cloud's own resource does, and what the reader has to know of it."""

    effect: EditEffect
    detail: str = ""
    pods: PodImpact = PodImpact.UNKNOWN


@dataclass(frozen=True)
class PlanEdit:
    """One row: what a change of one field of a plan does."""

    field: str
    """A key of `planned_values`, or the start of one up to a dot."""
    when: str
    """Conditions, all of which must hold; separated by `;`, empty for always.

    `<settings field>=<value>`: the new plan has it. `raised`, `lowered`: the number is. `no-execute`: a taint with the
    effect NoExecute is added. `gpu-taint`: the value of the GPU taint changes. `zone-removed`: a zone is. `mig`: the
    GPU Operator cuts the GPUs. `control-daemon`: the old or new sharing needs the device plugin's control daemon.
    """
    inputs: tuple[str, ...]
    """What the field becomes in the cloud; empty where nothing does."""
    pods: PodImpact | None
    """What it does to pods; None where that follows from the inputs."""
    detail: str
    """What the reader has to know; empty where that follows from the inputs."""


@dataclass(frozen=True)
class EditTables:
    """What edits do to the nodes that one thing makes: a cloud's node pools."""

    plan: tuple[PlanEdit, ...]
    """Of several rows for one field the first that counts is taken."""
    inputs: Mapping[str, InputEdit]
    """By the dotted wire name of the input; of several kinds of resources each begins with its kind."""
    left_out: Mapping[str, tuple[str, object]] = field(default_factory=dict)
    """Inputs that a plan leaves out unless a field of the cloud's part asks for them: that field, and the default."""
    old_protection_counts: bool = False
    """Whether a pool that was declared protected cannot be replaced, though its new declaration is not protected.

    Pulumi's engine itself looks at the new `protect` for a replacement and at the old one for a deletion:
    pulumi/pulumi pkg/resource/deploy/step_generator.go and step.go.
    """

    def edit_by(self, row: PlanEdit, inputs: Collection[str]) -> InputEdit:
        """Return what a changed field does by those of its inputs that change.

        A replacement has a sentence only if the row has one, because the effect says what happens. Pods stay where none
        of the row's inputs changes.
        """
        nothing = InputEdit(EditEffect.NONE, "", PodImpact.STAY)
        edits = [nothing, *(self.inputs.get(name) or unknown_edit(name) for name in inputs)]
        strongest = max(edits, key=lambda edit: (STRENGTH[edit.effect], SEVERITY[edit.pods]))
        by_row = row.pods if inputs or not row.inputs else None
        pods = by_row or max((edit.pods for edit in edits), key=SEVERITY.__getitem__)
        follows = "" if strongest.effect is EditEffect.REPLACE else strongest.detail
        return InputEdit(strongest.effect, row.detail or follows, pods)


def read_edit_tables(
    folder: Path,
    left_out: Mapping[str, tuple[str, object]],
    *,
    several: bool = False,
    old_protection_counts: bool = False,
) -> EditTables:
    """Return the tables of a cloud's folder, whose inputs and edits are in `inputs.csv`.

    Its column `key` has the fields of a plan that become this input, with its effect; of a field with several inputs
    the strongest counts. A row without an effect has that of what it is part of. What does not follow from that is in
    `edit_conditions.csv`, beside the rows that all clouds share. `@name` in the column `sentence` is one of
    `edit_sentences.csv`, in the folder or in `gpupools/data`.

    Args:
        folder: The cloud's folder.
        left_out: See `EditTables`.
        several: Inputs are named after their resource, because a pool is made of several kinds.
        old_protection_counts: See `EditTables`.
    """
    named = (*data_rows("edit_sentences.csv"), *csv_rows(folder / "edit_sentences.csv"))
    sentences = {f"@{row['name']}": row["sentence"] for row in named}

    def sentence(row: Mapping[str, str]) -> str:
        return sentences[row["sentence"]] if row["sentence"].startswith("@") else row["sentence"]

    inputs: dict[str, InputEdit] = {}
    inputs_by_field: dict[str, list[str]] = {}
    rows = csv_rows(folder / "inputs.csv")  # inputs of ours first, in the order in which messages name them
    resources = list(dict.fromkeys(row["resource"] for row in rows))
    for row in sorted(rows, key=lambda row: (resources.index(row["resource"]), row["input"])):
        name = f"{row['resource']}.{row['input']}" if several else row["input"]
        if row["pods"]:
            inputs[name] = InputEdit(EditEffect(row["effect"]), sentence(row), PodImpact(row["pods"]))
        parts = name.split(".")
        above = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        for judged in [path for path in above if path in inputs][:1]:
            for key in input_keys(row["key"]).fields:
                inputs_by_field.setdefault(key, []).append(judged)
    conditions = (*data_rows("edit_conditions.csv"), *csv_rows(folder / "edit_conditions.csv"))
    plan = [
        PlanEdit(field, row["when"], inputs_of, PodImpact(row["pods"]) if row["pods"] else None, sentence(row))
        for row in conditions
        for inputs_of in [tuple(filter(None, row["input"].split(";")))]
        for field in row["key"].split(";")
    ]
    plan += [PlanEdit(field, "", tuple(names), None, "") for field, names in inputs_by_field.items()]
    return EditTables(tuple(plan), inputs, left_out, old_protection_counts)


def unknown_edit(name: str) -> InputEdit:
    """Return the edit of an input or a field that no table has."""
    return InputEdit(EditEffect.UNKNOWN, f"no table has the effect of {name}")
