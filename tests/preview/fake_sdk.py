"""A made-up SDK of a made-up cloud: one resource with an input of every type that SDKs have."""

import enum
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal, TypedDict, overload

import pulumi


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


Many = enum.StrEnum("Many", [f"v{number:02}" for number in range(22)])  # type: ignore[misc]


def inputs(kind: Any) -> Any:
    """Give a class of inputs its properties with their names on the wire, as generated code spells them out."""
    for python, hint in [*kind.__annotations__.items()]:
        first, *rest = python.split("_")

        def get(self: Any) -> Any:
            return pulumi.get(self, "")

        get.__name__, get.__annotations__ = python, {"return": hint}
        setattr(kind, python, property(pulumi.getter(name=first + "".join(map(str.capitalize, rest)))(get)))
    kind.__annotations__ = {}
    return pulumi.input_type(kind)


@inputs
class PlaceArgs:
    room_name: pulumi.Input[str]
    floor: pulumi.Input[int] | None
    lamp_colours: pulumi.Input[Sequence[pulumi.Input[str]]] | None


class PlaceArgsDict(TypedDict):
    room_name: str


@inputs
class CornerArgs:
    corner_of: pulumi.Input[str]
    angle: pulumi.Input[int]
    colour: pulumi.Input[str]


@inputs
class ThingArgs:
    word: pulumi.Input[str]
    switch: pulumi.Input[bool] | None
    count: pulumi.Input[int] | None
    share: pulumi.Input[float] | None
    exactly: pulumi.Input[Literal["v1", "v2"]] | None
    colour: pulumi.Input[Colour] | None
    open_colour: pulumi.Input[str | Colour] | None
    size: pulumi.Input[Size] | None
    one_of_many: pulumi.Input[Many] | None
    several_words: pulumi.Input[Sequence[pulumi.Input[str]]] | None
    word_by_key: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None
    place: pulumi.Input[PlaceArgs] | None
    place_as_dict: pulumi.Input[PlaceArgs | PlaceArgsDict] | None
    places: pulumi.Input[Sequence[pulumi.Input[PlaceArgs]]] | None
    place_by_key: pulumi.Input[Mapping[str, pulumi.Input[PlaceArgs]]] | None
    place_or_corner: pulumi.Input[PlaceArgs | CornerArgs] | None
    word_or_count: pulumi.Input[str | int] | None
    plain_list: pulumi.Input[list] | None  # type: ignore[type-arg]
    plain_map: pulumi.Input[dict] | None  # type: ignore[type-arg]
    anything: pulumi.Input[Any] | None
    file: pulumi.Input[pulumi.Asset | pulumi.Archive] | None
    other: pulumi.Input[pulumi.Resource] | None
    stranger: pulumi.Input[bytes] | None
    pair: pulumi.Input[tuple[int, int]] | None


class Thing(pulumi.CustomResource):
    @overload
    def __init__(self, name: str, args: "ThingArgs", opts: pulumi.ResourceOptions | None = None) -> None: ...
    @overload
    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, word: str | None = None) -> None: ...
    def __init__(self, name: str, *args: Any, **more: Any) -> None:
        super().__init__("madeup:index/thing:Thing", name, {})

    @property
    @pulumi.getter(name="madeBy")
    def made_by(self) -> pulumi.Output[str]:
        found: pulumi.Output[str] = pulumi.get(self, "made_by")
        return found


THING = "madeup:index/thing:Thing"
INFO = {"pkg": "madeup", "mod": "index/thing", "fqn": __name__, "classes": {THING: "Thing"}}


def registered() -> SimpleNamespace:
    return SimpleNamespace(mod_info=INFO, version=lambda: None)


def package() -> SimpleNamespace:
    info = {"pkg": "madeup", "token": "pulumi:providers:madeup", "fqn": __name__, "class": "Thing"}
    return SimpleNamespace(pkg_info=info, version=lambda: None)
