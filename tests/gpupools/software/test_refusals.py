"""What the software of a cluster is refused for one pool and one setting: a row of the file beside this one each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.rows import listed


@listed(__file__)
def test_one_problem_names_its_key_and_says_what_is_wrong(
    cloud: str,
    pool: Mapping[str, Any],
    runtime: Mapping[str, Any],
    key: str,
    found: Sequence[str],
    refused: Callable[..., list[str]],
) -> None:
    (problem,) = refused(cloud, {"a": pool}, **runtime)

    assert problem.startswith(f"{key}: ")
    assert [words for words in found if words not in problem] == []
    assert not any(password in problem for password in ("hunter2", ":pw@"))
