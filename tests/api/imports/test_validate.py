"""Section 4.1: an account payload is checked without storing it."""

import pytest

from support.supplier_client import SupplierClient


def test_nothing_is_stored(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    supplier.validate(account)
    assert supplier.status(account["external_account_number"]).status_code == 404


def test_the_profile_of_the_query_string_makes_warnings_errors(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    account["billing_postcode"] = "not a postcode"
    assert supplier.validate(account).status_code == 200
    answer = supplier.validate(account, query_string={"profile": "strict"})
    assert answer.status_code == 400
    assert answer.json is not None
    assert [error["code"] for error in answer.json["errors"]] == ["invalid_postcode"]
    assert supplier.validate(account, query_string={"profile": "loose"}).status_code == 400


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"{", "application/json", 400, "parse_error"),
        (b"", "application/json", 400, "parse_error"),
        (b'{"a": NaN}', "application/json", 400, "parse_error"),
        (b"[]", "application/json", 400, "account_failed_validation"),
        (b"{}", "text/plain", 415, "unsupported_media_type"),
    ],
)
def test_what_is_not_a_json_object_is_refused(
    supplier: SupplierClient, body: bytes, content_type: str, status: int, code: str
) -> None:
    answer = supplier.post("/validate-account/", data=body, content_type=content_type)
    assert answer.status_code == status
    assert answer.json is not None
    assert answer.json["code"] == code
    assert answer.json["errors"]
