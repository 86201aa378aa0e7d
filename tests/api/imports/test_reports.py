"""`?report=full` on validate and stage returns the account and all findings."""

from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import TestResponse

from migration_payloads.corrections.fixing import apply
from migration_payloads.errors import Suggestion
from migration_payloads.schemas.json import encode_json, parse_json
from support.factories import json_of
from support.imported_account import code_of, codes_of
from support.supplier_client import SupplierClient

_Send = Callable[..., TestResponse]


def _validate(supplier: SupplierClient, payload: Any, query: str = "") -> TestResponse:
    return supplier.post(f"/validate-account/{query}", payload)


def _stage(supplier: SupplierClient, payload: Any, query: str = "") -> TestResponse:
    return supplier.post(f"/account-import-process/create-or-update/{query}", payload)


@pytest.fixture
def payload(supplier: SupplierClient) -> dict[str, Any]:
    """A payload with one warning."""
    (account,) = supplier.accounts()
    return account | {"billing_postcode": "nowhere"}


@pytest.mark.parametrize(("send", "status", "more"), [(_validate, 200, set()), (_stage, 201, {"result"})])
def test_the_full_report_has_the_account_and_its_warnings(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send, status: int, more: set[str]
) -> None:
    validated = json_of(_validate(supplier, payload))
    answer = send(supplier, payload, "?report=full")
    assert answer.status_code == status
    report = json_of(answer)
    assert report.keys() == {"valid", "errors", "warnings", "account"} | more
    assert (report["valid"], report["errors"], report["account"]) == (True, [], validated)
    assert [(it["attr"], it["code"]) for it in report["warnings"]] == [
        ("billing_postcode", "invalid_postcode")
    ]
    assert answer.headers["X-Warning-Count"] == "1"


@pytest.mark.parametrize("send", [_validate, _stage])
def test_without_a_report_a_header_counts_the_warnings(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send
) -> None:
    answer = send(supplier, payload)
    assert answer.headers["X-Warning-Count"] == "1"
    assert "warnings" not in json_of(answer)
    sound = send(supplier, payload | {"billing_postcode": "1012 AB"})
    assert sound.headers["X-Warning-Count"] == "0"


@pytest.mark.parametrize("send", [_validate, _stage])
def test_the_full_report_of_a_faulty_account_is_a_400_with_errors_and_warnings(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send
) -> None:
    faulty = payload | {"unknown_occupier": "perhaps"}
    plain, answer = send(supplier, faulty), send(supplier, faulty, "?report=full")
    assert (plain.status_code, answer.status_code) == (400, 400)
    assert codes_of(answer) == codes_of(plain) == [("unknown_occupier", "invalid")]
    report = json_of(answer)
    assert (report["valid"], report["account"], report["code"]) == (False, None, "account_failed_validation")
    assert [it["code"] for it in report["warnings"]] == ["invalid_postcode"]
    assert json_of(plain).keys() == {"detail", "code", "errors"}


@pytest.mark.parametrize("send", [_validate, _stage])
def test_an_unknown_kind_of_report_is_refused(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send
) -> None:
    answer = send(supplier, payload, "?report=short")
    assert (answer.status_code, code_of(answer)) == (400, "request_failed_validation")
    assert codes_of(answer) == [("report", "invalid_choice")]


@pytest.mark.parametrize("send", [_validate, _stage])
def test_findings_have_the_correction_that_makes_them_disappear(
    supplier: SupplierClient, payload: dict[str, Any], send: _Send
) -> None:
    faulty = _without_check_digit(payload) | {"unknown_occupier": "nee"}
    report = json_of(send(supplier, faulty, "?report=full"))
    [error], [warning] = report["errors"], report["warnings"]
    assert error["suggestions"] == json_of(send(supplier, faulty))["errors"][0]["suggestions"]
    assert error["suggestions"] == [
        {
            "op": "replace",
            "path": "unknown_occupier",
            "value": False,
            "confidence": "certain",
            "kind": "true_or_false",
        }
    ]
    assert {it["kind"] for it in warning["suggestions"]} == {"ean_check_digit"}
    apply(faulty, [Suggestion(**step) for step in (*error["suggestions"], *warning["suggestions"])])
    answer = send(supplier, faulty)
    assert (answer.status_code < 300, answer.headers["X-Warning-Count"]) == (True, "0")


def test_what_is_stored_of_a_refused_account_has_no_suggestions(
    supplier: SupplierClient, payload: dict[str, Any]
) -> None:
    staged = json_of(_stage(supplier, _without_check_digit(payload), "?report=full"))
    assert "suggestions" in staged["warnings"][0]
    number = payload["external_account_number"]
    history = json_of(supplier.get(f"/accounts/{payload['import_supplier']}/{number}/"))
    assert [sorted(it) for it in history["staged"]["warnings"]] == [["attr", "code", "detail"]]


def _without_check_digit(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload whose only warning is that its first EAN has 17 digits."""
    ean = payload["supply_addresses"][0]["meter_points"][0]["ean"]
    text = encode_json(payload).replace(ean.encode(), b"87168592000123291")
    sent: dict[str, Any] = parse_json(text)
    return sent | {"billing_postcode": "1012 AB"}


def test_a_strict_validation_reports_warnings_as_errors(
    supplier: SupplierClient, payload: dict[str, Any]
) -> None:
    answer = _validate(supplier, payload, "?report=full&profile=strict")
    assert answer.status_code == 400
    assert ("billing_postcode", "invalid_postcode") in codes_of(answer)
    assert json_of(answer)["warnings"] == []
    assert codes_of(_validate(supplier, payload, "?profile=loose")) == [("profile", "invalid_choice")]
