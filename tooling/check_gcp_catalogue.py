"""Compare Google Cloud's `instance_types.csv` with what public Python packages carry about the same machine types.

For maintainers; users never run it. It takes no arguments, prints one line per fact that disagrees and ends with 1
when there is any, with 2 when a package is missing. The packages are read as text, never imported, so their own
dependencies are not needed: `pip install --no-deps gpuhunt skypilot xpk` into any environment is enough.

- gpuhunt (the package of that name): memory per GPU, bundled Local SSD, vCPU limits of N1 with T4 and V100.
- skypilot (the package of that name): GPUs per type, bundled Local SSD, vCPU limits of N1.
- xpk (the package of that name), by Google: accelerator type, GPUs and CPU architecture per type.

None of them carries vCPUs or memory of the accelerator-optimized types; those two columns were compared by hand with
`tools/machinetypes.csv` of Cyclenerd/google-cloud-pricing-cost-calculator, an export of the Compute Engine API.
"""

import ast
import csv
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

CATALOGUE = Path(__file__).parent.parent / "providers" / "gpupools" / "providers" / "gcp" / "instance_types.csv"
LOCAL_SSD_GB = 375
"""Size of one Local SSD outside the A4X series, https://docs.cloud.google.com/compute/docs/disks/local-ssd."""
SKYPILOT_MODELS = {
    "A100": "A100-40GB",
    "A100-80GB": "A100-80GB",
    "B200": "B200",
    "H100": "H100-80GB",
    "H100-MEGA": "H100-80GB",
    "H200": "H200-141GB",
    "K80": "K80",
    "L4": "L4",
    "P100": "P100",
    "P4": "P4",
    "RTXPRO6000": "RTX-PRO-6000",
    "T4": "T4",
    "V100": "V100-16GB",
}
"""skypilot's names of GPU models in ours."""

Row = Mapping[str, str]


class MissingSourceError(Exception):
    """A package, a file of it or a constant in that file is not there."""


@dataclass(frozen=True)
class Package:
    """An installed distribution, read as text."""

    name: str

    @property
    def version(self) -> str:
        """The installed version."""
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            raise MissingSourceError(f"{self.name} is not installed; run pip install --no-deps {self.name}") from None

    def constant(self, file: str, name: str) -> ast.expr:
        """Return the expression that module `file` assigns to `name`."""
        version = self.version
        path = Path(str(metadata.distribution(self.name).locate_file(file)))
        if not path.is_file():
            raise MissingSourceError(f"{self.name} {version} has no file {file}; adapt this script")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in targets):
                return node.value
        raise MissingSourceError(f"{self.name} {version} has no {name} in {file}; adapt this script")


def value(node: ast.expr) -> Any:
    """Evaluate literals, products and calls; a call becomes the tuple of its arguments."""
    if isinstance(node, ast.Dict):
        return {value(key): value(item) for key, item in zip(node.keys, node.values, strict=True) if key is not None}
    if isinstance(node, ast.List | ast.Tuple):
        return tuple(value(item) for item in node.elts)
    if isinstance(node, ast.Call):
        return tuple(value(item) for item in node.args)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return value(node.left) * value(node.right)
    return ast.literal_eval(node)


def disagreement(package: Package, row: Row, column: str, theirs: object) -> Iterator[str]:
    """Yield a line when `row` and `package` differ about `column`; numbers are compared as numbers."""
    ours = row[column]
    same = ours == theirs if isinstance(theirs, str) else bool(ours) and Fraction(ours) == Fraction(str(theirs))
    if not same:
        yield f"{row['instance_type']}: {column} is {ours or 'empty'}, {package.name} {package.version} says {theirs}"


def gpuhunt_disagrees(rows: Mapping[str, Row]) -> Iterator[str]:
    """Compare GPU memory, bundled Local SSD and N1 limits with gpuhunt."""
    package, file = Package("gpuhunt"), "gpuhunt/providers/gcp.py"
    memory_gb = {name: details[1] for name, details in value(package.constant(file, "accelerator_details")).items()}
    fraction_gb = value(package.constant(file, "fractional_g4_gpu_memory"))
    ssd_gb = value(package.constant(file, "local_ssd_sizes_gib"))
    for name, row in rows.items():
        if name in fraction_gb or row["accelerator_type"] in memory_gb:
            theirs = fraction_gb.get(name, memory_gb.get(row["accelerator_type"]))
            yield from disagreement(package, row, "gpu_memory_gib", theirs)
        if name in ssd_gb:
            yield from disagreement(package, row, "local_disk_gb", ssd_gb[name])
    for accelerator, limits in value(package.constant(file, "accelerator_limits")).items():
        for index, (vcpus, _) in enumerate(limits):
            yield from n1_disagrees(package, rows, accelerator, 2**index, vcpus)


def skypilot_disagrees(rows: Mapping[str, Row]) -> Iterator[str]:
    """Compare GPU model and count, bundled Local SSD and N1 limits with skypilot."""
    package = Package("skypilot")
    catalogue = "sky/catalog/gcp_catalog.py"
    for model, counts in value(package.constant(catalogue, "_ACC_INSTANCE_TYPE_DICTS")).items():
        for count, names in counts.items():
            for name in names:
                if name not in rows:
                    yield f"{name}: {package.name} {package.version} has it with {count} {model}, the catalogue has not"
                    continue
                yield from disagreement(package, rows[name], "gpus", count)
                yield from disagreement(package, rows[name], "gpu_model", SKYPILOT_MODELS.get(model, model))
    disks = value(package.constant("sky/provision/gcp/constants.py", "SSD_AUTO_ATTACH_MACHINE_TYPES"))
    for name, count in disks.items():
        if name in rows:
            yield from disagreement(package, rows[name], "local_disk_gb", count * LOCAL_SSD_GB)
    for model, by_count in value(package.constant(catalogue, "_NUM_ACC_TO_MAX_CPU_AND_MEMORY")).items():
        for count, (vcpus, _) in by_count.items():
            yield from n1_disagrees(package, rows, f"nvidia-tesla-{model.lower()}", count, vcpus)


def n1_disagrees(package: Package, rows: Mapping[str, Row], accelerator: str, count: int, vcpus: int) -> Iterator[str]:
    """Check that an N1 row exists and that its default machine is within the vCPU limit of its GPUs."""
    row = rows.get(f"n1+{accelerator}:{count}")
    if row is None:
        yield f"n1+{accelerator}:{count}: {package.name} {package.version} has it, the catalogue has not"
    elif int(row["vcpus"]) > vcpus:
        yield f"{row['instance_type']}: {row['vcpus']} vCPUs are above {package.name} {package.version}'s limit {vcpus}"


def xpk_disagrees(rows: Mapping[str, Row]) -> Iterator[str]:
    """Compare accelerator type, GPU count and architecture with xpk."""
    package = Package("xpk")
    systems = package.constant("xpk/core/system_characteristics.py", "UserFacingNameToSystemCharacteristics")
    for call in systems.values if isinstance(systems, ast.Dict) else []:
        fields = {k.arg: k.value for k in call.keywords} if isinstance(call, ast.Call) else {}
        kind = fields.get("accelerator_type")
        if not (isinstance(kind, ast.Attribute) and kind.attr == "GPU"):
            continue
        name = value(fields["gce_machine_type"])
        if name not in rows:
            yield f"{name}: {package.name} {package.version} has it, the catalogue has not"
            continue
        platform = fields["docker_platform"]
        arm = isinstance(platform, ast.Name) and platform.id == "ARM_PLATFORM"
        yield from disagreement(package, rows[name], "accelerator_type", value(fields["gke_accelerator"]))
        yield from disagreement(package, rows[name], "gpus", value(fields["chips_per_vm"]))
        yield from disagreement(package, rows[name], "architecture", "arm64" if arm else "amd64")


def main() -> int:
    """Print every disagreement; return the exit code."""
    with CATALOGUE.open(newline="", encoding="utf-8") as file:
        rows = {row["instance_type"]: row for row in csv.DictReader(file)}
    try:
        found = [line for check in (gpuhunt_disagrees, skypilot_disagrees, xpk_disagrees) for line in check(rows)]
    except MissingSourceError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(found) if found else f"{len(rows)} rows agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
