"""The readers and rules against an independent oracle, on generated pools; a disagreement prints the smallest input.

`GPUPOOLS_FUZZ_SEED` and `GPUPOOLS_FUZZ_POOLS` choose other pools and more of them; the default run takes a part.
"""

import base64
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

import pytest
from google.protobuf import struct_pb2

from gpupools.policies.finding import Context
from gpupools.policies.pack import read_pools
from gpupools.policies.rules import RULES
from gpupools.policies.wire import plain
from gpupools.preview.pack_process import PolicyPackProcess
from tests.policies.oracle import (
    ADVISORY,
    PASS,
    SIGNATURE,
    UNKNOWN,
    UNVERIFIED,
    VIOLATION,
    judge,
)

SECRET = "1b47061264138c4ac30d75fd1eb44270"
SEED = os.environ.get("GPUPOOLS_FUZZ_SEED", "7")
POOLS = int(os.environ.get("GPUPOOLS_FUZZ_POOLS", "10000"))
OVER_GRPC = 200

TAINTED = "gpu-pool-tainted"
ADVICE = ("gpu-taint-tolerated-by-daemons", "other-accelerator-tainted")
_RULES = {rule.name: rule for rule in RULES if rule.name in (TAINTED, *ADVICE)}


def words(text: str) -> list[str]:
    return text.split()


AWS = words(
    "g3.8xlarge g4dn.xlarge g4ad.xlarge g5.48xlarge g5g.metal g6f.large gr6.4xlarge g9e.xlarge p2.xlarge p4d.24xlarge "
    "p5.48xlarge p6-b200.48xlarge p6e-gb200.36xlarge p8.48xlarge inf1.xlarge inf2.xlarge trn1.32xlarge trn2.48xlarge "
    "trn3.48xlarge dl1.24xlarge dl2q.24xlarge vt1.3xlarge f1.2xlarge f2.6xlarge m6i.large c7g.xlarge t3.medium "
    "r8g.large x2gd.medium im4gn.large hpc7g.4xlarge i4g.large u-6tb1.metal mac2.metal"
)
IMAGES = words(
    "AL2_x86_64 AL2_x86_64_GPU AL2023_x86_64_STANDARD AL2023_x86_64_NVIDIA AL2023_ARM_64_NVIDIA AL2023_x86_64_NEURON "
    "BOTTLEROCKET_x86_64 BOTTLEROCKET_x86_64_NVIDIA BOTTLEROCKET_x86_64_NVIDIA_FIPS WINDOWS_CORE_2022_x86_64 CUSTOM"
)
AZURE = words(
    "Standard_NC6 Standard_NV12s_v3 Standard_NC4as_T4_v3 Standard_NV6ads_A10_v5 Standard_NC24ads_A100_v4 "
    "Standard_ND96isr_H100_v5 Standard_NCC40ads_H100_v5 Standard_ND128isr_GB300_v6 Standard_NC48ads_B300_v9 "
    "Standard_ND96isr_MI300X_v5 Standard_NV28adms_V710_v5 Standard_NG32ads_V620_v1 Standard_NV32as_v4 Standard_NP10s "
    "Standard_ND40s_v3 Standard_NM16ads_MA35D Standard_D4s_v5 Standard_E8ads_v6 Standard_F8s_v2 Standard_HB120rs_v3 "
    "Standard_L8s_v3 Standard_B2ms Standard_M128ms Standard_DC4as_v5"
)
GCP = words(
    "a2-highgpu-1g a2-ultragpu-8g-nolssd a3-megagpu-8g a4x-maxgpu-4g-metal g2-standard-4 g4-standard-6 a5-highgpu-8g "
    "g6-standard-24 ct3-hightpu-4t ct5lp-hightpu-4t ct6e-standard-8t tpu7x-standard-4t n1-standard-8 custom-8-32768 "
    "n2-standard-4 e2-medium c4a-standard-4 g1-small f1-micro m3-ultramem-32 t2a-standard-1"
)
KINDS = ("nvidia-tesla-t4", "nvidia-tesla-p100", "nvidia-l4", "nvidia-x9000", "projects/p/z/nvidia-tesla-k80", "disk")
COUNTS = (0.0, 1.0, 2.0, 8.0, "0", "1", "", -1.0, 0.5, None, UNKNOWN)
KEYS = (
    "nvidia.com/gpu",
    "sku",
    "amd.com/gpu",
    "node.cilium.io/agent-not-ready",
    "",
    "-",
    "a/b/c",
    "a b",
    "UP/x",
    "x" * 64,
)
VALUES = ("present", "gpu", "", "a b", "y" * 64, "t_1.x")
SHOUTED = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")
KUBERNETES = ("NoSchedule", "NoExecute", "PreferNoSchedule")
DASHED = ("no-schedule", "no-execute", "prefer-no-schedule")
MISSPELT = ("noschedule", "NO-SCHEDULE", "NoSchedul", "", "EFFECT_UNSPECIFIED")
ODD: tuple[Any, ...] = (None, True, 1.0, "", "x", [], [None], {}, {"": None}, [[]])


def sometimes(random: Random, share: float) -> bool:
    return random.random() < share


def effect(random: Random, own: tuple[str, ...]) -> str:
    others = KUBERNETES if own is SHOUTED else SHOUTED
    return random.choice(random.choices((own, others, MISSPELT), (8, 1, 1))[0])


def objects(random: Random, own: tuple[str, ...]) -> Any:
    found: list[Any] = []
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        key = random.choice(KEYS[:5])
        taint: dict[str, Any] = {"key": key, "value": random.choice(VALUES), "effect": effect(random, own)}
        if sometimes(random, 0.1):
            taint[random.choice(list(taint))] = UNKNOWN
        if sometimes(random, 0.1):
            del taint[random.choice(list(taint))]
        found.append(random.choice((UNKNOWN, *ODD)) if sometimes(random, 0.05) else taint)
    return in_doubt(random, found)


def line(random: Random) -> str:
    value = random.choice(("", f"={random.choice(VALUES)}"))
    return f"{random.choice((*KEYS[:4], *KEYS[:4], *KEYS))}{value}:{effect(random, KUBERNETES)}"


def texts(random: Random) -> Any:
    found: list[Any] = [line(random) for _ in range(random.choice((0, 1, 1, 2)))]
    if sometimes(random, 0.1):
        found.append(random.choice((UNKNOWN, *ODD)))
    return in_doubt(random, found)


def in_doubt(random: Random, value: Any) -> Any:
    """Return a value, or seldom one that is unknown, malformed or absent instead."""
    return random.choices((value, UNKNOWN, random.choice(ODD)), (12, 1, 1))[0]


def names(random: Random, known: list[str]) -> list[str]:
    return [UNKNOWN if sometimes(random, 0.08) else random.choice(known) for _ in range(random.choice((1, 1, 1, 2, 3)))]


def eks(random: Random) -> tuple[str, dict[str, Any]]:
    given: dict[str, Any] = {"clusterName": "lab", "taints": objects(random, SHOUTED)}
    if sometimes(random, 0.85):
        given["instanceTypes"] = random.choices((names(random, AWS), UNKNOWN, [], random.choice(AWS)), (12, 1, 1, 1))[0]
    if sometimes(random, 0.4):
        given["amiType"] = UNKNOWN if sometimes(random, 0.1) else random.choice(IMAGES)
    if sometimes(random, 0.2):
        given["launchTemplate"] = random.choice(({"id": UNKNOWN}, {"id": "lt-1"}, UNKNOWN, {}, None))
    return random.choice(("aws:eks/nodeGroup:NodeGroup", "aws-native:eks:Nodegroup")), given


def launch_template(random: Random) -> tuple[str, dict[str, Any]]:
    taints = ",".join(line(random) for _ in range(random.choice((1, 1, 2)))) if sometimes(random, 0.97) else "$TAINTS"
    flag = f" --kubelet-extra-args '--register-with-taints={taints.replace(' ', '_')}'"
    join = f"/etc/eks/bootstrap.sh lab{random.choice(('', flag, flag, flag))}"
    script = f"#!/bin/bash\n{random.choice((join, join, join, f'# {join}', 'echo hello'))}\n"
    encoded = base64.b64encode(script.encode()).decode()
    given: dict[str, Any] = {"instanceType": names(random, AWS)[0]}
    given["userData"] = random.choices((script, encoded, UNKNOWN, None), (4, 8, 1, 1))[0]
    if sometimes(random, 0.9):
        given["iamInstanceProfile"] = {"name": "node"}
    return "aws:ec2/launchTemplate:LaunchTemplate", given


def karpenter(random: Random) -> tuple[str, dict[str, Any]]:
    wanted: dict[str, Any] = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": names(random, AWS)}
    if sometimes(random, 0.3):
        category = random.choice((["g"], ["p", "m"], ["c", "m"], ["trn"], ["gr"], [UNKNOWN], ["inf", "r"]))
        wanted = {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": category}
    spec: dict[str, Any] = {"requirements": [wanted], "taints": objects(random, KUBERNETES)}
    if sometimes(random, 0.2):
        spec["startupTaints"] = [{"key": "a", "effect": "NoSchedule"}]
    return "kubernetes:karpenter.sh/v1:NodePool", {"spec": {"template": {"spec": spec}}}


def agent_pool(random: Random, profile: str = "gpuInstanceProfile") -> dict[str, Any]:
    size: Any = names(random, AZURE)[0]
    if size != UNKNOWN and sometimes(random, 0.2):
        size = random.choice((size.lower(), size.upper()))
    given = {"name": "p", "vmSize": random.choice(ODD) if sometimes(random, 0.03) else size}
    given["nodeTaints"] = texts(random)
    if sometimes(random, 0.15):
        given["nodeInitializationTaints"] = ["nvidia.com/gpu=present:NoSchedule"]
    if sometimes(random, 0.1):
        given[profile] = random.choice(("MIG1g", UNKNOWN, "", None))
    return given


AGENT_POOL = "azure-native:containerservice:AgentPool"
CLASSIC = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"


GENERIC = ("azure-native:resources:Resource", "azure-native:resources/v20250401:Resource")


def arm(random: Random) -> tuple[str, dict[str, Any]]:
    namespace = random.choice(("Microsoft.ContainerService", "microsoft.containerservice", "Microsoft.Batch", UNKNOWN))
    kind = random.choice(("agentPools", "agentpools", "managedClusters/x/agentPools", "managedClusters", UNKNOWN))
    pools = [agent_pool(random) for _ in range(random.choice((0, 1, 2)))]
    inside: Any = {"agentPoolProfiles": several(random, pools)} if kind == "managedClusters" else agent_pool(random)
    inputs = {"resourceProviderNamespace": namespace, "resourceType": kind, "parentResourcePath": "managedClusters/x"}
    return random.choice(GENERIC), {**inputs, "properties": UNKNOWN if sometimes(random, 0.05) else inside}


def aks(random: Random) -> tuple[str, dict[str, Any]]:
    if sometimes(random, 0.15):
        return arm(random)
    if sometimes(random, 0.25):
        return CLASSIC, agent_pool(random, "gpuInstance")
    if sometimes(random, 0.35):
        pools = [agent_pool(random) for _ in range(random.choice((0, 1, 2, 3)))]
        return "azure-native:containerservice:ManagedCluster", {"agentPoolProfiles": several(random, pools)}
    return random.choice((AGENT_POOL, "azure-native:containerservice/v20250501:AgentPool")), agent_pool(random)


def several(random: Random, pools: list[Any]) -> Any:
    if sometimes(random, 0.05):
        pools.append(random.choice((UNKNOWN, *ODD)))
    return in_doubt(random, pools) if sometimes(random, 0.3) else pools


def node_config(random: Random, native: bool = False) -> Any:
    config: dict[str, Any] = {"taints": objects(random, SHOUTED)}
    if sometimes(random, 0.9):
        config["machineType"] = random.choice(ODD) if sometimes(random, 0.03) else names(random, GCP)[0]
    if sometimes(random, 0.4):
        kind, count = ("acceleratorType", "acceleratorCount") if native else ("type", "count")
        blocks: list[Any] = []
        for _ in range(random.choice((0, 1, 1, 2))):
            block = {kind: random.choice((*KINDS, UNKNOWN)), count: random.choice(COUNTS)}
            if sometimes(random, 0.1):
                block["gpuPartitionSize"] = random.choice(("1g.5gb", ""))
            blocks.append(random.choice((UNKNOWN, *ODD)) if sometimes(random, 0.04) else block)
        config["accelerators" if native else "guestAccelerators"] = in_doubt(random, blocks)
    return in_doubt(random, config) if sometimes(random, 0.1) else config


def gke(random: Random) -> tuple[str, dict[str, Any]]:
    if sometimes(random, 0.15):
        return "google-native:container/v1:NodePool", {"config": node_config(random, native=True)}
    if sometimes(random, 0.3):
        pools = [{"name": "p", "nodeConfig": node_config(random)} for _ in range(random.choice((0, 1, 2, 3)))]
        given: dict[str, Any] = {"nodePools": several(random, list[Any](pools))}
        if sometimes(random, 0.3):
            given["nodeConfig"] = node_config(random)
        return "gcp:container/cluster:Cluster", given
    return "gcp:container/nodePool:NodePool", {"cluster": "lab", "nodeConfig": node_config(random)}


CLUSTER_API = "infrastructure.cluster.x-k8s.io/v1beta2"


def cluster_api(random: Random) -> tuple[str, dict[str, Any]]:
    kind, field, taints, known, own = random.choice(
        (
            ("AWSManagedMachinePool", "instanceType", "taints", AWS, DASHED),
            ("ROSAMachinePool", "instanceType", "taints", AWS, KUBERNETES),
            ("AzureManagedMachinePool", "sku", "taints", AZURE, KUBERNETES),
            ("GCPManagedMachinePool", "machineType", "kubernetesTaints", GCP, KUBERNETES),
        )
    )
    spec = {field: random.choice(ODD) if sometimes(random, 0.03) else names(random, known)[0]}
    spec[taints] = objects(random, own)
    if sometimes(random, 0.2):  # no taints, whatever they say
        spec["labels"] = {"nvidia.com/gpu": "present:NoSchedule"}
    if sometimes(random, 0.2):
        inside = {
            "providerSpec": {"value": {"instanceType": names(random, AWS)[0]}},
            "taints": objects(random, KUBERNETES),
        }
        return "kubernetes:machine.openshift.io/v1beta1:MachineSet", {"spec": {"template": {"spec": inside}}}
    return f"kubernetes:{CLUSTER_API}:{kind}", {"spec": spec}


def singular(value: Any) -> Any:
    """Write a pool in Terraform's names."""
    if isinstance(value, list):
        return [singular(item) for item in value]
    if not isinstance(value, dict):
        return value
    short = {"taints": "taint", "guestAccelerators": "guestAccelerator"}
    return {short.get(key, key): singular(item) for key, item in value.items()}


def held(random: Random) -> tuple[str, dict[str, Any]]:
    """Generate an object that holds a cloud's own form of a pool."""
    group_kind = random.choice(
        (
            ("eks.services.k8s.aws/v1alpha1", "Nodegroup"),
            ("containerservice.azure.com/v1api20231001", "ManagedClustersAgentPool"),
            ("container.cnrm.cloud.google.com/v1beta1", "ContainerNodePool"),
            ("eks.aws.upbound.io/v1beta1", "NodeGroup"),
            ("eks.aws.m.upbound.io/v1beta1", "NodeGroup"),
            ("containerservice.azure.upbound.io/v1beta2", "KubernetesClusterNodePool"),
            ("container.gcp.upbound.io/v1beta1", "NodePool"),
            ("container.gcp.m.upbound.io/v1beta1", "NodePool"),
        )
    )
    group, kind = group_kind
    if "eks" in group:
        spec = eks(random)[1]
    elif "azure" in group:
        spec = agent_pool(random, "gpuInstance" if "upbound" in group else "gpuInstanceProfile")
    else:
        spec = {"nodeConfig": node_config(random)}
    if "cnrm" in group or "upbound" in group:
        spec = singular(spec)
    if "upbound" in group:
        if sometimes(random, 0.5) and "nodeConfig" in spec:
            spec["nodeConfig"] = [spec["nodeConfig"]]
        early = {key: spec.pop(key) for key in list(spec) if sometimes(random, 0.1)}
        spec = {"forProvider": UNKNOWN if sometimes(random, 0.03) else spec, "initProvider": early}
    return f"kubernetes:{group}:{kind}", {"spec": UNKNOWN if sometimes(random, 0.02) else spec}


KIND: tuple[Callable[[Random], tuple[str, dict[str, Any]]], ...] = (
    *(eks, eks, launch_template, karpenter, aks, aks, gke, cluster_api, held, held),
)


def with_secrets(random: Random, value: Any, share: float) -> Any:
    """Put values at any depth into secret envelopes."""
    if isinstance(value, dict):
        value = {key: with_secrets(random, item, share) for key, item in value.items()}
    elif isinstance(value, list):
        value = [with_secrets(random, item, share) for item in value]
    return {SIGNATURE: SECRET, "value": value} if sometimes(random, share) else value


def generated(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield resources with a pool or more, the same for the same seed."""
    random = Random(SEED)
    for number in range(count):
        type_, given = KIND[number % len(KIND)](random)
        share = random.choice((0.0, 0.0, 0.0, 0.2))
        yield type_, {key: with_secrets(random, item, share) for key, item in given.items()}


def judged(type_: str, wire: Mapping[str, Any]) -> list[str]:
    """Return what readers and rules say of each pool, in the oracle's words."""
    found = []
    for pool in read_pools(type_, plain(wire)):
        said = {name: [*(rule.pool or _nothing)(pool, Context())] for name, rule in _RULES.items()}
        faults = said[TAINTED]
        assert len(faults) < 2
        if faults:
            found.append(UNVERIFIED if faults[0].unverified else VIOLATION)
        elif any(said[name] for name in ADVICE):
            found.append(ADVISORY)
    return sorted(found)


def _nothing(pool: Any, context: Context) -> list[Any]:
    return []


def smallest(type_: str, wire: dict[str, Any], differs: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Leave out what the disagreement does not need, until nothing more can go."""
    shrunk = True
    while shrunk:
        shrunk = False
        for candidate in _without_one(wire):
            try:
                still = differs(candidate)
            except (KeyError, TypeError):  # the oracle knows only whole objects of some kinds
                continue
            if still:
                wire, shrunk = candidate, True
                break
    return wire


def _without_one(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            if SIGNATURE in value:
                yield value["value"]
                break
            yield {other: one for other, one in value.items() if other != key}
            yield from ({**value, key: less} for less in _without_one(item))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield [*value[:index], *value[index + 1 :]]
            yield from ([*value[:index], less, *value[index + 1 :]] for less in _without_one(item))


def _differ(type_: str, wire: dict[str, Any]) -> bool:
    return judged(type_, wire) != judge(type_, wire)


@pytest.mark.parametrize("pools", [min(POOLS, 2_000), pytest.param(POOLS, marks=pytest.mark.slow, id="all")])
def test_readers_and_rules_agree_with_the_oracle_on_every_generated_pool(pools: int) -> None:
    verdicts: Counter[str] = Counter()
    wrong: list[str] = []
    for type_, wire in generated(pools):
        expected = judge(type_, wire)
        verdicts.update(expected or [PASS])
        if judged(type_, wire) != expected and len(wrong) < 5:
            least = smallest(type_, wire, partial(_differ, type_))
            wrong.append(
                f"{type_} {json.dumps(least)}: rules say {judged(type_, least) or PASS}, "
                f"the definition {judge(type_, least) or PASS}"
            )

    assert wrong == [], "\n".join([f"seed {SEED}", *wrong])
    assert min(verdicts[one] for one in (PASS, VIOLATION, UNVERIFIED, ADVISORY)) > pools // 50


def test_the_running_pack_agrees_with_the_oracle() -> None:
    with PolicyPackProcess() as pack:
        for number, (type_, wire) in enumerate(generated(OVER_GRPC)):
            properties = struct_pb2.Struct()
            properties.update(wire)
            said = pack.analyze(f"urn:pulumi:preview::gpupools::{type_}::{number}", type_, str(number), properties)
            faults = [each.message for each in said if each.policy == TAINTED]
            found = [UNVERIFIED if "cannot be verified" in message else VIOLATION for message in faults]
            expected = [one for one in judge(type_, wire) if one != ADVISORY]

            assert sorted(found) == expected, f"{type_} {json.dumps(wire)}"
