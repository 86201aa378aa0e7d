"""Tokens: the callers that they identify, and the tokens that are refused."""

import base64
import json
from dataclasses import replace
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db.sql import autocommit
from migration_service.errors import UnauthenticatedError
from migration_service.services.access.callers import Caller
from migration_service.services.access.tokens import (
    Tokens,
    authenticate_token,
    obtain_tokens,
    refresh_tokens,
    sign,
)
from support.factories import Customer


def _obtain(sessions: sessionmaker[Session], settings: Settings, customer: Customer) -> Tokens:
    with sessions.begin() as session:
        return obtain_tokens(session, settings, customer.api_key)


def _authenticate(sessions: sessionmaker[Session], settings: Settings, token: str) -> Caller:
    with autocommit(sessions) as statements:
        return authenticate_token(statements, settings, token)


def test_no_token_is_valid_longer_than_its_refresh_token(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer
) -> None:
    short = replace(migrated, refresh_token_lifetime_seconds=60)
    tokens = _obtain(sessions, short, customer)
    assert tokens.payload["exp"] == tokens.refresh_expires_at


def test_an_expired_token_is_refused_and_the_reason_given(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer
) -> None:
    over = replace(migrated, token_lifetime_seconds=0)
    with pytest.raises(UnauthenticatedError, match="expired"):
        _authenticate(sessions, migrated, _obtain(sessions, over, customer).token)
    over = replace(migrated, refresh_token_lifetime_seconds=0)
    expired = _obtain(sessions, over, customer).refresh_token
    with pytest.raises(UnauthenticatedError, match="expired"), sessions.begin() as session:
        refresh_tokens(session, migrated, expired)


def test_a_token_that_was_signed_by_a_clock_ahead_of_ours_is_accepted(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer
) -> None:
    claims = _obtain(sessions, migrated, customer).payload
    ahead = sign(migrated, claims | {"iat": claims["iat"] + 60})
    assert _authenticate(sessions, migrated, ahead).prefix == customer.prefix


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _forgeries(token: str, key: str) -> dict[str, str]:
    header, payload, signature = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    # What is signed with another key says that it was signed with this one.
    headers = {"kid": jwt.get_unverified_header(token)["kid"]}
    changed = {**claims, "sub": "ami_0000000000"}
    deep = base64.urlsafe_b64encode(b'{"alg":' + b"[" * 5000).rstrip(b"=").decode()
    return {
        "algorithm none": f"{_part({'alg': 'none', 'typ': 'JWT'})}.{payload}.",
        "algorithm none with a signature": f"{_part({'alg': 'none'})}.{payload}.{signature}",
        "another algorithm": jwt.encode(claims, key * 2, algorithm="HS512", headers=headers),
        "changed claims": f"{header}.{_part(changed)}.{signature}",
        "another key": jwt.encode(claims, "x" * 40, algorithm="HS256", headers=headers),
        "no name of its key": jwt.encode(claims, key, algorithm="HS256"),
        "no key": jwt.encode({**claims, "sub": None}, key, algorithm="HS256", headers=headers),
        **{
            f"no {name}": jwt.encode(
                {it: value for it, value in claims.items() if it != name},
                key,
                algorithm="HS256",
                headers=headers,
            )
            for name in ("exp", "kind", "jti", "sid")
        },
        "no signature": f"{header}.{payload}",
        "other text": "token",
        "nothing": "",
        "beyond ASCII": "é.ü.ß",
        "deeply nested": f"{deep}.{payload}.{signature}",
        "zero": f"{header}.{payload}.{signature}\0",
    }


@pytest.mark.parametrize(
    "forgery", list(_forgeries(jwt.encode({"sub": "x"}, "k" * 40, headers={"kid": "x"}), "k" * 40))
)
def test_a_forged_token_is_refused(
    sessions: sessionmaker[Session], migrated: Settings, customer: Customer, forgery: str
) -> None:
    token = _obtain(sessions, migrated, customer).token
    forged = _forgeries(token, migrated.secret_key)[forgery]
    with pytest.raises(UnauthenticatedError, match="The token is not valid"):
        _authenticate(sessions, migrated, forged)


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda data: f"{_part({})}.{data.hex()}.x"))
def test_any_text_that_is_not_a_token_is_refused(
    sessions: sessionmaker[Session], migrated: Settings, text: str
) -> None:
    with pytest.raises(UnauthenticatedError):
        _authenticate(sessions, migrated, text)
