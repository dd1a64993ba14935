"""Reads manifests as workloads: which objects make pods, how many, and which of them start together.

Where pods are is data, `data/workload_kinds.csv`: paths of keys from the object, and after `[]` (a list of roles) or
`{}` (a map of roles) from the role. `count` is a product of `path=default`, of `a|b` the first above 0, between two
other keys with `>=` and `<=`; `nodes` is one pod per node; `less` names the role whose pods are among these, `volumes`
the claims that each mounts.
`kueue`, `kai` and `volcano` say where the size of the gang is that each of them forms, the first that is there: an
annotation, a path, the sum of `least` (a count for each role), all pods, or `each` by itself; `?` where the controller
of the kind needs a setting. `alone` is that of a program that waits for its pods. `kueue_needs` is what Kueue's webhook
requires: paths and annotations with their values. `after` is where a role names those that have to end before it
starts, and `joined` the label of Pods that are one workload.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path as FilePath
from typing import Any

from gpupools.audit.document import Resource
from gpupools.audit.kubernetes import read, recognises
from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import Path, Problem, Rejected, dotted, shown
from gpupools.common.input_files import files_of
from gpupools.common.json_types import JsonObject, mapping
from gpupools.common.numbers import quantity, whole_number
from gpupools.common.structured_text import NotStructured, read_text
from gpupools.fit.workloads import CHANNEL, CLAIMED, Manifests, PodTemplate, Workload, maps
from gpupools.readback.inputs import at, string_map
from gpupools.stackfile.check import Located

_NO_PODS = ("k8s.io", "karpenter.sh", "scheduling.volcano.sh", "scheduling.run.ai")
"""Ends of the API groups without other kinds that make pods, beside the groups without a dot."""
_MOST = 2**31 - 1
"""Kubernetes counts in 32 bits."""
_RENDER = "check what it renders: helm template CHART > FILE"
_FILL = "fill in the variables first: envsubst < TEMPLATE > FILE"
_RENDER_PATCH = "check what it is a patch for: kubectl kustomize FOLDER > FILE"
_PATCH = f"that may be a patch, as no image is named ({_RENDER_PATCH})"
_NO_MANIFEST = "file without a Kubernetes object"
_GANGS = ("alone", "kueue", "kai", "volcano")
_FREE = frozenset({"command", "args", "env", "annotations", "lifecycle"})
"""Keys of a pod template whose braces are for the program in the container."""
_FACTOR = re.compile(r"(?P<path>[\w.|]+)=(?P<default>\d+)(?:>=(?P<least>[\w.]+))?(?:<=(?P<most>[\w.]+))?")
_WORDS = {dict: "a map", list: "a list", str: "a text", bool: "a boolean", int: f"a whole number from 0 to {_MOST}"}
_TEXT_MAPS = ("metadata.labels", "metadata.annotations", "spec.nodeSelector")
_AMOUNTS = ("spec.overhead", "spec.resources.limits", "spec.resources.requests")
_CONTAINERS = ("spec.containers", "spec.initContainers")
_PARTS: Mapping[type, Sequence[str]] = {
    dict: (*_TEXT_MAPS, *_AMOUNTS, "spec.affinity"),
    list: (*_CONTAINERS, "spec.tolerations", "spec.volumes", "spec.resourceClaims", "spec.topologySpreadConstraints"),
    str: ("spec.schedulerName", "spec.runtimeClassName", "spec.priorityClassName", "spec.nodeName"),
}
"""The parts of a pod template that are read, by type; the items of lists are maps."""

Row = Mapping[str, str]


_KINDS: Mapping[tuple[str, str], Sequence[Row]] = {
    key: list(rows) for key, rows in groupby(data_rows("workload_kinds.csv"), itemgetter("kind", "group"))
}
"""The rows of each kind and group, which are one below the other."""


def _keys(path: str) -> Path:
    return tuple(filter(None, path.split(".")))


def _is_rendered_later(value: Any, mark: str = "{{") -> bool:
    """Return whether a value has a placeholder of Helm; without quotes, `{{ x }}` is a map with a map as its key."""
    if isinstance(value, dict):
        return "?" in value or any(_is_rendered_later(inner, mark) for key, inner in value.items() if key not in _FREE)
    if isinstance(value, list):
        return any(_is_rendered_later(inner, mark) for inner in value)
    return isinstance(value, str) and mark in value


@dataclass(frozen=True)
class _Object:
    """An object whose values are checked as they are read; every problem is kept."""

    found: Resource
    file: str
    problems: dict[Located, None] = field(default_factory=dict)

    def line_of(self, at: Path) -> int | None:
        lines = self.found.lines
        return next((lines[at[:end]] for end in range(len(at), 0, -1) if at[:end] in lines), self.found.line)

    def tell(self, at: Path, what: str, fix: str) -> None:
        whole = " ".join(filter(None, (self.found.inputs["kind"], dotted(at))))
        self.problems[Located(FilePath(self.file), self.line_of(at), Problem((), f"{whole}: {what}", fix))] = None

    def value(self, at: Path, kind: type) -> Any:
        """Return a value of a type; None where it is absent, null or of another type."""
        found: Any = self.found.inputs
        if at and isinstance(at[-1], int):
            found = self.value(at[:-1], list)[at[-1]]
        elif at:
            found = (self.value(at[:-1], dict) or {}).get(at[-1])
        is_right = isinstance(found, kind)
        if kind is int and is_right:
            is_right = not isinstance(found, bool) and 0 <= found <= _MOST
        if found is not None and not is_right:
            fix = _RENDER if _is_rendered_later(found) else f"write {_WORDS[kind]}"
            self.tell(at, f"got {shown(found)}", _FILL if str(found).startswith("$") else fix)
        return found if is_right else None

    def amounts(self, at: Path) -> None:
        """Look at the amounts of resources; null is 0 for the API server."""
        for name, given in (self.value(at, dict) or {}).items():
            amount = quantity(given)
            if given is not None and (amount is None or amount < 0) and "$" not in str(given):
                self.tell((*at, name), f"got {shown(given)}", "write a quantity such as 1, 500m or 4Gi")

    def count(self, factors: str, base: Path = ()) -> int | None:
        """Return a product of numbers; None for one pod per node."""
        total = 1
        for factor in filter(None, map(_FACTOR.fullmatch, factors.split())):
            least, most, *found = (
                key and self.value((*base, *_keys(key)), int)
                for key in (factor["least"], factor["most"], *factor["path"].split("|"))
            )
            first = next(filter(None, found), found[-1])
            number = max(int(factor["default"] if first is None else first), least or 0)
            total *= min(number, number if most is None else int(most))
        return None if factors == "nodes" else total

    def places(self, row: Row) -> Iterator[tuple[str, Path, Path]]:
        """Yield name of the role, path of the role and path of its pod template."""
        mark = "[]" if "[]" in row["template"] else "{}"
        path, rest = map(_keys, row["template"].partition(mark)[::2])
        if mark not in row["template"]:
            yield row["role"], (), path
            return
        roles = self.value(path, list if mark == "[]" else dict) or ()
        for key in roles if isinstance(roles, dict) else range(len(roles)):
            yield self.value((*path, key, row["role"]), str) or str(key), (*path, key), (*path, key, *rest)

    def pod(self, at: Path, role: str, count: int | None, row: Row, least: int = 0) -> PodTemplate:
        """Return a pod template, after a look at the types of its parts."""
        template = self.value(at, dict)
        is_rendered = template is not None and _is_rendered_later([template.get("metadata"), template.get("spec")])
        if is_rendered:
            self.tell(at, "has a placeholder", _RENDER)
        if template is None or is_rendered:
            return PodTemplate(role, None, {}, {})
        for kind, path in ((kind, (*at, *_keys(name))) for kind, names in _PARTS.items() for name in names):
            part, name = self.value(path, kind) or (), ".".join(map(str, path[len(at) :]))
            for key in part if name in _TEXT_MAPS else ():
                self.value((*path, key), str)
            for index in range(len(part)) if kind is list else ():
                if self.value((*path, index), dict) is None and part[index] is None:
                    self.tell((*path, index), "got null", f"write {_WORDS[dict]}")
                for key in ("limits", "requests") if name in _CONTAINERS else ():
                    self.amounts((*path, index, "resources", key))
            if name in _AMOUNTS:
                self.amounts(path)
        spec = mapping(template.get("spec"))
        boxes = [*maps(spec.get("containers")), *maps(spec.get("initContainers"))]
        asked = [spec.get("nodeSelector"), spec.get("affinity"), *(each.get("resources") for each in boxes)]
        if _is_rendered_later(asked, "$"):
            self.tell((*at, "spec"), "has a variable in a selector or among resources", _FILL)
        if not spec.get("containers", True):
            self.tell((*at, "spec"), "has no containers", "give at least one container")
        named, _, default = row["scheduler"].partition("=")
        if named and not spec.get("schedulerName"):
            spec = {**spec, "schedulerName": self.value(_keys(named), str) or default}
        if row["volumes"] and self.value(_keys(row["volumes"]), list):
            claim = {"name": row["volumes"], "persistentVolumeClaim": {}}
            spec = {**spec, "volumes": [*(self.value((*at, "spec", "volumes"), list) or ()), claim]}
        return PodTemplate(role, self.line_of(at), mapping(template.get("metadata")), spec, count, least)

    def written(self, word: str, kind: type, row: Row) -> Any:
        """Return what is at a path, or what an annotation or a label has, of which the name has a `/`."""
        if "/" not in word:
            return self.value(_keys(word), kind)
        places = ((*_keys(row["metadata"] or "metadata"), part, word) for part in ("annotations", "labels"))
        return next(filter(None, (self.value(place, str) for place in places)), None)

    def gang(self, column: str, row: Row, pods: int, least: int) -> int:
        """Return the size of the gangs, of which a column says where it is; 0 where each pod starts by itself."""
        for word in row[column].split():
            size = {"each": 0, "all": pods, "least": least}.get(word)
            if size is None and (found := self.written(word, int, row)):
                size = whole_number(found) if isinstance(found, str) else found
                if not size:
                    self.tell((), f"got {shown(found)} for {word}", "write a number of pods, as text")
                elif size > pods and not row["joined"]:
                    self.tell((), f"starts with {size} pods at once, by {word}, and makes {pods}", "lower the first")
            if size is not None:
                return int(size) if size > 1 else 0
        return 0

    def ended(self, row: Row, base: Path, before: Mapping[str, frozenset[str]]) -> frozenset[str]:
        """Return the roles whose pods have ended when those of a role start, from those of the roles above it."""
        found: set[str] = set()
        for each in maps(self.value((*base, *_keys(row["after"])), list)) if row["after"] else ():
            name = str(each.get("name"))
            found |= {name, *before.get(name, ())} if each.get("status") == "Complete" else before.get(name, set())
        return frozenset(found)

    def unmet(self, row: Row) -> Iterator[str]:
        """Yield what Kueue's webhook requires, and the object does not have."""
        for need in row["kueue_needs"].split():
            ways = [way.split("=") for way in need.split("|")]
            has = [self.written(word, bool, row) for word, _ in ways]
            if not any(str(got or False).lower() == value for got, (_, value) in zip(has, ways, strict=True)):
                yield " or ".join(f"{word}: {value!r}" if "/" in word else f"{word}: {value}" for word, value in ways)


def _workload(given: _Object, namespace: str) -> Workload | None:
    """Return the workload that an object is; None where it makes no pods in a way that is known."""
    item, kind = given.found.inputs, given.found.inputs["kind"]
    rows = _KINDS.get((kind, item["apiVersion"].rpartition("/")[0]), ())
    first = rows[0] if rows else defaultdict[str, str](str)
    templates = [given.pod(path, dotted(path[:-1]), 1, first) for path in (() if rows else _templates_in(item, ()))]
    if not rows and not templates:
        return None
    name = given.value(("metadata", "name"), str) or given.value(("metadata", "generateName"), str) or ""
    if not name:
        given.tell(("metadata",), "has no name", "add metadata.name")
    joined = (first["joined"] and given.written(first["joined"], str, first)) or ""
    pods, ended = dict[str, int](), dict[str, frozenset[str]]()
    together, least, unknown, is_patch = 0, 0, "", False
    for row, (role, base, path) in ((each, place) for each in rows for place in given.places(each)):
        if row["template"] and given.value(path, object) is not None:
            count = given.count(row["count"], base)
            count = count and max(0, count - pods.get(row["less"], 0))
            pods[role] = count or 0
            is_of_gang = any(row[column] for column in _GANGS)
            own = min(pods[role], (given.count(row["least"], base) or 0) if row["least"] else pods[role]) * is_of_gang
            ended[role] = given.ended(row, base, ended)
            template = given.pod(path, role or (name if joined else ""), count, row, own)
            is_later = bool(row["after"] and given.value((*base, *_keys(row["after"])), list))
            templates.append(replace(template, after=ended[role], is_later=is_later))
            together, least = together + pods[role] * is_of_gang, least + own
        elif row["unknown"]:
            unknown = row["unknown"]
        else:
            is_patch |= not row["optional"]
    if not (templates or unknown or is_patch or given.problems):
        given.tell((), "has no pod template", f"add {first['template']}")
    # Without an image the API server takes a template only as a part of a patch.
    has_images = (any(each.get("image") for each in maps(one.spec.get("containers"))) for one in templates)
    if is_patch or (first["template"] not in ("", ".") and not all(has_images)):
        unknown = _PATCH
    queue, _, default = first["queue"].partition("=")
    return Workload(
        kind,
        joined or name,
        given.value(("metadata", "namespace"), str) or namespace,
        given.file,
        given.found.line,
        given.value(_keys(first["metadata"] or "metadata"), dict) or {},
        () if unknown else tuple(templates),
        {} if unknown else {each: given.gang(each, first, together, least) for each in _GANGS if first[each]},
        frozenset(each for each in _GANGS if first[each].endswith("?")),
        given.count(first["groups"]) or 0,
        (queue and given.written(queue, str, first)) or default,
        "" if rows else f"{kind} is not known: each of its pod templates is read as one pod",
        unknown,
        tuple(given.unmet(first)),
        joined,
    )


def _joined(group: Workload, one: Workload) -> Workload:
    """Return a group of Pods with one more."""
    pods, size = (*group.templates, *one.templates), one.gangs["kueue"]
    note = f"Kueue waits for {size} pods of the group, of which {len(pods)} are in the file"
    return one._replace(templates=pods, note=note if size > len(pods) else "")


def _templates_in(value: Any, at: Path) -> Iterator[Path]:
    """Yield the paths of the pod templates inside a value."""
    if isinstance(value, dict) and isinstance(mapping(value.get("spec")).get("containers"), list):
        yield at
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _templates_in(item, (*at, key))


def read_manifests(paths: Sequence[FilePath], namespace: str) -> Manifests:
    """Read files, folders and standard input (`-`).

    Args:
        paths: YAML and JSON files of Kubernetes objects, and folders; files of a folder that have none are skipped.
        namespace: Namespace of the objects that name none.

    A file or an object with a problem is left out; several files may have objects of one name, as overlays do. Files
    that have nothing but patches are a problem if they are named, and not if they are in a folder.
    """
    problems, workloads = dict[Located, None](), dict[tuple[str, ...], Workload]()
    claims, namespaces = dict[tuple[str, str, str], JsonObject](), dict[str, Mapping[str, str]]()
    webhooks, not_read, patches = list[str](), Counter[str](), dict[Located, None]()
    for file, found in _resources(paths, problems, not_read):
        item, given = found.inputs, _Object(found, file)
        kind, group = item["kind"], item["apiVersion"].rpartition("/")[0]
        metadata = mapping(item.get("metadata"))
        name, own = str(metadata.get("name")), str(metadata.get("namespace") or namespace)
        workload = _workload(given, namespace)
        problems |= given.problems
        if given.problems:
            continue
        if workload is not None and workload.unknown == _PATCH:
            not_read[f"{kind} {_PATCH}"] += 1
            if FilePath(file) in paths:
                given.tell((), "names no image, so nothing is judged", f"add the image, or {_RENDER_PATCH}")
                patches |= given.problems
        elif workload is not None:
            key = (file, kind, group, own, name if metadata.get("name") else f"{workload.place} {len(workloads)}")
            if workload.joined:
                key = (*key[:-1], f"group {workload.joined}")
                workloads[key] = workload = _joined(workloads.get(key, workload._replace(templates=())), workload)
            if workloads.setdefault(key, workload) is not workload:
                what = f"{kind} {name} is also at {workloads[key].place}"
                problems[Located(FilePath(file), workload.line, Problem((), what, "keep one"))] = None
        elif kind in CLAIMED:
            claims[kind, own, name] = mapping(at(item, CLAIMED[kind]))
        elif kind == "ComputeDomain":
            claims["ResourceClaimTemplate", own, str(at(item, "spec.channel.resourceClaimTemplate.name"))] = CHANNEL
        elif (kind, group) == ("Namespace", ""):
            namespaces[name] = string_map(metadata.get("labels"))
        elif kind == "MutatingWebhookConfiguration":
            webhooks += [name] if _changes_pods(item) else []
        elif "." in group and not group.endswith(_NO_PODS):
            not_read[f"{kind}.{group}"] += 1
    problems = problems if workloads or problems else patches
    return Manifests(tuple(workloads.values()), claims, namespaces, tuple(webhooks), not_read, tuple(problems))


def _changes_pods(item: JsonObject) -> bool:
    """Return whether a MutatingWebhookConfiguration has a rule for new pods."""
    rules = [rule for hook in maps(item.get("webhooks")) for rule in maps(hook.get("rules"))]
    wanted = (("apiGroups", {"", "*"}), ("resources", {"pods", "*", "*/*"}), ("operations", {"CREATE", "*"}))
    lists = [[(rule.get(key), words) for key, words in wanted] for rule in rules]
    return any(all(isinstance(found, list) and words & set(map(str, found)) for found, words in each) for each in lists)


def _resources(
    paths: Sequence[FilePath], problems: dict[Located, None], not_read: Counter[str]
) -> Iterator[tuple[str, Resource]]:
    """Yield the objects of files with the name of their file, and keep what is wrong with a file or not read."""
    listed = [(path, *files_of(path)) for path in dict.fromkeys(paths)]
    for file, is_searched in ((file, is_searched) for path, files, is_searched in listed for file in files):
        try:
            if is_searched and file.is_dir():
                continue  # of Terraform
            text = read_text(file, without="CustomResourceDefinition" if is_searched else "")
            if is_searched and not any(recognises(value.data) for value in text.values):
                not_read[_NO_MANIFEST] += 1
                continue
            found = read(text).resources
            if not found:
                raise Rejected([Problem((), "has no Kubernetes object", "name a file of manifests")])
            yield from ((str(file), each) for each in found)
        except Rejected as rejected:
            is_template = any("helm" in each.fix for each in rejected.problems)
            if is_searched and isinstance(rejected, NotStructured) and not is_template:
                not_read[f"file that is neither JSON nor YAML: {file}"] += 1
                continue
            for each in rejected.problems:
                what = f"{each.key}: {each.what}" if each.path else each.what
                problems[Located(file, None, replace(each, path=(), what=what))] = None
