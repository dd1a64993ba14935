"""Build the documentation site in build/site from the pages in the repository.

    python tooling/write_site.py

Pages keep their relative paths, so links in the repository also work on the site; linked files are copied. Exits with 1
if MkDocs warns (a broken link or anchor, a page missing from the navigation), or if it renders tables, lists or code of
a page differently than GitHub.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
SOURCE, SITE = (ROOT / "build" / name for name in ("site-source", "site"))
_COUNTED = ("h1", "h2", "h3", "table", "tr", "ol", "ul", "li", "pre", "img", "blockquote")


def main() -> int:
    """Build the site or print errors; return the exit code."""
    lay_source(SOURCE)
    # Not --quiet: what is not logged, --strict does not count.
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--site-dir", str(SITE)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # of Material, that its successor is called Zensical
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if not line.startswith("INFO ")]
        print(*told, sep="\n", file=sys.stderr)
        return 1
    wrong = [f"{page}: {problem}" for page in pages() for problem in read_differently(page)]
    for each in wrong:
        print(each, file=sys.stderr)
    if not wrong:
        print(f"{SITE.relative_to(ROOT)}: {len(pages())} pages")
    return 1 if wrong else 0


def pages() -> list[Path]:
    """Return the pages, relative to the repository."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(page.relative_to(ROOT) for page in found)


def lay_source(folder: Path) -> None:
    """Copy the pages, and what they link to in the repository."""
    shutil.rmtree(folder, ignore_errors=True)
    for style in ROOT.glob("docs/*.css"):
        _copy(style.relative_to(ROOT), folder)
    for page in pages():
        _copy(page, folder)
        for target in linked(page):
            _copy(target, folder)


def linked(page: Path) -> Iterable[Path]:
    """Yield the files of the repository that a page links to, which are no pages."""
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse((ROOT / page).read_text("utf-8")):
        for part in token.children or ():
            target = str(part.attrGet("href") or part.attrGet("src") or "").partition("#")[0]
            file = (ROOT / page.parent / target).resolve()
            if target and "://" not in target and file.is_file() and file.suffix != ".md":
                yield file.relative_to(ROOT)


def _copy(file: Path, folder: Path) -> None:
    (folder / file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / file, folder / file)


def read_differently(page: Path) -> list[str]:
    """Return how a page on the site differs from CommonMark, which GitHub uses."""
    built = (
        SITE / page.with_suffix("") / "index.html" if page.name != "README.md" else SITE / page.parent / "index.html"
    )
    wanted, found = _Counts("html"), _Counts("article")
    wanted.feed(f"<html>{MarkdownIt('gfm-like', {'linkify': False}).render((ROOT / page).read_text('utf-8'))}</html>")
    found.feed(built.read_text("utf-8"))
    return [
        f"{found.of[tag]} <{tag}> on the site, {wanted.of[tag]} on GitHub; blank lines and indents of 4 are read alike"
        for tag in _COUNTED
        if found.of[tag] != wanted.of[tag]
    ]


class _Counts(HTMLParser):
    """Counts elements inside one that is named."""

    def __init__(self, inside: str) -> None:
        super().__init__()
        self.of: Counter[str] = Counter()
        self._inside = inside
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == self._inside:
            self._depth += 1
        elif self._depth:
            self.of[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._depth -= 1


if __name__ == "__main__":
    sys.exit(main())
