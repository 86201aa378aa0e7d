"""Rules for the account as a whole: its customers and its billing address."""

from collections.abc import Iterator

from migration_payloads.rules.account import CheckedAccount
from migration_payloads.rules.postcodes import is_dutch_postcode, may_be_foreign
from migration_payloads.rules.rule import Fault, Severity, rule

# An address is personal data: a detail does not repeat it.
_NOT_A_POSTCODE = "This is not a Dutch postcode: write four digits and two letters, as 1234 AB."


@rule(
    Severity.WARNING,
    remedy="Correct the postcode: four digits, two letters, as 1234 AB. Leave it empty if it is not known.",
)
def invalid_postcode(account: CheckedAccount) -> Iterator[Fault]:
    """A postcode is not a Dutch one: 1000 to 9999, then two letters, which are not SA, SD or SS."""
    billing = account.data.get("billing_postcode")
    if billing and not is_dutch_postcode(billing) and not may_be_foreign(billing):
        yield ("billing_postcode",), _NOT_A_POSTCODE
    for i, address in enumerate(account.supply_addresses):
        postcode = address.get("supply_postcode")
        if postcode and not is_dutch_postcode(postcode):
            yield ("supply_addresses", i, "supply_postcode"), _NOT_A_POSTCODE


@rule(
    Severity.NOTICE,
    remedy="Correct the postcode if the address is in the Netherlands.",
    code="invalid_postcode",
)
def foreign_billing_postcode(account: CheckedAccount) -> Iterator[Fault]:
    """The postcode of a billing address is not a Dutch one, but may be one of another country."""
    billing = account.data.get("billing_postcode")
    if billing and not is_dutch_postcode(billing) and may_be_foreign(billing):
        yield (
            ("billing_postcode",),
            "This is not a Dutch postcode: if the address is in the Netherlands, write it as 1234 AB.",
        )


@rule(
    Severity.WARNING,
    remedy="Send billing_address1 and billing_postcode, or set unknown_occupier if nobody is known.",
)
def billing_address_not_provided(account: CheckedAccount) -> Iterator[Fault]:
    """The occupier is known, but the first line or the postcode of the billing address is missing."""
    if account.unknown_occupier or account.is_faulty("unknown_occupier"):
        return
    for field in ("billing_address1", "billing_postcode"):
        if not account.data.get(field, "").strip():
            yield (field,), f"{field} is empty: bills could not be delivered."


@rule(
    Severity.ERROR, remedy="Send at least one customer, or set unknown_occupier to true if nobody is known."
)
def customer_required(account: CheckedAccount) -> Iterator[Fault]:
    """The account has no customer, and unknown_occupier is not set."""
    if account.is_faulty("unknown_occupier"):
        return
    if not account.customers and not account.unknown_occupier:
        yield ("customers",), "The account has no customer: send one, or set unknown_occupier to true."


@rule(
    Severity.WARNING,
    remedy="Set unknown_occupier to false if the customers live there, or leave the customers out.",
)
def customer_with_unknown_occupier(account: CheckedAccount) -> Iterator[Fault]:
    """The account has customers although unknown_occupier is set."""
    if account.unknown_occupier and account.customers:
        yield (
            ("customers",),
            f"unknown_occupier is true, but the account has customers ({len(account.customers)}): "
            "set it to false, or leave the customers out.",
        )
