"""Rules for the account as a whole, its billing address and its customers."""

import re
import unicodedata
from collections.abc import Iterator
from datetime import date

from migration_payloads.rules.account import CheckedAccount, Item
from migration_payloads.rules.dates import FIRST_DAY
from migration_payloads.rules.rule import Fault, Severity, find_repeated_in, rule
from migration_payloads.schemas.identifiers import without_hidden
from migration_payloads.schemas.messages import shown

# An address is personal data: a detail does not repeat it.
_NOT_A_POSTCODE = "This is not a Dutch postcode: write four digits and two letters, as 1234 AB."
# SA, SD and SS are never used. ASCII, because IGNORECASE would otherwise accept the long s for an s.
_DUTCH_POSTCODE = re.compile(r"[1-9][0-9]{3} ?(?!S[ADS])[A-Z]{2}", re.ASCII | re.IGNORECASE)


def is_dutch_postcode(text: str) -> bool:
    """Return whether `text` is 1000 to 9999, an optional space, and two letters other than SA, SD or SS."""
    return _DUTCH_POSTCODE.fullmatch(text) is not None


def may_be_foreign(text: str) -> bool:
    """Return whether `text` may be the postcode of another country: letters and at least one digit, 3 to 10.

    Four digits and two letters are Dutch, whatever they are.
    """
    plain = re.sub(r"[ \-]", "", text).upper()
    return (
        3 <= len(plain) <= 10
        and plain.isascii()
        and plain.isalnum()
        and any(map(str.isdigit, plain))
        and re.fullmatch(r"(?:NL)?[0-9]{4}[A-Z]{2}", plain) is None
    )


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


_TEST_DOMAINS = ("example.com", "example.net", "example.org")
_TEST_SUBDOMAINS = tuple(f".{domain}" for domain in _TEST_DOMAINS)
#: Texts that source systems write in place of a name, in the languages that occur.
_OCCUPIER_NAMES = frozenset(
    {
        "occupier",
        "the occupier",
        "unknown occupier",
        "current occupier",
        "occupant",
        "the occupant",
        "resident",
        "the resident",
        "bewoner",
        "de bewoner",
        "bewoners",
        "de bewoners",
        "de huidige bewoner",
        "huidige bewoner",
        "onbekende bewoner",
        "bewoner onbekend",
        "aan de bewoner",
        "aan de bewoners van dit pand",
    }
)


def comparable_text(text: str) -> str:
    """Return the text so that texts which look the same are equal, whatever their case and spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", without_hidden(text))
    return " ".join(text.casefold().split())


def _full_name(customer: Item) -> str:
    return comparable_text(f"{customer.get('given_name', '')} {customer.get('family_name', '')}")


@rule(Severity.ERROR, remedy="Send the customer's family_name; the name of a company goes there, too.")
def customer_family_name_required(account: CheckedAccount) -> Iterator[Fault]:
    """A customer has no family name."""
    for i, customer in enumerate(account.customers):
        if not customer.get("family_name", "").strip():
            yield ("customers", i, "family_name"), "The customer has no family name: send one."


@rule(
    Severity.WARNING,
    remedy="Send the customer's real name. If nobody is known, set unknown_occupier and send no customer.",
)
def customer_may_not_be_named_the_occupier(account: CheckedAccount) -> Iterator[Fault]:
    """A customer is named "the occupier" or similar. The flag unknown_occupier says that, not a name."""
    for i, customer in enumerate(account.customers):
        family_name = customer.get("family_name", "")
        if comparable_text(family_name) in _OCCUPIER_NAMES or _full_name(customer) in _OCCUPIER_NAMES:
            yield (
                ("customers", i, "family_name"),
                "This is not a person's name: if nobody is known, set unknown_occupier to true and leave the "
                "customer out.",
            )


@rule(Severity.ERROR, remedy="Correct the date of birth, or leave it out if it is not known.")
def date_of_birth_in_future(account: CheckedAccount) -> Iterator[Fault]:
    """A date of birth is after today."""
    for i, customer in enumerate(account.customers):
        born = customer.get("date_of_birth")
        if born and born > account.today:
            yield (
                ("customers", i, "date_of_birth"),
                f"The date of birth is after today, {account.today}: correct it or leave it out.",
            )


@rule(
    Severity.WARNING, remedy="Correct the date of birth, or leave it out if it is a placeholder or not known."
)
def date_of_birth_implausible(account: CheckedAccount) -> Iterator[Fault]:
    """A date of birth is 1900-01-01 or before, so it is probably a placeholder or in the wrong century."""
    for i, customer in enumerate(account.customers):
        born = customer.get("date_of_birth")
        if born and born < FIRST_DAY:
            yield (
                ("customers", i, "date_of_birth"),
                "The date of birth is the first day of 1900 or before: correct the century, or leave it out.",
            )


@rule(
    Severity.WARNING,
    remedy="Send the customer's own address, or leave it out: mail to this one reaches nobody.",
)
def possible_test_email_address(account: CheckedAccount) -> Iterator[Fault]:
    """An e-mail address looks made up: test@, xxx@, or at example.com, example.net or example.org."""
    for i, customer in enumerate(account.customers):
        email = customer.get("email")
        if email and is_test_address(email):
            yield (
                ("customers", i, "email"),
                "The address looks made up for a test: send the customer's own, or leave it out.",
            )


def is_test_address(email: str) -> bool:
    """Return whether the name or the domain of an e-mail address is nobody's."""
    name, _, domain = email.casefold().rpartition("@")
    return (
        name == "test"
        or (len(name) >= 3 and set(name) == {"x"})
        or domain in _TEST_DOMAINS
        or domain.endswith(_TEST_SUBDOMAINS)
    )


@rule(Severity.WARNING, remedy="Send one value for each namespace of a customer.")
def repeated_user_detail(account: CheckedAccount) -> Iterator[Fault]:
    """A customer has more than one user detail in the same namespace."""
    for i, customer in enumerate(account.customers):
        for j, namespace, first in find_repeated_in(customer.get("user_details", ()), "namespace"):
            yield (
                ("customers", i, "user_details", j, "namespace"),
                f"The namespace {shown(namespace)} is already used in user_details.{first}: "
                "send one value for each.",
            )


@rule(Severity.WARNING, remedy="Send each person once; add what tells them apart if they are two persons.")
def duplicate_customers_found(account: CheckedAccount) -> Iterator[Fault]:
    """Two customers are equal in name, e-mail address and date of birth."""
    if len(account.customers) < 2:
        return
    first: dict[tuple[str, str, date | None], int] = {}
    for i, customer in enumerate(account.customers):
        name = _full_name(customer)
        key = (name, comparable_text(customer.get("email", "")), customer.get("date_of_birth"))
        if not name or first.setdefault(key, i) == i:
            continue
        if not account.is_touched("customers", i) and not account.is_touched("customers", first[key]):
            yield (
                ("customers", i),
                f"The name, e-mail address and date of birth are those of customers.{first[key]}: "
                "send each person once.",
            )
