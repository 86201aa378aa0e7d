"""The http adapter against the sandbox vendor, which runs as its own process."""

from pathlib import Path

import pytest

from migration_service.errors import (
    PaymentVendorUnavailableError,
    PaymentVendorUnreachableError,
)
from migration_service.payment_vendors.connection import CallLimits
from migration_service.payment_vendors.factory import make_vendor
from migration_service.payment_vendors.protocol import VendorClient
from migration_service_local.sandbox import BEHAVIOURS
from support.vendor_servers import SANDBOX_SECRET


@pytest.fixture
def sandbox(sandbox_url: str, limits: CallLimits) -> VendorClient:
    return make_vendor("http", sandbox_url, SANDBOX_SECRET, limits=limits)


def test_a_valid_instruction_is_retrieved_with_its_details(sandbox: VendorClient) -> None:
    instruction = sandbox.retrieve_instruction(reference="card-ok-1", type="CARD")
    assert (instruction.reference, instruction.type, instruction.status) == ("card-ok-1", "CARD", "ACTIVE")
    assert instruction.details["last_four_digits"] == "4242"


def test_the_url_may_end_in_a_slash(sandbox_url: str, limits: CallLimits) -> None:
    vendor = make_vendor("http", sandbox_url + "/", SANDBOX_SECRET, limits=limits)
    assert vendor.retrieve_instruction(reference="sepa-ok-1", type="SEPA_DEBIT").type == "SEPA_DEBIT"


def test_a_body_that_is_sent_slowly_exceeds_the_time_limit(
    sandbox_url: str, impatient_limits: CallLimits
) -> None:
    vendor = make_vendor("http", sandbox_url, SANDBOX_SECRET, limits=impatient_limits)
    with pytest.raises(PaymentVendorUnavailableError, match="in time"):
        vendor.retrieve_instruction(reference="card-drip-1", type="CARD")


@pytest.mark.parametrize("secret", ["another-secret", None])
def test_refused_credentials_are_a_permanent_error(
    sandbox_url: str, limits: CallLimits, secret: str | None
) -> None:
    vendor = make_vendor("http", sandbox_url, secret, limits=limits)
    with pytest.raises(PaymentVendorUnreachableError, match="credentials"):
        vendor.retrieve_instruction(reference="card-ok-1", type="CARD")


@pytest.mark.parametrize("behaviour", sorted(BEHAVIOURS))
def test_every_behaviour_of_the_sandbox_is_documented(behaviour: str) -> None:
    assert (
        f"`card-{behaviour}-1`"
        in Path(__file__).parents[3].joinpath("docs/operators/payment-vendors.md").read_text()
    )
