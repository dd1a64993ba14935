"""What tests of several folders share: a cloud with a catalogue small enough to know by heart."""

import csv
import gc
import os
import sys
import venv
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pytest

import gpupools.audit  # noqa: F401 - registers its readers
from gpupools.catalog.instance_types import COLUMNS, Catalogue
from gpupools.catalog.reserved_keys import KeyRule
from gpupools.common.errors import Problem
from gpupools.plan.capability import Capability, Owners, SoftwareOption, Verdict
from gpupools.plan.cloud import Cloud, NodePools, PoolOrder, Readback, ResourceFactory
from gpupools.plan.edit_tables import EditTables
from gpupools.plan.node_software import NodeRuntime
from gpupools.plan.pool_facts import NO_ACCELERATOR, Accelerator, PoolFacts
from gpupools.plan.provider_plan import PoolRequest, ProviderPlan
from gpupools.plan.software_plan import Piece
from gpupools.spec.models import SHARING_KINDS, Address, Addresses, Cluster, ExecPlugin
from tests.forked import forking
from tests.sdk_schema import read_sdks

# When it cannot stop its threads for a fork, gRPC writes to the standard error that tests compare.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
read_sdks()


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without a garbage collector, and keep what is collected out of its sight: it stays to the end.

    Modules of three SDKs and some 10,000 tests: looking through them again and again takes a tenth of a run.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


# instance type, model, GPUs, GiB per GPU, vCPUs, GiB, lifecycle, date
MACHINES = (
    ("k80.1", "K80", "1", "12", "4", "61", "retired", "2023-05-31"),
    ("p100.1", "P100", "1", "16", "8", "64", "current", ""),
    ("a10.part", "A10", "1/4", "6", "9", "110", "current", ""),
    ("a10.1", "A10", "1", "24", "36", "440", "current", ""),
    ("a10.2", "A10", "2", "24", "72", "880", "preview", ""),
    ("l4.small", "L4", "1", "22", "4", "16", "current", ""),
    ("l4.large", "L4", "1", "22", "8", "32", "current", ""),
    ("l4.old", "L4", "1", "22", "2", "8", "previous-generation", ""),
    ("l4.4.twin-a", "L4", "4", "22", "48", "192", "current", ""),
    ("l4.4.twin-b", "L4", "4", "22", "48", "192", "current", ""),
    ("a100-40.1", "A100-40GB", "1", "40", "12", "85", "current", ""),
    ("a100-40.8", "A100-40GB", "8", "40", "96", "680", "current", ""),
    ("a100-80.1", "A100-80GB", "1", "80", "12", "170", "current", ""),
    ("a100-80.8", "A100-80GB", "8", "80", "96", "1360", "current", ""),
    ("b200.8", "B200", "8", "180", "", "", "current", ""),
)


class FakeCluster(Cluster):
    """A cluster with every kind of key: an address, several, and a plain value."""

    cloud: Literal["fake"]
    name: Address
    region: str
    subnet_ids: Addresses | None = None

    @classmethod
    def place_of(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"region": given["region"], "name": given["name"]}

    @classmethod
    def exec_plugin(cls, given: Mapping[str, Any]) -> ExecPlugin:
        return ExecPlugin("fake-token", (), "get it")


CLUSTER: Mapping[str, Any] = MappingProxyType({"cloud": "fake", "name": "lab-dev", "region": "north"})
"""The fewest keys that make a `FakeCluster`."""


def _capability(software: str, kind: str) -> Capability:
    if software == "cloud-managed" and kind in ("none", "time-slicing", "mps", "mig-single"):
        return Capability(Verdict.NATIVE, "the pool has a field for it", "https://example.com/native")
    if software == "cloud-managed":
        return Capability(Verdict.REFUSED, "the pool has no field for it", "https://example.com/refused", "a sentence")
    if software == "gpu-operator" and kind == "mps":
        return Capability(Verdict.REFUSED, "nobody tried", "https://example.com/refused")
    return Capability(Verdict.IN_CLUSTER, "a chart brings it", "https://example.com/in-cluster")


def _decide(request: PoolRequest) -> ProviderPlan:
    return ProviderPlan(labels={"fake.example.com/accelerator": request.instance.gpu_model})


def _refusals(request: PoolRequest) -> list[Problem]:
    # The small L4 machine has no room for the cloud's own plugin.
    if request.instance.name in ("l4.small", "l4.old") and request.sharing == "time-slicing":
        return [Problem(("sharing", "mode"), f"{request.instance.name} is too small", "take another")]
    return []


def _read_pools(type_token: str, properties: Mapping[str, Any]) -> tuple[PoolFacts, ...]:
    if type_token != "fake:index:Pool":
        return ()
    return (PoolFacts("fake", (str(properties["machine"]),), Fraction(1), ()),)


def _accelerator(name: str) -> Accelerator:
    return Accelerator("nvidia", None) if name.partition(".")[0] in ("a10", "a100", "l4") else NO_ACCELERATOR


def _node_runtime(software: str, provider_plan: ProviderPlan) -> NodeRuntime:
    pieces = [Piece.DRIVER, Piece.CONTAINER_TOOLKIT, Piece.MIG_MANAGER]
    if software == "cloud-managed":
        pieces.append(Piece.DEVICE_PLUGIN)
    return NodeRuntime(brings=dict.fromkeys(pieces, "node image"), why="the node image brings them", source="")


def _not_declared() -> ResourceFactory:
    raise AssertionError("a fake cloud's pools are only planned")


def _write_catalogue(folder: Path) -> Catalogue:
    folder.mkdir()
    with (folder / "instance_types.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, (*COLUMNS, "zone"))
        rows.writeheader()
        for name, model, gpus, gpu_memory_gib, vcpus, memory_gib, lifecycle, date in MACHINES:
            known = {"instance_type": name, "gpu_model": model, "gpus": gpus, "gpu_memory_gib": gpu_memory_gib}
            size = {"vcpus": vcpus, "memory_gib": memory_gib, "architecture": "amd64", "local_disk_gb": "0"}
            state = {"lifecycle": lifecycle, "lifecycle_date": date, "checked": "2026-11-01"}
            rows.writerow({**known, **size, **state, "source": f"https://example.com/{name}", "zone": "north-a"})
    others = "pattern,vendor,accelerator,source\namd.*,AMD,Radeon,https://example.com/amd\n"
    (folder / "other_accelerators.csv").write_text(others, encoding="utf-8")
    return Catalogue(folder)


@pytest.fixture(scope="session")
def forked() -> Iterator[Path]:
    """Return a folder for PATH with a `gpupools` that starts in a few milliseconds (`tests/forked.py`)."""
    with forking() as folder:
        yield folder


@pytest.fixture(scope="session")
def write_catalogue() -> Callable[[Path], Catalogue]:
    """Return a function that writes the machines above as a cloud's folder holds them, for a test that changes them."""
    return _write_catalogue


@pytest.fixture(scope="session")
def fake_catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """Return the catalogue of the machines above."""
    return _write_catalogue(tmp_path_factory.mktemp("clouds") / "fake")


@pytest.fixture(scope="session")
def fake_cloud(fake_catalogue: Catalogue) -> Cloud:
    """Return a cloud on which every branch of planning can be taken."""
    kinds = ("cloud-managed", "device-plugin", "gpu-operator")
    return Cloud(
        name="fake",
        service="Fake Kubernetes",
        instance_types=fake_catalogue,
        cluster=FakeCluster,
        software={
            kind: SoftwareOption(
                Owners(f"driver of {kind}", f"toolkit of {kind}", f"plugin of {kind}"), "a reason", "a page"
            )
            for kind in kinds
        },
        default_software={
            kind: "cloud-managed" if kind in ("none", "time-slicing", "mps", "mig-single") else "gpu-operator"
            for kind in SHARING_KINDS
        },
        capabilities={(software, kind): _capability(software, kind) for software in kinds for kind in SHARING_KINDS},
        decide=_decide,
        check_pool=_refusals,
        check_settings=lambda request: [],
        node_runtime=_node_runtime,
        supports_dra_from_zero=False,
        reserved_labels=(KeyRule(pattern="fake.example.com/*", why="is the cloud's own"),),
        reserved_taints=(),
        example_cluster=CLUSTER,
        provider_settings={},
        node_pools=NodePools(
            settings={},
            overridable={},
            edits=lambda: EditTables((), {}),
            resources=_not_declared,
            declared_inputs=lambda plan, cluster: {},
            order=PoolOrder(names=lambda plan, cluster: (plan.name,), group_id="^{}$"),
            registered={},
        ),
        readback=lambda: Readback(
            read_pools=_read_pools, accelerator=_accelerator, customizations=lambda resource, inputs: (), types=()
        ),
    )


@pytest.fixture(scope="session")
def fake_clouds(fake_cloud: Cloud) -> Mapping[str, Cloud]:
    """Return what `providers.clouds()` would return if the fake cloud had a folder."""
    return MappingProxyType({"fake": fake_cloud})


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment as `tooling/gpupools` makes one, with the packages of the one the tests run in."""
    made = tmp_path_factory.mktemp("environment") / "check"
    venv.create(made, with_pip=False, symlinks=True)
    packages = next(made.glob("lib/python3*/site-packages"))
    own = Path(sys.prefix) / packages.relative_to(made)
    for name in (
        "pydantic",
        "pydantic_core",
        "yaml",
        "_yaml",
        "tabulate",
        "annotated_types",
        "typing_inspection",
        "tomli_w",
    ):
        (packages / name).symlink_to(own / name)
    (packages / "typing_extensions.py").symlink_to(own / "typing_extensions.py")
    return made
