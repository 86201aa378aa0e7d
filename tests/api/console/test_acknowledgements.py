"""What was refused is acknowledged, and what was sent is compared with what was created."""

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import suppliers
from migration_service.models import Ledger
from migration_service.tasks.names import COMPARE
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of
from support.messages import noted_messages

_NOT_COMPARED_YET = "Nothing is open. 3 created accounts have not been compared yet."


def test_a_large_book_is_compared_when_somebody_asks_for_it(
    administrator: ConsoleClient,
    batches: BatchClient,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second, third = batches.supplier.accounts(3)
    batches.run([first, second])
    last = batches.run([third])["batch_id"]
    with sessions.begin() as session:
        session.execute(update(Ledger).values(ledger_balance=-1))
    page = f"/suppliers/{batches.supplier.code}/reconciliation/"
    all_differ = "Nothing is open. 3 created accounts differ."
    monkeypatch.setattr(suppliers, "LARGE", 2)
    assert administrator.lead(page) == _NOT_COMPARED_YET
    with noted_messages() as messages:
        begun = text_of(administrator.see(f"{page}?compare=1"))
    assert [name for name, _arguments in messages] == [COMPARE]
    assert "0 of 3 accounts and lines have been compared." in begun
    assert _NOT_COMPARED_YET in begun
    monkeypatch.undo()
    of_batch = "Nothing is open. 1 created account differs. 1 total of the file is not accounted for."
    assert administrator.lead(f"{page}?batch={last}") == of_batch
    assert administrator.lead(page) == all_differ
    monkeypatch.setattr(suppliers, "LARGE", 2)
    assert administrator.lead(page) == all_differ, "the kept one"
    assert "Compare what has changed" in administrator.see(page)
