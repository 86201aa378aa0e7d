"""Refresh tokens rotate, and a session ends when one of them is reused."""

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import jwt
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.config import Settings
from migration_service.db.sql import autocommit
from migration_service.models import TokenSession
from migration_service.services.access import api_keys
from migration_service.services.access.sessions import (
    end_session,
    list_sessions,
    remove_old_sessions,
)
from migration_service.services.access.tokens import (
    Tokens,
    authenticate_token,
    obtain_tokens,
    refresh_tokens,
    sign,
)
from support.audit import audited
from support.factories import Customer, make_customer
from support.interleavings import COMMIT, Script, Step, explore


@pytest.fixture
def first(sessions: sessionmaker[Session], migrated: Settings, customer: Customer) -> Tokens:
    with sessions.begin() as session:
        return obtain_tokens(session, migrated, customer.api_key)


def _refresh(sessions: sessionmaker[Session], settings: Settings, token: str) -> Tokens:
    with sessions.begin() as session:
        return refresh_tokens(session, settings, token)


def test_processes_that_refresh_simultaneously_get_the_same_successor(
    sessions: sessionmaker[Session], migrated: Settings, first: Tokens
) -> None:
    found: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: found.append(_refresh(sessions, migrated, first.refresh_token).refresh_token)
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_token_is_that_of_a_session_of_its_key(
    sessions: sessionmaker[Session], migrated: Settings, first: Tokens
) -> None:
    no_sessions: list[Any] = ["nothing", 7, None, [], str(UUID(int=0))]
    changes = [{"sub": make_customer(sessions).prefix}, *({"sid": it} for it in no_sessions)]
    for changed in changes:
        forged = sign(migrated, first.payload | changed)
        with autocommit(sessions) as statements, pytest.raises(errors.UnauthenticatedError):
            authenticate_token(statements, migrated, forged)


def test_tokens_remain_valid_when_the_signing_key_is_replaced(
    sessions: sessionmaker[Session], migrated: Settings, first: Tokens
) -> None:
    new, old = "n" * 40, migrated.secret_key
    prepared = replace(migrated, accepted_secret_keys=new)
    switched = replace(migrated, secret_key=new, accepted_secret_keys=f" {old} ,")
    done = replace(migrated, secret_key=new)
    with autocommit(sessions) as statements:
        authenticate_token(statements, switched, first.token)
    second = _refresh(sessions, switched, first.refresh_token)
    assert jwt.get_unverified_header(second.token)["kid"] != jwt.get_unverified_header(first.token)["kid"]
    with autocommit(sessions) as statements:
        for settings in (prepared, switched, done):
            authenticate_token(statements, settings, second.token)
        for settings in (done, replace(migrated, secret_key="x" * 40)):
            with pytest.raises(errors.UnauthenticatedError):
                authenticate_token(statements, settings, first.token)
        with pytest.raises(errors.UnauthenticatedError):
            authenticate_token(statements, migrated, second.token)


def test_of_two_that_end_a_session_simultaneously_one_does(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer
) -> None:
    def script() -> Script:
        with sessions.begin() as session:
            session_id = obtain_tokens(session, migrated, customer.api_key).payload["sid"]

        def end(name: str) -> list[Step]:
            return [("end", lambda session: end_session(session, session_id, name)), COMMIT]

        yield {name: end(name) for name in ("one", "other")}
        with sessions() as session:
            reason = session.get_one(TokenSession, UUID(session_id)).end_reason
        assert [it.details for it in audited(sessions, subject=session_id)] == [
            {"api_key": customer.prefix, "reason": "one"}
        ]
        assert reason == "one"

    assert explore(sessions, script, alike=("one", "other")) == 2


def test_sessions_that_are_over_do_not_count(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer
) -> None:
    settings = replace(migrated, max_sessions=2)
    with sessions.begin() as session:
        first = obtain_tokens(session, settings, customer.api_key).payload["sid"]
        end_session(session, obtain_tokens(session, settings, customer.api_key).payload["sid"])
        expired = obtain_tokens(session, settings, customer.api_key).payload["sid"]
        this = update(TokenSession).where(TokenSession.id == expired)
        session.execute(this.values(expires_at=func.now()))
        last = obtain_tokens(session, settings, customer.api_key).payload["sid"]
        key = api_keys.get_api_key(session, customer.prefix)
        assert [str(it.id) for it in list_sessions(session, key)] == [last, first]


def test_a_refresh_token_is_that_of_a_session_of_its_key(
    sessions: sessionmaker[Session], migrated: Settings, first: Tokens
) -> None:
    thief = make_customer(sessions)
    claims = jwt.decode(first.refresh_token, options={"verify_signature": False})
    for changed in ({"sub": thief.prefix}, {"jti": str(UUID(int=0))}):
        with pytest.raises(errors.UnauthenticatedError, match="not known"):
            _refresh(sessions, migrated, sign(migrated, claims | changed))
    for wrong in ("nothing", None):
        with pytest.raises(errors.UnauthenticatedError):
            _refresh(sessions, migrated, sign(migrated, claims | {"jti": wrong}))


def test_no_more_old_sessions_are_removed_at_once_than_the_limit(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer
) -> None:
    with sessions.begin() as session:
        obtained = [obtain_tokens(session, migrated, customer.api_key).payload["sid"] for _ in range(4)]
        for sid, days in zip(obtained, (29.9, 30, 30, 40), strict=True):
            expired = {"expires_at": func.now() - timedelta(days=days)}
            session.execute(update(TokenSession).where(TokenSession.id == sid).values(expired))
    with sessions() as other, sessions.begin() as session:
        other.execute(select(TokenSession.id).where(TokenSession.id == obtained[1]).with_for_update())
        session.execute(text("SET LOCAL lock_timeout = '5s'"))
        assert remove_old_sessions(session, limit=1) == 1
    for removed in (2, 0):
        with sessions.begin() as session:
            assert remove_old_sessions(session, limit=2) == removed
    with sessions() as session:
        assert [str(it) for it in session.scalars(select(TokenSession.id))] == obtained[:1]


def test_beyond_the_most_sessions_of_a_key_its_oldest_ones_end(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer
) -> None:
    settings, other = replace(migrated, max_sessions=20), make_customer(sessions)
    with sessions.begin() as session:
        theirs = obtain_tokens(session, settings, other.api_key)
        obtained = [obtain_tokens(session, settings, customer.api_key) for _ in range(22)]
        key = api_keys.get_api_key(session, customer.api_key)
        kept = {str(it.id) for it in list_sessions(session, key)}
    assert kept == {it.payload["sid"] for it in obtained[2:]}
    for tokens in obtained[:2]:
        with pytest.raises(errors.TooManySessionsError):
            _refresh(sessions, settings, tokens.refresh_token)
        with autocommit(sessions) as statements, pytest.raises(errors.UnauthenticatedError):
            authenticate_token(statements, settings, tokens.token)
    for tokens in (*obtained[2:], theirs):
        _refresh(sessions, settings, tokens.refresh_token)
    *_, ended = audited(sessions, subject=key.prefix)
    assert ended.details == {"sessions": 2, "reason": "too_many_sessions"}
