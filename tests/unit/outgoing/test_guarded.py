"""Which addresses are connected to, and that exactly the checked one is."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path

import pytest
import trustme

from migration_service.outgoing.guarded import GuardedClient, RequestLimits
from migration_service.outgoing.rules import AddressNotAllowedError, AddressRules
from migration_service.services.webhooks.posting import post
from migration_service.states import DeliveryFailure
from support.receivers import Receiver, receiving
from support.servers import wait_until
from support.tls_proxy import TlsProxy

LOOPBACK = AddressRules.from_texts("127.0.0.0/8, ::1/128", allows_http=True)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def _send(url: str, rules: AddressRules = LOOPBACK, **limits: float) -> tuple[int | None, str | None]:
    client = GuardedClient(rules, RequestLimits(**limits))  # type: ignore[arg-type]
    outcome = post(client, url, {"webhook-id": "1"}, b"{}")
    client.close()
    return outcome.status, outcome.failure


def test_a_setting_allows_networks() -> None:
    rules = AddressRules.from_texts("10.20.0.0/16", allows_http=False)
    assert rules.allows("10.20.1.1")
    assert rules.allows("::ffff:10.20.1.1")
    assert not rules.allows("10.21.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1"])
def test_a_host_with_an_address_that_is_not_public_is_not_connected_to(receiver: Receiver, host: str) -> None:
    public = AddressRules(allows_http=True)
    expected = (None, DeliveryFailure.ADDRESS_NOT_ALLOWED)
    assert _send(f"http://{host}:{receiver.port}/", public) == expected
    assert receiver.requests == []
    assert _send(f"http://{host}:{receiver.port}/") == (204, None)


def test_a_name_is_refused_if_one_of_its_addresses_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (it, 443)) for it in ("93.184.215.14", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(AddressNotAllowedError):
        AddressRules().resolve("two.example.com", 443)


@pytest.mark.parametrize("status", [301, 307])
def test_no_redirect_is_followed(receiver: Receiver, status: int) -> None:
    receiver.answer(status, Location=receiver.url)
    assert _send(receiver.url) == (status, DeliveryFailure.REDIRECT)
    assert len(receiver.requests) == 1


def test_how_requests_fail(receiver: Receiver) -> None:
    assert _send("http://no-such-host.invalid/") == (None, DeliveryFailure.HOST_UNKNOWN)
    receiver.manner = "cut"
    assert _send(receiver.url) == (None, DeliveryFailure.CONNECTION)
    receiver.manner = "hang"
    assert _send(receiver.url, seconds=0.2) == (None, DeliveryFailure.TIMEOUT)
    assert _send(f"https://127.0.0.1:{receiver.port}/") == (None, DeliveryFailure.TLS)


@pytest.mark.parametrize(
    ("piece", "seconds", "failure"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 100, 60.0, DeliveryFailure.ANSWER_INVALID),
        (b"HTTP/1.1 100 Continue\r\n\r\n", 0.5, DeliveryFailure.TIMEOUT),
        (b"HTTP/1.1 200 OK\r\nx: y\r\n", 0.5, DeliveryFailure.TIMEOUT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n.", 0.5, DeliveryFailure.TIMEOUT),
    ],
    ids=["interim answers", "slow interim answers", "slow head", "slow body"],
)
def test_an_answer_without_end_ends_at_the_deadline_or_at_the_limit_of_bytes(
    piece: bytes, seconds: float, failure: DeliveryFailure
) -> None:
    """Each answers at once, and goes on with a byte or an answer before any time-out of a read."""

    def answer(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            for sent in chain([piece], repeat(piece if b"100 Continue" in piece else b".")):
                try:
                    connection.sendall(sent)
                except OSError:
                    return
                time.sleep(0 if seconds > 1 else 0.02)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=[listener])
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert _send(url, seconds=seconds) == (None, failure)
        thread.join()


def test_more_messages_at_once_than_connections_are_kept_open_are_no_warning(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.manner = "hang"
    client = GuardedClient(LOOPBACK, RequestLimits(connections=1))
    with ThreadPoolExecutor(4) as threads:
        sent = [threads.submit(post, client, receiver.url, {}, b"{}") for _ in range(4)]
        wait_until(lambda: len(receiver.requests) == 4, "all are on their way")
        receiver.answer(200)
        receiver.let_go.set()
        assert [it.result().status for it in sent] == [200] * 4
    assert "pool is full" not in caplog.text
    client.close()


def test_a_certificate_is_that_of_the_name(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    right, wrong = (
        TlsProxy("127.0.0.1", receiver.port, authority.issue_cert(name))
        for name in ("localhost", "example.com")
    )
    with right, wrong:
        assert _send(f"https://localhost:{right.port}/") == (None, DeliveryFailure.TLS)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        assert _send(f"https://localhost:{right.port}/") == (204, None)
        assert _send(f"https://localhost:{wrong.port}/") == (None, DeliveryFailure.TLS)


def test_a_body_does_not_wait_until_its_headers_are_acknowledged(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[socket.socket] = []
    connect = socket.create_connection

    def remember(address: tuple[str, int], timeout: float) -> socket.socket:
        opened.append(connect(address, timeout))
        return opened[-1]

    monkeypatch.setattr(socket, "create_connection", remember)
    client = GuardedClient(LOOPBACK, RequestLimits())
    post(client, receiver.url, {"webhook-id": "1"}, b"{}")
    assert [bool(it.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) for it in opened] == [True]
    client.close()
