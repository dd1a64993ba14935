"""Reads Cluster API objects: machines, bootstrap configurations, and the owners that join them. Pure.

A machine's object (AWSMachineTemplate, AzureMachinePool, …) names the machine. Where a cloud's Kubernetes service
manages the pool it has the taints too; otherwise they are in the bootstrap configuration (KubeadmConfigTemplate,
NodeadmConfig, …), another object. A Machine, MachineSet, MachineDeployment or MachinePool names both (`read_owner`).

Sources, as repository and path: kubernetes-sigs/cluster-api api/core/v1beta2/machine_types.go and
bootstrap/kubeadm/api; for `machine_kinds.csv`, kubernetes-sigs/cluster-api-provider-aws, -azure and -gcp, api and
exp/api, and kubernetes-sigs/cluster-api api/core/v1beta2.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gpupools.common.csv_rows import csv_rows
from gpupools.common.json_types import JsonObject
from gpupools.common.taints import GPU_TAINT, KUBERNETES_EFFECTS, Effect, Taint
from gpupools.plan.cloud import ObjectReader
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
    group_and_kind,
    group_facts,
    is_list,
    items,
    mapping,
    number,
    pool_facts,
    string_map,
    text,
)
from gpupools.readback.kubernetes_pools import with_spec
from gpupools.readback.machine_owners import BOOTSTRAP, Named, Owner
from gpupools.readback.registry import Clouds, KubernetesReader

_CLOSED = {"remote-access": "nodes need no SSH", "public-address": "nodes need no public address"}

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"


class MachineKind(NamedTuple):
    """Paths of the fields of a kind, below `spec` and, if set, `below`; alternatives are separated by |."""

    kind: str
    cloud: str
    machine: str
    below: str
    taints: str
    """Empty where the bootstrap configuration has them."""
    effect: str
    """How the provider spells NoSchedule, if not as Kubernetes."""
    labels: str
    least: str
    most: str
    accelerators: str
    """List of `{type, count}` beside the machine type, as Google Cloud has it."""
    several: str
    """Path of a list whose items name machines, and the path in an item."""
    image: str
    image_pattern: str
    """Images for machines with GPUs."""
    open: str
    """Key that opens nodes, for the control `remote-access` or `public-address`."""
    control: str
    source: str

    @property
    def effects(self) -> Mapping[str, Effect]:
        """Kubernetes' effects by their names in this API."""
        return _DASHED if self.effect else KUBERNETES_EFFECTS


# kubernetes-sigs/cluster-api-provider-aws exp/api/v1beta2/types.go, `TaintEffect`
_DASHED: Mapping[str, Effect] = {
    "no-schedule": Effect.NO_SCHEDULE,
    "no-execute": Effect.NO_EXECUTE,
    "prefer-no-schedule": Effect.PREFER_NO_SCHEDULE,
}


@lru_cache
def machine_kinds() -> Mapping[str, MachineKind]:
    """Return the table by kind."""
    rows = csv_rows(Path(__file__).with_name("machine_kinds.csv"))
    return {row["kind"]: MachineKind(*row.values()) for row in rows}


def _reader_of(known: MachineKind) -> ObjectReader:
    return with_spec(lambda manifest, clouds: _read_machines(mapping(manifest.get("spec")), known, clouds))


def _read_machines(spec: JsonObject, known: MachineKind, clouds: Clouds) -> Iterator[PoolFacts]:
    path = f"spec.{known.below}" if known.below else "spec"
    given = at(spec, known.below) if known.below else spec
    data, machines = mapping(given), Machines()
    if given is UNKNOWN:
        machines.unknown.append(path)
    _machines(data, path, known, machines, clouds)
    read, where = TaintsRead(), f"{path}.{known.taints}" if known.taints else BOOTSTRAP
    if known.taints:
        read.objects(at(data, known.taints), where, known.effects)
    else:
        read.unknown.append(where)
    facts = group_facts(known.cloud, machines, read, where, known.effects)
    if not known.taints:
        elsewhere = (Reference(BOOTSTRAP, (), "", frozenset({"taints", "image"})),)
        facts = replace(facts, elsewhere=elsewhere, missing_taint=replace(facts.missing_taint, value=None))
    hardening = Hardening("")
    if known.open:
        value, what = at(data, known.open), known.control
        closed = not value if what == "remote-access" else flag(value) is not True
        hardening.want(what, f"{path}.{known.open}", value, closed, "unset", _CLOSED[what], source=known.source)
    least, most = (number(at(data, bound)) for bound in (known.least, known.most))
    yield replace(
        facts,
        min_nodes=least,
        max_nodes=most,
        labels=string_map(at(data, known.labels)),
        weaknesses=tuple(hardening.found),
    )


def _machines(data: JsonObject, path: str, known: MachineKind, machines: Machines, clouds: Clouds) -> None:
    named = [(f"{path}.{key}", at(data, key)) for key in known.machine.split("|")]
    listed, _, inside = known.several.partition("|")
    for where, one in items(at(data, listed), f"{path}.{listed}", machines.unknown):
        named.append((f"{where}.{inside}", at(one, inside)))
    for where, name in named:
        if name is UNKNOWN:
            machines.unknown.append(where)
        elif isinstance(name, str) and name:
            machines.add(name, accelerator_by_name(name, known.cloud, clouds), where)
    for where, one in items(at(data, known.accelerators), f"{path}.{known.accelerators}", machines.unknown):
        kind, count = at(one, "type"), at(one, "count")
        late = [f"{where}.{key}" for key, value in (("type", kind), ("count", count)) if value is UNKNOWN]
        if late:
            machines.unknown += late
        elif "nvidia" in text(kind) and (gpus := number(count) or 0) > 0:
            accelerator = Accelerator("nvidia", Fraction(gpus), text(kind))
            machines.show(accelerator, f"{where} {gpus} × {text(kind).rsplit('/', 1)[-1]}")
    image = text(at(data, known.image))
    if known.image and re.fullmatch(known.image_pattern, image) and not machines.only_other:
        machines.show(Accelerator("nvidia", None), f"{path}.{known.image} {image}")


# --- bootstrap configurations -----------------------------------------------------------------------------------------


def read_bootstrap(type_token: str, properties: JsonObject, clouds: Clouds) -> PoolFacts | None:
    """Read the taints of a bootstrap configuration or of a template for one; None for any other object.

    Args:
        type_token: Pulumi type, `kubernetes:<apiVersion>:<kind>`.
        properties: The object.
        clouds: Read those that only their machines take.
    """
    group, kind = group_and_kind(type_token)
    if group != _BOOTSTRAP:
        return None
    template = kind.endswith("Template")
    reader = _BOOTSTRAPS.get(kind.removesuffix("Template"))
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


def taint_facts(read: TaintsRead, where: str, missing: MissingTaint) -> PoolFacts:
    """Return the facts of a configuration that names no machine.

    Args:
        read: Its taints.
        where: Their path.
        missing: How to write a missing taint there.
    """
    return replace(pool_facts("kubernetes", Machines(), read), where=where, missing_taint=missing)


def _kubeadm(spec: JsonObject, path: str) -> PoolFacts:
    """Read a KubeadmConfig: workers join, and kubelet arguments override its taints."""
    read = TaintsRead()
    path = f"{path}.joinConfiguration.nodeRegistration"
    registration = at(spec, "joinConfiguration.nodeRegistration")
    argument = kubelet_argument(at(registration, "kubeletExtraArgs"))
    if registration is UNKNOWN:
        read.unknown.append(path)
    elif argument is None:
        kubelet.configured(at(registration, "taints"), f"{path}.taints", read)
    else:
        return kubelet_taints(argument, f"{path}.kubeletExtraArgs")
    return taint_facts(read, f"{path}.taints", as_object(GPU_TAINT, KUBERNETES_EFFECTS))


def kubelet_argument(given: Any) -> Any:
    """Return what registers taints: of a map, or since v1beta2 of the kubeadm provider of a list of name and value."""
    if given is UNKNOWN or isinstance(given, Mapping):
        return at(given, kubelet.FLAG)
    named = [one for _, one in items(given, "", []) if at(one, "name") == kubelet.FLAG]
    return at(named[-1], "value") if named else None


def kubelet_taints(argument: Any, path: str, before: TaintsRead | None = None) -> PoolFacts:
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
    return taint_facts(read, where, MissingTaint(f'"{GPU_TAINT}"'))


def _eks(spec: JsonObject, path: str) -> PoolFacts:
    return kubelet_taints(kubelet_argument(spec.get("kubeletExtraArgs")), f"{path}.kubeletExtraArgs")


def _nodeadm(spec: JsonObject, path: str) -> PoolFacts:
    """Read a NodeadmConfig; the kubelet's flags override its configuration."""
    flags = at(spec, "kubelet.flags")
    listed = flags if is_list(flags) else []
    where = f"{path}.kubelet.config.registerWithTaints"
    read = TaintsRead()
    argument: Any = kubelet.last(kubelet.FLAG, kubelet.words(one for one in listed if isinstance(one, str)))
    if argument is None:
        kubelet.configured(at(spec, "kubelet.config.registerWithTaints"), where, read)
    if flags is UNKNOWN or UNKNOWN in listed:
        argument = UNKNOWN
    if argument is None:
        return taint_facts(read, where, as_object(GPU_TAINT, KUBERNETES_EFFECTS))
    return kubelet_taints(argument, f"{path}.kubelet.flags", read)


_BOOTSTRAP = "bootstrap.cluster.x-k8s.io"
_BOOTSTRAPS: Mapping[str, Callable[[JsonObject, str], PoolFacts]] = {
    "KubeadmConfig": _kubeadm,
    "EKSConfig": _eks,
    "NodeadmConfig": _nodeadm,
}
"""Readers of bootstrap configurations by kind: of its `spec` and the path of that."""


# --- owners -----------------------------------------------------------------------------------------------------------


_OWNERS = ("Machine", "MachineSet", "MachineDeployment", "MachinePool")


def read_owner(type_token: str, properties: JsonObject) -> Owner | None:
    """Read what machines and which bootstrap configuration an object joins; None for any other object.

    Taints of the object itself are put on its nodes and, however `propagation` is set, never taken away again:
    kubernetes-sigs/cluster-api docs/proposals/20250513-propogate-taints.md.

    Args:
        type_token: Pulumi type, `kubernetes:<apiVersion>:<kind>`.
        properties: The object.
    """
    group, kind = group_and_kind(type_token)
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
        machine=_object_reference(at(spec, "infrastructureRef"), namespace),
        bootstrap=_object_reference(at(spec, "bootstrap.configRef"), namespace),
        facts=taint_facts(read, "", MissingTaint(str(GPU_TAINT))),
    )


_CONTROL_PLANE = ("controlplane.cluster.x-k8s.io", "KubeadmControlPlane")


def _control_plane(properties: JsonObject) -> Owner:
    """Read a KubeadmControlPlane: kubeadm taints its nodes, unless it has a list of taints, which is not read.

    https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/, `NodeRegistrationOptions.taints`.
    """
    machines = at(properties, "spec.machineTemplate")
    machine = at(machines, "infrastructureRef") or at(machines, "spec.infrastructureRef")  # since v1beta2
    path = "spec.kubeadmConfigSpec.{}Configuration.nodeRegistration.taints"
    given = any(at(properties, path.format(step)) is not None for step in ("init", "join"))
    taint = Taint("node-role.kubernetes.io/control-plane", "", Effect.NO_SCHEDULE)
    late = ("spec.kubeadmConfigSpec",) if given else ()
    facts = PoolFacts("kubernetes", (), Fraction(0), () if given else (taint,), unknown=late)
    namespace = at(properties, "metadata.namespace")
    return Owner(machine=_object_reference(machine, namespace), bootstrap=Named(None, None, None), facts=facts)


def _object_reference(reference: Any, namespace: Any) -> Named:
    return Named(at(reference, "kind"), at(reference, "name"), at(reference, "namespace") or namespace)


READER = KubernetesReader(
    pools={(INFRASTRUCTURE, kind): _reader_of(known) for kind, known in machine_kinds().items()},
    others=(
        *((_BOOTSTRAP, f"{kind}{end}") for kind in _BOOTSTRAPS for end in ("", "Template")),
        *(("cluster.x-k8s.io", kind) for kind in _OWNERS),
        _CONTROL_PLANE,
    ),
    read_template=read_bootstrap,
    read_owner=read_owner,
)
