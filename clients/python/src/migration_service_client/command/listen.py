"""`migration-client listen`."""

import hashlib
import signal
import time
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from migration_payloads.files.output import OutputPath, say
from migration_service_client import Client, ClientError, ServiceError, ServiceUnreachable, codes
from migration_service_client.command import forwarding
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.journal import Journal, Record
from migration_service_client.command.online import Service, online
from migration_service_client.command.output import escape, json_option, read_moment, show_json
from migration_service_client.errors import UnexpectedAnswer
from migration_service_client.models import EVENTS, FeedEvent

_TOO_MANY, _OF_THE_SERVER = 429, 500
COMMAND = "listen"
#: Seconds between two questions while nothing happens, and at most before a receiver is tried again.
_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_LARGEST_PAGE = 10_000
#: How many forwarded events are known by their ids, and how many records a journal has at most.
_KNOWN, _LONGEST_JOURNAL = 1_000, 20_000


def _read_types(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> frozenset[str] | None:
    if text is None:
        return None
    types = frozenset(it.strip() for it in text.split(","))
    if unknown := sorted(types - set(EVENTS)):
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(EVENTS)}.")
    return types


def _read_since(_context: click.Context, _parameter: click.Parameter, text: str) -> str | datetime:
    return text if text in ("now", "start") else read_moment(text)


@click.command()
@click.option("--forward-to", metavar="URL", help="Send each event to this receiver, signed like a webhook.")
@click.option("--types", callback=_read_types, metavar="TYPE,TYPE", help="Only events of these types.")
@click.option(
    "--since",
    default="now",
    show_default=True,
    callback=_read_since,
    metavar="now|start|MOMENT",
    help="Where to begin the first time: start is the oldest event that the service has.",
)
@click.option(
    "--journal",
    type=OutputPath(),
    metavar="FILE",
    help="Where to note what was forwarded.  [default: a file of this URL]",
)
@forwarding.secret_file_option
@json_option
@online()
def listen(
    *,
    forward_to: str | None,
    types: frozenset[str] | None,
    since: str | datetime,
    journal: Path | None,
    secret_file: Path | None,
    as_json: bool,
    service: Service,
) -> None:
    """Print events as they happen, and forward them to a receiver.

    With --forward-to the command goes on after the last event that the receiver has answered with 2xx, also
    if it was killed. An event that is not received is sent again until it is. Ctrl-C ends the command.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    position = _Position()
    opened: AbstractContextManager[Journal | None] = nullcontext()
    receiver = None
    if forward_to is not None:
        service.require()
        receiver = forwarding.make_receiver(forward_to, secret_file)
        path = journal or _default_journal(service.url or "", forward_to)
        opened = Journal(path, COMMAND, position.add)
        say(f"What was forwarded is noted in {path}.", err=True)
    with opened as kept, service.client() as client:
        listener = _Listener(client, receiver, position, kept, types, as_json=as_json)
        try:
            listener.begin(since)
            listener.run()
        except KeyboardInterrupt:
            say(f"Stopped. Events printed: {listener.seen}.", err=True)


def _default_journal(url: str, forward_to: str) -> Path:
    name = hashlib.sha256(f"{url}\n{forward_to}".encode()).hexdigest()[:12]
    return forwarding.state_folder() / f"listen-{name}.journal"


class _Position:
    """The place in the feed, and the events before it that are known. `add` takes records of the journal."""

    def __init__(self) -> None:
        self.has_begun = False
        self.cursor: str | None = None
        #: The moment before which nothing is wanted.
        self.since: datetime | None = None
        self.length = 0
        self._ids: deque[str] = deque(maxlen=_KNOWN)

    def add(self, record: Record) -> None:
        """Take a record: the beginning, which may have a moment, or an event that is done."""
        self.has_begun, self.cursor = True, record["cursor"]
        self.length += 1
        if record.get("since"):
            self.since = datetime.fromisoformat(record["since"])
        if "id" in record:
            self._ids.append(record["id"])

    def knows(self, event: FeedEvent) -> bool:
        """Return whether an event is done: after a restore of the database some come again."""
        return event.id in self._ids

    def shortened(self) -> list[Record]:
        """Return records that mean the same as all so far."""
        self.length = len(self._ids) + 1
        since = self.since.isoformat() if self.since else None
        return [
            {"cursor": self.cursor, "since": since},
            *({"cursor": self.cursor, "id": it} for it in self._ids),
        ]


class _Listener:
    """Reads the feed, and hands over each event until it is received."""

    def __init__(
        self,
        client: Client,
        receiver: forwarding.Receiver | None,
        position: _Position,
        journal: Journal | None,
        types: frozenset[str] | None,
        *,
        as_json: bool,
    ) -> None:
        self._client = client
        self._receiver = receiver
        self._position = position
        self._journal = journal
        self._types = types
        self._as_json = as_json
        self.seen = 0

    def begin(self, since: str | datetime) -> None:
        """Find the place to begin at, unless the journal has one. Raise the error if the service is away."""
        if self._position.has_begun:
            return
        cursor = None
        if since == "now":
            for event in self._client.list_events(limit=_LARGEST_PAGE):
                cursor = event.cursor
        self._note({"cursor": cursor, "since": since.isoformat() if isinstance(since, datetime) else None})

    def run(self) -> NoReturn:
        """Read on for ever."""
        while True:
            try:
                for event in self._client.list_events(cursor=self._position.cursor):
                    self._handle(event)
            except codes.EventCursorAhead as error:
                say("The service's database was set back. What is known is left out.", err=True)
                self._position.cursor = error.cursor
                continue
            except ClientError as error:
                self._endure(error)
            time.sleep(_PAUSE)

    def _handle(self, event: FeedEvent) -> None:
        since = self._position.since
        is_wanted = self._types is None or event.type in self._types
        is_wanted = is_wanted and (since is None or event.created_at >= since)
        if is_wanted and not self._position.knows(event):
            status = None if self._receiver is None else _until_received(self._receiver, _form(event))
            self._print(event, status)
        self._note({"cursor": event.cursor, "id": event.id})

    def _note(self, record: Record) -> None:
        """Note that everything up to a cursor is done."""
        self._position.add(record)
        if self._journal is None:
            return
        if self._position.length > _LONGEST_JOURNAL:
            self._journal.replace(self._position.shortened())
        else:
            self._journal.append(record)

    def _print(self, event: FeedEvent, status: int | None) -> None:
        self.seen += 1
        if self._as_json:
            show_json(_form(event))
            return
        received = "" if status is None else f"  {status}"
        moment = event.created_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        say(escape(f"{moment}  {event.type}  {event.import_supplier or '-'}  {event.id}{received}"))

    def _endure(self, error: ClientError) -> None:
        """Say that the service is away. Raise the error again if waiting does not help."""
        is_away = isinstance(error, ServiceUnreachable | UnexpectedAnswer) or (
            isinstance(error, ServiceError) and (error.status == _TOO_MANY or error.status >= _OF_THE_SERVER)
        )
        if isinstance(error, codes.EventCursorExpired):
            raise CannotRunError(
                "Events after the last one that was forwarded are no longer kept, so some are missed. To go "
                "on with the oldest that there is, name another --journal, and --since start."
            ) from error
        if isinstance(error, codes.EventCursorInvalid):
            raise CannotRunError(
                "The --journal is one of another service or organisation. Name another one to read from the "
                "place that --since says."
            ) from error
        if not is_away:
            raise error
        say(f"The service is away: {escape(str(error))}. It is asked again.", err=True)


def _until_received(receiver: forwarding.Receiver, event: dict[str, Any]) -> int:
    """Send an event until it is received, and return the status."""
    pause = _PAUSE
    while True:
        try:
            return receiver.send(event)
        except forwarding.NotReceivedError as error:
            what = f"{event['type']} {event['id']}"
            say(escape(f"{receiver.url} did not receive {what}: {error}. Again in {pause:g} s."), err=True)
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, 2 * pause)


def _form(event: FeedEvent) -> dict[str, Any]:
    """Return an event as the service sends it to webhooks."""
    moment = event.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "id": event.id,
        "type": event.type,
        "created_at": moment,
        "import_supplier": event.import_supplier,
        "data": event.data,
    }
