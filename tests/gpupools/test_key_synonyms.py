"""Keys of other tools: what is written for them is a stack file that is accepted, and the products have them."""

import re

import pytest
import yaml
from azure.mgmt.containerservice import models as aks
from google.cloud import container_v1 as gke
from pydantic import BaseModel

from gpupools.catalog.key_synonyms import OtherKey, known_elsewhere, other_keys
from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.spec.models import Mig, Mps, Nodes, StackPool
from gpupools.spec.pool_options import Network, NodeImage, Spot
from gpupools.spec.software_spec import Existing, RuntimeSpec
from gpupools.spec.teams import Team
from gpupools.stackfile.stack_validation import parse_stack
from tests.rows import each_row

MAPS: tuple[type[BaseModel], ...] = (
    *(StackPool, Nodes, Mig, Mps, Spot, NodeImage, Network, Team, RuntimeSpec, Existing),
    *(cloud.cluster for cloud in clouds().values()),
)
LAB = {"cloud": "gcp", **clouds()["gcp"].example_cluster}
GKE_KEYS = {
    field
    for kind in (gke.NodeConfig, gke.AcceleratorConfig, gke.GPUSharingConfig, gke.NodePool, gke.NodePoolAutoscaling)
    for field in kind.meta.fields
}


def named(row: OtherKey) -> str:
    return f"{row.key} for {row.in_place}"


@each_row("row", other_keys(), ids=named)
def test_a_key_of_another_tool_is_none_of_ours_and_leads_to_one(row: OtherKey) -> None:
    takers = [model for model in MAPS if row.in_place in model.model_fields]
    assert takers, f"no map has {row.in_place}"
    words = set(re.findall(r"[a-z_]+", row.write))

    assert any(row.key not in model.model_fields for model in takers)
    assert words & {key for model in MAPS for key in model.model_fields}


@each_row("row", [row for row in other_keys() if row.used_by in ("GKE", "AKS")], ids=named)
def test_the_cloud_has_the_key(row: OtherKey) -> None:
    keys = GKE_KEYS if row.used_by == "GKE" else set(aks.AgentPool._attribute_map)

    assert row.key in keys


@pytest.mark.parametrize(
    ("key", "cure"),
    [
        ("spot", "write capacity: {mode: spot}"),
        ("vm_size", "write instance_type: …, or a model under gpu"),
        ("machineType", "write instance_type: …, or a model under gpu"),
        ("instanceType", "write instance_type"),
        ("instance-type", "write instance_type"),
        ("gpu_count", "write gpus_per_node: …"),
        ("zone", "write zones: […]"),
        ("node_count", "write nodes: {min: …, max: …}, or nodes: {fixed: …}"),
        ("desired", "write nodes: {min: …, max: …}, between which the autoscaler chooses"),
        ("gp", "did you mean 'gpu'?"),
    ],
)
def test_an_unknown_key_of_a_pool_has_a_cure(key: str, cure: str) -> None:
    with pytest.raises(Rejected) as caught:
        parse_stack({"clusters": {"lab": LAB}, "pools": {"a": {**POOL, key: 1}}}, clouds())

    assert str(caught.value) == f"pools.a.{key}: unknown key; {cure}"


POOL = {"clusters": ["lab"], "gpu": "L4", "nodes": {"max": 2}}


def test_the_same_word_means_something_else_in_another_map() -> None:
    assert known_elsewhere("zone", ["zones", "gpu"]) == "write zones: […]"
    assert known_elsewhere("zone", ["location", "project"]) == "write location: …"
    assert known_elsewhere("desired", ["min", "max", "fixed"]).startswith("write min and max")
    assert known_elsewhere("spot", ["min", "max", "fixed"]) == ""


@each_row(
    "row",
    [row for row in other_keys() if row.in_place == row.write.partition(":")[0] and "…" not in row.write],
    ids=named,
)
def test_what_is_written_whole_is_accepted(row: OtherKey) -> None:
    given = yaml.safe_load(row.write)
    if row.in_place in Network.model_fields:
        given = {"network": given}

    parse_stack({"clusters": {"lab": LAB}, "pools": {"a": {**POOL, **given}}}, clouds())


# --- no word of Python's ---

WRONG: tuple[object, ...] = (None, True, False, [], [None], {}, {"a": None}, [["x"]], 1.5, -1, "x")
KEYS = sorted(StackPool.model_fields)
PYTHON = re.compile(r"\b(None|True|False|NoneType|dict|tuple|str|int|bool)\b|\[['\"]|\{['\"]")


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_no_problem_of_a_pool_or_cluster_is_said_in_words_of_python(wrong: object) -> None:
    said = []
    for key in KEYS:
        for value in (
            wrong,
            {"mode": wrong},
            dict.fromkeys(("family", "type", "max"), wrong),
        ):
            said += problems({"clusters": {"lab": LAB}, "pools": {"a": {**POOL, key: value}}})
    for name, cloud in clouds().items():
        for key in cloud.cluster.model_fields:
            cluster = {"cloud": name, **cloud.example_cluster, key: wrong}
            said += problems({"clusters": {"lab": cluster}, "pools": {"a": POOL}})
    for key in ("clusters", "pools", "production", "allow_destroy"):
        said += problems({"clusters": {"lab": LAB}, "pools": {"a": POOL}, key: wrong})

    assert said
    assert [line for line in said if PYTHON.search(line)] == []


def problems(config: dict[str, object]) -> list[str]:
    try:
        parse_stack(config, clouds())
    except Rejected as rejected:
        return [str(problem) for problem in rejected.problems]
    return []
