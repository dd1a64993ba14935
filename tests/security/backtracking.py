"""Find patterns whose matching may take time that grows faster than the text.

A pattern is read as an automaton with one state per character that it matches. Time is more than linear if one text
leads from a repetition to itself, from another repetition to itself, and from the first to the second, and the rest may
fail: every way to divide the text between the two is then tried. Where a search may begin anywhere, that is the first
repetition. After Weideman et al., "Analyzing matching time behavior of backtracking regular expression matchers by
using ambiguity of NFA" (CIAA 2016).
"""

import re
from collections.abc import Iterable
from itertools import product
from re import _constants as op
from re import _parser as parser
from typing import Any, NamedTuple

ALPHABET = frozenset(range(128)) | frozenset(map(ord, "é٣\u2003\u2028中ſ\ud800"))
"""Characters that stand for all: no pattern tells others apart, apart from those that it names."""
_CLASSES = {op.CATEGORY_DIGIT: r"\d", op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_SPACE: r"\s"}
_CLASSES |= {op.CATEGORY_NOT_SPACE: r"\S", op.CATEGORY_WORD: r"\w", op.CATEGORY_NOT_WORD: r"\W"}

Chars = frozenset[int]


class Part(NamedTuple):
    """The states with which a part of a pattern may start and end, and whether it matches the empty text."""

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    empty: bool = True


class Automaton:
    """The states of a pattern, and the characters that lead from one to the next."""

    def __init__(self, pattern: re.Pattern[str], *, anywhere: bool, whole: bool) -> None:
        self.flags, self.chars, self.edges = pattern.flags, list[Chars](), list[tuple[int, int, Chars]]()
        self.ambiguous, self.repeats = False, 0
        self.taken: dict[int, Chars] = {}
        """Characters that do not follow a state, because a possessive repetition would have taken them."""
        start = self._loop(self._state(ALPHABET)) if anywhere else Part()
        body = self._then(start, self._sequence(parser.parse(pattern.pattern, pattern.flags)))
        self.ends = set() if whole else set(body.last)
        """States after which the pattern has matched, so that nothing is tried again."""

    def _state(self, chars: Iterable[int]) -> Part:
        self.chars.append(frozenset(chars))
        return Part((here := (len(self.chars) - 1,)), here, False)

    def _then(self, one: Part, two: Part, but: Chars = frozenset()) -> Part:
        for last, first in product(one.last, two.first):
            self.edges.append((last, first, self.chars[first] - but - self.taken.get(last, Chars())))
        return Part(one.first + two.first * one.empty, two.last + one.last * two.empty, one.empty and two.empty)

    def _loop(self, body: Part) -> Part:
        self._then(body, body)
        return body

    def _sequence(self, items: Any) -> Part:
        found, taken = Part(), Chars()
        for kind, given in items:
            part = self._part(kind, given, leading=not found.first)
            found = self._then(found, part, taken)
            if kind is op.POSSESSIVE_REPEAT and given[1] is op.MAXREPEAT:
                taken = Chars().union(*(self.chars[each] for each in part.first))
                self.taken |= dict.fromkeys(part.last, taken)
            elif not part.empty:
                taken = Chars()
        return found

    def _part(self, kind: Any, given: Any, leading: bool) -> Part:
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            return self._repeated(*given)
        if kind in (op.SUBPATTERN, op.ATOMIC_GROUP):
            return self._sequence(given[3] if kind is op.SUBPATTERN else given)
        if kind is op.BRANCH:
            ways = [self._sequence(each) for each in given[1]]
            self.ambiguous |= self.repeats > 0 and sum(each.empty for each in ways) > 1
            first = tuple(one for way in ways for one in way.first)
            return Part(first, tuple(one for way in ways for one in way.last), any(each.empty for each in ways))
        if kind in (op.ASSERT, op.ASSERT_NOT) and given[0] > 0:
            return Part(self._sequence(given[1]).first, (), True)  # tried like any other part, but nothing follows it
        if kind in (op.ASSERT, op.ASSERT_NOT):
            if not leading or len(given[1]) != 1:
                return Part()
            chars = self._set(*given[1][0])  # the character before
            return self._state(chars if kind is op.ASSERT else ALPHABET - chars)
        if kind is op.AT:
            if given in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
                return Part()
            return self._state({10} if self.flags & re.MULTILINE else ())  # nothing matches beyond
        return self._state(self._set(kind, given))

    def _repeated(self, least: int, most: Any, items: Any) -> Part:
        self.repeats += most is op.MAXREPEAT
        body = self._sequence(items)
        self.repeats -= most is op.MAXREPEAT
        if most is op.MAXREPEAT:
            self._loop(body)
        elif most > 1:  # two stand for more
            body = self._then(body, self._sequence(items)._replace(empty=True))
        return body._replace(empty=body.empty or least == 0)

    def _set(self, kind: Any, given: Any) -> Chars:
        if kind is op.ANY:
            return ALPHABET if self.flags & re.DOTALL else ALPHABET - {10}
        if kind is op.NOT_LITERAL:
            return ALPHABET - self._set(op.LITERAL, given)
        if kind is op.CATEGORY:
            return Chars(each for each in ALPHABET if re.match(_CLASSES[given], chr(each), self.flags & re.ASCII))
        if kind is op.IN:
            negated = given[0][0] is op.NEGATE
            found = Chars().union(*(self._set(*each) for each in given[negated:]))
            return ALPHABET - found if negated else found
        assert kind in (op.LITERAL, op.RANGE), f"unknown part of a pattern: {kind}"
        least, most = given if kind is op.RANGE else (given, given)
        found = Chars(each for each in ALPHABET if least <= each <= most) | {least, most}
        if self.flags & re.IGNORECASE:
            found |= {ord(one) for each in found for one in (chr(each).lower(), chr(each).upper()) if len(one) == 1}
        return found

    def overlaps(self) -> bool:
        """Return whether a text may be divided between two repetitions in many ways."""
        after: dict[int, dict[int, Chars]] = {each: {} for each in range(len(self.chars))}
        twice = []
        for one, two, chars in self.edges:
            twice += [(one, two)] if after[one].get(two, Chars()) & chars else []
            after[one][two] = after[one].get(two, Chars()) | chars
        reached = {each: _reached(each, after) for each in after}
        cycles = [each for each in after if each in reached[each]]
        return (
            self.ambiguous
            or any(one in reached[two] for one, two in twice)  # repetitions around one another, such as (a*)*
            or any(
                one != two and two not in self.ends and two in reached[one] and self._meet(one, two, after)
                for one, two in product(cycles, cycles)
            )
        )

    def _meet(self, one: int, two: int, after: dict[int, dict[int, Chars]]) -> bool:
        """Return whether a text leads from `one` to itself and to `two`, and from `two` to itself without a match."""
        start, end = (one, one, two), (one, two, two)
        seen, todo = {start}, [start]
        while todo:
            here = todo.pop()
            for steps in product(*(after[each].items() for each in here)):
                to = (steps[0][0], steps[1][0], steps[2][0])
                if to not in seen and to[2] not in self.ends and steps[0][1] & steps[1][1] & steps[2][1]:
                    if to == end:
                        return True
                    seen.add(to)
                    todo.append(to)
        return False


def _reached(state: int, after: dict[int, dict[int, Chars]]) -> set[int]:
    found, todo = set[int](), [state]
    while todo:
        new = {two for two, chars in after[todo.pop()].items() if chars} - found
        found |= new
        todo += new
    return found


def is_slow(pattern: re.Pattern[str], method: str) -> bool:
    """Return whether a method of a pattern may take more than linear time."""
    anywhere = method not in ("match", "fullmatch")
    return Automaton(pattern, anywhere=anywhere, whole=method == "fullmatch").overlaps()
