"""The configurations that device plugin and MIG manager get, read back with models as strict as theirs."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gpupools.plan.node_labels import MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL
from gpupools.plan.plugin_configs import (
    client_limits,
    content_name,
    plugin_config,
    plugin_config_name,
    read_plugin_name,
)
from gpupools.plan.software_plan import RuntimePlan
from gpupools.software.objects import METRICS_DIGEST, metrics_csv
from gpupools.spec.models import Mps
from tests.gpupools.software.combinations import (
    A100,
    COMBINATIONS,
    MIG,
    MIG_MIXED,
    MIG_SIZES,
    MPS,
    TIME_SLICING,
    Combination,
)
from tests.gpupools.software.conftest import Planner, pools_of

EVERY = pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=COMBINATIONS)


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Flags(Closed):
    """`flags` of the plugin's configuration; all others keep the plugin's defaults."""

    migStrategy: Literal["none", "single", "mixed"] = "none"  # noqa: N815 - the plugin's spelling


class SharedResource(Closed):
    """One resource that is offered several times; `devices` and `rename` are left out, the plugin ignores them."""

    name: str = Field(pattern=r"^nvidia\.com/(gpu|mig-[0-9]+g\.[0-9]+gb(\.[a-z.]+|-[a-z]+)?)$")
    replicas: int = Field(ge=2)


class Replicated(Closed):
    """`sharing.timeSlicing` or `sharing.mps`."""

    # False keeps the name nvidia.com/gpu, so that ExtendedResourceToleration still works.
    renameByDefault: bool = False  # noqa: N815
    # A second replica may be on the same GPU, so asking for two gains nothing; the plugin's default is false.
    failRequestsGreaterThanOne: Literal[True] = True  # noqa: N815
    resources: list[SharedResource] = Field(min_length=1)


class PluginSharing(Closed):
    """`sharing`: one method or none; given both, the plugin takes MPS without a word."""

    timeSlicing: Replicated | None = None  # noqa: N815
    mps: Replicated | None = None


class PluginConfig(Closed):
    """One entry of the device plugin's ConfigMap.

    https://github.com/NVIDIA/k8s-device-plugin, api/config/v1/config.go and sharing.go.
    """

    version: Literal["v1"] = "v1"
    flags: Flags = Flags()
    sharing: PluginSharing | None = None


class MigDevices(Closed):
    """One entry of a layout, as NVIDIA/mig-parted api/spec/v1/spec.go takes it."""

    device_filter: Annotated[str | list[str] | None, Field(alias="device-filter")] = None
    devices: Literal["all"] | list[Annotated[int, Field(ge=0)]]
    mig_enabled: Annotated[bool, Field(alias="mig-enabled")]
    mig_devices: Annotated[dict[str, Annotated[int, Field(ge=0)]] | None, Field(alias="mig-devices")] = None

    @model_validator(mode="after")
    def _devices_exactly_when_enabled(self) -> Self:
        if self.mig_enabled != (self.mig_devices is not None):
            raise ValueError("mig-devices is required with mig-enabled, and an error without")
        if self.mig_devices is not None and not any(self.mig_devices.values()):
            raise ValueError("all counts are 0")
        return self


class MigParted(Closed):
    version: Literal["v1"]
    mig_configs: Annotated[dict[str, Annotated[list[MigDevices], Field(min_length=1)]], Field(alias="mig-configs")]


def config_maps(made: RuntimePlan) -> dict[str, dict[str, str]]:
    return {each.name: dict(each.manifest["data"]) for each in made.objects if each.kind == "ConfigMap"}


@EVERY
def test_every_plugin_entry_is_one_the_plugin_reads(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    texts = [text for name, data in config_maps(made).items() if "device-plugin" in name for text in data.values()]

    for text in texts:
        PluginConfig.model_validate(yaml.safe_load(text))


@EVERY
def test_a_nodes_label_names_an_entry_that_is_there(combination: Combination, plan: Planner) -> None:
    made = plan(combination.cloud, combination.pools)
    (pool,) = pools_of(combination.cloud, combination.pools)
    maps = config_maps(made)
    entries = {entry for name, data in maps.items() if "device-plugin" in name for entry in data}
    layouts = {
        layout
        for name, data in maps.items()
        if name.endswith("/mig")
        for layout in MigParted.model_validate(yaml.safe_load(data["config.yaml"])).mig_configs
    }

    assert pool.labels.get(PLUGIN_CONFIG_LABEL) in {*entries, None}
    assert pool.labels.get(MIG_CONFIG_LABEL) in {*layouts, None}
    assert (MIG_CONFIG_LABEL in pool.labels) == (pool.software == "gpu-operator" and "mig" in pool.sharing.kind)


def test_equal_needs_share_an_entry_and_different_ones_do_not(plan: Planner) -> None:
    base = {"gpu": "L4", "software": "device-plugin", **TIME_SLICING}
    more = {**base, "sharing": {"mode": "time-slicing", "replicas": 8}}
    renamed = {**base, "sharing": {"mode": "time-slicing", "replicas": 4, "rename": True}}
    made = plan("aws", {"a": base, "b": base, "c": more, "d": renamed})
    (data,) = config_maps(made).values()

    assert sorted(data) == ["time-slicing-4", "time-slicing-4-shared", "time-slicing-8", "whole"]


def test_whole_gpus_need_no_entry(plan: Planner) -> None:
    made = plan("aws", {"a": {"gpu": "L4", "software": "device-plugin"}})

    assert config_maps(made) == {}


def test_another_entry_changes_neither_the_config_maps_name_nor_the_plugins_release(plan: Planner) -> None:
    def made(replicas: int) -> tuple[str, Any]:
        sharing = {"mode": "time-slicing", "replicas": replicas}
        pool = {"gpu": "L4", "software": "device-plugin", "sharing": sharing, "trust": {"team": "x"}}
        found = plan("aws", {"a": pool})
        (config,) = (each for each in found.objects if each.kind == "ConfigMap")
        (plugin,) = (each for each in found.releases if each.chart == "nvidia-device-plugin")
        return config.manifest["metadata"]["name"], plugin.values["config"]["name"]

    assert made(4)[0] == made(4)[1]
    assert made(4) == made(8)


GPU = {"name": "nvidia.com/gpu", "replicas": 2}


@pytest.mark.parametrize(
    "text",
    [
        {"version": "v2"},
        {"version": "v1", "flags": {"renameByDefault": False}},
        {"version": "v1", "sharing": {"timeSlicing": {"resources": []}}},
        {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 1}]}}},
        {"version": "v1", "sharing": {"mps": {"resources": [{"name": "amd.com/gpu", "replicas": 2}]}}},
        {"version": "v1", "sharing": {"mps": {"failRequestsGreaterThanOne": False, "resources": [GPU]}}},
        {"version": "v1", "resources": {"gpus": []}},
    ],
    ids=[
        "version",
        "sharing under flags",
        "no resources",
        "one replica",
        "other resource",
        "more than one",
        "ignored key",
    ],
)
def test_what_the_plugin_refuses_or_ignores_cannot_be_written(text: Mapping[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PluginConfig.model_validate(text)


def test_layouts_of_one_stock_name_on_two_gpu_models_stay_apart(plan: Planner) -> None:
    cut = {"gpus_per_node": 8, "software": "gpu-operator", "sharing": {"mode": "mig", "profile": "1g.10gb"}}
    pools = {"a": {"gpu": "A100-40GB", **cut}, "b": {"gpu": "A100-80GB", **cut}}
    (data,) = (data for key, data in config_maps(plan("aws", pools)).items() if key.endswith("/mig"))
    configs = MigParted.model_validate(yaml.safe_load(data["config.yaml"])).mig_configs
    labels = [pool.labels[MIG_CONFIG_LABEL] for pool in pools_of("aws", pools)]

    assert [configs[label][0].mig_devices for label in labels] == [{"1g.10gb": 4}, {"1g.10gb": 7}]
    assert sorted(configs) == sorted(["all-disabled", *labels])


def test_names_of_entries_fit_into_a_label(plan: Planner) -> None:
    layout = {str(index): ["1g.10gb"] * (1 + index % 6) for index in range(8)}
    sharing = {"mode": "mig", "layout": layout, "share": {"mode": "time-slicing", "replicas": 16, "rename": True}}
    (pool,) = pools_of("aws", {"a": {**A100, "software": "gpu-operator", "sharing": sharing, "trust": {"team": "x"}}})

    assert [key for key, value in pool.labels.items() if len(value) > 63] == []


def test_one_operator_has_one_mig_strategy(refused: Any) -> None:
    (problem,) = refused("aws", {"a": {**A100, "software": "gpu-operator", **MIG}, "b": {**A100, **MIG_SIZES}})

    assert problem.startswith(
        "pools.b.sharing.strategy: is mixed, but single on pool a; a GPU Operator has one strategy for all"
    )


def test_plugin_pools_of_one_cluster_may_have_both_mig_strategies(plan: Planner) -> None:
    made = plan("azure", {"a": {**A100, "software": "device-plugin", **MIG}, "b": {**A100, **MIG_MIXED}})
    (data,) = (data for key, data in config_maps(made).items() if "device-plugin" in key)

    assert sorted(data) == ["mig-mixed", "mig-single", "whole"]


def test_an_mps_client_gets_its_part() -> None:
    (pool,) = pools_of("aws", {"a": {**A100, "software": "device-plugin", **MPS}})

    assert client_limits(pool.instance, Mps(mode="mps", replicas=4)) == (20.0, 25)
    assert client_limits(pool.instance, Mps(mode="mps", replicas=3)) == (26.7, 33)
    assert plugin_config_name(pool.instance, pool.sharing) == "mps-4"


def test_metrics_are_three_columns_of_known_kinds() -> None:
    rows = [line.split(", ") for line in metrics_csv().splitlines()]
    wanted = {"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"}

    assert {len(row) for row in rows} == {3}
    assert {row[1] for row in rows} <= {"gauge", "counter"}
    assert {row[0] for row in rows} >= wanted


def test_the_digest_of_the_metrics_changes_with_their_list() -> None:
    assert content_name("metrics", {"dcgm-metrics.csv": metrics_csv()}) == METRICS_DIGEST


def test_content_names_depend_on_every_key_and_value() -> None:
    names = {content_name("x", data) for data in ({"a": "1"}, {"a": "2"}, {"b": "1"}, {"a": "1", "b": "1"})}

    assert len(names) == 4


@pytest.mark.parametrize("sharing", [{"replicas": 4}, {"replicas": 4, "rename": True}])
@pytest.mark.parametrize("placement", ["pack", "spread", None])
def test_the_placement_is_the_plugins_allocation_policy(sharing: dict[str, Any], placement: str | None) -> None:
    """NVIDIA/k8s-device-plugin v0.20.0, api/config/v1/flags.go; without a policy it distributes."""
    given = {"mode": "time-slicing", **sharing, **({"placement": placement} if placement else {})}
    (pool,) = pools_of(
        "aws", {"a": {"gpu": "L4", "software": "device-plugin", "sharing": given, "trust": {"team": "x"}}}
    )
    name = plugin_config_name(pool.instance, pool.sharing)
    flags = yaml.safe_load(plugin_config(pool.instance, pool.sharing))["flags"]

    assert flags.get("plugin") == ({"sharedDevicesAllocationPolicy": "packed"} if placement == "pack" else None)
    assert name.endswith("-packed") == (placement == "pack")
    _, read = read_plugin_name(name)
    assert read == {key: value for key, value in given.items() if value != "spread"}
