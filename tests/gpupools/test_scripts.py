"""Which objects stand in a text, and what of a script is left over that may hold some."""

import json
from typing import Any

import pytest

from gpupools.planned.pool_facts import UNKNOWN
from gpupools.read.scripts import expanded, names_objects, objects_in

A, B = ({"apiVersion": "v1", "kind": "List", "metadata": {"name": name}} for name in "ab")
YAML = "apiVersion: v1\nkind: List\nmetadata: {name: a}\n"


def same(value: Any) -> Any:
    return value


def found(text: str) -> list[tuple[str, Any]]:
    return list(objects_in(text, same))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(YAML, [("[0]", A)], id="YAML"),
        pytest.param(
            f"{YAML}---\nonly text\n---\n{json.dumps(B)}\n",
            [("[0]", A), ("[1]", "only text"), ("[2]", B)],
            id="several",
        ),
        pytest.param("a text with apiVersion and kind", [("", "a text with apiVersion and kind")], id="only words"),
        pytest.param("a text", [], id="nothing"),
        pytest.param("[]", [], id="a list"),
        pytest.param(f"kubectl apply -f - <<EOF\n{YAML}EOF\necho done\n", [("[0]", A)], id="a here-document"),
        pytest.param(f"cat <<'EOF' | kubectl apply -f -\n{YAML}EOF\n", [("[0]", A)], id="quoted"),
        pytest.param(f"cat <<-X\n\t{YAML.replace(chr(10), chr(10) + chr(9))}X\n", [("[0]", A)], id="with tabs"),
        pytest.param(f"cat <<X\n{YAML}", [("[0]", A)], id="without its end"),
        pytest.param(f"cat <<X\n{YAML}---\n{json.dumps(B)}\nX\n", [("[0]", A), ("[1]", B)], id="two in one"),
        pytest.param(f"cat <<X\n{YAML}X\ncat <<Y\n{json.dumps(B)}\nY\n", [("[0]", A), ("[1]", B)], id="two of them"),
        pytest.param("cat <<X\nhello\nX\n", [], id="of something else"),
        pytest.param(
            f"cat <<X\napiVersion: [\nkind\nX\n{YAML}", [("", f"cat \napiVersion: [\nkind\n\n\n{YAML}")], id="broken"
        ),
        pytest.param(f"cat <<<X\n{YAML}X\n", [("", f"cat <<<X\n{YAML}X\n")], id="a here-string"),
        pytest.param(f"echo '{json.dumps(A)}' | kubectl apply -f -", [("[0]", A)], id="JSON"),
        pytest.param(f"echo '{json.dumps(A)}' '{json.dumps(B)}'", [("[0]", A), ("[1]", B)], id="two of JSON"),
        pytest.param(
            'echo \'{"kind": "x", "a": \' {"apiVersion": 1',
            [("", 'echo \'{"kind": "x", "a": \' {"apiVersion": 1')],
            id="half of JSON",
        ),
        pytest.param(f"x={json.dumps({'a': 1})} {json.dumps(A)}", [("[0]", A)], id="JSON of something else"),
        pytest.param(
            f"cat <<X\n{YAML}X\necho apiVersion kind",
            [("[0]", A), ("", "cat \n\necho apiVersion kind")],
            id="more words",
        ),
    ],
)
def test_the_objects_of_a_text_are_found(text: str, expected: list[tuple[str, Any]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(("quote", "value"), [("", UNKNOWN), ("'", "${TYPE}"), ('"', "${TYPE}"), ("\\", "${TYPE}")])
def test_the_shell_fills_in_variables_unless_the_word_is_quoted(quote: str, value: Any) -> None:
    close = quote if quote != "\\" else ""
    body = "apiVersion: v1\nkind: x\nmetadata: {name: $NAME}\nspec: {type: '${TYPE}'}\n"

    ((_, one),) = found(f"cat <<{quote}END{close} >x\n{body}END\n")
    assert one == {"apiVersion": "v1", "kind": "x", "metadata": {"name": "$NAME"}, "spec": {"type": value}}


def test_no_more_objects_of_a_text_are_read_than_anybody_writes() -> None:
    assert len(found(" ".join([json.dumps(A)] * 200))) == 200
    many = found("echo " + " ".join([json.dumps(A)] * 201))
    assert (len(many), many[-1][0]) == (201, "")


def test_a_value_in_which_a_shell_puts_something_is_not_known_except_for_names() -> None:
    given = {"metadata": {"name": "$A"}, "kind": "$B", "apiVersion": "`c`", "spec": ["$D", {"e": "`f`", "g": "h"}, 1]}

    assert expanded(given) == {**given, "spec": [UNKNOWN, {"e": UNKNOWN, "g": "h"}, 1]}
    assert expanded("$A", own=True) == "$A"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("apiVersion kind", True),
        ("apiVersion", False),
        ("kind", False),
        ("a\\b", False),
        ('{"a\\u0022": 1}', False),
        ('{"\\u0061piVersion": "v1", "k\\u0069nd": "x"}', True),
    ],
)
def test_a_text_without_both_words_holds_no_object(text: str, named: bool) -> None:
    assert names_objects(text) is named
