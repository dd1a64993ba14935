"""Measure the mutation score: make many small changes to the code and count those that no test detects.

    python tooling/mutation_score.py runtime --mutants 80 --seed 7

A mutant is one file of an area (`AREAS`) with one change: another comparison, `and` for `or`, a condition left out or
turned round, another number or truth value, another string where it decides (effects, type tokens, names of
properties, patterns), nothing returned. Texts for people, docstrings, annotations and the constants of class bodies
stay. The mutants are drawn with the seed.

First every test, the slow ones too, is run once and the functions that it calls are written down, test file by test
file (kept in `--calls` until the file, a table beside it or one of these functions changes, wherever it stands). A
mutant is then shown the tests that call the changed function, or where the change is in no function those that call any
of the file and those of `WHOLE`, as many as take `SHOWN_S` together: what is said to survive may die of a test beyond
them. It runs in a fork of a process that has imported the clouds' SDKs but nothing of ours: the file is compiled with
the change when it is imported, and never written. Left out are tests that start programs (`LEFT_OUT`), which would run
the unchanged files, those that take longer than `LONGEST_S`, and those that fail without any change.

A mutant that is noticed by a failing test, by an error, or by no end within the time limit counts as killed. What is
printed of a survivor is its place and its change; `EQUIVALENT` names those that no input can tell from the original.
"""

import argparse
import ast
import hashlib
import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.dont_write_bytecode = True

import pytest  # noqa: E402 - after the path

RULES_AND_READERS = (
    "policies/gpupools/policies/rules/*.py",
    "gpupools/plan/pool_facts.py",
    "gpupools/readback/*.py",
    "providers/gpupools/providers/aws/user_data*.py",
    "gpupools/audit/cloudformation_template.py",
    "providers/gpupools/providers/*/readback.py",
)
AREAS: Mapping[str, tuple[str, ...]] = {
    "policies": RULES_AND_READERS,
    "providers": ("providers/gpupools/providers/**/*.py",),
    "runtime": ("gpupools/software/*.py",),
    "planned": ("gpupools/plan/*.py",),
    "components": ("components/gpupools/components/*.py",),
    "preview": ("preview/gpupools/preview/*.py",),
}
"""The files of each; what is among the rules and readers is in no other."""

LEFT_OUT = (
    *("tests/engine/", "tests/charts/", "tests/apiserver/", "tests/docs/", "tests/security/", "tests/wheel/"),
    *("tests/release/", "test_makefile.py"),
)
LONGEST_S = 8.0
AT_LEAST_CPU_S = 20
AT_MOST_S = 600
"""Seconds on the clock, however busy the machine is."""
JOBS = os.cpu_count() or 1
SHOWN_S = 90.0
WHOLE = "tests/golden/"
"""Tests that compare everything that is planned and declared, which is what a changed table comes to."""
FILES_AT_FIRST = 3
OURS = ("gpupools", "providers", "components", "policies", "preview", "stacks", "tests")

EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "policies/gpupools/policies/rules/gpu_sharing_supported.py",
        'wish = PoolRequest("pool", spec, _example_cluster(cloud_name), instance, software, sharing.kind, capability)',
        "'pool' -> 'pool-mutant'",
    ): "the name of an imagined pool is in no finding",
    (
        "policies/gpupools/policies/rules/gpu_sharing_supported.py",
        'return tuple(name for name in cloud.software if name != "cloud-managed") or tuple(cloud.software)',
        (
            "tuple((name for name in cloud.software if name != 'cloud-managed')) or tuple(cloud.software) -> "
            "tuple((name for name in cloud.software if name != 'cloud-managed'))"
        ),
    ): "every cloud has a way beside cloud-managed",
    (
        "components/gpupools/components/declared_components.py",
        'return {"cloud": cloud.name, **cloud.cluster.place_of(cluster)}',
        "'cloud' -> 'cloud-mutant'",
    ): "both places that are compared get the key",
    (
        "gpupools/readback/inputs.py",
        'taint = parse_taint(item if isinstance(item, str) else "")',
        "'' -> '-mutant'",
    ): "both are no taint, and what is no text gets a sentence of its own",
    (
        "providers/gpupools/providers/aws/constraints.py",
        r'pinned = re.match(r"v?(\d+)\.(\d+)\.", str(given or ""))',
        "given or '' -> given",
    ): "None as text is no release either",
    (
        "providers/gpupools/providers/gcp/constraints.py",
        (
            'surge = [key for key in ("maxSurge", "maxUnavailable") '
            "if given.get(key, None if planned else 0) is not None]"
        ),
        "0 -> 1",
    ): "only whether there is a number counts",
    (
        "gpupools/software/objects.py",
        "for space in trust.namespaces or []:",
        "trust.namespaces or [] -> trust.namespaces",
    ): "a quota, which is asked for above, stands beside namespaces alone",
    (
        "gpupools/software/constraints.py",
        "for space in pool.trust.namespaces or []:",
        "pool.trust.namespaces or [] -> pool.trust.namespaces",
    ): "a quota, which is asked for above, stands beside namespaces alone",
    (
        "preview/gpupools/preview/format_preview.py",
        "width = max((len(verdict.policy) for verdict in verdicts), default=0)",
        "0 -> 1",
    ): "without verdicts no line has a width",
    (
        "preview/gpupools/preview/sdk_schema.py",
        'fix = nearest("" if hidden else bare, map(str, allowed), most=20)',
        "'' -> '-mutant'",
    ): "no value is like either, so both list what is known",
}
"""Why a change is none, by file, source line (stripped) and change."""

_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}

_FOR_PEOPLE = frozenset({"what", "fix", "why", "wanted", "source", "description", "severity", "url", "framework"})
_WANTED, _WHY = 4, 5
"""Positions of the texts in `Hardening.want`."""


@cache
def files(area: str) -> tuple[str, ...]:
    """Name the files of an area, in order."""
    first = {str(path.relative_to(ROOT)) for each in RULES_AND_READERS for path in ROOT.glob(each)}
    found = {str(path.relative_to(ROOT)) for each in AREAS[area] for path in ROOT.glob(each)}
    return tuple(sorted(found if area == "policies" else found - first))


@cache
def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Mutant:
    """One change: the node to put at a place of a file's syntax tree."""

    path: str
    parent: int
    """Position in `ast.walk`."""
    field: str
    index: int | None
    node: ast.AST
    line: int
    change: str
    function: str | None
    """Digest of the function; None outside of functions."""

    def compiled(self) -> Any:
        """Compile the file with the change."""
        tree = ast.parse(_text(self.path))
        parent = next(node for position, node in enumerate(ast.walk(tree)) if position == self.parent)
        if self.index is None:
            setattr(parent, self.field, self.node)
        else:
            getattr(parent, self.field)[self.index] = self.node
        return compile(ast.fix_missing_locations(tree), str(ROOT / self.path), "exec", dont_inherit=True)

    @property
    def source(self) -> str:
        """The line of the file, stripped."""
        return _text(self.path).splitlines()[self.line - 1].strip()

    @property
    def equivalent(self) -> str:
        """Why no input can tell it from the original; empty where one may."""
        return EQUIVALENT.get((self.path, self.source, self.change), "")

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"


def mutants(path: str) -> list[Mutant]:
    """Make every mutant of one file, in its order."""
    tree = ast.parse(_text(path))
    inside, digests = dict(_functions(tree, None)), functions(path)
    left_alone = {id(node) for top in _left_alone(tree) for node in ast.walk(top)}
    found = []
    for position, parent in enumerate(ast.walk(tree)):
        if id(parent) in left_alone:
            continue
        for field, value in ast.iter_fields(parent):
            for index, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST) or id(child) in left_alone:
                    continue
                at = index if isinstance(value, list) else None
                line = inside.get(id(child))
                function = None if line is None else digests[line]
                condition = field == "test" or (field == "ifs" and isinstance(parent, ast.comprehension))
                found += [
                    Mutant(path, position, field, at, node, getattr(child, "lineno", 0), change, function)
                    for change, node in _changes(child, condition)
                ]
    return sorted(found, key=lambda one: one.line)


def _functions(node: ast.AST, inside: int | None) -> Iterator[tuple[int, int | None]]:
    """Yield the innermost function of each node, by the first line that its code has."""
    for child in ast.iter_child_nodes(node):
        yield id(child), inside
        within = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            within = min([child.lineno, *(each.lineno for each in getattr(child, "decorator_list", ()))])
        yield from _functions(child, within)


@cache
def functions(path: str) -> Mapping[int, str]:
    """Digest the text of each function of a file, by the first line that its code has."""
    if not (ROOT / path).is_file():
        return {}
    lines, found = _text(path).splitlines(), {}
    for node in ast.walk(ast.parse(_text(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            line = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            text = "\n".join(lines[line - 1 : node.end_lineno])
            found[line] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def _left_alone(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what decides nothing, or what a fork cannot exchange."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
            yield node
        elif isinstance(node, ast.Expr):
            yield from [node] if isinstance(node.value, ast.Constant) else []
        elif isinstance(node, ast.FunctionDef | ast.arg | ast.AnnAssign):
            annotation = node.returns if isinstance(node, ast.FunctionDef) else node.annotation
            yield from [annotation] if annotation else []
        elif isinstance(node, ast.ClassDef):
            yield from (each for each in node.body if isinstance(each, ast.AnnAssign | ast.Assign))
            yield from node.decorator_list
        elif isinstance(node, ast.Assign):
            yield from [node] if ast.unparse(node.targets[0]) == "__all__" else []
        elif isinstance(node, ast.Call):
            yield from (each.value for each in node.keywords if each.arg in _FOR_PEOPLE)
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield from node.args[_WANTED : _WHY + 1] if called == "want" else ()
            yield from node.args if called in ("note", "Framework", "cast", "TypeVar", "Hardening") else ()
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from [node] if " " in node.value or node.value.startswith("http") else []


def _changes(node: ast.AST, condition: bool) -> Iterator[tuple[str, ast.AST]]:
    """Yield what to put in a node's place, with the change in words."""
    if condition and not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        assert isinstance(node, ast.expr)
        yield _told(node, ast.UnaryOp(ast.Not(), node))
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            swapped = [*node.ops[:index], _COMPARISONS[type(operator)](), *node.ops[index + 1 :]]
            yield _told(node, ast.Compare(node.left, swapped, node.comparators))
    elif isinstance(node, ast.BoolOp):
        yield _told(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        for index in range(len(node.values)):
            rest = [*node.values[:index], *node.values[index + 1 :]]
            yield _told(node, ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _told(node, node.operand)
    elif isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield _told(node, ast.Return(ast.Constant(None)))
    elif isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            yield _told(node, ast.Constant(not value))
        elif isinstance(value, int):
            yield _told(node, ast.Constant(value + 1))
        elif isinstance(value, str):
            yield _told(node, ast.Constant(f"{value}-mutant"))


def _told(node: ast.AST, changed: ast.AST) -> tuple[str, ast.AST]:
    return f"{ast.unparse(node)} -> {ast.unparse(ast.fix_missing_locations(changed))}", changed


# --- what a test calls ------------------------------------------------------------------------------------------------


def pack_in_this_process() -> type[Any]:
    """Return what answers as `preview.pack_process.PolicyPackProcess` does, from this process' own rules."""
    from pulumi_policy import EnforcementLevel  # noqa: TID251 - as the SDK starts the pack

    from gpupools.policies.pack import NAME, POLICIES, Analyzer
    from tests.policies.pack_process import PolicyPackProcess

    class PackInThisProcess(PolicyPackProcess):
        def _start(self) -> None:
            self._analyzer = Analyzer(NAME, "0", [*POLICIES.values()], EnforcementLevel.MANDATORY)
            self._configure()

        def _call(self, method: str, request: Any) -> Any:
            stack = {"PULUMI_PROJECT": "gpupools", "PULUMI_STACK": self._stack, "PULUMI_DRY_RUN": "true"}
            with patch.dict(os.environ, stack):
                return getattr(self._analyzer, method)(request, None)

    return PackInThisProcess


class InFork:
    """A plugin of pytest for a process that runs tests: the pack's rules are asked in it, not in one of their own."""

    def __init__(self, pack_here: bool) -> None:
        self._pack_here = pack_here

    def pytest_configure(self) -> None:
        """Exchange the process that runs the policy pack."""
        if self._pack_here:
            from tests.policies import pack_process

            vars(pack_process)["PolicyPackProcess"] = pack_in_this_process()


class Calls(InFork):
    """Writes down which functions of ours each test calls, and how long it takes."""

    def __init__(self, pack_here: bool) -> None:
        super().__init__(pack_here)
        self.tests: dict[str, tuple[float, list[tuple[str, str]]]] = {}
        self._passed: dict[str, bool] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """Run one test."""
        called: set[tuple[str, int]] = set()

        def trace(frame: FrameType, event: str, argument: Any) -> None:
            code = frame.f_code
            if code.co_filename.startswith(str(ROOT)):
                called.add((code.co_filename, code.co_firstlineno))

        before = time.process_time()
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            answer = yield
        finally:
            sys.settrace(None)
            threading.settrace(None)
        short = ((name.removeprefix(f"{ROOT}/"), line) for name, line in called)
        at = (
            (name, functions(name).get(line)) for name, line in short if name.startswith(OURS) and "/test_" not in name
        )
        ours = sorted((name, digest) for name, digest in at if digest)
        if self._passed.get(item.nodeid):
            self.tests[item.nodeid] = (time.process_time() - before, ours)
        return answer

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note whether the test, its fixtures included, passed."""
        self._passed[report.nodeid] = self._passed.get(report.nodeid, True) and report.outcome == "passed"


class Chosen(InFork):
    """Lets only some tests run, in their order."""

    def __init__(self, pack_here: bool, names: Sequence[str]) -> None:
        super().__init__(pack_here)
        self._order = {name: position for position, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave the others out."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order), key=lambda item: self._order[item.nodeid]
        )


def run_tests(named: Sequence[str], plugin: InFork) -> int:
    """Run test files in this process."""
    quiet = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--no-summary", "--tb=no"]
    quiet += ["-m", ""]  # what is too slow for `make test` notices as much as the others
    if isinstance(plugin, Calls):
        quiet.remove("-x")
    return int(pytest.main([*quiet, *named], plugins=[plugin]))


def fork(work: Callable[[], int], cpu_s: float) -> int:
    """Start work in a fork, which ends with the number that it returns; return its process id."""
    child = os.fork()
    if child:
        return child
    status = 3
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(AT_MOST_S)
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 2))
        status = work()
    finally:
        os._exit(status)


@dataclass(frozen=True)
class Test:
    """One test that passes without a change."""

    name: str
    seconds: float
    calls: frozenset[tuple[str, str]]

    @property
    def file(self) -> str:
        """The file that it is in."""
        return self.name.partition("::")[0]


def measured(folder: Path, pack_here: bool, some: str, jobs: int) -> list[Test]:
    """Run every test once, or read what was written down where its file and the functions called are the same."""
    names = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    left_out = LEFT_OUT if pack_here else (*LEFT_OUT, "tests/policies/")
    names = [name for name in names if some in name and not any(each in name for each in left_out)]
    for path in (path for top in OURS for path in (ROOT / top).rglob("*.py") if not path.name.startswith("test_")):
        functions(str(path.relative_to(ROOT)))
    running: dict[int, tuple[str, Path]] = {}
    found: list[Test] = []

    def read(kept: Path) -> list[Test]:
        tests = json.loads(kept.read_text(encoding="utf-8")).items() if kept.exists() else ()
        return [
            Test(test, took_s, frozenset((path, digest) for path, digest in calls)) for test, (took_s, calls) in tests
        ]

    def taken(name: str, kept: Path) -> None:
        if not kept.exists():
            print(f"left out: {name} did not end", flush=True)
        found.extend(test for test in read(kept) if test.seconds <= LONGEST_S)

    for name in names:
        key = hashlib.sha256(f"{pack_here} {name} {sys.version}".encode())
        key.update((ROOT / name).read_bytes())
        for table in sorted((ROOT / name).parent.glob("*.yaml")):
            key.update(table.read_bytes())
        kept = folder / f"{key.hexdigest()[:24]}.json"
        called = {each for test in read(kept) for each in test.calls}
        if kept.exists() and all(digest in functions(path).values() for path, digest in called):
            taken(name, kept)
            continue
        kept.unlink(missing_ok=True)

        def work(name: str = name, kept: Path = kept) -> int:
            calls = Calls(pack_here)
            run_tests([name], calls)
            written = kept.with_suffix(f".{os.getpid()}")
            written.write_text(json.dumps(calls.tests), encoding="utf-8")
            written.rename(kept)
            return 0

        while len(running) >= jobs:
            done, _ = os.wait()
            taken(*running.pop(done))
        running[fork(work, 300)] = (name, kept)
    while running:
        done, _ = os.wait()
        taken(*running.pop(done))
    return found


# --- a mutant in a process --------------------------------------------------------------------------------------------


def shown(mutant: Mutant, tests: Sequence[Test]) -> tuple[list[Test], list[Test], list[Test]]:
    """Return the tests that a mutant is shown, as many as take `SHOWN_S` together, in three turns.

    First those that compare everything that is decided, which import little; then those of the files that are most
    about it: nearly every mutant ends there, and few files are read for it.
    """
    if mutant.function is None:
        # What reads a table calls nothing of the table's file.
        direct = [
            test for test in tests if test.file.startswith(WHOLE) or any(path == mutant.path for path, _ in test.calls)
        ] or list(tests)
    else:
        direct = [test for test in tests if (mutant.path, mutant.function) in test.calls]
    count = Counter(test.file for test in direct)
    stem, folder = Path(mutant.path).stem, Path(mutant.path).parent.name
    # A file that is named after the changed one is more about it than one that is named after its cloud.
    most = set(sorted(count, key=lambda file: (-2 * (stem in file) - (folder in file), -count[file]))[:FILES_AT_FIRST])
    # What is remembered from test to test is called by the first of a file only.
    names = {test.name for test in direct}
    beside = [test for test in tests if test.file in count and test.name not in names]
    turns: tuple[list[Test], list[Test], list[Test]] = ([], [], [])
    together_s = 0.0

    def turn(test: Test) -> int:
        return 2 if test.name not in names else 0 if test.file.startswith(WHOLE) else 1 if test.file in most else 2

    for test in sorted(direct, key=lambda each: (turn(each), each.seconds)) + beside:
        together_s += test.seconds
        if together_s > SHOWN_S:
            break
        turns[turn(test)].append(test)
    return turns


def judge(mutant: Mutant, turns: Sequence[Sequence[Test]], pack_here: bool) -> int:
    """Run the tests with the change, in this process."""
    changed = mutant.compiled()
    path, original = str(ROOT / mutant.path), SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        return changed if self.path == path else original(self, fullname)

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010 - mypy has it in a class above; this process is its own
    for turn in turns:
        names = [test.name for test in turn]
        if names and (failed := run_tests(sorted({test.file for test in turn}), Chosen(pack_here, names))):
            return failed
    return 0


def imported_first() -> None:
    """Import what is not ours and takes long."""
    for name in ("pulumi", "pulumi_aws", "pulumi_azure_native", "pulumi_gcp", "pulumi_kubernetes", "pulumi_policy"):
        importlib.import_module(name)
    for name in (
        *("pulumi_aws.eks", "pulumi_aws.ec2", "pulumi_azure_native.containerservice", "pulumi_gcp.container"),
        *("pulumi_kubernetes.helm.v4", "pulumi_kubernetes.core.v1", "pulumi_kubernetes.apps.v1", "pydantic", "yaml"),
        *("botocore.session", "jsonschema", "grpc"),
        *("pulumi_policy.proxy", "tabulate", "tomli_w", "markdown_it"),
    ):
        with suppress(ImportError):
            importlib.import_module(name)
    mine = [name for name in sys.modules if name.partition(".")[0] in ("gpupools", "tests")]
    assert not mine, f"imported before the change: {mine}"


def score(area: str, asked: argparse.Namespace) -> None:
    """Draw mutants of an area, show each to the tests, and print what came of it."""
    pack_here = area == "policies"
    tests = measured(asked.calls, pack_here, asked.tests, asked.jobs)
    every = [mutant for path in files(area) if asked.only in path for mutant in mutants(path)]
    drawn = random.Random(asked.seed).sample(every, min(asked.mutants, len(every)))
    print(
        f"{area}: {len(tests)} tests; {len(every)} mutants can be made; {len(drawn)} drawn with seed {asked.seed}",
        flush=True,
    )
    began = time.monotonic()
    killed: Counter[str] = Counter()
    endless, survivors = [], []
    running: dict[int, Mutant] = {}

    def taken() -> None:
        done, status = os.wait()
        mutant = running.pop(done)
        if status == 0:
            survivors.append(mutant)
            print(f"  survived{' (equivalent)' if mutant.equivalent else ''}: {mutant}", flush=True)
            return
        killed[mutant.path] += 1
        if os.WIFSIGNALED(status):
            endless.append(mutant)

    for mutant in drawn:
        turns = shown(mutant, tests)
        if not any(turns):
            survivors.append(mutant)
            print(f"  survived, no test calls it: {mutant}", flush=True)
            continue
        while len(running) >= asked.jobs:
            taken()
        limit_s = AT_LEAST_CPU_S + 5 * sum(test.seconds for turn in turns for test in turn)
        running[fork(lambda m=mutant, t=turns: judge(m, t, pack_here), limit_s)] = mutant  # type: ignore[misc]
    while running:
        taken()
    for path in files(area):
        left = sum(mutant.path == path and not mutant.equivalent for mutant in survivors)
        if killed[path] or left:
            print(f"  {path}: {killed[path]} killed, {left} survived")
    for mutant in survivors:
        if mutant.equivalent:
            print(f"  equivalent: {mutant}: {mutant.equivalent}")
    counted = len(drawn) - sum(bool(mutant.equivalent) for mutant in survivors)
    print(
        f"{area}: {100 * sum(killed.values()) / max(counted, 1):.1f} % of {counted} that differ, seed {asked.seed}, "
        f"{len(endless)} of them by no end, {(time.monotonic() - began) / max(len(drawn), 1):.1f} s each",
        flush=True,
    )


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=80, help="how many to draw of each area")
    parser.add_argument("--seed", type=int, default=7, help="the same seed draws the same mutants of the same files")
    parser.add_argument("--only", default="", help="part of a path: only files with it are changed")
    parser.add_argument("--tests", default="", help="part of a path: only test files with it are asked")
    parser.add_argument("--calls", type=Path, default=Path(tempfile.gettempdir()) / "gpupools-calls")
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many processes at a time")
    parser.add_argument("areas", nargs="*", help=f"some of {', '.join(AREAS)}; all unless given")
    options = parser.parse_args()
    unknown = set(options.areas) - set(AREAS)
    if unknown:
        parser.error(f"no area {', '.join(sorted(unknown))}; areas: {', '.join(AREAS)}")
    os.chdir(ROOT)
    options.calls.mkdir(exist_ok=True)
    imported_first()
    for area in options.areas or AREAS:
        score(area, options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
