"""Work on many processors whose results come in order, in memory that stays small however much there is."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_processes(
    work: Callable[[_Item], _Result], items: Iterable[_Item], processes: int | None
) -> Iterator[_Result]:
    """Yield what `work` returns for each item, in their order.

    At most two items for each process are ahead of what was taken. The default is a process for each
    processor. Raise RuntimeError if one dies early.
    """
    number = processes or os.cpu_count() or 1
    if number == 1:
        yield from map(work, items)
        return
    pool = ProcessPoolExecutor(number, initializer=_follow_parent)
    waiting: deque[Future[_Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent of this worker process, and end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
    os._exit(1)
