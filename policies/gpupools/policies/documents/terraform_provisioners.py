"""What provisioners of Terraform run, as far as a plan and the configuration beside it say.

https://developer.hashicorp.com/terraform/language/provisioners
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.policies.documents.document import Resource
from gpupools.policies.documents.terraform_resources import Found, as_list, as_map
from gpupools.policies.documents.terraform_sources import Sources


def written(expression: Any) -> Any:
    """Return what an expression of the configuration says: a constant, blocks of such, or `UNKNOWN`."""
    if isinstance(expression, list):
        return [{key: written(each) for key, each in as_map(block).items()} for block in expression]
    given = as_map(expression)
    if "constant_value" in given:
        return given["constant_value"]
    return UNKNOWN if "references" in given else {key: written(each) for key, each in given.items()} or None


def provisioners_of(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what each provisioner runs; plans show only what is written without references, and those."""
    for each in as_list(resource.get("provisioners")):
        expressions = as_map(as_map(each).get("expressions"))
        given: Mapping[str, Any] = {key: written(expressions[key]) for key in _RUN if key in expressions}
        if given:
            beside = (written(expressions.get(key)) for key in ("interpreter", "environment"))
            typed = _as_typed(given, *beside)
            known = UNKNOWN not in given.values() and UNKNOWN not in as_list(typed.get("command"))
            made_from = {str(resource.get("type")): None, **dict.fromkeys(references(expressions))}
            given = typed if known else {**typed, "made_from": list(made_from)}
        yield given


def with_sources(resource: Resource, sources: Sources) -> Resource:
    """Add to what provisioners run what the configuration beside the plan says of it."""
    listed = resource.inputs.get("provisioner")
    if not resource.type.startswith("terraform:") or not isinstance(listed, list):
        return resource
    made: list[Mapping[str, Any]] = []
    for place, one in enumerate(listed):
        filled = dict(one)
        for key in (key for key in _RUN if key in one):
            if one[key] is not UNKNOWN:
                each = [sources.with_scripts(word) if isinstance(word, str) else word for word in as_list(one[key])]
                filled[key] = sources.with_scripts(one[key]) if isinstance(one[key], str) else each
            elif said := sources.provisioner(resource.address, place, key):
                words = sources.provisioner(resource.address, place, "interpreter").splitlines()
                filled[key] = [*words, said] if words and key == "command" else said
        made.append(filled)
    return replace(resource, inputs={**resource.inputs, "provisioner": made})


def _as_typed(run: Mapping[str, Any], interpreter: Any, environment: Any) -> Mapping[str, Any]:
    """Put before a command what runs it, and the variables that it may be made of."""
    command = run.get("command")
    if not isinstance(command, str):
        return run
    given = [f"{key}='{value}'\n" for key, value in as_map(environment).items() if isinstance(value, str)]
    words = (
        [interpreter] if interpreter is UNKNOWN else [word for word in as_list(interpreter) if isinstance(word, str)]
    )
    return {**run, "command": [*words, command] if words else "".join((*given, command))}


_RUN = ("command", "inline", "content", "script", "scripts")
"""Of local-exec, remote-exec and file."""


def with_provisioners(
    found: Found, made: Iterator[Resource], provisioners: tuple[Mapping[str, Any], ...]
) -> Iterator[Resource]:
    """Add what provisioners run to a resource that holds no pools itself, or as one of its own beside it."""
    for resource in made:
        if resource.type == f"terraform:{found.type}":
            yield replace(resource, inputs={**resource.inputs, "provisioner": list(provisioners)})
        else:
            yield resource
            inputs = {"provisioner": list(provisioners)}
            address = f"{resource.address}.provisioner"
            yield Resource(address=address, type="terraform:terraform_data", inputs=inputs, line=resource.line)


def references(expression: Any) -> Iterator[str]:
    """Yield every reference in an expression, at any depth of blocks."""
    inside = [expression]
    while inside:
        value = inside.pop()
        if isinstance(value, dict):
            yield from (said for said in as_list(value.get("references")) if isinstance(said, str))
            inside += [item for key, item in value.items() if key not in ("references", "constant_value")]
        elif isinstance(value, list):
            inside += value
