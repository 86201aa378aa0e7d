"""The headers of the interface, for its description. Each is defined once and referred to by name."""

from typing import Any

Headers = dict[str, dict[str, Any]]

#: The components by the name of the header.
HEADERS: Headers = {
    "X-Request-ID": {
        "description": "The id of the request in the logs: the client's own, or a new one.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    },
    "Location": {
        "description": "The address of its progress.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Retry-After": {
        "description": "Send the same request again after this many seconds.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "Link": {
        "description": 'The next page, as `<address>; rel="next"` (RFC 8288). Absent on the last one.',
        "schema": {"type": "string"},
    },
    "Preference-Applied": {
        "description": "`respond-async` if the request preferred it (RFC 7240).",
        "schema": {"type": "string"},
    },
    "X-Warning-Count": {
        "description": "How many warnings the payload has. `?report=full` lists them.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "X-Lines-Left-Out": {
        "description": "How many failed lines are left out: those that were too long to keep, and those that "
        "repeat an earlier account.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {"description": "How to send a token (RFC 9110).", "schema": {"type": "string"}},
}


def refer(*names: str) -> Headers:
    """Return the headers of a response by their names."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


#: The headers of every response with a status, in addition to those of its operation.
BY_STATUS = {
    "202": ("Location", "Retry-After"),
    "401": ("WWW-Authenticate",),
    "429": ("Retry-After",),
    "503": ("Retry-After",),
}

#: The header that makes it safe to retry a request.
KEY: dict[str, Any] = {
    "in": "header",
    "name": "Idempotency-Key",
    "description": "Any text of up to 128 characters, new for each request. A repeated request with the same "
    "key gets the first response again and has no further effect.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 128},
}

PREFER: dict[str, Any] = {
    "in": "header",
    "name": "Prefer",
    "description": "`respond-async`: respond with 202 immediately, without waiting for "
    "the outcome (RFC 7240).",
    "schema": {"type": "string", "examples": ["respond-async"]},
}

#: The schema of a response in CSV.
CSV = {"type": "string", "description": "RFC 4180, in UTF-8, with a header."}
#: The schema of lines as a client sent them.
LINES = {"type": "string", "description": "The lines as they were sent."}
