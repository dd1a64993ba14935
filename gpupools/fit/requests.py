"""What a pod asks for, counted as Kubernetes counts it, and what the API server refuses of it."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from gpupools.common.errors import shown
from gpupools.common.json_types import JsonObject
from gpupools.common.numbers import quantity as quantity
from gpupools.readback.inputs import at

Amounts = Mapping[str, Decimal]
"""Resource to amount: cores, bytes, or units."""


@lru_cache(maxsize=4096)
def is_extended(resource: str) -> bool:
    """Return whether a resource is counted in whole units, as those of device plugins are.

    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
    """
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


class Requests(NamedTuple):
    """What one pod asks for."""

    amounts: Amounts
    """Without amounts of 0."""
    most_units: Amounts
    """The most that one container asks for of each extended resource."""
    invalid: Sequence[tuple[str, str]]
    """What the API server refuses, each with the fix."""


def requests_of(spec: JsonObject) -> Requests:
    """Return what a pod asks for: of all containers together, or of its largest init container.

    Containers of `initContainers` with restartPolicy Always run beside all later ones.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    invalid: list[tuple[str, str]] = []
    total, largest, units = (dict[str, Decimal]() for _ in range(3))
    first = spec.get("initContainers") or ()
    for index, container in enumerate([*first, *(spec.get("containers") or ())]):
        asked = _requested(container.get("resources"), f"container {container.get('name', '')}", invalid)
        units = _most(units, {name: amount for name, amount in asked.items() if is_extended(name)})
        if index < len(first):
            largest = _most(largest, _sum(total, asked))
        if index >= len(first) or container.get("restartPolicy") == "Always":
            total = _sum(total, asked)
    total = _most(total, largest)
    # https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/: a limit of the pod is its
    # request only of what no container requests.
    own = at(spec, "resources.requests") or ()
    whole = _requested(spec.get("resources"), "the pod", invalid).items()
    total |= {name: amount for name, amount in whole if name not in total or name in own}
    total = _sum(total, _parsed(spec.get("overhead")))
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        what = "sets overhead, which the API server rejects without a RuntimeClass that has it"
        invalid.append((what, "remove it"))
    for name, value in (spec.get("nodeSelector") or {}).items():
        if not isinstance(value, str):
            what = f"nodeSelector.{name} is no text but {shown(value)}, which the API server rejects"
            invalid.append((what, "put it in quotes"))
    return Requests({name: amount for name, amount in total.items() if amount}, units, tuple(dict.fromkeys(invalid)))


def _requested(resources: JsonObject | None, whose: str, invalid: list[tuple[str, str]]) -> dict[str, Decimal]:
    """Return the requests of a container; the API server sets those that are missing to the limits."""
    limits, requests = (_parsed((resources or {}).get(part)) for part in ("limits", "requests"))
    asked, rejects = limits | requests, "which the API server rejects"
    for name, request in asked.items():
        limit, is_whole = limits.get(name), is_extended(name)
        if (is_whole or name.startswith("hugepages-")) and limit != request:
            has = "no limit" if limit is None else f"the limit {limit:f}"
            fix = f"set limits and requests of {name} to the same number"
            invalid.append((f"{whose} requests {request:f} of {name} with {has}, {rejects}", fix))
        elif not is_whole and limit is not None and request > limit:
            fix = f"raise the limit of {name}, or lower the request"
            invalid.append((f"{whose} requests more {name} than its limit, {rejects}", fix))
        if is_whole and request != request.to_integral_value():
            what = f"{whose} requests {request:f} of {name}, and the API server rejects parts of a unit"
            invalid.append((what, "request whole units of a pool that shares its GPUs"))
    if any(name.startswith("hugepages-") for name in asked) and not {"cpu", "memory"} & asked.keys():
        what = f"{whose} requests huge pages without cpu and memory, {rejects}"
        invalid.append((what, "request cpu or memory beside them"))
    return asked


def _parsed(given: JsonObject | None) -> dict[str, Decimal]:
    found = {str(name): quantity(value) for name, value in (given or {}).items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def _sum(first: Amounts, second: Amounts) -> dict[str, Decimal]:
    return {**first, **{name: first.get(name, Decimal(0)) + amount for name, amount in second.items()}}


def _most(first: Amounts, second: Amounts) -> dict[str, Decimal]:
    return {**first, **{name: max(first.get(name, Decimal(0)), amount) for name, amount in second.items()}}


@lru_cache(maxsize=4096)
def shown_amount(name: str, amount: Decimal) -> str:
    """Return an amount as text."""
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return f"{round(float(amount) / 2**30, 1):g} GiB of {name}"
    return f"{round(float(amount), 3):g} {name}"
