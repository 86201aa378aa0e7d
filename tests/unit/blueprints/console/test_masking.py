"""What of a payload is masked, and how a form with a file is read."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from uuid import uuid4

import pytest
from flask import Flask
from werkzeug.exceptions import BadRequest, RequestEntityTooLarge

from migration_payloads.normal_form import FieldDifference
from migration_service.blueprints.console import masking
from migration_service.blueprints.console.access import keep_session
from migration_service.blueprints.console.display import label_cells
from migration_service.blueprints.console.multipart import FormWithFile
from migration_service.blueprints.console.payload_view import view_payload
from migration_service.services.access.operator_sessions import ActiveSession
from migration_service.services.access.operators import AuthenticatedOperator, OperatorRole
from migration_service.services.reconciliation.differences import AccountDifference


def test_what_is_personal_or_not_known_is_masked_and_numbers_and_codes_stay() -> None:
    shown = {
        "external_account_number": "7 a",
        "import_supplier": "demo supplier",
        "billing_address2": "",
        "unknown_occupier": "maybe",
        "supply_addresses": [
            {
                "customer_at_supply_address_from_date": "31-12-2025",
                "meter_points": [{"ean": "871", "supply_type": "gas", "supply_start_date": date(2026, 1, 1)}],
            }
        ],
        "ledgers": [
            {"ledger_code": "ENERGY_LEDGER", "ledger_balance": Decimal("-1.50"), "identifiers": ["871"]}
        ],
        "notes": [{"body": None, "is_pinned": True, "created_at": datetime(2026, 1, 1, tzinfo=UTC)}],
    }
    assert masking.mask(shown) == shown
    masked = {
        "billing_address1": "Singel 1",
        "customers": [
            {"family_name": "Jansen", "mobile": 612345678, "landline": ["06 1", {"number": "54"}]},
            "Jansen",
            {
                "user_details": [
                    {"namespace": "oma Jansen", "value": "NL00"},
                    {"namespace": "oma", "value": True},
                ]
            },
        ],
        "unknown_occupier": "Jan Jansen",
        "ledgers": [
            {
                "ledger_code": "van Jansen",
                "ledger_balance": "Jan",
                "transactions_in_open_settlement_period": [
                    {"note": "belde", "display_note": "x", "reference": "X", "product_code": 612345678},
                    {"product_code": "TEL-0612345678", "type": "0612345678", "reason": "+31612345678"},
                ],
            }
        ],
        "supply_addresses": [{"meter_points": [{"location_description": "X", "meters": "Jansen"}]}],
        "statements": [{"statement_pdf_context": {"number": "51", "amount": 52, "customers": {"ean": "53"}}}],
        "notes": [{"body": 55}],
        "comments": {"ean": "Jansen"},
        "email": ["a@b.example", ""],
    }
    hidden = json.dumps(masking.mask(masked), ensure_ascii=False)
    for value in ("Jan", "jan", "Singel", "61", "06", "NL00", "belde", "X", "oma", "b.example", "5"):
        assert value not in hidden, hidden
    assert masking.mask(masked)["email"] == [masking.MASK, ""]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("customers.1.landline", True),
        ("customers.*.user_details.0.value", True),
        ("supply_addresses.0.supply_postcode", True),
        ("supply_addresses.0.meter_points.*.location_description", True),
        ("statements.0.statement_pdf_context.number", True),
        ("loyalty.ean", True),
        ("loyalty", True),
        ("customers.0", False),
        ("ledgers.0.ledger_code", False),
        ("ledgers.0.identifiers.0", False),
        ("supply_addresses.0.meter_points.0.ean", False),
        ("", False),
    ],
)
def test_whether_a_path_is_about_a_person(path: str, expected: bool) -> None:
    assert masking.is_personal(path) is expected
    assert masking.repeats_personal("required", path) is expected
    assert not masking.repeats_personal("unknown_field", path)


@pytest.mark.parametrize(
    ("found", "staged", "created"),
    [
        (FieldDifference("customers.0.email", "a@b.example", "b@b.example"), masking.MASK, masking.MASK),
        (FieldDifference("customers.0.email", None, ""), None, ""),
        (FieldDifference("statements.0.gross_amount", 1, 2), 1, 2),
        (FieldDifference("loyalty.points", 1, None), masking.MASK, None),
        (FieldDifference("customers.0.customer_preferences.opted_into_sms", True, None), True, None),
        (FieldDifference("statements.0.number", None, "1"), None, "1"),
        (
            FieldDifference("customers.0", {"email": "a", "x": [1]}, None),
            {"email": masking.MASK, "x": [masking.MASK]},
            None,
        ),
        (FieldDifference("customers.1", None, {"email": "a"}), None, {"email": masking.MASK}),
    ],
)
def test_of_what_differs_personal_values_are_masked(
    found: FieldDifference, staged: object, created: object
) -> None:
    account = AccountDifference("1", "A-1", [], [found])
    assert masking.mask_differences(account).values == [FieldDifference(found.path, staged, created)]
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
        masking.reveal("account A 1")
        assert masking.is_revealed("account A 1")
        assert not masking.is_revealed("account A 2")
        monkeypatch.setattr(_Clock, "moment", noon + timedelta(minutes=5))
        masking.reveal("account A 2")
        for later, shown in ((9, True), (10, False), (11, False)):
            monkeypatch.setattr(_Clock, "moment", noon + timedelta(minutes=later))
            assert masking.is_revealed("account A 1") is shown
        assert masking.is_revealed("account A 2")
        for _time in range(3):  # nothing is forgotten for what is asked for again
            masking.reveal("account A 1")
        for number in range(3, 21):
            masking.reveal(f"account A {number}")
        assert all(masking.is_revealed(f"account A {number}") for number in range(1, 21))
        masking.reveal("account A 21")
        assert not masking.is_revealed("account A 2")
        assert masking.is_revealed("account A 1")


_FIELD = '--b\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
_FILE = '--b\r\nContent-Disposition: form-data; name="file"; filename="book.ndjson"\r\n\r\n'
_END = b"\r\n--b--\r\n"


def _form(body: bytes) -> FormWithFile:
    return FormWithFile(BytesIO(body), "b")


def test_the_fields_are_those_before_the_file_and_the_file_comes_in_blocks() -> None:
    content = bytes(range(256)) * 1000
    long = "x" * 70_000  # longer than a block
    fields = _FIELD.format("name", "week 12") + _FIELD.format("long", long) + _FIELD.format("empty", "")
    form = _form((fields + _FILE).encode() + content + _END + _FIELD.format("later", "1").encode())
    assert form.fields == {"name": "week 12", "long": long, "empty": ""}
    assert form.file_name == "book.ndjson"
    blocks = list(form.blocks())
    assert b"".join(blocks) == content
    assert len(blocks) > 1
    assert all(blocks)


def test_a_form_without_a_file_has_no_blocks() -> None:
    form = _form(_FIELD.format("name", "week 12").encode() + b"--b--\r\n")
    assert (form.fields, form.file_name) == ({"name": "week 12"}, None)
    assert list(form.blocks()) == []


@pytest.mark.parametrize("body", [b"", b"nothing of the kind", _FIELD.format("name", "week").encode()])
def test_a_form_that_ends_too_early_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match=r"The upload is incomplete\."):
        _form(body)


def test_a_file_that_ends_too_early_is_refused_after_its_blocks() -> None:
    blocks = _form(_FILE.encode() + b"one\ntwo\n").blocks()
    assert next(blocks).startswith(b"one")
    with pytest.raises(BadRequest, match=r"The upload is incomplete\."):
        list(blocks)


def test_the_fields_and_their_names_have_a_bound_together() -> None:
    half = "x" * 49_999
    longest = _FIELD.format("a", half) + _FIELD.format("b", half)
    assert _form((longest + _FILE).encode() + _END).fields == {"a": half, "b": half}
    for fields in (longest + _FIELD.format("c", ""), _FIELD.format("a", 10 * half)):
        with pytest.raises(RequestEntityTooLarge):
            _form((fields + _FILE).encode() + _END)


_HEAD = (
    '<thead><tr><th scope="col" class="text-end">Line</th><th scope="col">Who &amp; when</th>'
    '<th scope="col"><span class="visually-hidden">Actions</span></th></tr></thead><tbody>'
)


def test_each_cell_has_the_name_of_its_column() -> None:
    row = '<tr class="x"><th scope="row">1</th><td class="code">&lt;td&gt;</td>\n<td><a>Change</a></td></tr>'
    assert label_cells(_HEAD + row + row) == _HEAD + 2 * (
        '<tr class="x"><th scope="row" data-label="Line">1</th>'
        '<td data-label="Who &amp; when" class="code">&lt;td&gt;</td>\n<td><a>Change</a></td></tr>'
    )


def test_a_cell_of_all_columns_has_no_name() -> None:
    row = '<tr><td colspan="3">There is none.</td></tr>'
    assert label_cells(_HEAD + row) == _HEAD + row
