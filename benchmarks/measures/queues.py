"""Queues whose job is account creation (peers e to g), and throughput while the xmin horizon is pinned."""

import time
from functools import partial

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates
from benchmarks.costs import metered
from benchmarks.measures.reading import read_feed
from benchmarks.stack import PROCESSES
from migration_service.services.processing.creation import creation_statement

#: The peers, with the ratio that is needed.
_PEERS = {"dbos": ("e: DBOS", 2.0), "procrastinate": ("f: procrastinate", 1.0), "awa": ("g: awa", 1.0)}
_FIRST_JOBS = 100


def measure_queues(bench: Bench) -> list[Row]:
    """Measure accounts per second of a batch of staged accounts, and of a queue with a job for each."""
    for name in _PEERS:
        bench.peer("queues.py", name, "set-up")
    probes.import_staged(bench, _FIRST_JOBS)
    mine, *peers = alternate(
        max(2, bench.extent.rounds // 2),
        partial(probes.import_staged, bench, bench.extent.batch),
        *(partial(_queue, bench, name) for name in _PEERS),
    )
    return [
        compared_rates(
            "batch of staged accounts",
            "accounts/s",
            (mine, theirs),
            peer_name=peer,
            than=f"peer {peer[0]}",
            needed=needed,
        )
        for theirs, (peer, needed) in zip(peers, _PEERS.values(), strict=True)
    ]


def _queue(bench: Bench, name: str) -> Reading:
    """Run as many workers as ours, from the last job added to the last account."""
    workers = [f"{name}-{number}" for number in range(PROCESSES)]
    url = bench.stack.settings.owner_database_url
    values = {"DATABASE_URL": url, "CREATION": creation_statement(), "TEAM_ID": "1"}
    for worker in workers:
        bench.stack.start_peer(worker, ["-m", "queues", name, "work"], values)
    _do_jobs(bench, name, _FIRST_JOBS)
    reading = _do_jobs(bench, name, bench.extent.batch)
    bench.stack.stop(*workers)
    return reading


def _do_jobs(bench: Bench, name: str, count: int) -> Reading:
    ids = probes.stage_numbers(bench, count)
    created = "SELECT count(*) FROM account WHERE account_import_process_id BETWEEN %s AND %s"
    with metered(bench.stack) as meter, bench.stack.connect() as connection:
        added = bench.peer("queues.py", name, "add", str(min(ids)), str(count))["added"]
        while connection.execute(created, [min(ids), max(ids)]).fetchone() != (count,):
            time.sleep(0.05)
    return Reading(count, count / (time.time() - added), costs=meter.of_one(count))


def measure_pinned_horizon(bench: Bench) -> list[Row]:
    """Measure at the end of a time in which a transaction keeps all dead rows from removal, and after it.

    The tables grow meanwhile, so they are compared with themselves, once VACUUM has removed these rows.
    """
    loads = (
        partial(probes.process, bench, bench.extent.seconds),
        partial(probes.import_accounts, bench, 0),
    )
    rounds = bench.extent.rounds
    with bench.stack.connect() as pinning, pinning.transaction():
        pinning.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        pinning.execute("SELECT FROM batch")
        # It has a number, so that no event of a later transaction can be read.
        pinning.execute("SELECT pg_current_xact_id()")
        _, cursor = read_feed(bench)
        until = time.monotonic() + bench.extent.pinned
        while time.monotonic() < until:
            alternate(1, *loads)
        pinned = alternate(rounds, *loads)
        held_back, _ = read_feed(bench, cursor)
    caught_up, _ = read_feed(bench, cursor)
    what, are_all = "events read after that, which were all held back", held_back.count == 0 < caught_up.count
    catching_up = Row(what, caught_up.rate, "events/s", "all of them", are_all)
    bench.stack.maintain("VACUUM")
    alternate(1, *loads)
    after = alternate(rounds, *loads)
    what = f"with the xmin horizon pinned for {bench.extent.pinned:g} seconds"
    rates = [
        compared_rates(
            f"{name} {what}",
            "accounts/s",
            readings,
            peer_name="after it",
            than="after it",
            needed=0.9,
        )
        for name, *readings in zip(("process", "batch import"), pinned, after, strict=True)
    ]
    return [*rates, catching_up]
