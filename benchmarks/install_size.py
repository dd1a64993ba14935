"""Measure the disk size of a gpupools installation, per extra and per package.

Sums what the installed packages' own RECORD files say, without bytecode, which `make preview` does not compile
(https://packaging.python.org/en/latest/specifications/recording-installed-packages/).

    python benchmarks/install_size.py
"""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tooling.licences import installed, needed

EXTRAS = ("", "audit", "monitoring", "cluster", "aws", "azure", "gcp", "all")
SHOWN = 8


def size(package: metadata.Distribution) -> int:
    """Return the bytes of a package's files."""
    return sum(file.size or 0 for file in package.files or () if file.suffix != ".pyc")


def sizes(extra: str) -> dict[str, int]:
    """Return the bytes of each package that an extra installs, the largest first."""
    packages = installed()
    names = needed([f"gpupools[{extra}]" if extra else "gpupools"], packages) - {"gpupools"}
    found = {name: size(metadata.distribution(name)) for name in names}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def main() -> int:
    """Print both tables."""
    print("| Installed | MB | Packages |", "| --- | --- | --- |", sep="\n")
    for extra in EXTRAS:
        found = sizes(extra)
        print(f"| `gpupools{f'[{extra}]' if extra else ''}` | {sum(found.values()) / 1e6:.0f} | {len(found)} |")
    found = sizes("all")
    rest = sum(list(found.values())[SHOWN:])
    print("\n| Package of `gpupools[all]` | MB |", "| --- | --- |", sep="\n")
    for name, taken in list(found.items())[:SHOWN]:
        print(f"| {name} | {taken / 1e6:.0f} |")
    print(f"| {len(found) - SHOWN} others | {rest / 1e6:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
