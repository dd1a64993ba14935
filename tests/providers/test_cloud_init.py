"""What our reader of user data is unsure of, and what it unpacks; `test_cloud_init_reads_the_same` has all the rest."""

import base64
import gzip
import json

import pytest

from gpupools.providers.aws.cloud_init import files, gunzipped, take
from gpupools.providers.aws.user_data import parts, read_user_data
from tests.providers.made_user_data import CONFIG, JOIN, SCRIPT, config, mime

PLAIN = "#!/bin/sh\nls\n"


def archive(*items: object) -> str:
    return f"#cloud-config-archive\n{json.dumps(items)}"


@pytest.mark.parametrize(
    ("given", "doubtful"),
    [
        (mime(*[(SCRIPT, PLAIN)] * 200), False),
        (mime(*[(SCRIPT, PLAIN)] * 201), True),
        (mime((f"{SCRIPT}\nLaunch-Index: 1", PLAIN)), True),
        (mime((f"{SCRIPT}\nOther: 1", PLAIN)), False),
        (mime(("Content-Type: application/gzip", "no gzip")), True),
        (archive({"type": "text/x-shellscript", "content": PLAIN}), False),
        (archive({"type": "nonsense", "content": PLAIN}), True),
        (archive({"type": "a/b/c", "content": PLAIN}), True),
        (archive({"content": 3}), True),
        (archive({"content": PLAIN, "own": 3}), True),
        (archive({"content": PLAIN, "launch-index": 3}), True),
        (archive({"content": PLAIN, "own": "3"}, 3), False),
        (f"## template: jinja\n{PLAIN}# {{{{ v1.region }}}}\n", False),
        (f"## template: jinja\n{PLAIN}# {{{{ v1['region'] }}}}\n", False),
        (f"## template: jinja\n{PLAIN}# {{{{ 'a' + 'b' }}}}\n", True),
        (f"## template: jinja\n{PLAIN}# {{{{ v1.region | upper }}}}\n", True),
        (f"## template: jinja\n{PLAIN}# {{% if x %}}\n", True),
        (f"## template: jinja\n{PLAIN}# {{# x #}}\n", True),
        (f"{PLAIN}# {{% if x %}}\n", False),
    ],
)
def test_what_it_is_not_sure_of_it_says(given: str | bytes, doubtful: bool) -> None:
    assert take(given if isinstance(given, str) else given.decode()).doubtful is doubtful


@pytest.mark.parametrize("encoding", [f"{gz}{b64}" for gz in ("gz", "gzip") for b64 in ("", "+b64", "+base64")])
def test_a_packed_file_is_unpacked(encoding: str) -> None:
    packed = base64.b64encode(gzip.compress(b"a")).decode()
    taken = take(config(write_files=[{"path": "/a", "content": packed, "encoding": encoding.upper()}]))

    assert [(one.path, one.content) for one in files(taken.config)] == [("/a", b"a")]


def test_no_more_is_unpacked_than_is_asked_for() -> None:
    one, other = gzip.compress(b"a" * 5), gzip.compress(b"b" * 5)

    assert gunzipped(one, 5) == b"aaaaa"
    assert gunzipped(one + other, 10) == b"aaaaabbbbb"
    assert [len(gunzipped(one + other, most)) for most in (4, 5, 6, 9)] == [5, 6, 7, 10]


@pytest.mark.parametrize("how", ["list(append)+dict(recurse-array)", "List(append) + DICT(recurse_array)"])
def test_how_parts_are_merged_may_be_written_with_hyphens(how: str) -> None:
    first, second = config(runcmd=["a"]), config(runcmd=["b"], merge_how=how)

    assert take(mime((CONFIG, first), (CONFIG, second)).decode()).config["runcmd"] == ["a", "b"]


def test_a_template_of_what_nothing_takes_is_not_taken() -> None:
    for kind in ("#part-handler\n", "#include\n", "#cloud-config-archive\n"):
        taken = take(f"## template: jinja\n{kind}{JOIN}")
        assert (taken.scripts, taken.config, taken.remote) == ([], {}, False)


def test_only_what_is_for_nodeadm_is_base64_whatever_its_header_says() -> None:
    packed = base64.b64encode(b"kind: NodeConfig\n").decode()
    given = mime(("Content-Type: application/node.eks.aws", packed), (SCRIPT, packed)).decode()

    assert [(kind, body.strip()) for _, kind, body in parts(given)] == [("nodeadm", "kind: NodeConfig"), ("", packed)]


@pytest.mark.parametrize(
    ("source", "joins", "opaque"),
    [
        ("data:,kubeadm%20join%20a:6443", True, False),
        (f"data:;base64,{base64.b64encode(JOIN.encode()).decode()}", True, False),
        ("data:kubeadm%20join%20a:6443", False, True),
        ("https://example.com/a,b", False, True),
        ("", False, False),
    ],
)
def test_a_file_of_ignition_is_here_or_elsewhere(source: str, joins: bool, opaque: bool) -> None:
    written = [{"path": "/opt/a.sh", "contents": {"source": source}}]
    unit = {"name": "a.service", "contents": "[Service]\nExecStart=/opt/a.sh\n"}
    given = {"ignition": {"version": "3.4.0"}, "storage": {"files": written}, "systemd": {"units": [unit]}}
    found = read_user_data(json.dumps(given))

    assert (found.joins, found.opaque) == (joins, opaque)


@pytest.mark.parametrize(
    ("modules", "runs"),
    [
        (None, True),
        (["scripts-user", "runcmd"], True),
        (["cc_scripts_user"], True),
        ([["scripts-user", "always"]], True),
        ([{"name": "scripts_user"}], True),
        (["final-message", ""], False),
        ([[]], False),
    ],
)
def test_scripts_run_where_their_module_is_left_in_the_list(modules: object, runs: bool) -> None:
    taken = take(mime((SCRIPT, PLAIN), (CONFIG, config(cloud_final_modules=modules))).decode())

    assert (len(taken.scripts), len(taken.passed_over)) == ((1, 0) if runs else (0, 1))


def test_without_scripts_of_a_name_none_is_passed_over() -> None:
    taken = take(config(cloud_final_modules=[], runcmd=["a"], bootcmd=["b"]))

    assert (taken.scripts, taken.passed_over, taken.config.get("runcmd")) == ([], [], None)


def test_more_than_is_read_of_ignition_is_not_known() -> None:
    written = [
        {
            "path": "/a",
            "contents": {
                "source": f"data:;base64,{base64.b64encode(gzip.compress(b'a' * 10**7)).decode()}",
                "compression": "gzip",
            },
        },
        {"path": "/b", "contents": {"source": "data:,ls"}},
    ]
    found = read_user_data(json.dumps({"ignition": {"version": "3.4.0"}, "storage": {"files": written}}))

    assert (found.joins, found.opaque) == (False, True)


@pytest.mark.parametrize(
    ("append", "content"),
    [
        *((one, b"ab") for one in (True, "true", "TRUE", "1", 1, "on", "yes")),
        *((one, b"b") for one in (False, "no", None, 0)),
    ],
)
def test_a_file_is_appended_to_where_it_says_so(append: object, content: bytes) -> None:
    written = [{"path": "/a", "content": "a"}, {"path": "/a", "content": "b", "append": append}]

    assert [one.content for one in files(take(config(write_files=written)).config)] == [content]
