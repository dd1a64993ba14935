"""The SDKs' own type information finds what the stock mocks let through, for a resource of each SDK."""

from collections.abc import Mapping
from typing import Any

import pulumi_aws.eks
import pulumi_azure_native.containerservice
import pulumi_gcp.container
import pulumi_kubernetes.helm.v3
import pytest

from gpupools.preview.sdk_schema import SECRET, SIGNATURE, UNKNOWN, check_inputs, is_known_type
from tests.program_faults import check_property_path
from tests.rows import each_row

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
AGENT_POOL = "azure-native:containerservice:AgentPool"
NODE_POOL = "gcp:container/nodePool:NodePool"
RELEASE = "kubernetes:helm.sh/v3:Release"
POD = "kubernetes:core/v1:Pod"

SDKS = (pulumi_aws.eks, pulumi_azure_native.containerservice, pulumi_gcp.container, pulumi_kubernetes.helm.v3)

GOOD: dict[str, dict[str, Any]] = {
    NODE_GROUP: {
        "clusterName": "c",
        "nodeRoleArn": "arn:aws:iam::1:role/r",
        "subnetIds": ["subnet-00000001"],
        "scalingConfig": {"desiredSize": 0.0, "minSize": 0, "maxSize": 4},
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
        "labels": {"anything/at.all": "x"},
    },
    AGENT_POOL: {
        "resourceGroupName": "g",
        "resourceName": "c",
        "mode": "User",
        "count": 0,
        "enableAutoScaling": True,
        "nodeTaints": ["nvidia.com/gpu=present:NoSchedule"],
        "upgradeSettings": {"maxSurge": "1"},
        "spotMaxPrice": -1.5,
    },
    NODE_POOL: {
        "cluster": "c",
        "autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 4},
        "nodeConfig": {
            "guestAccelerators": [{"type": "nvidia-l4", "count": 1}],
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
        },
    },
    RELEASE: {"chart": "gpu-operator", "compat": "true", "values": {"a": [1, {"b": None}]}, "timeout": 600},
}


@pytest.mark.parametrize("token", GOOD)
def test_right_inputs_have_no_problem(token: str) -> None:
    assert is_known_type(token)
    assert check_inputs(token, GOOD[token]) == []


def scaling(**more: Any) -> dict[str, Any]:
    return {"scalingConfig": {"desiredSize": 0, "minSize": 0, "maxSize": 1, **more}}


def accelerator(**keys: Any) -> dict[str, Any]:
    return {"nodeConfig": {"guestAccelerators": [{"type": "nvidia-l4", **keys}]}}


CLASS = "has no such input"
WRONG: dict[str, list[tuple[dict[str, Any], str]]] = {
    NODE_GROUP: [
        ({"nodeRoleArn": 123}, 'nodeRoleArn: got 123; write it as a string: "123"'),
        (scaling(desiredSize="lots"), "scalingConfig.desiredSize: got 'lots'; use a whole number"),
        (scaling(desiredSize=1.5), "scalingConfig.desiredSize: got 1.5; use a whole number"),
        ({"diskSize": True}, "diskSize: got true; use a whole number"),
        (
            {"taints": [{"key": "a", "effekt": "x", "effect": "NO_SCHEDULE"}]},
            f"taints[0].effekt: NodeGroupTaint {CLASS}; did you mean 'effect'?",
        ),
        (
            scaling(desired_size=0),
            f"NodeGroupScalingConfig {CLASS}; use 'desiredSize'; Pulumi does not convert names here",
        ),
        ({"taints": [{"key": "a"}]}, "taints[0].effect: is missing; NodeGroupTaint requires it"),
        ({"clusterName": None}, "clusterName: is missing; aws:eks/nodeGroup:NodeGroup requires it"),
        ({"subnetIds": {"a": "b"}}, "subnetIds: got a map with 'a'; use a list"),
        ({"labels": ["a"]}, "labels: got a list of 1; use a map"),
        ({"labels": {"a": 1}}, 'labels.a: got 1; write it as a string: "1"'),
    ],
    AGENT_POOL: [
        ({"vmsize": "x"}, "did you mean 'vmSize'?"),
        ({"count": "3"}, "count: got '3'; use a whole number"),
        ({"enableAutoScaling": "true"}, "enableAutoScaling: got 'true'; use true or false"),
        ({"nodeTaints": [{"key": "a"}]}, "nodeTaints[0]: got a map with 'key'; use a string"),
        (
            {"upgradeSettings": {"max_surge": "1"}},
            f"upgradeSettings.max_surge: AgentPoolUpgradeSettings {CLASS}; use 'maxSurge'",
        ),
    ],
    NODE_POOL: [
        (accelerator(), "nodeConfig.guestAccelerators[0].count: is missing"),
        (
            accelerator(count=1, gpuSharing={}),
            f"guestAccelerators[0].gpuSharing: NodePoolNodeConfigGuestAccelerator {CLASS}; did you mean 'gpuSha",
        ),
        ({"autoscaling": "on"}, "autoscaling: got 'on'; use a map with "),
    ],
    RELEASE: [
        ({"timeout": "5m"}, "timeout: got '5m'; use a whole number"),
        (
            {"repositoryOpts": {"repos": "x"}},
            f"repositoryOpts.repos: RepositoryOpts {CLASS}; did you mean 'repo'?",
        ),
        ({"compat": "false"}, "compat: got 'false'; use 'true'"),
    ],
}


@each_row(("token", "change", "expected"), [(token, *row) for token, rows in WRONG.items() for row in rows])
def test_a_wrong_input_is_named(token: str, change: Mapping[str, Any], expected: str) -> None:
    problems = check_inputs(token, {**GOOD[token], **change})

    assert len(problems) == 1
    assert expected in str(problems[0])
    assert not problems[0].advisory


def test_every_problem_is_found_at_once() -> None:
    problems = check_inputs(NODE_GROUP, {"nodeRoleArn": 1, "subnetIds": "a", "scalingConfig": {"max": 1}})

    assert [problem.key for problem in problems] == [
        "nodeRoleArn",
        "subnetIds",
        "scalingConfig.max",
        "scalingConfig.desiredSize",
        "scalingConfig.maxSize",
        "scalingConfig.minSize",
        "clusterName",
    ]


def test_a_value_outside_an_open_enum_is_advisory() -> None:
    problems = check_inputs(AGENT_POOL, {**GOOD[AGENT_POOL], "mode": "Usr"})

    assert [str(problem) for problem in problems] == [
        "mode: got 'Usr', which the SDK's AgentPoolMode does not list; did you mean 'User'?"
    ]
    assert problems[0].advisory


def test_a_value_outside_a_closed_enum_is_an_error() -> None:
    token = "azure-native:containerservice:ManagedCluster"
    good = {"resourceGroupName": "g", "identity": {"type": "SystemAssigned"}}
    wrong = {**good, "identity": {"type": "SystemAsigned"}}

    assert check_inputs(token, good) == []
    assert [(problem.key, problem.advisory) for problem in check_inputs(token, wrong)] == [("identity.type", False)]


@pytest.mark.parametrize("token", GOOD)
def test_a_value_not_known_yet_fits_every_input(token: str) -> None:
    assert check_inputs(token, dict.fromkeys(GOOD[token], UNKNOWN)) == []


def test_secrets_are_looked_into_and_never_shown() -> None:
    def secret(value: Any) -> dict[str, Any]:
        return {SIGNATURE: SECRET, "value": value}

    good = {**GOOD[NODE_GROUP], "nodeRoleArn": secret("arn"), "subnetIds": secret(["a"]), "labels": secret(UNKNOWN)}
    wrong = {**GOOD[NODE_GROUP], "nodeRoleArn": secret(424242)}

    assert check_inputs(NODE_GROUP, good) == []
    assert [str(problem) for problem in check_inputs(NODE_GROUP, wrong)] == ["nodeRoleArn: got a secret; use a string"]


def test_kubernetes_quantities_are_text() -> None:
    def pod(limit: object) -> dict[str, Any]:
        container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": limit}}}
        return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}

    where = "spec.containers[0].resources.limits.nvidia.com/gpu"

    assert check_inputs(POD, pod("1")) == []
    assert [str(problem) for problem in check_inputs(POD, pod(1))] == [f'{where}: got 1; write it as a string: "1"']


def test_inputs_of_a_provider_are_checked_inside_their_json_text() -> None:
    token = "pulumi:providers:aws"

    assert check_inputs(token, {"region": "eu-central-1", "allowedAccountIds": '["1"]', "maxRetries": "3"}) == []
    assert [problem.key for problem in check_inputs(token, {"allowedAccountIds": "[1]", "regoin": "x"})] == [
        "allowedAccountIds[0]",
        "regoin",
    ]


def test_a_token_no_sdk_has_is_not_known() -> None:
    assert not is_known_type("aws:eks/nodeGroop:NodeGroup")
    assert not is_known_type("digitalocean:index/kubernetesNodePool:KubernetesNodePool")
    assert not is_known_type("pulumi:providers:digitalocean")
    assert not is_known_type("")
    assert check_inputs("aws:eks/nodeGroop:NodeGroup", {"a": 1}) == []


@pytest.mark.parametrize(
    ("token", "path"),
    [
        (NODE_GROUP, "scalingConfig"),
        (NODE_GROUP, "scalingConfig.desiredSize"),
        (NODE_GROUP, "taints[0].effect"),
        (NODE_GROUP, "taints[*].effect"),
        (NODE_GROUP, 'labels["gpupools/pool"]'),
        (NODE_GROUP, "tags.anything"),
        (AGENT_POOL, "count"),
        (NODE_POOL, "nodeConfig.guestAccelerators[0].gpuSharingConfig.maxSharedClientsPerGpu"),
        (RELEASE, "values.driver.enabled"),
    ],
)
def test_a_property_path_of_wire_names_is_accepted(token: str, path: str) -> None:
    assert check_property_path(token, path) is None


@pytest.mark.parametrize(
    ("token", "path", "expected"),
    [
        (
            NODE_GROUP,
            "scaling_config.desired_size",
            "matches nothing, so it is ignored; use wire names: scalingConfig.desi",
        ),
        (
            NODE_GROUP,
            "scalingConfig.desired_size",
            "matches nothing, so it is ignored; use wire names: scalingConfig.desi",
        ),
        (NODE_GROUP, "scalingConfig.desired", "'desired' does not exist; did you mean 'desiredSize'?"),
        (NODE_GROUP, "scalingConfig.desiredSize.x", "scalingConfig.desiredSize has no properties; shorten the path"),
        (NODE_GROUP, "taints.effect", "is not a property"),
        (NODE_GROUP, "taints[", "is not a property path"),
        (NODE_GROUP, "", "is not a property path"),
        (AGENT_POOL, "node_count", "'node_count' does not exist; did you mean"),
        (NODE_POOL, "node_config.guest_accelerators[0].count", "use wire names: nodeConfig.guestAccelerators[0].cou"),
    ],
)
def test_a_property_path_that_matches_nothing_is_reported(token: str, path: str, expected: str) -> None:
    assert expected in str(check_property_path(token, path))


def test_only_some_options_may_name_an_output() -> None:
    assert "is not a property" in str(check_property_path(NODE_GROUP, "arn"))
    assert check_property_path(NODE_GROUP, "arn", outputs=True) is None
