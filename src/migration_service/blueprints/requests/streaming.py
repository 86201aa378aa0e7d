"""Long responses that are sent in pieces, as NDJSON, CSV, a JSON array or a ZIP archive."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from io import RawIOBase
from itertools import islice
from time import localtime
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from flask import Response, request

from migration_service.blueprints.requests.places import Turns
from migration_service.formats import ResultFormat

#: A header is shorter than this.
_HEADER = 200
#: The end of a response that broke off. No parser takes it for a complete line, and our client knows it. JSON
#: and ZIP archives without their ends need none.
_BROKEN_OFF = {
    "application/x-ndjson": b'\n{"code": "service_unavailable", "detail": "This broke off. Ask again."\n',
    "text/csv": b'\n"service_unavailable: This broke off. Ask again.\n',
    "text/html": b"\n<p><strong>The page broke off. Load it again.</strong>\n",
}
CONTENT_TYPES = {ResultFormat.NDJSON: "application/x-ndjson", ResultFormat.CSV: "text/csv"}


def stream(pieces: Iterable[str] | Iterable[bytes], content_type: str) -> Response:
    """Return the response that sends these pieces.

    The first one is read now, and another one if it is only a header. An early database error then still gets
    an error status. A later one breaks the response off: the client finds no JSON, a line without an end, or
    a sentence on the page.
    """
    iterator: Iterator[str | bytes] = iter(pieces)

    def begin() -> list[str | bytes]:
        beginning = [*islice(iterator, 1)]
        if beginning and len(beginning[0]) < _HEADER:
            beginning += islice(iterator, 1)
        return beginning

    broken_off = _BROKEN_OFF.get(content_type.partition(";")[0], b"")
    turns = Turns(begin, iterator, broken_off=broken_off)
    return Response(turns, headers={"Content-Type": content_type})


def zip_files(files: Mapping[str, Iterable[bytes]]) -> Iterator[bytes]:
    """Yield an archive of these files, which are written one after the other as their pieces come."""
    written = _Written()
    with ZipFile(written, "w") as archive:
        for name, pieces in files.items():
            entry = ZipInfo(name, localtime()[:6])
            entry.compress_type = ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                for piece in pieces:
                    file.write(piece)
                    yield from written.take()
    yield from written.take()


class _Written(RawIOBase):
    """What was written and not taken yet. It has no place to go back to, so that archives need none."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        return len(piece)

    def take(self) -> list[bytes]:
        """Return what was written since the last time."""
        taken, self._pieces = self._pieces, []
        return taken


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
