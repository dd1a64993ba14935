"""`gpupools fit --pod` against a real API server and scheduler, with the rights of the documented roles."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupools.fit.live import read_live
from gpupools.fit.pending import Answer, Given, answers
from gpupools.fit.workloads import Level
from gpupools.providers import clouds
from gpupools.ready.live_cluster import Access, ClusterApi
from tests.apiserver.control_plane import CLUSTER_POLICIES, ControlPlane
from tests.apiserver.test_ready import Live
from tests.apiserver.test_roles import Account
from tests.gpupools.fit.pending_pods import NAME, SCRIPTS, Refuses, Script
from tests.gpupools.ready.world import World, plan
from tooling.write_permissions import documents

pytestmark = pytest.mark.apiserver

REAL = [each for each in SCRIPTS if each.is_real]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "job"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("fit")) as plane:
        plane.apply(CLUSTER_POLICIES).succeeded()
        plane.add_namespaces("default", "dev", "kube-system")
        yield plane


@pytest.fixture(scope="module")
def account(server: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Account:
    made = Account(server, "fits", tmp_path_factory.mktemp("account"))
    for name in ("cluster-ready.json", "namespace-ready.json", "cluster-fit.json"):
        made.grant(documents()[name])
    return made


@pytest.fixture
def live(server: ControlPlane) -> Iterator[Live]:
    copied = Live(server)
    yield copied
    copied.clear()


def asked(world: World, kubeconfig: Path, name: str = NAME) -> list[Answer]:
    cluster = plan().stack.clusters[world.cluster]
    api = ClusterApi(Access(kubeconfig, "own"))
    read = read_live(api, cluster, clouds()[cluster.cloud], name)
    return answers(read, Given(plan(), world.cluster, clouds(), "FILE"), name)


def is_refused(server: ControlPlane) -> bool:
    conditions = server.get(POD).succeeded()["status"].get("conditions", ())
    return any(each["type"] == "PodScheduled" for each in conditions)


@pytest.mark.parametrize("script", REAL, ids=[each.name for each in REAL])
def test_the_reason_of_a_real_pod_is_named(script: Script, live: Live, server: ControlPlane, account: Account) -> None:
    world = World(*script.at.split("/"))
    for step in script.steps:
        if isinstance(step, Refuses):
            server.wait("the scheduler's refusal", lambda: is_refused(server), within_s=20)
        else:
            step(world)
            live.copy(world)
        (found,) = asked(world, account.kubeconfig)
        pod = server.get(POD)
        waits = pod.status == 200 and pod.body["status"]["phase"] == "Pending" and "nodeName" not in pod.body["spec"]
        assert found.level is not Level.FITS or not waits
    (found,) = asked(world, account.kubeconfig)
    assert (found.disagrees, found.key) == (script.disagrees, script.key), "\n".join(found.lines())
    assert found.next.startswith(script.next)
    assert not any(each.startswith("not seen") for each in found.details)


def test_enough_pods_are_real() -> None:
    assert len(REAL) >= 20
