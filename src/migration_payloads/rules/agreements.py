"""Rules for agreements."""

from collections.abc import Iterator
from datetime import timedelta

from migration_payloads.rules.account import CheckedAccount
from migration_payloads.rules.rule import Fault, Severity, find_repeated_in, rule

_A_DAY = timedelta(days=1)
#: The units of forecasts.
UNITS_BY_SUPPLY_TYPE = {
    "ELECTRICITY": "KWH_CONSUMPION",  # spelled so in the interface
    "GAS": "CUBIC_METRES_CONSUMPTION",
}


@rule(Severity.ERROR, remedy="Move the agreement to the meter point it is for, or correct its supply_type.")
def supply_type_mismatch(account: CheckedAccount) -> Iterator[Fault]:
    """An agreement is for another supply type than its meter point."""
    for path, agreement, meter_point in account.agreements:
        agreed, supplied = agreement.get("supply_type"), meter_point.get("supply_type")
        if agreed != supplied and agreed and supplied:
            yield (
                (*path, "supply_type"),
                f"The agreement is for {agreed}, but the meter point supplies {supplied}.",
            )


@rule(Severity.WARNING, remedy="Correct effective_from or the meter point's supply_start_date.")
def agreement_start_date_before_supply_start_date(account: CheckedAccount) -> Iterator[Fault]:
    """An agreement takes effect before the supply of its meter point starts."""
    for path, agreement, meter_point in account.agreements:
        effective, start = agreement.get("effective_from"), meter_point.get("supply_start_date")
        if effective and start and effective < start:
            yield (
                (*path, "effective_from"),
                f"The agreement takes effect on {effective}, before the supply starts on {start}.",
            )


@rule(Severity.WARNING, remedy="Correct agreed_at or effective_from: a contract is agreed before it starts.")
def agreement_agreed_after_start(account: CheckedAccount) -> Iterator[Fault]:
    """An agreement was agreed after it took effect."""
    for path, agreement, _ in account.agreements:
        agreed, effective = agreement.get("agreed_at"), agreement.get("effective_from")
        if agreed and effective and agreed > effective:
            yield (
                (*path, "agreed_at"),
                f"The agreement was agreed on {agreed}, after it took effect on {effective}.",
            )


@rule(Severity.ERROR, remedy="Send one agreement for each start: it ends where the next one takes effect.")
def overlapping_agreements(account: CheckedAccount) -> Iterator[Fault]:
    """Two agreements of a meter point take effect on the same day."""
    for path, meter_point in account.meter_points:
        agreements = meter_point.get("agreements", ())
        for i, effective, first in find_repeated_in(agreements, "effective_from"):
            yield (
                (*path, "agreements", i, "effective_from"),
                f"The agreement takes effect on {effective}, as agreements.{first} does.",
            )


@rule(Severity.WARNING, remedy="Send the agreement under which the meter point was billed last, too.")
def no_agreement_covering_last_billed_to_date(account: CheckedAccount) -> Iterator[Fault]:
    """All agreements of a meter point take effect after the day it was last billed to.

    Nothing was billed if that is the day before the supply, or the first agreement, starts.
    """
    for path, meter_point in account.meter_points:
        billed, agreements = meter_point.get("last_billed_to_date"), meter_point.get("agreements")
        if not billed or not agreements:
            continue
        starts = [agreement.get("effective_from") for agreement in agreements]
        if None in starts or min(starts) <= billed:
            continue
        # Some systems write the day before the start if nothing has been billed.
        if (meter_point.get("supply_start_date") or min(starts)) - billed != _A_DAY:
            yield (
                (*path, "agreements"),
                f"The meter point is billed to {billed}, but no agreement takes effect before {min(starts)}.",
            )


@rule(
    Severity.WARNING,
    remedy="Send forecasts of electricity in KWH_CONSUMPION, of gas in CUBIC_METRES_CONSUMPTION.",
)
def forecast_units_do_not_match_supply_type(account: CheckedAccount) -> Iterator[Fault]:
    """A forecast for electricity is not in kilowatt-hours, or one for gas not in cubic metres."""
    for path, agreement, meter_point in account.agreements:
        supply_type = meter_point.get("supply_type")
        template = agreement.get("monthly_advance_charge_template")
        expected = UNITS_BY_SUPPLY_TYPE.get(supply_type or "")
        if not expected or not template:
            continue
        for field in ("forecast_consumption_units", "forecast_generation_units"):
            units = template.get(field, expected)
            # There is no unit for the generation of a gas connection.
            if units != expected and (field == "forecast_consumption_units" or supply_type != "GAS"):
                yield (
                    (*path, "monthly_advance_charge_template", field),
                    f"The meter point supplies {supply_type}: the units are {expected}, not {units}.",
                )
