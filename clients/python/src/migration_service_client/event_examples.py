"""An example of each type of event, as it is sent to webhooks.

Written by `make docs` from the description of the interface; do not edit it by hand.
"""

from typing import Any

#: The example of each type.
EVENT_EXAMPLES: dict[str, dict[str, Any]] = {
    "account.created": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "account.created",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "external_account_number": "100000038",
            "service_account_number": "A-7KX2M9QD",
            "attempt_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        },
    },
    "account.failed": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "account.failed",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "external_account_number": "100000038",
            "attempt_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "code": "account_failed_validation",
            "codes": ["invalid_phone_number"],
        },
    },
    "account.went_live": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "account.went_live",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "external_account_number": "100000038",
            "service_account_number": "A-7KX2M9QD",
            "go_live_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        },
    },
    "batch.progressed": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "batch.progressed",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "kind": "accounts",
            "mode": "import",
            "counts": {"IMPORTED": 1},
            "lines": [
                {
                    "line_number": 1,
                    "status": "IMPORTED",
                    "external_account_number": "100000038",
                    "service_account_number": "A-7KX2M9QD",
                    "codes": ["invalid_phone_number"],
                }
            ],
        },
    },
    "batch.ended": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "batch.ended",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "kind": "accounts",
            "mode": "import",
            "state": "COMPLETED",
            "counts": {"IMPORTED": 98, "FAILED": 2},
        },
    },
    "batch.error_threshold_reached": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "batch.error_threshold_reached",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "lines": 200,
            "errors": 120,
            "codes": {"invalid_phone_number": 120},
        },
    },
    "wave.approval_required": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "wave.approval_required",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "plan_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "number": 1,
            "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "found": "CLEAN",
        },
    },
    "reconciliation.differs": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "reconciliation.differs",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "plan_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "number": 1,
            "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "differing": 1,
            "open": 2,
        },
    },
    "undo.started": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "undo.started",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "undo_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "accounts": 120,
        },
    },
    "undo.ended": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "undo.ended",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": "DEMO_SUPPLIER",
        "data": {
            "undo_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "state": "COMPLETED",
            "counts": {"REVERTED": 118, "KEPT": 2},
        },
    },
    "api_key.expires": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "api_key.expires",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": None,
        "data": {"prefix": "ami_0123456789", "expires_at": "2026-03-01T10:15:00Z", "days": 7},
    },
    "audit.day_sealed": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "audit.day_sealed",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": None,
        "data": {
            "day": "2026-02-28",
            "head": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        },
    },
    "webhook.disabled": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "webhook.disabled",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": None,
        "data": {"webhook_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11", "reason": "FAILING"},
    },
    "feed.rewound": {
        "id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
        "type": "feed.rewound",
        "created_at": "2026-03-01T10:15:00Z",
        "import_supplier": None,
        "data": {"cursor": "6b1f4c0a9d3e7258-1-0-2f1a-019a9c1e7b527c7e8a3f0d7f0f6f2b11-5d41402abc4b2a76"},
    },
}
