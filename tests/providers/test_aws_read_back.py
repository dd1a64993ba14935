"""What counts as a GPU pool on AWS, kind by kind, and what keeps other pods off it."""

import base64
import gzip
from fractions import Fraction
from typing import Any

import pytest

from gpupools.base.taints import GPU_TAINT, Effect, Taint, repels_cpu_pods
from gpupools.planned.pool_facts import UNKNOWN, By, PoolFacts, SharingFacts
from gpupools.providers.aws import CLOUD
from gpupools.read.inputs import joined, with_taint
from tests.rows import each_row

GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ASG = "aws:autoscaling/group:Group"
ON_EKS = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
PROFILE = {"iamInstanceProfile": {"name": "gpu-nodes"}}
NODE_CONFIG = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: train, apiServerEndpoint: https://example.com}
  kubelet:
    config:
      registerWithTaints: [TAINTS]
--//--
"""
KUBERNETES_TAINT = "{key: nvidia.com/gpu, value: present, effect: NoSchedule}"
BOOTSTRAP = "#!/bin/bash\n/etc/eks/bootstrap.sh train --kubelet-extra-args '--node-labels=a=b ARGS'\n"
TOML = '[settings.kubernetes]\ncluster-name = "train"\napi-server = "https://example.com"\n'


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def read(token: str, properties: dict[str, Any]) -> tuple[PoolFacts, ...]:
    return CLOUD.reading().read_pools(token, properties)


def verdict(pools: tuple[PoolFacts, ...]) -> str:
    """Say in a word what the facts amount to: `none`, or per pool `cpu`, `kept`, `open` or `undecided`."""
    words = []
    for pool in pools:
        if pool.gpus_per_node == 0:
            words.append("cpu")
        elif repels_cpu_pods(pool.taints):
            words.append("kept")
        elif (
            pool.evidence
            and pool.in_cluster
            and not (pool.open_taints or any(_concerns(name, pool.where) for name in pool.unknown))
        ):
            words.append("open")
        else:
            words.append("undecided")
    return ", ".join(words) or "none"


def _concerns(unknown: str, where: str) -> bool:
    return unknown.startswith(where) or where.startswith(unknown)


def test_user_data_may_be_gzipped_and_base64() -> None:
    packed = base64.b64encode(gzip.compress(BOOTSTRAP.replace("ARGS", "--register-with-taints=a:NoSchedule").encode()))
    (pool,) = read(TEMPLATE, PROFILE | {"instanceType": "g6.xlarge", "userData": packed.decode()})

    assert pool.taints == (Taint("a", "", Effect.NO_SCHEDULE),)


@pytest.mark.parametrize(
    ("token", "properties", "where", "text"),
    [
        (
            GROUP,
            {"instanceTypes": ["g6.xlarge"]},
            "taints",
            "{key: nvidia.com/gpu, value: present, effect: NO_SCHEDULE}",
        ),
        (
            GROUP,
            {"instanceTypes": ["g4ad.xlarge"]},
            "taints",
            "{key: amd.com/gpu, value: present, effect: NO_SCHEDULE}",
        ),
        (
            "eks:index:Cluster",
            {"nodeGroupOptions": {"gpu": True}},
            "nodeGroupOptions.taints",
            "nvidia.com/gpu: {value: present, effect: NoSchedule}",
        ),
        (
            TEMPLATE,
            PROFILE | {"instanceType": "g6.xlarge", "userData": b64(BOOTSTRAP)},
            "userData",
            "--register-with-taints=nvidia.com/gpu=present:NoSchedule (or registerWithTaints, node-taints)",
        ),
    ],
    ids=["NVIDIA", "AMD", "pulumi-eks", "user data"],
)
def test_the_missing_taint_is_spelled_as_its_place_takes_it(
    token: str, properties: dict[str, Any], where: str, text: str
) -> None:
    (pool,) = read(token, properties)

    assert (pool.where, pool.missing_taint.text) == (where, text)


@pytest.mark.parametrize(
    ("token", "properties"),
    [
        (GROUP, {"instanceTypes": ["g6.xlarge"]}),
        (GROUP, {"instanceTypes": ["g6.xlarge"], "taints": [ON_EKS | {"effect": "PREFER_NO_SCHEDULE"}]}),
        ("eks:index:NodeGroupV2", {"instanceType": "g6.xlarge", "taints": {"a": {"value": "", "effect": "x"}}}),
        ("eks:index:Cluster", {"nodeGroupOptions": {"instanceType": "g6.xlarge"}}),
        ("eks:index:Cluster", {"instanceType": "g6.xlarge"}),
    ],
    ids=["no list", "a list", "a map", "inside", "no options"],
)
def test_the_missing_taint_can_be_added(token: str, properties: dict[str, Any]) -> None:
    (pool,) = read(token, properties)
    mended = with_taint(properties, pool)

    assert mended is not None
    assert verdict((pool,)) == "open"
    assert (
        GPU_TAINT in read(token, mended | ({"instanceType": "g6.xlarge"} if "instanceType" in mended else {}))[0].taints
    )


@pytest.mark.parametrize(
    "properties",
    [
        {"instanceTypes": ["g6.xlarge"], "taints": UNKNOWN},
        {"instanceTypes": ["g6.xlarge"], "taints": "nvidia.com/gpu=present:NoSchedule"},
    ],
    ids=["not known yet", "another type"],
)
def test_the_missing_taint_is_not_added_where_that_would_be_a_guess(properties: dict[str, Any]) -> None:
    (pool,) = read(GROUP, properties)

    assert with_taint(properties, pool) is None


def test_what_looks_like_a_taint_is_named_with_the_cure() -> None:
    (pool,) = read(GROUP, {"instanceTypes": ["g6.xlarge"], "taints": [ON_EKS | {"effect": "NoSchedule"}]})

    assert pool.not_counted == ("taints[0]: effect 'NoSchedule' is not in the spelling of this API; write NO_SCHEDULE",)


def test_no_execute_alone_is_told_apart() -> None:
    group: dict[str, Any] = {"instanceTypes": ["g6.xlarge"], "taints": [ON_EKS | {"effect": "NO_EXECUTE"}]}
    (alone,) = read(GROUP, group)
    (beside,) = read(GROUP, group | {"taints": [*group["taints"], ON_EKS]})

    assert (alone.only_no_execute, beside.only_no_execute) == (True, False)


class TestJoiningATemplate:
    def group(self, **properties: Any) -> PoolFacts:
        (pool,) = read(GROUP, {"launchTemplate": {"id": UNKNOWN}, **properties})
        return pool

    def template(self, **properties: Any) -> PoolFacts:
        found = CLOUD.reading().read_template(TEMPLATE, properties)
        assert found is not None
        return found

    def test_the_group_says_what_it_leaves_open(self) -> None:
        (reference,) = self.group().elsewhere

        assert (reference.property, reference.decides) == ("launchTemplate", frozenset({"machine", "image", "taints"}))

    @pytest.mark.parametrize(
        ("machine", "taints", "expected"),
        [
            ("g6.12xlarge", [], "open"),
            ("g6.12xlarge", [ON_EKS], "kept"),
            ("m7i.large", [], "cpu"),
            (UNKNOWN, [], "undecided"),
        ],
    )
    def test_the_templates_machine_and_the_groups_taints_decide(
        self, machine: Any, taints: list[Any], expected: str
    ) -> None:
        pool = joined(self.group(taints=taints), self.template(instanceType=machine), "launchTemplate")

        assert verdict((pool,)) == expected
        assert pool.elsewhere == ()

    def test_what_the_template_adds_is_said_by_it(self) -> None:
        toml = TOML + '[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy = "mps"\n'
        toml += "[settings.kubelet-device-plugins.nvidia.mps]\nreplicas = 4\n"
        template = self.template(instanceType="g6.12xlarge", userData=b64(toml), keyName="mine")
        pool = joined(self.group(), template, "launchTemplate")

        assert (pool.gpus_per_node, pool.evidence) == (Fraction(4), "launchTemplate → instanceType g6.12xlarge")
        assert pool.sharing == SharingFacts("mps", 4, said_by="launchTemplate → settings.kubelet-device-plugins.nvidia")
        assert pool.software.device_plugin is By.CLOUD
        assert "launchTemplate → keyName" in {one.property for one in pool.weaknesses}

    def test_a_self_managed_group_takes_taints_and_membership_from_its_template(self) -> None:
        policy = {"launchTemplate": {"overrides": [{"instanceType": "g5.xlarge"}]}}
        (pool,) = read(ASG, {"mixedInstancesPolicy": policy})
        path = pool.elsewhere[0].property
        tainted = BOOTSTRAP.replace("ARGS", "--register-with-taints=a=b:NoSchedule")

        assert (verdict((pool,)), pool.in_cluster) == ("undecided", None)
        assert verdict((joined(pool, self.template(userData=b64(tainted)), path),)) == "kept"
        assert verdict((joined(pool, self.template(userData=b64(BOOTSTRAP)), path),)) == "open"
        assert joined(pool, self.template(userData=b64("#!/bin/sh\ntrue\n")), path).in_cluster is None
        assert joined(pool, self.template(userData=""), path).in_cluster is False

    def test_another_reference_changes_nothing(self) -> None:
        pool = self.group()

        assert joined(pool, self.template(instanceType="g6.xlarge"), "elsewhere") == pool

    def test_only_templates_are_templates(self) -> None:
        assert CLOUD.reading().read_template(GROUP, {"instanceTypes": ["g6.xlarge"]}) is None


@pytest.mark.parametrize(
    ("properties", "owners"),
    [
        ({"amiType": "AL2023_x86_64_NVIDIA"}, (By.CLOUD, By.CLOUD, By.NOBODY)),
        ({"amiType": "BOTTLEROCKET_ARM_64_NVIDIA_FIPS"}, (By.CLOUD, By.CLOUD, By.CLOUD)),
        ({"amiType": "AL2023_x86_64_STANDARD"}, (By.NOBODY, By.NOBODY, By.NOBODY)),
        ({}, (By.NOBODY, By.NOBODY, By.NOBODY)),
        ({"amiType": "CUSTOM", "launchTemplate": {"id": "lt-1"}}, (By.UNSAID, By.UNSAID, By.UNSAID)),
        ({"amiType": UNKNOWN}, (By.UNSAID, By.UNSAID, By.UNSAID)),
    ],
    ids=["AL2023", "Bottlerocket", "standard", "unset", "custom", "unknown"],
)
def test_the_image_says_who_owns_driver_toolkit_and_plugin(
    properties: dict[str, Any], owners: tuple[By, By, By]
) -> None:
    (pool,) = read(GROUP, {"instanceTypes": ["g6.xlarge"], **properties})

    assert (pool.software.driver, pool.software.container_toolkit, pool.software.device_plugin) == owners


HARDENED = {
    "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
    "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": "true"}}],
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, set()),
        ({"metadataOptions": {}}, {("metadata-service", True, False), ("metadata-hop-limit", False, False)}),
        ({"metadataOptions": {"httpEndpoint": "disabled"}}, set()),
        (
            {"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 2.0}},
            {("metadata-hop-limit", False, False)},
        ),
        (
            {"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 3}},
            {("metadata-hop-limit", True, False)},
        ),
        (
            {"metadataOptions": {"httpTokens": UNKNOWN, "httpPutResponseHopLimit": 1}},
            {("metadata-service", True, True)},
        ),
        ({"blockDeviceMappings": [{"ebs": {"encrypted": "false"}}]}, {("disk-encryption", True, False)}),
        ({"blockDeviceMappings": None}, {("disk-encryption", True, False)}),
        ({"keyName": "mine"}, {("remote-access", True, False)}),
        ({"networkInterfaces": [{"associatePublicIpAddress": "true"}]}, {("public-address", True, False)}),
        ({"networkInterfaces": [{"associatePublicIpAddress": "false"}]}, set()),
        ({"instanceType": "p3.2xlarge"}, {("retired-machine", False, False)}),
    ],
    ids=[
        "hardened",
        "metadata unset",
        "no metadata service",
        "two hops",
        "three hops",
        "tokens unknown",
        "plain disk",
        "no disk",
        "key",
        "public",
        "private",
        "retired machine",
    ],
)
def test_a_template_shows_its_weaknesses(change: dict[str, Any], expected: set[tuple[str, bool, bool]]) -> None:
    found = CLOUD.reading().read_template(TEMPLATE, {**HARDENED, "instanceType": "g6.xlarge", **change})
    assert found is not None

    assert {(one.name, one.mandatory, one.unverified) for one in found.weaknesses} == expected
    assert all(one.source.startswith("https://") and one.why and one.wanted for one in found.weaknesses)


@pytest.mark.parametrize(
    ("properties", "name", "mandatory"),
    [
        ({"remoteAccess": {"ec2SshKey": "mine"}}, "remote-access", True),
        ({"amiType": "AL2_x86_64_GPU"}, "retired-image", True),
        (
            {"amiType": "AL2023_x86_64_NVIDIA", "releaseVersion": "1.33.5-20250620"},
            "image-release",
            False,
        ),
        ({"launchTemplate": None}, "disk-encryption", False),
    ],
    ids=["ssh", "retired image", "old release", "no template"],
)
def test_a_group_shows_its_weaknesses(properties: dict[str, Any], name: str, mandatory: bool) -> None:
    base = {"instanceTypes": ["g6.xlarge"], "amiType": "AL2023_x86_64_NVIDIA", "launchTemplate": {"id": "lt-1"}}
    (fine,) = read(GROUP, base)
    (weak,) = read(GROUP, base | properties)

    assert fine.weaknesses == ()
    assert (name, mandatory) in {(one.name, one.mandatory) for one in weak.weaknesses}


def test_bounds_labels_and_tags_are_read() -> None:
    scaling = {"minSize": 1.0, "maxSize": "4", "desiredSize": float("nan")}
    properties = {"instanceTypes": ["g6.xlarge"], "scalingConfig": scaling, "labels": {"a": "b", "c": UNKNOWN}}
    (pool,) = read(GROUP, properties | {"tags": {"owner": "vision"}})

    assert (pool.min_nodes, pool.max_nodes, pool.labels, pool.tags) == (1, 4, {"a": "b"}, {"owner": "vision"})


@pytest.mark.parametrize("size", [40_000])
def test_thousands_of_taints_are_read(size: int) -> None:
    taints = [ON_EKS | {"effect": "PREFER_NO_SCHEDULE", "key": f"k{index}"} for index in range(size)]
    (pool,) = read(GROUP, {"instanceTypes": ["g6.xlarge"], "taints": [*taints, ON_EKS]})

    assert verdict((pool,)) == "kept"


@pytest.mark.parametrize(
    "user_data",
    [
        "a" * 300_000,
        b64("nodeadm apiVersion: node.eks.aws/v1\n" + "[" * 20_000),
        b64("[settings\n" + "[" * 5_000),
        b64("MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nbootstrap"),
        b64("apiVersion: node.eks.aws/v1alpha1\n? {a: b}\n: c\nkubelet: x\n"),
        base64.b64encode(b"\x1f\x8bkubelet").decode(),
        base64.b64encode(bytes(range(256))).decode(),
        "\ud800 kubelet",
        "--register-with-taints=",
    ],
    ids=["long", "deep YAML", "deep TOML", "no boundary", "map as key", "broken gzip", "no text", "surrogate", "empty"],
)
def test_no_user_data_makes_reading_fail(user_data: str) -> None:
    properties = PROFILE | {"instanceType": "g6.xlarge", "userData": user_data}

    assert all(isinstance(pool, PoolFacts) for pool in read(TEMPLATE, properties))


def test_a_group_that_overrides_says_where_the_rest_is() -> None:
    policy = {
        "launchTemplate": {
            "launchTemplateSpecification": {"launchTemplateName": "gpu"},
            "overrides": [{"instanceType": UNKNOWN}, {"instanceType": "g5.xlarge"}],
        }
    }
    tags = [{"key": "k8s.io/cluster-autoscaler/train", "value": "owned"}]
    (pool,) = read(ASG, {"mixedInstancesPolicy": policy, "minSize": 1, "maxSize": 5, "tags": tags})
    path = "mixedInstancesPolicy.launchTemplate"
    (reference,) = pool.elsewhere

    assert pool.evidence == f"{path}.overrides[1].instanceType g5.xlarge"
    assert pool.unknown == (f"{path}.overrides[0].instanceType",)
    assert pool.open_taints == (f"{path}.launchTemplateSpecification",)
    assert (reference.property, reference.id) == (f"{path}.launchTemplateSpecification", "gpu")
    assert (pool.in_cluster, pool.min_nodes, pool.max_nodes) == (True, 1, 5)


@pytest.mark.parametrize(
    ("tags", "user_data", "in_cluster"),
    [
        ({}, UNKNOWN, None),
        ({"kubernetes.io/cluster/train": "owned"}, UNKNOWN, True),
        ({"kubernetes.io/cluster/train": "owned"}, None, None),
        ({"team": "vision"}, UNKNOWN, None),
    ],
    ids=["nothing known", "tagged", "an image that joins by itself", "another tag"],
)
def test_tags_mark_a_node_whose_user_data_is_not_seen(
    tags: dict[str, str], user_data: Any, in_cluster: bool | None
) -> None:
    specified = [{"resourceType": "instance", "tags": tags}]
    listed = [{"resourceType": "instance", "tags": [{"key": key, "value": value} for key, value in tags.items()]}]
    base = PROFILE | {"instanceType": "g6.xlarge", "userData": user_data}

    for given in (specified, listed):
        (pool,) = read(TEMPLATE, base | {"tagSpecifications": given})

        assert (pool.in_cluster, pool.tags) == (in_cluster, tags)


@pytest.mark.parametrize(
    ("requirements", "accelerator"),
    [
        ({"acceleratorManufacturers": ["nvidia"]}, "nvidia"),
        ({"acceleratorManufacturers": ["amd"]}, "amd"),
        ({"acceleratorManufacturers": ["amd"], "acceleratorTypes": ["fpga"]}, "other"),
        ({"acceleratorManufacturers": ["amd", "nvidia"]}, "nvidia"),
        ({"acceleratorNames": ["l4"]}, "nvidia"),
        ({"acceleratorNames": ["radeon-pro-v520"]}, "amd"),
        ({"acceleratorNames": ["inferentia"]}, "other"),
        ({"acceleratorTypes": ["inference"]}, "other"),
        ({"acceleratorCount": {"min": 1}}, "nvidia"),
        ({"acceleratorCount": {"min": 0}}, ""),
        ({"allowedInstanceTypes": ["m*", "p5.*"]}, "nvidia"),
        ({"allowedInstanceTypes": ["m*"]}, ""),
        ({"vcpuCount": {"min": 4}}, ""),
    ],
    ids=str,
)
def test_requirements_select_an_accelerator(requirements: dict[str, Any], accelerator: str) -> None:
    found = CLOUD.reading().read_template(TEMPLATE, {"instanceRequirements": requirements})
    assert found is not None

    assert found.accelerator == accelerator
    assert bool(found.evidence) == (accelerator in ("nvidia", "amd"))


def test_requirements_not_known_yet_are_named() -> None:
    found = CLOUD.reading().read_template(TEMPLATE, {"instanceRequirements": {"acceleratorTypes": UNKNOWN}})
    whole = CLOUD.reading().read_template(TEMPLATE, {"instanceRequirements": UNKNOWN})
    assert found is not None
    assert whole is not None

    assert (found.unknown, found.gpus_per_node) == (("instanceRequirements.acceleratorTypes",), None)
    assert (whole.unknown, whole.gpus_per_node) == (("instanceRequirements",), None)


def test_findings_of_a_native_template_name_the_path_inside() -> None:
    data = {"keyName": "mine", "networkInterfaces": [{"associatePublicIpAddress": True}]}
    found = CLOUD.reading().read_template("aws-native:ec2:LaunchTemplate", {"launchTemplateData": data})
    assert found is not None

    assert {one.property for one in found.weaknesses} == {
        "launchTemplateData.keyName",
        "launchTemplateData.networkInterfaces[0].associatePublicIpAddress",
        "launchTemplateData.metadataOptions.httpTokens",
        "launchTemplateData.metadataOptions.httpPutResponseHopLimit",
        "launchTemplateData.blockDeviceMappings",
    }


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, set()),
        ({"keyName": "mine"}, {"remote-access"}),
        ({"nodePublicKey": "ssh-rsa x"}, {"remote-access"}),
        ({"nodeAssociatePublicIpAddress": True}, {"public-address"}),
        ({"nodeAssociatePublicIpAddress": None}, {"public-address"}),
        ({"nodeRootVolumeEncrypted": None}, {"disk-encryption"}),
        ({"nodeRootVolumeEncrypted": None, "encryptRootBlockDevice": True}, set()),
    ],
    ids=["hardened", "key", "public key", "public", "public unset", "plain disk", "the other name"],
)
def test_a_group_of_pulumi_eks_shows_its_weaknesses(change: dict[str, Any], names: set[str]) -> None:
    hardened = {"instanceType": "g6.xlarge", "nodeAssociatePublicIpAddress": False, "nodeRootVolumeEncrypted": True}
    (pool,) = read("eks:index:NodeGroupV2", hardened | change)

    assert {one.name for one in pool.weaknesses} == names


@pytest.mark.parametrize("key", ["rootBlockDevice", "ebsBlockDevices"])
@pytest.mark.parametrize("encrypted", [True, False])
def test_disks_of_an_instance_are_judged(key: str, encrypted: bool) -> None:
    disk: Any = {"encrypted": encrypted}
    properties = {"instanceType": "g5.xlarge", "userData": BOOTSTRAP}
    (pool,) = read("aws:ec2/instance:Instance", properties | {key: disk if key == "rootBlockDevice" else [disk]})

    assert ("disk-encryption" in {one.name for one in pool.weaknesses}) is not encrypted


@pytest.mark.parametrize(("key", "counts"), [("nodeUserDataOverride", True), ("nodeUserData", False)])
def test_only_user_data_that_replaces_pulumi_eks_own_boots_the_node(key: str, counts: bool) -> None:
    script = BOOTSTRAP.replace("ARGS", "--register-with-taints=a=b:NoSchedule")
    (pool,) = read("eks:index:NodeGroupV2", {"instanceType": "g5.xlarge", key: script})

    assert bool(pool.taints) is counts


@pytest.mark.parametrize(
    "token",
    [
        "aws:ec2/instance:Instance",
        "aws:ec2/spotInstanceRequest:SpotInstanceRequest",
        "aws:ec2/launchConfiguration:LaunchConfiguration",
    ],
)
def test_whatever_starts_one_machine_that_joins_is_a_pool(token: str) -> None:
    assert verdict(read(token, {"instanceType": "g5.xlarge", "userData": BOOTSTRAP})) == "open"


def test_a_soft_taint_in_the_right_spelling_is_read_as_one() -> None:
    (found,) = read(GROUP, {"taints": [{"key": "a", "value": "b", "effect": "PREFER_NO_SCHEDULE"}]})

    assert (found.taints, found.not_counted) == ((Taint("a", "b", Effect.PREFER_NO_SCHEDULE),), ())


def test_a_taint_whose_key_is_no_text_is_told() -> None:
    (found,) = read(GROUP, {"taints": [{"key": 7.0, "effect": "NO_SCHEDULE"}]})

    assert found.not_counted == ("taints[0]: a taint needs a key",)


@pytest.mark.parametrize(
    ("token", "properties", "name", "shown", "mandatory"),
    [
        (TEMPLATE, {"keyName": "mine"}, "remote-access", "mine", True),
        (GROUP, {"amiType": "AL2_x86_64_GPU"}, "retired-image", "AL2_x86_64_GPU", True),
        (GROUP, {"remoteAccess": {"ec2SshKey": "mine"}}, "remote-access", "mine", True),
        (GROUP, {}, "metadata-service", "unset", False),
        ("eks:index:NodeGroupV2", {"nodeAssociatePublicIpAddress": True}, "public-address", "true", True),
        ("eks:index:NodeGroupV2", {}, "public-address", "unset", False),
    ],
    ids=["key of a template", "image", "key of a group", "no template", "public", "public unset"],
)
def test_a_weakness_shows_the_value_and_how_much_it_matters(
    token: str, properties: dict[str, Any], name: str, shown: str, mandatory: bool
) -> None:
    machine = CLOUD.reading().read_template(token, properties) if token == TEMPLATE else read(token, properties)[0]
    assert machine is not None
    (weak,) = (one for one in machine.weaknesses if one.name == name)

    assert shown in weak.found.lower() if shown == "true" else shown in weak.found
    assert weak.mandatory is mandatory


def test_the_release_of_an_image_without_gpu_software_does_not_matter() -> None:
    (found,) = read(GROUP, {"amiType": "AL2023_x86_64_STANDARD", "releaseVersion": "1.33.5-20250620"})

    assert "image-release" not in {one.name for one in found.weaknesses}


def test_tags_of_a_group_of_pulumi_eks_are_read_from_both_places() -> None:
    tags = {"cloudFormationTags": {"team": "a"}, "autoScalingGroupTags": {"owner": "b"}}
    (found,) = read("eks:index:NodeGroup", {"instanceType": "g5.xlarge", **tags})

    assert found.tags == {"team": "a", "owner": "b"}


@pytest.mark.parametrize(
    "given",
    [
        {"kubeletExtraArgs": "--register-with-taints=a=b:NoSchedule"},
        {"bootstrapExtraArgs": "--kubelet-extra-args '--register-with-taints=a=b:NoSchedule'"},
        {"nodeadmExtraOptions": [{"content": NODE_CONFIG.replace("TAINTS", "{key: a, value: b, effect: NoSchedule}")}]},
    ],
    ids=["kubelet", "bootstrap", "nodeadm"],
)
def test_every_text_that_ends_as_kubelet_arguments_can_hold_the_taint(given: dict[str, Any]) -> None:
    (found,) = read("eks:index:NodeGroupV2", {"instanceType": "g5.xlarge", **given})

    assert repels_cpu_pods(found.taints)


@pytest.mark.parametrize(
    "key", ["acceleratorManufacturers", "acceleratorTypes", "acceleratorNames", "acceleratorCount"]
)
def test_each_requirement_on_accelerators_can_leave_the_machine_open(key: str) -> None:
    found = CLOUD.reading().read_template(TEMPLATE, {"instanceRequirements": {key: UNKNOWN}})
    assert found is not None

    assert found.unknown == (f"instanceRequirements.{key}",)


@pytest.mark.parametrize("name", ["inferentia", "inferentia2", "trainium", "trainium2", "u30", "vu9p", "gaudi-hl-205"])
def test_accelerators_that_are_no_gpus_are_known_by_name(name: str) -> None:
    found = CLOUD.reading().read_template(TEMPLATE, {"instanceRequirements": {"acceleratorNames": [name]}})
    assert found is not None

    assert found.gpus_per_node == 0


def test_user_data_that_says_nothing_of_the_device_plugin_is_no_evidence_of_one() -> None:
    found = CLOUD.reading().read_template(TEMPLATE, {"instanceType": "g5.xlarge", "userData": b64(BOOTSTRAP)})
    assert found is not None

    assert (found.software.device_plugin, found.software.said_by) == (By.UNSAID, ())


def test_a_template_without_properties_is_none() -> None:
    broken: Any = None

    assert CLOUD.reading().read_template(TEMPLATE, broken) is None


@pytest.mark.parametrize(
    ("remote", "why"),
    [
        (None, None),
        ({}, None),
        ({"sourceSecurityGroupIds": ["sg-1"]}, None),
        ({"ec2SshKey": "k"}, "a key without source security groups opens port 22 to 0.0.0.0/0"),
        ({"ec2SshKey": "k", "sourceSecurityGroupIds": []}, "a key without source security groups opens port 22"),
        ({"ec2SshKey": "k", "sourceSecurityGroupIds": ["sg-1"]}, "nodes need no SSH"),
        ({"ec2SshKey": "k", "sourceSecurityGroups": ["sg-1"]}, "nodes need no SSH"),
        (UNKNOWN, "nodes need no SSH"),
    ],
)
def test_a_key_for_ssh_is_worse_without_the_groups_that_may_use_it(remote: Any, why: str | None) -> None:
    (pool,) = read(GROUP, {"instanceTypes": ["g6.xlarge"], "launchTemplate": {"id": "lt-1"}, "remoteAccess": remote})

    assert [one.why.startswith(why or "?") for one in pool.weaknesses] == ([True] if why else [])


STATE = '{"InstanceTypes": ["g5.xlarge"]}'


@each_row(
    ("token", "inputs", "why"),
    [
        ("aws:cloudformation/stack:Stack", {"templateBody": UNKNOWN}, "its template is not known yet"),
        ("aws:cloudformation/stack:Stack", {"templateUrl": UNKNOWN}, "its template is not known yet"),
        ("aws:cloudformation/stackSet:StackSet", {"templateUrl": "https://a"}, "its template is not at hand"),
        ("aws-native:cloudformation:Stack", {"templateBody": "a"}, "its template is neither JSON nor YAML"),
        ("aws-native:cloudformation:Stack", {"templateBody": "[]"}, "its template is neither JSON nor YAML"),
        ("aws-native:cloudformation:Stack", {"templateBody": "{"}, "its template is neither JSON nor YAML"),
        ("aws-native:cloudformation:StackSet", {"templateBody": "Resources: {}"}, ""),
        ("aws:cloudformation/stack:Stack", {"templateBody": {"Resources": {}}}, ""),
        (
            "aws:cloudcontrol/resource:Resource",
            {"typeName": UNKNOWN, "desiredState": STATE},
            "typeName is not known yet",
        ),
        ("aws:cloudcontrol/resource:Resource", {"typeName": "AWS::S3::Bucket", "desiredState": STATE}, ""),
        ("aws:cloudcontrol/resource:Resource", {"typeName": "AWS::S3::Bucket", "desiredState": UNKNOWN}, ""),
        ("aws:cloudcontrol/resource:Resource", {"typeName": "AWS::S3::Bucket"}, "desiredState is no JSON"),
        ("aws:cloudcontrol/resource:Resource", {"typeName": "a", "desiredState": "[]"}, "desiredState is no JSON"),
        ("aws-native:index:ExtensionResource", {"type": UNKNOWN}, "type is not known yet"),
        ("aws-native:index:ExtensionResource", {"type": "AWS::S3::Bucket"}, ""),
        (GROUP, {"templateBody": UNKNOWN}, ""),
    ],
)
def test_what_holds_resources_says_why_it_cannot_be_read(token: str, inputs: dict[str, Any], why: str) -> None:
    assert CLOUD.reading().unread(token, inputs) == why


def test_what_is_held_and_not_read_is_named() -> None:
    types = {"A": {"Type": "AWS::EKS::Nodegroup"}, "B": {"Type": "AWS::S3::Bucket"}, "C": {"Type": "AWS::ECS::Cluster"}}
    held = CLOUD.reading().held_types

    assert [*held("aws:cloudformation/stack:Stack", {"templateBody": {"Resources": types}})] == [
        "cloudformation:AWS::S3::Bucket",
        "cloudformation:AWS::ECS::Cluster",
    ]
    assert [*held(GROUP, {"templateBody": {"Resources": types}})] == []


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        *(
            (name, "other")
            for name in ("inferentia", "inferentia2", "trainium", "trainium2", "u30", "vu9p", "gaudi-hl-205")
        ),
        *((name, "nvidia") for name in ("a100", "h100", "k520", "m60", "t4", "v100")),
        ("radeon-pro-v520", "amd"),
    ],
)
def test_an_accelerator_that_is_asked_for_by_name_is_a_gpu_or_none(name: str, accelerator: str) -> None:
    wanted = {"vcpuCount": {"min": 4}, "acceleratorNames": [name]}
    found = {"instanceRequirements": wanted, "iamInstanceProfile": {"name": "n"}, "userData": b64(BOOTSTRAP)}
    pool = CLOUD.reading().read_template("aws:ec2/launchTemplate:LaunchTemplate", found)

    assert pool is not None
    assert pool.accelerator == accelerator


@pytest.mark.parametrize("options", [UNKNOWN, {"instanceType": UNKNOWN}, {"instanceType": "g5.xlarge"}, 3])
def test_the_group_that_comes_with_a_cluster_has_options_of_its_own(options: Any) -> None:
    (pool,) = read("eks:index:Cluster", {"nodeGroupOptions": options, "instanceType": "m5.large"})

    late = options is UNKNOWN or options == {"instanceType": UNKNOWN}
    assert bool(pool.unknown) is late
    assert pool.instance_types == (("g5.xlarge",) if options == {"instanceType": "g5.xlarge"} else pool.instance_types)
    assert "m5.large" not in pool.instance_types


@pytest.mark.parametrize(
    ("token", "key"), [("aws:eks/nodeGroup:NodeGroup", "nodeRoleArn"), ("aws-native:eks:Nodegroup", "nodeRole")]
)
def test_a_group_has_the_identity_that_it_is_given(token: str, key: str) -> None:
    (pool,) = read(token, {"instanceTypes": ["g5.xlarge"], key: "arn:aws:iam::123456789012:role/gpu"})
    (other,) = read(token, {"instanceTypes": ["g5.xlarge"], key: ""})

    assert (pool.identity, other.identity) == ((key, "arn:aws:iam::123456789012:role/gpu"), None)
