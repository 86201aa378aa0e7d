"""Tells schemathesis how to send bodies that are not JSON, and not to end its own session."""

import os
import uuid
from typing import Any

import schemathesis


@schemathesis.serializer(
    "application/x-ndjson", "application/ndjson", "application/jsonl", "application/gzip"
)
def send_as_it_is(_context: Any, value: Any) -> bytes:
    """Send a file as bytes."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")


@schemathesis.hook
def before_call(_context: Any, case: Any, _arguments: Any) -> None:
    """End any session but the own: every request after that would be answered 401."""
    if (case.path_parameters or {}).get("session_id") == os.environ["SERVICE_SESSION"]:
        case.path_parameters["session_id"] = str(uuid.uuid4())
