"""What counts as a GPU pool on AWS, kind by kind, and what keeps other pods off it."""

import base64
import gzip
from fractions import Fraction
from typing import Any

import pytest

from gpupools.common.taints import GPU_TAINT, Effect, Taint, repels_cpu_pods
from gpupools.plan.pool_facts import UNKNOWN, By, PoolFacts, SharingFacts
from gpupools.providers.aws import CLOUD
from gpupools.readback.inputs import joined, with_taint

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
BOOTSTRAP = "#!/bin/bash\n/etc/eks/bootstrap.sh train --kubelet-extra-args '--node-labels=a=b ARGS'\n"
TOML = '[settings.kubernetes]\ncluster-name = "train"\napi-server = "https://example.com"\n'


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def read(token: str, properties: dict[str, Any]) -> tuple[PoolFacts, ...]:
    return CLOUD.readback().read_pools(token, properties)


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
            and not (pool.unresolved_taints or any(_concerns(name, pool.where) for name in pool.unknown))
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


def test_what_looks_like_a_taint_is_named_with_the_cure() -> None:
    (pool,) = read(GROUP, {"instanceTypes": ["g6.xlarge"], "taints": [ON_EKS | {"effect": "NoSchedule"}]})

    assert pool.not_counted == ("taints[0]: effect 'NoSchedule' is not valid in this API; use NO_SCHEDULE",)


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
        found = CLOUD.readback().read_template(TEMPLATE, properties)
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
        assert joined(pool, self.template(userData=b64("#!/bin/sh\ntrue\n")), path).in_cluster is False
        assert joined(pool, self.template(userData=""), path).in_cluster is False

    def test_another_reference_changes_nothing(self) -> None:
        pool = self.group()

        assert joined(pool, self.template(instanceType="g6.xlarge"), "elsewhere") == pool

    def test_only_templates_are_templates(self) -> None:
        assert CLOUD.readback().read_template(GROUP, {"instanceTypes": ["g6.xlarge"]}) is None


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
    machine = CLOUD.readback().read_template(token, properties) if token == TEMPLATE else read(token, properties)[0]
    assert machine is not None
    (weak,) = (one for one in machine.weaknesses if one.name == name)

    assert shown in weak.found.lower() if shown == "true" else shown in weak.found
    assert weak.mandatory is mandatory


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


def test_user_data_that_says_nothing_of_the_device_plugin_is_no_evidence_of_one() -> None:
    found = CLOUD.readback().read_template(TEMPLATE, {"instanceType": "g5.xlarge", "userData": b64(BOOTSTRAP)})
    assert found is not None

    assert (found.software.device_plugin, found.software.said_by) == (By.UNSAID, ())


def test_a_template_without_properties_is_none() -> None:
    broken: Any = None

    assert CLOUD.readback().read_template(TEMPLATE, broken) is None


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
