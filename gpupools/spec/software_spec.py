"""What a reader may write about the GPU software of a cluster (`clusters.<key>.runtime`), and who may share a pool."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from gpupools.common.errors import Path, shown
from gpupools.common.model import ConsistentModel, StrictModel
from gpupools.common.taints import LABEL_VALUE, QUALIFIED_NAME, Taint, parse_taint

ChartName = Literal["nvidia-device-plugin", "gpu-operator", "dcgm-exporter", "dra-driver-nvidia-gpu"]
"""The charts whose version a reader may choose."""

InstalledChart = Literal[
    "nvidia-device-plugin", "gpu-operator", "dcgm-exporter", "dra-driver-nvidia-gpu", "aws-efa-k8s-device-plugin"
]
"""The charts a plan may install."""


def _label(key: str) -> str:
    if not QUALIFIED_NAME.fullmatch(key):
        raise ValueError(f"{shown(key)} is no label key; use a qualified name such as 'example.com/team'")
    return key


def _label_value(text: str) -> str:
    if not LABEL_VALUE.fullmatch(text):
        raise ValueError(f"{shown(text)} is no label value; use at most 63 letters, digits, '-', '_' and '.'")
    return text


# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names
_NAME = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"


def _name(text: str) -> str:
    if not re.fullmatch(_NAME, text):
        raise ValueError(f"{shown(text)} cannot be this name; use at most 63 lower-case letters, digits and '-'")
    return text


def _version(text: str) -> str:
    if not re.fullmatch(r"v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}", text):
        raise ValueError(f"{shown(text)} is no exact release; write three numbers such as '26.7.0'")
    return text


# How a reference begins that is no path on Docker Hub: https://github.com/distribution/reference, normalize.go. Upper
# case is allowed in a host, but in no path.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"(?:(?:{_LABEL}\.)+{_LABEL}|{_LABEL}(?=:)|localhost)(?::[0-9]{{1,5}})?"
_PATH = r"(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)"
_REGISTRY = rf"{_HOST}{_PATH}{{0,10}}"


def _registry(text: str) -> str:
    if "://" in text:
        raise ValueError("got an address with ://; leave what is before the host out, images are always pulled by TLS")
    if "@" in text:  # what is before it may be a password, so it is not repeated
        raise ValueError("has a user in it; write the host alone, and name a Secret under pull_secrets")
    if not re.fullmatch(_REGISTRY, text):
        raise ValueError(
            f"{shown(text)} is no registry; write its host, which has a dot or a port, and the path below it without "
            "a tag: 'mirror.example.com/gpu'"
        )
    return text


_OCI = rf"oci://{_HOST}{_PATH}{{1,10}}"
_REPOSITORY = rf"https://{_HOST}(?:/[A-Za-z0-9._~-]+)*/?"


def _chart_source(text: str) -> str:
    if "@" in text:
        raise ValueError("has a user in it; log Helm in where Pulumi runs, and write the host alone")
    if not re.fullmatch(_OCI, text) and not re.fullmatch(_REPOSITORY, text):
        raise ValueError(
            f"{shown(text)} is no source of charts; write oci://<host>/<path>/<chart> of a registry, or "
            "https://<host>/<path> of a repository with an index.yaml"
        )
    return text


def _cpu_taint(value: object) -> Taint:
    if isinstance(value, Taint):
        return value
    if not isinstance(value, str):
        raise ValueError(f"got {shown(value)}; write a taint as text, e.g. 'CriticalAddonsOnly=true:NoSchedule'")
    return parse_taint(value)


def _secret_name(text: str) -> str:
    # https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
    if len(text) > 253 or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", text):
        raise ValueError(f"{shown(text)} is no name of a Secret; use lower-case letters, digits, '-' and '.'")
    return text


def _digest(text: str) -> str:
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", text):
        raise ValueError(f"{shown(text)} is no digest; write 'sha256:' and 64 digits of 0-9 and a-f")
    return text


def _kubernetes(text: str) -> str:
    if not re.fullmatch(r"1\.[1-9][0-9](?:\.[0-9]{1,3})?", text):
        raise ValueError(f"{shown(text)} is no version of Kubernetes; write for example '1.34'")
    return text


Name = Annotated[str, AfterValidator(_name)]
"""A DNS label: a namespace, a team."""


class ExistingSoftware(StrictModel):
    """Software the team runs already."""

    name: str = Field(min_length=1, max_length=100)
    """How people know it: `kube-system/nvidia-device-plugin-daemonset`, or `eksctl` for what eksctl installs."""
    node_selector: dict[Annotated[str, AfterValidator(_label)], Annotated[str, AfterValidator(_label_value)]] = {}
    """The labels its DaemonSet asks for; left out: it runs on every GPU node."""

    @property
    def namespace(self) -> str:
        """The namespace, where the name says one: `kube-system` of `kube-system/nvidia-device-plugin-daemonset`."""
        first, slash, _ = self.name.partition("/")
        return first if slash and re.fullmatch(_NAME, first) else ""


class ExistingDraDriver(ExistingSoftware):
    """NVIDIA's DRA driver, which has two halves."""

    serves: Literal["gpus", "compute-domains", "both"] = "gpus"
    """`compute-domains`: it hands out no GPUs, so that a device plugin may run beside it."""


class ExistingRdmaPlugin(ExistingSoftware):
    """A device plugin for RDMA interfaces."""

    resource: Annotated[str, AfterValidator(_label)] | None = None
    """What pods ask for; left out: `vpc.amazonaws.com/efa`, `rdma/ib`, or with `shared` `rdma/shared_ib`."""
    shared: bool = False
    """One unit is all interfaces of the node, as of the RDMA shared device plugin; otherwise each is a unit."""


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


Named = Annotated[ExistingSoftware, BeforeValidator(_named)]
"""A name, or a map with name and node_selector."""


class Existing(ConsistentModel):
    """GPU software that the cluster has and this tool did not install: ours is refused or left out because of it."""

    device_plugin: Named | None = None
    """A device plugin for NVIDIA GPUs."""
    gpu_operator: Named | None = None
    """A GPU Operator of the team's own."""
    node_feature_discovery: Named | None = None
    """Node Feature Discovery; a cluster has one, so it is used and ours left out."""
    dcgm_exporter: Named | None = None
    """A DCGM exporter; it is used and ours left out."""
    dra_driver: Annotated[ExistingDraDriver, BeforeValidator(_named)] | None = None
    """NVIDIA's DRA driver: a name, or a map that may also say what it serves."""
    rdma_plugin: Annotated[ExistingRdmaPlugin, BeforeValidator(_named)] | None = None
    """A device plugin for RDMA interfaces: on AKS that of the Network Operator, on EKS an EFA plugin of the team's."""
    cluster_autoscaler: Named | None = None
    """On EKS, what starts the nodes of pools that grow: Kubernetes' cluster-autoscaler."""
    node_monitoring_agent: Named | None = None
    """On EKS, the add-on eks-node-monitoring-agent, on whose word nodes of pools with `auto_repair` are replaced."""

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Refuse an operator that goes to some nodes only."""
        if self.gpu_operator is not None and self.gpu_operator.node_selector:
            what = "gpu_operator takes no node_selector, since an operator's daemons go to every GPU node"
            fix = "give its name alone: pools of other software are labelled to keep them off"
            yield ("gpu_operator", "node_selector"), f"{what}; {fix}"

    def named(self) -> Mapping[str, ExistingSoftware]:
        """Return what is given, by key."""
        return {key: value for key in type(self).model_fields if (value := getattr(self, key)) is not None}


class RuntimeSpec(ConsistentModel):
    """The GPU software of one cluster. Left out: what the pools need is installed, and nothing else."""

    management: Literal["managed", "external"] = "managed"
    """`external`: this tool installs nothing in the cluster, and `existing` names what serves the pools."""
    existing: Existing = Existing.model_construct()
    """GPU software the team already runs in the cluster."""
    kubernetes: Annotated[str, AfterValidator(_kubernetes)] | None = None
    """Version of the cluster, as text (`'1.34'`), for the floors of what is installed in it."""
    metrics: bool | None = None
    """DCGM exporter on every pool (true) or none (false); left out: on the pools that get software here anyway."""
    service_monitors: bool = False
    """The cluster has the ServiceMonitor CRD of the Prometheus operator, so the exporter's may be declared."""
    smoke_test: bool = False
    """A Job per pool that runs one CUDA sample on it; `up` waits, but for a Capacity Block or flex-start nodes."""
    trust_policy: bool = False
    """An admission policy that keeps pods of other namespaces off pools that name whom they `trust`."""
    system_namespaces: list[Name] | None = Field(default=None, max_length=64)
    """With `trust_policy`: namespaces of the cluster's own software, let through as `kube-system` is.

    Left out: daemons of every namespace that ask for no GPU are let through, and what their images ask for is not seen.
    Given, `[]` too: only daemons of these, and those whose containers all set NVIDIA_VISIBLE_DEVICES to `void`.
    """
    keep_crds: bool = False
    """Leave the GPU Operator's CRDs behind when it is deleted."""
    mig_reboot: bool | None = None
    """Let the MIG manager reboot a node whose GPUs do not take a new layout; left out: where the cloud needs it."""
    driver_auto_upgrade: bool | None = None
    """Let the GPU Operator bring another driver to nodes that run, node by node, which ends the pods there that have a
    GPU; false: a node gets it when its driver pod is deleted or it is made anew. Left out: true, where the operator
    brings the driver."""
    cpu_taints: list[Annotated[Taint, BeforeValidator(_cpu_taint)]] = Field(default=[], max_length=16)
    """Taints of nodes without GPUs that the charts' controllers and hook jobs may run on, e.g. of AKS's system pools.

    Left out: the GPU Operator needs a node without taints beside the GPU pools.
    """
    critical_pods: int | None = Field(default=None, ge=10, le=100_000)
    """GKE: most system-critical pods per namespace; left out: what the pools' largest size needs."""
    versions: dict[ChartName, Annotated[str, AfterValidator(_version)]] = {}
    """Other chart versions than the pinned ones, at or above the security floors with all they install. Of a newer one
    that this release does not know, `check` warns; an older one is refused."""
    registry: Annotated[str, AfterValidator(_registry)] | None = None
    """Registry that mirrors all images, with a path where it has one; each is there under its own path.

    `nvcr.io/nvidia/driver` is then pulled as `<registry>/nvidia/driver`; `gpupools images` lists what it must have.
    """
    pull_secrets: list[Annotated[str, AfterValidator(_secret_name)]] = Field(default=[], max_length=8)
    """Secrets with the registry's login, of type `kubernetes.io/dockerconfigjson`, in every namespace of the software.

    Nodes that log in themselves (ECR on EKS, an attached registry on AKS, Artifact Registry on GKE) need none.
    """
    chart_sources: dict[InstalledChart, Annotated[str, AfterValidator(_chart_source)]] = {}
    """Where a chart comes from, not its publisher: `oci://<host>/<path>/<chart>`, or `https://` of a repository."""
    digests: dict[str, Annotated[str, AfterValidator(_digest)]] = {}
    """Images that are pulled by digest, whatever a tag says later: the image as `gpupools images` has it → digest."""

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Refuse charts by other names, namespaces that no policy lets through, and what nobody would install."""
        for chart, source in self.chart_sources.items():
            if source.startswith("oci://") and not source.endswith(f"/{chart}"):
                # Helm looks for the chart's own name below it: https://helm.sh/docs/topics/registries/
                yield ("chart_sources", chart), f"got {shown(source)} for {chart}; end it with /{chart}"
        if self.system_namespaces is not None and not self.trust_policy:
            what = "are let through by trust_policy, which is off; turn it on or drop them"
            yield ("system_namespaces",), what
        if self.management == "external":
            wanted = {
                "kubernetes": self.kubernetes,
                "metrics": self.metrics,
                "service_monitors": self.service_monitors,
                "smoke_test": self.smoke_test,
                "trust_policy": self.trust_policy,
                "keep_crds": self.keep_crds,
                "mig_reboot": self.mig_reboot,
                "critical_pods": self.critical_pods,
                "driver_auto_upgrade": self.driver_auto_upgrade is not None,
                "cpu_taints": self.cpu_taints,
                "versions": self.versions,
                "registry": self.registry,
                "pull_secrets": self.pull_secrets,
                "chart_sources": self.chart_sources,
                "digests": self.digests,
            }
            what = "asks for software of ours, but management is external; drop one of them"
            yield from (((key,), what) for key, value in wanted.items() if value)


class Trust(ConsistentModel):
    """Who may use a pool: pods of one team's namespaces, of listed namespaces, or, with a reason, anyone's."""

    team: Name | None = None
    """The namespaces labelled `gpupools/trust: <team>`."""
    namespaces: list[Name] | None = Field(default=None, min_length=1, max_length=64)
    """These namespaces."""
    waiver: str | None = Field(default=None, min_length=10, max_length=200)
    """Why containers of anyone may share the GPUs of this pool, in words."""
    quota: int | None = Field(default=None, ge=1)
    """With `namespaces`: most units of the pool's resource each of them may request at a time.

    Kubernetes counts by the resource's name, so units of that name on other pools count too, and of the quotas of two
    pools in one namespace the smaller binds both, which is a warning.
    """

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Refuse more than one answer, or none, and a quota of no namespace."""
        given = [key for key in ("team", "namespaces", "waiver") if getattr(self, key) is not None]
        if len(given) != 1:
            yield (), f"got {' and '.join(given) or 'nobody'}; give one of team, namespaces and waiver"
        if self.quota is not None and self.namespaces is None:
            yield ("quota",), "is per namespace, and none is listed; give namespaces or leave it out"

    def mark(self, pool: str) -> str | None:
        """Return the value of the pool's label and taint `gpupools/trust`; None when anyone may use it."""
        if self.waiver is not None:
            return None
        # A team's name has no dot, so no team can be taken for a pool.
        return self.team if self.team is not None else f"pool.{pool}"
