"""`gpupools diff --since` with the real git: wherever the checkout stands, and running nothing that it brings."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupools.cli.git import NotInGit, file_at
from gpupools.cli.main import main

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not on PATH")

OLD = """\
config:
  gpupools:clusters:
    lab: {cloud: gcp, name: lab, project: ml-prod, location: europe-west4,
      service_account: gpu@ml-prod.iam.gserviceaccount.com}
  gpupools:pools:
    a: {clusters: [lab], instance_type: g2-standard-8, nodes: {max: 8}}
"""
NEW = OLD.replace("max: 8", "max: 9")
SAID = "lab/a: pods stay; in place\n  pools.a.nodes.max 8 → 9"
NAME = "Pulumi.dev.yaml"


def git(folder: Path, *arguments: str, **variables: str) -> str:
    own = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    plain = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-C", str(folder), *own, *arguments]
    return subprocess.run(command, env={**plain, **variables}, check=True, capture_output=True, text=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a checkout with an edited stack file in a folder of it."""
    folder = tmp_path / "checkout"
    (folder / "stacks").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "stacks" / NAME).write_text(OLD, encoding="utf-8")
    commit(folder)
    (folder / "stacks" / NAME).write_text(NEW, encoding="utf-8")
    return folder


Said = Callable[..., str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Return what a comparison with HEAD prints."""

    def compare(file: Path | str) -> str:
        code = main(["diff", "--since", "HEAD", str(file)])
        printed = capsys.readouterr()
        return printed.out.partition("\ncost")[0].strip() if code == 0 else printed.err.strip()

    return compare


def test_a_linked_worktree_is_a_checkout(checkout: Path, tmp_path: Path, said: Said) -> None:
    git(checkout, "worktree", "add", "-q", str(tmp_path / "linked"))
    file = tmp_path / "linked" / "stacks" / NAME
    file.write_text(NEW, encoding="utf-8")

    assert said(file) == SAID


def test_a_submodule_is_a_checkout(checkout: Path, tmp_path: Path, said: Said) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(checkout), "inner")
    file = outer / "inner" / "stacks" / NAME
    file.write_text(NEW, encoding="utf-8")

    assert said(file) == SAID


@pytest.mark.parametrize("command", [["diff"], ["report", "--markdown", "--no-policies"]], ids=lambda each: each[0])
def test_in_a_repository_its_commit_says_which_commit_of_a_submodule_it_was(
    command: list[str],
    checkout: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`main` and `v1` are the repository's where one stands in it, and the submodule's where one stands in that."""
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(checkout), "inner")
    commit(outer)
    git(outer, "tag", "-a", "v1", "-m", "x")
    file = outer / "inner" / "stacks" / NAME
    file.write_text(NEW, encoding="utf-8")
    commit(outer / "inner")

    for folder, name, refs in ((outer, f"inner/stacks/{NAME}", ("v1", "main")), (outer / "inner", file, ("HEAD^",))):
        monkeypatch.chdir(folder)
        for ref in refs:
            assert main([*command, "--since", ref, str(name)]) == 0
            assert "pools.a.nodes.max 8 → 9" in capsys.readouterr().out
    assert main(["diff", "--since", "v1", str(file)]) == 2
    assert "unknown commit 'v1'" in capsys.readouterr().err
    commit(outer)
    monkeypatch.chdir(outer)
    assert main(["diff", "--since", "HEAD", f"inner/stacks/{NAME}"]) == 0
    assert capsys.readouterr().out == "unchanged: lab/a\n"


@pytest.mark.parametrize(
    "variables",
    [
        {"GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/index", "GIT_PREFIX": ""},
        {"GIT_DIR": "/nowhere", "GIT_WORK_TREE": "/nowhere", "GIT_OBJECT_DIRECTORY": "/nowhere"},
        {"GIT_CEILING_DIRECTORIES": "/", "GIT_NAMESPACE": "x", "GIT_CONFIG_PARAMETERS": "'core.bare=true'"},
    ],
    ids=["a hook's", "of another repository", "others"],
)
def test_variables_of_a_hook_do_not_lead_elsewhere(
    variables: dict[str, str], checkout: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(checkout / "stacks")

    assert said(NAME) == SAID


def test_a_real_hook_compares(checkout: Path, tmp_path: Path) -> None:
    (checkout / ".git" / "hooks").mkdir(exist_ok=True)
    hook = checkout / ".git" / "hooks" / "pre-commit"
    program = f"{sys.executable} -m gpupools.cli.main diff --since HEAD stacks/{NAME} > {tmp_path / 'said'} 2>&1"
    hook.write_text(f"#!/bin/sh\nenv | grep -q GIT_INDEX_FILE && {program}\n", encoding="utf-8")
    hook.chmod(0o755)
    commit(checkout)

    assert (tmp_path / "said").read_text(encoding="utf-8").startswith(SAID)


def test_a_folder_behind_a_link_is_where_it_leads(checkout: Path, tmp_path: Path, said: Said) -> None:
    (tmp_path / "link").symlink_to(checkout / "stacks")

    assert said(tmp_path / "link" / NAME) == SAID


def test_a_file_outside_that_links_into_a_checkout_is_the_file_there(
    checkout: Path, tmp_path: Path, said: Said
) -> None:
    (tmp_path / "Pulumi.link.yaml").symlink_to(checkout / "stacks" / NAME)

    assert said(tmp_path / "Pulumi.link.yaml") == SAID


def test_a_committed_link_is_compared_with_what_it_led_to(checkout: Path, said: Said) -> None:
    git(checkout, "checkout", "-q", "--", ".")
    (checkout / NAME).symlink_to(f"stacks/{NAME}")
    commit(checkout)
    (checkout / "stacks" / NAME).write_text(NEW, encoding="utf-8")

    assert said(checkout / NAME) == SAID


@pytest.mark.parametrize("target", ["../outside.yaml", "/etc/hostname", "missing.yaml", NAME])
def test_a_committed_link_that_led_nowhere_in_the_commit_is_not_followed(target: str, checkout: Path) -> None:
    (checkout / "stacks" / NAME).write_text(OLD, encoding="utf-8")
    (checkout / NAME).symlink_to(target)
    commit(checkout)
    (checkout / NAME).unlink()
    (checkout / NAME).write_text(NEW, encoding="utf-8")

    with pytest.raises(NotInGit, match="is not in HEAD"):
        file_at("HEAD", checkout / NAME)


def test_a_name_of_any_bytes_is_found(checkout: Path) -> None:
    file = checkout / os.fsdecode(b"stacks/Pulumi.\xff \xc3\xbc.yaml")
    file.write_text(OLD, encoding="utf-8")
    commit(checkout)

    assert file_at("HEAD", file) == OLD.encode()


def test_a_clone_without_the_old_text_says_so(checkout: Path, tmp_path: Path) -> None:
    commit(checkout)
    git(checkout, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{checkout}", "partial")

    with pytest.raises(NotInGit, match="this clone does not have its content"):
        file_at("HEAD~1", tmp_path / "partial" / "stacks" / NAME)


# --- hostile checkouts ---


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """Return the folder in which every hostile command would leave a mark."""
    folder = tmp_path / "marks"
    folder.mkdir()
    return folder


def hostile_config(marks: Path) -> str:
    def run(name: str) -> str:
        return f"touch '{marks}/{name}'; false"

    return f"""
[core]
\tfsmonitor = "{run("fsmonitor")}"
\thooksPath = {marks.parent}/hooks
\tsshCommand = "{run("ssh")}"
\tpager = "{run("pager")}"
\teditor = "{run("editor")}"
\talternateRefsCommand = "{run("alternates")}"
\tgitProxy = "{run("proxy")}"
\taskPass = "{run("askpass")}"
[pager]
\tcat-file = "{run("pager-cat-file")}"
\trev-parse = "{run("pager-rev-parse")}"
[diff]
\texternal = "{run("external")}"
[credential]
\thelper = "!{run("credential")}"
[alias]
\tcat-file = "!{run("alias")}"
\trev-parse = "!{run("alias")}"
[extensions]
\tpartialClone = origin
[remote "origin"]
\turl = .
\tpromisor = true
\tuploadpack = "{run("uploadpack")}"
[protocol]
\tallow = always
[protocol "file"]
\tallow = always
[protocol "ext"]
\tallow = always
"""


def bare(folder: Path, marks: Path, *, top: str = "") -> None:
    """Put into a folder what git takes for a bare repository, as plain files."""
    for name in ("objects", "refs/heads"):
        (folder / name).mkdir(parents=True)
        (folder / name / ".keep").touch()  # git commits no empty folders
    (folder / "HEAD").write_text("0123456789012345678901234567890123456789\n", encoding="utf-8")
    core = f"[core]\n\trepositoryformatversion = 1\n\tbare = {'false' if top else 'true'}\n"
    worktree = f"\tworktree = {top}\n" if top else ""
    (folder / "config").write_text(core + worktree + hostile_config(marks), encoding="utf-8")


@pytest.mark.parametrize("where", ["the file's folder", "the file's folder with a worktree", "the only one"])
def test_a_bare_repository_among_the_files_runs_nothing(
    where: str, checkout: Path, marks: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(checkout / "stacks", marks, top=".." if "worktree" in where else "")
    if where == "the only one":
        shutil.rmtree(checkout / ".git")
    monkeypatch.chdir(checkout / "stacks")

    answered = said(NAME)

    assert [mark.name for mark in marks.iterdir()] == []
    assert ("not in a git checkout" in answered) if where == "the only one" else (answered == SAID)


def test_the_fixture_would_run_its_command(checkout: Path, marks: Path) -> None:
    """What the test above asserts is worth something: git itself does run it."""
    bare(checkout / "stacks", marks)
    subprocess.run(
        ["git", "-C", str(checkout / "stacks"), "rev-parse", "HEAD^{commit}"], capture_output=True, check=False
    )

    assert "uploadpack" in [mark.name for mark in marks.iterdir()]


@pytest.mark.parametrize("ref", ["HEAD", "0123456789012345678901234567890123456789"])
def test_a_hostile_configuration_of_the_checkout_itself_runs_nothing(ref: str, checkout: Path, marks: Path) -> None:
    """An unpacked archive may hold a `.git`, which git lets nobody commit."""
    hooks = marks.parent / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{marks}/{name}'\n", encoding="utf-8")
        (hooks / name).chmod(0o755)
    text = (checkout / ".git" / "config").read_text(encoding="utf-8")
    version = text.replace("repositoryformatversion = 0", "repositoryformatversion = 1")
    (checkout / ".git" / "config").write_text(version + hostile_config(marks), encoding="utf-8")
    (checkout / ".gitattributes").write_text("* filter=x diff=x\n", encoding="utf-8")

    if ref == "HEAD":
        assert file_at(ref, checkout / "stacks" / NAME) == OLD.encode()
    else:
        with pytest.raises(NotInGit, match="unknown commit"):
            file_at(ref, checkout / "stacks" / NAME)
    assert [mark.name for mark in marks.iterdir()] == []


def test_a_replaced_commit_is_read_as_it_was(checkout: Path) -> None:
    old = git(checkout, "rev-parse", "HEAD").strip()
    commit(checkout)
    git(checkout, "replace", old, "HEAD")

    assert file_at(old, checkout / "stacks" / NAME) == OLD.encode()


def test_a_program_called_git_in_the_checkout_is_not_git(
    checkout: Path, marks: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (checkout, checkout / "stacks"):
        (folder / "git").write_text(f"#!/bin/sh\ntouch '{marks}/git'\n", encoding="utf-8")
        (folder / "git").chmod(0o755)
    monkeypatch.chdir(checkout / "stacks")

    assert said(NAME) == SAID
    assert list(marks.iterdir()) == []
