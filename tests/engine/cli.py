"""The `pulumi` CLI with a home, a backend and clouds of its own, on a copy of this repository."""

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib.util import find_spec
from operator import getitem
from pathlib import Path
from typing import Any

from tests.engine.stand_in import EMPTY, HOW, NODES
from tests.source_roots import FOLDERS, python_path

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).with_name("stand_in.py")
FILES = ("Pulumi.yaml", "pyproject.toml")
SDKS = ("pulumi_aws", "pulumi_azure_native", "pulumi_gcp", "pulumi_kubernetes")


@dataclass(frozen=True)
class CommandResult:
    """The result of a finished command."""

    command: str
    code: int
    output: str
    """Its output, stdout before stderr."""

    def succeeded(self) -> "CommandResult":
        """Return the result; fail with its output unless the command succeeded."""
        assert self.code == 0, f"{self.command} ended with {self.code}:\n{self.output}"
        return self

    def failed(self) -> "CommandResult":
        """Return the result; fail if the command succeeded, or crashed with a traceback."""
        assert self.code != 0, f"{self.command} succeeded:\n{self.output}"
        for unfit in ("Traceback", "KeyboardInterrupt", "panic"):
            assert unfit not in self.output, f"{self.command} shows a {unfit}:\n{self.output}"
        return self


@dataclass(frozen=True)
class Engine:
    """The CLI and everything it may touch, below one folder."""

    folder: Path
    """Holds the copy of the repository as `repository`; a test's own projects lie beside it."""

    @property
    def repository(self) -> Path:
        """The copy of this repository, which a test may change."""
        return self.folder / "repository"

    @property
    def cloud(self) -> Path:
        """The file in which the stand-ins keep what the clouds have."""
        return self.folder / "cloud.json"

    def lay_out(self) -> None:
        """Copy the repository, and put a stand-in where the engine looks for each provider."""
        self.repository.mkdir(parents=True)
        for name in FILES:
            shutil.copy(ROOT / name, self.repository)
        for name in (*FOLDERS, "examples"):
            shutil.copytree(ROOT / name, self.repository / name)
        (self.repository / ".venv").symlink_to(sys.prefix)
        (self.folder / "backend").mkdir()
        for name, version in _plugins():
            folder = self.folder / "home" / "plugins" / f"resource-{name}-v{version}"
            folder.mkdir(parents=True)
            launcher = folder / f"pulumi-resource-{name}"
            started = shlex.join([sys.executable, str(STAND_IN), name, version])
            launcher.write_text(f'#!/bin/sh\nexec {started} "$@"\n', encoding="utf-8")
            launcher.chmod(0o755)

    def gpupools(self, *arguments: str) -> CommandResult:
        """Run `gpupools` of the copy."""
        command = [sys.executable, "-m", "gpupools.cli.main", *arguments]
        ended = subprocess.run(
            command,
            cwd=self.repository,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return CommandResult(shlex.join(command), ended.returncode, f"{ended.stdout}\n{ended.stderr}")

    def run(self, *arguments: str, project: Path | None = None, **environment: str) -> CommandResult:
        """Run `pulumi` in a project's folder, the repository's if none is given."""
        command = ["pulumi", "--non-interactive", "--color=never", *arguments]
        ended = subprocess.run(
            command,
            cwd=project or self.repository,
            env=self._environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return CommandResult(shlex.join(command), ended.returncode, f"{ended.stdout}\n{ended.stderr}")

    def shell(self, script: str, folder: Path, **environment: str) -> CommandResult:
        """Run lines of a shell as a runner does: the first that fails ends them."""
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-c", script],
            cwd=folder,
            env=self._environment() | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return CommandResult(script, ended.returncode, f"{ended.stdout}\n{ended.stderr}")

    def up(self, stack: str, *arguments: str, project: Path | None = None, **environment: str) -> CommandResult:
        """Run `pulumi up` without the preview before it."""
        return self.run("up", "--yes", "--skip-preview", "--stack", stack, *arguments, project=project, **environment)

    def project(self, name: str, program: str, **keys: Any) -> Path:
        """Lay a project beside the repository: one program in the repository's environment."""
        folder = self.folder / name
        folder.mkdir()
        runtime = {"name": "python", "options": {"toolchain": "pip", "virtualenv": "../repository/.venv"}}
        (folder / "Pulumi.yaml").write_text(json.dumps({"name": name, "runtime": runtime} | keys), encoding="utf-8")
        (folder / "__main__.py").write_text(program, encoding="utf-8")
        return folder

    def resources(self, *kinds: str) -> list[dict[str, Any]]:
        """Return what the clouds have: `{type, inputs, outputs}`, of these types or of all."""
        found: Mapping[str, dict[str, Any]] = self._kept()["resources"]
        return [resource for resource in found.values() if not kinds or resource["type"] in kinds]

    def journal(self) -> list[dict[str, Any]]:
        """Return everything that was done in the clouds so far, in order: `{op, type, name, id}`."""
        done: list[dict[str, Any]] = self._kept()["journal"]
        return done

    def nodes(self) -> dict[str, int]:
        """Return how many nodes the clouds' pools have, by type."""
        found = [each for each in self.resources() if each["type"] in NODES]
        return {each["type"]: int(reduce(getitem, NODES[each["type"]], each["outputs"])) for each in found}

    def outside(self, kind: str, identifier: str, inputs: Mapping[str, Any], **outputs: Any) -> None:
        """Let a cloud have a resource that no engine has made: what its provider reads as inputs, and what beside."""
        kept = self._kept()
        found = {"type": kind, "id": identifier, "inputs": dict(inputs), "outputs": {**inputs, **outputs}}
        kept["resources"][identifier] = found
        self.cloud.write_text(json.dumps(kept), encoding="utf-8")

    def forget(self, identifier: str) -> None:
        """Let something be deleted without Pulumi knowing."""
        kept = self._kept()
        del kept["resources"][identifier]
        self.cloud.write_text(json.dumps(kept), encoding="utf-8")

    def autoscale(self, nodes: int, *kinds: str) -> None:
        """Let the autoscalers have moved the pools of these types to this many nodes, without Pulumi knowing."""
        kept = self._kept()
        for each in kept["resources"].values():
            if each["type"] in kinds:
                *above, last = NODES[each["type"]]
                reduce(getitem, above, each["outputs"])[last] = nodes
        self.cloud.write_text(json.dumps(kept), encoding="utf-8")

    def cloud_calls(self) -> list[str]:
        """Return the provider functions that programs have called so far."""
        return list(self._kept().get("asked", []))

    def unreachable(self, *packages: str) -> None:
        """Let the APIs of these providers be out of reach from now on; without one, all answer again."""
        self.cloud.write_text(json.dumps({**self._kept(), "unreachable": packages}), encoding="utf-8")

    def misbehave(self, *hows: str, calls: Sequence[str] = ("create",), urn: str = "") -> None:
        """Let calls of the engine to providers go wrong from now on, each as `HOW` of the stand-in tells.

        Args:
            hows: What becomes of the first attempt of each call, of the second, and so on; those after it go well.
            calls: Which: `create`, `update`, `delete`, `read`.
            urn: A pattern for those of what is created, updated and so on.
        """
        assert set(hows) <= HOW.keys()
        fault = {"hows": hows, "calls": calls, "urn": urn, "attempts": {}} if hows else None
        self.cloud.write_text(json.dumps({**self._kept(), "fault": fault}), encoding="utf-8")

    def unchecked(self) -> None:
        """Let the stand-ins take every input from now on: to look each up in an SDK takes longer than all the rest."""
        self.cloud.write_text(json.dumps({**self._kept(), "unchecked": True}), encoding="utf-8")

    def behind(self, path: str, cluster: str) -> None:
        """Let the kubeconfig at a path be that of another cluster from now on."""
        kept = self._kept()
        self.cloud.write_text(
            json.dumps({**kept, "behind": kept.get("behind", {}) | {path: cluster}}), encoding="utf-8"
        )

    def admit(self, *queues: str) -> None:
        """Let Kueue have admitted workloads of these ClusterQueues from now on, and of no others."""
        self.cloud.write_text(json.dumps({**self._kept(), "admitted": queues}), encoding="utf-8")

    def settle(self) -> None:
        """Wait until the providers of a killed engine have ended: what they were at is done then."""
        kept = self._kept()
        for process in kept.get("processes", []):
            deadline = time.monotonic() + 60
            while b"stand_in" in _command(process):
                assert time.monotonic() < deadline, f"provider {process} does not end"
                time.sleep(0.1)
        self.cloud.write_text(json.dumps({**self._kept(), "processes": []}), encoding="utf-8")

    def log_in(self, account: str, **profiles: str) -> None:
        """Let the AWS credentials of this machine, and of its profiles, be those of an account; empty for any."""
        kept = {**self._kept(), "account": account, "profiles": profiles}
        self.cloud.write_text(json.dumps(kept), encoding="utf-8")

    def configured(self, package: str) -> list[dict[str, Any]]:
        """Return the settings that providers of a package were given so far, in order."""
        return [each["settings"] for each in self._kept()["configured"] if each["package"] == package]

    def _kept(self) -> Mapping[str, Any]:
        if not self.cloud.exists():
            self.cloud.write_text(EMPTY, encoding="utf-8")
        with self.cloud.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH)  # a provider of a killed engine may be at it still
            kept: Mapping[str, Any] = json.load(file)
        return kept

    def _environment(self) -> dict[str, str]:
        # Nothing of the machine's own Pulumi set-up, accounts included, may reach a test.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PULUMI_", "PYTHON"))}
        return kept | {
            "PULUMI_HOME": str(self.folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{self.folder / 'backend'}",
            "PULUMI_CONFIG_PASSPHRASE": "test",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_IGNORE_AMBIENT_PLUGINS": "true",
            # The environment's own (editable) installation points at the checkout; the copy goes first.
            "PYTHONPATH": python_path(self.repository),
            "GPUPOOLS_STAND_IN_STATE": str(self.cloud),
        }


def _plugins() -> Iterator[tuple[str, str]]:
    """Yield name and version of the provider each SDK asks for; the engine wants exactly that version."""
    for module in SDKS:
        spec = find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        plugin = json.loads(Path(spec.origin).with_name("pulumi-plugin.json").read_text(encoding="utf-8"))
        yield plugin["name"], plugin["version"]


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
