"""Corrections of findings about meter points, agreements and codes with check digits."""

import re
import unicodedata
from typing import Any

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps, day, get, objects
from migration_payloads.errors import Confidence
from migration_payloads.rules.account import Path
from migration_payloads.rules.agreements import UNITS_BY_SUPPLY_TYPE
from migration_payloads.rules.gs1 import check_digit, is_gs1_number, is_nothing, is_probably_rounded
from migration_payloads.schemas.fields import Ean
from migration_payloads.schemas.identifiers import without_hidden


def _with_check_digit(text: Any, length: int) -> tuple[str, Confidence] | None:
    """Return a number with its check digit, which is a guess if it was missing or wrong.

    It is none of a number that was rounded, whose last digits are lost, and of one that has only zeros.
    """
    digits = re.sub(r"[\s.\-]", "", text) if isinstance(text, str) else ""
    if not re.fullmatch(r"[0-9]+", digits):
        return None
    if is_gs1_number(digits, length):
        return digits, Confidence.CERTAIN
    if is_probably_rounded(digits) or is_nothing(digits):
        return None
    if len(digits) == length - 1:
        return digits + check_digit(digits), Confidence.GUESS
    if len(digits) == length:
        return digits[:-1] + check_digit(digits[:-1]), Confidence.GUESS
    return None


@corrects("invalid_ean", fields=(Ean,), longest=60)
def ean_of_digits(place: Place) -> Steps:
    """Take spaces, signs and the word EAN out of an EAN.

    A check digit that is missing is added. That is likely if the account names the EAN with it elsewhere, and
    a guess otherwise.
    """
    if Ean.FORM.fullmatch(place.value):
        return []
    text = unicodedata.normalize("NFKC", without_hidden(place.value))
    digits = re.sub(r"[\s.\-']", "", text).upper().removeprefix("EAN").lstrip(":")
    found = _with_check_digit(digits, 18)
    if found is None or (len(digits) == 18 and found[1] is Confidence.GUESS):
        return []
    sure = Confidence.LIKELY if found[1] is Confidence.GUESS and found[0] in _eans(place) else found[1]
    return [place.replace(found[0], sure)]


@corrects("invalid_ean")
def other_ean(place: Place) -> Steps:
    """Correct the check digit of an EAN, also where ledgers name it. That makes it another connection."""
    return _corrected_ean(place, 18)


@corrects("invalid_ean")
def ean_check_digit(place: Place) -> Steps:
    """Add the check digit to an EAN of 17 digits, also where ledgers name it.

    It is likely if the account names the EAN with it elsewhere: another digit may be missing.
    """
    return _corrected_ean(place, 17)


def _corrected_ean(place: Place, length: int) -> Steps:
    found = _with_check_digit(place.value, 18) if len(str(place.value)) == length else None
    if found is None or place.name != "ean":
        return []
    new, sure = found
    if length == 17 and new in _eans(place):
        sure = Confidence.LIKELY
    named: list[Path] = [
        ("ledgers", i, "identifiers", j)
        for i, ledger in enumerate(_ledgers(place))
        for j, identifier in enumerate(_identifiers(ledger))
        if identifier == place.value
    ]
    if named and any(new in _identifiers(ledger) for ledger in _ledgers(place)):
        return []
    return [place.replace(new, sure), *(place.replace(new, sure, path) for path in named)]


def _ledgers(place: Place) -> list[dict[str, Any]]:
    return objects(place.payload.get("ledgers"))


def _meter_points(place: Place) -> list[dict[str, Any]]:
    addresses = objects(place.payload.get("supply_addresses"))
    return [meter_point for address in addresses for meter_point in objects(address.get("meter_points"))]


def _eans(place: Place) -> list[Any]:
    """Return all EANs of the account, of its meter points and in its ledgers."""
    named = [it for ledger in _ledgers(place) for it in _identifiers(ledger)]
    return [*named, *(meter_point.get("ean") for meter_point in _meter_points(place))]


def _identifiers(ledger: dict[str, Any]) -> list[Any]:
    found = ledger.get("identifiers")
    return found if isinstance(found, list) else []


@corrects("invalid_grid_operator_code", "invalid_cap_tar_code")
def code_check_digit(place: Place) -> Steps:
    """Take spaces and signs out of a code of 13 digits, and add or correct its check digit as a guess."""
    found = _with_check_digit(place.value, 13)
    return [place.replace(*found)] if found else []


@corrects("unknown_ledger_identifiers")
def known_identifier(place: Place) -> Steps:
    """Name the EAN with its check digit, or leave out the EAN of a meter point that the account lacks."""
    found = _with_check_digit(place.value, 18)
    if found and any(found[0] == meter_point.get("ean") for meter_point in _meter_points(place)):
        named = [it for ledger in _ledgers(place) for it in _identifiers(ledger)]
        return [place.replace(found[0], Confidence.LIKELY)] if found[0] not in named else []
    return [place.remove(Confidence.GUESS)]


@corrects("duplicate_identifiers_entries_found")
def identifier_once(place: Place) -> Steps:
    """Name an EAN only where it is named first. It is a guess if two ledgers name it."""
    same = place.value in place.parent[: int(place.name)]
    return [place.remove(Confidence.CERTAIN if same else Confidence.GUESS)]


@corrects("supply_type_mismatch")
def supply_type(place: Place) -> Steps:
    """Give an agreement the supply type of its meter point."""
    return [place.replace(place.above(3)["supply_type"], Confidence.GUESS)]


@corrects("forecast_units_do_not_match_supply_type")
def forecast_units(place: Place) -> Steps:
    """Give a forecast the units of what the meter point supplies, if its number is in them."""
    units = UNITS_BY_SUPPLY_TYPE.get(place.above(4)["supply_type"])
    return [place.replace(units, Confidence.GUESS)] if units else []


@corrects("agreement_start_date_before_supply_start_date")
def from_supply_start(place: Place) -> Steps:
    """Let an agreement take effect when the supply starts, if no other does then."""
    start = place.above(3)["supply_start_date"]
    others = [day(it.get("effective_from")) for it in objects(place.above(2))]
    agreed = day(place.parent.get("agreed_at"))
    if day(start) in others or (agreed and agreed > (day(start) or agreed)):
        return []
    return [place.replace(start, Confidence.GUESS)]


@corrects("supply_charge_incomplete")
def supply_of_charge(place: Place) -> Steps:
    """Give a supply charge the supply type of its product, and the product of other charges of that type."""
    if place.name == "supply_type":
        found = _supply_type_of(str(place.parent.get("product_code", "")))
        if not found and len(known := _supplied(place)) == 1:
            [found] = known
        return [place.replace(found, Confidence.LIKELY)] if found else []
    if place.name != "product_code":
        return []
    supplied = place.parent.get("supply_type")
    products = {
        it["product_code"]
        for it in objects(get(place.payload, place.path[:3]))
        if it.get("product_code") and it.get("supply_type") == supplied and it.get("type") == "SUPPLY_CHARGE"
    }
    [product] = products if len(products) == 1 else [None]
    return [place.replace(product, Confidence.GUESS)] if product else []


def _supplied(place: Place) -> set[Any]:
    found = {meter_point.get("supply_type") for meter_point in _meter_points(place)}
    return {it for it in found if it in UNITS_BY_SUPPLY_TYPE}


def _supply_type_of(product: str) -> str | None:
    words = {"GAS": ("GAS",), "ELECTRICITY": ("ELECTR", "ELEKTR", "STROOM", "POWER")}
    found = [name for name, parts in words.items() if any(part in product.upper() for part in parts)]
    return found[0] if len(found) == 1 else None
