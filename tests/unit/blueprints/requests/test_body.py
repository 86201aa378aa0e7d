"""How much of a body is read, the key and the token of a request (rest/body.md has the forms of a body)."""

import gzip
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from migration_service.blueprints.requests.body import read_text
from migration_service.blueprints.requests.idempotency import read_key
from migration_service.blueprints.requests.interface import read_token
from migration_service.errors import NotAuthenticatedError, UnauthenticatedError

_LIMIT = 100
_CHUNKED = {"Transfer-Encoding": "chunked"}


def _client(limit: int | None = _LIMIT) -> FlaskClient:
    """Return a client of an application that returns the body that it has read."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = limit
    app.add_url_rule("/", view_func=read_text, methods=["POST"])
    return app.test_client()


@pytest.mark.parametrize("form", ["plain", "gzip"])
@pytest.mark.parametrize("limit", [_LIMIT, None])
@pytest.mark.parametrize("length", [_LIMIT - 1, _LIMIT, _LIMIT + 1])
def test_a_body_is_read_up_to_the_limit(form: str, limit: int | None, length: int) -> None:
    body = b"x" * length
    more: dict[str, Any] = {"data": body}
    if form == "gzip":
        more = {"data": gzip.compress(body), "headers": {"Content-Encoding": "gzip"}}
    answer = _client(limit).post("/", **more)
    if limit is None or length <= limit:
        assert (answer.status_code, answer.data) == (200, body)
    else:
        assert "larger than 100 bytes" in answer.text
        assert answer.status_code == 413


def test_a_body_in_chunks_which_may_have_broken_off_is_not_read() -> None:
    environ = {"wsgi.input_terminated": True}
    answer = _client().post("/", data=b"{}", headers=_CHUNKED, environ_overrides=environ)
    assert answer.status_code == 411
    assert "Content-Length" in answer.text


@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("", None),
        (" ", None),
        ("abc", "abc"),
        (" abc ", "abc"),
        ('"abc"', "abc"),
        ('"a"', "a"),
        ('"', '"'),
        ('"abc', '"abc'),
        ('abc"', 'abc"'),
        ('x"y"', 'x"y"'),
        ('"x"y', '"x"y'),
    ],
)
def test_a_key_is_read_without_the_quotes_around_it(header: str, key: str | None) -> None:
    with Flask(__name__).test_request_context(headers={"Idempotency-Key": header}):
        assert read_key() == key


@pytest.mark.parametrize(
    "header",
    [
        "a.b.c",
        "Token a.b.c",
        "token a.b.c",
        "TOKEN a.b.c",
        "Bearer a.b.c",
        "JWT a.b.c",
        "jwt a.b.c",
        "Token   a.b.c",
        "Token\ta.b.c",
        " Token a.b.c ",
        " a.b.c ",
    ],
)
def test_a_token_is_read(header: str) -> None:
    assert read_token(header) == "a.b.c"


@pytest.mark.parametrize("header", ["", " ", "Token", "Bearer ", "jwt"])
def test_a_missing_token_is_reported_as_missing(header: str) -> None:
    with pytest.raises(NotAuthenticatedError):
        read_token(header)


@pytest.mark.parametrize("header", ["Basic a.b.c", "Token a b", "Token Token a", "a.b.c, a.b.c"])
def test_another_form_of_the_header_is_refused(header: str) -> None:
    with pytest.raises(UnauthenticatedError, match="must be: Token <token>"):
        read_token(header)
