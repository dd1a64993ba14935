"""The plan of a cluster's GPU software in the making."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpupools.common.errors import Path, Problem
from gpupools.plan.cloud import Cloud
from gpupools.plan.node_software import NodeRuntime
from gpupools.plan.pool_plan import PoolPlan
from gpupools.plan.software_plan import ContainerImage, KubernetesObject, Release
from gpupools.software.images import Pulls, pulls_of
from gpupools.software.team_shares import TeamShares
from gpupools.spec.software_spec import RuntimeSpec


@dataclass
class Draft:
    """A plan in the making."""

    cluster: str
    cloud: Cloud
    cloud_registry: str
    """Where the cloud keeps its own images for this cluster; empty where no chart asks."""
    spec: RuntimeSpec
    pools: tuple[PoolPlan, ...]
    nodes: Mapping[str, NodeRuntime]
    releases: list[Release] = field(default_factory=list)
    objects: list[KubernetesObject] = field(default_factory=list)
    team_objects: list[KubernetesObject] = field(default_factory=list)
    """Those of the scheduler, also where they are only rendered."""
    order_objects: list[KubernetesObject] = field(default_factory=list)
    """Those with the order of steps, also where they are only rendered."""
    depends: dict[str, set[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    images: list[ContainerImage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    shares: TeamShares = field(default_factory=lambda: TeamShares((), {}, {}))
    """The shares of the teams, once the scheduler is planned."""
    warnings: list[Problem] = field(default_factory=list)
    undecided: set[tuple[str, str]] = field(default_factory=set)
    """Pools and what they need otherwise than another pool of their release: values, pieces."""

    @property
    def pulls(self) -> Pulls:
        """How the pods of the cluster pull their images."""
        return pulls_of(self.spec)

    @property
    def runtime(self) -> str:
        """Path of the cluster's runtime in the stack file, for messages."""
        return f"clusters.{self.cluster}.runtime" if self.cluster else "runtime"

    @property
    def at(self) -> Path:
        """The same as a path."""
        return ("clusters", self.cluster, "runtime") if self.cluster else ("runtime",)

    def served(self, software: str) -> tuple[PoolPlan, ...]:
        """Return the pools of a software."""
        return tuple(pool for pool in self.pools if pool.software == software)

    def refuse(self, what: str, *key: str, fix: str = "leave it out", source: str = "") -> None:
        """Take a problem of a key of the cluster's runtime."""
        self.problems.append(Problem((*self.at, *key), what, fix, source))

    def add(self, planned: KubernetesObject, *after: str) -> str:
        """Take an object that comes after these steps; one of the same name is there already and stays."""
        if planned.name not in self.depends:
            self.objects.append(planned)
        self.depends.setdefault(planned.name, set()).update(after)
        return planned.name
