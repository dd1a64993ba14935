"""Write the generated parts of the documentation from the code and its data.

Rewrites the text between `<!-- generated: NAME -->` and `<!-- end -->` in the pages under docs/; with `--check` it
writes nothing, lists stale pages and exits with 1. Needs no network.

Descriptions of keys come from the docstrings below the fields in the source; keeping them in pydantic would slow down
the start of every command.
"""

import argparse
import ast
import csv
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from os.path import relpath
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpupools.audit.arm_template import POOLS as ARM_TYPES
from gpupools.audit.cloudformation_template import TYPES as CLOUDFORMATION_TYPES
from gpupools.audit.terraform_names import terraform_names
from gpupools.audit.terraform_resources import types_read as terraform_types
from gpupools.catalog.glossary import NEEDS_HEADERS, sharing_needs, words
from gpupools.catalog.gpus import gpu_models
from gpupools.catalog.instance_types import InstanceType
from gpupools.catalog.mig import profiles
from gpupools.cli.main import COMMANDS, GROUPS, parser
from gpupools.common.csv_rows import data_rows
from gpupools.common.taints import Taint
from gpupools.fit.workloads import REASONS
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import EditTables
from gpupools.plan.matrix import MatrixRow, matrix
from gpupools.plan.pool_planner import check_pool
from gpupools.plan.provider_plan import PoolRequest
from gpupools.policies.finding import Rule
from gpupools.policies.kinds import is_read
from gpupools.policies.kinds import rows as kind_rows
from gpupools.policies.rules import ALL_RULES
from gpupools.providers import clouds
from gpupools.readback.kubernetes_pools import kinds_read
from gpupools.readback.registry import type_readers
from gpupools.ready.causes import CAUSES, SIGNALS, Signal
from gpupools.ready.snapshot import READS
from gpupools.software.charts import charts
from gpupools.spec.models import SHARING_KINDS, Late, Mig, Nodes, PoolSpec, Sharing, StackOutput, StackPool
from gpupools.spec.pool_options import SETTING_MODELS, SETTINGS, Capacity
from gpupools.spec.software_spec import RuntimeSpec, Trust
from gpupools.spec.teams import Team
from gpupools.stackfile.steps import LISTS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
_DATA = ROOT / "gpupools" / "data"

_MARK = "<!-- generated:"
_PART = re.compile(r"(?P<begin><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<end>^<!-- end -->$)", re.DOTALL | re.M)


# --- pages ------------------------------------------------------------------------------------------------------------


class BadPage(Exception):
    """A marker on a page names an unknown part, or has no end."""


def regenerated(page: str) -> str:
    """Return a page's text with every generated part regenerated.

    Raises:
        BadPage: A part is unknown or has no end.
    """

    def part(match: re.Match[str]) -> str:
        if match["name"] not in PARTS:
            raise BadPage(f"unknown part {match['name']!r}; use one of: {', '.join(PARTS)}")
        return f"{match['begin']}\n{PARTS[match['name']]()}\n\n{match['end']}"

    if page.count(_MARK) != len(_PART.findall(page)):
        raise BadPage("a generated part has no line `<!-- end -->`, or its name has other characters than a-z and -")
    return _PART.sub(part, page)


def addressed(text: str, address: str) -> str:
    """Return a text with the repository's address wherever one of a repository of this name stands."""
    slug = "/".join(address.rsplit("/", 2)[-2:])
    text = re.sub(r"https://[\w.-]+/[\w.-]+/gpupools(?=[@\s\"]|$)", address, text, flags=re.MULTILINE)
    return re.sub(r"(?<![/\w])[\w.-]+/gpupools(?=@RELEASE)|(?<=--repo )[\w.-]+/gpupools", slug, text)


ADDRESS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
"""Address of the repository."""


def written() -> list[Path]:
    """Return the pages, and the other files that have the address."""
    others = [ROOT / "README.md", ROOT / "templates" / "project" / "requirements.txt"]
    return [*sorted(DOCS.rglob("*.md")), *sorted((ROOT / "examples" / "ci").glob("*.yml")), *others]


def stale(pages: Iterable[Path], address: str = ADDRESS) -> dict[Path, str]:
    """Return the pages whose generated parts differ from the code, with the text they should have."""
    found = {}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        try:
            wanted = addressed(regenerated(text), address)
        except BadPage as error:
            raise BadPage(f"{page}: {error}") from None
        if wanted != text:
            found[page] = wanted
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the stale pages, or with `--check` only name them; return 1 when the check fails, 2 for a bad page."""
    parser = argparse.ArgumentParser(description="Write the generated parts of docs/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    check = parser.parse_args(arguments).check
    try:
        found = stale(written())
    except BadPage as error:
        print(error, file=sys.stderr)
        return 2
    for page, text in found.items():
        print(f"{page}: {'stale; run python tooling/write_docs.py' if check else 'written'}")
        if not check:
            page.write_text(text, encoding="utf-8")
    return 1 if check and found else 0


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    def line(cells: Sequence[object]) -> str:
        return f"| {' | '.join(map(_cell, cells))} |"

    return "\n".join([line(headers), line(["---"] * len(headers)), *map(line, rows)])


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|") or " "


def _code(words: Iterable[object]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# --- the stack file ---------------------------------------------------------------------------------------------------


@cache
def field_texts(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstring below each field of a model's own class, by field, as one line."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            texts[field.target.id] = " ".join(below.value.value.split())
    return MappingProxyType(texts)


def meaning(model: type[BaseModel], key: str) -> str:
    """Return the meaning of a key: its docstring in the class that declares it.

    Without one, return the summary of the class for a tag such as `mode`, and of the model for a key with a model.

    Raises:
        LookupError: The key has no docstring.
    """
    for owner in model.__mro__:
        if issubclass(owner, BaseModel) and key in inspect.get_annotations(owner):
            annotation = owner.model_fields[key].annotation
            members = get_args(annotation) or (annotation,)
            if key in field_texts(owner):
                return field_texts(owner)[key]
            if get_origin(annotation) is Literal:
                return _summary(owner)
            if all(isinstance(member, type) and issubclass(member, BaseModel) for member in members):
                tags = [f"`mode: {_mode(member)}`" for member in members if "mode" in member.model_fields]
                return f"A map with {' or '.join(tags)}." if tags else _summary(members[0])
            break
    raise LookupError(f"{model.__name__}.{key} has no docstring")


def _summary(model: type[BaseModel]) -> str:
    return (inspect.getdoc(model) or "").partition("\n\n")[0]


def form(annotation: Any, bounds: Sequence[object] = ()) -> str:
    """Return the values that a type accepts, in words.

    Args:
        annotation: The type, as pydantic keeps it.
        bounds: Its constraints, as pydantic keeps them.

    Raises:
        LookupError: The type has no words yet.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        more = [item for entry in arguments[1:] for item in getattr(entry, "metadata", [entry])]
        return form(arguments[0], more)
    if origin in (Union, UnionType):
        members = [member for member in arguments if member is not type(None) and _bare(member) is not Late]
        return " or ".join(dict.fromkeys(form(member) for member in members))
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is list:
        item = form(arguments[0])
        return f"list (each {item})" if " or " in item else f"list of {item}"
    if origin is dict:
        return f"map of {form(arguments[0])} to {form(arguments[1])}"
    if annotation is int:
        return f"integer{_range(bounds)}"
    if isinstance(annotation, type) and issubclass(annotation, StackOutput):
        return "`{output: …}`"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "map"
    words = {
        Any: "any value",
        float: "number",
        str: "string",
        bool: "`true` or `false`",
        Fraction: "integer, or string such as `'1/4'`",
        Taint: "string",
    }
    if annotation in words:
        return words[annotation]
    raise LookupError(f"no words for {annotation!r}")


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _range(bounds: Sequence[object]) -> str:
    least = next((bound.ge for bound in bounds if isinstance(bound, Ge)), None)
    most = next((bound.le for bound in bounds if isinstance(bound, Le)), None)
    if most is not None:
        return f" ({most} at most)" if least is None else f" ({least} to {most})"
    return f" ({least} or more)" if least is not None else ""


def _left_out(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if default is None:
        return "not set"
    if default in ({}, []):
        return "none"
    if isinstance(default, BaseModel):
        return f"`{_yaml(default.model_dump(exclude_none=True))}`" if default.model_dump(exclude_none=True) else "none"
    return f"`{_yaml(default)}`"


def _yaml(value: object) -> str:
    """Return a default as YAML on one line, without empty values."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_yaml(item)}' for key, item in value.items() if item not in ({}, []))}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _keys(model: type[BaseModel], first: Sequence[str] = ()) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, form, default and meaning; the keys of `first` before the others, which keep the model's order."""
    fields = model.model_fields
    for key in [*first, *(key for key in fields if key not in first)]:
        field = fields[key]
        yield f"`{key}`", form(field.annotation, field.metadata), _left_out(field), meaning(model, key)


_KEY_HEADERS = ("Key", "Value", "Default", "Meaning")


def _pool_keys() -> str:
    rows = list(_keys(StackPool, ["clusters"]))
    for index, (key, value, default, text) in enumerate(rows):
        if key.strip("`") in LISTS:
            rows[index] = (key, f"{value}, or list", default, f"{text} A list: {STEPS_TEXT}.")
    return _table(_KEY_HEADERS, rows)


STEPS_TEXT = "steps that are tried in this order, each a pool of its own"


def _team_keys() -> str:
    return _table(_KEY_HEADERS, _keys(Team))


def _nodes_keys() -> str:
    return _table(_KEY_HEADERS, _keys(Nodes))


def _sharing_keys() -> str:
    rows = []
    for model in get_args(get_args(Sharing)[0]):
        for key, write, left_out, text in _keys(model):
            rows.append((f"`mode: {_mode(model)}`", "", "", text) if key == "`mode`" else (key, write, left_out, text))
    return _table(_KEY_HEADERS, rows)


def _settings_keys() -> str:
    """Return one table for each key of a pool that is a map."""
    parts = []
    for name, models in (
        ("capacity", get_args(get_args(Capacity)[0])),
        *((key, (model,)) for key, model in SETTING_MODELS.items()),
        ("trust", (Trust,)),
    ):
        rows = []
        for model in models:
            for key, write, left_out, text in _keys(model):
                if key == "`mode`":
                    rows.append((f"`mode: {_mode(model)}`", "", "", text))
                else:
                    rows.append((key, write, left_out, text))
        parts.append(f"`{name}`:\n\n{_table(_KEY_HEADERS, rows)}")
    return "\n\n".join(parts)


def _settings_by_cloud() -> str:
    """Return what each setting becomes on each cloud, or why it is refused there."""
    known = clouds()
    rows = []
    for name in SETTINGS:
        cells = []
        for cloud in known.values():
            setting = cloud.node_pools.settings.get(name)
            prefix = "" if setting is None or setting.supported else "refused: "
            cells.append("not yet" if setting is None else f"{prefix}{setting.why}")
        rows.append((f"`{name}`", *cells))
    return _table(("Setting", *(cloud.service for cloud in known.values())), rows)


def _runtime_keys() -> str:
    return _table(_KEY_HEADERS, _keys(RuntimeSpec))


def _charts() -> str:
    """List the pinned charts with the oldest versions of Kubernetes and of the driver that they need."""
    with (_DATA / "requirements.csv").open(encoding="utf-8", newline="") as file:
        needs = [(row["of"], f"{row['needs']} {row['at_least']}") for row in csv.DictReader(file, strict=True)]
    rows = []
    for each in charts().values():
        floors = [need.replace("kubernetes", "Kubernetes") for chart, need in needs if chart == each.chart]
        rows.append((f"`{each.chart}`", each.version, f"`{each.namespace}`", ", ".join(floors), _linked(each.source)))
    return _table(("Chart", "Version", "Namespace", "Needs at least", "Source"), rows)


_EDITS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("`instance_type`, with the same GPUs", {"aws": "instance_type", "azure": "instance_type", "gcp": "machine_type"}),
    ("`gpu`, `gpus_per_node`", {"aws": "instance_type", "azure": "instance_type", "gcp": "accelerator_type"}),
    ("`labels`", {"aws": "labels", "azure": "labels", "gcp": "labels"}),
    ("`taints`", {"aws": "taints", "azure": "taints", "gcp": "taints"}),
    ("`nodes`", {"aws": "nodes.max", "azure": "nodes.max", "gcp": "nodes.max"}),
    ("`disk_gib`", {"aws": "disk_gib", "azure": "disk_gib", "gcp": "disk_gib"}),
    ("`disk.type`", {"aws": "volumes", "azure": "os_disk_type", "gcp": "boot_disk_type"}),
    ("`disk.encryption_key`", {"aws": "volumes", "gcp": "boot_disk_key"}),
    ("`image.family`", {"aws": "ami_type", "azure": "os_sku", "gcp": "image_type"}),
    ("`image.fips`", {"aws": "ami_type", "azure": "fips"}),
    ("`capacity`: on demand or spot", {"aws": "capacity_type", "azure": "spot_max_price", "gcp": "spot"}),
    (
        "`capacity.name` of a reservation",
        {"aws": "reservation_id", "azure": "capacity_reservation_group_id", "gcp": "reservation"},
    ),
    ("`zones`", {"aws": "cluster.subnet_ids", "azure": "availability_zones", "gcp": "zones"}),
    (
        "MIG profile set by the cloud",
        {"aws": "user_data", "azure": "gpu_instance_profile", "gcp": "gpu_partition_size"},
    ),
    ("replicas set by the cloud", {"aws": "user_data", "gcp": "max_shared_clients_per_gpu"}),
    ("`network.max_pods`", {"aws": "user_data", "azure": "max_pods", "gcp": "max_pods"}),
    ("`network.placement`", {"aws": "placement_group", "azure": "compact", "gcp": "compact"}),
    ("`network.rdma`", {"aws": "interfaces", "azure": "labels", "gcp": "network_profile"}),
    ("`security.imds_hop_limit`", {"aws": "imds_hop_limit"}),
    ("`security.secure_boot`", {"azure": "secure_boot", "gcp": "secure_boot"}),
    ("`upgrade`", {"aws": "max_unavailable", "azure": "max_unavailable", "gcp": "upgrade"}),
    ("`auto_repair`", {"aws": "auto_repair", "gcp": "auto_repair"}),
    ("`tags`", {"aws": "tags", "azure": "tags", "gcp": "resource_labels"}),
    ("`first_name`", {"aws": "first_name", "azure": "first_name", "gcp": "first_name"}),
    ("`timeouts`", {"aws": "create_timeout_minutes", "azure": "create_min", "gcp": "create_min"}),
    ("`name` of the cluster", {"aws": "cluster.name", "azure": "cluster.name", "gcp": "cluster.name"}),
)
"""Edits of a stack file, each with the field of a cloud's plan that it changes; none if the cloud lacks the setting."""


def _edits_by_cloud() -> str:
    known = clouds()
    tables = {name: cloud.node_pools.edits() for name, cloud in known.items()}
    rows = [
        (edit, *(_effect(tables[name], fields[name]) if name in fields else "-" for name in known))
        for edit, fields in _EDITS
    ]
    return _table(("Edit", *(cloud.service for cloud in known.values())), rows)


def _effect(tables: EditTables, field: str) -> str:
    """Return the usual effect of a changed field of a plan, leaving out the rows for special cases."""
    rows = [row for row in tables.plan if row.field == field]
    usual = [row for row in rows if row.when == "adopted=None"] or [row for row in rows if not row.when]
    return tables.edit_by(usual[0], usual[0].inputs).effect.value


def _mode(model: type[BaseModel]) -> str:
    return str(get_args(model.model_fields["mode"].annotation)[0])


def _cluster_keys() -> str:
    parts = []
    for cloud in clouds().values():
        table = _table(_KEY_HEADERS, _keys(cloud.cluster, ["cloud", "name"]))
        parts.append(f"### {cloud.service}: `cloud: {cloud.name}`\n\n{table}")
    return "\n\n".join(parts)


def _default_software() -> str:
    def cell(cloud: Cloud, kind: str) -> str:
        software = cloud.default_software[kind]
        return "refused" if cloud.capabilities[software, kind].verdict is Verdict.REFUSED else f"`{software}`"

    known = clouds().values()
    return _table(
        ["Sharing", *(cloud.service for cloud in known)],
        [(f"`{kind}`", *(cell(cloud, kind) for cloud in known)) for kind in SHARING_KINDS],
    )


def _owners() -> str:
    return _table(
        ["Cloud", "`software`", "Driver", "Container toolkit", "Device plugin"],
        [
            (cloud.service, f"`{name}`", each.owners.driver, each.owners.container_toolkit, each.owners.device_plugin)
            for cloud in clouds().values()
            for name, each in cloud.software.items()
            if any(cloud.capabilities[name, kind].verdict is not Verdict.REFUSED for kind in SHARING_KINDS)
        ],
    )


def _dated_tables() -> str:
    """List the tables of facts that change, with the dates of their rows."""
    rows = []
    for name, cloud in clouds().items():
        for file, column in cloud.dated_tables():
            with file.open(encoding="utf-8", newline="") as opened:
                dates = sorted(row[column] for row in csv.DictReader(opened))
            span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
            rows.append((name, f"[{file.name}]({relpath(file, DOCS / 'reference')})", str(len(dates)), span))
    return _table(["Cloud", "Table", "Rows", "Dates"], rows)


def _reserved_keys(labels: bool) -> str:
    """List the reserved keys of each cloud, in the order of the rules, because the first match counts."""
    rows = []
    for cloud in clouds().values():
        rules = cloud.reserved_labels if labels else cloud.reserved_taints
        alike: dict[tuple[str, str], list[str]] = {}
        for rule in rules:
            alike.setdefault((rule.why or "may be set", rule.source), []).append(rule.pattern)
        rows += [(cloud.service, _code(patterns), why, source) for (why, source), patterns in alike.items()]
    return _table(["Cloud", "Keys", "Such a key", "Source"], rows)


def _kept() -> str:
    """List the inputs that overrides may not set, those with the same fix in one row."""
    rows = []
    for cloud in clouds().values():
        for name, resource in cloud.node_pools.overridable.items():
            alike: dict[str, list[str]] = {}
            for path, instead in resource.kept.items():
                alike.setdefault(instead, []).append(".".join(path))
            rows += [(f"`{name}`", _code(paths), instead) for instead, paths in alike.items()]
    return _table(["Resource", "Inputs", "Reason, and what to set"], rows)


# --- the catalogue ----------------------------------------------------------------------------------------------------


def _counts() -> str:
    lifecycles = ("current", "preview", "previous-generation", "retired")
    rows = []
    for cloud in clouds().values():
        types = cloud.instance_types.values()
        counts = Counter(row.lifecycle for row in types)
        checked = sorted({row.checked for row in types})
        dates = checked[0] if len(checked) == 1 else f"{checked[0]} to {checked[-1]}"
        rows.append((cloud.service, len(types), *(counts[word] for word in lifecycles), dates))
    return _table(["Cloud", "Rows", *lifecycles, "Checked"], rows)


def _sources() -> str:
    rows = []
    for cloud in clouds().values():
        counts = Counter(_place(row.source) for row in cloud.instance_types.values())
        rows += [(cloud.service, number, place) for place, number in counts.most_common()]
    return _table(["Cloud", "Rows", "Source"], rows)


def _place(source: str) -> str:
    """Return the site, repository or module of a row's first source."""
    first, *path = source.split()
    address = re.match(r"https://(?P<site>[^/]+)/(?P<path>.*)", first)
    if address is None:
        return f"`{first}` {path[0]}" if path else f"`{first}`"
    if address["site"] == "github.com":
        return f"`{'/'.join(address['path'].split('/')[:2])}`"
    return address["site"]


_NOT_VERIFIED = {
    "third-party": "a third party only",
    "derived": "derived from a model of the same family",
    "unverified": "no public source found",
    "": "no public source found",
}


def _unverified_models() -> str:
    rows = [
        (f"`{model.name}`", "model, memory, compute capability", _NOT_VERIFIED[model.status], model.note or " ")
        for model in gpu_models().values()
        if model.status != "verified"
    ]
    facts: tuple[tuple[str, Callable[[Any], str]], ...] = (
        ("name and number of MIG profiles", lambda each: str(each.status)),
        ("placements of MIG profiles", lambda each: str(each.placement_status)),
        ("SMs and usable memory of MIG profiles", lambda each: str(each.sm_status)),
    )
    for what, status_of in facts:
        for word, why in _NOT_VERIFIED.items():
            named = {}
            for model in gpu_models():
                found = [profile for profile in profiles(model) if status_of(profile) == word]
                if found:
                    part = "" if len(found) == len(profiles(model)) else f" ({len(found)} of {len(profiles(model))})"
                    named[model] = f"`{model}`{part}"
            if named:
                rows.append((", ".join(named.values()), what, why, " "))
    return _table(["GPU", "Fact", "Source", "Note"], rows)


def _unverified_types() -> str:
    blanks: dict[tuple[str, str, str], list[str]] = {}
    for cloud in clouds().values():
        for row in cloud.instance_types.values():
            empty = [word for word, value in _published(row).items() if value is None]
            if empty and row.lifecycle != "retired":
                blanks.setdefault((cloud.service, ", ".join(empty), row.checked), []).append(row.name)
    return _table(
        ["Cloud", "Instance types", "Not published", "Checked"],
        [(service, _code(names), empty, checked) for (service, empty, checked), names in blanks.items()],
    )


def _published(row: InstanceType) -> Mapping[str, object]:
    return {
        "vCPUs": row.vcpus,
        "memory": row.memory_gib,
        "local disk": row.local_disk_gb,
        "number of RDMA interfaces": row.rdma_interfaces if row.rdma in ("efa", "infiniband") else 0,
    }


def _mig_per_cloud() -> str:
    rows = []
    for cloud in clouds().values():
        for model in gpu_models():
            machines = [
                row
                for row in cloud.instance_types.values()
                if row.gpu_model == model and row.lifecycle != "retired" and not row.is_fraction
            ]
            if machines and profiles(model):
                able = [each.name for each in profiles(model) if any(_cuts(cloud, row, each.name) for row in machines)]
                rows.append((cloud.service, f"`{model}`", _code(able) or "none"))
    return _table(["Cloud", "GPU", "Profiles"], rows)


def _cuts(cloud: Cloud, machine: InstanceType, name: str) -> bool:
    """Return whether a pool of this machine can cut its GPUs by this profile without software in the cluster."""
    software = cloud.default_software["mig-single"]
    cell = cloud.capabilities[software, "mig-single"]
    spec = PoolSpec(instance_type=machine.name, nodes=Nodes(max=1), sharing=Mig(mode="mig", profile=name))
    cluster = cloud.cluster.model_validate(dict(cloud.example_cluster))
    request = PoolRequest("pool", spec, cluster, machine, software, "mig-single", cell)
    return cell.verdict is Verdict.NATIVE and not check_pool(request, cloud)


# --- the matrix -------------------------------------------------------------------------------------------------------

_ANY_GPU = "\x00"
_MACHINE = "\x01"
_MODEL = "\x02"


class _Notes:
    """The numbered notes below the table of one cloud; equal notes about the same GPUs share a number."""

    def __init__(self, cloud: Cloud, rows: Sequence[MatrixRow]) -> None:
        self.cloud = cloud
        self.models = list(dict.fromkeys(row.gpu_model for row in rows))
        self._numbers: dict[tuple[object, ...], int] = {}
        self.lines: list[str] = []

    def cell(self, rows: Sequence[MatrixRow]) -> str:
        """Return one cell of the table and number its notes."""
        groups: dict[tuple[Verdict, str, str, str], list[MatrixRow]] = {}
        for row in rows:
            groups.setdefault((row.verdict, self._shape(row), row.source, row.instead), []).append(row)
        marks: dict[Verdict, list[int]] = {}
        for (verdict, *_), found in sorted(groups.items(), key=lambda item: list(Verdict).index(item[0][0])):
            marks.setdefault(verdict, []).append(self._number(found))
        return ", ".join(f"{verdict.value} {' '.join(f'[{n}]' for n in sorted(ns))}" for verdict, ns in marks.items())

    def _shape(self, row: MatrixRow) -> str:
        """Replace the names of model and machine in a note by placeholders, so that GPUs can share it."""
        machine = next((name for name in self.cloud.instance_types if name in row.why.split(" ")), "")
        text = re.sub(rf"{re.escape(row.gpu_model)} \(\S+\)", _ANY_GPU, row.why, count=1)
        if machine:
            text = text.replace(machine, _MACHINE)
        return re.sub(rf"(?<![\w-]){re.escape(row.gpu_model)}(?![\w-])", _MODEL, text)

    def _number(self, rows: Sequence[MatrixRow]) -> int:
        first, models = rows[0], [row.gpu_model for row in rows]
        key = (first.verdict, self._shape(first), first.source, first.instead, *models)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            instead = f" **Instead:** {first.instead}." if first.verdict is Verdict.REFUSED and first.instead else ""
            who, why = self._who(models), self._sentence(rows)
            self.lines.append(f"{len(self._numbers)}. {who}: {why}.{instead} {_linked(first.source)}")
        return self._numbers[key]

    def _who(self, models: Sequence[str]) -> str:
        others = [model for model in self.models if model not in models]
        if len(others) < len(models):
            return "Every GPU" + (f" but {', '.join(others)}" if others else "")
        return ", ".join(models)

    def _sentence(self, rows: Sequence[MatrixRow]) -> str:
        if len(rows) == 1:
            return rows[0].why
        machines = [name for row in rows for name in self.cloud.instance_types if name in row.why.split(" ")]
        return (
            self._shape(rows[0])
            .replace(_ANY_GPU, "the GPU")
            .replace(_MACHINE, " or ".join(dict.fromkeys(machines)))
            .replace(_MODEL, " or ".join(row.gpu_model for row in rows))
        )


def _linked(source: str) -> str:
    first, *rest = source.split()
    if first.startswith("https://"):
        return f"([source]({first}){', ' + ' '.join(rest) if rest else ''})"
    return f"(`{source}`)"


def _matrix() -> str:
    return "\n\n".join(_matrix_of(cloud) for cloud in clouds().values())


@cache
def _rows(name: str) -> tuple[MatrixRow, ...]:
    return tuple(matrix(clouds()[name]))


def _matrix_of(cloud: Cloud) -> str:
    rows = _rows(cloud.name)
    notes = _Notes(cloud, rows)
    by_cell: dict[tuple[str, str], list[MatrixRow]] = {}
    for row in rows:
        by_cell.setdefault((row.software, row.sharing), []).append(row)
    grid = _table(
        ["Sharing", *(f"`{software}`" for software in cloud.software)],
        [
            (f"`{kind}`", *(notes.cell(by_cell[software, kind]) for software in cloud.software))
            for kind in SHARING_KINDS
        ],
    )
    ways = "\n".join(f"- `{name}`: {value.why}. {_linked(value.source)}" for name, value in cloud.software.items())
    title = f"## {cloud.service} (`{cloud.name}`)"
    return "\n\n".join([title, grid, ways, f"GPUs: {', '.join(notes.models)}.", "\n".join(notes.lines)])


# --- the command line -------------------------------------------------------------------------------------------------


def _cli() -> str:
    """List the commands with their options, as their parsers have them."""
    whole = parser(COMMANDS)
    (commands,) = (action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    tables = []
    for group, texts in GROUPS.items():
        rows = []
        for name, text in texts.items():
            options = list(dict.fromkeys(_long_options(commands.choices[name])))
            shown = [option for option in options if option not in ("--help", "--json")]
            has_json = "yes" if "--json" in options else "no"
            rows.append((f"`{name}`", f"{text[0].upper()}{text[1:]}.", _code(shown), has_json))
        tables.append(f"{group}:\n\n" + _table(("Command", "Use it to", "Options", "`--json`"), rows))
    return "\n\n".join(tables)


def _long_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                yield from _long_options(choice)
        yield from (option for option in action.option_strings if option.startswith("--"))


# --- the policies -----------------------------------------------------------------------------------------------------


def _judges(rule: Rule) -> str:
    parts = {"a pool": rule.pool, "a chart or workload": rule.software, "the stack": rule.stack}
    return ", ".join(name for name, judge in parts.items() if judge is not None)


def _rules() -> str:
    rows = [(f"[{rule.name}](#{rule.name})", rule.level.value, _judges(rule)) for rule in ALL_RULES]
    return _table(("Rule", "Level", "Checks"), rows)


def _kinds_read() -> str:
    """List the kinds and types that the readers declare."""
    groups: dict[str, list[str]] = {}
    for group, kind in sorted(set(kinds_read(clouds()))):
        if group != "core":  # Pulumi's name for Kubernetes' first group
            groups.setdefault(group or "(core)", []).append(kind)
    rows = [(f"Kubernetes, `{group}`", _code(kinds)) for group, kinds in groups.items()]
    for name in clouds():
        registered = (token for reader in type_readers() if reader.cloud == name for token in reader.types)
        types = sorted([*clouds()[name].readback().types, *registered])
        rows.append((f"Pulumi, {name}", _code(types)))
    named = terraform_names()  # of these some only say what others refer to
    terraform = [name for name in terraform_types() if name not in named or is_read(named[name].type)]
    rows.append(("Terraform and OpenTofu", _code(terraform)))
    rows.append(("CloudFormation", _code(sorted(CLOUDFORMATION_TYPES))))
    rows.append(("ARM and Bicep", _code(sorted(ARM_TYPES))))
    return _table(("Where", "Read"), rows)


_ANSWERS = {
    "nodes": "unknown: a violation that cannot be verified",
    "elsewhere": "unknown: advice",
    "tainted": "creates GPU nodes with a taint: advice",
    "none": "creates no nodes",
}


def _answer(answer: str) -> str:
    if answer.startswith("pool "):
        return "a violation that cannot be verified; advice where its taint keeps other pods off, or without GPUs"
    if not answer.startswith("where "):
        return _ANSWERS[answer]
    path = answer.removeprefix("where ").partition("|")[0]
    return f"creates no nodes; a violation that cannot be verified where it has `{path}`"


def _kinds_not_read() -> str:
    rows = [
        (
            _code([kind.removeprefix("kubernetes:") for kind in row.kinds]),
            _answer(row.answer),
            row.why,
            row.as_of,
            _linked(row.source),
        )
        for row in kind_rows()
    ]
    return _table(("Kind", "Answer", "Why", "As of", ""), rows)


def _rule(rule: Rule) -> str:
    """Return a rule's reason, fix, level, guidance and configuration."""
    guidance, examples = rule.framework, f"{rule.name.replace('-', '_')}.examples.yaml"
    what = guidance.specification[0].upper() + guidance.specification[1:]
    lines = [
        rule.why,
        "\n".join(
            [
                f"- Fix: {rule.fix}",
                f"- Level: {rule.level.value}. Severity: {rule.severity}. Checks: {_judges(rule)}.",
                f"- Guidance: {what}. {guidance.name} ({guidance.version}), {guidance.reference}. {_linked(rule.url)}",
                f"- Examples: [{examples}](../../policies/gpupools/policies/rules/{examples}).",
            ]
        ),
    ]
    if rule.config:
        headers = ("Configuration", "Value", "Default", "Meaning")
        lines.append(_table(headers, (_rule_key(key, value) for key, value in rule.config.items())))
    return "\n\n".join(lines)


def _rule_key(key: str, schema: Mapping[str, Any]) -> tuple[str, str, str, str]:
    if "enum" in schema:
        write = " or ".join(f"`{value}`" for value in schema["enum"])
    else:
        forms = {"array": "list of string", "object": "map of string to string"}
        write = forms.get(schema["type"], schema["type"])
    default = schema.get("default")
    left_out = "not set" if default is None else f"`{json.dumps(default)}`" if default else "none"
    return f"`{key}`", write, left_out, str(schema["description"])


def _glossary() -> str:
    rows = [
        (f"**{word.word}**", word.what, f"[more]({relpath(word.page, 'docs/reference')}), {_page_of(word.source)}")
        for word in words()
    ]
    return _in_columns(("Term", "Meaning", "Links"), rows)


def _sharing_by_need() -> str:
    rows = [(*need[:-1], ", ".join(map(_page_of, need.source.split(" and ")))) for need in sharing_needs()]
    return _in_columns((*NEEDS_HEADERS, "source"), rows)


def _in_columns(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [headers, ["---"] * len(headers), *rows])


def _page_of(source: str) -> str:
    address, _, file = source.partition(" ")
    return f"[{file or 'source'}]({address})"


def _permissions(cloud: str) -> str:
    with (ROOT / "tooling" / "permissions.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file, strict=True) if row["cloud"] == cloud]
    return _table(
        ("Permission", "Needed for", "Resource", "When", "Source"),
        (
            (
                f"`{row['permission']}`",
                "preview, deploy" if row["access"] == "read" else "deploy",
                f"`{row['resource'].rpartition(':')[2]}`",
                row["when"] or "always",
                f"[source]({row['source']})" if "://" in row["source"] else row["source"],
            )
            for row in rows
        ),
    )


def _permissions_ready() -> str:
    rows = (
        (f"`{read.plural}`", "get" if read.name else "list", read.what, f"`{read.name}`" if read.name else "all")
        for read in READS
    )
    return _table(("Resource", "Verb", "Read for", "Objects"), rows)


def _ready_causes() -> str:
    """Describe what shows each cause of `gpupools ready`."""
    rows = []
    for cause in CAUSES.values():
        by_source: dict[str, list[str]] = {}
        for signal in (each for each in SIGNALS if each.cause == cause.key):
            by_source.setdefault(signal.source, []).append(_signal(signal))
        shown = [f"{', '.join(texts)} ([source]({source}))" for source, texts in by_source.items()]
        rows.append(
            (cause.title, "<br>".join(shown) or "none of the others; the command shows what it saw", cause.cure)
        )
    return _table(("Cause", "Shown by", "Fix"), rows)


def _fit_reasons() -> str:
    """List the reasons of `gpupools fit` with who decides."""
    rows = [(row["title"], row["by"], f"[source]({row['source']})") for row in REASONS.values()]
    return _table(("Reason", "Decided by", "Source"), rows)


def _fit_kinds() -> str:
    """List the kinds whose pods `gpupools fit` knows, with where they are."""
    paths: dict[tuple[str, str], list[str]] = {}
    for row in data_rows("workload_kinds.csv"):
        paths.setdefault((row["kind"], row["group"]), []).append(
            f"`{row['template']}`" if row["template"] else f"unknown: {row['unknown']}"
        )
    rows = [(kind, group or "core", "<br>".join(own)) for (kind, group), own in paths.items()]
    return _table(("Kind", "API group", "Pod templates"), rows)


def _signal(signal: Signal) -> str:
    if signal.kind == "plan":
        return signal.text
    text = f"`{signal.text}`" if signal.text else ""
    name = f"`{signal.name}`" if signal.name.strip("*") else ""
    state = f"is `{signal.state}`" if signal.state and signal.kind != "event" else ""
    return " ".join(filter(None, (signal.kind, name, state, text)))


_FAULTS = {
    "fail": "the cloud rejects the request",
    "throttle": "the cloud throttles until the provider gives up",
    "time-out": "the provider times out",
    "lose": "the cloud succeeded and its answer is lost",
    "kill-engine": "engine killed before the request",
    "kill-engine-after": "engine killed after the cloud succeeded",
    "kill-program": "program killed before the request",
    "kill-program-after": "program killed after the cloud succeeded",
    "die": "provider crashed after the cloud succeeded",
    "cut": "network cut before the request",
    "cut-after": "network cut before the answer",
    "second-update": "second update while the first one runs",
}


def _recovery() -> str:
    """Summarise the runs that `tooling/fault_table.py` recorded."""
    results = json.loads((DOCS / "how-to" / "recover.json").read_text(encoding="utf-8"))
    runs = [run for part in results["parts"].values() for run in part]
    moments = [(run, hit.partition(" ")[0]) for run in runs for hit in run["hit"]]
    rows = []
    for fault, what in _FAULTS.items():
        for call in ("create", "update", "delete"):
            mine = [run for run, each in moments if run["fault"] == fault and each == call]
            if mine:
                clouds_hit = sorted({cloud for run in mine for cloud in run["clouds"]})
                done = sorted({run["recovery"] for run in mine})
                wrong = ", ".join(str(_once(mine, key)) for key in ("duplicates", "orphans", "lost"))
                rows.append((what, call, ", ".join(clouds_hit), len(mine), "; ".join(done), wrong))
    headers = ("Fault", "During", "Clouds", "Times", "Recovery", "Duplicated, orphaned, lost")
    kills = sum(run["fault"].startswith("kill-engine") for run, _ in moments)
    with_sdks = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    seconds = sum(run["seconds"] for run in runs)
    return (
        f"{_table(headers, rows)}\n\n{len(moments)} faults, {kills} of them a killed engine, on {results['date']} in"
        f" {round(seconds / 60)} minutes, with {with_sdks}. [recover.json](recover.json) has every run."
    )


def _packages() -> str:
    """List the packages in the order of the import contract, each with the first line of its docstring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = []
    for name in (name for layer in reversed(layers) for name in layer.split(" | ")):
        (package,) = (*ROOT.glob(f"gpupools/{name}/__init__.py"), *ROOT.glob(f"*/gpupools/{name}/__init__.py"))
        told = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""
        rows.append((f"`{name}`", re.split(r"[;\n]", told)[0].rstrip(".")))
    return _table(("Package", "Responsibility"), rows)


def _node_baseline(resource: str) -> str:
    """List what every node of a pool has, with the rule that reports it turned off."""
    with (ROOT / "tooling" / "node_baseline.csv").open(encoding="utf-8", newline="") as file:
        rows = [each[1:] for each in csv.reader(file) if each[0] == resource]
    return _table(("What", "Input", "Emitted", "Off", "Rule", "dev", "prod"), rows)


def _once(runs: Iterable[Mapping[str, Any]], key: str) -> int:
    return sum(run[key] for run in {id(run): run for run in runs}.values())


PARTS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "permissions-aws": partial(_permissions, "aws"),
        "permissions-azure": partial(_permissions, "azure"),
        "permissions-gcp": partial(_permissions, "gcp"),
        "permissions-ready": _permissions_ready,
        "ready-causes": _ready_causes,
        "fit-reasons": _fit_reasons,
        "fit-kinds": _fit_kinds,
        "packages": _packages,
        "baseline-eks": partial(_node_baseline, "aws:eks/nodeGroup:NodeGroup"),
        "baseline-launch-template": partial(_node_baseline, "aws:ec2/launchTemplate:LaunchTemplate"),
        "baseline-aks": partial(_node_baseline, "azure-native:containerservice:AgentPool"),
        "baseline-gke": partial(_node_baseline, "gcp:container/nodePool:NodePool"),
        "pool": _pool_keys,
        "team": _team_keys,
        "nodes": _nodes_keys,
        "sharing": _sharing_keys,
        "settings": _settings_keys,
        "settings-by-cloud": _settings_by_cloud,
        "runtime": _runtime_keys,
        "clusters": _cluster_keys,
        "charts": _charts,
        "edits-by-cloud": _edits_by_cloud,
        "cli": _cli,
        "default-software": _default_software,
        "owners": _owners,
        "reserved-labels": partial(_reserved_keys, labels=True),
        "kept": _kept,
        "reserved-taints": partial(_reserved_keys, labels=False),
        "catalogue-counts": _counts,
        "catalogue-sources": _sources,
        "unverified-models": _unverified_models,
        "unverified-types": _unverified_types,
        "mig-per-cloud": _mig_per_cloud,
        "matrix": _matrix,
        "dated-tables": _dated_tables,
        "rules": _rules,
        "glossary": _glossary,
        "sharing-by-need": _sharing_by_need,
        "kinds-read": _kinds_read,
        "kinds-not-read": _kinds_not_read,
        "recovery": _recovery,
        **{rule.name: partial(_rule, rule) for rule in ALL_RULES},
    }
)
"""Every generated part, by the name in its mark."""


if __name__ == "__main__":
    sys.exit(main())
