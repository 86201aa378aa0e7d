"""Long responses that are sent in pieces, as NDJSON, CSV or a JSON array."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from flask import Response, request

from migration_service.blueprints.requests.places import Turns
from migration_service.formats import ResultFormat

#: A header is shorter than this.
_HEADER = 200
CONTENT_TYPES = {ResultFormat.NDJSON: "application/x-ndjson", ResultFormat.CSV: "text/csv"}


def stream(pieces: Iterable[str] | Iterable[bytes], content_type: str) -> Response:
    """Return the response that sends these pieces.

    The first one is read now, and another one if it is only a header. An early database error then still gets
    an error status. A later one breaks the response off.
    """
    iterator: Iterator[str | bytes] = iter(pieces)

    def begin() -> list[str | bytes]:
        beginning = [*islice(iterator, 1)]
        if beginning and len(beginning[0]) < _HEADER:
            beginning += islice(iterator, 1)
        return beginning

    return Response(Turns(begin, iterator), headers={"Content-Type": content_type})


def stream_array(pages: Iterable[str]) -> Response:
    """Return the response that sends the JSON entries of these pages, which have commas between them."""

    def pieces() -> Iterator[str]:
        before = "["
        for page in pages:
            yield before + page
            before = ","
        yield "[]" if before == "[" else "]"

    return stream(pieces(), "application/json")


def stream_lines(make_pieces: Callable[[ResultFormat], Iterable[bytes]]) -> Response:
    """Return the response in the format that the client accepts: NDJSON, or CSV with `Accept: text/csv`."""
    formats = {content_type: kind for kind, content_type in CONTENT_TYPES.items()}
    accepted = request.accept_mimetypes.best_match(formats, default=CONTENT_TYPES[ResultFormat.NDJSON])
    response = stream(make_pieces(formats[accepted]), f"{accepted}; charset=utf-8")
    response.vary.add("Accept")
    return response
