"""Transcripts: pages with shell commands and exactly what they print, run from top to bottom in one shell.

A page is Markdown. What is indented by four spaces and begins with `$ ` is a command, with `> ` its next
line; below it stands what it prints, then its exit status in brackets unless it is 0. The rest explains.
Values that differ at each run are numbered as they appear (`<id 1>`), or only named (`<time>`).
TRANSCRIPTS=write writes what is printed now into the pages: read the difference before you commit it.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_INDENT = "    "
_COMMAND, _NEXT = f"{_INDENT}$ ", f"{_INDENT}> "
#: Written after what each command prints, with its exit status.
_END = "\x1e"
#: What differs at each run. Equal values have the same number within a page.
_NUMBERED = {
    "id": re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"),
    "key": re.compile(r"\bami_\w+"),
}
_NAMED = {
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
    parts = list(_parts(page.read_text()))
    commands = [it.command for it in parts if it.command]
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
    printed = iter(_without_what_differs(done.stdout, folder).split(_END))
    lines: list[str] = []
    for part in parts:
        lines += part.lines
        if part.command:
            text, status = next(printed, "the shell has ended"), next(printed, "0")
            lines += [f"{_INDENT}{it}".rstrip() for it in text.splitlines()]
            if status != "0":
                lines.append(f"{_INDENT}[{status}]")
    return "\n".join(lines) + "\n"


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


def _without_what_differs(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "<folder>")
    for name, pattern in _NUMBERED.items():
        for number, value in enumerate(dict.fromkeys(pattern.findall(text)), start=1):
            text = text.replace(value, f"<{name} {number}>")
    for name, pattern in _NAMED.items():
        text = pattern.sub(name, text)
    return text
