"""One round of each thing that the service is measured by, as `measures` and `compare` use it."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import requests
from sqlalchemy import func, select

from benchmarks.bench import Bench, Reading
from benchmarks.costs import metered
from benchmarks.payloads import NUMBER, SUPPLIER, TEAM, VENDOR, write_added_body
from benchmarks.seed import stage_copies, start_staged
from migration_payloads.files.ndjson import FileLimits
from migration_payloads.profile import Profile
from migration_payloads.validation import validate_text
from migration_service.models import Batch, BatchLine
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.spool import SpooledLines
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import BatchKind, BatchMode, LineStatus
from migration_service.tasks.batches import feed_batches

INTERFACE = "/v1/data-import"
STAGE = "/account-import-process/create-or-update/"
VALIDATE = "/validate-account/"
STATUS = f"/account-transfer-status/{SUPPLIER}/{NUMBER}/"
_PROCESS = "/account-import-process/process/"

#: Clients that ask at the same time: as a migration tool would, enough to keep both processes busy.
CLIENTS = 16
#: Clients that wait for accounts at the same time.
MANY_CLIENTS = 64
#: Accounts a second that are staged beforehand at least: more than will be created.
_HIGHEST_RATE = 1_500
#: Accounts that data is added to.
_ADDED_TO = 200
#: Lines of a batch of added data for each account of a batch of accounts.
_ADDED_LINES = 4


def send_payloads(bench: Bench, url: str, seconds: float, clients: int = CLIENTS) -> Reading:
    """Send fresh accounts to this endpoint."""
    count = 200_000
    first = bench.take_numbers(count)
    options = {"bodies": bench.bodies, "first": first, "count": count}
    return bench.load(url, mode="stage", seconds=seconds, clients=clients, **options)


def ask_status(bench: Bench, url: str, seconds: float, clients: int = CLIENTS) -> Reading:
    """Ask this endpoint for one account after the other."""
    return bench.load(url, mode="get", seconds=seconds, clients=clients, count=bench.templates)


def stage(bench: Bench, seconds: float) -> Reading:
    """Stage fresh accounts, all rules on."""
    return send_payloads(bench, bench.url + INTERFACE + STAGE, seconds)


def stage_one(bench: Bench, seconds: float) -> Reading:
    """Stage fresh accounts, one after the other."""
    return send_payloads(bench, bench.url + INTERFACE + STAGE, seconds, clients=1)


def validate(bench: Bench, seconds: float) -> Reading:
    """Validate accounts through the interface, all rules on."""
    return send_payloads(bench, bench.url + INTERFACE + VALIDATE, seconds)


def status(bench: Bench, seconds: float) -> Reading:
    """Ask for the status of accounts that exist."""
    return ask_status(bench, bench.url + INTERFACE + STATUS, seconds)


def live(bench: Bench, seconds: float) -> Reading:
    """Ask the empty endpoint of the same server."""
    return ask_status(bench, bench.url + "/health/live", seconds)


def process_one(bench: Bench, seconds: float) -> Reading:
    """Create accounts that were staged beforehand, one after the other."""
    return process(bench, seconds, 1)


def process_many(bench: Bench, seconds: float) -> Reading:
    """Create accounts that were staged beforehand, with 64 clients."""
    return process(bench, seconds, MANY_CLIENTS)


def process(bench: Bench, seconds: float, clients: int, *, keyed: bool = False) -> Reading:
    """Create accounts that were staged beforehand, with so many clients. `keyed`: with idempotency keys."""
    first, count = stage_ahead(bench, seconds, clients)
    options = {"bodies": bench.process_body, "first": first, "count": count}
    return bench.load(
        bench.url + INTERFACE + _PROCESS,
        mode="keyed" if keyed else "process",
        seconds=seconds,
        clients=clients,
        **options,
    )


def stage_ahead(bench: Bench, seconds: float, clients: int) -> tuple[int, int]:
    """Stage more accounts than can be created in this time. Return the first number, and how many."""
    count = int(max(1, round(seconds)) * _HIGHEST_RATE) + 4 * clients
    first = bench.take_numbers(count)
    stage_copies(bench.stack.settings, first, count, bench.templates)
    return first, count


_TODAY = time.strftime("%Y-%m-%d", time.gmtime())
_UNIQUE = "@UNIQUE@"
#: What is added to an account, for each kind of added data.
_ADDED: dict[BatchKind, dict[str, object]] = {
    BatchKind.NOTES: {"notes": [{"body": f"Called about {_UNIQUE}."}]},
    BatchKind.TRANSACTIONS: {
        "transactions": [
            {
                "transaction_id": f"bench-{_UNIQUE}",
                "transaction_date": _TODAY,
                "amount": "12.50",
                "type": "PAYMENT",
                "payment_type": "DIRECT_CREDIT",
            }
        ]
    },
    BatchKind.STATEMENTS: {
        "statements": [
            {
                "bill_period_from_date": "2026-01-01",
                "bill_period_to_date": "2026-01-31",
                "statement_id": f"bench-{_UNIQUE}",
                "issued_date": "2026-02-01",
                "number": f"N-{_UNIQUE}",
                "gross_amount": 4928,
                "statement_path": f"statements/{_UNIQUE}.pdf",
            }
        ]
    },
    BatchKind.PAYMENT_INSTRUCTIONS: {
        "vendor": VENDOR,
        "reference": f"card-ok-{_UNIQUE}",
        "type": "CARD",
    },
}


def add_notes(bench: Bench, seconds: float) -> Reading:
    """Add one new note after the other to accounts that exist."""
    return _add(bench, "/notes/create/", _ADDED[BatchKind.NOTES], seconds)


def add_transactions(bench: Bench, seconds: float) -> Reading:
    """Add one new transaction after the other to accounts that exist."""
    return _add(bench, "/transactions/create/", _ADDED[BatchKind.TRANSACTIONS], seconds)


def add_statements(bench: Bench, seconds: float) -> Reading:
    """Add one new statement after the other to accounts that exist."""
    return _add(bench, "/historical-statements/create/", _ADDED[BatchKind.STATEMENTS], seconds)


def add_instructions(bench: Bench, seconds: float) -> Reading:
    """Add one new payment instruction after the other. The vendor is asked about each."""
    return _add(bench, "/payment-instruction/create/", _ADDED[BatchKind.PAYMENT_INSTRUCTIONS], seconds)


def add_by_batch(bench: Bench, kind: BatchKind) -> Reading:
    """Add the same with one batch, from the file to its last line: one item per line, as in a request."""
    accounts = bench.take_numbers(_ADDED_TO)
    import_batch(bench, accounts, _ADDED_TO)
    count = bench.extent.batch * _ADDED_LINES
    unique = bench.take_numbers(count)
    body = json.dumps({"external_account_number": NUMBER, "import_supplier": SUPPLIER, **_ADDED[kind]})
    file = bench.folder / "added.ndjson"
    with file.open("w") as stream:
        for place in range(count):
            number = f"{accounts + place % _ADDED_TO:08d}"
            stream.write(body.replace(NUMBER, number).replace(_UNIQUE, f"b{unique + place}") + "\n")
    return run_batch(bench, file, BatchOrder(mode=BatchMode.IMPORT, kind=kind), count, LineStatus.ADDED)


def _add(bench: Bench, path: str, data: dict[str, object], seconds: float) -> Reading:
    first = bench.take_numbers(_ADDED_TO)
    import_batch(bench, first, _ADDED_TO)
    body = write_added_body(bench.folder / "added.json", data)
    options = {"bodies": body, "first": first, "count": _ADDED_TO}
    return bench.load(bench.url + INTERFACE + path, mode="add", seconds=seconds, clients=CLIENTS, **options)


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

    def begin() -> UUID:
        with bench.sessions.begin() as session:
            return start_staged(session, processes)

    return measure_batch(bench, begin, count, LineStatus.IMPORTED)


def import_batch(bench: Bench, first: int, count: int, *, again: bool = False) -> Reading:
    """From the file to its last account, as `batches start` does it; the workers of `batch` do the work.

    `again` means that the accounts exist already. Their file has another order, so that it is not the same.
    """
    file = bench.folder / "batch.ndjson"
    file.write_text("\n".join(lines_of(bench, first, count)[:: -1 if again else 1]) + "\n")
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
    with bench.sessions() as session:
        batch_id = session.scalar(select(Batch.id).order_by(Batch.created_at.desc()).limit(1))
    url = f"{bench.url}{INTERFACE}/reports/{batch_id}/"
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

    def begin() -> UUID:
        with file.open("rb") as stream, bench.sessions.begin() as session:
            supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
            lines = SpooledLines(stream, limits, identity=order.identify(SUPPLIER))
            return start_batch(session, supplier, order, lines)

    return measure_batch(bench, begin, count, expected)


def measure_batch(bench: Bench, begin: Callable[[], UUID], count: int, expected: LineStatus) -> Reading:
    """Begin a batch, and measure until its last line. All lines get the expected status."""
    started, used = time.perf_counter(), time.process_time()
    with metered(bench.stack) as meter:
        batch_id = begin()
        feed_batches(bench.celery, bench.sessions)
        used = time.process_time() - used
        while not _is_over(bench, batch_id):
            time.sleep(0.02)
        seconds = time.perf_counter() - started
    with bench.sessions() as session:
        own = BatchLine.batch_id == batch_id, BatchLine.status == expected
        done = session.scalar(select(func.count()).select_from(BatchLine).where(*own))
    assert done == count, f"{done} lines of {count} are {expected}"
    costs = meter.of_one(count) | {"upload": used * 1000 / count}
    return Reading(count, count / seconds, costs=costs)


def lines_of(bench: Bench, first: int, count: int) -> Sequence[str]:
    """Return so many payloads, with the numbers from `first` on."""
    return [
        bench.texts[number % len(bench.texts)].replace(NUMBER, f"{number:08d}")
        for number in range(first, first + count)
    ]


def _is_over(bench: Bench, batch_id: UUID) -> bool:
    with bench.sessions() as session:
        return session.scalar(select(Batch.finished_at).where(Batch.id == batch_id)) is not None


#: What `--compare` measures, in this order.
PROBES: dict[str, Callable[[Bench, float], Reading]] = {
    "stage": stage,
    "validate": validate,
    "status": status,
    "process-one": process_one,
    "process-many": process_many,
    "notes": add_notes,
    "transactions": add_transactions,
    "check": check_lines,
    "import": import_accounts,
}
