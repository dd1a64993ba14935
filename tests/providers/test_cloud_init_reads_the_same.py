"""What our reader takes of user data is what the real cloud-init takes of it.

Runs where `GPUPOOLS_CLOUD_INIT` names a Python that imports `cloudinit`, such as `/usr/bin/python3` of a machine with
the package, and otherwise skips. Nothing of the user data runs.
"""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpupools.providers.aws.cloud_init import Taken, commands, files, take
from gpupools.providers.aws.decoding import decoded
from tests.providers.made_user_data import by_hand, by_seed

PYTHON = os.environ.get("GPUPOOLS_CLOUD_INIT", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="GPUPOOLS_CLOUD_INIT names no Python that imports cloudinit")

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


def test_what_runs_and_what_is_written_is_what_cloud_init_says() -> None:
    given = [*by_hand(), *by_seed(1, 300)]
    asked = json.dumps([base64.b64encode(raw).decode() for _, raw in given])
    program = [PYTHON, str(Path(__file__).with_name("taken_by_cloud_init.py"))]
    done = subprocess.run(program, input=asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]

    different = {}
    for (name, raw), said in zip(given, json.loads(done.stdout), strict=True):
        taken = take(decoded(base64.b64encode(raw).decode()))
        node, ours = of_node(said), of_ours(taken)
        if name in READ_ALL_THE_SAME:
            assert not node["scripts"], name
            assert node["runcmd"] == NO_COMMANDS, name
        elif node != ours and name not in TOLD_BY_THE_MACHINE and not taken.doubtful:
            different[name] = (node, ours)
    assert len(given) > 700
    assert different == {}


NO_COMMANDS = "#!/bin/sh\n"


def of_node(said: dict[str, Any]) -> dict[str, Any]:
    # What has no first line that says who runs it is written, and cannot be started.
    scripts = [] if said["failed"] else [one for one in said["scripts"] if one.lstrip().startswith("#!")]
    return {
        "scripts": sorted(map(bare, scripts)),
        **{key: said["commands"].get(key, NO_COMMANDS) for key in ("bootcmd", "runcmd")},
        "files": {path: base64.b64decode(content) for path, content in said["files"].items()},
        "remote": bool(said["fetched"] or said["handlers"]),
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
