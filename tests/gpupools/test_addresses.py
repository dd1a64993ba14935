"""Addresses in a stack file: a token is sent to one and a program run from another, so each must have its form."""

import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpupools.common.errors import Rejected
from gpupools.providers import clouds
from gpupools.ready.kubeconfig import Unreachable, read_context
from gpupools.spec.cluster_access import api_url
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.reader import is_in_checkout
from gpupools.stackfile.stack_validation import parse_cluster
from tests.rows import each_row


@each_row(
    "endpoint",
    [
        "http://10.0.0.2",
        "file:///etc/passwd",
        "https://someone:hunter2@10.0.0.2",
        "someone@10.0.0.2",
        "https://10.0.0.2?x=y",
        "https://10.0.0.2#y",
        "https://",
        "https:///x",
        "https://a..b",
        "https://-a",
        "https://a:port",
        "https://a:443443",
        "https://a\\@b",
        "https://a/%2e",
        "ftp://a",
        "unix:///var/run/docker.sock",
        "127.0.0.1 ",
        "https://bücher.example",
        "--server=x",
    ],
)
@each_row("cloud", clouds())
def test_an_endpoint_that_is_no_api_is_refused_without_being_repeated(cloud: str, endpoint: str) -> None:
    given = {
        **clouds()[cloud].example_cluster,
        "endpoint": endpoint,
        "certificate_authority": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
    }
    given.pop("kubeconfig", None)
    with pytest.raises(Rejected) as refused:
        parse_cluster(("clusters", "one"), given, clouds())

    assert [problem.key for problem in refused.value.problems] == ["clusters.one.endpoint"]
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("34.90.17.4", "https://34.90.17.4"),
        ("https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com", None),
        ("ml-dns-0a1b2c3d.hcp.westeurope.azmk8s.io:443", "https://ml-dns-0a1b2c3d.hcp.westeurope.azmk8s.io:443"),
        ("https://gke-0a1b2c3d4e5f-123456789012.europe-west4.gke.goog", None),
        ("https://[2001:db8::1]:6443", None),
        ("https://rancher.example.com/k8s/clusters/c-m-0a1b2c3d", None),
    ],
)
def test_the_address_of_an_api_becomes_a_url(endpoint: str, url: str | None) -> None:
    assert api_url(endpoint) == (url or endpoint)


@pytest.mark.parametrize(
    ("cloud", "key", "value"),
    [
        ("aws", "region", "../.."),
        ("aws", "region", "eu-central-1.evil.example"),
        ("aws", "region", "eu-central-1a"),
        ("aws", "region", "--endpoint-url=x"),
        ("aws", "name", "--endpoint-url=https://x"),
        ("aws", "name", "a/../b"),
        ("gcp", "location", "../.."),
        ("gcp", "location", "europe-west4/x"),
    ],
)
def test_a_place_that_is_none_is_refused(cloud: str, key: str, value: str) -> None:
    with pytest.raises(Rejected) as refused:
        parse_cluster(("clusters", "one"), {**clouds()[cloud].example_cluster, key: value}, clouds())

    assert [problem.key for problem in refused.value.problems] == [f"clusters.one.{key}"]


@pytest.mark.parametrize(
    "region",
    # one of each form in https://github.com/boto/botocore, botocore/data/partitions.json
    [
        "us-east-1",
        "ap-southeast-7",
        "us-gov-west-1",
        "us-iso-east-1",
        "us-isob-east-1",
        "cn-northwest-1",
        "il-central-1",
        "mx-central-1",
        "eusc-de-east-1",
        "eu-isoe-west-1",
    ],
)
def test_every_form_of_a_region_is_taken(region: str) -> None:
    role = {"stack": "acme/net/prod", "node_role_arn": {"output": "role"}}
    given = {**clouds()["aws"].example_cluster, **role, "region": region}
    cluster: Any = parse_cluster(("clusters", "one"), given, clouds())

    assert cluster.region == region


def test_botocore_knows_no_region_that_is_refused() -> None:
    botocore = pytest.importorskip("botocore.session")
    session = botocore.get_session()
    regions = [
        each for part in session.get_available_partitions() for each in session.get_available_regions("eks", part)
    ]

    assert len(regions) > 30
    for region in regions:
        test_every_form_of_a_region_is_taken(region)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of stack files in a checkout, with a home beside it."""
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "checkout" / ".git").mkdir(parents=True)
    (tmp_path / "checkout" / "infra" / "stacks").mkdir(parents=True)
    (tmp_path / "checkout" / "infra" / "Pulumi.yaml").touch()
    (tmp_path / "checkout" / "link").symlink_to(tmp_path / "home")
    (tmp_path / "home" / "back").symlink_to(tmp_path / "checkout")
    return tmp_path / "checkout" / "infra" / "stacks"


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("{top}/home/.kube/config", False),
        ("~/.kube/config", False),
        ("{top}/checkout/link/.kube/config", False),
        ("{top}/checkout-two/config", False),
        ("{top}/checkout/kubeconfig", True),
        ("{top}/checkout/infra/kubeconfig", True),
        ("{top}/checkout/infra/stacks/kubeconfig", True),
        ("{top}/home/../checkout/kubeconfig", True),
        ("~/back/kubeconfig", True),
        ("~nobody-of-that-name/kubeconfig", True),
    ],
)
def test_a_kubeconfig_is_inside_the_checkout_or_not(path: str, inside: bool, checkout: Path, tmp_path: Path) -> None:
    assert is_in_checkout(path.format(top=tmp_path), checkout) is inside


def test_a_home_that_is_a_repository_is_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = pwd.struct_passwd(("a", "x", 1, 1, "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: account)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "pools").mkdir()

    assert not is_in_checkout("~/.kube/config", tmp_path / "pools")
    assert is_in_checkout("~/pools/config", tmp_path / "pools")


@pytest.mark.parametrize("folder", ["checkout", "checkout/infra/stacks"])
def test_a_checkout_that_is_home_of_a_job_stays_a_checkout(
    folder: str, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "checkout"))
    kube = tmp_path / "checkout" / ".kube" / "config"
    kube.parent.mkdir()
    kube.write_text("{}")

    assert is_in_checkout("~/.kube/config", tmp_path / folder)
    with pytest.raises(Unreachable, match="is inside the checkout"):
        read_context(kube, None, tmp_path / folder)


NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
needs_mounts = pytest.mark.skipif(
    not shutil.which("unshare")
    or bool(subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True).returncode),
    reason="mounts a folder at a second place",
)


@needs_mounts
@pytest.mark.parametrize("mounted", ["checkout", "checkout/infra", "checkout/infra/stacks"])
def test_a_checkout_that_is_mounted_at_a_second_place_is_the_same(mounted: str, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    program = (
        "import sys; from pathlib import Path; from gpupools.stackfile.reader import is_in_checkout\n"
        "print(is_in_checkout(sys.argv[1], Path(sys.argv[2])))"
    )
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    words = (tmp_path / mounted, tmp_path / "second", sys.executable, "-c", program)
    command = [*NAMESPACE, "sh", "-c", script, "sh", *map(str, (*words, tmp_path / "second" / "kube", checkout))]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "True\n"


def test_check_refuses_a_kubeconfig_that_the_checkout_brings(checkout: Path) -> None:
    file = checkout / "Pulumi.dev.yaml"
    file.write_text(
        "config:\n  gpupools:clusters:\n    lab:\n      cloud: gcp\n      name: lab\n      project: example\n"
        "      location: europe-west4\n      service_account: gpu@example.iam.gserviceaccount.com\n"
        f"      kubeconfig: {{path: {checkout}/kubeconfig}}\n"
        "  gpupools:pools:\n    one: {clusters: [lab], gpu: L4, nodes: {max: 3}}\n"
    )
    with pytest.raises(Rejected) as refused:
        check_stack_file(file, clouds())

    assert "clusters.lab.kubeconfig.path" in str(refused.value)
    assert "is inside the checkout" in str(refused.value)
