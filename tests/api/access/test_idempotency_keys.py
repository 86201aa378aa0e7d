"""The header Idempotency-Key: a repeated request is answered as it was answered before."""

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
from migration_service.errors import ServiceUnavailableError
from migration_service.models import IdempotencyKey
from migration_service.services.accounts.added_data import Accepted
from support.imported_account import ImportedAccount, at_once, code_of

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


@pytest.fixture
def key() -> str:
    return str(uuid4())


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


def test_an_answer_that_is_not_final_is_not_kept(account: ImportedAccount, key: str) -> None:
    with patch("migration_service.blueprints.added_data.add_notes", side_effect=ServiceUnavailableError):
        assert _notes(account, key, "a").status_code == 503
    with patch("migration_service.blueprints.added_data.add_notes", side_effect=RuntimeError):
        assert _notes(account, key, "a").status_code == 500
    token, account.supplier.token = account.supplier.token, "wrong"
    assert _notes(account, key, "a").status_code == 401
    account.supplier.token = token
    with account.supplier.Session() as session:
        assert session.scalar(select(IdempotencyKey).where(IdempotencyKey.key == key)) is None
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
