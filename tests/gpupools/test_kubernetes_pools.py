"""What counts as a GPU pool among Kubernetes objects, and what keeps other pods off its nodes."""

from fractions import Fraction
from typing import Any

import pytest

from gpupools.audit.cluster_api import read_bootstrap, read_owner
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.pool_facts import UNKNOWN, By, PoolFacts
from gpupools.providers import clouds
from gpupools.readback.inputs import joined, with_taint
from gpupools.readback.kubernetes_pools import each_kubernetes_pool, read_template
from gpupools.readback.machine_owners import Named, bootstrapped
from tests.providers.test_amounts import amounts

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
AWS = "karpenter.k8s.aws"
AZURE = "karpenter.azure.com"
EC2_CLASS = {"group": AWS, "kind": "EC2NodeClass", "name": "default"}
CLUSTER_API = "infrastructure.cluster.x-k8s.io/v1beta2"


def need(key: str, operator: str, *values: Any) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def node_pool(*requirements: Any, **spec: Any) -> dict[str, Any]:
    limits = {"limits": spec.pop("limits")} if "limits" in spec else {}
    inner = {"requirements": list(requirements), "nodeClassRef": EC2_CLASS, **spec}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {"template": {"spec": inner}, **limits},
    }


def read(manifest: Any) -> tuple[PoolFacts, ...]:
    return tuple(each_kubernetes_pool("kubernetes:v1:Object", manifest, clouds()))


def verdict(pools: tuple[PoolFacts, ...]) -> str:
    return ", ".join(map(amounts, pools)) or "none"


TYPE = "node.kubernetes.io/instance-type"


def test_a_pulumi_resource_is_read_like_its_manifest() -> None:
    manifest = node_pool(need(TYPE, "In", "g6.xlarge"))
    bare = {"spec": manifest["spec"]}

    assert tuple(each_kubernetes_pool("kubernetes:karpenter.sh/v1:NodePool", manifest, clouds())) == read(manifest)
    assert tuple(each_kubernetes_pool("kubernetes:karpenter.sh/v1:NodePool", bare, clouds())) == read(manifest)
    assert tuple(each_kubernetes_pool("aws:eks/nodeGroup:NodeGroup", manifest, clouds())) == ()


@pytest.mark.parametrize(
    ("manifest", "cloud", "where", "effect"),
    [
        (node_pool(need(TYPE, "In", "g6.xlarge")), "aws", "spec.template.spec.taints", "NoSchedule"),
        (
            {"apiVersion": CLUSTER_API, "kind": "AWSManagedMachinePool", "spec": {"instanceType": "g5.xlarge"}},
            "aws",
            "spec.taints",
            "no-schedule",
        ),
        (
            {"apiVersion": CLUSTER_API, "kind": "GCPManagedMachinePool", "spec": {"machineType": "g2-standard-4"}},
            "gcp",
            "spec.kubernetesTaints",
            "NoSchedule",
        ),
    ],
    ids=["Karpenter", "EKS", "GKE"],
)
def test_the_missing_taint_can_be_added_in_the_objects_own_spelling(
    manifest: dict[str, Any], cloud: str, where: str, effect: str
) -> None:
    (pool,) = read(manifest)
    mended = with_taint(manifest, pool)

    assert (pool.cloud, pool.where) == (cloud, where)
    assert effect in pool.missing_taint.text
    assert mended is not None
    assert read(mended)[0].taints == (GPU_TAINT,)


@pytest.mark.parametrize(
    ("token", "spec", "names", "plugin"),
    [
        (f"kubernetes:{AWS}/v1:EC2NodeClass", {"amiSelectorTerms": [{"alias": "al2023@v1"}]}, set(), By.NOBODY),
        (
            f"kubernetes:{AWS}/v1:EC2NodeClass",
            {
                "amiFamily": "AL2",
                "metadataOptions": {"httpTokens": "optional", "httpPutResponseHopLimit": 2},
                "associatePublicIPAddress": True,
                "blockDeviceMappings": [{"ebs": {"volumeSize": "100Gi"}}],
            },
            {"retired-image", "metadata-service", "metadata-hop-limit", "public-address", "disk-encryption"},
            By.UNSAID,
        ),
        (f"kubernetes:{AWS}/v1:EC2NodeClass", {"amiFamily": "Bottlerocket"}, set(), By.CLOUD),
        (f"kubernetes:{AZURE}/v1beta1:AKSNodeClass", {"security": {"encryptionAtHost": True}}, set(), By.NOBODY),
        (f"kubernetes:{AZURE}/v1beta1:AKSNodeClass", {"gpu": {"mode": "None"}}, {"disk-encryption"}, By.NOBODY),
    ],
    ids=["AL2023", "weak", "Bottlerocket", "AKS", "AKS without driver"],
)
def test_a_node_class_adds_software_and_weaknesses(
    token: str, spec: dict[str, Any], names: set[str], plugin: By
) -> None:
    found = read_template(token, {"spec": spec}, clouds())
    assert found is not None
    (pool,) = read(node_pool(need(TYPE, "In", "g6.xlarge")))
    both = joined(pool, found, pool.elsewhere[0].property)

    assert {one.name for one in found.weaknesses} == names
    assert len(both.weaknesses) == len(found.weaknesses)
    assert both.software.device_plugin is plugin
    assert (both.gpus_per_node, both.elsewhere) == (Fraction(1), ())


def test_only_node_classes_are_node_classes() -> None:
    assert read_template("kubernetes:karpenter.sh/v1:NodePool", node_pool(), clouds()) is None


JOINS = {
    "bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate", "name": "c", "namespace": "n"}},
    "infrastructureRef": {"kind": "AWSMachineTemplate", "name": "m"},
    "taints": [TAINT, {"key": "late", "effect": UNKNOWN}, {"key": "wrong", "effect": "x"}],
}


@pytest.mark.parametrize("kind", ["MachineDeployment", "MachineSet", "MachinePool", "Machine"])
def test_an_owner_names_machine_and_bootstrap_and_has_taints(kind: str) -> None:
    spec = JOINS if kind == "Machine" else {"template": {"spec": JOINS}}
    path = "spec" if kind == "Machine" else "spec.template.spec"
    owner = read_owner(f"kubernetes:cluster.x-k8s.io/v1beta1:{kind}", {"metadata": {"namespace": "own"}, "spec": spec})

    assert owner is not None
    assert owner.machine == Named("AWSMachineTemplate", "m", "own")
    assert owner.bootstrap == Named("KubeadmConfigTemplate", "c", "n")
    assert owner.facts.taints == (GPU_TAINT,)
    assert owner.facts.unknown == (f"{kind} {path}.taints[1].effect",)
    assert [one.startswith(f"{kind} {path}.taints[2]: effect 'x'") for one in owner.facts.not_counted] == [True]
    assert owner.facts.gpus_per_node == 0


@pytest.mark.parametrize(
    "token",
    [
        "kubernetes:cluster.x-k8s.io/v1beta1:Cluster",
        "kubernetes:cluster.x-k8s.io/v1beta1:MachineHealthCheck",
        "kubernetes:machine.openshift.io/v1beta1:MachineSet",
        "kubernetes:core/v1:Pod",
        "aws:eks/nodeGroup:NodeGroup",
    ],
)
def test_other_objects_own_no_machines_and_bootstrap_none(token: str) -> None:
    assert read_owner(token, {"spec": {"template": {"spec": JOINS}}}) is None
    assert read_bootstrap(token, {"spec": {"template": {"spec": JOINS}}}, clouds()) is None


@pytest.mark.parametrize("kind", ["Secret", "TalosConfig", "KubeadmConfigTemplateTemplate"])
def test_a_bootstrap_of_another_kind_is_not_read(kind: str) -> None:
    assert read_bootstrap(f"kubernetes:bootstrap.cluster.x-k8s.io/v1beta1:{kind}", {"spec": {}}, clouds()) is None


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": UNKNOWN}, "undecided"),
        ({"apiVersion": "cloud.google.com/v1", "kind": "ComputeClass", "spec": UNKNOWN}, "undecided"),
        ({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "NodePool", "spec": {}}, "none"),
        ({"apiVersion": 1, "kind": "NodePool", "spec": {}}, "none"),
        ({"kind": "NodePool", "spec": {}}, "none"),
        ("text", "none"),
        (None, "none"),
    ],
)
def test_an_object_is_known_by_group_and_kind(manifest: Any, expected: str) -> None:
    assert verdict(read(manifest)) == expected


def test_an_object_says_its_kind_itself_and_its_token_otherwise() -> None:
    inputs = node_pool(need(TYPE, "In", "g6.xlarge"))
    bare = {"spec": inputs["spec"]}

    assert (
        verdict(tuple(each_kubernetes_pool("kubernetes:apiextensions.k8s.io/v1:CustomResource", inputs, clouds())))
        == "open"
    )
    assert verdict(tuple(each_kubernetes_pool("kubernetes:karpenter.sh/v1:NodePool", bare, clouds()))) == "open"
    assert tuple(each_kubernetes_pool("kubernetes:core/v1:Pod", bare, clouds())) == ()
    assert tuple(each_kubernetes_pool("karpenter.sh/v1:NodePool", inputs, clouds())) == ()
    assert tuple(each_kubernetes_pool("kubernetes:karpenter.sh/v1:NodePool", UNKNOWN, clouds())) == ()  # type: ignore[arg-type]


STARTS = {"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}


def test_machines_with_their_bootstrap_leave_nothing_to_ask() -> None:
    spec = {"template": {"spec": {"instanceType": "g5.xlarge"}}}
    (machines,) = read({"apiVersion": CLUSTER_API, "kind": "AWSMachineTemplate", "spec": spec})
    token = "kubernetes:bootstrap.cluster.x-k8s.io/v1beta1:KubeadmConfig"
    registration = {"joinConfiguration": {"nodeRegistration": {"taints": [TAINT, STARTS]}}}
    config = read_bootstrap(token, {"spec": registration}, clouds())
    owner = read_owner("kubernetes:cluster.x-k8s.io/v1beta1:Machine", {"spec": {**JOINS, "taints": []}})
    assert owner is not None
    assert config is not None
    with_config = bootstrapped(machines, owner, config, "KubeadmConfig")
    without = bootstrapped(machines, owner, None, "")
    path = "bootstrap configuration KubeadmConfig → spec.joinConfiguration.nodeRegistration.taints"

    assert (with_config.elsewhere, with_config.unknown, with_config.taints) == ((), (), (GPU_TAINT,))
    assert (with_config.where, with_config.missing_taint.value) == (path, None)
    assert len(with_config.not_counted) == 1
    assert (without.unknown, without.taints, without.where) == (
        ("bootstrap configuration",),
        (),
        "bootstrap configuration",
    )


def test_a_number_that_nobody_writes_is_no_value() -> None:
    (pool,) = read(node_pool(need(f"{AWS}/instance-gpu-count", "Gt", 10**5000), need(TYPE, "In", "g6.xlarge")))

    assert pool.gpus_per_node == 1


@pytest.mark.parametrize(("value", "taken"), [(10**9 - 1, True), (10**9, False)])
def test_a_whole_number_is_a_value_up_to_nine_digits(value: int, taken: bool) -> None:
    wanted = need(f"{AWS}/instance-size", "In", value)
    (pool,) = read(node_pool(wanted, need(TYPE, "In", f"g6.{10**9 - 1}", "m7i.large")))

    assert bool(pool.instance_types) is taken


def test_more_requirements_than_the_api_takes_cannot_be_verified() -> None:
    count = [need("kubernetes.io/arch", "In", "amd64")] * 100
    assert verdict(read(node_pool(*count))) == "cpu"
    (pool,) = read(node_pool(*count, need(TYPE, "In", "g6.xlarge")))
    assert (pool.gpus_per_node, pool.unknown) == (None, ("spec.template.spec.requirements after the first 100",))
