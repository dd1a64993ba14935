"""Readers of other people's files take time in proportion to the file: four times as much, at most five times as long.

Processor time, with the garbage collector off, of the same reader in the same process; the best of a few tries counts.
"""

import gc
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupools.bounded_yaml import MAX_VALUES, parse_yaml
from gpupools.errors import Rejected
from policies.documents.judging import Config, judge_file
from providers.aws.boot import MOST_USER_DATA
from providers.aws.user_data import read_user_data

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec: {template: {spec: {requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}]}}}
"""
LIST = "apiVersion: v1\nkind: List\nitems:\n"
ITEM = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a%d}}"


def several(one: str, times: int) -> str:
    return "---\n".join(one % number if "%" in one else one for number in range(times))


FILES: dict[str, tuple[Callable[[int], str], int]] = {
    "objects of one name": (lambda n: several(CONFIG_MAP.replace("%s", "same"), n), 500),
    "pools of one name": (lambda n: several(POOL.replace("%s", "same"), n), 100),
    "pools": (lambda n: several(POOL.replace("%s", "p%d"), n), 100),
    "items of a list": (lambda n: LIST + "".join(f"- {ITEM % i}\n" for i in range(n)), 500),
    "lists of a list": (
        lambda n: LIST + "".join(f"- {{apiVersion: v1, kind: List, items: [{ITEM % i}]}}\n" for i in range(n)),
        300,
    ),
    "items of a list in JSON": (
        lambda n: json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"a{i}"}} for i in range(n)],
            },
            indent=1,
        ),
        1000,
    ),
    "JSON values one after the other": (lambda n: '{"apiVersion":"v1","kind":"ConfigMap"}\n' * n, 500),
    "JSON text without an end": (lambda n: '["' + '\\"' * n, 30_000),
    "JSON names without an end": (lambda n: '["' + '"name": "\\' * n, 10_000),
    "brackets": (lambda n: "[]" * n, 30_000),
    "quotes": (lambda n: '{"a": ' + '"x' * n, 30_000),
    "YAML text without an end": (lambda n: 'a: "' + "x\n" * n, 30_000),
    "comments": (lambda n: "#\n" * n + "a: 1", 30_000),
    "keys": (lambda n: "".join(f"a{i}: 1\n" for i in range(n)), 3000),
    "a number to base 60": (lambda n: "a: 1" + ":1" * n, 30_000),
    "a number": (lambda n: "a: " + "1" * n, 100_000),
    "a block": (lambda n: "a: |\n" + " x\n" * n, 30_000),
}
USER_DATA: dict[str, tuple[Callable[[int], str], int]] = {
    "blank lines": (lambda n: "nodeadm init\n" + "\n" * n, 4000),
    "blanks": (lambda n: "nodeadm init\n" + " " * n, 4000),
    "lines of tabs": (lambda n: "settings\n" + "\t\n" * n, 2000),
    "brackets": (lambda n: "settings\n" + "[" * n, 4000),
    "quotes": (lambda n: "bootstrap.sh x\n" + "'" * n, 4000),
    "taints": (lambda n: "bootstrap.sh x --register-with-taints=" + "a=b:NoSchedule," * n, 250),
    "arguments": (lambda n: "bootstrap.sh x " + '--register-with-taints="' * n, 150),
    "kubeadm": (lambda n: "kubeadm" + " " * n, 4000),
    "values in brackets": (lambda n: "apiVersion: node.eks.aws/v1alpha1\nspec: " + "[" * n, 4000),
    "a number to base 60": (lambda n: "apiVersion: node.eks.aws/v1alpha1\nspec: 1" + ":1" * n, 2000),
    "documents": (lambda n: "apiVersion: node.eks.aws/v1alpha1\n" + "---\na: b\n" * n, 400),
    "parts": (
        lambda n: (
            "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n"
            + "--B\nContent-Type: text/x-shellscript\n\nkubelet\n" * n
            + "--B--\n"
        ),
        80,
    ),
    "settings": (lambda n: "[settings.kubernetes]\n" + "".join(f"a{i}=1\n" for i in range(n)), 400),
    "parts of a key": (lambda n: "[settings.kubernetes]\na" + ".a" * n + "=1", 1900),
}


@pytest.fixture
def collected_later() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def seconds(read: Callable[[], Any]) -> float:
    before = time.process_time()
    read()
    return time.process_time() - before


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


@pytest.mark.usefixtures("collected_later")
@pytest.mark.parametrize("name", FILES)
def test_judging_a_file_takes_time_in_proportion_to_it(name: str, tmp_path: Path) -> None:
    write, size = FILES[name]

    def judge(n: int) -> Callable[[], Any]:
        file = tmp_path / f"{n}.yaml"
        file.write_text(write(n), encoding="utf-8")
        return lambda: judge_file(file, Config())

    assert ratio(judge, size) <= 5


@pytest.mark.usefixtures("collected_later")
@pytest.mark.parametrize("name", USER_DATA)
def test_reading_user_data_takes_time_in_proportion_to_it(name: str) -> None:
    write, size = USER_DATA[name]

    def read(n: int) -> Callable[[], Any]:
        return lambda: read_user_data(write(n))

    assert ratio(read, size) <= 5


@pytest.mark.parametrize(
    "given",
    [
        "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40)),
        "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]\n" for i in range(1, 40)),
        "a: &a [*a]\n",
    ],
    ids=["merge keys", "aliases", "an alias to itself"],
)
def test_what_aliases_bring_in_again_is_counted(given: str) -> None:
    with pytest.raises(Rejected, match=f"more than {MAX_VALUES} values"):
        parse_yaml(given)


@pytest.mark.parametrize(
    "given",
    [
        "bootstrap.sh x\n" + "#" * MOST_USER_DATA,
        "kubelet\n" * 100_000,
        "MIME-Version: 1.0\n"
        + "".join(f"Content-Type: multipart/mixed; boundary=B{i}\n\n--B{i}\n" for i in range(300))
        + "kubelet",
    ],
    ids=["more than EC2 takes", "much more", "parts inside parts"],
)
def test_user_data_beyond_the_limits_cannot_be_verified(given: str) -> None:
    found = read_user_data(given)

    assert (found.joins, found.taints, found.unknown) == (True, (), ("userData",))


def test_user_data_of_the_size_that_ec2_takes_is_read() -> None:
    text = "bootstrap.sh x --kubelet-extra-args '--register-with-taints=a=b:NoSchedule'\n"
    found = read_user_data(text + "#" * (MOST_USER_DATA - len(text)))

    assert [str(taint) for taint in found.taints] == ["a=b:NoSchedule"]
