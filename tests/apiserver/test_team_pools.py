"""Every pool that teams may share, on the real schedulers: its exported pod starts for a team, and for nobody else.

Those of the matrix stack, and 126 combinations of teams, scheduler, sharing and cloud. What `check` refuses is started
all the same, without the refusal, to show that it would fail.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict
from gpupools.providers import clouds
from gpupools.software import kai, releases
from gpupools.software.draft import Draft
from gpupools.software.team_shares import team_shares
from gpupools.stackfile.reader import read_stack_file
from gpupools.stackfile.stack import StackPlan, plan_config
from tests.apiserver.conftest import only
from tests.apiserver.team_cluster import Cluster, recorded
from tests.gpupools.software.test_team_combinations import CLOUDS, KINDS, MACHINES

pytestmark = pytest.mark.apiserver

ROOT = Path(__file__).resolve().parents[2]
MATRIX = read_stack_file(ROOT / "stacks" / "Pulumi.matrix.yaml")
FRACTIONS = ("plugin-fraction", "operator-fraction")


def matrix(scheduler: str, pools: Mapping[str, Any]) -> StackPlan:
    """Plan pools of the matrix stack, with a unit of each for a team, and with this scheduler on each cluster."""
    clusters = {}
    for name, each in MATRIX.config["clusters"].items():
        own = {key: value for key, value in each.get("runtime", {}).items() if key != "smoke_test"}
        clusters[name] = {**each, "places": "trust", "runtime": {**own, "scheduler": scheduler, "trust_policy": True}}
    units: JsonDict = dict.fromkeys(pools, 1)
    for name in units:
        if name.startswith("operator-mixed"):
            units[name] = {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}
    listed = {name: 4 for name in pools if name == "operator-mps"}
    teams = {
        "research": {"namespaces": ["research"], "guarantee": {each: units[each] for each in units.keys() - listed}},
        "vision": {"namespaces": ["vision", "speech"], "guarantee": listed},
    }
    used = {cluster for pool in pools.values() for cluster in pool["clusters"]}
    config = {
        **MATRIX.config,
        "clusters": {name: each for name, each in clusters.items() if name in used},
        "pools": dict(pools),
        "teams": {name: team for name, team in teams.items() if team["guarantee"]},
    }
    return plan_config(config, clouds(), MATRIX.others)


@cache
def shareable(scheduler: str) -> dict[str, str]:
    """Return why teams may not share a pool of the matrix with this scheduler; empty where they may."""
    found = {}
    for name, pool in MATRIX.config["pools"].items():
        try:
            matrix(scheduler, {name: pool})
            found[name] = ""
        except Rejected as rejected:
            found[name] = str(rejected.problems[0])
    return found


REFUSED: Mapping[str, Mapping[str, str]] = {
    "kueue": {"vgpu": "HAMi's scheduler", **dict.fromkeys(FRACTIONS, "only KAI places fractions")},
    "volcano": {
        "vgpu": "HAMi's scheduler",
        "claimed": "Volcano counts resources",
        **dict.fromkeys(FRACTIONS, "only KAI places fractions"),
    },
    "kai": {"vgpu": "HAMi's scheduler"},
}


@pytest.mark.parametrize("scheduler", REFUSED)
def test_check_says_which_pools_of_the_matrix_a_team_may_not_share(scheduler: str) -> None:
    found = {name: reason for name, reason in shareable(scheduler).items() if reason}

    assert found.keys() == REFUSED[scheduler].keys()
    assert all(REFUSED[scheduler][name] in reason for name, reason in found.items())


def started_for_its_team(cluster: Cluster, at: str) -> None:
    """Start the exported pod of each pool from its team's namespace and from another; record both."""
    teams = cluster.planned.stack.teams if cluster.planned is not None else {}
    pools = {
        pool.name: next(n for n, t in teams.items() if pool.name in {**t.guarantee, **t.limit})
        for pool in cluster.pools
    }
    spaces = {pool: teams[team].namespaces[0] for pool, team in pools.items()}
    for pool, space in spaces.items():
        cluster.run(space, pool, pool, queue=f"{pools[pool]}.{pool}")
    wanted = {pool: [pool] for pool in pools}

    def on() -> dict[str, list[str]]:
        return {pool: [each.rpartition("-")[0] for each in cluster.nodes(spaces[pool], pool)] for pool in pools}

    got = cluster.waits(on, wanted, 40)

    def elsewhere() -> dict[str, int]:  # a changed policy takes effect a moment later
        foreign = partial(cluster.pod, "other", "x", dry_run=True)
        return {pool: foreign(pool, queue=f"{team}.{pool}").status for pool, team in pools.items()}

    denied = cluster.waits(elsewhere, dict.fromkeys(pools, 403), 10)
    rows = [
        (f"{pool} {at}: on its pool; from elsewhere", (wanted[pool], 403), (got[pool], denied[pool])) for pool in pools
    ]
    cluster.clear()
    failed = [row for row in rows if row[1] != row[2]]
    for row in [*(row for row in rows if row not in failed), *failed]:
        recorded(cluster.scheduler, *row, fail=False)
    assert not failed


@pytest.mark.parametrize("where", MATRIX.config["clusters"])
def test_a_team_starts_the_exported_pod_of_every_pool_of_the_matrix(scheduled: Cluster, where: str) -> None:
    allowed = {name for name, reason in shareable(scheduled.scheduler).items() if not reason}
    here = {
        name: pool for name, pool in MATRIX.config["pools"].items() if where in pool["clusters"] and name in allowed
    }
    if not here:
        pytest.skip("no pool of this cluster is for its scheduler")
    made = matrix(
        scheduled.scheduler, {name: {**pool, "clusters": [where], "nodes": {"fixed": 1}} for name, pool in here.items()}
    )
    scheduled.becomes(made, where)
    started_for_its_team(scheduled, f"of the matrix on {where}")


def combined(cloud: str, scheduler: str, kinds: Mapping[str, JsonDict], **limit: int) -> StackPlan:
    """Plan two pools of each kind, one for team a alone and one for two teams with weights."""
    cluster = {**clouds()[cloud].example_cluster, "places": "trust", "kubeconfig": {"path": "~/.kube/train"}}
    cluster |= {"node_locations": ["europe-west4-a"]} if cloud == "gcp" else {}
    runtime = {"scheduler": scheduler, "trust_policy": True}
    pools: JsonDict = {}
    for kind, own in kinds.items():
        pool = {
            "clusters": ["train"],
            "instance_type": MACHINES[cloud],
            "nodes": {"fixed": 1},
            "software": "device-plugin",
        }
        pool |= own | ({"software": "cloud-managed"} if (cloud, kind) == ("gcp", "mps") else {})
        pools |= {f"{kind}-{teams}".replace("-", "").replace("timeslicing", "time"): pool for teams in ("one", "two")}
    teams = {
        "a": {
            "namespaces": ["a"],
            "guarantee": dict.fromkeys(pools, 2),
            "weight": 3,
            "limit": dict.fromkeys(pools, limit["most"]) if limit else {},
        },
        "b": {"namespaces": ["b"], "limit": {name: 4 for name in pools if name.endswith("two")}},
    }
    config = {"clusters": {"train": {**cluster, "runtime": runtime}}, "pools": pools, "teams": teams}
    return plan_config(config, clouds())


UNSHARED = {"kueue": (), "kai": ("renamed",), "volcano": ("claims",)}


@pytest.mark.parametrize("mixed", [False, True], ids=["alike", "mixed"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_accepted_combination_starts(scheduled: Cluster, cloud: str, mixed: bool) -> None:
    kinds = {k: v for k, v in KINDS.items() if k not in UNSHARED[scheduled.scheduler] and (k == "mig-mixed") == mixed}
    scheduled.becomes(combined(cloud, scheduled.scheduler, kinds))
    for pool in (each.name for each in scheduled.pools if each.name.endswith("two")):
        scheduled.run("b", f"{pool}-b", pool, queue=f"b.{pool}")
    got = {
        pool.name: scheduled.waits(partial(scheduled.count, "b", f"{pool.name}-b"), 1, 30)
        for pool in scheduled.pools
        if pool.name.endswith("two")
    }
    recorded(scheduled.scheduler, f"the second team on each pool of two, {cloud}", dict.fromkeys(got, 1), got)
    started_for_its_team(scheduled, f"on {cloud}")


def unrefused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what refuses pools that a scheduler does not count, as if a unit of theirs were a GPU."""

    def share_all(draft: Draft, teams: Any, shares: Any) -> Any:
        counted = replace(draft, pools=tuple(pool._replace(node_resources=pool.countable) for pool in draft.pools))
        return kai.share_pools(counted, teams, shares)

    gpus_of = kai.gpus_of
    monkeypatch.setattr(releases, "team_shares", lambda *given, **more: (team_shares(*given, **more)[0], []))
    monkeypatch.setattr(kai, "gpus_of", lambda resource: gpus_of(resource) or 1)
    kai_of_all = releases.SCHEDULERS["kai"]._replace(share_pools=share_all)
    monkeypatch.setattr(releases, "SCHEDULERS", {**releases.SCHEDULERS, "kai": kai_of_all})


def six_each(cluster: Cluster, cloud: str, kinds: Mapping[str, JsonDict]) -> dict[str, int]:
    """Return how many pods run on each pool, after a team with a limit of 4 has asked for 6."""
    cluster.becomes(combined(cloud, cluster.scheduler, kinds, most=4))
    asked = {pool.name: "b" if pool.name.endswith("two") else "a" for pool in cluster.pools}
    names = {pool: [f"{pool}-{index}" for index in range(6)] for pool in asked}
    for pool, team in asked.items():
        for name in names[pool]:
            cluster.run(team, name, pool, queue=f"{team}.{pool}")
    cluster.stays(lambda: None, 10)
    found = {pool: cluster.count(team, *names[pool]) for pool, team in asked.items()}
    cluster.clear()
    return found


WOULD_FAIL = {"kai": ("renamed",), "volcano": ("claims",)}


@only("kai", "volcano")
@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_check_refuses_would_fail(scheduled: Cluster, cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The team gets more than its limit, or nothing of its guarantee."""
    unrefused(monkeypatch)
    found = six_each(scheduled, cloud, {kind: KINDS[kind] for kind in WOULD_FAIL[scheduled.scheduler]})
    for pool, got in found.items():
        what = f"refused {pool} on {cloud}, without the refusal: {got} of 6 at a limit of 4"
        recorded(scheduled.scheduler, what, "limit does not hold", "limit holds" if got == 4 else "limit does not hold")


@only("kai")
@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_limit_holds_for_pods_that_claim_gpus(scheduled: Cluster, cloud: str) -> None:
    for pool, got in six_each(scheduled, cloud, {"claims": KINDS["claims"]}).items():
        recorded("kai", f"claims on {pool}, {cloud}: 6 asked, limit 4", 4, got)
