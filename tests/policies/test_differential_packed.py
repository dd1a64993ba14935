"""Node pools packed into other objects, in many ways at once, against what is true of them.

What the pool is was chosen first; then it is carried by lists, other objects, texts, archives and scripts, one in
another. However it is packed: GPUs that no taint keeps free never pass, and nothing else is refused.
`GPUPOOLS_FUZZ_SEED` and `GPUPOOLS_FUZZ_PACKED` choose others, and more.
"""

import base64
import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from gpupools.policies.documents import forms
from gpupools.policies.documents.judging import Config, judge_document

SEED = os.environ.get("GPUPOOLS_FUZZ_SEED", "7")
PACKED = int(os.environ.get("GPUPOOLS_FUZZ_PACKED", "600"))
RULES = {"gpu-pool-tainted", "gpu-pool-tainted-elsewhere", "node-pools-understood"}
TAINTS = {
    "hard": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
    "soft": [{"key": "nvidia.com/gpu", "effect": "PreferNoSchedule"}],
    "none": [],
}
Object = dict[str, Any]


def made(version: str, kind: str, **more: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "gpu"}, **more}


# --- pools ---


def karpenter(machine: str, taints: list[Any]) -> Object:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [machine]}
    return made(
        "karpenter.sh/v1", "NodePool", spec={"template": {"spec": {"requirements": [requirement], "taints": taints}}}
    )


def eksctl(machine: str, taints: list[Any]) -> Object:
    group = {"name": "gpu", "instanceType": machine, "taints": taints}
    return made("eksctl.io/v1alpha5", "ClusterConfig", managedNodeGroups=[group])


def ack(machine: str, taints: list[Any]) -> Object:
    effects = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}
    given = [{**one, "effect": effects[one["effect"]]} for one in taints]
    return made("eks.services.k8s.aws/v1alpha1", "Nodegroup", spec={"instanceTypes": [machine], "taints": given})


def node(machine: str, taints: list[Any]) -> Object:
    found = made("v1", "Node", spec={"taints": taints})
    found["metadata"]["labels"] = {"node.kubernetes.io/instance-type": machine}
    return found


POOLS = (karpenter, eksctl, ack, node)

# --- bytes ---


def tarred(text: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("chart/pool.yaml")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return file.getvalue()


def zipped(text: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("chart/pool.yaml", text)
    return file.getvalue()


BYTES: tuple[Callable[[bytes], bytes], ...] = (gzip.compress, bz2.compress, lzma.compress, zipped, tarred)


def in_base64(random: Random, raw: bytes) -> str:
    text = base64.b64encode(raw).decode()
    width = random.choice((16, 60, 76, len(text)))
    return "\n".join(text[at : at + width] for at in range(0, len(text), width))


def packed(random: Random, one: Object) -> str:
    raw = written(random, one).encode()
    for layer in random.sample(BYTES, random.randint(1, 2)):
        raw = layer(raw)
    return in_base64(random, raw)


def written(random: Random, one: Object) -> str:
    text = yaml.safe_dump(one) if random.random() < 0.5 else json.dumps(one)
    return f"{yaml.safe_dump(CALM)}---\n{text}\n" if random.random() < 0.2 else text


CALM = made("v1", "Service", spec={"ports": [{"port": 80}]})

# --- what carries objects ---


def work(random: Random, one: Object) -> Object:
    return made("work.open-cluster-management.io/v1", "ManifestWork", spec={"workload": {"manifests": [CALM, one]}})


def replicas(random: Random, one: Object) -> Object:
    spec = {"manifestWorkTemplate": {"workload": {"manifests": [one]}}}
    return made("work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet", spec=spec)


def crossplane(random: Random, one: Object) -> Object:
    return made("kubernetes.crossplane.io/v1alpha2", "Object", spec={"forProvider": {"manifest": one}})


def composition(random: Random, one: Object) -> Object:
    return made("apiextensions.crossplane.io/v1", "Composition", spec={"resources": [{"name": "a", "base": one}]})


def kro(random: Random, one: Object) -> Object:
    return made("kro.run/v1alpha1", "ResourceGraphDefinition", spec={"resources": [{"id": "a", "template": one}]})


def openshift(random: Random, one: Object) -> Object:
    return made("template.openshift.io/v1", "Template", objects=[one])


def listed(random: Random, one: Object) -> Object:
    return {"apiVersion": "v1", "kind": "List", "items": [CALM, one]}


OBJECTS = (work, replicas, crossplane, composition, kro, openshift, listed)


def config_map(random: Random, one: Object) -> Object:
    return made("v1", "ConfigMap", data={"a": "b", "pool.yaml": written(random, one)})


def binary(random: Random, one: Object) -> Object:
    return made("v1", "ConfigMap", binaryData={"pool": packed(random, one)})


def encoded(random: Random, one: Object) -> Object:
    return made("v1", "ConfigMap", data={"pool": in_base64(random, written(random, one).encode())})


def secret(random: Random, one: Object) -> Object:
    return made("v1", "Secret", data={"pool": in_base64(random, written(random, one).encode())})


def packed_secret(random: Random, one: Object) -> Object:
    return made("v1", "Secret", data={"pool": in_base64(random, packed(random, one).encode())})


def plain_secret(random: Random, one: Object) -> Object:
    return made("v1", "Secret", stringData={"pool": written(random, one)})


def pods(random: Random, script: str) -> Object:
    """Write what runs a script: as arguments, in a file of a ConfigMap, or in a variable."""
    container: Object = {"name": "a", "image": "bitnami/kubectl", "command": ["sh", "-c", script]}
    if random.random() < 0.2:
        container = {"name": "a", "image": "k", "env": [{"name": "RUN", "value": script}], "args": ["sh", "-c", "$RUN"]}
    template = {"spec": {random.choice(("containers", "initContainers")): [container]}}
    kinds = [
        made("batch/v1", "Job", spec={"template": template}),
        made("batch/v1", "CronJob", spec={"jobTemplate": {"spec": {"template": template}}}),
        made("apps/v1", "DaemonSet", spec={"template": template}),
        made("v1", "Pod", **template),
        made("v1", "ConfigMap", data={"run.sh": f"#!/bin/sh\n{script}"}),
    ]
    return random.choice(kinds)


def heredoc(random: Random, one: Object) -> Object:
    text = random.choice((yaml.safe_dump, json.dumps))(one)
    return pods(random, f"set -e\nkubectl apply -f - <<'EOF'\n{text}\nEOF\n")


def echoed(random: Random, one: Object) -> Object:
    return pods(random, f"echo '{json.dumps(one)}' | kubectl apply -f -")


def decoded(random: Random, one: Object) -> Object:
    text = base64.b64encode(gzip.compress(json.dumps(one).encode())).decode()
    return pods(random, f"echo {text} | base64 -d | gunzip | kubectl apply -f -")


TEXTS = (config_map, binary, encoded, secret, packed_secret, plain_secret, heredoc, echoed, decoded)

# --- files ---


def terraform(kind: str, values: Object) -> str:
    change = {"actions": ["create"], "before": None, "after": values, "after_unknown": {}}
    found = {"address": f"{kind}.x", "mode": "managed", "type": kind, "name": "x", "change": change}
    return json.dumps({"format_version": "1.2", "complete": True, "resource_changes": [found]})


FILES: tuple[Callable[[Random, Object], str], ...] = (
    lambda random, one: yaml.safe_dump(one),
    lambda random, one: json.dumps(one),
    lambda random, one: f"{yaml.safe_dump(CALM)}---\n{yaml.safe_dump(one)}",
    lambda random, one: terraform("kubernetes_manifest", {"manifest": one}),
    lambda random, one: terraform("kubectl_manifest", {"yaml_body": yaml.safe_dump(one)}),
    lambda random, one: terraform("kubernetes_config_map_v1", {"data": {"pool": written(random, one)}}),
)


def verdicts(path: Path) -> set[str]:
    judged = judge_document(path, forms.read_document(path), Config())
    return {each.rule.name for each in judged.found if each.level.value == "mandatory" and each.rule.name in RULES}


def test_however_a_pool_is_packed_it_passes_only_when_it_may(tmp_path: Path) -> None:
    random, seen = Random(f"packed {SEED}"), Counter[str]()
    wrong: list[str] = []
    file = tmp_path / "file"
    for number in range(PACKED):
        gpu, taint = random.random() < 0.6, random.choice([*TAINTS])
        pool = random.choice(POOLS)
        one = pool(random.choice(("g5.xlarge", "p5.48xlarge") if gpu else ("m5.large", "c7g.xlarge")), TAINTS[taint])
        layers = [random.choice(TEXTS)] if random.random() < 0.8 else []
        layers += random.sample(OBJECTS, random.randint(0, 2))
        for layer in layers:
            one = layer(random, one)
        write = random.choice(FILES)
        file.write_text(write(random, one), encoding="utf-8")

        wanted = gpu and taint != "hard"
        found = verdicts(file)
        seen["refused" if wanted else "passed"] += 1
        seen.update(layer.__name__ for layer in layers)
        if bool(found) != wanted:
            way = " in ".join([pool.__name__, *(layer.__name__ for layer in layers), f"file {FILES.index(write)}"])
            wrong.append(f"{number}: {'GPU' if gpu else 'CPU'}, taint {taint}: {way}: {sorted(found)}")

    assert wrong == []
    assert min(seen[name] for name in ("refused", "passed")) > PACKED / 5
    assert not PACKED >= 600 or all(seen[layer.__name__] for layer in (*OBJECTS, *TEXTS))
