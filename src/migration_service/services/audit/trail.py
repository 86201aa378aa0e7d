"""Reading the whole audit: its entries, and the rows of staging, processing, added data and batches.

All have the same fields and are listed newest first. Accounts that exist are shown with their external
account number; the audit stores only the id of their process.
"""

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session

from migration_service.db.base import literals
from migration_service.db.cancelling import allow_minutes
from migration_service.errors import AuditCursorError
from migration_service.services.audit.entries import AuditAction
from migration_service.states import AuditOutcome, Outcome, StatementOrigin, TransactionPeriod, UndoOutcome

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
    session: Session, subject_kind: str, subjects: Collection[str]
) -> list[dict[str, Any]]:
    """Return the newest 50 audit entries about a subject under any of its names, newest first.

    This is faster than `read_trail`, which looks up the account of every entry.
    """
    values = {"subject_kind": subject_kind, "subjects": list(subjects)}
    return [dict(row) for row in session.execute(_ABOUT, values).mappings()]


def stream_trail(session: Session, wanted: TrailFilter) -> Iterator[dict[str, Any]]:
    """Yield all selected entries, newest first, in constant memory."""
    values = _values(wanted) | {"limit": None, "before_at": None, "before_key": None}
    allow_minutes(session, "0")
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
    return asdict(wanted) | {
        "account": wanted.account and " ".join(wanted.account),
        "organisation_ids": None if wanted.organisation_ids is None else list(wanted.organisation_ids),
    }


_ABOUT = text("""
    SELECT at, actor_kind, actor, address, request_id, action, subject_kind, subject, outcome, code, details
    FROM audit_entry WHERE subject_kind = :subject_kind AND subject = ANY (CAST(:subjects AS text[]))
    ORDER BY at DESC, id DESC LIMIT 50
""")

# The persons who started batches and undos without an API key, by the request id in their rows. A batch
# without an entry belongs to a plan of waves.
_PERSONS = f"""
    SELECT DISTINCT ON (request_id) request_id, actor_kind, actor FROM (
        SELECT entry.subject_kind || ' ' || entry.subject AS request_id, entry.actor_kind, entry.actor,
               entry.id
        FROM audit_entry AS entry
        WHERE entry.action IN ({literals((AuditAction.BATCH_ORDERED, AuditAction.BATCH_TAKEN_OVER))},
                               '{AuditAction.UNDO_STARTED}')
        UNION ALL
        SELECT 'batch ' || wave.batch_id, entry.actor_kind, entry.actor, entry.id
        FROM wave
        JOIN audit_entry AS entry ON entry.action = '{AuditAction.WAVE_PLAN_CREATED}'
             AND entry.subject = wave.plan_id::text) AS found
    ORDER BY request_id, id DESC
"""

# Every row that records its author, in the form of an entry. The key determines the organisation.
_BY_KEY = """
    SELECT {at} AS at, '{name} ' || written.id AS key,
           CASE WHEN api_key.id IS NULL THEN coalesce(person.actor_kind, 'service') ELSE 'api_key' END
               AS actor_kind,
           coalesce(api_key.prefix, person.actor) AS actor, {organisation_id} AS organisation_id,
           written.{address} AS address, written.{request_id} AS request_id, '{action}' AS action,
           {subject_kind} AS subject_kind, {subject} AS subject, {outcome} AS outcome,
           {code} AS code, NULL::jsonb AS details
    FROM {table} AS written {joins}
    LEFT JOIN api_key ON api_key.id = written.{api_key_id}
    LEFT JOIN person ON api_key.id IS NULL AND person.request_id = {ordered_by}
    WHERE {condition}
"""


def _written(table: str, action: str, at: str, **others: str) -> str:
    fields = {
        "name": table.strip('"'),
        "organisation_id": "supplier.organisation_id",
        "address": "address",
        "request_id": "request_id",
        "api_key_id": "api_key_id",
        "subject_kind": "'account'",
        "subject": "supplier.code || ' ' || account.external_account_number",
        "outcome": f"'{AuditOutcome.DONE}'",
        "code": "NULL",
        "joins": "JOIN account ON account.id = written.account_pk "
        "JOIN import_supplier AS supplier ON supplier.id = account.import_supplier_id",
        "condition": "true",
    }
    fields |= others
    fields.setdefault("ordered_by", f"written.{fields['request_id']}")
    return _BY_KEY.format(table=table, action=action, at=at, **fields)


_SUPPLIER_OF = "JOIN import_supplier AS supplier ON supplier.id = {}.import_supplier_id"
_PROCESS = "JOIN account_import_process AS account ON account.id = written.account_import_process_id "

_REVERTED = f"""(
    SELECT line.undo_id || ' ' || lpad(line.position::text, 20, '0') AS id, line.account_import_process_id,
           line.finished_at, undo.api_key_id, undo.request_id, undo.address, undo.id AS undo_id
    FROM undo_line AS line JOIN undo ON undo.id = line.undo_id
    WHERE line.outcome = '{UndoOutcome.REVERTED}')"""

_ROWS = [
    _written(
        "account_import_process",
        "account.staged",
        "written.staged_at",
        api_key_id="staged_by_api_key_id",
        request_id="staged_request_id",
        address="staged_address",
        subject="supplier.code || ' ' || written.external_account_number",
        joins=_SUPPLIER_OF.format("written"),
    ),
    _written(
        "attempt",
        "account.processed",
        "written.created_at",
        joins=_PROCESS + _SUPPLIER_OF.format("account"),
        outcome=f"CASE WHEN written.outcome IN ({literals((Outcome.FAILED, Outcome.WITHDRAWN))}) "
        f"THEN '{AuditOutcome.REFUSED}' ELSE '{AuditOutcome.DONE}' END",
        code="coalesce(written.error_code, lower(written.outcome))",
    ),
    _written(
        "batch",
        "batch.started",
        "written.created_at",
        organisation_id="written.organisation_id",
        subject_kind="'batch'",
        subject="written.id::text",
        joins="",
        ordered_by="'batch ' || written.id",
    ),
    # A line of an undo, with the author stored in the undo.
    _written(
        _REVERTED,
        "account.reverted",
        "written.finished_at",
        name="undo_line",
        ordered_by="'undo ' || written.undo_id",
        subject="supplier.code || ' ' || account.external_account_number",
        joins=_PROCESS + _SUPPLIER_OF.format("account"),
    ),
    _written(
        "token_session",
        "session.began",
        "written.created_at",
        organisation_id="api_key.organisation_id",
        subject_kind="'session'",
        subject="written.id::text",
        joins="",
    ),
    _written("note", "note.added", "written.added_at", condition="written.added_at IS NOT NULL"),
    _written(
        '"transaction"',
        "transaction.added",
        "written.created_at",
        condition=f"written.period = '{TransactionPeriod.ADDED}'",
    ),
    _written(
        "statement",
        "statement.added",
        "written.created_at",
        condition=f"written.origin = '{StatementOrigin.ADDED}'",
    ),
    _written("payment_instruction", "payment_instruction.added", "written.created_at"),
]

#: The real entries of the audit.
_ENTRIES = """
    SELECT entry.at, 'audit_entry ' || lpad(entry.id::text, 20, '0') AS key, entry.actor_kind, entry.actor,
           entry.organisation_id, entry.address, entry.request_id, entry.action, entry.subject_kind,
           coalesce(supplier.code || ' ' || account.external_account_number, entry.subject) AS subject,
           entry.outcome, entry.code, entry.details
    FROM audit_entry AS entry
    LEFT JOIN account_import_process AS account
         ON account.id = CASE WHEN entry.subject_kind = 'account' AND entry.subject ~ '^[0-9]{1,18}$'
                              THEN entry.subject::bigint END
    LEFT JOIN import_supplier AS supplier ON supplier.id = account.import_supplier_id
"""

#: The whole audit. For rows written by a batch or an undo, the person is taken from its entry.
_STORY = f"WITH person AS MATERIALIZED ({_PERSONS}) {' UNION ALL '.join([_ENTRIES, *_ROWS])}"


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


_PAGE = _page(_STORY)
_PAGE_OF_ENTRIES = _page(_ENTRIES)


def _statement(wanted: TrailFilter) -> TextClause:
    return _PAGE_OF_ENTRIES if wanted.only_entries else _PAGE
