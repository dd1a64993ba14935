"""What `overrides` may not touch on each cloud, and that everything else is taken: the one table, both ways round.

The whole file is planned as `gpupools check` does it, so that a refusal names its key in the file.
"""

import base64
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.diff.pool_diff import compare
from gpupools.diff.records import planned_values, record
from gpupools.plan.cloud import Cloud
from gpupools.plan.cloud_tables import read_overridable
from gpupools.plan.edit_tables import read_edit_tables
from gpupools.plan.input_types import read_input_types
from gpupools.providers import clouds
from gpupools.providers.aws import bootstrap
from gpupools.providers.gcp.pool_settings import RESERVED_METADATA
from gpupools.spec.overrides import Overridable, value_at
from gpupools.stackfile.stack import plan_config
from tests.cloud_parts import row_faults
from tests.declared_pools import stack
from tests.program_faults import check_property_path
from tests.rows import each_row
from tests.test_settings import CLUSTERS

Keys = Mapping[str, Any]
pytestmark = pytest.mark.filterwarnings("ignore:aws.ec2/encryptioncontrol:DeprecationWarning")

CLOUDS = ("aws", "azure", "gcp")
BASE: Mapping[str, Keys] = {
    "aws": {"gpu": "L4", "nodes": {"max": 2}, "software": "device-plugin"},
    "azure": {"gpu": "T4", "nodes": {"max": 2}},
    "gcp": {"gpu": "L4", "nodes": {"max": 2}},
}


def said(cloud: str, **keys: Any) -> list[str]:
    """Return what is wrong with a pool on a cloud."""
    cluster = {**clouds()[cloud].example_cluster, "kubeconfig": {"path": "~/.kube/config"}}
    if cloud == "aws" and "network" in keys:
        cluster.pop("subnet_ids")
        cluster["subnets_by_zone"] = {"eu-central-1a": ["subnet-0a1b2c3d4e5f60718"]}
    pool = {"clusters": ["here"], **BASE[cloud], **keys}
    try:
        plan_config({"clusters": {"here": cluster}, "pools": {"p": pool}}, clouds())
    except Rejected as rejected:
        return [str(problem) for problem in rejected.problems]
    return []


def by_hand(cloud: str, resource: str, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(path):
        value = {key: value}
    keys: dict[str, Any] = {"overrides": {cloud: {resource: value}}}
    if resource == "PlacementGroup":
        keys |= {"network": {"placement": "compact"}, "zones": ["eu-central-1a"]}
    return keys


def resources() -> Iterator[tuple[str, str, Overridable]]:
    for cloud in CLOUDS:
        for name, resource in clouds()[cloud].node_pools.overridable.items():
            yield cloud, name, resource


KEPT = [(cloud, name, path) for cloud, name, resource in resources() for path in resource.kept]
FREE = [
    (cloud, name, key)
    for cloud, name, resource in resources()
    for key in sorted(resource.inputs - {path[0] for path in resource.kept})
]


@each_row(("cloud", "resource", "path"), KEPT)
@each_row("value", [7, None, {"a": 1}], ids=["a value", "null", "a map"])
def test_what_stays_the_plans_is_refused_in_every_spelling(
    cloud: str, resource: str, path: tuple[str, ...], value: Any
) -> None:
    instead = clouds()[cloud].node_pools.overridable[resource].kept[path]
    found = said(cloud, **by_hand(cloud, resource, path, value))
    where = f"pools.p.overrides.{cloud}.{resource}.{'.'.join(path)}"

    assert instead
    assert any(problem.startswith(where) and instead in problem for problem in found), found


@each_row(("cloud", "resource", "path"), [each for each in KEPT if len(each[2]) > 1])
@each_row("value", [None, [], "text"], ids=["null", "a list", "text"])
def test_nothing_above_it_can_be_taken_away_either(
    cloud: str, resource: str, path: tuple[str, ...], value: Any
) -> None:
    found = said(cloud, **by_hand(cloud, resource, path[:-1], value))

    assert any("which cannot be overridden" in problem for problem in found), found


@cache
def example(cloud: str, resource: str, key: str) -> Any:
    """Return a value that an input takes."""
    role = "arn:aws:iam::123456789012:role/other"
    return {
        ("aws", "blockDeviceMappings"): [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true", "volumeSize": 300}}],
        ("aws", "userData"): mime("#!/bin/sh\ntrue\n"),
        ("aws", "networkInterfaces"): [{"deviceIndex": 0, "securityGroups": ["sg-0a1b2c3d"]}],
        ("aws", "nodeRoleArn"): role,
        ("aws", "subnetIds"): ["subnet-0000000b"],
        ("gcp", "autoscaling"): {"locationPolicy": "BALANCED"},
        ("gcp", "management"): {"autoUpgrade": False},
    }.get((cloud, key), of_kind(clouds()[cloud].node_pools.overridable[resource].nested[resource][key]))


def of_kind(kind: str) -> Any:
    return [] if kind.startswith("[]") else {"": "text", "bool": True, "int": 1, "float": 1.5}.get(kind, {})


def mime(script: str, boundary: str = "BOUNDARY") -> str:
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n\n--{boundary}\n'
    return encoded(f"{head}Content-Type: text/x-shellscript\n\n{script}--{boundary}--\n")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@each_row(("cloud", "resource", "key"), FREE)
def test_everything_else_is_taken(cloud: str, resource: str, key: str) -> None:
    assert said(cloud, **by_hand(cloud, resource, (key,), example(cloud, resource, key))) == []


INSIDE = [
    ("aws", "NodeGroup", ("labels", "example.com/team"), "vision"),
    ("aws", "NodeGroup", ("tags", "team"), "vision"),
    ("aws", "LaunchTemplate", ("metadataOptions", "instanceMetadataTags"), "enabled"),
    ("azure", "AgentPool", ("nodeLabels", "example.com/team"), "vision"),
    ("azure", "AgentPool", ("securityProfile", "sshAccess"), "Disabled"),
    ("azure", "AgentPool", ("tags", "team"), "vision"),
    ("gcp", "NodePool", ("autoscaling", "locationPolicy"), "BALANCED"),
    ("gcp", "NodePool", ("nodeConfig", "bootDisk", "diskType"), "pd-ssd"),
    ("gcp", "NodePool", ("nodeConfig", "metadata", "serial-port-logging-enable"), "true"),
    ("gcp", "NodePool", ("nodeConfig", "kubeletConfig", "cpuManagerPolicy"), "static"),
    ("gcp", "NodePool", ("nodeConfig", "resourceLabels", "team"), "vision"),
    ("gcp", "NodePool", ("nodeConfig", "serviceAccount"), "other@ml-dev.iam.gserviceaccount.com"),
]


@pytest.mark.parametrize(("cloud", "resource", "path", "value"), INSIDE)
def test_what_stands_beside_it_is_taken(cloud: str, resource: str, path: tuple[str, ...], value: Any) -> None:
    assert said(cloud, **by_hand(cloud, resource, path, value)) == []


def test_no_autoscaler_is_put_beside_a_fixed_number_of_nodes() -> None:
    keys = by_hand("gcp", "NodePool", ("autoscaling", "locationPolicy"), "ANY")

    (problem,) = said("gcp", **{**keys, "nodes": {"fixed": 3}, "zones": ["europe-west4-a"]})

    assert "cannot be combined with nodes.fixed 3" in problem


def test_the_metadata_that_gke_keeps_is_what_its_reference_names() -> None:
    assert len(RESERVED_METADATA) == len(set(RESERVED_METADATA)) == 19


# --- tags -------------------------------------------------------------------------------------------------------------

TAGS: Mapping[str, list[tuple[str, ...]]] = {
    "aws": [("NodeGroup", "tags"), ("LaunchTemplate", "tags")],
    "azure": [("AgentPool", "tags")],
    "gcp": [("NodePool", "nodeConfig", "resourceLabels")],
}


@each_row(
    ("cloud", "key", "value", "words"),
    [
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions
        ("aws", "team\n", "x", "is not a tag key"),
        ("aws", "team", "a\nb", "is not a tag value"),
        ("aws", "team\t", "x", "is not a tag key"),
        ("aws", "k" * 129, "x", "is not a tag key"),
        ("aws", "team", "x" * 257, "is not a tag value"),
        ("aws", "team?", "x", "is not a tag key"),
        ("aws", "AWS:team", "x", "keys that start with aws:"),
        ("aws", "team", "aws:x", "values that start with aws:"),
        # https://learn.microsoft.com/azure/azure-resource-manager/management/tag-resources
        ("azure", "team\n", "x", "has a character that Azure rejects"),
        ("azure", "team", "a\nb", "an invisible character"),
        *(("azure", f"team{sign}", "x", "has a character that Azure rejects") for sign in "<>%&\\?/"),
        ("azure", "team", "x" * 257, "Azure allows 256"),
        ("azure", "EnableManagedGPUExperience", "true", "GPU software"),
        # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels
        ("gcp", "team\n", "x", "is not a Google Cloud label key"),
        ("gcp", "team", "a\nb", "is not a Google Cloud label value"),
        ("gcp", "Team", "x", "is not a Google Cloud label key"),
        ("gcp", "1team", "x", "is not a Google Cloud label key"),
        ("gcp", "k" * 64, "x", "is not a Google Cloud label key"),
        ("gcp", "team", "x" * 64, "is not a Google Cloud label value"),
        ("gcp", "goog-team", "x", "goog-"),
    ],
)
def test_a_tag_that_the_cloud_does_not_take_is_refused(cloud: str, key: str, value: str, words: str) -> None:
    (problem,) = said(cloud, tags={key: value})

    assert words in problem
    for resource, *path in TAGS[cloud]:
        (again,) = said(cloud, **by_hand(cloud, resource, (*path, key), value))
        assert again.startswith(f"pools.p.overrides.{cloud}.{resource}.")
        assert words in again


@pytest.mark.parametrize(
    ("cloud", "key", "value"),
    [
        ("aws", "k" * 128, "x" * 256),
        ("aws", "Kosten stelle+-=._:/@", ""),
        ("aws", "équipe", "видение 7"),
        ("azure", "k" * 512, "x" * 256),
        ("azure", "Kosten stelle+-=._:@", "<>%&\\?/"),
        ("gcp", "k" * 63, "x" * 63),
        ("gcp", "équipe_a-1", ""),
    ],
)
def test_a_tag_that_the_cloud_takes_is_taken(cloud: str, key: str, value: str) -> None:
    assert said(cloud, tags={key: value}) == []
    for resource, *path in TAGS[cloud]:
        assert said(cloud, **by_hand(cloud, resource, (*path, key), value)) == []


@pytest.mark.parametrize(("cloud", "most"), [("aws", 47), ("azure", 50), ("gcp", 64)])
def test_tags_of_the_pool_and_by_hand_are_counted_together(cloud: str, most: int) -> None:
    resource, *path = TAGS[cloud][0]
    tags = {f"key{number}": "x" for number in range(most - 1)}

    def beside(by: Keys) -> list[str]:
        return said(cloud, **by_hand(cloud, resource, tuple(path), by), tags=tags)

    assert beside({"one": "x", "key1": "y", "gone": None}) == []
    assert str(most + 1) in beside({"one": "x", "two": "x"})[0]


def test_azure_knows_no_case_in_tags_by_hand_either() -> None:
    (problem,) = said("azure", tags={"owner": "a"}, **by_hand("azure", "AgentPool", ("tags", "Owner"), "b"))

    assert "'Owner' and 'owner' are the same tag" in problem


def test_tags_of_the_machines_by_hand_keep_to_the_rules() -> None:
    listed = [{"resourceType": "instance", "tags": {"team": "a", "team?": "b"}}]

    (problem,) = said("aws", **by_hand("aws", "LaunchTemplate", ("tagSpecifications",), listed))

    assert "tagSpecifications[0].tags.team?: is not a tag key" in problem


# --- user data --------------------------------------------------------------------------------------------------------

AL2023: Keys = {"software": "device-plugin"}
BOTTLEROCKET: Keys = {"software": "cloud-managed"}


def user_data(given: str, image: Keys) -> list[str]:
    return said("aws", **{**by_hand("aws", "LaunchTemplate", ("userData",), given), **image})


@pytest.mark.parametrize(
    ("given", "image", "words"),
    [
        (encoded("#!/bin/sh\ntrue\n"), AL2023, "is not multipart MIME"),
        (encoded("[settings.kubernetes]\nmax-pods = 8\n"), AL2023, "is not multipart MIME"),
        (
            encoded("MIME-Version: 1.0\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n"),
            AL2023,
            "is not multipart MIME",
        ),
        (encoded("#!/bin/sh\ntrue\n"), BOTTLEROCKET, "is not TOML that EKS can merge"),
        (mime("#!/bin/sh\ntrue\n"), BOTTLEROCKET, "is not TOML that EKS can merge"),
        (base64.b64encode(b"\xff\xfe").decode(), BOTTLEROCKET, "it is no text"),
        (encoded("[setings.kubernetes]\nmax-pods = 8\n"), BOTTLEROCKET, "it has setings beside settings"),
        (encoded('[settings.kubernetes."node-labels"]\na = "b"\n'), BOTTLEROCKET, "header has a quoted key"),
        (mime("#!/bin/sh\n" + "# x\n" * 4096), AL2023, "bytes; EC2 allows 16384"),
        (encoded("[settings.kubernetes]\n" + "# x\n" * 4096), BOTTLEROCKET, "bytes; EC2 allows 16384"),
    ],
)
def test_user_data_that_makes_no_node_is_refused(given: str, image: Keys, words: str) -> None:
    (problem,) = user_data(given, image)

    assert problem.startswith("pools.p.overrides.aws.LaunchTemplate.userData: ")
    assert words in problem


@pytest.mark.parametrize(
    ("given", "image"),
    [
        (mime("#!/bin/sh\ntrue\n"), AL2023),
        (mime("#!/bin/sh\ntrue\n", "==MYBOUNDARY=="), AL2023),
        (
            encoded('[settings.kubernetes]\nmax-pods = 8\n[settings.kubernetes.node-labels]\n"a.b/c" = "d"\n'),
            BOTTLEROCKET,
        ),
    ],
)
def test_user_data_that_eks_merges_is_taken(given: str, image: Keys) -> None:
    assert user_data(given, image) == []


@pytest.mark.parametrize(("size", "taken"), [(16384, True), (16385, False)])
def test_the_limit_is_on_the_bytes_before_base64(size: int, taken: bool) -> None:
    text = mime("#!/bin/sh\n")
    padding = size - len(base64.b64decode(text))

    found = user_data(mime("#!/bin/sh\n" + "#" * (padding - 1) + "\n"), AL2023)

    assert (found == []) is taken


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"network": {"max_pods": 64}, **BOTTLEROCKET}, "network"),
        ({"instance_type": "g6.12xlarge", "gpu": None, "disk": {"local_nvme": "raid0"}, **AL2023}, "disk"),
    ],
)
def test_what_we_write_ourselves_is_measured_too(keys: Keys, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said("aws", **keys) == []

    monkeypatch.setattr(bootstrap, "MOST_USER_DATA", 20)
    (problem,) = said("aws", **keys)

    assert problem.startswith(f"pools.p.{key}: has ")
    assert "EC2 allows 20" in problem


def test_every_cloud_has_its_table() -> None:
    empty: list[Cloud] = [cloud for cloud in clouds().values() if not cloud.node_pools.overridable]

    assert empty == []


@each_row(("cloud", "resource", "path"), KEPT)
def test_what_stays_the_plans_is_an_input_that_the_resource_has(
    cloud: str, resource: str, path: tuple[str, ...]
) -> None:
    """A misspelt row would keep nothing."""
    assert path[0] in clouds()[cloud].node_pools.overridable[resource].inputs
    # A label's key has dots of its own, and any key may stand in that map.
    named = list(takewhile(lambda part: "." not in part, path))
    (token,) = [key for key in _tokens(cloud) if key.endswith(f":{resource}")]
    assert check_property_path(token, ".".join(named)) is None


def _tokens(cloud: str) -> Iterable[str]:
    file = clouds()[cloud].file("input_types.json")
    assert file is not None
    return read_input_types(file).resources


@pytest.mark.parametrize(
    ("cloud", "resource", "path", "words"),
    [
        ("gcp", "NodePool", ("nodeConfig", "noSuchInput"), "NodePoolNodeConfig has no such input 'noSuchInput'"),
        ("gcp", "NodePool", ("nodeConfig", "boot_disk"), "did you mean 'bootDisk'"),
        ("gcp", "NodePool", ("nodeConfig", "bootDisk", "x"), "NodePoolNodeConfigBootDisk has no such input 'x'"),
        ("azure", "AgentPool", ("linuxOSConfig", "sysctls", "x"), "SysctlConfig has no such input 'x'"),
        ("aws", "LaunchTemplate", ("cpuOptions", "coreCnt"), "did you mean 'coreCount'"),
    ],
)
def test_an_unknown_input_inside_is_refused_like_one_at_the_top(
    cloud: str, resource: str, path: tuple[str, ...], words: str
) -> None:
    (problem,) = said(cloud, **by_hand(cloud, resource, path, {"x": 1}))

    assert problem.startswith(f"pools.p.overrides.{cloud}.{resource}.{'.'.join(path)}: ")
    assert words in problem


def test_an_unknown_input_in_a_list_is_refused() -> None:
    listed = [{"resourceType": "instance", "tags": {"team": "a"}, "tag": "b"}]
    (problem,) = said("aws", **by_hand("aws", "LaunchTemplate", ("tagSpecifications",), listed))

    assert "tagSpecifications[0].tag: LaunchTemplateTagSpecification has no such input 'tag'" in problem


@pytest.mark.parametrize(
    ("cloud", "resource", "path", "value", "words"),
    [
        ("aws", "NodeGroup", ("forceUpdateVersion",), "abc", "got 'abc'; use true or false"),
        ("aws", "NodeGroup", ("forceUpdateVersion",), "true", "got 'true'; use true or false"),
        ("aws", "LaunchTemplate", ("cpuOptions", "coreCount"), "many", "got 'many'; use a whole number"),
        ("aws", "LaunchTemplate", ("cpuOptions", "coreCount"), 1.5, "got 1.5; use a whole number"),
        ("aws", "LaunchTemplate", ("cpuOptions", "coreCount"), True, "got true; use a whole number"),
        ("aws", "LaunchTemplate", ("cpuOptions",), 4, "got 4; use a map"),
        ("aws", "LaunchTemplate", ("keyName",), {"name": "ops"}, "got a map; use a string"),
        ("aws", "LaunchTemplate", ("securityGroupNames",), "nodes", "got 'nodes'; use a list"),
        ("aws", "LaunchTemplate", ("ebsOptimized",), True, 'got true; write it as a string: "true"'),
        ("azure", "AgentPool", ("upgradeSettings", "maxSurge"), 2.0, 'got 2.0; write it as a string: "2"'),
        ("azure", "AgentPool", ("tags", "team"), 7, 'got 7; write it as a string: "7"'),
        ("gcp", "NodePool", ("nodeConfig", "fastSocket", "enabled"), 1, "got 1; use true or false"),
        (
            "aws",
            "LaunchTemplate",
            ("securityGroupNames",),
            "x" * 90,
            "got (a text of 90 characters, not shown); use a list",
        ),
    ],
)
def test_a_value_of_another_type_is_refused(
    cloud: str, resource: str, path: tuple[str, ...], value: Any, words: str
) -> None:
    place = f"pools.p.overrides.{cloud}.{resource}.{'.'.join(path)}"

    assert said(cloud, **by_hand(cloud, resource, path, value)) == [f"{place}: {words}"]


@pytest.mark.parametrize("value", [4, 4.0])
def test_a_whole_number_may_have_a_fraction_of_zero(value: float) -> None:
    assert said("aws", **by_hand("aws", "LaunchTemplate", ("cpuOptions", "coreCount"), value)) == []


def test_a_row_that_is_there_twice_or_for_no_input_is_named() -> None:
    rows = [("AgentPool", "maxPods"), ("AgentPool", "kubeletConfig.podMaxPid"), ("AgentPool", "maxPods")]

    assert list(row_faults(clouds()["azure"], rows)) == [
        "azure: inputs.csv has 2 rows for AgentPool.maxPods",
        "azure: inputs.csv has a row for kubeletConfig.podMaxPid, which is no input of AgentPool",
    ]


@pytest.mark.parametrize(
    ("cloud", "row", "effect"),
    [
        ("aws", "NodeGroup,version,network.max_pods,,rolling,drained node by node,,a/b c", "rolling"),
        ("azure", "AgentPool,kubeletConfig.podMaxPids,network.max_pods,,,,,a/b c", "replace"),
        ("gcp", "NodePool,nodeConfig.kubeletConfig.podPidsLimit,network.max_pods,,,,,a/b c", "rolling"),
    ],
)
def test_a_key_that_is_one_input_needs_no_more_than_its_row(
    cloud: str, row: str, effect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(str(files("gpupools.providers"))) / cloud
    shutil.copytree(folder, tmp_path, ignore=shutil.ignore_patterns("*.py", "__pycache__"), dirs_exist_ok=True)
    lines = (folder / "inputs.csv").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if "network.max_pods" not in line and not line.startswith("NodeGroup,version")]
    (tmp_path / "inputs.csv").write_text("\n".join([*kept, row]), encoding="utf-8")
    known = clouds()[cloud]
    resource, path = row.split(",")[0], tuple(row.split(",")[1].split("."))
    made = read_overridable(tmp_path, {})[resource]
    table = {**known.node_pools.overridable, resource: made}
    monkeypatch.setattr(f"gpupools.providers.{cloud}.declared_inputs.OVERRIDABLE", table)
    tables = read_edit_tables(tmp_path, {}, several=cloud == "aws")
    changed = {cloud: known._replace(node_pools=known.node_pools._replace(overridable=table, edits=lambda: tables))}
    before, found = (
        plan_config(stack(CLUSTERS[cloud], {"gpu": "T4", "nodes": {"max": 2}, "network": {"max_pods": count}}), changed)
        for count in (32, 64)
    )
    (plan,) = found.pools
    declared = made.merge({}, plan.provider_plan.key_values, {})
    (change,) = compare([record(before.pools[0], before.stack)], found, changed)

    assert value_at(declared, *path) == 64
    assert plan.overrides == {}
    assert planned_values(plan, found.stack.clusters[plan.cluster])["network.max_pods"] == 64
    assert made.kept[path] == "use network.max_pods"
    assert {each.field: each.effect.value for each in change.fields}["network.max_pods"] == effect


def test_null_removes_an_input_beside_a_key_that_is_one_input() -> None:
    pool = {"gpu": "T4", "nodes": {"max": 2}, "network": {"max_pods": 64}, "tags": {"team": "vision"}}
    config = stack(CLUSTERS["azure"], {**pool, "overrides": {"azure": {"AgentPool": {"tags": None}}}})
    (plan,) = plan_config(config, clouds()).pools
    declared = clouds()["azure"].node_pools.declared_inputs(plan, CLUSTERS["azure"])["AgentPool"]

    assert declared["maxPods"] == 64
    assert "tags" not in declared
