"""What operators exclude at the same moment as others: a state or a mark, and no deadlock."""

from itertools import count

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.models import AccountImportProcess, ImportSupplier
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts
from migration_service.states import ImportState
from support.interleavings import COMMIT, ROLLBACK, Run, Script, explore
from support.supplier_client import SupplierClient


def _find(session: Session, supplier: SupplierClient) -> ImportSupplier:
    return session.scalars(select(ImportSupplier).where(ImportSupplier.code == supplier.code)).one()


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (None, ImportState.SKIPPED),
        (ImportState.PENDING, ImportState.SKIPPED),
        (ImportState.IN_PROGRESS, ImportState.IN_PROGRESS),
        (ImportState.IMPORTED, ImportState.IMPORTED),
    ],
)
def test_a_mark_counts_for_an_account_that_is_not_staged_or_was_staged_at_the_same_moment(
    supplier: SupplierClient, state: ImportState | None, found: ImportState
) -> None:
    account, other = supplier.accounts(2)
    number = account["external_account_number"]
    supplier.stage(other)
    with supplier.Session.begin() as session:
        skip_accounts(session, _find(session, supplier).id, [number, "not asked for"])
    if state:
        supplier.stage(other | {"external_account_number": "copied"})
    with supplier.Session.begin() as session:
        supplier_id = _find(session, supplier).id
        copied = AccountImportProcess.external_account_number == "copied"
        values = {"external_account_number": number, "state": state}
        if state is ImportState.IN_PROGRESS:
            values["attempt_id"] = new_id()
        session.execute(update(AccountImportProcess).where(copied).values(values))
        ids = session.scalars(select(AccountImportProcess.id).where(supplier.process_of(number)))
        (process,) = storing.find(OpenTransaction.of(session), supplier_id, [number]).values()
        assert (process.id, process.state) == (ids.one_or_none() or 0, found)


def test_marks_for_the_same_accounts_in_other_orders_wait_for_each_other_and_never_deadlock(
    supplier: SupplierClient,
) -> None:
    """The account in the middle is locked, so that one session may have the first and the other the last."""
    with supplier.Session() as session:
        supplier_id = _find(session, supplier).id
    rounds = count()

    def script() -> Script:
        name = next(rounds)
        first, middle, last = (f"{name}-{it}" for it in range(3))

        def skip(session: Session, *numbers: str) -> None:
            skip_accounts(session, supplier_id, numbers)

        run = yield {
            "middle": [("skip", lambda session: skip(session, middle)), ROLLBACK],
            "forwards": [("skip", lambda session: skip(session, first, middle, last)), COMMIT],
            "backwards": [("skip", lambda session: skip(session, last, middle, first)), COMMIT],
        }
        check(run)

    def check(run: Run) -> None:
        assert run.errors == {}

    assert explore(supplier.Session, script) > 10
