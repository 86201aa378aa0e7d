"""What of a payload is masked."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from flask import Flask

from migration_service.blueprints.console import masking
from migration_service.blueprints.console.access import keep_session
from migration_service.blueprints.console.masking import (
    MASK,
    is_personal,
    is_revealed,
    mask,
    mask_differences,
    reveal,
)
from migration_service.blueprints.console.payload_view import view_payload
from migration_service.services.access.operator_sessions import ActiveSession
from migration_service.services.access.operators import AuthenticatedOperator, OperatorRole
from migration_service.services.imports.field_differences import FieldDifference
from migration_service.services.reconciliation.differences import AccountDifference


def test_personal_values_are_masked_and_numbers_stay() -> None:
    payload = {
        "external_account_number": "7",
        "billing_address1": "Singel 1",
        "billing_address2": "",
        "customers": [{"family_name": "Jansen", "user_details": [{"namespace": "iban", "value": "NL00"}]}],
        "supply_addresses": [{"meter_points": [{"ean": "871"}]}],
        "notes": [{"body": None}, {"body": True}, {"body": 0}],
        "email": ["a@b.example", ""],
    }
    assert mask(payload) == {
        "external_account_number": "7",
        "billing_address1": MASK,
        "billing_address2": "",
        "customers": [{"family_name": MASK, "user_details": [{"namespace": "iban", "value": MASK}]}],
        "supply_addresses": [{"meter_points": [{"ean": "871"}]}],
        "notes": [{"body": None}, {"body": True}, {"body": MASK}],
        "email": [MASK, ""],
    }


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("customers.1.landline", True),
        ("customers.*.user_details.0.value", True),
        ("supply_addresses.0.supply_postcode", True),
        ("ledgers.0.ledger_code", False),
        ("supply_addresses.0.meter_points.0.ean", False),
        ("", False),
    ],
)
def test_whether_a_path_is_about_a_person(path: str, expected: bool) -> None:
    assert is_personal(path) is expected


@pytest.mark.parametrize(
    ("found", "staged", "created"),
    [
        (FieldDifference("customers.0.email", "a@b.example", "b@b.example"), MASK, MASK),
        (FieldDifference("customers.0.email", None, ""), None, MASK),
        (FieldDifference("statements.0.gross_amount", 1, 2), 1, 2),
        (FieldDifference("loyalty.points", 1, None), MASK, None),
        (FieldDifference("statements.0.number", None, "1"), None, "1"),
        (FieldDifference("customers.0", {"email": "a", "x": [1]}, None), {"email": MASK, "x": [1]}, None),
        (FieldDifference("customers.1", None, {"email": "a"}), None, {"email": MASK}),
    ],
)
def test_of_what_differs_personal_values_are_masked(
    found: FieldDifference, staged: object, created: object
) -> None:
    account = AccountDifference("1", "A-1", [], [found])
    assert mask_differences(account).values == [FieldDifference(found.path, staged, created)]
    assert account.values == [found]


def test_the_place_of_a_finding_is_open_and_a_missing_field_has_its_place() -> None:
    payload = {"customers": [{"given_name": "A"}], "ledgers": [{"ledger_code": "X"}]}
    finding = {"code": "required", "attr": "customers.0.family_name", "detail": "Missing."}
    root = view_payload(payload, [(finding, "error")])
    customers, ledgers = root.below
    assert customers.is_open
    assert not ledgers.is_open
    given, missing = customers.below[0].below
    assert (given.name, given.path, given.text) == ("given_name", "customers.0.given_name", '"A"')
    assert (missing.path, missing.text) == ("customers.0.family_name", "")
    assert (missing.name, missing.findings) == ("family_name", [("required", "error")])


class _Clock(datetime):
    moment = datetime(2026, 3, 2, 12, tzinfo=UTC)

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return cls.moment


def test_what_was_revealed_is_masked_again_after_ten_minutes_and_only_the_newest_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masking, "datetime", _Clock)
    noon = _Clock.moment
    app = Flask("console")
    app.secret_key = "of the test"
    lead = AuthenticatedOperator(id=1, name="lead", role=OperatorRole.OPERATE, organisation_ids=None)
    with app.test_request_context():
        keep_session("token", ActiveSession(uuid4(), lead))
        reveal("account A 1")
        assert is_revealed("account A 1")
        assert not is_revealed("account A 2")
        monkeypatch.setattr(_Clock, "moment", noon + timedelta(minutes=5))
        reveal("account A 2")
        for later, shown in ((9, True), (10, False), (11, False)):
            monkeypatch.setattr(_Clock, "moment", noon + timedelta(minutes=later))
            assert is_revealed("account A 1") is shown
        assert is_revealed("account A 2")
        for _time in range(3):  # nothing is forgotten for what is asked for again
            reveal("account A 1")
        for number in range(3, 21):
            reveal(f"account A {number}")
        assert all(is_revealed(f"account A {number}") for number in range(1, 21))
        reveal("account A 21")
        assert not is_revealed("account A 2")
        assert is_revealed("account A 1")
