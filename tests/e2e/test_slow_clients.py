"""Slow and large bodies, also behind nginx. A refusal reaches a client that still sends."""

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest

from drill.scene import SUPPLIER, Scene, numbered_accounts
from e2e.test_proxy import read_to_the_end
from migration_service.config import Settings
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.batch_client import ndjson
from support.supplier_client import API, SupplierClient
from support.web_servers import needs_nginx, nginx, web_server

pytestmark = pytest.mark.long

VALIDATE = f"{API}/validate-account/"


@pytest.fixture(scope="module")
def port(migrated: Settings) -> Iterator[int]:
    """nginx that waits three seconds instead of twenty, and reaches its web server as in containers."""
    web = random_free_port()
    with web_server(migrated, web, processes=1), nginx(web, ("_timeout 20s;", "_timeout 3s;")) as port:
        yield port


def _send_slowly(port: int, pieces: list[bytes], *headers: str) -> bytes:
    head = "\r\n".join([f"POST {VALIDATE} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""])
    with socket.create_connection((LOOPBACK, port), timeout=30) as connection:
        connection.sendall(head.encode())
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.4)
        return read_to_the_end(connection)


@needs_nginx
def test_a_body_in_pieces_is_read_as_long_as_the_next_one_arrives_in_time(
    port: int, supplier: SupplierClient
) -> None:
    answer = _send_slowly(
        port,
        [b" " * 6_000] * 10,  # longer together than the time between two of them
        "Content-Length: 60000",
        f"Authorization: Token {supplier.token}",
    )
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'"parse_error"' in answer


@needs_nginx
@pytest.mark.parametrize("length", [9_000_000, 20_000_000])
def test_a_refusal_reaches_a_client_that_goes_on_sending(port: int, length: int) -> None:
    answer = _send_slowly(port, [b"x" * (length // 10)] * 10, f"Content-Length: {length}")
    assert answer.startswith(b"HTTP/1.1 401 " if length < 16_000_000 else b"HTTP/1.1 413 ")
    assert answer.count(b"HTTP/1.1 ") == 1


@needs_nginx
@pytest.mark.parametrize("in_chunks", [False, True])
def test_a_connection_can_be_used_again_after_a_large_body_was_refused(port: int, in_chunks: bool) -> None:
    body = b"x" * 15_000_000
    with closing(HTTPConnection(LOOPBACK, port, timeout=30)) as client:
        client.connect()
        client.auto_open = 0  # it raises NotConnected instead of connecting again
        for _ in range(5):
            client.request("POST", VALIDATE, iter([body]) if in_chunks else body, encode_chunked=in_chunks)
            answer = client.getresponse()
            answer.read()
            assert answer.status == 401


@needs_nginx
def test_a_body_without_end_is_answered_413(port: int) -> None:
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    answer = _send_slowly(port, [piece] * 17, "Transfer-Encoding: chunked")
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_gzip_bomb_is_read_piece_by_piece(scene: Scene) -> None:
    web = scene.main_process("web").children()
    before = sum(process.memory_info().rss for process in web)
    bomb = gzip.compress(b" " * 300_000_000, 6)
    answer = scene.send(
        "POST",
        f"batches/?import_supplier={SUPPLIER}&mode=validate",
        data=bomb,
        headers={"Content-Type": "application/gzip"},
    )
    assert answer.status_code < 500
    assert sum(process.memory_info().rss for process in web) - before < 60_000_000


def test_an_upload_needs_little_memory(scene: Scene, tmp_path: Path) -> None:
    lines = ndjson(numbered_accounts(100, "LARGE-"))
    scene.start_batch(lines.replace(b"LARGE-", b"WARM-"), "validate")
    pieces = 100_000_000 // len(lines)
    file = tmp_path / "large.ndjson"
    with file.open("wb") as written:
        written.writelines(lines.replace(b"LARGE-", b"L%d-" % piece) for piece in range(pieces))
    web = scene.service.find("web")
    assert web is not None
    before = _memory(web)
    highest, over = [before], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            highest[0] = max(highest[0], _memory(web))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with file.open("rb") as sent:
            batch_id = scene.start_batch(sent, "validate")
    finally:
        over.set()
        watcher.join()
    assert scene.send("POST", f"batches/{batch_id}/cancel/").status_code == 200
    assert scene.query("SELECT lines FROM batch WHERE id = %s", batch_id) == [(pieces * 100,)]
    grown = (highest[0] - before) / 1e6
    assert grown < 50, f"the web processes grew by {grown:.0f} MB"


def _memory(process: psutil.Process) -> int:
    return sum(one.memory_info().rss for one in [process, *process.children(recursive=True)])
