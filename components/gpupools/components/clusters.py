"""Clusters of a stack file in a Pulumi program: addresses from other stacks, and one provider per cluster."""

from collections.abc import Mapping
from functools import partial
from itertools import combinations
from typing import Any

import pulumi
from pulumi.runtime.rpc import UNKNOWN

from gpupools.common.json_types import JsonObject, with_items
from gpupools.providers import clouds
from gpupools.spec.cluster_access import KubeconfigFile, KubeconfigSecret
from gpupools.spec.identity import place, place_in_cloud, same_place, second_key
from gpupools.spec.models import Cluster, Late, StackOutput


def addresses(
    cluster: Cluster, references: dict[str, pulumi.StackReference], *, secret: bool = False
) -> dict[str, pulumi.Input[Any]]:
    """Return a cluster's keys, with every `{output: …}` replaced by the other stack's output.

    New stack references are added to `references`, so that each stack is read once. With `secret` every address becomes
    a secret: Pulumi hands a program the whole map decrypted and does not mark which values were secret.
    """

    def resolve(value: Any, is_secret: bool) -> Any:
        if isinstance(value, StackOutput):
            stack = str(cluster.stack)
            if stack not in references:
                references[stack] = pulumi.StackReference(stack)
            return _output(references[stack], stack, value.output)
        if isinstance(value, Late):  # encrypted, in an offline preview
            value = UNKNOWN
        if isinstance(value, KubeconfigSecret) and isinstance(value.secret, Late):
            value = value.model_copy(update={"secret": UNKNOWN})
        if isinstance(value, Mapping | list):
            return with_items(value, lambda item: resolve(item, is_secret))
        return pulumi.Output.secret(value) if is_secret else value

    keys = {key: getattr(cluster, key) for key in type(cluster).model_fields if key not in _PLANNED}
    secret_keys = type(cluster).address_keys() if secret else frozenset()
    return {key: resolve(value, key in secret_keys) for key, value in keys.items() if value is not None}


_PLANNED = ("stack", "runtime", "tags")
"""Keys of a cluster that only the plan reads; providers and resources get the others."""


def wait_for_distinct_clusters(
    clusters: Mapping[str, Cluster], where: Mapping[str, Mapping[str, pulumi.Input[Any]]]
) -> dict[str, dict[str, pulumi.Input[Any]]]:
    """Return the clusters' addresses as outputs that resolve only after all clusters turned out to be different.

    Only outputs are compared here; the plan has compared known values. While the program runs, two keys that name the
    same cluster raise `pulumi.RunError`.
    """
    result = {key: dict(keys) for key, keys in where.items()}
    for (first, one), (second, other) in combinations([(key, clusters[key]) for key in where], 2):
        if same_place(place(one), place(other)) is not None:
            continue
        pair = pulumi.Output.all(pulumi.Output.from_input(where[first]), pulumi.Output.from_input(where[second]))
        compared = pair.apply(partial(_compare, (first, type(one)), (second, type(other))))
        for key in (first, second):
            for name, value in result[key].items():
                if isinstance(value, pulumi.Output):
                    result[key][name] = pulumi.Output.all(compared, value).apply(lambda values: values[1])
    return result


def _compare(one: tuple[str, type[Cluster]], other: tuple[str, type[Cluster]], clusters: list[JsonObject]) -> None:
    (first, here), (second, there) = one, other
    try:
        location = here.place_of(clusters[0])
        same = same_place(location, there.place_of(clusters[1]))
    except ValueError:  # the provider reports the error
        return
    if same:
        raise pulumi.RunError(str(second_key(first, second, location)))


def kubernetes_identifier(where: Mapping[str, pulumi.Input[Any]]) -> pulumi.Input[str] | None:
    """Return what identifies a cluster whose kubeconfig is a file; None for others, whose API's address does.

    Pulumi compares the paths of kubeconfigs, not the files; adding an identifier replaces nothing:
    https://github.com/pulumi/pulumi-kubernetes, provider/pkg/provider/provider.go, DiffConfig.
    """
    if not isinstance(where.get("kubeconfig"), KubeconfigFile):
        return None
    keys = {key: value for key, value in where.items() if key != "kubeconfig"}
    return pulumi.Output.json_dumps(pulumi.Output.from_input(keys).apply(place_in_cloud))


def provider(
    name: str, cloud: str, cluster: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions | None = None
) -> pulumi.ProviderResource:
    """Declare an explicit provider for the cluster, so that no pool depends on default region or project settings."""
    return clouds()[cloud].node_pools.resources().create_provider(name, cluster, opts or pulumi.ResourceOptions())


def _output(reference: pulumi.StackReference, stack: str, path: str) -> pulumi.Output[Any]:
    """Return an output, or with a dotted path a value inside an output that is a map.

    Raises (while the program runs):
        pulumi.RunError: The other stack has no such output; Pulumi's own `require_output` ends in a traceback.
    """
    first, *rest = path.split(".")

    def find(value: Any) -> Any:
        for key in rest:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is None:
            raise pulumi.RunError(f"stack {stack} has no output {path!r}; export it there, or fix the name")
        return value

    return reference.get_output(first).apply(find)
