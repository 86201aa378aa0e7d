"""One organisation misuses the service in every way, and all accounts of another one are still imported."""

import gzip
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import delete
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from migration_service.models import BatchChunk
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient

ACCOUNTS = 10
_JSON = {"Content-Type": "application/json"}

Trick = Callable[[BatchClient], TestResponse]


def _body(text: bytes, path: str = "/validate-account/") -> Trick:
    return lambda batches: batches.supplier.post(path, data=text, headers=_JSON)


def _upload(body: bytes, **headers: str) -> Trick:
    return lambda batches: batches.post(body, "validate", headers=headers)


#: Each of these once took seconds or hundreds of megabytes, or caused a 500.
TRICKS: dict[str, Trick] = {
    "equal keys": _body(b"{" + b",".join(b'"%d":1' % (i % 9_000) for i in range(18_000)) + b"}"),
    "depth": _body(b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
    "exponent": _body(b'{"ledgers":[{"ledger_balance":0E-999999}]}'),
    "digits": _body(b'{"ledgers":[{"ledger_balance":1.%b}]}' % (b"0" * 20_000)),
    "errors": _body(b'{"customers":[%b]}' % b",".join([b"{}"] * 9_000)),
    "items": _body(b'{"customers":[%b]}' % b",".join([b"{}"] * 90_000)),
    "bomb in a body": lambda batches: batches.supplier.post(
        "/validate-account/",
        data=gzip.compress(b" " * 30_000_000),
        headers=_JSON | {"Content-Encoding": "gzip"},
    ),
    "bomb in a file": _upload(gzip.compress((b"x" * 1_000_000 + b"\n") * 30)),
    "file cut off": _upload(gzip.compress(b"{}\n" * 50_000)[:-9]),
    "one key for many": _upload(b"{}\n", **{"Idempotency-Key": "again"}),
    "nul in a path": lambda batches: batches.supplier.get("/account-transfer-status/%00/%00/"),
    "nul in a member": _upload(b'{"un\\u0000known": 1, "customers": [{"\\u0000": 1}]}'),
}


def _attack(batches: BatchClient, stop: threading.Event, seen: Counter[str]) -> None:
    while not stop.is_set():
        for name, trick in TRICKS.items():
            answer = trick(batches)
            seen[f"{name}: {answer.status_code}"] += 1
            assert len(answer.data) < 1_000_000
            if stop.is_set():
                return


@pytest.fixture
def neighbours(
    app: Flask, sessions: sessionmaker[Session], worker_resources: WorkerResources
) -> tuple[BatchClient, BatchClient]:
    with sessions.begin() as session:
        session.execute(delete(BatchChunk))
    hostile, victim = (
        BatchClient(SupplierClient.create(app, sessions, profile="strict"), worker_resources)
        for _ in range(2)
    )
    return hostile, victim


def _migrate_one_by_one(victim: BatchClient) -> Counter[int]:
    statuses: Counter[int] = Counter()
    for account in victim.supplier.accounts(ACCOUNTS):
        number = account["external_account_number"]
        statuses[victim.supplier.stage(account).status_code] += 1
        assert victim.supplier.process(number).status_code == 202
        attempt_id = victim.supplier.current_attempt(number)
        assert perform_attempt(victim.resources.Session, attempt_id)
        victim.resources.slots.release([str(attempt_id)])
        statuses[victim.supplier.status(number).json["status"] == "COMPLETED"] += 1  # type: ignore[index]
    return statuses


def test_every_account_of_an_organisation_is_imported_while_another_one_misuses_the_service(
    neighbours: tuple[BatchClient, BatchClient],
) -> None:
    hostile, victim = neighbours
    stop, seen = threading.Event(), Counter[str]()
    attacker = threading.Thread(target=_attack, args=[hostile, stop, seen])
    attacker.start()
    try:
        statuses = _migrate_one_by_one(victim)
        while len(seen) < len(TRICKS) and attacker.is_alive():
            attacker.join(0.1)
    finally:
        stop.set()
        attacker.join()
    assert statuses == {201: ACCOUNTS, True: ACCOUNTS}
    assert {name.partition(":")[0] for name in seen} == set(TRICKS)
    assert not [name for name in seen if name.rpartition(" ")[2].startswith("5")]
