"""No reference changes the called address, and no URL is accepted that could reveal a secret."""

import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from migration_service.errors import PaymentInstructionRejectedError, PaymentVendorUnreachableError
from migration_service.payment_vendors.addresses import check_vendor_url
from migration_service.payment_vendors.connection import CallLimits
from migration_service.payment_vendors.factory import make_vendor
from migration_service.payment_vendors.protocol import VendorClient


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
    with pytest.raises((PaymentInstructionRejectedError, PaymentVendorUnreachableError)):
        vendor.retrieve_instruction(reference=reference, type=instruction_type)
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
    with pytest.raises(PaymentInstructionRejectedError) as caught:
        vendor.retrieve_instruction(reference=reference, type="CARD")
    assert caught.value.errors[0].attr == "reference"
    assert heads == []


@pytest.mark.parametrize(
    ("url", "with_secret"),
    [
        ("", False),
        ("vendor.example", False),
        ("ftp://vendor.example", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("https://user:password@vendor.example", False),
        ("https://vendor.example/?a=b", False),
        ("https://vendor.example/#a", False),
        ("https://vendor.example/a b", False),
        ("https://vendor.example:port", False),
        ("https://[::1", False),
        ("http://vendor.example", True),
    ],
)
def test_an_unsafe_url_of_a_vendor_is_refused(url: str, with_secret: bool) -> None:
    with pytest.raises(ValueError, match="payment vendor"):
        check_vendor_url(url, with_secret=with_secret)


@pytest.mark.parametrize(
    ("url", "with_secret"),
    [
        ("https://vendor.example", True),
        ("https://vendor.example:8443/gateway/", True),
        ("http://127.0.0.1:8090", True),
        ("http://localhost:8090", True),
        ("http://[::1]:8090", True),
        ("http://gateway.internal", False),
    ],
)
def test_other_urls_are_accepted(url: str, with_secret: bool) -> None:
    check_vendor_url(url, with_secret=with_secret)
