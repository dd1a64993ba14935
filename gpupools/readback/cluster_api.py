"""Reads Cluster API and its kin: what names the machines, what bootstraps them as nodes, and what joins the two. Pure.

A machine's object (AWSMachineTemplate, AzureMachinePool, …) names the machine. Where a cloud's Kubernetes service
manages the pool it has the taints too; otherwise they are in the bootstrap configuration (KubeadmConfigTemplate,
NodeadmConfig, …), another object. A Machine, MachineSet, MachineDeployment or MachinePool names both (`read_owner`).

Sources, as repository and path: kubernetes-sigs/cluster-api api/core/v1beta2/machine_types.go and
bootstrap/kubeadm/api; rancher/cluster-api-provider-rke2 bootstrap/api; for OpenShift's machines openshift/api
machine/v1beta1.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gpupools.common.json_types import JsonObject
from gpupools.common.taints import GPU_TAINT, KUBERNETES_EFFECTS, Effect, Taint
from gpupools.plan.kubernetes_kinds import Bootstrap, MachineKind
from gpupools.plan.pool_facts import UNKNOWN, Accelerator, MissingTaint, PoolFacts, Reference
from gpupools.readback import kubelet
from gpupools.readback.inputs import (
    Hardening,
    Machines,
    TaintsRead,
    accelerator_by_name,
    as_object,
    at,
    flag,
    items,
    kubernetes_type,
    mapping,
    number,
    string_map,
    text,
    wanted_taint,
)

if TYPE_CHECKING:
    from gpupools.plan.cloud import Cloud

_CLOSED = {"remote-access": "nodes need no SSH", "public-address": "nodes need no public address"}

BOOTSTRAP = "bootstrap configuration"
"""Stands for the property that a machine's object does not have: what makes it a node is said by its owner."""


TEMPLATE = "template.spec"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"

_OPENSHIFT = MachineKind(
    "",
    ("providerSpec.value.instanceType", "providerSpec.value.vmSize", "providerSpec.value.machineType"),
    taints="taints",
    labels="metadata.labels",
    accelerators="providerSpec.value.gpus",
)

KINDS: Mapping[tuple[str, str], MachineKind] = MappingProxyType(
    {
        ("machine.openshift.io", "MachineSet"): replace(_OPENSHIFT, below=TEMPLATE),
        ("machine.openshift.io", "Machine"): _OPENSHIFT,
    }
)
"""By group and kind, besides those of one cloud (`KubernetesObjects.machines`)."""


def machine_kind(group: str, kind: str, clouds: Mapping[str, "Cloud"]) -> MachineKind | None:
    """Return where an object of this kind keeps what is read; None for any other kind."""
    tables = (KINDS, *(cloud.readback().objects.machines for cloud in clouds.values()))
    return next((known for table in tables if (known := table.get((group, kind))) is not None), None)


def read_machines(spec: JsonObject, known: MachineKind, clouds: Mapping[str, "Cloud"]) -> Iterator[PoolFacts]:
    """Read an object that names machines.

    Args:
        spec: Of the object.
        known: What `machine_kind` says of its kind.
        clouds: Know the machines.
    """
    path = f"spec.{known.below}" if known.below else "spec"
    given = at(spec, known.below) if known.below else spec
    data, machines = mapping(given), Machines()
    if given is UNKNOWN:
        machines.unknown.append(path)
    _machines(data, path, known, machines, clouds)
    read = TaintsRead()
    missing = as_object(wanted_taint(machines.accelerator), known.effects)
    elsewhere: tuple[Reference, ...] = ()
    if known.no_taint_field:
        missing = replace(missing, value=None)
    elif known.taints:
        read.objects(at(data, known.taints), f"{path}.{known.taints}", known.effects)
    else:
        elsewhere = (Reference(BOOTSTRAP, (), "", frozenset({"taints", "image"})),)
        read.unknown.append(BOOTSTRAP)
        missing = replace(missing, value=None)
    hardening = Hardening("")
    for key, (what, source) in known.open.items():
        value = at(data, key)
        closed = not value if what == "remote-access" else flag(value) is not True
        hardening.want(what, f"{path}.{key}", value, closed, "unset", _CLOSED[what], source=source)
    least, most = (number(at(data, bound)) if bound else None for bound in known.bounds)
    yield PoolFacts(
        cloud=known.cloud or "kubernetes",
        instance_types=tuple(machines.names),
        gpus_per_node=machines.gpus,
        taints=tuple(read.taints),
        evidence=machines.evidence,
        unknown=(*machines.unknown, *read.unknown),
        where=f"{path}.{known.taints}" if known.taints else path if known.no_taint_field else BOOTSTRAP,
        no_taint_field=known.no_taint_field,
        missing_taint=missing,
        accelerator=machines.accelerator,
        other_accelerator=machines.other,
        not_counted=tuple(read.not_counted),
        elsewhere=elsewhere,
        min_nodes=least,
        max_nodes=most,
        labels=string_map(at(data, known.labels)) if known.labels else {},
        weaknesses=tuple(hardening.found),
        foreign=_foreign(data, clouds),
    )


def _foreign(data: JsonObject, clouds: Mapping[str, "Cloud"]) -> str:
    """Name the specification of OpenShift's machines that is of no cloud here: each has its cloud's name in front."""
    kind = text(at(data, "providerSpec.value.kind"))
    return "" if not kind or kind.casefold().startswith(tuple(clouds)) else f"machine.openshift.io/{kind}"


def _machines(
    data: JsonObject, path: str, known: MachineKind, machines: Machines, clouds: Mapping[str, "Cloud"]
) -> None:
    named = [(f"{path}.{key}", at(data, key)) for key in known.machine]
    listed, inside = known.several
    for where, one in items(at(data, listed) if listed else None, f"{path}.{listed}", machines.unknown):
        named.append((f"{where}.{inside}", at(one, inside)))
    for where, name in named:
        if name is UNKNOWN:
            machines.unknown.append(where)
        elif isinstance(name, str) and name:
            machines.add(name, accelerator_by_name(name, known.cloud, clouds), where)
    beside = at(data, known.accelerators) if known.accelerators else None
    for where, one in items(beside, f"{path}.{known.accelerators}", machines.unknown):
        kind, count = at(one, "type"), at(one, "count")
        late = [f"{where}.{key}" for key, value in (("type", kind), ("count", count)) if value is UNKNOWN]
        if late:
            machines.unknown += late
        elif "nvidia" in text(kind) and (gpus := number(count) or 0) > 0:
            found = Accelerator("nvidia", Fraction(gpus), text(kind))
            machines.show(found, f"{where} {gpus} × {text(kind).rsplit('/', 1)[-1]}")
    key, pattern = known.image
    image = text(at(data, key)) if key else ""
    if key and re.fullmatch(pattern, image) and not machines.only_other:
        machines.show(Accelerator("nvidia", None), f"{path}.{key} {image}")


# --- what makes a node of a machine -----------------------------------------------------------------------------------


def _group_and_kind(type_token: str) -> tuple[str, str]:
    version, kind = kubernetes_type(type_token) or ("", "")
    return version.rpartition("/")[0], kind


def read_bootstrap(type_token: str, properties: JsonObject, clouds: Mapping[str, "Cloud"]) -> PoolFacts | None:
    """Read the taints of a bootstrap configuration or of a template for one; None for any other object.

    Args:
        type_token: Pulumi type, `kubernetes:<apiVersion>:<kind>`.
        properties: The object.
        clouds: Read those that only their machines take.
    """
    group, kind = _group_and_kind(type_token)
    if group != "bootstrap.cluster.x-k8s.io":
        return None
    template = kind.endswith("Template")
    reader = _bootstraps(clouds).get(kind.removesuffix("Template"))
    if reader is None:
        return None
    path = "spec.template.spec" if template else "spec"
    spec = at(properties, path)
    found = reader(mapping(spec), path)
    return replace(
        found,
        unknown=(path,) if spec is UNKNOWN else found.unknown,
        missing_taint=replace(found.missing_taint, value=None),  # for another object than the one that is at fault
    )


def taints_alone(read: TaintsRead, where: str, missing: MissingTaint) -> PoolFacts:
    """Return the facts of a configuration that names no machine.

    Args:
        read: Its taints.
        where: They stand.
        missing: How one is written there.
    """
    return PoolFacts(
        cloud="kubernetes",
        instance_types=(),
        gpus_per_node=Fraction(0),
        taints=tuple(read.taints),
        unknown=tuple(read.unknown),
        where=where,
        missing_taint=missing,
        not_counted=tuple(read.not_counted),
    )


def _kubeadm(spec: JsonObject, path: str) -> PoolFacts:
    """Read a KubeadmConfig: workers join, and kubeadm lets its kubelet arguments win over its taints."""
    read = TaintsRead()
    path = f"{path}.joinConfiguration.nodeRegistration"
    registration = at(spec, "joinConfiguration.nodeRegistration")
    argument = kubelet_argument(at(registration, "kubeletExtraArgs"))
    if registration is UNKNOWN:
        read.unknown.append(path)
    elif argument is None:
        kubelet.configured(at(registration, "taints"), f"{path}.taints", read)
    else:
        return registered(argument, f"{path}.kubeletExtraArgs")
    return taints_alone(read, f"{path}.taints", as_object(GPU_TAINT, KUBERNETES_EFFECTS))


def _rke2(spec: JsonObject, path: str) -> PoolFacts:
    read = TaintsRead()
    where = f"{path}.agentConfig.nodeTaints"
    read.texts(at(spec, "agentConfig.nodeTaints"), where)
    return taints_alone(read, where, MissingTaint(f'"{GPU_TAINT}"'))


_BOOTSTRAPS: Mapping[str, Bootstrap] = {
    "KubeadmConfig": _kubeadm,
    "RKE2Config": _rke2,
}


def kubelet_argument(given: Any) -> Any:
    """Return what registers taints: of a map, or since v1beta2 of the kubeadm provider of a list of name and value."""
    if given is UNKNOWN or isinstance(given, Mapping):
        return at(given, kubelet.FLAG)
    named = [one for _, one in items(given, "", []) if at(one, "name") == kubelet.FLAG]
    return at(named[-1], "value") if named else None


def registered(argument: Any, path: str, before: TaintsRead | None = None) -> PoolFacts:
    """Read `key=value:Effect,…`, the kubelet's argument.

    Args:
        argument: The argument.
        path: Of the kubelet's arguments.
        before: Taints that it may leave as they are, while it is not known yet.
    """
    read = before or TaintsRead()
    where = f"{path}.{kubelet.FLAG}"
    if argument is UNKNOWN or "$" in text(argument) or "{{" in text(argument):
        read.unknown.append(where)
    else:
        kubelet.read_list(text(argument), where, read)
    return taints_alone(read, where, MissingTaint(f'"{GPU_TAINT}"'))


def _bootstraps(clouds: Mapping[str, "Cloud"]) -> Mapping[str, Bootstrap]:
    found = dict(_BOOTSTRAPS)
    for cloud in clouds.values():
        found |= cloud.readback().objects.bootstraps
    return found


def joined_kinds(clouds: Mapping[str, "Cloud"]) -> Iterator[tuple[str, str]]:
    """Yield group and kind of what is read for the machines it makes nodes of."""
    kinds = _bootstraps(clouds)
    yield from (("bootstrap.cluster.x-k8s.io", f"{kind}{end}") for kind in kinds for end in ("", "Template"))
    yield from (("cluster.x-k8s.io", kind) for kind in _OWNERS)
    yield _CONTROL_PLANE


# --- what joins them --------------------------------------------------------------------------------------------------


_OWNERS = ("Machine", "MachineSet", "MachineDeployment", "MachinePool")


@dataclass(frozen=True)
class Named:
    """An object that another one names; `UNKNOWN` where that is not known yet."""

    kind: Any
    name: Any
    namespace: Any


@dataclass(frozen=True)
class Owner:
    """A Machine, MachineSet, MachineDeployment or MachinePool, which makes nodes of machines."""

    machine: Named
    bootstrap: Named
    facts: PoolFacts
    """Its own taints."""


def read_owner(type_token: str, properties: JsonObject) -> Owner | None:
    """Read what machines and which bootstrap configuration an object joins; None for any other object.

    Taints of the object itself are put on its nodes and, however `propagation` is set, never taken away again:
    kubernetes-sigs/cluster-api docs/proposals/20250513-propogate-taints.md.

    Args:
        type_token: Pulumi type, `kubernetes:<apiVersion>:<kind>`.
        properties: The object.
    """
    group, kind = _group_and_kind(type_token)
    if (group, kind) == _CONTROL_PLANE:
        return _control_plane(properties)
    if group != "cluster.x-k8s.io" or kind not in _OWNERS:
        return None
    path = "spec" if kind == "Machine" else "spec.template.spec"
    spec = at(properties, path)
    namespace = at(properties, "metadata.namespace")
    read = TaintsRead()
    read.objects(at(spec, "taints"), f"{kind} {path}.taints", KUBERNETES_EFFECTS)
    return Owner(
        machine=_named(at(spec, "infrastructureRef"), namespace),
        bootstrap=_named(at(spec, "bootstrap.configRef"), namespace),
        facts=PoolFacts(
            cloud="kubernetes",
            instance_types=(),
            gpus_per_node=Fraction(0),
            taints=tuple(read.taints),
            unknown=tuple(read.unknown),
            not_counted=tuple(read.not_counted),
        ),
    )


_CONTROL_PLANE = ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane")


def _control_plane(properties: JsonObject) -> Owner:
    """Read a KubeadmControlPlane: kubeadm taints its nodes, unless its list of taints says otherwise.

    https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/, `NodeRegistrationOptions.taints`.
    """
    namespace = at(properties, "metadata.namespace")
    machine = at(properties, "spec.machineTemplate.infrastructureRef")  # one step deeper since v1beta2
    machine = at(properties, "spec.machineTemplate.spec.infrastructureRef") if machine is None else machine
    read = TaintsRead()
    steps = ("initConfiguration", "joinConfiguration")
    paths = [f"spec.kubeadmConfigSpec.{step}.nodeRegistration.taints" for step in steps]
    given = {path: value for path in paths if (value := at(properties, path)) is not None}
    for path, value in given.items():
        read.objects(value, path, KUBERNETES_EFFECTS)
    if not given:
        read.taints.append(Taint("node-role.kubernetes.io/control-plane", "", Effect.NO_SCHEDULE))
    facts = PoolFacts("kubernetes", (), Fraction(0), tuple(read.taints), unknown=tuple(read.unknown))
    return Owner(machine=_named(machine, namespace), bootstrap=Named(None, None, None), facts=facts)


def _named(reference: Any, namespace: Any) -> Named:
    return Named(at(reference, "kind"), at(reference, "name"), at(reference, "namespace") or namespace)


def bootstrapped(pool: PoolFacts, owner: Owner, config: PoolFacts | None, kind: str) -> PoolFacts:
    """Add to machines the taints of their owner and of their bootstrap configuration.

    Args:
        pool: What the machines' own object says.
        owner: Makes nodes of them.
        config: What `read_bootstrap` read; None where the configuration is not at hand.
        kind: Of the configuration, for messages.
    """
    prefix = f"{BOOTSTRAP} {kind} → "
    where = f"{prefix}{config.where}" if config else BOOTSTRAP
    own = owner.facts
    late = [name for name in pool.unknown if name != BOOTSTRAP]
    late += [f"{prefix}{name}" for name in config.unknown] if config else [BOOTSTRAP]
    late += [where] if own.unknown else []
    return replace(
        pool,
        taints=(*own.taints, *(config.taints if config else ())),
        unknown=tuple(late),
        where=where,
        missing_taint=config.missing_taint if config else pool.missing_taint,
        not_counted=(*own.not_counted, *(config.not_counted if config else ())),
        elsewhere=tuple(one for one in pool.elsewhere if one.property != BOOTSTRAP),
    )
