"""Read the dated tables of places, prices and quotas again from their sources, and print what differs.

For maintainers; `.github/workflows/tables.yml` runs it once a month. Users never run it, and the sources are no
dependencies of this project. It needs a folder with the sources: checkouts of GitHub repositories as `<owner>/<name>`,
and Python packages as `pip install --no-deps --target <folder> …` leaves them:

    python tooling/check_tables.py SOURCES

It prints one line per fact that differs, and per source that is missing. Exit code 1 if anything differs, 2 if no
source is there. It shares no code with the readers of the product, so that it finds their mistakes too.
"""

import csv
import gzip
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

CLOUDS = Path(__file__).resolve().parent.parent / "providers" / "gpupools" / "providers"
AWS_PRICES = "aws/karpenter-provider-aws/pkg/providers/pricing"
AZURE = "Azure/karpenter-provider-azure/pkg/providers"
GCP_PRICES = "cloudpilot-ai/karpenter-provider-gcp/pkg/providers/pricing/initial-prices.json"
GCP_PLACES = "skypilot-org/skypilot-catalog/catalogs/v8/gcp/vms.csv"
GCP_QUOTAS = "GoogleCloudPlatform/cluster-toolkit/pkg/validators/quota.go"
OFFERINGS = "moto/ec2/resources/instance_type_offerings/region"

Facts = Mapping[str, object]
Difference = tuple[str, object, object]


def table(cloud: str, name: str) -> list[dict[str, str]]:
    """Return the rows of one of our tables."""
    with (CLOUDS / cloud / name).open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def our_prices(cloud: str, source: str) -> dict[str, float]:
    """Return our prices of one source, by type, capacity and region."""
    return {
        f"{row['instance_type']} {row['capacity']} {pair.split('=')[0]}": float(pair.split("=")[1])
        for row in table(cloud, "prices.csv")
        if source in row["source"]
        for pair in row["usd_per_hour"].split()
    }


def our_places(cloud: str) -> dict[str, list[str]]:
    """Return our places, by the first column."""
    return {row["instance_type"]: sorted(row["places"].split()) for row in table(cloud, "places.csv")}


def go_prices(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield region, type and price of a generated map in Go."""
    region = ""
    for word in re.finditer(r'(?m)^\s*"([a-z0-9-]+)": \{|\["([a-z0-9]+)"\] = |"([A-Za-z0-9_.-]+)":\s+([0-9.]+)', text):
        region = word[1] or word[2] or region
        if word[3]:
            yield region, word[3], float(word[4])


def aws_prices(sources: Path) -> Iterator[Difference]:
    """Compare the prices of 2026; those of 2025 are of a release that does not change."""
    theirs = {
        f"{name} on-demand {region}": price
        for file in sorted((sources / AWS_PRICES).glob("zz_generated.pricing_aws*.go"))
        for region, name, price in go_prices(file.read_text(encoding="utf-8"))
    }
    types = {row["instance_type"] for row in table("aws", "instance_types.csv")}
    # Prices in China are in a currency that the source does not name.
    theirs = {key: value for key, value in theirs.items() if key.split()[0] in types and " cn-" not in key}
    yield from differences(our_prices("aws", "karpenter-provider-aws"), theirs)


def old_aws_prices(sources: Path) -> Iterator[Difference]:
    """Compare the prices of 2025; the table leaves out those that are known to be wrong."""
    listed = json.loads((sources / "libcloud/data/pricing.json").read_text(encoding="utf-8"))["compute"]["ec2_linux"]
    theirs = {f"{name} on-demand {region}": price for name, value in listed.items() for region, price in value.items()}
    ours = our_prices("aws", "apache-libcloud")
    yield from differences(ours, {key: theirs.get(key) for key in ours})


def azure_prices(sources: Path) -> Iterator[Difference]:
    """Compare all prices of our sizes."""
    text = (sources / AZURE / "pricing/zz_generated.pricing.go").read_text(encoding="utf-8")
    types = {row["instance_type"] for row in table("azure", "instance_types.csv")}
    # Prices in China, as above.
    theirs = {
        f"{name} on-demand {region}": price
        for region, name, price in go_prices(text)
        if name in types and not region.startswith("china")
    }
    yield from differences(our_prices("azure", "karpenter-provider-azure"), theirs)


def azure_regions(sources: Path) -> Iterator[Difference]:
    """Compare the regions, which are the keys of the price list."""
    text = (sources / AZURE / "pricing/zz_generated.pricing.go").read_text(encoding="utf-8")
    # The list has the public cloud alone.
    own = our_places("azure")["*"]
    yield from differences({}, {region: "a region" for region, _, _ in go_prices(text) if region not in own})


def azure_quotas(sources: Path) -> Iterator[Difference]:
    """Compare the quota family of each size."""
    text = (sources / AZURE / "instancetype/known_skus.yaml").read_text(encoding="utf-8")
    families = dict(re.findall(r"- name: (\S+)\n\s+family: (.+)", text))
    rows = [row for row in table("azure", "quotas.csv") if row["of"] == "family" and "*" not in row["instance_types"]]
    ours = {size: row["code"] for row in rows for size in row["instance_types"].split()}
    yield from differences(ours, {size: families.get(size, "").strip() or None for size in ours})


def gcp_prices(sources: Path) -> Iterator[Difference]:
    """Compare on-demand and spot prices of our machine types; 0 means unknown."""
    listed = json.loads((sources / GCP_PRICES).read_text(encoding="utf-8"))["prices"]
    types = {row["instance_type"] for row in table("gcp", "instance_types.csv")}
    theirs = {
        f"{name} {capacity} {region}": price
        for region, kinds in listed.items()
        for capacity, key in (("on-demand", "on_demand"), ("spot", "spot"))
        for name, price in kinds[key].items()
        if name in types and price
    }
    yield from differences(our_prices("gcp", "karpenter-provider-gcp"), theirs)


def gcp_regions(sources: Path) -> Iterator[Difference]:
    """Compare the regions, which are the keys of the price list."""
    listed = json.loads((sources / GCP_PRICES).read_text(encoding="utf-8"))["prices"]
    yield from differences({"regions": our_places("gcp")["*"]}, {"regions": sorted(listed)})


def gcp_places(sources: Path) -> Iterator[Difference]:
    """Compare the zones of each machine type that the table has."""
    theirs: dict[str, set[str]] = {}
    with (sources / GCP_PLACES).open(encoding="utf-8", newline="") as opened:
        for row in csv.DictReader(opened):
            theirs.setdefault(row["InstanceType"], set()).add(row["AvailabilityZone"])
    ours = our_places("gcp")
    yield from differences(
        {key: place for key, place in ours.items() if key in theirs},
        {key: sorted(theirs[key]) for key in ours if key in theirs},
    )


def gcp_quotas(sources: Path) -> Iterator[Difference]:
    """Compare the metrics that the source writes out."""
    named = set(re.findall(r'"(NVIDIA_[A-Z0-9_]+_GPUS)"', (sources / GCP_QUOTAS).read_text(encoding="utf-8")))
    ours = {row["code"] for row in table("gcp", "quotas.csv")}
    yield from differences({}, dict.fromkeys(named - ours, "a metric"))


def aws_places(sources: Path) -> Iterator[Difference]:
    """Compare the regions of each type; a type that the source lacks is not covered, which is no difference."""
    theirs: dict[str, set[str]] = {}
    for file in sorted((sources / OFFERINGS).glob("*.json*")):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for load in json.loads(data):
            theirs.setdefault(load["InstanceType"], set()).add(file.name.partition(".")[0])
    types = {row["instance_type"] for row in table("aws", "instance_types.csv")}
    ours = {key: place for key, place in our_places("aws").items() if key not in ("*", "covered")}
    yield from differences(ours, {key: sorted(value) for key, value in theirs.items() if key in types})


def aws_regions(sources: Path) -> Iterator[Difference]:
    """Compare the regions of all partitions that customers can have."""
    partitions = json.loads((sources / "botocore/data/endpoints.json").read_text(encoding="utf-8"))["partitions"]
    listed = sorted(region for partition in partitions for region in partition["regions"])
    yield from differences({"regions": our_places("aws")["*"]}, {"regions": listed})


def differences(ours: Facts, theirs: Facts) -> Iterator[Difference]:
    """Yield what is in one of two maps only, or differs; prices are equal to five digits."""
    for key in sorted({*ours, *theirs}):
        one, other = ours.get(key), theirs.get(key)
        if isinstance(one, float) and isinstance(other, int | float):
            if abs(one - other) > 1e-5 * max(one, 1):
                yield key, one, other
        elif one != other:
            yield key, one, other


CHECKS = {
    "aws/places.csv, regions": (aws_regions, "botocore/data/endpoints.json"),
    "aws/places.csv, offers": (aws_places, OFFERINGS),
    "aws/prices.csv of 2026": (aws_prices, AWS_PRICES),
    "aws/prices.csv of 2025": (old_aws_prices, "libcloud/data/pricing.json"),
    "azure/places.csv": (azure_regions, AZURE),
    "azure/prices.csv": (azure_prices, AZURE),
    "azure/quotas.csv": (azure_quotas, AZURE),
    "gcp/places.csv, regions": (gcp_regions, GCP_PRICES),
    "gcp/places.csv, offers": (gcp_places, GCP_PLACES),
    "gcp/prices.csv": (gcp_prices, GCP_PRICES),
    "gcp/quotas.csv": (gcp_quotas, GCP_QUOTAS),
}


def main(arguments: list[str]) -> int:
    """Print the differences of each table; return 1 if there are some, 2 if no source is there."""
    if len(arguments) != 1:
        print("usage: check_tables.py FOLDER-WITH-SOURCES", file=sys.stderr)
        return 2
    sources, found, compared = Path(arguments[0]), 0, 0
    for name, (check, source) in CHECKS.items():
        if not (sources / source).exists():
            print(f"{name}: not compared, {source} is missing")
            continue
        compared += 1
        own = list(check(sources))
        found += len(own)
        for key, one, other in own:
            print(f"{name}: {key}: {shown(one)}, the source has {shown(other)}")
        print(f"{name}: {len(own)} differences")
    return 2 if not compared else 1 if found else 0


def shown(value: object) -> str:
    """Format one side of a difference."""
    return " ".join(map(str, value)) if isinstance(value, list) else "nothing" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
