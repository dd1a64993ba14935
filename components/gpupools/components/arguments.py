"""What the components share about their arguments: late values, and errors a program in any language sees."""

from collections.abc import Mapping
from typing import Any

import pulumi

from gpupools.common.errors import Problem, Rejected, dotted, nearest
from gpupools.common.json_types import JsonObject
from gpupools.plan.cloud import Cloud, nearest_cloud
from gpupools.providers import clouds
from gpupools.spec.models import LATE, Cluster
from gpupools.stackfile.stack import parse_cluster


def parse_cloud(name: object) -> Cloud:
    """Return the cloud of this name.

    Raises:
        Rejected: There is none.
    """
    known = clouds()
    if isinstance(name, str) and name in known:
        return known[name]
    raise Rejected([Problem(("cloud",), f"unknown cloud {name!r}", nearest_cloud(name, known))])


def unknown_arguments(args: JsonObject, typed: type) -> list[Problem]:
    """Refuse arguments that a component does not have, which Python would drop without a word.

    Args:
        args: What the component was given.
        typed: The `TypedDict` of its arguments.
    """
    known = typed.__annotations__
    return [Problem((str(key),), "unknown argument", nearest(key, known)) for key in args if key not in known]


def parse_cluster_argument(value: Any, cloud: Cloud) -> Cluster:
    """Check the argument `cluster` of a component.

    Raises:
        Rejected: Everything that is wrong with it.
    """
    known = known_values(value)
    given = {**known, "cloud": cloud.name} if isinstance(known, Mapping) else known
    cluster = parse_cluster(("cluster",), given, {cloud.name: cloud})
    # Only the program behind a stack file resolves these.
    keys = [*cluster.late_outputs(), *(["stack"] if cluster.stack is not None else [])]
    fix = "give the output itself, from a StackReference of the program"
    problems = [Problem(("cluster", key), "goes into a stack file only", fix) for key in keys]
    # Only that program makes a provider of them; here the component's own options name one.
    acting = [key for key in cluster.identity if getattr(cluster, key) is not None]
    fix = "give the program's provider of this cloud that setting, and name it in opts.providers"
    problems += [Problem(("cluster", key), "goes into a stack file only", fix) for key in acting]
    if problems:
        raise Rejected(problems)
    return cluster


def known_values(value: Any) -> Any:
    """Put `LATE` where an output is, and whole numbers where the engine's floats are.

    A component called from another language gets every number as a float (measured with Pulumi 3.272).
    """
    if isinstance(value, pulumi.Output):
        return LATE
    if isinstance(value, Mapping):
        return {key: known_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [known_values(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Refused(pulumi.InputPropertiesError, pulumi.RunError):
    """A component cannot exist. A `RunError` too, so that a program in this process ends without a traceback."""

    def __init__(self, rejected: Rejected) -> None:
        details = [
            pulumi.InputPropertyErrorDetails(property_path=dotted(problem.path), reason=str(problem))
            for problem in rejected.problems
        ]
        super().__init__(str(rejected), details)
        self.problems = rejected.problems
