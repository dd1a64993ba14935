"""No regular expression takes more than linear time on other people's text."""

import ast
import base64
import gzip
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit.judging import judge_file
from gpupools.policies.policy_config import Config
from gpupools.providers import clouds
from gpupools.providers.aws.node_customization import group_customizations
from gpupools.readback.karpenter import providers_of
from tests.gpupools.ready import world
from tests.security.backtracking import is_slow
from tests.source_roots import FOLDERS, ROOT

METHODS = frozenset({"match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"})
WRAPPERS = {"pattern": 0, "text_of": 1}
"""Functions that match a whole text by the pattern in this argument."""

OWN_TEXT = frozenset(
    {
        ("karpenter.py", r"[^.]+$"),  # `name_parts`, of names in the catalogue
        ("plan/discovery.py", r"([^[]*)(\[\*?\]\.)?(.*)"),  # paths of our tables
        ("cli/stack_text.py", r"[:.]?\s+https://\S+"),  # descriptions of the schema
        ("providers/azure/karpenter.py", r"Standard_(?P<family>N[A-Z]*)\d+(?P<features>[a-z]*).*?(?P<version>_v\d+)?"),
    }
)
"""Patterns over gpupools' own text and data."""

COMPUTED = frozenset(
    {
        "check.py",  # `api_hosts`, which the test reads
        "cloudformation_template.py",  # names of ours
        "cluster.py",  # the region
        "cluster_api.py",  # `Machines.image` of the readers
        "discovery.py",  # forms in our tables of descriptions
        "existing_pools.py",  # WRAPPERS
        "explain.py",  # escaped words
        "identifiers.py",  # WRAPPERS
        "karpenter_provider.py",  # `name_parts` of the clouds, which the test reads
        "offers.py",  # escaped names of ours
        "package.py",  # names of ours
        "patterns.py",  # globs of the policy configuration; `fnmatch` writes atomic groups
        "pool_plan.py",  # escaped names of ours
        "same_cluster.py",  # `node_pattern` and `autoscaler_id`, which the test reads
    }
)
"""Files with patterns that are known only while the program runs."""


@cache
def sources() -> dict[str, tuple[str, ast.Module]]:
    """Return text and tree of each module that matches patterns, by its path below `gpupools`."""
    found = {}
    for folder in FOLDERS:
        root = ROOT / folder if folder == "gpupools" else ROOT / folder / "gpupools"
        for file in sorted(root.rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if "import re\n" in text or any(f" {each}(" in text for each in WRAPPERS):
                found[file.relative_to(root).as_posix()] = (text, ast.parse(text))
    return found


def calls() -> Iterator[tuple[str, ast.Call, str, int]]:
    """Yield each call with a pattern: its file, the method, and the argument with the pattern."""
    for file, (_, tree) in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WRAPPERS:
                yield file, node, "fullmatch", WRAPPERS[node.func.id]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in {f"re.{each}" for each in METHODS}:
                yield file, node, ast.unparse(node.func).removeprefix("re."), 0
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                yield file, node, "", 0


def methods(file: str, call: ast.Call) -> set[str]:
    """Return the methods with which a compiled pattern is used; those that find most if its name is not found."""
    name = next(
        (
            ast.unparse(getattr(node, "targets", [getattr(node, "target", None)])[0])
            for node in ast.walk(sources()[file][1])
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is call
        ),
        "",
    )
    places = [file] if name.startswith("_") else list(sources())
    uses = rf"(?:\b{name}\.({'|'.join(METHODS)})\b|\bre\.({'|'.join(METHODS)})\({name}\b)"
    found = {one or two for place in places for one, two in re.findall(uses, sources()[place][0])} if name else set()
    return found or {"search", "fullmatch"}


def patterns() -> tuple[list[tuple[str, re.Pattern[str], str]], set[str]]:
    """Return all patterns with file and method, and the files that have others."""
    found, computed = [], set[str]()
    for file, call, method, argument in calls():
        names = vars(import_module(f"gpupools.{file.removesuffix('.py').replace('/', '.')}"))
        flags = [
            each
            for each in (*call.args[1:], *(one.value for one in call.keywords))
            if ast.unparse(each).startswith(("re.DOT", "re.IGN", "re.MUL"))
        ]
        try:
            given: Any = eval(ast.unparse(call.args[argument]), dict(names))
        except NameError:
            computed.add(Path(file).name)
            continue
        flag = sum(eval(ast.unparse(each), dict(names)) for each in flags)
        compiled = given if isinstance(given, re.Pattern) else re.compile(given, flag)
        found += [(file, compiled, each) for each in ([method] if method else sorted(methods(file, call)))]
    return found, computed


def test_no_pattern_divides_a_text_between_repetitions_in_many_ways() -> None:
    found, computed = patterns()
    hosts = [("cluster.py", re.compile(each.cluster.api_hosts), "fullmatch") for each in clouds().values()]
    clusters = world.plan().stack.clusters.values()
    nodes = [("cluster.py", re.compile(each.node_pattern()), "match") for each in clusters]
    groups = [each.node_pools.autoscaler_id.format(cluster=r"[\w-]+", name="a") for each in clouds().values()]
    nodes += [("same_cluster.py", re.compile(each), "fullmatch") for each in groups]
    providers = [each for _, each in providers_of(clouds())]
    parts = [("karpenter.py", re.compile(text), "search") for each in providers for text in each.name_parts.values()]
    slow = {(file, each.pattern) for file, each, method in [*found, *hosts, *nodes, *parts] if is_slow(each, method)}

    assert len(found) > 200
    assert slow == OWN_TEXT
    assert computed <= COMPUTED


@pytest.mark.parametrize(
    ("pattern", "method", "slow"),
    [
        (r"(a*)*b", "match", True),
        (r"(?:ab?)*c", "match", False),
        (r"(?:a|a)*c", "match", True),
        (r"(?:a{1,3}b?)*c", "match", True),
        (r"\s*x?\s*y", "match", True),
        (r"\s*x\s*y", "match", False),
        (r"\s*+\s*y", "match", False),
        (r"(?:-[a-]+)*b", "match", True),
        (r"(?:-[a-]++)*b", "match", False),
        (r"a(?:-a)*", "finditer", False),
        (r"a(?:[ab]*c)?", "finditer", True),
        (r"a.*b.*c", "match", True),
        (r"a*a*", "match", False),
        (r"a*a*", "fullmatch", True),
        (r"a+(?:-a+)*", "fullmatch", False),
        (r"a+b", "search", True),
        (r"(?<!a)a+b", "search", False),
        (r"a+", "search", False),
        (r"a+$", "search", True),
        (r"^a+$", "search", False),
        (r"(?m)^ *\[", "search", False),
        (r"(?=a*b)a", "search", True),
        (r"'(?:[^'\\]|\\.)*'", "sub", True),
        (r"'[^']*'", "sub", False),
    ],
)
def test_slow_patterns_are_told_from_others(pattern: str, method: str, slow: bool) -> None:
    assert is_slow(re.compile(pattern), method) == slow


def plan(user_data: bytes, count: int) -> str:
    """Write a Terraform plan with launch templates."""
    after = {"user_data": base64.b64encode(gzip.compress(user_data)).decode(), "instance_type": "g5.xlarge"}
    resources = [
        {
            "address": f"aws_launch_template.x{i}",
            "mode": "managed",
            "type": "aws_launch_template",
            "name": f"x{i}",
            "change": {"actions": ["create"], "before": None, "after": after, "after_unknown": {}},
        }
        for i in range(count)
    ]
    return json.dumps({"format_version": "1.2", "terraform_version": "1.11.4", "resource_changes": resources})


def manifest(text: str) -> str:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [text]}
    spec = {"template": {"spec": {"requirements": [requirement]}}}
    nodes = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec}
    script = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"s.sh": f"NodePool {text}"}}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [nodes, script]})


def preview(text: str) -> str:
    urn = "urn:pulumi:d::p::x::y"
    return json.dumps({"steps": [{"op": "create", "urn": urn, "newState": {"urn": urn, "custom": True, "type": text}}]})


FILES: dict[str, Callable[[], str]] = {
    "user data": lambda: plan(b"#!/bin/bash\nkubelet '," + b" " * 480_000 + b"\n", 1),
    "user data of many": lambda: plan(b"#!/bin/bash\nkubelet '," + b" " * 240_000 + b"\n", 20),
    "openers": lambda: manifest("<<a " * 256_000),
    "braces": lambda: manifest("{" * 1_536_000),
    "a type": lambda: preview("_" * 480_000),
    "a type with a name": lambda: preview("a:b/" + "_" * 480_000 + ":c"),
}


@pytest.mark.parametrize("name", FILES)
def test_inputs_that_were_slow_take_less_than_two_seconds(name: str, tmp_path: Path) -> None:
    (file := tmp_path / "input.json").write_text(FILES[name](), encoding="utf-8")
    before = time.process_time()
    judge_file(file, Config())

    assert time.process_time() - before < 2


def test_a_provisioner_of_terraform_in_a_long_file_takes_less_than_two_seconds(tmp_path: Path) -> None:
    command = {"expressions": {"command": {"references": ["local.a"]}}, "type": "local-exec"}
    resource = {"address": "null_resource.x", "mode": "managed", "type": "null_resource", "name": "x"}
    change: dict[str, Any] = {"actions": ["create"], "before": None, "after": {}, "after_unknown": {}}
    written = {
        "format_version": "1.2",
        "terraform_version": "1.11.4",
        "resource_changes": [{**resource, "change": change}],
        "configuration": {"root_module": {"resources": [{**resource, "provisioners": [command]}]}},
    }
    (tmp_path / "plan.json").write_text(json.dumps(written), encoding="utf-8")
    blanks = 'resource "null_resource" "x" {\n provisioner "local-exec" {\n  command = <<E\n' + " " * 640_000
    (tmp_path / "main.tf").write_text(blanks, encoding="utf-8")
    before = time.process_time()
    judge_file(tmp_path / "plan.json", Config())

    assert time.process_time() - before < 2


def test_arguments_of_the_kubelet_take_less_than_two_seconds() -> None:
    before = time.process_time()
    (found,) = group_customizations({"kubeletExtraArgs": "--node-labels=a" * 50_000 + "!"})

    assert found.property == "kubeletExtraArgs"
    assert time.process_time() - before < 2
