"""The SQL statements of `services.reconciliation.submitted`."""

from sqlalchemy import ARRAY, BigInteger, Text, Uuid, bindparam, text

from migration_service.db.base import literals
from migration_service.errors import DuplicateLineError
from migration_service.states import BatchKind, BatchMode, BatchSource, BatchState, ImportState, LineStatus

#: Modes whose payloads are kept, and states without an account.
_KEEPING = literals([BatchMode.STAGE, BatchMode.IMPORT])
_NOT_CREATED = literals([ImportState.PENDING, ImportState.IN_PROGRESS])


def _is_later(extracted_at: str, is_later: str) -> str:
    """Return the condition that a version is later than `batch`. Extract times decide, if both are known."""
    return f"""
        coalesce(CASE WHEN {extracted_at} <> batch.extracted_at THEN {extracted_at} > batch.extracted_at
                      ELSE {is_later} END, false)"""


# Condition on a process, a line and its batch: the line has a version of the account, has no outcome, and
# nothing that was sent later has settled the account. The array of batches that can have such lines is read
# once, and is usually empty.
_IS_UNDECIDED = f"""
    line.batch_id = ANY (ARRAY(
        SELECT id FROM batch
        WHERE import_supplier_id = :import_supplier_id AND (:batch_id IS NULL OR id = :batch_id)
          AND kind = '{BatchKind.ACCOUNTS}' AND mode IN ({_KEEPING}) AND source = '{BatchSource.UPLOAD}'
          AND state <> '{BatchState.COMPLETED}'))
    AND line.external_account_number = process.external_account_number
    AND line.status = '{LineStatus.PENDING}' AND line.chunk_line IS NULL
    AND process.state <> '{ImportState.SKIPPED}'
    AND NOT {_is_later("process.extracted_at", "process.staged_at >= batch.created_at")}
    AND NOT {_is_later("process.refused_extracted_at", "process.refused_at >= batch.created_at")}
    AND NOT EXISTS (
        SELECT FROM batch AS later JOIN batch_line AS taken ON taken.batch_id = later.id
        WHERE later.import_supplier_id = :import_supplier_id AND later.mode IN ({_KEEPING})
          AND later.source = '{BatchSource.UPLOAD}'
          AND taken.external_account_number = line.external_account_number AND taken.chunk_line IS NULL
          AND (taken.status NOT IN ('{LineStatus.PENDING}', '{LineStatus.FAILED}')
               OR taken.staging_result IS NOT NULL)
          AND {_is_later("later.extracted_at", "later.id > batch.id")})
    AND NOT EXISTS (
        SELECT FROM acknowledgement
        WHERE acknowledgement.import_supplier_id = :import_supplier_id
          AND acknowledgement.external_account_number = line.external_account_number
          AND acknowledged_at >= batch.created_at)
"""
_UNDECIDED = f"""
    FROM account_import_process AS process, batch_line AS line JOIN batch ON batch.id = line.batch_id
    WHERE process.import_supplier_id = :import_supplier_id AND {_IS_UNDECIDED}
"""
# With OFFSET it is evaluated for the accounts of a page, and not joined for all accounts.
_IS_WAITING = f"""
    EXISTS (SELECT FROM batch_line AS line JOIN batch ON batch.id = line.batch_id
            WHERE {_IS_UNDECIDED} OFFSET 0)
"""

# The account numbers without an import process on lines of stage and import batches (or of one batch in any
# mode), each with its newest line, and all lines without a number. The newest batch has the largest id. A
# line that repeats the number of an earlier one never counts. Also accounts with an import process of which
# a newer version waits.
_UNSTAGED = f"""
    SELECT DISTINCT ON (unnumbered, number_key, batch_key, line_key) *
    FROM (
        SELECT line.external_account_number, line.batch_id, line.line_number, line.status, line.errors,
               batch.created_at AS sent_at, line.external_account_number IS NULL AS unnumbered,
               coalesce(line.external_account_number, '') AS number_key,
               CASE WHEN line.external_account_number IS NULL
                    THEN CAST(line.batch_id AS text) ELSE '' END AS batch_key,
               CASE WHEN line.external_account_number IS NULL THEN line.line_number ELSE 0 END AS line_key
        FROM batch JOIN batch_line AS line ON line.batch_id = batch.id
        WHERE batch.import_supplier_id = :import_supplier_id
          AND batch.kind = '{BatchKind.ACCOUNTS}'
          AND (batch.id = :batch_id OR (:batch_id IS NULL AND batch.mode IN ({_KEEPING})))
          AND (line.errors IS NULL OR NOT line.errors @> '[{{"code": "{DuplicateLineError.code}"}}]')
          AND NOT EXISTS (
              SELECT FROM account_import_process AS process
              WHERE process.import_supplier_id = :import_supplier_id
                AND process.external_account_number = line.external_account_number)
        UNION ALL
        SELECT line.external_account_number, line.batch_id, line.line_number, line.status, line.errors,
               batch.created_at, false, line.external_account_number, '', 0
        {_UNDECIDED}) AS sent
    ORDER BY unnumbered, number_key, batch_key, line_key, batch_id DESC, line_number
"""

# Two conditions instead of one with OR inside, which no index could serve.
_ACKNOWLEDGED = """
    (EXISTS (SELECT FROM acknowledgement
             WHERE acknowledgement.import_supplier_id = :import_supplier_id
               AND acknowledgement.external_account_number = unstaged.external_account_number
               AND acknowledged_at >= sent_at)
     OR unnumbered AND EXISTS (
             SELECT FROM acknowledgement
             WHERE acknowledgement.import_supplier_id = :import_supplier_id
               AND acknowledgement.external_account_number IS NULL
               AND acknowledgement.batch_id = unstaged.batch_id
               AND acknowledgement.line_number = unstaged.line_number
               AND acknowledged_at >= sent_at))
"""

_BATCH_ID = bindparam("batch_id", type_=Uuid)

#: Counts of refused, waiting and acknowledged items without an import process.
COUNT_UNSTAGED = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED})
    SELECT count(*) FILTER (WHERE status = '{LineStatus.FAILED}') AS refused,
           count(*) FILTER (WHERE status <> '{LineStatus.FAILED}') AS waiting,
           count(*) FILTER (WHERE {_ACKNOWLEDGED}) AS acknowledged
    FROM unstaged
""").bindparams(_BATCH_ID)

#: The error codes of accounts and lines that are currently refused, and the first lines of each.
REFUSED_BY_CODE = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED}),
    found AS (
        SELECT item ->> 'code' AS code, item ->> 'attr' AS path, batch_id, line_number,
               row_number() OVER (PARTITION BY item ->> 'code' ORDER BY batch_id, line_number) AS place
        FROM unstaged, jsonb_array_elements(errors) AS item
        WHERE status = '{LineStatus.FAILED}')
    SELECT code, count(DISTINCT (batch_id, line_number)) AS lines,
           jsonb_agg(jsonb_build_array(batch_id, line_number, path) ORDER BY place)
               FILTER (WHERE place <= :examples) AS examples
    FROM found GROUP BY code ORDER BY lines DESC, code LIMIT :limit
""").bindparams(_BATCH_ID)

# Condition: a newer version of the process was refused, and that is not acknowledged.
_LEFT_OPEN = """
    NOT EXISTS (SELECT FROM acknowledgement
                WHERE acknowledgement.import_supplier_id = process.import_supplier_id
                  AND acknowledgement.external_account_number = process.external_account_number
                  AND acknowledged_at >= process.refused_at)
"""

#: Import processes of a supplier by state: all of them, those with a refused newer version, and those where
#: that is not acknowledged.
COUNT_PROCESSES = text(f"""
    SELECT state, count(*) AS n, count(*) FILTER (WHERE refused_at IS NOT NULL) AS older,
           count(*) FILTER (WHERE refused_at IS NOT NULL AND {_LEFT_OPEN}) AS older_open
    FROM account_import_process AS process
    WHERE import_supplier_id = :import_supplier_id GROUP BY state
""")

#: The same for the account numbers on the lines of a batch.
COUNT_PROCESSES_OF_BATCH = text(f"""
    SELECT process.state, count(DISTINCT process.id) AS n,
           count(DISTINCT process.id) FILTER (WHERE refused_at IS NOT NULL) AS older,
           count(DISTINCT process.id) FILTER (WHERE refused_at IS NOT NULL AND {_LEFT_OPEN}) AS older_open
    FROM batch_line AS line
    JOIN account_import_process AS process
      ON process.import_supplier_id = :import_supplier_id
     AND process.external_account_number = line.external_account_number
    WHERE line.batch_id = :batch_id GROUP BY process.state
""")

#: The same for the accounts of which a newer version waits.
COUNT_UNDECIDED = text(f"""
    SELECT process.state, count(DISTINCT process.id) AS n,
           count(DISTINCT process.id) FILTER (WHERE refused_at IS NOT NULL) AS older,
           count(DISTINCT process.id) FILTER (WHERE refused_at IS NOT NULL AND {_LEFT_OPEN}) AS older_open
    {_UNDECIDED} GROUP BY process.state
""").bindparams(_BATCH_ID)

#: Lines of stage and import batches that are no longer kept, so that nothing is known about them.
COUNT_REMOVED_LINES = text(f"""
    SELECT coalesce(sum(lines), 0) FROM batch
    WHERE import_supplier_id = :import_supplier_id AND mode IN ({_KEEPING})
      AND kind = '{BatchKind.ACCOUNTS}' AND lines_removed_at IS NOT NULL AND :batch_id IS NULL
""").bindparams(_BATCH_ID)

#: One page of unacknowledged items without an import process: accounts first, then lines without a number.
#: The four keys are those of the last item of the previous page.
LIST_UNSTAGED = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED})
    SELECT external_account_number, batch_id, line_number, status, errors,
           unnumbered, number_key, batch_key, line_key
    FROM unstaged
    WHERE NOT {_ACKNOWLEDGED}
      AND (unnumbered, number_key, batch_key, line_key)
          > (:unnumbered, :number_key, :batch_key, CAST(:line_key AS bigint))
    ORDER BY unnumbered, number_key, batch_key, line_key LIMIT :limit
""").bindparams(_BATCH_ID)

#: Refused items that are not acknowledged, with one error code or any, in the order of the lines. For an
#: account that exists, the refused item is a newer version.
LIST_REFUSED = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED}),
    refused AS (
        SELECT external_account_number, batch_id, line_number, errors FROM unstaged
        WHERE status = '{LineStatus.FAILED}' AND NOT {_ACKNOWLEDGED}
        UNION ALL
        SELECT external_account_number, refused_batch_id, refused_line_number, refused_errors
        FROM account_import_process AS process
        WHERE import_supplier_id = :import_supplier_id AND state = '{ImportState.IMPORTED}'
          AND refused_at IS NOT NULL AND {_LEFT_OPEN}
          AND (:batch_id IS NULL OR refused_batch_id = :batch_id))
    SELECT * FROM refused
    WHERE :code IS NULL OR errors @> jsonb_build_array(jsonb_build_object('code', :code))
    ORDER BY batch_id, line_number LIMIT :limit
""").bindparams(_BATCH_ID, bindparam("code", type_=Text))

_IS_OPEN = f"""
    (process.state IN ({_NOT_CREATED})
     OR (process.state = '{ImportState.IMPORTED}' AND refused_at IS NOT NULL AND {_LEFT_OPEN}))
"""
_OPEN_COLUMNS = f"""
    process.external_account_number, process.external_account_number AS place,
    process.state IN ({_NOT_CREATED}) AS is_staged, refused_at IS NOT NULL AS is_older,
    refused_batch_id AS batch_id, refused_line_number AS line_number, refused_errors AS errors
"""

#: One page of the accounts that are staged but not created, or were created from an older version.
LIST_STAGED = text(f"""
    SELECT {_OPEN_COLUMNS}
    FROM account_import_process AS process
    WHERE process.import_supplier_id = :import_supplier_id AND process.external_account_number > :after
      AND {_IS_OPEN} AND NOT {_IS_WAITING}
    ORDER BY process.external_account_number LIMIT :limit
""").bindparams(_BATCH_ID)

#: The same for the accounts on the lines of a batch.
LIST_STAGED_OF_BATCH = text(f"""
    SELECT {_OPEN_COLUMNS}
    FROM account_import_process AS process
    WHERE process.import_supplier_id = :import_supplier_id AND process.external_account_number > :after
      AND process.external_account_number IN (
          SELECT external_account_number FROM batch_line AS line WHERE line.batch_id = :batch_id)
      AND {_IS_OPEN} AND NOT {_IS_WAITING}
    ORDER BY process.external_account_number LIMIT :limit
""").bindparams(_BATCH_ID)

#: Acknowledges items without an import process: these account numbers, or these lines of a batch without a
#: number (all such lines if NULL). For accounts that exist, acknowledges that they are an older version.
#: Returns the acknowledged items.
ACKNOWLEDGE = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED})
    INSERT INTO acknowledgement (import_supplier_id, external_account_number, batch_id, line_number, reason,
        acknowledged_by)
    SELECT :import_supplier_id, external_account_number, batch_id, line_number, :reason, :acknowledged_by
    FROM unstaged
    WHERE external_account_number = ANY (:numbers)
       OR (unnumbered AND batch_id = :batch_id
           AND (:line_numbers IS NULL OR line_number = ANY (:line_numbers)))
    UNION ALL
    SELECT import_supplier_id, external_account_number, refused_batch_id, refused_line_number, :reason,
        :acknowledged_by
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = ANY (:numbers)
      AND state = '{ImportState.IMPORTED}' AND refused_at IS NOT NULL
    RETURNING external_account_number, line_number
""").bindparams(
    _BATCH_ID, bindparam("numbers", type_=ARRAY(Text)), bindparam("line_numbers", type_=ARRAY(BigInteger))
)

#: The refused lines as sent, and whether they are acknowledged. A line that was too long is NULL.
LIST_REFUSED_LINES = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED})
    SELECT line.payload, {_ACKNOWLEDGED} AS acknowledged
    FROM unstaged JOIN batch_line AS line USING (batch_id, line_number)
    WHERE unstaged.status = '{LineStatus.FAILED}'
""").bindparams(_BATCH_ID)
