"""Peer b: an empty Celery task, and its answer through the result backend on the same broker.

The worker is `celery -A empty_task worker`. Run as a script, this is the client:

    python empty_task.py latency SECONDS            one caller: the median in milliseconds
    python empty_task.py rate SECONDS THREADS       THREADS callers: results per second
"""

import json
import os
import statistics
import sys
import threading
import time

from celery import Celery

app = Celery("empty_task", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.update(
    task_default_queue="empty",
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    result_expires=60,
    broker_pool_limit=100,
    redis_max_connections=400,
)


@app.task(name="empty_task.answer")
def answer(value: str) -> str:
    """Do nothing. This is the least that the task of the process endpoint could do."""
    return value


def _measure(seconds: float) -> list[float]:
    times = []
    until = time.perf_counter() + seconds
    while (start := time.perf_counter()) < until:
        answer.delay("A-12345678").get(timeout=30)
        times.append(time.perf_counter() - start)
    return times


def main(what: str, seconds: str, threads: str = "1") -> None:
    _measure(0.5)
    results: list[list[float]] = []
    callers = [
        threading.Thread(target=lambda: results.append(_measure(float(seconds)))) for _ in range(int(threads))
    ]
    started = time.perf_counter()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    took = time.perf_counter() - started
    times = [each for result in results for each in result]
    print(
        json.dumps(
            {
                "requests": len(times),
                "seconds": took,
                "p50_ms": statistics.median(times) * 1000,
                "p95_ms": sorted(times)[int(len(times) * 0.95)] * 1000,
                "p99_ms": sorted(times)[int(len(times) * 0.99)] * 1000,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
