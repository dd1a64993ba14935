"""Options of a pool: capacity, image, disk, network, security, upgrades. Portable where the concept is.

Each cloud either supports an option or rejects it with the reason. None is ignored.
"""

import re
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from gpupools.common.errors import Path, shown
from gpupools.common.json_types import JsonDict
from gpupools.common.model import StrictModel
from gpupools.common.taints import GPU_TAINT, parse_taint


class OnDemand(StrictModel):
    """On-demand machines."""

    mode: Literal["on-demand"] = "on-demand"


class Spot(StrictModel):
    """Spot machines, which the cloud may evict at short notice."""

    mode: Literal["spot"]
    max_price_usd_per_hour: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Azure only: maximum price, above which machines are evicted. Default: the on-demand price."""


class Reservation(StrictModel):
    """Machines of a reservation."""

    mode: Literal["reservation"]
    name: str = Field(min_length=1)
    """EC2 capacity reservation (`cr-…`) or resource group ARN; Azure capacity reservation group ID; GCE reservation."""


class CapacityBlock(StrictModel):
    """EC2 Capacity Block for ML: machines reserved for a fixed time."""

    mode: Literal["capacity-block"]
    name: str = Field(min_length=1)
    """Capacity reservation of the block, `cr-…`."""


class FlexStart(StrictModel):
    """Google flex-start: machines that start when capacity is available and run for at most seven days."""

    mode: Literal["flex-start"]
    max_run_s: int | None = Field(default=None, ge=600, le=604800)
    """Maximum lifetime of a node."""


class Queued(StrictModel):
    """Google queued provisioning: all machines of a job start at once when capacity is available."""

    mode: Literal["queued"]
    max_run_s: int | None = Field(default=None, ge=600, le=604800)
    """Maximum lifetime of a node."""


Capacity = Annotated[
    OnDemand | Spot | Reservation | CapacityBlock | FlexStart | Queued,
    Field(discriminator="mode"),
]


_FAMILY = r"[a-z][a-z0-9-]{0,29}"


class NodeImage(StrictModel):
    """Node image."""

    family: str | None = None
    """The cloud's name of an image family, or `custom`. Default: the cloud's image for the selected software."""
    id: str | None = Field(default=None, min_length=1)
    """With `family: custom`: image ID, e.g. `ami-0abc…`. The pool's `software` determines what installs the driver."""
    fips: bool = False
    """Use the FIPS 140 variant, if one with NVIDIA's driver exists."""

    @field_validator("family")
    @classmethod
    def _is_a_name(cls, family: str | None) -> str | None:
        if family is not None and not re.fullmatch(_FAMILY, family):
            small = family.lower() if re.fullmatch(_FAMILY, family.lower()) else "an image family in lower case"
            raise ValueError(f"got {shown(family)}; write {small}")
        return family

    @model_validator(mode="after")
    def _custom_has_an_id(self) -> Self:
        if (self.family == "custom") != (self.id is not None):
            raise ValueError("id and family: custom require each other; set both or neither")
        return self


class Disk(StrictModel):
    """Disks of each node. The pool's `disk_gib` sets the size."""

    type: str | None = Field(default=None, min_length=1)
    """The cloud's disk type: `gp3`, `io2`; `Managed`, `Ephemeral`; `pd-balanced`, `hyperdisk-balanced`."""
    encryption_key: str | None = Field(default=None, min_length=1)
    """Customer-managed key: KMS key ARN or Cloud KMS key name. Default: the cloud's key."""
    local_nvme: Literal["raid0", "none"] | None = None
    """`raid0` puts containerd and kubelet on the machine's local NVMe disks. Default: depends on the cloud's image."""


class GpuNetwork(StrictModel):
    """Network of a GPU interface."""

    network: str = Field(min_length=1)
    """VPC network: name, or `projects/…/global/networks/…` in another project."""
    subnetwork: str = Field(min_length=1)
    """Subnetwork in the cluster's region: name, or `projects/…/regions/…/subnetworks/…`."""


class Network(StrictModel):
    """Network of the nodes."""

    rdma: bool = False
    """Use all EFA, InfiniBand or GPUDirect interfaces of the instance type."""
    compute_domains: bool = False
    """Multi-node NVLink (GB200, GB300): pods of a ComputeDomain can access each other's GPU memory."""
    placement: Literal["compact"] | None = None
    """`compact` places nodes close together. Requires exactly one zone."""
    placement_policy: str | None = Field(default=None, pattern=r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")
    """GKE: existing compact placement policy, instead of a new one. Required with a reservation, which has its own."""
    security_group_ids: list[str] = []
    """EC2 security groups of the nodes. If set, EKS does not add the cluster's security group."""
    gpu_networks: list[GpuNetwork] = []
    """GKE, A3 High only: networks of the GPUDirect-TCPX interfaces, in order. GKE creates those of other machines."""
    max_pods: int | None = Field(default=None, ge=1)
    """Maximum pods per node: 8 to 256 on EKS and GKE, 10 to 250 on AKS.

    The default on EKS follows from the network interfaces of the machine.
    """


@dataclass(frozen=True, kw_only=True)
class KubeletSettings:
    """What a pool wants of the kubelet of its nodes, whatever key says it; None leaves it to the cloud.

    A field is called like the last part of its key. A cloud has a row for it in `inputs.csv`, or refuses the key.
    """

    max_pods: int | None = None

    @classmethod
    def of(cls, spec: Any) -> Self:
        """Return the settings of a pool."""
        return cls(**{field: attrgetter(key)(spec) for field, key in KUBELET_KEYS.items()})


class Security(StrictModel):
    """Secure boot and metadata access."""

    secure_boot: bool = False
    """Reject unsigned kernel modules. Requires a signed driver."""
    imds_hop_limit: int = Field(default=1, ge=1, le=2)
    """EC2 metadata hop limit: with 1, pods cannot use the node's role; with 2, they can."""


class Upgrade(StrictModel):
    """How the cloud replaces nodes when the image or version changes."""

    strategy: Literal["surge", "blue-green"] = "surge"
    max_surge: int = Field(default=0, ge=0, le=100)
    """Additional nodes during an upgrade. Default: 0, because spare GPU capacity is often not available."""
    max_unavailable: int = Field(default=1, ge=0, le=100)
    """Maximum nodes that are unavailable at the same time."""
    drain_timeout_min: int | None = Field(default=None, ge=1, le=1440)
    """Maximum time to drain a node."""

    @model_validator(mode="after")
    def _something_moves(self) -> Self:
        if self.max_surge == 0 and self.max_unavailable == 0:
            raise ValueError("with max_surge 0 and max_unavailable 0 no node can be replaced; increase one of them")
        return self


class Timeouts(StrictModel):
    """How long Pulumi waits. Default: depends on the size of the pool."""

    create_min: int | None = Field(default=None, ge=20, le=1440)
    """Minutes to create the pool."""
    update_min: int | None = Field(default=None, ge=20, le=1440)
    """Minutes to update the pool, which may replace all nodes."""
    delete_min: int | None = Field(default=None, ge=20, le=1440)
    """Minutes to delete the pool."""


_TEMPLATE_ID = r"^lt-([0-9a-f]{8}|[0-9a-f]{17})$"


class TemplateVersion(StrictModel):
    """Launch template that gpupools uses but does not manage."""

    id: str = Field(json_schema_extra={"pattern": _TEMPLATE_ID})
    """ID of the launch template, `lt-…`."""
    version: int = Field(ge=1)
    """Version of the launch template. EKS replaces all nodes when it changes."""

    @field_validator("id")
    @classmethod
    def _is_an_id(cls, given: str) -> str:
        if not re.fullmatch(_TEMPLATE_ID, given):
            fix = "write lt- and 8 or 17 digits or letters from a to f"
            raise ValueError(f"got {shown(given)}, which is not a launch template ID; {fix}")
        return given


class Adopt(StrictModel):
    """Existing node pool to import."""

    name: str = Field(min_length=1, max_length=63)
    """Name of the node pool in the cloud. The pool keeps it while `adopt` is set."""
    launch_template: TemplateVersion | None = None
    """EKS: launch template of the node group. Omit it if EKS created the launch template."""
    gpu_taint: str | None = None
    """Value of the taint `nvidia.com/gpu` that the nodes keep instead of `present`.

    Once it is removed, pods that tolerate only this value (operator `Equal`) no longer fit.
    """
    keep: list[Annotated[str, Field(min_length=1, max_length=200)]] = []
    """Wire names of inputs that keep their current value even if the pool's keys differ.

    Only for inputs whose change replaces nodes. Inputs that the pool's keys do not set are always kept.
    """

    @field_validator("gpu_taint")
    @classmethod
    def _is_a_value(cls, given: str | None) -> str | None:
        parse_taint(str(replace(GPU_TAINT, value=given or "")))
        return given


Overrides = dict[str, dict[str, JsonDict]]
"""Cloud → resource (`NodeGroup`, `LaunchTemplate`, `AgentPool`, `NodePool`) → input by wire name → value."""


def given_settings(spec: Any) -> dict[str, Path]:
    """Return the settings of a pool that differ from their defaults: name (`capacity.spot`, `disk.type`) to key path.

    Names are those of `SETTINGS`. Every cloud states for each whether it supports it.
    """
    settings: dict[str, Path] = {}
    fields = type(spec).model_fields
    for key in SETTING_KEYS:
        value, default = getattr(spec, key), fields[key].default
        if value is default or value == default or (key == "startup_taint" and not value):
            continue
        if key == "capacity":
            settings[f"capacity.{value.mode}"] = ("capacity", "mode")
            if getattr(value, "max_price_usd_per_hour", None) is not None:
                settings["capacity.max_price_usd_per_hour"] = ("capacity", "max_price_usd_per_hour")
        elif isinstance(default, BaseModel):
            for inner in type(value).model_fields:
                if getattr(value, inner) != getattr(default, inner):
                    settings[f"{key}.{inner}"] = (key, inner)
        else:
            settings[key] = (key,)
    if spec.nodes.fixed is not None:
        settings["nodes.fixed"] = ("nodes", "fixed")
    return settings


SETTING_KEYS = (
    "capacity",
    "zones",
    "image",
    "driver",
    "disk",
    "network",
    "security",
    "upgrade",
    "auto_repair",
    "startup_taint",
    "tags",
    "protect",
    "renamed_from",
    "first_name",
    "adopt",
    "timeouts",
    "overrides",
)
"""Keys of a pool whose support differs by cloud."""

SETTING_MODELS: dict[str, type[StrictModel]] = {
    "image": NodeImage,
    "disk": Disk,
    "network": Network,
    "security": Security,
    "upgrade": Upgrade,
    "timeouts": Timeouts,
}

SETTINGS: tuple[str, ...] = (
    *(f"capacity.{mode}" for mode in ("spot", "reservation", "capacity-block", "flex-start", "queued")),
    "capacity.max_price_usd_per_hour",
    *(f"{key}.{field}" for key, model in SETTING_MODELS.items() for field in model.model_fields),
    *(key for key in SETTING_KEYS if key != "capacity" and key not in SETTING_MODELS),
    "nodes.fixed",
)
"""Names of all settings. The `settings` of each cloud have an entry for each."""


KUBELET_KEYS = {each.name: key for each in fields(KubeletSettings) for key in SETTINGS if key.endswith(f".{each.name}")}
"""Keys of the stack file by their field of `KubeletSettings`."""


class InputKeys(NamedTuple):
    """A cell of the column `key` of `inputs.csv`."""

    fields: list[str]
    """Fields of a plan that become the input."""
    settings: list[str]
    """Keys of the stack file that do, as far as they are named."""
    direct: dict[str, str]
    """Fields that are the value of a key of the stack file: written `field=key`, or the key alone."""


def input_keys(cell: str) -> InputKeys:
    """Return what a cell of the column `key` of `inputs.csv` says."""
    parts = [part.rpartition("=") for part in cell.split(";") if part]
    settings = [key for _, _, key in parts if key in SETTINGS]
    fields = [field or key for field, _, key in parts if field or "." not in key or key not in SETTINGS]
    if not fields:
        return InputKeys(settings, settings, {key: key for key in settings})
    return InputKeys(fields, settings, {field: key for field, _, key in parts if field})
