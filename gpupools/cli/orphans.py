"""`gpupools orphans STATE FILE...`: list resources that an interrupted update left behind, with fixes."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpupools.cli.files import add_within
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Problem, Rejected
from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.common.structured_text import all_maps, one_map, read_text
from gpupools.console.output import answer, tell
from gpupools.diff.guard import POOL_TYPE
from gpupools.plan.existing_pools import There
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.providers import clouds
from gpupools.spec.overrides import flattened
from gpupools.stackfile.reader import stack_name
from gpupools.stackfile.repository import STACK_FILE

if TYPE_CHECKING:
    from gpupools.audit.document import Resource

_INPUTS = (
    "use JSON output of pulumi stack export, pulumi preview --json, aws eks describe-nodegroup, aws ec2"
    " describe-launch-templates, az aks nodepool list, gcloud container node-pools list, kubectl get or helm list"
)
_CREATES = ("create", "create-replacement")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    what = "pulumi stack export of each stack with pools in these clusters, and lists of existing resources"
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=what)
    parser.add_argument("--json", action="store_true", help="print the resources and commands as JSON")
    parser.epilog = (
        f"{examples('gpupools orphans examples/recovery/state.json examples/recovery/node-pools.json')}\n"
        "Add the output of pulumi preview --json if possible. The command only reads these files.\n"
        "docs/how-to/recover.md has the commands that list existing resources.\n"
        "Exit code 3: resources or operations are left over."
    )
    add_within(parser)
    nothing: JsonDict = {"pending": [], "left": [], "without_component": [], "replacements": []}
    parser.set_defaults(run=_exit_status, nothing=nothing)


def _exit_status(given: argparse.Namespace) -> int:
    read = _read(given.files)
    pending, left = _compare(read)
    if given.json:
        details = {"pending": [update.as_json() for update in pending], "left": [orphan.as_json() for orphan in left]}
        details["without_component"] = [{"urn": resource.address, "type": resource.type} for resource in read.torn]
        details["replacements"] = [{"urn": old.address, "id": old.id, "left": what} for old, what in read.replaced]
        answer("orphans", "accepted", [], details)
    else:
        for line in _lines(pending, left, read):
            tell(line)
    return 3 if pending or left or read.torn or read.replaced else 0


@dataclass(frozen=True)
class _Pending:
    """An operation that the engine did not finish."""

    resource: Resource
    operation: str
    """`creating`, `updating`, `deleting`, …"""
    found: bool = False
    """Whether the resource being created is in one of the files."""

    def as_json(self) -> JsonDict:
        return {"urn": self.resource.address, "operation": self.operation, "found": self.found}


@dataclass(frozen=True)
class _Left:
    """A resource that no state has."""

    there: There
    type: str
    imports: tuple[str, ...]
    """Import commands: one, or one per cluster in which it may be."""
    note: str
    known: bool = True
    """Whether one of the stacks was creating it or would create it."""
    elsewhere: bool = False
    """Whether it may belong to another cluster: lists of objects do not contain their cluster."""

    def as_json(self) -> JsonDict:
        there = self.there
        place = {"name": there.name, "type": self.type, "id": there.id, "cluster": there.cluster, "pool": there.pool}
        return {**place, "import": list(self.imports), "delete": there.delete, "note": self.note}


@dataclass
class _Read:
    """Contents of the files."""

    stacks: list[str] = field(default_factory=list)
    has: list[Resource] = field(default_factory=list)
    urns: set[str] = field(default_factory=set)
    pending: list[_Pending] = field(default_factory=list)
    torn: list[Resource] = field(default_factory=list)
    """Pools without their component."""
    replaced: list[tuple[Resource, str]] = field(default_factory=list)
    """Resources whose replacement broke off, with what it left to do."""
    next: list[Resource] = field(default_factory=list)
    """Resources that the next update creates."""
    there: list[There] = field(default_factory=list)
    objects: list[There] = field(default_factory=list)
    """Kubernetes objects, whose cluster is unknown."""


def _not_known(path: Path) -> Problem:
    if STACK_FILE.fullmatch(path.name):
        export = f"pulumi stack export --stack {shlex.quote(stack_name(path))} > state.json"
        return Problem((), "is a stack file, not a state", f"export its state: {export}")
    return Problem((), "has an unknown format", _INPUTS)


def _read(files: Iterable[Path]) -> _Read:
    """Return the contents of all files; reject unknown formats, and files without a state."""
    read, problems = _Read(), []
    states = 0
    for path in files:
        try:
            parsed = read_text(path)
            data: Any = parsed.values[0].data if parsed.values else None
            if _form("pulumi_state").recognises(data):
                states += 1
                _read_state(data, parsed, read)
            elif _form("pulumi_preview").recognises(data):
                _read_preview(data, parsed, read)
            elif not _read_list(data, read):
                raise Rejected([_not_known(path)])
        except Rejected as rejected:
            problems += [replace(problem, path=(str(path), *problem.path)) for problem in rejected.problems]
    if not states and not problems:
        what = "none of the files is a state, so existing resources cannot be compared"
        problems.append(Problem((), what, "add the output of pulumi stack export"))
    if problems:
        raise Rejected(problems)
    return read


def _form(name: str) -> Any:
    """Load the reader of a form; the readers are optional for other commands."""
    return import_module(f"gpupools.audit.{name}")


def _read_state(data: JsonObject, text: Any, read: _Read) -> None:
    at = ("deployment", "resources")
    states = all_maps(data["deployment"].get("resources"), at)
    found = [_wanted(state, (*at, index), text) for index, state in enumerate(states)]
    stacks = sorted({other_resource.stack for other_resource in found})
    if len(stacks) > 1:
        what = f"has resources of the stacks {' and '.join(stacks)}: one was imported into the other"
        raise Rejected([Problem((), what, "export the stack's own state again, or import its last good one")])
    read.stacks += stacks
    urns = {other_resource.address for other_resource in found}
    read.has += [other_resource for other_resource in found if other_resource.id]
    read.urns |= urns
    left = {"delete": "delete the old one", "pendingReplacement": "create the new one"}
    read.replaced += [
        (old, what) for state, old in zip(states, found, strict=True) for key, what in left.items() if state.get(key)
    ]
    read.torn += [torn for torn in found if _is_pool(torn) and not _is_in_component(torn, urns)]
    at = ("deployment", "pending_operations")
    operations = all_maps(data["deployment"].get(at[1]), at)
    for index, operation in enumerate(operations):
        resource = _wanted(operation.get("resource"), (*at, index, "resource"), text)
        read.pending.append(_Pending(resource, str(operation.get("type"))))


def _is_pool(resource: Resource) -> bool:
    """Return whether it is a gpupools pool, which has its key in the node labels."""
    is_named = any(f".{path}".endswith(f".{POOL_LABEL}") for path in flattened(resource.inputs))
    return bool(resource.id) and not resource.type.startswith("kubernetes:") and is_named


def _is_in_component(resource: Resource, urns: Collection[str]) -> bool:
    """Return whether the component of a pool exists; a URN contains the types of the parents."""
    return POOL_TYPE in resource.address and (not resource.parent or resource.parent in urns)


def _read_preview(data: JsonObject, text: Any, read: _Read) -> None:
    for index, step in enumerate(data.get("steps") or []):
        if step["op"] in _CREATES and step.get("newState"):
            read.next.append(_wanted(step["newState"], ("steps", index, "newState"), text))


def _wanted(state: Any, at: tuple[str | int, ...], text: Any) -> Resource:
    """Read a resource that a stack has, was about to have, or is going to have."""
    resource: Resource = _form("pulumi_preview").resource(one_map(state, at), at, text)
    return resource


def _name(resource: Resource) -> str:
    return resource.address.rpartition("::")[2]


def _read_list(data: Any, read: _Read) -> bool:
    """Read the output of a list command; return whether the format is known."""
    if data == []:
        return True  # an empty list may be of any kind
    objects = _objects(data)
    if objects is not None:
        read.objects += objects
        return True
    known = [outside() for cloud in clouds().values() if (outside := cloud.node_pools.existing_pools) is not None]
    given = [item for item in (data if isinstance(data, list) else [data]) if isinstance(item, Mapping)]
    theres = [there for item in given for outside in known for there in outside.there(item)]
    read.there += theres
    empty = isinstance(data, Mapping) and bool(data) and all(value == [] for value in data.values())
    return bool(theres) or empty


def _objects(data: Any) -> list[There] | None:
    """Return the objects of `kubectl get … --output json` or `helm list --output json`; None for other data."""
    if isinstance(data, Mapping) and "apiVersion" in data and "kind" in data:
        items = data.get("items") if data["kind"] == "List" else [data]
        return [_object(item) for item in items or [] if isinstance(item, Mapping) and "kind" in item]
    if isinstance(data, list) and all(isinstance(item, Mapping) and {"name", "chart"} <= item.keys() for item in data):
        return [_release(item) for item in data]
    return None


def _object(item: JsonObject) -> There:
    said = mapping(item.get("metadata"))
    where = {key: str(said[key]) for key in ("namespace", "name") if key in said}
    version = str(item.get("apiVersion"))
    token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{item['kind']}"
    place = ["--namespace", where["namespace"]] if "namespace" in where else []
    delete = shlex.join(["kubectl", "delete", str(item["kind"]).lower(), where.get("name", ""), *place])
    path = "/".join(where.values())
    return There(name=path, id=path, forms=((token, {"metadata": where}),), tags={}, delete=delete)


def _release(item: JsonObject) -> There:
    name, namespace = str(item["name"]), str(item.get("namespace"))
    path, form = f"{namespace}/{name}", ("kubernetes:helm.sh/v3:Release", {"name": name, "namespace": namespace})
    delete = shlex.join(["helm", "uninstall", name, "--namespace", namespace])
    return There(name=path, id=path, forms=(form,), tags={}, delete=delete)


# --- comparing ---


def _compare(read: _Read) -> tuple[list[_Pending], list[_Left]]:
    creating = [update.resource for update in read.pending if update.operation == "creating"]
    left: list[_Left] = []
    found: set[str] = set()
    for there in read.there:
        if any(_same(there, resource) for resource in read.has):
            continue
        known = [resource for resource in creating if _has_name(there, resource)]
        known = known or [resource for resource in read.next if _has_name(there, resource) or _tagged(there, resource)]
        found |= {resource.address for resource in known}
        if known or there.pool:
            left.append(_made(there, known[:1], read))
    for there in read.objects:
        known = [made for made in (*creating, *read.next) if _has_name(there, made) and made.address not in found]
        # The same object of another cluster has another URN.
        known = list({resource.address: resource for resource in known}.values())
        found |= {resource.address for resource in known}
        if known:
            elsewhere = len(known) > 1 or any(_has_name(there, resource) for resource in read.has)
            left.append(replace(_made(there, known, read), elsewhere=elsewhere))
    pending = [replace(update, found=update.resource.address in found) for update in read.pending]
    return pending, left


def _same(there: There, has: Resource) -> bool:
    kinds = {kind for kind, _ in there.forms}
    return has.type in kinds and (has.id.casefold() == there.id.casefold() or _has_name(there, has))


def _has_name(there: There, wanted: Resource) -> bool:
    """Return whether a resource matches by place and name."""
    return any(kind == wanted.type and _within(inputs, wanted.inputs) for kind, inputs in there.forms)


def _tagged(there: There, wanted: Resource) -> bool:
    """Return whether a resource with a random name matches by its tags."""
    kinds = {kind for kind, _ in there.forms}
    return bool(there.tags) and wanted.type in kinds and _within({"tags": there.tags}, wanted.inputs)


def _within(part: Any, whole: Any) -> bool:
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(_within(value, whole.get(key)) for key, value in part.items())
    return str(part).casefold() == str(whole).casefold()


def _made(there: There, known: Sequence[Resource], read: _Read) -> _Left:
    kind = known[0].type if known else there.forms[0][0]
    held, note = [has.id for resource in known for has in read.has if has.address == resource.address], ""
    if held:
        note = f"the state has {held[0]} instead"
    elif any(resource.parent and resource.parent not in read.urns for resource in known):
        note = "the state lacks its parent: run pulumi up, which stops at this resource, then export the state again"
    elif not known:
        note = "no pending operation or preview creates it; add the states of other stacks and pulumi preview --json"
    imports = () if note else tuple(_import(there, resource) for resource in known)
    return _Left(there, kind, imports, note, known=bool(known))


def _import(there: There, wanted: Resource) -> str:
    above = ["--parent", f"parent={wanted.parent}"] if wanted.parent else []
    provider = ["--provider", f"provider={wanted.provider}"] if wanted.provider else []
    # The next update sets the protection of a pool with `protect`.
    how = ["--protect=false", "--generate-code=false", "--stack", wanted.stack]
    return shlex.join(["pulumi", "import", wanted.type, _name(wanted), there.id, *above, *provider, *how])


# --- printing ---


def _lines(pending: Sequence[_Pending], left: Sequence[_Left], read: _Read) -> Iterator[str]:
    for torn in read.torn:
        what = f"the state lacks the component of {_name(torn)} ({torn.type}), as after pulumi state repair"
        yield f"{torn.stack}: {what}"
        yield "  do not run pulumi up, which would recreate the pool and delete this one: restore a complete state"
        yield "  (docs/how-to/recover.md#a-state-that-contradicts-itself)"
    for each in pending:
        resource = each.resource
        what = f"{resource.stack}: an update was interrupted while {each.operation} {_name(resource)} ({resource.type})"
        unseen = each.operation == "creating" and not each.found
        yield what + ("; none of these files lists it" if unseen else "")
    for one in left:
        there = one.there
        where = f" in {there.cluster}" if there.cluster else ""
        pool = f", pool {there.pool}" if there.pool else ""
        what = f"{there.name}{where} ({one.type}{pool}) is in none of these states"
        yield "; ".join(filter(None, [what, one.note]))
        for command in one.imports:
            yield f"  import it{', if it is in this cluster' if one.elsewhere else ''}: {command}"
        deletes = "delete it" if one.known else "delete it if no other stack has it"
        yield f"  {'or delete it' if one.imports else deletes}: {there.delete}"
    for stack in sorted({update.resource.stack for update in pending}):
        clear = any(update.operation == "creating" and update.resource.stack == stack for update in pending)
        option = " --clear-pending-creates" if clear else ""
        when = "when the lists are complete, and their resources are imported or deleted"
        yield f"{when}: pulumi refresh{option} --stack {shlex.quote(stack)}"
    for resource, what in read.replaced:
        yield f"{resource.stack}: the replacement of {_name(resource)} ({resource.type}) broke off; it left to {what}"
    for stack in sorted({resource.stack for resource, _ in read.replaced}):
        yield f"finish it with the same stack file; delete nothing by hand: pulumi up --stack {shlex.quote(stack)}"
    if not pending and not left and not read.torn and not read.replaced:
        yield f"no orphaned resources: {', '.join(read.stacks) or 'an empty state'}"
