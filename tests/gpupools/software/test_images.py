"""Where images and charts come from: what is refused, what is said, and what `gpupools images` lists."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main
from gpupools.policies.declared_software import read_software
from gpupools.policies.finding import Context, Finding
from gpupools.policies.rules import gpu_software_pinned
from gpupools.providers import clouds
from gpupools.software.images import chart_digest_command, digest_of, image_digest_command, slots
from gpupools.software.planning import plan_runtimes
from gpupools.software.release_changes import PodEffect
from gpupools.stackfile.stack_validation import parse_stack
from tests.changes import release_changes
from tests.gpupools.software.conftest import Planner, pools_of
from tests.stack_plans import plan_stack

ROOT = Path(__file__).resolve().parents[3]
PLUGIN: Mapping[str, Any] = {"a": {"gpu": "T4", "software": "device-plugin"}}
DIGEST = f"sha256:{'0a' * 32}"
IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"


@pytest.mark.parametrize(
    "registry",
    ["mirror.example.com", "mirror.example.com:5000/gpu/nvidia", "localhost:5000", "registry:5000/gpu", "10.0.0.1/gpu"],
)
def test_a_registry_is_a_host_with_a_path(registry: str, plan: Planner) -> None:
    made = plan("azure", PLUGIN, registry=registry, digests="off")

    assert {each.pulled for each in made.images} == {
        f"{registry}/nvidia/k8s-device-plugin:v0.20.0",
        f"{registry}/nvidia/k8s/dcgm-exporter:4.6.1-4.8.4-distroless",
    }


def test_images_are_pulled_by_the_digest_that_is_known_or_given(plan: Planner) -> None:
    known = digest_of(IMAGE)
    driver = "nvcr.io/nvidia/driver:595.91.07"
    pools = {"a": {"gpu": "T4", "software": "gpu-operator"}}
    settings: Mapping[str, Any] = {"known": {}, "given": {IMAGE: DIGEST}, "off": "off"}
    each = {
        name: {image.image: image.pulled for image in plan("azure", pools, digests=digests).images}
        for name, digests in settings.items()
    }

    assert known is not None
    assert each["known"][IMAGE] == f"nvcr.io/nvidia/k8s-device-plugin@{known.digest}"
    assert each["given"][IMAGE] == f"nvcr.io/nvidia/k8s-device-plugin@{DIGEST}"
    assert {image for image, pulled in each["known"].items() if "@" not in pulled} == {driver}
    assert all(image == pulled for image, pulled in each["off"].items())


def test_without_a_mirror_nothing_is_sent_about_images(plan: Planner) -> None:
    pools = {"a": {"gpu": "T4", "software": "gpu-operator"}}
    (release,) = plan("azure", pools, digests="off").releases

    assert "repository" not in json.dumps(release.values, default=dict)
    assert "imagePullSecrets" not in json.dumps(release.values, default=dict)


def test_every_row_of_the_data_has_a_source() -> None:
    charts = (
        "gpu-operator",
        "nvidia-device-plugin",
        "dcgm-exporter",
        "aws-efa-k8s-device-plugin",
        "dra-driver-nvidia-gpu",
    )
    rows = [slot for chart in charts for slot in slots(chart)]
    known = digest_of(IMAGE)

    assert {chart: len(slots(chart)) for chart in charts if len(slots(chart)) < 1} == {}
    assert [slot for slot in rows if not slot.source.startswith("https://")] == []
    assert known is not None
    assert known.source.startswith("https://github.com/NVIDIA/gpu-operator")


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("eu-central-1", "602401143452.dkr.ecr.eu-central-1.amazonaws.com"),
        ("mx-central-1", "730335286997.dkr.ecr.mx-central-1.amazonaws.com"),
        ("cn-north-1", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"),
        ("us-gov-east-1", "151742754352.dkr.ecr.us-gov-east-1.amazonaws.com"),
        ("xx-south-9", "602401143452.dkr.ecr.us-west-2.amazonaws.com"),  # the chart's own
    ],
)
def test_the_plugin_of_efa_comes_from_the_clusters_region(region: str, registry: str) -> None:
    cluster = {**clouds()["aws"].example_cluster, "region": region, "places": "trust"}
    cluster |= {"stack": "acme/net/prod", "node_role_arn": {"output": "role"}}
    pool = {"clusters": ["c"], "instance_type": "p5.48xlarge", "nodes": {"max": 2}, "software": "device-plugin"}
    network = {"rdma": True, "security_group_ids": ["sg-0a1b2c3d4e5f60718"]}
    stack = parse_stack({"clusters": {"c": cluster}, "pools": {"a": {**pool, "network": network}}}, clouds())
    (made,) = plan_runtimes(stack.clusters, plan_stack(stack, clouds()), clouds())

    assert [each.pulled for each in made.images if "efa" in each.image] == [
        f"{registry}/eks/aws-efa-k8s-device-plugin:v0.5.20"
    ]


@pytest.mark.parametrize(
    ("cloud", "effect"),
    [("azure", PodEffect.GPU_PODS), ("aws", PodEffect.DAEMONS)],
    ids=["own driver", "image's driver"],
)
def test_a_mirror_for_an_operator_that_runs_replaces_the_driver_it_brought(
    cloud: str, effect: PodEffect, plan: Planner
) -> None:
    pools = {"a": {"gpu": "T4", "software": "gpu-operator"}}
    before, after = plan(cloud, pools), plan(cloud, pools, registry="mirror.example.com", pull_secrets=["login"])
    ((change),) = release_changes([before], [after], pools_of(cloud, pools))

    assert change.effect is effect
    assert not [path for path in change.values if path.startswith("draDriver")]


@pytest.mark.parametrize(("cloud", "effect"), [("azure", PodEffect.GPU_PODS), ("aws", PodEffect.DAEMONS)])
def test_digests_for_an_operator_that_runs_change_no_version(cloud: str, effect: PodEffect, plan: Planner) -> None:
    pools = {"a": {"gpu": "T4", "software": "gpu-operator"}}
    before, after = plan(cloud, pools, digests="off"), plan(cloud, pools)
    (change,) = release_changes([before], [after], pools_of(cloud, pools))

    assert (change.effect, change.installs) == (effect, {})


RELEASE = "kubernetes:helm.sh/v3:Release"
PODS = "kubernetes:apps/v1:DaemonSet"


def workload(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}}}


@pytest.mark.parametrize(
    ("image", "by_tag"),
    [
        (IMAGE, True),
        ("mirror.example.com/gpu/nvidia/k8s-device-plugin:v0.20.0", True),
        (f"nvcr.io/nvidia/k8s-device-plugin@{DIGEST}", False),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.19.3", False),  # its digest is not known
    ],
)
def test_the_policy_asks_for_a_digest_that_is_known(image: str, by_tag: bool) -> None:
    found = findings(PODS, workload(image))

    assert [each.what for each in found] == ["the image is pulled by its tag, which may move"] * by_tag


@pytest.mark.parametrize("software", ["gpu-operator", "device-plugin", "dra-driver"])
@pytest.mark.parametrize(("digests", "passes"), [({}, True), ("off", False)], ids=["known", "off"])
def test_releases_of_ours_pass_the_policy_unless_digests_are_off(
    software: str, digests: Any, passes: bool, plan: Planner
) -> None:
    pools = {"a": {"gpu": "T4", "software": software, "nodes": {"min": 1, "max": 2}}}
    for release in plan("azure", pools, digests=digests, registry="mirror.example.com").releases:
        repository = {"repo": release.repository}
        inputs = {"chart": release.chart, "version": release.version, "values": release.values}
        found = findings(RELEASE, {**inputs, "repositoryOpts": repository})

        assert (found == []) is passes, release.chart


def test_the_production_policy_asks_for_digests() -> None:
    production = json.loads((ROOT / "policies/policy-config.prod.json").read_text(encoding="utf-8"))

    assert production["gpu-software-pinned"] == {"imagesBy": "digest"}


def findings(kind: str, inputs: Mapping[str, Any]) -> list[Finding]:
    software = read_software(kind, inputs)
    rule = gpu_software_pinned.RULE

    assert software is not None
    assert rule.software is not None
    return [*rule.software(software, Context(config={rule.name: {"imagesBy": "digest"}}))]


# --- the command ---


STACK = """config:
  gpupools:clusters:
    serve: {cloud: azure, name: s, resource_group: r, kubeconfig: {path: ~/.kube/s}, runtime: RUNTIME}
    other: {cloud: azure, name: o, resource_group: r, kubeconfig: {path: ~/.kube/o}}
  gpupools:pools:
    a: {clusters: [serve, other], gpu: T4, nodes: {max: 2}, software: gpu-operator}
"""


def stack(folder: Path, runtime: str) -> str:
    file = folder / "Pulumi.x.yaml"
    file.write_text(STACK.replace("RUNTIME", runtime), encoding="utf-8")
    return str(file)


def test_images_and_charts_are_listed_once_for_all_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["images", "--json", stack(tmp_path, "{registry: m.example.com}")]) == 0
    said = json.loads(capsys.readouterr().out)
    images = {each["image"]: each for each in said["images"]}
    (chart,) = said["charts"]

    assert len(images) == len(said["images"])
    assert images[IMAGE]["clusters"] == ["serve", "other"]
    assert images[IMAGE]["pulled"] == [
        f"{registry}/nvidia/k8s-device-plugin@{images[IMAGE]['digest']}" for registry in ("m.example.com", "nvcr.io")
    ]
    assert images[IMAGE]["by"] == ["chart gpu-operator: device plugin", "chart gpu-operator: GPU feature discovery"]
    assert images[IMAGE]["digest"].startswith("sha256:")
    assert images["nvcr.io/nvidia/driver:595.91.07"]["digest"] is None
    assert "595.91.07-ubuntu" in images["nvcr.io/nvidia/driver:595.91.07"]["note"]
    assert (chart["chart"], chart["version"]) == ("https://helm.ngc.nvidia.com/nvidia/gpu-operator", "v26.7.0")
    assert {bool(each["digest"]) == bool(each["digest_source"]) for each in (*said["images"], chart)} == {True}
    assert {each["image"]: each["digest_command"] for each in said["images"] if not each["digest"]} == {
        "nvcr.io/nvidia/driver:595.91.07": "crane digest nvcr.io/nvidia/driver:595.91.07-ubuntu24.04"
    }
    assert chart["digest_command"] == (
        "helm pull gpu-operator --repo https://helm.ngc.nvidia.com/nvidia --version v26.7.0"
        " && sha256sum gpu-operator-v26.7.0.tgz"
    )


@pytest.mark.parametrize(
    ("what", "source"),
    [
        ("nvcr.io/nvidia/gpu-operator:v26.7.0", "redhat-openshift-ecosystem/certified-operators"),
        ("registry.k8s.io/nfd/node-feature-discovery:v0.19.0", "kubernetes/k8s.io"),
        ("registry.k8s.io/pause:3.10", "kubernetes/k8s.io"),
        ("chart node-feature-discovery 0.19.0", "kubernetes/k8s.io"),
    ],
)
def test_a_digest_comes_from_who_published_it(what: str, source: str) -> None:
    known = digest_of(what)

    assert known is not None
    assert known.source.startswith(f"https://github.com/{source}")


def test_what_is_installed_has_its_publishers_digest_but_for_what_none_states(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unknown = set()
    for file in ("stacks/Pulumi.matrix.yaml", "examples/stacks/Pulumi.training.yaml"):
        assert main(["images", "--json", str(ROOT / file)]) == 0
        said = json.loads(capsys.readouterr().out)
        unknown |= {each["image"].rpartition(":")[0] for each in said["images"] if not each["digest"]}
        unknown |= {each["chart"] for each in said["charts"] if not each["digest"]}

    assert {each for each in unknown if "kai-scheduler" not in each} == {
        "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/aws-efa-k8s-device-plugin",
        "docker.io/library/python",
        *("docker.io/projecthami/hami", "registry.k8s.io/kube-scheduler"),
        "https://project-hami.github.io/HAMi/hami",
        "https://helm.ngc.nvidia.com/nvidia/gpu-operator",
        "nvcr.io/nvidia/driver",
        "nvcr.io/nvidia/k8s/cuda-sample",
    }


def test_what_is_not_known_is_printed_with_the_command_that_asks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["images", stack(tmp_path, "{registry: m.example.com}")]) == 0
    said = capsys.readouterr().out

    assert "These commands print the digests that are unknown here:\n  crane digest nvcr.io/nvidia/driver" in said


@pytest.mark.parametrize(
    ("image", "command"),
    [
        ("nvcr.io/nvidia/driver:1", "crane digest nvcr.io/nvidia/driver:1"),
        (
            "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/efa:v1",
            (
                "aws ecr get-login-password --region cn-north-1 | crane auth login"
                " 918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn -u AWS --password-stdin"
                " && crane digest 918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/efa:v1"
            ),
        ),
        ("a.example/b; rm -r c:1", "crane digest 'a.example/b; rm -r c:1'"),
    ],
    ids=["public", "AWS's own", "no image"],
)
def test_the_command_asks_the_registry_as_it_wants_to_be_asked(image: str, command: str) -> None:
    assert image_digest_command(image, clouds().values()) == command


def test_an_oci_chart_is_asked_for_as_an_image_is() -> None:
    assert chart_digest_command("c", "0.1", "oci://r.example/charts/c") == "crane digest r.example/charts/c:0.1"


def test_tags_of_a_version_that_is_not_pinned_are_not_made_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["images", "--json", stack(tmp_path, "{versions: {gpu-operator: 26.7.1}}")]) == 0
    images = {each["image"]: each for each in json.loads(capsys.readouterr().out)["images"]}

    assert "nvcr.io/nvidia/gpu-operator:v26.7.1" in images
    assert images["nvcr.io/nvidia/k8s-device-plugin:?"]["clusters"] == ["serve"]
    assert images["nvcr.io/nvidia/k8s-device-plugin:?"]["digest"] is None
    assert images["nvcr.io/nvidia/k8s-device-plugin:?"]["digest_command"] == ""
    assert "not the pinned one" in images["nvcr.io/nvidia/k8s-device-plugin:?"]["note"]


def test_a_refused_file_is_refused_here_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = stack(tmp_path, "{registry: mirror}")
    code = main(["images", file])
    printed = capsys.readouterr()

    assert code == 1
    assert printed.out == ""
    assert printed.err.startswith(f"{file}:3: clusters.serve.runtime.registry: 'mirror' is not a registry")
    assert main(["images", "--json", file]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["result"], said["images"], said["charts"]) == ("refused", [], [])


def test_a_file_that_installs_nothing_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text(
        "config:\n  gpupools:clusters:\n    m: {cloud: azure, name: s, resource_group: r}\n  gpupools:pools:\n"
        "    a: {clusters: [m], gpu: T4, nodes: {fixed: 1}, software: cloud-managed}\n",
        encoding="utf-8",
    )

    assert main(["images", str(file)]) == 0
    assert "nothing to mirror" in capsys.readouterr().out
