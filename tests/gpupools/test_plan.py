"""The decision: what a pool becomes, or every reason why it cannot be."""

import json
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpupools.catalog.instance_types import Catalogue
from gpupools.common.errors import Problem, Rejected
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan, gpus_as_json
from gpupools.plan.pool_planner import plan_pool
from gpupools.plan.provider_plan import PoolRequest, ProviderPlan
from gpupools.spec.models import LATE, Mig
from gpupools.stackfile.stack_validation import parse_cluster, parse_pool
from tests.rows import listed

Plan = Callable[..., PoolPlan]

CLUSTER = {"cloud": "fake", "name": "lab-dev", "region": "north"}


TRUST = {"trust": {"team": "vision"}}


def plan_on(cloud: Cloud, **keys: Any) -> PoolPlan:
    given = {"nodes": {"max": 4}, **({} if "instance_type" in keys else {"gpu": "A100-40GB"}), **keys}
    cluster = parse_cluster((), CLUSTER, {"fake": cloud})
    return plan_pool("a", parse_pool(("pools", "a"), given), "lab", cluster, cloud)


@pytest.fixture
def plan(fake_cloud: Cloud) -> Plan:
    """Plan a pool of these keys on the fake cloud."""
    return lambda **keys: plan_on(fake_cloud, **keys)


def reasons(plan: Plan, **keys: Any) -> list[str]:
    with pytest.raises(Rejected) as caught:
        plan(**keys)
    return [str(problem) for problem in caught.value.problems]


# --- the machine ---


@listed(__file__)
def test_a_wish_becomes_a_machine(keys: dict[str, Any], machine: str, plan: Plan) -> None:
    assert plan(**keys).instance.name == machine


@listed(__file__)
def test_a_machine_that_cannot_be_chosen(keys: dict[str, Any], found: list[str], plan: Plan) -> None:
    assert reasons(plan, **keys) == found


def test_a_family_is_its_only_model_on_a_cloud_that_has_one(
    fake_cloud: Cloud, write_catalogue: Callable[[Path], Catalogue], tmp_path: Path
) -> None:
    catalogue = write_catalogue(tmp_path / "few")
    file = tmp_path / "few" / "instance_types.csv"
    rows = [row for row in file.read_text(encoding="utf-8").splitlines() if "A100-80GB" not in row]
    file.write_text("\n".join(rows), encoding="utf-8")

    assert plan_on(fake_cloud._replace(instance_types=catalogue), gpu="A100").instance.name == "a100-40.1"


# --- software and sharing ---


def test_software_is_the_clouds_default_for_the_sharing(plan: Plan) -> None:
    made = plan(sharing={"mode": "mps", "replicas": 2}, **TRUST)

    assert made.software == "cloud-managed"
    assert made.capability.verdict is Verdict.NATIVE
    assert made.owners.driver == "driver of cloud-managed"


def test_software_may_be_chosen(plan: Plan) -> None:
    made = plan(software="gpu-operator")

    assert made.software == "gpu-operator"
    assert made.owners.device_plugin == "plugin of gpu-operator"
    assert made.capability.verdict is Verdict.IN_CLUSTER


@listed(__file__)
def test_sharing_that_cannot_be(keys: dict[str, Any], found: list[str], plan: Plan) -> None:
    assert reasons(plan, **{"trust": {"team": "a"}, **keys}) == found


def test_every_reason_against_a_layout_is_told(plan: Plan) -> None:
    layout = {0: ["1g.5gb", "9g.90gb"], 1: ["3g.20gb", "4g.20gb", "1g.5gb"], 8: ["1g.5gb"], 9: ["1g.6gb"]}

    found = reasons(plan, gpus_per_node=8, sharing={"mode": "mig", "layout": layout})

    assert [text.partition(": ")[0] for text in found] == [
        "pools.a.sharing.layout.8",
        "pools.a.sharing.layout.9",
        "pools.a.sharing.layout.0",
        "pools.a.sharing.layout.1",
        "pools.a.sharing.layout.9",
    ]
    assert found[0].endswith("a100-40.8 has 8 GPUs, so there is no GPU 8; use 0 to 7")
    assert "has no MIG profile '9g.90gb'" in found[2]
    assert found[3].endswith("; the largest part that fits: 4g.20gb, 3g.20gb")


def test_every_reason_against_a_pool_is_told_at_once(plan: Plan) -> None:
    found = reasons(
        plan,
        gpu="A101",
        software="gpu-operator",
        sharing={"mode": "mps", "replicas": 100},
        labels={POOL_LABEL: "b", "fake.example.com/zone": "x", "mine": "y"},
    )

    assert [text.partition(": ")[0] for text in found] == [
        "pools.a.gpu",
        "pools.a.sharing.mode",
        f"pools.a.labels.{POOL_LABEL}",
        "pools.a.labels.fake.example.com/zone",
        "pools.a.trust",
    ]


def test_the_cloud_is_not_asked_about_what_the_gpu_cannot_do(fake_cloud: Cloud) -> None:
    def ask(_: object) -> Any:
        raise AssertionError("the cloud was asked")

    found = reasons(
        lambda **keys: plan_on(fake_cloud._replace(check_pool=ask, decide=ask), **keys),
        sharing={"mode": "mps", "replicas": 49},
        trust={"team": "a"},
    )

    assert len(found) == 1


def test_the_models_that_can_be_cut_are_found_whichever_profile_the_cloud_takes(fake_cloud: Cloud) -> None:
    asked = []

    def check_pool(request: PoolRequest) -> list[Problem]:
        assert isinstance(request.spec.sharing, Mig)
        asked.append(request.instance.name)
        if request.instance.gpu_model == "B200":
            return [Problem(("pools", request.name, "instance_type"), "is not sold with MIG", "take another")]
        if request.spec.sharing.profile == "7g.40gb":
            return []
        return [Problem(("pools", request.name, "sharing", "profile"), "is too small", "take a larger one")]

    cloud = fake_cloud._replace(check_pool=check_pool)
    (reason,) = reasons(partial(plan_on, cloud), instance_type="l4.large", sharing={"mode": "mig", "profile": "1g.5gb"})

    assert "cloud-managed on fake cuts: A100-40GB; or" in reason
    assert asked.count("b200.8") == 1, "another profile changes nothing there"


# --- labels and taints ---


def test_labels_are_the_pools_the_clouds_and_the_users(plan: Plan) -> None:
    made = plan(labels={"team": "vision"})

    assert made.labels == {
        POOL_LABEL: "a",
        "gpupools/software": "cloud-managed",
        "gpupools/gpu-model": "A100-40GB",
        "gpupools/gpu-count": "1",
        "gpupools/gpu-memory-gib": "40",
        "gpupools/sharing": "none",
        "nvidia.com/gpu.deploy.operands": "false",
        "fake.example.com/accelerator": "A100-40GB",
        "team": "vision",
    }


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (POOL_LABEL, f"pools.a.labels.{POOL_LABEL}: {POOL_LABEL} is set to the pool's name; leave it out"),
        (
            "fake.example.com/accelerator",
            (
                "pools.a.labels.fake.example.com/accelerator: 'fake.example.com/accelerator' is the cloud's own; use a "
                "prefix of your own"
            ),
        ),
    ],
)
def test_labels_of_others_cannot_be_set(key: str, found: str, plan: Plan) -> None:
    assert reasons(plan, labels={key: "x"}) == [found]


@pytest.mark.parametrize(
    ("taints", "made"),
    [
        pytest.param([], [], id="none of its own"),
        pytest.param(["team=a:NoSchedule"], ["team=a:NoSchedule"], id="one more"),
        pytest.param(["b:NoExecute", "a:NoSchedule"], ["a:NoSchedule", "b:NoExecute"], id="a node's have no order"),
        pytest.param(["nvidia.com/gpu=present:NoSchedule"], [], id="the GPU taint again"),
        pytest.param(["a:NoSchedule", "nvidia.com/gpu=present:NoSchedule"], ["a:NoSchedule"], id="the GPU taint last"),
        pytest.param(["nvidia.com/gpu=x:NoExecute"], ["nvidia.com/gpu=x:NoExecute"], id="its key with another effect"),
        pytest.param(["a:NoSchedule", "a:NoSchedule"], ["a:NoSchedule"], id="one twice"),
    ],
)
@pytest.mark.parametrize("machine", ["l4.large", "a10.part", "a100-40.8"])
def test_the_gpu_taint_is_always_there_and_first(taints: list[str], made: list[str], machine: str, plan: Plan) -> None:
    planned = plan(instance_type=machine, taints=taints).taints

    assert planned[0] == GPU_TAINT
    assert [str(taint) for taint in planned[1:]] == made


def test_a_label_the_cloud_needs_on_this_pool_cannot_be_changed(fake_cloud: Cloud) -> None:
    open_cloud = fake_cloud._replace(reserved_labels=())

    found = reasons(lambda **keys: plan_on(open_cloud, **keys), labels={"fake.example.com/accelerator": "x", "a": "b"})

    assert found == [
        (
            "pools.a.labels.fake.example.com/accelerator: "
            "fake.example.com/accelerator is set to 'A100-40GB' on this pool; leave it out"
        )
    ]


# --- what comes of it ---


def test_a_plan_says_everything_about_a_pool(plan: Plan) -> None:
    made = plan(nodes={"min": 1, "max": 3}, disk_gib=500, sharing={"mode": "time-slicing", "replicas": 4}, **TRUST)

    assert (made.cluster, made.cloud, made.name) == ("lab", "fake", "a")
    assert (made.min_nodes, made.max_nodes, made.disk_gib) == (1, 3, 500)
    assert made.sharing.kind == "time-slicing"
    assert made.node_resources == {"nvidia.com/gpu": 4}
    assert made.provider_plan == ProviderPlan(labels={"fake.example.com/accelerator": "A100-40GB"}, first_name="a")


def test_the_pod_lands_on_the_pool_and_tolerates_its_taints(plan: Plan) -> None:
    taints = ["team=vision:NoExecute", "quiet:NoSchedule", "soft=x:PreferNoSchedule"]

    assert plan(taints=taints).pod() == {
        "nodeSelector": {"gpupools/pool": "a"},
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Equal", "effect": "NoSchedule", "value": "present"},
            {"key": "quiet", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "team", "operator": "Equal", "effect": "NoExecute", "value": "vision"},
        ],
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
    }


def test_the_pod_asks_for_a_slice_by_its_name(fake_cloud: Cloud) -> None:
    native = {key: cell._replace(verdict=Verdict.NATIVE) for key, cell in fake_cloud.capabilities.items()}

    made = plan_on(
        fake_cloud._replace(capabilities=native), sharing={"mode": "mig", "profile": "2g.10gb", "strategy": "mixed"}
    )

    assert made.pod()["containers"][0]["resources"]["limits"] == {"nvidia.com/mig-2g.10gb": 1}


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({}, id="whole GPUs"),
        pytest.param({"gpu": "A10", "gpus_per_node": "1/4"}, id="a part of a GPU"),
        pytest.param({"sharing": {"mode": "mig", "profile": "1g.5gb"}, "taints": ["a:NoSchedule"]}, id="slices"),
        pytest.param({"sharing": {"mode": "mps", "replicas": 2}, "labels": {"a": "b"}, **TRUST}, id="MPS"),
    ],
)
def test_a_plan_survives_json(keys: dict[str, Any], plan: Plan) -> None:
    written = plan(**keys).as_json()

    assert json.loads(json.dumps(written)) == written
    assert "null" not in json.dumps(written)


def test_a_plan_as_json_says_what_it_is(plan: Plan) -> None:
    written = plan(gpu="A10", gpus_per_node="1/4").as_json()

    assert written["gpus_per_node"] == 0.25
    assert written["instance_type"] == "a10.part"
    assert written["nodes"] == {"min": 0, "max": 4}
    assert written["taints"] == ["nvidia.com/gpu=present:NoSchedule"]
    assert written["sharing"] == {"mode": "none"}
    assert written["verdict"] == "native"
    assert written["owners"]["driver"] == "driver of cloud-managed"


def test_whole_gpus_are_whole_numbers_in_json() -> None:
    assert [repr(gpus_as_json(gpus)) for gpus in (Fraction(8), Fraction(1), Fraction(1, 8))] == ["8", "1", "0.125"]


def test_a_plan_never_depends_on_addresses(fake_cloud: Cloud) -> None:
    spec = parse_pool((), {"gpu": "L4", "nodes": {"max": 1}})
    known = parse_cluster((), CLUSTER, {"fake": fake_cloud})
    late = parse_cluster((), {**CLUSTER, "name": LATE, "subnet_ids": LATE}, {"fake": fake_cloud})

    assert plan_pool("a", spec, "lab", known, fake_cloud) == plan_pool("a", spec, "lab", late, fake_cloud)


def test_the_same_wish_gives_the_same_plan(plan: Plan) -> None:
    assert plan(gpu="L4") == plan(gpu="L4")
