"""What `ready` says of situations that people met: no wrong "ready", and no advice that ends pods without need."""

import re
from collections import Counter
from urllib.parse import urlsplit

import pytest

from gpupools.providers import clouds
from gpupools.ready.causes import CAUSES
from gpupools.ready.pool_status import judge
from gpupools.ready.snapshot import Snapshot, pruned
from tests.gpupools.ready.scripts import SCRIPTS
from tests.gpupools.ready.situations import SITUATIONS, Situation
from tests.gpupools.ready.world import NOW, plan

ENDS_PODS = re.compile("replace the node|reboot|drain|end the pods|delete|evict")


@pytest.mark.parametrize("given", SITUATIONS, ids=[each.name for each in SITUATIONS])
def test_situation_is_judged_as_it_is(given: Situation) -> None:
    world = given.world(NOW)
    unseen = {given.unseen: "forbidden"} if given.unseen else {}
    objects = {
        kind: [pruned(kind, each) for each in found] for kind, found in world.objects.items() if kind not in unseen
    }
    cluster = plan().stack.clusters[world.cluster]
    (status,) = judge([world.promise], Snapshot(objects, unseen, NOW), cluster, clouds(), "FILE")
    shown = "\n".join(status.lines(NOW))

    assert status.state == given.truth, shown
    assert bool(status.findings) == (given.truth == "not ready"), shown
    for first in status.findings[:1]:
        assert first.cause.cause == given.cause, shown
        assert first.cause.title == (given.title or first.cause.title), shown
        assert first.next.startswith(given.next), shown
    assert given.says in shown
    if not given.broken:
        assert not [each for each in status.findings if ENDS_PODS.search(each.cause.cure)], shown
    for each in status.findings:
        described = re.fullmatch(r"kubectl (?:-n (\S+) )?describe (\S+) (\S+)", each.next)
        if described is not None:
            space, kind, name = described.groups()
            plural = {"clusterpolicy": "clusterpolicies", "runtimeclass": "runtimeclasses"}.get(kind, f"{kind}s")
            metas = [one["metadata"] for one in objects.get(plural, ())]
            told = [one["involvedObject"] for one in objects.get("events", ())]
            assert (space, name) in {(one.get("namespace"), one["name"]) for one in [*metas, *told]}, shown


def test_situations_are_many_and_public() -> None:
    assert Counter(each.truth for each in SITUATIONS) >= Counter({"ready": 20, "not ready": 40, "not seen": 6})
    assert len({each.name for each in SITUATIONS}) == len(SITUATIONS)
    assert all(urlsplit(each.source).scheme == "https" for each in SITUATIONS)


def test_each_cause_is_met_in_a_script_or_situation() -> None:
    told = {each.cause for each in SCRIPTS} | {each.cause for each in SITUATIONS}
    titles = {each.title for each in SITUATIONS}
    missed = [each.key for each in CAUSES.values() if each.key not in told and each.title not in titles]
    assert missed in ([], ["not-installed"])
