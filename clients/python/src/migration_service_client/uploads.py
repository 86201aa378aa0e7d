"""Files on their way to the service, in chunks: a path, an open file, or what a generator yields."""

import asyncio
import io
import json
import os
import tempfile
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

#: A path; a file that was opened in binary mode, from its position; or chunks of bytes or whole lines as
#: mappings.
Source: TypeAlias = (
    str
    | os.PathLike[str]
    | BinaryIO
    | Iterable[bytes | Mapping[str, Any]]
    | AsyncIterable[bytes | Mapping[str, Any]]
)
#: Is called with the bytes that were sent so far, and with all that there are, or None if that is not known.
#: If the file has to be sent again, it begins again with a smaller number.
Progress: TypeAlias = Callable[[int, int | None], None]

_CHUNK = 256 * 1024


class Upload:
    """A source with its size, its name and its type. `prepare` it before each time that it is sent."""

    def __init__(self, source: Source, progress: Progress | None = None) -> None:
        self._progress = progress
        self._source: Any = Path(source) if isinstance(source, str | os.PathLike) else source
        self._file: Any = None
        self._start = 0
        self._sent = 0
        # The progress of an upload with asyncio is reported in the thread of the loop.
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Its bytes. They are known once it is prepared.
        self.size: int | None = None
        name = getattr(self._source, "name", None)
        self.file_name = Path(name).name if isinstance(name, str) else None

    @property
    def media_type(self) -> str:
        """Return the type of the content: the name of a compressed file ends with `.gz`."""
        return "application/gzip" if (self.file_name or "").endswith(".gz") else "application/x-ndjson"

    def prepare(self) -> None:
        """Go to the beginning of the content.

        What cannot be read twice is written to a temporary file, because a request that breaks is sent again.
        """
        if self._file is None:
            if isinstance(self._source, AsyncIterable):
                raise TypeError("An asynchronous generator needs AsyncClient.")
            if not self._open():
                self._fill()
            self._measure()
        self.rewind()

    async def prepare_async(self) -> None:
        """Do the same with asyncio. Only an asynchronous generator is not read in a thread."""
        self._loop = asyncio.get_running_loop()
        if self._file is None and isinstance(self._source, AsyncIterable):
            self._open()
            file: Any = self._file
            async for part in self._source:
                file.write(_as_line(part))
            self._measure()
        await asyncio.to_thread(self.prepare)

    def close(self) -> None:
        """Close what was opened here. A file that was given stays open."""
        if self._file is not None and self._file is not self._source:
            self._file.close()
            self._file = None if isinstance(self._source, Path) else self._file

    def read(self, size: int) -> bytes:
        """Return the next bytes, and report the progress."""
        chunk: bytes = self._file.read(size)
        self._sent += len(chunk)
        if self._progress is None:
            pass
        elif self._loop is None:
            self._progress(self._sent, self.size)
        else:
            self._loop.call_soon_threadsafe(self._progress, self._sent, self.size)
        return chunk

    def rewind(self, offset: int = 0) -> None:
        """Go to this byte of the content."""
        self._file.seek(self._start + offset)
        self._sent = offset

    def _open(self) -> bool:
        """Open the file, or a temporary one that has to be filled. Return whether it has the content."""
        if isinstance(self._source, Path):
            self._file = self._source.open("rb")
            return True
        if hasattr(self._source, "read") and self._source.seekable():
            self._file, self._start = self._source, self._source.tell()
            return True
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        return False

    def _fill(self) -> None:
        parts = self._source
        if hasattr(parts, "read"):
            parts = iter(lambda: self._source.read(_CHUNK), b"")
        for part in parts:
            self._file.write(_as_line(part))

    def _measure(self) -> None:
        self.size = self._file.seek(0, io.SEEK_END) - self._start


def _as_line(part: bytes | Mapping[str, Any]) -> bytes:
    """Return a chunk of bytes as it is, and a mapping as one line."""
    return part if isinstance(part, bytes) else encoded(part) + b"\n"


def encoded(body: Mapping[str, Any]) -> bytes:
    """Return a body as JSON. Amounts are sent as texts, which the service reads exactly."""
    return json.dumps(body, default=_exact, allow_nan=False, ensure_ascii=False).encode()


def _exact(value: Any) -> str:
    """Return an amount, or a date, as the text that the service reads exactly."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")
