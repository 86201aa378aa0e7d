"""What is erased of an account, row by row, and what is left of it and of others."""

from collections import defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Table, null, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import Base, new_id
from migration_service.errors import AccountImportInProgressError
from migration_service.models import (
    Account,
    AccountImportProcess,
    Acknowledgement,
    Attempt,
    Batch,
    BatchLine,
    IdempotencyKey,
    OldFigure,
    PaymentVendor,
    SkipMark,
)
from migration_service.services.accounts import erasure
from migration_service.services.setup.suppliers import KnownSupplier
from support import rows
from support.audit import list_entries

_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

#: A value of each type.
_VALUES: dict[type[Any], Any] = {
    str: "x",
    int: 1,
    bool: False,
    date: date(2026, 1, 1),
    datetime: _LONG_AGO,
    Decimal: Decimal(1),
    bytes: b"x",
    object: ["x"],  # the type of JSON
}
#: Columns for which that value is not allowed.
_EXCEPTIONS = {
    ("transaction", "period"): "OPEN",
    ("statement", "origin"): "PAYLOAD",
    ("customer_email", "state"): "PENDING",
    ("customer_email", "sent_at"): None,
    ("ledger", "identifiers"): ["x"],
    ("line_item", "units"): [Decimal(1)],
}

_BILLING = {f"billing_address{number}" for number in range(1, 5)} | {"billing_postcode"}
#: The columns of a created account that are changed, and the tables that keep nothing of it.
_EMPTIED = {
    "account": _BILLING | {"erased_at"},
    "account_import_process": {"payload", "warnings", "payload_sha256"},
    "attempt": {"errors", "error_detail"},
    "ledger": {"identifiers"},
    "transaction": {"reference", "display_note", "note", "reason"},
    "line_item": {"number_of_units", "price_per_unit", "units", "ref"},
    "tax_item": {"value_taxed", "vat_on"},
    "statement": {"statement_path", "statement_location", "statement_pdf_context"},
}
_REMOVED = {
    *("customer", "customer_email", "user_detail", "supply_address", "meter_point", "agreement"),
    *("monthly_advance_charge_template", "cost_detail", "meter", "register", "billing_configuration_period"),
    *("energy_meter_point_configuration_period", "energy_meter_point_grid_operator_effective_period"),
    *("estimated_annual_volume", "note", "payment_instruction"),
}


def _fill(table: Table, parents: dict[str, int]) -> dict[str, Any]:
    """Return a value of each column, so that what is not erased is seen."""
    values: dict[str, Any] = {}
    for column in table.columns:
        if column.primary_key:
            continue
        key = next((it.column.table.name for it in column.foreign_keys), None)
        if key:
            values[column.name] = parents[key]
        elif (table.name, column.name) in _EXCEPTIONS:
            values[column.name] = _EXCEPTIONS[table.name, column.name]
        else:
            values[column.name] = _VALUES[column.type.python_type]
    return values


def _tables() -> list[Table]:
    """Return the tables whose rows belong to an account, those with keys of others last."""
    found = {"account"}
    below = []
    for table in Base.metadata.sorted_tables:
        if found & {key.column.table.name for key in table.foreign_keys}:
            found.add(table.name)
            below.append(table)
    return below


def _make_whole(session: Session, known: KnownSupplier, number: str, vendor: int) -> AccountImportProcess:
    """Insert a created account with a row in each table below it, each column filled, and its attempt."""
    process = rows.make_process(session, known, number, payload={"x": 1}, payload_sha256=b"x", warnings=["x"])
    account = rows.make_account(session, process, **dict.fromkeys(_BILLING, "x"))
    parents = {"account": account.id, "payment_vendor": vendor}
    for table in _tables():
        row = session.execute(table.insert().values(_fill(table, parents)).returning(table.c.id))
        parents[table.name] = row.scalar_one()
    _make_attempt(session, known, process)
    return process


def _make_attempt(session: Session, known: KnownSupplier, process: AccountImportProcess) -> None:
    ended = {"finished_at": _LONG_AGO, "outcome": "FAILED", "error_code": "x"}
    rows.make_attempt(session, known, process, **ended, error_detail="x", errors=["x"])


def _read_rows(session: Session) -> dict[tuple[str, Any], dict[str, Any]]:
    """Return every row of accounts, by table and id."""
    models = (Account, AccountImportProcess, Attempt)
    tables = [*_tables(), *(model.__table__ for model in models)]
    return {
        (table.name, row.id): row._asdict()
        for table in tables
        for row in session.execute(table.select())
        if isinstance(table, Table)
    }


def _mark(session: Session, known: KnownSupplier, number: str, erased_at: datetime | None) -> SkipMark:
    mark = SkipMark(import_supplier_id=known.id, external_account_number=number, erased_at=erased_at)
    return rows.add(session, mark)


@pytest.fixture
def vendor(session: Session) -> int:
    return rows.add(session, PaymentVendor(name="vendor", kind="http", url="")).id


def _erase(session: Session, known: KnownSupplier, number: str) -> dict[str, Any]:
    return erasure.erase_account(session, known, number, reason="Request 1", by="ben")


def test_everything_personal_of_a_created_account_goes(
    session: Session, known: KnownSupplier, other: KnownSupplier, vendor: int
) -> None:
    process = _make_whole(session, known, "1", vendor)
    own = _read_rows(session).keys()
    for supplier, number in ((known, "2"), (other, "1")):
        _make_whole(session, supplier, number, vendor)
    process.service_account_number = "A-1"
    session.flush()
    before = _read_rows(session)
    found = _erase(session, known, "1")
    after = _read_rows(session)
    gone = [table for table, _ in before.keys() - after.keys()]
    assert sorted(gone) == sorted(_REMOVED)
    changed = defaultdict(set)
    for key, row in after.items():
        for column, value in row.items():
            if value != before[key][column]:
                changed[key[0]].add(column)
                expected = {"payload_sha256": b"", "erased_at": rows.read_now(session)}.get(column)
                assert value == expected, column
    assert changed == _EMPTIED
    assert {key: after.get(key) for key in before.keys() - own} == {
        key: row for key, row in before.items() if key not in own
    }
    numbers = {"external_account_number": "1", "service_account_number": "A-1"}
    assert found == numbers | {"payload": True, "batch_lines": 0, "customers": 1, "kept_answers": 0}
    details = {"reason": "Request 1", "batch_lines": 0, "customers": 1, "by": "ben"}
    told = list_entries(session, action="account.erased")
    assert [(it.subject_kind, it.subject, it.organisation_id, it.details) for it in told] == [
        ("account", str(process.id), known.organisation_id, details)
    ]


@pytest.mark.parametrize("state", ["PENDING", "SKIPPED"])
def test_a_staged_account_is_removed_and_marked(
    session: Session, known: KnownSupplier, other: KnownSupplier, state: str
) -> None:
    kept = [
        rows.make_process(session, known, "2", state=state),
        rows.make_process(session, other, "1", state=state),
    ]
    for process in (rows.make_process(session, known, "1", state=state), *kept):
        _make_attempt(session, known, process)
    for supplier, number in ((known, "2"), (other, "1")):
        _mark(session, supplier, number, None)
    found = _erase(session, known, "1")
    assert (found["service_account_number"], found["payload"], found["customers"]) == (None, True, 0)
    assert session.query(AccountImportProcess).order_by(AccountImportProcess.id).all() == kept
    attempts = session.query(Attempt).order_by(Attempt.account_import_process_id).all()
    assert [it.account_import_process_id for it in attempts] == [it.id for it in kept]
    marks = {
        (it.import_supplier_id, it.external_account_number, it.erased_at) for it in session.query(SkipMark)
    }
    assert marks == {(known.id, "1", rows.read_now(session)), (known.id, "2", None), (other.id, "1", None)}


def test_answers_and_reasons_about_the_account_go(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    for supplier, number in ((known, "1"), (known, "2"), (other, "1")):
        numbered = {"external_account_number": number}
        keys = {"organisation_id": supplier.organisation_id, "import_supplier": supplier.code, **numbered}
        key = IdempotencyKey(endpoint="e", key=number, request_sha256=b"", claim_id=new_id(), **keys)
        rows.add(session, key)
        keys = {"import_supplier_id": supplier.id, **numbered}
        rows.add(session, Acknowledgement(**keys, reason="x", acknowledged_by="x"))
        rows.add(session, OldFigure(**keys, line_number=int(number), figures={}))
    rows.make_process(session, known, "1", state="PENDING")
    assert _erase(session, known, "1")["kept_answers"] == 1
    session.expire_all()
    reasons = [it.reason for it in session.query(Acknowledgement).order_by(Acknowledgement.id)]
    assert reasons == ["Erased.", "x", "x"]
    figures = session.query(OldFigure).order_by(OldFigure.import_supplier_id)
    assert [(it.import_supplier_id, it.external_account_number) for it in figures] == sorted(
        [(known.id, "2"), (other.id, "1")]
    )


def _read_line(session: Session, line: BatchLine) -> tuple[Any, ...]:
    session.refresh(line)
    return (line.payload, line.status, line.errors, line.warnings)


def _erased(*codes: str) -> list[Any]:
    return [{"code": code, "detail": "Erased.", "attr": None} for code in codes]


#: What a line has, and what is left of it.
_SAID = [{"code": code, "detail": "x", "attr": "x"} for code in ("a", "b")]
_WHOLE = (b'"1" "\xc3\xa9" x', _SAID, _SAID[:1])


def _make_line(
    session: Session, batch: Batch, line: int, number: str | None, status: str, **values: Any
) -> BatchLine:
    given = dict(zip(("payload", "errors", "warnings"), _WHOLE, strict=True)) | values
    return rows.make_line(session, batch, line, number, status, **given)


def test_lines_of_the_account_are_erased(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    batch, removed = (
        rows.make_batch(session, known),
        rows.make_batch(session, known, lines_removed_at=_LONG_AGO),
    )
    skipped = ("SKIPPED", _erased("account_marked_to_skip"), _erased("a"))
    failed = ("FAILED", _erased("a", "b"), _erased("a"))
    silent = {"errors": null(), "warnings": null()}
    expected = [
        (_make_line(session, batch, 1, "1", "PENDING"), skipped),
        (_make_line(session, batch, 2, "1", "DEFERRED"), skipped),
        (_make_line(session, batch, 3, "1", "FAILED"), failed),
        (_make_line(session, batch, 4, "1", "STAGED", **silent), ("STAGED", None, None)),
        (_make_line(session, batch, 5, None, "FAILED"), failed),
    ]
    others = [
        _make_line(session, batch, 11, "2", "FAILED"),
        _make_line(session, batch, 12, None, "FAILED", payload=b'"11"'),
        _make_line(session, removed, 1, "1", "FAILED"),
        _make_line(session, rows.make_batch(session, other), 1, "1", "FAILED"),
        _make_line(session, batch, 13, None, "FAILED", payload=null()),
    ]
    kept = [_read_line(session, line) for line in others]
    assert _erase(session, known, "1")["batch_lines"] == 5
    assert [_read_line(session, line) for line, _ in expected] == [(None, *left) for _, left in expected]
    assert [_read_line(session, line) for line in others] == kept


def test_outcomes_of_accounts_that_were_erased_before_are_erased(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    for supplier, number, erased_at in (
        (known, "marked", _LONG_AGO),
        (known, "only skipped", None),
        (other, "created", _LONG_AGO),
    ):
        _mark(session, supplier, number, erased_at)
    for supplier, number, erased_at in (
        (known, "erased", _LONG_AGO),
        (known, "created", None),
        (other, "created", _LONG_AGO),
        (other, "only skipped", _LONG_AGO),
    ):
        rows.make_account(session, rows.make_process(session, supplier, number), erased_at=erased_at)
    batch, another = rows.make_batch(session, known), rows.make_batch(session, known)
    lines = [
        _make_line(session, batch, line, number, "FAILED")
        for line, number in enumerate(("marked", "only skipped", "erased", "created", None, "erased"), 1)
    ]
    elsewhere = _make_line(session, another, 1, "marked", "FAILED")
    whole, left = (_WHOLE[0], "FAILED", *_WHOLE[1:]), (None, "FAILED", _erased("a", "b"), _erased("a"))
    erasure.erase_outcomes(session, known.id, batch.id, [])
    assert _read_line(session, lines[0]) == whole
    erasure.erase_outcomes(session, known.id, batch.id, [1, 2, 3, 4, 5])
    assert [_read_line(session, it) for it in lines] == [left, whole, left, whole, whole, whole]
    assert _read_line(session, elsewhere) == whole


def test_what_was_staged_while_it_was_erased_is_removed(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    for supplier, number, state, erased_at in (
        (known, "1", "PENDING", _LONG_AGO),
        (known, "2", "SKIPPED", _LONG_AGO),
        (known, "3", "IMPORTED", _LONG_AGO),
        (known, "4", "IN_PROGRESS", _LONG_AGO),
        (known, "5", "PENDING", None),
        (other, "6", "PENDING", _LONG_AGO),
    ):
        _make_attempt(session, known, rows.make_process(session, supplier, number, state=state))
        _mark(session, known, number, erased_at)

    def left() -> list[str]:
        return sorted(it.external_account_number for it in session.query(AccountImportProcess))

    assert erasure.remove_staged_again(session, limit=1) == 1
    assert len(left()) == 5
    assert erasure.remove_staged_again(session, limit=9) == 1
    assert left() == ["3", "4", "5", "6"]
    assert erasure.remove_staged_again(session, limit=9) == 0


def test_an_account_that_a_worker_has_locked_is_neither_erased_nor_removed(
    sessions: sessionmaker[Session],
) -> None:
    with sessions.begin() as session:
        known = rows.make_supplier(session, "MINE")
        for number in "12":
            rows.make_process(session, known, number, state="PENDING")
        _mark(session, known, "1", _LONG_AGO)
    with sessions() as worker, sessions() as session:
        locked = select(AccountImportProcess).where(AccountImportProcess.external_account_number == "1")
        worker.scalars(locked.with_for_update()).one()
        session.execute(text("SET LOCAL lock_timeout = '50ms'"))
        assert erasure.remove_staged_again(session, limit=9) == 0
        with pytest.raises(AccountImportInProgressError):
            _erase(session, known, "1")
    with sessions() as session:
        assert erasure.remove_staged_again(session, limit=9) == 1
