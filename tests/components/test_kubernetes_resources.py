"""Releases and objects of a plan as resources: checked by the strict monitor against the SDK's own types."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpupools.plan.software_plan import KubernetesObject, Release
from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.program_run import Preview
from gpupools.software.objects import no_instance_metadata

RunProgram = Callable[[str], Preview]

RELEASE: dict[str, Any] = {
    "name": "nvidia-device-plugin",
    "chart": "nvidia-device-plugin",
    "version": "0.20.0",
    "repository": "https://nvidia.github.io/k8s-device-plugin",
    "namespace": "nvidia-device-plugin",
    "values": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "gfd": {"enabled": True}},
    "timeout_s": 2400,
    "skip_await": False,
    "cleanup_on_fail": False,
    "skip_crds": False,
    "pools": ("a",),
    "decisions": (),
}

Manifest = dict[str, Any]

CONFIG_MAP: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "configs", "namespace": "gpu", "labels": {"example.com/api_version": "x"}},
    "data": {"api_version": "version: v1\n", "matchLabels": "kept"},
}
SCOPED_QUOTA: Manifest = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "critical", "namespace": "gpu"},
    "spec": {
        "hard": {"pods": "100"},
        "scopeSelector": {
            "matchExpressions": [
                {"operator": "In", "scopeName": "PriorityClass", "values": ["system-node-critical"]},
            ]
        },
    },
}
DAEMON_SET: Manifest = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "installer", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "installer"}},
        "template": {
            "metadata": {"labels": {"app": "installer"}},
            "spec": {
                "containers": [{"name": "main", "image": "example.com/a@sha256:0", "securityContext": {}}],
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "tolerationSeconds": 3}],
            },
        },
    },
}
RUNTIME_CLASS: Manifest = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
PRIORITY_CLASS: Manifest = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "gpu"},
    "value": 1000,
    "globalDefault": False,
    "preemptionPolicy": "Never",
}
ADMISSION: Manifest = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "trust"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]
        },
        "validations": [{"expression": "true", "message": "never"}],
    },
}
MONITOR: Manifest = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "ServiceMonitor",
    "metadata": {"name": "dcgm", "namespace": "gpu"},
    "spec": {"selector": {"matchLabels": {"app": "dcgm"}}, "endpoints": [{"port": "metrics"}]},
}


def declared(preview: RunProgram, call: str) -> tuple[DeclaredResource, Preview]:
    shown = preview(
        f"""
        from gpupools.components.kubernetes_resources import declare_object, declare_release
        from gpupools.plan.software_plan import KubernetesObject, Release
        {call}
        """
    )
    (resource,) = shown.resources
    return resource, shown


def release(preview: RunProgram, **changes: Any) -> DeclaredResource:
    planned = Release(**(RELEASE | changes))
    resource, shown = declared(preview, f"declare_release('x', {planned!r}, pulumi.ResourceOptions())")
    assert (shown.problems, shown.warnings) == ([], [])
    return resource


def test_a_release_is_pinned_waits_and_never_rolls_back(preview: RunProgram) -> None:
    made = release(preview)

    assert made.type == "kubernetes:helm.sh/v3:Release"
    given = {key: made.inputs[key] for key in ("name", "chart", "version", "namespace", "timeout", "values")}
    assert given == {
        "name": "nvidia-device-plugin",
        "chart": "nvidia-device-plugin",
        "version": "0.20.0",
        "namespace": "nvidia-device-plugin",
        "timeout": 2400,
        "values": RELEASE["values"],
    }
    assert made.inputs["repositoryOpts"] == {"repo": "https://nvidia.github.io/k8s-device-plugin"}
    switches = ("atomic", "createNamespace", "cleanupOnFail", "skipAwait", "skipCrds")
    assert {key: made.inputs[key] for key in switches} == dict.fromkeys(switches, False)
    assert made.options["customTimeouts"] == dict.fromkeys(("create", "update", "delete"), "2400s")
    assert made.inputs["maxHistory"] == 10
    assert set(made.inputs) == {*given, *switches, "repositoryOpts", "maxHistory", "compat"}


def test_a_chart_of_a_registry_is_named_by_its_address(preview: RunProgram) -> None:
    made = release(preview, repository="oci://registry.example.com/charts/x", chart="x")

    assert made.inputs["chart"] == "oci://registry.example.com/charts/x"
    assert "repositoryOpts" not in made.inputs


@pytest.mark.parametrize("switch", ["skip_await", "cleanup_on_fail", "skip_crds"])
def test_a_switch_of_the_plan_reaches_the_release(preview: RunProgram, switch: str) -> None:
    wire = {"skip_await": "skipAwait", "cleanup_on_fail": "cleanupOnFail", "skip_crds": "skipCrds"}[switch]

    assert release(preview, **{switch: True}).inputs[wire] is True


@pytest.mark.parametrize(
    ("manifest", "type_"),
    [
        pytest.param(CONFIG_MAP, "kubernetes:core/v1:ConfigMap", id="ConfigMap"),
        pytest.param(SCOPED_QUOTA, "kubernetes:core/v1:ResourceQuota", id="ResourceQuota"),
        pytest.param(
            no_instance_metadata("team", "169.254.169.254/32").manifest,
            "kubernetes:networking.k8s.io/v1:NetworkPolicy",
            id="NetworkPolicy",
        ),
        pytest.param(DAEMON_SET, "kubernetes:apps/v1:DaemonSet", id="DaemonSet"),
        pytest.param(RUNTIME_CLASS, "kubernetes:node.k8s.io/v1:RuntimeClass", id="RuntimeClass"),
        pytest.param(PRIORITY_CLASS, "kubernetes:scheduling.k8s.io/v1:PriorityClass", id="PriorityClass"),
        pytest.param(
            ADMISSION,
            "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy",
            id="ValidatingAdmissionPolicy",
        ),
    ],
)
def test_an_object_has_the_class_of_its_kind_and_keeps_every_key(
    preview: RunProgram, manifest: Mapping[str, Any], type_: str
) -> None:
    planned = KubernetesObject(name="x", manifest=manifest, why="")
    resource, shown = declared(preview, f"declare_object('x', {planned!r}, pulumi.ResourceOptions())")

    assert (shown.problems, shown.warnings) == ([], [])
    assert resource.type == type_
    assert resource.inputs == manifest


def test_a_kind_outside_kubernetes_is_a_custom_resource(preview: RunProgram) -> None:
    planned = KubernetesObject(name="x", manifest=MONITOR, why="")
    resource, _ = declared(preview, f"declare_object('x', {planned!r}, pulumi.ResourceOptions())")

    assert resource.type == "kubernetes:monitoring.coreos.com/v1:ServiceMonitor"
    assert resource.inputs == MONITOR


def test_an_object_that_need_not_become_ready_says_so_and_keeps_its_annotations(preview: RunProgram) -> None:
    annotated = {**DAEMON_SET, "metadata": {**DAEMON_SET["metadata"], "annotations": {"a": "b"}}}
    planned = KubernetesObject(name="x", manifest=annotated, why="", await_ready=False, timeout_s=1800)
    resource, shown = declared(preview, f"declare_object('x', {planned!r}, pulumi.ResourceOptions())")

    assert shown.problems == []
    assert resource.inputs["metadata"]["annotations"] == {"a": "b", "pulumi.com/skipAwait": "true"}
    assert resource.options["customTimeouts"] == {"create": "1800s", "update": "1800s"}


def test_a_misspelt_key_of_an_object_is_found_by_the_monitor(preview: RunProgram) -> None:
    spec = {**SCOPED_QUOTA["spec"], "scopeSelectors": {}}
    planned = KubernetesObject(name="x", manifest={**SCOPED_QUOTA, "spec": spec}, why="")
    _, shown = declared(preview, f"declare_object('x', {planned!r}, pulumi.ResourceOptions())")

    assert ["scopeSelectors" in str(problem) for problem in shown.problems] == [True]


@pytest.mark.parametrize(
    ("api_version", "kind", "type_"),
    [
        ("v1", "Secret", "kubernetes:core/v1:Secret"),
        ("batch/v1", "Job", "kubernetes:batch/v1:Job"),
        ("networking.k8s.io/v1", "NetworkPolicy", "kubernetes:networking.k8s.io/v1:NetworkPolicy"),
        ("batch/v9", "Job", "kubernetes:batch/v9:Job"),
        ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule", "kubernetes:nfd.k8s-sigs.io/v1alpha1:NodeFeatureRule"),
        ("unheard.k8s.io/v1", "Thing", "kubernetes:unheard.k8s.io/v1:Thing"),
        ("batch.example.com/v1", "Job", "kubernetes:batch.example.com/v1:Job"),
    ],
)
def test_a_kind_has_the_sdks_class_where_there_is_one(
    preview: RunProgram, api_version: str, kind: str, type_: str
) -> None:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}}
    planned = KubernetesObject(name="x", manifest=manifest, why="")
    resource, _ = declared(preview, f"declare_object('x', {planned!r}, pulumi.ResourceOptions())")

    assert resource.type == type_
    assert {key: resource.inputs[key] for key in manifest} == manifest
    assert "customTimeouts" not in resource.options


def test_an_object_without_annotations_gets_the_one_it_needs(preview: RunProgram) -> None:
    planned = KubernetesObject(name="x", manifest=DAEMON_SET, why="", await_ready=False)
    resource, _ = declared(preview, f"declare_object('x', {planned!r}, pulumi.ResourceOptions())")

    assert resource.inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert "annotations" not in DAEMON_SET["metadata"]
    assert "customTimeouts" not in resource.options
