"""The hot statements use the indexes that are made for them, and would read whole tables without them."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, ClassVar, TypeAlias

import psycopg
import pytest
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service import models
from migration_service.db.base import new_id
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.jobs import Progress, take_due
from migration_service.db.revisions import upgrade
from migration_service.db.sql import OpenTransaction
from migration_service.errors import ServiceError
from migration_service.services.access.api_keys import get_api_key
from migration_service.services.accounts.erasure import erase_account, erase_outcomes
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.audit.trail import TrailFilter, read_trail
from migration_service.services.batches.error_thresholds import measure, usual_threshold
from migration_service.services.batches.results.counts import recount
from migration_service.services.batches.results.findings import ShownLine, find_neighbours, list_lines
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.batches.states import complete_batches, follow_keys, follow_suppliers
from migration_service.services.batches.work.added_data.deferral import (
    find_coming,
    find_existing,
    wake_lines,
)
from migration_service.services.batches.work.feed import dispatch_vendor_chunks, recover_chunks
from migration_service.services.batches.work.lines import LineResult, write_outcomes
from migration_service.services.emails.outbox import CLAIM_ALERTS, CLAIM_CUSTOMERS
from migration_service.services.idempotency.keys import remove_old_keys, void_keys
from migration_service.services.imports.newer_versions import RefusedVersion, note_refused, note_taken
from migration_service.services.imports.status import ListKind, read_imports
from migration_service.services.processing.attempts import is_waiting, set_apart, take_set
from migration_service.services.processing.slots import list_live_attempts
from migration_service.services.reconciliation.comparisons import start_comparison, wait_for_comparison
from migration_service.services.reconciliation.submitted import (
    FIRST_ADDED,
    LIST_ADDED_LINES,
    LIST_STAGED,
    count_submitted,
)
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.reporting.attempts import read_attempts
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.services.undo.execution import revert_piece
from migration_service.states import BatchKind, BatchMode, LineStatus, UndoOutcome
from migration_service_local.servers.postgres import DATABASE
from support.factories import Customer, make_customer
from support.rows import add_chunk, make_batch, make_created, make_line, make_supplier
from support.servers import EmbeddedServers

_NOW = datetime.now(UTC)
_CLAIM = {"limit": 10, "domain": "energy.example", "lease": 90}
_BATCH, _UNDO = new_id(), new_id()
_DEFERRED = models.BatchChunk(batch_id=_BATCH, first_line=1, deferred_since=_NOW)

_Database: TypeAlias = tuple[sessionmaker[Session], Customer]
_Call: TypeAlias = Callable[[Session, int], Any]


@pytest.fixture(scope="module")
def unanalysed(embedded_servers: EmbeddedServers) -> Iterator[_Database]:
    """A database without statistics: those that the rows of other tests leave decide about plans, too."""
    yield from _new_database(embedded_servers)


@pytest.fixture
def filled(embedded_servers: EmbeddedServers) -> Iterator[_Database]:
    yield from _new_database(embedded_servers)


def _new_database(embedded_servers: EmbeddedServers) -> Iterator[_Database]:
    with embedded_servers.new_database() as (url, owner_url):
        upgrade(owner_url, runtime_role=DATABASE)
        engine = make_engine(url, pool_size=1, max_overflow=0, application_name="tests")
        sessions = make_sessionmaker(engine)
        yield sessions, make_customer(sessions)
        engine.dispose()


# What is called often or beside many rows, with the id of a supplier, by the index that it needs.
@pytest.mark.parametrize(
    ("index", "call"),
    [
        ("ix_account_import_process_in_progress", lambda session, _: is_waiting(session)),
        ("ix_account_import_process_in_progress", lambda session, _: set_apart(session)),
        ("ix_account_import_process_in_progress", lambda session, _: list_live_attempts(session)),
        ("ix_account_import_process_open", lambda session, supplier: find_coming(session, supplier, ["1"])),
        ("ix_account_import_process_open", lambda session, known: _list(session, known, ListKind.PENDING)),
        (
            "ix_account_import_process_open",
            lambda session, known: session.execute(
                LIST_STAGED,
                {"import_supplier_id": known, "after": "", "limit": 1}
                | dict.fromkeys(("reason", "code", "is_created")),
            ),
        ),
        ("ix_account_import_process_failed", lambda session, known: _list(session, known, ListKind.FAILED)),
        ("uq_account_pair", lambda session, supplier: find_existing(session, supplier, ["1"])),
        ("ix_attempt_account_import_process_id", lambda session, _: read_attempts(session, 1)),
        ("uq_api_key_prefix", lambda session, _: get_api_key(session, "ami_0123456789")),
        ("ix_batch_open", lambda session, supplier: find_coming(session, supplier, ["1"])),
        ("ix_batch_open", lambda session, _: complete_batches(session)),
        ("ix_batch_open", lambda session, _: follow_keys(session)),
        ("ix_batch_open", lambda session, _: follow_suppliers(session)),
        ("ix_batch_open", lambda session, _: dispatch_vendor_chunks(session, 1)),
        ("ix_batch_chunk_open", lambda session, _: recover_chunks(session)),
        ("ix_batch_chunk_working", lambda session, _: list_live_attempts(session)),
        (
            "ix_batch_chunk_worked",
            lambda session, _: measure(session, _BATCH, usual_threshold(BatchMode.IMPORT), _NOW),
        ),
        ("ix_batch_line_chunk", lambda session, supplier: wake_lines(session, supplier, _DEFERRED, 1)),
        ("ix_customer_email_due", lambda session, _: session.execute(CLAIM_CUSTOMERS, _CLAIM)),
        ("ix_alert_email_due", lambda session, _: session.execute(CLAIM_ALERTS, _CLAIM)),
        ("ix_idempotency_key_created_at", lambda session, _: remove_old_keys(session)),
        ("ix_idempotency_key_account", lambda session, _: void_keys(session, "S", ["1"])),
        ("ix_undo_open", lambda session, _: take_due(session, "undo")),
        ("ix_undo_line_pending", lambda session, _: revert_piece(session, _UNDO)),
    ],
)
def test_a_hot_statement_uses_its_index(unanalysed: _Database, index: str, call: _Call) -> None:
    sessions, customer = unanalysed
    with sessions() as session:
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None).id
        owned = {"organisation_id": customer.organisation_id, "import_supplier_id": supplier}
        team = get_operations_team_id(session, customer.organisation_id, customer.operations_team)
        batch = models.Batch(id=_BATCH, mode="import", source="upload", operations_team_id=team, **owned)
        session.add_all([batch, models.Undo(id=_UNDO, reason="", **owned)])
        session.flush()
        session.execute(text("SET LOCAL enable_seqscan = off"))
        before = _scans(session)
        with suppress(ServiceError):
            call(session, supplier)
        used = {name for name, scans in _scans(session).items() if scans > before.get(name, 0)}
        session.rollback()
    assert index in used


def _list(session: Session, supplier: int, kind: ListKind) -> None:
    [code] = session.scalars(select(models.ImportSupplier.code).where(models.ImportSupplier.id == supplier))
    known = get_import_supplier(session, code, organisation_id=None)
    read_imports(OpenTransaction.of(session), known, kind, after="", limit=1)


def test_no_lines_of_other_accounts_are_read(filled: _Database) -> None:
    sessions, customer = filled
    with sessions.begin() as session:
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
        owned = {"organisation_id": customer.organisation_id, "import_supplier_id": supplier.id}
        team = get_operations_team_id(session, customer.organisation_id, customer.operations_team)
        session.add(models.Batch(id=_BATCH, mode="import", source="upload", operations_team_id=team, **owned))
        session.flush()
        session.execute(text(_LINES), {"batch_id": _BATCH})
    with sessions.begin() as session:
        assert find_coming(session, supplier.id, ["1"]) == {"1"}
        assert erase_account(session, supplier, "1", reason="Request 1")["batch_lines"] == 3
        assert session.scalar(text(_READ)) < 20


#: Lines of other accounts, half of them of added data, two of the account, and one without a number.
_LINES = """
    INSERT INTO batch_line (batch_id, line_number, chunk_line, external_account_number, payload)
    SELECT :batch_id, number, CASE WHEN number > 5000 THEN 1 END, nullif(number % 5000, 0), '{"number":"1"'
    FROM generate_series(1, 9999) AS number
"""
#: How many lines this transaction has read.
_READ = """SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables
    WHERE relid = 'batch_line'::regclass"""


def test_the_verdict_of_a_batch_reads_its_accounts_and_what_waits(filled: _Database) -> None:
    sessions, customer = filled
    with sessions.begin() as session:
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
        owned = {"organisation_id": customer.organisation_id, "import_supplier_id": supplier.id}
        session.add(models.Batch(id=_BATCH, mode="stage", source="upload", state="COMPLETED", **owned))
        session.flush()
        session.execute(text(_CREATED), {"batch_id": _BATCH, "supplier": supplier.id})
    with sessions.begin() as session:  # later than what was created
        open_batch = make_batch(session, supplier, state="PAUSED")
        add_chunk(session, open_batch, first_line=1, last_line=2)
        for number in (1, 2):
            make_line(session, open_batch, number, str(number), "PENDING")
    read = text(_READ.replace("batch_line", "account_import_process"))
    with sessions.begin() as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))  # as with statistics of a large table
        verdict = judge(session, supplier.id, _BATCH)
        assert (verdict.not_compared, verdict.sent.created_version_waits) == (1, 1)
        assert session.scalar(read) < 20


#: Five thousand created accounts, of which the batch has one.
_CREATED = """
    WITH created AS (
        INSERT INTO account_import_process (import_supplier_id, external_account_number, state,
            payload_sha256, rules_version, profile, account_created_at)
        SELECT :supplier, number, 'IMPORTED', '', '', '', now() FROM generate_series(1, 5000) AS number)
    INSERT INTO batch_line (batch_id, line_number, status, external_account_number)
    VALUES (:batch_id, 1, 'IMPORTED', '1')"""


def test_a_page_of_lines_reads_the_chunks_that_have_some(filled: _Database) -> None:
    """Of ten thousand lines, the second and the last hundredth have failed ones."""
    sessions, customer = filled
    with sessions.begin() as session:
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
        batch = make_batch(session, supplier, state="COMPLETED")
        session.execute(text(_SPARSE), {"batch_id": batch.id})
        for first_line in range(1, 10_001, 100):
            add_chunk(session, batch, first_line, first_line + 99, state="DONE")
        session.flush()
        recount(session, batch.id)
        session.execute(text("ANALYZE batch_line, batch_chunk"))
    failed = ResultFilter(LineStatus.FAILED)
    for call, found in (
        (lambda own: _numbers(list_lines(own, batch.id, failed)), [150, 9950]),
        (lambda own: _numbers(list_lines(own, batch.id, ResultFilter(code="one"))), [150, 9950]),
        (lambda own: _numbers(list_lines(own, batch.id, failed, after=200)), [9950]),
        (lambda own: find_neighbours(own, batch.id, 5000, LineStatus.FAILED), (150, 9950)),
    ):
        with sessions.begin() as session:
            session.execute(text("SET LOCAL enable_seqscan = off"))  # as with statistics of a large table
            before = session.scalar(text(_READ)) or 0  # by what the connection did before
            assert call(session) == found
            assert session.scalar(text(_READ)) - before < 600


_SPARSE = """
    INSERT INTO batch_line (batch_id, line_number, status, errors)
    SELECT :batch_id, number, CASE WHEN number % 9800 = 150 THEN 'FAILED' ELSE 'VALID' END,
           CASE WHEN number % 9800 = 150 THEN CAST('[{"code": "one", "detail": ""}]' AS jsonb) END
    FROM generate_series(1, 10000) AS number"""


def _numbers(found: tuple[list[ShownLine], bool]) -> list[int]:
    return [it.line_number for it in found[0]]


def test_what_is_open_of_added_data_reads_no_lines_of_accounts(filled: _Database) -> None:
    sessions, customer = filled
    with sessions.begin() as session:
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
        accounts = make_batch(session, supplier, state="COMPLETED")
        session.execute(text(_LINES), {"batch_id": accounts.id})
        added = make_batch(session, supplier, state="COMPLETED", kind="notes", mode="import")
        make_line(session, added, 1, "1", "FAILED")
        session.execute(text("ANALYZE batch, batch_line"))
    values = {"import_supplier_id": supplier.id, "batch_id": None, "limit": 50, **FIRST_ADDED}
    values |= dict.fromkeys(("status", "code"))
    with sessions.begin() as session:
        before = session.scalar(text(_READ)) or 0
        assert [it.batch_id for it in session.execute(LIST_ADDED_LINES, values)] == [added.id]
        assert session.scalar(text(_READ)) - before < 20


def test_a_page_of_the_audit_reads_the_accounts_of_its_entries(filled: _Database) -> None:
    sessions, customer = filled
    with sessions.begin() as session:
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
        session.execute(text(_CREATED), {"batch_id": _BATCH, "supplier": supplier.id})
        known = session.scalar(select(func.max(models.AccountImportProcess.id)))
        record(session, AuditAction.ACCOUNT_ERASED, "account", str(known))
    with sessions.begin() as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))  # as with statistics of a large table
        entries, _ = read_trail(session, TrailFilter(only_entries=True), limit=100)
        assert f"{supplier.code} 5000" in [it["subject"] for it in entries]
        assert session.scalar(text(_READ.replace("batch_line", "account_import_process"))) < 20


def test_an_acknowledgement_is_found_by_its_account_or_line(filled: _Database) -> None:
    sessions, customer = filled
    with sessions.begin() as session:
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
        owned = {"organisation_id": customer.organisation_id, "import_supplier_id": supplier.id}
        session.add(models.Batch(id=_BATCH, mode="stage", source="upload", state="COMPLETED", **owned))
        session.flush()
        for statement in _ACKNOWLEDGED:
            session.execute(text(statement), {"batch_id": _BATCH, "supplier": supplier.id})
        assert count_submitted(session, supplier.id).acknowledged == 1000
        assert session.scalar(text(_READ.replace("batch_line", "acknowledgement"))) < 10_000


#: A thousand refused lines, each second one without a number, and their acknowledgements.
_ACKNOWLEDGED = (
    """
    INSERT INTO batch_line (batch_id, line_number, status, external_account_number, errors)
    SELECT :batch_id, number, 'FAILED', CASE WHEN number % 2 = 0 THEN number END, '[]'
    FROM generate_series(1, 1000) AS number""",
    """
    INSERT INTO acknowledgement (import_supplier_id, external_account_number, batch_id, line_number, reason,
        acknowledged_by)
    SELECT :supplier, external_account_number, batch_id, line_number, '', '' FROM batch_line""",
)


@pytest.mark.parametrize(
    ("rows", "is_analysed"),
    [(-1, False), (0, False), (10_000, False), (10_000_000, False), (10_000_000, True)],
)
def test_what_is_done_in_pieces_reads_no_more_than_the_piece(
    embedded_servers: EmbeddedServers, rows: int, is_analysed: bool
) -> None:
    """Whatever the statistics say: -1 is a table of which there are none, with one supplier for all rows.

    Or all rows but those of an earlier book came after the last ANALYZE.
    """
    with embedded_servers.new_database() as (url, owner_url):
        upgrade(owner_url, runtime_role=DATABASE)
        owner = create_engine(owner_url.replace("postgresql:", "postgresql+psycopg:"))
        with owner.begin() as connection:
            connection.execute(text(_WITHOUT_AUTOVACUUM))  # which knows the few rows there are
        engine = make_engine(url, pool_size=1, max_overflow=0, application_name="tests", kind=_Connection)
        sessions = make_sessionmaker(engine)
        if is_analysed:
            # The accounts of a small book of another supplier, and what a batch has of it.
            with sessions.begin() as session:
                known = make_supplier(session, "EARLIER")
                batch = make_batch(session, known)
                for first in range(1, 61, 20):
                    add_chunk(session, batch, first, first + 19)
                    for line in range(first, first + 20):
                        make_created(session, known, f"E{line}")
                        make_line(session, batch, line, f"E{line}", "IMPORTED", chunk_line=first)
            with owner.begin() as connection:
                connection.execute(text("ANALYZE"))
        statements = _collect_pieces(sessions)
        engine.dispose()
        with owner.begin() as connection:
            connection.execute(text(_STATISTICS), {"rows": rows})
            connection.execute(text(_ONE_SUPPLIER))
        with owner.connect() as connection:
            connection.execute(text("SET enable_seqscan = off"))  # of a table that is empty in truth
            explain = connection.exec_driver_sql
            found = {
                statement: _find_wide(
                    explain(f"EXPLAIN (FORMAT JSON) {statement}", values).scalar_one()[0]["Plan"]
                )
                for statement, values in statements.items()
            }
        owner.dispose()
    assert {" ".join(statement.split()): wide for statement, wide in found.items() if wide} == {}
    assert len(statements) > 50


class _Connection(psycopg.Connection[Any]):
    """A connection that notes what is sent while `noted` is there."""

    noted: ClassVar[dict[str, Any] | None] = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cursor_factory = _Cursor

    @classmethod
    @contextmanager
    def noting(cls, statements: dict[str, Any]) -> Iterator[None]:
        cls.noted = statements
        yield
        cls.noted = None


class _Cursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        # Which line is the newest of its account is found once, for all of them.
        is_once = "INTO compared_line" in query or "DELETE FROM compared_line" in query
        if _Connection.noted is not None and not query.lstrip().startswith(("INSERT", "SET")) and not is_once:
            _Connection.noted[query] = params
        return super().execute(query, params, **options)


def _collect_pieces(sessions: sessionmaker[Session]) -> dict[str, Any]:
    """Compare, list and revert accounts, and write outcomes. Return the statements with their values."""
    statements: dict[str, Any] = {}
    with sessions.begin() as session:
        known = make_supplier(session, "MINE")
        created = make_created(session, known, "1")
        owned = {"organisation_id": known.organisation_id, "import_supplier_id": known.id}
        session.add(models.Undo(id=_UNDO, reason="", **owned))
        session.flush()
        number = created.service_account_number
        session.add(
            models.UndoLine(
                undo_id=_UNDO,
                position=1,
                account_import_process_id=created.id,
                service_account_number=number,
            )
        )
        file = {"file_sha256": b"", "file_bytes": 0, "accounts": 1, "tolerance": 0, "tolerance_days": 0}
        session.add(
            models.OldFigures(import_supplier_id=known.id, upload_id=new_id(), uploaded_by="", **file)
        )
        session.add(
            models.OldFigure(
                import_supplier_id=known.id,
                line_number=1,
                external_account_number="1",
                figures={"meter_points": 0},
            )
        )
        batches = [make_batch(session, known)]
        for kind in (it for it in BatchKind if it.is_added_data):
            batches.append(make_batch(session, known, mode="import", kind=kind))
            add_chunk(session, batches[-1])
        for batch in batches:
            make_line(session, batch, 1, "1", "ADDED", chunk_line=1, understood=[_ITEM])
        ids = [batch.id for batch in batches]
    for batch_id in (None, *ids):
        with sessions.begin() as session:
            comparison_id = start_comparison(session, known, batch_id)[0].id
        with _Connection.noting(statements):
            assert wait_for_comparison(sessions, comparison_id)
    with _Connection.noting(statements), sessions.begin() as session:
        write_outcomes(session, ids[0], [LineResult(1, LineStatus.FAILED, "1")])
        erase_outcomes(session, known.id, ids[0], [1])
        recount(session, ids[0], [1])
        transaction = OpenTransaction.of(session)
        for listed in ListKind:
            read_imports(transaction, known, listed, after="", limit=10)
        note_refused(transaction, known.id, [RefusedVersion("1", [])])
        note_taken(transaction, known.id, ["1"], extracted_at=None)
        assert revert_piece(session, _UNDO) is Progress.WORKED
    with sessions() as session:
        assert session.scalar(select(models.UndoLine.outcome)) == UndoOutcome.REVERTED
    return statements


#: What a line of added data was understood as, whatever its kind.
_ITEM = {
    "same": "00",
    "transaction_id": "1",
    "statement_id": "1",
    "type": "X",
    "amount": 1,
    "gross_amount": 1,
}


def _find_wide(node: dict[str, Any]) -> set[str]:
    """Return what a node of a plan, or one below it, reads that can be more than a piece."""
    found = {node.get("Index Name") or node["Relation Name"]} if _is_wide(node) else set()
    return found.union(*map(_find_wide, node.get("Plans", ()))) - set(_SMALL)


#: Tables and indexes of which one supplier has few rows.
_SMALL = (
    *("batch", "comparison", "import_supplier", "ix_comparison_scope", "pk_payment_vendor"),
    *("uq_comparison_running", "old_figures", "pk_old_figures", "ix_batch_import_supplier_id"),
)
#: What reads a table or an index. The scan of a heap reads what that of an index has found.
_SCANS = ("Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan")


def _is_wide(node: dict[str, Any]) -> bool:
    """Return whether a scan reads more than an account, a line or a piece, or what follows one of them."""
    if node["Node Type"] not in _SCANS:
        return False
    columns = set(re.findall(r"(\w+)\)* [=<>]+ ", node.get("Index Cond", "")))
    return not columns - {"import_supplier_id", "batch_id", "comparison_id"}


_WITHOUT_AUTOVACUUM = """
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
        LOOP EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = false)', name); END LOOP;
    END $$
"""
_STATISTICS = """
    SELECT pg_restore_relation_stats('schemaname', 'public', 'relname', CAST(relname AS text),
                                     'relpages', CAST(:rows > 0 AS integer), 'reltuples', CAST(:rows AS real))
    FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
_ONE_SUPPLIER = """
    SELECT pg_restore_attribute_stats(
        'schemaname', 'public', 'relname', CAST(table_name AS text), 'attname', CAST(column_name AS text),
        'inherited', false, 'null_frac', CAST(0 AS real), 'avg_width', 8, 'n_distinct', CAST(1 AS real))
    FROM information_schema.columns
    WHERE table_schema = 'public' AND column_name IN ('import_supplier_id', 'batch_id')
"""


def test_attempts_that_ended_long_ago_are_not_read(filled: _Database) -> None:
    """An old transaction, like this one, keeps their rows in the index."""
    sessions, customer = filled
    with sessions.begin() as session:
        session.execute(text("SET LOCAL enable_seqscan = off"))
        supplier = get_import_supplier(session, customer.import_supplier, organisation_id=None)
        session.execute(text(_IN_PROGRESS), {"supplier": supplier.id})
        session.execute(text("UPDATE account_import_process SET state = 'IMPORTED', attempt_id = NULL"))
        take_set(OpenTransaction.of(session))
        assert "ix_account_import_process_in_progress" in _scans(session)
        assert session.scalar(text(_ENTRIES)) == 0


_IN_PROGRESS = """
    INSERT INTO account_import_process (import_supplier_id, external_account_number, payload_sha256,
        rules_version, profile, state, attempt_id, dispatched_at)
    SELECT :supplier, number, '', '', 'lenient', 'IN_PROGRESS', uuidv7(), now() - interval '1 minute'
    FROM generate_series(1, 100) AS number
"""
#: How many entries of the index this transaction has read.
_ENTRIES = "SELECT pg_stat_get_xact_tuples_returned('ix_account_import_process_in_progress'::regclass)"


def _scans(session: Session) -> dict[str, int]:
    """Return how often this transaction has read each index."""
    scans = "SELECT indexrelname, pg_stat_get_xact_numscans(indexrelid) FROM pg_stat_user_indexes"
    return {name: number for name, number in session.execute(text(scans)) if number}
