"""The pictures in the README and on the page show the report as it is, by daylight and by night."""

import re
import shutil
from pathlib import Path

import pytest

from tooling import write_screenshots

ROOT = Path(__file__).resolve().parents[2]
PAGE = "<style>p{color:red}</style><h1>Pools</h1><p class=warn>1 policy</p>"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")
def test_the_pictures_show_the_page_as_it_is_built() -> None:
    old = [picture.name for picture in write_screenshots.stale()]

    assert old == [], "run: python tooling/write_screenshots.py"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (PAGE.replace("1 policy", "2 policies"), True),
        (PAGE.replace("red", "blue"), False),
        (PAGE.replace("Pools", "Nodes"), False),
        (PAGE.replace("class=warn", "class=bad"), False),
        (PAGE + "<p></p>", False),
    ],
    ids=["other words", "another colour", "another heading", "another class", "another element"],
)
def test_how_a_page_is_built_is_not_its_words(other: str, same: bool) -> None:
    assert (write_screenshots.built_as(other) == write_screenshots.built_as(PAGE)) is same


def test_both_are_shown_and_a_picture_without_its_note_is_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = dict(zip(("dark", "light"), re.findall(r'(?:srcset|src)="([^"]+)"', readme), strict=True))
    assert {scheme: ROOT / name for scheme, name in shown.items()} == write_screenshots.PICTURES
    assert all(
        picture.name in (ROOT / "docs" / "how-to" / "review-pull-requests.md").read_text()
        for picture in write_screenshots.PICTURES.values()
    )

    monkeypatch.setattr(write_screenshots, "ROOT", tmp_path)
    monkeypatch.setattr(write_screenshots, "PICTURES", {"light": tmp_path / "a.png", "dark": tmp_path / "none.png"})
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(12))
    assert write_screenshots.main(["--check"]) == 1
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["a.png", "none.png"]
