"""A newcomer's first hour on each cloud: the description of a cluster, `new`, `check`, `preview`."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main

CERTIFICATE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM="
SUBNET = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/rg-net/providers/Microsoft.Network/virtualNetworks/vnet/subnets/aks"  # noqa: E501


def output(value: Any, *, sensitive: bool = False) -> dict[str, Any]:
    """Return an output as `terraform output -json` prints it."""
    return {"sensitive": sensitive, "type": "dynamic", "value": value}


EKS_MODULE = {
    "cluster_name": "ml-prod",
    "cluster_arn": "arn:aws:eks:us-east-2:210987654321:cluster/ml-prod",
    "cluster_endpoint": "https://3F2A1B.gr7.us-east-2.eks.amazonaws.com",
    "cluster_certificate_authority_data": CERTIFICATE,
    "cluster_version": "1.34",
    "cluster_security_group_id": "sg-0123456789abcdef0",
    "cluster_primary_security_group_id": "sg-0fedcba9876543210",
    "node_security_group_id": "sg-0123456789abcdef1",
    "eks_managed_node_groups": {
        "system": {"iam_role_arn": "arn:aws:iam::210987654321:role/system-eks-node-group", "node_group_taints": []}
    },
}
VPC_MODULE = {"vpc_id": "vpc-0a", "private_subnets": ["subnet-0aa11bb22cc33dd44", "subnet-0aa11bb22cc33dd45"]}
EKS = {"vpc": output(VPC_MODULE), "eks": output(EKS_MODULE), "password": output("x", sensitive=True)}
EKS_OUTPUT_BY_OUTPUT = {key: output(value) for key, value in {**VPC_MODULE, **EKS_MODULE}.items()}
EKS_CLUSTER = {
    "cluster": {
        "name": "ml-prod",
        "arn": "arn:aws:eks:us-east-2:210987654321:cluster/ml-prod",
        "version": "1.34",
        "endpoint": "https://3F2A1B.gr7.us-east-2.eks.amazonaws.com",
        "resourcesVpcConfig": {
            "subnetIds": ["subnet-0aa11bb22cc33dd44"],
            "securityGroupIds": ["sg-0123456789abcdef0"],
            "clusterSecurityGroupId": "sg-0fedcba9876543210",
        },
        "certificateAuthority": {"data": CERTIFICATE},
        "computeConfig": {"enabled": True},
    }
}
AKS: dict[str, Any] = {
    "name": "aks-ml-prod",
    "id": "/subscriptions/11111111-2222-3333-4444-555555555555/resourcegroups/rg-ml-prod/providers"
    "/Microsoft.ContainerService/managedClusters/aks-ml-prod",
    "location": "westeurope",
    "currentKubernetesVersion": "1.34.3",
    "aadProfile": {"managed": True, "tenantId": "99999999-2222-3333-4444-555555555555"},
    "agentPoolProfiles": [
        {
            "name": "system",
            "mode": "System",
            "vmSize": "Standard_D4ds_v5",
            "nodeTaints": ["CriticalAddonsOnly=true:NoSchedule"],
            "vnetSubnetId": SUBNET,
        }
    ],
}
GKE: dict[str, Any] = {
    "name": "lab",
    "location": "europe-west4",
    "locations": ["europe-west4-a", "europe-west4-b"],
    "selfLink": "https://container.googleapis.com/v1/projects/ml-dev/locations/europe-west4/clusters/lab",
    "endpoint": "34.90.17.4",
    "currentMasterVersion": "1.34.1-gke.1829001",
    "masterAuth": {"clusterCaCertificate": CERTIFICATE},
    "nodePools": [
        {
            "config": {
                "serviceAccount": "gpu@ml-dev.iam.gserviceaccount.com",
                "taints": [{"key": "team", "value": "web", "effect": "NO_SCHEDULE"}],
            }
        }
    ],
}
OPERATOR = ["--software", "gpu-operator"]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty project, in which the commands run."""
    (tmp_path / "Pulumi.yaml").write_text("name: gpus\nruntime: python\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def described(project: Path, document: object, *flags: str) -> tuple[int, dict[str, Any]]:
    """Run `new` with a description; return its code, and the cluster of the file."""
    (project / "cluster.json").write_text(json.dumps(document), encoding="utf-8")
    code = main(["new", "dev", "--describe", "cluster.json", *flags])
    if code:
        return code, {}
    assert main(["check", "Pulumi.dev.yaml"]) == 0
    config = yaml.safe_load((project / "Pulumi.dev.yaml").read_text(encoding="utf-8"))["config"]
    (cluster,) = config["gpupools:clusters"].values()
    return code, cluster


def previewed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the offline preview of the new file."""
    capsys.readouterr()
    assert main(["preview", "--json", "Pulumi.dev.yaml"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def declared(preview: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the inputs of the only resource of a type."""
    (found,) = (each for each in preview["resources"] if each["type"] == kind)
    inputs: dict[str, Any] = found["inputs"]
    return inputs


@pytest.mark.parametrize("outputs", [EKS, EKS_OUTPUT_BY_OUTPUT], ids=["whole modules", "one by one"])
def test_eks_by_terraform(outputs: dict[str, Any], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, cluster = described(project, outputs, "--gpu", "A10G")

    assert code == 0
    assert cluster["security_group_ids"] == ["sg-0123456789abcdef1"]
    assert (cluster["subnet_ids"], cluster["endpoint"]) == (
        VPC_MODULE["private_subnets"],
        EKS_MODULE["cluster_endpoint"],
    )
    assert cluster["runtime"] == {"kubernetes": "1.34"}
    preview = previewed(capsys)
    assert declared(preview, "aws:ec2/launchTemplate:LaunchTemplate")["vpcSecurityGroupIds"] == ["sg-0123456789abcdef1"]
    group = declared(preview, "aws:eks/nodeGroup:NodeGroup")
    assert (group["subnetIds"], group["nodeRoleArn"]) == (cluster["subnet_ids"], cluster["node_role_arn"])
    (runtime,) = preview["runtimes"]
    assert runtime["pods"]["a10g"]["nodeSelector"]["gpupools/pool"] == "a10g"


def test_aks_with_a_tainted_system_pool_and_its_own_subnet(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    access = ["--kubeconfig", "/etc/kube/serve"]
    code, cluster = described(project, AKS, "--gpu", "A100-80GB", *OPERATOR, *access)

    assert code == 0
    assert cluster["location"] == "westeurope"
    assert cluster["runtime"] == {"kubernetes": "1.34", "cpu_taints": ["CriticalAddonsOnly=true:NoSchedule"]}
    preview = previewed(capsys)
    assert declared(preview, "azure-native:containerservice:AgentPool")["vnetSubnetID"] == SUBNET
    (runtime,) = preview["runtimes"]
    (operator,) = (each for each in runtime["releases"] if each["chart"] == "gpu-operator")
    tolerated = [each["key"] for each in operator["values"]["operator"]["tolerations"]]
    assert "CriticalAddonsOnly" in tolerated
    assert runtime["pods"]["a100"]["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}
    ]


def test_aks_without_access_says_first_that_no_pool_offers_gpus(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, cluster = described(project, AKS, "--gpu", "T4")

    assert code == 0
    assert cluster["subnet_id"] == SUBNET
    assert cluster["runtime"] == {"kubernetes": "1.34", "cpu_taints": ["CriticalAddonsOnly=true:NoSchedule"]}
    out, err = capsys.readouterr()
    assert "not taken over: access to the API is not in it: run az aks get-credentials, and add --kubeconfig" in out
    assert "no pool of the cluster offers GPUs (t4): nothing is installed in it" in err.splitlines()[0]


def test_gke_standard(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, cluster = described(project, GKE, "--gpu", "L4", *OPERATOR)

    assert code == 0
    assert cluster["node_locations"] == GKE["locations"]
    assert cluster["runtime"]["cpu_taints"] == ["team=web:NoSchedule"]
    preview = previewed(capsys)
    pool = declared(preview, "gcp:container/nodePool:NodePool")
    assert pool["nodeLocations"] == GKE["locations"]
    assert pool["nodeConfig"]["serviceAccount"] == "gpu@ml-dev.iam.gserviceaccount.com"


def test_untainted_cpu_nodes_need_no_taints(project: Path) -> None:
    pools = [*AKS["agentPoolProfiles"], {"name": "web", "vmSize": "Standard_D8s_v5", "vnetSubnetId": SUBNET}]
    _, cluster = described(project, {**AKS, "agentPoolProfiles": pools}, "--gpu", "T4", "--kubeconfig", "/k", *OPERATOR)

    assert cluster["runtime"] == {"kubernetes": "1.34"}


def test_what_arm_shows_is_read_like_what_the_cli_shows(project: Path) -> None:
    """`az rest` nests the same under `properties`, and has other capitals."""
    (pool,) = AKS["agentPoolProfiles"]
    renamed = {("vnetSubnetID" if key == "vnetSubnetId" else key): value for key, value in pool.items()}
    top = {key: AKS[key] for key in ("name", "id")}
    inside = {key: value for key, value in AKS.items() if key not in ("name", "id", "location")}
    inside["agentPoolProfiles"] = [renamed]
    _, cluster = described(project, {**top, "location": "West Europe", "properties": inside}, "--gpu", "T4")

    assert (cluster["subnet_id"], cluster["location"]) == (SUBNET, "westeurope")


TUTORIAL = {  # of a cluster by terraform-aws-eks, with the outputs of HashiCorp's tutorial
    "cluster_name": output("ml-prod"),
    "region": output("us-east-2"),
    "cluster_endpoint": output(EKS_MODULE["cluster_endpoint"]),
    "cluster_security_group_id": output("sg-0123456789abcdef0"),
}


@pytest.mark.parametrize(
    "document",
    [{"cluster": {k: v for k, v in EKS_CLUSTER["cluster"].items() if k != "computeConfig"}}, TUTORIAL],
    ids=["describe-cluster", "terraform output"],
)
def test_further_security_groups_are_the_first_warning_until_the_file_names_them(
    document: dict[str, Any], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--set", "node_role_arn=arn:aws:iam::210987654321:role/n", "--kubeconfig", "/etc/kube/k", *OPERATOR]
    more += ["--set", "subnet_ids=subnet-0aa11bb22cc33dd44"] if "cluster" not in document else []
    code, cluster = described(project, document, "--gpu", "A10G", *more)
    assert (code, cluster["security_group_ids"]) == (0, [])
    assert "aws ec2 describe-instances, and set security_group_ids" in capsys.readouterr().out

    assert main(["check", "Pulumi.dev.yaml"]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert "the cluster has further security groups, and the nodes of a10g are in none of them" in first
    assert "set security_group_ids here" in first
    file = project / "Pulumi.dev.yaml"
    file.write_text(file.read_text().replace("security_group_ids: []", "security_group_ids: [sg-0123456789abcdef1]"))
    assert main(["check", "Pulumi.dev.yaml"]) == 0
    assert "security group" not in capsys.readouterr().err
    template = declared(previewed(capsys), "aws:ec2/launchTemplate:LaunchTemplate")
    assert template["vpcSecurityGroupIds"] == ["sg-0123456789abcdef1"]


def test_outputs_that_say_nothing_of_security_groups_are_not_taken_for_complete(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = {"node_security_group_id", "cluster_security_group_id", "cluster_primary_security_group_id"}
    outputs = {key: value for key, value in EKS_OUTPUT_BY_OUTPUT.items() if key not in silent}
    code, cluster = described(project, outputs, "--gpu", "A10G")

    assert (code, "security_group_ids" in cluster) == (0, False)
    assert (
        "not taken over: whether the nodes need a security group of their own is not among" in capsys.readouterr().out
    )


def test_what_gcloud_prints_by_default_is_read_too(project: Path) -> None:
    (project / "cluster.yaml").write_text(yaml.safe_dump(GKE), encoding="utf-8")

    assert main(["new", "dev", "--describe", "cluster.yaml", "--gpu", "L4"]) == 0
    assert "service_account: gpu@ml-dev.iam" in (project / "Pulumi.dev.yaml").read_text(encoding="utf-8")


def test_eks_auto_mode_and_security_groups_are_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    role = ["--set", "node_role_arn=arn:aws:iam::210987654321:role/n"]
    code, cluster = described(project, EKS_CLUSTER, "--gpu", "A10G", *role)

    assert code == 0
    assert cluster["runtime"] == {"kubernetes": "1.34", "existing": {"karpenter": "EKS Auto Mode"}}
    assert cluster["security_group_ids"] == []
    out, err = capsys.readouterr()
    assert any("the cluster has further security groups" in line for line in err.splitlines()[:2])
    assert "EKS Auto Mode scales only nodes that it makes itself, so not those of a10g; run Cluster Autoscaler" in err
    assert "the security groups of the nodes are not in it" in out


def test_gke_by_terraform_without_what_the_module_calls_sensitive(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = {
        "cluster_id": output("projects/ml-dev/locations/europe-west4/clusters/lab"),
        "name": output("lab"),
        "zones": output(["europe-west4-a"]),
        "service_account": output("gpu@ml-dev.iam.gserviceaccount.com"),
        "endpoint": output("34.90.17.4", sensitive=True),
        "ca_certificate": output(CERTIFICATE, sensitive=True),
    }
    code, cluster = described(project, outputs, "--gpu", "L4")

    assert code == 0
    assert (cluster["project"], cluster["location"], "endpoint" in cluster) == ("ml-dev", "europe-west4", False)
    assert "sensitive outputs endpoint, ca_certificate; add --kubeconfig PATH" in capsys.readouterr().out


def test_aks_by_terraform(project: Path) -> None:
    outputs = {"aks_id": output(AKS["id"]), "aks_name": output("aks-ml-prod"), "location": output("westeurope")}
    code, cluster = described(project, outputs, "--gpu", "T4")

    assert code == 0
    assert (cluster["resource_group"], cluster["location"]) == ("rg-ml-prod", "westeurope")


@pytest.mark.parametrize(
    ("document", "flags", "says"),
    [
        (
            GKE | {"autopilot": {"enabled": True}},
            [],
            "is an Autopilot cluster, which has no node pools to declare; use",
        ),
        (GKE, ["--cloud", "azure"], "describes a cluster of gcp, not of azure; use the description of the right"),
        ([AKS, {**AKS, "name": "two"}], [], "cluster.json: has 2 documents: 'aks-ml-prod', 'two'; describe a single"),
        ({"eks": output(EKS_MODULE), "old": output(EKS_MODULE)}, [], "has the outputs of 2 clusters; keep those of a"),
        (
            {"gke": output({}, sensitive=True)},
            [],
            "its sensitive outputs are not read: gke; output the module's values",
        ),
        ({"clusters": ["a", "b"]}, [], "describes no cluster; write it with one of: aws eks describe-cluster"),
        ({"name": "lab", "status": "RUNNING"}, [], "describes no cluster; write it with one of:"),
    ],
    ids=["Autopilot", "another cloud", "a list", "two modules", "sensitive", "names only", "an older shape"],
)
def test_a_description_that_cannot_be_used_is_one_line_with_the_fix(
    document: object, flags: list[str], says: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _ = described(project, document, "--gpu", "T4", *flags)

    assert code == 1
    told, *rest = capsys.readouterr().err.splitlines()
    assert told.startswith("gpupools new: --describe: ")
    assert says in told
    assert rest == ["gpupools new: no file was written"]


def test_two_documents_in_one_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "cluster.json").write_text(json.dumps(AKS) * 2, encoding="utf-8")

    assert main(["new", "dev", "--describe", "cluster.json", "--gpu", "T4"]) == 1
    assert (
        "cluster.json: has 2 documents: 'aks-ml-prod', 'aks-ml-prod'; describe a single cluster, and repeat"
        in capsys.readouterr().err
    )
