"""How many events are read from the feed a second.

What events cost an account is measured with `--compare`, beside a checkout without them.
"""

import http.client
import json
import time
from statistics import median

import psycopg

from benchmarks.bench import Bench, Row

_MEGABYTE = 1 << 20
#: Events in the feed that is read, each of one account.
_FILLED = 200_000
_GOAL = 50_000

# With numbers of transactions that have ended.
_FILL = """
    INSERT INTO event (organisation_id, transaction_id, import_supplier_id, type, data)
    SELECT organisation_id, transaction_id, id, 'account.created', jsonb_build_object(
        'external_account_number', number::text, 'service_account_number', 'A-7KX2M9QD',
        'attempt_id', gen_random_uuid())
    FROM import_supplier,
         (SELECT n AS number, 3 + n / 1000 AS transaction_id FROM generate_series(1, %s) AS n) AS told
"""


def measure_feed(bench: Bench) -> Row:
    """Measure events per second of the whole feed as NDJSON."""
    with psycopg.connect(bench.stack.superuser_url(), autocommit=True) as connection:
        connection.execute(_FILL, [_FILLED])
        connection.execute("ANALYZE event")
    rates = []
    for _ in range(bench.extent.rounds):
        started = time.perf_counter()
        events, _ = read_feed(bench)
        rates.append(events / (time.perf_counter() - started))
    rate = median(rates)
    return Row(
        f"reading {events:,} events",
        rate,
        "events/s",
        f"at least {_GOAL:,}",
        rate >= _GOAL,
        more={"rates": rates},
    )


def read_feed(bench: Bench, cursor: str = "start") -> tuple[int, str]:
    """Return the number of events after a cursor, and the cursor of the last one."""
    connection = http.client.HTTPConnection("127.0.0.1", bench.stack.web_port, timeout=120)
    headers = {"Authorization": f"Token {bench.token}", "Accept": "application/x-ndjson"}
    connection.request("GET", f"/v1/data-import/events/?cursor={cursor}", headers=headers)
    response = connection.getresponse()
    assert response.status == 200, response.read(500)
    events, tail = 0, b""
    while piece := response.read1(_MEGABYTE):
        events += piece.count(b"\n")
        tail = (tail + piece)[-_MEGABYTE:]
    connection.close()
    return events, json.loads(tail.splitlines()[-1])["cursor"] if events else cursor
