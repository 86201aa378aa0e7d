"""The SQL of the whole audit: its entries, and the rows that record an author without an entry."""

from migration_service.db.base import literals
from migration_service.services.audit.entries import AuditAction
from migration_service.states import AuditOutcome, Outcome, StatementOrigin, TransactionPeriod, UndoOutcome

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
ENTRIES = """
    SELECT entry.at, 'audit_entry ' || lpad(entry.id::text, 20, '0') AS key, entry.actor_kind, entry.actor,
           entry.organisation_id, entry.address, entry.request_id, entry.action, entry.subject_kind,
           coalesce(supplier.code || ' ' || account.external_account_number, entry.subject) AS subject,
           entry.outcome, entry.code, entry.details
    FROM audit_entry AS entry
    LEFT JOIN account_import_process AS account
         ON entry.subject_kind = 'account' AND account.id::text = entry.subject
    LEFT JOIN import_supplier AS supplier ON supplier.id = account.import_supplier_id
"""

#: The whole audit. For rows written by a batch or an undo, the person is taken from its entry.
STORY = f"WITH person AS MATERIALIZED ({_PERSONS}) {' UNION ALL '.join([ENTRIES, *_ROWS])}"
