"""`gpupools import FILE... --out FILE`: generate a stack file that imports existing node pools."""

import argparse
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib import import_module
from operator import getitem
from pathlib import Path
from typing import Any

import yaml

from gpupools.cli.files import add_within, links_out, write_new
from gpupools.cli.help_texts import examples
from gpupools.common.errors import Problem, Rejected, amount_of
from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.structured_text import read_text
from gpupools.common.taints import GPU_TAINT, parse_taint
from gpupools.console.output import answer, tell
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import EditEffect
from gpupools.plan.existing_pools import ExistingPools, Found, refuse
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL
from gpupools.plan.pool_plan import POOL_LABEL
from gpupools.plan.pool_planner import SERVED_BY
from gpupools.plan.tolerations import kept_taint_note
from gpupools.providers import clouds
from gpupools.readback.inputs import at
from gpupools.spec.models import SHARED_MODES
from gpupools.spec.overrides import flattened, override_problems, tellable, value_at
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.reader import NAMESPACE
from gpupools.stackfile.repository import says_ours
from gpupools.stackfile.stack import StackPlan, adopted_pools, plan_config

_INPUTS = (
    "use JSON output of gcloud container node-pools describe, az aks nodepool show, aws eks describe-nodegroup,"
    " terraform show -json or pulumi stack export"
)


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    what = "node pool as the cloud's CLI describes it, or a Terraform or Pulumi state"
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=what)
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="Pulumi.<stack>.yaml to write, which must not exist"
    )
    parser.add_argument("--cloud", choices=tuple(clouds()), help="reject pools of other clouds")
    parser.add_argument(
        "--device-plugin", metavar="NAME", help="device plugin that serves the pools, e.g. kube-system/nvidia-plugin"
    )
    parser.add_argument("--gpu-operator", metavar="NAME", help="GPU Operator that serves pools without a driver")
    parser.add_argument("--team", metavar="NAME", help="team that may use pools whose containers share a GPU")
    parser.epilog = examples("gpupools import examples/import/node-pool.yaml --out Pulumi.moved.yaml")
    parser.add_argument("--json", action="store_true", help="print the pools, kept inputs and changed inputs as JSON")
    add_within(parser)
    parser.set_defaults(run=_exit_status, nothing={"file": None, "pools": []})


def _exit_status(given: argparse.Namespace) -> int:
    try:
        problems = [replace(problem, path=(str(path),)) for path, problem in links_out([given.out], given.within)]
        problems += () if problems else _unwritable(given.out)
        pools = _read(given.files, given.cloud, problems)
        served = {"device_plugin": given.device_plugin, "gpu_operator": given.gpu_operator}
        config = _config(pools, {key: value for key, value in served.items() if value}, given.team)
        if problems:
            raise Rejected([*problems, *_refused(pools, config)])
        _fit(pools, config)
        _refuse_pools_of_another_stack(pools, config, given.out)
        _write(given.out, config)
    except Rejected:
        if not given.json:
            tell(f"{given.out} was not written", error=True)
        raise
    if given.json:
        answer("import", "accepted", [], {"file": str(given.out), "pools": [pool.as_json() for pool in pools]})
    else:
        for pool in pools:
            for line in pool.as_text():
                tell(line)
        tell(f"wrote {given.out} with {amount_of(len(pools), 'pool')} to import")
    return 0


@dataclass
class _Pool:
    """One existing pool and its keys in the stack file."""

    source: str
    """File that describes it."""
    cloud: Cloud
    outside: ExistingPools
    found: Found
    own: JsonObject = field(default_factory=dict)
    """Keys of its cluster that the pool determines."""
    keys: JsonDict = field(default_factory=dict)
    cluster: str = ""
    name: str = ""
    id: str = ""
    notes: list[str] = field(default_factory=list)
    stays: list[tuple[str, Any]] = field(default_factory=list)
    """Inputs that keep their values, by `adopt.keep` or because no key sets them."""
    changes: list[tuple[str, Any, Any]] = field(default_factory=list)
    """Inputs that the importing update changes in place: old and new value."""
    makes: dict[str, int] = field(default_factory=dict)
    """Number of resources that the importing update creates for it, by type."""

    def path(self, inner: str) -> str:
        """Return the path of an input of the pool's resource in `adopt.keep`."""
        return f"{self.outside.resource}.{inner}" if self.outside.beside else inner

    def compared(self, inputs: JsonObject) -> Iterator[tuple[str, EditEffect, Any, Any]]:
        """Yield the declared inputs of the pool's resource: path, effect of an edit, declared value, current value."""
        start = self.path("")
        for path, edit in self.cloud.node_pools.edits().inputs.items():
            own = path.removeprefix(start)
            if path.startswith(start) and (wanted := at(inputs, own)) is not None:
                yield own, edit.effect, wanted, at(self.found.inputs, own)

    def as_json(self) -> JsonDict:
        return {
            "pool": f"{self.cluster}/{self.name}",
            "cloud": self.cloud.name,
            "name": self.found.name,
            "id": self.id,
            "stays": [{"input": path, "value": _printable_value(path, value)} for path, value in self.stays],
            "changes": [
                {"input": path, "old": _printable_value(path, old), "new": _printable_value(path, new)}
                for path, old, new in self.changes
            ],
            "makes": self.makes,
            "notes": self.notes,
        }

    def as_text(self) -> Iterator[str]:
        yield f"{self.cluster}/{self.name}: {self.found.name} on {self.cloud.service}, import id {self.id}"
        yield from (f"  note: {note}" for note in self.notes)
        for path, value in self.stays:
            yield f"  keeps: {path} = {_word(path, value)}"
        for path, old, new in self.changes:
            yield f"  changes in place: {path} {_word(path, old)} → {_word(path, new)}"
        yield from (f"  creates: {count} × {kind}" for kind, count in self.makes.items())


def _printable_value(path: str, value: Any) -> Any:
    """Return a value for printing, with its size instead if it may be a secret."""
    public = path.rpartition(".")[2] in _PUBLIC
    inner = [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
    secret = [path, *(key for item in inner for key in flattened(item))]
    hides = not public and any(tellable(key, "text") != "text" for key in secret)
    return tellable(path, value) if hides else value


_PUBLIC = ("guestAccelerators", "oauthScopes", "httpTokens")
"""Inputs that are not secret, although their names suggest it."""


def _word(path: str, value: Any) -> str:
    told = _printable_value(path, value)
    return "(not set)" if value is None else told if told is not value else json.dumps(value, ensure_ascii=False)


def _unwritable(out: Path) -> Iterator[Problem]:
    if out.exists() or out.is_symlink():
        yield Problem((str(out),), "already exists", "use a new file")
    if not out.parent.is_dir():
        yield Problem((str(out),), "is in a folder that does not exist", "create the folder first")
    if not re.fullmatch(r"Pulumi\.[A-Za-z0-9_.-]+\.yaml", out.name):
        yield Problem((str(out),), "is not the name of a stack file", "use Pulumi.<stack>.yaml")


def _refused(pools: Sequence[_Pool], config: JsonDict) -> Sequence[Problem]:
    """Return the problems of the valid pools, to report them together with other problems."""
    try:
        if pools:
            _accepted(pools, config)
    except Rejected as rejected:
        return rejected.problems
    return ()


def _refuse_pools_of_another_stack(pools: Sequence[_Pool], config: JsonObject, out: Path) -> None:
    """Reject pools that a stack file beside the new one imports."""
    theirs: dict[tuple[Any, ...], str] = {}
    for file in sorted(out.parent.glob("Pulumi.*.yaml")):
        if says_ours(file):
            with suppress(Rejected):  # gpupools check reports its problems
                found = adopted_pools(check_stack_file(file, clouds()).plan)
                theirs |= {which: f"{key} of {file}" for which, key in found}
    ours = {key: which for which, key in adopted_pools(plan_config(config, clouds()))}
    known = [(pool, ours.get(f"{pool.cluster}/{pool.name}", ())) for pool in pools]
    fix = "remove it here; a pool belongs to one stack"
    problems = [
        Problem((pool.source, pool.found.name), f"is already imported as {theirs[which]}", fix)
        for pool, which in known
        if which in theirs
    ]
    if problems:
        raise Rejected(problems)


# --- reading ---


def _read(files: Iterable[Path], only: str | None, problems: list[Problem]) -> list[_Pool]:
    """Return all pools of all files; add the reasons why pools cannot be imported to `problems`."""
    before = len(problems)
    pools: list[_Pool] = []
    others: dict[str, JsonObject] = {}
    for path in files:
        told = len(others)
        try:
            found = list(_found(path, others))
        except Rejected as rejected:
            problems += [
                replace(problem, path=(str(path), *problem.path), fix=problem.fix or _INPUTS)
                for problem in rejected.problems
            ]
            continue
        if not found and len(others) == told:
            problems.append(Problem((str(path),), "has no node pool of a known cloud", _INPUTS))
        for cloud, outside, one in found:
            if only is None or cloud.name == only:
                pools.append(_Pool(str(path), cloud, outside, one))
            else:
                what = f"is a pool of {cloud.service}, not of {clouds()[only].service}"
                problems.append(Problem((str(path), one.name), what, "remove the file or --cloud"))
    pools = list(_resolved_pools(pools, others, problems))
    if not pools and len(problems) == before:
        problems.append(Problem((), "none of the files has a node pool with GPUs", _INPUTS))
    seen: dict[tuple[Any, ...], str] = {}
    for pool in pools:
        at = (*sorted(pool.found.cluster.items()), pool.found.name)
        if at in seen:
            problems.append(Problem((pool.source, pool.found.name), f"is also in {seen[at]}", "pass it once"))
        seen[at] = pool.source
    return pools


def _resolved_pools(
    pools: Sequence[_Pool], others: Mapping[str, JsonObject], problems: list[Problem]
) -> Iterator[_Pool]:
    """Yield the pools with GPUs and their keys, with references between files resolved."""
    for pool in pools:
        found = pool.outside.joined(pool.found, others)
        if found is None:
            continue
        try:
            own, keys = pool.outside.keys(found)
            for field in pool.cloud.node_pools.overridable[pool.outside.resource].keys:
                above, _, last = field.key.partition(".")
                if (value := value_at(found.inputs, *field.path)) is not None:
                    keys.setdefault(above, {})[last] = value
            managed = dict(keys.get("labels", {})).get(POOL_LABEL)
            if managed is not None:
                raise _managed(found, f"is already the pool {managed} of a gpupools stack")
            _read_labels(pool, found, keys)
            keys["adopt"] = {"name": found.name, **pool.outside.adopt(found)}
            _keep_gpu_taint(pool, keys)
        except Rejected as rejected:
            problems += [replace(problem, path=(pool.source, *problem.path)) for problem in rejected.problems]
            continue
        yield replace(pool, found=found, own=own, keys=keys, notes=[*found.notes, *pool.notes])


def _read_labels(pool: _Pool, found: Found, keys: JsonDict) -> None:
    """Set the sharing that labels of the nodes select, and the owner of the MIG manager that cuts the GPUs."""
    labels = dict(keys.get("labels", {}))
    mig, plugin = (str(labels.get(label) or "") for label in (MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL))
    row = pool.cloud.instance_types.find(keys["instance_type"])
    if row is None or not (mig or plugin):
        return
    from gpupools.plan.plugin_configs import read_sharing

    native = keys.get("sharing")
    try:
        sharing = read_sharing(row.gpu_model, native, plugin, mig)
    except ValueError as error:
        what = "write a stack file with sharing.layout and its adopt key, or leave it to the tool that manages it"
        raise refuse(found.name, str(error), what) from None
    if sharing is None:
        return
    keys["sharing"] = sharing
    keys["labels"] = {key: value for key, value in labels.items() if key not in (MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL)}
    ours = f"{row.gpu_model.lower()}-"
    if mig and not native and not mig.startswith(ours):
        pool.notes.append(f"the MIG manager's configuration must have {mig} also as {ours}{mig} before pulumi up")
    if mig and not native and keys.get("software") == "device-plugin":
        keys["software"] = "gpu-operator"  # only its MIG manager reads the label


def _keep_gpu_taint(pool: _Pool, keys: JsonDict) -> None:
    """Keep the value of the GPU taint that the nodes have, since pods may tolerate that value alone."""
    for text in list(keys.get("taints", ())):
        with suppress(ValueError):  # the check of the stack file reports other taints
            taint = parse_taint(text)
            if (taint.key, taint.effect) == (GPU_TAINT.key, GPU_TAINT.effect):
                keys["taints"].remove(text)
                keys["adopt"]["gpu_taint"] = taint.value
                pool.notes.append(kept_taint_note(taint))


def _found(path: Path, others: dict[str, JsonObject]) -> Iterator[tuple[Cloud, ExistingPools, Found]]:
    """Yield the pools of a description or a state; `others` takes what pools may refer to, by what it is found by."""
    text = read_text(path)
    data = text.values[0].data if text.values else None
    described = [item for item in (data if isinstance(data, list) else [data]) if isinstance(item, Mapping)]
    known = [(cloud, load()) for cloud in clouds().values() if (load := cloud.node_pools.existing_pools) is not None]
    read = [(cloud, outside, outside.described(item)) for item in described for cloud, outside in known]
    found = [(cloud, outside, one) for cloud, outside, one in read if one is not None]
    told = {key: value for item in described for _, outside in known for key, value in outside.referred(item).items()}
    others |= told
    if found or told or isinstance(data, list):
        yield from found
        return
    forms = [import_module(f"gpupools.audit.{name}") for name in ("terraform_state", "pulumi_state")]
    form = next((module_type for module_type in forms if module_type.recognises(data)), None)
    resources = form.read(text).resources if form is not None else ()
    ours = {resource.address for resource in resources if resource.type.startswith("gpupools:")}
    for resource in resources:
        for cloud, outside in known:
            others |= outside.referred_in_state(resource.type, resource.inputs, resource.id)
            one = outside.declared(resource.type, resource.inputs, resource.id)
            if one is not None and resource.parent in ours:
                raise _managed(one, "is already a pool of a gpupools stack")
            if one is not None:
                note = f"{resource.address} of {path} also manages it: remove it from that state before pulumi up"
                yield cloud, outside, replace(one, notes=(*one.notes, note))


def _managed(found: Found, what: str) -> Rejected:
    return Rejected([Problem((found.name,), what, "do not import it; a pool belongs to one stack")])


# --- the stack file ---


def _config(pools: Sequence[_Pool], served: Mapping[str, str], team: str | None) -> JsonDict:
    """Choose keys of clusters and pools, and return the configuration before the comparison."""
    clusters: dict[str, JsonDict] = {}
    keys: dict[tuple[Any, ...], str] = {}
    names: JsonDict = {}
    for pool in pools:
        place = tuple(sorted(pool.found.cluster.items()))
        if place not in keys:
            keys[place] = _free(pool.found.cluster["name"], clusters)
            runtime: JsonDict = {"management": "external"}
            clusters[keys[place]] = {**pool.found.cluster, **pool.own, "runtime": runtime}
        pool.cluster, pool.name = keys[place], _free(pool.found.name, names)
        existing = SERVED_BY.get(pool.keys.get("software", ""), "")
        if existing in served:
            clusters[pool.cluster]["runtime"].setdefault("existing", {})[existing] = served[existing]
        way = pool.keys.get("sharing", {})
        if team is not None and (way.get("mode") in SHARED_MODES or way.get("share")):
            pool.keys["trust"] = {"team": team}
        disk = pool.keys.get("disk_gib", _LEAST_DISK)
        if isinstance(disk, int) and disk < _LEAST_DISK:
            pool.keys["disk_gib"] = _LEAST_DISK
        names[pool.name] = {"clusters": [pool.cluster], **pool.keys}
    for cluster in clusters.values():
        for key in [key for key, value in cluster.items() if value is None]:
            del cluster[key]
    return {"clusters": clusters, "pools": names}


_LEAST_DISK = 100
"""Minimum of `disk_gib`; smaller disks are kept as they are."""


def _free(name: str, taken: JsonObject) -> str:
    """Return a unique key for a name."""
    bare = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
    bare = bare if bare[:1].isalpha() else f"p{bare}"
    ends = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(key for end in ends if (key := f"{bare[: 20 - len(end)].rstrip('-')}{end}") not in taken)


_OPTIONAL = ("labels", "taints", "tags", "zones", "image", "disk", "network", "security", "upgrade", "auto_repair")
"""Keys that can be omitted, so that their inputs are kept."""


def _fit(pools: Sequence[_Pool], config: JsonDict) -> None:
    """Describe the pools with keys and overrides as far as possible, and keep the other inputs."""
    plan = _accepted(pools, config)
    for pool, inputs in _declared(pools, plan):
        adopt = config["pools"][pool.name]["adopt"]
        adopt["keep"] = sorted(_kept(pool, inputs))
        overrides = _overrides(pool, inputs)
        if overrides:
            config["pools"][pool.name]["overrides"] = {pool.cloud.name: {pool.outside.resource: overrides}}
        if not adopt["keep"]:
            del adopt["keep"]
    plan = _accepted(pools, config)
    for pool, inputs in _declared(pools, plan):
        _record_differences(pool, inputs, frozenset(config["pools"][pool.name]["adopt"].get("keep", ())))


def _accepted(pools: Sequence[_Pool], config: JsonDict) -> StackPlan:
    """Return the plan of the stack, without settings that gpupools rejects."""
    by_name = {pool.name: pool for pool in pools}
    while True:
        try:
            return plan_config(config, clouds())
        except Rejected as rejected:
            problems = rejected.problems[::-1]  # the last item of a list first, so that indexes stay right
            dropped = [_dropped(config, problem) for problem in problems]
            if not any(dropped):
                raise Rejected(_with_option(problem, by_name) for problem in rejected.problems) from None
            for omitted, problem in zip(dropped[::-1], rejected.problems, strict=True):
                if omitted:
                    by_name[str(problem.path[1])].notes.append(f"{omitted} is omitted: {problem.what}")


def _dropped(config: JsonDict, problem: Problem) -> str:
    """Remove the key of a problem from a pool if it is optional, or what is above it; return the removed setting."""
    path = problem.path
    if path[:1] != ("pools",) or len(path) < 3 or path[2] not in (*_OPTIONAL, "overrides"):
        return ""
    for length in range(len(path), 2, -1):
        with suppress(LookupError, TypeError, AttributeError):  # only the first parts may be in the file
            removed = reduce(getitem, path[1 : length - 1], config["pools"]).pop(path[length - 1])
            named = (part for part in path[2:length] if isinstance(part, str))
            return f"{'.'.join(named)} {json.dumps(removed)}"
    return ""


def _with_option(problem: Problem, pools: Mapping[str, _Pool]) -> Problem:
    """Return a problem with the option that fixes it."""
    if problem.path[:1] != ("pools",) or str(problem.path[1]) not in pools:
        return problem
    pool, fix = pools[str(problem.path[1])], problem.fix
    served = SERVED_BY.get(str(pool.keys.get("software")))
    if problem.path[2:3] == ("trust",):
        fix = "set --team NAME"
    elif served and f"existing.{served}" in fix:
        fix = f"set what serves its GPUs: --{served.replace('_', '-')} NAME"
    return replace(problem, path=(pool.source, pool.found.name, *problem.path[2:]), fix=fix)


def _declared(pools: Sequence[_Pool], plan: StackPlan) -> Iterator[tuple[_Pool, JsonObject]]:
    """Yield the inputs that the stack program would declare for each pool."""
    problems = import_module("gpupools.preview.planned_resources").planned_resources(plan, NAMESPACE, "import").problems
    if problems:
        raise Rejected(problems)
    late = import_module("gpupools.preview.sdk_schema").UNKNOWN
    plans = {(pool.cluster, pool.name): pool for pool in plan.pools}
    for pool in pools:
        planned, node_pools, tokens = plans[pool.cluster, pool.name], pool.cloud.node_pools, pool.cloud.tokens()
        adopted = planned.provider_plan.adopted
        assert adopted is not None  # all pools of this file are imported
        pool.id = adopted.id
        keys = {key: value for key, value in plan.stack.clusters[pool.cluster] if value is not None}
        made = dict(node_pools.declared_inputs(planned, keys))
        own = made.pop(pool.outside.resource)
        # Of what no rule reads, such as tags, there is one for each key.
        counts = {tokens[kind]: 1 if kind in node_pools.registered else len(value) for kind, value in made.items()}
        pool.makes = {kind: count for kind, count in sorted(counts.items()) if count}
        yield pool, json.loads(json.dumps(own, sort_keys=True, default=lambda _: late))


# --- comparing ---


def _kept(pool: _Pool, inputs: JsonObject) -> Iterator[str]:
    """Yield the inputs whose declared value differs and would replace the pool's nodes."""
    for path, effect, wanted, has in pool.compared(inputs):
        # Lists in order, because azure-native compares them in order.
        if effect is not EditEffect.IN_PLACE and path not in _PLACE and wanted != has:
            yield pool.path(path)


_PLACE = frozenset(
    {"name", "cluster", "project", "location", "initialNodeCount"}
    | {"agentPoolName", "resourceName", "resourceGroupName", "nodeGroupName", "clusterName", "region"}
)
"""Inputs that identify the pool, and one that only matters at creation."""

_RUNNING = (("count",), ("scalingConfig", "desiredSize"))
"""Inputs with the current number of nodes, which updates leave to the autoscaler."""

_PLANS = ("autoscaling", "nodeCount")
"""Inputs that are reported as a whole."""


def _overrides(pool: _Pool, inputs: JsonObject) -> JsonDict:
    """Return overrides with the current values of inputs that have no key and can change in place."""
    found: JsonDict = {}
    resources = pool.cloud.node_pools.overridable
    for path, effect, wanted, has in pool.compared(inputs):
        keys = tuple(path.split("."))
        if effect is not EditEffect.IN_PLACE or keys == resources[pool.outside.resource].labels:
            continue  # labels are set by the pool's own
        for leaf, _, now in _differences(wanted, has, keys):
            nested: Any = reduce(lambda inner, key: {key: inner}, reversed(leaf), now)
            given = {pool.outside.resource: nested}
            if not override_problems(("pools", pool.name), given, pool.cloud.name, resources):
                above = reduce(lambda inner, key: inner.setdefault(key, {}), leaf[:-1], found)
                above[leaf[-1]] = now
    return found


def _record_differences(pool: _Pool, inputs: JsonObject, kept: frozenset[str]) -> None:
    """Record the inputs that keep their values, and those that the importing update changes."""
    kept = frozenset(start.removeprefix(pool.path("")) for start in kept)
    for path in sorted(kept):
        pool.stays.append((pool.path(path), at(pool.found.inputs, path)))
    for path, old in sorted(flattened(pool.found.inputs).items()):
        is_kept = any(f"{path}.".startswith(f"{start}.") for start in kept)
        if at(inputs, path) is None and not is_kept and path.partition(".")[0] not in _PLANS:
            pool.stays.append((pool.path(path), old))
    for path, old in sorted(flattened(pool.found.beside or {}).items()):
        pool.stays.append((f"{pool.outside.beside}.{path}", old))
    for path in _PLANS:
        wanted, has = inputs.get(path), pool.found.inputs.get(path)
        if isinstance(wanted, Mapping) or isinstance(has, Mapping):
            wanted, has = wanted or {}, has or {}
        for leaf, new, old in _differences(wanted, has, (path,)):
            pool.changes.append((pool.path(".".join(leaf)), old, new))
    for path, effect, wanted, has in pool.compared(inputs):
        keys = path.split(".")
        if keys[0] not in _PLANS and effect is EditEffect.IN_PLACE and path not in _PLACE:
            differences = (row for row in _differences(wanted, has, tuple(keys)) if row[0] not in _RUNNING)
            pool.changes += [(pool.path(".".join(leaf)), old, new) for leaf, new, old in differences]


def _differences(wanted: Any, has: Any, at: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield all paths at which two values differ, with both values; None means missing. Lists are compared as sets."""
    if isinstance(wanted, Mapping) and isinstance(has, Mapping):
        for key in sorted({*wanted, *has}):
            yield from _differences(wanted.get(key), has.get(key), (*at, key))
    elif isinstance(wanted, list) and isinstance(has, list):
        if sorted(map(_value_text, wanted)) != sorted(map(_value_text, has)):
            yield at, wanted, has
    elif wanted != has:
        yield at, wanted, has


def _value_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


# --- writing ---


def _write(out: Path, config: JsonObject) -> None:
    text = yaml.safe_dump(
        {"config": {f"{NAMESPACE}:{key}": value for key, value in config.items()}}, sort_keys=False, allow_unicode=True
    )
    write_new(out, text)
