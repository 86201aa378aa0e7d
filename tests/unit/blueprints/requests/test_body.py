"""How much of a body is read, and in which forms; the key and the token of a request."""

import gzip
import zlib
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from migration_service.blueprints.requests.body import read_json, read_text
from migration_service.blueprints.requests.idempotency import read_key
from migration_service.blueprints.requests.interface import read_token
from migration_service.errors import NotAuthenticatedError, ParseError, UnauthenticatedError

_LIMIT = 100
_CHUNKED = {"Transfer-Encoding": "chunked"}


def _client(limit: int | None = _LIMIT) -> FlaskClient:
    """Return a client of an application that returns the body that it has read."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = limit
    app.register_error_handler(ParseError, lambda error: ([it.to_dict() for it in error.errors], 400))
    app.add_url_rule("/", view_func=read_text, methods=["POST"])
    app.add_url_rule("/json/", view_func=lambda: [read_json()], methods=["POST"])
    return app.test_client()


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("", 200),
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/problem+json", 200),
        ("text/json", 200),
        ("text/plain", 415),
    ],
)
def test_a_body_is_json_if_its_type_says_nothing_else(content_type: str, status: int) -> None:
    answer = _client().post("/", data=b"{}", content_type=content_type)
    assert answer.status_code == status
    assert status != 200 or answer.text == "{}"
    assert status == 200 or "send Content-Type application/json" in answer.text


@pytest.mark.parametrize(
    ("encoding", "status"), [("", 200), ("identity", 200), ("gzip", 200), ("x-gzip", 200), ("br", 415)]
)
def test_a_body_is_plain_or_gzip(encoding: str, status: int) -> None:
    data = gzip.compress(b"[1]") if "gzip" in encoding else b"[1]"
    answer = _client().post("/json/", data=data, headers={"Content-Encoding": encoding})
    assert answer.status_code == status
    assert status != 200 or answer.json == [[1]]
    assert status == 200 or "with Content-Encoding: gzip" in answer.text


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
    ("data", "detail"),
    [
        (b"{}", "is corrupt: "),
        (zlib.compress(b"{}"), "is corrupt: "),
        (gzip.compress(b"{}")[:-1], "must be one gzip stream"),
        (gzip.compress(b"{}") + b"x", "must be one gzip stream"),
    ],
    ids=["not compressed", "not gzip", "cut off", "more follows"],
)
def test_gzip_that_is_not_one_stream_is_refused(data: bytes, detail: str) -> None:
    answer = _client().post("/", data=data, headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 400
    errors = answer.json or []
    assert [(it["code"], detail in it["detail"]) for it in errors] == [("parse_error", True)]


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
