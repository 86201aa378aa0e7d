"""Logging in, and how sessions end."""

import re

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.requests.resources import resources
from migration_service.services.access import operators, throttle
from support.audit import audited
from support.console_client import PASSWORD, ConsoleClient, main_of, make_operator


@pytest.fixture
def name(sessions: sessionmaker[Session]) -> str:
    """The name of an operator."""
    return make_operator(sessions, operators.OperatorRole.ADMINISTER)


def _is_in(client: ConsoleClient) -> bool:
    return client.get("/").status_code == 200


def test_the_cookie_of_a_session_is_for_the_console_alone(stranger: ConsoleClient, name: str) -> None:
    answer = stranger.log_in(name)
    cookie = next(it for it in answer.headers.getlist("Set-Cookie") if it.startswith("migration_console="))
    assert set(cookie.split("; ")[1:]) == {"HttpOnly", "Path=/console", "SameSite=Lax"}


def test_too_many_wrong_passwords_are_throttled_by_name_and_address_and_lock_nobody_else_out(
    console_app: Flask, stranger: ConsoleClient, name: str, sessions: sessionmaker[Session]
) -> None:
    for _ in range(throttle.MOST_FAILURES):
        assert stranger.log_in(name, "not the password").status_code == 401
    throttled = stranger.log_in(name)
    assert throttled.status_code == 429
    assert re.search(r"Try again in [1-9][0-9]* seconds\.", main_of(throttled.text))
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


def test_wrong_passwords_of_whoever_is_logged_in_are_throttled(stranger: ConsoleClient, name: str) -> None:
    stranger.log_in(name)
    new = "another password"
    for _time in range(throttle.MOST_FAILURES + 1):
        answer = stranger.send("/password/", {"old": "not the password", "new": new, "again": new})
    assert answer.status_code == 429
    assert re.search(
        r"Old password : Too many attempts have failed\. Try again in [1-9]\d* s", main_of(answer.text)
    )
