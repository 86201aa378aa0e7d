"""Comparing created accounts: every staged value with the created one.

The database converts the rows of each account to JSON and compares it with the payload. This shares no code
with the creation, so it also detects mistakes of the creation itself. Only unequal accounts are read here,
and compared value by value. The same statement adds up the book: what is staged, skipped and created. A book
is read in pages, so memory and statements stay small for a book of any size. `comparisons` does one page
after the other; `submitted` covers accounts that were sent but never created.

A page has pieces of about a hundred accounts. The sums of each piece in which nothing differs are kept under
a hash of the versions of all its rows. The next comparison takes them if it finds the same hash, and compares
the piece otherwise. So nothing is missed that changed a row, whatever the change was and whoever made it.

A process keeps a hash of its contents: of the payload as it was staged, and once that is removed, of the
account that was equal to it. So a payload that was changed together with its account is noticed, too, and
accounts are compared for as long as they exist.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Any, TypeAlias
from uuid import UUID
from zlib import crc32

import msgspec
from sqlalchemy import ARRAY, BigInteger, LargeBinary, Row, Uuid, bindparam, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.moments import write_moment
from migration_payloads.normal_form import ACCOUNT, read_json
from migration_payloads.rules.catalogue import RULES_VERSION
from migration_payloads.schemas.account import read_account
from migration_payloads.schemas.json import encode_json
from migration_service.formats import write_csv
from migration_service.models import ComparedPiece, Comparison, Ledger
from migration_service.services.reconciliation.created_sql import (
    JOIN_ORIGIN,
    TOLD,
    account_version,
    created_account,
)
from migration_service.services.reconciliation.differences import (
    AccountDifference,
    Difference,
    Totals,
    join_measures,
)
from migration_service.services.reconciliation.submitted import PAGE_OF_LINES
from migration_service.states import ImportState, StagingResult

#: The number of accounts read together, and how many a piece of them has on average.
PAGE, PIECE = 2_000, 100
#: Bytes of compressed payloads compared by one statement, so that it ends in time even if they are large.
PAYLOADS = 4_000_000

_Rows: TypeAlias = Sequence[Row[Any]]


@dataclass(slots=True)
class _Piece:
    """Some accounts that follow each other, and what was found in them."""

    rows: list[Row[Any]] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    differing: list[AccountDifference] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(row.size or 0 for row in self.rows)

    @property
    def version(self) -> bytes:
        """Return a hash of what is compared and of how it is done."""
        versions = [f"{row.id} {row.version}" for row in self.rows]
        return sha256(encode_json([_HOW, self.rows[0].code, self.rows[0].document_root, *versions])).digest()


def compare_page(
    session: Session, comparison: Comparison, totals: Totals, *, after: Any, kept_id: UUID | None = None
) -> tuple[Any, int, list[AccountDifference]]:
    """Compare the created accounts of a page, starting after `after`, and add all of it to `totals`.

    In a comparison of a batch, the pages have only the accounts on its lines, in their order. Otherwise
    `after` is an account number. Data added to accounts after their creation, and its effect on balances, is
    left out. The pieces of the comparison `kept_id` that have not changed are taken from there. Return the
    start of the next page, or None if no account is left, the number of accounts of this one, and those that
    differ.
    """
    listed = _LIST_PAGE if comparison.batch_id is None else _LIST_PAGE_OF_BATCH
    values = {"import_supplier_id": comparison.import_supplier_id, "batch_id": comparison.batch_id}
    page = session.execute(listed, {**values, "after": after, "limit": PAGE}).all()
    if not page:
        return None, 0, []
    pieces = list(_cut([row for row in page if row.id is not None]))
    last = page[-1].place
    if len(page) == PAGE and len(pieces) > 1:
        pieces.pop()  # the next page has all of it
        last = pieces[-1].rows[-1].place
    versions = [piece.version for piece in pieces]
    found = session.execute(_FIND_PIECES, {"comparison_id": kept_id, "versions": versions})
    known = {row.version: row.totals for row in found}
    changed = []
    for piece, version in zip(pieces, versions, strict=True):
        if version in known:
            piece.totals = msgspec.convert(known[version], Totals)
        else:
            changed.append(piece)
    _compare(session, changed)
    for piece in pieces:
        totals.include(piece.totals)
    made = [
        {"comparison_id": comparison.id, "version": version, "totals": msgspec.to_builtins(piece.totals)}
        for piece, version in zip(pieces, versions, strict=True)
        if not piece.differing
    ]
    if made:
        session.execute(insert(ComparedPiece).on_conflict_do_nothing(), made)
    number = 1 + [row.place for row in page].index(last)
    return last, number, [it for piece in pieces for it in piece.differing]


def compare_account(session: Session, process_id: int) -> AccountDifference | None:
    """Return the differences of one created account from its staged payload.

    Return None if there is nothing to compare, because the account or its payload does not exist.
    """
    row = session.execute(_LIST_ACCOUNTS, {"process_ids": [process_id]}).one_or_none()
    if row is None or not row.is_comparable or not (row.is_imported or row.has_account):
        return None
    piece = _Piece([row])
    _compare(session, [piece])
    same = AccountDifference(row.external_account_number, row.service_account_number, [])
    return next(iter(piece.differing), same)


def remove_payloads(session: Session, process_ids: Sequence[int]) -> None:
    """Remove the payloads of created accounts, and of what was refused later.

    A process keeps the hash of its account if that is as it was staged. It is compared with it from then on.
    """
    rows = session.execute(_LIST_ACCOUNTS, {"process_ids": list(process_ids)}).all()
    pieces = list(_cut(rows))
    _compare(session, pieces)
    differing = {it.external_account_number for piece in pieces for it in piece.differing}
    same = [row.id for row in rows if row.external_account_number not in differing]
    session.execute(_REMOVE_PAYLOADS, {"process_ids": list(process_ids), "same": same})


def stream_id_map(sessions: sessionmaker[Session], import_supplier_id: int) -> Iterator[bytes]:
    """Yield the old and the new number of every created account, as CSV with a header, in pieces."""
    yield write_csv([["external_account_number", "service_account_number", "account_created_at"]])
    after = ""
    while True:
        with sessions.begin() as session:
            values = {"import_supplier_id": import_supplier_id, "after": after, "limit": PAGE}
            rows = session.execute(_ID_MAP, values).all()
        if not rows:
            return
        after = rows[-1].external_account_number
        yield write_csv([number, new, write_moment(created_at)] for number, new, created_at in rows)


def _cut(page: _Rows) -> Iterator[_Piece]:
    """Yield the processes of a page in pieces, each for one statement to compare.

    The accounts themselves decide where a piece ends, so that one more account changes a piece, and not all
    pieces after it.
    """
    piece, size = _Piece(), 0
    for row in page:
        size += row.size or 0
        if piece.rows and size > PAYLOADS:
            yield piece
            piece, size = _Piece(), row.size or 0
        piece.rows.append(row)
        if crc32(row.external_account_number.encode()) % PIECE == 0:
            yield piece
            piece, size = _Piece(), 0
    if piece.rows:
        yield piece


def _compare(session: Session, pieces: Sequence[_Piece]) -> None:
    """Compare the accounts of some pieces, with as few statements as their payloads allow."""
    together: list[_Piece] = []
    for piece in pieces:
        if together and sum(it.size for it in together) + piece.size > PAYLOADS:
            _compare_together(session, together)
            together = []
        together.append(piece)
    if together:
        _compare_together(session, together)


def _compare_together(session: Session, pieces: Sequence[_Piece]) -> None:
    session.execute(_PREPARE)
    places = [place for place, piece in enumerate(pieces) for _ in piece.rows]
    ids = [row.id for piece in pieces for row in piece.rows]
    compared = session.execute(COMPARE, {"process_ids": ids, "pieces": places}).all()
    found = {row.id: difference for piece in pieces for row, difference in _count_accounts(piece)}
    _find_values(session, compared, found)
    measured: defaultdict[int, list[tuple[str, Decimal, Decimal]]] = defaultdict(list)
    for row in compared:
        if row.measure in (None, _CONTENTS):
            continue
        totals = pieces[row.piece].totals
        staged, created = Decimal(row.staged), Decimal(row.created)
        if row.part in _BOOK:
            totals.add_part(row.part, {row.measure: created if row.part == "created" else staged})
        if row.part == "created" and row.is_compared and row.measure != "accounts":
            totals.add(row.measure, staged, created)
            if row.id is not None:
                measured[row.id].append((row.measure, staged, created))
    for process_id, sums in measured.items():
        found[process_id].differences.extend(it for it in join_measures(sums) if it.staged != it.created)
    for piece in pieces:
        accounts = [found[row.id] for row in piece.rows]
        piece.differing = [it for it in accounts if it.differences or it.values]
        piece.totals.differing = len(piece.differing)


def _find_values(session: Session, compared: _Rows, found: dict[int, AccountDifference]) -> None:
    """Add the values that differ to accounts. If contents were altered, the line as it was sent is right."""
    altered = [row.id for row in compared if row.measure == _CONTENTS]
    lines = session.execute(_FIND_LINES, {"process_ids": altered}) if altered else ()
    sent = {row.id: encode_json(read_account(row.payload).data) for row in lines}
    for row in compared:
        if row.measure is None and (staged := sent.get(row.id, row.staged)):
            differences = ACCOUNT.find_differences(read_json(staged), read_json(row.created))
            found[row.id].values.extend(differences)
        elif row.measure == _CONTENTS and row.id not in sent:
            found[row.id].differences.append(Difference(_CONTENTS, Decimal(row.staged), Decimal(row.created)))


def _count_accounts(piece: _Piece) -> Iterator[tuple[Row[Any], AccountDifference]]:
    """Count the accounts of a piece. Yield each row, and its difference if one of both does not exist."""
    for row in piece.rows:
        found = AccountDifference(row.external_account_number, row.service_account_number, [])
        if row.is_imported or row.has_account:
            imported, created = Decimal(row.is_imported), Decimal(row.has_account)
            piece.totals.add("accounts", imported, created)
            if imported != created:
                found.differences.append(Difference("accounts", imported, created))
            piece.totals.compared += row.has_account and row.is_comparable
            piece.totals.not_comparable += not row.is_comparable
            piece.totals.erased += not row.is_comparable and bool(row.is_erased)
        yield row, found


#: The measure of an account whose contents have another hash than they had. Its value is 1 if it is the same.
_CONTENTS = "contents"
#: The parts of the book that the statement adds up. An account that is missing is in none of them.
_BOOK = ("created", "staged", "skipped")

# The columns of a page, and how they are read: everything by the key of the row before. `place` is the start
# of the next page.
_COLUMNS = f"""
    process.id, process.external_account_number, process.service_account_number,
    process.state = '{ImportState.IMPORTED}' AS is_imported, pg_column_size(process.payload) AS size,
    num_nonnulls(process.payload, process.content_hash) > 0 AS is_comparable,
    account.id IS NOT NULL AS has_account, account.erased_at IS NOT NULL AS is_erased,
    supplier.code, supplier.document_root,
    concat(process.xmin, ' ', account.version) AS version
"""
_ACCOUNT = f"""
    LEFT JOIN LATERAL (
        SELECT id, erased_at, {account_version()} AS version FROM account
        WHERE account_import_process_id = process.id OFFSET 0) AS account ON true
    LEFT JOIN LATERAL (
        SELECT code, document_root FROM import_supplier WHERE id = process.import_supplier_id OFFSET 0
    ) AS supplier ON true
"""

#: One page of the import processes of a supplier.
_LIST_PAGE = text(f"""
    SELECT {_COLUMNS}, process.external_account_number AS place
    FROM (SELECT *, xmin FROM account_import_process
          WHERE import_supplier_id = :import_supplier_id AND external_account_number > :after
          ORDER BY external_account_number LIMIT :limit) AS process {_ACCOUNT}
    ORDER BY process.external_account_number
""")

#: The same for some accounts.
_LIST_ACCOUNTS = text(f"""
    SELECT {_COLUMNS} FROM account_import_process AS process {_ACCOUNT}
    WHERE process.id = ANY (:process_ids) ORDER BY process.external_account_number
""").bindparams(bindparam("process_ids", type_=ARRAY(BigInteger)))

#: The same for the accounts on the lines of a batch. An account on two lines counts on the first. A line of
#: which nothing is staged has no id.
_LIST_PAGE_OF_BATCH = text(f"""
    SELECT {_COLUMNS}, line.line_number AS place
    FROM {PAGE_OF_LINES} AS line
    LEFT JOIN LATERAL (
        SELECT *, xmin FROM account_import_process
        WHERE import_supplier_id = :import_supplier_id
          AND external_account_number = line.external_account_number OFFSET 0) AS process ON true {_ACCOUNT}
    ORDER BY line.line_number
""")

#: The sums of pieces that another comparison has compared.
_FIND_PIECES = text("""
    SELECT version, totals FROM compared_piece
    WHERE comparison_id = :comparison_id AND version = ANY (:versions)
""").bindparams(bindparam("comparison_id", type_=Uuid), bindparam("versions", type_=ARRAY(LargeBinary)))

# The payload. Without a ledger, the account gets an empty one. The number is the one that was told, and is
# present only if the account or the process has a different one.
_STAGED = f"""
    CASE WHEN coalesce(process.payload -> 'ledgers', '[]') <> '[]'
              AND process.service_account_number = account.service_account_number
              AND process.service_account_number = {TOLD} THEN process.payload
         ELSE process.payload
              || CASE WHEN account.id IS NOT NULL AND coalesce(process.payload -> 'ledgers', '[]') = '[]'
                      THEN CAST(:without_ledgers AS jsonb) ELSE '{{}}' END
              || CASE WHEN process.service_account_number IS DISTINCT FROM {TOLD}
                           OR account.service_account_number IS DISTINCT FROM {TOLD}
                      THEN jsonb_build_object('service_account_number', {TOLD})
                      ELSE '{{}}' END END"""

# The measures of a payload, or of an account in the form of its payload. `FileTotals` has the same for the
# lines of a file, where reconciliation needs them.
_MEASURES = """
    SELECT 'accounts' AS measure, CAST(1 AS numeric) AS value
    UNION ALL SELECT 'customers', jsonb_array_length(coalesce(document -> 'customers', '[]'))
    UNION ALL SELECT 'meter_points', jsonb_array_length(jsonb_path_query_array(
        document, '$.supply_addresses[*].meter_points[*]'))
    UNION ALL SELECT 'agreements', jsonb_array_length(jsonb_path_query_array(
        document, '$.supply_addresses[*].meter_points[*].agreements[*]'))
    UNION ALL SELECT 'statements', jsonb_array_length(coalesce(document -> 'statements', '[]'))
    UNION ALL SELECT ledger_measure.*
    FROM jsonb_array_elements(coalesce(document -> 'ledgers', '[]')) AS ledger, LATERAL (
        SELECT 'balance of ' || (ledger ->> 'ledger_code'), CAST(ledger ->> 'ledger_balance' AS numeric)
        UNION ALL SELECT entry_measure.*
        FROM (SELECT jsonb_array_elements(coalesce(ledger -> 'transactions_in_open_settlement_period', '[]'))
              UNION ALL
              SELECT jsonb_array_elements(coalesce(ledger -> 'historical_statement_transactions', '[]'))
        ) AS found (entry), LATERAL (VALUES
            ('number of ' || (entry ->> 'type'), 1),
            ('amount of ' || (entry ->> 'type'), CAST(entry ->> 'amount' AS numeric))
        ) AS entry_measure) AS ledger_measure
"""

#: Compares the payloads of some processes with their accounts, value by value, and adds up both. There are
#: three kinds of rows: the staged and created sums of each measure by part of the book, for each unequal
#: account and for all others of a piece together (without an id), both sides of each unequal account as JSON
#: (without a measure), and the accounts whose contents have another hash. All values are text, so that no
#: amount is converted to a float. The staged side is the payload, or the account itself if that was removed
#: and the hash is the same, and the created side is built from rows. Equal values are added up only once.
#: Each table is read by the key of the row before, so there is no plan to choose, whatever its statistics.
COMPARE = text(f"""
    WITH compared AS MATERIALIZED (
        SELECT id, piece, part, is_same, is_altered, found.staged,
               has_account AND found.staged IS NOT NULL AS is_compared,
               CASE WHEN is_same IS NOT TRUE THEN created END AS created
        FROM (SELECT process.id, wanted.piece, account.id IS NOT NULL AS has_account, content_hash,
                     process.payload IS NULL AS is_removed,
                     jsonb_hash_extended(process.payload, 0) AS payload_hash,
                     CASE WHEN account.id IS NOT NULL THEN 'created'
                          WHEN process.state = '{ImportState.SKIPPED}' THEN 'skipped'
                          WHEN process.state = '{ImportState.IMPORTED}' THEN 'missing'
                          ELSE 'staged' END AS part,
                     jsonb_strip_nulls({_STAGED}) AS staged,
                     CASE WHEN account.id IS NOT NULL
                          THEN jsonb_strip_nulls(CAST({created_account()} AS jsonb)) END AS created
              FROM unnest(:process_ids, :pieces) AS wanted (id, piece)
              CROSS JOIN LATERAL (
                  SELECT * FROM account_import_process WHERE id = wanted.id OFFSET 0) AS process
              LEFT JOIN LATERAL (
                  SELECT * FROM account
                  WHERE account_import_process_id = process.id OFFSET 0) AS account ON true
              {JOIN_ORIGIN}
              OFFSET 0) AS side  -- so that both are made once
        CROSS JOIN LATERAL (
            SELECT has_account AND hash <> content_hash AS is_altered,
                   CASE WHEN is_removed THEN hash = content_hash ELSE staged = created END AS is_same,
                   CASE WHEN is_removed AND hash = content_hash THEN created ELSE staged END AS staged
            FROM (SELECT coalesce(payload_hash, jsonb_hash_extended(created, 0)) AS hash) AS hashed OFFSET 0
        ) AS found
    ), document (id, piece, part, is_compared, document, is_staged, is_created) AS (
        SELECT CASE WHEN is_compared AND NOT is_same THEN id END, piece, part, is_compared, staged, true,
               coalesce(is_same, false)
        FROM compared WHERE staged IS NOT NULL
        UNION ALL
        SELECT CASE WHEN is_compared THEN id END, piece, part, is_compared, created, false, true
        FROM compared WHERE created IS NOT NULL
    )
    SELECT id, piece, part, is_compared, measure,
           CAST(coalesce(sum(value) FILTER (WHERE is_staged), 0) AS text) AS staged,
           CAST(coalesce(sum(value) FILTER (WHERE is_created), 0) AS text) AS created
    FROM document, LATERAL ({_MEASURES}) AS measured
    GROUP BY id, piece, part, is_compared, measure
    UNION ALL
    SELECT id, piece, part, true, NULL, CAST(staged AS text), CAST(coalesce(created, staged) AS text)
    FROM compared WHERE is_altered OR is_compared AND NOT is_same
    UNION ALL
    SELECT id, piece, part, true, '{_CONTENTS}', '1', '0' FROM compared WHERE is_altered
    ORDER BY id NULLS FIRST, measure
""").bindparams(
    bindparam("process_ids", type_=ARRAY(BigInteger)),
    bindparam("pieces", type_=ARRAY(BigInteger)),
    without_ledgers=encode_json({Ledger.sources[0].key: Ledger.sources[0].default}).decode(),
)

#: The lines that staged the payloads of some processes.
_FIND_LINES = text(f"""
    SELECT process.id, line.payload FROM account_import_process AS process
    JOIN batch_line AS line
      ON line.batch_id = CAST(substring(process.staged_request_id FROM '^batch ([0-9a-f-]{{36}})$') AS uuid)
     AND line.external_account_number = process.external_account_number
    WHERE process.id = ANY (:process_ids) AND line.payload IS NOT NULL
      AND line.staging_result IN ('{StagingResult.STAGED}', '{StagingResult.REPLACED}')
""").bindparams(bindparam("process_ids", type_=ARRAY(BigInteger)))

_REMOVE_PAYLOADS = text(f"""
    UPDATE account_import_process AS removed
    SET payload = NULL, warnings = NULL, refused_errors = NULL, refused_payload = NULL,
        content_hash = CASE WHEN removed.payload IS NULL THEN removed.content_hash
                            WHEN removed.id = ANY (:same) THEN side.hash END
    FROM (SELECT process.id,
                 jsonb_hash_extended(jsonb_strip_nulls(CAST({created_account()} AS jsonb)), 0) AS hash
          FROM account_import_process AS process
          JOIN account ON account.account_import_process_id = process.id
          {JOIN_ORIGIN}
          WHERE process.id = ANY (:process_ids) OFFSET 0) AS side
    RIGHT JOIN unnest(:process_ids) AS wanted (id) USING (id)
    WHERE removed.id = wanted.id
""").bindparams(bindparam("process_ids", type_=ARRAY(BigInteger)), bindparam("same", type_=ARRAY(BigInteger)))

# How this version of the service compares.
_HOW = sha256(f"{COMPARE.text} {RULES_VERSION}".encode()).hexdigest()

#: Settings for the transaction of COMPARE. It is planned each time, because a plan made while the tables were
#: small would read whole tables for each account. Both sides of a page fit in memory.
_PREPARE = text("""
    SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('work_mem', '64MB', true)
""")

#: One page of the numbers of created accounts.
_ID_MAP = text(f"""
    SELECT external_account_number, service_account_number, account_created_at
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number > :after
      AND state = '{ImportState.IMPORTED}'
    ORDER BY external_account_number LIMIT :limit
""")
