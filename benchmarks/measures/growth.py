"""All that is done with a book, with a million accounts in one supplier, and with few: two stacks, in turn.

The two differ in their rows only. The processes of both have just been started, because those of a service
that has worked have more threads and connections. Both have just written a checkpoint, because the first
change of a page after one is logged with the whole page.
"""

from collections.abc import Callable
from functools import partial

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates, compared_times
from benchmarks.measures.batches import reconcile
from benchmarks.prepare import running_bench
from migration_service.states import BatchKind

_PEER = "the same with few accounts"
#: Accounts that are imported together to fill the tables.
_PORTION = 50_000
#: A client's requests vary more than what is looked for.
_FEWEST_ROUNDS = 5


def measure_growth(bench: Bench) -> list[Row]:
    """Measure the time of one client's request, and the rate of work, with many accounts beside few."""
    with bench.stack.connect() as connection:
        connection.execute("TRUNCATE account, attempt CASCADE")
        templates = f"{bench.templates:08d}"
        connection.execute(
            "DELETE FROM account_import_process WHERE external_account_number >= %s", [templates]
        )
        connection.execute("VACUUM FULL account_import_process")
    for _ in range(0, bench.extent.filled, _PORTION):
        probes.import_staged(bench, _PORTION)
    bench.stack.maintain("VACUUM ANALYZE")
    bench.stack.stop_service()
    bench.stack.start_service()
    with running_bench(bench.extent, len(bench.texts)) as few:
        for each in (bench, few):
            each.stack.maintain("CHECKPOINT")
        requests = {"stage": partial(probes.stage, clients=1), "process": partial(probes.process, clients=1)}
        rows = [_compare(what, bench, few, probe) for what, probe in requests.items()]
        return [*rows, *(_compare_work(*work, (bench, few)) for work in _WORK)]


#: What is done with a book, its unit, how it is measured, and the most rounds: to reconcile takes minutes.
_WORK: tuple[tuple[str, str, Callable[[Bench], Reading], int], ...] = (
    ("batch import", "accounts/s", lambda bench: probes.import_accounts(bench, 0), 5),
    ("second delivery", "accounts/s", lambda bench: probes.deliver_again(bench, 0), 5),
    ("added data", "lines/s", lambda bench: probes.add_by_batch(bench, BatchKind.TRANSACTIONS), 5),
    ("undo", "accounts/s", probes.revert_batch, 5),
    ("report of a batch", "reports/s", lambda bench: probes.report(bench, bench.extent.seconds), 5),
    ("reconcile", "accounts/s", lambda bench: reconcile(bench, is_full=True), 1),
)


def _compare_work(
    what: str, unit: str, do: Callable[[Bench], Reading], rounds: int, benches: tuple[Bench, Bench]
) -> Row:
    many, few = benches
    rounds = min(rounds, many.extent.rounds)
    return compared_rates(
        f"{what} with {many.extent.filled:,} accounts there",
        unit,
        alternate(rounds, lambda: do(many), lambda: do(few)),
        peer_name=_PEER,
        than="with few",
        needed=0.9,
    )


def _compare(what: str, many: Bench, few: Bench, probe: Callable[[Bench, float], Reading]) -> Row:
    seconds = many.extent.seconds / 2
    for bench in (many, few):
        probe(bench, 1)
    rounds = max(_FEWEST_ROUNDS, many.extent.rounds)
    readings = alternate(rounds, lambda: probe(many, seconds), lambda: probe(few, seconds))
    what, goal = f"{what} with {many.extent.filled:,} accounts there", "at most 1.10 x with few"
    return compared_times(what, readings, peer_name=_PEER, goal=goal, relation="ratio", most=1.10)
