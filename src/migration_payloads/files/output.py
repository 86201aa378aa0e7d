"""What the commands of the service and of suppliers write: to a terminal, to a pipe, and to files."""

import errno
import io
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import click

#: C0 and C1 controls but line feeds and tabs, and characters that change the direction or visibility of text.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


class OutputPath(click.Path):
    """The name of a file or folder that a command writes. `-` is no name, though it is standard input."""

    def __init__(self, *, is_folder: bool = False) -> None:
        super().__init__(file_okay=not is_folder, dir_okay=is_folder, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Refuse `-`."""
        if str(value) == "-":
            self.fail("- is no name of an output: name a file, such as /dev/stdout.", param, ctx)
        return super().convert(value, param, ctx)


class _Raw(io.FileIO):
    """A file whose errors name it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        super().__init__(descriptor, "wb")
        self._path = path

    def write(self, content: Any) -> int:
        try:
            return super().write(content)
        except OSError as error:
            raise _naming(error, self._path) from error


def is_in_place(path: Path) -> bool:
    """Return whether there is standard output, a pipe, a device or the like, which no file replaces."""
    known = _find(path)
    return known is not None and (not stat.S_ISREG(known.st_mode) or _is_standard_output(known))


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open an output. A file appears under its name, or behind a link, when everything has been written.

    An existing file keeps its mode. A pipe or a device is written in place, and so is the file that is
    standard output.
    """
    known = _find(path)
    if known is not None and _is_standard_output(known):
        with io.BufferedWriter(_Raw(os.dup(1), path)) as file:
            yield file
        return
    # What may not be written may not be replaced either.
    if known is not None and not (stat.S_ISREG(known.st_mode) and os.access(path, os.W_OK)):
        with io.BufferedWriter(_Raw(os.open(path, os.O_WRONLY), path)) as file:
            yield file
        return
    target = path.resolve()
    part = target.with_name(f".{token_hex(8)}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise _naming(error, path) from error
    try:
        with io.BufferedWriter(_Raw(descriptor, path)) as file:
            if known is not None:
                part.chmod(stat.S_IMODE(known.st_mode))
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _find(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_standard_output(known: os.stat_result) -> bool:
    try:
        return os.path.samestat(known, os.fstat(1))
    except OSError:
        return False


def _naming(error: OSError, path: Path) -> OSError:
    return OSError(error.errno, error.strerror, str(path))


def escape_lines(text: str) -> str:
    r"""Return `text` with control characters written as `\x1b` or `\u202e`, but lines and tabs kept."""
    return CONTROLS.sub(escape_character, text)


def escape_character(found: re.Match[str]) -> str:
    """Return the escape of a character that was found."""
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def say(text: str, *, err: bool = False) -> None:
    """Print text that may have parts of a file or of an answer: a terminal obeys none of them."""
    click.echo(escape_lines(text), err=err)


def write_raw(content: bytes) -> None:
    """Print a line exactly as it is, or escaped on a terminal."""
    if sys.stdout.isatty():
        say(content.decode(errors="backslashreplace"))
    else:
        click.echo(content)


class _EndedError(click.ClickException):
    """The command ends with this sentence and exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(escape_lines(message))
        self.status = status

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        """Return the exit status."""
        return self.status


@contextmanager
def writing() -> Iterator[None]:
    """Let a command write what the encoding of its output lacks as `\\u0141`, and end errors as sentences.

    What cannot be written at all ends the command with exit status 2. So does any other OSError.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise _EndedError(error.message, error.exit_code) from error
    except OSError as error:
        if error.errno == errno.EPIPE and error.filename is None:
            raise  # click ends quietly if the reader of a pipe is gone
        _drop_output()
        place = f"{error.filename}: " if error.filename is not None else ""
        raise _EndedError(f"{place}{error.strerror or error}.", 2) from error


def _drop_output() -> None:
    """Write nothing more to an output that fails: Python would try again at the end, and exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = io.StringIO()
