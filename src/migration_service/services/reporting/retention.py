"""Removing data at the end of its retention period, because personal data must not be kept for ever.

Every function removes at most PIECE items and returns their number. The caller repeats it until none is left.
docs/operators/personal-data.md lists the retention periods of all data.
"""

from collections.abc import Callable
from functools import partial

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from migration_service.config import Settings
from migration_service.db.base import literals
from migration_service.db.cancelling import allow_minutes
from migration_service.models import Batch
from migration_service.services.access.operator_sessions import remove_old_operator_sessions
from migration_service.services.access.sessions import remove_old_sessions
from migration_service.services.accounts.erasure import REMOVE_PROCESSES, remove_staged_again
from migration_service.services.batches.control import cancel_batch
from migration_service.services.events.reading import HORIZON
from migration_service.services.idempotency.keys import remove_old_keys
from migration_service.services.reconciliation import created_accounts
from migration_service.services.reconciliation.submitted import count_before_removal
from migration_service.services.webhooks.deliveries import remove_old_deliveries
from migration_service.states import BatchState, EmailState, ImportState

#: The largest number of items removed in one transaction.
PIECE = 10_000
#: The largest number of batches whose open lines are counted in one transaction.
_COUNTED = 50

#: Removes one piece, and returns the number of its items.
Removal = Callable[[Session], int]


def removals(settings: Settings) -> list[Removal]:
    """Return the removals that the settings enable, in order. 0 days disables a removal."""
    by_days = (
        (cancel_idle_batches, settings.batch_idle_days),
        (remove_batch_lines, settings.batch_retention_days),
        (remove_payloads, settings.payload_retention_days),
        (remove_old_figures, settings.payload_retention_days),
        (remove_staged, settings.staged_retention_days),
        (remove_error_texts, settings.error_retention_days),
    )
    wanted: list[Removal] = [partial(remove, after_days=days) for remove, days in by_days if days]
    wanted.append(
        partial(
            remove_old_events,
            after_days=settings.event_retention_days,
            consumer_days=settings.event_consumer_days,
            limit=PIECE,
        )
    )
    again, sessions = partial(remove_staged_again, limit=PIECE), partial(remove_old_sessions, limit=PIECE)
    deliveries = partial(remove_old_deliveries, limit=PIECE)
    return [*wanted, again, sessions, remove_old_keys, remove_old_operator_sessions, deliveries]


def cancel_idle_batches(session: Session, *, after_days: int) -> int:
    """Cancel batches that are paused or wait for their supplier, and have been idle for longer.

    Their lines are then removed like those of every batch that has ended. The batches of waves are kept until
    their plan is finished.
    """
    ids = session.scalars(_LOCK_IDLE, {"days": after_days, "limit": PIECE}).all()
    for batch_id in ids:
        cancel_batch(session, session.get_one(Batch, batch_id))
    return len(ids)


def remove_batch_lines(session: Session, *, after_days: int) -> int:
    """Remove the lines and results of batches that ended longer ago. The batch and its counts are kept.

    How many of its lines are open is counted before the first is removed.
    """
    due = select(Batch).where(text(_IS_DUE), Batch.removed_refused.is_(None)).limit(_COUNTED)
    batches = session.scalars(due.with_for_update(), {"days": after_days}).all()
    for batch in batches:
        count_before_removal(session, batch)
    session.flush()
    removed = len(session.execute(_REMOVE_LINES, {"days": after_days, "limit": PIECE}).all())
    if len(batches) == _COUNTED:
        return PIECE
    if removed < PIECE:
        session.execute(_MARK_REMOVED, {"days": after_days})
    return removed


def remove_payloads(session: Session, *, after_days: int) -> int:
    """Remove the staged payloads of accounts that were created longer ago."""
    ids = session.scalars(_LOCK_IMPORTED, {"days": after_days, "limit": PIECE}).all()
    if ids:
        allow_minutes(session)
        created_accounts.remove_payloads(session, ids)
    return len(ids)


def remove_old_figures(session: Session, *, after_days: int) -> int:
    """Remove the figures of old systems that arrived longer ago. What came of them is kept."""
    return len(session.execute(_REMOVE_FIGURES, {"days": after_days, "limit": PIECE}).all())


def remove_staged(session: Session, *, after_days: int) -> int:
    """Remove staged accounts that were never created, if they were last staged longer ago.

    They can be staged again. Skipped accounts keep a skip mark.
    """
    rows = session.execute(_LOCK_STAGED, {"days": after_days, "limit": PIECE}).all()
    if rows:
        ids = {"process_ids": [row.id for row in rows]}
        session.execute(_MARK_SKIPPED, ids)
        session.execute(REMOVE_PROCESSES, ids)
    return len(rows)


def remove_error_texts(session: Session, *, after_days: int) -> int:
    """Remove the texts of failures of attempts, customer e-mails and refused versions.

    Values that differed in a comparison are removed, too. Outcomes, codes and the marks of refused versions
    are kept. Alerts that were sent or refused are removed as well, because they contain the addresses of
    people.
    """
    values = {"days": after_days, "limit": PIECE}
    statements = (
        *(_REMOVE_ATTEMPT_ERRORS, _REMOVE_EMAIL_ERRORS, _REMOVE_VERSION_ERRORS, _REMOVE_ALERTS),
        _REMOVE_COMPARED_VALUES,
    )
    return max(len(session.execute(statement, values).all()) for statement in statements)


_BEFORE = "< now() - make_interval(days => :days)"


def _some(table: str, condition: str) -> str:
    """Return the end of a statement about at most `:limit` unlocked rows of a table.

    An array is built once, whereas a subquery after IN may run for each row and exceed the limit.
    """
    return f"""
        WHERE id = ANY (ARRAY(
            SELECT id FROM {table} WHERE {condition} LIMIT :limit FOR UPDATE SKIP LOCKED))
        RETURNING 1"""


_IS_IDLE = f"""
    finished_at IS NULL AND state IN ({literals([BatchState.PAUSED, BatchState.WAITING])})
    AND greatest(created_at, (SELECT max(worked_at) FROM batch_chunk WHERE batch_id = batch.id)) {_BEFORE}
    AND NOT EXISTS (
        SELECT FROM wave JOIN wave_plan AS plan ON plan.id = wave.plan_id
        WHERE wave.batch_id = batch.id AND plan.finished_at IS NULL)"""
_LOCK_IDLE = text(f"SELECT id FROM batch WHERE {_IS_IDLE} LIMIT :limit FOR UPDATE SKIP LOCKED")

_IS_DUE = f"batch.finished_at {_BEFORE} AND batch.lines_removed_at IS NULL"
_REMOVE_LINES = text(f"""
    DELETE FROM batch_line WHERE ctid = ANY (ARRAY(
        SELECT line.ctid FROM batch JOIN batch_line AS line ON line.batch_id = batch.id
        WHERE {_IS_DUE} AND batch.removed_refused IS NOT NULL
        LIMIT :limit))
    RETURNING 1
""")

_MARK_REMOVED = text(f"""
    UPDATE batch SET lines_removed_at = now()
    WHERE {_IS_DUE}
      AND NOT EXISTS (SELECT FROM batch_line WHERE batch_id = batch.id)
""")

_LOCK_STAGED = text(f"""
    SELECT id FROM account_import_process
    WHERE state IN ({literals([ImportState.PENDING, ImportState.SKIPPED])})
      AND staged_at {_BEFORE}
    LIMIT :limit FOR UPDATE SKIP LOCKED
""")

_MARK_SKIPPED = text(f"""
    INSERT INTO skip_mark (import_supplier_id, external_account_number)
    SELECT import_supplier_id, external_account_number FROM account_import_process
    WHERE id = ANY (:process_ids) AND state = '{ImportState.SKIPPED}'
    ON CONFLICT DO NOTHING
""")

_LOCK_IMPORTED = text(f"""
    SELECT id FROM account_import_process
    WHERE state = '{ImportState.IMPORTED}' AND coalesce(payload, refused_payload) IS NOT NULL
      AND account_created_at {_BEFORE}
    LIMIT :limit FOR UPDATE SKIP LOCKED
""")
_REMOVE_FIGURES = text(f"""
    WITH removed AS (
        DELETE FROM old_figure WHERE ctid = ANY (ARRAY(
            SELECT old_figure.ctid FROM old_figures JOIN old_figure USING (import_supplier_id)
            WHERE uploaded_at {_BEFORE} LIMIT :limit))
        RETURNING 1),
    files AS (
        DELETE FROM old_figures WHERE uploaded_at {_BEFORE} AND NOT EXISTS (
            SELECT FROM old_figure WHERE old_figure.import_supplier_id = old_figures.import_supplier_id))
    SELECT * FROM removed
""")
_REMOVE_ATTEMPT_ERRORS = text(
    "UPDATE attempt SET errors = NULL, error_detail = NULL"
    + _some("attempt", f"(errors IS NOT NULL OR error_detail IS NOT NULL) AND finished_at {_BEFORE}")
)
_REMOVE_VERSION_ERRORS = text(
    "UPDATE account_import_process SET refused_errors = NULL"
    + _some("account_import_process", f"refused_errors IS NOT NULL AND refused_at {_BEFORE}")
)
# What differed in which account is kept until the next comparison; the values are not.
_REMOVE_COMPARED_VALUES = text(f"""
    UPDATE compared_account SET found = CAST(jsonb_set(CAST(found AS jsonb), '{{values}}', '[]') AS text)
    WHERE ctid = ANY (ARRAY(
        SELECT compared_account.ctid FROM comparison JOIN compared_account ON comparison_id = comparison.id
        WHERE comparison.finished_at {_BEFORE} AND CAST(found AS jsonb) -> 'values' <> '[]'
        LIMIT :limit FOR UPDATE OF compared_account SKIP LOCKED))
    RETURNING 1
""")
# An alert is sent again if its subject is still waiting at the end of the retention period.
_REMOVE_ALERTS = text(
    "DELETE FROM alert_email"
    + _some("alert_email", f"state <> '{EmailState.PENDING}' AND created_at {_BEFORE}")
)
_REMOVE_EMAIL_ERRORS = text(
    "UPDATE customer_email SET error = NULL"
    + _some("customer_email", f"error IS NOT NULL AND created_at {_BEFORE}")
)


def remove_old_events(session: Session, *, after_days: int, consumer_days: int, limit: int) -> int:
    """Remove at most `limit` events whose transactions began more than `after_days` days ago.

    Return their number. Only the beginning of a feed is removed: up to the first event that is younger, whose
    transaction is not below the horizon, or that a named consumer has not passed. A consumer that has not
    asked for `consumer_days` days is given up. The last event before that place stays, as the mark of what
    was removed: whoever has read up to it, or further, has missed nothing.
    """
    values = {"days": after_days, "consumer_days": consumer_days, "limit": limit}
    return len(session.execute(_REMOVE, values).all())


_REMOVE = text(f"""
    WITH horizon AS MATERIALIZED (SELECT {HORIZON} AS value),
    judged AS (
        SELECT organisation.id AS organisation_id, beginning.*
        FROM organisation LEFT JOIN LATERAL (
            SELECT coalesce(generation, -32768) AS generation, coalesce(transaction_id, 0) AS transaction_id,
                   coalesce(event_id, '00000000-0000-0000-0000-000000000000') AS event_id
            FROM event_consumer
            WHERE organisation_id = organisation.id
              AND asked_at > now() - make_interval(days => :consumer_days)
            ORDER BY 1, 2, 3 LIMIT 1) AS slowest ON true
        CROSS JOIN LATERAL (
            SELECT generation, transaction_id, id,
                   bool_and(created_at < now() - make_interval(days => :days)
                            AND (generation, transaction_id) < (0, (SELECT value FROM horizon))
                            AND (slowest.generation IS NULL OR (generation, transaction_id, id)
                                 <= (slowest.generation, slowest.transaction_id, slowest.event_id)))
                       OVER (ORDER BY generation, transaction_id, id) AS goes
            FROM (SELECT * FROM event WHERE event.organisation_id = organisation.id
                  ORDER BY generation, transaction_id, id LIMIT :limit + 1) AS event) AS beginning),
    doomed AS MATERIALIZED (
        SELECT organisation_id, generation, transaction_id, id
        FROM (SELECT *, lead(goes) OVER (PARTITION BY organisation_id ORDER BY generation, transaction_id, id)
                        AS next_goes FROM judged) AS placed
        WHERE goes AND next_goes LIMIT :limit)
    DELETE FROM event USING doomed
    WHERE event.organisation_id = doomed.organisation_id AND event.generation = doomed.generation
      AND event.transaction_id = doomed.transaction_id AND event.id = doomed.id
    RETURNING 1
""")
