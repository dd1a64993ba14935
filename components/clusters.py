"""Clusters of a stack file for a Pulumi program: addresses from other stacks, and a provider for each."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import pulumi

from gpupools.spec import Cluster, StackOutput


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
        return pulumi.Output.secret(value) if late and isinstance(value, str) else value

    given = {key: getattr(cluster, key) for key in type(cluster).model_fields if key not in ("stack", "runtime")}
    addressed = type(cluster).address_keys() if secret else frozenset()
    return {key: read(value, key in addressed) for key, value in given.items() if value is not None}


def provider(name: str, cloud: str, cluster: Mapping[str, pulumi.Input[Any]]) -> pulumi.ProviderResource:
    """Declare the cluster's own provider, so that no pool depends on ambient region or project settings."""
    create: Callable[..., pulumi.ProviderResource] = import_module(f"providers.{cloud}.resources").create_provider
    return create(name, cluster, pulumi.ResourceOptions())


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
