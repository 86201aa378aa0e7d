"""Peer b: an empty Celery task, and its answer through the result backend on the same broker.

The worker is `celery -A empty_task worker`. Run as a script, this is the client:

    python empty_task.py SECONDS THREADS
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from celery import Celery
from printing import print_result

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


def main(seconds: str, threads: str) -> None:
    _measure(0.5)
    started = time.perf_counter()
    with ThreadPoolExecutor(int(threads)) as pool:
        results = pool.map(_measure, [float(seconds)] * int(threads))
    print_result([each for result in results for each in result], time.perf_counter() - started)


if __name__ == "__main__":
    main(*sys.argv[1:])
