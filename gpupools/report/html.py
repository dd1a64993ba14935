"""HTML that cannot be left unescaped: a part is text, and escaped, unless it is an element already."""

from html import escape

from gpupools.console.output import printable


class Html(str):
    """Text that is HTML."""

    __slots__ = ()


_VOID = frozenset({"meta", "br"})


def html(*parts: object) -> Html:
    """Write parts one after the other; what is no `Html` yet is escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(printable(part)) for part in parts))


def element(name: str, /, *parts: object, **attributes: object) -> Html:
    """Write an element without attributes that are None; `class_` and `aria_label` mean `class` and `aria-label`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(printable(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{html(*parts)}</{name}>")
