"""A client that reads the feed of events during the faults, and what it must have read at the end."""

from collections import Counter
from contextlib import suppress
from threading import Event

from drill.scene import Service
from migration_service_client import Client, ClientError
from migration_service_client.codes import EventCursorAhead
from migration_service_client.models import FeedEvent
from support.servers import wait_until

_PAUSE, _PATIENCE = 0.3, 60.0


class FeedReader:
    """Reads on after its cursor, whatever fails. `rewound` counts how often a restore set the cursor back."""

    def __init__(self, service: Service) -> None:
        self.events: list[FeedEvent] = []
        self.rewound = 0
        self._service = service
        self._cursor = "start"
        #: The ids that were read since the cursor was last set back, and those that were read twice since.
        self._fresh: set[str] = set()
        self._repeated: list[str] = []

    def read_on(self, client: Client, enough: Event) -> None:
        """Read what there is, again and again until `enough`."""
        while not enough.wait(_PAUSE):
            with suppress(ClientError):
                self._read(client)

    def losses(self, client: Client) -> list[str]:
        """Read what is left. Return what it has not read, read twice, or read in another order."""

        def is_complete() -> bool:
            return not self._read(client) and {event.id for event in self.events}.issuperset(self._kept())

        with suppress(AssertionError):
            wait_until(is_complete, "all events", _PATIENCE)
        kept = self._kept()
        if self.rewound:  # what it had read in vain never happened
            self.events = [event for event in self.events if event.id in set(kept)]
        read = [event.id for event in self.events]
        losses = [f"event {id_} was read twice" for id_ in self._repeated]
        losses += [f"event {id_} was not read" for id_ in set(kept).difference(read)]
        losses += [f"event {id_} was read and does not exist" for id_ in set(read).difference(kept)]
        self._repeated.clear()
        in_order = self.rewound or losses or read == kept
        return losses if in_order else ["the events were read in another order"]

    def untold(self) -> list[str]:
        """Return the created accounts that no event tells of, and those that are told of more than once."""
        told = Counter(self._told())
        made = Counter(
            self._service.query("""
                SELECT external_account_number, attempt.service_account_number
                FROM attempt JOIN account_import_process process ON process.id = account_import_process_id
                WHERE outcome = 'SUCCEEDED'""")
        )
        return [
            f"{account}: created {made[account]}, told {told[account]} times"
            for account in made | told
            if made[account] != told[account]
        ]

    def _told(self) -> list[tuple[str, str]]:
        accounts = []
        for event in self.events:
            told = {"account.created": [event.data], "batch.progressed": event.data.get("lines")}
            for it in told.get(event.type) or ():
                if it.get("service_account_number") and it.get("status", "IMPORTED") in (
                    "IMPORTED",
                    "REPLACED",
                ):
                    accounts.append((it["external_account_number"], it["service_account_number"]))
        return accounts

    def _kept(self) -> list[str]:
        rows = self._service.query("""
            SELECT event.id::text FROM event JOIN organisation ON organisation.id = organisation_id
            WHERE organisation.name = 'Drill' ORDER BY generation, transaction_id, event.id""")
        return [id_ for (id_,) in rows]

    def _read(self, client: Client) -> bool:
        """Read on to the end. Return False if there was nothing."""
        is_empty = True
        try:
            for event in client.list_events(limit=100, cursor=self._cursor):
                is_empty = False
                if event.id in self._fresh:
                    self._repeated.append(event.id)
                else:
                    self._fresh.add(event.id)
                    self.events.append(event)
                self._cursor = event.cursor
        except EventCursorAhead as error:
            self._cursor = str(error.cursor)
            self._fresh.clear()
            self.rewound += 1
            return True
        return not is_empty
