"""Quotas that the pools of a stack need with all their nodes, from each cloud's dated table. Pure; asks no cloud.

A cloud's `quotas.csv` has one row per quota: patterns of instance types, the capacity modes that count against it,
`family` or `total` (a second limit over all families), its scope, code, name, unit, and where to raise it.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from gpupools.common.errors import Problem, nearest, shown
from gpupools.common.json_types import JsonDict
from gpupools.plan.cloud import Cloud
from gpupools.plan.pool_plan import PoolPlan
from gpupools.spec.identity import place
from gpupools.spec.models import Cluster, StackPool, got

_Row = Mapping[str, str]


class PoolNeed(NamedTuple):
    """What one pool needs of a quota."""

    key: str
    """`<cluster>/<pool>`."""
    instance_type: str
    nodes: int
    """Most nodes of the pool."""
    amount: int | None
    """vCPUs or GPUs; None if not known."""


class QuotaNeed(NamedTuple):
    """What all pools of one account and region need of one quota."""

    cloud: str
    account: str
    """Account, subscription or project; empty if the file does not have it."""
    region: str
    """Region, `all regions`, or `region of <cluster>` if the file does not have it."""
    code: str
    """Code or metric by which the cloud knows the quota; empty if gpupools does not know which one applies."""
    name: str
    unit: str
    """`vCPU` or `GPU`."""
    link: str
    """Where to raise it; empty if that is not known."""
    dated: str
    source: str
    pools: tuple[PoolNeed, ...]

    @property
    def amount(self) -> int:
        """What the pools need in all; those of unknown size are not in it."""
        return sum(pool.amount or 0 for pool in self.pools)

    @property
    def is_complete(self) -> bool:
        """Whether the quota is known, and the need of each pool."""
        return bool(self.code) and all(pool.amount is not None for pool in self.pools)

    def __str__(self) -> str:
        nodes: dict[str, int] = {}
        for pool in self.pools:
            nodes[pool.instance_type] = nodes.get(pool.instance_type, 0) + pool.nodes
        machines = " + ".join(f"{instance_type} × {number}" for instance_type, number in nodes.items())
        where = f"in {self.region}" + (f", account {self.account}" if self.account else "")
        if not self.code:
            return f"{machines}: unknown quota {where}; look for the family of the instance type in the cloud's console"
        return f"{machines}: {self.words} {where}"

    @property
    def words(self) -> str:
        """Amount and name of a known quota: `384 vCPUs of "Running On-Demand P instances" (L-417A185B)`."""
        name = self.code if self.name == self.code else f'"{self.name}" ({self.code})'
        number = f"{self.amount} {self.unit}{'' if self.amount == 1 else 's'}"
        return f"{number if self.is_complete else f'at least {number}'} of {name}"

    def as_json(self) -> JsonDict:
        """Return all fields, with the sum as `amount`, and `complete`."""
        pools = [pool._asdict() for pool in self.pools]
        return self._asdict() | {"amount": self.amount, "complete": self.is_complete, "pools": pools}


def quota_needs(
    plans: Sequence[PoolPlan],
    clusters: Mapping[str, Cluster],
    pools: Mapping[str, StackPool],
    clouds: Mapping[str, Cloud],
) -> list[QuotaNeed]:
    """Return what the pools need at their maximum, per account, region and quota, in the order of the file.

    Nodes that an upgrade starts beside the maximum are not counted.
    """
    found: dict[tuple[str, str, str, str], QuotaNeed] = {}
    for plan in plans:
        cluster, capacity = clusters[plan.cluster], pools[plan.name].capacity.mode
        named, console = place(cluster).get(cluster.account_key), cluster.console_domain()
        account = named if isinstance(named, str) else ""
        for row in _rows(clouds[plan.cloud], plan.instance.name, capacity):
            own_region, code = cluster.region_name() or f"the region of {plan.cluster}", row["code"]
            region = "all regions" if row["scope"] == "global" else own_region
            before = found.get((plan.cloud, account, region, code))
            link = before.link if before is not None else ""
            if console or "{console}" not in row["link"]:
                link = row["link"].format(region=region, account=account, code=code, console=console)
            key, amount = f"{plan.cluster}/{plan.name}", _amount(plan, row)
            need = PoolNeed(key, plan.instance.name, plan.max_nodes, amount)
            found[plan.cloud, account, region, code] = QuotaNeed(
                plan.cloud,
                account,
                region,
                **{field: row[field] for field in ("code", "name", "unit", "dated", "source")},
                link=link,
                pools=(*(before.pools if before is not None else ()), need),
            )
    return list(found.values())


_UNKNOWN: _Row = dict.fromkeys(("scope", "code", "name", "unit", "link", "dated", "source"), "")


def _rows(cloud: Cloud, instance_type: str, capacity: str) -> Iterator[_Row]:
    """Yield the quotas of an instance type; an empty row if that of its family is not known."""
    rows = [
        row
        for row in cloud.rows("quotas.csv")
        if capacity in row["capacity"].split()
        and any(fnmatchcase(instance_type, pattern) for pattern in row["instance_types"].split())
    ]
    if not any(row["of"] == "family" for row in rows):
        yield _UNKNOWN
    yield from rows


def known_quotas(cloud: Cloud) -> list[str]:
    """Return the codes of the quotas of a cloud."""
    return list(dict.fromkeys(row["code"] for row in cloud.rows("quotas.csv")))


def _amount(plan: PoolPlan, row: _Row) -> int | None:
    per_node = plan.instance.devices if row["unit"] == "GPU" else plan.instance.vcpus if row["unit"] else None
    return None if per_node is None else per_node * plan.max_nodes


def read_limits(
    config: Mapping[str, object], clouds: Mapping[str, Cloud], problems: list[Problem]
) -> Mapping[str, int]:
    """Return `gpupools:quotas`: codes of quotas and their limits, per account and region."""
    raw = config.get("quotas", {})
    if not isinstance(raw, Mapping):
        problems.append(Problem(("quotas",), got(raw), "write a map of codes and limits, such as {L-417A185B: 768}"))
        return {}
    known = {code for cloud in clouds.values() for code in known_quotas(cloud)} if raw else set()
    limits: dict[str, int] = {}
    for code, limit in raw.items():
        at = ("quotas", code)
        if code not in known:
            problems.append(Problem(at, f"unknown quota {shown(code)}", nearest(str(code), known), of_key=True))
        elif isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            problems.append(Problem(at, got(limit), "write the limit as a whole number of vCPUs or GPUs, such as 768"))
        else:
            limits[code] = limit
    return limits


def exceeded(needs: Sequence[QuotaNeed], limits: Mapping[str, int]) -> Iterator[Problem]:
    """Yield a problem for each quota of which the pools need more than its limit."""
    for need in needs:
        limit = limits.get(need.code)
        if limit is not None and need.amount > limit:
            pools = ", ".join(dict.fromkeys(pool.key for pool in need.pools))
            where = f" at {need.link}" if need.link else ""
            fix = f"raise it{where} and write the new limit here, or lower nodes.max of {pools}"
            yield Problem(("quotas", need.code), f"is {limit}, but the pools need more: {need}", fix, need.source)
