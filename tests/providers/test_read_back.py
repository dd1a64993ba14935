"""The reading contract of every cloud folder: every kind of resource, whatever its inputs, and what our own declare."""

import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from gpupools.common.taints import repels_cpu_pods
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.providers import clouds
from gpupools.readback.inputs import at, with_taint
from gpupools.readback.kubernetes_pools import each_kubernetes_pool
from gpupools.spec.models import SHARING_KINDS
from tests.rows import each_row
from tests.security.fuzzing import READERS, at_random, cases

TOKENS = sorted({case["type"] for case in cases()})


def read(token: str, properties: Any) -> list[PoolFacts]:
    found = (cloud.readback().read_pools(token, properties) for cloud in clouds().values())
    return [*chain.from_iterable(found), *each_kubernetes_pool(token, properties, clouds())]


def check(token: str, properties: Any) -> None:
    """Hold what is read of a resource against what every reader promises."""
    for pool in read(token, properties):
        assert isinstance(pool, PoolFacts)
        assert pool.cloud in (*clouds(), "kubernetes")
        assert pool.gpus_per_node is None or pool.gpus_per_node >= 0
        assert pool.accelerator in ("", "nvidia", "amd", "other")
        assert all(isinstance(name, str) for name in (*pool.instance_types, *pool.unknown, pool.where, pool.pool))
        assert pool.sharing is None or pool.sharing.kind in SHARING_KINDS
        # Something must be shown or be unknown before a pool counts as one that may have GPUs.
        assert pool.gpus_per_node == 0 or pool.evidence or pool.unknown
        assert all(one.source.startswith("https://") for one in pool.weaknesses)
        mended = with_taint(properties, pool)
        if mended is not None:
            again = [one for one in read(token, mended) if one.where == pool.where and one.pool == pool.pool]
            assert any(repels_cpu_pods(one.taints) for one in again)


def test_no_spoilt_resource_makes_a_reader_fail_or_break_its_promise() -> None:
    chance, reader = random.Random(20261121), READERS["resources"]
    for case in cases():
        check(case["type"], case["inputs"])
        for _ in range(8):
            check(case["type"], at_random(case["inputs"], reader, chance))


@each_row("token", TOKENS)
@each_row("properties", [None, [], "text", 7, UNKNOWN, {}], ids=repr)
def test_no_properties_hold_no_gpu(token: str, properties: Any) -> None:
    assert all(not pool.evidence for pool in read(token, properties))


@pytest.mark.parametrize(
    "token", [None, 7, "", "aws:eks/nodeGroup:NodeGroup ", "kubernetes:v1:Pod", "pulumi:pulumi:Stack"]
)
def test_other_resources_hold_no_pool(token: Any) -> None:
    gpu = {
        "instanceTypes": ["g6.xlarge"],
        "vmSize": "Standard_NC4as_T4_v3",
        "nodeConfig": {"machineType": "g2-standard-4"},
    }
    pod = {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}

    assert [cloud.readback().read_pools(token, gpu) for cloud in clouds().values()] == [()] * len(clouds())
    assert tuple(each_kubernetes_pool(token, pod, clouds())) == ()


def named() -> Iterator[tuple[str, str]]:
    for name, cloud in clouds().items():
        yield from ((name, machine) for machine in cloud.instance_types if "+" not in machine)


def test_every_machine_of_the_catalogues_is_known_by_its_name_to_its_own_cloud_only() -> None:
    for owner, machine in named():
        knows = [name for name, cloud in clouds().items() if cloud.readback().accelerator(machine).vendor]

        assert knows == [owner], machine
        assert clouds()[owner].readback().accelerator(machine).count == clouds()[owner].instance_types[machine].gpus


@pytest.mark.parametrize(
    ("owner", "machine", "vendor"),
    [
        ("aws", "g4ad.xlarge", "amd"),
        ("aws", "inf2.xlarge", "other"),
        ("aws", "f2.6xlarge", "other"),
        ("aws", "p9.48xlarge", "nvidia"),
        ("aws", "m7i.large", ""),
        ("azure", "standard_nd96isr_mi300x_v5", "amd"),
        ("azure", "Standard_NP10s", "other"),
        ("azure", "Standard_ND192isr_VR300_v7", "nvidia"),
        ("azure", "Standard_D4s_v5", ""),
        ("gcp", "ct6e-standard-4t", "other"),
        ("gcp", "a9-highgpu-8g", "nvidia"),
        ("gcp", "n1-standard-8", ""),
        ("gcp", "g1-small", ""),
    ],
)
def test_the_vendor_of_an_accelerator_is_known_by_the_machines_name(owner: str, machine: str, vendor: str) -> None:
    assert clouds()[owner].readback().accelerator(machine).vendor == vendor


def test_looking_up_a_path_stops_at_what_is_not_known_or_not_there() -> None:
    value = {"a": {"b": 1}, "late": UNKNOWN}

    assert [at(value, path) for path in ("a.b", "a.c", "a.b.c", "late.b")] == [1, None, None, UNKNOWN]
