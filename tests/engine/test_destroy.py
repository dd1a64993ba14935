"""How a production stack ends: `pulumi destroy` touches nothing of it, or takes everything once that is meant."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from gpupools.components.protection import HOOK
from tests.engine.cli import CommandResult, Engine
from tests.engine.clusters import EKS, GKE

pytestmark = pytest.mark.engine

CLUSTERS = {
    "train": {**EKS, "kubeconfig": {"path": "~/.kube/train"}},
    "lab": {**GKE, "kubeconfig": {"path": "~/.kube/lab"}},
}
POOLS: dict[str, Any] = {
    "a": {
        "clusters": ["train"],
        "instance_type": "g6e.12xlarge",
        "nodes": {"max": 4},
        "software": "device-plugin",
        "sharing": {"mode": "time-slicing", "replicas": 2},
        "trust": {"namespaces": ["vision"], "quota": 4},
    },
    "b": {"clusters": ["lab"], "instance_type": "g2-standard-8", "nodes": {"max": 4}, "software": "gpu-operator"},
    "trial": {"clusters": ["lab"], "instance_type": "g2-standard-4", "nodes": {"max": 2}, "protect": False},
}
EXTERNAL = {"management": "external", "existing": {"gpu_operator": "gpu/operator"}}


@dataclass(frozen=True)
class Stack:
    """A stack whose file is written anew for every command."""

    engine: Engine
    name: str

    def write(self, **config: Any) -> None:
        file = self.engine.repository / "stacks" / f"Pulumi.{self.name}.yaml"
        kept = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
        own = {key: {**cluster, "name": f"{self.name}-{key}"} for key, cluster in CLUSTERS.items()}
        given = {"clusters": own, "pools": POOLS, **config}
        text = {"config": {f"gpupools:{key}": value for key, value in given.items()}}
        file.write_text(yaml.safe_dump((kept or {}) | text, sort_keys=False), encoding="utf-8")

    def run(self, *arguments: str) -> CommandResult:
        return self.engine.run(*arguments, "--stack", self.name)

    def up(self, **config: Any) -> CommandResult:
        self.write(**config)
        return self.run("up", "--yes", "--skip-preview")

    def resources(self) -> dict[str, Mapping[str, Any]]:
        state = json.loads(self.run("stack", "export").succeeded().output)
        # The engine's own provider, for which there is nothing in a cloud, comes and goes.
        found = state["deployment"].get("resources", [])
        return {each["urn"]: each for each in found if each["type"] != "pulumi:providers:pulumi"}

    def clusters(self, **keys: Any) -> dict[str, Any]:
        """Return the clusters with other keys of `lab`."""
        own = {key: {**cluster, "name": f"{self.name}-{key}"} for key, cluster in CLUSTERS.items()}
        return own | {"lab": own["lab"] | keys}


@pytest.fixture(scope="module")
def prod(engine: Engine) -> Stack:
    engine.run("stack", "init", "prod-end").succeeded()
    made = Stack(engine, "prod-end")
    made.up(production=True).succeeded()
    return made


DESTROYS = [
    pytest.param(("destroy", "--yes", "--skip-preview"), False, id="destroy"),
    pytest.param(("destroy", "--yes"), False, id="with its preview"),
    pytest.param(("destroy", "--yes", "--skip-preview", "--continue-on-error"), False, id="going on after errors"),
    pytest.param(("destroy", "--yes", "--skip-preview", "--refresh"), False, id="with a refresh"),
    pytest.param(("destroy", "--yes", "--skip-preview", "--exclude-protected"), None, id="all that is not protected"),
    pytest.param(
        ("destroy", "--yes", "--skip-preview", "--target", "**gpu-operator", "--target-dependents"),
        False,
        id="software",
    ),
    pytest.param(("destroy", "--yes", "--skip-preview", "--target", "**::lab-trial-nodes"), False, id="one pool"),
    pytest.param(("destroy", "--yes", "--skip-preview", "--run-program"), False, id="with the program"),
]


@pytest.mark.parametrize(("command", "succeeds"), DESTROYS)
def test_destroy_touches_nothing_of_a_production_stack(
    command: tuple[str, ...], succeeds: bool | None, prod: Stack
) -> None:
    before, there = prod.engine.journal(), prod.resources().keys()

    ran = prod.run(*command)

    assert succeeds is None or (ran.code == 0) is succeeds, ran.output
    assert prod.engine.journal() == before, ran.output
    assert prod.resources().keys() == there
    if command[1:] == ("--yes", "--skip-preview"):
        assert HOOK in ran.output


def test_what_pods_have_their_gpus_from_is_protected_with_the_pools(prod: Stack) -> None:
    protected = {urn.rpartition("::")[2] for urn, each in prod.resources().items() if each.get("protect")}

    assert {
        "protection",
        "train-a-nodes",
        "lab-b-nodes",
        "train-runtime-nvidia-device-plugin",
        "train-runtime-namespace-nvidia-device-plugin",
        "lab-runtime-gpu-operator",
        "lab-runtime-namespace-gpu-operator",
        "lab-runtime-driver-installer",
    } <= protected
    assert "lab-trial-nodes" not in protected


def test_up_does_not_take_the_software_of_production_pools_away(prod: Stack) -> None:
    before = prod.engine.journal()

    refused = prod.up(production=True, clusters=prod.clusters(runtime=EXTERNAL)).failed().output

    # The state keeps no order of what it says.
    (line,) = {each.strip() for each in refused.splitlines() if "lab: has software of the production pool b" in each}
    assert "and this update would remove " in line
    assert "chart gpu-operator v26.7.0" in line
    assert prod.engine.journal() == before
    # What serves only the pool that is none of production may go.
    changed = dict(POOLS) | {"a": {**POOLS["a"], "trust": {"namespaces": ["vision"]}}}
    prod.up(production=True, pools=changed).succeeded()
    gone = [each["type"] for each in prod.engine.journal()[len(before) :] if each["op"] == "delete"]
    assert gone == ["kubernetes:core/v1:ResourceQuota"]
    prod.up(production=True).succeeded()


def test_software_goes_in_two_updates(prod: Stack) -> None:
    theirs = prod.clusters(runtime=EXTERNAL)
    held = prod.up(production=True, clusters=theirs, allow_destroy=["lab"]).failed().output
    assert "has software that is protected until an update with lab in gpupools:allow_destroy has ended" in held

    prod.up(production=True, allow_destroy=["lab"]).succeeded()
    before = len(prod.engine.journal())
    prod.up(production=True, clusters=theirs, allow_destroy=["lab"]).succeeded()
    done = {(each["op"], each["type"]) for each in prod.engine.journal()[before:]}

    assert ("delete", "kubernetes:helm.sh/v3:Release") in done
    assert not [each for each in done if "container" in each[1]]
    prod.up(production=True).succeeded()


def test_a_production_stack_ends_when_it_is_none_any_more(prod: Stack) -> None:
    there = prod.up(production=False).succeeded()
    assert there.code == 0

    prod.run("destroy", "--yes", "--skip-preview").succeeded()

    assert prod.resources() == {}
    assert [each for each in prod.engine.resources() if prod.name in json.dumps(each["inputs"])] == []


@pytest.mark.parametrize("options", [(), ("--continue-on-error",)], ids=["stops", "continues"])
def test_a_first_update_that_fails_for_one_pool_leaves_the_rest_protected(
    engine: Engine, options: tuple[str, ...]
) -> None:
    half = Stack(engine, f"half{len(options)}")
    engine.run("stack", "init", half.name).succeeded()
    kubeconfig = {"path": f"~/.kube/{half.name}"}
    clusters = half.clusters(kubeconfig=kubeconfig)
    clusters["train"] = clusters["train"] | {"kubeconfig": kubeconfig | {"context": "train"}}
    engine.misbehave(*["fail"] * 3, urn="lab-b-nodes")
    half.write(production=True, clusters=clusters)
    half.run("up", "--yes", "--skip-preview", *options).failed()
    there, before = half.resources().keys(), engine.journal()
    assert any(urn.endswith("::lab-trial-nodes") for urn in there) or not options

    for each in DESTROYS:
        command: Any = each.values[0]
        ran = half.run(*command).failed()
        assert half.resources().keys() == there, ran.output
    assert engine.journal() == before
    assert "its first update has not ended; run pulumi up" in ran.output

    half.write(production=False, clusters=clusters)
    half.run("up", "--yes", "--skip-preview", *options).failed()  # an update that stops may leave a pool protected
    half.run("destroy", "--yes", "--skip-preview").succeeded()
    assert half.resources() == {}
    engine.misbehave()
