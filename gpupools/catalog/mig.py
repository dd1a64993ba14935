"""Multi-Instance GPU: the profiles of every model, what fits on one GPU, and the fewest GPUs for a wish.

Owns `data/mig_profiles.csv`, placement, packing, the resource names that MIG devices get in Kubernetes, and the
mig-parted document that the GPU Operator's MIG manager reads. Which cloud can express a layout is not decided here.

Answers are exact. A GPU is a line of placement units, a profile may start at some of them and covers a stretch;
what fits is found by walking that line over every choice, not by adding up slices
(https://docs.nvidia.com/datacenter/tesla/mig-user-guide/concepts.html).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gpupools.catalog.gpus import gpu_models, match_gpu_model
from gpupools.common.csv_rows import csv_rows
from gpupools.common.json_types import JsonDict

_FILE = Path(__file__).parents[1] / "data" / "mig_profiles.csv"
_NAME = re.compile(r"(?:\d+c\.)?(?P<slices>\d+)g\.(?P<gb>\d+)gb(?P<attributes>[+-].*)?")
_GPU = "nvidia.com/gpu"
_MOST_GPUS = 16  # no node of the three clouds has more (a2-megagpu-16g)


class MigError(Exception):
    """A request that MIG cannot serve; `what` is wrong, and `cure` is what the reader can do."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}; {cure}")
        self.what = what
        self.cure = cure


class NoMig(MigError, LookupError):
    """The GPU model cannot do MIG, or no such model is known."""


class UnknownProfile(MigError, LookupError):
    """The GPU model has no such profile; `nearest` are profiles it has, `found_on` the models that do have it."""

    def __init__(self, gpu: str, name: str, nearest: tuple[str, ...], found_on: tuple[str, ...]) -> None:
        elsewhere = f" (it is a profile of {_enumeration(found_on)})" if found_on else ""
        super().__init__(f"{gpu} has no MIG profile {name!r}{elsewhere}", f"use {_enumeration(nearest, 'or')}")
        self.gpu = gpu
        self.name = name
        self.nearest = nearest
        self.found_on = found_on


class BadLayout(MigError, ValueError):
    """A layout that does not fit its GPU, a count below zero, or a layout that the MIG strategy cannot offer."""


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
    placement_source: str
    sm_status: str
    """The same for `sm_count` and `usable_gib`, empty when neither is known."""
    sm_source: str

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


class Placed(NamedTuple):
    """An instance on a GPU."""

    profile: Profile
    start: int | None
    """First placement unit, None where no source gives the placements of the model."""
    size: int | None


Layout = tuple[Placed, ...]


@dataclass(frozen=True)
class Fit:
    """Whether a list of profiles fits on one GPU."""

    gpu: str
    fits: bool
    layout: Layout
    """Every instance with its place, empty when not all fit."""
    largest: Layout
    """The largest part that fits: most instances, then most compute slices, then those named first."""
    left_over: tuple[str, ...]
    """Names that are not in `largest`, as they were given."""
    why: str
    """One sentence: what is used, or what stands in the way."""
    status: str
    """How sure the placements behind the answer are: `verified`, `third-party`, `derived` or `unverified`."""

    @property
    def diagram(self) -> str:
        """`largest` (all, when it fits), one line per instance and one column per placement unit."""
        return _diagram(self.gpu, self.largest)


@dataclass(frozen=True)
class Packing:
    """The fewest GPUs that hold the requested slices."""

    gpu: str
    fits: bool
    """Whether the request fits on `max_gpus`."""
    gpus: int
    """The fewest GPUs that hold the request; when it does not fit, a number of which it is proven that fewer do not."""
    layouts: tuple[Layout, ...]
    """One layout per GPU, those with the largest profiles first; empty when the request does not fit."""
    why: str
    """One sentence: the proof of the count in short."""
    status: str
    """As `Fit.status`."""

    @property
    def diagram(self) -> str:
        """Every GPU with its layout."""
        return "\n\n".join(f"GPU {index}\n{_diagram(self.gpu, layout)}" for index, layout in enumerate(self.layouts))


class MigParted(NamedTuple):
    """A configuration for the MIG manager."""

    name: str
    """Value of the node label `nvidia.com/mig.config` that selects it."""
    document: JsonDict
    """mig-parted configuration file of version v1, ready to be written as YAML."""


# --- profiles ---------------------------------------------------------------------------------------------------------


@cache
def profiles(gpu: str) -> tuple[Profile, ...]:
    """List the MIG profiles of a GPU model, smallest first; empty when it cannot do MIG or is not known."""
    model = gpu_models().get(gpu)
    if model is None or model.mig_profiles is None:
        return ()
    return tuple(replace(profile, gpu=gpu) for profile in _profile_sets()[model.mig_profiles])


def profile(gpu: str, name: str) -> Profile:
    """Look up one profile.

    Raises:
        NoMig: the model cannot do MIG.
        UnknownProfile: it has no such profile.
    """
    found = _by_name(gpu).get(name)
    if found is None:
        raise UnknownProfile(gpu, name, _nearest(gpu, name), _found_on(name))
    return found


def geometry(gpu: str) -> Geometry:
    """Tell how a GPU model is divided; the whole GPU is its largest profile.

    Raises:
        NoMig: the model cannot do MIG.
    """
    whole = max(_by_name(gpu).values(), key=lambda each: each.compute_slices)
    return Geometry(whole.size, whole.compute_slices, whole.memory_slices)


@cache
def _profile_sets() -> Mapping[str, tuple[Profile, ...]]:
    sets: dict[str, list[Profile]] = {}
    for row in csv_rows(_FILE):
        sets.setdefault(row["profile_set"], []).append(_profile(row))
    return MappingProxyType({name: tuple(rows) for name, rows in sets.items()})


def _profile(row: Mapping[str, str]) -> Profile:
    plus, minus = _attributes(row["profile"])
    return Profile(
        gpu="",
        name=row["profile"],
        compute_slices=int(row["compute_slices"]),
        memory_slices=int(row["memory_slices"]),
        starts=tuple(int(start) for start in row["starts"].split()),
        size=_whole(row["size"]),
        max_instances=int(row["max_instances"]),
        sm_count=_whole(row["sm_count"]),
        usable_gib=float(row["usable_gib"]) if row["usable_gib"] else None,
        copy_engines=_whole(row["copy_engines"]),
        decoders=_whole(row["decoders"]),
        jpeg=_whole(row["jpeg"]),
        ofa=_whole(row["ofa"]),
        plus=plus,
        minus=minus,
        gi_profile_id=_whole(row["gi_profile_id"]),
        min_driver_branch=_whole(row["min_driver_branch"]),
        status=row["status"],
        source=row["source"],
        placement_status=row["placement_status"],
        placement_source=row["placement_source"],
        sm_status=row["sm_status"],
        sm_source=row["sm_source"],
    )


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _attributes(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parts = re.findall(r"([+-])([^+-]+)", name)
    return tuple(word for sign, word in parts if sign == "+"), tuple(word for sign, word in parts if sign == "-")


def _by_name(gpu: str) -> Mapping[str, Profile]:
    known = _known(gpu)
    if not known:
        if gpu in gpu_models():
            raise NoMig(
                f"{gpu} cannot do MIG", f"take one of {_enumeration(_mig_models(), 'or')}, or share it another way"
            )
        near = match_gpu_model(gpu) or _close(gpu, tuple(gpu_models())) or _mig_models()
        raise NoMig(f"no GPU model {gpu!r} is known", f"use {_enumeration(near, 'or')}")
    return known


@cache
def _known(gpu: str) -> Mapping[str, Profile]:
    return MappingProxyType({each.name: each for each in profiles(gpu)})


@cache
def _mig_models() -> tuple[str, ...]:
    return tuple(name for name, model in gpu_models().items() if model.mig_profiles is not None)


def _found_on(name: str) -> tuple[str, ...]:
    return tuple(gpu for gpu in _mig_models() if name in _known(gpu))


def _nearest(gpu: str, name: str) -> tuple[str, ...]:
    """Name up to three profiles that the writer of `name` may have meant: same slices first, then same spelling."""
    here = _known(gpu)
    plain = str(name).strip().casefold().removeprefix("nvidia.com/").removeprefix("mig-").removeprefix("mig ")
    for each in here.values():
        if plain in (each.name, each.resource_name.removeprefix("nvidia.com/mig-")):
            return (each.name,)
    parts = _NAME.fullmatch(plain)
    if parts is not None:
        wanted = _attributes(parts["attributes"] or "")
        alike = [each for each in here.values() if each.compute_slices == int(parts["slices"])]
        alike.sort(key=lambda each: ((each.plus, each.minus) != wanted, abs(_label_gb(each) - int(parts["gb"]))))
        if alike:
            return tuple(each.name for each in alike[:3])
    return _close(plain, tuple(here)) or tuple(here)[:3]


def _label_gb(each: Profile) -> int:
    parts = _NAME.fullmatch(each.name)
    return int(parts["gb"]) if parts else 0


def _close(word: str, words: tuple[str, ...]) -> tuple[str, ...]:
    from difflib import get_close_matches  # only on the way to an error, it would cost every start

    by_fold = {each.casefold(): each for each in words}
    return tuple(by_fold[each] for each in get_close_matches(word.casefold()[:80], by_fold, n=3, cutoff=0.5))


def _enumeration(words: Iterable[str], join: str = "and") -> str:
    *rest, last = words
    return f"{', '.join(rest)} {join} {last}" if rest else last


# --- one GPU ----------------------------------------------------------------------------------------------------------

_Counts = tuple[int, ...]
_Starts = tuple[tuple[int, int | None], ...]  # (index of the profile, first unit) of every instance


class _Board:
    """Everything that fits on one empty GPU with these profiles, found once by exact search."""

    def __init__(self, gpu: str, table: tuple[Profile, ...]) -> None:
        self.gpu = gpu
        self.table = table
        self.whole = max(table, key=lambda each: each.compute_slices)
        self.placements_known = all(each.starts for each in table)

    @cached_property
    def feasible(self) -> Mapping[_Counts, _Starts]:
        """Every set of instances that fits (how many of each profile), with one layout that shows it.

        A walk along the line: at a unit, either nothing starts or one of the profiles that may start there. What has
        been placed so far matters to the rest only as a count per profile, so of all walks with equal counts that
        reach a unit one is kept, and nothing is lost. Rules that look at counts alone only ever forbid more as
        instances are added, so a walk that breaks one is cut at once.
        """
        if not self.placements_known:
            return self._uniform()
        units = self.whole.size or 0
        reached: list[dict[_Counts, _Starts]] = [{} for _ in range(units + 1)]
        reached[0][(0,) * len(self.table)] = ()
        for unit in range(units):
            for counts, starts in reached[unit].items():
                _keep(reached[unit + 1], counts, starts)
                for index, each in enumerate(self.table):
                    end = unit + (each.size or 0)
                    if unit not in each.starts or end > units:
                        continue
                    more = (*counts[:index], counts[index] + 1, *counts[index + 1 :])
                    if not self.broken_rules(more):
                        _keep(reached[end], more, (*starts, (index, unit)))
        return reached[units]

    def _uniform(self) -> Mapping[_Counts, _Starts]:
        """Only equal slices up to their published maximum: without placements nothing more is certain."""
        nothing = (0,) * len(self.table)
        return {nothing: ()} | {
            (*nothing[:index], count, *nothing[index + 1 :]): ((index, None),) * count
            for index, each in enumerate(self.table)
            for count in range(1, each.max_instances + 1)
        }

    def broken_rules(self, counts: _Counts) -> list[str]:
        """Say which rules on counts a set of instances breaks, in words."""
        chosen = [(each, count) for each, count in zip(self.table, counts, strict=True) if count]
        broken = []
        for kind in ("compute", "memory"):
            needed = sum(getattr(each, f"{kind}_slices") * count for each, count in chosen)
            present = getattr(self.whole, f"{kind}_slices")
            if needed > present:
                broken.append(f"needs {needed} {kind} slices of {present}")
        media = sum(count for each, count in chosen if each.takes_media_engines)
        if media > 1:
            broken.append(f"needs {media} instances with +me or +me.all, of which a GPU carries 1")
        if any("me.all" in each.plus for each, _ in chosen):
            beside = [each.name for each, _ in chosen if "me.all" not in each.plus and "me" not in each.minus]
            if beside:
                broken.append(
                    f"has {_enumeration(beside)} beside +me.all, which leaves media engines to -me profiles only"
                )
        broken += [
            f"needs {count} of {each.name}, of which a GPU carries {each.max_instances}"
            for each, count in chosen
            if count > each.max_instances and not (each.takes_media_engines and media > 1)
        ]
        return broken

    def rules_of(self, each: Profile) -> object:
        """Give what decides where a profile fits; profiles with equal answers can stand in for each other."""
        slices = self.whole.compute_slices
        own_limit = each.name if each.max_instances < slices // each.compute_slices else ""
        media = (each.takes_media_engines, "me.all" in each.plus, "me" in each.minus)
        where = (each.starts, each.size) if self.placements_known else each.name
        return each.compute_slices, each.memory_slices, where, media, own_limit

    def count(self, names: Iterable[str]) -> _Counts:
        """Count names by profile; raises UnknownProfile."""
        asked = Counter(names)
        for name in asked:
            profile(self.gpu, name)
        return tuple(asked[each.name] for each in self.table)

    def layout(self, counts: _Counts) -> Layout:
        """Place a feasible set."""
        placed = [
            Placed(self.table[index], start, self.table[index].size if start is not None else None)
            for index, start in self.feasible[counts]
        ]
        return tuple(sorted(placed, key=lambda each: (each.start or 0, each.profile.name)))

    def status(self, counts: _Counts) -> str:
        """Give the weakest status of the facts about the profiles that occur."""
        order = ("verified", "third-party", "derived", "unverified")
        used = [each for each, count in zip(self.table, counts, strict=True) if count] or self.table
        return max((word for each in used for word in (each.status, each.placement_status)), key=order.index)


def _keep(reached: dict[_Counts, _Starts], counts: _Counts, starts: _Starts) -> None:
    # The last profiles in the table are the largest; a layout with those first reads best and is the same every time.
    if counts not in reached or _order(starts) < _order(reached[counts]):
        reached[counts] = starts


def _order(starts: _Starts) -> list[tuple[int, int]]:
    return sorted((-index, start or 0) for index, start in starts)


def _maximal(sets: Iterable[_Counts]) -> tuple[_Counts, ...]:
    largest: list[_Counts] = []
    for each in sorted(sets, key=lambda counts: (-sum(counts), counts)):
        if not any(all(a <= b for a, b in zip(each, other, strict=True)) for other in largest):
            largest.append(each)
    return tuple(largest)


@cache
def _board(gpu: str) -> _Board:
    return _Board(gpu, tuple(_by_name(gpu).values()))


def fit(gpu: str, names: Sequence[str]) -> Fit:
    """Tell whether one empty GPU holds these profiles, and where each goes.

    The order of the names does not matter to the answer: MIG Manager creates a layout in whichever order works
    (NVIDIA/mig-parted `pkg/mig/config/config.go`). Where no source gives the placements of a model, only equal slices
    up to their published maximum count as fitting, and `status` is `unverified`.

    Raises:
        NoMig: the model cannot do MIG.
        UnknownProfile: a name is not a profile of it.
    """
    return _fit(gpu, tuple(names))


@lru_cache(maxsize=1024)  # whoever looks for a machine asks the same of each
def _fit(gpu: str, names: tuple[str, ...]) -> Fit:
    board = _board(gpu)
    asked = board.count(names)
    fits = asked in board.feasible
    held = asked if fits else _largest_part(board, asked, names)
    room = dict(zip((each.name for each in board.table), held, strict=True))
    left_over = []
    for name in names:
        if room[name]:
            room[name] -= 1
        else:
            left_over.append(name)
    layout = board.layout(held)
    return Fit(
        gpu=gpu,
        fits=fits,
        layout=layout if fits else (),
        largest=layout,
        left_over=tuple(left_over),
        why=_use(board, layout) if fits else _obstacle(board, asked),
        status=board.status(asked),
    )


def _largest_part(board: _Board, asked: _Counts, names: Sequence[str]) -> _Counts:
    compute = [each.compute_slices for each in board.table]
    index_of = {each.name: index for index, each in enumerate(board.table)}
    first_named = [index_of[name] for name in dict.fromkeys(names)]

    def worth(counts: _Counts) -> tuple[int, int, list[int]]:
        slices = sum(count * each for count, each in zip(counts, compute, strict=True))
        return sum(counts), slices, [counts[index] for index in first_named]

    return max((part for part in board.feasible if all(a <= b for a, b in zip(part, asked, strict=True))), key=worth)


def _use(board: _Board, layout: Layout) -> str:
    compute = sum(each.profile.compute_slices for each in layout)
    memory = sum(each.profile.memory_slices for each in layout)
    return (
        f"uses {compute} of {board.whole.compute_slices} compute slices"
        f" and {memory} of {board.whole.memory_slices} memory slices of one {board.gpu}"
    )


def _obstacle(board: _Board, asked: _Counts) -> str:
    broken = board.broken_rules(asked)
    if broken:
        return f"{' and '.join(broken)} on one {board.gpu}"
    if not board.placements_known:
        return f"no source gives the placements of {board.gpu}, so only equal slices are certain to fit on one"
    return f"no choice of starts places them all on the {board.whole.size} placement units of one {board.gpu}"


def _diagram(gpu: str, layout: Layout) -> str:
    units = geometry(gpu).placement_units
    label = max((len(each.profile.name) for each in layout), default=0)
    label = max(label, len("unit"))
    if units is None:
        return "\n".join(f"{each.profile.name:<{label}}  somewhere (placements not published)" for each in layout)
    digits = len(str(units - 1))

    def line(name: str, marks: Iterable[str], remark: str = "") -> str:
        return f"{name:<{label}}  {' '.join(f'{mark:>{digits}}' for mark in marks)}  {remark}".rstrip()

    lines = [line("unit", map(str, range(units)))]
    taken: set[int] = set()
    for each in layout:
        start, size = each.start or 0, each.size or 0
        covered = range(start, start + size)
        taken.update(covered)
        lines.append(line(each.profile.name, ("#" if unit in covered else "." for unit in range(units)), _remark(each)))
    if len(taken) < units:
        lines.append(line("free", ("-" if unit not in taken else "." for unit in range(units))))
    return "\n".join(lines)


def _remark(placed: Placed) -> str:
    each = placed.profile
    facts = [f"{each.compute_slices} compute", f"{each.memory_slices} memory"]
    if each.sm_count is not None:
        facts.append(f"{each.sm_count} SMs")
    if each.usable_gib is not None:
        facts.append(f"{each.usable_gib:g} GiB")
    return ", ".join(facts)


# --- several GPUs -----------------------------------------------------------------------------------------------------

# Weights that turn a wish into a lower bound: one GPU carries at most the heaviest feasible set, so n GPUs carry at
# most n times that. Any weights give a true bound, because the heaviest set is computed; these were chosen because
# together they are tight on nearly every wish, for seven slices and for four.
_WEIGHTS: tuple[Callable[[Profile], int], ...] = (
    lambda each: each.compute_slices,
    lambda each: each.memory_slices,
    lambda each: each.takes_media_engines,
    lambda each: each.compute_slices >= 4,
    lambda each: each.takes_media_engines + (each.compute_slices >= 4),
    lambda each: each.takes_media_engines + (each.compute_slices >= 3),
    lambda each: each.takes_media_engines + (each.compute_slices >= 3) + (each.memory_slices >= 2),
    lambda each: (each.compute_slices >= 2) + (each.compute_slices >= 4),
    # A +me.all instance shares its GPU with -me profiles only, so beside the others it weighs a whole GPU.
    lambda each: 4 if "me.all" in each.plus else 0 if "me" in each.minus else each.compute_slices,
    lambda each: (
        (2 if "me.all" in each.plus else 0 if "me" in each.minus else each.compute_slices)
        + 2 * (each.takes_media_engines + (each.compute_slices >= 4) + (each.memory_slices >= 2))
    ),
)


def pack(gpu: str, wanted_slices: Mapping[str, int], max_gpus: int = 16) -> Packing:
    """Find the fewest GPUs that hold `wanted_slices` (profile name → count), with a layout for each.

    Why the count is the smallest. Everything that fits on one GPU is known (`_Board.feasible`), and part of what fits
    fits too, so holding the request is the same as covering it with maximal sets. Some GPU must hold the first profile
    still wanted, and giving that GPU a set that cannot be enlarged from what is still wanted never costs a GPU: what
    is added may be taken off the others. So trying each such set for it, then the rest with one GPU less, tries
    enough. A branch is cut only where a lower bound on GPUs, or an earlier full search of the same rest, rules it out.
    The numbers tried start at a lower bound and rise by one, so the first that works is the smallest.

    Full nodes of 16 GPUs take some milliseconds, tens at worst.

    Raises:
        NoMig: the model cannot do MIG.
        UnknownProfile: a name is not a profile of it.
        BadLayout: a count that is not a whole number of at least 0, or `max_gpus` not between 1 and 16.
    """
    board = _board(gpu)
    if not _is_count(max_gpus) or not 1 <= max_gpus <= _MOST_GPUS:
        raise BadLayout(f"got max_gpus {max_gpus!r}", f"give 1 to {_MOST_GPUS}")
    for name, count in wanted_slices.items():
        profile(gpu, name)
        if not _is_count(count):
            raise BadLayout(f"got {count!r} of {name}", "give a whole number, 0 or more")
    asked = tuple(wanted_slices.get(each.name, 0) for each in board.table)
    search = _Search(board, asked)
    bound, reason = search.bound()
    if not any(asked):
        reason = "no slices are requested"
    tried = "there is no way to place them on {}, every one was tried"
    for gpus in range(bound, max_gpus + 1):
        held = search.cover(gpus)
        if held is not None:
            proof = "one holds them all" if gpus == 1 else reason if gpus == bound else tried.format(gpus - 1)
            layouts = tuple(board.layout(counts) for counts in held)
            return Packing(gpu, True, gpus, layouts, f"{gpus} {gpu} needed: {proof}", board.status(asked))
    least = max(bound, max_gpus + 1)
    proof = reason if least == bound else tried.format(max_gpus)
    return Packing(gpu, False, least, (), f"more than {max_gpus} {gpu} needed: {proof}", board.status(asked))


class _Search:
    """Covering a wish with the sets that fit on one GPU.

    Profiles that obey the same rules (`1g.24gb`, `1g.24gb+gfx`) are one kind here: each can stand in for the other in
    any set, so they are told apart only at the end. Vectors count kinds, the largest first, as those leave the fewest
    choices.
    """

    def __init__(self, board: _Board, asked: _Counts) -> None:
        self.board = board
        self.asked = asked
        kinds: dict[object, list[int]] = {}
        for index, each in enumerate(board.table):
            if asked[index]:
                kinds.setdefault(board.rules_of(each), []).append(index)
        self.kinds = sorted(kinds.values(), key=lambda members: (-board.table[members[0]].memory_slices, members))
        self.first_of_kind = [board.table[members[0]] for members in self.kinds]
        wanted = {index for members in self.kinds for index in members}
        self.sets = _maximal(
            {
                self._by_kind(counts)
                for counts in board.feasible
                if all(index in wanted for index, count in enumerate(counts) if count)
            }
        )
        own = [tuple(int(kind is other) for other in self.kinds) for kind in self.kinds]
        shared = [tuple(int(weigh(each)) for each in self.first_of_kind) for weigh in _WEIGHTS]
        heaviest = {each: max(_weight(each, held) for held in self.sets) for each in shared + own}
        self.weights = [(each, most) for each, most in heaviest.items() if most]
        self.not_on: dict[_Counts, int] = {}

    def _by_kind(self, counts: _Counts) -> _Counts:
        return tuple(sum(counts[index] for index in members) for members in self.kinds)

    def bound(self) -> tuple[int, str]:
        """Give a number of GPUs that cannot hold the request, with the reason."""
        rest = self._by_kind(self.asked)
        least, by, most = 0, (0,) * len(rest), 0
        for weights, heaviest in self.weights:
            gpus = -(-_weight(weights, rest) // heaviest)
            if gpus > least:
                least, by, most = gpus, weights, heaviest
        for word in ("compute", "memory"):
            if least and by == tuple(getattr(each, f"{word}_slices") for each in self.first_of_kind):
                whole = getattr(self.board.whole, f"{word}_slices")
                gives = f"gives {whole}" if most == whole else f"gives these profiles at most {most} of {whole}"
                return least, f"{_weight(by, rest)} {word} slices are requested and one GPU {gives}"
        parts = [
            f"{self.board.table[index].name} counts {weight}"
            for members, weight in zip(self.kinds, by, strict=True)
            for index in members
            if weight
        ]
        if not parts:
            return least, ""
        return (
            least,
            f"when {_enumeration(parts)}, the request counts {_weight(by, rest)} and one GPU holds at most {most}",
        )

    def cover(self, gpus: int) -> list[_Counts] | None:
        """Split the request over at most `gpus` GPUs, None when that cannot be done."""
        held = self._cover(self._by_kind(self.asked), gpus)
        if held is None:
            return None
        left = list(self.asked)
        split = []
        for by_kind in sorted(held, reverse=True):
            counts = [0] * len(left)
            for members, wanted in zip(self.kinds, by_kind, strict=True):
                for index in members:
                    counts[index] = min(left[index], wanted - sum(counts[other] for other in members))
                    left[index] -= counts[index]
            split.append(tuple(counts))
        return split

    def _cover(self, rest: _Counts, gpus: int) -> list[_Counts] | None:
        first = next((index for index, count in enumerate(rest) if count), None)
        if first is None:
            return []
        if self.not_on.get(rest, 0) >= gpus:
            return None
        if any(_weight(weights, rest) > heaviest * gpus for weights, heaviest in self.weights):
            return None
        for held in _maximal({tuple(map(min, each, rest)) for each in self.sets if each[first]}):
            others = self._cover(tuple(map(int.__sub__, rest, held)), gpus - 1)
            if others is not None:
                return [held, *others]
        self.not_on[rest] = gpus
        return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _weight(weights: _Counts, counts: _Counts) -> int:
    return sum(map(int.__mul__, weights, counts))


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def advertised(gpu: str, layouts: Sequence[Sequence[str]], strategy: str) -> Mapping[str, int]:
    """Count what a node advertises: extended resource → number, over all its GPUs.

    `layouts` has one list of profile names per GPU; an empty list is a GPU with MIG off. With `mixed` every profile is
    a resource of its own and GPUs with MIG off stay `nvidia.com/gpu`; with `single` slices are `nvidia.com/gpu`, and
    all GPUs must carry slices of one profile (NVIDIA/k8s-device-plugin `internal/lm/mig-strategy.go`).

    Raises:
        NoMig: the model cannot do MIG, yet slices are asked for.
        UnknownProfile: a name is not a profile of it.
        BadLayout: a layout does not fit, or the strategy cannot offer it, or no such strategy.
    """
    if strategy not in ("single", "mixed"):
        raise BadLayout(f"there is no MIG strategy {strategy!r}", "use single or mixed")
    _check_layouts(gpu, layouts)
    sliced = [tuple(names) for names in layouts if names]
    kinds = sorted({name for names in sliced for name in names})
    if strategy == "single" and sliced:
        if len(kinds) > 1:
            raise BadLayout(
                f"MIG strategy single offers one profile per node, the layout has {_enumeration(kinds)}",
                "use the mixed strategy or one profile",
            )
        if len(sliced) < len(layouts):
            empty = len(layouts) - len(sliced)
            raise BadLayout(
                f"MIG strategy single wants slices on every GPU, {empty} of {len(layouts)} have none",
                "use the mixed strategy or slice every GPU",
            )
        return {_GPU: sum(map(len, sliced))}
    whole = len(layouts) - len(sliced)
    slices = Counter(profile(gpu, name).resource_name for names in sliced for name in names)
    return ({_GPU: whole} if whole else {}) | dict(sorted(slices.items()))


def mig_parted_config(gpu: str, layouts: Sequence[Sequence[str]]) -> MigParted:
    """Write the MIG manager's configuration for the GPUs of a node, one list of profile names per GPU.

    An empty list leaves MIG off on that GPU. The name is the stock one where NVIDIA has one for the layout
    (`all-1g.5gb`, `all-balanced`, `all-disabled`; NVIDIA/gpu-operator `assets/state-mig-manager/0400_configmap.yaml`),
    else it is made of the layout, so equal layouts have equal names. The document also holds `all-disabled`, which the
    operator's default configuration names (`migManager.config.default`).

    Raises:
        NoMig: the model cannot do MIG, yet slices are asked for.
        UnknownProfile: a name is not a profile of it.
        BadLayout: a layout does not fit, or there is no GPU.
    """
    if not layouts:
        raise BadLayout("a layout for 0 GPUs configures nothing", "give one list of profiles per GPU")
    _check_layouts(gpu, layouts)
    order = {each.name: index for index, each in enumerate(profiles(gpu))}
    devices: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for index, names in enumerate(layouts):
        largest_first = sorted(Counter(names).items(), key=lambda item: -order[item[0]])
        devices.setdefault(tuple(largest_first), []).append(index)
    entries = [_entry(counts, "all" if len(devices) == 1 else where) for counts, where in devices.items()]
    name = _config_name(gpu, devices)
    configs = {"all-disabled": [_entry((), "all")], name: entries}
    return MigParted(name, {"version": "v1", "mig-configs": configs})


def _check_layouts(gpu: str, layouts: Sequence[Sequence[str]]) -> None:
    for index, names in enumerate(layouts):
        if not names:
            continue
        answer = fit(gpu, names)
        if not answer.fits:
            kept = Counter(each.profile.name for each in answer.largest)
            part = ", ".join(f"{count}x {name}" for name, count in kept.items())
            raise BadLayout(f"the layout of GPU {index} {answer.why}", f"the largest part that fits is {part}")


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
        name = "custom-" + "_".join(f"gpu{'.'.join(map(str, where))}-{_words(each)}" for each, where in devices.items())
    if len(name) <= 63:  # the name is the value of a node label
        return name
    from hashlib import sha256  # rarely needed, and slow to import

    return f"custom-{sha256(name.encode()).hexdigest()[:16]}"


def named_layouts(gpu: str, name: str) -> dict[int | None, list[str]] | None:
    """Return the profiles by GPU index (None for every GPU) of a configuration named as `mig_parted_config` names it.

    None means that the name does not tell the layout.
    """
    known = {_word(each.name): each for each in profiles(gpu)}
    if name == "all-disabled":
        return {}
    if name == "all-balanced":
        return {None: [each for each, count in reversed(_balanced(gpu).items()) for _ in range(count)]}
    if (every := known.get(name.removeprefix("all-"))) is not None and name.startswith("all-"):
        return {None: [every.name] * every.max_instances}
    found: dict[int | None, list[str]] = {}
    for part in name.removeprefix("custom-").split("_") if name.startswith("custom-") else ("",):
        where, _, counts = part.removeprefix("gpu").partition("-") if part.startswith("gpu") else ("", "", part)
        names: list[str] = []
        for each in counts.split("-") if counts != "off" else ():
            count, _, word = each.rpartition("x")
            if word not in known or not (count.isdecimal() or not count):
                return None
            names += [known[word].name] * int(count or 1)
        if names:
            found |= {int(index) if index.isdecimal() else None: names for index in where.split(".")}
    return found


def _word(name: str) -> str:
    return name.replace("+", ".")


def _words(counts: tuple[tuple[str, int], ...]) -> str:
    return "-".join(_word(name) if count == 1 else f"{count}x{_word(name)}" for name, count in counts) or "off"


def _balanced(gpu: str) -> dict[str, int]:
    plain: dict[int, str] = {}
    for each in profiles(gpu):
        if not each.plus and not each.minus:
            plain.setdefault(each.compute_slices, each.name)
    return {plain[slices]: count for slices, count in ((1, 2), (2, 1), (3, 1)) if slices in plain}
