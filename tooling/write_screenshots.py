"""Take the light and dark pictures of the report that README.md and docs/how-to/review-pull-requests.md show.

    python tooling/write_screenshots.py           writes docs/report.png and docs/report-dark.png
    python tooling/write_screenshots.py --check   fails if the structure of the page has changed since

Needs Chromium on PATH, and git; the check needs git alone. A picture carries a digest of how the page was built: its
elements, headings and style sheet, not its words, which change with every rule and every row of data.
"""

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

from gpupools.cli.main import main as gpupools

ROOT = Path(__file__).resolve().parent.parent
Scheme = Literal["light", "dark"]
PICTURES: dict[Scheme, Path] = {"light": ROOT / "docs" / "report.png", "dark": ROOT / "docs" / "report-dark.png"}
_WIDE, _HIGH = 900, 1500
_KEY = b"gpupools page"

_BEFORE = """\
config:
  gpupools:clusters:
    train: {cloud: aws, name: train, region: us-east-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: "arn:aws:iam::123456789012:role/gpu-nodes", kubeconfig: {path: ~/.kube/train}}
    lab: {cloud: gcp, name: lab, project: ml-prod, location: europe-west4,
      service_account: gpu@ml-prod.iam.gserviceaccount.com}
  gpupools:pools:
    big: {clusters: [train], gpu: H100-80GB, gpus_per_node: 8, nodes: {min: 2, max: 4}}
    mixed: {clusters: [train], gpu: A100-40GB, gpus_per_node: 8, nodes: {max: 2}, startup_taint: false,
      sharing: {mode: mig, layout: [3g.20gb, 2g.10gb, 1g.5gb]}}
    shared: {clusters: [lab], gpu: L4, nodes: {max: 6}, sharing: {mode: time-slicing, replicas: 4},
      trust: {team: research}}
"""
_AFTER = (
    _BEFORE.replace("max: 4}}", "max: 6}}").replace("3g.20gb, 2g.10gb, 1g.5gb", "3g.20gb, 3g.20gb")
    + "    slices: {clusters: [lab], gpu: A100-80GB, nodes: {max: 2}, sharing: {mode: mig, profile: 1g.10gb}}\n"
)


def main(arguments: list[str]) -> int:
    """Take the pictures, or say which are stale; return the exit code."""
    if arguments == ["--check"]:
        old = stale()
        for picture in old:
            print(f"{picture.relative_to(ROOT)}: shows an older page; run: python tooling/write_screenshots.py")
        return 1 if old else 0
    built = built_as(page(judged=False))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.html"
        file.write_text(page(judged=True), encoding="utf-8")
        for scheme, taken in _taken(file):
            PICTURES[scheme].write_bytes(_noted(taken, built))
            print(f"{PICTURES[scheme].relative_to(ROOT)}: {PICTURES[scheme].stat().st_size:,} bytes")
    return 0


def stale() -> list[Path]:
    """Return the pictures that do not show the page as it is built now."""
    built = built_as(page(judged=False))
    return [picture for picture in PICTURES.values() if not picture.is_file() or _note(picture.read_bytes()) != built]


def page(*, judged: bool) -> str:
    """Return the report on an edit, as `gpupools report --since main` writes it; judging it takes seconds."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        file = Path("Pulumi.prod.yaml")
        file.write_text(_BEFORE, encoding="utf-8")
        who = ("-c", "user.name=n", "-c", "user.email=e@x.example", "-c", "commit.gpgsign=false")
        plain = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        steps: tuple[tuple[str, ...], ...] = ("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-qm", "x")
        for step in steps:
            subprocess.run(["git", *step], check=True, env=plain, capture_output=True)
        file.write_text(_AFTER, encoding="utf-8")
        words = [] if judged else ["--no-policies"]
        if gpupools(["report", str(file), "--since", "main", "-o", "plan.html", *words]):
            raise SystemExit("the example was rejected")
        return Path("plan.html").read_text(encoding="utf-8")


def built_as(text: str) -> str:
    """Return a digest of how a page is built."""
    parts = _Parts()
    parts.feed(text)
    return hashlib.sha256("\n".join(parts.found).encode()).hexdigest()


class _Parts(HTMLParser):
    """Collects elements with their classes, the words of headings, and the style sheet."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._in = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(f"<{tag} {dict(attrs).get('class', '')}>")
        self._in = tag

    def handle_endtag(self, tag: str) -> None:
        self._in = ""

    def handle_data(self, data: str) -> None:
        if self._in in ("h1", "h2", "h3", "style"):
            self.found.append(data)


def _taken(file: Path) -> Iterator[tuple[Scheme, bytes]]:
    from playwright.sync_api import sync_playwright  # the check needs none

    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        raise SystemExit("chromium is not on PATH; install it")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for scheme in PICTURES:
            opened = browser.new_page(viewport={"width": _WIDE, "height": _HIGH}, color_scheme=scheme)
            opened.goto(file.resolve().as_uri())
            pools = opened.locator(".pools").first.bounding_box()
            assert pools is not None
            high = round(pools["y"] + pools["height"]) + 4  # to the end of the first cluster's pools
            yield scheme, opened.screenshot(clip={"x": 0, "y": 0, "width": _WIDE, "height": high})
        browser.close()


# --- a word in a picture, https://www.w3.org/TR/png-3/#11tEXt ---


def _noted(picture: bytes, note: str) -> bytes:
    """Put a note into a PNG, before its last chunk, which is 12 bytes long."""
    chunk = b"tEXt" + _KEY + b"\0" + note.encode("latin-1")
    whole = (len(chunk) - 4).to_bytes(4, "big") + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    return picture[:-12] + whole + picture[-12:]


def _note(picture: bytes) -> str:
    """Return the note of a PNG; empty for one without."""
    at = 8
    while at + 8 <= len(picture):
        size, kind = int.from_bytes(picture[at : at + 4], "big"), picture[at + 4 : at + 8]
        key, _, value = picture[at + 8 : at + 8 + size].partition(b"\0")
        if kind == b"tEXt" and key == _KEY:
            return value.decode("latin-1")
        at += size + 12
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
