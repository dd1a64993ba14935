"""`gpupools prices LIST… --stack FILE`: make the CSV of `gpupools:prices` from price lists that the clouds publish."""

import argparse
import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from gpupools.catalog.instance_types import InstanceType
from gpupools.cli.help_texts import examples
from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import Problem, Rejected
from gpupools.console.output import tell
from gpupools.providers import clouds
from gpupools.stackfile.reader import read_stack_file
from gpupools.stackfile.stack import plan_config

_MOST = 256 * 2**20
"""Most bytes of a JSON document, which is read as a whole; the CSV of AWS, which is larger, is read line by line."""
_PAGE = "docs/reference/prices.md#from-the-clouds-price-lists"
_Row = tuple[str, str, str, str, str, str]
_Wanted = Mapping[tuple[str, str], InstanceType]  # by name and region


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools prices offers.csv azure.json --stack stacks/Pulumi.dev.yaml > prices.csv")
    parser.add_argument("lists", nargs="+", type=Path, metavar="LIST", help=f"downloaded price list, see {_PAGE}")
    parser.add_argument("--stack", type=Path, required=True, metavar="FILE", help="stack file whose types are priced")
    parser.set_defaults(run=lambda given: _run(given.lists, given.stack))


def _run(lists: Sequence[Path], stack: Path) -> int:
    try:
        file = read_stack_file(stack)
        config = {key: value for key, value in file.config.items() if key not in ("prices", "budget")}
        plan = plan_config(config, clouds(), file.others)
        regions = {key: cluster.region_name() for key, cluster in plan.stack.clusters.items()}
        wanted = {(pool.instance.name, regions[pool.cluster]): pool.instance for pool in plan.pools}
        by_date = sorted((row for path in lists for row in _read(path, wanted)), key=lambda row: row[5])
        rows = sorted({(*row[:2], row[4]): row for row in by_date}.values())
        if len(currencies := sorted({row[3] for row in rows})) > 1:
            what = f"the lists are in {' and '.join(currencies)}"
            raise Rejected([Problem((), what, "download all in one currency")])
    except Rejected as rejected:
        for problem in rejected.problems:
            tell(f"gpupools prices: {problem}", error=True)
        return 1
    missing = sorted(wanted.keys() - {row[:2] for row in rows})
    for name, region in missing:
        where = region or "a region that the stack file does not name"
        tell(f"gpupools prices: no list has a price of {name} in {where}", error=True)
    for each in (("type", "region", "price", "currency", "capacity", "dated"), *rows):
        tell(",".join(each))
    return 3 if missing else 0


def _read(path: Path, wanted: _Wanted) -> Iterator[_Row]:
    what, fix = "is not a price list of AWS, Azure or Google", f"download it as {_PAGE} shows"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            is_offer = file.read(16).startswith('"FormatVersion"')
            file.seek(0)
            if is_offer or path.stat().st_size <= _MOST:
                told: Any = csv.reader(file) if is_offer else json.load(file)
                read = _aws if is_offer else _azure if "Items" in told else _google
                yield from read(told, wanted)
                return
            what, fix = "has more than 256 MiB", f"use the CSV of AWS, and a file for each page of the others: {_PAGE}"
    except OSError as error:
        what, fix = f"cannot be read: {error.strerror}", "use a file"
    except (ValueError, LookupError, TypeError, AttributeError, InvalidOperation, RecursionError, csv.Error):
        pass
    raise Rejected([Problem((str(path),), what, fix)])


_LINUX = {"TermType": "OnDemand", "Tenancy": "Shared", "Operating System": "Linux", "Pre Installed S/W": "NA",
          "CapacityStatus": "Used", "Unit": "Hrs"}  # fmt: skip


def _aws(lines: Iterator[list[str]], wanted: _Wanted) -> Iterator[_Row]:
    """Read a region's offers: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-an-offer.html."""
    about, columns = dict(line[:2] for line in (next(lines, []) for _ in range(5))), next(lines, [])
    names = ("Instance Type", "Region Code", "PricePerUnit", "Currency", *_LINUX)
    type_at, region_at, price_at, currency_at, *kinds_at = map(columns.index, names)
    for line in lines:
        key = (line[type_at], line[region_at])
        if key in wanted and [line[each] for each in kinds_at] == [*_LINUX.values()]:
            price = f"{Decimal(line[price_at]).normalize():f}"
            yield *key, price, line[currency_at], "", about["Publication Date"][:10]


def _azure(told: Any, wanted: _Wanted) -> Iterator[_Row]:
    """Read a page: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices."""
    for item in told["Items"]:
        key, called = (item["armSkuName"], item["armRegionName"]), f"{item['productName']} {item['skuName']}"
        plain = item["type"] == "Consumption" and item["unitOfMeasure"] == "1 Hour"
        if key in wanted and plain and not re.search("Windows|CloudServices|Cloud Services|Low Priority", called):
            kind = "spot" if called.endswith(" Spot") else ""
            price = f"{Decimal(str(item['retailPrice'])):f}"
            yield *key, price, item["currencyCode"], kind, item["effectiveStartDate"][:10]


_PARTS = ("{instance} Instance Core", "{instance} Instance Ram", "Nvidia {gpu} GPU")
"""SKUs of a machine, with words of `google_skus.csv`."""


def _google(told: Any, wanted: _Wanted) -> Iterator[_Row]:
    """Add up cores, memory and GPUs: https://docs.cloud.google.com/billing/docs/reference/rest/v1/services.skus/list."""
    costs: dict[tuple[str, str, str], tuple[Decimal, str, str]] = {}
    for sku in told["skus"]:
        text = re.sub("^Spot Preemptible | attached to Spot Preemptible VMs", "", sku["description"])
        part, _, running = text.partition(" running in ")
        for region in sku["serviceRegions"] if running else ():
            info = sku["pricingInfo"][0]
            price = info["pricingExpression"]["tieredRates"][-1]["unitPrice"]
            amount = Decimal(str(price.get("units", 0))) + Decimal(price.get("nanos", 0)).scaleb(-9)
            found = (amount, price["currencyCode"], info["effectiveTime"][:10])
            costs[part, region, sku["category"]["usageType"]] = found
    for (name, region), machine in wanted.items():
        known = (row for row in data_rows("google_skus.csv") if row["gpu_model"] == machine.gpu_model)
        words = [row for row in known if name.startswith(row["machines"])][:1]
        parts = [part.format(**each) for each in words for part in _PARTS]
        counts = [Decimal(str(each or 0)) for each in (machine.vcpus, machine.memory_gib, float(machine.gpus))]
        for usage, kind in (("OnDemand", ""), ("Preemptible", "spot")):
            each = [costs[part, region, usage] for part in parts if (part, region, usage) in costs]
            if len(each) == len(counts) and all(counts):
                amount = sum((cost[0] * count for cost, count in zip(each, counts, strict=True)), Decimal(0))
                yield name, region, f"{amount.normalize():f}", each[0][1], kind, each[0][2]
