"""Looks at live clusters until their pools are ready."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gpupools.common.errors import Problem
from gpupools.plan.cloud import Cloud
from gpupools.ready.live_cluster import Access, ClusterApi, Unreachable, read_snapshot
from gpupools.ready.pool_status import PoolStatus, judge
from gpupools.ready.promises import Promise
from gpupools.spec.models import Cluster

INTERVAL_S = 5.0
"""Between two looks; longer if a look takes long, so that large clusters are not read all the time."""


@dataclass
class Watch:
    """Looks at the clusters of some pools."""

    wanted: Sequence[Promise]
    clusters: Mapping[str, Cluster]
    clouds: Mapping[str, Cloud]
    access: Callable[[str], Access]
    """Returns how a cluster is reached."""
    file: str
    """The stack file, for commands."""
    apis: dict[str, ClusterApi] = field(default_factory=dict)
    statuses: dict[str, list[PoolStatus]] = field(default_factory=dict)
    """The last that was seen of each cluster."""
    problems: dict[str, Problem] = field(default_factory=dict)
    now: datetime | None = None
    """The time of the last server."""

    @property
    def found(self) -> list[PoolStatus]:
        """The pools that were seen."""
        return [pool for pools in self.statuses.values() for pool in pools]

    @property
    def is_ready(self) -> bool:
        """Whether all pools are."""
        return bool(self.found) and not self.problems and all(status.is_ready for status in self.found)

    @property
    def code(self) -> int:
        """0: all pools are ready. 1: a pool is not. 2: no cluster was seen. 3: not all that matters was seen."""
        if self.is_ready or not self.found:
            return 0 if self.is_ready else 2
        return 1 if any(status.state == "not ready" for status in self.found) else 3

    def looks(self, timeout_s: float, *, stays: bool = False) -> Iterator[bool]:
        """Look until the pools are ready or the time is over; yield after each look whether it is the last.

        With `stays`, continue after they are ready, and without a timeout until the process ends.
        """
        end = time.monotonic() + (timeout_s if timeout_s or not stays else math.inf)
        ended = False
        while not ended:
            started = time.monotonic()
            hopeless = not self._look() and not self.found
            left = end - time.monotonic()
            ended = left <= 0 or hopeless or (self.is_ready and not stays)
            yield ended
            if not ended:
                time.sleep(min(left, max(INTERVAL_S, 5 * (time.monotonic() - started))))

    def _look(self) -> bool:
        """Look once; return whether looking again may help."""
        self.problems, may_help = {}, False
        for key in dict.fromkeys(promise.pool.cluster for promise in self.wanted):
            try:
                if key not in self.apis:
                    self.apis[key] = ClusterApi(self.access(key))
                cluster = self.clusters[key]
                snapshot = read_snapshot(self.apis[key], cluster, self.clouds[cluster.cloud])
                self.now, may_help = snapshot.now, True
                wanted = [promise for promise in self.wanted if promise.pool.cluster == key]
                self.statuses[key] = judge(wanted, snapshot, cluster, self.clouds, self.file)
            except PermissionError as error:
                fix = "bind the role of docs/reference/permissions/cluster-ready.json"
                self.problems[key] = Problem(("clusters", key), str(error), fix)
            except Unreachable as error:
                self.problems[key] = Problem(("clusters", key), str(error))
                may_help |= error.may_pass
        return may_help
