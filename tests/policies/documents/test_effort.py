"""How much of one file is looked through: what takes long counts, whatever the file is full of."""

import base64
import bz2
import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gpupools.policies.documents import judging
from gpupools.policies.documents.judging import Config, Judged, judge_file

MOST = 200_000
BYTES = b"\xff" * 240_000


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", BYTES)
    return packed.getvalue()


def tarred() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        of_one = tarfile.TarInfo("a")
        of_one.size = len(BYTES)
        archive.addfile(of_one, io.BytesIO(BYTES))
    return packed.getvalue()


def secret(packed: bytes) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "data": {"a": base64.b64encode(packed).decode()}}


def config_map(text: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": text}}


SCRIPTS = [config_map("kubectl get nodes\n" * 200)] * 12
BOMBS = [
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "data": {str(each): base64.b64encode(gzip.compress(b" " * 100_000)).decode() for each in range(9)},
    }
] * 12
TYPE = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "spec": {"template": {"spec": {"requirements": [TYPE], "taints": [TAINT]}}},
}
GROUPS = {
    "apiVersion": "eksctl.io/v1alpha5",
    "kind": "ClusterConfig",
    "managedNodeGroups": [{"instanceType": "g5.xlarge"}] * 30,
}
THING = {"apiVersion": "a.example/v1", "kind": "NodePool", "spec": {"size": "g5.xlarge"}}


@pytest.mark.parametrize(
    ("objects", "looked_at", "gpus"),
    [(SCRIPTS, 1, 0), (BOMBS, 1, 0), ([GROUPS] * 2, 1, 21), ([POOL] * 12, 9, 9), ([THING] * 12, 9, 0)],
    ids=["texts", "what is packed", "pools in one object", "pools", "what may bring nodes"],
)
def test_what_is_looked_through_in_one_file_is_bounded_and_the_rest_is_refused(
    objects: list[dict[str, Any]], looked_at: int, gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "MOST_EFFORT", 7_500)
    monkeypatch.setattr(judging, "MOST_POOLS", 20)
    verdict = judged(tmp_path, *objects)

    assert verdict.refuses
    assert verdict.gaps == ("too-many-resources",)
    assert (verdict.resources, verdict.gpu_pools) == (looked_at, gpus)
    assert said(verdict).startswith(
        f"and {len(objects) - looked_at} more resources, which were not judged: those before"
    )


COSTLY: dict[str, dict[str, Any]] = {
    "many values": {"apiVersion": "things.example/v1", "kind": "Thing", "spec": {"list": ["a b"] * 2_000}},
    "many values after a machine": {
        "apiVersion": "things.example/v1",
        "kind": "Thing",
        "spec": {"list": ["p5.48xlarge", *["a b"] * 2_000]},
    },
    "the word taints": config_map(" taints" * 100),
    "values of a chart": {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "spec": {"source": {"helm": {"values": "# nothing\n" * 500 + "a: b\n"}}},
    },
    "bzip2": secret(bz2.compress(BYTES)),
    "a zip archive": secret(zipped()),
    "a tar archive": secret(gzip.compress(tarred())),
}


def judged(tmp_path: Path, *objects: dict[str, Any]) -> Judged:
    listed = [{**each, "metadata": {"name": f"a{place}"}} for place, each in enumerate(objects)]
    file = tmp_path / "list.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}), encoding="utf-8")
    return judge_file(file, Config())


def said(verdict: Judged) -> str:
    (found,) = (each.message for each in verdict.found if "not judged" in each.message)
    return found


@pytest.mark.parametrize("name", COSTLY)
def test_what_takes_long_is_counted(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_EFFORT", MOST)
    verdict = judged(tmp_path, *[COSTLY[name]] * 12)

    assert verdict.refuses
    assert verdict.gaps == ("too-many-resources",)
    assert 0 < verdict.resources < 12
    assert said(verdict).startswith(f"and {12 - verdict.resources} more resources, which were not judged: those before")


def test_what_takes_little_is_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_EFFORT", MOST)
    verdict = judged(tmp_path, *[config_map("set -e\n")] * 12)

    assert (verdict.gaps, verdict.resources) == ((), 12)


@pytest.mark.parametrize("last", [config_map("set -e\n" * 40_000), GROUPS], ids=["a text", "pools in one object"])
def test_the_end_of_the_last_resource_is_said_to_be_left(
    last: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "MOST_EFFORT", MOST)
    monkeypatch.setattr(judging, "MOST_POOLS", 20)
    verdict = judged(tmp_path, last)

    assert verdict.refuses
    assert said(verdict).startswith(
        "and the end of the last resource, which was not judged: all together hold more than"
    )


def test_what_is_packed_at_the_end_is_not_said_to_be_larger_than_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "MOST_EFFORT", MOST)
    verdict = judged(tmp_path, secret(gzip.compress(b"\xff" * 4_000_000)))

    assert any("data.a unpacks to more than is looked through in one file" in each.message for each in verdict.found)
