"""Undos as they are shown: reports, lists, and the outcome of each account."""

import csv
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from sqlalchemy import insert, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.errors import PermissionDeniedError, UndoNotFoundError
from migration_service.models import Undo
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.batches.results.line_results import ResultFormat
from migration_service.services.undo import reading
from migration_service.services.undo.reading import get_undo, list_undos, report_undo, stream_outcomes
from migration_service.services.waves.reading import list_waves
from migration_service.states import UndoOutcome, WaveState
from support.factories import Customer
from unit.services.undo.undo_rows import MOMENT, add_account, add_undo, add_undo_line
from unit.services.waves.wave_rows import make_plan

KEPT = UndoOutcome.KEPT


def test_an_undo_is_found_by_its_id_by_those_who_may_see_it(
    session: Session, customer: Customer, other: Customer
) -> None:
    undo = add_undo(session, customer)
    for organisation_id in (None, customer.organisation_id):
        assert get_undo(session, str(undo.id), organisation_id=organisation_id) is undo
    for wanted, organisation_id in (
        (undo.id, other.organisation_id),
        (new_id(), customer.organisation_id),
        ("nothing", None),
    ):
        with pytest.raises(UndoNotFoundError, match=str(wanted)):
            get_undo(session, str(wanted), organisation_id=organisation_id)
    limited = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({undo.import_supplier_id + 1}))
    with acting_as(limited):
        with pytest.raises(PermissionDeniedError, match=customer.import_supplier):
            get_undo(session, str(undo.id), organisation_id=customer.organisation_id)
        assert get_undo(session, str(undo.id), organisation_id=None) is undo


def test_an_undo_is_read_as_it_is_now(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session:
        undo = add_undo(session, customer)
        session.commit()
        with sessions.begin() as another:
            another.execute(update(Undo).values(reason="changed"))
        assert get_undo(session, str(undo.id), organisation_id=None).reason == "changed"


def test_an_undo_is_reported_as_a_whole(session: Session, customer: Customer, other: Customer) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, WaveState.STOPPED)
    _, wave = list_waves(session, plan.id)
    values: dict[str, Any] = {
        "batch_id": wave.batch_id,
        "reason": "wrong",
        "overrides": ["email_sent"],
        "started_by": "ann",
        "created_at": MOMENT,
        "accounts": 5,
    }
    undo = add_undo(session, customer, **values)
    busy, live = "account_busy", "import_supplier_live"
    for position, reasons in enumerate([[live], [live, busy], ["account_erased"]], 1):
        add_undo_line(session, undo, position, 1, "A-1", outcome=KEPT, reasons=reasons)
    add_undo_line(session, undo, 4, 1, "A-1", outcome=UndoOutcome.REVERTED)
    elsewhere = add_undo(session, other)
    add_undo_line(session, elsewhere, 1, 1, "A-1", outcome=KEPT, reasons=[busy])
    report = report_undo(session, undo)
    assert asdict(report) == values | {
        "undo_id": undo.id,
        "import_supplier": customer.import_supplier,
        "plan_id": plan.id,
        "wave_number": 2,
        "state": "RUNNING",
        "finished_at": None,
        "counts": {"PENDING": 0, "REVERTED": 1, "KEPT": 3},
        "kept_counts": {live: 2, busy: 1, "account_erased": 1},
    }
    assert [*(report.kept_counts or ())] == [live, busy, "account_erased"], "the most frequent one first"
    named = report_undo(session, elsewhere)
    assert (named.batch_id, named.plan_id, named.wave_number) == (None, None, None)
    (listed,) = list_undos(session, organisation_id=customer.organisation_id)
    assert asdict(listed) == asdict(report) | {"counts": None, "kept_counts": None}


def test_the_last_fifty_undos_are_listed_the_newest_first(session: Session, customer: Customer) -> None:
    undo = add_undo(session, customer)
    columns = ("organisation_id", "import_supplier_id", "reason")
    values = {name: getattr(undo, name) for name in columns}
    ids = [new_id() for _ in range(51)]
    session.execute(insert(Undo), [values | {"id": undo_id} for undo_id in sorted(ids, key=str)[::-1]])
    listed = [it.undo_id for it in list_undos(session, organisation_id=None)]
    assert listed == sorted(ids, reverse=True)[:50]
    older = list_undos(session, organisation_id=None, before=listed[-1], limit=1)
    assert [it.undo_id for it in older] == [min(ids)]


def test_undos_are_listed_for_those_who_may_see_them(
    session: Session, customer: Customer, other: Customer
) -> None:
    own, foreign = add_undo(session, customer), add_undo(session, other)

    def listed(organisation_id: int | None = None, **options: Any) -> list[Any]:
        return [it.undo_id for it in list_undos(session, organisation_id=organisation_id, **options)]

    assert listed() == [foreign.id, own.id]
    assert listed(customer.organisation_id) == [own.id]
    assert listed(import_supplier=customer.import_supplier) == [own.id]
    limited = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({foreign.import_supplier_id}))
    with acting_as(limited):
        assert listed() == [foreign.id]


@pytest.fixture
def written(sessions: sessionmaker[Session], customer: Customer) -> Iterator[Undo]:
    """An undo with three lines, the last one first, read two at a time."""
    with sessions.begin() as session:
        a, b = (add_account(session, customer, number).account_import_process_id for number in "ab")
        undo = add_undo(session, customer)
        reasons = ["account_busy", "account_erased"]
        add_undo_line(session, undo, 3, 2**31 - 1, "A-c", outcome=KEPT, reasons=["account_not_imported"])
        add_undo_line(session, undo, 2, b, "A-b", outcome=KEPT, reasons=reasons)
        add_undo_line(session, undo, 1, a, "A-a", outcome=UndoOutcome.REVERTED)
        add_undo_line(session, add_undo(session, customer), 1, a, "A-a")
    with patch.object(reading, "_PAGE", 2):
        yield undo


def test_outcomes_are_written_in_pieces_in_their_order(
    sessions: sessionmaker[Session], written: Undo
) -> None:
    with sessions.kw["bind"].connect() as connection:
        # The rows are in another order, and are not read in that of the index.
        for way in ("indexscan", "bitmapscan", "hashjoin", "mergejoin"):
            connection.execute(text(f"SET LOCAL enable_{way} = off"))
        within = sessionmaker(connection, join_transaction_mode="create_savepoint")
        pieces = [*stream_outcomes(within, written.id, ResultFormat.NDJSON)]
    assert [len(piece.splitlines()) for piece in pieces] == [2, 1]
    lines = [msgspec.json.decode(line) for line in b"".join(pieces).splitlines()]
    fields = ("external_account_number", "service_account_number", "outcome", "reasons")
    assert [tuple(line[name] for name in fields) for line in lines] == [
        ("a", "A-a", "REVERTED", []),
        ("b", "A-b", "KEPT", ["account_busy", "account_erased"]),
        (None, "A-c", "KEPT", ["account_not_imported"]),
    ]


def test_outcomes_are_written_as_csv_and_by_outcome(sessions: sessionmaker[Session], written: Undo) -> None:
    text = b"".join(stream_outcomes(sessions, written.id, ResultFormat.CSV, KEPT)).decode()
    assert [*csv.reader(text.splitlines())] == [
        ["external_account_number", "service_account_number", "outcome", "reasons"],
        ["b", "A-b", "KEPT", "account_busy account_erased"],
        ["", "A-c", "KEPT", "account_not_imported"],
    ]
