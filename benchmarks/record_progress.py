"""Record what the estimate of the time left sees of a batch: `python -m benchmarks.record_progress`.

    python -m benchmarks.record_progress BATCH_ID "quiet import" FILE

It reads the database of DATABASE_URL each second until the batch is over. tests/unit/services/batches/
test_recorded_runs.py compares the estimate with such runs. Times are seconds since the batch
was stored. A sample has the time, the state, when the batch last began to run, the lines that are left, and
the chunks that were worked on since the sample before: first line, lines worked on, time.
"""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

_BATCH = """
    SELECT extract(epoch FROM clock_timestamp() - created_at), state, lines, lines_per_minute,
           extract(epoch FROM coalesce(runs_since, created_at) - created_at),
           (SELECT coalesce(sum(CAST(counts ->> 'PENDING' AS bigint)), 0)
            FROM batch_chunk WHERE batch_id = batch.id)
    FROM batch WHERE id = %(id)s
"""
_CHUNKS = """
    SELECT first_line, worked, extract(epoch FROM worked_at - created_at)
    FROM batch_chunk JOIN batch ON batch.id = batch_id WHERE batch_id = %(id)s AND worked > 0 ORDER BY 3, 1
"""
_OVER = ("COMPLETED", "CANCELLED", "STOPPED")


def main() -> None:
    """Record one batch."""
    batch_id, name, target = sys.argv[1:]
    record: dict[str, Any] = {"run": name, "samples": []}
    seen: dict[int, tuple[int, float]] = {}
    state = ""
    while state not in _OVER:
        with suppress(psycopg.Error):  # the server was killed: that is what some runs are about
            state = _sample(batch_id, record, seen)
        time.sleep(1)
    Path(target).write_text(_write(record))


def _sample(batch_id: str, record: dict[str, Any], seen: dict[int, tuple[int, float]]) -> str:
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        row = connection.execute(_BATCH, {"id": batch_id}).fetchone()
        chunks = connection.execute(_CHUNKS, {"id": batch_id}).fetchall()
    assert row
    moment, state, lines, limit, since, left = row
    found = {first: (worked, round(float(at), 2)) for first, worked, at in chunks}
    changed = [[first, *now] for first, now in found.items() if seen.get(first) != now]
    seen.update(found)
    record.update(lines=lines, lines_per_minute=limit)
    record["samples"].append([round(float(moment), 2), state, round(float(since), 2), int(left), changed])
    return str(state)


def _write(record: dict[str, Any]) -> str:
    """Return the recording as JSON with a line for each sample."""
    head = json.dumps({key: value for key, value in record.items() if key != "samples"})[:-1]
    samples = ",\n".join(json.dumps(sample, separators=(",", ":")) for sample in record["samples"])
    return f'{head}, "samples": [\n{samples}\n]}}\n'


if __name__ == "__main__":
    main()
