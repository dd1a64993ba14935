"""What our reader takes of user data is what the real cloud-init takes of it.

`said/cloud-init.jsonl` has what it said of each form by hand. Where `GPUPOOLS_CLOUD_INIT` names a Python that imports
`cloudinit`, such as `/usr/bin/python3` of a machine with the package, it is asked again, and of forms by chance too;
with `GPUPOOLS_WRITE_SAID=1` its answers are written anew. Nothing of the user data runs.
"""

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpupools.providers.aws.cloud_init import Taken, commands, files, take
from gpupools.providers.aws.decoding import decoded
from tests.providers.made_user_data import by_hand, by_seed

PYTHON = os.environ.get("GPUPOOLS_CLOUD_INIT", "")
SAID = Path(__file__).with_name("said") / "cloud-init.jsonl"

READ_ALL_THE_SAME = {
    "a script, with a mark",
    "a script, no UTF-8",
    "a configuration, with a mark",
    "a configuration, no UTF-8",
    "files: packed as gz",
}
"""Where we read what cloud-init leaves out as a whole: nothing of it runs, neither what joins nor what taints."""
TOLD_BY_THE_MACHINE = {"a script, jinja of a region", "YAML: times", "YAML: times, in a part"}
"""Where a value differs that no taint can be: of a template, and a time in numbers to base 60."""


def test_what_runs_and_what_is_written_is_what_cloud_init_said() -> None:
    given = dict(by_hand())

    assert len(given) > 440
    assert recorded().keys() == given.keys()
    assert different({name: (given[name], said) for name, said in recorded().items()}) == {}


@pytest.mark.skipif(not PYTHON, reason="GPUPOOLS_CLOUD_INIT names no Python that imports cloudinit")
def test_cloud_init_still_says_the_same() -> None:
    hand, chance = dict(by_hand()), dict(by_seed(1, 300))
    asked = json.dumps([base64.b64encode(raw).decode() for raw in (*hand.values(), *chance.values())])
    program = [PYTHON, str(Path(__file__).with_name("taken_by_cloud_init.py"))]
    done = subprocess.run(program, input=asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = dict(zip((*hand, *chance), json.loads(done.stdout), strict=True))
    if os.environ.get("GPUPOOLS_WRITE_SAID"):
        version = "import cloudinit.version; print(cloudinit.version.version_string())"
        told = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True, check=True).stdout.strip()
        lines = [{"source": f"cloud-init {told}"}, *({"id": name, **_short(said[name])} for name in hand)]
        SAID.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        recorded.cache_clear()

    assert len(said) > 740
    assert {name: _short(said[name]) for name in hand} == recorded()
    assert different({name: (raw, said[name]) for name, raw in {**hand, **chance}.items()}) == {}


@cache
def recorded() -> dict[str, dict[str, Any]]:
    _, *lines = SAID.read_text(encoding="utf-8").splitlines()
    return {case.pop("id"): case for case in map(json.loads, lines)}


def _short(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if value}


def different(cases: Mapping[str, tuple[bytes, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return what the node and ours take, where they differ."""
    found = {}
    for name, (raw, said) in cases.items():
        taken = take(decoded(base64.b64encode(raw).decode()))
        node, ours = of_node(said), of_ours(taken)
        if name in READ_ALL_THE_SAME:
            assert not node["scripts"], name
            assert node["runcmd"] == NO_COMMANDS, name
        elif node != ours and name not in TOLD_BY_THE_MACHINE and not taken.doubtful:
            found[name] = (node, ours)
    return found


NO_COMMANDS = "#!/bin/sh\n"


def of_node(said: Mapping[str, Any]) -> dict[str, Any]:
    # What has no first line that says who runs it is written, and cannot be started.
    scripts = [] if said.get("failed") else [one for one in said.get("scripts", ()) if one.lstrip().startswith("#!")]
    return {
        "scripts": sorted(map(bare, scripts)),
        **{key: said.get("commands", {}).get(key, NO_COMMANDS) for key in ("bootcmd", "runcmd")},
        "files": {path: base64.b64decode(content) for path, content in said.get("files", {}).items()},
        "remote": bool(said.get("fetched") or said.get("handlers")),
    }


def of_ours(taken: Taken) -> dict[str, Any]:
    return {
        "scripts": sorted(map(bare, taken.scripts)),
        **{key: as_script(commands(taken.config, key)) for key in ("bootcmd", "runcmd")},
        "files": {os.path.normpath(one.path): one.content for one in files(taken.config)},
        "remote": taken.remote,
    }


def bare(script: str) -> str:
    return script.replace("\r\n", "\n").strip()


def as_script(given: list[Any]) -> str:
    lines = [one if isinstance(one, str) else " ".join(quoted(str(word)) for word in one) for one in given]
    return NO_COMMANDS + "".join(f"{line}\n" for line in lines)


def quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"
