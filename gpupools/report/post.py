"""Writes a file as a comment on a pull request of GitHub or a merge request of GitLab, or updates the one there.

    python -I post.py NUMBER FILE [KEY]                   on GitHub, where only this file is at hand
    python -I -m gpupools.report.post NUMBER FILE [KEY]   on GitLab, where CI_API_V4_URL says so

The comment is found again by the first line of the file among those of the token's owner: anybody may write the same
line, and nobody else's comment is touched. A KEY in that line tells it from other reports on the same request.
COMMENT_TOKEN needs `pull-requests: write` on GitHub, where COMMENT_AUTHOR says whose it is, and on GitLab the scope
`api` with the role Reporter. Only the standard library is used, so that any Python runs it.
"""

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MOST_PAGES = 100
"""Of 100 comments; whoever writes more of them gets another comment instead of a job without end."""


class GitHub:
    """Comments of a pull request: https://docs.github.com/en/rest/issues/comments."""

    cure = "give the job permissions: pull-requests: write; an event of a fork never has them"
    update = "PATCH"

    def __init__(self, number: str) -> None:
        issues = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
        self.comments, self.comment = f"{issues}/{number}/comments", f"{issues}/comments"

    def author(self) -> str:
        """Return whose comments are updated."""
        return os.environ["COMMENT_AUTHOR"]

    @staticmethod
    def authored(comment: Any) -> str | None:
        """Return whose comment it is."""
        return comment["user"]["login"] if comment["user"] else None

    @staticmethod
    def address(comment: Any) -> str:
        """Return where it is read."""
        return str(comment["html_url"])


class GitLab:
    """Notes of a merge request: https://docs.gitlab.com/api/notes/#merge-requests."""

    cure = "give the project an access token of scope api and role Reporter; a job's own token writes no notes"
    update = "PUT"

    def __init__(self, number: str) -> None:
        self._api = os.environ["CI_API_V4_URL"]
        self._page = f"{os.environ['CI_MERGE_REQUEST_PROJECT_URL']}/-/merge_requests/{number}"
        project = os.environ["CI_MERGE_REQUEST_PROJECT_ID"]
        self.comments = self.comment = f"{self._api}/projects/{project}/merge_requests/{number}/notes"

    def author(self) -> str:
        """Ask whose token it is: https://docs.gitlab.com/api/users/#retrieve-the-current-user."""
        return str(_ask("GET", f"{self._api}/user")["username"])

    @staticmethod
    def authored(comment: Any) -> str | None:
        """Return whose note it is; none of what GitLab says itself."""
        return None if comment.get("system") else comment["author"]["username"]

    def address(self, comment: Any) -> str:
        """Return where it is read."""
        return f"{self._page}#note_{comment['id']}"


def main() -> int:
    """Write the comment."""
    kind = GitLab if os.environ.get("CI_API_V4_URL") else GitHub
    try:
        number, file, key = (*sys.argv[1:], "")[:3]
        if re.fullmatch("[1-9][0-9]{0,9}", number) is None:
            print(f"comment: {number!r} is no number of a pull request", file=sys.stderr)
            return 2
        if re.fullmatch("[A-Za-z0-9_.]{0,60}", key) is None:
            print(f"comment: {key!r} is no key: use at most 60 letters, digits, _ and .", file=sys.stderr)
            return 2
        marker, end, body = Path(file).read_text(encoding="utf-8").partition("-->")
        print(write(kind(number), f"{marker}{key}{' ' if key else ''}{end}{body}"))
    except urllib.error.HTTPError as error:
        print(f"comment: {error.url}: {error.code} {_reason(error)}", file=sys.stderr)
        if error.code in (401, 403, 404):
            print(f"comment: the token may not do that; {kind.cure}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError) as error:
        print(f"comment: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def write(on: GitHub | GitLab, body: str) -> str:
    """Create or update the comment; say which, and where it is."""
    marker, author = body.partition("\n")[0], on.author()
    for comment in _comments(on.comments):
        if on.authored(comment) == author and comment["body"].startswith(marker):
            if comment["body"].replace("\r\n", "\n").strip() == body.strip():
                return f"unchanged: {on.address(comment)}"
            done = _ask(on.update, f"{on.comment}/{comment['id']}", {"body": body})
            return f"updated: {on.address(done)}"
    return f"created: {on.address(_ask('POST', on.comments, {'body': body}))}"


def _comments(url: str) -> Iterator[Any]:
    for page in range(1, MOST_PAGES + 1):
        found = _ask("GET", f"{url}?per_page=100&page={page}")
        yield from found
        if len(found) < 100:
            return


def _ask(method: str, url: str, given: object = None) -> Any:
    body = json.dumps(given).encode() if given is not None else None
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers, method=method)
    # Unlike other headers, this one is not sent on to where a redirection leads.
    request.add_unredirected_header("Authorization", f"Bearer {os.environ['COMMENT_TOKEN']}")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def _reason(error: urllib.error.HTTPError) -> str:
    """Return what the API says, on one line that is no command to the runner."""
    try:
        said = str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        said = str(error.reason)
    return ascii(said)[1:-1].replace("##[", "")


if __name__ == "__main__":
    sys.exit(main())
