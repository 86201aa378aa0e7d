"""What operators exclude: a state for what is staged, a mark for what is not, and both in the audit."""

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.errors import AccountAlreadyImportedError
from migration_service.models import AccountImportProcess, AuditEntry, ImportSupplier, SkipMark
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from supplier_client import SupplierClient


def _change(supplier: SupplierClient, action: Any, *numbers: str) -> None:
    with supplier.Session.begin() as session:
        action(session, _find(session, supplier).id, numbers)


def _find(session: Session, supplier: SupplierClient) -> ImportSupplier:
    return session.scalars(select(ImportSupplier).where(ImportSupplier.code == supplier.code)).one()


def _marks(supplier: SupplierClient) -> list[str]:
    with supplier.Session() as session:
        of_supplier = SkipMark.import_supplier_id == _find(session, supplier).id
        return sorted(session.scalars(select(SkipMark.external_account_number).where(of_supplier)))


def test_an_account_that_is_staged_is_skipped_without_a_mark(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)
    _change(supplier, skip_accounts, number, "not staged")
    assert _marks(supplier) == ["not staged"]


def test_a_mark_is_of_one_supplier(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    other = SupplierClient.create(supplier.app, supplier.Session)
    other.stage(other.accounts()[0] | {"external_account_number": number})
    _change(supplier, skip_accounts, number)
    assert (_marks(supplier), _marks(other)) == ([number], [])
    _change(other, unskip_accounts, number)
    assert _marks(supplier) == [number]
    _change(other, skip_accounts, number)
    _change(supplier, unskip_accounts, number)
    assert _marks(supplier) == []
    assert supplier.stage(account).status_code == 201


def test_the_error_of_an_account_that_exists_has_its_two_numbers(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)
    supplier.process(number)
    perform_attempt(worker_resources.Session, supplier.current_attempt(number))
    for action in (skip_accounts, unskip_accounts):
        with pytest.raises(AccountAlreadyImportedError) as raised:
            _change(supplier, action, number)
        with supplier.Session() as session:
            created = session.scalar(
                select(AccountImportProcess.service_account_number).where(supplier.process_of(number))
            )
        assert raised.value.external_account_number == number
        assert raised.value.service_account_number == created


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
