"""`gpupools new ENV`: a stack file that check takes, from flags, a cluster's description, or answers at a terminal."""

import io
import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import botocore.session  # type: ignore[import-untyped]
import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from google.cloud import container_v1

from gpupools.cli.main import main
from gpupools.plan.discovery import listed
from gpupools.providers import clouds
from gpupools.stackfile.reader import read_stack_file
from tests.gpupools.test_schema import SCHEMA

PROJECT = "name: gpus\nruntime: python\nstackConfigDir: stacks\n"
SUBNETS = "subnet-0a1b2c3d4e5f60718,subnet-0b1c2d3e4f5061728"
ROLE = "arn:aws:iam::123456789012:role/gpu-nodes"
EKS = ["--cloud", "aws", "--cluster", "train", "--set", "region=eu-central-1"]
EKS += ["--set", f"subnet_ids={SUBNETS}", "--set", f"node_role_arn={ROLE}"]
AKS = ["--cloud", "azure", "--cluster", "serve", "--set", "resource_group=ml", "--set", "encryption_at_host=true"]
GKE = ["--cloud", "gcp", "--cluster", "lab-1", "--set", "project=ml-dev", "--set", "location=europe-west4"]
GKE += ["--set", "service_account=gpu@ml-dev.iam.gserviceaccount.com"]
ON_L4 = ["dev", *EKS, "--gpu", "L4"]
MPS = ["--gpu", "T4", "--sharing", "mps", "--replicas", "2", "--team", "a"]


def in_region(region: str) -> list[str]:
    """Return the flags of a cluster on EKS that is elsewhere."""
    return [each.replace("region=eu-central-1", f"region={region}") for each in EKS]


# As the clouds' own commands print them, without what no key is made of.
EKS_CLUSTER = {
    "cluster": {
        "name": "train",
        "arn": "arn:aws:eks:eu-central-1:123456789012:cluster/train",
        "version": "1.34",
        "endpoint": "https://0A1B2C3D.gr7.eu-central-1.eks.amazonaws.com",
        "roleArn": "arn:aws:iam::123456789012:role/eks-cluster",
        "resourcesVpcConfig": {"subnetIds": ["subnet-0000000c", "subnet-0000000d"], "vpcId": "vpc-0a"},
        "certificateAuthority": {"data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"},
    }
}
EKS_GROUP = {
    "nodegroup": {
        "nodegroupName": "system",
        "nodegroupArn": "arn:aws:eks:eu-central-1:123456789012:nodegroup/train/system/0a1b",
        "clusterName": "train",
        "subnets": ["subnet-0000000a"],
        "nodeRole": ROLE,
    }
}
AKS_CLUSTER = {
    "id": "/subscriptions/0a1b2c3d-0000-0000-0000-000000000000/resourcegroups/ml/providers"
    "/Microsoft.ContainerService/managedClusters/serve",
    "name": "serve",
    "location": "westeurope",
    "resourceGroup": "ml",
    "type": "Microsoft.ContainerService/ManagedClusters",
}
GKE_CLUSTER = {
    "name": "lab",
    "location": "europe-west4",
    "selfLink": "https://container.googleapis.com/v1/projects/ml-dev/locations/europe-west4/clusters/lab",
    "endpoint": "34.90.17.4",
    "masterAuth": {"clusterCaCertificate": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"},
    "nodePools": [
        {"config": {"serviceAccount": "default"}},
        {"config": {"serviceAccount": "gpu@ml-dev.iam.gserviceaccount.com"}},
    ],
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty project, in which the command runs."""
    (tmp_path / "Pulumi.yaml").write_text(PROJECT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(project: Path, env: str = "dev") -> dict[str, Any]:
    """Return what a new file says, judged by check and by its schema."""
    file = project / "stacks" / f"Pulumi.{env}.yaml"
    assert main(["check", str(file)]) == 0
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert dict(read_stack_file(file).config) == {k.partition(":")[2]: v for k, v in document["config"].items()}
    jsonschema.Draft7Validator(SCHEMA).validate(document)
    return dict(document["config"])


@pytest.mark.parametrize(
    ("arguments", "pool"),
    [
        ([*EKS, "--gpu", "L4"], {"l4": {"gpu": "L4"}}),
        ([*EKS, "--gpu", "l4", "--pool", "small", "--max-nodes", "7"], {"small": {"gpu": "L4", "nodes": {"max": 7}}}),
        (
            [*EKS, "--gpu", "L4", "--sharing", "time-slicing", "--replicas", "4", "--team", "research"],
            {"l4": {"sharing": {"mode": "time-slicing", "replicas": 4}, "trust": {"team": "research"}}},
        ),
        (
            [each.replace("eu-central-1", "us-west-2") for each in EKS] + ["--gpu", "B200"],
            {"b200": {"gpus_per_node": 8}},
        ),
        (
            [*AKS, "--gpu", "A100-80GB", "--sharing", "mig", "--profile", "1g.10gb", "--kubeconfig", "/etc/kube/serve"],
            {"a100": {"sharing": {"mode": "mig", "profile": "1g.10gb"}}},
        ),
        ([*GKE, "--gpu", "H200", "--capacity", "spot"], {"h200": {"gpu": "H200-141GB", "capacity": {"mode": "spot"}}}),
        (
            [*GKE, "--instance-type", "a3-megagpu-8g", "--pool", "h100", "--capacity", "spot"],
            {"h100": {"instance_type": "a3-megagpu-8g", "capacity": {"mode": "spot"}}},
        ),
    ],
    ids=lambda value: " ".join(value[-4:]) if isinstance(value, list) else "",
)
def test_flags_make_a_file_that_is_ready(
    arguments: list[str], pool: dict[str, dict[str, Any]], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "dev", *arguments]) == 0

    said = capsys.readouterr().out
    assert [line.partition(": ")[0] for line in said.splitlines() if ": written" in line] == [
        "stacks/stack-file.schema.json",
        "stacks/Pulumi.dev.yaml",
    ]
    made = written(project)["gpupools:pools"]
    assert set(made) == set(pool)
    for key, keys in pool.items():
        assert keys.items() <= made[key].items()


@pytest.mark.parametrize(
    ("files", "more", "keys"),
    [
        (
            [EKS_CLUSTER, EKS_GROUP],
            [],
            {
                "cloud": "aws",
                "name": "train",
                "region": "eu-central-1",
                "subnet_ids": ["subnet-0000000a"],
                "node_role_arn": ROLE,
            },
        ),
        ([EKS_CLUSTER], ["--set", f"node_role_arn={ROLE}"], {"subnet_ids": ["subnet-0000000c", "subnet-0000000d"]}),
        (
            [AKS_CLUSTER],
            [],
            {"cloud": "azure", "resource_group": "ml", "subscription_id": "0a1b2c3d-0000-0000-0000-000000000000"},
        ),
        (
            [GKE_CLUSTER],
            [],
            {"project": "ml-dev", "service_account": "gpu@ml-dev.iam.gserviceaccount.com", "endpoint": "34.90.17.4"},
        ),
    ],
    ids=["a cluster and a node group", "a cluster on EKS", "on AKS", "on GKE"],
)
def test_a_described_cluster_needs_no_flags(
    files: list[Any], more: list[str], keys: dict[str, Any], project: Path
) -> None:
    arguments = []
    for number, each in enumerate(files):
        (project / f"{number}.json").write_text(json.dumps(each), encoding="utf-8")
        arguments += ["--describe", f"{number}.json"]

    assert main(["new", "dev", *arguments, *more, "--gpu", "T4"]) == 0
    (cluster,) = written(project)["gpupools:clusters"].values()
    assert keys.items() <= cluster.items()


@pytest.mark.parametrize(
    ("files", "more", "says"),
    [
        (
            [EKS_CLUSTER, {"nodegroup": {**EKS_GROUP["nodegroup"], "clusterName": "old"}}],
            [],
            "name is 'train' and 'old'",
        ),
        ([EKS_CLUSTER], ["--cluster", "old"], "name is 'train' and 'old'"),
        ([EKS_CLUSTER], ["--set", "region=us-east-1"], "region is 'eu-central-1' and 'us-east-1'"),
        ([AKS_CLUSTER], ["--set", "resource_group=old"], "resource_group is 'ml' and 'old'"),
        ([GKE_CLUSTER], ["--set", "project=old"], "project is 'ml-dev' and 'old'"),
        ([EKS_CLUSTER, GKE_CLUSTER], [], "describes clusters of aws and gcp; describe a single cluster"),
        ([GKE_CLUSTER | {"autopilot": {"enabled": True}}], [], "is an Autopilot cluster"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_description_of_another_cluster_is_refused(
    files: list[Any], more: list[str], says: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = []
    for number, each in enumerate(files):
        (project / f"{number}.json").write_text(json.dumps(each), encoding="utf-8")
        arguments += ["--describe", f"{number}.json"]

    assert main(["new", "dev", *arguments, *more, "--gpu", "T4"]) == 1
    said = capsys.readouterr().err
    assert "--describe: " in said
    assert says in said
    assert not list(project.rglob("Pulumi.*.yaml"))


def test_a_description_may_be_piped_in_as_a_shell_of_windows_writes_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.dumps(AKS_CLUSTER | {"resourceGroup": "ML"}).encode("utf-16")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    assert main(["new", "dev", "--describe", "-", "--set", "resource_group=ML", "--gpu", "T4"]) == 0
    (cluster,) = written(project)["gpupools:clusters"].values()
    assert cluster["resource_group"] == "ML"


def test_what_is_bought_beforehand_and_who_brings_the_software_are_flags(project: Path) -> None:
    bought = ["--capacity", "reservation", "--capacity-name", "cr-0a1b2c3d4e5f60718"]
    software = ["--software", "gpu-operator", "--kubeconfig", "/etc/kube/train"]
    cluster = [each.split(",")[0] for each in EKS]  # a reservation is in one zone
    assert main(["new", "dev", *cluster, "--gpu", "L4", *bought, *software]) == 0

    pool = written(project)["gpupools:pools"]["l4"]
    assert pool["capacity"] == {"mode": "reservation", "name": "cr-0a1b2c3d4e5f60718"}
    assert pool["software"] == "gpu-operator"


def test_a_reservation_of_google_names_its_zones(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ("project=ml-lab", "location=europe-west4", "service_account=gpu@ml.iam.gserviceaccount.com")
    lab = ["dev", "--cloud", "gcp", "--cluster", "lab", *(word for key in keys for word in ("--set", key))]
    bought = [*lab, "--gpu", "L4", "--capacity", "reservation", "--capacity-name", "gpus"]

    assert main(["new", *bought]) == 1
    assert "--capacity: a reservation is zonal" in (said := capsys.readouterr().err)
    assert "set --zones" in said
    assert main(["new", *bought, "--zones", "europe-west4-a,europe-west4-b"]) == 0
    written = next(project.rglob("Pulumi.dev.yaml")).read_text(encoding="utf-8")
    assert "zones: [europe-west4-a, europe-west4-b]" in written


def test_zones_of_eks_need_the_subnets_of_each(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_zone = "subnets_by_zone={eu-central-1a: [subnet-0000000a]}"
    cluster = [by_zone if word.startswith("subnet_ids=") else word for word in EKS]
    zones = ["--gpu", "L4", "--zones", "eu-central-1a"]

    assert main(["new", "dev", *EKS, *zones]) == 1
    assert "replace subnet_ids with subnets_by_zone: {zone: [subnet-…]}" in capsys.readouterr().err
    assert main(["new", "dev", *cluster, *zones]) == 0
    (train,) = written(project)["gpupools:clusters"].values()
    assert train["subnets_by_zone"] == {"eu-central-1a": ["subnet-0000000a"]}
    assert main(["new", "wrong", *EKS[:-4], *EKS[-2:], *zones, "--set", "subnets_by_zone={"]) == 1
    assert "write a map" in capsys.readouterr().err


def test_descriptions_are_read_by_names_the_vendors_have() -> None:
    eks = botocore.session.get_session().get_service_model("eks")
    cluster = eks.operation_model("DescribeCluster").output_shape.members["cluster"].members
    group = eks.operation_model("DescribeNodegroup").output_shape.members["nodegroup"].members

    assert EKS_CLUSTER["cluster"].keys() <= cluster.keys()
    assert "subnetIds" in cluster["resourcesVpcConfig"].members
    assert "data" in cluster["certificateAuthority"].members
    assert EKS_GROUP["nodegroup"].keys() <= group.keys()
    container_v1.Cluster.from_json(json.dumps(GKE_CLUSTER))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["dev"], ["--cloud: is missing"]),
        (["dev", "--cloud", "gpc"], ["unknown cloud 'gpc'; did you mean 'gcp'?"]),
        (["dev", "--cloud", "aws"], ["--cluster: is", "region=…: is", "subnet_ids", "node_role_arn", "--gpu: is"]),
        (["dev", *EKS, "--gpu", "L5"], ["--gpu: 'L5' is not an NVIDIA GPU model; the nearest of 31: L4, L40S"]),
        (["dev", *EKS, "--gpu", "A100"], ["--gpu: 'A100' may mean A100-40GB or A100-80GB on aws; name the one with"]),
        ([*ON_L4, "--sharing", "mps"], ["--replicas: is missing", "--team: is missing"]),
        ([*ON_L4, "--replicas", "4"], ["--sharing: is missing; set it (Sharing of one GPU: none, time-slicing"]),
        ([*ON_L4, "--set", "regoin=x"], ["'regoin=x' does not set a key of the cluster; did you mean"]),
        ([*ON_L4, "--set", "cloud=gcp"], ["'cloud=gcp' does not set a key of the cluster"]),
        (["dev", *in_region("Frankfurt"), "--gpu", "L4"], ["got 'Frankfurt'; the nearest of 46: af-south-1"]),
        ([*ON_L4, "--max-nodes", "0"], ["--max-nodes: got 0; use 1 or more"]),
        ([*ON_L4, "--pool", "Big Pool"], ["--pool: is not a valid key"]),
        (["dev", *EKS, "--gpu", ""], ["--gpu: is empty"]),
        (["dev", "--cloud", "", "--pool", ""], ["--cloud: is empty", "--pool: is empty"]),
        (["dev", *in_region(""), "--gpu", "L4"], ["--set region=…: got ''; write at least 1 character"]),
        ([*ON_L4, "--set", "region=us-east-1"], ["--set region=…: is set twice"]),
        ([*ON_L4, "--set", "name=other"], ["--set name=…: is set twice"]),
        ([*ON_L4, "--sharing", "mig"], ["--sharing: L4 does not support MIG"]),
        ([*ON_L4, "--gpus-per-node", "3"], ["--gpus-per-node: aws has no machine"]),
        ([*ON_L4, "--capacity", "reservation"], ["--capacity-name: is missing"]),
        ([*ON_L4, "--capacity-name", "cr-0a"], ["--capacity: is missing; use one of on-demand, spot"]),
        (["dev", *EKS, "--gpu", "RTX-PRO-4500"], ["--gpu: the EKS image Bottlerocket NVIDIA has no driver"]),
        (
            ["dev", *EKS, "--gpu", "GB300"],
            ["no machine to choose with 4 × GB300", "p6e-gb300.36xlarge (4); name one as instance_type"],
        ),
        ([*ON_L4, "-o", "-"], ["--output: '-' is not a file"]),
        (
            ["Pulumi.dev.yaml", *EKS, "--gpu", "L4"],
            ["'Pulumi.dev.yaml' is a file name; write the stack name alone: dev"],
        ),
        (["d" * 101, *EKS, "--gpu", "L4"], ["a text of 101 characters is not a valid stack name; use at most 100"]),
        (["dev", *AKS, "--gpu", "T4", "--sharing", "mps", "--replicas", "2", "--team", "a"], ["set --kubeconfig PATH"]),
        (
            ["dev", *AKS, "--gpu", "T4", "--kubeconfig", "kube"],
            ["--kubeconfig: got a value that is not shown; write an absolute path"],
        ),
        (["../dev", *EKS, "--gpu", "L4"], ["'../dev' is not a valid stack name"]),
        # Errors that do not depend on each other are reported together.
        (
            [*ON_L4, "--max-nodes", "0", "--pool", "Big Pool", "--software", "nvidia"],
            ["--max-nodes: got 0", "--pool: is not a valid", "--software: got 'nvidia'"],
        ),
        (
            ["../dev", "--cloud", "gpc", "--gpu", "L4"],
            ["ENV: '../dev'", "--cloud: unknown cloud", "--cluster: is missing"],
        ),
        (["acme/gpus/dev", *EKS, "--gpu", "L4"], ["'acme/gpus/dev' is not a valid stack name"]),
        (["", *EKS, "--gpu", "L4"], ["'' is not a valid stack name"]),
        (["dev", "--describe", "no.json"], ["no.json: there is no such file"]),
        (["dev", "--describe", "Pulumi.yaml"], ["Pulumi.yaml describes no cluster"]),
        (["dev", "--describe", "list.json"], ["list.json describes no cluster; write it with one of: aws eks"]),
        (["dev", "--describe", "aks.json", "--cloud", "gcp"], ["describes a cluster of azure, not of gcp"]),
        ([*ON_L4, "-o", "no/such/folder.yaml"], ["is in a folder that does not exist"]),
    ],
    ids=lambda value: " ".join(value[-3:])[:60] if isinstance(value, list) else "",
)
def test_what_is_wrong_is_told_and_nothing_written(
    arguments: list[str], says: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "list.json").write_text("[{}]", encoding="utf-8")
    (project / "aks.json").write_text(json.dumps(AKS_CLUSTER), encoding="utf-8")
    assert main(["new", *arguments]) == 1

    said = capsys.readouterr().err
    for each in says:
        assert each in said
    assert said.splitlines()[-1] == "gpupools new: no file was written"
    assert sorted(each.name for each in project.iterdir()) == ["Pulumi.yaml", "aks.json", "list.json"]


def test_a_misspelt_sharing_mode_is_an_incorrect_call(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["new", "dev", *EKS, "--gpu", "L4", "--sharing", "timeslice"])
    assert "'timeslice' is not an allowed value; did you mean 'time-slicing'?" in capsys.readouterr().err


def test_what_a_misnamed_cloud_needs_is_told_and_nothing_that_is_not_wrong(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "dev", "--cloud", "eks", "--gpu", "H100", "--sharing", "mig", "--profile", "1g.10gb"]) == 1

    told = [each.split("; ")[0].removeprefix("gpupools new: ") for each in capsys.readouterr().err.splitlines()]
    assert told == ["--cloud: unknown cloud 'eks'", "--cluster: is missing", "no file was written"]


@pytest.mark.parametrize("there", ["a file", "a link to nowhere"])
def test_what_is_there_is_never_overwritten(there: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = project / "stacks" / "Pulumi.dev.yaml"
    file.parent.mkdir()
    if there == "a file":
        file.write_text("config: {mine: 1}\n", encoding="utf-8")
    else:
        file.symlink_to(project / "elsewhere.yaml")

    assert main(["new", "dev", *EKS, "--gpu", "L4"]) == 1
    assert "already exists, and nothing is overwritten" in capsys.readouterr().err
    assert not (project / "elsewhere.yaml").exists()
    assert there != "a file" or file.read_text(encoding="utf-8") == "config: {mine: 1}\n"


def test_a_schema_beside_is_kept_and_one_of_the_checkout_is_named(project: Path) -> None:
    (project / "stacks").mkdir()
    (project / "stacks" / "stack-file.schema.json").write_text("{}", encoding="utf-8")
    assert main(["new", "dev", *EKS, "--gpu", "L4"]) == 0
    assert (project / "stacks" / "stack-file.schema.json").read_text(encoding="utf-8") == "{}"
    (project / "gpupools" / "data").mkdir(parents=True)
    (project / "gpupools" / "data" / "stack-file.schema.json").write_text("{}", encoding="utf-8")
    assert main(["new", "prod", *EKS, "--gpu", "L4"]) == 0

    first = (project / "stacks" / "Pulumi.prod.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../gpupools/data/stack-file.schema.json"


def test_outside_a_project_it_says_so(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("nowhere"))

    assert main(["new", "dev", *EKS, "--gpu", "L4"]) == 1
    assert "there is no Pulumi.yaml in this folder or above; run the command in a project" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not YAML"),
        ("[]", "Pulumi.yaml.name: is missing; add the project's name"),
    ],
)
def test_a_broken_project_file_is_named(
    text: str, says: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "Pulumi.yaml").write_text(text, encoding="utf-8")

    assert main(["new", "dev", *EKS, "--gpu", "L4"]) == 1
    assert says in capsys.readouterr().err


# --- at a terminal ----------------------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-m", "gpupools.cli.main", "new", "dev"]


def at_a_terminal(project: Path, typed: bytes, *arguments: str, term: str = "xterm") -> tuple[int, str]:
    """Run the command with a terminal for everything, on which something is typed."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": term}
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=project, env=environment, stdin=slave, stdout=slave, stderr=slave, close_fds=True
    ) as process:
        os.close(slave)
        os.write(master, typed)
        said = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            said += part
        code = process.wait(timeout=60)
    os.close(master)
    return code, said.decode(errors="replace")


@pytest.mark.parametrize("term", ["xterm", "dumb", "no-such-terminal", ""])
def test_only_what_is_missing_is_asked(term: str, project: Path) -> None:
    typed = "gpc\ngcp\nml-dev\neurope-west4\ngpu@ml-dev.iam.gserviceaccount.com\ntime-slicing\nfour\n4\nresearch\n"
    code, said = at_a_terminal(project, typed.encode(), "--cluster", "lab", "--gpu", "L4", term=term)

    assert code == 0, said
    assert "did you mean 'gcp'?" in said
    assert "'four' is not a number" in said
    assert "Name of the cluster" not in said
    made = written(project)
    assert made["gpupools:clusters"]["lab"]["location"] == "europe-west4"
    assert made["gpupools:pools"]["l4"]["sharing"] == {"mode": "time-slicing", "replicas": 4}


def test_an_empty_answer_takes_what_is_offered_and_is_asked_again_where_nothing_is(project: Path) -> None:
    code, said = at_a_terminal(project, b"\n\nL4\n\n", *EKS)

    assert code == 0, said
    assert said.count("a value is required") == 2
    assert "sharing" not in written(project)["gpupools:pools"]["l4"]


def test_answers_that_are_refused_need_not_be_typed_again(project: Path) -> None:
    typed = "gcp\nlab\nml-dev\neurope-west4\ngpu@ml-dev.iam.gserviceaccount.com\nH100\n\n"
    code, said = at_a_terminal(project, typed.encode())
    assert code == 1
    assert "--capacity: a3-highgpu-1g (instance_type) is not available as on-demand" in said

    (flags,) = [each.partition(": ")[2] for each in said.splitlines() if each.startswith("Your answers as flags: ")]
    assert main(["new", "dev", *shlex.split(flags), "--capacity", "spot"]) == 0
    assert written(project)["gpupools:clusters"]["lab"]["location"] == "europe-west4"


def test_answers_that_end_write_nothing(project: Path) -> None:
    code, said = at_a_terminal(project, b"gcp\n\x04")

    assert code == 1
    assert "the input ended; set the remaining values with flags" in said
    assert not (project / "stacks").exists()


def test_a_closed_standard_input_is_none_to_ask(project: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND], cwd=project, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "--cloud: is missing" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_cloud_names_the_command_that_describes_its_cluster() -> None:
    for cloud in clouds().values():
        table = cloud.file("discovery.csv")
        assert table is not None
        assert listed(table, "command")
        assert set(listed(table, "identity")) <= cloud.cluster.model_fields.keys()
