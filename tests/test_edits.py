"""The tables of what an edit does: every row reached by an edit, and every edit doing what its rows say, on all clouds.

`edits.yaml` beside this file has the edits. Each pair is planned for `gpupools diff` and declared through the component
against the strict monitor.
"""

import inspect
import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from azure.mgmt.containerservice import models as azure_models
from botocore.loaders import Loader  # type: ignore[import-untyped]
from botocore.model import ServiceModel  # type: ignore[import-untyped]
from google.cloud import container_v1, container_v1beta1
from pulumi import _types

from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import Rejected
from gpupools.diff.edit_rows import edit_of, is_among
from gpupools.diff.input_diff import changed_leaves, declared_leaves
from gpupools.diff.pool_change import FieldChange, PoolChange
from gpupools.diff.records import PoolRecord, addresses, planned_values, record, recorded_plan, same_value
from gpupools.plan.edit_tables import EditEffect, PlanEdit
from gpupools.plan.node_labels import DESCRIBING_LABELS
from gpupools.preview.command import PROGRAM
from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.program_run import Preview, preview_program
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.providers import clouds
from gpupools.providers.aws.pool_settings import LAUNCH_TEMPLATE, NODE_GROUP, PLACEMENT_GROUP
from gpupools.providers.azure import pool_settings as azure_pool_settings
from gpupools.providers.gcp import pool_settings as gcp_pool_settings
from gpupools.spec.overrides import Overridable, apply_overrides
from gpupools.spec.pool_options import input_keys
from gpupools.stackfile.stack import plan_config
from tests.changes import diff
from tests.cloud_parts import edited_inputs
from tests.declared_pools import DeclaredPools, declare, sent, stack
from tests.rows import each_row
from tests.test_settings import CLUSTERS, pair

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
CLOUDS = tuple(clouds())
EDITED = {name: cloud.node_pools.edits() for name, cloud in clouds().items()}

NAME = {"aws": "", "azure": "agentPoolName", "gcp": "name"}
"""The input with the pool's name in the cloud; EKS makes one up for every new group."""

PLACE = {
    "aws": frozenset[str](),
    "azure": frozenset({"resourceName", "resourceGroupName"}),
    "gcp": frozenset({"cluster", "location", "project"}),
}
"""Inputs that say in which cluster the pool is: two clusters may each have a pool of one name."""

KINDS = ("NodeGroup", "LaunchTemplate", "PlacementGroup", "Tag", "AgentPool", "NodePool")

each_cloud = pytest.mark.parametrize("cloud", CLOUDS)


# --- the edits ---


@dataclass(frozen=True)
class Edit:
    """A pair of stack files with one pool on one cluster."""

    cloud: str
    key: str
    base: str
    reaches: str
    beside: frozenset[str]
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    pods: str
    """What happens to running pods; empty where the edit does not say it."""
    at_once: int

    @property
    def rows(self) -> frozenset[str]:
        return frozenset() if self.reaches in ("nothing", "provider") else self.beside | {self.reaches}


@cache
def written() -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load((HERE / "edits.yaml").read_text(encoding="utf-8"))
    return found


@cache
def edits(cloud: str) -> tuple[Edit, ...]:
    table = written()[cloud]
    cluster = {"cloud": cloud, **table["cluster"]}
    found = [_edit(cloud, number, cluster, table["bases"], row) for number, row in enumerate(table["edits"])]
    return (*found, *_edits_of_keys(cloud))


CHANGED_BESIDE = {
    ("aws", "tags"): ("LaunchTemplate.tags", "LaunchTemplate.tagSpecifications"),
    ("azure", "upgrade.max_surge"): ("upgradeSettings.maxUnavailable",),
}
"""Rows of inputs that change with a key and do not name it."""


def _edits_of_keys(cloud: str) -> Iterator[Edit]:
    """Yield an edit of each key that a row of `inputs.csv` names, with the value that `test_settings` gives it."""
    rows_of_key: dict[str, dict[str, None]] = {}
    for row in csv_rows(Path(str(files("gpupools.providers"))) / cloud / "inputs.csv"):
        for key in input_keys(row["key"]).settings:
            name = f"{row['resource']}.{row['input']}" if cloud == "aws" else row["input"]
            name = "LaunchTemplate.userData" if row["resource"] in ("KubeletConfiguration", "Bottlerocket") else name
            rows_of_key.setdefault(key, {})[row_of(cloud, name)] = None
    for key, (reaches, *others) in rows_of_key.items():
        beside = {*others, *CHANGED_BESIDE.get((cloud, key), ())}
        old, new = (stack(CLUSTERS[cloud], pool) for pool in pair(cloud, key))
        yield Edit(cloud, f"key-{key}", f"base-key-{key}", reaches, frozenset(beside), old, new, "", 0)


def _edit(
    cloud: str, number: int, cluster: Mapping[str, Any], bases: Mapping[str, Any], row: Mapping[str, Any]
) -> Edit:
    base = row.get("from", next(iter(bases)))
    pool = bases[base]
    changed = {**pool, **row.get("pool", {})}
    if "by_hand" in row:
        changed["overrides"] = apply_overrides(
            pool.get("overrides", {}), by_hand(cloud, row["reaches"], row["by_hand"])
        )
    return Edit(
        cloud=cloud,
        key=f"edit{number}",
        base=f"base-{base}",
        reaches=row["reaches"],
        beside=frozenset(row.get("with", ())),
        old=stack(cluster, pool),
        new=stack({**cluster, **row.get("cluster", {})}, changed),
        pods=row.get("pods", ""),
        at_once=row.get("at_once", 0),
    )


def by_hand(cloud: str, path: str, value: Any) -> dict[str, Any]:
    """Write an input as the pool's overrides do; on EKS its path begins with the resource."""
    resource = {"azure": ["AgentPool"], "gcp": ["NodePool"]}.get(cloud, [])
    for key in reversed([cloud, *resource, *path.split(".")]):
        value = {key: value}
    return dict(value)


@cache
def table(cloud: str) -> Mapping[str, Mapping[str, str]]:
    return edited_inputs(cloud)


def row_of(cloud: str, path: str) -> str:
    """Return the row an input belongs to: its own, else of what it is part of."""
    parts = path.split(".")
    starts = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((start for start in starts if start in table(cloud)), f"{path} has no row")


ROWS = [pytest.param(cloud, name, id=f"{cloud} {name}") for cloud in CLOUDS for name in EDITED[cloud].inputs]
EDITS = [pytest.param(edit, id=f"{edit.cloud} {edit.key} {edit.reaches}") for cloud in CLOUDS for edit in edits(cloud)]


# --- what is said ---


def effect(cloud: str, row: str) -> EditEffect:
    return EditEffect(table(cloud)[row]["effect"])


def strongest(found: Any) -> EditEffect:
    return max(found, key=list(EditEffect).index, default=EditEffect.NONE)


@cache
def said(cloud: str, key: str) -> tuple[PoolChange, tuple[tuple[FieldChange, frozenset[str], PlanEdit | None], ...]]:
    """Return what `gpupools diff` says of an edit, and of each field the inputs that the tables say it becomes."""
    edit = next(each for each in edits(cloud) if each.key == key)
    old, new = plan_config(edit.old, clouds()), plan_config(edit.new, clouds())
    (change,) = diff(old, new, clouds())
    found = []
    for field in change.fields:
        if field.field.startswith("overrides."):
            path = field.field.removeprefix("overrides.")
            inputs, row = {row_of(cloud, path if cloud == "aws" else path.partition(".")[2])}, None
        else:
            row = edit_of(field.field, new.pools[0], field.old, field.new, EDITED[cloud])
            inputs = set(row.inputs)
        found.append((field, frozenset(inputs), row))
    return change, tuple(found)


@each_row("edit", [each for each in EDITS if each.values[0].pods])  # type: ignore[union-attr]
def test_what_happens_to_pods_and_on_how_many_nodes(edit: Edit) -> None:
    change, _ = said(edit.cloud, edit.key)

    assert (change.pods.value, change.nodes_at_once) == (edit.pods, edit.at_once)


@each_cloud
def test_twenty_edits_of_each_cloud_say_what_happens_to_pods(cloud: str) -> None:
    assert sum(bool(edit.pods) for edit in edits(cloud)) >= 20


# --- what is declared ---


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the programs."""
    return tmp_path_factory.mktemp("edits")


@cache
def declared(cloud: str, folder: Path) -> DeclaredPools:
    """Declare everything in `edits.yaml` for one cloud, by the keys of edits and bases."""
    pools = {each.base: each.old for each in edits(cloud)} | {each.key: each.new for each in edits(cloud)}
    return declare(pools, folder / cloud)


def ignored(cloud: str, resources: tuple[DeclaredResource, ...]) -> set[str]:
    """Return the inputs whose change the program ignores."""
    return {
        f"{resource.type.rpartition(':')[2]}.{path}" if cloud == "aws" else path
        for resource in resources
        for path in resource.options.get("ignoreChanges", ())
    }


@cache
def wire(cloud: str, key: str, folder: Path) -> Mapping[str, Any]:
    return sent(cloud, key, declared(cloud, folder).pools[key])


@cache
def rows_changed(cloud: str, old: str, new: str, folder: Path) -> frozenset[str]:
    before, after = wire(cloud, old, folder), wire(cloud, new, folder)
    paths = {path for path in {**before, **after} if before.get(path) != after.get(path)}
    return frozenset(row_of(cloud, path) for path in paths - ignored(cloud, declared(cloud, folder).pools[new]))


def changed(edit: Edit, folder: Path) -> frozenset[str]:
    """Return the rows of the inputs that an edit changes on the wire."""
    return rows_changed(edit.cloud, edit.base, edit.key, folder)


# --- every row ---


@pytest.mark.slow
@each_cloud
def test_every_pair_is_what_the_sdk_takes(cloud: str, programs: Path) -> None:
    found = declared(cloud, programs).preview

    assert [str(problem) for problem in (*found.problems, *found.warnings)] == []
    assert {each.reaches for each in edits(cloud)} <= {*table(cloud), "nothing", "provider"}


@each_row(("cloud", "name"), ROWS)
def test_a_row_is_reached_by_an_edit_that_has_its_effect(cloud: str, name: str, programs: Path) -> None:
    unreachable = written()[cloud]["unreachable"]
    mine = [edit for edit in edits(cloud) if edit.reaches == name]
    if name in unreachable:
        still(cloud, name, unreachable[name], programs)
        if not isinstance(unreachable[name], Mapping):
            assert mine == []
            return

    assert mine, "no edit reaches this row"
    for edit in mine:
        rows = changed(edit, programs)
        fields = {
            meant(cloud, field, row): inputs & rows for field, inputs, row in said(cloud, edit.key)[1] if name in inputs
        }
        assert rows - {NAME[cloud]} == edit.rows - {NAME[cloud]}
        assert strongest(fields) is strongest(effect(cloud, each) for inputs in fields.values() for each in inputs)
        assert edit.beside or strongest(fields) is effect(cloud, name)


def meant(cloud: str, field: FieldChange, row: PlanEdit | None) -> EditEffect:
    """Return what an edit does to a pool, also where one is refused since the pool was made by other means."""
    return EDITED[cloud].edit_by(row, row.inputs).effect if field.adopted and row is not None else field.effect


def still(cloud: str, row: str, why: Any, folder: Path) -> None:
    """Check that an input no edit reaches is the same in every pool, ignored later, or another resource's output."""
    pools = declared(cloud, folder).pools
    sent = {key: wire(cloud, key, folder) for key in pools}
    parts = {path for each in sent.values() for path in each if path.startswith(f"{row}.")}
    values = {
        key: each[row] if row in each else tuple(map(each.get, sorted(parts))) or None for key, each in sent.items()
    }
    if isinstance(why, Mapping):
        top = row.split(".")[1]
        own = {key: each for key, each in pools.items() if any(one.type.endswith(f":{why['of']}") for one in each)}
        assert {values[key] for key in own} == {UNKNOWN}
        assert effect(cloud, row) is effect(cloud, why["as"])
        for resources in own.values():
            (other,) = [each.urn for each in resources if each.type.endswith(f":{why['of']}")]
            (user,) = [each for each in resources if each.type.endswith(f":{row.partition('.')[0]}")]
            assert other in user.options["propertyDependencies"][top]
        return
    if why == "kept":
        assert set(values.values()) == {None}
    elif why == "constant":
        assert len(set(values.values())) == 1
        assert None not in values.values()
    else:
        assert all(row in ignored(cloud, pools[key]) for key, value in values.items() if value is not None)
        assert len(set(values.values()) - {None}) > 1
    table = written()[cloud]
    pool = {**next(iter(table["bases"].values())), "overrides": by_hand(cloud, row, 7)}
    with pytest.raises(Rejected, match="cannot be overridden"):
        plan_config(stack({"cloud": cloud, **table["cluster"]}, pool), clouds())


@each_row("edit", EDITS)
def test_an_edit_has_the_effect_of_the_inputs_it_changes(edit: Edit, programs: Path) -> None:
    change, fields = said(edit.cloud, edit.key)
    rows = changed(edit, programs)
    told = frozenset[str]().union(*(inputs for _, inputs, _ in fields))
    moved = declared(edit.cloud, programs)

    assert fields, "the edit changes nothing of the plan"
    if "PlacementGroup.name" in told:
        told |= {"LaunchTemplate.placement"}  # the template names the group

    assert rows - {NAME[edit.cloud]} <= told, "inputs change that no field of the plan is said to become"
    if edit.reaches == "provider":
        assert rows == set()
        assert moved.provider(edit.base) != moved.provider(edit.key)
        assert change.effect is EditEffect.REPLACE
    else:
        refused = any(field.effect is EditEffect.REFUSED and field.adopted for field, _, _ in fields)
        done = strongest(effect(edit.cloud, row) for row in rows)
        assert change.effect is (EditEffect.REFUSED if refused else done)


@each_row("edit", EDITS)
def test_a_record_stands_for_the_inputs_that_the_old_plan_declares(edit: Edit) -> None:
    """Only what is set by hand is compared by itself, and labels that only describe a node are not compared."""
    cloud = clouds()[edit.cloud]
    old, new = plan_config(edit.old, clouds()), plan_config(edit.new, clouds())
    kept = PoolRecord.from_json(json.loads(json.dumps(record(old.pools[0], old.stack).as_json())))
    assert kept is not None
    place = addresses(old.pools[0], old.stack.clusters["c"])
    names = {*kept.values, *planned_values(new.pools[0], new.stack.clusters["c"])}
    names = {name for name in names if not name.startswith("overrides.")}

    found = recorded_plan(kept.values, names, new.pools[0], cloud)
    differ = changed_leaves(*(declared_leaves(plan, place, cloud) for plan in (old.pools[0], found)))
    by_hand = {change.field.removeprefix("overrides.") for change in said(edit.cloud, edit.key)[0].fields}
    told = {path for path in differ if is_among(path, by_hand) or path.endswith(tuple(DESCRIBING_LABELS))}
    differ = {path: sides for path, sides in differ.items() if not same_value(*sides, unordered=True)}
    assert differ.keys() - told <= ({f"AgentPool.{NAME['azure']}", f"NodePool.{NAME['gcp']}"} if told else set())


COMMON = [row for row in EDITED["aws"].plan if all(row in EDITED[cloud].plan for cloud in CLOUDS)]
PLAN_ROWS = [
    *(pytest.param(CLOUDS, row, id=f"* {row.field}") for row in COMMON),
    *(
        pytest.param((cloud,), row, id=" ".join(filter(None, (cloud, row.field, row.when))))
        for cloud in CLOUDS
        for row in EDITED[cloud].plan
        if row not in COMMON
    ),
]


@each_row(("on", "row"), PLAN_ROWS)
def test_a_row_of_the_plans_is_met_by_an_edit(on: Sequence[str], row: PlanEdit, programs: Path) -> None:
    met = [
        (edit, inputs)
        for cloud in on
        for edit in edits(cloud)
        for _, inputs, each in said(cloud, edit.key)[1]
        if each == row
    ]

    assert met, "no edit of edits.yaml meets this row"
    if row.inputs and all(edit.reaches != "provider" for edit, _ in met):
        reached = {name for edit, _ in met for name in changed(edit, programs)}
        assert set(row.inputs) <= reached, "no edit of this field changes these inputs"


# --- completeness ---


EXAMPLES = (REPOSITORY / "stacks" / "Pulumi.dev.yaml", REPOSITORY / "stacks" / "Pulumi.prod.yaml")


@cache
def previewed(file: Path) -> Preview:
    config = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    found = preview_program(PROGRAM, "test", "gpupools", config)
    assert found.problems == []
    return found


@each_cloud
def test_every_input_that_is_sent_has_a_row(cloud: str, programs: Path) -> None:
    token = {"aws": "aws:", "azure": "azure-native:", "gcp": "gcp:"}[cloud]
    paths = {path for key in declared(cloud, programs).pools for path in wire(cloud, key, programs)}
    for file in (HERE / "stacks" / f"Pulumi.everything-{cloud}.yaml", *EXAMPLES):
        found = previewed(file).resources
        pools = [each for each in found if each.type.startswith(token) and each.type.endswith(KINDS)]
        paths |= {path for each in pools for path in sent(cloud, "no component", (each,))}

    rows = {row_of(cloud, path) for path in paths}
    assert sorted(rows - set(table(cloud))) == []
    kept = {row for row, why in written()[cloud]["unreachable"].items() if why == "kept"}
    assert sorted(set(table(cloud)) - rows - kept) == []


OVERRIDES: Mapping[str, Mapping[str, tuple[Overridable, str]]] = {
    "aws": {
        "NodeGroup": (NODE_GROUP, "pulumi_aws.eks"),
        "LaunchTemplate": (LAUNCH_TEMPLATE, "pulumi_aws.ec2"),
        "PlacementGroup": (PLACEMENT_GROUP, "pulumi_aws.ec2"),
    },
    "azure": {"AgentPool": (azure_pool_settings.OVERRIDABLE["AgentPool"], "pulumi_azure_native.containerservice")},
    "gcp": {"NodePool": (gcp_pool_settings.OVERRIDABLE["NodePool"], "pulumi_gcp.container")},
}
"""What may be set by hand of each resource, and the SDK's module with its inputs."""


def without_row(cloud: str, at: str, args: type, kept: frozenset[str]) -> Iterator[str]:
    """Yield the inputs that no row covers: none of their own, of what they are part of, or of each of their parts."""
    types = _types.input_type_types(args)
    for wire in _types.input_type_py_to_pulumi_names(args).values():
        path = f"{at}.{wire}" if at else wire
        if path in table(cloud) or path in kept:
            continue
        parts = next((part for part in parts_of(types.get(wire)) if _types.is_input_type(part)), None)
        if parts is not None and any(row.startswith(f"{path}.") for row in table(cloud)):
            yield from without_row(cloud, path, parts, kept)
        else:
            yield path


def parts_of(kind: Any) -> Iterator[type]:
    """Yield the classes in a type that is no list."""
    if isinstance(kind, type):
        yield kind
    elif get_origin(kind) not in (list, Sequence):
        for each in get_args(kind):
            yield from parts_of(each)


@pytest.mark.parametrize(
    ("cloud", "resource"), [(cloud, resource) for cloud, resources in OVERRIDES.items() for resource in resources]
)
def test_every_input_that_may_be_set_by_hand_has_a_row(cloud: str, resource: str) -> None:
    overridable, module = OVERRIDES[cloud][resource]
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of the SDK's, for other resources
        args: type = getattr(import_module(module), f"{resource}Args")
    at = resource if cloud == "aws" else ""
    kept = frozenset(".".join(filter(None, (at, *path))) for path in overridable.kept)

    assert set(_types.input_type_py_to_pulumi_names(args).values()) == set(overridable.inputs)
    assert list(without_row(cloud, at, args, kept)) == []


@each_cloud
def test_every_row_says_why_and_where_from(cloud: str) -> None:
    for row in table(cloud).values():
        assert row["effect"] in ("in-place", "rolling", "replace", "refused", "unknown")
        assert row["sentence"] or row["effect"] != "unknown", "what is not known is said"
        assert re.fullmatch(r"https://\S+|[\w.-]+/[\w.-]+ \S.*", row["source"]), row


# --- the new pool comes first ---


@each_row("edit", [each for each in EDITS if each.values[0].cloud != "aws"])  # type: ignore[union-attr]
def test_the_pools_name_changes_exactly_when_the_pool_is_replaced(edit: Edit, programs: Path) -> None:
    old, new = (wire(edit.cloud, key, programs)[NAME[edit.cloud]] for key in (edit.base, edit.key))
    replaced = {row for row in changed(edit, programs) if effect(edit.cloud, row) is EditEffect.REPLACE}

    if replaced - PLACE[edit.cloud]:
        assert old != new
    elif not replaced:
        assert old == new


@each_cloud
def test_nothing_is_deleted_before_its_successor_is_there(cloud: str, programs: Path) -> None:
    for resources in declared(cloud, programs).pools.values():
        for each in resources:
            assert not each.options.get("deleteBeforeReplace")
            if cloud == "azure":  # this provider deletes first unless it is told not to
                assert each.options["deleteBeforeReplace"] is False


def test_eks_makes_up_the_names_of_what_may_be_replaced(programs: Path) -> None:
    named = {
        (edit.reaches, f"{resource.type.rpartition(':')[2]}.{key}")
        for edit in edits("aws")
        if not edit.base.startswith("base-theirs")  # an adopted group has its name
        for resource in declared("aws", programs).pools[edit.key]
        for key in resource.inputs
        if key in ("name", "namePrefix", "nodeGroupName", "nodeGroupNamePrefix")
    }

    assert named == {
        (name, name) for name in ("LaunchTemplate.name", "LaunchTemplate.namePrefix", "PlacementGroup.name")
    }


# --- the clouds' own descriptions of their update calls ---


@cache
def service(name: str) -> ServiceModel:
    return ServiceModel(Loader().load_service_model(name, "service-2"), name)


@cache
def members(name: str, operation: str) -> frozenset[str]:
    """Return what a call of AWS takes, by botocore's description of the service."""
    return frozenset(service(name).operation_model(operation).input_shape.members)


CALLED_OTHERWISE = {"forceUpdateVersion": "force"}
SAME_TEMPLATE = {"NodeGroup.launchTemplate.id"}
"""UpdateNodegroupVersion names the template, and takes another version of it but no other template
(https://docs.aws.amazon.com/eks/latest/APIReference/API_LaunchTemplateSpecification.html)."""


@each_row("row", [name for name in table("aws") if name.startswith("NodeGroup.")])
def test_eks_has_a_call_for_what_stays_and_none_for_what_is_replaced(row: str) -> None:
    name = row.split(".")[1]
    rolls = members("eks", "UpdateNodegroupVersion") - {"force", "clusterName", "nodegroupName"}
    stays = (members("eks", "UpdateNodegroupConfig") | members("eks", "TagResource") | {"force"}) - {"clusterName"}
    wire = CALLED_OTHERWISE.get(name, name)
    found = EditEffect.ROLLING if wire in rolls else EditEffect.IN_PLACE if wire in stays else EditEffect.REPLACE

    assert effect("aws", row) is (EditEffect.REPLACE if row in SAME_TEMPLATE else found)


TEMPLATE_MEMBERS = {
    "VpcSecurityGroupIds": "SecurityGroupIds",
    "SecurityGroupNames": "SecurityGroups",
    "Description": "VersionDescription",
}


@each_row("row", [name for name in table("aws") if name.startswith("LaunchTemplate.")])
def test_a_launch_template_takes_what_rolls_as_a_new_version(row: str) -> None:
    name = row.split(".")[1]
    wire = name[0].upper() + name[1:]
    wire = TEMPLATE_MEMBERS.get(wire, wire)
    call = service("ec2").operation_model("CreateLaunchTemplateVersion").input_shape.members
    version = set(call["LaunchTemplateData"].members) | {"VersionDescription"}
    changes = members("ec2", "ModifyLaunchTemplate") | members("ec2", "CreateTags")
    known = {"DefaultVersion", "UpdateDefaultVersion", "Tags"}

    if wire in version:
        assert effect("aws", row) is EditEffect.ROLLING
    elif wire in known:
        assert {wire.removeprefix("Update")} <= changes
        assert effect("aws", row) is EditEffect.IN_PLACE
    else:
        assert effect("aws", row) is EditEffect.REPLACE


GKE_CALLS: Mapping[str, Any] = {
    "autoscaling": container_v1.SetNodePoolAutoscalingRequest,
    "management": container_v1.SetNodePoolManagementRequest,
    "nodeCount": container_v1.SetNodePoolSizeRequest,
}
"""The inputs for which GKE has a call of their own."""

GKE_FIELDS = {
    "networkConfig": "node_network_config",
    "nodeLocations": "locations",
    "nodeDrainConfigs": "node_drain_config",
    "version": "node_version",
    "loggingVariant": "logging_config",
    "nodeImageConfigs": "image",
}
"""The fields of Google's update request whose names are not the provider's."""

PROVIDERS_OWN = {"deletionPolicy", "ignoreNodeCountChanges"}
NEVER_SENT = {"maintenancePolicies"}
"""Inputs the provider tells GKE when it makes the pool and never again, whose edit it yet calls an update."""


@each_row("row", [name for name in table("gcp") if effect("gcp", name) is not EditEffect.REPLACE])
def test_gke_has_a_call_for_what_is_not_replaced(row: str) -> None:
    first, *rest = row.split(".")
    if first in {*PROVIDERS_OWN, *GKE_CALLS}:
        assert effect("gcp", row) is EditEffect.IN_PLACE
    if row in PROVIDERS_OWN:
        assert first not in {snake_to_camel(name) for name in container_v1.NodePool.meta.fields}
    elif row in NEVER_SENT:
        assert "maintenance_policy" not in container_v1.UpdateNodePoolRequest.meta.fields
        assert effect("gcp", row) is EditEffect.IN_PLACE
    elif first in GKE_CALLS:
        name = {"autoscaling": "autoscaling", "management": "management", "nodeCount": "node_count"}[first]
        assert name in GKE_CALLS[first].meta.fields
    else:
        name = rest[0] if first == "nodeConfig" else first
        field = GKE_FIELDS.get(name, camel_to_snake(name))
        request = container_v1beta1 if field == "image" else container_v1
        assert field in request.UpdateNodePoolRequest.meta.fields
        if first == "networkConfig":
            assert camel_to_snake(rest[0]) in container_v1.NodeNetworkConfig.meta.fields


NEW_NODES: Mapping[str, frozenset[str]] = {
    # What a node is started with cannot change while it runs, and Google's update takes it:
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/managing-clusters.
    "gcp": frozenset(
        {"version", "networkConfig.enablePrivateNodes"}
        | {
            f"nodeConfig.{name}"
            for name in (
                *("bootDisk", "diskSizeGb", "diskType", "storagePools"),
                *("imageType", "nodeImageConfigs", "machineType", "confidentialNodes"),
                *("containerdConfig", "gcfsConfig", "kubeletConfig", "linuxNodeConfig", "windowsNodeConfig"),
                *("fastSocket", "gvnic", "loggingVariant", "workloadMetadataConfig"),
            )
        }
    ),
    # A new image is laid on the machine: https://learn.microsoft.com/azure/aks/enable-fips-nodes,
    # https://learn.microsoft.com/azure/aks/use-trusted-launch, https://learn.microsoft.com/azure/aks/upgrade-os-version.
    "azure": frozenset(
        # https://learn.microsoft.com/azure/aks/node-pool-snapshot, https://learn.microsoft.com/azure/aks/localdns-custom
        {"enableFIPS", "osSKU", "orchestratorVersion", "creationData", "localDNSProfile"}
        | {"securityProfile.enableSecureBoot", "securityProfile.enableVTPM"}
    ),
}
"""Inputs for which the cloud makes every node anew, a few at a time."""


@pytest.mark.parametrize("cloud", NEW_NODES)
def test_what_a_node_is_started_with_rolls(cloud: str) -> None:
    rolling = {name for name in table(cloud) if effect(cloud, name) is EditEffect.ROLLING}

    assert rolling == NEW_NODES[cloud]


def test_a_placement_group_cannot_be_changed_but_for_its_tags() -> None:
    calls = {name for name in service("ec2").operation_names if "PlacementGroup" in name}
    rows = {name: effect("aws", name) for name in table("aws") if name.startswith("PlacementGroup.")}

    assert calls == {"CreatePlacementGroup", "DeletePlacementGroup", "DescribePlacementGroups"}
    # Another group is another input of the template, and takes its effect from there.
    assert rows.pop("PlacementGroup.tags") is EditEffect.IN_PLACE
    assert set(rows.values()) == {effect("aws", "LaunchTemplate.placement")}


FORCED_BY_THE_PROVIDER = frozenset(
    {"guestAccelerators", "flexStart", "maxRunDuration", "queuedProvisioning", "networkConfig", "confidentialNodes"}
)
"""What Google's request takes and the provider replaces the pool for, in whole or in part: `ForceNew` in
https://github.com/hashicorp/terraform-provider-google-beta/blob/main/google-beta/services/container/node_config.go."""


@each_row("row", [name for name in table("gcp") if effect("gcp", name) is EditEffect.REPLACE])
def test_gke_has_no_call_for_what_is_replaced_unless_the_provider_does_not_make_it(row: str) -> None:
    first, *rest = row.split(".")
    name = rest[0] if first == "nodeConfig" else first
    field = {"guestAccelerators": "accelerators"}.get(name, GKE_FIELDS.get(name, camel_to_snake(name)))
    can = set(container_v1.UpdateNodePoolRequest.meta.fields) - {"name"}  # says which pool is meant

    assert (field in can) is (name in FORCED_BY_THE_PROVIDER)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (r"Initiates an upgrade operation", EditEffect.ROLLING),
        (r"(applied to all|attached to the) nodes", EditEffect.IN_PLACE),
        (r"control disruption and speed", EditEffect.IN_PLACE),
    ],
    ids=["upgrade", "all-nodes", "next-upgrade"],
)
def test_googles_words_for_its_update_are_those_of_the_table(words: str, found: EditEffect) -> None:
    # Python 3.13 takes the indentation out of docstrings; inspect.cleandoc does in every version.
    described = re.split(r"\n    (?=[a-z_]+ \()", inspect.cleandoc(str(container_v1.UpdateNodePoolRequest.__doc__)))
    fields = {each.partition(" ")[0] for each in described if re.search(words, " ".join(each.split()))}
    rows = {camel_to_snake(name.rpartition(".")[2]): effect("gcp", name) for name in table("gcp")}

    assert fields
    assert {name: rows[name] for name in fields} == dict.fromkeys(fields, found)


def camel_to_snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def snake_to_camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def test_what_the_models_of_azure_call_fixed_is_replaced() -> None:
    described = re.split(r"\n\s*:ivar ", str(azure_models.ManagedClusterAgentPoolProfileProperties.__doc__))
    fixed = {
        name
        for name, _, text in (each.partition(":") for each in described)
        if re.search(
            r"may not be changed after|not allowed to (be )?changed? once", " ".join(text.split()), re.IGNORECASE
        )
    }
    wire = azure_models.ManagedClusterAgentPoolProfileProperties._attribute_map

    assert {wire[name]["key"] for name in fixed} >= {"osDiskType", "hostGroupID"}
    for name in fixed:
        assert effect("azure", wire[name]["key"]) is EditEffect.REPLACE
