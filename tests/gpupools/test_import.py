"""`gpupools import` without a CLI and without a cloud: what it writes, what it refuses, what an adopted pool keeps."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from gpupools.cli import import_pools
from gpupools.cli.main import main
from gpupools.common.errors import Problem, Rejected
from gpupools.diff.guard import Earlier, judge
from gpupools.diff.records import record
from gpupools.preview.command import PROGRAM
from gpupools.preview.program_run import preview_program
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from tests.changes import diff
from tests.engine.existing_pools import ExistingPool, aks_pool, eks_pool, gke_pool

SERVED = ("--device-plugin", "kube-system/plugin", "--gpu-operator", "gpu-operator/operator", "--team", "vision")


def given(folder: Path, *pools: Mapping[str, Any]) -> list[str]:
    files = []
    for number, pool in enumerate(pools):
        files.append(str(folder / f"pool{number}.json"))
        Path(files[-1]).write_text(json.dumps(pool), encoding="utf-8")
    return files


def refused(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str) -> str:
    """Return the reasons; fail when anything was written."""
    before = out.read_bytes() if out.exists() else None
    capsys.readouterr()

    assert main(["import", *arguments, "--out", str(out)]) == 1
    assert (out.read_bytes() if out.exists() else None) == before
    return capsys.readouterr().err


TAG = "aws:autoscaling/tag:"
NAMES = ("name", "agentPoolName", "nodeGroupName")
MAKERS = {"aws": eks_pool, "azure": aks_pool, "gcp": gke_pool}


def some(kind: str, seed: int = 1) -> ExistingPool:
    return MAKERS[kind](Random(seed), 0)


@pytest.mark.parametrize(
    ("kind", "seed", "count"), [("gcp", 0, 10), ("gcp", 1, 10), ("azure", 0, 10), ("azure", 1, 10), ("aws", 0, 4)]
)
def test_pools_are_declared_as_imports_that_the_sdk_takes(
    tmp_path: Path, kind: str, seed: int, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    random = Random(100 + seed)
    pools = [MAKERS[kind](random, number) for number in range(count)]
    told = [each for pool in pools for each in (pool.described, pool.beside) if each is not None]
    out = tmp_path / "Pulumi.moved.yaml"
    assert main(["import", *given(tmp_path, *told), "--out", str(out), *SERVED]) == 0
    said = capsys.readouterr().out
    found = preview_program(PROGRAM, "moved", "gpupools", yaml.safe_load(out.read_text(encoding="utf-8"))["config"])
    nodes = [each for each in found.resources if each.custom and not each.type.startswith(("pulumi:", TAG))]

    assert [str(each) for each in (*found.problems, *found.warnings)] == []
    assert sorted(each.options["import"].casefold() for each in nodes) == sorted(each.id.casefold() for each in pools)
    names = {next(each.inputs[key] for key in NAMES if key in each.inputs) for each in nodes}
    assert names == {each.name for each in pools}
    assert all(f": {each.name} on " in said for each in pools)
    beside = [each for each in found.resources if "GpuNodePool$" in each.urn and "import" not in each.options]
    assert sum(map(int, re.findall(r"^  creates: ([0-9]+) × ", said, re.MULTILINE))) == len(beside)


def test_spot_machines_without_autoscaler_are_taken_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """AKS takes such a pool; only a new one is refused, since it would lose its nodes one by one."""
    pool = {**some("azure").described, "enableAutoScaling": False, "count": 2, "minCount": None, "maxCount": None}
    pool |= {"scaleSetPriority": "Spot", "scaleSetEvictionPolicy": "Delete", "spotMaxPrice": -1}
    pool["nodeTaints"] = ["kubernetes.azure.com/scalesetpriority=spot:NoSchedule"]
    pool["nodeLabels"] = {"kubernetes.azure.com/scalesetpriority": "spot"}
    del pool["upgradeSettings"]
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", *given(tmp_path, pool), "--out", str(out), *SERVED]) == 0
    (keys,) = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"].values()
    assert keys["nodes"] == {"fixed": 2}
    assert main(["check", str(out)]) == 0

    new = yaml.safe_load(out.read_text(encoding="utf-8"))
    (keys,) = new["config"]["gpupools:pools"].values()
    del keys["adopt"]
    out.write_text(yaml.safe_dump(new), encoding="utf-8")
    capsys.readouterr()
    assert main(["check", str(out)]) == 1
    assert "without an autoscaler evicted nodes do not come back" in capsys.readouterr().err


OTHER_TAINT = "nvidia.com/gpu=true:NoSchedule"
OTHER_TAINTS: dict[str, dict[str, Any]] = {
    "aws": {"taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]},
    "azure": {"nodeTaints": [OTHER_TAINT]},
    "gcp": {"config": {"taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]}},
}


@pytest.mark.parametrize("kind", OTHER_TAINTS)
def test_nodes_keep_another_value_of_the_gpu_taint(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = dict(some(kind).described)
    inner = pool.get("nodegroup", pool)
    for key, value in OTHER_TAINTS[kind].items():
        inner[key] = {**inner[key], **value} if isinstance(value, dict) else value
    beside = [each for each in (some(kind).beside,) if each is not None]
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", *given(tmp_path, pool, *beside), "--out", str(out), *SERVED]) == 0
    said = capsys.readouterr().out
    assert f"its nodes keep the taint {OTHER_TAINT}; once adopt.gpu_taint is removed" in said
    assert "present" not in "".join(line for line in said.splitlines() if "aints" in line)
    (keys,) = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"].values()
    assert (keys["adopt"]["gpu_taint"], keys["taints"]) == ("true", [])

    assert main(["preview", "--json", str(out)]) == 0
    preview = capsys.readouterr().out
    (tmp_path / "preview.json").write_text(preview, encoding="utf-8")
    (planned,) = json.loads(preview)["pools"]
    assert {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"} in (
        planned["pod"]["tolerations"]
    )
    assert planned["taints"][0] == OTHER_TAINT
    assert main(["policy", str(tmp_path / "preview.json")]) == 0
    assert "gpu-pool-tainted]" not in capsys.readouterr().out


def test_the_gpu_taint_stays_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node has one taint per key and effect, also when the pool names the usual one beside `adopt.gpu_taint`."""
    pool = dict(some("azure").described) | OTHER_TAINTS["azure"]
    out = tmp_path / "Pulumi.moved.yaml"
    assert main(["import", *given(tmp_path, pool), "--out", str(out), *SERVED]) == 0
    config = yaml.safe_load(out.read_text(encoding="utf-8"))
    (keys,) = config["config"]["gpupools:pools"].values()
    keys["taints"] = ["nvidia.com/gpu=present:NoSchedule"]
    out.write_text(yaml.safe_dump(config), encoding="utf-8")
    capsys.readouterr()

    assert main(["preview", "--json", str(out)]) == 0
    (planned,) = json.loads(capsys.readouterr().out)["pools"]
    assert [each for each in planned["taints"] if "nvidia.com/gpu" in each] == [OTHER_TAINT]

    keys["adopt"]["gpu_taint"] = "not a value"
    out.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert main(["check", str(out)]) == 1
    assert "adopt.gpu_taint: got " in capsys.readouterr().err


def test_what_a_pool_cannot_say_is_listed_with_its_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = dict(some("gcp").described)
    pool["config"] = {**pool["config"], "tags": ["gpu-nodes"], "diskSizeGb": 50, "minCpuPlatform": "Intel Cascade Lake"}
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", *given(tmp_path, pool), "--out", str(out), *SERVED]) == 0
    said = capsys.readouterr().out
    assert '  keeps: nodeConfig.tags = ["gpu-nodes"]' in said
    assert "  keeps: nodeConfig.diskSizeGb = 50" in said
    assert '  keeps: nodeConfig.minCpuPlatform = "Intel Cascade Lake"' in said
    written = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"]
    (keys,) = written.values()
    assert keys["adopt"]["name"] == pool["name"]
    assert "nodeConfig.diskSizeGb" in keys["adopt"]["keep"]


def test_a_terraform_state_is_read_and_its_pools_without_gpus_are_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        "machine_type": "g2-standard-8",
        "disk_size_gb": 100,
        "image_type": "COS_CONTAINERD",
        "service_account": "gpu@ml.iam.gserviceaccount.com",
        "guest_accelerator": [{"type": "nvidia-l4", "count": 1}],
    }
    place = {"project": "ml-lab", "location": "europe-west4", "cluster": "lab", "node_locations": ["europe-west4-a"]}

    def state(name: str, **node: Any) -> dict[str, Any]:
        identifier = f"projects/ml-lab/locations/europe-west4/clusters/lab/nodePools/{name}"
        values = {"id": identifier, "name": name, **place, "node_count": 2, "node_config": [config | node]}
        kind = "google_container_node_pool"
        return {"address": f"{kind}.{name}", "mode": "managed", "type": kind, "name": name, "values": values}

    resources = [state("gpu"), state("cpu", machine_type="e2-standard-4", guest_accelerator=[])]
    text = {"format_version": "1.0", "values": {"root_module": {"resources": resources}}}
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", *given(tmp_path, text), "--out", str(out), *SERVED]) == 0
    assert "google_container_node_pool.gpu of " in capsys.readouterr().out
    written = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"]
    assert {key: pool["nodes"] for key, pool in written.items()} == {"gpu": {"fixed": 2}}


# The pool of CPU nodes that every cluster has, in gcloud container node-pools list and az aks nodepool list.
CPU_POOLS: dict[str, dict[str, Any]] = {
    "gcp": {"config": {"machineType": "e2-medium", "diskSizeGb": 100, "imageType": "COS_CONTAINERD"}},
    "azure": {"vmSize": "Standard_D4s_v5", "mode": "System", "gpuProfile": None, "gpuInstanceProfile": None},
}


@pytest.mark.parametrize("kind", CPU_POOLS)
def test_the_pools_without_gpus_of_a_list_are_left(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = dict(some(kind).described)
    place = "selfLink" if kind == "gcp" else "id"
    cpu = {**pool, "name": "default", place: re.sub(r"[^/]+$", "default", pool[place]), **CPU_POOLS[kind]}
    (tmp_path / "list.json").write_text(json.dumps([cpu, pool]), encoding="utf-8")
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", str(tmp_path / "list.json"), "--out", str(out), *SERVED]) == 0
    (written,) = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"].values()
    assert written["adopt"]["name"] == pool["name"]
    out.unlink()
    said = refused(capsys, out, *given(tmp_path, cpu))
    assert "none of the files has a node pool with GPUs" in said


def test_a_pool_without_a_limit_of_pods_keeps_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    described = {key: value for key, value in some("gcp").described.items() if key != "maxPodsConstraint"}
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", *given(tmp_path, described), "--out", str(out), *SERVED]) == 0
    assert "maxPodsPerNode" not in capsys.readouterr().out
    assert "max_pods" not in out.read_text(encoding="utf-8")


def test_an_existing_file_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "Pulumi.prod.yaml"
    out.write_text("config: {}\n", encoding="utf-8")

    assert "already exists" in refused(capsys, out, *given(tmp_path, some("gcp").described))


def test_all_that_is_wrong_with_an_import_is_told_in_one_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aks = {key: value for key, value in some("azure").described.items() if key != "gpuProfile"}
    (empty := tmp_path / "empty.json").touch()

    said = refused(
        capsys, tmp_path / "no" / "moved.yaml", *given(tmp_path, aks), str(empty), str(tmp_path / "none.json")
    )

    assert "is in a folder that does not exist; create the folder first" in said
    assert "is not the name of a stack file" in said
    assert "empty.json: the file is empty; use JSON output of gcloud" in said
    assert "none.json: there is no such file; use JSON output of gcloud" in said
    assert "set what serves its GPUs: --device-plugin NAME" in said


def test_a_pool_of_another_cloud_or_of_two_files_is_refused_with_all_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "Pulumi.moved.yaml"
    file = given(tmp_path, GKE, {**GKE, "config": {**GKE["config"], "machineType": "e2-standard-4"}})

    assert "is a pool of GKE, not of AKS" in refused(capsys, out, file[0], "--cloud", "azure")
    assert f"is also in {file[0]}" in refused(capsys, out, file[0], file[0])
    # One that can be is not written without the other.
    assert "not in the catalogue" in refused(capsys, out, file[1], *given(tmp_path / "..", AKS), *SERVED)


GKE, AKS = dict(some("gcp").described), dict(some("azure").described)
MIG_LABEL, PLUGIN_LABEL = "nvidia.com/mig.config", "nvidia.com/device-plugin.config"
ARN = "arn:aws:eks:eu-central-1:123456789012:nodegroup/train/gpu/aac5c9a0"


def eks(**keys: Any) -> dict[str, Any]:
    """Return a node group as aws eks describe-nodegroup prints it."""
    group = {
        "nodegroupName": "gpu",
        "nodegroupArn": ARN,
        "clusterName": "train",
        "scalingConfig": {"minSize": 0, "maxSize": 4, "desiredSize": 2},
        "instanceTypes": ["g5.xlarge"],
        "subnets": ["subnet-0000000a"],
        "amiType": "AL2023_x86_64_NVIDIA",
        "nodeRole": "arn:aws:iam::123456789012:role/gpu-nodes",
        "launchTemplate": {"name": "gpu", "version": "3", "id": "lt-0a1b2c3d4e5f60718"},
    }
    return {"nodegroup": {key: value for key, value in {**group, **keys}.items() if value is not None}}


def template(**data: Any) -> dict[str, Any]:
    """Return its launch template as aws ec2 describe-launch-template-versions prints it."""
    version = {"LaunchTemplateId": "lt-0a1b2c3d4e5f60718", "VersionNumber": 3, "LaunchTemplateData": data}
    return {"LaunchTemplateVersions": [{**version, "VersionNumber": 2, "LaunchTemplateData": {}}, version]}


@pytest.mark.parametrize(
    ("pools", "reason"),
    [
        (
            [eks(instanceTypes=None)],
            "also pass what aws ec2 describe-launch-template-versions --launch-template-id lt-0a1b",
        ),
        ([eks(instanceTypes=None), template()], "runs on an unknown instance type"),
        ([eks(instanceTypes=["g5.xlarge", "g6.xlarge"])], "mixes machines with different GPUs: g5.xlarge, g6.xlarge"),
        ([eks(instanceTypes=["m5.large"])], "runs on m5.large, which is not in the catalogue"),
        ([eks(amiType="AL2023_x86_64_STANDARD")], "which has no driver, and the owner of the driver is unknown"),
        ([eks(amiType="CUSTOM")], "has a custom image, which no file names"),
        ([eks(capacityType="CAPACITY_BLOCK")], "uses a Capacity Block that no file names"),
        ([eks(labels={"gpupools/pool": "a"})], "is already the pool a of a gpupools stack"),
        ([template(InstanceType="g5.xlarge")], "none of the files has a node pool with GPUs"),
        (
            [GKE | {"config": {**GKE["config"], "labels": {"gpupools/pool": "a"}}}],
            "is already the pool a of a gpupools",
        ),
        ([GKE | {"config": {**GKE["config"], "machineType": "e2-standard-4"}}], "which is not in the catalogue"),
        ([{"nodegroup": {"nodegroupName": "gpu", "clusterName": "train"}}], "gpu: has no nodegroupArn"),
        ([AKS | {"osType": "Windows"}], "has Windows nodes"),
        ([{"apiVersion": "v1", "kind": "Pod"}], "has no node pool"),
        (
            [eks(instanceTypes=["p4d.24xlarge"], labels={MIG_LABEL: "team-slices"}), template()],
            "whose layout its name does not tell",
        ),
        # What no command line prints.
        ([eks(scalingConfig={"minSize": "x", "maxSize": 4})], "minSize: got 'x', expected a number"),
        ([eks(taints="nvidia.com/gpu=a:NoSchedule")], "taints: got 'nvidia.com/gpu=a:NoSchedule', expected a list"),
        ([eks(launchTemplate={"id": "lt-0a1b2c3d4e5f60718", "version": "$Latest"})], "uses version $Latest"),
        ([AKS | {"availabilityZones": True}], "availabilityZones: got true, expected a list of texts"),
        ([GKE | {"locations": 1.5}], "locations: got 1.5, expected a list of texts"),
    ],
)
def test_pools_that_cannot_be_taken_over_are_refused_with_the_reason(
    tmp_path: Path, pools: list[dict[str, Any]], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(capsys, tmp_path / "Pulumi.moved.yaml", *given(tmp_path, *pools), *SERVED)


def test_a_node_group_keeps_its_launch_template_which_is_listed_with_its_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"InstanceType": "g5.xlarge", "MetadataOptions": {"HttpTokens": "required"}, "UserData": "c2VjcmV0"}
    out = tmp_path / "Pulumi.moved.yaml"

    files = given(tmp_path, eks(instanceTypes=None), template(**data))
    assert main(["import", *files, "--out", str(out), *SERVED]) == 0
    said = capsys.readouterr().out
    assert '  keeps: LaunchTemplate.metadataOptions.httpTokens = "required"' in said
    assert "c2VjcmV0" not in said
    (pool,) = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"].values()
    assert pool["adopt"]["launch_template"] == {"id": "lt-0a1b2c3d4e5f60718", "version": 3}
    found = preview_program(PROGRAM, "moved", "gpupools", yaml.safe_load(out.read_text(encoding="utf-8"))["config"])
    (group,) = [each for each in found.resources if each.type == "aws:eks/nodeGroup:NodeGroup"]
    assert group.inputs["launchTemplate"] == {"id": "lt-0a1b2c3d4e5f60718", "version": "3"}
    assert "instanceTypes" in group.options["ignoreChanges"]  # the template has it, and EKS takes it in one place only
    assert not [each for each in found.resources if each.type.startswith("aws:ec2/")]


def test_a_node_group_and_its_template_are_read_out_of_a_terraform_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    group = {
        "id": "train:gpu",
        "arn": ARN,
        "cluster_name": "train",
        "node_group_name": "gpu",
        "ami_type": "AL2023_x86_64_NVIDIA",
        "instance_types": ["g5.xlarge"],
        "launch_template": [{"id": "lt-0a1b2c3d4e5f60718", "name": "gpu", "version": "3"}],
        "node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes",
        "scaling_config": [{"desired_size": 2, "max_size": 4, "min_size": 0}],
        "subnet_ids": ["subnet-0000000a"],
        "update_config": [{"max_unavailable": 1, "max_unavailable_percentage": 0}],
    }
    disk = {"device_name": "/dev/xvda", "ebs": [{"volume_size": 300}]}
    lt = {"id": "lt-0a1b2c3d4e5f60718", "latest_version": 3, "name": "gpu", "block_device_mappings": [disk]}
    cpu = {**group, "id": "train:cpu", "node_group_name": "cpu", "instance_types": ["m5.large"]}
    resources = [
        {"address": f"{kind}.{name}", "mode": "managed", "type": kind, "name": name, "values": values}
        for kind, name, values in (
            ("aws_eks_node_group", "cpu", cpu),
            ("aws_eks_node_group", "gpu", group),
            ("aws_launch_template", "gpu", lt),
        )
    ]
    text = {"format_version": "1.0", "values": {"root_module": {"resources": resources}}}
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", *given(tmp_path, text), "--out", str(out), *SERVED]) == 0
    said = capsys.readouterr().out
    assert "LaunchTemplate.blockDeviceMappings = [" in said
    written = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]
    assert written["gpupools:clusters"]["train"]["region"] == "eu-central-1"
    assert list(written["gpupools:pools"]) == ["gpu"]


def test_an_agent_pool_is_read_out_of_a_terraform_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/ml/providers"
    cluster += "/Microsoft.ContainerService/managedClusters/serve"
    values = {
        "id": f"{cluster}/agentPools/gpu",
        "name": "gpu",
        "kubernetes_cluster_id": cluster,
        "vm_size": "Standard_NC24ads_A100_v4",
        "auto_scaling_enabled": True,
        "min_count": 0,
        "max_count": 3,
        "node_count": 1,
        "os_disk_size_gb": 128,
        "os_sku": "Ubuntu",
        "priority": "Regular",
        "spot_max_price": -1,
        "upgrade_settings": [{"drain_timeout_in_minutes": 0, "max_surge": "10%"}],
        "zones": ["1"],
        "gpu_driver": "Install",
    }
    kind = "azurerm_kubernetes_cluster_node_pool"
    resource = {"address": f"{kind}.gpu", "mode": "managed", "type": kind, "name": "gpu", "values": values}
    text = {"format_version": "1.0", "values": {"root_module": {"resources": [resource]}}}
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", *given(tmp_path, text), "--out", str(out), *SERVED]) == 0
    assert "azurerm_kubernetes_cluster_node_pool.gpu of " in capsys.readouterr().out
    written = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]
    assert written["gpupools:clusters"]["serve"]["subscription_id"] == "11111111-2222-3333-4444-555555555555"
    assert written["gpupools:pools"]["gpu"]["nodes"] == {"min": 0, "max": 3}
    assert "type" not in written["gpupools:pools"]["gpu"]["adopt"].get("keep", ())


def test_how_bottlerocket_shares_is_read_out_of_the_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = "[settings.kubelet-device-plugins.nvidia]\n"
    shares = f'{plugin}device-sharing-strategy = "time-slicing"\n{plugin[:-2]}.time-slicing]\nreplicas = 4\n'
    out = tmp_path / "Pulumi.moved.yaml"

    files = given(tmp_path, eks(amiType="BOTTLEROCKET_x86_64_NVIDIA"), template(UserData=encoded(shares)))
    assert main(["import", *files, "--out", str(out), "--team", "vision"]) == 0
    (pool,) = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"].values()
    # What Bottlerocket does with time-slicing unless it is told otherwise.
    assert pool["sharing"] == {"mode": "time-slicing", "replicas": 4, "rename": True}
    off = given(
        tmp_path, eks(amiType="BOTTLEROCKET_x86_64_NVIDIA"), template(UserData=encoded(f"{plugin}enabled=false"))
    )
    assert "switches Bottlerocket's device plugin off" in refused(capsys, tmp_path / "Pulumi.b.yaml", *off)


JUNK: tuple[Any, ...] = (None, "", 0, -1, "x", True, [], {}, [1], ["a"], [None], {"a": None}, 1.5, "9" * 400, "\ud800")


@pytest.mark.parametrize("kind", MAKERS)
def test_a_spoiled_description_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    random, file = Random(7), tmp_path / "spoiled.json"
    for _ in range(40):
        pool = MAKERS[kind](random, 0)
        told: Any = json.loads(json.dumps([each for each in (pool.described, pool.beside) if each is not None]))
        above, key = random.choice(list(places(told)))
        above[key] = random.choice(JUNK)
        file.write_text(json.dumps(told), encoding="utf-8")
        with suppress(Rejected):
            wrong: list[Problem] = []
            found = import_pools._read([file], None, wrong)
            if wrong:
                raise Rejected(wrong)
            import_pools._accepted(found, import_pools._config(found, {"device_plugin": "a/b"}, "t"))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a value inside another: what it is in, and its key there."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield value, key
        yield from places(below)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_pool_that_a_stack_beside_it_takes_over_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "Pulumi.first.yaml", tmp_path / "Pulumi.second.yaml"
    assert main(["import", *given(tmp_path, eks()), "--out", str(first), *SERVED]) == 0

    said = refused(capsys, second, *given(tmp_path, eks()), *SERVED)
    assert f"gpu: is already imported as train/gpu of {first}; remove it here" in said
    # Another cluster has another group of that name.
    other = eks(nodegroupArn=ARN.replace("train", "other"), clusterName="other")
    assert main(["import", *given(tmp_path, other), "--out", str(second), *SERVED]) == 0


def test_a_state_of_a_stack_of_this_tool_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = some("gcp")
    component = "urn:pulumi:dev::gpupools::gpupools:index:GpuNodePool::lab-a"
    nodes = f"urn:pulumi:dev::gpupools::gpupools:index:GpuNodePool${pool.kind}::lab-a-nodes"
    resources = [
        {"urn": component, "custom": False, "type": "gpupools:index:GpuNodePool"},
        {"urn": nodes, "custom": True, "type": pool.kind, "id": pool.id, "inputs": pool.inputs, "parent": component},
    ]
    state = {"version": 3, "deployment": {"resources": resources}}

    said = refused(capsys, tmp_path / "Pulumi.moved.yaml", *given(tmp_path, state), *SERVED)
    assert "is already a pool of a gpupools stack" in said


def test_who_serves_the_pools_and_who_may_use_them_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aks = {key: value for key, value in some("azure").described.items() if key != "gpuProfile"}
    gke = dict(some("gcp").described)
    shared = {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": "4"}
    gpu = {"acceleratorType": "nvidia-l4", "acceleratorCount": "1", "gpuSharingConfig": shared}
    gke["config"] = {**gke["config"], "machineType": "g2-standard-8", "accelerators": [gpu]}
    file = given(tmp_path, aks, gke)

    assert "set what serves its GPUs: --device-plugin NAME" in refused(capsys, tmp_path / "Pulumi.a.yaml", file[0])
    assert "set --team NAME" in refused(capsys, tmp_path / "Pulumi.b.yaml", file[1])


LAB = {
    "cloud": "gcp",
    "name": "lab",
    "project": "ml-lab",
    "location": "europe-west4",
    "service_account": "gpu@ml.iam.gserviceaccount.com",
}
SERVE = {
    "cloud": "azure",
    "name": "serve",
    "resource_group": "ml",
    "subscription_id": "00000000-0000-0000-0000-000000000000",
}


def checked(folder: Path, clusters: Mapping[str, Any], pools: Mapping[str, Any]) -> Path:
    file = folder / "Pulumi.dev.yaml"
    config = {"gpupools:clusters": dict(clusters), "gpupools:pools": dict(pools)}
    file.write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    return file


TRAIN = {
    "cloud": "aws",
    "name": "train",
    "region": "eu-central-1",
    "places": "trust",
    "subnet_ids": ["subnet-0000000a"],
}
TRAIN |= {"node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes"}


def group(**keys: Any) -> dict[str, Any]:
    theirs = {"id": "lt-0a1b2c3d4e5f60718", "version": 3}
    pool = {"clusters": ["train"], "instance_type": "g5.xlarge", "nodes": {"max": 4}}
    return {**pool, "adopt": {"name": "gpu", "launch_template": theirs}, **keys}


def gke(**adopt: Any) -> dict[str, Any]:
    return {"clusters": ["lab"], "instance_type": "g2-standard-8", "nodes": {"max": 4}, "adopt": adopt}


@pytest.mark.parametrize(
    ("clusters", "pools", "reason"),
    [
        ({"lab": LAB}, {"a": gke(name="a" * 41)}, "is not a node pool name: up to 40"),
        ({"lab": LAB}, {"a": gke(name="Upper")}, "is not a node pool name: up to 40"),
        ({"lab": LAB}, {"a": gke(name="one"), "b": gke(name="one")}, "is already imported as 'a'"),
        ({"lab": LAB}, {"a": gke(name="one", keep=["nodeConfig.labels"])}, "changes without replacing nodes"),
        ({"lab": LAB}, {"a": gke(name="one", keep=["nodeConfig.metadat"])}, "did you mean 'nodeConfig.metadata'"),
        ({"lab": LAB}, {"a": gke(name="one") | {"first_name": "b"}}, "keeps the name in adopt"),
        (
            {"lab": LAB, "other": LAB | {"name": "other"}},
            {"a": gke(name="one") | {"clusters": ["lab", "other"]}},
            "is a pool of one cluster, but 2 are listed",
        ),
        (
            {"serve": SERVE},
            {"a": {"clusters": ["serve"], "gpu": "A100-80GB", "nodes": {"max": 1}, "adopt": {"name": "a" * 13}}},
            "is not an agent pool name: up to 12",
        ),
        (
            {"serve": {key: value for key, value in SERVE.items() if key != "subscription_id"}},
            {"a": {"clusters": ["serve"], "gpu": "A100-80GB", "nodes": {"max": 1}, "adopt": {"name": "one"}}},
            "which the cluster does not name; set subscription_id of the cluster",
        ),
        ({"train": TRAIN}, {"a": group(adopt={"name": "g" * 63 + "u"})}, "at most 63 characters"),
        ({"train": TRAIN}, {"a": group(adopt={"name": "-gpu"})}, "is not a node group name: up to 63"),
        (
            {"train": TRAIN},
            {"a": group(disk_gib=300)},
            "disk_gib is in the launch template, which gpupools does not change for an adopted",
        ),
        ({"train": TRAIN}, {"a": group(network={"max_pods": 50})}, "network.max_pods is in the launch template"),
        (
            {"train": TRAIN},
            {"a": group(overrides={"aws": {"LaunchTemplate": {"keyName": "ops"}}})},
            "LaunchTemplate is in the launch template",
        ),
        (
            {"train": TRAIN},
            {"a": group(adopt={"name": "gpu", "keep": ["LaunchTemplate.userData"]})},
            "LaunchTemplate.userData is in the launch template",
        ),
        (
            {"lab": LAB},
            {"a": gke(name="one", launch_template={"id": "lt-0a1b2c3d", "version": 1})},
            "no launch templates",
        ),
    ],
)
def test_check_refuses_what_no_pool_can_be_adopted_as(
    tmp_path: Path, clusters: Mapping[str, Any], pools: Mapping[str, Any], reason: str, capsys: Any
) -> None:
    assert main(["check", str(checked(tmp_path, clusters, pools))]) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"disk_gib": 200}, {"disk_gib": 400}, "adopt.keep lists nodeConfig.diskSizeGb, so it does not change"),
        ({}, {"capacity": {"mode": "spot"}}, "an adopted pool keeps its name, so no replacement can be created"),
        (
            {"adopt": None},
            {},
            "is already a pool of this stack, and this update would replace it with an existing pool",
        ),
        ({}, {"labels": {"team": "vision"}}, ""),
        ({}, {"adopt": None}, ""),
        ({}, {"renamed_from": "a"}, ""),
    ],
)
def test_an_edit_that_an_adopted_pool_cannot_take_is_refused(
    tmp_path: Path, before: Mapping[str, Any], after: Mapping[str, Any], reason: str
) -> None:
    pool = gke(name="one", keep=["nodeConfig.diskSizeGb"])

    def planned(keys: Mapping[str, Any]) -> Any:
        given = {key: value for key, value in (pool | dict(keys)).items() if value is not None}
        name = "b" if "renamed_from" in keys else "a"
        return check_stack_file(checked(tmp_path, {"lab": LAB}, {name: given}), clouds()).plan

    was = planned(before)
    earlier = Earlier(tuple(record(each, was.stack) for each in was.pools))
    check_pool = [str(each.problem) for each in judge(earlier, planned(after), clouds()).forbidden.values()]

    assert bool(check_pool) is bool(reason)
    assert reason in "".join(check_pool)


def theirs(version: int = 3, identifier: str = "lt-0a1b2c3d4e5f60718") -> dict[str, Any]:
    return {"name": "gpu", "launch_template": {"id": identifier, "version": version}}


SLICES = {"mode": "time-slicing", "replicas": 4}
BLOCK: dict[str, Any] = {
    "instance_type": "p5.48xlarge",
    "capacity": {"mode": "capacity-block", "name": "cr-0a1b2c3d4e5f60718"},
}


@pytest.mark.parametrize(
    ("before", "after", "effect", "reason"),
    [
        ({}, {"adopt": theirs(version=4)}, "rolling", ""),
        ({}, {"adopt": theirs(identifier="lt-0b1b2c3d4e5f60718")}, "refused", "an adopted pool keeps its name"),
        ({}, {"instance_type": "g5.2xlarge"}, "refused", "an adopted pool keeps its name"),
        ({}, {"tags": {"team": "vision"}}, "in-place", ""),
        ({}, {"taints": ["team=vision:NoSchedule"]}, "in-place", ""),
        ({"adopt": theirs() | {"gpu_taint": "true"}}, {"adopt": theirs()}, "in-place", ""),
        (
            {"sharing": SLICES, "trust": {"team": "vision"}},
            {"sharing": SLICES | {"replicas": 8}},
            "refused",
            "it is set in the launch template, which gpupools does not manage",
        ),
        (
            BLOCK,
            {"capacity": BLOCK["capacity"] | {"name": "cr-0b1b2c3d4e5f60718"}},
            "refused",
            "in the launch template",
        ),
    ],
)
def test_what_an_edit_does_to_an_adopted_node_group(
    tmp_path: Path, before: Mapping[str, Any], after: Mapping[str, Any], effect: str, reason: str
) -> None:
    def planned(keys: Mapping[str, Any]) -> Any:
        return check_stack_file(checked(tmp_path, {"train": TRAIN}, {"a": group(**keys)}), clouds()).plan

    was, now = planned(before), planned({**before, **after})
    (change,) = diff(was, now, clouds())
    earlier = Earlier(tuple(record(each, was.stack) for each in was.pools))
    check_pool = [str(each.problem) for each in judge(earlier, now, clouds()).forbidden.values()]

    assert change.effect == effect
    assert reason in "; ".join(change.reasons())
    fits = "pods that tolerate only the old value of the GPU taint (operator Equal) no longer fit"
    assert (fits in change.fields[0].detail) is ("gpu_taint" in before.get("adopt", {}))
    assert bool(check_pool) is (effect == "refused")
    assert reason in "".join(check_pool)


@pytest.mark.parametrize(
    ("mig", "plugin", "sharing"),
    [
        ("a100-40gb-all-1g.5gb", "mig-single", {"mode": "mig", "profile": "1g.5gb"}),
        ("a100-40gb-all-1g.5gb", "mig-mixed", {"mode": "mig", "profile": "1g.5gb", "strategy": "mixed"}),
        ("all-1g.5gb", "", {"mode": "mig", "profile": "1g.5gb"}),
        ("all-balanced", "mig-mixed", {"mode": "mig", "layout": ["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"]}),
        (
            "a100-40gb-custom-3g.20gb-2x2g.10gb",
            "mig-mixed",
            {"mode": "mig", "layout": ["3g.20gb", "2g.10gb", "2g.10gb"]},
        ),
        (
            "a100-40gb-custom-gpu0.1.2.3.4.5-off_gpu6.7-7g.40gb",
            "mig-mixed",
            {"mode": "mig", "layout": {6: ["7g.40gb"], 7: ["7g.40gb"]}},
        ),
        (
            "a100-40gb-all-3g.20gb",
            "mig-mixed-time-slicing-2-3g.20gb",
            {
                "mode": "mig",
                "profile": "3g.20gb",
                "strategy": "mixed",
                "share": {"mode": "time-slicing", "replicas": 2},
            },
        ),
        ("", "time-slicing-4-shared", {"mode": "time-slicing", "replicas": 4, "rename": True}),
        ("all-disabled", "", None),
        ("", "four-each", None),
    ],
)
def test_labels_tell_how_the_operator_and_the_plugin_share(
    tmp_path: Path, mig: str, plugin: str, sharing: object, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {key: value for key, value in ((MIG_LABEL, mig), (PLUGIN_LABEL, plugin)) if value}
    pool = eks(amiType="AL2023_x86_64_NVIDIA", instanceTypes=["p4d.24xlarge"], labels=labels)
    out = tmp_path / "Pulumi.moved.yaml"

    assert main(["import", *given(tmp_path, pool, template()), "--out", str(out), *SERVED]) == 0
    said = capsys.readouterr().out
    (keys,) = yaml.safe_load(out.read_text(encoding="utf-8"))["config"]["gpupools:pools"].values()
    assert keys.get("sharing") == sharing
    assert keys["software"] == ("gpu-operator" if mig and sharing else "device-plugin")
    assert ("must have all-" in said) is (mig.startswith("all-") and sharing is not None)
    if mig.startswith("a100"):
        assert f"changes in place: NodeGroup.labels.{MIG_LABEL}" not in said


def existing(resource: Mapping[str, Any], template: str) -> dict[str, Any]:
    """Return a resource of a preview as the state of another tool has it, without what only this tool writes."""
    kind, name = str(resource["type"]), str(resource["name"])
    inputs = json.loads(json.dumps(resource["inputs"]))
    (labels,) = [each for each in (inputs, inputs.get("nodeConfig", {})) if {"labels", "nodeLabels"} & set(each)] or [
        {}
    ]
    for key in {"labels", "nodeLabels"} & set(labels):
        labels[key] = {name: value for name, value in labels[key].items() if not name.startswith("gpupools/")}
    inputs["tags"] = {key: value for key, value in inputs.get("tags", {}).items() if not key.startswith("gpupools:")}
    if kind.startswith("aws:eks"):
        inputs["launchTemplate"] = {"id": template, "version": "3"}
        identifier = f"{inputs['clusterName']}:{name}"
    elif kind.startswith("gcp"):
        where = f"projects/{inputs['project']}/locations/{inputs['location']}/clusters/{inputs['cluster']}"
        identifier = f"{where}/nodePools/{inputs.get('name', name)}"
    elif "AgentPool" in kind:
        group = f"/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/{inputs['resourceGroupName']}"
        cluster = f"{group}/providers/Microsoft.ContainerService/managedClusters/{inputs['resourceName']}"
        identifier = f"{cluster}/agentPools/{inputs.get('agentPoolName', name)}"
    else:
        identifier = template
    urn = f"urn:pulumi:old::old::{kind}::{name}"
    return {"urn": urn, "type": kind, "custom": True, "id": identifier, "inputs": inputs, "outputs": inputs}


def test_pools_of_every_way_of_sharing_are_imported_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "stacks" / "Pulumi.matrix.yaml"
    assert main(["preview", str(path), "--json"]) == 0
    resources = json.loads(capsys.readouterr().out)["resources"]
    plans = {f"{each.cluster}-{each.name}": each for each in check_stack_file(path, clouds()).plan.pools}
    kinds = ("NodeGroup", "LaunchTemplate", "NodePool", "AgentPool")
    parents: dict[str, list[Any]] = {}
    for each in resources:
        if each["custom"] and each["type"].endswith(kinds):
            parents.setdefault(each["parent"].rpartition("::")[2], []).append(each)
    ways = {
        (plan.cloud, plan.sharing.kind, plan.software if plan.sharing.mig else ""): name
        for name, plan in plans.items()
        if name in parents  # the others are pools that AKS manages, which are not imported
    }
    for count, name in enumerate(ways.values()):
        made, planned = parents[name], plans[name]
        state = {"deployment": {"resources": [existing(each, f"lt-{count:017x}") for each in made]}, "version": 3}
        out = tmp_path / f"Pulumi.p{count}.yaml"
        assert main(["import", *given(tmp_path, state), "--out", str(out), *SERVED]) == 0
        (pool,) = check_stack_file(out, clouds()).plan.pools
        if planned.sharing.fractions is None:  # of which only labels of gpupools are on the pool
            assert (name, pool.sharing) == (name, planned.sharing)
        if "mig" in planned.sharing.kind:
            assert (name, pool.software) == (name, planned.software)
        out.unlink()
