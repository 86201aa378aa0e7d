"""Rules for agreements, and for their monthly advances: amounts that add up, proportions, and signs."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

from migration_payloads.rules.account import CheckedAccount, Item
from migration_payloads.rules.balances import A_CENT, HALF_A_CENT, ONE, ZERO, half_of_last_digit
from migration_payloads.rules.rule import Fault, Severity, find_repeated_in, rule
from migration_payloads.rules.transactions import is_proportional, is_vat

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


_FORECASTS = ("forecast_annual_consumption", "forecast_annual_generation")
_QUANTITIES = (
    ("estimated_annual_volumes", "energy_netted_peak"),
    ("estimated_annual_volumes", "energy_netted_off_peak"),
    ("energy_meter_point_configuration_periods", "physical_capacity"),
)


@rule(Severity.WARNING, remedy="Send the rate as a proportion: 0.21 for 21 %.")
def rate_is_no_proportion(account: CheckedAccount) -> Iterator[Fault]:
    """A rate of tax is negative or above 1, so it is probably a percentage.

    The rate of a tax item counts if its unit_type is PROPORTION, in whatever letters, or its tax_type is VAT.
    """
    for path, template in account.templates:
        for i, cost in enumerate(template.get("cost_details", ())):
            if (rate := cost.get("tax_rate")) is not None and not ZERO <= rate <= ONE:
                yield (*path, "cost_details", i, "tax_rate"), _describe_rate(rate)
    for path, _, tax_items in account.taxed:
        for i, item in enumerate(tax_items):
            rate = item.get("rate")
            if rate is None or ZERO <= rate <= ONE:
                continue
            if is_proportional(item) or is_vat(item):
                yield (*path, "tax_items", i, "rate"), _describe_rate(rate)


def _describe_rate(rate: Decimal) -> str:
    return f"The rate is a proportion from 0 to 1, not {rate:f}: 0.21 is 21 %."


@rule(Severity.WARNING, remedy="Correct tax_amount, tax_rate or net_amount.")
def incorrect_cost_detail_tax_amount(account: CheckedAccount) -> Iterator[Fault]:
    """The net amount of a part of an advance times its rate is not its tax, within half a cent."""
    for path, template in account.templates:
        for i, cost in enumerate(template.get("cost_details", ())):
            try:
                net, rate, tax = cost["net_amount"], cost["tax_rate"], cost["tax_amount"]
            except KeyError:
                continue
            # A rate that is no proportion is a finding of its own.
            if abs(net * rate - tax) > HALF_A_CENT and ZERO <= rate <= ONE:
                yield (
                    (*path, "cost_details", i, "tax_amount"),
                    f"The rate {rate:f} on {net:f} makes {net * rate:f}, not {tax:f}.",
                )


@rule(
    Severity.WARNING,
    remedy="Send total_monthly_advance_amount in euros a month, and every part of it in cost_details.",
)
def advance_amount_mismatch(account: CheckedAccount) -> Iterator[Fault]:
    """The parts of a monthly advance, with their tax, do not add up to its total.

    Half a cent for each amount, and half of the last digit of the total, may be lost by rounding.
    """
    for path, template in account.templates:
        costs, total = template.get("cost_details"), template.get("total_monthly_advance_amount")
        if not costs or total is None or account.is_touched(*path, "cost_details"):
            continue
        try:
            made, sent = sum([_with_tax(cost) for cost in costs], ZERO), Decimal(total)
        except KeyError:
            continue
        off = abs(made - sent) - A_CENT * len(costs)
        if off > half_of_last_digit(sent):
            yield (
                (*path, "total_monthly_advance_amount"),
                f"The parts with their tax make {made:f}, not {sent:f}.",
            )


def _with_tax(cost: Item) -> Decimal:
    """Return a part of an advance with its tax. Raise KeyError if that is not known."""
    net: Decimal = cost["net_amount"]
    is_known = "tax_amount" in cost or not ZERO <= cost["tax_rate"] <= ONE
    tax: Decimal = cost["tax_amount"] if is_known else net * cost["tax_rate"]
    return net + tax


@rule(
    Severity.WARNING, remedy="Send what is consumed and what is generated as two values, each without a sign."
)
def negative_quantity(account: CheckedAccount) -> Iterator[Fault]:
    """A forecast, an estimated volume or the capacity of a connection is negative."""
    for path, template in account.templates:
        for field in _FORECASTS:
            text = template.get(field, "")
            if "-" in text and (value := Decimal(text)) < ZERO:
                yield (*path, field), _describe_sign(field, value)
    for path, meter_point in account.meter_points:
        for kind, field in _QUANTITIES:
            for i, period in enumerate(meter_point.get(kind, ())):
                if (value := period.get(field, ZERO)) < ZERO:
                    yield (*path, kind, i, field), _describe_sign(field, value)


def _describe_sign(field: str, value: Decimal) -> str:
    return f"{field} may not be negative, as {value:f} is: correct it."
