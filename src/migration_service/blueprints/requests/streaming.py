"""Long answers that are sent in pieces, as NDJSON or CSV."""

from collections.abc import Callable, Iterable
from itertools import islice

from flask import Response, request

from migration_service.blueprints.requests.places import in_turns
from migration_service.services.batches.results.line_results import ResultFormat

CONTENT_TYPES = {ResultFormat.NDJSON: "application/x-ndjson", ResultFormat.CSV: "text/csv"}


def stream(pieces: Iterable[str] | Iterable[bytes], content_type: str) -> Response:
    """Return the answer that sends these pieces.

    The first two are read now, as the first one may be only a header. So an error of the database at the
    beginning is answered as an error. A later one breaks the answer off.
    """
    iterator = iter(pieces)
    beginning = list(islice(iterator, 2))
    return Response(in_turns(beginning, iterator), headers={"Content-Type": content_type})


def stream_lines(make_pieces: Callable[[ResultFormat], Iterable[bytes]]) -> Response:
    """Return the answer in the format that the client accepts: NDJSON, or CSV with `Accept: text/csv`."""
    formats = {content_type: kind for kind, content_type in CONTENT_TYPES.items()}
    accepted = request.accept_mimetypes.best_match(formats, default=CONTENT_TYPES[ResultFormat.NDJSON])
    response = stream(make_pieces(formats[accepted]), f"{accepted}; charset=utf-8")
    response.vary.add("Accept")
    return response
