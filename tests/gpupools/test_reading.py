"""What the readers of every cloud share: odd values, taints, machines, joined templates, the missing taint."""

from fractions import Fraction
from typing import Any

import pytest

from gpupools.audit.kubernetes import _with_placeholders as placeholders
from gpupools.common.taints import GPU_TAINT, KUBERNETES_EFFECTS, Effect, Taint
from gpupools.plan.pool_facts import (
    UNKNOWN,
    Accelerator,
    By,
    MissingTaint,
    PoolFacts,
    Reference,
    SharingFacts,
    SoftwareHints,
    Weakness,
)
from gpupools.providers import clouds
from gpupools.readback.inputs import (
    Hardening,
    Machines,
    TaintsRead,
    as_object,
    as_text,
    at,
    flag,
    items,
    joined,
    number,
    retired_machines,
    string_map,
    wanted_taint,
    with_name,
    with_taint,
)
from tests.rows import each_row

SHOUTED = {"NO_SCHEDULE": Effect.NO_SCHEDULE, "NO_EXECUTE": Effect.NO_EXECUTE}


@each_row(
    ("value", "read"),
    [
        (3, 3), (3.0, 3), (2.9, 2), ("3", 3), ("03", 3), ("-3", None), ("3.0", None), ("", None), ("³", None),
        ("123456789", 123456789), ("1234567890", None), (True, None), (None, None), (float("nan"), None),
        (float("inf"), None), ([3], None), (UNKNOWN, None), (0, 0),
    ],
)  # fmt: skip
def test_a_whole_number_is_read_as_it_comes_over_the_wire(value: Any, read: int | None) -> None:
    assert number(value) == read


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (True, True),
        (False, False),
        ("true", True),
        ("TRUE", True),
        ("False", False),
        ("yes", None),
        (1, None),
        (None, None),
    ],
)
def test_a_switch_is_a_boolean_or_text(value: Any, read: bool | None) -> None:
    assert flag(value) is read


def test_a_path_ends_at_what_is_absent_or_not_known() -> None:
    given = {"a": {"b": {"c": 1}, "u": UNKNOWN, "n": None, "l": [1]}}

    assert [at(given, path) for path in ("a.b.c", "a.x", "a.x.y", "a.n.y", "a.l.y")] == [1, None, None, None, None]
    assert at(given, "a.u") is UNKNOWN
    assert at(given, "a.u.deeper") is UNKNOWN


def test_items_that_are_not_known_are_noted_by_position() -> None:
    late: list[str] = []

    assert list(items([1, UNKNOWN, "a"], "l", late)) == [("l[0]", 1), ("l[2]", "a")]
    assert list(items(UNKNOWN, "m", late)) == []
    assert list(items("text", "n", late)) == []
    assert late == ["l[1]", "m"]


def test_entries_of_a_map_that_are_no_text_are_left_out() -> None:
    assert string_map({"a": "b", "c": 1, 2: "d", "e": UNKNOWN}) == {"a": "b"}
    assert string_map([("a", "b")]) == {}


@each_row(
    ("taint", "taints", "unknown", "note"),
    [
        ({"key": "a", "value": "b", "effect": "NO_SCHEDULE"}, ["a=b:NoSchedule"], [], ""),
        ({"key": "a", "effect": "NO_EXECUTE"}, ["a:NoExecute"], [], ""),
        ({"key": "a", "value": UNKNOWN, "effect": "NO_SCHEDULE"}, ["a:NoSchedule"], [], ""),
        ({"key": UNKNOWN, "effect": "NO_SCHEDULE"}, [], ["t.key"], ""),
        ({"key": "a", "effect": UNKNOWN}, [], ["t.effect"], ""),
        ({"key": UNKNOWN, "value": UNKNOWN, "effect": UNKNOWN}, [], ["t.key", "t.value", "t.effect"], ""),
        ({"key": "", "effect": "NO_SCHEDULE"}, [], [], "t: a taint needs a key"),
        ({"effect": "NO_SCHEDULE"}, [], [], "t: a taint needs a key"),
        ({"key": 1, "effect": "NO_SCHEDULE"}, [], [], "t: a taint needs a key"),
        ({"key": "", "effect": UNKNOWN}, [], [], "t: a taint needs a key"),
        ({"key": "a", "effect": "NoSchedule"}, [], [], "use NO_SCHEDULE"),
        ({"key": "a", "effect": "no-schedule"}, [], [], "use NO_SCHEDULE"),
        ({"key": "a", "effect": "No Execute"}, [], [], "use NO_EXECUTE"),
        ({"key": "a", "effect": "never"}, [], [], "one of NO_SCHEDULE, NO_EXECUTE"),
        ({"key": "a", "effect": 1}, [], [], "one of NO_SCHEDULE, NO_EXECUTE"),
        ({"key": UNKNOWN, "effect": "never"}, [], [], "one of NO_SCHEDULE, NO_EXECUTE"),
        ({"key": "a"}, [], [], "one of NO_SCHEDULE, NO_EXECUTE"),
        ("a=b:NoSchedule", [], [], "set key, value and effect"),
        ({"key": "karpenter.sh/unregistered", "effect": "NO_EXECUTE"}, [], [], "is removed when a node is ready"),
    ],
)
def test_a_taint_as_an_object(taint: Any, taints: list[str], unknown: list[str], note: str) -> None:
    read = TaintsRead()
    read.one(taint, "t", SHOUTED)

    assert [str(each) for each in read.taints] == taints
    assert read.unknown == unknown
    assert [note in each for each in read.not_counted] == ([True] if note else [])


def test_a_soft_taint_whose_key_comes_later_keeps_nobody_off() -> None:
    read = TaintsRead()
    read.one({"key": UNKNOWN, "effect": "PreferNoSchedule"}, "t", KUBERNETES_EFFECTS)

    assert (read.taints, read.unknown, read.not_counted) == ([], [], [])


@pytest.mark.parametrize("value", [{"key": "a"}, "a=b:NoSchedule", 1])
def test_what_is_no_list_of_taints_is_named(value: Any) -> None:
    read = TaintsRead()
    read.objects(value, "t", SHOUTED)
    read.texts(value, "s")

    assert ["is not a list of taints" in each for each in read.not_counted] == [True, True]
    assert (read.taints, read.unknown) == ([], [])


def test_lists_that_are_absent_or_not_known_are_told_apart() -> None:
    read = TaintsRead()
    read.objects(None, "a", SHOUTED)
    read.texts(None, "b")
    read.objects(UNKNOWN, "c", SHOUTED)
    read.texts([UNKNOWN, "x=y:NoSchedule", 5], "d")

    assert read.unknown == ["c", "d[0]"]
    assert [str(each) for each in read.taints] == ["x=y:NoSchedule"]
    assert read.not_counted == ["d[2]: 5 is not a taint"]


def test_no_more_than_eight_mistakes_are_named() -> None:
    read = TaintsRead()
    read.texts(["?"] * 20, "t")

    assert len(read.not_counted) == 8


NVIDIA, AMD = Accelerator("nvidia", Fraction(8), "A100"), Accelerator("amd", None, "MI300X")
OTHER, NONE, NEW = (
    Accelerator("other", Fraction(0), "Trainium"),
    Accelerator("", Fraction(0)),
    Accelerator("nvidia", None),
)


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ([], ("", Fraction(0), "", "", False)),
        ([("m", NONE)], ("", Fraction(0), "", "", False)),
        ([("m", NONE), ("a", NVIDIA)], ("nvidia", Fraction(8), "t a", "", False)),
        ([("a", NEW), ("b", NVIDIA)], ("nvidia", Fraction(8), "t b", "", False)),
        ([("a", NEW)], ("nvidia", None, "t a", "", False)),
        ([("a", AMD)], ("amd", None, "t a", "", False)),
        ([("a", AMD), ("b", NEW)], ("nvidia", None, "t b", "", False)),
        ([("a", OTHER)], ("other", Fraction(0), "", "t a (Trainium)", True)),
        ([("a", OTHER), ("m", NONE)], ("other", Fraction(0), "", "t a (Trainium)", False)),
        ([("a", OTHER), ("b", NVIDIA)], ("nvidia", Fraction(8), "t b", "", False)),
        ([("a", Accelerator("other", Fraction(0)))], ("other", Fraction(0), "", "t a", True)),
        ([("a", Accelerator("nvidia", Fraction(1))), ("b", NVIDIA)], ("nvidia", Fraction(8), "t b", "", False)),
    ],
)
def test_the_best_machine_counts(added: list[tuple[str, Accelerator]], expected: tuple[Any, ...]) -> None:
    machines = Machines()
    for name, accelerator in added:
        machines.add(name, accelerator, "t")

    found = (machines.accelerator, machines.gpus, machines.evidence, machines.other, machines.only_other)
    assert found == expected
    assert machines.names == [name for name, _ in added]


def test_a_machine_that_is_not_known_leaves_the_number_open_until_one_has_gpus() -> None:
    machines = Machines(unknown=["x"])
    before = machines.gpus
    machines.add("a", NVIDIA, "t")
    machines.add("a", NVIDIA, "t")

    assert (before, machines.gpus, machines.names) == (None, Fraction(8), ["a"])


def test_the_missing_taint_is_spelled_as_the_api_and_named_after_the_vendor() -> None:
    assert as_object(wanted_taint("nvidia"), SHOUTED).value == {
        "key": "nvidia.com/gpu",
        "value": "present",
        "effect": "NO_SCHEDULE",
    }
    assert as_object(wanted_taint("amd"), SHOUTED).text == "{key: amd.com/gpu, value: present, effect: NO_SCHEDULE}"
    assert as_text(wanted_taint("")) == MissingTaint('"nvidia.com/gpu=present:NoSchedule"', str(GPU_TAINT))


ITEM = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}


BARE = {"key": "nvidia.com/gpu", "effect": "NO_SCHEDULE"}


def lacking(where: str, value: Any = ITEM, **more: Any) -> PoolFacts:
    return PoolFacts("aws", (), Fraction(1), (), where=where, missing_taint=MissingTaint("t", value), **more)


@each_row(
    ("properties", "pool", "changed"),
    [
        ({}, lacking("taints"), {"taints": [ITEM]}),
        ({"taints": []}, lacking("taints"), {"taints": [ITEM]}),
        ({"taints": [1]}, lacking("taints"), {"taints": [1, ITEM]}),
        ({"taints": None}, lacking("taints"), {"taints": [ITEM]}),
        ({"taints": "x"}, lacking("taints"), None),
        ({"taints": UNKNOWN}, lacking("taints"), None),
        ({"a": {}}, lacking("a.taints"), {"a": {"taints": [ITEM]}}),
        ({}, lacking("a.taints"), {"a": {"taints": [ITEM]}}),
        ({"a": UNKNOWN}, lacking("a.taints"), None),
        ({"a": [{"b": 1}, {"c": 2}]}, lacking("a[1].taints"), {"a": [{"b": 1}, {"c": 2, "taints": [ITEM]}]}),
        ({"a": [{}]}, lacking("a[1].taints"), None),
        ({"a": {}}, lacking("a[0].taints"), None),
        ({"a": [UNKNOWN]}, lacking("a[0].taints"), None),
        ({}, lacking("taints", {"k": {"value": "v"}}), {"taints": {"k": {"value": "v"}}}),
        ({"taints": {"a": 1}}, lacking("taints", {"k": 2}), {"taints": {"a": 1, "k": 2}}),
        ({}, lacking("taints", BARE), {"taints": [BARE]}),
        ({"taints": [1]}, lacking("taints", {"k": 2}), None),
        ({"taints": []}, lacking("taints", "k:NoSchedule"), {"taints": ["k:NoSchedule"]}),
        ({}, lacking("taints", None), None),
        ({}, lacking(""), None),
        ({}, lacking("taints", no_taint_field=True), None),
    ],
)
def test_the_missing_taint_is_added_only_where_nothing_is_guessed(
    properties: dict[str, Any], pool: PoolFacts, changed: Any
) -> None:
    before = repr(properties)

    assert with_taint(properties, pool) == changed
    assert repr(properties) == before


WEAK = Weakness(name="a", property="p", found="f", wanted="w", why="y", mandatory=True, source="s")
SOFTWARE = SoftwareHints(By.CLOUD, By.CLOUD, By.NOBODY, ("amiType X",))
TEMPLATE = PoolFacts(
    "aws",
    ("g5.xlarge",),
    Fraction(1),
    (GPU_TAINT,),
    evidence="instanceType g5.xlarge",
    unknown=("instanceType",),
    unresolved_taints=("userData",),
    has_unevaluated_script=True,
    accelerator="nvidia",
    not_counted=("a note",),
    software=SOFTWARE,
    sharing=SharingFacts("mps", 4, said_by="userData settings"),
    weaknesses=(WEAK,),
    labels={"a": "theirs", "b": "theirs"},
    tags={"c": "theirs"},
)


def group(*decides: str, **more: Any) -> PoolFacts:
    given: dict[str, Any] = {
        "instance_types": (),
        "gpus_per_node": None,
        "unknown": ("lt",),
        "elsewhere": (Reference("lt", (), "", frozenset(decides)), Reference("class", ())),
        "weaknesses": (Weakness(name="m", property="lt", found="", wanted="", why="", mandatory=False, source=""),),
        "labels": {"a": "own"},
        **more,
    }
    return PoolFacts("aws", taints=(), **given)


def test_what_a_template_decides_is_added_with_where_it_stands() -> None:
    whole = joined(group("machine", "image", "taints"), TEMPLATE, "lt")

    assert whole.instance_types == ("g5.xlarge",)
    assert (whole.gpus_per_node, whole.evidence, whole.accelerator) == (
        Fraction(1),
        "lt → instanceType g5.xlarge",
        "nvidia",
    )
    assert whole.taints == (GPU_TAINT,)
    assert whole.not_counted == ("lt → a note",)
    assert (whole.unknown, whole.unresolved_taints) == (("lt → instanceType",), ("lt → userData",))
    assert [one.property for one in whole.elsewhere] == ["class"]
    assert whole.software == SoftwareHints(By.CLOUD, By.CLOUD, By.NOBODY, ("lt → amiType X",))
    assert whole.sharing == SharingFacts("mps", 4, said_by="lt → userData settings")
    assert whole.sharing.property == "lt → userData"
    assert [one.property for one in whole.weaknesses] == ["lt → p"]
    assert whole.labels == {"a": "own", "b": "theirs"}
    assert whole.tags == {"c": "theirs"}


def test_what_a_template_does_not_decide_is_left_out() -> None:
    own = {"instance_types": ("m5.large",), "gpus_per_node": Fraction(0), "unknown": ()}
    whole = joined(group(**own), TEMPLATE, "lt")

    assert (whole.instance_types, whole.gpus_per_node, whole.evidence, whole.accelerator) == (
        ("m5.large",),
        Fraction(0),
        "",
        "",
    )
    assert (whole.taints, whole.unknown) == ((), ())
    assert whole.software == SoftwareHints()


@pytest.mark.parametrize(
    ("decides", "late", "taints"),
    [
        (("machine",), ("lt → instanceType",), ()),
        (("taints",), (), ("lt → userData",)),
        (("more taints",), (), ("lt → userData",)),
        (("machine", "taints"), ("lt → instanceType",), ("lt → userData",)),
        (("image",), (), ()),
    ],
)
def test_user_data_matters_where_it_has_the_taints(
    decides: tuple[str, ...], late: tuple[str, ...], taints: tuple[str, ...]
) -> None:
    whole = joined(group(*decides), TEMPLATE, "lt")

    assert (whole.unknown, whole.unresolved_taints) == (late, taints)
    assert whole.has_unevaluated_script is bool(taints)


def test_a_pool_keeps_what_it_says_itself() -> None:
    own = SoftwareHints(By.NOBODY, By.NOBODY, By.UNSAID, ("amiType Y",))
    pool = group("machine", "image", evidence="gpu true", software=own, sharing=SharingFacts("none"), accelerator="amd")
    whole = joined(pool, TEMPLATE, "lt")

    assert (whole.evidence, whole.sharing) == ("gpu true", SharingFacts("none"))
    assert whole.software == SoftwareHints(By.NOBODY, By.NOBODY, By.NOBODY, ("amiType Y", "lt → amiType X"))
    assert whole.accelerator == "nvidia"


@pytest.mark.parametrize(
    ("machine", "late", "gpus"),
    [
        (Fraction(2), (), Fraction(2)),
        (Fraction(0), (), Fraction(0)),
        (Fraction(0), ("imageId",), None),
        (None, (), Fraction(0)),
    ],
)
def test_the_number_of_gpus_is_the_best_or_open(machine: Fraction | None, late: tuple[str, ...], gpus: Any) -> None:
    template = PoolFacts("aws", (), machine, (), unknown=late)

    assert joined(group("machine"), template, "lt").gpus_per_node == gpus


@pytest.mark.parametrize(
    ("own", "theirs", "both"), [(True, None, True), (None, True, True), (None, False, False), (False, True, True)]
)
def test_a_template_can_say_that_machines_are_nodes(own: Any, theirs: Any, both: Any) -> None:
    template = PoolFacts("aws", (), None, (), in_cluster=theirs)

    assert joined(group("taints", in_cluster=own), template, "lt").in_cluster is both


def test_a_path_that_refers_to_nothing_changes_nothing() -> None:
    pool = group("machine")

    assert joined(pool, TEMPLATE, "elsewhere") is pool


def test_an_accelerator_of_the_template_that_is_no_gpu_is_told() -> None:
    template = PoolFacts("aws", ("trn1.32xlarge",), Fraction(0), (), accelerator="other", other_accelerator="Trainium")

    assert joined(group("machine"), template, "lt").other_accelerator == "lt → Trainium"
    assert joined(group("taints"), template, "lt").other_accelerator == ""


@pytest.mark.parametrize(
    ("value", "ok", "found"),
    [
        (None, False, [("unset", False)]),
        ("x", False, [("'x'", False)]),
        ("x", True, []),
        (UNKNOWN, True, [("not known at preview", True)]),
    ],
)
def test_a_control_is_met_weak_or_not_known(value: Any, ok: bool, found: list[tuple[str, bool]]) -> None:
    hardening = Hardening("page")
    hardening.want("name", "path", value, ok, "wanted", "why")

    assert [(one.found, one.unverified) for one in hardening.found] == found
    assert {(one.name, one.property, one.source, one.mandatory) for one in hardening.found} <= {
        ("name", "path", "page", True)
    }


def test_retired_machines_are_told_with_their_date() -> None:
    hardening = Hardening("page")
    retired_machines(["p2.xlarge", "g6.xlarge", "m5.large"], clouds()["aws"].instance_types, "t", hardening)

    assert [(one.found, one.mandatory) for one in hardening.found] == [("'p2.xlarge'", False)]
    assert hardening.found[0].why.startswith("p2.xlarge is retired")
    assert hardening.found[0].source != "page"


def test_a_taint_reads_as_kubernetes_writes_it() -> None:
    read = TaintsRead()
    read.line("a=b:NoSchedule", "t")

    assert read.taints == [Taint("a", "b", Effect.NO_SCHEDULE)]


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"metadata": {"annotations": {"a": "${X}"}, "labels": {"b": "${X}"}}}, {"a": "${X}"}),
        ({"spec": {"annotations": {"a": "${X}"}}}, {"a": UNKNOWN}),
    ],
    ids=["of the object itself", "of its nodes"],
)
def test_placeholders_are_not_known_where_they_may_decide(value: dict[str, Any], read: Any) -> None:
    found = placeholders(value)

    assert next(iter(found.values()))["annotations"] == read
    assert found.get("metadata", {}).get("labels", {}).get("b", UNKNOWN) is UNKNOWN


@pytest.mark.parametrize(
    "name",
    [
        *("metadata", "name", "namespace", "clusterName", "apiVersion", "kind"),
        *("infrastructureRef", "configRef", "nodeClassRef", "status"),
    ],
)
def test_placeholders_of_names_stay(name: str) -> None:
    assert placeholders({name: {"a": "${X}"}, "b": "${X}"}) == {name: {"a": "${X}"}, "b": UNKNOWN}
    assert placeholders({name: "${X}"}) == {name: "${X}"}


def test_a_placeholder_without_quotes_is_a_map_with_a_map_as_key() -> None:
    assert placeholders({"a": {"?": {"x": None}}, "b": {"?": 1, "c": 2}}) == {"a": UNKNOWN, "b": {"?": 1, "c": 2}}


NAMES = ["nodeGroupName", "agentPoolName", "nodegroupName", "resourceName", "name"]


@pytest.mark.parametrize("key", NAMES)
def test_a_pool_has_the_name_that_its_resource_gives_itself(key: str) -> None:
    pool = lacking("taints")

    assert with_name(pool, {key: "gpu"}, "logical").name == "gpu"
    assert with_name(pool, {key: UNKNOWN}, "logical").name == ""
    assert with_name(pool, {key: "gpu", "metadata": {"name": "other"}}).name == "gpu"
    assert with_name(pool, {}, "logical").name == "logical"
