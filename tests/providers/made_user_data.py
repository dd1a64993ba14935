"""User data in every form that we know of, made by hand and by a seed."""

import base64
import gzip
import json
import random
from collections.abc import Iterator
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart

import yaml

_NAMED = 'Content-Type: text/x-shellscript\nContent-Disposition: attachment; filename="{}"'
JOIN = "#!/bin/sh\nkubeadm join a:6443\n"
TAINTED = "#!/bin/bash\nk3s agent --node-taint=a=b:NoSchedule\n"
_B64 = base64.b64encode


def mime(*parts: tuple[str, str], head: str = "MIME-Version: 1.0\n", end: str = "\n") -> bytes:
    """Write parts as given: each with its headers, one a line, and its body."""
    text = f'{head}Content-Type: multipart/mixed; boundary="b"\n\n'
    text += "".join(f"--b\n{headers}\n\n{body}\n" for headers, body in parts) + "--b--\n"
    return text.replace("\n", end).encode("utf-8", "surrogateescape")


def gzipped(raw: bytes) -> bytes:
    """Return the same bytes whenever it is asked."""
    return gzip.compress(raw, mtime=0)


def config(**keys: object) -> str:
    return f"#cloud-config\n{yaml.safe_dump(keys)}"


SCRIPT = "Content-Type: text/x-shellscript"
CONFIG = "Content-Type: text/cloud-config"
_FILE = {"path": "/etc/a", "content": "one\n"}
_PACKED = _B64(gzipped(JOIN.encode())).decode()


def by_hand() -> Iterator[tuple[str, bytes]]:
    """Yield user data with a name of each."""
    yield "nothing", b""
    for name, text in {"a script": JOIN, "a configuration": config(runcmd=["a"]), "text": "kubeadm join a\n"}.items():
        raw = text.encode()
        yield name, raw
        yield f"{name}, CRLF", raw.replace(b"\n", b"\r\n")
        yield f"{name}, blank lines before", b"\n \n" + raw
        yield f"{name}, upper case", raw.replace(b"#cloud-config", b"#Cloud-CONFIG")
        yield f"{name}, gzip", gzipped(raw)
        yield f"{name}, gzip of two streams", gzipped(raw[:12]) + gzipped(raw[12:])
        yield f"{name}, gzip with zeros behind", gzipped(raw) + b"\0" * 9
        yield f"{name}, as a part", mime((SCRIPT, text))
        for kind in (
            "plain",
            "cloud-config",
            "x-not-multipart",
            "x-shellscript-per-boot",
            "x-shellscript-per-once",
            "jinja2",
            "cloud-boothook",
            "html",
            "cloud-config-archive",
            "cloud-config-jsonp",
        ):
            yield f"{name}, as text/{kind}", mime((f"Content-Type: text/{kind}", text))
        for kind in ("octet-stream", "node.eks.aws", "x-foo"):
            yield f"{name}, as application/{kind}", mime((f"Content-Type: application/{kind}", text))
        yield f"{name}, no type", mime(("X-Nothing: 1", text))
        yield f"{name}, type in capitals", mime(("CONTENT-TYPE: TEXT/X-SHELLSCRIPT", text))
        yield f"{name}, charset", mime((f'{SCRIPT}; charset="us-ascii"', text))
        yield (
            f"{name}, charset UTF-16",
            mime(
                (f'{SCRIPT}; charset="utf-16"\nContent-Transfer-Encoding: base64', _B64(text.encode("utf-16")).decode())
            ),
        )
        yield f"{name}, base64", mime((f"{SCRIPT}\nContent-Transfer-Encoding: base64", _B64(raw).decode()))
        yield f"{name}, base64 in capitals", mime((f"{SCRIPT}\nContent-Transfer-Encoding: BASE64", _B64(raw).decode()))
        yield f"{name}, base64 that is not told", mime((SCRIPT, _B64(raw).decode()))
        quoted = "".join(f"={byte:02X}" if byte in b"=kr" else chr(byte) for byte in raw)
        yield f"{name}, quoted-printable", mime((f"{SCRIPT}\nContent-Transfer-Encoding: quoted-printable", quoted))
        yield f"{name}, an unknown encoding", mime((f"{SCRIPT}\nContent-Transfer-Encoding: x-own", text))
        kinds = ("gzip-compressed", "gzipped", "x-gzip-compressed", "x-gunzip", "x-compressed")
        for kind in ("x-gzip", "gzip", "x-compress", *(kinds if name == "a script" else ())):
            head = f"Content-Type: application/{kind}\nContent-Transfer-Encoding: base64"
            yield f"{name}, {kind} in a part", mime((head, _B64(gzipped(raw)).decode()))
        head = f"{SCRIPT}\nContent-Transfer-Encoding: base64"
        yield f"{name}, gzip that is not told", mime((head, _B64(gzipped(raw)).decode()))
        head = "Content-Type: application/gzip\nContent-Transfer-Encoding: base64"
        yield f"{name}, gzip in gzip", gzipped(mime((head, _B64(gzipped(raw)).decode())))
        yield f"{name}, no gzip", mime((head, _B64(raw).decode()), (SCRIPT, JOIN))
        yield f"{name}, MIME in CRLF", mime((SCRIPT, text), end="\r\n")
        yield f"{name}, another header first", mime((SCRIPT, text), head="X-Own: 1\nMIME-Version: 1.0\n")
        yield f"{name}, From first", mime((SCRIPT, text), head="From a@b Mon Nov 23 2026\nMIME-Version: 1.0\n")
        yield f"{name}, version in small letters", mime((SCRIPT, text), head="mime-version: 1.0\n")
        yield f"{name}, no version", mime((SCRIPT, text), head="")
        yield f"{name}, a blank line first", mime((SCRIPT, text), head="\nMIME-Version: 1.0\n")
        yield f"{name}, version far behind", mime((SCRIPT, text), head=f"X-Own: {'a' * 4200}\nMIME-Version: 1.0\n")
        yield f"{name}, one part", f"MIME-Version: 1.0\n{SCRIPT}\n\n{text}".encode()
        yield f"{name}, MIME in a part", mime((SCRIPT, mime((SCRIPT, text)).decode()))
        inner = 'Content-Type: multipart/alternative; boundary="i"'
        yield f"{name}, parts in a part", mime((inner, f"--i\n{SCRIPT}\n\n{text}\n--i--"))
        yield f"{name}, a message", mime(("Content-Type: message/rfc822", f"MIME-Version: 1.0\n{SCRIPT}\n\n{text}"))
        yield (
            f"{name}, before the first boundary",
            mime((SCRIPT, "#!/bin/sh\necho")).replace(b"\n--b\n", b"\n" + raw + b"\n--b\n", 1),
        )
        yield f"{name}, behind the last", mime((SCRIPT, "#!/bin/sh\necho")) + raw
        yield f"{name}, no boundary at the end", mime((SCRIPT, text)).removesuffix(b"--b--\n")
        yield f"{name}, another boundary", mime((SCRIPT, text)).replace(b'"b"', b'"c"')
        yield f"{name}, speaks of MIME", raw + b"echo MIME-Version: 1.0\n"
        yield f"{name}, with a mark", b"\xef\xbb\xbf" + raw
        yield f"{name}, with a mark in a part", mime((SCRIPT, "\ufeff" + text))
        yield f"{name}, with a mark in a configuration", mime((CONFIG, "\ufeff" + text))
        yield f"{name}, for the third machine", mime((f"{SCRIPT}\nLaunch-Index: 2", text))
        yield f"{name}, no ASCII", mime((SCRIPT, f"{text}# ä €\n"))
        yield f"{name}, no UTF-8", raw + b"# \xe4\n"
        yield f"{name}, jinja", b"## template: jinja\n" + raw
        yield f"{name}, jinja in capitals", b"## Template: Jinja\n" + raw
        yield f"{name}, jinja without a blank", b"##template:jinja\n" + raw
        yield f"{name}, another template", b"## template: jinja2\n" + raw
        yield f"{name}, jinja after a blank line", b"\n## template: jinja\n" + raw
        yield f"{name}, jinja of a region", b"## template: jinja\n" + raw + b"# {{ v1.region }} {{ nothing }}\n"
        yield f"{name}, jinja with a condition", b"## template: jinja\n" + raw + b"# {% if true %}a{% endif %}\n"
        yield f"{name}, jinja in a part", mime((SCRIPT, f"## template: jinja\n{text}"))
        yield f"{name}, jinja in a configuration", mime((CONFIG, f"## template: jinja\n{text}"))
        for kind in (
            "",
            "text/cloud-config",
            "text/x-shellscript",
            "text/plain",
            "text/x-foo",
            "text/jinja2",
            "text/cloud-boothook",
            "text/X-SHELLSCRIPT",
            "text/x-include-url",
            "application/gzip",
        ):
            item = {"content": text, **({"type": kind} if kind else {})}
            yield f"{name}, in an archive as {kind}", b"#cloud-config-archive\n" + json.dumps([item]).encode()
        yield f"{name}, in an archive as text", b"#cloud-config-archive\n" + json.dumps([text]).encode()
        yield f"{name}, twice in an archive", b"#cloud-config-archive\n" + json.dumps([text, text]).encode()
    yield "an archive that is none", b"#cloud-config-archive\na: b\n"
    yield "an archive of anything", b"#cloud-config-archive\n- 5\n- [a]\n- {type: text/x-shellscript}\n- {content: 5}\n"
    yield (
        "scripts of one name",
        mime(*((_NAMED.format("a"), t) for t in (TAINTED, JOIN))),
    )
    yield (
        "scripts of two names",
        mime(*((_NAMED.format(n), t) for n, t in (("a", TAINTED), ("b", JOIN)))),
    )
    yield (
        "scripts of nearly one name",
        mime(*((_NAMED.format(n), t) for n, t in (("a b", TAINTED), ("ab", JOIN)))),
    )
    yield (
        "a script of two kinds and one name",
        mime(
            (_NAMED.format("a"), TAINTED),
            ('Content-Type: text/x-shellscript-per-boot\nContent-Disposition: attachment; filename="a"', JOIN),
        ),
    )
    yield "a boot hook", b"#cloud-boothook\n" + JOIN.encode()
    yield "a boot hook in capitals", b"#Cloud-Boothook\n" + JOIN.encode()
    yield "a boot hook in one line", b"#cloud-boothook#!/bin/sh\nkubeadm join a\n"
    yield "a part handler", b"#part-handler\ndef list_types(): return ['text/own']\ndef handle_part(*a): pass\n"
    yield "an address", b"#include\nhttps://example.com/a\n"
    yield "an address in one line", b"#include https://example.com/a\n"
    yield "an address, once", b"#include-once\nhttps://example.com/a\n"
    yield (
        "addresses as a part",
        mime(("Content-Type: text/x-include-url", "https://example.com/a\n# no\nhttps://example.com/b")),
    )
    ways: dict[str, dict[str, object]] = {
        "default": {},
        "append": {"merge_how": "list(append)+dict(recurse_array)+str()"},
        "append, docs": {"merge_how": "dict(recurse_array,no_replace)+list(append)"},
        "prepend": {"merge_type": "list(prepend)+dict(recurse_list)"},
        "no replace": {"merge_how": "dict(no_replace)+list()"},
        "as a list": {
            "merge_how": [{"name": "list", "settings": ["append"]}, {"name": "dict", "settings": ["recurse_array"]}]
        },
        "as lists": {"merge_how": [["list", "append"], ["dict", "recurse_array"]]},
        "wrong": {"merge_how": "append"},
        "unknown": {"merge_how": "set(append)"},
        "empty": {"merge_how": ""},
        "text too": {"merge_how": "dict(recurse_str)+str(append)"},
        "deleted": {"merge_how": "dict(allow_delete)", "runcmd": None},
        "within": {"merge_how": "dict(recurse_list)+list(recurse_list)"},
        "none": {"merge_how": "list(no_replace)+dict(recurse_list)"},
        "only lists": {"merge_how": "list(append)"},
        "in place": {"merge_how": "list(replace)+dict(recurse_list)"},
        "a shorter one in place": {"merge_how": "list(replace)+dict(recurse_list)", "runcmd": ["d"]},
        "within files": {"merge_how": "dict(recurse_list,recurse_str)+list(recurse_dict,recurse_str)+str(append)"},
        "within files, no texts": {"merge_how": "dict(recurse_list)+list(recurse_dict)+str(append)"},
        "capitals": {"merge_how": "List(Append)+Dict(Recurse_Array)"},
    }
    for name, how in ways.items():
        first = config(runcmd=["a", ["b", "c"]], bootcmd=["x"], write_files=[_FILE], ssh={"a": 1, "b": "t"})
        second = config(**{"runcmd": ["d", ["e"]], "write_files": [{**_FILE, "path": "/etc/b"}], **how})
        yield f"two configurations: {name}", mime((CONFIG, first), (CONFIG, second))
        yield f"two configurations: {name}, in the first", mime((CONFIG, second), (CONFIG, first))
        if isinstance(said := how.get("merge_how", how.get("merge_type")), str):
            for header in ("Merge-Type", "X-Merge-Type", "merge-type"):
                bare = config(runcmd=["d"], write_files=[{**_FILE, "path": "/etc/b"}])
                yield (
                    f"two configurations: {name}, {header}",
                    mime((CONFIG, first), (f"{CONFIG}\n{header}: {said}", bare)),
                )
    patch = [{"op": "add", "path": "/runcmd/-", "value": "b"}, {"op": "add", "path": "/write_files", "value": [_FILE]}]
    for name, steps in {
        "added": patch,
        "no list there": patch[:1],
        "replaced": [{"op": "replace", "path": "/runcmd/0", "value": "c"}],
        "removed": [{"op": "remove", "path": "/runcmd"}],
        "not there": [*patch, {"op": "remove", "path": "/none"}],
        "before": [{"op": "add", "path": "/runcmd/0", "value": "z"}],
        "tested": [{"op": "test", "path": "/runcmd/0", "value": "z"}, *patch],
        "moved": [{"op": "move", "from": "/runcmd", "path": "/bootcmd"}],
        "no list": {"op": "add"},
    }.items():
        text = f"#cloud-config-jsonp\n{json.dumps(steps)}"
        yield f"patch: {name}", mime((CONFIG, config(runcmd=["a"])), ("Content-Type: text/cloud-config-jsonp", text))
        yield f"patch: {name}, alone", text.encode()
    for name, given in {
        "text": "kubeadm join a",
        "a map": {"a": "kubeadm join"},
        "a map among": ["a", {"b": "c"}],
        "a number": ["a", 5],
        "nothing among": ["a", None],
        "numbers as words": [["a", 5, True, None]],
        "yes": ["a", True],
        "empty": [],
        "quotes": [["it's", 'a "b"']],
        "lines": ["a\nb\n"],
        "lists in lists": [["a", ["b"]]],
    }.items():
        yield f"commands: {name}", config(runcmd=given, bootcmd=given).encode()
    plain = {"path": "/a", "content": JOIN}
    for name, files in {
        "a map": plain,
        "text": "a",
        "no path": [{"content": "x"}, plain],
        "no content": [{"path": "/a"}],
        "text among": [plain, "a", {**plain, "path": "/b"}],
        "twice": [plain, {**plain, "content": "b"}],
        "appended": [plain, {**plain, "append": True}],
        "appended, text": [plain, {**plain, "append": "yes"}],
        "appended to none": [{**plain, "append": True}],
        "a number": [{"path": "/a", "content": 5}, {**plain, "path": "/b"}],
        **{
            f"packed as {name}": [{"path": "/a", "content": _PACKED, "encoding": name}]
            for name in (
                "gz+b64",
                "gzip+base64",
                "GZ+B64",
                " gz+base64 ",
                "gz",
                "b64",
                "base64",
                "b64+gz",
                "base64+gzip",
                "text/plain",
                "zip",
                "base64url",
                "",
            )
        },
        "lines of base64": [{"path": "/a", "content": _PACKED[:20] + "\n  " + _PACKED[20:], "encoding": "gz+b64"}],
        "odd characters": [{"path": "/a", "content": f"--{_B64(JOIN.encode()).decode()}!", "encoding": "b64"}],
        "no base64": [{"path": "/a", "content": "a", "encoding": "b64"}, {**plain, "path": "/b"}],
        "no gzip": [{"path": "/a", "content": _B64(b"a").decode(), "encoding": "gz+b64"}, {**plain, "path": "/b"}],
        "two streams": [{"path": "/a", "content": _B64(gzipped(b"a") + gzipped(b"b")).decode(), "encoding": "gz+b64"}],
        "a folder up": [{**plain, "path": "/etc/../opt/a"}],
        "no bytes": [{"path": "/a", "content": {"b": 1}}],
    }.items():
        yield f"files: {name}", config(write_files=files).encode()
    twice = _B64(_PACKED.encode()).decode()
    binary = _B64(gzipped(JOIN.encode())).decode()
    yield (
        "files: binary",
        f"#cloud-config\nwrite_files:\n- path: /a\n  content: !!binary {_B64(JOIN.encode()).decode()}\n".encode(),
    )
    yield (
        "files: zipped binary",
        f"#cloud-config\nwrite_files:\n- path: /a\n  encoding: gzip\n  content: !!binary {binary}\n".encode(),
    )
    yield (
        "files: binary twice",
        f"#cloud-config\nwrite_files:\n- {{path: /a, encoding: gz+b64, content: !!binary {twice}}}\n".encode(),
    )
    for name, text in {
        "a key twice": "runcmd: [a]\nruncmd: [b]\n",
        "two documents": "runcmd: [a]\n---\nruncmd: [b]\n",
        "a list": "- runcmd: [a]\n",
        "text": "kubeadm join\n",
        "a tab": "runcmd:\n\t- a\n",
        "nothing": "",
        "a comment": "# runcmd: [a]\n",
        "an end": "runcmd: [a]\n...\n",
        "a start": "---\nruncmd: [a]\n",
        "an anchor": "a: &x [b]\nruncmd: *x\n",
        "a merge key": "a: &x {runcmd: [b]}\n<<: *x\n",
        "an own tag": "runcmd: !own [a]\n",
        "a Python tag": "runcmd: !!python/name:os.system\n",
        "flow": "{runcmd: [a, [b, c]]}\n",
        "a set": "runcmd: !!set {a, b}\n",
        "YAML 1.1": "%YAML 1.1\n---\nruncmd: [yes, a]\n",
        "a date": "runcmd: [2026-11-23]\n",
        "a key of capitals": "RunCmd: [a]\n",
        "a quoted key": '"runcmd": ["a"]\n',
        "folded": "runcmd:\n- >-\n  a\n  b\n- |\n  c\n  d\n",
        "launch-index": "launch-index: 3\nruncmd: [a]\n",
        "times": "runcmd: [[sleep, 1:30]]\n",
        "an octal": "runcmd: [[chmod, 0755, a]]\n",
        "yes": "runcmd: [[a, yes, on, null, ~]]\n",
        "a big number": "runcmd: [[a, 1_000, 1e3, 1.0]]\n",
        "a control character": "runcmd: ['a\x01']\n",
    }.items():
        yield f"YAML: {name}", f"#cloud-config\n{text}".encode()
        yield f"YAML: {name}, in a part", mime((CONFIG, text), (SCRIPT, JOIN))


def by_seed(seed: int, most: int) -> Iterator[tuple[str, bytes]]:
    """Yield forms put together at random: parts, their types, encodings and what holds them."""
    random_ = random.Random(seed)
    bodies = [
        JOIN,
        TAINTED,
        config(runcmd=["kubeadm join a"]),
        config(bootcmd=[["a", "b"]], write_files=[_FILE]),
        config(
            write_files=[{"path": "/a", "content": _PACKED, "encoding": "gz+b64"}],
            merge_how="list(append)+dict(recurse_list)",
        ),
        config(runcmd=["x"], merge_type="dict(no_replace)+list(prepend)"),
        f"#cloud-boothook\n{JOIN}",
        f"## template: jinja\n{config(runcmd=['a'])}",
        "#include\nhttps://example.com/a\n",
        "no words\n",
        f"#cloud-config-archive\n{json.dumps([JOIN, config(runcmd=['c']), {'type': 'text/own', 'content': TAINTED}])}",
        '#cloud-config-jsonp\n[{"op": "add", "path": "/runcmd", "value": ["p"]}]',
        "\n\n#!/bin/sh\nlate\n",
    ]
    types = [
        "text/plain",
        "text/x-shellscript",
        "text/cloud-config",
        "text/jinja2",
        "text/cloud-boothook",
        "text/own",
        "application/gzip",
        "application/octet-stream",
        "text/x-shellscript-per-boot",
        "text/cloud-config-archive",
        "text/cloud-config-jsonp",
    ]
    for number in range(most):
        whole = MIMEMultipart()
        for _ in range(random_.randint(1, 4)):
            kind, body = random_.choice(types), random_.choice(bodies).encode()
            part = MIMEBase(*kind.split("/"))
            if kind == "application/gzip" or random_.random() < 0.1:
                body = gzipped(body)
            if random_.random() < 0.5 or body.startswith(b"\x1f"):
                part.set_payload(_B64(body).decode())
                part["Content-Transfer-Encoding"] = "base64"
            else:
                part.set_payload(body.decode())
            if random_.random() < 0.2:
                part.add_header("Content-Disposition", "attachment", filename=random_.choice(["a", "b.sh", "part-001"]))
            if random_.random() < 0.2:
                part["Merge-Type"] = random_.choice(["list(append)+dict(recurse_list)", "dict(replace)+list()", "none"])
            whole.attach(part)
        whole.set_boundary("B")
        raw = whole.as_bytes()
        if random_.random() < 0.2:
            raw = raw.replace(b"\n", b"\r\n")
        if random_.random() < 0.2:
            raw = gzipped(raw)
        yield f"seed {seed}, number {number}", raw
