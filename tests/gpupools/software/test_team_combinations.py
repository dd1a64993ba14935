"""Which teams may share which kind of pool, by scheduler and cloud."""

from collections.abc import Mapping
from itertools import product

import pytest

from gpupools.common.errors import Rejected
from gpupools.common.json_types import JsonDict
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config

CLOUDS = ("aws", "azure", "gcp")
SCHEDULERS = ("kueue", "kai", "volcano")
MACHINES = {"aws": "p4d.24xlarge", "azure": "Standard_ND96asr_v4", "gcp": "a2-highgpu-8g"}
TRUST: JsonDict = {"trust": {"namespaces": ["a", "b"]}}
KINDS: Mapping[str, JsonDict] = {
    "whole": {},
    "time-slicing": {"sharing": {"mode": "time-slicing", "replicas": 2}, **TRUST},
    "renamed": {"sharing": {"mode": "time-slicing", "replicas": 2, "rename": True}, **TRUST},
    "mps": {"sharing": {"mode": "mps", "replicas": 2}, "software": "gpu-operator", **TRUST},
    "mig-single": {"sharing": {"mode": "mig", "profile": "1g.5gb"}, "software": "gpu-operator"},
    "mig-mixed": {"sharing": {"mode": "mig", "profile": "1g.5gb", "strategy": "mixed"}, "software": "gpu-operator"},
    "claims": {"software": "dra-driver"},
}
TEAMS: Mapping[str, JsonDict] = {
    "one": {"a": {"namespaces": ["a"], "guarantee": {"big": 2}}},
    "two": {
        "a": {"namespaces": ["a"], "guarantee": {"big": 2}, "weight": 3},
        "b": {"namespaces": ["b"], "limit": {"big": 4}},
    },
}
REFUSED = {
    ("kai", "renamed"): "offers nvidia.com/gpu.shared",
    ("volcano", "claims"): "Volcano counts resources",
}
COMBINATIONS = list(product(CLOUDS, SCHEDULERS, KINDS, TEAMS))


def problems(cloud: str, scheduler: str, kind: str, teams: JsonDict) -> list[str]:
    cluster = {**clouds()[cloud].example_cluster, "places": "trust", "kubeconfig": {"path": "~/.kube/train"}}
    cluster |= {"node_locations": ["europe-west4-a"]} if cloud == "gcp" else {}
    own = {**KINDS[kind], **({"software": "cloud-managed"} if (cloud, kind) == ("gcp", "mps") else {})}
    pool = {"clusters": ["train"], "instance_type": MACHINES[cloud], "nodes": {"fixed": 1}, "software": "device-plugin"}
    config = {
        "clusters": {"train": {**cluster, "runtime": {"scheduler": scheduler}}},
        "pools": {"big": {**pool, **own}},
        "teams": teams,
    }
    try:
        plan_config(config, clouds())
    except Rejected as rejected:
        return [str(each) for each in rejected.problems]
    return []


@pytest.mark.parametrize(("cloud", "scheduler", "kind", "teams"), COMBINATIONS)
def test_each_combination_is_accepted_or_refused_for_its_scheduler(
    cloud: str, scheduler: str, kind: str, teams: str
) -> None:
    found = problems(cloud, scheduler, kind, TEAMS[teams])
    reason = REFUSED.get((scheduler, kind))

    assert len(found) == (len(TEAMS[teams]) if reason else 0), found
    assert all(reason is not None and reason in each for each in found)
