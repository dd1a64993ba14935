"""Readers of other people's files take time in proportion to the file: four times as much, at most five times as long.

Processor time, with the garbage collector off, of the same reader in the same process; the best of a few tries counts.
"""

import gc
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit.judging import judge_file
from gpupools.cli.main import main
from gpupools.common.bounded_yaml import MAX_VALUES, parse_yaml
from gpupools.common.errors import Rejected
from gpupools.policies.declared_stack import MAX_OWNERS
from gpupools.policies.policy_config import Config
from gpupools.policies.software_conflicts import MAX_PAIRS
from gpupools.providers import clouds
from gpupools.readback.inputs import TaintsRead
from gpupools.readback.kubelet import configured
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack_validation import MOST_CLUSTERS
from tests.security.stacks import (
    CLUSTER,
    COMPONENT,
    DAEMON_SET,
    PROVIDER,
    TEMPLATE,
    clusters_of_their_own,
    daemon_set,
    inline_pools,
    machines,
    nested,
    node_group,
    objects,
    one_wide_template,
    resource,
    state,
    templates,
    urn,
)

measured = pytest.mark.slow


def several_lines(one: str, times: int) -> str:
    return "".join(one.replace("%d", str(number)) for number in range(times))


CLUSTERS = "config:\n  gpupools:clusters:\n"
CLUSTER_OF = (
    "    %s: {cloud: aws, name: %s, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d4e5f60718], "
    'node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes"}\n'
)
POOLS = CLUSTERS + CLUSTER_OF % ("train", "t") + "  gpupools:pools:\n"
POOL_OF = "    p%d: {clusters: [train], gpu: A100-40GB, gpus_per_node: 8, nodes: {max: 1}}\n"
STACK_FILES: dict[str, tuple[Callable[[int], str], int]] = {
    "pools": (lambda n: POOLS + several_lines(POOL_OF, n), 300),
    "one pool again": (lambda n: POOLS + POOL_OF % 1 * n, 300),
    # Of fewer, so little is wrong besides that less is looked for.
    "pools renamed from one": (lambda n: POOLS + several_lines(POOL_OF.replace("{", "{renamed_from: a, ", 1), n), 400),
    "wrong pools": (lambda n: POOLS + several_lines("    p%d: {clusters: [trian], gpu: A100-40BG}\n", n), 200),
    "unknown keys": (lambda n: POOLS + "    p:\n" + several_lines("      k%d: 1\n", n), 500),
    "clusters of a pool": (lambda n: POOLS + "    p: {clusters: [" + "train, " * n + "], gpu: A100-40GB}\n", 500),
    "unknown clusters": (lambda n: POOLS + several_lines("    p%d: {clusters: [c%d]}\n", n), 200),
    "clusters": (lambda n: CLUSTERS + "".join(CLUSTER_OF % (f"c{i}", f"t{i}") for i in range(n)), MOST_CLUSTERS + 1),
    "one cluster": (lambda n: CLUSTERS + "".join(CLUSTER_OF % (f"c{i}", "t") for i in range(n)), MOST_CLUSTERS + 1),
    "environments": (lambda n: "environment:\n" + "  - a\n" * n + POOLS + POOL_OF % 1, 2000),
    "brackets": (lambda n: POOLS + "    p: " + "[" * n, 30_000),
    "a number": (lambda n: POOLS + "    p: {clusters: [train], gpus_per_node: " + "1" * n + "}", 50_000),
    "a name": (lambda n: POOLS + "    " + "p" * n + ": {clusters: [train]}", 50_000),
}


def ratio(read: Callable[[int], Callable[[], Any]], size: int) -> float:
    """Return how many times longer four times the size takes, at its best; 0 for what takes no time to speak of."""
    best = float("inf")
    for _ in range(4):
        once, four = (min(seconds(read(times * size)) for _ in range(2)) for times in (1, 4))
        if four < 0.02:
            return 0
        best = min(best, four / max(once, 0.002))
        if best <= 5:
            break
    return best


def seconds(read: Callable[[], Any]) -> float:
    """Return how much processor time something takes."""
    before = time.process_time()
    read()
    return time.process_time() - before


@pytest.fixture
def collected_later() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@measured
@pytest.mark.usefixtures("collected_later")
@pytest.mark.parametrize("name", STACK_FILES)
def test_checking_a_stack_file_takes_time_in_proportion_to_it(name: str, tmp_path: Path) -> None:
    write, size = STACK_FILES[name]

    def check(n: int) -> Callable[[], Any]:
        file = tmp_path / f"{n}.yaml"
        file.write_text(write(n), encoding="utf-8")

        def read() -> None:
            with suppress(Rejected):
                check_stack_file(file, clouds())

        return read

    assert ratio(check, size) <= 5


@measured
@pytest.mark.usefixtures("collected_later")
def test_comparing_stack_files_takes_time_in_proportion_to_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def compared(n: int) -> Callable[[], Any]:
        old, new = tmp_path / f"old{n}.yaml", tmp_path / f"new{n}.yaml"
        old.write_text(POOLS + several_lines(POOL_OF, n), encoding="utf-8")
        new.write_text(old.read_text(encoding="utf-8").replace("max: 1", "max: 2"), encoding="utf-8")
        return lambda: main(["diff", str(old), str(new)])

    assert ratio(compared, 60) <= 5


@measured
@pytest.mark.usefixtures("collected_later")
def test_joining_launch_templates_of_a_stack_by_name_takes_time_in_proportion_to_it(tmp_path: Path) -> None:
    def judged(n: int) -> Callable[[], Any]:
        data = {"LaunchTemplateData": {"InstanceType": "m5.large"}}
        made: dict[str, Any] = {}
        for i in range(n):
            made[f"L{i}"] = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateName": f"l{i}", **data}}
            group = {"ClusterName": "c", "LaunchTemplate": {"Name": f"l{i}"}}
            made[f"G{i}"] = {"Type": "AWS::EKS::Nodegroup", "Properties": group}
        stack = resource("aws:cloudformation/stack:Stack", "s", {"templateBody": json.dumps({"Resources": made})})
        file = tmp_path / f"{n}.json"
        file.write_text(state([stack]), encoding="utf-8")
        return lambda: judge_file(file, Config())

    assert ratio(judged, 500) <= 5


def joined(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [resource(f"kubernetes:{each['apiVersion']}:{each['kind']}", f"o{i}", each) for i, each in enumerate(made)]


SCRIPT = "#!/bin/sh\n/etc/eks/bootstrap.sh x --kubelet-extra-args '--register-with-taints=a=b:NoSchedule"


def with_user_data(text: str) -> list[dict[str, Any]]:
    inputs = {"instanceType": "g6.xlarge", "userData": b64encode(text.encode()).decode()}
    group = {"launchTemplate": {"id": "lt-1"}, "amiType": "CUSTOM"}
    return [resource(TEMPLATE, "t", inputs, id="lt-1"), *(node_group(i, inputs=group) for i in range(20))]


WHOLE_STACKS: dict[str, tuple[Callable[[int], list[dict[str, Any]]], int]] = {
    "pools": (lambda n: [resource(CLUSTER, "c", {"name": "train"}), *(node_group(i) for i in range(n))], 75),
    "pools with a launch template": (templates, 40),
    "pools with one wide launch template": (one_wide_template, 75),
    "pools inside a cluster": (inline_pools, 50),
    "pools in components in components": (nested, 60),
    "clusters of their own": (clusters_of_their_own, 40),
    "objects of one name": (lambda n: [resource(DAEMON_SET, f"d{i}", daemon_set(0)) for i in range(n)], 120),
    "DaemonSets": (lambda n: [resource(DAEMON_SET, f"d{i}", daemon_set(i)) for i in range(n)], 120),
    "machines of one name": (lambda n: joined([each for i in range(n) for each in machines(i, "m")]), 25),
    "user data": (lambda n: with_user_data(SCRIPT + "'\n" + "x y\n" * n), 900),
    "blank lines in user data": (lambda n: with_user_data(SCRIPT + "'\n" + "\n" * n), 3900),
    "taints in user data": (lambda n: with_user_data(SCRIPT + ",a=b:NoSchedule" * n + "'"), 250),
    "documents in user data": (
        lambda n: with_user_data("apiVersion: node.eks.aws/v1alpha1\n" + "---\na: b\n" * n),
        400,
    ),
    "more user data than EC2 takes": (lambda n: with_user_data(SCRIPT + "'\n" + "#\n" * n), 25_000),
}
RESOURCES: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "taints": (
        lambda n: node_group(
            0, inputs={"taints": [{"key": f"k{i}", "value": "v", "effect": "NO_SCHEDULE"} for i in range(n)]}
        ),
        500,
    ),
    "instance types": (lambda n: node_group(0, inputs={"instanceTypes": ["g6.xlarge"] * n}), 1500),
    "pools of a cluster": (lambda n: inline_pools(n)[0], 50),
    "containers of a DaemonSet": (
        lambda n: resource(
            DAEMON_SET,
            "d",
            {**daemon_set(0), "spec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}] * n}}}},
        ),
        1000,
    ),
    "a long text": (lambda n: node_group(0, inputs={"amiType": "A" * n}), 200_000),
}


@measured
@pytest.mark.usefixtures("collected_later")
@pytest.mark.parametrize("name", [*WHOLE_STACKS, *RESOURCES])
def test_judging_a_stack_takes_time_in_proportion_to_it(name: str, tmp_path: Path) -> None:
    """The rules that a policy pack applies while `pulumi up` runs."""
    write, size = WHOLE_STACKS[name] if name in WHOLE_STACKS else RESOURCES[name]

    def judged(n: int) -> Callable[[], Any]:
        made = write(n)
        file = tmp_path / f"{n}.json"
        file.write_text(state(made if isinstance(made, list) else [made]), encoding="utf-8")
        return lambda: judge_file(file, Config())

    assert ratio(judged, size) <= 5


@measured
@pytest.mark.usefixtures("collected_later")
def test_reading_taints_of_a_kubelet_takes_time_in_proportion_to_them() -> None:
    def read(n: int) -> Callable[[], Any]:
        listed = [{"key": f"a{i}", "effect": "NoSchedule"} for i in range(n)]
        return lambda: configured(listed, "taints", TaintsRead())

    assert ratio(read, 3000) <= 5


def test_more_clusters_than_are_compared_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text(STACK_FILES["clusters"][0](MOST_CLUSTERS + 1), encoding="utf-8")
    with pytest.raises(Rejected) as refused:
        check_stack_file(file, clouds())

    said = f"clusters: has {MOST_CLUSTERS + 1} clusters, more than {MOST_CLUSTERS}; "
    assert any(str(problem).startswith(said) for problem in refused.value.problems)


@pytest.mark.parametrize(
    "given",
    [
        "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40)),
        "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)),
        "a: &a [*a]\n",
        pytest.param("[" * 190 + "1," * (MAX_VALUES // 3) + "]" * 190, marks=measured),
    ],
    ids=["merge keys", "aliases", "an alias to itself", "values far down"],
)
def test_what_aliases_bring_in_again_and_what_lies_far_down_is_counted(given: str) -> None:
    with pytest.raises(Rejected, match=f"more than {MAX_VALUES} values.*give JSON"):
        parse_yaml(given)


def said_of(file: Path, rule: str) -> list[str]:
    return [each.message for each in judge_file(file, Config()).found if each.rule.name == rule]


def test_of_many_that_bring_one_piece_each_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(objects(daemon_set(i) for i in range(4)), encoding="utf-8")
    third, *_, last = said_of(file, "gpu-software-one-owner")

    assert third.startswith(
        "nvidia/k8s-device-plugin (DaemonSet/d1) and nvidia/k8s-device-plugin (DaemonSet/d0) "
        "both install the device plugin on the same nodes; "
    )
    assert last.startswith(
        "nvidia/k8s-device-plugin (DaemonSet/d3) and nvidia/k8s-device-plugin (DaemonSet/d0) and 2 more "
        "all install the device plugin on the same nodes; "
    )


def test_more_kinds_of_software_than_are_compared_cannot_be_verified(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(objects(daemon_set(i, {"pool": f"p{i}"}) for i in range(400)), encoding="utf-8")

    (said,) = said_of(file, "gpu-software-one-owner")

    assert said.startswith(
        "whether a piece has two owners cannot be verified: the stack has 400 kinds of GPU software and as many others "
        f"in the same cluster, more than {MAX_PAIRS:,} pairs; split the stack, or use "
    )


def test_more_owners_of_a_machine_than_are_read_cannot_be_verified(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    first, *_ = machines(0, "m")
    owners = [each for i in range(MAX_OWNERS + 1) for each in machines(i, "m")[1:]]
    file.write_text(objects([first, *owners]), encoding="utf-8")
    (said,) = said_of(file, "gpu-pool-tainted")

    assert f"cannot be verified: bootstrap configuration of the owners after the first {MAX_OWNERS}" in said


def test_references_that_lead_round_in_a_circle_end(tmp_path: Path) -> None:
    file = tmp_path / "circle.json"
    circle = [resource(COMPONENT, f"c{i}", {}, parent=urn(COMPONENT, f"c{(i + 1) % 3}")) for i in range(3)]
    providers = [
        resource(PROVIDER, f"k{i}", {}, dependencies=[urn(PROVIDER, f"k{(i + 1) % 3}"), urn(CLUSTER, "c")])
        for i in range(3)
    ]
    group = node_group(0, parent=urn(COMPONENT, "c0"), propertyDependencies={"clusterName": [urn(CLUSTER, "c")]})
    plugin = resource(DAEMON_SET, "d", daemon_set(0), provider=f"{urn(PROVIDER, 'k1')}::id")
    file.write_text(state([*circle, *providers, group, plugin, {**plugin, "urn": f"{plugin['urn']}2"}]))

    assert len(said_of(file, "gpu-software-one-owner")) == 1
