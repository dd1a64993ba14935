"""Addresses that another stack's outputs give, and one provider for each cluster."""

import asyncio
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import pulumi
import pytest
import yaml
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func

from gpupools.components.clusters import addresses, wait_for_distinct_clusters
from gpupools.preview.program_run import preview_program
from gpupools.providers import clouds, registration
from gpupools.stackfile.stack_validation import parse_cluster

ROOT = Path(__file__).resolve().parents[2]

ROLE = "arn:aws:iam::123456789012:role/gpu-nodes"
OUTPUTS = {
    "clusterName": "train-prod",
    "subnets": ["subnet-00000001", "subnet-00000002"],
    "roles": {"gpu": {"arn": "arn:gpu"}, "other": {"arn": f"{ROLE}-b"}},
}


class OtherStack(mocks.Mocks):
    """Answers a stack reference with the outputs above, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        assert args.typ == "pulumi:pulumi:StackReference"
        self.asked.append(args.name)
        return f"{args.name}-id", {"outputs": OUTPUTS}

    def call(self, args: mocks.MockCallArgs) -> NoReturn:
        raise AssertionError(f"asked the cloud for {args.token}")


def run(program: Callable[[], None]) -> list[str]:
    """Run a program; return the stacks it asked."""
    other = OtherStack()

    async def main() -> None:
        pulumi.runtime.set_mocks(other)
        await run_pulumi_func(program)

    asyncio.run(main())
    return [name for name in other.asked if name != "project-stack"]


def cluster(**keys: Any) -> Any:
    given = {
        "cloud": "aws",
        "region": "us-east-1",
        "subnet_ids": ["subnet-00000009"],
        "node_role_arn": ROLE,
        "name": "x",
    }
    return parse_cluster(("clusters", "train"), given | {"stack": "acme/platform/prod"} | keys, clouds())


def read(**keys: Any) -> dict[str, Any]:
    """Return what the addresses of a cluster with these keys turn out to be."""
    found: dict[str, Any] = {}

    def program() -> None:
        for key, value in addresses(cluster(**keys), {}).items():
            pulumi.Output.from_input(value).apply(lambda got, key=key: found.update({key: got}))  # type: ignore[misc]

    run(program)
    return found


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        pytest.param({"name": {"output": "clusterName"}}, {"name": "train-prod"}, id="an output"),
        pytest.param(
            {"subnet_ids": {"output": "subnets"}}, {"subnet_ids": ["subnet-00000001", "subnet-00000002"]}, id="a list"
        ),
        pytest.param({"node_role_arn": {"output": "roles.gpu.arn"}}, {"node_role_arn": "arn:gpu"}, id="inside a map"),
        pytest.param(
            {"subnet_ids": ["subnet-00000009", {"output": "clusterName"}]},
            {"subnet_ids": ["subnet-00000009", "train-prod"]},
            id="one item of a list",
        ),
        pytest.param(
            {
                "subnet_ids": None,
                "subnets_by_zone": {"us-east-1a": ["subnet-00000009"], "us-east-1b": {"output": "subnets"}},
            },
            {
                "subnet_ids": None,
                "subnets_by_zone": {
                    "us-east-1a": ["subnet-00000009"],
                    "us-east-1b": ["subnet-00000001", "subnet-00000002"],
                },
            },
            id="a map of lists",
        ),
        pytest.param({"name": "plain"}, {"name": "plain"}, id="plain text"),
    ],
)
def test_an_address_is_read_where_the_file_says(keys: dict[str, Any], expected: dict[str, Any]) -> None:
    given = {
        "cloud": "aws",
        "region": "us-east-1",
        "subnet_ids": ["subnet-00000009"],
        "node_role_arn": ROLE,
        "name": "x",
    }

    assert read(**keys) == {key: value for key, value in (given | expected).items() if value is not None}


def test_the_addresses_of_a_file_with_encrypted_values_stay_secret_and_nothing_else_does() -> None:
    hidden: dict[str, bool] = {}

    async def look(given: dict[str, Any]) -> None:
        for key, value in given.items():
            parts = value if isinstance(value, list) else [value]
            hidden[key] = all([isinstance(part, pulumi.Output) and await part.is_secret() for part in parts])

    def program() -> None:
        pulumi.export("looked", pulumi.Output.from_input(look(addresses(cluster(), {}, secret=True))))

    run(program)

    assert hidden == {"cloud": False, "region": False, "subnet_ids": True, "node_role_arn": True, "name": True}


@pytest.mark.parametrize("output", ["clusterNames", "roles.cpu", "roles.gpu.arn.more", "clusterName.x", "subnets.0"])
def test_an_output_that_is_not_there_ends_the_program_with_one_sentence(output: str) -> None:
    with pytest.raises(pulumi.RunError) as error:
        read(name={"output": output})

    assert str(error.value) == (f"stack acme/platform/prod has no output {output!r}; export it there, or fix the name")


def test_a_stack_that_several_clusters_name_is_asked_once() -> None:
    references: dict[str, pulumi.StackReference] = {}
    first, second = cluster(name={"output": "clusterName"}), cluster(subnet_ids={"output": "subnets"})

    def program() -> None:
        addresses(first, references)
        addresses(second, references)

    assert run(program) == ["acme/platform/prod"]


def test_a_cluster_without_late_addresses_asks_no_stack() -> None:
    def program() -> None:
        addresses(cluster(), {})

    assert run(program) == []


def compare(first: Any, second: Any) -> dict[str, dict[str, Any]]:
    """Return the addresses of two clusters once they are known to be two."""
    found: dict[str, dict[str, Any]] = {"x": {}, "y": {}}

    def program() -> None:
        references: dict[str, pulumi.StackReference] = {}
        clusters = {"x": first, "y": second}
        for key, where in wait_for_distinct_clusters(
            clusters, {key: addresses(each, references) for key, each in clusters.items()}
        ).items():
            for name, value in where.items():
                pulumi.Output.from_input(value).apply(lambda got, to=found[key], name=name: to.update({name: got}))  # type: ignore[misc]

    run(program)
    return found


@pytest.mark.parametrize(
    ("late", "name"),
    [
        pytest.param({"name": {"output": "clusterName"}}, "train-prod", id="a name"),
        pytest.param({"node_role_arn": {"output": "roles.other.arn"}}, "x", id="a role's account"),
    ],
)
def test_two_keys_that_turn_out_to_be_one_cluster_end_the_program(late: dict[str, Any], name: str) -> None:
    with pytest.raises(pulumi.RunError) as error:
        compare(cluster(name=name), cluster(**late))

    assert str(error.value).startswith("clusters.y: is the same cluster as x (same account, region, name); ")


def test_two_clusters_that_turn_out_to_be_two_keep_their_addresses() -> None:
    found = compare(cluster(name="train-dev"), cluster(name={"output": "clusterName"}))

    assert (found["x"]["name"], found["y"]["name"]) == ("train-dev", "train-prod")
    assert found["y"]["subnet_ids"] == ["subnet-00000009"]


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_each_cluster_has_a_provider_of_its_own_and_its_pools_use_it(stack: str) -> None:
    config = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))["config"]
    shown = preview_program(ROOT / "stacks" / "__main__.py", stack, "gpupools", config)

    assert shown.problems == []
    kubernetes = {each.name for each in shown.resources if each.type == "pulumi:providers:kubernetes"}
    providers = {each.name for each in shown.resources if each.type.startswith("pulumi:providers:")} - kubernetes
    assert providers == set(config["gpupools:clusters"])
    assert kubernetes <= {f"{name}-kubernetes" for name in providers}
    used = {
        (each.name.partition("-")[0], each.options["provider"].rpartition("::")[0].rpartition("::")[2])
        for each in shown.resources
        if each.custom and each.name not in providers | kubernetes
    }
    assert used == {(name, name) for name in providers} | {(name.partition("-")[0], name) for name in kubernetes}


def test_a_cloud_whose_sdk_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    config = yaml.safe_load((ROOT / "stacks" / "Pulumi.dev.yaml").read_text(encoding="utf-8"))["config"]

    def version(package: str) -> str:
        if package == "pulumi-gcp":
            raise metadata.PackageNotFoundError(package)
        return metadata.version(package)

    monkeypatch.setattr(registration, "version", version)
    shown = preview_program(ROOT / "stacks" / "__main__.py", "dev", "gpupools", config)

    assert [str(each) for each in shown.problems] == ["gcp needs the package pulumi-gcp; install gpupools[gcp]"]


def test_only_what_is_late_waits_until_two_clusters_are_known_to_be_two() -> None:
    kinds: dict[str, bool] = {}

    def program() -> None:
        clusters = {"x": cluster(name="train-dev"), "y": cluster(name={"output": "clusterName"})}
        references: dict[str, pulumi.StackReference] = {}
        given = {key: addresses(each, references) for key, each in clusters.items()}
        for key, where in wait_for_distinct_clusters(clusters, given).items():
            kinds.update({f"{key}.{name}": isinstance(value, pulumi.Output) for name, value in where.items()})
            assert all((where[name] is value) is not kinds[f"{key}.{name}"] for name, value in given[key].items())

    run(program)
    assert [name for name, late in kinds.items() if late] == ["y.name"]
    assert len(kinds) > 4
