"""How much was sent, by what became of it, and what of it is open."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from migration_service.states import OpenReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The number of accounts and lines that were sent, by outcome. The first is the sum of the next five."""

    sent: int
    #: Refused by validation or by the database. Nothing of it is staged.
    refused: int
    #: Not decided yet: the line is pending, or its batch only validates.
    waiting: int
    #: Staged, and not created.
    staged: int
    created: int
    #: Excluded by operators.
    skipped: int
    #: Those refused, waiting, or created from an older version that were acknowledged with a reason.
    acknowledged: int
    #: Refused, waiting, staged, and created from an older version, less those acknowledged.
    open: int
    #: Lines of stage and import batches that are no longer kept, so it is unknown which were refused.
    lines_removed: int
    #: How many of those staged, and of those created, are older than a version that was sent and not taken.
    staged_older_version: int = 0
    created_older_version: int = 0


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An account, or a line without a number, that was sent and is open."""

    external_account_number: str | None
    reason: OpenReason
    #: The newest line that had it, or None if it is staged and no newer version was refused.
    batch_id: UUID | None = None
    line_number: int | None = None
    #: Objects of detail, code, attr.
    errors: list[Any] | None = None
