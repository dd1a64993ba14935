"""Models of the teams that share the pools of a stack (`gpupools:teams`)."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from gpupools.common.errors import Path
from gpupools.common.model import ConsistentModel
from gpupools.spec.software_spec import Name

Units = Annotated[int, Field(ge=1, le=1_000_000)]

Amount = Annotated[
    Annotated[Units, Tag("<number>")] | Annotated[dict[str, Units], Field(min_length=1, max_length=16), Tag("<map>")],
    Discriminator(lambda value: "<map>" if isinstance(value, dict) else "<number>"),
]
"""Units of a pool's only resource, or a map of MIG profiles to slices."""

PoolOrLabel = Annotated[str, Field(min_length=1, max_length=320)]
"""A pool, with all its steps in their order, or `<label>=<value>` for all pools with this label."""


class Team(ConsistentModel):
    """A team and its share of the pools, on every cluster that has them."""

    namespaces: list[Name] = Field(min_length=1, max_length=64)
    """Namespaces of the team. They must exist. A namespace belongs to one team."""
    guarantee: dict[PoolOrLabel, Amount] = {}
    """Units that the team can always use: pool or `<label>=<value>` → GPUs, or a map of MIG profile → slices.

    Running pods of teams that borrow them are stopped when the team needs them.
    """
    limit: dict[PoolOrLabel, Amount] = {}
    """Maximum units of the team, its guarantee included. Default: all units of the pool that are free."""
    weight: int = Field(default=1, ge=1, le=1000)
    """Share of the free units, compared with the weights of other teams that want them."""
    lends_to: list[Name] | None = Field(default=None, json_schema_extra={"maxItems": 0})
    """`[]`: no team may use this team's guarantee while it is idle. Default: all teams of the pool may."""

    def conflicting_keys(self) -> Iterator[tuple[Path, str]]:
        """Reject a team without a share, limits below the guarantee, and names that are listed twice."""
        if not self.guarantee and not self.limit:
            yield (), "has neither guarantee nor limit; set one of them for each pool that the team may use"
        for key, limit in self.limit.items():
            guarantee = self.guarantee.get(key)
            if isinstance(limit, int) and isinstance(guarantee, int) and limit < guarantee:
                yield ("limit", key), f"{limit} is below the guarantee of {guarantee}; raise it, or lower the guarantee"
        for index, name in enumerate(self.namespaces):
            if name in self.namespaces[:index]:
                yield ("namespaces", index), f"{name!r} is listed twice; list each name once"
        if self.lends_to:
            what = f"got {self.lends_to}, but schedulers lend to all teams of a pool or to none"
            yield ("lends_to",), f"{what}; write [], or leave it out and set limit of the others to their guarantee"
