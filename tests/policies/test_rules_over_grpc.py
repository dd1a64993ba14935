"""Every rule from both sides, as the engine asks: inputs in wire form, over gRPC, one running pack for the module."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from pulumi.runtime.proto import analyzer_pb2

from tests.policies.asking import (
    AKS,
    EKS,
    GKE,
    SECRET,
    SIGNATURE,
    TAINT,
    TEMPLATE,
    UNKNOWN,
    asked,
    resource,
    running,
    struct,
    urn,
)
from tests.policies.pack_process import Diagnostic, PolicyPackProcess, StackResource

RELEASE = "kubernetes:helm.sh/v3:Release"
CHART = "kubernetes:helm.sh/v4:Chart"
DAEMONSET = "kubernetes:apps/v1:DaemonSet"
CONFIG: Mapping[str, Any] = {
    "gpu-pool-bounded": {"maxNodesPerPool": 20, "maxNodes": 30, "maxGpus": 200},
    "gpu-pool-protected": {"stacks": ["prod"]},
    "gpu-pool-owned": {"labels": ["owner"]},
}


def eks(**more: Any) -> dict[str, Any]:
    return {
        "amiType": "BOTTLEROCKET_x86_64_NVIDIA",
        "clusterName": "train",
        "instanceTypes": ["p4d.24xlarge"],
        "labels": {"owner": "vision"},
        "launchTemplate": {"id": "lt-1", "version": "1"},
        "scalingConfig": {"minSize": 0, "maxSize": 4, "desiredSize": 0},
        "taints": [TAINT],
        **more,
    }


def eks_alone(**more: Any) -> dict[str, Any]:
    """Return a group whose own taints decide: of newer images EKS merges user data, which a template may taint."""
    return eks(**{"amiType": "AL2_x86_64_GPU", **more})


def gke(**accelerator: Any) -> dict[str, Any]:
    return {
        "cluster": "lab",
        "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 4},
        "management": {"autoRepair": True, "autoUpgrade": True},
        "networkConfig": {"enablePrivateNodes": True},
        "nodeConfig": {
            "machineType": "a2-highgpu-1g",
            "imageType": "COS_CONTAINERD",
            "guestAccelerators": [
                {
                    "type": "nvidia-tesla-a100",
                    "count": 1,
                    "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
                    **accelerator,
                }
            ],
            "labels": {"owner": "vision", "gpupools/trust": "vision"},
            "metadata": {"disable-legacy-endpoints": "true"},
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "serviceAccount": "gpu-nodes@ml.iam.gserviceaccount.com",
            "shieldedInstanceConfig": {"enableIntegrityMonitoring": True},
            "kubeletConfig": {"insecureKubeletReadonlyPortEnabled": "FALSE"},
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
            "taints": [TAINT],
        },
    }


def in_node_config(wire: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**wire, "nodeConfig": {**wire["nodeConfig"], **more}}


def aks(**more: Any) -> dict[str, Any]:
    return {
        "agentPoolName": "gpu",
        "enableAutoScaling": True,
        "enableEncryptionAtHost": True,
        "enableNodePublicIP": False,
        "gpuProfile": {"driver": "Install"},
        "maxCount": 4,
        "minCount": 0,
        "nodeLabels": {"owner": "vision"},
        "nodeTaints": ["nvidia.com/gpu=present:NoSchedule"],
        "osSKU": "Ubuntu",
        "resourceName": "serve",
        "securityProfile": {"sshAccess": "Disabled"},
        "vmSize": "Standard_NC24ads_A100_v4",
        **more,
    }


def operator(version: Any = "v26.7.0", **more: Any) -> dict[str, Any]:
    repo = {"repo": "https://helm.ngc.nvidia.com/nvidia"}
    return {"chart": "gpu-operator", "version": version, "repositoryOpts": repo, **more}


def plugin(**more: Any) -> dict[str, Any]:
    repo = {"repo": "https://nvidia.github.io/k8s-device-plugin"}
    return {"chart": "nvidia-device-plugin", "version": "0.20.0", "repositoryOpts": repo, **more}


DRA_IMAGE = "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu"
CLAIMS_BY_OPERATOR = {"clusterPolicy": {"deployCR": False}, "gpuCluster": {"deployCR": True}}


def dra_driver(chart: str = "dra-driver-nvidia-gpu", **more: Any) -> dict[str, Any]:
    repo = {"repo": "https://example.com/charts"}
    return {"chart": chart, "version": "0.4.1", "repositoryOpts": repo, **more}


def requiring(*terms: tuple[str, str, list[str] | None]) -> dict[str, Any]:
    """Return an affinity that requires one of these terms: a label's key, an operator, and values."""
    listed = [
        {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]}
        for key, operator, values in terms
    ]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}}


def daemonset(image: str, *line: str) -> dict[str, Any]:
    ran = {"command": ["bash", "-c"], "args": [*line]} if line else {}
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image, **ran}]}}}}


pack = running(stack="prod", config=CONFIG)
remediating = running(config={"gpu-pool-tainted": "remediate"})
PROTECTED = analyzer_pb2.AnalyzerResourceOptions(protect=True)


def ask(pack: PolicyPackProcess, type_: str, wire: Mapping[str, Any], protect: bool = True) -> list[Diagnostic]:
    return asked(pack, resource(type_, "a", wire), options=PROTECTED if protect else None)


CLEAN = [
    pytest.param(EKS, eks(), id="EKS"),
    pytest.param(AKS, aks(), id="AKS"),
    pytest.param(GKE, gke(), id="GKE"),
    pytest.param(RELEASE, operator(), id="operator"),
    pytest.param(RELEASE, operator("26.3.2"), id="operator at the floor"),
    pytest.param(
        RELEASE, operator(values={"driver": {"enabled": False}, "toolkit": {"version": "v1.20.0"}}), id="values"
    ),
    pytest.param(
        RELEASE, {"chart": "oci://ghcr.io/nvidia/k8s-device-plugin/nvidia-device-plugin", "version": "0.20.0"}, id="OCI"
    ),
    pytest.param(RELEASE, {"chart": "./charts/gpu-operator"}, id="a chart of the project's own"),
    pytest.param(
        RELEASE, {"chart": "https://helm.ngc.nvidia.com/nvidia/charts/gpu-operator-v26.7.0.tgz"}, id="archive"
    ),
    pytest.param(CHART, plugin(values={"image": {"tag": "v0.19.0"}}), id="plugin with a tag"),
    pytest.param(RELEASE, {"chart": "nginx", "version": "latest"}, id="a chart without GPU software"),
    pytest.param(DAEMONSET, daemonset("nvcr.io/nvidia/k8s-device-plugin:v0.20.0"), id="image"),
    pytest.param(DAEMONSET, daemonset(f"nvcr.io/nvidia/k8s-device-plugin@sha256:{'0' * 64}"), id="image by digest"),
    pytest.param(DAEMONSET, daemonset("nginx:latest"), id="another image"),
    pytest.param("aws:s3/bucket:Bucket", {"bucket": UNKNOWN}, id="a bucket"),
]


@pytest.mark.parametrize(("type_", "wire"), CLEAN)
def test_what_is_right_passes_every_rule(pack: PolicyPackProcess, type_: str, wire: dict[str, Any]) -> None:
    assert [(said.policy, said.message) for said in ask(pack, type_, wire)] == []


def values(**given: Any) -> dict[str, Any]:
    return operator(values=given)


UNPINNED = [
    pytest.param(RELEASE, operator("26.x"), "not exact", id="a wildcard"),
    pytest.param(RELEASE, operator("v26.3.2-rc.1"), "26.3.2", id="a pre-release"),
    pytest.param(RELEASE, operator(devel=True), "development", id="devel"),
    pytest.param(RELEASE, operator(repositoryOpts={}), "no repository", id="no repo"),
    pytest.param(
        RELEASE, values(toolkit={"version": "v1.17.4-ubuntu20.04"}), "values.toolkit.version", id="an old toolkit"
    ),
    pytest.param(RELEASE, values(driver={"version": "580.126.20"}), "580.178.04", id="an old driver"),
    pytest.param(RELEASE, values(driver={"version": "550.54.15"}), "615.71.09", id="a driver branch without the fix"),
    pytest.param(RELEASE, values(dcgmExporter={"version": "latest"}), "not pinned", id="latest in a value"),
    pytest.param(RELEASE, values(driver={"version": 580.1}), "is a number", id="a version as a number"),
    pytest.param(CHART, plugin(version="0.17.2"), "CVE-2025-23266", id="v4 Chart"),
    pytest.param(CHART, plugin(values={"image": {"tag": "v0.17.0"}}), "values.image.tag", id="old tag"),
    pytest.param(RELEASE, operator(UNKNOWN), "not known yet", id="unknown version"),
    pytest.param(DAEMONSET, daemonset("nvcr.io/nvidia/k8s-device-plugin:v0.14.1"), "0.17.3", id="an old image"),
]


@pytest.mark.parametrize(("type_", "wire", "word"), UNPINNED)
def test_software_that_is_old_or_not_pinned_is_said_once(
    pack: PolicyPackProcess, type_: str, wire: dict[str, Any], word: str
) -> None:
    assert word in _said_once(pack, type_, wire, "gpu-software-pinned", "mandatory")


def test_a_pool_without_a_taint_or_a_launch_template_is_said_once_for_each_fault(pack: PolicyPackProcess) -> None:
    assert "nodeTaints" in _said_once(pack, AKS, aks(nodeTaints=[]), "gpu-pool-tainted", "mandatory")
    bare = eks(launchTemplate=None)
    assert "launchTemplate" in _said_once(pack, EKS, bare, "gpu-node-hardening-advised", "advisory", times=2)


def _said_once(
    pack: PolicyPackProcess, type_: str, wire: dict[str, Any], policy: str, level: str, times: int = 1
) -> str:
    said = ask(pack, type_, wire)

    assert [(each.policy, each.level) for each in said] == [(policy, level)] * times
    assert said[0].message.split("\n")[1].startswith("a: ")
    assert f"docs/reference/policies.md#{policy})" in said[0].message
    assert said[0].urn.endswith("::a")
    return said[0].message


POLICIES = Path(__file__).resolve().parents[2] / "policies"
OPEN: Mapping[str, Mapping[str, Any]] = {
    "enableEncryptionAtHost": {"enableEncryptionAtHost": False},
    "securityProfile.sshAccess": {"securityProfile": {"sshAccess": "LocalUser"}},
}


@pytest.mark.parametrize(("environment", "level"), [("dev", "advisory"), ("prod", "mandatory")])
def test_an_aks_pool_with_open_nodes_is_advised_against_and_stopped_in_production(environment: str, level: str) -> None:
    rule, left_out = "gpu-node-hardening-advised", "securityProfile.sshAccess"
    config = json.loads((POLICIES / f"policy-config.{environment}.json").read_text(encoding="utf-8"))
    with PolicyPackProcess(config=config) as as_committed:
        assert ask(as_committed, AKS, aks()) == []
        for path, given in OPEN.items():
            (said,) = ask(as_committed, AKS, aks(**given))
            assert (said.policy, said.level) == (rule, level)
            assert f"expected {path}: " in said.message
    with PolicyPackProcess(config={**config, rule: {"enforcementLevel": level, "leaveOut": [left_out]}}) as without:
        assert ask(without, AKS, aks()) == []
        assert [path for path, given in OPEN.items() if ask(without, AKS, aks(**given))] == ["enableEncryptionAtHost"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e308, -1.0, 0.5])
def test_numbers_that_no_api_takes_are_judged_and_raise_nothing(pack: PolicyPackProcess, value: float) -> None:
    odd = eks_alone(taints=[], scalingConfig={"minSize": value, "maxSize": value}, diskSize=value)

    assert "gpu-pool-tainted" in [said.policy for said in ask(pack, EKS, odd)]
    assert ask(pack, RELEASE, operator(timeout=value)) == []
    assert "gpu-software-pinned" in [said.policy for said in ask(pack, RELEASE, operator(value))]


@pytest.mark.parametrize("envelope", [{SIGNATURE: SECRET}, {SIGNATURE: "no such"}, {SIGNATURE: 1.0}])
def test_a_broken_envelope_is_a_violation_and_no_error(pack: PolicyPackProcess, envelope: dict[str, Any]) -> None:
    assert "gpu-pool-tainted" in [said.policy for said in ask(pack, EKS, eks_alone(taints=[envelope]))]


ODD: list[Any] = [
    None,
    True,
    1.0,
    "",
    "x",
    [],
    [None],
    {},
    {"": None},
    UNKNOWN,
    [UNKNOWN],
    {SIGNATURE: SECRET, "value": 1},
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_no_chart_makes_the_pack_fail(pack: PolicyPackProcess, odd: Any) -> None:
    for key in ("chart", "version", "repositoryOpts", "values", "devel"):
        ask(pack, RELEASE, operator(**{key: odd}) if key != "version" else operator(odd))
    for part in ("driver", "toolkit", "devicePlugin", "nodeSelector", "affinity"):
        ask(pack, RELEASE, operator(values={part: odd}))
        ask(pack, RELEASE, operator(values={part: {"version": odd, "enabled": odd}}))
    for pod in (odd, {"spec": odd}, {"spec": {"template": {"spec": {"containers": odd}}}}):
        ask(pack, DAEMONSET, {"spec": pod})
    judged = stack(pack, (RELEASE, "odd", operator(values=odd)), (EKS, "pool", eks(labels=odd, clusterName=odd)))

    assert {each.policy for each in judged} <= {"gpu-software-one-owner", "gpu-pool-tainted"}


# --- the whole stack ---

K8S = "pulumi:providers:kubernetes"


def stack(pack: PolicyPackProcess, *resources: tuple[str, str, Mapping[str, Any]]) -> list[Diagnostic]:
    """Judge a stack of (type, name, inputs)."""
    return pack.analyze_stack([resource(*each) for each in resources])


def told(said: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(each.policy, each.urn.rsplit("::", 1)[-1]) for each in said]


AL2023 = eks(amiType="AL2023_x86_64_NVIDIA")
GPU_DRIVER_OFF = {"driver": {"enabled": False}, "toolkit": {"enabled": False}}


def whole(what: str, said: list[tuple[str, str]], *resources: tuple[str, str, dict[str, Any]]) -> Any:
    return pytest.param(resources, said, id=what)


def second(name: str) -> list[tuple[str, str]]:
    """Return the findings on a second owner of the same software."""
    return [("gpu-software-one-owner", name)]


ON_AL2023 = (EKS, "pool", AL2023)
ON_BOTTLEROCKET = (EKS, "pool", eks())
PLUGIN = (RELEASE, "plugin", plugin())
OPERATOR = (RELEASE, "operator", operator())
DRA = (RELEASE, "dra", dra_driver())
PLUGIN_CHART = (CHART, "plugin", plugin())
WITHOUT_DRIVER = (AKS, "pool", aks(gpuProfile={"driver": "None"}))
OPERATOR_ALONE = (RELEASE, "operator", operator(values=GPU_DRIVER_OFF))
OPERATOR_WITH_CLAIMS = (RELEASE, "operator", operator(values={**GPU_DRIVER_OFF, **CLAIMS_BY_OPERATOR}))


ELSEWHERE = {"pool": "other"}
OF_VISION, OF_ANYONE = requiring(("owner", "In", ["vision"])), requiring(("owner", "Exists", None))
OFF = {"enabled": False}


def plugin_with(**values: Any) -> tuple[str, str, dict[str, Any]]:
    return (RELEASE, "plugin", plugin(values=values))


def operator_with(**values: Any) -> tuple[str, str, dict[str, Any]]:
    return (RELEASE, "operator", operator(values=values))


def dra_with(values: Any) -> tuple[str, str, dict[str, Any]]:
    return (RELEASE, "dra", dra_driver(values=values))


def ran(name: str, image: str, *line: str) -> tuple[str, str, dict[str, Any]]:
    return (DAEMONSET, name, daemonset(image, *line))


def of_size(most: int) -> tuple[str, str, dict[str, Any]]:
    return (EKS, "pool", eks(scalingConfig={"minSize": 0, "maxSize": most}))


IN_EVERY_ZONE = [
    (GKE, "a", gke() | {"location": "europe-west4", "autoscaling": {"maxNodeCount": 5}}),
    (GKE, "b", gke() | {"nodeLocations": ["us-east1-b", "us-east1-c"], "autoscaling": {"maxNodeCount": 8}}),
]
BOUNDED = [("gpu-pool-bounded", "")]
SMALL = eks(instanceTypes=["g6.xlarge"], scalingConfig={"maxSize": 20})


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        whole("AL2023 and the plugin chart", [], ON_AL2023, PLUGIN),
        whole("AL2023, operator, off", [], ON_AL2023, OPERATOR_ALONE),
        whole("AL2023 and the operator's driver and toolkit", second("operator") * 2, ON_AL2023, OPERATOR),
        whole("Bottlerocket and the plugin chart", second("plugin"), ON_BOTTLEROCKET, PLUGIN),
        whole("the chart kept off by a selector", [], ON_BOTTLEROCKET, plugin_with(nodeSelector=ELSEWHERE)),
        whole("by an affinity", [], ON_BOTTLEROCKET, plugin_with(affinity={"nodeAffinity": {"x": 1}})),
        *(
            whole(
                f"the plugin chart with an affinity: {what}",
                second("plugin") if lands else [],
                ON_BOTTLEROCKET,
                plugin_with(affinity=requiring(*terms)),
            )
            for what, lands, terms in (
                ("of the nodes' label", True, [("owner", "In", ["speech", "vision"])]),
                ("of another label", False, [("owner", "In", ["speech"])]),
                ("of a label's presence", True, [("owner", "Exists", None)]),
                ("of a label that is not declared", False, [("zone", "Exists", None)]),
                ("of one label or another", True, [("owner", "In", ["speech"]), ("owner", "Exists", None)]),
                ("of a label's absence, which none can see", False, [("zone", "DoesNotExist", None)]),
                ("of a value not known yet", False, [("owner", "In", [UNKNOWN])]),
            )
        ),
        whole(
            "plugin chart and DRA driver, both with an affinity of the same nodes",
            second("dra"),
            *(ON_AL2023, plugin_with(affinity=OF_VISION), dra_with({"kubeletPlugin": {"affinity": OF_ANYONE}})),
        ),
        whole("GKE's own driver and the operator", second("operator") * 3, (GKE, "pool", gke()), OPERATOR),
        whole("AKS's driver and the operator", second("operator") * 2, (AKS, "pool", aks()), OPERATOR),
        whole("AKS without a driver and the operator", [], WITHOUT_DRIVER, operator_with(toolkit=OFF)),
        whole("operator and plugin chart, the pools elsewhere", second("plugin"), OPERATOR_ALONE, PLUGIN),
        whole("operator without its plugin", [], operator_with(**GPU_DRIVER_OFF, devicePlugin=OFF), PLUGIN),
        whole("the plugin chart without its plugin", [], ON_BOTTLEROCKET, plugin_with(devicePlugin=OFF)),
        whole("the DRA driver, then the plugin chart", second("plugin"), ON_AL2023, DRA, PLUGIN),
        whole("the plugin chart, then the DRA driver", second("dra"), ON_AL2023, PLUGIN, DRA),
        whole(
            "the DRA driver's old chart and the plugin, the pools elsewhere",
            second("dra"),
            *(PLUGIN, (RELEASE, "dra", dra_driver(chart="nvidia-dra-driver-gpu"))),
        ),
        whole("AL2023 and the DRA driver", [], ON_AL2023, DRA),
        whole("Bottlerocket's plugin and the DRA driver", second("dra"), ON_BOTTLEROCKET, DRA),
        *(
            whole(f"plugin chart and DRA driver: {what}", said, ON_AL2023, PLUGIN, dra_with(values))
            for what, said, values in (
                ("for NVLink alone", [], {"resources": {"gpus": OFF}}),
                ("kept off by its kubelet plugin's selector", [], {"kubeletPlugin": {"nodeSelector": ELSEWHERE}}),
                ("with a selector that its chart does not read", second("dra"), {"nodeSelector": ELSEWHERE}),
                ("whose values are not known yet", [], UNKNOWN),
                ("whose place is not known yet", [], {"kubeletPlugin": UNKNOWN}),
            )
        ),
        whole("two DRA drivers", second("dra-again"), DRA, (CHART, "dra-again", dra_driver())),
        whole("the operator's DRA driver and the plugin chart", second("plugin"), OPERATOR_WITH_CLAIMS, PLUGIN),
        whole("AL2023 and the operator's DRA driver", [], ON_AL2023, OPERATOR_WITH_CLAIMS),
        whole("the operator's plugin and the DRA driver", second("dra"), OPERATOR_ALONE, DRA),
        whole(
            "the plugin chart and a DRA DaemonSet",
            second("dra"),
            PLUGIN_CHART,
            ran("dra", f"{DRA_IMAGE}:v0.4.1", "gpu-kubelet-plugin -v 4"),
            ran("nvlink", f"{DRA_IMAGE}:v0.4.1", "compute-domain-kubelet-plugin -v 4"),
        ),
        whole("a DaemonSet", second("old"), PLUGIN_CHART, ran("old", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0")),
        whole("nobody's driver", [("gpu-driver-installed", "pool")], WITHOUT_DRIVER, PLUGIN),
        whole("nobody's driver, unless somebody outside the stack", [("unverified-in-stack", "pool")], WITHOUT_DRIVER),
        whole("164 GPUs on 24 nodes", [], of_size(20), (GKE, "other", gke())),
        whole("212 GPUs", BOUNDED, of_size(26), (GKE, "other", gke())),
        whole("33 nodes", BOUNDED, (EKS, "a", SMALL), (GKE, "b", gke()), (AKS, "c", aks(maxCount=9))),
        whole("31 nodes, counted in every zone", BOUNDED, *IN_EVERY_ZONE),
    ],
)
def test_the_whole_stack_is_judged(
    pack: PolicyPackProcess, resources: tuple[tuple[str, str, dict[str, Any]], ...], said: list[tuple[str, str]]
) -> None:
    assert told(stack(pack, *resources)) == said


def kubeconfig(server: str = "https://203.0.113.7", name: str = "lab", other: str = "https://203.0.113.8") -> str:
    """Return the text of a kubeconfig with two clusters, as the provider gets it."""
    names = {name: server, f"{name}-2": other}
    return json.dumps(
        {
            "clusters": [{"name": each, "cluster": {"server": at}} for each, at in names.items()],
            "contexts": [{"name": each, "context": {"cluster": each, "user": "u"}} for each in names],
            "current-context": name,
        }
    )


SAME = [
    pytest.param({"kubeconfig": "~/.kube/x"}, {"kubeconfig": "~/.kube/x"}, True, id="one path"),
    pytest.param(
        {"kubeconfig": "~/.kube/x", "context": "a"}, {"kubeconfig": "~/.kube/x", "context": "b"}, False, id="contexts"
    ),
    pytest.param({"kubeconfig": "~/.kube/x"}, {"kubeconfig": "~/.kube/y"}, False, id="two paths"),
    pytest.param({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig(name="other")}, True, id="one server"),
    pytest.param(
        {"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig(), "context": "lab-2"}, False, id="two of one"
    ),
    pytest.param({"kubeconfig": kubeconfig()}, {"kubeconfig": kubeconfig(), "cluster": "lab-2"}, False, id="a cluster"),
    pytest.param({"kubeconfig": "{{"}, {"kubeconfig": "}"}, False, id="no kubeconfig"),
    pytest.param({"kubeconfig": UNKNOWN}, {"kubeconfig": UNKNOWN}, False, id="late"),
    pytest.param({"namespace": "a"}, {"namespace": "b"}, False, id="whatever the machine has"),
]


def two_clusters(*providers: StackResource) -> list[StackResource]:
    """Return the providers with the operator's chart on the first and the plugin's on the second."""
    used = [
        analyzer_pb2.AnalyzerProviderResource(type=K8S, name=each.name, urn=each.urn, properties=each.properties)
        for each in providers
    ]
    charts = (("operator", operator()), ("plugin", plugin()))
    releases = [
        resource(RELEASE, name, chart, provider=provider) for (name, chart), provider in zip(charts, used, strict=True)
    ]
    return [*providers, *releases]


@pytest.mark.parametrize(("one", "other", "same"), SAME)
def test_two_providers_of_one_cluster_are_one_cluster(
    pack: PolicyPackProcess, one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    resources = two_clusters(resource(K8S, "a", one), resource(K8S, "b", other))

    assert told(pack.analyze_stack(resources)) == ([("gpu-software-one-owner", "plugin")] if same else [])


def test_two_providers_made_from_one_new_cluster_are_one_cluster(pack: PolicyPackProcess) -> None:
    def judged(type_: str) -> list[tuple[str, str]]:
        source = resource(type_, "c", {})
        providers = [resource(K8S, name, {"kubeconfig": UNKNOWN}, kubeconfig=source.urn) for name in "ab"]
        return told(pack.analyze_stack([source, *two_clusters(*providers)]))

    assert judged("eks:index:Cluster") == [("gpu-software-one-owner", "plugin")]
    assert judged("pulumi:pulumi:StackReference") == []


SYSTEM_TAINT = "CriticalAddonsOnly=true:NoSchedule"
TOLERATED = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("profiles", "values", "told_of"),
    [
        ([{"nodeTaints": [SYSTEM_TAINT]}], {}, "values.operator.tolerations"),
        (
            [{"nodeTaints": [SYSTEM_TAINT]}, {"name": "more", "nodeTaints": [SYSTEM_TAINT, "a=b:NoSchedule"]}],
            {},
            "c (sys) has the taint",
        ),
        (
            [{"nodeTaints": [SYSTEM_TAINT]}],
            {"operator": {"tolerations": TOLERATED}},
            "values.node-feature-discovery.master.tolerations",
        ),
        (
            [{"nodeTaints": [SYSTEM_TAINT]}],
            {"operator": {"tolerations": TOLERATED}, "nfd": {"enabled": False}},
            "",
        ),
        ([{"nodeTaints": [SYSTEM_TAINT]}, {"name": "user", "mode": "User"}], {}, ""),
        ([{"nodeTaints": UNKNOWN}], {}, ""),
        ([{"nodeTaints": ["soft=yes:PreferNoSchedule"]}], {}, ""),
        ([{"nodeTaints": [SYSTEM_TAINT]}], {"operator": {"tolerations": UNKNOWN}, "nfd": {"enabled": False}}, ""),
        ([{"nodeTaints": [SYSTEM_TAINT]}], UNKNOWN, ""),
    ],
)
def test_an_operator_without_a_node_to_start_on_is_told(
    pack: PolicyPackProcess, profiles: list[dict[str, Any]], values: Any, told_of: str
) -> None:
    system = {"name": "sys", "mode": "System", "count": 1, "vmSize": "Standard_D4s_v5"}
    made_of = {"agentPoolProfiles": [{**system, **each} for each in profiles]}
    cluster = resource("azure-native:containerservice:ManagedCluster", "c", made_of)
    pool = resource(AKS, "pool", aks(gpuProfile={"driver": "None"}), resourceName=cluster.urn)
    chart = (
        operator(values={"toolkit": {"enabled": False}, **values}) if values is not UNKNOWN else operator(values=values)
    )
    release = resource(RELEASE, "operator", chart)
    said = [each for each in pack.analyze_stack([cluster, pool, release]) if "cannot start on any pool" in each.message]

    assert told([*said]) == ([("unverified-in-stack", "operator")] if told_of else [])
    assert all(told_of in each.message for each in said)


def test_a_chart_and_what_it_renders_are_one_owner(pack: PolicyPackProcess) -> None:
    chart = resource(CHART, "p", plugin())
    rendered = resource(DAEMONSET, "p", daemonset("nvcr.io/nvidia/k8s-device-plugin:v0.20.0"), chart.urn)

    assert pack.analyze_stack([chart, rendered]) == []


def with_template(template: Mapping[str, Any], group: Mapping[str, Any]) -> list[StackResource]:
    """Declare a template and a group made from it; at preview only the dependency says which."""
    return [resource(TEMPLATE, "lt", template), resource(EKS, "ng", group, launchTemplate=urn(TEMPLATE, "lt"))]


HARD = {"metadataOptions": {"httpTokens": "required", "httpEndpoint": "enabled", "httpPutResponseHopLimit": 1}}
GROUP = {
    "clusterName": "train",
    "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN},
    "labels": {"owner": "me"},
    "scalingConfig": {"minSize": 0, "maxSize": 4},
}


@pytest.mark.parametrize(
    ("instance_type", "taints", "said"),
    [
        ("p4d.24xlarge", [], ["gpu-pool-tainted"]),
        ("p4d.24xlarge", [TAINT], []),
        ("m6i.large", [], []),
        (UNKNOWN, [], ["gpu-pool-tainted"]),
        (UNKNOWN, [TAINT], []),
    ],
)
def test_a_machine_that_only_the_launch_template_names_is_judged_with_it_and_once(
    pack: PolicyPackProcess, instance_type: str, taints: list[Any], said: list[str]
) -> None:
    group = {**GROUP, "taints": taints}
    alone = [each.policy for each in ask(pack, EKS, group)]
    both = with_template({"instanceType": instance_type, **HARD}, group)
    together = [each.policy for each in pack.analyze_stack(both)]

    assert [each for each in alone if "tainted" in each] == []
    assert [each for each in together if "tainted" in each] == said


def test_a_launch_template_outside_the_stack_leaves_the_pool_unverified(pack: PolicyPackProcess) -> None:
    (said,) = [
        each
        for each in stack(pack, (EKS, "ng", {**GROUP, "launchTemplate": {"id": "lt-of-others"}, "taints": []}))
        if "tainted" in each.policy
    ]

    assert (said.policy, said.level) == ("gpu-pool-tainted", "mandatory")
    assert "cannot be verified" in said.message


def test_a_template_that_leaves_the_metadata_service_open_is_at_fault_itself(pack: PolicyPackProcess) -> None:
    soft = {"instanceType": "p4d.24xlarge", "metadataOptions": {"httpTokens": "optional"}}
    said = pack.analyze_stack(with_template(soft, {**GROUP, "taints": [TAINT]}))

    assert {each.policy for each in said} == {"gpu-node-hardened"}
    assert {each.urn for each in said} == {urn(TEMPLATE, "lt")}
    assert any("httpTokens" in each.message for each in said)


# --- remediation ---


def remediated(pack: PolicyPackProcess, type_: str, wire: Mapping[str, Any]) -> list[Any]:
    request = analyzer_pb2.AnalyzeRequest(urn=urn(type_, "a"), type=type_, name="a", properties=struct(wire))
    answer = pack._call("Remediate", request)
    assert all(each.policyName == "gpu-pool-tainted" and not each.diagnostic for each in answer.remediations)
    return [json_format.MessageToDict(each.properties) for each in answer.remediations]


@pytest.mark.parametrize(
    ("type_", "before", "after"),
    [
        pytest.param(EKS, eks_alone(taints=[]), eks_alone(), id="EKS"),
        pytest.param(EKS, {k: v for k, v in eks_alone().items() if k != "taints"}, eks_alone(), id="EKS, absent"),
        pytest.param(
            EKS,
            eks(taints=[]),
            eks(),
            id="EKS, whose launch template could give a second taint",
        ),
        pytest.param(
            AKS,
            aks(nodeTaints=["a=b:NoExecute2"]),
            aks(nodeTaints=["a=b:NoExecute2", "nvidia.com/gpu=present:NoSchedule"]),
            id="AKS",
        ),
        pytest.param(GKE, in_node_config(gke(), taints=None), gke(), id="GKE"),
        pytest.param(
            EKS,
            eks_alone(taints={SIGNATURE: SECRET, "value": []}, nodeRoleArn=UNKNOWN),
            eks_alone(taints={SIGNATURE: SECRET, "value": [TAINT]}, nodeRoleArn=UNKNOWN),
            id="secret taints stay secret, unknown inputs unknown",
        ),
        pytest.param(
            GKE,
            {**gke(), "nodeConfig": {SIGNATURE: SECRET, "value": in_node_config(gke(), taints=[])["nodeConfig"]}},
            {**gke(), "nodeConfig": {SIGNATURE: SECRET, "value": gke()["nodeConfig"]}},
            id="a secret on the way",
        ),
        pytest.param(
            "kubernetes:infrastructure.cluster.x-k8s.io/v1beta2:AWSManagedMachinePool",
            {"spec": {"instanceType": "g5.xlarge"}},
            {"spec": {"instanceType": "g5.xlarge", "taints": [{**TAINT, "effect": "no-schedule"}]}},
            id="Cluster API",
        ),
    ],
)
def test_remediation_adds_the_missing_taint_in_the_right_spelling(
    remediating: PolicyPackProcess, type_: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert remediated(remediating, type_, before) == [json_format.MessageToDict(struct(after))]
    assert "gpu-pool-tainted" not in [said.policy for said in ask(remediating, type_, after)]


@pytest.mark.parametrize(
    "wire",
    [
        pytest.param(eks(), id="tainted already"),
        pytest.param(eks(instanceTypes=["m6i.large"], amiType="AL2023_x86_64_STANDARD", taints=[]), id="a CPU pool"),
        pytest.param(eks(taints=UNKNOWN), id="taints not known yet"),
        pytest.param(eks(taints=[], amiType="CUSTOM"), id="an image of one's own, whose user data taints"),
        pytest.param(
            {k: v for k, v in eks(taints=[]).items() if k not in ("instanceTypes", "amiType")}, id="its machine"
        ),
    ],
)
def test_remediation_changes_nothing_else(remediating: PolicyPackProcess, wire: dict[str, Any]) -> None:
    assert remediated(remediating, EKS, wire) == []


def test_remediation_is_opt_in_and_what_it_cannot_write_stays_a_violation(
    pack: PolicyPackProcess, remediating: PolicyPackProcess
) -> None:
    assert remediated(pack, EKS, eks_alone(taints=[])) == []
    assert [(said.policy, said.level) for said in ask(remediating, AKS, aks(nodeTaints=UNKNOWN))] == [
        ("gpu-pool-tainted", "mandatory")
    ]
