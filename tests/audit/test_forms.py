"""Which form a file has, what each form gives the rules, and what is refused."""

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit.forms import read_document
from gpupools.audit.judging import FileReport
from gpupools.common import structured_text
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.declared_software import read_software
from gpupools.policies.finding import Context, Finding, format_finding
from gpupools.policies.policy_config import Config, read_config
from gpupools.policies.rules.gpu_software_pinned import RULE

URN = "urn:pulumi:dev::ml::aws:eks/nodeGroup:NodeGroup::gpu"
TYPE = "aws:eks/nodeGroup:NodeGroup"
GPU = {"instanceTypes": ["g6.xlarge"]}
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}


def preview(*states: dict[str, Any], op: str = "create", **more: Any) -> dict[str, Any]:
    steps = [{"op": op, "urn": state["urn"], "newState": state} for state in states]
    return {"config": {}, "steps": steps, "duration": 1, "changeSummary": {op: len(steps)}, **more}


def state(inputs: Any = GPU, **more: Any) -> dict[str, Any]:
    return {"urn": URN, "custom": True, "type": TYPE, "inputs": inputs, **more}


def exported(*states: Any) -> dict[str, Any]:
    return {"version": 3, "deployment": {"manifest": {"time": "", "magic": "", "version": ""}, "resources": [*states]}}


def own_preview(**more: Any) -> dict[str, Any]:
    resource = {"type": TYPE, "name": "gpu", "urn": URN, "parent": None, "inputs": GPU, "options": {"protect": True}}
    return {"file": "", "pools": [], "resources": [resource], "policy": [], "problems": [], **more}


PLAN = {
    "format_version": "1.2",
    "resource_changes": [
        {
            "address": "aws_eks_node_group.gpu",
            "mode": "managed",
            "type": "aws_eks_node_group",
            "name": "gpu",
            "change": {"actions": ["create"], "after": {"instance_types": ["g6.xlarge"]}, "after_unknown": {}},
        }
    ],
}
KARPENTER = """\
# A pool of GPU nodes.
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}
      taints:
        - {key: nvidia.com/gpu, effect: PreferNoSchedule}
"""


def rules(judged: FileReport) -> list[tuple[str, str]]:
    assert judged.problems == ()
    return [(found.address, found.rule.name) for found in judged.found if found.rule.name == "gpu-pool-tainted"]


@pytest.mark.parametrize(
    ("content", "form", "address"),
    [
        (PLAN, "Terraform plan", "aws_eks_node_group.gpu"),
        (preview(state()), "Pulumi preview", URN),
        (exported(state()), "Pulumi state", URN),
        (own_preview(), "gpupools preview", URN),
        (KARPENTER, "Kubernetes manifest", "NodePool/gpu"),
    ],
    ids=lambda value: value if isinstance(value, str) and "\n" not in value else "",
)
@pytest.mark.parametrize("name", ["file", "plan.json", "Pulumi.dev.yaml", "notes.txt"])
def test_the_form_is_seen_from_the_content_whatever_the_name(
    content: Any, form: str, address: str, name: str, write: Any
) -> None:
    from gpupools.audit.judging import judge_file
    from gpupools.policies.policy_config import Config

    judged = judge_file(write(content, name), Config())

    assert judged.form == form
    assert rules(judged) == [(address, "gpu-pool-tainted")]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "the file is empty"),
        ("{}", "has no supported format (its keys: none)"),
        ("[]", "contains nothing to judge"),
        ("just words", "contains nothing to judge"),
        ("a: 1\nb: 2\n", "has no supported format (its keys: a, b)"),
        ('{"a": ', "line 1, column 7: is not JSON: expecting value"),
        ("a: [1\n", "line 2, column 1: is not YAML: did not find expected ',' or ']'"),
        ({"version": 4, "terraform_version": "1.9", "lineage": "x", "resources": []}, "is a raw Terraform state"),
        ('{"@level":"info"}\n{"@level":"info"}\n', "is Terraform's log, not its plan"),
        ("config:\n  gpupools:pools: {}\n", "is a stack file, not its output"),
        ("encryptionsalt: v1:abc\nconfig:\n  aws:region: eu-central-1\n", "is a stack file, not its output"),
        (own_preview(problems=[{"key": "a"}]), "is a preview that was rejected for 1 problem"),
        (
            preview(diagnostics=[{"severity": "error", "message": "no such stack\nmore"}]),
            "the preview failed, so resources may be missing: no such stack",
        ),
        (KARPENTER + "---\nfoo: bar\n", "the document at line 15 is not a Kubernetes object"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_reason(
    content: Any, what: str, judge: Callable[..., FileReport]
) -> None:
    judged = judge(content)

    assert [problem.what for problem in judged.problems] == [what]
    assert judged.refuses


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04rest", "is a binary file, such as a saved Terraform plan"),
        (b"a: \xff\xfe", "is not UTF-8 text (byte 3)"),
    ],
    ids=["zip", "not UTF-8"],
)
def test_bytes_that_are_no_text_are_refused(content: bytes, what: str, write: Any) -> None:
    from gpupools.audit.judging import judge_file
    from gpupools.policies.policy_config import Config

    path: Path = write("")
    path.write_bytes(content)

    assert [problem.what for problem in judge_file(path, Config()).problems] == [what]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_in_the_encodings_of_windows_shells_is_read(encoding: str, write: Any) -> None:
    path: Path = write("")
    path.write_text(json.dumps(PLAN), encoding=encoding)

    assert read_document(path).form == "Terraform plan"


@pytest.mark.parametrize("name", ["missing", "."], ids=["missing", "folder"])
def test_a_path_that_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    from gpupools.audit.judging import judge_file
    from gpupools.policies.policy_config import Config

    assert len(judge_file(tmp_path / name, Config()).problems) == 1


BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "- " * 100_000 + "x",
        "a: " + "{b: " * 300 + "1" + "}" * 300,
        BOMB,
        "a: &a [*a]\n",
        '{"a": ' + "9" * 5000 + "}",
        "a: &a {b: *a}\n<<: *a\n",
    ],
    ids=["brackets", "objects", "dashes", "flow", "alias bomb", "loop", "long number", "merge loop"],
)
def test_hostile_files_are_refused_and_end_nothing(content: str, judge: Callable[..., FileReport]) -> None:
    judged = judge(content)

    assert len(judged.problems) == 1


def test_a_file_beyond_the_size_limit_is_not_read(
    write: Any, monkeypatch: pytest.MonkeyPatch, judge: Callable[..., FileReport]
) -> None:
    monkeypatch.setattr(structured_text, "MAX_BYTES", 100)

    assert [problem.what for problem in judge(PLAN).problems] == ["cannot be read: it has more than 100 bytes"]


# --- Pulumi ---


def test_a_resource_the_preview_deletes_is_not_judged(judge: Callable[..., FileReport]) -> None:
    gone = {"op": "delete", "urn": URN, "oldState": state()}

    assert judge({**preview(), "steps": [gone]}).resources == 0


def test_a_replacement_is_judged_once(judge: Callable[..., FileReport]) -> None:
    steps = [{"op": op, "urn": URN, "newState": state()} for op in ("create-replacement", "replace", "delete-replaced")]

    assert rules(judge({**preview(), "steps": steps})) == [(URN, "gpu-pool-tainted")]


def test_a_resource_of_a_state_that_waits_for_its_deletion_is_not_judged(judge: Callable[..., FileReport]) -> None:
    assert judge(exported(state(delete=True))).resources == 0


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("04da6b54-80e4-46f7-96ec-b56ff0331ba9", UNKNOWN),
        ("[secret]", UNKNOWN),
        ({**SECRET, "ciphertext": "v1:abc"}, UNKNOWN),
        ({**SECRET, "plaintext": '["g6.xlarge"]'}, ["g6.xlarge"]),
        ({**SECRET, "plaintext": "broken"}, UNKNOWN),
        ({**SECRET, "value": ["04da6b54-80e4-46f7-96ec-b56ff0331ba9"]}, [UNKNOWN]),
        ({"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17", "text": "x"}, {}),
    ],
    ids=["unknown", "hidden", "encrypted", "shown", "broken", "preview", "asset"],
)
def test_unknown_and_secret_values_are_what_they_are_in_a_preview(value: Any, read: Any, write: Any) -> None:
    document = read_document(write(exported(state({"instanceTypes": value}))))

    assert document.resources[0].inputs == {"instanceTypes": read}


def test_protection_stack_and_references_come_with_a_state(write: Any) -> None:
    template = "urn:pulumi:dev::ml::aws:ec2/launchTemplate:LaunchTemplate::t"
    more: dict[str, Any] = {
        "protect": True,
        "propertyDependencies": {"launchTemplate": [template]},
        "dependencies": [template],
    }
    found = read_document(write(exported(state(**more)))).resources[0]

    assert (found.protect, found.stack) == (True, "dev")
    assert found.refers == {"launchTemplate": (template,)}
    assert found.depends == (template,)


def test_a_launch_template_of_a_state_is_joined_to_its_node_group(judge: Callable[..., FileReport]) -> None:
    template = "urn:pulumi:dev::ml::aws:ec2/launchTemplate:LaunchTemplate::t"
    group = state(
        {"launchTemplate": {"id": "lt-1", "version": "1"}}, propertyDependencies={"launchTemplate": [template]}
    )
    other = {
        "urn": template,
        "type": "aws:ec2/launchTemplate:LaunchTemplate",
        "inputs": {"instanceType": "p5.48xlarge"},
    }
    found = [one for one in judge(exported(group, other)).found if one.rule.name == "gpu-pool-tainted"]

    assert [(one.address, one.finding.unverified) for one in found] == [(URN, False)]


@pytest.mark.parametrize("junk", [None, 3, "x", [], [None], {"a": 1}], ids=repr)
@pytest.mark.parametrize("key", ["urn", "propertyDependencies", "dependencies", "provider", "id"])
def test_malformed_states_never_raise(key: str, junk: Any, judge: Callable[..., FileReport]) -> None:
    assert judge(exported({**state(), key: junk})).problems == ()


@pytest.mark.parametrize(
    ("content", "where"),
    [
        pytest.param({"version": 3, "deployment": {"resources": {}}}, "deployment.resources: got {}", id="a state"),
        pytest.param(exported(state(), 3), "deployment.resources[1]: got 3", id="a state's resource"),
        pytest.param(exported(state(type=None)), "deployment.resources[0].type: got null", id="a resource's type"),
        pytest.param(exported(state(inputs=3)), "deployment.resources[0].inputs: got 3", id="a resource's inputs"),
        pytest.param(own_preview(resources="x"), "resources: got 'x'", id="a preview of this tool"),
        pytest.param({"steps": [{"op": 5}]}, "steps[0].op: got 5", id="a step"),
        pytest.param({"steps": [{"op": "create", "newState": 5}]}, "steps[0].newState: got 5", id="a new state"),
        pytest.param({"steps": [], "diagnostics": True}, "diagnostics: got true", id="diagnostics"),
    ],
)
def test_a_damaged_file_does_not_pass(content: Any, where: str, judge: Callable[..., FileReport]) -> None:
    assert [str(problem) for problem in judge(content).problems] == [f"{where}; the file is damaged; generate it again"]


# --- Kubernetes ---


def test_a_finding_has_the_line_of_the_input_at_fault(judge: Callable[..., FileReport]) -> None:
    judged = judge(KARPENTER)

    assert [found.line for found in judged.found if found.rule.name == "gpu-pool-tainted"] == [12]


@pytest.mark.parametrize("kind", ["List", "NodePoolList"])
def test_objects_inside_lists_are_judged_with_their_own_lines(kind: str, judge: Callable[..., FileReport]) -> None:
    inner = "".join(f"    {line}\n" for line in KARPENTER.splitlines()[1:])
    judged = judge(f"apiVersion: v1\nkind: {kind}\nitems:\n  -\n{inner}")

    assert rules(judged) == [("NodePool/gpu", "gpu-pool-tainted")]
    assert [found.line for found in judged.found if found.rule.name == "gpu-pool-tainted"] == [15]


def test_every_document_of_a_file_is_judged_and_empty_ones_are_passed_over(judge: Callable[..., FileReport]) -> None:
    judged = judge(f"---\n{KARPENTER}---\n---\n{KARPENTER.replace('name: gpu', 'name: second')}")

    assert [address for address, _ in rules(judged)] == ["NodePool/gpu", "NodePool/second"]


def test_two_objects_of_one_name_are_both_judged(judge: Callable[..., FileReport]) -> None:
    judged = judge(KARPENTER + "---\n" + KARPENTER.replace("g6.xlarge", "g5.xlarge"))

    assert [address for address, _ in rules(judged)] == ["NodePool/gpu", "NodePool/gpu (2)"]
    assert judged.judged == ("NodePool/gpu", "NodePool/gpu (2)")


def test_manifests_in_json_are_judged_too(judge: Callable[..., FileReport]) -> None:
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
    spec = {"template": {"spec": {"requirements": [wanted]}}}
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu"}, "spec": spec}

    assert rules(judge(pool)) == [("NodePool/gpu", "gpu-pool-tainted")]


def test_other_objects_pass(judge: Callable[..., FileReport]) -> None:
    spec = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
    judged = judge(pod)

    assert (judged.found, judged.gpu_pools, judged.refuses) == ((), 0, False)


POD = {"containers": [{"name": "a", "image": "nvcr.io/nvidia/cuda"}]}
TEMPLATE = {"template": {"spec": POD}}
OLD_EXPORTER = {"initContainers": [{"name": "a", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.0"}]}


@pytest.mark.parametrize(
    ("version", "kind", "held", "path"),
    [
        ("v1", "Pod", {"spec": POD}, "spec.containers[0].image"),
        ("v1", "Pod", {"spec": OLD_EXPORTER}, "spec.initContainers[0].image"),
        ("v1", "PodTemplate", TEMPLATE, "template.spec.containers[0].image"),
        ("v1", "ReplicationController", {"spec": TEMPLATE}, "spec.template.spec.containers[0].image"),
        ("apps/v1", "ReplicaSet", {"spec": TEMPLATE}, "spec.template.spec.containers[0].image"),
        ("apps/v1", "Deployment", {"spec": TEMPLATE}, "spec.template.spec.containers[0].image"),
        ("batch/v1", "Job", {"spec": TEMPLATE}, "spec.template.spec.containers[0].image"),
        (
            "batch/v1",
            "CronJob",
            {"spec": {"jobTemplate": {"spec": TEMPLATE}}},
            "spec.jobTemplate.spec.template.spec.containers[0].image",
        ),
    ],
)
def test_every_workload_pins_nvidias_images(
    version: str, kind: str, held: dict[str, Any], path: str, judge: Callable[..., FileReport]
) -> None:
    judged = judge({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **held})

    assert [(one.rule.name, one.finding.property) for one in judged.found] == [("gpu-software-pinned", path)]


@pytest.mark.parametrize(
    ("image", "what"),
    [
        ("nvcr.io/nvidia/cuda:9.0-devel", ""),
        ("nvidia/cuda:12.4.1-devel-ubuntu22.04", ""),
        ("nvidia/cuda:devel", "the image is not pinned"),
        ("nvcr.io/nvidia/k8s-device-plugin:0.17-devel", "the image is not pinned"),
        ("nvcr.io/nvidia/driver:580-5.4.0-150-generic-ubuntu22.04", "can be any release of branch 580"),
        ("nvcr.io/nvidia/driver:535.183.01-ubuntu22.04", "lacks the fix"),
        ("nvcr.io/nvidia/driver:470-5.4.0-150-generic-ubuntu22.04", "lacks the fix"),  # no release of it has it
    ],
)
def test_a_tag_says_what_it_says(image: str, what: str, judge: Callable[..., FileReport]) -> None:
    pod = {"containers": [{"name": "a", "image": image}]}
    found = judge({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod}).found

    assert [each.message for each in found if what not in each.message] == []
    assert len(found) == bool(what)
    assert all(each.finding.unverified is ("any release" in what) for each in found)


def test_a_pinned_image_of_cuda_passes_and_what_runs_once_owns_nothing(judge: Callable[..., FileReport]) -> None:
    exact = {"containers": [{"name": "a", "image": "nvidia/cuda:12.4.1-base-ubuntu22.04"}]}
    plugin = {"containers": [{"name": "a", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}]}
    for pod in (exact, plugin):
        judged = judge({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": pod})

        assert judged.found == ()


@pytest.mark.parametrize(
    ("chart", "example"),
    [("nvidia-dra-driver-gpu", "name an exact version ("), ("gpu-operator", "name an exact version, e.g. 26.")],
)
def test_an_example_of_a_version_is_one_of_that_chart(chart: str, example: str) -> None:
    software = read_software("kubernetes:helm.sh/v3:Release", {"chart": f"https://example.com/{chart}"})
    assert software is not None
    (found,) = [one for one in RULE.software(software, Context()) if one.property == "version"]  # type: ignore[misc]

    assert f"{found.fix} (".startswith(example)


def test_an_object_that_is_no_taint_is_told_by_its_keys() -> None:
    finding = Finding(what="w", property="a", fix="f")

    assert format_finding(finding, {"a": {"b": "secret", "c": 1}}) == "w; found a: {b, c}; f"
    assert (
        format_finding(finding, {"a": {"key": "k", "value": "secret", "effect": "NoSchedule"}})
        == "w; found a: k:NoSchedule; f"
    )


def test_a_pool_is_waived_by_the_name_it_has_itself(
    judge: Callable[..., FileReport], write: Callable[..., Path]
) -> None:
    change = {
        "address": "google_container_node_pool.x",
        "mode": "managed",
        "type": "google_container_node_pool",
        "change": {
            "actions": ["create"],
            "after": {
                "name": "notebooks",
                "node_config": [
                    {
                        "machine_type": "g2-standard-4",
                        "guest_accelerator": [
                            {
                                "type": "nvidia-l4",
                                "count": 1,
                                "gpu_sharing_config": [
                                    {"gpu_sharing_strategy": "TIME_SHARING", "max_shared_clients_per_gpu": 4}
                                ],
                            }
                        ],
                    }
                ],
            },
        },
    }
    plan = {"format_version": "1.2", "resource_changes": [change]}

    def trusted(config: Config | None = None) -> bool:
        return "gpu-sharing-trusted" not in [one.rule.name for one in judge(plan, config).found]

    assert not trusted()
    assert trusted(read_config(write({"gpu-sharing-trusted": {"waived": ["note*"]}}, "config"), date.min))
    assert not trusted(read_config(write({"gpu-sharing-trusted": {"waived": ["x"]}}, "config"), date.min))


def changed(action: str, context: str | None) -> dict[str, Any]:
    change = {"Action": action, "LogicalResourceId": "Gpu", "ResourceType": "AWS::EKS::Nodegroup"}
    return {"Type": "Resource", "ResourceChange": {**change, **({"AfterContext": context} if context else {})}}


@pytest.mark.parametrize(
    ("action", "properties", "unverified"),
    [
        ("Add", {"InstanceTypes": ["g6.xlarge"]}, [False]),
        ("Modify", {"InstanceTypes": ["{{changeSet:KNOWN_AFTER_APPLY}}"]}, [True]),
        ("Add", {"InstanceTypes": ["m5.large"]}, []),
        ("Remove", {"InstanceTypes": ["g6.xlarge"]}, []),
    ],
)
def test_a_change_set_of_cloudformation_is_read(
    action: str, properties: Any, unverified: list[bool], judge: Callable[..., FileReport]
) -> None:
    change = changed(action, json.dumps({"Properties": properties}))
    judged = judge({"ChangeSetName": "c", "StackName": "s", "Status": "CREATE_COMPLETE", "Changes": [change]})

    assert (judged.form, judged.problems) == ("CloudFormation change set", ())
    assert [each.finding.unverified for each in judged.found if each.rule.name == "gpu-pool-tainted"] == unverified


def test_a_change_set_without_property_values_is_refused(judge: Callable[..., FileReport]) -> None:
    assert judge({"ChangeSetName": "c", "Changes": [changed("Add", None)]}).problems


AGENT_POOL = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c/agentPools/gpu"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"changeType": "Create", "after": "Standard_NC24ads_A100_v4"}, "gpu-pool-tainted"),
        ({"changeType": "NoChange", "after": "[reference('x').size]"}, "gpu-pool-tainted"),
        ({"changeType": "Modify", "after": "Standard_D4s_v5"}, ""),
        ({"changeType": "Delete", "before": {}}, ""),
        ({"changeType": "Ignore", "before": {"id": AGENT_POOL}}, ""),
        ({"changeType": "Ignore"}, "node-pools-understood"),
        ({"changeType": "Deploy"}, "node-pools-understood"),
    ],
    ids=str,
)
def test_a_what_if_result_is_read(change: dict[str, Any], rule: str, judge: Callable[..., FileReport]) -> None:
    if "after" in change:
        kind = "Microsoft.ContainerService/managedClusters/agentPools"
        after = {"id": AGENT_POOL, "name": "gpu", "type": kind, "properties": {"vmSize": change["after"]}}
        change = {**change, "after": after}
    judged = judge({"status": "Succeeded", "error": None, "changes": [{"resourceId": AGENT_POOL, **change}]})

    assert (judged.form, judged.problems) == ("ARM what-if result", ())
    assert {each.rule.name for each in judged.found if each.level != "advice"} == ({rule} if rule else set())
    assert {each.address for each in judged.found} <= {AGENT_POOL}


def test_a_what_if_operation_that_failed_is_refused(judge: Callable[..., FileReport]) -> None:
    assert judge({"status": "Failed", "error": {"code": "x"}, "changes": []}).problems
