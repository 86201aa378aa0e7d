"""What nginx, as the project configures it, makes of requests."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
import requests
from sqlalchemy import select

from migration_service.config import Settings
from migration_service.models import AuditEntry
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.servers import wait_until
from support.supplier_client import API, SupplierClient
from support.web_servers import ROOT, is_answered, needs_nginx, nginx, proxied_web_server, web_server

pytestmark = needs_nginx

#: Instead of 1,000.
OF_AN_ADDRESS = 10
HEALTH = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"
VALIDATE = f"POST {API}/validate-account/ HTTP/1.1\r\nHost: x\r\n".encode()


@pytest.fixture(scope="module")
def port(migrated: Settings) -> Iterator[int]:
    few = ("limit_conn address 1000;", f"limit_conn address {OF_AN_ADDRESS};")
    with proxied_web_server(migrated, {}, few, processes=1) as (port, _server):
        yield port


def _connect(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=30)


def read_to_the_end(connection: socket.socket) -> bytes:
    """Return everything that the server sends until it closes the connection."""
    received = bytearray()
    try:
        while piece := connection.recv(65_536):
            received += piece
    except ConnectionResetError:
        pass
    return bytes(received)


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "uri_too_long"),
        (HEALTH + b"X: " + b"x" * 9_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (HEALTH + 9 * (b"X: " + b"x" * 8_000 + b"\r\n") + b"\r\n", 431, "headers_too_large"),
        (b"\x16\x03\x01\x02\r\nHost: x\r\n\r\n", 400, "parse_error"),
        (b"G\x00T / HTTP/9.9\r\nHost: x\r\n\r\n", 400, "parse_error"),
        (VALIDATE + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nnot a size\r\n", 400, "parse_error"),
        (VALIDATE + b"Content-Length: 17000000\r\n\r\n" + b"x" * 200_000, 413, "request_too_large"),
    ],
    # pytest puts ids into the environment of the servers that a test starts, and these would be too long.
    ids=["URL", "header", "headers", "TLS", "version", "chunk", "body"],
)
def test_requests_that_nginx_refuses_get_the_usual_form_of_error(
    port: int, request_: bytes, status: int, code: str
) -> None:
    with _connect(port) as connection:
        connection.sendall(request_)
        received, _, body = read_to_the_end(connection).partition(b"\r\n\r\n")
    error = json.loads(body)
    assert (int(received.split()[1]), error["code"]) == (status, code)
    assert error["errors"] == [{"detail": error["detail"], "code": code, "attr": None}]
    assert b"Content-Type: application/json" in received
    assert b"X-Request-ID: " in received


@pytest.mark.parametrize(("path", "is_long"), [("/v1/openapi.json", True), (f"{API}/", False)])
def test_nginx_compresses_long_answers_for_clients_that_accept_it(
    port: int, path: str, *, is_long: bool
) -> None:
    def get(accepted: str) -> requests.Response:
        return requests.get(
            f"http://{LOOPBACK}:{port}{path}", headers={"Accept-Encoding": accepted}, timeout=30
        )

    packed, plain = get("gzip"), get("identity")
    assert packed.headers.get("Content-Encoding") == ("gzip" if is_long else None)
    assert "Content-Encoding" not in plain.headers
    assert ("Accept-Encoding" in plain.headers.get("Vary", "")) == is_long
    assert packed.content == plain.content


@pytest.mark.parametrize(
    ("path", "status"), [(f"{API}/batches/", 401), ("/console/suppliers/X/upload/", 404)]
)
def test_nginx_leaves_the_size_of_a_file_to_the_service(port: int, path: str, status: int) -> None:
    # Nobody is logged in, and the console is off.
    answer = requests.post(
        f"http://{LOOPBACK}:{port}{path}", b"x" * 17_000_000, timeout=30, allow_redirects=False
    )
    assert answer.status_code == status


@pytest.mark.parametrize(("path", "most"), [("validate-account/", OF_AN_ADDRESS), ("batches/", 8)])
def test_an_address_with_too_many_requests_under_way_is_answered_429(port: int, path: str, most: int) -> None:
    head = f"POST {API}/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    with ExitStack() as stack:

        def another() -> requests.Response:
            """The answer to a request after one more that waits for its body."""
            stack.enter_context(_connect(port)).sendall(head.encode())
            return requests.post(f"http://{LOOPBACK}:{port}{API}/{path}", b"x", timeout=30)

        wait_until(lambda: another().status_code == 429, "all are under way")
        answer = another()
        assert (answer.json()["code"], answer.headers["Retry-After"]) == ("share_used", "1")
        assert is_answered(port) == (most < OF_AN_ADDRESS)


def test_with_the_certificate_that_the_script_makes_nginx_has_tls(migrated: Settings, tmp_path: Path) -> None:
    secrets = {"MIGRATION_SERVICE_SECRETS": str(tmp_path / "secrets"), "PATH": os.environ["PATH"]}
    subprocess.run(["/bin/sh", str(ROOT / "deployment/secrets.sh")], cwd=tmp_path, env=secrets, check=True)
    web = random_free_port()
    with web_server(migrated, web, processes=1), nginx(web, secrets=tmp_path / "secrets") as port:
        certificate = str(tmp_path / "secrets/TLS_CERTIFICATE")
        assert requests.get(f"https://{LOOPBACK}:{port}/health/live", verify=certificate, timeout=30).ok
        assert not is_answered(port)


def test_while_the_web_server_is_away_requests_are_answered_503_and_logged(
    migrated: Settings, tmp_path: Path
) -> None:
    with proxied_web_server(migrated, {}, ("/var/log/nginx", str(tmp_path)), processes=1) as (port, server):
        server.terminate()
        server.wait(60)
        answer = requests.post(
            f"http://{LOOPBACK}:{port}{API}/validate-account/",
            b" " * 2_000_000,
            headers={"X-Request-ID": "request-7"},
            timeout=30,
        )
    assert (answer.status_code, answer.json()["code"]) == (503, "service_unavailable")
    assert (answer.headers["Retry-After"], answer.headers["X-Request-ID"]) == ("5", "request-7")
    told = json.loads((tmp_path / "access.log").read_text().splitlines()[-1])
    assert (told["request_id"], told["status"], told["address"]) == ("request-7", 503, LOOPBACK)


@pytest.mark.parametrize("number", ["77/", "77//", "/", "a b/c/"])
@pytest.mark.parametrize("end", ["", "/", "?", "/?"])
def test_a_number_that_ends_in_a_slash_is_found_with_and_without_the_slash_of_the_path(
    port: int, supplier: SupplierClient, number: str, end: str
) -> None:
    (account,) = supplier.accounts()
    account["external_account_number"] = number
    assert supplier.stage(account).status_code == 201
    answer = requests.get(
        f"http://{LOOPBACK}:{port}{API}/accounts/{supplier.code}/{quote(number, safe='')}{end}",
        headers={"Authorization": f"Token {supplier.token}"},
        timeout=30,
    )
    assert answer.json()["external_account_number"] == number


def test_the_address_of_a_client_is_the_one_that_nginx_saw(port: int, supplier: SupplierClient) -> None:
    refused = requests.get(
        f"http://{LOOPBACK}:{port}{API}/import-suppliers/",
        headers={
            "Authorization": "Token unknown",
            "X-Forwarded-For": "192.0.2.1",
            "X_Forwarded_For": "192.0.2.2",
        },
        timeout=30,
    )
    assert refused.status_code == 401
    with supplier.Session.begin() as session:
        found = select(AuditEntry.address).where(AuditEntry.request_id == refused.headers["X-Request-ID"])
        assert session.scalars(found).all() == [LOOPBACK]
