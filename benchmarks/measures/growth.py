"""All that is done with a book, with a million accounts in one supplier, and with few: two stacks, in turn.

The two differ in their rows only. The processes of both have just been started, because those of a service
that has worked have more threads and connections. Both have just written a checkpoint, because the first
change of a page after one is logged with the whole page.
"""

from collections.abc import Callable
from statistics import median

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate, compared_rates
from benchmarks.measures.batches import reconcile
from benchmarks.measures.undo import revert_batch
from benchmarks.prepare import running_bench
from benchmarks.seed import empty_tables, vacuum, write_checkpoint
from migration_service.states import BatchKind

_GOAL, _GOAL_OF_WORK = 1.10, 0.9
#: Accounts that are imported together to fill the tables.
_PORTION = 50_000
#: A client's requests vary more than what is looked for.
_FEWEST_ROUNDS = 5


def measure_growth(bench: Bench) -> list[Row]:
    """Measure the time of one client's request, and the rate of work, with many accounts beside few."""
    empty_tables(bench.stack.settings, bench.templates)
    for _ in range(0, bench.extent.filled, _PORTION):
        probes.import_staged(bench, _PORTION)
    vacuum(bench.stack.superuser_url())
    bench.stack.stop_service()
    bench.stack.start_service()
    rows = []
    with running_bench(bench.extent, len(bench.texts)) as few:
        for each in (bench, few):
            write_checkpoint(each.stack.superuser_url())
        for what, probe in (("stage", probes.stage_one), ("process", probes.process_one)):
            rows.append(_compare(what, bench, few, probe))
        rows += [_compare_work(*work, (bench, few)) for work in _WORK]
    return rows


#: What is done with a book, its unit, how it is measured, and the most rounds: to reconcile takes minutes.
_WORK: tuple[tuple[str, str, Callable[[Bench], Reading], int], ...] = (
    ("batch import", "accounts/s", lambda bench: probes.import_accounts(bench, 0), 5),
    ("second delivery", "accounts/s", lambda bench: probes.deliver_again(bench, 0), 5),
    ("added data", "lines/s", lambda bench: probes.add_by_batch(bench, BatchKind.TRANSACTIONS), 5),
    ("undo", "accounts/s", revert_batch, 5),
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
        peer_name="the same with few accounts",
        goal=f"at least {_GOAL_OF_WORK} x with few",
        needed=_GOAL_OF_WORK,
    )


def _compare(what: str, many: Bench, few: Bench, probe: Callable[[Bench, float], Reading]) -> Row:
    seconds = many.extent.seconds / 2
    for bench in (many, few):
        probe(bench, 1)
    rounds = max(_FEWEST_ROUNDS, many.extent.rounds)
    large, small = alternate(rounds, lambda: probe(many, seconds), lambda: probe(few, seconds))
    return _row(what, many.extent.filled, large, small)


def _row(what: str, filled: int, large: list[Reading], small: list[Reading]) -> Row:
    times = [[reading.p50_ms or 0.0 for reading in readings] for readings in (large, small)]
    ratio = median(one / other for one, other in zip(*times, strict=True))
    return Row(
        f"{what} with {filled:,} accounts there",
        median(times[0]),
        "ms",
        f"at most {_GOAL:.2f} x with few",
        ratio <= _GOAL,
        median(times[1]),
        "the same with few accounts",
        large,
        small,
        {"ratio": ratio},
    )
