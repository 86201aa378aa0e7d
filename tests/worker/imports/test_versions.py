"""Two versions of an account at once: the later extract wins, and nothing is only said to be staged."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.validation import validate_account
from migration_service.db.sql import OpenTransaction, SqlConnection, autocommit
from migration_service.models import AccountImportProcess
from migration_service.services.imports import storing
from migration_service.states import ImportState, StagingResult
from support.interleavings import COMMIT, Script, explore
from support.supplier_client import SupplierClient


def _address(supplier: SupplierClient, number: str) -> str:
    return str((supplier.process_row(number).payload or {})["billing_address1"])


def test_of_two_extracts_at_once_the_later_one_wins_in_every_order(supplier: SupplierClient) -> None:
    known = supplier.known()
    rounds = count()

    def script() -> Script:
        template = supplier.accounts()[0] | {"external_account_number": f"both-{next(rounds)}"}
        number = template["external_account_number"]

        def stage(session: Session, street: str, day: int) -> StagingResult | None:
            account = validate_account(template | {"billing_address1": street}, Profile.LENIENT)
            moment = datetime(2026, 3, day, tzinfo=UTC)
            (staged,) = storing.stage(OpenTransaction.of(session), known, [account], extracted_at=moment)
            return staged.result

        run = yield {
            "older": [("stage", lambda session: stage(session, "Old 1", 1)), COMMIT],
            "newer": [("stage", lambda session: stage(session, "New 1", 2)), COMMIT],
        }
        assert _address(supplier, number) == "New 1"
        assert run.results["newer.stage"] is not None

    assert explore(supplier.Session, script) > 2


class _Meanwhile(SqlConnection):
    """Runs something once, after the first statement."""

    def __init__(self, statements: SqlConnection, action: Any) -> None:
        self._statements = statements
        self._actions = [action]

    def execute(self, statement: str, values: Mapping[str, Any]) -> list[Any]:
        rows = self._statements.execute(statement, values)
        while self._actions:
            self._actions.pop()()
        return rows


def test_a_payload_that_arrives_as_an_attempt_fails_is_staged_and_not_only_said_to_be(
    supplier: SupplierClient,
) -> None:
    """The account is being created at the first statement, and pending again at the second one."""
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)

    def become(state: ImportState, attempt_id: str | None) -> None:
        with supplier.Session.begin() as session:
            session.execute(
                update(AccountImportProcess)
                .where(supplier.process_of(number))
                .values(state=state, attempt_id=attempt_id)
            )

    become(ImportState.IN_PROGRESS, "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11")
    changed = validate_account(account | {"billing_address1": "Elsewhere 1"}, Profile.LENIENT)
    known = supplier.known()
    with autocommit(supplier.Session) as statements:
        meanwhile = _Meanwhile(statements, lambda: become(ImportState.PENDING, None))
        (staged,) = storing.stage(meanwhile, known, [changed])
    assert staged.result is StagingResult.REPLACED
    assert _address(supplier, number) == "Elsewhere 1"
