"""Words of open lists: the lists that the interface shows may be incomplete."""

from collections.abc import Collection, Iterator

from migration_service.rules.account import CheckedAccount, Item, Path
from migration_service.rules.rule import Fault, Severity, rule
from migration_service.schemas.messages import shown
from migration_service.schemas.vocabulary import PaymentType, RateBand, Reason, TimeOfUse

_REASONS = frozenset(map(str, Reason))
_PAYMENT_TYPES = frozenset(map(str, PaymentType))
_RATE_BANDS = frozenset(map(str, RateBand))
_TIMES_OF_USE = frozenset(map(str, TimeOfUse))


@rule(
    Severity.WARNING,
    remedy="Correct the word if it is misspelt. Leave it if it is what your system has: it is kept as it is.",
)
def unlisted_value(account: CheckedAccount) -> Iterator[Fault]:
    """A descriptive word (reason, payment_type, rate_band, time_of_use) is not among the listed ones."""
    for path, transaction in account.transactions:
        yield from _find_unlisted(path, transaction, "reason", _REASONS)
        yield from _find_unlisted(path, transaction, "payment_type", _PAYMENT_TYPES)
    for path, _, line_items in account.itemised:
        if _RATE_BANDS.issuperset([item.get("rate_band") for item in line_items]):  # nearly always
            continue
        for i, item in enumerate(line_items):
            yield from _find_unlisted((*path, "line_items", i), item, "rate_band", _RATE_BANDS)
    for path, meter_point in account.meter_points:
        for i, meter in enumerate(meter_point.get("meters", ())):
            for j, register in enumerate(meter.get("registers", ())):
                place = (*path, "meters", i, "registers", j)
                yield from _find_unlisted(place, register, "time_of_use", _TIMES_OF_USE)


def _find_unlisted(path: Path, item: Item, field: str, listed: Collection[str]) -> Iterator[Fault]:
    value = item.get(field)
    if value is not None and value not in listed:
        yield (*path, field), f"{shown(value)} is not among the listed values: {', '.join(sorted(listed))}."
