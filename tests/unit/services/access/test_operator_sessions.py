"""Sessions of operators in the console: which token has which session, how long, and what it sent."""

import secrets
from datetime import timedelta

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import OperatorSession
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.operator_sessions import (
    ActiveSession,
    SessionTimes,
    begin_operator_session,
    find_operator_session,
    list_operator_sessions,
    log_out_operator,
    remove_old_operator_sessions,
)
from migration_service.services.access.operators import (
    OperatorRole,
    admit_operator,
    create_operator,
    disable_operator,
    set_operator_role,
)
from support.audit import audited
from support.factories import make_customer

TIMES = SessionTimes(idle=timedelta(minutes=10), longest=timedelta(hours=2))


@pytest.fixture
def name(sessions: sessionmaker[Session]) -> str:
    return _operator(sessions)


def _operator(sessions: sessionmaker[Session], *organisations: str) -> str:
    name = f"Anna {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_operator(session, name, OperatorRole.OPERATE, organisations=organisations)
    return name


def _begin(sessions: sessionmaker[Session], name: str) -> str:
    client = Origin(kind=ActorKind.SERVICE, address="192.0.2.7")
    with acting_as(client), sessions.begin() as session:
        return begin_operator_session(session, admit_operator(session, name).id)


def _find(sessions: sessionmaker[Session], token: str, *, is_used: bool = False) -> ActiveSession | None:
    with sessions.begin() as session:
        return find_operator_session(session, token, TIMES, is_used=is_used)


def _active(sessions: sessionmaker[Session], token: str) -> ActiveSession:
    active = _find(sessions, token)
    assert active is not None
    return active


def _age(sessions: sessionmaker[Session], active: ActiveSession, **ages: timedelta) -> None:
    """Let what is in these columns be so long ago."""
    with sessions.begin() as session:
        this = update(OperatorSession).where(OperatorSession.id == active.id)
        session.execute(this.values({name: func.now() - age for name, age in ages.items()}))


def _row(sessions: sessionmaker[Session], active: ActiveSession) -> OperatorSession:
    with sessions() as session:
        return session.get_one(OperatorSession, active.id)


def test_a_token_has_the_session_of_its_operator_with_the_role_of_this_moment(
    sessions: sessionmaker[Session], name: str
) -> None:
    customer = make_customer(sessions)
    other = _operator(sessions, customer.organisation)
    token, token_of_other = _begin(sessions, name), _begin(sessions, other)
    assert token != token_of_other
    with sessions.begin() as session:
        set_operator_role(session, name, OperatorRole.READ)
    active, of_other = _active(sessions, token), _active(sessions, token_of_other)
    assert active.id != of_other.id
    assert (active.operator.name, active.operator.role) == (name, OperatorRole.READ)
    assert active.operator.organisation_ids is None
    assert (of_other.operator.name, of_other.operator.role) == (other, OperatorRole.OPERATE)
    assert of_other.operator.organisation_ids == frozenset([customer.organisation_id])
    with sessions() as session:
        assert admit_operator(session, name) == active.operator
    row = _row(sessions, active)
    assert (row.address, row.ended_at, row.end_reason) == ("192.0.2.7", None, None)
    assert token.encode() not in row.token_sha256
    assert _find(sessions, "another") is None


@pytest.mark.parametrize("column", ["created_at", "last_seen_at"])
def test_a_session_ends_after_its_longest_time_or_if_nothing_is_done(
    sessions: sessionmaker[Session], name: str, column: str
) -> None:
    token = _begin(sessions, name)
    active = _active(sessions, token)
    most = TIMES.longest if column == "created_at" else TIMES.idle
    _age(sessions, active, **{column: most - timedelta(minutes=1)})
    assert _find(sessions, token) == active
    _age(sessions, active, **{column: most + timedelta(seconds=1)})
    assert _find(sessions, token, is_used=True) is None


def test_the_use_of_a_session_is_noted_once_a_minute(sessions: sessionmaker[Session], name: str) -> None:
    token = _begin(sessions, name)
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


def test_a_disabled_operator_has_no_session(sessions: sessionmaker[Session], name: str) -> None:
    token = _begin(sessions, name)
    active = _active(sessions, token)
    with sessions.begin() as session:
        disable_operator(session, name)
        this = update(OperatorSession).where(OperatorSession.id == active.id)
        session.execute(this.values(ended_at=None))
    assert _find(sessions, token) is None


def test_who_logs_out_ends_this_session_once_and_the_audit_says_so(
    sessions: sessionmaker[Session], name: str
) -> None:
    token, other = _begin(sessions, name), _begin(sessions, name)
    active, kept = _active(sessions, token), _active(sessions, other)
    with sessions.begin() as session:
        log_out_operator(session, active)
    ended = _row(sessions, active)
    assert ended.ended_at is not None
    assert ended.end_reason == "logged_out"
    assert _find(sessions, token) is None
    assert _find(sessions, other) == kept
    with sessions.begin() as session:
        log_out_operator(session, active)
    assert _row(sessions, active).ended_at == ended.ended_at
    entries = audited(sessions, action="operator.logged_out")
    assert [(it.subject_kind, it.subject) for it in entries] == [("operator", name)] * 2


def test_the_sessions_of_an_operator_are_listed_the_newest_first(
    sessions: sessionmaker[Session], name: str
) -> None:
    first, ended, last = (_active(sessions, _begin(sessions, name)) for _ in range(3))
    _begin(sessions, _operator(sessions))
    _age(sessions, first, created_at=timedelta(minutes=-1))
    with sessions.begin() as session:
        log_out_operator(session, ended)
        listed = [it.id for it in list_operator_sessions(session, name)]
    assert listed == [first.id, last.id]


def test_sessions_that_began_thirty_days_ago_are_removed(sessions: sessionmaker[Session], name: str) -> None:
    old, new = (_active(sessions, _begin(sessions, name)) for _ in range(2))
    _age(sessions, old, created_at=timedelta(days=30))
    _age(sessions, new, created_at=timedelta(days=29.9))
    with sessions.begin() as session:
        assert remove_old_operator_sessions(session) == 1
        assert session.scalars(select(OperatorSession.id)).all() == [new.id]
