"""Data that the sample migration adds to each account once it exists (sections 4.8 to 4.11)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

#: The payment vendor that runs beside the service.
VENDOR = "sandbox"
#: The names under which the additions are counted.
ADDITIONS = ("notes added", "transactions added", "statements added", "payment instructions added")


@dataclass(frozen=True, slots=True)
class Addition:
    """A request that adds data to an existing account: the method of the client, and its arguments."""

    operation: str
    members: dict[str, Any]
    #: The name under which it is counted.
    done: str


def add_to_account(account: dict[str, Any]) -> Iterator[Addition]:
    """Return the requests that add data to the account of a sample payload. All of them are idempotent."""
    number = account["external_account_number"]
    pair = {"import_supplier": account["import_supplier"], "external_account_number": number}
    notes, transactions, statements, instructions = ADDITIONS
    yield Addition("create_notes", pair | {"notes": _notes()}, notes)
    yield Addition("create_transactions", pair | {"transactions": _transactions(number)}, transactions)
    yield Addition("create_historical_statements", pair | {"statements": _statements(number)}, statements)
    instruction = {"vendor": VENDOR, "reference": f"card-ok-{number}", "type": "CARD"}
    yield Addition("create_payment_instruction", pair | instruction, instructions)


def _notes() -> list[dict[str, Any]]:
    return [
        {"body": "Moved here from Sample Energy.", "is_pinned": True},
        {"document_paths": [{"document_path": "letters/announcement.pdf"}]},
    ]


def _transactions(number: str) -> list[dict[str, Any]]:
    today = datetime.now(UTC).date()
    return [
        {
            "transaction_id": f"P-{number}",
            "transaction_date": str(today),
            "amount": "25.00",
            "type": "PAYMENT",
            "payment_type": "DIRECT_CREDIT",
            "reference": f"payment on {number}",
        },
        # It is dated long ago, so its date is moved into the open statement period.
        {
            "transaction_id": f"C-{number}",
            "transaction_date": str(today - timedelta(days=3_650)),
            "amount": "5.00",
            "type": "CREDIT",
            "reason": "GENERAL_CREDIT",
            "display_note": "A credit that was forgotten",
        },
    ]


def _statements(number: str) -> list[dict[str, Any]]:
    return [
        {
            "statement_id": f"S-{number}-archive",
            "number": f"ARCHIVE-{number}",
            "issued_date": "2016-01-15",
            "bill_period_from_date": "2015-01-01",
            "bill_period_to_date": "2015-12-31",
            "gross_amount": 120_050,
            "statement_path": "statements/2015/archive.pdf",
        }
    ]
