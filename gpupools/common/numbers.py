"""Whole numbers in texts that anybody wrote."""


def whole_number(text: str, *, digits: int = 9) -> int | None:
    """Read a whole number; None for a text that is none, or that has more digits than anybody means."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
