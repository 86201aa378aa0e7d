"""What must be true at the end. Each line of the table is a promise and what broke it."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from drill.clients import Journal, Order
from drill.history import by_account
from drill.model import MODEL, AttemptRow, Tables
from drill.scene import POISON, SUPPLIER, Service
from support.servers import wait_until

_SHOWN = 5
#: Accounts that are created one after the other after the last fault.
CALM_ACCOUNTS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """A promise, how often it was checked, and what broke it."""

    promise: str
    counted: int
    losses: list[str]


def count(
    scene: Service, journal: Journal, limit: int, most_in_progress: int, kept_slots: list[str]
) -> list[Line]:
    """Compare the answers to the suppliers with the tables, the lists and the broker."""
    accounts, processes = read_rows(scene)
    orders = journal.orders
    exceeded = [f"{most_in_progress} at once"] if most_in_progress > limit else []
    histories, tables = by_account(journal.events), read_tables(scene)
    events = len(journal.events)
    model = [Line(promise, events, list(check(histories, tables))) for promise, check in MODEL.items()]
    return [
        *model,
        Line("accepted attempts tell their outcome", *_accepted(scene, journal)),
        Line("created accounts exist exactly once", len(accounts), find_doubled(accounts, processes)),
        Line("every order created, or reported failed", len(orders), _unsettled(orders, processes, scene)),
        Line("suppliers were told the number that the table has", len(orders), _wrong(orders, accounts)),
        Line("every line of a batch has its outcome, and its batch counts it", journal.lines, _lines(scene)),
        Line("each account has one owner, and what went live was told once", *_owners(scene, journal)),
        Line("a poisoned account fails with a reason", *_poisoned(scene)),
        Line("ledgers, transactions, line items: the sums sent", len(accounts), _money(scene, orders)),
        Line("lists and statuses say what the tables say", *_lists(scene, processes)),
        Line("nothing is IN_PROGRESS, every attempt has an outcome", *_attempts(scene)),
        Line(f"never more than {limit} at work", most_in_progress, exceeded),
        Line("a slot is free as soon as its account is created", CALM_ACCOUNTS, kept_slots),
        Line("slots are back to zero", 0, _if(scene.slots_in_use(), "slots in use")),
        Line("no message left over", 0, _messages(scene)),
        Line("no answer that nobody promised", sum(journal.statuses.values()), journal.surprises),
    ]


def _messages(scene: Service) -> list[str]:
    """Return what is left. Messages of the maintenance come and go, so one moment without any is enough."""
    try:
        wait_until(lambda: not any(scene.messages().values()), "no message")
    except AssertionError:
        return [f"{name}: {count}" for name, count in scene.messages().items() if count]
    return []


def read_rows(scene: Service) -> tuple[list[tuple[Any, ...]], dict[str, tuple[Any, ...]]]:
    """Return the accounts: the numbers of each. Return the processes, by the number of their account.

    A process has that number, its state, its service account number and the request that staged it.
    """
    processes = scene.query(
        "SELECT external_account_number, state, service_account_number, staged_request_id "
        "FROM account_import_process"
    )
    accounts = scene.query("SELECT external_account_number, service_account_number FROM account")
    return accounts, {row[0]: row for row in processes}


def read_tables(scene: Service) -> Tables:
    """Return what the model compares the histories with."""
    attempts = scene.query("""
        SELECT external_account_number, request_id, team.name, prefix, dry_run, outcome
        FROM attempt
        JOIN account_import_process process ON process.id = account_import_process_id
        JOIN operations_team team ON team.id = operations_team_id
        LEFT JOIN api_key ON api_key.id = api_key_id
        WHERE request_id IS NULL OR NOT starts_with(request_id, 'batch ')""")
    accounts = scene.query("""
        SELECT external_account_number, billing_address1, team.name
        FROM account JOIN operations_team team ON team.id = operations_team_id""")
    return Tables(
        [AttemptRow(*row) for row in attempts],
        {number: address for number, address, _ in accounts},
        {number: team for number, _, team in accounts},
    )


def _accepted(scene: Service, journal: Journal) -> tuple[int, list[str]]:
    """Each attempt that was answered 202 has an outcome, which the interface returns."""
    accepted = {event.attempt_id: event.question.number for event in journal.events if event.attempt_id}
    losses = []
    for attempt_id, number in accepted.items():
        answer = scene.send("GET", f"account-import-attempts/{attempt_id}/")
        told = answer.json()
        if not told.get("outcome") or told.get("external_account_number") != number:
            losses.append(f"{number}: attempt {attempt_id}: {answer.status_code} {answer.text[:200]}")
    return len(accepted), losses


def find_doubled(accounts: list[tuple[Any, ...]], processes: dict[str, tuple[Any, ...]]) -> list[str]:
    """Return what exists twice, or without its counterpart.

    `accounts` begin with the number, and `processes` have the state as their second value.
    """
    numbers = [number for number, _ in accounts]
    losses = [f"{number} twice" for number in set(numbers) if numbers.count(number) > 1]
    imported = {number for number, row in processes.items() if row[1] == "IMPORTED"}
    losses += [f"{number}: an account without an import" for number in set(numbers) - imported]
    return losses + [f"{number}: imported without an account" for number in imported - set(numbers)]


def _unsettled(orders: list[Order], processes: dict[str, tuple[Any, ...]], scene: Service) -> list[str]:
    losses = []
    for order in orders:
        state = processes.get(order.number, ("", "never staged"))[1]
        if order.service_account_number and state != "IMPORTED":
            losses.append(f"{order.number}: said to be created, and is {state}")
        if order.given_up:
            continue  # the model decides whether it may exist
        if not order.service_account_number and not order.failed_with:
            losses.append(f"{order.number}: nobody said what became of it; it is {state}")
        if order.failed_with:
            losses.append(f"{order.number}: a sound account failed with {order.failed_with}")
    return losses


def _wrong(orders: list[Order], accounts: list[tuple[Any, ...]]) -> list[str]:
    numbers = dict(accounts)
    return [
        f"{order.number}: told {order.service_account_number}, is {numbers.get(order.number)}"
        for order in orders
        if order.service_account_number and numbers.get(order.number) != order.service_account_number
    ]


def _lines(scene: Service) -> list[str]:
    """Each line has an outcome, and the counts of the batch match its lines."""
    rows = scene.query("SELECT batch_id::text, line_number FROM batch_line WHERE status = 'PENDING'")
    losses = [f"line {number} of batch {batch} has no outcome" for batch, number in rows]
    for batch, lines in scene.query("SELECT batch_id::text, count(*) FROM batch_line GROUP BY 1"):
        counts = scene.send("GET", f"batches/{batch}/").json()["counts"]
        if sum(counts[it] for it in ("STAGED", "IMPORTED", "REPLACED", "ADDED")) != lines:
            losses.append(f"batch {batch}: {counts} of {lines} lines")
    return losses


def _owners(scene: Service, journal: Journal) -> tuple[int, list[str]]:
    """The new platform owns the accounts that a client saw go live, each told of once, and no other one."""
    told = scene.query(
        """
        SELECT number, count(DISTINCT account.id), count(event.id)
        FROM (SELECT external_account_number AS number FROM account WHERE live_at IS NOT NULL
              UNION SELECT data ->> 'external_account_number' FROM event WHERE type = 'account.went_live'
              UNION SELECT unnest(%s::text[])) AS live
        LEFT JOIN account ON account.external_account_number = number AND account.live_at IS NOT NULL
        LEFT JOIN event ON event.type = 'account.went_live'
         AND event.data ->> 'external_account_number' = number
        GROUP BY number""",
        journal.live,
    )
    losses = [
        f"{number}: {live} live, {events} events" for number, live, events in told if (live, events) != (1, 1)
    ]
    unseen = {number for number, *_ in told} - set(journal.live)
    return len(journal.live), losses + [f"{number}: live, and nobody saw it" for number in unseen]


def _poisoned(scene: Service) -> tuple[int, list[str]]:
    """Each failed with a reason in the end. Before that, a request may have been told to retry."""
    rows = scene.query(
        "SELECT DISTINCT ON (p.id) p.external_account_number, p.state, outcome, error_code, error_detail "
        "FROM account_import_process p JOIN attempt a ON a.account_import_process_id = p.id "
        "WHERE p.external_account_number LIKE %s ORDER BY p.id, a.created_at DESC",
        f"{POISON}%",
    )
    good = ("PENDING", "FAILED", "account_creation_failed")
    return len(rows), [str(row) for row in rows if row[1:4] != good or not row[4]]


def _money(scene: Service, orders: list[Order]) -> list[str]:
    rows = scene.query("""
        SELECT external_account_number,
               (SELECT coalesce(sum(ledger_balance), 0) FROM ledger WHERE account_pk = account.id),
               (SELECT coalesce(sum(amount), 0) FROM transaction WHERE account_pk = account.id),
               (SELECT coalesce(sum(net_amount), 0) FROM line_item
                JOIN transaction ON transaction.id = transaction_pk WHERE account_pk = account.id)
        FROM account""")
    found: dict[str, tuple[Decimal, ...]] = {row[0]: row[1:] for row in rows}
    return [
        f"{order.number}: sent {order.money()}, found {found[order.number]}"
        for order in orders
        if order.number in found and found[order.number] != order.money()
    ]


def _lists(scene: Service, processes: dict[str, tuple[Any, ...]]) -> tuple[int, list[str]]:
    states = {"all": None, "pending": "PENDING", "imported": "IMPORTED"}
    losses = []
    for kind, state in states.items():
        listed = scene.send("GET", f"{kind}-account-import-processes/{SUPPLIER}/").json()
        got = {item["external_account_number"]: item["service_account_number"] for item in listed}
        due = {number: row[2] for number, row in processes.items() if state in (None, row[1])}
        if got != due or len(listed) != len(due):
            losses.append(f"{kind}: {len(listed)} listed, {len(due)} in the table")
    for number, row in processes.items():
        answer = scene.send("GET", f"account-transfer-status/{SUPPLIER}/{number}/").json()
        due_status = "COMPLETED" if row[1] == "IMPORTED" else "UNKNOWN"
        if answer != {"status": due_status, "service_account_number": row[2] or ""}:
            losses.append(f"{number}: {answer}, the table has {row[1:3]}")
    return len(processes), losses


def _attempts(scene: Service) -> tuple[int, list[str]]:
    rows = scene.query("SELECT id::text, outcome FROM attempt")
    losses = [f"attempt {attempt} has no outcome" for attempt, outcome in rows if outcome is None]
    return len(rows), losses + _if(scene.in_progress(), "accounts in progress")


def _if(number: int, what: str) -> list[str]:
    return [f"{number} {what}"] if number else []


def describe(losses: Iterable[str]) -> str:
    """Return the first few losses, for people."""
    shown = list(losses)
    more = f" ... and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return "; ".join(shown[:_SHOWN]) + more
