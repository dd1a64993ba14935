"""`gpupools mig walk` against a real API server; a thread does what the MIG manager does."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli import mig_walk
from gpupools.cli.main import main
from gpupools.plan.node_labels import MIG_CONFIG_LABEL, MIG_STATE_LABEL
from tests.apiserver.control_plane import ControlPlane
from tests.gpupools.test_mig_walk import FILE, NEW, OLD

pytestmark = pytest.mark.apiserver

NAMES = ("walk-0", "walk-1", "walk-2")
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterpolicies.nvidia.com"},
    "spec": {
        "group": "nvidia.com",
        "scope": "Cluster",
        "names": {"kind": "ClusterPolicy", "plural": "clusterpolicies"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {"migManager": {"config": {"name": "layouts"}}},
    "status": {"namespace": "gpu-operator"},
}


def node(name: str) -> dict[str, Any]:
    labels = {"gpupools/pool": "slices", MIG_CONFIG_LABEL: OLD, MIG_STATE_LABEL: "success"}
    labels |= {"topology.kubernetes.io/region": "us-east-1", "alpha.eksctl.io/cluster-name": "train"}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "56"}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    spec = {"providerID": f"aws:///us-east-1a/i-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def pod(on: str, owner: str) -> dict[str, Any]:
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "x", "uid": "1"}]
    meta = {"name": f"{owner.lower()}-{on}", "namespace": "walk", "ownerReferences": owners}
    spec = {
        "nodeName": on,
        "terminationGracePeriodSeconds": 0,  # without a kubelet nothing else ends it
        "containers": [{"name": "main", "image": "registry.example.com/none"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Start a server of its own: the definition of ClusterPolicy and the nodes are in nobody's way."""
    server = ControlPlane(tmp_path_factory.mktemp("walk"))
    try:
        server.start()
        yield filled(server)
    finally:
        server.stop()


def filled(server: ControlPlane) -> ControlPlane:
    server.apply(CRD).succeeded()
    for space in ("walk", "gpu-operator"):
        server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}).succeeded()
    layouts = {"config.yaml": yaml.safe_dump({"mig-configs": {OLD: [], NEW: []}})}
    config_map = {"metadata": {"name": "layouts", "namespace": "gpu-operator"}, "data": layouts}
    server.apply({"apiVersion": "v1", "kind": "ConfigMap", **config_map}).succeeded()
    server.wait("the definition", lambda: server.apply(POLICY).status < 300)
    made = [
        *(node(name) for name in NAMES),
        *(pod(name, kind) for name in NAMES for kind in ("ReplicaSet", "DaemonSet")),
    ]
    for each in made:
        server.create(each).succeeded()
    return server


def test_the_nodes_of_a_real_api_get_the_layout(
    cluster: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mig_walk, "_INTERVAL_S", 0.1)
    file = tmp_path / "Pulumi.walk.yaml"
    file.write_text(FILE.replace("/kube}", f"{cluster.kubeconfig}}}").replace("fixed: 5", "fixed: 3"))
    done, most = threading.Event(), [0]

    def manage() -> None:
        while not done.wait(0.05):
            nodes = cluster.items("/api/v1/nodes")
            most[0] = max(most[0], sum(bool(each["spec"].get("unschedulable")) for each in nodes))
            for each in nodes:
                if each["metadata"]["labels"].get(MIG_STATE_LABEL) == "pending":
                    offers = {"status": {"capacity": {"nvidia.com/gpu": "24"}, "allocatable": {"nvidia.com/gpu": "24"}}}
                    cluster.merge(node(each["metadata"]["name"]), offers, "/status").succeeded()
                    state = {"metadata": {"labels": {MIG_STATE_LABEL: "success"}}}
                    cluster.merge(node(each["metadata"]["name"]), state).succeeded()

    manager = threading.Thread(target=manage)
    manager.start()
    try:
        code = main(["mig", "walk", "--pool", "slices", "--to", "2g.20gb", "--timeout", "30", "--yes", str(file)])
    finally:
        done.set()
        manager.join()

    assert code == 0
    assert 1 <= most[0] <= 2
    for name in NAMES:
        found = cluster.get(node(name)).succeeded()
        assert found["metadata"]["labels"][MIG_CONFIG_LABEL] == NEW
        assert mig_walk.ANNOTATION not in found["metadata"].get("annotations", {})
        assert not found["spec"].get("unschedulable")
        assert cluster.get(pod(name, "ReplicaSet")).status == 404
        assert cluster.get(pod(name, "DaemonSet")).status == 200
