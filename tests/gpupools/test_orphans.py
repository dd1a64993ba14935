"""What a broken update left: of a state, a preview and what the clouds list."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main

STACK = "urn:pulumi:dev::gpupools::"
POOL = "gpupools:index:GpuNodePool"
Asked = Callable[..., tuple[int, str]]

GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
AGENT = "azure-native:containerservice:AgentPool"
MANAGED = "azure-native:resources:Resource"
NODES = "gcp:container/nodePool:NodePool"
RELEASE = "kubernetes:helm.sh/v3:Release"

TAGS = {"gpupools:cluster": "train", "gpupools:pool": "a"}
AGENT_ID = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourcegroups/ml/providers/Microsoft.ContainerService"
    "/managedClusters/serve/agentPools/bkvkg"
)
NODES_ID = "projects/ml-lab/locations/europe-west4/clusters/lab/nodePools/c-sisv"
NODES_AT = {"project": "ml-lab", "location": "europe-west4", "cluster": "lab", "name": "c-sisv"}
LISTED: dict[str, Any] = {
    GROUP: {
        "nodegroup": {
            "nodegroupName": "train-a-nodes-1a2b3c4",
            "nodegroupArn": "arn:aws:eks:us-east-1:123456789012:nodegroup/train/train-a-nodes-1a2b3c4/5ec3",
            "clusterName": "train",
            "tags": TAGS,
        }
    },
    TEMPLATE: {
        "LaunchTemplates": [
            {
                "LaunchTemplateId": "lt-0a1b",
                "LaunchTemplateName": "train-a-template-1a2b3c4",
                "Tags": [{"Key": key, "Value": value} for key, value in TAGS.items()],
            }
        ]
    },
    AGENT: [{"id": AGENT_ID, "nodeLabels": {"gpupools/pool": "b"}}],
    MANAGED: [{"id": AGENT_ID, "nodeLabels": {"gpupools/pool": "b"}}],
    NODES: [
        {
            "selfLink": f"https://container.googleapis.com/v1/{NODES_ID}",
            "config": {"labels": {"gpupools/pool": "c"}},
        }
    ],
    "kubernetes:core/v1:ConfigMap": {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "gpu", "name": "sharing"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "other", "name": "theirs"}},
        ],
    },
    RELEASE: [{"name": "plugin", "namespace": "gpu", "revision": "1", "chart": "plugin-0.20.0"}],
}
INPUTS: dict[str, Any] = {
    GROUP: {"clusterName": "train", "nodeGroupName": "train-a-nodes-1a2b3c4", "tags": TAGS},
    TEMPLATE: {"name": "train-a-template-1a2b3c4", "tags": TAGS | {"team": "vision"}},
    AGENT: {"resourceGroupName": "ml", "resourceName": "serve", "agentPoolName": "bkvkg"},
    MANAGED: {
        "resourceGroupName": "ml",
        "parentResourcePath": "managedClusters/serve",
        "resourceProviderNamespace": "Microsoft.ContainerService",
        "resourceType": "agentPools",
        "resourceName": "bkvkg",
    },
    NODES: NODES_AT,
    "kubernetes:core/v1:ConfigMap": {"metadata": {"namespace": "gpu", "name": "sharing"}},
    RELEASE: {"name": "plugin", "namespace": "gpu"},
}
IDS = {
    GROUP: "train:train-a-nodes-1a2b3c4",
    TEMPLATE: "lt-0a1b",
    AGENT: AGENT_ID,
    MANAGED: AGENT_ID,
    NODES: NODES_ID,
    "kubernetes:core/v1:ConfigMap": "gpu/sharing",
    RELEASE: "gpu/plugin",
}
DELETED = {
    GROUP: "aws eks delete-nodegroup --cluster-name train --nodegroup-name train-a-nodes-1a2b3c4 --region us-east-1",
    TEMPLATE: "aws ec2 delete-launch-template --launch-template-id lt-0a1b",
    AGENT: "az aks nodepool delete --name bkvkg --cluster-name serve --resource-group ml --subscription "
    "11111111-2222-3333-4444-555555555555",
    NODES: "gcloud container node-pools delete c-sisv --cluster lab --location europe-west4 --project ml-lab",
    "kubernetes:core/v1:ConfigMap": "kubectl delete configmap sharing --namespace gpu",
    RELEASE: "helm uninstall plugin --namespace gpu",
}
DELETED[MANAGED] = DELETED[AGENT]


def resource(kind: str, name: str = "nodes", inputs: Any = None, **keys: Any) -> dict[str, Any]:
    return {
        "urn": f"{STACK}{POOL}${kind}::{name}",
        "type": kind,
        "custom": True,
        "inputs": INPUTS[kind] if inputs is None else inputs,
        "parent": f"{STACK}{POOL}::pool",
        "provider": f"{STACK}pulumi:providers:x::y::0f8b",
        **keys,
    }


def state(*resources: Any, pending: Any = ()) -> dict[str, Any]:
    parent = {"urn": f"{STACK}{POOL}::pool", "type": POOL, "custom": False}
    operations = [{"resource": each, "type": how} for how, each in pending]
    return {"version": 3, "deployment": {"resources": [parent, *resources], "pending_operations": operations}}


def preview(*creates: Any, op: str = "create") -> dict[str, Any]:
    return {"steps": [{"op": op, "urn": each["urn"], "newState": each} for each in creates], "changeSummary": {}}


@pytest.fixture
def asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Asked:
    def ask(*documents: Any, json_: bool = False) -> tuple[int, str]:
        files = []
        for number, document in enumerate(documents):
            files.append(tmp_path / f"{number}.json")
            files[-1].write_text(json.dumps(document), encoding="utf-8")
        code = main(["orphans", *map(str, files), *(["--json"] if json_ else [])])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return ask


def command(kind: str) -> list[str]:
    above = ["--parent", f"parent={STACK}{POOL}::pool", "--provider", f"provider={STACK}pulumi:providers:x::y"]
    how = ["--protect=false", "--generate-code=false", "--stack", "dev"]
    return ["pulumi", "import", kind, "nodes", IDS[kind], *above, *how]


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("known_from", ["a pending operation", "a preview"])
def test_what_no_state_has_comes_with_its_import_and_its_deletion(kind: str, known_from: str, asked: Asked) -> None:
    made = resource(kind)
    if known_from == "a preview":
        code, told = asked(state(), preview(made), LISTED[kind], json_=True)
    else:
        code, told = asked(state(pending=[("creating", made)]), LISTED[kind], json_=True)
    answer = json.loads(told)
    (left,) = answer["left"]

    assert code == 3
    assert [shlex.split(each) for each in left["import"]] == [command(kind)]
    assert left["delete"] == DELETED[kind]
    assert [each["found"] for each in answer["pending"]] == [True] * (known_from != "a preview")


@pytest.mark.parametrize("kind", [GROUP, TEMPLATE])
def test_what_has_another_name_at_every_attempt_is_found_by_its_tags(kind: str, asked: Asked) -> None:
    other = INPUTS[kind] | {"nodeGroupName" if kind == GROUP else "name": "made-up-anew"}
    code, told = asked(state(), preview(resource(kind, inputs=other), op="create-replacement"), LISTED[kind])

    assert code == 3
    assert f"import it: {shlex.join(command(kind))}" in told


@pytest.mark.parametrize("kind", [GROUP, TEMPLATE, AGENT, MANAGED, NODES])
def test_what_a_state_has_is_not_left(kind: str, asked: Asked) -> None:
    code, told = asked(state(resource(kind, id=IDS[kind].upper())), LISTED[kind])

    assert (code, told) == (0, "no orphaned resources: dev\n")


def test_a_pool_of_this_tool_that_no_stack_wants_is_told_all_the_same(asked: Asked) -> None:
    code, told = asked(state(), LISTED[NODES])

    assert code == 3
    assert (
        "c-sisv in lab (gcp:container/nodePool:NodePool, pool c) is in none of these states; no pending operation"
        in told
    )
    assert f"  delete it if no other stack has it: {DELETED[NODES]}" in told
    assert "pulumi import" not in told


def test_pools_of_others_are_none_of_its_business(asked: Asked) -> None:
    theirs = json.loads(json.dumps(LISTED[NODES]).replace("gpupools/pool", "team"))

    assert asked(state(), theirs)[0] == 0


def test_a_second_group_of_a_pool_that_has_one_is_only_to_be_deleted(asked: Asked) -> None:
    has = resource(GROUP, id="train:train-a-nodes-0000000", inputs=INPUTS[GROUP] | {"nodeGroupName": "other"})
    code, told = asked(state(has), preview(resource(GROUP), op="create-replacement"), LISTED[GROUP])

    assert code == 3
    assert "the state has train:train-a-nodes-0000000 instead" in told
    assert "pulumi import" not in told
    assert f"  delete it: {DELETED[GROUP]}" in told


def test_what_the_state_lacks_above_it_comes_first(asked: Asked) -> None:
    bare = {"version": 3, "deployment": {"resources": []}}

    assert "run pulumi up, which stops at this resource" in asked(bare, preview(resource(NODES)), LISTED[NODES])[1]


def test_operations_that_are_in_no_list_are_told_apart(asked: Asked) -> None:
    pending = [("creating", resource(NODES)), ("updating", resource(GROUP, "group"))]
    code, told = asked(state(resource(GROUP, "group", id=IDS[GROUP]), pending=pending), [])

    assert code == 3
    assert "creating nodes (gcp:container/nodePool:NodePool); none of these files lists it" in told
    assert "updating group (aws:eks/nodeGroup:NodeGroup)\n" in told
    assert told.splitlines()[-1].endswith("pulumi refresh --clear-pending-creates --stack dev")


def test_the_same_object_of_two_clusters_is_offered_to_both(asked: Asked) -> None:
    kind = "kubernetes:core/v1:ConfigMap"
    _, told = asked(state(), preview(resource(kind), resource(kind, "other")), LISTED[kind])

    assert told.count("import it, if it is in this cluster: pulumi import") == 2


def test_an_object_that_another_cluster_has_too_is_offered_with_a_doubt(asked: Asked) -> None:
    kind = "kubernetes:core/v1:ConfigMap"
    other = resource(kind, "other", id=IDS[kind])
    _, told = asked(state(other), preview(resource(kind)), LISTED[kind])

    assert told.count("import it, if it is in this cluster: pulumi import") == 1


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        pytest.param([LISTED[NODES]], "none of the files is a state", id="no state"),
        pytest.param([state(), {"a": 1}], "has an unknown format", id="a file of another kind"),
        pytest.param([state(), 7], "has an unknown format", id="a number"),
        pytest.param(
            [state({"urn": "urn:pulumi:prod::gpupools::a:b:C::x", "type": "a:b:C", "custom": True, "id": "x"})],
            "has resources of the stacks dev and prod",
            id="a state into which another was imported",
        ),
        pytest.param([state(pending=[("creating", 7)])], "pending_operations[0].resource", id="a damaged state"),
    ],
)
def test_what_cannot_be_compared_is_refused(documents: list[Any], why: str, asked: Asked) -> None:
    code, told = asked(*documents)

    assert code == 1
    assert why in told
    assert json.loads(asked(*documents, json_=True)[1])["result"] == "refused"


LABELLED = {
    GROUP: {"labels": {"gpupools/pool": "a"}},
    AGENT: {"nodeLabels": {"gpupools/pool": "b"}},
    MANAGED: {"properties": {"nodeLabels": {"gpupools/pool": "b"}}},
    NODES: {"nodeConfig": {"labels": {"gpupools/pool": "c"}}},
}


@pytest.mark.parametrize("kind", LABELLED)
def test_a_pool_without_its_component_is_not_to_be_updated(kind: str, asked: Asked) -> None:
    """`pulumi state repair` puts it at the top, under another URN; before that its parent is not in the state."""
    inputs = INPUTS[kind] | LABELLED[kind]
    whole = resource(kind, inputs=inputs, id=IDS[kind])
    top = whole | {"urn": f"{STACK}{kind}::nodes", "parent": f"{STACK}pulumi:pulumi:Stack::gpupools-dev"}
    broken = whole | {"parent": f"{STACK}{POOL}::another"}

    assert asked(state(whole), LISTED[kind]) == (0, "no orphaned resources: dev\n")
    for torn in (top, {**top, "parent": ""}, broken):
        code, said = asked(state(torn), LISTED[kind])
        assert (code, said.splitlines()[0]) == (
            3,
            f"dev: the state lacks the component of nodes ({kind}), as after pulumi state repair",
        )
        assert "nothing is left over" not in said
        assert "pulumi import" not in said
        code, said = asked(state(torn), LISTED[kind], json_=True)
        assert (code, json.loads(said)["without_component"]) == (3, [{"urn": torn["urn"], "type": kind}])


@pytest.mark.parametrize(
    ("mark", "what"), [("delete", "delete the old one"), ("pendingReplacement", "create the new one")]
)
def test_a_replacement_that_broke_off_is_finished_by_the_same_update(mark: str, what: str, asked: Asked) -> None:
    code, said = asked(state({**resource(GROUP, id=IDS[GROUP]), mark: True}))

    assert code == 3
    assert f"broke off; it left to {what}" in said
    assert "pulumi up --stack" in said


def test_a_pool_of_somebody_elses_program_needs_no_component(asked: Asked) -> None:
    theirs = resource(GROUP, id="train:theirs", inputs={"clusterName": "train", "labels": {"team": "a"}}, parent="")

    assert asked(state(theirs | {"urn": f"{STACK}{GROUP}::theirs"})) == (0, "no orphaned resources: dev\n")
