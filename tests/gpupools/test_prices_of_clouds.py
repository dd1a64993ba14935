"""`gpupools prices`: the clouds' public lists, in the shapes in which they are downloaded, become a team's own list."""

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main

STACK = """
config:
  gpupools:prices: own.csv
  gpupools:budget: {per_hour: 1000}
  gpupools:clusters:
    train: {cloud: aws, name: t, region: us-east-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: 'arn:aws:iam::123456789012:role/gpu-nodes'}
    serve: {cloud: azure, name: s, resource_group: ml, location: westeurope, kubeconfig: {path: ~/.kube/s}}
    lab: {cloud: gcp, name: lab, project: ml-dev, location: europe-west4,
      service_account: g@ml-dev.iam.gserviceaccount.com}
  gpupools:pools:
    a: {clusters: [train], instance_type: g6.xlarge, nodes: {max: 1}}
    b: {clusters: [serve], instance_type: Standard_NC24ads_A100_v4, nodes: {max: 1}}
    c: {clusters: [lab], instance_type: g2-standard-4, nodes: {max: 1}}
"""
HEAD = (
    '"FormatVersion","v1.0"\n"Disclaimer","This pricing list is for informational purposes only."\n'
    '"Publication Date","2026-11-20T18:13:31Z"\n"Version","20261120181331"\n"OfferCode","AmazonEC2"\n'
    '"SKU","OfferTermCode","RateCode","TermType","PriceDescription","EffectiveDate","Unit","PricePerUnit","Currency",'
    '"Instance Type","Tenancy","Operating System","Pre Installed S/W","CapacityStatus","Region Code"\n'
)


def offer(**changes: str) -> str:
    """Return a row of AWS's offer file: by default the Linux price of g6.xlarge on demand."""
    row = {
        "sku": "SKU",
        "code": "JRTCKXETXF",
        "rate": "R",
        "term": "OnDemand",
        "about": "$0.80 per On Demand Linux g6.xlarge, Instance Hour",
        "from": "2026-11-01",
        "unit": "Hrs",
        "price": "0.8048000000",
        "currency": "USD",
        "type": "g6.xlarge",
        "tenancy": "Shared",
        "system": "Linux",
        "installed": "NA",
        "capacity": "Used",
        "region": "us-east-1",
    } | changes
    return ",".join(f'"{each}"' for each in row.values()) + "\n"


AWS = HEAD + "".join(
    [
        offer(system="Windows", price="9"),
        offer(tenancy="Dedicated", price="9"),
        offer(installed="SQL Web", price="9"),
        offer(capacity="UnusedCapacityReservation", price="9"),
        offer(term="Reserved", price="9"),
        offer(type="m7i.large", price="9"),
        offer(),
    ]
)


def item(**changes: Any) -> dict[str, Any]:
    """Return a meter of Azure's retail prices."""
    return {
        "currencyCode": "USD",
        "retailPrice": 4.775,
        "armRegionName": "westeurope",
        "armSkuName": "Standard_NC24ads_A100_v4",
        "productName": "Virtual Machines NCads A100 v4 Series",
        "skuName": "NC24ads A100 v4",
        "type": "Consumption",
        "unitOfMeasure": "1 Hour",
        "effectiveStartDate": "2026-06-01T00:00:00Z",
    } | changes


AZURE = {
    "BillingCurrency": "USD",
    "Items": [
        item(),
        item(skuName="NC24ads A100 v4 Spot", retailPrice=1.5),
        item(skuName="NC24ads A100 v4 Low Priority", retailPrice=9),
        item(productName="Virtual Machines NCads A100 v4 Series Windows", retailPrice=9),
        item(type="Reservation", unitOfMeasure="1 Hour", retailPrice=9),
        item(effectiveStartDate="2025-01-01T00:00:00Z", retailPrice=9),
        item(armRegionName="eastus", retailPrice=9),
    ],
    "NextPageLink": None,
}


def sku(text: str, nanos: int, usage: str = "OnDemand") -> dict[str, Any]:
    """Return a SKU of Google's catalog."""
    price = {"unitPrice": {"currencyCode": "USD", "units": "0", "nanos": nanos}}
    info = {"effectiveTime": "2026-11-01T00:00:00Z", "pricingExpression": {"usageUnit": "h", "tieredRates": [price]}}
    category = {"resourceFamily": "Compute", "usageType": usage}
    return {"description": text, "category": category, "serviceRegions": ["europe-west4"], "pricingInfo": [info]}


GOOGLE = {
    "skus": [
        sku("G2 Instance Core running in Netherlands", 27_000_000),
        sku("G2 Instance Ram running in Netherlands", 3_000_000),
        sku("Nvidia L4 GPU running in Netherlands", 617_000_000),
        sku("Commitment v1: Nvidia L4 GPU running in Netherlands for 1 Year", 1, "Commit1Yr"),
        sku("Spot Preemptible G2 Instance Core running in Netherlands", 10_000_000, "Preemptible"),
        sku("Spot Preemptible G2 Instance Ram running in Netherlands", 1_000_000, "Preemptible"),
        sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Netherlands", 200_000_000, "Preemptible"),
    ],
    "nextPageToken": "",
}


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a stack file and the three lists."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: x\nruntime: python\n", encoding="utf-8")
    (tmp_path / "Pulumi.dev.yaml").write_text(STACK, encoding="utf-8")
    (tmp_path / "aws.csv").write_text(AWS, encoding="utf-8")
    (tmp_path / "azure.json").write_text(json.dumps(AZURE), encoding="utf-8")
    (tmp_path / "google.json").write_text(json.dumps(GOOGLE), encoding="utf-8")
    return tmp_path


def test_three_lists_become_one_that_the_stack_file_takes(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "aws.csv", "azure.json", "google.json", "--stack", "Pulumi.dev.yaml"]) == 0

    made = capsys.readouterr().out
    assert made.splitlines() == [
        "type,region,price,currency,capacity,dated",
        "Standard_NC24ads_A100_v4,westeurope,1.5,USD,spot,2026-06-01",
        "Standard_NC24ads_A100_v4,westeurope,4.775,USD,,2026-06-01",
        # 4 cores, 16 GiB and one GPU: 0.108 + 0.048 + 0.617
        "g2-standard-4,europe-west4,0.256,USD,spot,2026-11-01",
        "g2-standard-4,europe-west4,0.773,USD,,2026-11-01",
        "g6.xlarge,us-east-1,0.8048,USD,,2026-11-20",
    ]
    (lists / "own.csv").write_text(made, encoding="utf-8")
    assert main(["check", "Pulumi.dev.yaml"]) == 0
    assert "not used" not in capsys.readouterr().err


def test_what_no_list_prices_is_said(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices", "azure.json", "--stack", "Pulumi.dev.yaml"]) == 3

    assert capsys.readouterr().err.splitlines() == [
        "gpupools prices: no list has a price of g2-standard-4 in europe-west4",
        "gpupools prices: no list has a price of g6.xlarge in us-east-1",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1]", "other: is not a price list of AWS, Azure or Google; download it as docs/reference/prices.md"),
        ("{", "other: is not a price list"),
        (HEAD.replace("Tenancy", "Renamed"), "other: is not a price list"),
        (json.dumps({"Items": [{}]}), "other: is not a price list"),
        (json.dumps({"Items": [item(currencyCode="EUR")]}), "the lists are in EUR and USD; download all in one"),
    ],
    ids=["a list", "no JSON", "an offer file of another shape", "an item without keys", "another currency"],
)
def test_a_list_of_another_kind_is_one_line(
    text: str, says: str, lists: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (lists / "other").write_text(text, encoding="utf-8")

    assert main(["prices", "aws.csv", "other", "--stack", "Pulumi.dev.yaml"]) == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(says)


def test_a_pipe_without_a_writer_is_no_list(lists: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(lists / "pipe")

    assert main(["prices", "pipe", "--stack", "Pulumi.dev.yaml"]) == 1
    assert "pipe: cannot be read: it is not a regular file" in capsys.readouterr().err


def test_a_large_offer_file_is_not_kept_in_memory(lists: Path) -> None:
    with (lists / "aws.csv").open("a", encoding="utf-8") as file:
        file.write(offer(type="m7i.large") * 60_000)

    tracemalloc.start()
    try:
        main(["prices", "aws.csv", "--stack", "Pulumi.dev.yaml"])
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (lists / "aws.csv").stat().st_size > 10 * 2**20
    assert most < 5 * 2**20
