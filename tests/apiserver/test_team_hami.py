"""Teams on a pool of HAMi: what its scheduler and the policies of the plan keep, and what nothing does.

HAMi is no scheduler of teams. A team has the namespaces and the quota that `trust` of the pool names.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict
from gpupools.plan.hami import PODS_PER_GPU
from gpupools.providers import clouds
from gpupools.stackfile.stack import StackPlan, plan_config
from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.team_cluster import recorded
from tests.apiserver.test_hami import LACKS, bound, half, pods, running, tenth, waits

pytestmark = [pytest.mark.apiserver, pytest.mark.skipif(bool(LACKS), reason=f"HAMi's scheduler: {LACKS}")]

QUOTA = 8
POOL: JsonDict = {
    "clusters": ["train"],
    "gpu": "L4",
    "nodes": {"fixed": 2},
    "software": "hami",
    "trust": {"namespaces": ["research", "vision"], "quota": QUOTA},
}
CLUSTER: JsonDict = {**clouds()["aws"].example_cluster, "places": "trust", "kubeconfig": {"path": "~/.kube/train"}}


def planned(pool: Mapping[str, Any], runtime: JsonDict, teams: JsonDict | None = None) -> StackPlan:
    cluster = {**CLUSTER, "runtime": {"kubernetes": "1.34", **runtime}}
    config = {"clusters": {"train": cluster}, "pools": {"notebooks": {**POOL, **pool}}}
    return plan_config({**config, **({"teams": teams} if teams else {})}, clouds())


MADE = planned({}, {"trust_policy": True})


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running(tmp_path_factory.mktemp("hami-teams"), MADE) as found:
        yield found


def given(space: str, name: str) -> dict[str, Any]:
    made = tenth(name, MADE.pools[0])
    made["metadata"]["namespace"] = space
    return made


def start(plane: ControlPlane, space: str, count: int) -> list[str]:
    names = [f"{space}-{number}" for number in range(count)]
    for name in names:
        plane.wait("the quota", lambda name=name: plane.create(given(space, name)).status == 201)  # type: ignore[misc]
        plane.wait("the part", lambda name=name: name in bound(plane, space), within_s=90)  # type: ignore[misc]
    return names


def shared_by_both(plane: ControlPlane) -> tuple[str, str]:
    """Start 8 pods of a team and 4 of another; return the node of the first, and the other one."""
    if "vision-3" not in pods(plane, "vision"):
        start(plane, "research", 8)
        start(plane, "vision", 4)
    first = bound(plane)["research-7"]
    return first, next(each for each in ("notebooks-0", "notebooks-1") if each != first)


def test_exported_pods_of_two_teams_share_a_gpu_up_to_the_limit_of_the_plugin(plane: ControlPlane) -> None:
    first, other = shared_by_both(plane)
    recorded("hami", "8 exported pods of a team share a GPU", {first}, set(bound(plane).values()))
    got = [bound(plane, "vision")[f"vision-{number}"] for number in range(4)]
    wanted = [first] * (PODS_PER_GPU - 8) + [other] * 2
    recorded("hami", "4 of another team: the rest of that GPU, and the next one", wanted, got)
    answer = plane.create(given("research", "ninth"))
    recorded("hami", "a pod above the quota of its namespace", 403, answer.status)
    assert "exceeded quota" in answer.message


def test_a_foreign_namespace_is_denied(plane: ControlPlane) -> None:
    plane.wait("the policy", lambda: plane.create(given("other", "x"), dry_run=True).status == 403)
    answer = plane.create(given("other", "x"), dry_run=True)
    recorded("hami", "exported pod from a namespace of no team", 403, answer.status)
    untolerated = given("other", "x")
    untolerated["spec"]["tolerations"] = untolerated["spec"]["tolerations"][:1]
    plane.create(untolerated).succeeded()
    plane.wait("the verdict", lambda: waits(plane, "x", "other"))
    recorded("hami", "the same without the toleration of trust: nodes", {}, bound(plane, "other"))


def test_another_scheduler_does_not_share_a_gpu(plane: ControlPlane) -> None:
    """The cluster's own scheduler sees no `nvidia.com/gpucores` on a node."""
    plain = given("vision", "plain")
    plain["spec"]["schedulerName"] = "default-scheduler"
    plane.create(plain).succeeded()
    plane.wait("the verdict", lambda: waits(plane, "plain", "vision"))
    recorded("hami", "exported pod with the default scheduler: nodes", None, bound(plane, "vision").get("plain"))
    plane.delete_now(plain)


def test_no_guarantee_is_kept_and_no_gang_waits_whole(plane: ControlPlane) -> None:
    """What HAMi does not do, and check says."""
    _, other = shared_by_both(plane)
    plane.delete_now(given("research", "research-0"))
    plane.delete_now(given("research", "research-1"))
    larger = half("wide")  # of the pods on a GPU, those that are left leave no half free
    larger["metadata"]["namespace"] = "vision"
    larger["spec"]["tolerations"] = given("vision", "x")["spec"]["tolerations"]
    plane.create(larger).succeeded()
    plane.wait("the half", lambda: "wide" in bound(plane, "vision"), within_s=90)
    recorded("hami", "half a GPU of another pod: node", other, bound(plane, "vision")["wide"])
    recorded("hami", "nobody is stopped for it", 6, len(pods(plane, "research")))
    for number in range(2):
        gang = given("research", f"gang-{number}")
        plane.wait("the quota", lambda gang=gang: plane.create(gang).status == 201)  # type: ignore[misc]
    answer = plane.create(given("research", "gang-2"))
    recorded("hami", "the third of a job of 3 pods, of which 2 are within the quota and start", 403, answer.status)


TEAM: JsonDict = {"research": {"namespaces": ["research"], "guarantee": {"notebooks": 4}}}


def said(pool: JsonDict, runtime: JsonDict, teams: JsonDict | None = None) -> str:
    with pytest.raises(Rejected) as rejected:
        planned(pool, runtime, teams)
    return "\n".join(map(str, rejected.value.problems))


@pytest.mark.parametrize(
    ("case", "pool", "runtime", "teams", "reason"),
    [
        ("a guarantee", {}, {}, TEAM, "no cluster of notebooks has a scheduler, so nothing would enforce it"),
        ("beside Kueue", {}, {"scheduler": "kueue"}, TEAM, "HAMi's scheduler and kueue would both decide"),
        ("beside KAI", {}, {"scheduler": "kai"}, TEAM, "HAMi's scheduler and kai would both decide"),
        ("beside Volcano", {}, {"scheduler": "volcano"}, TEAM, "HAMi's scheduler and volcano would both decide"),
        ("an autoscaler", {"nodes": {"max": 2}}, {}, None, "autoscalers start no node"),
        (
            "time-slicing",
            {"sharing": {"mode": "time-slicing", "replicas": 2}},
            {},
            None,
            "HAMi itself divides whole GPUs",
        ),
        ("nobody named", {"trust": None}, {}, None, "shares the faults of a GPU between containers"),
    ],
)
def test_check_says_what_hami_cannot_do(
    case: str, pool: JsonDict, runtime: JsonDict, teams: JsonDict | None, reason: str
) -> None:
    recorded("hami", f"check refuses {case}", True, reason in said(pool, runtime, teams))
