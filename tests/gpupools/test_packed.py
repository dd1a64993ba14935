"""What lies in a value under layers of base64, compression and archives, and what of it is said to be out of reach."""

import base64
import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping

import pytest

from gpupools.read import packed
from gpupools.read.packed import MOST_UNPACKED, Unpacked, looks_encoded, packed_inside, unpacked

TEXT = "apiVersion: v1\nkind: List\nitems: []\n"
RAW = TEXT.encode()


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def zipped(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def tarred(files: Mapping[str, bytes], *, link: str = "") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        if link:
            member = tarfile.TarInfo(link)
            member.type, member.linkname = tarfile.SYMTYPE, "a"
            archive.addfile(member)
    return made.getvalue()


def times(layers: int, pack: Callable[[bytes], bytes], raw: bytes = RAW) -> bytes:
    for _ in range(layers):
        raw = pack(raw)
    return raw


def told(value: str, *, encoded: bool = False) -> list[tuple[str, str, str]]:
    return [(one.path, one.text, one.opaque) for one in unpacked(value, encoded=encoded)]


WHOLE = [("", TEXT, "")]
RELEASE = {"chart": {}, "manifest": TEXT, "hooks": [{"manifest": "a: 1"}, {}, 7, {"manifest": 2}]}
BINARY = bytes(range(200, 256)) * 2


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(RAW, WHOLE, id="a text"),
        pytest.param(b"\xef\xbb\xbf" + RAW, WHOLE, id="a text with a mark of its bytes' order"),
        pytest.param(BINARY, [], id="bytes that are no text"),
        pytest.param(gzip.compress(RAW), WHOLE, id="gzip"),
        pytest.param(gzip.compress(RAW[:9]) + gzip.compress(RAW[9:]), WHOLE, id="two streams of gzip"),
        pytest.param(gzip.compress(RAW) + b"\0" * 9, WHOLE, id="gzip with padding"),
        pytest.param(gzip.compress(BINARY), [], id="gzip of bytes that are no text"),
        pytest.param(bz2.compress(RAW), WHOLE, id="bzip2"),
        pytest.param(lzma.compress(RAW), WHOLE, id="xz"),
        pytest.param(zlib.compress(RAW, 6), WHOLE, id="zlib"),
        pytest.param(zlib.compress(RAW, 1), WHOLE, id="zlib, fast"),
        pytest.param(zlib.compress(RAW, 9), WHOLE, id="zlib, best"),
        pytest.param(zipped({"a": RAW, "b/": b"", "c": BINARY}), [("!a", TEXT, "")], id="zip"),
        pytest.param(tarred({"a": RAW, "b/c": RAW}, link="d"), [("!a", TEXT, ""), ("!b/c", TEXT, "")], id="tar"),
        pytest.param(gzip.compress(tarred({"a": gzip.compress(RAW)})), [("!a", TEXT, "")], id="gzip in tar in gzip"),
        pytest.param(zipped({"a": tarred({"b": RAW})}), [("!a!b", TEXT, "")], id="tar in zip"),
        pytest.param(b64(RAW).encode(), WHOLE, id="base64 once more"),
        pytest.param(b64(gzip.compress(RAW)).encode(), WHOLE, id="base64 of gzip"),
        pytest.param(b64(BINARY).encode(), [("", b64(BINARY), "")], id="base64 of bytes that are no text"),
        pytest.param(b"\x28\xb5\x2f\xfd" + RAW, [("", "", "is packed with Zstandard")], id="Zstandard"),
        pytest.param(b"\x04\x22\x4d\x18" + RAW, [("", "", "is packed with LZ4")], id="LZ4"),
        pytest.param(b"\xff\x06\x00\x00sNaPpY" + RAW, [("", "", "is packed with Snappy")], id="Snappy"),
        pytest.param(b"7z\xbc\xaf\x27\x1c" + RAW, [("", "", "is packed with 7z")], id="7z"),
        pytest.param(b"Rar!\x1a\x07\x01\x00" + RAW, [("", "", "is packed with RAR")], id="RAR"),
        pytest.param(lzma.compress(RAW, format=lzma.FORMAT_ALONE), WHOLE, id="LZMA"),
        pytest.param(
            lzma.compress(RAW, format=lzma.FORMAT_ALONE)[:40], [("", "", "is damaged lzma")], id="half of LZMA"
        ),
        pytest.param(TEXT.encode("utf-16"), WHOLE, id="UTF-16 with its mark"),
        pytest.param(b"\xfe\xff" + TEXT.encode("utf-16-be"), WHOLE, id="UTF-16, the other order"),
        pytest.param(TEXT.encode("utf-32"), WHOLE, id="UTF-32 with its mark"),
        *(
            pytest.param(TEXT.encode(form), WHOLE, id=f"{form} without a mark")
            for form in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
        ),
        pytest.param(
            TEXT.encode("utf-16")[:-1],
            [("", "", "is marked as UTF-16 or UTF-32 and is neither")],
            id="half of a character",
        ),
        pytest.param(tarred({"a": b"\x28\xb5\x2f\xfd"}), [("!a", "", "is packed with Zstandard")], id="in an archive"),
        pytest.param(gzip.compress(RAW)[:-9], [("", "", "is damaged gzip")], id="half of gzip"),
        pytest.param(b"BZh" + RAW, [("", "", "is damaged bzip2")], id="no bzip2"),
        pytest.param(lzma.compress(RAW)[:40], [("", "", "is damaged xz")], id="half of xz"),
        pytest.param(zlib.compress(BINARY)[:20], [("", "", "is damaged zlib")], id="half of zlib"),
        pytest.param(b"PK\x03\x04" + RAW, [("", "", "is a damaged or locked zip archive")], id="no zip"),
        pytest.param(times(5, gzip.compress), WHOLE, id="as many layers as are opened"),
        pytest.param(times(6, gzip.compress), [("", "", "is packed more than 5 times")], id="one layer more"),
        pytest.param(
            json.dumps(RELEASE).encode(),
            [(".manifest", TEXT, ""), (".hooks[0].manifest", "a: 1", "")],
            id="a release of Helm",
        ),
        pytest.param(
            json.dumps({**RELEASE, "hooks": 7}).encode(), [(".manifest", TEXT, "")], id="a release without hooks"
        ),
        pytest.param(b'{"manifest": "a"}', [("", '{"manifest": "a"}', "")], id="no release, without a chart"),
        pytest.param(
            b'{"manifest": 1, "chart": {}}', [("", '{"manifest": 1, "chart": {}}', "")], id="no release, no text"
        ),
        pytest.param(b'{"manifest"', [("", '{"manifest"', "")], id="no JSON"),
    ],
)
def test_layers_are_undone_one_after_the_other(raw: bytes, expected: list[tuple[str, str, str]]) -> None:
    assert told(b64(raw), encoded=True) == expected


def test_archives_inside_each_other_are_opened_as_deep_as_other_layers() -> None:
    def pack(raw: bytes) -> bytes:
        return zipped({"a": raw})

    assert told(b64(times(5, pack)), encoded=True) == [("!a" * 5, TEXT, "")]
    assert told(b64(times(6, pack)), encoded=True) == [("!a" * 5, "", "is packed more than 5 times")]


def test_layers_of_base64_are_counted_as_well() -> None:
    def pack(raw: bytes) -> bytes:
        return b64(raw).encode()

    assert told(times(6, pack).decode(), encoded=True) == WHOLE
    assert told(times(7, pack).decode(), encoded=True) == [("", b64(RAW), "")]


def test_what_is_no_base64_is_as_it_stands_unless_it_has_to_be() -> None:
    assert told("no base64!") == [("", "no base64!", "")]
    assert told("no base64!", encoded=True) == [("", "", "")]
    assert told("YQ==") == [("", "YQ==", "")], "too short to be an object"
    assert told(b64(RAW)) == WHOLE
    assert told(b64(gzip.compress(b"a"))) == [("", "a", "")]
    assert told(b64(BINARY)) == [("", b64(BINARY), "")]
    assert told(f"  {b64(RAW)[:20]}\n  {b64(RAW)[20:]}\n") == WHOLE


@pytest.mark.parametrize("raw", [RAW + b"?>~", RAW + b"?>", RAW + b"?"])
def test_both_alphabets_of_base64_are_read_padded_or_not(raw: bytes) -> None:
    for value in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        assert told(value.decode()) == told(value.decode().rstrip("=")) == [("", raw.decode(), "")]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a" * 12, True),
        (b"a" * 11, False),
        (b"a\tb\r\nc" * 3, True),
        (b"ab\0" * 12, False),
        (b"a" * 200 + b"\0", True),
        (b"a" * 199 + b"\0", False),
    ],
)
def test_a_text_is_told_from_bytes_that_happen_to_be_unicode(raw: bytes, text: bool) -> None:
    assert told(b64(raw)) == [("", raw.decode() if text else b64(raw), "")]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("a" * 24, True),
        ("a" * 23, False),
        ("a" * 24 + "!", False),
        ("aaa\n" * 8, True),
        (" " + "a" * 24, True),
        ("!" + "a" * 24, False),
        ("", False),
    ],
)
def test_base64_is_looked_for_in_long_words_only(value: str, encoded: bool) -> None:
    assert looks_encoded(value) is encoded


def test_what_unpacks_to_too_much_is_said_to() -> None:
    most = b"a" * MOST_UNPACKED

    assert [len(text) for _, text, _ in told(b64(gzip.compress(most)), encoded=True)] == [MOST_UNPACKED]
    too_much = f"unpacks to more than {MOST_UNPACKED} bytes"
    assert told(b64(gzip.compress(most + b"a")), encoded=True) == [("", "", too_much)]
    in_archive = told(b64(zipped({"a": b"a" * 9, "b": most})), encoded=True)
    assert in_archive == [("!a", "a" * 9, ""), ("", "", f"{too_much} or 500 files")]


def test_an_archive_of_too_many_files_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {str(number): b"a" for number in range(501)}
    for pack in (zipped, tarred):
        found = told(b64(pack(files)), encoded=True)
        assert [len(found), found[-1][2]] == [501, f"unpacks to more than {MOST_UNPACKED} bytes or 500 files"]
        assert len(told(b64(pack({key: files[key] for key in list(files)[:500]})), encoded=True)) == 500
    assert packed.MOST_UNPACKED == 8 * 1024 * 1024


def test_what_is_packed_in_the_words_of_a_script_is_found() -> None:
    word, plain = b64(gzip.compress(RAW * 2)), b64(RAW * 2)
    script = f"echo {word} | base64 -d | gunzip\ncat <<X\n{plain}\nX\nx={b64(BINARY)} y={word[:40]} z=a{'-' * 70}!"

    both = [Unpacked("", TEXT * 2), Unpacked("", TEXT * 2)]
    assert list(packed_inside(script)) == [*both, Unpacked("", "", "is damaged gzip")]
    assert list(packed_inside("echo nothing")) == []
    assert [one.opaque for one in packed_inside(f"echo {b64(gzip.compress(bytes(99), 0))[:80]} | base64 -d")] == [
        "is damaged gzip"
    ]
