"""Every type that an SDK can give an input, against every form of value on the wire, by a made-up SDK."""

from typing import Any

import pytest
from pulumi.runtime import rpc

from gpupools.preview.sdk_schema import (
    RESOURCE,
    SECRET,
    SIGNATURE,
    UNKNOWN,
    check_inputs,
    is_known_type,
)
from tests.preview import fake_sdk
from tests.preview.fake_sdk import THING, registered
from tests.program_faults import check_property_path
from tests.rows import each_row

ASSET = {SIGNATURE: "c44067f5952c0a294b673a41bacd8c17", "text": "a"}
OTHER = {SIGNATURE: RESOURCE, "urn": "u"}
PLACE = {"roomName": "a"}
A_PLACE = "a map with roomName, floor, lampColours"


@pytest.fixture(autouse=True)
def sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the SDK as an import of it would."""
    monkeypatch.setitem(rpc._RESOURCE_MODULES, "madeup:index/thing", [registered()])
    monkeypatch.setitem(rpc._RESOURCE_PACKAGES, "madeup", [fake_sdk.package()])


def secret(value: Any) -> dict[str, Any]:
    return {SIGNATURE: SECRET, "value": value}


@each_row(
    ("name", "values"),
    [
        ("word", ["a", "", UNKNOWN, secret("a"), secret(secret("a")), secret(UNKNOWN), secret(None)]),
        ("switch", [True, False, secret(True), None]),
        ("count", [0, 3, -1, 3.0, secret(3)]),
        ("share", [0, 0.5, 3]),
        ("exactly", ["v1", "v2", secret("v2")]),
        ("colour", ["red", "blue", secret("red")]),
        ("openColour", ["red"]),
        ("size", [1, 2.0]),
        ("severalWords", [[], ["a", "b"], ["a", UNKNOWN], secret(["a"]), [secret("a")], UNKNOWN]),
        ("wordByKey", [{}, {"a": "b"}, {"any/key": secret("b")}, secret({"a": UNKNOWN})]),
        ("place", [PLACE, {**PLACE, "floor": 1}, {"roomName": UNKNOWN}, secret(PLACE)]),
        ("places", [[], [PLACE, {**PLACE, "lampColours": ["red"]}]]),
        ("placeByKey", [{"any": PLACE}]),
        ("placeOrCorner", [PLACE, {"cornerOf": "a", "angle": 90, "colour": "red"}]),
        ("wordOrCount", ["a", 3]),
        ("plainList", [[], [1, {"a": None}]]),
        ("plainMap", [{}, {"a": [1]}]),
        ("anything", [1, "a", [], {"a": ASSET}, True]),
        ("file", [ASSET, UNKNOWN]),
        ("other", [OTHER]),
        ("stranger", ["a", 1, {"a": 1}]),
        ("pair", ["a", 1, {"a": 1}]),
    ],
)
def test_a_value_of_its_inputs_type_is_right(name: str, values: list[Any]) -> None:
    told = {str(value): found for value in values if (found := check_inputs(THING, {"word": "a", name: value}))}

    assert told == {}


@each_row(
    ("name", "value", "told"),
    [
        ("word", 3, 'word: got 3; write it as a string: "3"'),
        ("word", 3.0, 'word: got 3; write it as a string: "3"'),
        ("word", 1.5, 'word: got 1.5; write it as a string: "1.5"'),
        ("word", True, 'word: got true; write it as a string: "true"'),
        ("word", ["a"], "word: got a list of 1; use a string"),
        ("word", {"a": 1}, "word: got a map with 'a'; use a string"),
        ("word", ASSET, "word: got an asset or archive; use a string"),
        ("word", OTHER, "word: got a resource; use a string"),
        ("word", secret(3), "word: got a secret; use a string"),
        ("switch", "true", "switch: got 'true'; use true or false"),
        ("switch", 1, "switch: got 1; use true or false"),
        ("count", "3", "count: got '3'; use a whole number"),
        ("count", 0.5, "count: got 0.5; use a whole number"),
        ("count", True, "count: got true; use a whole number"),
        ("share", "0.5", "share: got '0.5'; use a number"),
        ("share", False, "share: got false; use a number"),
        ("exactly", "v3", "exactly: got 'v3'; use 'v1' or 'v2'"),
        ("exactly", secret("v3"), "exactly: got a secret; use 'v1' or 'v2'"),
        ("colour", "rad", "colour: got 'rad'; did you mean 'red'?"),
        ("colour", 1, "colour: got 1; known: blue, red"),
        ("colour", secret("rad"), "colour: got a secret; known: blue, red"),
        ("size", True, "size: got true; known: 1, 2"),
        ("size", 3, "size: got 3; known: 1, 2"),
        ("oneOfMany", "x", "oneOfMany: got 'x'; the nearest of 22: v21, v20, v19, v18, v17"),
        ("openColour", 1, "openColour: got 1; known: blue, red"),
        ("severalWords", "a", "severalWords: got 'a'; use a list"),
        ("severalWords", {"a": "b"}, "severalWords: got a map with 'a'; use a list"),
        ("severalWords", ["a", 1], 'severalWords[1]: got 1; write it as a string: "1"'),
        ("severalWords", secret(["a", 1]), 'severalWords[1]: got 1; write it as a string: "1"'),
        ("wordByKey", ["a"], "wordByKey: got a list of 1; use a map"),
        ("wordByKey", ASSET, "wordByKey: got an asset or archive; use a map"),
        ("wordByKey", {"a": {"b": 1}}, "wordByKey.a: got a map with 'b'; use a string"),
        ("place", "a", "place: got 'a'; use a map with roomName, floor, lampColours"),
        ("place", OTHER, "place: got a resource; use a map with roomName, floor, lampColours"),
        ("place", {}, "place.roomName: is missing; Place requires it"),
        ("place", {"roomName": None}, "place.roomName: is missing; Place requires it"),
        ("place", {**PLACE, "flor": 1}, "place.flor: Place has no such input; did you mean 'floor'?"),
        (
            "place",
            {**PLACE, "lamp_colours": []},
            "place.lamp_colours: Place has no such input; use 'lampColours'; Pulumi does not convert names here",
        ),
        ("places", [PLACE, {"roomName": 1}], 'places[1].roomName: got 1; write it as a string: "1"'),
        ("placeAsDict", {**PLACE, "flor": 1}, "placeAsDict.flor: Place has no such input; did you mean 'floor'?"),
        ("placeByKey", {"a": {"roomName": "a", "floor": "b"}}, "placeByKey.a.floor: got 'b'; use a whole number"),
        (
            "placeOrCorner",
            {"cornerOf": "a", "angle": "b", "colour": "c"},
            "placeOrCorner.angle: got 'b'; use a whole number",
        ),
        ("placeOrCorner", 1, f"placeOrCorner: got 1; use {A_PLACE} or a map with cornerOf, angle, colour"),
        ("wordOrCount", [], "wordOrCount: got []; use a string or a whole number"),
        ("plainList", "a", "plainList: got 'a'; use a list"),
        ("plainMap", [], "plainMap: got []; use a map"),
        ("file", "a", "file: got 'a'; use a Asset or a Archive"),
        ("other", {"urn": "u"}, "other: got a map with 'urn'; use a Resource"),
        (
            "several_words",
            [],
            f"several_words: {THING} has no such input; use 'severalWords'; Pulumi does not convert names here",
        ),
        ("cuont", 1, "cuont: madeup:index/thing:Thing has no such input; did you mean 'count'?"),
    ],
)
def test_a_value_of_another_type_is_told_with_its_cure(name: str, value: Any, told: str) -> None:
    found = check_inputs(THING, {"word": "a", name: value})

    assert [(str(each), each.advisory) for each in found] == [(told, False)]


@pytest.mark.parametrize("value", ["rad", secret("rad")], ids=["plain", "secret"])
def test_a_value_that_only_an_enum_does_not_have_is_advisory(value: Any) -> None:
    (found,) = check_inputs(THING, {"word": "a", "openColour": value})

    assert found.advisory
    assert str(found).startswith(
        "openColour: got " + ("'rad'" if value == "rad" else "a secret") + ", which the SDK's Colour does"
    )
    assert ("did you mean 'red'?" in str(found)) is (value == "rad")


def test_an_input_that_is_required_is_missed() -> None:
    assert [str(each) for each in check_inputs(THING, {})] == [f"word: is missing; {THING} requires it"]


@each_row(
    ("path", "outputs", "told"),
    [
        ("word", False, None),
        ("severalWords[0]", False, None),
        ("severalWords[*]", False, None),
        ("wordByKey.any", False, None),
        ('wordByKey["a.b"]', False, None),
        ("place.*", False, None),
        ("place[*]", False, None),
        ("places[3].roomName", False, None),
        ("places[*].lampColours[0]", False, None),
        ("placeByKey.any.roomName", False, None),
        ("placeOrCorner.angle", False, None),
        ("placeOrCorner.floor", False, None),
        ("anything.at[3].all", False, None),
        ("madeBy", True, None),
        ("madeBy", False, "'madeBy' is not a property: 'madeBy' does not exist"),
        ("madeBi", True, "'madeBi' is not a property: 'madeBi' does not exist"),
        ("several_words", False, "'several_words' matches nothing, so it is ignored; use wire names: severalWords"),
        ("places[0].room_name", False, "matches nothing, so it is ignored; use wire names: places[0].roomName"),
        ("place_by_key.any.room_name", False, "use wire names: placeByKey.any.roomName"),
        ('place_by_key["a.b"].room_name', False, 'use wire names: placeByKey["a.b"].roomName'),
        ("several_words[*]", False, "use wire names: severalWords.*"),
        ("word.a", False, "'word.a' is not a property: word has no properties; shorten the path"),
        (
            "severalWords.a",
            False,
            "'severalWords.a' is not a property: severalWords has no properties; shorten the path",
        ),
        ("wordByKey[0]", False, "wordByKey has no properties"),
        ("severalWords[0].a", False, "severalWords[0] has no properties; shorten the path"),
        ("place.flor", False, "'place.flor' is not a property: 'flor' does not exist; did you mean 'floor'?"),
        ("place[0]", False, "0 does not exist"),
        ("placeOrCorner.angel", False, "did you mean 'angle'?"),
        ("", False, "is not a property path; use a form like scalingConfig.desiredSize"),
        (".word", False, "is not a property path"),
        ("word.", False, "is not a property path"),
        ("place..floor", False, "is not a property path"),
        ("severalWords[", False, "is not a property path"),
        ("severalWords[a]", False, "is not a property path"),
        ("places[0]roomName", False, "is not a property path"),
    ],
)
def test_a_property_path_is_followed_through_every_type(path: str, outputs: bool, told: str | None) -> None:
    found = check_property_path(THING, path, outputs=outputs)

    assert (told is None and found is None) or (told is not None and told in str(found)), found


def test_a_path_of_a_type_that_no_sdk_knows_is_left_alone() -> None:
    assert check_property_path("madeup:index/thing:Other", "a[") is None


@pytest.mark.parametrize(
    ("classes", "fqn", "known"),
    [
        ({THING: "Thing"}, fake_sdk.__name__, True),
        ({THING: "thing"}, fake_sdk.__name__, False),
        ({THING: "THING"}, fake_sdk.__name__, False),
        ({}, fake_sdk.__name__, False),
        ({THING: "Thing"}, "", False),
    ],
    ids=["a class", "another name", "what is no class", "nothing", "no module"],
)
def test_a_type_is_known_by_the_class_that_an_sdk_registered(
    monkeypatch: pytest.MonkeyPatch, classes: dict[str, str], fqn: str, known: bool
) -> None:
    monkeypatch.setattr(fake_sdk, "INFO", {"fqn": fqn, "classes": classes})
    monkeypatch.setitem(rpc._RESOURCE_MODULES, "madeup:index/thing", [object(), registered()])

    assert is_known_type(THING) is known
    assert (check_inputs(THING, {"cuont": 1}) != []) is known


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"word": "a", "switch": "true", "severalWords": '["a"]', "count": "3", "anything": "x"}, []),
        ({"word": "3"}, []),
        ({"word": "a", "count": 3, "severalWords": ["a"]}, []),
        ({"word": secret("a"), "severalWords": secret('["a"]'), "count": UNKNOWN, "switch": secret(UNKNOWN)}, []),
        ({"severalWords": "[1]", "word": "a"}, ['severalWords[0]: got 1; write it as a string: "1"']),
        ({"severalWords": "[", "word": "a"}, ["severalWords: got '['; use a list"]),
        ({"switch": '"a"', "word": "a"}, ["switch: got 'a'; use true or false"]),
        ({"nobody": "[1]", "word": "a"}, ["nobody: pulumi:providers:madeup has no such input; the nearest of 24: "]),
    ],
    ids=[
        "JSON text",
        "text that looks like a number",
        "no text",
        "late",
        "inside",
        "no JSON",
        "text as JSON",
        "no such input",
    ],
)
def test_inputs_of_a_provider_are_read_out_of_their_json_text(given: dict[str, Any], told: list[str]) -> None:
    found = [str(each) for each in check_inputs("pulumi:providers:madeup", given)]

    assert len(found) == len(told)
    assert all(each.startswith(start) for each, start in zip(found, told, strict=True)), found


def test_a_provider_that_no_sdk_registered_is_not_known() -> None:
    assert is_known_type("pulumi:providers:madeup")
    assert not is_known_type("pulumi:providers:other")
