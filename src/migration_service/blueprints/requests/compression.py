"""Compresses responses with gzip if the client accepts it, including streamed ones."""

import zlib
from collections.abc import Iterable, Iterator

from flask import Flask, Response, request

#: Smaller responses are not worth compressing.
SMALLEST = 1_000
# A list of accounts shrinks to a twelfth of its size. Higher levels cost more time than they save.
_LEVEL = 4
_GZIP = zlib.MAX_WBITS + 16
_COMPRESSIBLE = (
    "application/json",
    "application/graphql-response+json",
    "application/x-ndjson",
    "application/javascript",
    "image/svg+xml",
)


def compress_responses(app: Flask) -> None:
    """Compress the responses of `app`."""
    app.after_request(_compress)


def _compress(response: Response) -> Response:
    mimetype = response.mimetype or ""
    if not (mimetype.startswith("text/") or mimetype in _COMPRESSIBLE):
        return response
    if "Vary" in response.headers:
        response.vary.add("Accept-Encoding")
    else:
        response.headers["Vary"] = "Accept-Encoding"
    if _is_small(response) or request.method == "HEAD":
        return response
    wanted = request.accept_encodings.quality("gzip") > 0
    # A page that is sent line by line would be delayed.
    wanted = wanted and response.headers.get("X-Accel-Buffering") != "no"
    whole = response.status_code not in (204, 206, 304) and "Content-Encoding" not in response.headers
    if not (wanted and whole):
        return response
    response.direct_passthrough = False
    response.response = _gzip(response.response)
    response.headers["Content-Encoding"] = "gzip"
    response.headers.pop("Content-Length", None)
    etag, _ = response.get_etag()
    if etag:
        response.set_etag(etag, weak=True)  # the same data, but not the same bytes
    return response


def _is_small(response: Response) -> bool:
    """Return whether the response is known to be short. The length of a streamed response is unknown."""
    if "Content-Length" in response.headers:
        return int(response.headers["Content-Length"]) < SMALLEST
    return not response.is_streamed and (response.calculate_content_length() or 0) < SMALLEST


def _gzip(pieces: Iterable[str] | Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    try:
        for piece in pieces:
            if compressed := compressor.compress(piece.encode() if isinstance(piece, str) else piece):
                yield compressed
        yield compressor.flush()
    finally:
        if close := getattr(pieces, "close", None):
            close()
