"""What is registered at once is what the SDK registers in its own time: of our program, and of odd ones."""

import asyncio
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulumi.runtime.proto import resource_pb2

from gpupools.preview import sync_registration
from gpupools.preview.command import PROGRAM, in_file_order, judge, preview_file
from gpupools.preview.monitor import DeclaredResource
from gpupools.preview.pack_process import PolicyPackProcess
from gpupools.preview.program_run import Preview, preview_program
from gpupools.providers import clouds
from gpupools.stackfile.check import CheckedFile, check_stack_file
from gpupools.stackfile.stack import planned

ROOT = Path(__file__).parents[2]
STACK_FILES = [
    *sorted((ROOT / "stacks").glob("Pulumi.*.yaml")),
    *sorted((ROOT / "examples" / "stacks").glob("Pulumi.*.yaml")),
    *sorted((ROOT / "tests" / "stacks").glob("Pulumi.*.yaml")),
]


def how_long(file: Path) -> list[pytest.MarkDecorator]:
    """Return the mark of the files that take seconds."""
    return [pytest.mark.slow] if file.name in ("Pulumi.matrix.yaml", "Pulumi.rack.yaml") else []


def request(resource: DeclaredResource) -> bytes:
    """Return all that the SDK sent; what it makes of sets is sorted."""
    sent = resource_pb2.RegisterResourceRequest()
    sent.CopyFrom(resource.request)
    for urns in (sent.dependencies, *(each.urns for each in sent.propertyDependencies.values())):
        urns[:] = sorted(urns)
    return sent.SerializeToString(deterministic=True)


def shown(preview: Preview) -> dict[str, Any]:
    """Return everything of a preview; resources by URN and problems by text, since they arrive in another order."""
    everything = {**vars(preview), "resources": {each.urn: each for each in preview.resources}}
    everything["problems"] = sorted(preview.problems, key=str)
    return everything | {"requests": {each.urn: request(each) for each in preview.resources}}


def both(checked: CheckedFile) -> list[Preview]:
    """Preview a stack file in the SDK's own time, and at once."""
    config = {**checked.file.others, **{f"gpupools:{key}": value for key, value in checked.file.config.items()}}
    found = []
    for way in (False, True):
        with planned(checked.plan, checked.file.config, clouds(), checked.file.others):
            found.append(preview_program(PROGRAM, checked.file.stack, "gpupools", config, sync_registration=way))
    return found


@pytest.mark.parametrize("file", [pytest.param(file, id=file.name, marks=how_long(file)) for file in STACK_FILES])
def test_a_stack_files_requests_are_the_same(file: Path) -> None:
    checked = check_stack_file(file, clouds())
    own, found = both(checked)

    assert shown(own) == shown(found)
    assert order(own, checked) == order(found, checked)
    assert own.resources
    assert own.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_the_requests_of_every_kind_of_pool_are_the_same(cloud: str, tmp_path: Path) -> None:
    merged: dict[str, dict[str, Any]] = {"gpupools:clusters": {}, "gpupools:pools": {}}
    for file in sorted((ROOT / "tests" / "golden" / cloud).glob("*.yaml")):
        config = yaml.safe_load(file.read_text(encoding="utf-8"))["config"]
        for pool in config["gpupools:pools"].values() if file.stem != "refused" else ():
            merged["gpupools:pools"][f"p{len(merged['gpupools:pools'])}"] = pool
        if file.stem != "refused":
            merged["gpupools:clusters"] |= config["gpupools:clusters"]
    file = tmp_path / "Pulumi.many.yaml"
    file.write_text(yaml.safe_dump({"config": merged}), encoding="utf-8")
    checked = check_stack_file(file, clouds())
    own, found = both(checked)

    assert shown(own) == shown(found)
    assert order(own, checked) == order(found, checked)
    assert own.problems == []


def order(preview: Preview, checked: CheckedFile) -> list[str]:
    return [each.urn for each in in_file_order(preview.resources, checked.plan)]


PROGRAMS = {
    "what depends on what": """
        first = Box("first", size=1)
        inside = Box("inside", pulumi.ResourceOptions(parent=first), size=first.size)
        Box("late", pulumi.ResourceOptions(depends_on=[first, later(inside)], deleted_with=first), size=2)
        Box("replaced", pulumi.ResourceOptions(replace_with=[first], protect=True), size=first.id.apply(len))
    """,
    "a component": """
        class Shelf(pulumi.ComponentResource):
            def __init__(self, name, opts=None):
                super().__init__("test:index:Shelf", name, {"a": later(1), "b": [1, None]}, opts)
                self.box = Box(f"{name}-box", pulumi.ResourceOptions(parent=self), size=3)
                self.register_outputs({"box": self.box.size, "id": self.box.id, "late": later(4)})
        shelf = Shelf("shelf")
        Box("after", pulumi.ResourceOptions(depends_on=shelf), size=shelf.box.size)
        Shelf("other", pulumi.ResourceOptions(depends_on=[shelf], aliases=[pulumi.Alias(name="former")]))
        pulumi.export("shelf", shelf)
    """,
    "values of every kind": """
        box = Box("a", size=1, secret=pulumi.Output.secret({"x": [1]}), late=later({"k": "v"}), none=None)
        whole = pulumi.Output.all(box.size, later(2), pulumi.Output.secret(3), box.id)
        Box("b", size=whole, text=pulumi.Output.concat("a", later("b")), asset=pulumi.StringAsset("x"), box=box)
        Box("c", size=pulumi.Output.all(a=1, b=box.size).apply(lambda got: later(got["a"])), list=(1, later(2)))
        pulumi.export("all", {"whole": whole, "nested": [box.size, {"late": later(5)}]})
    """,
    "resources inside of apply": """
        later(3).apply(lambda got: Box("inside", size=got))
        Box("a", size=1).size.apply(lambda got: Box("known", size=got))
        Box("b", size=1).id.apply(lambda got: Box("never", size=got))
    """,
    "transformations and aliases": """
        def grown(given):
            return pulumi.ResourceTransformationResult({**given.props, "size": later(9)}, given.opts)
        top = Box("a", pulumi.ResourceOptions(transformations=[grown], aliases=["urn:pulumi:x::y::z::b"]), size=1)
        alias = pulumi.Alias(name="c", parent=top, project=later("p"), stack="s", type_="test:index:Can")
        Box("b", pulumi.ResourceOptions(parent=top, aliases=[alias, later(pulumi.Alias(name="d"))]), size=2)
    """,
    "other stacks": """
        other = pulumi.StackReference("acme/net/dev")
        Box("a", size=other.get_output("size"), text=other.get_output("name").apply(str.upper))
        pulumi.export("other", other.outputs)
    """,
    "an awaitable program": """
        async def main():
            box = Box("a", size=1)
            await asyncio.sleep(0.01)
            return {"size": box.size, "late": asyncio.ensure_future(wait(3))}
        pulumi.run(main)
    """,
    "a look-up": "pulumi.export('got', pulumi.runtime.invoke('a:b:c', {'x': later(1)}).value)",
}
FAILING = {
    "a late apply": "Box('a', size=1); later(1).apply(lambda got: got / 0); Box('b', size=2)",
    "a known apply": "pulumi.Output.from_input(1).apply(lambda got: got / 0); Box('b', size=2)",
    "an input of no kind": "Box('a', size=range); Box('b', size=2)",
    "an awaitable": "Box('a', size=fail()); Box('b', size=2)",
    "a circle": """
        class Ring(pulumi.ComponentResource):
            def __init__(self, name):
                super().__init__("test:index:Ring", name)
                Box("link", pulumi.ResourceOptions(parent=self, depends_on=[self]), size=1)
        Ring("ring")
    """,
    "an end half-way": "Box('a', size=later(1)); raise ValueError('enough')",
}
BEGINNING = """
import asyncio
import pulumi

class Box(pulumi.CustomResource):
    size: pulumi.Output
    def __init__(self, name, opts=None, **inputs):
        super().__init__("test:index:Box", name, {"size": None, "color": None, **inputs}, opts)

async def wait(value):
    await asyncio.sleep(0.01)
    return value

async def fail():
    await asyncio.sleep(0.01)
    raise KeyError("missing_internals")

def later(value):
    return pulumi.Output.from_input(wait(value))

"""


def written(tmp_path: Path, text: str) -> Path:
    program = tmp_path / "program" / "__main__.py"
    program.parent.mkdir()
    program.write_text(BEGINNING + textwrap.dedent(text), encoding="utf-8")
    return program


def both_ways(tmp_path: Path, text: str) -> list[Preview]:
    program = written(tmp_path, text)
    return [preview_program(program, "test", "gpupools", {}, sync_registration=way) for way in (False, True)]


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=list(PROGRAMS))
def test_an_odd_programs_requests_are_the_same(text: str, tmp_path: Path) -> None:
    own, found = both_ways(tmp_path, text)

    assert shown(own) == shown(found)
    assert not any("the program failed" in str(problem) for problem in own.problems)


@pytest.mark.parametrize("text", FAILING.values(), ids=list(FAILING))
def test_what_stops_a_program_is_the_same(text: str, tmp_path: Path) -> None:
    """What it has registered until then is not, since one of both is faster."""
    own, found = ([str(each) for each in one.problems if not each.path] for one in both_ways(tmp_path, text))

    assert own == found
    assert "the program failed" in own[0]


CHANGES_LATER = """
    tags = {"a": "1"}
    box = Box("a", size=1, tags=tags)
    pulumi.Output.from_input(1).apply(lambda _: pulumi.log.info(said))
    tags["b"] = "2"
    said = "after"
"""


def test_a_program_that_changes_a_value_later_is_run_in_the_sdks_own_time(tmp_path: Path) -> None:
    program = written(tmp_path, CHANGES_LATER)
    dev = check_stack_file(ROOT / "stacks" / "Pulumi.dev.yaml", clouds())
    (box,) = preview_file(dev, program).preview.resources
    hasty = preview_program(program, "test", "gpupools", {}, sync_registration=True)

    assert box.inputs["tags"] == {"a": "1", "b": "2"}
    assert hasty.resources[0].inputs["tags"] == {"a": "1"}
    assert "NameError" in " ".join(map(str, hasty.problems))


@pytest.mark.slow
def test_verdicts_are_the_same_in_the_same_order() -> None:
    checked = check_stack_file(ROOT / "stacks" / "Pulumi.matrix.yaml", clouds())
    own, found = (in_file_order(each.resources, checked.plan) for each in both(checked))
    with PolicyPackProcess(stack=checked.file.stack) as one, PolicyPackProcess(stack=checked.file.stack) as other:
        verdicts = judge(one, own)

        assert judge(other, found) == verdicts
    assert any(each.violations for each in verdicts)


def test_an_sdk_with_other_names_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = written(tmp_path, CHANGES_LATER)
    for names in ("REPLACED", "USED"):
        renamed = [(module, f"{path}_then") for module, path in getattr(sync_registration, names)]
        with monkeypatch.context() as patched:
            patched.setattr(sync_registration, names, renamed)
            found = preview_program(program, "test", "gpupools", {}, sync_registration=True)

            assert sync_registration.missing_internals() == [f"{module}.{path}" for module, path in renamed]
        assert found.resources[0].inputs["tags"] == {"a": "1", "b": "2"}
        assert found.messages == ["after"]
    assert sync_registration.missing_internals() == []


def test_everything_is_put_back(tmp_path: Path) -> None:
    def those() -> list[Any]:
        return [asyncio.gather, *(getattr(import_module(module), name) for module, name in sync_registration.REPLACED)]

    before = those()
    preview_program(written(tmp_path, "raise ValueError"), "test", "gpupools", {}, sync_registration=True)

    assert those() == before


def test_a_coroutine_runs_until_it_waits_and_then_goes_on() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        seen: list[Any] = []
        shared = loop.create_future()

        async def waits(name: str) -> str:
            seen.append(name)
            try:
                seen.append(await shared)
                await asyncio.sleep(0)
            except KeyError as error:
                seen.append(error.args[0])
            return name

        async def ends() -> int:
            return 1

        async def fails() -> None:
            raise KeyError("now")

        ended: Any = sync_registration.start_eagerly(loop, ends())
        ended.set_name("as a task, which Python 3.12 and 3.13 do")
        assert ended.result() == 1
        assert isinstance(sync_registration.start_eagerly(loop, fails()).exception(), KeyError)
        tasks = [sync_registration.start_eagerly(loop, waits(name)) for name in "ab"]
        assert seen == ["a", "b"]
        shared.set_exception(KeyError("late"))
        assert await asyncio.gather(*tasks) == ["a", "b"]
        assert seen == ["a", "b", "late", "late"]
        shared = loop.create_future()
        cancelled = sync_registration.start_eagerly(loop, waits("c"))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    asyncio.run(main())
