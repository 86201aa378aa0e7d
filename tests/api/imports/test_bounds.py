"""Bodies beyond a bound are refused with a code by validate, stage and batches, and never with a 500."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from documentation.pages import ROOT
from migration_payloads.schemas.bounds import MAX_ERRORS, MAX_ITEMS
from migration_payloads.schemas.json import encode_json
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, counts
from support.imported_account import codes_of
from support.supplier_client import SupplierClient

_STAGE = "/account-import-process/create-or-update/"
_JSON = {"Content-Type": "application/json"}


@pytest.fixture(params=["lenient", "strict"])
def either(request: pytest.FixtureRequest, app: Flask, sessions: sessionmaker[Session]) -> SupplierClient:
    """A supplier of each profile."""
    return SupplierClient.create(app, sessions, profile=request.param)


@pytest.fixture
def strict(app: Flask, sessions: sessionmaker[Session]) -> SupplierClient:
    """A supplier with the strict profile."""
    return SupplierClient.create(app, sessions, profile="strict")


def _with_member(account: dict[str, Any], text: bytes) -> bytes:
    """Return the account as JSON, with `text` as the value of one more member."""
    return encode_json(account)[:-1] + b',"statement_pdf_context":%b}' % text


_DEEP, _LONG = b'{"a":' * 480 + b"1" + b"}" * 480, b"0E-20000"


@pytest.mark.parametrize("path", ["/validate-account/", _STAGE])
@pytest.mark.parametrize(("text", "code"), [(_DEEP, "too_deep"), (_LONG, "number_too_long")])
def test_a_body_beyond_the_bounds_of_json_is_refused_with_its_code(
    supplier: SupplierClient, path: str, text: bytes, code: str
) -> None:
    (account,) = supplier.accounts()
    answer = supplier.post(path, data=_with_member(account, text), headers=_JSON)
    assert answer.status_code == 400
    assert codes_of(answer) == [(None, code)]


def _nested(levels: int) -> bytes:
    """Return an object in which lists and objects alternate. It is the second level of a payload."""
    text = b"1"
    for level in range(levels - 1, 0, -1):
        text = b'{"a":%b}' % text if level % 2 else b"[%b]" % text
    return text


#: What the page calls a bound, and the end of a payload that is so large.
_AT: dict[str, Callable[[int], bytes]] = {
    "levels of objects and lists": lambda n: b'"statement_pdf_context":' + _nested(n),
    "digits of a number; of a whole number that no field reads 4,300": lambda n: (
        b'"billing_address1":' + b"1." + b"1" * (n - 1)
    ),
    "exponent of a number": lambda n: b'"billing_address1":1e%d' % n,
    "items of a list": lambda n: b'"customers":[{"user_details":[%b]}]' % b",".join([b"{}"] * n),
    "errors in an answer, and warnings": lambda n: b'"customers":[%b]' % b",".join([b"{}"] * (n - 1)),
    "characters of an identifier": lambda n: b'"import_supplier":"%b"' % (b"x" * n),
}


@pytest.mark.parametrize("what", _AT)
def test_a_bound_of_the_page_holds_exactly(supplier: SupplierClient, what: str) -> None:
    row = next(
        it for it in (ROOT / "docs/limits.md").read_text().splitlines() if it.startswith(f"| {what} |")
    )
    _, bound, _, code = (cell.strip("` ") for cell in row.strip("| ").split(" | "))
    most = int(bound.replace(",", ""))
    for size, is_beyond in ((most, False), (most + 1, True)):
        body = b'{"external_account_number":"1",%b}' % _AT[what](size)
        answer = supplier.post("/validate-account/", data=body, headers=_JSON)
        assert answer.status_code == 400
        assert (code in {found for _, found in codes_of(answer)}) == is_beyond, (size, answer.text[:500])


def _validate(supplier: SupplierClient, account: Any) -> TestResponse:
    return supplier.validate(account)


def _stage(supplier: SupplierClient, account: Any) -> TestResponse:
    return supplier.stage(account)


@pytest.mark.parametrize("send", [_validate, _stage])
@pytest.mark.parametrize("member", ["\0", "\x1b[2J", "\u202ex", "x" * 10_000])
def test_an_unknown_member_may_have_any_name(
    either: SupplierClient, send: Callable[..., TestResponse], member: str
) -> None:
    (account,) = either.accounts()
    answer = send(either, account | {member: member})
    if answer.status_code == 400:
        assert [code for _, code in codes_of(answer)] == ["unknown_field"]
        assert "\0" not in answer.text
    else:
        assert int(answer.headers["X-Warning-Count"]) >= 1


@pytest.mark.parametrize("mode", ["validate", "stage", "import"])
def test_a_line_beyond_a_bound_fails_and_does_not_affect_other_lines(
    strict: SupplierClient, worker_resources: WorkerResources, mode: str
) -> None:
    sound, *others = strict.accounts(6)
    nul, deep, long, many, wrong = others
    lines = [
        encode_json(sound),
        encode_json(nul | {"\0colour\0": "a\0b"}),
        _with_member(deep, _DEEP),
        _with_member(long, _LONG),
        encode_json(many | {"statements": [{}] * (MAX_ITEMS + 1)}),
        encode_json(wrong | {"statements": [{}] * (MAX_ERRORS + 1)}),
    ]
    batches = BatchClient(strict, worker_resources)
    answer = batches.post(b"\n".join(lines), mode)
    assert answer.status_code == 202
    batches.work()
    report = batches.get((answer.json or {})["batch_id"])
    status = {"validate": "VALID", "stage": "STAGED", "import": "IMPORTED"}[mode]
    assert (report["state"], counts(report)) == ("COMPLETED", {status: 1, "FAILED": 5})
    results = batches.results(report["batch_id"])
    codes = [[error["code"] for error in line["errors"]] for line in results]
    assert codes[:5] == [[], ["unknown_field"], ["too_deep"], ["number_too_long"], ["too_many_items"]]
    assert codes[5][-1] == "too_many_errors"
    assert "\0" not in str(results)
