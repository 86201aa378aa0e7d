"""Requests that Flask itself refuses are answered in the form of section 7.2, too."""

from unittest.mock import patch

import pytest
from flask.testing import FlaskClient

from support.supplier_client import SupplierClient


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing/", 404, "not_found"),
        ("DELETE", "/v1/data-import/validate-account/", 405, "method_not_allowed"),
    ],
)
def test_an_unknown_path_and_a_wrong_method_have_their_codes(
    client: FlaskClient, method: str, path: str, status: int, code: str
) -> None:
    answer = client.open(path, method=method)
    assert answer.json is not None
    detail = answer.json["detail"]
    assert (answer.status_code, answer.json["code"]) == (status, code)
    assert answer.json["errors"] == [{"detail": detail, "code": code, "attr": None}]
    assert ("Allow" in answer.headers) == (status == 405)
    assert ("/v1/openapi.json" in detail) == (status == 404)
    assert ("does not take DELETE. It takes OPTIONS and POST." in detail) == (status == 405)


def test_an_unexpected_error_is_500_in_the_same_form(supplier: SupplierClient) -> None:
    with patch("migration_service.blueprints.status.get_status", side_effect=RuntimeError):
        answer = supplier.status("1")
    detail = "An unexpected error. Nothing was changed."
    item = {"detail": detail, "code": "error", "attr": None}
    assert (answer.status_code, answer.json) == (500, {"detail": detail, "code": "error", "errors": [item]})


def test_413_names_the_limit(supplier: SupplierClient) -> None:
    limit = supplier.app.config["MAX_CONTENT_LENGTH"]
    answer = supplier.post("/notes/create/", "x" * limit)
    assert answer.status_code == 413
    assert answer.json is not None
    assert f"{limit:,} bytes" in answer.json["detail"]
