"""A supplier that sends its accounts as batches, one after the other, during the faults."""

import gzip
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import count
from typing import Any

from drill.clients import Journal, Order, Supplier
from drill.history import Act, Event, Question
from drill.scene import CORRECTED, SUPPLIER, TEAM
from migration_service_client import operations
from migration_service_client.codes import WaveStateConflict
from migration_service_client.models import LineResult
from migration_service_local.samples import generate_accounts

_LINES = 50


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
            journal.orders.append(order)
        try:
            _KINDS[index % len(_KINDS)](supplier, journal, book)
        except Exception as error:
            journal.surprises.append(f"batch with {book[0].number}: {type(error).__name__} {error}")
        enough.wait(pause)


def _write_orders(seed: int, beginning: str) -> Iterator[Order]:
    numbers = count()
    for payload in generate_accounts(1_000_000, supplier=SUPPLIER, seed=seed):
        payload["external_account_number"] = f"{beginning}{next(numbers)}"
        yield Order(payload, asynchronous=True, dry_run_first=False)


def _undo(supplier: Supplier, journal: Journal, book: Sequence[Order]) -> None:
    """Undo the book as a whole, and import it once more."""
    batch_id = _migrate(supplier, journal, book)
    supplier.begin(2)
    supplier.undo(book, batch=batch_id)
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
    batch_id, lines = _send(supplier, payments, kind="transactions")
    if {line.status for line in lines} != {"ADDED"}:
        raise ValueError(f"not added: {[line for line in lines if line.status != 'ADDED'][:3]}")
    for order in book:
        order.payload = order.changed(CORRECTED)
    _migrate(supplier, journal, book, replace="differing")
    supplier.begin(2)
    outcomes = supplier.take_back(batch=batch_id)
    if set(outcomes.values()) != {"REVERTED"} or len(outcomes) != len(book):
        raise ValueError(f"not taken back: {outcomes}")


def _go_live(supplier: Supplier, journal: Journal, book: Sequence[Order]) -> None:
    """Migrate the book as a wave, let it go live, undo it meanwhile, and import what was reverted."""
    numbers = [order.number for order in book]
    _send(supplier, [order.payload for order in book], mode="stage")
    supplier.begin(4)
    wave = {"accounts": numbers, "continue_if_clean": True}
    plan = supplier.plan_waves(import_supplier=SUPPLIER, operations_team_name=TEAM, waves=[wave])
    began = time.monotonic()
    with suppress(WaveStateConflict):  # it was started by a lost answer
        supplier.start_wave(plan.plan_id, 1)
    # An account that is undone before the plan has ended keeps it open, and no other one can be made.
    while not (planned := supplier.get_plan(plan.plan_id)).finished_at:
        if planned.waves[0].state not in ("WAITING", "RUNNING", "RECONCILING", "CLEAN"):
            raise ValueError(f"a wave is {planned.waves[0].state}")
        time.sleep(0.3)
    found = planned.waves[0]
    _note_all(book, supplier.read(operations.get_batch_results(found.batch_id)), journal, began)
    target = {"plan_id": plan.plan_id, "number": 1}
    it = supplier.start_go_live(import_supplier=SUPPLIER, wave=target)
    outcomes = supplier.try_to_undo(book, batch=found.batch_id)
    while it.state != "COMPLETED":
        time.sleep(0.3)
        it = supplier.get_go_live(it.go_live_id)
    kept = [number for number in numbers if outcomes.get(number) == "KEPT"]
    journal.live += kept
    if it.accounts != len(kept):
        raise ValueError(f"{len(kept)} were kept by the undo, and {it.accounts} went live")
    if reverted := [order for order in book if not order.service_account_number]:
        _migrate(supplier, journal, reverted)


#: What is done with one book after the other, in turn.
_KINDS = (_correct, _undo, _go_live)


def _migrate(supplier: Supplier, journal: Journal, book: Sequence[Order], **asked: str) -> str:
    """Import the accounts as a batch, and return its id."""
    began = time.monotonic()
    sent = [order.payload for order in book]
    batch_id, lines = _send(supplier, sent, operations_team_name=TEAM, **asked)
    _note_all(book, lines, journal, began)
    return batch_id


def _note_all(book: Sequence[Order], lines: Sequence[LineResult], journal: Journal, began: float) -> None:
    orders = {order.number: order for order in book}
    for line in lines:
        _note(orders.pop(str(line.external_account_number)), line, journal, began)
    if orders:
        raise ValueError(f"no result for {', '.join(orders)}")


def _send(
    supplier: Supplier, sent: Sequence[dict[str, Any]], *, mode: str = "import", **asked: Any
) -> tuple[str, list[LineResult]]:
    """Send a batch. Return its id and results when it is over."""
    supplier.begin(2)
    file = BytesIO(gzip.compress("\n".join(map(json.dumps, sent)).encode()))
    started = supplier.start_batch(file, import_supplier=SUPPLIER, mode=mode, **asked)
    batch = supplier.wait_for_batch(started.batch_id, seconds=0.3)
    if (batch.state, batch.lines) != ("COMPLETED", len(sent)):
        raise ValueError(f"{batch.state} with {batch.lines} lines, {batch.counts}")
    return batch.batch_id, supplier.read(operations.get_batch_results(batch.batch_id))


def _note(order: Order, line: LineResult, journal: Journal, invoked: float) -> None:
    is_new = not order.answered_at  # and not imported again after an undo
    order.answered_at = time.monotonic()
    version = order.payload["billing_address1"]
    journal.events.append(
        Event(
            question=Question(act=Act.LINE, number=order.number, version=version, team=TEAM),
            request_id="",
            api_key="",
            invoked=invoked,
            ended=order.answered_at,
            status=200 if line.status in ("IMPORTED", "REPLACED") else 400,
            said=line.status,
            told=line.service_account_number or "",
        )
    )
    if line.status in ("IMPORTED", "REPLACED"):
        order.service_account_number = str(line.service_account_number)
        if is_new:
            journal.count_line()
    else:
        order.failed_with = f"{line.status} {line.errors}"
