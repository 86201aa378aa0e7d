"""A request as data: what to send, and the type of the answer. Nothing here sends anything."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

from migration_service_client.uploads import Upload, encoded

Json: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """A request that is answered with one `T`. It can be sent several times.

    `answer` is the type of the answer.
    """

    operation: str
    method: str
    path: str
    answer: Any
    _: KW_ONLY
    query: Json = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    body: Any = None
    accept: str = "application/json"
    #: Whether a 202 leads to an attempt that is followed to its outcome.
    follow: bool = False
    #: Whether it is sent with a token.
    authorized: bool = True

    def __post_init__(self) -> None:
        given = {name: _text(value) for name, value in self.query.items() if value is not None}
        headers = {name: it for name, it in self.headers.items() if it is not None} | {"Accept": self.accept}
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"The header {name} has other than printable ASCII characters: {value!r}.")
        if "Idempotency-Key" in self.headers:
            # It is the same for each repetition of this request.
            headers.setdefault("Idempotency-Key", str(uuid4()))
        body = self.body
        if isinstance(body, Mapping):
            body = encoded(body)
        elif isinstance(body, str):
            body = body.encode()
        if isinstance(body, bytes):
            headers["Content-Type"] = "application/json"
        elif isinstance(body, Upload):
            headers["Content-Type"] = body.media_type
            if body.file_name and "file_name" in self.query:
                given.setdefault("file_name", body.file_name)
        object.__setattr__(self, "query", given)
        object.__setattr__(self, "headers", headers)
        object.__setattr__(self, "body", body)

    @property
    def target(self) -> str:
        """Return the path with the query, below the address of the service."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


class Pages(Request[T]):
    """A request whose answer is a page of a list of `T`, with a link to the next page."""

    __slots__ = ()


class Lines(Request[T]):
    """A request whose answer is a stream with one `T` in each line."""

    __slots__ = ()


def as_sent(request: Lines[Any], accept: str | None = None) -> Lines[bytes]:
    """Return the request for the lines of a stream as they are sent, which may have another media type."""
    return replace(request, answer=bytes, accept=accept or request.accept)


def target(operation: str, template: str, *parts: object) -> tuple[str, str, str]:
    """Return the operation, and the method and the path of a template such as `GET batches/{}/`.

    Each part is percent-encoded, also if it contains slashes.
    """
    method, path = template.split()
    return operation, method, "/v1/data-import/" + path.format(*(quote(str(part), safe="") for part in parts))


class Absent(Enum):
    """Stands for a member that is not sent. None is sent as null."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return self.name


ABSENT = Absent.ABSENT


def members(**given: Any) -> dict[str, Any]:
    """Return the members of a body, without those that are not given."""
    return {name: value for name, value in given.items() if value is not ABSENT}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, datetime) else str(value)
