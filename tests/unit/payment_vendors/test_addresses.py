"""How vendors are set up and called: addresses, secrets, and the circuit breaker."""

import logging
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from migration_service import errors
from migration_service.config import SettingsError, read_secret
from migration_service.payment_vendors.breaker import CircuitBreaker
from migration_service.payment_vendors.connection import CallLimits
from migration_service.payment_vendors.factory import get_vendor, make_vendor
from migration_service.payment_vendors.protocol import VendorClient
from support.vendor_servers import SANDBOX_VARIABLE


@pytest.fixture
def recorder(start_server: Callable[..., Any], limits: CallLimits) -> tuple[VendorClient, list[bytes], bytes]:
    """A vendor, the request heads that its server gets, and the server's own host and port."""

    def answer(connection: socket.socket, head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    server = start_server(answer)
    vendor = make_vendor("http", f"{server.url}/base", limits=limits)
    return vendor, server.heads, server.url.removeprefix("http://").encode()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    reference=st.text(max_size=300)
    | st.text(alphabet="./\\%2eEfF5cC?#@:;&= \r\n\0", max_size=20)
    | st.sampled_from([".", "..", "...", "", " "]),
    instruction_type=st.sampled_from(["CARD", "A&type=B", "A#b", "A/../b", "A b", "é"]),
)
@example(reference="%2e%2e", instruction_type="CARD")
@example(reference="../../v2/secrets", instruction_type="CARD")
@example(reference="//other.example/x", instruction_type="CARD")
@example(reference="a\r\nHost: other.example", instruction_type="CARD")
def test_a_reference_is_one_segment_of_the_path(
    recorder: tuple[VendorClient, list[bytes], bytes], reference: str, instruction_type: str
) -> None:
    vendor, heads, host = recorder
    heads.clear()
    with pytest.raises((errors.PaymentInstructionRejectedError, errors.PaymentVendorUnreachableError)):
        vendor(reference, instruction_type)
    for head in heads:
        request_line, *headers = head.split(b"\r\n")
        method, target, _ = request_line.split(b" ")
        path, _, query = target.partition(b"?")
        start, base, resource, segment = path.split(b"/")
        assert (method, start, base, resource) == (b"GET", b"", b"base", b"payment-instructions")
        assert unquote(segment.decode("ascii")) == reference
        assert segment not in (b"", b".", b"..")
        name, _, value = query.partition(b"=")
        assert name == b"type"
        assert not set(value) & set(b"&=?#/")
        assert [line for line in headers if line.lower().startswith(b"host:")] == [b"Host: " + host]


@pytest.mark.parametrize(
    "reference", ["", "  ", ".", "..", "a\nb", "a\x00b", "a\u202eb", "\ud800", "x" * 256]
)
def test_an_invalid_reference_is_refused_without_a_call(
    recorder: tuple[VendorClient, list[bytes], bytes], reference: str
) -> None:
    vendor, heads, _ = recorder
    with pytest.raises(errors.PaymentInstructionRejectedError) as caught:
        vendor(reference, "CARD")
    assert caught.value.errors[0].attr == "reference"
    assert heads == []
    with pytest.raises(errors.PaymentVendorUnreachableError):
        vendor("x" * 255, "CARD")


SECRET = "s3cret-of-the-vendor"


def test_the_secret_comes_from_the_named_variable(sandbox_url: str) -> None:
    vendor = get_vendor("sandbox", "http", sandbox_url, SANDBOX_VARIABLE, 1)
    assert vendor("card-ok-1", "CARD").details


def test_calls_for_an_organisation_in_one_process_share_a_vendor_and_so_its_circuit_breaker() -> None:
    vendor = get_vendor("a", "http", "https://a.example", None, 1)
    assert get_vendor("a", "http", "https://a.example", None, 1) is vendor
    assert get_vendor("b", "http", "https://a.example", None, 1) is not vendor
    assert get_vendor("a", "http", "https://a.example", None, 2) is not vendor


@pytest.mark.parametrize(
    ("kind", "url", "secret_env"),
    [
        ("http", "https://a.example", "A_VARIABLE_THAT_IS_NOT_SET"),
        ("pigeon", "https://a.example", None),
        ("http", "not a url", None),
    ],
)
def test_a_vendor_that_is_not_set_up_correctly_is_unreachable(
    kind: str, url: str, secret_env: str | None
) -> None:
    with pytest.raises(errors.PaymentVendorUnreachableError, match="operator"):
        get_vendor("wrong", kind, url, secret_env, 1)


@pytest.mark.parametrize("value", ["", "two words", "line\n", "é"])
def test_a_secret_that_cannot_be_sent_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(SettingsError, match="A_SECRET") as caught:
        read_secret("A_SECRET", {"A_SECRET": value})
    assert not value or value not in str(caught.value)


def test_a_secret_can_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of-the-vendor\n")
    assert read_secret("A_SECRET", {"A_SECRET_FILE": str(tmp_path / "secret")}) == "of-the-vendor"


@pytest.mark.parametrize("status", [200, 302, 401, 404, 500])
@pytest.mark.parametrize("kind", ["http", "stripe"])
def test_the_secret_is_sent_and_is_in_no_log_error_or_repr(
    start_server: Callable[..., Any],
    limits: CallLimits,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    status: int,
) -> None:
    def echo(connection: socket.socket, head: bytes) -> None:
        echoed = b'{"authorization": "%b"}' % SECRET.encode()
        connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(echoed), echoed))

    server = start_server(echo)
    vendor = make_vendor(kind, server.url, SECRET, limits=limits)
    with caplog.at_level(logging.DEBUG), pytest.raises(errors.ServiceError) as caught:
        vendor("pm_1", "CARD")
    assert f"Authorization: Bearer {SECRET}".encode() in server.heads[0]
    assert (b"\r\nStripe-Version: 2023-10-16\r\n" in server.heads[0]) is (kind == "stripe")
    seen = [caplog.text, repr(vendor), caught.value.detail, *traceback.format_exception(caught.value)]
    assert SECRET not in "".join(seen)


def test_the_breaker_opens_only_after_failures_in_a_row() -> None:
    breaker = CircuitBreaker(failures_to_open=3, open_seconds=10, clock=lambda: 0.0)
    for _ in range(5):
        breaker.record_failure()
        breaker.record_failure()
        breaker.record_success()
    assert breaker.allows_call()
    for _ in range(3):
        breaker.record_failure()
    assert not breaker.allows_call()


@pytest.mark.parametrize(
    ("outcome", "allowed"),
    [
        ("success", [(10.0, True), (10.0, True), (10.0, True)]),
        ("failure", [(22.9, False), (23.0, True), (23.0, False)]),
        # A trial without an outcome does not keep it open forever.
        (None, [(10.0, False), (19.9, False), (20.0, True)]),
    ],
)
def test_after_the_pause_one_call_is_allowed_and_its_outcome_decides(
    outcome: str | None, allowed: list[tuple[float, bool]]
) -> None:
    now = [0.0]
    breaker = CircuitBreaker(failures_to_open=1, open_seconds=10, clock=lambda: now[0])
    breaker.record_failure()
    now[0] = 9.9
    assert not breaker.allows_call()
    now[0] = 10.0
    assert breaker.allows_call()
    if outcome == "success":
        breaker.record_success()
    elif outcome:
        now[0] = 13.0
        breaker.record_failure()
    for moment, is_allowed in allowed:
        now[0] = moment
        assert breaker.allows_call() is is_allowed
