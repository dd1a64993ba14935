"""What Pulumi knows a resource by stays the same: from release to release, and in whatever order a file is written."""

import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpupools.preview.command import PROGRAM
from gpupools.preview.program_run import Preview, preview_program
from gpupools.stackfile.reader import NAMESPACE, read_stack_file
from tooling.write_urns import STACK_FILES, URNS, declared, urns

shown = pytest.mark.parametrize("file", STACK_FILES, ids=lambda file: file.name)
kept = cache(declared)

ADVICE = (
    "Pulumi deletes a resource whose URN is gone and creates the one that is new. Where a resource got another name,"
    " type or parent, give it an alias (pulumi.Alias) for the URN it had; then run python -m tooling.write_urns"
)


def test_no_urn_changes_without_being_seen() -> None:
    before = set(URNS.read_text(encoding="utf-8").splitlines())
    now = set(urns(map(kept, STACK_FILES)).splitlines())

    assert {"gone": sorted(before - now), "new": sorted(now - before)} == {"gone": [], "new": []}, ADVICE


def turned(value: Any, by: random.Random) -> Any:
    """Return a value with the keys of every map in another order; lists keep theirs."""
    if not isinstance(value, Mapping):
        return value
    return dict(by.sample([(key, turned(each, by)) for key, each in value.items()], len(value)))


@shown
def test_the_order_of_a_file_changes_neither_urns_nor_inputs(file: Path) -> None:
    read = read_stack_file(file)
    config = {f"{NAMESPACE}:{key}": value for key, value in read.config.items()}
    other = preview_program(PROGRAM, read.stack, NAMESPACE, turned(config, random.Random(5)))

    assert inputs(other) == inputs(kept(file))


def inputs(preview: Preview) -> dict[str, tuple[Any, Any]]:
    return {resource.urn: (resource.inputs, resource.options) for resource in preview.resources}
