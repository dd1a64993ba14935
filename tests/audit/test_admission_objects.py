"""What `gpupools policy --admission` writes."""

import re
from collections.abc import Callable

import pytest
import yaml

from gpupools.policies.rules import RULE_NAMES
from gpupools.providers import clouds

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(("mode", "actions"), [("audit", ["Audit", "Warn"]), ("deny", ["Deny"])])
def test_each_policy_has_a_binding_and_a_rule(mode: str, actions: list[str], run: Run) -> None:
    code, out, _ = run("policy", "--admission", mode)
    objects = list(yaml.safe_load_all(out))
    policies = [each for each in objects if each["kind"] == "ValidatingAdmissionPolicy"]
    bindings = [each for each in objects if each not in policies]
    warned = "gpupools-gpu-nodes"

    assert code == 0
    assert {each["metadata"]["name"] for each in policies} == {each["spec"]["policyName"] for each in bindings}
    for each in bindings:
        wanted = ["Audit", "Warn"] if each["spec"]["policyName"] == warned else actions
        assert each["spec"]["validationActions"] == wanted
    assert {each["metadata"]["annotations"]["gpupools/rule"] for each in policies} <= set(RULE_NAMES)
    assert not re.search(r"\$[a-z]", out)
    for cloud in clouds().values():
        assert all(f'"{name}"' in out for name in cloud.instance_types)


def test_other_arguments_are_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("policy", "--admission", "deny", "x.yaml")
    assert "--admission and --config-schema cannot be combined with other arguments" in capsys.readouterr().err
