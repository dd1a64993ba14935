"""The resource that a stack's update or destroy comes to before all others."""

import pytest

from tests.components.conftest import RunProgram


@pytest.mark.parametrize("protect", [True, False])
def test_it_depends_on_everything_by_a_urn_that_stays(preview: RunProgram, protect: bool) -> None:
    shown = preview(
        f"""
        import pulumi_gcp as gcp
        from gpupools.components.protection import Protection
        boxes = [pulumi.ComponentResource("t:index:Box", name) for name in "ab"]
        for box in boxes:
            gcp.Provider(f"in-{{box._name}}", opts=pulumi.ResourceOptions(parent=box))
        Protection(boxes, protect={protect})
        """
    )
    (protection,) = [each for each in shown.resources if each.name == "protection"]

    assert shown.problems == []
    assert protection.urn == "urn:pulumi:test::own::gpupools:index:Protection::protection"
    assert protection.options == {
        "dependsOn": [each.urn for each in shown.resources if each.name.startswith("in-")],
        "protect": protect,
    }
    assert shown.registered.get(protection.urn, {}) == {}
