"""Runs one scenario under load, and finds what became of every request."""

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from drill.book import migrate_books
from drill.clients import Journal, Supplier
from drill.count import find_doubled, read_rows, read_tables
from drill.history import Act, Event, Result, by_account
from drill.load import Load
from drill.model import MODEL
from drill.scene import SUPPLIER
from failover.scenarios import SCENARIOS
from failover.world import World
from support.servers import COMMAND, wait_until

#: Seconds of load before a fault, and after all is well again.
_BEFORE, _AFTER = 4.0, 4.0
#: Seconds between two suppliers that begin whatever became of those before.
_ARRIVALS = 0.5
#: Seconds within which something has to be written again.
_PATIENCE = 90.0
_ROUTES = {
    Act.STAGE: "/v1/data-import/account-import-process/create-or-update/",
    Act.PROCESS: "/v1/data-import/account-import-process/process/",
}


@dataclass(slots=True)
class Outcome:
    """What became of the requests of one scenario."""

    scenario: str
    synchronous: bool
    #: Seconds without any answer to a request that writes: until the next one after the fault.
    seconds: float
    #: Requests that were answered 5xx, or not at all.
    failed: int
    requests: int
    created: int
    #: Why requests failed: the kind, status and code, or "no answer", of those about single accounts.
    failures: dict[str, int] = field(default_factory=dict)
    #: Accounts of which a client was told something that the database does not have, by the drill's own
    #: comparison and by the doctor's.
    lost: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    #: In the audit, of all scenarios so far.
    gaps: int = 0
    doubled: list[str] = field(default_factory=list)
    #: Whatever else does not hold.
    wrong: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Return True if nothing is wrong or lost. Without synchronous replication, losses are all named."""
        allowed = not self.synchronous or not self.lost
        return allowed and set(self.lost) == set(self.named) and not self.doubled and not self.wrong


def run_scenario(world: World, name: str, *, synchronous: bool) -> Outcome:
    """Run a scenario under load."""
    scenario = SCENARIOS[name]
    enough = threading.Event()
    with Load(world, suppliers=6) as load:
        journal = load.journal
        reader = Supplier(world.address, journal)
        others = [
            threading.Thread(target=_arrive, args=[world, load, enough]),
            threading.Thread(target=world.feed.read_on, args=[reader, enough]),
            threading.Thread(
                target=migrate_books,
                args=[Supplier(world.address, journal), journal, 77, enough],
                kwargs={"pause": 1.0, "beginning": f"BOOK-{time.time_ns()}-"},
            ),
        ]
        for thread in others:
            thread.start()
        time.sleep(_BEFORE)
        failed_at = time.monotonic()
        fault = scenario.fault(world)
        wrong: list[str] = []
        try:
            next(fault)
            time.sleep(max(failed_at + scenario.lasts - time.monotonic(), 0))
            if not scenario.from_repair:
                _wait_for_work(journal, failed_at)
        except AssertionError as error:
            wrong.append(f"before the repair: {error}")
        repaired_at = time.monotonic()
        try:
            next(fault, None)
            _wait_for_work(journal, repaired_at)
            world.cluster.wait_until_whole()
        except AssertionError as error:
            wrong.append(f"after the repair: {error}")
        ended_at = time.monotonic()
        time.sleep(_AFTER)
        enough.set()
        for thread in others:
            thread.join()
    events = [event for event in journal.events if event.question.act in scenario.acts]
    outcome = Outcome(
        name,
        synchronous,
        round(_longest_silence(events, repaired_at if scenario.from_repair else failed_at, ended_at), 2),
        failed=sum(
            times for status, times in journal.statuses.items() if status >= "500" or status == "no answer"
        ),
        requests=sum(journal.statuses.values()),
        created=len(journal.created()),
        failures=dict(Counter(_name(it) for it in journal.events if it.result is Result.UNKNOWN)),
        wrong=wrong,
    )
    _compare(world, journal, reader, outcome)
    return outcome


def _arrive(world: World, load: Load, enough: threading.Event) -> None:
    """Start a supplier with one account every half a second, whatever became of those before."""
    started: list[threading.Thread] = []
    while not enough.wait(_ARRIVALS):
        supplier = Supplier(world.address, load.journal)
        started.append(threading.Thread(target=supplier.try_to_migrate, args=[load.next_order()]))
        started[-1].start()
    for thread in started:
        thread.join()


def _wait_for_work(journal: Journal, moment: float) -> None:
    wait_until(
        lambda: any(order.asked_at > moment for order in journal.created()[-100:]),
        "an account that was asked for after the fault",
        _PATIENCE,
    )


def _longest_silence(events: Iterable[Event], since: float, until: float) -> float:
    answered = sorted(event.ended for event in events if event.result is Result.OK and event.ended > since)
    times = [since, *(moment for moment in answered if moment < until), until]
    return max(later - earlier for earlier, later in pairwise(times))


def _name(event: Event) -> str:
    return f"{event.question.act} {event.status or 'no answer'} {event.said}".strip()


def _compare(world: World, journal: Journal, reader: Supplier, outcome: Outcome) -> None:
    """Compare what clients were told with the tables, by the drill's model and by the doctor."""
    try:
        wait_until(world.is_idle, "idle", 120)
    except AssertionError:
        outcome.wrong.append("it did not become idle within two minutes")
    accounts, processes = read_rows(world)
    attempts = {row[0] for row in world.query("SELECT request_id FROM attempt")}
    histories = by_account(journal.events)
    outcome.doubled = find_doubled(accounts, processes)
    for number, events in histories.items():
        if _is_lost(events, processes.get(number), attempts):
            outcome.lost.append(number)
    outcome.named = _ask_doctor(world, journal)
    tables, lost = read_tables(world), set(outcome.lost)
    ours = {number: events for number, events in histories.items() if number not in lost}
    tables = replace(tables, attempts=[row for row in tables.attempts if row.number in ours])
    for promise, check in MODEL.items():
        outcome.wrong += [f"{promise}: {loss}" for loss in check(ours, tables)]
    outcome.wrong += world.feed.losses(reader)
    [audit] = _run(world, "audit", "verify")
    outcome.gaps = len(audit["gaps"])
    outcome.wrong += audit["problems"]
    # A 5xx is a failed request, and was counted.
    surprises = [it for it in journal.surprises if not it.startswith("/v1/")]
    # With its commits a batch is lost, too.
    excused = ("batch with", *lost) if lost and not outcome.synchronous else ()
    outcome.wrong += [it for it in surprises if not it.startswith(excused)]


def _is_lost(events: list[Event], row: tuple[Any, ...] | None, attempts: set[str]) -> bool:
    """Return True if a client was told something of this account that the database does not have.

    `row` has its number, its state, its service account number and the request that staged it.
    """
    known = [event for event in events if event.result is Result.OK or event.told]
    if not known:
        return False
    if row is None:
        return True
    lives = [index for index, event in enumerate(events) if event.question.act is Act.UNDO]
    told = [event.told for event in events[lives[-1] if lives else 0 :] if event.told]
    if told and row[2] != told[-1]:
        return True
    processed = [it for it in known if it.question.act is Act.PROCESS and it.status in (201, 202)]
    return any(it.request_id not in attempts for it in processed)


def _ask_doctor(world: World, journal: Journal) -> list[str]:
    """Return the accounts that `doctor --after-failover` names, from the journal and the access logs."""
    file = world.folder / "journal.ndjson"
    wall, mono = time.time(), time.monotonic()
    with file.open("w") as lines:
        for event in journal.events:
            if event.status is None or (event.question.act not in _ROUTES and not event.told):
                continue
            lines.write(
                json.dumps(
                    {
                        "timestamp": datetime.fromtimestamp(wall - mono + event.ended, UTC).isoformat(),
                        "method": "POST" if event.question.act in _ROUTES else "GET",
                        "route": _ROUTES.get(event.question.act, ""),
                        "status": event.status,
                        "request_id": event.request_id,
                        "import_supplier": SUPPLIER,
                        "external_account_number": event.question.number,
                        "service_account_number": event.told,
                    }
                )
                + "\n"
            )
    files = [f"--after-failover={it}" for it in (file, *(host.log for host in world.hosts.web))]
    found = _run(world, "doctor", *files)
    return sorted({it["external_account_number"] for it in found if it.get("external_account_number")})


def _run(world: World, *arguments: str) -> list[Any]:
    """Run a command of the operators, and return the JSON of each line that it prints."""
    done = subprocess.run(
        [str(COMMAND), *arguments, "--json"],
        check=False,
        env=os.environ | world.environment,
        capture_output=True,
        text=True,
    )
    if done.returncode > 1:
        raise AssertionError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]
