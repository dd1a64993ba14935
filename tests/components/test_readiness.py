"""`runtime.wait_ready`: the resource that waits for a cluster's pools, and what it waits for."""

import builtins
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from gpupools.common.errors import Rejected
from gpupools.components import readiness
from gpupools.components.arguments import parse_cluster_argument
from gpupools.preview.command import preview_file
from gpupools.providers import clouds
from gpupools.ready import watch
from gpupools.stackfile.check import check_stack_file
from tests.gpupools.ready.api import Api, serving, write_files
from tests.gpupools.ready.world import World


def write(folder: Path, world: World, port: int, runtime: Any = None, **pool: Any) -> Path:
    """Write the stack file of a world with `runtime`, and changes of its pool."""
    file = write_files(world, f"http://127.0.0.1:{port}", folder)
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    cluster = document["config"]["gpupools:clusters"][world.cluster]
    cluster["runtime"] = {**cluster.get("runtime", {}), **(runtime or {"wait_ready": 10})}
    document["config"]["gpupools:pools"][world.pool] |= pool
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(watch, "INTERVAL_S", 0.05)
    monkeypatch.setattr(pulumi, "get_stack", lambda: "live")
    world = World("train", "whole")
    world.heal()
    with serving(world) as served:
        yield served


@pytest.fixture
def wait(api: Api, tmp_path: Path) -> Callable[..., None]:
    def waited(text: str | None = None, seconds: int = 1) -> None:
        plan = check_stack_file(write(tmp_path, api.world, api.server_port), clouds()).plan
        given = (tmp_path / "kube" / "config").read_text(encoding="utf-8") if text is None else text
        plan.stack.clusters["train"].__dict__["runtime"] = plan.stack.clusters["train"].runtime.model_copy(
            update={"wait_ready": seconds}
        )
        readiness.wait_until_ready(plan, "train", given, None)

    return waited


def test_pools_that_are_ready_end_the_wait(wait: Callable[..., None], api: Api, tmp_path: Path) -> None:
    wait()
    wait(str(tmp_path / "kube" / "config"))
    assert {method for method, _ in api.requests} == {"GET"}


def test_a_pool_that_becomes_ready_ends_the_wait(wait: Callable[..., None], api: Api) -> None:
    api.world.offer("h1", **{"nvidia.com/gpu": "7"})
    api.steps = [lambda: None, api.world.heal]
    wait(seconds=600)


def test_the_failure_has_the_causes_in_the_words_of_the_command(wait: Callable[..., None], api: Api) -> None:
    api.world.offer("h1", **{"nvidia.com/gpu": "7"})
    with pytest.raises(pulumi.RunError) as failure:
        wait()
    lines = str(failure.value).splitlines()
    assert lines[0] == (
        "the pools of train are not ready, with runtime.wait_ready: 1; nothing is undone, and the next pulumi up waits"
        " again"
    )
    assert lines[1] == "train/whole: not ready, 1 of 2 nodes ready: fewer GPUs than the machine has"
    assert "  cause: fewer GPUs than the machine has: Node h1, since 5 min" in lines


@pytest.mark.parametrize("kubeconfig", ["token: [hunter2", "{token: hunter2}"])
def test_a_wrong_kubeconfig_is_not_repeated(wait: Callable[..., None], kubeconfig: str) -> None:
    with pytest.raises(pulumi.RunError, match=r"clusters\.train: the kubeconfig") as failure:
        wait(kubeconfig)
    assert "hunter2" not in str(failure.value)


def test_a_missing_client_is_named(wait: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "kubernetes":
            raise ModuleNotFoundError(name=name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(pulumi.RunError, match=r"the Kubernetes client: install gpupools\[cluster\] or \[all\]"):
        wait()


def test_a_preview_asks_no_cluster_and_the_digest_is_of_the_plan(api: Api, tmp_path: Path) -> None:
    def promised(**pool: Any) -> Any:
        checked = check_stack_file(write(tmp_path, api.world, api.server_port, **pool), clouds())
        shown = preview_file(checked).preview
        assert shown.problems == []
        (found,) = [each for each in shown.resources if each.type == "gpupools:index:Readiness"]
        (protection,) = [each for each in shown.resources if each.name == "protection"]
        assert (found.name, found.options["dependsOn"]) == ("train-ready", protection.options["dependsOn"])
        return found.inputs["promised"]

    first = promised()
    assert promised(runtime={"wait_ready": 600}) == first
    assert promised(nodes={"fixed": 3}) != first
    assert promised(runtime={"wait_ready": 10, "metrics": False}) != first
    assert api.requests == []


def test_it_requires_access_and_is_a_key_of_stack_files(api: Api, tmp_path: Path) -> None:
    operator = {"gpu_operator": "gpu-operator/gpu-operator"}
    runtime = {"management": "external", "existing": operator, "wait_ready": 10}
    file = write(tmp_path, api.world, api.server_port, runtime)
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    cluster = document["config"]["gpupools:clusters"]["train"]
    del cluster["kubeconfig"]
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(Rejected, match=r"clusters\.train\.runtime\.wait_ready: requires access to the cluster's API"):
        check_stack_file(file, clouds())

    with pytest.raises(Rejected, match=r"cluster\.runtime\.wait_ready: is a key of stack files only"):
        parse_cluster_argument({**cluster, "runtime": {"wait_ready": 10}}, clouds()["aws"])
