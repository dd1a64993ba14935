"""What is declared of pools of many kinds, compared with what was declared before.

The pools are some of `aws.yaml`, `azure.yaml` and `gcp.yaml` that together have everything a cloud chooses for any of
them; see `test_decided.py`, which says how the files are read and written.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.decided import corpus
from tests.decided.test_decided import WRITING, differences, kept, write
from tests.declared_pools import declare, sent

pytestmark = pytest.mark.slow

FOLLOWS = ("provider", "providers", "propertyDependencies", "dependsOn", "version", "pluginDownloadURL", "aliases")
"""Options that say what a resource depends on, and what it was called: `tests/urns.txt` and the SDK have those."""


def chosen(cloud: str) -> Mapping[str, Any]:
    """Return the cases that together have every line of the cloud's choices; those already written, unless writing."""
    cases = {f"{group} {at}": case for group, each in corpus.groups(cloud).items() for at, case in each.items()}
    if not WRITING:
        return {at: cases[at] for at in kept(f"declared-{cloud}")[cloud] if at in cases}
    lines = {at: set(corpus.decided(cloud, case)) for at, case in cases.items() if "component" not in case}
    lines = {at: {line for line in each if ".choices." in line} for at, each in lines.items()}
    found: dict[str, Any] = {}
    while any(lines.values()):
        most = max(lines, key=lambda at: len(lines[at]))
        found[most], seen = cases[most], lines[most]
        lines = {at: each - seen for at, each in lines.items()}
    return found


def rows(cloud: str, folder: Path) -> Mapping[str, Collection[str]]:
    cases = chosen(cloud)
    keys = {f"pool{number}": at for number, at in enumerate(cases)}
    stacks = {key: corpus.without_left_out(corpus.stack(cloud, cases[at])) for key, at in keys.items()}
    declared = declare(stacks, folder / cloud)
    found: dict[str, Collection[str]] = {}
    for key, at in keys.items():
        if key not in declared.components:
            found[at] = ["refused"]
            continue
        inside = declared.pools[key]
        options = {
            each.type.rpartition(":")[2]: {name: value for name, value in each.options.items() if name not in FOLLOWS}
            for each in (declared.components[key], *inside)
        }
        text = json.dumps(options, sort_keys=True, default=str).replace(f"{key}-", "")
        found[at] = [*corpus.lines("input", sent(cloud, key, inside)), *corpus.lines("option", json.loads(text))]
    return found


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_what_is_declared_is_what_was(cloud: str, tmp_path: Path) -> None:
    found = rows(cloud, tmp_path)
    if WRITING:
        write(f"declared-{cloud}", {cloud: found})
        return

    assert "\n".join(differences(kept(f"declared-{cloud}")[cloud], found, chosen(cloud))) == ""
    assert list(found) == list(kept(f"declared-{cloud}")[cloud])
