"""`gpupools preview --policy-config`: the shipped production example keeps to the shipped production policies."""

import json
import re
from pathlib import Path

import pytest
import yaml

from gpupools.cli.main import main
from gpupools.policies.policy_config import read_config
from gpupools.preview.command import preview_file
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file

ROOT = Path(__file__).resolve().parents[2]
PROD = ROOT / "stacks" / "Pulumi.prod.yaml"
CONFIG = ROOT / "policies" / "policy-config.prod.json"


def test_the_production_example_is_a_production_stack_and_passes_its_policies() -> None:
    checked = check_stack_file(PROD, clouds())
    config = json.loads(CONFIG.read_text(encoding="utf-8"))
    report = preview_file(checked, policy_config=read_config(CONFIG))

    assert checked.plan.stack.production
    assert checked.plan.pools
    assert all(checked.plan.stack.protects(each.cluster, each.name) for each in checked.plan.pools)
    assert report.exit_code == 0
    found = {verdict.policy: verdict for verdict in report.verdicts}
    assert [each for each in found.values() if each.violations] == []
    for name, given in config.items():
        level = given if isinstance(given, str) else given.get("enforcementLevel")
        assert level is None or found[name].level == level


def test_a_stack_that_breaks_them_is_refused_with_the_configured_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = yaml.safe_load(PROD.read_text(encoding="utf-8"))
    del document["config"]["gpupools:clusters"]["train"]["tags"]
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")

    assert main(["preview", str(file)]) == 0
    assert "gpu-pool-owned" not in capsys.readouterr().out
    assert main(["preview", str(file), "--policy-config", str(CONFIG)]) == 1
    said = capsys.readouterr().out
    assert re.search(r"FAIL +gpu-pool-owned +mandatory", said)
    assert "Rejected: 1 mandatory policy violated." in said


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param('{"gpu-pool-owed": "mandatory"}', "did you mean 'gpu-pool-owned'", id="no policy"),
        pytest.param('{"gpu-pool-bounded": {"most": 1}}', "gpu-pool-bounded.most", id="no option of it"),
        pytest.param('{"gpu-pool-tainted": "disabled"}', "gpu-pool-tainted", id="weaker"),
        pytest.param("{", "is not JSON", id="no JSON"),
        pytest.param("[]", "write an object", id="no object"),
        pytest.param(None, "cannot be read", id="no file"),
    ],
)
def test_a_wrong_configuration_is_refused_by_its_name(
    content: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")

    assert main(["preview", str(PROD), "--policy-config", str(file)]) == 1
    said = capsys.readouterr()
    assert f"{file}: " in said.err
    assert problem in said.err
    assert said.out == ""
