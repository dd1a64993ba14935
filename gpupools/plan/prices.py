"""What the pools of a stack cost per hour, from each cloud's dated list prices. Pure; asks no cloud.

A cloud's `prices.csv` has one row per instance type, capacity mode, date and source, with `region=price` pairs in US
dollars per hour and machine. Discounts, disks, network and the cluster itself are not in it. A price does not mean that
the cloud offers the type in the region.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from math import isfinite
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import NamedTuple

from gpupools.common.csv_rows import csv_rows
from gpupools.common.errors import Path, Problem, nearest, shown
from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud import Cloud
from gpupools.plan.order import idle_nodes
from gpupools.plan.pool_plan import PoolPlan
from gpupools.spec.models import Cluster, StackPool, got

_PRICED_AS = {"reservation": "on-demand"}
"""Capacity modes with the list price of another. Capacity blocks, flex-start and queued have prices of their own.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-pricing-billing.html,
https://learn.microsoft.com/azure/virtual-machines/capacity-reservation-overview,
https://docs.cloud.google.com/compute/docs/instances/reservations-overview (2026-11)
"""


class Price(NamedTuple):
    """List price of one machine in one region."""

    amount: Decimal
    """Per hour, in `currency`."""
    dated: str
    """Date of the price; empty if a team's own list has none."""
    source: str
    currency: str = "USD"

    def age(self, today: date) -> str:
        """Return the date, marked if it is more than a year ago."""
        if not self.dated:
            return "no date"
        is_old = date.fromisoformat(self.dated) < today - timedelta(days=365)
        return f"{self.dated} (old)" if is_old else self.dated


class PriceList(NamedTuple):
    """A team's own prices, which replace the clouds' list prices."""

    prices: Mapping[tuple[str, str, str], Price] = MappingProxyType({})
    """By instance type, capacity mode and region."""
    currency: str = "USD"
    """Of all figures of the stack: list prices, which are in US dollars, do not apply to a list in another currency."""


class PoolPrice(NamedTuple):
    """What one pool costs per hour; the amounts are None if the price of its machine is not known."""

    key: str
    """`<cluster>/<pool>`."""
    capacity: str
    min_nodes: int
    """Nodes that run while nothing uses the pool, spare nodes included."""
    max_nodes: int
    price: Price | None
    """Of one node."""
    gpus: Decimal
    """Physical GPUs of a node."""
    unit: str
    """Resource that each share or slice is requested as; empty for whole GPUs, and for slices of several sizes."""
    units: int
    """Shares or slices of a node."""
    currency: str = "USD"
    missing_key: str = ""
    """Key of the cluster with the region, if the price is not known because the file does not have it."""

    @property
    def at_min(self) -> Decimal | None:
        """Cost of the nodes that always run, also while nothing uses them; no nodes cost nothing."""
        if not self.min_nodes:
            return Decimal(0)
        return None if self.price is None else self.price.amount * self.min_nodes

    @property
    def at_max(self) -> Decimal | None:
        """Cost of all nodes."""
        return None if self.price is None else self.price.amount * self.max_nodes

    @property
    def per_gpu(self) -> Decimal | None:
        """Cost of one physical GPU."""
        return None if self.price is None else self.price.amount / self.gpus

    @property
    def per_unit(self) -> Decimal | None:
        """Cost of one share or slice."""
        return None if self.price is None or not self.unit else self.price.amount / self.units

    def as_json(self) -> JsonDict:
        """Return the amounts per hour, with currency, date and source."""
        amounts = {"node": self.price.amount if self.price is not None else None, "gpu": self.per_gpu}
        amounts |= {"unit": self.per_unit, "min": self.at_min, "max": self.at_max}
        return {
            "pool": self.key,
            "capacity": self.capacity,
            "currency": self.currency,
            "unit": self.unit or None,
            "per_hour": {name: None if amount is None else round(float(amount), 4) for name, amount in amounts.items()},
            "dated": (self.price.dated or None) if self.price is not None else None,
            "source": self.price.source if self.price is not None else None,
        }


class Total(NamedTuple):
    """A sum over pools, of which some may have no price."""

    known: Decimal
    """Per hour, of the pools with a price."""
    unpriced: int
    pools: int
    currency: str = "USD"

    def __str__(self) -> str:
        if self.unpriced == self.pools:
            return "unknown" if self.pools else per_hour(self.known, self.currency)
        known = per_hour(self.known, self.currency)
        return known if not self.unpriced else f"≥ {known}; {self.missing()}"

    @property
    def monthly(self) -> str:
        """The sum of a month, without what is not known."""
        if self.pools and self.unpriced == self.pools:
            return "unknown"
        number = f"{self.known * _HOURS:,.0f}"
        more = "≥ " if self.unpriced else ""
        return f"{more}${number}/month" if self.currency == "USD" else f"{more}{number} {self.currency}/month"

    def missing(self) -> str:
        """Return how many pools have no price."""
        return f"{self.unpriced} of {self.pools} pools {'has' if self.unpriced == 1 else 'have'} no price"


_HOURS = 730
"""Of a month, as the clouds' calculators count (https://docs.aws.amazon.com/pricing-calculator/latest/userguide/)."""


def per_hour(amount: Decimal, currency: str) -> str:
    """Format an amount: `$12.40/h` or `12.40 EUR/h`, with more digits below 1."""
    number = f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.4f}"
    return f"${number}/h" if currency == "USD" else f"{number} {currency}/h"


def pool_prices(
    plans: Sequence[PoolPlan],
    clusters: Mapping[str, Cluster],
    pools: Mapping[str, StackPool],
    clouds: Mapping[str, Cloud],
    own: PriceList,
) -> list[PoolPrice]:
    """Return what each pool costs per hour by a team's own prices, else by list prices, in the order of the plans."""
    prices = []
    idle = {
        key: idle_nodes([plan for plan in plans if plan.cluster == key])
        for key in dict.fromkeys(plan.cluster for plan in plans)
    }
    for plan in plans:
        capacity = pools[plan.name].capacity.mode
        listed = _prices(clouds[plan.cloud].file("prices.csv")) if own.currency == "USD" else {}
        machine, region = plan.instance.name, clusters[plan.cluster].region_name()
        places = [(machine, kind, region) for kind in (capacity, _PRICED_AS.get(capacity, capacity))]
        price = next((table[place] for table in (own.prices, listed) for place in places if place in table), None)
        shared = bool(plan.sharing.clients or plan.sharing.mig) and len(plan.node_resources) == 1
        gpus = Decimal(plan.instance.gpus.numerator) / plan.instance.gpus.denominator
        resource = next(iter(plan.node_resources)) if shared else ""
        key = f"{plan.cluster}/{plan.name}"
        nodes = (idle[plan.cluster][plan.name], plan.max_nodes)
        missing = "" if region or price else f"clusters.{plan.cluster}.{clusters[plan.cluster].region_key}"
        prices.append(PoolPrice(key, capacity, *nodes, price, gpus, resource, plan.units, own.currency, missing))
    return prices


def total(prices: Sequence[PoolPrice], *, at_max: bool = True) -> Total:
    """Return the sum of a stack with all nodes, or with those that always run."""
    amounts = [price.at_max if at_max else price.at_min for price in prices]
    known = [amount for amount in amounts if amount is not None]
    currency = prices[0].currency if prices else "USD"
    return Total(sum(known, Decimal(0)), len(amounts) - len(known), len(amounts), currency)


def price_change(old: Sequence[PoolPrice], new: Sequence[PoolPrice]) -> str:
    """Return in words what an edit adds or removes per hour with all nodes; empty if no price changes."""
    before, after = total(old), total(new)
    costs = [Counter((price.at_max, price.currency) for price in prices) for prices in (old, new)]
    if costs[0] == costs[1]:  # a pool that is renamed, or moved in the file, costs the same
        return ""
    step = after.known - before.known
    words = f"cost with all nodes: {before} → {after}"
    if before.unpriced or after.unpriced or (before.currency != after.currency and old and new):
        return words
    return f"{words} ({'−' if step < 0 else '+'}{per_hour(abs(step), after.currency)})"


class Budget(NamedTuple):
    """The most that a stack and some of its pools may cost with all nodes per hour, in the currency of its prices."""

    per_hour: Decimal | None = None
    """Of the whole stack; None for no limit."""
    pools: Mapping[str, Decimal] = MappingProxyType({})
    """By `<cluster>/<pool>`."""
    allows_unpriced: bool = False
    """Whether pools without a price are left out of the sum, instead of exceeding the budget."""


_BUDGET_KEYS = ("per_hour", "pools", "unpriced")


def read_budget(config: Mapping[str, object], problems: list[Problem]) -> Budget | None:
    """Return `gpupools:budget`; None if there is none."""
    raw = config.get("budget")
    if raw is None:
        return None
    if not isinstance(raw, Mapping) or not raw:
        problems.append(Problem(("budget",), got(raw), "write the most per hour, such as {per_hour: 500}"))
        return None
    for key in raw:
        if key not in _BUDGET_KEYS:
            problems.append(Problem(("budget", key), "unknown key", nearest(str(key), _BUDGET_KEYS), of_key=True))
    whole = _amount(("budget", "per_hour"), raw["per_hour"], problems) if "per_hour" in raw else None
    given, pools = raw.get("pools", {}), {}
    if isinstance(given, Mapping):
        pools = {key: _amount(("budget", "pools", key), value, problems) for key, value in given.items()}
    else:
        what = f"got {shown(given)}"
        problems.append(Problem(("budget", "pools"), what, "write a map such as {<cluster>/<pool>: 20}"))
    if raw.get("unpriced", "allow") != "allow":
        problems.append(Problem(("budget", "unpriced"), f"got {shown(raw['unpriced'])}", "write allow, or remove it"))
    return Budget(whole, {key: pool for key, pool in pools.items() if pool is not None}, "unpriced" in raw)


def _amount(at: Path, raw: object, problems: list[Problem]) -> Decimal | None:
    if not isinstance(raw, bool) and isinstance(raw, int | float) and isfinite(raw) and raw > 0:
        return Decimal(str(raw))
    problems.append(Problem(at, got(raw), "write an amount per hour as a number above 0, such as 12.5"))
    return None


def over_budget(prices: Sequence[PoolPrice], budget: Budget) -> Iterator[Problem]:
    """Yield a problem for the stack and each pool that cost more than their budget, or have no price."""
    limits: list[tuple[Path, Decimal, Sequence[PoolPrice]]] = []
    if budget.per_hour is not None:
        limits.append((("budget", "per_hour"), budget.per_hour, prices))
    for key, limit in budget.pools.items():
        limits.append((("budget", "pools", key), limit, [price for price in prices if price.key == key]))
    for at, limit, own in limits:
        cost = total(own)
        dearest = max(own, key=lambda pool_price: pool_price.at_max or 0, default=None)
        if cost.known > limit and dearest is not None:
            most = per_hour(dearest.at_max or Decimal(0), cost.currency)
            fix = f"lower nodes.max, first of {dearest.key} ({most}), or raise it"
            yield Problem(at, f"is {per_hour(limit, cost.currency)}, but all nodes cost {cost}", fix)
        elif cost.unpriced and not budget.allows_unpriced:
            missing = ", ".join(price.key for price in own if price.price is None)
            what = f"cannot be checked: no price is known for {missing}"
            keys = dict.fromkeys(price.missing_key for price in own if price.missing_key)
            fix = "add the price to gpupools:prices, or set budget.unpriced: allow to leave these pools out of the sum"
            yield Problem(at, what, f"set {' and '.join(keys)}, by which the price is known" if keys else fix)


def list_price(cloud: Cloud, machine: str, region: str, *, is_spot: bool) -> Decimal | None:
    """Return the list price of a machine in US dollars per hour; None if it is not known."""
    found = _prices(cloud.file("prices.csv")).get((machine, "spot" if is_spot else "on-demand", region))
    return None if found is None else found.amount


@cache
def _prices(file: FilePath | None) -> Mapping[tuple[str, str, str], Price]:
    """Return the prices by instance type, capacity mode and region."""
    prices: dict[tuple[str, str, str], Price] = {}
    for row in csv_rows(file) if file is not None else ():
        for pair in row["usd_per_hour"].split():
            region, _, amount = pair.partition("=")
            prices[row["instance_type"], row["capacity"], region] = Price(Decimal(amount), row["dated"], row["source"])
    return prices
