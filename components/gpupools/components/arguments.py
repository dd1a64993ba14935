"""Parse the components' arguments: outputs, and errors that programs in every language see."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pulumi

from gpupools.common.errors import Problem, Rejected, dotted, nearest
from gpupools.common.json_types import JsonObject, with_items
from gpupools.plan.cloud import Cloud, nearest_cloud
from gpupools.providers import clouds
from gpupools.spec.models import LATE, Cluster
from gpupools.stackfile.stack_validation import parse_cluster

T = TypeVar("T")


def parse_cloud(name: object) -> Cloud:
    """Return the cloud with this name; raise `Rejected` if it is unknown."""
    known = clouds()
    if isinstance(name, str) and name in known:
        return known[name]
    raise Rejected([Problem(("cloud",), f"unknown cloud {name!r}", nearest_cloud(name, known))])


def unknown_arguments(args: JsonObject, typed: type) -> list[Problem]:
    """Return a problem for each argument that is not in a `TypedDict`; Python would silently ignore it."""
    known = typed.__annotations__
    return [Problem((str(key),), "unknown argument", nearest(key, known)) for key in args if key not in known]


def parse_cluster_argument(value: Any, cloud: Cloud) -> Cluster:
    """Return the parsed argument `cluster` of a component; raise `Rejected` with every problem."""
    known = known_values(value)
    raw = {**known, "cloud": cloud.name} if isinstance(known, Mapping) else known
    cluster = parse_cluster(("cluster",), raw, {cloud.name: cloud})
    # Only the stack program resolves these.
    keys = [*cluster.late_outputs(), *(["stack"] if cluster.stack is not None else [])]
    fix = "pass the output of a StackReference instead"
    problems = [Problem(("cluster", key), "is a key of stack files only", fix) for key in keys]
    # Only the stack program creates a provider from these; here the component's options name one.
    identity = [key for key in cluster.identity if getattr(cluster, key) is not None]
    fix = "set it on a provider of this cloud, and add that provider to opts.providers"
    problems += [Problem(("cluster", key), "is a key of stack files only", fix) for key in identity]
    if cluster.runtime.wait_ready is not None:
        what, fix = "is a key of stack files only", "remove it, and run gpupools ready after pulumi up"
        problems.append(Problem(("cluster", "runtime", "wait_ready"), what, fix))
    if problems:
        raise Rejected(problems)
    return cluster


def valid(problems: list[Problem], function: Callable[..., T], *arguments: Any) -> T | None:
    """Return the result of a function; None if it rejects its arguments, with its problems added to the others."""
    try:
        return function(*arguments)
    except Rejected as rejected:
        problems += rejected.problems
        return None


def known_values(value: Any) -> Any:
    """Return a value with `LATE` for each output, and integers for the engine's whole floats.

    A component called from another language gets every number as a float (measured with Pulumi 3.272).
    """
    if isinstance(value, pulumi.Output):
        return LATE
    return int(value) if isinstance(value, float) and value.is_integer() else with_items(value, known_values)


class Refused(pulumi.InputPropertiesError, pulumi.RunError):
    """Invalid arguments of a component. Also a `RunError`, so that a Python program ends without a traceback."""

    def __init__(self, rejected: Rejected) -> None:
        details = [
            pulumi.InputPropertyErrorDetails(property_path=dotted(problem.path), reason=str(problem))
            for problem in rejected.problems
        ]
        super().__init__(str(rejected), details)
        self.problems = rejected.problems
