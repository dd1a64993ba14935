"""Joins Cluster API's machines with the objects that own and bootstrap them. Pure."""

from dataclasses import dataclass, replace
from typing import Any

from gpupools.plan.pool_facts import PoolFacts

BOOTSTRAP = "bootstrap configuration"
"""Stands for the property that an object of machines does not have: its owner names what makes a node of each."""


@dataclass(frozen=True)
class Named:
    """An object that another one names; `UNKNOWN` where that is not known yet."""

    kind: Any
    name: Any
    namespace: Any


@dataclass(frozen=True)
class Owner:
    """A Machine, MachineSet, MachineDeployment or MachinePool, which makes nodes of machines."""

    machine: Named
    bootstrap: Named
    facts: PoolFacts
    """Its own taints."""


def bootstrapped(pool: PoolFacts, owner: Owner, config: PoolFacts | None, kind: str) -> PoolFacts:
    """Add to machines the taints of their owner and of their bootstrap configuration.

    `config` is None where the configuration is not at hand; `kind` is its kind, for messages.
    """
    prefix = f"{BOOTSTRAP} {kind} → "
    where = f"{prefix}{config.where}" if config else BOOTSTRAP
    own = owner.facts
    late = [name for name in pool.unknown if name != BOOTSTRAP]
    late += [f"{prefix}{name}" for name in config.unknown] if config else [BOOTSTRAP]
    late += [where] if own.unknown else []
    return replace(
        pool,
        taints=(*own.taints, *(config.taints if config else ())),
        unknown=tuple(late),
        where=where,
        missing_taint=config.missing_taint if config else pool.missing_taint,
        not_counted=(*own.not_counted, *(config.not_counted if config else ())),
        elsewhere=tuple(one for one in pool.elsewhere if one.property != BOOTSTRAP),
    )
