"""A client that reads the feed of events during the faults, and what it must have read at the end."""

import threading
from collections import Counter
from contextlib import suppress
from typing import Any

import requests

from drill.scene import Scene

_PAUSE = 0.2


class FeedReader(threading.Thread):
    """Reads on after the last event that it has, whatever fails in between."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(name="reader of events", daemon=True)
        self.events: list[dict[str, Any]] = []
        self._scene = scene
        self._enough = threading.Event()

    def run(self) -> None:
        """Read until `finish`."""
        while not self._enough.wait(_PAUSE):
            with suppress(requests.RequestException):
                self._read()

    def finish(self) -> None:
        """Read what is left."""
        self._enough.set()
        self.join()
        while self._read():
            pass

    def losses(self) -> list[str]:
        """Return what it has not read, read twice, or read in another order than that of the table."""
        read, kept = [event["id"] for event in self.events], self._kept()
        losses = [f"event {id_} was read {times} times" for id_, times in Counter(read).items() if times > 1]
        losses += [f"event {id_} was not read" for id_ in set(kept).difference(read)]
        losses += [f"event {id_} was read and does not exist" for id_ in set(read).difference(kept)]
        return losses or ([] if read == kept else ["the events were read in another order"])

    def untold(self) -> list[str]:
        """Return the created accounts that no event tells of, and those that are told of more than once."""
        told = Counter(self._told())
        made = Counter(
            self._scene.query("""
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
            told = {"account.created": [event["data"]], "batch.progressed": event["data"].get("lines")}
            for it in told.get(event["type"]) or ():
                if it.get("service_account_number") and it.get("status", "IMPORTED") == "IMPORTED":
                    accounts.append((it["external_account_number"], it["service_account_number"]))
        return accounts

    def _kept(self) -> list[str]:
        rows = self._scene.query("""
            SELECT event.id::text FROM event JOIN organisation ON organisation.id = organisation_id
            WHERE organisation.name = 'Drill' ORDER BY generation, transaction_id, event.id""")
        return [id_ for (id_,) in rows]

    def _read(self) -> int:
        """Read the next events, and return their number. 0 also if the service does not answer now."""
        after = {"cursor": self.events[-1]["cursor"]} if self.events else {}
        answer = self._scene.send("GET", "events/", params={"limit": 100, **after})
        if answer.status_code != 200:
            return 0
        found = answer.json()
        self.events += found
        return len(found)
