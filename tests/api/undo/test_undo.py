"""Undos that run at the same time, and the roles that may override what blocks them."""

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import PermissionDeniedError
from migration_service.services.access.operators import OperatorRole
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import MOST_RUNNING, start_undo
from migration_service.states import UndoBlocker
from migration_service.tasks.app import celery_app
from migration_service.tasks.names import REVERT_ACCOUNTS
from migration_service.tasks.resources import WorkerResources
from support.imported_account import ImportedAccount
from support.messages import noted_messages
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient

pytestmark = pytest.mark.usefixtures("neighbour")


def test_an_organisation_has_a_few_undos_that_run_and_they_are_dispatched_one_after_the_other(
    supplier: SupplierClient,
    undos: UndoClient,
    worker_resources: WorkerResources,
    another: SupplierClient,
) -> None:
    UndoClient(another).start(ImportedAccount.create(another, worker_resources).number)
    accounts = [ImportedAccount.create(supplier, worker_resources) for _ in range(MOST_RUNNING + 1)]
    with noted_messages() as messages:
        *running, refused = (undos.post(account.number) for account in accounts)
    ids = [answer.json["undo_id"] for answer in running]  # type: ignore[index]
    assert (refused.status_code, (refused.json or {})["code"]) == (429, "share_used")
    assert refused.headers["Retry-After"]
    assert messages == [(REVERT_ACCOUNTS, (ids[0],))]
    with noted_messages() as messages:
        celery_app().tasks[REVERT_ACCOUNTS].run(ids[0])
    assert messages == [(REVERT_ACCOUNTS, (ids[1],))]
    assert supplier.get(f"/undos/{ids[0]}/results/").headers["Vary"] == "Accept"
    assert undos.start(accounts[-1].number)


def test_only_an_administrator_overrides(sessions: sessionmaker[Session], account: ImportedAccount) -> None:
    def start(*overrides: UndoBlocker, role: OperatorRole | None) -> None:
        with sessions() as session:
            order = UndoOrder(
                supplier=account.supplier.known(),
                external_account_numbers=[account.number],
                reason="A test.",
                overrides=frozenset(overrides),
            )
            start_undo(session, order, role=role)

    for role in (None, OperatorRole.READ, OperatorRole.OPERATE):
        start(role=role)
        with pytest.raises(PermissionDeniedError):
            start(UndoBlocker.EMAIL_SENT, role=role)
    start(UndoBlocker.EMAIL_SENT, UndoBlocker.DATA_ADDED, role=OperatorRole.ADMINISTER)
