"""What an update may not destroy unless the stack file names it: both sides of every rule, and the exact words."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main
from gpupools.common.errors import Rejected
from gpupools.diff.guard import Earlier, GuardReport, judge, read_earlier
from gpupools.diff.records import PoolRecord, record
from gpupools.plan.edit_tables import EditEffect
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.stack import StackPlan
from tests.gpupools.test_diff import CLUSTERS, pool, written
from tests.said import change_said

Folder = Path


def planned(folder: Folder, pools: Mapping[str, Any], clusters: Mapping[str, Any] = CLUSTERS, **keys: Any) -> StackPlan:
    config = {"clusters": dict(clusters), "pools": dict(pools), **keys}
    content = {"config": {f"gpupools:{key}": value for key, value in config.items()}}
    checked = check_stack_file(written(folder, "guard", content), clouds())
    return checked.plan


def recorded(was: StackPlan) -> Earlier:
    return Earlier(tuple(record(plan, was.stack) for plan in was.pools))


def judged(was: StackPlan | Earlier, now: StackPlan) -> GuardReport:
    return judge(was if isinstance(was, Earlier) else recorded(was), now, clouds())


def refused(was: StackPlan | Earlier, now: StackPlan) -> list[str]:
    return [str(refusal.problem) for refusal in judged(was, now).forbidden.values()]


FOUR: dict[str, Any] = {"a": pool("train"), "b": pool("serve"), "c": pool("lab"), "d": pool("lab")}
EDITED: dict[str, Any] = {
    "a": pool("train", instance_type="g6e.24xlarge"),
    "b": pool("serve", disk_gib=400),
    "c": pool("lab", capacity={"mode": "spot"}),
}
TWO = "run pulumi up to remove the protection; then"
REFUSED = [
    (
        "train/a: is a production pool, and this update would replace it (up to 4 nodes × 4 GPUs): instance_type"
        " g6e.12xlarge → g6e.24xlarge; if this is intended, add train/a to gpupools:allow_destroy"
    ),
    (
        "serve/b: is a production pool, and this update would replace it (up to 4 nodes × 1 GPU): disk_gib 200 → 400;"
        " if this is intended, add serve/b to gpupools:allow_destroy"
    ),
    (
        "lab/c: is a production pool, and this update would replace it (up to 4 nodes × 1 GPU): spot false → true;"
        f" if this is intended: undo the edit, add lab/c to gpupools:allow_destroy, {TWO} edit again and run"
        " pulumi up again"
    ),
    (
        "lab/d: is a production pool, and this update would delete it (up to 4 nodes × 1 GPU);"
        f" if this is intended: restore the pool, add lab/d to gpupools:allow_destroy, {TWO} delete it and run"
        " pulumi up again"
    ),
]


def test_everything_a_production_stack_would_lose_is_refused_at_once(tmp_path: Path) -> None:
    was = planned(tmp_path, FOUR, production=True)

    assert refused(was, planned(tmp_path, EDITED, production=True)) == REFUSED


def test_outside_production_the_same_edit_goes_through(tmp_path: Path) -> None:
    assert refused(planned(tmp_path, FOUR), planned(tmp_path, EDITED)) == []


@pytest.mark.parametrize("production", [{"production": False}, {}], ids=["false", "left out"])
def test_a_stack_does_not_stop_being_production_in_the_update_that_destroys(
    production: dict[str, Any], tmp_path: Path
) -> None:
    was = planned(tmp_path, FOUR, production=True)

    assert refused(was, planned(tmp_path, EDITED, **production)) == REFUSED


def test_a_stack_is_production_from_the_update_on_that_says_so(tmp_path: Path) -> None:
    found = refused(planned(tmp_path, FOUR), planned(tmp_path, EDITED, production="true"))

    assert [line.partition(":")[0] for line in found] == ["train/a", "serve/b", "lab/c", "lab/d"]
    assert {line.rpartition("; ")[2].partition(" to ")[0] for line in found} == {
        f"if this is intended, add {name}" for name in ("train/a", "serve/b", "lab/c", "lab/d")
    }


def test_a_pool_that_says_protect_is_a_production_pool_in_any_stack(tmp_path: Path) -> None:
    was = planned(tmp_path, FOUR | {"a": pool("train", protect=True)})

    assert refused(was, planned(tmp_path, EDITED | {"d": FOUR["d"]})) == REFUSED[:1]


def test_a_pool_that_says_protect_false_is_none_in_a_production_stack(tmp_path: Path) -> None:
    free = {name: each | {"protect": False} for name, each in FOUR.items()}
    was = planned(tmp_path, free, production=True)
    now = planned(tmp_path, {name: each | {"protect": False} for name, each in EDITED.items()}, production=True)

    assert refused(was, now) == []


KEPT = [
    pytest.param({"a": pool("train", nodes={"max": 9}, labels={"team": "x"})}, id="in place"),
    pytest.param({"a": pool("train", disk_gib=400)}, id="rolling"),
    pytest.param({"a": pool("train", timeouts={"create_min": 90})}, id="nothing the cloud is told"),
    pytest.param({"e": pool("lab")}, id="another pool"),
    pytest.param({"c": None, "z": pool("lab", renamed_from="c")}, id="another name, said so"),
]


@pytest.mark.parametrize("edit", KEPT)
def test_what_destroys_nothing_needs_no_switch(edit: dict[str, Any], tmp_path: Path) -> None:
    now = {name: each for name, each in (FOUR | edit).items() if each is not None}
    found = judged(planned(tmp_path, FOUR, production=True), planned(tmp_path, now, production=True))

    assert (dict(found.forbidden), found.warnings) == ({}, ())


def test_the_order_of_the_file_needs_no_switch(tmp_path: Path) -> None:
    turned = planned(
        tmp_path, dict(reversed(FOUR.items())), dict(reversed(CLUSTERS.items())), production=True, allow_destroy=[]
    )
    found = judged(planned(tmp_path, FOUR, production=True), turned)

    assert {change.change for change in found.changes} == {"unchanged"}
    assert found.forbidden == {}


def test_another_name_not_said_so_is_a_deletion(tmp_path: Path) -> None:
    was = planned(tmp_path, FOUR, production=True)
    now = planned(tmp_path, {name: FOUR[name] for name in "abc"} | {"z": FOUR["d"]}, production=True)

    keep = "if it was renamed to z, set renamed_from: d there to keep the nodes; if this is intended: restore"
    assert refused(was, now) == [REFUSED[3].replace("if this is intended: restore", keep)]


def test_the_switch_lets_go_what_is_replaced_on_eks_and_aks(tmp_path: Path) -> None:
    was = planned(tmp_path, FOUR, production=True)
    now = planned(tmp_path, EDITED | {"d": FOUR["d"]}, production=True, allow_destroy=["train/a", "serve/b"])

    assert refused(was, now) == REFUSED[2:3]
    assert not any(plan.provider_plan.protect for plan in now.pools if plan.name in "ab")
    assert all(plan.provider_plan.protect for plan in now.pools if plan.name in "cd")


STILL = "is protected until an update with it in gpupools:allow_destroy has ended, and this update would"


def test_a_deletion_and_a_replacement_on_gke_take_an_update_before_that_frees_the_pool(tmp_path: Path) -> None:
    was = planned(tmp_path, FOUR, production=True)
    switch = ["lab/c", "lab/d"]
    now = planned(tmp_path, {"a": FOUR["a"], "b": FOUR["b"], "c": EDITED["c"]}, production=True, allow_destroy=switch)
    freed = planned(tmp_path, FOUR, production=True, allow_destroy=switch)

    assert refused(was, now) == [
        (
            f"lab/c: {STILL} replace it; undo the edit, leave lab/c in gpupools:allow_destroy, {TWO} edit again and"
            " run pulumi up again"
        ),
        (
            f"lab/d: {STILL} delete it; restore the pool, leave lab/d in gpupools:allow_destroy, {TWO} delete it and"
            " run pulumi up again"
        ),
    ]
    assert refused(was, freed) == []
    assert refused(freed, now) == []


def test_a_pool_made_free_still_needs_the_switch_to_go(tmp_path: Path) -> None:
    freed = planned(tmp_path, FOUR, production=True, allow_destroy=["lab/d"])
    (found,) = refused(freed, planned(tmp_path, {name: FOUR[name] for name in "abc"}, production=True))

    assert found.endswith("delete it (up to 4 nodes × 1 GPU); if this is intended, add lab/d to gpupools:allow_destroy")


def test_a_protected_placement_group_does_not_go_with_a_rolling_edit(tmp_path: Path) -> None:
    packed = pool("train", network={"placement": "compact"}, zones=["us-east-1a"])
    was = planned(tmp_path, {"a": packed}, production=True)
    loose = {"a": pool("train", zones=["us-east-1a"])}
    freed = planned(tmp_path, {"a": packed}, production=True, allow_destroy=["train/a"])
    now = planned(tmp_path, loose, production=True, allow_destroy=["train/a"])

    assert refused(was, planned(tmp_path, loose, production=True)) == [
        (
            "train/a: is a production pool, and this update would delete its placement group; if this is intended: undo"
            f" the edit, add train/a to gpupools:allow_destroy, {TWO} edit again and run pulumi up again"
        )
    ]
    assert refused(was, now) == [
        (
            f"train/a: {STILL} delete the placement group of it; undo the edit, leave train/a in"
            f" gpupools:allow_destroy, {TWO} edit again and run pulumi up again"
        )
    ]
    assert refused(freed, now) == []


def test_what_only_pulumi_can_say_is_left_to_it(tmp_path: Path) -> None:
    late = dict(CLUSTERS["serve"], stack="org/net/prod", subnet_id={"output": "subnet"})
    was = planned(tmp_path, {"b": FOUR["b"]}, {"serve": CLUSTERS["serve"]}, production=True)
    found = judged(was, planned(tmp_path, {"b": FOUR["b"]}, {"serve": late}, production=True))

    assert [change.effect for change in found.changes] == ["unknown"]
    assert found.forbidden == {}


def test_an_address_is_named_without_its_value(tmp_path: Path) -> None:
    was = planned(tmp_path, {"b": FOUR["b"]}, {"serve": CLUSTERS["serve"]}, production=True)
    (found,) = refused(
        was, planned(tmp_path, {"b": FOUR["b"]}, {"serve": dict(CLUSTERS["serve"], name="x")}, production=True)
    )

    assert "replace it (up to 4 nodes × 1 GPU): cluster.name; if" in found


SIX = {name: pool("lab") for name in "abcdef"}


@pytest.mark.parametrize(
    ("kept", "allowed", "still"),
    [
        pytest.param("abc", "", "", id="half of them go"),
        pytest.param("ab", "", "cdef", id="more than half"),
        pytest.param("ab", "cde", "f", id="one of them not named"),
        pytest.param("ab", "cdef", "", id="each of them named"),
        pytest.param("abuvwxyz", "", "cdef", id="others come in their place"),
    ],
)
def test_more_than_half_of_the_pools_of_any_stack_do_not_go_unnamed(
    kept: str, allowed: str, still: str, tmp_path: Path
) -> None:
    machines = dict.fromkeys("uvwxyz", "g2-standard-16")
    pools = {name: pool("lab", instance_type=machines.get(name, "g2-standard-8")) for name in kept}
    now = planned(tmp_path, pools, allow_destroy=[f"lab/{name}" for name in allowed])

    assert refused(planned(tmp_path, SIX), now) == [
        f"lab/{name}: is one of 4 deleted pools out of 6, more than half, and this update would delete it (up"
        " to 4 nodes × 1 GPU);"
        f" if this is intended, add lab/{name} to gpupools:allow_destroy"
        for name in still
    ]


def test_a_pool_on_two_clusters_counts_twice(tmp_path: Path) -> None:
    labs = {"lab": CLUSTERS["lab"], "lab-2": CLUSTERS["lab"] | {"name": "lab-2"}}
    both = {"a": pool("lab", clusters=["lab", "lab-2"]), "b": pool("lab")}
    was = planned(tmp_path, both, labs)

    assert refused(was, planned(tmp_path, both | {"a": pool("lab")}, labs)) == []
    assert [line.partition(":")[0] for line in refused(was, planned(tmp_path, {"b": pool("lab")}, labs))] == [
        "lab/a",
        "lab-2/a",
    ]


def test_a_switch_left_on_is_said(tmp_path: Path) -> None:
    found = judged(
        planned(tmp_path, FOUR, production=True),
        planned(tmp_path, FOUR, production=True, allow_destroy=["train/a"]),
    )

    assert found.warnings == (
        (
            "gpupools:allow_destroy names train/a, but this update does not destroy it; remove the name to"
            " protect the pool again, unless gpupools diff --stack says that this release does"
        ),
    )


UNKNOWN = "this stack, neither now nor in the last update; remove or correct it;"


def test_a_switch_for_what_never_was_is_refused(tmp_path: Path) -> None:
    freed = planned(tmp_path, FOUR, production=True, allow_destroy=["lab/d"])
    gone = {name: FOUR[name] for name in "abc"}

    assert judged(freed, planned(tmp_path, gone, production=True, allow_destroy=["lab/d"])).unknown == ()
    found = judged(
        planned(tmp_path, gone, production=True),
        planned(tmp_path, gone, production=True, allow_destroy=["lab/d", "trian", "train", "train/a"]),
    )
    assert [str(problem) for problem in found.unknown] == [
        f"allow_destroy[0]: 'lab/d' is no pool of {UNKNOWN} did you mean 'lab/c'?",
        f"allow_destroy[1]: 'trian' is no cluster of {UNKNOWN} did you mean 'train'?",
    ]


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"production": "yes"}, "production: got 'yes'; write true or false"),
        ({"production": 1}, "production: got 1; write true or false"),
        (
            {"allow_destroy": "lab/a"},
            "allow_destroy: got 'lab/a'; write a list such as [<cluster>/<pool>, …]",
        ),
        (
            {"allow_destroy": ["a/b/c", "lab/A", 1, "lab/a", "lab/a"]},
            (
                "allow_destroy[0]: got 'a/b/c'; write <cluster>/<pool>, or <cluster> for a cluster's software\n"
                "allow_destroy[1]: got 'lab/A'; write <cluster>/<pool>, or <cluster> for a cluster's software\n"
                "allow_destroy[2]: got 1; write <cluster>/<pool>, or <cluster> for a cluster's software\n"
                "allow_destroy[4]: 'lab/a' is listed twice; list each entry once"
            ),
        ),
    ],
    ids=["no truth value", "a number", "no list", "no names of pools"],
)
def test_a_switch_written_wrongly_is_refused(keys: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected) as caught:
        planned(tmp_path, FOUR, **keys)

    assert str(caught.value) == problem


def as_the_engine_returns(value: Any) -> Any:
    """Return a value as it comes back from the engine: every number a float."""
    if isinstance(value, dict):
        return {key: as_the_engine_returns(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_the_engine_returns(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def state(was: StackPlan, leave_out: str = "") -> dict[str, Any]:
    """Return what the engine has of a stack: URN to type and outputs."""
    found: dict[str, Any] = {"urn:pulumi:s::gpupools::pulumi:pulumi:Stack::x": {"type": "pulumi:pulumi:Stack"}}
    for plan in was.pools:
        outputs = (
            {} if plan.name in leave_out else {"record": json.loads(json.dumps(record(plan, was.stack).as_json()))}
        )
        urn = f"urn:pulumi:s::gpupools::gpupools:index:GpuNodePool::{plan.cluster}-{plan.name}"
        found[urn] = {"type": "gpupools:index:GpuNodePool", "outputs": as_the_engine_returns(outputs)}
        found[f"{urn.rpartition('::')[0]}$fake:index:Pool::{plan.cluster}-{plan.name}-pool"] = {
            "type": "fake:index:Pool"
        }
    return found


@pytest.mark.parametrize("cloud", clouds())
def test_a_record_comes_back_from_the_engine_as_it_was(cloud: str) -> None:
    file = Path(__file__).parents[1] / "stacks" / f"Pulumi.everything-{cloud}.yaml"
    checked = check_stack_file(file, clouds())
    was = checked.plan

    assert {change.change for change in judged(read_earlier(state(was)), was).changes} == {"unchanged"}


@pytest.mark.parametrize("raw", [None, "text", {}, {"cluster": "lab", "pool": "a", "values": []}], ids=str)
def test_what_is_no_record_is_none(raw: object) -> None:
    assert PoolRecord.from_json(raw) is None


def test_pools_without_a_record_are_not_compared_but_their_deletion_is_seen(tmp_path: Path) -> None:
    earlier = read_earlier(state(planned(tmp_path, FOUR, production=True), leave_out="bd"))
    found = judged(earlier, planned(tmp_path, {name: EDITED[name] for name in "bc"}, production=True))

    assert [str(refusal.problem) for refusal in found.forbidden.values()] == [
        REFUSED[2],
        (
            "train/a: is a production pool, and this update would delete it (up to 4 nodes × 4 GPUs); if this"
            " is intended:"
            f" restore the pool, add train/a to gpupools:allow_destroy, {TWO} delete it and run pulumi up again"
        ),
        (
            "lab/d: is a production pool, and this update would delete it; if this is intended, add lab/d to"
            " gpupools:allow_destroy"
        ),
    ]
    assert found.warnings == (
        (
            "the last update left no record of serve/b, so gpupools cannot tell whether this one replaces them;"
            " Pulumi rejects that while they are protected; the next update has a record"
        ),
    )


def test_a_name_with_hyphens_is_taken_apart_as_the_file_would_write_it(tmp_path: Path) -> None:
    labs = {"lab": CLUSTERS["lab"], "lab-2": CLUSTERS["lab"] | {"name": "lab-2"}}
    earlier = Earlier(unrecorded=("lab-2-big", "gone-for-good", "lab-a"))
    now = {"a": pool("lab")}

    assert list(judged(earlier, planned(tmp_path, now, labs, production=True)).forbidden) == [
        "gone/for-good",
        "lab-2/big",
    ]
    allowed = planned(tmp_path, now, labs, production=True, allow_destroy=["gone-for/good", "lab-2/big"])
    assert judged(earlier, allowed).forbidden == {}


@pytest.mark.parametrize("cluster", ["serve", "lab"])
def test_a_second_rename_that_forgets_the_first_name_is_refused_in_every_stack(cluster: str, tmp_path: Path) -> None:
    was = planned(tmp_path, {"b": pool(cluster, renamed_from="a")})
    again = {"c": pool(cluster, renamed_from="b")}
    cure = {"c": pool(cluster, renamed_from="b", first_name="a")}

    (reason,) = refused(was, planned(tmp_path, again))
    assert reason.startswith(
        f"{cluster}/c: was not created under the name in renamed_from, and this update would replace it (up to 4 nodes"
    )
    assert reason.endswith("set first_name: a beside renamed_from: b")
    assert refused(was, planned(tmp_path, cure)) == []
    assert [change.effect for change in judged(was, planned(tmp_path, cure)).changes] == [EditEffect.IN_PLACE]
    assert refused(was, planned(tmp_path, again, allow_destroy=[f"{cluster}/c"])) == []


def test_a_second_rename_on_eks_keeps_the_nodes_with_the_first_name(tmp_path: Path) -> None:
    was = planned(tmp_path, {"b": pool("train", renamed_from="a")})
    without, kept = (
        judged(was, planned(tmp_path, {"c": pool("train", renamed_from="b", **each)})).changes[0]
        for each in ({}, {"first_name": "a"})
    )

    assert (without.effect, kept.effect) == (EditEffect.ROLLING, EditEffect.IN_PLACE)
    assert "set first_name: a to keep it" in change_said(without)


@pytest.mark.parametrize("cluster", ["serve", "lab"])
def test_after_a_rename_the_old_name_is_free(cluster: str, tmp_path: Path) -> None:
    was = planned(tmp_path, {"b": pool(cluster, renamed_from="a")})
    now = planned(tmp_path, {"b": pool(cluster, first_name="a"), "a": pool(cluster, first_name="a2")})

    assert [(each.pool, each.change) for each in judged(was, now).changes] == [("b", "unchanged"), ("a", "created")]
    assert refused(was, now) == []


def test_an_input_taken_away_by_hand_is_refused_in_production(tmp_path: Path) -> None:
    by_hand = {"azure": {"AgentPool": {"vnetSubnetID": None}}}
    was = planned(tmp_path, {"b": pool("serve")}, production=True)
    kept = read_earlier(
        {
            "urn:b": {
                "type": "gpupools:index:GpuNodePool",
                "outputs": {"record": record(was.pools[0], was.stack).as_json()},
            }
        }
    )

    (reason,) = refused(kept, planned(tmp_path, {"b": pool("serve", overrides=by_hand)}, production=True))
    assert "would replace it" in reason
    assert "overrides.AgentPool.vnetSubnetID none → (taken away)" in reason


@pytest.mark.parametrize("protect", [{"protect": True}, {}], ids=["protected", "not"])
def test_without_a_record_nobody_knows_that_a_pool_was_not_protected(
    tmp_path: Path, protect: Mapping[str, Any]
) -> None:
    three = FOUR | {"d": FOUR["d"] | protect}
    earlier = read_earlier(state(planned(tmp_path, three), leave_out="d"))
    left = {name: FOUR[name] for name in "abc"}

    assert refused(earlier, planned(tmp_path, left)) == [
        (
            "lab/d: may be a production pool: the last update left no record of it, and this update would delete"
            " it; if this is intended, add lab/d to gpupools:allow_destroy"
        )
    ]
    assert refused(earlier, planned(tmp_path, left, allow_destroy=["lab/d"])) == []


def test_a_pool_of_which_nothing_was_made_may_go(tmp_path: Path) -> None:
    urn = "urn:pulumi:s::gpupools::gpupools:index:GpuNodePool::lab-d"
    earlier = read_earlier({urn: {"type": "gpupools:index:GpuNodePool", "outputs": {}}})

    assert refused(earlier, planned(tmp_path, {"a": FOUR["a"]})) == []


def test_a_renamed_pool_without_a_record_is_not_deleted(tmp_path: Path) -> None:
    earlier = Earlier(unrecorded=("lab-a",))
    found = judged(earlier, planned(tmp_path, {"z": pool("lab", renamed_from="a")}, production=True))

    assert found.forbidden == {}
    assert len(found.warnings) == 1


def test_a_field_that_only_another_release_knows_is_not_an_edit(tmp_path: Path) -> None:
    now = planned(tmp_path, {"c": FOUR["c"]}, production=True)
    (kept,) = recorded(now).pools
    values = {key: value for key, value in kept.values.items() if key != "secure_boot"} | {"bygone": "x"}
    older = replace(kept, fields=tuple({*kept.fields, "bygone"} - {"secure_boot"}), values=values)

    assert [change.change for change in judged(Earlier((older,)), now).changes] == ["unchanged"]


def test_the_first_update_of_a_stack_has_nothing_to_lose(tmp_path: Path) -> None:
    found = judged(read_earlier({}), planned(tmp_path, FOUR, production=True))

    assert (dict(found.forbidden), found.warnings) == ({}, ())


def test_diff_says_what_pulumi_up_will_refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        str(written(tmp_path, name, {"config": {"gpupools:clusters": CLUSTERS, "gpupools:pools": pools, **keys}}))
        for name, pools, keys in (
            ("old", FOUR, {}),
            ("new", EDITED, {"gpupools:production": True, "gpupools:allow_destroy": ["train/a", "lab/x"]}),
        )
    ]

    assert main(["diff", *files]) == 3
    said = capsys.readouterr()
    assert said.err == (
        f"warning: pulumi up refuses this: allow_destroy[1]: 'lab/x' is no pool of {UNKNOWN}"
        " did you mean 'lab/d' or 'lab/c'?\n"
    )
    assert [line for line in said.out.splitlines() if line.startswith(("  allowed", "  pulumi"))] == [
        "  allowed by gpupools:allow_destroy, added in this edit",
        *(
            f"  pulumi up rejects this: {name} is a production pool; if this is intended, add {name} to"
            " gpupools:allow_destroy"
            for name in ("serve/b", "lab/c", "lab/d")
        ),
    ]
    assert main(["diff", "--json", *files]) == 3
    assert [each["refused"] for each in json.loads(capsys.readouterr().out)["pools"]][:2] == [
        None,
        {"reason": "is a production pool", "fix": "if this is intended, add serve/b to gpupools:allow_destroy"},
    ]
