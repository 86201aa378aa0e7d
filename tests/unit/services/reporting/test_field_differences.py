"""Which values of a created account count as other than those that were sent."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from migration_service.services.reporting.field_differences import FieldDifference, compare_fields


@pytest.mark.parametrize(
    ("sent", "created"),
    [
        ("A", "A"),
        (" A ", "A"),
        (10, Decimal("10.00")),
        ("10.50", Decimal("10.5")),
        (True, True),
        ("true", True),
        ("2026-03-01", date(2026, 3, 1)),
        ("2026-03-01T10:00:00Z", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01T11:00:00+01:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        ("2026-03-01T10:00:00", datetime(2026, 3, 1, 10)),
        ("2026-03-01T10:00:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        (None, "a default"),
        ("", None),
    ],
)
def test_a_value_is_the_same_however_it_is_written(sent: Any, created: Any) -> None:
    assert list(compare_fields({"field": sent}, {"field": created})) == []


@pytest.mark.parametrize(
    ("sent", "created"),
    [
        ("A", "B"),
        ("A", None),
        (10, Decimal("10.01")),
        (True, False),
        ("2026-03-01T10:00:00Z", datetime(2026, 3, 1, 11, tzinfo=UTC)),
        ("2026-03-01T10:00:00", datetime(2026, 3, 1, 11, tzinfo=UTC)),
        ("later", datetime(2026, 3, 1, 11, tzinfo=UTC)),
        (0, None),
    ],
)
def test_another_value_is_a_difference(sent: Any, created: Any) -> None:
    assert list(compare_fields({"field": sent}, {"field": created})) == [
        FieldDifference("field", sent, created)
    ]


def test_every_value_has_its_path_also_if_its_part_is_missing() -> None:
    sent = {"customers": [{"mobile": "1"}, {"mobile": "2", "emails": ["a"]}], "ledger": {"code": "L"}}
    created = {"customers": [{"mobile": "1", "pk": 7}], "ledger": {"code": "M", "ledger_balance": 5}}
    assert list(compare_fields(sent, created)) == [
        FieldDifference("customers.1.mobile", "2", None),
        FieldDifference("customers.1.emails.0", "a", None),
        FieldDifference("ledger.code", "L", "M"),
    ]


def test_a_balance_moves_and_is_compared_by_reconciliation() -> None:
    assert list(compare_fields({"ledgers": [{"ledger_balance": 10}]}, {"ledgers": []})) == []
