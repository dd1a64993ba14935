"""Takes user data apart as cloud-init does: which scripts run, and the one configuration that its parts make. Pure.

After `cloudinit/user_data.py`, `handlers/`, `mergers/` and `config/cc_write_files.py` of canonical/cloud-init, which
nodes of Amazon Linux and Ubuntu run (https://docs.cloud-init.io/en/latest/explanation/format.html). No node runs what
it passes over (an unknown type, a configuration that is no map, a script that another of its name replaces), so a taint
in it is none. `tests/providers/test_cloud_init_reads_the_same.py` compares this with the real one.
"""

import base64
import re
import zlib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpupools.base.errors import Rejected
from gpupools.read.inputs import at, is_list, text

if TYPE_CHECKING:
    from email.message import Message

MOST_UNPACKED = 256 * 1024
_MOST_VALUES = 10_000
_MOST_PARTS = 200
_LOOKED_AT = 4096
"""Bytes in which cloud-init looks for `MIME-Version:`."""

# The longer words first. `INCLUSION_TYPES_MAP` of cloudinit/handlers/__init__.py.
_BEGINS = (
    ("#cloud-config-archive", "text/cloud-config-archive"),
    ("#cloud-config-jsonp", "text/cloud-config-jsonp"),
    ("## template: jinja", "text/jinja2"),
    ("#cloud-boothook", "text/cloud-boothook"),
    ("#include-once", "text/x-include-once-url"),
    ("#cloud-config", "text/cloud-config"),
    ("#part-handler", "text/part-handler"),
    ("#include", "text/x-include-url"),
    ("#!", "text/x-shellscript"),
)
_TOLD_BY_TEXT = ("text/plain", "text/x-not-multipart", "text/x-shellscript")
_OF_GZIP = (
    "gzip",
    "gzip-compressed",
    "gzipped",
    "x-gzip",
    "x-gzip-compressed",
    "x-gunzip",
    "x-compress",
    "x-compressed",
)
_GZIPPED = frozenset(f"application/{name}" for name in _OF_GZIP)
_REMOTE = ("text/x-include-url", "text/x-include-once-url")
_SCRIPTS = ("text/x-shellscript", *(f"text/x-shellscript-per-{often}" for often in ("boot", "instance", "once")))
_IN_JINJA = ("text/cloud-config", "text/cloud-config-jsonp", "text/x-shellscript", "text/cloud-boothook")
_JINJA = re.compile(r"##\s*template:\s*jinja\s*(?:\n|\Z)", re.IGNORECASE)
_RENDERED = re.compile(r"\{[%#]|\{\{[^}]*[^\w\s.\[\]'\"}-]")
"""What a template may leave out or put together; a plain name of a value cannot be a taint."""
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?.*")
"""What YAML makes a date of, which is no command."""
_UNWRITABLE = re.compile("[\ud800-\udfff]")
_HOW_TO_MERGE = "dict(replace)+list()+str()"
_MERGER = re.compile(r"([a-z_]\w*)\((.*?)\)")
_MERGERS = ("dict", "list", "str")
_UNFIT = (ValueError, TypeError, LookupError, AttributeError)
"""What Python says of values that do not fit, for which cloud-init leaves the part out."""
_GZIP = b"\x1f\x8b"
# Of config/cloud.cfg.tmpl: the modules of which a configuration may leave some out.
_RUN_IN = {
    "bootcmd": ("cloud_init_modules", ("bootcmd",)),
    "write_files": ("cloud_init_modules", ("write_files",)),
    "runcmd": ("cloud_config_modules", ("runcmd",)),
    "snap": ("cloud_config_modules", ("snap",)),
    "scripts": ("cloud_final_modules", ("scripts_user",)),
}


class _NotRead(Exception):
    """A patch has a step of another kind than those that are read here."""


@dataclass
class Taken:
    """What cloud-init takes of user data."""

    scripts: list[str] = field(default_factory=list)
    """What runs as it stands, boot hooks among it."""
    config: dict[str, Any] = field(default_factory=dict)
    """What all cloud-configs make together."""
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    """Parts that it does not take, with their types."""
    remote: bool = False
    """True when more of it lies at an address, or a handler of its own takes parts."""
    doubtful: bool = False
    """True when only the machine knows what it takes of it: a template with conditions, a part that is damaged."""


@dataclass(frozen=True)
class Written:
    """A file that a configuration writes."""

    path: str
    content: bytes
    address: str = ""
    """Where its content comes from, if that can be reached."""
    cut: bool = False
    """True when there is more of it than is read here."""


def take(content: str) -> Taken:
    """Take user data apart, as the first start of a machine does."""
    reading = _Taking()
    for message in _leaves(content):
        reading.message(message)
    return reading.result()


def is_mime_for_it(content: str) -> bool:
    """Say whether cloud-init takes user data for MIME: it may begin with any header, or with a comment."""
    return "mime-version:" in content[:_LOOKED_AT].lower()


def commands(config: Mapping[str, Any], key: str) -> list[Any]:
    """Return the commands of `bootcmd` or `runcmd`, each as text or as words; none where cloud-init fails on one."""
    each = _list_of(config, key)
    return [one for one in each if one is not None] if all(_is_command(one) for one in each) else []


def files(config: Mapping[str, Any]) -> list[Written]:
    """Return the files of `write_files` as they lie on the node in the end."""
    written: dict[str, Written] = {}
    left = MOST_UNPACKED
    for one in _list_of(config, "write_files"):
        if not isinstance(one, Mapping):
            break  # cloud-init fails here, and what stands before is written
        path, address = one.get("path"), text(at(one, "source.uri"))
        if not isinstance(path, str):
            if path:
                break
            continue
        try:
            content = _content(one.get("content"), text(one.get("encoding")), left)
        except (ValueError, zlib.error, EOFError):
            break
        before = written.get(path) if str(one.get("append")).lower() in _TRUE else None
        left -= len(content)
        whole = (before.content if before else b"") + content
        written[path] = Written(path, whole, address) if left >= 0 else Written(path, b"", address, cut=True)
    return list(written.values())


_TRUE = ("true", "1", "on", "yes")


def _list_of(config: Mapping[str, Any], key: str) -> list[Any]:
    given = config.get(key)
    return list(given) if isinstance(given, list) and _runs(config, key) else []


def _is_command(given: Any) -> bool:
    return given is None or is_list(given) or (isinstance(given, str) and _DATE.fullmatch(given) is None)


def _content(given: Any, encoding: str, most: int) -> bytes:
    """Undo the encoding of a file, of which cloud-init knows these alone."""
    encoding = encoding.lower().strip()
    if given is None:
        return b""
    if not isinstance(given, str):
        raise ValueError
    raw = encoded(given)
    if encoding in ("b64", "base64", *(f"{gz}+{b64}" for gz in ("gz", "gzip") for b64 in ("b64", "base64"))):
        raw = from_base64(raw)
    if encoding.startswith("gz") and encoding in ("gz", "gzip", "gz+b64", "gzip+b64", "gz+base64", "gzip+base64"):
        # YAML's own `!!binary`, which is what carries bytes here, is read as text.
        raw = gunzipped(raw if raw.startswith(_GZIP) else from_base64(raw), max(most, 0))
    return raw


def encoded(content: str) -> bytes:
    """Return a text as bytes, those that were no text as they were."""
    try:
        return content.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return content.encode(errors="replace")


def as_unicode(content: str) -> str:
    """Return a text without what is no character, on which Python's reader of MIME fails."""
    return encoded(content).decode(errors="replace")


def from_base64(raw: bytes) -> bytes:
    """Undo base64 as cloud-init does with a file, which passes over any other character.

    Raises:
        binascii.Error: It is none.
    """
    return base64.b64decode(raw)


def gunzipped(raw: bytes, most: int = MOST_UNPACKED) -> bytes:
    """Undo gzip, of one stream or several; no more than `most` bytes of it.

    Raises:
        zlib.error: It is damaged.
        EOFError: It is cut off.
    """
    found = b""
    while raw and len(found) <= most:
        unpacker = zlib.decompressobj(wbits=31)
        found += unpacker.decompress(raw, most + 1 - len(found))
        if unpacker.unconsumed_tail or len(found) > most:
            break
        if not unpacker.eof:
            raise EOFError
        raw = unpacker.unused_data.lstrip(b"\0")  # what a stream may be padded with
    return found


def _runs(config: Mapping[str, Any], what: str) -> bool:
    """Say whether the configuration leaves the module in its list that runs this."""
    stage, wanted = _RUN_IN[what]
    if not is_list(config.get(stage)):
        return True
    listed = [text(one[0] if is_list(one) and one else at(one, "name") or one) for one in config[stage]]
    return {name.replace("-", "_").lower().removeprefix("cc_") for name in listed}.issuperset(wanted)


class _Taking:
    """Takes one part after the other."""

    def __init__(self) -> None:
        self.taken = Taken()
        self.named: dict[str, str] = {}
        self.number = 0

    def result(self) -> Taken:
        taken = self.taken
        taken.scripts += self.named.values()
        if not _runs(taken.config, "scripts"):
            # Neither the parts that are scripts nor what `runcmd` became: both are started there.
            taken.passed_over += [("", script) for script in self.named.values()]
            taken.scripts = taken.scripts[: -len(self.named) or None]
            taken.config.pop("runcmd", None)
        return taken

    def message(self, message: "Message") -> None:
        """Find the type of a part and take it."""
        mime, body, headers = message.get_content_type(), message.get_payload(decode=True), dict(message.items())
        if not isinstance(body, bytes):
            return
        if mime in _GZIPPED:
            try:
                content, mime = gunzipped(body).decode(), "text/plain"
                headers.pop("Merge-Type", None), headers.pop("X-Merge-Type", None)  # lost with the packed part
            except (zlib.error, EOFError, UnicodeDecodeError):
                self.taken.doubtful = True  # since 20.3 it takes no part at all then
                return
        else:
            content = body.decode(errors="surrogateescape")
        if mime in _TOLD_BY_TEXT:
            mime = _told_by(content) or mime
        if mime in _REMOTE:
            self.taken.remote = True
        elif mime == "text/cloud-config-archive":
            self._archive(content)
        else:
            self._part(mime, content, headers, message.get_filename() or "")

    def _archive(self, content: str) -> None:
        """Take the items of an archive, of which none is looked into once more."""
        document = _document(content)
        for item in document if is_list(document) else []:
            one = {"content": item} if isinstance(item, str) else item
            if not isinstance(one, Mapping):
                continue
            body = one.get("content", "")
            mime = text(one.get("type")) or _told_by(text(body)) or "text/cloud-config"
            headers = {str(key): value for key, value in one.items() if key not in ("content", "type", "filename")}
            added = (value for key, value in headers.items() if key != "launch-index")
            if mime.count("/") != 1 or not isinstance(body, str) or not all(isinstance(one, str) for one in added):
                self.taken.doubtful = True
                continue
            self._part(mime.lower(), body, headers, text(one.get("filename")))

    def _part(self, mime: str, content: str, headers: Mapping[str, str], name: str) -> None:
        self.number += 1
        if self.number > _MOST_PARTS:
            self.taken.doubtful = True
            return
        self.taken.doubtful = self.taken.doubtful or any(key.lower() == "launch-index" for key in headers)
        if mime == "text/jinja2":
            found = _JINJA.match(content)
            if found is not None:
                content = content[found.end() :]
                self.taken.doubtful = self.taken.doubtful or _RENDERED.search(content) is not None
                mime = _told_by(content) or ""
                mime = mime if mime in _IN_JINJA else ""
                # It hands on what it rendered as what it was, so a patch is merged like any configuration.
                mime = mime.removesuffix("-jsonp")
        self._taken(mime, content, headers, name)

    def _taken(self, mime: str, content: str, headers: Mapping[str, str], name: str) -> None:
        if mime == "text/cloud-config":
            self._merge(content, headers)
        elif mime == "text/cloud-config-jsonp":
            self._patch(content)
        elif not _is_runnable(mime, content):
            self.taken.remote = self.taken.remote or mime == "text/part-handler"
            self.taken.passed_over.append((mime, content))
        elif mime == "text/cloud-boothook":
            self.taken.scripts.append(content.removeprefix("#cloud-boothook").lstrip())
        else:  # one script replaces another of its name
            name = re.sub(r"[^\w.()-]", "", name.replace("/", "_"), flags=re.ASCII)
            self.named[f"{mime} {name or f'part-{self.number:03}'}"] = content

    def _merge(self, content: str, headers: Mapping[str, str]) -> None:
        document = _document(content)
        if not isinstance(document, Mapping):
            self.taken.passed_over.append(("text/cloud-config", content))
            return
        added = dict(document)
        self.taken.doubtful = self.taken.doubtful or "launch-index" in added
        said = added.pop("merge_how", None)
        said = added.pop("merge_type", None) if said is None else said
        try:
            how = [*_mergers(said), *_mergers(headers.get("Merge-Type") or headers.get("X-Merge-Type"))]
        except _UNFIT:
            self.taken.passed_over.append(("text/cloud-config", content))
            return
        self.taken.config = _Merger(how or _mergers(_HOW_TO_MERGE)).merge(self.taken.config, added)

    def _patch(self, content: str) -> None:
        """Apply a patch of JSON (https://www.rfc-editor.org/rfc/rfc6902), whole or not at all."""
        steps = _document(re.sub(r"(?i)\A\s*#cloud-config-jsonp", "", content))
        patched = deepcopy(self.taken.config)
        try:
            for step in steps if is_list(steps) else []:
                _apply(patched, step)
        except _NotRead:
            self.taken.doubtful = True
        except _UNFIT:
            self.taken.passed_over.append(("text/cloud-config-jsonp", content))
            return
        self.taken.config = patched


def _apply(config: dict[str, Any], step: Any) -> None:
    """Apply one step of a patch; the errors of maps and lists say that it does not fit.

    Raises:
        _NotRead: It copies, moves, tests or changes the whole.
    """
    operation, (first, *keys) = step["op"], step["path"].split("/")
    if operation not in ("add", "replace", "remove") or first or not keys:
        raise _NotRead
    *way, last = (key.replace("~1", "/").replace("~0", "~") for key in keys)
    holder: Any = config
    for key in way:
        holder = holder[int(key) if is_list(holder) else key]
    if not is_list(holder):
        if operation != "add" and last not in holder:
            raise KeyError(last)
        if operation == "remove":
            del holder[last]
        else:
            holder[last] = step["value"]
        return
    place = len(holder) if last == "-" else int(last)
    if not 0 <= place < len(holder) + (operation == "add"):
        raise IndexError(last)
    if operation == "add":
        holder.insert(place, step["value"])
    elif operation == "remove":
        del holder[place]
    else:
        holder[place] = step["value"]


class _Merger:
    """Merges as told by the names of mergers and their options, as cloudinit/mergers do."""

    def __init__(self, how: list[tuple[str, list[str]]]) -> None:
        self.options: dict[str, list[str]] = {}
        for name, options in how:
            self.options.setdefault(name, options)  # the first that can counts

    def merge(self, old: Any, new: Any) -> Any:
        kind = "dict" if isinstance(old, Mapping) else "list" if is_list(old) else "str" if isinstance(old, str) else ""
        if kind not in self.options:
            return old
        return getattr(self, f"_{kind}")(old, new, self.options[kind])

    def _dict(self, old: Mapping[str, Any], new: Any, options: list[str]) -> Any:
        if not isinstance(new, Mapping):
            return old
        merged = dict(old)
        replaces = "replace" in options
        for key, value in new.items():
            if key not in merged:
                merged[key] = value
            elif value is None and "allow_delete" in options:
                del merged[key]
            elif replaces:
                merged[key] = value
            elif isinstance(value, Mapping) or _goes_in(value, options):
                merged[key] = self.merge(merged[key], value)
        return merged

    def _list(self, old: list[Any], new: Any, options: list[str]) -> Any:
        way = next((one for one in ("append", "prepend", "replace", "no_replace") if one in options), "replace")
        if way == "replace" and not is_list(new):
            return new
        if way in ("append", "prepend"):
            added = list(new) if is_list(new) or isinstance(new, (str, Mapping)) else []
            return [*old, *added] if way == "append" else [*added, *old]
        merged = list(old)
        for place, value in enumerate(list(new)[: len(merged)] if way == "replace" else []):
            goes_in = _goes_in(value, options) or (isinstance(value, Mapping) and "recurse_dict" in options)
            merged[place] = self.merge(merged[place], value) if goes_in else value
        return merged

    def _str(self, old: str, new: Any, options: list[str]) -> Any:
        return old + new if "append" in options and isinstance(new, str) else new


def _goes_in(value: Any, options: list[str]) -> bool:
    if is_list(value):
        return "recurse_array" in options or "recurse_list" in options
    return isinstance(value, str) and "recurse_str" in options


def _mergers(said: Any) -> list[tuple[str, list[str]]]:
    """Read how to merge, such as `list(append)+dict(recurse_array)`.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: cloud-init cannot read it, and leaves the part out.
    """
    found: list[tuple[str, list[str]]] = []
    if not said:
        return found
    for one in said.split("+") if isinstance(said, str) else said:
        if isinstance(said, str):
            word = one.lower().strip().replace("-", "_")
            if not word:
                continue
            match = _MERGER.fullmatch(word)
            if match is None:
                raise ValueError(word)
            name, options = match[1], [option.strip() for option in match[2].split(",") if option.strip()]
        elif isinstance(one, Mapping):
            name, options = one["name"].replace("-", "_").strip(), one["settings"]
        else:
            name, options = one[0], list(one[1:])
        name = name.removeprefix("m_")
        if name not in _MERGERS:
            raise ValueError(name)
        found.append((name, list(options)))
    return found


def _leaves(content: str) -> Iterator["Message"]:
    from email import message_from_string  # slow to import and rarely needed
    from email.message import Message

    if is_mime_for_it(content):
        # What is called a multipart and is none holds nothing.
        yield from (
            one for one in message_from_string(as_unicode(content)).walk() if one.get_content_maintype() != "multipart"
        )
        return
    whole = Message()
    whole["Content-Type"] = "text/x-not-multipart"
    whole.set_payload(encoded(content))
    yield whole


def _is_runnable(mime: str, content: str) -> bool:
    """Say whether a part is a script that the node can write, and start by what its first line says."""
    if mime == "text/cloud-boothook":
        content = content.removeprefix("#cloud-boothook")
    elif mime not in _SCRIPTS:
        return False
    # Of text in MIME, cloud-init has no bytes for what is no ASCII and in no encoding.
    return content.lstrip().startswith("#!") and not _UNWRITABLE.search(content)


def _told_by(content: str) -> str:
    """Return the type that the first words of a text tell; empty for none."""
    begins = content.lstrip()[:40].lower()
    return next((mime for words, mime in _BEGINS if begins.startswith(words)), "")


def _document(content: str) -> Any:
    """Parse what must be one document of YAML; None where it is none."""
    from gpupools.base.bounded_yaml import parse_yaml  # only here: most user data is a script

    try:
        found = parse_yaml(content, _MOST_VALUES, _refused_tag)
    except Rejected:
        return None
    return found[0].data if len(found) == 1 else None


def _refused_tag(tag: str, _value: Any) -> Any:
    raise ValueError(tag)
