"""The programs of docs/how-to/other-languages.md, each with its language's host, where that is on PATH."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gpupools.components import package
from tests.engine.cli import Engine
from tests.engine.stand_in import NODE_POOL
from tests.engine.test_components import NOISE

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "other-languages.md").read_text(encoding="utf-8")
FILES = {"typescript": "index.ts", "go": "main.go", "csharp": "Program.cs"}
FILES |= {"python": "imported.py", "py": "generated_sdk.py"}
"""Programs that the page links to."""
BLOCKS = {
    **dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)),
    **{name: (ROOT / "examples" / "languages" / file).read_text(encoding="utf-8") for name, file in FILES.items()},
}
GO_SDK = "v3.259.0"
SDK_PATH = "github.com/acme/pulumi-gpupools/sdk/go/gpupools"
PLUGIN: Mapping[str, Any] = {"providers": [{"name": "gpupools", "path": "../repository/components"}]}


def need(*programs: str) -> None:
    for each in programs:
        if shutil.which(each) is None:
            pytest.skip(f"{each} is not on PATH")


def done(*command: str, folder: Path) -> None:
    """Run a tool of a language; without what it has to download, leave the test out."""
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if re.search(r"ENOTFOUND|EAI_AGAIN|no such host|connection refused|i/o timeout", ended.stderr):
        pytest.skip(f"{command[0]} reaches no registry")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def sdk(engine: Engine, language: str, **changed: str) -> Path:
    """Generate an SDK, as `pulumi package add` does of a repository of the organisation `acme`."""
    schema = engine.folder / f"{language}.json"
    schema.write_text(json.dumps({**package.schema(), "namespace": "acme", **changed}), encoding="utf-8")
    out = engine.folder / f"sdk-{language}"
    engine.run("package", "gen-sdk", str(schema), "--language", language, "--out", str(out), "--local").succeeded()
    return out / language


@pytest.fixture(scope="module")
def modules(engine: Engine) -> Path:
    """Install what a TypeScript program needs, and compile the SDK; one folder for all programs."""
    need("pulumi-language-nodejs", "npm")
    folder = engine.folder / "modules"
    made = sdk(engine, "nodejs")
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
    wanted = ("@pulumi/pulumi@3", "typescript@5", "@types/node@20")
    done("npm", "install", "--prefer-offline", "--no-audit", "--no-fund", *wanted, folder=folder)
    there = folder / "node_modules" / "@acme" / "gpupools"
    shutil.copytree(made, there)
    done(str(folder / "node_modules" / ".bin" / "tsc"), folder=there)
    shutil.copy(there / "package.json", there / "bin")
    return folder / "node_modules"


@pytest.fixture(scope="module")
def go_sdk(engine: Engine) -> Path:
    need("pulumi-language-go", "go")
    made = sdk(engine, "go") / "gpupools"
    text = f"module {SDK_PATH}\n\ngo 1.24\n\nrequire github.com/pulumi/pulumi/sdk/v3 {GO_SDK}\n"
    (made / "go.mod").write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def python_sdk(engine: Engine) -> Path:
    """Generate the SDK, with what an installed one says of its version."""
    made = sdk(engine, "python")
    about = made / "acme_gpupools-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme_gpupools\nVersion: 0.1.0\n", encoding="utf-8")
    return made


Project = Callable[[str, str], Path]


@pytest.fixture
def laid(engine: Engine, request: pytest.FixtureRequest) -> Project:
    """Lay a project with a program in a language."""

    def lay(language: str, program: str) -> Path:
        folder = engine.folder / "project"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        project: dict[str, Any] = {"name": "pools", "runtime": language, "plugins": PLUGIN}
        if language == "yaml":
            need("pulumi-language-yaml")
            (folder / "Pulumi.yaml").write_text(f"{program}plugins: {json.dumps(PLUGIN)}\n", encoding="utf-8")
            return folder
        if language == "typescript":
            (folder / "index.ts").write_text(program, encoding="utf-8")
            (folder / "package.json").write_text('{"private": true}', encoding="utf-8")
            (folder / "node_modules").symlink_to(request.getfixturevalue("modules"))
            project["runtime"] = "nodejs"
        elif language == "go":
            made = request.getfixturevalue("go_sdk")
            (folder / "main.go").write_text(program, encoding="utf-8")
            text = f"module pools\n\ngo 1.24\n\nrequire {SDK_PATH} v0.0.0\n\nreplace {SDK_PATH} => {made}\n"
            (folder / "go.mod").write_text(text, encoding="utf-8")
            done("go", "build", "-mod=mod", "-o", "pools", ".", folder=folder)
            project["runtime"] = {"name": "go", "options": {"binary": "./pools"}}
        else:
            (folder / "__main__.py").write_text(program, encoding="utf-8")
            if language == "py":
                for each in request.getfixturevalue("python_sdk").glob("acme_gpupools*"):
                    (folder / each.name).symlink_to(each)
            options = {"toolchain": "pip", "virtualenv": "../repository/.venv"}
            project["runtime"] = {"name": "python", "options": options}
        (folder / "Pulumi.yaml").write_text(json.dumps(project), encoding="utf-8")
        return folder

    return lay


LANGUAGES = ("yaml", "typescript", "go", "python", "py")
"""By the names of the page's blocks: `python` has the import, `py` the generated SDK."""


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_declares_the_pool(engine: Engine, laid: Project, language: str) -> None:
    folder = laid(language, BLOCKS[language])
    engine.run("stack", "init", language, project=folder).succeeded()
    engine.up(language, project=folder).succeeded()

    (pool,) = engine.resources(NODE_POOL)
    node = pool["inputs"]["nodeConfig"]
    assert pool["inputs"]["autoscaling"]["totalMaxNodeCount"] == 6
    assert node["serviceAccount"] == "gpu-nodes@ml-dev.iam.gserviceaccount.com"
    sharing = {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 4}
    assert node["guestAccelerators"][0]["gpuSharingConfig"] == sharing
    exported = engine.run("stack", "output", "--json", "--stack", language, project=folder).succeeded().output
    assert json.loads(exported)["pod"]["nodeSelector"]["gpupools/pool"] == "inference"
    engine.run("destroy", "--yes", "--skip-preview", "--stack", language, project=folder).succeeded()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_refused_pool_shows_its_reasons_and_nothing_else(engine: Engine, laid: Project, language: str) -> None:
    wrong, edits = re.subn(r"(?<=[ (])6\b", "0", re.sub(r"(?<=[ (])4\b", "1", BLOCKS[language]))
    folder = laid(language, wrong)
    engine.run("stack", "init", f"{language}-refused", project=folder).succeeded()
    ran = engine.run("preview", "--stack", f"{language}-refused", project=folder).failed()

    assert edits == 1
    assert [noise for noise in NOISE if noise in ran.output] == []
    shown = sections(ran.output)
    expected = sections(BLOCKS["text"])
    if language == "python":  # in the program's own process
        reasons = expected["gpupools:refused:GpuNodePool (inference)"].partition('" failed: ')[2]
        ended = "error: an unhandled error occurred: program exited with non-zero exit code: 1"
        expected = {"pulumi:pulumi:Stack (pools-dev)": f"error: {reasons}\n{ended}"}
    assert {name.replace(f"pools-{language}-refused", "pools-dev"): text for name, text in shown.items()} == expected


def sections(output: str) -> dict[str, str]:
    """Return what the CLI shows under "Diagnostics", by resource."""
    shown = output.partition("Diagnostics:\n")[2].partition("\nResources:")[0]
    parts = re.findall(r"^  (\S.*):\n((?:    .*\n?|\n)+)", shown, re.MULTILINE)
    return {name: re.sub(r"^    ", "", text, flags=re.MULTILINE).strip() for name, text in parts}


def test_the_program_in_c_sharp_has_the_names_of_its_sdk(engine: Engine) -> None:
    need("pulumi-language-dotnet")
    logos = engine.folder / "logos"
    logos.mkdir()
    (logos / "logo.png").write_bytes(b"")
    handler = partial(SimpleHTTPRequestHandler, directory=os.fspath(logos))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        # The generator downloads a logo.
        made = sdk(engine, "dotnet", logoUrl=f"http://127.0.0.1:{server.server_address[1]}/logo.png")
        server.shutdown()
    sources = "\n".join(each.read_text(encoding="utf-8") for each in made.rglob("*.cs"))
    program = BLOCKS["csharp"]
    found = {
        "class": set(re.findall(r"new (\w+)\b(?!<)", program)) - {"Dictionary"},
        "namespace": set(re.findall(r"using (Acme[\w.]*);", program)),
        "property": set(re.findall(r"\b([A-Z]\w+) = ", program)) | set(re.findall(r"inference\.(\w+)", program)),
        "choice": set(re.findall(r"= (\w+)\.(\w+),", program)) | set(re.findall(r"Mode = (\w+)\.(\w+)", program)),
    }

    assert all(found.values())
    assert [each for each in found["class"] if not re.search(rf"class {each}\b", sources)] == []
    assert [each for each in found["namespace"] if not re.search(rf"namespace {each}\b", sources)] == []
    assert [
        each for each in found["property"] if not re.search(rf"public .* {each} {{|public .* {each}$", sources, re.M)
    ] == []
    choices = [f"public static {kind} {word} {{" for kind, word in found["choice"]]
    assert [each for each in choices if each not in sources] == []
