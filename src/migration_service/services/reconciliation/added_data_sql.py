"""The SQL statements of `services.reconciliation.added_data`."""

from sqlalchemy import ARRAY, BigInteger, Text, bindparam, text

from migration_service.db.base import literals
from migration_service.states import BatchKind, BatchMode, LineStatus

_DONE = literals([LineStatus.ADDED, LineStatus.ALREADY_ADDED])
_SETTLED = literals([LineStatus.ADDED, LineStatus.ALREADY_ADDED, LineStatus.SKIPPED])

_ACKNOWLEDGED = """
    EXISTS (SELECT FROM acknowledgement
            WHERE acknowledgement.import_supplier_id = :import_supplier_id
              AND acknowledgement.batch_id = line.batch_id AND acknowledgement.line_number = line.line_number)
"""

#: A supplier's import batches of added data whose lines are kept.
LIST_BATCHES = text(f"""
    SELECT id, kind FROM batch
    WHERE import_supplier_id = :import_supplier_id AND kind <> '{BatchKind.ACCOUNTS}'
      AND mode = '{BatchMode.IMPORT}' AND lines_removed_at IS NULL
    ORDER BY id
""")

#: The refused lines of a supplier's import batches of added data. A retried line has another status.
COUNT_REFUSED = text(f"""
    SELECT count(*) FROM batch JOIN batch_line AS line ON line.batch_id = batch.id
    WHERE import_supplier_id = :import_supplier_id AND kind <> '{BatchKind.ACCOUNTS}'
      AND mode = '{BatchMode.IMPORT}' AND line.status = '{LineStatus.FAILED}' AND NOT {_ACKNOWLEDGED}
""")

#: The number of lines of a batch by status, and of those acknowledged.
COUNT_LINES = text(f"""
    SELECT status, count(*) AS lines, count(*) FILTER (WHERE {_ACKNOWLEDGED}) AS acknowledged
    FROM batch_line AS line WHERE batch_id = :batch_id GROUP BY status
""")

#: One page of the open lines of a batch.
LIST_OPEN = text(f"""
    SELECT line_number, external_account_number, status, errors FROM batch_line AS line
    WHERE batch_id = :batch_id AND line_number > :after
      AND status NOT IN ({_SETTLED}) AND NOT {_ACKNOWLEDGED}
    ORDER BY line_number LIMIT :limit
""")

#: One page of the chunks of a batch. Each has all lines of its accounts.
LIST_CHUNKS = text("""
    SELECT first_line FROM batch_chunk WHERE batch_id = :batch_id AND first_line > :after
    ORDER BY first_line LIMIT :limit
""")

#: Added lines of some chunks whose items were erased.
COUNT_WITHOUT_TEXT = text(f"""
    SELECT count(*) FROM batch_line
    WHERE batch_id = :batch_id AND chunk_line = ANY (:chunks) AND status IN ({_DONE}) AND understood IS NULL
""").bindparams(bindparam("chunks", type_=ARRAY(BigInteger)))

# The items of added lines, as the worker understood them. If the account already had the same item from
# another origin, it counts for that origin, unless :trace is null.
_ITEMS = f"""
    WITH item AS MATERIALIZED (
        SELECT account.id AS account_pk, line.external_account_number AS number, item.value AS item
        FROM batch_line AS line
        JOIN account ON account.import_supplier_id = :import_supplier_id
                    AND account.external_account_number = line.external_account_number
        CROSS JOIN LATERAL jsonb_array_elements(line.understood) AS item
        WHERE line.batch_id = :batch_id AND line.chunk_line = ANY (:chunks)
          AND line.status IN ({_DONE})
    )"""

_SUMS = """
    , account_value AS MATERIALIZED (
        SELECT number, measure, sum(staged) AS staged, sum(created) AS created FROM value
        GROUP BY number, measure
    )
    SELECT measure, sum(staged) AS staged, sum(created) AS created,
           jsonb_agg(jsonb_build_array(number, CAST(staged AS text), CAST(created AS text)))
               FILTER (WHERE staged <> created) AS differing
    FROM account_value GROUP BY measure ORDER BY measure
"""

# The body of a note, whatever ends its lines.
_LINES = r"replace(replace(note.body, E'\r\n', E'\n'), E'\r', E'\n')"

_NOTES = f"""
    , sent AS (
        SELECT DISTINCT number, account_pk, decode(item ->> 'same', 'hex') AS same,
               nullif(item -> 'paths', 'null') AS paths,
               date_trunc('second', CAST(item ->> 'created_at' AS timestamptz)) AS created_at
        FROM item
    ), value (number, measure, staged, created) AS (
        SELECT sent.number, 'added notes', 1, count(found.id)
        FROM sent LEFT JOIN LATERAL (
            SELECT id, request_id FROM note
            WHERE note.account_pk = sent.account_pk AND note.sameness_sha256 = sent.same
              AND (sent.created_at IS NULL OR date_trunc('second', note.created_at) = sent.created_at)
              AND CASE WHEN sent.paths IS NULL THEN sha256(convert_to('body' || {_LINES}, 'UTF8')) = sent.same
                  ELSE note.body IS NULL AND sent.paths = (
                      SELECT jsonb_agg(path ->> 'document_path' ORDER BY path ->> 'document_path' COLLATE "C")
                      FROM jsonb_array_elements(note.documents) AS path) END
            LIMIT 1) AS found ON true
        WHERE CAST(:trace AS text) IS NULL OR found.id IS NULL OR found.request_id = :trace
        GROUP BY sent.number, sent.account_pk, sent.same, sent.paths, sent.created_at
    )"""

_TRANSACTIONS = """
    , sent AS (
        SELECT DISTINCT ON (item.account_pk, item ->> 'transaction_id') number, item ->> 'type' AS type,
               CAST(item ->> 'amount' AS numeric) AS amount, found.id, found.type AS found_type,
               found.amount AS found_amount
        FROM item LEFT JOIN "transaction" AS found
          ON found.account_pk = item.account_pk AND found.transaction_id = item ->> 'transaction_id'
        WHERE CAST(:trace AS text) IS NULL OR found.id IS NULL OR found.request_id = :trace
    ), value (number, measure, staged, created) AS (
        SELECT number, 'added transactions', 1, CASE WHEN id IS NULL THEN 0 ELSE 1 END FROM sent
        UNION ALL SELECT number, 'added amount of ' || type, amount, 0 FROM sent
        UNION ALL SELECT number, 'added amount of ' || found_type, 0, found_amount FROM sent
        WHERE id IS NOT NULL
    )"""

_STATEMENTS = """
    , sent AS (
        SELECT DISTINCT ON (item.account_pk, item ->> 'statement_id') item.number,
               CAST(item ->> 'gross_amount' AS numeric) AS amount, found.id, found.gross_amount
        FROM item LEFT JOIN statement AS found
          ON found.account_pk = item.account_pk AND found.statement_id = item ->> 'statement_id'
        WHERE CAST(:trace AS text) IS NULL OR found.id IS NULL OR found.request_id = :trace
    ), value (number, measure, staged, created) AS (
        SELECT number, 'added statements', 1, CASE WHEN id IS NULL THEN 0 ELSE 1 END FROM sent
        UNION ALL
        SELECT number, 'added gross_amount in cents', amount, coalesce(gross_amount, 0) FROM sent
    )"""

# The names of vendors are case-insensitive.
_INSTRUCTIONS = """
    , value (number, measure, staged, created) AS (
        SELECT DISTINCT number, 'added payment_instructions', 1, CASE WHEN found.id IS NULL THEN 0 ELSE 1 END,
               lower(item ->> 'vendor'), item ->> 'reference', item ->> 'type'
        FROM item LEFT JOIN LATERAL (
            SELECT instruction.id, request_id
            FROM payment_instruction AS instruction
            JOIN payment_vendor ON payment_vendor.id = payment_vendor_pk
            WHERE instruction.account_pk = item.account_pk AND reference = item ->> 'reference'
              AND instruction.type = item ->> 'type' AND lower(name) = lower(item ->> 'vendor')
        ) AS found ON true
        WHERE CAST(:trace AS text) IS NULL OR found.id IS NULL OR found.request_id = :trace
    )"""

#: For each kind, the measures over some chunks and the accounts that differ; see `created_accounts_sql`.
COMPARE_ADDED = {
    kind: text(_ITEMS + values + _SUMS).bindparams(
        bindparam("chunks", type_=ARRAY(BigInteger)), bindparam("trace", type_=Text)
    )
    for kind, values in {
        BatchKind.NOTES: _NOTES,
        BatchKind.TRANSACTIONS: _TRANSACTIONS,
        BatchKind.STATEMENTS: _STATEMENTS,
        BatchKind.PAYMENT_INSTRUCTIONS: _INSTRUCTIONS,
    }.items()
}

#: The service account numbers of differing accounts.
NUMBERS = text("""
    SELECT external_account_number, service_account_number FROM account
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = ANY (:numbers)
""").bindparams(bindparam("numbers", type_=ARRAY(Text)))
