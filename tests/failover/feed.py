"""A reader of the feed of events, which goes on from its cursor whatever fails."""

import time
from contextlib import suppress
from threading import Event

from drill.clients import Supplier
from drill.scene import Service
from support.servers import wait_until

_PAUSE, _PATIENCE = 0.5, 60.0


class FeedReader:
    """Reads all events once, in all scenarios. `rewound` counts how often its cursor was set back."""

    def __init__(self) -> None:
        self.rewound = 0
        self._cursor = "start"
        #: The ids of all events, and of those since the cursor was last set back.
        self._seen: set[str] = set()
        self._fresh: set[str] = set()
        self._repeated: list[str] = []

    def read_on(self, supplier: Supplier, enough: Event) -> None:
        """Read what there is, again and again until `enough`."""
        while not enough.wait(_PAUSE):
            with suppress(TimeoutError):
                self._read(supplier)

    def compare(self, supplier: Supplier, service: Service) -> list[str]:
        """Read the rest. Return the events that the feed left out or repeated, or that never happened."""
        ids: set[str] = set()

        def is_complete() -> bool:
            ids.update(str(id_) for (id_,) in service.query("SELECT id FROM event"))
            return not self._read(supplier) and ids <= self._seen

        with suppress(AssertionError):
            wait_until(is_complete, "all events", _PATIENCE)
        wrong = [f"event {id_} was repeated" for id_ in self._repeated]
        wrong += [f"event {id_} is not in the feed" for id_ in ids - self._seen]
        if not self.rewound:
            wrong += [f"event {id_} was read, and never happened" for id_ in self._seen - ids]
        self._repeated.clear()
        self._seen &= ids
        return wrong

    def _read(self, supplier: Supplier) -> int:
        """Read a page, and return how many events it has."""
        answer = supplier.send("GET", f"events/?cursor={self._cursor}", time.monotonic() + _PATIENCE)
        if answer.status_code == 400 and answer.json()["code"] == "event_cursor_ahead":
            self._cursor = answer.json()["cursor"]
            self._fresh.clear()
            self.rewound += 1
            return 1
        if not answer.ok:
            return 1
        events = answer.json()
        for event in events:
            if event["id"] in self._fresh:
                self._repeated.append(event["id"])
            self._fresh.add(event["id"])
            self._seen.add(event["id"])
            self._cursor = event["cursor"]
        return len(events)
