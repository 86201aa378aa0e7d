"""Deliveries of webhooks a second, and how long events wait, also if half of the endpoints hang.

    make bench ARGS="webhooks --seconds 20"

A worker process sends to endpoints of a receiver on this machine, over http. First events are recorded at
once, and the deliveries a second counted. Then events are recorded at a constant rate, and the time of each
delivery to an endpoint that answers is counted from the commit: first with endpoints that answer only, then
beside as many that answer after 30 seconds. The exit status is 1 if a goal is missed.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from benchmarks.report import describe_machine
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.db.base import new_id
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.outgoing.rules import AddressRules
from migration_service.services.webhooks.endpoints import create_endpoint
from migration_service.services.webhooks.secrets import Seal
from migration_service.tasks.names import SEND_DELIVERIES
from migration_service.tasks.publishing import publish
from support.factories import Customer, make_customer
from support.servers import EmbeddedServers, ending_with_us, wait_until

#: The goals: deliveries a second, seconds to the first attempt, and how many times as long if half hang.
RATE, SECONDS, BOUND = 500, 2.0, 2.0
ENDPOINTS = 20
_HANG_SECONDS = 30
_PORT = 18_473
_RULES = AddressRules.from_texts("127.0.0.0/8", allows_http=True)


@click.command("webhooks")
@click.option("--seconds", default=20.0, show_default=True, help="How long events are recorded at a rate.")
@click.option("--events-per-second", default=10, show_default=True, help="Each goes to every endpoint.")
@click.option("--burst", default=500, show_default=True, help="Events that are recorded at once.")
@click.option("--receive", is_flag=True, hidden=True)
def main(seconds: float, events_per_second: int, burst: int, receive: bool) -> None:
    """Measure webhooks."""
    if receive:
        asyncio.run(_receive())
        return
    with EmbeddedServers(durable=True) as servers:
        servers.upgrade()
        engine = make_engine(servers.database_url, pool_size=2, max_overflow=0, application_name="bench")
        sessions = make_sessionmaker(engine)
        customer = make_customer(sessions)
        _add(sessions, customer, "answer")
        with _running(servers):
            rate = _measure_rate(sessions, customer, burst)
            alone = _measure_times(sessions, customer, seconds, events_per_second)
            _add(sessions, customer, "hang")
            beside = _measure_times(sessions, customer, seconds, events_per_second)
        engine.dispose()
    click.echo(describe_machine())
    click.echo(f"deliveries a second: {rate:,.0f} (goal: {RATE})")
    click.echo(f"commit to first attempt, p99: {alone:.3f} s (goal: {SECONDS} s)")
    times = beside / alone
    click.echo(f"beside as many endpoints that hang: {beside:.3f} s, {times:.2f} times (goal: {BOUND})")
    sys.exit(0 if rate >= RATE and alone <= SECONDS and beside <= BOUND * alone else 1)


@contextmanager
def _running(servers: EmbeddedServers) -> Iterator[None]:
    environment = os.environ | {
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        "MIGRATION_SERVICE_WEBHOOK_HTTP": "on",
        "MIGRATION_SERVICE_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "MIGRATION_SERVICE_LOG_LEVEL": "WARNING",
    }
    worker = ("celery", "--quiet", "-A", "celery_worker", "worker", "--without-gossip", "--without-mingle")
    commands = (
        ending_with_us(sys.executable, "-m", "benchmarks", "webhooks", "--receive"),
        ending_with_us(sys.executable, "-m", *worker, "-Q", "deliveries", "-c", "1"),
    )
    settings = Settings(
        home=servers.home.path,
        database_url=servers.database_url,
        redis_url=servers.redis_url,
        secret_key="x" * 32,
    )
    celery = create_celery(settings, loads_tasks=False)
    processes = [subprocess.Popen(command, env=environment) for command in commands]
    publish(celery, SEND_DELIVERIES)
    celery.close()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait(60)


def _add(sessions: sessionmaker[Session], customer: Customer, manner: str) -> None:
    with sessions.begin() as session:
        for number in range(ENDPOINTS):
            url = f"http://127.0.0.1:{_PORT}/{manner}/{number}"
            create_endpoint(session, customer.organisation_id, _RULES, Seal([]), {"url": url})


def _measure_rate(sessions: sessionmaker[Session], customer: Customer, burst: int) -> float:
    """Return deliveries a second, from the commit of all events to the last answer."""
    _record(sessions, customer, 1)  # starts the worker, and opens its connections
    _wait_until_sent(sessions)
    _record(sessions, customer, burst)
    started = time.monotonic()
    _wait_until_sent(sessions)
    return burst * ENDPOINTS / (time.monotonic() - started)


def _measure_times(
    sessions: sessionmaker[Session], customer: Customer, seconds: float, events_per_second: int
) -> float:
    """Return the 99th percentile of the seconds to the first attempt at endpoints that answer."""
    times: dict[str, float] = {}
    started = time.monotonic()
    for number in range(int(seconds * events_per_second)):
        time.sleep(max(0.0, started + number / events_per_second - time.monotonic()))
        (event_id,) = _record(sessions, customer, 1)
        times[event_id] = time.time()
    _wait_until_sent(sessions)
    with sessions() as session:
        rows = session.execute(text(_FIRST_ATTEMPTS), {"ids": list(times)}).all()
    assert len(rows) == len(times) * ENDPOINTS
    passed = sorted(row.at - times[row.event_id] for row in rows)
    return float(passed[int(len(passed) * 0.99)])


def _record(sessions: sessionmaker[Session], customer: Customer, number: int) -> list[str]:
    ids = [str(new_id()) for _ in range(number)]
    with sessions.begin() as session:
        session.execute(text(_EVENTS), {"organisation_id": customer.organisation_id, "ids": ids})
    return ids


def _wait_until_sent(sessions: sessionmaker[Session]) -> None:
    def is_sent() -> bool:
        with sessions() as session:
            return not session.scalar(text(_IS_PENDING))

    wait_until(is_sent, "everything is sent to the endpoints that answer", 300)


_EVENTS = """
    INSERT INTO event (organisation_id, id, type, data)
    SELECT :organisation_id, id, 'batch.ended', '{"batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"}'
    FROM unnest(CAST(:ids AS uuid[])) AS id
"""
_IS_PENDING = """
    SELECT EXISTS (SELECT FROM webhook_endpoint AS endpoint JOIN webhook_delivery ON endpoint_id = endpoint.id
                   WHERE url LIKE '%/answer/%' AND state = 'PENDING')
"""
_FIRST_ATTEMPTS = """
    SELECT CAST(event_id AS text) AS event_id, CAST(extract(epoch FROM at) AS float) AS at
    FROM webhook_delivery AS delivery
    JOIN webhook_attempt AS attempt ON delivery_id = delivery.id AND number = 1
    JOIN webhook_endpoint AS endpoint ON endpoint.id = endpoint_id AND url LIKE '%/answer/%'
    WHERE event_id = ANY (CAST(:ids AS uuid[]))
"""


async def _receive() -> None:
    """Answer requests, those to /hang/ after some time."""
    server = await asyncio.start_server(_converse, "127.0.0.1", _PORT, backlog=1_000)
    async with server:
        await server.serve_forever()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            if head.startswith(b"POST /hang/"):
                await asyncio.sleep(_HANG_SECONDS)
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
