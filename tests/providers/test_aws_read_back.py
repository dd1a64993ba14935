"""What counts as a GPU pool on AWS, kind by kind, and what keeps other pods off it."""

import base64
from fractions import Fraction
from typing import Any

import pytest

from gpupools.common.taints import GPU_TAINT
from gpupools.plan.pool_facts import UNKNOWN, By, PoolFacts, SharingFacts
from gpupools.providers.aws import CLOUD
from gpupools.readback.inputs import joined, with_taint
from tests.providers.test_amounts import amounts

GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ASG = "aws:autoscaling/group:Group"
ON_EKS = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
PROFILE = {"iamInstanceProfile": {"name": "gpu-nodes"}}
BOOTSTRAP = "#!/bin/bash\n/etc/eks/bootstrap.sh train --kubelet-extra-args '--node-labels=a=b ARGS'\n"
TOML = '[settings.kubernetes]\ncluster-name = "train"\napi-server = "https://example.com"\n'


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def read(token: str, properties: dict[str, Any]) -> tuple[PoolFacts, ...]:
    return CLOUD.readback().read_pools(token, properties)


def verdict(pools: tuple[PoolFacts, ...]) -> str:
    """Say in a word what each of the facts amounts to."""
    return ", ".join(map(amounts, pools)) or "none"


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


def test_a_template_without_properties_is_none() -> None:
    broken: Any = None

    assert CLOUD.readback().read_template(TEMPLATE, broken) is None
