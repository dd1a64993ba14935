"""What makes nodes is found behind whatever runs it, in SDKs' calls and in commands of any cloud; a mention is none."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from gpupools.policies.documents.judging import Judged
from gpupools.policies.script_calls import called, calls
from gpupools.policies.script_commands import COMMAND, ELSEWHERE, HERE, command_line, run, run_with_environment

CURL = "curl -X {} 'https://{}' -d @pool.json"
GKE = "container.googleapis.com/v1/projects/p/locations/l/clusters/c/nodePools"
AKS = "management.azure.com/subscriptions/s/resourceGroups/r/providers/Microsoft.ContainerService/managedClusters/c"

MAKES = [
    # Calls of SDKs
    "await client.send(new CreateNodegroupCommand({clusterName: 'c'}))",
    "await eks.CreateNodegroupAsync(new CreateNodegroupRequest { })",
    "client.createNodePoolAsync(request)",
    "$made = New-AzAksNodePool -ResourceGroupName r -ClusterName c -Name gpu",
    "New-EKSNodegroup -ClusterName c -InstanceType g6.xlarge",
    "agentPoolsClient.BeginCreateOrUpdate(ctx, rg, c, 'gpu', p, nil)",
    "client.BeginCreateOrUpdate(ctx, rg, c,\n  'gpu', armcontainerservice.AgentPool{})",
    'api.create_cluster_custom_object(group="karpenter.sh", version="v1", plural="nodepools", body=body)',
    "api.createNamespacedCustomObject({group: 'cluster.x-k8s.io', plural: 'machinedeployments'})",
    CURL.format("POST", GKE),
    CURL.format("PUT", f"{AKS}/agentPools/gpu?api-version=1"),
    "curl -X POST https://eks.$REGION.amazonaws.com/clusters/c/node-groups --data @ng.json",
    'eks = boto3.client("eks")\neks.create_cluster(name="c")',
    "await client.send(new CreateClusterCommand({name})); // @aws-sdk/client-eks",
    "svc.CreateCluster(&eks.CreateClusterInput{})",
    'getattr(boto3.client("eks"), "create_nodegroup")(clusterName="c")',
    "call = getattr(eks, 'create_nodegroup')\ncall(clusterName='c')",
    "await eks['createNodegroup']({clusterName: 'c'})",
    "c = container_v1.ClusterManagerClient()\nc.create_cluster(parent=p, cluster=k)",
    "clusterManagerClient.createCluster(request)",
    "service.projects().locations().clusters().nodePools().create(parent=p, body=b).execute()",
    "client.managed_clusters.begin_create_or_update(rg, name, parameters)",
    "await client.managedClusters.beginCreateOrUpdateAndWait(rg, name, parameters)",
    "client.BeginCreateOrUpdate(ctx, rg, c, armcontainerservice.ManagedCluster{}, nil)",
    'g = "karpenter.sh"\napi.create_cluster_custom_object(group=g, version="v1", plural="nodepools", body=b)',
    'r = DynamicClient(c).resources.get(api_version="karpenter.sh/v1", kind="NodePool")\nr.create(body=b)',
    'gvr := GroupVersionResource{Group: "karpenter.sh", Resource: "nodepools"}\ndyn.Resource(gvr).Create(ctx, o, opts)',
    "- a:\n    call: googleapis.container.v1.projects.locations.clusters.nodePools.create\n    args: {}",
    "call: googleapis.container.v1beta1.projects.zones.clusters.create",
    "action: aws:executeAwsApi\ninputs:\n  Service: eks\n  Api: CreateNodegroup\n  clusterName: c",
    '{"action": "aws:executeAwsApi", "inputs": {"Service": "eks", "Api": "create_nodegroup"}}',
    # What runs a command
    "docker run --rm -v ~/.aws:/root/.aws public.ecr.aws/eksctl/eksctl create nodegroup --cluster c",
    "podman run amazon/aws-cli:2.15.0 eks create-nodegroup --cluster-name c",
    "nerdctl exec -it tools eksctl create nodegroup",
    "ssh -i key -p 22 me@host 'eksctl create nodegroup --cluster c'",
    "su - me -c 'eksctl create nodegroup --cluster c'",
    "flock -w 5 /tmp/l eksctl create nodegroup -c c",
    "eksctl.exe create nodegroup --cluster c",
    "doas -u me eksctl create nodegroup",
    "sudo -E -u ec2-user eksctl create nodegroup",
    "sudo --user ec2-user env A=b eksctl create nodegroup",
    "kubectl exec deploy/tools -- eksctl create nodegroup",
    "CMD='eksctl create'; $CMD nodegroup --cluster c",
    'EKSCTL="/opt/eksctl"\n"${EKSCTL}" create nodegroup',
    "eksctl --region ${REGION:-eu-west-1} create nodegroup",
    "aws eks --region {{ .Values.region }} create-nodegroup",
    'echo " # "; eksctl create nodegroup -c c',
    "curl 'https://example.com/#top' -o a; eksctl create nodegroup",
    "eksctl\tcreate\tnodegroup",
    "parallel eksctl create nodegroup ::: a",
    "strace -f -e open eksctl create nodegroup",
    "systemd-run eksctl create nodegroup",
    'script -c "eksctl create nodegroup" /dev/null',
    "$(which eksctl) create nodegroup",
    "`command -v eksctl` create nodegroup",
    "EKSCTL=eksctl; $EKSCTL create nodegroup",
    'A="eksctl create nodegroup"; eval $A',
    'A="eksctl create nodegroup"; bash -c "$A"',
    # Words that variables hold
    "V=create; eksctl $V nodegroup",
    "V=create; eksctl ${V} nodegroup; V=get",
    "V=get; V=create; eksctl $V nodegroup",
    "CMD='aks nodepool add'; az $CMD -g r",
    'A="eks create-nodegroup"\naws --region r $A --cluster-name c',
    # Any key of a taint
    "kubectl taint nodes ${NODE} dedicated-",
    "kubectl taint nodes n1 dedicated-",
    "kubectl taint nodes n1 dedicated=gpu:NoSchedule-",
]
APPLIES = [
    "kubeadm join 1.2.3.4:6443 --token x",
    "talosctl apply-config -n 1.2.3.4 -f worker.yaml",
    "cat x.yaml | kubectl create -f -",
    "api.create_namespaced_custom_object(group=g, version=v, namespace=n, plural=p, body=b)",
    "api.create_namespaced_custom_object(self.group, v, n, p, b)",
    "r = DynamicClient(c).resources.get(api_version=v, kind=k)\nr.server_side_apply(body=b)",
    "dynamicClient.Resource(gvr).Namespace(ns).Create(ctx, obj, metav1.CreateOptions{})",
    "const client = k8s.KubernetesObjectApi.makeApiClient(kc)\nawait client.create(spec)",
    'utils.create_from_yaml(client, "f.yaml")',
    'boto3.client("ec2").run_instances(ImageId=i)',
    'boto3.client("cloudformation").create_stack(StackName=s, TemplateURL=u)',
    # Words that are not known
    "az $CMD",
    "az $CMD -g r",
    'kubectl "$@"',
    'set -- aks nodepool add\naz "$@"',
    "eksctl $ACTION nodegroup",
    "eksctl create $KIND --cluster c",
    "aws eks $ACTION --cluster-name a",
    "gcloud container $WHAT create",
    "terraform $COMMAND -auto-approve",
]
NEITHER = [
    "# new CreateNodegroupCommand({})",
    "  // new CreateNodegroupCommand({})",
    "echo 'then call client.create_nodegroup(...)'",
    'api.create_cluster_custom_object(group="example.com", plural="things", body=body)',
    'api.list_cluster_custom_object(group="karpenter.sh", plural="nodepools")',
    f"curl https://{GKE}",
    f"curl -X POST https://{GKE}/gpu:setSize -d @size.json",
    f"curl -X POST https://{AKS}/listClusterUserCredential -d ''",
    f"# {CURL.format('POST', GKE)}",
    f"echo run {CURL.format('POST', GKE)}",
    'ecs = boto3.client("ecs")\necs.create_cluster(clusterName="c")',
    'import {CreateClusterCommand} from "@aws-sdk/client-ecs"\nawait c.send(new CreateClusterCommand({}))',
    "client.createCluster(x)",
    "getattr(eks, 'describe_nodegroup')(); allowed = ['create_nodegroup']",
    "print('create_nodegroup')",
    "call: googleapis.container.v1.projects.locations.clusters.nodePools.list",
    "def create_node_pool(name):\n    return name",
    'GROUP = "kubeflow.org"\napi.create_namespaced_custom_object(group=GROUP, version="v1", plural=p, body=b)',
    'r = DynamicClient(c).resources.get(api_version="v1", kind="Pod")\nr.create(body=b)',
    'r = DynamicClient(c).resources.get(api_version="karpenter.sh/v1", kind="NodePool")\nprint(r.get())',
    "dyn.Resource(gvr).List(ctx, opts)",
    "az aksarc nodepool list",
    "gcloud compute instances list; az vm list; rke version; flux get kustomizations",
    "# don't\n# eksctl create nodegroup isn't run",
    "it's # eksctl create nodegroup",
    "EKSCTL=kubectl; $EKSCTL get nodes",
    "Write-Host New-EKSNodegroup -ClusterName c",
    "docker run alpine echo eksctl create nodegroup",
    "docker build -t eksctl create nodegroup",
    "ssh host echo eksctl create nodegroup",
    "sudo -u me grep eksctl create nodegroup.txt",
    "CMD='eksctl get'; $CMD nodegroup; $OTHER create nodegroup",
    "sudo apt-get install -y kubectl helm",
    "sudo cp eksctl.exe create nodegroup",
    "kubectl exec deploy/tools -- kubectl get nodepools",
    "kubectl taint nodes n1 startup.example.com/agent-not-ready:NoSchedule-",
    "kubectl taint nodes n1 node.kubernetes.io/unschedulable-",
    "action: aws:executeAwsApi\ninputs: {Service: eks, Api: DescribeNodegroup}",
    "action: aws:executeAwsApi\ninputs: {Service: ecs, Api: CreateCluster}",
    "aws $OPTS eks describe-cluster --name $NAME",
    "aws eks --region $REGION describe-cluster",
    "aws s3 cp $A $B",
    "kubectl get $WHAT -n $NS",
    "kubectl -n $NS logs $POD",
    "helm repo add $A $B",
    "gcloud container clusters get-credentials $CLUSTER",
    "kops get cluster $NAME",
    "eksctl get $KIND",
    "terraform output $NAME",
    "V=get; eksctl $V nodegroup",
    "echo az $CMD",
    '"aws:RequestedRegion": "${AWS::Region}"',
    '#!/bin/sh\nexec /usr/bin/gcloud "$@"',
    'retry() {\n  kubectl "$@"\n}\nretry get nodes',
]


@pytest.mark.parametrize(
    "given",
    [
        {"environmentVariables": [{"name": "CMD", "value": "aks nodepool add"}], "scriptContent": "az $CMD -g r"},
        {"environmentVariables": [{"name": "CMD", "secureValue": "aks nodepool add"}], "scriptContent": "az $CMD"},
        {"environment_variables": {"CMD": "aks nodepool add"}, "script_content": 'az "$CMD"'},
        {"environment": {"CMD": "az aks nodepool add"}, "command": "$CMD -g r"},
        {"env": [{"name": "CMD", "value": "nodepool add"}], "command": ["sh", "-c", "az aks $(CMD)"]},
        {"env": [{"name": "CMD", "value": "nodepool add"}], "args": ["az aks ${CMD}"]},
    ],
)
def test_a_script_runs_with_the_variables_that_stand_beside_it(given: dict[str, Any]) -> None:
    assert {row.answer for row, _ in run_with_environment(given)} == {COMMAND}


@pytest.mark.parametrize(
    "given",
    [
        {"environment": {"CMD": "aks show"}, "command": "az $CMD"},
        {"environment": {"OTHER": "aks nodepool add"}, "command": "az group list"},
        {"environment": [], "command": "az $CMD"},
        {"command": "az $CMD"},
        {"env": [{"name": "A", "value": None}, "b"], "command": "az $(date)"},
    ],
)
def test_variables_that_name_nothing_that_makes_nodes_say_nothing(given: dict[str, Any]) -> None:
    assert list(run_with_environment(given)) == []


TAINT = "{key: nvidia.com/gpu, effect: NoSchedule}"
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: gpu}}
spec:
  template:
    spec:
      requirements: [{{key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}}]{}
"""


@pytest.mark.parametrize(
    ("scripts", "answers"), [(MAKES, [COMMAND]), (APPLIES, [ELSEWHERE]), (NEITHER, [])], ids=["nodes", "advice", "none"]
)
def test_what_makes_nodes_is_found_wherever_it_stands(scripts: list[str], answers: list[str]) -> None:
    assert {text: [row.answer for row, _ in run(text)] for text in scripts} == dict.fromkeys(scripts, answers)


ELSEWHERE_THOUGH = [
    "echo installing\ncurl -s https://example.com/pool.yaml | kubectl apply -f -",
    "cat <<EOF > /etc/x\na\nEOF\ncat /opt/pool.yaml | sed s/a/b/ | kubectl apply -f -",
    "kubectl apply -f - < pool.yaml; echo ok",
    "python3 pool.py | kubectl apply -f -; echo ok",
]
IN_SIGHT = [
    "cat <<EOF | envsubst | kubectl apply -f -\nkind: A\nEOF",
    "kubectl apply -f - <<EOF\nkind: A\nEOF",
    "{ cat <<EOF\nkind: A\nEOF\n} | kubectl apply -f -",
    "cat <<EOF |\nkind: A\nEOF\nkubectl apply -f -",
    'echo "kind: A" | kubectl apply -f -',
    'A=$(cat <<EOF\nkind: A\nEOF\n)\necho "$A" | kubectl apply -f -',
]


@pytest.mark.parametrize(("scripts", "answer"), [(ELSEWHERE_THOUGH, ELSEWHERE), (IN_SIGHT, HERE)], ids=["not", "here"])
def test_what_is_applied_is_in_sight_where_its_own_pipe_has_it(scripts: list[str], answer: str) -> None:
    assert {text: [row.answer for row, _ in run(text)] for text in scripts} == {text: [answer] for text in scripts}


def test_every_call_is_found_in_the_spelling_of_any_language_beside_what_tells_it() -> None:
    for row in calls():
        assert row.source.startswith("https://")
        assert row.as_of
        for name in row.call.split("|"):
            camel = "".join(word.capitalize() for word in name.split("_"))
            for one in (name, camel, f"{camel}Async"):
                assert called(f"x.{one}(a)\n{row.beside.split('|')[0]}")[0] == row.answer.replace("object", "elsewhere")


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ({"name": "gcr.io/cloud-builders/gcloud", "args": ["container"]}, "gcloud container"),
        ({"name": "gcr.io/google.com/cloudsdktool/cloud-sdk", "entrypoint": "gcloud", "args": ["a"]}, "gcloud a"),
        ({"name": "helm", "image": "example.com/other", "args": ["install"]}, "install"),
        ({"name": "helm", "args": ["install"]}, "install"),
    ],
)
def test_a_step_of_a_build_runs_the_tool_of_its_image_or_its_entrypoint(step: Any, line: str) -> None:
    assert command_line(step) == line


def test_a_lambda_in_a_template_that_makes_a_node_group_is_not_understood(judge: Callable[..., Judged]) -> None:
    code = {"ZipFile": "exports.handler = async () => eks.send(new CreateNodegroupCommand({clusterName: 'c'}));\n"}
    function = {"Type": "AWS::Lambda::Function", "Properties": {"Code": code}}

    judged = judge(yaml.safe_dump({"Resources": {"F": function}}))

    assert [each.rule.name for each in judged.found] == ["node-pools-understood"]


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe", "startupProbe"])
@pytest.mark.parametrize(("taints", "rules"), [("", ["gpu-pool-tainted"]), (f"\n      taints: [{TAINT}]", [])])
def test_a_pool_that_a_probe_applies_is_judged(
    probe: str, taints: str, rules: list[str], judge: Callable[..., Judged]
) -> None:
    command = ["sh", "-c", f"kubectl apply -f - <<EOF\n{POOL.format(taints)}EOF\n"]
    container = {"name": "a", "image": "k", probe: {"exec": {"command": command}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}

    found = judge(yaml.safe_dump(pod)).found

    assert [each.rule.name for each in found if each.level.value == "mandatory"] == rules
