"""Objects of the clouds' autoscalers, taken by the real API server under the definitions that their makers publish.

`GPUPOOLS_CRDS` names a folder with both files; this is validation, and no run on GKE:

- `computeclass_v1.json`: https://github.com/datreeio/CRDs-catalog, cloud.google.com/computeclass_v1.json, which users
  read from their GKE clusters (commit 77e49833 of 2026-08-02 was run);
- `autoscaling.x-k8s.io_capacitybuffers.yaml`: https://github.com/kubernetes/autoscaler, tag cluster-autoscaler-1.36.1,
  cluster-autoscaler/apis/config/crd.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.plan.order import MOST_STEPS
from tests.apiserver.control_plane import ControlPlane
from tests.gpupools.software.test_order import plan

FOLDER = Path(os.environ.get("GPUPOOLS_CRDS", "none"))
BUFFERS = {
    "existing": {
        "cluster_autoscaler": {"name": "kube-system/ca", "expander": "priority", "capacity_buffers": True},
    }
}
COMPUTE_CLASS, CAPACITY_BUFFER = "computeclass_v1.json", "autoscaling.x-k8s.io_capacitybuffers.yaml"
RESERVED = [{"mode": "reservation", "name": f"a100-{number}"} for number in range(MOST_STEPS - 3)]
ORDERS: Mapping[str, list[dict[str, Any]]] = {
    "two steps": [{"mode": "spot"}, {"mode": "on-demand"}],
    "most steps": [*RESERVED, {"mode": "spot"}, {"mode": "flex-start"}, {"mode": "on-demand"}],
}
SPOILT: Mapping[str, tuple[Mapping[str, Any], int, str]] = {
    "a step of nothing": ({"priorities": [{}]}, 422, "priorities"),
    "a pool with a machine": ({"priorities": [{"nodepools": ["a"], "machineType": "a2-ultragpu-8g"}]}, 422, "Nodepool"),
    "an unknown end": ({"whenUnsatisfiable": "Wait"}, 422, "whenUnsatisfiable"),
    "an unknown key": ({"maxNodes": 4}, 500, "maxNodes"),
}

pytestmark = pytest.mark.apiserver


def published(server: ControlPlane, file: str) -> None:
    """Make the API server know a published definition."""
    if not (FOLDER / file).is_file():
        pytest.skip(f"GPUPOOLS_CRDS names no folder with {file}")
    text = (FOLDER / file).read_text(encoding="utf-8")
    definition = _definition(json.loads(text)) if file == COMPUTE_CLASS else yaml.safe_load(text)
    server.apply(definition).succeeded()
    spec = definition["spec"]
    group, names = f"/apis/{spec['group']}/{spec['versions'][-1]['name']}", spec["names"]
    server.wait(names["kind"], lambda: server.knows(f"{group}/{names['plural']}"))


def _definition(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a catalog's schema, whose `additionalProperties: false` the catalog has added."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _as_served(schema)}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "computeclasses.cloud.google.com"},
        "spec": {
            "group": "cloud.google.com",
            "scope": "Cluster",
            "names": {"kind": "ComputeClass", "plural": "computeclasses"},
            "versions": [version],
        },
    }


def _as_served(part: Any) -> Any:
    if isinstance(part, Mapping):
        return {
            key: _as_served(value) for key, value in part.items() if key != "additionalProperties" or value is not False
        }
    return [_as_served(each) for each in part] if isinstance(part, list) else part


@pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in ORDERS.items()])
def test_a_compute_class_is_what_its_definition_takes(server: ControlPlane, steps: list[dict[str, Any]]) -> None:
    published(server, COMPUTE_CLASS)
    (manifest,) = plan("lab", pool={"capacity": steps}).runtimes[0].order_objects

    taken = server.apply(manifest).succeeded()

    assert taken["spec"] == manifest["spec"]
    assert len(taken["spec"]["priorities"]) == len(steps)


@pytest.mark.parametrize(("spoilt", "status", "said"), [pytest.param(*each, id=name) for name, each in SPOILT.items()])
def test_the_definition_refuses_a_spoilt_class(
    server: ControlPlane, spoilt: Mapping[str, Any], status: int, said: str
) -> None:
    published(server, COMPUTE_CLASS)
    (manifest,) = plan("lab").runtimes[0].order_objects

    answer = server.apply({**manifest, "spec": {**manifest["spec"], **spoilt}}, dry_run=True)

    assert (answer.status, said in answer.message) == (status, True), answer


@pytest.mark.parametrize(("cluster", "runtime"), [("train", BUFFERS), ("lab", None)])
def test_a_capacity_buffer_is_what_its_definition_takes(
    server: ControlPlane, cluster: str, runtime: Mapping[str, Any] | None
) -> None:
    published(server, CAPACITY_BUFFER)
    (planned,) = plan(cluster, runtime, {"nodes": {"max": 2, "spare": 1}}).runtimes
    (manifest,) = (each.manifest for each in planned.objects if each.kind == "CapacityBuffer")
    server.add_namespaces(manifest["metadata"]["namespace"])

    taken = server.apply(manifest).succeeded()

    assert {key: taken["spec"][key] for key in manifest["spec"]} == manifest["spec"]
    assert server.apply({**manifest, "spec": {**manifest["spec"], "replicas": -1}}, dry_run=True).status == 422
