"""The counts of sent accounts and lines by outcome, and the open items."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from migration_service.states import OpenReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The numbers of sent accounts and lines by outcome. The first is the sum of the next five."""

    sent: int
    #: Refused by validation or by the database, and not staged.
    refused: int
    #: Not decided yet: the line is pending, or its batch only validates.
    waiting: int
    #: Staged, and not created.
    staged: int
    created: int
    #: Excluded by operators.
    skipped: int
    #: Refused, waiting, or created from an older version, and acknowledged with a reason.
    acknowledged: int
    #: Refused, waiting, staged, or created from an older version, minus the acknowledged ones.
    open: int
    #: Lines of stage and import batches that are no longer kept, so that refusals are unknown.
    lines_removed: int
    #: The numbers of staged, and of created, accounts that are older than a refused version.
    staged_older_version: int = 0
    created_older_version: int = 0
    #: Refused lines of the supplier's batches of added data. They do not count as open, except in a
    #: reconciliation of their own batch, and are 0 in a reconciliation of a batch.
    added_lines_refused: int = 0


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An open account, or an open line without a number."""

    external_account_number: str | None
    reason: OpenReason
    #: Its newest line, or None if it is staged and no newer version was refused.
    batch_id: UUID | None = None
    line_number: int | None = None
    #: Objects with detail, code and attr.
    errors: list[Any] | None = None
