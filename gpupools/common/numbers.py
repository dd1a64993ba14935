"""Parses integers in untrusted text."""


def whole_number(text: str, *, digits: int = 9) -> int | None:
    """Return a non-negative integer; None if the text is not one, or has too many digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
