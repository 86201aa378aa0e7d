"""The files that `migration-client convert` reads, and the pass that finds what a parser swallows.

Comments of the SQL file name them: `-- source NAME: FILE... [option=value]...`. The pass writes each row that
is sound, with its place, to a file that can be read in one way only. Every other row is a fault.
"""

import codecs
import glob
import gzip
import io
import os
import re
import shlex
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.output import count
from migration_service_client.command.spreadsheet import read_sheet

#: `_row` is the number of the file times this, and the line.
LINES = 10**10
#: No payload is longer than this.
_LONGEST = 8_000_000
_BLOCK = 1 << 20
#: How many lines may follow a quote until it counts as one that was never opened, if rows are among them.
_AHEAD = 1000
_MARK = "\ufeff"
#: What may be left out by a name, because no account can lose anything by it.
_IGNORED = ("blank_row", "second_header")
_UNREADABLE = (
    ("\0", "nul_character", "The row has the character U+0000. Remove it."),
    (_MARK, "byte_order_mark", "The row has U+FEFF: files were joined. Remove it."),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Lines of a file that are no row. `tokens` has what may be the key of an account."""

    file: int
    first: int
    last: int
    code: str
    detail: str
    tokens: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Source:
    """A table of one or more files, by what the comment says."""

    name: str
    files: list[Path]
    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    #: The columns that lead from a row to its account.
    key: list[str] = field(default_factory=list)
    #: The names of the columns of files without a header.
    header: list[str] = field(default_factory=list)
    #: Lines that begin so are no rows.
    comment: str = ""
    ignore: list[str] = field(default_factory=list)
    #: Whether lines in quotes may look like rows.
    multiline: bool = False
    #: Whether nothing is made of its rows: they say what others mean.
    lookup: bool = False
    sheet: str = ""

    @property
    def is_parquet(self) -> bool:
        """Return whether DuckDB reads the files itself."""
        return all(it.suffix.lower() == ".parquet" for it in self.files)


def read_sources(text: str, folder: Path) -> list[Source]:
    """Return what the comments of a SQL file say. Raise CannotRunError if it cannot be meant."""
    found = [
        _source(number, it[1], it[2], folder)
        for number, line in enumerate(text.splitlines(), 1)
        if (it := re.fullmatch(r"\s*--\s*source\s+([A-Za-z]\w*)\s*:(.*)", line))
    ]
    if not found:
        raise CannotRunError("No comment names a source, such as: -- source customers: customers.csv")
    for name, times in Counter(it.name.lower() for it in found).items():
        if times > 1:
            raise CannotRunError(f"The source {name} is there twice.")
    return found


def _source(number: int, name: str, rest: str, folder: Path) -> Source:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise CannotRunError(f"Line {number}, source {name}: {error}.") from None
    files = [file for word in words if "=" not in word for file in _find(word, folder)]
    if not files:
        raise CannotRunError(f"Line {number}: the source {name} has no file.")
    source, known = Source(name, files), [it.name for it in fields(Source)[2:]]
    for option, _, value in (word.partition("=") for word in words if "=" in word):
        if option not in known:
            hint = "".join(f": did you mean {it}?" for it in get_close_matches(option, known, 1))
            raise CannotRunError(f"Line {number}: {option!r} is no option of a source{hint or '.'}")
        if isinstance(getattr(source, option), list):
            setattr(source, option, [it.strip() for it in value.split(",")])
        else:
            setattr(source, option, value == "yes" if isinstance(getattr(source, option), bool) else value)
    source.delimiter = {"tab": "\t", r"\t": "\t"}.get(source.delimiter, source.delimiter)
    source.quote = "" if source.quote == "none" else source.quote
    if len(source.delimiter) != 1 or len(source.quote) > 1 or not (source.delimiter + source.quote).isascii():
        raise CannotRunError(f"Line {number}: delimiter and quote are one ASCII character each.")
    if wrong := set(source.ignore).difference(_IGNORED):
        raise CannotRunError(
            f"Line {number}: only {' and '.join(_IGNORED)} can be ignored, not {wrong.pop()}."
        )
    try:
        "".encode(source.encoding)  # not base64 and the like
        source.encoding = codecs.lookup(source.encoding).name
    except LookupError:
        raise CannotRunError(f"Line {number}: {source.encoding!r} is no encoding.") from None
    return source


def _find(word: str, folder: Path) -> list[Path]:
    if not re.search(r"[*?\[]", word):
        return [folder / word]
    found = [Path(it) for it in sorted(glob.glob(str(folder / word)))]  # noqa: PTH207 - patterns may be absolute
    if not found:
        raise CannotRunError(f"No file fits the pattern {word}.")
    return found


@dataclass(slots=True)
class Reading:
    """The pass over the files of a source: what it found, after `run`."""

    source: Source
    #: The number of the first file.
    start: int
    columns: list[str] = field(default_factory=list)
    #: Rows of each file that are sound, those that were read, and those that are left out by a name.
    sound: Counter[int] = field(default_factory=Counter)
    read: Counter[int] = field(default_factory=Counter)
    left_out: Counter[tuple[int, str]] = field(default_factory=Counter)
    #: Rows of UTF-8 in a file of another encoding.
    in_utf8: Counter[int] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    longest: int = 0
    #: Lines of the present file that go on with a row.
    continued: int = 0

    def run(self, out: IO[bytes]) -> None:
        """Write the rows of all files. Raise CannotRunError if a file cannot be read as a whole."""
        for number, path in enumerate(self.source.files, self.start):
            with path.open("rb") as file:
                before = os.fstat(file.fileno())
                if path.suffix.lower() == ".xlsx":
                    self._read_sheet(number, path, file, out)
                else:
                    self._read_text(number, path, file, out)
                after = path.stat()
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise CannotRunError(f"{path} was changed while it was read. Convert again when it is whole.")

    def _take_header(self, path: Path, found: list[str]) -> None:
        columns = [name.strip() or f"column{place}" for place, name in enumerate(found, 1)]
        names = [it.casefold() for it in columns]
        if not any(map(str.strip, found)):
            raise CannotRunError(f"{path} is empty. Expected a header with the names of its columns.")
        for place, name in enumerate(names):
            if name in names[:place] or name in ("_row", "_line", "_file"):
                raise CannotRunError(
                    f"{path} has the column {columns[place]!r} twice. Name its columns: header="
                )
        if self.columns and columns != self.columns:
            raise CannotRunError(f"{path} has other columns than {self.source.files[0]}.")
        self.columns = columns
        for key in self.source.key:
            if key.casefold() not in names:
                raise CannotRunError(f"{path} has no column {key!r}, which key= names.")

    def _read_sheet(self, number: int, path: Path, file: IO[bytes], out: IO[bytes]) -> None:
        rows = read_sheet(path, file, self.source.sheet)
        if self.source.header:
            self._take_header(path, self.source.header)
        else:
            self._take_header(path, next(rows, (0, []))[1])
        for line, cells in rows:
            self.read[number] += 1
            width = len(self.columns)
            if any(cells[width:]):
                self._add_fault(number, line, line, _WrongNumberError(len(cells), width), _tokens(cells))
            elif not any(map(str.strip, cells)):
                fault = _NoRowError("blank_row", "All cells of the row are empty.")
                self._add_fault(number, line, line, fault, set())
            else:
                self._write(out, number, line, (cells + [""] * width)[:width])

    def _write(self, out: IO[bytes], number: int, line: int, cells: list[str]) -> None:
        text = self.source.delimiter.join(self._quoted(it) for it in cells).encode(errors="replace")
        self.longest = max(self.longest, len(text))
        out.write(b"%d%b%b\n" % (number * LINES + line, self.source.delimiter.encode(), text))
        self.sound[number] += 1

    def _quoted(self, cell: str) -> str:
        quote = self.source.quote
        if not quote or not (quote in cell or self.source.delimiter in cell or "\n" in cell or "\r" in cell):
            return cell
        return f"{quote}{cell.replace(quote, quote * 2)}{quote}"

    def _read_text(self, number: int, path: Path, file: IO[bytes], out: IO[bytes]) -> None:
        lines = _Lines(_without_end(_split(read_blocks(path, file, self.source.encoding), path)))
        grammar, line, header, self.continued = _Grammar(self.source), 0, b"\0", 0
        if self.source.header:
            self._take_header(path, self.source.header)
        else:
            line, header = 1, next(lines, b"").removeprefix(codecs.BOM_UTF8)
            self._take_header(path, self._read_header(path, header, grammar))
        delimiter, quote = self.source.delimiter.encode(), self.source.quote.encode() or b"\0"
        comment, blank, width = self.source.comment.encode(), delimiter + b" \t", len(self.columns) - 1
        start, sound, longest, previous = number * LINES, 0, 0, b""
        for content in lines:
            line += 1
            if comment and content.startswith(comment):
                self.left_out[number, "comment"] += 1
            elif (
                content.count(delimiter) == width
                and quote not in content
                and content.isascii()
                and b"\0" not in content
                and content.strip(blank)
                and content != header
                and len(content) <= _LONGEST
            ):
                out.write(b"%d%b%b\n" % (start + line, delimiter, content))
                sound += 1
                longest = max(longest, len(content))
            else:
                line += self._read_odd(_Odd(number, line, content, previous, header, lines, grammar), out)
            previous = content
        self.sound[number] += sound
        self.longest = max(self.longest, longest)
        # Each line is a row, but the header, and those that go on with the row before them.
        self.read[number] = line - (not self.source.header) - self.continued

    def _read_header(self, path: Path, header: bytes, grammar: "_Grammar") -> list[str]:
        try:
            cells = grammar.cells(self._decode(header, -1))
        except _NoRowError:
            cells = None
        if cells is None:
            raise CannotRunError(
                f"{path}: the header cannot be read. Is its encoding {self.source.encoding}?"
            )
        return cells

    def _read_odd(self, odd: "_Odd", out: IO[bytes]) -> int:
        """Read a row that is not plain. Return how many further lines belong to it."""
        further: list[bytes] = []
        try:
            cells = self._cells(odd, self._whole(odd, further))
        except _NoRowError as fault:
            self._refuse(odd, fault, further)
        else:
            self._write(out, odd.number, odd.line, cells)
            self.continued += len(further)
        return len(further)

    def _whole(self, odd: "_Odd", further: list[bytes]) -> str:
        """Return the text of a row, and add the lines to `further` that belong to it. Raise _NoRowError."""
        if odd.content.removeprefix(codecs.BOM_UTF8) == odd.header:
            raise _NoRowError("second_header", "The header is there again: files were joined.")
        if not odd.content.strip(self.source.delimiter.encode() + b" \t"):
            raise _NoRowError("blank_row", "All cells of the row are empty.")
        text = self._decode(odd.content, odd.number)
        if self.source.quote and odd.grammar.cells(text) is None:
            if not odd.grammar.opens(text):
                raise _NoRowError(
                    "broken_quotes", "Text follows a closing quote. Double the quotes in a cell."
                )
            text = "\n".join([text, *self._read_on(odd, further)])
        return text

    def _read_on(self, odd: "_Odd", further: list[bytes]) -> Iterator[str]:
        """Yield the further lines of a row, up to the one that closes its quote. Raise _NoRowError."""
        width, delimiter, size = len(self.columns) - 1, self.source.delimiter.encode(), 0
        like_rows, is_closed = 0, False
        for content in odd.lines:
            further.append(content)
            size += len(content)
            like_rows += content.count(delimiter) == width and not self.source.multiline
            text = content.decode("latin-1")
            is_open = odd.grammar.stays_open(text) or odd.grammar.opens_again(text)
            is_closed = not is_open and bool(odd.grammar.closes(text))
            if not is_open or size > _LONGEST or (like_rows and len(further) > _AHEAD):
                break
        if not is_closed:
            odd.lines.push_back(further)
            further.clear()
            raise _NoRowError("broken_quotes", "A quote is opened and never closed.")
        if like_rows:
            rows = count(like_rows, "row")
            raise _NoRowError("swallowed_rows", f"A quote is never closed: it has what looks like {rows}.")
        for content in further:
            yield self._decode(content, odd.number)

    def _cells(self, odd: "_Odd", text: str) -> list[str]:
        for character, code, says in _UNREADABLE:
            if character in text:
                raise _NoRowError(code, says)
        if len(text) > _LONGEST:
            raise _NoRowError("row_too_long", "The row has more than eight megabytes.")
        cells = odd.grammar.cells(text) or []
        if len(cells) != len(self.columns):
            raise _WrongNumberError(len(cells), len(self.columns))
        return cells

    def _refuse(self, odd: "_Odd", fault: "_NoRowError", further: list[bytes]) -> None:
        content = [odd.content, *further]
        # What has too few cells may be the rest of the row before it.
        is_short = isinstance(fault, _WrongNumberError) and fault.is_short
        pieces = [it.decode("latin-1") for it in ([*content, odd.previous] if is_short else content)]
        tokens = _tokens(piece for it in pieces for piece in odd.grammar.pieces(it))
        last = self.faults[-1] if self.faults else None
        if last and is_short and (last.file, last.last + 1, last.code) == (odd.number, odd.line, fault.code):
            says = "The number of cells of each of these rows is not that of the header."
            self.faults[-1] = Fault(last.file, last.first, odd.line, fault.code, says, last.tokens | tokens)
        else:
            self._add_fault(odd.number, odd.line, odd.line + len(further), fault, tokens)

    def _add_fault(self, number: int, first: int, last: int, fault: "_NoRowError", tokens: set[str]) -> None:
        if fault.code in self.source.ignore:
            self.left_out[number, fault.code] += 1
        else:
            known = set() if fault.code in _IGNORED else tokens
            self.faults.append(Fault(number, first, last, fault.code, fault.detail, known))

    def _decode(self, content: bytes, number: int) -> str:
        encoding = self.source.encoding
        try:
            text = content.decode()
        except UnicodeDecodeError:
            try:
                return content.decode(encoding)
            except UnicodeDecodeError:
                read_as = "not UTF-8" if encoding == "utf-8" else f"neither UTF-8 nor {encoding}"
                says = f"The row is {read_as}. Set encoding= of the source."
                raise _NoRowError("wrong_encoding", says) from None
        if not encoding.startswith("utf-") and not text.isascii():
            self.in_utf8[number] += 1
        return text


class _NoRowError(Exception):
    """These lines are no row."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


class _WrongNumberError(_NoRowError):
    def __init__(self, found: int, expected: int) -> None:
        super().__init__(
            "wrong_number_of_cells", f"The row has {count(found, 'cell')}, but the header has {expected}."
        )
        self.is_short = found < expected


@dataclass(frozen=True, slots=True)
class _Odd:
    """A line that is not plain: its place, the line before it, and what may follow."""

    number: int
    line: int
    content: bytes
    previous: bytes
    header: bytes
    lines: "_Lines"
    grammar: "_Grammar"


class _Lines(Iterator[bytes]):
    """Lines, some of which can be given back. False if there are no more."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._waiting: deque[bytes] = deque()

    def __next__(self) -> bytes:
        return self._waiting.popleft() if self._waiting else next(self._lines)

    def push_back(self, lines: list[bytes]) -> None:
        """Let lines be read again."""
        self._waiting.extendleft(reversed(lines))


class _Grammar:
    """The cells of a row, by the delimiter and the quote of a source."""

    def __init__(self, source: Source) -> None:
        end, quote = re.escape(source.delimiter), re.escape(source.quote)
        self._delimiter, self._quote = source.delimiter, source.quote
        if not quote:
            return
        inner = f"(?:[^{quote}]++|{quote}{quote})*+"
        cell = f"(?:{quote}{inner}{quote}|(?!{quote})[^{end}\\n]*+)"
        self._row: Callable[[str], Any] = re.compile(f"{cell}(?:{end}{cell})*+").fullmatch
        self.opens = re.compile(f"(?:{cell}{end})*+{quote}{inner}").fullmatch
        self.stays_open = re.compile(inner).fullmatch
        self.closes = re.compile(f"{inner}{quote}(?:{end}{cell})*+").fullmatch
        self.opens_again = re.compile(f"{inner}{quote}{end}(?:{cell}{end})*+{quote}{inner}").fullmatch
        self._cells = re.compile(f"(?:^|{end})({cell})").findall
        self._pieces = re.compile(f"[{end}{quote}]").split

    def cells(self, text: str) -> list[str] | None:
        """Return the cells of a row without their quotes, or None if its quotes are broken."""
        quote = self._quote
        if not quote or quote not in text:
            return text.split(self._delimiter)
        if not self._row(text):
            return None
        found = cast(list[str], self._cells(text))
        return [it[1:-1].replace(quote * 2, quote) if it.startswith(quote) else it for it in found]

    def pieces(self, text: str) -> list[str]:
        """Return whatever stands between delimiters and quotes."""
        return self._pieces(text) if self._quote else text.split(self._delimiter)


def _tokens(pieces: Iterable[str]) -> set[str]:
    return {
        token
        for it in pieces
        if (token := it.strip(" \t\u00a0\u00ef\u00bb\u00bf\ufeff\0").lower().lstrip("0"))
    }


def read_blocks(path: Path, file: IO[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the content of a text file, without gzip, and in UTF-8 if its characters are no single bytes."""
    start = file.peek(4)[:4] if isinstance(file, io.BufferedReader) else b""
    if start.startswith(b"PK\x03\x04"):
        raise CannotRunError(f"{path} is a ZIP file. Unpack it, or name it .xlsx if it is a workbook.")
    stream: Any = gzip.GzipFile(fileobj=file) if start.startswith(b"\x1f\x8b") else file
    blocks: Iterator[bytes] = iter(partial(stream.read, _BLOCK), b"")
    try:
        if encoding.startswith(("utf-16", "utf-32")):
            yield from (text.encode() for text in codecs.iterdecode(blocks, encoding))
            return
        for number, block in enumerate(blocks):
            if not number and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise CannotRunError(f"{path} is text in UTF-16. Set encoding=utf-16 of the source.")
            yield block
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CannotRunError(f"{path}: the gzip data is cut off or broken: {error}.") from None
    except UnicodeError as error:
        raise CannotRunError(f"{path} is not in its encoding: {error}.") from None


def _split(blocks: Iterator[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, which end with LF, CR, or both."""
    rest = b""
    for block in blocks:
        data = rest + block
        # A CR at the end may be half of a line end.
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, -1)) + 1
        yield from data[:end].splitlines()
        rest = data[end:]
        if len(rest) > 8 * _LONGEST:
            raise CannotRunError(f"{path} has a line of more than {8 * _LONGEST:,} bytes. Is it text?")
    yield from rest.splitlines()


def _without_end(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield lines without the empty ones at the end of the file."""
    empty = 0
    for line in lines:
        if not line:
            empty += 1
            continue
        if empty:
            yield from [b""] * empty
            empty = 0
        yield line
