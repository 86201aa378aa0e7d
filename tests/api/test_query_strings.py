"""A query parameter that an operation does not have is refused, never ignored."""

import re
from typing import Any

import pytest
from flask.testing import FlaskClient

from support.imported_account import codes_of
from support.supplier_client import API, SupplierClient

_UNKNOWN = "?no_operation_has_this=1"


def test_each_operation_refuses_an_unknown_parameter(supplier: SupplierClient, description: Any) -> None:
    answers = {}
    for path, operations in description["paths"].items():
        if not path.startswith(API):
            continue
        for method, operation in operations.items():
            if method not in ("get", "post", "put"):
                continue
            named = path.removeprefix(API).replace("{import_supplier_code}", supplier.code)
            url = re.sub("{.+?}", "1", named) + _UNKNOWN
            body: dict[str, Any] = {} if method == "get" else {"json": {}}
            answers[operation["operationId"]] = getattr(supplier, method)(url, **body)
    assert len(answers) > 40
    for name, answer in answers.items():
        assert answer.status_code == 400, (name, answer.text)
        assert ("no_operation_has_this", "unknown_field") in codes_of(answer), name


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/account-import-process/process/?dryRun=true", "dry_run belongs in the body"),
        ("/notes/create/?dry-run=1", "dry_run belongs in the body"),
        ("/historical-statements/create/?import_suplier=x", "import_supplier belongs in the body"),
        ("/transactions/create/?check_previously_add=false", "Did you mean check_previously_added?"),
        ("/batches/?dry-run=true", "For a dry run of a batch, use mode=dry-run."),
        ("/batches/?dry_run=true", "For a dry run of a batch, use mode=dry-run."),
        ("/batches/?stop_after_error=1", "Did you mean stop_after_errors?"),
        (
            "/batches/?force_add_to_curent_statement=false",
            "Did you mean force_add_to_current_statement?",
        ),
    ],
)
def test_the_error_says_what_was_probably_meant(supplier: SupplierClient, path: str, meant: str) -> None:
    answer = supplier.post(path, {})
    assert answer.status_code == 400
    assert answer.json is not None
    (error,) = [item for item in answer.json["errors"] if item["code"] == "unknown_field"]
    assert meant in error["detail"]


def test_a_misspelt_filter_is_not_answered_with_everything(supplier: SupplierClient) -> None:
    answer = supplier.get(f"/all-account-import-processes/{supplier.code}/?limt=1")
    assert (answer.status_code, codes_of(answer)) == (400, [("limt", "unknown_field")])
    assert "Did you mean limit?" in answer.text


def test_a_request_without_a_token_learns_only_that_it_has_none(client: FlaskClient) -> None:
    answer = client.get(f"{API}/batches/{_UNKNOWN}")
    assert answer.status_code == 401
