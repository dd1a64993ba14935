"""Undoes base64, compression and archives around texts, as whoever takes such a value would. Pure.

A value may be hostile: what all its layers unpack to, and how many there are, is bounded. What is beyond the bounds,
damaged, or packed in a way that is not read here is told as such; other bytes that are no text (keys, pictures) are
left out, since nothing applies them.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import codecs
import io
import json
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gpupools.read.effort import exhausted, spend

MOST_UNPACKED = 8 * 1024 * 1024
"""Bytes of all layers together; an object of Kubernetes has at most 1.5 MB, and a release of Helm packs to 1 MB."""
_MOST_FILES = 500
_DEEPEST = 5
_LEAST_WORD = 16
LEAST_ENCODED = 24
"""Characters; what is shorter holds no object."""
_MOST_MEMORY = 64 * 1024 * 1024
_UNPACKED_PER_CHARACTER = 8
"""Bytes that are unpacked while one character is looked at."""

# https://www.rfc-editor.org/rfc/rfc1952, https://tukaani.org/xz/xz-file-format.txt, https://sourceware.org/bzip2/,
# https://www.rfc-editor.org/rfc/rfc8878 (Zstandard), https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md,
# https://github.com/google/snappy/blob/main/framing_format.txt, https://www.rarlab.com/technote.htm,
# https://py7zr.readthedocs.io/en/latest/archive_format.html,
# https://github.com/tukaani-project/xz/blob/master/doc/lzma-file-format.txt.
_GZIP, _BZIP2, _XZ, _LZMA = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x5d\x00\x00"
_ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")
_ZIP, _TAR = b"PK\x03\x04", (257, b"ustar")
_NOT_READ = {
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
    b"\xff\x06\x00\x00sNaPpY": "Snappy",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "RAR",
}
# Of a byte order mark, the longer ones first: https://www.unicode.org/faq/utf_bom.html.
_MARKED = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Without one by where the zeros are, since an object and a script begin with two characters of ASCII:
# https://www.rfc-editor.org/rfc/rfc4627#section-3.
_UNMARKED = {"x000": "utf-32-le", "000x": "utf-32-be", "x0x0": "utf-16-le", "0x0x": "utf-16-be"}
# In one line or several, whose ends JSON writes as `\\n`; the last may be short, and look like any word.
_WORD = re.compile(
    r"(?<![\w+/-])(?P<lines>[A-Za-z0-9+/_-]{60,}+(?:(?:\\n|\s)++[A-Za-z0-9+/_-]{60,}+)*+)"
    r"(?P<last>(?:\\n|\s)++[A-Za-z0-9+/_-]{1,59})?={0,2}(?![\w+/-])"
)
_LINE_ENDS = re.compile(r"\\n|\s+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_ENCODED = re.compile(r"[A-Za-z0-9+/_\s-]+={0,2}\s*")


@dataclass(frozen=True)
class Unpacked:
    """A text inside a value."""

    path: str
    """What leads to it inside the value, such as `!templates/np.yaml` of an archive; empty for all of it."""
    text: str
    opaque: str = ""
    """Why there is no text, e.g. `is packed with Zstandard`."""


@dataclass
class _Left:
    bytes_: int = MOST_UNPACKED
    files: int = _MOST_FILES


def unpacked(value: str, *, encoded: bool = False) -> Iterator[Unpacked]:
    """Yield the texts of a value: itself, or what its layers hold.

    Args:
        value: As it stands in an object.
        encoded: Whether it is base64 for certain, as in the `data` of a Secret.
    """
    raw = _from_base64(value)
    if encoded:
        yield from _opened(raw or b"", "", _Left(), _DEEPEST)
    elif raw is not None and (_is_packed(raw) or _is_text(raw)):
        yield from _opened(raw, "", _Left(), _DEEPEST)
    else:
        yield Unpacked("", value)


def packed_inside(text: str) -> Iterator[Unpacked]:
    """Yield what is packed in the words of a script, such as `echo H4sI… | base64 -d | gunzip`."""
    left = _Left()
    found: set[bytes] = set()
    for number, tries in enumerate(_encoded_in(text)):
        if number >= _MOST_FILES:
            yield Unpacked("", "", f"has more than {_MOST_FILES} words that may be base64")
            return
        for word in tries:
            raw = _from_base64(_LINE_ENDS.sub("", word))
            if raw is not None and (_is_packed(raw) or _is_text(raw)):
                if raw not in found:
                    found.add(raw)
                    yield from _opened(raw, "", left, _DEEPEST)
                break
    together = list(islice(_put_together(text), _MOST_FILES)) if "$" in text else []
    for word in together:
        raw = _from_base64(word) if word else None
        if raw is not None and raw not in found and (_is_packed(raw) or _is_text(raw)):
            found.add(raw)
            yield from _opened(raw, "", left, _DEEPEST)
        elif raw is None or raw not in found:
            yield Unpacked("", "", "is put together of parts that are not known here")
            return
    if not found and applies_packed(text):
        yield Unpacked("", "", "is packed in a way that is not read here")


def applies_packed(text: str) -> bool:
    """Say whether a script runs or applies what stands in it, packed: `… | base64 -d | sh`, or through a file."""
    return any(_LITERAL.search(" ".join(said)) for said in _handed_on(text, _RUN, _RUNS))


def _put_together(text: str) -> Iterator[str]:
    """Yield what a script puts together of variables to unpack and run it; empty where one of them is not known."""
    known: dict[str, str] = {}
    handed_on = list(_handed_on(text, _RUN_BY_SHELL, _RUNS_BY_SHELL))
    for variable, _, quoted, bare in _ASSIGNED.findall(text) if handed_on else ():
        known[variable] = "" if variable in known else quoted or bare  # which of two holds then is not known
    for before, after in handed_on:
        here = _FROM_HERE.match(after)
        for words in _OF_VARIABLES.findall(here[0] if here else before):
            used = _VARIABLE.findall(words)
            whole = all(known.get(name) for name in used)
            yield _VARIABLE.sub(lambda match: known[match[1]], words) if whole else ""


def _handed_on(text: str, run: str, runs: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield what a script unpacks and hands on to a program: what stands before the command, and after it.

    Args:
        text: The script.
        run: Finds a program before the file that it runs.
        runs: Finds a program that the unpacked text goes into.
    """
    files: dict[str, tuple[str, str]] = {}
    for line in _COMMANDS.split(text.replace("\\\n", "")) if _UNPACKS.search(text) else ():
        match = _UNPACKS.search(line)
        if match is None:
            continue
        source = line[: match.start()][-_LONGEST_COMMAND:]
        said = source, line[match.end() : match.end() + _LONGEST_COMMAND]
        into = _INTO.search(line, match.end()) or _HELD.search(source)
        if runs.search(line, match.end()) or _IN_PLACE.search(source):
            yield said
        elif into and len(files) < _MOST_WRITTEN:
            files[into[1]] = said
    named = "|".join(map(re.escape, sorted(files)))
    ran = rf"{run}\s+(?:-\S+\s+)*[\"']?(?:\$\{{?)?(?P<file>{named})(?![\w.-])"
    for found in re.finditer(ran, text) if files else ():
        if found["file"] in files:
            yield files.pop(found["file"])


_MOST_WRITTEN = 20
_COMMANDS = re.compile(r"\n|;|&&|\|\|")
_UNPACKS = re.compile(
    r"\b(?:base(?:64|32)\s+(?:-\S+\s+)*-{1,2}[dD]|openssl\s+(?:enc|base64)\b|xxd\s+-\w*r|uudecode|unzstd|zstd\s+-\w*d"
    r"|(?:brotli|xz|lz4|lzma|bzip2)\s+-\w*d)"
    # Letters turned round, put for others, or written as numbers.
    r"|\|\s*(?:rev\b|tr\s+[\"']?\w-\w\S*\s+[\"']?\w-\w)|(?<=printf)\s+[\"']?(?=(?:\\x[0-9a-fA-F]{2}|\\[0-7]{3}){4})"
)
_LITERAL = re.compile(r"<<|\b(?:echo|printf)\s+(?:-\w+\s+)*[\"']?[^\s$\"'-]")
_TO_SHELL = r"\|\s*(?:(?:sudo|env|exec|nohup|xargs)\s+(?:-\S+\s+)*)?(?:/\S*/)?"
_RUNS = re.compile(rf"{_TO_SHELL}(?:(?:ba|da|z|k|a)?sh|kubectl|oc|k|eksctl|python[\d.]*|perl|ruby|node)(?![\w.-])")
_RUNS_BY_SHELL = re.compile(rf"{_TO_SHELL}(?:(?:ba|da|z|k|a)?sh|python[\d.]*|perl|ruby|node)(?![\w.-])")
_IN_PLACE = re.compile(
    r"(?:\beval|\b(?:(?:ba|da|z|k|a)?sh|python[\d.]*)(?:\s+-\w+)*|\bsource|(?<!\S)\.)\s+(?:<<<\s*)?[\"']?(?:\$\(|<\(|`)[^)`]*$"
)
_INTO = re.compile(r">\s*[\"']?([\w./~$-]{1,200})")
_HELD = re.compile(r"(?<![\w$])(\w{1,60})=[\"']?(?:\$\(|`)[^)`]*$")
_BY_SHELL = (
    r"(?:ba|da|z|k|a)?sh|eval|source|(?<!\S)\.|python[\d.]*|chmod\s+(?:\S{0,9}\+\w{0,2}x|[0-7]{0,3}[1357][0-7]{0,2})"
)
_RUN = rf"(?:{_BY_SHELL}|-f)"
_RUN_BY_SHELL = rf"(?:{_BY_SHELL})"
_FROM_HERE = re.compile(r"[^\n|]{0,99}?<<<[^\n|]{1,2000}")
_LONGEST_COMMAND = 2_000
_ASSIGNED = re.compile(
    r"(?<![\w$=+/-])(\w{1,60})=(?:([\"'])([A-Za-z0-9+/=_\s-]{1,20000}+)\2|([A-Za-z0-9+/=_-]{1,20000}+)(?=[\s;&|]|$))"
)
_OF_VARIABLES = re.compile(
    r"(?<![A-Za-z0-9+/=_-])(?:[A-Za-z0-9+/=_-]++|\$\{?\w{1,60}\}?)*\$\{?\w{1,60}\}?(?:[A-Za-z0-9+/=_-]|\$\{?\w{1,60}\}?)*"
)
_VARIABLE = re.compile(r"\$\{?(\w{1,60})\}?")

# Then words and lines of any length may be base64.
_DECODES = re.compile(r"b(?:ase)?64|openssl", re.IGNORECASE)
_QUOTED = re.compile(r"([\"'])(?P<words>[A-Za-z0-9+/_=-]++\s[A-Za-z0-9+/_=\s-]++)\1")
_SHORT = re.compile(rf"(?<![\w+/-])[A-Za-z0-9+/_-]{{{_LEAST_WORD},59}}={{0,2}}(?![\w+/=-])")


def _encoded_in(text: str) -> Iterator[tuple[str, ...]]:
    """Yield what may be base64 in a script, each in the ways in which it may begin and end, the likeliest first."""
    for match in _WORD.finditer(text):
        yield (match[0], match["lines"]) if match["last"] else (match[0],)
    if not _DECODES.search(text):
        return
    spend(3 * len(text))
    whole = text.replace("\\\n", "")
    if whole != text:
        yield from ((match[0],) for match in _WORD.finditer(whole))
    yield from ((match["words"],) for match in _QUOTED.finditer(whole))
    run: list[str] = []
    rest: list[str] = []
    for line in (*_QUOTED.sub(" ", whole).split("\n"), ""):
        bare = line.strip()
        if bare and _BASE64.fullmatch(bare):
            run.append(bare)
            if not bare.endswith("="):
                continue
        else:
            rest.append(line)
        if len(run) > 1 and sum(map(len, run)) >= LEAST_ENCODED:
            # The last may be what ends a here-document, and words of the shell.
            yield tuple("".join(run[: len(run) - after]) for after in range(min(len(run), 4)))
        else:
            rest += run
        run = []
    yield from ((match[0],) for match in _SHORT.finditer("\n".join(rest)))


def looks_encoded(value: str) -> bool:
    """Say cheaply whether a text may be base64 as a whole, in lines of any length."""
    return len(value) >= LEAST_ENCODED and _ENCODED.fullmatch(value) is not None


def _opened(raw: bytes, path: str, left: _Left, deep: int) -> Iterator[Unpacked]:
    """Yield what lies in some bytes, layer by layer."""
    layer = _layer(raw)
    if layer in _NOT_READ.values():
        yield Unpacked(path, "", f"is packed with {layer}")
    elif layer and deep <= 0:
        yield Unpacked(path, "", f"is packed more than {_DEEPEST} times")
    elif layer in ("zip", "tar"):
        try:
            for name, content in (_zipped if layer == "zip" else _tarred)(raw, left):
                yield from _opened(content, f"{path}!{name}", left, deep - 1)
        except _TooMuch:
            yield Unpacked(path, "", _too_much(f"{MOST_UNPACKED} bytes or {_MOST_FILES} files"))
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, NotImplementedError, OSError,
                RuntimeError, EOFError, ValueError, LookupError):  # fmt: skip
            yield Unpacked(path, "", f"is a damaged or locked {layer} archive")
    elif layer:
        try:
            inner = _expanded(raw, layer, left)
        except _TooMuch:
            yield Unpacked(path, "", _too_much(f"{MOST_UNPACKED} bytes"))
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, MemoryError):
            yield Unpacked(path, "", f"is damaged {layer}")
        else:
            yield from _opened(inner, path, left, deep - 1)
    else:
        yield from _texts(raw, path, left, deep)


def _too_much(most: str) -> str:
    return f"unpacks to more than {'is looked through in one file' if exhausted() else most}"


def _texts(raw: bytes, path: str, left: _Left, deep: int) -> Iterator[Unpacked]:
    try:
        text = decoded(raw)
    except UnicodeDecodeError:
        if raw.startswith(tuple(_MARKED)):
            yield Unpacked(path, "", "is marked as UTF-16 or UTF-32 and is neither")
        return
    inner = _from_base64(text) if deep > 0 and looks_encoded(text) else None
    if inner is not None and (_is_packed(inner) or _is_text(inner)):
        yield from _opened(inner, path, left, deep - 1)
    elif text.startswith("{") and (release := list(_release(text))):
        yield from (Unpacked(f"{path}.{where}", manifest) for where, manifest in release)
    else:
        yield Unpacked(path, text)


def _release(text: str) -> Iterator[tuple[str, str]]:
    """Yield the rendered manifests of a release of Helm: https://github.com/helm/helm, pkg/release/v1/release.go."""
    with suppress(ValueError, RecursionError):
        release = json.loads(text)
        if isinstance(release, Mapping) and isinstance(release.get("manifest"), str) and "chart" in release:
            yield "manifest", release["manifest"]
            hooks: Any = release.get("hooks")
            for place, hook in enumerate(hooks if isinstance(hooks, list) else []):
                if isinstance(hook, Mapping) and isinstance(hook.get("manifest"), str):
                    yield f"hooks[{place}].manifest", hook["manifest"]


# --- layers -----------------------------------------------------------------------------------------------------------


class _TooMuch(Exception):
    """More than is unpacked here."""


def _layer(raw: bytes) -> str:
    """Name the outermost layer of some bytes; empty for none."""
    if raw.startswith(_GZIP):
        return "gzip"
    if raw.startswith(_BZIP2):
        return "bzip2"
    if raw.startswith(_XZ):
        return "xz"
    if raw.startswith(_LZMA):
        return "lzma"
    if raw.startswith(_ZIP):
        return "zip"
    if raw[_TAR[0] :].startswith(_TAR[1]):
        return "tar"
    if raw.startswith(_ZLIB) and not _is_text(raw):
        return "zlib"
    return next((name for mark, name in _NOT_READ.items() if raw.startswith(mark)), "")


def _is_packed(raw: bytes) -> bool:
    return bool(_layer(raw))


def decoded(raw: bytes) -> str:
    """Return bytes as text, in UTF-8, UTF-16 or UTF-32, with a mark of their order or without.

    Raises:
        UnicodeDecodeError: They are none of these.
    """
    marked = next((codec for mark, codec in _MARKED.items() if raw.startswith(mark)), "")
    return raw.decode(marked or _UNMARKED.get("".join("x" if byte else "0" for byte in raw[:4]), "utf-8-sig"))


def _is_text(raw: bytes) -> bool:
    """Say whether bytes are a text that could be an object or a script, and not only happen to be UTF-8."""
    try:
        text = decoded(raw)
    except UnicodeDecodeError:
        return False
    return len(text) >= LEAST_ENCODED // 2 and all(one.isprintable() or one in "\r\n\t" for one in text[:200])


def _from_base64(value: str) -> bytes | None:
    """Undo base64 of either alphabet, padded or not; None for what is none."""
    bare = "".join(value.split())
    if not _BASE64.fullmatch(bare):
        return None
    bare = bare.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def _unpacker(layer: str) -> Any:
    if layer == "bzip2":
        return bz2.BZ2Decompressor()
    if layer == "xz":
        return lzma.LZMADecompressor(memlimit=_MOST_MEMORY)
    if layer == "lzma":
        return lzma.LZMADecompressor(format=lzma.FORMAT_ALONE, memlimit=_MOST_MEMORY)
    return zlib.decompressobj(wbits=31 if layer == "gzip" else 15)


def _expanded(raw: bytes, layer: str, left: _Left) -> bytes:
    """Undo one compression within the bound; streams one after the other count as one."""
    found = b""
    while raw:
        unpacker = _unpacker(layer)
        part = unpacker.decompress(raw, left.bytes_ + 1)
        _count(left, len(part))
        if not unpacker.eof:
            raise EOFError
        found += part
        raw = unpacker.unused_data
        if _layer(raw) != layer:
            break  # what follows a stream is padding
    return found


def _tarred(raw: bytes, left: _Left) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
        for member in archive:
            _count(left, member.size, files=1)
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file.read(member.size)


def _zipped(raw: bytes, left: _Left) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for member in archive.infolist():
            _count(left, member.file_size, files=1)
            if not member.is_dir():
                with archive.open(member) as file:
                    yield member.filename, file.read(member.file_size)


def _count(left: _Left, size: int, files: int = 0) -> None:
    left.bytes_ -= size
    left.files -= files
    spend(size // _UNPACKED_PER_CHARACTER)
    if left.bytes_ < 0 or left.files < 0 or exhausted():
        raise _TooMuch
