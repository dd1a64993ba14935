"""What objects carry: as they are, as text, inside each other, and as what is not known here."""

import json
from typing import Any

import pytest
import yaml

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.read.holders import MOST_HELD, Held, Opaque, held

POOL = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": {"x": 1}}
WORK = ("work.open-cluster-management.io", "ManifestWork")
AT = "spec.workload.manifests"


def of_work(*manifests: Any) -> list[Held]:
    return list(held({"spec": {"workload": {"manifests": list(manifests)}}}, *WORK))


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": data}


def seen(found: list[Held]) -> list[tuple[str, str, bool]]:
    return [(one.path, f"{one.group}/{one.kind}" if one.kind else repr(one.value), one.written) for one in found]


def test_an_object_is_carried_as_it_is() -> None:
    (found,) = of_work(POOL)

    assert (found, found.group, found.name) == (Held(f"{AT}[0]", POOL), "karpenter.sh", "a")


@pytest.mark.parametrize(
    "other", [{"apiVersion": "v1"}, {"kind": "NodePool"}, {"kind": "NodePool", "apiVersion": 1}, 3]
)
def test_what_says_no_kind_or_version_is_no_object(other: Any) -> None:
    assert of_work(other, POOL) == [Held(f"{AT}[1]", POOL)]


def test_what_is_not_known_is_carried_as_such() -> None:
    assert of_work(UNKNOWN, "${POOL}") == [Held(f"{AT}[1]", UNKNOWN), Held(f"{AT}[0]", UNKNOWN)]


def test_items_of_a_list_have_its_kind_where_they_leave_it_out() -> None:
    bare = {key: POOL[key] for key in ("metadata", "spec")}
    listed = {"apiVersion": "karpenter.sh/v1", "kind": "NodePoolList", "items": [bare, "text", 3, POOL]}
    any_list = {"apiVersion": "v1", "kind": "List", "items": [bare, POOL]}

    assert of_work(listed) == [
        Held(f"{AT}[0].items[0]", POOL),
        Held(f"{AT}[0].items[1]", "text"),
        Held(f"{AT}[0].items[3]", POOL),
    ]
    assert of_work(any_list) == [Held(f"{AT}[0].items[1]", POOL)]


def test_texts_are_told_from_objects_however_deep() -> None:
    inner = {"apiVersion": f"{WORK[0]}/v1", "kind": WORK[1], "spec": {"workload": {"manifests": [POOL]}}}
    found = of_work(config_map(a=yaml.safe_dump(inner)), inner)

    assert seen(found) == [
        (f"{AT}[0]", "/ConfigMap", False),
        (f"{AT}[0].data.a[0]", f"{WORK[0]}/{WORK[1]}", True),
        (f"{AT}[0].data.a[0].{AT}[0]", "karpenter.sh/NodePool", True),
        (f"{AT}[1]", f"{WORK[0]}/{WORK[1]}", False),
        (f"{AT}[1].{AT}[0]", "karpenter.sh/NodePool", False),
    ]


def test_what_lies_deeper_than_is_opened_is_not_known() -> None:
    one: dict[str, Any] = POOL
    for _ in range(5):
        one = {"apiVersion": f"{WORK[0]}/v1", "kind": WORK[1], "spec": {"workload": {"manifests": [one]}}}
    last = of_work(one)[-1]

    assert (last.path, last.value) == (".".join([f"{AT}[0]"] * 4), UNKNOWN)


def test_more_than_is_looked_through_is_said() -> None:
    found = of_work(*[POOL] * (MOST_HELD + 1))

    assert len(of_work(*[POOL] * MOST_HELD)) == MOST_HELD
    assert (len(found), found[-1]) == (MOST_HELD + 1, Held(f"{AT}[{MOST_HELD}] and what follows", UNKNOWN))


@pytest.mark.parametrize(
    ("settings", "paths"),
    [
        ({"extraObjects": [POOL, {"a": POOL}]}, [".extraObjects[1].a", ".extraObjects[0]"]),
        ({"extra": yaml.safe_dump(POOL)}, [".extra[0]"]),
        ({"extra": json.dumps(POOL)}, [".extra[0]"]),
        ({"extra": "# which apiVersion and kind: see below"}, []),
        ({"apiVersion": "v1", "kinds": [POOL]}, [".kinds[0]"]),
        ({"a": {"apiVersion": 1, "kind": POOL}}, [".a.kind"]),
        ({"a": {"apiVersion": POOL, "kind": "x"}}, [".a.apiVersion"]),
    ],
    ids=["objects", "a text", "JSON", "a comment", "no kind", "a version of no text", "a version that is an object"],
)
def test_objects_among_settings_are_found(settings: dict[str, Any], paths: list[str]) -> None:
    found = list(held(config_map(a=yaml.safe_dump({"chart": "x", **settings})), "", "ConfigMap"))

    assert [one.path for one in found] == [f"data.a[0]{path}" for path in paths]
    assert all(one.value == POOL and one.written for one in found)


@pytest.mark.parametrize(
    ("function", "makes"),
    [
        *(
            (f"function-{name}", False)
            for name in ("auto-ready", "environment-config", "environment-configs", "extra-resources")
        ),
        *(
            (f"function-{name}", False)
            for name in ("sequencer", "status-transformer", "tag-manager", "deletion-protection")
        ),
        ("function-go-templating", True),
        ("", True),
    ],
)
def test_a_function_of_a_composition_makes_what_is_not_here(function: str, makes: bool) -> None:
    step = {"functionRef": {"name": function}, "input": {"a": 1}}
    found = list(held({"spec": {"pipeline": [step]}}, "apiextensions.crossplane.io", "Composition"))
    why = f"is what the function {function or 'of this step'} makes, which is not here"

    assert found == ([Held("spec.pipeline[0]", Opaque(why))] if makes else [])


def test_what_a_function_is_given_as_text_is_read() -> None:
    step = {"functionRef": {"name": "function-go-templating"}, "input": {"inline": {"template": yaml.safe_dump(POOL)}}}
    found = list(held({"spec": {"pipeline": [step]}}, "apiextensions.crossplane.io", "Composition"))

    assert found == [Held("spec.pipeline[0].input.inline.template[0]", POOL)]
