"""The documentation's site is built from the pages, and what is wrong with a page is told."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tooling import write_site

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("material")
    return subprocess.run(
        [sys.executable, "tooling/write_site.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with the pages, what they link to, and what builds the site."""
    write_site.lay_source(tmp_path / "checkout")
    for name in ("mkdocs.yml", "tooling/write_site.py"):
        (tmp_path / "checkout" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "checkout" / name)
    return tmp_path / "checkout"


class Loaded(HTMLParser):
    """Collects what a browser loads to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("img", "script", "iframe", "source") or (tag == "link" and given.get("rel") != "canonical"):
            self.addresses += [str(given[key]) for key in ("src", "href") if given.get(key)]


def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(checkout: Path) -> None:
    done = build(checkout)
    site = checkout / "build" / "site"

    assert done.returncode == 0, done.stderr
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == len(write_site.pages()) + 1  # 404
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text("utf-8"))
        assert len(loaded.addresses) > 2
        assert [each for each in loaded.addresses if re.match(r"(https?:)?//", each)] == [], page
    for style in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?https?://", style.read_text("utf-8")) == [], style
    assert (site / "search" / "search_index.json").stat().st_size > 100_000
    assert (site / "docs" / "reference" / "permissions" / "aws-deploy.json").is_file()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a checkout of one page, with the site's own settings."""
    (tmp_path / "tooling").mkdir()
    shutil.copy(ROOT / "tooling" / "write_site.py", tmp_path / "tooling")
    settings = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{settings}\nnav: [README.md]\n")
    (tmp_path / "README.md").write_text("# Pools\n\nThey are.\n")
    return tmp_path


def test_a_link_an_anchor_and_a_page_that_nobody_finds_end_it(small: Path) -> None:
    (small / "docs").mkdir()
    (small / "docs" / "lost.md").write_text("# Lost\n\n[a](nowhere.md) [b](../README.md#nothing)\n")
    done = build(small)

    assert done.returncode == 1
    for said in ('not included in the "nav"', "nowhere.md", "#nothing"):
        assert said in done.stderr


def test_a_page_that_reads_otherwise_on_the_site_ends_it(small: Path) -> None:
    (small / "README.md").write_text("# Pools\n\nA list that begins at once:\n- one\n- two\n")
    done = build(small)

    assert done.returncode == 1
    assert "README.md: 0 <ul> on the site, 1 on GitHub" in done.stderr
