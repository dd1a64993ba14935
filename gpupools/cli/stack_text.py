"""Renders a new stack file with a comment above each key."""

import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from gpupools.cli.schema import stack_schema
from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Cloud

_COMMENTS = {
    "nodes": "max limits the cost of the pool; while idle it has no nodes.",
    "sharing": "How containers share one GPU: none, time-slicing, mps or mig.",
}
"""Comments that differ from the description in the schema."""


def stack_text(env: str, cloud: Cloud, cluster: JsonObject, pool_key: str, pool: JsonObject, schema: str) -> str:
    """Return the text of a stack file with one cluster and one pool; `schema` is relative to the file's folder."""
    key = cluster_key(str(cluster["name"]))
    about = stack_schema()["definitions"]["StackPool"]["properties"]
    lines = [
        f"# yaml-language-server: $schema={schema}",
        f"# GPU node pools of {env}: gpupools check validates this file, gpupools preview shows what it creates.",
        "config:",
        *(_PROTECTED if env.startswith(("prod", "live")) else ()),
        "  gpupools:clusters:",
        f"    # An existing cluster of {cloud.service}, under a key of your choice.",
        f"    {key}:",
    ]
    for name, value in cluster.items():
        said = "" if name in ("cloud", "name") else cluster_schema(cloud)["properties"][name]["description"]
        lines += [*_comment(said), f"      {name}: {flow(value)}"]
    lines += ["  gpupools:pools:", f"    {pool_key}:", f"      clusters: [{key}]"]
    for name, value in pool.items():
        lines += [*_comment(_COMMENTS.get(name) or about[name]["description"]), f"      {name}: {flow(value)}"]
    lines.append(
        "      # More keys: disk_gib, capacity, zones, labels, taints, image, network, upgrade, tags, protect."
    )
    return "\n".join(lines) + "\n"


_PROTECTED = (
    "  # Updates may not replace or delete pools, or end pods on several nodes at once.",
    "  gpupools:production: true",
)


def cluster_schema(cloud: Cloud) -> JsonObject:
    """Return the JSON schema of a cloud's clusters."""
    found: JsonObject = stack_schema()["definitions"][cloud.cluster.__name__]
    return found


def _comment(text: str) -> list[str]:
    """Return a description as a comment, without its URL."""
    plain = re.sub(r"[:.]?\s+https://\S+", ".", text)
    return textwrap.wrap(plain, 118, initial_indent="      # ", subsequent_indent="      # ", break_long_words=False)


_PLAIN = r"[A-Za-z](?:[A-Za-z0-9._/@:-]*[A-Za-z0-9])?"
_NOT_TEXT = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


def flow(value: Any) -> str:
    """Return a value as one line of unambiguous YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str) and re.fullmatch(_PLAIN, value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value)


def cluster_key(name: str) -> str:
    """Return a key for a cluster's name."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
    return (plain if plain[:1].isalpha() else f"c-{plain}")[:20].strip("-")
