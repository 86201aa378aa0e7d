"""Values of open lists, which may be incomplete in the interface description."""

from collections.abc import Iterator, Sequence

from migration_payloads.rules.account import CheckedAccount, Item, Path
from migration_payloads.rules.rule import Fault, Severity, rule
from migration_payloads.schemas.messages import shown
from migration_payloads.schemas.vocabulary import Band, PaymentType, RateBand, Reason, TimeOfUse

# None stands for an item without the field.
_REASONS = frozenset((*map(str, Reason), None))
_PAYMENT_TYPES = frozenset((*map(str, PaymentType), None))
_BANDS = frozenset((*map(str, Band), None))
_RATE_BANDS = frozenset((*map(str, RateBand), None))
_TIMES_OF_USE = frozenset((*map(str, TimeOfUse), None))

_UNIT_TYPES = frozenset(("PROPORTION", None))


@rule(
    Severity.WARNING,
    remedy="Correct the word if it is misspelt. If your system has it, leave it: it is stored as it is.",
)
def unlisted_value(account: CheckedAccount) -> Iterator[Fault]:
    """A word (reason, payment_type, band, rate_band, time_of_use, unit_type) is not a listed one."""
    # There is nearly always no finding, so all the words of a list are checked together.
    yield from _find_unlisted(account.transactions, "reason", _REASONS)
    yield from _find_unlisted(account.transactions, "payment_type", _PAYMENT_TYPES)
    if not _RATE_BANDS.issuperset([it.get("rate_band") for _, _, items in account.itemised for it in items]):
        for path, _, line_items in account.itemised:
            pairs = [((*path, "line_items", i), item) for i, item in enumerate(line_items)]
            yield from _find_unlisted(pairs, "rate_band", _RATE_BANDS)
    for path, transaction in account.transactions:
        tax_items = transaction.get("tax_items")
        if tax_items and not _UNIT_TYPES.issuperset([item.get("unit_type") for item in tax_items]):
            pairs = [((*path, "tax_items", i), item) for i, item in enumerate(tax_items)]
            yield from _find_unlisted(pairs, "unit_type", _UNIT_TYPES)
    for path, template in account.templates:
        costs = template.get("cost_details")
        if costs and not _BANDS.issuperset([cost.get("band") for cost in costs]):
            pairs = [((*path, "cost_details", i), cost) for i, cost in enumerate(costs)]
            yield from _find_unlisted(pairs, "band", _BANDS)
    for path, meter_point in account.meter_points:
        for i, meter in enumerate(meter_point.get("meters", ())):
            registers = meter.get("registers", ())
            if not _TIMES_OF_USE.issuperset([register.get("time_of_use") for register in registers]):
                place = (*path, "meters", i, "registers")
                pairs = [((*place, j), register) for j, register in enumerate(registers)]
                yield from _find_unlisted(pairs, "time_of_use", _TIMES_OF_USE)


def _find_unlisted(
    pairs: Sequence[tuple[Path, Item]], field: str, listed: frozenset[str | None]
) -> Iterator[Fault]:
    if listed.issuperset([item.get(field) for _, item in pairs]):
        return
    for path, item in pairs:
        value = item.get(field)
        if value not in listed:
            words = ", ".join(sorted(word for word in listed if word))
            yield (*path, field), f"{shown(value)} is not among the listed values: {words}."
