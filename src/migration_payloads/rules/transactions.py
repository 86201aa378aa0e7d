"""Rules for single transactions (section 2.5), and for the parts of a supply charge, exact to the cent.

An account has far more line items and tax items than anything else, so their loops are optimised for speed. A
subscript with a KeyError for a value that is nearly always there costs less than `get`, and far more for one
that often is not. A set of all refs costs less than single look-ups.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from migration_payloads.rules.account import CheckedAccount, Item
from migration_payloads.rules.balances import A_CENT, HALF_A_CENT, ONE, ZERO, differ, half_of_last_digit
from migration_payloads.rules.rule import Fault, Severity, find_future, find_repeated, rule
from migration_payloads.schemas.messages import shown

_SUPPLY_CHARGE_FIELDS = ("supply_type", "product_code", "line_items", "tax_items")
_OF_A_SUPPLY_CHARGE = frozenset(_SUPPLY_CHARGE_FIELDS)
_NEEDED_BY_A_SUPPLY_CHARGE = ("product_code", "supply_type", "line_items")


@rule(
    Severity.ERROR, remedy="Give each transaction of the account its own transaction_id, across all ledgers."
)
def duplicate_transaction_ids(account: CheckedAccount) -> Iterator[Fault]:
    """Two transactions of the account have the same transaction_id, in one ledger or in two."""
    for path, number, first in find_repeated(account.transactions, "transaction_id"):
        there = ".".join(map(str, first))
        yield (*path, "transaction_id"), f"{shown(number)} is already the transaction_id of {there}."


@rule(Severity.WARNING, remedy="Send the reason of each CHARGE and CREDIT.")
def missing_transaction_reason(account: CheckedAccount) -> Iterator[Fault]:
    """A CHARGE or CREDIT has no reason."""
    for path, transaction in account.charges_and_credits:
        if "reason" not in transaction:
            yield (*path, "reason"), f"A {transaction['type']} needs a reason."


@rule(Severity.WARNING, remedy="Send the payment_type of each PAYMENT and REPAYMENT.")
def missing_payment_type(account: CheckedAccount) -> Iterator[Fault]:
    """A PAYMENT or REPAYMENT does not say how it was paid."""
    for path, transaction in account.payments:
        if "payment_type" not in transaction:
            yield (*path, "payment_type"), f"A {transaction['type']} needs a payment_type."


@rule(Severity.WARNING, remedy="Send the amount without its sign: the type says which way the money went.")
def payment_amount_must_be_positive(account: CheckedAccount) -> Iterator[Fault]:
    """The amount of a PAYMENT or REPAYMENT is negative."""
    for path, transaction in account.payments:
        amount = transaction.get("amount")
        if amount is not None and amount < 0:
            yield (
                (*path, "amount"),
                f"The amount of a {transaction['type']} may not be negative, as {amount:f} is: "
                "the type says which way the money went.",
            )


@rule(Severity.WARNING, remedy="Send the amount that was booked, in euros with two decimals.")
def amount_with_fraction_of_a_cent(account: CheckedAccount) -> Iterator[Fault]:
    """The amount of a transaction has a fraction of a cent, which only line items may have."""
    for path, transaction in account.transactions:
        amount = transaction.get("amount")
        if amount is not None and amount % A_CENT:
            yield (*path, "amount"), f"The amount, {amount:f} euros, has a fraction of a cent."


@rule(Severity.WARNING, remedy="Send product_code, supply_type and line_items with each SUPPLY_CHARGE.")
def supply_charge_incomplete(account: CheckedAccount) -> Iterator[Fault]:
    """A SUPPLY_CHARGE lacks its product_code, its supply_type or its line items."""
    for path, transaction in account.supply_charges:
        for field in _NEEDED_BY_A_SUPPLY_CHARGE:
            if not transaction.get(field):
                yield (*path, field), f"A SUPPLY_CHARGE needs {field}."


@rule(
    Severity.WARNING,
    remedy="Leave the field out, or correct the type: supply_type, product_code, line_items and tax_items "
    "belong to a SUPPLY_CHARGE only, and reason does not.",
)
def field_not_allowed_for_type(account: CheckedAccount) -> Iterator[Fault]:
    """A transaction has a field that its type does not have."""
    for path, transaction in account.supply_charges:
        if "reason" in transaction:
            yield (*path, "reason"), "A SUPPLY_CHARGE has no reason: leave it out, or correct the type."
    for transactions in (account.charges_and_credits, account.payments):
        for path, transaction in transactions:
            if _OF_A_SUPPLY_CHARGE.isdisjoint(transaction):
                continue
            for field in _SUPPLY_CHARGE_FIELDS:
                if transaction.get(field):
                    yield (
                        (*path, field),
                        f"A {transaction['type']} has no {field}: leave it out, or correct the type.",
                    )


@rule(Severity.WARNING, remedy="Correct the date, or send the transaction once its day has come.")
def transaction_in_future(account: CheckedAccount) -> Iterator[Fault]:
    """A transaction is dated after today."""
    return find_future(account, account.transactions, "transaction_date", "The transaction is dated")


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
