"""Supply charges: line items and tax items that add up to the cent (section 2.5)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from migration_service_local.samples.codes import ENERGY_TAX_REDUCTION, cents, split_into_tax_steps, vat
from migration_service_local.samples.connections import Connection, SampleRegister
from migration_service_local.samples.dates import Calendar


class Period(NamedTuple):
    """A billing period: its first and last day (numbers), its months, and its share of a year's use."""

    first: int
    last: int
    months: int
    electricity: float
    gas: float
    sun: float


def make_periods(calendar: Calendar, first: int, last: int, cadence: int) -> list[Period]:
    """Return the months `first` to `last` (indexes of `calendar.months`) in periods of `cadence`.

    The first period has the remaining months.
    """
    periods = []
    end = last
    while end >= first:
        start = max(first, end - cadence + 1)
        months = calendar.months[start : end + 1]
        periods.append(
            Period(
                months[0].first,
                months[-1].last,
                len(months),
                sum([month.electricity for month in months]),
                sum([month.gas for month in months]),
                sum([month.sun for month in months]),
            )
        )
        end = start - 1
    periods.reverse()
    return periods


@dataclass(slots=True)
class _Bill:
    """The line items of one supply charge while they are collected, and their net amounts in cents."""

    start: str
    end: str
    itemised: bool
    items: list[dict[str, Any]] = field(default_factory=list)
    nets: list[int] = field(default_factory=list)

    def add(self, band: str, units: int, price: int, reading: int | None = None) -> None:
        """Add a line item. `price` is in euro / 100,000. `reading` is the one at the start of the period."""
        net = cents(units, price)
        item: dict[str, Any] = {
            "rate_band": band,
            "start_date": self.start,
            "end_date": self.end,
            "number_of_units": units,
            "price_per_unit": price / 100_000,
            "net_amount": net / 100,
        }
        if reading is not None:
            item["units"] = [reading, reading + units]
        if self.itemised:
            item["params"] = {"ref": f"line-{len(self.nets) + 1}"}
        self.items.append(item)
        self.nets.append(net)


def make_supply_charge(
    r: Callable[[], float],
    connection: Connection,
    period: Period,
    calendar: Calendar,
    *,
    transaction_id: str,
    invoice: str,
    itemised: bool,
) -> tuple[dict[str, Any], int]:
    """Return the supply charge of a period and its amount in cents. Advance the readings of the meter.

    With `itemised`, each line item has its own tax item. Otherwise one tax item covers all of them.
    """
    is_gas = connection.supply_type == "GAS"
    bill = _Bill(calendar.iso[period.first], calendar.iso[period.last], itemised)
    share = (0.85 + 0.3 * r()) * (period.gas if is_gas else period.electricity)
    used = _add_energy(bill, connection.registers, connection.annual * share)
    used -= _add_energy(bill, connection.production, connection.annual_production * period.sun)
    days = period.last - period.first + 1
    bill.add("ADVANCE_SUPPLIER_FIXED_COST", days, connection.fixed)
    bill.add("ADVANCE_GRID_FEE", days, connection.grid)
    if used > 0:
        for band, units, rate in split_into_tax_steps(used, connection.supply_type, period.months):
            if units > 0:
                bill.add(band, units, rate)
    if not is_gas and not connection.business:
        bill.add("ADVANCE_ENERGY_TAX_REDUCTION", days, ENERGY_TAX_REDUCTION)
    tax_items, total = _make_tax_items(bill)
    charge = {
        "transaction_id": transaction_id,
        "transaction_date": bill.end,
        "amount": total / 100,
        "type": "SUPPLY_CHARGE",
        "associated_invoice_number": invoice,
        "supply_type": connection.supply_type,
        "product_code": connection.product_code,
        "line_items": bill.items,
        "tax_items": tax_items,
    }
    return charge, total


def _add_energy(bill: _Bill, registers: list[SampleRegister], used: float) -> int:
    total = 0
    for register in registers:
        units = int(used * register.share)
        bill.add("CONSUMPTION_STANDARD", units, register.price, register.reading)
        register.reading += units
        total += units
    return total


def _make_tax_items(bill: _Bill) -> tuple[list[dict[str, Any]], int]:
    """Return the tax items, and the total with VAT in cents."""
    net = sum(bill.nets)
    if not bill.itemised:
        tax = vat(net)
        return [_make_tax_item(net, tax)], net + tax
    total = net
    tax_items = []
    for item, line_net in zip(bill.items, bill.nets, strict=True):
        tax = vat(line_net)
        total += tax
        tax_item = _make_tax_item(line_net, tax)
        tax_item["params"] = {"vat_on": item["params"]["ref"]}
        tax_items.append(tax_item)
    return tax_items, total


def _make_tax_item(net: int, tax: int) -> dict[str, Any]:
    return {
        "amount": tax / 100,
        "tax_type": "VAT",
        "rate": 0.21,
        "unit_type": "PROPORTION",
        "value_taxed": net / 100,
    }
