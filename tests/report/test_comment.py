"""The comment on a pull request: found again, never too long, and of names only as GitHub reads it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gpupools.cli.main import main
from gpupools.common.errors import Problem
from gpupools.diff.comparison import Comparison, compare_files
from gpupools.diff.guard import GuardReport
from gpupools.preview.format_preview import PolicyVerdict, Violation
from gpupools.providers import clouds
from gpupools.report.comment import MARKER, comment
from gpupools.report.facts import StackReport
from gpupools.report.markdown_budget import LIMIT
from gpupools.report.page import page
from gpupools.stackfile.check import Located, check_stack_file
from tests.report.conftest import STACK, Write
from tests.report.test_page import hostile_report

OURS = re.compile(r"<!-- gpupools report -->|</?details( open)?>|<summary>[\w ]+</summary>")
LAB = STACK.partition("    big:")[0]


def report_of(stack_file: Write, old: str | None, new: str) -> StackReport:
    before = check_stack_file(stack_file(old, "Pulumi.old.yaml"), clouds()) if old is not None else None
    after = check_stack_file(stack_file(new), clouds())
    comparison = compare_files(before, after, clouds())
    return StackReport("Pulumi.dev.yaml", "dev", after.plan, since="main", comparison=comparison, not_judged="no SDK")


def tokens(text: str) -> list[Token]:
    found = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    return [*found, *(child for token in found for child in token.children or ())]


def holds_only_ours(text: str) -> None:
    """Hold a comment to what every comment has to be, as a reader of GitHub's Markdown finds it."""
    assert text.splitlines()[0] == MARKER
    assert len(text) <= len(text.encode()) <= LIMIT
    read = tokens(text)
    for token in read:
        assert not token.type.startswith(("link", "image"))
        if token.type in ("html_block", "html_inline"):
            assert OURS.sub("", token.content).strip() == "", token.content
        if token.type == "text":
            assert "<script" not in token.content
    assert text.count("<details") == text.count("</details>")
    assert not any(token.type == "fence" for token in read)
    assert all(each.isprintable() for each in text.splitlines())


def test_the_comment_begins_with_what_is_created_moved_drained_and_destroyed(stack_file: Write) -> None:
    new = STACK.replace("    cut: ", "    trim: ").replace("min: 2, max: 4", "min: 2, max: 5")
    text = comment([report_of(stack_file, STACK, new)])

    holds_only_ours(text)
    assert text.splitlines()[1] == ("### GPU pools: 1 destroyed, 1 created, 1 changed in place, 1 unchanged")
    assert "- **`train/big: pods stay; in place`**\n  - `pools.big.nodes.max 4 → 5`\n" in text
    assert "- **`train/cut: ends pods on up to 2 nodes at once; deletes up to 2 nodes × 8 GPUs`**" in text
    assert "Policies are not judged here: `no SDK`" in text


def test_what_up_would_refuse_stands_below_its_pool(stack_file: Write) -> None:
    kept = STACK.replace("nodes: {min: 2, max: 4}}", "nodes: {min: 2, max: 4}, protect: true}")
    report = report_of(stack_file, kept, re.sub("    big: .*\n", "", kept))
    lines = comment([report]).splitlines()

    at = next(
        index
        for index, each in enumerate(lines)
        if each.startswith("- **`train/big: ends pods on up to 4 nodes at once; deletes")
    )
    assert lines[at + 1].startswith("  - pulumi up refuses that: `train/big is a production pool")
    assert "pulumi up refuses 1 of it" in "\n".join(lines)


@pytest.mark.parametrize("findings", [1, 10_000])
def test_hostile_values_stay_text_however_many(findings: int, stack_file: Write) -> None:
    text = comment([hostile_report(stack_file, findings)])

    holds_only_ours(text)
    assert text.count("<script>alert(1)</script>") >= 5
    told = sum(each.startswith("- `` </style>") and "refuses" in each for each in text.splitlines())
    rest = [int(each) for each in re.findall(r"^- and (\d+) more$", text, re.MULTILINE)]
    assert findings == 1 or (told > 10 and any(told + each in (findings, findings + 1, findings + 2) for each in rest))


def test_ten_thousand_problems_of_a_file_are_counted_where_they_do_not_fit(stack_file: Write) -> None:
    file = stack_file()
    refused = [Located(file, each + 1, Problem(("pools", f"p{each}"), "is wrong", "mend it")) for each in range(10_000)]
    text = comment([StackReport("Pulumi.dev.yaml", "dev", None, refused=refused)])

    holds_only_ours(text)
    assert "**refused, 10000 problems**" in text
    told = text.count("is wrong")
    assert told > 100
    assert f"and {10_000 - told} more" in text


def test_one_pool_is_one(stack_file: Write) -> None:
    text = LAB + "    one: {clusters: [lab], gpu: L4, nodes: {max: 1}}\n"

    assert comment([report_of(stack_file, None, text)]).splitlines()[1] != "### GPU pools: 1 pools"
    checked = check_stack_file(stack_file(text), clouds())
    assert comment([StackReport("f", "dev", checked.plan)]).splitlines()[1] == "### GPU pools: 1 pool"


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (["mandatory", "advisory", "advisory"], "2 of 3 policies pass"),
        (["mandatory", "advisory", "disabled"], "1 of 2 policies pass, 1 disabled"),
    ],
)
def test_a_policy_that_is_not_asked_passes_nothing(levels: list[str], said: str, stack_file: Write) -> None:
    verdicts = [PolicyVerdict(f"rule-{place}", level, "a reason") for place, level in enumerate(levels)]
    verdicts[0] = replace(verdicts[0], violations=(Violation("urn:pulumi:dev::p::t::a", "is wrong"),))
    plan = check_stack_file(stack_file(LAB + "    one: {clusters: [lab], gpu: L4, nodes: {max: 1}}\n"), clouds()).plan
    report = StackReport("f", "dev", plan, verdicts=verdicts)

    assert f"\n{said}.\n" in comment([report])
    assert f"<summary>{said}</summary>" in page([report])
    assert ("rule-2" in page([report])) is (levels[2] != "disabled")


@pytest.mark.slow
def test_a_thousand_pools_that_change_are_counted_where_they_do_not_fit(stack_file: Write) -> None:
    def pools(most: int) -> str:
        return LAB + "".join(
            f"    p{each}: {{clusters: [lab], gpu: L4, nodes: {{max: {most}}}}}\n" for each in range(1000)
        )

    text = comment([report_of(stack_file, pools(3), pools(4))])

    holds_only_ours(text)
    assert "### GPU pools: 1000 changed in place" in text
    told = text.count(".nodes.max 3 → 4`\n")
    assert told > 100
    assert f"- and {1000 - told} more" in text


@pytest.mark.slow
def test_a_diff_as_markdown_is_never_too_long(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    kept = "".join(f"    k{each}: {{clusters: [lab], gpu: L4, nodes: {{max: 2}}}}\n" for each in range(500))
    gone = "".join(
        f"    g{each}: {{clusters: [lab], gpu: L4, nodes: {{max: 2}}, protect: true}}\n" for each in range(500)
    )
    stack_file(LAB + kept + gone, "Pulumi.old.yaml")
    stack_file(LAB + kept, "Pulumi.new.yaml")

    assert main(["diff", "Pulumi.old.yaml", "Pulumi.new.yaml", "--format", "markdown"]) == 3
    text = capsys.readouterr().out
    told, folded = text.count("; deletes"), text.count("- `lab/k")
    assert len(text.encode()) <= LIMIT
    assert (told > 100, folded > 100) == (True, True)
    assert re.findall(r"- and (\d+) more", text) == [str(500 - told), *([str(500 - folded)] if folded < 500 else [])]
    assert text.endswith("</details>\n")


def test_more_stack_files_than_fit_are_counted(stack_file: Write) -> None:
    report = report_of(stack_file, STACK, STACK.replace("max: 30", "max: 31"))
    text = comment([replace(report, file=f"stacks/Pulumi.{each}.yaml") for each in range(300)])

    holds_only_ours(text)
    told = text.count("#### ")
    assert 0 < told < 300
    assert f"and {300 - told} more stack files" in text


def test_one_value_cannot_fill_the_comment(stack_file: Write) -> None:
    long = Located(Path("x"), 1, Problem((), "x" * 100_000, "y"))
    text = comment([StackReport("f" * 100_000, "s", None, refused=[long])])

    holds_only_ours(text)
    assert "### GPU pools: 1 of 1 stack files refused" in text


def test_nothing_to_compare_is_no_comparison(stack_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(stack_file()), "--markdown", "--no-policies"]) == 0
    text = capsys.readouterr().out

    holds_only_ours(text)
    assert "### GPU pools: 3 pools\n" in text


def test_of_an_empty_comparison_there_is_nothing_to_tell() -> None:
    assert StackReport("f", "s", None, comparison=Comparison(GuardReport())).summary() == "no pools"
