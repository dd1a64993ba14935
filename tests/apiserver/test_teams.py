"""The queues of teams, taken by an API server with Kueue's own definitions.

`GPUPOOLS_KUEUE_CRDS` names a folder with `config/components/crd/bases` of
https://github.com/kubernetes-sigs/kueue at the pinned version.
"""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.control_plane import ControlPlane
from tests.apiserver.test_stack_objects import established
from tests.gpupools.software.test_teams import POOLS, TEAMS, plan

pytestmark = pytest.mark.apiserver

TOPOLOGY = {
    "instance_type": "a3-megagpu-8g",
    "nodes": {"fixed": 4},
    "zones": ["europe-west4-a"],
    "network": {"placement": "compact"},
}
EVERY_KIND = {
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
    "ResourceFlavor",
    "Topology",
    "AdmissionCheck",
    "ProvisioningRequestConfig",
    "WorkloadPriorityClass",
}


def is_served(server: ControlPlane, definition: Mapping[str, Any]) -> bool:
    return established(server.get(definition).succeeded())


def test_an_api_server_with_kueues_definitions_takes_every_object_of_teams(server: ControlPlane) -> None:
    folder = os.environ.get("GPUPOOLS_KUEUE_CRDS")
    if folder is None:
        pytest.skip("GPUPOOLS_KUEUE_CRDS names no folder with Kueue's definitions")
    for file in sorted(Path(folder).glob("kueue.x-k8s.io_*.yaml")):
        definition = yaml.safe_load(file.read_text(encoding="utf-8"))
        server.apply(definition).succeeded()
        server.wait("the definition", partial(is_served, server, definition))
    server.add_namespaces("research", "serving")
    pools = {**POOLS, "near": TOPOLOGY, "later": {**POOLS["big"], "capacity": {"mode": "queued"}}}
    guarantee = {"big": 16, "near": 8, "later": 8}
    teams = {**TEAMS, "research": {**TEAMS["research"], "guarantee": guarantee}}
    made = plan(teams, pools).runtimes[0].json_team_objects()

    assert {each["kind"] for each in made} == EVERY_KIND
    for each in made:
        server.apply(each).succeeded()
    wrong = next(each for each in made if each["kind"] == "ResourceFlavor")
    assert server.apply({**wrong, "spec": {**wrong["spec"], "nodeTaints": "none"}}, dry_run=True).status >= 400


@pytest.mark.parametrize("scheduler", ["kueue", "volcano", "kai"])
def test_an_api_server_takes_the_jobs_of_the_examples(server: ControlPlane, scheduler: str) -> None:
    """Those of Kubernetes' own kinds; Volcano's Job is checked with its definitions."""
    server.add_namespaces("research", "serving")
    for name, value in (("interactive", 1000), ("training", 100)):
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        server.apply({**priority, "value": value}).succeeded()
    folder = Path(__file__).resolve().parents[2] / "examples" / "teams"
    found = list(yaml.safe_load_all((folder / f"{scheduler}.yaml").read_text(encoding="utf-8")))
    own = [each for each in found if "volcano" not in each["apiVersion"]]

    assert len(own) == (2 if scheduler == "volcano" else 6)
    for each in own:
        server.create(each, dry_run=True).succeeded()
