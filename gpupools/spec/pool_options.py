"""What else a reader may set on a pool: capacity, image, disk, network, security, upgrades. Portable where the idea is.

Every key here either changes what each cloud is asked for or is refused there with the reason; none is ignored.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

from gpupools.common.errors import Path, shown
from gpupools.common.json_types import JsonDict
from gpupools.common.model import StrictModel


class OnDemand(StrictModel):
    """Ordinary machines, paid while they run."""

    mode: Literal["on-demand"] = "on-demand"


class Spot(StrictModel):
    """Machines the cloud may take back at short notice."""

    mode: Literal["spot"]
    max_price_usd_per_hour: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Evict above this price; left out: up to the on-demand price. Azure only."""


class Reservation(StrictModel):
    """Machines reserved beforehand."""

    mode: Literal["reservation"]
    name: str = Field(min_length=1)
    """EC2 capacity reservation (`cr-…`) or resource group ARN; Azure capacity reservation group id; GCE reservation."""


class CapacityBlock(StrictModel):
    """An EC2 Capacity Block for ML: machines reserved for a fixed time."""

    mode: Literal["capacity-block"]
    name: str = Field(min_length=1)
    """The block's capacity reservation, `cr-…`."""


class FlexStart(StrictModel):
    """Google's flex-start: machines that come when there is room, for at most seven days."""

    mode: Literal["flex-start"]
    max_run_s: int | None = Field(default=None, ge=600, le=604800)
    """Longest time a node lives."""


class Queued(StrictModel):
    """Google's queued provisioning: all machines of a job at once, or none yet."""

    mode: Literal["queued"]
    max_run_s: int | None = Field(default=None, ge=600, le=604800)
    """Longest time a node lives."""


Capacity = Annotated[
    OnDemand | Spot | Reservation | CapacityBlock | FlexStart | Queued,
    Field(discriminator="mode"),
]


_FAMILY = r"[a-z][a-z0-9-]{0,29}"


class NodeImage(StrictModel):
    """The node image."""

    family: str | None = None
    """The cloud's own name, or `custom`; left out: its image for the chosen software."""
    id: str | None = Field(default=None, min_length=1)
    """Image id of `custom`, e.g. `ami-0abc…`; who brings the driver is then the pool's `software`."""
    fips: bool = False
    """The FIPS 140 variant, where there is one with NVIDIA's driver."""

    @field_validator("family")
    @classmethod
    def _is_a_name(cls, family: str | None) -> str | None:
        if family is not None and not re.fullmatch(_FAMILY, family):
            small = family.lower() if re.fullmatch(_FAMILY, family.lower()) else "the name of an image in small letters"
            raise ValueError(f"got {shown(family)}; write {small}")
        return family

    @model_validator(mode="after")
    def _custom_has_an_id(self) -> Self:
        if (self.family == "custom") != (self.id is not None):
            raise ValueError("id goes with family: custom, and family: custom needs an id; give both or neither")
        return self


class Disk(StrictModel):
    """Each node's disks; their size is the pool's `disk_gib`."""

    type: str | None = Field(default=None, min_length=1)
    """The cloud's own name: `gp3`, `io2`; `Managed`, `Ephemeral`; `pd-balanced`, `hyperdisk-balanced`."""
    encryption_key: str | None = Field(default=None, min_length=1)
    """Customer key: KMS key ARN, or Cloud KMS key name. Disks are encrypted with the cloud's key without it."""
    local_nvme: Literal["raid0", "none"] | None = None
    """`raid0` puts containerd and kubelet on the machine's own NVMe; left out: what the cloud's image does."""


class GpuNetwork(StrictModel):
    """A network of the GPUs' own interfaces."""

    network: str = Field(min_length=1)
    """VPC network: its name, or `projects/…/global/networks/…` of another project's."""
    subnetwork: str = Field(min_length=1)
    """Subnetwork of it in the cluster's region: its name, or `projects/…/regions/…/subnetworks/…`."""


class Network(StrictModel):
    """How nodes reach each other and the world."""

    rdma: bool = False
    """EFA, InfiniBand or GPUDirect interfaces of the instance type, all of them."""
    compute_domains: bool = False
    """NVLink over several nodes (GB200, GB300): pods of one ComputeDomain reach each other's GPU memory."""
    placement: Literal["compact"] | None = None
    """Put nodes close together; needs one zone."""
    security_group_ids: list[str] = []
    """EC2 security groups of the nodes' interfaces; with any, EKS no longer adds the cluster's own."""
    gpu_networks: list[GpuNetwork] = []
    """GKE, A3 High: a network for each GPUDirect-TCPX interface, in their order; other machines' networks GKE makes."""
    max_pods: int | None = Field(default=None, ge=1)
    """Most pods of one node: 8 to 256 on EKS and GKE, 10 to 250 on AKS."""


class Security(StrictModel):
    """Hardening beyond the defaults, and the few defaults that may be loosened."""

    secure_boot: bool = False
    """Refuse unsigned kernel modules; only where the driver in use is signed."""
    imds_hop_limit: int = Field(default=1, ge=1, le=2)
    """EC2 metadata: 1 keeps pods away from the node's role; 2 lets them read it."""


class Upgrade(StrictModel):
    """How the cloud replaces nodes when image or version change."""

    strategy: Literal["surge", "blue-green"] = "surge"
    max_surge: int = Field(default=0, ge=0, le=100)
    """Extra nodes during an upgrade; 0, since a spare GPU node is often not to be had."""
    max_unavailable: int = Field(default=1, ge=0, le=100)
    """Nodes that may be away at the same time."""
    drain_timeout_min: int | None = Field(default=None, ge=1, le=1440)
    """Longest wait for pods to leave a node."""

    @model_validator(mode="after")
    def _something_moves(self) -> Self:
        if self.max_surge == 0 and self.max_unavailable == 0:
            raise ValueError("max_surge 0 with max_unavailable 0 lets no node be replaced; raise one of them")
        return self


class Timeouts(StrictModel):
    """How long Pulumi waits; left out: what the size of the pool calls for."""

    create_min: int | None = Field(default=None, ge=20, le=1440)
    """Minutes for making the pool."""
    update_min: int | None = Field(default=None, ge=20, le=1440)
    """Minutes for a change, in which every node may be replaced."""
    delete_min: int | None = Field(default=None, ge=20, le=1440)
    """Minutes for deleting it."""


_TEMPLATE_ID = r"^lt-([0-9a-f]{8}|[0-9a-f]{17})$"


class TemplateVersion(StrictModel):
    """A launch template that stays with who made it."""

    id: str = Field(json_schema_extra={"pattern": _TEMPLATE_ID})
    """As EC2 calls it, `lt-…`."""
    version: int = Field(ge=1)
    """Its version. EKS replaces every node to bring another one in."""

    @field_validator("id")
    @classmethod
    def _is_an_id(cls, given: str) -> str:
        if not re.fullmatch(_TEMPLATE_ID, given):
            fix = "write what EC2 calls it: lt- and 8 or 17 digits or letters from a to f"
            raise ValueError(f"got {shown(given)}, which is no id of a launch template; {fix}")
        return given


class Adopt(StrictModel):
    """A pool that was made by other means, which Pulumi takes over as it is."""

    name: str = Field(min_length=1, max_length=63)
    """What the cloud calls it. It keeps that name as long as this stands here."""
    launch_template: TemplateVersion | None = None
    """On EKS: the launch template the node group has; left out where EKS made one of its own."""
    keep: list[Annotated[str, Field(min_length=1, max_length=200)]] = []
    """Inputs of the node pool, by wire name, that stay as they are though the pool's keys say otherwise.

    Only what cannot be changed without replacing nodes. Whatever the pool's keys do not say stays in any case.
    """


Overrides = dict[str, dict[str, JsonDict]]
"""Cloud → resource (`NodeGroup`, `LaunchTemplate`, `AgentPool`, `NodePool`) → input by wire name → value."""


def given_settings(spec: Any) -> dict[str, Path]:
    """Return the settings of a pool that differ from their defaults: name (`capacity.spot`, `disk.type`) to key path.

    Every name is one of `setting_names(type(spec))`, and every cloud says of each whether it takes it.
    """
    found: dict[str, Path] = {}
    fields = type(spec).model_fields
    for key in SETTING_KEYS:
        value, default = getattr(spec, key), fields[key].default
        if value is default or value == default:
            continue
        if key == "capacity":
            found[f"capacity.{value.mode}"] = ("capacity", "mode")
            if getattr(value, "max_price_usd_per_hour", None) is not None:
                found["capacity.max_price_usd_per_hour"] = ("capacity", "max_price_usd_per_hour")
        elif isinstance(default, BaseModel):
            for inner in type(value).model_fields:
                if getattr(value, inner) != getattr(default, inner):
                    found[f"{key}.{inner}"] = (key, inner)
        else:
            found[key] = (key,)
    if spec.nodes.fixed is not None:
        found["nodes.fixed"] = ("nodes", "fixed")
    return found


SETTING_KEYS = (
    "capacity",
    "zones",
    "image",
    "disk",
    "network",
    "security",
    "upgrade",
    "auto_repair",
    "tags",
    "protect",
    "renamed_from",
    "first_name",
    "adopt",
    "timeouts",
    "overrides",
)
"""The keys of a pool whose support differs by cloud."""

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
"""Every setting by name; each cloud's `settings` has an entry for each."""
