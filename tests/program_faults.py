"""What is wrong in a program with options that the engine would ignore or that only it can act on."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from gpupools.common.errors import nearest
from gpupools.preview import sdk_schema
from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.sdk_schema import InputProblem, Schema, _members, _wire_name

# The engine accepts these options on a component and ignores them: pulumi/pulumi pkg/resource/deploy/source_eval.go,
# https://github.com/pulumi/pulumi/issues/9704.
_IGNORED_ON_COMPONENTS = (
    "ignoreChanges",
    "replaceOnChanges",
    "customTimeouts",
    "additionalSecretOutputs",
    "replaceWith",
)


def faults(resources: Iterable[DeclaredResource]) -> Iterator[str]:
    """Yield what is wrong with the options of declared resources."""
    known: dict[str, str] = {}
    for each in resources:
        known[each.urn] = each.type
        where, request = f"{each.type}::{each.name}", each.request
        if request.remote or request.transforms or request.state_migrations:
            yield f"{where}: needs an engine"
        if not each.custom:
            yield from (
                f"{where}: {option} has no effect" for option in _IGNORED_ON_COMPONENTS if option in each.options
            )
        references = [(request.provider, each.type.partition(":")[0])] if request.provider else []
        for reference, package in [*references, *((given, name) for name, given in request.providers.items())]:
            if known.get(reference.rpartition("::")[0]) != f"pulumi:providers:{package}":
                yield f"{where}: {reference} is no provider of {package}"
        for option in ("ignoreChanges", "replaceOnChanges", "hideDiffs", "additionalSecretOutputs"):
            for path in each.options.get(option, ()) if each.custom else ():
                is_output = option in ("hideDiffs", "additionalSecretOutputs")
                if (wrong := check_property_path(each.type, path, outputs=is_output)) is not None:
                    yield f"{where}: {option}: {wrong}"


def check_property_path(token: str, path: str, *, outputs: bool = False) -> InputProblem | None:
    """Check one path of `ignoreChanges` and similar options: `taints[0].effect`, `tags["a.b"]`, `taints[*]`.

    The engine compares such a path with wire names and silently ignores one that matches nothing:
    `scaling_config.max_size` is sent unchanged and has no effect (https://github.com/pulumi/pulumi,
    sdk/python/lib/pulumi/runtime/resource.py translates only a whole top-level name). With `outputs` the path may also
    name an output at the top.
    """
    of = sdk_schema.schema_of(token)
    if of is None:
        return None
    segments = _segments(path)
    if segments is None:
        return InputProblem((), f"{path!r} is not a property path", "use a form like scalingConfig.desiredSize")
    if outputs and str(segments[0]) in {*of.outputs[token], *of.shapes[of.resources[token]]}:
        return None
    corrected: list[str | int] = []
    kinds: tuple[str, ...] = (of.resources[token],)
    for segment in segments:
        names = {name for kind in kinds for name in of.shapes.get(kind, ())}
        followed = [follow for kind in kinds for follow in _follow(of, kind, segment)]
        if not followed:
            if not names:
                what = f"{path!r} is not a property: {_joined(corrected)} has no properties"
                return InputProblem((), what, "shorten the path")
            return InputProblem((), f"{path!r} is not a property: {segment!r} does not exist", nearest(segment, names))
        corrected.append(followed[0][0])
        kinds = tuple(kind for _, kind in followed)
        if "any" in kinds:
            corrected += segments[len(corrected) :]
            break
    if corrected != segments:
        return InputProblem((), f"{path!r} matches nothing, so it is ignored", f"use wire names: {_joined(corrected)}")
    return None


def _follow(of: Schema, kind: str, segment: str | int) -> Iterator[tuple[str | int, str]]:
    """Yield the correct segment and the type of a property that a path segment selects in a type."""
    shape = of.shapes.get(kind)
    if shape is not None:
        if segment == "*":
            yield from (("*", member) for known in shape.values() for member in _members(known.type))
        elif isinstance(segment, str):
            name = segment if segment in shape else _wire_name(segment, shape)
            if name is not None:
                yield from ((name, member) for member in _members(shape[name].type))
    elif kind == "any":
        yield segment, "any"
    elif kind.startswith("[]") and (segment == "*" or isinstance(segment, int)):
        yield from ((segment, member) for member in _members(kind[2:]))
    elif kind.startswith("*") and isinstance(segment, str):
        yield from ((segment, member) for member in _members(kind[1:]))


_SEGMENT = re.compile(
    r"""(?P<dot>\.?)(?P<name>[^.\[\]"]+) | \[(?: (?P<index>\d+) | (?P<star>\*) | "(?P<quoted>[^"]+)" )\]""", re.VERBOSE
)


def _segments(path: str) -> list[str | int] | None:
    """Return the segments of a property path as the engine splits it; None if it is invalid."""
    segments: list[str | int] = []
    at = 0
    while at < len(path):
        match = _SEGMENT.match(path, at)
        if match is None or (match["name"] is not None and bool(match["dot"]) != bool(segments)):
            return None
        index, name = match["index"], match["name"] or match["star"] or match["quoted"]
        segments.append(int(index) if index is not None else name)
        at = match.end()
    return segments or None


def _joined(segments: Sequence[str | int]) -> str:
    text = ""
    for segment in segments:
        if isinstance(segment, int):
            text += f"[{segment}]"
        elif "." in segment:
            text += f"[{json.dumps(segment)}]"
        else:
            text += f".{segment}" if text else segment
    return text
