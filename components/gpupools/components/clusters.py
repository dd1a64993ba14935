"""Clusters of a stack file for a Pulumi program: addresses from other stacks, and a provider for each."""

from collections.abc import Mapping
from functools import partial
from itertools import combinations
from typing import Any

import pulumi

from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import ResourceFactory
from gpupools.providers import clouds
from gpupools.spec.identity import place, same_place, second_key
from gpupools.spec.models import Cluster, StackOutput


def addresses(
    cluster: Cluster, references: dict[str, pulumi.StackReference], *, secret: bool = False
) -> dict[str, pulumi.Input[Any]]:
    """Return a cluster's keys with every `{output: …}` replaced by the other stack's output.

    Args:
        cluster: The checked cluster.
        references: The stacks referred to so far, by name; gets those this cluster adds, so that each is read once.
        secret: Whether the configuration holds encrypted values. Pulumi hands a program the whole map decrypted and
            does not say which they were, so every address in it then stays a secret.
    """

    def read(value: Any, late: bool) -> Any:
        if isinstance(value, StackOutput):
            stack = str(cluster.stack)
            if stack not in references:
                references[stack] = pulumi.StackReference(stack)
            return _output(references[stack], stack, value.output)
        if isinstance(value, Mapping):
            return {key: read(item, late) for key, item in value.items()}
        if isinstance(value, list):
            return [read(item, late) for item in value]
        return pulumi.Output.secret(value) if late else value

    given = {key: getattr(cluster, key) for key in type(cluster).model_fields if key not in _PLANNED}
    addressed = type(cluster).address_keys() if secret else frozenset()
    return {key: read(value, key in addressed) for key, value in given.items() if value is not None}


_PLANNED = ("stack", "runtime", "tags")
"""Keys of a cluster that the plan has taken in; the rest is for providers and resources."""


def told_apart(
    clusters: Mapping[str, Cluster], where: Mapping[str, Mapping[str, pulumi.Input[Any]]]
) -> dict[str, dict[str, pulumi.Input[Any]]]:
    """Return the clusters' addresses so that none of two clusters is used before it is known that they are two.

    Args:
        clusters: The checked clusters by key.
        where: Their `addresses`; only what is late among them is compared here, the rest is the plan's.

    Raises (while the program runs):
        pulumi.RunError: Two keys stand for one cluster.
    """
    found = {key: dict(given) for key, given in where.items()}
    for (first, one), (second, other) in combinations([(key, clusters[key]) for key in where], 2):
        if same_place(place(one), place(other)) is not None:
            continue
        pair = pulumi.Output.all(pulumi.Output.from_input(where[first]), pulumi.Output.from_input(where[second]))
        compared = pair.apply(partial(_compare, (first, type(one)), (second, type(other))))
        for key in (first, second):
            for name, value in found[key].items():
                if isinstance(value, pulumi.Output):
                    found[key][name] = pulumi.Output.all(compared, value).apply(lambda got: got[1])
    return found


def _compare(one: tuple[str, type[Cluster]], other: tuple[str, type[Cluster]], given: list[JsonObject]) -> None:
    (first, here), (second, there) = one, other
    try:
        found = here.place_of(given[0])
        same = same_place(found, there.place_of(given[1]))
    except ValueError:  # the provider says what is wrong
        return
    if same:
        raise pulumi.RunError(str(second_key(first, second, found)))


def resource_factory(cloud: str) -> ResourceFactory:
    """Return what declares a cloud's resources.

    Raises:
        pulumi.RunError: The cloud's SDK is an extra that this environment has not installed.
    """
    try:
        return clouds()[cloud].node_pools.resources()
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if not missing.startswith("pulumi_"):
            raise
        package = missing.replace("_", "-")
        raise pulumi.RunError(f"{cloud} needs the package {package}; install gpupools[{cloud}]") from None


def provider(name: str, cloud: str, cluster: Mapping[str, pulumi.Input[Any]]) -> pulumi.ProviderResource:
    """Declare the cluster's own provider, so that no pool depends on ambient region or project settings."""
    return resource_factory(cloud).create_provider(name, cluster, pulumi.ResourceOptions())


def _output(reference: pulumi.StackReference, stack: str, path: str) -> pulumi.Output[Any]:
    """Read an output, or with dots a value inside an output that is a map.

    Raises (while the program runs):
        pulumi.RunError: The other stack has no such output; Pulumi's own `require_output` ends in a traceback.
    """
    first, *rest = path.split(".")

    def find(value: Any) -> Any:
        for key in rest:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            raise pulumi.RunError(f"stack {stack} has no output {path!r}; export it there, or correct the name")
        return value

    return reference.get_output(first).apply(find)
