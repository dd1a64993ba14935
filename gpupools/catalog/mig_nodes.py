"""The resources that nodes with MIG advertise, and the mig-parted document of the GPU Operator's MIG manager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpupools.catalog.mig import profile, profiles
from gpupools.common.json_types import JsonDict
from gpupools.common.numbers import whole_number

_GPU = "nvidia.com/gpu"


class MigParted(NamedTuple):
    """A configuration for the MIG manager."""

    name: str
    """Value of the node label `nvidia.com/mig.config` that selects it."""
    document: JsonDict
    """mig-parted configuration file of version v1, ready to be written as YAML."""


def advertised(gpu: str, layouts: Sequence[Sequence[str]], strategy: str) -> Mapping[str, int]:
    """Count what a node advertises: extended resource → number, over all its GPUs.

    `layouts` has one list of profile names per GPU; an empty list is a GPU with MIG off. With `mixed` every profile is
    a resource of its own and GPUs with MIG off stay `nvidia.com/gpu`; with `single` slices are `nvidia.com/gpu`, and
    all GPUs must carry slices of one profile (NVIDIA/k8s-device-plugin `internal/lm/mig-strategy.go`), which the model
    of the sharing mode makes sure of.

    Raises:
        NoMig: the model cannot do MIG, yet slices are asked for.
        UnknownProfile: a name is not a profile of it.
    """
    sliced = [names for names in layouts if names]
    if strategy == "single" and sliced:
        return {_GPU: sum(map(len, sliced))}
    whole = len(layouts) - len(sliced)
    slices = Counter(profile(gpu, name).resource_name for names in sliced for name in names)
    return ({_GPU: whole} if whole else {}) | dict(sorted(slices.items()))


def mig_parted_config(gpu: str, layouts: Sequence[Sequence[str]]) -> MigParted:
    """Write the MIG manager's configuration for the GPUs of a node, one list of profile names that fit per GPU.

    An empty list leaves MIG off on that GPU. The name is the stock one where NVIDIA has one for the layout
    (`all-1g.5gb`, `all-balanced`, `all-disabled`; NVIDIA/gpu-operator `assets/state-mig-manager/0400_configmap.yaml`),
    else it is made of the layout, so equal layouts have equal names. The document also holds `all-disabled`, which the
    operator's default configuration names (`migManager.config.default`).

    Raises:
        NoMig: the model cannot do MIG, yet slices are asked for.
        UnknownProfile: a name is not a profile of it.
    """
    table = profiles(gpu)
    devices: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for index, names in enumerate(layouts):
        largest_first = sorted(Counter(names).items(), key=lambda item: -table.index(profile(gpu, item[0])))
        devices.setdefault(tuple(largest_first), []).append(index)
    entries = [_entry(counts, "all" if len(devices) == 1 else where) for counts, where in devices.items()]
    name = _config_name(gpu, devices)
    configs = {"all-disabled": [_entry((), "all")], name: entries}
    return MigParted(name, {"version": "v1", "mig-configs": configs})


def _entry(counts: tuple[tuple[str, int], ...], where: str | list[int]) -> JsonDict:
    # mig-devices is required with MIG on and an error with MIG off (NVIDIA/mig-parted `api/spec/v1/spec.go`).
    if not counts:
        return {"devices": where, "mig-enabled": False}
    return {"devices": where, "mig-enabled": True, "mig-devices": dict(counts)}


def _config_name(gpu: str, devices: Mapping[tuple[tuple[str, int], ...], list[int]]) -> str:
    if len(devices) == 1:
        (counts,) = devices
        if not counts:
            return "all-disabled"
        if len(counts) == 1 and counts[0][1] == profile(gpu, counts[0][0]).max_instances:
            return f"all-{_word(counts[0][0])}"
        if dict(counts) == _balanced(gpu):
            return "all-balanced"
        name = f"custom-{_words(counts)}"
    else:
        name = "custom-" + "_".join(f"gpu{'.'.join(map(str, where))}-{_words(key)}" for key, where in devices.items())
    if len(name) <= 63:  # the name is the value of a node label
        return name
    from hashlib import sha256  # rarely needed, and slow to import

    return f"custom-{sha256(name.encode()).hexdigest()[:16]}"


def named_layouts(gpu: str, name: str) -> dict[int | None, list[str]] | None:
    """Return the profiles by GPU index (None for every GPU) of a configuration named as `mig_parted_config` names it.

    None means that the name does not tell the layout.
    """
    known = {_word(candidate.name): candidate for candidate in profiles(gpu)}
    if name == "all-disabled":
        return {}
    if name == "all-balanced":
        return {None: [mig_name for mig_name, count in reversed(_balanced(gpu).items()) for _ in range(count)]}
    if (every := known.get(name.removeprefix("all-"))) is not None and name.startswith("all-"):
        return {None: [every.name] * every.max_instances}
    found: dict[int | None, list[str]] = {}
    for part in name.removeprefix("custom-").split("_") if name.startswith("custom-") else ("",):
        where, _, counts = part.removeprefix("gpu").partition("-") if part.startswith("gpu") else ("", "", part)
        names: list[str] = []
        for counted in counts.split("-") if counts != "off" else ():
            count, _, word = counted.rpartition("x")
            times = whole_number(count or "1", digits=2)
            if word not in known or times is None:
                return None
            names += [known[word].name] * times
        if names:
            found |= {int(index) if index.isdecimal() else None: names for index in where.split(".")}
    return found


def _word(name: str) -> str:
    return name.replace("+", ".")


def _words(counts: tuple[tuple[str, int], ...]) -> str:
    return "-".join(_word(name) if count == 1 else f"{count}x{_word(name)}" for name, count in counts) or "off"


def _balanced(gpu: str) -> dict[str, int]:
    plain: dict[int, str] = {}
    for candidate in profiles(gpu):
        if not candidate.plus and not candidate.minus:
            plain.setdefault(candidate.compute_slices, candidate.name)
    return {plain[slices]: count for slices, count in ((1, 2), (2, 1), (3, 1)) if slices in plain}
