"""The sessions of an organisation over HTTP: listing them, and ending a single one."""

from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import TokenSession
from migration_service.services.access.api_keys import revoke_api_key
from support.audit import audited
from support.factories import Customer, make_customer, obtain

SESSIONS = "/v1/data-import/sessions/"


def _log_in(client: FlaskClient, customer: Customer) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers of a new session, and its tokens."""
    tokens = obtain(client, APIKey=customer.api_key)
    return {"Authorization": f"Token {tokens['token']}"}, tokens


def _list(client: FlaskClient, headers: dict[str, str], path: str = SESSIONS) -> Any:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_a_session_is_listed_with_its_key_and_ended_with_all_its_tokens(
    client: FlaskClient, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    headers, _ = _log_in(client, customer)
    copied, tokens = _log_in(client, customer)
    session_id = tokens["payload"]["sid"]
    listed = _list(client, headers)
    assert listed[0]["session_id"] == session_id
    assert len(listed) == 2
    assert {it["api_key"] for it in listed} == {customer.prefix}
    ended = client.post(f"{SESSIONS}{session_id}/end/", headers=headers)
    assert ended.status_code == 200, ended.text
    again = client.post(f"{SESSIONS}{session_id}/end/", headers=headers)
    assert again.json == ended.json
    assert client.get(SESSIONS, headers=copied).status_code == 401
    assert obtain(client, refreshToken=tokens["refreshToken"])["errorCode"] == "authentication_failed"
    assert len(_list(client, headers)) == 1
    with sessions() as session:
        owner = session.get_one(TokenSession, session_id)
        assert owner.end_reason == "ended_by_organisation"
    (entry,) = audited(sessions, subject=session_id)
    assert (entry.action, entry.actor_kind, entry.actor) == ("session.ended", "api_key", customer.prefix)


def test_sessions_come_in_pages_and_those_of_a_revoked_key_are_over(
    app: Flask, client: FlaskClient, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    (headers, _), *_ = [_log_in(client, customer) for _ in range(3)]
    first = client.get(f"{SESSIONS}?limit=2", headers=headers)
    assert first.json and len(first.json) == 2
    following = first.headers["Link"].partition("<")[2].partition(">")[0]
    (last,) = _list(client, headers, following)
    assert "Link" not in client.get(f"{SESSIONS}?limit=3", headers=headers).headers
    assert last["session_id"] not in {it["session_id"] for it in first.json}
    other = make_customer(sessions)
    theirs, _ = _log_in(client, other)
    with sessions.begin() as session:
        revoke_api_key(session, other.api_key)
    assert client.get(SESSIONS, headers=theirs).status_code == 401
    assert len(_list(client, headers)) == 3
