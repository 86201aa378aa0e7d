"""Runs one drill."""

import secrets
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

import psutil
import psycopg
from rich.console import Console
from rich.table import Table

from drill.book import migrate_books
from drill.clients import Journal, Order, Orders, Supplier
from drill.count import CALM_ACCOUNTS, Line, count, describe
from drill.faults import FAULTS, deal
from drill.feed import FeedReader
from drill.scene import IN_PROGRESS, POISON, POISONED, SUPPLIER, Scene
from migration_service_local.samples import generate_accounts
from support.servers import wait_until

#: The concurrency limit. It is smaller than the number of clients, so that it is reached.
_LIMIT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOptions:
    #: The same seed has the same accounts and faults. Without one, each drill has another.
    seed: int = field(default_factory=lambda: secrets.randbelow(1_000_000))
    rounds: int = 20
    #: At least this many accounts, without those of batches.
    accounts: int = 500
    clients: int = 16
    #: Seconds that a supplier waits between two accounts, or between two batches.
    pause: float = 0.1
    poisoned: int = 2
    #: Seconds that a process request waits for a worker. They are few, so that attempts are withdrawn.
    wait: float = 3.0
    #: The share of accounts that are given up at the first 429.
    impatient: float = 0.2
    #: Seconds within which the service has to recover from a fault, and be idle at the end.
    recovery: float = 60.0
    #: The names of the kinds of faults. Empty for all.
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recovery of the service from one fault, in seconds from the end of the fault."""

    #: Until an account was created that was requested after the fault.
    new_work: float
    #: Until every attempt from before the end of the fault had an outcome.
    work_in_hand: float
    #: Until the status endpoint answered again.
    answers: float


@dataclass(slots=True)
class Verdict:
    """The result of the drill."""

    lines: list[Line]
    recoveries: dict[str, list[Recovery]]
    journal: Journal
    seconds: float
    created: int
    poison_kills: int

    @property
    def losses(self) -> int:
        """Return how many things were lost, duplicated or wrong."""
        return sum(len(line.losses) for line in self.lines)


@dataclass(slots=True)
class _Drill:
    options: DrillOptions
    scene: Scene
    console: Console
    journal: Journal = field(default_factory=Journal)
    enough: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    most_in_progress: int = 0
    poison_kills: int = 0
    recoveries: dict[str, list[Recovery]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> Verdict:
        started = time.monotonic()
        reader = FeedReader(self.scene)
        client = Supplier(self.scene.address, self.journal)
        beside = [
            threading.Thread(target=self._watch, daemon=True),
            threading.Thread(target=self._kill_poisoned, daemon=True),
            threading.Thread(target=reader.read_on, args=[client, self.over], daemon=True),
        ]
        for thread in beside:
            thread.start()
        suppliers = self._suppliers()
        for supplier in suppliers:
            supplier.start()
        books = threading.Thread(
            target=migrate_books,
            args=[Supplier(self.scene.address, self.journal), self.journal, self.options.seed + 2_000],
            kwargs={"enough": self.enough, "pause": self.options.pause},
            daemon=True,
        )
        books.start()
        poisoned = self._order_poison()
        wait_until(lambda: len(self.journal.created()) >= self.options.clients, "the first accounts")
        self._rounds()
        asked = self.journal.orders
        wait_until(
            lambda: len(asked) - self.journal.lines >= self.options.accounts, "all accounts asked for", 600
        )
        self.enough.set()
        for thread in [*suppliers, books, *poisoned]:
            thread.join(300)
        self._settle()
        kept_slots = self._create_calmly()
        created = len(self.journal.created())
        self.over.set()
        for thread in beside:
            thread.join()
        lines = count(self.scene, self.journal, _LIMIT, self.most_in_progress, kept_slots)
        lines += [
            Line("the feed has each event once, in order", len(reader.events), reader.losses(client)),
            Line("each created account is told of once", created, reader.untold()),
        ]
        seconds = time.monotonic() - started
        return Verdict(lines, self.recoveries, self.journal, seconds, created, self.poison_kills)

    def _suppliers(self) -> list[threading.Thread]:
        orders = Orders(self.options.seed, impatient=self.options.impatient)
        addresses = self.scene.addresses
        return [
            threading.Thread(
                target=Supplier(addresses[index % len(addresses)], self.journal).migrate_all,
                args=[orders, self.enough],
                kwargs={"pause": self.options.pause},
                daemon=True,
            )
            for index in range(self.options.clients)
        ]

    def _order_poison(self) -> list[threading.Thread]:
        """Poisoned accounts, which are not in the journal. They must fail with a reason."""

        def poison(supplier: Supplier, order: Order) -> None:
            try:
                supplier.stage_and_process_once(order)
            except Exception as error:
                self.journal.surprises.append(f"{order.number}: {type(error).__name__} {error}")

        threads: list[threading.Thread] = []
        orders = Orders(self.options.seed + 1_000)
        for index in range(self.options.poisoned):
            order = next(orders)
            order.payload["external_account_number"] = f"{POISON}{index}"
            order.asynchronous = bool(index % 2)
            supplier = Supplier(self.scene.address, self.journal)
            threads.append(threading.Thread(target=poison, args=[supplier, order], daemon=True))
            threads[-1].start()
        return threads

    def _rounds(self) -> None:
        chance = Random(self.options.seed)
        names = deal(self.options.rounds, chance, self.options.only or tuple(FAULTS))
        for index, name in enumerate(names, 1):
            time.sleep(chance.uniform(0.5, 2.5))
            rows = self.scene.query("SELECT id::text FROM attempt WHERE outcome IS NULL")
            in_hand = [attempt for (attempt,) in rows]
            FAULTS[name](self.scene, chance)
            recovery = self._recover(name, in_hand)
            self.recoveries[name].append(recovery)
            created = len(self.journal.created())
            self.console.print(
                f"round {index:>2}/{len(names)}  {name:<30} new work after {recovery.new_work:5.1f} s, "
                f"work in hand after {recovery.work_in_hand:5.1f} s, "
                f"answers after {recovery.answers:4.1f} s; {created} created"
            )

    def _recover(self, name: str, in_hand: list[str]) -> Recovery:
        """Wait until the service has recovered from a fault, and record how long each part took."""
        hit = time.monotonic()
        done: dict[str, float] = {}

        def new_work() -> bool:
            return any(order.asked_at > hit for order in self.journal.created()[-200:])

        def work_in_hand() -> bool:
            left = self.scene.query(
                "SELECT 1 FROM attempt a JOIN account_import_process p ON p.id = account_import_process_id "
                "WHERE a.id::text = ANY(%s) AND outcome IS NULL AND external_account_number NOT LIKE %s",
                in_hand,
                f"{POISON}%",
            )
            return not left

        checks = {"answers": self.scene.is_serving, "new_work": new_work, "work_in_hand": work_in_hand}
        while len(done) < len(checks) and time.monotonic() < hit + self.options.recovery:
            for what in checks.keys() - done.keys():
                try:
                    if checks[what]():
                        done[what] = time.monotonic() - hit
                except psycopg.Error:
                    continue
            time.sleep(0.1)
        for what in checks.keys() - done.keys():
            self.journal.surprises.append(f"{name}: {what} not well within {self.options.recovery:.0f} s")
        return Recovery(**{what: done.get(what, self.options.recovery) for what in checks})

    def _watch(self) -> None:
        while not self.over.wait(0.05):
            # Until PostgreSQL is killed.
            with suppress(psycopg.Error), self.scene.connect() as connection:
                while not self.over.wait(0.05):
                    [(count,)] = connection.execute(IN_PROGRESS.encode()).fetchall()
                    self.most_in_progress = max(self.most_in_progress, count)

    def _kill_poisoned(self) -> None:
        """Kill every worker child that creates a poisoned account, which has to fail after its tries.

        A trigger holds the worker in the middle of its transaction.
        """
        while not self.over.wait(0.2):
            with suppress(psycopg.Error, psutil.Error):  # PostgreSQL is affected by a fault, or it has ended
                if victim := self.scene.worker_at(POISONED):
                    victim.kill()
                    victim.wait(5)
                    self.poison_kills += 1

    def _settle(self) -> None:
        """Wait until the maintenance is done. What it leaves is counted."""
        seconds = 2 * self.options.recovery
        try:
            self.scene.wait_until_quiet(seconds)
        except AssertionError:
            self.console.print(f"It did not become quiet within {seconds:.0f} s.")

    def _create_calmly(self) -> list[str]:
        """Create some accounts after the last fault. Return what went wrong.

        The maintenance releases slots that were kept by mistake, so they could not be found at the end.
        """
        supplier = Supplier(self.scene.address, self.journal)
        losses = []
        for payload in generate_accounts(CALM_ACCOUNTS, supplier=SUPPLIER):
            payload["external_account_number"] = f"CALM-{secrets.token_hex(4)}"
            order = Order(payload, asynchronous=False, dry_run_first=False)
            before = self.scene.slots_in_use()
            supplier.try_to_migrate(order)
            try:
                wait_until(lambda before=before: self.scene.slots_in_use() <= before, "the slot", 1)  # type: ignore[misc]
            except AssertionError:
                losses.append(f"{order.number}: a second after the answer its slot was still held")
        return losses


def run_drill(options: DrillOptions, folder: Path, console: Console) -> Verdict:
    # Batches leave two thirds of the slots to requests.
    reserve = {"MIGRATION_SERVICE_BATCH_SLOT_RESERVE": str(_LIMIT * 2 // 3)}
    wait = {"MIGRATION_SERVICE_PROCESS_WAIT_SECONDS": str(options.wait)}
    console.print(f"seed {options.seed}")
    journal = Journal(patience=2.5 * options.recovery)
    with Scene(folder, limit=_LIMIT, environment=reserve | wait) as scene:
        return _Drill(options, scene, console, journal).run()


def show(verdict: Verdict, options: DrillOptions, console: Console) -> None:
    promises = Table(
        "promise", "counted", "losses", title=f"The drill, seed {options.seed}, {options.rounds} rounds"
    )
    for line in verdict.lines:
        promises.add_row(line.promise, str(line.counted), describe(line.losses) or "0")
    console.print(promises)
    recoveries = Table(
        "fault", "times", "new work after", "work in hand after", "answers after", title="Well again (s)"
    )
    for name, found in sorted(verdict.recoveries.items()):
        recoveries.add_row(
            name,
            str(len(found)),
            _spread([recovery.new_work for recovery in found]),
            _spread([recovery.work_in_hand for recovery in found]),
            _spread([recovery.answers for recovery in found]),
        )
    console.print(recoveries)
    statuses = ", ".join(f"{status}: {times}" for status, times in sorted(verdict.journal.statuses.items()))
    console.print(f"{verdict.created} accounts created in {verdict.seconds:.0f} s; answers: {statuses}")
    console.print(f"{verdict.poison_kills} worker children killed by poisoned accounts")
    console.print(f"losses: {verdict.losses}")


def _spread(seconds: list[float]) -> str:
    if len(seconds) == 1:
        return f"{seconds[0]:.1f}"
    return f"{median(seconds):.1f}, at most {max(seconds):.1f}"
