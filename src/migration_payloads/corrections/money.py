"""Corrections of findings about balances, transactions, their parts and statements."""

import re
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps, is_noise, like, number, objects
from migration_payloads.errors import Confidence
from migration_payloads.rules.account import HISTORICAL_TRANSACTIONS, OPEN_TRANSACTIONS
from migration_payloads.rules.balances import A_CENT, ZERO, differ, sum_signed_amounts
from migration_payloads.schemas.fields import NormalIdentifier

_REASONS = {"CHARGE": "IMPORTED_CHARGE", "CREDIT": "IMPORTED_CREDIT"}
_PROPORTION = "PROPORTION"
_REVERSED = {"PAYMENT": "REPAYMENT", "REPAYMENT": "PAYMENT"}
#: The most transactions that are added up for each of several findings.
_MOST_ADDED = 1_000
_TEN_DECIMALS = Decimal("0.0000000001")


def _cents(amount: Decimal) -> Decimal:
    return amount.quantize(A_CENT, rounding=ROUND_HALF_UP)


def _moved(transactions: Any) -> Decimal | None:
    """Return the change that transactions make to a balance, or None if an amount is not known."""
    items = [
        {"type": it.get("type"), "amount": amount}
        for it in objects(transactions)
        if (amount := number(it.get("amount"))) is not None and it.get("type")
    ]
    return sum_signed_amounts(items) if len(items) == len(objects(transactions)) else None


def _sum(items: Any, field: str) -> Decimal | None:
    found = [number(item.get(field)) for item in objects(items)]
    return None if None in found else sum((it for it in found if it is not None), ZERO)


def _is_doubtful(*lists: Any) -> bool:
    """Return whether an amount of transactions has a finding of its own, or is there twice.

    What is made of such amounts is a guess.
    """
    transactions = [it for items in lists for it in objects(items)]
    ids = [it.get("transaction_id") for it in transactions]
    return len(set(map(str, ids))) < len(ids) or any(map(_has_doubtful_amount, transactions))


def _has_doubtful_amount(transaction: dict[str, Any]) -> bool:
    amount = number(transaction.get("amount"))
    if amount is None or amount != _cents(amount):
        return True
    if transaction.get("type") in _REVERSED:
        return amount < 0
    net, tax = _sum(transaction.get("line_items"), "net_amount"), _sum(transaction.get("tax_items"), "amount")
    parts = None if net is None or tax is None else net + tax
    return bool(transaction.get("line_items")) and (parts is None or differ(parts, amount))


@corrects("balance_mismatch_on_ledger_balance")
def ledger_balance(place: Place) -> Steps:
    """Add up the last settlement's balance and the open transactions.

    It is likely if only the sign is the other way round, and a guess if what is added up has findings.
    """
    historical, open_ones = place.parent.get(HISTORICAL_TRANSACTIONS), place.parent.get(OPEN_TRANSACTIONS)
    moved = _moved(open_ones)
    settled = number(place.parent.get("last_settlement_balance", ZERO))
    old = number(place.value)
    if moved is None or settled is None or old is None:
        return []
    new = settled + moved
    is_negated = not differ(-old, new) and not _is_doubtful(open_ones)
    is_settled = not historical or _moved(historical) == settled
    sure = Confidence.LIKELY if is_negated and is_settled else Confidence.GUESS
    return [place.replace(like(new, place.value), sure)]


@corrects("historical_balance_mismatch")
def settlement_balance(place: Place) -> Steps:
    """Add up the historical transactions, and the balance of the ledger if it followed from the old sum."""
    historical, open_ones = place.parent.get(HISTORICAL_TRANSACTIONS), place.parent.get(OPEN_TRANSACTIONS)
    moved, since = _moved(historical), _moved(open_ones)
    old, balance = number(place.value), number(place.parent.get("ledger_balance"))
    if moved is None or since is None or old is None or balance is None:
        return []
    steps = [place.replace(like(moved, place.value), Confidence.GUESS)]
    if not differ(moved + since, balance) and not _is_doubtful(historical, open_ones):
        return [place.replace(like(moved, place.value), Confidence.LIKELY)]
    if differ(old + since, balance):
        return steps
    path = (*place.path[:-1], "ledger_balance")
    new = like(moved + since, place.parent["ledger_balance"])
    return [*steps, place.replace(new, Confidence.GUESS, path)]


@corrects("missing_transaction_reason")
def reason_of_type(place: Place) -> Steps:
    """Give a CHARGE the reason IMPORTED_CHARGE, and a CREDIT the reason IMPORTED_CREDIT."""
    return [place.replace(_REASONS[place.parent["type"]], Confidence.GUESS)]


@corrects("missing_payment_type")
def payment_type_of_others(place: Place) -> Steps:
    """Give a payment the payment_type of all others of its type. A REPAYMENT is else a DIRECT_CREDIT."""
    kind = place.parent["type"]
    others = {
        it["payment_type"]
        for ledger in objects(place.payload.get("ledgers"))
        for name in (HISTORICAL_TRANSACTIONS, OPEN_TRANSACTIONS)
        for it in objects(ledger.get(name))
        if it.get("type") == kind and isinstance(it.get("payment_type"), str) and it["payment_type"]
    }
    if not others and kind == "REPAYMENT":
        return [place.replace("DIRECT_CREDIT", Confidence.GUESS)]
    return [place.replace(others.pop(), Confidence.GUESS)] if len(others) == 1 else []


@corrects("payment_amount_must_be_positive")
def payment_the_other_way(place: Place) -> Steps:
    """Send a negative PAYMENT as a REPAYMENT, and the reverse, so that the balance remains."""
    amount = number(place.value)
    if amount is None or amount >= 0:
        return []
    path = (*place.path[:-1], "type")
    return [
        place.replace(_REVERSED[place.parent["type"]], Confidence.GUESS, path),
        place.replace(like(-amount, place.value), Confidence.GUESS),
    ]


@corrects("amount_with_fraction_of_a_cent")
def amount_in_cents(place: Place) -> Steps:
    """Round the amount to a cent. It is a guess unless the fraction is what a calculation left behind."""
    amount = number(place.value)
    if amount is None:
        return []
    sure = Confidence.LIKELY if is_noise(amount, _cents(amount)) else Confidence.GUESS
    return [place.replace(like(_cents(amount), place.value), sure)]


@corrects("field_not_allowed_for_type")
def no_such_field(place: Place) -> Steps:
    """Leave out the field that the type of the transaction does not have."""
    return [place.remove(Confidence.GUESS)]


@corrects("line_item_units_must_be_two_values")
def no_units(place: Place) -> Steps:
    """Leave out units that are not two readings of each meter."""
    return [place.remove(Confidence.GUESS if place.value else Confidence.CERTAIN)]


@corrects("incorrect_line_item_net_amount")
def net_amount_or_price(place: Place) -> Steps:
    """Multiply price and units, if the charge then adds up. Otherwise divide the net amount by the units."""
    item, charge = place.parent, place.above(3)
    net = number(place.value)
    price, units = number(item.get("price_per_unit")), number(item.get("number_of_units"))
    if net is None or price is None or units is None:
        return []
    product = _cents(price * units)
    amount, sum_ = number(charge.get("amount")), _sum(charge.get("line_items"), "net_amount")
    tax = _sum(charge.get("tax_items"), "amount")
    known = amount is not None and sum_ is not None and tax is not None
    if known and not differ(sum_ - net + product + tax, amount):  # type: ignore[operator,arg-type]
        return [place.replace(like(product, place.value), Confidence.LIKELY)]
    if not units:
        return []
    found = (net / units).quantize(_TEN_DECIMALS).normalize()
    path = (*place.path[:-1], "price_per_unit")
    fits = not differ(found * units, net)
    return [place.replace(like(found, item["price_per_unit"]), Confidence.GUESS, path)] if fits else []


@corrects("supply_charge_amount_mismatch")
def sum_of_parts(place: Place) -> Steps:
    """Add up the line items and the tax, if the balances of the ledger then add up.

    It is a guess if the ledger has no balance to compare with.
    """
    net = _sum(place.parent.get("line_items"), "net_amount")
    tax = _sum(place.parent.get("tax_items"), "amount")
    old, ledger = number(place.value), place.above(3)
    others = place.above(2)
    moved = _moved(others) if len(others) <= _MOST_ADDED else None
    if net is None or tax is None or old is None or moved is None:
        return []
    new = _cents(net + tax)
    moved += old - new
    settled, balance = number(ledger.get("last_settlement_balance")), number(ledger.get("ledger_balance"))
    if place.path[2] == HISTORICAL_TRANSACTIONS:
        made, known = moved, settled
    else:
        made, known = (settled or ZERO) + moved, balance
    if known is not None and differ(made, known):
        return []
    is_guess = known is None or _is_doubtful([it for it in objects(others) if it is not place.parent])
    return [place.replace(like(new, place.value), Confidence.GUESS if is_guess else Confidence.LIKELY)]


@corrects("incorrect_tax_item_amount")
def tax_rate(place: Place) -> Steps:
    """Divide the tax by the value that is taxed."""
    item = place.parent
    amount, value = number(place.value), number(item.get("value_taxed"))
    if amount is None or not value:
        return []
    rates = [Decimal("0.21"), Decimal("0.09"), ZERO]
    usual = next((it for it in rates if not differ(it * value, amount)), None)
    rate = (amount / value).quantize(_TEN_DECIMALS).normalize() if usual is None else usual
    if differ(rate * value, amount):
        return []
    return [place.replace(like(rate, item["rate"]), Confidence.GUESS, (*place.path[:-1], "rate"))]


@corrects("rate_is_no_proportion")
def percentage(place: Place) -> Steps:
    """Write a percentage as a proportion: 21 as 0.21. It is likely if the tax is that part of the amount."""
    item, rate = place.parent, number(place.value)
    if rate is None or not 1 < rate <= 100 or item.get("unit_type", _PROPORTION).upper() != _PROPORTION:
        return []
    new = (rate / 100).normalize()
    value = number(item.get("net_amount", item.get("value_taxed")))
    tax = number(item.get("tax_amount", item.get("amount")))
    if value is not None and tax is not None and differ(new * value, tax):
        return []
    proves = value is not None and tax is not None and differ(rate * value, tax)
    return [place.replace(like(new, place.value), Confidence.LIKELY if proves else Confidence.GUESS)]


@corrects("unlisted_value", fields=(NormalIdentifier,))
def unit_of_rate(place: Place) -> Steps:
    """Write the unit of a proportion in upper case."""
    is_one = place.value.strip().upper() == _PROPORTION
    return [place.replace(_PROPORTION, Confidence.CERTAIN)] if is_one else []


@corrects("advance_amount_mismatch")
def advance_in_euros(place: Place) -> Steps:
    """Divide an advance by a hundred, if its parts then make it."""
    total, costs = number(place.value), objects(place.parent.get("cost_details"))
    net, tax = _sum(costs, "net_amount"), _sum(costs, "tax_amount")
    if total is None or net is None or tax is None or differ(net + tax, total / 100):
        return []
    return [place.replace(like(total / 100, place.value), Confidence.LIKELY)]


@corrects("unknown_vat_reference")
def untaxed_line(place: Place) -> Steps:
    """Refer to the only line item that no other tax item refers to. It is likely if its amount is taxed."""
    transaction = place.above(4)
    lines = objects(transaction.get("line_items"))
    left = sorted(set(_params(lines, "ref")) - set(_params(transaction.get("tax_items"), "vat_on")))
    if len(left) != 1:
        return []
    [line] = [it for it in lines if left[0] in _params([it], "ref")][:1]
    taxed, net = number(place.above(2).get("value_taxed")), number(line.get("net_amount"))
    sure = Confidence.LIKELY if taxed is not None and taxed == net else Confidence.GUESS
    return [place.replace(left[0], sure)]


@corrects("duplicate_line_item_refs")
def ref_of_its_own(place: Place) -> Steps:
    """Give a line item a ref of its own. Tax items go on referring to the first line with the ref."""
    refs = set(_params(place.above(3), "ref"))
    new = next(it for n in range(2, len(refs) + 3) if (it := f"{place.value}-{n}") not in refs)
    return [place.replace(new, Confidence.GUESS)] if place.accepts(new) else []


def _params(items: Any, field: str) -> Iterable[str]:
    params = [item.get("params") for item in objects(items)]
    return [it[field] for it in params if isinstance(it, dict) and isinstance(it.get(field), str)]


@corrects("gross_amount_not_in_cents")
def gross_amount_in_cents(place: Place) -> Steps:
    """Multiply a gross amount in euros by a hundred."""
    amount = number(place.value)
    if amount is None or (amount * 100) % 1:
        return []
    return [place.replace(like((amount * 100).quantize(Decimal(1)), place.value), Confidence.LIKELY)]


@corrects("statement_not_found_for_invoice_number")
def invoice_number_of_statement(place: Place) -> Steps:
    """Write an invoice number as its statement does: only case, spaces, zeros and signs differ.

    It is a guess if the signs are between other digits.
    """
    numbers = {str(it.get("number")) for it in objects(place.payload.get("statements"))}
    for plain, sure in ((_parts, Confidence.LIKELY), (_joined, Confidence.GUESS)):
        found = [it for it in numbers if plain(it) == plain(place.value)]
        if found:
            return [place.replace(found[0], sure)] if len(found) == 1 else []
    return []


def _parts(invoice: str) -> list[str]:
    """Return the words and the numbers of an invoice number, without zeros in front."""
    return [it.lstrip("0") for it in re.findall(r"[0-9]+|[^\W\d_]+", invoice.upper())]


def _joined(invoice: str) -> str:
    return "".join(it for it in invoice.upper() if it.isalnum()).lstrip("0")
