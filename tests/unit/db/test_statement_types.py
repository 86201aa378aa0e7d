"""A function that needs a transaction cannot be called without one.

The type checker refuses it, and so does the first statement that locks a row."""

from pathlib import Path

import pytest
from mypy import api
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.sql import autocommit
from migration_service.models import AccountImportProcess, Attempt
from migration_service.services.processing.attempts import run_attempt
from support.supplier_client import SupplierClient

_ROOT = Path(__file__).parents[3]
_SNIPPET = """
from uuid import UUID
from sqlalchemy.orm import Session, sessionmaker
from migration_service.db.sql import autocommit, begin
from migration_service.services.processing.attempts import run_attempt

def create(sessions: sessionmaker[Session], attempt_id: UUID) -> None:
    with {context}(sessions) as handle:
        run_attempt(handle, attempt_id)
"""


@pytest.mark.parametrize(
    ("context", "status", "found"),
    [("autocommit", 1, 'expected "OpenTransaction"'), ("begin", 0, "no issues found")],
)
def test_the_type_checker_refuses_a_handle_that_commits_each_statement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: str, status: int, found: str
) -> None:
    monkeypatch.chdir(_ROOT)  # for the configuration, and for the cache of `make check`
    snippet = tmp_path / "snippet.py"
    snippet.write_text(_SNIPPET.format(context=context))
    output, errors, exit_status = api.run([str(snippet)])
    assert (exit_status, errors) == (status, ""), output
    assert found in output


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
