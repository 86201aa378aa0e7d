"""Idempotency keys in the database: which answer each has, for how long, and in every order."""

import secrets
from dataclasses import dataclass, replace
from datetime import timedelta
from unittest.mock import patch
from uuid import uuid4

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction, begin
from migration_service.errors import IdempotencyRequestInProgressError
from migration_service.models import IdempotencyKey, OperationsTeam
from migration_service.services.idempotency import keys
from migration_service.services.idempotency.keys import (
    KEPT_FOR_HOURS,
    EarlierAttempt,
    KeptAnswer,
    KeyedRequest,
    find_answer,
    keep_answer,
    remove_old_keys,
    void_keys,
)
from migration_service.services.imports import states
from migration_service.services.imports.states import EndedAttempt
from migration_service.states import Outcome
from support.factories import make_customer
from support.interleavings import COMMIT, Script, explore
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


def _keep(sessions: sessionmaker[Session], request: KeyedRequest) -> None:
    with sessions.begin() as session:
        keep_answer(OpenTransaction.of(session), request, _ANSWER)


def _find(sessions: sessionmaker[Session], request: KeyedRequest) -> KeptAnswer | EarlierAttempt | None:
    with sessions() as session:
        return find_answer(OpenTransaction.of(session), request)


def _age(sessions: sessionmaker[Session], request: KeyedRequest, **age: int) -> None:
    row = update(IdempotencyKey).where(
        IdempotencyKey.organisation_id == request.organisation_id,
        IdempotencyKey.endpoint == request.endpoint,
        IdempotencyKey.key == request.key,
    )
    with sessions.begin() as session:
        session.execute(row.values(created_at=func.now() - timedelta(**age)))


def test_an_answer_is_found_under_its_key_and_no_other(
    sessions: sessionmaker[Session], request_: KeyedRequest, neighbours: list[KeyedRequest]
) -> None:
    assert _find(sessions, request_) is None
    _keep(sessions, request_)
    assert _find(sessions, request_) == _ANSWER
    assert [_find(sessions, neighbour) for neighbour in neighbours] == [None] * len(neighbours)


def test_an_answer_is_kept_once(sessions: sessionmaker[Session], request_: KeyedRequest) -> None:
    _keep(sessions, request_)
    with sessions() as session, pytest.raises(IdempotencyRequestInProgressError):
        keep_answer(OpenTransaction.of(session), request_, replace(_ANSWER, body=b"another"))


def test_whoever_waits_too_long_for_the_effect_of_the_same_request_is_told_to_retry(
    sessions: sessionmaker[Session], request_: KeyedRequest
) -> None:
    with sessions() as running, sessions() as session:
        keep_answer(OpenTransaction.of(running), request_, _ANSWER)
        session.execute(text("SET LOCAL lock_timeout = '10ms'"))
        with pytest.raises(IdempotencyRequestInProgressError):
            keep_answer(OpenTransaction.of(session), request_, _ANSWER)


def test_the_keys_of_the_named_accounts_of_one_supplier_are_voided(
    sessions: sessionmaker[Session], request_: KeyedRequest, neighbours: list[KeyedRequest]
) -> None:
    for request in (request_, *neighbours):
        _keep(sessions, request)
    supplier = request_.import_supplier
    assert supplier
    with sessions.begin() as session:
        assert void_keys(session, supplier, ["1", "3"]) == 1
    assert _find(sessions, request_) is None
    assert [_find(sessions, neighbour) for neighbour in neighbours] == [_ANSWER] * len(neighbours)


def test_an_answer_is_kept_for_a_day(sessions: sessionmaker[Session], request_: KeyedRequest) -> None:
    _keep(sessions, request_)
    _age(sessions, request_, hours=KEPT_FOR_HOURS, seconds=-30)
    with sessions.begin() as session:
        assert remove_old_keys(session) == 0
    assert _find(sessions, request_) == _ANSWER
    _age(sessions, request_, hours=24)
    other = replace(request_, sha256=b"of another request", import_supplier=None, external_account_number="9")
    assert _find(sessions, other) is None
    _keep(sessions, other)
    assert _find(sessions, other) == _ANSWER
    supplier = request_.import_supplier
    assert supplier
    with sessions.begin() as session:
        assert void_keys(session, supplier, ["1", "9"]) == 0  # it names no account any more
    _age(sessions, other, hours=24)
    with sessions.begin() as session:
        assert remove_old_keys(session) == 1


def test_old_keys_are_removed_in_pieces(
    sessions: sessionmaker[Session], request_: KeyedRequest, neighbours: list[KeyedRequest]
) -> None:
    for request in (request_, *neighbours):
        _keep(sessions, request)
        _age(sessions, request, hours=25)
    with patch.object(keys, "PIECE", 3):
        for removed in (3, 1, 0):
            with sessions.begin() as session:
                assert remove_old_keys(session) == removed


def test_the_oldest_answers_of_an_organisation_are_removed_beyond_its_bytes(
    sessions: sessionmaker[Session], request_: KeyedRequest, neighbours: list[KeyedRequest]
) -> None:
    large = KeptAnswer(201, {}, secrets.token_bytes(10_000))
    mine = [replace(request_, key=str(number)) for number in range(4)]
    for request in (neighbours[0], *mine):
        with sessions.begin() as session:
            keep_answer(OpenTransaction.of(session), request, large)
    with patch.object(keys, "MOST_BYTES", 25_000), sessions.begin() as session:
        assert remove_old_keys(session) >= 2
    left = [_find(sessions, request) for request in (neighbours[0], *mine)]
    assert left == [large, None, None, large, large]


@pytest.mark.parametrize("outcome", [None, Outcome.FAILED, Outcome.WITHDRAWN])
def test_an_attempt_is_the_answer_to_its_request_unless_it_was_withdrawn(
    supplier: SupplierClient, request_: KeyedRequest, outcome: Outcome | None
) -> None:
    sessions, attempt_id = supplier.Session, new_id()
    with sessions.begin() as session:
        keep_answer(OpenTransaction.of(session), request_, EarlierAttempt(attempt_id))
    (number,) = supplier.stage_new()
    running = supplier.attempt_of(number, attempt_id)
    with begin(supplier.Session) as transaction:
        assert states.start(transaction, running, durable=True)
        if outcome:
            states.complete(transaction, [EndedAttempt(running, outcome)], started=True)
    if outcome is Outcome.WITHDRAWN:
        assert _find(sessions, request_) is None
        _keep(sessions, request_)
    else:
        assert _find(sessions, request_) == EarlierAttempt(attempt_id)
        with pytest.raises(IdempotencyRequestInProgressError):
            _keep(sessions, request_)


@dataclass(slots=True)
class Sender:
    """One of the requests. Its effect is a team of its name."""

    request: KeyedRequest
    name: str
    earlier: KeptAnswer | EarlierAttempt | None = None

    def find(self, session: Session) -> KeptAnswer | EarlierAttempt | None:
        self.earlier = find_answer(OpenTransaction.of(session), self.request)
        session.commit()
        return self.earlier

    def act(self, session: Session) -> None:
        if self.earlier is None:
            session.add(OperationsTeam(name=self.name))
            session.flush()
            keep_answer(OpenTransaction.of(session), self.request, KeptAnswer(201, {}, self.name.encode()))


def test_the_effect_happens_once_and_every_repetition_finds_its_answer(
    sessions: sessionmaker[Session],
) -> None:
    customer = make_customer(sessions)

    def script() -> Script:
        request = KeyedRequest(customer.organisation_id, "/of/this/test", str(uuid4()), b"the same")
        one, other = Sender(request, f"one {uuid4()}"), Sender(request, f"other {uuid4()}")
        run = yield {
            name: [("find", sender.find), ("act", sender.act), COMMIT]
            for name, sender in {"one": one, "other": other}.items()
        }
        for name, error in run.errors.items():
            assert isinstance(error, IdempotencyRequestInProgressError), f"{name}: {error}"
        with sessions() as session:
            made = select(OperationsTeam.name).where(OperationsTeam.name.in_([one.name, other.name]))
            (effect,) = session.scalars(made)
            assert find_answer(OpenTransaction.of(session), request) == KeptAnswer(201, {}, effect.encode())
        # Whoever had no effect found the answer, or was told to look again.
        for name, sender in {"one": one, "other": other}.items():
            assert (sender.name == effect) != bool(sender.earlier or f"{name}.act" in run.errors)

    assert explore(sessions, script, may_raise=True) > 9
