"""Refresh tokens rotate, and a session ends when one of them is reused."""

import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import jwt
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.config import Settings
from migration_service.db.sql import autocommit
from migration_service.models import RefreshToken, TokenSession
from migration_service.services.access import api_keys
from migration_service.services.access.refusals import RefusalLog
from migration_service.services.access.sessions import (
    end_session,
    list_sessions,
    list_sessions_of_organisation,
    remove_old_sessions,
    report_session,
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


def _let_a_minute_pass(sessions: sessionmaker[Session], tokens: Tokens) -> None:
    of_session = RefreshToken.token_session_id == tokens.payload["sid"]
    earlier = {"used_at": RefreshToken.used_at - timedelta(seconds=61)}
    with sessions.begin() as session:
        session.execute(update(RefreshToken).where(of_session).values(earlier))


def test_an_exchanged_token_returns_the_same_successor_for_a_minute(
    sessions: sessionmaker[Session], migrated: Settings, first: Tokens
) -> None:
    second = _refresh(sessions, migrated, first.refresh_token)
    third = _refresh(sessions, migrated, second.refresh_token)
    assert len({first.refresh_token, second.refresh_token, third.refresh_token}) == 3
    assert _refresh(sessions, migrated, first.refresh_token).refresh_token == second.refresh_token
    assert third.refresh_expires_at == first.refresh_expires_at


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


def test_a_token_that_is_reused_later_ends_only_its_session(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer, first: Tokens
) -> None:
    with sessions.begin() as session:
        other = obtain_tokens(session, migrated, customer.api_key)
    second = _refresh(sessions, migrated, first.refresh_token)
    _let_a_minute_pass(sessions, first)
    with pytest.raises(errors.RefreshTokenReusedError) as caught:
        _refresh(sessions, migrated, first.refresh_token)
    RefusalLog(sessions).note_refused_login(caught.value, None)
    with autocommit(sessions) as statements:
        for token in (first.token, second.token):
            with pytest.raises(errors.UnauthenticatedError, match="session of the token was ended"):
                authenticate_token(statements, migrated, token)
        assert authenticate_token(statements, migrated, other.token).prefix == customer.prefix
    with pytest.raises(errors.UnauthenticatedError, match="session of the token was ended"):
        _refresh(sessions, migrated, second.refresh_token)
    (entry,) = audited(sessions, subject=first.payload["sid"])
    assert (entry.action, entry.organisation_id) == ("session.ended", customer.organisation_id)
    assert entry.details == {"api_key": customer.prefix, "reason": "refresh_token_reused"}


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


def test_a_session_that_is_ended_again_keeps_its_end_and_another_organisation_cannot_end_it(
    sessions: sessionmaker[Session], customer: Customer, first: Tokens
) -> None:
    other, session_id = make_customer(sessions), first.payload["sid"]
    with sessions.begin() as session:
        with pytest.raises(errors.TokenSessionNotFoundError, match=session_id):
            end_session(session, session_id, organisation_id=other.organisation_id)
        with pytest.raises(errors.TokenSessionNotFoundError):
            end_session(session, str(UUID(int=0)))
        owner = end_session(session, session_id, "why", organisation_id=customer.organisation_id)
        ended = (owner.ended_at, "why")
        assert ended[0] is not None
    with sessions.begin() as session:
        again = end_session(session, session_id, "another reason")
        assert (again.ended_at, again.end_reason) == ended
    entries = audited(sessions, subject=session_id)
    assert [(it.subject_kind, it.organisation_id, it.details) for it in entries] == [
        ("session", customer.organisation_id, {"api_key": customer.prefix, "reason": "why"})
    ]


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


def test_an_organisation_sees_the_sessions_of_its_keys_that_hold_the_newest_first(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer, first: Tokens
) -> None:
    with sessions.begin() as session:
        second_key = api_keys.issue_api_key(
            session, organisation_name=customer.organisation, name="The second"
        )
        revoked_key = api_keys.issue_api_key(session, organisation_name=customer.organisation)
        obtain_tokens(session, migrated, make_customer(sessions).api_key)
        second, ended, expired, _, last = (
            obtain_tokens(session, migrated, key).payload["sid"]
            for key in (second_key, second_key, second_key, revoked_key, customer.api_key)
        )
        end_session(session, ended)
        past = update(TokenSession).where(TokenSession.id == expired).values(expires_at=func.now())
        session.execute(past)
        api_keys.revoke_api_key(session, revoked_key)
    with sessions() as session:
        page = partial(list_sessions_of_organisation, session, customer.organisation_id)
        found = page(before=None, limit=10)
        assert [str(it["session_id"]) for it in found] == [last, second, first.payload["sid"]]
        assert page(before=None, limit=2) == found[:2]
        assert page(before=found[0]["session_id"], limit=2) == found[1:]
        rows = [session.get_one(TokenSession, it["session_id"]) for it in found]
        assert found == [report_session(session, it) for it in rows]
    assert [(it["api_key"], it["api_key_name"]) for it in found] == [
        (customer.prefix, None),
        (api_keys.find_prefix(second_key), "The second"),
        (customer.prefix, None),
    ]
    for report, row in zip(found, rows, strict=True):
        assert (report["address"], report["created_at"]) == (row.address, row.created_at)
        assert (report["expires_at"], report["ended_at"]) == (row.expires_at, None)


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
    settings, other = replace(migrated, max_sessions=3), make_customer(sessions)
    with sessions.begin() as session:
        theirs = obtain_tokens(session, settings, other.api_key)
        obtained = [obtain_tokens(session, settings, customer.api_key) for _ in range(5)]
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
    assert ended.details == {"sessions": 1, "reason": "too_many_sessions"}
