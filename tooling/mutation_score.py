"""Measures what the tests of the rules and readers notice: makes many small changes and counts the unnoticed ones.

    python tooling/mutation_score.py --mutants 120 --seed 7

A mutant is `policies/gpupools/policies/rules.py` or a reader (`MODULES`) with one change: another comparison,
`and` for `or`, a condition left out or turned round, another number or truth value, another string where it decides
(effects, type tokens, names of properties, patterns), nothing returned. Texts for people, docstrings, annotations and
the constants of class bodies stay. The mutants are drawn with the seed; each runs in a fork of one process that has
imported everything, so no file is ever changed and a mutant costs about as much as the tests that it is shown:
the corpus and the tests over gRPC (judged in this process instead), 400 pools of the differential, and the unit tests
of rules and readers. Tests that need other fixtures than the running pack or a judge of files are left out, and so are
those that fail without any change.

A mutant that is noticed by a failing test, by an error, or by no end within the time limit counts as killed. What is
printed of a survivor is its place and its change; `EQUIVALENT` names those that no input can tell from the original.
"""

import argparse
import ast
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.dont_write_bytecode = True
os.environ["GPUPOOLS_FUZZ_POOLS"] = "400"

import pytest  # noqa: E402 - after the path

MODULES: Mapping[str, str] = {
    "gpupools.policies.rules": "policies/gpupools/policies/rules.py",
    "gpupools.planned.pool_facts": "gpupools/planned/pool_facts.py",
    "gpupools.read.inputs": "gpupools/read/inputs.py",
    "gpupools.read.kubernetes_pools": "gpupools/read/kubernetes_pools.py",
    "gpupools.read.cluster_api": "gpupools/read/cluster_api.py",
    "gpupools.read.embedded_pools": "gpupools/read/embedded_pools.py",
    "gpupools.providers.aws.user_data": "providers/gpupools/providers/aws/user_data.py",
    "gpupools.providers.aws.cloudformation": "providers/gpupools/providers/aws/cloudformation.py",
    "gpupools.providers.aws.read_back": "providers/gpupools/providers/aws/read_back.py",
    "gpupools.providers.azure.read_back": "providers/gpupools/providers/azure/read_back.py",
    "gpupools.providers.gcp.read_back": "providers/gpupools/providers/gcp/read_back.py",
}
CLOUDS = ("aws", "azure", "gcp")

TESTS = (
    "tests/providers/test_whole_pools.py",
    "tests/policies/test_rules.py",
    "tests/policies/test_configuration.py",
    "tests/gpupools/test_reading.py",
    *(f"tests/providers/test_{cloud}_read_back.py" for cloud in CLOUDS),
    "tests/providers/test_user_data_read_back.py",
    "tests/gpupools/test_kubernetes_pools.py",
    "tests/policies/documents/test_cluster_api.py",
    "tests/policies/test_rules_over_grpc.py",
    "tests/policies/test_corpus.py",
    "tests/policies/test_differential.py",
    "tests/providers/test_read_back.py",
)
"""Files with tests, in the order in which they are asked."""

EQUIVALENT: Mapping[tuple[str, str, str], str] = {
    (
        "policies/gpupools/policies/rules.py",
        'wish = Wish("pool", spec, _example_cluster(cloud_name), instance, software, sharing.kind, capability)',
        "'pool' -> 'pool-mutant'",
    ): "the name of an imagined pool is in no finding",
    (
        "policies/gpupools/policies/rules.py",
        'return tuple(name for name in cloud.software if name != "cloud-managed") or tuple(cloud.software)',
        (
            "tuple((name for name in cloud.software if name != 'cloud-managed')) or tuple(cloud.software) -> "
            "tuple((name for name in cloud.software if name != 'cloud-managed'))"
        ),
    ): "every cloud has a way beside cloud-managed",
    (
        "providers/gpupools/providers/aws/read_back.py",
        "if not in_cluster and given is UNKNOWN:",
        "not in_cluster and given is UNKNOWN -> given is UNKNOWN",
    ): "what is not known yet was not read, so it says nothing of a cluster",
    (
        "gpupools/read/cluster_api.py",
        'found = Accelerator("nvidia", Fraction(number(count) or 0), text(kind))',
        "0 -> 1",
    ): "a count above 0 is what the line is for",
    (
        "gpupools/read/inputs.py",
        'taint = parse_taint(item if isinstance(item, str) else "")',
        "'' -> '-mutant'",
    ): "both are no taint, and what is no text gets a sentence of its own",
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


@dataclass(frozen=True)
class Mutant:
    """One change: the node to put at a place of a file's syntax tree."""

    module: str
    parent: int
    """Position in `ast.walk`."""
    field: str
    index: int | None
    node: ast.AST
    line: int
    change: str

    def compiled(self) -> Any:
        """Compile the file with the change."""
        path = ROOT / MODULES[self.module]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parent = next(node for position, node in enumerate(ast.walk(tree)) if position == self.parent)
        if self.index is None:
            setattr(parent, self.field, self.node)
        else:
            getattr(parent, self.field)[self.index] = self.node
        return compile(ast.fix_missing_locations(tree), str(path), "exec")

    def original(self) -> ast.AST:
        """Return the node that the change replaces."""
        tree = ast.parse((ROOT / MODULES[self.module]).read_text(encoding="utf-8"))
        parent = next(node for position, node in enumerate(ast.walk(tree)) if position == self.parent)
        found: ast.AST = getattr(parent, self.field)
        return found if self.index is None else getattr(parent, self.field)[self.index]

    @property
    def source(self) -> str:
        """The line of the file, stripped."""
        return (ROOT / MODULES[self.module]).read_text(encoding="utf-8").splitlines()[self.line - 1].strip()

    @property
    def equivalent(self) -> str:
        """Why no input can tell it from the original; empty where one may."""
        return EQUIVALENT.get((MODULES[self.module], self.source, self.change), "")


def mutants(module: str) -> list[Mutant]:
    """Make every mutant of one module, in the order of the file."""
    tree = ast.parse((ROOT / MODULES[module]).read_text(encoding="utf-8"))
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
                condition = field == "test" or (field == "ifs" and isinstance(parent, ast.comprehension))
                found += [
                    Mutant(module, position, field, at, node, getattr(child, "lineno", 0), change)
                    for change, node in _changes(child, condition)
                ]
    return sorted(found, key=lambda one: one.line)


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


# --- a mutant in a process --------------------------------------------------------------------------------------------


def exchange(mutant: Mutant) -> None:
    """Make this process run the mutant, wherever its functions were imported to.

    The old functions take the new code, since others hold on to them; constants are replaced by name and identity.
    """
    old = vars(sys.modules[mutant.module])
    new: dict[str, Any] = {key: old[key] for key in ("__name__", "__file__", "__package__", "__builtins__")}
    exec(mutant.compiled(), new)
    ours = [each for name, each in sys.modules.items() if name.split(".")[0] in ("policies", "gpupools", "providers")]
    for name, value in new.items():
        before = old.get(name)
        # A constant that the change does not touch stays, since others tell it by its identity.
        if name.startswith("__") or value is before or (not callable(value) and repr(value) == repr(before)):
            continue
        if isinstance(value, type):
            for attribute, method in vars(value).items():
                _take(vars(before).get(attribute), method)
        elif not _take(before, value):
            _replace(before, value)
            for module in ours:
                if vars(module).get(name) is before and not _in_place(before):
                    setattr(module, name, value)


def _take(old: Any, new: Any) -> bool:
    """Give a function or property the code of another; say whether they were some."""
    if hasattr(old, "cache_clear"):
        old.cache_clear()
    if isinstance(old, property) and isinstance(new, property):
        return _take(old.fget, new.fget)
    old, new = getattr(old, "__wrapped__", old), getattr(new, "__wrapped__", new)
    if not isinstance(old, FunctionType) or not isinstance(new, FunctionType) or old.__closure__ or new.__closure__:
        return isinstance(old, FunctionType) and bool(old.__closure__)
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
    return True


def _in_place(value: Any) -> bool:
    from gpupools.policies.finding import Rule

    return isinstance(value, Rule) or (isinstance(value, tuple) and any(isinstance(one, Rule) for one in value))


def _replace(old: Any, new: Any) -> None:
    """Give rules the fields of the mutant's, because the pack and the tests hold the rules themselves."""
    for before, after in zip(old, new, strict=True) if isinstance(old, tuple) else [(old, new)]:
        if _in_place(before) and not isinstance(before, tuple):
            for each in fields(before):
                object.__setattr__(before, each.name, getattr(after, each.name))


class PackInThisProcess:
    """Answers what `preview.pack.PolicyPackProcess` answers, from this process' own rules."""

    def __init__(self, module: ModuleType) -> None:
        self._config: Mapping[str, Any] = getattr(module, "CONFIG", {})
        self._stack = "prod" if self._config else "preview"

    def analyze(self, urn: str, type_: str, name: str, properties: Any, options: Any = None) -> list[Any]:
        """Judge one resource by every rule that one resource decides."""
        from gpupools.policies import pack, rules
        from gpupools.policies.finding import Context, told
        from gpupools.policies.software import is_software, read_software
        from gpupools.policies.wire import decoded
        from gpupools.preview.pack import Diagnostic, as_engine_sends

        inputs = decoded(as_engine_sends(properties))
        pools, said = pack.read_pools(type_, inputs), []
        software = read_software(type_, inputs) if is_software(type_) else None
        for rule in rules.RULES:
            protect = bool(options and options.protect)
            context = Context(config=self._config.get(rule.name, {}), stack=self._stack, protect=protect)
            found = [one for pool in pools for one in rule.pool(pool, context)] if rule.pool else []
            found += [*rule.software(software, context)] if rule.software and software else []
            for one in found:
                late = one.unverified and pack._advisory(rule, context)
                message = f"{rule.why}\n{name}: {told(one, inputs, rule)}" + (f" ({rule.name})" if late else "")
                policy, level = (pack.UNVERIFIED, "advisory") if late else (rule.name, rule.level.value)
                said.append(Diagnostic(policy, level, message, rule.why, urn, "medium" if late else rule.severity))
        return said

    def analyze_stack(self, resources: Iterable[Any]) -> list[Any]:
        """Judge the whole stack by every rule that sees it."""
        from gpupools.policies import pack, stack_rules
        from gpupools.policies.declared import Stack
        from gpupools.policies.finding import Context, told
        from gpupools.preview.pack import Diagnostic, as_engine_sends

        def wired(given: Any) -> Any:
            each: Any = SimpleNamespace(**{name: getattr(given, name) for name in ("urn", "name", "parent")})
            each.resource_type, each.props, each.before = (
                given.type,
                pack.Inputs(as_engine_sends(given.properties)),
                None,
            )
            each.parent_urn, each.provider_urn = given.parent, given.provider.urn if given.provider else ""
            each.depends, each.by_property = tuple(given.dependencies), dict(given.property_dependencies)
            return pack._declared(each)

        stack, said = Stack([wired(each) for each in resources]), []
        for rule in stack_rules.STACK_RULES:
            context = Context(config=self._config.get(rule.name, {}), stack=self._stack)
            for urn, one in rule.stack(stack, context) if rule.stack else ():
                resource = stack.by_urn.get(urn)
                late = one.unverified and pack._advisory(rule, context)
                message = told(one, resource.inputs if resource else {}, rule)
                message = f"{rule.why}\n{resource.name}: {message}" if resource else f"{rule.why}\n{message}"
                policy, level = (pack.UNVERIFIED_IN_STACK, "advisory") if late else (rule.name, rule.level.value)
                said.append(Diagnostic(policy, level, message, rule.why, urn, rule.severity))
        return said


def judged(content: Any, config: Any = None) -> Any:
    """Judge content as a file, as the fixture of that name in `tests/policies/documents` does."""
    from gpupools.policies.documents.judging import Config, judge_file

    with NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else json.dumps(content))
        file.flush()
        return judge_file(Path(file.name), config or Config())


def _asked(item: Any, pack: Callable[[ModuleType], Any]) -> Callable[[], None] | None:
    """Return a test as a plain call; None where it needs more fixtures than the pack."""
    given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    needed = [name for name in item._fixtureinfo.argnames if name not in given]
    if not set(needed) <= {"pack", "judge"} or item.name.startswith(
        ("test_the_running_pack", "test_the_corpus_is_large")
    ):
        return None
    more = {name: pack(item.module) if name == "pack" else judged for name in needed}
    return lambda: item.obj(**given, **more)


def in_fork(work: Callable[[], Sequence[int]], limit_s: float) -> list[int] | None:
    """Run work in a fork and return its numbers; None where it ended with an error or not in time."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            signal.setitimer(signal.ITIMER_REAL, limit_s)  # ends this process, with no handler to survive it
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            os.write(writing, ",".join(map(str, work())).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return [int(one) for one in said.split(b",") if one] if status == 0 else None


class Score:
    """A plugin of pytest that runs mutants in the place of the tests that were collected."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked

    def pytest_runtestloop(self, session: Any) -> bool:
        """Draw the mutants, show each to the tests, and print what came of it."""
        for module in MODULES:
            import_module(module)  # otherwise only when a cloud is asked for
        differential: Any = sys.modules.get("tests.policies.test_differential") or next(
            item.module for item in session.items if "test_differential" in item.nodeid
        )
        differential.smallest = lambda type_, wire, differs: wire  # any disagreement is enough here
        order = {name: position for position, name in enumerate(TESTS)}
        items = sorted(session.items, key=lambda item: order[item.nodeid.split("::")[0]])
        calls = [(item, _asked(item, PackInThisProcess)) for item in items]
        tests = [(item, call) for item, call in calls if call is not None]
        began = time.monotonic()
        passing = set(in_fork(lambda: [n for n, (_, call) in enumerate(tests) if not _fails(call)], 600.0) or [])
        # A busy machine must not pass for a test that notices.
        self.asked.limit = max(self.asked.limit, 5 * (time.monotonic() - began))
        odd = [item.nodeid for n, (item, _) in enumerate(tests) if n not in passing]
        print(f"\n{len(passing)} tests; left out: {len(calls) - len(tests)} with fixtures, {len(odd)} failing")
        tests = [one for n, one in enumerate(tests) if n in passing]
        for module in {mutant.module for mutant in self._drawn()}:
            unchanged = next(iter(mutants(module)))
            unchanged = replace(unchanged, node=unchanged.original(), change="none")
            if not self._survives(unchanged, tests):
                raise SystemExit(f"{module}: the tests fail without a change, once its code is exchanged")
        drawn = self._drawn()
        killed: Counter[str] = Counter()
        survivors: list[Mutant] = []
        began = time.monotonic()
        for mutant in drawn:
            if self._survives(mutant, tests):
                survivors.append(mutant)
                print(f"survived: {_place(mutant)}: {mutant.change}", flush=True)
            else:
                killed[MODULES[mutant.module]] += 1
        self._report(drawn, survivors, killed, time.monotonic() - began)
        return True

    def _drawn(self) -> list[Mutant]:
        every = [
            mutant
            for module, path in MODULES.items()
            if not self.asked.files or path in self.asked.files
            for mutant in mutants(module)
        ]
        count = min(self.asked.mutants, len(every))
        print(f"{len(every)} mutants can be made; {count} drawn with seed {self.asked.seed}")
        return random.Random(self.asked.seed).sample(every, count)

    def _survives(self, mutant: Mutant, tests: Sequence[tuple[Any, Callable[[], None]]]) -> bool:
        cloud = next((each for each in CLOUDS if f".{each}." in mutant.module), "")

        def noticed() -> list[int]:
            exchange(mutant)
            return [next((n for n, (item, call) in enumerate(tests) if _about(item, cloud) and _fails(call)), -1)]

        return in_fork(noticed, self.asked.limit) == [-1]

    def _report(self, drawn: list[Mutant], survivors: list[Mutant], killed: Counter[str], took_s: float) -> None:
        same = [mutant for mutant in survivors if mutant.equivalent]
        print(f"\n{len(drawn)} mutants, seed {self.asked.seed}, {took_s / max(len(drawn), 1):.2f} s each")
        for path in MODULES.values():
            left = [mutant for mutant in survivors if MODULES[mutant.module] == path and not mutant.equivalent]
            print(f"  {path}: {killed[path]} killed, {len(left)} survived")
        for mutant in same:
            print(f"  equivalent: {_place(mutant)}: {mutant.change}: {mutant.equivalent}")
        counted = len(drawn) - len(same)
        print(f"mutation score {100 * sum(killed.values()) / max(counted, 1):.1f} % of {counted} that differ")


def _place(mutant: Mutant) -> str:
    return f"{MODULES[mutant.module]}:{mutant.line}"


def _about(item: Any, cloud: str) -> bool:
    """Say whether a test can notice a change in this cloud's reader; every test where no cloud is named."""
    others = [each for each in CLOUDS if cloud and each != cloud]
    if any(f"/test_{each}" in item.nodeid for each in others):
        return False
    case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
    return not (isinstance(case, Mapping) and case.get("cloud") in others)


def _fails(call: Callable[[], None]) -> bool:
    try:
        call()
    except BaseException:
        return True
    return False


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=120, help="how many to draw")
    parser.add_argument("--seed", type=int, default=7, help="the same seed draws the same mutants of the same files")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one mutant")
    parser.add_argument("files", nargs="*", help=f"some of {', '.join(MODULES.values())}; all unless given")
    options = parser.parse_args()
    os.chdir(ROOT)
    quiet = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--no-summary"]
    return int(pytest.main([*quiet, *TESTS], plugins=[Score(options)]))


if __name__ == "__main__":
    raise SystemExit(main())
