"""Operators: roles, passwords, logins that reveal nothing, and their sessions in the console."""

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
from migration_service.services.access import operator_sessions, operators
from migration_service.services.access.operators import (
    MOST_CHECKS,
    MOST_CHECKS_OF_ADDRESS,
    OperatorRole,
    admit_operator,
    authenticate_operator,
    create_operator,
    disable_operator,
    list_operators,
    set_operator_password,
    set_operator_role,
)
from support.audit import audited, list_entries
from support.factories import Customer, make_customer
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


def test_an_operator_is_bound_to_each_organisation_once_and_the_audit_says_so(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    other, name = make_customer(sessions), f"Anna {secrets.token_hex(4)}"
    names = [other.organisation, customer.organisation, other.organisation]
    with sessions.begin() as session:
        create_operator(session, name, OperatorRole.READ, organisations=names)
        create_operator(session, "Zoe", OperatorRole.ADMINISTER)
    with sessions.begin() as session:
        set_operator_role(session, name, OperatorRole.OPERATE)
        set_operator_password(session, name, PASSWORD)
        listed = [(it.name, it.role, bound) for it, bound in list_operators(session)]
        bound = sorted([customer.organisation, other.organisation])
        assert listed == [(name, "operate", bound), ("Zoe", "administer", [])]
        entries = list_entries(session, subject=name)
    ids = sorted([customer.organisation_id, other.organisation_id])
    assert [(it.action, it.subject_kind, it.details) for it in entries] == [
        ("operator.created", "operator", {"role": "read", "organisations": ids}),
        ("operator.role_set", "operator", {"role": "operate", "before": "read"}),
        ("operator.password_set", "operator", None),
    ]


def test_a_login_is_an_act_of_the_operator_and_its_moment_is_kept(
    sessions: sessionmaker[Session], name: str
) -> None:
    before = datetime.now(UTC)
    client = Origin(kind=ActorKind.SERVICE, address="192.0.2.7", request_id="the request")
    with acting_as(client):
        authenticate_operator(sessions, name, PASSWORD)
        with sessions.begin() as session:
            admit_operator(session, name)
    with sessions() as session:
        moment = session.scalars(select(Operator.last_login_at).where(Operator.name == name)).one()
    entries = audited(sessions, action="operator.logged_in")
    assert moment is not None
    assert before <= moment <= datetime.now(UTC)
    expected = ("operator", name, "operator", name, "192.0.2.7", "the request")
    assert [
        (it.actor_kind, it.actor, it.subject_kind, it.subject, it.address, it.request_id) for it in entries
    ] == [expected, expected]


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


TIMES = operator_sessions.SessionTimes(idle=timedelta(minutes=10), longest=timedelta(hours=2))


@pytest.fixture
def operator(sessions: sessionmaker[Session]) -> str:
    return _operator(sessions)


def _operator(sessions: sessionmaker[Session], *organisations: str) -> str:
    operator = f"Anna {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_operator(session, operator, OperatorRole.OPERATE, organisations=organisations)
    return operator


def _begin(sessions: sessionmaker[Session], operator: str) -> str:
    client = Origin(kind=ActorKind.SERVICE, address="192.0.2.7")
    with acting_as(client), sessions.begin() as session:
        return operator_sessions.begin_operator_session(session, admit_operator(session, operator).id)


def _find(
    sessions: sessionmaker[Session], token: str, *, is_used: bool = False
) -> operator_sessions.ActiveSession | None:
    with sessions.begin() as session:
        return operator_sessions.find_operator_session(session, token, TIMES, is_used=is_used)


def _active(sessions: sessionmaker[Session], token: str) -> operator_sessions.ActiveSession:
    active = _find(sessions, token)
    assert active is not None
    return active


def _age(sessions: sessionmaker[Session], active: operator_sessions.ActiveSession, **ages: timedelta) -> None:
    """Let what is in these columns be so long ago."""
    with sessions.begin() as session:
        this = update(OperatorSession).where(OperatorSession.id == active.id)
        session.execute(this.values({operator: func.now() - age for operator, age in ages.items()}))


def _row(sessions: sessionmaker[Session], active: operator_sessions.ActiveSession) -> OperatorSession:
    with sessions() as session:
        return session.get_one(OperatorSession, active.id)


def test_a_token_has_the_session_of_its_operator_with_the_role_of_this_moment(
    sessions: sessionmaker[Session], operator: str
) -> None:
    customer = make_customer(sessions)
    other = _operator(sessions, customer.organisation)
    token, token_of_other = _begin(sessions, operator), _begin(sessions, other)
    assert token != token_of_other
    with sessions.begin() as session:
        set_operator_role(session, operator, OperatorRole.READ)
    active, of_other = _active(sessions, token), _active(sessions, token_of_other)
    assert active.id != of_other.id
    assert (active.operator.name, active.operator.role) == (operator, OperatorRole.READ)
    assert active.operator.organisation_ids is None
    assert (of_other.operator.name, of_other.operator.role) == (other, OperatorRole.OPERATE)
    assert of_other.operator.organisation_ids == frozenset([customer.organisation_id])
    with sessions() as session:
        assert admit_operator(session, operator) == active.operator
    row = _row(sessions, active)
    assert (row.address, row.ended_at, row.end_reason) == ("192.0.2.7", None, None)
    assert token.encode() not in row.token_sha256
    assert _find(sessions, "another") is None


@pytest.mark.parametrize("column", ["created_at", "last_seen_at"])
def test_a_session_ends_after_its_longest_time_or_if_nothing_is_done(
    sessions: sessionmaker[Session], operator: str, column: str
) -> None:
    token = _begin(sessions, operator)
    active = _active(sessions, token)
    most = TIMES.longest if column == "created_at" else TIMES.idle
    _age(sessions, active, **{column: most - timedelta(minutes=1)})
    assert _find(sessions, token) == active
    _age(sessions, active, **{column: most + timedelta(seconds=1)})
    assert _find(sessions, token, is_used=True) is None


def test_the_use_of_a_session_is_noted_once_a_minute(sessions: sessionmaker[Session], operator: str) -> None:
    token = _begin(sessions, operator)
    active = _active(sessions, token)
    for age, is_used, is_noted in (
        (timedelta(minutes=5), False, False),
        (timedelta(seconds=30), True, False),
        (timedelta(seconds=61), True, True),
    ):
        _age(sessions, active, last_seen_at=age)
        before = _row(sessions, active).last_seen_at
        _find(sessions, token, is_used=is_used)
        assert (_row(sessions, active).last_seen_at > before) == is_noted


def test_a_disabled_operator_has_no_session(sessions: sessionmaker[Session], operator: str) -> None:
    token = _begin(sessions, operator)
    active = _active(sessions, token)
    with sessions.begin() as session:
        disable_operator(session, operator)
        this = update(OperatorSession).where(OperatorSession.id == active.id)
        session.execute(this.values(ended_at=None))
    assert _find(sessions, token) is None


def test_who_logs_out_ends_this_session_once_and_the_audit_says_so(
    sessions: sessionmaker[Session], operator: str
) -> None:
    token, other = _begin(sessions, operator), _begin(sessions, operator)
    active, kept = _active(sessions, token), _active(sessions, other)
    with sessions.begin() as session:
        operator_sessions.log_out_operator(session, active)
    ended = _row(sessions, active)
    assert ended.ended_at is not None
    assert ended.end_reason == "logged_out"
    assert _find(sessions, token) is None
    assert _find(sessions, other) == kept
    with sessions.begin() as session:
        operator_sessions.log_out_operator(session, active)
    assert _row(sessions, active).ended_at == ended.ended_at
    entries = audited(sessions, action="operator.logged_out")
    assert [(it.subject_kind, it.subject) for it in entries] == [("operator", operator)] * 2


def test_the_sessions_of_an_operator_are_listed_the_newest_first(
    sessions: sessionmaker[Session], operator: str
) -> None:
    first, ended, last = (_active(sessions, _begin(sessions, operator)) for _ in range(3))
    _begin(sessions, _operator(sessions))
    _age(sessions, first, created_at=timedelta(minutes=-1))
    with sessions.begin() as session:
        operator_sessions.log_out_operator(session, ended)
        listed = [it.id for it in operator_sessions.list_operator_sessions(session, operator)]
    assert listed == [first.id, last.id]


def test_sessions_that_began_thirty_days_ago_are_removed(
    sessions: sessionmaker[Session], operator: str
) -> None:
    old, new = (_active(sessions, _begin(sessions, operator)) for _ in range(2))
    _age(sessions, old, created_at=timedelta(days=30))
    _age(sessions, new, created_at=timedelta(days=29.9))
    with sessions.begin() as session:
        assert operator_sessions.remove_old_operator_sessions(session) == 1
        assert session.scalars(select(OperatorSession.id)).all() == [new.id]
