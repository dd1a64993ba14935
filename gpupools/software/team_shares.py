"""Which units of which pool of a cluster each team gets, and why a stack file's teams cannot have them. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gpupools.common.errors import Path, Problem, nearest, shown
from gpupools.plan.node_resources import KAI_NAMESPACES, KAI_SCHEDULER, node_layouts
from gpupools.plan.order import groups_of
from gpupools.plan.pool_plan import GROUP_LABEL, POOL_LABEL, PoolPlan
from gpupools.software.charts import charts
from gpupools.software.objects import CALICO_NAMESPACES, SMOKE_NAMESPACE
from gpupools.spec.models import Cluster, StackPool
from gpupools.spec.teams import Amount, Team

Unit = tuple[str, str]
"""A pool and a resource of its nodes."""


@dataclass
class Share:
    """What a team may use of one resource of one pool."""

    guarantee: int = 0
    limit: int | None = None
    """Maximum with the guarantee; None for all free units."""


class Lending(NamedTuple):
    """How a scheduler lends the idle units of a guarantee."""

    scheduler: str
    keeps: bool
    """Whether a team can keep its idle guarantee to itself."""
    source: str
    counts_claims: bool = True
    """Whether claims of GPUs count; all schedulers count resources."""


KUEUE_LENDING = Lending("Kueue", True, "https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#borrowinglimit")


class TeamShares(NamedTuple):
    """The shares of all teams of a cluster."""

    pools: tuple[PoolPlan, ...]
    """The cluster's pools."""
    capacity: Mapping[Unit, int]
    """Units with the maximum number of nodes."""
    shares: Mapping[str, Mapping[Unit, Share]]
    """By team; teams without a share on this cluster are omitted."""

    def most(self, team: str, unit: Unit) -> int:
        """Return the maximum of a team's units."""
        share = self.shares[team].get(unit, Share(limit=0))
        return self.capacity[unit] if share.limit is None else share.limit

    def fair_shares(self, weights: Mapping[str, int]) -> dict[str, dict[Unit, int]]:
        """Return the guarantee of each team and its part, by weight, of the units that nobody has a guarantee of."""
        shares = {name: {unit: share.guarantee for unit, share in own.items()} for name, own in self.shares.items()}
        for unit, free in self.free().items():
            given = free
            while given:  # a team that is at its limit leaves its part to the others
                below = [name for name, own in shares.items() if unit in own and own[unit] < self.most(name, unit)]
                total, given = sum(weights[name] for name in below), 0
                for name in below:
                    more = min(free * weights[name] // total, self.most(name, unit) - shares[name][unit])
                    shares[name][unit] += more
                    given += more
                free -= given
        return shares

    def by_group(self) -> "TeamShares":
        """Return the shares with all steps of a pool as one: a job waits in one queue, and starts on any of them."""
        groups = {pool.name: pool.group or pool.name for pool in self.pools}
        capacity: dict[Unit, int] = {}
        for (pool, resource), count in self.capacity.items():
            unit = groups[pool], resource
            capacity[unit] = capacity.get(unit, 0) + count
        found: dict[str, dict[Unit, Share]] = {name: {} for name in self.shares}
        for name, own in self.shares.items():
            for (pool, resource), share in own.items():
                before = found[name].get((groups[pool], resource), Share())
                most = (before.limit or 0) + self.most(name, (pool, resource))
                found[name][groups[pool], resource] = Share(before.guarantee + share.guarantee, most)
        return TeamShares(self.pools, capacity, found)

    def free(self) -> dict[Unit, int]:
        """Return the units that no team has a guarantee of, of the pools that teams use."""
        found = {unit: self.capacity[unit] for own in self.shares.values() for unit in own}
        for own in self.shares.values():
            for unit, share in own.items():
                found[unit] -= share.guarantee
        return found


class TeamRow(NamedTuple):
    """What a team may use of one resource of one pool, for people."""

    team: str
    pool: str
    """`<cluster>/<pool>`."""
    resource: str
    guarantee: int
    limit: int
    """Maximum with the guarantee."""
    weight: int
    all_busy: int
    """What it gets by weight while all teams want all that they may use: its guarantee and a part of the rest."""


def team_rows(pools: Iterable[PoolPlan], teams: Mapping[str, Team]) -> list[TeamRow]:
    """Return the shares of all teams in all clusters, in the order of the file."""
    by_cluster: dict[str, list[PoolPlan]] = {}
    for pool in pools if teams else ():
        by_cluster.setdefault(pool.cluster, []).append(pool)
    rows = []
    for cluster, own in by_cluster.items():
        shares, _ = team_shares(own, teams, cluster)
        fair = shares.fair_shares({name: team.weight for name, team in teams.items()})
        for team, units in shares.shares.items():
            for unit, share in units.items():
                most, weight = shares.most(team, unit), teams[team].weight
                where = (f"{cluster}/{unit[0]}", unit[1])
                rows.append(TeamRow(team, *where, share.guarantee, most, weight, fair[team][unit]))
    return rows


def has_label(key: str, labels: Mapping[str, str]) -> bool:
    """Return whether labels have a `<label>=<value>`."""
    label, _, value = key.partition("=")
    return labels.get(label) == value


def is_of(key: str, pool: str, labels: Mapping[str, str]) -> bool:
    """Return whether a key of a guarantee or limit stands for a pool: its name, that of its group, or a label."""
    return key in (pool, labels.get(GROUP_LABEL)) or ("=" in key and has_label(key, {**labels, POOL_LABEL: pool}))


def pools_of(key: str, pools: Iterable[PoolPlan]) -> list[PoolPlan]:
    """Return the pools that a key of a guarantee or limit stands for."""
    return [pool for pool in pools if is_of(key, pool.name, pool.labels)]


def check_teams(
    teams: Mapping[str, Team],
    pools: Mapping[str, StackPool],
    clusters: Mapping[str, Cluster],
    *,
    all_read: bool,
    all_teams: bool,
) -> Iterator[Problem]:
    """Yield the problems of teams that no capacity decides.

    Args:
        teams: The teams of the stack.
        pools: The valid pools of the stack.
        clusters: The valid clusters of the stack.
        all_read: Whether these are all pools of the file.
        all_teams: Whether these are all teams of the file.
    """
    owners: dict[str, str] = {}
    known = {*pools, *(spec.labels[GROUP_LABEL] for spec in pools.values() if GROUP_LABEL in spec.labels)}
    unshared = {key: own.runtime for key, own in clusters.items() if own.runtime.scheduler == "kueue"}
    reserved = {*KAI_NAMESPACES, *CALICO_NAMESPACES, SMOKE_NAMESPACE, *(chart.namespace for chart in charts().values())}
    reserved |= {software.namespace for own in clusters.values() for software in own.runtime.existing.named().values()}
    for name, team in teams.items():
        at: Path = ("teams", name)
        for index, space in enumerate(team.namespaces):
            first = owners.setdefault(space, name)
            if first != name:
                what = f"{space!r} is also a namespace of team {first}"
                yield Problem((*at, "namespaces", index), what, "remove it from one of the two")
            if space.startswith("kube-") or space in reserved:
                what = f"{space!r} is a namespace of Kubernetes or of the cluster's GPU software"
                yield Problem((*at, "namespaces", index), what, "use a namespace of the team's own")
        given = [("guarantee", key) for key in team.guarantee] + [("limit", key) for key in team.limit]
        for part, key in given:
            named = [pool for pool, spec in pools.items() if is_of(key, pool, spec.labels)]
            if not named and all_read:
                what = f"no pool has the label {shown(key)}" if "=" in key else f"unknown pool {shown(key)}"
                fix = "add it to the labels of a pool, or name pools" if "=" in key else nearest(key, known)
                yield Problem((*at, part, key), what, fix, of_key=True)
            used = {cluster for pool in named for cluster in pools[pool].clusters}
            unshared = {cluster_key: own for cluster_key, own in unshared.items() if cluster_key not in used}
            all_teams = all_teams and bool(named)
            if used and used <= clusters.keys() and not any(clusters[each].runtime.scheduler for each in used):
                what = f"no cluster of {key} has a scheduler, so nothing would enforce it"
                fix = f"set clusters.{min(used)}.runtime.scheduler: kueue"
                yield Problem((*at, part, key), what, fix, of_key=True)
            for pool in named:
                yield from _trust_disagrees(name, team, teams, pool, pools[pool])
    for key, own in unshared.items() if all_read and all_teams else ():
        if own.existing.scheduler is None and own.management == "managed":
            what = "Kueue's webhooks would have to admit pods of nearly every namespace, but no team has a share here"
            yield Problem(("clusters", key, "runtime", "scheduler"), what, "add gpupools:teams, or leave it out")


def _trust_disagrees(name: str, team: Team, teams: Mapping[str, Team], pool: str, spec: StackPool) -> Iterator[Problem]:
    trust, at = spec.trust, ("teams", name, "namespaces")
    if trust is None:
        return
    if trust.namespaces is not None:
        for index, space in enumerate(team.namespaces):
            if space not in trust.namespaces:
                what = f"namespace {space} may not use pool {pool}, whose trust does not list it"
                yield Problem((*at, index), what, f"add it to pools.{pool}.trust.namespaces, or remove the pool here")
    elif trust.team is not None and trust.team != name and trust.team in teams:
        what = f"pool {pool} trusts only team {trust.team}"
        yield Problem(at[:2], what, f"remove the pool from this team, or change pools.{pool}.trust")


@dataclass
class _Resolving:
    """The shares of a cluster in the making."""

    pools: tuple[PoolPlan, ...]
    capacity: dict[Unit, int]
    lending: Lending
    shares: dict[str, dict[Unit, Share]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def of(self, team: str, unit: Unit) -> Share:
        return self.shares.setdefault(team, {}).setdefault(unit, Share())


def team_shares(
    pools: Iterable[PoolPlan], teams: Mapping[str, Team], cluster: str, lending: Lending = KUEUE_LENDING
) -> tuple[TeamShares, list[Problem]]:
    """Return what each team gets of a cluster's pools, and the problems of guarantees and limits."""
    own = tuple(pools)
    capacity = {(pool.name, key): count * pool.max_nodes for pool in own for key, count in pool.countable.items()}
    draft = _Resolving(own, capacity, lending)
    where = f" on {cluster}" if cluster else ""
    wanted = [
        (name, key, profile, count, units)
        for name, team in teams.items()
        for key, amount in team.guarantee.items()
        for profile, count, units in _units(draft, ("teams", name, "guarantee", key), key, amount)
    ]
    left = dict(capacity)
    # Guarantees with the fewest pools choose first, so that labels do not take what a named pool must have.
    for name, key, profile, count, units in sorted(wanted, key=lambda guarantee: len(guarantee[4])):
        rest = count
        for unit in units:
            taken = min(rest, left[unit])
            left[unit] -= taken
            rest -= taken
            draft.of(name, unit).guarantee += taken
        if rest:
            all_units = sum(capacity[unit] for unit in units)
            what = f"got {count}{f' of {profile}' if profile else ''}, but {key} has {all_units} with all nodes{where}"
            what += f", of which {all_units - (count - rest)} are guaranteed to others" if count <= all_units else ""
            fix = "lower a guarantee, or raise nodes.max"
            draft.problems.append(Problem(("teams", name, "guarantee", key), what, fix))
    for name, team in teams.items():
        for key, amount in team.limit.items():
            for _, count, units in _units(draft, ("teams", name, "limit", key), key, amount):
                _limit(draft, name, key, count, units)
    draft.problems += _lent_too_far(draft, teams)
    draft.problems += _quotas_below_guarantees(draft, teams)
    shares = {name: draft.shares[name] for name in teams if name in draft.shares}
    return TeamShares(own, capacity, shares), draft.problems


def _units(draft: _Resolving, at: Path, key: str, amount: Amount) -> Iterator[tuple[str, int, list[Unit]]]:
    """Yield profile, amount and the units that a key of a guarantee or limit stands for on this cluster."""
    named, scheduler = pools_of(key, draft.pools), draft.lending.scheduler
    for group, steps in groups_of(draft.pools).items() if draft.lending is not KUEUE_LENDING else ():
        own = [step.name for step in steps if step in named]
        if own and len(own) < len(steps):
            what = f"a queue of {scheduler} counts what all steps of {group} have, and this is only {', '.join(own)}"
            draft.problems.append(Problem(at, what, f"name {group}", draft.lending.source, of_key=True))
    for pool in named if draft.lending is not KUEUE_LENDING else ():
        if not pool.node_resources and not draft.lending.counts_claims:
            what = f"pods claim the GPUs of {pool.name}, and {scheduler} counts resources"
            fix = "use scheduler: kueue or kai, or software: device-plugin, or remove it here"
            draft.problems.append(Problem(at, what, fix, of_key=True))
        if pool.provider_plan.queued_provisioning():
            what = f"only a ProvisioningRequest starts nodes of {pool.name}, and {scheduler} makes none"
            draft.problems.append(Problem(at, what, "use scheduler: kueue, or another capacity.mode", of_key=True))
    if not named:
        return
    if isinstance(amount, int):
        resources = {resource for pool in named for resource in pool.countable}
        if len(resources) > 1:
            what = f"{key} has several kinds of units: {', '.join(sorted(resources))}"
            fix = "write a count for each MIG profile, such as {1g.10gb: 7}, or name single pools"
            draft.problems.append(Problem(at, what, fix))
            return
        yield "", amount, [(pool.name, resource) for pool in named for resource in pool.countable]
        return
    for profile, count in amount.items():
        units = [(pool.name, slices) for pool in named for slices in [slices_of(pool, profile)] if slices]
        if units:
            yield profile, count, units
        else:
            known = sorted({name for pool in named for name in _profiles(pool)})
            what = f"{key} has no slices of the profile {shown(profile)}"
            draft.problems.append(Problem((*at, profile), what, nearest(profile, known), of_key=True))


def _profiles(pool: PoolPlan) -> dict[str, str]:
    """Return the resource of each MIG profile of a pool."""
    mig = pool.sharing.mig
    if mig is None:
        return {}
    names = {name for layout in node_layouts(pool.instance, mig) for name in layout}
    if mig.naming == "single":
        return dict.fromkeys(names, next(iter(pool.node_resources)))
    by_name = {resource.removesuffix(".shared"): resource for resource in pool.node_resources}
    return {name: found for name in names if (found := by_name.get(f"nvidia.com/mig-{name.replace('+', '.')}"))}


def slices_of(pool: PoolPlan, profile: str) -> str:
    """Return the resource of a pool's slices of a profile; empty for none."""
    return _profiles(pool).get(profile, "")


def _limit(draft: _Resolving, name: str, key: str, count: int, units: Sequence[Unit]) -> None:
    """Set the limits of a team; over several pools, the guarantees first and then the pools in the file's order."""
    own = [draft.of(name, unit) for unit in units]
    at: Path = ("teams", name, "limit", key)
    if any(share.limit is not None for share in own):
        what = f"another key of limit has a pool of {key} too"
        draft.problems.append(Problem(at, what, "keep one of the two", of_key=True))
        return
    rest = count - sum(share.guarantee for share in own)
    if rest < 0:
        what = f"{count} is below the guarantee of {count - rest}"
        draft.problems.append(Problem(at, what, "raise it, or lower the guarantee"))
    for share, unit in zip(own, units, strict=True):
        more = max(0, min(rest, draft.capacity[unit] - share.guarantee))
        share.limit = share.guarantee + more
        rest -= more


def _lent_too_far(draft: _Resolving, teams: Mapping[str, Team]) -> Iterator[Problem]:
    """Yield the teams that lend to nobody, where the limits of the others do not leave their guarantee free."""
    scheduler, keeps, source, _ = draft.lending
    shares = TeamShares(draft.pools, draft.capacity, draft.shares).by_group()
    for name, own in shares.shares.items():
        for unit, share in own.items() if teams[name].lends_to == [] and not keeps else ():
            theirs = sum(shares.most(team, unit) for team in shares.shares if team != name)
            left = shares.capacity[unit] - share.guarantee
            if share.guarantee and theirs > left:
                what = f"the other teams could use {theirs} of {unit[0]} together, but only {left} are not kept for"
                what += f" this team, and {scheduler} lends what is idle"
                fix = f"set limit.{unit[0]} of the others, or remove lends_to"
                yield Problem(("teams", name, "lends_to"), what, fix, source)


def scheduler_name(scheduler: str | None, teams: Mapping[str, Team], pool: PoolPlan) -> str:
    """Return the scheduler that pods of a pool name, so that the shares of the teams bind them; empty for none."""
    shared = any(pools_of(key, [pool]) for team in teams.values() for key in (*team.guarantee, *team.limit))
    return {"kai": KAI_SCHEDULER, "volcano": "volcano"}.get(scheduler or "", "") if shared else ""


def _quotas_below_guarantees(draft: _Resolving, teams: Mapping[str, Team]) -> Iterator[Problem]:
    """Yield the guarantees that a team never reaches, because of the quotas of its namespaces."""
    quotas = {pool.name: pool.trust.quota for pool in draft.pools if pool.trust is not None}
    for name, own in draft.shares.items():
        for (pool, _), share in own.items():
            quota, spaces = quotas.get(pool), len(teams[name].namespaces)
            if quota is not None and share.guarantee > quota * spaces:
                what = f"got {share.guarantee}, but pools.{pool}.trust.quota lets the team's namespaces request"
                what += f" {quota * spaces}"
                yield Problem(("teams", name, "guarantee", pool), what, "raise the quota, or lower the guarantee")
