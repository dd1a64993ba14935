"""The page, parsed by the HTML standard's own rules: sound, of names only, and small."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gpupools.cli.main import main
from gpupools.common.errors import Problem
from gpupools.plan.prices import total
from gpupools.preview.format_preview import PolicyVerdict, Violation
from gpupools.providers import clouds
from gpupools.report.comment import comment
from gpupools.report.facts import StackReport, finding_lines
from gpupools.report.page import MOST_FINDINGS, page
from gpupools.stackfile.check import Located, check_stack_file
from gpupools.stackfile.stack import prices_of, quotas_of
from tests.report.conftest import STACK, Write

ROOT = Path(__file__).resolve().parents[2]

HOSTILE = (
    "</style></title><script>alert(1)</script><img src=x onerror=alert(2)> "
    "\"' & &lt; \x1b[31m \u202egnp \x00 \ud800 `x` ${{ x }}"
)


def parsed(text: str) -> Any:
    """Return the tree of a document without a single error."""
    html5lib = pytest.importorskip("html5lib", reason="html5lib is not installed")
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


class Sound(HTMLParser):
    """Holds tags to be closed in order, and keeps what the page has."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(text: str) -> Sound:
    found = Sound()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


def written(stack_file: Write, text: str = STACK) -> str:
    assert main(["report", str(stack_file(text)), "-o", "plan.html", "--force", "--no-policies"]) == 0
    return Path("plan.html").read_text(encoding="utf-8")


def hostile_report(stack_file: Write, findings: int = 1) -> StackReport:
    checked = check_stack_file(stack_file(), clouds())
    problem = Problem((HOSTILE,), HOSTILE, HOSTILE)
    violations = tuple(Violation(f"urn::{HOSTILE}{each}", f"{HOSTILE}\n{HOSTILE}{each}") for each in range(findings))
    return StackReport(
        HOSTILE,
        HOSTILE,
        checked.plan,
        warnings=[Located(Path(HOSTILE.replace("\0", "")), 1, problem)],
        since=HOSTILE,
        not_compared=f"{HOSTILE}\n{HOSTILE}",
        verdicts=[PolicyVerdict(HOSTILE, "mandatory", HOSTILE, violations), PolicyVerdict("p", "advisory", HOSTILE)],
        problems=[problem],
    )


def test_the_page_is_sound_html(stack_file: Write) -> None:
    text = written(stack_file)

    read(text)
    parsed(text)


def test_ids_are_unique_and_everything_that_points_points_at_one(stack_file: Write) -> None:
    tags = [attributes for _, attributes in read(written(stack_file)).tags]
    ids = [each["id"] for each in tags if "id" in each]
    named = [each["href"][1:] for each in tags if (each.get("href") or "").startswith("#")]  # type: ignore[index]
    named += [each["aria-labelledby"] for each in tags if "aria-labelledby" in each]

    assert len(ids) == len(set(ids))
    assert set(named) <= set(ids)


def test_nothing_comes_from_the_network_or_runs(stack_file: Write) -> None:
    found = read(written(stack_file))

    assert {tag for tag, _ in found.tags} & {"script", "link", "img", "iframe", "object", "form", "image"} == set()
    for tag, attributes in found.tags:
        assert not any(name.startswith("on") or name == "src" for name in attributes)
        # A link to a cloud's console loads nothing by itself.
        assert (attributes.get("href") or "#").startswith(("#", "https://") if tag == "a" else "#")
    style = "".join(found.words[found.words.index(next(each for each in found.words if ":root" in each)) :][:1])
    assert re.search(r"url\(|@import", style) is None
    policy = next(each["content"] for _, each in found.tags if each.get("http-equiv") == "Content-Security-Policy")
    assert (policy or "").startswith("default-src 'none'")


def test_hostile_values_stay_text(stack_file: Write) -> None:
    text = page([hostile_report(stack_file)])
    found = read(text)

    parsed(text)
    assert {tag for tag, _ in found.tags} & {"script", "img"} == set()
    assert not any(name.startswith("on") for _, attributes in found.tags for name in attributes)
    assert "".join(found.words).count("<script>alert(1)</script>") >= 12
    assert all(each.isprintable() for each in text.split("\n"))


def test_a_page_of_a_refused_file_is_as_sound(stack_file: Write) -> None:
    refused = [Located(stack_file(), 3, Problem((HOSTILE,), HOSTILE, HOSTILE))]
    text = page([StackReport(HOSTILE, HOSTILE, None, refused=refused)])

    parsed(text)
    assert "refused, 1 problem" in "".join(read(text).words)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("config: {}\n", "has neither gpupools:clusters nor gpupools:pools"),
        ("config: {gpupools:clusters: {}, gpupools:pools: {}}\n", "pools: got {}"),
        (STACK.partition("  gpupools:pools:")[0] + "  gpupools:pools: {}\n", "pools: got {}"),
    ],
    ids=["no text", "no key", "no cluster", "no pool"],
)
def test_an_empty_stack_is_a_sound_page_and_comment(
    text: str, said: str, stack_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(stack_file(text)), "-o", "plan.html"]) == 1
    made = Path("plan.html").read_text(encoding="utf-8")
    assert main(["report", "Pulumi.dev.yaml", "--markdown"]) == 1

    parsed(made)
    assert said in "".join(read(made).words)
    assert said in capsys.readouterr().out


def test_findings_of_a_policy_are_told_up_to_a_number(stack_file: Write) -> None:
    text = page([hostile_report(stack_file, findings=10_000)])

    assert f"and {10_000 - MOST_FINDINGS} more" in text
    assert len(text) < 2_000_000


def test_every_pool_is_drawn_and_said(stack_file: Write) -> None:
    found = read(written(stack_file))
    drawings = [each["aria-label"] for tag, each in found.tags if tag == "svg" and each.get("role") == "img"]

    cut = ", ".join(f"8 nvidia.com/mig-{each}" for each in ("1g.5gb", "2g.10gb", "3g.20gb"))
    assert drawings == [
        "Pool big: 2 to 4 nodes of 8 × H100-80GB, sharing none, each offers 8 nvidia.com/gpu",
        f"Pool cut: 0 to 2 nodes of 8 × A100-40GB, sharing mig-mixed 3g.20gb+2g.10gb+1g.5gb, each offers {cut}",
        "Pool shared: 0 to 30 nodes of 1 × L4, sharing time-slicing × 4, each offers 4 nvidia.com/gpu",
    ]


def test_the_drawing_has_as_many_gpus_slices_and_clients_as_the_plan(stack_file: Write) -> None:
    text = written(stack_file)
    nodes = dict(re.findall(r'<g id="(n\d)">(.*?)</g>', text))
    count = {
        each: tuple(body.count(f'class="{kind}"') for kind in ("gpu", "slice", "client"))
        for each, body in nodes.items()
    }

    assert count == {"n0": (8, 8, 0), "n1": (8, 24, 0), "n2": (1, 1, 3)}


def test_who_tolerates_a_taint_is_said(stack_file: Write) -> None:
    text = " ".join(read(written(stack_file)).words)

    pods = "the pods written for these pools"
    assert re.search(rf"nvidia\.com/gpu=present:NoSchedule +big, cut +{pods}, device plugin \(gpu-operator\)", text)
    assert re.search(rf"gpupools/trust=research:NoSchedule +shared +{pods} ", text)


def test_pools_that_look_alike_share_one_drawing(stack_file: Write) -> None:
    pools = "".join(f"    p{each}: {{clusters: [lab], gpu: L4, nodes: {{max: 6}}}}\n" for each in range(1000))
    text = written(stack_file, STACK.partition("    big:")[0] + pools)

    assert text.count("<article") == 1000
    assert len(re.findall(r'<g id="n\d+"', text)) == 1
    assert len(text.encode()) < 2_000_000


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_every_box_of_a_drawing_stands_out(theme: str) -> None:
    """Of WCAG 2.2, 1.4.11 and 1.4.3: a contrast of 3 for what parts a GPU from a slice, and of 4.5 for text."""
    blocks = re.findall(r":root\{(.*?)\}", (ROOT / "gpupools" / "report" / "page.css").read_text(encoding="utf-8"))
    colours = dict(re.findall(r"--(\w+):#(\w+)", blocks[("light", "dark", "print").index(theme)]))

    def light(name: str) -> float:
        digits = colours[name] if len(colours[name]) == 6 else "".join(each * 2 for each in colours[name])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        lit = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
        return 0.2126 * lit[0] + 0.7152 * lit[1] + 0.0722 * lit[2]

    def contrast(one: str, other: str) -> float:
        dark, bright = sorted((light(one), light(other)))
        return (bright + 0.05) / (dark + 0.05)

    assert min(contrast("line", on) for on in ("bg", "panel", "gpu", "slice")) >= 3
    assert min(contrast("fg", on) for on in ("bg", "panel", "gpu", "slice")) >= 4.5
    assert min(contrast(text, on) for text in ("dim", "bad", "warn", "good", "link") for on in ("bg", "panel")) >= 4.5


TEAMS = """\
  gpupools:teams:
    vision: {namespaces: [vision], guarantee: {big: 8}}
  gpupools:quotas: {L-417A185B: 9999}
"""


def test_the_first_answers_are_the_cost_the_users_and_the_changes(stack_file: Write) -> None:
    text = STACK.replace("~/.kube/config}", "~/.kube/config}, runtime: {scheduler: kueue}").replace(
        "eu-central-1", "us-east-1"
    )
    checked = check_stack_file(stack_file(text + TEAMS), clouds())
    found: dict[str, Any] = {"prices": prices_of(checked.plan, clouds()), "quotas": quotas_of(checked.plan, clouds())}
    report = StackReport("f", "dev", checked.plan, **found)
    answers = dict(report.answers())

    assert list(answers) == ["What do we pay", "Who uses it", "What is declared"]
    assert answers["What do we pay"].startswith(total(found["prices"]).monthly)
    costs = {name: most for name, _, most in report.costs()}
    big = next(each for each in found["prices"] if each.key == "train/big")
    assert big.at_max is not None
    assert costs["guarantee of vision"] == f"${big.at_max / big.max_nodes * 730:,.0f}/month"
    assert {"cluster train", "cluster lab"} <= set(costs)
    limits = {report.limit(each) for each in report.quotas}
    assert limits == {"9999 vCPUs", "not in gpupools:quotas"}
    for each in (page([report]), comment([report])):
        assert costs["guarantee of vision"] in each
        assert "9999 vCPUs" in each


def test_the_same_advice_for_many_resources_is_said_once() -> None:
    violations = tuple(Violation(f"urn::a::b::c::{each}", f"why\n{each}: keep none") for each in ("x", "y"))
    verdict = PolicyVerdict("p", "advisory", "why", violations)

    assert list(finding_lines(verdict)) == ["x, y: keep none"]
