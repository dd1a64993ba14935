"""Every cause is named from what a cluster shows, and no state before it is called ready."""

from collections import Counter
from urllib.parse import urlsplit

import pytest

from gpupools.ready.causes import causes, signals
from tests.gpupools.ready.scripts import SCRIPTS, Script
from tests.gpupools.ready.world import World

NAMES = [f"{each.cause}-{each.cluster}" for each in SCRIPTS]

ALSO = {"driver": ("runtime",), "no-capacity": (), "quota": ()}
"""What follows from a cause, and is reported after it."""


@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_cause_is_named_and_no_prefix_is_wrongly_ready(script: Script) -> None:
    world = World(script.cluster, script.pool)
    for step in (lambda w: None, *script.steps):
        step(world)
        status = world.status()
        assert not status.is_ready or world.holds_plan(), status
    assert not status.is_ready
    assert status.findings[0].cause.cause == script.cause, status
    assert {each.cause.cause for each in status.findings} <= {script.cause, *ALSO.get(script.cause, ())}, status
    assert status.findings[0].object
    assert status.findings[0].message
    assert "{" not in status.findings[0].next
    world.heal()
    assert world.status().is_ready
    assert world.holds_plan()


def test_each_cause_has_two_scripts_on_different_clouds() -> None:
    assert set(Counter((each.cause, each.cluster) for each in SCRIPTS).values()) == {1}
    assert Counter(each.cause for each in SCRIPTS) == {key: 2 for key in causes() if key != "unknown"}
    assert len(SCRIPTS) == 32


def test_each_cause_has_a_signal_with_a_public_source() -> None:
    assert {each.cause for each in signals()} == set(causes()) - {"unknown"}
    assert all(urlsplit(each.source).scheme == "https" for each in signals())
