"""Reads Kubernetes objects that bring nodes into a cluster: Karpenter, Cluster API and others of their kind. Pure.

Read here are Karpenter's NodePool, Provisioner and NodeClaim (also those of EKS Auto Mode and AKS node
auto-provisioning) and GKE's ComputeClass. Beside it `cluster_api` reads Cluster API's objects, `embedded_pools` those
that hold a cloud's own form, `node_groups` those of other tools and running nodes, `holders` what carries objects. As
Pulumi resources (`kubernetes:<apiVersion>:<Kind>`) or as manifests they are the same.

Sources, as repository and path: kubernetes-sigs/karpenter pkg/apis/crds; aws/karpenter-provider-aws
pkg/apis/v1/labels.go; Azure/karpenter-provider-azure pkg/apis/v1beta1/labels.go; for GKE
https://docs.cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from gpupools.base.taints import repels_cpu_pods
from gpupools.planned.cloud import Cloud
from gpupools.planned.pool_facts import UNKNOWN, Accelerator, By, PoolFacts, Reference, SharingFacts, SoftwareHints
from gpupools.read import cluster_api, holders, node_groups
from gpupools.read.embedded_pools import held_by, read_held
from gpupools.read.inputs import (
    KUBERNETES_EFFECTS,
    Hardening,
    Machines,
    TaintsRead,
    accelerator_by_name,
    as_object,
    at,
    flag,
    items,
    mapping,
    number,
    relocated,
    string_map,
    text,
    wanted_taint,
)

_TOKEN = re.compile(r"kubernetes:(?P<version>[^:]+):(?P<kind>[A-Za-z0-9]+)")

Clouds = Mapping[str, Cloud]
NO_CLOUDS: Clouds = MappingProxyType({})


def read_kubernetes_pools(type_token: str, properties: Mapping[str, Any], clouds: Clouds) -> tuple[PoolFacts, ...]:
    """Read the pools that a Kubernetes object declared with Pulumi stands for; nothing for any other resource.

    Args:
        type_token: The resource's Pulumi type, e.g. `kubernetes:karpenter.sh/v1:NodePool`.
        properties: Its inputs in wire form, with `UNKNOWN` for what the engine does not know yet.
        clouds: Know the machines that such objects name.
    """
    match = _TOKEN.fullmatch(type_token) if isinstance(type_token, str) else None
    if match is None or not isinstance(properties, Mapping):
        return ()
    version, kind = properties.get("apiVersion"), properties.get("kind")
    return _read(
        version if isinstance(version, str) else match["version"],
        kind if isinstance(kind, str) else match["kind"],
        properties,
        clouds,
    )


def read_manifest(manifest: Mapping[str, Any], clouds: Clouds) -> tuple[PoolFacts, ...]:
    """Read the pools that a Kubernetes manifest stands for; nothing for any other object.

    Args:
        manifest: With `apiVersion`, `kind`, `metadata` and `spec`.
        clouds: Know the machines that such objects name.
    """
    if not isinstance(manifest, Mapping):
        return ()
    return _read(text(manifest.get("apiVersion")), text(manifest.get("kind")), manifest, clouds)


def read_template(type_token: str, properties: Mapping[str, Any], clouds: Clouds = NO_CLOUDS) -> PoolFacts | None:
    """Read what a pool refers to: Karpenter's EC2NodeClass or AKSNodeClass, Cluster API's bootstrap configurations.

    They name no machine, so they are no pools: a class adds image, driver and hardening to one, a configuration
    taints (`gpupools.read.inputs.joined`). None for any other object.

    Args:
        type_token: Pulumi type, or `<apiVersion>:<kind>` of a manifest with `kubernetes:` before it.
        properties: The object.
        clouds: Know what of a class runs on nodes or opens them; without a class's cloud nothing is said of that.
    """
    match = _TOKEN.fullmatch(type_token) if isinstance(type_token, str) else None
    if match is None or not isinstance(properties, Mapping):
        return None
    spec = mapping(properties.get("spec"))
    reader = {"EC2NodeClass": _ec2_node_class, "AKSNodeClass": _aks_node_class}.get(match["kind"])
    if reader is None:
        return cluster_api.read_bootstrap(type_token, properties)
    found = reader(spec)
    cloud = clouds.get(found.cloud)
    return replace(found, customised=tuple(cloud.reading().overridden(match["kind"], spec))) if cloud else found


def _read(version: str, kind: str, given: Mapping[str, Any], clouds: Clouds) -> tuple[PoolFacts, ...]:
    group = version.rpartition("/")[0]
    known = (group, kind)
    if known in node_groups.KINDS:
        return tuple(node_groups.read_node_groups(given, group, kind, clouds))
    if known in holders.KINDS:
        return tuple(_held(given, group, kind, clouds))
    held = held_by(group, kind, clouds)
    if held is None and known not in _READERS and known not in cluster_api.KINDS:
        return ()
    spec = given.get("spec")
    if spec is UNKNOWN:
        return (PoolFacts("kubernetes", (), None, (), unknown=("spec",), where="spec"),)
    if known in cluster_api.KINDS:
        return tuple(cluster_api.read_machines(mapping(spec), group, kind, clouds))
    if held is not None:
        return tuple(read_held(given, *held))
    return tuple(_READERS[known](mapping(spec), kind, clouds))


def _held(given: Mapping[str, Any], group: str, kind: str, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read the pools among the objects that an object carries into a cluster."""
    for found in holders.held(given, group, kind):
        if found.value is UNKNOWN:
            yield PoolFacts("kubernetes", (), None, (), unknown=(found.path,), where=found.path, pool=found.name)
        elif isinstance(found.value, Mapping) and (found.group, found.kind) not in holders.KINDS:
            place = holders.placed(found.path)
            for pool in read_manifest(found.value, clouds):
                named = " ".join(filter(None, (f"{found.kind}/{found.name}", pool.pool)))
                pool = replace(relocated(pool, place, place), pool=named)
                if found.written:  # nothing but its author should rewrite a text
                    pool = replace(pool, missing_taint=replace(pool.missing_taint, value=None))
                yield pool


def kinds_read(clouds: Clouds) -> Iterator[tuple[str, str]]:
    """Yield group and kind of every object that is read, as a pool or for what pools refer to."""
    yield from _READERS
    yield from cluster_api.KINDS
    yield from cluster_api.joined_kinds()
    for cloud in clouds.values():
        yield from cloud.reading().objects
    yield from node_groups.KINDS
    yield from holders.KINDS
    yield from (("karpenter.k8s.aws", "EC2NodeClass"), ("karpenter.azure.com", "AKSNodeClass"))


# --- Karpenter --------------------------------------------------------------------------------------------------------

# Labels that Karpenter's providers put on nodes and take as requirements, by what they say. EKS Auto Mode has the same
# under its own domain: https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html.
_AWS_DOMAINS = ("karpenter.k8s.aws/", "eks.amazonaws.com/")
_AZURE_DOMAIN = "karpenter.azure.com/"
# cloudpilot-ai/karpenter-provider-gcp pkg/apis/v1alpha1/labels.go; a family is what stands before the first dash.
_GCP_DOMAIN = "karpenter.k8s.gcp/"
# Every category of EC2 without an accelerator: where all are left out, Karpenter takes machines with GPUs for any pod
# (aws/karpenter-provider-aws pkg/providers/instance/filter, which prefers other machines only while there are some).
_CPU_CATEGORIES = ("a", "c", "d", "h", "hpc", "i", "im", "is", "m", "r", "t", "u", "x", "z")
_GPU_CATEGORIES = ("g", "gr", "p")  # of NVIDIA and AMD
_OTHER_CATEGORIES = ("inf", "trn", "dl", "vt", "f")
_TYPE = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", f"{_AZURE_DOMAIN}sku-name")
_GPU_KEYS = ("gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory")
_OTHER_KEYS = ("accelerator-name", "accelerator-manufacturer", "accelerator-count")
_RESOURCES = {"nvidia.com/gpu": "nvidia", "amd.com/gpu": "amd"}


@dataclass
class _Requirement:
    """What a NodePool demands of one label."""

    path: str
    operator: str
    values: tuple[str, ...]
    late: bool = False
    """True when some of it is not known yet."""

    def allows(self, value: str) -> bool:
        """Say whether a machine with this value of the label may be taken."""
        if self.operator == "In":
            return self.late or value in self.values
        if self.operator == "NotIn":
            return value not in self.values
        if self.operator in ("Gt", "Lt", "Gte", "Lte") and self.values and not self.late:
            bound, given = number(self.values[0]), number(value)
            if bound is None or given is None:
                return True
            return {"Gt": given > bound, "Lt": given < bound, "Gte": given >= bound, "Lte": given <= bound}[
                self.operator
            ]
        return self.operator != "DoesNotExist"

    @property
    def wants(self) -> bool:
        """Say whether only machines that have the label may be taken."""
        if self.operator in ("Gt", "Gte"):
            return True
        return self.operator == "Exists" or (self.operator == "In" and bool(set(self.values) - {"0"}))


@dataclass
class _Requirements:
    by_label: dict[str, list[_Requirement]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    def read(self, value: object, path: str, labels: Mapping[str, str], labels_path: str) -> None:
        for where, one in items(value, path, self.unknown):
            key, operator = at(one, "key"), at(one, "operator")
            if key is UNKNOWN or (operator is UNKNOWN and isinstance(key, str) and _says_machine(key)):
                self.unknown.append(f"{where}.{'key' if key is UNKNOWN else 'operator'}")
                continue
            late: list[str] = []
            values = tuple(_value(item) for _, item in items(at(one, "values"), f"{where}.values", late))
            if isinstance(key, str) and isinstance(operator, str):
                wanted = _Requirement(where, operator, values, bool(late))
                self.by_label.setdefault(key, []).append(wanted)
                if late and _says_machine(key) and operator == "In":
                    self.unknown += late
        for key, label in labels.items():  # a label of the template is a requirement too
            if _says_machine(key):
                self.by_label.setdefault(key, []).append(_Requirement(f"{labels_path}.{key}", "In", (label,)))

    def of(self, *keys: str) -> Iterator[tuple[str, _Requirement]]:
        for key in keys:
            for one in self.by_label.get(key, ()):
                yield key, one

    def allow(self, value: str, *keys: str) -> bool:
        return all(one.allows(value) for _, one in self.of(*keys))


def _value(item: object) -> str:
    whole = number(item)
    return item if isinstance(item, str) else str(whole) if whole is not None and abs(whole) < 10**9 else ""


def _says_machine(key: str) -> bool:
    return key in _TYPE or key.startswith((*_AWS_DOMAINS, _AZURE_DOMAIN, _GCP_DOMAIN))


def _karpenter(spec: Mapping[str, Any], kind: str, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read a NodePool: https://karpenter.sh/docs/concepts/nodepools/; startup taints are removed after start."""
    inner = "spec.template.spec" if kind == "NodePool" else "spec"
    template = spec if kind != "NodePool" else mapping(at(spec, "template.spec"))
    meta = at(spec, "template.metadata.labels") if kind == "NodePool" else spec.get("labels")
    labels_path = "spec.template.metadata.labels" if kind == "NodePool" else "spec.labels"
    wanted = _Requirements()
    if kind == "NodePool" and at(spec, "template.spec") is UNKNOWN:
        wanted.unknown.append("spec.template.spec")
    wanted.read(template.get("requirements"), f"{inner}.requirements", string_map(meta), labels_path)
    reference = mapping(template.get("nodeClassRef") or template.get("providerRef"))
    machines = Machines()
    machines.unknown += wanted.unknown
    cloud = _cloud_of(reference, wanted)
    _requested(wanted, cloud, clouds, machines)
    limits = mapping(spec.get("limits"))
    limits = mapping(limits.get("resources")) or limits  # a Provisioner has them one level deeper
    excluded = _excluded(wanted, limits)
    if excluded:
        machines = Machines(names=machines.names)
    elif not machines.evidence:
        _limited(limits, wanted, machines)
    read = TaintsRead()
    read.objects(template.get("taints"), f"{inner}.taints", KUBERNETES_EFFECTS)
    if template.get("startupTaints"):
        read.note(f"{inner}.startupTaints: are removed after the start of a node, so they keep nobody off")
    nodes = number(limits.get("nodes"))
    fixed = number(spec.get("replicas"))
    name = text(reference.get("name"))
    types = tuple(f"kubernetes:{group}:{text(reference.get('kind'))}" for group in _class_versions(reference))
    yield PoolFacts(
        cloud=cloud or "kubernetes",
        instance_types=tuple(machines.names),
        gpus_per_node=machines.gpus,
        taints=tuple(read.taints),
        evidence=machines.evidence,
        unknown=(*machines.unknown, *read.unknown),
        where=f"{inner}.taints",
        missing_taint=as_object(wanted_taint(machines.accelerator), KUBERNETES_EFFECTS),
        accelerator=machines.accelerator,
        other_accelerator=machines.other,
        not_counted=tuple(read.not_counted),
        elsewhere=(Reference(f"{inner}.nodeClassRef", types, name, frozenset({"image"})),) if name else (),
        min_nodes=fixed if fixed is not None else 0,
        max_nodes=nodes if nodes is not None else fixed,
        labels=string_map(meta),
    )


def _class_versions(reference: Mapping[str, Any]) -> Iterator[str]:
    group = text(reference.get("group"))
    if text(reference.get("apiVersion")):
        yield text(reference.get("apiVersion"))
    elif group:
        yield from (f"{group}/{version}" for version in ("v1", "v1beta1", "v1alpha2"))


def _cloud_of(reference: Mapping[str, Any], wanted: _Requirements) -> str:
    said = " ".join((text(reference.get("group")), text(reference.get("apiVersion")), text(reference.get("kind"))))
    said += " " + " ".join(wanted.by_label)
    marks = {"karpenter.k8s.aws": "aws", "eks.amazonaws.com": "aws", "EC2NodeClass": "aws", "AWSNodeTemplate": "aws"}
    marks |= {"karpenter.azure.com": "azure", "AKSNodeClass": "azure", "karpenter.k8s.gcp": "gcp"}
    return next((cloud for mark, cloud in marks.items() if mark in said), "")


def _requested(wanted: _Requirements, cloud: str, clouds: Clouds, machines: Machines) -> None:
    """Count the machines that the requirements name or select by an accelerator."""
    for key, one in wanted.of(*_TYPE):
        for name in one.values if one.operator == "In" else ():
            if _fits(name, wanted):
                machines.add(name, accelerator_by_name(name, cloud, clouds), f"{one.path} {key}")
    if machines.names:
        return  # explicit types decide
    for domain in _AWS_DOMAINS:
        for key, one in wanted.of(f"{domain}instance-family"):
            for family in one.values if one.operator == "In" else ():
                if wanted.allow(_category(family), f"{domain}instance-category"):
                    found = accelerator_by_name(f"{family}.xlarge", "aws", clouds)
                    machines.show(replace(found, count=None), f"{one.path} {key} {family}")
        families = [one for _, one in wanted.of(f"{domain}instance-family") if one.operator == "In"]
        for key, one in wanted.of(f"{domain}instance-category"):
            for category in one.values if one.operator == "In" and not families else ():
                other = "other" if category in _OTHER_CATEGORIES else ""
                vendor = "nvidia" if category in _GPU_CATEGORIES else other
                machines.show(Accelerator(vendor, None), f"{one.path} {key} {category}")
        left = [one for key, one in wanted.of(f"{domain}instance-category") if one.operator == "NotIn"]
        only_gpus = not any(wanted.allow(each, f"{domain}instance-category") for each in _CPU_CATEGORIES)
        gpus_left = any(wanted.allow(each, f"{domain}instance-category") for each in _GPU_CATEGORIES)
        if left and not families and only_gpus and gpus_left:
            machines.show(Accelerator("nvidia", None), f"{left[0].path} every category without GPUs left out")
    for key, one in wanted.of(f"{_GCP_DOMAIN}instance-family"):
        for family in one.values if one.operator == "In" else ():
            found = accelerator_by_name(f"{family.partition('-')[0]}-standard-4", "gcp", clouds)
            machines.show(replace(found, count=None), f"{one.path} {key} {family}")
    for key, one in wanted.of(f"{_AZURE_DOMAIN}sku-family", f"{_AZURE_DOMAIN}sku-series"):
        if one.operator == "In" and any(re.match(r"N(?:[CDV]|$)", value.upper()) for value in one.values):
            machines.show(Accelerator("nvidia", None), f"{one.path} {key} {', '.join(one.values)}")
    _selected(wanted, machines)


def _selected(wanted: _Requirements, machines: Machines) -> None:
    """Count requirements on the accelerator itself."""
    prefixes = [f"{domain}instance-" for domain in (*_AWS_DOMAINS, _GCP_DOMAIN)] + [f"{_AZURE_DOMAIN}sku-"]
    for prefix in prefixes:
        for key, one in wanted.of(*(f"{prefix}{name}" for name in _GPU_KEYS)):
            if one.wants:
                amd = any("amd" in value.casefold() or "radeon" in value.casefold() for value in one.values)
                only_amd = amd and not any("nvidia" in value.casefold() for value in one.values)
                said = f"{one.path} {key} {', '.join(one.values)}".rstrip()
                machines.show(Accelerator("amd" if only_amd else "nvidia", None), said)
        for key, one in wanted.of(*(f"{prefix}{name}" for name in _OTHER_KEYS)):
            if one.wants:
                machines.show(Accelerator("other", None, ", ".join(one.values)), f"{one.path} {key}")


def _fits(name: str, wanted: _Requirements) -> bool:
    """Say whether a machine named outright is not ruled out by requirements that its name answers."""
    family, _, size = name.partition(".")
    for domain in _AWS_DOMAINS:
        allowed = (
            wanted.allow(family, f"{domain}instance-family"),
            wanted.allow(_category(family), f"{domain}instance-category"),
            wanted.allow(size, f"{domain}instance-size") if size else True,
        )
        if not all(allowed):
            return False
    return wanted.allow(name, *_TYPE)


def _category(family: str) -> str:
    """Return the letters before the generation: `g` of `g5`, `gr` of `gr6`."""
    match = re.match(r"[a-z]+", family)
    return match[0] if match else ""


def _excluded(wanted: _Requirements, limits: Mapping[str, Any]) -> bool:
    """Say whether requirements or limits keep every GPU out."""
    prefixes = [f"{domain}instance-" for domain in (*_AWS_DOMAINS, _GCP_DOMAIN)] + [f"{_AZURE_DOMAIN}sku-"]
    for prefix in prefixes:
        for name in _GPU_KEYS:
            if any(one.operator == "DoesNotExist" for _, one in wanted.of(f"{prefix}{name}")):
                return True
        if not wanted.allow("1", f"{prefix}gpu-count") and any(
            one.operator in ("Lt", "Lte") or one.values == ("0",) for _, one in wanted.of(f"{prefix}gpu-count")
        ):
            return True
    return all(resource in limits and number(limits[resource]) == 0 for resource in _RESOURCES)


def _limited(limits: Mapping[str, Any], wanted: _Requirements, machines: Machines) -> None:
    """Count a limit above 0 on GPUs as evidence, unless the requirements take machines without GPUs only."""
    for domain in _AWS_DOMAINS:
        for key in ("instance-category", "instance-family"):
            if any(one.operator == "In" for _, one in wanted.of(f"{domain}{key}")):
                return
        if not any(wanted.allow(category, f"{domain}instance-category") for category in _GPU_CATEGORIES):
            return
    if machines.names or any(one.operator == "In" for _, one in wanted.of(f"{_AZURE_DOMAIN}sku-family", *_TYPE)):
        return
    for resource, vendor in _RESOURCES.items():
        if (number(limits.get(resource)) or 0) > 0:
            machines.show(Accelerator(vendor, None), f"spec.limits {resource}")


_EC2_CLASS = "https://karpenter.sh/docs/concepts/nodeclasses/"


def _ec2_node_class(spec: Mapping[str, Any]) -> PoolFacts:
    """Read an EC2NodeClass; its defaults are the hardened ones (pkg/apis/v1/ec2nodeclass.go, `metadataOptions`)."""
    hardening = Hardening(_EC2_CLASS)
    options = mapping(spec.get("metadataOptions"))
    tokens, hops = options.get("httpTokens"), options.get("httpPutResponseHopLimit")
    path = "spec.metadataOptions"
    why = "pods can take the node's credentials from the metadata service"
    good = tokens in (None, "required")
    hardening.want("metadata-service", f"{path}.httpTokens", tokens, good, "required", why)
    good = hops is None or number(hops) == 1
    mandatory = (number(hops) or 0) > 2
    hardening.want("metadata-hop-limit", f"{path}.httpPutResponseHopLimit", hops, good, "1", why, mandatory=mandatory)
    public = spec.get("associatePublicIPAddress")
    why = "nodes need no public address"
    hardening.want("public-address", "spec.associatePublicIPAddress", public, flag(public) is not True, "false", why)
    for where, one in items(spec.get("blockDeviceMappings"), "spec.blockDeviceMappings", []):
        encrypted = at(one, "ebs.encrypted")
        why = "images, logs and volumes of pods are on this disk"
        hardening.want("disk-encryption", f"{where}.ebs.encrypted", encrypted, flag(encrypted) is True, "true", why)
    aliases = [text(at(one, "alias")) for _, one in items(spec.get("amiSelectorTerms"), "", [])]
    family = text(spec.get("amiFamily")) or next((alias.partition("@")[0] for alias in aliases if alias), "")
    hardening.want(
        "retired-image",
        "spec.amiSelectorTerms",
        family,
        family.casefold() != "al2",
        "alias al2023@… or bottlerocket@…",
        "EKS publishes no Amazon Linux 2 images since 2025-11-26, so nodes get no fixes",
        source="https://docs.aws.amazon.com/eks/latest/userguide/al2023.html",
    )
    # Karpenter picks the NVIDIA image of these families for machines with GPUs.
    plugin = {"bottlerocket": By.CLOUD, "al2023": By.NOBODY}.get(family.casefold(), By.UNSAID)
    image = By.CLOUD if plugin else By.UNSAID
    return PoolFacts(
        cloud="aws",
        instance_types=(),
        gpus_per_node=Fraction(0),
        taints=(),
        software=SoftwareHints(image, image, plugin, (f"amiFamily {family}",) if plugin else ()),
        tags=string_map(spec.get("tags")),
        weaknesses=tuple(hardening.found),
    )


def _aks_node_class(spec: Mapping[str, Any]) -> PoolFacts:
    """Read an AKSNodeClass: Azure/karpenter-provider-azure, pkg/apis/v1beta1/aksnodeclass.go."""
    hardening = Hardening("https://learn.microsoft.com/azure/aks/enable-host-encryption")
    encrypted = at(spec, "security.encryptionAtHost")
    hardening.want(
        "disk-encryption",
        "spec.security.encryptionAtHost",
        encrypted,
        flag(encrypted) is True,
        "true, where the size and the region offer it",
        "temporary disks and caches are encrypted only at the host",
        mandatory=False,
    )
    mode = at(spec, "gpu.mode")
    driver = By.NOBODY if mode == "None" else By.UNSAID if mode is UNKNOWN else By.CLOUD
    toolkit = driver if driver is By.CLOUD else By.UNSAID
    return PoolFacts(
        cloud="azure",
        instance_types=(),
        gpus_per_node=Fraction(0),
        taints=(),
        software=SoftwareHints(
            driver, toolkit, By.NOBODY, () if mode is UNKNOWN else (f"spec.gpu.mode {text(mode) or 'unset'}",)
        ),
        tags=string_map(spec.get("tags")),
        weaknesses=tuple(hardening.found),
    )


# --- GKE --------------------------------------------------------------------------------------------------------------


def _compute_class(spec: Mapping[str, Any], kind: str, clouds: Clouds) -> Iterator[PoolFacts]:
    """Read a ComputeClass that makes node pools by itself; without that it only chooses among declared ones."""
    if flag(at(spec, "nodePoolAutoCreation.enabled")) is False or spec.get("nodePoolAutoCreation") is None:
        return
    machines = Machines()
    read: TaintsRead | None = None
    sharing: SharingFacts | None = None
    for where, one in items(spec.get("priorities"), "spec.priorities", machines.unknown):
        own = Machines()
        for each in (machines, own):
            _priority(one, where, clouds, each)
        if own.evidence or own.unknown:
            sharing = sharing or _class_sharing(at(one, "gpu.gpuSharing"), f"{where}.gpu.gpuSharing")
            taints = _class_taints(spec, one, where)
            # A class may take machines by any of its priorities, so the one that lets pods on its GPUs decides.
            if read is None or (repels_cpu_pods(read.taints) and not repels_cpu_pods(taints.taints)):
                read = taints
    read = read or _class_taints(spec, None, "")
    account = at(spec, "nodePoolConfig.serviceAccount")
    hardening = Hardening("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/hardening-your-cluster")
    hardening.want(
        "node-identity",
        "spec.nodePoolConfig.serviceAccount",
        account,
        isinstance(account, str) and account not in ("", "default"),
        "an account of its own with roles/container.defaultNodeServiceAccount",
        "the default account can do far more than a node needs",
    )
    yield PoolFacts(
        cloud="gcp",
        instance_types=tuple(machines.names),
        gpus_per_node=machines.gpus,
        taints=tuple(read.taints),
        evidence=machines.evidence,
        unknown=(*machines.unknown, *read.unknown),
        where="spec.nodePoolConfig.taints",
        missing_taint=as_object(wanted_taint(machines.accelerator), KUBERNETES_EFFECTS),
        accelerator=machines.accelerator,
        other_accelerator=machines.other,
        not_counted=tuple(read.not_counted),
        sharing=sharing,
        labels=string_map(at(spec, "nodePoolConfig.nodeLabels")),
        weaknesses=tuple(hardening.found),
    )


def _priority(one: Any, where: str, clouds: Clouds, machines: Machines) -> None:
    """Count the machine of one priority of a ComputeClass."""
    name, family, gpu = (at(one, key) for key in ("machineType", "machineFamily", "gpu.type"))
    machines.unknown += [
        f"{where}.{key}"
        for key, value in (("machineType", name), ("machineFamily", family), ("gpu", at(one, "gpu")), ("gpu.type", gpu))
        if value is UNKNOWN
    ]
    if isinstance(gpu, str) and gpu:
        count = number(at(one, "gpu.count")) or 1
        machines.show(Accelerator("nvidia", Fraction(count), gpu), f"{where}.gpu {count} × {gpu}")
    if isinstance(name, str) and name:
        machines.add(name, accelerator_by_name(name, "gcp", clouds), f"{where}.machineType")
    elif isinstance(family, str) and re.fullmatch(r"a[2-9]\w*|g[2-9]\w*", family):
        machines.show(Accelerator("nvidia", None), f"{where}.machineFamily {family}")


def _class_taints(spec: Mapping[str, Any], priority: Any, where: str) -> TaintsRead:
    """Read the taints of the nodes that a priority makes: its own, and those of all nodes of the class."""
    read = TaintsRead()
    read.objects(at(spec, "nodePoolConfig.taints"), "spec.nodePoolConfig.taints", KUBERNETES_EFFECTS)
    read.objects(at(priority, "taints"), f"{where}.taints", KUBERNETES_EFFECTS)
    return read


# https://github.com/kcl-lang/modules/pull/358, which quotes the reference (2026-11-22).
_CLASS_SHARING = {"TIME_SHARING": "time-slicing", "MPS": "mps"}


def _class_sharing(given: object, path: str) -> SharingFacts | None:
    way, size = _CLASS_SHARING.get(text(at(given, "sharingStrategy")), ""), text(at(given, "gpuPartitionSize"))
    kind = "+".join(part for part in ("mig-single" if size else "", way) if part)
    clients = number(at(given, "maxSharedClientsPerGPU")) if way else None
    return SharingFacts(kind, clients=clients, profile=size, said_by=path) if kind else None


_Reader = Callable[[Mapping[str, Any], str, Clouds], Iterator[PoolFacts]]

_READERS: Mapping[tuple[str, str], _Reader] = MappingProxyType(
    {
        ("karpenter.sh", "NodePool"): _karpenter,
        ("karpenter.sh", "Provisioner"): _karpenter,
        ("karpenter.sh", "NodeClaim"): _karpenter,
        ("cloud.google.com", "ComputeClass"): _compute_class,
    }
)
