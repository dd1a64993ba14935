"""The contract of every cloud's folder: a new folder under providers/ is tested by this file without an edit."""

import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpupools.catalog.gpus import gpu_models
from gpupools.catalog.instance_types import InstanceType
from gpupools.common.errors import Rejected
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.matrix import representatives
from gpupools.plan.node_resources import GPU_RESOURCE
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.plan.pool_plan import POOL_LABEL, PoolPlan
from gpupools.plan.pool_planner import plan_pool
from gpupools.plan.provider_plan import ProviderPlan
from gpupools.policies.components import judge_resource
from gpupools.policies.finding import Context
from gpupools.policies.rules import RESOURCE_RULES
from gpupools.preview.program_run import Preview, preview_program
from gpupools.providers import clouds
from gpupools.spec.models import SHARING_KINDS, Cluster, PoolSpec
from gpupools.stackfile.stack_validation import parse_cluster, parse_pool
from tests.cloud_parts import SOFTWARE, folders, missing
from tests.rows import each_row

NAMES = sorted({*clouds(), *folders()})
CLOUDS = [clouds()[name] for name in NAMES if not missing(name)]  # of any other the first test says what it lacks
SOURCE = re.compile(r"https://\S+(?: .+)?|[\w.-]+/[\w.-]+ \S.*|Go module \S+.*")
CELLS = [pytest.param(cloud, key, id=f"{cloud.name} {' '.join(key)}") for cloud in CLOUDS for key in cloud.capabilities]
ROWS = [
    pytest.param(cloud, row, id=f"{cloud.name} {row.name}") for cloud in CLOUDS for row in cloud.instance_types.values()
]

each_cloud = pytest.mark.parametrize("cloud", CLOUDS, ids=[cloud.name for cloud in CLOUDS])


def source_is_public(text: str) -> bool:
    """Say whether a source is a page (https://…) or a file of a public repository (owner/repo path)."""
    return SOURCE.fullmatch(text) is not None


def plan_of(name: str, pool: dict[str, Any], cluster: Cluster, cloud: Cloud) -> tuple[dict[str, Any], PoolPlan] | None:
    """Plan a pool; what is refused for its range of nodes alone is planned again with a fixed number of them."""
    try:
        return pool, plan_pool(name, parse_pool((), pool), "lab", cluster, cloud)
    except Rejected as rejected:
        ranged = {problem.path[2:3] for problem in rejected.problems} == {("nodes",)}
        fixed = {**pool, "nodes": {"fixed": 2}}
        return plan_of(name, fixed, cluster, cloud) if ranged and pool != fixed else None


@cache
def planned(cloud_name: str) -> Mapping[str, tuple[dict[str, Any], PoolPlan]]:
    """Plan every machine with every software and kind of sharing; what nothing refuses, by a name of its own."""
    cloud = clouds()[cloud_name]
    cluster = parse_cluster((), dict(cloud.example_cluster), {cloud.name: cloud})
    found = {}
    for number, machine in enumerate(cloud.instance_types.values()):
        for (software, kind), cell in cloud.capabilities.items():
            ways = representatives(kind, machine.gpu_model) if cell.verdict is not Verdict.REFUSED else []
            for sharing in ways if cell.verdict is Verdict.NATIVE else ways[:1]:
                written = sharing.model_dump(mode="json", exclude_none=True)
                nodes = {"fixed": 2} if software == "hami" else {"min": 1 if software == "dra-driver" else 0, "max": 2}
                pool = {"instance_type": machine.name, "nodes": nodes, "sharing": written, "software": software}
                if software == "hami" or kind.endswith(("time-slicing", "mps")):
                    pool["trust"] = {"team": "research"}
                name = f"p{number}-{SOFTWARE.index(software)}-{SHARING_KINDS.index(kind)}"
                plan = plan_of(name, pool, cluster, cloud)
                if plan is not None:
                    found[name] = plan
                    break
    return found


@cache
def sampled(cloud_name: str) -> Mapping[str, tuple[dict[str, Any], PoolPlan]]:
    """Choose the plans to declare: every machine once, and every GPU model in every way it can be shared."""
    seen: set[object] = set()
    found = {}
    for name, (pool, plan) in planned(cloud_name).items():
        keys = {plan.instance.name, (plan.instance.gpu_model, plan.software, plan.sharing.kind)}
        if not keys <= seen:
            found[name] = (pool, plan)
        seen |= keys
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_there(name: str) -> None:
    assert missing(name) == []


# --- the capability matrix ---


@each_cloud
def test_the_matrix_is_total(cloud: Cloud) -> None:
    assert set(cloud.capabilities) == {(software, kind) for software in SOFTWARE for kind in SHARING_KINDS}
    assert set(cloud.software) == set(SOFTWARE)


@each_row(("cloud", "key"), CELLS)
def test_every_cell_has_a_sentence_and_a_source(cloud: Cloud, key: tuple[str, str]) -> None:
    cell = cloud.capabilities[key]

    assert len(cell.why.split()) >= 4
    assert not cell.why.endswith((".", ";", ","))
    assert source_is_public(cell.source), cell.source


@each_row(("cloud", "key"), CELLS)
def test_a_refusal_says_what_works_instead(cloud: Cloud, key: tuple[str, str]) -> None:
    cell = cloud.capabilities[key]

    assert bool(cell.instead) is (cell.verdict is Verdict.REFUSED)


@each_cloud
def test_every_software_says_who_brings_each_piece(cloud: Cloud) -> None:
    for software in cloud.software.values():
        assert software.owners.driver
        assert software.owners.container_toolkit
        assert software.owners.device_plugin
        assert software.why
        assert source_is_public(software.source), software.source


@each_cloud
def test_the_default_software_is_total_and_never_refused_where_another_works(cloud: Cloud) -> None:
    assert set(cloud.default_software) == set(SHARING_KINDS)
    for kind, software in cloud.default_software.items():
        verdicts = {name: cloud.capabilities[name, kind].verdict for name in SOFTWARE}
        if set(verdicts.values()) != {Verdict.REFUSED}:
            assert verdicts[software] is not Verdict.REFUSED, kind


# --- the catalogue ---


@each_row(("cloud", "row"), ROWS)
def test_a_row_is_sane(cloud: Cloud, row: InstanceType) -> None:
    model = gpu_models()[row.gpu_model]

    assert row.gpus.denominator == 1 or row.gpus.numerator == 1
    assert 0 < row.gpus <= 16
    # A part of a GPU has that part of its memory; what ECC takes and GiB count as is up to a tenth.
    board = model.memory_gb * min(row.gpus, Fraction(1))
    assert 0.85 * board <= row.gpu_memory_gib <= 1.05 * board
    assert row.architecture in ("amd64", "arm64")
    assert row.rdma in ("", "efa", "infiniband", "gpudirect-tcpx", "gpudirect-tcpxo", "gpudirect-rdma")
    assert row.rdma or row.rdma_interfaces in (None, 0)
    assert row.vcpus is None or 2 <= row.vcpus <= 512
    assert row.memory_gib is None or 3 <= row.memory_gib <= 8192
    assert row.local_disk_gb is None or row.local_disk_gb >= 0
    assert row.lifecycle in ("current", "preview", "previous-generation", "retired")
    assert not row.lifecycle_date or date.fromisoformat(row.lifecycle_date)
    assert source_is_public(row.source), row.source
    assert date(2026, 1, 1) <= date.fromisoformat(row.checked) <= date.today()


@each_cloud
def test_no_machine_has_two_rows(cloud: Cloud) -> None:
    names = [line.partition(",")[0] for line in _lines(cloud, "instance_types.csv")[1:]]

    assert names == list(cloud.instance_types)


@each_cloud
def test_the_rows_of_a_gpu_stand_together(cloud: Cloud) -> None:
    models = [row.gpu_model for row in cloud.instance_types.values()]

    breaks = sum(model != before for before, model in pairwise(models)) + 1
    assert breaks <= len(set(models)) + 3  # a few follow their machine family instead


@each_cloud
def test_other_accelerators_are_none_of_the_catalogue(cloud: Cloud) -> None:
    others = _lines(cloud, "other_accelerators.csv")

    assert others[0] == "pattern,vendor,accelerator,source"
    assert len(others) > 1
    assert all(line.count(",") == 3 for line in others[1:])
    assert all(source_is_public(line.split(",")[3]) for line in others[1:])
    assert [name for name in cloud.instance_types if cloud.instance_types.other_accelerator(name)] == []


@each_row(("cloud", "row"), ROWS)
def test_a_machine_is_known_by_its_name(cloud: Cloud, row: InstanceType) -> None:
    assert cloud.instance_types.find(row.name) == row
    found = cloud.readback().accelerator(row.name)
    assert (found.vendor, found.count) == ("nvidia", row.gpus)


@each_cloud
def test_names_that_are_none_are_not_found(cloud: Cloud) -> None:
    for name in ("", "x", "..", "n1+:", "*", "a" * 10_000, "\x00"):
        assert cloud.instance_types.find(name) is None
        assert cloud.readback().accelerator(name).vendor == ""


def _lines(cloud: Cloud, file: str) -> list[str]:
    module = sys.modules[f"gpupools.providers.{cloud.name}"]
    folder = Path(str(module.__file__)).parent
    return (folder / file).read_text(encoding="utf-8").splitlines()


# --- planning ---


@each_row(("cloud", "row"), ROWS)
def test_every_machine_is_planned_with_whole_gpus_or_refused_with_a_reason(cloud: Cloud, row: InstanceType) -> None:
    cluster = parse_cluster((), dict(cloud.example_cluster), {cloud.name: cloud})
    spec = parse_pool(("pools", "a"), {"instance_type": row.name, "nodes": {"max": 1}})

    try:
        plan = plan_pool("a", spec, "lab", cluster, cloud)
    except Rejected as rejected:
        problems = rejected.problems
    else:
        assert row.lifecycle != "retired"
        assert plan.instance == row
        assert plan.node_resources == {"nvidia.com/gpu": row.devices}
        return
    assert all(problem.what and problem.fix and problem.path[:2] == ("pools", "a") for problem in problems)


@each_cloud
def test_most_machines_that_can_be_bought_can_be_planned(cloud: Cloud) -> None:
    current = {row.name for row in cloud.instance_types.values() if row.lifecycle == "current"}
    whole = {plan.instance.name for _, plan in planned(cloud.name).values() if plan.sharing.kind == "none"}

    assert len(current & whole) > 0.6 * len(current)


@each_cloud
def test_every_plan_keeps_what_the_domain_promises(cloud: Cloud) -> None:
    for pool, plan in planned(cloud.name).values():
        assert plan.taints[0] == GPU_TAINT
        assert [taint.key for taint in plan.taints[1:]] == (["gpupools/trust"] if "trust" in pool else [])
        assert plan.labels[POOL_LABEL] == plan.name
        assert isinstance(plan.provider_plan, ProviderPlan)
        assert plan.owners == cloud.software[plan.software].owners
        assert all(count > 0 for count in plan.node_resources.values())


@each_cloud
def test_the_labels_a_cloud_sets_cannot_be_overridden(cloud: Cloud) -> None:
    cluster = parse_cluster((), dict(cloud.example_cluster), {cloud.name: cloud})
    tried: set[str] = set()
    for name, (pool, plan) in planned(cloud.name).items():
        for key in set(plan.provider_plan.labels) - tried - {"skypilot.co/accelerator"}:  # of which one's own stays
            tried.add(key)
            with pytest.raises(Rejected) as caught:
                plan_pool(name, parse_pool((), {**pool, "labels": {key: "x"}}), "lab", cluster, cloud)

            assert [problem.path for problem in caught.value.problems] == [("pools", name, "labels", key)]


@each_cloud
def test_everything_the_matrix_has_in_the_pool_can_be_planned(cloud: Cloud) -> None:
    native = {key for key, cell in cloud.capabilities.items() if cell.verdict is Verdict.NATIVE}

    assert {(plan.software, plan.sharing.kind) for _, plan in planned(cloud.name).values()} >= native


@each_cloud
def test_the_same_pool_has_the_same_plan(cloud: Cloud) -> None:
    cluster = parse_cluster((), dict(cloud.example_cluster), {cloud.name: cloud})
    name, (pool, plan) = next(iter(planned(cloud.name).items()))
    spec: PoolSpec = parse_pool((), pool)

    assert plan_pool(name, spec, "lab", cluster, cloud) == plan


# --- what was declared, read back ---


PROGRAM = """
import pulumi
from gpupools.components.clusters import provider
from gpupools.components.gpu_node_pool import GpuNodePool

config = pulumi.Config()
cluster = config.require_object("cluster")
own = provider("lab", cluster["cloud"], cluster)
addresses = {key: value for key, value in cluster.items() if key != "cloud"}
for name, pool in config.require_object("pools").items():
    args = {"cloud": cluster["cloud"], "cluster": addresses, "pool": pool}
    GpuNodePool(name, args, pulumi.ResourceOptions(providers=[own]))
"""


@cache
def declared(cloud_name: str, folder: Path) -> Preview:
    """Declare every planned pool through the component, in one program against the strict monitor."""
    program = folder / cloud_name / "__main__.py"
    program.parent.mkdir()
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    pools = {name: pool for name, (pool, _) in sampled(cloud_name).items()}
    cluster = dict(clouds()[cloud_name].example_cluster)
    return preview_program(program, "test", "contract", {"cluster": cluster, "pools": pools})


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the programs."""
    return tmp_path_factory.mktemp("programs")


def facts(cloud: Cloud, preview: Preview) -> dict[str, list[PoolFacts]]:
    """Read every declared resource back, by the name of the component that declared it."""
    names = {resource.urn: resource.name for resource in preview.resources}
    found: dict[str, list[PoolFacts]] = {}
    for resource in preview.resources:
        pools = cloud.readback().read_pools(resource.type, resource.inputs)
        if pools:
            found.setdefault(names[str(resource.parent)], []).extend(pools)
    return found


@pytest.mark.slow
@each_cloud
def test_every_declared_pool_is_what_the_sdk_takes(cloud: Cloud, programs: Path) -> None:
    preview = declared(cloud.name, programs)

    assert [str(problem) for problem in preview.problems] == []
    assert len(preview.resources) > len(sampled(cloud.name))


@each_cloud
def test_every_declared_pool_reads_back_as_it_was_planned(cloud: Cloud, programs: Path) -> None:
    found = facts(cloud, declared(cloud.name, programs))

    assert set(found) == set(sampled(cloud.name))
    for name, (_, plan) in sampled(cloud.name).items():
        (pool,) = found[name]
        assert pool.cloud == cloud.name
        assert pool.instance_types == (plan.instance.name,)
        assert pool.gpus_per_node == plan.instance.gpus
        assert pool.accelerator in ("nvidia", "")
        assert pool.taints == plan.taints
        assert pool.unknown == ()


LEFT_TO_THE_FILE = ("enableEncryptionAtHost", "securityProfile.sshAccess")
"""What AKS has not for every size, region and subscription, so that the plan sets it only where the file does."""


@each_cloud
def test_every_declared_pool_passes_our_own_rules(cloud: Cloud, programs: Path) -> None:
    found = facts(cloud, declared(cloud.name, programs))

    assert RESOURCE_RULES
    findings = [
        (name, rule.name, finding)
        for name, pools in found.items()
        for pool in pools
        for rule, finding in judge_resource([pool], None, Context())
        # Some ways to install the software keep nodes, which the advice on idle pools says of each.
        if not (rule.name == "gpu-pool-idles-at-zero" and sampled(cloud.name)[name][1].min_nodes > 0)
        and not (rule.name == "gpu-node-hardening-advised" and finding.property.endswith(LEFT_TO_THE_FILE))
        and rule.name != "gpu-pool-ready-for-autoscaler"  # the next test
    ]
    assert findings == []


@each_cloud
def test_the_advice_on_autoscalers_is_what_the_plan_notes(cloud: Cloud, programs: Path) -> None:
    misjudged = {
        name
        for name, (_, plan) in sampled(cloud.name).items()
        if GPU_RESOURCE not in plan.node_resources and plan.provider_plan.requires_gpu_resource()
        if plan.min_nodes < plan.max_nodes
        # The name of a MIG configuration does not tell profiles with a hyphen.
        if not (
            plan.sharing.mig and isinstance(plan.sharing.mig.layout, list) and "-me" in str(plan.sharing.mig.layout)
        )
    }
    advised = {
        name
        for name, pools in facts(cloud, declared(cloud.name, programs)).items()
        for pool in pools
        if any(rule.name == "gpu-pool-ready-for-autoscaler" for rule, _ in judge_resource([pool], None, Context()))
    }

    assert advised == misjudged


# --- whatever is read ---


@each_cloud
@each_row("value", [None, UNKNOWN, True, 3, 0.5, "", "x", [], {}, [UNKNOWN], {"": UNKNOWN}, [[{}]]], ids=repr)
def test_reading_survives_any_input(cloud: Cloud, value: object, programs: Path) -> None:
    pools = [r for r in declared(cloud.name, programs).resources if cloud.readback().read_pools(r.type, r.inputs)]

    for resource in pools[:5]:
        for key in resource.inputs:
            assert isinstance(cloud.readback().read_pools(resource.type, {**resource.inputs, key: value}), tuple)
        assert isinstance(cloud.readback().read_pools(resource.type, {}), tuple)
    assert cloud.readback().read_pools("pulumi:pulumi:Stack", {"a": value}) == ()


def test_the_clouds_need_no_sdk() -> None:
    program = (
        "import sys; from gpupools.providers import clouds\n"
        "rows = sum(len(c.instance_types) for c in clouds().values()); "
        "found = [name for name in sys.modules if name.split('.')[0].startswith(('pulumi', 'grpc', 'google'))]; "
        "print(rows > 0, *found)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"
