"""The checks of `migration-service doctor` on work: workers, beat, slots, batches and attempts."""

import time
from collections.abc import Iterator

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from migration_service.doctor.diagnosis import Diagnosis, ServiceParts, ok, warning, wrong
from migration_service.metrics.broker import read_broker
from migration_service.payment_vendors.calls import read_failing
from migration_service.services.batches.results.activity import STALLED_AFTER
from migration_service.services.certificates.making import load_key
from migration_service.services.events.horizon import find_holder
from migration_service.services.processing.slots import Slots
from migration_service.services.reporting import counts
from migration_service.services.setup.vendors import list_payment_vendors
from migration_service.states import BatchCondition, EmailState
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.names import KEY_PREFIX, QUEUES, SWEEP_INTERVAL

#: Its table has the commands of each kind of install.
_RUNBOOKS = "docs/operators/runbooks.md"
#: The number of missed sweeps before beat, or the worker for maintenance, counts as dead.
_MISSED_SWEEPS = 6
#: The longest duration of an attempt, which is given up after five tries, ten seconds apart.
_STUCK_SECONDS = 120.0
_MOST_STUCK = 5
#: Seconds after which an open transaction is reported. The statements of the service take less.
_HELD_SECONDS = 60.0
#: Seconds after which a message to a person is reported.
_WAITING_SECONDS = 60.0
#: Mean seconds from which on a statement is reported, and how many are. Those of a request take milliseconds.
_SLOW_SECONDS, _MOST_SLOW = 1.0, 5
_SLOW_STATEMENTS = text("""
    SELECT query, calls, mean_exec_time / 1000 AS seconds,
           (shared_blks_hit + shared_blks_read) * current_setting('block_size')::bigint / calls AS bytes
    FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid
    WHERE datname = current_database() AND mean_exec_time > 1000 * :seconds
    ORDER BY total_exec_time DESC LIMIT :most
""")
#: Messages to people that have not been sent yet: their number, the age of the oldest, and a failure.
_WAITING_MESSAGES = text("""
    SELECT count(*) AS number,
           coalesce(CAST(extract(epoch FROM clock_timestamp() - min(created_at)) AS float), 0) AS seconds,
           max(error) AS error
    FROM (SELECT created_at, error FROM customer_email WHERE state = :state
          UNION ALL SELECT created_at, error FROM alert_email WHERE state = :state) AS waiting
""")
#: Certificates of which no worker does a piece. One without a key leaves them alone.
_WAITING_CERTIFICATES = text("""
    SELECT count(*) FROM certificate WHERE finished_at IS NULL AND accounts = 0
      AND created_at < clock_timestamp() - make_interval(secs => :seconds)
""")
#: How often a constantly changing number is read.
_READINGS, _PAUSE_SECONDS = 3, 1.0


def check_workers(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report whether each queue has a worker that responds, and batches enough chunks for their workers."""
    by_queue = list_workers(parts.celery, 2.0)
    for queue, workers in by_queue.items():
        part = f"queue {queue}"
        if workers:
            yield ok(f"{_number(len(workers), 'worker')}: {', '.join(workers)}", part=part)
        else:
            yield wrong(
                "no worker answers",
                "It is not running, or frozen. A busy worker would answer. "
                f"Start it, or end a frozen one: {_RUNBOOKS} says how.",
                part=part,
            )
    pools = (parts.celery.control.inspect(timeout=2.0).stats() or {}).items()
    processes = sum(it["pool"]["max-concurrency"] for name, it in pools if name in by_queue["batch"])
    if processes > parts.settings.batch_chunks_in_flight:
        yield warning(
            f"{processes} processes, and an organisation has {parts.settings.batch_chunks_in_flight} chunks "
            "in the queue: if it is alone, the others have nothing to do",
            f"Set MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT to {2 * processes} for all workers.",
            part="queue batch",
        )


def list_workers(celery: MigrationCelery, timeout: float) -> dict[str, list[str]]:
    """Return the names of the workers of each queue that respond within `timeout` seconds."""
    answers = celery.control.inspect(timeout=timeout).active_queues() or {}
    return {
        queue: sorted(name for name, taken in answers.items() if queue in {it["name"] for it in taken})
        for queue in QUEUES
    }


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def check_beat(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report whether the sweep ran recently, and if not, whether beat or a worker is at fault.

    Beat publishes the sweep. If its messages pile up in their queue, beat is running and the worker is not.
    """
    age = Slots(parts.redis).seconds_since_reconcile()
    if age is not None and age <= SWEEP_INTERVAL * _MISSED_SWEEPS:
        yield ok(f"the sweep ran {age:.0f} s ago")
        return
    seen = "the sweep has never run" if age is None else f"the last sweep was {age:.0f} s ago"
    seen += f"; expected one every {SWEEP_INTERVAL:.0f} s"
    before = _count_messages(parts, "maintenance")
    time.sleep(SWEEP_INTERVAL + 1)
    waiting = _count_messages(parts, "maintenance")
    if waiting > before:
        yield ok("sends messages")
        yield wrong(
            f"{seen}. {_number(waiting, 'message')} waiting, and more arrive",
            "If something is wrong with the database, the worker waits for it. Otherwise it is frozen or "
            "missing: restart the process that takes this queue.",
            part="queue maintenance",
        )
    else:
        advice = f"It is not running, or frozen. Restart it: {_RUNBOOKS} says how."
        yield wrong(f"{seen}. Its messages do not arrive", advice)


def _count_messages(parts: ServiceParts, queue: str) -> int:
    return read_broker(parts.redis, [queue], KEY_PREFIX).waiting[queue]


def check_slots(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report whether the number of slots matches the attempts, and whether the limit is exhausted.

    Both numbers change constantly, so they are read several times.
    """
    for reading in range(_READINGS):
        if reading:
            time.sleep(_PAUSE_SECONDS)
        in_use = Slots(parts.redis).in_use()
        with parts.sessions.begin() as session:
            now = counts.read_in_progress(session)
        if in_use == now.attempts:
            break
    limit = "no limit" if now.limit is None else f"limit {now.limit}"
    seen = f"{in_use} held, attempts in progress: {now.attempts}, {limit}"
    if in_use > now.attempts + max(5, now.attempts // 10):
        advice = "The sweep frees those of dead requests within 20 s. If they stay, see the lines about beat."
        yield warning(seen, advice)
    elif now.limit is not None and in_use > now.limit:
        yield warning(seen, "The limit was lowered, or Redis lost its data. No action is needed.")
    elif now.limit is not None and in_use == now.limit:
        yield warning(
            f"{seen}: the limit is exhausted",
            "Further requests are answered 429. Raise the limit (limit set), or wait until accounts finish.",
        )
    else:
        yield ok(seen)
    if now.limit == 1:
        yield warning(
            "the limit is 1: batches and requests compete for one slot",
            "Set a limit of 2 or more (limit set): then one slot always stays for requests.",
        )


def check_suppliers(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report each paused supplier, whose requests are refused and whose batches wait."""
    with parts.sessions.begin() as session:
        paused = counts.list_paused_suppliers(session)
    if not paused:
        yield ok("none is paused")
    for code, waiting in paused:
        yield warning(
            f"{code} is Paused, with {waiting} of its batches waiting",
            f"To continue: suppliers set-status {code} ongoing.",
        )


def check_vendors(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report each payment vendor whose last calls failed, in a request or in a batch."""
    with parts.sessions.begin() as session:
        names = {vendor.name for vendor, _ in list_payment_vendors(session)}
    failing = {name: found for name in sorted(names) if (found := read_failing(parts.redis, name))}
    if not failing:
        yield ok("no call failed last" if names else "there are none")
    for name, it in failing.items():
        breaker = ". Its circuit breaker is open" if it.is_open else ""
        yield warning(
            f"{name} has answered no call for {it.seconds:.0f} s, the last one {it.last_seconds:.0f} s ago. "
            f"{it.reason}{breaker}",
            "Ask the vendor, or correct its address and secret. Lines that wait for it are DEFERRED, and "
            "are retried automatically. Restarting workers does not help.",
        )


def check_batches(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report each running batch that makes no progress, or slow progress because the machine is busy."""
    with parts.sessions.begin() as session:
        found, deferred = counts.read_running_batches(session)
    concerns = {
        batch_id: it
        for batch_id, it in found.items()
        if it.condition is BatchCondition.STARVING or it.idle_seconds > STALLED_AFTER
    }
    if not concerns and not deferred:
        yield ok("every running batch makes progress")
    for batch_id, waiting in deferred.items():
        who = f"vendor {', '.join(waiting.vendors)}" if waiting.vendors else "their accounts"
        then = (
            f"next try at {waiting.next_try_at:%H:%M} UTC" if waiting.next_try_at else "being tried right now"
        )
        yield ok(f"{batch_id}: {_number(waiting.lines, 'deferred line')}, for {who}, {then}")
    for batch_id, it in concerns.items():
        if it.condition is BatchCondition.STARVING:
            yield warning(
                f"{batch_id}: its workers waited for a processor for {it.processor_wait:.0%} of their last "
                "pieces of work",
                "The machine is busy with other work. End that, or give the batch workers another host.",
            )
        else:
            yield warning(
                f"{batch_id}: no line has been processed for {it.idle_seconds:.0f} s",
                f"See migration-client batches show {batch_id}. If it is STALLED, restart the workers of the "
                f"queue {it.queue}.",
            )


def check_events(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report the session that holds the events of all later transactions back."""
    with parts.sessions.begin() as session:
        holder = find_holder(session)
    if holder is None or holder.seconds <= _HELD_SECONDS:
        yield ok("no open transaction holds them back")
        return
    yield warning(
        f"those of the last {holder.seconds:.0f} s cannot be read yet: {holder.name} has an open transaction",
        f"Let it commit, or end it as a superuser of PostgreSQL: {holder.end_with}",
    )


def check_messages(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report how many messages to people wait for the mail server, and why."""
    with parts.sessions.begin() as session:
        waiting = session.execute(_WAITING_MESSAGES, {"state": EmailState.PENDING}).one()
    if not waiting.number or waiting.seconds <= _WAITING_SECONDS:
        yield ok("no message waits for long")
        return
    number = (
        f"{waiting.number:,} message waits" if waiting.number == 1 else f"{waiting.number:,} messages wait"
    )
    why = f" {waiting.error}" if waiting.error else ""
    yield warning(
        f"{number} for the mail server, the oldest for {waiting.seconds:.0f} s.{why}",
        "If the mail server does not answer, or MIGRATION_SERVICE_SMTP_URL is not set for the workers of the "
        "queue deliveries, correct that. If it is only slow, wait: nothing else waits behind these messages.",
    )


def check_certificates(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that this process has a key that signs certificates, and that the workers use one."""
    key = parts.settings.certificate_key
    with parts.sessions.begin() as session:
        waiting = session.scalar(_WAITING_CERTIFICATES, {"seconds": _WAITING_SECONDS}) or 0
    if not key:
        yield warning(
            "MIGRATION_SERVICE_CERTIFICATE_KEY is not set here, so none can be started",
            "Give the web servers and the workers of the queue batch the same key: see "
            "docs/operators/secrets.md.",
        )
    elif waiting:
        yield warning(
            f"{_number(waiting, 'certificate')} not begun",
            "If the workers of the queue batch run, give them MIGRATION_SERVICE_CERTIFICATE_KEY.",
        )
    else:
        public_key = load_key(key).public_key().public_bytes_raw().hex()
        yield ok(f"signed with the key whose public key is {public_key}")


def check_statements(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report the statements that take long, and how much they read, if PostgreSQL counts that."""
    try:
        with parts.sessions.begin() as session:
            slow = session.execute(_SLOW_STATEMENTS, {"seconds": _SLOW_SECONDS, "most": _MOST_SLOW}).all()
    except DBAPIError:
        yield ok("not measured: the extension pg_stat_statements is not installed or loaded")
        return
    if not slow:
        yield ok(f"none takes more than {_SLOW_SECONDS:.0f} s")
    for it in slow:
        yield warning(
            f"{it.seconds:.1f} s and {it.bytes / 1e6:,.0f} MB read at each of {it.calls} calls: "
            f"{' '.join(it.query.split())[:200]}",
            "If its tables have grown a lot, run ANALYZE, then SELECT pg_stat_statements_reset(). If it is "
            "still slow then, send the bundle to the people who maintain the service.",
        )


def check_stuck_attempts(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Report each attempt that has been in progress for longer than all its tries can take."""
    with parts.sessions.begin() as session:
        oldest = counts.list_running_requests(session, import_supplier_ids=None, limit=_MOST_STUCK)
    stuck = [attempt for attempt in oldest if attempt.seconds > _STUCK_SECONDS]
    if not stuck:
        yield ok(f"none has been in progress for more than {_STUCK_SECONDS:.0f} s")
    for attempt in stuck:
        yield wrong(
            f"{attempt.import_supplier} {attempt.external_account_number} has been in progress for "
            f"{attempt.seconds:.0f} s, tries: {attempt.tries}",
            "Start beat and the workers: they finish it or give it up within a minute.",
        )
