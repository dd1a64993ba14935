"""What the user data of an EC2 machine says: whether it joins a cluster, taints, labels, and how GPUs are shared."""

import base64
import gzip
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.common.taints import GPU_TAINT
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.providers.aws.bootstrap import MOST_USER_DATA
from gpupools.providers.aws.user_data import (
    UserData,
    decode_user_data,
    is_mime,
    read_settings,
    read_user_data,
    registers_gpu_taint,
    toml_error,
)

HERE = Path(__file__).parent
SCRIPT = "#!/bin/sh\n/etc/eks/bootstrap.sh lab --kubelet-extra-args '--register-with-taints=a=b:NoSchedule'\n"
UNPACKED = 256 * 1024
"""Bytes that are read of user data once it is unpacked."""


@cache
def table() -> Sequence[Mapping[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return tuple(yaml.load((HERE / "user_data.yaml").read_text(encoding="utf-8"), loader))


@cache
def recorded(program: str) -> Sequence[Mapping[str, Any]]:
    """Return what the program of a node made of user data; the first line of the file names its version."""
    _, *lines = (HERE / f"recorded/{program}.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)


def said(found: UserData) -> dict[str, Any]:
    """Write down what differs from user data that says nothing."""
    given = {each.name: getattr(found, each.name) for each in fields(found)}
    different = {name: value for name, value in given.items() if value != getattr(UserData(), name)}
    if found.sharing is not None:
        different["sharing"] = {name: value for name, value in asdict(found.sharing).items() if value}
    return {
        name: [str(one) for one in value] if isinstance(value, list) else value for name, value in different.items()
    }


@pytest.mark.parametrize("case", table(), ids=lambda case: case["id"])
def test_user_data_says(case: Mapping[str, Any]) -> None:
    assert said(read_user_data(case["given"])) == case["expected"]


@pytest.mark.parametrize("program", ["nodeadm", "bottlerocket"])
def test_taints_are_those_that_the_node_registers_with_or_unverified(program: str) -> None:
    different = {}
    for case in recorded(program):
        found = read_user_data(case["given"])
        taints = sorted(f"{taint.key}={taint.value}:{taint.effect.value}" for taint in found.taints)
        if not found.unknown and taints != sorted(case.get("taints", ())):
            different[case["id"]] = taints
    assert different == {}
    assert sum(bool(read_user_data(case["given"]).unknown) for case in recorded(program)) <= len(recorded(program)) / 4


@pytest.mark.parametrize(
    "script",
    [
        """awk 'BEGIN{system("kube" "adm jo" "in 10.0.0.1")}'""",
        """eval "$(rev <<< 'NEKOT-- 1.0.0.01 nioj mdaebuk')\"""",
        "sed 's/X/kubeadm/;s/Y/join/' <<< 'X Y 10.0.0.1' | sh",
        "if false; then /etc/eks/bootstrap.sh a --kubelet-extra-args --register-with-taints=a=b:NoSchedule; fi",
    ],
    ids=["awk", "eval", "sed", "if"],
)
def test_what_a_script_hides_is_unverified(script: str) -> None:
    found = read_user_data(f"#!/bin/bash\n{script}\n", "mine")

    assert (found.taints, found.unknown, found.unevaluated) == ([], ["mine"], True)


def zipped(content: str) -> str:
    return base64.b64encode(gzip.compress(content.encode(), mtime=0)).decode()


def filled(content: str, most: int) -> str:
    """Add a comment up to a number of characters."""
    return f"{content}#{'x' * (most - len(content) - 1)}"


@pytest.mark.parametrize(
    ("given", "is_whole"),
    [
        pytest.param(filled(SCRIPT, MOST_USER_DATA), True, id="as much as EC2 takes"),
        pytest.param(filled(SCRIPT, MOST_USER_DATA + 1), False, id="more than EC2 takes"),
        pytest.param(zipped(filled(SCRIPT, UNPACKED)), True, id="as much as is unpacked"),
        pytest.param(zipped(filled(SCRIPT, UNPACKED + 1)), False, id="more than is unpacked"),
        pytest.param("MIME-Version: 1.0\n" + "Content-Type: message/rfc822\n\n" * 500, False, id="parts inside parts"),
    ],
)
def test_user_data_beyond_the_limits_is_unverified(given: str, is_whole: bool) -> None:
    found = read_user_data(given)

    assert (bool(found.taints), bool(found.unknown)) == (is_whole, not is_whole)


@pytest.mark.parametrize(
    "given", ["#!/bin/sh\necho \ud800\n", "MIME-Version: 1.0\n\nν\udc83\ud800\n", "\0", "%%", "[" * 9]
)
def test_no_text_makes_the_reader_fail(given: str) -> None:
    assert read_user_data(given).unevaluated


@pytest.mark.parametrize(
    "given", [UNKNOWN, {"a": UNKNOWN}, {"a": ["b:NoSchedule", UNKNOWN]}], ids=["all", "one", "one of a list"]
)
def test_taints_that_are_not_known_yet_name_the_setting(given: Any) -> None:
    found = UserData()
    read_settings({"settings": {"kubernetes": {"node-taints": given}}}, "mine", found)

    assert found.unknown == ["mine settings.kubernetes.node-taints"]


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"[settings.kubernetes]\nmax-pods = 9\n", ""),
        (b"", ""),
        (b"\xff", "it is no text"),
        (b"[settings", "Expected ']'"),
        (b"a = " + b"[" * 5000, ("it is nested too deeply", "TOML inline arrays")),  # as Python's version has it
        (b"[settings]\n[b]\n[a]\n", "it has a, b beside settings"),
        (b'[settings."a.b"]\nc = 1\n', "a table's header has a quoted key, which EKS does not read"),
        (b"[settings]\n[['settings'.a]]\n", "a table's header has a quoted key"),
        (b'[settings]\n"a.b" = "[settings.\'a\']"\n', ""),
    ],
)
def test_bottlerocket_settings_that_eks_cannot_merge_say_why(raw: bytes, fault: str | tuple[str, ...]) -> None:
    assert toml_error(raw).startswith(fault)
    assert bool(toml_error(raw)) is bool(fault)


@pytest.mark.parametrize(
    ("raw", "mime"),
    [
        (b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\na\n--b--\n', True),
        (b'\n\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\na\n--b--\n', True),
        (b'Content-Type: multipart/mixed; boundary="b"\n\n', False),
        (b"Content-Type: text/plain\n\na\n", False),
        (b"#!/bin/sh\n", False),
        (b"", False),
    ],
)
def test_user_data_in_mime_parts_is_recognised(raw: bytes, mime: bool) -> None:
    assert is_mime(raw) is mime


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (f"kubelet --register-with-taints={GPU_TAINT}\n", True),
        ("[settings.kubernetes.node-taints]\n'nvidia.com/gpu' = 'present:NoSchedule'\n", True),
        ("kubelet: {config: {registerWithTaints: [{key: nvidia.com/gpu, effect: NoSchedule}]}}\n", True),
        (f"# --register-with-taints={GPU_TAINT}\n", False),
        ("kubelet --node-labels=nvidia.com/gpu=present\n", False),
        ("", False),
    ],
)
def test_the_gpu_taint_in_user_data_of_ones_own_is_found(given: str, names: bool) -> None:
    assert registers_gpu_taint(zipped(given)) is names


def test_only_text_is_decoded() -> None:
    assert decode_user_data(base64.b64encode(b"\xff\xfe").decode()) is None
    assert decode_user_data(zipped("a")[:-8]) is None


def test_declaring_pools_imports_no_reader() -> None:
    program = (
        "import sys; import gpupools.providers.aws.constraints, gpupools.providers.aws.resources; "
        "print(*(name for name in sys.modules if name.startswith(('gpupools.providers.aws.', 'gpupools.readback.'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)

    assert "gpupools.providers.aws.bootstrap" in done.stdout
    assert not [name for name in ("user_data", "read_back", "read.kubelet") if name in done.stdout]
