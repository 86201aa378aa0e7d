"""Idempotency keys in the database: which request has which key, and for how long."""

from dataclasses import replace
from datetime import datetime, timedelta
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.db.statements import begin
from migration_service.errors import IdempotencyRequestInProgressError
from migration_service.models import AccountImportProcess, IdempotencyKey, OperationsTeam
from migration_service.services.idempotency import keys
from migration_service.services.idempotency.keys import (
    KEPT_FOR_HOURS,
    LEASE_SECONDS,
    EarlierAttempt,
    KeptAnswer,
    KeyedRequest,
    claim_key,
    find_fault,
    keep_answer,
    release_key,
    remove_old_keys,
    void_keys,
)
from migration_service.services.imports import states
from migration_service.services.imports.states import EndedAttempt, RunningAttempt
from migration_service.states import Outcome
from support.factories import make_customer
from support.supplier_client import SupplierClient

_ANSWER = KeptAnswer(201, {"Content-Type": "application/json"}, b"{}")


@pytest.fixture
def request_(sessions: sessionmaker[Session]) -> KeyedRequest:
    customer = make_customer(sessions)
    return KeyedRequest(customer.organisation_id, "/notes/", "k", b"same", customer.import_supplier, "1")


@pytest.fixture
def neighbours(sessions: sessionmaker[Session], request_: KeyedRequest) -> list[KeyedRequest]:
    """Requests that differ from `request_` in one part of the name of their key."""
    other = make_customer(sessions)
    return [
        replace(request_, organisation_id=other.organisation_id, import_supplier=other.import_supplier),
        replace(request_, endpoint="/transactions/", external_account_number="2"),
        replace(request_, key="l", external_account_number="2"),
    ]


def _claim(sessions: sessionmaker[Session], request: KeyedRequest, claim_id: UUID | None = None) -> UUID:
    claim_id = claim_id or new_id()
    with sessions.begin() as session:
        assert claim_key(session, request, claim_id) is None
    return claim_id


def _rows(sessions: sessionmaker[Session]) -> dict[tuple[int, str, str], IdempotencyKey]:
    with sessions() as session:
        return {
            (it.organisation_id, it.endpoint, it.key): it for it in session.scalars(select(IdempotencyKey))
        }


def _row(sessions: sessionmaker[Session], request: KeyedRequest) -> IdempotencyKey | None:
    return _rows(sessions).get((request.organisation_id, request.endpoint, request.key))


def _change(sessions: sessionmaker[Session], claim_id: UUID, **values: ColumnElement[datetime]) -> None:
    with sessions.begin() as session:
        session.execute(update(IdempotencyKey).where(IdempotencyKey.claim_id == claim_id).values(**values))


def _ago(**span: int) -> ColumnElement[datetime]:
    return func.now() - timedelta(**span)


@pytest.mark.parametrize("key", ["k", "k" * 128, "two words"])
def test_a_key_has_1_to_128_printable_characters(key: str) -> None:
    assert find_fault(key) is None


def test_a_claim_has_what_the_request_names_and_a_lease(
    sessions: sessionmaker[Session], request_: KeyedRequest
) -> None:
    claim_id = _claim(sessions, request_)
    row = _row(sessions, request_)
    assert row is not None
    assert (row.request_sha256, row.claim_id) == (b"same", claim_id)
    assert (row.import_supplier, row.external_account_number) == (request_.import_supplier, "1")
    assert row.leased_until - row.created_at == timedelta(seconds=LEASE_SECONDS)
    assert (row.status, row.headers, row.body) == (None, None, None)


def test_an_answer_is_kept_for_the_request_that_holds_the_key_and_for_no_other(
    sessions: sessionmaker[Session], request_: KeyedRequest, neighbours: list[KeyedRequest]
) -> None:
    claim_id = _claim(sessions, request_)
    for neighbour in neighbours:
        _claim(sessions, neighbour, claim_id)
    with sessions.begin() as session:
        keep_answer(session, request_, claim_id, _ANSWER)
    with sessions() as session:
        assert claim_key(session, request_, new_id()) == _ANSWER
        for neighbour in neighbours:
            with pytest.raises(IdempotencyRequestInProgressError):
                claim_key(session, neighbour, new_id())


def test_an_answer_is_kept_once_and_only_by_whoever_holds_the_key(
    sessions: sessionmaker[Session], request_: KeyedRequest
) -> None:
    claim_id = _claim(sessions, request_)
    with sessions() as session, pytest.raises(IdempotencyRequestInProgressError):
        keep_answer(session, request_, new_id(), _ANSWER)
    with sessions.begin() as session:
        keep_answer(session, request_, claim_id, _ANSWER)
    with sessions() as session, pytest.raises(IdempotencyRequestInProgressError):
        keep_answer(session, request_, claim_id, replace(_ANSWER, body=b"another"))


def test_a_key_is_released_by_whoever_holds_it_and_no_other_key_is(
    sessions: sessionmaker[Session], request_: KeyedRequest, neighbours: list[KeyedRequest]
) -> None:
    claim_id = _claim(sessions, request_)
    for neighbour in neighbours:
        _claim(sessions, neighbour, claim_id)
    before = {name: row.leased_until for name, row in _rows(sessions).items()}
    with sessions.begin() as session:
        release_key(session, request_, new_id())
    assert {name: row.leased_until for name, row in _rows(sessions).items()} == before
    with sessions.begin() as session:
        release_key(session, request_, claim_id)
    del before[request_.organisation_id, request_.endpoint, request_.key]
    assert {name: row.leased_until for name, row in _rows(sessions).items()} == before


def test_a_key_with_an_answer_is_not_released(
    sessions: sessionmaker[Session], request_: KeyedRequest
) -> None:
    claim_id = _claim(sessions, request_)
    with sessions.begin() as session:
        keep_answer(session, request_, claim_id, _ANSWER)
        release_key(session, request_, claim_id)
    with sessions() as session:
        assert claim_key(session, request_, new_id()) == _ANSWER


def test_the_keys_of_the_named_accounts_of_one_supplier_are_voided(
    sessions: sessionmaker[Session], request_: KeyedRequest, neighbours: list[KeyedRequest]
) -> None:
    for request in (request_, *neighbours):
        _claim(sessions, request)
    supplier = request_.import_supplier
    assert supplier
    with sessions.begin() as session:
        assert void_keys(session, supplier, ["1", "3"]) == 1
    assert _row(sessions, request_) is None
    assert len(_rows(sessions)) == len(neighbours)


def test_a_key_is_kept_for_a_day_from_its_claim(
    sessions: sessionmaker[Session], request_: KeyedRequest
) -> None:
    claim_id = _claim(sessions, request_)
    with sessions.begin() as session:
        keep_answer(session, request_, claim_id, _ANSWER)
    _change(sessions, claim_id, created_at=_ago(hours=KEPT_FOR_HOURS, seconds=-30))
    with sessions.begin() as session:
        assert remove_old_keys(session) == 0
        assert claim_key(session, request_, new_id()) == _ANSWER
    _change(sessions, claim_id, created_at=_ago(hours=24))
    other = replace(request_, sha256=b"of another request", import_supplier=None, external_account_number="9")
    again = _claim(sessions, other)
    row = _row(sessions, request_)
    assert row is not None
    assert (row.request_sha256, row.claim_id) == (b"of another request", again)
    assert (row.import_supplier, row.external_account_number) == (None, "9")
    assert (row.status, row.headers, row.body) == (None, None, None)
    assert row.leased_until - row.created_at == timedelta(seconds=LEASE_SECONDS)
    _change(sessions, again, created_at=_ago(hours=24))
    with sessions.begin() as session:
        assert remove_old_keys(session) == 1


def test_old_keys_are_removed_in_pieces(
    sessions: sessionmaker[Session], request_: KeyedRequest, neighbours: list[KeyedRequest]
) -> None:
    for request in (request_, *neighbours):
        _change(sessions, _claim(sessions, request), created_at=_ago(hours=25))
    with patch.object(keys, "PIECE", 3):
        for removed in (3, 1, 0):
            with sessions.begin() as session:
                assert remove_old_keys(session) == removed


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.WITHDRAWN])
def test_a_request_that_began_an_attempt_has_its_outcome_unless_it_was_withdrawn(
    supplier: SupplierClient, request_: KeyedRequest, outcome: Outcome | None
) -> None:
    sessions = supplier.Session
    claim_id = _claim(sessions, request_)
    other = replace(request_, key=str(uuid4()))
    _claim(sessions, other)
    _begin_attempt(supplier, claim_id, outcome)
    with sessions() as session, pytest.raises(IdempotencyRequestInProgressError):
        claim_key(session, request_, new_id())
    with sessions.begin() as session:
        release_key(session, request_, claim_id)
    with sessions.begin() as session:
        found = claim_key(session, request_, new_id())
    assert found == (None if outcome is Outcome.WITHDRAWN else EarlierAttempt(claim_id))
    row = _row(sessions, other)
    assert row is not None
    assert row.claim_id != claim_id


def _begin_attempt(supplier: SupplierClient, attempt_id: UUID, outcome: Outcome | None) -> None:
    """Begin an attempt with this id, and end it with this outcome."""
    (payload,) = supplier.accounts()
    supplier.stage(payload)
    condition = supplier.process_of(payload["external_account_number"])
    with begin(supplier.Session) as transaction, supplier.Session() as session:
        running = RunningAttempt(
            id=attempt_id,
            account_import_process_id=session.scalars(select(AccountImportProcess.id).where(condition)).one(),
            operations_team_id=session.scalars(select(OperationsTeam.id)).first() or 0,
            api_key_id=None,
            dry_run=False,
            request_id=None,
            address=None,
        )
        assert states.begin(transaction, running, durable=True)
        if outcome:
            states.complete(transaction, [EndedAttempt(running, outcome)], begun=True)
