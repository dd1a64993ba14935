import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpupools.audit import limits, other_files
from gpupools.audit.judging import FileReport, judge_file
from gpupools.cli.main import main
from gpupools.policies.policy_config import Config

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file and return its path; anything but text becomes JSON."""

    def written(content: Any, name: str = "file") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), encoding="utf-8")
        return path

    return written


@pytest.fixture
def judge(write: Write) -> Callable[..., FileReport]:
    """Judge content as a file."""
    return lambda content, config=None: judge_file(write(content), config or Config())


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge files without a child process: forking one of this size is slow. `test_limits.py` forks."""
    monkeypatch.setattr(limits, "_in_child", limits._in_this_process)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], in_this_process: None) -> Callable[..., tuple[int, str, str]]:
    """Run `gpupools`; return exit code, output and errors."""

    def ran(*arguments: Any) -> tuple[int, str, str]:
        for kept in (other_files._configurations, other_files._objects):  # by their paths, as long as the process
            kept.cache_clear()
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return ran


TAINTED_POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu, labels: {owner: vision}}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}
      taints:
        - {key: nvidia.com/gpu, effect: NoSchedule}
"""


@pytest.fixture
def good(write: Any) -> Path:
    path: Path = write(TAINTED_POOL, "good.yaml")
    return path


@pytest.fixture
def bad(write: Any) -> Path:
    path: Path = write(TAINTED_POOL.replace("effect: NoSchedule", "effect: PreferNoSchedule"), "bad.yaml")
    return path


@pytest.fixture
def tainted_pool() -> str:
    """A manifest of a pool nobody has anything against."""
    return TAINTED_POOL
