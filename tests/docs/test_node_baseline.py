"""Every row of the node baseline: a pool is emitted so, and the named rule finds it turned off, at that level."""

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import struct_pb2

from gpupools.policies.finding import steps
from gpupools.preview.monitor import DeclaredResource
from gpupools.providers import clouds
from tests.declared_pools import DeclaredPools, declare, stack
from tests.policies.pack_process import PolicyPackProcess, StackResource

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("dev", "prod")
ASKED: Mapping[str, Mapping[str, Any]] = {
    "encryption_at_host": {"encryption_at_host": True},
    "ssh_access": {"ssh_access": "Disabled"},
}
NOTHING = object()


@dataclass(frozen=True)
class Row:
    type: str
    what: str
    path: str
    emitted: Any
    off: Any
    rule: str
    levels: tuple[str, str]

    @property
    def setting(self) -> str:
        """The key of the cluster that asks for it; empty where every pool is emitted so."""
        found = re.search(r"with `(\w+): ", self.what)
        return found[1] if found else ""


def rows() -> Iterator[Row]:
    kind = ""
    for line in (ROOT / "docs" / "reference" / "node-baseline.md").read_text(encoding="utf-8").splitlines():
        if named := re.search(r"`([\w-]+:[\w/]+:\w+)`", line):
            kind = named[1]
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 7 and cells[0] not in ("What", "---"):
            what, path, emitted, off, rule, *levels = cells
            if rule == "none":  # no input of the pool has it
                continue
            yield Row(kind, what, path.strip("`"), _value(emitted), _value(off), rule, (levels[0], levels[1]))


def _value(cell: str) -> Any:
    return cell if cell == "an output" else NOTHING if cell == "unset" else json.loads(cell.strip("`"))


ROWS = tuple(rows())


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> DeclaredPools:
    """Declare a pool of nothing but a GPU and a size on each cloud, and one for each setting of AKS's cluster."""
    stacks = {}
    for name, cloud in clouds().items():
        cluster = {"cloud": name, **cloud.example_cluster}
        for key, asked in {name: {}, **(ASKED if name == "azure" else {})}.items():
            stacks[key] = stack({**cluster, **asked}, {"gpu": "T4", "nodes": {"max": 2}})
    return declare(stacks, tmp_path_factory.mktemp("baseline") / "program")


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def pack(request: pytest.FixtureRequest) -> Iterator[tuple[str, PolicyPackProcess]]:
    config = json.loads((ROOT / "policies" / f"policy-config.{request.param}.json").read_text(encoding="utf-8"))
    with PolicyPackProcess(config=config) as running:
        yield request.param, running


def resources_of(row: Row, declared: DeclaredPools) -> tuple[DeclaredResource, ...]:
    key = row.setting or next(
        key for key, made in declared.pools.items() if any(row.type == each.type for each in made)
    )
    return declared.pools[key]


def one(row: Row, declared: DeclaredPools) -> DeclaredResource:
    (found,) = (each for each in resources_of(row, declared) if each.type == row.type)
    return found


def at(inputs: Any, path: str) -> Any:
    for step in steps(path):
        inputs = (
            inputs.get(step, NOTHING)
            if isinstance(inputs, Mapping)
            else inputs[step]
            if inputs is not NOTHING
            else NOTHING
        )
    return inputs


def turned_off(inputs: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = deepcopy(dict(inputs))
    *above, last = steps(path)
    inner: Any = changed
    for step in above:
        inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner[step]
    if value is NOTHING:
        del inner[last]
    else:
        inner[last] = value
    return changed


def judged(
    pack: PolicyPackProcess, made: tuple[DeclaredResource, ...], off: Mapping[str, Any], type_: str
) -> dict[str, str]:
    """Return the policies that find something, with their level, of a pool's resources of which one is as in `off`."""
    found: dict[str, str] = {}
    whole: list[StackResource] = []
    for each in made:
        properties = struct_pb2.Struct()
        properties.update(off if each.type == type_ else dict(each.inputs))
        found |= {said.policy: said.level for said in pack.analyze(each.urn, each.type, each.name, properties)}
        template = [other.urn for other in made if other.type == "aws:ec2/launchTemplate:LaunchTemplate"]
        leaning = template if each.type == "aws:eks/nodeGroup:NodeGroup" else []
        needs = {"launchTemplate": leaning} if leaning else {}
        whole.append(
            StackResource(
                urn=each.urn,
                type=each.type,
                name=each.name,
                properties=properties,
                dependencies=tuple(leaning),
                property_dependencies=needs,
            )
        )
    return found | {said.policy: said.level for said in pack.analyze_stack(whole)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.type.rpartition(':')[2]}-{row.path}")
def test_a_pool_is_emitted_as_the_page_says(row: Row, declared: DeclaredPools) -> None:
    emitted = at(one(row, declared).inputs, row.path)

    if row.emitted == "an output":
        assert emitted not in (NOTHING, None, "")
    else:
        assert emitted == row.emitted


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.type.rpartition(':')[2]}-{row.path}")
def test_the_rule_finds_it_turned_off(row: Row, declared: DeclaredPools, pack: tuple[str, PolicyPackProcess]) -> None:
    environment, running = pack
    made = resources_of(row, declared)
    as_is = judged(running, made, one(row, declared).inputs, row.type)
    path = "launchTemplate" if row.path.startswith("launchTemplate.") else row.path
    off = judged(running, made, turned_off(one(row, declared).inputs, path, row.off), row.type)

    assert off.get(row.rule) == row.levels[ENVIRONMENTS.index(environment)]
    # The other setting of the cluster is off in a pool that is there for the first.
    assert row.rule not in as_is or (row.type.startswith("azure") and row.rule == "gpu-node-hardening-advised")


@pytest.mark.parametrize("setting", ASKED)
def test_a_setting_of_the_cluster_ends_its_finding(setting: str, declared: DeclaredPools) -> None:
    (row,) = (each for each in ROWS if each.setting == setting)
    properties = {key: struct_pb2.Struct() for key in (setting, "azure")}
    with PolicyPackProcess() as running:
        said = {}
        for key, struct in properties.items():
            (pool,) = declared.pools[key]
            struct.update(dict(pool.inputs))
            found = running.analyze(pool.urn, pool.type, pool.name, struct)
            said[key] = any(f"expected {row.path}: " in each.message for each in found)

    assert said == {setting: False, "azure": True}


def test_the_page_covers_every_cloud() -> None:
    kinds = {row.type.partition(":")[0] for row in ROWS}

    assert kinds == {"aws", "azure-native", "gcp"}
    assert len(ROWS) >= 25
