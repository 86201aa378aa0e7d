"""Rules for line items and tax items, the parts of a supply charge, exact to the cent.

An account has far more of these than of anything else, so the loops here are optimised for speed. A subscript
with a KeyError for a value that is nearly always there costs less than `get`, and far more for one that often
is not. A set of all refs costs less than single look-ups.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from migration_payloads.rules.account import CheckedAccount, Item
from migration_payloads.rules.balances import HALF_A_CENT, ONE, ZERO, differ, half_of_last_digit
from migration_payloads.rules.rule import Fault, Severity, rule
from migration_payloads.schemas.messages import shown


@rule(Severity.WARNING, remedy="Correct net_amount, price_per_unit or number_of_units.")
def incorrect_line_item_net_amount(account: CheckedAccount) -> Iterator[Fault]:
    """A line item's price times its units is not its net amount, within half a cent.

    A price as it is printed is rounded: half of its last digit counts for each unit, from two decimals on.
    """
    for path, _, line_items in account.itemised:
        for i, item in enumerate(line_items):
            try:
                price, units, net = item["price_per_unit"], item["number_of_units"], item["net_amount"]
            except KeyError:
                continue
            off = abs(price * units - net)
            if off > HALF_A_CENT and off > HALF_A_CENT + abs(units) * min(
                half_of_last_digit(price), HALF_A_CENT
            ):
                yield (
                    (*path, "line_items", i, "net_amount"),
                    f"{price:f} for each of {units:f} units makes {price * units:f}, not {net:f}.",
                )


@rule(Severity.WARNING, remedy="Correct the amount: the net amounts of the line items and the tax, added up.")
def supply_charge_amount_mismatch(account: CheckedAccount) -> Iterator[Fault]:
    """The line items' net amounts and the tax items do not add up to the amount, within half a cent."""
    for path, transaction in account.supply_charges:
        amount, line_items = transaction.get("amount"), transaction.get("line_items")
        if amount is None or not line_items:
            continue
        try:
            net = sum([item["net_amount"] for item in line_items], ZERO)
            tax = sum([item["amount"] for item in transaction.get("tax_items", ())], ZERO)
        except KeyError:
            continue
        if not differ(net + tax, amount):
            continue
        if not account.is_faulty(*path, "tax_items"):
            yield (
                (*path, "amount"),
                f"The line items, {net:f}, and the tax, {tax:f}, make {net + tax:f}, not {amount:f}.",
            )


@rule(Severity.WARNING, remedy="Correct the tax item's amount, rate or value_taxed.")
def incorrect_tax_item_amount(account: CheckedAccount) -> Iterator[Fault]:
    """A proportional tax item's rate times the value taxed is not its amount, within half a cent.

    Without a value_taxed it is the net amount of the line item that vat_on names. A rate that is no
    proportion is a finding of its own.
    """
    for path, transaction, line_items in account.itemised:
        for i, item in enumerate(transaction.get("tax_items", ())):
            try:
                rate, amount = item["rate"], item["amount"]
                value = item["value_taxed"] if "value_taxed" in item else _net_of(line_items, item)
            except KeyError:
                continue
            if value is None or abs(rate * value - amount) <= HALF_A_CENT:
                continue
            if ZERO <= rate <= ONE and is_proportional(item):
                yield (
                    (*path, "tax_items", i, "amount"),
                    f"The rate {rate:f} on {value:f} makes {rate * value:f}, not {amount:f}.",
                )


def is_proportional(tax_item: Item) -> bool:
    """Return whether the rate of a tax item is a proportion, as that of VAT is if it has no unit_type."""
    unit_type = tax_item.get("unit_type")
    if unit_type == "PROPORTION":
        return True
    return is_vat(tax_item) if unit_type is None else unit_type.upper() == "PROPORTION"


def is_vat(tax_item: Item) -> bool:
    """Return whether a tax item is value added tax."""
    return tax_item.get("tax_type", "").upper() in ("VAT", "BTW")


def _net_of(line_items: Sequence[Item], tax_item: Item) -> Decimal | None:
    """Return the net amount of the line item that a tax item names, or None if it is not known."""
    vat_on = tax_item["params"]["vat_on"]
    return next(
        (it.get("net_amount") for it in line_items if it.get("params", {}).get("ref") == vat_on), None
    )


@rule(Severity.WARNING, remedy="Send the two meter readings, at the start and the end, or leave units out.")
def line_item_units_must_be_two_values(account: CheckedAccount) -> Iterator[Fault]:
    """A line item's units are not two values for each meter: its readings at the start and the end."""
    for path, _, line_items in account.itemised:
        for i, item in enumerate(line_items):
            if "units" in item and (not item["units"] or len(item["units"]) % 2):
                count = len(item["units"])
                yield (
                    (*path, "line_items", i, "units"),
                    f"There {'is 1 value' if count == 1 else f'are {count} values'}: send two readings of "
                    "each meter, at the start and the end of the period, or leave units out.",
                )


@rule(Severity.ERROR, remedy="Set vat_on to the ref of a line item of the same transaction.")
def unknown_vat_reference(account: CheckedAccount) -> Iterator[Fault]:
    """A tax item's vat_on is not the ref of a line item of the same transaction."""
    for path, transaction, tax_items in account.taxed:
        named = _values_of_params(tax_items, "vat_on")
        if not named:
            continue
        refs = {*_values_of_params(transaction.get("line_items", ()), "ref")}
        if refs.issuperset(named) or account.is_touched(*path, "line_items"):
            continue
        for i, item in enumerate(tax_items):
            vat_on = item.get("params", {}).get("vat_on")
            if vat_on and vat_on not in refs:
                yield (
                    (*path, "tax_items", i, "params", "vat_on"),
                    f"{shown(vat_on)} is not the ref of a line item of this transaction.",
                )


def _values_of_params(items: Sequence[Item], field: str) -> list[str]:
    return [params[field] for it in items if (params := it.get("params")) and field in params]


@rule(Severity.ERROR, remedy="Give each line item of a transaction its own ref.")
def duplicate_line_item_refs(account: CheckedAccount) -> Iterator[Fault]:
    """Two line items of a transaction have the same ref."""
    for path, _, line_items in account.itemised:
        refs = _values_of_params(line_items, "ref")
        if len({*refs}) == len(refs):
            continue
        first: dict[str, int] = {}
        for i, item in enumerate(line_items):
            ref = item.get("params", {}).get("ref")
            if ref and first.setdefault(ref, i) != i:
                yield (
                    (*path, "line_items", i, "params", "ref"),
                    f"{shown(ref)} is already the ref of line_items.{first[ref]}: give each its own.",
                )
