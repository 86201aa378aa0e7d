"""Reading the whole audit: its entries, and the rows of staging, processing, added data and batches.

All have the same fields and are listed newest first. Accounts that exist are shown with their external
account number; the audit stores only the id of their process.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session

from migration_service.errors import AuditCursorError
from migration_service.services.audit.sql import ENTRIES, STORY

#: The fields of every entry, in their order.
FIELDS = (
    "at",
    "actor_kind",
    "actor",
    "organisation",
    "address",
    "request_id",
    "action",
    "subject_kind",
    "subject",
    "outcome",
    "code",
    "details",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailFilter:
    """A filter of audit entries. None selects all."""

    since: datetime | None = None
    until: datetime | None = None
    #: The name of an organisation.
    organisation: str | None = None
    #: The prefix of a key, or the name of an operator or system user.
    actor: str | None = None
    action: str | None = None
    request_id: str | None = None
    #: DONE or REFUSED.
    outcome: str | None = None
    #: The code of an import supplier, and an external account number.
    account: tuple[str, str] | None = None
    #: The ids of the visible organisations, or None for all.
    organisation_ids: Collection[int] | None = None
    #: Whether to leave out the many rows of staging and processing.
    only_entries: bool = False


def read_trail(
    session: Session, wanted: TrailFilter, *, limit: int, cursor: str | None = None
) -> tuple[list[dict[str, Any]], str | None]:
    """Return a page of the audit, newest first, and the cursor of the next page if one exists.

    Raise AuditCursorError if `cursor` is not from an earlier page.
    """
    before_at, before_key = _read_cursor(cursor)
    values = _values(wanted) | {"limit": limit + 1, "before_at": before_at, "before_key": before_key}
    rows = session.execute(_statement(wanted), values).all()
    more = rows[limit - 1] if len(rows) > limit else None
    records = [{name: getattr(row, name) for name in FIELDS} for row in rows[:limit]]
    return records, f"{more.at.isoformat()}|{more.key}" if more else None


def list_entries_about(
    session: Session, subject_kind: str, subjects: Collection[str], limit: int = 50
) -> list[dict[str, Any]]:
    """Return the audit entries about a subject under any of its names, newest first.

    This is faster than `read_trail`, which looks up the account of every entry.
    """
    values = {"subject_kind": subject_kind, "subjects": list(subjects), "limit": limit}
    return [dict(row) for row in session.execute(_ABOUT, values).mappings()]


def stream_trail(session: Session, wanted: TrailFilter) -> Iterator[dict[str, Any]]:
    """Yield all selected entries, newest first, in constant memory."""
    values = _values(wanted) | {"limit": None, "before_at": None, "before_key": None}
    session.execute(text("SET LOCAL statement_timeout = 0"))
    rows = session.execute(_statement(wanted), values, execution_options={"yield_per": 1_000})
    for row in rows:
        yield {name: getattr(row, name) for name in FIELDS}


def _read_cursor(cursor: str | None) -> tuple[datetime | None, str | None]:
    if cursor is None:
        return None, None
    at, _, key = cursor.partition("|")
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise AuditCursorError(found=cursor) from None
    if not key or moment.tzinfo is None:
        raise AuditCursorError(found=cursor)
    return moment, key


def _values(wanted: TrailFilter) -> dict[str, Any]:
    supplier, number = wanted.account or (None, None)
    return {
        "since": wanted.since,
        "until": wanted.until,
        "organisation": wanted.organisation,
        "actor": wanted.actor,
        "action": wanted.action,
        "request_id": wanted.request_id,
        "outcome": wanted.outcome,
        "account": None if supplier is None else f"{supplier} {number}",
        "organisation_ids": None if wanted.organisation_ids is None else list(wanted.organisation_ids),
    }


_ABOUT = text("""
    SELECT at, actor_kind, actor, address, request_id, action, subject_kind, subject, outcome, code, details
    FROM audit_entry WHERE subject_kind = :subject_kind AND subject = ANY (CAST(:subjects AS text[]))
    ORDER BY at DESC, id DESC LIMIT :limit
""")


def _page(story: str) -> TextClause:
    return text(f"""
        SELECT told.*, organisation.name AS organisation
        FROM ({story}) AS told
        LEFT JOIN organisation ON organisation.id = told.organisation_id
        WHERE (CAST(:since AS timestamptz) IS NULL OR told.at >= :since)
          AND (CAST(:until AS timestamptz) IS NULL OR told.at < :until)
          AND (CAST(:organisation AS text) IS NULL OR organisation.name = :organisation)
          AND (CAST(:organisation_ids AS bigint[]) IS NULL
               OR told.organisation_id = ANY (CAST(:organisation_ids AS bigint[])))
          AND (CAST(:actor AS text) IS NULL OR told.actor = :actor)
          AND (CAST(:action AS text) IS NULL OR told.action = :action)
          AND (CAST(:request_id AS text) IS NULL OR told.request_id = :request_id)
          AND (CAST(:outcome AS text) IS NULL OR told.outcome = :outcome)
          AND (CAST(:account AS text) IS NULL OR (told.subject_kind, told.subject) = ('account', :account))
          AND (CAST(:before_at AS timestamptz) IS NULL
               OR (told.at, told.key) < (CAST(:before_at AS timestamptz), CAST(:before_key AS text)))
        ORDER BY told.at DESC, told.key DESC
        LIMIT :limit
    """)


_PAGE = _page(STORY)
_PAGE_OF_ENTRIES = _page(ENTRIES)


def _statement(wanted: TrailFilter) -> TextClause:
    return _PAGE_OF_ENTRIES if wanted.only_entries else _PAGE
