"""`migration-client doctor` at addresses where something is wrong."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from migration_service_client.command import main
from support.tls_proxy import TlsProxy


@contextmanager
def answering(body: bytes, *, clock: float = 0.0) -> Iterator[int]:
    """Run a server whose clock differs by so many seconds, and return its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return formatdate(time.time() + clock, usegmt=True)

        def log_message(self, *_args: object) -> None:
            """Write nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def run(port: int, scheme: str = "http", **environment: str) -> tuple[int, str]:
    address = {"MIGRATION_CLIENT_URL": f"{scheme}://localhost:{port}", "MIGRATION_CLIENT_KEY": "k"}
    result = CliRunner().invoke(main, ["doctor", "--patience", "0"], env=address | environment)
    return result.exit_code, result.output


def test_something_else_than_the_service() -> None:
    with answering(b"<html>") as port:
        status, output = run(port)
    assert status == 1
    assert "wrong    service     Something else than the service answers" in output
    assert "ok       clock       agrees with the service" in output


@pytest.mark.parametrize(
    ("clock", "says"),
    [
        (-3600.0, r"wrong    clock       3[56]\d\d seconds ahead of that of the service"),
        (3600.0, r"wrong    clock       3[56]\d\d seconds behind that of the service"),
        (-60.0, r"warning  clock       [56]\d seconds ahead of that of the service"),
        (0.0, "ok       clock       agrees with the service"),
    ],
)
def test_a_clock_that_is_wrong(clock: float, says: str) -> None:
    with answering(b"{}", clock=clock) as port:
        assert re.search(says, run(port)[1])


def test_no_answer_and_a_proxy_whose_password_is_not_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    status, output = run(port)
    assert (status, "does not answer: Failed to connect to localhost:" in output) == (1, True)
    output = run(port, ALL_PROXY=f"user:secret@127.0.0.1:{port}", no_proxy="")[1]
    assert f"proxy       http://127.0.0.1:{port}\n" in output
    assert "does not answer: Failed to connect to 127.0.0.1:" in output
    assert "secret" not in output
    assert "proxy       none: HTTP_PROXY is not read" in run(port, HTTP_PROXY="http://127.0.0.1:1")[1]


def test_a_proxy_is_asked_as_for_any_other_request() -> None:
    with answering(b"<html>") as port:
        output = run(1, http_proxy=f"http://127.0.0.1:{port}", no_proxy="")[1]
    assert "Something else than the service answers at http://localhost:1." in output


@pytest.mark.parametrize("zone", ["UTC+12", "UTC-14"])
def test_tls_and_its_certificate(zone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca")
    # By a clock of either zone it would end on another day.
    ends = datetime.now(UTC).replace(hour=13) + timedelta(days=3)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    certificate = authority.issue_cert("localhost", not_after=ends)
    with answering(b"{}") as port, TlsProxy("127.0.0.1", port, certificate) as proxy:
        output = run(proxy.port, "https", SSL_CERT_FILE=str(tmp_path / "ca"))[1]
    monkeypatch.undo()
    time.tzset()
    assert f"warning  tls         TLSv1.3, the certificate ends on {ends:%Y-%m-%d}\n" in output


def test_a_certificate_of_an_unknown_authority() -> None:
    certificate = trustme.CA().issue_cert("localhost")
    with answering(b"{}") as port, TlsProxy("127.0.0.1", port, certificate) as proxy:
        status, output = run(proxy.port, "https")
    assert status == 1
    assert "wrong    tls         The certificate is not accepted: " in output
