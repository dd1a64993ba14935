"""What pools cost per hour, and the budget that they may not exceed."""

import csv
import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main
from gpupools.common.errors import Rejected
from gpupools.plan.prices import PoolPrice, Price, price_change, total
from gpupools.preview.format_preview import price_lines
from gpupools.providers import clouds
from gpupools.stackfile.stack import plan_config, prices_of

PROD = Path(__file__).parents[2] / "stacks" / "Pulumi.prod.yaml"
CLUSTERS: Mapping[str, Mapping[str, Any]] = {
    "aws": {**clouds()["aws"].example_cluster, "region": "us-east-1"},
    "azure": {**clouds()["azure"].example_cluster, "location": "eastus"},
    "gcp": {**clouds()["gcp"].example_cluster, "location": "us-central1"},
}
P5 = {"instance_type": "p5.48xlarge"}
G6 = {"instance_type": "g6.xlarge", "nodes": {"min": 1, "max": 2}}
UNPRICED = P5 | {"capacity": {"mode": "spot"}}
A2 = {"instance_type": "a2-highgpu-1g"}


def config(cloud: str, *pools: Mapping[str, Any], **more: object) -> dict[str, object]:
    """Return a stack with one cluster and these pools."""
    named = {f"p{index}": {"clusters": ["lab"], "nodes": {"max": 4}, **pool} for index, pool in enumerate(pools)}
    return {"clusters": {"lab": CLUSTERS[cloud]}, "pools": named, **more}


def prices(cloud: str, *pools: Mapping[str, Any]) -> list[PoolPrice]:
    """Return the prices of a stack with one cluster and these pools."""
    return prices_of(plan_config(config(cloud, *pools), clouds()), clouds())


def test_a_pool_has_a_price_per_node_gpu_and_slice() -> None:
    """The amounts follow from one list price, with its date."""
    whole, sliced = prices("aws", P5), prices("gcp", A2 | {"sharing": {"mode": "mig", "profile": "1g.5gb"}})

    assert (whole[0].per_gpu, whole[0].per_unit, whole[0].at_max) == (Decimal("6.88"), None, Decimal("220.16"))
    assert whole[0].as_json()["dated"] == "2026-07-20"
    assert sliced[0].unit == "nvidia.com/gpu"
    assert sliced[0].units == 7
    assert sliced[0].per_unit == Decimal("3.67339") / 7


@pytest.mark.parametrize(
    ("cloud", "pool", "usd"),
    [
        pytest.param("gcp", A2, "3.67339", id="with the GPU, not the machine alone"),
        pytest.param("gcp", A2 | {"capacity": {"mode": "spot"}}, "1.92802", id="spot"),
        pytest.param("aws", P5, "55.04", id="not the price of 2025"),
        pytest.param("aws", UNPRICED, None, id="spot without a price"),
        pytest.param("gcp", {"instance_type": "n1+nvidia-tesla-t4:1"}, None, id="GPUs beside the machine"),
    ],
)
def test_a_price_is_of_2026_or_unknown(cloud: str, pool: Mapping[str, Any], usd: str | None) -> None:
    """Known wrong prices of other lists are not taken."""
    (found,) = prices(cloud, pool)

    assert (found.price.amount if found.price is not None else None) == (None if usd is None else Decimal(usd))


def test_no_price_is_zero_or_of_a_type_that_is_wrong_in_2025() -> None:
    """0.0 means unknown in the sources, and p4d, p4de and p5 of 2025 are 39 to 44 % too high."""
    for cloud in clouds().values():
        file = cloud.file("prices.csv")
        assert file is not None
        with file.open(encoding="utf-8") as opened:
            rows = list(csv.DictReader(opened))
        assert all(Decimal(pair.partition("=")[2]) > 0 for row in rows for pair in row["usd_per_hour"].split())
        assert all(row["dated"] and row["source"].startswith("https://") for row in rows)
        assert {row["instance_type"] for row in rows} <= set(cloud.instance_types)
        wrong = [row for row in rows if row["instance_type"].startswith(("p4d", "p5."))]
        assert all(row["dated"] >= "2026" for row in wrong)


def test_a_pool_more_lowers_no_sum_and_unknown_is_no_zero() -> None:
    """Sums only grow, and say how many pools they leave out."""
    pools: list[Mapping[str, Any]] = [UNPRICED, P5, G6, UNPRICED]
    sums = [total(prices("aws", *pools[:count])) for count in range(1, len(pools) + 1)]

    assert [each.known for each in sums] == sorted(each.known for each in sums)
    assert [str(each) for each in sums] == [
        "unknown",
        "≥ $220.16/h; 1 of 2 pools has no price",
        "≥ $221.77/h; 1 of 3 pools has no price",
        "≥ $221.77/h; 2 of 4 pools have no price",
    ]


def test_spot_is_a_sum_of_its_own() -> None:
    """On-demand and spot are not added up, and no nodes cost nothing."""
    *_, last = price_lines(prices("gcp", A2, A2 | {"capacity": {"mode": "spot"}}))

    assert last == "All nodes $14.69/h. All spot nodes $7.71/h. Nodes that always run $0.00/h"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ([P5], [P5], ""),
        ([P5, G6], [G6, P5], ""),
        ([G6], [P5, G6], "cost with all nodes: $220.16/h → $221.77/h (+$1.61/h)"),
        ([P5, G6], [P5], "cost with all nodes: $221.77/h → $220.16/h (−$1.61/h)"),
        ([P5], [P5, UNPRICED], "cost with all nodes: $220.16/h → ≥ $220.16/h; 1 of 2 pools has no price"),
    ],
)
def test_an_edit_adds_or_removes(old: list[Mapping[str, Any]], new: list[Mapping[str, Any]], words: str) -> None:
    """A difference is shown only where both sums are complete."""
    before = [P5] if old == [G6] else old

    assert price_change(prices("aws", *before), prices("aws", *new)) == words


@pytest.mark.parametrize(
    ("budget", "problems"),
    [
        ({"per_hour": 221.77}, []),
        ({"per_hour": 300, "pools": {"lab/p0": 221}}, []),
        (
            {"per_hour": 200},
            [
                (
                    "budget.per_hour: is $200.00/h, but all nodes cost $221.77/h; "
                    "lower nodes.max, first of lab/p0 ($220.16/h), or raise it"
                )
            ],
        ),
        (
            {"pools": {"lab/p0": 220, "lab/p9": 1}},
            ["budget.pools.lab/p9: 'lab/p9' is no pool", "budget.pools.lab/p0: is $220.00/h, but"],
        ),
        ({"per_hour": 0}, ["budget.per_hour: got 0; write an amount per hour as a number above 0"]),
        ({"per_hour": -1}, ["budget.per_hour: got -1; write"]),
        ({"per_hour": "12,5"}, ["budget.per_hour: got '12,5'; write"]),
        ({"per_hour": float("nan")}, ["budget.per_hour: got "]),
        ({"per_hours": 5}, ["budget.per_hours: unknown key; did you mean 'per_hour'?"]),
        ({"unpriced": "no"}, ["budget.unpriced: got 'no'; write allow, or remove it"]),
        (500, ["budget: got 500; write the most per hour"]),
        ({"pools": 5}, ["budget.pools: got 5; write a map"]),
    ],
)
def test_a_budget_is_exceeded_or_invalid(budget: object, problems: list[str]) -> None:
    """More than the budget and what is no budget are rejected, all at once."""
    try:
        plan_config(config("aws", P5, G6, budget=budget), clouds())
        found = []
    except Rejected as rejected:
        found = [str(each) for each in rejected.problems]

    assert len(found) == len(problems)
    assert all(each.startswith(start) for each, start in zip(found, problems, strict=True))


def test_a_budget_is_checked_beside_an_invalid_pool() -> None:
    """One run reports both, with what the valid pools cost alone."""
    invalid = G6 | {"sharing": {"mode": "mig", "profile": "1g.5gb"}}
    with pytest.raises(Rejected) as rejected:
        plan_config(config("aws", P5, invalid, budget={"per_hour": 10, "pools": {"lab/p9": 5}}), clouds())
    told = [str(each).partition(";")[0] for each in rejected.value.problems]

    assert "budget.pools.lab/p9: 'lab/p9' is no pool of this stack" in told
    assert "budget.per_hour: is $10.00/h, but all nodes cost $220.16/h" in told
    assert len(told) == 3


def test_a_pool_without_a_price_fails_a_budget_unless_it_is_allowed() -> None:
    """An unknown price is not zero."""
    with pytest.raises(Rejected, match="cannot be checked: no price is known for lab/p1"):
        plan_config(config("aws", P5, UNPRICED, budget={"per_hour": 500}), clouds())
    plan_config(config("aws", P5, UNPRICED, budget={"per_hour": 500, "unpriced": "allow"}), clouds())


def test_a_price_older_than_a_year_is_marked() -> None:
    """A year to the day is not old."""
    price = Price(Decimal(1), "2025-03-02", "https://example.com/prices")

    assert price.age(date(2026, 3, 2)) == "2025-03-02"
    assert price.age(date(2026, 3, 3)) == "2025-03-02 (old)"


def test_the_tables_of_facts_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each cloud has four tables, with rows, dates and sources."""
    assert main(["catalog", "--sources", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]

    assert {each["cloud"] for each in tables} == set(clouds())
    assert {each["table"] for each in tables} == {"instance_types.csv", "places.csv", "prices.csv", "quotas.csv"}
    assert all(each["rows"] > 0 and each["oldest"] <= each["newest"] and each["sources"] for each in tables)
    assert main(["catalog", "--sources", "--gpu", "L4"]) == 2
    assert "cannot be combined with --sources" in capsys.readouterr().err
    assert main(["catalog", "--sources", "--cloud", "gcp"]) == 0
    assert "prices.csv" in capsys.readouterr().out


def test_the_policy_adds_up_what_the_preview_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The region of EKS pools is that of their component; the sum is the preview's."""
    policies = tmp_path / "policy-config.json"
    policies.write_text('{"gpu-pool-bounded": {"perHour": 443}}')

    assert main(["preview", str(PROD), "--policy-config", str(policies)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "All nodes $443.54/h" in shown
    assert "cost $443.54/h with all nodes, and the budget is $443.00/h" in shown
    policies.write_text('{"gpu-pool-bounded": {"perHour": 444}}')
    assert main(["preview", str(PROD), "--policy-config", str(policies)]) == 0
