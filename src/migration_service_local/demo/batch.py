"""Uploads the larger part of the sample book as one file, which is processed as a batch."""

import gzip
import json
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any

import requests

from migration_service_local.demo.client import BUSY, MigrationError, RequestOutcome, SupplierClient

#: The name under which the accounts that the batch created are counted.
IMPORTED = "imported by a batch"
_STATUSES = {"IMPORTED": IMPORTED, "ALREADY_IMPORTED": "imported before"}
_ENDED = ("COMPLETED", "CANCELLED", "STOPPED")
_BATCHES = "/v1/data-import/batches/"
_POLL_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class SampleBatchOrder:
    """The lines to import (NDJSON, each with its line feed), and their supplier and team."""

    supplier: str
    team: str
    lines: Iterable[bytes]


def import_as_batch(
    client: SupplierClient,
    order: SampleBatchOrder,
    outcome: RequestOutcome,
    over: threading.Event,
    on_progress: Callable[[int], None],
) -> None:
    """Upload the lines with mode `import`. Return when all have an outcome, or when `over` is set.

    `on_progress` is called with the number of finished lines. Failed lines are recorded in the outcome. Raise
    MigrationError if the batch was not accepted, or if somebody else ended it.
    """
    with tempfile.TemporaryFile() as book:
        with gzip.open(book, "wb", compresslevel=1) as packed:
            packed.writelines(order.lines)
        batch = _upload(client, order, book)
    while batch["state"] not in _ENDED and not over.wait(_POLL_SECONDS):
        batch = _get(client, f"{_BATCHES}{batch['batch_id']}/").json()
        on_progress(int(batch["lines"]) - int(batch["counts"]["PENDING"]))
    if over.is_set():
        return
    if batch["state"] != "COMPLETED":
        raise MigrationError(f"batch {batch['batch_id']} is {batch['state']}")
    for status, what in _STATUSES.items():
        outcome.count(what, int(batch["counts"][status]))
    if batch["counts"]["FAILED"]:
        _note_failures(client, batch["batch_id"], outcome)


def _upload(client: SupplierClient, order: SampleBatchOrder, book: IO[bytes]) -> dict[str, Any]:
    response = client.send(
        "POST",
        _BATCHES,
        params={"import_supplier": order.supplier, "mode": "import", "operations_team_name": order.team},
        headers={
            "Content-Type": "application/x-ndjson",
            "Content-Encoding": "gzip",
            # An upload that is repeated because its response was lost does not start a second batch.
            "Idempotency-Key": str(uuid.uuid4()),
        },
        data=book,
        again=BUSY,
    )
    if response.status_code != requests.codes.accepted:
        raise MigrationError(f"the batch was not accepted: {response.status_code} {response.text[:300]}")
    return dict(response.json())


def _note_failures(client: SupplierClient, batch_id: str, outcome: RequestOutcome) -> None:
    results = _get(client, f"{_BATCHES}{batch_id}/results/?status=FAILED").text
    for line in map(json.loads, results.splitlines()):
        reasons = ", ".join(error["code"] for error in line["errors"])
        outcome.fail(f"{line['external_account_number']} was not imported: {reasons}")


def _get(client: SupplierClient, path: str) -> requests.Response:
    response = client.send("GET", path)
    if response.status_code != requests.codes.ok:
        raise MigrationError(f"{path} failed: {response.status_code} {response.text[:300]}")
    return response
