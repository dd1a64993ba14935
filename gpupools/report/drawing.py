"""Draws a pool's nodes as SVG: GPUs in a node, slices of a GPU, and the containers that share each.

Pools that look alike share one drawing, which is defined once in a page.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from gpupools.plan.node_resources import slice_shares
from gpupools.plan.pool_plan import PoolPlan
from gpupools.report.facts import nodes_in_words
from gpupools.report.html import Html, element, html

_HIGH, _GAP, _PAD, _BAND = 42, 6, 8, 15
"""Height of a GPU, what is between two and around all, and the line with a box's name above its parts."""
_NODE, _MOST_NODES = 11, 20
"""Width of a node in the row of all nodes, and how many are drawn; the rest is a number."""
_MOST_CLIENTS = 8
"""Containers on one device that are drawn apart; more of them are a number."""


class Part(NamedTuple):
    """A part of a GPU that Kubernetes allocates."""

    called: str
    """Short enough to stand in it: `1g`; empty for a whole GPU."""
    share: float
    """Of the GPU, 1 for all of it."""
    clients: int
    """Containers that have it together."""


class _Drawn(NamedTuple):
    id: str
    width: int
    height: int


def parts_of(plan: PoolPlan) -> list[list[Part]]:
    """Return the parts of each GPU of a node; a GPU has less than all of it where memory is left over."""
    clients = plan.sharing.clients.replicas if plan.sharing.clients is not None else 1
    mig = plan.sharing.mig
    if mig is None:
        return [[Part("", min(float(plan.instance.gpus), 1.0), clients)]] * plan.instance.devices
    parts = []
    for gpu in slice_shares(plan.instance, mig):
        # Under the strategy mixed a GPU left whole beside sliced ones keeps its one client.
        parts.append([Part(name.partition(".")[0], share, clients) for name, share in gpu] or [Part("", 1.0, 1)])
    return parts


class Drawings:
    """The drawings of one page; ask for a pool's, then for all `definitions`."""

    def __init__(self) -> None:
        self._nodes: dict[object, _Drawn] = {}
        self._rows: dict[tuple[int, int], _Drawn] = {}
        self._defined: list[Html] = []

    def pool(self, plan: PoolPlan, says: str) -> Html:
        """Draw the nodes of a pool; `says` is the same in words, for those who do not see it."""
        parts = parts_of(plan)
        node = self._nodes.get(key := repr(parts)) or self._define_node(parts)
        self._nodes[key] = node
        row = self._rows.get((plan.min_nodes, plan.max_nodes)) or self._define_row(plan)
        self._rows[plan.min_nodes, plan.max_nodes] = row
        width, height = max(node.width, row.width), node.height + row.height + _GAP
        return element(
            "svg",
            element("use", href=f"#{node.id}"),
            element("use", href=f"#{row.id}", y=node.height + _GAP),
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="img",
            aria_label=says,
        )

    def definitions(self) -> Html:
        """Return what the drawings are made of, to stand once in the page."""
        if not self._defined:
            return html()
        return element(
            "svg",
            element("defs", *self._defined),
            width=0,
            height=0,
            class_="defs",
            aria_hidden="true",
            focusable="false",
        )

    def _define_node(self, gpus: list[list[Part]]) -> _Drawn:
        columns = min(len(gpus), 4 if len(gpus) <= 8 else 8)
        rows = -(-len(gpus) // columns)
        wide = 160 if columns <= 2 else 72  # where there are few, their slices have room for a name
        width = 2 * _PAD + columns * (wide + _GAP) - _GAP
        height = _BAND + rows * (_HIGH + _GAP)
        drawn = _Drawn(f"n{len(self._nodes)}", width, height)
        cells = [
            _gpu(index, parts, _PAD + index % columns * (wide + _GAP), _BAND + index // columns * (_HIGH + _GAP), wide)
            for index, parts in enumerate(gpus)
        ]
        box = element("rect", x=0.5, y=0.5, width=width - 1, height=height - 1, rx=5, class_="node")
        self._defined.append(element("g", box, _svg_text(_PAD, 12, "node"), *cells, id=drawn.id))
        return drawn

    def _define_row(self, plan: PoolPlan) -> _Drawn:
        shown = min(plan.max_nodes, _MOST_NODES)
        boxes = [
            element(
                "rect",
                x=0.5 + index * (_NODE + 3),
                y=1,
                width=_NODE,
                height=_NODE,
                rx=2,
                class_="node" if index < plan.min_nodes else "node may",
            )
            for index in range(shown)
        ]
        words = nodes_in_words(plan)
        at = shown * (_NODE + 3) + 4
        drawn = _Drawn(f"r{len(self._rows)}", at + 6 * len(words) + 12, _NODE + 4)
        self._defined.append(element("g", *boxes, _svg_text(at, 11, words), id=drawn.id))
        return drawn


def _gpu(index: int, parts: list[Part], x: int, y: int, wide: int) -> Html:
    shown = [
        element("rect", x=x, y=y, width=wide, height=_HIGH, rx=3, class_="gpu"),
        _svg_text(x + 4, y + 11, f"GPU {index}"),
    ]
    at = x + 3.0
    for part in parts:
        taken = (wide - 6) * part.share
        shown += _part(part, at, y + 16, taken)
        at += taken
    return html(*shown)


def _part(part: Part, x: float, y: int, wide: float) -> Iterator[Html]:
    high = _HIGH - 19
    yield element("rect", x=_short(x), y=y, width=_short(wide), height=high, class_="slice")
    shared = part.clients if part.clients <= _MOST_CLIENTS and wide / part.clients >= 6 else 1
    edges = [x + wide * place / shared for place in range(shared + 1)]
    if shared > 1:
        for _, edge in pairwise(edges[:-1]):
            yield element("line", x1=_short(edge), x2=_short(edge), y1=y, y2=y + high, class_="client")
    label = f"×{part.clients}" if part.clients > shared else ""
    text = f"{part.called} {label}".strip() if wide >= 40 else label or part.called
    if text and wide >= 7 * len(text) - 4 and (shared == 1 or part.called):
        yield element("text", text, x=_short(x + 2), y=y + 15, class_="small")


def _svg_text(x: float, y: int, text: str) -> Html:
    return element("text", text, x=x, y=y)


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
