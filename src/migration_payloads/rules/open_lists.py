"""Values of open lists, which may be incomplete in the interface description."""

from collections.abc import Iterable, Iterator, Sequence

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
    for field, listed in (("reason", _REASONS), ("payment_type", _PAYMENT_TYPES)):
        if not listed.issuperset([transaction.get(field) for _, transaction in account.transactions]):
            yield from _find_unlisted(account.transactions, field, listed)
    if not _RATE_BANDS.issuperset([item.get("rate_band") for item in account.line_items]):
        for path, _, line_items in account.itemised:
            yield from _find_unlisted(_places(path, "line_items", line_items), "rate_band", _RATE_BANDS)
    for path, _, tax_items in account.taxed:
        if not _UNIT_TYPES.issuperset([item.get("unit_type") for item in tax_items]):
            yield from _find_unlisted(_places(path, "tax_items", tax_items), "unit_type", _UNIT_TYPES)
    yield from _find_in_supply(account)


def _find_in_supply(account: CheckedAccount) -> Iterator[Fault]:
    for path, template in account.templates:
        costs = template.get("cost_details", ())
        if not _BANDS.issuperset([cost.get("band") for cost in costs]):
            yield from _find_unlisted(_places(path, "cost_details", costs), "band", _BANDS)
    for path, meter in account.meters:
        registers = meter.get("registers", ())
        if not _TIMES_OF_USE.issuperset([register.get("time_of_use") for register in registers]):
            yield from _find_unlisted(_places(path, "registers", registers), "time_of_use", _TIMES_OF_USE)


def _places(path: Path, name: str, items: Sequence[Item]) -> Iterator[tuple[Path, Item]]:
    return (((*path, name, i), item) for i, item in enumerate(items))


def _find_unlisted(
    places: Iterable[tuple[Path, Item]], field: str, listed: frozenset[str | None]
) -> Iterator[Fault]:
    for path, item in places:
        value = item.get(field)
        if value not in listed:
            words = ", ".join(sorted(word for word in listed if word))
            yield (*path, field), f"{shown(value)} is not among the listed values: {words}."
