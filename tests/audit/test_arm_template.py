"""Literal values of templates of Azure Resource Manager are read; what an expression returns is not known."""

from typing import Any

import pytest

from gpupools.audit.arm_template import POOLS, READER, known, resources, with_defaults
from gpupools.plan.pool_facts import UNKNOWN

AGENT_POOL = "Microsoft.ContainerService/managedClusters/agentPools"
DEPLOYMENT = "Microsoft.Resources/deployments"
LOOP = {"name": "l", "count": 2}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("Standard_D4s_v5", "Standard_D4s_v5"),
        ("[variables('size')]", UNKNOWN),
        ("['literal']", UNKNOWN),
        ("[[parameters('on')]", "[parameters('on')]"),
        ("[a] and b", "[a] and b"),
        ({"a": ["[b()]", 1]}, {"a": [UNKNOWN, 1]}),
        ({"copy": [{"name": "made", "count": 2, "input": {}}], "b": 1}, {"made": UNKNOWN, "b": 1}),
    ],
    ids=str,
)
def test_literals_are_read_and_expressions_are_not_evaluated(written: Any, value: Any) -> None:
    assert known(written) == value


def pool(size: str = "s", **more: Any) -> dict[str, Any]:
    return {"type": AGENT_POOL, "name": "a", "properties": {"vmSize": size}, **more}


def sizes_in(template: Any) -> list[Any]:
    return [each.inputs["vmSize"] for each in resources(template) if each.type == POOLS[AGENT_POOL.casefold()]]


def nested(kind: str, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "name": "d", "properties": properties}


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ([pool()], ["s"]),
        ({"a": pool(), "b": pool(existing=True)}, ["s"]),
        ([pool(condition=False)], []),
        ([pool(condition="[parameters('on')]")], ["s"]),
        ([pool(copy=LOOP)], ["s"]),
        ([pool("[copyIndex()]", copy=LOOP)], [UNKNOWN]),
        ([nested(DEPLOYMENT, template={"resources": [pool()]})], ["s"]),
        ([nested("Microsoft.Resources/templateSpecs/versions", mainTemplate={"resources": [pool()]})], ["s"]),
        (
            [
                {
                    "type": AGENT_POOL.rpartition("/")[0],
                    "resources": [{"type": "agentPools", "properties": {"vmSize": "s"}}],
                }
            ],
            ["s"],
        ),
    ],
    ids=str,
)
def test_the_pools_of_a_template_have_their_sizes(given: Any, sizes: list[Any]) -> None:
    assert sizes_in({"resources": given}) == sizes


@pytest.mark.parametrize("given", [[pool(type="[x()]")], "[parameters('all')]"])
def test_what_may_be_of_any_type_cannot_be_read(given: Any) -> None:
    assert [each.opaque for each in resources({"resources": given})] == ["its type is not known yet"]


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"vmSize": "Standard_NC24ads_A100_v4"}, "template.resources[0]: a pool inside a template is not read here"),
        ({"vmSize": "[parameters('size')]"}, "template.resources[0]: a pool inside a template is not read here"),
        ("[parameters('all')]", "template.resources[0]: properties is not literal"),
        ({"vmSize": "Standard_NC24ads_A100_v4", "nodeTaints": ["sku=gpu:NoSchedule"]}, ""),
        ({"vmSize": "Standard_D4s_v5"}, ""),
    ],
    ids=str,
)
def test_a_pool_inside_a_deployment_needs_a_look_unless_it_shows_otherwise(properties: Any, why: str) -> None:
    body = {"resources": [{"type": AGENT_POOL, "name": "a", "properties": properties}]}

    assert READER.unread("azure-native:resources:Deployment", {"template": body}).partition(";")[0] == why


@pytest.mark.parametrize(
    ("parameter", "size"),
    [
        ({"defaultValue": "Standard_NC24ads_A100_v4"}, "Standard_NC24ads_A100_v4"),
        ({"defaultValue": "[concat('a', 'b')]"}, UNKNOWN),
        ({"type": "string"}, UNKNOWN),
    ],
    ids=str,
)
def test_a_literal_default_of_a_parameter_is_read(parameter: Any, size: Any) -> None:
    inner = {"$schema": "s", "resources": [pool("[parameters('size')]")]}
    given = [pool("[parameters('size')]"), nested(DEPLOYMENT, template=inner)]

    assert sizes_in(with_defaults({"parameters": {"size": parameter}, "resources": given})) == [size, UNKNOWN]
