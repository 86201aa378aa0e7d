"""What schemathesis has to be told: how the bodies that are not JSON are sent."""

from typing import Any

import schemathesis


@schemathesis.serializer(
    "application/x-ndjson", "application/ndjson", "application/jsonl", "application/gzip"
)
def send_as_it_is(_context: Any, value: Any) -> bytes:
    """A file: bytes."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
