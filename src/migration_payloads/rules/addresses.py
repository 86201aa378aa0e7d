"""Rules for supply addresses and meter points."""

from collections.abc import Iterator

from migration_payloads.rules.account import CheckedAccount, Path
from migration_payloads.rules.customers import comparable_text
from migration_payloads.rules.gs1 import check_digit, is_gs1_number, is_nothing, is_probably_rounded
from migration_payloads.rules.rule import Fault, Severity, find_future, rule
from migration_payloads.schemas.messages import shown

_ROUNDED = "It was probably rounded when a program read it as a number, and its last digits are lost"
_LINES = ("supply_address1", "supply_address2", "supply_address3", "supply_address4")


@rule(Severity.WARNING, remedy="Send each supply address once, with all of its meter points.")
def duplicate_supply_addresses_found(account: CheckedAccount) -> Iterator[Fault]:
    """Two supply addresses are equal in all lines and the postcode."""
    if len(account.supply_addresses) < 2:
        return
    first: dict[tuple[str, ...], int] = {}
    for i, address in enumerate(account.supply_addresses):
        key = (
            *(comparable_text(address.get(line, "")) for line in _LINES),
            address.get("supply_postcode", "").replace(" ", "").upper(),
        )
        if account.touched and any(
            account.is_faulty("supply_addresses", i, field) for field in (*_LINES, "supply_postcode")
        ):
            continue
        if any(key) and first.setdefault(key, i) != i:
            yield (
                ("supply_addresses", i),
                f"The address is the same as supply_addresses.{first[key]}: send it once, "
                "with all of its meter points.",
            )


@rule(Severity.WARNING, remedy="Send the meter points of the address, or leave the address out.")
def supply_address_with_no_meter_points(account: CheckedAccount) -> Iterator[Fault]:
    """A supply address has no meter point, so nothing is supplied there."""
    for i, address in enumerate(account.supply_addresses):
        if not address.get("meter_points"):
            yield (
                ("supply_addresses", i, "meter_points"),
                "The supply address has no meter point: send them, or leave the address out.",
            )


@rule(Severity.WARNING, remedy="Send the meter points of the account, each at its supply address.")
def meter_point_missing(account: CheckedAccount) -> Iterator[Fault]:
    """The account has no meter point at any address, so nothing is supplied under it."""
    if not account.meter_points and not account.is_touched("supply_addresses"):
        yield ("supply_addresses",), "The account has no meter point: send each at its supply address."


@rule(Severity.ERROR, remedy="Send each meter point once. Electricity and gas may share an EAN.")
def duplicate_meter_points_provided(account: CheckedAccount) -> Iterator[Fault]:
    """Two meter points have the same EAN and supply type."""
    if len(account.meter_points) < 2:
        return
    first: dict[tuple[str, str], Path] = {}
    for path, meter_point in account.meter_points:
        ean, supply_type = meter_point.get("ean"), meter_point.get("supply_type")
        if ean and supply_type and first.setdefault((ean, supply_type), path) is not path:
            twin = ".".join(map(str, first[ean, supply_type]))
            yield (*path, "ean"), f"{twin} is already {supply_type} with the EAN {ean}: send it once."


@rule(Severity.WARNING, remedy="Correct the EAN: 18 digits, of which the last is the GS1 check digit.")
def invalid_ean(account: CheckedAccount) -> Iterator[Fault]:
    """An EAN does not have 18 digits, has only zeros, or its last is not the check digit of the others."""
    for path, meter_point in account.meter_points:
        ean = meter_point.get("ean")
        if ean and not is_gs1_number(ean, 18):
            if is_nothing(ean):
                fault = "it has only zeros"
            elif len(ean) == 18:
                fault = f"the check digit of the others is {check_digit(ean[:-1])}, not {ean[-1]}"
            else:
                fault = f"it has {len(ean)} digits instead of 18"
            if is_probably_rounded(ean) and not is_nothing(ean):
                fault += f". {_ROUNDED}"
            yield (*path, "ean"), f"{shown(ean)} is no EAN of a meter point: {fault}."


@rule(
    Severity.NOTICE,
    remedy="Compare the EAN with your system. Export EANs as text: spreadsheets keep 15 digits of a number.",
)
def ean_probably_rounded(account: CheckedAccount) -> Iterator[Fault]:
    """An EAN ends with three zeros, as after rounding, although its check digit is right.

    One true EAN in a thousand ends so.
    """
    for path, meter_point in account.meter_points:
        ean = meter_point.get("ean")
        if ean and is_probably_rounded(ean) and is_gs1_number(ean, 18):
            yield (*path, "ean"), f"{shown(ean)} ends with three zeros. {_ROUNDED}."


@rule(Severity.WARNING, remedy="Send the agreement under which the meter point is supplied.")
def meter_point_with_no_agreement(account: CheckedAccount) -> Iterator[Fault]:
    """A meter point has no agreement."""
    for path, meter_point in account.meter_points:
        if not meter_point.get("agreements"):
            yield (
                (*path, "agreements"),
                "The meter point has no agreement: send the one it is supplied under.",
            )


@rule(Severity.WARNING, remedy="Send the meter of the meter point, with its registers.")
def meter_point_with_no_meters(account: CheckedAccount) -> Iterator[Fault]:
    """A meter point has no meter."""
    for path, meter_point in account.meter_points:
        if not meter_point.get("meters"):
            yield (*path, "meters"), "The meter point has no meter: send the one that is installed."


@rule(Severity.WARNING, remedy="Correct the date: a meter point is migrated when its supply has started.")
def future_supply_start_date(account: CheckedAccount) -> Iterator[Fault]:
    """The supply of a meter point starts after today."""
    return find_future(account, account.meter_points, "supply_start_date", "The supply starts on")


@rule(Severity.WARNING, remedy="Correct the date: only days that have passed can have been billed.")
def last_billed_to_date_in_future(account: CheckedAccount) -> Iterator[Fault]:
    """A meter point has a last_billed_to_date after today."""
    return find_future(account, account.meter_points, "last_billed_to_date", "The meter point is billed to")


@rule(Severity.WARNING, remedy="Correct one of the two dates.")
def last_billed_to_date_before_supply_start_date(account: CheckedAccount) -> Iterator[Fault]:
    """A meter point has a last_billed_to_date more than one day before its supply started.

    Some systems write the day before the start if nothing has been billed.
    """
    for path, meter_point in account.meter_points:
        billed, start = meter_point.get("last_billed_to_date"), meter_point.get("supply_start_date")
        if billed and start and (start - billed).days > 1:
            yield (
                (*path, "last_billed_to_date"),
                f"The meter point is billed to {billed}, but its supply started later, on {start}.",
            )
