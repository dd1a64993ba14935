"""Writes a file as a comment on a pull request of GitHub, or updates the one that is there.

    python -I comment.py PULL-REQUEST FILE

The comment is found again by the first line of the file among those of COMMENT_AUTHOR: anybody may write the same line,
and nobody else's comment is touched. COMMENT_TOKEN needs `pull-requests: write` and nothing else. Only the standard
library is used, so that any Python runs it.
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


def main() -> int:
    """Write the comment."""
    try:
        number, file = sys.argv[1:]
        if re.fullmatch("[1-9][0-9]{0,9}", number) is None:
            print(f"comment: {number!r} is no number of a pull request", file=sys.stderr)
            return 2
        print(write(number, Path(file).read_text(encoding="utf-8")))
    except urllib.error.HTTPError as error:
        print(f"comment: {error.url}: {error.code} {_reason(error)}", file=sys.stderr)
        if error.code in (401, 403, 404):
            cure = "give the job permissions: pull-requests: write; an event of a fork never has them"
            print(f"comment: the token may not do that; {cure}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError) as error:
        print(f"comment: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def write(number: str, body: str) -> str:
    """Create or update the comment; say which, and where it is."""
    issues = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    marker, author = body.partition("\n")[0], os.environ["COMMENT_AUTHOR"]
    for comment in _comments(f"{issues}/{number}/comments"):
        if comment["user"] and comment["user"]["login"] == author and comment["body"].startswith(marker):
            if comment["body"].replace("\r\n", "\n").strip() == body.strip():
                return f"unchanged: {comment['html_url']}"
            done = _ask("PATCH", f"{issues}/comments/{comment['id']}", {"body": body})
            return f"updated: {done['html_url']}"
    return f"created: {_ask('POST', f'{issues}/{number}/comments', {'body': body})['html_url']}"


def _comments(url: str) -> Iterator[Any]:
    for page in range(1, MOST_PAGES + 1):
        found = _ask("GET", f"{url}?per_page=100&page={page}")
        yield from found
        if len(found) < 100:
            return


def _ask(method: str, url: str, given: object = None) -> Any:
    """https://docs.github.com/en/rest/issues/comments."""
    body = json.dumps(given).encode() if given is not None else None
    request = urllib.request.Request(url, body, {"Accept": "application/vnd.github+json"}, method=method)
    # Unlike a header this one is not sent on to where a redirection leads.
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
