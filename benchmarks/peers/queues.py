"""Peers e, f and g: the queues DBOS, procrastinate and awa. Their job is our statement of account creation.

    python queues.py NAME set-up             creates the tables of the queue
    python queues.py NAME work               is one worker process
    python queues.py NAME add FIRST COUNT    adds a job for each of COUNT import processes, from id FIRST on

Each has its fastest options: a job is one coroutine, without steps, and all jobs are added together.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass
from uuid import uuid4

from awa import AsyncClient
from dbos import DBOS, DBOSClient
from procrastinate import App, PsycopgConnector
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import create_engine

_URL = os.environ["DATABASE_URL"]
_QUEUE = "accounts"
#: Jobs at once in each process. With fewer, awa is slower, and with more, none is faster.
_AT_ONCE = 32
#: Seconds after which a queue looks for jobs again.
_POLLING = 0.02
_PLAN = "-c plan_cache_mode=force_generic_plan"
_pool = AsyncConnectionPool(
    _URL, min_size=_AT_ONCE, open=False, kwargs={"autocommit": True, "prepare_threshold": 0, "options": _PLAN}
)


async def _create(process_id: int) -> None:
    number = f"A-{uuid4().hex[:8].upper()}"
    values = {"process_ids": [process_id], "team_ids": [int(os.environ["TEAM_ID"])], "numbers": [number]}
    async with _pool.connection() as connection:
        await connection.execute(os.environ["CREATION"], values)


async def _dbos(act: str, ids: range) -> None:
    if act == "add":
        client = DBOSClient(system_database_url=_URL)
        with create_engine(_URL.replace("://", "+psycopg://", 1)).begin() as connection:
            for each in ids:
                order = {"queue_name": _QUEUE, "workflow_name": "create"}
                client.enqueue_in_transaction(connection, order, each)
        return
    DBOS(config={"name": "bench", "system_database_url": _URL, "log_level": "ERROR"})
    DBOS.workflow(name="create")(_create)
    DBOS.launch()
    await DBOS.register_queue_async(_QUEUE, worker_concurrency=_AT_ONCE, polling_interval_sec=_POLLING)
    if act == "set-up":
        DBOS.destroy()


async def _procrastinate(act: str, ids: range) -> None:
    app = App(connector=PsycopgConnector(conninfo=_URL))
    task = app.task(queue=_QUEUE, name="create")(_create)
    async with app.open_async():
        if act == "set-up":
            await app.schema_manager.apply_schema_async()
        elif act == "add":
            await task.batch_defer_async(*({"process_id": each} for each in ids))
        else:
            await app.run_worker_async(concurrency=_AT_ONCE, fetch_job_polling_interval=_POLLING)


@dataclass
class Create:
    process_id: int


async def _awa(act: str, ids: range) -> None:
    client = AsyncClient(_URL)
    if act == "set-up":
        await client.migrate()
        await client.install_queue_storage()
    elif act == "add":
        await client.enqueue_many_copy([Create(each) for each in ids], queue=_QUEUE)
    else:
        client.task(Create, queue=_QUEUE)(lambda job: _create(job.args.process_id))
        await client.start([(_QUEUE, _AT_ONCE)], poll_interval_ms=int(_POLLING * 1000))


_QUEUES = {"dbos": _dbos, "procrastinate": _procrastinate, "awa": _awa}


async def main(name: str, act: str, first: str = "0", count: str = "0") -> None:
    if act == "work":
        await _pool.open(wait=True)
    await _QUEUES[name](act, range(int(first), int(first) + int(count)))
    if act == "work":
        await asyncio.Event().wait()
    print(json.dumps({"added": time.time()}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
