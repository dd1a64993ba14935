"""A Terraform or OpenTofu plan as JSON: https://developer.hashicorp.com/terraform/internals/json-format.

Judges what will be there after the plan was applied, in every module. A value the plan does not know is `UNKNOWN`
where the configuration gives it, and absent where only the provider computes it, as in a Pulumi program's inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gpupools.audit.document import Document, Resource
from gpupools.audit.terraform_names import terraform_names
from gpupools.audit.terraform_resources import TerraformResource, as_list, instance_of, resources_of
from gpupools.audit.terraform_sources import module_calls
from gpupools.common.errors import Path, Problem, Rejected, shown
from gpupools.common.json_types import JsonDict, JsonObject, mapping
from gpupools.common.structured_text import Text, all_maps, damaged, one_map
from gpupools.plan.pool_facts import UNKNOWN
from gpupools.policies.declared_stack import Gap

FORM = "Terraform plan"

_NEVER_COMPUTED = frozenset({"taint", "node_taints"})
"""No provider computes these, so one that is unknown was written in a dynamic block, which plans do not show."""


_PLANNED = ("planned_values", "root_module")


def recognises(data: Any) -> bool:
    """Say whether this is a plan."""
    return (
        isinstance(data, dict) and "format_version" in data and ("resource_changes" in data or "planned_values" in data)
    )


def read(text: Text) -> Document:
    """Read every managed resource that the plan leaves in place.

    Raises:
        Rejected: The format is newer than this reader, planning failed half-way, or the file is damaged.
    """
    data = text.values[0].data
    check_version(data)
    if data.get("errored") is True:
        what = "is a plan that ended with an error and is incomplete"
        raise Rejected([Problem((), what, "fix the error and plan again")])
    changes = all_maps(data.get("resource_changes"), ("resource_changes",))
    deferred = all_maps(data.get("deferred_changes"), ("deferred_changes",))
    planned = one_map(one_map(data.get("planned_values"), _PLANNED[:1]).get("root_module"), _PLANNED)
    if not changes and any(planned.get(key) for key in ("resources", "child_modules")):
        raise damaged(("resource_changes",), data.get("resource_changes"))
    ending: list[Resource] = []
    plan = Plan(text, _modules(mapping(data.get("configuration")).get("root_module"), ()))
    listed: list[tuple[Path, JsonObject]] = [(("resource_changes", index), each) for index, each in enumerate(changes)]
    for index, item in enumerate(deferred):
        place = ("deferred_changes", index)
        listed.append(((*place, "resource_change"), one_map(item.get("resource_change"), place)))
    for at, change in listed:
        for key in ("mode", "type"):
            if not isinstance(change.get(key), str):
                raise damaged((*at, key), change.get(key))
        outcome = one_map(change.get("change"), (*at, "change"))
        actions = outcome.get("actions")
        if not isinstance(actions, list) or not actions:
            raise damaged((*at, "change", "actions"), actions)
        before, module = mapping(outcome.get("before")), change.get("module_address")
        if change["mode"] == "managed" and "delete" in actions:
            ends = "recreates" if "create" in actions else "deletes"
            ending += (replace(one, ends=ends) for one in resources_of(instance_of(change, before, module), text))
        if change["mode"] == "managed" and actions not in (["delete"], ["forget"], ["read"]):
            if not isinstance(outcome.get("after"), dict):
                raise damaged((*at, "change", "after"), outcome.get("after"))
            instance = instance_of(change, _without_old_taints(outcome["after"], before), module)
            instance.id = str(before.get("id") or "") if "create" not in actions else ""
            plan.instances.append((instance, outcome.get("after_unknown")))
        elif change["mode"] == "data" and change["type"] in _SENDING:
            values = _known(outcome.get("after"), outcome.get("after_unknown"), None)
            plan.sent.append(instance_of(change, values, module))
    resources = (
        *plan.resources(),
        *_actions(data, text),
        *plan.data_sources(data.get("prior_state")),
        *_untainted(changes, text),
    )
    sources = {
        (*calls, name): str(mapping(call).get("source", ""))
        for calls, module in plan.modules.items()
        for name, call in mapping(module.get("module_calls")).items()
    }
    reported = {str(item.get("address")) for _, item in listed}
    return Document(FORM, resources, tuple(_gaps(data, len(deferred), reported)), tuple(ending), sources)


def _without_old_taints(after: JsonObject, before: JsonObject) -> JsonObject:
    """Leave out the taints that GKE pools had before a change of their nodes, which plans repeat."""
    changed = {key for key in ("node_config", "node_pool") if key in after and after[key] != before.get(key)}
    return (
        {key: _without(value, "effective_taints") if key in changed else value for key, value in after.items()}
        if changed
        else after
    )


def _without(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_without(item, name) for item in value]
    return (
        {key: _without(item, name) for key, item in value.items() if key != name} if isinstance(value, dict) else value
    )


def _gaps(data: JsonObject, deferred: int, reported: set[str]) -> Iterator[Gap]:
    """Yield what makes the plan incomplete.

    A complete plan lists each resource, unchanged ones too. A plan with -refresh-only lists none and says that it is
    complete; OpenTofu's does not say whether it is.
    """
    again = "apply it and plan again, or plan without -target, -exclude and -refresh-only"
    if deferred:
        what = f"{deferred} change{'s are' if deferred > 1 else ' is'} deferred to a later plan and cannot be verified"
        yield Gap("deferred-changes", what, again)
    elif data.get("complete") is False:
        yield Gap("incomplete-plan", "the plan is incomplete; what is missing cannot be verified", again)
    elif left_out := len({*_managed(data.get("prior_state"), "values"), *_managed(data, "planned_values")} - reported):
        resources = f"{left_out} resource{'s' if left_out > 1 else ''}"
        yield Gap("incomplete-plan", f"the plan omits {resources} of the state, which cannot be verified", again)


def _managed(data: Any, key: str) -> Iterator[str]:
    """Yield the addresses of the managed resources in the values of a state or of what is planned."""
    return (str(one.get("address")) for _, one in _in_values(data, key) if one.get("mode") == "managed")


def _in_values(data: Any, key: str) -> Iterator[tuple[Any, JsonObject]]:
    """Yield the resources in the values of a state or of what is planned, each with its module."""
    modules = [mapping(mapping(mapping(data).get(key)).get("root_module"))]
    while modules:
        module = modules.pop()
        modules += map(mapping, as_list(module.get("child_modules")))
        yield from ((module.get("address"), mapping(one)) for one in as_list(module.get("resources")))


def _actions(data: JsonObject, text: Text) -> Iterator[Resource]:
    """Read the actions that Terraform 1.14 invokes beside its changes.

    https://developer.hashicorp.com/terraform/language/block/action; its form in a plan is in hashicorp/terraform
    internal/command/jsonplan/action_invocations.go.
    """
    invoked = [mapping(one) for one in as_list(data.get("action_invocations"))]
    deferred_resources = [
        mapping(mapping(one).get("action_invocation")) for one in as_list(data.get("deferred_action_invocations"))
    ]
    for one in (*invoked, *deferred_resources):
        values = _known(one.get("config_values"), one.get("config_unknown"), None)
        if isinstance(one.get("type"), str):
            yield from resources_of(instance_of(one, values), text)


def _untainted(changes: list[JsonObject], text: Text) -> Iterator[Resource]:
    """Yield each node taint that the plan removes, of which no resource is left.

    https://registry.terraform.io/providers/hashicorp/kubernetes/latest/docs/resources/node_taint
    """
    for one in changes:
        change = mapping(one.get("change"))
        if one["type"] == "kubernetes_node_taint" and change.get("actions") != ["forget"]:
            before, after = (as_list(mapping(change.get(key)).get("taint")) for key in ("before", "after"))
            if any(taint not in after for taint in before):
                address = f"{one.get('address')} (as it is)"
                why = "the plan removes a taint from nodes"
                yield Resource(
                    address, f"terraform:{one['type']}", {}, line=text.line_of(str(one.get("address"))), opaque=why
                )


_READ = ("data", "ephemeral")


_SENDING = frozenset({"aws_lambda_invocation", "azapi_resource_action", "external", "http", "local_command"})
_SENDING |= {"shell_script", "terracurl_request"}
"""Data sources that run or send something while they are read; what all others return counts where it is used."""


def check_version(data: JsonObject) -> None:
    """Refuse a major version of the format that is newer: minor ones only add.

    Raises:
        Rejected: It is newer.
    """
    version = data.get("format_version")
    if not isinstance(version, str) or version.partition(".")[0] not in ("0", "1"):
        what = f"has Terraform's JSON format {shown(version)}; the newest supported format is 1"
        raise Rejected([Problem((), what, "write it with Terraform 1.x")])


_Name = tuple[tuple[str, ...], str, str]
"""Calls, type and name of a resource in the configuration."""


@dataclass
class Plan:
    """The resources of a plan, or of a configuration, with what their values refer to."""

    text: Text
    modules: Mapping[tuple[str, ...], JsonObject]
    """Configuration of each module by the names of its calls."""
    instances: list[tuple[TerraformResource, Any]] = field(default_factory=list)
    """Each with what of it is not known, as plans mark it."""
    sent: list[TerraformResource] = field(default_factory=list)
    """Data sources of `_SENDING`."""
    _blocks: dict[_Name, _Block | None] = field(default_factory=dict)
    _addresses_by_name: dict[tuple[_Name, str], tuple[_Name, ...] | None] = field(default_factory=dict)
    _resolved_before: dict[tuple[Any, ...], tuple[_Name, ...]] = field(default_factory=dict)

    def resources(self) -> Iterator[Resource]:
        """Convert every instance."""
        for instance, unknown in self.instances:
            name = (module_calls(instance.module), instance.type, instance.name)
            given = self._block(name)
            values = _known(instance.values, unknown, given)
            for key in _WRITE_ONLY:
                if given is not None and key in given.expressions and values.get(key) is None:
                    values[key] = UNKNOWN
            if given is not None and instance.type in _HASHED and _HASH.fullmatch(str(values.get("user_data"))):
                values["user_data"] = mapping(given.expressions.get("user_data")).get("constant_value", UNKNOWN)
            refers = self._refers(instance, name, values)
            instance.values = values
            for resource in resources_of(instance, self.text, refers):
                yield replace(resource, opaque="none of its values is known yet") if unknown is True else resource

    @cached_property
    def _configured(self) -> Mapping[_Name, JsonObject]:
        """What the configuration says of each resource, by calls, type and name."""
        return {
            (calls, str(resource.get("type")), str(resource.get("name"))): resource
            for calls, module in self.modules.items()
            for resource in as_list(module.get("resources"))
            if isinstance(resource, dict) and resource.get("mode") not in _READ
        }

    def data_sources(self, state: Any) -> Iterator[Resource]:
        """Read the data sources that run or send something: as they were read, as they will be, or as written."""
        for module, one in _in_values(state, "values"):
            if one.get("mode") == "data" and one.get("type") in _SENDING:
                self.sent.append(instance_of(one, mapping(one.get("values")), module))
        known = {(module_calls(resource.module), resource.type, resource.name) for resource in self.sent}
        for calls, module in self.modules.items():
            for given in map(mapping, as_list(module.get("resources"))):
                name = (calls, given.get("type"), str(given.get("name")))
                if given.get("mode") in _READ and given.get("type") in _SENDING and name not in known:
                    expressions = mapping(given.get("expressions")).items()
                    values = {key: mapping(item).get("constant_value", UNKNOWN) for key, item in expressions}
                    address = ".".join((*(f"module.{call}" for call in calls), str(given.get("address", ""))))
                    self.sent.append(instance_of({**given, "address": address}, values))
        return (found for resource in self.sent for found in resources_of(resource, self.text))

    def _block(self, name: _Name) -> _Block | None:
        """Return the expressions of a resource, the same for all its instances."""
        if name not in self._blocks:
            resource = self._configured.get(name)
            self._blocks[name] = None if resource is None else _Block(mapping(resource.get("expressions")))
        return self._blocks[name]

    @cached_property
    def _instances(self) -> Mapping[_Name, _Alike]:
        instances: dict[_Name, _Alike] = {}
        for instance, _ in self.instances:
            name = (module_calls(instance.module), instance.type, instance.name)
            instances.setdefault(name, _Alike(instance.type)).add(instance)
        return instances

    @cached_property
    def _neighbours(self) -> Mapping[str, Mapping[str, _Alike]]:
        """What stands in each module instance and can be referred to, by type."""
        neighbours: dict[str, dict[str, _Alike]] = {}
        for instance, _ in self.instances:
            if instance.type in terraform_names():
                module = neighbours.setdefault(instance.module, {})
                module.setdefault(instance.type, _Alike(instance.type)).add(instance)
        return neighbours

    def _refers(self, instance: TerraformResource, name: _Name, values: JsonObject) -> Mapping[str, tuple[str, ...]]:
        """Return, for each input, the resources it was made from, where that is certain."""
        resource = self._configured.get(name)
        if resource is None:
            return {}
        result: dict[str, tuple[str, ...]] = {}
        for key, value in values.items():
            names = self._names(name, resource, key)
            if names is not None:
                alike = [self._instances[one] for one in names if one in self._instances]
            elif not _holds_unknown(value):
                continue
            else:
                # Made from a local or in a dynamic block, which plans do not show, so the neighbours count.
                alike = [
                    other for other in self._neighbours.get(instance.module, {}).values() if other.type != instance.type
                ]
            certain = tuple(_matching_instances(instance, alike)) or (
                tuple(_one_of(alike)) if names is not None else ()
            )
            if certain:
                result[key] = certain
        if instance.type in _OF_SEVERAL:
            for path, words in _blocks_in(mapping(resource.get("expressions")), ""):
                names = self._referenced(words, resource, name[0])
                certain = tuple(
                    _matching_instances(instance, [self._instances[one] for one in names if one in self._instances])
                )
                if certain:
                    result[path] = certain
        return result

    def _names(self, name: _Name, resource: JsonObject, key: str) -> tuple[_Name, ...] | None:
        """Return the resources that an input's expression names; None where the plan does not show them."""
        key_of_input = (name, key)
        if key_of_input not in self._addresses_by_name:
            given = mapping(resource.get("expressions"))
            words = list(_references(given.get(key)))
            if key in given and not any(word.startswith("local.") for word in words):
                self._addresses_by_name[key_of_input] = self._referenced(words, resource, name[0])
            else:
                self._addresses_by_name[key_of_input] = None
        return self._addresses_by_name[key_of_input]

    def _referenced(self, words: list[str], resource: JsonObject, calls: tuple[str, ...]) -> tuple[_Name, ...]:
        """Return the resources that the references of an expression lead to."""
        repeats = list(_references(resource.get("for_each_expression"))) if any(map(_EACH.match, words)) else []
        references = dict.fromkeys(other for word in words for other in (repeats if _EACH.match(word) else [word]))
        names = dict.fromkeys(name for word in references for name in self._resolved(word, calls))
        return tuple(names)

    def _resolved(self, reference: str, calls: tuple[str, ...]) -> tuple[_Name, ...]:
        """Follow a reference through variables and outputs of modules to resources: (calls, type, name)."""
        parts = [part.partition("[")[0] for part in reference.split(".", 3)[:3]]
        if len(parts) < 2:
            return ()
        key_of_input = (calls, *parts)
        if key_of_input not in self._resolved_before:
            self._resolved_before[key_of_input] = ()  # references that lead round in a circle end here
            self._resolved_before[key_of_input] = tuple(dict.fromkeys(self._followed(parts, calls)))
        return self._resolved_before[key_of_input]

    def _followed(self, parts: list[str], calls: tuple[str, ...]) -> Iterator[_Name]:
        first, second = parts[0], parts[1]
        if first == "var":
            if calls:
                call = mapping(mapping(mapping(self.modules.get(calls[:-1])).get("module_calls")).get(calls[-1]))
                for other in dict.fromkeys(_references(mapping(call.get("expressions")).get(second))):
                    yield from self._resolved(other, calls[:-1])
        elif first == "module":
            if len(parts) > 2:
                output = mapping(mapping(mapping(self.modules.get((*calls, second))).get("outputs")).get(parts[2]))
                for other in dict.fromkeys(_references(output.get("expression"))):
                    yield from self._resolved(other, (*calls, second))
        elif first not in _NO_RESOURCES:
            yield calls, first, second


def _references(expression: Any) -> Iterator[str]:
    """Yield every reference in an expression, at any depth of blocks."""
    inside = [expression]
    while inside:
        value = inside.pop()
        if isinstance(value, dict):
            yield from (reference for reference in as_list(value.get("references")) if isinstance(reference, str))
            inside += [item for key, item in value.items() if key not in ("references", "constant_value")]
        elif isinstance(value, list):
            inside += value


_WRITE_ONLY = ("sensitive_body", "set_wo")
"""Arguments that no plan shows, so that only the configuration tells that they are there.

https://developer.hashicorp.com/terraform/language/manage-sensitive-data/write-only
"""


_HASHED = frozenset({"aws_instance", "aws_launch_configuration", "aws_spot_instance_request"})
"""Resources of which the provider kept a hash in place of `user_data` before its version 6.

https://github.com/hashicorp/terraform-provider-aws, internal/service/ec2/ec2_instance.go at v5, `userDataHashSum`.
"""
_HASH = re.compile(r"[0-9a-f]{40}")


_OF_SEVERAL = frozenset({"aws_autoscaling_group", "aws_ec2_fleet", "aws_spot_fleet_request"})
"""Types that may name a launch template in each of several blocks."""


def _blocks_in(expressions: JsonObject, at: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every block inside the expressions of a resource, with its path and the references in it."""
    for key, value in expressions.items():
        for index, block in enumerate(as_list(value)):
            if isinstance(block, dict):
                path = f"{at}.{key}[{index}]" if at else f"{key}[{index}]"
                yield path, list(_references(block))
                yield from _blocks_in(block, path)


_EACH = re.compile(r"each\.")
_NO_RESOURCES = frozenset({"local", "each", "count", "path", "self", "terraform", "data"})


@dataclass
class _Alike:
    """Instances of one type: how many there are and one of them, by what they may share with another resource."""

    type: str
    whole: dict[tuple[Any, ...], tuple[int, str]] = field(default_factory=dict)

    def add(self, instance: TerraformResource) -> None:
        for key in _nearness(instance):
            self.whole[key] = (self.whole.get(key, (0, ""))[0] + 1, instance.address)


def _nearness(instance: TerraformResource) -> tuple[tuple[Any, ...], ...]:
    index = instance.index if isinstance(instance.index, str | int | None) else str(instance.index)
    return (instance.module, index), (instance.module,), ("", "", index), ()


def _matching_instances(instance: TerraformResource, others: list[_Alike]) -> Iterator[str]:
    """Yield of each type the one instance that belongs to a resource: same module instance, then same key, or alone."""
    by_type: dict[str, list[_Alike]] = {}
    for other in others:
        by_type.setdefault(other.type, []).append(other)
    for alike in by_type.values():
        for key in _nearness(instance):
            near = [count for group in alike if (count := group.whole.get(key)) is not None]
            if near:
                if len(near) == 1 and near[0][0] == 1:
                    yield near[0][1]
                break


def _one_of(others: list[_Alike]) -> Iterator[str]:
    """Yield the launch templates of which one is meant, where each has one instance."""
    if all(other.type in ("aws_launch_template", "aws_launch_configuration") for other in others):
        counted = [other.whole.get((), (0, "")) for other in others]
        if all(count == 1 for count, _ in counted):
            yield from (address for _, address in counted)


@dataclass
class _Block:
    """The expressions of a block; a block inside it is put together once."""

    expressions: JsonObject
    inside: dict[str, _Block | None] = field(default_factory=dict)

    def block(self, key: str) -> _Block | None:
        """Return the keys a block gives in any of its occurrences, for a set has no order; None for an attribute."""
        if key not in self.inside:
            expressions = self.expressions.get(key)
            blocks: list[Any] = expressions if isinstance(expressions, list) else [expressions]
            if all(isinstance(block, dict) and not block.keys() & {"references", "constant_value"} for block in blocks):
                self.inside[key] = _Block({name: value for block in blocks for name, value in block.items()})
            else:
                self.inside[key] = None
        return self.inside[key]


def _known(after: Any, unknown: Any, given: _Block | None) -> JsonDict:
    """Put values and unknown marks of one block together.

    Args:
        after: The block's values; a key whose value is not known is missing.
        unknown: True for each value that is not known, in the same shape.
        given: The block's expressions; None when the plan does not show them.
    """
    values, marks = mapping(after), mapping(unknown)
    result: JsonDict = {}
    for key in {**values, **marks}:
        mark = marks.get(key)
        if mark is True and given is not None and key not in given.expressions and key not in _NEVER_COMPUTED:
            continue
        result[key] = _value(values.get(key), mark, given.block(key) if given is not None else None)
    return result


def _value(after: Any, mark: Any, given: _Block | None) -> Any:
    if mark is True:
        return UNKNOWN
    if isinstance(mark, list):
        items, marks = as_list(after), [*mark, *([None] * len(as_list(after)))]
        length = max(len(items), len(mark))
        return [_value(items[i] if i < len(items) else None, marks[i], given) for i in range(length)]
    if isinstance(mark, dict) or isinstance(after, dict):
        return _known(after, mark, given)
    if isinstance(after, list):
        return [_value(item, None, given) for item in after]
    return after


def _holds_unknown(value: Any) -> bool:
    """Say whether something inside a block is not known, at any depth."""
    if isinstance(value, dict):
        return any(item is UNKNOWN or _holds_unknown(item) for item in value.values())
    return isinstance(value, list) and any(_holds_unknown(item) for item in value)


def _modules(module: Any, calls: tuple[str, ...]) -> dict[tuple[str, ...], JsonObject]:
    modules = {calls: mapping(module)}
    for name, call in mapping(mapping(module).get("module_calls")).items():
        modules |= _modules(mapping(call).get("module"), (*calls, name))
    return modules
