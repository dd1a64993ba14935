"""The page in a real Chromium: light, dark, on paper, on a phone, with the keyboard and for a screen reader."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main
from gpupools.report.page import page
from tests.report.conftest import STACK, Write
from tests.report.test_page import hostile_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium is on PATH")]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def shown(chromium: Any, stack_file: Write) -> Iterator[Any]:
    """Return a function that opens the page in a browser that is like this."""
    opened = []

    def show(text: str | None = None, **like: Any) -> Any:
        file = Path("plan.html")
        if text is None:
            assert main(["report", str(stack_file()), "-o", str(file), "--force", "--no-policies"]) == 0
        else:
            file.write_text(text, encoding="utf-8")
        context = chromium.new_context(**like)
        opened.append(context)
        page = context.new_page()
        page.asked = []
        page.complained = []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.complained.append(message.text))
        page.on("dialog", lambda dialog: page.complained.append(dialog.message))
        page.goto(file.resolve().as_uri())
        return page

    yield show
    for context in opened:
        context.close()


def test_only_the_page_itself_is_loaded_and_no_value_runs(shown: Any, stack_file: Write) -> None:
    for text in (None, page([hostile_report(stack_file)])):
        opened = shown(text)

        assert [each for each in opened.asked if not each.startswith("file:")] == []
        assert len(opened.asked) == 1
        assert opened.complained == []
        assert opened.evaluate("document.scripts.length + document.images.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(scheme: str, shown: Any) -> None:
    """Of WCAG 2.2, 1.4.3: a contrast of 4.5 at least."""
    opened = shown(color_scheme=scheme)

    worst = opened.evaluate(CONTRAST)
    assert worst["count"] > 50
    assert worst["ratio"] >= 4.5, worst
    bright = sum(map(int, opened.evaluate("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")))
    assert (bright > 384) is (scheme == "light")


CONTRAST = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => { const [r, g, b] = parts(colour).map(v => v / 255).map(
    v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = node => { for (let e = node; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor, c = parts(colour);
    if (c.length < 4 || c[3] > 0) return colour; } };
  const found = [];
  const compare = (fg, bg, text) => { const [a, b] = [light(fg), light(bg)].sort((x, y) => y - x);
    found.push({ratio: (a + 0.05) / (b + 0.05), text}); };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) { const e = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() && !(e instanceof SVGElement))
      compare(getComputedStyle(e).color, behind(e), walker.currentNode.data); }
  // In a drawing a text stands on the node, a GPU or a slice.
  for (const t of document.querySelectorAll("svg text")) for (const on of [".gpu", ".slice", "rect.node"])
    for (const r of document.querySelectorAll(on)) if (getComputedStyle(r).fill !== "none")
      compare(getComputedStyle(t).fill, getComputedStyle(r).fill, t.textContent);
  found.sort((a, b) => a.ratio - b.ratio);
  return {...found[0], count: found.length};
}"""


@pytest.mark.parametrize("width", [320, 400, 1400])
def test_the_page_is_as_wide_as_the_screen(width: int, shown: Any, stack_file: Write) -> None:
    for text in (None, page([hostile_report(stack_file)])):
        opened = shown(text, viewport={"width": width, "height": 700})

        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        assert (
            opened.evaluate(
                "Math.max(...[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect().right))"
            )
            <= width
        )


def test_every_drawing_is_as_large_as_what_it_shows(shown: Any) -> None:
    """What would stick out of a drawing is cut off."""
    opened = shown()

    sizes = opened.evaluate(
        "[...document.querySelectorAll('svg[role=img]')].map(e => { const b = e.getBBox(), v = e.viewBox.baseVal;"
        " return [b.x + b.width - v.width, b.y + b.height - v.height]; })"
    )
    assert len(sizes) == 3
    assert all(wide <= 0 and high <= 0 for wide, high in sizes), sizes


def test_paper_shows_what_a_screen_folds_away(shown: Any) -> None:
    opened = shown(color_scheme="dark")
    opened.emulate_media(media="print", color_scheme="dark")
    seen = "[...document.querySelectorAll('details > *:not(summary)')].map(e => e.getBoundingClientRect().height)"

    assert opened.evaluate("document.querySelectorAll('details').length") > 0
    assert all(high > 0 for high in opened.evaluate(seen))
    assert opened.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert opened.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert opened.pdf().startswith(b"%PDF")


def test_the_keyboard_reaches_everything(shown: Any) -> None:
    opened = shown()
    reached: list[str] = []
    for _ in range(60):
        opened.keyboard.press("Tab")
        name = opened.evaluate("document.activeElement.outerHTML.slice(0, 40)")
        if name.startswith("<body") or name in reached[:1]:
            break
        reached.append(name)
        assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    total = opened.evaluate("document.querySelectorAll('a, summary, [tabindex]').length")

    assert reached[0].startswith('<a href="#main"')
    assert len(reached) == total
    opened.locator("summary").first.focus()
    opened.keyboard.press("Enter")
    assert opened.evaluate("document.querySelector('details').open") is True


def test_a_screen_reader_is_told_the_same(shown: Any) -> None:
    told = shown().locator("body").aria_snapshot()

    assert 'heading "GPU pools: dev" [level=1]' in told
    assert 'navigation "On this page"' in told
    assert 'region "Cluster train on aws"' in told
    assert 'img "Pool big: 2 to 4 nodes of 8 × H100-80GB, sharing none, each offers 8 nvidia.com/gpu"' in told
    assert 'columnheader "tolerated by"' in told
    assert "GPU 0" not in told  # what a drawing is made of is said once, by its name


def test_a_large_page_opens(shown: Any, stack_file: Write) -> None:
    pools = "".join(f"    p{each}: {{clusters: [lab], gpu: L4, nodes: {{max: 6}}}}\n" for each in range(1000))
    stack_file(STACK.partition("    big:")[0] + pools, "Pulumi.big.yaml")
    assert main(["report", "Pulumi.big.yaml", "-o", "big.html", "--no-policies"]) == 0

    opened = shown(Path("big.html").read_text(encoding="utf-8"))
    assert opened.evaluate("document.querySelectorAll('article svg').length") == 1000
