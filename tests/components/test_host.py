"""The components as a package for other languages: the schema Pulumi infers, and the process that serves it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpupools.components.gpu_node_pool import GpuNodePoolArgs, NodesArgs, PoolArgs, SharingArgs
from gpupools.components.gpu_runtime import GpuRuntimeArgs

ROOT = Path(__file__).resolve().parents[2]
POOL = "gpupools:index:GpuNodePool"
RUNTIME = "gpupools:index:GpuRuntime"


@pytest.fixture(scope="module")
def schema() -> Iterator[Mapping[str, Any]]:
    """Start the components' process as the engine does and ask it for its schema."""
    command = [sys.executable, str(ROOT / "components"), "127.0.0.1:1"]
    with subprocess.Popen(command, cwd=ROOT / "components", stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
                answer = provider_pb2_grpc.ResourceProviderStub(channel).GetSchema(
                    provider_pb2.GetSchemaRequest(version=0), timeout=30
                )
            yield json.loads(answer.schema)
        finally:
            process.kill()


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def described(properties: Mapping[str, Mapping[str, Any]]) -> set[str]:
    return {name for name, definition in properties.items() if definition.get("description", "").strip()}


def test_the_package_has_both_components_and_the_projects_version(schema: Mapping[str, Any]) -> None:
    assert (schema["name"], sorted(schema["resources"])) == ("gpupools", [POOL, RUNTIME])
    assert f'version = "{schema["version"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("token", "typed", "outputs"),
    [
        pytest.param(
            POOL,
            GpuNodePoolArgs,
            {"nodePoolName", "capacity", "pod", "claimTemplate", "nodePod", "namespaceObjects"},
            id="GpuNodePool",
        ),
        pytest.param(RUNTIME, GpuRuntimeArgs, {"owners", "pods"}, id="GpuRuntime"),
    ],
)
def test_every_input_and_output_of_a_component_is_described(
    schema: Mapping[str, Any], token: str, typed: Any, outputs: set[str]
) -> None:
    component = schema["resources"][token]

    assert described(component["inputProperties"]) == {camel(key) for key in typed.__annotations__}
    assert set(component["requiredInputs"]) == {camel(key) for key in typed.__required_keys__}
    assert described(component["properties"]) == outputs


@pytest.mark.parametrize("typed", [PoolArgs, NodesArgs, SharingArgs])
def test_every_key_of_the_nested_arguments_is_described(schema: Mapping[str, Any], typed: Any) -> None:
    definition = schema["types"][f"gpupools:index:{typed.__name__}"]

    assert described(definition["properties"]) == {camel(key) for key in typed.__annotations__}
    assert set(definition.get("required", [])) == {camel(key) for key in typed.__required_keys__}


def test_the_manifest_names_the_environment_the_project_uses() -> None:
    manifest, project = (
        yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
        for file in ("components/PulumiPlugin.yaml", "Pulumi.yaml")
    )

    assert manifest["runtime"]["options"]["virtualenv"] == f"../{project['runtime']['options']['virtualenv']}"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        pytest.param({"polName": "a"}, "polName: unknown argument; did you mean 'poolName'?", id="at the top"),
        pytest.param(
            {"pool": {"gpu": "L4", "nodes": {"max": 1, "mn": 1}}},
            "pool.nodes.mn: unknown argument; did you mean 'min'?",
            id="inside",
        ),
    ],
)
def test_what_a_program_in_another_language_wrote_is_not_dropped(inputs: dict[str, Any], said: str) -> None:
    given = {"cloud": "gcp", "cluster": {}, "pool": {"gpu": "L4", "nodes": {"max": 1}}, **inputs}

    # In a process of its own: the SDK's provider and Google's client bring the same protocol buffers twice.
    done = subprocess.run([sys.executable, "-c", MAP, json.dumps(given)], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr) == (said, "")


MAP = """
import json, sys
import pulumi
from gpupools.components.gpu_node_pool import GpuNodePool
from gpupools.components.host import NothingDropped
host = NothingDropped([GpuNodePool], "gpupools", None, "0.0.0")
try:
    host.map_inputs(json.loads(sys.argv[1]), host._component_defs["GpuNodePool"])
except pulumi.InputPropertiesError as error:
    print(error)
"""
