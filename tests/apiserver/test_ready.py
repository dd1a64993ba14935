"""`gpupools ready` against a real API server: scripts move real objects, and the command reads them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.smoke import job_of
from gpupools.software.objects import smoke_namespace
from tests.apiserver.control_plane import CLUSTER_POLICIES, ControlPlane, User, path_of
from tests.gpupools.ready.scripts import SCRIPTS, Script
from tests.gpupools.ready.situations import SITUATIONS, Situation
from tests.gpupools.ready.world import FILE, World, plan_of
from tooling.write_permissions import documents

pytestmark = pytest.mark.apiserver

KINDS = {
    "nodes": ("v1", "Node"),
    "daemonsets": ("apps/v1", "DaemonSet"),
    "pods": ("v1", "Pod"),
    "events": ("v1", "Event"),
    "runtimeclasses": ("node.k8s.io/v1", "RuntimeClass"),
    "resourceslices": ("resource.k8s.io/v1", "ResourceSlice"),
    "configmaps": ("v1", "ConfigMap"),
    "clusterpolicies": ("nvidia.com/v1", "ClusterPolicy"),
}


def manifest(kind: str, item: Mapping[str, Any], *, keeps_times: bool = False) -> dict[str, Any]:
    """Return an object of a script with what the API requires in addition."""
    api, name = KINDS[kind]
    kept = {key: value for key, value in item["metadata"].items() if key not in ("uid", "creationTimestamp")}
    made = {"apiVersion": api, "kind": name, **item, "metadata": kept}
    image = {"image": "registry.example.com/none"}
    if kind == "daemonsets":
        made["spec"]["template"].setdefault("metadata", {"labels": made["spec"]["selector"]["matchLabels"]})
        pod = made["spec"]["template"]["spec"]
        pod["containers"] = [{**each, **image} for each in pod["containers"]]
    elif kind == "pods":
        spec = {"containers": [{"name": "c", **image}], "tolerations": [{"operator": "Exists"}]}
        made["spec"] = {**spec, **made["spec"]}
        owners = kept.get("ownerReferences", [])
        kept["ownerReferences"] = [{"apiVersion": "apps/v1", "uid": "1", **each} for each in owners]
        for key in ("initContainerStatuses", "containerStatuses"):
            for each in made["status"].get(key, ()):
                each.update({"restartCount": 0, "image": "", "imageID": "", **each})
    elif kind == "events":
        made = {key: value for key, value in made.items() if key != "lastTimestamp" or keeps_times}
        made |= {"type": "Normal" if item["reason"] == "NotTriggerScaleUp" else "Warning"}
        kept["namespace"] = item["involvedObject"].get("namespace", "default")
    elif kind == "runtimeclasses":
        made.setdefault("handler", "nvidia")
    elif kind == "resourceslices":
        # Without the feature gate DRADeviceTaints the server drops taints, and drivers leave such devices out.
        devices = [each for each in item["spec"]["devices"] if "taints" not in each]
        made["spec"] = {
            **item["spec"],
            "devices": devices,
            "pool": {"name": kept["name"], "generation": 1, "resourceSliceCount": 1, **item["spec"].get("pool", {})},
        }
    return made


class Live:
    """Copies a world into the API server."""

    def __init__(self, server: ControlPlane) -> None:
        self.server, self.made = server, dict[tuple[str, str, str], dict[str, Any]]()

    def copy(self, world: World, *, keeps_times: bool = False) -> None:
        wanted = {}
        for kind, items in world.objects.items():
            for item in items if kind in KINDS else ():
                made = manifest(kind, deepcopy(item), keeps_times=keeps_times)
                wanted[kind, made["metadata"].get("namespace", ""), made["metadata"]["name"]] = made
        for key in [each for each in self.made if each not in wanted or self.made[each] != wanted[each]]:
            self.server.delete_now(self.made.pop(key))
        for key, made in wanted.items():
            if key not in self.made:
                if key[1]:
                    self.server.add_namespaces(key[1])
                answer = self.server.create({name: value for name, value in made.items() if name != "status"})
                answer.succeeded()
                self.made[key] = made
                if "status" in made:
                    # Custom resources have no strategic merge patch.
                    how = (
                        "application/merge-patch+json"
                        if key[0] == "clusterpolicies"
                        else "application/strategic-merge-patch+json"
                    )
                    change = {"status": made["status"]}
                    self.server._ask("PATCH", f"{path_of(made)}/status", change, how).succeeded()

    def clear(self) -> None:
        for made in self.made.values():
            self.server.delete_now(made)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane of its own: what other tests leave would be seen as a cause."""
    with ControlPlane(tmp_path_factory.mktemp("ready")) as plane:
        plane.apply(CLUSTER_POLICIES).succeeded()
        plane.wait(
            "the ClusterPolicies",
            lambda: plane._ask("GET", "/apis/nvidia.com/v1/clusterpolicies", None, "").status == 200,
        )
        yield plane


@pytest.fixture
def live(server: ControlPlane) -> Iterator[Live]:
    copied = Live(server)
    yield copied
    copied.clear()


def asked(world: World, kubeconfig: Path, folder: Path) -> dict[str, Any]:
    """Run the command and return the JSON of the pool."""
    config = yaml.safe_load(FILE.read_text(encoding="utf-8"))["config"]
    clusters = {world.cluster: {**config["gpupools:clusters"][world.cluster], "kubeconfig": {"path": str(kubeconfig)}}}
    file = folder / "Pulumi.live.yaml"
    pools = {key: each for key, each in config["gpupools:pools"].items() if world.cluster in each["clusters"]}
    pools = {key: {**each, "clusters": [world.cluster]} for key, each in pools.items()}
    file.write_text(yaml.safe_dump({"config": {"gpupools:clusters": clusters, "gpupools:pools": pools}}))
    command = [sys.executable, "-m", "gpupools.cli.main", "ready", str(file), "--pool", world.pool, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ}, check=False)
    assert done.stderr.startswith("connects to 127.0.0.1:")
    assert done.stderr.count("\n") == 1
    (found,) = json.loads(done.stdout)["pools"]
    assert done.returncode == (0 if found["state"] == "ready" else 1)
    return dict(found)


@pytest.mark.parametrize("script", SCRIPTS, ids=[f"{each.cause}-{each.cluster}" for each in SCRIPTS])
def test_cause_is_named_from_real_objects(script: Script, live: Live, server: ControlPlane, tmp_path: Path) -> None:
    world = World(script.cluster, script.pool)
    for step in script.steps:
        step(world)
        live.copy(world)
        found = asked(world, server.kubeconfig, tmp_path)
        assert found["state"] != "ready" or world.holds_plan()
    assert found["state"] == "not ready"
    assert found["causes"][0]["cause"] == script.cause, found
    world.heal()
    live.copy(world)
    assert asked(world, server.kubeconfig, tmp_path)["state"] == "ready"


def is_possible(given: Situation) -> bool:
    """Say whether a fresh API server can show it: it sets the ages itself, and its administrator may read all."""
    ages = [each["metadata"]["creationTimestamp"] for key, each in given.do.items() if _has_age(key, each)]
    return not given.unseen and not any(age.endswith("h ago") for age in ages)


def _has_age(key: str, patch: Mapping[str, Any] | None) -> bool:
    return "creationTimestamp" in (patch or {}).get("metadata", {}) and key.startswith(("nodes/", "pods/"))


REAL = [each for each in SITUATIONS if is_possible(each)]


@pytest.mark.parametrize("given", REAL, ids=[each.name for each in REAL])
def test_situation_is_judged_from_real_objects(
    given: Situation, live: Live, server: ControlPlane, tmp_path: Path
) -> None:
    world = given.world(datetime.now(UTC))
    live.copy(world, keeps_times=True)
    found = asked(world, server.kubeconfig, tmp_path)
    assert found["state"] == given.truth, found
    for first in found["causes"][:1]:
        assert (first["cause"], first["title"]) == (given.cause, given.title or first["title"]), found
        assert first["next"].startswith(given.next)


def test_most_situations_are_possible_on_a_real_server() -> None:
    assert len(REAL) > 60


def test_role_is_enough_and_reads_only(server: ControlPlane) -> None:
    for name in ("cluster-ready.json", "namespace-ready.json"):
        server.apply(documents()[name]).succeeded()
    role = documents()["cluster-ready.json"]
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "watchers"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "watchers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [user],
    }
    server.apply(binding).succeeded()
    who = User("dev", "watchers")
    for path, status in (("/api/v1/nodes", 200), ("/apis/apps/v1/daemonsets", 200), ("/api/v1/secrets", 403)):
        assert server._ask("GET", path, None, "", who).status == status
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "x"}}
    assert server.create(node, by=who).status == 403


@pytest.mark.parametrize("pool", ["whole", "shared", "mig", "claimed"])
def test_smoke_job_is_accepted(server: ControlPlane, pool: str) -> None:
    planned = plan_of("lab", pool)
    server.apply(smoke_namespace([planned]).manifest).succeeded()
    job = job_of(planned)
    job["metadata"]["namespace"] = "gpupools-smoke-test"
    server.create(job, dry_run=True).succeeded()
