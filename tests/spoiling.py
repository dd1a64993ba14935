"""Text that is nearly what it should be."""

import random

PIECES = (
    *(
        "",
        "{",
        "}",
        "[",
        "]",
        ":",
        ": ",
        ",",
        "\n",
        "\r",
        "\n- ",
        "&a ",
        "*a",
        "<<: *a",
        "!!int ",
        "!x ",
        "'",
        '"',
        "#",
        "\t",
    ),
    *(
        "? ",
        "|",
        ">",
        "%",
        "@",
        "`",
        "\x00",
        "\x85",
        "\u2028",
        "\u202e",
        "9" * 30,
        "~",
        "---\n",
        "...\n",
        "\ufeff",
        "=",
    ),
    *(
        "-",
        "--",
        "\\",
        "$(",
        "`x`",
        "<<EOF\n",
        "1:30",
        "0x",
        "1e999",
        ".nan",
        "é",
        "\U0001f600",
        "null",
        "true",
        "=:",
        ",,",
    ),
)


def spoilt_text(text: str, chance: random.Random) -> str:
    """Put one to four pieces into a text, or in the place of a part of it."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        piece = chance.choice((*PIECES, text[start : start + 20], text[: chance.randrange(len(text) + 1)][-30:]))
        text = text[:start] + piece + text[start + chance.choice((0, 0, 1, 1, 5, 60)) :]
    return text
