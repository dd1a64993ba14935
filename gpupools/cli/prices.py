"""`gpupools prices LIST… --stack FILE`: make the CSV of `gpupools:prices` from price lists that the clouds publish."""

import argparse
import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from operator import itemgetter
from pathlib import Path
from typing import Any

from gpupools.catalog.instance_types import InstanceType
from gpupools.cli.help_texts import examples
from gpupools.common.csv_rows import data_rows
from gpupools.common.errors import Problem, Rejected
from gpupools.common.input_files import read_bytes, require_regular
from gpupools.console.output import tell
from gpupools.plan.prices import Price
from gpupools.providers import clouds
from gpupools.stackfile.reader import read_stack_file
from gpupools.stackfile.stack import plan_config

_PAGE = "docs/reference/prices.md#from-the-clouds-price-lists"
_Row = tuple[str, str, str, str, str, str]
_Wanted = Mapping[tuple[str, str], InstanceType]  # by name and region


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = examples("gpupools prices offers.csv azure.json --stack stacks/Pulumi.dev.yaml > prices.csv")
    parser.add_argument("lists", nargs="+", type=Path, metavar="LIST", help=f"downloaded price list, see {_PAGE}")
    parser.add_argument("--stack", type=Path, required=True, metavar="FILE", help="stack file whose types are priced")
    parser.set_defaults(run=lambda given: _exit_status(given.lists, given.stack))


def _exit_status(lists: Sequence[Path], stack: Path) -> int:
    file = read_stack_file(stack)
    plan = plan_config({**file.config, "budget": None}, clouds(), file.others)
    clusters = plan.stack.clusters
    wanted = {(pool.instance.name, clusters[pool.cluster].region_name()): pool.instance for pool in plan.pools}
    by_date = sorted((row for path in lists for row in _read(path, wanted)), key=lambda row: row[5])
    rows = sorted({(*row[:2], row[4]): row for row in by_date}.values())
    if len(currencies := sorted({row[3] for row in rows})) > 1:
        what = f"the lists are in {' and '.join(currencies)}"
        raise Rejected([Problem((), what, "download all in one currency")])
    missing = sorted(wanted.keys() - {row[:2] for row in rows})
    for name, region in missing:
        where = region or "a region that the stack file does not name"
        tell(f"gpupools prices: no list has a price of {name} in {where}", error=True)
    for line in (("type", "region", "price", "currency", "capacity", "dated"), *rows):
        tell(",".join(line))
    return 3 if missing else 0


def _read(path: Path, wanted: _Wanted) -> Iterator[_Row]:
    try:
        require_regular(path)
        with path.open(encoding="utf-8-sig", newline="") as file:
            if file.read(16).startswith('"FormatVersion"'):
                file.seek(0)
                yield from _aws(csv.reader(file), wanted)
                return
        told = json.loads(read_bytes(path, 256 * 2**20))  # as a whole, unlike the CSV of AWS, which is larger
        yield from (_azure if "Items" in told else _google)(told, wanted)
    except OSError as error:
        what, fix = f"cannot be read: {error.strerror}", f"use a file for each page, as {_PAGE} shows"
        raise Rejected([Problem((str(path),), what, fix)]) from None
    except (ValueError, LookupError, TypeError, AttributeError, InvalidOperation, RecursionError, csv.Error):
        what, fix = "is not a price list of AWS, Azure or Google", f"download it as {_PAGE} shows"
        raise Rejected([Problem((str(path),), what, fix)]) from None


_LINUX = {"TermType": "OnDemand", "Tenancy": "Shared", "Operating System": "Linux", "Pre Installed S/W": "NA",
          "CapacityStatus": "Used", "Unit": "Hrs"}  # fmt: skip


def _aws(lines: Iterator[list[str]], wanted: _Wanted) -> Iterator[_Row]:
    """Read a region's offers: https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/reading-an-offer.html."""
    about, columns = dict(line[:2] for line in (next(lines, []) for _ in range(5))), next(lines, [])
    read = itemgetter(*map(columns.index, ("Instance Type", "Region Code", "PricePerUnit", "Currency", *_LINUX)))
    for name, region, price, currency, *kind in map(read, lines):
        if (name, region) in wanted and kind == [*_LINUX.values()]:
            yield name, region, f"{Decimal(price).normalize():f}", currency, "", about["Publication Date"][:10]


def _azure(told: Any, wanted: _Wanted) -> Iterator[_Row]:
    """Read a page: https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices."""
    for item in told["Items"]:
        key, called = (item["armSkuName"], item["armRegionName"]), f"{item['productName']} {item['skuName']}"
        plain = item["type"] == "Consumption" and item["unitOfMeasure"] == "1 Hour"
        if key in wanted and plain and not re.search("Windows|Cloud ?Services|Low Priority", called):
            price, kind = f"{Decimal(str(item['retailPrice'])):f}", "spot" if called.endswith(" Spot") else ""
            yield *key, price, item["currencyCode"], kind, item["effectiveStartDate"][:10]


def _google(told: Any, wanted: _Wanted) -> Iterator[_Row]:
    """Add up cores, memory and GPUs: https://docs.cloud.google.com/billing/docs/reference/rest/v1/services.skus/list."""
    parts, costs = {cell for row in data_rows("google_skus.csv") for cell in row.values()}, {}
    for sku in told["skus"]:
        part = re.sub("^Spot Preemptible | attached to Spot Preemptible VMs| running in .*", "", sku["description"])
        for region in sku["serviceRegions"] if part in parts else ():
            info = sku["pricingInfo"][0]
            price = info["pricingExpression"]["tieredRates"][-1]["unitPrice"]
            amount = Decimal(str(price.get("units", 0))) + Decimal(price.get("nanos", 0)).scaleb(-9)
            cost = Price(amount, info["effectiveTime"][:10], sku["description"], price["currencyCode"])
            costs[region, sku["category"]["usageType"], part] = cost
    for (name, region), machine in wanted.items():
        known = (row for row in data_rows("google_skus.csv") if row["gpu_model"] == machine.gpu_model)
        skus = next((row for row in known if name.startswith(row["machines"])), {"core": "", "memory": "", "gpu": ""})
        counts = (("core", machine.vcpus), ("memory", machine.memory_gib), ("gpu", float(machine.gpus)))
        for usage, kind in (("OnDemand", ""), ("Preemptible", "spot")):
            pairs = [(costs.get((region, usage, skus[part])), Decimal(str(count or 0))) for part, count in counts]
            priced = [(cost, count) for cost, count in pairs if cost is not None and count]
            if len(priced) == len(counts):
                cost = priced[0][0]._replace(amount=sum((cost.amount * count for cost, count in priced), Decimal(0)))
                yield name, region, f"{cost.amount.normalize():f}", cost.currency, kind, cost.dated
