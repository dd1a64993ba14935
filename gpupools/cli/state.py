"""Reads states for `gpupools diff --state FILE` and `--stack NAME`, and compares the last update with this version."""

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.structured_text import all_maps, one_map, read_text
from gpupools.diff.comparison import Comparison
from gpupools.diff.guard import POOL_TYPE, RECORD, drift, judge, read_earlier
from gpupools.diff.input_diff import DeclaredInputs, with_inputs
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.stackfile.check import CheckedFile
from gpupools.stackfile.reader import NAMESPACE
from gpupools.stackfile.repository import project_file
from gpupools.stackfile.stack import planned

_STACK = "pulumi:pulumi:Stack"


class State(NamedTuple):
    """An exported state."""

    called: str
    """The file, or the command that printed it."""
    stack: str
    """`<project>/<stack>`."""
    resources: Mapping[str, JsonObject]
    """By URN: type, inputs and outputs, with `UNKNOWN` for encrypted values."""


def exported(stack: str, file: Path) -> State:
    """Return the state that Pulumi's CLI exports for a stack, in the project of a stack file.

    Raises:
        Rejected: There is no CLI, it fails, or prints no state.
    """
    command = ["pulumi", "stack", "export", "--stack", stack]
    project = project_file(file)
    try:
        ended = subprocess.run(command, cwd=project and project.parent, capture_output=True, check=False)
    except FileNotFoundError:
        fix = "install the Pulumi CLI, or use --state FILE"
        raise Rejected([Problem(("--stack",), "pulumi is not on PATH", fix)]) from None
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {ended.returncode}"]
        raise Rejected([Problem((" ".join(command),), said[-1], "log in to the stack's backend, or use --state FILE")])
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "state.json"
        copy.write_bytes(ended.stdout)
        return read_state(copy, " ".join(command))


def read_state(path: Path, called: str = "") -> State:
    """Return the state in a file.

    Raises:
        Rejected: It is no state, is empty, or has resources of several stacks.
    """
    called = called or str(path)
    try:
        values = read_text(path).values
        data = values[0].data if values else None
        if not import_module("gpupools.audit.pulumi_state").recognises(data):
            raise Rejected([Problem((), "is not a state", "use the output of: pulumi stack export --stack NAME")])
        plain = import_module("gpupools.audit.wire_values").plain
        at = ("deployment", "resources")
        found: dict[str, JsonObject] = {}
        for index, raw in enumerate(all_maps(data["deployment"].get("resources"), at)):
            if not raw.get("delete"):
                parts = {key: plain(one_map(raw.get(key), (*at, index, key))) for key in ("inputs", "outputs")}
                found[str(raw.get("urn"))] = {"type": raw.get("type"), **parts}
        stacks = sorted({"/".join(urn.removeprefix("urn:pulumi:").split("::")[1::-1]) for urn in found})
        if not stacks:
            raise Rejected(
                [Problem((), "is the state of an empty stack", "see what it would create: gpupools preview")]
            )
        if len(stacks) > 1:
            what = f"has resources of the stacks {' and '.join(stacks)}"
            raise Rejected([Problem((), what, "import the stack's own last export, see docs/how-to/recover.md")])
    except Rejected as rejected:
        raise Rejected(replace(each, path=(called, *each.path)) for each in rejected.problems) from None
    return State(called, stacks[0], found)


def compare_with_state(checked: CheckedFile, states: Sequence[State], cli: bool = False) -> Comparison:
    """Return what the next update changes, from the state of the last one.

    Args:
        checked: The stack file.
        states: The stack's own state, and states of stacks whose outputs it uses.
        cli: Whether to export missing states of those stacks.

    Raises:
        Rejected: The stack's own state is missing or its records are encrypted, or there is a state of another stack.
    """
    plan, project = checked.plan, import_module("gpupools.preview.command").project_of(checked.file.path)
    own, used = (
        f"{project}/{checked.file.stack}",
        {str(each.stack): each.stack for each in plan.stack.clusters.values()},
    )
    used = {name: name for name, stack in used.items() if stack is not None}
    by_stack = {each.stack: each for each in states}
    wanted = {own, *(name.partition("/")[2] for name in used)}
    problems = [
        Problem((each.called,), f"is the state of {each.stack}, not of {own}", f"export that of {checked.file.stack}")
        for each in states
        if each.stack not in wanted
    ]
    if own not in by_stack and not problems:
        fix = f"add the output of: pulumi stack export --stack {checked.file.stack}"
        problems.append(Problem(("--state",), f"the state of {own} is missing", fix))
    if problems:
        raise Rejected(problems)
    state = by_stack[own]
    _check_encryption(state)
    references: dict[str, JsonObject] = {}
    warnings = []
    for name in used:
        short = name.partition("/")[2]
        if short not in by_stack and cli:
            by_stack[short] = exported(name, checked.file.path)
        if short in by_stack:
            roots = (each for each in by_stack[short].resources.values() if each["type"] == _STACK)
            references[name] = _known(next(roots, {}).get("outputs", {}))
        else:
            warnings.append(f"outputs of {name} are not compared; add its state with --state")
    earlier = read_earlier(_known(state.resources))
    judged = judge(earlier, plan, clouds(), references)
    warnings += [f"pulumi up refuses this: {problem}" for problem in judged.unknown]
    warnings += drift(earlier.resources, plan, clouds())
    old = [DeclaredInputs(urn, each["inputs"]) for urn, each in state.resources.items()]
    pools = with_inputs(judged.changes, old, _declared(checked, project, state), plan, clouds())
    notes = [checked.file.note] if checked.file.note else []
    return Comparison(pools, judged.software, judged.forbidden, [*notes, *warnings, *judged.warnings])


def _check_encryption(state: State) -> None:
    for urn, each in state.resources.items():
        if each["type"] == POOL_TYPE and each["outputs"].get(RECORD) is UNKNOWN:
            what = f"the record of {urn.rpartition('::')[2]} is encrypted"
            raise Rejected([Problem((state.called,), what, "export it with: pulumi stack export --show-secrets")])


def _known(value: Any) -> Any:
    """Return a value without the unknown parts of its maps."""
    if isinstance(value, Mapping):
        return {key: _known(each) for key, each in value.items() if each is not UNKNOWN}
    return value


def _declared(checked: CheckedFile, project: str, state: State) -> Iterator[DeclaredInputs]:
    """Yield what the stack program declares now.

    It gets the records of the pools, of which it keeps the order of values. It ends where the guard rejects the update;
    then it runs without them.
    """
    program = import_module("gpupools.preview.command").PROGRAM
    run: Any = import_module("gpupools.preview.program_run").preview_program
    plain = import_module("gpupools.audit.wire_values").plain
    config: JsonDict = {**checked.file.others, **{f"{NAMESPACE}:{key}": v for key, v in checked.file.config.items()}}
    records = {urn: _known(each) for urn, each in state.resources.items() if each["type"] == POOL_TYPE}
    earlier: Iterable[JsonObject | None] = (records, None)
    for each in earlier:
        with planned(checked.plan, checked.file.config, clouds(), checked.file.others):
            preview = run(program, checked.file.stack, project, config, each, sync_registration=True)
        if not preview.problems:
            break
    if preview.problems:
        raise Rejected(preview.problems)
    for resource in preview.resources:
        yield DeclaredInputs(resource.urn, plain(resource.inputs), tuple(resource.options.get("ignoreChanges", ())))
