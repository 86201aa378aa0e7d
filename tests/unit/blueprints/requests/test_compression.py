"""Which responses are compressed, and that nothing else about them changes."""

import gzip
from io import BytesIO
from typing import Any

import pytest
from flask import Flask, Response, send_file
from werkzeug.test import TestResponse

from migration_service.blueprints.requests.compression import SMALLEST, compress_responses

_LONG = "x" * SMALLEST
_GZIP = {"Accept-Encoding": "gzip"}


def _answer(
    response: Any, *, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[TestResponse, bool]:
    """Return the answer of an application with one view, or one response, and whether it is compressed."""
    app = Flask(__name__)
    compress_responses(app)
    app.add_url_rule("/", view_func=(lambda: response) if isinstance(response, Response) else response)
    answer = app.test_client().open("/", method=method, headers=_GZIP if headers is None else headers)
    return answer, "Content-Encoding" in answer.headers


@pytest.mark.parametrize("length", [SMALLEST - 1, SMALLEST])
@pytest.mark.parametrize("kind", ["text", "pieces", "streamed"])
def test_a_response_is_compressed_unless_it_is_known_to_be_short(kind: str, length: int) -> None:
    text = "x" * length
    body: Any = {"text": text, "pieces": [b"xx", text[2:]], "streamed": iter([text[:2].encode(), text[2:]])}[
        kind
    ]
    answer, compressed = _answer(Response(body, mimetype="application/json"))
    assert compressed == (kind == "streamed" or length == SMALLEST)
    assert (gzip.decompress(answer.data) if compressed else answer.data) == text.encode()
    assert answer.headers.get("Content-Length", len(answer.data), int) == len(answer.data)
    assert answer.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("mimetype", "expected"),
    [
        ("application/json", True),
        ("application/graphql-response+json", True),
        ("application/x-ndjson", True),
        ("application/javascript", True),
        ("image/svg+xml", True),
        ("text/csv", True),
        ("image/png", False),
        ("application/gzip", False),
    ],
)
def test_only_text_is_compressed(mimetype: str, *, expected: bool) -> None:
    answer, compressed = _answer(Response(_LONG, mimetype=mimetype))
    assert compressed == ("Vary" in answer.headers) == expected


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [({}, False), ({"Accept-Encoding": "gzip;q=0"}, False), ({"Accept-Encoding": "br, gzip;q=0.1"}, True)],
)
def test_a_response_is_compressed_if_the_client_accepts_it(
    accepted: dict[str, str], *, expected: bool
) -> None:
    answer, compressed = _answer(Response(_LONG), headers=accepted)
    assert compressed == expected
    assert answer.headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize("status", [200, 204, 206, 304, 400])
def test_a_part_or_an_answer_without_a_body_is_not_compressed(status: int) -> None:
    assert _answer(Response(_LONG, status))[1] == (status in (200, 400))


@pytest.mark.parametrize("headers", [{"X-Accel-Buffering": "no"}, {"Content-Encoding": "br"}])
def test_what_is_sent_line_by_line_or_is_encoded_stays_as_it_is(headers: dict[str, str]) -> None:
    answer, _ = _answer(Response(_LONG, headers=headers))
    assert answer.headers.get("Content-Encoding") == headers.get("Content-Encoding")
    assert answer.text == _LONG


def test_the_answer_to_head_has_the_length_of_what_is_not_sent() -> None:
    answer, compressed = _answer(Response(_LONG), method="HEAD")
    assert (compressed, answer.headers["Content-Length"]) == (False, str(SMALLEST))


def test_other_reasons_to_vary_are_kept() -> None:
    answer, _ = _answer(Response(_LONG, headers={"Vary": "Accept"}))
    assert answer.headers["Vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize(("headers", "etag"), [(_GZIP, 'W/"1"'), ({}, '"1"')])
def test_the_tag_of_a_compressed_response_is_a_weak_one(headers: dict[str, str], etag: str) -> None:
    response = Response(_LONG)
    response.set_etag("1")
    assert _answer(response, headers=headers)[0].headers["ETag"] == etag
    assert "ETag" not in _answer(Response(_LONG), headers=headers)[0].headers


@pytest.mark.parametrize("status", [200, 304])
def test_a_file_is_closed_and_the_request_is_over_when_it_was_sent(status: int) -> None:
    ended = []
    file = BytesIO(_LONG.encode())

    def view() -> Response:
        response = send_file(file, mimetype="text/plain")
        response.status_code = status
        response.call_on_close(lambda: ended.append(True))
        return response

    answer, compressed = _answer(view)
    assert compressed == (status == 200)
    assert not compressed or gzip.decompress(answer.data) == _LONG.encode()
    answer.close()
    assert (file.closed, ended) == (True, [True])
