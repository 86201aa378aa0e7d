"""What operators exclude: a state for what is staged, a mark for what is not, and both in the audit."""

from itertools import count
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountNotStagedError
from migration_service.models import AccountImportProcess, AuditEntry, ImportSupplier, SkipMark
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.states import ImportState
from migration_service.tasks.resources import WorkerResources
from support.audit import audited
from support.imported_account import ImportedAccount
from support.interleavings import COMMIT, ROLLBACK, Run, Script, explore
from support.supplier_client import SupplierClient


def _change(supplier: SupplierClient, action: Any, *numbers: str) -> None:
    with supplier.Session.begin() as session:
        action(session, _find(session, supplier).id, numbers)


def _find(session: Session, supplier: SupplierClient) -> ImportSupplier:
    return session.scalars(select(ImportSupplier).where(ImportSupplier.code == supplier.code)).one()


def _marks(supplier: SupplierClient) -> list[str]:
    with supplier.Session() as session:
        of_supplier = SkipMark.import_supplier_id == _find(session, supplier).id
        return sorted(session.scalars(select(SkipMark.external_account_number).where(of_supplier)))


def test_a_key_leaves_accounts_out_unless_one_of_them_exists(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    created = ImportedAccount.create(supplier, worker_resources)
    (staged,) = supplier.accounts()
    supplier.stage(staged)
    number = staged["external_account_number"]
    body = {"import_supplier": supplier.code, "reason": "Not in the second delivery.", "by": "Grace"}

    def skip(*numbers: str) -> Any:
        path = "/account-import-process/skip/"
        return supplier.post(path, body | {"external_account_numbers": numbers})

    refused = skip(number, "not staged", created.number)
    found = [(it["code"], it["attr"]) for it in refused.json["errors"]]
    assert (refused.status_code, found) == (400, [("account_already_imported", "external_account_numbers.2")])
    assert (supplier.process_row(number).state, _marks(supplier)) == ("PENDING", [])
    for _ in range(2):
        done = skip(number, "not staged", number)
        assert (done.status_code, done.json) == (200, {"skipped": 2})
    assert (supplier.process_row(number).state, _marks(supplier)) == ("SKIPPED", ["not staged"])
    reasons = [entry.details or {} for entry in audited(supplier.Session, action="account.skipped")]
    assert {(it["because"], it["by"]) for it in reasons} == {(body["reason"], "Grace")}


def test_no_other_account_is_skipped_or_included_again(supplier: SupplierClient) -> None:
    account, neighbour = supplier.accounts(2)
    number = account["external_account_number"]
    other = SupplierClient.create(supplier.app, supplier.Session)
    for it in (account, neighbour):
        supplier.stage(it)
    other.stage(other.accounts()[0] | {"external_account_number": number})

    def states() -> list[str]:
        with supplier.Session() as session:
            return list(session.scalars(select(AccountImportProcess.state).order_by(AccountImportProcess.id)))

    _change(supplier, skip_accounts, number)
    assert states() == ["SKIPPED", "PENDING", "PENDING"]
    _change(other, skip_accounts, number)
    _change(supplier, skip_accounts, neighbour["external_account_number"])
    _change(supplier, unskip_accounts, number)
    assert states() == ["PENDING", "SKIPPED", "SKIPPED"]
    # The mark of an account that is not staged is of one supplier, too.
    _change(supplier, skip_accounts, "not staged")
    with pytest.raises(AccountNotStagedError):
        _change(other, unskip_accounts, "not staged")
    assert (_marks(supplier), _marks(other)) == (["not staged"], [])
    assert other.stage(other.accounts()[0] | {"external_account_number": "not staged"}).status_code == 201
    _change(supplier, unskip_accounts, "not staged")
    assert _marks(supplier) == []


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
    _change(supplier, skip_accounts, number, "not asked for")
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


def test_the_audit_has_each_staged_account_and_how_many_were_only_marked(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)
    numbers = (number, "not staged", "not staged either")
    _change(supplier, skip_accounts, *numbers)
    _change(supplier, skip_accounts, *numbers)  # changes nothing
    _change(supplier, unskip_accounts, *numbers)
    with supplier.Session() as session:
        process = session.scalars(select(AccountImportProcess.id)).one()
        owner = _find(session, supplier).organisation_id
        skipping = AuditEntry.action.in_(["account.skipped", "account.unskipped"])
        entries = session.scalars(select(AuditEntry).where(skipping).order_by(AuditEntry.id)).all()
    assert {it.organisation_id for it in entries} == {owner}
    assert [(it.action, it.subject_kind, it.subject, it.details) for it in entries] == [
        ("account.skipped", "account", str(process), None),
        ("account.skipped", "import_supplier", supplier.code, {"not_staged": 2}),
        ("account.unskipped", "account", str(process), None),
        ("account.unskipped", "import_supplier", supplier.code, {"not_staged": 2}),
    ]


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
