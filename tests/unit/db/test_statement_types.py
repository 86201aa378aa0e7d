"""A function that needs a transaction cannot be called without one.

The type checker refuses it, and so does the first statement that locks a row."""

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.sql import autocommit
from migration_service.models import AccountImportProcess, Attempt
from migration_service.services.processing.attempts import run_attempt
from support.supplier_client import SupplierClient


def test_without_a_transaction_no_account_is_created(
    supplier: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)
    assert supplier.process(number, dry_run=True).status_code == 202
    attempt_id = supplier.current_attempt(number)
    with autocommit(sessions) as statements, pytest.raises(AttributeError, match="lock"):
        run_attempt(statements, attempt_id)  # type: ignore[arg-type]
    with sessions() as session:
        attempt = session.get_one(Attempt, attempt_id)
        process = session.get_one(AccountImportProcess, attempt.account_import_process_id)
        assert (attempt.outcome, process.state, process.service_account_number) == (None, "IN_PROGRESS", None)
