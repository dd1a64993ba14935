"""Registers resources by type token, from inputs by wire name.

The classes of a cloud's SDK would add nothing to the inputs, but take seconds and 100 MB to load. What the classes add
to providers is in `register_provider` and beside each call of it; `tests/providers/test_registration.py` compares both.
"""

from collections.abc import Collection
from functools import cache
from importlib import metadata
from typing import Any, Self

import pulumi

from gpupools.common.json_types import JsonDict, JsonObject
from gpupools.common.naming import snake

version = cache(metadata.version)


class _Name(str):
    """A property by the name that the SDK's class has for it, which remembers its wire name."""

    def __new__(cls, wire: str) -> Self:
        """Turn `nodePublicIPPrefixID` into `node_public_ip_prefix_id`."""
        found = super().__new__(cls, snake(wire))
        found.wire = wire
        return found

    wire: str


class _Resource(pulumi.CustomResource):
    """Shows a program's `transformations` its properties by the names that the SDK's class has for them."""

    def translate_input_property(self, prop: str) -> str:
        """Return the wire name; keys inside of a property are no names of ours."""
        return prop.wire if isinstance(prop, _Name) else prop


def register(
    token: str,
    name: str,
    inputs: JsonObject,
    opts: pulumi.ResourceOptions,
    *,
    outputs: Collection[str] = (),
) -> pulumi.CustomResource:
    """Register a resource with the plugin of the installed SDK's version.

    Args:
        token: Its type, such as `gcp:container/nodePool:NodePool`.
        name: Its name in Pulumi.
        inputs: By wire name, also inside; None means left out.
        opts: Its options.
        outputs: The wire names that `output_of` is asked for.
    """
    declared: JsonDict = dict.fromkeys(outputs)
    declared |= {_Name(key): value for key, value in inputs.items()}
    return _Resource(token, name, declared, _of_version(token.partition(":")[0], opts))


def register_provider(
    package: str, name: str, inputs: JsonObject, opts: pulumi.ResourceOptions, *, secret_outputs: Collection[str] = ()
) -> pulumi.ProviderResource:
    """Register a provider; the engine takes inputs that are no texts as JSON.

    Args:
        package: Its package, such as `gcp`.
        name: Its name in Pulumi.
        inputs: By wire name; None means left out.
        opts: Its options.
        secret_outputs: The wire names of outputs that the SDK's class declares secret.
    """
    secrets = pulumi.ResourceOptions(additional_secret_outputs=list(secret_outputs))
    opts = pulumi.ResourceOptions.merge(opts, secrets)
    sent = {key: _as_text(value) for key, value in inputs.items() if value is not None}
    return pulumi.ProviderResource(package, name, sent, _of_version(package, opts))


def output_of(resource: pulumi.Resource, name: str) -> pulumi.Output[Any]:
    """Return an output that `register` was given in `outputs`; nested maps have wire names."""
    found: pulumi.Output[Any] = vars(resource)[name]
    return found


def plugin_version(package: str) -> str:
    """Return the version of a package's installed SDK, which is its plugin's.

    Raises:
        pulumi.RunError: It is not installed.
    """
    try:
        return version(f"pulumi-{package}")
    except metadata.PackageNotFoundError:
        cloud = package.partition("-")[0]
        raise pulumi.RunError(f"{cloud} needs the package pulumi-{package}; install gpupools[{cloud}]") from None


def _of_version(package: str, opts: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(pulumi.ResourceOptions(version=plugin_version(package)), opts)


def _as_text(value: Any) -> Any:
    """Return a text or a late value as it is, everything else as JSON."""
    if isinstance(value, str | pulumi.Output):
        return value
    return pulumi.Output.from_input(value).apply(pulumi.runtime.to_json)
