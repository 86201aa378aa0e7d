"""Batches with the real processes, with faults, interrupted uploads, and files larger than the memory."""

import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import psutil

from drill.faults import signal_all
from drill.scene import SUPPLIER, Scene
from migration_service_local.samples import generate_accounts
from support.batch_client import ndjson
from support.servers import wait_until

_OVER = ("COMPLETED", "STOPPED", "CANCELLED")


def _accounts(count: int, beginning: str) -> Iterator[dict[str, object]]:
    for index, account in enumerate(generate_accounts(count, supplier=SUPPLIER, seed=len(beginning))):
        yield account | {"external_account_number": f"{beginning}{index}"}


def _state(scene: Scene, batch_id: str) -> str:
    return str(scene.query("SELECT state FROM batch WHERE id = %s", batch_id)[0][0])


def _has_done(scene: Scene, batch_id: str, lines: int) -> bool:
    return _done(scene, batch_id) >= lines


def _done(scene: Scene, batch_id: str) -> int:
    statement = "SELECT count(*) FROM batch_line WHERE batch_id = %s AND status <> 'PENDING'"
    return int(scene.query(statement, batch_id)[0][0])


def _kill_a_child(scene: Scene, rng: Random) -> None:
    worker = scene.service.find("background")
    if children := worker.children() if worker else []:
        signal_all([rng.choice(children)], signal.SIGKILL)


def _kill_the_worker(scene: Scene, _: Random) -> None:
    if worker := scene.service.find("background"):
        signal_all([worker, *worker.children(recursive=True)], signal.SIGKILL)


def _wipe_redis(scene: Scene, _: Random) -> None:
    scene.redis.flushall()


def test_a_batch_processes_every_line_once_whatever_is_killed_or_deleted(scene: Scene) -> None:
    count = 1_000
    faults = [_kill_a_child, _kill_a_child, _wipe_redis, _kill_a_child, _kill_the_worker]
    rng = Random(5)
    batch_id = scene.start_batch(ndjson([*_accounts(count, "BATCH-"), b"{"]))
    for number, fault in enumerate(faults, 1):
        at_least = count * number // (len(faults) + 1)
        wait_until(partial(_has_done, scene, batch_id, at_least), f"{at_least} lines", 90)
        fault(scene, rng)
    wait_until(lambda: _state(scene, batch_id) in _OVER, "the end", 180)

    assert _state(scene, batch_id) == "COMPLETED"
    statement = "SELECT status, count(*) FROM batch_line WHERE batch_id = %s GROUP BY status"
    assert dict(scene.query(statement, batch_id)) == {"IMPORTED": count, "FAILED": 1}
    report = scene.send("GET", f"batches/{batch_id}/").json()
    assert (report["counts"]["IMPORTED"], report["counts"]["PENDING"]) == (count, 0)
    accounts = "SELECT count(*) FROM account WHERE external_account_number LIKE %s"
    assert scene.query(accounts, "BATCH-%") == [(count,)]
    found = scene.send("GET", f"reconciliation/{SUPPLIER}/", params={"batch": batch_id}).json()
    assert (found["created_clean"], found["totals"][0]["created"]) == (True, count)
    attempts = (
        "SELECT count(*) FROM attempt JOIN account_import_process process "
        "ON process.id = account_import_process_id WHERE external_account_number LIKE %s"
    )
    assert scene.query(attempts, "BATCH-%") == [(count,)]


def test_an_upload_needs_little_memory(scene: Scene, tmp_path: Path) -> None:
    scene.start_batch(ndjson(_accounts(100, "WARM-")), "validate")
    lines = ndjson(_accounts(100, "LARGE-"))
    pieces = 100_000_000 // len(lines)
    file = tmp_path / "large.ndjson"
    with file.open("wb") as written:
        written.writelines(lines.replace(b"LARGE-", b"L%d-" % piece) for piece in range(pieces))
    web = scene.service.find("web")
    assert web is not None
    before = _memory(web)
    highest, over = [before], threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            highest[0] = max(highest[0], _memory(web))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with file.open("rb") as sent:
            batch_id = scene.start_batch(sent, "validate")
    finally:
        over.set()
        watcher.join()
    assert scene.send("POST", f"batches/{batch_id}/cancel/").status_code == 200
    assert scene.query("SELECT lines FROM batch WHERE id = %s", batch_id) == [(pieces * 100,)]
    grown = (highest[0] - before) / 1e6
    assert grown < 50, f"the web processes grew by {grown:.0f} MB"


def _memory(process: psutil.Process) -> int:
    """Return the bytes of memory of a process and its children."""
    return sum(one.memory_info().rss for one in [process, *process.children(recursive=True)])
