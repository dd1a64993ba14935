"""What another version, image, driver or value of a release does: the table, the diff and the engine agree."""

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from gpupools.software.charts import accepted_values, known_versions
from gpupools.software.release_changes import PodEffect, ReleaseEdit, release_edits
from tests.engine.cli import Engine

pytestmark = pytest.mark.engine

RELEASE = "kubernetes:helm.sh/v3:Release"
STACK = """
config:
  gpupools:production: true
  gpupools:clusters:
    driver: {cloud: azure, name: driver, resource_group: ml, kubeconfig: {path: ~/.kube/a}}
    byhand:
      cloud: azure
      name: byhand
      resource_group: ml
      kubeconfig: {path: ~/.kube/b}
      runtime: {driver_auto_upgrade: false}
    plain: &aws
      cloud: aws
      name: plain
      region: us-east-1
      subnet_ids: [subnet-0a1b2c3d4e5f60718]
      node_role_arn: arn:aws:iam::123456789012:role/gpu-nodes
      kubeconfig: {path: ~/.kube/c}
      runtime: {scheduler: kueue}
    mps: {<<: *aws, name: mps, kubeconfig: {path: ~/.kube/d}, runtime: {scheduler: volcano}}
    plugin: {<<: *aws, name: plugin, kubeconfig: {path: ~/.kube/e}, runtime: {scheduler: kai}}
    whole: {<<: *aws, name: whole, kubeconfig: {path: ~/.kube/f}, runtime: {metrics: false}}
    dra: {<<: *aws, name: dra, kubeconfig: {path: ~/.kube/g}, runtime: {kubernetes: "1.34"}}
    hami: {<<: *aws, name: hami, kubeconfig: {path: ~/.kube/h}, runtime: {metrics: false}}
  gpupools:teams: {x: {namespaces: [x], guarantee: {plain: 1, mps: 1, plugin: 1}}}
  gpupools:pools:
    azure: {clusters: [driver, byhand], gpu: A100-80GB, nodes: {max: 2}, software: gpu-operator}
    plain: {clusters: [plain], gpu: L4, nodes: {max: 2}, software: gpu-operator}
    mps:
      clusters: [mps]
      gpu: L4
      nodes: {max: 2}
      software: gpu-operator
      sharing: {mode: mps, replicas: 4}
      trust: {team: x}
    plugin:
      clusters: [plugin]
      gpu: L4
      nodes: {max: 2}
      software: device-plugin
      sharing: {mode: mps, replicas: 4}
      trust: {team: x}
    whole:
      clusters: [whole]
      instance_type: p5.48xlarge
      nodes: {max: 2}
      software: device-plugin
      network: {rdma: true, security_group_ids: [sg-0a1b2c3d4e5f60718]}
    dra: {clusters: [dra], gpu: L4, nodes: {min: 1, max: 2}, software: dra-driver}
    hami: {clusters: [hami], gpu: L4, nodes: {fixed: 1}, software: hami, trust: {team: x}}
"""
HOLDS = {
    "driver": {"", "driver", "old-driver"},
    "byhand": {"", "driver-by-hand"},
    "mps": {"", "mps"},
    "plugin": {"", "mps"},
}
"""The conditions of the table that hold on a cluster; elsewhere only those that always do."""
EFFECTS = {"none": "none", "daemons": "in-place", "unknown": "unknown", "mps-pods": "rolling", "gpu-pods": "rolling"}
"""The effect of a field, by the effect of its row."""


def row_of(chart: str, path: str, holds: set[str]) -> ReleaseEdit | None:
    """Return the first row that counts."""
    rows = (each for each in release_edits() if each.chart == chart and each.when in holds)
    return next((each for each in rows if each.path in ("", path) or path.startswith(f"{each.path}.")), None)


def paths(chart: str, version: str, holds: set[str]) -> Iterator[tuple[str, ReleaseEdit]]:
    """Yield for each row that counts one value of the chart, or its version."""
    known = sorted(accepted_values(chart, version))
    single = ["version", *(path for path in known if not any(each.startswith(f"{path}.") for each in known))]
    seen = set()
    for path in single:
        row = row_of(chart, path, holds)
        if row is not None and row not in seen:
            seen.add(row)
            yield path, row


def put(values: dict[str, Any], path: str) -> None:
    """Set a value of a release's inputs."""
    *above, last = path.split(".")
    reduce(lambda at, key: at.setdefault(key, {}), above, values)[last] = "other"


def test_every_row_is_what_the_diff_says_and_the_engine_does(engine: Engine, tmp_path: Path) -> None:
    file = engine.repository / "stacks" / "Pulumi.rows.yaml"
    engine.run("stack", "init", "rows").succeeded()
    salt = file.read_text(encoding="utf-8")
    file.write_text(salt + STACK, encoding="utf-8")
    engine.up("rows").succeeded()
    state = json.loads(engine.run("stack", "export", "--stack", "rows").succeeded().output)
    resources = {each["urn"].rpartition("::")[2]: each for each in state["deployment"]["resources"]}
    expected: dict[tuple[str, str], dict[str, ReleaseEdit]] = {}
    for name, release in resources.items():
        if release["type"] != RELEASE:
            continue
        cluster, chart = name.split("-runtime-")
        step = resources[f"{cluster}-runtime"]["outputs"]["record"]["steps"][chart]
        version, older = step["values"]["version"], [*known_versions(chart), "0.0.1"][1]
        for path, row in paths(chart, version, HOLDS.get(cluster, {""})):
            expected.setdefault((cluster, chart), {})[path] = row
            for side in ("inputs", "outputs"):
                if path == "version":
                    release[side]["version"] = older
                else:
                    put(release[side]["values"], path)
            step["values"]["version" if path == "version" else f"values.{path}"] = (
                older if path == "version" else "other"
            )
    (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
    engine.run("stack", "import", "--stack", "rows", "--file", str(tmp_path / "state.json")).succeeded()

    diff = engine.gpupools("diff", "--json", "--state", str(tmp_path / "state.json"), str(file))
    said, _ = json.JSONDecoder().raw_decode(diff.output)
    found = {(each["cluster"], each["step"]): each for each in said["software"] if each["release"]}
    for key, rows in expected.items():
        fields = {each["field"].removeprefix("values."): each["effect"] for each in found[key]["fields"]}
        effects = []
        for path, row in rows.items():
            effect = row.effect
            if path == "version" and len(known_versions(key[1])) == 1:
                effect = max(effect, PodEffect.UNKNOWN, key=list(PodEffect).index)
            assert fields.get(path) == EFFECTS[effect], (key, path, row)
            effects.append(effect)
        worst = max(effects, key=list(PodEffect).index)
        assert found[key]["release"]["effect"] == worst, key
        assert all(row.detail in found[key]["pods"] for row in rows.values() if row.effect is worst), key
    tested = {row for rows in expected.values() for row in rows.values()}
    assert [each for each in release_edits() if each not in tested] == []
    assert found.keys() == expected.keys()
    ends = {key for key, rows in expected.items() if any(EFFECTS[row.effect] == "rolling" for row in rows.values())}
    assert {(each["cluster"], each["step"]) for each in said["software"] if each["refused"]} >= ends

    before = len(engine.journal())
    refused = engine.up("rows").failed().output
    assert all(f"{cluster}: has software of the production pool" in refused for cluster, _ in ends)
    assert len(engine.journal()) == before
    allowed = ", ".join(f"{each['cluster']}/{each['pool']}" for each in said["pools"])
    file.write_text(salt + STACK.replace("config:\n", f"config:\n  gpupools:allow_disruption: [{allowed}]\n"), "utf-8")
    engine.up("rows").succeeded()
    did = [(each["op"], each["name"]) for each in engine.journal()[before:] if each["type"] == RELEASE]
    assert sorted(did) == sorted(("update", chart) for _, chart in expected)
