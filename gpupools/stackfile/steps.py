"""Reads a pool with several steps, tried in their order, as one pool for each step. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

from gpupools.common.errors import Path, Problem, amount_of, shown
from gpupools.plan.order import MOST_STEPS
from gpupools.plan.pool_plan import GROUP_LABEL

KEY_LIMIT = 20
"""Keys become part of resource names and of pool names in the cloud; two keys of 20 characters stay below 63."""

LISTS = ("capacity", "gpu", "instance_type")
"""Keys that may list steps. All types of the first capacity come before the next capacity."""

FORMER = ("renamed_from", "first_name")
"""Keys of a pool with steps whose text is followed by the number of the step, or which list one text per step."""


class Steps(NamedTuple):
    """The pools of a stack file, one for each step."""

    pools: Any
    """As in the file, with one pool for each step."""
    written: Mapping[str, tuple[str, Mapping[str, int]]] = MappingProxyType({})
    """Pool to its key in the file, and the index in each key that has a list there."""
    problems: tuple[Problem, ...] = ()

    def as_written(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return all problems of the pools with the keys of the file; what the steps have in common once."""
        moved = [
            replace(problem, path=self.path(problem.path), what=self._text(problem.what), fix=self._text(problem.fix))
            for problem in problems
        ]
        own = {problem.path for problem in self.problems}
        known = [problem for problem in moved if not any(problem.path[: len(at)] == at for at in own if len(at) > 2)]
        return [*self.problems, *dict.fromkeys(problem for problem in known if problem.path not in own)]

    def path(self, path: Path) -> Path:
        """Return a path with the keys of the file: `pools.big-2.capacity.name` as `pools.big.capacity[1].name`."""
        if path[:1] != ("pools",) or len(path) < 2 or path[1] not in self.written:
            return path
        name, indexes = self.written[str(path[1])]
        index = indexes.get(str(path[2])) if len(path) > 2 else None
        if index is None or (len(path) > 3 and path[3] == index):
            return ("pools", name, *path[2:])
        return ("pools", name, path[2], index, *path[3:])

    def _text(self, text: str) -> str:
        return re.sub(r"\bpools\.([a-z0-9-]+)", lambda at: f"pools.{self.written.get(at[1], (at[1],))[0]}", text)

    def list_key(self, step: str) -> str:
        """Return the key that chooses the machine of a step."""
        indexes = self.written[step][1]
        return next(key for key in (*LISTS[::-1], step) if key in indexes)

    def former_keys(self, step: str, former: str) -> str:
        """Return the value of `renamed_from` with which a step, or a single pool, keeps the nodes of a former pool."""
        name = self.written.get(step, (step,))[0]
        steps = [key for key, (pool, _) in self.written.items() if pool == name] or [step]
        listed = ", ".join(former if key == step else "null" for key in steps)
        return former if len(steps) == 1 else f"[{listed}]"


def read_steps(pools: object) -> Steps:
    """Return the pools of a stack file, which may be invalid, with one pool for each step."""
    if not isinstance(pools, Mapping):
        return Steps(pools)
    found: dict[Any, object] = {}
    written: dict[str, tuple[str, Mapping[str, int]]] = {}
    problems: list[Problem] = []
    for name, pool in pools.items():
        if not isinstance(name, str) or not isinstance(pool, Mapping):
            found[name] = pool
            continue
        lists = {key: value for key in LISTS if isinstance(value := pool.get(key), list)}
        given = {key: range(len(value)) for key, value in lists.items() if value}
        chosen = [dict(zip(given, combination, strict=True)) for combination in product(*given.values())]
        names = [f"{name}-{number}" for number in range(1, len(chosen) + 1)]
        problems += _problems(name, pool, lists, len(chosen))
        unnamed = list(_names_taken(name, names, pools)) if len(chosen) > 1 else []
        problems += unnamed
        if len(chosen) < 2 or unnamed:
            chosen, names = chosen[:1], [name]
        for number, (step, indexes) in enumerate(zip(names, chosen, strict=True), 1):
            own = {key: pool[key][index] for key, index in indexes.items()}
            listed = dict(indexes)
            if len(names) > 1:
                for key in FORMER:
                    own |= _former(key, pool.get(key), number, listed)
                if isinstance(labels := pool.get("labels", {}), Mapping):
                    own["labels"] = {**labels, GROUP_LABEL: name}
            found[step] = {**pool, **own} if own else pool
            written[step] = name, listed
            if number == MOST_STEPS:
                break
    return Steps(found, written, tuple(problems))


def _former(key: str, given: object, number: int, listed: dict[str, int]) -> Mapping[str, object]:
    """Return the former key of a step; none where it is no text, which the models reject."""
    if isinstance(given, str):
        return {key: f"{given}-{number}"}
    if isinstance(given, list) and number <= len(given):
        listed[key] = number - 1
        return {key: given[number - 1]}
    return {}


def _problems(name: str, pool: Mapping[str, Any], lists: Mapping[str, Sequence[Any]], count: int) -> Iterator[Problem]:
    """Yield the problems of a pool's lists that no single step has."""
    at: Path = ("pools", name)
    if isinstance(labels := pool.get("labels"), Mapping) and GROUP_LABEL in labels:
        what = f"{GROUP_LABEL} is set to the key of a pool with several steps"
        yield Problem((*at, "labels", GROUP_LABEL), what, "leave it out")
    for key, steps in lists.items():
        if not steps:
            yield Problem((*at, key), "is an empty list", "list at least one, or leave it out")
        seen = [_identity(step) for step in steps]
        for index, step in enumerate(seen):
            if step in seen[:index]:
                first = f"{key}[{seen.index(step)}]"
                yield Problem((*at, key, index), f"is the same step as {first}", "list each step once")
    if count > MOST_STEPS:
        key = next(key for key in LISTS[::-1] if key in lists)
        product_of = " × ".join(f"{len(steps)} of {key}" for key, steps in lists.items())
        yield Problem((*at, key), f"the pool has {count} steps ({product_of})", f"list at most {MOST_STEPS} steps")
    if count < 2:
        if pool.get("mixed") is not None:
            yield Problem((*at, "mixed"), "the pool has one step, which differs from no other", "leave it out")
        return
    if pool.get("adopt") is not None:
        what = f"imports one existing pool, and this one has {count} steps"
        yield Problem((*at, "adopt"), what, "import each pool under a key of its own, or list one step")
    for key in FORMER:
        if isinstance(given := pool.get(key), list) and len(given) != count:
            fix = "list one key for each step, and null for a new one; or write the former key of the whole pool"
            yield Problem((*at, key), f"has {amount_of(len(given), 'entry', 'entries')} for {count} steps", fix)


def _identity(step: object) -> object:
    """Return what tells steps of one list apart: mode and name of a capacity, or the type."""
    if isinstance(step, Mapping):
        return shown(step.get("mode")), shown(step.get("name"))
    return step.casefold() if isinstance(step, str) else step


def _names_taken(name: str, steps: Sequence[str], pools: Mapping[Any, object]) -> Iterator[Problem]:
    """Yield why steps cannot have their names."""
    long = len(steps[-1]) - KEY_LIMIT
    if long > 0 and len(name) <= KEY_LIMIT:
        what = f"its steps are named {steps[0]} to {steps[-1]}, and a key has at most {KEY_LIMIT} characters"
        yield Problem(("pools", name), what, f"use a key of at most {len(name) - long} characters")
    for number, step in enumerate(steps, 1):
        if step in pools:
            what = f"is also the name of step {number} of pool {name}"
            yield Problem(("pools", step), what, "use another key for one of the two", of_key=True)
