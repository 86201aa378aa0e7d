"""Undos as they are shown: reports, lists, and the outcome of each account."""

from collections.abc import Iterator
from unittest.mock import patch

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.formats import ResultFormat
from migration_service.models import Undo
from migration_service.services.undo import reading
from migration_service.services.undo.reading import stream_outcomes
from migration_service.states import UndoOutcome
from support.factories import Customer
from unit.services.undo.undo_rows import add_account, add_undo, add_undo_line

KEPT = UndoOutcome.KEPT


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
    with patch.object(reading, "PAGE", 2):
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
