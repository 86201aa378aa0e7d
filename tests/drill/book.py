"""A supplier that sends its accounts as batches, one after the other, during the faults."""

import gzip
import json
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from drill.clients import Journal, Order, Supplier
from drill.history import Act, Event, Question
from drill.scene import CORRECTED, SUPPLIER, TEAM
from migration_service_local.samples import generate_accounts

_LINES = 50
_OVER = ("COMPLETED", "CANCELLED", "STOPPED")


def migrate_books(
    supplier: Supplier,
    journal: Journal,
    seed: int,
    enough: threading.Event,
    *,
    pause: float,
    beginning: str = "BOOK-",
) -> None:
    """Import one batch after the other until `enough`, with a pause of `pause` seconds.

    The numbers of the accounts have the prefix `beginning`. Record in the journal what goes wrong.
    """
    orders = _write_orders(seed, beginning)
    for index in count():
        if enough.is_set():
            return
        book = [next(orders) for _ in range(_LINES)]
        for order in book:
            journal.began(order)
        try:
            _KINDS[index % len(_KINDS)](supplier, journal, book)
        except Exception as error:
            journal.surprise(f"batch with {book[0].number}: {type(error).__name__} {error}")
        enough.wait(pause)


def _write_orders(seed: int, beginning: str) -> Iterator[Order]:
    numbers = count()
    for payload in generate_accounts(1_000_000, supplier=SUPPLIER, seed=seed):
        payload["external_account_number"] = f"{beginning}{next(numbers)}"
        yield Order(payload, asynchronous=True, dry_run_first=False)


def _undo(supplier: Supplier, journal: Journal, book: Sequence[Order]) -> None:
    """Undo the book as a whole, and import it once more."""
    batch_id = _migrate(supplier, journal, book)
    supplier.undo(book, time.monotonic() + 2 * journal.patience, batch=batch_id)
    _migrate(supplier, journal, book)


def _correct(supplier: Supplier, journal: Journal, book: Sequence[Order]) -> None:
    """Add a payment to each account, replace all of them by another version, and take the payments back.

    So their sums are those of their payloads again, unless something was lost or doubled.
    """
    _migrate(supplier, journal, book)
    paid = {"transaction_date": "2026-06-01", "amount": "1.25", "type": "PAYMENT", "payment_type": "CASH"}
    payments = [
        {
            "import_supplier": SUPPLIER,
            "external_account_number": order.number,
            "transactions": [paid | {"transaction_id": f"by mistake {order.number}"}],
        }
        for order in book
    ]
    deadline = time.monotonic() + 4 * journal.patience
    batch_id, lines = _send(supplier, deadline, payments, kind="transactions")
    if {line["status"] for line in lines} != {"ADDED"}:
        raise ValueError(f"not added: {[line for line in lines if line['status'] != 'ADDED'][:3]}")
    for order in book:
        order.payload = order.changed(CORRECTED)
    _migrate(supplier, journal, book, replace="differing")
    outcomes = supplier.take_back(deadline, {"batch": batch_id})
    if set(outcomes.values()) != {"REVERTED"} or len(outcomes) != len(book):
        raise ValueError(f"not taken back: {outcomes}")


def _go_live(supplier: Supplier, journal: Journal, book: Sequence[Order]) -> None:
    """Migrate the book as a wave, let it go live, undo it meanwhile, and import what was reverted."""
    deadline = time.monotonic() + 4 * journal.patience
    numbers = [order.number for order in book]
    _send(supplier, deadline, [order.payload for order in book], mode="stage")
    wave = {"accounts": numbers, "continue_if_clean": True}
    plan = {"import_supplier": SUPPLIER, "operations_team_name": TEAM, "waves": [wave]}
    plan_id = _post(supplier, deadline, "wave-plans/", plan)["plan_id"]
    began = time.monotonic()
    path = f"wave-plans/{plan_id}/"
    started = supplier.send("POST", f"{path}waves/1/start/", deadline)
    if not (
        started.ok or started.json()["code"] == "wave_state_conflict"
    ):  # or it was started by a lost answer
        raise ValueError(f"not started: {started.text[:300]}")
    while (found := supplier.send("GET", path, deadline).json()["waves"][0])["state"] != "CLEAN":
        if found["state"] not in ("WAITING", "RUNNING", "RECONCILING") or time.monotonic() > deadline:
            raise ValueError(f"a wave is {found['state']}")
        time.sleep(0.3)
    lines = supplier.send("GET", f"batches/{found['batch_id']}/results/", deadline).text.splitlines()
    _note_all(book, [json.loads(line) for line in lines], journal, began)
    target = {"import_supplier": SUPPLIER, "wave": {"plan_id": plan_id, "number": 1}}
    it = _post(supplier, deadline, "go-lives/", target)
    outcomes = supplier.try_to_undo(book, deadline, batch=found["batch_id"])
    while it["state"] != "COMPLETED" and time.monotonic() < deadline:
        time.sleep(0.3)
        it = supplier.send("GET", f"go-lives/{it['go_live_id']}/", deadline).json()
    kept = [number for number in numbers if outcomes.get(number) == "KEPT"]
    journal.went_live(kept)
    if it["state"] != "COMPLETED" or it["accounts"] != len(kept):
        raise ValueError(f"{len(kept)} were kept by the undo, and {it['accounts']} went live: {it['state']}")
    if reverted := [order for order in book if not order.service_account_number]:
        _migrate(supplier, journal, reverted)


def _post(supplier: Supplier, deadline: float, path: str, body: dict[str, Any]) -> Any:
    """Send what is done once, however often it has to be sent."""
    key = {"Idempotency-Key": str(uuid.uuid4())}
    answer = supplier.send("POST", path, deadline, json=body, headers=key)
    while answer.json().get("code") == "idempotency_request_in_progress" and time.monotonic() < deadline:
        time.sleep(1)  # the web process that had the first request was killed
        answer = supplier.send("POST", path, deadline, json=body, headers=key)
    if not answer.ok:
        raise ValueError(f"{path}: {answer.status_code} {answer.text[:300]}")
    return answer.json()


#: What is done with one book after the other, in turn.
_KINDS = (_correct, _undo, _go_live)


def _migrate(supplier: Supplier, journal: Journal, book: Sequence[Order], **asked: str) -> str:
    """Import the accounts as a batch, and return its id."""
    began = time.monotonic()
    deadline = began + 2 * journal.patience
    sent = [order.payload for order in book]
    batch_id, lines = _send(supplier, deadline, sent, operations_team_name=TEAM, **asked)
    _note_all(book, lines, journal, began)
    return batch_id


def _note_all(book: Sequence[Order], lines: Sequence[dict[str, Any]], journal: Journal, began: float) -> None:
    orders = {order.number: order for order in book}
    for line in lines:
        _note(orders.pop(line["external_account_number"]), line, journal, began)
    if orders:
        raise ValueError(f"no result for {', '.join(orders)}")


def _send(
    supplier: Supplier, deadline: float, sent: Sequence[dict[str, Any]], **asked: str
) -> tuple[str, list[dict[str, Any]]]:
    """Send a batch, by default of mode import. Return its id and results when it is over."""
    lines = "\n".join(map(json.dumps, sent))
    started = supplier.send(
        "POST",
        "batches/",
        deadline,
        params={"import_supplier": SUPPLIER, "mode": "import"} | asked,
        headers={"Content-Type": "application/x-ndjson", "Idempotency-Key": str(uuid.uuid4())},
        data=gzip.compress(lines.encode()),
    )
    if started.status_code != 202:
        raise ValueError(f"not taken: {started.status_code} {started.text[:300]}")
    batch = started.json()
    address = f"batches/{batch['batch_id']}/"
    while batch["state"] not in _OVER and time.monotonic() < deadline:
        time.sleep(0.3)
        batch = supplier.send("GET", address, deadline).json()
    if (batch["state"], batch["lines"]) != ("COMPLETED", len(sent)):
        raise ValueError(f"{batch['state']} with {batch['lines']} lines, {batch['counts']}")
    results = supplier.send("GET", f"{address}results/", deadline).text.splitlines()
    return str(batch["batch_id"]), [json.loads(line) for line in results]


def _note(order: Order, line: dict[str, Any], journal: Journal, invoked: float) -> None:
    is_new = not order.answered_at  # and not imported again after an undo
    order.answered_at = time.monotonic()
    version = order.payload["billing_address1"]
    journal.history.add(
        Event(
            question=Question(act=Act.LINE, number=order.number, version=version, team=TEAM),
            request_id="",
            api_key="",
            invoked=invoked,
            ended=order.answered_at,
            status=200 if line["status"] in ("IMPORTED", "REPLACED") else 400,
            said=line["status"],
            told=line["service_account_number"] or "",
        )
    )
    if line["status"] in ("IMPORTED", "REPLACED"):
        order.service_account_number = line["service_account_number"]
        if is_new:
            journal.count_line()
    else:
        order.failed_with = f"{line['status']} {line['errors']}"
