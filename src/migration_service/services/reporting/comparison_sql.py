"""The statements behind `services.reporting.comparison`.

`:before` is the first batch, and `:after` the second one. Both are read as a whole and joined once, whatever
their size.
"""

from sqlalchemy import text

from migration_service.errors import DuplicateLineError
from migration_service.states import AccountChange, LineStatus

#: The planner has no statistics of lines that were just stored. It could take them for few, and read all of
#: them again for each line of the other batch.
JOIN_AS_SETS = (
    text("SET LOCAL enable_nestloop = off"),
    text("SET LOCAL work_mem = '64MB'"),
    text("SET LOCAL statement_timeout = '10min'"),
)

#: Lines by the code of their errors and warnings, from the counts of the chunks.
COUNT_CODES = text("""
    WITH counted AS (
        SELECT chunk.batch_id, severity, key AS code, CAST(sum(CAST(value AS bigint)) AS bigint) AS lines
        FROM batch_chunk AS chunk, LATERAL (
            SELECT 'error' AS severity, * FROM jsonb_each(error_counts)
            UNION ALL SELECT 'warning', * FROM jsonb_each(warning_counts)) AS item
        WHERE chunk.batch_id IN (:before, :after)
        GROUP BY chunk.batch_id, severity, key)
    SELECT severity, code, coalesce(max(lines) FILTER (WHERE batch_id = :before), 0) AS before,
           coalesce(max(lines) FILTER (WHERE batch_id = :after), 0) AS after
    FROM counted GROUP BY severity, code
    ORDER BY severity, greatest(max(lines), 0) DESC, code
""")

# A line that repeats the account of an earlier line says nothing about the account.
_COUNTS = f'(errors IS NULL OR NOT errors @> \'[{{"code": "{DuplicateLineError.code}"}}]\')'


def _lines(batch: str) -> str:
    return f"""
        SELECT external_account_number, line_number, status, errors FROM batch_line
        WHERE batch_id = :{batch} AND external_account_number IS NOT NULL AND {_COUNTS}"""


_CHANGE = f"""
    CASE WHEN '{LineStatus.PENDING}' IN (before.status, after.status) THEN NULL
         WHEN after.status = '{LineStatus.FAILED}' THEN
             CASE WHEN before.status IS NULL THEN '{AccountChange.ADDED_BROKEN}'
                  WHEN before.status = '{LineStatus.FAILED}' THEN '{AccountChange.STILL_BROKEN}'
                  ELSE '{AccountChange.NEWLY_BROKEN}' END
         WHEN before.status = '{LineStatus.FAILED}' THEN
             CASE WHEN after.status IS NULL THEN '{AccountChange.REMOVED_BROKEN}'
                  ELSE '{AccountChange.MENDED}' END
    END"""

#: Accounts by their change. Without one they fail in neither batch, or are not decided.
COUNT_ACCOUNTS = text(f"""
    SELECT {_CHANGE} AS change, before.status IS NOT NULL AS in_before, after.status IS NOT NULL AS in_after,
           coalesce('{LineStatus.PENDING}' IN (before.status, after.status), false) AS undecided,
           count(*) AS accounts
    FROM ({_lines("before")}) AS before
    FULL JOIN ({_lines("after")}) AS after USING (external_account_number)
    GROUP BY 1, 2, 3, 4
""")

#: Lines without an account number, which cannot be compared, of each of the two batches.
COUNT_UNNUMBERED = text("""
    SELECT count(*) FILTER (WHERE batch_id = :before) AS before,
           count(*) FILTER (WHERE batch_id = :after) AS after
    FROM batch_line WHERE batch_id IN (:before, :after) AND external_account_number IS NULL
""")

_CODES = """ARRAY(SELECT DISTINCT item ->> 'code' FROM jsonb_array_elements({}.errors) AS item ORDER BY 1)"""


def _page(failed: str, other: str) -> str:
    """Return the statement for the failed lines of one batch with the lines of the other."""
    return f"""
        WITH {failed} AS MATERIALIZED (
            {_lines(failed)} AND status = '{LineStatus.FAILED}' AND line_number > :place
            ORDER BY line_number LIMIT :limit)
        SELECT {failed}.line_number AS place, external_account_number, {_CHANGE} AS change,
               before.line_number AS before_line, {_CODES.format("before")} AS before_codes,
               after.line_number AS after_line, {_CODES.format("after")} AS after_codes
        FROM {failed}
        LEFT JOIN ({_lines(other)}) AS {other} USING (external_account_number)
        ORDER BY {failed}.line_number"""


#: One page of the accounts that fail in the second batch, by their line in it.
LIST_FAILED_AFTER = text(_page("after", "before"))
#: The same of those that failed in the first batch.
LIST_FAILED_BEFORE = text(_page("before", "after"))
