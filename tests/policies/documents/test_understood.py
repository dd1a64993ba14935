"""Three answers, never two: what is judged, what is no node pool, and what nobody here understands."""

import base64
import bz2
import gc
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import yaml

from gpupools.policies import script_commands
from gpupools.policies.documents import judging
from gpupools.policies.documents.judging import Config, Judged
from gpupools.policies.kinds import is_read, rows
from gpupools.policies.script_commands import commands, run
from gpupools.policies.understood import unread
from gpupools.providers import clouds

Judge = Callable[..., Judged]
Run = Callable[..., tuple[int, str, str]]
RULE = "node-pools-understood"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def found(judged: Judged, *rules: str) -> list[tuple[str, str, bool]]:
    """Return level, rule and whether it is only that nobody can tell, of the mandatory findings and of `rules`."""
    assert judged.problems == ()
    return sorted(
        {
            (each.level.value, each.rule.name, each.finding.unverified)
            for each in judged.found
            if each.rule.name in (RULE, "gpu-pool-tainted", "gpu-pool-tainted-elsewhere", *rules)
        }
    )


DEFINITE = [("mandatory", "gpu-pool-tainted", False)]
OPEN = [("mandatory", "gpu-pool-tainted", True)]
DEFINITE_ELSEWHERE = [("mandatory", "gpu-pool-tainted-elsewhere", False)]
OPEN_ELSEWHERE = [("mandatory", "gpu-pool-tainted-elsewhere", True)]
NOT_UNDERSTOOD = [("mandatory", RULE, True)]
ADVISED = [("advisory", RULE, False)]
MAKES_A_GROUP = ["eksctl", "create", "nodegroup", "--cluster", "c"]
OF_GKE = "https://container.googleapis.com/v1/projects/p/locations/l/clusters/c"
ANYWHERE = "anywhere.eks.amazonaws.com"
ON_GKE: dict[str, Any] = {"forProvider": {"virtualClusterConfig": [{"kubernetesClusterConfig": []}]}}
FINE: list[Any] = []


def admission(expression: str, resource: str = "nodepools") -> str:
    rules = {"resourceRules": [{"apiGroups": ["*"], "operations": ["CREATE"], "resources": [resource]}]}
    done = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]
    spec = {"matchConstraints": rules, "mutations": done}
    return manifest("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", spec=spec)


def manifest(version: str, kind: str, **more: Any) -> str:
    return yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": {"name": "gpu"}, **more})


def karpenter(family: str, taints: Any = None) -> dict[str, Any]:
    requirement = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [family]}
    inner = {"requirements": [requirement], **({"taints": taints} if taints is not None else {})}
    spec = {"template": {"spec": inner}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": spec}


def eksctl(**group: Any) -> str:
    return manifest("eksctl.io/v1alpha5", "ClusterConfig", managedNodeGroups=[{"name": "g", **group}])


def _kops(meta: Any, containerd: Any) -> str:
    metadata = {"name": "gpu", "labels": {"kops.k8s.io/cluster": "a"}, **meta}
    group = manifest("kops.k8s.io/v1alpha2", "InstanceGroup", spec={"machineType": "g5.xlarge"}, metadata=metadata)
    cluster = manifest("kops.k8s.io/v1alpha2", "Cluster", spec={"containerd": containerd}, metadata={"name": "a"})
    return f"{cluster}---\n{group}"


def node(labels: Mapping[str, str], taints: Any = (), **allocatable: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "n1", "labels": dict(labels)},
                    "spec": {"taints": list(taints)},
                    "status": {"allocatable": {"cpu": "4", **allocatable}},
                }
            ],
        }
    )


TYPE = "node.kubernetes.io/instance-type"
UNREADY = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
TAINTED = karpenter("g5", [GPU_TAINT])
UNTAINTED = karpenter("g5")
CPU = karpenter("m5")


def composition(base: Any, *patched: str) -> str:
    patches = [{"fromFieldPath": "spec.type", "toFieldPath": path} for path in patched]
    return manifest(
        "apiextensions.crossplane.io/v1", "Composition", spec={"resources": [{"base": base, "patches": patches}]}
    )


def generated(given: Any) -> str:
    step = {"functionRef": {"name": "function-of-somebody"}, "input": {"kind": "Input", **given}}
    return manifest("apiextensions.crossplane.io/v1", "Composition", spec={"mode": "Pipeline", "pipeline": [step]})


def work(one: Any) -> str:
    return manifest("work.open-cluster-management.io/v1", "ManifestWork", spec={"workload": {"manifests": [one]}})


def carried(one: Any) -> str:
    return manifest("kubernetes.crossplane.io/v1alpha2", "Object", spec={"forProvider": {"manifest": one}})


def graph(family: str, taints: Any = None) -> str:
    template = karpenter(family, taints)
    return manifest(
        "kro.run/v1alpha1", "ResourceGraphDefinition", spec={"resources": [{"id": "a", "template": template}]}
    )


def config_map(one: Any) -> str:
    return manifest("v1", "ConfigMap", data={"np.yaml": yaml.safe_dump(one)})


def listed(*objects: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def deep(times: int, one: Any) -> str:
    """Carry a ManifestWork in Objects that carry each other."""
    text = work(one)
    for _ in range(times):
        text = carried(yaml.safe_load(text))
    return text


def encoded(one: Any) -> str:
    return base64.b64encode(yaml.safe_dump(one).encode()).decode()


def base64_of(raw: bytes | str) -> str:
    return base64.b64encode(raw.encode() if isinstance(raw, str) else raw).decode()


def packed(one: Any) -> str:
    return base64_of(gzip.compress(yaml.safe_dump(one).encode()))


def secret(data: str, type_: str = "Opaque") -> str:
    return manifest("v1", "Secret", type=type_, data={"release": data})


def release(rendered: str, *hooks: str) -> str:
    """Write a release as Helm stores it: base64 twice around gzip around JSON."""
    record = {"name": "a", "chart": {}, "manifest": rendered, "hooks": [{"manifest": hook} for hook in hooks]}
    return secret(base64_of(base64_of(gzip.compress(json.dumps(record).encode()))), "helm.sh/release.v1")


def archive(name: str, content: str) -> str:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as made:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        made.addfile(member, io.BytesIO(content.encode()))
    return base64_of(file.getvalue())


def zipped(content: str) -> str:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("np.yaml", content)
    return base64_of(file.getvalue())


def binary(data: str) -> str:
    return manifest("v1", "ConfigMap", binaryData={"a": data})


def job(command: list[str], kind: str = "Job", where: str = "containers", **container: Any) -> str:
    pod = {where: [{"name": "a", "image": "alpine", **({"command": command} if command else {}), **container}]}
    if kind == "Pod":
        return manifest("v1", "Pod", spec=pod)
    if kind == "CronJob":
        return manifest("batch/v1", kind, spec={"jobTemplate": {"spec": {"template": {"spec": pod}}}})
    return manifest("batch/v1" if kind == "Job" else "apps/v1", kind, spec={"template": {"spec": pod}})


def shell(script: str, kind: str = "Job", where: str = "containers", **container: Any) -> str:
    return job(["/bin/sh", "-c", script], kind, where, **container)


def piped(one: Any, end: str = "'EOF'") -> str:
    return f"set -e\ncat <<{end} | kubectl apply -f -\n{yaml.safe_dump(one)}EOF\n"


NODE_POOLS = {"apiVersion": "karpenter.sh/v1", "kind": "NodePoolList"}
RANCHER = yaml.safe_load(manifest("provisioning.cattle.io/v1", "Cluster", spec={}))
THING = yaml.safe_load(manifest("example.com/v1", "Thing", spec={}))
OBJECTS = [
    ("eksctl bare", eksctl(instanceType="g5.xlarge"), DEFINITE),
    ("eksctl tainted", eksctl(instanceType="g5.xlarge", taints=[GPU_TAINT]), FINE),
    ("eksctl old taints", eksctl(instanceType="g5.xlarge", taints={"nvidia.com/gpu": "true:NoSchedule"}), FINE),
    ("eksctl soft taint", eksctl(instanceType="p4d.24xlarge", taints={"a": "b:PreferNoSchedule"}), DEFINITE),
    ("eksctl CPU", eksctl(instanceTypes=["m5.large", "c5.large"]), FINE),
    ("eksctl default type", eksctl(), FINE),
    ("eksctl template", eksctl(launchTemplate={"id": "lt-1"}), OPEN),
    ("eksctl selector", eksctl(instanceSelector={"vCPUs": 4, "memory": "16"}), OPEN),
    ("eksctl selector without GPUs", eksctl(instanceSelector={"vCPUs": 4, "memory": "16", "gpus": 0}), FINE),
    ("eksctl selector of GPUs", eksctl(instanceSelector={"gpus": 1}), DEFINITE),
    (
        "kOps bare",
        manifest("kops.k8s.io/v1alpha2", "InstanceGroup", spec={"role": "Node", "machineType": "g5.xlarge"}),
        OPEN_ELSEWHERE,
    ),
    (
        "kOps tainted by itself",
        manifest(
            "kops.k8s.io/v1alpha2",
            "InstanceGroup",
            spec={"role": "Node", "machineType": "g5.xlarge", "containerd": {"nvidiaGPU": {"enabled": True}}},
        ),
        FINE,
    ),
    (
        "kOps not tainted by itself",
        manifest(
            "kops.k8s.io/v1alpha2",
            "InstanceGroup",
            spec={"role": "Node", "machineType": "g5.xlarge", "containerd": {"nvidiaGPU": {"enabled": False}}},
        ),
        DEFINITE,
    ),
    ("kOps CPU", manifest("kops.k8s.io/v1alpha2", "InstanceGroup", spec={"machineType": "m5.large"}), FINE),
    ("kOps cluster", manifest("kops.k8s.io/v1alpha2", "Cluster", spec={}), FINE),
    ("EKS Anywhere", manifest(f"{ANYWHERE}/v1alpha1", "Cluster", spec={}), NOT_UNDERSTOOD),
    ("EKS Anywhere's machines", manifest(f"{ANYWHERE}/v1alpha1", "NutanixMachineConfig", spec={}), NOT_UNDERSTOOD),
    ("EKS Anywhere's site", manifest(f"{ANYWHERE}/v1alpha1", "NutanixDatacenterConfig", spec={}), FINE),
    ("EKS Anywhere's package", manifest("packages.eks.amazonaws.com/v1alpha1", "Package", spec={}), FINE),
    ("network of EKS", manifest("crd.k8s.amazonaws.com/v1alpha1", "ENIConfig", spec={}), FINE),
    ("a group of Amazon's that nobody knows", manifest("new.amazonaws.com/v1", "Thing", spec={}), ADVISED),
    ("Tanzu", manifest("run.tanzu.vmware.com/v1alpha3", "TanzuKubernetesCluster", spec={}), NOT_UNDERSTOOD),
    ("Run:ai's pool of nodes", manifest("run.ai/v1alpha1", "NodePool", spec={"labelKey": "gpu"}), FINE),
    ("admission that empties taints", admission("Object{spec: Object.spec{taints: []}}"), NOT_UNDERSTOOD),
    ("admission that taints", admission("Object.spec.taints{key: 'nvidia.com/gpu'}"), FINE),
    ("admission of labels", admission("Object{metadata: Object.metadata{}}"), FINE),
    ("admission of pods", admission("Object{spec: Object.spec{taints: []}}", "pods"), FINE),
    ("kubeadm join", manifest("kubeadm.k8s.io/v1beta4", "JoinConfiguration"), ADVISED),
    ("ACK fleet", manifest("ec2.services.k8s.aws/v1alpha1", "Fleet", spec={}), NOT_UNDERSTOOD),
    ("ASO Flux", manifest("kubernetesconfiguration.azure.com/v1api20230501", "FluxConfiguration", spec={}), ADVISED),
    (
        "Upbound Flux",
        manifest("kubernetesconfiguration.azure.upbound.io/v1beta1", "KubernetesFluxConfiguration"),
        ADVISED,
    ),
    ("Upbound edge", manifest("edgecontainer.gcp.m.upbound.io/v1beta1", "NodePool", spec={}), NOT_UNDERSTOOD),
    ("Config Sync", manifest("gkehub.cnrm.cloud.google.com/v1beta1", "GKEHubFeatureMembership", spec={}), ADVISED),
    ("Config Connector", manifest("gkehub.cnrm.cloud.google.com/v1beta1", "GKEHubMembership", spec={}), FINE),
    ("CAST AI by Crossplane", manifest("castai.crossplane.io/v1alpha1", "NodeTemplate", spec={}), NOT_UNDERSTOOD),
    ("Dataproc by Crossplane", manifest("dataproc.gcp.upbound.io/v1beta2", "Cluster", spec=ON_GKE), NOT_UNDERSTOOD),
    ("Dataproc by Crossplane, of its own", manifest("dataproc.gcp.upbound.io/v1beta2", "Cluster", spec={}), FINE),
    (
        "HyperShift bare",
        manifest(
            "hypershift.openshift.io/v1beta1", "NodePool", spec={"platform": {"aws": {"instanceType": "g5.xlarge"}}}
        ),
        DEFINITE,
    ),
    (
        "HyperShift tainted",
        manifest(
            "hypershift.openshift.io/v1beta1",
            "NodePool",
            spec={"platform": {"azure": {"vmSize": "Standard_NC24ads_A100_v4"}}, "taints": [GPU_TAINT]},
        ),
        FINE,
    ),
    (
        "Hive bare",
        manifest("hive.openshift.io/v1", "MachinePool", spec={"platform": {"gcp": {"type": "a2-highgpu-1g"}}}),
        DEFINITE,
    ),
    (
        "Gardener",
        manifest(
            "core.gardener.cloud/v1beta1",
            "Shoot",
            spec={"provider": {"workers": [{"name": "a", "machine": {"type": "g5.xlarge"}, "taints": [GPU_TAINT]}]}},
        ),
        FINE,
    ),
    (
        "Gardener bare",
        manifest(
            "core.gardener.cloud/v1beta1",
            "Shoot",
            spec={"provider": {"workers": [{"name": "a", "machine": {"type": "g5.xlarge"}}]}},
        ),
        DEFINITE,
    ),
    ("node by its resources", node({}, (), **{"nvidia.com/gpu": "1"}), DEFINITE),
    ("node by its slices", node({}, (), **{"nvidia.com/mig-1g.5gb": "7"}), DEFINITE),
    ("node by its type", node({TYPE: "g6.xlarge"}), DEFINITE),
    ("node by its label", node({"nvidia.com/gpu.present": "true"}), DEFINITE),
    ("node tainted", node({TYPE: "g6.xlarge"}, [GPU_TAINT], **{"nvidia.com/gpu": "1"}), FINE),
    ("node cordoned only", node({TYPE: "g6.xlarge"}, [UNREADY]), DEFINITE),
    (
        "node without GPUs",
        node({TYPE: "m5.large", "nvidia.com/gpu.present": "false"}, (), **{"nvidia.com/gpu": "0"}),
        FINE,
    ),
    ("ConfigMap with a pool", config_map(UNTAINTED), DEFINITE),
    ("ConfigMap with a good pool", config_map(TAINTED), FINE),
    ("ConfigMap without", config_map({"a": 1}), FINE),
    ("ConfigMap with a script", manifest("v1", "ConfigMap", data={"a.sh": "echo 'apiVersion: x\nkind: [' "}), FINE),
    ("Object bare", carried(UNTAINTED), DEFINITE),
    ("Object good", carried(TAINTED), FINE),
    ("Object CPU", carried(CPU), FINE),
    ("Object with a ManifestWork", carried(yaml.safe_load(work(UNTAINTED))), DEFINITE),
    ("Object with a good ManifestWork", carried(yaml.safe_load(work(TAINTED))), FINE),
    ("ManifestWork with a ConfigMap", work(yaml.safe_load(config_map(UNTAINTED))), DEFINITE),
    ("ManifestWork with a list", work(listed(CPU, UNTAINTED)), DEFINITE),
    ("ManifestWork with a list of lists", work(listed(listed(UNTAINTED))), DEFINITE),
    ("ManifestWork with lists without end", work(listed(listed(listed(listed(listed(CPU)))))), OPEN),
    ("Object with a typed list", carried({**NODE_POOLS, "items": [{"spec": UNTAINTED["spec"]}]}), DEFINITE),
    ("carriers of carriers", deep(3, UNTAINTED), DEFINITE),
    ("too many carriers of carriers", deep(4, CPU), OPEN),
    ("Kyverno that makes a pool", manifest("kyverno.io/v1", "ClusterPolicy", spec={"data": CPU}), NOT_UNDERSTOOD),
    ("Kyverno", manifest("kyverno.io/v1", "ClusterPolicy", spec={"rules": []}), FINE),
    ("Object with Rancher's cluster", carried(RANCHER), NOT_UNDERSTOOD),
    ("ManifestWork with advice before Rancher's cluster", work(listed(THING, RANCHER)), NOT_UNDERSTOOD),
    ("ManifestWork with anybody's", work(THING), ADVISED),
    ("ConfigMap with Rancher's cluster", config_map(RANCHER), NOT_UNDERSTOOD),
    (
        "ConfigMap with a script that applies a pool",
        manifest("v1", "ConfigMap", data={"a.sh": "kubectl apply -f- <<E\napiVersion: x\n kind: NodePool\nE"}),
        NOT_UNDERSTOOD,
    ),
    ("Secret in base64", manifest("v1", "Secret", data={"a": encoded(UNTAINTED)}), DEFINITE),
    ("ConfigMap in base64", manifest("v1", "ConfigMap", binaryData={"a": encoded(UNTAINTED)}), DEFINITE),
    ("Secret with a good pool", manifest("v1", "Secret", data={"a": encoded(TAINTED), "b": "/w=="}), FINE),
    ("Secret packed", secret(packed(UNTAINTED)), DEFINITE),
    ("Secret packed, good", secret(packed(TAINTED)), FINE),
    ("Secret packed, with Rancher's cluster", secret(packed(RANCHER)), NOT_UNDERSTOOD),
    ("ConfigMap packed", binary(packed(UNTAINTED)), DEFINITE),
    ("ConfigMap packed as text", manifest("v1", "ConfigMap", data={"a": packed(UNTAINTED)}), DEFINITE),
    ("ConfigMap in base64 as text", manifest("v1", "ConfigMap", data={"a": encoded(UNTAINTED)}), DEFINITE),
    ("ConfigMap in bzip2", binary(base64_of(bz2.compress(yaml.safe_dump(UNTAINTED).encode()))), DEFINITE),
    ("ConfigMap in xz", binary(base64_of(lzma.compress(yaml.safe_dump(UNTAINTED).encode()))), DEFINITE),
    ("ConfigMap with an archive", binary(archive("a/np.yaml", yaml.safe_dump(UNTAINTED))), DEFINITE),
    ("ConfigMap with a good archive", binary(archive("a/np.yaml", yaml.safe_dump(TAINTED))), FINE),
    ("ConfigMap with a zip", binary(zipped(yaml.safe_dump(UNTAINTED))), DEFINITE),
    ("ConfigMap with a chart", binary(archive("a.yaml", "{{ if .x }}\n" + yaml.safe_dump(CPU))), NOT_UNDERSTOOD),
    ("ConfigMap in Zstandard", binary(base64_of(b"\x28\xb5\x2f\xfd" + b"x" * 50)), ADVISED),
    ("ConfigMap that unpacks to too much", binary(base64_of(gzip.compress(b"a" * 20_000_000))), ADVISED),
    ("ConfigMap with a damaged archive", binary(packed(UNTAINTED)[:80]), ADVISED),
    ("Secret with a key", secret(base64_of(bytes(range(256)))), FINE),
    ("Secret with a certificate", secret(base64_of("-----BEGIN CERTIFICATE-----\nMIID\n")), FINE),
    ("release of Helm", release(yaml.safe_dump(CPU) + "---\n" + yaml.safe_dump(UNTAINTED)), DEFINITE),
    ("release of Helm, good", release(yaml.safe_dump(TAINTED)), FINE),
    ("release of Helm with a hook", release("a: 1", shell("eksctl create nodegroup -f a.yaml")), NOT_UNDERSTOOD),
    (
        "release of Helm that nobody reads",
        secret(base64_of(b"\xff\xfe\x00\x01" * 9), "helm.sh/release.v1"),
        NOT_UNDERSTOOD,
    ),
    (
        "payload of a resource set",
        secret(packed(UNTAINTED), "addons.cluster.x-k8s.io/resource-set"),
        DEFINITE,
    ),
    (
        "payload of a resource set that nobody reads",
        secret(base64_of(b"\x28\xb5\x2f\xfd" + b"x" * 50), "addons.cluster.x-k8s.io/resource-set"),
        NOT_UNDERSTOOD,
    ),
    ("ManifestWork with a packed Secret", work(yaml.safe_load(secret(packed(UNTAINTED)))), DEFINITE),
    *(
        (f"{kind} that pipes a pool", shell(piped(UNTAINTED), kind), DEFINITE)
        for kind in ("Job", "CronJob", "Pod", "DaemonSet")
    ),
    ("initContainer that pipes a pool", shell(piped(UNTAINTED), "Deployment", "initContainers"), DEFINITE),
    ("Job that pipes a good pool", shell(piped(TAINTED)), FINE),
    ("Job that pipes a pool without GPUs", shell(piped(CPU)), FINE),
    ("Job that pipes a pool with a variable", shell(piped(karpenter("$FAMILY"), "EOF")), OPEN),
    ("Job that pipes a good pool with a variable", shell(piped(karpenter("$FAMILY", [GPU_TAINT]), "EOF")), FINE),
    ("Job that pipes a quoted pool with a dollar", shell(piped(karpenter("$m5"), "'EOF'")), FINE),
    ("Job that pipes JSON", shell(f"echo '{json.dumps(UNTAINTED)}' | kubectl apply -f -"), DEFINITE),
    ("Job that pipes good JSON", shell(f"echo '{json.dumps(TAINTED)}' | kubectl apply -f -"), FINE),
    (
        "Job that prints a pool",
        shell("printf 'apiVersion: karpenter.sh/v1\\nkind: NodePool' | kubectl apply -f -"),
        NOT_UNDERSTOOD,
    ),
    ("Job that unpacks a pool", shell(f"echo {packed(UNTAINTED)} | base64 -d | gunzip | kubectl apply -f -"), DEFINITE),
    (
        "Job that unpacks what nobody reads",
        shell(
            f"echo {base64_of(b'(' + bytes((0xB5, 0x2F, 0xFD)) + b'x' * 60)} | base64 -d | zstd -d | kubectl apply -f-"
        ),
        NOT_UNDERSTOOD,
    ),
    ("Job with a pool in a variable", job(["a"], env=[{"name": "POOL", "value": yaml.safe_dump(UNTAINTED)}]), DEFINITE),
    *(
        (f"Job that runs {script[:30]}", shell(script), NOT_UNDERSTOOD)
        for script in (
            "eksctl create nodegroup --cluster=a --instance-types g5.xlarge",
            "set -e; if true; then sudo /usr/bin/aws --region a eks \\\n  create-nodegroup --cluster-name a; fi",
            "gcloud beta container node-pools create gpu --accelerator type=nvidia-l4",
            "az aks nodepool add --node-vm-size Standard_NC24ads_A100_v4",
            "kubectl patch nodepool gpu --type=json -p x",
            "python - <<E\nimport boto3\nboto3.client('eks').create_nodegroup(a=1)\nE",
            "curl -X POST https://kubernetes/apis/karpenter.sh/v1/nodepools -d @/a",
        )
    ),
    ("Job of words", job(["aws", "eks", "create-nodegroup", "--cluster-name", "a"]), NOT_UNDERSTOOD),
    (
        "Job of an image of one tool",
        job([], image="amazon/aws-cli:2.31", args=["eks", "create-nodegroup"]),
        NOT_UNDERSTOOD,
    ),
    ("Job that applies what lies elsewhere", shell("kubectl apply -f https://example.com/a.yaml"), ADVISED),
    ("Job that trains", shell("nvidia-smi && python train.py --nodes 4 # eksctl create nodegroup"), FINE),
    ("Job that asks for nodes", shell("kubectl get nodepools; aws eks describe-nodegroup --cluster-name a"), FINE),
    (
        "GPU software that pipes a pool",
        shell(piped(UNTAINTED), "DaemonSet", image="nvcr.io/nvidia/k8s-device-plugin:v0.20.0"),
        DEFINITE,
    ),
    ("ConfigMap with a good script", manifest("v1", "ConfigMap", data={"a.sh": piped(TAINTED)}), FINE),
    ("ConfigMap with a bad script", manifest("v1", "ConfigMap", data={"a.sh": piped(UNTAINTED)}), DEFINITE),
    (
        "ConfigMap with a runbook",
        manifest("v1", "ConfigMap", data={"a.md": "For more run eksctl create nodegroup."}),
        FINE,
    ),
    ("ManifestWork with a Job", work(yaml.safe_load(shell(piped(UNTAINTED)))), DEFINITE),
    (
        "Tekton",
        manifest("tekton.dev/v1", "Task", spec={"steps": [{"script": "eksctl create nodegroup -f a"}]}),
        NOT_UNDERSTOOD,
    ),
    (
        "Argo that applies a pool",
        manifest(
            "argoproj.io/v1alpha1",
            "Workflow",
            spec={"templates": [{"resource": {"manifest": yaml.safe_dump(UNTAINTED)}}]},
        ),
        NOT_UNDERSTOOD,
    ),
    (
        "a schema of pools",
        manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", spec={"a": yaml.safe_dump(UNTAINTED)}),
        FINE,
    ),
    (
        "AKS pools in a control plane",
        manifest(
            "infrastructure.cluster.x-k8s.io/v1alpha1",
            "AzureASOManagedControlPlane",
            spec={
                "resources": [
                    {
                        "apiVersion": "containerservice.azure.com/v1api20231001",
                        "kind": "ManagedCluster",
                        "metadata": {"name": "a"},
                        "spec": {"agentPoolProfiles": [{"name": "gpu", "vmSize": "Standard_NC24ads_A100_v4"}]},
                    }
                ]
            },
        ),
        DEFINITE,
    ),
    ("ManifestWork bare", work(UNTAINTED), DEFINITE),
    ("ManifestWork good", work(TAINTED), FINE),
    ("kro with a parameter", graph("${schema.spec.family}"), OPEN),
    ("kro bare", graph("g5"), DEFINITE),
    ("kro good", graph("${schema.spec.family}", [GPU_TAINT]), FINE),
    ("Composition bare", composition(UNTAINTED), DEFINITE),
    ("Composition good", composition(TAINTED), FINE),
    ("Composition patched", composition(CPU, "spec.template.spec.requirements[0].values[0]"), OPEN),
    ("Composition patched elsewhere", composition(CPU, "metadata.labels.team"), FINE),
    ("Composition patches the taint", composition(TAINTED, "spec.template.spec.taints"), OPEN),
    ("OpenShift Template", manifest("template.openshift.io/v1", "Template", objects=[UNTAINTED]), DEFINITE),
    ("Flux placeholder", yaml.safe_dump(karpenter("${FAMILY:=g5}")), OPEN),
    ("Flux placeholder for CPU", yaml.safe_dump(karpenter("${FAMILY:=m5}")), OPEN),
    ("Helm placeholder", yaml.safe_dump(karpenter("{{ .Values.family }}")), OPEN),
    ("placeholder with a taint", yaml.safe_dump(karpenter("${FAMILY:=g5}", [GPU_TAINT])), FINE),
    ("placeholder in a name", yaml.safe_dump({**CPU, "metadata": {"name": "${CLUSTER}-cpu"}}), FINE),
    (
        "kind is a placeholder",
        yaml.safe_dump({"apiVersion": "x.io/v1", "kind": "${KIND}", "metadata": {"name": "a"}}),
        NOT_UNDERSTOOD,
    ),
    ("Karpenter's new kind", manifest("karpenter.sh/v2", "NodeFleet", spec={}), NOT_UNDERSTOOD),
    ("Karpenter's overlay", manifest("karpenter.sh/v1alpha1", "NodeOverlay", spec={}), FINE),
    (
        "Cluster with topology",
        manifest("cluster.x-k8s.io/v1beta1", "Cluster", spec={"topology": {"class": "a"}}),
        NOT_UNDERSTOOD,
    ),
    ("Cluster without", manifest("cluster.x-k8s.io/v1beta1", "Cluster", spec={"infrastructureRef": {}}), FINE),
    ("ClusterClass", manifest("cluster.x-k8s.io/v1beta1", "ClusterClass", spec={}), NOT_UNDERSTOOD),
    (
        "a provider's machines",
        manifest("infrastructure.cluster.x-k8s.io/v1", "OCIMachineTemplate", spec={}),
        NOT_UNDERSTOOD,
    ),
    ("Rancher", manifest("provisioning.cattle.io/v1", "Cluster", spec={}), NOT_UNDERSTOOD),
    ("an instance of a kro group", manifest("kro.run/v1alpha1", "GpuCluster", spec={}), NOT_UNDERSTOOD),
    ("anybody's pool", manifest("example.com/v1", "WorkerPool", spec={}), NOT_UNDERSTOOD),
    ("anybody's GPU", manifest("example.com/v1", "Thing", spec={"a": [{"size": "p5.48xlarge"}]}), NOT_UNDERSTOOD),
    ("anybody's CPU", manifest("example.com/v1", "Thing", spec={"a": [{"size": "m5.large"}]}), ADVISED),
    ("anybody's pool inside", manifest("example.com/v1", "Thing", spec={"template": UNTAINTED}), NOT_UNDERSTOOD),
    ("anybody's pool as text", manifest("example.com/v1", "Thing", spec={"t": yaml.safe_dump(CPU)}), NOT_UNDERSTOOD),
    ("Argo CD", manifest("argoproj.io/v1alpha1", "Application", spec={"source": {"path": "pools"}}), ADVISED),
    (
        "GPU values for Argo CD",
        manifest(
            "argoproj.io/v1alpha1", "Application", spec={"source": {"helm": {"valuesObject": {"type": "g5.xlarge"}}}}
        ),
        NOT_UNDERSTOOD,
    ),
    *(
        (
            f"values for Argo CD as text, {name}",
            manifest("argoproj.io/v1alpha1", "Application", spec={"source": {"helm": {"values": values}}}),
            answer,
        )
        for name, values, answer in [
            ("of a GPU", "pools:\n  - size: p5.48xlarge\n    min: 0\n", NOT_UNDERSTOOD),
            ("of a pool", yaml.safe_dump({"extraObjects": [UNTAINTED]}), NOT_UNDERSTOOD),
            ("of a CPU", "pools:\n  - size: m5.large\n    min: 0\n", ADVISED),
            ("of a GPU, in a list", ["a: b\n", "pools:\n  - size: p5.48xlarge\n    min: 0\n"], NOT_UNDERSTOOD),
            ("that are no YAML", "pools: [\n", ADVISED),
        ]
    ),
    (
        "Flux that patches a pool",
        manifest(
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            spec={
                "patches": [
                    {"target": {"kind": "NodePool"}, "patch": "- op: remove\n  path: /spec/template/spec/taints"}
                ]
            },
        ),
        NOT_UNDERSTOOD,
    ),
    (
        "Flux that patches something",
        manifest(
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            spec={"patches": [{"target": {"kind": "Deployment"}, "patch": "- op: remove\n  path: /spec/replicas"}]},
        ),
        ADVISED,
    ),
    ("Flux", manifest("helm.toolkit.fluxcd.io/v2", "HelmRelease", spec={}), ADVISED),
    ("workloads", manifest("jobset.x-k8s.io/v1alpha2", "JobSet", spec={}), FINE),
    ("an API of Kubernetes", manifest("networking.k8s.io/v1", "Ingress", spec={}), FINE),
    *(
        (
            f"anybody's workload that asks for a node by its {kind}",
            manifest("example.com/v1", "Thing", spec=spec),
            wanted,
        )
        for kind, spec, wanted in [
            ("selector", {"replicaSpecs": {"Worker": {"spec": {"nodeSelector": {"type": "p4d.24xlarge"}}}}}, ADVISED),
            (
                "affinity",
                {
                    "affinity": {
                        "nodeAffinity": {"terms": [{"key": "node", "operator": "In", "values": ["p4d.24xlarge"]}]}
                    }
                },
                ADVISED,
            ),
            ("type", {"nodeSelector": {"a": "b"}, "type": "p4d.24xlarge"}, NOT_UNDERSTOOD),
        ]
    ),
    *(
        (f"Composition, a function with {name}", generated(given), wanted)
        for name, given, wanted in [
            ("a template", {"inline": {"template": yaml.safe_dump(UNTAINTED)}}, DEFINITE),
            ("a template, tainted", {"inline": {"template": yaml.safe_dump(TAINTED)}}, FINE),
            (
                "a template that is no YAML",
                {"inline": {"template": "{{ if x }}\n" + yaml.safe_dump(UNTAINTED)}},
                NOT_UNDERSTOOD,
            ),
            (
                "a program",
                {"spec": {"source": 'items = [{apiVersion = "karpenter.sh/v1", kind = "NodePool", spec = {}}]'}},
                NOT_UNDERSTOOD,
            ),
            ("settings", {"spec": {"match": [{"kind": "Bucket", "apiVersion": "s3.aws.upbound.io/v1beta1"}]}}, ADVISED),
        ]
    ),
    *(
        (f"ConfigMap with settings that hold {name}", config_map(settings), wanted)
        for name, settings, wanted in [
            ("an object", {"a": {"extraObjects": [{"x": 1}, UNTAINTED]}}, DEFINITE),
            ("an object, tainted", {"a": {"extraObjects": [TAINTED]}}, FINE),
            ("the text of one", {"manifests": [yaml.safe_dump(UNTAINTED)]}, DEFINITE),
            ("a CPU object", {"a": {"extraObjects": [karpenter("m5")]}}, FINE),
            ("words", {"apiVersion": "v1", "a": "kind: NodePool"}, FINE),
        ]
    ),
    *(
        (f"values of a chart of {kind}", manifest(f"{group}/v1", kind, spec={key: f"type: {machine}\n"}), wanted)
        for group, kind, key in [
            ("helm.cattle.io", "HelmChart", "valuesContent"),
            ("addons.cluster.x-k8s.io", "HelmChartProxy", "valuesTemplate"),
        ]
        for machine, wanted in [("p4d.24xlarge", NOT_UNDERSTOOD), ("m5.large", ADVISED)]
    ),
    ("brokers", manifest("kafka.strimzi.io/v1", "KafkaNodePool", spec={"replicas": 3}), FINE),
    ("anybody's pool", manifest("example.com/v1", "KafkaNodePool", spec={"replicas": 3}), NOT_UNDERSTOOD),
    ("a class of another provider of Karpenter", manifest("karpenter.kwok.sh/v1", "KWOKNodeClass", spec={}), FINE),
    ("another kind of its", manifest("karpenter.kwok.sh/v1", "KWOKThing", spec={}), NOT_UNDERSTOOD),
    *(
        (f"kOps, {name}", _kops(group, cluster), wanted)
        for name, group, cluster, wanted in [
            ("its cluster taints", {}, {"nvidiaGPU": {"enabled": True}}, FINE),
            ("its cluster does not", {}, {"nvidiaGPU": {"enabled": False}}, DEFINITE_ELSEWHERE),
            ("its cluster says nothing", {}, {}, DEFINITE_ELSEWHERE),
            ("its cluster is made later", {}, "${CONTAINERD}", OPEN_ELSEWHERE),
            (
                "another cluster taints",
                {"labels": {"kops.k8s.io/cluster": "b"}},
                {"nvidiaGPU": {"enabled": True}},
                OPEN_ELSEWHERE,
            ),
        ]
    ),
    (
        "a resource set without its resource",
        manifest(
            "addons.cluster.x-k8s.io/v1beta1",
            "ClusterResourceSet",
            spec={"resources": [{"kind": "ConfigMap", "name": "x"}]},
        ),
        NOT_UNDERSTOOD,
    ),
    (
        "a resource set with a good pool",
        manifest(
            "addons.cluster.x-k8s.io/v1beta1",
            "ClusterResourceSet",
            spec={"resources": [{"kind": "ConfigMap", "name": "gpu"}]},
        )
        + "---\n"
        + config_map(TAINTED),
        FINE,
    ),
]


@pytest.mark.parametrize(("text", "wanted"), [case[1:] for case in OBJECTS], ids=[case[0] for case in OBJECTS])
def test_an_object_is_judged_or_named(text: str, wanted: list[Any], judge: Judge) -> None:
    judged = judge(text)

    assert found(judged) == wanted
    assert sum(judged.answers.values()) == judged.resources
    assert (judged.answers["not_understood"] > 0) == (wanted in (NOT_UNDERSTOOD, ADVISED))


def test_gpu_software_that_makes_nodes_is_named_and_judged_once(judge: Judge) -> None:
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    judged = judge(shell("eksctl create ng -f a", "DaemonSet", image=image))

    assert found(judged) == NOT_UNDERSTOOD
    assert judged.answers == {"judged": 1, "no_node_pool": 0, "not_understood": 0}


def test_every_command_is_found_and_nothing_that_only_reads() -> None:
    for row in commands():
        words = [word[0].replace("*", "x") for word in row.words]
        assert [said for _, said in run(f"set -e; sudo {words[0]} --quiet {' '.join(words[1:])} a")], row
        assert row.source.startswith("https://")
        assert row.as_of
    for line in ("aws eks list-nodegroups", "kubectl get -f a", "az aks nodepool list", "helm list", "terraform plan"):
        assert not [*run(f"{line} --output json")], line


# --- Terraform --------------------------------------------------------------------------------------------------------


def plan(kind: str, after: Any = None, unknown: Any = None, **more: Any) -> dict[str, Any]:
    change = {
        "address": f"{kind}.x",
        "mode": "managed",
        "type": kind,
        "name": "x",
        "change": {"actions": ["create"], "before": None, "after": after or {}, "after_unknown": unknown or {}},
    }
    expressions = {key: {"references": ["var.a"]} for key in {**(after or {}), **(unknown or {})}}
    resource = {"address": f"{kind}.x", "mode": "managed", "type": kind, "name": "x", "expressions": expressions}
    return {
        "format_version": "1.2",
        "resource_changes": [change],
        "configuration": {"root_module": {"resources": [resource]}},
        **more,
    }


def made_by_cdk(one: Any) -> dict[str, Any]:
    """Write an object as CDK does, in pieces around what other resources bring."""
    first, last = json.dumps([one]).split("PART")
    joined = {"Fn::Join": ["", [first, {"Fn::GetAtt": ["Role", "Arn"]}, last]]}
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": joined}}


def stack(type_: str, taints: Any = None) -> str:
    group = {"ClusterName": "a", "InstanceTypes": [type_], **({"Taints": taints} if taints else {})}
    return json.dumps({"Resources": {"Gpu": {"Type": "AWS::EKS::Nodegroup", "Properties": group}}})


HARD = [{"Key": "nvidia.com/gpu", "Value": "present", "Effect": "NO_SCHEDULE"}]


def arm(size: str, taints: Any = None, **template: Any) -> str:
    properties = {"vmSize": size, "mode": "User", **({"nodeTaints": taints} if taints else {})}
    pool = {"type": "Microsoft.ContainerService/managedClusters/agentPools", "name": "a/gpu", "properties": properties}
    schema = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"
    return json.dumps({"$schema": schema, "contentVersion": "1.0.0.0", "resources": [pool], **template})


A100 = "Standard_NC24ads_A100_v4"
ARM_TAINT = ["nvidia.com/gpu=present:NoSchedule"]
STATE = {"type_name": "AWS::EKS::Nodegroup", "desired_state": json.dumps({"InstanceTypes": ["g5.xlarge"]})}
RELEASE = {"name": "a", "chart": "pools", "repository": "https://example.com", "version": "1.0.0"}


DEPLOYMENT = "azurerm_resource_group_template_deployment"

PLANS = [
    ("Job that pipes a pool", plan("kubernetes_job_v1", {"spec": [{"a": piped(UNTAINTED)}]}), NOT_UNDERSTOOD),
    ("Job that pipes a good pool", plan("kubernetes_job_v1", {"spec": [{"a": piped(TAINTED)}]}), FINE),
    ("ConfigMap", plan("kubernetes_config_map_v1", {"data": {"a": yaml.safe_dump(UNTAINTED)}}), DEFINITE),
    ("ConfigMap, good", plan("kubernetes_config_map", {"data": {"a": yaml.safe_dump(TAINTED)}}), FINE),
    ("Secret packed", plan("kubernetes_secret_v1", {"binary_data": {"a": packed(UNTAINTED)}}), DEFINITE),
    (
        "CodeBuild",
        plan("aws_codebuild_project", {"source": [{"buildspec": "- eksctl create ng -f a"}]}),
        NOT_UNDERSTOOD,
    ),
    (
        "CodeBuild of something",
        plan("aws_codebuild_project", {"source": [{"buildspec": "- terraform apply"}]}),
        ADVISED,
    ),
    ("state machine", plan("aws_sfn_state_machine", {"definition": "aws-sdk:eks:createNodegroup"}), NOT_UNDERSTOOD),
    (
        "chart whose list is set to a pool",
        plan("helm_release", {"chart": "raw", "set": [{"name": "templates[0]", "value": yaml.safe_dump(UNTAINTED)}]}),
        NOT_UNDERSTOOD,
    ),
    (
        "user data that pipes a pool",
        plan("aws_instance", {"instance_type": "m5.large", "user_data": f"#!/bin/bash\n{piped(UNTAINTED)}"}),
        NOT_UNDERSTOOD,
    ),
    (
        "user data that pipes a good pool",
        plan("aws_instance", {"instance_type": "m5.large", "user_data_base64": base64_of(piped(TAINTED))}),
        FINE,
    ),
    (
        "user data that makes a node group",
        plan(
            "aws_instance",
            {"instance_type": "m5.large", "user_data_base64": base64_of("#!/bin/sh\neksctl create ng -f a")},
        ),
        NOT_UNDERSTOOD,
    ),
    ("a file with a pool", plan("aws_s3_object", {"content": yaml.safe_dump(UNTAINTED)}), ADVISED),
    ("a file with a good pool", plan("aws_s3_object", {"content": yaml.safe_dump(TAINTED)}), FINE),
    (
        "GPU software with a pool beside it",
        plan("helm_release", {"chart": "gpu-operator", "values": [yaml.safe_dump({"extraObjects": [UNTAINTED]})]}),
        NOT_UNDERSTOOD,
    ),
    ("kubectl_manifest not known", plan("kubectl_manifest", {}, {"yaml_body": True}), NOT_UNDERSTOOD),
    ("kubectl_manifest bare", plan("kubectl_manifest", {"yaml_body": yaml.safe_dump(UNTAINTED)}), DEFINITE),
    ("kubectl_manifest good", plan("kubectl_manifest", {"yaml_body": yaml.safe_dump(TAINTED)}), FINE),
    ("kubectl_manifest broken", plan("kubectl_manifest", {"yaml_body": "a: [1"}), NOT_UNDERSTOOD),
    ("kubectl_manifest no object", plan("kubectl_manifest", {"yaml_body": "a: 1"}), NOT_UNDERSTOOD),
    ("kubernetes_manifest not known", plan("kubernetes_manifest", {}, {"manifest": True}), NOT_UNDERSTOOD),
    ("kustomization_resource", plan("kustomization_resource", {"manifest": json.dumps(UNTAINTED)}), DEFINITE),
    ("stack bare", plan("aws_cloudformation_stack", {"template_body": stack("g5.xlarge")}), DEFINITE),
    ("stack good", plan("aws_cloudformation_stack", {"template_body": stack("g5.xlarge", HARD)}), FINE),
    ("stack CPU", plan("aws_cloudformation_stack", {"template_body": stack("m5.large")}), FINE),
    ("stack elsewhere", plan("aws_cloudformation_stack", {"template_url": "https://x"}), NOT_UNDERSTOOD),
    ("stack not known", plan("aws_cloudformation_stack", {}, {"template_body": True}), NOT_UNDERSTOOD),
    ("stack set bare", plan("aws_cloudformation_stack_set", {"template_body": stack("g5.xlarge")}), DEFINITE),
    ("Cloud Control bare", plan("aws_cloudcontrolapi_resource", STATE), DEFINITE),
    ("Cloud Control bucket", plan("aws_cloudcontrolapi_resource", {**STATE, "type_name": "AWS::S3::Bucket"}), FINE),
    (
        "Cloud Control HyperPod",
        plan("aws_cloudcontrolapi_resource", {**STATE, "type_name": "AWS::SageMaker::Cluster"}),
        NOT_UNDERSTOOD,
    ),
    ("awscc bare", plan("awscc_eks_nodegroup", {"instance_types": ["g5.xlarge"], "taints": []}), DEFINITE),
    (
        "awscc good",
        plan(
            "awscc_eks_nodegroup", {"instance_types": ["g5.xlarge"], "taints": [{"key": "a", "effect": "NO_SCHEDULE"}]}
        ),
        FINE,
    ),
    ("awscc bucket", plan("awscc_s3_bucket", {}), FINE),
    ("ARM bare", plan(DEPLOYMENT, {"template_content": arm(A100)}), DEFINITE),
    ("ARM good", plan(DEPLOYMENT, {"template_content": arm(A100, ARM_TAINT)}), FINE),
    ("ARM parameter", plan(DEPLOYMENT, {"template_content": arm("[parameters('size')]")}), OPEN),
    ("ARM not known", plan(DEPLOYMENT, {}, {"template_content": True}), NOT_UNDERSTOOD),
    (
        "ARM of a subscription",
        plan("azurerm_subscription_template_deployment", {"template_content": arm(A100)}),
        DEFINITE,
    ),
    (
        "azapi_update_resource of AKS",
        plan(
            "azapi_update_resource",
            {"type": "Microsoft.ContainerService/managedClusters/agentPools@2025-01-01", "body": {}},
        ),
        NOT_UNDERSTOOD,
    ),
    (
        "azapi_update_resource of another",
        plan("azapi_update_resource", {"type": "Microsoft.Storage/accounts@2025-01-01"}),
        FINE,
    ),
    (
        "azapi_resource machines",
        plan("azapi_resource", {"type": "Microsoft.ContainerService/managedClusters/agentPools/machines@2025-01-01"}),
        NOT_UNDERSTOOD,
    ),
    ("HyperPod", plan("aws_sagemaker_cluster", {"orchestrator": [{"eks": [{"cluster_arn": "a"}]}]}), NOT_UNDERSTOOD),
    (
        "containers that make a group",
        plan("aws_ecs_task_definition", {"container_definitions": f"[{json.dumps({'command': MAKES_A_GROUP})}]"}),
        NOT_UNDERSTOOD,
    ),
    (
        "a job that makes a group",
        plan("aws_batch_job_definition", {"container_properties": json.dumps({"command": MAKES_A_GROUP})}),
        NOT_UNDERSTOOD,
    ),
    (
        "containers that make nothing",
        plan("aws_ecs_task_definition", {"container_definitions": '[{"command": ["python", "a.py"]}]'}),
        FINE,
    ),
    (
        "a request that makes a pool",
        plan("google_cloud_scheduler_job", {"http_target": [{"http_method": "POST", "uri": f"{OF_GKE}/nodePools"}]}),
        NOT_UNDERSTOOD,
    ),
    (
        "a request that reads pools",
        plan("google_cloud_scheduler_job", {"http_target": [{"http_method": "GET", "uri": f"{OF_GKE}/nodePools"}]}),
        FINE,
    ),
    ("HyperPod with Slurm", plan("aws_sagemaker_cluster", {}), FINE),
    ("Dataproc on GKE", plan("google_dataproc_cluster", {"virtual_cluster_config": [{"a": 1}]}), NOT_UNDERSTOOD),
    ("Dataproc", plan("google_dataproc_cluster", {"virtual_cluster_config": [], "cluster_config": [{}]}), FINE),
    ("Config Sync in Terraform", plan("google_gke_hub_feature_membership", {"feature": "configmanagement"}), ADVISED),
    ("GKE on AWS", plan("google_container_aws_node_pool", {}), NOT_UNDERSTOOD),
    ("another cloud's pool", plan("digitalocean_kubernetes_node_pool", {"size": "s-1vcpu-2gb"}), NOT_UNDERSTOOD),
    ("another cloud's record", plan("exoscale_domain_record", {}), ADVISED),
    ("a new pool of a known cloud", plan("aws_eks_gpu_node_pool", {}), NOT_UNDERSTOOD),
    ("a bucket", plan("aws_s3_bucket", {}), FINE),
    (
        "chart with pools in its values",
        plan("helm_release", {**RELEASE, "values": ["pools: [{type: g5.xlarge}]"]}),
        NOT_UNDERSTOOD,
    ),
    ("chart without", plan("helm_release", {**RELEASE, "values": ["a: 1"]}), FINE),
    ("incomplete", plan("aws_s3_bucket", {}, complete=False), NOT_UNDERSTOOD),
    ("complete", plan("aws_s3_bucket", {}, complete=True), FINE),
]


@pytest.mark.parametrize(("content", "wanted"), [case[1:] for case in PLANS], ids=[case[0] for case in PLANS])
def test_a_plan_is_judged_or_named(content: Any, wanted: list[Any], judge: Judge) -> None:
    assert found(judge(content)) == wanted


def test_a_deferred_change_is_judged_and_what_it_brings_later_is_open(judge: Judge) -> None:
    group = plan("aws_eks_node_group", {"instance_types": ["g5.xlarge"], "taint": []})["resource_changes"][0]
    deferred = [{"reason": "resource_config_unknown", "resource_change": group}]

    judged = judge({"format_version": "1.2", "resource_changes": [], "deferred_changes": deferred, "complete": False})

    assert found(judged) == [*DEFINITE, *NOT_UNDERSTOOD]
    assert judged.gaps == ("deferred-changes",)


# --- templates --------------------------------------------------------------------------------------------------------

CLOUDFORMATION = """\
AWSTemplateFormatVersion: "2010-09-09"
Parameters:
  Type: {Type: String, Default: g5.xlarge}
Resources:
  Machine:
    Type: AWS::EC2::LaunchTemplate
    Properties: {LaunchTemplateData: {InstanceType: %s}}
  Gpu:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: train
      NodeRole: !GetAtt Role.Arn
      Subnets: !Ref Subnets
      LaunchTemplate: {Id: !Ref Machine, Version: !GetAtt Machine.LatestVersionNumber}
      Taints: %s
  Role: {Type: AWS::IAM::Role}
"""
JOINED = [("mandatory", "gpu-pool-tainted-elsewhere", False)]
JOINED_OPEN = [("mandatory", "gpu-pool-tainted-elsewhere", True)]


@pytest.mark.parametrize(
    ("machine", "taints", "wanted"),
    [
        ("g5.xlarge", "[]", JOINED),
        ("g5.xlarge", "[{Key: a, Value: b, Effect: NO_SCHEDULE}]", FINE),
        ("m5.large", "[]", FINE),
        ("!Ref Type", "[]", JOINED_OPEN),
        ("!Sub '${Type}'", "[]", JOINED_OPEN),
    ],
)
def test_a_cloudformation_template_is_read_with_its_references(
    machine: str, taints: str, wanted: list[Any], judge: Judge
) -> None:
    judged = judge(CLOUDFORMATION % (machine, taints))

    assert judged.form == "CloudFormation template"
    assert found(judged) == wanted
    assert {each.address for each in judged.found if "tainted" in each.rule.name} <= {"Gpu"}


def test_a_finding_in_a_template_is_told_on_its_line_in_cloudformations_words(judge: Judge) -> None:
    text = CLOUDFORMATION % ("m5.large", "[]")
    judged = judge(text.replace("      LaunchTemplate:", "      InstanceTypes: [g5.xlarge]\n      LaunchTemplate:"))
    (finding,) = (each for each in judged.found if each.rule.name.startswith("gpu-pool-tainted"))

    assert finding.line == 16
    assert "(InstanceTypes g5.xlarge)" in finding.message
    assert "found Taints: none" in finding.message


@pytest.mark.parametrize(
    ("resource", "wanted"),
    [
        ({"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "https://x"}}, NOT_UNDERSTOOD),
        ({"Type": "AWS::SageMaker::Cluster"}, FINE),
        ({"Type": "AWS::SageMaker::Cluster", "Properties": {"Orchestrator": {"Ref": "Mine"}}}, NOT_UNDERSTOOD),
        (
            {"Type": "AWS::SageMaker::Cluster", "Properties": {"Orchestrator": {"Eks": {"ClusterArn": "a"}}}},
            NOT_UNDERSTOOD,
        ),
        ({"Type": "AWSQS::Kubernetes::Resource"}, NOT_UNDERSTOOD),
        ({"Type": "AWS::S3::Bucket"}, FINE),
        ({"Type": "Custom::Thing"}, ADVISED),
        ({"Type": "AWS::EKS::Nodegroup", "Properties": {"Fn::Transform": {}}}, NOT_UNDERSTOOD),
        (["Fn::ForEach"], NOT_UNDERSTOOD),
        (
            {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps([UNTAINTED])}},
            DEFINITE,
        ),
        ({"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": json.dumps([TAINTED])}}, FINE),
        (
            {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": {"Fn::Join": []}}},
            NOT_UNDERSTOOD,
        ),
        (made_by_cdk(yaml.safe_load(manifest("v1", "ConfigMap", data={"mapRoles": "PART"}))), FINE),
        (made_by_cdk(karpenter("PART")), OPEN),
        (made_by_cdk(karpenter("PART", [GPU_TAINT])), FINE),
        (made_by_cdk({**UNTAINTED, "metadata": {"name": "PART"}}), DEFINITE),
    ],
    ids=str,
)
def test_what_a_template_holds_is_judged_or_named(resource: Any, wanted: list[Any], judge: Judge) -> None:
    assert found(judge({"AWSTemplateFormatVersion": "2010-09-09", "Resources": {"X": resource}})) == wanted


ELSEWHERE = {
    "type": "Microsoft.Resources/deployments",
    "name": "n",
    "properties": {"templateLink": {"uri": "https://x"}},
}
CLUSTER = {
    "type": "Microsoft.ContainerService/managedClusters",
    "name": "a",
    "properties": {"agentPoolProfiles": [{"name": "gpu", "vmSize": A100}]},
}
CHILD = {
    **CLUSTER,
    "properties": {},
    "resources": [{"type": "agentPools", "name": "g", "properties": {"vmSize": A100}}],
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (arm(A100), DEFINITE),
        (arm(A100, ARM_TAINT), FINE),
        (arm("Standard_D4s_v5"), FINE),
        (arm("[parameters('size')]", parameters={"size": {"defaultValue": "Standard_D4s_v5"}}), OPEN),
        (arm("", resources=[CLUSTER]), DEFINITE),
        (arm("", resources=[CHILD]), DEFINITE),
        (arm("", languageVersion="2.0", resources={"pool": json.loads(arm(A100))["resources"][0]}), DEFINITE),
        (arm("", resources={"pool": {**json.loads(arm(A100))["resources"][0], "existing": True}}), FINE),
        (
            arm(
                "", resources=[{**ELSEWHERE, "properties": {"mode": "Incremental", "template": json.loads(arm(A100))}}]
            ),
            DEFINITE,
        ),
        (arm("", resources=[ELSEWHERE]), NOT_UNDERSTOOD),
        (arm("", resources=[{"type": "Microsoft.Storage/storageAccounts", "name": "s"}]), FINE),
        (arm("", resources=[{"type": "Microsoft.HybridContainerService/agentPools", "name": "s"}]), NOT_UNDERSTOOD),
    ],
    ids=range(12),
)
def test_an_arm_template_is_read(text: str, wanted: list[Any], judge: Judge) -> None:
    judged = judge(text)

    assert judged.form == "ARM template"
    assert found(judged) == wanted


# --- documents that could be misread ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (json.dumps({**UNTAINTED, "steps": []}), DEFINITE),
        (json.dumps({**UNTAINTED, "format_version": "1.2", "resource_changes": []}), DEFINITE),
        (
            json.dumps(
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodePoolList",
                    "items": [{key: UNTAINTED[key] for key in ("metadata", "spec")}],
                }
            ),
            DEFINITE,
        ),
    ],
    ids=["steps", "plan", "typed list"],
)
def test_an_object_stays_one_whatever_else_it_holds(text: str, wanted: list[Any], judge: Judge) -> None:
    assert found(judge(text)) == wanted


PLAN = json.dumps({"format_version": "1.2", "resource_changes": [], "planned_values": {}})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"{PLAN}\n{json.dumps(UNTAINTED)}", "could be a Terraform plan or a Kubernetes manifest"),
        (f"{PLAN}\n{PLAN}", "holds 2 documents, of which a Terraform plan is one"),
        ("version: 3\ndeployment: {resources: []}\n---\n" + yaml.safe_dump(UNTAINTED), "could be a Pulumi state or"),
        (json.dumps({**json.loads(PLAN), "steps": [{"op": "same"}]}), "could be a Terraform plan or a Pulumi preview"),
        (
            json.dumps({"apiVersion": "v1", "kind": "List", "items": {"0": UNTAINTED}}),
            "and a List has a list of objects",
        ),
        (json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"a": 1}]}), "is no Kubernetes object"),
        ("a: 1\na: 2\n", "line 2: has the key 'a' a second time (first on line 1)"),
        ('{"a": {"b": 1, "b": 2}}', "has the key 'b' twice in one object"),
        ("kind: x\napiVersion: v1\nspec:\n{{- if .Values.a }}\n  b: 1\n{{- end }}\n", "(a template?)"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text: str, what: str, judge: Judge) -> None:
    judged = judge(text)

    assert judged.refuses
    assert any(what in f"{problem.what}" for problem in judged.problems), judged.problems


def preview(same: int, *ops: str, kind: str = "aws:s3/bucket:Bucket") -> dict[str, Any]:
    urns = [f"urn:pulumi:dev::p::{kind}::{place}" for place in range(len(ops))]
    steps = [
        {"op": op, "urn": urn, "newState": {"urn": urn, "type": kind, "custom": True, "inputs": {}}}
        for op, urn in zip(ops, urns, strict=True)
    ]
    return {"steps": steps, "duration": 1, "changeSummary": {"same": same}}


@pytest.mark.parametrize(
    ("content", "wanted"),
    [(preview(12, "update"), NOT_UNDERSTOOD), (preview(2, "same", "same"), FINE), (preview(0, "create"), FINE)],
    ids=["left out", "shown", "none"],
)
def test_a_preview_without_the_unchanged_resources_cannot_be_verified(
    content: Any, wanted: list[Any], judge: Judge
) -> None:
    judged = judge(content)

    assert found(judged) == wanted
    assert all("--show-sames" in each.message for each in judged.found)


def test_a_component_is_what_its_children_are(judge: Judge) -> None:
    content = preview(0, "create", kind="my:index:KubernetesThing")
    content["steps"][0]["newState"]["custom"] = False

    assert found(judge(content)) == FINE
    assert found(judge(preview(0, "create", kind="my:index:KubernetesThing"))) == NOT_UNDERSTOOD


# --- configuration and reports ----------------------------------------------------------------------------------------

RANCHER = manifest("provisioning.cattle.io/v1", "Cluster", spec={})


def test_a_kind_is_left_out_with_a_reason_and_is_still_said(judge: Judge) -> None:
    options = {RULE: {"reasons": {"provisioning.cattle.io/*": "reviewed by the platform team"}}}
    judged = judge(RANCHER, Config(options=options))

    assert found(judged) == ADVISED
    assert not judged.refuses
    assert judged.answers["not_understood"] == 1
    assert "left so: reviewed by the platform team" in judged.found[0].message


def test_a_gap_is_left_out_with_a_reason_and_is_still_said(judge: Judge) -> None:
    options = {RULE: {"reasons": {"unchanged-resources": "judged nightly"}}}
    judged = judge(preview(12, "update"), Config(options=options))

    assert [(each.level.value, each.count) for each in judged.found] == [("advisory", 1)]
    assert judged.gaps == ("unchanged-resources",)


def test_an_empty_reason_is_none(judge: Judge) -> None:
    assert found(judge(RANCHER, Config(options={RULE: {"reasons": {"*": " "}}}))) == NOT_UNDERSTOOD


def test_every_report_counts_the_three_answers(write: Any, run: Run) -> None:
    path: Path = write(RANCHER + "---\n" + yaml.safe_dump(TAINTED) + "---\n" + manifest("v1", "Service"), "three.yaml")
    wanted = {"judged": 1, "no_node_pool": 1, "not_understood": 1}
    summary = "3 resources (1 judged, 1 no node pool, 1 not understood)"

    assert summary in run("policy", path)[1]
    assert summary in run("policy", path, "--format", "github")[1]
    (file,) = json.loads(run("policy", path, "--json")[1])["files"]
    assert file["answers"] == wanted
    assert file["not_understood"] == ["Cluster/gpu"]
    sarif = json.loads(run("policy", path, "--format", "sarif")[1])
    assert sarif["runs"][0]["properties"]["answers"] == [{"file": str(path), **wanted, "gaps": []}]
    suite = Xml.fromstring(run("policy", path, "--format", "junit")[1]).find("testsuite")
    assert suite is not None
    assert {each.get("name"): each.get("value") for each in suite.iter("property")} == {
        key: str(number) for key, number in wanted.items()
    }


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_many_findings_are_counted_and_not_all_told(judge: Judge, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(judging, "MOST_TOLD", 5)
    items = [{**UNTAINTED, "metadata": {"name": f"n{place}"}} for place in range(12)]

    judged = judge({"apiVersion": "v1", "kind": "List", "items": items})
    tainted = [each for each in judged.found if each.rule.name == "gpu-pool-tainted"]

    assert len(tainted) == 6
    assert sum(each.count for each in tainted) == 12
    assert tainted[-1].message == "and 7 more like these; cure those told first"


CURL = "curl -X PATCH https://api/api/v1/nodes/x -d '{}'"
PATCH = "kubectl patch node gpu-1 -p '{}'"
UNTAINTS = [
    "kubectl taint nodes --all nvidia.com/gpu-",
    "kubectl taint node gpu-1 nvidia.com/gpu:NoSchedule-",
    "kubectl --context x taint no -l a=b nvidia.com/gpu=present:NoSchedule-",
    "oc adm taint nodes gpu-1 'amd.com/gpu-'",
    "kubectl taint nodes gpu-1 sku=gpu:NoSchedule-",
    "kubectl taint nodes gpu-1 $KEY-",
    "for n in $(kubectl get nodes -o name); do kubectl taint $n nvidia.com/gpu-; done",
    PATCH.replace("{}", '{"spec":{"taints":[]}}'),
    PATCH.replace("{}", '{"spec":\\\n{"taints":null}}'),
    PATCH.replace("{}", '{"spec":{"taints":[{"key":"nvidia.com/gpu","$patch":"delete"}]}}'),
    """kubectl patch node/gpu-1 --type=json -p='[{"op":"remove","path":"/spec/taints/0"}]'""",
    "kubectl get node x -o json | jq 'del(.spec.taints)' | kubectl replace -f -",
    "KUBE_EDITOR='sed -i /taints/d' kubectl edit node gpu-1 ",
    CURL.replace("{}", '{"spec":{"taints":[]}}'),
    CURL.replace("-X PATCH ", "").replace("{}", '{"spec":{"taints":[]}}').replace(" -d", " -X PATCH -d"),
    """curl -d '{"spec":{"taints":[]}}' https://api/api/v1/nodes/x -X PATCH""",
    "requests.patch(f'{host}/api/v1/nodes/{name}', json={'spec': {'taints': []}})",
    "v1.patch_node(name, {'spec': {'taints': []}})",
    """jq 'del(.spec.taints[] | select(.key=="nvidia.com/gpu"))' node.json | kubectl replace -f -""",
    "kubectl get nodes -o jsonpath='{.items[*].spec.taints}'\n" + PATCH.replace("{}", '{"spec":{"taints":[]}}'),
    'kubectl patch node\\\n gpu-1 -p \'{"spec":{"taints":[]}}\'',
]
KEEPS = [
    "kubectl taint nodes --all node.cilium.io/agent-not-ready-",
    "kubectl taint node $(hostname) ebs.csi.aws.com/agent-not-ready:NoExecute-",
    "kubectl taint nodes --all node-role.kubernetes.io/control-plane-",
    "kubectl taint nodes --overwrite gpu-1 nvidia.com/gpu=present:NoSchedule",
    PATCH.replace("{}", '{"metadata":{"labels":{"a":"b"}}}'),
    PATCH.replace("{}", '{"spec":{"taints":[{"key":"nvidia.com/gpu","effect":"NoSchedule"}]}}'),
    """kubectl patch node x --type=json -p='[{"op":"add","path":"/status/capacity/nvidia.com~1gpu"}]'""",
    "kubectl get nodes -o jsonpath='{.items[*].spec.taints}'",
    "curl https://api/api/v1/nodes/x | jq .spec.taints",
    "# kubectl taint nodes --all nvidia.com/gpu-",
]


def of_pods(kind: str, script: str, place: str = "containers") -> str:
    spec: Any = {"template": {"spec": {place: [{"name": "a", "image": "k", "command": ["sh", "-c", script]}]}}}
    spec = {"jobTemplate": {"spec": spec}} if kind == "CronJob" else spec
    return manifest("apps/v1" if kind == "DaemonSet" else "batch/v1", kind, spec=spec)


@pytest.mark.parametrize(("scripts", "expected"), [(UNTAINTS, NOT_UNDERSTOOD), (KEEPS, FINE)], ids=["off", "kept"])
def test_a_script_that_takes_the_taint_of_gpus_off_is_not_understood(
    scripts: list[str], expected: list[Any], judge: Judge
) -> None:
    for script in scripts:
        places = [
            of_pods("Job", script),
            of_pods("CronJob", script),
            of_pods("DaemonSet", script, "initContainers"),
            manifest("v1", "ConfigMap", data={"run.sh": f"#!/bin/sh\n{script}\n"}),
            plan("aws_launch_template", {"user_data": base64.b64encode(f"#!/bin/sh\n{script}\n".encode()).decode()}),
            plan("kubernetes_config_map", {"data": {"run.sh": script}}),
        ]
        for place in places:
            assert [each for each in found(judge(place)) if each[0] == "mandatory"] == expected, (script, place)


@pytest.mark.parametrize(
    "script",
    ["# nothing\n" * 104_000 + UNTAINTS[0], " taints\n" * 1_001 + PATCH.replace("{}", '{"spec":{"taints":[]}}')],
    ids=["of many lines", "of many taints"],
)
def test_a_long_script_is_looked_through_to_its_end(script: str, judge: Judge) -> None:
    assert found(judge(manifest("v1", "ConfigMap", data={"run.sh": script}))) == NOT_UNDERSTOOD


@pytest.mark.parametrize("length", range(60))
def test_a_script_is_taken_apart_between_its_commands(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_commands, "_AT_ONCE", 40)
    monkeypatch.setattr(script_commands, "_LONGEST_LINE", 200)
    before = "x" * length

    for script in (f"{before}\n{UNTAINTS[0]}", f"{before} ;kubectl taint nodes \\\n --all \\\n nvidia.com/gpu-\n"):
        assert [said for _, said in run(script)] == ["runs kubectl taint nodes"]
    assert list(run(f"{before}\n# {before} {UNTAINTS[0]}")) == []


def test_a_command_line_that_takes_the_taint_of_gpus_off_is_not_understood(judge: Judge) -> None:
    container = {"image": "bitnami/kubectl:1.34", "args": ["taint", "nodes", "--all", "nvidia.com/gpu-"]}
    job = manifest("batch/v1", "Job", spec={"template": {"spec": {"containers": [container]}}})

    assert found(judge(job)) == NOT_UNDERSTOOD


def kyverno(**mutate: Any) -> str:
    return manifest("kyverno.io/v1", "ClusterPolicy", spec={"rules": [{"match": {"any": []}, "mutate": mutate}]})


def merged(taints: Any) -> dict[str, Any]:
    return {"patchStrategicMerge": {"spec": {"template": {"spec": {"taints": taints}}}}}


def mutating(expression: str) -> str:
    spec = {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]}
    return manifest("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy", spec=spec)


def argo(patch: str, action: str = "patch") -> str:
    resource = {"action": action, "manifest": patch}
    return manifest("argoproj.io/v1alpha1", "Workflow", spec={"templates": [{"resource": resource}]})


def fluxcd(**operation: Any) -> str:
    patches = [{"target": {"kind": "Node"}, "patch": [operation]}]
    return manifest("kustomize.toolkit.fluxcd.io/v1beta1", "Kustomization", spec={"patchesJson6902": patches})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (kyverno(patchesJson6902="- op: remove\n  path: /spec/taints\n"), NOT_UNDERSTOOD),
        (fluxcd(op="remove", path="/spec/taints/0"), NOT_UNDERSTOOD),
        (fluxcd(op="replace", path="/spec/taints", value=[]), NOT_UNDERSTOOD),
        (fluxcd(op="replace", path="/spec/taints", value=[GPU_TAINT]), FINE),
        (fluxcd(op="add", path="/spec/taints/-", value=GPU_TAINT), FINE),
        (fluxcd(**{"op": "move", "from": "/spec/taints", "path": "/metadata/annotations/a"}), NOT_UNDERSTOOD),
        (kyverno(patchesJson6902="- op: remove\n  path: /metadata/labels/taints\n"), FINE),
        (kyverno(**merged(None)), NOT_UNDERSTOOD),
        (kyverno(**merged([])), NOT_UNDERSTOOD),
        (kyverno(**merged([GPU_TAINT])), FINE),
        (mutating("[JSONPatch{op: 'remove', path: '/spec/taints'}]"), NOT_UNDERSTOOD),
        (mutating("[JSONPatch{op: 'move', from: '/spec/taints/0', path: '/spec/a'}]"), NOT_UNDERSTOOD),
        (mutating("[JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}]"), FINE),
        (argo("kind: Node\nspec:\n  taints: []\n"), NOT_UNDERSTOOD),
        (argo("kind: NodePool\nspec:\n  taints: null\n", "replace"), NOT_UNDERSTOOD),
        (argo("kind: Node\nspec:\n  taints: ~\n", "create"), FINE),
        (argo("kind: Node\nmetadata: {labels: {a: b}}\n"), FINE),
        ({"AWSTemplateFormatVersion": "2010-09-09", "Transform": ["Mine"], "Resources": {}}, NOT_UNDERSTOOD),
        ({"AWSTemplateFormatVersion": "2010-09-09", "Transform": {"Name": "Mine"}, "Resources": {}}, NOT_UNDERSTOOD),
        ({"AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Include", "Resources": {}}, NOT_UNDERSTOOD),
        ({"AWSTemplateFormatVersion": "2010-09-09", "Transform": "AWS::Serverless-2016-10-31", "Resources": {}}, FINE),
    ],
)
def test_what_patches_taints_off_or_writes_a_template_anew_is_not_understood(
    given: Any, expected: list[Any], judge: Judge
) -> None:
    assert [each for each in found(judge(given)) if each[0] == "mandatory"] == expected


REMOTE = [
    "curl -s https://x.example/join-cluster.sh | bash",
    "wget -qO- https://x.example/k8s/boot | sudo -E sh -",
    "CLUSTER_NAME=a\ncurl https://x.example/b | bash",
    "bash <(curl -s https://x.example/kubeadm.sh)",
    'eval "$(curl https://x.example/eks-node)"',
]
LOCAL = [
    "curl -fsSL https://get.docker.com | sh",
    "curl https://raw.githubusercontent.com/helm/helm/main/scripts/get-helm-3 | bash",
    "curl -sfL https://get.k3s.io | sh -",
    "curl -LsSf https://astral.sh/uv/install.sh | sh",
    "curl https://x.example/cluster.json | jq .",
]


@pytest.mark.parametrize(("machine", "expected"), [("g5.xlarge", OPEN), ("m5.xlarge", FINE)])
def test_user_data_that_is_another_script_cannot_be_verified(machine: str, expected: list[Any], judge: Judge) -> None:
    for script in (*REMOTE, *LOCAL):
        data = base64.b64encode(f"#!/bin/bash\n{script}\n".encode()).decode()
        values = {"instance_type": machine, "user_data_base64": data, "iam_instance_profile": "a"}

        assert found(judge(plan("aws_instance", values))) == expected, script


def test_base64_in_short_lines_or_after_a_blank_is_opened(judge: Judge) -> None:
    packed = base64.b64encode(yaml.safe_dump(karpenter("g5")).encode()).decode()
    lines = "\n".join(packed[at : at + 16] for at in range(0, len(packed), 16))

    for value in (lines, f" {packed}", f"\n{packed}\n"):
        assert found(judge(manifest("v1", "ConfigMap", data={"a": value}))) == DEFINITE


@pytest.mark.parametrize("words", [499, 500, 600])
def test_a_pool_among_more_words_of_base64_than_are_opened_is_not_let_pass(words: int, judge: Judge) -> None:
    packed = base64.b64encode(yaml.safe_dump(karpenter("g5")).encode()).decode()
    others = " ".join(base64.b64encode(f"{each:064}".encode()).decode() for each in range(words))
    piped = judge(
        manifest("v1", "ConfigMap", data={"a": f"echo {others}\necho {packed} | base64 -d | kubectl apply -f -"})
    )
    alone = judge(manifest("v1", "ConfigMap", data={"a": f"A='{others}'\nB={packed}\n"}))

    assert found(piped) == (DEFINITE if words < 500 else NOT_UNDERSTOOD)
    assert found(alone) == (DEFINITE if words < 500 else ADVISED)


@pytest.mark.parametrize("first", ["g5.xlarge", "m5.xlarge"])
def test_how_a_template_inside_a_stack_is_hardened_is_told_once(first: str, judge: Judge) -> None:
    options = {"MetadataOptions": {"HttpPutResponseHopLimit": 3}}
    template = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": options}}
    properties = {"InstanceTypes": ["g5.xlarge"], "Taints": HARD, "LaunchTemplate": {"Id": {"Ref": "Lt"}}}
    group = {"Type": "AWS::EKS::Nodegroup", "Properties": properties}
    one = {**group, "Properties": {**properties, "InstanceTypes": [first]}}
    body = json.dumps({"Resources": {"Lt": template, "One": one, "Two": group}})

    judged = judge(plan("aws_cloudformation_stack", {"template_body": body}))
    (hops,) = [each.message for each in judged.found if "metadata-hop-limit" in each.message]

    assert "templateBody.Resources.Lt.Properties.LaunchTemplateData.MetadataOptions.HttpPutResponseHopLimit" in (
        hops.replace("template_body", "templateBody")
    )


def test_a_look_at_a_file_leaves_the_collector_as_it_was(judge: Judge) -> None:
    judge("a: [")
    judge(yaml.safe_dump(TAINTED))

    assert gc.isenabled()


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_row_has_a_reason_a_source_and_a_date_and_is_asked() -> None:
    answers = {"none", "nodes", "elsewhere", "holds", "resources", "where"}

    assert {row.answer.partition(" ")[0] for row in rows()} <= answers
    assert all(row.why and row.source.startswith("https://") and len(row.as_of) == 10 for row in rows())
    assert len({row.kind for row in rows()}) == len(rows())


@pytest.mark.parametrize("cloud", sorted(clouds()))
def test_the_types_that_are_listed_as_read_are_read(cloud: str) -> None:
    types = clouds()[cloud].reading().types

    assert [each for each in types if not is_read(each)] == []
    assert not is_read("aws:s3/bucket:Bucket")


@pytest.mark.parametrize(
    "type_token",
    ["azure-native_resources_v20240301:resources:Deployment", "aws-native:cloudformation:StackSet"],
)
def test_a_template_that_is_not_at_hand_is_named_in_pulumi_too(type_token: str) -> None:
    found = unread(type_token, {})

    assert found is not None
    assert found.nodes


P5 = {"size": {"machines": ["p5.48xlarge"]}}


@pytest.mark.parametrize(
    ("type_token", "inputs", "wanted"),
    [
        ("aws:newservice/fleet:Fleet", P5, False),
        ("terraform:aws_newservice_fleet", P5, False),
        ("aws:eks/capability:Capability", P5, True),
        ("cloudformation:AWS::EKS::Capability", P5, True),
        ("azure-native:containerservice:Thing", {"size": "Standard_NC24ads_A100_v4"}, True),
        ("gcp:container/thing:Thing", {"machineType": "a2-highgpu-1g"}, True),
        ("gcp:containeranalysis/note:Note", {"machineType": "a2-highgpu-1g"}, False),
        ("aws:newservice/fleet:Fleet", {"size": "m5.large"}, None),
        ("aws:newservice/fleet:Fleet", {**P5, "clusterName": "train"}, True),
        ("terraform:aws_newservice_fleet", {**P5, "config": [{"node_role_arn": "a"}]}, True),
        ("terraform:aws_newservice_fleet", {**P5, "node_role_arn": None}, False),
        ("cloudformation:AWS::New::Fleet", {**P5, "Template": {"KubernetesLabels": {"a": "b"}}}, True),
        ("terraform:aws_newservice_fleet", {"types": "m5.large, p5.48xlarge", "eks_cluster": "a"}, True),
        ("terraform:aws_newservice_fleet", {"shape": "g99.48xlarge", "taints": ["a"]}, True),
        ("terraform:google_new_pool", {"parts": [{"accelerator": "nvidia-h100-80gb"}], "cluster": "a"}, True),
        ("terraform:google_new_pool", {"image": "nvidia-driver-installer", "cluster": "a"}, None),
        ("terraform:azurerm_new_pool", {"sku": "Standard_ND96asr_v4", "kubernetes_cluster_id": "a"}, True),
        ("terraform:newcloud_thing", {"gpu": "nvidia-l4"}, True),
        ("terraform:aws_emr_instance_group", {"instance_type": "g5.xlarge", "cluster_id": "j-1"}, None),
        ("terraform:google_dataproc_cluster", {"cluster_config": [{"machine_type": "a2-highgpu-1g"}]}, None),
        ("terraform:aws_imagebuilder_infrastructure_configuration", {"instance_types": ["g5.xlarge"]}, False),
        ("aws:eks/capability:Capability", {"size": "m5.large"}, None),
        ("aws:ec2/capacityReservation:CapacityReservation", P5, None),
        ("aws:batch/computeEnvironment:ComputeEnvironment", P5, None),
        ("aws:sagemaker/endpointConfiguration:EndpointConfiguration", P5, None),
        ("terraform:google_compute_reservation", {"machine_type": "a2-highgpu-1g"}, None),
        ("random:index/randomPet:RandomPet", P5, None),
        ("gpupools:index:GpuNodePool", P5, None),
        ("eks:index:NodeFleet", P5, True),
        ("eks:index:NodeFleet", {"instanceType": "m5.large"}, None),
    ],
)
def test_a_type_that_no_row_names_is_no_node_pool_unless_it_names_gpus(
    type_token: str, inputs: dict[str, Any], wanted: bool | None
) -> None:
    said = unread(type_token, inputs)

    assert (said and said.nodes) is wanted
    assert said is None or "names the machine" in said.why


@pytest.mark.parametrize(("family", "wanted"), [("g5", DEFINITE), ("m5", FINE)])
@pytest.mark.parametrize("width", [20, 40])
def test_base64_in_short_lines_of_a_script_is_opened(width: int, family: str, wanted: list[Any], judge: Judge) -> None:
    packed = base64.b64encode(yaml.safe_dump(karpenter(family)).encode()).decode()
    lines = "\n".join(packed[at : at + width] for at in range(0, len(packed), width))
    script = f"set -e\nbase64 -d <<'EOF' | kubectl apply -f -\n{lines}\nEOF\n"

    assert [each for each in found(judge(shell(script))) if each[0] == "mandatory"] == wanted


def test_what_is_packed_in_another_way_is_not_understood(judge: Judge) -> None:
    for script in ("echo 6563686f | xxd -r -p | kubectl apply -f -", "printf %s QUJD REVG | base64 -d | oc apply -f -"):
        assert found(judge(shell(script))) == NOT_UNDERSTOOD
    assert found(judge(shell("echo $CA | base64 -d > a; echo a | kubectl apply -f b.yaml"))) == ADVISED


def self_managed(machine: str, script: str) -> dict[str, Any]:
    data = base64.b64encode(f"#!/bin/bash\n{script}".encode()).decode()
    return plan("aws_instance", {"instance_type": machine, "user_data_base64": data})


def test_user_data_that_runs_what_nobody_can_read_may_join(judge: Judge) -> None:
    script = "echo 2f6574632f | xxd -r -p | bash\n"
    assert found(judge(self_managed("g5.xlarge", script))) == [("mandatory", "gpu-pool-tainted", True)]
    assert found(judge(self_managed("m5.xlarge", script))) == FINE


@pytest.mark.parametrize(
    ("name", "raw", "wanted"),
    [
        ("pool.yaml.br", bytes(range(128, 256)), ADVISED),
        ("pool.yaml", bytes(range(128, 256)), ADVISED),
        ("logo.png", bytes(range(128, 256)), FINE),
        ("pool.json", b'{"a": 1, "b": "some other text"}', FINE),
    ],
)
def test_bytes_that_are_named_like_a_text_are_worth_a_word(name: str, raw: bytes, wanted: Any, judge: Judge) -> None:
    data = {name: base64.b64encode(raw).decode()}
    given = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "binaryData": data}

    assert found(judge(given)) == wanted


@pytest.mark.parametrize("deep", [600, 900])
def test_a_template_that_is_nested_too_deeply_is_not_understood(deep: int, judge: Judge) -> None:
    nested: Any = []
    for _ in range(deep):
        nested = [nested]
    resources = {
        "A": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"X": nested}}},
        "B": {"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": {"LaunchTemplate": nested}},
    }

    body = json.dumps({"Resources": resources})

    assert found(judge(plan("aws_cloudformation_stack", {"template_body": body}))) == NOT_UNDERSTOOD
