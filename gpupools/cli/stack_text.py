"""Writes the stack file of a new environment, with what each key means above it."""

import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from gpupools.cli.schema import stack_schema
from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Cloud

_SAID = {
    "nodes": "max is what the pool can cost at most; idle it has no nodes.",
    "sharing": "How containers share one GPU: none, time-slicing, mps or mig.",
}
"""What is said above keys whose own values mean more than the key."""


def stack_text(env: str, cloud: Cloud, cluster: JsonObject, pool_key: str, pool: JsonObject, schema: str) -> str:
    """Return the text of a stack file with one cluster and one pool; `schema` is a path from the file's folder."""
    key = _key(str(cluster["name"]))
    about = stack_schema()["definitions"]["StackPool"]["properties"]
    lines = [
        f"# yaml-language-server: $schema={schema}",
        f"# GPU node pools of {env}: gpupools check judges this file, gpupools preview shows what it makes.",
        "config:",
        "  gpupools:clusters:",
        f"    # A cluster of {cloud.service} that exists, by a key of your own.",
        f"    {key}:",
    ]
    for name, value in cluster.items():
        said = "" if name in ("cloud", "name") else cluster_schema(cloud)["properties"][name]["description"]
        lines += [*_comment(said), f"      {name}: {flow(value)}"]
    lines += ["  gpupools:pools:", f"    {pool_key}:", f"      clusters: [{key}]"]
    for name, value in pool.items():
        lines += [*_comment(_SAID.get(name) or about[name]["description"]), f"      {name}: {flow(value)}"]
    lines.append(
        "      # More keys: disk_gib, capacity, zones, labels, taints, image, network, upgrade, tags, protect."
    )
    return "\n".join(lines) + "\n"


def cluster_schema(cloud: Cloud) -> JsonObject:
    """Return what the schema says of a cloud's clusters."""
    found: JsonObject = stack_schema()["definitions"][cloud.cluster.__name__]
    return found


def _comment(text: str) -> list[str]:
    """Write a description above its key, without the page it names."""
    plain = re.sub(r"[:.]?\s+https://\S+", ".", text)
    return textwrap.wrap(plain, 118, initial_indent="      # ", subsequent_indent="      # ", break_long_words=False)


_PLAIN = r"[A-Za-z](?:[A-Za-z0-9._/@:-]*[A-Za-z0-9])?"
_NOT_TEXT = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def flow(value: Any) -> str:
    """Write a value as YAML on one line that every reader takes for the same."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str) and re.fullmatch(_PLAIN, value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value)


def _key(name: str) -> str:
    """Make a key of the stack file from a cluster's name."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
    return (plain if plain[:1].isalpha() else f"c-{plain}")[:20].strip("-")
