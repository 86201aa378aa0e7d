"""The accounts that a supplier sent, and the open ones: not created, skipped or acknowledged.

Lines of stage and import batches and single stagings count as sent, each account number once. A line without
a number counts separately. Each account is counted by its current state, so one that exists is created,
whatever was sent later, and it is no longer open once a later line has settled it. It is open while a newer
version was refused, or waits on a line of any batch. Lines of added data are open until they are added or
acknowledged, or until their account is excluded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from sqlalchemy import Boolean, Row, Text, TextClause, Uuid, bindparam, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import literals
from migration_service.db.cancelling import allow_minutes
from migration_service.errors import DuplicateLineError
from migration_service.models import Batch
from migration_service.states import (
    BatchKind,
    BatchMode,
    BatchSource,
    BatchState,
    ChunkState,
    ImportState,
    LineStatus,
    OpenReason,
)

PAGE = 10_000
#: The largest line number. No line has a larger one.
MAX_LINE = 2**31 - 1

# The status of a line that is open for such a reason. The other reasons are those of staged accounts.
_STATUS_OF: dict[OpenReason | None, LineStatus] = {
    OpenReason.REFUSED: LineStatus.FAILED,
    OpenReason.WAITING: LineStatus.PENDING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The numbers of sent accounts and lines by outcome, as `SentAnswerSchema` describes them."""

    sent: int = 0
    refused: int = 0
    waiting: int = 0
    staged: int = 0
    created: int = 0
    skipped: int = 0
    acknowledged: int = 0
    created_acknowledged: int = 0
    open: int = 0
    lines_removed: int = 0
    removed_refused: int = 0
    removed_waiting: int = 0
    staged_older_version: int = 0
    created_older_version: int = 0
    staged_version_waits: int = 0
    created_version_waits: int = 0
    added_lines_refused: int = 0
    added_lines_waiting: int = 0

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is open, and nothing that was open has been removed."""
        return not (self.open or self.removed_refused or self.removed_waiting)


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An open account, or an open line without a number or of added data."""

    external_account_number: str | None
    reason: OpenReason
    #: Its newest line, or None if it is staged and no newer version was refused.
    batch_id: UUID | None = None
    line_number: int | None = None
    #: Objects with detail, code and attr.
    errors: list[Any] | None = None
    #: Whether the line is acknowledged rather than its account: it has no number, or adds data.
    is_line: bool = False

    @property
    def codes(self) -> list[str]:
        """Return the codes of its errors, each once."""
        return list(dict.fromkeys(str(it["code"]) for it in self.errors or []))

    @property
    def key(self) -> str:
        """Return its place in the list, which `read_place` reads."""
        if self.is_line:
            return f"line.{self.batch_id}.{self.line_number}"
        return f"{'refused' if self.reason in _STATUS_OF else 'staged'}.{self.external_account_number}"


def is_of_added_data(session: Session, batch_id: UUID | None) -> bool:
    """Return whether this is a batch whose lines add data to accounts."""
    return batch_id is not None and BatchKind(session.get_one(Batch, batch_id).kind).is_added_data


def count_submitted(session: Session, import_supplier_id: int, *, batch_id: UUID | None = None) -> Submitted:
    """Return the number of sent accounts and lines by outcome, for the supplier or one batch."""
    allow_minutes(session)
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id}
    lines_removed, *removed = map(int, session.execute(COUNT_REMOVED_LINES, values).one())
    if is_of_added_data(session, batch_id):
        found = _count_added_lines(session, values)
        return replace(found, removed_refused=removed[0], removed_waiting=removed[1])
    numbers, older, older_open, waits = (dict.fromkeys(ImportState, 0) for _ in range(4))
    statement = COUNT_PROCESSES if batch_id is None else COUNT_PROCESSES_OF_BATCH
    for state, *counted in session.execute(statement, values):
        numbers[state], older[state], older_open[state] = counted
    for state, waiting, *counted in session.execute(COUNT_UNDECIDED, values):
        waits[state] = waiting
        older[state] -= counted[0]
        older_open[state] -= counted[1]
    refused, waiting, skipped, acknowledged = session.execute(COUNT_UNSTAGED, values).one()
    staged, staged_older, staged_waits = (
        it[ImportState.PENDING] + it[ImportState.IN_PROGRESS] for it in (numbers, older, waits)
    )
    created = ImportState.IMPORTED
    created_acknowledged = older[created] - older_open[created]
    added = Submitted() if batch_id else _count_added_lines(session, values)
    not_created = refused + waiting + staged - acknowledged
    return Submitted(
        sent=refused + waiting + skipped + sum(numbers.values()),
        refused=refused,
        waiting=waiting,
        staged=staged,
        created=numbers[created],
        skipped=skipped + numbers[ImportState.SKIPPED],
        acknowledged=acknowledged + created_acknowledged,
        created_acknowledged=created_acknowledged,
        open=not_created + older_open[created] + waits[created] + added.open,
        lines_removed=lines_removed,
        removed_refused=removed[0],
        removed_waiting=removed[1],
        staged_older_version=staged_older,
        created_older_version=older[created],
        staged_version_waits=staged_waits,
        created_version_waits=waits[created],
        added_lines_refused=added.added_lines_refused,
        added_lines_waiting=added.added_lines_waiting,
    )


def _count_added_lines(session: Session, values: dict[str, Any]) -> Submitted:
    """Return the number of lines of added data by outcome, of a batch or all import batches of a supplier."""
    rows = session.execute(COUNT_ADDED_LINES, values).all()
    lines = dict.fromkeys(LineStatus, 0) | {LineStatus(row.outcome): row.lines for row in rows}
    acknowledged = dict.fromkeys(LineStatus, 0) | {LineStatus(it.outcome): it.acknowledged for it in rows}
    refused, waiting = LineStatus.FAILED, LineStatus.PENDING
    open_refused, open_waiting = (lines[it] - acknowledged[it] for it in (refused, waiting))
    return Submitted(
        sent=sum(lines.values()),
        refused=lines[refused],
        waiting=lines[waiting],
        created=lines[LineStatus.ADDED],
        skipped=lines[LineStatus.SKIPPED],
        acknowledged=acknowledged[refused] + acknowledged[waiting],
        open=open_refused + open_waiting,
        added_lines_refused=open_refused,
        added_lines_waiting=open_waiting,
    )


def count_before_removal(session: Session, batch: Batch) -> None:
    """Keep how many lines of a batch are open, because its lines are removed now."""
    values = {"import_supplier_id": batch.import_supplier_id, "batch_id": None, "removed_id": batch.id}
    if BatchKind(batch.kind).is_added_data:
        found = _count_added_lines(session, values | {"batch_id": batch.id})
        batch.removed_refused, batch.removed_waiting = found.added_lines_refused, found.added_lines_waiting
    else:
        batch.removed_refused, batch.removed_waiting = session.execute(COUNT_BEFORE_REMOVAL, values).one()


def find_refused(
    session: Session, import_supplier_id: int, *, batch_id: UUID | None, code: str | None, limit: int
) -> list[OpenItem]:
    """Return refused items that are not acknowledged, optionally of one batch or with one error code."""
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id, "code": code, "limit": limit}
    listed = LIST_ADDED_LINES if is_of_added_data(session, batch_id) else LIST_REFUSED
    return list(
        map(_unsettled, session.execute(listed, values | FIRST_ADDED | {"status": LineStatus.FAILED}))
    )


def find_open(
    sessions: sessionmaker[Session],
    import_supplier_id: int,
    *,
    batch_id: UUID | None = None,
    reason: OpenReason | None = None,
    code: str | None = None,
    is_created: bool | None = None,
    after: OpenItem | None = None,
    size: int = PAGE,
) -> Iterator[OpenItem]:
    """Yield all open items, optionally only those with a reason or an error code, or after another one.

    First accounts that are staged or were created from an older version, then refused accounts, then lines
    without a number, then lines of added data. For a batch of added data, its open lines. With `is_created`,
    only the created accounts, or only what was sent and is not created. Each page of this size is read in a
    separate transaction.
    """
    with sessions.begin() as session:
        adds_data = is_of_added_data(session, batch_id)
        start, place = _place_of(session, after) if after else (0, FIRST_STAGED)
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id, "code": code, "limit": size}
    values |= {"reason": reason, "status": _STATUS_OF.get(reason), "is_created": is_created}
    for part, (statement, first, read) in enumerate(
        (
            (LIST_STAGED if batch_id is None else LIST_STAGED_OF_BATCH, FIRST_STAGED, _staged),
            (LIST_UNSETTLED, FIRST_UNSETTLED, _unsettled),
            (LIST_ADDED_LINES, FIRST_ADDED, _unsettled),
        )
    ):
        is_wanted = reason is None or (part == 0) == (reason not in _STATUS_OF)
        is_wanted &= is_created is None or part < 2
        if part >= start and is_wanted and (batch_id is None or adds_data == (part == 2)):
            yield from map(read, _read_pages(sessions, statement, values, place if part == start else first))


def read_place(key: str) -> OpenItem:
    """Return an item whose place in the list is that of this key. Raise ValueError if none can have it."""
    kind, _, number = key.partition(".")
    if kind == "line":
        batch, _, line = number.partition(".")
        if not line.isdecimal():
            raise ValueError(key)
        return OpenItem(None, OpenReason.REFUSED, UUID(batch), min(int(line), MAX_LINE), is_line=True)
    if "\0" in number or kind not in ("staged", "refused"):
        raise ValueError(key)
    return OpenItem(number, OpenReason.STAGED if kind == "staged" else OpenReason.REFUSED)


def _place_of(session: Session, item: OpenItem) -> tuple[int, dict[str, Any]]:
    """Return the part of the list that has the item, and the values of its keys."""
    if not item.is_line:
        number = {"number_key": item.external_account_number, "line_key": 0}
        is_staged = item.reason not in _STATUS_OF
        return (0, {"after": item.external_account_number}) if is_staged else (1, FIRST_UNSETTLED | number)
    batch = session.get(Batch, item.batch_id)
    if batch is not None and BatchKind(batch.kind).is_added_data:
        return 2, {"after_batch": item.batch_id, "after_line": item.line_number}
    line = {"batch_key": str(item.batch_id), "line_key": item.line_number}
    return 1, FIRST_UNSETTLED | line | {"unnumbered": True}


def _read_pages(
    sessions: sessionmaker[Session], statement: TextClause, values: dict[str, Any], place: dict[str, Any]
) -> Iterator[Row[Any]]:
    """Yield the rows of a statement whose columns have the names of its keys."""
    while True:
        with sessions.begin() as session:
            allow_minutes(session)
            rows = session.execute(statement, values | place).all()
        yield from rows
        if len(rows) < values["limit"]:
            return
        place = {name: getattr(rows[-1], name) for name in place}


def _unsettled(row: Row[Any]) -> OpenItem:
    reason = OpenReason.REFUSED if row.status == LineStatus.FAILED else OpenReason.WAITING
    is_line = row.external_account_number is None or row.adds_data
    return OpenItem(
        row.external_account_number, reason, row.batch_id, row.line_number, row.errors or [], is_line
    )


def _staged(row: Row[Any]) -> OpenItem:
    reason = OpenReason(row.reason)
    return OpenItem(row.external_account_number, reason, row.batch_id, row.line_number, row.errors)


#: Modes whose payloads are kept, and states without an account.
_KEEPING = literals([BatchMode.STAGE, BatchMode.IMPORT])
_NOT_CREATED = literals([ImportState.PENDING, ImportState.IN_PROGRESS])


def _is_later(extracted_at: str, is_later: str) -> str:
    """Return the condition that a version is later than `batch`. Extract times decide, if both are known."""
    return f"""
        coalesce(CASE WHEN {extracted_at} <> batch.extracted_at THEN {extracted_at} > batch.extracted_at
                      ELSE {is_later} END, false)"""


# The batches that can have lines of accounts without an outcome. They are usually none, or few.
_UNFINISHED = f"""(
    SELECT id, created_at, extracted_at FROM batch
    WHERE import_supplier_id = :import_supplier_id
      AND kind = '{BatchKind.ACCOUNTS}' AND mode IN ({_KEEPING}) AND source = '{BatchSource.UPLOAD}'
      AND state <> '{BatchState.COMPLETED}' OFFSET 0)"""

# Condition on a process, a line without an outcome that has its number, and the batch of that line: nothing
# that was sent later has settled the account.
_IS_UNDECIDED = f"""
    process.state <> '{ImportState.SKIPPED}'
    AND NOT {_is_later("process.extracted_at", "process.sent_at >= batch.created_at")}
    AND NOT {_is_later("process.refused_extracted_at", "process.refused_sent_at >= batch.created_at")}
    AND NOT EXISTS (
        SELECT FROM acknowledgement
        WHERE acknowledgement.import_supplier_id = :import_supplier_id
          AND acknowledgement.external_account_number = line.external_account_number
          AND acknowledged_at >= batch.created_at)
"""
# The lines of unfinished batches without an outcome that have a newer version of an account, and the account.
# For one batch, these are the versions of its accounts that wait in any batch. Each table is read by the key
# of what was read before (OFFSET 0 keeps it from being joined), so only what waits is read.
_UNDECIDED = f"""
    FROM {_UNFINISHED} AS batch
    CROSS JOIN LATERAL (
        SELECT first_line, last_line FROM batch_chunk
        WHERE batch_id = batch.id AND state <> '{ChunkState.DONE}' OFFSET 0) AS chunk
    CROSS JOIN LATERAL (
        SELECT * FROM batch_line
        WHERE batch_id = batch.id AND line_number BETWEEN chunk.first_line AND chunk.last_line
          AND status = '{LineStatus.PENDING}' AND chunk_line IS NULL
          AND (:batch_id IS NULL OR external_account_number IN (
              SELECT external_account_number FROM batch_line AS own
              WHERE own.batch_id = :batch_id AND own.external_account_number IS NOT NULL)) OFFSET 0) AS line
    CROSS JOIN LATERAL (
        SELECT * FROM account_import_process
        WHERE import_supplier_id = :import_supplier_id
          AND external_account_number = line.external_account_number OFFSET 0) AS process
    WHERE {_IS_UNDECIDED}
"""
# Condition on a process: it is one of these accounts. It finds the lines by their number.
_IS_WAITING = f"""
    EXISTS (SELECT FROM {_UNFINISHED} AS batch JOIN batch_line AS line ON line.batch_id = batch.id
            WHERE line.external_account_number = process.external_account_number
              AND line.status = '{LineStatus.PENDING}' AND line.chunk_line IS NULL
              AND {_IS_UNDECIDED} OFFSET 0)
"""

# Condition on a line: operators excluded its account before it was staged, or it was erased.
_IS_MARKED = """EXISTS (
    SELECT FROM skip_mark WHERE skip_mark.import_supplier_id = :import_supplier_id
      AND skip_mark.external_account_number = line.external_account_number)"""

# Condition on a line: its account was erased after it was created, so it has no mark. Like the erasure, this
# finds a line that spells the number in another way, unless that is the number of another account.
_IS_ERASED = """EXISTS (
    SELECT FROM account_import_process AS process
    JOIN account ON account.account_import_process_id = process.id
    WHERE process.import_supplier_id = :import_supplier_id AND account.erased_at IS NOT NULL
      AND process.external_account_number IN (line.external_account_number, line.meant_number)
      AND (process.external_account_number = line.external_account_number OR NOT EXISTS (
          SELECT FROM account_import_process AS own
          WHERE own.import_supplier_id = :import_supplier_id
            AND own.external_account_number = line.external_account_number)))"""

#: Condition on a line: it does not repeat the account of an earlier line of its file.
IS_FIRST = f"""
    (line.errors IS NULL OR NOT line.errors @> '[{{"code": "{DuplicateLineError.code}"}}]')"""

#: A page of such lines of a batch.
PAGE_OF_LINES = f"""(
    SELECT line_number, external_account_number FROM batch_line AS line
    WHERE batch_id = :batch_id AND line_number > :after AND {IS_FIRST}
    ORDER BY line_number LIMIT :limit)"""

_SENT_LINES = f"""
    SELECT line.external_account_number, line.batch_id, line.line_number,
           CASE WHEN {_IS_MARKED}
                     OR line.external_account_number IS NULL AND line.status = '{LineStatus.SKIPPED}'
                THEN '{LineStatus.SKIPPED}'
                WHEN line.status = '{LineStatus.FAILED}' THEN line.status
                ELSE '{LineStatus.PENDING}' END AS status, line.errors,
           batch.created_at AS sent_at, line.external_account_number IS NULL AS unnumbered,
           coalesce(line.external_account_number, '') AS number_key,
           CASE WHEN line.external_account_number IS NULL
                THEN CAST(line.batch_id AS text) ELSE '' END AS batch_key,
           CASE WHEN line.external_account_number IS NULL THEN line.line_number ELSE 0 END AS line_key,
           false AS is_created
    FROM batch JOIN batch_line AS line ON line.batch_id = batch.id
    WHERE batch.import_supplier_id = :import_supplier_id
      AND batch.kind = '{BatchKind.ACCOUNTS}'
      AND (batch.id = :batch_id OR (:batch_id IS NULL AND batch.mode IN ({_KEEPING})))
      AND {IS_FIRST}
      AND NOT EXISTS (
          SELECT FROM account_import_process AS process
          WHERE process.import_supplier_id = :import_supplier_id
            AND process.external_account_number = line.external_account_number)
"""


def _newest(lines: str) -> str:
    return f"""
        SELECT DISTINCT ON (unnumbered, number_key, batch_key, line_key) * FROM ({lines}) AS sent
        ORDER BY unnumbered, number_key, batch_key, line_key, batch_id DESC, line_number"""


# The account numbers without an import process on lines of stage and import batches (or of one batch in any
# mode), each with its newest line, and all lines without a number. The newest batch has the largest id. A
# line that repeats the number of an earlier one never counts. The status is FAILED, SKIPPED, or PENDING for
# every other one.
_UNSTAGED = _newest(_SENT_LINES)
# The same, and the accounts with an import process of which a newer version waits.
UNSETTLED = _newest(f"""
    {_SENT_LINES}
    UNION ALL
    SELECT line.external_account_number, line.batch_id, line.line_number, line.status, line.errors,
           batch.created_at, false, line.external_account_number, '', 0,
           process.state = '{ImportState.IMPORTED}'
    {_UNDECIDED}""")

#: The rows that acknowledge a line which has no number or adds data.
OF_LINE = """
    FROM acknowledgement WHERE acknowledgement.import_supplier_id = :import_supplier_id
      AND acknowledgement.external_account_number IS NULL
      AND acknowledgement.batch_id = line.batch_id AND acknowledgement.line_number = line.line_number"""
# Two conditions instead of one with OR inside, which no index could serve.
ACKNOWLEDGED = f"""
    (EXISTS (SELECT FROM acknowledgement
             WHERE acknowledgement.import_supplier_id = :import_supplier_id
               AND acknowledgement.external_account_number = line.external_account_number
               AND acknowledged_at >= sent_at)
     OR unnumbered AND EXISTS (SELECT {OF_LINE} AND acknowledged_at >= sent_at))
"""

BATCH_ID = bindparam("batch_id", type_=Uuid)

# Condition on the errors of an item: one has the code that is wanted, if any is.
_HAS_CODE = "(:code IS NULL OR {} @> jsonb_build_array(jsonb_build_object('code', :code)))"
_WANTED = (
    bindparam("status", type_=Text),
    bindparam("code", type_=Text),
    bindparam("is_created", type_=Boolean),
)

#: Counts of refused, waiting, skipped and acknowledged items without an import process.
COUNT_UNSTAGED = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED})
    SELECT count(*) FILTER (WHERE status = '{LineStatus.FAILED}') AS refused,
           count(*) FILTER (WHERE status = '{LineStatus.PENDING}') AS waiting,
           count(*) FILTER (WHERE status = '{LineStatus.SKIPPED}') AS skipped,
           count(*) FILTER (WHERE status <> '{LineStatus.SKIPPED}' AND {ACKNOWLEDGED}) AS acknowledged
    FROM unstaged AS line
""").bindparams(BATCH_ID)

#: The latest acknowledgements of those that count as acknowledged.
ACKNOWLEDGED_UNSTAGED = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED})
    SELECT CASE WHEN unnumbered THEN (SELECT max(id) {OF_LINE})
           ELSE (SELECT max(id) FROM acknowledgement
                 WHERE acknowledgement.import_supplier_id = :import_supplier_id
                   AND acknowledgement.external_account_number = line.external_account_number) END AS id
    FROM unstaged AS line WHERE status <> '{LineStatus.SKIPPED}' AND {ACKNOWLEDGED}
""").bindparams(BATCH_ID)

# Condition: a newer version of the process was refused, and that is not acknowledged.
_LEFT_OPEN = """
    NOT EXISTS (SELECT FROM acknowledgement
                WHERE acknowledgement.import_supplier_id = process.import_supplier_id
                  AND acknowledgement.external_account_number = process.external_account_number
                  AND acknowledged_at >= process.refused_at)
"""

# What is refused and not acknowledged: lines, and newer versions of accounts.
_REFUSED = f"""
    SELECT external_account_number, batch_id, line_number, errors, false AS is_staged FROM unstaged AS line
    WHERE status = '{LineStatus.FAILED}' AND NOT {ACKNOWLEDGED}
    UNION ALL
    SELECT external_account_number, refused_batch_id, refused_line_number, refused_errors,
           state <> '{ImportState.IMPORTED}'
    FROM account_import_process AS process
    WHERE import_supplier_id = :import_supplier_id AND state <> '{ImportState.SKIPPED}'
      AND refused_at IS NOT NULL AND {_LEFT_OPEN} AND (:batch_id IS NULL OR refused_batch_id = :batch_id)
"""

#: Their error codes, and the first lines of each. A newer version of a single request has no line.
REFUSED_BY_CODE = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED}),
    found AS (
        SELECT item ->> 'code' AS code, item ->> 'attr' AS path, batch_id, line_number,
               coalesce(external_account_number, batch_id || ' ' || line_number) AS item_key,
               row_number() OVER (PARTITION BY item ->> 'code' ORDER BY batch_id, line_number) AS place
        FROM ({_REFUSED}) AS refused, jsonb_array_elements(errors) AS item)
    SELECT code, count(DISTINCT item_key) AS lines,
           coalesce(jsonb_agg(jsonb_build_array(batch_id, line_number, path) ORDER BY place)
               FILTER (WHERE place <= :examples AND batch_id IS NOT NULL), '[]') AS examples
    FROM found GROUP BY code ORDER BY lines DESC, code LIMIT :limit
""").bindparams(BATCH_ID)

#: Those that can be acknowledged, with one error code or any, in the order of the lines. A staged account is
#: skipped instead.
LIST_REFUSED = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED})
    SELECT external_account_number, batch_id, line_number, '{LineStatus.FAILED}' AS status, errors,
           false AS adds_data
    FROM ({_REFUSED}) AS refused
    WHERE NOT is_staged AND {_HAS_CODE.format("errors")}
    ORDER BY batch_id, line_number LIMIT :limit
""").bindparams(BATCH_ID, bindparam("code", type_=Text))


def _accounts_of_batch(chosen: str = "") -> str:
    """Return the processes on the lines of a batch: they are found by their numbers."""
    return f"""(
        SELECT found.*
        FROM (SELECT DISTINCT external_account_number FROM batch_line
              WHERE batch_id = :batch_id {chosen}) AS own
        CROSS JOIN LATERAL (
            SELECT * FROM account_import_process
            WHERE import_supplier_id = :import_supplier_id
              AND external_account_number = own.external_account_number OFFSET 0) AS found)"""


ACCOUNTS_OF_BATCH = _accounts_of_batch()


def _count_by_state(processes: str, counted: str = "DISTINCT process.id") -> TextClause:
    """Return the count of processes by state: all, those with a refused newer version, where that is open."""
    return text(f"""
        SELECT process.state, count({counted}), count({counted}) FILTER (WHERE refused_at IS NOT NULL),
               count({counted}) FILTER (WHERE refused_at IS NOT NULL AND {_LEFT_OPEN})
        {processes} GROUP BY process.state""")


#: The processes of a supplier, those on the lines of a batch, and those of which a newer version waits.
COUNT_PROCESSES = _count_by_state(
    "FROM account_import_process AS process WHERE import_supplier_id = :import_supplier_id", "*"
)
COUNT_PROCESSES_OF_BATCH = _count_by_state(f"FROM {ACCOUNTS_OF_BATCH} AS process", "*").bindparams(BATCH_ID)
COUNT_UNDECIDED = _count_by_state(_UNDECIDED).bindparams(BATCH_ID)

#: Lines of stage and import batches of accounts that are no longer kept, and the lines of all kept batches
#: that were open when they were removed.
COUNT_REMOVED_LINES = text(f"""
    SELECT coalesce(sum(lines) FILTER (WHERE kind = '{BatchKind.ACCOUNTS}' AND :batch_id IS NULL), 0),
           coalesce(sum(removed_refused), 0), coalesce(sum(removed_waiting), 0)
    FROM batch
    WHERE import_supplier_id = :import_supplier_id AND mode IN ({_KEEPING})
      AND lines_removed_at IS NOT NULL AND (:batch_id IS NULL OR id = :batch_id)
""").bindparams(BATCH_ID)

#: Counts the open lines of batches of accounts whose lines are about to be removed, by their newest lines.
COUNT_BEFORE_REMOVAL = text(f"""
    WITH unsettled AS MATERIALIZED ({UNSETTLED})
    SELECT count(*) FILTER (WHERE status = '{LineStatus.FAILED}') AS refused,
           count(*) FILTER (WHERE status = '{LineStatus.PENDING}') AS waiting
    FROM unsettled AS line WHERE batch_id = :removed_id AND NOT {ACKNOWLEDGED}
""").bindparams(BATCH_ID)

#: One page of unacknowledged items that are unsettled: accounts first, then lines without a number. The four
#: keys are those of the last item of the previous page.
LIST_UNSETTLED = text(f"""
    WITH unsettled AS MATERIALIZED ({UNSETTLED})
    SELECT external_account_number, batch_id, line_number, status, errors, false AS adds_data,
           unnumbered, number_key, batch_key, line_key
    FROM unsettled AS line
    WHERE status <> '{LineStatus.SKIPPED}' AND NOT {ACKNOWLEDGED}
      AND (:status IS NULL OR status = :status) AND {_HAS_CODE.format("errors")}
      AND (CAST(:is_created AS boolean) IS NULL OR is_created = :is_created)
      AND (unnumbered, number_key, batch_key, line_key)
          > (:unnumbered, :number_key, :batch_key, CAST(:line_key AS bigint))
    ORDER BY unnumbered, number_key, batch_key, line_key LIMIT :limit
""").bindparams(BATCH_ID, *_WANTED)

_STAGED_REASON = f"""
    CASE WHEN refused_at IS NULL THEN '{OpenReason.STAGED}'
         WHEN process.state IN ({_NOT_CREATED}) THEN '{OpenReason.STAGED_OLDER_VERSION}'
         ELSE '{OpenReason.CREATED_OLDER_VERSION}' END"""


def _list_staged(processes: str) -> TextClause:
    return text(f"""
        SELECT process.external_account_number, process.external_account_number AS after,
               {_STAGED_REASON} AS reason,
               refused_batch_id AS batch_id, refused_line_number AS line_number, refused_errors AS errors
        FROM {processes} AS process
        WHERE process.import_supplier_id = :import_supplier_id AND process.external_account_number > :after
          AND (process.state IN ({_NOT_CREATED})
               OR (process.state = '{ImportState.IMPORTED}' AND refused_at IS NOT NULL AND {_LEFT_OPEN}))
          AND (:reason IS NULL OR {_STAGED_REASON} = :reason) AND {_HAS_CODE.format("refused_errors")}
          AND (CAST(:is_created AS boolean) IS NULL
               OR (process.state = '{ImportState.IMPORTED}') = :is_created)
          AND NOT {_IS_WAITING}
        ORDER BY process.external_account_number LIMIT :limit""").bindparams(
        bindparam("reason", type_=Text), *_WANTED[1:]
    )


#: One page of the accounts that are staged but not created, or were created from an older version: of a
#: supplier, and of those on the lines of a batch.
LIST_STAGED = _list_staged("account_import_process")
LIST_STAGED_OF_BATCH = _list_staged(_accounts_of_batch("AND external_account_number > :after")).bindparams(
    BATCH_ID
)

#: Keeps what was not staged for a comparison, with whether it is acknowledged. Only all together can be told
#: which line is the newest of its account.
KEEP_UNSTAGED = text(f"""
    WITH unstaged AS MATERIALIZED ({_UNSTAGED})
    INSERT INTO compared_line (comparison_id, number, batch_id, line_number, status, is_acknowledged)
    SELECT :comparison_id, row_number() OVER (), batch_id, line_number, status, {ACKNOWLEDGED}
    FROM unstaged AS line WHERE :batch_id IS NULL OR batch_id = :batch_id
""").bindparams(BATCH_ID, bindparam("comparison_id", type_=Uuid))
#: The places before the first item of each, with the names of their columns.
FIRST_STAGED: dict[str, Any] = {"after": ""}
FIRST_UNSETTLED: dict[str, Any] = {"unnumbered": False, "number_key": "", "batch_key": "", "line_key": -1}
FIRST_ADDED: dict[str, Any] = {"after_batch": UUID(int=0), "after_line": 0}

# The lines of a batch of added data, or of all import batches of the supplier, by outcome: ADDED, SKIPPED
# (also if their data was taken back), FAILED, or PENDING for those that nobody has processed. Nobody adds
# anything to an excluded or erased account. The batches are found first (ARRAY keeps them from being joined),
# so no lines of others are read, and those of these are in order.
ADDED_LINES = f"""
    SELECT line.*,
           CASE WHEN line.status IN ('{LineStatus.ADDED}', '{LineStatus.ALREADY_ADDED}')
                THEN CASE WHEN EXISTS (SELECT {OF_LINE}) THEN '{LineStatus.SKIPPED}'
                     ELSE '{LineStatus.ADDED}' END
                WHEN line.status = '{LineStatus.SKIPPED}' OR {_IS_MARKED} OR EXISTS (
                    SELECT FROM account_import_process AS process
                    WHERE process.import_supplier_id = :import_supplier_id
                      AND process.external_account_number = line.external_account_number
                      AND process.state = '{ImportState.SKIPPED}')
                     OR {_IS_ERASED} THEN '{LineStatus.SKIPPED}'
                WHEN line.status = '{LineStatus.FAILED}' THEN '{LineStatus.FAILED}'
                ELSE '{LineStatus.PENDING}' END AS outcome,
           EXISTS (SELECT {OF_LINE}) AS is_acknowledged
    FROM batch_line AS line
    WHERE line.batch_id = ANY (ARRAY(
        SELECT batch.id FROM batch
        WHERE batch.import_supplier_id = :import_supplier_id AND batch.kind <> '{BatchKind.ACCOUNTS}'
          AND (batch.id = :batch_id OR (:batch_id IS NULL AND batch.mode = '{BatchMode.IMPORT}'))))
"""

#: The number of lines of added data by outcome, and of those acknowledged.
COUNT_ADDED_LINES = text(f"""
    SELECT outcome, count(*) AS lines, count(*) FILTER (WHERE is_acknowledged) AS acknowledged
    FROM ({ADDED_LINES}) AS line GROUP BY outcome
""").bindparams(BATCH_ID)

#: One page of the open lines of added data.
LIST_ADDED_LINES = text(f"""
    SELECT external_account_number, batch_id, line_number, status, errors,
           true AS adds_data, batch_id AS after_batch, line_number AS after_line
    FROM ({ADDED_LINES} AND (line.batch_id, line.line_number) > (:after_batch, :after_line)) AS line
    WHERE outcome IN ('{LineStatus.FAILED}', '{LineStatus.PENDING}')
      AND (:status IS NULL OR outcome = :status) AND NOT is_acknowledged AND {_HAS_CODE.format("errors")}
    ORDER BY batch_id, line_number LIMIT :limit
""").bindparams(BATCH_ID, bindparam("after_batch", type_=Uuid), *_WANTED[:2])
