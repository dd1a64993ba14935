"""Every pool is decided once on each of its clusters, and every cluster's software once, whoever asks."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from gpupools.plan.pool_planner import plan_pool
from gpupools.preview.command import PROGRAM
from gpupools.preview.program_run import preview_program
from gpupools.providers import clouds
from gpupools.software.planning import plan_runtime
from gpupools.spec.models import LATE
from gpupools.stackfile.stack import plan_config

STACKS = Path(__file__).resolve().parents[1] / "stacks"
DEV, MATRIX = STACKS / "Pulumi.dev.yaml", STACKS / "Pulumi.matrix.yaml"
EVERY_STACK = sorted([*STACKS.glob("Pulumi.*.yaml"), *(Path(__file__).parent / "stacks").glob("Pulumi.*.yaml")])

Decisions = Counter[tuple[str, ...]]


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> Decisions:
    """Count what is decided, wherever it is asked for: `<cluster>, <pool>` and `<cluster>`."""
    made: Decisions = Counter()

    def count(decide: Callable[..., Any], key: Callable[..., tuple[str, ...]]) -> None:
        @wraps(decide)
        def counted(*arguments: Any, **named: Any) -> Any:
            made[key(*arguments)] += 1
            return decide(*arguments, **named)

        for module in list(sys.modules.values()):
            for name in [name for name, value in vars(module).items() if value is decide]:
                monkeypatch.setattr(module, name, counted)

    count(plan_pool, lambda name, _, cluster, *__: (cluster, name))
    count(plan_runtime, lambda cluster, *_: (cluster,))
    return made


def config(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
    return {key: value for key, value in content.items() if key.startswith("gpupools:")}


def once(given: Mapping[str, Any]) -> Decisions:
    there = [(cluster, name) for name, pool in given["gpupools:pools"].items() for cluster in pool["clusters"]]
    return Counter([*there, *{(cluster,) for cluster, _ in there}])


@pytest.mark.parametrize("file", [DEV, MATRIX], ids=["dev", "matrix"])
@pytest.mark.parametrize("command", ["check", "preview"])
def test_a_command_decides_once(command: str, file: Path, decisions: Decisions) -> None:
    assert main([command, str(file)]) == 0

    assert decisions == once(config(file))


def test_a_comparison_decides_once_for_each_file(decisions: Decisions) -> None:
    assert main(["diff", str(DEV), str(MATRIX)]) == 3  # other pools: most of those of the first are gone

    assert decisions == once(config(DEV)) + once(config(MATRIX))


def test_the_program_decides_once(decisions: Decisions) -> None:
    shown = preview_program(PROGRAM, "once", "gpupools", config(DEV))

    assert shown.problems == []
    assert decisions == once(config(DEV))


def test_the_program_decides_once_where_addresses_are_encrypted(decisions: Decisions) -> None:
    given = config(DEV)
    given["gpupools:clusters"]["serve"]["kubeconfig"] = {"secret": LATE}
    given["gpupools:clusters"]["lab"]["project"] = LATE
    shown = preview_program(PROGRAM, "once", "gpupools", given)

    assert shown.problems == []
    assert decisions == once(given)


def test_software_that_is_left_to_the_team_is_decided_once(decisions: Decisions) -> None:
    given = config(DEV)
    clusters = {"serve": {k: v for k, v in given["gpupools:clusters"]["serve"].items() if k != "kubeconfig"}}
    pools = {"a": {"clusters": ["serve"], "gpu": "T4", "nodes": {"max": 2}}}
    plan = plan_config({"clusters": clusters, "pools": pools}, clouds())

    assert "no pool of the cluster offers GPUs (a): nothing is installed" in plan.runtimes[0].notes[-1]
    assert decisions == once({"gpupools:pools": pools})


def encrypted(value: Any) -> Any:
    """Put `LATE` in the place of every text: of a list or a map each value is encrypted by itself."""
    if isinstance(value, dict) and "output" not in value:
        return {key: encrypted(each) for key, each in value.items()}
    return [encrypted(each) for each in value] if isinstance(value, list) else LATE


@pytest.mark.parametrize("file", EVERY_STACK, ids=lambda file: file.name)
def test_a_decision_never_depends_on_addresses(file: Path) -> None:
    """The program decides while they are late to it, and declares that with what they were decrypted to."""
    given = {key.removeprefix("gpupools:"): value for key, value in config(file).items()}
    known = plan_config(given, clouds())
    late = {key: dict(cluster) for key, cluster in given["clusters"].items()}
    for cluster in late.values():
        for key in clouds()[cluster["cloud"]].cluster.address_keys() & cluster.keys() - {"stack", "kubeconfig"}:
            cluster[key] = encrypted(cluster[key])
    found = plan_config({**given, "clusters": late}, clouds())

    assert found.stack != known.stack
    assert (found.pools, found.runtimes) == (known.pools, known.runtimes)
