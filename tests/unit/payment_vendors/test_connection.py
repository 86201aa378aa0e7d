"""Faults of the connection to a vendor, with servers that cause them."""

import contextlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from migration_service.errors import (
    PaymentInstructionRejectedError,
    PaymentVendorUnavailableError,
    PaymentVendorUnreachableError,
    ServiceError,
)
from migration_service.payment_vendors.connection import CallLimits, VendorConnection
from support.tls_proxy import TlsProxy

# `say` closes the connection. Unless the answer announces it, the client may use the connection again.
SOUND = b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 11\r\n\r\n{"a": "b"}\n'


def say(answer: bytes) -> Callable[[socket.socket, bytes], None]:
    """Return a script that sends this and closes the connection."""

    def script(connection: socket.socket, head: bytes) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_RDWR)

    return script


def reset(connection: socket.socket, head: bytes) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def drip_headers(connection: socket.socket, head: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(200):
        time.sleep(0.05)
        connection.sendall(b"x")
    connection.sendall(b"\r\n" + SOUND.partition(b"\r\n")[2])


def never_end(connection: socket.socket, head: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1000\r\n" + b" " * 0x1000 + b"\r\n")


def body(content: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content)


@pytest.mark.parametrize(
    ("script", "expected", "reason"),
    [
        (say(b""), PaymentVendorUnavailableError, "cut"),
        (reset, PaymentVendorUnavailableError, "cut"),
        (say(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), PaymentVendorUnavailableError, "cut"),
        (
            say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
            PaymentVendorUnavailableError,
            "cut",
        ),
        (say(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), PaymentVendorUnavailableError, "500"),
        (never_end, PaymentVendorUnreachableError, "65536 bytes"),
        (say(b"SSH-2.0-OpenSSH_9.2\r\n"), PaymentVendorUnreachableError, "not HTTP"),
        (say(body(b"<html>")), PaymentVendorUnreachableError, "not JSON"),
        (say(body(b"[" * 60_000)), PaymentVendorUnreachableError, "not JSON"),
        (say(body(b"\xff\xfe\xfd")), PaymentVendorUnreachableError, "not JSON"),
        (say(body(b'"text"')), PaymentVendorUnreachableError, "not a JSON object"),
        (
            say(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope"),
            PaymentVendorUnreachableError,
            "not HTTP",
        ),
        (say(b"HTTP/1.1 204 Nothing\r\n\r\n"), PaymentVendorUnreachableError, "status 204"),
        (say(b"HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n"), PaymentVendorUnreachableError, "418"),
    ],
)
def test_each_fault_of_a_server_has_its_error(
    start_server: Callable[..., Any],
    limits: CallLimits,
    script: Callable[[socket.socket, bytes], None],
    expected: type[ServiceError],
    reason: str,
) -> None:
    server = start_server(script)
    with pytest.raises(expected, match=reason):
        VendorConnection(name="nasty", url=server.url, limits=limits).get("x")


@pytest.mark.parametrize("status", [400, 402, 404, 410, 422])
def test_what_a_vendor_refuses_or_does_not_know_is_rejected(
    start_server: Callable[..., Any], limits: CallLimits, status: int
) -> None:
    server = start_server(say(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status))
    with pytest.raises(PaymentInstructionRejectedError):
        VendorConnection(name="strict", url=server.url, limits=limits).get("x")
    assert len(server.heads) == 1


def test_headers_that_are_sent_slowly_exceed_the_time_limit(
    start_server: Callable[..., Any], impatient_limits: CallLimits
) -> None:
    server = start_server(drip_headers)
    with pytest.raises(PaymentVendorUnavailableError, match="in time"):
        VendorConnection(name="slow", url=server.url, limits=impatient_limits).get("x")


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials for this machine, which requests would send on its own."""
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login root password root\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))


@pytest.mark.parametrize(("secret", "sent"), [(None, b""), ("its-secret", b"Bearer its-secret")])
def test_no_vendor_is_sent_the_credentials_of_netrc(
    start_server: Callable[..., Any], limits: CallLimits, netrc: None, secret: str | None, sent: bytes
) -> None:
    server = start_server(say(SOUND))
    VendorConnection(name="a", url=server.url, secret=secret, limits=limits).get("x")
    found = re.findall(rb"(?i)^authorization: (.*)\r$", server.heads[0], re.MULTILINE)
    assert found == ([sent] if sent else [])


def test_a_redirect_is_not_followed(start_server: Callable[..., Any], limits: CallLimits) -> None:
    target = start_server(say(SOUND))
    redirect = f"HTTP/1.1 307 Elsewhere\r\nLocation: {target.url}/x\r\nContent-Length: 0\r\n\r\n"
    server = start_server(say(redirect.encode()))
    with pytest.raises(PaymentVendorUnreachableError, match="redirect"):
        VendorConnection(name="moved", url=server.url, limits=limits).get("x")
    assert target.heads == []


def test_a_refused_connection_is_a_temporary_error(limits: CallLimits) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(PaymentVendorUnavailableError, match="refused"):
        VendorConnection(name="away", url=url, limits=limits).get("x")


@pytest.mark.parametrize(
    ("number", "expected"),
    [(socket.EAI_NONAME, PaymentVendorUnreachableError), (socket.EAI_AGAIN, PaymentVendorUnavailableError)],
)
def test_an_unknown_host_name_is_a_permanent_error_and_a_silent_name_server_a_temporary_one(
    monkeypatch: pytest.MonkeyPatch, limits: CallLimits, number: int, expected: type[ServiceError]
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise socket.gaierror(number, "as the resolver says it")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(expected, match="host name"):
        VendorConnection(name="nowhere", url="https://vendor.invalid", limits=limits).get("x")


@pytest.mark.parametrize(
    ("failures", "fault"), [(1, b""), (2, b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")]
)
def test_a_call_is_tried_three_times(
    start_server: Callable[..., Any], limits: CallLimits, failures: int, fault: bytes
) -> None:
    def recover(connection: socket.socket, head: bytes) -> None:
        say(fault if len(server.heads) <= failures else SOUND)(connection, head)

    server = start_server(recover)
    assert VendorConnection(name="flaky", url=server.url, limits=limits).get("x") == {"a": "b"}
    assert len(server.heads) == failures + 1


def test_an_answer_may_take_what_is_left_of_the_call_at_most(start_server: Callable[..., Any]) -> None:
    now = [1000.0]

    def spend_most_of_the_time(connection: socket.socket, head: bytes) -> None:
        if len(server.heads) == 1:
            now[0] += 9.5
            say(b"")(connection, head)
            return
        connection.settimeout(5)
        with contextlib.suppress(TimeoutError):
            connection.recv(1)  # until the service has given up
        say(SOUND)(connection, head)

    server = start_server(spend_most_of_the_time)
    limits = CallLimits(answer_seconds=20, total_seconds=10, attempts=2, pause_seconds=0.001)
    with pytest.raises(PaymentVendorUnavailableError, match="in time"):
        VendorConnection(name="slow", url=server.url, limits=limits, clock=lambda: now[0]).get("x")
    assert len(server.heads) == 2


def test_a_vendor_that_answers_429_is_not_called_again_immediately(
    start_server: Callable[..., Any], limits: CallLimits
) -> None:
    server = start_server(say(b"HTTP/1.1 429 Slow down\r\nContent-Length: 0\r\n\r\n"))
    with pytest.raises(PaymentVendorUnavailableError):
        VendorConnection(name="busy", url=server.url, limits=limits).get("x")
    assert len(server.heads) == 1


def test_a_vendor_that_keeps_failing_is_not_called_for_a_while_and_then_tried_again(
    start_server: Callable[..., Any],
) -> None:
    now = [1000.0]
    answers = [b"HTTP/1.1 500 Down\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"]

    def answer(connection: socket.socket, head: bytes) -> None:
        say(answers[0])(connection, head)

    server = start_server(answer)
    vendor = VendorConnection(
        name="down",
        url=server.url,
        limits=CallLimits(attempts=1, failures_to_open=2, open_seconds=30),
        clock=lambda: now[0],
    )
    for _ in range(2):
        with pytest.raises(PaymentVendorUnavailableError, match="500"):
            vendor.get("x")
    answers[0] = SOUND
    with pytest.raises(PaymentVendorUnavailableError, match="not called for a moment"):
        vendor.get("x")
    assert len(server.heads) == 2
    now[0] += 31
    assert vendor.get("x") == {"a": "b"}
    assert vendor.get("x") == {"a": "b"}


def test_threads_do_not_wait_for_one_another(start_server: Callable[..., Any], limits: CallLimits) -> None:
    together = threading.Barrier(4, timeout=30)

    def answer_when_all_are_here(connection: socket.socket, head: bytes) -> None:
        together.wait()
        say(SOUND)(connection, head)

    server = start_server(answer_when_all_are_here)
    patient = CallLimits(connect_seconds=20, answer_seconds=20, total_seconds=50)
    vendor = VendorConnection(name="shared", url=server.url, limits=patient)
    answers: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: answers.append(vendor.get("x"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [{"a": "b"}] * 4


def test_cookies_are_not_stored(start_server: Callable[..., Any], limits: CallLimits) -> None:
    answer = SOUND.replace(b"\r\n", b"\r\nSet-Cookie: session=1\r\n", 1)
    server = start_server(say(answer))
    vendor = VendorConnection(name="cookies", url=server.url, limits=limits)
    vendor.get("x")
    vendor.get("x")
    assert all(b"cookie" not in head.lower() for head in server.heads)


def test_a_certificate_is_that_of_the_name_by_an_authority_that_is_trusted(
    start_server: Callable[..., Any], limits: CallLimits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, server = trustme.CA(), start_server(say(SOUND))
    right, wrong = (
        TlsProxy("127.0.0.1", server.port, authority.issue_cert(name))
        for name in ("127.0.0.1", "vendor.example")
    )

    def get(proxy: TlsProxy) -> Any:
        url = f"https://127.0.0.1:{proxy.port}"
        return VendorConnection(name="vendor", url=url, limits=limits).get("x")

    with right, wrong:
        with pytest.raises(PaymentVendorUnreachableError, match="certificate"):
            get(right)
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        assert get(right) == {"a": "b"}
        with pytest.raises(PaymentVendorUnreachableError, match="certificate"):
            get(wrong)


def test_a_server_without_tls_is_a_permanent_error(limits: CallLimits) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_greet_in_plain_text, args=(listener,))
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(PaymentVendorUnreachableError, match="TLS"):
            VendorConnection(name="plain", url=url, limits=limits).get("x")
        thread.join()


def _greet_in_plain_text(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(json.dumps({"this": "is not TLS"}).encode())
