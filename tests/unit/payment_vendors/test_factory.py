"""A vendor as an operator has set it up, and its secret, which is not shown anywhere."""

import logging
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migration_service.config import SettingsError, read_secret
from migration_service.errors import PaymentVendorUnreachableError, ServiceError
from migration_service.payment_vendors.connection import CallLimits
from migration_service.payment_vendors.factory import get_vendor, make_vendor
from support.vendor_servers import SANDBOX_VARIABLE

SECRET = "s3cret-of-the-vendor"


def test_the_secret_comes_from_the_named_variable(sandbox_url: str) -> None:
    vendor = get_vendor("sandbox", "http", sandbox_url, SANDBOX_VARIABLE, 1)
    assert vendor.retrieve_instruction(reference="card-ok-1", type="CARD").status == "ACTIVE"


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
    with pytest.raises(PaymentVendorUnreachableError, match="operator"):
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
    with caplog.at_level(logging.DEBUG), pytest.raises(ServiceError) as caught:
        vendor.retrieve_instruction(reference="pm_1", type="CARD")
    assert f"Authorization: Bearer {SECRET}".encode() in server.heads[0]
    seen = [caplog.text, repr(vendor), caught.value.detail, *traceback.format_exception(caught.value)]
    assert SECRET not in "".join(seen)
