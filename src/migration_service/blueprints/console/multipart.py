"""Reads a form with a file while it arrives: first the fields, then the file in blocks.

Flask would store the whole file before a view sees the first field.
"""

from collections.abc import Iterator
from typing import IO

from werkzeug.exceptions import BadRequest, RequestEntityTooLarge
from werkzeug.sansio.multipart import Data, Epilogue, Event, Field, File, MultipartDecoder, NeedData

_READ = 1 << 16
#: The longest total length of all fields with their names.
_MAX_FIELDS = 100_000


class FormWithFile:
    """The fields before the file, the name of the file, and its content."""

    def __init__(self, stream: IO[bytes], boundary: str) -> None:
        """Read up to the start of the file.

        Raise BadRequest if it is not such a form, and RequestEntityTooLarge if its fields are too long.
        """
        self._stream = stream
        self._decoder = MultipartDecoder(boundary.encode(), max_form_memory_size=_MAX_FIELDS)
        self.fields: dict[str, str] = {}
        self.file_name: str | None = None
        name, value, size = "", b"", 0
        for event in self._events():
            if isinstance(event, Field):
                name, value = event.name, b""
                size += len(name)
            elif isinstance(event, File):
                self.file_name = event.filename
                return
            elif isinstance(event, Data):
                value += event.data
                size += len(event.data)
                if not event.more_data:
                    self.fields[name] = value.decode(errors="replace")
            if size > _MAX_FIELDS:  # the decoder limits only what it holds at a time
                raise RequestEntityTooLarge

    def blocks(self) -> Iterator[bytes]:
        """Yield the content of the file. Raise BadRequest if the form ends before the file does."""
        if self.file_name is None:
            return
        for event in self._events():
            if isinstance(event, Data):
                if event.data:
                    yield bytes(event.data)
                if not event.more_data:
                    return
        raise BadRequest("The upload is incomplete.")

    def _events(self) -> Iterator[Event]:
        while True:
            try:
                event = self._decoder.next_event()
                if isinstance(event, Epilogue):
                    return
                if not isinstance(event, NeedData):
                    yield event
                    continue
                block = self._stream.read(_READ)
                self._decoder.receive_data(block or None)
            except ValueError as error:
                raise BadRequest("The upload is incomplete.") from error
