"""Transcripts: pages with shell commands and exactly what they print, run from top to bottom in one shell.

A page is Markdown. What is indented by four spaces and begins with `$ ` is a command, with `> ` its next
line; below it stands what it prints, then its exit status in brackets unless it is 0. The rest explains.
Values that differ at each run are numbered as they appear (`<id 1>`), or only named (`<time>`).
TRANSCRIPTS=write writes what is printed now into the pages: read the difference before you commit it.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_INDENT = "    "
_COMMAND, _NEXT = f"{_INDENT}$ ", f"{_INDENT}> "
#: Written after what each command prints, with its exit status.
_END = "\x1e"
#: What differs at each run. Equal values have the same number within a page.
_NUMBERED = {
    "cursor": re.compile(r"\b[0-9a-f]{16}-\d+-\d+-[0-9a-f]+-[0-9a-f]{32}-[0-9a-f]{16}\b"),
    "id": re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"),
    "key": re.compile(r"\bami_\w+"),
    "token": re.compile(r"\beyJ[\w-]+(?:\.[\w-]+){2}"),
    "secret": re.compile(r"\bwhsec_[\w+/=-]+"),
    "account": re.compile(r"\bA-[0-9A-Z]{8}\b"),
    "entry": re.compile(r"[\dT:.+Z%ABC-]+(?:\||%7C)(?:audit_entry|account_import_process)[ +]\d+\b"),
    "request": re.compile(r"\b(?:command )?[0-9a-f]{32}\b"),
}
NAMED = {
    "<time>": re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d| UTC)?"),
    "<seconds> s": re.compile(r"\b\d+\.\d+ s\b"),
}


@dataclass
class _Part:
    """A command with its lines as they stand in the page, and what is to be printed; or lines of prose."""

    lines: list[str]
    command: str = ""
    printed: list[str] = field(default_factory=list)


def run(page: Path, folder: Path, environment: Mapping[str, str]) -> str:
    """Run the commands of the page in the folder. Return the page with what they print now."""

    def perform(commands: list[str]) -> Iterator[tuple[str, int]]:
        script = "\n".join(f"{it}\nprintf '{_END}%d{_END}' $?" for it in commands)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
            check=False,
        )
        printed = iter(done.stdout.split(_END))
        for _ in commands:
            yield next(printed, "the shell has ended"), int(next(printed, "0"))

    return rewrite(page, folder, perform)


def rewrite(
    page: Path,
    folder: Path,
    perform: Callable[[list[str]], Iterable[tuple[str, int]]],
    *,
    named: Mapping[str, re.Pattern[str]] = NAMED,
) -> str:
    """Return the page with what its commands print, and their exit statuses, according to `perform`."""
    parts = list(_parts(page.read_text()))
    done = list(perform([it.command for it in parts if it.command]))
    printed = _END.join(text for text, _ in done)
    texts = iter(_without_what_differs(printed, folder, named).split(_END))
    statuses = iter(status for _, status in done)
    lines: list[str] = []
    for part in parts:
        lines += part.lines
        if part.command:
            lines += [f"{_INDENT}{it}".rstrip() for it in next(texts).splitlines()]
            if status := next(statuses):
                lines.append(f"{_INDENT}[{status}]")
    return "\n".join(lines) + "\n"


def read_or_write(page: Path, printed: str) -> str:
    """Return what the page says, after writing into it what is printed now if that is asked for."""
    if os.environ.get("TRANSCRIPTS") == "write":
        page.write_text(printed)
    return page.read_text()


def _parts(text: str) -> Iterator[_Part]:
    """Yield the parts of a page in their order, without what was printed when it was written."""
    part = _Part([])
    for line in text.splitlines():
        if line.startswith(_COMMAND):
            yield part
            part = _Part([line], line.removeprefix(_COMMAND))
        elif part.command and line.startswith(_NEXT) and not part.printed:
            part.lines.append(line)
            part.command += "\n" + line.removeprefix(_NEXT)
        elif part.command and (line.startswith(_INDENT) or not line):
            part.printed.append(line)
        elif part.command:  # prose, after an empty line
            yield part
            part = _Part(["", line])
        else:
            part.lines.append(line)
    yield part


def find_numbered(text: str) -> dict[str, str]:
    """Return each value that is numbered, by what stands for it."""
    return {
        f"<{name} {number}>": value
        for name, pattern in _NUMBERED.items()
        for number, value in enumerate(dict.fromkeys(pattern.findall(text)), start=1)
    }


def _without_what_differs(text: str, folder: Path, named: Mapping[str, re.Pattern[str]]) -> str:
    text = text.replace(str(folder), "<folder>")
    # A key begins with its prefix.
    for name, value in sorted(find_numbered(text).items(), key=lambda it: -len(it[1])):
        text = text.replace(value, name)
    for name, pattern in named.items():
        text = pattern.sub(name, text)
    return text
