"""Examples of data that is added to an account, for the interface description."""

from typing import Any

from migration_service.blueprints.description.examples import STAGED

_SERVICE_ACCOUNT_NUMBER = "A-7KX2M9QD"

NOTES: dict[str, Any] = {
    **STAGED,
    "notes": [
        {
            "body": "Prefers to be called after six.",
            "created_at": "2025-11-03T09:30:00Z",
            "is_pinned": True,
            "unpin_at": "2027-01-01T00:00:00Z",
        },
        {"document_paths": [{"document_path": "letters/2025/welcome.pdf"}]},
    ],
}
NOTE_RESULTS = [
    {
        "created_at": "2025-11-03T09:30:00Z",
        "body": "Prefers to be called after six.",
        "status": "NOTE_CREATION_SUCCESS",
    },
    {"created_at": "2026-03-01T10:15:00Z", "body": None, "status": "NOTE_ALREADY_EXISTS"},
]

TRANSACTION: dict[str, Any] = {
    "transaction_id": "T-2026-0001",
    "transaction_date": "2026-02-27",
    "amount": 85.5,
    "type": "PAYMENT",
    "reference": "DD 8812",
    "payment_type": "DD_REGULAR_COLLECTION",
    "display_note": "Monthly advance",
}
_CREDIT: dict[str, Any] = {
    "transaction_id": "T-2025-0931",
    "transaction_date": "2026-02-13",
    "amount": 12.3,
    "type": "CREDIT",
    "reason": "GENERAL_CREDIT",
}
TRANSACTIONS: dict[str, Any] = {**STAGED, "transactions": [TRANSACTION, _CREDIT]}
TRANSACTION_RESULTS = {
    "results": [
        {"status": "TRANSACTION_ADDED_TO_ACCOUNT", "transaction_data": TRANSACTION},
        {
            "status": "TRANSACTION_ALREADY_EXISTS",
            "transaction_data": {**_CREDIT, "status": "TRANSACTION_IMPORT_SUCCESS"},
        },
    ]
}

STATEMENTS: dict[str, Any] = {
    **STAGED,
    "statements": [
        {
            "bill_period_from_date": "2025-01-01",
            "bill_period_to_date": "2025-12-31",
            "statement_id": "S-2025",
            "issued_date": "2026-01-15",
            "number": "INV-2025-4711",
            "gross_amount": 154020,
            "statement_path": "statements/2025/S-2025.pdf",
        }
    ],
}

PAYMENT_INSTRUCTION: dict[str, Any] = {
    **STAGED,
    "vendor": "sandbox",
    "reference": "card-ok-1",
    "type": "CARD",
}
PAYMENT_INSTRUCTION_RESULT = {
    "service_account_number": _SERVICE_ACCOUNT_NUMBER,
    "reference": "card-ok-1",
}
