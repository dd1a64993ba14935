"""Write the value paths a chart accepts, from its own values.yaml: facts (path and kind of the default), not the file.

The default itself is written where the owner table needs it: of switches, and of what places pods on nodes.

Usage: python tooling/write_chart_values.py CHART=VALUES.yaml ... > gpupools/data/chart_values.csv
The values.yaml is the one at the tag in `gpupools/data/charts.csv`. Paths that a template reads although values.yaml
leaves them out, and maps that take any key, are in `gpupools/data/chart_values_extra.csv`, each with its source.
"""

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_PLACING = ("tolerations", "nodeSelectorTerms")
"""Last keys of the lists that place pods on nodes."""


def rows(prefix: str, value: Any) -> Iterator[tuple[str, str, str]]:
    """Give every path below a value with the kind of its default and, of some, the default as JSON."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from rows(f"{prefix}.{key}" if prefix else str(key), inner)
    else:
        # A map without keys takes any.
        needed = isinstance(value, bool) or (prefix.endswith(_PLACING) and value)
        yield prefix, kind(value), json.dumps(value) if needed else ""


def kind(value: Any) -> str:
    """Name the kind of a default."""
    if value is None:
        return "null"
    for name, types in (("bool", bool), ("number", (int, float)), ("text", str), ("list", list)):
        if isinstance(value, types):
            return name
    return "map"


def main(arguments: list[str]) -> None:
    """Write the rows of every chart given as `chart=file`."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("chart", "path", "default", "value"))
    for argument in arguments:
        chart, _, file = argument.partition("=")
        for row in rows("", yaml.safe_load(Path(file).read_text(encoding="utf-8"))):
            out.writerow((chart, *row))


if __name__ == "__main__":
    main(sys.argv[1:])
