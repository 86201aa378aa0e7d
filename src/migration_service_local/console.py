"""The output of `up`: the log lines of every program with the program's name, and messages of `up`."""

import os
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.text import Text

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
_NAME_WIDTH = 11
_LAST_LINES = 15
_ROUTINE = re.compile(r"\b(INFO|DEBUG)\b")


class Terminal(Console):
    """A console whose reader may end first (`up | head`). Rich's console would end the process."""

    def on_broken_pipe(self) -> None:
        """Print nothing more. The programs continue to run, and are stopped in order."""
        self.quiet = True
        # The buffered text is discarded. Otherwise closing the file would fail again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


class Output:
    """The output, shared by all programs. It is coloured on a terminal. Any thread may use it."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Terminal(highlight=False, soft_wrap=True)
        self._hushed = False
        self._colours: dict[str, str] = {}

    def line(self, name: str, text: str) -> None:
        """Print a log line of the program `name`."""
        if self._hushed and _ROUTINE.search(text):
            return
        colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
        self.console.print(Text.assemble((f"{name:<{_NAME_WIDTH}} | ", colour), Text.from_ansi(text)))

    @contextmanager
    def hush(self) -> Iterator[None]:
        """Hide routine lines on a terminal while a progress bar is shown."""
        self._hushed = self.console.is_terminal
        try:
            yield
        finally:
            self._hushed = False

    def say(self, text: str) -> None:
        """Print a message of `up` itself."""
        self.line("up", text)

    def alarm(self, title: str, lines: Iterable[str]) -> None:
        """Print a message that stands out."""
        rule = Rule(Text(title, style="bold red"), style="bold red", align="left")
        self.console.print(Group(rule, Text("\n".join(lines)), Rule(style="bold red")))

    def show(self, content: RenderableType) -> None:
        """Print a table or a text."""
        self.console.print(content)


class LogPump:
    """Copies the lines of a program to the terminal and remembers the last ones.

    Each program has its own thread, so that programs do not wait for each other.
    """

    def __init__(self, name: str, stream: IO[bytes], output: Output) -> None:
        self.last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._name = name
        self._stream = stream
        self._output = output
        self._thread = threading.Thread(target=self._copy, name=f"log of {name}", daemon=True)
        self._thread.start()

    def finish(self, seconds: float = 2) -> None:
        """Wait until everything that the program wrote has been printed."""
        self._thread.join(seconds)

    def _copy(self) -> None:
        with self._stream:
            for raw in self._stream:
                text = raw.decode(errors="replace").rstrip()
                self.last_lines.append(text)
                self._output.line(self._name, text)
