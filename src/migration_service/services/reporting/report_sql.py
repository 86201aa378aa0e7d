"""The SQL statements of `services.reporting.report`."""

from sqlalchemy import ARRAY, Uuid, bindparam, text

from migration_service.db.base import literals
from migration_service.origin import ActorKind
from migration_service.services.audit.entries import AuditAction
from migration_service.states import AuditOutcome, ImportState, LineStatus, UndoOutcome

#: The batches of a report. NULL stands for all batches of the supplier.
_BATCH_IDS = bindparam("batch_ids", type_=ARRAY(Uuid))

#: The error codes of failed lines of batches, and the first lines of each.
FAILED_BY_CODE = text(f"""
    WITH found AS (
        SELECT item ->> 'code' AS code, item ->> 'attr' AS path, batch_id, line_number,
               row_number() OVER (PARTITION BY item ->> 'code' ORDER BY batch_id, line_number) AS place
        FROM batch_line, jsonb_array_elements(errors) AS item
        WHERE batch_id = ANY (:batch_ids) AND status = '{LineStatus.FAILED}')
    SELECT code, count(DISTINCT (batch_id, line_number)) AS lines,
           jsonb_agg(jsonb_build_array(batch_id, line_number, path) ORDER BY place)
               FILTER (WHERE place <= :examples) AS examples
    FROM found GROUP BY code ORDER BY lines DESC, code LIMIT :limit
""").bindparams(_BATCH_IDS)

#: The first and last time that lines of batches were processed, and the number of lines of the batches.
TIME_OF_LINES = text("""
    SELECT min(started_at) AS since,
           CASE WHEN bool_and(finished_at IS NOT NULL) THEN max(finished_at) ELSE now() END AS until,
           CAST(sum(lines) AS bigint) AS total
    FROM batch WHERE id = ANY (:batch_ids) AND started_at IS NOT NULL
""").bindparams(_BATCH_IDS)

#: Lines of batches done in each interval of `width` seconds, starting at `since`. Of a chunk that was
#: retried, only the lines that were done again count: the others were done before its batch started again.
LINES_OVER_TIME = text("""
    SELECT CAST(floor(extract(epoch FROM worked_at - :since) / :width) AS bigint) AS part,
           CAST(sum(worked) AS bigint) AS done
    FROM batch_chunk WHERE batch_id = ANY (:batch_ids) AND worked > 0 AND worked_at >= :since
    GROUP BY part
""").bindparams(_BATCH_IDS)

#: The first and last time that accounts of a supplier were created, and their number.
TIME_OF_ACCOUNTS = text(f"""
    SELECT min(account_created_at) AS since, max(account_created_at) AS until, count(*) AS total
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND state = '{ImportState.IMPORTED}'
""")

#: Accounts of a supplier created in each interval.
ACCOUNTS_OVER_TIME = text(f"""
    SELECT CAST(floor(extract(epoch FROM account_created_at - :since) / :width) AS bigint) AS part,
           count(*) AS done
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND state = '{ImportState.IMPORTED}'
    GROUP BY part
""")

# The name given by the person who decided is more informative than that of the system user.
_WHO = """
    CASE WHEN position(actor IN details ->> 'by') = 0 THEN (details ->> 'by') || ' (' || actor || ')'
         ELSE coalesce(actor, details ->> 'by', actor_kind) END
"""

# Reading is not a decision.
_READ = literals([AuditAction.BATCH_RESULTS_READ])

#: The decisions of people and keys about a supplier with its batches, waves and undos, or about batches.
#: Automatic changes of a wave, as at the end of its window, are not decisions.
DECISIONS = text(f"""
    SELECT * FROM (
        SELECT at, {_WHO} AS actor, action, subject_kind, subject, details
        FROM audit_entry
        WHERE outcome = '{AuditOutcome.DONE}' AND action NOT IN ({_READ})
          AND ((subject_kind = 'import_supplier' AND subject = :code AND :batch_ids IS NULL)
               OR (subject_kind = 'batch' AND subject IN (
                   SELECT CAST(id AS text) FROM batch WHERE import_supplier_id = :import_supplier_id
                     AND (:batch_ids IS NULL OR id = ANY (:batch_ids))))
               OR (subject_kind = 'undo' AND subject IN (
                   SELECT CAST(id AS text) FROM undo WHERE import_supplier_id = :import_supplier_id
                     AND (:batch_ids IS NULL OR batch_id = ANY (:batch_ids))))
               OR (subject_kind = 'wave_plan' AND subject IN (
                   SELECT CAST(id AS text) FROM wave_plan WHERE import_supplier_id = :import_supplier_id
                     AND (:batch_ids IS NULL OR id = :plan_id)))
               OR (subject_kind = 'wave' AND actor_kind <> '{ActorKind.SERVICE}' AND subject IN (
                   SELECT plan_id || ' ' || number FROM wave JOIN wave_plan ON wave_plan.id = plan_id
                   WHERE import_supplier_id = :import_supplier_id
                     AND (:batch_ids IS NULL OR batch_id = ANY (:batch_ids)))))
        ORDER BY at DESC, id DESC LIMIT :limit) AS newest
    ORDER BY at
""").bindparams(_BATCH_IDS, bindparam("plan_id", type_=Uuid))

#: The undos of a supplier or of batches, with the numbers of reverted and kept accounts.
UNDOS = text(f"""
    SELECT undo.id, undo.state, undo.reason, undo.overrides, undo.created_at, undo.accounts,
           count(*) FILTER (WHERE outcome = '{UndoOutcome.REVERTED}') AS reverted,
           count(*) FILTER (WHERE outcome = '{UndoOutcome.KEPT}') AS kept
    FROM undo LEFT JOIN undo_line AS line ON line.undo_id = undo.id
    WHERE import_supplier_id = :import_supplier_id
      AND (:batch_ids IS NULL OR batch_id = ANY (:batch_ids))
    GROUP BY undo.id ORDER BY undo.id DESC LIMIT :limit
""").bindparams(_BATCH_IDS)

#: The person or key that started each batch: the name or prefix of the key, or the person who started it or
#: planned its wave. If the audit no longer has that, the machine on which the command ran.
STARTERS = text(f"""
    WITH started AS (
        SELECT batch.id, batch.api_key_id, batch.address, CAST(batch.id AS text) AS batch_subject,
               CAST(wave.plan_id AS text) AS plan_subject
        FROM batch LEFT JOIN wave ON wave.batch_id = batch.id WHERE batch.id = ANY (:batch_ids)
    ), ordered AS MATERIALIZED (
        SELECT DISTINCT ON (subject_kind, subject) subject_kind, subject, {_WHO} AS actor
        FROM audit_entry
        WHERE outcome = '{AuditOutcome.DONE}'
          AND ((action = '{AuditAction.BATCH_ORDERED}' AND subject IN (SELECT batch_subject FROM started))
               OR (action = '{AuditAction.WAVE_PLAN_CREATED}'
                   AND subject IN (SELECT plan_subject FROM started)))
        ORDER BY subject_kind, subject, id
    )
    SELECT started.id,
           coalesce(api_key.name, api_key.prefix, ordered.actor, 'command on ' || started.address) AS name
    FROM started LEFT JOIN api_key ON api_key.id = started.api_key_id
    LEFT JOIN ordered
      ON (subject_kind, subject) IN (('batch', batch_subject), ('wave_plan', plan_subject))
""").bindparams(_BATCH_IDS)
