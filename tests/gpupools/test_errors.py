"""Words for what is wrong: paths, problems, nearest names, values."""

import pytest

from gpupools.common.errors import Path, Problem, Rejected, dotted, nearest, shown
from tests.rows import each_row


@pytest.mark.parametrize(
    ("path", "text"),
    [
        pytest.param((), "", id="the top"),
        pytest.param(("pools",), "pools", id="one key"),
        pytest.param(("pools", "a100", "nodes", "max"), "pools.a100.nodes.max", id="nested keys"),
        pytest.param(("pools", "a", "taints", 2), "pools.a.taints[2]", id="an item of a list"),
        pytest.param((0, "a"), "[0].a", id="a list at the top"),
        pytest.param(("labels", "example.com/team"), "labels.example.com/team", id="a label's key"),
        pytest.param(("pools", "", "gpu"), 'pools[""].gpu', id="an empty key"),
        pytest.param(("pools", "a\nb"), 'pools["a\\nb"]', id="a line break, which would forge a second message"),
        pytest.param(("pools", "\x1b[31m"), 'pools["\\u001b[31m"]', id="a terminal's escape code"),
        pytest.param(("pools", "größe"), "pools.größe", id="letters of other languages"),
        pytest.param(("pools", "x" * 1000), "pools." + "x" * 320, id="a very long key"),
        pytest.param(
            ("layout", 16**5000), "layout[a number that is too long to show]", id="a number Python cannot write"
        ),
    ],
)
def test_a_path_is_written_for_people(path: Path, text: str) -> None:
    assert dotted(path) == text


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        pytest.param(Problem(("a", 0), "got 1", "give 2"), "a[0]: got 1; give 2", id="where, what and cure"),
        pytest.param(Problem(("a",), "got 1"), "a: got 1", id="without a cure"),
        pytest.param(Problem((), "is a folder", "name a file"), "is a folder; name a file", id="without a place"),
        pytest.param(
            Problem(("a",), "got 1", "give 2", "https://example.com"),
            "a: got 1; give 2 (see https://example.com)",
            id="with a source",
        ),
    ],
)
def test_a_problem_says_where_what_and_the_cure(problem: Problem, text: str) -> None:
    assert str(problem) == text
    assert problem.key == dotted(problem.path)


def test_a_rejection_carries_every_problem_in_order() -> None:
    problems = [Problem(("b",), "is missing", "add it"), Problem(("a",), "got 1")]

    rejected = Rejected(iter(problems))

    assert rejected.problems == tuple(problems)
    assert str(rejected) == "b: is missing; add it\na: got 1"


@pytest.mark.parametrize(
    ("word", "known", "text"),
    [
        pytest.param("gp", ["gpu", "nodes"], "did you mean 'gpu'?", id="one is close"),
        pytest.param("GPU", ["gpu"], "did you mean 'gpu'?", id="another case"),
        pytest.param("l4", ["L4", "L40S"], "did you mean 'L4' or 'L40S'?", id="several, the closest first"),
        pytest.param("zzz", ["b", "a"], "known: a, b", id="none is close"),
        pytest.param("zzz", [str(n) for n in range(14)], "the nearest of 14: 9, 8, 7, 6, 5", id="many"),
        pytest.param("zzz", [], "there are no known values", id="nothing is known"),
        pytest.param(7, ["7x"], "did you mean '7x'?", id="not a text"),
        pytest.param(None, ["a"], "known: a", id="null"),
        pytest.param("x" * 100_000, ["a"], "known: a", id="a very long word"),
        pytest.param("", ["a"], "known: a", id="an empty word"),
    ],
)
def test_the_nearest_names_are_offered(word: object, known: list[str], text: str) -> None:
    assert nearest(word, known) == text


def test_the_order_of_known_names_does_not_matter() -> None:
    known = ["p5.48xlarge", "p5e.48xlarge", "p4d.24xlarge", "p4de.24xlarge"]

    assert nearest("p5x.48xlarge", known) == nearest("p5x.48xlarge", reversed(known))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("x", "'x'", id="text"),
        pytest.param(4, "4", id="a number"),
        pytest.param(None, "null", id="null"),
        pytest.param(True, "true", id="true"),
        pytest.param("a\nb\x1b", r"'a\nb\x1b'", id="what a terminal would obey"),
        pytest.param("x" * 58, f"'{'x' * 58}'", id="as long as a line takes"),
        pytest.param("x" * 61, "a text of 61 characters", id="long, which may be a secret under a wrong key"),
        pytest.param(16**5000, "a number that is too long to show", id="a number Python cannot write"),
        pytest.param(["hunter2"], "a list of 1", id="what is in a list may be a secret"),
        pytest.param({"token": "hunter2"}, "a map with 'token'", id="what is in a map may be a secret"),
        pytest.param(dict.fromkeys("abcde", 1), "a map with 'a', 'b', 'c', 'd' and more", id="a large map"),
        pytest.param([], "[]", id="an empty list"),
        pytest.param({}, "{}", id="an empty map"),
    ],
)
def test_a_value_is_shown_on_one_short_line(value: object, text: str) -> None:
    assert shown(value) == text
    assert len(shown(value)) <= 60


@each_row(
    "key",
    [
        "kubeconfig",
        "certificate_authority",
        "admin_password",
        "apiKey",
        "token",
        "userData",
        "licence",
        "ssh-keys",
        "secure",
    ],
)
@each_row(
    "what",
    ["got 'hunter2'", "got hunter2", "'hunter2' is no text", 'has "hunter2", which is wrong', r"got 'a\'hunter2'"],
)
def test_a_value_under_a_key_that_may_hold_a_secret_is_not_shown(key: str, what: str) -> None:
    for path in [("clusters", "lab", key), ("pools", "a", "tags", key), ("pools", "a", key, "inner", 0)]:
        assert "hunter2" not in str(Problem(path, what, "write another"))
    assert "hunter2" in str(Problem(("pools", "a", "gpu"), what, "write another"))


@pytest.mark.parametrize(
    "path",
    [
        ("clusters", "private-eu", "region"),
        ("clusters", "auth", "subnet_ids", 0),
        ("clusters", "lab", "service_account"),
        ("clusters", "serve", "ssh_access"),
        ("clusters", "serve", "resource_group"),
        ("pools", "tokens", "gpu"),
        ("pools", "a", "security", "secure_boot"),
    ],
    ids=lambda path: ".".join(map(str, path[1:])),
)
def test_a_value_is_shown_under_any_other_key_whatever_its_cluster_or_pool_is_called(path: Path) -> None:
    assert str(Problem(path, "got 'wrong'", "write another")).endswith(": got 'wrong'; write another")


def test_a_secret_in_the_place_of_a_cluster_or_pool_is_not_shown() -> None:
    assert "hunter2" not in str(Problem(("clusters", "password"), "got 'hunter2'", "write a map"))
