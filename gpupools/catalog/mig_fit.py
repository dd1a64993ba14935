"""What fits on one GPU under MIG, and the fewest GPUs for a wish.

Answers are exact. A GPU is a line of placement units, a profile may start at some of them and covers a stretch;
what fits is found by walking that line over every choice, not by adding up slices
(https://docs.nvidia.com/datacenter/tesla/mig-user-guide/concepts.html).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

from gpupools.catalog.mig import MigError, Profile, geometry, profile, profiles_by_name
from gpupools.common.errors import enumeration

_SLICES = ("compute", "memory")
_MOST_GPUS = 16  # no node of the three clouds has more (a2-megagpu-16g)


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


# --- one GPU ----------------------------------------------------------------------------------------------------------

_Counts = tuple[int, ...]
_Starts = tuple[tuple[int, int | None], ...]  # (index of the profile, first unit) of every instance


class _Board:
    """Everything that fits on one empty GPU with these profiles, found once by exact search."""

    def __init__(self, gpu: str, table: tuple[Profile, ...]) -> None:
        self.gpu = gpu
        self.table = table
        self.whole = max(table, key=lambda mig_profile: mig_profile.compute_slices)
        self.placements_known = all(candidate.starts for candidate in table)
        self.unsure = f"no source gives the placements of {gpu}, so only equal slices are certain to fit on one"

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
                for index, candidate in enumerate(self.table):
                    end = unit + (candidate.size or 0)
                    if unit not in candidate.starts or end > units:
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
            for index, candidate in enumerate(self.table)
            for count in range(1, candidate.max_instances + 1)
        }

    def broken_rules(self, counts: _Counts) -> list[str]:
        """Say which rules on counts a set of instances breaks, in words."""
        chosen = [(candidate, count) for candidate, count in zip(self.table, counts, strict=True) if count]
        broken = []
        for kind in _SLICES:
            needed = sum(getattr(candidate, f"{kind}_slices") * count for candidate, count in chosen)
            present = getattr(self.whole, f"{kind}_slices")
            if needed > present:
                broken.append(f"needs {needed} {kind} slices of {present}")
        media = sum(count for candidate, count in chosen if candidate.takes_media_engines)
        if media > 1:
            broken.append(f"needs {media} instances with +me or +me.all, of which a GPU carries 1")
        if any("me.all" in candidate.plus for candidate, _ in chosen):
            beside = [other.name for other, _ in chosen if "me.all" not in other.plus and "me" not in other.minus]
            if beside:
                broken.append(
                    f"has {enumeration(beside)} beside +me.all, which leaves media engines to -me profiles only"
                )
        broken += [
            f"needs {count} of {candidate.name}, of which a GPU carries {candidate.max_instances}"
            for candidate, count in chosen
            if count > candidate.max_instances and not (candidate.takes_media_engines and media > 1)
        ]
        return broken

    def count(self, names: Iterable[str] | Mapping[str, int]) -> _Counts:
        """Count names, or take their counts, by profile; raises UnknownProfile."""
        asked = Counter(names)
        for name in asked:
            profile(self.gpu, name)
        return tuple(asked[candidate.name] for candidate in self.table)

    def layout(self, counts: _Counts) -> Layout:
        """Place a feasible set."""
        placed = [
            Placed(self.table[index], start, self.table[index].size if start is not None else None)
            for index, start in self.feasible[counts]
        ]
        return tuple(sorted(placed, key=lambda part: (part.start or 0, part.profile.name)))

    def status(self, counts: _Counts) -> str:
        """Give the weakest status of the facts about the profiles that occur."""
        order = ("verified", "third-party", "derived", "unverified")
        used = [candidate for candidate, count in zip(self.table, counts, strict=True) if count] or self.table
        return max((word for each in used for word in (each.status, each.placement_status)), key=order.index)


def _keep(reached: dict[_Counts, _Starts], counts: _Counts, starts: _Starts) -> None:
    # The last profiles in the table are the largest; a layout with those first reads best and is the same every time.
    if counts not in reached or _order(starts) < _order(reached[counts]):
        reached[counts] = starts


def _order(starts: _Starts) -> list[tuple[int, int]]:
    return sorted((-index, start or 0) for index, start in starts)


@cache
def _board(gpu: str) -> _Board:
    return _Board(gpu, tuple(profiles_by_name(gpu).values()))


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
    room = dict(zip((candidate.name for candidate in board.table), held, strict=True))
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
    compute = [candidate.compute_slices for candidate in board.table]
    index_of = {candidate.name: index for index, candidate in enumerate(board.table)}
    first_named = [index_of[name] for name in dict.fromkeys(names)]

    def worth(counts: _Counts) -> tuple[int, int, list[int]]:
        slices = sum(count * number for count, number in zip(counts, compute, strict=True))
        return sum(counts), slices, [counts[index] for index in first_named]

    return max((part for part in board.feasible if all(a <= b for a, b in zip(part, asked, strict=True))), key=worth)


def _use(board: _Board, layout: Layout) -> str:
    compute = sum(placed.profile.compute_slices for placed in layout)
    memory = sum(placed.profile.memory_slices for placed in layout)
    return (
        f"uses {compute} of {board.whole.compute_slices} compute slices"
        f" and {memory} of {board.whole.memory_slices} memory slices of one {board.gpu}"
    )


def _obstacle(board: _Board, asked: _Counts) -> str:
    broken = board.broken_rules(asked)
    if broken:
        return f"{' and '.join(broken)} on one {board.gpu}"
    if not board.placements_known:
        return board.unsure
    return f"no choice of starts places them all on the {board.whole.size} placement units of one {board.gpu}"


def _diagram(gpu: str, layout: Layout) -> str:
    units = geometry(gpu).placement_units
    label = max((len(placed.profile.name) for placed in layout), default=0)
    label = max(label, len("unit"))
    if units is None:
        return "\n".join(f"{placed.profile.name:<{label}}  somewhere (placements not published)" for placed in layout)
    digits = len(str(units - 1))

    def line(name: str, marks: Iterable[str], remark: str = "") -> str:
        return f"{name:<{label}}  {' '.join(f'{mark:>{digits}}' for mark in marks)}  {remark}".rstrip()

    lines = [line("unit", map(str, range(units)))]
    taken: set[int] = set()
    for part in layout:
        start, size = part.start or 0, part.size or 0
        covered = range(start, start + size)
        taken.update(covered)
        lines.append(line(part.profile.name, ("#" if unit in covered else "." for unit in range(units)), _remark(part)))
    if len(taken) < units:
        lines.append(line("free", ("-" if unit not in taken else "." for unit in range(units))))
    return "\n".join(lines)


def _remark(placed: Placed) -> str:
    mig_profile = placed.profile
    facts = [f"{mig_profile.compute_slices} compute", f"{mig_profile.memory_slices} memory"]
    if mig_profile.sm_count is not None:
        facts.append(f"{mig_profile.sm_count} SMs")
    if mig_profile.usable_gib is not None:
        facts.append(f"{mig_profile.usable_gib:g} GiB")
    return ", ".join(facts)


# --- several GPUs -----------------------------------------------------------------------------------------------------


def pack(gpu: str, wanted_slices: Mapping[str, int], max_gpus: int = 16) -> Packing:
    """Find the fewest GPUs that hold `wanted_slices` (profile name → count), with a layout for each.

    Why the count is the smallest. Everything that fits on one GPU is known (`_Board.feasible`), and part of what fits
    fits too, so holding the request is the same as covering it with maximal sets. Some GPU must hold the first profile
    still wanted, and giving that GPU a set that cannot be enlarged from what is still wanted never costs a GPU: what
    is added may be taken off the others. So trying each such set for it, then the rest with one GPU less, tries
    enough. A branch is cut only where a lower bound on GPUs, or an earlier full search of the same rest, rules it out.
    The numbers tried start at a lower bound and rise by one, so the first that works is the smallest.

    Full nodes of 16 GPUs take some milliseconds, some hundred at worst.

    Raises:
        NoMig: the model cannot do MIG.
        UnknownProfile: a name is not a profile of it.
        MigError: `max_gpus` is not between 1 and 16.
    """
    board = _board(gpu)
    if not 1 <= max_gpus <= _MOST_GPUS:
        raise MigError(f"got max_gpus {max_gpus!r}", f"give 1 to {_MOST_GPUS}")
    asked = board.count(wanted_slices)
    search = _Search(board, asked)
    bound, reason = search.bound()
    tried = "there is no way to place them on {}, every one was tried" if board.placements_known else board.unsure
    for gpus in range(bound, max_gpus + 1):
        held = search.cover(search.asked, gpus)
        if held is not None:
            proof = "one holds them all" if gpus == 1 else reason if gpus == bound else tried.format(gpus - 1)
            layouts = tuple(board.layout(counts) for counts in sorted(held, key=search.large_first, reverse=True))
            return Packing(gpu, True, gpus, layouts, f"{gpus} {gpu} needed: {proof}", board.status(asked))
    least = max(bound, max_gpus + 1)
    proof = reason if least == bound else tried.format(max_gpus)
    return Packing(gpu, False, least, (), f"more than {max_gpus} {gpu} needed: {proof}", board.status(asked))


class _Search:
    """Covering a wish with the sets that fit on one GPU.

    One GPU carries at most the heaviest feasible set, so n GPUs carry at most n times that, whatever the weights of the
    profiles.
    """

    def __init__(self, board: _Board, asked: _Counts) -> None:
        self.board, self.asked = board, asked
        # The largest first, as those leave the fewest choices.
        self.wanted = sorted(
            (index for index, count in enumerate(asked) if count), key=lambda index: -board.table[index].memory_slices
        )
        unwanted = [index for index, count in enumerate(asked) if not count]
        self.sets = self._maximal(held for held in board.feasible if not any(held[index] for index in unwanted))
        weights = [(word, [getattr(candidate, f"{word}_slices") for candidate in board.table]) for word in _SLICES]
        weights.append(("", [int(candidate.takes_media_engines) for candidate in board.table]))
        weights += [("", [int(other == index) for other in range(len(asked))]) for index in self.wanted]
        limits = [(word, weight, max(_weight(weight, held) for held in self.sets)) for word, weight in weights]
        self.limits = [limit for limit in limits if limit[2]]
        self.not_on: dict[_Counts, int] = {}

    def large_first(self, counts: _Counts) -> _Counts:
        """Return the counts of what is wanted, the largest profile first."""
        return tuple(counts[index] for index in self.wanted)

    def _maximal(self, sets: Iterable[_Counts]) -> list[_Counts]:
        """Return the sets that are not part of another."""
        largest: list[_Counts] = []
        for held in sorted(sets, key=lambda counts: (-sum(counts), self.large_first(counts))):
            if not any(all(map(int.__le__, held, other)) for other in largest):
                largest.append(held)
        return largest

    def bound(self) -> tuple[int, str]:
        """Give a number of GPUs of which fewer cannot hold the request, with the reason."""
        if not self.wanted:
            return 0, "no slices are requested"
        word, weights, most = max(self.limits, key=lambda limit: -(-_weight(limit[1], self.asked) // limit[2]))
        wish = _weight(weights, self.asked)
        least = -(-wish // most)
        if word:
            whole = getattr(self.board.whole, f"{word}_slices")
            gives = f"gives {whole}" if most == whole else f"gives these profiles at most {most} of {whole}"
            return least, f"{wish} {word} slices are requested and one GPU {gives}"
        parts = [f"{self.board.table[index].name} counts {weights[index]}" for index in self.wanted if weights[index]]
        return least, f"when {enumeration(parts)}, the request counts {wish} and one GPU holds at most {most}"

    def cover(self, rest: _Counts, gpus: int) -> list[_Counts] | None:
        """Split what is left of the request over at most `gpus` GPUs, None when that cannot be done."""
        first = next((index for index in self.wanted if rest[index]), None)
        if first is None:
            return []
        too_heavy = any(_weight(weights, rest) > most * gpus for _, weights, most in self.limits)
        if too_heavy or self.not_on.get(rest, 0) >= gpus:
            return None
        for held in self._maximal({tuple(map(min, counts, rest)) for counts in self.sets if counts[first]}):
            others = self.cover(tuple(map(int.__sub__, rest, held)), gpus - 1)
            if others is not None:
                return [held, *others]
        self.not_on[rest] = gpus
        return None


def _weight(weights: Sequence[int], counts: _Counts) -> int:
    return sum(map(int.__mul__, weights, counts))
