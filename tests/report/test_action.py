"""The Action's report and comment, run as GitHub's runner runs them, and the workflows that use them."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.auth import identity_pool

from gpupools.report.comment import MARKER
from tests.report.conftest import STACK
from tests.report.test_command import git

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
FOLDER = ROOT / "examples" / "ci"
WORKFLOWS = {
    name: yaml.safe_load((FOLDER / f"{name}.yml").read_text("utf-8"))
    for name in ("check", "comment", "preview", "apply")
}
OWN_WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATE = ROOT / "templates" / "project" / ".github" / "workflows" / "gpupools.yml"
"""What `gpupools new --project` writes."""
ISSUES = ROOT / ".github" / "ISSUE_TEMPLATE"
BOT = "github-actions[bot]"

Ran = tuple[int, str]


class Answers(BaseHTTPRequestHandler):
    """What the stand-ins of both hosts have in common."""

    address: str

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, value: object, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def served(answers: type[Answers]) -> Iterator[None]:
    """Let a class answer on loopback, at the address that it gets."""
    with HTTPServer(("127.0.0.1", 0), answers) as server:
        answers.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()


class Api(Answers):
    """As much of GitHub's REST API as a comment needs: 250 comments of others come first."""

    comments: list[dict[str, Any]]
    asked: list[tuple[str, str, str | None]]
    status = 200

    def _asked(self) -> Any:
        cls = type(self)
        cls.asked.append((self.command, self.path, self.headers.get("Authorization")))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(body) if body else None

    def do_GET(self) -> None:
        self._asked()
        match = re.fullmatch(r"/repos/o/r/issues/7/comments\?per_page=100&page=(\d+)", self.path)
        if match is None or self.status != 200:
            self._answer({"message": "no\n##[error]x"}, self.status if self.status != 200 else 404)
            return
        at = (int(match[1]) - 1) * 100
        self._answer(self.comments[at : at + 100])

    def do_POST(self) -> None:
        given = self._asked()
        self.comments.append({"id": 9000, "user": {"login": BOT}, "body": given["body"], "html_url": "http://c/9000"})
        self._answer(self.comments[-1], 201)

    def do_PATCH(self) -> None:
        given = self._asked()
        found = next(each for each in self.comments if self.path == f"/repos/o/r/issues/comments/{each['id']}")
        found["body"] = given["body"]
        self._answer(found)


@pytest.fixture
def api() -> Iterator[type[Api]]:
    class Own(Api):
        comments = [
            {"id": each, "user": None if each == 3 else {"login": "eve"}, "body": f"{MARKER}\nmine", "html_url": "x"}
            for each in range(250)
        ]
        asked = []

    with served(Own):
        yield Own


@pytest.fixture
def step(tmp_path: Path, environment: Path) -> Callable[..., Ran]:
    checkout = tmp_path / "checkout"
    (checkout / "stacks").mkdir(parents=True)

    def ran(name: str, **env: str) -> Ran:
        script = tmp_path / "script.sh"
        script.write_text(STEPS[name]["run"], encoding="utf-8")
        given = {key: "" if "inputs." in value else value for key, value in STEPS[name]["env"].items()}
        given = {key: value.replace("${{ github.action_path }}", str(ROOT)) for key, value in given.items()}
        where = {
            "GITHUB_WORKSPACE": str(checkout),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "RUNNER_TEMP": str(tmp_path),
            "GPUPOOLS_ENVIRONMENT": str(environment),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=checkout,
            env={**os.environ, **given, **where, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout

    return ran


def write(tmp_path: Path, text: str, name: str = "stacks/Pulumi.dev.yaml") -> None:
    (tmp_path / "checkout" / name).write_text(text, encoding="utf-8")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")
def test_the_report_of_a_change_is_in_the_job_summary(
    tmp_path: Path, step: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "checkout")
    git("init", "-q")
    for most in (30, 31):
        write(tmp_path, STACK.replace("max: 30", f"max: {most}"))
        git("add", "-A")
        git("commit", "-qm", "x")
    code, out = step("Report on stack files", FILES="stacks/Pulumi.*.yaml", SINCE="HEAD^")
    again = step("Report on stack files", FILES="stacks/Pulumi.*.yaml", SINCE="HEAD^")[0]
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")

    assert (code, again) == (0, 0), out
    assert summary.count("### GPU pools: 1 changed in place, 2 unchanged") == 2
    code, out = step("Report on stack files", FILES="stacks/Pulumi.*.yaml", SINCE="nowhere")
    assert (code != 0, "unknown commit 'nowhere'" in out) == (True, True)


def test_a_refused_file_is_told_and_fails_the_job(tmp_path: Path, step: Callable[..., Ran]) -> None:
    write(tmp_path, STACK.replace("gpu: H100-80GB", "gpu: H999"))

    assert step("Report on stack files", FILES="stacks/Pulumi.*.yaml")[0] == 1
    assert "is not an NVIDIA GPU model" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_manifests_that_no_pool_takes_fail_the_job_and_are_in_the_comment(
    tmp_path: Path, step: Callable[..., Ran]
) -> None:
    write(tmp_path, STACK)
    spec = "{containers: [{name: a, resources: {limits: {%s}}}]}"
    pod = f"{{apiVersion: v1, kind: Pod, metadata: {{name: %s}}, spec: {spec}}}\n"
    write(tmp_path, pod % ("big", "nvidia.com/gpu: 99"), "big.yaml")
    (tmp_path / "gpupools-report.md").write_text(f"{MARKER}\n### GPU pools\n")
    given = {"STACKS": "stacks/Pulumi.*.yaml", "FAIL_ON": "unfit", "SARIF": str(tmp_path / "fit.sarif")}

    code, out = step("Check that the pools take the pods of manifests", FILES="*.yaml", **given)

    assert code == 1, out
    assert out.startswith("::error file=big.yaml,line=1,title=gpupools fit::Pod default/big: fits no pool; ")
    report = (tmp_path / "gpupools-report.md").read_text(encoding="utf-8")
    assert report.startswith(f"{MARKER}\n### GPU pools\n### GPU workloads: 1 pod template: 0 fit, 1 do not fit")
    assert report.endswith((tmp_path / "summary.md").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "fit.sarif").read_text())["runs"][0]["results"][0]["level"] == "error"
    given["FAIL_ON"] = "never"
    assert step("Check that the pools take the pods of manifests", FILES="*.yaml", **given)[0] == 0


@pytest.mark.slow
def test_policies_judge_the_stack_files_of_forks_too(tmp_path: Path, step: Callable[..., Ran]) -> None:
    """In an environment of the whole lock, in which gpupools itself is not installed: as the Action's own is."""
    sdks = tmp_path / "sdks"
    venv.create(sdks, symlinks=True)
    packages = next(sdks.glob("lib/python3*/site-packages"))
    for each in (Path(sys.prefix) / packages.relative_to(sdks)).iterdir():
        if "gpupools" not in each.name and not (packages / each.name).exists():
            (packages / each.name).symlink_to(each)
    write(tmp_path, STACK)
    (tmp_path / "checkout" / "limits.json").write_text('{"gpu-pool-bounded": {"maxNodesPerPool": 10}}')
    given = {"FILES": "stacks/Pulumi.*.yaml", "GPUPOOLS_POLICIES": "true", "GPUPOOLS_ENVIRONMENT": str(sdks)}
    code, out = step("Report on stack files", **given, CONFIG="")
    assert code == 0, out
    code, out = step("Report on stack files", **given, CONFIG="limits.json")
    without, limited = (tmp_path / "summary.md").read_text(encoding="utf-8").split(MARKER)[1:]

    assert code == 1, out
    assert "`gpu-pool-bounded` refuses" not in without
    assert "`gpu-pool-bounded` refuses" in limited


def test_with_policies_the_environment_is_made_of_the_whole_lock(step: Callable[..., Ran], tmp_path: Path) -> None:
    paths = []
    for policies in ("", "true"):
        found = tmp_path / f"outputs{policies}"
        given = {"GITHUB_OUTPUT": str(found), "GPUPOOLS_POLICIES": policies, "GPUPOOLS_PYTHON": sys.executable}
        step("Find the environment", **given, GPUPOOLS_ENVIRONMENT="")
        paths.append(found.read_text().splitlines()[0])

    def named(lock: str) -> str:
        cksum = subprocess.run(["cksum"], input=(ROOT / lock).read_bytes(), capture_output=True, check=True).stdout
        return f"path={ROOT}/build/check-{cksum.decode().strip().replace(' ', '-')}"

    assert paths == [named("requirements-check.txt"), named("requirements.txt")]


def test_no_link_leads_the_report_out_of_the_checkout(tmp_path: Path, step: Callable[..., Ran]) -> None:
    (tmp_path / "Pulumi.dev.yaml").write_text(STACK)
    (tmp_path / "checkout" / "stacks" / "Pulumi.dev.yaml").symlink_to(tmp_path / "Pulumi.dev.yaml")
    code, out = step("Report on stack files", FILES="stacks/Pulumi.*.yaml")

    assert code != 0
    assert "is a link that leads out of" in out
    assert (tmp_path / "summary.md").read_text() == ""


@pytest.fixture
def comment(tmp_path: Path, step: Callable[..., Ran], api: Any) -> Callable[..., Ran]:
    def ran(body: str, **env: str) -> Ran:
        (tmp_path / "gpupools-report.md").write_text(body, encoding="utf-8")
        of = {"COMMENT_AUTHOR": BOT, "COMMENT_TOKEN": "t0ken", "GPUPOOLS_PYTHON": sys.executable, "NUMBER": "7"}
        run = {"GITHUB_API_URL": api.address, "GITHUB_REPOSITORY": "o/r", "no_proxy": "127.0.0.1"}
        return step("Comment on the pull request", **{**of, **run, **env})

    return ran


def test_one_comment_is_made_and_then_updated_in_place(comment: Callable[..., Ran], api: Any) -> None:
    said = [comment(f"{MARKER}\n{each}\n") for each in ("one", "two", "two")]

    assert said == [
        (0, "created: http://c/9000\n"),
        (0, "updated: http://c/9000\n"),
        (0, "unchanged: http://c/9000\n"),
    ]
    assert [each["body"] for each in api.comments if each["user"] == {"login": BOT}] == [f"{MARKER}\ntwo\n"]
    assert all(each["body"] == f"{MARKER}\nmine" for each in api.comments[:250])
    assert [each[0] for each in api.asked if each[0] != "GET"] == ["POST", "PATCH"]
    assert {each[2] for each in api.asked} == {"Bearer t0ken"}


def test_reports_of_several_projects_have_a_comment_each(comment: Callable[..., Ran], api: Any) -> None:
    for key in ("", "infra.gpus", "infra", "infra.gpus", ""):
        code, out = comment(f"{MARKER}\nof {key}\n", COMMENT_KEY=key)
        assert code == 0, out
    own = [each["body"].splitlines() for each in api.comments if each["user"] == {"login": BOT}]

    assert own == [
        [MARKER, "of "],
        ["<!-- gpupools report infra.gpus -->", "of infra.gpus"],
        ["<!-- gpupools report infra -->", "of infra"],
    ]
    code, out = comment(MARKER, COMMENT_KEY="--> @everyone")
    assert (code, "is no key" in out) == (2, True)


@pytest.mark.parametrize("number", ["7/../../x", "0", "-1", "7 8", "", "7\n"])
def test_only_a_number_names_a_pull_request(number: str, comment: Callable[..., Ran], api: Any) -> None:
    code, out = comment(MARKER, NUMBER=number)

    assert code == 2
    assert "is no number of a pull request" in out
    assert api.asked == []


def test_a_token_that_may_not_is_told_with_its_cure(comment: Callable[..., Ran], api: Any) -> None:
    api.status = 403
    code, out = comment(MARKER)

    assert code == 1
    assert "give the job permissions: pull-requests: write" in out
    assert "##[" not in out
    assert "t0ken" not in out


def test_an_api_that_does_not_answer_is_no_traceback(comment: Callable[..., Ran]) -> None:
    code, out = comment(MARKER, GITHUB_API_URL="http://127.0.0.1:9")

    assert code == 1
    assert "Traceback" not in out


# --- The environment ---


def test_the_environment_is_kept_by_what_it_is_made_of(step: Callable[..., Ran], tmp_path: Path) -> None:
    """Runner, lock, folder and Python: the same give the same key, another Python another one."""
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\necho 3.99; exec {sys.executable} "$@"\n')
    other.chmod(0o755)
    outputs = []
    for python in (sys.executable, sys.executable, str(other)):
        found = tmp_path / "outputs"
        found.unlink(missing_ok=True)
        code, out = step("Find the environment", GITHUB_OUTPUT=str(found), GPUPOOLS_PYTHON=python)
        assert (code, out) == (0, "")
        outputs.append(dict(line.split("=", 1) for line in found.read_text().splitlines()))
    kept = STEPS["Cache the environment"]

    assert outputs[0] == outputs[1]
    assert Path(outputs[0]["path"]).is_absolute()
    assert re.fullmatch(r"\d+-\d+", outputs[0]["key"])
    assert outputs[0]["key"] != outputs[2]["key"]
    assert kept["with"]["path"] == "${{ steps.environment.outputs.path }}"
    assert list(STEPS).index("Cache the environment") < list(STEPS).index("Install gpupools")
    for part in ("runner.os", "runner.arch", "steps.environment.outputs.key"):
        assert f"${{{{ {part} }}}}" in kept["with"]["key"]


def test_an_environment_that_lost_its_python_is_made_anew(tmp_path: Path) -> None:
    """Such a one comes out of a cache when the runner's Python has gone; pip is left out, which would fetch."""
    made = tmp_path / "made"
    made.write_text(f'#!/bin/sh\ncase "$*" in *os.rename*) exec {sys.executable} "$@";; esac\n')
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *" -m venv "*) mkdir -p "$4/bin" && exec cp {made} "$4/bin/python";; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    made.chmod(0o755)
    python.chmod(0o755)
    kept = tmp_path / "environment"
    (kept / "bin").mkdir(parents=True)
    (kept / "bin" / "python").symlink_to(tmp_path / "gone")
    done = subprocess.run(
        [ROOT / "tooling" / "gpupools", "--version"],
        env={**os.environ, "GPUPOOLS_PYTHON": str(python), "GPUPOOLS_ENVIRONMENT": str(kept)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (kept / "bin" / "python").read_text() == made.read_text()
    assert list(tmp_path.glob("environment.*")) == []


# --- GitLab ---


class Notes(Answers):
    """As much of GitLab's API as a note on a merge request needs: 120 notes of others come first."""

    notes: list[dict[str, Any]]
    asked: list[tuple[str, str, str | None]]
    status = 200

    def _given(self) -> Any:
        type(self).asked.append((self.command, self.path, self.headers.get("Authorization")))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if body:
            assert self.headers["Content-Type"] == "application/json"
        return json.loads(body) if body else None

    def do_GET(self) -> None:
        self._given()
        page = re.fullmatch(r"/api/v4/projects/42/merge_requests/7/notes\?per_page=100&page=(\d+)", self.path)
        if self.status != 200:
            self._answer({"message": "403 Forbidden"}, self.status)
        elif self.path == "/api/v4/user":
            self._answer({"username": "project_42_bot"})
        elif page is not None:
            at = (int(page[1]) - 1) * 100
            self._answer(self.notes[at : at + 100])
        else:
            self._answer({"message": "404"}, 404)

    def do_POST(self) -> None:
        given = self._given()
        assert self.path == "/api/v4/projects/42/merge_requests/7/notes"
        self.notes.append({"id": 900, "system": False, "author": {"username": "project_42_bot"}, **given})
        self._answer(self.notes[-1], 201)

    def do_PUT(self) -> None:
        given = self._given()
        found = next(each for each in self.notes if self.path.endswith(f"/merge_requests/7/notes/{each['id']}"))
        found["body"] = given["body"]
        self._answer(found)


@pytest.fixture
def gitlab() -> Iterator[Any]:
    class Own(Notes):
        notes = [
            {"id": each, "system": each == 3, "author": {"username": "eve"}, "body": f"{MARKER}\nmine"}
            for each in range(120)
        ]
        asked = []

    with served(Own):
        yield Own


POLICY_CONFIG = "--policy-config policies/policy-config.json"


@pytest.fixture
def job(tmp_path: Path, gitlab: Any) -> Callable[..., Ran]:
    """Run the script of a GitLab job as its runner does, but for the installation."""
    checkout = tmp_path / "checkout"
    (checkout / "stacks").mkdir(parents=True)

    def ran(name: str, policies: bool = False, **env: str) -> Ran:
        jobs = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text("utf-8"))
        stand_ins = {"/tmp/check/bin/python": sys.executable, "/tmp/comment.md": str(tmp_path / "c.md")}
        if not policies:
            stand_ins[POLICY_CONFIG] = "--no-policies"
        lines = jobs[name]["script"]
        for theirs, ours in stand_ins.items():
            lines = [line.replace(theirs, ours) for line in lines]
        given = {
            "CI_API_V4_URL": f"{gitlab.address}/api/v4",
            "CI_MERGE_REQUEST_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_PROJECT_URL": "https://gitlab.example.com/ml/gpus",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "base",
            "GPUPOOLS_COMMENT_TOKEN": "t0ken",
            "no_proxy": "127.0.0.1",
        }
        done = subprocess.run(
            ["sh", "-e", "-c", "\n".join(lines)],
            cwd=checkout,
            env={**os.environ, **given, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout

    return ran


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")
def test_one_note_on_a_merge_request_is_made_and_then_updated_in_place(
    tmp_path: Path, job: Callable[..., Ran], gitlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "checkout")
    git("init", "-q")
    said = []
    for most in (30, 31, 32):
        write(tmp_path, STACK.replace("max: 30", f"max: {most}"))
        git("add", "-A")
        git("commit", "-qm", "x")
        if most == 30:
            git("tag", "base")
        else:
            said.append(job("comment"))
    page = "https://gitlab.example.com/ml/gpus/-/merge_requests/7#note_900\n"

    assert [code for code, _ in said] == [0, 0], said
    assert [out.splitlines()[-1] + "\n" for _, out in said] == [f"created: {page}", f"updated: {page}"]
    (own,) = [each["body"] for each in gitlab.notes if each["author"]["username"] == "project_42_bot"]
    assert own.startswith(f"{MARKER}\n### GPU pools: 1 changed in place")
    assert "32" in own
    assert all(each["body"] == f"{MARKER}\nmine" for each in gitlab.notes[:120])
    assert [each[0] for each in gitlab.asked if each[0] != "GET"] == ["POST", "PUT"]
    assert {each[2] for each in gitlab.asked} == {"Bearer t0ken"}

    gitlab.status = 403
    code, out = job("comment")
    assert code == 1
    assert "give the project an access token of scope api and role Reporter" in out
    assert "t0ken" not in out


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")
def test_the_check_on_gitlab_keeps_the_page_and_fails_for_what_is_refused(
    tmp_path: Path, job: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    monkeypatch.chdir(checkout)
    (checkout / "policies").mkdir()
    write(tmp_path, STACK)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    codes = []
    for limit in (1000, 10):
        write(tmp_path, f'{{"gpu-pool-bounded": {{"maxNodesPerPool": {limit}}}}}', "policies/policy-config.json")
        codes.append(job("gpupools", policies=True, CI_MERGE_REQUEST_DIFF_BASE_SHA="HEAD")[0])

    assert codes == [0, 1]
    assert "gpu-pool-bounded" in (checkout / "plan.html").read_text(encoding="utf-8")


def test_the_token_of_google_is_handed_on_as_its_libraries_read_it(tmp_path: Path) -> None:
    script = yaml.safe_load((FOLDER / "gitlab-ci.yml").read_text("utf-8"))[".cloud"]["before_script"][0]
    script = (
        script.replace("/tmp/", f"{tmp_path}/") + '\nprintf "%s" "${AWS_ROLE_ARN:-} $GOOGLE_APPLICATION_CREDENTIALS"'
    )
    given = {
        "PATH": os.environ["PATH"],
        "GOOGLE_IDENTITY_PROVIDER": "projects/1/locations/global/workloadIdentityPools/p/providers/gitlab",
        "GOOGLE_ID_TOKEN": "jwt",
        "SERVICE_ACCOUNT": "gpu@ml-dev.iam.gserviceaccount.com",
    }
    done = subprocess.run(["sh", "-eu", "-c", script], env=given, capture_output=True, text=True, check=True)
    credentials = identity_pool.Credentials.from_file(str(tmp_path / "google.json"))  # type: ignore[no-untyped-call]

    assert done.stdout == f" {tmp_path}/google.json"
    assert credentials.service_account_email == "gpu@ml-dev.iam.gserviceaccount.com"
    assert credentials.retrieve_subject_token(None).strip() == "jwt"


# --- The workflows ---


def test_every_cloud_signs_in_without_a_secret_and_only_where_it_is_meant() -> None:
    for name in ("preview", "apply"):
        login = {
            step["uses"].partition("@")[0]: step for step in steps(WORKFLOWS[name]) if "vars." in step.get("if", "")
        }

        assert set(login) == {
            "aws-actions/configure-aws-credentials",
            "azure/login",
            "google-github-actions/auth",
        }
        for step in login.values():
            assert set(re.findall(r"\$\{\{ (\w+)\.", str(step["with"]))) == {"vars"}


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", [*(FOLDER / f"{name}.yml" for name in WORKFLOWS), *OWN_WORKFLOWS, TEMPLATE]),
        ("gitlab-ci", [FOLDER / "gitlab-ci.yml"]),
        ("github-actions", [ROOT / "action.yml"]),
        ("github-issue-forms", [ISSUES / f"{name}.yml" for name in ("bug", "fact", "wish")]),
        ("github-issue-config", [ISSUES / "config.yml"]),
        ("dependabot", [ROOT / ".github" / "dependabot.yml"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_is_what_its_published_schema_takes(
    schema: str, files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    check = pytest.importorskip("check_jsonschema").main
    code = check(["--builtin-schema", f"vendor.{schema}", *map(str, files)], standalone_mode=False)

    assert code in (None, 0), capsys.readouterr().out


def test_a_key_that_no_schema_has_is_refused(tmp_path: Path) -> None:
    text = (ISSUES / "bug.yml").read_text(encoding="utf-8")
    (tmp_path / "bug.yml").write_text(text.replace("required: true", "needed: true"), encoding="utf-8")
    check = pytest.importorskip("check_jsonschema").main
    code = check(["--builtin-schema", "vendor.github-issue-forms", str(tmp_path / "bug.yml")], standalone_mode=False)

    assert code == 1


def test_no_form_is_left_out() -> None:
    assert {file.name for file in ISSUES.iterdir()} == {"bug.yml", "fact.yml", "wish.yml", "config.yml"}


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not on PATH")
def test_actionlint_has_nothing_against_the_workflows() -> None:
    command = [
        "actionlint",
        *(str(FOLDER / f"{name}.yml") for name in WORKFLOWS),
        *map(str, OWN_WORKFLOWS),
        str(TEMPLATE),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_each_job_may_do_no_more_than_it_has_to() -> None:
    found = {
        name: {**workflow.get("permissions", {}), **next(iter(workflow["jobs"].values())).get("permissions", {})}
        for name, workflow in WORKFLOWS.items()
    }

    assert found == {
        "check": {"contents": "read"},
        "comment": {"contents": "read", "pull-requests": "write"},
        "preview": {"contents": "read", "id-token": "write"},
        "apply": {"contents": "read", "id-token": "write"},
    }
    for name, workflow in WORKFLOWS.items():
        text = (FOLDER / f"{name}.yml").read_text(encoding="utf-8")
        assert "pull_request_target" not in text
        assert "secrets." not in text
        for step in steps(workflow):
            assert "${{" not in step.get("run", ""), "a value must not become a command"
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_the_workflows_of_this_repository_may_do_no_more_than_they_have_to() -> None:
    found = {}
    for file in OWN_WORKFLOWS:
        workflow = yaml.safe_load(file.read_text("utf-8"))
        for name, job in workflow["jobs"].items():
            found[f"{file.stem} {name}"] = {**workflow["permissions"], **job.get("permissions", {})}
        for step in steps(workflow):
            assert "${{" not in step.get("run", ""), "a value must not become a command"
            assert "secrets." not in str(step)
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False

    assert found == {
        "docs docs": {"contents": "read", "id-token": "write", "pages": "write"},
        "release build": {"contents": "read"},
        "release index": {"id-token": "write"},
        "release publish": {"contents": "write", "id-token": "write", "attestations": "write"},
        "tables tables": {"contents": "read"},
        "test test": {"contents": "read"},
    }


def test_every_action_that_runs_here_is_named_by_its_commit() -> None:
    """A tag may be moved by whoever takes its repository over; the version beside it is for readers and Dependabot."""
    given = [*FOLDER.glob("*.yml"), *ROOT.glob("templates/project/.github/workflows/*.yml")]
    assert len(given) >= 5
    for file in (*OWN_WORKFLOWS, ROOT / "action.yml", *given):
        used = re.findall(r"uses: (?!OWNER/)(.*)", file.read_text("utf-8"))
        assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", each)] == [], file.name


def test_workflows_give_the_action_inputs_that_it_has() -> None:
    given = [step["with"] for each in WORKFLOWS.values() for step in steps(each) if "OWNER/" in step.get("uses", "")]

    assert len(given) == 2
    assert all(each.keys() <= ACTION["inputs"].keys() for each in given)


def test_what_a_fork_has_made_is_never_run_with_a_token_that_may_write() -> None:
    """Beside the Action, which reads it as data, only what is before the checkout runs."""
    found = steps(WORKFLOWS["comment"])
    checkout = next(index for index, step in enumerate(found) if step.get("uses", "").startswith("actions/checkout@"))

    assert [step["uses"] for step in found[checkout + 1 :]] == ["OWNER/gpupools@RELEASE"]
    assert WORKFLOWS["preview"]["jobs"]["preview"]["if"].endswith("head.repo.full_name == github.repository")


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not on PATH")
@pytest.mark.parametrize(
    ("pulls", "output"),
    [
        ([{"number": 6, "head": {"sha": "old"}}, {"number": 7, "head": {"sha": "abc"}}], "number=7\n"),
        ([{"number": 7, "head": {"sha": "other"}}], ""),
        ([], ""),
    ],
)
def test_the_pull_request_of_a_fork_is_found_by_its_commit(
    pulls: list[dict[str, Any]], output: str, tmp_path: Path
) -> None:
    gh = tmp_path / "gh"
    gh.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{tmp_path}/asked'\necho '{json.dumps(pulls)}'\n")
    gh.chmod(0o755)
    run = next(step for step in steps(WORKFLOWS["comment"]) if step.get("id") == "pull")["run"]
    env = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "HEAD": "eve:x; touch pwned",
        "SHA": "abc",
    }
    subprocess.run(["bash", "-e", "-c", run], env=env, cwd=tmp_path, check=True)

    assert (tmp_path / "output").read_text() == output
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "head=eve:x; touch pwned"
    assert not (tmp_path / "pwned").exists()
