"""Accounts whose attempts were accepted, and that no worker has taken yet."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text, update

from migration_service.models import AccountImportProcess, Attempt
from migration_service.tasks.accounts import create_set
from support.supplier_client import SupplierClient


@dataclass(frozen=True, slots=True)
class Begun:
    """An account whose attempt was accepted, and that no worker has taken yet."""

    supplier: SupplierClient
    number: str
    attempt_id: UUID

    def process(self) -> AccountImportProcess:
        return self.supplier.process_row(self.number)

    def attempt(self) -> Attempt:
        with self.supplier.Session() as session:
            return session.get_one(Attempt, self.attempt_id)

    def change(self, **values: Any) -> None:
        with self.supplier.Session.begin() as session:
            session.execute(
                update(AccountImportProcess)
                .where(AccountImportProcess.attempt_id == self.attempt_id)
                .values(**values)
            )

    def grow_old(self, seconds: float = 10.5) -> None:
        """Let the last message be this many seconds old."""
        self.change(dispatched_at=text(f"now() - interval '{seconds} seconds'"))


def begin(supplier: SupplierClient, account: dict[str, Any], **fields: Any) -> Begun:
    """Stage the account, and ask to process it."""
    number = account["external_account_number"]
    assert supplier.stage(account).status_code == 201
    assert supplier.process(number, **fields).status_code == 202
    return Begun(supplier, number, supplier.current_attempt(number))


def run_redelivered() -> str:
    """Run the task, with a message that came back."""
    # The types have the signature of Task.run only. This method makes a Context of its keywords.
    create_set.push_request(delivery_info={"redelivered": True})  # type: ignore[call-arg]
    try:
        return create_set.run()
    finally:
        create_set.pop_request()
