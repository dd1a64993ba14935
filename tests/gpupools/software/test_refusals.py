"""What the software of a cluster is refused for one pool and one setting: a row each of the file beside this one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpupools.common.json_types import JsonDict
from tests.gpupools.software.test_teams import POOLS
from tests.gpupools.software.test_teams import refused as refused_teams
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


@listed(__file__)
def test_teams_are_refused_what_cannot_be_kept(teams: JsonDict, pools: JsonDict, runtime: JsonDict, said: str) -> None:
    (problem,) = refused_teams(teams, pools or POOLS, runtime)

    assert problem.startswith(said)
