"""Finds direct and indirect dependencies of all resources in one pass. Pure."""

from collections.abc import Iterable, Iterator, Mapping


def reachable_marks(made_from: Mapping[str, Iterable[str]], marks: Mapping[str, int]) -> Mapping[str, int]:
    """Return for each name the marks of itself and of all its dependencies, as bits; dependencies need not be keys.

    Names in a cycle get the same marks: the path-based algorithm for strongly connected components
    (https://doi.org/10.1016/S0020-0190(00)00051-X), without recursion.
    """
    found: dict[str, int] = {}
    numbers: dict[str, int] = {}
    path: list[str] = []
    """What was entered and is not found yet."""
    circles: list[int] = []
    """Number of the first name of each circle on the path, a lone name being one as well."""
    work: list[tuple[str, Iterator[str]]] = []
    waiting = iter(made_from)
    while True:
        name, others = work[-1] if work else ("", waiting)
        other = next(others, None)
        if other is None and not work:
            return found
        if other is None:
            work.pop()
            if circles[-1] == numbers[name]:
                circles.pop()
                at = len(path) - 1
                while path[at] != name:
                    at -= 1
                together, path[at:] = path[at:], []
                bits = 0
                for each in together:
                    bits |= marks.get(each, 0)
                    for behind in made_from.get(each, ()):
                        bits |= found.get(behind, 0)
                found.update(dict.fromkeys(together, bits))
        elif other not in numbers:
            numbers[other] = len(numbers)
            path.append(other)
            circles.append(numbers[other])
            work.append((other, iter(made_from.get(other, ()))))
        elif other not in found:
            while circles[-1] > numbers[other]:
                circles.pop()
