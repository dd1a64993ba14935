"""How the program of a stack runs in its process."""

import gc
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
from pulumi.runtime.proto import resource_pb2

from gpupools.common.errors import Problem, Rejected
from gpupools.providers.sdk_aliases import make_no_urns_of_aliases
from gpupools.stacks import program


def test_nothing_is_looked_through_for_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def read() -> None:
        seen.append(gc.isenabled())
        raise Rejected([Problem((), "stop here")])

    monkeypatch.setattr(program, "read_stack_config", read)
    monkeypatch.setattr("signal.signal", lambda *_: None)  # its handler is none for this process
    gc.enable()
    try:
        with pytest.raises(SystemExit):
            program.run(tmp_path)
    finally:
        gc.enable()

    assert seen == [False]


@pytest.mark.parametrize(
    ("features", "left_out"), [((resource_pb2.RESOURCE_MONITOR_FEATURE_ALIAS_SPECS,), True), ((), False)]
)
def test_only_an_engine_that_takes_aliases_as_written_is_made_no_urns_of_them(
    monkeypatch: pytest.MonkeyPatch, features: Collection[int], left_out: bool
) -> None:
    monkeypatch.setattr("pulumi.resource.collapse_alias_to_urn", lambda *_: "its URN")
    monkeypatch.setattr("pulumi.runtime.settings.SETTINGS", SimpleNamespace(monitor_features=set(features)))

    make_no_urns_of_aliases()

    urn_of: Any = vars(pulumi.resource)["collapse_alias_to_urn"]
    assert urn_of(pulumi.Alias(type_="a:b:C"), "pool", "a:b:D", None) == (None if left_out else "its URN")
    assert urn_of(pulumi.Alias(name="lake", project="other"), "pool", "a:b:D", None) == "its URN"
