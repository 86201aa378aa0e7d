"""The SQL statements of `services.reporting.comparison`.

`:before` is the first batch, and `:after` the second one. Both are read completely and joined once, whatever
their size.
"""

from dataclasses import dataclass

from sqlalchemy import TextClause, text

from migration_service.db.base import literals
from migration_service.errors import DuplicateLineError
from migration_service.states import AccountChange, LineStatus

#: The planner has no statistics on lines that were just stored. It could assume that there are few, and read
#: all of them again for each line of the other batch.
JOIN_AS_SETS = (text("SET LOCAL enable_nestloop = off"), text("SET LOCAL work_mem = '64MB'"))

#: Numbers of lines by code of errors and warnings, from the counts of the chunks.
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

_OPEN = literals(status for status in LineStatus if status.is_open)
_UNDECIDED = f"(before.status IN ({_OPEN}) OR after.status IN ({_OPEN}))"


@dataclass(frozen=True, slots=True)
class AccountStatements:
    """The statements that compare the accounts of two batches of the same kind."""

    #: The number of accounts by change. Accounts without a change fail in neither batch, or are undecided.
    count: TextClause
    #: One page of the accounts that fail in the second batch, by their line in that batch.
    list_failed_after: TextClause
    #: The same for the accounts that failed in the first batch.
    list_failed_before: TextClause


def _line_of_account(batch: str) -> str:
    """Return the statement for the line of each account."""
    # A line that repeats the account of an earlier line does not count for the account.
    return f"""
        SELECT external_account_number, line_number, status, errors FROM batch_line
        WHERE batch_id = :{batch} AND external_account_number IS NOT NULL
          AND (errors IS NULL OR NOT errors @> '[{{"code": "{DuplicateLineError.code}"}}]')"""


def _lines_of_account(batch: str) -> str:
    """Return the statement for the combined result of the lines of each account.

    Failed lines take precedence, and the first one represents the others. `errors` is an array of arrays.
    """
    failed = f"FILTER (WHERE status = '{LineStatus.FAILED}')"
    return f"""
        SELECT external_account_number, coalesce(min(line_number) {failed}, min(line_number)) AS line_number,
               CASE WHEN bool_or(status = '{LineStatus.FAILED}') THEN '{LineStatus.FAILED}'
                    WHEN bool_or(status IN ({_OPEN})) THEN '{LineStatus.PENDING}'
                    ELSE '{LineStatus.ADDED}' END AS status,
               jsonb_agg(errors) {failed} AS errors
        FROM batch_line WHERE batch_id = :{batch} AND external_account_number IS NOT NULL
        GROUP BY external_account_number"""


_CHANGE = f"""
    CASE WHEN {_UNDECIDED} THEN NULL
         WHEN after.status = '{LineStatus.FAILED}' THEN
             CASE WHEN before.status IS NULL THEN '{AccountChange.ADDED_BROKEN}'
                  WHEN before.status = '{LineStatus.FAILED}' THEN '{AccountChange.STILL_BROKEN}'
                  ELSE '{AccountChange.NEWLY_BROKEN}' END
         WHEN before.status = '{LineStatus.FAILED}' THEN
             CASE WHEN after.status IS NULL THEN '{AccountChange.REMOVED_BROKEN}'
                  ELSE '{AccountChange.MENDED}' END
    END"""


def _count(before: str, after: str) -> TextClause:
    return text(f"""
        SELECT {_CHANGE} AS change, before.status IS NOT NULL AS in_before,
               after.status IS NOT NULL AS in_after, coalesce({_UNDECIDED}, false) AS undecided,
               count(*) AS accounts
        FROM ({before}) AS before FULL JOIN ({after}) AS after USING (external_account_number)
        GROUP BY 1, 2, 3, 4
    """)


# This path finds the codes both in an array of errors and in an array of such arrays.
_CODES = """ARRAY(SELECT DISTINCT code #>> '{{}}' FROM jsonb_path_query({}.errors, '$[*].code') AS code
                  ORDER BY 1)"""


def _page(failed: str, failed_lines: str, other: str, other_lines: str) -> TextClause:
    """Return the statement for the accounts that fail in one batch, with their result in the other."""
    return text(f"""
        WITH {failed} AS MATERIALIZED (
            SELECT * FROM ({failed_lines}) AS line
            WHERE status = '{LineStatus.FAILED}' AND line_number > :place
            ORDER BY line_number LIMIT :limit)
        SELECT {failed}.line_number AS place, external_account_number, {_CHANGE} AS change,
               before.line_number AS before_line, {_CODES.format("before")} AS before_codes,
               after.line_number AS after_line, {_CODES.format("after")} AS after_codes
        FROM {failed} LEFT JOIN ({other_lines}) AS {other} USING (external_account_number)
        ORDER BY {failed}.line_number
    """)


def _compare(before: str, after: str) -> AccountStatements:
    return AccountStatements(
        count=_count(before, after),
        list_failed_after=_page("after", after, "before", before),
        list_failed_before=_page("before", before, "after", after),
    )


#: The statements for batches of accounts, which have one line for each.
OF_ACCOUNTS = _compare(_line_of_account("before"), _line_of_account("after"))
#: The statements for batches of added data, which can have many lines for an account.
OF_ADDED_DATA = _compare(_lines_of_account("before"), _lines_of_account("after"))

#: The numbers of lines without an account number, which cannot be compared, in the two batches.
COUNT_UNNUMBERED = text("""
    SELECT count(*) FILTER (WHERE batch_id = :before) AS before,
           count(*) FILTER (WHERE batch_id = :after) AS after
    FROM batch_line WHERE batch_id IN (:before, :after) AND external_account_number IS NULL
""")
