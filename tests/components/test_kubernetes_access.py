"""The Kubernetes provider of a cluster: where its kubeconfig comes from, and what of it is secret."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.preview.program_run import Preview
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.providers import clouds
from gpupools.spec.models import LATE
from gpupools.stackfile.stack_validation import parse_cluster

RunProgram = Callable[[str], Preview]
HIDDEN = "got a value that is not shown"
SECRET = "1b47061264138c4ac30d75fd1eb44270"

PROVIDER = """
from gpupools.components.kubernetes_access import create_kubernetes_provider
from gpupools.spec.cluster_access import KubeconfigFile, KubeconfigSecret
cluster = {"name": "lab", "region": "eu-west-1", "endpoint": "https://10.0.0.2"}
cluster["certificate_authority"] = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"
"""


def declared(preview: RunProgram, program: str) -> Mapping[str, Any]:
    """Run a program that declares one Kubernetes provider; return the provider's inputs."""
    shown = preview(PROVIDER + program)
    assert shown.problems == []
    (provider,) = [each for each in shown.resources if each.type == "pulumi:providers:kubernetes"]
    return provider.inputs


def kubeconfig(preview: RunProgram, cloud: str, **changes: str) -> dict[str, Any]:
    program = f"create_kubernetes_provider('lab', {cloud!r}, cluster | {changes!r})"
    read: dict[str, Any] = json.loads(declared(preview, program)["kubeconfig"])
    return read


COMMANDS = {
    "aws": ["aws", "--region", "eu-west-1", "eks", "get-token", "--cluster-name", "lab", "--output", "json"],
    "azure": [
        "kubelogin",
        "get-token",
        "--login",
        "azurecli",
        "--server-id",
        "6dae42f8-4368-4678-94ff-3960e28e3630",
    ],
    "gcp": ["gke-gcloud-auth-plugin"],
}


@pytest.mark.parametrize("cloud", clouds())
def test_endpoint_and_certificate_authority_take_the_clouds_own_login(preview: RunProgram, cloud: str) -> None:
    config = kubeconfig(preview, cloud)

    (cluster,), (user,), (context,) = config["clusters"], config["users"], config["contexts"]
    assert cluster["cluster"] == {
        "server": "https://10.0.0.2",
        "certificate-authority-data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
    }
    login = user["user"]["exec"]
    assert [login["command"], *login["args"]] == COMMANDS[cloud]
    assert "Install" in login["installHint"]
    assert login["provideClusterInfo"] is (cloud == "gcp")
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert config["current-context"] == context["name"]
    assert (config["apiVersion"], config["kind"]) == ("v1", "Config")
    assert set(config) == {"apiVersion", "kind", "clusters", "users", "contexts", "current-context"}
    assert (login["apiVersion"], login["interactiveMode"]) == ("client.authentication.k8s.io/v1beta1", "IfAvailable")
    assert [each["name"] for each in (cluster, user, context)] == [context["name"]] * 3


def test_a_bare_address_becomes_a_url(preview: RunProgram) -> None:
    (cluster,) = kubeconfig(preview, "gcp", endpoint="34.90.1.2")["clusters"]

    assert cluster["cluster"]["server"] == "https://34.90.1.2"


@pytest.mark.parametrize("key", ["endpoint", "certificate_authority", "name"])
def test_an_address_that_is_not_known_yet_leaves_the_kubeconfig_unknown(preview: RunProgram, key: str) -> None:
    program = f"""
import pulumi_aws as aws
role = aws.iam.Role("late", assume_role_policy="{{}}")
create_kubernetes_provider('lab', 'aws', cluster | {{{key!r}: role.arn}})
"""
    assert declared(preview, program)["kubeconfig"] == UNKNOWN


def test_a_file_is_named_and_left_to_the_provider_to_read(preview: RunProgram) -> None:
    given = declared(
        preview,
        "given = KubeconfigFile(path='~/.kube/lab', context='admin')\n"
        "create_kubernetes_provider('lab', 'azure', {'kubeconfig': given})",
    )

    assert (given["kubeconfig"], given["context"]) == ("~/.kube/lab", "admin")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param("KubeconfigSecret(secret='apiVersion: v1')", "apiVersion: v1", id="the stack's own secret"),
        pytest.param("pulumi.Output.from_input('apiVersion: v1')", "apiVersion: v1", id="an output"),
        pytest.param(
            "pulumi.Output.from_input({'kind': 'Config'})", '{"kind": "Config"}', id="an output that is a map"
        ),
    ],
)
def test_a_kubeconfig_is_a_secret_wherever_it_comes_from(preview: RunProgram, given: str, text: str) -> None:
    inputs = declared(preview, f"create_kubernetes_provider('lab', 'azure', {{'kubeconfig': {given}}})")

    assert SECRET in inputs["kubeconfig"].values()
    assert inputs["kubeconfig"]["value"] == text
    assert inputs["enableConfigMapMutable"] == "true"


def test_a_secret_kubeconfig_may_name_its_context(preview: RunProgram) -> None:
    given = "KubeconfigSecret(secret='apiVersion: v1', context='admin')"
    inputs = declared(preview, f"create_kubernetes_provider('lab', 'azure', {{'kubeconfig': {given}}})")

    assert inputs["context"] == "admin"
    assert "context" not in declared(preview, "create_kubernetes_provider('lab', 'azure', {'kubeconfig': 'text'})")


# --- what a stack file may say ---


def parse(**keys: object) -> Any:
    return parse_cluster(("clusters", "lab"), {**clouds()["azure"].example_cluster, **keys}, clouds())


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"kubeconfig": {"path": "/etc/kubeconfig", "context": "admin"}}, id="a file"),
        pytest.param({"kubeconfig": {"secret": LATE}}, id="an encrypted secret"),
        pytest.param({"kubeconfig": {"secret": "apiVersion: v1"}}, id="the secret while the program runs"),
        pytest.param(
            {"kubeconfig": {"output": "kubeconfig"}, "stack": "acme/platform/prod"}, id="another stack's output"
        ),
        pytest.param({"endpoint": "34.1.1.1", "certificate_authority": LATE}, id="endpoint and authority"),
    ],
)
def test_a_cluster_may_say_how_its_api_is_reached(keys: dict[str, object]) -> None:
    assert parse(**keys).has_access


def test_a_cluster_need_not_say_how_its_api_is_reached() -> None:
    assert not parse().has_access


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        pytest.param(
            {"kubeconfig": {"path": "kubeconfig"}},
            f".kubeconfig.path: {HIDDEN}; write an absolute path, or one that starts with ~/",
            id="a relative path",
        ),
        pytest.param(
            {"kubeconfig": "token: hunter2"},
            ".kubeconfig: is text; write {path: …}, {secret: {secure: …}} or {output: …}",
            id="bare text, which is not repeated",
        ),
        pytest.param(
            {"kubeconfig": {"file": "/x"}},
            f".kubeconfig: {HIDDEN}; write {{path: …, context: …}} or {{secret: …, context: …}} or {{output: …}}",
            id="an unknown form",
        ),
        pytest.param(
            {"kubeconfig": {"secret": 3}},
            f".kubeconfig.secret: {HIDDEN}; store the kubeconfig as a secret of the stack: {{secure: …}}",
            id="no text",
        ),
        pytest.param(
            {"endpoint": "34.1.1.1"},
            ".endpoint: requires certificate_authority; add certificate_authority",
            id="endpoint alone",
        ),
        pytest.param(
            {"certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"},
            ".certificate_authority: requires endpoint; add endpoint",
            id="authority alone",
        ),
        pytest.param(
            {
                "kubeconfig": {"path": "/x"},
                "endpoint": "34.1.1.1",
                "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
            },
            (
                ".endpoint: cannot be combined with kubeconfig; remove one of them\n"
                "clusters.lab.certificate_authority: cannot be combined with kubeconfig; remove one of them"
            ),
            id="both",
        ),
    ],
)
def test_half_an_address_or_two_are_refused(keys: dict[str, object], said: str) -> None:
    with pytest.raises(Rejected) as rejected:
        parse(**keys)

    assert str(rejected.value) == f"clusters.lab{said}"
