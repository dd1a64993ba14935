"""Multi-Instance GPU: the MIG profiles of every model, and how each model is divided.

Owns `data/mig_profiles.csv`. What fits on a GPU is in `mig_fit`, what Kubernetes and the GPU Operator's MIG manager see
in `mig_nodes`. Which cloud can express a layout is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.catalog.gpus import gpu_models, match_gpu_model
from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import close, enumeration

_NAME = re.compile(r"(?:\d+c\.)?(?P<slices>\d+)g\.(?P<gb>\d+)gb(?P<attributes>[+-].*)?")


class MigError(Exception):
    """A request that MIG cannot serve; `what` is wrong, and `cure` is what the reader can do."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}; {cure}")
        self.what = what
        self.cure = cure


class NoMig(MigError, LookupError):
    """The GPU model cannot do MIG, or no such model is known."""


class UnknownProfile(MigError, LookupError):
    """The GPU model has no such profile; says which it has that are alike, and the models that do have it."""

    def __init__(self, gpu: str, name: str, nearest: tuple[str, ...], found_on: tuple[str, ...]) -> None:
        elsewhere = f" (it is a profile of {enumeration(found_on)})" if found_on else ""
        super().__init__(f"{gpu} has no MIG profile {name!r}{elsewhere}", f"use {enumeration(nearest, 'or')}")


@dataclass(frozen=True)
class Profile:
    """One MIG profile of one GPU model."""

    gpu: str
    name: str
    """As NVIDIA writes it, `1g.5gb+me`; the number before `gb` is a label, `usable_gib` is what a pod gets."""
    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    """Placement units at which it may start, empty when no source gives them."""
    size: int | None
    """Placement units it covers, None when no source gives them."""
    max_instances: int
    """Most instances of this profile alone on one GPU."""
    sm_count: int | None
    """Streaming multiprocessors."""
    usable_gib: float | None
    copy_engines: int | None
    decoders: int | None
    jpeg: int | None
    ofa: int | None
    """Optical-flow accelerators."""
    plus: tuple[str, ...]
    """Attributes added: `me` (media engines), `me.all` (all of them), `gfx` (graphics APIs)."""
    minus: tuple[str, ...]
    """Attributes taken away: `me`."""
    gi_profile_id: int | None
    """GPU instance profile id, as `nvidia-smi mig -cgi` takes it."""
    min_driver_branch: int | None
    status: str
    """How sure name and count are: `verified`, `third-party`, `derived` or `unverified`."""
    source: str
    placement_status: str
    """The same for `starts` and `size`."""
    sm_status: str
    """The same for `sm_count` and `usable_gib`, empty when neither is known."""

    @property
    def resource_name(self) -> str:
        """Extended resource under the mixed strategy, such as `nvidia.com/mig-1g.5gb.me`.

        Every `+` becomes a dot, a minus stays (NVIDIA/k8s-device-plugin `internal/rm/rm.go`).
        """
        return f"nvidia.com/mig-{self.name.replace('+', '.')}"

    @property
    def takes_media_engines(self) -> bool:
        """Whether it is one of the profiles (`+me`, `+me.all`) of which a GPU carries at most one instance."""
        return "me" in self.plus or "me.all" in self.plus


class Geometry(NamedTuple):
    """How a GPU model is divided."""

    placement_units: int | None
    """Length of the line on which instances are placed, None when no source gives it."""
    compute_slices: int
    memory_slices: int


def profiles(gpu: str) -> tuple[Profile, ...]:
    """List the MIG profiles of a GPU model, smallest first; empty when it cannot do MIG or is not known."""
    return tuple(_known(gpu).values())


def profile(gpu: str, name: str) -> Profile:
    """Look up one profile.

    Raises:
        NoMig: the model cannot do MIG.
        UnknownProfile: it has no such profile.
    """
    found = profiles_by_name(gpu).get(name)
    if found is None:
        raise UnknownProfile(gpu, name, _nearest(gpu, name), _found_on(name))
    return found


def geometry(gpu: str) -> Geometry:
    """Tell how a GPU model is divided; the whole GPU is its largest profile.

    Raises:
        NoMig: the model cannot do MIG.
    """
    whole = max(profiles_by_name(gpu).values(), key=lambda candidate: candidate.compute_slices)
    return Geometry(whole.size, whole.compute_slices, whole.memory_slices)


_NUMBERS = (
    *("compute_slices", "memory_slices", "size", "max_instances", "sm_count"),
    *("copy_engines", "decoders", "jpeg", "ofa", "gi_profile_id", "min_driver_branch"),
)
_TEXTS = ("status", "source", "placement_status", "sm_status")


def _profile(gpu: str, row: Mapping[str, str]) -> Profile:
    plus, minus = _attributes(row["profile"])
    plain: dict[str, Any] = {key: int(row[key]) if row[key] else None for key in _NUMBERS}
    plain |= {key: row[key] for key in _TEXTS}
    return Profile(
        gpu=gpu,
        name=row["profile"],
        starts=tuple(int(start) for start in row["starts"].split()),
        usable_gib=float(row["usable_gib"]) if row["usable_gib"] else None,
        plus=plus,
        minus=minus,
        **plain,
    )


def _attributes(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parts = re.findall(r"([+-])([^+-]+)", name)
    return tuple(word for sign, word in parts if sign == "+"), tuple(word for sign, word in parts if sign == "-")


def profiles_by_name(gpu: str) -> Mapping[str, Profile]:
    """Return the profiles of a GPU model, smallest first.

    Raises:
        NoMig: the model cannot do MIG.
    """
    known = _known(gpu)
    if not known:
        if gpu in gpu_models():
            raise NoMig(
                f"{gpu} cannot do MIG", f"take one of {enumeration(_mig_models(), 'or')}, or share it another way"
            )
        near = match_gpu_model(gpu) or close(gpu, gpu_models(), cutoff=0.5) or _mig_models()
        raise NoMig(f"no GPU model {gpu!r} is known", f"use {enumeration(near, 'or')}")
    return known


@cache
def _known(gpu: str) -> Mapping[str, Profile]:
    model = gpu_models().get(gpu)
    rows = data_rows("mig_profiles.csv") if model is not None and model.mig_profiles else ()
    return MappingProxyType(
        {row["profile"]: _profile(gpu, row) for row in rows if model and row["profile_set"] == model.mig_profiles}
    )


@cache
def _mig_models() -> tuple[str, ...]:
    return tuple(name for name, model in gpu_models().items() if model.mig_profiles is not None)


def _found_on(name: str) -> tuple[str, ...]:
    return tuple(gpu for gpu in _mig_models() if name in _known(gpu))


def _nearest(gpu: str, name: str) -> tuple[str, ...]:
    """Name up to three profiles that the writer of `name` may have meant: same slices first, then same spelling."""
    here = _known(gpu)
    plain = str(name).strip().casefold().removeprefix("nvidia.com/").removeprefix("mig-").removeprefix("mig ")
    for candidate in here.values():
        if plain in (candidate.name, candidate.resource_name.removeprefix("nvidia.com/mig-")):
            return (candidate.name,)
    parts = _NAME.fullmatch(plain)
    if parts is not None:
        wanted = _attributes(parts["attributes"] or "")
        alike = [other for other in here.values() if other.compute_slices == int(parts["slices"])]
        alike.sort(key=lambda other: ((other.plus, other.minus) != wanted, abs(_label_gb(other) - int(parts["gb"]))))
        if alike:
            return tuple(candidate.name for candidate in alike[:3])
    return tuple(close(plain, here, cutoff=0.5)) or tuple(here)[:3]


def _label_gb(candidate: Profile) -> int:
    parts = _NAME.fullmatch(candidate.name)
    return int(parts["gb"]) if parts else 0
