"""Write `nested_inputs.csv` of each cloud: the types of the inputs that `overrides` may set, and of those inside.

They are those of the installed SDKs. `gpupools check` reads the tables, because it loads no SDK. Needs no network.
"""

import argparse
import csv
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_origin

from gpupools.preview.sdk_schema import args_class, resource_class
from gpupools.providers.sdk_internals import input_types, is_input_type, wire_names

ROOT = Path(__file__).resolve().parent.parent / "providers" / "gpupools" / "providers"
TOKENS: Mapping[str, Mapping[str, str]] = {
    "aws": {
        "NodeGroup": "aws:eks/nodeGroup:NodeGroup",
        "LaunchTemplate": "aws:ec2/launchTemplate:LaunchTemplate",
        "PlacementGroup": "aws:ec2/placementGroup:PlacementGroup",
    },
    "azure": {"AgentPool": "azure-native:containerservice:AgentPool"},
    "gcp": {"NodePool": "gcp:container/nodePool:NodePool"},
}
SDKS = ("pulumi_aws.eks", "pulumi_aws.ec2", "pulumi_azure_native.containerservice", "pulumi_gcp.container")


def _kind(expected: Any) -> tuple[str, type | None]:
    """Return what the table says of a type, and the class of the objects inside it."""
    origin, inner = get_origin(expected), get_args(expected)
    if is_input_type(expected):
        return expected.__name__.removesuffix("Args"), expected
    if origin in (list, Sequence):
        kind, found = _kind(inner[0])
        return f"[]{kind}", found
    if expected in (bool, int, float):
        return expected.__name__, None
    if origin in (dict, Mapping):
        kind, found = _kind(inner[1])
        return f"*{kind}", found
    members = [_kind(each) for each in inner] if origin is not None else []
    return max(members, key=lambda each: (each[1] is not None, each[0]), default=("", None))


def table(resources: Mapping[str, str]) -> str:
    """Return the table of a cloud."""
    for module in SDKS:
        import_module(module)
    todo: list[tuple[str, Any]] = []
    for name, token in resources.items():
        resource = resource_class(token)
        todo.append((name, args_class(resource) if resource is not None else None))
    found: dict[str, list[str]] = {}
    for name, args in todo:
        if name in found:
            continue
        found[name] = []
        for wire, kind, inner in _inputs(args):
            found[name].append(f"{wire}:{kind}" if kind else wire)
            if inner is not None:
                todo.append((inner.__name__.removesuffix("Args"), inner))
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerows([("type", "inputs"), *((name, " ".join(sorted(each))) for name, each in found.items())])
    return text.getvalue()


def _inputs(args: Any) -> Iterator[tuple[str, str, type | None]]:
    kinds = input_types(args)
    for wire in wire_names(args).values():
        yield (wire, *_kind(kinds[wire]))


def main() -> int:
    """Write the files."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    for cloud, resources in TOKENS.items():
        (ROOT / cloud / "nested_inputs.csv").write_text(table(resources), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
