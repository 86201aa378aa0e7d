"""Corrections of findings about the account, its customers and its addresses."""

import re
import unicodedata
from datetime import date

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.periods import PLACEHOLDERS
from migration_payloads.corrections.place import Place, Steps, day, is_among, objects
from migration_payloads.errors import Confidence
from migration_payloads.moments import DEFAULT_TIME_ZONE, today_in
from migration_payloads.rules.customers import is_dutch_postcode
from migration_payloads.schemas.identifiers import without_hidden

# What may be between the digits and the letters of a postcode.
_BETWEEN = re.compile(r"[\s.,\-_/]")
_NAME = ("given_name", "family_name")


@corrects("invalid_postcode", longest=40)
def postcode(place: Place) -> Steps:
    """Write a postcode as 1234 AB, without spaces, signs or the prefix NL."""
    text = unicodedata.normalize("NFKC", without_hidden(place.value)).upper()
    text = _BETWEEN.sub("", text).removeprefix("NL")
    new = f"{text[:4]} {text[4:]}"
    return [place.replace(new, Confidence.CERTAIN)] if is_dutch_postcode(new) else []


@corrects("customer_required")
def unknown_occupier(place: Place) -> Steps:
    """Say that nobody is known who lives there."""
    return [place.replace(True, Confidence.GUESS, ("unknown_occupier",))]


@corrects("customer_with_unknown_occupier")
def known_occupier(place: Place) -> Steps:
    """Say that the customers live there."""
    return [place.replace(False, Confidence.GUESS, ("unknown_occupier",))]


@corrects("customer_may_not_be_named_the_occupier")
def no_occupier(place: Place) -> Steps:
    """Leave out the customer who is nobody. If there is no other, say that nobody is known.

    It is a guess if the customer has more than a name.
    """
    more = [value for name, value in place.parent.items() if name not in _NAME and value]
    sure = Confidence.GUESS if more else Confidence.LIKELY
    steps = [place.remove(sure, place.path[:2])]
    if len(objects(place.payload.get("customers"))) > 1:
        return steps
    return [place.replace(True, sure, ("unknown_occupier",)), *steps]


@corrects("date_of_birth_in_future")
def century(place: Place) -> Steps:
    """Move a date of birth in the future back by a century."""
    born = day(place.value)
    if born is None or (born.month, born.day) == (2, 29):
        return []
    earlier = born.replace(year=born.year - 100)
    plausible = date(1900, 1, 1) <= earlier <= today_in(DEFAULT_TIME_ZONE)
    return [place.replace(earlier.isoformat(), Confidence.GUESS)] if plausible else []


@corrects("date_of_birth_implausible")
def no_date_of_birth(place: Place) -> Steps:
    """Leave out a date of birth that stands for none."""
    return [place.remove(Confidence.LIKELY if place.value in PLACEHOLDERS else Confidence.GUESS)]


@corrects("possible_test_email_address")
def no_email_address(place: Place) -> Steps:
    """Leave out an e-mail address that reaches nobody."""
    return [place.remove(Confidence.GUESS)]


@corrects("duplicate_customers_found")
def customer_once(place: Place) -> Steps:
    """Leave out the second of two customers who are the same person. It is a guess if any value differs."""
    same = is_among(place.value, place.parent[: int(place.name)])
    return [place.remove(Confidence.CERTAIN if same else Confidence.GUESS)]


@corrects("supply_address_with_no_meter_points")
def no_empty_address(place: Place) -> Steps:
    """Leave out a supply address to which nothing is supplied, if there is another."""
    if len(objects(place.payload.get("supply_addresses"))) < 2:
        return []
    return [place.remove(Confidence.GUESS, place.path[:2])]


@corrects(
    "duplicate_ledger_entries_found",
    "duplicate_meter_points_provided",
    "duplicate_period_start",
    "duplicate_statement_ids",
    "duplicate_statement_numbers",
    "meter_point_with_duplicate_meter_ids",
    "meter_with_duplicate_register_ids",
    "overlapping_agreements",
    "repeated_user_detail",
)
def equal_once(place: Place) -> Steps:
    """Leave out an item that is equal to an earlier one of the account."""
    item, path = place.parent, place.path[:-1]
    if place.code != "duplicate_meter_points_provided":
        same = is_among(item, place.above(2)[: int(path[-1])])
        return [place.remove(Confidence.CERTAIN, path)] if same else []
    earlier = [
        meter_point
        for i, address in enumerate(place.payload["supply_addresses"])
        for j, meter_point in enumerate(objects(address.get("meter_points")))
        if (i, j) < (path[1], path[3])
    ]
    if not is_among(item, earlier):
        return []
    # An address that is left with nothing would be the next finding.
    return [place.remove(Confidence.CERTAIN, path if len(place.above(2)) > 1 else path[:2])]
