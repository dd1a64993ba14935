"""What people write wrong in their first hour is reported with its line and what to write."""

import re
from pathlib import Path

import pytest

from gpupools.cli.main import main
from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file

SUBNET = "subnet-0a1b2c3d4e5f60718"
MACHINES = clouds()["aws"].instance_types.values()
ROLE = "arn:aws:iam::123456789012:role/gpu-nodes"
CLUSTER = ["--cluster", "train", "--set", "region=eu-central-1", "--set", f"node_role_arn={ROLE}"]
CLUSTER += ["--set", f"subnet_ids={SUBNET}"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    (folder / "Pulumi.w.yaml").write_text(text, encoding="utf-8")
    assert main(["check", "Pulumi.w.yaml"]) == 1
    return [line.removeprefix("Pulumi.w.yaml:") for line in capsys.readouterr().err.splitlines()]


def test_clouds_regions_and_gpus_by_other_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(
        f"""\
config:
  gpupools:clusters:
    a: {{cloud: eks, name: a, region: eu-central-1, node_role_arn: "{ROLE}", subnet_ids: [subnet-0000000a]}}
    b: {{cloud: Amazon EKS, name: b, region: eu-central-1, node_role_arn: "{ROLE}"}}
    c: {{cloud: gke, name: c, project: ml-lab, location: europe-west4, service_account: gpu@ml.iam.gserviceaccount.com}}
    d: {{cloud: gpc, name: d, location: europe-west4, service_account: gpu@ml.iam.gserviceaccount.com}}
    e: {{cloud: aws, name: t, region: eu-centrl-1, node_role_arn: "{ROLE}", subnet_ids: [subnet-0000000a]}}
    f: {{cloud: gcp, name: t, project: ml-lab, location: europe-wset4-a, service_account: g@ml.iam.gserviceaccount.com}}
    g: {{cloud: azure, name: t, resource_group: ml}}
  gpupools:pools:
    a: {{clusters: [g], gpu: T4, nodes: {{max: 1}}}}
""",
        folder,
        capsys,
    )

    assert said == [
        "3: clusters.a.cloud: unknown cloud 'eks'; write aws",
        "4: clusters.b.cloud: unknown cloud 'Amazon EKS'; write aws",
        "5: clusters.c.cloud: unknown cloud 'gke'; write gcp",
        "6: clusters.d.cloud: unknown cloud 'gpc'; did you mean 'gcp'?",
        "7: clusters.e.region: got 'eu-centrl-1'; did you mean 'eu-central-1' or 'me-central-1' or 'eu-central-2'?",
        "8: clusters.f.location: got 'europe-wset4-a'; did you mean 'europe-west4' or 'europe-west9' or 'europe-west8'?",  # noqa: E501 - as one line
    ]


def test_all_in_one_round(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a missing key, a cluster of unknown cloud or an ambiguous model leaves certain is said with it."""
    google = "project: ml-lab, service_account: g@ml.iam.gserviceaccount.com"
    said = refused(
        f"""\
config:
  gpupools:clusters:
    a: {{cloud: aws, name: t, region: eu-central-1, node_role_arn: "{ROLE}"}}
    b: {{Cloud: aws, name: u, region: eu-central-1, node_role_arn: "{ROLE}"}}
    c: {{cloud: gcp, name: v, location: <REGION>, {google}}}
    d: {{cloud: gcp, name: w, location: europe-west4, {google}}}
  gpupools:pools:
    a: {{clusters: [a], gpu: A100-40GB, gpus_per_node: 8, nodes: {{max: 2}}, sharing: {{mode: mig, profile: 1g.9gb}}}}
    b: {{clusters: [b], gpu: A100-45GB, nodes: {{max: 2}}}}
    c: {{gpu: A100-40GB, gpus_per_node: 8, nodes: {{max: 2}}, sharing: {{mode: mig, profile: 1g.9gb}}}}
    d: {{clusters: [d], gpu: L4, nodes: {{max: 2}}, sharing: {{Mode: mig}}, capacity: Spot}}
    e: {{clusters: [d], gpu: H100-80GB, gpus_per_node: 8, nodes: {{max: 2}}, zones: [us-central1-a]}}
    f: {{clusters: [d], gpu: A100-80GB, nodes: {{max: 2}}, zones: [europe-west4-z]}}
""",
        folder,
        capsys,
    )

    assert [re.sub(r" \(see .*", "", line) for line in said] == [
        "3: clusters.a.subnet_ids: set exactly one of subnet_ids and subnets_by_zone",
        "4: clusters.b.Cloud: unknown key; write cloud",
        "5: clusters.c.location: got '<REGION>'; replace the placeholder, such as by africa-south1",
        "8: pools.a.sharing.profile: A100-40GB has no MIG profile '1g.9gb'; use 1g.10gb, 1g.5gb or 1g.5gb+me",
        "9: pools.b.gpu: 'A100-45GB' is not an NVIDIA GPU model; did you mean 'A100-40GB' or 'A100-80GB' or 'V100-32GB'?",  # noqa: E501 - as one line
        "10: pools.c.clusters: is missing; add it",
        "10: pools.c.sharing.profile: A100-40GB has no MIG profile '1g.9gb'; use 1g.10gb, 1g.5gb or 1g.5gb+me",
        "11: pools.d.sharing.Mode: unknown key; write mode",
        "11: pools.d.capacity: got 'Spot'; write {mode: spot}",
        "12: pools.e.gpu: gcp has 3 machines of one size with 8 × H100-80GB; name one of them as instance_type: a3-edgegpu-8g, a3-highgpu-8g, a3-megagpu-8g",  # noqa: E501 - as one line
        "12: pools.e.zones[0]: us-central1-a is in us-central1, but the cluster is in europe-west4; use zones of europe-west4",  # noqa: E501 - as one line
        "13: pools.f.zones[0]: europe-west4-z does not exist; set zones: [europe-west4-a]; or set places: trust if it is newer than the list",  # noqa: E501 - as one line
    ]


@pytest.mark.parametrize(
    ("gpu", "fix"),
    [
        ("nvidia-l4", "write L4"),
        ("nvidia-tesla-t4", "write T4"),
        ("NVIDIA A10G", "write A10G"),
        ("nvidia-h100-80gb", "write H100-80GB"),
        ("Tesla_V100", "write V100-16GB or V100-32GB"),
        ("Quadro-T4", "write T4"),
        ("L 4", "write L4"),
        ("L50S", "did you mean 'L40S'"),
    ],
)
def test_a_gpu_as_others_call_it(gpu: str, fix: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (said,) = refused(
        f"""\
config:
  gpupools:clusters:
    a: {{cloud: aws, name: t, region: us-east-1, node_role_arn: "{ROLE}", subnet_ids: [subnet-0000000a]}}
  gpupools:pools:
    a: {{clusters: [a], gpu: {gpu}, nodes: {{max: 1}}}}
""",
        folder,
        capsys,
    )

    assert said.startswith(f"5: pools.a.gpu: '{gpu}' is not an NVIDIA GPU model; {fix}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config:\n  a:\n\tb: 1\n", "3:1: is not YAML: this line is indented with a tab; indent with spaces"),
        (
            'config:\n  a:\n\tb: 1\n  \tc: 1\n  d: "x\ty"\n\te: 1\n',
            "3:1: is not YAML: this line (and lines 4, 6) is indented with a tab; indent with spaces",
        ),
        ("config:\n  a:\n" + "\tb: 1\n" * 11, "(and lines 4, 5, 6, 7, 8, 9, 10, 11 and 2 more)"),
    ],
)
def test_every_line_that_a_tab_indents(text: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(text, folder, capsys)[0]


AN_ID = "write lt- and 8 or 17 digits or letters from a to f"


def test_a_launch_template_and_who_may_use_a_pool(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trust rule with two answers, or a taint beside it, could shut out the team itself."""
    said = refused(
        f"""\
config:
  gpupools:clusters:
    t: {{cloud: aws, name: t, region: eu-central-1, node_role_arn: "{ROLE}", subnet_ids: [subnet-0000000a]}}
  gpupools:pools:
    a:
      clusters: [t]
      gpu: L4
      nodes: {{max: 2}}
      sharing: {{mode: time-slicing, replicas: 4}}
      trust: {{team: research, namespaces: [other]}}
      adopt:
        launch_template: {{id: template-1, version: latest, nmae: x}}
        nam: old
    b:
      clusters: [t]
      gpu: L4
      nodes: {{max: 2}}
      trust: {{team: research}}
      labels: {{gpupools/trust: other}}
      taints: ["gpupools/trust=other:NoSchedule"]
""",
        folder,
        capsys,
    )

    assert said == [
        "10: pools.a.trust: got team and namespaces; set one of team, namespaces and waiver",
        "12: pools.a.adopt.launch_template.id: got 'template-1', which is not a launch template ID; " + AN_ID,
        "12: pools.a.adopt.launch_template.version: got 'latest'; write an integer, without quotes or unit",
        "12: pools.a.adopt.launch_template.nmae: unknown key; known: id, version",
        "13: pools.a.adopt.nam: unknown key; did you mean 'name'?",
        "19: pools.b.labels.gpupools/trust: gpupools/trust follows from software, sharing and trust; leave it out",
        "20: pools.b.taints[0]: gpupools/trust is set from trust; leave it out, and write trust: {team: …}",
    ]


@pytest.mark.parametrize(
    ("given", "is_one"),
    [
        ("lt-01234567", True),
        ("lt-0123456789abcdef0", True),
        ("lt-0123456789", False),
        ("lt-0123456789abcdef01", False),
        (r"lt-01234567\n", False),
    ],
)
def test_ids_of_launch_templates(given: str, is_one: bool, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(
        f"""\
config:
  gpupools:clusters:
    t: {{cloud: aws, name: t, region: eu-central-1, node_role_arn: "{ROLE}", subnet_ids: [subnet-0000000a]}}
  gpupools:pools:
    a: {{clusters: [t], gpu: L4, nodes: {{max: 2}}, nmae: x, adopt: {{launch_template: {{id: "{given}", version: 1}}}}}}
""",
        folder,
        capsys,
    )

    assert any(AN_ID in each for each in said) is not is_one


def test_networks_of_gpudirect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def pool(name: str, machine: str, *networks: str) -> str:
        each = "".join(f"        - {{network: {net}, subnetwork: s}}\n" for net in networks)
        head = f"    {name}:\n      clusters: [lab]\n      {machine}\n      nodes: {{max: 2}}\n"
        head += "      zones: [europe-west4-b]\n      network:\n        rdma: true\n"
        return f"{head}        gpu_networks:{'' if each else ' []'}\n{each}"

    pools = [
        pool("a", "gpu: H100-80GB\n      gpus_per_node: 3", "one", "one"),
        pool("b", "instance_type: a3-highgpu-8g", "one", "two", "one"),
        pool("c", "instance_type: a3-highgpu-8g"),
    ]
    lab = (
        "{cloud: gcp, name: t, project: ml-lab, location: europe-west4, service_account: g@ml.iam.gserviceaccount.com}"
    )
    head = f"config:\n  gpupools:clusters:\n    lab: {lab}\n  gpupools:pools:\n"
    said = refused(head + "".join(pools), folder, capsys)

    assert [re.split(r", and |; ", line)[0] for line in said] == [
        "8: pools.a.gpus_per_node: gcp has no machine to choose with 3 × H100-80GB",
        "23: pools.b.network.gpu_networks: got 3",
        "26: pools.b.network.gpu_networks[2].network: 'one' is listed twice",
        "34: pools.c.network.gpu_networks: got 0",
    ]


# --- gpupools new, without anybody to ask ---

NO_L5 = "--gpu: 'L5' is not an NVIDIA GPU model; the nearest of 31: L4, L40S, RTX-PRO-5000, RTX-PRO-4500, H100-NVL-94GB"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            [],
            [
                "--cloud: is missing; set it (Cloud: aws, azure, gcp)",
                "--cluster: is missing; set it (Name of the cluster)",
                "--gpu: is missing; set it (GPU model, e.g. L4)",
            ],
        ),
        (
            ["--cloud", "eks", *CLUSTER, "--gpu", "L4", "--sharing", "time-slicing"],
            [
                "--cloud: unknown cloud 'eks'; write aws",
                "--replicas: is missing; set it (Containers that share one GPU)",
                "--team: is missing; set it (Team whose pods may share a GPU, a DNS label)",
            ],
        ),
        (
            ["--cloud", "aws", *CLUSTER, "--gpu", "nvidia-l4", "--sharing", "mig"],
            [
                "--profile: is missing; set it (MIG profile: e.g. 1g.10gb)",
                "--gpu: 'nvidia-l4' is not an NVIDIA GPU model; write L4",
            ],
        ),
        (
            [
                "--cloud",
                "aws",
                "--cluster",
                "t",
                "--set",
                "region=eu-centrl-1",
                "--set",
                "node_role_arn=x",
                "--gpu",
                "L5",
            ],
            [
                f"--set subnet_ids=…: is missing; set it (Private subnets for the nodes, e.g. {SUBNET})",
                "--set region=…: got 'eu-centrl-1'; did you mean 'eu-central-1' or 'me-central-1' or 'eu-central-2'?",
                "--set node_role_arn=…: got 'x'; write the role's ARN: arn:aws:iam::<account>:role/<name>",
                NO_L5,
            ],
        ),
    ],
    ids=["nothing", "a service for a cloud", "a GPU as GKE calls it", "a wrong region and no subnet"],
)
def test_everything_that_is_wrong_with_the_flags(
    arguments: list[str], said: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "Pulumi.yaml").write_text("name: gpus\nruntime: python\n")

    assert main(["new", "dev", *arguments]) == 1
    assert capsys.readouterr().err.splitlines() == [
        *(f"gpupools new: {each}" for each in said),
        "gpupools new: no file was written",
    ]


# --- A command in the wrong place ---


def test_a_stack_file_is_no_state(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "Pulumi.dev.yaml").write_text("config: {gpupools:clusters: {}, gpupools:pools: {}}\n")

    assert main(["orphans", "Pulumi.dev.yaml"]) == 1
    assert capsys.readouterr().err == (
        "Pulumi.dev.yaml: is a stack file, not a state;"
        " export its state: pulumi stack export --stack dev > state.json\n"
    )


def test_stacks_are_those_of_a_repository(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stacks"]) == 1
    assert capsys.readouterr().err.startswith(".: is not in a repository")
    assert main(["stacks", "--json"]) == 1
    assert '"result": "refused"' in capsys.readouterr().out

    (folder / ".git").mkdir()
    assert main(["stacks"]) == 0
    assert capsys.readouterr().out == ". has no stack files of gpupools\n"


# --- Mistakes that stood in each other's way, and those that nothing told ---

THREE = f"""\
config:
  gpupools:clusters:
    train: {{cloud: aws, name: t, region: eu-central-1, node_role_arn: "{ROLE}", subnet_ids: [subnet-0000000a]}}
    serve: {{cloud: azure, name: s, resource_group: ml}}
    lab:
      {{cloud: gcp, name: l, project: ml-lab, location: europe-west4-a, service_account: g@ml.iam.gserviceaccount.com}}
  gpupools:pools:
"""


def keys_of(pool: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what is told of a pool on the clusters above, each from its key on."""
    said = refused(f"{THREE}    a: {pool}\n", folder, capsys)
    return [line.partition(": pools.a.")[2] or line for line in said]


@pytest.mark.parametrize(
    ("cluster", "overrides", "where"),
    [
        ("train", "aws: {NodeGroup: {labels: LABELS}}", "overrides.aws.NodeGroup.labels"),
        ("serve", "azure: {AgentPool: {nodeLabels: LABELS}}", "overrides.azure.AgentPool.nodeLabels"),
        ("lab", "gcp: {NodePool: {nodeConfig: {labels: LABELS}}}", "overrides.gcp.NodePool.nodeConfig.labels"),
    ],
)
def test_labels_set_by_hand_keep_to_the_rules_of_the_pools_own(
    cluster: str, overrides: str, where: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand = overrides.replace("LABELS", "{'b c': d, f: 'x y', n: 5, e: '', gone: null}")
    said = keys_of(
        f"{{clusters: [{cluster}], gpu: T4, nodes: {{max: 1}}, labels: {{gone: x}}, overrides: {{{by_hand}}}}}",
        folder,
        capsys,
    )

    # EKS alone takes no label without a value.
    empty = [f"{where}.e: is empty; EKS rejects labels without a value; set a value"] if cluster == "train" else []
    assert sorted(line.partition(" (see ")[0] for line in said) == sorted(
        [
            f"{where}.b c: 'b c' is not a valid label key; use a qualified name such as 'example.com/team'",
            f"{where}.f: 'x y' is not a valid label value; use at most 63 letters, digits, '-', '_' and '.'",
            f"{where}.n: got 5, but a label value is text; write it in quotes",
            *empty,
        ]
    )


@pytest.mark.parametrize("account", ["default", "123-compute@developer.gserviceaccount.com"])
def test_no_new_pool_runs_as_googles_default_account(
    account: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = "{clusters: [lab], gpu: L4, nodes: {max: 1}"
    text = THREE.replace("g@ml.iam.gserviceaccount.com", account) + f"    a: {pool}}}\n"
    by_hand = f"overrides: {{gcp: {{NodePool: {{nodeConfig: {{serviceAccount: {account}}}}}}}}}"
    own = keys_of(f"{pool}, {by_hand}}}", folder, capsys)

    (said,) = refused(text, folder, capsys)
    assert f"clusters.lab.service_account: '{account}' is Google's default account" in said
    assert [line.partition(": ")[0] for line in own] == ["overrides.gcp.NodePool.nodeConfig.serviceAccount"]
    # A pool that is taken over keeps it.
    (folder / "Pulumi.w.yaml").write_text(text.replace("max: 1}", "max: 1}, adopt: {name: old}"), encoding="utf-8")
    assert main(["check", "Pulumi.w.yaml"]) == 0


def test_a_stack_file_saved_by_notepad_is_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".git").mkdir()
    (folder / "Pulumi.yaml").write_text("name: gpus\nruntime: python\n")
    text = f"{THREE}    a: {{clusters: [lab], gpu: L4, nodes: {{max: 1}}}}\n"
    (folder / "Pulumi.dev.yaml").write_text(text, "utf-16")

    main(["stacks"])
    out, err = capsys.readouterr()
    assert "Pulumi.dev.yaml" in out + err


def by_hand(cluster: str, cloud: str, inputs: str) -> str:
    return f"{{clusters: [{cluster}], gpu: T4, nodes: {{max: 1}}, overrides: {{{cloud}: {inputs}}}}}"


NO_LIST = "write one value, or a map of inputs"


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (
            by_hand("serve", "azure", "{AgentPool: {kubeletConfig: [1]}}"),
            f"overrides.azure.AgentPool.kubeletConfig: got a list, but kubeletConfig is not a list; {NO_LIST}",
        ),
        (
            by_hand("lab", "gcp", "{NodePool: {nodeConfig: {gvnic: [1]}}}"),
            f"overrides.gcp.NodePool.nodeConfig.gvnic: got a list, but gvnic is not a list; {NO_LIST}",
        ),
        (
            by_hand("train", "aws", "{NodeGroup: {labls: [1]}}"),
            "overrides.aws.NodeGroup.labls: NodeGroup has no input 'labls'; use the wire name; did you mean 'labels'",
        ),
        ("{clusters: [train], gpu: T4, nodes: {fixed: 0}}", "nodes.fixed: got 0; use 1 or more"),
        (
            "{clusters: [train], gpu: T4, nodes: {fixed: two}}",
            "nodes.fixed: got 'two'; write an integer, without quotes or unit",
        ),
        (
            "{clusters: [train], gpu: T4, nodes: {max: 1}, image: {family: Bottlerocket}}",
            "image.family: got 'Bottlerocket'; write bottlerocket",
        ),
        (
            "{clusters: [train], gpu: T4, nodes: {max: 1}, tags: {release: 1.30}}",
            "tags.release: got 1.3; write it in quotes: YAML reads 1.30 as 1.3",
        ),
    ],
)
def test_one_mistake_is_one_line(pool: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [line.rstrip("?") for line in keys_of(pool, folder, capsys)] == [said]


def test_a_kubeconfig_is_in_one_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = THREE.replace("name: s,", "name: s, kubeconfig: {path: ~/.kube/s, secret: x},")

    (said,) = refused(f"{text}    a: {{clusters: [serve], gpu: T4, nodes: {{max: 1}}}}\n", folder, capsys)

    assert said == "4: clusters.serve.kubeconfig: path and secret exclude each other; set one of them"


def test_a_folder_without_a_project_hides_no_missing_flag(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--capacity", "reservation", "--sharing", "time-slicing", "--replicas", "2"]

    assert main(["new", "dev", *arguments]) == 1

    said = [line.removeprefix("gpupools new: ").split()[0] for line in capsys.readouterr().err.splitlines()]
    assert said == ["there", "--cloud:", "--cluster:", "--gpu:", "--team:", "no"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["new", "dev", "--max-nodes", "two"], "argument --max-nodes: 'two' is not a whole number; write digits"),
        (["ready", "--timeout", "-1"], "argument --timeout: '-1' is not a whole number; write digits"),
        (["ready", "--smoke", "--json"], "argument --json: not allowed with argument --smoke"),
        (
            ["mig", "pack", "1g.5gb=1", "--max-gpus", "x"],
            "argument --max-gpus: 'x' is not a whole number; write digits",
        ),
    ],
)
def test_a_number_that_is_none(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err.splitlines()[-1].endswith(said)


def test_the_cloud_is_no_key_to_set(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "Pulumi.yaml").write_text("name: gpus\nruntime: python\n")

    assert main(["new", "dev", "--cloud", "aws", *CLUSTER, "--set", "cloud=aws", "--gpu", "L4"]) == 1
    assert "--set: 'cloud=aws' does not set a key of the cluster; use --cloud" in capsys.readouterr().err


def test_only_diff_takes_two_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "Pulumi.dev.yaml").write_text(f"{THREE}    a: {{clusters: [lab], gpu: L4, nodes: {{max: 1}}}}\n")
    said = f"{folder} is not in a git checkout; omit --since"

    assert main(["report", "Pulumi.dev.yaml", "-o", "a.html", "--no-policies", "--since", "main"]) == 2
    assert capsys.readouterr().err.strip().endswith(said)
    assert main(["diff", "Pulumi.dev.yaml", "--since", "main"]) == 2
    assert capsys.readouterr().err.strip().endswith(f"{said}, and compare two files: gpupools diff OLD NEW")


@pytest.mark.parametrize(
    "words",
    ["report Pulumi.dev.yaml -o a.html --policy-config", "preview Pulumi.dev.yaml --policy-config", "policy --config"],
)
def test_a_policy_configuration_that_is_not_there_has_one_answer(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "Pulumi.dev.yaml").write_text(f"{THREE}    a: {{clusters: [lab], gpu: L4, nodes: {{max: 1}}}}\n")
    more = ["Pulumi.dev.yaml"] if words.startswith("policy") else []

    assert main([*words.split(), "no.json", *more]) == 1
    what = "no.json: cannot be read: No such file or directory; name a policy configuration\n"
    assert capsys.readouterr().err.startswith(what)


def test_two_files_of_one_stack_in_one_project(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / ".git").mkdir()
    (folder / "Pulumi.yaml").write_text("name: gpus\nruntime: python\n")
    for name in ("Pulumi.dev.yaml", "Pulumi.dev.yml"):
        (folder / name).write_text(f"{THREE}    a: {{clusters: [lab], gpu: L4, nodes: {{max: 1}}}}\n")

    assert main(["stacks"]) == 1
    said = capsys.readouterr().err
    assert "Pulumi.dev.yml: configures the stack gpus/dev, like Pulumi.dev.yaml; delete one of the two files\n" in said


def test_a_file_to_write_is_in_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.json").write_text("{}")

    assert main(["import", "a.json", "--out", "no/Pulumi.dev.yaml"]) == 1
    assert "no/Pulumi.dev.yaml: is in a folder that does not exist; create the folder first" in capsys.readouterr().err


def test_a_cluster_that_is_not_there_hides_nothing_of_pools_on_others(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(
        """\
config:
  gpupools:clusters:
    train:
      cloud: aws
      name: train
      region: eu-central-1
      subnet_ids: [subnet-0a1b2c3d4e5f60718]
      node_role_arn: arn:aws:iam::123456789012:role/gpu-nodes
  gpupools:pools:
    a: {clusters: [train], gpu: L4, zones: [a], nodes: {max: 2}}
    b: {clusters: [trian], gpu: L4, nodes: {max: 2}}
""",
        encoding="utf-8",
    )
    with pytest.raises(Rejected) as refused:
        check_stack_file(file, clouds())

    assert {problem.key for problem in refused.value.problems} == {"pools.a.zones", "pools.b.clusters[0]"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "config:\n  gpupools:pools:\n    a:\n      disk_gib:200\n      gpu: L4\n",
            "4:7: is not YAML: no space after disk_gib:; add a space after the colon",
        ),
        (
            "config:\n  gpupools:\n    pools: {}\n",
            "2: gpupools:gpupools: unknown key; write gpupools:clusters and gpupools:pools under config:",
        ),
        (
            THREE.replace("name: s,", "name: s, kubeconfig: {secure: AAABBB},"),
            "4: clusters.serve.kubeconfig: is an encrypted value; write {secret: {secure: …}}",
        ),
    ],
)
def test_the_cure_is_at_the_line_and_no_clear_text(
    text: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(text, folder, capsys)


CLUSTERS_OF_EACH_CLOUD = f"""\
config:
  gpupools:clusters:
    aws: {{cloud: aws, name: t, region: eu-central-1, node_role_arn: "{ROLE}", subnet_ids: [{SUBNET}]}}
    azure: {{cloud: azure, name: t, resource_group: ml}}
    gcp: {{cloud: gcp, name: t, project: ml-dev, location: europe-west4, service_account: gpu@ml-dev.iam.gserviceaccount.com}}
    wrong: {{cloud: gcp, name: t, project: ml-dev, location: europe-wset4, service_account: gpu@ml-dev.iam.gserviceaccount.com}}
  gpupools:pools:
    a: """  # noqa: E501 - one cluster per line


@pytest.mark.parametrize(
    ("pool", "keys"),
    [
        ("{clusters: [aws], gpu: L44, nodes: {max: -1}}", "nodes.max gpu"),
        ("{clusters: [azure], instance_type: Standard_NC4, nodes: {max: 0}}", "nodes.max instance_type"),
        ("{clusters: [gcp], gpu: H200, gpus_per_node: 3, nodes: {max: x}}", "nodes.max gpus_per_node"),
        ("{clusters: [aws], gpu: L4, nodes: {max: x}, labels: {gpupools/pool: b}}", "nodes.max labels.gpupools/pool"),
        ("{clusters: [aws], gpu: L4, disk_gib: 1, sharing: {mode: mig, profile: 1g.5gb}, nodes: {max: 1}}",
         "disk_gib sharing.mode"),
        ("{clusters: [gcp], gpu: L4, disk_gib: 1, sharing: {mode: time-slicing, replicas: 2}, nodes: {max: 1}}",
         "disk_gib trust"),
        ("{clusters: [azure], gpu: T4, zones: 1, image: {id: x, family: custom}, nodes: {max: 1}}",
         "zones image.id"),
        ("{clusters: [gcp], gpu: L4, nodes: {max: -1}, adopt: {name: p}, first_name: b}", "nodes.max first_name"),
        ("{clusters: [wrong], gpu: L44, nodes: {max: 1}}", "gpu"),
        ("{clusters: [aws, gcp], gpu: L44, nodes: {max: -1}}", "nodes.max gpu"),
        ("{clusters: [aws], gpu: L44, instance_type: p4d.24xlarge, nodes: {max: 1}, labels: {gpupools/pool: b}}",
         " labels.gpupools/pool"),
        # What only follows from the first error is left out.
        ("{clusters: [aws], gpu: A100-40GB, gpus: 8, nodes: {max: 1}}", "gpus"),
        ("{clusters: [aws], gpu: L4, sharing: {mode: time-slicing, replicas: 1}, nodes: {max: 1}}", "sharing.replicas"),
        ("{clusters: [gcp], gpu: A100-40GB, sharing: {mode: mig, profile: 1}, nodes: {max: 1}}", "sharing.profile"),
        ("{clusters: [azure], gpu: {name: L4}, nodes: {max: 1}}", "gpu"),
        ("{clusters: [aws], gpu: A100-40GB, gpus_per_node: x, nodes: {max: 1}}", "gpus_per_node"),
        ("{clusters: [aws], gpu: L44}", "nodes gpu"),
        ("{clusters: aws, gpu: L44, nodes: {max: 1}}", "clusters gpu"),
    ],
)  # fmt: skip
def test_problems_that_do_not_depend_on_each_other_are_reported_together(pool: str, keys: str, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.w.yaml"
    file.write_text(CLUSTERS_OF_EACH_CLOUD + pool, encoding="utf-8")
    with pytest.raises(Rejected) as rejected:
        check_stack_file(file, clouds())
    found = [each.path for each in rejected.value.problems if each.path[0] == "pools"]

    assert dict.fromkeys(".".join(map(str, path[2:])) for path in found) == dict.fromkeys(keys.split(" "))


@pytest.mark.parametrize(
    ("cluster", "host", "is_foreign"),
    [
        ("aws", "0A1B.gr7.eu-central-1.eks.amazonaws.com", False),
        ("aws", "0a1b.sk1.cn-north-1.eks.amazonaws.com.cn", False),
        ("aws", "0a1b.eks-cluster.eu-central-1.api.aws", False),
        ("aws", "eks.amazonaws.com.example.org", True),
        ("aws", "10.0.0.1", True),
        ("azure", "https://ml-dns-1a2b.hcp.westeurope.azmk8s.io:443", False),
        ("azure", "ml.azmk8s.io.example.org", True),
        ("gcp", "203.0.113.7", False),
        ("gcp", "gke-1a2b.europe-west4.gke.goog", False),
        ("gcp", "gke.example.org", True),
    ],
)
def test_an_endpoint_that_is_not_the_clouds_is_warned_of(
    cluster: str, host: str, is_foreign: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CLUSTERS_OF_EACH_CLOUD.replace("gpupools:pools:\n    a: ", "gpupools:pools:\n")
    lines = [line for line in text.splitlines() if "wrong: " not in line]
    key = f"    {cluster}: {{"
    lines = [
        line.replace(key, f'{key}endpoint: "{host}", certificate_authority: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t, ')
        for line in lines
    ]
    file = tmp_path / "Pulumi.w.yaml"
    pool = f"    a: {{clusters: [{cluster}], gpu: {'T4' if cluster == 'azure' else 'L4'}, nodes: {{max: 1}}}}"
    file.write_text("\n".join([*lines, pool]), encoding="utf-8")

    assert main(["check", str(file)]) == 0
    assert ("and receives a token for this one" in capsys.readouterr().err) is is_foreign


def test_a_key_of_another_map_is_named_with_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"""
config:
  gpupools:clusters:
    train: {{cloud: aws, name: t, region: eu-central-1, node_role_arn: "{ROLE}", subnet_ids: [subnet-0000000a],
      disk_gib: 1}}
  gpupools:pools:
    a: {{clusters: [train], gpu: L4, nodes: {{max: 1}}, security_group_ids: [], kubeconfig: x, calico: true, id: x}}
"""
    told = {
        line.partition(": ")[2].partition(": ")[0]: line.partition("; ")[2] for line in refused(text, folder, capsys)
    }

    assert told["clusters.train.disk_gib"] == "write disk_gib in the pool"
    assert told["pools.a.security_group_ids"] == "write network: {security_group_ids: …} in the pool"
    assert told["pools.a.kubeconfig"] == "write kubeconfig in the cluster"
    assert told["pools.a.calico"] == "write runtime: {calico: …} in the cluster"
    assert "image: {id: …} in the pool" in told["pools.a.id"]
