"""The pack as the engine drives it: a process of its own, asked over gRPC with inputs in wire form."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pulumi.runtime.proto import analyzer_pb2

from gpupools.policies.rules import ALL_RULES, RESOURCE_RULES
from tests.policies.asking import (
    AKS,
    EKS,
    GKE,
    OUTPUT_VALUE,
    SIGNATURE,
    TAINT,
    UNKNOWN,
    asked,
    resource,
    running,
    secret,
)
from tests.policies.pack_process import Diagnostic, PolicyPackFailed, PolicyPackProcess

STRING = "nvidia.com/gpu=present:NoSchedule"
WANTED = {
    EKS: "{key: nvidia.com/gpu, value: present, effect: NO_SCHEDULE} to taints",
    AKS: '"nvidia.com/gpu=present:NoSchedule" to nodeTaints',
    GKE: "{key: nvidia.com/gpu, value: present, effect: NO_SCHEDULE} to nodeConfig.taints",
}
ABSENT = object()


def inputs(type_: str, taints: object = ABSENT, machine: object = ABSENT) -> dict[str, Any]:
    """Write a pool's inputs; by default a GPU machine without taints."""
    gpu_machine: object
    if type_ == EKS:
        gpu_machine = ["p4d.24xlarge"] if machine is ABSENT else machine
        return {"clusterName": "c", "instanceTypes": gpu_machine} | ({} if taints is ABSENT else {"taints": taints})
    if type_ == AKS:
        gpu_machine = "Standard_ND96asr_v4" if machine is ABSENT else machine
        return {"vmSize": gpu_machine, "mode": "User"} | ({} if taints is ABSENT else {"nodeTaints": taints})
    gpu_machine = "a2-highgpu-8g" if machine is ABSENT else machine
    config = {"machineType": gpu_machine} | ({} if taints is ABSENT else {"taints": taints})
    return {"cluster": "c", "nodeConfig": config}


def good(type_: str) -> object:
    return STRING if type_ == AKS else TAINT


def cpu_machine(type_: str) -> object:
    return {EKS: ["m6i.large"], AKS: "Standard_D4s_v5", GKE: "e2-standard-4"}[type_]


def ask(pack: PolicyPackProcess, type_: str, wire: dict[str, Any], name: str = "train") -> list[Diagnostic]:
    said = asked(pack, resource(type_, name, wire))
    assert all(each.description for each in said)
    # These inputs are as short as can be; what the other rules say about them is in test_rules_over_grpc.py.
    return [each for each in said if each.policy in ("gpu-pool-tainted", "unverified-at-preview")]


def levels(diagnostics: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(diagnostic.policy, diagnostic.level) for diagnostic in diagnostics]


VIOLATION = [("gpu-pool-tainted", "mandatory")]


lenient = running(config={"gpu-pool-tainted": {"unknownAtPreview": "advisory"}})


@pytest.fixture(params=[EKS, AKS, GKE], ids=["aws", "azure", "gcp"])
def type_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_pack_says_what_it_enforces(pack: PolicyPackProcess) -> None:
    info = pack.info()

    assert info.name == "gpupools"
    said = {policy.name: (policy.level, policy.severity, policy.judges) for policy in info.policies}
    assert said["gpu-pool-tainted"] == ("mandatory", "high", "resource")
    assert said["gpu-software-one-owner"] == ("mandatory", "high", "stack")
    assert said["unverified-at-preview"] == ("advisory", "medium", "resource")
    assert said["unverified-in-stack"] == ("advisory", "medium", "stack")
    assert len(said) == len(info.policies) == len(ALL_RULES) + 3
    for rule in ALL_RULES:
        judges = "resource" if rule in RESOURCE_RULES else "stack"
        assert said[rule.name] == (rule.level.value, rule.severity, judges)


def test_a_former_name_of_a_rule_is_refused_with_the_new_one(pack: PolicyPackProcess) -> None:
    """The engine passes on what no policy has, so a limit would be lost without a word."""
    request = analyzer_pb2.ConfigureAnalyzerRequest()
    request.policyConfig["gpu-stack-within-budget"].properties.update({"perHour": 500})

    with pytest.raises(PolicyPackFailed, match="gpu-stack-within-budget is now part of gpu-pool-bounded; move its"):
        pack._call("Configure", request)


def test_a_pool_that_gke_may_taint_is_advice_where_the_configuration_says_so() -> None:
    with PolicyPackProcess(config={"gpu-pool-tainted": {"taintByCloud": "advisory"}}) as running:
        assert levels(ask(running, GKE, inputs(GKE))) == [("unverified-at-preview", "advisory")]
        assert levels(ask(running, EKS, inputs(EKS))) == VIOLATION


def test_an_untainted_gpu_pool_is_rejected_with_the_cure(pack: PolicyPackProcess, type_: str) -> None:
    (said,) = ask(pack, type_, inputs(type_))

    assert (said.policy, said.level, said.severity, said.mandatory) == ("gpu-pool-tainted", "mandatory", "high", True)
    assert said.urn == f"urn:pulumi:preview::gpupools::{type_}::train"
    why, what = said.message.split("\n")
    assert why == said.description == RESOURCE_RULES[0].why
    assert what.startswith("train: has 8 NVIDIA GPUs per node (")
    assert what.endswith(f": none; add {WANTED[type_]} (see docs/reference/policies.md#gpu-pool-tainted)")


@pytest.mark.parametrize("wrap", [secret, lambda value: {SIGNATURE: OUTPUT_VALUE, "value": value, "secret": True}])
def test_secrets_are_looked_through(pack: PolicyPackProcess, type_: str, wrap: Any) -> None:
    machine = inputs(type_)["nodeConfig"]["machineType"] if type_ == GKE else None
    machine = machine or inputs(type_).get("vmSize") or [wrap(name) for name in inputs(type_)["instanceTypes"]]

    tainted = ask(pack, type_, inputs(type_, wrap([wrap(good(type_))]), wrap(machine)))
    untainted = ask(pack, type_, inputs(type_, wrap([]), wrap(machine)))

    assert tainted == []
    assert levels(untainted) == VIOLATION


UNSEEN_TAINTS = [
    pytest.param(UNKNOWN, id="unknown taints"),
    pytest.param([UNKNOWN], id="an unknown taint"),
    pytest.param(secret(UNKNOWN), id="unknown secret taints"),
    pytest.param({SIGNATURE: OUTPUT_VALUE}, id="taints from an output"),
    pytest.param({SIGNATURE: OUTPUT_VALUE, "secret": True}, id="taints from a secret output"),
]


@pytest.mark.parametrize("taints", UNSEEN_TAINTS)
def test_gpus_with_taints_unknown_at_preview_are_a_mandatory_violation(
    pack: PolicyPackProcess, type_: str, taints: object
) -> None:
    (said,) = ask(pack, type_, inputs(type_, taints))

    assert (said.policy, said.level) == ("gpu-pool-tainted", "mandatory")
    assert "whether a taint keeps other pods off cannot be verified" in said.message
    assert "aints" in said.message.split("cannot be verified: ")[1].split(" not known yet")[0]


@pytest.mark.parametrize("taints", UNSEEN_TAINTS)
def test_they_are_an_advisory_of_our_own_where_the_configuration_says_so(
    lenient: PolicyPackProcess, type_: str, taints: object
) -> None:
    (said,) = ask(lenient, type_, inputs(type_, taints))

    assert (said.policy, said.level, said.urn[-5:]) == ("unverified-at-preview", "advisory", "train")
    assert "train: has 8 NVIDIA GPUs per node" in said.message
    assert said.message.endswith("(gpu-pool-tainted)")


def test_what_is_known_is_enforced_whatever_the_configuration_says(lenient: PolicyPackProcess, type_: str) -> None:
    assert levels(ask(lenient, type_, inputs(type_))) == VIOLATION
    assert ask(lenient, type_, inputs(type_, [good(type_)])) == []
    assert ask(lenient, type_, inputs(type_, machine=cpu_machine(type_))) == []


MALFORMED: list[object] = [
    None,
    True,
    0.0,
    -1e300,
    "",
    "NoSchedule",
    "\u0000",
    {},
    [],
    [None],
    [[]],
    [{}],
    [0.5, False, "x"],
    [{"key": None, "effect": None}],
    [{"key": 1.0, "value": 2.0, "effect": 3.0}],
    [{"key": "", "value": "present", "effect": "NO_SCHEDULE"}],
    [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
    [{"key": "nvidia.com/gpu", "value": "present", "effect": "no_schedule"}],
    [{"key": "nvidia.com/gpu", "value": "present", "effect": "PREFER_NO_SCHEDULE"}],
    [{"key": "nvidia.com/gpu", "value": "present", "effect": ["NO_SCHEDULE"]}],
    ["nvidia.com/gpu=present:NO_SCHEDULE"],
    ["nvidia.com/gpu=present:PreferNoSchedule"],
    ["nvidia.com/gpu=present"],
    ["=present:NoSchedule"],
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"},
    secret(None),
    [secret({"key": secret(secret(None))})],
    [["nvidia.com/gpu=present:NoSchedule"]],
]


@pytest.mark.parametrize("taints", MALFORMED, ids=[repr(value)[:60] for value in MALFORMED])
def test_taints_that_keep_nothing_off_are_a_violation_and_never_an_error(
    pack: PolicyPackProcess, type_: str, taints: object
) -> None:
    assert levels(ask(pack, type_, inputs(type_, taints))) == VIOLATION


def test_thousands_of_taints_are_read_and_shortened(pack: PolicyPackProcess, type_: str) -> None:
    soft = "a=b:PreferNoSchedule" if type_ == AKS else {"key": "a", "value": "b", "effect": "PREFER_NO_SCHEDULE"}

    (said,) = ask(pack, type_, inputs(type_, [soft] * 5000))
    passed = ask(pack, type_, inputs(type_, [soft] * 5000 + [good(type_)]))

    assert "and 4997 more" in said.message
    assert len(said.message) < 600
    assert passed == []


def test_each_of_many_pools_judged_at_once_gets_its_own_advisory(lenient: PolicyPackProcess) -> None:
    def judge(number: int) -> list[str]:
        wire = inputs(EKS, UNKNOWN) if number % 2 else inputs(EKS, [TAINT])
        return [said.message.split("\n")[1].split(":")[0] for said in ask(lenient, EKS, wire, f"pool{number}")]

    with ThreadPoolExecutor(4) as threads:
        heard = list(threads.map(judge, range(80)))

    assert heard == [[f"pool{number}"] if number % 2 else [] for number in range(80)]


def test_the_stack_as_a_whole_is_accepted(pack: PolicyPackProcess) -> None:
    whole = resource("gpupools:index:GpuNodePool", "train", {"nodePoolName": {SIGNATURE: OUTPUT_VALUE}})

    assert pack.analyze_stack([whole]) == []
