"""The statements behind `services.reporting.report`."""

from sqlalchemy import Uuid, bindparam, text

from migration_service.db.base import literals
from migration_service.services.access.audit import AuditAction
from migration_service.states import AuditOutcome, ImportState, LineStatus, UndoOutcome

_BATCH_ID = bindparam("batch_id", type_=Uuid)

#: The codes for which lines of a batch failed, and the first lines of each.
FAILED_BY_CODE = text(f"""
    WITH found AS (
        SELECT item ->> 'code' AS code, item ->> 'attr' AS path, line_number,
               row_number() OVER (PARTITION BY item ->> 'code' ORDER BY line_number) AS place
        FROM batch_line, jsonb_array_elements(errors) AS item
        WHERE batch_id = :batch_id AND status = '{LineStatus.FAILED}')
    SELECT code, count(DISTINCT line_number) AS lines,
           jsonb_agg(jsonb_build_array(CAST(:batch_id AS uuid), line_number, path) ORDER BY place)
               FILTER (WHERE place <= :examples) AS examples
    FROM found GROUP BY code ORDER BY lines DESC, code LIMIT :limit
""")

#: Lines of a batch that were done in each part of its time, of `width` seconds from `since` on.
LINES_OVER_TIME = text("""
    SELECT CAST(floor(extract(epoch FROM finished_at - :since) / :width) AS bigint) AS part,
           CAST(sum((SELECT sum(CAST(value AS bigint)) FROM jsonb_each_text(counts))) AS bigint) AS done
    FROM batch_chunk WHERE batch_id = :batch_id AND finished_at >= :since
    GROUP BY part
""")

#: When accounts of a supplier were created, first and last.
TIME_OF_ACCOUNTS = text(f"""
    SELECT min(account_created_at) AS since, max(account_created_at) AS until
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND state = '{ImportState.IMPORTED}'
""")

#: Accounts of a supplier that were created in each part of that time.
ACCOUNTS_OVER_TIME = text(f"""
    SELECT CAST(floor(extract(epoch FROM account_created_at - :since) / :width) AS bigint) AS part,
           count(*) AS done
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND state = '{ImportState.IMPORTED}'
    GROUP BY part
""")

# What somebody only read is no decision.
_READ = literals([AuditAction.BATCH_RESULTS_READ])

#: What people and keys have decided about a supplier, its batches and its undos; or about one batch.
DECISIONS = text(f"""
    SELECT * FROM (
        SELECT at, coalesce(actor, actor_kind) AS actor, action, subject_kind, subject, details
        FROM audit_entry
        WHERE outcome = '{AuditOutcome.DONE}' AND action NOT IN ({_READ})
          AND ((subject_kind = 'import_supplier' AND subject = :code AND :batch_id IS NULL)
               OR (subject_kind = 'batch' AND subject IN (
                   SELECT CAST(id AS text) FROM batch
                   WHERE import_supplier_id = :import_supplier_id AND (:batch_id IS NULL OR id = :batch_id)))
               OR (subject_kind = 'undo' AND subject IN (
                   SELECT CAST(id AS text) FROM undo
                   WHERE import_supplier_id = :import_supplier_id
                     AND (:batch_id IS NULL OR batch_id = :batch_id))))
        ORDER BY at DESC, id DESC LIMIT :limit) AS newest
    ORDER BY at
""").bindparams(_BATCH_ID)

#: The undos of a supplier or a batch, with how many accounts were reverted and kept.
UNDOS = text(f"""
    SELECT undo.id, undo.batch_id, undo.state, undo.reason, undo.overrides, undo.created_at, undo.accounts,
           count(*) FILTER (WHERE outcome = '{UndoOutcome.REVERTED}') AS reverted,
           count(*) FILTER (WHERE outcome = '{UndoOutcome.KEPT}') AS kept
    FROM undo LEFT JOIN undo_line AS line ON line.undo_id = undo.id
    WHERE import_supplier_id = :import_supplier_id AND (:batch_id IS NULL OR batch_id = :batch_id)
    GROUP BY undo.id ORDER BY undo.id DESC LIMIT :limit
""").bindparams(_BATCH_ID)

#: Who started each batch: the name or the prefix of the key, or the machine on which the command ran.
STARTERS = text("""
    SELECT batch.id, coalesce(api_key.name, api_key.prefix, 'command on ' || batch.address) AS name
    FROM batch LEFT JOIN api_key ON api_key.id = batch.api_key_id
    WHERE batch.id = ANY (:batch_ids)
""")
