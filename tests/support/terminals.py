"""Terminals, for programs that show something else there than in a file."""

import os
import pty
from collections.abc import Callable
from contextlib import suppress


def shown_by(run: Callable[[int], object]) -> str:
    """Return all that `run` writes to a terminal. It gets the terminal's descriptor."""
    ours, theirs = pty.openpty()
    try:
        run(theirs)
    finally:
        os.close(theirs)
    shown = b""
    # What was written arrives in parts. The end is an error, as the other side is closed.
    with suppress(OSError):
        while part := os.read(ours, 100_000):
            shown += part
    os.close(ours)
    return shown.decode()
