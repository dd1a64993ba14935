"""The components as a package for other languages: its schema, the process that serves it, and what that maps."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import grpc
import pulumi
import pytest
import yaml
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from gpupools.catalog.gpus import gpu_models
from gpupools.common.errors import Rejected
from gpupools.common.version import version
from gpupools.components import gpu_node_pool, package
from gpupools.components.arguments import Refused
from gpupools.components.gpu_node_pool import GpuNodePoolArgs, PoolArgs
from gpupools.components.gpu_runtime import GpuRuntimeArgs
from gpupools.components.package import arguments, camel, snake, with_camel_case_keys
from gpupools.providers import clouds
from gpupools.spec.models import MODES, PoolSpec
from gpupools.spec.pool_options import Capacity

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


def described(properties: Mapping[str, Mapping[str, Any]]) -> set[str]:
    return {name for name, definition in properties.items() if definition.get("description", "").strip()}


def types(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name.removeprefix("gpupools:index:"): found for name, found in schema["types"].items()}


def texts(value: object) -> Iterator[str]:
    """Yield every description in a schema."""
    if isinstance(value, dict):
        if isinstance(value.get("description"), str):
            yield value["description"]
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


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


def test_a_pool_has_every_key_of_a_stack_file(schema: Mapping[str, Any]) -> None:
    keys = {camel(key) for key in PoolSpec.model_fields}

    assert types(schema)["Pool"]["properties"].keys() == keys == {camel(key) for key in PoolArgs.__annotations__}


def test_a_cluster_has_the_keys_of_every_cloud_that_a_component_takes(schema: Mapping[str, Any]) -> None:
    found = types(schema)["Cluster"]["properties"]
    elsewhere = {"cloud", "stack", "kubeconfig", "endpoint", "certificate_authority"}
    for cloud in clouds().values():
        keys = cloud.cluster.model_fields.keys() - elsewhere - set(cloud.cluster.identity)

        assert {camel(key) for key in keys} <= found.keys()
        # What may be another resource's output, and nothing else, is no plain value.
        for key in keys:
            inner = json.dumps(found[camel(key)].get("additionalProperties", found[camel(key)]))

            assert ('"plain": true' not in inner) == (key in cloud.cluster.address_keys()), key


def test_what_is_one_of_a_few_words_is_a_choice(schema: Mapping[str, Any]) -> None:
    def words(name: str) -> list[str]:
        return [each["value"] for each in types(schema)[name]["enum"]]

    assert words("Cloud") == list(clouds())
    assert words("SharingMode") == list(MODES)
    assert words("CapacityMode") == [get_args(each.model_fields["mode"].annotation)[0] for each in ways(Capacity)]
    assert words("PoolGpu") == list(gpu_models())
    assert {"PoolSoftware", "SharingStrategy", "UpgradeStrategy", "DiskLocalNvme"} <= types(schema).keys()


def ways(union: Any) -> Iterator[Any]:
    """Yield the models of a union that may be annotated."""
    members = get_args(union)
    for each in members:
        if isinstance(each, type):
            yield each
        elif get_args(each):
            yield from ways(each)


def test_every_key_has_one_spelling(schema: Mapping[str, Any]) -> None:
    holders = [*(each["inputProperties"] for each in schema["resources"].values())]
    holders += [each["properties"] for each in schema["types"].values() if "properties" in each]
    keys = {key for holder in holders for key in holder}

    assert [key for key in keys if camel(snake(key)) != key or "_" in key] == []
    assert [key for key in map(snake, keys) if "_" in key and any(key in text for text in texts(schema))] == []


def test_nothing_in_the_schema_is_pythons(schema: Mapping[str, Any]) -> None:
    pythons = re.compile(r"\bNone\b|\bdict\b|\blist\[|``|:[a-z]+:`|\bArgs:|\bRaises:|\bTypedDict\b|\bOutput\[|pulumi\.")

    assert [text for text in texts(schema) if pythons.search(text)] == []
    assert [name for name in types(schema) if name.endswith("Args")] == []
    assert all(found["description"].strip() for found in schema["types"].values())


def test_every_key_of_every_type_is_described(schema: Mapping[str, Any]) -> None:
    missing = {
        name: found["properties"].keys() - described(found["properties"])
        for name, found in types(schema).items()
        if "properties" in found
    }

    assert {name: keys for name, keys in missing.items() if keys} == {}


def test_the_manifest_names_the_environment_the_project_uses() -> None:
    manifest, project = (
        yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
        for file in ("components/PulumiPlugin.yaml", "Pulumi.yaml")
    )

    assert manifest["runtime"]["options"]["virtualenv"] == f"../{project['runtime']['options']['virtualenv']}"


GIVEN = {"cloud": "gcp", "cluster": {"name": "lab"}, "pool": {"gpu": "L4", "nodes": {"max": 1.0}}}


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        pytest.param({"polName": "a"}, "polName: unknown argument; did you mean 'poolName'?", id="at the top"),
        pytest.param({"pool_name": "a"}, "pool_name: unknown argument; did you mean 'poolName'?", id="as in Python"),
        pytest.param(
            {"pool": {"gpu": "L4", "nodes": {"max": 1, "mn": 1}}},
            "pool.nodes.mn: unknown argument; did you mean 'min'?",
            id="inside",
        ),
        pytest.param(
            {"cluster": {"service_account": "gpu@ml.iam.gserviceaccount.com"}},
            "cluster.service_account: unknown argument; did you mean 'serviceAccount'?",
            id="in a cluster",
        ),
    ],
)
def test_what_a_program_in_another_language_wrote_is_not_dropped(inputs: dict[str, Any], said: str) -> None:
    with pytest.raises(Rejected) as refused:
        arguments(POOL, {**GIVEN, **inputs})

    assert str(refused.value) == said


def test_inputs_become_the_arguments_of_the_component() -> None:
    async def late_name() -> pulumi.Output[str]:
        return pulumi.Output.from_input("train")

    late = asyncio.run(late_name())
    cluster = {
        "name": late,
        "serviceAccount": "gpu@ml.iam.gserviceaccount.com",
        "runtime": {"cpuTaints": ["a=b:NoSchedule"]},
    }
    pool = {
        "gpusPerNode": "1/4",
        "nodes": {"max": 4.0},
        "labels": {"costCenter": "x"},
        "capacity": {"mode": "spot", "maxPriceUsdPerHour": 1.5},
        "sharing": {"mode": "mig", "layout": {"0": ["1g.10gb"]}, "share": {"mode": "mps", "replicas": 2.0}},
        "overrides": {"gcp": {"NodePool": {"nodeCount": 2.0}}},
        "zones": None,
    }

    assert arguments(POOL, {"cloud": "gcp", "cluster": cluster, "pool": pool, "poolName": "a"}) == {
        "cloud": "gcp",
        "cluster": {
            "name": late,
            "service_account": "gpu@ml.iam.gserviceaccount.com",
            "runtime": {"cpu_taints": ["a=b:NoSchedule"]},
        },
        "pool": {
            "gpus_per_node": "1/4",
            "nodes": {"max": 4},
            "labels": {"costCenter": "x"},
            "capacity": {"mode": "spot", "max_price_usd_per_hour": 1.5},
            "sharing": {"mode": "mig", "layout": {"0": ["1g.10gb"]}, "share": {"mode": "mps", "replicas": 2}},
            "overrides": {"gcp": {"NodePool": {"nodeCount": 2}}},
        },
        "pool_name": "a",
    }
    assert arguments(RUNTIME, {"pools": {"my_pool": {"diskGib": 200.0}}}) == {"pools": {"my_pool": {"disk_gib": 200}}}


def test_a_refusal_has_the_keys_as_the_program_wrote_them() -> None:
    pool = {"gpu": "L4", "instance_type": "g2-standard-4", "disk_gib": 1, "nodes": {"max": 1}}
    with pytest.raises(Rejected) as refused:
        gpu_node_pool.plan_args("a", {"cloud": "gcp", "cluster": {}, "pool": pool})  # type: ignore[typeddict-item]
    said = with_camel_case_keys(str(Refused(refused.value)))

    assert "pool.diskGib: got 1" in said
    assert "instanceType" in said
    assert "_" not in said.replace("cluster.service_account", "")


def test_a_refusal_ends_a_program_in_this_process_without_a_traceback() -> None:
    refused = Refused(Rejected([]))

    assert isinstance(refused, pulumi.RunError)
    assert isinstance(refused, pulumi.InputPropertiesError)


def test_the_schema_has_the_version_of_the_project() -> None:
    assert package.schema()["version"] == version()
