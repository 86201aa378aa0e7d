"""The adapters: the http one against the sandbox, the Stripe one against localstripe, and their details."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from migration_service import errors
from migration_service.payment_vendors.connection import CallLimits
from migration_service.payment_vendors.factory import make_vendor
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, VendorClient
from migration_service_local.sandbox import BEHAVIOURS
from support.vendor_servers import SANDBOX_SECRET


@pytest.fixture
def sandbox(sandbox_url: str, limits: CallLimits) -> VendorClient:
    return make_vendor("http", sandbox_url, SANDBOX_SECRET, limits=limits)


def test_a_valid_instruction_is_retrieved_with_its_details(sandbox: VendorClient) -> None:
    instruction = sandbox("card-ok-1", "CARD")
    assert instruction.details["last_four_digits"] == "4242"


def test_the_url_may_end_in_a_slash(sandbox_url: str, limits: CallLimits) -> None:
    vendor = make_vendor("http", sandbox_url + "/", SANDBOX_SECRET, limits=limits)
    assert vendor("sepa-ok-1", "SEPA_DEBIT").details


def test_a_body_that_is_sent_slowly_exceeds_the_time_limit(
    sandbox_url: str, impatient_limits: CallLimits
) -> None:
    vendor = make_vendor("http", sandbox_url, SANDBOX_SECRET, limits=impatient_limits)
    with pytest.raises(errors.PaymentVendorUnavailableError, match="in time"):
        vendor("card-drip-1", "CARD")


@pytest.mark.parametrize("secret", ["another-secret", None])
def test_refused_credentials_are_a_permanent_error(
    sandbox_url: str, limits: CallLimits, secret: str | None
) -> None:
    vendor = make_vendor("http", sandbox_url, secret, limits=limits)
    with pytest.raises(errors.PaymentVendorUnreachableError, match="credentials"):
        vendor("card-ok-1", "CARD")


@pytest.mark.parametrize("behaviour", sorted(BEHAVIOURS))
def test_every_behaviour_of_the_sandbox_is_documented(behaviour: str) -> None:
    assert (
        f"`card-{behaviour}-1`"
        in Path(__file__).parents[3].joinpath("docs/operators/payment-vendors.md").read_text()
    )


API_KEY = "sk_test_12345"


def post(url: str, path: str, data: dict[str, str]) -> str:
    answer = requests.post(f"{url}/v1/{path}", data, auth=(API_KEY, ""), timeout=10)
    assert answer.status_code == 200, answer.text
    created: str = answer.json()["id"]
    return created


@pytest.fixture
def stripe(localstripe_url: str, limits: CallLimits) -> VendorClient:
    return make_vendor("stripe", localstripe_url, API_KEY, limits=limits)


@pytest.fixture
def card(localstripe_url: str) -> str:
    expiry = {"card[exp_month]": "12", "card[exp_year]": "2030", "card[cvc]": "123"}
    method = {"type": "card", "card[number]": "4242424242424242", **expiry}
    return post(localstripe_url, "payment_methods", method)


@pytest.fixture
def sepa_debit(localstripe_url: str) -> str:
    method = {"type": "sepa_debit", "sepa_debit[iban]": "NL91ABNA0417164300"}
    return post(localstripe_url, "payment_methods", method | {"billing_details[email]": "jan@example.nl"})


def test_a_card_is_retrieved_with_its_last_digits_and_never_its_number(
    stripe: VendorClient, card: str
) -> None:
    instruction = stripe(card, "CARD")
    assert instruction.details == {
        "attached_to_customer": False,
        "brand": "visa",
        "last_four_digits": "4242",
        "expiry_month": 12,
        "expiry_year": 2030,
        "country": "FR",
    }


def test_a_card_names_the_customer_that_it_is_attached_to_and_the_account_of_its_metadata(
    stripe: VendorClient, localstripe_url: str, card: str
) -> None:
    customer = post(localstripe_url, "customers", {"email": "jan@example.nl"})
    post(localstripe_url, f"payment_methods/{card}/attach", {"customer": customer})
    post(localstripe_url, f"payment_methods/{card}", {"metadata[account_reference]": "A-1"})
    found = stripe(card, "CARD")
    assert (found.customer_reference, found.account_reference) == (customer, "A-1")
    assert found.details["attached_to_customer"] is True


@pytest.mark.parametrize("instruction_type", ["SEPA_DEBIT", "DIRECT_DEBIT"])
def test_a_sepa_direct_debit_is_retrieved(
    stripe: VendorClient, sepa_debit: str, instruction_type: str
) -> None:
    instruction = stripe(sepa_debit, instruction_type)
    assert instruction.details["last_four_digits"] == "4300"


def test_a_payment_method_of_another_type_is_rejected(
    stripe: VendorClient, card: str, sepa_debit: str
) -> None:
    with pytest.raises(errors.PaymentInstructionRejectedError, match="type card"):
        stripe(card, "SEPA_DEBIT")
    with pytest.raises(errors.PaymentInstructionRejectedError, match="type sepa_debit"):
        stripe(sepa_debit, "CARD")


@pytest.mark.parametrize(
    "reference", ["pm_unknown", "cus_1", "pm_1/attach", "pm_1?expand[]=customer", "pm_é"]
)
def test_a_reference_that_is_not_a_known_payment_method_is_rejected(
    stripe: VendorClient, reference: str
) -> None:
    with pytest.raises(errors.PaymentInstructionRejectedError):
        stripe(reference, "CARD")


def test_a_key_that_stripe_refuses_is_a_permanent_error(
    localstripe_url: str, limits: CallLimits, card: str
) -> None:
    vendor = make_vendor("stripe", localstripe_url, "not-a-key", limits=limits)
    with pytest.raises(errors.PaymentVendorUnreachableError, match="credentials"):
        vendor(card, "CARD")


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
        return vendor("r-1", "CARD")

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
        ({"reference": "r-2"}, errors.PaymentVendorUnreachableError),
        ({"reference": None}, errors.PaymentVendorUnreachableError),
        ({"status": None}, errors.PaymentVendorUnreachableError),
        ({"status": "active!"}, errors.PaymentVendorUnreachableError),
        ({"status": {}}, errors.PaymentVendorUnreachableError),
        ({"status": "CANCELLED"}, errors.PaymentInstructionRejectedError),
        ({"type": "SEPA_DEBIT"}, errors.PaymentInstructionRejectedError),
        ({"type": None}, errors.PaymentInstructionRejectedError),
    ],
)
def test_an_answer_that_does_not_confirm_is_an_error(
    retrieve: Callable[[object], PaymentInstructionDetails],
    changes: dict[str, object],
    expected: type[Exception],
) -> None:
    with pytest.raises(expected):
        retrieve(SOUND | changes)
