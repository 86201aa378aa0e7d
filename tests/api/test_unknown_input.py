"""What an operation does not have is refused, never ignored, and a refused request tells all its errors."""

import re
from typing import Any

import pytest
from werkzeug.test import TestResponse

from support.imported_account import codes_of
from support.supplier_client import API, SupplierClient

_METHODS = ("get", "post", "put", "patch", "delete")
_NAME = "no_operation_has_this"
_UNKNOWN = f"?{_NAME}=1"
#: Unknown members of an account payload are warnings. Control totals are read once their batch was found.
_OTHERS = {"stage_account", "validate_account", "set_control_totals"}


def test_each_operation_refuses_an_unknown_parameter(supplier: SupplierClient, description: Any) -> None:
    for method, url, operation in _find_operations(supplier, description):
        answer = _send(supplier, method, url + _UNKNOWN, {})
        assert answer.status_code == 400, (operation["operationId"], answer.text)
        assert (_NAME, "unknown_field") in codes_of(answer), operation["operationId"]


def test_a_wrong_parameter_and_a_wrong_body_are_told_together(
    supplier: SupplierClient, description: Any
) -> None:
    with_a_body = [
        found
        for found in _find_operations(supplier, description)
        if "application/json" in found[2].get("requestBody", {}).get("content", {})
        and found[2]["operationId"] != "set_control_totals"
    ]
    assert len(with_a_body) > 15
    for method, url, operation in with_a_body:
        answer = _send(supplier, method, url + _UNKNOWN, [7])
        found = set(codes_of(answer))
        assert found >= {(_NAME, "unknown_field"), (None, "not_a_dict")}, (operation["operationId"], found)


def test_each_operation_refuses_a_body_that_it_does_not_take(
    supplier: SupplierClient, description: Any
) -> None:
    decisions = [found for found in _find_operations(supplier, description) if found[0] != "get"]
    without = [found for found in decisions if "requestBody" not in found[2]]
    assert len(without) > 10
    for method, url, operation in without:
        answer = _send(supplier, method, url, {"dry_run": True})
        assert answer.status_code == 400
        assert (None, "invalid") in codes_of(answer), operation["operationId"]
    for method, url, operation in decisions:
        if "application/json" in operation.get("requestBody", {}).get("content", {}):
            codes = codes_of(_send(supplier, method, url, {_NAME: 1}))
            refused = (_NAME, "unknown_field") in codes
            assert refused != (operation["operationId"] in _OTHERS), (operation["operationId"], codes)


@pytest.mark.parametrize("body", [b" " * 100_000, b"null", b"[]", b"\x1f\x8b"])
def test_only_an_empty_object_is_as_good_as_no_body(supplier: SupplierClient, body: bytes) -> None:
    answers = [supplier.post("/batches/1/pause/", data=sent) for sent in (b"", b" { }\n", body)]
    assert [answer.status_code for answer in answers] == [404, 404, 400]


def _send(supplier: SupplierClient, method: str, url: str, body: Any) -> TestResponse:
    sent = {} if method == "get" else {"json": body}
    return supplier._call(method.upper(), url, **sent)


def _find_operations(supplier: SupplierClient, description: Any) -> list[tuple[str, str, Any]]:
    """Return the method, path and description of each operation below `API`."""
    found = []
    for path, operations in description["paths"].items():
        if path.startswith(API):
            named = path.removeprefix(API).replace("{import_supplier_code}", supplier.code)
            url = re.sub("{.+?}", "1", named)
            found += [(method, url, below) for method, below in operations.items() if method in _METHODS]
    assert len(found) > 40
    return found


def test_each_list_tells_what_is_wrong_with_its_page_and_all_other_errors(
    supplier: SupplierClient, description: Any
) -> None:
    lists = 0
    for _method, url, operation in _find_operations(supplier, description):
        schemas = {it["name"]: it["schema"] for it in operation.get("parameters", ()) if "name" in it}
        if "limit" not in schemas:
            continue
        lists += 1
        assert schemas["limit"]["minimum"] == 1
        refused = [("limit", it) for it in ("", "x", "0", schemas["limit"]["maximum"] + 1)]
        for name, value in (*refused, ("cursor", "%00"), ("cursor", "")):
            answer = supplier.get(f"{url}?{name}={value}")
            assert answer.status_code == 400, (url, name, value)
            assert [attr for attr, _ in codes_of(answer)] == [name], (url, value)
        together = codes_of(supplier.get(f"{url}{_UNKNOWN}&limit=0&cursor=%FF"))
        assert {(_NAME, "unknown_field"), ("limit", "page_size_out_of_range")} <= set(together), url
        assert "cursor" in {attr for attr, _ in together}, url
    assert lists > 7


def test_a_malformed_key_is_told_together_with_all_other_errors(
    supplier: SupplierClient, description: dict[str, Any]
) -> None:
    keyed = [
        path.replace("{", "").replace("}", "").partition("/data-import")[2]
        for path, operations in description["paths"].items()
        if any(it.get("name") == "Idempotency-Key" for it in operations.get("post", {}).get("parameters", []))
    ]
    assert len(keyed) > 10
    malformed = {"Idempotency-Key": "x" * 129}
    expected = {("zzz", "unknown_field"), ("Idempotency-Key", "idempotency_key_invalid")}
    for path in keyed:
        answer = supplier.post(f"{path}?zzz=1", {"zzz": []}, headers=malformed)
        assert answer.status_code == 400
        assert expected <= set(codes_of(answer)), path


def test_an_empty_filter_is_not_taken_for_none(supplier: SupplierClient, description: Any) -> None:
    """As the unset variable of a script, it would mean everything: all failed lines, or another's figures."""
    names = {"import_supplier", "import_supplier_code", "batch", "code", "path"}
    filters = [
        (method, url, it["name"])
        for method, url, operation in _find_operations(supplier, description)
        for it in operation.get("parameters", ())
        if it.get("in") == "query" and it["name"] in names and not it.get("required")
    ]
    assert {name for _, _, name in filters} == names
    for method, url, name in filters:
        answer = _send(supplier, method, f"{url}?{name}=", {})
        assert (name, "blank") in codes_of(answer), (url, name)
    for kind in (
        "undos",
        "undos/preview",
        "replacements/preview",
        "go-lives",
        "go-lives/preview",
        "certificates",
    ):
        body = {"import_supplier": supplier.code, "batch": ""}
        assert ("batch", "blank") in codes_of(supplier.post(f"/{kind}/", body)), kind
