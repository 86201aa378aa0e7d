"""Whatever is sent, the answer is not a 5xx, and has no internal details.

Requests that the description of the interface leads to are sent by `tests/e2e/test_described_interface.py`.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from json import dumps
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlencode

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse, create_environ, run_wsgi_app
from werkzeug.wrappers import Request

from migration_service.app import create_app
from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from support.examples import TIMES
from support.factories import disconnect
from support.supplier_client import API, SupplierClient

_MANY: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "database": None,
    "derandomize": TIMES == 1,
}
#: Texts that would be internal details.
_INSIDE = re.compile(
    r"Traceback|psycopg|sqlalchemy|site-packages|\.py\b|\bSELECT\b|\bINSERT\b|werkzeug|object at 0x"
)
_PATHS = [
    "/v1/graphql/",
    f"{API}/validate-account/",
    f"{API}/account-import-process/create-or-update/",
    f"{API}/account-import-process/process/",
    f"{API}/notes/create/",
    f"{API}/transactions/create/",
    f"{API}/historical-statements/create/",
    f"{API}/payment-instruction/create/",
    f"{API}/batches/?mode=validate&import_supplier=",
]


@pytest.fixture(scope="module")
def hasty(app: Flask, migrated: Settings) -> Iterator[Flask]:
    """An application whose process requests do not wait, because there is no worker."""
    other = create_app(replace(migrated, process_wait_seconds=0.01))
    yield other
    disconnect(other)
    with app.app_context():
        resources().celery.set_current()  # tasks of later tests run in the current application


@pytest.fixture
def fuzzer(hasty: Flask, sessions: sessionmaker[Session]) -> SupplierClient:
    return SupplierClient.create(hasty, sessions)


_texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["%00", "\x00", "../..", "..%2f", "%", "%zz", "//", "/./", "a b", "é", "😀"]),
    st.sampled_from(["'", '"', "\r\n", "\ud800", ";", "?", "-1", "1e400", "{}", "NaN", "A" * 5_000]),
)
_numbers = st.one_of(st.integers(), st.floats(), st.just(10**400), st.just(1e308))
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _texts),
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(_texts, below, max_size=4)),
    max_leaves=12,
)
_NASTY_BODIES = [
    b"",
    b"[" * 50_000,
    b'{"a":' * 20_000,
    b"\xff\xfe{}",
    b'"\\ud800"',
    b"NaN",
    b"1e999999999",
    b"9" * 5_000,
    b'{"a":1,"a":2}',
    b"\x1f\x8b\x08\x00broken",
    "{}".encode("utf-16"),
]
_bodies = st.one_of(
    *(st.binary(max_size=200), st.sampled_from(_NASTY_BODIES)), _json.map(lambda value: dumps(value).encode())
)
_content_types = st.sampled_from(
    [
        *(
            "application/json",
            "application/json; charset=utf-16",
            "text/json",
            "text/plain",
            "",
            "x/y;z",
            "\xff",
        ),
        *("multipart/form-data", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"),
        *("application/x-ndjson", "application/gzip"),
    ]
)
_header_values = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=60)
_header_names = st.sampled_from(
    [
        *(
            "Prefer",
            "X-Request-ID",
            "Content-Encoding",
            "Accept",
            "Idempotency-Key",
            "Transfer-Encoding",
            "Range",
        ),
        *("Accept-Encoding", "If-None-Match", "X-Forwarded-For", "Cookie", "traceparent", "Content-Length"),
    ]
)
_parts = st.sampled_from(
    [
        *("account-transfer-status", "all-account-import-processes", "batches", "results", "retry-failed"),
        *("..", ".", "", "pending-account-import-processes", "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"),
    ]
)
_query = st.dictionaries(
    st.sampled_from(["limit", "cursor", "profile", "status", "format", "mode", "import_supplier"]),
    _texts,
    max_size=3,
)
_paths = st.tuples(
    st.sampled_from([API, "/v1", "", "/v1/docs/assets", "/health", "/v1/graphql"]),
    st.lists(st.one_of(_texts, _parts), max_size=5),
    _query,
)


def _send(app: Flask, method: str, path: str, query: str, **request: Any) -> TestResponse:
    """Call the application as a server does, with any decoded path."""
    environ = create_environ(method=method, **request)
    environ["PATH_INFO"] = unquote_to_bytes(path).decode("latin-1")
    environ["QUERY_STRING"] = query
    body, status, headers = run_wsgi_app(app, environ, buffered=True)
    return TestResponse(iter(body), status, headers, Request(environ))


def _tells_nothing(answer: TestResponse) -> None:
    """Check that the answer is not a 5xx, has no internal details, and that errors have the usual form."""
    text = answer.get_data(as_text=True)
    assert answer.status_code < 500, text
    if answer.status_code >= 400:
        found = _INSIDE.search(text)
        assert not found, f"{found and found[0]!r} in an answer: {text[:500]}"


@settings(max_examples=400 * TIMES, **_MANY)
@given(
    path=st.sampled_from(_PATHS),
    body=_bodies,
    content_type=_content_types,
    headers=st.dictionaries(_header_names, _header_values, max_size=3),
)
def test_any_bytes_may_be_sent_as_a_body_with_any_headers(
    *,
    hasty: Flask,
    fuzzer: SupplierClient,
    path: str,
    body: bytes,
    content_type: str,
    headers: dict[str, str],
) -> None:
    path, _, query = path.partition("?")
    headers = headers | {"Authorization": f"Token {fuzzer.token}"}
    answer = _send(
        hasty, "POST", path, query + fuzzer.code, data=body, content_type=content_type, headers=headers
    )
    _tells_nothing(answer)
    if answer.status_code >= 400 and "graphql" not in path:
        assert set(answer.json or {}) >= {"detail", "code", "errors"}


@settings(max_examples=250 * TIMES, **_MANY)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "FOO"]),
    where=_paths,
)
def test_any_path_method_and_query_may_be_sent(
    hasty: Flask, fuzzer: SupplierClient, method: str, where: tuple[str, list[str], dict[str, str]]
) -> None:
    start, parts, query = where
    path = "/".join([start, *(quote(part, safe="%./;", errors="surrogatepass") for part in parts), ""])
    headers = {"Authorization": f"Token {fuzzer.token}"}
    answer = _send(hasty, method, path, urlencode(query, errors="surrogatepass"), headers=headers)
    _tells_nothing(answer)
    if answer.status_code >= 400 and method != "HEAD":
        assert answer.mimetype == "application/json", (method, path)


@settings(max_examples=100 * TIMES, **_MANY)
@given(authorization=_header_values)
def test_any_authorization_header_is_refused(hasty: Flask, authorization: str) -> None:
    answer = _send(hasty, "GET", f"{API}/batches/", "", headers={"Authorization": authorization})
    assert answer.status_code == 401
    _tells_nothing(answer)
