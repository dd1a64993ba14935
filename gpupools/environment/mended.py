"""What else is wrong with a configuration, so that one round shows it all. Pure.

A problem hides others: a pool on a cluster that cannot be read is not planned, and a GPU nobody knows has no limits.
What is hidden is found as a reader finds it, by mending what is told and looking again. But nobody knows what the
reader will write, so each problem is mended in several ways that differ, and only what is found in all of them is told.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeGuard

from pydantic import BaseModel

from gpupools.asked.access import ACCESS_KEYS
from gpupools.asked.spec import LATE, Cluster, StackPool, contradiction
from gpupools.base.errors import Path, Problem, Rejected, close
from gpupools.environment.parsing import AS_A_LIST, MISSING, keys_at, parse
from gpupools.environment.stack import KEYS, bad_key, parse_cluster
from gpupools.environment.stand_ins import (
    different_machines,
    field_at,
    gpus_as_written,
    is_needed,
    machines_of_all,
    possible_values,
)
from gpupools.known.catalogue import InstanceType
from gpupools.known.gpus import match_gpu_model
from gpupools.known.other_keys import meant
from gpupools.planned.cloud import Cloud, close_clouds
from gpupools.planned.plan import plan_pool

_WAYS = 6
"""In how many ways each problem is mended; no setting that much hangs on has more modes."""

_MOST_IN_VAIN = 8
"""How often what stands in is mended in its turn, without anything found that is wrong in every way."""

_FEW = 3
"""Machines to choose from at least, so that nothing is told that is said of one alone."""

_MOST_MENDED = 200
"""Places mended in all; of a file with more, some may be told in another round."""

_ABSENT: Any = object()
"""Stands for a key that is left out."""

_OF_ANY_CLOUD = ("name", "stack", "tags", "runtime", *ACCESS_KEYS)
"""Keys that a cluster of every cloud may have."""

_MACHINE = ("gpu", "gpus_per_node", "instance_type")

_PROFILE_OR_LAYOUT: Mapping[Path, Path] = {
    ("sharing", "profile"): ("sharing", "layout"),
    ("sharing", "layout"): ("sharing", "profile"),
}

_OWNERS = ("gpu_operator", "device_plugin", "dra_driver")
"""Keys of a cluster's existing software that no other software on a pool goes with."""


class _Chosen(NamedTuple):
    """What stands in at a place."""

    value: str
    among: int
    """How many values may."""


class _Judge(Protocol):
    def __call__(self, config: Mapping[str, object], apart: Collection[str] = ()) -> tuple[object, list[Problem]]: ...


def wrong_besides(
    config: Mapping[str, object],
    told: Sequence[Problem],
    judge: _Judge,
    clouds: Mapping[str, Cloud],
) -> list[Problem]:
    """Return what is wrong with a configuration whatever its reader writes in place of what is told already.

    Args:
        config: As for `plan_config`.
        told: That.
        judge: Says what one reading of a configuration finds.
        clouds: The clouds by name.
    """
    ways = [_Mended(config, clouds, way) for way in range(_WAYS)]
    wrong: list[list[Problem]] = [list(told) for _ in ways]
    found: list[dict[Problem, Mapping[Path, _Chosen]]] = [{} for _ in ways]
    perhaps: list[set[Problem]] = [set() for _ in ways]
    known = {form for each in told for form in each.forms()}
    common, without = set[Problem](), 0
    refused: set[tuple[Path, str]] = set()
    while without < _MOST_IN_VAIN:
        for way, mended in enumerate(ways):
            if mended.mend(wrong[way], known | common):
                wrong[way] = judge(mended.config, mended.apart)[1]
                for each in wrong[way]:
                    if mended.is_ours(each):
                        refused.update(mended.refused(each))
                        perhaps[way].update(mended.as_written(each).forms())
                    else:
                        for form in mended.as_written(each).forms():
                            found[way].setdefault(form, mended.chosen(each))
            else:
                wrong[way] = []
            if not (wrong[way] or found[way] or perhaps[way] or mended.drops_something):
                return []
        before = common
        cures = [_by_cure(each) for each in found]
        common = {
            each for each in dict.fromkeys(chain(*found)) if _is_certain(each, ways, found, cures, perhaps, refused)
        }
        without = 0 if common > before else without + 1
        if not any(wrong):
            break
    certain = {each: None for each in chain(*found) if each in common and each not in known}
    said_fully = {form for each in certain for form in each.forms()[1:]}
    return [each for each in certain if each not in said_fully]


def _by_cure(found: Iterable[Problem]) -> Mapping[tuple[Path, str], list[Problem]]:
    by_cure: defaultdict[tuple[Path, str], list[Problem]] = defaultdict(list)
    for each in found:
        by_cure[each.path, each.fix].append(each)
    return by_cure


def _is_certain(
    problem: Problem,
    ways: Sequence["_Mended"],
    found: Sequence[Mapping[Problem, Mapping[Path, _Chosen]]],
    cures: Sequence[Mapping[tuple[Path, str], Collection[Problem]]],
    perhaps: Sequence[Collection[Problem]],
    refused: Collection[tuple[Path, str]],
) -> bool:
    """Say whether a problem is there whatever the reader writes, as far as what they wrote stays.

    Of keys that do not go together each way leaves some out. What is wrong with such a key is wrong whether it goes or
    not. What is wrong with the rest because of one is told where there is the same cure because of the other.
    """
    inside: list[Mapping[Path, _Chosen]] = []
    others: dict[frozenset[Path], list[int]] = {}
    its_own = {ways[way].dropped_beside(problem) for way in range(len(ways)) if problem in found[way]}
    for way, (mended, each, ours) in enumerate(zip(ways, found, perhaps, strict=True)):
        dropped = mended.dropped_beside(problem)
        if problem in each:
            inside.append(each[problem])
        elif problem in ours:
            continue  # it may come of what stands in there, but in another way it does not
        elif dropped in its_own:
            return False
        elif not any(problem.path[: len(path)] == path for path in dropped):
            others.setdefault(dropped, []).append(way)
    alike = {other for way in chain(*others.values()) for other in cures[way].get((problem.path, problem.fix), ())}
    return _is_whatever(inside, refused) and all(
        any(all(other in found[way] for way in these) for other in alike) for these in others.values()
    )


def _is_whatever(found: Sequence[Mapping[Path, _Chosen]], refused: Collection[tuple[Path, str]]) -> bool:
    """Say whether a problem was not always found beside the same one of several values that may stand in.

    Args:
        found: What stood in when it was found, in each way.
        refused: Values that are themselves wrong where they stood in.
    """
    first, *others = found
    return not any(
        all(path in other and other[path].value == chosen.value for other in others)
        # Where nothing else can stand there it is left out, but what is put in may be right in another way.
        and (chosen.value != repr(_ABSENT) or chosen.among > 1 + sum(place == path for place, _ in refused))
        for path, chosen in first.items()
    )


class _Mended:
    """A configuration with something in place of what is wrong.

    Args:
        config: What it is made from, which stays as it is.
        clouds: The clouds by name.
        way: A number; two mend the same thing differently.
    """

    def __init__(self, config: Mapping[str, object], clouds: Mapping[str, Cloud], way: int) -> None:
        self.config: dict[str, Any] = dict(config)
        self.apart: set[str] = set()
        """Clusters that are not the reader's alone, and so are not compared with others."""
        self._clouds, self._way = clouds, way
        self._is_second_half = way >= _WAYS // 2  # in either half of the ways values differ
        self._text = f"stand-in-{way}"  # which no other way says, so that what names it is never told
        self._places: set[Path] = set()
        """Of what stands in: nothing that is said of it, or below it, is the reader's."""
        self._around: set[Path] = set()
        """Of what only contains it, or lacks what was taken out: the same, but not below it."""
        self._keys: dict[Path, str | int] = {}
        """What a key or position is in the file, where it is another there."""
        self._several: defaultdict[Path, dict[Path, int]] = defaultdict(dict)
        """By cluster or pool, places for which there are several values to stand in, and how many."""
        self._dropped: defaultdict[Path, set[Path]] = defaultdict(set)
        """Of a cluster or pool what was left out for something else that does not go with it."""
        self._tries: Counter[Path] = Counter()
        self._in_vain: Counter[Path] = Counter()
        self._left = _MOST_MENDED

    # --- what is the reader's ---

    def is_ours(self, problem: Problem) -> bool:
        """Say whether a problem may come of what stands in for something else."""
        path = problem.path
        return (
            (path in self._around and not problem.of_key)
            or (problem.what == MISSING and path[:-1] in self._around)
            or any(path[:length] in self._places for length in range(1, len(path) + 1))
        )

    def chosen(self, problem: Problem) -> Mapping[Path, _Chosen]:
        """Return what stands in, of several values, in the pool that a problem is of; of a cluster, anywhere."""
        tops = [problem.path[:2]] if problem.path[:1] == ("pools",) else list(self._several)
        places = chain(*(self._several[top].items() for top in tops if top in self._several))
        return {path: _Chosen(repr(self._get(path)), among) for path, among in places if not self._is_inside(path)}

    def _is_inside(self, path: Path) -> bool:
        """Say whether what stood in at a place is gone with what was around it."""
        return any(path[:length] in self._places for length in range(1, len(path)))

    def refused(self, problem: Problem) -> set[tuple[Path, str]]:
        """Return which values that stand in a problem is of."""
        path = problem.path
        places = self._several.get(path[:2], {})
        above = [path[:length] for length in range(1, len(path) + 1) if path[:length] in places]
        return {(each, repr(self._get(each))) for each in above}

    def as_written(self, problem: Problem) -> Problem:
        """Return a problem with the keys that the file has."""
        path = tuple(self._keys.get(problem.path[: at + 1], part) for at, part in enumerate(problem.path))
        return replace(problem, path=path)

    @property
    def drops_something(self) -> bool:
        """Say whether keys are left out for others that do not go with them."""
        return any(self._dropped.values())

    def dropped_beside(self, problem: Problem) -> frozenset[Path]:
        """Return what was left out of a problem's cluster or pool for something else that does not go with it."""
        return frozenset(self._dropped[problem.path[:2]])

    # --- mending ---

    def mend(self, problems: Iterable[Problem], surely: Collection[Problem]) -> bool:
        """Put something in place of all that is wrong; say whether anything changed.

        Args:
            problems: What is wrong, with what stands in.
            surely: What of it is wrong with the file.
        """
        before = self.config
        self._seen: set[Path] = set()
        by_place: dict[Path, Problem] = {}
        for problem in self._first(problems, surely):
            by_place.setdefault(problem.path, problem)
        # Later items of a list first, so that those before them keep their places.
        places = sorted(list(by_place)[: self._left], key=_items, reverse=True)
        self._left -= len(places)
        in_vain: set[Path] = set()
        for place in places:
            if self._has(place[:2]) or len(place) < 2:
                problem = by_place[place]
                if place[0] == "pools" and len(place) > 2 and self.as_written(problem) not in surely:
                    in_vain.add(place[:2])
                self._mend(problem)
        self._in_vain.update(in_vain)
        for pool in in_vain:
            if self._in_vain[pool] > 4 and self._has(pool):
                self._remove(pool)  # so that what its cluster needs without it is seen
        return self.config is not before

    def _first(self, problems: Iterable[Problem], surely: Collection[Problem]) -> Iterator[Problem]:
        """Yield what to mend of each pool or cluster: what is wrong for sure, else what stands in, else the rest."""
        found: dict[Path, tuple[list[Problem], ...]] = {}
        for problem in problems:
            turn = 0 if self.as_written(problem) in surely else 1 if self.is_ours(problem) else 2
            found.setdefault(problem.path[:2], ([], [], []))[turn].append(problem)
        for at, turns in found.items():
            yield from self._hiding(at, turns[0]) or next(filter(None, turns))

    def _hiding(self, at: Path, problems: list[Problem]) -> list[Problem]:
        """Return what hides most of a pool: why it cannot be read, else what is wrong with its machine."""
        if at[:1] != ("pools",) or len(at) < 2:
            return problems
        unread: set[Path] = set()
        try:
            parse(StackPool, at, self._get(at))
        except Rejected as rejected:
            unread = {each.path for each in rejected.problems}
        of_machine = [each for each in problems if len(each.path) == 2 or each.path[2] in _MACHINE]
        return [each for each in problems if each.path in unread] or of_machine or problems

    def _mend(self, problem: Problem) -> None:
        first, *inner = problem.path or ("",)
        if first == "pools" and inner:
            self._mend_pool(str(inner[0]), tuple(inner[1:]), problem)
        elif first == "clusters" and inner:
            self._mend_cluster(str(inner[0]), tuple(inner[1:]), problem)
        elif first == "clusters":
            for key in self._named_clusters():
                self._make_up(("clusters", key))
        elif first == "production":
            self._put(("production",), bool(self._way % 2))
        elif first == "allow_destroy":
            self._take_out(problem.path)
        elif problem.of_key and str(first).startswith("gpupools:"):
            self._mend_section(str(first).removeprefix("gpupools:"))

    def _mend_section(self, key: str) -> None:
        if key not in self.config:
            return
        right = meant(key, KEYS)
        config = {each: value for each, value in self.config.items() if each != key}
        if right is not None and right.takes_the_value and right.key not in config:
            config[right.key] = self.config[key]
            self._keys[(right.key,)] = key
        self.config = config

    # --- pools ---

    def _mend_pool(self, name: str, inner: Path, problem: Problem) -> None:
        at: Path = ("pools", name)
        pool = self._get(at)
        if not inner and bad_key((), name) is not None:
            self._rename(at)
        elif not isinstance(pool, Mapping):
            self._remove(at)
        elif not inner and contradiction(pool) is None:
            self._rename(at)  # Pulumi would know another by the same name
        elif inner and problem.of_key and self._mend_key(StackPool, at, inner):
            return
        elif not inner or inner[0] in _MACHINE:
            self._mend_machine(at, pool, str(inner[0]) if inner else "")
        elif inner[0] == "clusters":
            self._mend_clusters_of(at, pool, inner)
        elif (
            inner == ("nodes",)
            and _is_map(pool.get("nodes"))
            and "fixed" in pool["nodes"]
            and not self._tries[(*at, *inner)]
        ):
            self._tries[(*at, *inner)] += 1
            drop = ("min", "max") if self._is_second_half else ("fixed",)
            self._drop([(*at, *inner, each) for each in drop])
        elif self._drops_another(at, pool, inner):
            return
        elif inner == ("image",) and _is_map(pool.get("image")) and not self._tries[(*at, "image")]:
            # Of family and id one is missing.
            self._tries[(*at, "image")] += 1
            missing, values = (
                ("family", ["custom"]) if "id" in pool["image"] else ("id", self._samples(pool, "image.id"))
            )
            self._put((*at, "image", missing), [*values, self._text][0])
        else:
            self._stand_in(StackPool, at, inner, problem.fix)

    def _drops_another(self, at: Path, pool: Mapping[str, Any], inner: Path) -> bool:
        """Leave out what does not go with a key, or the key, where that is as likely; say whether anything was."""
        if inner[:2] in _PROFILE_OR_LAYOUT and self._has((*at, *_PROFILE_OR_LAYOUT[inner[:2]])):
            self._drop([(*at, *(inner[:2] if self._is_second_half else _PROFILE_OR_LAYOUT[inner[:2]]))])
            return True
        if inner != ("software",) or not self._way % 2:
            return False
        found: list[Path] = []
        for cluster in pool["clusters"] if _is_list(pool.get("clusters")) else []:
            theirs: Path = ("clusters", str(cluster), "runtime", "existing")
            found += [(*theirs, key) for key in _OWNERS if self._has((*theirs, key)) or (*theirs, key) in self._seen]
        for path in found:
            self._take_out(path)
        self._seen.update(found)  # so that nothing of another pool goes for the same
        return bool(found)

    def _mend_clusters_of(self, at: Path, pool: Mapping[str, Any], inner: Path) -> None:
        """Let a pool go to the others of its clusters, or to one that is meant, or else to one of any cloud."""
        clusters = self.config.get("clusters")
        there = clusters if isinstance(clusters, Mapping) else {}
        known = [key for key, raw in there.items() if isinstance(key, str) and _is_map(raw)]
        named = pool.get("clusters")
        if any(index not in inner and key in known for index, key in enumerate(named if _is_list(named) else [])):
            self._take_out((*at, *inner))
            return
        written = self._get((*at, *inner))
        if likely := (close(written, known) if isinstance(written, str) else []) or known:
            self._put((*at, "clusters"), [likely[self._way % len(likely)]])
            return
        key = f"x{len(there)}-{self._way}"
        self._make_up(("clusters", key))
        self._put((*at, "clusters"), [key])

    def _mend_machine(self, at: Path, pool: Mapping[str, Any], key: str) -> None:
        """Give a pool another machine; of two that are named take either."""
        if (*at, "gpu") in self._seen:
            return
        self._seen.add((*at, "gpu"))
        tries = self._tries[(*at, "gpu")]
        self._tries[(*at, "gpu")] += 1
        clouds = self._clouds_of(pool)
        given = {each for each in _MACHINE if pool.get(each) is not None}
        if not tries and not key and {"gpu", "instance_type"} <= given:
            drop = ("gpu", "gpus_per_node") if self._is_second_half else ("instance_type",)
            self._drop([(*at, each) for each in drop])
            return
        if not tries and not key and "instance_type" in given:
            self._put_all(at, {"gpus_per_node": _ABSENT})
            return
        named = match_gpu_model(str(pool["gpu"])) if "gpu" in given else ()
        if key == "gpus_per_node" and "gpu" in given and (len(clouds) > 1 or not named):
            counts: list[Any] = [
                gpus_as_written(gpus) for model, gpus in machines_of_all(clouds) if model in named
            ] or [_ABSENT]
            if tries < len(counts):
                self._put((*at, key), counts[(self._way + tries) % len(counts)])
                return
        if len(clouds) == 1:
            rows = self._fitting(at, different_machines(clouds[0], named))
            row = rows[(self._way * len(rows) // _WAYS + tries) % len(rows)]
            if len(rows) > 1:
                self._several[at[:2]][*at, "instance_type"] = len(rows)
            self._put_all(at, {"instance_type": row.name, "gpu": _ABSENT, "gpus_per_node": _ABSENT})
            return
        ways = machines_of_all(clouds)
        if tries < len(ways):
            model, gpus = ways[(self._way * len(ways) // _WAYS + tries) % len(ways)]
            self._put_all(at, {"instance_type": _ABSENT, "gpu": model, "gpus_per_node": gpus_as_written(gpus)})
        else:
            self._remove(at)

    def _fitting(self, at: Path, rows: list[InstanceType]) -> list[InstanceType]:
        """Return the machines with which the least is wrong with a pool, but some; all where nobody can tell."""
        given = self._get(at)
        named = given.get("clusters")
        counts: dict[str, int] = {}
        for row in rows:
            pool = {**{key: value for key, value in given.items() if key not in _MACHINE}, "instance_type": row.name}
            try:
                asked = parse(StackPool, at, pool)
                key = next(key for key in named if self._has(("clusters", key)))
                cluster = parse_cluster(("clusters", key), self._get(("clusters", key)), self._clouds)
            except (Rejected, StopIteration):
                return rows
            try:
                plan_pool(str(at[1]), asked.pool(), key, cluster, self._clouds[cluster.cloud])
                counts[row.name] = 0
            except Rejected as rejected:
                counts[row.name] = len(rejected.problems)
        bounds = sorted(counts.values())[:_FEW][-1:]
        return [row for row in rows if counts[row.name] <= bounds[0]]

    def _clouds_of(self, pool: Mapping[str, Any]) -> list[Cloud]:
        named, there = pool.get("clusters"), self.config.get("clusters")
        found: dict[str, Cloud] = {}
        for key in named if isinstance(named, list) else ():
            cluster = there.get(key) if isinstance(there, Mapping) and isinstance(key, str) else None
            name = cluster.get("cloud") if isinstance(cluster, Mapping) else None
            if isinstance(name, str) and name in self._clouds:
                found[name] = self._clouds[name]
        return list(found.values()) or list(self._clouds.values())

    # --- clusters ---

    def _mend_cluster(self, key: str, inner: Path, problem: Problem) -> None:
        at: Path = ("clusters", key)
        cluster = self._get(at)
        if not inner and bad_key((), key) is not None:
            self._rename(at)
            return
        cloud = cluster.get("cloud") if isinstance(cluster, Mapping) else None
        model = self._clouds[cloud].cluster if isinstance(cloud, str) and cloud in self._clouds else None
        self.apart.add(key)
        if not inner and model is not None and not self._tries[at]:
            # It is another one, and its API can be reached.
            self._tries[at] += 1
            self._reach(at, model)
        elif model is None or not inner or inner[0] == "cloud":
            named, fitting = close_clouds(cloud, self._clouds), self._clouds_with(cluster)
            near = [each for each in named if each in fitting] or fitting or named
            if len(near) == 1 and not self._tries[at]:
                self._put((*at, "cloud"), near[0])
            else:
                self._make_up(at)
            self._tries[at] += 1
        elif problem.of_key and self._mend_key(model, at, inner):
            return
        elif inner[0] in ACCESS_KEYS[1:] and not self._tries[(*at, inner[0])]:
            # It may stand beside a kubeconfig, whatever it is.
            self._tries[(*at, inner[0])] += 1
            self._put((*at, inner[0]), LATE)
        elif inner[0] in ACCESS_KEYS:
            self._reach(at, model)
        else:
            self._stand_in(model, at, inner, problem.fix)

    def _clouds_with(self, cluster: object) -> list[str]:
        """Return the clouds whose clusters have all the keys that one was given."""
        given = set(cluster if isinstance(cluster, Mapping) else ()) - {"cloud"}
        return [name for name, cloud in self._clouds.items() if given and given <= set(cloud.cluster.model_fields)]

    def _reach(self, at: Path, model: type[Cluster]) -> None:
        """Say how the API of a cluster is reached; a secret stands against nothing."""
        if "kubeconfig" in model.model_fields:
            values = dict.fromkeys(ACCESS_KEYS, _ABSENT) | {"kubeconfig": {"secret": LATE}}
            self._put_all(at, values)
            self._around.add(at)

    def _make_up(self, at: Path) -> None:
        """Put a cluster in the place of one of which the cloud, or the rest, cannot be read; keep what is."""
        given = self._get(at)
        kept = {key: given[key] for key in _OF_ANY_CLOUD if key in given} if _is_map(given) else {}
        named = given.get("cloud") if _is_map(given) else None
        names = sorted(self._clouds)
        cloud = self._clouds[
            named if isinstance(named, str) and named in self._clouds else names[self._way % len(names)]
        ]
        key = str(at[1])
        example = {**cloud.example_cluster, "name": f"{key[:20]}-{self._way}"}
        if not any(each in kept for each in ACCESS_KEYS) and "kubeconfig" in cloud.cluster.model_fields:
            example["kubeconfig"] = {"secret": LATE}
        self._set(at, {**example, **kept})
        made_up = {each for each in {*cloud.cluster.model_fields, *example} if each not in kept}
        self._places |= {(*at, each) for each in made_up}
        self._around.add(at)
        self.apart.add(key)

    def _named_clusters(self) -> list[str]:
        pools = self.config.get("pools")
        lists = [pool.get("clusters") for pool in pools.values() if _is_map(pool)] if isinstance(pools, Mapping) else []
        found = {key for keys in lists if isinstance(keys, list) for key in keys if isinstance(key, str)}
        return sorted(key for key in found if bad_key((), key) is None)

    # --- any map of a model ---

    def _mend_key(self, model: type[BaseModel], at: Path, inner: Path) -> bool:
        """Give a key that is not known the name that was meant, or take it out; False for one that is known."""
        *above, key = inner
        around: Path = (*at, *above)
        parent = self._get(around)
        if not _is_map(parent) or key not in parent:
            return False
        known = keys_at(model, above, parent.get("mode"))
        if key in known and "mode" not in parent:
            return False
        right = meant(key, known)
        if right is None or right.key in parent:
            self._take_out((*around, key))
        elif right.takes_the_value:
            self._set(around, {right.key if each == key else each: value for each, value in parent.items()})
            self._keys[(*around, right.key)] = str(key)
        else:
            self._take_out((*around, key))
            if around == at and model is StackPool and right.key in _MACHINE:
                pool = self._get(at)
                if right.key == "gpus_per_node" or contradiction(pool) is not None:
                    self._mend_machine(at, pool, right.key)
            elif is_needed(model, (*above, right.key), self._get(at)) or (self._way % 2 and not above):
                self._stand_in(model, at, (*above, right.key))
        return True

    def _stand_in(self, model: type[BaseModel], at: Path, inner: Path, fix: str = "") -> None:
        """Put something in place of what is wrong, or of what is around it once nothing else is left to try."""
        if len(inner) > 1 and (inner[-1] == "mode" or inner in (("image", "family"), ("image", "id"))):
            inner = inner[:-1]  # which keys there are, or go together, follows from it
        inner = inner[:2] if inner[:2] == ("adopt", "launch_template") else inner
        around = self._get((*at, *inner[:-1]))
        alone = isinstance(around, list | Mapping) and len(around) == 1
        if len(inner) > 1 and alone and self._known_values(model, at, inner[:-1]):
            inner = inner[:-1]
        path: Path = (*at, *inner)
        if path in self._seen:
            return
        self._seen.add(path)
        if fix.startswith(AS_A_LIST) and not self._tries[path]:
            self._tries[path] += 1
            self._set(path, [self._get(path)])  # which is what the reader wrote, as it is told to be written
            return
        values = self._instead(model, at, inner)
        tries = self._tries[path]
        self._tries[path] += 1
        left_out = bool(values) and values[-1] is _ABSENT and fix.endswith("leave it out")
        if len(values) > 1 and not left_out:
            self._several[path[:2]].setdefault(path, len(values))
        if values and tries < len(values) + 2:
            value = values[-1 if left_out else (self._way + tries) % len(values)]
            if value is _ABSENT and not field_at(model, inner, self._get(at)):
                self._take_out(path)
                self._around.add(path[:-1])
            else:
                if value is _ABSENT and len(inner) > 1:
                    self._around.add(path[:-1])
                self._put(path, value)
        elif len(inner) > 1:
            self._stand_in(model, at, inner[:-1])
        elif at[0] == "pools":
            self._remove(at)
        else:
            self._make_up(at)

    def _instead(self, model: type[BaseModel], at: Path, inner: Path) -> list[Any]:
        """Return what may stand in at a path, differing in as much as may matter."""
        now = self._get((*at, *inner))
        field = field_at(model, inner, self._get(at))
        if field is None:
            return [] if now is _ABSENT else [_ABSENT]
        kinds, required, limits = field
        values = list(self._known_values(model, at, inner))
        if not values:
            # Of a text that stands for something most are wrong.
            values = [each for each in possible_values(kinds, self._text, limits) if required or each != self._text]
        values += () if required else (_ABSENT,)
        return [each for each in values if each is not now and (each != now or type(each) is not type(now))]

    def _known_values(self, model: type[BaseModel], at: Path, inner: Path) -> Sequence[Any]:
        """Return values that a cloud, or any, takes for a key."""
        key = ".".join(map(str, inner))
        if issubclass(model, Cluster):
            cloud = self._clouds[str(self._get(at)["cloud"])]
            if key == "name":
                return [f"{str(at[1])[:20]}-{self._way}"]
            if key == "stack":
                return [f"{self._text}/{self._text}/{self._text}"]
            likely = cloud.cluster.likely(key, self._get(at))
            now = self._get((*at, *inner))
            if likely and (not isinstance(now, str) or close(now, filter(_is_text, likely))):
                return likely
            example = [cloud.example_cluster[key]] if key in cloud.example_cluster else []
            return [*likely, *example, *cloud.samples.get(key, ()), *([LATE] if key in model.address_keys() else [])]
        pool = self._get(at)
        if key == "zones":
            return [[each] for each in self._zones(pool)[:3]]  # several together do not go with everything
        slices = self._slices(pool)
        shared = [{"mode": mode, "replicas": 2} for mode in ("time-slicing", "mps")]
        cut = [{"mode": "mig", "profile": each} for each in slices[:2]]
        images = [{"family": each} for each in self._samples(pool, "image.family")]
        template = {"id": "lt-0a1b2c3d4e5f60718", "version": 1}
        known: Mapping[str, Sequence[Any]] = {
            # What more is needed of a pool that is bought in another mode, no two say alike.
            "capacity": ({"mode": "on-demand"}, {"mode": "spot"}),
            "nodes": ({"max": 1}, {"max": 2}, {"max": 8}, {"max": 1000}),
            "sharing": [*shared, *cut],
            "software": self._softwares(pool),
            "image": [*images, *({"family": "custom", "id": each} for each in self._samples(pool, "image.id"))],
            "adopt": [{"name": f"x{self._way}", **each} for each in ({}, {"launch_template": template})],
            "adopt.launch_template": [template],
            "sharing.profile": slices,
            "sharing.layout": [[each] for each in slices],
            "trust": ({"team": self._text}, {"waiver": "stands in for a reason"}, {"namespaces": [self._text]}),
            "renamed_from": [self._text],
            "first_name": [self._text],
        }
        return known.get(key, self._samples(pool, key))

    def _samples(self, pool: Mapping[str, Any], key: str) -> list[Any]:
        return [each for cloud in self._clouds_of(pool) for each in cloud.samples.get(key, ())]

    def _zones(self, pool: Mapping[str, Any]) -> list[str]:
        """Return zones that a pool may name on every cluster it goes to, as far as they can be read."""
        named = pool.get("clusters")
        found: list[list[str]] = []
        for key in named if _is_list(named) else []:
            with suppress(Rejected):
                at = ("clusters", str(key))
                found.append(list(parse_cluster(at, self._get(at), self._clouds).zones_to_name()))
        return [each for each in found[0] if all(each in other for other in found)] if found else []

    def _softwares(self, pool: Mapping[str, Any]) -> list[str]:
        """Return the software that every cloud of a pool knows."""
        names = [set(cloud.software) for cloud in self._clouds_of(pool)]
        return sorted(set.intersection(*names))

    def _slices(self, pool: Mapping[str, Any]) -> list[str]:
        """Return MIG profiles of the pool's GPU, as far as it is known."""
        from gpupools.known.mig import profiles

        named = str(pool.get("instance_type"))
        rows = [cloud.find_instance_type(cloud.instance_types, named) for cloud in self._clouds_of(pool)]
        gpus = [row.gpu_model for row in rows if row is not None] or list(match_gpu_model(str(pool.get("gpu"))))
        return list(dict.fromkeys(each.name for gpu in gpus or ["A100-80GB", "A30-24GB"] for each in profiles(gpu)))

    # --- the tree ---

    def _get(self, path: Path) -> Any:
        value: Any = self.config
        for part in path:
            if isinstance(value, Mapping):
                value = value.get(part, value.get(int(part), _ABSENT) if str(part).isdecimal() else _ABSENT)
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                value = value[part]
            else:
                return _ABSENT
        return value

    def _has(self, path: Path) -> bool:
        return self._get(path) is not _ABSENT

    def _set(self, path: Path, value: Any) -> None:
        """Change one value; what is not on the way to it stays the same object."""

        def changed(tree: Any, rest: Path) -> Any:
            if not rest:
                return value
            part, *more = rest
            if isinstance(tree, list) and isinstance(part, int) and part < len(tree):
                if not more and value is _ABSENT:
                    return [each for index, each in enumerate(tree) if index != part]
                return [changed(each, tuple(more)) if index == part else each for index, each in enumerate(tree)]
            tree = tree if isinstance(tree, Mapping) else {}
            part = next((each for each in tree if str(each) == str(part)), part)
            if not more and value is _ABSENT:
                return {key: each for key, each in tree.items() if key != part}
            return {**tree, part: changed(tree.get(part), tuple(more))}

        self.config = changed(self.config, path)

    def _put(self, path: Path, value: Any) -> None:
        self._set(path, value)
        self._places.add(path)

    def _put_all(self, at: Path, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            self._put((*at, key), value)

    def _drop(self, paths: Iterable[Path]) -> None:
        """Leave out what does not go with something else that is there."""
        for path in filter(self._has, paths):
            self._put(path, _ABSENT)
            self._dropped[path[:2]].add(path)

    def _take_out(self, path: Path) -> None:
        """Leave out an item of a list or a map; those behind it in a list keep the places the reader knows."""
        if not self._has(path):
            return
        above, last = path[:-1], path[-1]
        in_list = isinstance(self._get(above), list)
        if in_list:
            count = len(self._get(above))
            places = [self._keys.get((*above, index), index) for index in range(count) if index != last]
            self._keys |= {(*above, index): place for index, place in enumerate(places)}
        else:
            self._places.add(path)
        self._set(path, _ABSENT)

    def _remove(self, at: Path) -> None:
        self._set(at, _ABSENT)
        self._places.add(at)
        self._around.add(at[:1])

    def _rename(self, at: Path) -> None:
        """Give a cluster or pool another key, and name it by that."""
        section, old = map(str, at)
        new = f"x{self._way}-{len(self._keys)}"
        self._set((section,), {new if key == old else key: value for key, value in self.config[section].items()})
        self._keys[(section, new)] = old
        if section == "clusters":
            self.apart.add(new)
            pools = self.config.get("pools")
            for name, pool in pools.items() if isinstance(pools, Mapping) else ():
                named = pool.get("clusters") if _is_map(pool) else None
                if isinstance(named, list) and old in named:
                    self._set(("pools", name, "clusters"), [new if key == old else key for key in named])


def _items(path: Path) -> tuple[int, ...]:
    return tuple(part for part in path if isinstance(part, int))


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
