"""A refused request tells all its errors: of parameters, of the body, and of names that do not exist."""

from typing import Any
from uuid import UUID

import pytest

from support.imported_account import codes_of
from support.supplier_client import SupplierClient

_NOBODY, _NOWHERE = {"operations_team_name": "nobody"}, {"import_supplier": "nope"}
_SUPPLIER = ("import_supplier", "import_supplier_not_found")
_TEAM = ("operations_team_name", "operations_team_not_found")
_PARAMETER = ("zzz", "unknown_field")
_BLANK = ("external_account_number", "blank")
_PROCESS = {"import_supplier_code": "nope", "external_account_number": "1", **_NOBODY}
_NAMES_OF_PROCESS = [("import_supplier_code", _SUPPLIER[1]), _TEAM]
_ADDED = {**_NOWHERE, "external_account_number": ""}
_PLAN = {**_NOWHERE, **_NOBODY, "waves": [{"rest": True}]}
_BATCH = "/batches/?import_supplier=nope&mode=import&operations_team_name=nobody"
_SKIP = {**_NOWHERE, "external_account_numbers": ["1"], "reason": "Request 1"}
_ERASE = {**_NOWHERE, "external_account_number": "1", "reason": "Request 1"}

#: A path, a body, and the path and code of each error.
_REQUESTS: list[tuple[str, Any, list[tuple[str, str]]]] = [
    (_BATCH, None, [_SUPPLIER, _TEAM]),
    (f"{_BATCH}&source=pending", None, [_SUPPLIER, _TEAM]),
    (f"{_BATCH}&profile=lenient", None, [("profile", "invalid_choice"), _SUPPLIER, _TEAM]),
    (
        f"{_BATCH}&stop_after_errors=many&extracted_at=today&zzz=1",
        None,
        [
            _PARAMETER,
            ("extracted_at", "invalid_datetime"),
            ("stop_after_errors", "invalid"),
            _SUPPLIER,
            _TEAM,
        ],
    ),
    (
        f"/batches/{UUID(int=1)}/brake/?stop_after_errors=many&zzz=1",
        None,
        [_PARAMETER, ("stop_after_errors", "invalid")],
    ),
    (
        f"/batches/{UUID(int=1)}/retry-failed/?code=nope&all=perhaps",
        None,
        [("all", "invalid"), ("code", "invalid_choice")],
    ),
    ("/wave-plans/", _PLAN, [_SUPPLIER, _TEAM]),
    ("/wave-plans/", _PLAN | {"waves": [{}]}, [("waves.0", "required"), _SUPPLIER, _TEAM]),
    ("/wave-plans/?zzz=1", _PLAN | {"seed": "x"}, [_PARAMETER, ("seed", "invalid"), _SUPPLIER, _TEAM]),
    ("/account-import-process/process/", _PROCESS, _NAMES_OF_PROCESS),
    (
        "/account-import-process/process/?zzz=1",
        _PROCESS | {"external_account_number": "", "dry_run": "perhaps"},
        [_PARAMETER, _BLANK, ("dry_run", "invalid"), *_NAMES_OF_PROCESS],
    ),
    ("/account-import-process/erase/?zzz=1", _ERASE, [_PARAMETER, _SUPPLIER]),
    ("/account-import-process/erase/", _ERASE | {"reason": ""}, [("reason", "blank"), _SUPPLIER]),
    ("/account-import-process/skip/", _SKIP | {"reason": ""}, [("reason", "blank"), _SUPPLIER]),
    (
        "/undos/",
        {**_NOWHERE, "external_account_numbers": ["1"], "reason": ""},
        [("reason", "blank"), _SUPPLIER],
    ),
    (
        "/account-import-process/create-or-update/?zzz=1&report=long",
        {**_NOWHERE, "external_account_number": "", "unknown_occupier": True},
        [_PARAMETER, ("report", "invalid_choice"), _BLANK, _SUPPLIER],
    ),
    *(
        (f"/{path}/create/{query}", _ADDED | body, [*parameter, _BLANK, *found, _SUPPLIER])
        for query, parameter in (("", []), ("?zzz=1", [_PARAMETER]))
        for path, body, found in (
            (
                "notes",
                {"notes": [{"created_at": "x", "body": "a"}]},
                [("notes.0.created_at", "invalid_datetime")],
            ),
            ("transactions", {"transactions": []}, [("transactions", "empty")]),
            ("historical-statements", {"statements": []}, [("statements", "empty")]),
            ("payment-instruction", {"vendor": "x", "reference": "y"}, [("type", "required")]),
        )
    ),
]


@pytest.mark.parametrize(
    ("path", "body", "expected"), _REQUESTS, ids=[f"{it[0]}-{len(it[2])}" for it in _REQUESTS]
)
def test_a_refused_request_tells_all_its_errors(
    supplier: SupplierClient, path: str, body: Any, expected: list[tuple[str, str]]
) -> None:
    answer = supplier.post(path, body)
    assert (answer.status_code, sorted(codes_of(answer))) == (400, sorted(expected))


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
    expected = {_PARAMETER, ("Idempotency-Key", "idempotency_key_invalid")}
    for path in keyed:
        answer = supplier.post(f"{path}?zzz=1", {"zzz": []}, headers=malformed)
        assert answer.status_code == 400
        assert expected <= set(codes_of(answer)), path
    for path, body, errors in _REQUESTS:
        if path.partition("?")[0] in keyed:
            found = codes_of(supplier.post(path, body, headers=malformed))
            assert sorted(found) == sorted([*errors, ("Idempotency-Key", "idempotency_key_invalid")]), path
