"""Reads GPU software back from declared Helm charts and workloads. Pure, and never raises.

Knows which chart or image installs which piece, and where its values name versions. `policies.software_conflicts` finds
pieces with several owners.
"""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpupools.common.csv_rows import csv_rows
from gpupools.common.json_types import JsonObject
from gpupools.plan.hami import HAMI, HAMI_LABEL
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.readback.inputs import at, group_and_kind, mapping
from gpupools.software.charts import CONTROLLERS, value_seen

DRIVER, TOOLKIT, PLUGIN, CLAIMS = "driver", "container toolkit", "device plugin", "DRA driver"
"""The pieces that must have one owner on a node; of the last two, which both allocate GPUs, a node has only one."""

_ALL_OPERANDS = "nvidia.com/gpu.deploy.operands"
_OPERANDS = {
    DRIVER: "nvidia.com/gpu.deploy.driver",
    TOOLKIT: "nvidia.com/gpu.deploy.container-toolkit",
    PLUGIN: "nvidia.com/gpu.deploy.device-plugin",
    CLAIMS: "nvidia.com/gpu.deploy.dra-driver",
}
OPERAND_LABELS = (_ALL_OPERANDS, *_OPERANDS.values())
"""Node labels that disable operands of the GPU Operator if they are `false`.

https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html
"""


@dataclass
class _Chart:
    component: str = ""
    """Name in `data/version_floors.csv`; empty when there is none."""
    image_decides: bool = False
    """True if the image tag decides the version, not the chart."""
    installs: dict[str, str] = field(default_factory=dict)
    """Piece to the value that disables it; empty if none does."""
    parts: list[tuple[str, str]] = field(default_factory=list)
    """Component of each piece whose version a value can change, and the path of the value."""
    needs: dict[str, str] = field(default_factory=dict)
    """Piece to a value that must also be enabled, as it is by default."""
    pods: str = ""
    """Value with the node selector and the affinity; empty if they are at the top level."""


_OFF_BY_DEFAULT = frozenset({"gpuCluster.deployCR"})
"""With it, the operator serves ResourceClaims instead of `clusterPolicy.deployCR`; only one works at a time.

https://github.com/NVIDIA/gpu-operator tag v26.7.0, templates/validations.yaml
"""
_ALLOCATES_GPUS = "gpu-kubelet-plugin"
"""The DRA driver's program for GPUs; the same image has one for Multi-Node NVLink, which is not a second owner."""


def _charts() -> Iterator[tuple[str, _Chart]]:
    for name, rows in groupby(csv_rows(_FOLDER / "gpu_charts.csv"), lambda row: row["chart"]):
        chart = _Chart()
        for row in rows:
            match row["use"]:
                case "installs":
                    chart.installs[row["name"]] = row["value"]
                case "needs":
                    chart.needs[row["name"]] = row["value"]
                case "part":
                    chart.parts.append((row["name"], row["value"]))
                case "pods":
                    chart.pods = row["value"]
                case version:
                    chart.component, chart.image_decides = row["name"], version == "image version"
        yield name, chart


_FOLDER = Path(__file__).parent
# Value paths: the charts' own values.yaml, https://github.com/NVIDIA/gpu-operator/tree/main/deployments/gpu-operator,
# https://github.com/NVIDIA/k8s-device-plugin/tree/main/deployments/helm/nvidia-device-plugin,
# https://github.com/NVIDIA/dcgm-exporter/tree/main/deployment, https://github.com/Project-HAMi/HAMi/tree/master/charts/hami,
# https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu.
CHARTS: Mapping[str, _Chart] = MappingProxyType(dict(_charts()))
# nvidia/cuda and k8s/cuda-sample are what pods run rather than what nodes need: no piece, but as unknown tomorrow
# without a tag. The last two are Google's installers for Container-Optimized OS, whose tags are no driver versions:
# https://github.com/GoogleCloudPlatform/container-engine-accelerators, nvidia-driver-installer/cos.
IMAGES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {row["image"]: (row["component"], row["piece"]) for row in csv_rows(_FOLDER / "gpu_images.csv")}
)
"""Image repository (its last parts) to component and piece."""
_STAYS = frozenset(product(("apps", "extensions"), ("DaemonSet", "Deployment", "StatefulSet", "ReplicaSet")))
_STAYS |= {("core", "ReplicationController"), ("", "ReplicationController")}
_RUNS_ONCE = frozenset({*product(("batch",), ("Job", "CronJob")), *product(("core", ""), ("Pod", "PodTemplate"))})
"""Workloads whose images are judged, but that own no piece of a node's software."""
_POD_AT = {"Pod": "spec", "PodTemplate": "template.spec", "CronJob": "spec.jobTemplate.spec.template.spec"}
_HELM = frozenset({("helm.sh", "Release"), ("helm.sh", "Chart")})


@dataclass(frozen=True)
class Placement:
    """Nodes that a workload selects by its values."""

    labels: Mapping[str, str] = field(default_factory=dict)
    """Node selector."""
    terms: tuple[Mapping[str, frozenset[str] | None], ...] = ()
    """Required node affinity, one term of which must hold: label to the values it may have, None for any."""
    narrowed: bool = False
    """True if other conditions limit the nodes further, which known labels cannot prove."""

    @property
    def key(self) -> Hashable:
        """A key that is equal for placements on the same nodes."""
        return frozenset(self.labels.items()), tuple(frozenset(term.items()) for term in self.terms), self.narrowed

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Say whether it certainly runs on nodes with these labels; unknown labels count as no."""
        if self.narrowed or any(labels.get(key) != value for key, value in self.labels.items()):
            return False
        return not self.terms or any(
            all(key in labels and (values is None or labels[key] in values) for key, values in term.items())
            for term in self.terms
        )


@dataclass(frozen=True, kw_only=True)
class DeclaredSoftware:
    """A declared chart or workload with GPU software."""

    kind: str
    """The chart's name, or the image's repository."""
    is_chart: bool
    chart: str = ""
    """The chart as written: a name, an OCI reference, a URL or a path."""
    version: Any = None
    repository: Any = None
    devel: Any = None
    values: JsonObject = field(default_factory=dict)
    images: tuple[tuple[str, str], ...] = ()
    """Path and image of each container, for a workload."""
    installs: tuple[str, ...] = ()
    """`DRIVER`, `TOOLKIT`, `PLUGIN`, `CLAIMS`; without those that a value disables."""
    unsure: tuple[str, ...] = ()
    """Pieces whose switch is unknown at preview."""
    placement: Placement = Placement()

    def switch(self, piece: str) -> str:
        """Return the value that disables a piece; empty if the whole chart must be removed."""
        chart = CHARTS.get(self.kind)
        return chart.installs.get(piece, "") if chart else ""

    def lands_on(self, piece: str, labels: Mapping[str, str]) -> bool:
        """Say whether this certainly installs a piece on nodes with these labels."""
        if piece not in self.installs or not self.placement.selects(labels):
            return False
        if self.kind != "gpu-operator":
            return True
        return "false" not in (labels.get(_ALL_OPERANDS), labels.get(_OPERANDS[piece]))


def is_software(type_token: str) -> bool:
    """Say whether resources of a type can have GPU software."""
    return _group_and_kind(type_token) in _HELM | _STAYS | _RUNS_ONCE


def _group_and_kind(type_token: str) -> tuple[str, str]:
    return group_and_kind(type_token.removesuffix("Patch"))


def read_software(type_token: str, properties: JsonObject) -> DeclaredSoftware | None:
    """Read a Helm release, a chart or a workload; None without GPU software."""
    if not is_software(type_token) or not isinstance(properties, Mapping):
        return None
    if _group_and_kind(type_token) in _HELM:
        return _chart(properties)
    return _workload(type_token, properties)


def _chart(properties: JsonObject) -> DeclaredSoftware | None:
    written = properties.get("chart")
    if not isinstance(written, str):
        return None
    name = chart_name(written)
    known = CHARTS.get(name)
    if known is None:
        return None
    given = properties.get("values")
    values = mapping(given)
    options = properties.get("repositoryOpts")
    found = {piece: _is_enabled(known, piece, values) for piece in known.installs}
    late = given is UNKNOWN
    pods = at(values, known.pods) if known.pods else values
    if name == HAMI:  # its device plugin has a key of its own, which Helm merges with the chart's
        own = at(values, "devicePlugin.nvidiaNodeSelector")
        pods = {"nodeSelector": {HAMI_LABEL: "on", **own} if isinstance(own, Mapping) else own or {HAMI_LABEL: "on"}}
    return DeclaredSoftware(
        kind=name,
        is_chart=True,
        chart=written,
        version=properties.get("version"),
        repository=options.get("repo") if isinstance(options, Mapping) else options,
        devel=properties.get("devel"),
        values=values,
        installs=tuple(piece for piece, on in found.items() if on is True and not late),
        unsure=tuple(piece for piece, on in found.items() if on is UNKNOWN or late),
        placement=_placement(pods) if name != "gpu-operator" else Placement(),
    )


def _is_enabled(chart: _Chart, piece: str, values: JsonObject) -> Any:
    """Say whether a chart's values enable a piece; `UNKNOWN` if that is not known yet."""
    path = chart.installs[piece]
    wanted = [switch for switch in (path, chart.needs.get(piece, "")) if switch]
    found = [(at(values, switch), switch not in _OFF_BY_DEFAULT) for switch in wanted]
    on = [default if value is None else value for value, default in found]
    if any(value is False for value in on):
        return False
    return UNKNOWN if any(value is UNKNOWN for value in on) else True


def tolerations_of_controllers(software: DeclaredSoftware) -> Iterator[tuple[str, list[JsonObject]]]:
    """Yield path and tolerations of each controller of a chart; unknown values are left out."""
    for controller in CONTROLLERS:
        switch = at(software.values, controller.runs) if controller.runs else None
        if controller.chart != software.kind or switch not in (None, True):
            continue
        given = at(software.values, controller.tolerations)
        listed = value_seen(controller.chart, {}, controller.tolerations) if given is None else given
        plain = (str, int, float, type(None))
        if isinstance(listed, list) and all(
            isinstance(one, Mapping) and all(isinstance(value, plain) for value in one.values()) for one in listed
        ):
            yield controller.tolerations, listed


def chart_name(chart: str) -> str:
    """Return the bare name of a chart: of a name, `repo/name`, an OCI reference, a URL or a path."""
    name = chart.rstrip("/").rsplit("/", 1)[-1]
    name = re.sub(r"\.(?:tgz|tar\.gz)$", "", name)
    return re.sub(r"(?s)[-@:]v?\d+\.\d+\.\d+.*", "", name, count=1)


def _workload(type_token: str, properties: JsonObject) -> DeclaredSoftware | None:
    path = _POD_AT.get(type_token.rpartition(":")[2].removesuffix("Patch"), "spec.template.spec")
    pod = at(properties, path)
    if not isinstance(pod, Mapping):
        return None
    images: list[tuple[str, str]] = []
    pieces: dict[str, None] = {}
    for kind in ("containers", "initContainers"):
        listed = pod.get(kind)
        for index, container in enumerate(listed if isinstance(listed, list) else ()):
            image = container.get("image") if isinstance(container, Mapping) else None
            if isinstance(image, str) and known_image(image):
                images.append((f"{path}.{kind}[{index}].image", image))
                piece = IMAGES[known_image(image)][1]
                if piece and (piece != CLAIMS or _runs_program(container, _ALLOCATES_GPUS)):
                    pieces[piece] = None
    if not images:
        return None
    return DeclaredSoftware(
        kind=known_image(images[0][1]),
        is_chart=False,
        images=tuple(images),
        installs=tuple(pieces) if _group_and_kind(type_token) in _STAYS else (),
        placement=_placement(pod),
    )


def _runs_program(container: JsonObject, program: str) -> bool:
    """Say whether a container's command line names a program."""
    lines = (container.get("command"), container.get("args"))
    words = [word for line in lines if isinstance(line, list) for word in line if isinstance(word, str)]
    return any(program in word for word in words)


def split_image(image: str) -> tuple[str, str, str]:
    """Split an image into repository, tag and digest."""
    rest, _, digest = image.partition("@")
    path, colon, tag = rest.rpartition(":")
    return (path, tag, digest) if colon and "/" not in tag else (rest, "", digest)


def known_image(image: str) -> str:
    """Return an image's name as `IMAGES` has it, whatever registry it comes from; empty for any other."""
    last = "/".join(split_image(image)[0].split("/")[-2:])
    return last if last in IMAGES else ""


def _placement(values: Any) -> Placement:
    if values is UNKNOWN:
        return Placement(narrowed=True)
    if not isinstance(values, Mapping):
        return Placement()
    selector, affinity = values.get("nodeSelector"), values.get("affinity")
    if selector is UNKNOWN or affinity is UNKNOWN:
        return Placement(narrowed=True)
    wanted = mapping(selector)
    named = {key: value for key, value in wanted.items() if isinstance(value, str)}
    terms = _terms(affinity) if affinity else ()
    return Placement(named, terms or (), terms is None or len(named) < len(wanted))


def _terms(affinity: Any) -> tuple[Mapping[str, frozenset[str] | None], ...] | None:
    """Read a required node affinity of In and Exists; None for any other, which labels seen here cannot prove."""
    listed = at(affinity, "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    if not isinstance(listed, list) or set(affinity) != {"nodeAffinity"}:
        return None
    terms = []
    for term in listed:
        expressions = at(term, "matchExpressions")
        if not isinstance(expressions, list) or set(term) != {"matchExpressions"}:
            return None
        found: dict[str, frozenset[str] | None] = {}
        for expression in expressions:
            key, operator, values = (at(expression, name) for name in ("key", "operator", "values"))
            known = isinstance(key, str) and key not in found
            if known and operator == "In" and isinstance(values, list):
                found[key] = frozenset(value for value in values if isinstance(value, str))
            elif known and operator == "Exists":
                found[key] = None
            else:
                return None
        terms.append(found)
    return tuple(terms) or None
