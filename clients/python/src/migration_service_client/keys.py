"""Idempotency keys that a new process derives again, so that nothing has to be stored before it is sent."""

import hashlib
import json
import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any


def idempotency_key(book: str, line: int | str, content: Mapping[str, Any] | bytes | str) -> str:
    """Return the key of a line of a book with this content, which has 64 characters.

    The order of members, and white space between them, do not matter. Give the
    content in the same form each time, as text or as a mapping. A corrected line has another key. Name
    the book otherwise to send the same line once more, for example after an attempt that failed.
    """
    if not isinstance(content, Mapping):
        try:
            content = json.loads(content, parse_float=Decimal)
        except ValueError:
            content = {"raw": content.decode("latin-1") if isinstance(content, bytes) else content}
    text = json.dumps([book, str(line), content], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_key(name: str, file: str | os.PathLike[str]) -> str:
    """Return the key of a batch with this name and the content of this file, which is read once for it."""
    with Path(file).open("rb") as opened:
        content = hashlib.file_digest(opened, "sha256").hexdigest()
    return idempotency_key(name, "file", {"sha256": content})
