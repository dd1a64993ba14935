"""Terraform plans: those Terraform made (eks, eks_modules) and those written by hand after its format (aks, gke)."""

import json
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit.forms import read_document
from gpupools.audit.judging import FileReport, judge_file
from gpupools.audit.terraform_names import terraform_names
from gpupools.audit.terraform_resources import TerraformResource, resources_of
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.policy_config import Config
from gpupools.preview.sdk_schema import check_inputs, is_known_type
from tooling.write_terraform_names import FILE, names

HERE = Path(__file__).resolve().parent
PLANS = HERE / "plans"
TAINT_RULES = {"gpu-pool-tainted"}


def _terraform() -> Any:
    spec = spec_from_file_location("terraform_runs", HERE / "terraform.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TERRAFORM = _terraform()

# What a person reading the .tf files would say of each pool: untainted for sure, not to be told, or nothing.
VERDICTS: dict[str, dict[str, str]] = {
    "eks": {
        "aws_eks_node_group.untainted": "untainted",
        "aws_eks_node_group.only_prefers": "untainted",
        "aws_eks_node_group.late_taint": "unverified",
        "aws_eks_node_group.late_machine": "unverified",
        'aws_eks_node_group.from_template["gpu"]': "untainted",
    },
    "eks_modules": {
        'module.pool["untainted"].aws_eks_node_group.inner': "untainted",
        'module.pool["untainted"].aws_eks_node_group.outer': "untainted",
        # The group has no machine of its own, so it is the template that is judged.
        'aws_launch_template.self_managed["untainted"]': "untainted",
    },
    "eks_templates": {
        "aws_autoscaling_group.override": "untainted",
        'aws_autoscaling_group.plain["tainted"]': "unverified",  # plans do not show which key is which template
        'aws_autoscaling_group.plain["bare"]': "unverified",
        "aws_autoscaling_group.dynamic": "unverified",
        "aws_instance.bare": "untainted",
        'aws_eks_node_group.own_image["tainted"]': "unverified",
        'aws_eks_node_group.own_image["bare"]': "unverified",
    },
    "aks": {
        "azurerm_kubernetes_cluster.serve": "untainted",
        "azurerm_kubernetes_cluster_node_pool.untainted": "untainted",
        "azurerm_kubernetes_cluster_node_pool.wrong_effect": "untainted",
    },
    "gke": {
        "google_container_cluster.lab": "untainted",
        "google_container_node_pool.untainted": "untainted",
    },
}


def recorded(name: str) -> Any:
    return json.loads((PLANS / name / "plan.json").read_text(encoding="utf-8"))


def taint_verdicts(judged: FileReport) -> dict[str, str]:
    assert judged.problems == ()
    return {
        found.address: "unverified" if found.finding.unverified else "untainted"
        for found in judged.found
        if found.rule.name in TAINT_RULES
    }


@pytest.mark.parametrize("name", VERDICTS)
def test_a_plan_is_judged_as_a_person_would(name: str) -> None:
    judged = judge_file(PLANS / name / "plan.json", Config())

    assert judged.form == "Terraform plan"
    assert taint_verdicts(judged) == VERDICTS[name]


@pytest.fixture(scope="module")
def planned_anew(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Plan both sources together, which takes half the time of one after the other."""
    reason = TERRAFORM.missing()
    if reason:
        pytest.skip(f"the recorded plans are not made anew: {reason}")
    return TERRAFORM.plan(TERRAFORM.PLANNED, tmp_path_factory.mktemp("terraform"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TERRAFORM.PLANNED)
def test_terraform_plans_today_what_was_recorded(name: str, planned_anew: Any) -> None:
    today, then = parts(planned_anew), parts(recorded(name))

    assert {part: today.get(part) for part in then} == then


def parts(plan: Any) -> dict[tuple[str, str], Any]:
    """Return what a plan says of each resource and module, by kind and address."""
    root = plan["configuration"]["root_module"]
    return {
        **{("change", each["address"]): each for each in plan["resource_changes"]},
        **{("configuration", each["address"]): each for each in root["resources"]},
        **{("module", name): call for name, call in root.get("module_calls", {}).items()},
    }


@pytest.mark.parametrize("name", VERDICTS)
def test_recorded_plans_name_no_machine_and_no_time(name: str) -> None:
    text = (PLANS / name / "plan.json").read_text(encoding="utf-8")

    assert not any(word in text for word in ("/home", "/root", "/tmp", "timestamp", "access_key", "secret_key"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the SDKs' own modules
@pytest.mark.parametrize("name", VERDICTS)
def test_converted_inputs_have_the_names_and_shapes_of_the_sdk(name: str) -> None:
    """The strict preview's own check, which reads the installed SDKs, has nothing against them."""
    for package in ("aws.autoscaling", "aws.ec2", "aws.eks", "azure_native.containerservice", "gcp.container"):
        import_module(f"pulumi_{package}")
    for resource in read_document(PLANS / name / "plan.json").resources:
        if resource.type.startswith("terraform:"):  # nothing of Pulumi's, and nobody reads it
            continue
        wrong = check_inputs(resource.type, without_unknown(resource.inputs))

        # Terraform's own bookkeeping, and what only the Terraform resource asks for, has no counterpart.
        assert is_known_type(resource.type)
        assert [str(problem) for problem in wrong if not problem.advisory and not expected(problem)] == []


def expected(problem: Any) -> bool:
    return problem.key in ("timeouts", "context") or problem.what == "is missing" or problem.key in LEFT_OVER


# Arguments of azurerm_kubernetes_cluster outside its pool, which no rule reads and the table does not map; and of the
# AWS provider 5 where the SDK is made from 6. `tagsAll` is computed, and known where an instance has all its tags.
LEFT_OVER = {"tagsAll"}


def without_unknown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_unknown(item) for key, item in value.items() if item is not UNKNOWN}
    return [without_unknown(item) for item in value if item is not UNKNOWN] if isinstance(value, list) else value


def change(type_: str, after: dict[str, Any], unknown: Any = None, **more: Any) -> dict[str, Any]:
    made = {"actions": ["create"], "before": None, "after": after, "after_unknown": unknown or {}}
    return {"address": f"{type_}.pool", "mode": "managed", "type": type_, "name": "pool", "change": made, **more}


def plan(*changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"format_version": "1.2", "resource_changes": list(changes), **more}


GPU = {"instance_types": ["g6.xlarge"], "taint": []}


@pytest.mark.parametrize(
    "actions",
    [["no-op"], ["create"], ["update"], ["delete", "create"], ["create", "delete"]],
    ids=lambda actions: "+".join(actions),
)
def test_what_the_plan_leaves_in_place_is_judged(actions: list[str], judge: Callable[..., FileReport]) -> None:
    resource = change("aws_eks_node_group", GPU)
    resource["change"]["actions"] = actions

    assert taint_verdicts(judge(plan(resource))) == {"aws_eks_node_group.pool": "untainted"}


@pytest.mark.parametrize("actions", [["delete"], ["forget"], ["read"]], ids=lambda actions: actions[0])
def test_what_the_plan_takes_away_is_not_judged(actions: list[str], judge: Callable[..., FileReport]) -> None:
    resource = change("aws_eks_node_group", GPU)
    resource["change"]["actions"] = actions

    assert judge(plan(resource)).found == ()


def test_a_data_source_is_not_judged(judge: Callable[..., FileReport]) -> None:
    assert judge(plan(change("aws_eks_node_group", GPU, mode="data"))).found == ()


def test_a_computed_value_that_nobody_wrote_is_absent_and_one_that_somebody_wrote_is_unknown(write: Any) -> None:
    resource = change("aws_eks_node_group", {"instance_types": ["g6.xlarge"]}, {"ami_type": True, "disk_size": True})
    written = {"ami_type": {"references": ["var.image"]}, "instance_types": {"constant_value": ["g6.xlarge"]}}
    configuration = {"root_module": {"resources": [{**resource, "expressions": written}]}}
    document = read_document(write(plan(resource, configuration=configuration)))

    assert document.resources[0].inputs == {"instanceTypes": ["g6.xlarge"], "amiType": UNKNOWN}


def test_without_its_configuration_everything_a_plan_does_not_know_is_unknown(write: Any) -> None:
    document = read_document(write(plan(change("aws_eks_node_group", {}, {"instance_types": True}))))

    assert document.resources[0].inputs == {"instanceTypes": UNKNOWN}


def with_template(expressions: dict[str, Any], *more_templates: str) -> dict[str, Any]:
    """A plan of a node group whose launch template is not known yet, and one or more templates with GPUs."""
    templates = [
        {**change("aws_launch_template", {"instance_type": "p5.48xlarge"}), "name": name, "address": name}
        for name in ("first", *more_templates)
    ]
    group = change("aws_eks_node_group", {"launch_template": [{"version": "1"}]}, {"launch_template": [{"id": True}]})
    resources = [{**group, "expressions": expressions}, *({**one, "expressions": {}} for one in templates)]
    return plan(group, *templates, configuration={"root_module": {"resources": resources}})


@pytest.mark.parametrize(
    ("expressions", "more", "verdict"),
    [
        ({"launch_template": [{"id": {"references": ["aws_launch_template.first.id"]}}]}, ("second",), "untainted"),
        ({"launch_template": [{"id": {"references": ["local.template"]}}]}, (), "untainted"),
        ({}, (), "untainted"),
        ({"launch_template": [{"id": {"references": ["local.template"]}}]}, ("second",), "unverified"),
        ({}, ("second",), "unverified"),
        ({"launch_template": [{"id": {"references": ["data.aws_launch_template.first.id"]}}]}, (), "unverified"),
    ],
    ids=["named", "local, one", "dynamic, one", "local, two", "dynamic, two", "looked up"],
)
def test_a_launch_template_is_joined_only_when_it_is_certain_which(
    expressions: dict[str, Any], more: tuple[str, ...], verdict: str, judge: Callable[..., FileReport]
) -> None:
    judged = judge(with_template(expressions, *more))

    assert taint_verdicts(judged) == {"aws_eks_node_group.pool": verdict}


@pytest.mark.parametrize(
    ("only", "verdict"),
    [(True, {}), (False, {"azurerm_kubernetes_cluster.pool": "untainted"})],
    ids=["tainted", "untainted"],
)
def test_the_one_taint_azurerm_gives_a_default_pool_counts(
    only: bool, verdict: dict[str, str], judge: Callable[..., FileReport]
) -> None:
    pool = {"name": "system", "vm_size": "Standard_NC24ads_A100_v4", "only_critical_addons_enabled": only}

    assert taint_verdicts(judge(plan(change("azurerm_kubernetes_cluster", {"default_node_pool": [pool]})))) == verdict


def test_the_cure_for_a_default_pool_is_another_pool(judge: Callable[..., FileReport]) -> None:
    pool = {"name": "system", "vm_size": "Standard_NC24ads_A100_v4"}
    judged = judge(plan(change("azurerm_kubernetes_cluster", {"default_node_pool": [pool]})))

    assert "move the GPUs to a pool of their own" in next(f.message for f in judged.found if f.rule.name in TAINT_RULES)


@pytest.mark.parametrize("older", ["enable_auto_scaling", "auto_scaling_enabled"])
def test_azurerm_3_and_4_are_read_alike(older: str, write: Any) -> None:
    values = {"vm_size": "Standard_NC4as_T4_v3", older: True, "gpu_driver": "None"}
    document = read_document(write(plan(change("azurerm_kubernetes_cluster_node_pool", values))))

    assert document.resources[0].inputs == {
        "vmSize": "Standard_NC4as_T4_v3",
        "enableAutoScaling": True,
        "gpuProfile": {"driver": "None"},
    }


@pytest.mark.parametrize("body", [dict, json.dumps], ids=["azapi 2", "azapi 1"])
def test_an_agent_pool_made_with_azapi_is_judged(body: Any, judge: Callable[..., FileReport]) -> None:
    values = {
        "type": "Microsoft.ContainerService/managedClusters/agentPools@2025-09-01",
        "body": body({"properties": {"vmSize": "Standard_NC4as_T4_v3"}}),
    }

    assert taint_verdicts(judge(plan(change("azapi_resource", values)))) == {"azapi_resource.pool": "untainted"}


KARPENTER = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "template": {
            "spec": {
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
                ],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
            }
        }
    },
}


@pytest.mark.parametrize(
    "resource",
    [
        change("kubernetes_manifest", {"manifest": KARPENTER}),
        change("kubectl_manifest", {"yaml_body": json.dumps(KARPENTER)}),
    ],
    ids=["kubernetes_manifest", "kubectl_manifest"],
)
def test_a_karpenter_pool_applied_by_terraform_is_judged(
    resource: dict[str, Any], judge: Callable[..., FileReport]
) -> None:
    assert taint_verdicts(judge(plan(resource))) == {resource["address"]: "untainted"}


def test_a_helm_release_of_terraform_is_judged(judge: Callable[..., FileReport]) -> None:
    values = {
        "chart": "gpu-operator",
        "repository": "https://helm.ngc.nvidia.com/nvidia",
        "values": ["driver: {enabled: false}"],
        "set": [{"name": "toolkit.enabled", "value": "false"}],
    }
    judged = judge(plan(change("helm_release", values)))

    assert "gpu-software-pinned" in {found.rule.name for found in judged.found}
    assert judged.judged == ("helm_release.pool",)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([{"name": "a.b", "value": "true"}], {"a": {"b": True}}),
        ([{"name": "a.b", "value": "true", "type": "literal"}], {"a": {"b": "true"}}),
        ([{"name": "a.b", "value": ["x"]}], {"a": {"b": ["x"]}}),
        ([{"name": "a.b", "value": "{x,y}"}, {"name": "a.c", "value": "x,y"}], {"a": {"b": UNKNOWN, "c": UNKNOWN}}),
        ([{"name": "a.b[0].c", "value": "x"}, {"name": "a.d", "value": "y"}], {"a": {"b": UNKNOWN, "d": "y"}}),
        ([{"name": r"a.b\.c", "value": "x"}], {r"a.b\.c": "x"}),
        ([{"name": "a", "value": "x,b=y"}], UNKNOWN),
        ([{"name": UNKNOWN, "value": "x"}], UNKNOWN),
    ],
    ids=str,
)
def test_settings_of_a_release_are_read_or_unknown(settings: list[dict[str, Any]], expected: Any) -> None:
    (release,) = resources_of(TerraformResource("helm_release", "a", {"chart": "c", "set": settings}), None)

    assert release.inputs["values"] == expected


def test_findings_speak_terraforms_names() -> None:
    said = {
        found.address: found.message
        for name in VERDICTS
        for found in judge_file(PLANS / name / "plan.json", Config()).found
        if found.rule.name in TAINT_RULES
    }

    assert "instance_types p4d.24xlarge" in said["aws_eks_node_group.untainted"]
    assert "to taint" in said["aws_eks_node_group.untainted"]
    assert "to node_taints" in said["azurerm_kubernetes_cluster_node_pool.untainted"]
    assert "to node_config.taint " in said["google_container_node_pool.untainted"]
    assert "node_pool[0].node_config.machine_type a2-highgpu-1g" in said["google_container_cluster.lab"]


@pytest.mark.parametrize(
    ("said", "spelled"),
    [
        ("found nodeConfig.taints: none", "found node_config.taint: none"),
        ("guestAccelerators 2 × nvidia-tesla-t4", "guest_accelerator 2 × nvidia-tesla-t4"),
        ("found taints: teamX:NoSchedule", "found taint: teamX:NoSchedule"),
        ("the taints of myTeam/gpuPool are 'fooBar'", "the taints of myTeam/gpuPool are 'fooBar'"),
        ("see https://example.com/fooBar#bazQux", "see https://example.com/fooBar#bazQux"),
        ("nodeConfig.taints[0].key not known yet", "node_config.taint[0].key not known yet"),
    ],
)
def test_only_property_paths_of_a_sentence_are_respelled(said: str, spelled: str) -> None:
    assert terraform_names()["google_container_node_pool"].says(said) == spelled


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the SDKs' own modules
def test_the_table_of_names_is_what_the_installed_sdks_say() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == names(), "run python -m tooling.write_terraform_names"


def test_a_state_is_judged_in_every_module(judge: Callable[..., FileReport]) -> None:
    resource = {"address": "x", "mode": "managed", "type": "aws_eks_node_group", "name": "x", "values": GPU}
    inner = {**resource, "address": "module.a.x"}
    values = {
        "root_module": {"resources": [resource], "child_modules": [{"address": "module.a", "resources": [inner]}]}
    }
    judged = judge({"format_version": "1.0", "values": values})

    assert judged.form == "Terraform state"
    assert taint_verdicts(judged) == {"x": "untainted", "module.a.x": "untainted"}


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"format_version": "2.0"}, "has Terraform's JSON format '2.0'; the newest supported format is 1"),
        ({"format_version": 1}, "has Terraform's JSON format 1; the newest supported format is 1"),
        ({"errored": True}, "is a plan that ended with an error and is incomplete"),
    ],
    ids=["newer format", "no version", "failed plan"],
)
def test_a_plan_that_cannot_be_trusted_is_refused(more: Any, what: str, judge: Callable[..., FileReport]) -> None:
    judged = judge({**plan(), **more})

    assert [problem.what for problem in judged.problems] == [what]


@pytest.mark.parametrize("junk", [None, 3, "x", [], {}, [None], {"a": [1]}], ids=repr)
@pytest.mark.parametrize("at", ["address", "index", "module_address", "name"])
def test_malformed_parts_of_a_plan_never_raise(at: str, junk: Any, judge: Callable[..., FileReport]) -> None:
    resource = {**change("aws_eks_node_group", GPU), at: junk}
    configuration = {"root_module": {"resources": junk, "module_calls": junk}}

    assert judge(plan(resource, configuration=configuration)).problems == ()


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        pytest.param({"resource_changes": 3}, "resource_changes: got 3", id="changes"),
        pytest.param({"resource_changes": [None]}, "resource_changes[0]: got null", id="a change"),
        pytest.param({"resource_changes": None}, "resource_changes: got null", id="no changes for planned values"),
        pytest.param({"planned_values": "x"}, "planned_values: got 'x'", id="planned values"),
        pytest.param({"mode": None}, "resource_changes[0].mode: got null", id="mode"),
        pytest.param({"type": 3}, "resource_changes[0].type: got 3", id="type"),
        pytest.param({"change": [1]}, "resource_changes[0].change: got a list of 1", id="its change"),
        pytest.param({"change": {}}, "resource_changes[0].change.actions: got null", id="actions"),
        pytest.param({"change": {"actions": ["create"]}}, "resource_changes[0].change.after: got null", id="after"),
    ],
)
def test_a_damaged_plan_does_not_pass(damage: dict[str, Any], where: str, judge: Callable[..., FileReport]) -> None:
    whole = plan({**change("aws_eks_node_group", GPU), **damage})
    whole["planned_values"] = {"root_module": {"resources": [{"address": "aws_eks_node_group.gpu"}]}}
    judged = judge({**whole, **{key: value for key, value in damage.items() if key in whole}})

    assert [str(problem) for problem in judged.problems] == [f"{where}; the file is damaged; generate it again"]
    assert judged.refuses


@pytest.mark.parametrize(
    ("values", "where"),
    [
        pytest.param("x", "values: got 'x'", id="values"),
        pytest.param({"root_module": 3}, "values.root_module: got 3", id="root module"),
        pytest.param({"root_module": {"resources": True}}, "values.root_module.resources: got true", id="resources"),
        pytest.param(
            {"root_module": {"child_modules": [{"resources": [{"mode": "managed", "type": "x", "values": 3}]}]}},
            "values.root_module.child_modules[0].resources[0].values: got 3",
            id="values of a resource",
        ),
        pytest.param(
            {"root_module": {"resources": [{"type": "x"}]}}, "values.root_module.resources[0].mode: got null", id="mode"
        ),
    ],
)
def test_a_damaged_state_does_not_pass(values: Any, where: str, judge: Callable[..., FileReport]) -> None:
    judged = judge({"format_version": "1.0", "values": values})

    assert [str(problem) for problem in judged.problems] == [f"{where}; the file is damaged; generate it again"]


@pytest.mark.parametrize("junk", [None, 3, "x", True, [], {}, [None], [[]], {"a": [1]}], ids=repr)
@pytest.mark.parametrize("type_", sorted(terraform_names()))
def test_malformed_values_of_a_resource_never_raise(type_: str, junk: Any, judge: Callable[..., FileReport]) -> None:
    names = ("taint", "node_taints", "default_node_pool", "node_config", "node_pool", "launch_template", "vm_size")
    values = dict.fromkeys(names, junk)

    assert judge(plan(change(type_, values, {"node_config": junk}))).problems == ()
