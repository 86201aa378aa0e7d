"""Suppliers that migrate accounts, and handle failures as the interface tells clients to."""

import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import requests

from drill.history import Act, Event, History, Question
from drill.scene import SLOW, SUPPLIER, TEAM, TEAMS, Address, obtain_token
from migration_service_local.samples import generate_accounts

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
    """The record of all suppliers, which many threads write."""

    orders: list[Order] = field(default_factory=list)
    history: History = field(default_factory=History)
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

    def began(self, order: Order) -> None:
        with self._lock:
            self.orders.append(order)

    def answered(self, response: requests.Response) -> None:
        """Count an answer. One that is not documented is recorded as a surprise."""
        status = response.status_code
        with self._lock:
            self.statuses[str(status)] += 1
            if status >= 500 and status != requests.codes.service_unavailable:
                self.surprises.append(f"{response.request.path_url}: {status} {response.text[:300]}")

    def count_line(self) -> None:
        """Count an account that a batch imported."""
        with self._lock:
            self.lines += 1

    def went_live(self, numbers: Sequence[str]) -> None:
        with self._lock:
            self.live += numbers

    def cut_off(self) -> None:
        """Count a request that lost its connection."""
        with self._lock:
            self.statuses["no answer"] += 1

    def surprise(self, what: str) -> None:
        """Record something that must not happen."""
        with self._lock:
            self.surprises.append(what)

    def created(self) -> list[Order]:
        """Return the accounts that suppliers know to be created so far."""
        with self._lock:
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


class Supplier:
    """One client of the interface. Each thread has its own."""

    def __init__(self, address: Address, journal: Journal) -> None:
        self._address = address
        self._journal = journal
        self._session = requests.Session()
        # The environment's proxies cannot reach a server on this machine.
        self._session.trust_env = False

    def migrate_all(self, orders: Iterator[Order], enough: threading.Event, *, pause: float) -> None:
        """Migrate one account after the other until `enough`, with a pause of `pause` seconds."""
        while not enough.is_set():
            self.try_to_migrate(next(orders))
            enough.wait(pause)

    def try_to_migrate(self, order: Order) -> None:
        """Migrate an account. Record in the journal what goes wrong."""
        self._journal.began(order)
        try:
            self.migrate(order)
        except Exception as error:
            self._journal.surprise(f"{order.number}: {type(error).__name__} {error}")

    def migrate(self, order: Order) -> None:
        """Stage and process one account until the service answers with its result."""
        deadline = time.monotonic() + self._journal.patience
        for payload in order.versions():
            staged = self._stage(payload, deadline)
            if staged.status_code not in (200, 201):
                self._journal.surprise(f"{order.number} not staged: {staged.status_code} {staged.text[:300]}")
                return
        if order.dry_run_first:
            self._process(order, deadline, dry_run=True)
        if order.abandoned:
            order.given_up = True
            return
        self._process(order, deadline, dry_run=False)
        if order.undone and order.service_account_number:
            self.undo([order], deadline, external_account_numbers=[order.number])
            self._poll(order, deadline)
            self._process(order, deadline, dry_run=False)
        if order.read_back and order.service_account_number:
            self._poll(order, deadline)
            self._stage(order.changed("A later address"), deadline)
            self._poll(order, deadline)

    def _stage(self, payload: dict[str, Any], deadline: float) -> requests.Response:
        question = Question(
            act=Act.STAGE,
            number=payload["external_account_number"],
            version=payload["billing_address1"],
        )
        path = "account-import-process/create-or-update/"
        return self.send("POST", path, deadline, question, json=payload)

    def stage_and_process_once(self, order: Order) -> None:
        """Stage and process an account. Send no further process request once it was accepted."""
        deadline = time.monotonic() + self._journal.patience
        self._stage(order.payload, deadline)
        headers = {"Prefer": "respond-async"} if order.asynchronous else {}
        path = "account-import-process/process/"
        question = Question(act=Act.PROCESS, number=order.number, team=order.team)
        self.send("POST", path, deadline, question, json=_process_body(order, dry_run=False), headers=headers)
        self._poll(order, deadline)

    def _process(self, order: Order, deadline: float, *, dry_run: bool) -> None:
        body = _process_body(order, dry_run=dry_run)
        headers = {"Prefer": "respond-async"} if order.asynchronous and not dry_run else {}
        question = Question(act=Act.PROCESS, number=order.number, team=order.team, dry_run=dry_run)
        once = order.impatient and not dry_run
        while True:
            asked_at = time.monotonic()
            path = "account-import-process/process/"
            response = self.send("POST", path, deadline, question, once=once, json=body, headers=headers)
            if response.status_code == 429:
                order.given_up = True
                return
            answer = response.json()
            code = answer.get("code")
            if response.status_code == 202 or code == "account_import_in_progress":
                self._poll(order, deadline)
                continue
            if dry_run and code == "dry_run_succeeded":
                return
            if response.status_code == 201 or code == "account_already_imported":
                order.asked_at, order.answered_at = asked_at, time.monotonic()
                order.service_account_number = answer["service_account_number"]
            elif response.status_code == 400:
                order.failed_with = code
            else:
                self._journal.surprise(f"{order.number}: {response.status_code} {response.text[:300]}")
            return

    def undo(self, orders: Sequence[Order], deadline: float, **target: Any) -> None:
        """Undo the import of accounts, and wait for the outcome of each: all of them have to be reverted."""
        outcomes = self.try_to_undo(orders, deadline, **target)
        for order in orders:
            if outcomes.get(order.number) != "REVERTED":
                self._journal.surprise(f"{order.number}: not undone, but {outcomes.get(order.number)}")

    def try_to_undo(self, orders: Sequence[Order], deadline: float, **target: Any) -> dict[str, str]:
        """Undo the import of accounts. Return the outcome of each."""
        invoked = time.monotonic()
        outcomes: dict[str, str] = {}
        try:
            outcomes = self.take_back(deadline, target)
        finally:
            for order in orders:
                said = outcomes.get(order.number)
                self._journal.history.add(
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

    def take_back(self, deadline: float, target: dict[str, Any]) -> dict[str, str]:
        """Undo imports, or what a batch has added. Return the outcome of each account."""
        body = {"import_supplier": SUPPLIER, "reason": "The drill.", **target}
        key = {"Idempotency-Key": str(uuid.uuid4())}
        started = self.send("POST", "undos/", deadline, json=body, headers=key)
        while started.json().get("code") == "idempotency_request_in_progress" and time.monotonic() < deadline:
            time.sleep(1)  # the web process that had the first request was killed
            started = self.send("POST", "undos/", deadline, json=body, headers=key)
        if started.status_code != requests.codes.accepted:
            raise ValueError(f"no undo: {started.status_code} {started.text[:300]}")
        undo = started.json()
        while undo["state"] == "RUNNING" and time.monotonic() < deadline:
            time.sleep(0.3)
            undo = self.send("GET", f"undos/{undo['undo_id']}/", deadline).json()
        lines = self.send("GET", f"undos/{undo['undo_id']}/results/", deadline).text.splitlines()
        return {line["external_account_number"]: line["outcome"] for line in map(json.loads, lines)}

    def _poll(self, order: Order, deadline: float) -> None:
        """Request the status until the account is no longer being created."""
        path = f"account-transfer-status/{SUPPLIER}/{order.number}/"
        question = Question(act=Act.STATUS, number=order.number)
        while self.send("GET", path, deadline, question).json().get("status") == "IN_PROGRESS":
            time.sleep(0.3)

    def send(
        self,
        method: str,
        path: str,
        deadline: float,
        question: Question | None = None,
        *,
        once: bool = False,
        headers: dict[str, str] | None = None,
        **request: Any,
    ) -> requests.Response:
        """Send a request repeatedly, as the interface says, until it is answered.

        Each try is an event of the history, if it has a `question`. With `once`, 429 is an answer.
        """
        while time.monotonic() < deadline:
            request_id, invoked = uuid.uuid4().hex, time.monotonic()
            sent = {"X-Request-ID": request_id} | (headers or {})
            try:
                if "Authorization" not in self._session.headers:
                    self._session.headers["Authorization"] = f"Token {obtain_token(self._address)}"
                response = self._session.request(
                    method,
                    f"{self._address.url}/v1/data-import/{path}",
                    timeout=60,
                    headers=sent,
                    **request,
                )
            except requests.RequestException as error:
                if error.response is not None:  # no token, so it was not sent
                    self._journal.answered(error.response)
                    time.sleep(float(error.response.headers.get("Retry-After", 1)))
                    continue
                self._note(question, request_id, invoked, None)
                self._journal.cut_off()
                time.sleep(0.2)
                continue
            self._note(question, request_id, invoked, response)
            self._journal.answered(response)
            if response.status_code not in (429, 503) or (once and response.status_code == 429):
                return response
            time.sleep(float(response.headers["Retry-After"]))
        raise TimeoutError(f"no answer within {self._journal.patience:.0f} s")

    def _note(
        self, question: Question | None, request_id: str, invoked: float, response: requests.Response | None
    ) -> None:
        if question is None:
            return
        answer = {}
        if response is not None and response.headers.get("Content-Type", "").startswith("application/json"):
            answer = response.json()
        said = answer.get("code") or (answer.get("status") if question.act is Act.STATUS else "")
        self._journal.history.add(
            Event(
                question=question,
                request_id=request_id,
                api_key=self._address.api_key,
                invoked=invoked,
                ended=time.monotonic(),
                status=None if response is None else response.status_code,
                said=said or "",
                told=answer.get("service_account_number") or "",
                attempt_id=answer.get("attempt_id") or "",
            )
        )


def _process_body(order: Order, *, dry_run: bool) -> dict[str, Any]:
    return {
        "external_account_number": order.number,
        "import_supplier_code": SUPPLIER,
        "operations_team_name": order.team,
        "dry_run": dry_run,
    }


def _sum(amounts: Iterator[Any]) -> Decimal:
    return sum((Decimal(str(amount)) for amount in amounts), Decimal(0))
