"""Who decides how many nodes run: clouds whose numbers move by themselves between two updates."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.cli import CommandResult, Engine
from tests.engine.clusters import AKS, EKS, GKE
from tests.engine.stand_in import AGENT_POOL, ARM_RESOURCE, NODE_GROUP, NODE_GROUPS, NODE_POOL

pytestmark = pytest.mark.engine

CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "train": EKS,
    "serve": AKS,
    "managed": {**AKS, "name": "managed"},
    "lab": {**GKE, "location": "europe-west4-a"},
}
MANAGED: Mapping[str, Any] = {
    "clusters": ["managed"],
    "gpu": "A100-80GB",
    "nodes": {"fixed": 2},
    "software": "cloud-managed",
}


class Life:
    """A stack with a pool on every cloud, and the managed one of AKS; all get the same edits."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.file = engine.repository / "stacks" / "Pulumi.nodes.yaml"
        engine.run("stack", "init", "nodes").succeeded()

    def write(self, nodes: Mapping[str, int], **keys: Any) -> None:
        pool = {"clusters": ["train", "serve", "lab"], "gpu": "T4", "nodes": nodes, **keys}
        config = {"gpupools:clusters": CLUSTERS, "gpupools:pools": {"t4": pool, "m": {**MANAGED, **keys}}}
        kept = yaml.safe_load(self.file.read_text(encoding="utf-8")) if self.file.exists() else {}
        # The safe dumper writes no anchors for what is equal, only for what is the same.
        plain = yaml.safe_load(yaml.safe_dump({"config": config}))
        self.file.write_text(yaml.safe_dump((kept or {}) | plain), encoding="utf-8")

    def up(self, nodes: Mapping[str, int], *arguments: str, **keys: Any) -> CommandResult:
        self.write(nodes, **keys)
        return self.engine.up("nodes", *arguments)

    def numbers(self) -> tuple[int, int, int, int]:
        """Return the nodes on EKS, AKS, AKS managed and GKE."""
        found = self.engine.nodes()
        return found[NODE_GROUP], found[AGENT_POOL], found[ARM_RESOURCE], found[NODE_POOL]


SCALED = (NODE_GROUP, AGENT_POOL, NODE_POOL)


def test_only_the_file_moves_nodes(engine: Engine) -> None:
    """One life, since every step needs the one before it."""
    life = Life(engine)
    life.up({"max": 4}).succeeded()
    assert life.numbers() == (0, 0, 2, 0)

    # Nothing to do: nothing is shown, and nobody asks.
    engine.autoscale(3, *SCALED)
    asked = engine.cloud_calls()
    life.up({"max": 4}, "--expect-no-changes").succeeded()
    assert life.numbers() == (3, 3, 2, 3)
    assert engine.cloud_calls() == asked == [NODE_GROUPS]  # before the group was created

    # Another maximum; a preview says the number that runs.
    life.write({"max": 8})
    previewed = engine.run("preview", "--diff", "--stack", "nodes").succeeded().output
    assert "~ desiredSize: 0 => 3" in previewed
    life.up({"max": 8}).succeeded()
    assert life.numbers() == (3, 3, 2, 3)

    # An edit of something else.
    engine.autoscale(5, *SCALED)
    life.up({"max": 8}, labels={"team": "vision"}, tags={"owner": "vision"}).succeeded()
    assert life.numbers() == (5, 5, 2, 5)
    # What is left out again: the pool's old inputs were more, so this is for the guard alone.
    engine.autoscale(6, AGENT_POOL)
    life.up({"max": 8}, "--refresh", labels={"team": "vision"}).succeeded()
    assert life.numbers() == (5, 6, 2, 5)
    life.up({"max": 8}, "--expect-no-changes", labels={"team": "vision"}).succeeded()

    # A minimum above what runs lifts an EKS group, whose API wants so; the other autoscalers see to it themselves.
    life.up({"min": 7, "max": 8}, labels={"team": "vision"}).succeeded()
    assert life.numbers() == (7, 6, 2, 5)
    # A maximum below what runs takes nodes away on EKS.
    life.up({"min": 1, "max": 4}, labels={"team": "vision"}).succeeded()
    assert life.numbers() == (4, 6, 2, 5)

    # From the autoscaler to a fixed number and back.
    engine.autoscale(3, *SCALED)
    life.up({"fixed": 2}, labels={"team": "vision"}).succeeded()
    assert life.numbers() == (2, 2, 2, 2)
    life.up({"max": 4}, labels={"team": "vision"}).succeeded()
    assert life.numbers() == (2, 2, 2, 2)


# A program of one's own; `renamed` gives the components other names, with aliases that only the engine follows.
OWN = """
import pulumi
from gpupools.components.gpu_node_pool import GpuNodePool

config = pulumi.Config()
clusters = {
    "aws": {
        "name": "own-train", "region": "us-east-1", "subnet_ids": ["subnet-0000000a"],
        "node_role_arn": pulumi.Output.from_input("arn:aws:iam::123456789012:role/gpu-nodes"),
    },
    "azure": {"name": "own-serve", "resource_group": pulumi.Output.from_input("ml")},
}
for cloud, cluster in clusters.items():
    name, opts = f"own-{cloud}", None
    if config.get_bool("renamed"):
        name, opts = f"my-{cloud}", pulumi.ResourceOptions(aliases=[pulumi.Alias(name=name)])
    pool = {"gpu": "T4", "nodes": {"max": config.require_int("max")}, "labels": {"team": config.require("team")}}
    if config.get_bool("tagged"):
        pool["tags"] = {"owner": "vision"}
    GpuNodePool(name, {"cloud": cloud, "cluster": cluster, "pool": pool, "pool_name": f"own{cloud}"}, opts)
"""


def own_nodes(engine: Engine) -> list[int]:
    return [
        int(each["outputs"]["scalingConfig"]["desiredSize"] if each["type"] == NODE_GROUP else each["outputs"]["count"])
        for each in engine.resources(NODE_GROUP, AGENT_POOL)
        if str(each["inputs"].get("clusterName", each["inputs"].get("resourceName"))).startswith("own-")
    ]


def test_a_program_of_ones_own_moves_no_nodes_and_refuses_where_it_cannot_know(engine: Engine) -> None:
    folder = engine.project("ours", OWN)
    engine.run("stack", "init", "dev", project=folder).succeeded()

    def up(*arguments: str, **config: Any) -> CommandResult:
        given = [part for key, value in config.items() for part in ("--config", f"{key}={value}")]
        return engine.up("dev", *arguments, *given, project=folder)

    def refused(*arguments: str, **config: Any) -> str:
        ran = up(*arguments, **config)
        assert ran.code != 0
        return ran.output

    up(max=4, team="a", tagged="true").succeeded()
    engine.autoscale(3, NODE_GROUP, AGENT_POOL)
    up(max=8, team="b", tagged="true").succeeded()
    assert own_nodes(engine) == [3, 3]

    # What an edit takes away altogether is not seen in time, but before it is sent.
    engine.autoscale(4, NODE_GROUP, AGENT_POOL)
    why = "own-azure-pool: has 4 nodes, but this update would set 3 from Pulumi's outdated state"
    assert f"{why}; run pulumi up --refresh" in refused(max=8, team="b", tagged="false")
    assert own_nodes(engine) == [4, 4]
    up("--refresh", max=8, team="b", tagged="false").succeeded()
    assert own_nodes(engine) == [4, 4]

    # So it is where the pools' resources have other names in the state.
    engine.autoscale(5, NODE_GROUP, AGENT_POOL)
    assert "has 5 nodes, but this update would set 4" in refused(max=9, team="b", renamed="true")
    assert own_nodes(engine) == [5, 5]


HOSTED = """
import pulumi


class Pool(pulumi.ComponentResource):
    def __init__(self, name, inputs):
        super().__init__("gpupools:index:GpuNodePool", name, inputs, remote=True)


cluster = {
    "name": "hosted", "region": "us-east-1", "subnetIds": ["subnet-0000000a"],
    "nodeRoleArn": "arn:aws:iam::123456789012:role/gpu-nodes",
}
pool = {"gpu": "T4", "nodes": {"max": pulumi.Config().require_int("max")}}
Pool("hosted", {"cloud": "aws", "cluster": cluster, "pool": pool})
Pool("served", {"cloud": "azure", "cluster": {"name": "hosted", "resourceGroup": "ml"}, "pool": pool})
"""


@pytest.fixture(scope="module")
def hosted(engine: Engine) -> Path:
    """Lay a project that finds the components where `PulumiPlugin.yaml` is."""
    plugin = {"name": "gpupools", "path": "../repository/components"}
    folder = engine.project("hosted-nodes", HOSTED, plugins={"providers": [plugin]})
    engine.run("stack", "init", "dev", project=folder).succeeded()
    return folder


def test_a_hosted_component_moves_no_nodes(engine: Engine, hosted: Path) -> None:
    engine.up("dev", "--config", "max=4", project=hosted).succeeded()
    engine.autoscale(3, NODE_GROUP, AGENT_POOL)
    engine.up("dev", "--config", "max=8", project=hosted).succeeded()

    pools = engine.resources(NODE_GROUP, AGENT_POOL)
    numbers = {
        each["type"]: each["outputs"].get("count", each["outputs"].get("scalingConfig"))
        for each in pools
        if "hosted" in (each["inputs"].get("clusterName"), each["inputs"].get("resourceName"))
    }
    assert numbers == {NODE_GROUP: {"minSize": 0, "desiredSize": 3, "maxSize": 8}, AGENT_POOL: 3}
