"""Everything that a cluster of the matrix stack declares, applied: what the real controllers and scheduler make of it.

The charts are rendered as in `tests/charts`. `kube-controller-manager` (1.34 or later, on PATH) makes the pods: its
DaemonSet controller decides by its own rules which nodes a daemon is for.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import pytest
import yaml

from gpupools.plan.software_plan import Piece
from gpupools.software.objects import SMOKE_NAMESPACE
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_gpu_operator import node
from tests.apiserver.test_teams import is_served
from tests.charts.clusters import Planned, planned
from tests.charts.rendering import INSTALLABLE, archive, missing, of_kind, rendered
from tests.charts.test_rendered import PIECES, labels_left

MANAGER = "kube-controller-manager"
LACKS = missing(*INSTALLABLE) or ("" if shutil.which(MANAGER) else f"{MANAGER} is not on PATH")
pytestmark = [pytest.mark.apiserver, pytest.mark.skipif(bool(LACKS), reason=f"placement of what is rendered: {LACKS}")]

CLUSTERS = tuple(each.runtime.cluster for each in planned("stacks/Pulumi.matrix.yaml"))
CPU = "cpu"
"""The name of a node without GPUs and taints."""


class Seen(NamedTuple):
    """A cluster after everything was applied."""

    cluster: Planned
    refused: Mapping[str, str]
    """Object to what the API server said."""
    applied: int
    pods: Sequence[Mapping[str, Any]]


@cache
def crds() -> tuple[Mapping[str, Any], ...]:
    """Return the CRDs of all charts."""
    found: dict[str, Mapping[str, Any]] = {}
    for chart in INSTALLABLE:
        shown = subprocess.run(["helm", "show", "crds", str(archive(chart))], check=True, capture_output=True).stdout
        found |= {each["metadata"]["name"]: each for each in yaml.load_all(shown, yaml.CSafeLoader) if each}
    return tuple(found.values())


@pytest.fixture(scope="module", params=CLUSTERS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Apply all that one cluster of the matrix stack declares, and wait until no pod comes or moves any more."""
    (cluster,) = (each for each in planned("stacks/Pulumi.matrix.yaml") if each.runtime.cluster == request.param)
    with ControlPlane(tmp_path_factory.mktemp("placement")) as plane:
        yield _applied(plane, cluster)


def _applied(plane: ControlPlane, cluster: Planned) -> Seen:
    for pool in cluster.pools:
        plane.create(node(pool, labels_left(pool, cluster))).succeeded()
    plain = node(cluster.pools[0], {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"})
    plane.create({**plain, "metadata": {**plain["metadata"], "name": CPU}, "spec": {}}).succeeded()
    for crd in crds():
        plane.create(crd).succeeded()
    own = [each.manifest for each in cluster.runtime.objects]
    charts = [
        _in_namespace(each, release.namespace) for release in cluster.runtime.releases for each in rendered(release)
    ]
    for crd in crds():
        plane.wait("the CRD", partial(is_served, plane, crd))
    answers = {}
    made = {one["metadata"]["name"] for one in of_kind(own, "Namespace")}
    for space in {each["metadata"].get("namespace", CPU) for each in own} - made:  # the teams' own, which are there
        plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}).succeeded()
    for each in sorted([*own, *charts], key=lambda one: one["kind"] != "Namespace"):
        answers[f"{each['kind']} {each['metadata']['name']}"] = plane.apply(each)
    controllers = (
        "daemonset-controller,deployment-controller,replicaset-controller,job-controller,resourcequota-controller"
    )
    plane.run(
        MANAGER, f"--kubeconfig={plane.kubeconfig}", f"--controllers={controllers}", "--leader-elect=false",
        "--bind-address=127.0.0.1", "--secure-port=0",
    )  # fmt: skip
    plane.wait("pods that stay where they are", lambda: _settled(plane), within_s=120)
    return Seen(
        cluster,
        {name: answer.message for name, answer in answers.items() if answer.status >= 300},
        len(answers),
        plane.items("/api/v1/pods"),
    )


def _in_namespace(manifest: Mapping[str, Any], space: str) -> Mapping[str, Any]:
    """Give an object the namespace of its release, as Helm does with what names none; elsewhere nobody reads it."""
    return {**manifest, "metadata": {"namespace": space, **manifest["metadata"]}}


def _settled(plane: ControlPlane) -> bool:
    """Say whether every daemon that is wanted somewhere has its pods, and nothing has changed for a while."""
    before = _versions(plane)
    if not before or any(each["status"].get("observedGeneration") is None for each in _daemons(plane)):
        return False
    time.sleep(3)
    return before == _versions(plane)


def _daemons(plane: ControlPlane) -> list[Mapping[str, Any]]:
    return plane.items("/apis/apps/v1/daemonsets")


def _versions(plane: ControlPlane) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["metadata"]["resourceVersion"]
        for each in (*plane.items("/api/v1/pods"), *_daemons(plane))
    }


def by_daemon(seen: Seen) -> dict[str, set[str]]:
    """Return where the pods of each DaemonSet were bound."""
    found: dict[str, set[str]] = {}
    for pod in seen.pods:
        owner = pod["metadata"]["ownerReferences"][0]
        if owner["kind"] == "DaemonSet":
            found.setdefault(owner["name"], set()).add(pod["spec"].get("nodeName", "nowhere"))
    return found


def test_the_api_server_takes_everything_that_is_declared_and_rendered(seen: Seen) -> None:
    assert seen.applied > len(seen.cluster.runtime.objects)
    assert seen.refused == {}


def test_daemons_are_bound_to_the_nodes_their_release_is_for_and_to_no_other(seen: Seen) -> None:
    there = by_daemon(seen)
    for release in seen.cluster.runtime.releases:
        for each in of_kind(rendered(release), "DaemonSet"):
            name = each["metadata"]["name"]
            mps = "mps-control-daemon" in name
            wanted = {
                pool.name
                for pool in seen.cluster.pools
                if pool.name in release.pools and (not mps or pool.sharing.kind == "mps")
            }
            assert there.get(name, set()) == wanted, name


def test_the_owner_table_is_what_runs(seen: Seen) -> None:
    """Of the pieces that a DaemonSet in a chart brings; the operator's operands are in `test_gpu_operator`."""
    running: dict[str, set[tuple[Piece, str]]] = {}
    charts = {
        each["metadata"]["name"]: f"chart {release.chart}"
        for release in seen.cluster.runtime.releases
        for each in of_kind(rendered(release), "DaemonSet")
    }
    for pod in seen.pods:
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        for container in pod["spec"]["containers"]:
            if container["name"] in PIECES and owner in charts:
                running.setdefault(pod["spec"]["nodeName"], set()).add((PIECES[container["name"]], charts[owner]))
    operated = {"chart gpu-operator"}
    table = {
        row.pool: {
            (piece, owner)
            for piece, owner in row.owners.items()
            if owner in charts.values() and (owner not in operated or piece is Piece.NODE_FEATURE_DISCOVERY)
        }
        for row in seen.cluster.runtime.owners
    }

    assert running == {pool: pieces for pool, pieces in table.items() if pieces}


def test_everything_else_is_bound_to_the_node_without_gpus(seen: Seen) -> None:
    others = {
        pod["metadata"]["name"]: pod["spec"].get("nodeName")
        for pod in seen.pods
        if pod["metadata"]["ownerReferences"][0]["kind"] != "DaemonSet"
        and pod["metadata"]["namespace"] != SMOKE_NAMESPACE
    }

    charts = [each for release in seen.cluster.runtime.releases for each in rendered(release)]
    assert bool(others) == any(of_kind(charts, "Deployment", "Job"))
    assert set(others.values()) <= {CPU}


def test_the_exporter_needs_its_privileged_namespace(seen: Seen, server: ControlPlane) -> None:
    exporters = [each for each in seen.cluster.runtime.releases if each.chart == "dcgm-exporter"]
    for release in exporters:
        (daemon,) = of_kind(rendered(release), "DaemonSet")
        for level, message in (("baseline", "hostPath volumes"), ("privileged", "")):
            labels = {"pod-security.kubernetes.io/enforce": level}
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": level, "labels": labels}}
            server.apply(space).succeeded()
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "exporter", "namespace": level}}
            # Policies of other tests deny what tolerates the taint of a team.
            spec = {**daemon["spec"]["template"]["spec"], "serviceAccountName": "default", "tolerations": []}
            answer = server.create({**pod, "spec": spec}, dry_run=True)

            assert (answer.status < 300) is (level == "privileged"), answer.message
            assert message in answer.message
