"""How inputs reach the rules: proxies and wire form to plain data, every cloud asked, nothing raised."""

import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi_policy.proxy import UNKNOWN_ARRAY_VALUE, UNKNOWN_STRING_VALUE

from gpupools.plan.cloud import Cloud, Readback
from gpupools.plan.pool_facts import UNKNOWN, PoolFacts
from gpupools.policies import kinds
from gpupools.policies.pack import POLICIES
from gpupools.policies.rules import RESOURCE_RULES, STACK_RULES
from gpupools.policies.stack_judge import UNVERIFIED, UNVERIFIED_IN_STACK, WAIVED
from gpupools.policies.wire import decoded, plain
from gpupools.providers import clouds
from tests.policies.asking import OUTPUT_VALUE, SIGNATURE, TAINT, secret, struct
from tests.policies.messages import finding_messages

ROOT = Path(__file__).parents[2]
ASSET = "c44067f5952c0a294b673a41bacd8c17"


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        pytest.param({"a": [1.0, "x", True, None]}, {"a": [1.0, "x", True, None]}, id="plain"),
        pytest.param({"a": UNKNOWN_STRING_VALUE}, {"a": UNKNOWN}, id="unknown in a map"),
        pytest.param({"a": ["x", UNKNOWN_ARRAY_VALUE]}, {"a": ["x", UNKNOWN]}, id="unknown in a list"),
        pytest.param({"a": {"b": [{"c": UNKNOWN_STRING_VALUE}]}}, {"a": {"b": [{"c": UNKNOWN}]}}, id="unknown deep"),
        pytest.param({"a": secret([secret("x")])}, {"a": ["x"]}, id="secrets"),
        pytest.param({"a": secret(UNKNOWN_STRING_VALUE)}, {"a": UNKNOWN}, id="a secret that is unknown"),
        pytest.param({"a": {SIGNATURE: OUTPUT_VALUE, "value": "x"}}, {"a": "x"}, id="a known output value"),
        pytest.param({"a": {SIGNATURE: OUTPUT_VALUE}}, {"a": UNKNOWN}, id="an unknown output value"),
        pytest.param({"a": {SIGNATURE: ASSET, "text": "x"}}, {"a": {}}, id="an asset"),
        pytest.param({"a": {SIGNATURE: ["?"]}}, {"a": {}}, id="a signature nobody knows"),
    ],
)
def test_wire_form_becomes_plain_data(wire: dict[str, Any], expected: dict[str, Any]) -> None:
    assert plain(wire) == decoded(struct(wire)) == expected


def _reading_by(read_pools: Callable[[str, Mapping[str, Any]], tuple[PoolFacts, ...]], name: str = "aws") -> Cloud:
    aws = clouds()["aws"]
    readback = aws.readback()._replace(read_pools=read_pools)
    return aws._replace(name=name, readback=lambda: readback)


@pytest.fixture
def read_by(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Replace the readers of the clouds; which reader looks inside a type is forgotten before and after."""
    cached = (kinds.is_read, kinds.readers_of)

    def replace(*readings: Readback) -> None:
        monkeypatch.setattr(kinds, "readings", lambda: readings)
        for answers in cached:
            answers.cache_clear()

    yield replace
    for answers in cached:
        answers.cache_clear()


def test_every_cloud_is_asked_what_it_reads(read_by: Callable[..., None]) -> None:
    def read_pools(type_token: str, props: Mapping[str, Any]) -> tuple[PoolFacts, ...]:
        known = type_token == "nimbus:Pool" and props.get("gpus") is None
        return (PoolFacts("nimbus", (), Fraction(4), (), "gpus 4"),) if known else ()

    read_by(*kinds.readings(), _reading_by(read_pools, name="nimbus").readback())

    said = finding_messages("nimbus:Pool", {})

    assert said[0] == (
        "has 4 NVIDIA GPUs per node (gpus 4), but no permanent taint keeps other pods off; found taints: none; "
        "add nvidia.com/gpu=present:NoSchedule to taints (see docs/reference/policies.md#gpu-pool-tainted)"
    )
    assert finding_messages("nimbus:Other", {}) == []


def test_complaints_read_the_wire_form_directly() -> None:
    untainted = {"instanceTypes": secret(["p4d.24xlarge"]), "taints": secret([])}

    def taint_complaints(props: dict[str, Any]) -> list[str]:
        said = finding_messages("aws:eks/nodeGroup:NodeGroup", props)
        return [each for each in said if each.endswith("#gpu-pool-tainted)")]

    assert len(taint_complaints(untainted)) == 1
    assert taint_complaints({**untainted, "taints": secret([secret(TAINT)])}) == []


def test_an_error_in_a_reader_is_not_hidden(read_by: Callable[..., None]) -> None:
    def read_pools(type_token: str, props: Mapping[str, Any]) -> tuple[PoolFacts, ...]:
        raise ZeroDivisionError

    finding_messages("x", {})  # another test may have asked before
    read_by(_reading_by(read_pools).readback())

    with pytest.raises(ZeroDivisionError):
        finding_messages("x", {})


def test_the_pack_starts_by_path_where_the_project_is_not_installed(tmp_path: Path) -> None:
    program = (
        "import runpy, sys, pathlib, pulumi_policy\n"
        "root = pathlib.Path(sys.argv[1])\n"
        "sys.path[:] = [entry for entry in sys.path if pathlib.Path(entry or '.').resolve() != root]\n"
        "pulumi_policy.PolicyPack = lambda **given: print(given['name'], *(p.name for p in given['policies']))\n"
        "runpy.run_path(str(root / 'policies'), run_name='__main__')\n"
    )

    run = subprocess.run(
        [sys.executable, "-c", program, str(ROOT)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    beside = [UNVERIFIED_IN_STACK, WAIVED]
    of_stack = [rule.name for rule in STACK_RULES if rule not in RESOURCE_RULES]
    names = [*(rule.name for rule in RESOURCE_RULES), UNVERIFIED, *of_stack, *beside]
    assert (run.stdout, run.stderr) == (f"gpupools {' '.join(names)}\n", "")


def test_an_sdk_with_other_names_is_refused_in_one_sentence() -> None:
    program = (
        "import pulumi_policy.policy as sdk\n"
        "del sdk._PolicyAnalyzerServicer._create_report_violation\n"
        "from gpupools.policies.serve import serve\n"
        "serve()\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)

    name = "pulumi_policy.policy._PolicyAnalyzerServicer._create_report_violation"
    said = f"the installed pulumi_policy lacks {name}; install that of requirements.txt\n"
    assert (run.stdout, run.stderr, run.returncode) == ("", said, 1)


def test_the_sdks_own_server_cannot_serve_the_pack() -> None:
    rule = next(iter(POLICIES.values()))

    with pytest.raises(RuntimeError, match="start it with"):
        rule.validate(None, None)  # type: ignore[attr-defined]


def test_the_manifest_names_the_projects_version_and_environment() -> None:
    manifest = yaml.safe_load((ROOT / "policies" / "PulumiPolicy.yaml").read_text())
    program = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert manifest["version"] == project["version"]
    assert manifest["runtime"]["name"] == "python"
    environment = ROOT / "policies" / manifest["runtime"]["options"]["virtualenv"]
    assert environment.resolve() == (ROOT / program["runtime"]["options"]["virtualenv"]).resolve()
