"""An imported account, for tests of added data."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import uuid4

from werkzeug.test import TestResponse

from migration_service.services.accounts.reading import find_account, read_account
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.supplier_client import SupplierClient

#: A ledger whose last settlement was closed long ago, so that every day of the last years is open.
LEDGER = {
    "ledger_code": "ENERGY_LEDGER",
    "ledger_balance": "10.00",
    "last_settlement_balance": "10.00",
    "last_settlement_closing_date": "2020-01-31",
}


@dataclass(frozen=True)
class ImportedAccount:
    """Calls sections 4.8 to 4.11 for one account, and reads it back."""

    supplier: SupplierClient
    number: str

    @classmethod
    def create(cls, supplier: SupplierClient, resources: WorkerResources, **parts: Any) -> "ImportedAccount":
        """Stage and create an account with these parts of a payload. By default it has one ledger."""
        number = f"account {uuid4().hex[:12]}"
        payload = {
            "import_supplier": supplier.code,
            "external_account_number": number,
            "unknown_occupier": "false" if "customers" in parts else "true",
            "billing_address1": "Singel 1",
            "billing_postcode": "1012 AB",
            "ledgers": [LEDGER],
            **parts,
        }
        staged = supplier.stage(payload)
        assert staged.status_code == 201, staged.text
        assert supplier.process(number).status_code == 202
        attempt_id = supplier.current_attempt(number)
        assert perform_attempt(resources.Session, attempt_id)
        resources.slots.release([str(attempt_id)])
        return cls(supplier, number)

    @property
    def pair(self) -> dict[str, str]:
        """The two fields by which every body names the account."""
        return {"import_supplier": self.supplier.code, "external_account_number": self.number}

    def post_notes(self, *notes: Any) -> TestResponse:
        """Section 4.8."""
        return self.supplier.post("/notes/create/", {**self.pair, "notes": list(notes)})

    def post_transactions(self, *transactions: Any, **arguments: str) -> TestResponse:
        """Section 4.9."""
        body = {**self.pair, "transactions": list(transactions)}
        return self.supplier.post("/transactions/create/", body, query_string=arguments)

    def post_statements(self, *statements: Any) -> TestResponse:
        """Section 4.10."""
        return self.supplier.post(
            "/historical-statements/create/", {**self.pair, "statements": list(statements)}
        )

    def post_payment_instruction(self, **instruction: Any) -> TestResponse:
        """Section 4.11."""
        return self.supplier.post("/payment-instruction/create/", {**self.pair, **instruction})

    def read(self) -> dict[str, Any]:
        """Return the account from its tables."""
        with self.supplier.Session() as session:
            supplier = self.supplier.known()
            found = find_account(session, supplier.id, self.number)
            assert found is not None
            return read_account(session, found)

    def notes(self) -> list[dict[str, Any]]:
        """Return the notes as the support page has them."""
        notes: list[dict[str, Any]] = self.read().get("added_notes", [])
        return notes

    def ledger(self, ledger_code: str = "ENERGY_LEDGER") -> dict[str, Any]:
        """Return one of its ledgers."""
        (ledger,) = [it for it in self.read()["ledgers"] if it["ledger_code"] == ledger_code]
        return dict(ledger)

    def balance(self, ledger_code: str = "ENERGY_LEDGER") -> Decimal:
        """Return the balance of a ledger."""
        balance: Decimal = self.ledger(ledger_code)["ledger_balance"]
        return balance

    def added_transactions(self) -> list[dict[str, Any]]:
        """Return the transactions that were added to its first ledger."""
        added: list[dict[str, Any]] = self.ledger().get("added_transactions", [])
        return added


def at_once(call: Callable[[], TestResponse], times: int = 2) -> list[TestResponse]:
    """Return the answers to the same call from several threads that start together."""
    answers: list[TestResponse] = []
    barrier = threading.Barrier(times)

    def work() -> None:
        barrier.wait()
        answers.append(call())

    threads = [threading.Thread(target=work) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def code_of(answer: TestResponse) -> str:
    """Return the code of an answer as a whole."""
    body: Any = answer.json
    return str(body["code"])


def refusal_of(answer: TestResponse) -> tuple[int, str]:
    """Return the status and the code of an answer."""
    return answer.status_code, code_of(answer)


def codes_of(answer: TestResponse) -> list[tuple[str | None, str]]:
    """Return the path and code of each error of an answer."""
    errors: Any = answer.json
    return [(error["attr"], error["code"]) for error in errors["errors"]]
