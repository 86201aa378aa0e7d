"""The details of a vendor's answer that the http adapter stores, and those that it never does."""

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from migration_service.errors import PaymentInstructionRejectedError, PaymentVendorUnreachableError
from migration_service.payment_vendors.connection import CallLimits
from migration_service.payment_vendors.factory import make_vendor
from migration_service.payment_vendors.protocol import PaymentInstructionDetails

SOUND = {"reference": "r-1", "type": "CARD", "status": "ACTIVE"}


@pytest.fixture
def retrieve(
    start_server: Callable[..., Any], limits: CallLimits
) -> Callable[[object], PaymentInstructionDetails]:
    """Retrieve r-1 as a CARD from a vendor with this answer."""

    def ask(answer: object) -> PaymentInstructionDetails:
        content = json.dumps(answer).encode()

        def script(connection: socket.socket, head: bytes) -> None:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content))

        vendor = make_vendor("http", start_server(script).url, limits=limits)
        return vendor.retrieve_instruction(reference="r-1", type="CARD")

    return ask


def test_only_known_details_are_stored(retrieve: Callable[[object], PaymentInstructionDetails]) -> None:
    details = {"brand": "visa", "expiry_month": 7, "token": "t0p", "cvc": "123", "holder": ["no", "text"]}
    assert retrieve(SOUND | {"details": details}).details == {"brand": "visa", "expiry_month": 7}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("4242424242424242", "********4242"),
        ("Card 4242 4242 4242 4242 of Jan", "Card ********4242 of Jan"),
        ("4242-4242-4242-4242", "********4242"),
        ("NL91ABNA0417164300", "NL91ABNA0417164300"),
        ("ends in 4242", "ends in 4242"),
        ("two\nlines", "twolines"),
        ("é" * 300, "é" * 255),
    ],
)
def test_a_full_card_number_in_a_detail_is_masked(
    retrieve: Callable[[object], PaymentInstructionDetails], sent: str, kept: str
) -> None:
    assert retrieve(SOUND | {"details": {"description": sent}}).details == {"description": kept}


@pytest.mark.parametrize("details", [None, "text", []])
def test_details_are_optional(
    retrieve: Callable[[object], PaymentInstructionDetails], details: object
) -> None:
    assert retrieve(SOUND | {"details": details}).details == {}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reference": "r-2"}, PaymentVendorUnreachableError),
        ({"reference": None}, PaymentVendorUnreachableError),
        ({"status": None}, PaymentVendorUnreachableError),
        ({"status": "active!"}, PaymentVendorUnreachableError),
        ({"status": {}}, PaymentVendorUnreachableError),
        ({"status": "CANCELLED"}, PaymentInstructionRejectedError),
        ({"type": "SEPA_DEBIT"}, PaymentInstructionRejectedError),
        ({"type": None}, PaymentInstructionRejectedError),
    ],
)
def test_an_answer_that_does_not_confirm_is_an_error(
    retrieve: Callable[[object], PaymentInstructionDetails],
    changes: dict[str, object],
    expected: type[Exception],
) -> None:
    with pytest.raises(expected):
        retrieve(SOUND | changes)
