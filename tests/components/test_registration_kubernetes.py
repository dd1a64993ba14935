"""Objects, releases and providers are registered as the classes of the installed Kubernetes SDK would register them."""

import os
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from gpupools.components.kubernetes_access import create_kubernetes_provider
from gpupools.components.kubernetes_resources import declare_object, declare_release
from gpupools.plan.software_plan import KubernetesObject, Release
from gpupools.preview.sdk_schema import resource_class
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from tests.registering import by_class, registered

ROOT = Path(__file__).resolve().parents[2]
RUNTIMES = [
    runtime
    for folder in ("stacks", "examples/stacks", "examples/teams", "tests/stacks", "tests/gpupools/ready")
    for file in sorted((ROOT / folder).glob("Pulumi.*.yaml"))
    for runtime in check_stack_file(file, clouds()).plan.runtimes
]
OBJECTS = {f"{each.manifest['apiVersion']} {each.kind}": each for runtime in RUNTIMES for each in runtime.objects}
RELEASES = {each.is_oci: each for runtime in RUNTIMES for each in runtime.releases}


@pytest.mark.parametrize("planned", OBJECTS.values(), ids=OBJECTS)
def test_an_object_of_a_plan_is_what_the_sdks_class_makes_of_it(planned: KubernetesObject) -> None:
    (made,) = registered(lambda: declare_object("x", planned, pulumi.ResourceOptions()))

    assert made["object"]["kind"] == planned.kind
    if resource_class(made["type"]) is None:  # of a CRD
        assert "version" not in made
        return
    theirs = by_class(made)
    older = theirs.pop("aliases", [])
    assert made == theirs
    assert all(each["spec"]["type"].endswith(f":{planned.kind}") for each in older)  # of versions never declared


@pytest.mark.parametrize("release", RELEASES.values(), ids=lambda each: "oci" if each.is_oci else "repository")
def test_a_release_is_what_the_sdks_class_makes_of_it(release: Release) -> None:
    (made,) = registered(lambda: declare_release("x", release, pulumi.ResourceOptions()))

    assert made == by_class(made)
    without = {**made, "object": {key: value for key, value in made["object"].items() if key != "compat"}}
    assert by_class(without) == made


@pytest.mark.parametrize("variable", [None, "true", "0", "no boolean"])
def test_a_provider_is_what_the_sdks_class_makes(variable: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getenv", lambda name, default=None: variable if default is None else default)

    def theirs() -> None:
        kubernetes.Provider(
            "x", kubeconfig=pulumi.Output.secret("text"), cluster_identifier="lab", enable_config_map_mutable=True
        )

    cluster: dict[str, Any] = {"kubeconfig": "text"}
    (made,) = registered(lambda: create_kubernetes_provider("x", "azure", cluster, identifier="lab"))

    assert [made] == registered(theirs)
    assert ("deleteUnreachable" in made["object"]) is (variable in ("true", "0"))
