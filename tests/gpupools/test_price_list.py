"""A team's own prices, from a file of the project."""

import json
import os
from decimal import Decimal
from pathlib import Path

import pytest

from gpupools.cli.main import main
from gpupools.common.errors import Rejected
from gpupools.plan.prices import PriceList
from gpupools.providers import clouds
from gpupools.stackfile.check import check_stack_file
from gpupools.stackfile.price_list import read_price_list
from gpupools.stackfile.stack import prices_of

HEAD = "type,region,price,currency\n"
STACK = """
config:
  gpupools:clusters:
    train: {cloud: aws, name: t, region: us-east-1, subnet_ids: [subnet-0a1b2c3d4e5f60718],
      node_role_arn: 'arn:aws:iam::123456789012:role/gpu-nodes'}
  gpupools:pools:
    big: {clusters: [train], instance_type: p5.48xlarge, nodes: {max: 2}}
    small: {clusters: [train], instance_type: g6.xlarge, nodes: {max: 1}}
  gpupools:prices: prices.csv
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project, with a folder beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: x\nruntime: python\n")
    return folder


def stack(project: Path, prices: str, more: str = "") -> Path:
    """Write a stack file and its prices."""
    (project / "prices.csv").write_text(prices)
    file = project / "Pulumi.dev.yaml"
    file.write_text(STACK + more)
    return file


def test_own_prices_replace_list_prices_with_file_and_line_as_source(project: Path) -> None:
    """A list in US dollars leaves the list prices of other types."""
    plan = check_stack_file(stack(project, HEAD + "p5.48xlarge,us-east-1,40.5,USD\n"), clouds()).plan
    big, small = prices_of(plan, clouds())

    assert (big.at_max, big.as_json()["source"], big.as_json()["dated"]) == (Decimal(81), "prices.csv:2", None)
    assert small.price is not None
    assert small.price.source.startswith("https://")


def test_one_currency_per_report(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside euros, a list price in dollars does not count, and the sum says so."""
    file = stack(project, HEAD + "p5.48xlarge,us-east-1,40.5,EUR\n")
    monkeypatch.setenv("COLUMNS", "160")

    assert main(["preview", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "≥ 81.00 EUR/h; 1 of 2 pools has no price" in shown
    assert "$" not in shown[shown.index("List prices") :].split("\n\n")[0]
    assert main(["preview", str(file), "--json"]) == 0
    big, small = json.loads(capsys.readouterr().out)["prices"]
    assert (big["currency"], big["per_hour"]["max"], small["per_hour"]["max"]) == ("EUR", 81.0, None)


def test_a_budget_counts_own_prices(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The budget is in the currency of the list."""
    more = "  gpupools:budget: {per_hour: 80, unpriced: allow}\n"

    assert main(["check", str(stack(project, HEAD + "p5.48xlarge,us-east-1,40.5,EUR\n", more))]) == 1
    shown = capsys.readouterr()
    assert "budget.per_hour: is 80.00 EUR/h, but all nodes cost ≥ 81.00 EUR/h; 1 of 2 pools has no price" in shown.err


def test_a_price_is_of_its_capacity_mode(project: Path) -> None:
    """A reservation has its own row, else the price of on-demand machines."""
    table = "type,region,price,currency,capacity,dated\ng6.xlarge,us-east-1,2,USD,,2024-01-31\n"
    table += "g6.xlarge,us-east-1,1,USD,reservation,\n"
    (project / "prices.csv").write_text(table)
    found = read_price_list("prices.csv", project).prices

    assert found["g6.xlarge", "on-demand", "us-east-1"].amount == 2
    assert found["g6.xlarge", "reservation", "us-east-1"].amount == 1


@pytest.mark.parametrize(
    ("content", "what"),
    [
        pytest.param(b"", "prices.csv:1: has no column type, region, price, currency", id="empty"),
        pytest.param(HEAD.encode(), "prices.csv has no price; add a row", id="no row"),
        pytest.param(b"\x89PNG\xff\xfe", "'prices.csv' is not UTF-8 text", id="binary"),
        pytest.param(b"a\0b", "'prices.csv' is not text", id="null bytes"),
        pytest.param(
            HEAD.encode() + b"a,b,1,50,EUR\n", "prices.csv:2: has 5 values for 4 columns; write one value", id="comma"
        ),
        pytest.param(
            HEAD.encode() + b'a,b,"1,50",EUR\n',
            "prices.csv:2: price: has a wrong value; write a number above 0 with a decimal point",
            id="quoted comma",
        ),
        pytest.param(HEAD.encode() + b"a,b,0,EUR\n", "prices.csv:2: price: has a wrong value", id="zero"),
        pytest.param(HEAD.encode() + b"a,b,nan,EUR\n", "prices.csv:2: price: has a wrong value", id="not a number"),
        pytest.param(HEAD.encode() + b"a,b,1,euro\n", "prices.csv:2: currency: has a wrong value", id="currency"),
        pytest.param(
            HEAD.encode() + b"a,b,1,EUR\nc,b,1,USD\n", "prices.csv has prices in EUR and USD", id="two currencies"
        ),
        pytest.param(HEAD.encode() + b"a,b,1,EUR\na,b,2,EUR\n", "prices.csv:3: row: is given twice", id="twice"),
        pytest.param(
            b"typ" + HEAD.encode()[4:],
            "prices.csv:1: column 1 has an unknown name; use the names",
            id="column",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(project: Path, content: bytes, what: str) -> None:
    """Each fault is one line with a fix."""
    (project / "prices.csv").write_bytes(content)
    with pytest.raises(Rejected) as rejected:
        read_price_list("prices.csv", project)

    assert any(str(each).startswith(f"prices: {what}") and each.fix for each in rejected.value.problems)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("../prices.csv", "'../prices.csv' is outside the project"),
        ("/etc/hostname.csv", "'/etc/hostname.csv' is outside the project"),
        ("workspace.env", "'workspace.env' is not a CSV file"),
        (".git/credentials.csv", "cannot be read: it is below .git"),
        ("pipe.csv", "cannot be read: it is not a regular file"),
        ("link.csv", "'link.csv' is outside the project"),
        ("none.csv", "'none.csv' cannot be read: No such file or directory"),
        ("folder.csv", "'folder.csv' cannot be read: it is a folder"),
        ("a\0b.csv", "cannot be read: is no path"),
        (["prices.csv"], "write the path of a CSV file, such as prices.csv"),
        ("", "got ''; write the path of a CSV file"),
    ],
)
def test_a_path_outside_the_project_is_not_read(project: Path, given: object, what: str) -> None:
    """Nor is one through a link."""
    (project.parent / "prices.csv").write_text(HEAD + "a,b,1,EUR\n")
    (project / "link.csv").symlink_to(project.parent / "prices.csv")
    for folder in ("folder.csv", ".git"):
        (project / folder).mkdir()
    (project / ".git" / "credentials.csv").write_text(HEAD)
    os.mkfifo(project / "pipe.csv")
    with pytest.raises(Rejected) as rejected:
        read_price_list(given, project)

    assert what in str(rejected.value)


def test_no_content_of_another_file_is_shown(project: Path) -> None:
    """A report of a pull request is public, and the file may hold a token."""
    for content in ("TOKEN=hunter2\n", HEAD + "hunter2,,hunter2,hunter2\n", HEAD + "hunter2\n", f"hunter2,{HEAD}"):
        (project / "prices.csv").write_text(content)
        with pytest.raises(Rejected) as rejected:
            read_price_list("prices.csv", project)
        assert "hunter2" not in str(rejected.value)


def test_no_file_means_list_prices(project: Path) -> None:
    """The key may be left out."""
    assert read_price_list(None, project) == PriceList()
