"""Suppliers that migrate accounts with the suppliers' own client, as the interface tells them to."""

import json
import logging
import math
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from http import HTTPStatus
from typing import Any, TypeVar

from drill.history import Act, Event, Question
from drill.scene import SLOW, SUPPLIER, TEAM, TEAMS, Address
from migration_service_client import Client, ServiceError, ServiceUnreachable, operations
from migration_service_client.codes import (
    AccountAlreadyImported,
    AccountImportInProgress,
    DryRunSucceeded,
)
from migration_service_client.conversations import Answer, NoAnswer, Pause, Send, Step, error_of, exchange
from migration_service_client.requests import Lines, Request
from migration_service_local.samples import generate_accounts

#: Seconds between two tries without an answer.
_PAUSE = 0.2
T = TypeVar("T")

# Faults are meant. What was answered is counted.
logging.getLogger("migration_service_client").addHandler(logging.NullHandler())

_SHARE_SLOW, _SHARE_ASYNC, _SHARE_DRY_RUN = 0.25, 0.2, 0.1
_SHARE_RESTAGED, _SHARE_READ_BACK, _SHARE_ABANDONED, _SHARE_UNDONE = 0.3, 0.5, 0.1, 0.15


@dataclass(slots=True)
class Order:
    """One account that a supplier wants to be created, and its result."""

    payload: dict[str, Any]
    asynchronous: bool
    dry_run_first: bool
    team: str = TEAM
    #: It is staged first with another address, and then with the right one.
    restaged: bool = False
    #: Its status is read as soon as it is created. Then it is staged again, which is refused.
    read_back: bool = False
    #: It is processed as a dry run only.
    abandoned: bool = False
    #: It is undone as soon as it is created, and then processed once more.
    undone: bool = False
    #: The supplier gives it up at the first 429, instead of trying again.
    impatient: bool = False
    #: It was given up at a 429.
    given_up: bool = False
    #: The final answer of the service: the number of the account, or the code of the error.
    service_account_number: str = ""
    failed_with: str = ""
    #: When the request that created the account began, and when it was answered (monotonic).
    asked_at: float = 0.0
    answered_at: float = 0.0

    def versions(self) -> list[dict[str, Any]]:
        """Return the payloads to stage in turn."""
        return [self.changed("An earlier address"), self.payload] if self.restaged else [self.payload]

    def changed(self, address: str) -> dict[str, Any]:
        return self.payload | {"billing_address1": address}

    @property
    def number(self) -> str:
        return str(self.payload["external_account_number"])

    def money(self) -> tuple[Decimal, ...]:
        """Return the sums of the ledgers' balances, the transactions and the line items, as sent."""
        ledgers = self.payload.get("ledgers", [])
        transactions = [
            transaction
            for ledger in ledgers
            for name in ("transactions_in_open_settlement_period", "historical_statement_transactions")
            for transaction in ledger.get(name, [])
        ]
        lines = [line for transaction in transactions for line in transaction.get("line_items", [])]
        return (
            _sum(ledger["ledger_balance"] for ledger in ledgers),
            _sum(transaction["amount"] for transaction in transactions),
            _sum(line["net_amount"] for line in lines),
        )


@dataclass(slots=True)
class Journal:
    """The record of all suppliers, which many threads write. Only who counts needs the lock."""

    orders: list[Order] = field(default_factory=list)
    #: One for each request, also if it was sent again.
    events: list[Event] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    #: Undocumented answers, and accounts without an answer.
    surprises: list[str] = field(default_factory=list)
    #: The numbers of the accounts that went live.
    live: list[str] = field(default_factory=list)
    #: Accounts that were sent in batches.
    lines: int = 0
    #: Seconds after which a client gives an account up. Nothing may take that long.
    patience: float = 150.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answered(self, request: Request[Any], answer: Answer | NoAnswer) -> None:
        """Count an answer. One that is not documented is recorded as a surprise."""
        with self._lock:
            if isinstance(answer, NoAnswer):
                self.statuses["no answer"] += 1
                return
            self.statuses[str(answer.status)] += 1
            if answer.status >= 500 and answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
                self.surprises.append(f"{request.target}: {answer.status} {answer.body[:300]!r}")

    def count_line(self) -> None:
        """Count an account that a batch imported."""
        with self._lock:
            self.lines += 1

    def created(self) -> list[Order]:
        """Return the accounts that suppliers know to be created so far."""
        return [order for order in self.orders if order.service_account_number]


class Orders(Iterator[Order]):
    """An endless series of accounts for many threads, which is the same for the same seed.

    `impatient` is the share of accounts that are given up at the first 429.
    """

    def __init__(self, seed: int, *, impatient: float = 0.0) -> None:
        self._orders = _write_orders(seed, impatient)
        self._taking = threading.Lock()

    def __next__(self) -> Order:
        with self._taking:
            return next(self._orders)


def _write_orders(seed: int, impatient: float) -> Iterator[Order]:
    chance = random.Random(seed)
    for index, payload in enumerate(generate_accounts(1_000_000, supplier=SUPPLIER, seed=seed)):
        if chance.random() < _SHARE_SLOW:
            payload["external_account_number"] = f"{SLOW}{index}"
        abandoned = chance.random() < _SHARE_ABANDONED
        yield Order(
            payload,
            asynchronous=chance.random() < _SHARE_ASYNC,
            dry_run_first=abandoned or chance.random() < _SHARE_DRY_RUN,
            team=chance.choice(TEAMS),
            restaged=chance.random() < _SHARE_RESTAGED,
            read_back=chance.random() < _SHARE_READ_BACK,
            abandoned=abandoned,
            impatient=chance.random() < impatient,
            undone=chance.random() < _SHARE_UNDONE,
        )


class Supplier(Client):
    """The suppliers' client, whose tries are all recorded. Each thread has its own.

    `deadline` is the moment (monotonic) after which it sends nothing more.
    """

    def __init__(self, address: Address, journal: Journal) -> None:
        # The environment's proxies cannot reach a server on this machine.
        super().__init__(address.url, address.api_key, timeout=60, patience=math.inf, proxy="")
        self.deadline = math.inf
        self._address, self._journal = address, journal
        #: What the request that is being sent is about, and whether a 429 is its answer.
        self._question: Question | None = None
        self._is_impatient = False
        self._longest_pause = math.inf

    def begin(self, times: int = 1) -> None:
        """Have so many times the usual patience from now on."""
        self.deadline = time.monotonic() + times * self._journal.patience

    def migrate_all(self, orders: Iterator[Order], enough: threading.Event, *, pause: float) -> None:
        """Migrate one account after the other until `enough`, with a pause of `pause` seconds."""
        while not enough.is_set():
            self.try_to_migrate(next(orders))
            enough.wait(pause)

    def try_to_migrate(self, order: Order) -> None:
        """Migrate an account. Record in the journal what goes wrong."""
        self._journal.orders.append(order)
        try:
            self.migrate(order)
        except Exception as error:
            self._journal.surprises.append(f"{order.number}: {type(error).__name__} {error}")

    def migrate(self, order: Order) -> None:
        """Stage and process one account until the service answers with its result."""
        self.begin()
        for payload in order.versions():
            self._stage(payload)
        if order.dry_run_first:
            self._create(order, dry_run=True)
        if order.abandoned:
            order.given_up = True
            return
        self._create(order)
        if order.undone and order.service_account_number:
            self.undo([order], external_account_numbers=[order.number])
            self._poll(order)
            self._create(order)
        if order.read_back and order.service_account_number:
            self._poll(order)
            with suppress(AccountAlreadyImported):
                self._stage(order.changed("A later address"))
            self._poll(order)

    def stage_and_process_once(self, order: Order) -> None:
        """Stage and process an account. Send no further process request once it was accepted."""
        self.begin()
        self._stage(order.payload)
        with suppress(ServiceError):
            self._ask_to_process(order)
        self._poll(order)

    def _stage(self, payload: dict[str, Any]) -> None:
        number, version = payload["external_account_number"], payload["billing_address1"]
        self._ask(Question(act=Act.STAGE, number=number, version=version), operations.stage_account(payload))

    def _ask_to_process(self, order: Order, *, dry_run: bool = False) -> Answer:
        """Send a process request without an idempotency key, and do not follow its attempt."""
        request = operations.process_account(
            external_account_number=order.number,
            import_supplier_code=SUPPLIER,
            operations_team_name=order.team,
            dry_run=dry_run,
        )
        waits = dry_run or not order.asynchronous
        request = replace(request, headers={} if waits else {"Prefer": "respond-async"})
        question = Question(act=Act.PROCESS, number=order.number, team=order.team, dry_run=dry_run)
        return self._ask(question, request, is_impatient=order.impatient and not dry_run)

    def _create(self, order: Order, *, dry_run: bool = False) -> None:
        while True:
            asked_at = time.monotonic()
            try:
                answer = self._ask_to_process(order, dry_run=dry_run)
                if answer.status == HTTPStatus.ACCEPTED:
                    self._poll(order)
                    continue
                number = json.loads(answer.body)["service_account_number"]
            except AccountImportInProgress:
                self._poll(order)
                continue
            except DryRunSucceeded:
                return
            except AccountAlreadyImported as error:
                number = error.service_account_number
            except ServiceError as error:
                if error.status == HTTPStatus.BAD_REQUEST:
                    order.failed_with = error.code
                elif error.status == HTTPStatus.TOO_MANY_REQUESTS and order.impatient and not dry_run:
                    order.given_up = True
                else:
                    raise
                return
            order.asked_at, order.answered_at = asked_at, time.monotonic()
            order.service_account_number = number
            return

    def undo(self, orders: Sequence[Order], **what: Any) -> None:
        """Undo the import of accounts, and wait for the outcome of each: all of them have to be reverted."""
        outcomes = self.try_to_undo(orders, **what)
        for order in orders:
            if outcomes.get(order.number) != "REVERTED":
                self._journal.surprises.append(
                    f"{order.number}: not undone, but {outcomes.get(order.number)}"
                )

    def try_to_undo(self, orders: Sequence[Order], **what: Any) -> dict[str, str]:
        """Undo the import of accounts. Return the outcome of each."""
        invoked = time.monotonic()
        outcomes: dict[str, str] = {}
        try:
            outcomes = self.take_back(**what)
        finally:
            for order in orders:
                said = outcomes.get(order.number)
                self._journal.events.append(
                    Event(
                        question=Question(act=Act.UNDO, number=order.number),
                        request_id="",
                        api_key=self._address.api_key,
                        invoked=invoked,
                        ended=time.monotonic(),
                        status=None if said is None else 200 if said == "REVERTED" else 400,
                        said=said or "",
                    )
                )
                if said == "REVERTED":
                    order.service_account_number = ""
        return outcomes

    def take_back(self, **what: Any) -> dict[str, str]:
        """Undo imports, or what a batch has added. Return the outcome of each account."""
        undo = self.start_undo(import_supplier=SUPPLIER, reason="The drill.", **what)
        self.wait_for_undo(undo.undo_id, seconds=0.3)
        lines = self.read(operations.get_undo_results(undo.undo_id))
        return {str(line.external_account_number): line.outcome for line in lines}

    def read(self, request: Lines[T]) -> list[T]:
        """Return all lines of a stream. One that breaks off is read anew."""
        while True:
            with suppress(ServiceUnreachable):
                return list(self.iterate(request))

    def _poll(self, order: Order) -> None:
        """Request the status until the account is no longer being created."""
        question = Question(act=Act.STATUS, number=order.number)
        request = operations.get_account_status(SUPPLIER, order.number)
        while json.loads(self._ask(question, request).body)["status"] == "IN_PROGRESS":
            time.sleep(0.3)

    def _ask(self, question: Question, request: Request[Any], *, is_impatient: bool = False) -> Answer:
        """Send a request until it is answered. Each try is an event of the history."""
        self._question, self._is_impatient = question, is_impatient
        try:
            return self.send(exchange(request, self._policy))
        finally:
            self._question, self._is_impatient = None, False

    def _take(self, step: Step) -> Any:
        if isinstance(step, Pause):
            step = Pause(min(step.seconds, self._longest_pause))
        return super()._take(step)

    def _send(self, step: Send) -> Answer | NoAnswer:
        invoked = time.monotonic()
        if invoked > self.deadline:
            raise TimeoutError("no result within the time that anything may take")
        request_id = uuid.uuid4().hex
        headers = {**step.request.headers, "X-Request-ID": request_id}
        answer = super()._send(replace(step, request=replace(step.request, headers=headers)))
        if self._question is not None and step.request.authorized:
            self._note(self._question, request_id, invoked, answer)
        self._journal.answered(step.request, answer)
        # Without an answer it asks more often than others, so that the drill sees soon that all is well.
        self._longest_pause = _PAUSE if isinstance(answer, NoAnswer) else math.inf
        if (
            self._is_impatient
            and isinstance(answer, Answer)
            and answer.status == HTTPStatus.TOO_MANY_REQUESTS
        ):
            raise error_of(answer)
        return answer

    def _note(self, question: Question, request_id: str, invoked: float, answer: Answer | NoAnswer) -> None:
        status, told = None, {}
        if isinstance(answer, Answer) and not answer.is_cut_off:
            status = answer.status
            if answer.headers.get("content-type", "").startswith("application/json"):
                told = json.loads(answer.body)
        said = told.get("code") or (told.get("status") if question.act is Act.STATUS else "")
        self._journal.events.append(
            Event(
                question=question,
                request_id=request_id,
                api_key=self._address.api_key,
                invoked=invoked,
                ended=time.monotonic(),
                status=status,
                said=said or "",
                told=told.get("service_account_number") or "",
                attempt_id=told.get("attempt_id") or "",
            )
        )


def _sum(amounts: Iterator[Any]) -> Decimal:
    return sum((Decimal(str(amount)) for amount in amounts), Decimal(0))
