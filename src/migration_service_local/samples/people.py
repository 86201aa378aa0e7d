"""Customers: names, e-mail addresses, telephone numbers, dates of birth (section 2.3)."""

import unicodedata
from collections.abc import Callable
from typing import Any

from faker.providers.person.nl_NL import Provider as Names

from migration_service_local.samples.places import Town

_MAIL_DOMAINS = (
    "post.example",
    "mail.example",
    "thuis.example",
    "kabel.example",
    "studie.example",
    "werk.example",
)
_NAMESPACES = ("crm", "loyalty", "legacy-portal", "billing")


def _letters(name: str) -> str:
    """Return `name` in plain lower-case letters, for an e-mail address."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return "".join(character for character in plain.lower() if character.isalpha())


_GIVEN = tuple((name, _letters(name)) for name in Names.first_names)
_FAMILY = tuple((name, _letters(name)) for name in Names.last_names)
# Without 29 February, which most years do not have.
_MONTH_DAYS = tuple(
    f"{month:02d}-{day:02d}"
    for month, days in enumerate((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), start=1)
    for day in range(1, days + 1)
)


def _mobile(r: Callable[[], float]) -> str:
    kind = r()
    number = int(r() * 10_000_000)
    digit = 1 + int(r() * 5)
    if kind < 0.55:
        return f"06{digit}{number:07d}"
    if kind < 0.75:
        return f"+316{digit}{number:07d}"
    if kind < 0.92:
        return f"06-{digit}{number:07d}"
    return _foreign(kind, number)


def _foreign(kind: float, number: int) -> str:
    """Return a mobile number of Belgium, Germany, France or Poland."""
    if kind < 0.95:
        return f"+3247{number:07d}"
    if kind < 0.98:
        return f"+49 151 2{number:07d}"
    if kind < 0.99:
        return f"+33 6 1{number:07d}"
    return f"+48 60{number:07d}"


def _landline(r: Callable[[], float], town: Town) -> str:
    area = town.telephone_area
    digits = 9 - len(area)
    number = int((2 + r() * 6) * 10 ** (digits - 1))
    return f"0{area}-{number}" if r() < 0.5 else f"+31{area}{number}"


def make_customers(r: Callable[[], float], town: Town, year: int, number: str) -> list[dict[str, Any]]:
    """Return one to three customers. `year` is the current one, and `number` the external account number."""
    share = r()
    count = 1 if share < 0.68 else 2 if share < 0.96 else 3
    given = int(r() * len(_GIVEN))
    family = int(r() * len(_FAMILY))
    customers = []
    for position in range(count):
        if position:
            # With these steps no name occurs twice in an account.
            given = (given + 1 + int(r() * 12)) % len(_GIVEN)
            if r() < 0.4:
                family = int(r() * len(_FAMILY))
        customers.append(
            _make_customer(
                r,
                town,
                year=year,
                reference=f"{number}-{position + 1}",
                given=_GIVEN[given],
                family=_FAMILY[family],
            )
        )
    return customers


def _make_customer(
    r: Callable[[], float],
    town: Town,
    *,
    year: int,
    reference: str,
    given: tuple[str, str],
    family: tuple[str, str],
) -> dict[str, Any]:
    mobile = "" if r() < 0.05 else _mobile(r) if r() < 0.95 else _landline(r, town)
    customer: dict[str, Any] = {
        "given_name": given[0],
        "family_name": family[0],
        "email": f"{given[1]}.{family[1]}{int(r() * 1000)}@{_MAIL_DOMAINS[int(r() * len(_MAIL_DOMAINS))]}",
        "mobile": mobile,
        "landline": _landline(r, town) if r() < 0.3 else "",
        "date_of_birth": f"{year - 20 - int(r() * 68)}-{_MONTH_DAYS[int(r() * 365)]}",
        "customer_preferences": {
            "opted_into_updates": r() < 0.8,
            "opted_into_offers": r() < 0.3,
            "opted_into_sms": r() < 0.2,
        },
    }
    if r() < 0.6:
        customer["user_details"] = [{"namespace": _NAMESPACES[int(r() * 2)], "value": reference}]
        if r() < 0.15:
            customer["user_details"].append({"namespace": _NAMESPACES[2 + int(r() * 2)], "value": reference})
    return customer
