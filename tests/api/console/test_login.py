"""Logging in, and how sessions end."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.requests.resources import resources
from migration_service.models import Operator, OperatorSession
from migration_service.services.access import operators, throttle
from support.audit import audited
from support.console_client import PASSWORD, ConsoleClient, make_operator, text_of


@pytest.fixture
def name(sessions: sessionmaker[Session]) -> str:
    """The name of an operator."""
    return make_operator(sessions, operators.OperatorRole.ADMINISTER)


def _is_in(client: ConsoleClient) -> bool:
    return client.get("/").status_code == 200


def test_a_login_leads_to_the_page_that_was_asked_for_and_is_in_the_audit(
    stranger: ConsoleClient, name: str, sessions: sessionmaker[Session]
) -> None:
    asked = stranger.get("/work/?x=1")
    assert asked.location == "/console/login/?next=/console/work/?x%3D1"
    answer = stranger.log_in(name, next="/console/work/?x=1")
    cookie = next(it for it in answer.headers.getlist("Set-Cookie") if it.startswith("migration_console="))
    assert set(cookie.split("; ")[1:]) == {"HttpOnly", "Path=/console", "SameSite=Lax"}
    assert answer.location == "/console/work/?x=1"
    (entry,) = audited(sessions, action="operator.logged_in", subject=name)
    assert (entry.actor_kind, entry.actor) == ("operator", name)
    assert stranger.get("/login/").location == "/console/"


def test_too_many_wrong_passwords_are_throttled_by_name_and_address_and_lock_nobody_else_out(
    console_app: Flask, stranger: ConsoleClient, name: str, sessions: sessionmaker[Session]
) -> None:
    for _ in range(throttle.MOST_FAILURES):
        assert stranger.log_in(name, "not the password").status_code == 401
    throttled = stranger.log_in(name)
    assert throttled.status_code == 429
    assert re.search(r"Try again in [1-9][0-9]* seconds\.", _said(throttled.text))
    refused = audited(sessions, address=stranger.client.environ_base["REMOTE_ADDR"], outcome="REFUSED")
    assert {entry.code for entry in refused} == {"failed_login", "throttled_login"}
    elsewhere = ConsoleClient(console_app)
    assert elsewhere.log_in(name).status_code == 303
    colleague = make_operator(sessions, operators.OperatorRole.READ)
    assert stranger.log_in(colleague).status_code == 303


def test_an_address_that_tries_many_names_is_throttled(stranger: ConsoleClient, name: str) -> None:
    with stranger.client.application.app_context():
        here = throttle.client_of(stranger.client.environ_base["REMOTE_ADDR"])
        for _ in range(throttle.MOST_FAILED_LOGINS):
            resources().throttle.count_failure(f"login {here}", throttle.MOST_FAILED_LOGINS)
    assert stranger.log_in(name).status_code == 429


def test_logging_out_ends_the_session_on_the_server(
    stranger: ConsoleClient, name: str, sessions: sessionmaker[Session]
) -> None:
    stranger.log_in(name)
    cookie = stranger.client.get_cookie("migration_console", path="/console")
    assert cookie is not None
    stranger.send("/logout/", page="/")
    assert not _is_in(stranger)
    stranger.client.set_cookie("migration_console", cookie.value, path="/console")
    assert not _is_in(stranger)
    assert audited(sessions, action="operator.logged_out", subject=name)


def _move(sessions: sessionmaker[Session], name: str, **moments: datetime) -> None:
    of_operator = select(Operator.id).where(Operator.name == name).scalar_subquery()
    with sessions.begin() as session:
        session.execute(
            update(OperatorSession).where(OperatorSession.operator_id == of_operator).values(**moments)
        )


def test_a_session_ends_when_nothing_is_done_and_polling_does_not_keep_it(
    stranger: ConsoleClient, name: str, sessions: sessionmaker[Session]
) -> None:
    stranger.log_in(name)
    almost = datetime.now(UTC) - timedelta(minutes=59)
    _move(sessions, name, last_seen_at=almost)
    assert stranger.get("/?part=1").status_code == 200
    with sessions() as session:
        of_operator = select(OperatorSession.last_seen_at).join(Operator).where(Operator.name == name)
        assert session.scalar(of_operator) == almost
        assert _is_in(stranger)
        session.expire_all()
        assert session.scalar(of_operator) != almost
    _move(sessions, name, last_seen_at=datetime.now(UTC) - timedelta(minutes=61))
    assert stranger.get("/?part=1").status_code == 401
    assert not _is_in(stranger)


def _said(page: str) -> str:
    return text_of(page[page.index("<main") : page.index("</main>")])


@pytest.mark.parametrize(
    ("name", "password", "status"),
    [
        ("", "p", 400),
        ("n", "", 400),
        ("n" * 129, "p", 400),
        ("n", "p" * 257, 400),
        ("n" * 128, "p" * 256, 401),
    ],
)
def test_a_login_needs_a_name_and_a_password_of_possible_length(
    stranger: ConsoleClient, name: str, password: str, status: int
) -> None:
    answer = stranger.log_in(name, password)
    assert answer.status_code == status
    sentence = {400: "Enter your name and your password.", 401: "The name or the password is not right."}[
        status
    ]
    assert sentence in _said(answer.text)
    assert f'value="{name}"' in answer.text


def test_what_was_shown_is_masked_for_the_next_operator_and_for_one_who_may_not_see_it_any_more(
    stranger: ConsoleClient, name: str, sessions: sessionmaker[Session], broken_batch: str
) -> None:
    page = f"/batches/{broken_batch}/lines/2/"
    stranger.log_in(name)
    csrf = stranger.tokens("/password/")["csrf_token"]
    stranger.send(f"{page}reveal/", page=page)
    assert "not a number" in stranger.see(page)
    other = make_operator(sessions, operators.OperatorRole.OPERATE)
    form = {"name": other, "password": PASSWORD, "csrf_token": csrf}
    assert stranger.post("/login/", form).location == "/console/"
    assert other in stranger.see("/")
    assert "not a number" not in stranger.see(page)
    stranger.send(f"{page}reveal/", page=page)
    assert "not a number" in stranger.see(page)
    with sessions.begin() as session:
        operators.set_operator_role(session, other, operators.OperatorRole.READ)
    assert "not a number" not in stranger.see(page)


def test_an_operator_changes_their_own_password_or_is_told_what_is_wrong(
    stranger: ConsoleClient, name: str
) -> None:
    stranger.log_in(name)
    new = "another password"
    for old, first, second, status, said in (
        (PASSWORD, new, "something else", 400, "The same again : The two passwords differ."),
        ("", new, new, 400, "Old password : This field is required."),
        ("p" * 257, new, new, 400, "Old password : Field cannot be longer than 256 characters."),
        (PASSWORD, "p" * 257, "p" * 257, 400, "New password : Field cannot be longer than 256 characters."),
        ("not the password", new, new, 401, "The old password is not right."),
        (PASSWORD, "short", "short", 400, "12"),
    ):
        answer = stranger.send("/password/", {"old": old, "new": first, "again": second})
        assert answer.status_code == status
        assert said in _said(answer.text)
    assert _is_in(stranger)
    done = stranger.send("/password/", {"old": PASSWORD, "new": new, "again": new})
    assert done.location == "/console/login/"
    assert not _is_in(stranger)
    assert stranger.log_in(name, new).status_code == 303
    for _time in range(throttle.MOST_FAILURES + 1):
        answer = stranger.send("/password/", {"old": "not the password", "new": new, "again": new})
    assert answer.status_code == 429
    assert re.search(
        r"Old password : Too many attempts have failed\. Try again in [1-9]\d* s", _said(answer.text)
    )
