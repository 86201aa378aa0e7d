"""Makes one account of a sample book from its index alone (section 2.3)."""

import unicodedata
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from faker.providers.person.nl_NL import Provider as Names

from migration_service_local.samples.charges import make_periods
from migration_service_local.samples.codes import METER_POINTS_AN_ACCOUNT, make_ean
from migration_service_local.samples.connections import Connection, make_electricity, make_gas
from migration_service_local.samples.dates import Calendar, Supply
from migration_service_local.samples.ledgers import LedgerBook, Settlement
from migration_service_local.samples.meter_points import make_meter_point
from migration_service_local.samples.places import EAN_PREFIXES, TOWNS, Address, Town, make_address


class Book(NamedTuple):
    """The values that all accounts of a sample book share."""

    supplier: str
    seed: int
    calendar: Calendar


def make_account(book: Book, index: int) -> dict[str, Any]:
    """Return the payload of account number `index` (from 0) of the book, ready for JSON."""
    # Each account has its own generator, so that any range of a book can be generated alone.
    r = Random((book.seed << 64) | index).random
    number = f"{book.seed}{index:08d}"
    town = TOWNS[int(r() * len(TOWNS))]
    supply, settlement = _make_history(r, book.calendar, number)
    business = r() < 0.06
    unknown_occupier = not business and r() < 0.03
    addresses = _make_supply_addresses(r, book, index, town, supply, business=business)
    billing = addresses[0][0] if r() < 0.93 else make_address(r, TOWNS[int(r() * len(TOWNS))])
    account: dict[str, Any] = {
        "external_account_number": number,
        "import_supplier": book.supplier,
        "unknown_occupier": "true" if unknown_occupier else "false",
        "billing_address1": billing.line1,
        "billing_address2": billing.line2,
        "billing_address3": billing.line3,
        "billing_address4": billing.line4,
        "billing_postcode": billing.postcode,
    }
    if not unknown_occupier:
        account["customers"] = make_customers(r, town, book.calendar.year, number)
    account["supply_addresses"] = [payload for _, payload, _ in addresses]
    connections = [connection for _, _, own in addresses for connection in own]
    account["ledgers"], account["statements"] = _make_ledgers(
        r, book.calendar, number, connections, settlement
    )
    return account


def _make_history(r: Callable[[], float], calendar: Calendar, number: str) -> tuple[Supply, Settlement]:
    """Return 1 to 36 months of history, billed monthly, quarterly or yearly."""
    share = r()
    cadence = 1 if share < 0.25 else 3 if share < 0.33 else 12
    months = _draw_months(r, cadence)
    last = len(calendar.months) - 2 - (int(r() * r() * r() * 11) if cadence == 12 else int(r() * cadence))
    first = last - months + 1
    start = history_start = calendar.months[first].first
    if r() < 0.5:
        start -= int(r() * 8 * 365)
    periods = make_periods(calendar, first, last, cadence)
    supply = Supply(calendar, number, start, history_start, periods[-1].last)
    return supply, Settlement(periods, [month.first for month in calendar.months[last + 1 :]])


def _draw_months(r: Callable[[], float], cadence: int) -> int:
    """Return the number of months of history. Most customers are recent, but some have up to 36 months."""
    share = r()
    if cadence == 1:
        if share < 0.91:
            return 1 + int(r() * 3)
        return 4 + int(r() * 8) if share < 0.98 else 12 + int(r() * 25)
    if share < 0.68:
        return 1 + int(r() * 5)
    return 7 + int(r() * 6) if share < 0.95 else 12 + int(r() * 25)


def _make_supply_addresses(
    r: Callable[[], float], book: Book, index: int, town: Town, supply: Supply, *, business: bool
) -> list[tuple[Address, dict[str, Any], list[Connection]]]:
    """Return one to three supply addresses, each with its address, its payload and its connections."""
    share = r()
    count = 1 if share < 0.96 else 2 if share < 0.995 else 3
    serial = index * METER_POINTS_AN_ACCOUNT
    iso = book.calendar.iso
    result: list[tuple[Address, dict[str, Any], list[Connection]]] = []
    for _ in range(count):
        address = make_address(r, town)
        while any(address[:2] == other[:2] for other, _, _ in result):
            address = make_address(r, town)
        connections = _make_connections(r, book, serial + 2 * len(result), town, business=business)
        since = supply.start if r() < 0.7 else supply.start - int(r() * 1_000)
        payload = {
            "supply_address1": address.line1,
            "supply_address2": address.line2,
            "supply_address3": address.line3,
            "supply_address4": address.line4,
            "supply_postcode": address.postcode,
            "customer_at_supply_address_from_date": iso[since],
            "meter_points": [
                make_meter_point(r, connection, supply, town.grid_operator_code) for connection in connections
            ],
        }
        result.append((address, payload, connections))
    return result


def _make_connections(
    r: Callable[[], float], book: Book, serial: int, town: Town, *, business: bool
) -> list[Connection]:
    """Return electricity and, for most homes, gas. In an old connection both have the same EAN."""
    prefix = EAN_PREFIXES[town.grid_operator_code]
    ean = make_ean(prefix, book.seed, serial)
    connections = [make_electricity(r, ean, business=business, solar=r() < 0.2)]
    if r() < 0.6:
        if r() > 0.03:
            ean = make_ean(prefix, book.seed, serial + 1)
        connections.append(make_gas(r, ean, business=business))
    return connections


def _make_ledgers(
    r: Callable[[], float],
    calendar: Calendar,
    number: str,
    connections: list[Connection],
    settlement: Settlement,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return one ledger for everything, or sometimes one per EAN, and all statements."""
    groups = [connections]
    if r() < 0.1:
        by_ean: dict[str, list[Connection]] = {}
        for connection in connections:
            by_ean.setdefault(connection.ean, []).append(connection)
        groups = list(by_ean.values())
    itemised = r() < 0.15
    ledgers: list[dict[str, Any]] = []
    statements: list[dict[str, Any]] = []
    for position, group in enumerate(groups, start=1):
        book = LedgerBook(
            r,
            calendar,
            group,
            number=number,
            code="ENERGY_LEDGER" if position == 1 else f"ENERGY_LEDGER_{position}",
            position=position,
            itemised=itemised,
        )
        ledgers.append(book.write(settlement))
        statements += book.statements
    return ledgers, statements


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
    for position in range(1, count + 1):
        if position > 1:
            # With these steps no name occurs twice in an account.
            given = (given + 1 + int(r() * 12)) % len(_GIVEN)
            if r() < 0.4:
                family = int(r() * len(_FAMILY))
        (given_name, given_letters), (family_name, family_letters) = _GIVEN[given], _FAMILY[family]
        mobile = "" if r() < 0.05 else _mobile(r) if r() < 0.95 else _landline(r, town)
        mailbox = f"{given_letters}.{family_letters}{int(r() * 1000)}"
        customer: dict[str, Any] = {
            "given_name": given_name,
            "family_name": family_name,
            "email": f"{mailbox}@{_MAIL_DOMAINS[int(r() * len(_MAIL_DOMAINS))]}",
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
            value = f"{number}-{position}"
            details = [{"namespace": _NAMESPACES[int(r() * 2)], "value": value}]
            if r() < 0.15:
                details.append({"namespace": _NAMESPACES[2 + int(r() * 2)], "value": value})
            customer["user_details"] = details
        customers.append(customer)
    return customers
