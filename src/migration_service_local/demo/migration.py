"""A supplier's migration through the REST interface, with the suppliers' own client (section 4)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from migration_service_client import Client, ClientError
from migration_service_client.models import BatchProgressAnswer

#: The payment vendor that runs beside the service.
VENDOR = "sandbox"
#: The names under which the additions are counted, by the method of the client.
ADDITIONS = {
    "create_notes": "notes added",
    "create_transactions": "transactions added",
    "create_historical_statements": "statements added",
    "create_payment_instruction": "payment instructions added",
}
#: The name under which the accounts that the batch created are counted.
IMPORTED = "imported by a batch"
#: The counts of accounts that are sent individually.
STEPS = ("validated", "created")
_STATUSES = {"IMPORTED": IMPORTED, "ALREADY_IMPORTED": "imported before"}
_AT_ONCE, _AHEAD = 2, 50
_POLL_SECONDS = 0.3


class MigrationError(Exception):
    """The book could not be migrated. The message has the reason."""


@dataclass(slots=True)
class Outcome:
    """What came of the accounts so far."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    last_account: str = ""


def migrate_singly(
    client: Client,
    accounts: Iterator[dict[str, Any]],
    team: str,
    outcome: Outcome,
    on_each: Callable[[], None],
) -> None:
    """Validate, stage and process each account, and add data to it (section 4). Note what came of it."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="supplier") as pool:
        while part := list(islice(accounts, _AHEAD)):
            for account, (done, failure) in zip(
                part, pool.map(partial(_migrate, client, team), part), strict=True
            ):
                outcome.counts.update(done)
                if failure:
                    outcome.failures.append(failure)
                else:
                    outcome.last_account = account["external_account_number"]
                on_each()


def _migrate(client: Client, team: str, account: dict[str, Any]) -> tuple[list[str], str]:
    """Return what was done for an account, and why the rest was not. All requests may be repeated."""
    done: list[str] = []
    validated, created = STEPS
    try:
        client.validate_account(account)
        done.append(validated)
        client.create_account(account, operations_team_name=team)
        done.append(created)
        for operation, members in add_to_account(account):
            getattr(client, operation)(**members)
            done.append(ADDITIONS[operation])
    except ClientError as error:
        return done, f"{account['external_account_number']}: {' '.join(str(error).split())}"
    return done, ""


def import_as_batch(
    client: Client,
    lines: Iterable[bytes],
    outcome: Outcome,
    *,
    supplier: str,
    team: str,
    on_progress: Callable[[int], None],
) -> None:
    """Upload the lines (NDJSON) with mode `import`, and note what came of them.

    `on_progress` is called with the number of finished lines. Raise MigrationError if somebody else ended the
    batch, and ClientError if it was not accepted.
    """

    def show(found: BatchProgressAnswer) -> None:
        on_progress(found.lines - found.counts["PENDING"])

    started = client.start_batch(lines, import_supplier=supplier, mode="import", operations_team_name=team)
    batch = client.wait_for_batch(started.batch_id, seconds=_POLL_SECONDS, progress=show)
    if batch.state != "COMPLETED":
        raise MigrationError(f"batch {batch.batch_id} is {batch.state}")
    outcome.counts.update({what: batch.counts[status] for status, what in _STATUSES.items()})
    for line in client.get_batch_results(batch.batch_id, status="FAILED"):
        reasons = ", ".join(error.code for error in line.errors or ())
        outcome.failures.append(f"{line.external_account_number}: {reasons}")


def add_to_account(account: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the requests that add data to the account of a sample payload, all of them idempotent.

    Each is a method of the client and its arguments.
    """
    number = account["external_account_number"]
    pair = {"import_supplier": account["import_supplier"], "external_account_number": number}
    notes = [
        {"body": "Moved here from Sample Energy.", "is_pinned": True},
        {"document_paths": [{"document_path": "letters/announcement.pdf"}]},
    ]
    statement = {
        "statement_id": f"S-{number}-archive",
        "number": f"ARCHIVE-{number}",
        "issued_date": "2016-01-15",
        "bill_period_from_date": "2015-01-01",
        "bill_period_to_date": "2015-12-31",
        "gross_amount": 120_050,
        "statement_path": "statements/2015/archive.pdf",
    }
    instruction = {"vendor": VENDOR, "reference": f"card-ok-{number}", "type": "CARD"}
    yield "create_notes", pair | {"notes": notes}
    yield "create_transactions", pair | {"transactions": _transactions(number)}
    yield "create_historical_statements", pair | {"statements": [statement]}
    yield "create_payment_instruction", pair | instruction


def _transactions(number: str) -> list[dict[str, Any]]:
    today = datetime.now(UTC).date()
    return [
        {
            "transaction_id": f"P-{number}",
            "transaction_date": str(today),
            "amount": "25.00",
            "type": "PAYMENT",
            "payment_type": "DIRECT_CREDIT",
            "reference": f"payment on {number}",
        },
        # It is dated long ago, so its date is moved into the open statement period.
        {
            "transaction_id": f"C-{number}",
            "transaction_date": str(today - timedelta(days=3_650)),
            "amount": "5.00",
            "type": "CREDIT",
            "reason": "GENERAL_CREDIT",
            "display_note": "A credit that was forgotten",
        },
    ]
