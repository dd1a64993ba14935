"""Nobody but the caller decides which program runs for a cluster, and to which host a credential goes."""

import base64
import json
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupools.cli.main import main
from gpupools.ready import kubeconfig
from tests.gpupools.ready.api import serving, write_files
from tests.gpupools.ready.world import World

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate")
no_socks = pytest.mark.filterwarnings("ignore:SOCKS support in urllib3 requires")
EXEC_API = "client.authentication.k8s.io/v1"
READY, WALK = ("ready",), ("mig", "walk", "--pool", "one", "--to", "1g.5gb", "--yes")
SMOKE, POLICY = ("ready", "--smoke"), ("policy",)
OF_FILES = {"ready": READY, "smoke": SMOKE, "mig walk": WALK}


def plugin(mark: Path) -> dict[str, Any]:
    return {"exec": {"apiVersion": EXEC_API, "command": "touch", "args": [str(mark)]}}


def config(user: dict[str, Any], server: object = "https://127.0.0.1:9", **changed: Any) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
        **changed,
    }


def runs(command: str, args: Any = (), **more: Any) -> dict[str, Any]:
    return config({"exec": {"apiVersion": EXEC_API, "command": command, "args": args, **more}})


def stack(folder: Path, **access: Any) -> Path:
    cluster = {"cloud": "aws", "name": "train", "region": "eu-central-1", "subnet_ids": ["subnet-0a1b2c3d4e5f60718"]}
    cluster |= {"node_role_arn": "arn:aws:iam::123456789012:role/gpu-nodes", **access}
    pool = {"clusters": ["train"], "gpu": "A100-40GB", "gpus_per_node": 8, "nodes": {"min": 1, "max": 6}}
    pool |= {"sharing": {"mode": "mig", "profile": "1g.5gb"}, "software": "gpu-operator", "trust": {"team": "a"}}
    file = folder / "Pulumi.dev.yaml"
    file.write_text(
        yaml.safe_dump({"config": {"gpupools:clusters": {"train": cluster}, "gpupools:pools": {"one": pool}}})
    )
    return file


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return folder


def refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], besides: str = "\0") -> str:
    """Run a command; return its one line of output, besides one that starts so."""
    code = main(list(words))
    out, err = capsys.readouterr()
    err = "".join(line for line in err.splitlines(keepends=True) if not line.startswith(besides))
    assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
    return err


@pytest.mark.parametrize("path", ["/none:{0}/kube.yaml", "{0}/kube.yaml", "/none;{0}/kube.yaml", "{1}/link"])
@pytest.mark.parametrize("command", OF_FILES)
def test_a_stack_file_runs_no_program_of_the_checkout(
    command: str, path: str, checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = checkout / "mark"
    (checkout / "kube.yaml").write_text(yaml.safe_dump(config(plugin(mark))))
    (tmp_path / "link").symlink_to(checkout / "kube.yaml")
    file = stack(checkout, kubeconfig={"path": path.format("/proc/self/cwd" if ":" in path else checkout, tmp_path)})

    refused((*OF_FILES[command], str(file)), capsys)
    assert not mark.exists()


@pytest.mark.parametrize("how", ["option", "variable", "list"])
@pytest.mark.parametrize("command", ["ready", "mig walk", "policy"])
def test_no_kubeconfig_of_the_checkout_is_read(
    command: str, how: str, checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = checkout / "mark"
    kube = checkout / "kube.yaml"
    kube.write_text(yaml.safe_dump(config(plugin(mark))))
    file = () if command == "policy" else (str(stack(checkout, kubeconfig={"path": "/kube"})),)
    option = ("--kubeconfig", str(kube)) if how == "option" else ()
    if not option:
        monkeypatch.setenv("KUBECONFIG", str(kube) if how == "variable" else f"/none{os.pathsep}{kube}")

    said = refused((*{**OF_FILES, "policy": POLICY}[command], *file, "--context", "x", *option), capsys)
    assert ("is a list of files" if how == "list" else "is inside the checkout") in said
    assert not mark.exists()


def test_fit_reads_no_kubeconfig_of_the_checkout_of_its_stack(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, kube = checkout / "mark", checkout / "kube.yaml"
    kube.write_text(yaml.safe_dump(config(plugin(mark))))
    monkeypatch.chdir(tmp_path)
    file = str(stack(checkout, kubeconfig={"path": "/kube"}))

    said = refused(("fit", "--context", "x", "--kubeconfig", str(kube), "--stack", file), capsys)
    assert "is inside the checkout" in said
    assert not mark.exists()


class Listener(ThreadingHTTPServer):
    """A TLS server that keeps the credentials it gets."""

    def __init__(self, certificate: Path) -> None:
        self.credentials: list[str] = []
        self.authority = base64.b64encode(Path(f"{certificate}.crt").read_bytes()).decode()
        super().__init__(("127.0.0.1", 0), _Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def handle_error(self, *_: object) -> None: ...


class _Handler(BaseHTTPRequestHandler):
    server: Listener

    def do_GET(self) -> None:
        self.server.credentials.append(self.headers.get("Authorization", ""))
        self.send_error(404)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a certificate of loopback, with its key in one file."""
    file = tmp_path_factory.mktemp("tls") / "loopback.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(file), "-out", f"{file}.crt"]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


@pytest.fixture
def listener(certificate: Path) -> Iterator[Listener]:
    with Listener(certificate) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def logged_in(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs on the path that give a token for every cloud, and leave a mark."""
    programs = checkout.parent / "programs"
    programs.mkdir()
    for name in ("aws", "kubelogin", "gke-gcloud-auth-plugin"):
        answer = (
            '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"SECRET"}}'
        )
        (programs / name).write_text(f"#!/bin/sh\ntouch {programs}/ran\necho '{answer}'\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return programs / "ran"


CLOUDS: dict[str, dict[str, Any]] = {
    "aws": {},
    "azure": {"cloud": "azure", "resource_group": "ml", "subscription_id": "11111111-2222-3333-4444-555555555555"},
    "gcp": {
        "cloud": "gcp",
        "project": "ml-lab-1",
        "location": "europe-west4",
        "service_account": "n@ml-lab-1.iam.gserviceaccount.com",
    },
}


def endpoint_file(checkout: Path, cloud: str, listener: Listener) -> Path:
    file = stack(checkout, endpoint=f"127.0.0.1:{listener.server_port}", certificate_authority=listener.authority)
    content = yaml.safe_load(file.read_text())
    cluster = content["config"]["gpupools:clusters"]["train"]
    if CLOUDS[cloud]:
        for key in ("region", "subnet_ids", "node_role_arn"):
            del cluster[key]
    cluster |= CLOUDS[cloud]
    content["config"]["gpupools:pools"]["one"]["nodes"] = {"max": 2}
    file.write_text(yaml.safe_dump(content))
    return file


@needs_openssl
@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("command", OF_FILES)
def test_a_host_of_the_stack_file_gets_no_token_unasked(
    command: str, cloud: str, checkout: Path, logged_in: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    file = endpoint_file(checkout, cloud, listener)

    said = refused((*OF_FILES[command], str(file)), capsys)
    assert f"--trust-endpoint 127.0.0.1:{listener.server_port}" in said
    assert not logged_in.exists()
    assert listener.credentials == []


@needs_openssl
@pytest.mark.parametrize("command", ["ready", "mig walk"])
def test_a_host_that_the_caller_trusts_is_printed_with_the_program_before_it_gets_a_token(
    command: str, checkout: Path, logged_in: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    file, host = endpoint_file(checkout, "aws", listener), f"127.0.0.1:{listener.server_port}"

    assert main([*OF_FILES[command], str(file), "--trust-endpoint", host]) == 2
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith(
        f"connects to {host} (from the stack file) with a token of aws --region eu-central-1 eks get-token"
    )
    assert set(listener.credentials) == {"Bearer SECRET"}


@pytest.mark.parametrize("command", OF_FILES)
def test_a_trusted_host_that_the_file_does_not_name_is_refused(
    command: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stack(checkout, kubeconfig={"path": "/kube"})
    assert "--trust-endpoint: the file has no endpoint 'h'" in refused(
        (*OF_FILES[command], str(file), "--trust-endpoint", "h"), capsys
    )


def write(path: Path, content: str | bytes | dict[str, Any]) -> None:
    text = yaml.safe_dump(content) if isinstance(content, dict) else content
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def behind(proxy: str) -> dict[str, Any]:
    made = config({"token": "t"})
    made["clusters"][0]["cluster"]["proxy-url"] = proxy
    return made


def insecure(value: object) -> dict[str, Any]:
    made = config({"token": "t"})
    made["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = value
    return made


def prints(answer: dict[str, Any]) -> dict[str, Any]:
    return runs("echo", [json.dumps(answer)])


EXPIRES = {"apiVersion": EXEC_API, "kind": "ExecCredential", "status": {"token": "t", "expirationTimestamp": "SECRET"}}
OTHER_LETTERS = {**EXPIRES, "status": {"token": "\u4e00"}}


def with_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("t"))
    write(path, config({"tokenFile": "t"}))


BOMB = "a: &a0 [1]\n" + "".join(f"b{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
FORMER = {"auth-provider": {"name": "gcp", "config": {"cmd-path": "touch mark"}}}
TWO = {"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}] * 2}
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "cannot be read: No such file"),
    "folder": (lambda path: path.mkdir(), "cannot be read: it is a folder"),
    "fifo": (lambda path: os.mkfifo(path), "is not a regular file"),
    "50 MB": (lambda path: write(path, "a: " + "b" * 50_000_000), "has more than 4194304 bytes"),
    "binary": (lambda path: write(path, bytes(range(256)) * 9), "is not text"),
    "broken": (lambda path: write(path, "{a: [b, c"), "is not YAML"),
    "bomb": (lambda path: write(path, BOMB), "has more than 250000 values"),
    "empty": (lambda path: write(path, ""), "is not a kubeconfig"),
    "list": (lambda path: write(path, "[1]"), "is not a kubeconfig"),
    "contexts as number": (lambda path: write(path, config({}, contexts=5)), "no context named 'x'"),
    "lists as text": (lambda path: write(path, config({}, contexts="x")), "no context named 'x'"),
    "two contexts": (lambda path: write(path, config({}, **TWO)), "2 contexts named 'x'"),
    "no context": (lambda path: write(path, config({}, contexts=[])), "no context named 'x'"),
    "server as number": (
        lambda path: write(path, config({}, server=5)),
        "server is not text",
    ),
    "server with password": (lambda path: write(path, config({}, "https://a:b@h")), "is not an https address"),
    "server as file": (lambda path: write(path, config({}, "file:///etc/passwd")), "is not an https address"),
    "token with newline": (lambda path: write(path, config({"token": "a\nb"})), "token has characters that a header"),
    "token of other letters": (lambda path: write(path, config({"token": "\u4e00"})), "token has characters that a"),
    "token of a plugin of other letters": (
        lambda path: write(path, prints(OTHER_LETTERS)),
        "token has characters that",
    ),
    "token of a fifo": (with_fifo, "t: cannot be read: it is not a regular file"),
    "program of a former client": (lambda path: write(path, config(FORMER)), "auth-provider"),
    "other user": (lambda path: write(path, config({"token": "t", "as": "admin"})), "has as, which"),
    "exec as text": (lambda path: write(path, config({"exec": "touch mark"})), "is not a map with"),
    "args as text": (lambda path: write(path, runs("true", 5)), "a list of args"),
    "env as text": (lambda path: write(path, runs("true", env=["a"])), "gave no token"),
    "secret as alias": (lambda path: write(path, "users: *SECRET"), "column 8: is not YAML; check quotes"),
    "secret as key": (lambda path: write(path, "SECRET: 1\nSECRET: 2"), "line 2: has a duplicate key (first on"),
    "server with password alone": (lambda path: write(path, config({}, "https://:SECRET@h")), "is not an https"),
    "server with a word as port": (lambda path: write(path, config({}, "https://h:SECRET")), "server is not a URL"),
    "server of an odd host": (lambda path: write(path, config({}, "https://SECRET\u2100")), "server has characters"),
    "proxy with a word as port": (lambda path: write(path, behind("http://h:SECRET")), "proxy-url is not a URL"),
    "file of the kernel": (lambda path: write(path, config({"tokenFile": "/proc/kmsg"})), "is not a regular file"),
    "proxy without its library": (
        lambda path: write(path, behind("socks5://u:SECRET@h")),
        "requires the Python package PySocks",
    ),
    "insecure as text": (lambda path: write(path, insecure("false")), "is neither true nor false"),
    "secret as version": (lambda path: write(path, prints({"apiVersion": "SECRET", "kind": "x"})), "does not answer"),
    "secret as time": (lambda path: write(path, prints(EXPIRES)), "expirationTimestamp is not a time"),
    "plugin that hangs": (lambda path: write(path, runs("sleep", ["60"])), "did not end in 0.2 s"),
    "child that hangs": (lambda path: write(path, runs("sh", ["-c", "sleep 60 & true"])), "did not end in 0.2 s"),
    "plugin that closes its output": (
        lambda path: write(path, runs("sh", ["-c", "exec >&-; sleep 60"])),
        "did not end",
    ),
    "plugin that prints": (lambda path: write(path, runs("yes")), "prints more than 4194304 bytes|did not end"),
    "plugin without it": (lambda path: write(path, runs("/no/such")), "/no/such gave no token: [Errno 2]"),
    "plugin beside the kubeconfig": (lambda path: write(path, runs("./no")), "home/./no gave|home/no gave"),
}


@no_socks
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("command", ["ready", "mig walk", "policy"])
def test_a_kubeconfig_that_cannot_be_used_is_one_line(
    bad: str, command: str, checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig, "PLUGIN_TIMEOUT_S", 0.2)
    kube = checkout.parent / "home" / "kube"
    kube.parent.mkdir()
    make, said = BAD[bad]
    make(kube)
    file = () if command == "policy" else (str(stack(checkout, kubeconfig={"path": "/kube"})),)
    words = (*{**OF_FILES, "policy": POLICY}[command], *file, "--context", "x", "--kubeconfig", str(kube))
    line = refused(words, capsys, "connects to ")
    assert any(each in line for each in said.split("|")), line
    assert "SECRET" not in line
    assert not (checkout / "mark").exists()


def _by_path(home: Path, bin_: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    return "tokens"


def _by_relative_path(home: Path, bin_: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    return _by_path(home, Path("bin"), monkeypatch)


def _by_link_into(home: Path, bin_: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (home / "tokens").symlink_to(bin_ / "tokens")
    return _by_path(home, home, monkeypatch)


def _by_link_out(home: Path, bin_: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (home / "other").write_bytes((bin_ / "tokens").read_bytes())
    (home / "other").chmod(0o755)
    (bin_ / "tokens").unlink()
    (bin_ / "tokens").symlink_to(home / "other")
    return str(bin_ / "tokens")


def _by_linked_folder(home: Path, bin_: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    bin_.rename(home / "bin")
    bin_.symlink_to(home / "bin")
    return str(bin_ / "tokens")


def _by_another_program(home: Path, bin_: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The caller's own program runs one by PATH, as gke-gcloud-auth-plugin runs gcloud."""
    (home / "own").write_text("#!/bin/sh\ntokens\n")
    (home / "own").chmod(0o755)
    _by_path(home, bin_, monkeypatch)
    return str(home / "own")


HOW: dict[str, Callable[[Path, Path, pytest.MonkeyPatch], str]] = {
    "absolute": lambda home, bin_, _: str(bin_ / "tokens"),
    "beside the kubeconfig": lambda home, bin_, _: "../checkout/bin/tokens",
    "in PATH": _by_path,
    "relative in PATH": _by_relative_path,
    "by a link into the checkout": _by_link_into,
    "by a link of the checkout": _by_link_out,
    "by a folder that is a link": _by_linked_folder,
    "by another program": _by_another_program,
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("command", [*OF_FILES, "policy", "fit"])
def test_no_program_of_the_checkout_gives_a_token(
    command: str, how: str, checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubeconfig is the caller's own and lies outside; a pull request brings the program."""
    home, bin_, mark = checkout.parent / "home", checkout / "bin", checkout.parent / "mark"
    home.mkdir()
    bin_.mkdir()
    (bin_ / "tokens").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (bin_ / "tokens").chmod(0o755)
    write(home / "kube", runs(HOW[how](home, bin_, monkeypatch)))
    file = str(stack(checkout, kubeconfig={"path": "/kube"}))
    words = {**{name: (*OF_FILES[name], file) for name in OF_FILES}, "policy": POLICY, "fit": ("fit", "--stack", file)}

    said = refused((*words[command], "--context", "x", "--kubeconfig", str(home / "kube")), capsys, "connects to ")
    what = "not found" if how == "by another program" else "no such program is outside the checkout"
    assert what in said
    assert not mark.exists()


@needs_openssl
@pytest.mark.parametrize("command", OF_FILES)
def test_a_clouds_program_is_not_the_checkouts(
    command: str,
    checkout: Path,
    logged_in: Path,
    listener: Listener,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pull request brings `aws`, before the caller's own in PATH: the latter runs."""
    mark = checkout.parent / "mark"
    (checkout / "bin").mkdir()
    (checkout / "bin" / "aws").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (checkout / "bin" / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", f"{checkout / 'bin'}{os.pathsep}{os.environ['PATH']}")
    words = (*OF_FILES[command], str(endpoint_file(checkout, "aws", listener)))

    refused((*words, "--trust-endpoint", f"127.0.0.1:{listener.server_port}"), capsys, "connects to ")
    assert set(listener.credentials) == {"Bearer SECRET"}
    assert logged_in.exists()
    assert not mark.exists()


@needs_openssl
def test_a_host_with_the_certificate_of_another_gets_no_token(
    checkout: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    kube = checkout.parent / "kube"
    made = config({"token": "SECRET"}, f"https://localhost:{listener.server_port}")
    made["clusters"][0]["cluster"]["certificate-authority-data"] = listener.authority
    write(kube, made)

    said = refused(("policy", "--context", "x", "--kubeconfig", str(kube)), capsys)
    assert "certificate verify failed" in said
    assert listener.credentials == []


@needs_openssl
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_host_is_not_followed(
    status: int, checkout: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.security.odd_answers import _answer
    from tests.security.test_odd_answers import answering

    kube = checkout.parent / "kube"
    with answering(_answer(status, "", b"", Location=f"https://127.0.0.1:{listener.server_port}/")) as server:
        write(kube, config({"token": "SECRET"}, server))
        refused(("policy", "--context", "x", "--kubeconfig", str(kube)), capsys)
    assert listener.credentials == []


@no_socks
@pytest.mark.parametrize(
    ("proxy", "what"),
    [("socks5://u:SECRET@h:1", "the Python package PySocks"), ("http://u:p@h:SECRET", "HTTPS_PROXY, is not a URL")],
)
def test_a_proxy_of_the_environment_that_cannot_be_used_is_one_line(
    proxy: str, what: str, checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = checkout.parent / "kube"
    write(kube, config({"token": "t"}, "https://h"))
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.setenv("https_proxy", proxy)

    said = refused(("policy", "--context", "x", "--kubeconfig", str(kube)), capsys)
    assert what in said
    assert "SECRET" not in said


def test_an_expired_token_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.security.odd_answers import JSON, _answer
    from tests.security.test_odd_answers import answering

    status = b'{"kind": "Status", "message": "Unauthorized"}'
    with answering(_answer(401, JSON, status)) as server:
        file = write_files(World("train", "whole"), server, tmp_path)
        said = refused(
            ("ready", str(file), "--context", "x", "--kubeconfig", str(tmp_path / "kube" / "config")), capsys
        )
    assert "rejects the credentials: Unauthorized; log in again" in said


@pytest.mark.parametrize("name", ["gke_ml-lab-1_europe-west4_train", "arn:aws:eks:eu-west-2:123456789012:cluster/dev"])
def test_a_context_of_another_cluster_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World("train", "whole")
    world.heal()
    with serving(world) as api:
        file = write_files(world, f"http://127.0.0.1:{api.server_port}", tmp_path)
        kube = tmp_path / "kube" / "config"
        kube.write_text(
            kube.read_text().replace("cluster: c\n", f"cluster: {name}\n").replace("name: c\n", f"name: {name}\n")
        )
        assert main(["ready", str(file)]) == 1
        assert {path for _, path in api.requests} == {"/api/v1/nodes"}
    assert "this is not the cluster of the file: Cluster train" in capsys.readouterr().out
