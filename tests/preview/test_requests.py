"""Every field of a request to the monitor, and what it answers, without a program."""

from collections.abc import Callable
from typing import Any

import pulumi_gcp.container
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import alias_pb2, callback_pb2, resource_pb2

from gpupools.preview.monitor import Refused, StrictMonitor, plain_struct
from gpupools.preview.sdk_schema import UNKNOWN
from tests.program_faults import faults
from tests.rows import each_row

SDKS = (pulumi_gcp.container,)
Request = resource_pb2.RegisterResourceRequest
BOX, POOL, PROVIDER = "test:index:Box", "gcp:container/nodePool:NodePool", "pulumi:providers:gcp"
CALLBACK = callback_pb2.Callback(target="a", token="b")


def struct(**values: Any) -> struct_pb2.Struct:
    made = struct_pb2.Struct()
    made.update(values)
    return made


def registered(monitor: StrictMonitor, **fields: Any) -> Any:
    return monitor.RegisterResource(Request(**{"type": BOX, "name": "a", **fields}))


def told(monitor: StrictMonitor) -> list[str]:
    return [str(problem) for problem in monitor.problems]


def invoked(monitor: StrictMonitor, token: str, **values: Any) -> dict[str, Any]:
    answer = monitor.Invoke(resource_pb2.ResourceInvokeRequest(tok=token, args=struct(**values)))
    return plain_struct(getattr(answer, "return"))


DEPENDENCIES = {"size": Request.PropertyDependencies(urns=["urn:z", "urn:b"]), "none": Request.PropertyDependencies()}
SPEC = alias_pb2.Alias.Spec


@each_row(
    ("given", "option"),
    [
        ({}, {}),
        ({"provider": "urn:p::id"}, {"provider": "urn:p::id"}),
        (
            {"providers": {"gcp": "urn:g::id", "aws": "urn:a::id"}},
            {"providers": {"aws": "urn:a::id", "gcp": "urn:g::id"}},
        ),
        ({"version": "1.2.3"}, {"version": "1.2.3"}),
        ({"pluginDownloadURL": "https://a"}, {"pluginDownloadURL": "https://a"}),
        ({"protect": True}, {"protect": True}),
        ({"protect": False}, {"protect": False}),
        ({"retainOnDelete": False}, {"retainOnDelete": False}),
        ({"deleteBeforeReplace": True, "deleteBeforeReplaceDefined": True}, {"deleteBeforeReplace": True}),
        ({"deleteBeforeReplace": True}, {}),
        ({"deletedWith": "urn:b"}, {"deletedWith": "urn:b"}),
        ({"dependencies": ["urn:z", "urn:b"]}, {"dependsOn": ["urn:b", "urn:z"]}),
        (
            {"dependencies": ["urn:z", "urn:c"], "propertyDependencies": DEPENDENCIES},
            {"dependsOn": ["urn:c"], "propertyDependencies": {"size": ["urn:b", "urn:z"]}},
        ),
        ({"ignoreChanges": ["b", "a"]}, {"ignoreChanges": ["b", "a"]}),
        ({"replaceOnChanges": ["b", "a"]}, {"replaceOnChanges": ["b", "a"]}),
        ({"replace_with": ["urn:b"]}, {"replaceWith": ["urn:b"]}),
        ({"replacement_trigger": struct_pb2.Value(string_value="x")}, {"replacementTrigger": "x"}),
        ({"hideDiffs": ["a"]}, {"hideDiffs": ["a"]}),
        ({"additionalSecretOutputs": ["a"]}, {"additionalSecretOutputs": ["a"]}),
        (
            {"customTimeouts": Request.CustomTimeouts(create="1h", update="2h", delete="3h", read="4h")},
            {"customTimeouts": {"create": "1h", "update": "2h", "delete": "3h", "read": "4h"}},
        ),
        ({"importId": "id"}, {"import": "id"}),
        ({"envVarMappings": {"B": "1", "A": "2"}}, {"envVarMappings": {"A": "2", "B": "1"}}),
        (
            {"hooks": Request.ResourceHooksBinding(before_create=["x"], after_delete=["y", "z"])},
            {"hooks": {"before_create": ["x"], "after_delete": ["y", "z"]}},
        ),
        (
            {"aliases": [alias_pb2.Alias(urn="urn:x")], "aliasURNs": ["urn:y"]},
            {"aliases": [{"urn": "urn:x"}, {"urn": "urn:y"}]},
        ),
        (
            {"aliases": [alias_pb2.Alias(spec=SPEC(name="n", type="t", stack="s", project="p", parentUrn="urn:x"))]},
            {"aliases": [{"name": "n", "type": "t", "stack": "s", "project": "p", "parent": "urn:x"}]},
        ),
        ({"aliases": [alias_pb2.Alias(spec=SPEC(noParent=True))]}, {"aliases": [{"parent": None}]}),
        ({"aliases": [alias_pb2.Alias(spec=SPEC(noParent=False))]}, {"aliases": [{}]}),
    ],
)
def test_an_option_is_recorded_in_the_engines_words(given: dict[str, Any], option: dict[str, Any]) -> None:
    monitor = StrictMonitor()
    registered(monitor, **given)

    (found,) = monitor.declared.values()
    assert found.options == option


def test_a_value_on_the_wire_becomes_a_plain_one() -> None:
    given = {"z": 1.0, "a": 1.5, "list": [True, None, {"b": 2}], "null": None, "text": "x"}

    found = plain_struct(struct(**given))
    assert list(found) == ["a", "list", "null", "text", "z"]
    assert found == {"a": 1.5, "list": [True, None, {"b": 2}], "null": None, "text": "x", "z": 1}
    assert isinstance(found["z"], int)


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"type": ":x", "custom": True},
        [":x::a: no imported SDK of this program has the type ':x'; use the SDK's own class"],
    ),
    (
        {"type": "other:a:B", "custom": True},
        ["other:a:B::a: no imported SDK of other has the type 'other:a:B'; use the SDK's own class"],
    ),
]


@pytest.mark.parametrize(("given", "expected"), WRONG)
def test_what_is_wrong_with_a_request_is_told(given: dict[str, Any], expected: list[str]) -> None:
    monitor = StrictMonitor()
    registered(monitor, **given)

    found = told(monitor)
    assert [each.startswith(start) for each, start in zip(found, expected, strict=True)] == [True] * len(found), found


OF_POOL = {"type": POOL, "custom": True, "object": struct(cluster="c")}
FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"protect": True, "deleteBeforeReplace": True, "deleteBeforeReplaceDefined": True}, []),
    ({"remote": True}, [f"{BOX}::a: needs an engine"]),
    ({"transforms": [CALLBACK]}, [f"{BOX}::a: needs an engine"]),
    ({"state_migrations": [CALLBACK]}, [f"{BOX}::a: needs an engine"]),
    ({**OF_POOL, "provider": "urn:nobody::id"}, [f"{POOL}::a: urn:nobody::id is no provider of gcp"]),
    (
        {"ignoreChanges": ["a"], "replaceOnChanges": ["a"], "replace_with": ["a"], "additionalSecretOutputs": ["a"]},
        [
            f"{BOX}::a: {option} has no effect"
            for option in ("ignoreChanges", "replaceOnChanges", "additionalSecretOutputs", "replaceWith")
        ],
    ),
    ({**OF_POOL, "hideDiffs": ["operation"]}, []),
    ({**OF_POOL, "ignoreChanges": ["*"], "replaceOnChanges": ["*"]}, []),
    ({**OF_POOL, "ignoreChanges": ["operation"]}, [f"{POOL}::a: ignoreChanges: 'operation' is not a property"]),
    (
        {**OF_POOL, "additionalSecretOutputs": ["operation", "x"]},
        [f"{POOL}::a: additionalSecretOutputs: 'x' is not a property"],
    ),
    (
        {**OF_POOL, "hideDiffs": ["x"], "replaceOnChanges": ["y"]},
        [f"{POOL}::a: replaceOnChanges: 'y' is not a prop", f"{POOL}::a: hideDiffs: 'x' is not a prop"],
    ),
]


@pytest.mark.parametrize(("given", "expected"), FAULTS)
def test_an_option_that_does_nothing_is_a_fault(given: dict[str, Any], expected: list[str]) -> None:
    monitor = StrictMonitor()
    registered(monitor, **given)

    found = list(faults(monitor.declared.values()))
    assert [each.startswith(start) for each, start in zip(found, expected, strict=True)] == [True] * len(found), found


@pytest.mark.parametrize("depth", [0, 1], ids=["at the top", "below a component"])
def test_a_provider_of_the_right_package_is_no_fault(depth: int) -> None:
    monitor = StrictMonitor()
    parent = registered(monitor).urn if depth else ""
    provider = registered(monitor, type=PROVIDER, custom=True, name="p", parent=parent, object=struct(project="x")).urn
    registered(monitor, type=POOL, custom=True, name="b", object=struct(cluster="c"), provider=f"{provider}::id")
    registered(monitor, name="c", providers={"gcp": f"{provider}::id"})

    assert list(faults(monitor.declared.values())) == []
    registered(monitor, name="d", providers={"aws": f"{provider}::id"})
    assert list(faults(monitor.declared.values())) == [f"{BOX}::d: {provider}::id is no provider of aws"]


def test_inputs_of_a_wrong_type_are_not_given_back() -> None:
    monitor = StrictMonitor()
    right = registered(monitor, type=POOL, custom=True, object=struct(cluster="c"))
    wrong = registered(monitor, type=POOL, custom=True, name="b", object=struct(cluster=[]))
    unknown = registered(monitor, type="gcp:no:Such", custom=True, name="c", object=struct(cluster="c"))

    assert [plain_struct(each.object) for each in (right, wrong, unknown)] == [{"cluster": "c"}, {}, {}]
    assert plain_struct(registered(monitor, name="d", object=struct(size=1)).object) == {"size": 1}
    assert [each.custom for each in monitor.declared.values()] == [True, True, True, False]


def test_a_stack_is_the_parent_of_nothing_that_is_declared() -> None:
    monitor = StrictMonitor()
    stack = monitor.RegisterResource(Request(type="pulumi:pulumi:Stack", name="x")).urn
    top = registered(monitor, parent=stack).urn
    registered(monitor, name="b", parent=top)
    registered(monitor, name="c")

    assert [each.parent for each in monitor.declared.values()] == [None, top, None]
    assert stack not in monitor.declared
    assert told(monitor) == []


def test_outputs_are_kept() -> None:
    monitor = StrictMonitor()
    outputs = resource_pb2.RegisterResourceOutputsRequest
    stack = monitor.RegisterResource(Request(type="pulumi:pulumi:Stack", name="x")).urn
    urn = registered(monitor, parent=stack).urn
    for made in (urn, "urn:nobody", stack, stack):
        answer = monitor.RegisterResourceOutputs(outputs(urn=made, outputs=struct(size=1)))

    assert answer == empty_pb2.Empty()
    assert monitor.outputs == {"size": 1}
    assert monitor.registered == {urn: {"size": 1}, "urn:nobody": {"size": 1}, stack: {"size": 1}}
    assert told(monitor) == []


def test_a_stack_reference_is_read_and_nothing_else() -> None:
    monitor = StrictMonitor()
    read, reference = resource_pb2.ReadResourceRequest, "pulumi:pulumi:StackReference"
    found = monitor.ReadResource(read(type=reference, name="a", id="o/p/q"))
    monitor.ReadResource(read(type=reference, name="b", properties=struct(name="o/p/q")))
    monitor.ReadResource(read(type=reference, name="c"))
    registered(monitor, parent=found.urn)

    assert plain_struct(found.properties) == {"name": "o/p/q", "outputs": UNKNOWN, "secretOutputNames": UNKNOWN}
    assert monitor.stack_references == ["o/p/q", "c"]
    assert told(monitor) == []
    with pytest.raises(Refused):
        monitor.ReadResource(read(type=POOL, name="a", id="x"))
    assert told(monitor) == [
        f"{POOL}::a: reads the existing resource 'x' from the cloud; set its address in the configuration"
    ]


OWN = "organization/project/stack"


def test_the_own_state_has_no_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    for part, name in (("organization", "organization"), ("project", "project"), ("stack", "stack")):
        monkeypatch.setattr(f"gpupools.preview.monitor.get_{part}", lambda name=name: name)
    monitor, token = StrictMonitor(), "pulumi:pulumi:readStackResourceOutputs"

    assert invoked(monitor, token, stackName=OWN) == {"name": OWN}
    with pytest.raises(Refused):
        invoked(monitor, token, stackName="organization/project/other")
    assert told(monitor)[0].startswith(
        f"{token}: reads the state of the stack 'organization/project/other'; set the value"
    )


ASKS: dict[str, tuple[Callable[[StrictMonitor], object], str]] = {
    "exists": (
        lambda monitor: monitor.ExistsResource(resource_pb2.ReadResourceRequest(type=POOL, id="x")),
        f"{POOL}: asks the cloud whether 'x' exists; set it in the stack file",
    ),
    "function": (
        lambda monitor: invoked(monitor, "gcp:a:b"),
        "gcp:a:b: calls a cloud while the program runs; set the value in the stack file: an offline preview must be",
    ),
    "function with the URN of a resource": (
        lambda monitor: invoked(monitor, "gcp:a:b", urn=registered(monitor).urn),
        "gcp:a:b: calls a cloud while the program runs; set",
    ),
    "a resource that nobody declared": (
        lambda monitor: invoked(monitor, "pulumi:pulumi:getResource", urn="urn:x"),
        "pulumi:pulumi:getResource: calls a cloud while the program runs; set",
    ),
    "method": (
        lambda monitor: monitor.Call(resource_pb2.ResourceCallRequest(tok="gcp:a:b/c")),
        "gcp:a:b/c: calls a provider while the program runs; set",
    ),
}


@pytest.mark.parametrize(("ask", "expected"), ASKS.values(), ids=list(ASKS))
def test_what_only_a_cloud_can_answer_is_refused(ask: Callable[[StrictMonitor], object], expected: str) -> None:
    monitor = StrictMonitor()
    with pytest.raises(Refused) as refused:
        ask(monitor)

    assert [each.startswith(expected) for each in told(monitor)] == [True], told(monitor)
    assert str(refused.value) == told(monitor)[0]
