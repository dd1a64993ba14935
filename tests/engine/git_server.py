"""A git host of one's own: HTTPS on loopback, which the CLI reaches as the proxy for a name that is nobody's."""

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

HOST = "git.example"


@contextmanager
def git_host(repositories: Path, folder: Path) -> Iterator[dict[str, str]]:
    """Serve the bare repositories of a folder; yield the environment in which a Go program finds them.

    The port has to be that of HTTPS: the CLI makes a folder's name of the address, and Python makes no environment in
    a folder with a colon.
    """
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    names = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    made = ["openssl", "req", "-x509", *kind, *names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_CONNECT(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            self.connection = tls.wrap_socket(self.connection, server_side=True)
            self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
            self.close_connection = False

        def do_GET(self) -> None:
            """Answer as `git http-backend` does, https://git-scm.com/docs/git-http-backend."""
            path, _, query = self.path.partition("?")
            given = {
                "GIT_PROJECT_ROOT": str(repositories),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            command = ["git", "http-backend"]
            answer = subprocess.run(command, env=os.environ | given, input=body, capture_output=True, check=True).stdout
            head, _, content = answer.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - the handler's name

        def log_message(self, *_: object) -> None:
            """Leave the tests' output alone."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield {"HTTPS_PROXY": f"http://127.0.0.1:{server.server_address[1]}", "SSL_CERT_FILE": str(certificate)}
        server.shutdown()
