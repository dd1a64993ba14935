"""Compare the AWS catalogue with EC2's own instance data, as the package `moto` ships it.

For maintainers, after editing `*.csv` of the cloud's folder and whenever moto has a release; users never run it and
moto is no dependency of this project. From the repository root, in an environment that has moto:

    python -m venv /tmp/moto && /tmp/moto/bin/pip install moto && /tmp/moto/bin/python tooling/check_aws_catalogue.py

It takes no arguments, prints one line per fact that differs and a closing count, and exits 1 when anything differs.
moto refreshes `moto/ec2/resources/instance_types.json.gz` (github.com/getmoto/moto) from DescribeInstanceTypes. That
file has no types that EC2 describes to holders of a reservation only, and none that EC2 retired: rows that name another
source are skipped and counted, so that nobody takes them for checked.
"""

import csv
import gzip
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "providers" / "gpupools" / "providers" / "aws"
SOURCE = "getmoto/moto moto/ec2/resources/instance_types.json.gz"

MODELS = {
    ("A100", 40960): "A100-40GB",
    ("A100", 81920): "A100-80GB",
    ("A10G", 22888): "A10G",
    ("B200", 183359): "B200",
    ("B300", 275040): "B300",
    ("H100", 81920): "H100-80GB",
    ("H200", 144384): "H200-141GB",
    ("L4", 22888): "L4",
    ("L4", 11444): "L4",
    ("L4", 5722): "L4",
    ("L4", 2861): "L4",
    ("L40S", 45776): "L40S",
    ("RTX PRO 4500", 32768): "RTX-PRO-4500",
    ("RTX PRO Server 6000", 98304): "RTX-PRO-6000",
    ("T4", 16384): "T4",
    ("T4g", 16384): "T4G",
    ("V100", 16384): "V100-16GB",
    ("V100", 32768): "V100-32GB",
}
"""Our model name by EC2's name and MiB per device; a pair that is missing here is reported, never guessed."""

OTHER_ACCELERATORS = ("FpgaInfo", "InferenceAcceleratorInfo", "MediaAcceleratorInfo", "NeuronInfo")
"""The parts of an instance type's description that mean an accelerator which is no GPU."""


def described_types() -> Mapping[str, Mapping[str, Any]]:
    """Return EC2's description of every instance type, by name.

    Raises:
        SystemExit: moto is not installed here.
    """
    moto = importlib.util.find_spec("moto")  # importing it would need boto3 and the services it stands in for
    if moto is None or moto.origin is None:
        raise SystemExit("moto is not installed in this environment; run pip install moto in a throw-away one")
    packed = (Path(moto.origin).parent / "ec2/resources/instance_types.json.gz").read_bytes()
    types: dict[str, dict[str, Any]] = json.loads(gzip.decompress(packed))
    return types


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of one of the catalogue's files."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def gpu_manufacturers(described: Mapping[str, Any]) -> set[str]:
    """Return who made the GPUs of an instance type; empty for a type without."""
    return {gpu["Manufacturer"] for gpu in described.get("GpuInfo", {}).get("Gpus", [])}


def as_row(described: Mapping[str, Any]) -> dict[str, str]:
    """Write EC2's description of an NVIDIA type the way our columns do."""
    (gpu,) = described["GpuInfo"]["Gpus"]
    memory_mib = gpu["MemoryInfo"]["SizeInMiB"]
    # A fractional type says Count 0 and how large a part of the GPU it has.
    gpus = Fraction(gpu["Count"]) or Fraction(gpu["GpuPartitionSize"]).limit_denominator(64)
    efa = described["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces")
    return {
        "gpu_model": MODELS.get((gpu["Name"], memory_mib), f"{gpu['Name']} with {memory_mib} MiB"),
        "gpus": str(gpus),
        "gpu_memory_gib": decimal(memory_mib / 1024),
        "vcpus": str(described["VCpuInfo"]["DefaultVCpus"]),
        "memory_gib": decimal(described["MemoryInfo"]["SizeInMiB"] / 1024),
        "architecture": "arm64" if "arm64" in described["ProcessorInfo"]["SupportedArchitectures"] else "amd64",
        "rdma": "efa" if efa else "",
        "rdma_interfaces": str(efa) if efa else "",
        "local_disk_gb": str(described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)),
        "lifecycle": "current" if described["CurrentGeneration"] else "previous-generation",
    }


def decimal(value: float) -> str:
    """Write a number with at most two decimals and none that say nothing."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def differences(types: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line per fact on which the catalogue and EC2 differ."""
    catalogue = {row["instance_type"]: row for row in rows("instance_types.csv")}
    patterns = [row["pattern"] for row in rows("other_accelerators.csv")]
    for name, row in catalogue.items():
        if row["source"] != SOURCE:
            continue
        if name not in types:
            yield f"{name}: EC2 does not describe it; mark it retired and name the source that says so"
            continue
        for column, theirs in as_row(types[name]).items():
            if row[column] != theirs:
                yield f"{name}.{column}: we say {row[column]!r}, EC2 says {theirs!r}"
    for name, described in types.items():
        makers = gpu_manufacturers(described)
        listed = any(fnmatchcase(name, pattern) for pattern in patterns)
        if makers == {"NVIDIA"}:
            if name not in catalogue:
                yield f"{name}: EC2 has it and instance_types.csv does not"
            elif catalogue[name]["source"] != SOURCE:
                yield f"{name}: EC2 describes it, so its source is {SOURCE}"
            if listed:
                yield f"{name}: has NVIDIA GPUs but matches other_accelerators.csv"
        elif not listed and (makers or any(part in described for part in OTHER_ACCELERATORS)):
            yield f"{name}: has an accelerator that no pattern of other_accelerators.csv covers"


def main() -> int:
    """Print every difference; return the exit status."""
    found = list(differences(described_types()))
    for line in found:
        print(line)
    sources = [row["source"] for row in rows("instance_types.csv")]
    unchecked = sum(source != SOURCE for source in sources)
    print(f"{len(sources) - unchecked} rows compared, {len(found)} differences; {unchecked} rows have another source")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
