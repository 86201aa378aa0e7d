"""In which fields a created account is not as it was sent, one by one.

Reconciliation compares counts and sums. This compares what one page shows: a number that was sent with spaces
and is kept without them is a difference here, and is meant to be seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import AccountImportProcess

#: Balances are the current ones, and move with what is added. Reconciliation compares those. The supplier
#: is not a part of the account.
_NOT_COMPARED = frozenset({"ledger_balance", "import_supplier"})


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A value that was sent and is not the one of the account. None: the account has none."""

    path: str
    sent: Any
    created: Any


def read_sent(session: Session, process_id: int) -> dict[str, Any] | None:
    """Return the payload that was staged, or None if it was removed after its retention time."""
    return session.scalar(select(AccountImportProcess.payload).where(AccountImportProcess.id == process_id))


def compare_fields(sent: Any, created: Any, path: str = "") -> Iterator[FieldDifference]:
    """Yield every value that was sent and that the account has differently, or not at all."""
    if isinstance(sent, dict):
        for name, value in sent.items():
            if name not in _NOT_COMPARED:
                below = created.get(name) if isinstance(created, dict) else None
                yield from compare_fields(value, below, f"{path}.{name}".lstrip("."))
    elif isinstance(sent, list):
        for index, value in enumerate(sent):
            has = isinstance(created, list) and index < len(created)
            yield from compare_fields(value, created[index] if has else None, f"{path}.{index}")
    elif not _is_empty(sent) and not _is_same(sent, created):
        yield FieldDifference(path, sent, created)


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


def _is_same(sent: Any, created: Any) -> bool:
    if sent == created or str(sent).strip() == str(created):
        return True
    if isinstance(sent, bool) or isinstance(created, bool):
        return str(sent).lower() == str(created).lower()
    if isinstance(created, datetime):
        return _same_moment(sent, created)
    try:
        return Decimal(str(sent)) == Decimal(str(created))
    except InvalidOperation:
        return False


def _same_moment(sent: Any, created: datetime) -> bool:
    try:
        moment = datetime.fromisoformat(str(sent))
    except ValueError:
        return False
    if (moment.tzinfo is None) != (created.tzinfo is None):
        return moment.replace(tzinfo=None) == created.replace(tzinfo=None)
    return moment == created
