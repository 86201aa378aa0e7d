"""One round of each thing that the service is measured by, as `measures` and `compare` use it."""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import requests
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from benchmarks.bench import Bench, Reading
from benchmarks.costs import metered
from benchmarks.payloads import NUMBER, SUPPLIER, TEAM, write_lines
from benchmarks.seed import stage_copies, start_staged
from migration_payloads.files.ndjson import FileLimits
from migration_payloads.profile import Profile
from migration_payloads.validation import validate_text
from migration_service.models import Batch, BatchLine, Undo, UndoLine
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.spool import SpooledLines
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import start_undo
from migration_service.states import BatchKind, BatchMode, LineStatus, UndoOutcome
from migration_service.tasks.batches import feed_batches
from migration_service.tasks.jobs import UNDOS, dispatch
from migration_service_local.demo.migration import add_to_account

STAGE = "/account-import-process/create-or-update/"
VALIDATE = "/validate-account/"
_STATUS = f"/account-transfer-status/{SUPPLIER}/{NUMBER}/"
_PROCESS = "/account-import-process/process/"

#: Clients that ask at the same time: as a migration tool would, enough to keep both processes busy.
CLIENTS = 16
#: Clients that wait for accounts at the same time.
MANY_CLIENTS = 64
#: Numbers of fresh accounts: more than will be sent in one round.
FRESH = 200_000
#: Accounts a second that are staged beforehand at least: more than will be created.
_HIGHEST_RATE = 1_500
#: Accounts that data is added to.
_ADDED_TO = 200
#: Lines of a batch of added data for each account of a batch of accounts.
_ADDED_LINES = 4


def send_payloads(
    bench: Bench, seconds: float, path: str, *, peer: bool = False, clients: int = CLIENTS
) -> Reading:
    """Send fresh accounts to this endpoint, ours or the peer's."""
    url = f"{bench.peer_url if peer else bench.interface}{path}"
    first = bench.take_numbers(FRESH)
    return bench.load(url, "stage", seconds, clients, bodies=bench.bodies, first=first, count=FRESH)


def ask_status(bench: Bench, seconds: float, *, peer: bool = False, clients: int = CLIENTS) -> Reading:
    """Ask for the status of one account that exists after the other, ours or the peer's."""
    url = f"{bench.peer_url if peer else bench.interface}{_STATUS}"
    return bench.load(url, "get", seconds, clients, count=bench.templates)


def live(bench: Bench, seconds: float) -> Reading:
    """Ask the empty endpoint of the same server."""
    return bench.load(f"{bench.url}/health/live", "get", seconds, CLIENTS)


#: All rules are on.
stage = partial(send_payloads, path=STAGE)
validate = partial(send_payloads, path=VALIDATE)


def process(bench: Bench, seconds: float, clients: int = MANY_CLIENTS, *, keyed: bool = False) -> Reading:
    """Create accounts that were staged beforehand, with so many clients. `keyed`: with idempotency keys."""
    first, count = stage_ahead(bench, seconds, clients)
    mode, url = "keyed" if keyed else "process", bench.interface + _PROCESS
    return bench.load(url, mode, seconds, clients, bodies=bench.process_body, first=first, count=count)


def stage_ahead(bench: Bench, seconds: float, clients: int) -> tuple[int, int]:
    """Stage more accounts than can be created in this time. Return the first number, and how many."""
    count = int(max(1, round(seconds)) * _HIGHEST_RATE) + 4 * clients
    first = bench.take_numbers(count)
    stage_copies(bench.stack.settings, first, count, bench.templates)
    return first, count


_UNIQUE = "@UNIQUE@"
#: Where a request adds data to an account, for each kind of added data.
ADD = {
    BatchKind.NOTES: "/notes/create/",
    BatchKind.TRANSACTIONS: "/transactions/create/",
    BatchKind.STATEMENTS: "/historical-statements/create/",
    BatchKind.PAYMENT_INSTRUCTIONS: "/payment-instruction/create/",
}


def _prepare_to_add(bench: Bench, kind: BatchKind) -> tuple[int, str]:
    """Create accounts. Return the first number, and the body that adds one new item to one of them.

    It is the first item of the kind that the sample migration adds to each account.
    """
    first = bench.take_numbers(_ADDED_TO)
    import_batch(bench, first, _ADDED_TO)
    additions = add_to_account({"import_supplier": SUPPLIER, "external_account_number": _UNIQUE})
    body = dict(zip(ADD, additions, strict=True))[kind][1] | {"external_account_number": NUMBER}
    body |= {name: items[:1] for name, items in body.items() if isinstance(items, list)}
    if kind is BatchKind.NOTES:
        body["notes"] = [{"body": f"Called about {_UNIQUE}."}]
    return first, json.dumps(body)


def add(bench: Bench, seconds: float, kind: BatchKind) -> Reading:
    """Add one new item after the other to accounts that exist, each with a request."""
    first, body = _prepare_to_add(bench, kind)
    file = write_lines(bench.folder / "added.json", [body])
    url = bench.interface + ADD[kind]
    return bench.load(url, "add", seconds, CLIENTS, bodies=file, first=first, count=_ADDED_TO)


def add_by_batch(bench: Bench, kind: BatchKind) -> Reading:
    """Add the same with one batch, from the file to its last line: one item per line, as in a request."""
    accounts, body = _prepare_to_add(bench, kind)
    count = bench.extent.batch * _ADDED_LINES
    unique = bench.take_numbers(count)
    lines = (
        body.replace(NUMBER, f"{accounts + place % _ADDED_TO:08d}").replace(_UNIQUE, f"b{unique + place}")
        for place in range(count)
    )
    file = write_lines(bench.folder / "added.ndjson", lines)
    return run_batch(bench, file, BatchOrder(mode=BatchMode.IMPORT, kind=kind), count, LineStatus.ADDED)


def check_lines(bench: Bench, _seconds: float) -> Reading:
    """Parse and validate the payloads in this process, one after the other."""
    lines = [text.encode() for text in bench.texts]
    started, used = time.perf_counter(), time.process_time()
    for line in lines:
        validate_text(line, Profile.LENIENT).raise_errors()
    seconds, used = time.perf_counter() - started, time.process_time() - used
    return Reading(len(lines), len(lines) / seconds, costs={"this process": used * 1000 / len(lines)})


def import_accounts(bench: Bench, _seconds: float) -> Reading:
    """Import a batch of fresh accounts."""
    count = bench.extent.batch
    return import_batch(bench, bench.take_numbers(count), count)


def stage_numbers(bench: Bench, count: int) -> list[int]:
    """Stage so many accounts. Return the ids of their processes."""
    return stage_copies(bench.stack.settings, bench.take_numbers(count), count, bench.templates)


def import_staged(bench: Bench, count: int) -> Reading:
    """Stage accounts and import them as a wave does it, measured from the order to the last account."""
    processes = stage_numbers(bench, count)
    begin = partial(start_staged, processes=processes)
    return measure_work(bench, begin, count, Batch, LineStatus.IMPORTED)


def import_batch(bench: Bench, first: int, count: int, *, again: bool = False) -> Reading:
    """From the file to its last account, as `batches start` does it; the workers of `batch` do the work.

    `again` means that the accounts exist already. Their file has another order, so that it is not the same.
    """
    file = write_lines(bench.folder / "batch.ndjson", lines_of(bench, first, count)[:: -1 if again else 1])
    order = BatchOrder(mode=BatchMode.IMPORT, operations_team_name=TEAM)
    expected = LineStatus.ALREADY_IMPORTED if again else LineStatus.IMPORTED
    return run_batch(bench, file, order, count, expected)


def deliver_again(bench: Bench, _seconds: float) -> Reading:
    """Import a batch, and measure how long it takes to send it a second time."""
    first = bench.take_numbers(bench.extent.batch)
    import_batch(bench, first, bench.extent.batch)
    return import_batch(bench, first, bench.extent.batch, again=True)


def report(bench: Bench, seconds: float) -> Reading:
    """Ask once for the report of a batch that was just imported, which reconciles it."""
    import_accounts(bench, seconds)
    batch_id = _ask(bench, select(Batch.id).order_by(Batch.created_at.desc()).limit(1))
    url = f"{bench.interface}/reports/{batch_id}/"
    started = time.perf_counter()
    with metered(bench.stack) as meter:
        headers = {"Authorization": f"Token {bench.token}"}
        requests.get(url, headers=headers, timeout=60).raise_for_status()
        taken = time.perf_counter() - started
    return Reading(1, 1 / taken, costs=meter.of_one(1))


def run_batch(bench: Bench, file: Path, order: BatchOrder, count: int, expected: LineStatus) -> Reading:
    """Run a batch of a file whose lines all get the expected status."""
    settings = bench.stack.settings
    limits = FileLimits(line=settings.max_body_bytes, total=settings.max_batch_bytes)

    def begin(session: Session) -> UUID:
        with file.open("rb") as stream:
            supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
            lines = SpooledLines(stream, limits, identity=order.identify(SUPPLIER))
            return start_batch(session, supplier, order, lines)

    return measure_work(bench, begin, count, Batch, expected)


def revert_batch(bench: Bench) -> Reading:
    """Import a batch, and revert it as `undo start` does. Its import is not measured."""
    import_accounts(bench, 0)

    def begin(session: Session) -> UUID:
        supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
        batch = session.scalars(select(Batch).order_by(Batch.created_at.desc()).limit(1)).one()
        return start_undo(session, UndoOrder(supplier=supplier, batch=batch, reason="measured"))

    return measure_work(bench, begin, bench.extent.batch, Undo, UndoOutcome.REVERTED)


def measure_work(
    bench: Bench,
    begin: Callable[[Session], UUID],
    count: int,
    kind: type[Batch | Undo],
    expected: LineStatus | UndoOutcome,
) -> Reading:
    """Begin a batch or an undo, and measure until its last line. All lines get the expected status."""
    started, used = time.perf_counter(), time.process_time()
    with metered(bench.stack) as meter:
        with bench.sessions.begin() as session:
            order_id = begin(session)
        if kind is Batch:
            feed_batches(bench.celery, bench.sessions)
        else:
            dispatch(bench.celery, bench.sessions, UNDOS)
        used = time.process_time() - used
        is_over = select(kind.finished_at.is_not(None)).where(kind.id == order_id)
        while not _ask(bench, is_over):
            time.sleep(0.02)
        seconds = time.perf_counter() - started
    lines = (
        select(func.count()).where(BatchLine.batch_id == order_id, BatchLine.status == expected)
        if kind is Batch
        else select(func.count()).where(UndoLine.undo_id == order_id, UndoLine.outcome == expected)
    )
    done = _ask(bench, lines)
    assert done == count, f"{done} lines of {count} are {expected}"
    costs = meter.of_one(count) | {"upload": used * 1000 / count}
    return Reading(count, count / seconds, costs=costs)


def _ask(bench: Bench, question: Select[Any]) -> Any:
    with bench.sessions() as session:
        return session.scalar(question)


def lines_of(bench: Bench, first: int, count: int) -> Sequence[str]:
    """Return so many payloads, with the numbers from `first` on."""
    return [
        bench.texts[number % len(bench.texts)].replace(NUMBER, f"{number:08d}")
        for number in range(first, first + count)
    ]


#: What `--compare` measures, in this order.
PROBES: dict[str, Callable[[Bench, float], Reading]] = {
    "stage": stage,
    "validate": validate,
    "status": ask_status,
    "process-one": partial(process, clients=1),
    "process-many": process,
    "notes": partial(add, kind=BatchKind.NOTES),
    "transactions": partial(add, kind=BatchKind.TRANSACTIONS),
    "check": check_lines,
    "import": import_accounts,
}
