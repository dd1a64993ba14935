"""Models of a cluster's GPU software (`clusters.<key>.runtime`), and of who may use a pool."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from gpupools.common.errors import Path, shown
from gpupools.common.model import ConsistentModel, StrictModel
from gpupools.common.taints import LABEL_VALUE, QUALIFIED_NAME, Taint, parse_taint

ChartName = Literal[
    "nvidia-device-plugin",
    "gpu-operator",
    "dcgm-exporter",
    "dra-driver-nvidia-gpu",
    "kueue",
    "volcano",
    "kai-scheduler",
    "hami",
]
"""Charts whose version can be set."""

InstalledChart = Literal[
    "nvidia-device-plugin",
    "gpu-operator",
    "dcgm-exporter",
    "dra-driver-nvidia-gpu",
    "aws-efa-k8s-device-plugin",
    "kueue",
    "volcano",
    "kai-scheduler",
    "hami",
]
"""Charts that a plan may install."""

_VolcanoWord = Literal[
    "gang", "priority", "drf", "preempt", "reclaim", "backfill", "bin-pack", "network-topology", "reservation"
]
VOLCANO_WORDS: tuple[_VolcanoWord, ...] = get_args(_VolcanoWord)
VolcanoWord = Annotated[_VolcanoWord, Field(description="What Volcano's scheduler does.")]


class TextForm(NamedTuple):
    """A check of text, by its pattern."""

    pattern: re.Pattern[str]
    wrong: str
    """What another text is not; then the fix."""

    def __call__(self, text: str) -> str:
        """Return a text of this form; raise ValueError for another one."""
        if not self.pattern.fullmatch(text):
            raise ValueError(f"{shown(text)} is not {self.wrong}")
        return text


_LABEL_KEY = TextForm(QUALIFIED_NAME, "a valid label key; use a qualified name such as 'example.com/team'")
_LABEL_VALUE = TextForm(LABEL_VALUE, "a valid label value; use at most 63 letters, digits, '-', '_' and '.'")
LabelKey = Annotated[str, AfterValidator(_LABEL_KEY)]
LabelValue = Annotated[str, AfterValidator(_LABEL_VALUE)]

# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-label-names
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")

_VERSION = TextForm(
    re.compile(r"v?[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}"), "an exact version; write three numbers such as '26.7.0'"
)
_KUBERNETES = TextForm(re.compile(r"1\.[1-9][0-9](?:\.[0-9]{1,3})?"), "a Kubernetes version; write for example '1.34'")
_DIGEST = TextForm(re.compile(r"sha256:[0-9a-f]{64}"), "a digest; write 'sha256:' and 64 hexadecimal digits")
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
_SECRET_NAME = TextForm(
    re.compile(r"(?=.{1,253}$)[a-z0-9]+(-+[a-z0-9]+)*(\.[a-z0-9]+(-+[a-z0-9]+)*)*"),
    "a valid Secret name; use lower-case letters, digits, '-' and '.'",
)


# References with a host, as opposed to paths on Docker Hub: https://github.com/distribution/reference, normalize.go.
# Upper case is allowed in a host but not in a path.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = rf"(?:(?:{_LABEL}\.)+{_LABEL}|{_LABEL}(?=:)|localhost)(?::[0-9]{{1,5}})?"
_PATH = r"(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)"
_REGISTRY = rf"{_HOST}{_PATH}{{0,10}}"


def _registry(text: str) -> str:
    if "://" in text:
        raise ValueError("got a URL; write the host without https://, images are always pulled with TLS")
    if "@" in text:  # the user part may contain a password, so it is not shown
        raise ValueError("contains a user; write the host alone, and set a Secret in pull_secrets")
    if not re.fullmatch(_REGISTRY, text):
        raise ValueError(
            f"{shown(text)} is not a registry; write a host with a dot or a port, and a path without a tag: "
            "'mirror.example.com/gpu'"
        )
    return text


_OCI = rf"oci://{_HOST}{_PATH}{{1,10}}"
_REPOSITORY = rf"https://{_HOST}(?:/[A-Za-z0-9._~-]+)*/?"


def _chart_source(text: str) -> str:
    if "@" in text:
        raise ValueError("contains a user; run helm registry login where Pulumi runs, and write the host alone")
    if not re.fullmatch(_OCI, text) and not re.fullmatch(_REPOSITORY, text):
        raise ValueError(
            f"{shown(text)} is not a chart source; write oci://<host>/<path>/<chart> for a registry, or "
            "https://<host>/<path> for a repository with an index.yaml"
        )
    return text


def written_taint(value: object) -> Taint:
    """Return a taint of a stack file; raise ValueError for anything but its text."""
    if isinstance(value, Taint):
        return value
    if not isinstance(value, str):
        raise ValueError(f"got {shown(value)}; write a taint as text, e.g. 'team=vision:NoSchedule'")
    return parse_taint(value)


def _off(text: str) -> str:
    if text != "off":
        raise ValueError(f"got {shown(text)}; write off, or a map of image to digest")
    return text


Name = Annotated[
    str, AfterValidator(TextForm(_NAME, "a valid name; use at most 63 lower-case letters, digits and '-'"))
]
"""A DNS label, such as a namespace or a team."""


class ExistingSoftware(StrictModel):
    """Software that already runs in the cluster."""

    name: str = Field(min_length=1, max_length=100)
    """Name of the software: `kube-system/nvidia-device-plugin-daemonset`, or `eksctl` if eksctl installs it."""
    node_selector: dict[LabelKey, LabelValue] = {}
    """Node selector of its DaemonSet. Default: it runs on all GPU nodes."""

    @property
    def namespace(self) -> str:
        """Namespace from the name, if it has one: `kube-system` of `kube-system/nvidia-device-plugin-daemonset`."""
        first, slash, _ = self.name.partition("/")
        return first if slash and _NAME.fullmatch(first) else ""


class ExistingDraDriver(ExistingSoftware):
    """NVIDIA's DRA driver, which serves GPUs, ComputeDomains or both."""

    serves: Literal["gpus", "compute-domains", "both"] = "gpus"
    """What the driver serves. With `compute-domains` it allocates no GPUs, so a device plugin may run beside it."""


class ExistingHami(ExistingSoftware):
    """HAMi. Its device plugin selects nodes by a label."""

    node_selector: dict[LabelKey, LabelValue] = {"gpu": "on"}
    """Node selector of its device plugin. Default: that of its chart."""


def _group_expression(text: str) -> str:
    # No other form, so that nothing runs an expression of a file.
    if re.fullmatch(
        r"\^(?:eks|aks)-(?:[a-z0-9-]+(?:\[0-9a-z\]\{4\})?|\([a-z0-9|-]+\))"
        r"-(?:\[0-9a-f-\]\+|\[0-9\]\+-vmss)\$",
        text,
    ):
        return text
    raise ValueError(f"got {shown(text)}; write a line that gpupools stacks shows, such as '^eks-…-[0-9a-f-]+$'")


class ExistingAutoscaler(ExistingSoftware):
    """Cluster Autoscaler, which scales node groups on EKS and AKS."""

    dynamic_resource_allocation: bool = False
    """Whether it runs with `--enable-dynamic-resource-allocation` and may read resource.k8s.io. Always from 1.35.2."""
    reads_node_groups: bool = False
    """Whether its role allows `eks:DescribeNodegroup`. Labels and taints of a pool are then not repeated as tags."""
    capacity_buffers: bool = False
    """Whether the CRD of CapacityBuffer is installed, and it runs (1.35 or later) with
    `--capacity-buffer-controller-enabled` and `--capacity-buffer-pod-injection-enabled`. Required for `nodes.spare`."""
    expander: Literal["priority"] | None = None
    """`priority` if it runs with `--expander=priority` (AKS: in the profile of the cluster). Required for pools with
    several steps: gpupools then writes their order to the ConfigMap that it reads, in its namespace."""
    other_orders: list[Annotated[list[Annotated[str, AfterValidator(_group_expression)]], Field(max_length=10)]] = []
    """Steps of other stacks on this cluster, as `gpupools stacks` shows them, for the ConfigMap of this stack."""


class ExistingRdmaPlugin(ExistingSoftware):
    """Device plugin for RDMA interfaces."""

    resource: LabelKey | None = None
    """Resource that pods request. Default: `vpc.amazonaws.com/efa`, `rdma/ib`, or with `shared` `rdma/shared_ib`."""
    shared: bool = False
    """One unit is all interfaces of the node, as with the RDMA shared device plugin. Otherwise each is one unit."""


def _software_from_name(value: object) -> object:
    if str(value).casefold() in ("yes", "no", "on", "off", "true", "false", "none"):
        raise ValueError(f"got {shown(value)}; write the name of the software, or remove the key if there is none")
    return {"name": value} if isinstance(value, str) else value


Named = Annotated[ExistingSoftware, BeforeValidator(_software_from_name)]
"""A name, or a map with `name` and `node_selector`."""


class Existing(ConsistentModel):
    """GPU software that already runs in the cluster. gpupools then omits or rejects its own."""

    device_plugin: Named | None = None
    """Device plugin for NVIDIA GPUs."""
    hami: Annotated[ExistingHami, BeforeValidator(_software_from_name)] | None = None
    """HAMi, which is used instead of a second one. Its device plugin serves nodes with the label `gpu: "on"`."""
    gpu_operator: Named | None = None
    """Your own GPU Operator."""
    node_feature_discovery: Named | None = None
    """Node Feature Discovery. It is used instead of a second one, because a cluster can only have one."""
    dcgm_exporter: Named | None = None
    """DCGM exporter, which is used instead of a second one."""
    dra_driver: Annotated[ExistingDraDriver, BeforeValidator(_software_from_name)] | None = None
    """NVIDIA's DRA driver: a name, or a map that may also have `serves`."""
    rdma_plugin: Annotated[ExistingRdmaPlugin, BeforeValidator(_software_from_name)] | None = None
    """Device plugin for RDMA interfaces: the Network Operator's on AKS, your own EFA plugin on EKS."""
    cluster_autoscaler: Annotated[ExistingAutoscaler, BeforeValidator(_software_from_name)] | None = None
    """Cluster Autoscaler on EKS: a name, or a map that also has `dynamic_resource_allocation`, `reads_node_groups` or
    `expander`. AKS, which has its own: only for pools with several steps."""
    karpenter: Named | None = None
    """Karpenter, EKS Auto Mode or AKS node auto-provisioning, which scale only nodes that they make themselves."""
    scheduler: Named | None = None
    """The `scheduler`, which you install yourself. gpupools then declares only its objects."""
    kai_resource_isolator: Named | None = None
    """kai-resource-isolator, which limits the memory of pods on pools with `memory: hami`."""
    node_monitoring_agent: Named | None = None
    """EKS: the add-on eks-node-monitoring-agent, which reports unhealthy nodes for `auto_repair`."""

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Reject a GPU Operator that runs only on some nodes."""
        if self.gpu_operator is not None and self.gpu_operator.node_selector:
            what = "gpu_operator has no node_selector, because the operator's daemons run on every GPU node"
            fix = "write the name alone: labels keep its daemons off pools with other software"
            yield ("gpu_operator", "node_selector"), f"{what}; {fix}"

    def named(self) -> Mapping[str, ExistingSoftware]:
        """Return the existing software by key."""
        return {key: value for key in type(self).model_fields if (value := getattr(self, key)) is not None}


class RuntimeSpec(ConsistentModel):
    """GPU software of one cluster. Default: only the software that the pools need is installed."""

    management: Literal["managed", "external"] = "managed"
    """With `external`, gpupools installs nothing in the cluster, and `existing` lists what serves the pools."""
    existing: Existing = Existing.model_construct()
    """GPU software that already runs in the cluster."""
    scheduler: Literal["kueue", "kai", "volcano"] | None = None
    """Software that shares the pools among the teams of `gpupools:teams`. Its objects follow teams and pools.

    With `management: external` nothing is declared, and `gpupools render` prints the objects.
    """
    scheduling: list[VolcanoWord] | None = Field(default=None, min_length=1, max_length=9)
    """Volcano: what its scheduler does. Default: all of them.

    `gang`: a job starts when all its pods fit. `priority`: jobs by priority. `drf`: jobs with a small share of the
    cluster first. `preempt`: a job stops pods of its team with a lower priority. `reclaim`: a team stops pods that
    borrowed its guarantee. `backfill`: pods without requests fill gaps. `bin-pack`: full nodes first.
    `network-topology`: pods of a job on nodes that are close together. `reservation`: a job that waits for an hour
    keeps GPUs that become free.
    """
    spread: list[Name] = Field(default=[], max_length=500)
    """KAI: pools on whose nodes it spreads pods. On other pools it fills nodes one by one."""
    kubernetes: Annotated[str, AfterValidator(_KUBERNETES)] | None = None
    """Kubernetes version of the cluster as text (`'1.34'`), to check the minimum versions of the software."""
    metrics: bool | None = None
    """DCGM exporter on all pools (true) or none (false). Default: on pools for which software is installed anyway."""
    service_monitors: bool = False
    """Create a ServiceMonitor for the exporter. Requires the CRD of the Prometheus Operator.

    `gpupools render` then also writes one for the scheduler and HAMi.
    """
    monitoring_labels: dict[str, str] = Field(default={}, max_length=16)
    """Labels of rules and ServiceMonitors by which Prometheus selects them, such as `release: prometheus`."""
    monitoring_namespace: Name | None = None
    """Namespace of Prometheus. A NetworkPolicy then closes the exporter's port to pods of all other namespaces.

    Default: every pod can read the metrics. Requires a cluster that enforces NetworkPolicies.
    """
    block_instance_metadata: bool = False
    """AKS: a NetworkPolicy keeps pods in the `trust.namespaces` of the pools from the instance metadata service.

    Requires a cluster that enforces NetworkPolicies. It allows all other egress, also what another policy of the
    namespace does not list: such a policy must leave out 169.254.169.254 itself.
    """
    wait_ready: int | None = Field(default=None, ge=10, le=14_400)
    """Seconds that `pulumi up` waits until the pools of the cluster are ready as `gpupools ready` judges. If they are
    not, `up` fails with the causes and undoes nothing. Default: it does not wait. Requires `gpupools[cluster]`."""
    smoke_test: bool = False
    """Run a CUDA sample as a Job on each pool. `up` waits for it, except with Capacity Blocks and flex-start."""
    trust_policy: bool = False
    """Admission policy that rejects pods of other namespaces on pools with `trust`."""
    calico: bool = False
    """With `trust_policy`: Calico is installed, so its namespaces calico-system and tigera-operator are allowed."""
    system_namespaces: list[Name] | None = Field(default=None, max_length=64)
    """With `trust_policy`: namespaces of cluster software that are allowed in addition to `kube-system`.

    Default: daemons of all namespaces that request no GPU are allowed, although their images may still use one.
    If set, also to `[]`: only daemons of these namespaces, and daemons whose containers all set
    NVIDIA_VISIBLE_DEVICES to `void`.
    """
    keep_crds: bool = False
    """Keep the GPU Operator's CRDs when it is deleted."""
    mig_reboot: bool | None = None
    """Let the MIG manager reboot nodes whose GPUs do not accept a new layout. Default: if the cloud requires it."""
    driver_auto_upgrade: bool | None = None
    """Let the GPU Operator upgrade the driver on running nodes one by one, which stops the GPU pods of each node. With
    false, a node gets the new driver when its driver pod is deleted or the node is recreated. Default: true if the
    operator installs the driver."""
    cpu_taints: list[Annotated[Taint, BeforeValidator(written_taint)]] = Field(default=[], max_length=16)
    """Taints of CPU nodes on which the charts' controllers and hook jobs may run, e.g. of AKS system pools.

    Default: the GPU Operator requires a CPU node without taints.
    """
    critical_pods: int | None = Field(default=None, ge=10, le=100_000)
    """GKE: maximum system-critical pods per namespace. Default: what the maximum size of the pools requires."""
    versions: dict[ChartName, Annotated[str, AfterValidator(_VERSION)]] = {}
    """Chart versions instead of the pinned ones. They and all they install must meet the minimum secure versions: an
    older version is rejected, and `check` warns about a newer version that this release does not know."""
    registry: Annotated[str, AfterValidator(_registry)] | None = None
    """Registry that mirrors all images under their own paths, optionally with a path prefix.

    `nvcr.io/nvidia/driver` is then pulled as `<registry>/nvidia/driver`. `gpupools images` lists all images.
    """
    pull_secrets: list[Annotated[str, AfterValidator(_SECRET_NAME)]] = Field(default=[], max_length=8)
    """Secrets of type `kubernetes.io/dockerconfigjson` with the registry's login, in all namespaces of the software.

    Not needed if nodes authenticate themselves (ECR on EKS, attached registry on AKS, Artifact Registry on GKE).
    """
    chart_sources: dict[InstalledChart, Annotated[str, AfterValidator(_chart_source)]] = {}
    """Source of a chart instead of its publisher's: `oci://<host>/<path>/<chart>`, or `https://` of a repository."""
    digests: Annotated[
        Annotated[str, AfterValidator(_off), Tag("<text>")]
        | Annotated[dict[str, Annotated[str, AfterValidator(_DIGEST)]], Tag("<map>")],
        Discriminator(lambda value: "<text>" if isinstance(value, str) else "<map>"),
    ] = {}
    """Digests to pull instead of tags: image as `gpupools images` lists it → digest. Images whose digest gpupools knows
    are always pulled by it, except with `off`, which pulls all images by tag."""

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Reject misnamed charts, namespaces without a policy, and software with `management: external`."""
        if self.existing.scheduler is not None and self.scheduler is None:
            what = "requires scheduler, which names the software; set scheduler, or remove existing.scheduler"
            yield ("existing", "scheduler"), what
        if self.scheduling is not None and (self.scheduler != "volcano" or self.existing.scheduler is not None):
            yield ("scheduling",), "configures the Volcano that gpupools installs; remove it, or set scheduler: volcano"
        if self.spread and self.scheduler != "kai":
            yield ("spread",), "is for KAI; remove it, or set scheduler: kai"
        for index, word in enumerate(self.scheduling or ()):
            if word in (self.scheduling or ())[:index]:
                yield ("scheduling", index), f"{word!r} is listed twice; list each word once"
        for chart, source in self.chart_sources.items():
            if source.startswith("oci://") and not source.endswith(f"/{chart}"):
                # Helm looks for the chart's own name below it: https://helm.sh/docs/topics/registries/
                yield ("chart_sources", chart), f"got {shown(source)} for {chart}; end it with /{chart}"
        if self.calico and not self.trust_policy:
            yield ("calico",), "requires trust_policy; set trust_policy: true, or remove calico"
        if self.system_namespaces is not None and not self.trust_policy:
            what = "requires trust_policy; set trust_policy: true, or remove system_namespaces"
            yield ("system_namespaces",), what
        if self.management == "external":
            what = "requires software from gpupools, but management is external; remove one of them"
            for key, value in self:
                if key not in _ALSO_EXTERNAL and (value or (key == "driver_auto_upgrade" and value is not None)):
                    yield (key,), what


_ALSO_EXTERNAL = frozenset(
    {"management", "existing", "scheduler", "spread", "monitoring_labels", "wait_ready", "calico", "system_namespaces"}
)
"""Keys that do not require software from gpupools, or require another key that does."""


class Trust(ConsistentModel):
    """Who may use a pool: a team's namespaces, listed namespaces, or with a waiver all namespaces."""

    team: Name | None = None
    """Namespaces with the label `gpupools/trust: <team>`."""
    namespaces: list[Name] | None = Field(default=None, min_length=1, max_length=64)
    """Names of namespaces."""
    waiver: str | None = Field(default=None, min_length=10, max_length=200)
    """Reason why pods of all namespaces may share the GPUs of this pool."""
    quota: int | None = Field(default=None, ge=1)
    """With `namespaces`: maximum units of the pool's resource that each namespace may request.

    Kubernetes counts by resource name, so units on other pools with the same resource count too. If two pools set a
    quota for one namespace, the smaller one applies to both, and gpupools warns.
    """

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Reject several or no answers, and a quota without namespaces."""
        given = [key for key in ("team", "namespaces", "waiver") if getattr(self, key) is not None]
        if len(given) != 1:
            yield (), f"got {' and '.join(given) or 'nobody'}; set one of team, namespaces and waiver"
        if self.quota is not None and self.namespaces is None:
            yield ("quota",), "applies per namespace, but namespaces is not set; set namespaces, or remove quota"

    def mark(self, pool: str) -> str | None:
        """Return the value of the pool's label and taint `gpupools/trust`; None if all namespaces may use it."""
        if self.waiver is not None:
            return None
        # A team's name has no dot, so it cannot be confused with a pool.
        return self.team if self.team is not None else f"pool.{pool}"
