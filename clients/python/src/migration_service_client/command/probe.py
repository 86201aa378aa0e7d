"""One request without a token, for what it shows of the service: whether it answers, TLS and the clock."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from migration_service_client.answers import parse
from migration_service_client.client import Client
from migration_service_client.conversations import NoAnswer
from migration_service_client.errors import UnexpectedAnswer
from migration_service_client.transfers import Way


@dataclass(frozen=True, slots=True)
class Seen:
    """What a request showed."""

    way: Way
    #: Why no answer came, or None.
    failure: str | None = None
    #: The seconds by which the clock of this machine is ahead, or None if the answer has no date.
    clock_ahead: float | None = None
    #: Whether the answer is one of the service: without a token it is a 401 with a body of its own.
    is_service: bool = False

    @property
    def certificate_ends(self) -> datetime | None:
        """Return when the certificate expires, or None without TLS."""
        text = self.way.certificate_ends
        return datetime.strptime(text, "%b %d %H:%M:%S %Y %Z").replace(tzinfo=UTC) if text else None


def probe(client: Client) -> Seen:
    """Send one request, the way that all requests go, and return what it showed."""
    begun = time.time()
    answer, way = client.examine()
    if isinstance(answer, NoAnswer):
        return Seen(way, answer.reason)
    try:
        body: Any = parse(answer.body)
    except UnexpectedAnswer:
        body = None
    now = (begun + time.time()) / 2
    return Seen(way, None, _ahead(answer.headers.get("date"), now), isinstance(body, dict) and "code" in body)


def _ahead(date: str | None, now: float) -> float | None:
    """Return by how much `now` is later than a header, which has whole seconds."""
    try:
        return now - parsedate_to_datetime(date or "").timestamp() - 0.5
    except (ValueError, TypeError):
        return None
