"""Tells schemathesis how to send bodies that are not JSON."""

from typing import Any

import schemathesis


@schemathesis.serializer(
    "application/x-ndjson", "application/ndjson", "application/jsonl", "application/gzip"
)
def send_as_it_is(_context: Any, value: Any) -> bytes:
    """Send a file as bytes."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
