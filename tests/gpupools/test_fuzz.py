"""Thousands of spoilt configurations: each is planned or rejected, never anything else."""

import copy
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.plan.cloud import Cloud
from gpupools.spec.models import LATE
from gpupools.stackfile.check import check_stack_file, locate
from gpupools.stackfile.stack import plan_config
from tests.spoiling import spoilt_text

CASES = 600

RIGHT: Mapping[str, Any] = {
    "clusters": {
        "lab": {
            "cloud": "fake",
            "name": "lab-dev",
            "region": "north",
            "subnet_ids": ["a", {"output": "b"}],
            "stack": "o/p/s",
        },
        "sky": {"cloud": "fake", "name": {"output": "name"}, "region": "south", "stack": "o/p/s"},
    },
    "pools": {
        "whole": {"clusters": ["lab", "sky"], "gpu": "A100-80GB", "gpus_per_node": 8, "nodes": {"min": 0, "max": 4}},
        "named": {"clusters": ["lab"], "instance_type": "l4.large", "nodes": {"max": 4}, "software": "gpu-operator"},
        "part": {"clusters": ["sky"], "gpu": "A10", "gpus_per_node": "1/4", "nodes": {"max": 1}, "disk_gib": 300},
        "shared": {
            "clusters": ["lab"],
            "gpu": "L4",
            "nodes": {"max": 2},
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "trust": {"namespaces": ["vision", "vision-dev"]},
            "labels": {"example.com/team": "vision"},
            "taints": ["team=vision:NoSchedule"],
        },
        "slices": {
            "clusters": ["lab"],
            "gpu": "A100-40GB",
            "nodes": {"max": 2},
            "sharing": {"mode": "mig", "profile": "1g.5gb"},
        },
    },
}

SHARE = {"mode": "mps", "replicas": 2}
MIXED = {"mode": "mig", "layout": {"0": ["3g.20gb", "1g.5gb"]}, "strategy": "mixed", "share": SHARE}

WORDS = "clusters pools cloud name region stack subnet_ids output gpu gpus_per_node nodes min max sharing mode replicas"
MORE_WORDS = "profile layout strategy share software disk_gib labels taints instance_type a.b [key] <map> time-slicing"
KEYS = (*WORDS.split(), *MORE_WORDS.split(), "0", "7", "-1", "", " ", "\x00", "\n", "é", "x" * 400, 0, 1, -1)

TEXTS = "x 0 1/4 1/0 1e9999 fake lab L4 A100 l4.small none mig mps time-slicing 1g.5gb 7g.40gb single gpu-operator {}"
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 8, 64, 1001, 2**63, 10**400, 0.5, float("inf"), float("nan"), LATE),
    *(*TEXTS.split(), "", "team=a:NoSchedule", "nvidia.com/gpu:NoSchedule", "\x00\x1b", "é" * 50, "x" * 5000),
    *([], [[]], [{}], [None], ["lab"], ["1g.5gb"] * 40, ["3g.20gb", "2g.10gb"]),
    *({}, {"mode": "mig"}, {"mode": []}, {"output": "x"}, {0: ["1g.5gb"], "0": ["1g.5gb"]}, {99: []}, {"max": 1}),
    *(MIXED, {"a": {"b": {"c": {"d": []}}}}),
)


def places(value: Any, above: Any = None, key: Any = None) -> list[tuple[Any, Any]]:
    """List every (container, key) in a tree."""
    found = [] if above is None else [(above, key)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for inner_key, inner in items:
        found += places(inner, value, inner_key)
    return found


def spoil(given: dict[str, Any], chance: random.Random) -> None:
    """Change one to three places: another value, another key, a key less, a key more, two places swapped."""
    for _ in range(chance.randint(1, 3)):
        where = places(given)
        if not where:
            return
        above, key = chance.choice(where)
        action = chance.choice(("value", "value", "value", "key", "drop", "add", "swap", "wrap"))
        if action == "value":
            above[key] = copy.deepcopy(chance.choice(VALUES))
        elif action == "key" and isinstance(above, dict):
            above[chance.choice(KEYS)] = above.pop(key)
        elif action == "drop":
            del above[key]
        elif action == "add" and isinstance(above[key], dict):
            above[key][chance.choice(KEYS)] = copy.deepcopy(chance.choice(VALUES))
        elif action == "swap":
            other, other_key = chance.choice(where)
            above[key], other[other_key] = copy.deepcopy(other[other_key]), copy.deepcopy(above[key])
        elif action == "wrap":
            above[key] = [above[key]]


def test_the_configuration_to_spoil_is_right(fake_clouds: Mapping[str, Cloud]) -> None:
    plan = plan_config(RIGHT, fake_clouds)

    assert len(plan.pools) == 6


@pytest.mark.parametrize("cases", [150, pytest.param(CASES, marks=pytest.mark.slow)])
def test_a_spoilt_configuration_is_planned_or_rejected(cases: int, fake_clouds: Mapping[str, Cloud]) -> None:
    chance = random.Random(20261121)
    check_pool: list[Rejected] = []

    for _ in range(cases):
        pools = chance.sample(sorted(RIGHT["pools"]), chance.choice((1, 1, 2)))
        given = {
            "clusters": copy.deepcopy(RIGHT["clusters"]),
            "pools": {name: copy.deepcopy(RIGHT["pools"][name]) for name in pools},
        }
        spoil(given, chance)
        try:
            json.dumps([pool.as_json() for pool in plan_config(given, fake_clouds).pools])
        except Rejected as refusal:
            check_pool.append(refusal)

    assert cases * 0.5 < len(check_pool) < cases  # most changes spoil something, some do not
    assert all(refusal.problems for refusal in check_pool)
    problems = [problem for refusal in check_pool for problem in refusal.problems]
    assert all(problem.what and problem.key.isprintable() for problem in problems)
    assert max(len(str(problem)) for problem in problems) < 1500


def test_a_spoilt_file_is_planned_or_rejected(tmp_path: Path, fake_clouds: Mapping[str, Cloud]) -> None:
    chance = random.Random(3)
    sections = {f"gpupools:{key}": value for key, value in RIGHT.items()}
    right = json.dumps({"config": sections}, indent=1)  # JSON is YAML too
    file = tmp_path / "Pulumi.fuzz.yaml"
    rejected = 0

    for _ in range(200):
        text = spoilt_text(right, chance)
        file.write_text(text, encoding="utf-8", newline="")
        found = []
        try:
            check_stack_file(file, fake_clouds)
        except Rejected as refusal:
            rejected += 1
            found = locate(file, refusal)
        for located in found:
            assert located.line is None or 1 <= located.line <= len(text.splitlines()) + 1
            assert str(located).isprintable()

    assert 100 < rejected < 200


@pytest.mark.parametrize("size", [1, 10, 100, 1000])
def test_any_bytes_are_planned_or_rejected(size: int, tmp_path: Path, fake_clouds: Mapping[str, Cloud]) -> None:
    chance = random.Random(size)
    file = tmp_path / "Pulumi.bytes.yaml"

    for _ in range(50):
        file.write_bytes(chance.randbytes(size))
        with pytest.raises(Rejected):
            check_stack_file(file, fake_clouds)
