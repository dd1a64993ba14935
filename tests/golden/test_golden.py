"""What is planned and declared of the stack files in this folder, compared with the file `.expected` beside each.

The first line of a stack file says what it is for. After an intended change, regenerate the expected files and read
the difference:

    GPUPOOLS_WRITE_GOLDEN=1 python -m pytest tests/golden
"""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime import rpc

from gpupools.common.errors import Rejected
from gpupools.plan.capability import Verdict
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.preview.command import PROGRAM
from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.program_run import preview_program
from gpupools.providers import clouds
from gpupools.spec.models import PoolSpec
from gpupools.stackfile.check import CheckedFile, check_stack_file
from gpupools.stackfile.stack import plan_config, planned
from tests.compact_yaml import compact_yaml
from tests.declared_pools import stack
from tests.program_faults import faults
from tests.test_settings import CASES, CLUSTERS, pair, setting

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.yaml"))
PLANNED = ("software", "capacity", "node_resources", "customised")
"""Of the plan of a pool; machine, taints, labels and the rest are in what is declared."""
WHY = ("verdict", "why")
"""The same, in stack files about how GPUs are shared and what software they have."""
ABOUT_SOFTWARE = ("external", "fractions", "mig", "network", "runtime", "sharing", "software")
ABOUT_OPTIONS = ("access", "adopted", "names", "production", "upgrades")
FOLLOWS = {"provider", "providers", "propertyDependencies", "dependsOn", "version", "pluginDownloadURL", "aliases"}
FOLLOWS |= {"replaceOnChanges"}
"""Options that tests of the edit tables, `tests/urns.txt` and the SDK have."""
LONGEST = 400
"""Characters of a text that is written down whole; of a longer one stands the first line."""


@cache
def checked(file: Path) -> CheckedFile | Rejected:
    try:
        return check_stack_file(file, clouds())
    except Rejected as rejected:
        return rejected


def found(file: Path) -> dict[str, Any]:
    """Return what comes of a stack file, in plain values."""
    result = checked(file)
    assert isinstance(result, Rejected) is (file.stem == "refused"), result
    if isinstance(result, Rejected):
        return {"refused": [f"{problem.key}: {problem.what}; {problem.fix}" for problem in result.problems]}
    config = {**result.file.others, **{f"gpupools:{key}": value for key, value in result.file.config.items()}}
    with planned(result.plan, result.file.config, clouds(), result.file.others):
        preview = preview_program(PROGRAM, result.file.stack, "gpupools", config)
    assert preview.problems == []
    assert list(faults(preview.resources)) == []
    owners = {each.urn: each.name for each in preview.resources if each.type == "gpupools:index:GpuNodePool"}
    inside: dict[str, dict[str, Any]] = {}
    for each in sorted(preview.resources, key=lambda each: (of_kubernetes(each), each.urn)):
        pool = owners.get(each.parent or "", "")
        kind, name, what = in_pool(each, pool) if pool else (each.type, each.name, declared(each))
        if file.stem not in ABOUT_OPTIONS:
            what.pop("options", None)
        if what and written_down(each, file.stem):
            inside.setdefault(kind, {}).setdefault(name, {}).update(what)
    keys = (*PLANNED, *WHY) if file.stem in ABOUT_SOFTWARE else PLANNED
    plans = {
        f"{pool.cluster}-{pool.name}": {key: value for key, value in pool.as_json().items() if key in keys and value}
        for pool in result.plan.pools
    }
    answer = {
        "planned": alike_once(plans),
        "notes": [note for each in result.plan.runtimes for note in each.notes if file.stem in ABOUT_SOFTWARE],
        "declared": {kind: alike_once(each) for kind, each in inside.items()},
        "software": sorted(each.name for each in preview.resources if of_kubernetes(each)),
    }
    return {key: value for key, value in answer.items() if value}


def of_kubernetes(resource: DeclaredResource) -> bool:
    return resource.type.startswith("kubernetes:")


def written_down(resource: DeclaredResource, topic: str) -> bool:
    """Tell whether a resource is a pool's, or one of those that stack files of a topic are about."""
    if resource.type == "aws:autoscaling/tag:Tag":
        return topic in ("names", "network")
    if of_kubernetes(resource):
        return topic == "runtime" or (topic in ("mig", "sharing") and resource.type.endswith(":ConfigMap"))
    return topic == "access" or not resource.type.startswith("pulumi:providers:")


def in_pool(resource: DeclaredResource, pool: str) -> tuple[str, str, dict[str, Any]]:
    """Return what is declared with `<pool>` and `<key>` for the pool's own, and all tags for the autoscaler as one."""
    key = pool.partition("-")[2]
    text = json.dumps(declared(resource), default=str).replace(pool, "<pool>").replace(f': "{key}"', ': "<key>"')
    inputs: dict[str, Any] = json.loads(text)
    if resource.type == "aws:autoscaling/tag:Tag":
        tag = inputs["tag"]["key"].removeprefix("k8s.io/cluster-autoscaler/node-template/")
        return resource.type, pool, {tag: inputs["tag"]["value"]}
    return resource.type, pool, inputs


def alike_once(named: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Write what is the same in each of several once."""
    if len(named) == 1:
        return named
    same, rest = shared(named)
    return {key: each for key, each in {"each": same, **rest}.items() if each}


def shared(named: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Take apart what several have in common, map by map."""
    same: dict[str, Any] = {}
    rest: dict[str, dict[str, Any]] = {name: {} for name in named}
    for key in dict.fromkeys(key for each in named.values() for key in each):
        values = {name: each[key] for name, each in named.items() if key in each}
        if len(values) == len(named) and all(isinstance(value, dict) and value for value in values.values()):
            inner, left = shared(values)
            same |= {key: inner} if inner else {}
            values = {name: value for name, value in left.items() if value}
        elif len(values) == len(named) and all(value == values[next(iter(values))] for value in values.values()):
            same[key] = values[next(iter(values))]
            continue
        for name, value in values.items():
            rest[name][key] = value
    return same, rest


def declared(resource: DeclaredResource) -> dict[str, Any]:
    options = {key: value for key, value in resource.options.items() if key not in FOLLOWS}
    inputs = resource.inputs if resource.custom else {}
    found: dict[str, Any] = shortened({**inputs, **({"options": options} if options else {})})
    return found


def in_clear(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


def shortened(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): shortened(in_clear(item) if key == "userData" else item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(item) for item in value]
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value.splitlines()[0][:LONGEST]} ... ({len(value)} characters)"
    return value


def written(value: Mapping[str, Any]) -> str:
    return compact_yaml(json.loads(json.dumps(value, default=str).replace(rpc.UNKNOWN, "<unknown>")))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_what_comes_of_a_stack_file_is_what_was_expected(file: Path) -> None:
    expected, text = file.with_suffix(".expected"), written(found(file))
    if os.environ.get("GPUPOOLS_WRITE_GOLDEN"):
        expected.write_text(text, encoding="utf-8")

    assert text.splitlines() == expected.read_text(encoding="utf-8").splitlines()


def results(cloud: str) -> list[CheckedFile]:
    found = [checked(file) for file in FILES if file.parent.name == cloud]
    return [each for each in found if not isinstance(each, Rejected)]


@pytest.mark.parametrize("cloud", sorted(clouds()))
def test_every_choice_of_a_cloud_is_made_in_more_than_one_way(cloud: str) -> None:
    cases = [pool for name in CASES if setting(cloud, name).supported for pool in pair(cloud, name)]
    plans = [plan_config(stack(CLUSTERS[cloud], pool), clouds()) for pool in cases if not pool.get("startup_taint")]
    pools = [pool for plan in (*plans, *(result.plan for result in results(cloud))) for pool in plan.pools]
    own = [vars(pool.provider_plan) for pool in pools]
    ways = {key: {str(each[key]) for each in own} for key in own[0]}
    works = {key for key, cell in clouds()[cloud].capabilities.items() if cell.verdict is not Verdict.REFUSED}

    assert {name for name, values in ways.items() if len(values) < 2} <= {each.name for each in fields(ProviderPlan)}
    assert {pool.software for pool in pools} == {software for software, _ in works}
    assert {pool.as_json()["sharing_kind"] for pool in pools} == {kind for _, kind in works}


@pytest.mark.parametrize(
    ("cloud", "never"), [("aws", {"driver"}), ("azure", {"auto_repair", "driver"}), ("gcp", set())]
)
def test_every_field_of_a_pool_is_given(cloud: str, never: set[str]) -> None:
    pools = [pool for result in results(cloud) for pool in result.plan.stack.pools.values()]
    given = {key for pool in pools for key in pool.model_fields_set}

    assert set(PoolSpec.model_fields) - given == never


def test_every_stack_file_says_what_it_is_for() -> None:
    assert [file for file in FILES if not file.read_text(encoding="utf-8").startswith("# ")] == []
    assert len(FILES) <= 3 * 40
    assert {file.with_suffix(".expected") for file in FILES} == set(HERE.glob("*/*.expected"))
