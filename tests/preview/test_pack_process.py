"""The process that runs a pack: starts, answers, and always ends; what goes wrong is said in one message."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi_policy
import pytest
from google.protobuf import json_format, struct_pb2

from gpupools.preview.pack_process import (
    _MAX_MESSAGE_BYTES,
    PackInfo,
    PolicyInfo,
    PolicyPackFailed,
    PolicyPackProcess,
    StackResource,
    as_engine_sends,
)

pytestmark = pytest.mark.slow

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT_VALUE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

LEVELS = "advisory, disabled, mandatory, remediate"

PACK = """
import os, pulumi, socket, sys, time
from pulumi_policy import *
def validate(args, report):
    print("a policy that prints " * 10000)
    if args.name == "raise":
        raise ZeroDivisionError("by nought")
    if args.name == "die":
        sys.stderr.write("last words"); sys.stderr.flush(); os._exit(7)
    if args.name == "organization":
        report(pulumi.get_organization())
    if args.name == "much":
        report("x" * 5_000_000)
    if args.name == "sleep":
        time.sleep(60)
    if args.name == "ask the engine":
        host, _, port = sys.argv[1].rpartition(":")
        socket.create_connection((host, int(port)))
    report(f"{pulumi.get_project()}/{pulumi.get_stack()} {os.environ['PULUMI_DRY_RUN']} {dict(args.get_config())}")
def whole(args, report):
    if any(r.name == "raise" for r in args.resources):
        raise ZeroDivisionError("by nought")
    tree = [(r.name, r.parent and r.parent.name, [d.name for d in r.dependencies]) for r in args.resources]
    report(" ".join(f"{name}<{parent}<{before}" for name, parent, before in tree))
schema = PolicyConfigSchema(properties={"size": {"type": "integer", "default": 3}, "name": {"type": "string"}})
PolicyPack(name="small", policies=[
    ResourceValidationPolicy("one", "The first.", validate, config_schema=schema),
    ResourceValidationPolicy("two", "The second.", lambda args, report: report("second"), EnforcementLevel.DISABLED),
    StackValidationPolicy("three", "The third.", whole, EnforcementLevel.MANDATORY, severity=Severity.LOW),
])
"""


def folder(tmp_path: Path, text: str) -> Path:
    (tmp_path / "__main__.py").write_text(text)
    return tmp_path


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyPackProcess]:
    """Start the pack once, from a shell that has a proxy which nothing may go through."""
    with pytest.MonkeyPatch.context() as shell:
        shell.setenv("http_proxy", "http://127.0.0.1:1")
        with PolicyPackProcess(folder(tmp_path_factory.mktemp("pack"), PACK)) as pack:
            yield pack


def messages(pack: PolicyPackProcess, name: str = "x") -> list[tuple[str, str, str]]:
    said = pack.analyze(f"urn:{name}", "t", name, struct_pb2.Struct())
    return [(each.policy, each.level, each.message.split("\n")[1]) for each in said]


def test_the_process_ends_with_the_context(tmp_path: Path) -> None:
    pack = PolicyPackProcess(folder(tmp_path, PACK), project="p", stack="s", dry_run=False)
    with pack:
        pid = pack.pid
        said = messages(pack)

    assert said == [("one", "advisory", "p/s false {'size': 3.0}")]
    assert pid is not None
    assert gone(pid)
    assert pack.pid is None
    with pytest.raises(PolicyPackFailed, match="the policy pack is not running"):
        pack.info()


def test_a_diagnostic_belongs_to_the_resource_that_was_judged(running: PolicyPackProcess) -> None:
    (said,) = running.analyze("urn:x", "t", "x", struct_pb2.Struct())

    assert (said.urn, said.description, said.severity, said.mandatory) == ("urn:x", "The first.", "unspecified", False)


def test_the_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys; from gpupools.preview.pack_process import PolicyPackProcess\n"
        "with PolicyPackProcess(pathlib.Path(sys.argv[1])) as pack:\n"
        "    print(pack.pid, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(folder(tmp_path, PACK))], capture_output=True, text=True, check=False
    )
    until = time.monotonic() + 30
    while not gone(int(done.stdout)) and time.monotonic() < until:
        time.sleep(0.05)

    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout))


def test_the_process_ends_when_the_body_raises(tmp_path: Path) -> None:
    with pytest.raises(KeyError), PolicyPackProcess(folder(tmp_path, PACK)) as pack:  # noqa: PT012 - the body raises
        pid = pack.pid
        raise KeyError

    assert pid is not None
    assert gone(pid)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        pytest.param({"one": "mandatory"}, [("one", "mandatory", {"size": 3.0})], id="a level"),
        pytest.param({"one": {"size": 5}}, [("one", "advisory", {"size": 5.0})], id="a property"),
        pytest.param(
            {"one": {"enforcementLevel": "mandatory", "name": "n"}},
            [("one", "mandatory", {"size": 3.0, "name": "n"})],
            id="both",
        ),
        pytest.param(
            {"all": "mandatory", "one": "advisory"},
            [("one", "advisory", {"size": 3.0}), ("two", "mandatory", None)],
            id="all the others",
        ),
        pytest.param({"one": "disabled"}, [], id="off"),
    ],
)
def test_configuration_reaches_the_policies(tmp_path: Path, config: dict[str, Any], said: list[Any]) -> None:
    with PolicyPackProcess(folder(tmp_path, PACK), config=config) as pack:
        heard = messages(pack)

    expected = [
        (policy, level, "second" if props is None else f"gpupools/preview true {props}")
        for policy, level, props in said
    ]
    assert heard == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"uno": "mandatory"}, "policy configuration: unknown policy uno; use one of: one, three, two"),
        (
            {"one": "severe"},
            f"policy configuration: one has enforcementLevel 'severe'; use one of: {LEVELS}",
        ),
        ({"all": "severe"}, f"policy configuration: all has enforcementLevel 'severe'; use one of: {LEVELS}"),
        ({"one": {"sise": 1}}, "policy configuration: one has no key sise; use one of: name, size"),
        ({"two": {"size": 1}}, "policy configuration: two has no key size; use one of: none"),
    ],
    ids=["policy", "level", "level of all", "property", "property of a policy without any"],
)
def test_wrong_configuration_is_refused(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    pack = PolicyPackProcess(folder(tmp_path, PACK), config=config)
    with pytest.raises(PolicyPackFailed) as caught, pack:
        pass

    assert str(caught.value) == message
    assert pack.pid is None


def test_stack_policies_see_the_whole_tree(running: PolicyPackProcess) -> None:
    top = StackResource(urn="urn:a", type="t", name="a", properties=struct_pb2.Struct())
    below = StackResource(
        urn="urn:b", type="t", name="b", properties=struct_pb2.Struct(), parent="urn:a", dependencies=("urn:a",)
    )
    (said,) = running.analyze_stack([top, below])

    assert (said.policy, said.level, said.mandatory, said.severity, said.urn) == ("three", "mandatory", True, "low", "")
    assert said.message == "The third.\na<None<[] b<a<['a']"


def test_an_error_in_a_policy_is_a_clear_failure(running: PolicyPackProcess) -> None:
    with pytest.raises(PolicyPackFailed, match=r"failed in Analyze: .*by nought for urn:raise"):
        messages(running, "raise")

    assert [policy for policy, _, _ in messages(running)] == ["one"]


def test_a_pack_says_what_is_in_it_with_the_levels_it_was_given(tmp_path: Path) -> None:
    with PolicyPackProcess(folder(tmp_path, PACK), config={"two": "mandatory"}) as pack:
        found = pack.info()

    assert found == PackInfo(
        "small",
        (
            PolicyInfo("one", "advisory", "The first.", "unspecified", "resource"),
            PolicyInfo("two", "mandatory", "The second.", "unspecified", "resource"),
            PolicyInfo("three", "mandatory", "The third.", "low", "stack"),
        ),
    )


def test_a_policy_knows_the_organization_of_a_stack_without_one(running: PolicyPackProcess) -> None:
    assert ("one", "advisory", "organization") in messages(running, "organization")


def test_a_policy_reaches_no_engine(running: PolicyPackProcess) -> None:
    with pytest.raises(PolicyPackFailed, match="Connection refused for urn:ask the engine"):
        messages(running, "ask the engine")


def test_an_error_in_a_policy_of_the_stack_is_one_of_no_resource(running: PolicyPackProcess) -> None:
    alone = StackResource(urn="urn:a", type="t", name="raise", properties=struct_pb2.Struct())
    with pytest.raises(PolicyPackFailed, match=r"failed in AnalyzeStack: .*by nought$"):
        running.analyze_stack([alone])


def test_a_policy_that_takes_too_long_is_a_clear_failure(
    running: PolicyPackProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupools.preview.pack_process._CALL_TIMEOUT_S", 0.2)
    with pytest.raises(PolicyPackFailed) as caught:
        messages(running, "sleep")

    assert str(caught.value).endswith("the policy pack did not answer Analyze within 0.2 s for urn:sleep")


def test_what_is_asked_and_answered_may_be_long(running: PolicyPackProcess) -> None:
    properties = struct_pb2.Struct()
    properties.update({"text": "x" * 5_000_000})
    first, _ = running.analyze("urn:much", "t", "much", properties)

    assert len(first.message) > 5_000_000
    assert _MAX_MESSAGE_BYTES == pulumi_policy.policy._MAX_RPC_MESSAGE_SIZE


def test_a_pack_that_dies_is_a_clear_failure(tmp_path: Path) -> None:
    with PolicyPackProcess(folder(tmp_path, PACK)) as pack, pytest.raises(PolicyPackFailed) as caught:
        messages(pack, "die")

    assert str(caught.value) == (
        f"{tmp_path}: the policy pack died (exit code 7) for urn:die\n  its output:\n  last words"
    )


def test_a_pack_that_cannot_start_shows_what_it_printed(tmp_path: Path) -> None:
    pack = PolicyPackProcess(folder(tmp_path, "import nothing_of_that_name\n"))
    with pytest.raises(PolicyPackFailed) as caught, pack:
        pass

    first, *rest = str(caught.value).splitlines()
    assert first == f"{tmp_path}: the policy pack ended while starting (exit code 1)"
    assert "ModuleNotFoundError: No module named 'nothing_of_that_name'" in "\n".join(rest)


def test_of_much_that_it_printed_the_end_is_shown(tmp_path: Path) -> None:
    text = "import sys\nfor each in range(30):\n    sys.stderr.buffer.write(b'\\xff %d\\n' % each)\nsys.exit(3)\n"
    with pytest.raises(PolicyPackFailed) as caught, PolicyPackProcess(folder(tmp_path, text)):
        pass

    said = f"{tmp_path}: the policy pack ended while starting (exit code 3)"
    assert str(caught.value).splitlines() == [said, "  its output:", *(f"  \ufffd {each}" for each in range(10, 30))]


def test_a_pack_that_printed_nothing_is_said_to_have_ended_alone(tmp_path: Path) -> None:
    with pytest.raises(PolicyPackFailed) as caught, PolicyPackProcess(folder(tmp_path, "raise SystemExit(3)\n")):
        pass

    assert str(caught.value) == f"{tmp_path}: the policy pack ended while starting (exit code 3)"


def test_a_pack_that_prints_before_its_port_is_refused(tmp_path: Path) -> None:
    pack = PolicyPackProcess(
        folder(tmp_path, "import os, time\nos.write(1, b'\\xff' * 300 + b'\\n')\ntime.sleep(60)\n")
    )
    first = "\ufffd" * 200
    with pytest.raises(PolicyPackFailed, match=f"printed '{first}' where its port was expected$"), pack:
        pass

    assert pack.pid is None


def test_a_pack_that_never_listens_is_given_up_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **kwargs))
        return started[0]

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    pack = PolicyPackProcess(folder(tmp_path, "import time\ntime.sleep(60)\n"), start_timeout_s=0.5)
    with pytest.raises(PolicyPackFailed, match=r"did not start within 0\.5 s"), pack:
        pass

    assert [process.returncode is not None for process in started] == [True]


def test_a_folder_without_a_pack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyPackFailed, match="not a policy pack"), PolicyPackProcess(tmp_path):
        pass


@pytest.mark.parametrize(
    ("registered", "sent"),
    [
        pytest.param({SIGNATURE: OUTPUT_VALUE}, UNKNOWN, id="unknown"),
        pytest.param({SIGNATURE: OUTPUT_VALUE, "value": [1.0]}, [1.0], id="known"),
        pytest.param({SIGNATURE: OUTPUT_VALUE, "value": None}, None, id="null"),
        pytest.param(
            {SIGNATURE: OUTPUT_VALUE, "value": "x", "secret": True, "dependencies": ["urn:a"]},
            {SIGNATURE: SECRET, "value": "x"},
            id="secret",
        ),
        pytest.param(
            {SIGNATURE: OUTPUT_VALUE, "secret": True}, {SIGNATURE: SECRET, "value": UNKNOWN}, id="unknown and secret"
        ),
        pytest.param(
            [{"a": {SIGNATURE: OUTPUT_VALUE, "value": {"b": {SIGNATURE: OUTPUT_VALUE}}}}],
            [{"a": {"b": UNKNOWN}}],
            id="nested",
        ),
        pytest.param({SIGNATURE: SECRET, "value": "x"}, {SIGNATURE: SECRET, "value": "x"}, id="a secret stays one"),
    ],
)
def test_output_values_are_rewritten_as_the_engine_does(registered: Any, sent: object) -> None:
    properties = struct_pb2.Struct()
    properties.update({"p": registered})

    assert json_format.MessageToDict(as_engine_sends(properties)) == {"p": sent}
    assert json_format.MessageToDict(properties) == {"p": registered}
