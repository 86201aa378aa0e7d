"""Logging in with OpenID Connect, with a provider of the tests' own."""

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from oidc_provider_mock import User, run_server_in_thread
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import openid
from migration_service.config import Settings
from migration_service.services.access.operators import OperatorRole, create_operator, disable_operator
from support.audit import audited
from support.console_client import ConsoleClient
from support.factories import MakeClient

# The provider uses what its own library will remove.
pytestmark = pytest.mark.filterwarnings("ignore:get_jwt_config:DeprecationWarning")


def _person(name: str, *, verified: bool = True) -> User:
    claims = {"email": f"{name}@energy.example", "email_verified": verified}
    return User(sub=name, claims=claims)


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The address of an identity provider that knows four people."""
    number = User(sub="number", claims={"email": 7, "email_verified": True})
    people = [_person("anna"), _person("nobody"), _person("mallory", verified=False), number]
    with run_server_in_thread(user_claims=people) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
def with_provider(migrated: Settings, provider: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of a console that asks the provider."""
    monkeypatch.setenv("NO_PROXY", "localhost")
    return replace(
        migrated,
        console=True,
        openid_issuer=provider,
        openid_client_id="console",
        openid_client_secret="s" * 20,
    )


@pytest.fixture
def client(
    with_provider: Settings, make_client: MakeClient, sessions: sessionmaker[Session]
) -> ConsoleClient:
    """Somebody who has not logged in, at this console."""
    with sessions.begin() as session:
        create_operator(session, "anna@energy.example", OperatorRole.OPERATE)
        create_operator(session, "mallory@energy.example", OperatorRole.ADMINISTER)
    return ConsoleClient(make_client(with_provider).application)


def _come_back(client: ConsoleClient, name: str) -> str:
    """Log in at the provider as this person. Return where the console leads afterwards."""
    assert "/console/login/openid/" in client.see("/login/")
    at_provider = client.get("/login/openid/?next=/console/work/").location
    asked = dict(parse_qsl(urlsplit(at_provider).query))
    assert (asked["client_id"], asked["code_challenge_method"]) == ("console", "S256")
    assert asked["redirect_uri"] == "http://localhost/console/login/openid/return/"
    proved = requests.post(at_provider, data={"sub": name}, allow_redirects=False, timeout=10)
    back = urlsplit(proved.headers["Location"])
    assert back.path == "/console/login/openid/return/"
    answer = client.client.get(f"{back.path}?{back.query}")
    assert answer.status_code == 303
    return str(answer.location)


def test_an_operator_logs_in_with_the_provider(client: ConsoleClient) -> None:
    assert _come_back(client, "anna") == "/console/work/"
    text = client.see("/work/")
    assert "anna@energy.example" in text
    assert re.search(r"Role\s+operate", text)


@pytest.mark.parametrize("name", ["nobody", "mallory", "number"])
def test_who_is_no_operator_or_has_no_verified_address_is_refused(
    client: ConsoleClient, name: str, sessions: sessionmaker[Session]
) -> None:
    assert _come_back(client, name) == "/console/login/"
    assert "you are not an operator here" in client.see("/login/")
    (entry,) = audited(sessions, address=client.client.environ_base["REMOTE_ADDR"])
    assert entry.action == "login.refused"
    assert client.get("/").status_code == 302


def test_an_operator_who_is_disabled_is_refused(
    client: ConsoleClient, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        disable_operator(session, "anna@energy.example")
    assert _come_back(client, "anna") == "/console/login/"


def test_an_answer_that_was_not_asked_for_is_refused(client: ConsoleClient) -> None:
    answer = client.get("/login/openid/return/?code=stolen&state=invented")
    assert answer.location == "/console/login/"
    assert "did not log you in" in client.see("/login/")


@pytest.mark.parametrize(
    "console_url", ["https://migration.example/console", "https://migration.example/console/"]
)
def test_the_provider_leads_back_to_the_address_of_the_console(
    with_provider: Settings, make_client: MakeClient, console_url: str
) -> None:
    client = ConsoleClient(make_client(replace(with_provider, console_url=console_url)).application)
    asked = dict(parse_qsl(urlsplit(client.get("/login/openid/").location).query))
    assert asked["redirect_uri"] == "https://migration.example/console/login/openid/return/"


def test_a_provider_that_does_not_answer_in_time_is_said(
    with_provider: Settings, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(openid, "TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = replace(with_provider, openid_issuer=f"http://127.0.0.1:{silent.getsockname()[1]}")
        client = ConsoleClient(make_client(settings).application)
        answer = client.get("/login/openid/")
    assert (answer.status_code, answer.location) == (303, "/console/login/")
    assert "The identity provider does not answer." in client.see("/login/")


def test_without_a_provider_there_is_no_such_login(stranger: ConsoleClient) -> None:
    assert "openid" not in stranger.see("/login/")
    assert stranger.get("/login/openid/").status_code == 404
