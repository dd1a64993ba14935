"""What our readers take of user data is what the programs of the node make of it: nodeadm, Bottlerocket, k3s, kubeadm.

`said/*.jsonl` has, for each form, what the real program said of it; its first line tells which program that was, and of
which version. A tier that has one of the programs at hand asks it again.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.providers.aws.user_data import UserData, read_user_data

SAID = Path(__file__).with_name("said")
KUBEADM = os.environ.get("GPUPOOLS_KUBEADM", "")
NODEADM = os.environ.get("GPUPOOLS_NODEADM", "")


@cache
def said(program: str) -> Sequence[Mapping[str, Any]]:
    _, *lines = (SAID / f"{program}.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


def taints(found: UserData) -> list[str]:
    return sorted(f"{taint.key}={taint.value}:{taint.effect.value}" for taint in found.taints)


BESIDE = (
    *("max-pods of text", "max-pods below 0", "a label of a number", "a label that is wrong"),
    *(
        "cluster that is no name",
        "api-server that is none",
        "certificate that is none",
        "a cpu policy that is none",
        "standalone",
    ),
    *("standalone as text", "eviction that is none", "authentication that is none", "dns that is none"),
    "an empty cluster",
)
LEFT_OPEN = {
    "nodeadm": {"JSON, a key twice"},
    "bottlerocket": {"TOML, a shebang"},
    "k3s": {"drop-in, another end", "drop-in, in a folder"},
    "kubeadm": set[str](),
}
"""Where ours says that it cannot be verified."""
NO_NODE = {
    "nodeadm": {
        *("flag of another config file", "flag register-node off", "config registerNode off", "flag, after a word"),
        *("flag, unknown beside", "config, a wrong type beside", "config, a version nobody knows"),
        *("config, another kind", "config, a gate nobody knows", "YAML, octal"),
    },
    "bottlerocket": {
        *(f"unknown, in {where}" for where in ("kubernetes", "settings")),
        *(f"beside, {name}" for name in BESIDE),
        *("TOML, a date", "TOML, an int too long", "base64", "no UTF-8"),
    },
    "k3s": {"drop-ins, a broken one"},
    "kubeadm": {
        *(f"version {version}" for version in ("v1beta1", "v1beta2", "v1", "v1beta5")),  # another kubeadm takes it
        *(f"{version}, extra in the other version's form" for version in ("v1beta3", "v1beta4")),
        *("join twice", "another beside", "an empty one first", "no kind beside", "no discovery"),
    },
}
"""Where ours counts taints of a node that will never be one, since the program refuses something else beside them."""


WRONG = {"taints: a time", "taints: a comma"}
"""Taints that kubeadm puts together all the same, and of which ours says that they are none."""


def user_data(program: str, case: Mapping[str, Any]) -> str:
    """Write the files of a configuration as cloud-init is told to."""
    if program in ("nodeadm", "bottlerocket"):
        return str(case["given"])
    files = case.get("files") or {"kubeadm.yaml": case["given"]}
    written = [{"path": f"/etc/rancher/k3s/{path}", "content": given} for path, given in files.items()]
    runs = {"runcmd": ["kubeadm join --config /etc/rancher/k3s/kubeadm.yaml"]} if program == "kubeadm" else {}
    return f"#cloud-config\n{yaml.safe_dump({'write_files': written, **runs})}"


@pytest.mark.parametrize("program", LEFT_OPEN)
def test_the_taints_of_the_node_are_those_that_it_registers_with(program: str) -> None:
    different, left_open, no_node = {}, set(), set()
    for case in said(program):
        found = read_user_data(user_data(program, case))
        node = sorted(case.get("taints", ()))
        if found.unknown and "taints" in case:
            left_open.add(case["id"])
        elif taints(found) != node and "refused" in case:
            no_node.add(case["id"])
        elif taints(found) != node and case["id"] not in WRONG:
            different[case["id"]] = (node, taints(found))
    assert len(said(program)) >= 60
    assert different == {}
    assert (left_open, no_node) == (LEFT_OPEN[program], NO_NODE[program])


@pytest.mark.skipif(not NODEADM, reason="GPUPOOLS_NODEADM names no nodeadm")
def test_nodeadm_still_says_the_same(tmp_path: Path) -> None:
    given, different = tmp_path / "given", {}
    for case in said("nodeadm"):
        given.write_text(case["given"], encoding="utf-8", newline="")
        asked = [NODEADM, "config", "dump", "-c", f"file://{given}"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        answer = json.loads(done.stdout)["spec"].get("kubelet", {}) if done.returncode == 0 else None
        if answer != case["kubelet"]:
            different[case["id"]] = (answer, case["kubelet"])
    assert different == {}


@pytest.mark.skipif(not KUBEADM, reason="GPUPOOLS_KUBEADM names no kubeadm")
def test_kubeadm_still_takes_the_same(tmp_path: Path) -> None:
    given, different = tmp_path / "given", {}
    for case in said("kubeadm"):
        given.write_text(case["given"], encoding="utf-8", newline="")
        done = subprocess.run(
            [KUBEADM, "config", "validate", "--config", str(given)], capture_output=True, timeout=60, check=False
        )
        if (done.returncode == 0) is not case["valid"]:
            different[case["id"]] = done.stderr[-200:]
    assert different == {}
