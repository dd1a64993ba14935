"""A checkout somebody else has filled: whatever of it is run leaves a mark outside of it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

IN_THE_WAY = (
    # the standard library and pip
    *("venv", "pip", "ensurepip", "json", "io", "os", "re", "argparse", "encodings", "sitecustomize", "usercustomize"),
    # what gpupools is made of and stands on
    *("yaml", "pydantic", "tabulate", "gpupools", "providers", "policies", "preview", "components", "stacks"),
)
"""Names of Python modules that lie about, as files and as packages."""

STACK = """\
config:
  gpupools:clusters:
    train: {cloud: aws, name: t, region: eu-central-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes"}
  gpupools:pools:
    one: {clusters: [train], gpu: A100-40GB, gpus_per_node: 8, nodes: {max: 1}}
"""

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpu, labels: {owner: vision}}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g6.xlarge]}
"""
"""A manifest that a mandatory rule refuses: the pool has no taint."""


@dataclass(frozen=True)
class Checkout:
    """A folder full of traps, and what shows that one went off."""

    folder: Path
    marks: Path

    def write(self, name: str, text: str) -> Path:
        """Write a file, with the folders it needs."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def went_off(self) -> list[str]:
        """Name the traps that were run."""
        return sorted(path.name for path in self.marks.iterdir())


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a checkout with modules in the way and a good stack file."""
    made = Checkout(tmp_path / "checkout", tmp_path / "marks")
    made.marks.mkdir()
    for name in IN_THE_WAY:
        trap = f"open({str(made.marks / name)!r}, 'w').close()\n"
        made.write(f"{name}.py", trap)
        made.write(f"{name}/__init__.py", trap)
        made.write(f"{name}/__main__.py", trap)
    made.write(".python-version", "0.0.1\n")
    made.write("setup.py", f"open({str(made.marks / 'setup')!r}, 'w').close()\n")
    made.write("pip.conf", "[global]\nindex-url = http://127.0.0.1:9/\n")
    made.write("stack/Pulumi.dev.yaml", STACK)
    return made


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(checkout: Checkout, environment: Path) -> Run:
    """Run a command in the checkout, as a job of CI would."""

    def ran(*command: object, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            cwd=checkout.folder,
            env={**os.environ, "GPUPOOLS_ENVIRONMENT": str(environment), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=120,
            check=False,
        )

    return ran


@pytest.fixture(scope="session")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with what a release of gpupools has for hooks and Action."""
    repository = tmp_path_factory.mktemp("released") / "gpupools"
    for name in ("gpupools", "providers", "policies", "tooling"):
        shutil.copytree(ROOT / name, repository / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (".pre-commit-hooks.yaml", "action.yml", "pyproject.toml", "requirements-check.txt"):
        shutil.copy(ROOT / name, repository / name)
    git(repository, "init", "-q")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "A release")
    return repository


def git(folder: Path, *arguments: str) -> str:
    """Run git with nobody's configuration."""
    who = ("-c", "user.name=Example", "-c", "user.email=someone@example.com", "-c", "protocol.file.allow=always")
    nobodys = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, env={**inherited, **nobodys}, capture_output=True, text=True, check=True
    )
    return done.stdout
