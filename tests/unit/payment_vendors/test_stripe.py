"""The Stripe adapter against localstripe, which runs as its own process."""

import pytest
import requests

from migration_service.errors import (
    PaymentInstructionRejectedError,
    PaymentVendorUnreachableError,
)
from migration_service.payment_vendors.connection import CallLimits
from migration_service.payment_vendors.factory import make_vendor
from migration_service.payment_vendors.protocol import VendorClient

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
    return post(
        localstripe_url,
        "payment_methods",
        {
            "type": "card",
            "card[number]": "4242424242424242",
            "card[exp_month]": "12",
            "card[exp_year]": "2030",
            "card[cvc]": "123",
        },
    )


@pytest.fixture
def sepa_debit(localstripe_url: str) -> str:
    return post(
        localstripe_url,
        "payment_methods",
        {
            "type": "sepa_debit",
            "sepa_debit[iban]": "NL91ABNA0417164300",
            "billing_details[email]": "jan@example.nl",
        },
    )


def test_a_card_is_retrieved_with_its_last_digits_and_never_its_number(
    stripe: VendorClient, card: str
) -> None:
    instruction = stripe.retrieve_instruction(reference=card, type="CARD")
    assert (instruction.reference, instruction.type, instruction.status) == (card, "CARD", "ACTIVE")
    assert instruction.details == {
        "attached_to_customer": False,
        "brand": "visa",
        "last_four_digits": "4242",
        "expiry_month": 12,
        "expiry_year": 2030,
        "country": "FR",
    }


def test_a_card_of_a_customer_is_recognised_as_attached(
    stripe: VendorClient, localstripe_url: str, card: str
) -> None:
    customer = post(localstripe_url, "customers", {"email": "jan@example.nl"})
    post(localstripe_url, f"payment_methods/{card}/attach", {"customer": customer})
    assert stripe.retrieve_instruction(reference=card, type="CARD").details["attached_to_customer"] is True


@pytest.mark.parametrize("instruction_type", ["SEPA_DEBIT", "DIRECT_DEBIT"])
def test_a_sepa_direct_debit_is_retrieved(
    stripe: VendorClient, sepa_debit: str, instruction_type: str
) -> None:
    instruction = stripe.retrieve_instruction(reference=sepa_debit, type=instruction_type)
    assert instruction.type == instruction_type
    assert instruction.details["last_four_digits"] == "4300"


def test_a_payment_method_of_another_type_is_rejected(
    stripe: VendorClient, card: str, sepa_debit: str
) -> None:
    with pytest.raises(PaymentInstructionRejectedError, match="type card"):
        stripe.retrieve_instruction(reference=card, type="SEPA_DEBIT")
    with pytest.raises(PaymentInstructionRejectedError, match="type sepa_debit"):
        stripe.retrieve_instruction(reference=sepa_debit, type="CARD")


@pytest.mark.parametrize(
    "reference", ["pm_unknown", "cus_1", "pm_1/attach", "pm_1?expand[]=customer", "pm_é"]
)
def test_a_reference_that_is_not_a_known_payment_method_is_rejected(
    stripe: VendorClient, reference: str
) -> None:
    with pytest.raises(PaymentInstructionRejectedError):
        stripe.retrieve_instruction(reference=reference, type="CARD")


def test_a_key_that_stripe_refuses_is_a_permanent_error(
    localstripe_url: str, limits: CallLimits, card: str
) -> None:
    vendor = make_vendor("stripe", localstripe_url, "not-a-key", limits=limits)
    with pytest.raises(PaymentVendorUnreachableError, match="credentials"):
        vendor.retrieve_instruction(reference=card, type="CARD")
