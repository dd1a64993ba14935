"""MIG: the profile table, what fits on one GPU, the fewest GPUs for a wish, and the words Kubernetes sees."""

import csv
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import pytest

import gpupools.catalog.mig
import gpupools.catalog.mig_fit
from gpupools.catalog.gpus import gpu_models
from gpupools.catalog.mig import (
    MigError,
    NoMig,
    Profile,
    UnknownProfile,
    geometry,
    profile,
    profiles,
)
from gpupools.catalog.mig_fit import Placed, fit, pack
from gpupools.catalog.mig_nodes import advertised, mig_parted_config
from tests.rows import each_row, listed

MODELS = [name for name, model in gpu_models().items() if model.mig_profiles]
SEVEN_SLICES = [gpu for gpu in MODELS if geometry(gpu).compute_slices == 7]
NO_PLACEMENTS = ["RTX-PRO-5000", "RTX-PRO-4500"]
ONE_OF_EACH_SHAPE = ["A30", "A100-40GB", "RTX-PRO-6000", "RTX-PRO-5000"]
"""Models that get larger samples; the others repeat their shapes with other names, and get smaller ones."""

# --- an oracle that shares no code with the product -------------------------------------------------------------------


def oracle_fits(gpu: str, names: Sequence[str]) -> bool:
    """Try every start of every instance, with sets of taken units."""
    wanted = [each for name in names for each in profiles(gpu) if each.name == name]
    if sum(each.name.endswith(("+me", "+me.all")) for each in wanted) > 1:
        return False
    if any(each.name.endswith("+me.all") for each in wanted):
        others = [each for each in wanted if not each.name.endswith("+me.all")]
        if not all(each.name.endswith("-me") for each in others):
            return False
    if any(count > profile(gpu, name).max_instances for name, count in Counter(names).items()):
        return False
    if gpu in NO_PLACEMENTS:
        return len(set(names)) <= 1
    compute = {7: 7, 4: 4}[geometry(gpu).compute_slices]
    if sum(each.compute_slices for each in wanted) > compute:
        return False

    def place(rest: list[Profile], taken: frozenset[int]) -> bool:
        if not rest:
            return True
        size = rest[0].size or 0
        for start in rest[0].starts:
            units = frozenset(range(start, start + size))
            if not units & taken and place(rest[1:], taken | units):
                return True
        return False

    return place(sorted(wanted, key=lambda each: -each.memory_slices), frozenset())


def oracle_gpus(gpu: str, names: Sequence[str], most: int) -> int | None:
    """Deal the instances out one by one over ever more GPUs, trying every GPU for each."""
    known: dict[tuple[str, ...], bool] = {}

    def fits(held: list[str]) -> bool:
        key = tuple(sorted(held))
        if key not in known:
            known[key] = oracle_fits(gpu, key)
        return known[key]

    def deal(rest: Sequence[str], bins: list[list[str]], free: int) -> bool:
        if not rest:
            return True
        for index, held in enumerate(bins):
            if held in bins[:index]:
                continue  # an equal GPU was tried already
            grown = [*held, rest[0]]
            if fits(grown) and deal(rest[1:], [*bins[:index], grown, *bins[index + 1 :]], free):
                return True
        return free > 0 and fits([rest[0]]) and deal(rest[1:], [*bins, [rest[0]]], free - 1)

    large_first = sorted(names, key=lambda name: -profile(gpu, name).memory_slices)
    return next((gpus for gpus in range(most + 1) if deal(large_first, [], gpus)), None)


def oracle_largest(gpu: str, names: Sequence[str]) -> tuple[int, int]:
    """Most instances, then most compute slices, over every part of the list."""
    best = (0, 0)
    for count in range(len(names), 0, -1):
        for part in set(itertools.combinations(sorted(names), count)):
            if oracle_fits(gpu, part):
                best = max(best, (count, sum(profile(gpu, name).compute_slices for name in part)))
        if best[0]:
            return best
    return best


def assert_layout_is_legal(gpu: str, layout: Iterable[Placed]) -> None:
    placed = list(layout)
    assert oracle_fits(gpu, [each.profile.name for each in placed])
    if gpu in NO_PLACEMENTS:
        assert all(each.start is None and each.size is None for each in placed)
        return
    units = [unit for each in placed for unit in range(each.start or 0, (each.start or 0) + (each.size or 0))]
    assert len(units) == len(set(units))
    assert all(0 <= unit < (geometry(gpu).placement_units or 0) for unit in units)
    assert all(each.start in each.profile.starts and each.size == each.profile.size for each in placed)


def names_in(layout: Iterable[Placed]) -> list[str]:
    return sorted(each.profile.name for each in layout)


# --- the table --------------------------------------------------------------------------------------------------------


def rows() -> list[dict[str, str]]:
    path = Path(gpupools.catalog.mig.__file__).parents[1] / "data" / "mig_profiles.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_row_has_its_source_and_a_known_status() -> None:
    words = {"verified", "third-party", "derived", "unverified"}

    for row in rows():
        assert None not in row
        assert None not in row.values()
        assert row["source"].startswith("https://") or row["source"].count("/") >= 2
        assert row["status"] in words
        assert row["placement_status"] in words
        assert bool(row["placement_source"]) == bool(row["starts"])
        assert bool(row["sm_status"]) == bool(row["sm_source"]) == bool(row["sm_count"] or row["usable_gib"])
        assert row["sm_status"] in words | {""}


def test_no_profile_is_listed_twice_and_every_set_belongs_to_a_model() -> None:
    keys = [(row["profile_set"], row["profile"]) for row in rows()]

    assert len(keys) == len(set(keys))
    assert {name for name, _ in keys} == {model.mig_profiles for model in gpu_models().values() if model.mig_profiles}


@each_row("gpu", MODELS)
def test_every_name_follows_nvidias_rule_from_slices_and_memory(gpu: str) -> None:
    whole = max(profiles(gpu), key=lambda each: each.compute_slices)
    total_gb = int(whole.name.split(".")[1].split("gb")[0])

    for each in profiles(gpu):
        # NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go: eighths of the memory, rounded to whole GB, halves up.
        eighths = Fraction(each.memory_slices * 8, whole.memory_slices)
        gb = floor(eighths / 8 * total_gb + Fraction(1, 2))
        suffix = "".join(f"+{word}" for word in each.plus) + "".join(f"-{word}" for word in each.minus)
        assert each.name == f"{each.compute_slices}g.{gb}gb{suffix}"
        assert each.gpu == gpu


@each_row("gpu", MODELS)
def test_the_rows_of_a_model_agree_with_each_other(gpu: str) -> None:
    units, compute, memory = geometry(gpu)

    assert (units, compute, memory) in {(8, 7, 8), (4, 4, 4), (12, 4, 4), (None, 2, 2)}
    for each in profiles(gpu):
        limit = min(compute // each.compute_slices, memory // each.memory_slices)
        assert each.max_instances == (1 if each.takes_media_engines else limit)
        assert (units is None) == (each.starts == ()) == (each.size is None)
        if units is not None and each.size is not None:
            assert each.size * memory == each.memory_slices * units
            assert all(start + each.size <= units for start in each.starts)
        if each.usable_gib is not None:
            label = int(each.name.split(".")[1].split("gb")[0])
            assert 0.8 * label <= each.usable_gib <= label


@listed(__file__)
def test_engines_and_memory_are_those_that_the_driver_lists(gpu: str, listing: str) -> None:
    """Free/total, GiB, P2P, SMs, decoders, encoders; below, where the page has it, copy engines, JPEG, OFA."""
    found = re.findall(r"MIG (\S+) +(\d+) +\d/(\d) +(\S+) +No +(\d+) +(\d+) +0(?:\n +(\d+) +(\d+) +(\d+))?", listing)

    assert len(found) == 4
    for name, *numbers in found:
        known = profile(gpu, name)
        facts = [known.gi_profile_id, known.max_instances, known.usable_gib, known.sm_count, known.decoders]
        facts += [known.copy_engines, known.jpeg, known.ofa]
        assert [float(number) if number else None for number in numbers] == facts


@each_row("gpu", MODELS)
def test_no_layout_hands_out_more_engines_than_the_gpu_has(gpu: str) -> None:
    table = profiles(gpu)
    if gpu in NO_PLACEMENTS or table[0].decoders is None:
        lists = [[each.name] * each.max_instances for each in table]
    else:
        lists = [list(some) for n in (2, 3) for some in itertools.combinations_with_replacement(_names(gpu), n)]
    whole = max(table, key=lambda each: each.compute_slices)

    for names in (names for names in lists if fit(gpu, names).fits):
        for engine in ("decoders", "jpeg", "ofa"):
            counts = [getattr(profile(gpu, name), engine) for name in names]
            assert None in (*counts, getattr(whole, engine)) or sum(counts) <= getattr(whole, engine)


def _names(gpu: str) -> list[str]:
    return [each.name for each in profiles(gpu)]


@each_row(
    ("name", "gpu", "count"),
    [
        ("1g.10gb", "A100-40GB", 4),
        ("1g.10gb", "A100-80GB", 7),
        ("1g.10gb", "H100-80GB", 7),
        ("1g.20gb", "A100-80GB", 4),
        ("1g.35gb", "H200-141GB", 4),
        ("1g.35gb", "GB300", 7),
        ("1g.24gb", "H100-96GB", 4),
        ("1g.24gb", "RTX-PRO-6000", 4),
        ("1g.24gb", "RTX-PRO-5000", 2),
        ("1g.12gb", "H100-NVL-94GB", 7),
        ("2g.48gb", "RTX-PRO-6000", 2),
        ("2g.48gb", "RTX-PRO-5000", 1),
        ("1g.23gb", "B200", 7),
        ("1g.23gb", "GB200", 7),
        ("1g.24gb", "GB200-189GB", 7),
        ("3g.95gb", "GB200-189GB", 2),
    ],
)
def test_one_name_has_its_own_count_on_every_model(name: str, gpu: str, count: int) -> None:
    assert profile(gpu, name).max_instances == count


@pytest.mark.parametrize(
    ("gpu", "name", "resource"),
    [
        ("A100-40GB", "1g.5gb", "nvidia.com/mig-1g.5gb"),
        ("A100-80GB", "1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("RTX-PRO-6000", "1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
        ("RTX-PRO-6000", "1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
        ("RTX-PRO-6000", "2g.48gb+gfx", "nvidia.com/mig-2g.48gb.gfx"),
    ],
)
def test_resource_names_are_those_of_the_device_plugin(gpu: str, name: str, resource: str) -> None:
    assert profile(gpu, name).resource_name == resource


@each_row("gpu", MODELS)
def test_every_name_finds_its_profile_and_resource_names_do_not_collide(gpu: str) -> None:
    assert [profile(gpu, name).name for name in _names(gpu)] == _names(gpu)
    assert len({each.resource_name for each in profiles(gpu)}) == len(profiles(gpu))


def test_models_of_one_set_share_the_facts_and_keep_their_names() -> None:
    assert [each.name for each in profiles("GH200-96GB")] == [each.name for each in profiles("H100-96GB")]
    assert {each.gpu for each in profiles("GH200-96GB")} == {"GH200-96GB"}


# --- what is asked wrongly --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", ["L4", "T4", "V100-16GB", "L40S", "A10G", "nonsense", "", "A100"])
def test_a_gpu_without_mig_has_no_profiles_and_every_question_says_so(gpu: str) -> None:
    assert profiles(gpu) == ()
    for ask in (
        lambda: geometry(gpu),
        lambda: profile(gpu, "1g.5gb"),
        lambda: fit(gpu, ["1g.5gb"]),
        lambda: pack(gpu, {"1g.5gb": 1}),
        lambda: advertised(gpu, [["1g.5gb"]], "mixed"),
        lambda: mig_parted_config(gpu, [["1g.5gb"]]),
    ):
        with pytest.raises(NoMig):
            ask()


@pytest.mark.parametrize(
    ("gpu", "text"),
    [
        ("L4", "L4 cannot do MIG; take one of A30, A100-40GB"),
        ("A100", "no GPU model 'A100' is known; use A100-40GB or A100-80GB"),
        ("A100-80G", "no GPU model 'A100-80G' is known; use A100-80GB"),
    ],
)
def test_the_refusal_of_a_gpu_names_what_works(gpu: str, text: str) -> None:
    with pytest.raises(NoMig) as caught:
        geometry(gpu)

    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("gpu", "name", "first", "found_on"),
    [
        ("A100-80GB", "1g.5gb", "1g.10gb", ("A100-40GB",)),
        ("A100-40GB", "3g.40gb", "3g.20gb", ("A100-80GB", "H100-80GB")),
        ("A100-80GB", "1g.5gb+me", "1g.10gb+me", ("A100-40GB",)),
        ("H100-80GB", "nvidia.com/mig-1g.10gb.me", "1g.10gb+me", ()),
        ("A100-40GB", "MIG 2g.10gb", "2g.10gb", ()),
        ("A100-40GB", "1c.3g.20gb", "3g.20gb", ()),
        ("A30", "5g.20gb", None, ()),
        ("A30", "", None, ()),
        ("A30", "x" * 100_000, None, ()),
        ("A30", "1g.6gb\n", "1g.6gb", ()),
    ],
)
def test_an_unknown_profile_names_the_nearest_and_where_it_belongs(
    gpu: str, name: str, first: str | None, found_on: tuple[str, ...]
) -> None:
    with pytest.raises(UnknownProfile) as caught:
        profile(gpu, name)

    nearest = re.split(", | or ", caught.value.cure.removeprefix("use "))
    elsewhere = re.findall(r"it is a profile of (.*)\)$", caught.value.what)
    assert set(nearest) <= set(_names(gpu))
    assert 1 <= len(nearest) <= 3
    assert first is None or nearest[0] == first
    assert caught.value.what.startswith(f"{gpu} has no MIG profile {name!r}")
    assert re.split(", | and ", elsewhere[0] if elsewhere else "") == list(found_on or [""])


@pytest.mark.parametrize("max_gpus", [0, -3, 17, 10**9])
def test_a_number_of_gpus_that_no_node_has_is_refused(max_gpus: int) -> None:
    with pytest.raises(MigError, match="give 1 to 16"):
        pack("A100-40GB", {"1g.5gb": 1}, max_gpus)


def test_random_words_raise_only_the_documented_errors() -> None:
    draw = random.Random(11)
    letters = "0123456789gcb.+-mealx_ Ünvidia/"

    for _ in range(200):
        word = "".join(draw.choice(letters) for _ in range(draw.randint(0, 14)))
        for gpu in ("A100-40GB", "RTX-PRO-6000", word):
            with pytest.raises(MigError) as caught:
                fit(gpu, [word])
            assert caught.value.what
            assert caught.value.cure


# --- one GPU ----------------------------------------------------------------------------------------------------------


@each_row("gpu", MODELS)
def test_fit_answers_as_brute_force_does(gpu: str) -> None:
    draw = random.Random(f"fit {gpu}")
    names = _names(gpu)
    every, some = (4, 150) if gpu in ONE_OF_EACH_SHAPE else (3, 30)
    lists = [list(few) for n in range(every) for few in itertools.combinations_with_replacement(names, n)]
    lists += [draw.choices(names, k=draw.randint(3, 8)) for _ in range(some)]
    small = [name for name in names if profile(gpu, name).compute_slices <= 2]
    lists += [draw.choices(small, k=draw.randint(3, 8)) for _ in range(some)]

    for wished in lists:
        answer = fit(gpu, wished)
        assert answer.fits == oracle_fits(gpu, wished), wished
        assert_layout_is_legal(gpu, answer.largest)
        if answer.fits:
            assert names_in(answer.layout) == sorted(wished)
            assert answer.largest == answer.layout
            assert answer.left_over == ()
        else:
            assert answer.layout == ()
            assert answer.left_over
            assert sorted([*names_in(answer.largest), *answer.left_over]) == sorted(wished)


@each_row("gpu", MODELS)
def test_the_largest_part_is_the_largest(gpu: str) -> None:
    draw = random.Random(f"part {gpu}")

    for _ in range(60 if gpu in ONE_OF_EACH_SHAPE else 15):
        wished = draw.choices(_names(gpu), k=draw.randint(2, 8))
        part = fit(gpu, wished).largest
        assert (len(part), sum(each.profile.compute_slices for each in part)) == oracle_largest(gpu, wished), wished


@pytest.mark.parametrize("gpu", SEVEN_SLICES)
def test_on_an_empty_seven_slice_gpu_the_sums_decide(gpu: str) -> None:
    """Holds by enumeration, not by definition: positions never stand in the way while the GPU is empty."""
    for count in range(1, 5 if gpu in ONE_OF_EACH_SHAPE else 4):
        for names in itertools.combinations_with_replacement(_names(gpu), count):
            chosen = [profile(gpu, name) for name in names]
            sums = (
                sum(each.compute_slices for each in chosen) <= 7
                and sum(each.memory_slices for each in chosen) <= 8
                and sum(each.takes_media_engines for each in chosen) <= 1
            )
            assert fit(gpu, names).fits == sums, names


@pytest.mark.parametrize(
    ("gpu", "kinds", "sets"),
    [
        ("A100-40GB", ("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"), 14),
        ("A100-40GB", ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"), 38),
        ("A30", ("1g.6gb", "2g.12gb", "4g.24gb"), 4),
        ("RTX-PRO-6000", ("1g.24gb", "2g.48gb", "4g.96gb"), 4),
    ],
    ids=["A100-40GB", "A100-40GB with double memory", "A30", "RTX-PRO-6000"],
)
def test_the_number_of_full_layouts_is_the_known_one(gpu: str, kinds: tuple[str, ...], sets: int) -> None:
    """Counts maximal placements as mig-parted's hardware does: nothing more can be placed beside them."""
    units = geometry(gpu).placement_units or 0
    compute = geometry(gpu).compute_slices
    found = set()

    def walk(unit: int, used: tuple[tuple[int, str], ...]) -> None:
        if unit >= units:
            taken = {u for start, name in used for u in range(start, start + (profile(gpu, name).size or 0))}
            slices = sum(profile(gpu, name).compute_slices for _, name in used)
            if not any(
                profile(gpu, name).compute_slices + slices <= compute
                and not taken & set(range(start, start + (profile(gpu, name).size or 0)))
                for name in kinds
                for start in profile(gpu, name).starts
            ):
                found.add(tuple(sorted(name for _, name in used)))
            return
        walk(unit + 1, used)
        for name in kinds:
            if unit in profile(gpu, name).starts:
                walk(unit + (profile(gpu, name).size or 0), (*used, (unit, name)))

    walk(0, ())

    assert len(found) == sets
    assert all(fit(gpu, names).fits for names in found)


A100 = "A100-40GB"
POSSIBLE = {
    "3x 1g + 2x 2g": ["1g.5gb"] * 3 + ["2g.10gb"] * 2,
    "balanced": ["1g.5gb"] * 2 + ["2g.10gb", "3g.20gb"],
    "1g + 2g + 4g": ["1g.5gb", "2g.10gb", "4g.20gb"],
    "3x 2g + 1g double": ["2g.10gb"] * 3 + ["1g.10gb"],
}
IMPOSSIBLE = {
    "8x 1g": (["1g.5gb"] * 8, "needs 8 compute slices of 7"),
    "2x 4g": (["4g.20gb"] * 2, "needs 8 compute slices of 7"),
    "4x 2g": (["2g.10gb"] * 4, "needs 8 compute slices of 7"),
    "4g + 2x 2g": (["4g.20gb"] + ["2g.10gb"] * 2, "needs 8 compute slices of 7"),
    "3x 2g + 2x 1g": (["2g.10gb"] * 3 + ["1g.5gb"] * 2, "needs 8 compute slices of 7"),
    "4g + 3g + 1g": (["4g.20gb", "3g.20gb", "1g.5gb"], "needs 8 compute slices of 7"),
    "3g + 5x 1g": (["3g.20gb"] + ["1g.5gb"] * 5, "needs 8 compute slices of 7"),
    "2x 3g + 1g": (["3g.20gb"] * 2 + ["1g.5gb"], "needs 9 memory slices of 8"),
    "4g + 2g + 2x 1g": (["4g.20gb", "2g.10gb"] + ["1g.5gb"] * 2, "needs 8 compute slices of 7"),
    "7g + 1g": (["7g.40gb", "1g.5gb"], "needs 9 memory slices of 8"),
    "3g + 3x 1g double": (["3g.20gb"] + ["1g.10gb"] * 3, "needs 10 memory slices of 8"),
    "two +me": (["1g.5gb+me"] * 2, "+me"),
    "3g + 1g double + 3x 1g": (["3g.20gb", "1g.10gb"] + ["1g.5gb"] * 3, "needs 9 memory slices of 8"),
}


@pytest.mark.parametrize(("names", "reason"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_does_not_fit_says_which_limit_it_breaks(names: list[str], reason: str) -> None:
    answer = fit(A100, names)

    assert not answer.fits
    assert reason in answer.why
    assert answer.why.endswith("on one A100-40GB")
    assert answer.left_over


@pytest.mark.parametrize("names", POSSIBLE.values(), ids=POSSIBLE)
def test_the_order_of_the_names_does_not_change_the_layout(names: list[str]) -> None:
    draw = random.Random(3)

    for _ in range(5):
        assert fit(A100, draw.sample(names, len(names))).layout == fit(A100, names).layout


@pytest.mark.parametrize(
    ("names", "fits", "reason"),
    [
        (["1g.24gb+me.all", "1g.24gb-me", "2g.48gb-me"], True, "uses 4 of 4"),
        (["2g.48gb+me.all", "2g.48gb-me"], True, "uses 4 of 4"),
        (["1g.24gb+me", "1g.24gb", "1g.24gb+gfx", "1g.24gb-me"], True, "uses 4 of 4"),
        (["1g.24gb+me.all", "1g.24gb"], False, "1g.24gb beside +me.all"),
        (["1g.24gb+me.all", "1g.24gb+gfx"], False, "1g.24gb+gfx beside +me.all"),
        (["1g.24gb+me.all", "1g.24gb+me"], False, "2 instances with +me or +me.all"),
        (["2g.48gb+me.all", "1g.24gb+me.all"], False, "2 instances with +me or +me.all"),
        (["2g.48gb", "2g.48gb+gfx", "1g.24gb-me"], False, "needs 5 compute slices of 4"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
def test_media_engines_are_handed_out_once(names: list[str], fits: bool, reason: str) -> None:
    answer = fit("RTX-PRO-6000", names)

    assert answer.fits is fits
    assert reason in answer.why
    assert answer.status == "third-party"


def test_of_two_equal_parts_the_one_named_first_is_kept() -> None:
    assert fit("RTX-PRO-6000", ["1g.24gb+me.all", "1g.24gb"]).left_over == ("1g.24gb",)
    assert fit("RTX-PRO-6000", ["1g.24gb", "1g.24gb+me.all"]).left_over == ("1g.24gb+me.all",)


def test_a30_media_profiles_of_two_sizes_exclude_each_other() -> None:
    assert fit("A30", ["2g.12gb+me", "2g.12gb"]).fits
    assert not fit("A30", ["2g.12gb+me", "1g.6gb+me"]).fits


@pytest.mark.parametrize("gpu", NO_PLACEMENTS)
def test_without_known_placements_only_equal_slices_count_as_fitting(gpu: str) -> None:
    one, other = [each.name for each in profiles(gpu) if each.max_instances == 2][:2]

    alike = fit(gpu, [one, one])
    mixed = fit(gpu, [one, other])

    assert alike.fits
    assert [each.start for each in alike.layout] == [None, None]
    assert "not published" in alike.diagram
    assert not mixed.fits
    assert "no source gives the placements" in mixed.why
    assert pack(gpu, {one: 1, other: 1}).why == f"2 {gpu} needed: {mixed.why}"
    assert alike.status == mixed.status == "unverified"


def test_where_sums_allow_but_starts_do_not_the_placement_is_named() -> None:
    middle = Profile(**{**_fields("A30", "2g.12gb"), "name": "2g.middle", "starts": (1,)})
    table = (middle, *(profile("A30", name) for name in ("2g.12gb", "4g.24gb")))
    board = gpupools.catalog.mig_fit._Board("A30", table)

    assert (1, 1, 0) not in board.feasible
    assert "no choice of starts" in gpupools.catalog.mig_fit._obstacle(board, (1, 1, 0))


def _fields(gpu: str, name: str) -> dict[str, Any]:
    found = profile(gpu, name)
    return {field: getattr(found, field) for field in Profile.__dataclass_fields__}


def test_28_sms_and_10_gb_on_an_a100_40gb_fit_three_times() -> None:
    """The worked example of the documentation: 14 SMs per slice, so 28 SMs are 2g.10gb, and 3 of them fit."""
    request = [each for each in profiles(A100) if each.sm_count == 28 and "10gb" in each.name]

    (found,) = request
    answer = fit(A100, [found.name] * 4)
    rest = fit(A100, [found.name] * 3 + ["1g.10gb"])

    assert found.name == "2g.10gb"
    assert profile(A100, "1g.5gb").sm_count == 14
    assert found.max_instances == 3
    assert found.usable_gib == pytest.approx(9.62)
    assert len(answer.largest) == 3
    assert answer.left_over == ("2g.10gb",)
    assert answer.why.startswith("needs 8 compute slices of 7")
    assert [(each.profile.name, each.start) for each in rest.layout][-1] == ("1g.10gb", 6)


def test_the_layout_is_drawn_slice_by_slice() -> None:
    drawn = fit(A100, ["1g.5gb", "3g.20gb", "2g.10gb"]).diagram

    assert drawn.splitlines() == [
        "unit     0 1 2 3 4 5 6 7",
        "3g.20gb  # # # # . . . .  3 compute, 4 memory, 42 SMs, 19.5 GiB",
        "2g.10gb  . . . . # # . .  2 compute, 2 memory, 28 SMs, 9.62 GiB",
        "1g.5gb   . . . . . . # .  1 compute, 1 memory, 14 SMs, 4.75 GiB",
        "free     . . . . . . . -",
    ]


def test_a_gpu_of_twelve_units_is_drawn_in_columns() -> None:
    drawn = fit("RTX-PRO-6000", ["2g.48gb", "1g.24gb"]).diagram

    assert drawn.splitlines()[0] == "unit      0  1  2  3  4  5  6  7  8  9 10 11"
    assert drawn.splitlines()[2].startswith("1g.24gb   .  .  .  .  .  .  #  #  #  .  .  .")


def test_nothing_fits_on_a_gpu_and_leaves_it_free() -> None:
    answer = fit(A100, [])

    assert answer.fits
    assert answer.layout == ()
    assert answer.diagram.splitlines()[1] == "free  - - - - - - - -"


def test_a_list_of_a_hundred_thousand_names_is_answered() -> None:
    answer = fit(A100, ["1g.5gb"] * 100_000)

    assert len(answer.largest) == 7
    assert len(answer.left_over) == 99_993


# --- several GPUs -----------------------------------------------------------------------------------------------------


@each_row("gpu", MODELS)
def test_pack_takes_as_few_gpus_as_brute_force(gpu: str) -> None:
    draw = random.Random(f"pack {gpu}")
    names = _names(gpu)

    for size in [1, 2, 3, 4, 5, 6, 7, 8] * (10 if gpu in ONE_OF_EACH_SHAPE else 3):
        wished = draw.choices(names, weights=[draw.random() ** 2 for _ in names], k=size)
        answer = pack(gpu, Counter(wished), 8)
        assert answer.gpus == oracle_gpus(gpu, wished, 8), wished
        assert_packing_is_legal(gpu, Counter(wished), answer)


@pytest.mark.parametrize("gpu", [A100, "A30", "RTX-PRO-6000"])
def test_pack_never_needs_more_than_a_packing_known_to_exist(gpu: str) -> None:
    """Full nodes, made from layouts that fit: too large for brute force, but the answer has an upper bound."""
    draw = random.Random(f"node {gpu}")

    for gpus in [4, 8, 16] * 4:
        wished: Counter[str] = Counter()
        for _ in range(gpus):
            wished.update(names_in(fit(gpu, draw.choices(_names(gpu), k=12)).largest))
        answer = pack(gpu, wished)
        assert answer.fits
        assert answer.gpus <= gpus
        assert_packing_is_legal(gpu, wished, answer)


def assert_packing_is_legal(gpu: str, wished: Mapping[str, int], answer: Any) -> None:
    assert answer.fits
    assert len(answer.layouts) == answer.gpus
    assert all(answer.layouts)
    assert Counter(name for layout in answer.layouts for name in names_in(layout)) == Counter(wished)
    for layout in answer.layouts:
        assert_layout_is_legal(gpu, layout)


@pytest.mark.parametrize(
    ("gpu", "wished", "gpus"),
    [
        (A100, {"1g.5gb": 7}, 1),
        (A100, {"1g.5gb": 8}, 2),
        (A100, {"1g.5gb": 112}, 16),
        (A100, {"4g.20gb": 5}, 5),
        (A100, {"3g.20gb": 5}, 3),
        (A100, {"3g.20gb": 8, "4g.20gb": 8}, 8),
        (A100, {"3g.20gb": 3, "2g.10gb": 2, "1g.5gb": 9}, 4),
        (A100, {"1g.5gb+me": 9, "1g.5gb": 3}, 9),
        (A100, {"7g.40gb": 3, "1g.5gb": 1}, 4),
        (A100, {"3g.20gb": 3, "1g.10gb": 2, "1g.5gb": 0}, 2),
        # 14 compute and 14 memory slices are within two GPUs, yet one holds only three of the seven
        (A100, {"2g.10gb": 7}, 3),
        (A100, {"3g.20gb": 3, "1g.5gb": 5}, 3),
        ("RTX-PRO-6000", {"1g.24gb+me.all": 2, "1g.24gb-me": 6, "2g.48gb": 2}, 3),
        ("RTX-PRO-6000", {"1g.24gb+me.all": 2, "1g.24gb": 1}, 3),
        ("RTX-PRO-5000", {"1g.24gb": 3, "1g.24gb-me": 1}, 3),
    ],
)
def test_known_packings(gpu: str, wished: dict[str, Any], gpus: int) -> None:
    answer = pack(gpu, wished)

    assert answer.gpus == gpus
    assert_packing_is_legal(gpu, {name: count for name, count in wished.items() if count}, answer)


@pytest.mark.parametrize(
    ("wished", "max_gpus", "least"),
    [
        ({"1g.5gb": 113}, 16, 17),
        ({"4g.20gb": 9}, 8, 9),
        ({"3g.20gb": 3, "1g.5gb": 5}, 2, 3),
        ({"1g.5gb": 10**12}, 16, -(-(10**12) // 7)),
    ],
)
def test_too_much_is_refused_with_a_count_that_is_proven(wished: dict[str, Any], max_gpus: int, least: int) -> None:
    answer = pack(A100, wished, max_gpus)

    assert not answer.fits
    assert answer.gpus == least
    assert answer.layouts == ()
    assert answer.why.startswith(f"more than {max_gpus} A100-40GB needed: ")


@listed(__file__)
def test_the_reason_says_what_bounds_the_count(wished: dict[str, Any], why: str) -> None:
    assert pack(A100, wished).why == why


@pytest.mark.parametrize("wished", [{}, {"1g.5gb": 0}], ids=["no wish", "a wish for none"])
def test_no_wish_needs_no_gpu(wished: dict[str, Any]) -> None:
    answer = pack(A100, wished)

    assert (answer.fits, answer.gpus, answer.layouts, answer.diagram) == (True, 0, (), "")
    assert answer.why == "0 A100-40GB needed: no slices are requested"


def test_packing_gives_the_same_answer_whatever_the_order_of_the_wish() -> None:
    wished = {"1g.5gb": 9, "2g.10gb": 2, "3g.20gb": 3}

    assert pack(A100, wished) == pack(A100, dict(reversed(wished.items())))


def test_a_packing_is_drawn_gpu_by_gpu() -> None:
    drawn = pack(A100, {"4g.20gb": 2, "3g.20gb": 1}).diagram.split("\n\n")

    assert [block.splitlines()[0] for block in drawn] == ["GPU 0", "GPU 1"]
    assert drawn[0].splitlines()[2].startswith("4g.20gb  # # # # . . . .")


# --- Kubernetes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layouts", "strategy", "resources"),
    [
        ([["1g.5gb"] * 7] * 8, "single", {"nvidia.com/gpu": 56}),
        ([["1g.5gb"] * 7] * 8, "mixed", {"nvidia.com/mig-1g.5gb": 56}),
        (
            [["3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb"]] * 2,
            "mixed",
            {"nvidia.com/mig-1g.5gb": 4, "nvidia.com/mig-2g.10gb": 2, "nvidia.com/mig-3g.20gb": 2},
        ),
        ([["1g.5gb+me", "2g.10gb"], []], "mixed", {
            "nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb.me": 1, "nvidia.com/mig-2g.10gb": 1,
        }),
        ([[], []], "single", {"nvidia.com/gpu": 2}),
        ([[], []], "mixed", {"nvidia.com/gpu": 2}),
        ([["3g.20gb"] * 2, ["3g.20gb"]], "single", {"nvidia.com/gpu": 3}),
        ([], "mixed", {}),
    ],
)  # fmt: skip
def test_a_node_advertises_its_slices_by_strategy(
    layouts: list[list[str]], strategy: str, resources: dict[str, int]
) -> None:
    assert dict(advertised(A100, layouts, strategy)) == resources


def assert_mig_parted_accepts(document: dict[str, Any]) -> None:
    """The rules of NVIDIA/mig-parted api/spec/v1/spec.go."""
    assert set(document) == {"version", "mig-configs"}
    assert document["version"] == "v1"
    for entries in document["mig-configs"].values():
        assert entries
        for entry in entries:
            assert set(entry) <= {"devices", "mig-enabled", "mig-devices"}
            assert entry["devices"] == "all" or all(isinstance(index, int) for index in entry["devices"])
            assert ("mig-devices" in entry) == entry["mig-enabled"]
            assert sum(entry.get("mig-devices", {"none": 1}).values()) > 0


@pytest.mark.parametrize(
    ("gpu", "layouts", "name", "entries"),
    [
        (A100, [["1g.5gb"] * 7] * 8, "all-1g.5gb", [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
        ]),
        (A100, [["1g.5gb+me"]], "all-1g.5gb.me", [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb+me": 1}},
        ]),
        ("RTX-PRO-6000", [["1g.24gb-me"] * 4], "all-1g.24gb-me", [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.24gb-me": 4}},
        ]),
        (A100, [["1g.5gb", "3g.20gb", "1g.5gb", "2g.10gb"]] * 2, "all-balanced", [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}},
        ]),
        ("A30", [["1g.6gb", "1g.6gb", "2g.12gb"]], "all-balanced", [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"2g.12gb": 1, "1g.6gb": 2}},
        ]),
        (A100, [["1g.5gb"] * 3], "custom-3x1g.5gb", [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.5gb": 3}},
        ]),
        ("H100-80GB", [["3g.40gb", "2g.20gb", "1g.10gb"]] * 8, "custom-3g.40gb-2g.20gb-1g.10gb", [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 1}},
        ]),
        (A100, [["1g.5gb"] * 7, ["7g.40gb"], ["1g.5gb"] * 7, []], "custom-gpu0.2-7x1g.5gb_gpu1-7g.40gb_gpu3-off", [
            {"devices": [0, 2], "mig-enabled": True, "mig-devices": {"1g.5gb": 7}},
            {"devices": [1], "mig-enabled": True, "mig-devices": {"7g.40gb": 1}},
            {"devices": [3], "mig-enabled": False},
        ]),
        (A100, [[], []], "all-disabled", [{"devices": "all", "mig-enabled": False}]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_the_mig_managers_configuration_follows_the_layout(
    gpu: str, layouts: list[list[str]], name: str, entries: list[dict[str, Any]]
) -> None:
    made = mig_parted_config(gpu, layouts)

    assert made.name == name
    assert made.document["mig-configs"][name] == entries
    assert made.document["mig-configs"]["all-disabled"] == [{"devices": "all", "mig-enabled": False}]
    assert_mig_parted_accepts(made.document)


@each_row("gpu", MODELS)
def test_configuration_names_are_label_values_and_differ_with_the_layout(gpu: str) -> None:
    draw = random.Random(f"names {gpu}")
    label = r"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
    seen: dict[str, object] = {}

    for _ in range(60):
        layouts = [names_in(fit(gpu, draw.choices(_names(gpu), k=5)).largest) for _ in range(draw.randint(1, 8))]
        made = mig_parted_config(gpu, layouts)
        entries = made.document["mig-configs"][made.name]
        assert len(made.name) <= 63
        assert set(made.name) <= set(label)
        assert made.name[-1].isalnum()
        assert seen.setdefault(made.name, entries) == entries
        assert mig_parted_config(gpu, layouts) == made
