"""Templates of Azure Resource Manager are read with the values that their expressions make."""

import time
from typing import Any

import pytest

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.providers import clouds
from gpupools.providers.azure.expressions import PLACEHOLDER, Scope
from gpupools.providers.azure.templates import closed_part, parts

SCOPE = Scope(
    variables={"size": "Standard_D4s_v5", "nested": "[variables('size')]", "round": "[variables('round')]"},
    parameters={
        "on": True,
        "off": False,
        "pools": [{"name": "a", "size": "Standard_D2s_v5"}, {"name": "b"}],
        "one": {"Size": "x", "late": "[resourceGroup().location]"},
    },
)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("variables('nested')", "Standard_D4s_v5"),
        ("VARIABLES('SIZE')", "Standard_D4s_v5"),
        ("variables('none')", UNKNOWN),
        ("variables('round')", UNKNOWN),
        ("parameters('pools')[0].size", "Standard_D2s_v5"),
        ("parameters('pools')[1].size", UNKNOWN),
        ("parameters('pools')[2]", UNKNOWN),
        ("parameters('one')['size']", "x"),
        ("parameters('one').late", UNKNOWN),
        ("tryGet(parameters('pools')[1], 'size')", None),
        ("tryGet(parameters('one'), 'late')", UNKNOWN),
        ("coalesce(tryGet(parameters('pools')[1], 'size'), 'y')", "y"),
        ("coalesce(tryGet(parameters('one'), 'late'), 'y')", UNKNOWN),
        ("if(parameters('on'), 'a', 'b')", "a"),
        ("if(parameters('off'), resourceGroup().id, 'b')", "b"),
        ("if(parameters('none'), 'a', 'b')", UNKNOWN),
        ("if(parameters('none'), 'a', 'a')", "a"),
        ("if(and(parameters('off'), parameters('none')), 'a', 'b')", "b"),
        ("if(or(parameters('on'), parameters('none')), 'a', 'b')", "a"),
        ("if(equals('Abc', 'Abc'), 'a', 'b')", "a"),
        ("equals(1, true())", False),
        ("equals(parameters('one'), createObject())", UNKNOWN),
        ("contains(createArray('a', parameters('none')), 'a')", True),
        ("contains(createArray('a', parameters('none')), 'b')", UNKNOWN),
        ("contains(parameters('one'), 'SIZE')", True),
        ("concat('Standard_', 'D4s_', 'v', 5)", "Standard_D4s_v5"),
        ("concat(createArray('a'), createArray('b'))", ["a", "b"]),
        ("format('Standard_{0}_v{1}', 'D4s', 5)", "Standard_D4s_v5"),
        ("format('{0:N2}', 5)", UNKNOWN),
        ("format('{1}', 5)", UNKNOWN),
        ("toLower('ABC')", "abc"),
        ("replace(toUpper('abc'), 'B', 'it''s')", "Ait'sC"),
        ("split('a,b', ',')[1]", "b"),
        ("last(split('a/b/c', '/'))", "c"),
        ("length(parameters('pools'))", 2),
        ("sub(length(parameters('pools')), 1)", 1),
        ("union(parameters('one'), createObject('Size', 'z')).size", "z"),
        ("json('{\"a\": [1]}').a[0]", 1),
        ("empty('')", True),
        ("not(empty(parameters('pools')))", True),
        ("substring('abcdef', 1, 2)", "bc"),
        ("sys.concat('a', 'b')", "ab"),
        ("contoso.concat('a', 'b')", UNKNOWN),
        ("reference('x').outputs.size.value", UNKNOWN),
        ("concat('a', reference('x').name)", UNKNOWN),
        ("'a' 'b'", UNKNOWN),
        ("concat('a'", UNKNOWN),
        ("copyIndex()", UNKNOWN),
        ("", UNKNOWN),
        ("not('a')", UNKNOWN),
        ("div(1, 0)", UNKNOWN),
        ("parameters(parameters('one').Size)", UNKNOWN),
    ],
)
def test_an_expression_has_its_value(expression: str, value: Any) -> None:
    found = SCOPE(f"[{expression}]")

    assert found == value
    assert type(found) is type(value)


def test_a_text_in_brackets_is_none() -> None:
    assert SCOPE("[[parameters('on')]") == "[parameters('on')]"
    assert SCOPE("[a] and [b]x") == "[a] and [b]x"


@pytest.mark.parametrize("loop", [{"count": 3}, {"count": "[length(createArray(1, 2, 3))]"}])
def test_a_loop_makes_a_list(loop: dict[str, Any]) -> None:
    given = {"copy": [{"name": "made", "input": {"n": "[copyIndex('made', 1)]"}, **loop}], "other": 1}

    assert SCOPE(given) == {"made": [{"n": 1}, {"n": 2}, {"n": 3}], "other": 1}


@pytest.mark.parametrize("count", [801, "[parameters('none')]", True, None])
def test_a_loop_of_unknown_length_makes_what_is_not_known(count: Any) -> None:
    assert SCOPE({"copy": [{"name": "made", "input": 1, "count": count}]}) == {"made": UNKNOWN}


def test_a_script_keeps_what_is_known_of_it() -> None:
    made = SCOPE({"scriptContent": "[base64(concat('az aks nodepool add -g ', parameters('none')))]"})

    assert made == {"scriptContent": f"az aks nodepool add -g {PLACEHOLDER}"}


AGENT_POOL = "Microsoft.ContainerService/managedClusters/agentPools"


def sizes(template: Any, given: Any = None) -> list[Any]:
    return [
        part.properties.get("vmSize") if isinstance(part.properties, dict) else part.properties
        for part in parts(template, given=given)
        if part.type == AGENT_POOL
    ]


def pool(size: str = "s", **more: Any) -> dict[str, Any]:
    return {"type": AGENT_POOL, "name": "a", "properties": {"vmSize": size}, **more}


@pytest.mark.parametrize(
    ("template", "given", "found"),
    [
        ({"resources": [pool("[copyIndex()]", copy={"name": "l", "count": 2})]}, None, [0, 1]),
        ({"resources": [pool("[copyIndex('l')]", copy={"name": "l", "count": "[x()]"})]}, None, [UNKNOWN]),
        ({"resources": [pool("[copyIndex()]", copy={"name": "l", "count": 0})]}, None, [UNKNOWN]),
        ({"resources": [pool("[copyIndex()]", copy={"name": "l", "count": 0})]}, {}, []),
        (
            {
                "parameters": {"own": {"type": "string", "nullable": True}},
                "resources": [pool("[coalesce(parameters('own'), 's')]")],
            },
            None,
            ["s"],
        ),
        ({"resources": {"a": pool(), "b": pool(existing=True)}}, None, ["s"]),
        ({"resources": [pool(condition=False)]}, None, []),
        ({"resources": [pool(condition="[parameters('on')]")]}, None, ["s"]),
        (
            {"parameters": {"on": {"defaultValue": False}}, "resources": [pool(condition="[parameters('on')]")]},
            None,
            ["s"],
        ),
        (
            {"parameters": {"on": {"defaultValue": False}}, "resources": [pool(condition="[parameters('on')]")]},
            {},
            [],
        ),
        (
            {"parameters": {"on": {"defaultValue": False}}, "resources": [pool(condition="[parameters('on')]")]},
            {"on": {"value": True}},
            ["s"],
        ),
        ({"resources": [pool(type=f"[concat('{AGENT_POOL}')]")]}, None, ["s"]),
        (
            {
                "variables": {"copy": [{"name": "v", "count": 2, "input": "[copyIndex('v')]"}]},
                "resources": [pool("[variables('v')[1]]")],
            },
            None,
            [1],
        ),
        (
            {
                "resources": [
                    {
                        "type": "Microsoft.Resources/deployments",
                        "name": "d",
                        "copy": {"name": "l", "count": 2},
                        "properties": {
                            "expressionEvaluationOptions": {"scope": "inner"},
                            "parameters": {"size": {"value": "[copyIndex()]"}},
                            "template": {"parameters": {"size": {}}, "resources": [pool("[parameters('size')]")]},
                        },
                    }
                ]
            },
            None,
            [0, 1],
        ),
    ],
    ids=str,
)
def test_the_pools_of_a_template_have_their_sizes(template: Any, given: Any, found: list[Any]) -> None:
    assert sizes(template, given) == found


LINK = {"uri": "https://example.org/parameters.json"}


@pytest.mark.parametrize(
    ("given", "gpus"), [({}, 0), ({"parametersLink": LINK}, None), ({"properties": {"parametersLink": LINK}}, None)]
)
def test_parameters_that_lie_elsewhere_are_not_known(given: dict[str, Any], gpus: int | None) -> None:
    body = {"parameters": {"size": {"defaultValue": "Standard_D4s_v5"}}, "resources": [pool("[parameters('size')]")]}
    found = clouds()["azure"].reading().read_pools("azure-native:resources:Deployment", {"template": body, **given})

    assert [each.gpus_per_node for each in found] == [gpus]


def test_a_template_with_too_many_values_is_left_as_it_is_written() -> None:
    many = [{"type": "Microsoft.Network/virtualNetworks", "properties": {"a": [0] * 60_000}} for _ in range(3)]
    loop = {"name": "l", "count": 800}
    nested = {"type": "Microsoft.Resources/deployments", "copy": loop, "properties": {"template": {"resources": []}}}
    found = [*parts({"resources": [*many, pool(), nested]})]

    assert [part.type for part in found][3:] == [AGENT_POOL, "Microsoft.Resources/deployments"]
    assert found[3].properties is UNKNOWN
    assert not any(map(closed_part, found))


@pytest.mark.parametrize("template", [{"resources": [pool(type="[x()]")]}, {"resources": "[parameters('all')]"}])
def test_what_may_be_of_any_type_cannot_be_read(template: Any) -> None:
    assert [closed_part(part) for part in parts(template)] == ["its type is not known yet"]


@pytest.mark.parametrize(
    "variables",
    [
        {f"v{n}": f"[concat(variables('v{n + 1}'), variables('v{n + 1}'))]" for n in range(90)} | {"v90": "a" * 1000},
        {f"v{n}": f"[createArray(variables('v{n + 1}'), variables('v{n + 1}'))]" for n in range(90)} | {"v90": "a"},
        {"v0": "[concat(variables('v0'), variables('v0'))]"},
        {"v0": f"[{'concat(' * 5000}'a'{')' * 5000}]"},
        {"v0": {"copy": [{"name": "l", "count": 800, "input": {"copy": [{"name": "m", "count": 800, "input": 1}]}}]}},
        {"v0": f"[replace('{'a' * 9000}', 'a', '{'b' * 9000}')]"},
    ],
    ids=range(6),
)
def test_expressions_end(variables: dict[str, Any]) -> None:
    before = time.process_time()

    assert len(sizes({"variables": variables, "resources": [pool("[variables('v0')]")]})) == 1
    assert time.process_time() - before < 5
