"""Logging in with OpenID Connect, with a provider of the tests' own."""

import json
import re
import socket
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import requests
from flask import Flask, request
from joserfc import jwk, jws, jwt
from oidc_provider_mock import User, run_server_in_thread
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.serving import make_server

from migration_service.blueprints.console.pages import openid
from migration_service.config import Settings
from migration_service.services.access.operators import OperatorRole, create_operator
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


def test_an_answer_that_was_not_asked_for_is_refused(
    client: ConsoleClient, sessions: sessionmaker[Session]
) -> None:
    answer = client.get("/login/openid/return/?code=stolen&state=invented")
    assert answer.location == "/console/login/"
    assert "did not log you in" in client.see("/login/")
    assert _refused(client, sessions) == [("login.refused", "failed_login")]


_SIGNING, _OTHER = (jwk.generate_key("RSA", 2048, {"kid": "1"}) for _ in range(2))
_HOUR = 3_600
#: What makes of the claims of a good answer, or of the token, one that proves nothing.
_FORGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "signed by another key": lambda it: jwt.encode({"alg": "RS256", "kid": "1"}, it, _OTHER),
    "signed by an unknown key": lambda it: jwt.encode({"alg": "RS256", "kid": "2"}, it, _OTHER),
    "not signed": lambda it: f"{_part({'alg': 'none'})}.{_part(it)}.",
    "signed with the public key": lambda it: f"{_part({'alg': 'HS256'})}.{_part(it)}.AAAA",
    "without a header": lambda it: f".{_part(it)}.AAAA",
    "no token": lambda _: "x",
    "a number": lambda _: 7,
    "a list of claims": lambda _: jws.serialize_compact({"alg": "RS256", "kid": "1"}, "[]", _SIGNING),
    "expired": lambda it: it | {"exp": it["iat"] - _HOUR},
    "of the future": lambda it: it | {"iat": it["iat"] + _HOUR, "exp": it["iat"] + 2 * _HOUR},
    "not valid yet": lambda it: it | {"nbf": it["iat"] + _HOUR},
    "for somebody else": lambda it: it | {"aud": "another"},
    "of another provider": lambda it: it | {"iss": "https://elsewhere.example"},
    "of another login": lambda it: it | {"nonce": "another"},
    "a time that is none": lambda it: it | {"exp": "soon"},
    "without times": lambda it: {name: it[name] for name in ("iss", "aud", "sub", "nonce")},
    "without a person": lambda it: it | {"email": None},
}


def _part(value: Any) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@pytest.fixture
def answers(
    with_provider: Settings, make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ConsoleClient, dict[str, Any]]]:
    """Somebody at a console that asks a provider, and what that answers as the token."""
    token: dict[str, Any] = {}
    provider = Flask("provider")

    @provider.get("/.well-known/openid-configuration")
    def describe() -> dict[str, Any]:
        here = request.host_url.rstrip("/")
        paths = {f"{name}_endpoint": f"{here}/{name}" for name in ("authorization", "token")}
        return {"issuer": here, "jwks_uri": f"{here}/keys", **paths}

    @provider.get("/keys")
    def keys() -> dict[str, Any]:
        return {"keys": [_SIGNING.as_dict(private=False)]}

    @provider.post("/token")
    def answer() -> dict[str, Any]:
        return token

    server = make_server("127.0.0.1", 0, provider, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    settings = replace(with_provider, openid_issuer=f"http://127.0.0.1:{server.server_port}")
    yield ConsoleClient(make_client(settings).application), token
    server.shutdown()
    thread.join()
    server.server_close()


def _answer(answers: tuple[ConsoleClient, dict[str, Any]], forge: Callable[[dict[str, Any]], Any]) -> str:
    """Come back from the provider with a token. Return where the console leads."""
    client, token = answers
    asked = urlsplit(client.get("/login/openid/").location)
    query, now = dict(parse_qsl(asked.query)), int(time.time())
    claims: dict[str, Any] = {
        "iss": f"http://{asked.netloc}",
        "aud": "console",
        "sub": "anna",
        "nonce": query["nonce"],
    }
    claims |= {"iat": now, "exp": now + _HOUR, "email": "anna@energy.example", "email_verified": True}
    made = forge(claims)
    signed = jwt.encode({"alg": "RS256", "kid": "1"}, made, _SIGNING) if isinstance(made, dict) else made
    token.update(access_token="a", token_type="Bearer", id_token=signed)
    answer = client.get(f"/login/openid/return/?code=c&state={query['state']}")
    assert answer.status_code == 303
    return str(answer.location)


@pytest.mark.parametrize("how", _FORGED)
def test_a_token_that_proves_nothing_is_a_refused_login(
    answers: tuple[ConsoleClient, dict[str, Any]], sessions: sessionmaker[Session], how: str
) -> None:
    with sessions.begin() as session:
        create_operator(session, "anna@energy.example", OperatorRole.OPERATE)
    client, _ = answers
    assert _answer(answers, _FORGED[how]) == "/console/login/"
    assert client.get("/").status_code == 302
    assert _refused(client, sessions) == [("login.refused", "failed_login")]
    assert _answer(answers, lambda it: it) == "/console/"


def _refused(client: ConsoleClient, sessions: sessionmaker[Session]) -> list[tuple[str, str | None]]:
    found = audited(sessions, address=client.client.environ_base["REMOTE_ADDR"], outcome="REFUSED")
    return [(entry.action, entry.code) for entry in found]


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
