"""A program runs as Pulumi's language host would run it, and leaves the process as it was."""

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pulumi
import pytest

from gpupools.preview.program_run import preview_program
from gpupools.preview.sdk_schema import UNKNOWN
from gpupools.spec.models import LATE
from tests.preview.conftest import RunProgram

FAILURES = {
    "run error": ("raise pulumi.RunError('no such pool')", "no such pool"),
    "input properties": (
        "raise pulumi.InputPropertiesError('m', [{'property_path': 'pool.gpu', 'reason': 'got 1'}])",
        "pool.gpu: got 1",
    ),
    "input properties without details": ("raise pulumi.InputPropertiesError('all of it')", "all of it"),
    "input property": ("raise pulumi.InputPropertyError('pool', 'got 1')", "pool: got 1"),
    "any exception": ("{}['key']", "the program failed at PROGRAM:3: KeyError: 'key'"),
    "syntax": ("if", "the program failed at PROGRAM:3: SyntaxError: invalid syntax"),
    "missing module": ("import gpupoools", "the program failed at PROGRAM:3: ModuleNotFoundError: No module named"),
    "exit": ("raise SystemExit(3)", "the program exited with code 3"),
    "apply": (
        "pulumi.export('x', pulumi.Output.from_input(1).apply(lambda x: x / 0))",
        "the program failed at PROGRAM:3: ZeroDivisionError: division by zero",
    ),
    "unknown argument": ("import pulumi_gcp\npulumi_gcp.container.NodePool('a', cluuster='c')", "'cluuster'"),
    "missing argument": (
        "import pulumi_gcp\npulumi_gcp.container.NodePool('a')",
        "Missing required property 'cluster'",
    ),
    "missing configuration": ("pulumi.Config().require('region')", "gpupools:region"),
    "logged error": ("pulumi.log.error('broken')", "the program logged an error: broken"),
    "explained end": ("pulumi.log.error('broken')\nraise SystemExit(32)", "the program logged an error: broken"),
    "unexplained end": ("raise SystemExit(32)", "the program exited with code 32 without an error message"),
    "end with a sentence": ("raise SystemExit('enough')", "the program exited with code enough"),
    "input properties that say their path": (
        "raise pulumi.InputPropertiesError('m', [{'property_path': 'pool', 'reason': 'pool: got 1'}])",
        "pool: got 1",
    ),
    "a syntax error of nobody": ("raise SyntaxError('odd')", "the program failed at PROGRAM:3: SyntaxError: odd"),
    "an error that says nothing": ("raise KeyError", "the program failed at PROGRAM:3: KeyError"),
    "what no line says": ("\0", "the program failed: SyntaxError: source code string cannot contain null bytes"),
    "an error of several lines": (
        "raise ValueError('one\\n  two')",
        "the program failed at PROGRAM:3: ValueError: one two",
    ),
    "a file that is not there": ("open('/nowhere/at/all')", "the program failed at PROGRAM:3: FileNotFoundError: "),
}


@pytest.mark.parametrize(("line", "expected"), FAILURES.values(), ids=list(FAILURES))
def test_what_stops_a_program_is_one_problem_without_a_traceback(
    preview: RunProgram, tmp_path: Path, line: str, expected: str
) -> None:
    found = preview(f"import pulumi\n\n{line}\n")

    assert len(found.problems) == 1
    text = str(found.problems[0])
    assert expected.replace("PROGRAM", str(tmp_path / "program" / "__main__.py")) in text
    assert "Traceback" not in text
    assert text.count("pool: ") <= 1
    assert not text.endswith(":")


@pytest.mark.parametrize("code", ["0", "", "None"])
def test_a_program_that_ends_itself_well_has_no_problem(preview: RunProgram, code: str) -> None:
    assert preview(f"import sys\nsys.exit({code})").problems == []


def test_every_input_that_an_error_names_is_a_problem(preview: RunProgram) -> None:
    details = "[{'property_path': 'a', 'reason': 'is odd'}, {'property_path': 'b', 'reason': 'b: is even'}]"
    found = preview(f"import pulumi\nraise pulumi.InputPropertiesError('m', {details})").problems

    assert [(problem.path, problem.what) for problem in found] == [(("a",), "is odd"), ((), "b: is even")]


def test_a_line_of_the_program_is_named_from_where_the_reader_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "beside.py").write_text("def fail():\n\n    raise KeyError('x')\n")
    program = tmp_path / "program" / "__main__.py"
    program.write_text("import json, beside\n\njson.dumps({}, default=None)\nbeside.fail()\n")
    monkeypatch.chdir(tmp_path)
    (deepest,) = preview_program(program, "test", "gpupools", {}).problems
    program.write_text("import json\n\njson.loads('{')\n")
    (own,) = preview_program(program, "test", "gpupools", {}).problems

    assert str(deepest) == "the program failed at program/beside.py:3: KeyError: 'x'"
    assert str(own).startswith("the program failed at program/__main__.py:3: JSONDecodeError: Expecting property name")


def test_a_line_of_an_installed_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "site-packages" / "program" / "__main__.py"
    program.parent.mkdir(parents=True)
    program.write_text("import json\njson.loads('{')\n")
    monkeypatch.setattr(pulumi, "__file__", str(tmp_path / "site-packages" / "pulumi" / "__init__.py"))
    (own,) = preview_program(program, "test", "gpupools", {}).problems

    assert str(own).startswith(f"the program failed at {program}:2: JSONDecodeError: ")


def test_a_line_that_runs_later_is_named_though_it_stands_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, elsewhere = tmp_path / "program" / "__main__.py", tmp_path / "elsewhere" / "failing.py"
    for file in (program, elsewhere):
        file.parent.mkdir()
    program.write_text("import pulumi, failing\npulumi.export('x', pulumi.Output.from_input(1).apply(failing.fail))\n")
    elsewhere.write_text("def fail(_):\n    raise KeyError('x')\n")
    monkeypatch.syspath_prepend(str(elsewhere.parent))
    (found,) = preview_program(program, "test", "gpupools", {}).problems

    assert str(found) == f"the program failed at {elsewhere}:2: KeyError: 'x'"


def test_a_program_that_is_one_file_runs_as_that_file(tmp_path: Path) -> None:
    program = tmp_path / "single.py"
    program.write_text(
        "import os, sys, pulumi\npulumi.export('x', [os.getcwd(), sys.argv, sys.path[0], __name__, __file__])\n"
    )
    before = sys.path[0]

    assert preview_program(program, "test", "gpupools", {}).outputs["x"] == [
        *(str(tmp_path), [str(program)], before, "__main__", str(program))
    ]


def test_what_is_printed_during_a_request_keeps_its_order(preview: RunProgram) -> None:
    found = preview(
        """
        import pulumi, pulumi_gcp as gcp
        pools = [gcp.container.NodePool(name, cluster="c") for name in "zyx"]
        pulumi.Output.all(*[pool.name for pool in pools]).apply(lambda names: print("all"))
        for pool in pools:
            pulumi.ComponentResource("t:index:Box", pool._name)
        """
    )

    assert [(each.type.rpartition(":")[2], each.name) for each in found.resources] == [
        *(("NodePool", name) for name in "zyx"),
        *(("Box", name) for name in "zyx"),
    ]


def test_children_stand_by_name_and_others_as_they_were_declared(preview: RunProgram) -> None:
    found = preview(
        """
        import pulumi
        def box(name, parent=None):
            return pulumi.ComponentResource("t:index:Box", name, {}, pulumi.ResourceOptions(parent=parent))
        b, a = box("b"), box("a")
        for name in ("z", "y"):
            box(name, a)
        for name in ("x", "w"):
            box(name, b)
        """
    )

    assert [each.name for each in found.resources] == ["b", "w", "x", "a", "y", "z"]


def test_what_an_update_would_leave_behind_is_told_of_every_resource(preview: RunProgram) -> None:
    found = preview(
        """
        import pulumi
        class Box(pulumi.ComponentResource):
            def __init__(self, name, outputs=None):
                super().__init__("t:index:Box", name)
                if outputs is not None:
                    self.register_outputs(outputs)
        Box("a", {"size": 1})
        Box("b")
        """
    )

    assert [outputs for urn, outputs in found.registered.items() if "t:index:Box" in urn] == [{"size": 1}]


@pytest.mark.parametrize(
    ("value", "known", "secret"),
    [
        (LATE, UNKNOWN, True),
        ({"a": [1, {"b": LATE}]}, f'{{"a": [1, {{"b": "{UNKNOWN}"}}]}}', True),
        ([[LATE]], f'[["{UNKNOWN}"]]', True),
        ({"a": [1, {"b": None}]}, '{"a": [1, {"b": null}]}', False),
        ("text", "text", False),
        (1.5, "1.5", False),
    ],
    ids=["all of it", "in a list of a map", "in lists", "nothing late", "text", "a number"],
)
def test_a_late_value_is_secret_at_any_depth(preview: RunProgram, value: Any, known: str, secret: bool) -> None:
    found = preview(
        """
        import json, pulumi
        pulumi.export("given", pulumi.runtime.config.get_config("other:key"))
        pulumi.export("secret", pulumi.runtime.is_config_secret("other:key"))
        """,
        **{"other:key": value},
    )

    assert found.outputs == {"given": known, "secret": secret}


def test_a_missing_program_is_a_problem(tmp_path: Path) -> None:
    found = preview_program(tmp_path / "gone" / "__main__.py", "test", "gpupools", {})

    assert "does not exist" in str(found.problems[0])


def test_what_was_declared_before_a_failure_is_kept(preview: RunProgram) -> None:
    found = preview("import pulumi\npulumi.ComponentResource('t:index:A', 'a')\nraise KeyError('x')")

    assert [resource.name for resource in found.resources] == ["a"]
    assert len(found.problems) == 1


def test_configuration_arrives_as_the_engine_sends_it(preview: RunProgram) -> None:
    found = preview(
        """
        import json, pulumi
        config = pulumi.Config()
        pulumi.export("object", json.dumps(config.require_object("pools"), sort_keys=True))
        pulumi.export("raw", [config.require("text"), config.require("number"), config.require("flag")])
        pulumi.export("typed", [config.require_int("number"), config.require_bool("flag")])
        pulumi.export("region", pulumi.Config("aws").get("region"))
        pulumi.export("names", [pulumi.get_project(), pulumi.get_stack(), pulumi.get_organization()])
        pulumi.export("dry", pulumi.runtime.is_dry_run())
        """,
        pools={"a": {"layout": {0: ["1g.10gb"]}, "nodes": [1, True, None]}},
        text="yes",
        number=3,
        flag=True,
        **{"aws:region": "eu-central-1"},
    )

    assert found.problems == []
    assert found.outputs == {
        "object": '{"a": {"layout": {"0": ["1g.10gb"]}, "nodes": [1, true, null]}}',
        "raw": ["yes", "3", "true"],
        "typed": [3, True],
        "region": "eu-central-1",
        "names": ["gpupools", "test", "organization"],
        "dry": True,
    }


def test_a_secret_of_the_stack_file_is_unknown_to_the_program(preview: RunProgram) -> None:
    found = preview(
        """
        import pulumi
        pulumi.export("role", pulumi.Config().require_object("clusters")["a"]["role"])
        pulumi.export("secret", pulumi.runtime.is_config_secret("gpupools:clusters"))
        pulumi.export("plain", pulumi.runtime.is_config_secret("gpupools:pools"))
        """,
        clusters={"a": {"role": LATE}},
        pools={},
    )

    assert found.outputs == {"role": UNKNOWN, "secret": True, "plain": False}


def test_the_folder_of_a_main_program_is_where_it_runs_and_imports_from(preview: RunProgram, tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "near_it.py").write_text("WORD = 'first'")
    program = (
        "import os, sys, pulumi, near_it\npulumi.export('x', [os.getcwd(), sys.path[0], sys.argv[0], near_it.WORD])"
    )
    folder = str(tmp_path / "program")

    assert preview(program).outputs["x"] == [folder, folder, folder, "first"]


def test_the_process_is_left_as_it_was(preview: RunProgram) -> None:
    def state() -> list[Any]:
        runtime = pulumi.runtime.settings
        return [
            Path.cwd(),
            list(sys.path),
            list(sys.argv),
            signal.getsignal(signal.SIGINT),
            signal.getsignal(signal.SIGTERM),
            "__main__" in sys.modules and sys.modules["__main__"].__dict__.get("MARK"),
            runtime.get_project(),
            runtime.get_stack(),
            runtime.is_dry_run(),
            runtime.get_monitor(),
            runtime.get_engine(),
            runtime.get_root_resource(),
            gc.isenabled(),
            pulumi.runtime.get_config("gpupools:pools"),
        ]

    before = state()
    found = preview(
        """
        import os, signal, sys, pulumi
        MARK = True
        sys.path.insert(0, "/somewhere")
        signal.signal(signal.SIGINT, lambda *_: os._exit(32))
        os.chdir("/")
        raise KeyError("stop")
        """,
        pools={"a": 1},
    )

    assert len(found.problems) == 1
    assert state() == before


def test_a_program_is_told_which_handler_it_takes_the_place_of(preview: RunProgram) -> None:
    found = preview("import signal\nprint(signal.signal(signal.SIGINT, print) is signal.getsignal(signal.SIGINT))")

    assert found.messages == ["True"]


def test_an_interrupt_reaches_the_preview_and_not_the_program(preview: RunProgram) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            preview(
                """
                import os, signal, time
                signal.signal(signal.SIGINT, lambda *_: print("the program's own"))
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
                """
            )
    finally:
        found = signal.signal(signal.SIGINT, before)

    assert found is signal.default_int_handler


def test_one_program_gives_the_same_preview_twice(preview: RunProgram) -> None:
    program = """
        import pulumi, pulumi_gcp as gcp
        pools = [gcp.container.NodePool(f"p{i}", cluster="c", node_config={"labels": {"a": "1", "b": "2", "c": "3"}})
                 for i in range(20)]
        for i, pool in enumerate(pools):
            gcp.container.NodePool(f"q{i}", cluster=pool.cluster, name=pool.id)
        """
    first, second = (json.dumps([r.as_json() for r in preview(program).resources]) for _ in range(2))

    assert first == second


def test_what_a_program_prints_and_logs_is_kept_apart_from_the_report(
    preview: RunProgram, capsys: pytest.CaptureFixture[str]
) -> None:
    found = preview("import pulumi\nprint('printed')\npulumi.info('told')\npulumi.warn('careful')\npulumi.debug('no')")

    assert found.messages == ["told", "warning: careful", "printed"]
    assert capsys.readouterr() == ("", "")


def test_an_asynchronous_program_is_awaited(preview: RunProgram) -> None:
    found = preview(
        """
        import asyncio, pulumi
        async def main():
            await asyncio.sleep(0)
            return {"word": "late"}
        pulumi.run(main)
        """
    )

    assert found.outputs == {"word": "late"}


def test_only_the_sdks_the_program_imports_are_loaded(tmp_path: Path) -> None:
    program = tmp_path / "__main__.py"
    program.write_text("import pulumi_gcp as gcp\ngcp.container.NodePool('a', cluster='c', initial_node_count='x')")
    script = f"""
import json, sys
from pathlib import Path
from gpupools.preview.program_run import preview_program
found = preview_program(Path({str(program)!r}), "test", "gpupools", {{}})
sdks = sorted({{name.partition(".")[0] for name in sys.modules if name.startswith("pulumi_")}})
loaded = [name for name, module in sys.modules.items()
          if name.count(".") == 1 and name.startswith("pulumi_gcp.") and type(module).__name__ != "_LazyModule"]
print(json.dumps([len(found.problems), sdks, "pulumi_gcp.container" in loaded, len(loaded) < 12]))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, check=True)

    assert json.loads(result.stdout) == [1, ["pulumi_gcp"], True, True]


@pytest.mark.parametrize(
    "alias",
    ["name=None", "type_='a:b:C', stack=pulumi.Output.from_input(1).apply(lambda one: one / 0)"],
    ids=["no name", "a stack that fails"],
)
def test_an_alias_that_stops_a_deployment_stops_the_preview(preview: RunProgram, alias: str) -> None:
    options = f"pulumi.ResourceOptions(aliases=[pulumi.Alias({alias})])"

    assert len(preview(f"import pulumi\npulumi.ComponentResource('a:b:C', 'a', None, {options})\n").problems) == 1
