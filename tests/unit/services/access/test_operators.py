"""Operators: roles, passwords, and logins that reveal nothing. Old sessions are removed."""

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

import pytest
from argon2 import PasswordHasher
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import QueuePool

from migration_service import errors
from migration_service.models import Operator, OperatorSession
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access import operators
from migration_service.services.access.operator_sessions import (
    begin_operator_session,
    remove_old_operator_sessions,
)
from migration_service.services.access.operators import (
    MOST_CHECKS,
    MOST_CHECKS_OF_ADDRESS,
    OperatorRole,
    admit_operator,
    authenticate_operator,
    create_operator,
    disable_operator,
    set_operator_password,
)
from support.audit import audited
from support.factories import Customer
from support.servers import wait_until

PASSWORD = "a long enough password"


@pytest.fixture
def name(sessions: sessionmaker[Session], customer: Customer) -> str:
    """An operator with a password, bound to the customer's organisation."""
    name = f"Anna {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_operator(session, name, OperatorRole.OPERATE, organisations=[customer.organisation])
        set_operator_password(session, name, PASSWORD)
    return name


def test_a_password_is_stored_as_argon2id_only(
    sessions: sessionmaker[Session],
    name: str,
    slow_hasher: Callable[[], PasswordHasher],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "password_hasher", slow_hasher)
    authenticate_operator(sessions, name, PASSWORD)  # which stores a hash that takes longer from now on
    authenticate_operator(sessions, name, PASSWORD)
    with sessions() as session:
        stored = session.scalars(select(Operator.password_hash).where(Operator.name == name)).one()
    entries = audited(sessions, subject=name)
    assert stored is not None
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert sorted(entry.action for entry in entries) == [
        *("operator.created", "operator.logged_in", "operator.logged_in", "operator.password_set")
    ]
    assert PASSWORD not in repr([entry.details for entry in entries])


@pytest.mark.parametrize("password", ["", PASSWORD + " ", PASSWORD.upper(), "x" * 100_000, "\0"])
def test_a_wrong_password_is_refused_like_an_unknown_name(
    sessions: sessionmaker[Session], name: str, password: str
) -> None:
    for who in (name, "Nobody", "\0", ""):
        with pytest.raises(errors.UnauthenticatedError, match=r"The name or the password is not right\."):
            authenticate_operator(sessions, who, password)


def test_a_login_that_cannot_succeed_takes_as_much_work_as_one_with_a_wrong_password(
    sessions: sessionmaker[Session], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[str] = []

    class Noting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002
            verified.append(str(hash))
            return super().verify(hash, password)

    hasher = Noting(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(operators, "password_hasher", lambda: hasher)
    with sessions.begin() as session:
        create_operator(session, f"{name} without password", OperatorRole.READ)
    for who in (name, f"{name} without password", "Nobody"):
        with pytest.raises(errors.UnauthenticatedError):
            authenticate_operator(sessions, who, "a wrong password")
    with sessions.begin() as session:
        disable_operator(session, name)
    with pytest.raises(errors.UnauthenticatedError):
        authenticate_operator(sessions, name, PASSWORD)
    assert [it.split("$")[1] for it in verified] == ["argon2id"] * 4


def test_many_logins_at_once_take_the_memory_of_one_and_few_wait(
    sessions: sessionmaker[Session], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are refused at once. One address cannot keep the others out."""
    checking, most = 0, 0
    may_end = threading.Event()

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002
            nonlocal checking, most
            checking += 1
            most = max(most, checking)
            may_end.wait()
            checking -= 1
            return super().verify(hash, password)

    def log_in(address: str) -> bool:
        with acting_as(Origin(kind=ActorKind.UNKNOWN, address=address)):
            try:
                authenticate_operator(sessions, name, PASSWORD)
            except errors.ThrottledError:
                return False
        return True

    hasher = Counting(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(operators, "password_hasher", lambda: hasher)
    monkeypatch.setattr(operators, "_LONGEST_WAIT", 600)
    with ThreadPoolExecutor(90) as threads:
        logins = [threads.submit(log_in, "192.0.2.1") for _ in range(30)]
        wait_until(lambda: sum(it.done() for it in logins) == 30 - MOST_CHECKS_OF_ADDRESS, "most are refused")
        logins += [threads.submit(log_in, f"192.0.2.{number}") for number in range(2, 62)]
        wait_until(lambda: sum(it.done() for it in logins) == 90 - MOST_CHECKS, "most are refused")
        may_end.set()
    assert sum(it.result() for it in logins) == MOST_CHECKS
    assert most == 1


def test_a_password_is_checked_without_a_connection_and_admits_nobody_if_it_changes_meanwhile(
    sessions: sessionmaker[Session], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = []
    pool = cast(QueuePool, sessions.kw["bind"].pool)

    class Changing(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002
            connections.append(pool.checkedout())
            with sessions.begin() as session:
                set_operator_password(session, name, f"{PASSWORD} of today")
            return super().verify(hash, password)

    hasher = Changing(time_cost=1, memory_cost=8, parallelism=1)
    with monkeypatch.context() as patched:
        patched.setattr(operators, "password_hasher", lambda: hasher)
        with pytest.raises(errors.UnauthenticatedError):
            authenticate_operator(sessions, name, PASSWORD)
    assert connections == [0]
    assert authenticate_operator(sessions, name, f"{PASSWORD} of today").name == name


def test_an_identity_provider_admits_operators_that_exist_and_are_not_disabled(
    sessions: sessionmaker[Session], name: str, customer: Customer
) -> None:
    with sessions.begin() as session:
        create_operator(session, f"{name} 2", OperatorRole.ADMINISTER)
        bound, free = (admit_operator(session, it) for it in (name, f"{name} 2"))
        assert (bound.name, bound.role) == (name, OperatorRole.OPERATE)
        assert bound.organisation_ids == frozenset([customer.organisation_id])
        assert (free.role, free.organisation_ids) == (OperatorRole.ADMINISTER, None)
        assert bound.id != free.id
        disable_operator(session, name)
        for nobody in (name, "Nobody", "\0", ""):
            with pytest.raises(errors.UnauthenticatedError, match="you are no operator here"):
                admit_operator(session, nobody)


def test_a_hash_of_weaker_parameters_is_replaced_at_the_next_login(
    sessions: sessionmaker[Session], name: str
) -> None:
    weak = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1, hash_len=16).hash(PASSWORD)
    this = update(Operator).where(Operator.name == name)
    with sessions.begin() as session:
        session.execute(this.values(password_hash=weak))
    stored = []
    for _ in range(2):
        authenticate_operator(sessions, name, PASSWORD)
        with sessions() as session:
            stored.append(session.scalars(select(Operator.password_hash).where(Operator.name == name)).one())
    assert weak != stored[0] == stored[1]


def test_a_role_includes_those_before_it() -> None:
    allowed = {(a.value, b.value) for a in OperatorRole for b in OperatorRole if a.includes(b)}
    assert allowed == {
        ("read", "read"),
        ("operate", "read"),
        ("operate", "operate"),
        ("administer", "read"),
        ("administer", "operate"),
        ("administer", "administer"),
    }


def test_sessions_that_began_thirty_days_ago_are_removed(sessions: sessionmaker[Session], name: str) -> None:
    with sessions.begin() as session:
        operator = admit_operator(session, name)
        for days in (30, 29.9):
            begin_operator_session(session, operator)
            this = update(OperatorSession).where(OperatorSession.created_at == func.now())
            session.execute(this.values(created_at=func.now() - timedelta(days=days)))
        assert remove_old_operator_sessions(session) == 1
        (left,) = session.scalars(select(OperatorSession.created_at))
        assert datetime.now(UTC) - left < timedelta(days=30)
