"""Batches with one worker process and with four, each with the same small share of a processor."""

from statistics import median

from benchmarks import probes
from benchmarks.bench import Bench, Reading, Row, alternate
from benchmarks.prepare import running_bench, say
from benchmarks.processor_quota import limited, quota_is_available
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service_local.up.options import Scale

_MANY = 4
#: The share of one processor that each worker process has: four of them leave enough to all other programs.
_SHARE = 0.1
_GOAL = 0.85
#: With a shorter batch its fixed cost, which four processes do not share, is most of what is measured.
_FEWEST = 2_000


def measure_workers(bench: Bench) -> list[Row]:
    """Measure how many times as much four worker processes do as one, of four times.

    The share stands for the processors that this machine does not have. What then keeps the four from four
    times the rate is what they share: locks, PostgreSQL, and the dispatch of chunks.
    """
    if not quota_is_available():
        say("left out: limiting the processor time of the workers needs root and control groups")
        return []
    count = max(_FEWEST, bench.extent.batch)
    with (
        running_bench(bench.extent, len(bench.texts), scale=_scale(1)) as alone,
        running_bench(bench.extent, len(bench.texts), scale=_scale(_MANY)) as together,
    ):
        for each in (alone, together):
            with each.sessions.begin() as session:
                set_concurrency_limit(session, None)  # the usual one has room for two chunks at a time
            _import(each, 100)
        one, four = alternate(
            max(3, bench.extent.rounds // 2),
            lambda: _import(alone, count),
            lambda: _import(together, count),
        )
    of_linear = median(many.rate / single.rate for many, single in zip(four, one, strict=True)) / _MANY
    return [
        Row(
            f"batch import, {_MANY} worker processes",
            median(each.rate for each in four),
            "accounts/s",
            f"at least {_GOAL} x {_MANY} x one process",
            of_linear >= _GOAL,
            median(each.rate for each in one),
            f"one process; each has {_SHARE:.0%} of a core",
            four,
            one,
            {"ratio": of_linear},
        )
    ]


def _scale(batch_workers: int) -> Scale:
    return Scale(web_workers=1, interactive_workers=1, batch_workers=batch_workers)


def _import(bench: Bench, count: int) -> Reading:
    workers = [process.pid for process in bench.stack.processes("background")[1:]]
    with limited(workers, _SHARE):
        return probes.import_batch(bench, bench.take_numbers(count), count)
