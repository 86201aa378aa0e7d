"""Comparison of two batches of a supplier, usually two rehearsals of the same book.

It shows which codes are new, gone or more frequent, and which accounts newly fail or newly pass. An account
fails in a batch if one of its lines has FAILED. If none has, it is undecided while any of its lines has no
outcome yet, and otherwise it passes. Lines without an account number cannot be compared, and are only
counted.

In the statements `:before` is the first batch, and `:after` the second one. Both are read completely and
joined once, whatever their size.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.schemas.json import encode_json
from migration_service.db.base import literals
from migration_service.db.cancelling import allow_minutes
from migration_service.errors import BatchesNotComparableError, DuplicateLineError
from migration_service.formats import ResultFormat, write_csv
from migration_service.models import Batch
from migration_service.services.batches.control import get_batch_with_lines
from migration_service.services.reconciliation.submitted import is_of_added_data
from migration_service.states import AccountChange, CodeChange, LineStatus

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


#: The numbers of failed lines read, and of accounts written, together.
PAGE, _WRITTEN = 20_000, 1_000
#: The changes in which an account fails in the second batch.
_FAIL_AFTER = {AccountChange.NEWLY_BROKEN, AccountChange.STILL_BROKEN, AccountChange.ADDED_BROKEN}


@dataclass(frozen=True, slots=True)
class ComparedAccount:
    """An account that fails in at least one of the batches, with its error codes.

    If it has several lines in a batch of added data, this is the first failed line, with the codes of all of
    them.
    """

    external_account_number: str
    change: AccountChange
    before_line: int | None
    before_codes: list[str]
    after_line: int | None
    after_codes: list[str]


def get_batches_to_compare(
    session: Session, before: str, after: str, *, organisation_id: int | None
) -> tuple[Batch, Batch]:
    """Return the two batches of the organisation, or of any if it is None.

    Raise BatchNotFoundError, BatchStateError if the lines of one of them are no longer kept, and
    BatchesNotComparableError if they are of different suppliers or kinds.
    """
    first = get_batch_with_lines(session, before, organisation_id=organisation_id)
    second = get_batch_with_lines(session, after, organisation_id=organisation_id)
    if first.import_supplier_id != second.import_supplier_id:
        raise BatchesNotComparableError
    if first.kind != second.kind:
        kinds = f"Batch {first.id} is of kind {first.kind}, and batch {second.id} of kind {second.kind}."
        raise BatchesNotComparableError(f"{kinds} Only batches of one kind can be compared.")
    return first, second


def compare_batches(session: Session, before: UUID, after: UUID) -> dict[str, Any]:
    """Return the comparison of two batches of one supplier and kind, by the names of the interface.

    `before` is the first one.
    """
    _join_as_sets(session)
    batches = {"before": before, "after": after}
    codes = [
        dict(zip(_OF_CODE, (*row, _change_of(*row[2:])), strict=True))
        for row in session.execute(COUNT_CODES, batches)
    ]
    counts = dict.fromkeys((*map(str.lower, AccountChange), *_PASSED.values(), "undecided"), 0)
    for row in session.execute(_statements(session, before).count, batches):
        if row.change is not None:
            name = str(row.change).lower()
        elif row.undecided:
            name = "undecided"
        else:
            name = _PASSED[row.in_before, row.in_after]
        counts[name] += row.accounts
    unnumbered = session.execute(COUNT_UNNUMBERED, batches).one()
    counts |= {"unnumbered_before": unnumbered.before, "unnumbered_after": unnumbered.after}
    return {**batches, "codes": codes, "accounts": counts}


def _join_as_sets(session: Session) -> None:
    allow_minutes(session)
    for setting in JOIN_AS_SETS:
        session.execute(setting)


def _statements(session: Session, batch_id: UUID) -> AccountStatements:
    return OF_ADDED_DATA if is_of_added_data(session, batch_id) else OF_ACCOUNTS


#: The members of a compared code.
_OF_CODE = ("severity", "code", "before", "after", "change")
#: The names of the counts, by presence of the account in the first and in the second batch.
_PASSED = {(True, True): "passed", (False, True): "added", (True, False): "removed"}


def _change_of(before: int, after: int) -> CodeChange:
    if before == after:
        return CodeChange.SAME
    if not before:
        return CodeChange.CAME
    if not after:
        return CodeChange.WENT
    return CodeChange.GREW if after > before else CodeChange.SHRANK


def find_changed_accounts(
    sessions: sessionmaker[Session],
    before: UUID,
    after: UUID,
    changes: Collection[AccountChange] = tuple(AccountChange),
) -> Iterator[ComparedAccount]:
    """Yield the accounts with one of these changes.

    Accounts that fail in the second batch come first, by their line in it, then the others, by their line in
    the first. Each page is read in a separate transaction, so a slow reader keeps none open.
    """
    wanted, batches = set(changes), (before, after)
    with sessions.begin() as session:
        statements = _statements(session, before)
    if wanted & _FAIL_AFTER:
        yield from _read(sessions, statements.list_failed_after, batches, wanted & _FAIL_AFTER)
    if wanted - _FAIL_AFTER:
        yield from _read(sessions, statements.list_failed_before, batches, wanted - _FAIL_AFTER)


def _read(
    sessions: sessionmaker[Session],
    statement: TextClause,
    batches: tuple[UUID, UUID],
    wanted: set[AccountChange],
) -> Iterator[ComparedAccount]:
    place = 0
    while True:
        values = {"before": batches[0], "after": batches[1], "place": place, "limit": PAGE}
        with sessions.begin() as session:
            _join_as_sets(session)
            rows = session.execute(statement, values).all()
        if not rows:
            return
        place = rows[-1].place
        for row in rows:
            if row.change in wanted:
                yield ComparedAccount(row.external_account_number, AccountChange(row.change), *row[3:])


def stream_changed_accounts(
    accounts: Iterator[ComparedAccount], result_format: ResultFormat
) -> Iterator[bytes]:
    """Yield accounts as NDJSON or as CSV with a header, one per line, in pieces."""
    if result_format is ResultFormat.CSV:
        yield write_csv([ComparedAccount.__slots__])
    while piece := list(islice(accounts, _WRITTEN)):
        if result_format is ResultFormat.CSV:
            yield write_csv(map(_row, piece))
        else:
            yield b"".join(encode_json(account) + b"\n" for account in piece)


def _row(account: ComparedAccount) -> Iterable[Any]:
    codes = {"before_codes": " ".join(account.before_codes), "after_codes": " ".join(account.after_codes)}
    return (asdict(account) | codes).values()
