"""What `gpupools diff` says an edit does, and that it says no more than the clouds' own tables of edits."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.diff import REJECTED
from gpupools.cli.main import main
from gpupools.common.csv_rows import csv_rows, data_rows
from gpupools.diff.comparison import compare_files
from gpupools.diff.edit_rows import edit_of
from gpupools.diff.pool_change import PoolChange
from gpupools.diff.pool_diff import compare
from gpupools.diff.records import PoolRecord, in_recorded_order, planned_values, record
from gpupools.plan.cloud import Cloud
from gpupools.plan.edit_tables import EditEffect, EditTables, InputEdit
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from tests.changes import diff
from tests.cloud_parts import fields_of
from tests.declared_pools import declare, sent
from tests.declared_pools import stack as one_pool
from tests.providers.azure_pools import GROUP
from tests.said import change_said

CLUSTERS: dict[str, dict[str, Any]] = {
    "train": {
        "cloud": "aws",
        "name": "train",
        "region": "us-east-1",
        "subnets_by_zone": {"us-east-1a": ["subnet-0000000a"], "us-east-1b": ["subnet-0000000b"]},
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
    },
    "serve": {"cloud": "azure", "name": "serve", "resource_group": "ml"},
    "lab": {
        "cloud": "gcp",
        "name": "lab",
        "project": "ml-lab",
        "location": "europe-west4",
        "service_account": "gpu@ml.iam.gserviceaccount.com",
    },
}
MACHINES = {"train": "g6e.12xlarge", "serve": "Standard_NC24ads_A100_v4", "lab": "g2-standard-8"}


def stack(pools: Mapping[str, Any], clusters: Mapping[str, Any] = CLUSTERS) -> dict[str, Any]:
    return {"config": {"gpupools:clusters": dict(clusters), "gpupools:pools": dict(pools)}}


def pool(cluster: str, **keys: Any) -> dict[str, Any]:
    return {"clusters": [cluster], "instance_type": MACHINES[cluster], "nodes": {"max": 4}, **keys}


def written(folder: Path, name: str, content: Mapping[str, Any]) -> Path:
    file = folder / f"Pulumi.{name}.yaml"
    file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return file


def changes(
    folder: Path, old: Mapping[str, Any], new: Mapping[str, Any], known: Mapping[str, Cloud] | None = None
) -> list[PoolChange]:
    sides = []
    for name, content in (("old", old), ("new", new)):
        checked = check_stack_file(written(folder, name, content), clouds())
        sides.append(checked.plan)
    return diff(sides[0], sides[1], clouds() if known is None else known)


@pytest.mark.parametrize("cloud", clouds())
def test_every_field_of_a_plan_has_a_row(cloud: str) -> None:
    told = {row.field for row in clouds()[cloud].node_pools.edits().plan if not row.when}

    assert sorted(fields_of(clouds()[cloud]) - told) == []


@pytest.mark.parametrize("cloud", clouds())
def test_no_row_is_for_a_field_that_is_gone(cloud: str) -> None:
    rows = clouds()[cloud].node_pools.edits().plan
    conditions = {each for row in rows for each in row.when.split(";")}
    named = {row.field for row in rows} | {each.partition("=")[0] for each in conditions if "=" in each}

    assert sorted(named - fields_of(clouds()[cloud])) == []


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_everything_a_plan_is_compared_by_finds_its_row(cluster: str, tmp_path: Path) -> None:
    cloud = CLUSTERS[cluster]["cloud"]
    tables = clouds()[cloud].node_pools.edits()
    everything = Path(__file__).parents[1] / "stacks" / f"Pulumi.everything-{cloud}.yaml"
    for file in (written(tmp_path, "one", stack({"a": pool(cluster)}, {cluster: CLUSTERS[cluster]})), everything):
        checked = check_stack_file(file, clouds())
        for plan in checked.plan.pools:
            for name in planned_values(plan, checked.plan.stack.clusters[plan.cluster]):
                assert name.startswith("overrides.") or edit_of(name, plan, None, None, tables)


@pytest.mark.parametrize("cloud", clouds())
def test_a_row_that_becomes_nothing_says_why_and_a_sentence_stands_once(cloud: str) -> None:
    folder = Path(str(files("gpupools.providers"))) / cloud
    rows = [row for name in ("inputs", "edit_conditions") for row in csv_rows(folder / f"{name}.csv")]
    shared = [row for name in ("edit_conditions", "edit_sentences") for row in data_rows(f"{name}.csv")]
    named = csv_rows(folder / "edit_sentences.csv")
    details = [row["sentence"] for row in rows if row["sentence"]]
    written = [text for text in details if not text.startswith("@")]
    written += [text for row in (*named, *shared) for text in [row["sentence"]]]

    assert [text for text, count in Counter(written).items() if count > 1] == []
    assert [row["name"] for row in named if details.count(f"@{row['name']}") < 2] == []
    assert all(row["sentence"] for row in (*rows, *shared) if row.get("input") == "")


@pytest.mark.parametrize(
    ("cluster", "fields", "keys", "path"),
    [
        ("train", ("disk_gib", "volumes"), {"disk_gib": 400}, "LaunchTemplate.blockDeviceMappings"),
        ("serve", ("fips",), {"image": {"fips": True}}, "AgentPool.enableFIPS"),
        ("lab", ("disk_gib",), {"disk_gib": 400}, "NodePool.nodeConfig.diskSizeGb"),
    ],
)
def test_an_input_without_a_row_is_unknown(
    cluster: str, fields: tuple[str, ...], keys: dict[str, Any], path: str, tmp_path: Path
) -> None:
    cloud = clouds()[CLUSTERS[cluster]["cloud"]]
    tables = cloud.node_pools.edits()
    plan = tuple(row for row in tables.plan if row.field not in fields)
    inputs = {name: edit for name, edit in tables.inputs.items() if not path.endswith(name)}
    tables = replace(tables, plan=plan, inputs=inputs)
    known = {cloud.name: cloud._replace(node_pools=cloud.node_pools._replace(edits=lambda: tables))}
    (change,) = changes(tmp_path, stack({"a": pool(cluster)}), stack({"a": pool(cluster, **keys)}), known)

    assert change.effect is EditEffect.UNKNOWN
    assert change.fields[0].field == path
    assert change_said(change) == (
        f"{cluster}/a: effect unknown until pulumi preview: {change.fields[0]}; no table has the effect of {path}"
    )


UNREADABLE = [
    pytest.param("train", "sharing.mode", "by-magic", {"sharing": {"mode": "time-slicing", "replicas": 2}}, id="mode"),
    pytest.param("lab", "taints", ["no taint"], {}, id="taint"),
    pytest.param("lab", "upgrade.phases", 2, {"upgrade": {"max_surge": 3}}, id="parts"),
]


@pytest.mark.parametrize(("cluster", "name", "value", "keys"), UNREADABLE)
def test_a_record_that_this_release_cannot_read_counts_as_a_change_of_all_its_inputs(
    cluster: str, name: str, value: Any, keys: dict[str, Any], tmp_path: Path
) -> None:
    shared = {"trust": {"team": "vision"}} if "sharing" in keys else {}
    checked = check_stack_file(written(tmp_path, "new", stack({"a": pool(cluster, **shared, **keys)})), clouds())
    now = record(checked.plan.pools[0], checked.plan.stack)
    (change,) = compare([replace(now, values={**now.values, name: value})], checked.plan, clouds())

    assert change.change == "changed"
    assert change.effect is EditEffect.IN_PLACE


CASES = [
    pytest.param(
        "train",
        {"instance_type": "p4d.24xlarge"},
        {"instance_type": "p4de.24xlarge"},
        "ends pods on up to 4 nodes at once; "
        "replaces up to 4 nodes × 8 GPUs; creates the new pool"
        " before it deletes the old one: instance_type p4d.24xlarge → p4de.24xlarge",
        id="another machine on EKS replaces",
    ),
    pytest.param(
        "lab",
        {},
        {"instance_type": "g2-standard-24"},
        "ends pods on up to 4 nodes at once; "
        "replaces up to 4 nodes × 1 GPU; creates the new pool before it deletes the old one: accelerator_count 1 → 2",
        id="more GPUs on GKE replace",
    ),
    pytest.param(
        "serve",
        {},
        {"labels": {"team": "vision"}},
        "pods stay; in place: labels.team none → vision",
        id="a label is in place",
    ),
    pytest.param(
        "train",
        {},
        {"zones": ["us-east-1a"]},
        "ends pods on up to 4 nodes at once; "
        "replaces up to 4 nodes × 4 GPUs; creates the new pool before it deletes the old one:"
        " cluster.subnet_ids [subnet-0000000a, subnet-0000000b] → [subnet-0000000a]",
        id="fewer zones on EKS replace",
    ),
    pytest.param(
        "train",
        {},
        {"zones": ["us-east-1a", "us-east-1b"]},
        "no change for the nodes: zones [] → [us-east-1a, us-east-1b]",
        id="naming the zones a pool has already changes nothing",
    ),
    pytest.param(
        "lab",
        {"nodes": {"max": 8}},
        {"nodes": {"max": 80}},
        "pods stay; in place: nodes.max 8 → 80",
        id="more nodes are in place",
    ),
    pytest.param(
        "serve",
        {},
        {"timeouts": {"create_min": 90}},
        "no change for the nodes: create_min 60 → 90",
        id="a time-out is no change",
    ),
    pytest.param(
        "lab",
        {},
        {"overrides": {"gcp": {"NodePool": {"nodeConfig": {"fastSocket": {"enabled": True}}}}}},
        "drains 1 node at a time; "
        "rolling: overrides.NodePool.nodeConfig.fastSocket.enabled none → true; GKE drains and recreates every node",
        id="an input set by hand has the effect of the cloud's table",
    ),
    pytest.param(
        "train",
        {"sharing": {"mode": "mps", "replicas": 4}, "trust": {"team": "vision"}},
        {"sharing": {"mode": "mps", "replicas": 4, "rename": True}, "trust": {"team": "vision"}},
        (
            "drains 1 node at a time; "
            "rolling: user_data (rename-by-default false → true); EKS drains and replaces every"
            " node; pods must request the new resource name"
        ),
        id="replicas by another name",
    ),
    pytest.param("lab", {}, {}, "no change for the nodes", id="the same file"),
]


@pytest.mark.parametrize(("cluster", "old", "new", "words"), CASES)
def test_an_edit_in_words(cluster: str, old: dict[str, Any], new: dict[str, Any], words: str, tmp_path: Path) -> None:
    found = changes(tmp_path, stack({"a": pool(cluster, **old)}), stack({"a": pool(cluster, **new)}))

    assert [change_said(change) for change in found] == [f"{cluster}/a: {words}"]


def test_the_order_of_pools_clusters_keys_and_taints_changes_nothing(tmp_path: Path) -> None:
    taints = ["team=vision:NoSchedule", "tier=batch:NoExecute"]
    old = stack({"a": pool("train", taints=taints, labels={"x": "1", "y": "2"}), "b": pool("lab"), "c": pool("serve")})
    turned = {"labels": {"y": "2", "x": "1"}, "taints": taints[::-1], **dict(reversed(pool("train").items()))}
    new = stack({"c": pool("serve"), "b": pool("lab"), "a": turned}, dict(reversed(CLUSTERS.items())))

    assert {(change.change, change.fields) for change in changes(tmp_path, old, new)} == {("unchanged", ())}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_renamed_pool_keeps_its_nodes(cluster: str, tmp_path: Path) -> None:
    found = changes(
        tmp_path, stack({"a": pool(cluster)}), stack({"b": pool(cluster, renamed_from="a"), "c": pool(cluster)})
    )

    assert [str(change) for change in found] == [
        f"{cluster}/b: renamed from a; no change for the nodes but their label",
        f"{cluster}/c: creates up to 4 nodes × {4 if cluster == 'train' else 1} GPU{'s' * (cluster == 'train')}",
    ]
    assert [each.field for each in found[0].fields] == ["labels.gpupools/pool"]


def test_a_pool_renamed_and_changed_says_both(tmp_path: Path) -> None:
    found = changes(tmp_path, stack({"a": pool("serve")}), stack({"b": pool("serve", renamed_from="a", disk_gib=400)}))

    assert str(found[0]) == (
        "serve/b: ends pods on up to 4 nodes at once; renamed from a; replaces up to 4 nodes × 1 GPU;"
        " creates the new pool before it deletes the old one"
    )


@pytest.mark.parametrize(("cluster", "effect"), [("train", "rolling"), ("serve", "replace"), ("lab", "replace")])
def test_dropping_renamed_from_later_is_not_free(cluster: str, effect: str, tmp_path: Path) -> None:
    found = changes(tmp_path, stack({"b": pool(cluster, renamed_from="a")}), stack({"b": pool(cluster)}))

    assert [(change.effect, change.fields[0].field) for change in found] == [(effect, "first_name")]


def test_a_new_name_without_renamed_from_deletes_and_creates(tmp_path: Path) -> None:
    found = changes(tmp_path, stack({"a": pool("lab")}), stack({"b": pool("lab")}))

    assert [(change.pool, change.change, change.effect.destroys) for change in found] == [
        ("b", "created", False),
        ("a", "deleted", True),
    ]


@pytest.mark.parametrize(
    ("new", "guesses"),
    [
        pytest.param({"b": pool("lab")}, {"b": "a"}, id="nothing but the name"),
        pytest.param({"b": pool("lab", labels={"team": "x"}, nodes={"max": 9})}, {"b": "a"}, id="edited in place too"),
        pytest.param({"b": pool("lab", disk_gib=400)}, {"b": "a"}, id="edited so that its nodes are renewed"),
        pytest.param({"b": pool("lab", capacity={"mode": "spot"})}, {"b": ""}, id="would be replaced anyway"),
        pytest.param({"b": pool("lab", instance_type="g2-standard-16")}, {"b": ""}, id="another machine"),
        pytest.param({"b": pool("serve")}, {"b": ""}, id="on another cluster"),
        pytest.param({"b": pool("lab", labels={"x": "1"}), "c": pool("lab")}, {"b": "", "c": "a"}, id="the likeliest"),
        pytest.param({"b": pool("lab", renamed_from="aa")}, {"b": "a"}, id="another name in renamed_from"),
        pytest.param({"a": pool("lab"), "b": pool("lab")}, {"a": "", "b": ""}, id="nothing goes"),
    ],
)
def test_a_rename_that_is_not_said_is_recognised(new: dict[str, Any], guesses: dict[str, str], tmp_path: Path) -> None:
    found = changes(tmp_path, stack({"a": pool("lab")}), stack(new))

    assert {change.pool: change.as_json()["perhaps_renamed_from"] or "" for change in found if change.pool in new} == (
        guesses
    )
    for name, former in guesses.items():
        said = f"if this is {former} renamed, set renamed_from: {former} to keep the nodes"
        assert [said in str(change) for change in found if change.pool == name] == [bool(former)]


def test_what_differs_in_a_long_text_is_named(tmp_path: Path) -> None:
    clusters = {"train": {**CLUSTERS["train"], "kubeconfig": {"path": "~/.kube/train"}}}
    plain, few, many = (
        stack({"a": pool("train", software="device-plugin", image={"family": "al2023"}, **each)}, clusters)
        for each in ({}, {"network": {"max_pods": 30}}, {"network": {"max_pods": 60}, "disk": {"local_nvme": "raid0"}})
    )
    from_few, from_none = (change_said(changes(tmp_path, each, many)[0]) for each in (few, plain))

    assert from_few.startswith(
        'train/a: drains 1 node at a time; rolling: user_data (maxPods 30 → 60, with "strategy": "RAID0")'
    )
    assert '"maxPods": 60' in from_none
    assert not re.search(r"\d+ characters|BOUNDARY|Content-Type", from_few + from_none)


def test_another_cloud_under_the_same_key_replaces(tmp_path: Path) -> None:
    moved = stack({"a": pool("lab", clusters=["train"])}, {"train": CLUSTERS["lab"]})
    found = changes(tmp_path, stack({"a": pool("train")}, {"train": CLUSTERS["train"]}), moved)

    assert [str(each) for change in found for each in change.fields] == ["cluster.cloud aws → gcp"]
    assert found[0].effect is EditEffect.REPLACE


@pytest.mark.parametrize(
    ("cluster", "address", "effect"),
    [
        pytest.param("train", {"name": "other"}, "replace", id="another EKS cluster"),
        pytest.param("train", {"node_role_arn": "arn:aws:iam::123456789012:role/b"}, "replace", id="another role"),
        pytest.param("lab", {"node_locations": ["europe-west4-a"]}, "in-place", id="zones of a GKE cluster"),
        pytest.param("serve", {"proximity_placement_group_id": GROUP}, "none", id="a group the pool is not in"),
        pytest.param("serve", {"kubeconfig": {"path": "/k"}}, "unchanged", id="how the API is reached"),
        pytest.param(
            "serve",
            {"stack": "org/net/prod", "subnet_id": {"output": "subnet"}},
            "unknown",
            id="another stack's output",
        ),
    ],
)
def test_a_cluster_with_another_address(cluster: str, address: dict[str, Any], effect: str, tmp_path: Path) -> None:
    moved = {cluster: {**CLUSTERS[cluster], **address}}
    old = stack({"a": pool(cluster)}, {cluster: CLUSTERS[cluster]})
    found = changes(tmp_path, old, stack({"a": pool(cluster)}, moved))[0]

    assert (found.effect.value if found.fields else found.change) == effect


def test_subnets_by_zone_of_the_same_subnets_are_no_change(tmp_path: Path) -> None:
    plain = {key: value for key, value in CLUSTERS["train"].items() if key != "subnets_by_zone"}
    old = stack({"a": pool("train")}, {"train": {**plain, "subnet_ids": ["subnet-0000000b", "subnet-0000000a"]}})
    found = changes(tmp_path, old, stack({"a": pool("train")}, {"train": CLUSTERS["train"]}))

    assert [change.change for change in found] == ["unchanged"]


def test_a_capacity_block_takes_another_machine_by_a_new_template(tmp_path: Path) -> None:
    block = {"capacity": {"mode": "capacity-block", "name": "cr-0123456789abcdef0"}, "zones": ["us-east-1a"]}
    old = stack({"a": pool("train", instance_type="p5.48xlarge", **block)})
    found = changes(tmp_path, old, stack({"a": pool("train", instance_type="p5en.48xlarge", **block)}))

    assert found[0].fields[0].field == "instance_type"
    assert found[0].effect is EditEffect.ROLLING


def test_an_unknown_effect_on_pods_counts_alike_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clusters = {"train": CLUSTERS["train"] | {"kubeconfig": {"path": "/etc/kube/train"}}}
    shared = pool("train", software="gpu-operator", trust={"team": "a"}, sharing={"mode": "mps", "replicas": 2})
    sides = [
        written(tmp_path, str(count), stack({"a": {**shared, "sharing": {"mode": "mps", "replicas": count}}}, clusters))
        for count in (2, 3)
    ]

    def code(*options: str) -> int:
        return main(["diff", *options, *map(str, sides)])

    assert code("--format", "markdown") == 0
    assert "### gpupools diff: 1 with an unknown effect" in (said := capsys.readouterr().out)
    assert "effect on pods unknown" in said
    assert code("--fail-on", "evict", "--exit-code") == REJECTED
    assert code("--exit-code") == 0
    before, after = (check_stack_file(file, clouds()) for file in sides)
    (entry, *_) = compare_files(before, after, clouds()).entries()
    assert entry.severity == "bad"


def test_an_input_set_by_hand_that_no_table_has_is_not_guessed(tmp_path: Path) -> None:
    by_hand = {"azure": {"AgentPool": {"messageOfTheDay": "aGVsbG8="}}}
    azure = clouds()["azure"]
    tables = EditTables((), {"vmSize": InputEdit(EditEffect.REPLACE)})
    known = {"azure": azure._replace(node_pools=azure.node_pools._replace(edits=lambda: tables))}
    found = changes(tmp_path, stack({"a": pool("serve")}), stack({"a": pool("serve", overrides=by_hand)}), known)[0]

    assert found.effect is EditEffect.UNKNOWN
    assert found.effect.destroys
    assert change_said(found) == (
        "serve/a: effect unknown until pulumi preview: overrides.AgentPool.messageOfTheDay none → aGVsbG8=; no table"
        " has the effect of AgentPool.messageOfTheDay"
    )


TAKEN_AWAY = [
    pytest.param("serve", {"AgentPool": {"vnetSubnetID": None}}, "replace", id="subnet of an AKS pool"),
    pytest.param("lab", {"NodePool": {"nodeConfig": {"oauthScopes": None}}}, "replace", id="scopes of a GKE pool"),
    pytest.param("lab", {"NodePool": {"management": None}}, "in-place", id="a map with rows for its parts only"),
    pytest.param("train", {"LaunchTemplate": {"tagSpecifications": None}}, "rolling", id="tags of EKS nodes"),
    pytest.param("train", {"NodeGroup": {"nodeRepairConfig": None}}, "in-place", id="repair of EKS nodes"),
    pytest.param("serve", {"AgentPool": {"kubeletConfig": {}}}, "replace", id="an empty map is an input too"),
]


@pytest.mark.parametrize(("cluster", "by_hand", "effect"), TAKEN_AWAY)
def test_an_input_taken_away_by_hand_has_the_effect_of_its_row(
    cluster: str, by_hand: dict[str, Any], effect: str, tmp_path: Path
) -> None:
    without = stack({"a": pool(cluster)})
    taken = stack({"a": pool(cluster, overrides={CLUSTERS[cluster]["cloud"]: by_hand})})
    (away,), (back,) = changes(tmp_path, without, taken), changes(tmp_path, taken, without)

    assert (away.change, away.effect.value) == (back.change, back.effect.value) == ("changed", effect)
    assert [change.change for change in changes(tmp_path, taken, taken)] == ["unchanged"]


def test_what_is_taken_away_is_said_in_words_and_kept_on_record(tmp_path: Path) -> None:
    taken = stack({"a": pool("serve", overrides={"azure": {"AgentPool": {"vnetSubnetID": None}}})})
    (change,) = changes(tmp_path, stack({"a": pool("serve")}), taken)
    checked = check_stack_file(written(tmp_path, "taken", taken), clouds())
    kept = PoolRecord.from_json(json.loads(json.dumps(record(checked.plan.pools[0], checked.plan.stack).as_json())))

    assert "overrides.AgentPool.vnetSubnetID none → (taken away)" in change_said(change)
    assert kept is not None
    assert [each.change for each in compare([kept], checked.plan, clouds())] == ["unchanged"]


SETS = [
    pytest.param("serve", {"zones": ["1", "2", "3"]}, {"zones": ["3", "1", "2"]}, id="zones on AKS"),
    pytest.param(
        "lab",
        {"zones": ["europe-west4-a", "europe-west4-b"]},
        {"zones": ["europe-west4-b", "europe-west4-a"]},
        id="zones on GKE",
    ),
    pytest.param("train", {"zones": ["us-east-1a", "us-east-1b"]}, {"zones": ["us-east-1b", "us-east-1a"]}, id="EKS"),
    *(
        pytest.param(
            cluster,
            {"taints": ["a=b:NoSchedule", "c=d:NoSchedule"]},
            {"taints": ["c=d:NoSchedule", "a=b:NoSchedule"]},
            id=f"taints on {cluster}",
        )
        for cluster in CLUSTERS
    ),
]


@pytest.mark.parametrize(("cluster", "keys", "turned"), SETS)
def test_what_is_a_set_in_the_cloud_may_be_written_in_any_order(
    cluster: str, keys: dict[str, Any], turned: dict[str, Any], tmp_path: Path
) -> None:
    found = changes(tmp_path, stack({"a": pool(cluster, **keys)}), stack({"a": pool(cluster, **turned)}))
    pools = {
        key: one_pool(CLUSTERS[cluster], {"instance_type": MACHINES[cluster], "nodes": {"max": 4}, **each})
        for key, each in (("sorted", keys), ("turned", turned))
    }
    cloud, made = CLUSTERS[cluster]["cloud"], declare(pools, tmp_path / "programs").pools

    assert [change.change for change in found] == ["unchanged"]
    assert sent(cloud, "sorted", made["sorted"]) == sent(cloud, "turned", made["turned"])


def test_the_clusters_zones_on_gke_may_be_written_in_any_order(tmp_path: Path) -> None:
    zones = ["europe-west4-a", "europe-west4-b"]
    files = [{"lab": {**CLUSTERS["lab"], "node_locations": each}} for each in (zones, zones[::-1])]
    found = changes(tmp_path, *(stack({"a": pool("lab")}, each) for each in files))
    keys = {"instance_type": MACHINES["lab"], "nodes": {"max": 4}}
    made = declare(
        {f"p{index}": one_pool(each["lab"], keys) for index, each in enumerate(files)}, tmp_path / "programs"
    )

    assert [change.change for change in found] == ["unchanged"]
    assert [sent("gcp", key, each)["nodeLocations"] for key, each in made.pools.items()] == [zones, zones]


def test_a_pool_made_with_its_zones_in_another_order_keeps_them_in_that_order(tmp_path: Path) -> None:
    checked = check_stack_file(written(tmp_path, "new", stack({"a": pool("serve", zones=["1", "2"])})), clouds())
    now = record(checked.plan.pools[0], checked.plan.stack)
    old, other = (replace(now, values={**now.values, "availability_zones": each}) for each in (["2", "1"], ["3", "1"]))

    orders = [in_recorded_order(checked.plan.pools[0], each).provider_plan for each in (None, old, other)]
    assert [getattr(each, "availability_zones", None) for each in orders] == [("1", "2"), ("2", "1"), ("1", "2")]
    assert [change.change for change in compare([old], checked.plan, clouds())] == ["unchanged"]


FIXED = [
    pytest.param("train", "EKS removes nodes above a lower number; it tries to evict their pods for up to 15 minutes"),
    pytest.param("serve", "AKS drains and removes nodes above a lower number"),
    pytest.param("lab", "GKE removes nodes above a lower number"),
]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_nodes_above_a_fixed_number_go_though_the_declared_number_stays(cluster: str, tmp_path: Path) -> None:
    zone = {"zones": ["europe-west4-a"]} if cluster == "lab" else {}
    old = stack({"a": {**pool(cluster, **zone), "nodes": {"min": 1, "max": 4}}})
    (change,) = changes(tmp_path, old, stack({"a": {**pool(cluster, **zone), "nodes": {"fixed": 1}}}))

    assert (change.effect.value, change.pods.value) == ("in-place", "evicted at once")


def test_naming_the_zones_of_the_cluster_changes_nothing(tmp_path: Path) -> None:
    zones = {"lab": {**CLUSTERS["lab"], "node_locations": ["europe-west4-a"]}}
    old, new = (stack({"a": pool("lab", **each)}, zones) for each in ({}, {"zones": ["europe-west4-a"]}))
    (change,) = changes(tmp_path, old, new)

    assert (change.effect.value, change.pods.value) == ("none", "stay")


@pytest.mark.parametrize(("cluster", "detail"), FIXED)
def test_fewer_fixed_nodes_are_said_to_go(cluster: str, detail: str, tmp_path: Path) -> None:
    zone = {"zones": ["europe-west4-a"]} if cluster == "lab" else {}
    old, new = (stack({"a": {**pool(cluster, **zone), "nodes": {"fixed": count}}}) for count in (4, 2))

    said = f"{cluster}/a: ends pods on up to 2 nodes at once; in place: nodes.min 4 → 2; {detail}"
    assert [change_said(each) for each in changes(tmp_path, old, new)] == [said]


def test_what_the_table_warns_of_is_said_of_an_input_set_by_hand(tmp_path: Path) -> None:
    old, new = (
        stack({"a": pool("train", overrides={"aws": {"NodeGroup": {"version": version}}})})
        for version in ("1.33", "1.32")
    )

    assert [change_said(each) for each in changes(tmp_path, old, new)] == [
        (
            "train/a: drains 1 node at a time; "
            "rolling: overrides.NodeGroup.version 1.33 → 1.32; EKS replaces every node with the new"
            " Kubernetes version; it rejects an older version"
        )
    ]


def test_json_has_every_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = written(tmp_path, "old", stack({"a": pool("lab")}))
    new = written(tmp_path, "new", stack({"a": pool("lab", disk_gib=400)}))
    code = main(["diff", str(old), str(new), "--json", "--exit-code"])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["pools"] == [
        {
            "cluster": "lab",
            "pool": "a",
            "change": "changed",
            "effect": "rolling",
            "pods": "drained node by node",
            "nodes_at_once": 1,
            "fields": [
                {"field": "disk_gib", "old": 200, "new": 400, "effect": "rolling", "pods": "drained node by node"}
            ],
            "adopts": None,
            "perhaps_renamed_from": None,
            "refused": None,
            "allowed": None,
        }
    ]


@pytest.mark.parametrize(
    ("pools", "code"),
    [
        pytest.param({"a": pool("serve", disk_gib=400)}, 3, id="replaced"),
        pytest.param({"b": pool("serve")}, 3, id="deleted"),
        pytest.param({"a": pool("serve", labels={"x": "1"})}, 0, id="in place"),
        pytest.param({"a": pool("serve", image={"fips": True})}, 0, id="rolling"),
    ],
)
def test_the_exit_code_tells_what_destroys(pools: dict[str, Any], code: int, tmp_path: Path) -> None:
    files = [
        str(written(tmp_path, "old", stack({"a": pool("serve")}))),
        str(written(tmp_path, "new", stack(pools))),
    ]

    assert main(["diff", *files, "--exit-code"]) == code
    rejected = "b" in pools  # more than half of the pools are deleted
    assert main(["diff", *files]) == (3 if rejected else 0)


def test_a_refused_file_ends_with_its_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = written(tmp_path, "good", stack({"a": pool("lab")}))
    bad = written(tmp_path, "bad", stack({"a": pool("lab", nodes={"max": 0})}))

    assert main(["diff", str(good), str(bad)]) == 1
    assert f"{bad}:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param([], "two files are required", id="nothing"),
        pytest.param(["one.yaml"], "two files are required", id="one file"),
        pytest.param(["--since", "HEAD", "one.yaml", "two.yaml"], "requires a single file", id="since with two files"),
        pytest.param(["--since", "HEAD"], "this folder has none", id="since without a stack file"),
        pytest.param(["--since", "HEAD", "x.yaml"], "not in a git checkout", id="outside a checkout"),
        pytest.param(["--since", "HEAD", "no/x.yaml"], "does not exist", id="no such folder"),
    ],
)
def test_a_wrong_call_is_explained(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    assert main(["diff", *words]) == 2
    assert complaint in capsys.readouterr().err


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a git checkout whose one commit has a stack file, and go there."""
    written(tmp_path, "dev", stack({"a": pool("serve")}))
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("named", [["Pulumi.dev.yaml"], []], ids=["file named", "the only stack file"])
def test_since_compares_with_a_commit(named: list[str], checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(checkout, "dev", stack({"a": pool("serve", labels={"x": "1"})}))

    assert main(["diff", "--since", "HEAD", *named]) == 0
    assert capsys.readouterr().out == "serve/a: pods stay; in place\n  pools.a.labels none → {x: 1}\n"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["--since", "nope", "Pulumi.dev.yaml"], "unknown commit 'nope'", id="unknown reference"),
        pytest.param(["--since=--all", "Pulumi.dev.yaml"], "unknown commit '--all'", id="an option as reference"),
        pytest.param(["--since", "HEAD", "Pulumi.new.yaml"], "is not in HEAD", id="a file the commit does not have"),
        pytest.param(["--since", "HEAD"], "one of Pulumi.dev.yaml, Pulumi.new.yaml", id="several stack files"),
    ],
)
def test_since_explains_what_git_does_not_have(
    words: list[str], complaint: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(checkout, "new", stack({"a": pool("serve")}))

    assert main(["diff", *words]) == 2
    assert complaint in capsys.readouterr().err


def test_a_file_refused_in_the_commit_is_named_with_it(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(checkout, "dev", stack({"a": pool("serve", nodes={"max": 0})}))
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qam", "bad"], check=True)

    assert main(["diff", "--since", "HEAD", "Pulumi.dev.yaml"]) == 1
    assert "HEAD:Pulumi.dev.yaml:" in capsys.readouterr().err


def test_the_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["diff", "--help"])

    assert "3  pulumi up would reject the edit" in capsys.readouterr().out


SHARED = {"sharing": {"mode": "time-slicing", "replicas": 4}, "trust": {"team": "vision"}}


def test_a_change_is_a_headline_the_edited_keys_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sharing = {"sharing": {"mode": "time-slicing", "replicas": 8}}
    old = {"train": pool("train", labels={"a": "b"}), "lab": pool("lab", **SHARED), "same": pool("lab")}
    new = {**old, "lab": pool("lab", **SHARED | sharing), "train": pool("train", labels={"a": "c"})}
    stacks = [stack(each) for each in (old, new)]
    for each in stacks:
        each["config"]["gpupools:production"] = True
    sides = [str(written(tmp_path, name, each)) for name, each in zip(("old", "new"), stacks, strict=True)]

    assert main(["diff", *sides]) == 3
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        "train/train: pods stay; in place",
        "  pools.train.labels.a b → c",
        shown[2],
        "  pools.lab.sharing.replicas 4 → 8",
        shown[4],
        "unchanged: lab/same",
    ]
    assert shown[2].startswith("lab/lab: ends pods on up to 4 nodes at once; replaces up to 4 nodes × 1 GPU; ")
    assert shown[4].startswith("  pulumi up rejects this: lab/lab is a production pool; if this is intended: ")

    assert main(["diff", *sides, "--verbose"]) == 3
    folded = [line for line in capsys.readouterr().out.splitlines() if line not in shown]
    assert folded[0] == "    labels.a b → c: EKS also sets them on running nodes"
    assert folded[1] == "    max_shared_clients_per_gpu 4 → 8"


@pytest.mark.parametrize(
    ("team", "line"),
    [
        ({"namespaces": ["x"], "limit": {"a": 4}}, "teams.x none → {namespaces: [x], limit: {a: 4}}"),
        (None, "clusters.lab.runtime.trust_policy none → true"),
    ],
)
def test_keys_of_teams_and_software_stand_with_the_software(
    team: dict[str, Any] | None, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime = {"scheduler": "kueue"}
    lab = {**CLUSTERS["lab"], "kubeconfig": {"path": "~/.kube/lab"}, "runtime": runtime}
    old, new = (stack({"a": pool("lab")}, {"lab": lab}) for _ in range(2))
    teams = {"y": {"namespaces": ["y"], "guarantee": {"a": 1}}}
    for each in (old, new):
        each["config"]["gpupools:teams"] = teams
    if team is not None:
        new["config"]["gpupools:teams"] = {**teams, "x": team}
    else:
        new["config"]["gpupools:clusters"] = {"lab": {**lab, "runtime": {**runtime, "trust_policy": True}}}

    assert main(["diff", *(str(written(tmp_path, name, each)) for name, each in (("old", old), ("new", new)))]) == 0
    out = capsys.readouterr().out
    assert out.count(line) == 1
    assert out.splitlines()[0].startswith("lab: running pods keep their GPUs; ")
    assert "{'" not in out


def test_a_value_set_by_hand_that_may_be_secret_is_not_shown_as_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand = {"gcp": {"NodePool": {"nodeConfig": {"metadata": {"startup": "token-abc"}}}}}
    old, new = stack({"a": pool("lab")}), stack({"a": pool("lab", overrides=by_hand)})

    main(["diff", *(str(written(tmp_path, name, each)) for name, each in (("old", old), ("new", new))), "--verbose"])
    out = capsys.readouterr().out
    assert "pools.a.overrides.gcp.NodePool.nodeConfig.metadata" in out
    assert "token-abc" not in out
