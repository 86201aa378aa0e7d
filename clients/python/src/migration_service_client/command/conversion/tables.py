"""Reads the rows of a CSV file, each with what is wrong with it."""

import codecs
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from migration_service_client.command.conversion.mapping import File
from migration_service_client.command.conversion.problems import Code, Problem
from migration_service_client.command.conversion.settings import did_you_mean
from migration_service_client.command.errors import CannotRunError


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a row as a whole."""

    code: Code
    detail: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: the line on which it begins, and the cells of the columns that the mapping uses."""

    line: int
    cells: list[str]
    fault: Fault | None = None


class Table:
    """An open file. Close it."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._stream = _open(file)
        form = file.format
        self._reader = csv.reader(
            self._stream,
            delimiter=form.delimiter,
            quotechar=form.quote or None,
            quoting=csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE,
            strict=True,
        )
        try:
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def missing_columns(self) -> Iterator[Problem]:
        """Yield the columns that the mapping names and the header lacks."""
        for column in self._file.columns:
            if column not in self.header:
                detail = f"The header has no column {column!r}{did_you_mean(column, self.header)}"
                yield Problem(self._file.name, 1, column, Code.MISSING_COLUMN, detail)

    def unused_columns(self) -> list[str]:
        """Return the columns that the mapping does not name."""
        return [it for it in self.header if it and it not in self._file.columns]

    def rows(self) -> Iterator[Row]:
        """Yield all rows but empty ones. A row with a fault has as many of its cells as could be read."""
        positions = [self.header.index(column) for column in self._file.columns]
        width = len(self.header)
        while True:
            line = self._reader.line_num + 1
            fault = None
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:
                cells, fault = [], Fault(Code.BROKEN_QUOTES, f"The quotes of this row are broken: {error}.")
            if not cells and fault is None:
                continue
            fault = fault or self._find_fault(cells, width)
            if len(cells) < width:
                cells += [""] * (width - len(cells))
            found = [cells[it].strip().replace("\r\n", "\n") for it in positions]
            yield Row(line, found if fault is None else [_storable(it) for it in found], fault)

    def _find_fault(self, cells: list[str], width: int) -> Fault | None:
        if len(cells) != width:
            return Fault(
                Code.RAGGED_ROW,
                f"The row has {len(cells)} cells, but the header has {width}. "
                "Put quotes around cells with a delimiter or a line break.",
            )
        text = "".join(cells)
        if "\0" in text:
            return Fault(
                Code.NUL_CHARACTER, "The cell has the character U+0000. Remove it.", self._column(cells, "\0")
            )
        if not text.isascii() and (wrong := _undecoded(text)):
            encoding = self._file.format.encoding
            hint = " Perhaps it is cp1252." if "utf" in encoding.lower() else ""
            return Fault(
                Code.WRONG_ENCODING,
                f"The cell has the byte 0x{ord(wrong) - 0xDC00:02X}, which is not {encoding}.{hint} "
                "Set `encoding` of the file.",
                self._column(cells, wrong),
            )
        return None

    def _column(self, cells: list[str], text: str) -> str:
        return next(name for name, cell in zip(self.header, cells, strict=True) if text in cell)

    def _read_header(self) -> list[str]:
        try:
            header = [it.strip("\ufeff \t") for it in next(self._reader, [])]
        except csv.Error as error:
            raise CannotRunError(f"{self._file.path}: the header cannot be read: {error}.") from None
        if not any(header):
            raise CannotRunError(
                f"{self._file.path} is empty. Expected a header with the names of its columns."
            )
        if twice := [it for it in header if it and header.count(it) > 1]:
            raise CannotRunError(f"{self._file.path} has the column {twice[0]!r} twice. Rename one of them.")
        return header


def _open(file: File) -> IO[str]:
    encoding = codecs.lookup(file.format.encoding).name
    with file.path.open("rb") as start:
        first = start.read(3)
    found = "utf-8" if first == codecs.BOM_UTF8 else "utf-16" if first[:2] in _UTF_16 else ""
    if found and not encoding.startswith(found):
        raise CannotRunError(
            f"{file.path} begins as {found} does, but its encoding in the mapping is {file.format.encoding}."
        )
    # Bytes that cannot be decoded become lone surrogates, which are found in the row.
    name = "utf-8-sig" if encoding == "utf-8" else encoding
    return file.path.open(encoding=name, errors="surrogateescape", newline="")


_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _undecoded(text: str) -> str | None:
    """Return the first character that stands for a byte that was not decoded."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return text[error.start]
    return None


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()
