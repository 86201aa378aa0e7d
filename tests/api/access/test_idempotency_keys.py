"""The header Idempotency-Key: a repeated request is answered as it was answered before."""

import gzip
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from documentation.pages import ROOT
from migration_payloads.schemas.json import encode_json
from migration_service.errors import ServiceUnavailableError
from migration_service.models import IdempotencyKey, ImportSupplier, Organisation
from migration_service.services.access.api_keys import KeyLimits, issue_api_key
from migration_service.services.accounts.added_data import Accepted
from migration_service.services.setup.suppliers import create_import_supplier
from support.factories import obtain
from support.imported_account import ImportedAccount, at_once, code_of
from support.supplier_client import API

_TRANSACTION: dict[str, Any] = {
    "transaction_id": "T-1",
    "transaction_date": "2025-03-01",
    "amount": "25.00",
    "type": "PAYMENT",
    "payment_type": "DIRECT_CREDIT",
}


def _notes(account: ImportedAccount, key: str, *bodies: str, **fields: Any) -> TestResponse:
    body = {**account.pair, "notes": [{"body": it} for it in bodies], **fields}
    return account.supplier.post("/notes/create/", body, headers={"Idempotency-Key": key})


def _transactions(account: ImportedAccount, key: str, **change: Any) -> TestResponse:
    body = {**account.pair, "transactions": [_TRANSACTION | change]}
    return account.supplier.post(
        "/transactions/create/",
        body,
        headers={"Idempotency-Key": key},
        query_string={"check_previously_added": "false"},
    )


def _key(account: ImportedAccount, key: str) -> IdempotencyKey | None:
    with account.supplier.Session() as session:
        return session.scalar(select(IdempotencyKey).where(IdempotencyKey.key == key))


@pytest.fixture
def key() -> str:
    return str(uuid4())


def test_the_same_request_again_gets_the_same_answer_and_does_nothing(
    account: ImportedAccount, key: str
) -> None:
    first = _notes(account, key, "a")
    again = _notes(account, f'"{key}"', "a")
    assert first.status_code == again.status_code == 201
    assert again.data == first.data
    assert again.headers["Content-Type"] == first.headers["Content-Type"]
    assert again.json[0]["status"] == "NOTE_CREATION_SUCCESS"  # type: ignore[index]
    assert len(account.notes()) == 1
    assert _notes(account, str(uuid4()), "a").json[0]["status"] == "NOTE_ALREADY_EXISTS"  # type: ignore[index]


#: POSTs whose repetition changes nothing more, and is answered alike or by what is so now.
_WITHOUT_A_KEY = {
    *("obtain_token", "end_session", "forget_event_consumer", "erase_account", "skip_accounts"),
    *("validate_account", "stage_account", "acknowledge_open", "set_batch_brake", "accept_warning"),
    *("pause_batch", "resume_batch", "cancel_batch", "preview_undo", "cancel_undo"),
    *("preview_go_live", "cancel_go_live", "accept_exception", "preview_replacement"),
    *("start_wave", "pause_wave", "resume_wave", "stop_wave", "approve_wave", "reconcile_wave"),
}


def test_every_post_that_could_have_an_effect_twice_takes_a_key_and_is_on_the_page(description: Any) -> None:
    keyed, others = set(), set()
    for path, operations in description["paths"].items():
        if post := operations.get("post"):
            if "Idempotency-Key" in {it["name"] for it in post.get("parameters", ())}:
                keyed.add(path.removeprefix("/v1/data-import/").translate(str.maketrans("{}", "<>")))
            else:
                others.add(post["operationId"])
    assert others == _WITHOUT_A_KEY
    rows = re.findall(r"^\| (`.*/`) \|", (ROOT / "docs/suppliers/retries.md").read_text(), re.MULTILINE)
    assert keyed == {path.strip("`") for row in rows for path in row.split(", ")}


def test_numbers_that_are_equal_make_an_equal_request(account: ImportedAccount, key: str) -> None:
    answers = [
        account.supplier.post(
            "/transactions/create/",
            data=encode_json({**account.pair, "transactions": [_TRANSACTION | {"amount": 0}]}).replace(
                b'"amount":0', b'"amount":' + written
            ),
            headers={"Idempotency-Key": key, "Content-Type": "application/json"},
        )
        for written in (b"25", b"25.0", b"25.000", b"2.5e1", b"25.01", b'"25"')
    ]
    assert [answer.status_code for answer in answers] == [201] * 4 + [400] * 2
    assert len({answer.data for answer in answers[:4]}) == 1
    assert {code_of(answer) for answer in answers[4:]} == {"idempotency_key_reused"}
    assert len(account.added_transactions()) == 1


def test_a_webhook_and_its_secret_are_made_once_while_it_exists(account: ImportedAccount, key: str) -> None:
    def post(path: str, body: Any = None, key: str = key) -> TestResponse:
        return account.supplier.post(f"/webhooks/{path}", body, headers={"Idempotency-Key": key})

    body = {"url": "https://billing.example.com/events"}
    first, again = post("", body), post("", body)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.data == again.data
    assert first.headers["Location"] == again.headers["Location"]
    path = f"{first.json['webhook_id']}/"  # type: ignore[index]
    replaced, repeated = (
        post(f"{path}secret/", {"overlap_hours": 0}),
        post(f"{path}secret/", {"overlap_hours": 0}),
    )
    assert replaced.data == repeated.data
    assert post(f"{path}test/").data == post(f"{path}test/").data
    assert len(account.supplier.get("/webhooks/").json or ()) == 1
    assert len(account.supplier.get(f"/webhooks/{path}deliveries/").json or ()) == 1
    other = post("", {"url": "https://billing.example.com/others"}, f"{key} 2")
    since = {"since": "2026-01-01T00:00:00Z", "only_failed": True}
    assert post(f"{path}redeliver/", since).status_code == 202
    # With the webhook, the answers about it are gone, and those about another one stay.
    assert account.supplier.delete(f"/webhooks/{path}").status_code == 200
    for below, sent in (("secret/", {"overlap_hours": 0}), ("test/", None), ("redeliver/", since)):
        assert post(f"{path}{below}", sent).status_code == 404, below
    assert post("", {"url": "https://billing.example.com/others"}, f"{key} 2").data == other.data
    anew = post("", body)
    assert (anew.status_code, anew.data == first.data) == (201, False)
    assert account.supplier.get(anew.headers["Location"].partition(API)[2]).status_code == 200


def test_a_compressed_body_is_the_same_request_as_a_plain_one(account: ImportedAccount, key: str) -> None:
    headers = {
        "Idempotency-Key": key,
        "Content-Type": "application/json",
        "Content-Encoding": "gzip",
    }
    body = encode_json({**account.pair, "notes": [{"body": "a"}]})
    other = encode_json({**account.pair, "notes": [{"body": "b"}]})
    first, again, changed = (
        account.supplier.post("/notes/create/", data=gzip.compress(data), headers=headers)
        for data in (body, body, other)
    )
    plain = _notes(account, key, "a")
    assert [answer.status_code for answer in (first, again, plain)] == [201] * 3
    assert first.data == again.data == plain.data
    assert (changed.status_code, code_of(changed)) == (400, "idempotency_key_reused")
    assert len(account.notes()) == 1


@pytest.mark.parametrize(
    ("data", "encoding", "refused"),
    [
        (b"{", "identity", (400, "parse_error")),
        (gzip.compress(b"{}", mtime=0)[:-3], "gzip", (400, "parse_error")),
        (gzip.compress(b" " * 9_000_000, mtime=0), "gzip", (413, "request_too_large")),
    ],
    ids=["no JSON", "no gzip", "too large"],
)
def test_a_body_that_cannot_be_read_uses_up_no_key(
    account: ImportedAccount, key: str, data: bytes, encoding: str, refused: object
) -> None:
    headers = {"Idempotency-Key": key, "Content-Type": "application/json", "Content-Encoding": encoding}
    answer = account.supplier.post("/notes/create/", data=data, headers=headers)
    assert (answer.status_code, code_of(answer)) == refused
    assert _notes(account, key, "a").status_code == 201


def test_other_parameters_under_the_same_key_are_an_error_in_the_shape_of_the_endpoint(
    account: ImportedAccount, key: str
) -> None:
    assert _transactions(account, key).status_code == 201
    body = {**account.pair, "transactions": [_TRANSACTION]}
    answer = account.supplier.post("/transactions/create/", body, headers={"Idempotency-Key": key})
    assert (answer.status_code, code_of(answer)) == (400, "idempotency_key_reused")
    assert answer.json["status"] == "TRANSACTION_IMPORT_ERROR"  # type: ignore[index]


def test_a_refused_request_leaves_nothing_behind_and_is_carried_out_when_it_comes_again(
    account: ImportedAccount, key: str
) -> None:
    _transactions(account, str(uuid4()), amount="1.00")
    first, again = _transactions(account, key), _transactions(account, key)
    assert code_of(first) == code_of(again) == "transaction_id_already_used"
    assert _key(account, key) is None
    assert _transactions(account, key, transaction_id="T-2").status_code == 201


def test_a_dry_run_uses_up_no_key(account: ImportedAccount, key: str) -> None:
    first, again = (_notes(account, key, "a", dry_run=True) for _ in range(2))
    assert (first.status_code, again.status_code, account.notes()) == (200, 200, [])
    assert _key(account, key) is None
    assert _notes(account, key, "a").status_code == 201


def test_a_key_that_is_limited_to_another_supplier_is_not_told_the_answer(
    app: Flask, account: ImportedAccount, key: str
) -> None:
    first = _notes(account, key, "a")
    assert first.status_code == 201
    with account.supplier.Session.begin() as session:
        organisation = session.scalars(
            select(Organisation.name).join(ImportSupplier).where(ImportSupplier.code == account.supplier.code)
        ).one()
        code = f"OTHER_{key[:8].upper()}"
        create_import_supplier(session, code=code, organisation_name=organisation)
        limits = KeyLimits(import_suppliers=[code])
        limited = issue_api_key(session, organisation_name=organisation, limits=limits)
    account.supplier.token = obtain(app.test_client(), APIKey=limited)["token"]
    refused = _notes(account, key, "a")
    assert code_of(refused) == "idempotency_key_reused"
    assert _notes(account, str(uuid4()), "a").status_code == 403


def test_an_answer_that_is_not_final_is_not_kept(account: ImportedAccount, key: str) -> None:
    with patch("migration_service.blueprints.added_data.add_notes", side_effect=ServiceUnavailableError):
        assert _notes(account, key, "a").status_code == 503
    with patch("migration_service.blueprints.added_data.add_notes", side_effect=RuntimeError):
        assert _notes(account, key, "a").status_code == 500
    token, account.supplier.token = account.supplier.token, "wrong"
    assert _notes(account, key, "a").status_code == 401
    account.supplier.token = token
    assert _key(account, key) is None
    assert _notes(account, key, "a").status_code == 201


@pytest.mark.parametrize("post", [_notes, _transactions])
def test_of_simultaneous_requests_with_one_key_one_has_the_effect_and_all_get_its_answer(
    account: ImportedAccount, key: str, post: Callable[..., TestResponse]
) -> None:
    arguments = ("a",) if post is _notes else ()
    answers = at_once(lambda: post(account, key, *arguments), times=6)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.data for answer in answers}) == 1
    assert len(account.notes()) + len(account.added_transactions()) == 1


def test_a_different_request_with_the_same_key_that_was_faster_is_an_error(
    account: ImportedAccount, key: str
) -> None:
    def meanwhile(*_args: Any, **_kwargs: Any) -> Accepted:
        patched.stop()
        # In a thread of its own, because Flask would give both requests the same `g`.
        with ThreadPoolExecutor() as pool:
            assert pool.submit(_notes, account, key, "b").result().status_code == 201
        return Accepted([])

    patched = patch("migration_service.blueprints.added_data.add_notes", side_effect=meanwhile)
    patched.start()
    assert code_of(_notes(account, key, "a")) == "idempotency_key_reused"
    assert [note["body"] for note in account.notes()] == ["b"]


class _KilledError(BaseException):
    """What a killed process would not have the time to handle."""


def test_an_answer_is_kept_together_with_its_effect(account: ImportedAccount, key: str) -> None:
    # The process is killed as soon as the view has returned.
    with patch.object(Flask, "make_response", side_effect=_KilledError), pytest.raises(_KilledError):
        _notes(account, key, "a")
    assert len(account.notes()) == 1
    assert _notes(account, key, "a").json[0]["status"] == "NOTE_CREATION_SUCCESS"  # type: ignore[index]
