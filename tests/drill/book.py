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
from drill.scene import SUPPLIER, TEAM
from migration_service_local.samples import generate_accounts

_LINES = 50
#: One book of so many is undone as a whole, and imported once more, and another one is corrected.
_EVERY = 4
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
            batch_id = _migrate(supplier, journal, {order.number: order for order in book})
            if index % _EVERY == 1:
                supplier.undo(book, time.monotonic() + 2 * journal.patience, batch=batch_id)
                _migrate(supplier, journal, {order.number: order for order in book})
            elif index % _EVERY == 0:
                _correct(supplier, journal, book)
        except Exception as error:
            journal.surprise(f"batch with {book[0].number}: {type(error).__name__} {error}")
        enough.wait(pause)


def _write_orders(seed: int, beginning: str) -> Iterator[Order]:
    numbers = count()
    for payload in generate_accounts(1_000_000, supplier=SUPPLIER, seed=seed):
        payload["external_account_number"] = f"{beginning}{next(numbers)}"
        yield Order(payload, asynchronous=True, dry_run_first=False)


def _correct(supplier: Supplier, journal: Journal, book: Sequence[Order]) -> None:
    """Add a payment to each account, replace all of them by another version, and take the payments back.

    So their sums are those of their payloads again, unless something was lost or doubled.
    """
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
        order.payload = order.changed("A corrected address")
    _migrate(supplier, journal, {order.number: order for order in book}, replace="differing")
    outcomes = supplier.take_back(deadline, {"batch": batch_id})
    if set(outcomes.values()) != {"REVERTED"} or len(outcomes) != len(book):
        raise ValueError(f"not taken back: {outcomes}")


def _migrate(supplier: Supplier, journal: Journal, orders: dict[str, Order], **asked: str) -> str:
    """Import the accounts as a batch, and return its id."""
    began = time.monotonic()
    deadline = began + 2 * journal.patience
    sent = [order.payload for order in orders.values()]
    batch_id, lines = _send(supplier, deadline, sent, operations_team_name=TEAM, **asked)
    for line in lines:
        _note(orders.pop(line["external_account_number"]), line, journal, began)
    if orders:
        raise ValueError(f"no result for {', '.join(orders)}")
    return batch_id


def _send(
    supplier: Supplier, deadline: float, sent: Sequence[dict[str, Any]], **asked: str
) -> tuple[str, list[dict[str, Any]]]:
    """Send a batch of mode import. Return its id and the results of its lines, once it is over."""
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
