"""Writes what `cfn-init` does to a machine as a part of its user data. Pure.

A resource's `AWS::CloudFormation::Init` has the files and commands, its user data only the call that has them done:
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-init.html. The order is that of
aws-cfn-bootstrap's `CloudFormationCarpenter.build`: sources, files, commands by name, services.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

from gpupools.read.inputs import is_list, mapping, text

_INIT = "AWS::CloudFormation::Init"
_CALL = re.compile(r"\bcfn-init\b")
_SETS = re.compile(r"\bcfn-init\b[^\n;&|]{0,300}?\s(?:-c|--configsets)(?:[ =]|$)[ \"']?([\w.,-]*)")
_BOUNDARY = "==cfn-init=="
_END = "END_OF_CFN_INIT"
_NOT_KNOWN = {"Fn::Transform": "what these settings are is not known here"}
_NAME = re.compile(r"[A-Za-z0-9]{1,255}")
_OPEN = re.compile(r"\bcfn-init\b[^\n;&|]{0,300}?\s(?:-r|--resource)(?:[ =]|$)[ \"']?\$")
_MOST_VALUES = 50_000
"""Of user data, which with more is one that is not known: see `cloudformation`."""
_MOST_PARTS = 1_000
"""Of what is set up; more than user data has room for."""
_MOST_STEPS = 200
"""From sets of configurations to what they name; sets that lead round in a circle end here."""


def with_init(properties: Any, resources: Mapping[str, Any]) -> Any:
    """Return a resource's properties with what its user data has `cfn-init` do, where the template has that.

    What is to be done and cannot be told, because a part of the template decides it when it is deployed, makes the
    user data one that is not known yet.

    Args:
        properties: As the template has them.
        resources: All resources of the template, by logical name.
    """
    at = "LaunchTemplateData" if "LaunchTemplateData" in mapping(properties) else ""
    holder = mapping(mapping(properties).get(at)) if at else mapping(properties)
    packed = mapping(holder.get("UserData"))
    words = " ".join(_strings(packed))
    if not _CALL.search(words):
        return properties
    inits = (
        mapping(mapping(mapping(resources.get(name)).get("Metadata")).get(_INIT))
        for name in dict.fromkeys(_NAME.findall(words))
    )
    named = [init for init in inits if init]
    if not named and not _OPEN.search(words):
        return properties  # another stack's
    parts = list(islice((part for init in named for part in _set_up(init, words)), _MOST_PARTS))
    told = named and len(parts) < _MOST_PARTS and None not in parts and "Fn::Base64" in packed
    whole = _beside(packed["Fn::Base64"], parts) if told else _NOT_KNOWN
    made = {**holder, "UserData": whole}
    return {**properties, at: made} if at else made


def _strings(value: Any) -> Iterator[str]:
    """Yield every text inside, in order, with `$` for what is referred to; what joins texts puts them side by side."""
    inside = [value]
    for _ in range(_MOST_VALUES):
        if not inside:
            return
        one = inside.pop()
        if isinstance(one, str):
            yield one
        elif "Ref" in mapping(one):
            yield "$"
        else:
            inside += reversed([*mapping(one).values()] or (one if is_list(one) else []))


def _beside(script: Any, parts: list[Any]) -> Any:
    """Return user data with the script that it had, and what `cfn-init` does as another."""
    first = next(_strings(script), "").lstrip()
    if first.casefold().startswith(("content-type:", "mime-version:")):
        return _NOT_KNOWN  # parts inside parts
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n'
    next_part = f"\n--{_BOUNDARY}\nContent-Type: text/plain\n"
    return {"Fn::Join": ["\n", [head + next_part, script, next_part, "#!/bin/bash", *parts, f"--{_BOUNDARY}--\n"]]}


def _set_up(init: Mapping[str, Any], words: str) -> Iterator[Any]:
    """Yield the lines that do the same, as texts and functions; None for what cannot be told."""
    asked = [name for match in _SETS.finditer(words) for name in match[1].split(",")]
    for name in _configurations(init, asked):
        config = init.get(name) if isinstance(name, str) else None
        yield from _configured(config) if isinstance(config, Mapping) else [None]


def _configurations(init: Mapping[str, Any], asked: list[str]) -> Iterator[Any]:
    """Yield the names of what is set up: `config` alone, or those of the sets that are asked for, else of `default`."""
    if "configSets" not in init:
        yield "config"
        return
    todo: list[Any] = [{"ConfigSet": name} for name in reversed(asked or ["default"])]
    for _ in range(_MOST_STEPS):
        if not todo:
            return
        one = todo.pop()
        if is_list(one):
            todo += reversed(one)
        elif isinstance(one, Mapping):
            todo.append(mapping(init["configSets"]).get(text(one.get("ConfigSet"))))
        else:
            yield one
    yield None


def _configured(config: Mapping[str, Any]) -> Iterator[Any]:
    for folder, source in _named(config.get("sources")):
        yield _joined("curl -L '", source, f"' | tar -xz -C {shlex.quote(folder)}")
    for path, file in _named(config.get("files")):
        yield from _written(path, mapping(file))
    for _, command in _named(config.get("commands")):
        yield from _run(mapping(command))
    for _, services in _named(config.get("services")):
        for name, service in _named(services):
            if any(str(mapping(service).get(key)).lower() == "true" for key in ("enabled", "ensureRunning")):
                yield f"systemctl start {shlex.quote(name)}"


def _named(given: Any) -> list[tuple[str, Any]]:
    """Return what a map has, by name; CloudFormation takes for text what YAML reads as a number."""
    return sorted(((str(name), one) for name, one in mapping(given).items()), key=itemgetter(0))


def _written(path: str, file: Mapping[str, Any]) -> Iterator[Any]:
    content, place = file.get("content"), shlex.quote(path)
    if content is None:
        yield _joined(f"curl -o {place} '", file.get("source"), "'")
    elif str(file.get("encoding")).lower() == "base64":
        yield _joined("echo '", content, f"' | base64 -d > {place}")
    elif file.get("context") is not None:
        yield None  # a template of its own, which is filled in on the machine
    else:
        yield f"cat > {place} <<'{_END}'"
        yield json.dumps(content) if isinstance(content, Mapping) and not _is_function(content) else content
        yield _END


def _run(command: Mapping[str, Any]) -> Iterator[Any]:
    called = command.get("command")
    if called is None:
        yield None  # what another program writes says what is run
        return
    if command.get("cwd") is not None:
        yield _joined("cd '", command["cwd"], "'")
    for name, value in _named(command.get("env")):
        yield _joined(f"export {name}='", value, "'")
    yield {"Fn::Join": [" ", called]} if is_list(called) else called


def _is_function(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and str(next(iter(value))).startswith(("Fn::", "Ref"))


def _joined(before: str, value: Any, after: str) -> Any:
    return {"Fn::Join": ["", [before, value, after]]}
