"""The GPU and the cloud support the sharing mode of a pool."""

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from pydantic import ValidationError

from gpupools.catalog.instance_types import InstanceType
from gpupools.catalog.mig import profiles
from gpupools.common.errors import shown
from gpupools.plan.capability import Verdict
from gpupools.plan.cloud import Cloud
from gpupools.plan.matrix import example_request, representatives
from gpupools.plan.pool_facts import By, PoolFacts, SharingFacts
from gpupools.plan.pool_planner import check_pool
from gpupools.policies.finding import Context, Finding, Rule
from gpupools.policies.rules._pools import describe_sharing
from gpupools.policies.rules._table import described
from gpupools.providers import clouds
from gpupools.spec.models import Mig, SharingMode, shared_mode


def _findings(pool: PoolFacts, context: Context) -> Iterator[Finding]:
    sharing = pool.sharing
    if sharing is None or pool.accelerator == "amd":
        return
    cloud = clouds().get(pool.cloud)
    if cloud is None:
        return
    for name in pool.instance_types:
        instance = cloud.instance_types.find(name)
        if instance is None:
            continue
        ways = _possible_software(cloud, pool)
        refused = _rejection(pool.cloud, instance.name, sharing, ways)
        if refused is not None:
            what, fix, source = refused
            yield Finding(
                what=f"{describe_sharing(sharing)} on {instance.name} ({instance.gpus} × {instance.gpu_model}) "
                f"is not supported: {what}",
                property=sharing.property,
                found=describe_sharing(sharing),
                fix=fix or "choose a sharing mode that `gpupools matrix` lists",
                pool=pool.pool,
                source=source,
            )
            return


def _possible_software(cloud: Cloud, pool: PoolFacts) -> tuple[str, ...]:
    """Return the values of `software` that are possible with the pool's inputs."""
    by = pool.software.device_plugin
    if by is By.CLOUD and "cloud-managed" in cloud.software:
        return ("cloud-managed",)
    if by is By.NOBODY:
        return tuple(name for name in cloud.software if name != "cloud-managed") or tuple(cloud.software)
    return tuple(cloud.software)


@lru_cache(maxsize=4096)
def _rejection(
    cloud_name: str, machine: str, sharing: SharingFacts, ways: tuple[str, ...]
) -> tuple[str, str, str] | None:
    """Return why no possible `software` supports the sharing mode; None if one does.

    Returns problem, fix and source of the first rejection by the capability matrix or the planner.
    """
    cloud = clouds()[cloud_name]
    # Google's N1 machine types have no row of their own, because GPUs are attached to them.
    instance = cloud.instance_types.find(machine)
    assert instance is not None
    wishes, wrong = _sharing_modes(cloud, instance, sharing)
    if not wishes:
        return wrong
    first: tuple[str, str, str] | None = None
    for software in ways:
        capability = cloud.capabilities[software, sharing.kind]
        for asked in wishes:
            cluster = _example_cluster(cloud_name)
            request = example_request("pool", cluster, software, sharing.kind, capability, instance, asked)
            problems = check_pool(request, cloud)
            if problems:
                first = first or (problems[0].what, problems[0].fix, problems[0].source or capability.source)
            elif capability.verdict is Verdict.REFUSED:
                first = first or (capability.why, capability.instead, capability.source)
            else:
                return None
    return first


@cache
def _example_cluster(cloud_name: str) -> Any:
    cloud = clouds()[cloud_name]
    return cloud.cluster.model_validate(dict(cloud.example_cluster))


def _sharing_modes(
    cloud: Cloud, instance: InstanceType, sharing: SharingFacts
) -> tuple[list[SharingMode], tuple[str, str, str] | None]:
    """Return the possible sharing modes in the form of a stack file, or problem, fix and source if there are none."""
    base, mode = sharing.kind.partition("+")[0], shared_mode(sharing.kind)
    clients = None
    if mode is not None:
        if sharing.clients is not None and sharing.clients < 2:
            return [], (
                f"got {sharing.clients}; a shared GPU needs at least 2",
                "use 2 or more, or do not share the GPU",
                "",
            )
        clients = mode.with_replicas(2 if sharing.clients is None else sharing.clients)
    if not base.startswith("mig-"):
        return ([clients] if clients else []), None
    made = [sample.mig for sample in representatives(sharing.kind, instance.gpu_model) if sample.mig is not None]
    if sharing.profile and not sharing.profile.startswith("MIG"):
        try:
            naming = base.removeprefix("mig-")
            made = [Mig.model_validate({"mode": "mig", "profile": sharing.profile, "strategy": naming})]
        except ValidationError:
            known = ", ".join(profile.name for profile in profiles(instance.gpu_model)) or "none"
            return [], (f"{shown(sharing.profile)} is not a MIG profile", f"profiles of this GPU: {known}", "")
    elif sharing.profile:
        # AKS names the compute slices only: MIG3g is the 3g profile of whatever GPU the size has.
        # https://learn.microsoft.com/azure/aks/gpu-multi-instance
        slices = sharing.profile.removeprefix("MIG")
        possible = [mig for mig in made if mig.profile is not None and mig.profile.startswith(f"{slices}.")]
        if not possible and profiles(instance.gpu_model):
            known = ", ".join(dict.fromkeys(f"MIG{each.compute_slices}g" for each in profiles(instance.gpu_model)))
            source = "https://learn.microsoft.com/azure/aks/gpu-multi-instance"
            return [], (f"{instance.gpu_model} has no profile {sharing.profile}", f"use one of {known}", source)
        made = possible or made
    return [mig.model_copy(update={"share": clients}) for mig in made], None


RULE = Rule(
    **described(__name__),
    pool=_findings,
)
