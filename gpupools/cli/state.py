"""`gpupools diff --state FILE` and `--stack NAME`: compare the last update with this version of gpupools."""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.structured_text import all_maps, one_map, read_text
from gpupools.diff.comparison import Comparison, compared
from gpupools.diff.guard import RECORD, Earlier, drift, judge, read_earlier
from gpupools.diff.input_diff import declared_leaves, state_leaves
from gpupools.diff.records import addresses, hide_addresses, in_recorded_order
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.stackfile.check import CheckedFile
from gpupools.stackfile.repository import project_file
from gpupools.stackfile.stack import StackPlan, places_against_lists


class State(NamedTuple):
    """An exported state."""

    called: str
    """The file, or the command that wrote it."""
    stack: str
    """`<project>/<stack>`."""
    resources: Mapping[str, JsonObject]
    """By URN: type, parent, inputs and outputs, with `UNKNOWN` for encrypted values."""


def exported(stack: str, file: Path) -> State:
    """Return the state that Pulumi's CLI exports for a stack, in the project of a stack file.

    Records that a release before this one encrypted are decrypted in memory; nothing else is, no file has them, and
    addresses in them, which may have been secrets, are not printed.

    Raises:
        Rejected: There is no CLI, it fails, or the state is invalid.
    """
    command, project = ["pulumi", "stack", "export", "--stack", stack], project_file(file)

    def export(*options: str) -> bytes:
        try:
            ended = subprocess.run(
                [*command, *options], cwd=project and project.parent, capture_output=True, check=False
            )
        except FileNotFoundError:
            what, fix = "pulumi is not on PATH", "install the Pulumi CLI, or use --state FILE"
            raise Rejected([Problem(("--stack",), what, fix)]) from None
        if ended.returncode:
            said = [f"failed with exit code {ended.returncode}", *ended.stderr.decode(errors="replace").split("\n")]
            what = [line for line in said if line.strip()][-1].strip()
            raise Rejected([Problem((" ".join(command),), what, "log in to the stack's backend, or use --state FILE")])
        return ended.stdout

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "state.json"
        export("--file", str(copy))
        state = read_state(copy, " ".join(command))
    encrypted = _encrypted_records(state)
    decrypted = json.loads(export("--show-secrets"))["deployment"]["resources"] if encrypted else ()
    for resource in decrypted:
        if resource["urn"] in encrypted:
            state.resources[resource["urn"]]["outputs"][RECORD] = _record(resource["outputs"][RECORD])
    return state


def _encrypted_records(state: State) -> list[str]:
    return [urn for urn, resource in state.resources.items() if resource["outputs"].get(RECORD) is UNKNOWN]


def read_state(path: Path, called: str = "") -> State:
    """Return the state in a file.

    Raises:
        Rejected: It is no state, is empty, or has resources of several stacks.
    """
    called = called or str(path)
    try:
        values = read_text(path).values
        data: Any = values[0].data if values else None
        if not import_module("gpupools.audit.pulumi_state").recognises(data):
            raise Rejected([Problem((), "is not a state", "use the output of: pulumi stack export --stack NAME")])
        at, found, plain = ("deployment", "resources"), {}, import_module("gpupools.policies.wire").plain
        for index, raw in enumerate(all_maps(data["deployment"].get("resources"), at)):
            if not raw.get("delete"):
                parts = {key: plain(one_map(raw.get(key), (*at, index, key))) for key in ("inputs", "outputs")}
                if RECORD in parts["outputs"]:
                    parts["outputs"][RECORD] = _record(raw["outputs"][RECORD])
                found[str(raw.get("urn"))] = {"type": raw.get("type"), "parent": str(raw.get("parent")), **parts}
        stacks = sorted({"/".join(urn.removeprefix("urn:pulumi:").split("::")[1::-1]) for urn in found})
        if not stacks:
            fix = "see what it would create: gpupools preview"
            raise Rejected([Problem((), "is the state of an empty stack", fix)])
        if len(stacks) > 1:
            what = f"has resources of the stacks {' and '.join(stacks)}"
            raise Rejected([Problem((), what, "import the stack's own last export, see docs/how-to/recover.md")])
    except Rejected as rejected:
        raise Rejected(replace(problem, path=(called, *problem.path)) for problem in rejected.problems) from None
    return State(called, stacks[0], found)


def _record(raw: Any) -> Any:
    """Return a record; addresses in one that was encrypted may have been secrets, and are not printed."""
    wire = import_module("gpupools.policies.wire")
    was_secret = isinstance(raw, Mapping) and wire.SIGNATURE in raw
    return hide_addresses(wire.plain(raw)) if was_secret else wire.plain(raw)


def compare_with_state(checked: CheckedFile, states: Sequence[State], cli: bool = False) -> Comparison:
    """Return what the next update changes, from the state of the last one.

    `states` has its own state and those of stacks whose outputs it uses; with `cli`, those missing are exported.

    Raises:
        Rejected: The stack's own state is missing or its records are encrypted, or there is a state of another stack.
    """
    plan, name = checked.plan, checked.file.stack
    project = import_module("gpupools.preview.command").project_of(checked.file.path)
    used = {str(cluster.stack): None for cluster in plan.stack.clusters.values() if cluster.stack is not None}
    by_stack = {export.stack: export for export in states}
    own = by_stack.get(f"{project}/{name}")
    for stack in by_stack.keys() - {f"{project}/{name}", *(reference.partition("/")[2] for reference in used)}:
        what = f"is the state of {stack}, not of {project}/{name}"
        raise Rejected([Problem((by_stack[stack].called,), what, f"export that of {name}")])
    if own is None:
        what, fix = f"the state of {project}/{name} is missing", f"add what pulumi stack export --stack {name} prints"
        raise Rejected([Problem(("--state",), what, fix)])
    encrypted = _encrypted_records(own)
    if encrypted:
        what = f"the record of {encrypted[0].rpartition('::')[2]} is encrypted, as releases before this one left it"
        fix = "export it with --show-secrets, or use --stack, which decrypts only records and writes no file"
        raise Rejected([Problem((own.called,), what, fix)])
    references: dict[str, JsonObject] = {}
    for stack in used:
        state = by_stack.get(stack.partition("/")[2]) or (exported(stack, checked.file.path) if cli else None)
        for resource in state.resources.values() if state is not None else ():
            if resource["type"] == "pulumi:pulumi:Stack":
                references[stack] = _known(resource["outputs"])
    earlier = read_earlier(_known(own.resources))
    judged = judge(earlier, plan, clouds(), references, (_inputs(own), _declared(earlier, plan)))
    notes = [
        *filter(None, [checked.file.note]),
        *(f"outputs of {stack} are not compared; add its state with --state" for stack in used.keys() - references),
        *map(str, places_against_lists(plan)),
    ]
    warnings = (*judged.warnings, *drift(earlier.resources, plan, clouds()))
    return compared(replace(judged, warnings=warnings), notes)


def _known(value: Any) -> Any:
    """Return a value without the unknown parts of its maps."""
    if isinstance(value, Mapping):
        return {key: _known(item) for key, item in value.items() if item is not UNKNOWN}
    return value


def _inputs(state: State) -> dict[str, JsonDict]:
    """Return the inputs of all resources in a state, by the name of their parent."""
    inputs: dict[str, JsonDict] = {}
    for urn, resource in state.resources.items():
        inputs.setdefault(resource["parent"].rpartition("::")[2], {}).update(state_leaves(urn, resource["inputs"]))
    return inputs


def _declared(earlier: Earlier, plan: StackPlan) -> dict[str, JsonDict]:
    """Return what the program declares for each pool, by the name of its component."""
    found = {}
    for wanted in plan.pools:
        record = earlier.of(wanted.cluster, wanted.name, plan.stack.pools[wanted.name].renamed_from)
        pool, cluster = in_recorded_order(wanted, record), plan.stack.clusters[wanted.cluster]
        found[f"{wanted.cluster}-{wanted.name}"] = declared_leaves(pool, addresses(pool, cluster), clouds()[pool.cloud])
    return found
