"""The rule for names and addresses: text on one line that is printed on letters."""

from collections.abc import Iterator

from migration_payloads.rules.account import CheckedAccount, Item, Path
from migration_payloads.rules.rule import Fault, Severity, rule
from migration_payloads.schemas.identifiers import find_invisible

_OF_CUSTOMER = ("given_name", "family_name")
_LINES = tuple(f"address{number}" for number in range(1, 5))
_BILLING = tuple(f"billing_{line}" for line in _LINES)
_SUPPLY = tuple(f"supply_{line}" for line in _LINES)


@rule(
    Severity.WARNING,
    remedy="Remove the character. Send an address as several lines, and a name on one.",
)
def invisible_characters(account: CheckedAccount) -> Iterator[Fault]:
    """A name or a line of an address has a character that cannot be seen, such as a line feed."""
    yield from _check(account.data, (), _BILLING)
    for i, customer in enumerate(account.customers):
        yield from _check(customer, ("customers", i), _OF_CUSTOMER)
    for i, address in enumerate(account.supply_addresses):
        yield from _check(address, ("supply_addresses", i), _SUPPLY)


def _check(item: Item, path: Path, fields: tuple[str, ...]) -> Iterator[Fault]:
    for field in fields:
        if character := find_invisible(item.get(field, "")):
            yield (*path, field), f"This has {character}, which cannot be seen: remove it."
