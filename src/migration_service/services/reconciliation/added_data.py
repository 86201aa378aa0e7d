"""Reconciliation of added data: the lines of its batches compared with the accounts.

The database compares what the worker understood of the lines with the rows of the accounts. The two sums
share no code, so this also detects mistakes of the adding itself. A batch is compared chunk by chunk, because
a chunk has all lines of its accounts. Data of an account that no longer exists is missing.
"""

from decimal import Decimal
from uuid import UUID

from sqlalchemy import ARRAY, Text, bindparam, text
from sqlalchemy.orm import Session

from migration_service.db.base import literals
from migration_service.models import Batch
from migration_service.services.reconciliation.differences import AccountDifference, Difference, Totals
from migration_service.services.reconciliation.submitted import OF_LINE
from migration_service.states import BatchKind, BatchMode, LineStatus

#: The number of chunks compared by one statement.
CHUNKS = 20
_DONE = literals([LineStatus.ADDED, LineStatus.ALREADY_ADDED])


def find_next_batch(session: Session, import_supplier_id: int, after: UUID | None) -> UUID | None:
    """Return the next import batch of added data whose lines are kept."""
    values = {"import_supplier_id": import_supplier_id, "after": after or UUID(int=0)}
    found: UUID | None = session.scalar(_NEXT_BATCH, values)
    return found


def compare_chunks(
    session: Session, totals: Totals, batch: Batch, *, after: int, is_alone: bool
) -> tuple[int | None, int, list[AccountDifference]]:
    """Compare some chunks of a batch of added data, starting after `after`, and add them to `totals`.

    Return the start of the next ones, or None if no chunk is left, the number of lines, and the accounts that
    differ. If the batch is not compared alone, an item that several batches sent counts once.
    """
    rows = session.execute(_LIST_CHUNKS, {"batch_id": batch.id, "after": after, "limit": CHUNKS}).all()
    if not rows:
        return None, 0, []
    last = rows[-1].first_line
    kind = BatchKind(batch.kind)
    values = {
        "import_supplier_id": batch.import_supplier_id,
        "batch_id": batch.id,
        "after": after,
        "last": last,
        "trace": None if is_alone else f"batch {batch.id}",
    }
    for line_number in session.scalars(_LIST_UNREADABLE, values):
        totals.add_unreadable_line(batch.id, line_number)
    found: dict[str, list[Difference]] = {}
    for measure, sent, added, differing in session.execute(_COMPARE[kind], values):
        totals.add(measure, sent, added)
        for number, sent_value, added_value in differing or ():
            difference = Difference(measure, Decimal(sent_value), Decimal(added_value))
            found.setdefault(number, []).append(difference)
    totals.differing += len(found)
    named = session.execute(_NUMBERS, values | {"numbers": list(found)}) if found else ()
    numbers = {row.external_account_number: row.service_account_number for row in named}
    accounts = [AccountDifference(number, numbers.get(number), found[number]) for number in sorted(found)]
    return last, sum(int(row.lines) for row in rows), accounts


_NEXT_BATCH = text(f"""
    SELECT id FROM batch
    WHERE import_supplier_id = :import_supplier_id AND kind <> '{BatchKind.ACCOUNTS}'
      AND mode = '{BatchMode.IMPORT}' AND lines_removed_at IS NULL AND id > :after
    ORDER BY id LIMIT 1
""")

#: One page of the chunks of a batch. Each has all lines of its accounts.
_LIST_CHUNKS = text("""
    SELECT first_line,
           (SELECT coalesce(sum(CAST(value AS bigint)), 0) FROM jsonb_each_text(counts)) AS lines
    FROM batch_chunk WHERE batch_id = :batch_id AND first_line > :after
    ORDER BY first_line LIMIT :limit
""")

# The added lines of some chunks, without those that are acknowledged. Like everything below, it is read by
# the key of what was read before (OFFSET 0 keeps it from being joined), whatever the statistics say.
_LINES = f"""
    FROM (SELECT * FROM batch_line
          WHERE batch_id = :batch_id AND chunk_line > :after AND chunk_line <= :last
          ORDER BY chunk_line, line_number OFFSET 0) AS line
    WHERE line.status IN ({_DONE})
      AND NOT EXISTS (SELECT {OF_LINE} OFFSET 0)
"""

#: Lines of which nothing understood is kept: it was erased or removed.
_LIST_UNREADABLE = text(f"""
    SELECT line.line_number {_LINES} AND line.understood IS NULL ORDER BY line.line_number
""")

# The items of added lines, as the worker understood them. If the account already had the same item from
# another origin, it counts for that origin, unless :trace is null. What is missing with its account counts
# for the batch that added it.
_ITEMS = f"""
    WITH item AS MATERIALIZED (
        SELECT account.id AS account_pk, line.external_account_number AS number, item.value AS item
        FROM (SELECT * {_LINES}) AS line
        LEFT JOIN LATERAL (
            SELECT id FROM account WHERE account.import_supplier_id = :import_supplier_id
              AND account.external_account_number = line.external_account_number OFFSET 0) AS account ON true
        CROSS JOIN LATERAL jsonb_array_elements(line.understood) AS item
        WHERE account.id IS NOT NULL OR line.status = '{LineStatus.ADDED}' OR CAST(:trace AS text) IS NULL
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
_BODY = r"replace(replace(note.body, E'\r\n', E'\n'), E'\r', E'\n')"

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
              AND CASE WHEN sent.paths IS NULL THEN sha256(convert_to('body' || {_BODY}, 'UTF8')) = sent.same
                  ELSE note.body IS NULL AND sent.paths = (
                      SELECT jsonb_agg(path ORDER BY path COLLATE "C")
                      FROM jsonb_array_elements(note.documents) AS document,
                           ltrim(document ->> 'document_path', '/') AS path) END
            LIMIT 1) AS found ON true
        WHERE CAST(:trace AS text) IS NULL OR found.id IS NULL OR found.request_id = :trace
        GROUP BY sent.number, sent.account_pk, sent.same, sent.paths, sent.created_at
    )"""

_TRANSACTIONS = """
    , sent AS (
        SELECT DISTINCT ON (item.number, item ->> 'transaction_id') number, item ->> 'type' AS type,
               CAST(item ->> 'amount' AS numeric) AS amount, found.id, found.type AS found_type,
               found.amount AS found_amount
        FROM item LEFT JOIN LATERAL (
            SELECT * FROM "transaction" WHERE "transaction".account_pk = item.account_pk
              AND "transaction".transaction_id = item ->> 'transaction_id' OFFSET 0) AS found ON true
        WHERE CAST(:trace AS text) IS NULL OR found.id IS NULL OR found.request_id = :trace
    ), value (number, measure, staged, created) AS (
        SELECT number, 'added transactions', 1, CASE WHEN id IS NULL THEN 0 ELSE 1 END FROM sent
        UNION ALL SELECT number, 'added amount of ' || type, amount, 0 FROM sent
        UNION ALL SELECT number, 'added amount of ' || found_type, 0, found_amount FROM sent
        WHERE id IS NOT NULL
    )"""

_STATEMENTS = """
    , sent AS (
        SELECT DISTINCT ON (item.number, item ->> 'statement_id') item.number,
               CAST(item ->> 'gross_amount' AS numeric) AS amount, found.id, found.gross_amount
        FROM item LEFT JOIN LATERAL (
            SELECT * FROM statement WHERE statement.account_pk = item.account_pk
              AND statement.statement_id = item ->> 'statement_id' OFFSET 0) AS found ON true
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
            FROM (SELECT * FROM payment_instruction
                  WHERE account_pk = item.account_pk AND reference = item ->> 'reference'
                    AND type = item ->> 'type' OFFSET 0) AS instruction
            JOIN payment_vendor ON payment_vendor.id = payment_vendor_pk
            WHERE lower(name) = lower(item ->> 'vendor') OFFSET 0) AS found ON true
        WHERE CAST(:trace AS text) IS NULL OR found.id IS NULL OR found.request_id = :trace
    )"""

#: For each kind, the measures over some chunks and the accounts that differ; see `created_accounts`.
_COMPARE = {
    kind: text(_ITEMS + values + _SUMS).bindparams(bindparam("trace", type_=Text))
    for kind, values in {
        BatchKind.NOTES: _NOTES,
        BatchKind.TRANSACTIONS: _TRANSACTIONS,
        BatchKind.STATEMENTS: _STATEMENTS,
        BatchKind.PAYMENT_INSTRUCTIONS: _INSTRUCTIONS,
    }.items()
}

#: The service account numbers of differing accounts.
_NUMBERS = text("""
    SELECT external_account_number, service_account_number FROM account
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = ANY (:numbers)
""").bindparams(bindparam("numbers", type_=ARRAY(Text)))
