"""Compare the GPU model and memory of the Azure catalogue with what the package `gpuhunt` knows of Azure's sizes.

For maintainers, after editing `instance_types.csv` of the cloud's folder and whenever gpuhunt has a release; users
never run it and gpuhunt is no dependency of this project. From the repository root, in an environment that has gpuhunt:

    python -m venv /tmp/gpuhunt && /tmp/gpuhunt/bin/pip install 'gpuhunt[azure]'
    /tmp/gpuhunt/bin/python tooling/check_azure_catalogue.py

It takes no arguments, prints one line per fact that differs and a closing count, exits 1 when anything differs and 2
when gpuhunt is missing. gpuhunt (github.com/dstackai/gpuhunt, src/gpuhunt/providers/azure.py) keeps a table of size
patterns with GPU model and GB per device, parts of an A10 included. It has no vCPUs, host memory, InfiniBand or
lifecycle and not every series; sizes it does not know are counted, so that nobody takes them for checked. Those come
from the pages that each row names, and nothing that an ordinary Python package carries could check them.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path

CATALOGUE = Path(str(files("gpupools.providers") / "azure" / "instance_types.csv"))


MODELS = {
    ("A10", 24.0): "A10",
    ("A100", 40.0): "A100-40GB",
    ("A100", 80.0): "A100-80GB",
    ("H100NVL", 94.0): "H100-NVL-94GB",
    ("H200", 141.0): "H200-141GB",
    ("M60", None): "M60",
    ("T4", 16.0): "T4",
    ("V100", 16.0): "V100-16GB",
    ("V100", 32.0): "V100-32GB",
}
"""Our model name by gpuhunt's name and GB of the whole device; a pair that is missing here is reported."""

LookUp = Callable[[str], tuple[str | None, float | None]]


class MissingPackageError(Exception):
    """gpuhunt is not installed in this environment."""


def look_up() -> LookUp:
    """Return gpuhunt's function from an Azure size to GPU name and GB of one device.

    Raises:
        MissingPackageError: gpuhunt, or what it needs for Azure, is not installed.
    """
    try:
        found: LookUp = import_module("gpuhunt.providers.azure").get_gpu_name_memory
    except ImportError as error:
        raise MissingPackageError(f"{error}; run pip install 'gpuhunt[azure]' in a throw-away environment") from None
    return found


def rows() -> list[dict[str, str]]:
    """Return the catalogue's rows."""
    with CATALOGUE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def differences(row: Mapping[str, str], name: str, memory_gb: float | None) -> Iterator[str]:
    """Yield one line per fact on which a row and gpuhunt differ."""
    size = row["instance_type"]
    part = "/" in row["gpus"]
    if part:  # gpuhunt gives the memory of the part; the model's own tells which model it is
        model = next((ours for (theirs, _), ours in MODELS.items() if theirs == name), name)
    else:
        model = MODELS.get((name, memory_gb), f"{name} with {memory_gb} GB")
    if row["gpu_model"] != model:
        yield f"{size}.gpu_model: we say {row['gpu_model']!r}, gpuhunt says {model!r}"
    if memory_gb is not None and float(row["gpu_memory_gib"]) != memory_gb:
        yield f"{size}.gpu_memory_gib: we say {row['gpu_memory_gib']}, gpuhunt says {memory_gb:g}"


def main() -> int:
    """Print every difference; return the exit status."""
    try:
        theirs = look_up()
    except MissingPackageError as error:
        print(error, file=sys.stderr)
        return 2
    found: list[str] = []
    compared = 0
    catalogue = rows()
    for row in catalogue:
        name, memory_gb = theirs(row["instance_type"])
        if name is not None:
            compared += 1
            found.extend(differences(row, name, memory_gb))
    for line in found:
        print(line)
    print(f"{compared} rows compared, {len(found)} differences; {len(catalogue) - compared} rows are not in gpuhunt")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
