"""Format the old and new value of a setting: short values whole, long ones by their differences. Pure."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LONG = 80
_MOST_PARTS = 6
_MOST_TEXT = 64 * 1024
_CONTEXT = 12
_PAIR = re.compile(r"""["']?([A-Za-z0-9_./-]+)["']?\s*[:=]\s*+(.*)""")

_FRAME = re.compile(
    r"""[^A-Za-z0-9]*$|--|\#|\[.*\]$|["']?[\w./-]+["']?\s*[:=]\s*["']?$|["']?(MIME-Version|Content-Type|apiVersion|kind)["']?:"""
)
"""Lines without content of their own: brackets, headings, the frame of MIME parts and of Kubernetes objects."""


def format_value(value: Any) -> str:
    """Return a value as a stack file has it; long text is truncated."""
    text = _value_text(value)
    return text if len(text) <= _LONG or isinstance(value, list) else f"{text[: _LONG - 1]}…"


def format_change(name: str, old: Any, new: Any) -> str:
    """Return a change of a setting, e.g. `disk_gib 200 → 400`, `user_data (max-pods 10 → 20)`."""
    texts = [_value_text(item) for item in (old, new)]
    if max(map(len, texts)) <= _LONG:
        return f"{name} {texts[0]} → {texts[1]}"
    if all(item is None or isinstance(item, list) for item in (old, new)):
        return f"{name} ({_joined(_item_changes(old or [], new or []))})"
    if any(isinstance(item, str) and "\n" in item for item in (old, new)):
        return f"{name} ({_joined(_line_changes(_text_lines(old), _text_lines(new)))})"
    return "{} {} → {}".format(name, *_differing_parts(*texts))


def _value_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_value_text, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_value_text(item)}' for key, item in value.items())}}}"
    text = str(value)
    return text if text.isprintable() else "".join(character if character.isprintable() else " " for character in text)


def _joined(parts: Sequence[str]) -> str:
    more = len(parts) - _MOST_PARTS
    listed = [part if len(part) <= 2 * _LONG else f"{part[: 2 * _LONG - 1]}…" for part in parts[:_MOST_PARTS]]
    return ", ".join(listed) + (f", and {more} more" if more > 0 else "") if parts else "formatting only"


def _item_changes(old: Sequence[Any], new: Sequence[Any]) -> list[str]:
    before, after = [[_value_text(item) for item in side] for side in (old, new)]
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    found = [f"without {element}" for element in gone.elements()] + [f"with {element}" for element in come.elements()]
    return found or ["reordered"]


def _text_lines(text: object) -> list[str]:
    """Return the lines of a text and of JSON text inside it, without lines of punctuation only."""
    whole = str(text or "")[:_MOST_TEXT].replace("\\n", "\n").replace('\\"', '"')
    lines = (line.strip().rstrip(",{[").rstrip() for line in whole.splitlines())
    return [_value_text(line) for line in lines if not _FRAME.match(line)]


def _line_changes(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the lines that differ, as `key old → new` where a key has one line on both sides."""
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    before, after = dict(_unique_pairs(gone)), dict(_unique_pairs(come))
    both = [key for key in before if key in after]
    paired = {f"{key}\0{value}" for side in (before, after) for key, value in side.items() if key in both}
    rest = [
        f"{how} {line}"
        for how, side in (("without", gone), ("with", come))
        for line in side
        if not ((pair := _PAIR.fullmatch(line)) and f"{pair[1]}\0{pair[2]}" in paired)
    ]
    return [f"{key} {before[key]} → {after[key]}" for key in both] + rest


def _unique_pairs(lines: Counter[str]) -> Iterator[tuple[str, str]]:
    pairs = [pair for line in lines if (pair := _PAIR.fullmatch(line))]
    often = Counter(pair[1] for pair in pairs)
    yield from ((pair[1], pair[2]) for pair in pairs if often[pair[1]] == 1 and pair[2])


def _differing_parts(one: str, other: str) -> tuple[str, str]:
    """Return two long texts without their common beginning and end."""
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    rest = (one[start:][::-1], other[start:][::-1])
    end = next((i for i, (a, b) in enumerate(zip(*rest, strict=False)) if a != b), min(map(len, rest)))
    first, left = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    return _excerpt(one, first, len(one) - left), _excerpt(other, first, len(other) - left)


def _excerpt(text: str, first: int, last: int) -> str:
    cut = text[first:last]
    cut = cut if len(cut) <= 2 * _LONG else f"{cut[: 2 * _LONG - 1]}…"
    return ("…" if first else "") + cut + ("…" if last < len(text) else "")
