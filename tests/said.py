"""What `gpupools diff` says of each change, on one line, for tests that compare words."""

from collections.abc import Iterable

from gpupools.diff.pool_change import PoolChange


def joined(lines: Iterable[str]) -> list[str]:
    """Return each headline with its indented lines; a refusal keeps a line of its own."""
    found: list[str] = []
    for line in lines:
        if line.startswith("  ") and found and not line.startswith("  pulumi up rejects"):
            start = ": " if line.count("  ") and not found[-1].endswith("\0") else "; "
            found[-1] = f"{found[-1].removesuffix(chr(0))}{start}{line.strip()}\0"
        else:
            found.append(line)
    return [each.removesuffix("\0") for each in found]


def change_said(change: PoolChange) -> str:
    """Return what only plans tell about a change: headline, decisive fields, reasons."""
    words = [*map(str, change.decisive()), *change.reasons()]
    return f"{change}{': ' if words else ''}{'; '.join(words)}"
