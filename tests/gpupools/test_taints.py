"""Taints in Kubernetes' spelling."""

import pytest

from gpupools.common.errors import shown
from gpupools.common.taints import GPU_TAINT, HARD_EFFECTS, Effect, Taint, parse_taint, repels_cpu_pods
from tests.rows import each_row

NO_SCHEDULE, PREFER, NO_EXECUTE = Effect.NO_SCHEDULE, Effect.PREFER_NO_SCHEDULE, Effect.NO_EXECUTE
LONG = "x" * 63


def test_the_gpu_taint_is_the_one_gke_sets() -> None:
    assert str(GPU_TAINT) == "nvidia.com/gpu=present:NoSchedule"
    assert parse_taint(str(GPU_TAINT)) == GPU_TAINT


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        pytest.param("team=vision:NoSchedule", Taint("team", "vision", NO_SCHEDULE), id="key, value and effect"),
        pytest.param("team:NoExecute", Taint("team", "", NO_EXECUTE), id="without a value"),
        pytest.param("example.com/a_b.c=1.0:PreferNoSchedule", Taint("example.com/a_b.c", "1.0", PREFER), id="prefix"),
        pytest.param(f"{LONG}={LONG}:NoSchedule", Taint(LONG, LONG, NO_SCHEDULE), id="as long as allowed"),
    ],
)
def test_a_taint_is_read_and_written_as_kubectl_does(text: str, taint: Taint) -> None:
    assert parse_taint(text) == taint
    assert str(taint) == text


def test_an_empty_value_is_written_without_its_equals_sign() -> None:
    taint = parse_taint("team=:NoSchedule")

    assert taint == Taint("team", "", NO_SCHEDULE)
    assert str(taint) == "team:NoSchedule"


FORM = "write a taint as key=value:Effect, e.g. 'team=vision:NoSchedule'"
EFFECTS = "use NoSchedule, PreferNoSchedule or NoExecute"
KEY = "a taint's key is a qualified name such as 'example.com/team'"
VALUE = "a taint's value has at most 63 letters, digits, '-', '_' and '.'"


@each_row(
    ("text", "message"),
    [
        pytest.param("", f"got ''; {FORM}", id="empty"),
        pytest.param("team", f"got 'team'; {FORM}", id="a key alone"),
        pytest.param("team=vision", f"got 'team=vision'; {FORM}", id="no effect"),
        pytest.param("=vision:NoSchedule", f"got '=vision:NoSchedule'; {FORM}", id="no key"),
        pytest.param("team=a:b:NoSchedule", f"got 'team=a:b:NoSchedule'; {FORM}", id="a colon in the value"),
        pytest.param("team=a b:NoSchedule", f"got 'team=a b:NoSchedule'; {FORM}", id="a blank"),
        pytest.param("team=a:NoSchedule\n", f"got 'team=a:NoSchedule\\n'; {FORM}", id="a line break at the end"),
        pytest.param("team=a:NoSchedule-", f"got 'team=a:NoSchedule-'; {FORM}", id="kubectl's removal"),
        pytest.param("team=a:noschedule", f"got effect 'noschedule'; {EFFECTS}", id="lower case"),
        pytest.param("team=a:NO_SCHEDULE", f"got effect 'NO_SCHEDULE'; {EFFECTS}", id="a cloud's spelling"),
        pytest.param("-team=a:NoSchedule", f"got key '-team'; {KEY}", id="a key that starts with a hyphen"),
        pytest.param("A.com/x:NoSchedule", f"got key 'A.com/x'; {KEY}", id="a prefix in upper case"),
        pytest.param("a/b/c:NoSchedule", f"got key 'a/b/c'; {KEY}", id="two slashes"),
        pytest.param("/b:NoSchedule", f"got key '/b'; {KEY}", id="an empty prefix"),
        pytest.param(f"{LONG}x:NoSchedule", f"got key {shown(LONG + 'x')}; {KEY}", id="a long key"),
        pytest.param(f"a={LONG}x:NoSchedule", f"got value {shown(LONG + 'x')}; {VALUE}", id="a long value"),
        pytest.param("a=b=c:NoSchedule", f"got value 'b=c'; {VALUE}", id="two equals signs"),
        pytest.param("a=é:NoSchedule", f"got value 'é'; {VALUE}", id="a letter outside ASCII"),
    ],
)
def test_a_wrong_taint_says_which_part_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared in full
        parse_taint(text)

    assert str(caught.value) == message


def test_a_prefix_has_at_most_253_characters() -> None:
    fits = ".".join(["x" * 62] * 4) + ".y"

    assert parse_taint(f"{fits}/a:NoSchedule").key == f"{fits}/a"
    with pytest.raises(ValueError, match="got key"):
        parse_taint(f"{fits}z/a:NoSchedule")


@pytest.mark.parametrize(
    ("taints", "repels"),
    [
        pytest.param([], False, id="no taint"),
        pytest.param([GPU_TAINT], True, id="the GPU taint"),
        pytest.param([Taint("team", "", NO_EXECUTE)], True, id="any key with a hard effect"),
        pytest.param([Taint("nvidia.com/gpu", "present", PREFER)], False, id="a taint that only asks"),
        pytest.param([Taint("a", "", PREFER), GPU_TAINT], True, id="one hard among soft"),
        pytest.param([Taint("", "", NO_SCHEDULE)], False, id="a taint without a key, which no node keeps"),
    ],
)
def test_only_a_hard_effect_keeps_pods_off(taints: list[Taint], repels: bool) -> None:
    assert repels_cpu_pods(taints) is repels


def test_hard_effects_are_the_ones_the_scheduler_obeys() -> None:
    assert {NO_SCHEDULE, NO_EXECUTE} == HARD_EFFECTS
