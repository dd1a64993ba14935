"""Measure the time that the policy pack adds to a deployment of many GPU pools, compared with an empty pack.

Both packs run as processes of their own and are asked over gRPC as the engine does: every resource once, then the
whole stack. The empty pack has one policy for resources and one for stacks, both without a body. The packs take turns
every few resources, so that a slow or busy machine changes both alike; the ratio is the median of the rounds' ratios,
with the least and the greatest. Wall clock is what a deployment waits, without the engine's own part; CPU is that of
the pack's process alone (Linux).

    python benchmarks/policy_cost.py [POOLS] [ROUNDS]
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2
from pulumi.runtime.proto import analyzer_pb2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.policies.pack_process import POLICIES, PolicyPackProcess, StackResource

EMPTY = """
from pulumi_policy import PolicyPack, ResourceValidationPolicy, StackValidationPolicy
def nothing(args, report): pass
PolicyPack(name="empty", policies=[
    ResourceValidationPolicy("resource", "Nothing.", nothing), StackValidationPolicy("stack", "Nothing.", nothing),
])
"""
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
EKS = "aws:eks/nodeGroup:NodeGroup"
AKS = "azure-native:containerservice:AgentPool"
GKE = "gcp:container/nodePool:NodePool"


def eks(number: int, tainted: bool) -> dict[str, Any]:
    """Write an EKS node group as `GpuNodePool` declares it."""
    return {
        "amiType": "BOTTLEROCKET_x86_64_NVIDIA",
        "clusterName": "train",
        "instanceTypes": ["p4d.24xlarge"],
        "labels": {"gpupools/pool": f"pool{number}", "k8s.amazonaws.com/accelerator": "nvidia-tesla-a100"},
        "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN},
        "nodeRepairConfig": {"enabled": True},
        "nodeRoleArn": "arn:aws:iam::123456789012:role/gpu-nodes",
        "scalingConfig": {"desiredSize": 0, "maxSize": 4, "minSize": 0},
        "subnetIds": ["subnet-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60719"],
        "tags": {"gpupools:cluster": "train", "gpupools:pool": f"pool{number}"},
        "taints": [TAINT] if tainted else [],
        "updateConfig": {"maxUnavailable": 1, "updateStrategy": "MINIMAL"},
    }


def aks(number: int, tainted: bool) -> dict[str, Any]:
    """Write an AKS agent pool as `GpuNodePool` declares it."""
    return {
        "agentPoolName": f"pool{number}",
        "count": 0,
        "enableAutoScaling": True,
        "enableEncryptionAtHost": False,
        "enableNodePublicIP": False,
        "gpuProfile": {"driver": "Install"},
        "maxCount": 4,
        "minCount": 0,
        "mode": "User",
        "nodeLabels": {"gpupools/pool": f"pool{number}", "nvidia.com/gpu.present": "true"},
        "nodeTaints": ["nvidia.com/gpu=present:NoSchedule"] if tainted else [],
        "osDiskSizeGB": 200,
        "osDiskType": "Managed",
        "osSKU": "Ubuntu",
        "osType": "Linux",
        "resourceGroupName": "serve",
        "resourceName": "serve",
        "scaleDownMode": "Delete",
        "type": "VirtualMachineScaleSets",
        "upgradeSettings": {"maxSurge": "0", "maxUnavailable": "1"},
        "vmSize": "Standard_NC24ads_A100_v4",
    }


def gke(number: int, tainted: bool) -> dict[str, Any]:
    """Write a GKE node pool as `GpuNodePool` declares it."""
    return {
        "autoscaling": {"locationPolicy": "ANY", "totalMaxNodeCount": 4, "totalMinNodeCount": 0},
        "cluster": "lab",
        "initialNodeCount": 0,
        "location": "europe-west4",
        "management": {"autoRepair": True, "autoUpgrade": True},
        "name": f"pool{number}",
        "networkConfig": {"enablePrivateNodes": True},
        "nodeConfig": {
            "diskSizeGb": 200,
            "guestAccelerators": [
                {
                    "count": 1,
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
                    "type": "nvidia-tesla-a100",
                }
            ],
            "imageType": "COS_CONTAINERD",
            "kubeletConfig": {"cpuCfsQuota": True, "insecureKubeletReadonlyPortEnabled": "FALSE"},
            "labels": {"gpupools/pool": f"pool{number}"},
            "machineType": "a2-highgpu-1g",
            "metadata": {"disable-legacy-endpoints": "true"},
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "serviceAccount": "gpu-nodes@ml.iam.gserviceaccount.com",
            "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": False},
            "taints": [TAINT] if tainted else [],
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
        },
        "project": "ml-lab",
        "upgradeSettings": {"maxSurge": 0, "maxUnavailable": 1, "strategy": "SURGE"},
    }


def resources(count: int, tainted: bool) -> Iterator[StackResource]:
    """Declare pools of the three clouds in turn."""
    for number in range(count):
        type_, write = ((EKS, eks), (AKS, aks), (GKE, gke))[number % 3]
        properties = struct_pb2.Struct()
        properties.update(write(number, tainted))
        urn = f"urn:pulumi:dev::gpupools::{type_}::pool{number}"
        yield StackResource(urn=urn, type=type_, name=f"pool{number}", properties=properties)


def requests(resources: list[StackResource]) -> tuple[list[Any], Any]:
    """Make the requests beforehand, so that only the packs' own work is measured: for each resource, for the stack.

    The stack's resources have what a provider fills in, so that they are not the inputs over again.
    """
    each = [
        analyzer_pb2.AnalyzeRequest(urn=one.urn, type=one.type, name=one.name, properties=one.properties)
        for one in resources
    ]
    whole = analyzer_pb2.AnalyzeStackRequest()
    for one in resources:
        created = whole.resources.add(urn=one.urn, type=one.type, name=one.name, properties=one.properties)
        created.properties.update({"id": UNKNOWN, "arn": UNKNOWN, "version": UNKNOWN})
    return each, whole


def cpu_seconds(pid: int) -> float:
    """Return the CPU time a process has had: Linux's clock of that process, as clock_getcpuclockid(3) makes it."""
    return time.clock_gettime((~pid << 3) | 2)


CHUNK = 25
"""Resources that one pack is asked about before it is the other's turn."""


def timed(pack: PolicyPackProcess, method: str, requests: list[Any]) -> tuple[float, float, int]:
    """Return the seconds a pack needs for some requests, the CPU seconds it had, and how much it had to say."""
    assert pack.pid is not None
    start, before = time.perf_counter(), cpu_seconds(pack.pid)
    said = sum(len(pack._call(method, request).diagnostics) for request in requests)
    return time.perf_counter() - start, cpu_seconds(pack.pid) - before, said


def in_turn(packs: Mapping[str, PolicyPackProcess], each: list[Any], whole: Any) -> dict[str, list[float]]:
    """Let the packs judge a stack in short turns; return seconds, CPU seconds and what each had to say, by pack."""
    parts = [("Analyze", each[first : first + CHUNK]) for first in range(0, len(each), CHUNK)]
    total = {name: [0.0, 0.0, 0.0] for name in packs}
    for turn, (method, part) in enumerate([*parts, ("AnalyzeStack", [whole])]):
        for name in sorted(packs, reverse=bool(turn % 2)):
            for index, amount in enumerate(timed(packs[name], method, part)):
                total[name][index] += amount
    return total


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "__main__.py").write_text(EMPTY, encoding="utf-8")
        with PolicyPackProcess(Path(folder)) as empty, PolicyPackProcess(POLICIES) as ours:
            packs = {"empty": empty, "gpupools": ours}
            for title, tainted in (("that pass", True), ("without a taint", False)):
                each, whole = requests(list(resources(count, tainted)))
                in_turn(packs, each, whole)  # warms both up
                took = [in_turn(packs, each, whole) for _ in range(rounds)]
                said = int(took[0]["gpupools"][2])
                print(f"{count} pools {title}, median of {rounds} rounds; gpupools says {said} things")
                for index, word in enumerate(("wall clock", "CPU of the pack")):
                    none, all_rules = (statistics.median(one[name][index] for one in took) for name in packs)
                    ratios = sorted(one["gpupools"][index] / one["empty"][index] for one in took)
                    middle, spread = statistics.median(ratios), f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
                    print(f"  {word}: empty {none:.3f} s, gpupools {all_rules:.3f} s, ratio {middle:.2f} ({spread})")


if __name__ == "__main__":
    main()
