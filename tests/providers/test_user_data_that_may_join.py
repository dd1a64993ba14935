"""What user data joins a cluster with, or may join it with, through other tools and through what it fetches."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.providers.aws.user_data import UserData, read_user_data

JOINS = {
    "curl -sSf https://get.k0s.sh | sh\nk0s install worker --token-file /t": "k0s",
    "snap install microk8s --classic\nmicrok8s join 10.0.0.1:25000/abc --worker": "MicroK8s",
    "docker run -d rancher/rancher-agent:v2.8 \\\n --server https://x --worker": "Rancher's agent of RKE",
    "curl -fL https://x/system-agent-install.sh | sudo sh -s - --server https://x --worker": "Rancher's agent of RKE2",
}
SET_ELSEWHERE = [
    "NODEUP_URL=https://x ./nodeup --conf=/opt/kops/conf",
    "./nodeup --install-systemd-unit --conf=/opt/kops/conf",
    "/usr/bin/kubelet --kubeconfig=/k --bootstrap-kubeconfig=/b",
]
MAY = [
    "curl -fsSL https://example.com/join.sh -o /tmp/j.sh\nbash /tmp/j.sh",
    "wget https://example.com/k8s/boot.sh?a=b && chmod +x boot.sh && ./boot.sh",
    "curl -LO https://example.com/boot\nsudo bash ./boot --cluster a",
    "aws s3 cp s3://b/join.sh /tmp/j.sh && bash -x /tmp/j.sh",
    "U=https://x/j.sh\nwget -qO- $U | sh",
    'curl -s "$URL" | bash',
    'curl -o /tmp/boot "$URL"\nbash /tmp/boot',
]
NOT = [
    "echo ECS_CLUSTER=lab >> /etc/ecs/ecs.config",
    "ECS_CLUSTER=lab\ncurl -o /tmp/agent.sh https://example.com/agent.sh; bash /tmp/agent.sh",
    "snap install microk8s --classic",
    "k0s status",
    "curl -L $DRIVER > /tmp/driver.run\n/tmp/driver.run --silent",
    "systemctl restart kubelet",
    "curl -o get_helm.sh https://raw.githubusercontent.com/helm/helm/main/scripts/get-helm-3\nbash get_helm.sh",
    "curl -LO https://example.com/cluster.tar.gz\ntar xf cluster.tar.gz",
    "curl -LO https://dl.k8s.io/v1.34.0/bin/linux/amd64/kubectl\nchmod +x kubectl\n./kubectl version",
    "INSTALLER=https://x/install.sh\ncurl -s $INSTALLER | sh",
    "curl -H 'X-Token: $TOKEN' https://example.com/driver.sh | sh",
]
TALOS = "version: v1alpha1\nmachine:\n  type: {}\n  token: x\n{}cluster: {{}}\n"
TAINT = "nvidia.com/gpu=present:NoSchedule"


def script(text: str) -> UserData:
    return read_user_data(f"#!/bin/bash\n{text}\n", "mine")


@pytest.mark.parametrize("text", JOINS, ids=JOINS.get)
def test_other_agents_join_with_their_taints(text: str) -> None:
    bare = script(text)
    assert (bare.joins, bare.self_managed, bare.taints, bare.unknown) == (True, True, (), ())
    if "microk8s" not in text:
        assert [str(one) for one in script(f"{text} --taints {TAINT}").taints] == [TAINT]
        assert script(f"{text} --taints=$TAINT").unknown == ("mine",)


@pytest.mark.parametrize(("texts", "joins"), [(SET_ELSEWHERE, True), (MAY, False)], ids=["joins", "may join"])
def test_what_is_set_elsewhere_or_fetched_is_open(texts: list[str], joins: bool) -> None:
    for text in texts:
        found = script(text)
        assert (found.joins, found.may_join, found.opaque) == (joins, not joins, True), text
        assert found.unknown == (("mine",) if joins else ()), text


def test_what_says_of_no_cluster_says_nothing() -> None:
    assert {text: script(text) for text in NOT} == dict.fromkeys(NOT, UserData())


@cache
def table(name: str = "user_data_fetched.yaml") -> dict[str, list[str]]:
    given: Any = yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return dict(given)


@pytest.mark.parametrize(("said", "may_join"), [("may join", True), ("joins nothing", False)])
def test_what_is_fetched_and_run_may_join_where_a_word_says_of_a_cluster(said: str, may_join: bool) -> None:
    read = {text: read_user_data(text) for text in table()[said]}

    assert {text: (found.joins, found.may_join, found.opaque) for text, found in read.items()} == dict.fromkeys(
        table()[said], (False, may_join, may_join)
    )


_FORMS = ("#", "<", "{", "[", "MIME-Version:", "variant:", "version:", "settings", "apiVersion:")


@pytest.mark.parametrize("name", ["forms", "words"])
@pytest.mark.parametrize("said", ["joins", "may join", "joins nothing"])
def test_user_data_of_any_form_says_whether_it_joins(said: str, name: str) -> None:
    rows = table(f"user_data_{name}.yaml")[said]
    read = [read_user_data(row if row.startswith(_FORMS) else f"#!/bin/bash\n{row}") for row in rows]

    told = ["joins" if one.joins else "may join" if one.may_join or one.opaque else "joins nothing" for one in read]

    assert dict(zip(rows, told, strict=True)) == dict.fromkeys(rows, said)


def test_more_runs_than_are_looked_at_may_join() -> None:
    runs = "wget -O /tmp/a https://example.com/a\n" + "sh /tmp/a\n" * 199

    assert not script(runs).may_join
    assert script(f"{runs}sh /tmp/a\n").may_join


@pytest.mark.parametrize(
    "key", ["ansible: {pull: {url: a}}", "puppet: {conf: {}}", "chef: {a: b}", "salt_minion: {a: b}"]
)
def test_what_a_machine_is_configured_by_may_make_it_a_node(key: str) -> None:
    filled = key.replace("{}", "{agent: {server: x}}")
    assert read_user_data(f"#cloud-config\n{filled}\n").may_join
    assert not read_user_data("#cloud-config\nansible: {install_method: pip}\n").may_join


@pytest.mark.parametrize(
    ("kind", "more", "joins", "taints"),
    [
        ("worker", "", True, []),
        ("controlplane", "", False, []),
        ("worker", "  nodeTaints: {nvidia.com/gpu: present:NoSchedule}\n", True, [TAINT]),
        ("worker", f"  kubelet: {{extraArgs: {{register-with-taints: '{TAINT}'}}}}\n", True, [TAINT]),
    ],
)
def test_a_worker_of_talos_joins_with_its_taints(kind: str, more: str, joins: bool, taints: list[str]) -> None:
    found = read_user_data(TALOS.format(kind, more))
    assert (found.joins, [str(one) for one in found.taints]) == (joins, taints)


@pytest.mark.parametrize(
    "text",
    [
        f"#cloud-config\nk3s-agent: {{enabled: true, args: ['--node-taint={TAINT}']}}\n",
        f"#cloud-config\nk3os: {{server_url: 'https://x', taints: ['{TAINT}']}}\n",
        f"#!/bin/bash\nC=(kubeadm join)\n${{C[@]}} x; echo --register-with-taints={TAINT} > /etc/default/kubelet\n",
        f"#!/bin/bash\nk0s 'worker' --taints={TAINT}\n",
    ],
)
def test_what_joins_in_other_words_has_its_taints(text: str) -> None:
    found = read_user_data(text, "mine")
    assert (found.joins, [str(one) for one in found.taints], found.unknown) == (True, [TAINT], ())
    bare = read_user_data(text.replace(TAINT, "$TAINT"), "mine")
    assert (bare.joins, bare.taints, bare.unknown) == (True, (), ("mine",))


def test_bottlerocket_may_be_told_its_cluster_by_a_command() -> None:
    told = '[settings.bootstrap-commands.a]\ncommands = [["apiclient", "set", "{}=x"]]\nmode = "always"\n'
    found = read_user_data(told.format("kubernetes.cluster-name"), "mine")
    assert (found.joins, found.unknown) == (True, ("mine",))
    assert not read_user_data(told.format("motd"), "mine").joins
